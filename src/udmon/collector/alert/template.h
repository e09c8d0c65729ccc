/* Texts of alert rules, in which {{ $labels.NAME }} and {{ $value }} stand for an alert's label and
 * value. */
#ifndef UDMON_ALERT_TEMPLATE_H
#define UDMON_ALERT_TEMPLATE_H

#include "labels.h"

/** Returns NULL, or why the text cannot be used. */
const char *template_check(const char *text);
/** The text with values, of a text that template_check() accepts. The caller's, or NULL: no memory.
 * */
char *template_expand(const char *text, const struct labels *labels, double value);

/** Writes a number with as many digits as it needs, as NaN, +Inf and -Inf are written in
 * Prometheus. */
void template_number(double value, char text[32]);

#endif

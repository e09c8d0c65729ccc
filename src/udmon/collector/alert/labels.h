/* A set of labels: names and values without escapes, sorted by name. */
#ifndef UDMON_ALERT_LABELS_H
#define UDMON_ALERT_LABELS_H

#include <stdbool.h>
#include <stddef.h>

struct label {
    char *name, *value;
};

struct labels {
    struct label *list;
    size_t count;
};

void labels_free(struct labels *labels);
/** Sets or replaces a label. An empty value removes the label. False: no memory. */
bool labels_set(struct labels *labels, const char *name, const char *value);
/** The value of a label; "" if the set does not have the label. */
const char *labels_get(const struct labels *labels, const char *name);
/**
 * Adds the labels of a line of Prometheus' text format. `at` points behind the name of the series.
 * Returns the end of the labels, or NULL: no memory.
 */
const char *labels_parse(struct labels *labels, const char *at);
/** The labels as they stand between the braces of the text format. The caller's, or NULL. */
char *labels_text(const struct labels *labels);

#endif

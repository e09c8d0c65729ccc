/*
 * Alert rules, from a file in the format of Prometheus' rule files:
 *
 *     groups:
 *       - name: nodes
 *         interval: 15s
 *         rules:
 *           - alert: NodeDown
 *             expr: udmon_node_up == 0
 *             for: 1m
 *             keep_firing_for: 5m
 *             labels: {severity: critical}
 *             annotations: {summary: "{{ $labels.node }} is down"}
 *
 * Expressions are simple (expr.h), and so are templates (template.h). Everything else in a rule
 * file is refused.
 */
#ifndef UDMON_ALERT_RULES_H
#define UDMON_ALERT_RULES_H

#include "expr.h"
#include "labels.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RULES_MAX = 1000, RULES_INTERVAL_MS = 15000 };

struct rule {
    char *group, *name, *text; /* the text of the expression */
    int line;
    struct expr expr;
    uint64_t interval_ms, for_ms, keep_ms; /* keep: how long an alert fires after its end */
    struct labels labels, annotations;     /* with templates */
};

struct rules {
    struct rule *list;
    size_t count;
};

/** -EINVAL or another error; the log has a line for each wrong rule. Then nothing needs to be
 * freed. */
int rules_load(const char *file, struct rules *rules);
void rules_free(struct rules *rules);
/** Whether alerts of one rule are alerts of the other. */
bool rule_same(const struct rule *a, const struct rule *b);
/** A time as 1h30m; false: it is none. */
bool rules_duration(const char *text, uint64_t *ms_p);

#endif

/*
 * Alerts: which rules hold for which series, and since when. Rules are evaluated on the text that
 * /metrics serves, so a rule means the same here and in Prometheus.
 *
 *     (none) -> PENDING    the expression begins to hold
 *     PENDING -> (none)    the expression no longer holds
 *     PENDING -> FIRING    the expression has held for `for`; at once without `for`
 *     FIRING -> RESOLVED   the expression has not held for `keep_firing_for`
 *     RESOLVED -> PENDING  the expression holds again
 *     RESOLVED -> (none)   after ALERTS_RESOLVED_NS, when the channels have told the end
 *
 * A thread evaluates the rules (alerts_open). Other threads read the alerts with the lock held.
 * Only the evaluating thread changes rules and alerts, with the lock held. The evaluating thread
 * reads them without the lock. /metrics waits for the lock, so samples are read before the lock is
 * taken.
 */
#ifndef UDMON_ALERT_ALERTS_H
#define UDMON_ALERT_ALERTS_H

#include "labels.h"
#include "rules.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/queue.h>

enum { ALERTS_MAX = 20000, ALERTS_ENDS_MAX = ALERTS_MAX / 2 };
enum { ALERTS_WEBHOOK, ALERTS_COMMAND, ALERTS_CHANNELS };
#define ALERTS_RESOLVED_NS UINT64_C(900000000000)

enum alert_state { ALERT_PENDING, ALERT_FIRING, ALERT_RESOLVED };
enum { ALERT_STATES = ALERT_RESOLVED + 1 };

/* What a channel (notify.h) has told about an alert. */
struct alert_told {
    uint32_t version; /* 0: nothing yet */
    uint64_t at_ns;
    uint32_t batch_version; /* what the message under way tells */
    uint64_t batch;         /* its number */
};

struct alert {
    LIST_ENTRY(alert) list;
    const struct rule *rule;
    struct labels labels; /* of the series and the rule, and alertname */
    char *key;            /* the labels as text */
    enum alert_state state;
    double value;                             /* when the expression held last */
    int64_t active_ms, fired_ms, resolved_ms; /* since 1970 */
    uint64_t active_ns, held_ns, resolved_ns; /* the same by udmon_now_ns; `held`: last */
    uint64_t evaluation; /* the last one in which the expression held; of the evaluating thread */
    double next_value;   /* in this evaluation; of the evaluating thread */
    uint32_t version;    /* counts changes to FIRING and RESOLVED */
    struct alert_told told[ALERTS_CHANNELS];
};

struct alerts_options {
    const char *rules_file;
    /* Writes the present samples in Prometheus' text format; at least the families that
     * alerts_wants() wants. */
    void (*write_samples)(void *arg, FILE *out);
    void *arg;
};

struct alerts {
    struct alerts_options options;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* news for channels, or `stopping`, or new rules */
    pthread_t thread;
    int stopping;
    struct rules rules, next_rules; /* `next`: to be taken over by the thread */
    bool has_next;
    uint64_t *due_ns;               /* of each rule: the next evaluation */
    const char **metrics;           /* of the rules, sorted */
    LIST_HEAD(, alert) list, fresh; /* fresh: new alerts of this evaluation */
    void *tree;                     /* of the alerts, by rule and labels */
    size_t count;
    uint64_t evaluation; /* number of the last one */
    uint64_t batch;      /* number of the last message */
    uint64_t discarded;  /* alerts beyond ALERTS_MAX, and ends beyond ALERTS_ENDS_MAX */
    uint64_t sent[ALERTS_CHANNELS], failed[ALERTS_CHANNELS]; /* messages */
};

/** Without a thread: for tests. Rules are read from the file of the options. */
int alerts_init(struct alerts *alerts, const struct alerts_options *options);
void alerts_destroy(struct alerts *alerts);
/** With a thread. On failure, a line in the log has the reason. */
int alerts_open(struct alerts *alerts, const struct alerts_options *options);
void alerts_close(struct alerts *alerts);

/** Reads the rules again. Alerts of unchanged rules stay. Wrong rules change nothing. */
void alerts_reload(struct alerts *alerts);

/** By the evaluating thread: whether a rule needs this family. A counter's name lacks _total. */
bool alerts_wants(const struct alerts *alerts, const char *name, size_t length, int counter);
/** By the evaluating thread: how long to wait for the next evaluation; 0: now. */
uint64_t alerts_wait_ns(const struct alerts *alerts, uint64_t now_ns);
/** By the evaluating thread, without the lock: evaluates the rules that are due, on samples as
 * text. */
void alerts_evaluate(struct alerts *alerts, const char *text, uint64_t now_ns, int64_t now_ms);

#endif

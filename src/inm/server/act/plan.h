/*
 * Plans: the effects of a maintenance before it is done.
 *
 * drain PLACE   no data passes a chip, switch or cabinet any more; its links stay up
 * cut PORT      a link is switched off
 * add PORT PORT a link is added, or a link in maintenance is taken back into use
 *
 * A plan is made from the tables that the chips have and from the discovered network. apply_plan()
 * refuses a plan if one of the two has changed since.
 */
#ifndef INM_PLAN_H
#define INM_PLAN_H

#include "inm/server/core/inmd.h"
#include "tables.h"

enum plan_action { PLAN_DRAIN, PLAN_CUT, PLAN_ADD };

struct inm_plan {
    uint32_t id;
    enum plan_action action;
    char target[INM_NAME_MAX], other[INM_NAME_MAX]; /* other: of PLAN_ADD */
    double when;
    uint64_t before, after;   /* graph_print() of the network in use */
    uint32_t chips;           /* chips that the plan drains */
    uint32_t hosts_lost;      /* lose their connection */
    uint32_t hosts_fragile;   /* lose their redundancy: one more fault would cut them off */
    uint32_t routers_cut_off; /* cannot be managed any more */
    uint8_t *host;            /* by NIC: 1 lost, 2 fragile */
    struct table_changes changes;
    double load_before, load_after;     /* pairs of hosts on the most loaded link between routers */
    uint32_t worst_before, worst_after; /* port of the most loaded link between routers; INM_NONE:
                                         * none */
    double level_before[INM_LEVEL_NUM][2], level_after[INM_LEVEL_NUM][2];
    /* the most loaded link that leaves a level upwards (0) and downwards (1) */
    bool deadlock_free;
};

/** Returns the name of an action, and the action of a name. */
const char *plan_action_name(enum plan_action action);
enum plan_action plan_action_parse(const char *name);

/**
 * Makes a plan and keeps it; the last PLANS plans are kept. The caller holds `busy`.
 * @return NULL with `error` set.
 */
const struct inm_plan *plan_make(struct inmd *d, enum plan_action action, const char *target,
                                 const char *other, char *error, size_t size);
const struct inm_plan *plan_find(struct inmd *d, uint32_t id);

/** Does a plan. The caller holds `busy`. @return false with a message in `result`. */
bool plan_apply(struct inmd *d, uint32_t id, struct route_result *result);

/** Undoes the plan that was applied last. */
bool plan_undo(struct inmd *d, struct route_result *result);

/* What has been applied and not undone. */
struct inm_applied {
    enum plan_action action;
    char target[INM_NAME_MAX], other[INM_NAME_MAX];
    double when;
};
/** With the lock held: the applied plans, the oldest first. @return How many. */
uint32_t plan_applied(const struct inmd *d, const struct inm_applied **applied);

/** Reads the applied plans of the last run; frees all. */
bool plan_init(struct inmd *d);
void plan_free(struct inmd *d);

#endif

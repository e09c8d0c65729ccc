/*
 * The rules between the state of a VC and its flags: the table "state x flag" of docs/protocol.md,
 * section 4. A debug build checks the rules of some VCs at the end of each progress call. The tests
 * of test/uct call uct_glex_rules_broken() in every build. So this header has the functions.
 */
#ifndef UCT_GLEX_RULES_H
#define UCT_GLEX_RULES_H

#include "chan/glex_er.h"

/* `states` has a letter for each state in which the flag may be set, and '-' for other states */
typedef struct uct_glex_rule {
    const char *flag;
    const char *states;
} uct_glex_rule_t;

/* In the order of the bits of uct_glex_rules_flags() */
static const uct_glex_rule_t uct_glex_rules[] = {
    {"er_tx", "WCAO--"},         {"lent", "--AOPF"},          {"ctl_inflight", "---O--"},
    {"connect_again", "---O--"}, {"peer_left", "WCAO--"},     {"peer_dead", "WCAOP-"},
    {"is_claimed", "WCAOPF"},    {"is_stale", "WCAO--"},      {"has_refused", "WCAOPF"},
    {"dirty", "WCAOPF"},         {"check_pending", "---O--"}, {"resume_due", "WCAOPF"},
};

/** The flags of a VC as bits, in the order of uct_glex_rules[] */
static inline uint32_t uct_glex_rules_flags(const uct_glex_vc_t *vc)
{
    const int flags[] = {
        vc->er_tx != NULL, uct_glex_er_is_lent(vc),
        vc->ctl_inflight,  vc->connect_again,
        vc->peer_left,     vc->peer_dead,
        vc->is_claimed,    vc->is_stale,
        vc->has_refused,   vc->dirty,
        vc->check_pending, vc->resume_due,
    };
    uint32_t bits = 0;
    unsigned i;

    UCS_STATIC_ASSERT(ucs_static_array_size(flags) == ucs_static_array_size(uct_glex_rules));
    for (i = 0; i < ucs_static_array_size(flags); ++i) {
        bits |= (uint32_t)flags[i] << i;
    }
    return bits;
}

/** Returns the name of a flag that contradicts the state or another member of the VC, or NULL. No
 *  function that changes the VC may be running. */
static inline const char *uct_glex_rules_broken(const uct_glex_vc_t *vc)
{
    uint32_t flags = uct_glex_rules_flags(vc);
    unsigned i;

    for (; flags != 0; flags &= flags - 1) {
        i = ucs_ffs64(flags);
        if (uct_glex_rules[i].states[vc->state] == '-') {
            return uct_glex_rules[i].flag;
        }
    }
    if (uct_glex_er_is_lent(vc) && (vc->lease != NULL)) {
        return "lent"; /* the lease has the FIFO */
    }
    if (vc->is_claimed && !vc->peer_left && !uct_glex_vc_is_over(vc)) {
        return "is_claimed";
    }
    return NULL;
}

/* VCs that a progress call of a debug build checks. The next calls check other VCs. */
#define UCT_GLEX_RULES_BATCH 4u

/** Check the rules of some VCs. Aborts if a rule is broken. */
static inline void uct_glex_rules_check(const uct_glex_iface_t *iface)
{
    unsigned count = ucs_min(iface->num_vcs, UCT_GLEX_RULES_BATCH);
    /* `until_errors` changes by 1 with each progress call, and `errors_next` when it is reset */
    uint64_t first = (iface->errors_next + iface->until_errors) * UCT_GLEX_RULES_BATCH;
    const uct_glex_vc_t *vc;
    const char *flag;
    unsigned i;

    for (i = 0; i < count; ++i) {
        vc = iface->vcs[(first + i) % iface->num_vcs];
        flag = uct_glex_rules_broken(vc);
        if (flag != NULL) {
            ucs_fatal("glex: vc 0x%x to endpoint 0x%" PRIx64 " in state %u contradicts its flag %s",
                      vc->id, vc->peer, vc->state, flag);
        }
    }
}

#endif

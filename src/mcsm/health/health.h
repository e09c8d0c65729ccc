/*
 * The health of links: the manager polls the counters of both ends, and takes a link out of routing
 * for some time if the link has too many errors or goes down too often.
 *
 *     UP -> HELD     errors or flaps reached the limit in the window, and no node is lost
 *     UP -> KEPT     the same, but the link is the only way to a node: it stays, with an alarm
 *     KEPT -> UP     the window is below the limits again
 *     HELD -> UP     the time is over, the administrator releases the link, or another link has
 *                    failed and this link is needed
 *
 * Each hold lasts twice as long as the hold before, up to hold-max. A link that was good for
 * hold-max starts with the shortest time again.
 *
 * A border link has one end here: this end is polled. The link is never HELD, because the other end
 * belongs to another manager.
 *
 * Only the master polls. The object outlives a new configuration: mcsm_health_attach(). The holds
 * outlive the process, in STATE-DIR/NAME.holds, and go to standby managers.
 */
#ifndef MCSM_HEALTH_H
#define MCSM_HEALTH_H

#include "counters.h"
#include "standby/standby.h"

enum { MCSM_HEALTH_BUCKETS = 8 };

enum mcsm_link_state { MCSM_LINK_UP, MCSM_LINK_DOWN, MCSM_LINK_KEPT, MCSM_LINK_HELD };

struct mcsm_link_end {
    struct mcsm_link *link;
    uint64_t guid;
    uint8_t port;
    uint16_t reset; /* CounterSelect of the reset in flight */
    struct mcsm_counters counters;
};

/* A link of the cluster, from its end with the lower GUID and port. The window is divided into
 * buckets of equal time. */
struct mcsm_link {
    UT_hash_handle hh;
    struct {
        uint64_t guid, port;
    } key;
    struct mcsm_link_end ends[2];
    bool border;             /* ends[1] is in another cluster and has no counters */
    bool up;                 /* at the last sweep */
    uint64_t seen;           /* time when the link was last up */
    unsigned flaps_by_sweep; /* since the last poll */
    uint64_t errors[MCSM_HEALTH_BUCKETS], flaps[MCSM_HEALTH_BUCKETS];
    uint64_t total_flaps;
    uint64_t bucket;     /* number of the present one */
    uint64_t held_until; /* 0: not held */
    unsigned left_out;   /* routes that the contract left out before the hold */
    bool contract_needs; /* during a hold the contract left out more routes */
    uint64_t good_since; /* the end of the last hold */
    unsigned holds;      /* in a row: the next hold lasts 2^holds times the shortest */
    char kept[80];       /* why the link stays although it is beyond a limit; else empty */
};

struct mcsm_health;

struct mcsm_health *mcsm_health_new(struct mcsm_mads *mads);
void mcsm_health_free(struct mcsm_health *health);

/** The manager and its configuration, also after a new configuration. Requests in flight must have
 * been dropped. */
void mcsm_health_attach(struct mcsm_health *health, struct mcsm_sm *sm,
                        struct mcsm_standbys *standbys);

/** After each heavy sweep. Times are in milliseconds of mcsm_now(). */
void mcsm_health_swept(struct mcsm_health *health, uint64_t now);

/** Polls, judges, and ends holds. Call it every few milliseconds. */
void mcsm_health_run(struct mcsm_health *health, uint64_t now);

/** Ends the hold of the link with this end, and forgets its history. -ENOENT if it is not held. */
int mcsm_health_release(struct mcsm_health *health, uint64_t guid, uint8_t port);

/* ---- for the commands and metrics ---- */

struct mcsm_link *mcsm_health_links(const struct mcsm_health *health); /* a hash: HASH_ITER */
struct mcsm_link *mcsm_health_find(const struct mcsm_health *health, uint64_t guid, uint8_t port);
/** The node of an end; for the far end of a border link, the name of its cluster. */
const char *mcsm_health_name(const struct mcsm_health *health, const struct mcsm_link_end *end);
enum mcsm_link_state mcsm_health_state(const struct mcsm_link *link);
uint64_t mcsm_health_errors(const struct mcsm_link *link); /* in the window */
uint64_t mcsm_health_flaps(const struct mcsm_link *link);
unsigned mcsm_health_held(const struct mcsm_health *health); /* links */
uint64_t mcsm_health_polls(const struct mcsm_health *health);
double
mcsm_health_seconds(const struct mcsm_health *health); /* between the last two polls; 0: none */

#endif

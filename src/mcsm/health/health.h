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
 * outlive the process, in STATE-DIR/NAME.holds.
 */
#ifndef MCSM_HEALTH_H
#define MCSM_HEALTH_H

#include "counters.h"
#include "sm/sm.h"

enum { MCSM_HEALTH_BUCKETS = 8 };

typedef enum mcsm_link_state {
    MCSM_LINK_UP,
    MCSM_LINK_DOWN,
    MCSM_LINK_KEPT,
    MCSM_LINK_HELD
} mcsm_link_state_t;

typedef struct mcsm_link_end {
    struct mcsm_link *link;
    uint64_t guid;
    uint8_t port;
    uint16_t reset; /* CounterSelect of the reset in flight */
    mcsm_counters_t counters;
} mcsm_link_end_t;

/* A link of the cluster, from its end with the lower GUID and port. The window is divided into
 * buckets of equal time. */
typedef struct mcsm_link {
    UT_hash_handle hh;
    struct {
        uint64_t guid, port;
    } key;
    mcsm_link_end_t ends[2];
    bool border;             /* ends[1] is in another cluster and has no counters */
    bool up;                 /* at the last sweep */
    uint64_t seen;           /* when it was up last */
    unsigned flaps_by_sweep; /* since the last poll */
    uint64_t errors[MCSM_HEALTH_BUCKETS], flaps[MCSM_HEALTH_BUCKETS];
    uint64_t total_flaps;
    uint64_t bucket;     /* number of the present one */
    uint64_t held_until; /* 0: not held */
    uint64_t good_since; /* the end of the last hold */
    unsigned holds;      /* in a row: the next hold lasts 2^holds times the shortest */
    char kept[80];       /* why the link stays although it is beyond a limit; else empty */
} mcsm_link_t;

typedef struct mcsm_health mcsm_health_t;

mcsm_health_t *mcsm_health_new(mcsm_mads_t *mads);
void mcsm_health_free(mcsm_health_t *health);

/* The manager and its configuration, also after a new configuration. Requests in flight must have
 * been dropped. */
void mcsm_health_attach(mcsm_health_t *health, mcsm_sm_t *sm);

/* After each heavy sweep. Times are in milliseconds of mcsm_now(). */
void mcsm_health_swept(mcsm_health_t *health, uint64_t now);

/* Polls, judges, and ends holds. Call it every few milliseconds. */
void mcsm_health_run(mcsm_health_t *health, uint64_t now);

/* Ends the hold of the link with this end, and forgets its history. -ENOENT if it is not held. */
int mcsm_health_release(mcsm_health_t *health, uint64_t guid, uint8_t port);

/* ---- for the commands and metrics ---- */

mcsm_link_t *mcsm_health_links(const mcsm_health_t *health); /* a hash: HASH_ITER */
mcsm_link_t *mcsm_health_find(const mcsm_health_t *health, uint64_t guid, uint8_t port);
/* The node of an end; for the far end of a border link, the name of its cluster. */
const char *mcsm_health_name(const mcsm_health_t *health, const mcsm_link_end_t *end);
mcsm_link_state_t mcsm_health_state(const mcsm_link_t *link);
uint64_t mcsm_health_errors(const mcsm_link_t *link); /* in the window */
uint64_t mcsm_health_flaps(const mcsm_link_t *link);
unsigned mcsm_health_held(const mcsm_health_t *health); /* links */
uint64_t mcsm_health_polls(const mcsm_health_t *health);
double mcsm_health_seconds(const mcsm_health_t *health); /* between the last two polls; 0: none */

#endif

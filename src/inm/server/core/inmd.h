/*
 * The state of the server.
 *
 * Threads: reports and alarms; polls; other servers; the history; alerts; and a thread for each
 * HTTP connection. `lock` guards everything below it in struct inmd.
 * No thread waits for the network while it holds the lock.
 */
#ifndef INM_INMD_H
#define INM_INMD_H

#include "alarm.h"
#include "base.h"
#include "common/nmp.h"
#include "config.h"
#include "discover.h"
#include "history.h"
#include "inm/topo/topo.h"
#include "inm/wire/table.h"
#include "net.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define INM_EVENTS 16384 /* reports kept in memory; the history has all */

/* The known condition of the parts of the network. Alarms are computed from it. */
struct inm_status {
    uint8_t *down;                    /* by port: an expected link is missing */
    uint8_t *lanes;                   /* by port; 0: not reported */
    uint8_t *hot;                     /* by chip */
    uint8_t *mute;                    /* by chip: linked, but no answer */
    int32_t *temperature;             /* by chip, thousandths of a degree; 0: not read */
    uint32_t *flaps;                  /* by port: downs within the window */
    double *flap_time;                /* by port: beginning of the window */
    double *retry_time;               /* by port: the last report */
    uint64_t *retries;                /* by chip: at the last poll */
    uint64_t *retry_delta;            /* by chip: between the last two polls */
    uint64_t *crc_errors, *crc_delta; /* by chip: the same of CRC errors */
    uint64_t *bist_errors;            /* by port, of the last test */
    uint32_t *seq;                    /* by chip: of its last report */
};

struct inm_region_state {
    bool alive;
    bool taken; /* by this server */
    uint32_t misses;
    double since;
};

struct inmd {
    struct inm_config config;
    struct inm_topo *topo; /* the expected network; does not change */
    struct net *net;
    struct history *history;
    struct auth *auth;
    volatile int stop;
    double started;
    pthread_mutex_t busy; /* long operations, one at a time: discovery, routes, BIST */

    pthread_mutex_t lock;
    pthread_cond_t changed; /* with lock: version has increased */
    uint64_t version;       /* of all that pages show */
    enum inm_network network;
    struct inm_found found;
    struct inm_status status;
    struct inm_alarm *alarms; /* ordered by key */
    uint32_t num_alarms;
    struct inm_event *events; /* a ring; event n is at n % INM_EVENTS */
    uint64_t next_event;
    uint64_t reports, reports_missing; /* missing: gaps in a chip's numbers */
    uint64_t polls;
    double poll_seconds;
    bool dirty;               /* alarms have to be computed again */
    double rediscover;        /* when to discover again; 0: not planned */
    struct inm_table *tables; /* by NRC: generated; NULL: none; changes with `busy` held */
    double *table_load;       /* of the tables: see struct routes */
    uint8_t *table_connected;
    uint64_t table_print;
    bool tables_loaded; /* the chips have these tables */
    char table_kind[16];
    struct plans *plans;
    struct load *load;
    struct alerts *alerts;
    double last_snapshot;
    uint8_t *gone; /* by chip: in maintenance, not to be used for data */
    uint8_t *cut;  /* by port: in maintenance, switched off */
    struct inm_region_state peers[INM_MAX_PEERS];
};

/** With the lock held: wakes the pages. */
static inline void inmd_touch(struct inmd *d)
{
    d->version++;
    pthread_cond_broadcast(&d->changed);
}

#endif

/* The daemon: the manager, the administration and the control socket around one event loop. */
#ifndef MCSM_DAEMON_H
#define MCSM_DAEMON_H

#include "../health/health.h"
#include "../mad/umad.h"
#include "../sa/sa.h"
#include "../sm/sm.h"

typedef struct mcsm_daemon {
    mcsm_config_t *config;
    mcsm_umad_t *umad;
    mcsm_mads_t *smps;    /* requests of the manager */
    mcsm_mads_t *reports; /* requests of the administration: Reports to subscribers */
    mcsm_mads_t *polls;   /* requests for the counters of ports */
    mcsm_health_t *health;
    mcsm_sm_t *sm;
    mcsm_sa_t *sa;
    struct mcsm_ctl *ctl;
    int epoll;
    bool log_file; /* messages go to the configured file */
    bool verbose;
    time_t started;
} mcsm_daemon_t;

#endif

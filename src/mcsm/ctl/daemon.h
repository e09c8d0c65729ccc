/* The daemon: the manager, the administration and the control socket around one event loop. */
#ifndef MCSM_DAEMON_H
#define MCSM_DAEMON_H

#include "../health/health.h"
#include "../mad/umad.h"
#include "../sa/sa.h"
#include "../sm/sm.h"

struct mcsm_daemon {
    struct mcsm_config *config;
    struct mcsm_umad *umad;
    struct mcsm_mads *smps;    /* requests of the manager */
    struct mcsm_mads *reports; /* requests to subscribers and to standby managers */
    struct mcsm_mads *polls;   /* requests for the counters of ports */
    struct mcsm_health *health;
    struct mcsm_sm *sm;
    struct mcsm_standbys *standbys;
    struct mcsm_sa *sa;
    struct mcsm_ctl *ctl;
    int epoll;
    bool log_file; /* messages go to the configured file */
    bool verbose;
    time_t started;
};

#endif

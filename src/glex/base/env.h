/*
 * The environment variables GLEX_* in one place: read once, checked, with one message on nonsense.
 * docs/nic.md lists them.
 */
#ifndef GLEX_ENV_H
#define GLEX_ENV_H

#include "base/common.h"
#include "debug/fault.h"
#include "base/log.h"

#define GLEX_MAX_NICS 16

struct glex_env {
    const char            *shm_dir;
    const char            *fabric;
    uint32_t               nic_id; /* 0: derived from the host */
    uint32_t               num_nics;
    enum glex_log_level    log_level;
    struct glex_fault_spec fault;
    const char            *stats; /* file for counters, or NULL */
    const char            *capture; /* file for a capture, or NULL */
    bool                   private_rdma;
    const char            *net_provider; /* of libfabric; NULL: no network */
    const char            *net_interface; /* name or address; "": the first one */
    uint32_t               net_port, net_timeout; /* of endpoint 0; s */
    bool                   single_threaded; /* endpoints take no locks */
    bool                   valid; /* false: something was refused and logged */
};

/** The environment as it was at the first call. */
const struct glex_env *glex_env(void);

#endif

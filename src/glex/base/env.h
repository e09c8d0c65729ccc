/*
 * The environment variables GLEX_* in one place: read once, checked, with one message on nonsense.
 * docs/nic.md lists them.
 */
#ifndef GLEX_ENV_H
#define GLEX_ENV_H

#include "base/common.h"
#include "base/log.h"

#define GLEX_MAX_NICS 16

#define GLEX_NET_DEFAULT_PORT    20000u
#define GLEX_NET_MAX_PORT        32767u /* above are ports that kernels give to clients */
#define GLEX_NET_DEFAULT_TIMEOUT 30u    /* s */

/* GLEX_FAULT, see debug/fault.h */
struct glex_fault_spec {
    bool on;
    double mp_loss;          /* probability that an MP vanishes without an error */
    double mp_delay;         /* probability that an MP is delayed ... */
    uint32_t mp_delay_posts; /* ... until so many later requests were posted */
    double mp_reorder;       /* probability that an MP changes places with the next one */
    double mpq_full;         /* probability that the destination's MPQ seems full */
    double eq_full;          /* probability that the destination's EQ seems full */
    double busy;             /* probability that a posting call returns GLEX_BUSY */
    uint64_t kill;           /* the process kills itself at its n-th request; 0: never */
    bool nomap;              /* glex_ext_mem_alloc() and mapping are not there */
    bool noprivate;          /* RDMA to private memory is forbidden */
    bool far;                /* neighbours on this host are reached by GLEX_NET */
    uint64_t seed;
};

struct glex_env {
    const char *shm_dir;
    const char *fabric;
    uint32_t nic_id; /* 0: derived from the host */
    uint32_t num_nics;
    struct glex_fault_spec fault;
    const char *stats;   /* file for counters, or NULL */
    const char *capture; /* file for a capture, or NULL */
    bool private_rdma;
    bool copy_help;
    const char *net_provider;       /* of libfabric; NULL: no network */
    const char *net_interface;      /* name or address; "": the first one */
    uint32_t net_port, net_timeout; /* of endpoint 0; s */
    bool single_threaded;           /* endpoints take no locks */
    int32_t rank;                   /* of this process in its job; -1: not known */
    bool valid;                     /* false: something was refused and logged */
};

/** The environment as it was at the first call. */
const struct glex_env *glex_env(void);

#endif

/*
 * Faults to order, for tests: GLEX_FAULT. The posting functions of an endpoint are swapped for
 * faulting ones when it is created, so nothing is paid where no fault is asked for.
 */
#ifndef GLEX_FAULT_H
#define GLEX_FAULT_H

#include "common.h"

struct glex_fault_spec {
    bool     on;
    double   mp_loss;        /* probability that an MP vanishes without an error */
    double   mp_delay;       /* probability that an MP is delayed ... */
    uint32_t mp_delay_posts; /* ... until so many later requests were posted */
    double   mp_reorder;     /* probability that an MP changes places with the next one */
    double   mpq_full;       /* probability that the destination's MPQ seems full */
    double   eq_full;        /* probability that the destination's EQ seems full */
    double   busy;           /* probability that a posting call returns GLEX_BUSY */
    uint64_t kill;           /* the process kills itself at its n-th request; 0: never */
    bool     nomap;          /* glex_ext_mem_alloc() and mapping are not there */
    bool     noprivate;      /* RDMA to private memory is forbidden */
    uint64_t seed;
};

/** Parse the value of GLEX_FAULT. Logs and returns false on nonsense. */
bool glex_fault_parse(const char *text, struct glex_fault_spec *spec);

#endif

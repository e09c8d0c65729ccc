/*
 * Fault injection, for tests: GLEX_FAULT. The faults are a link of their own in front of the real
 * one. Compiled in by configure --enable-fault-injection; without, GLEX_FAULT is refused.
 */
#ifndef GLEX_FAULT_H
#define GLEX_FAULT_H

#include "base/common.h"
#include "core/link.h"
#include "base/log.h"
#include "shm/ring.h"

#include <openglex.h>

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

struct glex_endpoint;
struct glex_fault;

#ifdef OPENGLEX_FAULT_INJECTION

extern const struct glex_link glex_fault_link;

/** Parse the value of GLEX_FAULT. Logs and returns false on nonsense. */
bool glex_fault_parse(const char *text, struct glex_fault_spec *spec);

/** Set up ep->fault, if faults are asked for. */
glex_ret_t glex_fault_init(struct glex_endpoint *ep);

/** What every request meets before it is carried out, of an endpoint with ep->fault:
 *  GLEX_REQ_DONE, or GLEX_REQ_BUSY. */
int glex_fault_enter(struct glex_endpoint *ep, int32_t flag);

/** Send what is still delayed, and free it. */
void glex_fault_cleanup(struct glex_endpoint *ep);

/** Send all delayed messages. */
void glex_fault_flush(struct glex_endpoint *ep);

/** How many polls find nothing before glex_fault_idle(). A program that polls seldom must not have to
 *  poll thousands of times for a delayed message. */
uint32_t glex_fault_patience(const struct glex_endpoint *ep);

/** Polls found nothing: send those that have been delayed for long. */
void glex_fault_idle(struct glex_endpoint *ep);

#else

#define glex_fault_link glex_shm_link

static inline bool glex_fault_parse(const char *text, struct glex_fault_spec *spec)
{
    (void)spec;
    glex_error("GLEX_FAULT=%s: this libglex was built without fault injection "
               "(configure --enable-fault-injection)", text);
    return false;
}

static inline glex_ret_t glex_fault_init(struct glex_endpoint *ep)
{
    (void)ep;
    return GLEX_SUCCESS;
}

static inline int glex_fault_enter(struct glex_endpoint *ep, int32_t flag)
{
    (void)ep;
    (void)flag;
    return GLEX_REQ_DONE;
}

static inline void glex_fault_cleanup(struct glex_endpoint *ep)
{
    (void)ep;
}

static inline void glex_fault_flush(struct glex_endpoint *ep)
{
    (void)ep;
}

static inline uint32_t glex_fault_patience(const struct glex_endpoint *ep)
{
    (void)ep;
    return GLEX_RING_PATIENCE;
}

static inline void glex_fault_idle(struct glex_endpoint *ep)
{
    (void)ep;
}

#endif

#endif

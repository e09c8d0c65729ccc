/*
 * Fault injection, for tests: GLEX_FAULT. The faults are a link of their own in front of the real
 * one. Compiled in by configure --enable-fault-injection; without, GLEX_FAULT is refused.
 */
#ifndef GLEX_FAULT_H
#define GLEX_FAULT_H

#include "base/env.h"
#include "core/link.h"
#include "shm/ring.h"

#include <openglex.h>

struct glex_endpoint;
struct glex_fault;

#ifdef OPENGLEX_FAULT_INJECTION

extern const struct glex_link glex_fault_link;

/** Whether neighbours are reached as if they were on another host. */
static inline bool glex_fault_is_far(void)
{
    return glex_env()->fault.far;
}

/** Set up ep->fault, if GLEX_FAULT is set. */
glex_ret_t glex_fault_init(struct glex_endpoint *ep);

/** Called for each request before it is carried out, if the endpoint has ep->fault.
 *  @return GLEX_REQ_DONE: carry it out; GLEX_REQ_BUSY: refuse it. */
int glex_fault_enter(struct glex_endpoint *ep);

/** Send what is still delayed, and free it. */
void glex_fault_cleanup(struct glex_endpoint *ep);

/** Send all delayed messages. Lets go of peers that are gone, so the caller may hold none. */
void glex_fault_flush(struct glex_endpoint *ep);

/** How many polls find nothing before glex_fault_idle(). A program that polls seldom must not
 *  have to poll thousands of times for a delayed message. */
uint32_t glex_fault_patience(const struct glex_endpoint *ep);

/** Polls found nothing: send those that have been delayed for long. */
void glex_fault_idle(struct glex_endpoint *ep);

#else

#define glex_fault_link glex_shm_link

static inline bool glex_fault_is_far(void)
{
    return false;
}

static inline glex_ret_t glex_fault_init(struct glex_endpoint *ep)
{
    (void)ep;
    return GLEX_SUCCESS;
}

static inline int glex_fault_enter(struct glex_endpoint *ep)
{
    (void)ep;
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

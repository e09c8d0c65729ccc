/*
 * Fault injection, for tests: GLEX_FAULT. The faults are a separate link before the real link.
 * Compiled in by configure --enable-fault-injection; otherwise GLEX_FAULT is refused.
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

/** Called before each request is executed, if the endpoint has ep->fault.
 * @return GLEX_REQ_DONE: execute it; GLEX_REQ_BUSY: refuse it. */
int glex_fault_enter(struct glex_endpoint *ep);

/** Send all delayed messages, and free the state. */
void glex_fault_cleanup(struct glex_endpoint *ep);

/** Send all delayed messages. May drop dead peers, so the caller must hold no peer. */
void glex_fault_flush(struct glex_endpoint *ep);

/** Empty polls before glex_fault_idle(). A program that polls seldom must not need thousands of
 * polls for a delayed message. */
uint32_t glex_fault_patience(const struct glex_endpoint *ep);

/** Polls found nothing: send messages that have been delayed for long. */
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

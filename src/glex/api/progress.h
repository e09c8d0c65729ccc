/*
 * The list of the process's endpoints, and the work beside the hot paths. A thread that changes the
 * list has the lock. A child of fork() finds the list complete, between whichever two instructions of
 * that thread.
 */
#ifndef GLEX_PROGRESS_H
#define GLEX_PROGRESS_H

#include "api/api.h"
#include "base/lock.h"

extern struct glex_lock glex_endpoints_lock;
extern struct glex_endpoint *glex_endpoints;

/** Adds an endpoint to the list. The caller has the lock. */
void glex_endpoints_add(struct glex_endpoint *ep);

/** Removes an endpoint from the list. Takes the lock. */
void glex_endpoints_remove(struct glex_endpoint *ep);

#endif

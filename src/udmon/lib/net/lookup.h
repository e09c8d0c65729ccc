/* Name lookup in a separate thread, because the name service may take many seconds to answer. */
#ifndef UDMON_LOOKUP_H
#define UDMON_LOOKUP_H

#include "loop.h"

#include <netdb.h>

struct udmon_lookup;

/* The called function owns `hosts`, which is NULL if `error` (of getaddrinfo) is not 0. */
typedef void (*udmon_lookup_done_fn)(void *arg, int error, struct addrinfo *hosts);

/** `done` is called by the loop, never from within; then the lookup is over. */
int udmon_lookup_start(struct udmon_loop *loop, const char *host, const char *port,
                       udmon_lookup_done_fn done, void *arg, struct udmon_lookup **lookup_p);
/** Cancels the lookup without waiting. */
void udmon_lookup_cancel(struct udmon_lookup *lookup);

#endif

/* Name lookup in a separate thread, because the name service may take many seconds to answer. */
#ifndef UDMON_LOOKUP_H
#define UDMON_LOOKUP_H

#include "loop.h"

#include <netdb.h>

typedef struct udmon_lookup udmon_lookup_t;

/* The called function owns `hosts`, which is NULL if `error` (of getaddrinfo) is not 0. */
typedef void (*udmon_lookup_done_t)(void *arg, int error, struct addrinfo *hosts);

/* `done` is called by the loop, never from within; then the lookup is over. */
int udmon_lookup_start(udmon_loop_t *loop, const char *host, const char *port,
                       udmon_lookup_done_t done, void *arg, udmon_lookup_t **lookup_p);
/* Cancels the lookup without waiting. */
void udmon_lookup_cancel(udmon_lookup_t *lookup);

#endif

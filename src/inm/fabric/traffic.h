/*
 * Data traffic of the emulated network. Packets are not sent one by one. A pattern gives the
 * traffic between each pair of hosts. The traffic follows the routing tables of the chips. The
 * flit counters of the ports rise by the sum. Patterns:
 *
 *   uniform,rate=P            each host sends to all others, in sum P % of a link
 *   neighbour,rate=P          each host sends to the next one
 *   job:HOST-HOST,rate=P      all-to-all of the hosts from the first to the last one
 *   hotspot:HOST,rate=P       all hosts send to one
 *
 * A router sends in equal parts to the ports of its table entry. If more traffic wants to leave a
 * port than the link can carry, the link carries what it can, and the rest counts as waiting flits.
 * Traffic that waits is not held back at its source: there is no backpressure.
 */
#ifndef INM_TRAFFIC_H
#define INM_TRAFFIC_H

#include "fabric.h"

#define LANE_FLITS (14e9 / 198) /* a second, on one lane of 14 Gb/s */

struct traffic;

struct traffic *traffic_new(struct fabric *fab);
void traffic_free(struct traffic *t);

/** Starts a pattern; "off" stops it. @return false with `error` set. */
bool traffic_set(struct traffic *t, const char *spec, char *error, size_t size);

/** Brings the flit counters up to now; computes the rates again if links or tables have changed. */
void traffic_settle(struct traffic *t);

/* The paths through the present tables and links, if each host sends one unit to each other host. */
struct traffic_paths {
    uint32_t hosts_unreached; /* hosts to which less than half of the others have a path */
    uint32_t hosts;           /* with a link */
    double worst;             /* units on the most loaded link between routers */
    uint32_t worst_port;
};

/** @return false: no memory. */
bool traffic_paths(struct traffic *t, struct traffic_paths *paths);

#endif

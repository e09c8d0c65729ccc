/* Packets on their way through the emulated network; within the emulator only. */
#ifndef INM_WALK_H
#define INM_WALK_H

#include "fabric.h"

struct walk {
    uint32_t chip; /* where the packet is */
    uint32_t hops; /* links passed */
    bool corrupt;
};

/** Follows a source route. @return false: the packet is lost, and counted. */
bool walk_route(struct fabric *fab, struct walk *w, const struct nmp_route *route);

/** Returns the modelled time of a path of `links` links in one direction, ns. */
double way_ns(const struct fabric *fab, uint32_t links);

/** Delivers a packet that has reached its NIC. */
void arrive(struct fabric *fab, const struct walk *w, uint64_t time_ns, const struct nmp_desc *desc,
            uint64_t *count);

/** Whether an event of a probability in a million happens. */
bool fab_chance(struct fabric *fab, uint32_t ppm);

/** Returns CLOCK_MONOTONIC in nanoseconds. */
uint64_t real_ns(void);

#endif

/* The path between two hosts through the routing tables of the chips. */
#ifndef INM_TRACE_H
#define INM_TRACE_H

#include "inm/server/core/inmd.h"

#define TRACE_MAX 24

struct trace_hop {
    uint32_t chip, in, out; /* ports; INM_NONE at the ends */
    uint32_t choices;       /* the output ports that the table allows */
    bool up;
    uint64_t retries, lanes;
};

/** Follows the tables from one NIC to another. @return Hops; 0 with `error` set. */
uint32_t trace(struct inmd *d, uint32_t from, uint32_t to, struct trace_hop *hops, char *error,
               size_t size);

#endif

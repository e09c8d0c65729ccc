/* Routing tables, made from a graph of the routers. */
#ifndef INM_ROUTES_H
#define INM_ROUTES_H

#include "graph.h"
#include "inm/server/core/inmd.h"

enum route_kind { ROUTE_SHORTEST, ROUTE_BALANCED, ROUTE_UPDOWN };

/** Returns the name of a kind, and the kind of a name. */
const char *route_kind_name(enum route_kind kind);
enum route_kind route_kind_parse(const char *name);

struct route_result {
    uint32_t chips, runs, failed, differ;
    uint64_t unreachable, checked;
    bool deadlock_free;
    uint32_t min_load, max_load; /* destinations on an upward link of a leaf switch */
    double seconds;
    char message[160];
};

/* Tables, and the traffic on the links if each host sends the same amount to each other host. */
struct routes {
    struct inm_table *tables; /* by NRC */
    double *load;             /* by port of an NRC: pairs of hosts whose traffic leaves there */
    uint8_t *connected;       /* by NIC: most hosts have a route to it */
    uint64_t print;           /* of the graph */
};

/** Makes tables of a kind. @return false: no memory. */
bool routes_make(struct graph *g, enum route_kind kind, struct routes *routes,
                 struct route_result *result);
void routes_clear(const struct inm_topo *topo, struct routes *routes);

/**
 * Makes the tables of all NRCs from the discovered network, without the parts in maintenance, and
 * replaces d->tables.
 */
bool routes_generate(struct inmd *d, enum route_kind kind, struct route_result *result);

/** Copies the discovered network, without the parts in maintenance, into a graph. Takes the lock. */
bool routes_graph(struct inmd *d, struct graph *g);

#endif

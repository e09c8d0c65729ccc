/*
 * The nodes for the page's overview, udmon-top and scripts. The rows are made at most once a
 * second, and take at most a tenth of the thread's time, independent of the number of requests.
 *
 *   /api/nodes                     {"now": ms, "nodes": [{"name", "up", "agents", "transport",
 *     [?search=S][&sort=COLUMN]    "address", "received", "lost", "series", "values": {...}}],
 *     [&descending=1][&offset=N]   "matching": number of all matching nodes, "up": of them, up}.
 *     [&limit=N]                   Sorted by name, or a column: a name in "values" or a count.
 *   /api/map?metric=M[&function=F] {"generation", "version", "up", "names": [...],
 *     [&generation=G&version=V]    "values": [...]}: one number for each node in the order of
 *                                  names, rounded to two digits; null: the node has none; false:
 *                                  the node is down. M is a name in "values" or a family of series;
 *                                  F (sum, max, mean) combines the series. A client with a previous
 *                                  answer (G, V) gets only the changes: "at": [indices], their
 *                                  "values".
 *   /api/families                  names of all families of series
 */
#ifndef UDMON_COLLECTOR_OVERVIEW_H
#define UDMON_COLLECTOR_OVERVIEW_H

#include "store.h"

#include <json-c/json.h>

enum {
    OVERVIEW_CPU,
    OVERVIEW_MEMORY,
    OVERVIEW_LOAD,
    OVERVIEW_IN,
    OVERVIEW_OUT,
    OVERVIEW_RDMA_IN,
    OVERVIEW_RDMA_OUT,
    OVERVIEW_MEMORY_FREE,
    OVERVIEW_LOSS,
    OVERVIEW_VALUES, /* the numbers above are in "values" of a node's JSON, the following are
                      * not: */
    OVERVIEW_RECEIVED = OVERVIEW_VALUES,
    OVERVIEW_LOST,
    OVERVIEW_SERIES,
    OVERVIEW_STATE, /* 1: up */
    OVERVIEW_NUMBERS
};

enum { OVERVIEW_MAPS = 4 /* metrics that several browsers show at once */ };

struct overview_row {
    char name[64], transport[8], address[80];
    int agents;                      /* connected now */
    double values[OVERVIEW_NUMBERS]; /* NAN: not known */
};

/* One metric of all nodes, and the time of the last change of each value. */
struct overview_map {
    char what[UDMON_METRIC_NAME_MAX + 8]; /* function and metric; "" if unused */
    uint64_t made_ns;
    uint32_t generation;
    char (*values)[12]; /* as they are written */
    uint32_t *changed;  /* versions */
};

struct overview {
    struct store *store;
    struct overview_row *rows; /* sorted by name */
    size_t count, up;
    uint64_t made_ns, took_ns;
    uint32_t generation; /* changes with the set of names */
    uint32_t version;    /* counts the updates of maps */
    struct overview_map maps[OVERVIEW_MAPS];
};

struct overview_query {
    const char *search; /* part of the name, or NULL */
    const char *sort;   /* or NULL */
    int descending;
    size_t offset, limit;
};

void overview_init(struct overview *overview, struct store *store);
void overview_free(struct overview *overview);

/* Names of nodes */
struct overview_names {
    char (*names)[sizeof(((struct overview_row *)NULL)->name)];
    size_t count, matching; /* without offset and limit: `matching` */
};

/** -ENOMEM; else the caller frees names_p->names. */
int overview_get_names(struct overview *overview, const struct overview_query *query,
                       struct overview_names *names_p);

/** Each returns an object of the caller's, or NULL if there is no memory. */
struct json_object *overview_get_nodes(struct overview *overview,
                                       const struct overview_query *query);
/**
 * `function` may be NULL. NULL also for an unknown function or a metric's name that is too long.
 */
struct json_object *overview_get_map(struct overview *overview, const char *metric,
                                     const char *function, uint32_t generation, uint32_t version);
struct json_object *overview_get_families(struct overview *overview);

#endif

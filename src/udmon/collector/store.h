/*
 * What the collector knows now: hosts, by the names their agents give, and the latest sample of
 * each of their series. Bounded: names come from outside.
 */
#ifndef UDMON_COLLECTOR_STORE_H
#define UDMON_COLLECTOR_STORE_H

#include "../udmon_module.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

enum { STORE_HOSTS_MAX = 20000, STORE_SERIES_MAX = 20000 /* of a host */ };

typedef struct series {
    char *name; /* with labels */
    int counter;
    double value;
    uint64_t time_ns;
    int64_t key;     /* in the history, 0 if not yet there */
    struct host *host;
} series_t;

typedef struct host {
    LIST_ENTRY(host) list;
    char name[64];
    char transport[8];
    char address[80];
    int connected;       /* agents of this name connected now */
    uint64_t received, lost, malformed;
    int64_t key;         /* in the history */
    int changed;         /* since the last commit */
    void *series;        /* tree of series_t by name */
    size_t series_count;
} host_t;

typedef struct store {
    LIST_HEAD(, host) hosts;
    void *by_name; /* tree of them: looked up for each record */
    size_t host_count;
} store_t;

void store_init(store_t *store);
void store_free(store_t *store);
/* The host of a name, made if there is none; NULL: too many, or no memory. */
host_t *store_host(store_t *store, const char *name);
/* The series of a name, likewise. */
series_t *store_series(host_t *host, const char *name);
/* Call `each` for all series of a host, sorted by name. */
void store_each(const host_t *host, void (*each)(series_t *series, void *arg), void *arg);

#endif

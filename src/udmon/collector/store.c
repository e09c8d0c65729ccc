#include "store.h"

#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int series_compare(const void *a, const void *b)
{
    return strcmp(((const series_t *)a)->name, ((const series_t *)b)->name);
}

static void series_free(void *item)
{
    series_t *series = item;

    free(series->name);
    free(series);
}

void store_init(store_t *store)
{
    LIST_INIT(&store->hosts);
    store->by_name = NULL;
    store->host_count = 0;
}

static int host_compare(const void *a, const void *b)
{
    return strcmp(((const host_t *)a)->name, ((const host_t *)b)->name);
}

static void host_keep(void *host)
{
    (void)host; /* freed with the list */
}

void store_free(store_t *store)
{
    host_t *host;

    tdestroy(store->by_name, host_keep);
    while ((host = LIST_FIRST(&store->hosts)) != NULL) {
        LIST_REMOVE(host, list);
        tdestroy(host->series, series_free);
        free(host);
    }
}

host_t *store_host(store_t *store, const char *name)
{
    host_t key, *host, **found;

    snprintf(key.name, sizeof(key.name), "%s", name);
    found = tfind(&key, &store->by_name, host_compare);
    if (found != NULL) {
        return *found;
    }
    host = (store->host_count < STORE_HOSTS_MAX) ? calloc(1, sizeof(*host)) : NULL;
    if (host == NULL) {
        return NULL;
    }
    memcpy(host->name, key.name, sizeof(host->name));
    if (tsearch(host, &store->by_name, host_compare) == NULL) {
        free(host);
        return NULL;
    }
    LIST_INSERT_HEAD(&store->hosts, host, list);
    ++store->host_count;
    return host;
}

series_t *store_series(host_t *host, const char *name)
{
    series_t key = {.name = (char *)name}, *series, **found;

    found = tfind(&key, &host->series, series_compare);
    if (found != NULL) {
        return *found;
    }
    if (host->series_count >= STORE_SERIES_MAX) {
        return NULL;
    }
    series = calloc(1, sizeof(*series));
    if (series == NULL) {
        return NULL;
    }
    series->host = host;
    series->name = strdup(name);
    if ((series->name == NULL) || (tsearch(series, &host->series, series_compare) == NULL)) {
        series_free(series);
        return NULL;
    }
    ++host->series_count;
    return series;
}

typedef struct store_walk {
    void (*each)(series_t *series, void *arg);
    void *arg;
} store_walk_t;

static void store_visit(const void *node, VISIT which, void *closure)
{
    const store_walk_t *walk = closure;

    if ((which == postorder) || (which == leaf)) {
        walk->each(*(series_t *const *)node, walk->arg);
    }
}

void store_each(const host_t *host, void (*each)(series_t *series, void *arg), void *arg)
{
    store_walk_t walk = {.each = each, .arg = arg};

    twalk_r(host->series, store_visit, &walk);
}

#include "store.h"
#include "reserve.h"

#include <errno.h>
#include <search.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SERIES_OVERHEAD = 96 /* bytes of malloc() and of the tree */ };

static int series_compare(const void *a, const void *b)
{
    const struct series *left = a, *right = b;
    int order = strcmp(left->name, right->name);

    return (order != 0) ? order : (left->is_counter - right->is_counter);
}

static void series_free(void *item)
{
    struct series *series = item;

    tail_free(series->tail);
    free(series->name);
    free(series);
}

void store_init(struct store *store)
{
    memset(store, 0, sizeof(*store));
    LIST_INIT(&store->hosts);
    store->series_max = STORE_SERIES_ALL;
    quota_defaults(&store->node_limits, false);
    quota_defaults(&store->relay_limits, true);
    pthread_mutex_init(&store->lock, NULL);
}

void store_lock(struct store *store)
{
    pthread_mutex_lock(&store->lock);
}

void store_unlock(struct store *store)
{
    pthread_mutex_unlock(&store->lock);
}

void store_reader_begin(struct store *store)
{
    store_lock(store);
    ++store->readers;
    store_unlock(store);
}

void store_reader_end(struct store *store)
{
    store_lock(store);
    --store->readers;
    store_unlock(store);
}

static int host_compare(const void *a, const void *b)
{
    return strcmp(((const struct host *)a)->name, ((const struct host *)b)->name);
}

static void host_keep(void *host)
{
    (void)host; /* freed with the list */
}

void store_free(struct store *store)
{
    struct host *host;

    descriptions_free(&store->descriptions);
    tdestroy(store->by_name, host_keep);
    while ((host = LIST_FIRST(&store->hosts)) != NULL) {
        LIST_REMOVE(host, list);
        tdestroy(host->series, series_free);
        free(host);
    }
    pthread_mutex_destroy(&store->lock);
}

struct host *store_find_host(struct store *store, const char *name)
{
    struct host key, **found;

    snprintf(key.name, sizeof(key.name), "%s", name);
    found = tfind(&key, &store->by_name, host_compare);
    return (found != NULL) ? *found : NULL;
}

struct host *store_host(struct store *store, const char *name)
{
    struct host *host = store_find_host(store, name);

    if (host != NULL) {
        return host;
    }
    host = (store->host_count < STORE_HOSTS_MAX) ? calloc(1, sizeof(*host)) : NULL;
    if (host == NULL) {
        return NULL;
    }
    host->store = store;
    snprintf(host->name, sizeof(host->name), "%s", name);
    if (tsearch(host, &store->by_name, host_compare) == NULL) {
        free(host);
        return NULL;
    }
    LIST_INSERT_HEAD(&store->hosts, host, list);
    ++store->host_count;
    return host;
}

bool store_is_dated(int64_t apart_ms, int64_t clock_s)
{
    if (apart_ms >= -STORE_LATE_MS) {
        return apart_ms <= STORE_AHEAD_MS;
    }
    return (clock_s >= -STORE_LATE_MS / 1000) && (clock_s <= STORE_AHEAD_MS / 1000);
}

struct series *store_find_series(const struct host *host, const char *name, int counter)
{
    struct series key = {.name = (char *)name, .is_counter = counter}, **found;

    found = tfind(&key, &host->series, series_compare);
    return (found != NULL) ? *found : NULL;
}

static struct series *store_get(struct host *host, const char *name, int counter)
{
    struct series key = {.name = (char *)name, .is_counter = counter}, *series, **found;

    found = tfind(&key, &host->series, series_compare);
    if (found != NULL) {
        return *found;
    }
    if (!quota_more(&host->quota, &host->store->node_limits, QUOTA_SERIES, host->series_count)) {
        errno = ENOSPC;
        return NULL;
    }
    if ((host->series_count >= STORE_SERIES_SURE) &&
        (host->store->series_count >= host->store->series_max)) {
        errno = EDQUOT;
        return NULL;
    }
    series = reserve_allows(sizeof(*series) + strlen(name) + SERIES_OVERHEAD) ?
                 calloc(1, sizeof(*series)) :
                 NULL;
    if (series == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    series->host = host;
    series->is_counter = counter;
    series->name = strdup(name);
    if ((series->name == NULL) || (tsearch(series, &host->series, series_compare) == NULL)) {
        series_free(series);
        errno = ENOMEM;
        return NULL;
    }
    ++host->series_count;
    ++host->store->series_count;
    reserve_set_series(host->store->series_count);
    return series;
}

struct series *store_series(struct host *host, const char *name)
{
    return store_get(host, name, 0);
}

struct series *store_counter(struct host *host, const char *name)
{
    return store_get(host, name, 1);
}

void store_sample(struct series *series, const struct udmon_metric *metric, int late,
                  uint64_t now_ns)
{
    double seconds;

    if (late && (series->arrived_ns != 0)) {
        return;
    }
    seconds = ((double)metric->time_ns - (double)series->time_ns) * 1e-9;
    if ((series->arrived_ns != 0) && (seconds > 0)) {
        /* A counter that has become less was restarted: no rate until the next sample. */
        series->rate =
            (metric->value >= series->value) ? ((metric->value - series->value) / seconds) : 0;
    }
    series->counter = metric->counter;
    series->value = metric->value;
    series->time_ns = metric->time_ns;
    series->arrived_ns = now_ns;
}

void store_count_relayed(struct store *store)
{
    struct host *host, *relay;

    LIST_FOREACH(host, &store->hosts, list) {
        host->quota.nodes = host->quota.series = 0;
    }
    LIST_FOREACH(host, &store->hosts, list) {
        relay = (host->sender != 0) ? store_find_host(store, host->sender_name) : NULL;
        if (relay != NULL) {
            ++relay->quota.nodes;
            relay->quota.series += host->series_count;
        }
    }
}

struct store_walk {
    void (*each)(struct series *series, void *arg);
    void *arg;
};

static void store_visit(const void *node, VISIT which, void *closure)
{
    const struct store_walk *walk = closure;

    if ((which == postorder) || (which == leaf)) {
        walk->each(*(struct series *const *)node, walk->arg);
    }
}

void store_each(const struct host *host, void (*each)(struct series *series, void *arg), void *arg)
{
    struct store_walk walk = {.each = each, .arg = arg};

    twalk_r(host->series, store_visit, &walk);
}

void store_each_host(struct store *store, int (*each)(const struct host *host, void *arg),
                     void *arg)
{
    const struct host *host;
    int go_on = 1;

    store_reader_begin(store);
    store_lock(store);
    for (host = LIST_FIRST(&store->hosts); (host != NULL) && go_on; host = LIST_NEXT(host, list)) {
        go_on = each(host, arg);
        store_unlock(store);
        store_lock(store);
    }
    store_unlock(store);
    store_reader_end(store);
}

struct store_old {
    uint64_t before_ns;
    struct series **series;
    size_t count, size;
};

static void store_collect_old(struct series *series, void *arg)
{
    struct store_old *old = arg;

    if ((series->arrived_ns < old->before_ns) &&
        (__atomic_load_n(&series->queued, __ATOMIC_SEQ_CST) == 0) && (old->count < old->size)) {
        old->series[old->count++] = series;
    }
}

static void store_forget_series(struct host *host, uint64_t before_ns)
{
    struct series *found[256]; /* in pieces: the rest next time */
    struct store_old old = {
        .before_ns = before_ns, .series = found, .size = sizeof(found) / sizeof(found[0])};
    size_t i;

    store_each(host, store_collect_old, &old);
    for (i = 0; i < old.count; ++i) {
        tdelete(found[i], &host->series, series_compare);
        series_free(found[i]);
        --host->series_count;
        --host->store->series_count;
    }
    reserve_set_series(host->store->series_count);
}

void store_forget(struct store *store, uint64_t now_ns, uint64_t age_ns, uint64_t host_age_ns)
{
    uint64_t before_ns = (now_ns > age_ns) ? (now_ns - age_ns) : 0;
    uint64_t host_before_ns = (now_ns > host_age_ns) ? (now_ns - host_age_ns) : 0;
    struct host *host, *next;

    if (store->readers > 0) {
        return;
    }
    descriptions_forget(&store->descriptions, now_ns, age_ns);
    for (host = LIST_FIRST(&store->hosts); host != NULL; host = next) {
        next = LIST_NEXT(host, list);
        store_forget_series(host, before_ns);
        if ((host->series_count == 0) && (host->connected == 0) && !host->changed &&
            (host->arrived_ns < host_before_ns) &&
            (__atomic_load_n(&host->queued, __ATOMIC_SEQ_CST) == 0)) {
            descriptions_leave(&store->descriptions, host);
            tdelete(host, &store->by_name, host_compare);
            LIST_REMOVE(host, list);
            --store->host_count;
            free(host);
        }
    }
}

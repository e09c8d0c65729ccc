/*
 * The collector's present knowledge: nodes, by the names that their agents give, and the latest
 * sample of each series. The store is bounded, because names come from outside. Nodes and series
 * that are silent for long are removed.
 *
 * Threads: the receiving thread changes the store, the HTTP thread reads it. Both hold the lock for
 * short steps. Hosts and series do not move. While a reader is active (store_reader_begin), no host
 * or series is freed, so a reader may keep pointers and names between two steps.
 */
#ifndef UDMON_COLLECTOR_STORE_H
#define UDMON_COLLECTOR_STORE_H

#include "description.h"
#include "quota.h"
#include "tail.h"
#include "../include/udmon_module.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

enum {
    STORE_HOSTS_MAX = 20000,
    STORE_SERIES_ALL = 2000000, /* of all hosts, unless the program sets another limit, */
    STORE_SERIES_SURE = 1000,   /* but each host has room for so many */
    STORE_AHEAD_MS = 10 * 1000, /* a clock that is further ahead is wrong, */
    STORE_LATE_MS = 300 * 1000  /* or behind */
};

struct series {
    char *name;     /* with labels; for counters without the suffix _total */
    int is_counter; /* a part of its identity: x and x_total of one exporter are two series */
    int counter;
    double value;
    double rate;         /* of a counter: per second, between the last two samples */
    uint64_t time_ns;    /* of the sample, by the agent's clock, since 1970 */
    uint64_t arrived_ns; /* when it came, by udmon_now_ns; 0: never */
    struct host *host;
    int64_t remote_ms; /* time of the last sample that was given to remote write */
    unsigned queued;   /* references of the history's and remote write's threads: it must stay */
    struct tail *tail; /* samples that are not in the history yet, or NULL; see tail.h */
    /* Of the history's thread alone: */
    int64_t key;     /* in the history, of the transaction or an earlier one: */
    uint64_t key_of; /* valid if it is the history's `generation` */
    int key_was;     /* the key is of an earlier collector's samples */
    STAILQ_ENTRY(series) dirty, written;
    int is_written;
};

struct host {
    LIST_ENTRY(host) list;
    struct store *store;
    char name[64];
    char transport[8];
    char address[80];
    int connected; /* agents of this name connected now, here or at a relay */
    uint64_t received, lost;
    uint64_t malformed;    /* records that were no samples */
    uint64_t discarded;    /* samples that exceeded a limit */
    uint64_t misdated;     /* samples with a time far from the collector's */
    uint64_t out_of_order; /* samples that were not sent by remote write: their time went back */
    uint64_t arrived_ns;   /* the last record */
    struct quota quota;    /* of the node, or of the relay of this name */
    uint64_t sender; /* identity of the relay that sent the last sample of the node; 0: none */
    char sender_name[64];
    int changed; /* since the last commit */
    /* The last report about the node to an upper collector: relay.c */
    int told_up;
    uint64_t told_lost;
    /* The last report of a relay about the node: relay.c */
    uint64_t relay;      /* identity of the relay that the node is connected to, or 0 */
    char relay_name[64]; /* of the relay that reported last, */
    uint64_t relay_lost; /* and its reported losses */
    void *series;        /* tree of struct series by name */
    size_t series_count;
    size_t descriptions; /* descriptions that the node owns */
    uint64_t descriptions_discarded;
    unsigned queued; /* entries in the history's queue that point here */
    /* Of the history's thread alone: */
    int64_t key;
    uint64_t key_of;
};

struct store {
    pthread_mutex_t lock;
    unsigned readers;
    LIST_HEAD(, host) hosts;
    void *by_name; /* tree of them: looked up for each record */
    size_t host_count;
    size_t series_count, series_max; /* of all hosts */
    struct quota_limits node_limits, relay_limits;
    struct quota_total quota_total;
    struct descriptions descriptions;
};

void store_init(struct store *store);
void store_free(struct store *store);

void store_lock(struct store *store);
void store_unlock(struct store *store);
/** From begin to end nothing is freed. Takes the lock by itself. */
void store_reader_begin(struct store *store);
void store_reader_end(struct store *store);
/**
 * Calls `each` for all hosts until it returns 0. Takes the lock for one host at a time, so the
 * receiving thread never waits longer.
 */
void store_each_host(struct store *store, int (*each)(const struct host *host, void *arg),
                     void *arg);

/* All below: with the lock held. */

/**
 * Whether to trust the time of a sample, `apart_ms` after the collector's time. An old sample has
 * waited in the agent's queue, or the agent's clock is slow. `clock_s` decides: how far the agent's
 * clock is ahead of the collector's clock, or UDMON_CLOCK_UNKNOWN.
 */
bool store_is_dated(int64_t apart_ms, int64_t clock_s);

/** Finds or makes the host of a name; NULL: too many hosts, or no memory. */
struct host *store_host(struct store *store, const char *name);
/** The host of a name, or NULL. */
struct host *store_find_host(struct store *store, const char *name);
/**
 * The series of a name, likewise: a gauge, or a counter. NULL with errno: ENOSPC (the host has too
 * many series), EDQUOT (all hosts together have too many, and this host has its sure part), ENOMEM.
 */
struct series *store_series(struct host *host, const char *name);
struct series *store_counter(struct host *host, const char *name);
/** The series of a name, or NULL. */
struct series *store_find_series(const struct host *host, const char *name, int counter);
/**
 * Takes a sample that has just arrived. `late`: a newer sample arrived earlier, so this sample does
 * not become the latest.
 */
void store_sample(struct series *series, const struct udmon_metric *metric, int late,
                  uint64_t now_ns);
/** Counts nodes and series of each relay anew: some have been freed, or have another relay. */
void store_count_relayed(struct store *store);
/** Call `each` for all series of a host, sorted by name. */
void store_each(const struct host *host, void (*each)(struct series *series, void *arg), void *arg);
/**
 * Frees series without a sample for `age_ns`, and hosts without series that have been gone for
 * `host_age_ns`, unless a reader is active.
 */
void store_forget(struct store *store, uint64_t now_ns, uint64_t age_ns, uint64_t host_age_ns);

#endif

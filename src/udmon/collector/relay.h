/*
 * Relays. A collector with an upper collector passes received records on through a client of
 * libudmon. The client's queue holds waiting records, and drops the oldest record when it is full.
 * The upper collector shows the nodes as its own.
 *
 * A relay sends samples with the name of their node, and states of nodes: whether an agent is
 * connected, and how many samples did not reach the relay. The relay sends a state at each change,
 * and all states from time to time, because datagrams may be lost.
 */
#ifndef UDMON_COLLECTOR_RELAY_H
#define UDMON_COLLECTOR_RELAY_H

#include "store.h"
#include "../include/udmon.h"
#include "../lib/net/loop.h"

struct relay {
    struct udmon_client *client;
    struct udmon_loop *loop;
    struct udmon_source source;
    const char *upper;
    /*
     * `id` is the identity of the relay's client, and stays the same after a restart. The history
     * stores, under id + i, the number of the next record for upper collector i. So a restarted
     * relay finds the records that the killed relay had stored and not passed on.
     */
    uint64_t id, numbers[UDMON_SERVERS_MAX];
    unsigned seconds;
    int tell_all; /* all states at the next relay_states: the upper collector may not know them */
    /* As of the last relay_states, for the HTTP thread; atomic: */
    uint64_t connected, sent, dropped, waiting;
};

/**
 * `id` and `numbers` of the relay are set. `upper`: addresses as of udmon_client_open, and stays with
 * the caller. Errors as of that.
 */
int relay_open(struct relay *relay, const char *upper, const struct udmon_options *options,
               struct udmon_loop *loop);
/** Sends waiting records as far as possible without waiting; logs how many are left. */
void relay_close(struct relay *relay);

void relay_sample(struct relay *relay, const struct host *host, const struct udmon_metric *metric,
                  int64_t time_ms, int late);
/** Passes the description of a family on, if the upper collector is there. */
void relay_family(struct relay *relay, const struct host *host, const struct udmon_family *family);
/** An agent has connected or disconnected. The caller holds the lock of the store. */
void relay_state(struct relay *relay, struct host *host);
/**
 * Called each second, with the store's lock held: sends changed states and counters, logs
 * complaints.
 */
void relay_states(struct relay *relay, struct store *store);

/** The upper side, with the store's lock held. `relay` is its identity, `name` its name. */
void relayed_state(struct host *host, uint64_t relay, const char *name, int up, uint64_t lost);
/** A relay has disconnected, so all its nodes are unknown. */
void relayed_gone(struct store *store, uint64_t relay);

#endif

/*
 * Requests and their answers: many requests in flight, each with a timeout and retries.
 *
 * A request waits in a queue until fewer than `window` requests are in flight. Its callback is
 * called exactly once: with the answer, or with NULL after the last retry. This layer owns no
 * socket. Packets leave through `send` and enter through mcsm_mads_receive(). So the same code runs
 * over libibumad and over the models of the tests.
 */
#ifndef MCSM_MADS_H
#define MCSM_MADS_H

#include "fabric/fabric.h"
#include "layout.h"

#include <stdio.h>

/* The far end of a packet. */
struct mcsm_addr {
    uint16_t lid; /* 0xffff: by directed route */
    uint32_t qpn;
    uint32_t qkey;
    uint8_t sl;
    int agent; /* management class, which selects our registration at umad */
};

/* Sends a packet of `length` bytes, at least 256. 0 or -errno. `timeout` is in milliseconds and not
 * 0 for requests. */
typedef int (*mcsm_send_fn)(void *arg, const struct mcsm_addr *to, const uint8_t *mad,
                            size_t length, unsigned timeout);

/* `mad` is the answer, 256 bytes, with MAD status 0; NULL: none came, or one with an error status
 * (then `status` is not 0). */
typedef void (*mcsm_answer_fn)(void *arg, void *arg2, const uint8_t *mad, unsigned status);

struct mcsm_mads;

struct mcsm_mad_stats {
    uint64_t sent, answered, retried, timed_out, refused, stray;
};

struct mcsm_mads *mcsm_mads_new(unsigned window, unsigned timeout, unsigned retries,
                                mcsm_send_fn send, void *send_arg);

/** Drops all requests without calling their callbacks. */
void mcsm_mads_free(struct mcsm_mads *mads);
void mcsm_mads_reset(struct mcsm_mads *mads);
void mcsm_mads_limits(struct mcsm_mads *mads, unsigned window, unsigned timeout, unsigned retries);

/** The M_Key of SMPs. If `before` is not 0, every second try of an SMP has this key. */
void mcsm_mads_set_keys(struct mcsm_mads *mads, uint64_t m_key, uint64_t before);

/** SubnGet or SubnSet by directed route; `body` is 64 bytes or NULL for zeros. -ENOMEM. */
int mcsm_smp(struct mcsm_mads *mads, const struct mcsm_path *path, uint8_t method, uint16_t attr,
             uint32_t mod, const uint8_t *body, mcsm_answer_fn answer, void *arg, void *arg2);

/** Sends any other request: a whole MAD. The function replaces the MAD's transaction ID. */
int mcsm_mad_request(struct mcsm_mads *mads, const struct mcsm_addr *to, const uint8_t *mad,
                     mcsm_answer_fn answer, void *arg, void *arg2);

/** A packet that expects no answer. */
int mcsm_mad_send(struct mcsm_mads *mads, const struct mcsm_addr *to, const uint8_t *mad,
                  size_t length);

/** Handles a received packet. Returns true if the packet answers a request; otherwise the caller
 * handles it. `error`: the packet is a returned request that was not delivered or not answered in
 * time. */
bool mcsm_mads_receive(struct mcsm_mads *mads, const uint8_t *mad, bool error);

/** Retries requests whose deadline is before `now` (milliseconds of the monotonic clock). */
void mcsm_mads_tick(struct mcsm_mads *mads, uint64_t now);

/** Requests whose callback is still to come. */
size_t mcsm_mads_pending(const struct mcsm_mads *mads);
const struct mcsm_mad_stats *mcsm_mads_stats(const struct mcsm_mads *mads);

uint64_t mcsm_now(void);

#endif

/*
 * Prometheus remote_write: sends samples to Prometheus, VictoriaMetrics or any other receiver of
 * the protocol (version 0.1.0: protobuf, compressed by snappy, over HTTP), in a separate thread
 * behind a bounded queue. While the receiver is away, requests wait on the disk (spool.h). Samples
 * that the receiver refuses, or that find a full queue, are counted and logged.
 */
#ifndef UDMON_COLLECTOR_REMOTE_H
#define UDMON_COLLECTOR_REMOTE_H

#include "access.h"
#include "spool.h"
#include "store.h"

#include <pthread.h>
#include <stdio.h>

enum { REMOTE_QUEUE = 1 << 17, REMOTE_BATCH = 5000 };

struct remote_entry {
    struct series *series;
    int64_t time_ms;
    double value;
};

struct remote_options {
    const char *directory; /* of requests that wait */
    uint64_t queue_bytes;  /* of them at most */
    struct access_options access;
};

struct remote {
    char url[400];
    struct remote_options options;
    struct spool spool;
    pthread_t thread;
    struct remote_entry *samples;
    /* Atomic: */
    uint64_t head, tail;                /* written by the thread; by the receiver */
    uint64_t sent, refused, overflowed; /* samples */
    uint64_t waiting, dropped; /* samples on the disk; samples that were dropped because the disk
                                * space was used up */
    int stopping;
};

/**
 * Starts the thread. -EINVAL: `url` is not an HTTP URL. The strings of `options` must stay valid.
 */
int remote_open(struct remote *remote, const char *url, const struct remote_options *options);
/** Sends waiting samples, or writes them to the disk. */
void remote_close(struct remote *remote);
/** By the receiving thread. */
void remote_sample(struct remote *remote, struct series *series, int64_t time_ms, double value);

/** The body of a request, before compression: add one series with its samples, oldest first. */
void remote_encode(FILE *body, const struct remote_entry *samples, size_t count);
/** Samples in a body. */
uint64_t remote_count(const char *body, size_t length);
/**
 * Returns the place where a body can be split in two; its length if the body has only one series.
 */
size_t remote_half(const char *body, size_t length);

#endif

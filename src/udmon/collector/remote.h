/*
 * Prometheus remote_write: samples go on to Prometheus, VictoriaMetrics or whatever takes its
 * protocol (version 0.1.0: protobuf, compressed by snappy, over HTTP), in a thread of its own
 * behind a bounded queue. What the receiver refuses or the queue has no room for is counted, and
 * said.
 */
#ifndef UDMON_COLLECTOR_REMOTE_H
#define UDMON_COLLECTOR_REMOTE_H

#include "store.h"

#include <pthread.h>
#include <stdio.h>

enum { REMOTE_QUEUE = 1 << 17, REMOTE_BATCH = 5000 };

typedef struct remote_entry {
    series_t *series;
    int64_t time_ms;
    double value;
} remote_sample_t;

typedef struct remote {
    char url[400];
    pthread_t thread;
    remote_sample_t *samples;
    /* Atomic: */
    uint64_t head, tail;  /* written by the thread; by the receiver */
    uint64_t sent, refused, overflowed; /* samples */
    int stopping;
} remote_t;

/* Starts the thread. -EINVAL: `url` is none of HTTP. */
int remote_open(remote_t *remote, const char *url);
/* Sends what waits, as far as that is possible within some seconds. */
void remote_close(remote_t *remote);
/* By the receiving thread. */
void remote_sample(remote_t *remote, series_t *series, int64_t time_ms, double value);

/* The body of a request, before compression: add one series with its samples, oldest first. */
void remote_encode(FILE *body, const remote_sample_t *samples, size_t count);

#endif

/*
 * Prometheus remote_write: sends samples to Prometheus, VictoriaMetrics or any other receiver of
 * the protocol (version 0.1.0: protobuf, compressed by snappy, over HTTP), in a separate thread
 * behind a bounded queue. While the receiver is away, requests wait on the disk (spool.h). Samples
 * that the receiver refuses, or that find a full queue, are counted and logged.
 */
#ifndef UDMON_COLLECTOR_REMOTE_H
#define UDMON_COLLECTOR_REMOTE_H

#include "spool.h"
#include "store.h"

#include <pthread.h>
#include <stdio.h>

enum { REMOTE_QUEUE = 1 << 17, REMOTE_BATCH = 5000 };

typedef struct remote_entry {
    series_t *series;
    int64_t time_ms;
    double value;
} remote_sample_t;

typedef struct remote_options {
    const char *directory;                      /* of requests that wait */
    uint64_t queue_bytes;                       /* of them at most */
    const char *user_file, *token_file;         /* USER:PASSWORD; a bearer token; or NULL */
    const char *ca_file, *cert_file, *key_file; /* of HTTPS, or NULL */
} remote_options_t;

typedef struct remote {
    char url[400];
    remote_options_t options;
    spool_t spool;
    pthread_t thread;
    remote_sample_t *samples;
    /* Atomic: */
    uint64_t head, tail;                /* written by the thread; by the receiver */
    uint64_t sent, refused, overflowed; /* samples */
    uint64_t waiting, dropped; /* samples on the disk; samples that were dropped because the disk
                                * space was used up */
    int stopping;
} remote_t;

/*
 * Starts the thread. -EINVAL: `url` is not an HTTP URL. The strings of `options` must stay valid.
 */
int remote_open(remote_t *remote, const char *url, const remote_options_t *options);
/* Sends waiting samples, or writes them to the disk. */
void remote_close(remote_t *remote);
/* By the receiving thread. */
void remote_sample(remote_t *remote, series_t *series, int64_t time_ms, double value);

/* The body of a request, before compression: add one series with its samples, oldest first. */
void remote_encode(FILE *body, const remote_sample_t *samples, size_t count);
/* Samples in a body. */
uint64_t remote_count(const char *body, size_t length);
/*
 * Returns the place where a body can be split in two; its length if the body has only one series.
 */
size_t remote_half(const char *body, size_t length);

#endif

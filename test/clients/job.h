/*
 * Starts the clients that run as a job without MPI:
 *
 *   PROGRAM DIRECTORY RANK SIZE [THREADS]
 *
 * SIZE processes, numbered from 0, share an empty directory. To exchange data, a process writes a
 * file into the directory and reads the files of all processes. Processes on several hosts need a
 * common directory. THREADS is the number of endpoints of a process, and of its threads.
 */
#ifndef JOB_H
#define JOB_H

#include "client.h"

#include <pthread.h>
#include <time.h>

#define JOB_MAX_RANKS   64
#define JOB_MAX_THREADS 4

struct job {
    const char *dir;
    int rank, size;
    int threads; /* endpoints of each process; 1: the main thread alone */
    int step;    /* exchanges so far */
    glex_device_handle_t dev;
    struct glex_device_attr attr;
    glex_ep_handle_t ep; /* gets no message and no event */
};

static inline double job_now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* Opens the device as well. */
static inline void job_open(struct job *job, int argc, char **argv)
{
    if (argc != 4 && argc != 5) {
        fprintf(stderr, "usage: %s directory rank size [threads]\n", argv[0]);
        exit(2);
    }
    job->dir = argv[1];
    job->rank = atoi(argv[2]);
    job->size = atoi(argv[3]);
    job->threads = argc == 5 ? atoi(argv[4]) : 1;
    job->step = 0;
    if (job->size < 2 || job->size > JOB_MAX_RANKS || job->rank < 0 || job->rank >= job->size ||
        job->threads < 1 || job->threads > JOB_MAX_THREADS) {
        fprintf(stderr, "%s: 2 to %d processes, 1 to %d threads\n", argv[0], JOB_MAX_RANKS,
                JOB_MAX_THREADS);
        exit(2);
    }
    job->dev = client_open_device(&job->attr);
    job->ep = client_create_ep(job->dev, 1, GLEX_EP_MPQ_CAPACITY_DEFAULT);
}

/* The rename makes the complete file appear at once. */
static inline void job_write(const struct job *job, const void *data, size_t len)
{
    char name[4096], hidden[4096 + 16];
    FILE *file;

    snprintf(name, sizeof(name), "%s/%d.%d", job->dir, job->step, job->rank);
    snprintf(hidden, sizeof(hidden), "%s.hidden", name);
    file = fopen(hidden, "wx");
    if (file == NULL || fwrite(data, 1, len, file) != len || fclose(file) != 0 ||
        rename(hidden, name) != 0) {
        CLIENT_FAIL("cannot write %s", name);
    }
}

/*
 * Waits for the file of a rank. Peers on other hosts need this process to call GLEX, so the wait
 * probes an endpoint.
 */
static inline void job_read(const struct job *job, int rank, void *data, size_t len)
{
    double deadline = job_now() + CLIENT_WAIT_MS * 1e-3;
    glex_event_t *event;
    char name[4096];
    FILE *file;

    snprintf(name, sizeof(name), "%s/%d.%d", job->dir, job->step, rank);
    while ((file = fopen(name, "r")) == NULL) {
        if (job_now() > deadline) {
            CLIENT_FAIL("rank %d waits for %s in vain", job->rank, name);
        }
        if (glex_probe_first_event(job->ep, 1, &event) != GLEX_NO_EVENT) {
            CLIENT_FAIL("rank %d: an endpoint without requests has an event", job->rank);
        }
    }
    if (fread(data, 1, len, file) != len) {
        CLIENT_FAIL("%s is too short", name);
    }
    fclose(file);
}

/* Gives `len` bytes of each rank to all ranks. */
static inline void job_exchange(struct job *job, const void *mine, void *all, size_t len)
{
    int rank;

    job_write(job, mine, len);
    for (rank = 0; rank < job->size; rank++) {
        job_read(job, rank, (char *)all + (size_t)rank * len, len);
    }
    job->step++;
}

static inline void job_barrier(struct job *job)
{
    char all[JOB_MAX_RANKS], mine = 0;

    job_exchange(job, &mine, all, 1);
}

static inline void job_close(struct job *job)
{
    client_check_no_errors(job->ep);
    CLIENT_CHECK(glex_destroy_ep(job->ep));
    CLIENT_CHECK(glex_close_device(job->dev));
}

/* Calls run(args[i]) for each endpoint: in the main thread if there is one endpoint. */
static inline void job_run(const struct job *job, void *(*run)(void *arg), void *args, size_t size)
{
    pthread_t threads[JOB_MAX_THREADS];
    int i;

    if (job->threads == 1) {
        run(args);
        return;
    }
    for (i = 0; i < job->threads; i++) {
        if (pthread_create(&threads[i], NULL, run, (char *)args + (size_t)i * size) != 0) {
            CLIENT_FAIL("cannot make a thread");
        }
    }
    for (i = 0; i < job->threads; i++) {
        pthread_join(threads[i], NULL);
    }
}

#endif

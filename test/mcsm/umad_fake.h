/* The libibumad of umad_fake.c. Hold the mutex to read or write it. */
#ifndef MCSM_UMAD_FAKE_H
#define MCSM_UMAD_FAKE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct umad_fake {
    pthread_mutex_t mutex;
    int lengths[16]; /* of the packets that come in */
    int count, next;
    bool broken; /* the device was removed */
    unsigned calls;
    uint8_t rmpp[256]; /* the RMPP version by which a class was registered */
    int sent_agent, sent_length, sent_timeout, sent_retries;
};

extern struct umad_fake umad_fake;

#endif

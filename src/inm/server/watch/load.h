/* The load of links, from the flit counters of the routers' ports. */
#ifndef INM_LOAD_H
#define INM_LOAD_H

#include "inm/server/core/inmd.h"

#define LANE_FLITS (14e9 / 198) /* a second: flits of 198 bits on a lane of 14 Gb/s */
#define MAX_JOBS   64

/* A job: hosts whose load is shown together. */
struct inm_job {
    char name[32];
    char hosts[400]; /* as given: names and ranges, separated by commas */
    uint8_t *member; /* by NIC */
    uint32_t num;
};

/*
 * `use` is the part of a link's capacity that carries flits; `wait` is the part of the flits that
 * could not leave when they were ready. Ports of routers that lead to a NIC have the load of the
 * other direction in `in`.
 */
struct load {
    uint64_t *flits, *second; /* counters at the last poll; second: flits that wait, or arrive */
    float *use, *wait, *in;   /* by port of an NRC; -1: not known */
    double counted;           /* time of the counters */
    double when, seconds;     /* of the last result; seconds 0: none yet */
    struct inm_job jobs[MAX_JOBS];
    uint32_t num_jobs;
};

bool load_init(struct inmd *d);
void load_free(struct inmd *d);

/** Reads the counters of all links. The first call only begins. @return Requests that failed. */
uint32_t load_poll(struct inmd *d);

/** Sets or replaces a job. @return false with `error` set. */
bool load_set_job(struct inmd *d, const char *name, const char *hosts, char *error, size_t size);
bool load_delete_job(struct inmd *d, const char *name);

/* The load of several links. */
struct load_sum {
    uint32_t links;
    double mean, most, wait; /* wait: of the link that waits most */
};

/** With the lock held: the links that leave a level upwards or downwards. */
void load_of_level(const struct inmd *d, unsigned level, bool up, struct load_sum *sum);

/** With the lock held: the links of a job's hosts, both directions. */
void load_of_job(const struct inmd *d, const struct inm_job *job, struct load_sum *sum);

/** With the lock held: the ports with the highest load, at most `max`. @return How many. */
uint32_t load_top(const struct inmd *d, uint32_t *ports, uint32_t max);

#endif

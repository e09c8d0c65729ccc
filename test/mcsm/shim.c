/*
 * Preloaded into a manager: counts the directed routes of all SMPs that the manager sends. Writes
 * the routes to MCSM_SHIM_OUT at the end, and a few times a second, because the manager may be
 * killed. A test checks in this file that no SMP crossed the border. MCSM_SHIM_LOSS is the share of
 * lost SMPs, in percent.
 *
 * MCSM_SHIM_CPU gets one line: how many milliseconds of processor time the manager computed its
 * routes. A manager sends no SMP while it computes. The shim writes the longest processor time between
 * two SMPs. SMPs from the first forwarding table on do not count.
 */
#include <dlfcn.h>
#include <infiniband/umad.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uthash.h>

enum {
    CLASS_DIRECT = 0x81,
    METHOD = 3,
    SET = 2,
    HOP_COUNT = 7,
    ATTRIBUTE = 16, /* 2 bytes */
    LFT = 0x19,
    INITIAL_PATH = 128
};

struct route {
    char ports[256];
    UT_hash_handle hh;
    unsigned long count;
};

static struct route *routes;
static uint64_t saved; /* when, in milliseconds */
static unsigned seed = 1;

static void save(void)
{
    const char *path = getenv("MCSM_SHIM_OUT");
    FILE *out = path ? fopen(path, "w") : NULL;
    struct route *route, *next;

    if (out == NULL) {
        return;
    }
    HASH_ITER(hh, routes, route, next) {
        fprintf(out, "%s %lu\n", route->ports[0] ? route->ports : ",", route->count);
    }
    fclose(out);
}

static uint64_t now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000ULL + time.tv_nsec / 1000000;
}

static void count(const uint8_t *mad)
{
    char ports[256] = "";
    struct route *route;
    size_t length = 0;

    for (int i = 1; i <= mad[HOP_COUNT] && i < 64; i++) {
        length += snprintf(ports + length, sizeof(ports) - length, "%u,", mad[INITIAL_PATH + i]);
    }
    HASH_FIND_STR(routes, ports, route);
    if (route == NULL) {
        route = calloc(1, sizeof(*route));
        if (route == NULL) {
            abort();
        }
        strcpy(route->ports, ports);
        HASH_ADD_STR(routes, ports, route);
    }
    route->count++;
    if (now() - saved > 200) {
        save();
        saved = now();
    }
}

static double cpu(void)
{
    struct timespec time;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}

/* Measures the time without SMPs, until the first forwarding table is set. */
static void measure(const uint8_t *mad, const char *path)
{
    static double last, longest;
    static bool done;
    double since = cpu() - last;
    FILE *out;

    if (done) {
        return;
    }
    if (last > 0 && since > longest) {
        longest = since;
    }
    last = cpu();
    done = mad[METHOD] == SET && (mad[ATTRIBUTE] << 8 | mad[ATTRIBUTE + 1]) == LFT;
    out = done ? fopen(path, "w") : NULL;
    if (out != NULL) {
        fprintf(out, "%.0f\n", longest);
        fclose(out);
    }
}

int umad_send(int port, int agent, void *umad, int length, int timeout, int retries)
{
    static int (*real)(int, int, void *, int, int, int);
    const uint8_t *mad = umad_get_mad(umad);
    const char *loss = getenv("MCSM_SHIM_LOSS"), *times = getenv("MCSM_SHIM_CPU");

    if (real == NULL) {
        *(void **)&real = dlsym(RTLD_NEXT, "umad_send");
        atexit(save);
    }
    if (mad[1] == CLASS_DIRECT) {
        count(mad);
    }
    if (times != NULL) {
        measure(mad, times);
    }
    if (loss != NULL && rand_r(&seed) % 100 < atoi(loss)) {
        return 0;
    }
    return real(port, agent, umad, length, timeout, retries);
}

/*
 * The floor of every figure: limits of the machine without a NIC. The floor is the transfer of a
 * cache line from core to core and back, and memcpy() from memory to memory of one process.
 *
 * Virtual machines move their cores, so a transfer may take 70 ns now and 500 ns a moment later. So
 * the floor is measured again before every repeat, between the same two processes, and ratios are
 * computed within a repeat.
 */
#include "perf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define HANDOVERS   4000
#define HANDOVERS_1 50 /* on one core: each is a switch of processes */
#define COPY_BYTES  (2ull << 20)
#define COPIES_MAX  4000

bool perf_floor_handover(struct perf_session *s, double *seconds_p)
{
    struct perf_run run = {
        .pattern = PERF_HANDOVER, .count = s->yield ? HANDOVERS_1 : HANDOVERS, .window = 1};

    if (!perf_session_begin(s, &run) || !perf_run_client(s, &run, seconds_p)) {
        return false;
    }
    *seconds_p /= run.count * 2.0; /* to and fro */
    return true;
}

bool perf_floor_open(struct perf_floor *floor, uint32_t max_size)
{
    floor->src = malloc(max_size + 1ul);
    floor->dst = malloc(max_size + 1ul);
    if (floor->src == NULL || floor->dst == NULL) {
        tool_error("no memory for 2 x %u bytes: %s", max_size, strerror(errno));
        return false;
    }
    memset(floor->src, 1, max_size + 1ul);
    memset(floor->dst, 2, max_size + 1ul);
    return true;
}

void perf_floor_close(struct perf_floor *floor)
{
    free(floor->src);
    free(floor->dst);
}

double perf_floor_copy(const struct perf_floor *floor, uint32_t size)
{
    uint64_t num = COPY_BYTES / (size + 1ul) + 1, i;
    double start = 0;

    num = (num > COPIES_MAX) ? COPIES_MAX : num;
    for (i = 0; i <= num; i++) {
        if (i == 1) { /* the first only warms up */
            start = perf_now();
        }
        memcpy(floor->dst, floor->src, size);
        /* each copy is made */
        __asm__ volatile("" : : "r"(floor->dst), "r"(floor->src) : "memory");
    }
    return (perf_now() - start) / (double)num;
}

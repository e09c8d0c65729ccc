/*
 * The transfer of a cache line from core to core and back, without the NIC: the floor of latency.
 */
#include "perf.h"

/* In the server's region. Each line is written by one side; neighbours are fetched in pairs. */
struct lines {
    uint64_t to __attribute__((aligned(128)));
    uint64_t fro __attribute__((aligned(128)));
};

/*
 * Acquire pairs with the release store of the other side: nothing but the number is handed over
 * here, but a NIC has data behind it and cannot do without that order.
 */
static bool await(struct perf_session *s, const uint64_t *line, uint64_t value)
{
    struct perf_wait wait = {0};

    while (__atomic_load_n(line, __ATOMIC_ACQUIRE) != value) {
        if (!perf_wait_more(s, &wait)) {
            return false;
        }
    }
    return true;
}

bool perf_handover_server(struct perf_session *s, const struct perf_run *run)
{
    struct lines *lines = (struct lines *)s->mem[PERF_REGION_LINES];
    uint64_t i;

    for (i = 1; i <= run->count; i++) {
        if (!await(s, &lines->to, i)) {
            return false;
        }
        __atomic_store_n(&lines->fro, i, __ATOMIC_RELEASE);
    }
    return true;
}

bool perf_handover_client(struct perf_session *s, const struct perf_run *run)
{
    struct lines *lines = s->lines;
    uint64_t i;

    for (i = 1; i <= run->count; i++) {
        __atomic_store_n(&lines->to, i, __ATOMIC_RELEASE);
        if (!await(s, &lines->fro, i)) {
            return false;
        }
    }
    return true;
}

/* From then on the NIC has no part in it. */
bool perf_handover_map(struct perf_session *s)
{
    glex_ret_t ret =
        glex_ext_peer_ptr(s->ep, s->peer, s->theirs.mh[PERF_REGION_LINES], s->theirs.key, 0,
                          sizeof(struct lines), &s->lines, &s->lines_pin);

    if (ret != GLEX_SUCCESS) {
        snprintf(s->why[PERF_REGION_LINES], sizeof(s->why[PERF_REGION_LINES]),
                 "the peer's memory cannot be mapped (is it on another host?): %s",
                 glex_error_str(ret));
    }
    return ret == GLEX_SUCCESS;
}

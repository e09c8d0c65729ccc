/*
 * Posting and waiting in a measurement: without sleeping. A wait that finds nothing checks from
 * time to time for an error request, a dead peer, or a signal.
 */
#include "perf.h"

#include <sched.h>
#include <time.h>

/* A living peer answers within this time. */
#define WAIT_LIMIT_S 20.0

volatile sig_atomic_t perf_interrupted;

double perf_now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static bool request_failed(struct perf_session *s)
{
    struct glex_err_req err;
    uint32_t num = 1;

    if (glex_poll_error_req(s->ep, &num, &err) != GLEX_SUCCESS || num == 0) {
        return false;
    }
    tool_error("a request failed: %s to endpoint %u of NIC %08x: %s",
               glex_error_req_opcode_str(err.op), err.rmt_ep_num, err.rmt_nic_id,
               glex_error_req_status_str(err.status));
    return true;
}

bool perf_wait_slow(struct perf_session *s, struct perf_wait *wait)
{
    if (s->yield) {
        sched_yield();
        if ((wait->polls & 0x3ff) != 0) {
            return true;
        }
    }
    if (perf_interrupted) {
        tool_error("interrupted");
        return false;
    }
    if (request_failed(s)) {
        return false;
    }
    if (wait->since == 0) {
        wait->since = perf_now();
    } else if (perf_now() - wait->since > WAIT_LIMIT_S) {
        tool_error("the peer has not answered for %.0f seconds", WAIT_LIMIT_S);
        return false;
    }
    if (glex_ext_check_peer(s->ep, s->peer, 0, 0) != GLEX_SUCCESS) {
        tool_error("the peer has gone");
        return false;
    }
    return true;
}

bool perf_send(struct perf_session *s, void *data, uint32_t len)
{
    glex_imm_mp_req_t req = {.rmt_ep_addr = s->peer, .data = data, .len = len};
    struct perf_wait wait = {0};
    glex_ret_t ret;

    while ((ret = glex_send_imm_mp(s->ep, &req, NULL)) == GLEX_BUSY) {
        if (!perf_wait_more(s, &wait)) {
            return false;
        }
    }
    if (ret != GLEX_SUCCESS) {
        tool_error("glex_send_imm_mp of %u bytes: %s", len, glex_error_str(ret));
    }
    return ret == GLEX_SUCCESS;
}

bool perf_wait_mp(struct perf_session *s, void **data_p, uint32_t *len_p)
{
    struct perf_wait wait = {0};
    glex_ep_addr_t src;
    glex_ret_t ret;

    while ((ret = glex_probe_first_mp(s->ep, 0, &src, data_p, len_p)) == GLEX_NO_MP) {
        if (!perf_wait_more(s, &wait)) {
            return false;
        }
    }
    if (ret != GLEX_SUCCESS) {
        tool_error("glex_probe_first_mp: %s", glex_error_str(ret));
    }
    return ret == GLEX_SUCCESS;
}

bool perf_wait_event(struct perf_session *s, glex_event_t **event_p)
{
    struct perf_wait wait = {0};
    glex_ret_t ret;

    while ((ret = glex_probe_first_event(s->ep, 0, event_p)) == GLEX_NO_EVENT) {
        if (!perf_wait_more(s, &wait)) {
            return false;
        }
    }
    if (ret != GLEX_SUCCESS) {
        tool_error("glex_probe_first_event: %s", glex_error_str(ret));
    }
    return ret == GLEX_SUCCESS;
}

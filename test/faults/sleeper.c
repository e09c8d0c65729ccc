/*
 * sleeper: a process sleeps on the event descriptor of its worker, and must learn of the death of
 * the peer. UCP's keepalive wakes the process: UCX_KEEPALIVE_INTERVAL.
 */
#include "board.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

#define TAG      7
#define PATIENCE 60000 /* ms without an event: it sleeps for ever */

enum { SLEEPER, VICTIM };

static struct board *board;
static ucp_worker_h worker;
static bool told;

static void check(ucs_status_t status, const char *what)
{
    if (status != UCS_OK) {
        fail("%s: %s", what, ucs_status_string(status));
    }
}

static void open_worker(unsigned index)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                           .features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP};
    ucp_worker_params_t worker_params = {0};
    struct board_slot *slot = &board->slot[index];
    ucp_context_h context;
    ucp_address_t *address;
    size_t length;

    check(ucp_init(&params, NULL, &context), "ucp_init");
    check(ucp_worker_create(context, &worker_params, &worker), "ucp_worker_create");
    check(ucp_worker_get_address(worker, &address, &length), "ucp_worker_get_address");
    if (length > sizeof(slot->address)) {
        fail("an address of %zu bytes", length);
    }
    memcpy(slot->address, address, length);
    slot->address_length = (uint32_t)length;
    board_set(&slot->ready, 1);
}

static void on_error(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    (void)arg;
    (void)ep;
    printf("sleeper: the error handler says: %s\n", ucs_status_string(status));
    told = true;
}

static ucp_ep_h connect_to(unsigned index)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLER,
                              .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                              .err_handler.cb = on_error};
    ucp_ep_h ep;

    while (!board_get(&board->slot[index].ready)) {
        usleep(1000);
    }
    params.address = (const ucp_address_t *)board->slot[index].address;
    check(ucp_ep_create(worker, &params, &ep), "ucp_ep_create");
    return ep;
}

/* Both send one message and have the other's: connected, with nothing left to do. */
static void exchange(unsigned other)
{
    ucp_request_param_t param = {0};
    char out = 1, in = 0;
    ucs_status_ptr_t sent, received;

    sent = ucp_tag_send_nbx(connect_to(other), &out, 1, TAG, &param);
    received = ucp_tag_recv_nbx(worker, &in, 1, TAG, UINT64_MAX, &param);
    while ((UCS_PTR_IS_PTR(sent) && ucp_request_check_status(sent) == UCS_INPROGRESS) ||
           (UCS_PTR_IS_PTR(received) && ucp_request_check_status(received) == UCS_INPROGRESS)) {
        ucp_worker_progress(worker);
    }
}

/* As programs do it: progress until there is nothing to do, and then sleep until there is. */
static void sleep_until_told(void)
{
    unsigned wakes = 0;
    struct pollfd poll_fd = {.events = POLLIN};
    ucs_status_t status;

    check(ucp_worker_get_efd(worker, &poll_fd.fd), "ucp_worker_get_efd");
    while (!told) {
        if (ucp_worker_progress(worker) > 0) {
            continue;
        }
        status = ucp_worker_arm(worker);
        if (status == UCS_ERR_BUSY) {
            continue;
        }
        check(status, "ucp_worker_arm");
        if (poll(&poll_fd, 1, PATIENCE) == 0) {
            fail("nothing woke it: the peer's death was never noticed");
        }
        wakes++;
    }
    printf("sleeper: told after %u wakes\n", wakes);
    if (wakes == 0) {
        fail("it never slept");
    }
}

int main(void)
{
    pid_t pid;

    board = board_make(NULL, 2);
    pid = fork();
    if (pid < 0) {
        fail("cannot fork: %s", strerror(errno));
    }
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        open_worker(VICTIM);
        exchange(SLEEPER);
        board_set(&board->slot[VICTIM].paused, 1);
        for (;;) {
            ucp_worker_progress(worker);
        }
    }
    open_worker(SLEEPER);
    exchange(VICTIM);
    while (!board_get(&board->slot[VICTIM].paused)) {
        ucp_worker_progress(worker);
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    sleep_until_told();
    return 0;
}

/*
 * wakeup [COUNT]: the one-way time of a message to a worker that sleeps in epoll_wait(), over the
 * transport in UCX_TLS. Before each message the sender waits until the receiver surely sleeps. With
 * ucx_perftest -E sleep most messages come before the receiver has fallen asleep. Prints the
 * median, the shortest and the longest time in microseconds.
 */
#include "measure.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

#define COUNT    2000
#define WARM_UP  50
#define ASLEEP   60e-6 /* seconds after which a receiver with nothing to do sleeps */
#define PATIENCE 10000 /* milliseconds without a message: something is broken */

struct side {
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_ep_h ep;
    int fd;                /* of the worker */
    int pipe_in, pipe_out; /* to exchange addresses */
};

/* The data of a message: the time of sending, by the clock that all processes share */
struct stamp {
    double sent;
};

static void transfer(ssize_t (*call)(int, void *, size_t), int fd, void *data, size_t length)
{
    ssize_t done;

    for (; length > 0; length -= (size_t)done, data = (char *)data + done) {
        done = call(fd, data, length);
        if (done <= 0) {
            fail("the other process is gone");
        }
    }
}

static ssize_t write_data(int fd, void *data, size_t length)
{
    return write(fd, data, length);
}

static void open_worker(struct side *side)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                           .features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP};
    ucp_worker_params_t worker_params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                         .thread_mode = UCS_THREAD_MODE_SINGLE};

    check(ucp_init(&params, NULL, &side->context), "ucp_init");
    check(ucp_worker_create(side->context, &worker_params, &side->worker), "ucp_worker_create");
    check(ucp_worker_get_efd(side->worker, &side->fd), "ucp_worker_get_efd");
}

static void connect_peer(struct side *side)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
    ucp_address_t *mine;
    void *theirs;
    size_t length;

    check(ucp_worker_get_address(side->worker, &mine, &length), "ucp_worker_get_address");
    transfer(write_data, side->pipe_out, &length, sizeof(length));
    transfer(write_data, side->pipe_out, mine, length);
    ucp_worker_release_address(side->worker, mine);

    transfer(read, side->pipe_in, &length, sizeof(length));
    theirs = malloc(length);
    if (theirs == NULL) {
        fail("no memory for an address of %zu bytes", length);
    }
    transfer(read, side->pipe_in, theirs, length);
    params.address = theirs;
    check(ucp_ep_create(side->worker, &params, &side->ep), "ucp_ep_create");
    free(theirs);
}

static void finish_request(struct side *side, void *request)
{
    if (UCS_PTR_IS_ERR(request)) {
        fail("%s", ucs_status_string(UCS_PTR_STATUS(request)));
    }
    if (request != NULL) {
        while (ucp_request_check_status(request) == UCS_INPROGRESS) {
            ucp_worker_progress(side->worker);
        }
        ucp_request_free(request);
    }
}

static void send_stamp(struct side *side)
{
    static const ucp_request_param_t param;
    struct stamp stamp = {.sent = now()};

    finish_request(side, ucp_tag_send_nbx(side->ep, &stamp, sizeof(stamp), 0, &param));
}

/* Sleep until something comes: as ucp_worker_wait(), but one that never comes is noticed. */
static void sleep_until_event(struct side *side)
{
    struct pollfd fd = {.fd = side->fd, .events = POLLIN};
    ucs_status_t status = ucp_worker_arm(side->worker);

    if (status == UCS_ERR_BUSY) {
        return;
    }
    check(status, "ucp_worker_arm");
    if (poll(&fd, 1, PATIENCE) == 0) {
        fail("no wake-up in %d seconds", PATIENCE / 1000);
    }
}

static double receive_stamp(struct side *side)
{
    static const ucp_request_param_t param;
    struct stamp stamp;
    void *request = ucp_tag_recv_nbx(side->worker, &stamp, sizeof(stamp), 0, 0, &param);

    if (UCS_PTR_IS_ERR(request)) {
        fail("ucp_tag_recv_nbx: %s", ucs_status_string(UCS_PTR_STATUS(request)));
    }
    while (ucp_request_check_status(request) == UCS_INPROGRESS) {
        if (ucp_worker_progress(side->worker) == 0) {
            sleep_until_event(side);
        }
    }
    ucp_request_free(request);
    return now() - stamp.sent;
}

static void wait_awake(struct side *side, double seconds)
{
    double end = now() + seconds;

    while (now() < end) {
        ucp_worker_progress(side->worker);
    }
}

static void run_sender(struct side *side, int count)
{
    int i;

    for (i = 0; i < WARM_UP + count; i++) {
        wait_awake(side, ASLEEP);
        send_stamp(side);
        receive_stamp(side); /* the answer: it is awake and measures no more */
    }
}

static void run_receiver(struct side *side, int count)
{
    double *times = malloc((size_t)count * sizeof(*times)), took, median;
    int i;

    if (times == NULL) {
        fail("no memory for %d times", count);
    }
    for (i = 0; i < WARM_UP + count; i++) {
        took = receive_stamp(side);
        if (i >= WARM_UP) {
            times[i - WARM_UP] = took;
        }
        send_stamp(side);
    }
    median = sort_median(times, (size_t)count);
    printf("wakeup %d: median %.3f best %.3f worst %.3f us\n", count, median * 1e6, times[0] * 1e6,
           times[count - 1] * 1e6);
    fflush(stdout);
    free(times);
}

static void run(struct side *side, int is_sender, int count)
{
    char end = 0;

    pin(is_sender);
    open_worker(side);
    connect_peer(side);
    (is_sender ? run_sender : run_receiver)(side, count);
    /* a side closes only after the peer has received everything */
    transfer(write_data, side->pipe_out, &end, 1);
    while (poll(&(struct pollfd){.fd = side->pipe_in, .events = POLLIN}, 1, 0) == 0) {
        ucp_worker_progress(side->worker);
    }
    ucp_ep_destroy(side->ep);
    ucp_worker_destroy(side->worker);
    ucp_cleanup(side->context);
}

int main(int argc, char **argv)
{
    int count = argc > 1 ? atoi(argv[1]) : COUNT;
    int to_sender[2], to_receiver[2], status;
    struct side side = {0};
    pid_t child;

    if (argc > 2 || count <= 0) {
        fprintf(stderr, "Usage: %s [COUNT]\n", argv[0]);
        return 2;
    }
    if (pipe(to_sender) != 0 || pipe(to_receiver) != 0 || (child = fork()) < 0) {
        fail("cannot make a second process: %s", strerror(errno));
    }
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    }
    side.pipe_in = child == 0 ? to_sender[0] : to_receiver[0];
    side.pipe_out = child == 0 ? to_receiver[1] : to_sender[1];
    close(child == 0 ? to_sender[1] : to_receiver[1]); /* so that the other's end is noticed */
    close(child == 0 ? to_receiver[0] : to_sender[0]);
    run(&side, child == 0, count);
    if (child == 0) {
        return 0;
    }
    if (waitpid(child, &status, 0) != child || status != 0) {
        fail("the sender failed");
    }
    return 0;
}

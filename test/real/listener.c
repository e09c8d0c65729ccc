/*
 * A server with a UCP listener, whose clients come, exchange messages, and go. After many clients the
 * server has as many mappings and descriptors, as much address space and as much shared memory as after
 * the first few.
 *
 *     listener FIRST MORE      FIRST clients, then MORE clients
 *
 * Each client is a process of its own. Every third client goes without closing its endpoint, and every
 * third client is killed. test/real/listener.sh builds and runs this program.
 */
#include "../uct/holdings.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <ucp/api/ucp.h>

#define MESSAGES 20
#define LENGTH   3000 /* longer than a message of the NIC */
#define AM_ID    1

/* A server that serves one client at a time has few endpoints */
#define MAX_ENDPOINTS 64

/* Time for the server to find out that the last clients are dead */
#define SETTLE_S 20

/* What a client does at its end */
enum { CLOSE, LEAVE, DIE, WAYS };

/* Shared by the server and the clients */
struct board {
    volatile int port;         /* of the listener, 0: not known yet */
    volatile unsigned clients; /* clients that have ended */
};

struct endpoints {
    ucp_ep_h eps[MAX_ENDPOINTS];
    unsigned count;
};

static struct board *board;
static ucp_context_h context;
static ucp_worker_h worker;
static struct endpoints open_eps, failed_eps;
static unsigned answers;
static char data[LENGTH];

static void check(ucs_status_t status, const char *what)
{
    if (status != UCS_OK) {
        fprintf(stderr, "listener: %s: %s\n", what, ucs_status_string(status));
        exit(1);
    }
}

static void add_endpoint(struct endpoints *list, ucp_ep_h ep)
{
    if (list->count == MAX_ENDPOINTS) {
        fprintf(stderr, "listener: more than %d endpoints\n", MAX_ENDPOINTS);
        exit(1);
    }
    list->eps[list->count++] = ep;
}

/* Returns whether the endpoint was in the list */
static int remove_endpoint(struct endpoints *list, ucp_ep_h ep)
{
    for (unsigned i = 0; i < list->count; ++i) {
        if (list->eps[i] == ep) {
            list->eps[i] = list->eps[--list->count];
            return 1;
        }
    }
    return 0;
}

/* ---- both sides ---- */

static void on_failure(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    add_endpoint(&failed_eps, ep);
}

static ucs_status_t on_answer(void *arg, const void *header, size_t header_length, void *received,
                              size_t length, const ucp_am_recv_param_t *param)
{
    ++answers;
    return UCS_OK;
}

static void complete(ucs_status_ptr_t request, const char *what)
{
    if (UCS_PTR_IS_PTR(request)) {
        while (ucp_request_check_status(request) == UCS_INPROGRESS) {
            ucp_worker_progress(worker);
        }
        ucp_request_free(request);
    } else {
        check(UCS_PTR_STATUS(request), what);
    }
}

static void on_sent(void *request, ucs_status_t status, void *arg)
{
    ucp_request_free(request);
}

/* The data is never changed, so a message may be sent later */
static void send_data(ucp_ep_h ep)
{
    ucp_request_param_t param = {.op_attr_mask =
                                     UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_FLAGS,
                                 .flags = UCP_AM_SEND_FLAG_REPLY | UCP_AM_SEND_FLAG_EAGER,
                                 .cb.send = on_sent};

    (void)ucp_am_send_nbx(ep, AM_ID, NULL, 0, data, sizeof(data), &param);
}

static ucs_status_t on_question(void *arg, const void *header, size_t header_length, void *received,
                                size_t length, const ucp_am_recv_param_t *param)
{
    send_data(param->reply_ep);
    return UCS_OK;
}

static void open_worker(ucp_am_recv_callback_t handler)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_AM};
    ucp_am_handler_param_t am = {.field_mask =
                                     UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB,
                                 .id = AM_ID,
                                 .cb = handler};
    ucp_worker_params_t worker_params = {0};

    check(ucp_init(&params, NULL, &context), "context");
    check(ucp_worker_create(context, &worker_params, &worker), "worker");
    check(ucp_worker_set_am_recv_handler(worker, &am), "handler");
}

static struct sockaddr_in loopback(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

/* ---- clients ---- */

static void client(int way)
{
    struct sockaddr_in address = loopback(board->port);
    ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_SOCK_ADDR | UCP_EP_PARAM_FIELD_FLAGS |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
        .flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER,
        .err_mode = UCP_ERR_HANDLING_MODE_PEER,
        .err_handler.cb = on_failure,
        .sockaddr = {(struct sockaddr *)&address, sizeof(address)}};
    ucp_request_param_t close_param = {0};
    ucp_ep_h ep;

    open_worker(on_answer);
    check(ucp_ep_create(worker, &params, &ep), "endpoint");
    for (unsigned sent = 0; sent < MESSAGES; ++sent) {
        send_data(ep);
        while ((answers <= sent) && (failed_eps.count == 0)) {
            ucp_worker_progress(worker);
        }
        if (failed_eps.count > 0) {
            fprintf(stderr, "listener: a client lost its server\n");
            exit(1);
        }
    }
    if (way == DIE) {
        kill(getpid(), SIGKILL);
    }
    if (way == LEAVE) {
        _exit(0);
    }
    complete(ucp_ep_close_nbx(ep, &close_param), "close");
    ucp_worker_destroy(worker);
    ucp_cleanup(context);
    exit(0);
}

/* ---- the server ---- */

static struct holdings look(void)
{
    struct holdings now = holdings_look();

    printf("%u clients: %lu mappings, %lu descriptors, %lu KiB of address space, %lu KiB shared\n",
           board->clients, now.maps, now.fds, now.vm_kib, now.shared_kib);
    return now;
}

static void on_connect(ucp_conn_request_h request, void *arg)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLER |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                              .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                              .err_handler.cb = on_failure,
                              .conn_request = request};
    ucp_ep_h ep;

    check(ucp_ep_create(worker, &params, &ep), "endpoint of a client");
    add_endpoint(&open_eps, ep);
}

static ucp_listener_h listen_at_any_port(void)
{
    struct sockaddr_in address = loopback(0);
    ucp_listener_params_t params = {.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR |
                                                  UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
                                    .sockaddr = {(struct sockaddr *)&address, sizeof(address)},
                                    .conn_handler.cb = on_connect};
    ucp_listener_attr_t attr = {.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR};
    ucp_listener_h listener;

    check(ucp_listener_create(worker, &params, &listener), "listener");
    check(ucp_listener_query(listener, &attr), "address of the listener");
    board->port = ntohs(((struct sockaddr_in *)&attr.sockaddr)->sin_port);
    return listener;
}

/* Progress, until `clients` clients have ended and the server has closed their endpoints */
static void serve(unsigned clients)
{
    ucp_request_param_t force = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                 .flags = UCP_EP_CLOSE_FLAG_FORCE};
    ucp_ep_h ep;

    while ((board->clients < clients) || (open_eps.count > 0)) {
        ucp_worker_progress(worker);
        while (failed_eps.count > 0) {
            ep = failed_eps.eps[--failed_eps.count];
            if (remove_endpoint(&open_eps, ep)) {
                complete(ucp_ep_close_nbx(ep, &force), "close by force");
            }
        }
    }
}

/* The bounds: less than a mapping, eight KiB of shared memory and 512 KiB of address space for every
 * second client */
static int is_within(const struct holdings *first, const struct holdings *last, unsigned clients)
{
    return last->maps <= first->maps + clients / 2 && last->fds <= first->fds + clients / 10 &&
           last->shared_kib <= first->shared_kib + clients * 4 &&
           last->vm_kib <= first->vm_kib + clients * 256;
}

/* Looks until the holdings are within the bounds, at most SETTLE_S seconds. The server may not know
 * yet that the last clients are dead. */
static int returns_to(const struct holdings *first, unsigned clients)
{
    time_t end = time(NULL) + SETTLE_S;
    struct holdings last = look();

    while (!is_within(first, &last, clients) && (time(NULL) < end)) {
        for (unsigned i = 0; i < 100; ++i) {
            ucp_worker_progress(worker);
            usleep(1000);
        }
        last = look();
    }
    return is_within(first, &last, clients);
}

static int server(unsigned first_clients, unsigned more)
{
    struct holdings first;
    ucp_listener_h listener;
    int is_right;

    open_worker(on_question);
    listener = listen_at_any_port();
    serve(first_clients);
    first = look();
    serve(first_clients + more);
    is_right = returns_to(&first, more);
    if (!is_right) {
        printf("listener: the server holds more after %u clients than after %u\n",
               first_clients + more, first_clients);
    }
    ucp_listener_destroy(listener);
    ucp_worker_destroy(worker);
    ucp_cleanup(context);
    return is_right ? 0 : 1;
}

/* ---- the parent of all ---- */

static pid_t start(void)
{
    pid_t pid = fork();

    if (pid < 0) {
        perror("listener: fork");
        exit(1);
    }
    return pid;
}

/* Returns whether the process ended as it should. A process that died by SIGKILL, if `may_die`. */
static int ends_well(pid_t pid, int may_die)
{
    int status = 0;

    waitpid(pid, &status, 0);
    return (WIFEXITED(status) && (WEXITSTATUS(status) == 0)) ||
           (may_die && WIFSIGNALED(status) && (WTERMSIG(status) == SIGKILL));
}

int main(int argc, char **argv)
{
    unsigned first, more, i;
    pid_t server_pid, pid;

    if (argc != 3) {
        fprintf(stderr, "usage: listener FIRST MORE\n");
        return 2;
    }
    first = strtoul(argv[1], NULL, 10);
    more = strtoul(argv[2], NULL, 10);
    board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    server_pid = start();
    if (server_pid == 0) {
        return server(first, more);
    }
    while ((board->port == 0) && (kill(server_pid, 0) == 0)) {
        usleep(1000);
    }
    for (i = 0; i < first + more; ++i) {
        pid = start();
        if (pid == 0) {
            client(i % WAYS);
        }
        if (!ends_well(pid, i % WAYS == DIE)) {
            fprintf(stderr, "listener: client %u failed\n", i);
            kill(server_pid, SIGKILL);
            return 1;
        }
        ++board->clients;
    }
    return ends_well(server_pid, 0) ? 0 : 1;
}

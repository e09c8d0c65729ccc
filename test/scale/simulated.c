/*
 * simulated COUNT: one interface of the transport, and COUNT peers that this program simulates.
 * Tells what a connection takes, and the longest progress call of each part of their life, by the
 * processor's time of this thread. Prints lines "name value", as scale does.
 *
 * simulated visits COUNT LIMIT IDLE_LIMIT: the same with another measure, which is exact on any
 * machine: how many connections a progress call looks at. Status 1 if one looked at more than
 * LIMIT, or, while nothing comes and nothing is to be sent, at more than IDLE_LIMIT.
 */
#include "scale.h"
#include "sim.h"
#include "visits.h"
#include "core/glex_ep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATIENCE   120.0 /* seconds of waiting after which the wait has failed */
#define IDLE_TIME  2.0
#define ROUNDS     4    /* messages to each peer, and back */
#define DEAD_PART  100  /* one in so many peers dies */
#define LENDERS    1000 /* peers that lend the interface a FIFO; half of all if that is fewer */
#define WAIT_CALLS 1000 /* progress calls while all wait for peers */
#define ANNOUNCED  1000 /* announced messages, each by a different peer; at most one per peer */
#define BORROWERS                                                                                  \
    1000               /* peers that ask the interface for a FIFO; at most all peers that lend no
                        * FIFO */
#define HEAP_MARK 1000 /* connections before the first measurement of the heap */
#define MIN_PEERS 100

struct request {
    uct_pending_req_t uct;
    unsigned index;
};

/* Progress calls of one part */
struct part {
    const char *name;
    uint64_t calls;
    double total, longest;
    unsigned visits; /* largest number of connections that one call has visited */
};

struct run {
    struct node node;
    unsigned count;
    bool by_visits;
    unsigned limit, idle_limit; /* visits of one call */
    bool is_beyond;             /* it was more */
    uct_ep_h *eps;
    struct request *requests;
    unsigned num_failed; /* endpoints */
    uint64_t received;
    struct part part;
};

static struct run run;

static unsigned min(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

static unsigned num_lenders(void)
{
    return min(run.count / 2, LENDERS);
}

static unsigned num_borrowers(void)
{
    return min(run.count - num_lenders(), BORROWERS);
}

static void progress(void)
{
    double begin, took;
    unsigned visits;

    run.part.calls++;
    if (run.by_visits) {
        visits_watch();
        uct_iface_progress(run.node.iface);
        visits = visits_end();
        run.part.visits = visits > run.part.visits ? visits : run.part.visits;
        return;
    }
    begin = processor_time();
    uct_iface_progress(run.node.iface);
    took = processor_time() - begin;
    run.part.total += took;
    run.part.longest = took > run.part.longest ? took : run.part.longest;
}

static void begin_part(const char *name)
{
    memset(&run.part, 0, sizeof(run.part));
    run.part.name = name;
}

static void report(const char *what, double value)
{
    char name[64];

    snprintf(name, sizeof(name), "%s_%s", run.part.name, what);
    figure(name, value);
}

static void check_visits(unsigned limit)
{
    if (run.part.visits > limit) {
        fprintf(stderr,
                "simulated: %s: a progress call looked at %u of %u connections, more than "
                "%u\n",
                run.part.name, run.part.visits, run.count, limit);
        run.is_beyond = true;
    }
}

static void end_part(void)
{
    report("calls", (double)run.part.calls);
    if (run.by_visits) {
        report("visits", run.part.visits);
        check_visits(run.limit);
    } else {
        report("mean", run.part.total / (double)run.part.calls);
        report("longest", run.part.longest);
    }
}

/* Progress until something has come to `wanted` */
static void await(const char *what, const uint64_t *value, uint64_t wanted)
{
    double deadline = now() + PATIENCE;
    uint64_t round = 0;

    while (*value < wanted) {
        progress();
        if (++round % 64 == 0) {
            sim_take(0);
        }
        if (round % 1024 == 0) {
            progress_note(what, *value, wanted);
            if (now() > deadline) {
                fail("%s: %llu of %llu after a long time", what, (unsigned long long)*value,
                     (unsigned long long)wanted);
            }
        }
    }
    progress_note(what, wanted, wanted);
}

/* ---- messages -------------------------------------------------------------------------------- */

static ucs_status_t handle(void *arg, void *data, size_t length, unsigned flags)
{
    (void)arg;
    (void)data;
    (void)length;
    (void)flags;
    run.received++;
    return UCS_OK;
}

static ucs_status_t handle_failure(void *arg, uct_ep_h ep, ucs_status_t status)
{
    (void)arg;
    (void)ep;
    (void)status;
    run.num_failed++;
    return UCS_OK;
}

static ucs_status_t try_send(uct_pending_req_t *uct)
{
    struct request *request = (struct request *)uct;

    return uct_ep_am_short(run.eps[request->index], SIM_AM_ID, 0, NULL, 0);
}

/* Send now, or when it can go */
static void post(unsigned index)
{
    struct request *request = &run.requests[index];
    ucs_status_t status = try_send(&request->uct);

    if (status == UCS_ERR_NO_RESOURCE) {
        status = uct_ep_pending_add(run.eps[index], &request->uct, 0);
    }
    check(status, "a message to a simulated peer");
}

static void make_endpoint(unsigned index)
{
    struct node_address address;

    sim_address(&run.node, index, &address);
    run.eps[index] = node_connect(&run.node, &address);
    run.requests[index].uct.func = try_send;
    run.requests[index].index = index;
}

/* ---- parts ----------------------------------------------------------------------------------- */

/* Every second peer connects by itself, and is sent a message when that is done */
static bool is_peers_turn(unsigned index)
{
    return index % 2 == 0;
}

static void connect_some(unsigned first, unsigned end)
{
    uint64_t open = sim.open, sent = sim.messages;
    unsigned i;

    for (i = first; i < end; i++) {
        make_endpoint(i);
        if (is_peers_turn(i)) {
            sim_connect(i);
        } else {
            post(i);
        }
    }
    await("connecting", &sim.open, open + end - first);
    for (i = first; i < end; i++) {
        if (is_peers_turn(i)) {
            post(i);
        }
    }
    await("sending", &sim.messages, sent + end - first);
}

/* One after another */
static void connect_each(unsigned count)
{
    size_t heap = 0;
    unsigned i;

    begin_part("connect_each");
    for (i = 0; i < count; i++) {
        if (i == HEAP_MARK) {
            heap = heap_used();
        }
        connect_some(i, i + 1);
    }
    end_part();
    if (count > 2 * HEAP_MARK) {
        figure("heap_per_connection", (double)(heap_used() - heap) / (count - HEAP_MARK));
    }
}

/* All others at once */
static void connect_all(unsigned first)
{
    begin_part("connect_all");
    connect_some(first, run.count);
    end_part();
}

/* Each peer answers, so as many messages as peers are in flight. Peers with FIFOs answer later. */
static void exchange(void)
{
    unsigned round, i;

    begin_part("exchange");
    sim.echo = true;
    for (round = 0; round < ROUNDS; round++) {
        uint64_t before = run.received;

        for (i = sim.lenders; i < run.count; i++) {
            post(i);
        }
        await("exchanging", &run.received, before + run.count - sim.lenders);
    }
    sim.echo = false;
    end_part();
}

/* Fill the FIFO of a peer, and have one message more wait. Returns how many messages that is. */
static unsigned fill_fifo(unsigned index)
{
    unsigned count = 1;

    while (try_send(&run.requests[index].uct) == UCS_OK) {
        count++;
    }
    post(index);
    return count;
}

/* Enough progress calls to visit each FIFO without credits, and to send its waiting messages */
static void progress_all(void)
{
    unsigned calls = sim.lenders / UCT_GLEX_SLICE + 2;

    while (calls-- > 0) {
        progress();
    }
}

/* Peers do not consume the messages in their FIFOs. So messages to them wait, and the interface
 * reads credits. Then the peers that the interface visits last consume their messages. Other peers
 * must not delay them. */
static void starve(void)
{
    unsigned half = sim.lenders / 2, i;
    uint64_t wanted;

    sim_take(0);
    wanted = sim.messages;
    begin_part("starve");
    for (i = 0; i < sim.lenders; i++) {
        wanted += fill_fifo(i);
    }
    for (i = 0; i < WAIT_CALLS; i++) {
        progress();
    }
    figure("starved", (double)ucs_list_length(&sim.iface->er.starved));
    sim_take(half);
    progress_all();
    figure("starved_still", (double)ucs_list_length(&sim.iface->er.starved));
    if (ucs_list_length(&sim.iface->er.starved) > half) {
        fail("endpoints that have credits by now do not know that");
    }
    sim_take(0);
    progress_all();
    end_part();
    sim_take(0);
    if (sim.messages != wanted) {
        fail("of the messages that waited for credits %llu did not go",
             (unsigned long long)(wanted - sim.messages));
    }
}

/* Each of many peers announces a message, and nothing can be said to the peers for a while */
static void announce_once(bool was_mapped, bool is_mapped)
{
    unsigned first = sim.lenders, count = min(run.count - first, ANNOUNCED), i;
    uint64_t received = run.received, returned = sim.returned;

    sim.is_mapped = was_mapped;
    sim.is_full = true;
    for (i = first; i < first + count; i++) {
        if (!sim_announce(i)) {
            fail("peer %u has no credits for what it announces", i);
        }
    }
    for (i = 0; i < WAIT_CALLS; i++) {
        progress();
    }
    figure(
        was_mapped ? "not_returned" : "not_fetched",
        (double)ucs_list_length(was_mapped ? &sim.iface->sr.unreleased : &sim.iface->sr.rx_wait));
    sim.is_mapped = is_mapped;
    sim.is_full = false;
    await("giving back", &sim.returned, returned + count);
    await("delivering", &run.received, received + count);
}

/* When the NIC accepts requests again, the interface returns the units that it has read in place,
 * and fetches waiting messages or reads them in place, which causes no event. */
static void announce(void)
{
    begin_part("announce");
    announce_once(true, true);
    announce_once(false, false);
    announce_once(false, true);
    end_part();
}

/* Each borrower stores a message, which is received. Then the interface stops polling the FIFOs. */
static void store_all(unsigned first, unsigned end)
{
    uint64_t wanted = run.received;
    double deadline = now() + PATIENCE;
    unsigned i;

    for (i = first; i < end; i++) {
        wanted += sim_store(i);
    }
    await("receiving from FIFOs", &run.received, wanted);
    while (sim.iface->num_polled > 0) {
        progress();
        if (now() > deadline) {
            fail("%u FIFOs are polled, although nothing comes", sim.iface->num_polled);
        }
    }
}

/* More peers borrow FIFOs than FIFOs exist, so the interface revokes idle FIFOs */
static void borrow(void)
{
    unsigned first = sim.lenders, end = first + num_borrowers(), i;
    double deadline = now() + PATIENCE;
    uint64_t borrowed;

    begin_part("borrow");
    for (i = first; i < end; i++) {
        sim_borrow(i);
    }
    while (sim.borrowed + sim.refused < end - first) {
        progress();
    }
    borrowed = sim.borrowed;
    figure("borrowed", (double)borrowed);
    store_all(first, end);
    store_all(first, end);
    while (sim.borrowed == borrowed) {
        sim_borrow(end - 1); /* which got none */
        for (i = 0; i < WAIT_CALLS; i++) {
            progress();
        }
        if (now() > deadline) {
            fail("no FIFO that lies idle is asked back, and lent again");
        }
    }
    store_all(first, end);
    end_part();
}

/* When nothing comes any more, for a while */
static void idle(void)
{
    uint64_t checks;
    double end;

    while (sim_waiting() > 0 || sim.iface->due) {
        progress();
    }
    begin_part("idle");
    checks = sim.checks;
    end = now() + IDLE_TIME;
    while (now() < end) {
        progress();
    }
    end_part();
    if (run.by_visits) {
        check_visits(run.idle_limit);
    }
    figure("checks_per_second", (double)(sim.checks - checks) / IDLE_TIME);
}

/* A dead peer sends nothing, so the interface must check its peers */
static void die(void)
{
    double begin = now();
    unsigned i, dead = 0;

    begin_part("deaths");
    for (i = 1; i < run.count; i += DEAD_PART) {
        uct_glex_ep_t *ep = (uct_glex_ep_t *)run.eps[i];

        if (ep->vc->state == UCT_GLEX_VC_OPEN) {
            sim.peers[i].is_dead = true;
            dead++;
        }
    }
    dead += run.num_failed;
    while (run.num_failed < dead) {
        progress();
        if (now() - begin > PATIENCE) {
            fail("%u of %u endpoints to dead peers failed", run.num_failed, dead);
        }
    }
    end_part();
    figure("deaths_found_after", now() - begin);
}

/* ---- program --------------------------------------------------------------------------------- */

static void make_tables(unsigned count)
{
    run.count = count;
    run.eps = calloc(count, sizeof(*run.eps));
    run.requests = calloc(count, sizeof(*run.requests));
    if (run.eps == NULL || run.requests == NULL) {
        fail("no memory for %u endpoints", count);
    }
}

static void run_all(void)
{
    char fifos[16];
    unsigned i;

    setenv("UCX_HANDLE_ERRORS", "none", 1);
    snprintf(fifos, sizeof(fifos), "%u", num_borrowers() * 4 / 5);
    setenv("UCX_GLEX_ER_MAX_CHANNELS", fifos, 1);
    setenv("UCX_GLEX_ERQ_SIZE", "8k", 1);
    if (run.by_visits) {
        visits_begin(2 * run.count);
    } else {
        pin(0);
    }
    node_open_with(&run.node, handle_failure, NULL);
    node_handle(&run.node, SIM_AM_ID, handle, NULL);
    sim_begin(&run.node, run.count, num_lenders());
    figure("vc", sizeof(uct_glex_vc_t));
    figure("table_per_connection", sizeof(*sim.iface->vcs) + sizeof(*sim.iface->vc_table.heads) +
                                       sizeof(*sim.iface->vc_table.next));
    connect_each(run.count / 2);
    connect_all(run.count / 2);
    figure("connected", (double)sim.open);
    exchange();
    starve();
    announce();
    borrow();
    idle();
    die();
    for (i = 0; i < run.count; i++) {
        uct_ep_destroy(run.eps[i]);
    }
    node_close(&run.node);
}

int main(int argc, char **argv)
{
    run.by_visits = argc == 5 && strcmp(argv[1], "visits") == 0;
    if (run.by_visits) {
        run.limit = (unsigned)atoi(argv[3]);
        run.idle_limit = (unsigned)atoi(argv[4]);
    } else if (argc != 2) {
        fputs("Usage: simulated COUNT | simulated visits COUNT LIMIT IDLE_LIMIT\n", stderr);
        return 2;
    }
    make_tables((unsigned)atoi(argv[run.by_visits ? 2 : 1]));
    if (run.count < MIN_PEERS) {
        fail("there are to be %u peers at least", MIN_PEERS);
    }
    run_all();
    return run.is_beyond ? 1 : 0;
}

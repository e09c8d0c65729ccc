/*
 * Very many agents: clients of libudmon that each send SERIES samples every INTERVAL. Not a test:
 * test/udmon/many measures collectors with this program.
 *
 *   udmon_agents [-n AGENTS] [-k SERIES] [-i INTERVAL] [-t SECONDS] [-s SECRET] [-x] ADDRESS...
 *
 * With -x each agent also sends a record that is not a sample. INTERVAL is in seconds. SECONDS
 * begin when all agents are connected. Agents use the addresses (of IPv4 loopback) in turn. Each
 * second a line on stderr reports the progress. At the end a line on stdout has: agents, samples
 * made, sent, dropped, and the seconds until all agents were connected.
 *
 * A process runs AGENTS_EACH agents, because each agent needs some descriptors. The counters are in
 * memory that all processes share. Only the process of an agent writes the agent's counters.
 */
#include "udmon/include/udmon.h"
#include "udmon/lib/metric.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { AGENTS_EACH = 2000, EVENTS = 256, QUEUE_BYTES = 256 * 1024, RECORD_BYTES = 128 };

struct counts {
    uint64_t made, sent, dropped;
    int connected;
};

struct agent {
    struct udmon_client *client;
    struct counts *counts;
    uint64_t due_ns;
};

struct shared {
    int stopping;
    struct counts counts[];
};

static unsigned agent_count = 1000, series = 10;
static double interval = 1, seconds = 10;
static const char *secret;
static int sends_junk;
static char **addresses;
static unsigned address_count;
static struct shared *shared;

static void fail(const char *doing, int error)
{
    fprintf(stderr, "udmon_agents: %s: %s\n", doing, strerror(error));
    exit(1);
}

static uint64_t now_ns(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return ((uint64_t)now.tv_sec * 1000000000u) + now.tv_nsec;
}

static void agent_open(struct agent *agent, unsigned number, int epoll_fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = agent};
    struct udmon_options options;
    char name[32], source[32];
    int ret;

    snprintf(name, sizeof(name), "agent%u", number);
    /*
     * As on separate hosts: one address has too few ports, and finding a free port would be slow.
     */
    snprintf(source, sizeof(source), "127.1.%u.%u", (number / 250) % 250, 1 + (number % 250));
    udmon_options_init(&options);
    options.source = source;
    options.secret_file = secret;
    options.name = name;
    options.queue_bytes = QUEUE_BYTES + (series * RECORD_BYTES);
    ret =
        udmon_client_open(addresses[number % address_count], &options, NULL, NULL, &agent->client);
    if (ret < 0) {
        fail("opening a client", -ret);
    }
    event.data.ptr = agent;
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, udmon_client_fd(agent->client), &event) < 0) {
        fail("watching a client", errno);
    }
    agent->counts = &shared->counts[number];
    /* Spread over the interval, as agents are that were started at different times. */
    agent->due_ns =
        now_ns(CLOCK_MONOTONIC) + (uint64_t)(interval * 1e9 * (number % AGENTS_EACH) / AGENTS_EACH);
}

static void agent_send(struct agent *agent)
{
    uint8_t record[UDMON_METRIC_RECORD_MAX];
    char name[64];
    struct udmon_metric metric = {.name = name, .time_ns = now_ns(CLOCK_REALTIME)};
    struct udmon_stats stats;
    unsigned i;
    int length;

    for (i = 0; i < series; ++i) {
        snprintf(name, sizeof(name), "node_simulated_value{number=\"%u\"}", i);
        metric.value = (double)(agent->counts->made % 1000);
        length = udmon_metric_encode(&metric, record);
        if ((length < 0) || (udmon_client_send(agent->client, record, length) < 0)) {
            fail("sending", EINVAL);
        }
    }
    if (sends_junk && (udmon_client_send(agent->client, "junk", 4) < 0)) {
        fail("sending", EINVAL);
    }
    udmon_client_flush(agent->client);
    udmon_client_stats(agent->client, &stats);
    agent->counts->made = stats.accepted;
    agent->counts->sent = stats.sent;
    agent->counts->dropped = stats.dropped;
}

/* Runs the due agents; returns ms until the next check. */
static int agents_tick(struct agent *agents, unsigned count)
{
    uint64_t now = now_ns(CLOCK_MONOTONIC);
    unsigned i;

    for (i = 0; i < count; ++i) {
        agents[i].counts->connected = (udmon_client_state(agents[i].client) == UDMON_CONNECTED);
        if (agents[i].due_ns <= now) {
            agent_send(&agents[i]);
            agents[i].due_ns += (uint64_t)(interval * 1e9);
        }
    }
    return 10;
}

static void agents_run(unsigned first, unsigned count)
{
    struct agent *agents = calloc(count, sizeof(*agents));
    int dies_with_parent = prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct epoll_event events[EVENTS];
    int i, ready, epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    unsigned j;

    if ((agents == NULL) || (epoll_fd < 0) || (dies_with_parent < 0)) {
        fail("beginning", errno);
    }
    for (j = 0; j < count; ++j) {
        agent_open(&agents[j], first + j, epoll_fd);
    }
    while (!__atomic_load_n(&shared->stopping, __ATOMIC_RELAXED)) {
        ready = epoll_wait(epoll_fd, events, EVENTS, agents_tick(agents, count));
        for (i = 0; i < ready; ++i) {
            udmon_client_process(((struct agent *)events[i].data.ptr)->client);
        }
    }
    for (j = 0; j < count; ++j) {
        udmon_client_close(agents[j].client);
    }
    exit(0);
}

static struct counts sum(void)
{
    struct counts all = {0};
    unsigned i;

    for (i = 0; i < agent_count; ++i) {
        all.made += shared->counts[i].made;
        all.sent += shared->counts[i].sent;
        all.dropped += shared->counts[i].dropped;
        all.connected += shared->counts[i].connected;
    }
    return all;
}

/* Prints progress until `seconds` after the last agent connected. Returns the seconds until
 * then. */
static double watch(void)
{
    uint64_t start = now_ns(CLOCK_MONOTONIC), now, all_ns = 0;
    struct counts all, before = {0};

    do {
        sleep(1);
        now = now_ns(CLOCK_MONOTONIC);
        all = sum();
        if ((all_ns == 0) && ((unsigned)all.connected == agent_count)) {
            all_ns = now;
        }
        fprintf(stderr, "%4.0f s: %d of %u connected, %llu samples sent, %llu dropped\n",
                (double)(now - start) * 1e-9, all.connected, agent_count,
                (unsigned long long)(all.sent - before.sent), (unsigned long long)all.dropped);
        before = all;
        if (waitpid(-1, NULL, WNOHANG) > 0) {
            shared->stopping = 1;
            fprintf(stderr, "udmon_agents: a process has ended\n");
            exit(1);
        }
    } while ((all_ns == 0) || ((double)(now - all_ns) < (seconds * 1e9)));
    return (double)(all_ns - start) * 1e-9;
}

static int arguments(int argc, char **argv)
{
    int option;

    while ((option = getopt(argc, argv, "n:k:i:t:s:x")) != -1) {
        switch (option) {
        case 'n':
            agent_count = strtoul(optarg, NULL, 10);
            break;
        case 'k':
            series = strtoul(optarg, NULL, 10);
            break;
        case 'i':
            interval = strtod(optarg, NULL);
            break;
        case 't':
            seconds = strtod(optarg, NULL);
            break;
        case 's':
            secret = optarg;
            break;
        case 'x':
            sends_junk = 1;
            break;
        default:
            return 0;
        }
    }
    addresses = argv + optind;
    address_count = argc - optind;
    return (address_count > 0) && (agent_count > 0) && (interval > 0);
}

int main(int argc, char **argv)
{
    size_t size;
    double connected_s;
    unsigned first;
    struct counts all;

    if (!arguments(argc, argv)) {
        fprintf(stderr, "Usage: udmon_agents [-n AGENTS] [-k SERIES] [-i INTERVAL] [-t SECONDS] "
                        "[-s SECRET] [-x] ADDRESS...\n");
        return 2;
    }
    size = sizeof(*shared) + (agent_count * sizeof(shared->counts[0]));
    shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        fail("memory", errno);
    }
    for (first = 0; first < agent_count; first += AGENTS_EACH) {
        if (fork() == 0) {
            agents_run(first,
                       ((agent_count - first) < AGENTS_EACH) ? (agent_count - first) : AGENTS_EACH);
        }
    }
    connected_s = watch();
    __atomic_store_n(&shared->stopping, 1, __ATOMIC_RELAXED);
    while ((wait(NULL) > 0) || (errno == EINTR)) {
    }
    all = sum();
    printf("%u agents, %llu samples made, %llu sent, %llu dropped, all connected after %.0f s\n",
           agent_count, (unsigned long long)all.made, (unsigned long long)all.sent,
           (unsigned long long)all.dropped, connected_s);
    return 0;
}

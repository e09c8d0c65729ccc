/*
 * The server for the page's test: the collector's HTTP server over a store and a history that this
 * program makes, with the given number of nodes. All values are known: the values of node I follow
 * from I. The program obeys commands from standard input, a line each, and answers "done":
 *   set NODE FAMILY VALUE    a new sample      down NODE      its agent leaves      up NODE
 */
#include "udmon/collector/history.h"
#include "udmon/collector/http.h"
#include "udmon/lib/net/loop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { HISTORY_SECONDS = 7200, GAP_FROM = 3000, GAP_UNTIL = 3600, CORES = 4 };

static struct store store;
static struct history history;

/* A sample that has come now, of a counter that grew by so much in the last second. */
static void set(struct host *host, const char *name, int counter, double value)
{
    struct series *series = counter ? store_counter(host, name) : store_series(host, name);
    struct udmon_metric metric = {.name = name, .counter = counter};

    metric.time_ns = UINT64_C(1000000000);
    store_sample(series, &metric, 0, udmon_now_ns());
    metric.time_ns = UINT64_C(2000000000);
    metric.value = value;
    store_sample(series, &metric, 0, udmon_now_ns());
}

static void make_node(unsigned i, unsigned count)
{
    static const char *const modes[] = {"idle", "user", "system"};
    double busy = (double)i / count;
    char name[200];
    struct host *host;
    unsigned core, mode;

    snprintf(name, sizeof(name), "cn%u", i + 1);
    host = store_host(&store, name);
    host->connected = (i % 10) != 9;
    host->received = 1000;
    snprintf(host->transport, sizeof(host->transport), "ud");
    snprintf(host->address, sizeof(host->address), "10.0.%u.%u", i / 250, (i % 250) + 1);
    for (core = 0; core < CORES; ++core) {
        for (mode = 0; mode < 3; ++mode) {
            snprintf(name, sizeof(name), "node_cpu_seconds{cpu=\"%u\",mode=\"%s\"}", core,
                     modes[mode]);
            set(host, name, 1, (mode == 0) ? (1 - busy) : (busy / 2));
        }
    }
    set(host, "node_memory_total_bytes", 0, 64e9);
    set(host, "node_memory_available_bytes", 0, 64e9 * (1 - busy));
    set(host, "node_load1", 0, 4 * busy);
    set(host, "node_network_receive_bytes{device=\"eth0\"}", 1, 1e6 * i);
    set(host, "node_network_transmit_bytes{device=\"eth0\"}", 1, 2e6 * i);
    set(host, "node_hwmon_temp_celsius{chip=\"coretemp.0\",sensor=\"temp1\"}", 0, 30 + (40 * busy));
    set(host, "node_hwmon_temp_celsius{chip=\"coretemp.1\",sensor=\"temp1\"}", 0, 29);
}

/* Two hours of the first node, a sample each second, with a gap of ten minutes. */
static void make_history(int64_t now_ms)
{
    static const struct {
        const char *name;
        int counter;
    } series[] = {
        {"node_cpu_seconds{cpu=\"0\",mode=\"idle\"}", 1},
        {"node_cpu_seconds{cpu=\"0\",mode=\"user\"}", 1},
        {"node_cpu_seconds{cpu=\"0\",mode=\"system\"}", 1},
        {"node_memory_available_bytes", 0},
        {"node_load1", 0},
        {"node_network_receive_bytes{device=\"eth0\"}", 1},
        {"node_network_transmit_bytes{device=\"eth0\"}", 1},
        {"slurm_job_cpu_seconds{job=\"4711\",user=\"ann\",partition=\"gpu\",mode=\"user\"}", 1},
        {"slurm_job_memory_bytes{job=\"4711\",user=\"ann\",partition=\"gpu\"}", 0},
        {"slurm_job_cpus{job=\"4711\",user=\"ann\",partition=\"gpu\"}", 0},
    };
    struct series *all[sizeof(series) / sizeof(series[0])];
    struct host *host = store_host(&store, "cn1");
    int64_t second;
    size_t i;

    for (i = 0; i < (sizeof(series) / sizeof(series[0])); ++i) {
        all[i] = series[i].counter ? store_counter(host, series[i].name) :
                                     store_series(host, series[i].name);
        all[i]->counter = series[i].counter;
    }
    for (second = 0; second < HISTORY_SECONDS; ++second) {
        for (i = 0; (i < (sizeof(series) / sizeof(series[0]))) &&
                    ((second < GAP_FROM) || (second >= GAP_UNTIL));
             ++i) {
            history_add(&history, all[i], now_ms - ((HISTORY_SECONDS - second) * 1000),
                        series[i].counter ? (second * ((i < 3) ? 0.25 : (double)i)) :
                                            (1000 + (second % 60)));
        }
    }
    history_commit(&history);
}

/* Ten minutes of a node, a sample every ten seconds; of a node that is down, the first five. */
static void make_short_history(unsigned i, unsigned count, int64_t now_ms)
{
    struct host *host;
    struct series *cpu, *load;
    int64_t second;
    char name[64];

    snprintf(name, sizeof(name), "cn%u", i + 1);
    host = store_host(&store, name);
    cpu = store_counter(host, "node_cpu_seconds{cpu=\"0\",mode=\"idle\"}");
    cpu->counter = 1;
    load = store_series(host, "node_load1");
    for (second = 0; second < ((host->connected > 0) ? 600 : 300); second += 10) {
        history_add(&history, cpu, now_ms - ((600 - second) * 1000),
                    (double)second * (1 - ((double)i / count)));
        history_add(&history, load, now_ms - ((600 - second) * 1000), i);
    }
}

static int obey(const char *line)
{
    char node[64], family[200];
    struct host *host;
    double value;
    int named;

    named = (sscanf(line, "set %63s %199s %lf", node, family, &value) == 3) ? 1 :
            (sscanf(line, "down %63s", node) == 1)                          ? 2 :
            (sscanf(line, "up %63s", node) == 1)                            ? 3 :
                                                                              0;
    if (named == 0) {
        return 0;
    }
    store_lock(&store);
    host = store_host(&store, node);
    if (named == 1) {
        set(host, family, 0, value);
    } else {
        host->connected = (named == 3);
    }
    store_unlock(&store);
    return 1;
}

int main(int argc, char **argv)
{
    static struct http http;
    unsigned i, count = (argc == 4) ? strtoul(argv[3], NULL, 10) : 0;
    struct timespec now;
    char line[400];

    if (argc != 4) {
        fprintf(stderr, "Usage: page_server HOST:PORT DATABASE NODES\n");
        return 2;
    }
    clock_gettime(CLOCK_REALTIME, &now);
    store_init(&store);
    if (history_open(&history, argv[2], 864000, INT64_C(1) << 40) < 0) {
        return 1;
    }
    for (i = 0; i < count; ++i) {
        make_node(i, count);
    }
    for (i = 1; (i < count) && (count <= 1000); ++i) {
        make_short_history(i, count, (int64_t)now.tv_sec * 1000);
    }
    if (count > 0) {
        make_history((int64_t)now.tv_sec * 1000);
    }
    if (http_open(&http, &(struct http_options){.address = argv[1], .database = argv[2]}, &store,
                  NULL, NULL, NULL, NULL) < 0) {
        return 1;
    }
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin) != NULL) {
        printf("%s\n", obey(line) ? "done" : "what?");
        fflush(stdout);
    }
    http_close(&http);
    history_close(&history);
    store_free(&store);
    return 0;
}

/*
 * The report: what the traffic is like in plain words, each claim with its number.
 */
#include "matrix/pattern.h"
#include "matrix/placement.h"
#include "show.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Scores from which a pattern is sure, and from which it is likely. */
#define SURE     0.9
#define LIKELY   0.6
#define NO_PLACE UINT32_MAX

struct report {
    const struct cm_show *show;
    FILE *out;
    guint n;
    uint32_t *place; /* of each row: its number in the pattern, or NO_PLACE */
    double *traffic; /* matrix of n * n: payload from pattern number to pattern number; bytes on the
                      * wire if no flow has payload */
    double total;
};

static void say(const struct report *report, const char *title, const char *format, ...)
{
    va_list args;

    fprintf(report->out, "%-10s ", title);
    va_start(args, format);
    vfprintf(report->out, format, args);
    va_end(args);
    fputc('\n', report->out);
}

/* The rank that a name is; -1: none. */
static int64_t rank_of(const char *name)
{
    char *end;
    unsigned long rank = strtoul(name, &end, 10);

    return g_ascii_isdigit(name[0]) && *end == '\0' && rank <= CM_PATTERN_RANKS ? (int64_t)rank :
                                                                                  -1;
}

/*
 * Ranks count by their numbers: a queue pair whose rank is not known takes no part. Other names
 * count in their order.
 */
static void number_rows(struct report *report)
{
    const struct cm_matrix *matrix = report->show->matrix;
    bool by_rank = matrix->by == CM_BY_RANK && (matrix->jobs < 2 || report->show->job != 0);
    guint rows = matrix->names->len, i;

    report->place = g_new(uint32_t, rows + 1);
    for (i = 0; i < rows; i++) {
        int64_t rank = by_rank ? rank_of(g_ptr_array_index(matrix->names, i)) : (int64_t)i;

        report->place[i] = rank < 0 ? NO_PLACE : (uint32_t)rank;
        report->n = MAX(report->n, (guint)(rank + 1));
    }
}

static void sum_traffic(struct report *report)
{
    const struct cm_matrix *matrix = report->show->matrix;
    bool wire = matrix->totals.payload == 0;
    guint i;

    report->traffic = g_new0(double, (gsize)report->n * report->n + 1);
    for (i = 0; i < matrix->cells->len; i++) {
        const struct cm_cell *cell = &g_array_index(matrix->cells, struct cm_cell, i);
        double value = (double)(wire ? cell->counts.wire : cell->counts.payload);

        uint32_t from = report->place[cell->from], to = report->place[cell->to];

        if (from != to && from != NO_PLACE && to != NO_PLACE) {
            report->traffic[(gsize)from * report->n + to] += value;
            report->total += value;
        }
    }
}

static void say_volume(const struct report *report)
{
    const struct cm_matrix *matrix = report->show->matrix;
    uint64_t ns = cm_show_duration(report->show);
    char *payload = cm_human((double)matrix->totals.payload, CM_COUNT_PAYLOAD);
    char *messages = cm_human((double)cm_counts_messages(&matrix->totals), CM_COUNT_MESSAGES);
    char *mean = cm_human(cm_cell_value(&matrix->totals, CM_COUNT_MEAN), CM_COUNT_MEAN);
    char *time = cm_human_time(ns);
    char *rate =
        cm_human(ns > 0 ? (double)matrix->totals.wire * 1e9 / (double)ns : 0, CM_COUNT_WIRE);

    say(report, "Volume", "%u %ss exchange %s of payload in %s messages (mean %s) in %s: %s/s.",
        report->n, cm_by_title(matrix->by), payload, messages, mean, time, rate);
    g_free(payload);
    g_free(messages);
    g_free(mean);
    g_free(time);
    g_free(rate);
}

static void say_pattern(const struct report *report)
{
    GArray *patterns = cm_patterns_find(report->traffic, report->n);
    const struct cm_pattern *best = NULL, *next;

    if (patterns->len == 0) {
        say(report, "Pattern", "%u %ss are too few, or too many, for a pattern.", report->n,
            cm_by_title(report->show->matrix->by));
    } else {
        best = &g_array_index(patterns, struct cm_pattern, 0);
        say(report, "Pattern", "%s%s.",
            best->score >= SURE   ? "" :
            best->score >= LIKELY ? "likely: " :
                                    "no known pattern; the nearest one: ",
            best->name);
        say(report, "",
            "Score %.2f: %.1f %% of the traffic goes between the %u pairs of this "
            "pattern, and %u of them take part.",
            best->score, 100 * best->share, best->pairs, best->used);
    }
    if (best != NULL && patterns->len > 1) {
        next = &g_array_index(patterns, struct cm_pattern, 1);
        say(report, "",
            next->score == best->score && next->pairs == best->pairs ?
                "The same pairs: %s (%.2f)." :
                "Next: %s (%.2f).",
            next->name, next->score);
    }
    cm_patterns_free(patterns);
}

static void say_balance(const struct report *report)
{
    const struct cm_matrix *matrix = report->show->matrix;
    uint64_t most = 0;
    guint busiest = 0, i, k, pairs = 0;
    double both = 0;

    for (i = 0; i < matrix->names->len; i++) {
        if (matrix->sent[i].wire > most) {
            most = matrix->sent[i].wire;
            busiest = i;
        }
    }
    for (i = 0; i < report->n; i++) {
        for (k = 0; k < report->n; k++) {
            double there = report->traffic[(gsize)i * report->n + k];
            double back = report->traffic[(gsize)k * report->n + i];

            both += MIN(there, back);
            pairs += i != k && there > 0;
        }
    }
    say(report, "Balance", "%s %s sends most: %.1f %% of all bytes, %.2f times the mean.",
        cm_by_title(matrix->by), (char *)g_ptr_array_index(matrix->names, busiest),
        100 * (double)most / MAX((double)matrix->totals.wire, 1),
        (double)most * matrix->names->len / MAX((double)matrix->totals.wire, 1));
    say(report, "",
        "%u of %u pairs have traffic; %.1f %% of it has its like in the other direction.", pairs,
        report->n * (report->n - 1), report->total > 0 ? 100 * both / report->total : 0);
}

static void say_messages(const struct report *report)
{
    const struct cm_counts *totals = &report->show->matrix->totals;
    double all = (double)MAX(cm_counts_messages(totals), 1);
    uint64_t messages = 0, small = 0, of_bin;
    int bin, kind;

    for (bin = 0; bin < CM_SIZE_BINS; bin++) {
        for (of_bin = 0, kind = 0; kind < CM_NUM_MESSAGES; kind++) {
            of_bin += report->show->traffic->sizes[kind][bin];
        }
        messages += of_bin;
        small += bin <= 10 ? of_bin : 0;
    }
    if (messages == 0) {
        return;
    }
    say(report, "Messages",
        "%.1f %% are shorter than 1 KiB. Sends %.1f %%, writes %.1f %%, reads "
        "%.1f %%.",
        100 * (double)small / (double)messages, 100 * (double)totals->ended[CM_MESSAGE_SEND] / all,
        100 * (double)totals->ended[CM_MESSAGE_WRITE] / all,
        100 * (double)totals->ended[CM_MESSAGE_READ] / all);
}

static void say_time(const struct report *report)
{
    const GArray *phases = report->show->matrix->phases;
    uint64_t busy = 0, ns = cm_show_duration(report->show);
    guint i;

    for (i = 0; i < phases->len; i++) {
        const struct cm_phase *phase = &g_array_index(phases, struct cm_phase, i);

        busy += phase->end_ns - phase->begin_ns;
    }
    say(report, "Time", "%u phase%s with traffic, %.1f %% of the time.", phases->len,
        phases->len == 1 ? "" : "s", ns > 0 ? 100 * MIN((double)busy / (double)ns, 1) : 100);
}

static void say_trouble(const struct report *report)
{
    const struct cm_capture_counts *capture = &report->show->traffic->capture;
    struct cm_signs signs = {0};
    guint i;

    for (i = 0; i < report->show->matrix->cells->len; i++) {
        const struct cm_cell *cell = &g_array_index(report->show->matrix->cells, struct cm_cell, i);

        if (cell->signs != NULL) {
            cm_signs_add(&signs, cell->signs);
        }
    }
    say(report, "Trouble",
        "%" PRIu64 " retransmissions, %" PRIu64 " congestion marks, %" PRIu64 " CNPs; %" PRIu64
        " packets are missing in the capture.",
        signs.retransmissions, signs.congested, signs.cnps, capture->lost);
    if (cm_delay_percentile(&signs, 50) != 0) {
        char *middle = cm_human_time(cm_delay_percentile(&signs, 50));
        char *high = cm_human_time(cm_delay_percentile(&signs, 99));

        say(report, "", "Half of the requests are answered within %s, 99 %% within %s.", middle,
            high);
        g_free(middle);
        g_free(high);
    }
}

/* ---- the network ----------------------------------------------------------------------------- */

/* Where the ranks run. Returns false, and ranks in order, if the topology lacks a host. */
static bool find_hosts(const struct report *report, uint32_t *host)
{
    const struct cm_topology *topology = report->show->topology;
    const struct cm_matrix *matrix = report->show->matrix;
    bool known = true;
    guint i;

    (void)cm_placement_in_order(topology, report->n, host);
    for (i = 0; i < matrix->names->len && known; i++) {
        int found = cm_topology_host(topology, g_ptr_array_index(matrix->hosts, i));

        known = found >= 0;
        if (known && report->place[i] != NO_PLACE) {
            host[report->place[i]] = (uint32_t)found;
        }
    }
    if (!known) {
        (void)cm_placement_in_order(topology, report->n, host);
    }
    return known;
}

/* The NUMA node of each rank, among all NUMA nodes of its host: ranks fill the slots in order. */
static void find_numa(const struct report *report, const uint32_t *host, uint32_t *numa)
{
    const GArray *hosts = report->show->topology->hosts;
    uint32_t *used = g_new0(uint32_t, hosts->len + 1);
    guint i;

    for (i = 0; i < report->n; i++) {
        const struct cm_topology_host *at = &g_array_index(hosts, struct cm_topology_host, host[i]);

        numa[i] = MIN(used[host[i]] * at->numa / at->slots, at->numa - 1);
        used[host[i]]++;
    }
    g_free(used);
}

static void say_ways(const struct report *report, const uint32_t *host)
{
    const struct cm_topology *topology = report->show->topology;
    uint32_t *numa = g_new(uint32_t, report->n + 1);
    double in_numa = 0, in_host = 0, in_switch = 0, far = 0;
    guint i, k;

    find_numa(report, host, numa);
    for (i = 0; i < report->n; i++) {
        for (k = 0; k < report->n; k++) {
            double value = report->traffic[(gsize)i * report->n + k];

            if (host[i] == host[k]) {
                *(numa[i] == numa[k] ? &in_numa : &in_host) += value;
            } else if (cm_topology_distance(topology, host[i], host[k]) <= 2) {
                in_switch += value;
            } else {
                far += value;
            }
        }
    }
    say(report, "Network",
        "%.1f %% of the traffic crosses switches, %.1f %% stays within a switch, "
        "%.1f %% crosses NUMA nodes of a host, %.1f %% stays in one.",
        100 * far / report->total, 100 * in_switch / report->total, 100 * in_host / report->total,
        100 * in_numa / report->total);
    g_free(numa);
}

static void say_saving(const struct report *report, const uint32_t *present)
{
    struct cm_rank_edge *edges = g_new(struct cm_rank_edge, (gsize)report->n * report->n + 1);
    uint32_t *host = g_memdup2(present, (report->n + 1) * sizeof(*present));
    struct cm_rank_graph graph;
    double before, after;
    guint num = 0, moved = 0, i, k;

    for (i = 0; i < report->n; i++) {
        for (k = 0; k < report->n; k++) {
            double value = report->traffic[(gsize)i * report->n + k];

            if (value > 0) {
                edges[num++] = (struct cm_rank_edge){i, k, value};
            }
        }
    }
    graph = cm_rank_graph_make(edges, num, report->n);
    cm_placement_propose(&graph, report->show->topology, present, host);
    before = cm_placement_cost(&graph, report->show->topology, present);
    after = cm_placement_cost(&graph, report->show->topology, host);
    for (i = 0; i < report->n; i++) {
        moved += host[i] != present[i];
    }
    if (moved == 0) {
        say(report, "Placement", "The present placement is good: no other one saves 1 %%.");
    } else {
        say(report, "Placement",
            "Another placement saves %.1f %% of traffic times distance by moving "
            "%u of %u: commatrix place shows it.",
            100 * (before - after) / before, moved, report->n);
    }
    cm_rank_graph_free(&graph);
    g_free(edges);
    g_free(host);
}

static void say_network(const struct report *report)
{
    uint32_t *host = g_new0(uint32_t, report->n + 1);
    uint64_t slots = 0;
    guint i;

    for (i = 0; i < report->show->topology->hosts->len; i++) {
        slots += g_array_index(report->show->topology->hosts, struct cm_topology_host, i).slots;
    }
    if (slots < report->n) {
        say(report, "Network", "The topology has %" PRIu64 " slots, fewer than the %u %ss.", slots,
            report->n, cm_by_title(report->show->matrix->by));
    } else if (report->total > 0) {
        if (!find_hosts(report, host)) {
            say(report, "Network",
                "The topology does not have all hosts of the capture (--map names "
                "them): ranks in order are assumed.");
        }
        say_ways(report, host);
        say_saving(report, host);
    }
    g_free(host);
}

bool cm_show_explain(const struct cm_show *show, FILE *out)
{
    struct report report = {.show = show, .out = out};
    char **warnings = cm_show_warnings(show);
    int i;

    number_rows(&report);
    sum_traffic(&report);
    if (report.total <= 0) {
        fprintf(out, "no traffic to explain\n");
    } else {
        say_volume(&report);
        say_pattern(&report);
        say_balance(&report);
        say_messages(&report);
        say_time(&report);
        say_trouble(&report);
        if (show->topology != NULL) {
            say_network(&report);
        }
    }
    for (i = 0; warnings[i] != NULL; i++) {
        say(&report, "Note", "%s", warnings[i]);
    }
    if (show->matrix->note != NULL) {
        say(&report, "Note", "%s", show->matrix->note);
    }
    g_strfreev(warnings);
    g_free(report.place);
    g_free(report.traffic);
    return fflush(out) == 0;
}

#include "metrics.h"
#include "../lib/metric.h"
#include "../lib/net/loop.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* The parts of a histogram or summary, in their order. */
enum part { PART_NONE, PART_BUCKET, PART_QUANTILE, PART_SUM, PART_COUNT, PART_CREATED };

/* One line to come. */
struct line {
    const char *name; /* of the series, with labels */
    const char *host;
    size_t name_length;   /* without labels */
    size_t family_length; /* the same without the suffix of a part */
    enum part part;
    double value;
    int counter;
};

struct lines {
    int format;
    struct line *lines;
    size_t count, size;
    uint64_t oldest_ns;
    const char *host;
    const struct metrics_filter *filter; /* or NULL */
};

/* Help for families of the agent's own sensors, by the beginning of their names; longest last. */
static const struct {
    const char *prefix, *help;
} helps[] = {
    {"", "Sample of an agent."},
    {"glex_", "Counter of endpoints of the GLEX interconnect."},
    {"node_cpu_seconds", "Seconds the CPUs spent in each mode."},
    {"node_cpu_used_ratio", "Part of the time that the CPUs were not idle."},
    {"node_disk_read_bytes", "Bytes read from a block device."},
    {"node_disk_reads_completed", "Reads completed by a block device."},
    {"node_disk_writes_completed", "Writes completed by a block device."},
    {"node_disk_written_bytes", "Bytes written to a block device."},
    {"node_disk_io_time_seconds", "Seconds a block device was busy."},
    {"node_filesystem_", "Size or free room of a mounted file system."},
    {"node_hwmon_", "Reading of a hardware sensor."},
    {"node_infiniband_", "Counter of an InfiniBand or RoCE port."},
    {"node_load1", "Load average over one minute."},
    {"node_load5", "Load average over five minutes."},
    {"node_load15", "Load average over fifteen minutes."},
    {"node_memory_", "Memory as /proc/meminfo tells."},
    {"node_network_", "Counter of a network device."},
    {"node_procs_running", "Processes that run or wait for a CPU."},
    {"node_threads", "Threads of all processes."},
    {"udmon_agent_accepted", "Records that a sending node of the agent has made: samples and "
                             "descriptions."},
    {"udmon_agent_sent", "Records that a sending node of the agent has sent."},
    {"udmon_agent_dropped", "Records that the queue of a sending node had no room for."},
    {"udmon_agent_waiting", "Records that wait in the queue of a sending node."},
    {"udmon_agent_connections", "Connections that a sending node of the agent has made."},
    {"udmon_agent_ticks", "Ticks of a sensor."},
    {"udmon_agent_tick_late_seconds", "How late the ticks of a sensor began, as a sum."},
    {"udmon_agent_tick_late_max_seconds", "The greatest lateness of a tick since the last sample."},
    {"udmon_agent_recorder_bytes", "Memory of a flight recorder."},
    {"udmon_agent_recorder_series", "Series that a flight recorder keeps."},
    {"udmon_agent_recorder_seconds", "For how long the recording of each series is complete."},
    {"udmon_agent_recorder_samples_refused", "Samples that a flight recorder had no room for."},
    {"udmon_agent_server", "Which of its collectors a sending node is connected to: 1 is the "
                           "preferred one, 0 none."},
};

static const char *family_help(const char *name)
{
    const char *help = helps[0].help;
    size_t i;

    for (i = 1; i < (sizeof(helps) / sizeof(helps[0])); ++i) {
        if (!strncmp(name, helps[i].prefix, strlen(helps[i].prefix))) {
            help = helps[i].help;
        }
    }
    return help;
}

static bool filter_wants(const struct metrics_filter *filter, const char *name, size_t length,
                         int counter)
{
    return (filter == NULL) || filter->wants(filter->arg, name, length, counter);
}

static bool ends_with(const char *text, size_t length, const char *end)
{
    size_t end_length = strlen(end);

    return (length > end_length) && !strncmp(text + length - end_length, end, end_length);
}

/*
 * Whether a series is a part of a histogram or summary, which its description says; sets part and
 * family. With the store's lock held.
 */
static void line_part(const struct series *series, int format, struct line *line)
{
    static const struct {
        const char *suffix;
        enum part part;
        int of_summary;
    } parts[] = {
        {"_bucket", PART_BUCKET, 0},
        {"_sum", PART_SUM, 1},
        {"_count", PART_COUNT, 1},
        {"_created", PART_CREATED, 1},
    };
    const struct descriptions *descriptions = &series->host->store->descriptions;
    const struct udmon_family *family;
    size_t i, length;

    if (line->counter) {
        return;
    }
    for (i = 0; i < (sizeof(parts) / sizeof(parts[0])); ++i) {
        if (!ends_with(line->name, line->name_length, parts[i].suffix) ||
            ((parts[i].part == PART_CREATED) && (format != METRICS_OPENMETRICS))) {
            continue;
        }
        length = line->name_length - strlen(parts[i].suffix);
        family = descriptions_find(descriptions, line->name, length, 0);
        if ((family != NULL) && ((family->type == UDMON_TYPE_HISTOGRAM) ||
                                 (parts[i].of_summary && (family->type == UDMON_TYPE_SUMMARY)))) {
            line->family_length = length;
            line->part = parts[i].part;
        }
        return;
    }
    if (strstr(line->name + line->name_length, "quantile=\"") != NULL) {
        family = descriptions_find(descriptions, line->name, line->name_length, 0);
        line->part =
            ((family != NULL) && (family->type == UDMON_TYPE_SUMMARY)) ? PART_QUANTILE : PART_NONE;
    }
}

static void lines_add(struct series *series, void *arg)
{
    size_t name_length = strcspn(series->name, "{"), size;
    struct lines *lines = arg;
    struct line *grown;

    if ((series->arrived_ns < lines->oldest_ns) ||
        (!strncmp(series->name, "udmon_", 6) /* the collector's own */ &&
         strncmp(series->name, "udmon_agent_", 12)) ||
        !filter_wants(lines->filter, series->name, name_length, series->counter)) {
        return;
    }
    if (lines->count == lines->size) {
        size = (lines->size > 0) ? (2 * lines->size) : 1024;
        grown = realloc(lines->lines, size * sizeof(*grown));
        if (grown == NULL) {
            return;
        }
        lines->lines = grown;
        lines->size = size;
    }
    lines->lines[lines->count++] = (struct line){
        .name = series->name,
        .host = lines->host,
        .name_length = name_length,
        .family_length = name_length,
        .value = series->value,
        .counter = series->counter,
    };
    line_part(series, lines->format, &lines->lines[lines->count - 1]);
}

/* A character of the name as /metrics shows it: that of a counter ends in _total. */
static int exposed_char(const struct line *line, size_t at)
{
    static const char suffix[] = "_total";

    if (at < line->family_length) {
        return (unsigned char)line->name[at];
    }
    at -= line->family_length;
    return (line->counter && (at < strlen(suffix))) ? suffix[at] : 0;
}

static int family_compare(const struct line *a, const struct line *b)
{
    size_t i;
    int left, right;

    for (i = 0;; ++i) {
        left = exposed_char(a, i);
        right = exposed_char(b, i);
        if ((left != right) || (left == 0)) {
            return left - right;
        }
    }
}

static int line_family_compare(const void *left, const void *right)
{
    return family_compare(left, right);
}

/* The next label of a part that is no bound (`le`, `quantile`): these labels name the histogram. */
static bool part_label(const char **at_p, struct udmon_label *label)
{
    bool found;

    do {
        found = udmon_label_next(at_p, label);
    } while (found && (udmon_label_is(label, "le") || udmon_label_is(label, "quantile")));
    return found;
}

static int text_compare(const char *a, size_t a_length, const char *b, size_t b_length)
{
    int order = memcmp(a, b, (a_length < b_length) ? a_length : b_length);

    return (order != 0) ? order : ((a_length > b_length) - (a_length < b_length));
}

/* Compares the labels without bounds: the parts of one histogram are equal. */
static int part_compare(const struct line *a, const struct line *b)
{
    const char *a_at = a->name + a->name_length, *b_at = b->name + b->name_length;
    struct udmon_label a_label, b_label;
    bool a_more, b_more;
    int order;

    for (;;) {
        a_more = part_label(&a_at, &a_label);
        b_more = part_label(&b_at, &b_label);
        if (!a_more || !b_more) {
            return a_more - b_more;
        }
        order = text_compare(a_label.name, a_label.name_length, b_label.name, b_label.name_length);
        order = (order != 0) ? order :
                               text_compare(a_label.value, a_label.value_length, b_label.value,
                                            b_label.value_length);
        if (order != 0) {
            return order;
        }
    }
}

/* The upper bound of a bucket, or the quantile. NaN would have no place in an order. */
static double part_bound(const struct line *line)
{
    const char *at = line->name + line->name_length;
    struct udmon_label label;
    double bound;

    while (udmon_label_next(&at, &label)) {
        if (udmon_label_is(&label, (line->part == PART_BUCKET) ? "le" : "quantile")) {
            bound = strtod(label.value, NULL); /* the quote ends it */
            return isnan(bound) ? INFINITY : bound;
        }
    }
    return 0;
}

static int bound_compare(const struct line *a, const struct line *b)
{
    double left, right;

    if ((a->part != PART_BUCKET) && (a->part != PART_QUANTILE)) {
        return 0;
    }
    left = part_bound(a);
    right = part_bound(b);
    return (left > right) - (left < right);
}

/*
 * The lines of a family must be adjacent. Counters, and parts of histograms and summaries, come
 * first if sources disagree about the type of a name. The parts of one histogram are adjacent, too,
 * with increasing bounds.
 */
static int line_compare(const void *left, const void *right)
{
    const struct line *a = left, *b = right;
    int order = family_compare(a, b);

    order = (order != 0) ? order : (b->counter - a->counter);
    order = (order != 0) ? order : ((b->part != PART_NONE) - (a->part != PART_NONE));
    order = (order != 0) ? order : strcmp(a->host, b->host);
    if ((order == 0) && (a->part != PART_NONE)) {
        order = part_compare(a, b);
        order = (order != 0) ? order : ((int)a->part - (int)b->part);
        order = (order != 0) ? order : bound_compare(a, b);
    }
    return (order != 0) ? order : strcmp(a->name, b->name);
}

static void write_value(FILE *out, double value)
{
    if (isnan(value)) {
        fprintf(out, "NaN\n");
    } else if (isinf(value)) {
        fprintf(out, (value > 0) ? "+Inf\n" : "-Inf\n");
    } else {
        fprintf(out, "%.17g\n", value);
    }
}

/* The unit of a family without a description of its unit. */
static const char *family_unit(const char *name, size_t length)
{
    return ends_with(name, length, "_seconds") ? "seconds" :
           ends_with(name, length, "_bytes")   ? "bytes" :
           ends_with(name, length, "_ratio")   ? "ratio" :
           ends_with(name, length, "_celsius") ? "celsius" :
                                                 "";
}

/*
 * In OpenMetrics, a counter without the suffix _total and another type with this suffix are of
 * unknown type.
 */
static const char *family_type(int format, const char *name, size_t length, int counter, int type)
{
    if (counter) {
        return "counter";
    }
    if ((type == UDMON_TYPE_HISTOGRAM) || (type == UDMON_TYPE_SUMMARY)) {
        return (type == UDMON_TYPE_HISTOGRAM) ? "histogram" : "summary";
    }
    if ((type == UDMON_TYPE_UNKNOWN) ||
        ((format == METRICS_OPENMETRICS) &&
         ((type == UDMON_TYPE_COUNTER) || ends_with(name, length, "_total")))) {
        return (format == METRICS_OPENMETRICS) ? "unknown" : "untyped";
    }
    return (type == UDMON_TYPE_COUNTER) ? "counter" : "gauge";
}

static void write_help(FILE *out, int format, const char *help)
{
    for (; *help != '\0'; ++help) {
        if ((*help == '\\') || (*help == '\n') ||
            ((*help == '"') && (format == METRICS_OPENMETRICS))) {
            fputc('\\', out);
        }
        fputc((*help == '\n') ? 'n' : *help, out);
    }
}

/*
 * Writes the header of a family. In OpenMetrics the family of a counter has no suffix _total, and
 * the name must end in the unit.
 */
static void write_header(FILE *out, int format, const char *name, size_t length, int counter,
                         int type, const char *unit, const char *help)
{
    const char *suffix = (counter && (format == METRICS_TEXT)) ? "_total" : "";
    size_t unit_length = strlen(unit);

    fprintf(out, "# HELP %.*s%s ", (int)length, name, suffix);
    write_help(out, format, help);
    fprintf(out, "\n# TYPE %.*s%s %s\n", (int)length, name, suffix,
            family_type(format, name, length, counter, type));
    if ((format == METRICS_OPENMETRICS) && (unit_length > 0) && ends_with(name, length, unit) &&
        (name[length - unit_length - 1] == '_')) {
        fprintf(out, "# UNIT %.*s %s\n", (int)length, name, unit);
    }
}

/* Writes the header of a family that no agent describes: of the collector itself, or of a gauge or
 * counter without a description. */
static void write_family(FILE *out, int format, const char *name, size_t length, int counter,
                         const char *help)
{
    write_header(out, format, name, length, counter, UDMON_TYPE_GAUGE, family_unit(name, length),
                 help);
}

static void write_line(const struct line *line, FILE *out)
{
    const char *at = line->name + line->name_length;
    struct udmon_label label;

    fprintf(out, "%.*s%s{node=\"%s\"", (int)line->name_length, line->name,
            line->counter ? "_total" : "", line->host);
    while (udmon_label_next(&at, &label)) {
        fprintf(out, ",%s%.*s=\"%.*s\"", udmon_label_prefix(&label), (int)label.name_length,
                label.name, (int)label.value_length, label.value);
    }
    fprintf(out, "} ");
    write_value(out, line->value);
}

/* The collector's own numbers for each node: */
static double node_up(const struct host *host)
{
    return host->connected > 0;
}
static double node_agents(const struct host *host)
{
    return host->connected;
}
static double node_received(const struct host *host)
{
    return host->received;
}
static double node_lost(const struct host *host)
{
    return host->lost;
}
static double node_malformed(const struct host *host)
{
    return host->malformed;
}
static double node_discarded(const struct host *host)
{
    return host->discarded;
}
static double node_descriptions_discarded(const struct host *host)
{
    return host->descriptions_discarded;
}
static double node_misdated(const struct host *host)
{
    return host->misdated;
}
static double node_out_of_order(const struct host *host)
{
    return host->out_of_order;
}
static double node_series(const struct host *host)
{
    return host->series_count;
}
static double node_bytes(const struct host *host)
{
    return host->quota.all_bytes;
}
static double node_stored(const struct host *host)
{
    return host->quota.all_stored;
}
static double node_relayed_nodes(const struct host *host)
{
    return host->quota.nodes;
}
static double node_relayed_series(const struct host *host)
{
    return host->quota.series;
}

static const struct {
    const char *name;
    int counter;
    const char *help;
    double (*value)(const struct host *host);
} node_metrics[] = {
    {"udmon_node_up", 0, "Whether an agent of this node is connected.", node_up},
    {"udmon_node_agents", 0,
     "Agents connected that give this name: more than one are two nodes "
     "of one name.",
     node_agents},
    {"udmon_node_series", 0, "Series of this node that are kept.", node_series},
    {"udmon_records_received", 1, "Records that came from a node: samples and descriptions.",
     node_received},
    {"udmon_records_lost", 1, "Records of a node that did not come.", node_lost},
    {"udmon_records_malformed", 1, "Records of a node that were neither samples nor descriptions.",
     node_malformed},
    {"udmon_records_discarded", 1,
     "Records of a node that were discarded, because a limit was exceeded.", node_discarded},
    {"udmon_node_descriptions_discarded", 1,
     "Descriptions of a node that were discarded, because there are too many.",
     node_descriptions_discarded},
    {"udmon_records_bytes", 1, "Bytes of the records of a node or relay.", node_bytes},
    {"udmon_node_samples_stored", 1,
     "Samples of a node, or through a relay, that were given to the history.", node_stored},
    {"udmon_relayed_nodes", 0, "Nodes that a relay sends for.", node_relayed_nodes},
    {"udmon_relayed_series", 0, "Series that a relay sends.", node_relayed_series},
    {"udmon_records_misdated", 1,
     "Samples whose time was far from the collector's: stored with "
     "the time when they came.",
     node_misdated},
    {"udmon_remote_write_samples_out_of_order", 1,
     "Samples of a node whose time went back: remote "
     "write does not send them.",
     node_out_of_order},
};

/* Limits, and what exceeded them. */
static void write_quotas(struct store *store, int format, FILE *out)
{
    static const char limit[] = "udmon_quota_limit", refused[] = "udmon_quota_exceeded";
    const struct quota_limits *limits;
    const struct host *host;
    int i, relay;

    write_family(out, format, limit, strlen(limit), 0,
                 "Limit of each node or relay: nodes, series, samples and bytes a second, percent "
                 "of the samples in the history.");
    for (relay = 0; relay < 2; ++relay) {
        limits = relay ? &store->relay_limits : &store->node_limits;
        for (i = relay ? 0 : QUOTA_SERIES; i < QUOTA_KINDS; ++i) {
            fprintf(out, "%s{sender=\"%s\",quota=\"%s\"} ", limit, relay ? "relay" : "node",
                    quota_names[i]);
            write_value(out, (double)limits->limits[i]);
        }
    }
    write_family(out, format, refused, strlen(refused), 1,
                 "Records of a node or relay that exceeded a limit.");
    store_lock(store);
    LIST_FOREACH(host, &store->hosts, list) {
        for (i = 0; i < QUOTA_KINDS; ++i) {
            if (host->quota.refused[i] > 0) {
                fprintf(out, "%s_total{node=\"%s\",quota=\"%s\"} ", refused, host->name,
                        quota_names[i]);
                write_value(out, (double)host->quota.refused[i]);
            }
        }
    }
    store_unlock(store);
}

static void write_nodes(struct store *store, const struct metrics_filter *filter, int format,
                        FILE *out)
{
    const struct host *host;
    size_t i;

    for (i = 0; i < (sizeof(node_metrics) / sizeof(node_metrics[0])); ++i) {
        if (!filter_wants(filter, node_metrics[i].name, strlen(node_metrics[i].name),
                          node_metrics[i].counter)) {
            continue;
        }
        write_family(out, format, node_metrics[i].name, strlen(node_metrics[i].name),
                     node_metrics[i].counter, node_metrics[i].help);
        store_lock(store);
        LIST_FOREACH(host, &store->hosts, list) {
            fprintf(out, "%s%s{node=\"%s\"} ", node_metrics[i].name,
                    node_metrics[i].counter ? "_total" : "", host->name);
            write_value(out, node_metrics[i].value(host));
        }
        store_unlock(store);
    }
}

static void write_single(FILE *out, int format, const char *name, int counter, const char *help,
                         double value)
{
    write_family(out, format, name, strlen(name), counter, help);
    fprintf(out, "%s%s ", name, counter ? "_total" : "");
    write_value(out, value);
}

static void write_writer(const struct writer *writer, int format, FILE *out)
{
    write_single(out, format, "udmon_history_samples_stored", 1, "Samples written to the history.",
                 __atomic_load_n(&writer->stored, __ATOMIC_SEQ_CST));
    write_single(out, format, "udmon_history_samples_unstored", 1,
                 "Samples that the history's disk did not take.",
                 __atomic_load_n(&writer->unstored, __ATOMIC_SEQ_CST));
    write_single(out, format, "udmon_history_samples_overflowed", 1,
                 "Samples that the queue to the history had no room for.",
                 __atomic_load_n(&writer->overflowed, __ATOMIC_SEQ_CST));
    write_single(out, format, "udmon_history_queue_length", 0, "Entries that wait for the history.",
                 writer_waiting(writer));
}

void metrics_write_query(const struct query *query, int format, FILE *out)
{
    write_single(out, format, "udmon_queries", 1, "Questions to the engine with older values.",
                 (double)__atomic_load_n(&query->asked, __ATOMIC_RELAXED));
    write_single(out, format, "udmon_queries_failed", 1,
                 "Questions that the engine with older values has not answered.",
                 (double)__atomic_load_n(&query->failed, __ATOMIC_RELAXED));
}

static void write_remote(const struct remote *remote, int format, FILE *out)
{
    write_single(out, format, "udmon_remote_write_samples_sent", 1,
                 "Samples that remote write has handed over.",
                 __atomic_load_n(&remote->sent, __ATOMIC_SEQ_CST));
    write_single(out, format, "udmon_remote_write_samples_refused", 1,
                 "Samples that the receiver of remote write did not take.",
                 __atomic_load_n(&remote->refused, __ATOMIC_SEQ_CST));
    write_single(out, format, "udmon_remote_write_samples_overflowed", 1,
                 "Samples that the queue to remote write had no room for.",
                 __atomic_load_n(&remote->overflowed, __ATOMIC_SEQ_CST));
    write_single(out, format, "udmon_remote_write_samples_dropped", 1,
                 "Samples that remote write's queue on the disk had no room for.",
                 __atomic_load_n(&remote->dropped, __ATOMIC_SEQ_CST));
    write_single(out, format, "udmon_remote_write_samples_waiting", 0,
                 "Samples that wait on the disk for the receiver of remote write.",
                 __atomic_load_n(&remote->waiting, __ATOMIC_SEQ_CST));
}

static void write_relay(const struct relay *relay, int format, FILE *out)
{
    write_single(out, format, "udmon_relay_server", 0,
                 "Which of the upper collectors samples go "
                 "to: 1 is the preferred one, 0 none.",
                 __atomic_load_n(&relay->connected, __ATOMIC_SEQ_CST));
    write_single(out, format, "udmon_relay_records_sent", 1,
                 "Samples, descriptions and states of nodes that were passed on.",
                 __atomic_load_n(&relay->sent, __ATOMIC_SEQ_CST));
    write_single(out, format, "udmon_relay_records_dropped", 1,
                 "Samples, descriptions and states of nodes that the queue to the upper collector "
                 "had no room for.",
                 __atomic_load_n(&relay->dropped, __ATOMIC_SEQ_CST));
    write_single(out, format, "udmon_relay_records_waiting", 0,
                 "Samples, descriptions and states of nodes that wait for the upper collector.",
                 __atomic_load_n(&relay->waiting, __ATOMIC_SEQ_CST));
}

static int lines_host(const struct host *host, void *arg)
{
    struct lines *lines = arg;

    if (host->connected > 0) {
        lines->host = host->name;
        store_each(host, lines_add, lines);
    }
    return 1;
}

/*
 * Writes the head of the family that begins with line `at`. A family that is described as a
 * histogram or summary is one if its first line is a part. OpenMetrics knows a counter x_total by
 * the name x, so beside a gauge x the counter is of unknown type.
 */
static void lines_family(struct store *store, const struct lines *lines, size_t at, int format,
                         FILE *out)
{
    const struct line *line = &lines->lines[at];
    const struct udmon_family *described;
    struct line gauge = *line;
    const char *help, *unit;
    int type;

    store_lock(store); /* for the description */
    described =
        descriptions_find(&store->descriptions, line->name, line->family_length, line->counter);
    help = ((described != NULL) && (described->help[0] != '\0')) ? described->help :
                                                                   family_help(line->name);
    unit = ((described != NULL) && (described->unit[0] != '\0')) ?
               described->unit :
               family_unit(line->name, line->family_length);
    type = (described != NULL) ? described->type : UDMON_TYPE_GAUGE;
    if ((line->part == PART_NONE) && (type >= UDMON_TYPE_HISTOGRAM)) {
        type = UDMON_TYPE_UNKNOWN;
    }
    gauge.counter = 0;
    if ((format == METRICS_OPENMETRICS) && line->counter &&
        (bsearch(&gauge, lines->lines, lines->count, sizeof(gauge), line_family_compare) != NULL)) {
        fprintf(out, "# HELP %.*s_total ", (int)line->family_length, line->name);
        write_help(out, format, help);
        fprintf(out, "\n# TYPE %.*s_total unknown\n", (int)line->family_length, line->name);
    } else {
        write_header(out, format, line->name, line->family_length, line->counter, type, unit, help);
    }
    store_unlock(store);
}

static void lines_write(struct store *store, const struct lines *lines, int format, FILE *out)
{
    const struct line *family = NULL, *line;
    size_t i;

    for (i = 0; i < lines->count; ++i) {
        line = &lines->lines[i];
        if ((family == NULL) || (family_compare(family, line) != 0)) {
            family = line;
            lines_family(store, lines, i, format, out);
        }
        if ((line->counter == family->counter) &&
            ((line->part != PART_NONE) == (family->part != PART_NONE))) {
            write_line(line, out);
        }
    }
}

void metrics_write(struct store *store, const struct writer *writer, const struct remote *remote,
                   const struct relay *relay, const struct metrics_filter *filter, int format,
                   FILE *out)
{
    uint64_t now_ns = udmon_now_ns();
    struct lines lines = {.format = format,
                          .oldest_ns =
                              (now_ns > METRICS_STALE_NS) ? (now_ns - METRICS_STALE_NS) : 1,
                          .filter = filter};

    store_reader_begin(store);
    store_each_host(store, lines_host, &lines);
    if (lines.count > 0) {
        qsort(lines.lines, lines.count, sizeof(lines.lines[0]), line_compare);
    }
    lines_write(store, &lines, format, out);
    store_reader_end(store);
    free(lines.lines);
    write_nodes(store, filter, format, out);
    write_quotas(store, format, out);
    if (writer != NULL) {
        write_writer(writer, format, out);
    }
    if (remote != NULL) {
        write_remote(remote, format, out);
    }
    if (relay != NULL) {
        write_relay(relay, format, out);
    }
    if (format == METRICS_OPENMETRICS) {
        fprintf(out, "# EOF\n");
    }
}

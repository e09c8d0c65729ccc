/*
 * The figures, for people and as JSON.
 */
#include "perf.h"

#include <math.h>

#define MICRO 1e6
#define MEGA  1e-6

/* One line: an operation and size, or a floor. */
struct row {
    const char *name, *memory;
    uint32_t size;
    bool has_time, has_stream;
    struct tool_stat time, stream;
    double x_handover, x_copy; /* NAN: no value */
};

static struct row result_row(const struct perf_report *report, const struct perf_result *result)
{
    struct row row = {.name = perf_kinds[result->kind].name,
                      .memory = perf_kinds[result->kind].memory,
                      .size = report->sizes[result->size_index],
                      .has_time = result->measured[PERF_LATENCY],
                      .has_stream = result->measured[PERF_STREAM],
                      .time = result->time[PERF_LATENCY],
                      .stream = result->time[PERF_STREAM],
                      .x_handover = NAN,
                      .x_copy = NAN};

    if (result->has_ratio[PERF_LATENCY]) {
        row.x_handover = result->ratio[PERF_LATENCY].median;
    }
    if (result->has_ratio[PERF_STREAM]) {
        row.x_copy = result->ratio[PERF_STREAM].median;
    }
    return row;
}

static struct row handover_row(const struct perf_report *report)
{
    const struct perf_samples *samples = &report->floor.handover;
    struct row row = {
        .name = "floor", .memory = "hand-over", .size = 8, .x_handover = 1, .x_copy = NAN};

    row.has_time = (samples->num != 0);
    if (row.has_time) {
        row.time = tool_stat(samples->values, samples->num);
    }
    return row;
}

static struct row copy_row(const struct perf_report *report, uint32_t size_index)
{
    const struct perf_samples *samples = &report->floor.copy[size_index];
    struct row row = {.name = "floor",
                      .memory = "memcpy",
                      .size = report->sizes[size_index],
                      .x_handover = NAN,
                      .x_copy = 1};

    row.has_stream = (samples->num != 0);
    if (row.has_stream) {
        row.stream = tool_stat(samples->values, samples->num);
    }
    return row;
}

static void print_ratio(double ratio)
{
    if (isnan(ratio)) {
        printf(" %8s", "");
    } else {
        printf(" %7.2fx", ratio);
    }
}

/* The fastest rate belongs to the shortest time. */
static void print_row(const struct row *row)
{
    printf("%-5s %-10s %8u", row->name, row->memory, row->size);
    if (row->has_time) {
        printf(" %9.3f %9.3f %9.3f", row->time.median * MICRO, row->time.min * MICRO,
               row->time.max * MICRO);
    } else {
        printf(" %9s %9s %9s", "", "", "");
    }
    print_ratio(row->x_handover);
    if (row->has_stream) {
        printf(" %9.4f %9.4f %9.4f %10.1f", MEGA / row->stream.median, MEGA / row->stream.max,
               MEGA / row->stream.min, row->size * MEGA / row->stream.median);
        print_ratio(row->x_copy);
    }
    putchar('\n');
}

static void print_head(const struct perf_report *report)
{
    const struct perf_options *options = report->options;

    printf("# NIC %08x", report->session->attr.nic_id);
    if (options->pin && options->cpus[1] != -1) {
        printf(", cores %d and %d", options->cpus[0], options->cpus[1]);
    } else if (options->cpus[1] == -1) {
        printf(", both processes on one core");
    }
    printf(", window %u, %u repeats\n", options->window, options->repeats);
    printf("# x-hand: latency, in hand-overs of a cache line; x-copy: time of one in the stream, "
           "in copies by memcpy\n");
    printf("%-5s %-10s %8s %9s %9s %9s %8s %9s %9s %9s %10s %8s\n", "#", "memory", "bytes", "us",
           "min", "max", "x-hand", "M/s", "min", "max", "MB/s", "x-copy");
}

static void print_missing(const struct perf_report *report)
{
    const char *why;
    uint32_t kind;

    for (kind = 0; kind < PERF_NUM_KINDS; kind++) {
        why = perf_kind_missing(report->session, kind);
        if ((report->options->kinds & (1u << kind)) && why != NULL) {
            printf("# not available: %s/%s: %s\n", perf_kinds[kind].name, perf_kinds[kind].memory,
                   why);
        }
    }
    why = perf_region_missing(report->session, PERF_REGION_LINES);
    if (why != NULL) {
        printf("# not available: floor/hand-over: %s\n", why);
    }
}

void perf_print_table(const struct perf_report *report)
{
    struct row row = handover_row(report);
    uint32_t i;

    print_head(report);
    if (row.has_time) {
        print_row(&row);
    }
    for (i = 0; i < report->num_sizes; i++) {
        row = copy_row(report, i);
        if (row.has_stream) {
            print_row(&row);
        }
    }
    for (i = 0; i < report->num_results; i++) {
        row = result_row(report, &report->results[i]);
        print_row(&row);
    }
    print_missing(report);
}

static void json_stat(const char *name, double median, double min, double max)
{
    printf("\"%s\":{\"median\":", name);
    tool_json_number(stdout, median);
    printf(",\"min\":");
    tool_json_number(stdout, min);
    printf(",\"max\":");
    tool_json_number(stdout, max);
    putchar('}');
}

static void json_time(const char *name, const struct tool_stat *time)
{
    json_stat(name, time->median * MICRO, time->min * MICRO, time->max * MICRO);
}

static void json_rates(const struct tool_stat *time, uint32_t size)
{
    json_stat("rate_per_s", 1 / time->median, 1 / time->max, 1 / time->min);
    putchar(',');
    json_stat("mb_per_s", size * MEGA / time->median, size * MEGA / time->max,
              size * MEGA / time->min);
}

static void json_result(const struct row *row)
{
    printf("{\"operation\":\"%s\",\"memory\":", row->name);
    if (row->memory[0] == '-') {
        printf("null");
    } else {
        printf("\"%s\"", row->memory);
    }
    printf(",\"size\":%u", row->size);
    if (row->has_time) {
        putchar(',');
        json_time("latency_us", &row->time);
        printf(",\"x_handover\":");
        tool_json_number(stdout, row->x_handover);
    }
    if (row->has_stream) {
        putchar(',');
        json_rates(&row->stream, row->size);
        printf(",\"x_memcpy\":");
        tool_json_number(stdout, row->x_copy);
    }
    putchar('}');
}

static void json_head(const struct perf_report *report)
{
    const struct perf_options *options = report->options;

    printf("{\"libglex\":");
    tool_json_string(stdout, glex_ext_version());
    printf(",\"nic_id\":%u,\"cores\":", report->session->attr.nic_id);
    if (options->pin && options->cpus[1] != -1) {
        printf("[%d,%d]", options->cpus[0], options->cpus[1]);
    } else {
        printf("null");
    }
    printf(",\"window\":%u,\"repeats\":%u", options->window, options->repeats);
}

static void json_missing(const char *operation, const char *memory, const char *why, bool *first)
{
    printf("%s{\"operation\":\"%s\",\"memory\":\"%s\",\"reason\":", *first ? "" : ",", operation,
           memory);
    tool_json_string(stdout, why);
    putchar('}');
    *first = false;
}

static void json_all_missing(const struct perf_report *report)
{
    bool first = true;
    const char *why;
    uint32_t kind;

    printf(",\"not_available\":[");
    for (kind = 0; kind < PERF_NUM_KINDS; kind++) {
        why = perf_kind_missing(report->session, kind);
        if ((report->options->kinds & (1u << kind)) && why != NULL) {
            json_missing(perf_kinds[kind].name, perf_kinds[kind].memory, why, &first);
        }
    }
    why = perf_region_missing(report->session, PERF_REGION_LINES);
    if (why != NULL) {
        json_missing("floor", "hand-over", why, &first);
    }
    putchar(']');
}

static void json_floor(const struct perf_report *report)
{
    struct row row = handover_row(report);
    const char *comma = "";
    uint32_t i;

    printf(",\"floor\":{");
    if (row.has_time) {
        json_time("handover_us", &row.time);
        putchar(',');
    }
    printf("\"memcpy\":[");
    for (i = 0; i < report->num_sizes; i++) {
        row = copy_row(report, i);
        if (row.has_stream) {
            printf("%s{\"size\":%u,", comma, row.size);
            json_rates(&row.stream, row.size);
            putchar('}');
            comma = ",";
        }
    }
    printf("]}");
}

void perf_print_json(const struct perf_report *report)
{
    struct row row;
    uint32_t i;

    json_head(report);
    json_floor(report);
    printf(",\"results\":[");
    for (i = 0; i < report->num_results; i++) {
        row = result_row(report, &report->results[i]);
        fputs(i ? "," : "", stdout);
        json_result(&row);
    }
    putchar(']');
    json_all_missing(report);
    puts("}");
}

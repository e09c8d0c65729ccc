/*
 * The figures, for people and as JSON.
 */
#include "perf.h"

#include <math.h>

#define MICRO 1e6
#define MEGA  1e-6

/* A figure of one line or the other; NAN where it was not measured. */
struct row {
    const char      *name, *memory;
    uint32_t         size;
    bool             has_time, has_stream;
    struct tool_stat time, stream;
    double           x_handover, x_copy;
};

/* The floor of a size. */
static double copy_time(const struct perf_report *report, uint32_t size)
{
    uint32_t i;

    for (i = 0; i < report->num_sizes; i++) {
        if (report->sizes[i] == size) {
            return report->floor.copy[i].median;
        }
    }
    return NAN;
}

static struct row result_row(const struct perf_report *report, const struct perf_result *result)
{
    struct row row = {.name       = perf_kinds[result->kind].name,
                      .memory     = perf_kinds[result->kind].memory,
                      .size       = result->size,
                      .has_time   = result->measured[PERF_LATENCY],
                      .has_stream = result->measured[PERF_STREAM],
                      .time       = result->time[PERF_LATENCY],
                      .stream     = result->time[PERF_STREAM],
                      .x_handover = NAN,
                      .x_copy     = NAN};

    if (row.has_time) {
        row.x_handover = row.time.median / report->floor.handover.median;
    }
    if (row.has_stream && row.size != 0) {
        row.x_copy = row.stream.median / copy_time(report, row.size);
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
    printf("# x-hand: latency to that of a cache line; x-copy: time of one in the stream to that of "
           "memcpy\n");
    printf("%-5s %-10s %8s %9s %9s %9s %8s %9s %9s %9s %10s %8s\n", "#", "memory", "bytes",
           "us", "min", "max", "x-hand", "M/s", "min", "max", "MB/s", "x-copy");
}

static void print_skipped(const struct perf_report *report)
{
    const char *why;
    uint32_t kind;

    for (kind = 0; kind < PERF_NUM_KINDS; kind++) {
        why = perf_kind_missing(report->session, kind);
        if ((report->options->kinds & (1u << kind)) && why != NULL) {
            printf("# not available: %s %s: %s\n", perf_kinds[kind].name,
                   perf_kinds[kind].memory, why);
        }
    }
}

void perf_print_table(const struct perf_report *report)
{
    struct row floor = {.name       = "floor",
                        .memory     = "hand-over",
                        .size       = 8,
                        .has_time   = true,
                        .time       = report->floor.handover,
                        .x_handover = 1,
                        .x_copy     = NAN};
    struct row row;
    uint32_t i;

    print_head(report);
    print_row(&floor);
    for (i = 0; i < report->num_sizes; i++) {
        row = (struct row){.name       = "floor",
                           .memory     = "memcpy",
                           .size       = report->sizes[i],
                           .has_stream = true,
                           .stream     = report->floor.copy[i],
                           .x_handover = NAN,
                           .x_copy     = 1};
        print_row(&row);
    }
    for (i = 0; i < report->num_results; i++) {
        row = result_row(report, &report->results[i]);
        print_row(&row);
    }
    print_skipped(report);
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

static void json_skipped(const struct perf_report *report)
{
    const char *why, *comma = "";
    uint32_t kind;

    printf(",\"not_available\":[");
    for (kind = 0; kind < PERF_NUM_KINDS; kind++) {
        why = perf_kind_missing(report->session, kind);
        if (!(report->options->kinds & (1u << kind)) || why == NULL) {
            continue;
        }
        printf("%s{\"operation\":\"%s\",\"memory\":\"%s\",\"reason\":", comma,
               perf_kinds[kind].name, perf_kinds[kind].memory);
        tool_json_string(stdout, why);
        putchar('}');
        comma = ",";
    }
    putchar(']');
}

void perf_print_json(const struct perf_report *report)
{
    struct row row;
    uint32_t i;

    json_head(report);
    printf(",\"floor\":{");
    json_time("handover_us", &report->floor.handover);
    printf(",\"memcpy\":[");
    for (i = 0; i < report->num_sizes; i++) {
        printf("%s{\"size\":%u,", i ? "," : "", report->sizes[i]);
        json_rates(&report->floor.copy[i], report->sizes[i]);
        putchar('}');
    }
    printf("]},\"results\":[");
    for (i = 0; i < report->num_results; i++) {
        row = result_row(report, &report->results[i]);
        fputs(i ? "," : "", stdout);
        json_result(&row);
    }
    putchar(']');
    json_skipped(report);
    puts("}");
}

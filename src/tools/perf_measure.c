/*
 * What is measured, how often, and the medians of it.
 */
#include "perf.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#define FIRST_COUNT 16
#define MAX_COUNT   10000000.0

const struct perf_kind perf_kinds[PERF_NUM_KINDS] = {
    {"mp", "-", PERF_OP_MP, PERF_REGION_IMM},
    {"imm", "plain", PERF_OP_IMM_PUT, PERF_REGION_IMM},
    {"imm", "event-data", PERF_OP_IMM_PUT, PERF_REGION_IMM_EVENT},
    {"put", "nic", PERF_OP_PUT, PERF_REGION_NIC},
    {"put", "private", PERF_OP_PUT, PERF_REGION_PRIVATE},
    {"get", "nic", PERF_OP_GET, PERF_REGION_NIC},
    {"get", "private", PERF_OP_GET, PERF_REGION_PRIVATE},
};

static bool run_once(struct perf_session *s, const struct perf_run *run, double *seconds_p)
{
    return perf_session_begin(s, run) && perf_run_client(s, run, seconds_p) &&
           perf_session_check(s, run);
}

/* The number of operations that fill the time of a repeat; finding it warms up. */
static bool calibrate(struct perf_session *s, const struct perf_options *options,
                      struct perf_run *run)
{
    double target = options->milliseconds * 1e-3, seconds, count;

    if (options->count != 0) {
        run->count = options->count / 10 + 1;
        if (!run_once(s, run, &seconds)) {
            return false;
        }
        run->count = options->count;
        return true;
    }
    run->count = FIRST_COUNT;
    for (;;) {
        if (!run_once(s, run, &seconds)) {
            return false;
        }
        if (seconds >= target / 8 || run->count > MAX_COUNT / 8) {
            break;
        }
        run->count *= 4;
    }
    count = run->count * target / (seconds > 0 ? seconds : target);
    run->count = (count < 1) ? 1 : (count > MAX_COUNT) ? (uint32_t)MAX_COUNT : (uint32_t)count;
    return true;
}

static bool measure_pattern(struct perf_session *s, const struct perf_options *options,
                            enum perf_pattern pattern, struct perf_result *result,
                            double *values)
{
    struct perf_run run = {.kind    = result->kind,
                           .pattern = pattern,
                           .size    = result->size,
                           .window  = options->window};
    double seconds;
    uint32_t i;

    if (!calibrate(s, options, &run)) {
        return false;
    }
    for (i = 0; i < options->repeats; i++) {
        if (!run_once(s, &run, &seconds)) {
            return false;
        }
        values[i] = seconds / run.count;
        if (pattern == PERF_LATENCY && perf_kinds[run.kind].op != PERF_OP_GET) {
            values[i] /= 2; /* to and fro */
        }
    }
    result->time[pattern]     = tool_stat(values, options->repeats);
    result->measured[pattern] = true;
    return true;
}

/* For people at a terminal only. */
static void show_progress(const struct perf_result *result, uint32_t done, uint32_t total)
{
    if (!isatty(STDERR_FILENO)) {
        return;
    }
    if (result == NULL) {
        fprintf(stderr, "\r\033[K");
    } else {
        fprintf(stderr, "\r\033[K[%u/%u] %s %s %u bytes", done, total,
                perf_kinds[result->kind].name, perf_kinds[result->kind].memory, result->size);
    }
}

/* Which kinds and sizes there will be; the first of the two passes counts them. */
static uint32_t list_results(struct perf_report *report, const struct perf_session *s,
                             struct perf_result *results)
{
    uint32_t kind, i, num = 0;

    for (kind = 0; kind < PERF_NUM_KINDS; kind++) {
        if (!(report->options->kinds & (1u << kind)) || perf_kind_missing(s, kind) != NULL) {
            continue;
        }
        for (i = 0; i < report->num_sizes; i++) {
            if (!perf_kind_fits(s, kind, report->sizes[i])) {
                continue;
            }
            if (results != NULL) {
                results[num].kind = kind;
                results[num].size = report->sizes[i];
            }
            num++;
        }
    }
    return num;
}

bool perf_measure(struct perf_report *report, struct perf_session *s)
{
    const struct perf_options *options = report->options;
    uint32_t num = list_results(report, s, NULL), i, pattern;
    double *values = calloc(options->repeats, sizeof(*values));
    bool ok        = true;

    report->results = calloc(num + 1, sizeof(*report->results));
    if (values == NULL || report->results == NULL) {
        tool_error("no memory for %u results", num);
        free(values);
        return false;
    }
    list_results(report, s, report->results);
    for (i = 0; i < num && ok; i++) {
        show_progress(&report->results[i], i + 1, num);
        for (pattern = 0; pattern < PERF_NUM_PATTERNS && ok; pattern++) {
            if (options->patterns & (1u << pattern)) {
                ok = measure_pattern(s, options, pattern, &report->results[i], values);
            }
        }
        report->num_results += ok;
    }
    show_progress(NULL, 0, 0);
    free(values);
    return ok;
}

/* The list of measurements, their repetitions, and the medians. */
#include "perf.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#define FIRST_COUNT 16
#define MAX_COUNT   10000000.0

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

/* Room for the values of a measurement and its ratios. */
struct series {
    double *times, *ratios;
};

/* The floor of a metric, now. NAN where it cannot be measured. */
static bool measure_floor(struct perf_report *report, struct perf_session *s,
                          enum perf_pattern metric, uint32_t size_index, double *seconds_p)
{
    struct perf_samples *samples = &report->floor.handover;

    if (metric == PERF_LATENCY) {
        if (perf_region_missing(s, PERF_REGION_LINES) != NULL) {
            *seconds_p = NAN;
            return true;
        }
        if (!perf_floor_handover(s, seconds_p)) {
            return false;
        }
    } else {
        samples = &report->floor.copy[size_index];
        *seconds_p = perf_floor_copy(&report->floor, report->sizes[size_index]);
    }
    samples->values[samples->num++] = *seconds_p;
    return true;
}

static bool measure_metric(struct perf_report *report, struct perf_session *s,
                           enum perf_pattern metric, struct perf_result *result,
                           const struct series *series)
{
    const struct perf_options *options = report->options;
    struct perf_run run = {.kind = result->kind,
                           .pattern = metric,
                           .size = report->sizes[result->size_index],
                           .window = options->window};
    double seconds, floor;
    uint32_t i;

    if (!calibrate(s, options, &run)) {
        return false;
    }
    for (i = 0; i < options->repeats; i++) {
        if (!measure_floor(report, s, metric, result->size_index, &floor) ||
            !run_once(s, &run, &seconds)) {
            return false;
        }
        series->times[i] = seconds / run.count;
        if (metric == PERF_LATENCY && perf_kinds[run.kind].op != PERF_OP_GET) {
            series->times[i] /= 2; /* to and fro */
        }
        series->ratios[i] = series->times[i] / floor;
    }
    result->measured[metric] = true;
    result->has_ratio[metric] = !isnan(floor) && run.size + (metric == PERF_LATENCY) != 0;
    result->time[metric] = tool_stat(series->times, options->repeats);
    if (result->has_ratio[metric]) {
        result->ratio[metric] = tool_stat(series->ratios, options->repeats);
    }
    return true;
}

/* For people at a terminal only. */
static void show_progress(const struct perf_report *report, const struct perf_result *result,
                          uint32_t done, uint32_t total)
{
    if (!isatty(STDERR_FILENO)) {
        return;
    }
    if (result == NULL) {
        fprintf(stderr, "\r\033[K");
    } else {
        fprintf(stderr, "\r\033[K[%u/%u] %s %s %u bytes", done, total,
                perf_kinds[result->kind].name, perf_kinds[result->kind].memory,
                report->sizes[result->size_index]);
    }
}

/* Lists the kinds and sizes of all results. The first of two passes only counts them. */
static uint32_t list_results(const struct perf_report *report, const struct perf_session *s,
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
                results[num].size_index = i;
            }
            num++;
        }
    }
    return num;
}

/* Each repeat of each result has a sample of its floor. */
static bool alloc_results(struct perf_report *report, uint32_t num, struct series *series)
{
    uint32_t repeats = report->options->repeats, i;
    bool ok;

    report->results = calloc(num + 1, sizeof(*report->results));
    report->floor.handover.values = calloc((size_t)num * repeats + 1, sizeof(double));
    report->floor.copy = calloc(report->num_sizes, sizeof(*report->floor.copy));
    series->times = calloc(repeats, sizeof(double));
    series->ratios = calloc(repeats, sizeof(double));
    ok = report->results != NULL && report->floor.handover.values != NULL &&
         report->floor.copy != NULL && series->times != NULL && series->ratios != NULL;
    for (i = 0; i < report->num_sizes && ok; i++) {
        report->floor.copy[i].values = calloc((size_t)PERF_NUM_KINDS * repeats, sizeof(double));
        ok = (report->floor.copy[i].values != NULL);
    }
    if (!ok) {
        tool_error("no memory for %u results of %u repeats", num, repeats);
    }
    return ok;
}

void perf_report_free(struct perf_report *report)
{
    uint32_t i;

    for (i = 0; report->floor.copy != NULL && i < report->num_sizes; i++) {
        free(report->floor.copy[i].values);
    }
    free(report->floor.copy);
    free(report->floor.handover.values);
    perf_floor_close(&report->floor);
    free(report->results);
    free(report->sizes);
}

bool perf_measure(struct perf_report *report, struct perf_session *s)
{
    uint32_t num = list_results(report, s, NULL), i, metric;
    struct series series;
    bool ok;

    ok = alloc_results(report, num, &series) &&
         perf_floor_open(&report->floor, report->sizes[report->num_sizes - 1]);
    if (ok) {
        list_results(report, s, report->results);
    }
    for (i = 0; i < num && ok; i++) {
        show_progress(report, &report->results[i], i + 1, num);
        for (metric = 0; metric < PERF_NUM_METRICS && ok; metric++) {
            if (report->options->metrics & (1u << metric)) {
                ok = measure_metric(report, s, metric, &report->results[i], &series);
            }
        }
        report->num_results += ok;
    }
    show_progress(report, NULL, 0, 0);
    free(series.times);
    free(series.ratios);
    return ok;
}

#include "quota.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const quota_names[QUOTA_KINDS] = {
    [QUOTA_NODES] = "nodes", [QUOTA_SERIES] = "series",   [QUOTA_SAMPLES] = "samples",
    [QUOTA_BYTES] = "bytes", [QUOTA_HISTORY] = "history",
};

void quota_defaults(struct quota_limits *limits, bool relay)
{
    *limits = (struct quota_limits){{
        [QUOTA_NODES] = relay ? 10000 : 0,
        [QUOTA_SERIES] = relay ? 1000000 : 20000,
        [QUOTA_SAMPLES] = relay ? 200000 : 20000,
        [QUOTA_BYTES] = relay ? (INT64_C(40) << 20) : (INT64_C(4) << 20),
        [QUOTA_HISTORY] = 50,
    }};
}

/* The kind whose name and "=" begin the text. */
static int quota_kind_of(const char *text)
{
    size_t length;
    int i;

    for (i = 0; i < QUOTA_KINDS; ++i) {
        length = strlen(quota_names[i]);
        if (!strncmp(text, quota_names[i], length) && (text[length] == '=')) {
            break;
        }
    }
    return i;
}

int quota_parse(struct quota_limits *limits, const char *text)
{
    const char *number;
    int64_t value;
    char *end;
    int kind;

    do {
        kind = quota_kind_of(text);
        /* The default of 0: a node has no nodes. */
        if ((kind == QUOTA_KINDS) || (limits->limits[kind] == 0)) {
            return -EINVAL;
        }
        number = text + strlen(quota_names[kind]) + 1;
        errno = 0;
        value = strtoll(number, &end, 10);
        if ((end == number) || ((*end != '\0') && (*end != ',')) || (errno != 0) || (value <= 0) ||
            (value > ((kind == QUOTA_HISTORY) ? 100 : (INT64_C(1) << 40)))) {
            return -EINVAL;
        }
        limits->limits[kind] = value;
        text = end + 1;
    } while (*end == ',');
    return 0;
}

static void quota_fill_one(double *left, double per_second, double seconds, double most)
{
    *left += per_second * seconds;
    if (*left > most) {
        *left = most;
    }
}

/*
 * What may come at once, and may be stored at once, grows with the time up to the amount of
 * QUOTA_BURST_S. What may be stored grows more slowly.
 */
static void quota_fill(struct quota *quota, const struct quota_limits *limits,
                       const struct quota_total *total, uint64_t now_ns)
{
    double seconds =
        (quota->filled_ns == 0) ? INFINITY : (double)(now_ns - quota->filled_ns) * 1e-9;
    double samples = (double)limits->limits[QUOTA_SAMPLES];
    double bytes = (double)limits->limits[QUOTA_BYTES];
    double share =
        (double)total->before * (double)limits->limits[QUOTA_HISTORY] / (100.0 * QUOTA_WINDOW_S);

    quota->filled_ns = now_ns;
    quota_fill_one(&quota->samples, samples, seconds, QUOTA_BURST_S * samples);
    quota_fill_one(&quota->bytes, bytes, seconds, QUOTA_BURST_S * bytes);
    quota_fill_one(&quota->history, fmax(share, samples / QUOTA_HISTORY_PART), seconds,
                   QUOTA_BURST_S * samples);
}

static void quota_roll(struct quota_total *total, uint64_t now_ns)
{
    uint64_t window = now_ns / (QUOTA_WINDOW_S * UINT64_C(1000000000));

    if (total->window != window) {
        total->before = (total->window + 1 == window) ? total->stored : 0;
        total->window = window;
        total->stored = 0;
    }
}

int quota_take(struct quota *quota, const struct quota_limits *limits, struct quota_total *total,
               size_t bytes, uint64_t now_ns)
{
    int kind = -1;

    if (now_ns != quota->filled_ns) {
        quota_roll(total, now_ns);
        quota_fill(quota, limits, total, now_ns);
    }
    quota->all_bytes += bytes;
    if (quota->samples < 1) {
        kind = QUOTA_SAMPLES;
    } else if (quota->bytes < (double)bytes) {
        kind = QUOTA_BYTES;
    }
    if (kind >= 0) {
        ++quota->refused[kind];
        return kind;
    }
    quota->samples -= 1;
    quota->bytes -= (double)bytes;
    return -1;
}

bool quota_may_store(struct quota *quota, const struct quota_limits *limits)
{
    if ((limits->limits[QUOTA_HISTORY] < 100) && (quota->history < 1)) {
        ++quota->refused[QUOTA_HISTORY];
        return false;
    }
    return true;
}

void quota_stored(struct quota *quota)
{
    quota->history -= 1;
    ++quota->all_stored;
}

bool quota_more(struct quota *quota, const struct quota_limits *limits, enum quota_kind kind,
                size_t present)
{
    if (present >= (size_t)limits->limits[kind]) {
        ++quota->refused[kind];
        return false;
    }
    return true;
}

#include "quota.h"

#include <errno.h>
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

static int quota_kind_of(const char *name)
{
    int i;

    for (i = 0; (i < QUOTA_KINDS) && strcmp(quota_names[i], name); ++i) {
    }
    return i;
}

int quota_parse(struct quota_limits *limits, char *text)
{
    char *word, *rest = NULL, *number, *end;
    int64_t value;
    int kind;

    for (word = strtok_r(text, ",", &rest); word != NULL; word = strtok_r(NULL, ",", &rest)) {
        number = strchr(word, '=');
        if (number == NULL) {
            return -EINVAL;
        }
        *number++ = '\0';
        kind = quota_kind_of(word);
        errno = 0;
        value = strtoll(number, &end, 10);
        if ((kind == QUOTA_KINDS) || (end == number) || (*end != '\0') || (errno != 0) ||
            (value <= 0) || (value > ((kind == QUOTA_HISTORY) ? 100 : (INT64_C(1) << 40)))) {
            return -EINVAL;
        }
        /* The store has fixed limits of a node, and a node has no nodes. */
        if (limits->limits[kind] == 0) {
            return -EINVAL;
        }
        limits->limits[kind] = value;
    }
    return 0;
}

/* What may come at once grows with the time, up to the amount of QUOTA_BURST_S. */
static void quota_fill(struct quota *quota, const struct quota_limits *limits, uint64_t now_ns)
{
    double seconds =
        (quota->filled_ns == 0) ? QUOTA_BURST_S : (double)(now_ns - quota->filled_ns) * 1e-9;
    double samples = (double)limits->limits[QUOTA_SAMPLES];
    double bytes = (double)limits->limits[QUOTA_BYTES];

    quota->filled_ns = now_ns;
    quota->samples += seconds * samples;
    quota->bytes += seconds * bytes;
    if (quota->samples > (QUOTA_BURST_S * samples)) {
        quota->samples = QUOTA_BURST_S * samples;
    }
    if (quota->bytes > (QUOTA_BURST_S * bytes)) {
        quota->bytes = QUOTA_BURST_S * bytes;
    }
}

int quota_take(struct quota *quota, const struct quota_limits *limits, size_t bytes,
               uint64_t now_ns)
{
    int kind = -1;

    if (now_ns != quota->filled_ns) {
        quota_fill(quota, limits, now_ns);
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

bool quota_may_store(struct quota *quota, const struct quota_limits *limits,
                     struct quota_total *total, uint64_t now_ns)
{
    uint64_t window = now_ns / (QUOTA_WINDOW_S * UINT64_C(1000000000)) + 1;
    uint64_t share;

    if (total->window != window) {
        total->before = (total->window + 1 == window) ? total->stored : 0;
        total->window = window;
        total->stored = 0;
    }
    if (quota->window != window) {
        quota->window = window;
        quota->stored = 0;
    }
    share = total->before * (uint64_t)limits->limits[QUOTA_HISTORY] / 100;
    if ((limits->limits[QUOTA_HISTORY] < 100) && (quota->stored >= share) &&
        (quota->stored >= (QUOTA_HISTORY_MIN * (uint64_t)QUOTA_WINDOW_S))) {
        ++quota->refused[QUOTA_HISTORY];
        return false;
    }
    return true;
}

void quota_stored(struct quota *quota)
{
    ++quota->stored;
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

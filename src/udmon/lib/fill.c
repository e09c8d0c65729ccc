#include "../include/udmon.h"

#include <errno.h>

/* Fill samples first .. last, both missing, between measured neighbours (NULL beyond the ends). */
static void fill_range(udmon_sample_t *samples, size_t first, size_t last,
                       const udmon_sample_t *before, const udmon_sample_t *after)
{
    double left = (before != NULL) ? before->value : after->value;
    double right = (after != NULL) ? after->value : left;
    double steps = (double)(last - first) + 2;
    size_t i;

    for (i = first; i <= last; ++i) {
        double weight = (double)(i - first + 1) / steps;
        samples[i].value = (left * (1 - weight)) + (right * weight);
        samples[i].filled = 1;
    }
}

int udmon_fill(udmon_sample_t *samples, const unsigned char *present, size_t count)
{
    const udmon_sample_t *before = NULL;
    size_t i, first = 0, measured = 0;

    for (i = 0; i < count; ++i) {
        measured += !!present[i];
    }
    if ((measured == 0) && (count > 0)) {
        return -ENODATA;
    }
    for (i = 0; i < count; ++i) {
        if (present[i]) {
            if (first < i) {
                fill_range(samples, first, i - 1, before, &samples[i]);
            }
            samples[i].filled = 0;
            before = &samples[i];
            first = i + 1;
        }
    }
    if (first < count) {
        fill_range(samples, first, count - 1, before, NULL);
    }
    return count - measured;
}

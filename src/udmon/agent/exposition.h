/* Prometheus' text format, the format of node_exporter's textfiles and of all exporters. */
#ifndef UDMON_AGENT_EXPOSITION_H
#define UDMON_AGENT_EXPOSITION_H

#include "samples.h"

/* Numbers of samples and of refused lines of a text. */
struct exposition_result {
    size_t samples;
    size_t skipped; /* lines that cannot be samples here: too long, labels with escapes */
    int bad_line;   /* number of the first invalid line, or 0 */
};

/**
 * Adds the samples of a text to `samples`. A sample is a counter if its family has TYPE counter and
 * its name ends in _total. Other samples are gauges. The agent sends parts of a histogram as separate
 * gauges. HELP, TYPE and UNIT describe the samples. Timestamps are ignored: a sample counts as
 * made now. `openmetrics`: the text is in OpenMetrics format. The function changes `text`.
 */
void exposition_read(char *text, bool openmetrics, struct samples *samples,
                     struct exposition_result *result);

#endif

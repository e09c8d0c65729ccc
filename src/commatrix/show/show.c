#include "show.h"

#include <math.h>

char *cm_human(double value, enum cm_count count)
{
    static const char prefixes[] = {0, 'k', 'M', 'G', 'T', 'P'};
    bool bytes = count != CM_COUNT_PACKETS && count != CM_COUNT_MESSAGES;
    size_t i = 0;
    char unit[4];

    while (value >= 999.5 && i + 1 < sizeof(prefixes)) {
        value /= 1000;
        i++;
    }
    g_snprintf(unit, sizeof(unit), "%.*s%s", i > 0, &prefixes[i], bytes ? "B" : "");
    return g_strdup_printf("%.*f%s%s", i > 0 && value < 99.95 ? 1 : 0, value,
                           unit[0] != '\0' ? " " : "", unit);
}

bool cm_show_has_windows(const struct cm_show *show)
{
    return show->traffic->options.window_ns != 0 && show->traffic->options.max_windows == 0;
}

char *cm_human_time(uint64_t ns)
{
    static const char *const units[] = {"ns", "us", "ms", "s"};
    double value = (double)ns;
    size_t i = 0;

    while (value >= 999.5 && i + 1 < G_N_ELEMENTS(units)) {
        value /= 1000;
        i++;
    }
    return g_strdup_printf("%.*f %s", i > 0 && value < 99.95 ? 2 : 0, value, units[i]);
}

const char *cm_count_title(enum cm_count count)
{
    static const char *const titles[CM_NUM_COUNT] = {
        "bytes on the wire", "payload bytes",       "packets",
        "messages",          "mean message, bytes", "largest message, bytes"};

    return titles[count];
}

const char *cm_by_title(enum cm_by by)
{
    static const char *const titles[CM_NUM_BY] = {"LID",  "GID",        "IP address",
                                                  "host", "queue pair", "MPI rank"};

    return titles[by];
}

void cm_show_range(const struct cm_show *show, double *min_p, double *max_p)
{
    const GArray *cells = show->matrix->cells;
    double value;
    guint i;

    *min_p = *max_p = 0;
    for (i = 0; i < cells->len; i++) {
        value = cm_cell_value(&g_array_index(cells, struct cm_cell, i).counts, show->count);
        *max_p = MAX(*max_p, value);
        if (value > 0 && (*min_p == 0 || value < *min_p)) {
            *min_p = value;
        }
    }
}

double cm_show_shade(const struct cm_show *show, double value, double min, double max)
{
    if (value <= 0 || max <= 0) {
        return -1;
    }
    if (!show->log_scale) {
        return value / max;
    }
    /* The smallest value is to be seen, too. */
    return max > min ? 0.08 + 0.92 * (log(value) - log(min)) / (log(max) - log(min)) : 1;
}

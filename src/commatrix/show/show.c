#include "show.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

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

char *cm_exact_time(uint64_t ns)
{
    static const struct {
        const char *name;
        uint64_t ns;
    } units[] = {{"s", 1000000000}, {"ms", 1000000}, {"us", 1000}, {"ns", 1}};
    char digits[16] = "";
    size_t i = 0, len;

    while (i + 1 < G_N_ELEMENTS(units) && ns < units[i].ns) {
        i++;
    }
    if (ns % units[i].ns != 0) {
        len = strlen(units[i].name) == 1 ? 9 : units[i].ns == 1000000 ? 6 : 3;
        g_snprintf(digits, sizeof(digits), ".%0*" PRIu64, (int)len, ns % units[i].ns);
        for (len = strlen(digits); digits[len - 1] == '0'; len--) {
            digits[len - 1] = '\0';
        }
    }
    return g_strdup_printf("%" PRIu64 "%s%s", ns / units[i].ns, digits, units[i].name);
}

uint64_t cm_show_duration(const struct cm_show *show)
{
    const struct cm_capture_counts *capture = &show->traffic->capture;

    return capture->packets == 0 ? 0 : capture->last_ns - capture->first_ns;
}

/* ---- warnings -------------------------------------------------------------------------------- */

static void warn(GPtrArray *warnings, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    g_ptr_array_add(warnings, g_strdup_vprintf(format, args));
    va_end(args);
}

static void warn_empty(const struct cm_show *show, GPtrArray *warnings)
{
    const struct cm_capture_counts *capture = &show->traffic->capture;

    if (capture->packets > 0 &&
        show->traffic->excluded[CM_KIND_OTHER].packets == capture->packets) {
        warn(warnings, "no RDMA packet at all: a NIC that does RDMA hides its packets from the "
                       "network interface; capture on a mirror port of the switch, on the RDMA "
                       "device (tcpdump -i mlx5_0), or with ibdump");
    }
}

static void warn_tunnels(const struct cm_show *show, GPtrArray *warnings)
{
    int i;

    for (i = 1; i < CM_NUM_CLOSED; i++) {
        if (show->traffic->capture.closed[i] != 0) {
            warn(warnings, "%" PRIu64 " packets in tunnels were not looked into: %s",
                 show->traffic->capture.closed[i], cm_closed_names[i]);
        }
    }
}

static void warn_clocks(const struct cm_show *show, GPtrArray *warnings)
{
    const struct cm_capture_counts *capture = &show->traffic->capture;
    int n = cm_capture_num_files(show->capture), i;

    for (i = 0; i < n; i++) {
        const struct cm_clock *clock = cm_capture_clock(show->capture, i);
        char *time = cm_human_time((uint64_t)ABS(clock->ahead_ns));
        const char *name = cm_capture_name(show->capture, i);

        if (clock->corrected && ABS(clock->ahead_ns) >= 1000) {
            warn(warnings, "the clock of %s is %s %s: corrected", name, time,
                 clock->ahead_ns > 0 ? "ahead" : "behind");
        } else if (!clock->corrected && clock->ahead_ns != 0) {
            warn(warnings,
                 "the clock of %s may be %s %s, but %u common packets do not agree: not corrected",
                 name, time, clock->ahead_ns > 0 ? "ahead" : "behind", clock->common);
        }
        g_free(time);
    }
    if (n > 1 && capture->retransmissions > capture->numbered / 10) {
        warn(warnings,
             "%" PRIu64 " of %" PRIu64 " packets are retransmissions: if the clocks of "
             "the files differ, --skew has to be longer than the difference",
             capture->retransmissions, capture->numbered);
    }
}

char **cm_show_warnings(const struct cm_show *show)
{
    GPtrArray *warnings = g_ptr_array_new();
    uint64_t timeless = cm_capture_timeless(show->capture);

    warn_empty(show, warnings);
    warn_tunnels(show, warnings);
    warn_clocks(show, warnings);
    if (show->traffic->capture.cut_headers > 0) {
        warn(warnings,
             "%" PRIu64 " packets are cut before their headers end: a snapshot length of "
             "256 bytes is enough",
             show->traffic->capture.cut_headers);
    }
    if (timeless > 0) {
        warn(warnings,
             "%" PRIu64 " packets have no time in their file: each has that of the "
             "packet before it",
             timeless);
    }
    g_ptr_array_add(warnings, NULL);
    return (char **)g_ptr_array_free(warnings, FALSE);
}

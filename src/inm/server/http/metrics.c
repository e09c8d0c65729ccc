/* OpenMetrics text of the server. */
#include "metrics.h"
#include "inm/server/watch/load.h"

#include <stdio.h>

struct metric {
    const char *name, *type, *help;
    double value;
};

/* Levels and directions without a link, or without two polls, have no sample. */
static void print_load(FILE *out, const struct inmd *d)
{
    static const char *const names[] = {"mean", "max", "wait"};
    static const char *const help[] = {
        "Mean part of the capacity that links of a level carry", "The same of the most loaded link",
        "Part of the flits that waited at the link of a level where most waited"};
    struct load_sum sum;
    uint32_t level, k;
    int up;

    for (k = 0; k < 3; k++) {
        fprintf(out, "# TYPE inm_link_load_%s gauge\n# HELP inm_link_load_%s %s\n", names[k],
                names[k], help[k]);
        for (level = INM_LEVEL_BOTTOM_EDGE; level < INM_LEVEL_NUM; level++) {
            for (up = 0; up < 2; up++) {
                load_of_level(d, level, up, &sum);
                if (sum.links > 0) {
                    fprintf(out, "inm_link_load_%s{level=\"%s\",direction=\"%s\"} %.6g\n", names[k],
                            inm_level_name(level), up ? "up" : "down",
                            k == 0 ? sum.mean :
                            k == 1 ? sum.most :
                                     sum.wait);
                }
            }
        }
    }
}

/* Counters of the chips, by level. */
static void print_levels(FILE *out, const struct inmd *d)
{
    uint64_t retries[INM_LEVEL_NUM] = {0}, crc[INM_LEVEL_NUM] = {0}, down[INM_LEVEL_NUM] = {0};
    uint32_t i, level;

    for (i = 0; i < d->topo->num_nrc; i++) {
        retries[d->topo->chips[i].level] += d->status.retries[i];
        crc[d->topo->chips[i].level] += d->status.crc_errors[i];
    }
    for (i = 0; i < d->topo->num_nrc * INM_NRC_PORTS; i++) {
        down[d->topo->chips[i / INM_NRC_PORTS].level] += d->status.down[i];
    }
    fprintf(out, "# TYPE inm_link_retries counter\n# HELP inm_link_retries Packets that links sent "
                 "again\n");
    for (level = INM_LEVEL_BOTTOM_EDGE; level < INM_LEVEL_NUM; level++) {
        fprintf(out, "inm_link_retries_total{level=\"%s\"} %llu\n", inm_level_name(level),
                (unsigned long long)retries[level]);
    }
    fprintf(out, "# TYPE inm_link_crc_errors counter\n# HELP inm_link_crc_errors Packets with a "
                 "wrong CRC\n");
    for (level = INM_LEVEL_BOTTOM_EDGE; level < INM_LEVEL_NUM; level++) {
        fprintf(out, "inm_link_crc_errors_total{level=\"%s\"} %llu\n", inm_level_name(level),
                (unsigned long long)crc[level]);
    }
    fprintf(out,
            "# TYPE inm_ports_down gauge\n# HELP inm_ports_down Ports whose link is missing\n");
    for (level = INM_LEVEL_BOTTOM_EDGE; level < INM_LEVEL_NUM; level++) {
        fprintf(out, "inm_ports_down{level=\"%s\"} %llu\n", inm_level_name(level),
                (unsigned long long)down[level]);
    }
}

char *metrics_text(struct inmd *d, size_t *len)
{
    struct net_stats n;
    uint32_t severity[4] = {0}, i;
    char *text = NULL;
    FILE *out = open_memstream(&text, len);

    if (out == NULL) {
        return NULL;
    }
    net_get_stats(d->net, &n);
    pthread_mutex_lock(&d->lock);
    for (i = 0; i < d->num_alarms; i++) {
        severity[d->alarms[i].severity & 3]++;
    }
    const struct metric list[] = {
        {"inm_chips_nrc", "gauge", "NRCs found", d->found.num_nrc},
        {"inm_chips_nic", "gauge", "NICs found", d->found.num_nic},
        {"inm_links", "gauge", "Links found", d->found.num_links},
        {"inm_discovery_seconds", "gauge", "Real time of the last discovery",
         d->found.real_seconds},
        {"inm_poll_seconds", "gauge", "Real time of the last poll", d->poll_seconds},
        {"inm_requests", "counter", "Requests sent to chips", (double)n.requests},
        {"inm_responses", "counter", "Responses of chips", (double)n.responses},
        {"inm_retries", "counter", "Requests repeated", (double)n.retries},
        {"inm_lost", "counter", "Requests without an answer", (double)n.lost},
        {"inm_refused", "counter", "Requests answered by an error", (double)n.refused},
        {"inm_reports", "counter", "Reports received", (double)d->reports},
        {"inm_reports_missing", "counter", "Reports that chips numbered and that did not arrive",
         (double)(d->reports_missing + n.reports_dropped)},
        {"inm_polls", "counter", "Polls of all chips", (double)d->polls},
        {"inm_network_up", "gauge", "Whether this host's NIC has a network", net_alive(d->net)},
    };
    pthread_mutex_unlock(&d->lock);
    for (i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
        fprintf(out, "# TYPE %s %s\n# HELP %s %s\n%s%s %.17g\n", list[i].name, list[i].type,
                list[i].name, list[i].help, list[i].name, list[i].type[0] == 'c' ? "_total" : "",
                list[i].value);
    }
    fprintf(out, "# TYPE inm_alarms gauge\n# HELP inm_alarms Active alarms\n");
    for (i = 0; i < 4; i++) {
        fprintf(out, "inm_alarms{severity=\"%s\"} %u\n", severity_name(i), severity[i]);
    }
    pthread_mutex_lock(&d->lock);
    print_load(out, d);
    print_levels(out, d);
    pthread_mutex_unlock(&d->lock);
    fprintf(out, "# EOF\n");
    fclose(out);
    return text;
}

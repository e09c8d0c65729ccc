/* OpenMetrics text of the server. */
#include "metrics.h"

#include <stdio.h>


struct metric {
    const char *name, *type, *help;
    double value;
};

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
                list[i].name, list[i].help, list[i].name,
                list[i].type[0] == 'c' ? "_total" : "", list[i].value);
    }
    fprintf(out, "# TYPE inm_alarms gauge\n# HELP inm_alarms Active alarms\n");
    for (i = 0; i < 4; i++) {
        fprintf(out, "inm_alarms{severity=\"%s\"} %u\n", severity_name(i), severity[i]);
    }
    fprintf(out, "# EOF\n");
    fclose(out);
    return text;
}

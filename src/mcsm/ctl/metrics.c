#include "metrics.h"

#include <errno.h>
#include <utlist.h>

static void metric(FILE *out, const mcsm_daemon_t *daemon, const char *name, const char *type,
                   const char *help, double value)
{
    fprintf(out, "# HELP mcsm_%s %s\n# TYPE mcsm_%s %s\nmcsm_%s%s{cluster=\"%s\"} %.17g\n", name,
            help, name, type, name, type[0] == 'c' ? "_total" : "", daemon->config->name, value);
}

#define COUNTER(name, help, value) metric(out, daemon, name, "counter", help, value)
#define GAUGE(name, help, value)   metric(out, daemon, name, "gauge", help, value)

static void manager(const mcsm_daemon_t *daemon, FILE *out)
{
    const mcsm_sm_t *sm = daemon->sm;
    const mcsm_sm_stats_t *stats = &sm->stats;
    const mcsm_rival_t *rival;
    int foreign = 0;

    GAUGE("master", "1 if this manager is the master of its cluster.",
          sm->election.state == MCSM_SM_MASTER_STATE);
    LL_COUNT(sm->election.foreign, rival, foreign);
    GAUGE("foreign_managers", "Subnet managers on our ports that do not prove the SM_Key.",
          foreign);
    GAUGE("foreign_master", "1 if one of them is a master: two masters on one fabric.",
          sm->election.disputed);
    GAUGE("switches", "Switches in the cluster.", sm->fabric->switch_count);
    GAUGE("end_nodes", "Channel adapters and routers in the cluster.", sm->fabric->ca_count);
    GAUGE("links", "Links inside of the cluster.", sm->fabric->link_count);
    GAUGE("silent_ports", "Ports behind which nothing answers.", stats->silent);
    GAUGE("ports_without_lid", "End ports that get no LID.", stats->without_lid);
    GAUGE("credit_loop_links", "Length of a credit loop; 0 if there is none.", stats->credit_loop);
    GAUGE("lanes", "Virtual lanes that the routes use.", mcsm_sm_lanes(sm));
    GAUGE("left_out_routes", "Routes that the contract of the border ports forbids.",
          stats->left_out);
    GAUGE("sweep_seconds", "Duration of the last heavy sweep.", stats->sweep_ms / 1e3);
    GAUGE("routing_seconds", "Duration of the last computation of routes.", stats->route_ms / 1e3);
    COUNTER("heavy_sweeps", "Heavy sweeps.", stats->heavy_sweeps);
    COUNTER("light_sweeps", "Light sweeps.", stats->light_sweeps);
    COUNTER("lft_blocks_written", "Blocks of linear forwarding tables that were written.",
            stats->lft_blocks);
    COUNTER("mft_blocks_written", "Blocks of multicast forwarding tables that were written.",
            stats->mft_blocks);
    COUNTER("failed_sets", "Sets that were refused or not answered.", stats->failed_sets);
    COUNTER("link_traps", "Traps 128: a port changed its state.", stats->traps[0]);
    COUNTER("integrity_traps", "Traps 129 to 131: link errors.",
            stats->traps[1] + stats->traps[2] + stats->traps[3]);
    COUNTER("capability_traps", "Traps 144.", stats->traps[4]);
    COUNTER("m_key_traps", "Traps 256: a port refused an SMP with a wrong M_Key.", stats->traps[5]);
    COUNTER("foreign_traps", "Traps from outside of the cluster, ignored.", stats->foreign_traps);
}

void mcsm_metrics(const mcsm_daemon_t *daemon, FILE *out)
{
    const mcsm_mad_stats_t *mads = mcsm_mads_stats(daemon->smps);
    const mcsm_sa_counters_t *sa = mcsm_sa_stats(daemon->sa);

    manager(daemon, out);
    COUNTER("smps_sent", "SMPs sent, with retries.", mads->sent);
    COUNTER("smps_retried", "SMPs sent again.", mads->retried);
    COUNTER("smps_timed_out", "SMPs that were never answered.", mads->timed_out);
    COUNTER("sa_requests", "Requests to the subnet administration.", sa->requests);
    COUNTER("sa_refused", "Requests that were answered with an error.", sa->refused);
    COUNTER("sa_reports", "Reports to subscribers.", sa->reports);
    GAUGE("multicast_groups", "Multicast groups.", sa->groups);
    GAUGE("multicast_members", "Members of multicast groups.", sa->members);
    GAUGE("services", "Service records.", sa->services);
    GAUGE("subscriptions", "Subscriptions to notices.", sa->subscriptions);
    fputs("# EOF\n", out);
}

void mcsm_metrics_write(const mcsm_daemon_t *daemon)
{
    char temporary[256];
    FILE *out;

    if (daemon->config->metrics_file[0] == '\0') {
        return;
    }
    snprintf(temporary, sizeof(temporary), "%s.new", daemon->config->metrics_file);
    out = fopen(temporary, "we");
    if (out != NULL) {
        mcsm_metrics(daemon, out);
        if (fclose(out) == 0 && rename(temporary, daemon->config->metrics_file) == 0) {
            return;
        }
    }
    mcsm_warn("%s cannot be written: %s", daemon->config->metrics_file, strerror(errno));
}

#include "metrics.h"

#include "sm/vl_tables.h"

#include <errno.h>
#include <utlist.h>

static void metric(FILE *out, const struct mcsm_daemon *daemon, const char *name, const char *type,
                   const char *help, double value)
{
    fprintf(out, "# HELP mcsm_%s %s\n# TYPE mcsm_%s %s\nmcsm_%s%s{cluster=\"%s\"} %.17g\n", name,
            help, name, type, name, type[0] == 'c' ? "_total" : "", daemon->config->name, value);
}

#define COUNTER(name, help, value) metric(out, daemon, name, "counter", help, value)
#define GAUGE(name, help, value)   metric(out, daemon, name, "gauge", help, value)

static void manager(const struct mcsm_daemon *daemon, FILE *out)
{
    const struct mcsm_sm *sm = daemon->sm;
    const struct mcsm_sm_stats *stats = &sm->stats;
    const struct mcsm_rival *rival;
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
    GAUGE("vl_tables_differ", "Ports with other SL2VL or VLArb tables than were written.",
          mcsm_vl_differing(sm->fabric));
    GAUGE("left_out_routes", "Routes that the contract of the border ports forbids.",
          stats->left_out);
    GAUGE("closed_joints", "Joints by which the contract lets no packets of groups leave.",
          stats->closed_joints);
    GAUGE("contract_excess", "Pairs of border ports beyond the contract.", stats->excess);
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

/* One sample of a port. */
static void sample(FILE *out, const struct mcsm_daemon *daemon, const struct mcsm_link_end *end,
                   const char *name, const char *more, uint64_t value)
{
    fprintf(out, "mcsm_port_%s_total{cluster=\"%s\",guid=\"0x%016lx\",port=\"%u\"%s} %lu\n", name,
            daemon->config->name, end->guid, end->port, more, value);
}

static void traffic(const struct mcsm_daemon *daemon, FILE *out, const char *name, const char *help,
                    int counter, unsigned factor)
{
    struct mcsm_link *link, *next;

    fprintf(out, "# HELP mcsm_port_%s %s\n# TYPE mcsm_port_%s counter\n", name, help, name);
    HASH_ITER(hh, mcsm_health_links(daemon->health), link, next) {
        for (int i = 0; i < 2; i++) {
            const struct mcsm_link_end *end = &link->ends[i];

            if (end->counters.seen) {
                sample(out, daemon, end, name, "", end->counters.total[counter] * factor);
            }
        }
    }
}

static void errors(const struct mcsm_daemon *daemon, FILE *out)
{
    struct mcsm_link *link, *next;
    char more[64];

    fputs("# HELP mcsm_port_errors Error counters that are not 0.\n"
          "# TYPE mcsm_port_errors counter\n",
          out);
    HASH_ITER(hh, mcsm_health_links(daemon->health), link, next) {
        for (int i = 0; i < 2 * MCSM_COUNTER_XMIT_DATA; i++) {
            const struct mcsm_link_end *end = &link->ends[i / MCSM_COUNTER_XMIT_DATA];
            int counter = i % MCSM_COUNTER_XMIT_DATA;

            if (end->counters.total[counter] != 0) {
                snprintf(more, sizeof(more), ",counter=\"%s\"", mcsm_counter_name(counter));
                sample(out, daemon, end, "errors", more, end->counters.total[counter]);
            }
        }
    }
}

static void by_port(const struct mcsm_daemon *daemon, FILE *out)
{
    struct mcsm_link *link, *next;

    traffic(daemon, out, "xmit_bytes", "Sent bytes.", MCSM_COUNTER_XMIT_DATA, 4);
    traffic(daemon, out, "rcv_bytes", "Received bytes.", MCSM_COUNTER_RCV_DATA, 4);
    traffic(daemon, out, "xmit_packets", "Sent packets.", MCSM_COUNTER_XMIT_PACKETS, 1);
    traffic(daemon, out, "rcv_packets", "Received packets.", MCSM_COUNTER_RCV_PACKETS, 1);
    errors(daemon, out);
    fputs("# HELP mcsm_port_flaps How often the link went down, by its lower end.\n"
          "# TYPE mcsm_port_flaps counter\n",
          out);
    HASH_ITER(hh, mcsm_health_links(daemon->health), link, next) {
        sample(out, daemon, &link->ends[0], "flaps", "", link->total_flaps);
    }
    fputs("# HELP mcsm_port_held 1 if no route uses the link, by its lower end.\n"
          "# TYPE mcsm_port_held gauge\n",
          out);
    HASH_ITER(hh, mcsm_health_links(daemon->health), link, next) {
        fprintf(out, "mcsm_port_held{cluster=\"%s\",guid=\"0x%016lx\",port=\"%u\"} %d\n",
                daemon->config->name, link->ends[0].guid, link->ends[0].port,
                link->held_until != 0);
    }
}

void mcsm_metrics(const struct mcsm_daemon *daemon, FILE *out)
{
    const struct mcsm_mad_stats *mads = mcsm_mads_stats(daemon->smps);
    const struct mcsm_sa_counters *sa = mcsm_sa_stats(daemon->sa);

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
    GAUGE("standbys", "Standby managers that have all registrations.",
          mcsm_standbys_live(daemon->standbys));
    GAUGE("held_links", "Links that health has taken out of routing.",
          mcsm_health_held(daemon->health));
    COUNTER("counter_polls", "Polls of the counters of all ports.",
            mcsm_health_polls(daemon->health));
    by_port(daemon, out);
    fputs("# EOF\n", out);
}

void mcsm_metrics_write(const struct mcsm_daemon *daemon)
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

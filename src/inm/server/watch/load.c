/* The load of links; see load.h. */
#include "load.h"
#include "inm/server/act/access.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t nrc_ports(const struct inmd *d)
{
    return d->topo->num_nrc * INM_NRC_PORTS;
}

static bool to_nic(const struct inmd *d, uint32_t port)
{
    return d->topo->peer[port] != INM_NONE && d->topo->peer[port] >= nrc_ports(d);
}

/* ---- jobs ------------------------------------------------------------------------------------ */

/* HOST or HOST-HOST. */
static bool add_range(const struct inmd *d, char *text, struct inm_job *job)
{
    char *dash = strchr(text, '-');
    uint32_t first, last, chip;

    if (dash != NULL) {
        *dash++ = '\0';
    }
    first = inm_chip_parse(d->topo, text);
    last = dash != NULL ? inm_chip_parse(d->topo, dash) : first;
    if (first == INM_NONE || last == INM_NONE || first < d->topo->num_nrc || last < first) {
        return false;
    }
    for (chip = first; chip <= last; chip++) {
        job->num += !job->member[chip - d->topo->num_nrc];
        job->member[chip - d->topo->num_nrc] = 1;
    }
    return true;
}

static bool parse_job(const struct inmd *d, struct inm_job *job, char *error, size_t size)
{
    char text[sizeof(job->hosts)], *range, *rest = NULL;

    job->member = calloc(d->topo->num_nic, 1);
    if (job->member == NULL) {
        snprintf(error, size, "no memory");
        return false;
    }
    snprintf(text, sizeof(text), "%s", job->hosts);
    for (range = strtok_r(text, ",", &rest); range != NULL; range = strtok_r(NULL, ",", &rest)) {
        if (!add_range(d, range, job)) {
            snprintf(error, size,
                     "\"%.60s\" is no host and no range of hosts, such as "
                     "r0f0h0-r0f0h31",
                     range);
            free(job->member);
            return false;
        }
    }
    return true;
}

static void store_jobs(const struct inmd *d)
{
    char *text = NULL;
    size_t len, i;
    FILE *out = open_memstream(&text, &len);

    if (out == NULL) {
        inm_log(LOG_ERR, "no memory: the jobs are not kept");
        return;
    }
    for (i = 0; i < d->load->num_jobs; i++) {
        fprintf(out, "%s %s\n", d->load->jobs[i].name, d->load->jobs[i].hosts);
    }
    fclose(out);
    history_setting(d->history, "jobs", text);
    free(text);
}

static void remove_job(struct load *l, uint32_t i)
{
    free(l->jobs[i].member);
    memmove(&l->jobs[i], &l->jobs[i + 1], (--l->num_jobs - i) * sizeof(l->jobs[0]));
}

static uint32_t find_job(const struct load *l, const char *name)
{
    uint32_t i;

    for (i = 0; i < l->num_jobs && strcmp(l->jobs[i].name, name) != 0; i++) {
    }
    return i;
}

bool load_set_job(struct inmd *d, const char *name, const char *hosts, char *error, size_t size)
{
    struct inm_job job = {.num = 0};
    uint32_t i;
    bool ok;

    if (name[strcspn(name, " \n")] != '\0' || hosts[strcspn(hosts, " \n")] != '\0') {
        snprintf(error, size, "names and hosts have no spaces");
        return false;
    }
    snprintf(job.name, sizeof(job.name), "%s", name);
    snprintf(job.hosts, sizeof(job.hosts), "%s", hosts);
    if (!parse_job(d, &job, error, size)) {
        return false;
    }
    pthread_mutex_lock(&d->lock);
    i = find_job(d->load, name);
    if (i < d->load->num_jobs) {
        remove_job(d->load, i);
    }
    ok = d->load->num_jobs < MAX_JOBS;
    if (ok) {
        d->load->jobs[d->load->num_jobs++] = job;
        store_jobs(d);
    } else {
        snprintf(error, size, "%d jobs are the most", MAX_JOBS);
        free(job.member);
    }
    pthread_mutex_unlock(&d->lock);
    return ok;
}

bool load_delete_job(struct inmd *d, const char *name)
{
    uint32_t i;
    bool found;

    pthread_mutex_lock(&d->lock);
    i = find_job(d->load, name);
    found = i < d->load->num_jobs;
    if (found) {
        remove_job(d->load, i);
        store_jobs(d);
    }
    pthread_mutex_unlock(&d->lock);
    return found;
}

static void restore_jobs(struct inmd *d)
{
    char *text = malloc(65536), *line, *rest = NULL, *hosts, error[200];

    if (text != NULL && history_get_setting(d->history, "jobs", text, 65536)) {
        for (line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
            hosts = strchr(line, ' ');
            if (hosts != NULL) {
                *hosts++ = '\0';
                if (!load_set_job(d, line, hosts, error, sizeof(error))) {
                    inm_log(LOG_WARNING, "job %s: %s", line, error);
                }
            }
        }
    }
    free(text);
}

/* ---- counters -------------------------------------------------------------------------------- */

bool load_init(struct inmd *d)
{
    struct load *l = d->load = calloc(1, sizeof(*l));
    uint32_t n = nrc_ports(d), i;

    if (l == NULL) {
        return false;
    }
    l->flits = calloc(n, sizeof(*l->flits));
    l->second = calloc(n, sizeof(*l->second));
    l->use = malloc(n * sizeof(*l->use));
    l->wait = malloc(n * sizeof(*l->wait));
    l->in = malloc(n * sizeof(*l->in));
    if (!l->flits || !l->second || !l->use || !l->wait || !l->in) {
        return false;
    }
    for (i = 0; i < n; i++) {
        l->use[i] = l->wait[i] = l->in[i] = -1;
    }
    restore_jobs(d);
    return true;
}

void load_free(struct inmd *d)
{
    struct load *l = d->load;

    if (l == NULL) {
        return;
    }
    while (l->num_jobs > 0) {
        remove_job(l, l->num_jobs - 1);
    }
    free(l->flits);
    free(l->second);
    free(l->use);
    free(l->wait);
    free(l->in);
    free(l);
}

static float limited(double value)
{
    return (float)(value < 0 ? 0 : value > 1 ? 1 : value);
}

/* One port's two counters since the last poll. */
static void take_port(struct inmd *d, uint32_t port, const struct net_req *req, double seconds)
{
    struct load *l = d->load;
    double lanes = d->status.lanes[port] != 0 ? d->status.lanes[port] : 8;
    double flits = (double)(req->reg[0] - l->flits[port]);
    double second = (double)(req->reg[1] - l->second[port]);
    bool nic = to_nic(d, port), known = seconds > 0 && req->outcome == NET_OK;

    if (known && req->reg[0] >= l->flits[port] && req->reg[1] >= l->second[port]) {
        l->use[port] = limited(flits / seconds / (lanes * LANE_FLITS));
        l->wait[port] = nic || flits + second <= 0 ? 0 : limited(second / (flits + second));
        l->in[port] = nic ? limited(second / seconds / (lanes * LANE_FLITS)) : -1;
    } else {
        l->use[port] = l->wait[port] = l->in[port] = -1; /* also after a reset of the chip */
    }
    if (req->outcome == NET_OK) {
        l->flits[port] = req->reg[0];
        l->second[port] = req->reg[1];
    }
}

/* The modelled network has a clock of its own. */
static double network_time(struct inmd *d)
{
    uint64_t modelled = net_time(d->net);

    return modelled != 0 ? (double)modelled * 1e-9 : now_seconds();
}

static void list_ports(struct inmd *d, struct many *m, uint32_t *ports)
{
    uint32_t chip, i;

    for (chip = 0; chip < d->topo->num_nrc; chip++) {
        if (!reachable(d, chip) ||
            !in_region(d, chip, d->config.first_cabinet, d->config.last_cabinet)) {
            continue;
        }
        for (i = 0; i < INM_NRC_PORTS; i++) {
            uint32_t port = inm_topo_port(d->topo, chip, i);
            struct net_req *req;

            if (d->found.peer[port] == INM_NONE) {
                d->load->use[port] = d->load->wait[port] = d->load->in[port] = -1;
                continue;
            }
            ports[m->num] = port;
            req = many_add(d, m, chip, GLEX_MGMT_REG_READ_REQ);
            req->count = 2;
            req->addr[0] = (uint16_t)(REG_PORT(i) + PORT_TX_FLITS);
            req->addr[1] =
                (uint16_t)(REG_PORT(i) + (to_nic(d, port) ? PORT_RX_FLITS : PORT_TX_WAITS));
        }
    }
}

uint32_t load_poll(struct inmd *d)
{
    uint32_t *ports = malloc(nrc_ports(d) * sizeof(*ports)), failed, i;
    struct many m;
    double now, seconds;

    if (ports == NULL || !many_init(d, &m, INM_NRC_PORTS)) {
        free(ports);
        return 0;
    }
    pthread_mutex_lock(&d->lock);
    list_ports(d, &m, ports);
    pthread_mutex_unlock(&d->lock);
    now = network_time(d);
    failed = net_run(d->net, m.reqs, m.num);
    pthread_mutex_lock(&d->lock);
    seconds = d->load->counted > 0 ? now - d->load->counted : 0;
    for (i = 0; i < m.num; i++) {
        take_port(d, ports[i], &m.reqs[i], seconds);
    }
    d->load->counted = now;
    d->load->seconds = seconds;
    d->load->when = now_seconds();
    inmd_touch(d);
    pthread_mutex_unlock(&d->lock);
    many_free(&m);
    free(ports);
    return failed;
}

/* ---- sums ------------------------------------------------------------------------------------ */

static void add_link(struct load_sum *sum, double use, double wait)
{
    if (use >= 0) {
        sum->links++;
        sum->mean += use;
        sum->most = use > sum->most ? use : sum->most;
        sum->wait = wait > sum->wait ? wait : sum->wait;
    }
}

void load_of_level(const struct inmd *d, unsigned level, bool up, struct load_sum *sum)
{
    uint32_t port, peer;

    memset(sum, 0, sizeof(*sum));
    for (port = 0; port < nrc_ports(d); port++) {
        peer = d->topo->peer[port];
        if (peer == INM_NONE || d->topo->chips[port / INM_NRC_PORTS].level != level) {
            continue;
        }
        if ((d->topo->chips[inm_topo_port_chip(d->topo, peer)].level > level) == up) {
            add_link(sum, d->load->use[port], d->load->wait[port]);
        }
    }
    sum->mean /= sum->links != 0 ? sum->links : 1;
}

void load_of_job(const struct inmd *d, const struct inm_job *job, struct load_sum *sum)
{
    uint32_t nic, port;

    memset(sum, 0, sizeof(*sum));
    for (nic = 0; nic < d->topo->num_nic; nic++) {
        port = job->member[nic] ? d->found.peer[inm_topo_port(d->topo, d->topo->num_nrc + nic, 0)] :
                                  INM_NONE;
        if (port < nrc_ports(d)) {
            add_link(sum, d->load->use[port], 0);
            add_link(sum, d->load->in[port], 0);
        }
    }
    sum->mean /= sum->links != 0 ? sum->links : 1;
}

uint32_t load_top(const struct inmd *d, uint32_t *ports, uint32_t max)
{
    const float *use = d->load->use;
    uint32_t port, num = 0, i;

    for (port = 0; port < nrc_ports(d); port++) {
        if (use[port] <= 0 || (num == max && use[port] <= use[ports[num - 1]])) {
            continue;
        }
        num += num < max;
        for (i = num - 1; i > 0 && use[ports[i - 1]] < use[port]; i--) {
            ports[i] = ports[i - 1];
        }
        ports[i] = port;
    }
    return num;
}

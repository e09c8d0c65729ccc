/* Data traffic; see traffic.h. */
#include "traffic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_STEPS 40 /* routers on a path; longer paths go in a circle, and their traffic is lost */

enum pattern { OFF, UNIFORM, NEIGHBOUR, JOB, HOTSPOT };

struct traffic {
    struct fabric *fab;
    enum pattern pattern;
    double rate;          /* flits a second of each host */
    uint32_t first, last; /* NICs of JOB; the target of HOTSPOT */
    uint64_t settled_ms;
    uint64_t seen;       /* fab->changes of the last computation */
    double *load;        /* by port: flits a second that want to leave there */
    double *here, *next; /* by NRC: traffic to the present destination */
    uint32_t *hosts;     /* by NRC: NICs that send */
};

struct traffic *traffic_new(struct fabric *fab)
{
    struct traffic *t = calloc(1, sizeof(*t));
    uint32_t n = fab->topo->num_nrc;

    if (t == NULL) {
        return NULL;
    }
    t->fab = fab;
    t->load = calloc(inm_topo_ports(fab->topo), sizeof(*t->load));
    t->here = calloc(n, sizeof(*t->here));
    t->next = calloc(n, sizeof(*t->next));
    t->hosts = calloc(n, sizeof(*t->hosts));
    if (!t->load || !t->here || !t->next || !t->hosts) {
        traffic_free(t);
        return NULL;
    }
    return t;
}

void traffic_free(struct traffic *t)
{
    if (t != NULL) {
        free(t->load);
        free(t->here);
        free(t->next);
        free(t->hosts);
        free(t);
    }
}

/* ---- patterns -------------------------------------------------------------------------------- */

static bool parse_hosts(struct traffic *t, char *text)
{
    const struct inm_topo *topo = t->fab->topo;
    char *dash = strchr(text, '-');
    uint32_t first, last;

    if (dash != NULL) {
        *dash++ = '\0';
    }
    first = inm_chip_parse(topo, text);
    last = dash != NULL ? inm_chip_parse(topo, dash) : first;
    if (first == INM_NONE || last == INM_NONE || first < topo->num_nrc || last < first) {
        return false;
    }
    t->first = first - topo->num_nrc;
    t->last = last - topo->num_nrc;
    return true;
}

bool traffic_set(struct traffic *t, const char *spec, char *error, size_t size)
{
    static const char *const names[] = {"off", "uniform", "neighbour", "job", "hotspot"};
    char text[100], *rate, *hosts, *end;
    struct traffic new = *t;
    double percent = 50;
    int i;

    snprintf(text, sizeof(text), "%s", spec);
    rate = strstr(text, ",rate=");
    if (rate != NULL) {
        *rate = '\0';
        percent = strtod(rate + 6, &end);
        if (end == rate + 6 || *end != '\0' || !(percent >= 0 && percent <= 100)) {
            snprintf(error, size, "traffic: rate is 0 to 100 percent of a link");
            return false;
        }
    }
    hosts = strchr(text, ':');
    if (hosts != NULL) {
        *hosts++ = '\0';
    }
    for (i = OFF; i <= HOTSPOT && strcmp(text, names[i]) != 0; i++) {
    }
    if (i > HOTSPOT || (hosts != NULL) != (i >= JOB) ||
        (hosts != NULL && !parse_hosts(&new, hosts))) {
        snprintf(error, size,
                 "traffic: uniform, neighbour, job:HOST-HOST, hotspot:HOST or off, "
                 "with ,rate=PERCENT behind");
        return false;
    }
    new.pattern = (enum pattern)i;
    new.rate = percent / 100 * 8 * LANE_FLITS;
    *t = new;
    t->fab->changes++;
    traffic_settle(t);
    return true;
}

/* ---- along the tables ------------------------------------------------------------------------ */

static bool up(const struct fabric *fab, uint32_t port)
{
    return fab->ports[port].up;
}

static uint32_t home(const struct fabric *fab, uint32_t nic)
{
    uint32_t port = inm_topo_port(fab->topo, fab->topo->num_nrc + nic, 0);

    return up(fab, port) ? fab->ports[port].peer : INM_NONE;
}

/* The entry of a NIC, and how many NICs after it have the same entry. */
static uint32_t entry(const struct inm_table *table, uint32_t nic, uint32_t *same)
{
    uint32_t low = 0, high = table->num, mid, left;

    while (low < high) {
        mid = (low + high) / 2;
        if ((uint32_t)table->runs[mid].first + table->runs[mid].num <= nic) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    if (low == table->num || table->runs[low].first > nic) {
        left = low == table->num ? UINT32_MAX : table->runs[low].first - nic;
        *same = left < *same ? left : *same;
        return 0;
    }
    left = (uint32_t)table->runs[low].first + table->runs[low].num - nic;
    *same = left < *same ? left : *same;
    return table->runs[low].ports;
}

/* Moves all traffic to a NIC from routers to their neighbours. @return Whether traffic is left. */
static bool step(struct traffic *t, uint32_t nic, uint32_t to, uint32_t *same, double *arrived)
{
    const struct fabric *fab = t->fab;
    uint32_t chip, ports, rest, port, peer;
    double part, *swap;
    bool left = false;

    memset(t->next, 0, fab->topo->num_nrc * sizeof(*t->next));
    for (chip = 0; chip < fab->topo->num_nrc; chip++) {
        if (t->here[chip] <= 0) {
            continue;
        }
        if (chip == to) {
            *arrived += t->here[chip];
            continue;
        }
        ports = entry(&fab->chips[chip].table, nic, same);
        for (rest = ports; rest != 0; rest &= rest - 1) {
            port = chip * INM_NRC_PORTS + (uint32_t)__builtin_ctz(rest);
            if (!up(fab, port)) {
                ports &= ~(rest & -rest); /* the router knows that this link is down */
            }
        }
        part = ports != 0 ? t->here[chip] / __builtin_popcount(ports) : 0;
        for (; ports != 0; ports &= ports - 1) {
            port = chip * INM_NRC_PORTS + (uint32_t)__builtin_ctz(ports);
            peer = fab->ports[port].peer;
            t->load[port] += part * *same;
            if (peer < fab->topo->num_nrc * INM_NRC_PORTS) {
                t->next[peer / INM_NRC_PORTS] += part;
                left = true;
            }
        }
    }
    swap = t->here;
    t->here = t->next;
    t->next = swap;
    return left;
}

/*
 * Sends the traffic in t->here to NICs from `nic` on which have the same entries everywhere, at most
 * `most`. A first pass without counting finds out how many these are.
 * @return How many NICs; *arrived is the traffic that reached the first one's router.
 */
static uint32_t send_all(struct traffic *t, uint32_t nic, uint32_t most, double *arrived)
{
    const struct fabric *fab = t->fab;
    uint32_t n = fab->topo->num_nrc, same = most, to = home(fab, nic), steps, chip;
    double *start = malloc(n * sizeof(*start));

    *arrived = 0;
    if (start == NULL || to == INM_NONE) {
        free(start);
        return 1;
    }
    to /= INM_NRC_PORTS;
    memcpy(start, t->here, n * sizeof(*start));
    if (most > 1) {
        for (chip = 0; chip < n; chip++) {
            if (chip != to) {
                entry(&fab->chips[chip].table, nic, &same);
            }
        }
    }
    for (steps = 0; steps < MAX_STEPS && step(t, nic, to, &same, arrived); steps++) {
    }
    memcpy(t->here, start, n * sizeof(*start));
    free(start);
    return same;
}

/* A host to which its own router has no entry is out of use: it does not send. */
static bool in_use(const struct traffic *t, uint32_t nic)
{
    uint32_t port = home(t->fab, nic);

    return port != INM_NONE && inm_table_get(&t->fab->chips[port / INM_NRC_PORTS].table, nic) != 0;
}

static void count_hosts(struct traffic *t, uint32_t first, uint32_t last)
{
    uint32_t nic, port;

    memset(t->hosts, 0, t->fab->topo->num_nrc * sizeof(*t->hosts));
    for (nic = first; nic <= last; nic++) {
        port = home(t->fab, nic);
        if (in_use(t, nic)) {
            t->hosts[port / INM_NRC_PORTS]++;
        }
    }
}

/* NICs from `nic` on that are at the same router. */
static uint32_t block(const struct traffic *t, uint32_t nic, uint32_t last)
{
    uint32_t num = 1, port = home(t->fab, nic);

    while (port != INM_NONE && nic + num <= last && home(t->fab, nic + num) != INM_NONE &&
           home(t->fab, nic + num) / INM_NRC_PORTS == port / INM_NRC_PORTS) {
        num++;
    }
    return num;
}

/* The traffic `each` of each host to one NIC; hosts at the NIC's own router do not use links. */
static void fill_here(struct traffic *t, double each)
{
    uint32_t chip;

    for (chip = 0; chip < t->fab->topo->num_nrc; chip++) {
        t->here[chip] = t->hosts[chip] * each;
    }
}

/* All-to-all of a range of hosts. */
static void all_to_all(struct traffic *t, uint32_t first, uint32_t last, double rate)
{
    uint32_t nic, num, i, port, hosts = last - first;
    double arrived;

    count_hosts(t, first, last);
    for (nic = first; nic <= last && hosts > 0; nic += num) {
        fill_here(t, rate / hosts);
        num = send_all(t, nic, block(t, nic, last), &arrived);
        for (i = nic; i < nic + num; i++) {
            port = home(t->fab, i);
            if (in_use(t, i)) {
                t->load[port] += arrived - rate / hosts; /* without the host's own share */
                t->load[inm_topo_port(t->fab->topo, t->fab->topo->num_nrc + i, 0)] += rate;
            }
        }
    }
}

static void one_to_one(struct traffic *t, uint32_t from, uint32_t to, double rate)
{
    uint32_t port = home(t->fab, from), target = home(t->fab, to);
    double arrived;

    if (!in_use(t, from) || from == to) {
        return;
    }
    memset(t->here, 0, t->fab->topo->num_nrc * sizeof(*t->here));
    t->here[port / INM_NRC_PORTS] = rate;
    send_all(t, to, 1, &arrived);
    t->load[inm_topo_port(t->fab->topo, t->fab->topo->num_nrc + from, 0)] += rate;
    if (target != INM_NONE) {
        t->load[target] += arrived;
    }
}

static void compute(struct traffic *t)
{
    uint32_t n = t->fab->topo->num_nic, i;

    memset(t->load, 0, inm_topo_ports(t->fab->topo) * sizeof(*t->load));
    switch (t->pattern) {
    case UNIFORM:
        all_to_all(t, 0, n - 1, t->rate);
        break;
    case JOB:
        all_to_all(t, t->first, t->last, t->rate);
        break;
    case NEIGHBOUR:
        for (i = 0; i < n; i++) {
            one_to_one(t, i, (i + 1) % n, t->rate);
        }
        break;
    case HOTSPOT:
        for (i = 0; i < n; i++) {
            one_to_one(t, i, t->first, t->rate);
        }
        break;
    default:
        break;
    }
}

/* Ports that a job's table entries do not use keep a rate of 0. */
static void update_rates(struct traffic *t)
{
    struct fabric *fab = t->fab;
    double capacity, carried;
    uint32_t port;

    t->seen = fab->changes;
    compute(t);
    for (port = 0; port < inm_topo_ports(fab->topo); port++) {
        capacity = fab->ports[port].lanes * LANE_FLITS;
        carried = t->load[port] < capacity ? t->load[port] : capacity;
        fab->rates[port].flits = up(fab, port) ? carried : 0;
        fab->rates[port].waits = up(fab, port) ? t->load[port] - carried : 0;
    }
}

/* Counters move in steps of a millisecond: one settlement serves all reads of a poll. */
void traffic_settle(struct traffic *t)
{
    struct timespec time;
    uint64_t now;

    clock_gettime(CLOCK_MONOTONIC, &time);
    now = (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_nsec / 1000000;
    if (t->seen != t->fab->changes) {
        fab_settle_flits(t->fab);
        update_rates(t);
    } else if (t->pattern != OFF && (t->settled_ms != now || t->fab->modelled)) {
        fab_settle_flits(t->fab);
    }
    t->settled_ms = now;
}

bool traffic_paths(struct traffic *t, struct traffic_paths *paths)
{
    const struct inm_topo *topo = t->fab->topo;
    uint32_t nic, num, i, port, all = topo->num_nic - 1;
    double arrived;

    *paths = (struct traffic_paths){.worst_port = INM_NONE};
    memset(t->load, 0, inm_topo_ports(topo) * sizeof(*t->load));
    count_hosts(t, 0, all);
    for (i = 0; i < topo->num_nrc; i++) {
        paths->hosts += t->hosts[i];
    }
    for (nic = 0; nic <= all; nic += num) {
        fill_here(t, 1);
        num = send_all(t, nic, block(t, nic, all), &arrived);
        for (i = nic; i < nic + num; i++) {
            paths->hosts_unreached += arrived * 2 <= paths->hosts || !in_use(t, i);
        }
    }
    for (port = 0; port < topo->num_nrc * INM_NRC_PORTS; port++) {
        if (t->load[port] > paths->worst &&
            t->fab->ports[port].peer < topo->num_nrc * INM_NRC_PORTS) {
            paths->worst = t->load[port];
            paths->worst_port = port;
        }
    }
    t->fab->changes++; /* t->load is that of the pattern no more */
    return true;
}

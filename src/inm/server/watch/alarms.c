/*
 * From reports and polls to alarms.
 *
 * Reports, polls and discovery write down conditions: this port has no link, that chip is hot.
 * Alarms are a function of all conditions together, computed anew when one changed. A part is a
 * cabinet, a switch or a chip. If all links out of a part are down, the part is dead, and one
 * alarm replaces the alarms of its links. The largest dead part counts.
 */
#include "alarms.h"
#include "status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RETRY_SECONDS 15.0 /* without a report for so long, the retries are over */
#define MAX_OF_A_KIND 64   /* more alarms of one cause become one */

/* ---- alarms ---------------------------------------------------------------------------------- */

struct fold {
    uint32_t *total, *down; /* links that lead out, by part */
};

struct list {
    struct inm_alarm *alarms;
    uint32_t num, room;
    uint32_t of_cause[CAUSE_MAX];
};

static uint64_t alarm_key(unsigned cause, uint32_t object)
{
    return (uint64_t)cause << 40 | object;
}

/* Without memory the alarm is left out; the next update tries again. */
static void add(struct list *l, unsigned cause, uint32_t object, uint32_t chip, uint32_t port,
                uint32_t other)
{
    struct inm_alarm *more;

    if (l->num == l->room) {
        more = realloc(l->alarms, (l->room * 2 + 64) * sizeof(*more));
        if (more == NULL) {
            return;
        }
        l->alarms = more;
        l->room = l->room * 2 + 64;
    }
    l->alarms[l->num++] = (struct inm_alarm){.key = alarm_key(cause, object),
                                             .cause = (uint8_t)cause,
                                             .severity = (uint8_t)alarm_severity(cause),
                                             .chip = chip,
                                             .port = port,
                                             .other = other,
                                             .folded = 1};
    l->of_cause[cause]++;
}

static bool link_down(const struct inmd *d, uint32_t port)
{
    return d->status.down[port] || d->status.down[d->topo->peer[port]];
}

static bool flapping(const struct inmd *d, uint32_t port, double now)
{
    return d->status.flaps[port] >= FLAP_DOWNS && now - d->status.flap_time[port] <= FLAP_SECONDS;
}

/* Parts are numbered: chips, then switches, then cabinets. */
static uint32_t part_of(const struct inmd *d, uint32_t chip, unsigned kind)
{
    uint32_t chips = inm_topo_chips(d->topo);

    return kind == 0 ? chip :
           kind == 1 ? chips + d->topo->chips[chip].board :
                       chips + d->topo->num_boards + inm_chip_cabinet(d->topo, chip);
}

static bool count_parts(const struct inmd *d, struct fold *f)
{
    uint32_t chips = inm_topo_chips(d->topo), kind, port, a, b;
    uint32_t parts = chips + d->topo->num_boards + inm_topo_cabinets(d->topo);

    f->total = calloc(parts, sizeof(*f->total));
    f->down = calloc(parts, sizeof(*f->down));
    if (f->total == NULL || f->down == NULL) {
        return false;
    }
    for (port = 0; port < inm_topo_ports(d->topo); port++) {
        if (d->topo->peer[port] == INM_NONE || port > d->topo->peer[port] || d->cut[port]) {
            continue; /* a link in maintenance is down on purpose */
        }
        a = inm_topo_port_chip(d->topo, port);
        b = inm_topo_port_chip(d->topo, d->topo->peer[port]);
        /* Hosts cannot tell that their only link is down: they do not count for a chip. */
        for (kind = b >= d->topo->num_nrc || a >= d->topo->num_nrc; kind < 3; kind++) {
            uint32_t x = part_of(d, a, kind), y = part_of(d, b, kind);

            if (x != y) {
                f->total[x]++;
                f->total[y]++;
                if (link_down(d, port)) {
                    f->down[x]++;
                    f->down[y]++;
                }
            }
        }
    }
    return true;
}

/* The largest dead part that a chip belongs to: its kind, or -1. */
static int dead_part(const struct inmd *d, const struct fold *f, uint32_t chip)
{
    int kind;

    for (kind = 2; kind >= 0; kind--) {
        uint32_t part = part_of(d, chip, (unsigned)kind);

        if (f->total[part] >= 2 && f->down[part] == f->total[part]) {
            return kind;
        }
    }
    return -1;
}

static void link_alarm(const struct inmd *d, const struct fold *f, struct list *l, uint32_t port)
{
    uint32_t peer = d->topo->peer[port], chip = inm_topo_port_chip(d->topo, port);
    uint32_t other = inm_topo_port_chip(d->topo, peer);
    int kind = dead_part(d, f, chip), kind_other = dead_part(d, f, other);
    unsigned cause;

    if (kind < 0 && kind_other < 0) {
        add(l, CAUSE_LINK_DOWN, port, chip, port, peer);
        return;
    }
    if (kind_other > kind) {
        chip = other;
        kind = kind_other;
    }
    cause = kind == 2 ? CAUSE_CABINET_DEAD : kind == 1 ? CAUSE_SWITCH_DEAD : CAUSE_CHIP_DEAD;
    if (kind == 2 && d->topo->tree.racks == 0) {
        cause = CAUSE_CHIP_DEAD; /* the topology knows no cabinets */
    }
    add(l, cause, part_of(d, chip, (unsigned)kind), chip, INM_NONE, INM_NONE);
}

static void link_alarms(struct inmd *d, const struct fold *f, struct list *l, double now)
{
    uint32_t port, peer;

    for (port = 0; port < inm_topo_ports(d->topo); port++) {
        peer = d->topo->peer[port];
        if (peer == INM_NONE || port > peer || d->cut[port]) {
            continue;
        }
        if (flapping(d, port, now) || flapping(d, peer, now)) {
            add(l, CAUSE_FLAPPING, port, inm_topo_port_chip(d->topo, port), port, peer);
        } else if (link_down(d, port)) {
            link_alarm(d, f, l, port);
        }
    }
}

/* Two fibres exchanged: four ports see a wrong peer, and two exchanges would mend it. */
static void wiring_alarm(const struct inmd *d, struct list *l, uint32_t port)
{
    uint32_t found = d->found.peer[port], should = d->topo->peer[port], second, first;

    if (found == INM_NONE || found == should) {
        return;
    }
    second = d->topo->peer[found]; /* the port that should have our place */
    if (should != INM_NONE && second != INM_NONE && d->found.peer[second] == should) {
        first = port;
        first = second < first ? second : first;
        first = found < first ? found : first;
        first = should < first ? should : first;
        if (first == port) {
            add(l, CAUSE_SWAPPED, port, inm_topo_port_chip(d->topo, port), port, second);
        }
    } else if (port < found) {
        add(l, CAUSE_MISWIRED, port, inm_topo_port_chip(d->topo, port), port, found);
    }
}

static void port_alarms(struct inmd *d, struct list *l, double now)
{
    uint32_t port;

    for (port = 0; port < inm_topo_ports(d->topo); port++) {
        uint32_t chip = inm_topo_port_chip(d->topo, port);

        wiring_alarm(d, l, port);
        if (d->status.retry_time[port] != 0 && now - d->status.retry_time[port] < RETRY_SECONDS) {
            add(l, CAUSE_RETRIES, port, chip, port, d->topo->peer[port]);
        }
        if (d->status.lanes[port] != 0 && d->status.lanes[port] < 8) {
            add(l, CAUSE_NARROW, port, chip, port, d->topo->peer[port]);
        }
        if (d->status.bist_errors[port] != 0) {
            add(l, CAUSE_BIST, port, chip, port, d->topo->peer[port]);
        }
    }
}

static void chip_alarms(struct inmd *d, const struct fold *f, struct list *l)
{
    uint32_t chip;

    for (chip = 0; chip < inm_topo_chips(d->topo); chip++) {
        if (d->status.hot[chip]) {
            add(l, CAUSE_HOT, chip, chip, INM_NONE, INM_NONE);
        }
        if (d->status.mute[chip] && dead_part(d, f, chip) < 0) {
            add(l, CAUSE_NO_ANSWER, chip, chip, INM_NONE, INM_NONE);
        }
    }
    if (d->found.num_unknown != 0) {
        add(l, CAUSE_UNKNOWN_CHIP, 0, INM_NONE, INM_NONE, INM_NONE);
    }
}

static void server_alarms(struct inmd *d, struct list *l)
{
    uint32_t i;

    for (i = 0; i < d->config.num_peers; i++) {
        if (!d->peers[i].alive && d->peers[i].since != 0) {
            add(l, CAUSE_SERVER_DEAD, i, INM_NONE, INM_NONE, i);
        }
    }
}

/* A state of the whole network, in which the rest of it is unknown. */
static void network_alarm(struct inmd *d, struct list *l)
{
    enum inm_network network = net_alive(d->net) ? d->network : NETWORK_GONE;

    if (network != NETWORK_OK) {
        add(l,
            network == NETWORK_GONE    ? CAUSE_NETWORK_GONE :
            network == NETWORK_NO_LINK ? CAUSE_NO_LINK :
                                         CAUSE_WRONG_TOPOLOGY,
            0, INM_NONE, INM_NONE, INM_NONE);
    }
}

static bool about_servers(unsigned cause)
{
    return cause == CAUSE_SERVER_DEAD || cause == CAUSE_NETWORK_GONE || cause == CAUSE_NO_LINK ||
           cause == CAUSE_WRONG_TOPOLOGY;
}

/* Without a network nothing new is known: alarms of its parts stay as they are. */
static void keep_alarms(const struct inmd *d, struct list *l)
{
    uint32_t i;

    for (i = 0; i < d->num_alarms; i++) {
        const struct inm_alarm *a = &d->alarms[i];

        if (!about_servers(a->cause)) {
            add(l, a->cause, (uint32_t)a->key, a->chip, a->port, a->other);
            l->alarms[l->num - 1].folded = a->folded;
        }
    }
}

static int by_key(const void *a, const void *b)
{
    uint64_t x = ((const struct inm_alarm *)a)->key, y = ((const struct inm_alarm *)b)->key;

    return x < y ? -1 : x > y;
}

/* Order the list, join what has the same key, and make one of too many of a cause. */
static void tidy(struct list *l)
{
    uint32_t i, n = 0;

    for (i = 0; i < l->num; i++) {
        struct inm_alarm *a = &l->alarms[i];

        if ((a->cause == CAUSE_RETRIES || a->cause == CAUSE_HOT || a->cause == CAUSE_NARROW ||
             a->cause == CAUSE_MISWIRED) &&
            l->of_cause[a->cause] > MAX_OF_A_KIND) {
            a->key = alarm_key(a->cause, 0xffffffffu);
            a->chip = a->port = a->other = INM_NONE;
        }
    }
    if (l->num > 0) {
        qsort(l->alarms, l->num, sizeof(*l->alarms), by_key);
    }
    for (i = 0; i < l->num; i++) {
        if (n > 0 && l->alarms[n - 1].key == l->alarms[i].key) {
            l->alarms[n - 1].folded++;
        } else {
            l->alarms[n++] = l->alarms[i];
        }
    }
    l->num = n;
}

static void raise_alarm(struct inmd *d, struct inm_alarm *a, double now)
{
    char place[160], text[256];

    a->raised = now;
    alarm_text(d, a, place, sizeof(place), text, sizeof(text));
    a->id = history_alarm_raised(d->history, a, place, text);
    history_log(d->history,
                &(struct log_entry){
                    .kind = "raised", .severity = a->severity, .place = place, .text = text});
    inm_log(a->severity >= SEVERITY_MAJOR ? LOG_WARNING : LOG_NOTICE, "alarm %s at %s: %s",
            alarm_cause(a->cause), place, text);
}

static void clear_alarm(struct inmd *d, const struct inm_alarm *a, double now)
{
    char place[160], text[256];

    alarm_text(d, a, place, sizeof(place), text, sizeof(text));
    history_alarm_cleared(d->history, a->id, now);
    history_log(d->history,
                &(struct log_entry){
                    .kind = "cleared", .severity = a->severity, .place = place, .text = text});
    inm_log(LOG_NOTICE, "cleared %s at %s", alarm_cause(a->cause), place);
}

void alarms_update(struct inmd *d)
{
    double now = now_seconds();
    struct fold f = {0};
    struct list l = {0};
    uint32_t i = 0, k = 0;
    bool changed = false;

    d->dirty = false;
    if (!count_parts(d, &f)) {
        free(f.total);
        free(f.down);
        return; /* no memory: the alarms stay as they are */
    }
    network_alarm(d, &l);
    if (l.num == 0) {
        link_alarms(d, &f, &l, now);
        port_alarms(d, &l, now);
        chip_alarms(d, &f, &l);
    } else {
        keep_alarms(d, &l);
    }
    server_alarms(d, &l);
    free(f.total);
    free(f.down);
    tidy(&l);
    while (i < d->num_alarms || k < l.num) {
        if (k == l.num || (i < d->num_alarms && d->alarms[i].key < l.alarms[k].key)) {
            clear_alarm(d, &d->alarms[i++], now);
            changed = true;
        } else if (i == d->num_alarms || l.alarms[k].key < d->alarms[i].key) {
            raise_alarm(d, &l.alarms[k++], now);
            changed = true;
        } else {
            changed = changed || l.alarms[k].folded != d->alarms[i].folded;
            l.alarms[k].raised = d->alarms[i].raised;
            l.alarms[k].id = d->alarms[i].id;
            memcpy(l.alarms[k].acknowledged, d->alarms[i].acknowledged,
                   sizeof(l.alarms[k].acknowledged));
            i++;
            k++;
        }
    }
    free(d->alarms);
    d->alarms = l.alarms;
    d->num_alarms = l.num;
    if (changed) {
        inmd_touch(d);
    }
}

/* The alarms of the last run. Another topology may be configured since: what it does not have is
 * over. */
void alarms_restore(struct inmd *d)
{
    uint32_t num = history_active(d->history, &d->alarms), i;

    for (i = 0; i < num; i++) {
        const struct inm_alarm *a = &d->alarms[i];
        bool server_alarm = a->cause == CAUSE_SERVER_DEAD;

        if (a->cause >= CAUSE_MAX || a->severity > SEVERITY_CRITICAL ||
            (a->chip != INM_NONE && a->chip >= inm_topo_chips(d->topo)) ||
            (a->port != INM_NONE && a->port >= inm_topo_ports(d->topo)) ||
            (!server_alarm && a->other != INM_NONE && a->other >= inm_topo_ports(d->topo)) ||
            (a->cause == CAUSE_SWAPPED &&
             (a->port == INM_NONE || a->other == INM_NONE || d->topo->peer[a->port] == INM_NONE ||
              d->topo->peer[a->other] == INM_NONE))) {
            history_alarm_cleared(d->history, a->id, now_seconds());
            history_log(
                d->history,
                &(struct log_entry){.kind = "cleared",
                                    .severity = a->severity & 3,
                                    .text = "an alarm of the last run is not about this topology"});
        } else {
            d->alarms[d->num_alarms++] = *a;
        }
    }
}

void chip_letters(const struct inmd *d, char *letters)
{
    uint32_t chips = inm_topo_chips(d->topo), i, k;

    for (i = 0; i < chips; i++) {
        letters[i] = d->network != NETWORK_OK ? 'u' :
                     d->gone[i]               ? 'p' :
                     !d->found.seen[i]        ? 'x' :
                     d->status.mute[i]        ? 'm' :
                     d->status.hot[i]         ? 'h' :
                                                '.';
    }
    letters[chips] = '\0';
    for (k = 0; k < d->num_alarms; k++) {
        const struct inm_alarm *a = &d->alarms[k];

        for (i = 0; a->cause <= CAUSE_SWITCH_DEAD && i < chips; i++) {
            if (a->cause == CAUSE_SWITCH_DEAD ?
                    d->topo->chips[i].board == d->topo->chips[a->chip].board :
                    inm_chip_cabinet(d->topo, i) == inm_chip_cabinet(d->topo, a->chip)) {
                letters[i] = 'x';
            }
        }
        if (a->cause == CAUSE_CHIP_DEAD) {
            letters[a->chip] = 'x';
        } else if (a->port != INM_NONE && letters[a->chip] == '.') {
            letters[a->chip] = 'w';
        }
        if (a->port != INM_NONE && a->other != INM_NONE &&
            letters[inm_topo_port_chip(d->topo, a->other)] == '.') {
            letters[inm_topo_port_chip(d->topo, a->other)] = 'w';
        }
    }
}

/* ---- for people ------------------------------------------------------------------------------ */

static void place_of(const struct inmd *d, const struct inm_alarm *a, char *buf, size_t size)
{
    char one[INM_NAME_MAX], two[INM_NAME_MAX];

    if (a->cause == CAUSE_SERVER_DEAD) {
        if (a->other >= d->config.num_peers) {
            snprintf(buf, size, "server");
            return;
        }
        snprintf(buf, size, "server %s", d->config.peers[a->other].name);
    } else if (a->chip == INM_NONE) {
        snprintf(buf, size, "network");
    } else if (a->cause == CAUSE_CABINET_DEAD) {
        snprintf(buf, size, "%s", inm_cabinet_name(d->topo, a->chip, one));
    } else if (a->cause == CAUSE_SWITCH_DEAD) {
        snprintf(buf, size, "%s", inm_board_name(d->topo, a->chip, one));
    } else if (a->port == INM_NONE) {
        snprintf(buf, size, "%s", inm_chip_name(d->topo, a->chip, one));
    } else if (a->other == INM_NONE) {
        snprintf(buf, size, "%s", inm_port_name(d->topo, a->port, one));
    } else {
        snprintf(buf, size, "%s %s", inm_port_name(d->topo, a->port, one),
                 inm_port_name(d->topo, a->other, two));
    }
}

static void swap_text(const struct inmd *d, const struct inm_alarm *a, char *text, size_t size)
{
    char one[INM_NAME_MAX], two[INM_NAME_MAX], should[INM_NAME_MAX], should_two[INM_NAME_MAX];
    char place[64], place_two[64];
    uint32_t chip_two = inm_topo_port_chip(d->topo, a->other);

    snprintf(text, size, "two fibres are exchanged: %s (%s) belongs to %s, %s (%s) to %s",
             inm_port_name(d->topo, a->port, one), inm_chip_place(d->topo, a->chip, place),
             inm_port_name(d->topo, d->topo->peer[a->port], should),
             inm_port_name(d->topo, a->other, two), inm_chip_place(d->topo, chip_two, place_two),
             inm_port_name(d->topo, d->topo->peer[a->other], should_two));
}

void alarm_text(const struct inmd *d, const struct inm_alarm *a, char *place, size_t place_size,
                char *text, size_t size)
{
    char where[64] = "", name[INM_NAME_MAX];

    place_of(d, a, place, place_size);
    if (a->chip != INM_NONE) {
        inm_chip_place(d->topo, a->chip, where);
    }
    if (a->chip == INM_NONE && a->cause <= CAUSE_SWITCH_DEAD) {
        snprintf(text, size, "unknown place");
        return;
    }
    switch (a->cause) {
    case CAUSE_CABINET_DEAD:
        snprintf(text, size, "no link leads out of cabinet %s any more: no power?",
                 inm_cabinet_name(d->topo, a->chip, name));
        break;
    case CAUSE_SWITCH_DEAD:
        snprintf(text, size, "no link leads out of switch %s any more: no power?",
                 inm_board_name(d->topo, a->chip, name));
        break;
    case CAUSE_CHIP_DEAD:
        snprintf(text, size, "all links of the chip are down (%s)", where);
        break;
    case CAUSE_LINK_DOWN:
        snprintf(text, size, "the link is down: broken or missing fibre (%s, port %u)", where,
                 a->port != INM_NONE ? inm_topo_port_index(d->topo, a->port) : 0);
        break;
    case CAUSE_SWAPPED:
        swap_text(d, a, text, size);
        break;
    case CAUSE_MISWIRED:
        snprintf(text, size, "wired to the wrong port (%s)", where);
        break;
    case CAUSE_NO_ANSWER:
        snprintf(text, size, "the chip has links and does not answer (%s)", where);
        break;
    case CAUSE_HOT:
        if (a->chip == INM_NONE) {
            snprintf(text, size, "many chips are too hot");
        } else {
            snprintf(text, size, "the chip is too hot: %.1f C (%s)",
                     d->status.temperature[a->chip] / 1000.0, where);
        }
        break;
    case CAUSE_RETRIES:
        snprintf(text, size,
                 a->chip == INM_NONE ? "retries rise at many ports" :
                                       "the link's retries rise (%s)",
                 where);
        break;
    case CAUSE_FLAPPING:
        snprintf(text, size, "the link goes down and up (%s)", where);
        break;
    case CAUSE_NARROW:
        snprintf(text, size, "the link runs with fewer lanes (%s)", where);
        break;
    case CAUSE_SERVER_DEAD:
        snprintf(text, size, "the management server does not answer%s",
                 a->other < d->config.num_peers && d->peers[a->other].taken ?
                     "; this server has taken its region over" :
                     "");
        break;
    case CAUSE_NETWORK_GONE:
        snprintf(text, size, "this host's NIC does not answer; the server tries again");
        break;
    case CAUSE_NO_LINK:
        snprintf(text, size,
                 "this host's NIC has no link to a router: is the router or the cable "
                 "dead? The server tries again");
        break;
    case CAUSE_WRONG_TOPOLOGY:
        snprintf(text, size,
                 "the chips that were found are not those of topology %s; the command "
                 "\"inm differences\" lists them",
                 d->topo->name);
        break;
    case CAUSE_UNKNOWN_CHIP:
        snprintf(text, size, "chips that the topology does not have");
        break;
    case CAUSE_BIST:
        snprintf(text, size, "the link's test found wrong bits (%s)", where);
        break;
    default:
        snprintf(text, size, "unknown");
    }
}

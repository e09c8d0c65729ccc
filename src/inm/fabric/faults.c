/* Fault injection; see faults.h. */
#include "faults.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_FAULTS 256
#define NS_PER_S   1000000000ull
#define TICK_NS    5000000ull

enum kind {
    DOWN,
    FLAP,
    RETRY,
    BER,
    LANES,
    SWAP,
    UNPLUG,
    DEAD,
    MUTE,
    HOT,
    CORRUPT,
    LOSE,
    STORM,
    REPLACE,
    RANDOM,
    KINDS
};
enum target { NO_TARGET, PORT_TARGET, CHIP_TARGET, PLACE_TARGET };

static const struct {
    const char *name;
    enum target target;
    const char *key; /* of its number */
    double value;    /* default of it */
} kinds[KINDS] = {
    [DOWN] = {"down", PORT_TARGET, NULL, 0},         [FLAP] = {"flap", PORT_TARGET, "period", 1000},
    [RETRY] = {"retry", PORT_TARGET, "rate", 100},   [BER] = {"ber", PORT_TARGET, "rate", 1000},
    [LANES] = {"lanes", PORT_TARGET, "lanes", 4},    [SWAP] = {"swap", PORT_TARGET, NULL, 0},
    [UNPLUG] = {"unplug", PORT_TARGET, NULL, 0},     [DEAD] = {"dead", PLACE_TARGET, NULL, 0},
    [MUTE] = {"mute", CHIP_TARGET, NULL, 0},         [HOT] = {"hot", CHIP_TARGET, "temp", 95},
    [CORRUPT] = {"corrupt", NO_TARGET, "ppm", 1000}, [LOSE] = {"lose", NO_TARGET, "ppm", 1000},
    [STORM] = {"storm", NO_TARGET, "rate", 10000},   [REPLACE] = {"replace", CHIP_TARGET, NULL, 0},
    [RANDOM] = {"random", NO_TARGET, NULL, 0},
};

struct fault {
    int number; /* 0: free */
    enum kind kind;
    uint32_t port, with;      /* SWAP: the other port */
    uint32_t chip, last_chip; /* DEAD: a range */
    int32_t old_temperature;
    double value;
    double owed; /* events of a rate that are not yet whole */
    bool active, flapped;
    uint64_t begin, end; /* end 0: never */
    uint64_t next;       /* FLAP */
    uint64_t last;       /* rates: until when they are done */
    char spec[96];
};

struct faults {
    struct fabric *fab;
    int next_number;
    struct fault list[MAX_FAULTS];
};

struct faults *faults_new(struct fabric *fab)
{
    struct faults *faults = calloc(1, sizeof(*faults));

    if (faults != NULL) {
        faults->fab = fab;
        faults->next_number = 1;
    }
    return faults;
}

void faults_free(struct faults *faults)
{
    free(faults);
}

/* ---- reading a specification ----------------------------------------------------------------- */

static uint32_t random_port(struct fabric *fab)
{
    uint32_t port;

    do { /* only links between NRCs: the link of a NIC is down whenever its host is off */
        port = fab_random(fab, fab->topo->num_nrc * INM_NRC_PORTS);
    } while (fab->topo->peer[port] == INM_NONE ||
             fab->topo->peer[port] >= fab->topo->num_nrc * INM_NRC_PORTS);
    return port;
}

/* The chips of a place: one, a switch, or a rack with its switches and hosts. */
static bool parse_place(const struct inm_topo *topo, const char *name, struct fault *f)
{
    char longer[64];
    uint32_t i;

    f->chip = f->last_chip = inm_chip_parse(topo, name);
    if (f->chip != INM_NONE) {
        return true;
    }
    snprintf(longer, sizeof(longer), "%.40sn0", name);
    f->chip = inm_chip_parse(topo, longer);
    if (f->chip != INM_NONE) {
        for (i = f->chip; i < topo->num_nrc && topo->chips[i].board == topo->chips[f->chip].board;
             i++) {
            f->last_chip = i;
        }
        return true;
    }
    snprintf(longer, sizeof(longer), "%.40sf0n0", name);
    f->chip = inm_chip_parse(topo, longer);
    if (f->chip == INM_NONE) {
        return false;
    }
    for (i = f->chip;
         i < topo->num_nrc && inm_chip_cabinet(topo, i) == inm_chip_cabinet(topo, f->chip); i++) {
        f->last_chip = i;
    }
    return true;
}

static bool parse_target(struct faults *faults, struct fault *f, const char *name)
{
    struct fabric *fab = faults->fab;
    bool random = strcmp(name, "random") == 0;

    switch (kinds[f->kind].target) {
    case PORT_TARGET:
        f->port = random ? random_port(fab) : inm_port_parse(fab->topo, name);
        return f->port != INM_NONE && fab->ports[f->port].peer != INM_NONE;
    case CHIP_TARGET:
        f->chip = random ? fab_random(fab, fab->topo->num_nrc) : inm_chip_parse(fab->topo, name);
        return f->chip != INM_NONE;
    case PLACE_TARGET:
        if (random) {
            f->chip = f->last_chip = fab_random(fab, fab->topo->num_nrc);
            return true;
        }
        return parse_place(fab->topo, name, f);
    default:
        return name[0] == '\0';
    }
}

static bool parse_number(const char *text, double *value)
{
    char *end;

    *value = strtod(text, &end);
    return end != text && *end == '\0' && *value >= 0 && *value <= 1e12;
}

static bool parse_option(struct faults *faults, struct fault *f, char *option, uint64_t now)
{
    char *value = strchr(option, '=');
    double number;

    if (value == NULL) {
        return false;
    }
    *value++ = '\0';
    if (f->kind == SWAP && strcmp(option, "with") == 0) {
        f->with = strcmp(value, "random") == 0 ? random_port(faults->fab) :
                                                 inm_port_parse(faults->fab->topo, value);
        return f->with != INM_NONE && f->with != f->port &&
               faults->fab->ports[f->with].peer != INM_NONE &&
               faults->fab->ports[f->with].peer != f->port;
    }
    if (!parse_number(value, &number)) {
        return false;
    }
    if (strcmp(option, "at") == 0) {
        f->begin = now + (uint64_t)(number * 1e9);
    } else if (strcmp(option, "for") == 0) {
        f->end = (uint64_t)(number * 1e9); /* a duration; parse_spec() adds the begin */
    } else if (kinds[f->kind].key != NULL && strcmp(option, kinds[f->kind].key) == 0) {
        f->value = number;
    } else {
        return false;
    }
    return true;
}

static bool parse_spec(struct faults *faults, struct fault *f, char *text, uint64_t now,
                       const char **wrong)
{
    char *rest = NULL, *option, *target;
    size_t i;

    option = strtok_r(text, ",", &rest);
    *wrong = option != NULL ? option : "(empty)";
    if (option == NULL) {
        return false;
    }
    target = strchr(option, ':');
    if (target != NULL) {
        *target++ = '\0';
    }
    for (i = 0; i < KINDS && strcmp(option, kinds[i].name) != 0; i++) {
    }
    if (i == KINDS) {
        return false;
    }
    f->kind = (enum kind)i;
    if (f->kind == RANDOM) {
        static const enum kind some[] = {DOWN, DEAD, HOT};

        f->kind = some[fab_random(faults->fab, 3)];
        target = (char *)"random";
    }
    f->value = kinds[f->kind].value;
    f->with = INM_NONE;
    f->begin = now;
    *wrong = target != NULL ? target : "no target";
    if (!parse_target(faults, f, target != NULL ? target : "")) {
        return false;
    }
    while ((option = strtok_r(NULL, ",", &rest)) != NULL) {
        *wrong = option;
        if (!parse_option(faults, f, option, now)) {
            return false;
        }
    }
    *wrong = "swap needs with=PORT";
    f->end += f->end != 0 ? f->begin : 0;
    return f->kind != SWAP || f->with != INM_NONE;
}

int faults_add(struct faults *faults, const char *spec, uint64_t now, char *error, size_t size)
{
    struct fault f = {0};
    char text[96];
    const char *wrong;
    int i;

    snprintf(text, sizeof(text), "%s", spec);
    if (!parse_spec(faults, &f, text, now, &wrong)) {
        snprintf(error, size, "fault \"%s\": wrong at \"%s\"", spec, wrong);
        return -1;
    }
    for (i = 0; i < MAX_FAULTS && faults->list[i].number != 0; i++) {
    }
    if (i == MAX_FAULTS) {
        snprintf(error, size, "fault \"%s\": there are %d faults already", spec, MAX_FAULTS);
        return -1;
    }
    snprintf(f.spec, sizeof(f.spec), "%s", spec);
    f.number = faults->next_number++;
    faults->list[i] = f;
    return f.number;
}

/* ---- effects --------------------------------------------------------------------------------- */

/* Give two ports new peers. All four ends see their link go down and up again. */
static void rewire(struct fabric *fab, uint32_t a, uint32_t b)
{
    uint32_t peer_a = fab->ports[a].peer, peer_b = fab->ports[b].peer;
    uint32_t end[4] = {a, b, peer_a, peer_b};
    int i;

    for (i = 0; i < 4; i++) {
        fab->ports[end[i]].broken++;
    }
    fab_link_update(fab, a);
    fab_link_update(fab, b);
    fab->ports[a].peer = peer_b;
    fab->ports[peer_b].peer = a;
    fab->ports[b].peer = peer_a;
    fab->ports[peer_a].peer = b;
    for (i = 0; i < 4; i++) {
        fab->ports[end[i]].broken--;
    }
    fab_link_update(fab, a);
    fab_link_update(fab, b);
}

static void set_broken(struct fabric *fab, uint32_t port, bool on)
{
    fab->ports[port].broken = (uint8_t)(fab->ports[port].broken + (on ? 1 : -1));
    fab_link_update(fab, port);
}

static void set_dead(struct fabric *fab, const struct fault *f, bool on)
{
    uint32_t chip, i;

    for (chip = f->chip; chip <= f->last_chip; chip++) {
        fab->chips[chip].dead = (uint8_t)(fab->chips[chip].dead + (on ? 1 : -1));
        if (!on && !fab->chips[chip].dead) {
            fab_chip_reset(fab, chip);
        }
    }
    for (chip = f->chip; chip <= f->last_chip; chip++) {
        for (i = 0; i < inm_chip_ports(fab->topo, chip); i++) {
            fab_link_update(fab, inm_topo_port(fab->topo, chip, i));
        }
    }
}

static void set_hot(struct fabric *fab, struct fault *f, bool on)
{
    if (on) {
        f->old_temperature = fab->chips[f->chip].temperature;
    }
    fab_set_temperature(fab, f->chip, on ? (int32_t)(f->value * 1000) : f->old_temperature);
}

/* Another part in the same place; it stays when the fault is cleared. */
static void replace(struct fabric *fab, uint32_t chip, bool on)
{
    if (on) {
        fab->chips[chip].serial = fab_new_serial(fab);
        fab->chips[chip].firmware = 2ull << 32 | 2u << 16 | 1;
        fab_chip_reset(fab, chip);
    }
}

static void set_lanes(struct fabric *fab, const struct fault *f, bool on)
{
    struct fab_port *p = &fab->ports[f->port];

    p->lanes = on && f->value >= 1 && f->value <= 8 ? (uint8_t)f->value : 8;
    fab->ports[p->peer].lanes = p->lanes;
    fab->changes++;
    fab_event(fab, inm_topo_port_chip(fab->topo, f->port), NMP_EVENT_WIDTH,
              inm_topo_port_index(fab->topo, f->port), p->lanes);
}

static void set_active(struct faults *faults, struct fault *f, bool on)
{
    struct fabric *fab = faults->fab;

    f->active = on;
    switch (f->kind) {
    case DOWN:
    case UNPLUG:
        set_broken(fab, f->port, on);
        break;
    case FLAP:
        if (!on && f->flapped) {
            set_broken(fab, f->port, false);
        }
        f->flapped = false;
        f->next = 0;
        break;
    case BER:
        fab->ports[f->port].error_rate = on ? (uint32_t)f->value : 0;
        break;
    case LANES:
        set_lanes(fab, f, on);
        break;
    case SWAP:
        rewire(fab, f->port, f->with);
        break;
    case DEAD:
        set_dead(fab, f, on);
        break;
    case MUTE:
        fab->chips[f->chip].mute = (uint8_t)(fab->chips[f->chip].mute + (on ? 1 : -1));
        break;
    case HOT:
        set_hot(fab, f, on);
        break;
    case REPLACE:
        replace(fab, f->chip, on);
        break;
    case CORRUPT:
        fab->corrupt_ppm = on ? (uint32_t)f->value : 0;
        break;
    case LOSE:
        fab->lose_ppm = on ? (uint32_t)f->value : 0;
        break;
    default:
        break;
    }
}

static void end_fault(struct faults *faults, struct fault *f)
{
    if (f->active) {
        set_active(faults, f, false);
    }
    f->number = 0;
}

bool faults_clear(struct faults *faults, int number)
{
    bool found = false;
    int i;

    /* The last first: exchanged fibres go back in reverse order. */
    for (i = MAX_FAULTS - 1; i >= 0; i--) {
        struct fault *f = &faults->list[i];

        if (f->number != 0 && (number == 0 || f->number == number)) {
            end_fault(faults, f);
            found = true;
        }
    }
    return found;
}

/* ---- time ------------------------------------------------------------------------------------ */

static void run_rate(struct faults *faults, struct fault *f, uint64_t now)
{
    struct fabric *fab = faults->fab;
    uint64_t num, i;

    f->owed += (double)(now - f->last) * 1e-9 * f->value;
    f->last = now;
    num = (uint64_t)f->owed;
    f->owed -= (double)num;
    if (f->kind == RETRY) {
        fab_add_retries(fab, f->port, num);
        return;
    }
    for (i = 0; i < num; i++) {
        uint32_t port = random_port(fab);

        fab->ports[port].retries++;
        fab_event(fab, inm_topo_port_chip(fab->topo, port), NMP_EVENT_RETRY,
                  inm_topo_port_index(fab->topo, port), fab->ports[port].retries);
    }
}

static void run_flap(struct faults *faults, struct fault *f, uint64_t now)
{
    if (now >= f->next) {
        f->flapped = !f->flapped;
        set_broken(faults->fab, f->port, f->flapped);
        f->next = now + (uint64_t)(f->value * 5e5);
    }
}

uint64_t faults_run(struct faults *faults, uint64_t now)
{
    uint64_t wait = NS_PER_S;
    int i;

    for (i = 0; i < MAX_FAULTS; i++) {
        struct fault *f = &faults->list[i];

        if (f->number == 0) {
            continue;
        }
        if (!f->active && now >= f->begin) {
            f->last = now;
            set_active(faults, f, true);
        }
        if (f->active && f->end != 0 && now >= f->end) {
            end_fault(faults, f);
            continue;
        }
        if (f->active && f->kind == FLAP) {
            run_flap(faults, f, now);
        }
        if (f->active && (f->kind == RETRY || f->kind == STORM)) {
            run_rate(faults, f, now);
        }
        if (!f->active || f->end != 0 || f->kind == FLAP || f->kind == RETRY || f->kind == STORM) {
            wait = TICK_NS;
        }
    }
    return wait;
}

void faults_list(const struct faults *faults, char *buf, size_t size)
{
    size_t len = 0;
    int i;

    buf[0] = '\0';
    for (i = 0; i < MAX_FAULTS && len + 128 < size; i++) {
        if (faults->list[i].number != 0) {
            len += (size_t)snprintf(buf + len, size - len, "%d %s %s\n", faults->list[i].number,
                                    faults->list[i].active ? "active" : "waiting",
                                    faults->list[i].spec);
        }
    }
}

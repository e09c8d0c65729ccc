/*
 * inmd, the management server: what its files share.
 *
 * Threads: one receives reports and keeps alarms, one polls and watches other servers, one writes
 * the history, and one for each HTTP connection. `lock` guards everything below it in struct inmd;
 * no thread waits for the network while it holds the lock.
 */
#ifndef INM_INMD_H
#define INM_INMD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <syslog.h>
#include <time.h>

#include "common/nmp.h"
#include "inm/topo/topo.h"
#include "inm/wire/table.h"
#include "net.h"

#define INM_MAX_PEERS 8
#define INM_EVENTS    16384 /* kept in memory; all are in the history */

/* ---- configuration --------------------------------------------------------------------------- */

struct inm_peer_config {
    char name[32];
    char url[160];   /* where its health is asked: http://host:port or unix:/path */
    uint32_t first_cabinet, last_cabinet; /* its region */
    uint32_t rank;   /* the living server of the lowest rank takes a region over */
};

struct inm_config {
    char name[32];
    char topology[256];
    char fabric[108];  /* socket of the network */
    uint32_t nic;      /* this host's, INM_NONE: the topology's */
    uint32_t window, timeout_ms, retries;
    char address[64];
    uint32_t port;     /* 0: no TCP */
    char socket[108];  /* for local commands */
    char tls_cert[256], tls_key[256];
    char database[256];
    uint32_t keep_days;
    uint32_t poll_ms;
    char poll_mode[8];
    uint32_t session_minutes, login_tries, rate_per_second;
    uint32_t hot_limit, retry_limit;
    uint32_t first_cabinet, last_cabinet, rank;
    uint32_t heartbeat_ms, heartbeat_misses;
    struct inm_peer_config peers[INM_MAX_PEERS];
    uint32_t num_peers;
};

/** Read a configuration file. @return false with `error` set, with the line. */
bool config_read(const char *path, struct inm_config *config, char *error, size_t size);

/* ---- state ----------------------------------------------------------------------------------- */

struct inm_route {
    struct glex_mgmt_route forward, backward;
};

/* What was discovered. Numbers of chips and ports are those of the expected topology. */
struct inm_found {
    uint8_t  *seen;     /* by chip */
    uint8_t  *answers;  /* by chip: NRC that answered */
    uint8_t  *hop;      /* by chip: NRCs passed before it */
    uint32_t *peer;     /* by port; INM_NONE: no link */
    struct inm_route *route; /* by chip */
    uint32_t num_nrc, num_nic, num_links, num_unknown; /* unknown: ids outside the topology */
    uint64_t requests, modelled_ns;
    double   real_seconds;
    time_t   when;
};

struct inm_event {
    uint64_t id;
    double   time;
    uint8_t  event, severity;
    uint32_t chip, port; /* port: index, or INM_NONE */
    uint64_t value;
};

enum inm_severity { SEVERITY_INFO, SEVERITY_WARNING, SEVERITY_MAJOR, SEVERITY_CRITICAL };

enum inm_cause {
    CAUSE_CABINET_DEAD = 1, CAUSE_SWITCH_DEAD, CAUSE_CHIP_DEAD, CAUSE_LINK_DOWN, CAUSE_SWAPPED,
    CAUSE_MISWIRED, CAUSE_NO_ANSWER, CAUSE_HOT, CAUSE_RETRIES, CAUSE_FLAPPING, CAUSE_NARROW,
    CAUSE_SERVER_DEAD, CAUSE_NETWORK_GONE, CAUSE_UNKNOWN_CHIP, CAUSE_BIST, CAUSE_MAX
};

struct inm_alarm {
    uint64_t key;     /* cause << 40 | object */
    uint64_t id;      /* in the history */
    uint8_t  cause, severity;
    uint32_t chip, port, other; /* INM_NONE where there is none; other: a second port */
    uint32_t folded;  /* conditions that this alarm stands for */
    double   raised;
    char     acknowledged[32]; /* by whom */
};

/* What the server knows of the parts of the network now: from it alarms follow. */
struct inm_status {
    uint8_t  *down;       /* by port: 1 expected link is not there */
    uint8_t  *lanes;      /* by port; 0: not told */
    uint8_t  *hot;        /* by chip */
    uint8_t  *mute;       /* by chip: linked, but no answer */
    int32_t  *temperature; /* by chip, thousandths of a degree; 0: not read */
    uint32_t *flaps;      /* by port: downs within the window */
    double   *flap_time;  /* by port: beginning of the window */
    double   *retry_time; /* by port: the last report */
    uint64_t *retries;    /* by chip: at the last poll */
    uint64_t *retry_delta; /* by chip: between the last two polls */
    uint64_t *bist_errors; /* by port, of the last test */
    uint32_t *seq;        /* by chip: of its last report */
};

struct inm_region_state {
    bool alive;
    bool taken;  /* by us */
    uint32_t misses;
    double since;
};

struct inmd {
    struct inm_config config;
    struct inm_topo *topo;    /* as it should be; does not change */
    struct net *net;
    struct history *history;
    struct auth *auth;
    volatile int stop;
    double started;

    pthread_mutex_t lock;
    pthread_cond_t changed;   /* with lock: version moved on */
    uint64_t version;         /* of all that pages show */
    struct inm_found found;
    struct inm_status status;
    struct inm_alarm *alarms; /* ordered by key */
    uint32_t num_alarms;
    struct inm_event *events; /* a ring; event n is at n % INM_EVENTS */
    uint64_t next_event;
    uint64_t reports, reports_missing; /* missing: gaps in a chip's numbers */
    uint64_t polls;
    double   poll_seconds;
    bool     dirty;           /* alarms are to be computed anew */
    double   rediscover;      /* when; 0: not */
    struct inm_table *tables; /* by NRC: generated; NULL: none */
    char     table_kind[16];
    struct inm_region_state peers[INM_MAX_PEERS];
    pthread_mutex_t busy;     /* long operations, one at a time: discovery, routes, BIST */
};

/** A line to standard error, and to the journal's levels. */
void inm_log(int level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

double now_seconds(void);

/** With the lock held: pages are to be told. */
void inmd_touch(struct inmd *d);

/* ---- discover.c ------------------------------------------------------------------------------ */

bool found_init(const struct inm_topo *topo, struct inm_found *found);
void found_free(struct inm_found *found);

/** Breadth-first search from this host's NIC, into `found`. @return false: it does not answer. */
bool discover(struct net *net, const struct inm_topo *topo, struct inm_found *found);

/** Discover, and take the result over into `d`; compares with the topology. */
bool discover_all(struct inmd *d);

/* ---- state.c: conditions, alarms ------------------------------------------------------------- */

bool status_init(struct inmd *d);
void status_free(struct inmd *d);
/** With the lock held. */
void status_report(struct inmd *d, const struct net_report *report);
void alarms_update(struct inmd *d);
void status_from_found(struct inmd *d);
const char *alarm_cause(unsigned cause);
const char *severity_name(unsigned severity);
/** The place and the explanation of an alarm, for people. */
void alarm_text(const struct inmd *d, const struct inm_alarm *alarm, char *place, size_t place_size,
                char *text, size_t text_size);

/* ---- access.c: operations on chips ----------------------------------------------------------- */

/** Fill in who and which way. @return false: the chip is not reachable. */
bool request_for(struct inmd *d, uint32_t chip, unsigned type, struct net_req *req,
                 struct inm_route *route);
/** Read or write registers. @return enum net_outcome or a status. */
int chip_read(struct inmd *d, uint32_t chip, uint32_t addr, uint64_t *value);
int chip_write(struct inmd *d, uint32_t chip, uint32_t addr, uint64_t value);
int chip_eeprom_read(struct inmd *d, uint32_t chip, uint32_t addr, uint32_t num, uint8_t *bytes);
int chip_eeprom_write(struct inmd *d, uint32_t chip, uint32_t addr, uint32_t num,
                      const uint8_t *bytes);
const char *outcome_text(int outcome);
/** Tell all chips of our region to report to us, and what. */
uint32_t push_config(struct inmd *d, uint32_t first_cabinet, uint32_t last_cabinet);
/** Read back what push_config() wrote. @return Chips that differ. */
uint32_t check_config(struct inmd *d, uint32_t first_cabinet, uint32_t last_cabinet);
/** One poll of all chips: links, retries, temperature. @return Chips that did not answer. */
uint32_t poll_chips(struct inmd *d);
/** `per_chip` requests of one register to each NRC. */
struct scan_result {
    uint64_t requests, failed, bits, modelled_ns;
    double real_seconds, link_share, formula_seconds;
};
void full_scan(struct inmd *d, uint32_t per_chip, struct scan_result *result);

/* ---- routes.c -------------------------------------------------------------------------------- */

enum route_kind { ROUTE_SHORTEST, ROUTE_BALANCED, ROUTE_UPDOWN };
struct route_result {
    uint32_t chips, runs, failed, differ;
    uint64_t unreachable, checked;
    bool     deadlock_free;
    uint32_t min_load, max_load; /* destinations on an upward link */
    double   seconds;
    char     message[160];
};
/** Make the tables of all NRCs from what was discovered. */
bool routes_generate(struct inmd *d, enum route_kind kind, struct route_result *result);
/** Load the tables into the chips; read them back; keep them in EEPROM. */
bool routes_load(struct inmd *d, struct route_result *result);
bool routes_verify(struct inmd *d, struct route_result *result);
bool routes_keep(struct inmd *d, uint32_t only_chip, struct route_result *result);

#define TRACE_MAX 24
struct trace_hop {
    uint32_t chip, in, out; /* ports; INM_NONE at the ends */
    uint32_t choices;       /* the output ports that the table allows */
    bool     up;
    uint64_t retries, lanes;
};
/** Follow the routing tables of the chips from one NIC to another. @return Hops; 0: see error. */
uint32_t trace(struct inmd *d, uint32_t from, uint32_t to, struct trace_hop *hops, char *error,
               size_t size);

/* ---- bist.c ---------------------------------------------------------------------------------- */

struct bist_result {
    uint32_t links, rounds, tested, bad, bridges, failed;
    uint64_t bits, errors;
    double   seconds;
};
/** By port: the round in which its link is tested, from 1; 0: not asked for; 255: never, as it
 *  would cut chips off. `want` and `round` are by port. */
uint32_t bist_plan(const struct inm_topo *topo, const uint32_t *peer, uint32_t server,
                   const uint8_t *want, uint8_t *round);
bool bist_run(struct inmd *d, const uint8_t *want, uint32_t us, struct bist_result *result);

/* ---- history.c ------------------------------------------------------------------------------- */

struct history *history_open(const char *path, char *error, size_t size);
void history_close(struct history *h);
void history_event(struct history *h, const struct inm_event *event);
/** Write what is queued. */
void history_flush(struct history *h);
uint64_t history_alarm_raised(struct history *h, const struct inm_alarm *alarm, const char *place,
                              const char *text);
void history_alarm_cleared(struct history *h, uint64_t id, double when);
void history_alarm_acknowledged(struct history *h, uint64_t id, const char *user);
void history_audit(struct history *h, const char *user, const char *address, const char *action,
                   const char *outcome);
/** The alarms that were active when the server ended. @return How many; *alarms is the caller's. */
uint32_t history_active(struct history *h, struct inm_alarm **alarms);
void history_setting(struct history *h, const char *name, const char *value);
/** @return false: there is none. */
bool history_get_setting(struct history *h, const char *name, char *value, size_t size);
void history_sample(struct history *h, double when, const char *name, double value);
uint64_t history_last_event(struct history *h);
void history_trim(struct history *h, uint32_t keep_days);
/** Run a query whose rows become a JSON array, `arg` bound to ?1 and `limit` to ?2. */
struct json_object *history_query(struct history *h, const char *sql, double arg, int limit);
struct sqlite3 *history_db(struct history *h);
void history_lock(struct history *h);
void history_unlock(struct history *h);

/* ---- region.c -------------------------------------------------------------------------------- */

/** Ask the other servers how they are; take over and give back regions. */
void regions_watch(struct inmd *d);

/* ---- http.c ---------------------------------------------------------------------------------- */

struct http;
struct http *http_start(struct inmd *d);
void http_stop(struct http *http);

#endif

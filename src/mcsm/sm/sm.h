/*
 * The subnet manager of one cluster.
 *
 * It works in phases. Each phase sends its SMPs at once and ends with the last answer:
 *
 *     IDLE -> DISCOVER -> MANAGERS -> PORTS -> TABLES -> ARM -> ACTIVATE -> IDLE    a heavy sweep
 *     IDLE -> LIGHT -> ARM -> ACTIVATE -> IDLE       a light sweep: border links may have come
 *     IDLE -> LIGHT -> IDLE -> DISCOVER ...          a light sweep that found a change
 *     IDLE -> MULTICAST -> IDLE                      members came or went
 *
 * A manager has a state of IBTA volume 1, section 14.4.1: DISCOVERING until the manager knows
 * whether the cluster has a master, then MASTER or STANDBY. A STANDBY only discovers, changes
 * nothing, and polls the master.
 */
#ifndef MCSM_SM_H
#define MCSM_SM_H

#include "election.h"
#include "fabric/fabric.h"
#include "fabric/lids.h"
#include "mad/mads.h"
#include "route/mcast.h"

enum mcsm_phase {
    MCSM_PHASE_IDLE,
    MCSM_PHASE_DISCOVER,
    MCSM_PHASE_MANAGERS,
    MCSM_PHASE_PORTS,
    MCSM_PHASE_TABLES,
    MCSM_PHASE_ARM,
    MCSM_PHASE_ACTIVATE,
    MCSM_PHASE_LIGHT,
    MCSM_PHASE_MULTICAST
};

/* Something that an administrator wants to know at once. The log has it, and the event command of
 * the configuration gets it. */
struct mcsm_event {
    const char *name; /* such as "foreign-manager" */
    const char *text;
    enum mcsm_log_level level;
    uint64_t guid; /* of the node or port; 0: none */
    uint8_t port;
};

/* Events for the rest of the daemon. Any function may be NULL. */
struct mcsm_sm_events {
    void *arg;
    void (*swept)(void *arg); /* a heavy sweep is over; fabric is the new one */
    void (*end_port)(void *arg, uint64_t port_guid, bool there); /* came or went */
    void (*trap)(void *arg, const uint8_t notice[80]);           /* from a port of the cluster */
    void (*state)(void *arg, uint8_t state);
    void (*event)(void *arg, const struct mcsm_event *event);
    /* The leaves of a group: calls `leaf` for each member port. */
    void (*members)(void *arg, uint16_t mlid,
                    void (*leaf)(void *leaf_arg, uint64_t port_guid, bool receives),
                    void *leaf_arg);
};

struct mcsm_sm_stats {
    uint64_t heavy_sweeps, light_sweeps, traps[7]; /* 128 to 131, 144, 256, others */
    uint64_t lft_blocks, mft_blocks, failed_sets, foreign_traps;
    unsigned sweep_ms; /* of the last heavy sweep */
    unsigned route_ms;
    unsigned without_lid;
    int credit_loop; /* length of a circle; 0: none */
    int lanes_needed;
    unsigned excess;         /* pairs of border ports beyond the contract, if it is only reported */
    unsigned left_out;       /* routes that the contract of the borders forbids */
    enum mcsm_engine engine; /* that made the routes */
    int silent;              /* nodes that did not answer */
};

struct mcsm_drained {
    struct mcsm_drained *next;
    uint64_t guid;
    uint8_t port;
    bool held; /* by health; else by the administrator. A port may have both orders */
};

/* The sweep that runs, and when the next one starts. Times are in milliseconds. */
struct mcsm_sweep {
    enum mcsm_phase phase;
    bool wanted;       /* a heavy sweep */
    bool multicast;    /* new multicast tables are wanted */
    bool changed;      /* the light sweep found a change */
    bool incomplete;   /* a node did not answer or refused: the sweep is repeated soon */
    bool reregister;   /* clients must register again: this manager has just become the master */
    bool distrust;     /* another manager may have written the tables: write all of them */
    unsigned failures; /* sweeps in a row that were incomplete */
    uint16_t former_master; /* LID of the master whose registrations are known here; 0: none */
    uint64_t started, next_light, next_poll, retry_at;
};

struct mcsm_sm {
    const struct mcsm_config *config;
    struct mcsm_mads *mads;
    struct mcsm_lids *lids;
    struct mcsm_sm_events events;
    struct mcsm_fabric *fabric; /* of the last sweep; never NULL */
    struct mcsm_fabric *next;   /* being discovered; NULL otherwise */
    struct mcsm_graph *graph;   /* the graph behind the routes of `fabric` */
    struct mcsm_tree *tree;
    uint64_t own_guid;
    struct mcsm_sweep sweep;
    struct mcsm_election election;
    struct mcsm_drained *drained;
    int lanes_set;         /* for how many lanes the ports are set up; 1: their own tables */
    uint64_t burst_second; /* the second in which `burst` traps 129 to 131 came */
    unsigned burst;
    size_t next_lease; /* the end port whose M_Key lease is renewed next */
    struct mcsm_sm_stats stats;
};

struct mcsm_sm *mcsm_sm_new(const struct mcsm_config *config, struct mcsm_mads *mads,
                            uint64_t own_guid, const struct mcsm_sm_events *events);
void mcsm_sm_free(struct mcsm_sm *sm);

/** Drive it: call after packets were received and every few milliseconds. */
void mcsm_sm_run(struct mcsm_sm *sm, uint64_t now);

/** Ask for a heavy sweep, or for new multicast tables only. */
void mcsm_sm_sweep(struct mcsm_sm *sm);
void mcsm_sm_multicast(struct mcsm_sm *sm);

/** A MAD of the SMP classes that is no answer: traps, SMInfo. */
void mcsm_sm_receive(struct mcsm_sm *sm, const struct mcsm_addr *from, const uint8_t *mad);

/** No route shall lead through this port, or shall again. */
int mcsm_sm_drain(struct mcsm_sm *sm, uint64_t guid, uint8_t port, bool drain);
int mcsm_sm_hold(struct mcsm_sm *sm, uint64_t guid, uint8_t port,
                 bool hold); /* by order of health */

/**
 * The service level of packets between two end ports; `b` may be NULL for another cluster. How many
 * lanes there are, with that of the groups.
 */
uint8_t mcsm_sm_lane(const struct mcsm_sm *sm, const struct mcsm_port *a,
                     const struct mcsm_port *b);
int mcsm_sm_lanes(const struct mcsm_sm *sm);

/** The directed route to a port: through its own link if it is one of a CA. */
struct mcsm_path mcsm_sm_path(const struct mcsm_port *port);

/** Logs a message and hands it to the event command. */
void mcsm_sm_report(struct mcsm_sm *sm, const char *name, enum mcsm_log_level level, uint64_t guid,
                    uint8_t port, const char *format, ...) __attribute__((format(printf, 6, 7)));

/* ---- between the files of this directory ---- */

void mcsm_sm_discover(struct mcsm_sm *sm);
void mcsm_sm_discovered(struct mcsm_sm *sm); /* checks and counts after the last answer */
void mcsm_sm_ports(struct mcsm_sm *sm);
void mcsm_sm_read_pkeys(struct mcsm_sm *sm, struct mcsm_port *port); /* of a host */
void mcsm_sm_plan_pkeys(struct mcsm_sm *sm,
                        struct mcsm_port *port); /* and of the switch port to it */
void mcsm_sm_set_link_state(struct mcsm_sm *sm, uint8_t state);
int mcsm_sm_route(struct mcsm_sm *sm);
void mcsm_sm_set_lanes(struct mcsm_sm *sm);
void mcsm_sm_multicast_tables(struct mcsm_sm *sm);
void mcsm_sm_write_tables(struct mcsm_sm *sm);
void mcsm_sm_write_mft(struct mcsm_sm *sm, struct mcsm_node *node);
void mcsm_sm_light(struct mcsm_sm *sm);
void mcsm_sm_trap(struct mcsm_sm *sm, const struct mcsm_addr *from, const uint8_t *mad);

/** The answer to a Set whose loss makes the sweep incomplete; `arg` is the manager, `arg2` the port
 * or NULL. */
void mcsm_sm_set_done(void *arg, void *arg2, const uint8_t *mad, unsigned status);

#endif

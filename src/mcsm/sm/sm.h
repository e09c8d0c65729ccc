/*
 * The subnet manager of one cluster.
 *
 * A manager has a state of IBTA volume 1, section 14.4.1: DISCOVERING until the manager knows
 * whether the cluster has a master, then MASTER or STANDBY. A STANDBY only discovers, changes
 * nothing, and polls the master.
 */
#ifndef MCSM_SM_H
#define MCSM_SM_H

#include "drain.h"
#include "election.h"
#include "events.h"
#include "fabric/fabric.h"
#include "fabric/lids.h"
#include "mad/mads.h"
#include "route/mcast.h"
#include "sweep.h"

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
    unsigned hidden;         /* LIDs of switches that packets of other clusters do not reach */
    unsigned closed_joints;  /* joints by which the contract lets no packets of groups leave */
    enum mcsm_engine engine; /* that made the routes */
    int silent;              /* nodes that did not answer */
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
    bool *
        closed; /* of each line of [border]: packets of groups do not leave by it; NULL: none is closed */
    uint64_t own_guid;
    struct mcsm_sweep sweep;
    struct mcsm_election election;
    struct mcsm_drains drains;
    uint64_t lanes_set;    /* mcsm_sm_lane_map() of the tables of the ports; 0: their own tables */
    uint64_t burst_second; /* the second in which `burst` traps 129 to 131 came */
    unsigned burst;
    size_t next_lease;   /* the end port whose M_Key lease is renewed next */
    int next_vl_switch;  /* the switch whose differing tables are written next */
    size_t next_vl_port; /* the port whose SL2VL and VLArb are read next */
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

/** Keeps routes away from a port, or ends this: by order of the administrator (drain), or of link
 * health (hold). -ENOENT if the fabric has no such port or there is no order to end, -ENOMEM. */
int mcsm_sm_drain(struct mcsm_sm *sm, uint64_t guid, uint8_t port, bool drain);
int mcsm_sm_hold(struct mcsm_sm *sm, uint64_t guid, uint8_t port, bool hold);

/**
 * The service level of packets between two end ports; `b` may be NULL for another cluster. How many
 * lanes there are, with that of the groups.
 */
uint8_t mcsm_sm_lane(const struct mcsm_sm *sm, const struct mcsm_port *a,
                     const struct mcsm_port *b);
int mcsm_sm_lanes(const struct mcsm_sm *sm);

/** Whether rules or partitions give service levels, and the routes use several lanes in each. */
bool mcsm_sm_shares(const struct mcsm_sm *sm);

/** Returns the service level of a path whose rules or partitions give level `wish`.
 * mcsm_sm_level_fits() returns whether a path may have a service level. Both only if
 * mcsm_sm_shares(). */
uint8_t mcsm_sm_level(const struct mcsm_sm *sm, uint8_t wish, const struct mcsm_port *a,
                      const struct mcsm_port *b);
bool mcsm_sm_level_fits(const struct mcsm_sm *sm, uint8_t sl, const struct mcsm_port *a,
                        const struct mcsm_port *b);

/**
 * Where the routes use several lanes: the virtual lane of a service level at a port; 15 if the engine
 * gives no pair the level.
 */
uint8_t mcsm_sm_vl(const struct mcsm_sm *sm, const struct mcsm_port *port, uint8_t sl);

/** A number that changes if mcsm_sm_vl() changes; 0: one lane. */
uint64_t mcsm_sm_lane_map(const struct mcsm_sm *sm);

#endif

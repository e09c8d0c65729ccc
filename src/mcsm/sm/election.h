/*
 * Which manager is the master of the cluster (IBTA volume 1, section 14.4).
 *
 * Managers ask each other for SMInfo. A manager that proves the SM_Key of the cluster is a peer: of
 * several peers the manager with the highest priority, and of these the manager with the lowest
 * GUID, is the master. Any other manager is foreign. A foreign manager never gets the cluster; the
 * log, the status, the metrics and the event command name it.
 *
 *     state        HANDOVER        ACKNOWLEDGE         DISABLE     STANDBY  DISCOVER
 *     NOTACTIVE    -               -                   -           STANDBY  -
 *     DISCOVERING  -               -                   -           -        -
 *     STANDBY      MASTER          -                   NOTACTIVE   -        DISCOVERING
 *     MASTER       MASTER          STANDBY, if a       -           -        -
 *                                  handover waits
 *
 * The columns are Sets of SMInfo; "-" refuses the Set. A manager that accepts HANDOVER answers with
 * a Set ACKNOWLEDGE of its own. The old master stays the master until that Set has come.
 *
 * A master hands over only to a peer that has all registrations, or after 10 s.
 */
#ifndef MCSM_ELECTION_H
#define MCSM_ELECTION_H

#include "events.h"
#include "mad/mads.h"
#include "sweep.h"

/* Another subnet manager on the ports of this cluster. */
struct mcsm_rival {
    struct mcsm_rival *next;
    uint64_t guid;
    uint64_t challenge; /* of a peer: the challenge that the next Set to it must answer */
    struct mcsm_path path;
    uint32_t act;
    uint16_t lid;
    uint8_t priority;
    uint8_t state;
    uint8_t named; /* foreign: the state that the log named last, plus 1 */
    bool seen;     /* in the round of questions that runs */
};

struct mcsm_election {
    const struct mcsm_config *config;
    struct mcsm_mads *mads;
    struct mcsm_sweep *sweep; /* a new state or another manager asks for sweeps */
    const struct mcsm_sm_events *events;
    uint64_t own_guid;
    uint8_t state;              /* MCSM_SM_*_STATE */
    struct mcsm_rival *peers;   /* managers of this cluster */
    struct mcsm_rival *foreign; /* managers that do not prove the SM_Key */
    uint64_t asked;             /* the manager's challenge in its present queries */
    uint64_t challenge;         /* the challenge that the next Set to this manager must answer */
    uint64_t last_challenge;    /* of the last Set that was accepted, which may be repeated */
    uint32_t last_what;
    bool handing_over;
    uint64_t waiting; /* since when a peer that is not ready shall get the cluster; 0: none */
    bool disputed;    /* a foreign manager is a master on our ports */
    uint64_t master_guid;
    uint32_t master_act;
    uint64_t master_alive; /* when the master answered a poll last */
    unsigned poll_failures;
};

/** Starts in state DISCOVERING. The election does not own the objects, which live longer. */
void mcsm_election_start(struct mcsm_election *election, const struct mcsm_config *config,
                         struct mcsm_mads *mads, uint64_t own_guid, struct mcsm_sweep *sweep,
                         const struct mcsm_sm_events *events);
void mcsm_election_end(struct mcsm_election *election);
const char *mcsm_sm_state_name(uint8_t state);
void mcsm_election_set_state(struct mcsm_election *election, uint8_t state);

/** Asks all ports of a fabric that have a manager. */
void mcsm_election_ask(struct mcsm_election *election, struct mcsm_fabric *fabric);

/** Decides after the last answer of a heavy sweep. False: this manager is not the master, or hands
 * over. */
bool mcsm_election_may_be_master(struct mcsm_election *election);

/** Looks at the answers of a light sweep. A peer above this manager sets sweep->changed. */
void mcsm_election_looked(struct mcsm_election *election);

/** A standby asks the master whether it lives. */
void mcsm_election_poll(struct mcsm_election *election);

/** A Get or Set of SMInfo came. */
void mcsm_election_receive(struct mcsm_election *election, const struct mcsm_addr *from,
                           const uint8_t *mad);

/** The 64 bytes of our SMInfo, without challenge and proof. */
void mcsm_election_info(const struct mcsm_election *election, uint8_t *body);

#endif

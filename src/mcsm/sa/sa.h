/*
 * Subnet administration (IBTA volume 1, chapter 15): answers queries of hosts and tools to the
 * manager of their cluster. Long answers use RMPP of libibumad's kernel side.
 */
#ifndef MCSM_SA_H
#define MCSM_SA_H

#include "standby/standby.h"

struct mcsm_sa;

struct mcsm_sa_counters {
    uint64_t requests, refused, reports, joins, leaves;
    unsigned groups, members, services, subscriptions;
};

/** Registrations go to `standbys`, which must live longer. `reports` are the requests to
 * subscribers. */
struct mcsm_sa *mcsm_sa_new(struct mcsm_sm *sm, struct mcsm_mads *reports,
                            struct mcsm_standbys *standbys);
void mcsm_sa_free(struct mcsm_sa *sa);

/** A request of class SA; `length` bytes are there, at least 256. */
void mcsm_sa_receive(struct mcsm_sa *sa, const struct mcsm_addr *from, const uint8_t *mad,
                     size_t length);

/** The manager has a new state. */
void mcsm_sa_state(struct mcsm_sa *sa, uint8_t state);

/** Leases run out. */
void mcsm_sa_run(struct mcsm_sa *sa, uint64_t now);

/** Reports of the manager: a new fabric, an end port that came or went, a notice to forward. */
void mcsm_sa_swept(struct mcsm_sa *sa);
void mcsm_sa_end_port(struct mcsm_sa *sa, uint64_t port_guid, bool there);
void mcsm_sa_notice(struct mcsm_sa *sa, const uint8_t notice[80]);

/** Calls `leaf` for each member of the groups with this MLID; the bool says whether the member
 * receives or only sends. */
void mcsm_sa_members(struct mcsm_sa *sa, uint16_t mlid, void (*leaf)(void *, uint64_t, bool),
                     void *leaf_arg);

const struct mcsm_sa_counters *mcsm_sa_stats(const struct mcsm_sa *sa);

#endif

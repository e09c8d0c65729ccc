/*
 * State on standby managers: the master sends each change of a group, member, service or
 * subscription to every standby of its cluster. If the master dies, the new master knows all
 * registrations, and hosts need not register again. Drained and held ports go to the standbys, too,
 * so that no route uses these ports after a failover. The owner of each kind of record is above this
 * file, and gives its functions by mcsm_standbys_offer().
 *
 * A record is a MAD of a vendor's class (MCSM_CLASS_STATE), Set from the master, answered by the
 * standby. The master sends the next record after the answer to the last one, so records keep their
 * order. The answer to a host's request waits until every standby that is up to date has the
 * change. So no confirmed registration is lost if only the master fails.
 *
 * 1. The master sends Get HELLO with a challenge. The standby answers with a challenge of its own.
 * 2. The master sends the record "begin". The standby forgets its own registrations.
 * 3. The master sends all registrations, and then the record "end".
 * 4. The master sends each change, and each second the record "beat". The standby is up to date as
 *    long as records come.
 *
 * Each MAD has the beginning of HMAC-SHA256(SM_Key, role, challenge of the reader, the MAD's data).
 * Records count from 1 for a challenge. So a recorded MAD is refused.
 *
 * A standby that does not answer is dropped, and starts again with HELLO. A standby that still hears
 * the master's SMInfo, but no beat, is not up to date: as a new master, it asks all hosts to
 * register again.
 */
#ifndef MCSM_STANDBY_H
#define MCSM_STANDBY_H

#include "sm/sm.h"

enum { MCSM_STATE_PAYLOAD = 192 };

/* The kinds of records, with their payload. "-" is no payload. */
enum mcsm_state_kind {
    MCSM_STATE_BEGIN = 1,    /* - */
    MCSM_STATE_END,          /* - */
    MCSM_STATE_BEAT,         /* - */
    MCSM_STATE_GROUP,        /* MCMemberRecord without port */
    MCSM_STATE_MEMBER,       /* MGID, port GUID, port GID, state, proxy */
    MCSM_STATE_SERVICE,      /* owner, milliseconds that are left (0: for ever), ServiceRecord */
    MCSM_STATE_SUBSCRIPTION, /* InformInfo, owner, LID, QP number, Q_Key, SL */
    MCSM_STATE_DRAIN,        /* GUID and port of an order of the administrator */
    MCSM_STATE_HOLD,         /* GUID and port of both ends, milliseconds left, holds in a row */
    MCSM_STATE_KINDS
};

struct mcsm_standbys;
struct mcsm_standby;

/* The functions of the owner of a kind of record. send and clear may be NULL: then the functions of
 * another kind do both. */
struct mcsm_state_ops {
    enum mcsm_state_kind kind;
    /* Sends all of this kind to a new standby. */
    void (*send)(void *arg, struct mcsm_standbys *standbys, struct mcsm_standby *to);
    void (*take)(void *arg, bool gone, const uint8_t *payload); /* a record of the master came */
    void (*clear)(void *arg); /* forgets all of this kind: the records of a master begin */
};

/** `mads` are the requests to standbys. The daemon passes answers of the class MCSM_CLASS_STATE to
 * `mads`, and all other MADs of this class to mcsm_standbys_receive(). */
struct mcsm_standbys *mcsm_standbys_new(struct mcsm_sm *sm, struct mcsm_mads *mads);
void mcsm_standbys_free(struct mcsm_standbys *standbys);

/** Sets the functions of a kind. The object behind `arg` lives as long as records may come. */
void mcsm_standbys_offer(struct mcsm_standbys *standbys, const struct mcsm_state_ops *ops,
                         void *arg);

/** Sends a record to all standbys, or only to `only`; `gone`: the registration ends. Without a
 * standby, or if `standbys` is NULL, the function does nothing. */
void mcsm_standbys_send(struct mcsm_standbys *standbys, struct mcsm_standby *only,
                        enum mcsm_state_kind kind, bool gone,
                        const uint8_t payload[MCSM_STATE_PAYLOAD]);

/** Sends an answer to a host as soon as the standbys have the changes so far. */
void mcsm_standbys_answer(struct mcsm_standbys *standbys, const struct mcsm_addr *to,
                          const uint8_t *mad, size_t length);

/** Finds new standbys and sends beats; call it each second. */
void mcsm_standbys_run(struct mcsm_standbys *standbys);

/** A HELLO or a record of another manager came. */
void mcsm_standbys_receive(struct mcsm_standbys *standbys, const struct mcsm_addr *from,
                           const uint8_t *mad);

/** The manager has a new state. Returns whether the manager is the new master and has all
 * registrations of the former master. */
bool mcsm_standbys_state(struct mcsm_standbys *standbys, uint8_t state);

/** Whether a standby has all registrations. */
bool mcsm_standbys_ready(const struct mcsm_standbys *standbys, uint64_t guid);

/** The number of standbys that have all registrations. */
unsigned mcsm_standbys_live(const struct mcsm_standbys *standbys);

#endif

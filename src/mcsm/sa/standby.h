/*
 * Registrations on standby managers: the master sends each change of a group, member, service or
 * subscription to every standby of its cluster. If the master dies, the new master knows all
 * registrations, and hosts need not register again.
 *
 * A record is a MAD of a vendor's class (MCSM_CLASS_STATE), Set from the master, answered by the
 * standby. The master sends the next record after the answer to the last one, so records keep their
 * order. The answer to a host's request waits until every standby that is up to date has the
 * change. So a failure of the master alone loses no confirmed registration.
 *
 *     master                                             standby
 *       Get HELLO, challenge of the master         ->
 *                                                  <-    answer, challenge of the standby
 *       Set RECORD begin; then all registrations; end ->    forgets its own, takes these
 *       Set RECORD change                          ->
 *       Set RECORD beat, each second               ->    is up to date as long as these come
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

#include "inside.h"

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
    MCSM_STATE_KINDS
};

struct mcsm_standbys;
struct mcsm_standby;

/* What the files of registrations do for a kind of record. */
struct mcsm_state_ops {
    void (*send)(struct mcsm_sa *sa, struct mcsm_standby *to); /* all of this kind; NULL: none */
    void (*take)(struct mcsm_sa *sa, bool gone, const uint8_t *payload);
};

/** `ops` has an entry for each kind. `clear` forgets all registrations. */
struct mcsm_standbys *mcsm_standbys_new(const struct mcsm_state_ops *ops,
                                        void (*clear)(struct mcsm_sa *sa));
void mcsm_standbys_free(struct mcsm_standbys *standbys);

/** Sends a record to all standbys, or only to `only`; `gone`: the registration ends. Without a
 * standby it does nothing. */
void mcsm_standbys_send(struct mcsm_sa *sa, struct mcsm_standby *only, enum mcsm_state_kind kind,
                        bool gone, const uint8_t payload[MCSM_STATE_PAYLOAD]);

/** Sends an answer to a host as soon as the standbys have the changes so far. */
void mcsm_standbys_answer(struct mcsm_sa *sa, const struct mcsm_addr *to, const uint8_t *mad,
                          size_t length);

/** Finds new standbys and sends beats; call it each second. */
void mcsm_standbys_run(struct mcsm_sa *sa);

/* ---- a registration as a record, and back ---- */

/** Sends all registrations of a kind. */
void mcsm_groups_send(struct mcsm_sa *sa, struct mcsm_standby *to);
void mcsm_services_send(struct mcsm_sa *sa, struct mcsm_standby *to);
void mcsm_subscriptions_send(struct mcsm_sa *sa, struct mcsm_standby *to);

/** Takes a record of the master. */
void mcsm_group_take(struct mcsm_sa *sa, bool gone, const uint8_t *payload);
void mcsm_member_take(struct mcsm_sa *sa, bool gone, const uint8_t *payload);
void mcsm_service_take(struct mcsm_sa *sa, bool gone, const uint8_t *payload);
void mcsm_subscription_take(struct mcsm_sa *sa, bool gone, const uint8_t *payload);

/** Forgets all groups but the permanent groups of partitions. */
void mcsm_groups_clear(struct mcsm_sa *sa);

#endif

#include "standby.h"

#include "sm/proof.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdlib.h>
#include <utlist.h>

enum {
    HELLO = 0x10, /* attributes */
    RECORD = 0x11,
    DATA = 32,  /* offset of the data in the MAD; the other offsets count from there */
    NUMBER = 0, /* of the record, or the challenge of a HELLO and of its answer */
    KIND = 8,
    GONE = 9,
    PROOF = 16, /* of the data that the kind uses, with zeros at this place */
    PAYLOAD = PROOF + MCSM_PROOF_SIZE,
    DATA_SIZE = PAYLOAD + MCSM_STATE_PAYLOAD,
    LAG = 5000 /* milliseconds that SMInfo may be newer than the last record */
};

/* A record in the queue of a standby. The first record was sent, and its answer has not come. */
struct record {
    struct record *prev, *next;
    uint64_t change; /* number of the change, among all changes of the master */
    uint8_t kind, gone;
    uint8_t payload[MCSM_STATE_PAYLOAD];
};

struct mcsm_standby {
    struct mcsm_standby *next;
    uint64_t guid, asked, challenge, number;
    struct mcsm_addr to;
    struct record *queue;
    bool live;   /* the standby has all registrations, except the records in its queue */
    bool ending; /* the answer to the request in flight frees the struct */
};

/* An answer to a host that waits for the standbys. */
struct answer {
    struct answer *prev, *next;
    uint64_t change;
    struct mcsm_addr to;
    size_t length;
    uint8_t mad[];
};

struct mcsm_standbys {
    struct mcsm_sm *sm;
    struct mcsm_mads *mads;
    struct {
        const struct mcsm_state_ops *ops; /* NULL: no owner */
        void *arg;
    } kinds[MCSM_STATE_KINDS];
    /* As the master. */
    struct mcsm_standby *list;
    struct answer *answers; /* oldest first */
    uint64_t changes;
    unsigned live; /* standbys that have all registrations */
    /* As a standby. */
    uint64_t offered, session, taken; /* challenges of ours, and the last record's number */
    uint64_t heard;                   /* time of the last received record */
    uint16_t master_lid;
    bool complete; /* all registrations of the master have come */
};

struct mcsm_standbys *mcsm_standbys_new(struct mcsm_sm *sm, struct mcsm_mads *mads)
{
    struct mcsm_standbys *standbys = calloc(1, sizeof(*standbys));

    if (standbys != NULL) {
        standbys->sm = sm;
        standbys->mads = mads;
    }
    return standbys;
}

void mcsm_standbys_offer(struct mcsm_standbys *standbys, const struct mcsm_state_ops *ops,
                         void *arg)
{
    standbys->kinds[ops->kind].ops = ops;
    standbys->kinds[ops->kind].arg = arg;
}

unsigned mcsm_standbys_live(const struct mcsm_standbys *standbys)
{
    return standbys->live;
}

static void free_queue(struct mcsm_standby *standby)
{
    struct record *record, *next;

    DL_FOREACH_SAFE(standby->queue, record, next) {
        free(record);
    }
    standby->queue = NULL;
}

void mcsm_standbys_free(struct mcsm_standbys *standbys)
{
    struct mcsm_standby *standby, *next;
    struct answer *answer, *after;

    if (standbys == NULL) {
        return;
    }
    LL_FOREACH_SAFE(standbys->list, standby, next) {
        free_queue(standby);
        free(standby);
    }
    DL_FOREACH_SAFE(standbys->answers, answer, after) {
        free(answer);
    }
    free(standbys);
}

/* ---- proofs ---- */

/* How many bytes of its payload a kind uses. The others are not proven: ibsim does not carry the
 * last bytes of a MAD. */
static size_t used(uint8_t kind)
{
    static const uint8_t sizes[MCSM_STATE_KINDS] = {[MCSM_STATE_GROUP] = 52,
                                                    [MCSM_STATE_MEMBER] = 42,
                                                    [MCSM_STATE_SERVICE] = MCSM_STATE_PAYLOAD,
                                                    [MCSM_STATE_SUBSCRIPTION] = 55,
                                                    [MCSM_STATE_DRAIN] = 9,
                                                    [MCSM_STATE_HOLD] = 30};

    return kind < MCSM_STATE_KINDS ? sizes[kind] : 0;
}

static void prove(uint64_t key, enum mcsm_role role, uint64_t challenge, const uint8_t *data,
                  uint8_t proof[MCSM_PROOF_SIZE])
{
    uint8_t secret[8], text[16 + DATA_SIZE] = "registr", mac[EVP_MAX_MD_SIZE];

    mcsm_put64(secret, 0, key);
    text[7] = role;
    mcsm_put64(text, 8, challenge);
    memcpy(text + 16, data, PAYLOAD + used(data[KIND]));
    memset(text + 16 + PROOF, 0, MCSM_PROOF_SIZE);
    if (HMAC(EVP_sha256(), secret, sizeof(secret), text, sizeof(text), mac, NULL) == NULL) {
        mcsm_error("libcrypto refuses HMAC-SHA256: registrations cannot go to a standby");
        abort();
    }
    memcpy(proof, mac, MCSM_PROOF_SIZE);
}

static bool is_proven(uint64_t key, enum mcsm_role role, uint64_t challenge, const uint8_t *data)
{
    uint8_t proof[MCSM_PROOF_SIZE];

    prove(key, role, challenge, data, proof);
    return CRYPTO_memcmp(proof, data + PROOF, sizeof(proof)) == 0;
}

/* ---- the master ---- */

/* Sends the answers whose changes all standbys have. */
static void release_answers(struct mcsm_standbys *standbys)
{
    const struct mcsm_standby *standby;
    uint64_t oldest = UINT64_MAX;

    LL_FOREACH(standbys->list, standby) {
        if (standby->live && standby->queue != NULL && standby->queue->change < oldest) {
            oldest = standby->queue->change;
        }
    }
    while (standbys->answers != NULL && standbys->answers->change < oldest) {
        struct answer *answer = standbys->answers;

        DL_DELETE(standbys->answers, answer);
        mcsm_mad_send(standbys->mads, &answer->to, answer->mad, answer->length);
        free(answer);
    }
}

static void drop(struct mcsm_standbys *standbys, struct mcsm_standby *standby)
{
    standbys->live -= standby->live;
    LL_DELETE(standbys->list, standby);
    free_queue(standby);
    free(standby);
    release_answers(standbys);
}

static struct mcsm_standby *find(const struct mcsm_standbys *standbys, uint64_t guid)
{
    struct mcsm_standby *standby;

    LL_SEARCH_SCALAR(standbys->list, standby, guid, guid);
    return standby;
}

bool mcsm_standbys_ready(const struct mcsm_standbys *standbys, uint64_t guid)
{
    const struct mcsm_standby *standby = find(standbys, guid);

    return standby != NULL && standby->live;
}

static void start_mad(uint8_t *mad, uint8_t method, uint16_t attr)
{
    memset(mad, 0, MCSM_MAD_SIZE);
    mad[0] = mad[2] = 1;
    mad[MCSM_MAD_CLASS] = MCSM_CLASS_STATE;
    mad[MCSM_MAD_METHOD] = method;
    mcsm_put16(mad, MCSM_MAD_ATTR, attr);
}

static void send_first(struct mcsm_standbys *standbys, struct mcsm_standby *standby);

static void taken(void *arg, void *arg2, const uint8_t *mad, unsigned status)
{
    struct mcsm_standby *standby = arg2;
    struct mcsm_standbys *standbys = arg;
    struct record *record = standby->queue;

    (void)status;
    if (standby->ending) {
        drop(standbys, standby);
        return;
    }
    if (mad == NULL || !is_proven(standbys->sm->config->sm_key, MCSM_ROLE_ANSWER,
                                  standby->challenge, mad + DATA)) {
        mcsm_warn("standby 0x%016lx does not take registrations, and gets all of them later",
                  standby->guid);
        drop(standbys, standby);
        return;
    }
    if (record->kind == MCSM_STATE_END) {
        standby->live = true;
        standbys->live++;
        mcsm_info("standby 0x%016lx has all registrations", standby->guid);
        if (standbys->sm->election.waiting != 0) {
            mcsm_sm_sweep(standbys->sm); /* its end hands over */
        }
    }
    DL_DELETE(standby->queue, record);
    free(record);
    send_first(standbys, standby);
    release_answers(standbys);
}

static void send_first(struct mcsm_standbys *standbys, struct mcsm_standby *standby)
{
    const struct record *record = standby->queue;
    uint8_t mad[MCSM_MAD_SIZE];

    if (record == NULL) {
        return;
    }
    start_mad(mad, MCSM_SET, RECORD);
    mcsm_put64(mad + DATA, NUMBER, ++standby->number);
    mad[DATA + KIND] = record->kind;
    mad[DATA + GONE] = record->gone;
    memcpy(mad + DATA + PAYLOAD, record->payload, MCSM_STATE_PAYLOAD);
    prove(standbys->sm->config->sm_key, MCSM_ROLE_ORDER, standby->challenge, mad + DATA,
          mad + DATA + PROOF);
    mcsm_mad_request(standbys->mads, &standby->to, mad, taken, standbys, standby);
}

static void append(struct mcsm_standbys *standbys, struct mcsm_standby *standby,
                   enum mcsm_state_kind kind, bool gone, const uint8_t *payload)
{
    struct record *record = calloc(1, sizeof(*record));
    bool idle = standby->queue == NULL;

    if (record == NULL) {
        /* The standby refuses the next record, because its number is too high. */
        mcsm_error("out of memory: standby 0x%016lx misses a registration", standby->guid);
        standby->number++;
        return;
    }
    record->change = standbys->changes;
    record->kind = kind;
    record->gone = gone;
    if (payload != NULL) {
        memcpy(record->payload, payload, sizeof(record->payload));
    }
    DL_APPEND(standby->queue, record);
    if (idle) {
        send_first(standbys, standby);
    }
}

void mcsm_standbys_send(struct mcsm_standbys *standbys, struct mcsm_standby *only,
                        enum mcsm_state_kind kind, bool gone,
                        const uint8_t payload[MCSM_STATE_PAYLOAD])
{
    struct mcsm_standby *standby;

    if (standbys == NULL) {
        return; /* the owner of the record is only just being made, or ends */
    }
    standbys->changes++;
    if (only != NULL) {
        append(standbys, only, kind, gone, payload);
        return;
    }
    LL_FOREACH(standbys->list, standby) {
        if (standby->challenge != 0 && !standby->ending) {
            append(standbys, standby, kind, gone, payload);
        }
    }
}

void mcsm_standbys_answer(struct mcsm_standbys *standbys, const struct mcsm_addr *to,
                          const uint8_t *mad, size_t length)
{
    struct answer *answer = standbys->list != NULL ? calloc(1, sizeof(*answer) + length) : NULL;

    if (answer == NULL) {
        mcsm_mad_send(standbys->mads, to, mad, length);
        return;
    }
    answer->change = standbys->changes;
    answer->to = *to;
    answer->length = length;
    memcpy(answer->mad, mad, length);
    DL_APPEND(standbys->answers, answer);
    release_answers(standbys);
}

static void greeted(void *arg, void *arg2, const uint8_t *mad, unsigned status)
{
    struct mcsm_standby *standby = arg2;
    struct mcsm_standbys *standbys = arg;

    (void)status;
    if (standby->ending || mad == NULL ||
        !is_proven(standbys->sm->config->sm_key, MCSM_ROLE_ANSWER, standby->asked, mad + DATA)) {
        mcsm_debug("manager 0x%016lx takes no registrations", standby->guid);
        drop(standbys, standby);
        return;
    }
    standby->challenge = mcsm_get64(mad + DATA, NUMBER);
    mcsm_standbys_send(standbys, standby, MCSM_STATE_BEGIN, false, NULL);
    for (int kind = 0; kind < MCSM_STATE_KINDS; kind++) {
        const struct mcsm_state_ops *ops = standbys->kinds[kind].ops;

        if (ops != NULL && ops->send != NULL) {
            ops->send(standbys->kinds[kind].arg, standbys, standby);
        }
    }
    mcsm_standbys_send(standbys, standby, MCSM_STATE_END, false, NULL);
}

static void greet(struct mcsm_standbys *standbys, const struct mcsm_rival *peer)
{
    const struct mcsm_port *port = mcsm_fabric_find_port(standbys->sm->fabric, peer->guid);
    const struct mcsm_port *own = standbys->sm->fabric->own_port;
    uint8_t mad[MCSM_MAD_SIZE];
    struct mcsm_standby *standby;

    if (port == NULL || own == NULL || port->lid == 0) {
        return;
    }
    standby = calloc(1, sizeof(*standby));
    if (standby == NULL) {
        return;
    }
    standby->guid = peer->guid;
    standby->asked = mcsm_random();
    standby->to = (struct mcsm_addr){.lid = port->lid,
                                     .qpn = 1,
                                     .qkey = 0x80010000,
                                     .sl = mcsm_sm_lane(standbys->sm, own, port),
                                     .agent = MCSM_CLASS_STATE};
    LL_PREPEND(standbys->list, standby);
    start_mad(mad, MCSM_GET, HELLO);
    mcsm_put64(mad + DATA, NUMBER, standby->asked);
    mcsm_mad_request(standbys->mads, &standby->to, mad, greeted, standbys, standby);
}

void mcsm_standbys_run(struct mcsm_standbys *standbys)
{
    struct mcsm_standby *standby;
    const struct mcsm_rival *peer;

    if (standbys->sm->election.state != MCSM_SM_MASTER_STATE) {
        return;
    }
    LL_FOREACH(standbys->sm->election.peers, peer) {
        if (peer->state == MCSM_SM_STANDBY_STATE && find(standbys, peer->guid) == NULL) {
            greet(standbys, peer);
        }
    }
    LL_FOREACH(standbys->list, standby) {
        if (standby->live && standby->queue == NULL) {
            append(standbys, standby, MCSM_STATE_BEAT, false, NULL);
        }
    }
}

/* ---- the standby ---- */

static void clear(struct mcsm_standbys *standbys)
{
    for (int kind = 0; kind < MCSM_STATE_KINDS; kind++) {
        const struct mcsm_state_ops *ops = standbys->kinds[kind].ops;

        if (ops != NULL && ops->clear != NULL) {
            ops->clear(standbys->kinds[kind].arg);
        }
    }
}

static void take(struct mcsm_standbys *standbys, uint16_t from_lid, const uint8_t *data)
{
    uint8_t kind = data[KIND];

    standbys->taken = mcsm_get64(data, NUMBER);
    standbys->heard = mcsm_now();
    standbys->master_lid = from_lid;
    if (kind == MCSM_STATE_BEGIN) {
        standbys->complete = false;
        clear(standbys);
    } else if (kind == MCSM_STATE_END) {
        standbys->complete = true;
    } else if (kind < MCSM_STATE_KINDS && standbys->kinds[kind].ops != NULL) {
        standbys->kinds[kind].ops->take(standbys->kinds[kind].arg, data[GONE], data + PAYLOAD);
    }
}

/* Whether the record is the master's next one, or the last one again because our answer was lost.
 * The first record of a challenge begins anew, and only a standby begins. */
static bool accept(struct mcsm_standbys *standbys, const uint8_t *data, uint64_t *challenge_p)
{
    uint64_t key = standbys->sm->config->sm_key, number = mcsm_get64(data, NUMBER);

    *challenge_p = standbys->session;
    if (standbys->session != 0 && is_proven(key, MCSM_ROLE_ORDER, standbys->session, data)) {
        return number == standbys->taken || number == standbys->taken + 1;
    }
    *challenge_p = standbys->offered;
    if (standbys->sm->election.state != MCSM_SM_STANDBY_STATE || standbys->offered == 0 ||
        number != 1 || data[KIND] != MCSM_STATE_BEGIN ||
        !is_proven(key, MCSM_ROLE_ORDER, standbys->offered, data)) {
        return false;
    }
    standbys->session = standbys->offered;
    standbys->offered = standbys->taken = 0;
    return true;
}

void mcsm_standbys_receive(struct mcsm_standbys *standbys, const struct mcsm_addr *from,
                           const uint8_t *mad)
{
    uint16_t attr = mcsm_get16(mad, MCSM_MAD_ATTR);
    uint8_t state = standbys->sm->election.state, answer[MCSM_MAD_SIZE];
    uint64_t challenge;

    /* Between HANDOVER and ACKNOWLEDGE, the old master still sends records to the new one. */
    if (state != MCSM_SM_STANDBY_STATE && state != MCSM_SM_MASTER_STATE) {
        return;
    }
    memcpy(answer, mad, sizeof(answer));
    answer[MCSM_MAD_METHOD] = MCSM_GET | MCSM_RESPONSE;
    if (attr == HELLO && mad[MCSM_MAD_METHOD] == MCSM_GET && state == MCSM_SM_STANDBY_STATE) {
        challenge = mcsm_get64(mad + DATA, NUMBER);
        standbys->offered = mcsm_random();
        mcsm_put64(answer + DATA, NUMBER, standbys->offered);
    } else if (attr == RECORD && mad[MCSM_MAD_METHOD] == MCSM_SET &&
               accept(standbys, mad + DATA, &challenge)) {
        if (mcsm_get64(mad + DATA, NUMBER) != standbys->taken) {
            take(standbys, from->lid, mad + DATA);
        }
    } else {
        mcsm_debug("a record of registrations from LID %u is refused", from->lid);
        return;
    }
    prove(standbys->sm->config->sm_key, MCSM_ROLE_ANSWER, challenge, answer + DATA,
          answer + DATA + PROOF);
    mcsm_mad_send(standbys->mads, from, answer, sizeof(answer));
}

static void end_list(struct mcsm_standbys *standbys)
{
    struct mcsm_standby *standby, *next;

    LL_FOREACH_SAFE(standbys->list, standby, next) {
        if (standby->challenge == 0 || standby->queue != NULL) {
            standbys->live -= standby->live;
            standby->live = false;
            standby->ending = true; /* its request in flight refers to it */
        } else {
            drop(standbys, standby);
        }
    }
    release_answers(standbys);
}

bool mcsm_standbys_state(struct mcsm_standbys *standbys, uint8_t state)
{
    bool inherited;

    if (state != MCSM_SM_MASTER_STATE) {
        standbys->sm->sweep.former_master = 0;
        end_list(standbys);
        return false;
    }
    inherited = standbys->complete && standbys->heard + LAG >= standbys->sm->election.master_alive;
    if (inherited) {
        standbys->sm->sweep.former_master = standbys->master_lid;
    }
    standbys->complete = false;
    return inherited;
}

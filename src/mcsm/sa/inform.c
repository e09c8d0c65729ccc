/* InformInfo: subscriptions to traps; and Reports to the subscribers. */
#include "part.h"

#include <stdlib.h>

enum {
    II_LID_BEGIN = 16,
    II_LID_END = 18,
    II_GENERIC = 22,
    II_SUBSCRIBE = 23,
    II_TYPE = 24,
    II_TRAP = 26,
    II_QPN = 28,
    II_PRODUCER = 33,
    II_SIZE = 36,
    NOTICE_SIZE = 80,
    NOTICE_GID = 16, /* in the data of traps 64 to 67 */
    NOTICE_ISSUER_GID = 64,
    ALL = 0xffff
};

/* InformInfoRecord. */
static const struct mcsm_component parts[] = {
    {0, 128}, {128, 16}, {144, 48}, {192, 128}, {320, 16}, {336, 16}, {352, 16}, {368, 8},
    {376, 8}, {384, 16}, {400, 16}, {416, 24},  {440, 3},  {443, 5},  {448, 8},  {456, 24}};

static void send_record(struct mcsm_sa *sa, struct mcsm_standby *to,
                        const struct mcsm_subscription *subscription, bool gone)
{
    uint8_t payload[MCSM_STATE_PAYLOAD] = {0};

    memcpy(payload, subscription->record, II_SIZE);
    mcsm_put64(payload, 36, subscription->owner);
    mcsm_put16(payload, 44, subscription->to.lid);
    mcsm_put32(payload, 46, subscription->to.qpn);
    mcsm_put32(payload, 50, subscription->to.qkey);
    payload[54] = subscription->to.sl;
    mcsm_standbys_send(sa->standbys, to, MCSM_STATE_SUBSCRIPTION, gone, payload);
}

/* Ends the subscription that *at points to. */
static void forget(struct mcsm_sa *sa, struct mcsm_subscription **at)
{
    struct mcsm_subscription *subscription = *at;

    send_record(sa, NULL, subscription, true);
    *at = subscription->next;
    free(subscription);
    sa->stats.subscriptions--;
}

/* Two requests are about the same subscription if they differ only in Subscribe and in the time of
 * response. */
static bool is_same(const struct mcsm_subscription *subscription, const struct mcsm_query *query)
{
    return subscription->owner == query->client->guid &&
           memcmp(subscription->record, query->data, II_SUBSCRIBE) == 0 &&
           memcmp(subscription->record + II_TYPE, query->data + II_TYPE, 7) == 0 && /* and QPN */
           memcmp(subscription->record + II_PRODUCER, query->data + II_PRODUCER, 3) == 0;
}

static void subscribe(struct mcsm_query *query, struct mcsm_subscription **at)
{
    struct mcsm_subscription *subscription = *at;

    if (subscription == NULL) {
        if (query->sa->stats.subscriptions >= MCSM_MAX_SUBSCRIPTIONS ||
            (subscription = calloc(1, sizeof(*subscription))) == NULL) {
            query->status = MCSM_SA_NO_RESOURCES;
            return;
        }
        *at = subscription;
        query->sa->stats.subscriptions++;
    } else {
        send_record(query->sa, NULL, subscription, true); /* standbys find it by its old request */
    }
    memcpy(subscription->record, query->data, II_SIZE);
    subscription->owner = query->client->guid;
    subscription->to = *query->from;
    send_record(query->sa, NULL, subscription, false);
}

static void serve(struct mcsm_query *query)
{
    struct mcsm_subscription **at = &query->sa->subscriptions, *found;

    if (query->attr == MCSM_SA_INFORM) {
        /* InformInfoRecord: subscriber GID, a number, and the InformInfo. */
        for (found = query->sa->subscriptions; found != NULL; found = found->next) {
            uint8_t record[60] = {0};

            mcsm_put64(record, 0, query->sa->sm->config->subnet_prefix);
            mcsm_put64(record, 8, found->owner);
            memcpy(record + 24, found->record, II_SIZE);
            if (query->method != MCSM_GET && query->method != MCSM_GET_TABLE) {
                query->status = MCSM_SA_BAD_METHOD_ATTR;
            } else if (mcsm_matches(query, record, parts, sizeof(parts) / sizeof(*parts))) {
                mcsm_answer_add(query, record);
            }
        }
        return;
    }
    if (query->method != MCSM_SET) {
        query->status = MCSM_SA_BAD_METHOD_ATTR;
        return;
    }
    while (*at != NULL && !is_same(*at, query)) {
        at = &(*at)->next;
    }
    if (query->data[II_SUBSCRIBE] == 1) {
        subscribe(query, at);
    } else if (*at != NULL) {
        forget(query->sa, at);
    } else {
        query->status = MCSM_SA_INVALID;
    }
    if (query->status == 0) {
        mcsm_answer_add(query, query->data);
    }
}

static void drop(struct mcsm_sa *sa, uint64_t gone)
{
    struct mcsm_subscription **at = &sa->subscriptions;

    while (*at != NULL) {
        if (mcsm_sa_is_gone(sa, (*at)->owner, gone)) {
            forget(sa, at);
        } else {
            at = &(*at)->next;
        }
    }
}

/* ---- records of standby managers ---- */

static void send_all(void *arg, struct mcsm_standbys *standbys, struct mcsm_standby *to)
{
    struct mcsm_sa *sa = arg;

    (void)standbys;
    for (const struct mcsm_subscription *subscription = sa->subscriptions; subscription != NULL;
         subscription = subscription->next) {
        send_record(sa, to, subscription, false);
    }
}

/* The request and the owner name a subscription. */
static void take(void *arg, bool gone, const uint8_t *payload)
{
    struct mcsm_sa *sa = arg;
    struct mcsm_subscription **at = &sa->subscriptions, *subscription;

    while (*at != NULL && (memcmp((*at)->record, payload, II_SIZE) != 0 ||
                           (*at)->owner != mcsm_get64(payload, 36))) {
        at = &(*at)->next;
    }
    subscription = *at;
    if (gone) {
        if (subscription != NULL) {
            forget(sa, at);
        }
        return;
    }
    if (subscription == NULL && (subscription = *at = calloc(1, sizeof(*subscription))) != NULL) {
        sa->stats.subscriptions++;
    }
    if (subscription != NULL) {
        memcpy(subscription->record, payload, II_SIZE);
        subscription->owner = mcsm_get64(payload, 36);
        subscription->to = (struct mcsm_addr){.lid = mcsm_get16(payload, 44),
                                              .qpn = mcsm_get32(payload, 46),
                                              .qkey = mcsm_get32(payload, 50),
                                              .sl = payload[54],
                                              .agent = MCSM_CLASS_SA};
    }
}

static void end(struct mcsm_sa *sa)
{
    while (sa->subscriptions != NULL) {
        forget(sa, &sa->subscriptions);
    }
}

static void clear(void *arg)
{
    end(arg);
}

/* ---- Reports ---- */

static bool is_wanted(const struct mcsm_subscription *subscription, const uint8_t *notice)
{
    static const uint8_t any_producer[3] = {0xff, 0xff, 0xff};
    const uint8_t *record = subscription->record;
    uint16_t type = mcsm_get16(record, II_TYPE), trap = mcsm_get16(record, II_TRAP);
    uint16_t from = mcsm_get16(record, II_LID_BEGIN), to = mcsm_get16(record, II_LID_END);
    uint16_t issuer = mcsm_get16(notice, 6);

    if (!record[II_GENERIC] != !(notice[0] & 0x80)) {
        return false;
    }
    if (type != ALL && type != (notice[0] & 0x7f)) {
        return false;
    }
    if (trap != ALL && trap != mcsm_get16(notice, 4)) {
        return false;
    }
    if (memcmp(record + II_PRODUCER, any_producer, 3) != 0 &&
        memcmp(record + II_PRODUCER, notice + 1, 3) != 0) {
        return false;
    }
    if (mcsm_get64(record, 0) != 0 || mcsm_get64(record, 8) != 0) {
        return memcmp(record, notice + NOTICE_ISSUER_GID, 16) == 0;
    }
    return from == ALL || from == 0 || (issuer >= from && issuer <= to);
}

static void reported(void *arg, void *arg2, const uint8_t *mad, unsigned status)
{
    (void)arg;
    (void)arg2;
    if (mad == NULL) {
        mcsm_debug("a subscriber does not acknowledge a Report (status %u)", status);
    }
}

static void report(struct mcsm_sa *sa, const uint8_t *notice)
{
    uint8_t mad[MCSM_MAD_SIZE] = {1, MCSM_CLASS_SA, 2, MCSM_REPORT};

    mcsm_put16(mad, MCSM_MAD_ATTR, MCSM_SA_NOTICE);
    memcpy(mad + MCSM_SA_DATA, notice, NOTICE_SIZE);
    for (const struct mcsm_subscription *subscription = sa->subscriptions; subscription != NULL;
         subscription = subscription->next) {
        if (!is_wanted(subscription, notice) || mcsm_mads_pending(sa->reports) > 1024) {
            continue;
        }
        sa->stats.reports++;
        mcsm_mad_request(sa->reports, &subscription->to, mad, reported, sa, NULL);
    }
}

void mcsm_sa_notice(struct mcsm_sa *sa, const uint8_t notice[80])
{
    uint8_t complete[NOTICE_SIZE];
    const struct mcsm_port *issuer = mcsm_fabric_by_lid(sa->sm->fabric, mcsm_get16(notice, 6));

    /* A trap that comes by SMP has no issuer GID: 64 bytes of it were sent. */
    memcpy(complete, notice, 64);
    memset(complete + 64, 0, 16);
    if (issuer != NULL) {
        mcsm_put64(complete, NOTICE_ISSUER_GID, sa->sm->config->subnet_prefix);
        mcsm_put64(complete, NOTICE_ISSUER_GID + 8, issuer->guid);
    }
    report(sa, complete);
}

void mcsm_sa_gid_notice(struct mcsm_sa *sa, unsigned trap, const uint8_t gid[16])
{
    uint8_t notice[NOTICE_SIZE] = {0x80 | 3, 0, 0,
                                   4}; /* generic, SM's own; producer: class manager */
    const struct mcsm_port *own = sa->sm->fabric->own_port;

    mcsm_put16(notice, 4, trap);
    mcsm_put16(notice, 6, own ? own->lid : 0);
    memcpy(notice + NOTICE_GID, gid, 16);
    mcsm_put64(notice, NOTICE_ISSUER_GID, sa->sm->config->subnet_prefix);
    mcsm_put64(notice, NOTICE_ISSUER_GID + 8, sa->sm->own_guid);
    report(sa, notice);
}

static const struct mcsm_sa_record records[] = {{MCSM_SA_INFORM_INFO, II_SIZE, .serve = serve},
                                                {MCSM_SA_INFORM, 60, .serve = serve}};
static const struct mcsm_state_ops states[] = {{MCSM_STATE_SUBSCRIPTION, send_all, take, clear}};

const struct mcsm_sa_part mcsm_sa_subscriptions = {.records = records,
                                                   .record_count = 2,
                                                   .states = states,
                                                   .state_count = 1,
                                                   .end = end,
                                                   .drop = drop};

/* Requests come in, answers go out. */
#include "standby.h"

#include <errno.h>
#include <stdlib.h>

static const struct {
    uint16_t attr;
    uint16_t size;
    void (*serve)(struct mcsm_query *);
} attributes[] = {
    {MCSM_SA_NODE, 108, mcsm_sa_fabric},        {MCSM_SA_PORT, 68, mcsm_sa_fabric},
    {MCSM_SA_SWITCH, 24, mcsm_sa_fabric},       {MCSM_SA_LFT, 72, mcsm_sa_fabric},
    {MCSM_SA_MFT, 72, mcsm_sa_fabric},          {MCSM_SA_LINK, 8, mcsm_sa_fabric},
    {MCSM_SA_SM_INFO, 28, mcsm_sa_fabric},      {MCSM_SA_GUID_INFO, 72, mcsm_sa_fabric},
    {MCSM_SA_PKEY, 72, mcsm_sa_fabric},         {MCSM_SA_PATH, 64, mcsm_sa_path},
    {MCSM_SA_MC_MEMBER, 52, mcsm_sa_mc_member}, {MCSM_SA_SERVICE, 176, mcsm_sa_service},
    {MCSM_SA_INFORM_INFO, 36, mcsm_sa_inform},  {MCSM_SA_INFORM, 60, mcsm_sa_inform},
    {MCSM_SA_SL2VL, 16, mcsm_sa_fabric},        {MCSM_SA_VLARB, 72, mcsm_sa_fabric},
};

static const struct mcsm_state_ops state_ops[MCSM_STATE_KINDS] = {
    [MCSM_STATE_GROUP] = {mcsm_groups_send, mcsm_group_take}, /* and their members */
    [MCSM_STATE_MEMBER] = {NULL, mcsm_member_take},
    [MCSM_STATE_SERVICE] = {mcsm_services_send, mcsm_service_take},
    [MCSM_STATE_SUBSCRIPTION] = {mcsm_subscriptions_send, mcsm_subscription_take}};

static void clear(struct mcsm_sa *sa)
{
    mcsm_groups_clear(sa);
    mcsm_services_free(sa);
    mcsm_subscriptions_free(sa);
}

struct mcsm_sa *mcsm_sa_new(struct mcsm_sm *sm, struct mcsm_mads *reports)
{
    struct mcsm_sa *sa = calloc(1, sizeof(*sa));

    if (sa == NULL) {
        return NULL;
    }
    sa->sm = sm;
    sa->reports = reports;
    if (mcsm_groups_start(sa) < 0 || (sa->standbys = mcsm_standbys_new(state_ops, clear)) == NULL) {
        mcsm_sa_free(sa);
        return NULL;
    }
    return sa;
}

void mcsm_sa_free(struct mcsm_sa *sa)
{
    if (sa == NULL) {
        return;
    }
    mcsm_standbys_free(sa->standbys);
    sa->standbys = NULL;
    mcsm_groups_free(sa);
    mcsm_services_free(sa);
    mcsm_subscriptions_free(sa);
    free(sa);
}

/* A number by which codes of a scale are compared; 0: there is no such code. */
static unsigned order_of(enum mcsm_scale scale, uint8_t code)
{
    switch (scale) {
    case MCSM_SCALE_RATE:
        return mcsm_rate_speed(code);
    case MCSM_SCALE_MTU:
        return code <= 5 ? code : 0;
    default:
        return code + 1u;
    }
}

bool mcsm_select(enum mcsm_scale scale, uint8_t asked, uint8_t best, uint8_t *chosen_p)
{
    uint8_t wanted = asked & 0x3f;

    *chosen_p = best;
    if (asked >> 6 == 3) {
        return true;
    }
    if (order_of(scale, wanted) == 0) {
        return false;
    }
    switch (asked >> 6) {
    case 0:
        return order_of(scale, best) > order_of(scale, wanted);
    case 1:
        if (order_of(scale, best) < order_of(scale, wanted)) {
            return true;
        }
        if (scale == MCSM_SCALE_LIFE && wanted == 0) {
            return false;
        }
        *chosen_p = scale == MCSM_SCALE_RATE ? mcsm_rate_below(wanted) : wanted - 1;
        return order_of(scale, *chosen_p) > 0;
    default:
        *chosen_p = wanted;
        return order_of(scale, best) >= order_of(scale, wanted);
    }
}

static bool bit(const uint8_t *data, unsigned index)
{
    return data[index / 8] >> (7 - index % 8) & 1;
}

bool mcsm_matches(const struct mcsm_query *query, const uint8_t *record,
                  const struct mcsm_component *components, size_t count)
{
    if (count < 64 && query->mask >> count != 0) {
        return false; /* a component that no record of this kind has */
    }
    for (size_t i = 0; i < count; i++) {
        if (!mcsm_asks(query, i)) {
            continue;
        }
        for (unsigned k = 0; k < components[i].length; k++) {
            unsigned at = components[i].from + k;

            if (bit(query->data, at) != bit(record, at)) {
                return false;
            }
        }
    }
    return true;
}

static size_t step(const struct mcsm_query *query)
{
    return (query->record_size + 7) / 8 * 8;
}

bool mcsm_answer_add(struct mcsm_query *query, const uint8_t *record)
{
    if (query->count == query->room) {
        size_t room = query->room ? query->room * 2 : 16;
        uint8_t *more;

        if (room > 2 * MCSM_MAX_RECORDS) {
            query->status = MCSM_SA_NO_RESOURCES;
            return false;
        }
        more = realloc(query->out, room * step(query));
        if (more == NULL) {
            query->status = MCSM_SA_NO_RESOURCES;
            return false;
        }
        query->out = more;
        query->room = room;
    }
    memset(query->out + query->count * step(query), 0, step(query));
    memcpy(query->out + query->count++ * step(query), record, query->record_size);
    return true;
}

static bool is_table(uint8_t method)
{
    return method == MCSM_GET_TABLE;
}

/* Get answers one record; none or several are errors. GetTable answers any number, by RMPP. */
static void send_answer(struct mcsm_query *query)
{
    bool table = is_table(query->method);
    size_t bytes = query->status == 0 ? query->count * step(query) : 0;
    size_t length = MCSM_SA_DATA + bytes;
    uint8_t *answer;

    if (length < MCSM_MAD_SIZE) {
        length = MCSM_MAD_SIZE;
    }
    answer = calloc(1, length);
    if (answer == NULL) {
        return;
    }
    memcpy(answer, query->mad, MCSM_SA_DATA);
    answer[MCSM_MAD_METHOD] = query->method | MCSM_RESPONSE;
    if (query->method == MCSM_SET) {
        answer[MCSM_MAD_METHOD] = MCSM_GET | MCSM_RESPONSE;
    }
    mcsm_put16(answer, MCSM_MAD_STATUS, query->status);
    memset(answer + MCSM_SA_RMPP_VERSION, 0, 12);
    mcsm_put16(answer, MCSM_SA_ATTR_OFFSET, step(query) / 8);
    if (table) {
        answer[MCSM_SA_RMPP_VERSION] = 1;
        answer[MCSM_SA_RMPP_TYPE] = 1;
        answer[MCSM_SA_RMPP_FLAGS] = 1; /* active: the sender cuts the answer into segments */
        if (bytes <= MCSM_SA_DATA_SIZE) {
            answer[MCSM_SA_RMPP_FLAGS] = 7; /* first and last */
            mcsm_put32(answer, 28, 1);
            mcsm_put32(answer, 32, bytes + 20);
        }
    }
    if (bytes > 0) {
        memcpy(answer + MCSM_SA_DATA, query->out, bytes);
    } else if (query->status != 0) {
        query->sa->stats.refused++;
    }
    length = table ? MCSM_SA_DATA + bytes : length;
    if (query->method == MCSM_SET || query->method == MCSM_DELETE) {
        mcsm_standbys_answer(query->sa, query->from, answer, length);
    } else {
        mcsm_mad_send(query->sa->reports, query->from, answer, length);
    }
    free(answer);
}

static void class_port_info(struct mcsm_query *query)
{
    /* Base version 1, class version 2. */
    uint8_t record[80] = {1, 2};

    query->record_size = 72;
    mcsm_put16(record, 2, MCSM_SA_CAPABILITIES);
    /* CapabilityMask2: send-only full members; answers within 4.096 us * 2^18. */
    mcsm_put32(record, 4, 1u << 1 << 5 | 18);
    mcsm_answer_add(query, record);
}

static void serve(struct mcsm_query *query)
{
    if (query->attr == MCSM_SA_CLASS_PORT_INFO && query->method == MCSM_GET) {
        class_port_info(query);
        return;
    }
    for (size_t i = 0; i < sizeof(attributes) / sizeof(*attributes); i++) {
        if (attributes[i].attr == query->attr) {
            query->record_size = attributes[i].size;
            attributes[i].serve(query);
            return;
        }
    }
    query->status = MCSM_SA_BAD_METHOD_ATTR;
}

/*
 * Whether the key is valid. No key, and the public key that tools send, are valid, but do not make
 * the client trusted.
 */
static bool is_known_key(const struct mcsm_config *config, uint64_t key)
{
    return key == 0 || key == config->shown_sm_key || key == config->sm_key;
}

void mcsm_sa_receive(struct mcsm_sa *sa, const struct mcsm_addr *from, const uint8_t *mad,
                     size_t length)
{
    struct mcsm_addr to = *from;
    struct mcsm_query query = {.sa = sa, .from = &to, .mad = mad, .data = mad + MCSM_SA_DATA};

    sa->stats.requests++;
    to.agent = MCSM_CLASS_SA;
    to.qkey = 0x80010000; /* the well-known Q_Key of QP1 */
    query.method = mad[MCSM_MAD_METHOD];
    query.attr = mcsm_get16(mad, MCSM_MAD_ATTR);
    query.mask = mcsm_get64(mad, MCSM_SA_COMPONENTS);
    query.client = mcsm_fabric_by_lid(sa->sm->fabric, from->lid);
    if (length < MCSM_MAD_SIZE || mad[2] != 2 || (query.method & MCSM_RESPONSE)) {
        return;
    }
    if (sa->sm->election.state != MCSM_SM_MASTER_STATE) {
        return; /* the master answers */
    }
    if (!is_known_key(sa->sm->config, mcsm_get64(mad, MCSM_SA_SM_KEY))) {
        mcsm_debug("SA request of LID %u with a wrong SM_Key is dropped", from->lid);
        return;
    }
    if (query.client == NULL) {
        mcsm_debug("SA request of LID %u, which is not in this cluster, is ignored", from->lid);
        return;
    }
    if (query.method != MCSM_GET && query.method != MCSM_GET_TABLE && query.method != MCSM_SET &&
        query.method != MCSM_DELETE) {
        query.status = MCSM_SA_BAD_METHOD_ATTR;
    } else {
        serve(&query);
    }
    if (query.status == 0 && !is_table(query.method) && query.count != 1) {
        query.status = query.count ? MCSM_SA_TOO_MANY : MCSM_SA_NO_RECORDS;
    }
    send_answer(&query);
    free(query.out);
}

void mcsm_sa_run(struct mcsm_sa *sa, uint64_t now)
{
    if (now < sa->next_expiry) {
        return;
    }
    sa->next_expiry = now + 1000;
    mcsm_services_drop(sa, 0, now);
    mcsm_standbys_run(sa);
}

/* Subscribers hear of ports that come and go after the first sweep only. */
void mcsm_sa_swept(struct mcsm_sa *sa)
{
    sa->announced = true;
    if (sa->inherited && sa->sm->election.state == MCSM_SM_MASTER_STATE) {
        sa->inherited = false;
        mcsm_groups_prune(sa);
        mcsm_services_prune(sa);
        mcsm_subscriptions_prune(sa);
    }
}

void mcsm_sa_end_port(struct mcsm_sa *sa, uint64_t port_guid, bool there)
{
    uint8_t gid[16];

    if (!there) {
        mcsm_groups_drop(sa, port_guid);
        mcsm_services_drop(sa, port_guid, 0);
        mcsm_subscriptions_drop(sa, port_guid);
    }
    mcsm_put64(gid, 0, sa->sm->config->subnet_prefix);
    mcsm_put64(gid, 8, port_guid);
    if (sa->announced) {
        mcsm_sa_gid_notice(sa, there ? 64 : 65, gid);
    }
}

const struct mcsm_sa_counters *mcsm_sa_stats(const struct mcsm_sa *sa)
{
    return &sa->stats;
}

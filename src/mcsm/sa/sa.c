/* Requests come in, answers go out. */
#include "sa.h"

#include "part.h"

#include <stdlib.h>

static const struct mcsm_sa_part *const parts[] = {&mcsm_sa_fabric, &mcsm_sa_paths, &mcsm_sa_groups,
                                                   &mcsm_sa_services, &mcsm_sa_subscriptions};

enum { PARTS = sizeof(parts) / sizeof(*parts) };

static int start_part(struct mcsm_sa *sa, struct mcsm_standbys *standbys,
                      const struct mcsm_sa_part *part)
{
    for (size_t i = 0; i < part->state_count; i++) {
        mcsm_standbys_offer(standbys, &part->states[i], sa);
    }
    return part->start != NULL ? part->start(sa) : 0;
}

struct mcsm_sa *mcsm_sa_new(struct mcsm_sm *sm, struct mcsm_mads *reports,
                            struct mcsm_standbys *standbys)
{
    struct mcsm_sa *sa = calloc(1, sizeof(*sa));

    if (sa == NULL) {
        return NULL;
    }
    sa->sm = sm;
    sa->reports = reports;
    for (int i = 0; i < PARTS; i++) {
        if (start_part(sa, standbys, parts[i]) < 0) {
            mcsm_sa_free(sa);
            return NULL;
        }
    }
    sa->standbys = standbys;
    return sa;
}

void mcsm_sa_free(struct mcsm_sa *sa)
{
    if (sa == NULL) {
        return;
    }
    sa->standbys = NULL; /* standbys keep the registrations */
    for (int i = 0; i < PARTS; i++) {
        if (parts[i]->end != NULL) {
            parts[i]->end(sa);
        }
    }
    free(sa);
}

static bool is_table(uint8_t method)
{
    return method == MCSM_GET_TABLE;
}

/* Get answers one record; none or several are errors. GetTable answers any number, by RMPP. */
static void send_answer(struct mcsm_query *query)
{
    bool table = is_table(query->method);
    size_t bytes = query->status == 0 ? query->count * mcsm_answer_step(query) : 0;
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
    mcsm_put16(answer, MCSM_SA_ATTR_OFFSET, mcsm_answer_step(query) / 8);
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
        mcsm_standbys_answer(query->sa->standbys, query->from, answer, length);
    } else {
        mcsm_mad_send(query->sa->reports, query->from, answer, length);
    }
    free(answer);
}

static void class_port_info(struct mcsm_query *query)
{
    /* Base version 1, class version 2. */
    uint8_t record[80] = {1, 2};
    bool rules = query->sa->sm->config->qos.rule_count > 0;
    uint32_t more = MCSM_SA_CAPABILITIES2 | (rules ? MCSM_SA_QOS : 0);

    query->record_size = 72;
    mcsm_put16(record, 2, MCSM_SA_CAPABILITIES);
    mcsm_put32(record, 4, more << 5 | 18); /* answers within 4.096 us * 2^18 */
    mcsm_answer_add(query, record);
}

static void serve_by(struct mcsm_query *query, const struct mcsm_sa_record *record)
{
    struct mcsm_node *node, *next;

    query->record_size = record->size;
    if (record->serve != NULL) {
        record->serve(query);
        return;
    }
    if (query->method != MCSM_GET && query->method != MCSM_GET_TABLE) {
        query->status = MCSM_SA_BAD_METHOD_ATTR;
        return;
    }
    HASH_ITER(hh, query->sa->sm->fabric->nodes, node, next) {
        for (int p = 0; p <= node->nports && query->status == 0; p++) {
            record->add(query, &node->ports[p]);
        }
    }
}

static void serve(struct mcsm_query *query)
{
    if (query->attr == MCSM_SA_CLASS_PORT_INFO && query->method == MCSM_GET) {
        class_port_info(query);
        return;
    }
    for (int i = 0; i < PARTS; i++) {
        for (size_t k = 0; k < parts[i]->record_count; k++) {
            if (parts[i]->records[k].attr == query->attr) {
                serve_by(query, &parts[i]->records[k]);
                return;
            }
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
    for (int i = 0; i < PARTS; i++) {
        if (parts[i]->expire != NULL) {
            parts[i]->expire(sa, now);
        }
    }
    mcsm_standbys_run(sa->standbys);
}

void mcsm_sa_state(struct mcsm_sa *sa, uint8_t state)
{
    if (!mcsm_standbys_state(sa->standbys, state)) {
        return;
    }
    sa->inherited = true;
    mcsm_info("the registrations of the former master are known: %u groups, %u members, %u "
              "services, %u subscriptions",
              sa->stats.groups, sa->stats.members, sa->stats.services, sa->stats.subscriptions);
}

static void drop(struct mcsm_sa *sa, uint64_t gone)
{
    for (int i = 0; i < PARTS; i++) {
        if (parts[i]->drop != NULL) {
            parts[i]->drop(sa, gone);
        }
    }
}

/* Subscribers hear of ports that come and go after the first sweep only. */
void mcsm_sa_swept(struct mcsm_sa *sa)
{
    sa->announced = true;
    if (!sa->inherited || sa->sm->election.state != MCSM_SM_MASTER_STATE) {
        return;
    }
    sa->inherited = false;
    drop(sa, 0);
}

void mcsm_sa_end_port(struct mcsm_sa *sa, uint64_t port_guid, bool there)
{
    uint8_t gid[16];

    if (!there && port_guid != 0) {
        drop(sa, port_guid);
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

/* Multicast groups: MCMemberRecord. */
#include "part.h"
#include "path.h"
#include "rate.h"

#include <errno.h>
#include <stdlib.h>

enum {
    MC_PORT_GID = 16,
    MC_QKEY = 32,
    MC_MLID = 36,
    MC_MTU = 38,
    MC_TCLASS = 39,
    MC_PKEY = 40,
    MC_RATE = 42,
    MC_LIFE = 43,
    MC_SL = 44,
    MC_SCOPE_STATE = 48,
    MC_PROXY = 49,
    MC_SIZE = 52,
    BIT_PORT_GID = 1,
    BIT_QKEY = 2,
    BIT_MTU_SELECTOR = 4,
    BIT_MTU = 5,
    BIT_TCLASS = 6,
    BIT_PKEY = 7,
    BIT_RATE_SELECTOR = 8,
    BIT_RATE = 9,
    BIT_LIFE_SELECTOR = 10,
    BIT_SL = 12,
    BIT_FLOW = 13,
    BIT_HOP = 14,
    BIT_STATE = 16
};

/* MTU, rate and life are compared by has_values(). */
static const struct mcsm_component parts[] = {
    {0, 128}, {128, 128}, {256, 32}, {288, 16}, {304, 0},  {306, 0}, {312, 8}, {320, 16}, {336, 0},
    {338, 0}, {344, 0},   {346, 0},  {352, 4},  {356, 20}, {376, 8}, {384, 4}, {388, 0},  {392, 1}};

/* Components that a request must have to create a group (IBTA volume 1, 15.2.5.17.3). */
static const uint64_t creation =
    1u << BIT_QKEY | 1u << BIT_PKEY | 1u << BIT_SL | 1u << BIT_STATE | 1u << BIT_PORT_GID;

static struct mcsm_group *find(const struct mcsm_sa *sa, const uint8_t *mgid)
{
    struct mcsm_group *group;

    HASH_FIND(hh, sa->groups, mgid, 16, group);
    return group;
}

/* Where the pointer to the first group of an MLID is. */
static struct mcsm_group **alike(const struct mcsm_sa *sa, uint16_t mlid)
{
    return &sa->by_mlid[mlid - MCSM_MLID_MIN];
}

static struct mcsm_group *add_group(struct mcsm_sa *sa, const uint8_t *record)
{
    struct mcsm_group *group, **first;

    if (HASH_COUNT(sa->groups) >= MCSM_MAX_GROUPS) {
        return NULL;
    }
    group = calloc(1, sizeof(*group));
    if (group == NULL) {
        return NULL;
    }
    memcpy(group->mgid, record, 16);
    memcpy(group->record, record, MC_SIZE);
    memset(group->record + MC_PORT_GID, 0, 16);
    group->record[MC_SCOPE_STATE] = (record[1] & 15) << 4;
    group->mlid = mcsm_mlid_of(group->mgid, sa->sm->config->mlids);
    mcsm_put16(group->record, MC_MLID, group->mlid);
    first = alike(sa, group->mlid);
    group->next_alike = *first;
    *first = group;
    HASH_ADD(hh, sa->groups, mgid, 16, group);
    sa->stats.groups = HASH_COUNT(sa->groups);
    return group;
}

static void send_group(struct mcsm_sa *sa, struct mcsm_standby *to, const struct mcsm_group *group,
                       bool gone)
{
    uint8_t payload[MCSM_STATE_PAYLOAD] = {0};

    memcpy(payload, group->record, MC_SIZE);
    mcsm_standbys_send(sa->standbys, to, MCSM_STATE_GROUP, gone, payload);
}

static void send_member(struct mcsm_sa *sa, struct mcsm_standby *to, const struct mcsm_group *group,
                        const struct mcsm_member *member, bool gone)
{
    uint8_t payload[MCSM_STATE_PAYLOAD] = {0};

    memcpy(payload, group->mgid, 16);
    mcsm_put64(payload, 16, member->port_guid);
    memcpy(payload + 24, member->gid, 16);
    payload[40] = member->state;
    payload[41] = member->proxy;
    mcsm_standbys_send(sa->standbys, to, MCSM_STATE_MEMBER, gone, payload);
}

static void remove_group(struct mcsm_sa *sa, struct mcsm_group *group)
{
    struct mcsm_group **at = alike(sa, group->mlid);

    send_group(sa, NULL, group, true);
    while (*at != group) {
        at = &(*at)->next_alike;
    }
    *at = group->next_alike;
    HASH_DEL(sa->groups, group);
    while (group->members != NULL) {
        struct mcsm_member *member = group->members;

        group->members = member->next;
        sa->stats.members--;
        free(member);
    }
    free(group);
    sa->stats.groups = HASH_COUNT(sa->groups);
}

static void end(struct mcsm_sa *sa)
{
    struct mcsm_group *group, *next;

    HASH_ITER(hh, sa->groups, group, next) {
        remove_group(sa, group);
    }
    free(sa->by_mlid);
}

/* IPoIB's broadcast group of a partition (RFC 4391, section 4): ff12:401b:PKEY::ffff:ffff. */
static void add_broadcast(struct mcsm_sa *sa, const struct mcsm_partition *partition)
{
    uint8_t record[MC_SIZE] = {0xff, 0x12, 0x40, 0x1b};
    struct mcsm_group *group;

    mcsm_put16(record, 4, partition->pkey | 0x8000);
    mcsm_put32(record, 12, 0xffffffff);
    mcsm_put32(record, MC_QKEY, partition->qkey);
    record[MC_MTU] = 2 << 6 | partition->mtu;
    mcsm_put16(record, MC_PKEY, partition->pkey | 0x8000);
    record[MC_RATE] = 2 << 6 | partition->rate;
    record[MC_LIFE] = 2 << 6 | sa->sm->config->packet_life;
    mcsm_put32(record, MC_SL, (uint32_t)partition->sl << 28);
    group = find(sa, record);
    if (group == NULL) {
        group = add_group(sa, record);
    }
    if (group != NULL) {
        group->permanent = true;
    }
}

static void add_permanent(struct mcsm_sa *sa)
{
    for (size_t i = 0; i < sa->sm->config->partition_count; i++) {
        if (sa->sm->config->partitions[i].ipoib) {
            add_broadcast(sa, &sa->sm->config->partitions[i]);
        }
    }
}

static int start(struct mcsm_sa *sa)
{
    sa->by_mlid = calloc(sa->sm->config->mlids, sizeof(*sa->by_mlid));
    if (sa->by_mlid == NULL) {
        return -ENOMEM;
    }
    add_permanent(sa);
    return 0;
}

/* Forgets all groups but the permanent groups of partitions. */
static void clear(void *arg)
{
    struct mcsm_sa *sa = arg;
    struct mcsm_group *group, *next;

    HASH_ITER(hh, sa->groups, group, next) {
        remove_group(sa, group);
    }
    add_permanent(sa);
}

void mcsm_sa_members(struct mcsm_sa *sa, uint16_t mlid, void (*leaf)(void *, uint64_t, bool),
                     void *leaf_arg)
{
    for (struct mcsm_group *group = *alike(sa, mlid); group != NULL; group = group->next_alike) {
        for (struct mcsm_member *member = group->members; member != NULL; member = member->next) {
            leaf(leaf_arg, member->port_guid, member->state & (MCSM_FULL_MEMBER | MCSM_NON_MEMBER));
        }
    }
}

/* ---- joining ---- */

static struct mcsm_member **find_member(struct mcsm_group *group, uint64_t port_guid)
{
    struct mcsm_member **at = &group->members;

    while (*at != NULL && (*at)->port_guid != port_guid) {
        at = &(*at)->next;
    }
    return at;
}

/* Groups use the service level of their separate lane, if configured. */
static void fill(const struct mcsm_config *config, const struct mcsm_group *group,
                 const struct mcsm_member *member, uint8_t *record)
{
    memcpy(record, group->record, MC_SIZE);
    if (config->multicast_sl > 0) {
        record[MC_SL] = (record[MC_SL] & 15) | config->multicast_sl << 4;
    }
    if (member == NULL) {
        return;
    }
    memcpy(record + MC_PORT_GID, member->gid, 16);
    record[MC_SCOPE_STATE] |= member->state;
    record[MC_PROXY] = member->proxy ? 0x80 : 0;
}

static bool is_valid_mgid(const uint8_t *mgid)
{
    uint8_t scope = mgid[1] & 15;

    return mgid[0] == 0xff && scope != 0 && scope != 15;
}

/* A request for any MGID gets one that is not in use: ff12:a01b with our GUID and a number. */
static void choose_mgid(struct mcsm_sa *sa, uint8_t *mgid)
{
    for (uint32_t n = 0; n <= MCSM_MAX_GROUPS; n++) {
        memset(mgid, 0, 16);
        mcsm_put32(mgid, 0, 0xff12a01b);
        mcsm_put64(mgid, 4, sa->sm->own_guid);
        mcsm_put32(mgid, 12, n);
        if (find(sa, mgid) == NULL) {
            return;
        }
    }
}

/* Selects the MTU, rate or life of a new group: `best` or the client's value. */
static bool choose(const struct mcsm_query *query, int bit, unsigned at, enum mcsm_scale scale,
                   uint8_t best, uint8_t *record)
{
    uint8_t chosen = best;

    if (mcsm_asks(query, bit) && mcsm_asks(query, bit + 1) &&
        !mcsm_select(scale, query->data[at], best, &chosen)) {
        return false;
    }
    record[at] = 2 << 6 | chosen;
    return true;
}

static struct mcsm_group *create(struct mcsm_query *query, const uint8_t *wanted,
                                 const struct mcsm_port *port)
{
    static const uint8_t any[16];
    uint8_t record[MC_SIZE];
    struct mcsm_group *group;

    if ((query->mask & creation) != creation ||
        !(query->data[MC_SCOPE_STATE] & (MCSM_FULL_MEMBER | MCSM_SEND_ONLY_FULL))) {
        query->status = MCSM_SA_FEW_COMPONENTS;
        return NULL;
    }
    memcpy(record, wanted, MC_SIZE);
    if (memcmp(record, any, 16) == 0) {
        choose_mgid(query->sa, record);
    }
    if (!is_valid_mgid(record) || !mcsm_has_pkey(port, mcsm_get16(record, MC_PKEY))) {
        query->status = MCSM_SA_INVALID;
        return NULL;
    }
    if (!choose(query, BIT_MTU_SELECTOR, MC_MTU, MCSM_SCALE_MTU,
                mcsm_hi(port->info, MCSM_PI_MTU_HI), record) ||
        !choose(query, BIT_RATE_SELECTOR, MC_RATE, MCSM_SCALE_RATE, mcsm_port_rate(port), record) ||
        !choose(query, BIT_LIFE_SELECTOR, MC_LIFE, MCSM_SCALE_LIFE,
                query->sa->sm->config->packet_life, record)) {
        query->status = MCSM_SA_INVALID;
        return NULL;
    }
    group = add_group(query->sa, record);
    if (group == NULL) {
        query->status = MCSM_SA_NO_RESOURCES;
    } else {
        send_group(query->sa, NULL, group, false);
        mcsm_sa_gid_notice(query->sa, 66, group->mgid);
    }
    return group;
}

/* Whether a group has the MTU, rate or life that the client selects. */
static bool has_value(const struct mcsm_query *query, int bit, unsigned at, enum mcsm_scale scale,
                      const struct mcsm_group *group)
{
    uint8_t has = group->record[at] & 0x3f, chosen;

    if (!mcsm_asks(query, bit) || !mcsm_asks(query, bit + 1)) {
        return true;
    }
    return mcsm_select(scale, query->data[at], has, &chosen) && chosen == has;
}

static bool has_values(const struct mcsm_query *query, const struct mcsm_group *group)
{
    return has_value(query, BIT_MTU_SELECTOR, MC_MTU, MCSM_SCALE_MTU, group) &&
           has_value(query, BIT_RATE_SELECTOR, MC_RATE, MCSM_SCALE_RATE, group) &&
           has_value(query, BIT_LIFE_SELECTOR, MC_LIFE, MCSM_SCALE_LIFE, group);
}

/* Whether the group matches the client's request, and the port can receive the group's packets. */
static bool fits(const struct mcsm_query *query, const struct mcsm_port *port,
                 const struct mcsm_group *group)
{
    static const uint64_t checked = 1u << BIT_QKEY | 1u << BIT_TCLASS | 1u << BIT_PKEY |
                                    1u << BIT_SL | 1u << BIT_FLOW | 1u << BIT_HOP;
    struct mcsm_query equal = *query;
    uint8_t rate = group->record[MC_RATE] & 0x3f;

    equal.mask &= checked;
    if (query->sa->sm->config->multicast_sl > 0) {
        equal.mask &= ~(1ull << BIT_SL); /* the answer says which level the group has */
    }
    return mcsm_matches(&equal, group->record, parts, sizeof(parts) / sizeof(*parts)) &&
           has_values(query, group) &&
           mcsm_hi(port->info, MCSM_PI_MTU_HI) >= (group->record[MC_MTU] & 0x3f) &&
           mcsm_rate_speed(mcsm_port_rate(port)) >= mcsm_rate_speed(rate);
}

/*
 * The port that joins or leaves. It must be the client's port, because a client may not act for
 * another port.
 */
static const struct mcsm_port *joining_port(struct mcsm_query *query)
{
    uint64_t guid = mcsm_get64(query->data, MC_PORT_GID + 8);

    if (!mcsm_asks(query, BIT_PORT_GID)) {
        query->status = MCSM_SA_FEW_COMPONENTS;
        return NULL;
    }
    if (guid != query->client->guid) {
        query->status =
            mcsm_fabric_find_port(query->sa->sm->fabric, guid) ? MCSM_SA_DENIED : MCSM_SA_BAD_GID;
        return NULL;
    }
    return query->client;
}

static void join(struct mcsm_query *query)
{
    const struct mcsm_port *port = joining_port(query);
    uint8_t state = query->data[MC_SCOPE_STATE] & MCSM_JOIN_STATES, record[MC_SIZE];
    struct mcsm_group *group;
    struct mcsm_member **at;

    if (port == NULL) {
        return;
    }
    if (!mcsm_asks(query, 0) || !mcsm_asks(query, BIT_STATE) || state == 0) {
        query->status = MCSM_SA_FEW_COMPONENTS;
        return;
    }
    group = find(query->sa, query->data);
    if (group == NULL) {
        group = create(query, query->data, port);
    }
    if (group == NULL) {
        return;
    }
    if (!fits(query, port, group) || !mcsm_has_pkey(port, mcsm_get16(group->record, MC_PKEY))) {
        query->status = MCSM_SA_INVALID;
        return;
    }
    at = find_member(group, port->guid);
    if (*at == NULL) {
        if (query->sa->stats.members >= MCSM_MAX_MEMBERS ||
            (*at = calloc(1, sizeof(**at))) == NULL) {
            query->status = MCSM_SA_NO_RESOURCES;
            return;
        }
        (*at)->port_guid = port->guid;
        memcpy((*at)->gid, query->data + MC_PORT_GID, 16);
        query->sa->stats.members++;
    }
    if (((*at)->state | state) != (*at)->state) {
        mcsm_sm_multicast(query->sa->sm);
    }
    (*at)->state |= state;
    send_member(query->sa, NULL, group, *at, false);
    query->sa->stats.joins++;
    fill(query->sa->sm->config, group, *at, record);
    mcsm_answer_add(query, record);
}

static void drop_if_empty(struct mcsm_sa *sa, struct mcsm_group *group)
{
    uint8_t mgid[16];

    for (const struct mcsm_member *member = group->members; member != NULL; member = member->next) {
        if (member->state & (MCSM_FULL_MEMBER | MCSM_SEND_ONLY_FULL)) {
            return;
        }
    }
    if (group->permanent) {
        return;
    }
    memcpy(mgid, group->mgid, 16);
    remove_group(sa, group);
    mcsm_sm_multicast(sa->sm);
    mcsm_sa_gid_notice(sa, 67, mgid);
}

static void leave(struct mcsm_query *query)
{
    const struct mcsm_port *port = joining_port(query);
    struct mcsm_group *group = find(query->sa, query->data);
    struct mcsm_member **at, *member;
    uint8_t record[MC_SIZE];

    if (port == NULL) {
        return;
    }
    if (group == NULL || *(at = find_member(group, port->guid)) == NULL ||
        !((*at)->state & query->data[MC_SCOPE_STATE] & MCSM_JOIN_STATES)) {
        query->status = MCSM_SA_INVALID;
        return;
    }
    member = *at;
    member->state &= ~(query->data[MC_SCOPE_STATE] & MCSM_JOIN_STATES);
    fill(query->sa->sm->config, group, member, record);
    mcsm_answer_add(query, record);
    query->sa->stats.leaves++;
    mcsm_sm_multicast(query->sa->sm);
    send_member(query->sa, NULL, group, member, member->state == 0);
    if (member->state == 0) {
        *at = member->next;
        free(member);
        query->sa->stats.members--;
    }
    drop_if_empty(query->sa, group);
}

/* Ends the membership that *at points to. */
static void end_member(struct mcsm_sa *sa, struct mcsm_group *group, struct mcsm_member **at)
{
    struct mcsm_member *member = *at;

    send_member(sa, NULL, group, member, true);
    *at = member->next;
    free(member);
    sa->stats.members--;
    mcsm_sm_multicast(sa->sm);
}

/* A standby may have a group whose members have not come yet: it stays. */
static void drop(struct mcsm_sa *sa, uint64_t gone)
{
    struct mcsm_group *group, *next;

    HASH_ITER(hh, sa->groups, group, next) {
        struct mcsm_member **at = &group->members;
        bool ended = gone == 0; /* all records of the former master have come */

        while (*at != NULL) {
            if (mcsm_sa_is_gone(sa, (*at)->port_guid, gone)) {
                end_member(sa, group, at);
                ended = true;
            } else {
                at = &(*at)->next;
            }
        }
        if (ended) {
            drop_if_empty(sa, group);
        }
    }
}

/* ---- records of standby managers ---- */

static void send_all(void *arg, struct mcsm_standbys *standbys, struct mcsm_standby *to)
{
    struct mcsm_sa *sa = arg;

    (void)standbys;
    for (const struct mcsm_group *group = sa->groups; group != NULL; group = group->hh.next) {
        send_group(sa, to, group, false);
        for (const struct mcsm_member *member = group->members; member != NULL;
             member = member->next) {
            send_member(sa, to, group, member, false);
        }
    }
}

static void take_group(void *arg, bool gone, const uint8_t *payload)
{
    struct mcsm_sa *sa = arg;
    struct mcsm_group *group = find(sa, payload);

    if (gone && group != NULL && !group->permanent) {
        remove_group(sa, group);
    } else if (!gone && group == NULL) {
        add_group(sa, payload);
    }
}

static void take_member(void *arg, bool gone, const uint8_t *payload)
{
    struct mcsm_sa *sa = arg;
    struct mcsm_group *group = find(sa, payload);
    struct mcsm_member **at = group != NULL ? find_member(group, mcsm_get64(payload, 16)) : NULL;
    struct mcsm_member *member = at != NULL ? *at : NULL;

    if (group == NULL) {
        return;
    }
    if (gone && member != NULL) {
        *at = member->next;
        free(member);
        sa->stats.members--;
    } else if (!gone && member == NULL && (member = *at = calloc(1, sizeof(*member))) != NULL) {
        member->port_guid = mcsm_get64(payload, 16);
        sa->stats.members++;
    }
    if (!gone && member != NULL) {
        memcpy(member->gid, payload + 24, 16);
        member->state = payload[40];
        member->proxy = payload[41];
    }
}

/* ---- asking ---- */

/* Get and GetTable: groups, and with the right SM_Key their members. */
static void list(struct mcsm_query *query)
{
    const struct mcsm_config *config = query->sa->sm->config;
    bool trusted = mcsm_sa_is_trusted(query);
    struct mcsm_group *group, *next;
    uint8_t record[MC_SIZE];

    HASH_ITER(hh, query->sa->groups, group, next) {
        struct mcsm_member *member = trusted ? group->members : NULL;

        do {
            fill(config, group, member, record);
            if (has_values(query, group) &&
                mcsm_matches(query, record, parts, sizeof(parts) / sizeof(*parts)) &&
                !mcsm_answer_add(query, record)) {
                return;
            }
            member = member ? member->next : NULL;
        } while (member != NULL);
    }
}

static void serve(struct mcsm_query *query)
{
    switch (query->method) {
    case MCSM_SET:
        join(query);
        break;
    case MCSM_DELETE:
        leave(query);
        break;
    default:
        list(query);
    }
}

static const struct mcsm_sa_record records[] = {{MCSM_SA_MC_MEMBER, MC_SIZE, .serve = serve}};
static const struct mcsm_state_ops states[] = {{MCSM_STATE_GROUP, send_all, take_group, clear},
                                               {MCSM_STATE_MEMBER, NULL, take_member, NULL}};

const struct mcsm_sa_part mcsm_sa_groups = {.records = records,
                                            .record_count = 1,
                                            .states = states,
                                            .state_count = 2,
                                            .start = start,
                                            .end = end,
                                            .drop = drop};

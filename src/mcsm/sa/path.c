/* Answers queries for PathRecords: the path from one end port to another, which may be in another
 * cluster. */
#include "path.h"

#include "part.h"
#include "qos.h"
#include "rate.h"

enum {
    PR_SERVICE = 0,
    PR_DGID = 8,
    PR_SGID = 24,
    PR_DLID = 40,
    PR_SLID = 42,
    PR_HOP = 44,
    PR_NUM_PATH = 49,
    PR_PKEY = 50,
    PR_SL = 52,
    PR_MTU = 54,
    PR_RATE = 55,
    PR_LIFE = 56,
    PR_SIZE = 64,
    EXACT = 2 << 6,   /* selector: exactly this value */
    SERVICE_BITS = 3, /* bits 0 and 1 of the mask: the two halves of the service ID */
    BIT_DGID = 2,
    BIT_SGID = 3,
    BIT_DLID = 4,
    BIT_SLID = 5,
    BIT_REVERSIBLE = 11,
    BIT_NUM_PATH = 12,
    BIT_PKEY = 13,
    BIT_CLASS = 14,
    BIT_SL = 15,
    BIT_MTU_SELECTOR = 16,
    BIT_RATE_SELECTOR = 18,
    BIT_LIFE_SELECTOR = 20
};

/* Returns the port's key with this base, with its membership bit, or 0. A switch is a full member
 * of the default partition. */
static uint16_t find_pkey(const struct mcsm_port *port, uint16_t pkey)
{
    uint16_t base = pkey & 0x7fff;

    for (unsigned i = 0; i < port->pkey_count && base != 0; i++) {
        if ((port->pkeys[i] & 0x7fff) == base) {
            return port->pkeys[i];
        }
    }
    return port->node->sw && base == 0x7fff ? 0xffff : 0;
}

bool mcsm_has_pkey(const struct mcsm_port *port, uint16_t pkey)
{
    return find_pkey(port, pkey) != 0;
}

/*
 * Returns the key under which two ports may communicate. Two limited members may not communicate.
 */
static uint16_t shared_pkey(const struct mcsm_port *a, const struct mcsm_port *b, uint16_t base)
{
    uint16_t one = find_pkey(a, base), other = find_pkey(b, base);

    return one != 0 && other != 0 && ((one | other) & 0x8000) ? one | 0x8000 : 0;
}

uint16_t mcsm_common_pkey(const struct mcsm_port *a, const struct mcsm_port *b)
{
    if (a->node->sw || b->node->sw) {
        return shared_pkey(a, b, 0x7fff);
    }
    for (unsigned i = 0; i < a->pkey_count; i++) {
        uint16_t key = shared_pkey(a, b, a->pkeys[i]);

        if (key != 0) {
            return key;
        }
    }
    return 0;
}

int mcsm_sa_walk(const struct mcsm_sm *sm, const struct mcsm_port *from, uint16_t lid,
                 void (*hop)(void *arg, const struct mcsm_port *port), void *arg,
                 const struct mcsm_port **left_p, const char **reason)
{
    const struct mcsm_node *node = from->node;
    int hops = 0;

    *left_p = NULL;
    *reason = NULL;
    if (from->lid == lid || mcsm_fabric_by_lid(sm->fabric, lid) == from) {
        return 0;
    }
    if (!node->sw) {
        if (from->peer == NULL || from->state < MCSM_STATE_INIT) {
            *reason = "its own link is down";
            return -1;
        }
        hop(arg, from);
        node = from->peer->node;
        hops++;
    }
    while (node->sw && hops <= sm->fabric->switch_count + 1) {
        uint8_t out = lid < node->lft_size && node->lft ? node->lft[lid] : MCSM_DROP;

        if (out == 0) {
            return hops;
        }
        if (out > node->nports) {
            *reason = "the switch has no route to the LID";
            return -1;
        }
        hop(arg, &node->ports[out]);
        hops++;
        if (node->ports[out].border) {
            *left_p = &node->ports[out];
            return hops;
        }
        if (node->ports[out].peer == NULL) {
            *reason = "the link the route leads through is down";
            return -1;
        }
        node = node->ports[out].peer->node;
    }
    if (node->sw) {
        *reason = "the route goes in a circle";
    }
    return node->sw ? -1 : hops;
}

/* ---- ends ---- */

static uint16_t foreign_lid(const struct mcsm_config *config, uint64_t guid)
{
    for (size_t i = 0; i < config->neighbour_count; i++) {
        uint16_t lid = mcsm_lid_db_find(&config->neighbours[i].db, guid);

        if (lid != 0) {
            return lid;
        }
    }
    return 0;
}

static bool find_foreign(const struct mcsm_config *config, uint16_t lid, uint64_t *guid_p)
{
    for (size_t i = 0; i < config->neighbour_count; i++) {
        const struct mcsm_neighbour *neighbour = &config->neighbours[i];

        if (!mcsm_range_has(neighbour->lids, lid)) {
            continue;
        }
        *guid_p = mcsm_lid_db_guid(&neighbour->db, lid);
        return neighbour->db.count == 0 || *guid_p != 0;
    }
    return false;
}

static bool find_by_lid(const struct mcsm_sm *sm, uint16_t lid, struct mcsm_path_end *end)
{
    end->port = mcsm_fabric_by_lid(sm->fabric, lid);
    end->lid = lid;
    if (end->port != NULL) {
        end->guid = end->port->guid;
        return true;
    }
    return find_foreign(sm->config, lid, &end->guid);
}

static bool find_by_gid(const struct mcsm_sm *sm, const uint8_t *gid, struct mcsm_path_end *end)
{
    uint64_t prefix = mcsm_get64(gid, 0);

    end->guid = mcsm_get64(gid, 8);
    if (prefix != sm->config->subnet_prefix && prefix != 0xfe80000000000000ULL) {
        return false;
    }
    end->port = mcsm_fabric_find_port(sm->fabric, end->guid);
    end->lid = end->port ? end->port->lid : foreign_lid(sm->config, end->guid);
    return end->lid != 0;
}

/* The end that the query names by LID or GID; false if it does not exist. A query that names none
 * leaves *given_p false. */
static bool find_end(struct mcsm_query *query, int gid_bit, unsigned gid_at, int lid_bit,
                     unsigned lid_at, struct mcsm_path_end *end, bool *given_p)
{
    const struct mcsm_sm *sm = query->sa->sm;

    *given_p = mcsm_asks(query, gid_bit) || mcsm_asks(query, lid_bit);
    if (mcsm_asks(query, gid_bit)) {
        if (!find_by_gid(sm, query->data + gid_at, end)) {
            return false;
        }
        if (mcsm_asks(query, lid_bit)) {
            uint16_t lid = mcsm_get16(query->data, lid_at);

            if (end->port ? mcsm_fabric_by_lid(sm->fabric, lid) != end->port : lid != end->lid) {
                return false;
            }
            end->lid = lid;
        }
        return true;
    }
    return !*given_p || find_by_lid(sm, mcsm_get16(query->data, lid_at), end);
}

/* ---- records ---- */

/* The smallest MTU and the lowest speed of the links of a path. */
struct way {
    uint8_t mtu;
    unsigned speed; /* Mb/s */
};

static void narrow(void *arg, const struct mcsm_port *port)
{
    uint8_t mtu = mcsm_hi(port->info, MCSM_PI_MTU_HI);
    unsigned speed = mcsm_rate_speed(mcsm_port_rate(port));
    struct way *way = arg;

    if (mtu != 0 && mtu < way->mtu) {
        way->mtu = mtu;
    }
    if (speed < way->speed) {
        way->speed = speed;
    }
}

/* Port 0 of a switch has its own MTU, behind the last link. */
static void narrow_end(struct way *way, const struct mcsm_port *port)
{
    uint8_t cap = mcsm_lo(port->info, MCSM_PI_MTU_CAP_LO);

    if (port->node->sw && cap != 0 && cap < way->mtu) {
        way->mtu = cap;
    }
}

static uint8_t sl_of_partition(const struct mcsm_config *config, uint16_t pkey)
{
    for (size_t i = 0; i < config->partition_count; i++) {
        if (config->partitions[i].pkey == (pkey & 0x7fff)) {
            return config->partitions[i].sl;
        }
    }
    return 0;
}

/* Returns the P_Key of the path; 0 if the ends share no key that the query allows. */
static uint16_t pkey_of(const struct mcsm_query *query, const struct mcsm_path_end *ours,
                        const struct mcsm_path_end *other)
{
    uint16_t wanted = mcsm_get16(query->data, PR_PKEY);

    if (!mcsm_asks(query, BIT_PKEY)) {
        return other->port ? mcsm_common_pkey(ours->port, other->port) : 0xffff;
    }
    if (other->port != NULL) {
        return shared_pkey(ours->port, other->port, wanted);
    }
    return mcsm_has_pkey(ours->port, wanted) ? wanted | 0x8000 : 0;
}

/* Finds the service level of a path; false if the query asks for another level. Where the engine
 * assigns lanes, the level is the lane. Otherwise the first rule that matches counts, then the level
 * of the partition. */
static bool find_sl(const struct mcsm_query *query, const struct mcsm_path_end *from,
                    const struct mcsm_path_end *to, uint16_t pkey, uint8_t *sl_p)
{
    const struct mcsm_sm *sm = query->sa->sm;
    uint16_t class_and_sl = mcsm_get16(query->data, PR_SL);
    uint8_t wanted = class_and_sl & 15;
    const struct mcsm_qos_path path = {.from = from,
                                       .to = to,
                                       .pkey = pkey,
                                       .has_service = (query->mask & SERVICE_BITS) == SERVICE_BITS,
                                       .service_id = mcsm_get64(query->data, PR_SERVICE),
                                       .has_class = mcsm_asks(query, BIT_CLASS),
                                       .qos_class = class_and_sl >> 4};
    const struct mcsm_rule *rule = mcsm_qos_find(sm, &path);

    const struct mcsm_port *near = from->port ? from->port : to->port;
    const struct mcsm_port *far = from->port ? to->port : NULL;

    if (mcsm_sm_shares(sm)) {
        *sl_p = mcsm_sm_level(sm, rule ? rule->sl : sl_of_partition(sm->config, pkey), near, far);
        if (sm->config->qos.rule_count == 0 && mcsm_asks(query, BIT_SL) &&
            mcsm_sm_level_fits(sm, wanted, near, far)) {
            *sl_p = wanted;
        }
    } else if (rule != NULL) {
        *sl_p = rule->sl;
    } else if (mcsm_sm_lanes(sm) > 1 && !sm->config->own_levels) {
        *sl_p = mcsm_sm_lane(sm, near, far);
    } else {
        *sl_p = sl_of_partition(sm->config, pkey);
        if (mcsm_asks(query, BIT_SL) && mcsm_qos_may_choose(sm->config, wanted)) {
            *sl_p = wanted;
        }
    }
    return !mcsm_asks(query, BIT_SL) || wanted == *sl_p;
}

/* The answer repeats the service and the class that the query names. */
static void repeat_service(const struct mcsm_query *query, uint8_t *record)
{
    if ((query->mask & SERVICE_BITS) != 0) {
        memcpy(record + PR_SERVICE, query->data + PR_SERVICE, 8);
    }
    if (mcsm_asks(query, BIT_CLASS)) {
        uint16_t both = mcsm_get16(query->data, PR_SL) & 0xfff0;

        mcsm_put16(record, PR_SL, both | mcsm_get16(record, PR_SL));
    }
}

/* Whether the query's MTU, rate and packet life fit the way; the values of the answer. */
static bool find_values(const struct mcsm_query *query, const struct way *way, uint8_t *record)
{
    static const struct {
        int bit;
        unsigned at;
        enum mcsm_scale scale;
    } values[] = {{BIT_MTU_SELECTOR, PR_MTU, MCSM_SCALE_MTU},
                  {BIT_RATE_SELECTOR, PR_RATE, MCSM_SCALE_RATE},
                  {BIT_LIFE_SELECTOR, PR_LIFE, MCSM_SCALE_LIFE}};
    const uint8_t best[] = {way->mtu, mcsm_rate_code(way->speed),
                            query->sa->sm->config->packet_life};

    for (int i = 0; i < 3; i++) {
        uint8_t chosen = best[i], asked = query->data[values[i].at];

        if (mcsm_asks(query, values[i].bit) && mcsm_asks(query, values[i].bit + 1) &&
            !mcsm_select(values[i].scale, asked, best[i], &chosen)) {
            return false;
        }
        record[values[i].at] = EXACT | chosen;
    }
    return true;
}

/* Returns whether the reverse path exists too, which may be narrower. Only the manager of another
 * cluster knows the reverse path from that cluster. */
static bool is_reversible(const struct mcsm_sm *sm, const struct mcsm_path_end *ours,
                          const struct mcsm_path_end *other, struct way *way)
{
    const struct mcsm_port *left;
    const char *reason;

    return other->port == NULL ||
           mcsm_sa_walk(sm, other->port, ours->lid, narrow, way, &left, &reason) >= 0;
}

/* At least one end is in this cluster. */
static void add_path(struct mcsm_query *query, const struct mcsm_path_end *from,
                     const struct mcsm_path_end *to)
{
    const struct mcsm_sm *sm = query->sa->sm;
    const struct mcsm_path_end *ours = from->port ? from : to, *other = from->port ? to : from;
    uint8_t record[PR_SIZE] = {0}, sl;
    struct way way = {5, UINT32_MAX};
    const struct mcsm_port *left;
    const char *reason;
    uint16_t pkey;
    bool both;

    if (mcsm_sa_walk(sm, ours->port, other->lid, narrow, &way, &left, &reason) < 0) {
        return;
    }
    if (way.speed == UINT32_MAX) { /* to itself */
        narrow(&way, ours->port);
    }
    narrow_end(&way, ours->port);
    if (other->port != NULL) {
        narrow_end(&way, other->port);
    }
    both = is_reversible(sm, ours, other, &way);
    if (!both && mcsm_asks(query, BIT_REVERSIBLE) && query->data[PR_NUM_PATH] >> 7) {
        return;
    }
    pkey = pkey_of(query, ours, other);
    if (pkey == 0 || !find_sl(query, from, to, pkey, &sl) || !find_values(query, &way, record)) {
        return;
    }
    mcsm_put64(record, PR_DGID, sm->config->subnet_prefix);
    mcsm_put64(record, PR_DGID + 8, to->guid);
    mcsm_put64(record, PR_SGID, sm->config->subnet_prefix);
    mcsm_put64(record, PR_SGID + 8, from->guid);
    mcsm_put16(record, PR_DLID, to->lid);
    mcsm_put16(record, PR_SLID, from->lid);
    record[PR_NUM_PATH] = both ? 0x80 : 0;
    mcsm_put16(record, PR_PKEY, pkey);
    mcsm_put16(record, PR_SL, sl);
    repeat_service(query, record);
    mcsm_answer_add(query, record);
}

/* Returns the number of LIDs of an end, from its base LID on: one, or 2^LMC for a host of this
 * cluster if the query does not name a LID. */
static unsigned lids_of(const struct mcsm_query *query, const struct mcsm_path_end *end,
                        bool by_lid)
{
    return by_lid || end->port == NULL || end->port->node->sw ? 1 :
                                                                1u << query->sa->sm->config->lmc;
}

/* The paths between two ends: with LMC several, from the n-th LID of one to the n-th of the other.
 */
static void add_paths(struct mcsm_query *query, const struct mcsm_path_end *from,
                      const struct mcsm_path_end *to)
{
    unsigned sources = lids_of(query, from, mcsm_asks(query, BIT_SLID));
    unsigned targets = lids_of(query, to, mcsm_asks(query, BIT_DLID));
    unsigned count = sources > targets ? sources : targets, room = 127;
    size_t before = query->count;

    if (mcsm_asks(query, BIT_NUM_PATH) && (query->data[PR_NUM_PATH] & 0x7f) != 0) {
        room = query->data[PR_NUM_PATH] & 0x7f;
    }
    if (query->method == MCSM_GET) {
        room = 1;
    }
    for (unsigned i = 0; i < count && query->count - before < room && query->status == 0; i++) {
        struct mcsm_path_end source = *from, target = *to;

        source.lid += i % sources;
        target.lid += i % targets;
        add_path(query, &source, &target);
    }
}

/* Paths to all ports of the cluster. */
static void add_paths_from(struct mcsm_query *query, const struct mcsm_path_end *from)
{
    const struct mcsm_fabric *fabric = query->sa->sm->fabric;

    for (unsigned lid = 1; lid <= fabric->lid_top && query->status == 0; lid++) {
        const struct mcsm_port *port = fabric->by_lid[lid];

        if (port != NULL && port->lid == lid) {
            add_paths(query, from, &(struct mcsm_path_end){port, lid, port->guid});
        }
    }
}

static void serve(struct mcsm_query *query)
{
    bool from_given, to_given;
    struct mcsm_path_end from = {0}, to = {0};

    if (query->method != MCSM_GET && query->method != MCSM_GET_TABLE) {
        query->status = MCSM_SA_BAD_METHOD_ATTR;
        return;
    }
    if (!find_end(query, BIT_SGID, PR_SGID, BIT_SLID, PR_SLID, &from, &from_given) ||
        !find_end(query, BIT_DGID, PR_DGID, BIT_DLID, PR_DLID, &to, &to_given)) {
        query->status = mcsm_asks(query, BIT_DGID) || mcsm_asks(query, BIT_SGID) ?
                            MCSM_SA_BAD_GID :
                            MCSM_SA_NO_RECORDS;
        return;
    }
    if (!from_given) {
        from = (struct mcsm_path_end){query->client, query->client->lid, query->client->guid};
    }
    if (from.port == NULL && to.port == NULL) {
        return; /* no end is in this cluster: managers of other clusters answer */
    }
    if (to_given) {
        add_paths(query, &from, &to);
    } else if (query->method == MCSM_GET_TABLE) {
        add_paths_from(query, &from);
    } else {
        query->status = MCSM_SA_FEW_COMPONENTS;
    }
}

static const struct mcsm_sa_record records[] = {{MCSM_SA_PATH, PR_SIZE, .serve = serve}};

const struct mcsm_sa_part mcsm_sa_paths = {.records = records, .record_count = 1};

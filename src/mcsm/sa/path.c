/* PathRecord: the way from one end port to another, also to one of another cluster. */
#include "inside.h"

enum {
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
    EXACT = 2 << 6 /* selector: exactly this value */
};

/* An end of a path. Of a port in another cluster only LID and GUID are known; the GUID is 0 if the
 * cluster gave a range and no database. */
typedef struct end {
    const mcsm_port_t *port;
    uint16_t lid;
    uint64_t guid;
} end_t;

bool mcsm_has_pkey(const mcsm_port_t *port, uint16_t pkey)
{
    for (int i = 0; i < 32; i++) {
        if ((port->pkeys[i] & 0x7fff) == (pkey & 0x7fff) && (pkey & 0x7fff) != 0)
            return true;
    }
    return port->node->sw && (pkey & 0x7fff) == 0x7fff;
}

static uint16_t find_pkey(const mcsm_port_t *port, uint16_t pkey)
{
    for (int i = 0; i < 32; i++) {
        if ((port->pkeys[i] & 0x7fff) == (pkey & 0x7fff))
            return port->pkeys[i];
    }
    return port->node->sw && (pkey & 0x7fff) == 0x7fff ? 0xffff : 0;
}

uint16_t mcsm_common_pkey(const mcsm_port_t *a, const mcsm_port_t *b)
{
    if (a->node->sw)
        return find_pkey(b, 0x7fff) ? 0xffff : 0;
    for (int i = 0; i < 32; i++) {
        uint16_t pkey = a->pkeys[i], other = (pkey & 0x7fff) ? find_pkey(b, pkey) : 0;

        if (other != 0 && ((pkey | other) & 0x8000))
            return pkey | 0x8000;
    }
    return 0;
}

uint8_t mcsm_port_rate(const mcsm_port_t *port)
{
    /* Rate codes by width (1x, 4x, 8x, 12x) and speed: 2.5, 5, 10, FDR, EDR, HDR Gb/s a lane. */
    static const uint8_t codes[4][6] = {{2, 5, 3, 12, 13, 14},
                                        {3, 6, 7, 12, 16, 20},
                                        {5, 6, 9, 15, 17, 21},
                                        {4, 8, 10, 14, 18, 22}};
    uint8_t width = port->info[MCSM_PI_WIDTH_ACTIVE], ext;
    uint8_t speed = mcsm_hi(port->info, MCSM_PI_SPEED_ACTIVE_HI);
    int row = width & 8 ? 3 : width & 4 ? 2 : width & 2 ? 1 : 0;
    int column = speed & 4 ? 2 : speed & 2 ? 1 : 0;

    ext = mcsm_hi(port->info, MCSM_PI_SPEED_EXT_ACTIVE_HI);
    if (ext != 0)
        column = ext & 4 ? 5 : ext & 2 ? 4 : 3;
    return codes[row][column];
}

int mcsm_sa_walk(const mcsm_sm_t *sm, const mcsm_port_t *from, uint16_t lid,
                 void (*hop)(void *arg, const mcsm_port_t *port), void *arg,
                 const mcsm_port_t **left_p, const char **reason)
{
    const mcsm_node_t *node = from->node;
    int hops = 0;

    *left_p = NULL;
    *reason = NULL;
    if (from->lid == lid || mcsm_fabric_by_lid(sm->fabric, lid) == from)
        return 0;
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

        if (out == 0)
            return hops;
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
    if (node->sw)
        *reason = "the route goes in a circle";
    return node->sw ? -1 : hops;
}

/* ---- ends ---- */

static uint16_t foreign_lid(const mcsm_config_t *config, uint64_t guid)
{
    for (size_t i = 0; i < config->neighbour_count; i++) {
        uint16_t lid = mcsm_lid_db_find(&config->neighbours[i].db, guid);

        if (lid != 0)
            return lid;
    }
    return 0;
}

static bool find_foreign(const mcsm_config_t *config, uint16_t lid, uint64_t *guid_p)
{
    for (size_t i = 0; i < config->neighbour_count; i++) {
        const mcsm_neighbour_t *neighbour = &config->neighbours[i];

        if (!mcsm_range_has(neighbour->lids, lid))
            continue;
        *guid_p = mcsm_lid_db_guid(&neighbour->db, lid);
        return neighbour->db.count == 0 || *guid_p != 0;
    }
    return false;
}

static bool find_by_lid(const mcsm_sm_t *sm, uint16_t lid, end_t *end)
{
    end->port = mcsm_fabric_by_lid(sm->fabric, lid);
    end->lid = lid;
    if (end->port != NULL) {
        end->guid = end->port->guid;
        return true;
    }
    return find_foreign(sm->config, lid, &end->guid);
}

static bool find_by_gid(const mcsm_sm_t *sm, const uint8_t *gid, end_t *end)
{
    uint64_t prefix = mcsm_get64(gid, 0);

    end->guid = mcsm_get64(gid, 8);
    if (prefix != sm->config->subnet_prefix && prefix != 0xfe80000000000000ULL)
        return false;
    end->port = mcsm_fabric_find_port(sm->fabric, end->guid);
    end->lid = end->port ? end->port->lid : foreign_lid(sm->config, end->guid);
    return end->lid != 0;
}

/* The end that the query names by LID or GID; false if it does not exist. A query that names none
 * leaves *given_p false. */
static bool find_end(mcsm_query_t *query, int gid_bit, unsigned gid_at, int lid_bit,
                     unsigned lid_at, end_t *end, bool *given_p)
{
    const mcsm_sm_t *sm = query->sa->sm;

    *given_p = mcsm_asks(query, gid_bit) || mcsm_asks(query, lid_bit);
    if (mcsm_asks(query, gid_bit)) {
        if (!find_by_gid(sm, query->data + gid_at, end))
            return false;
        if (mcsm_asks(query, lid_bit)) {
            uint16_t lid = mcsm_get16(query->data, lid_at);

            if (end->port ? mcsm_fabric_by_lid(sm->fabric, lid) != end->port : lid != end->lid)
                return false;
            end->lid = lid;
        }
        return true;
    }
    return !*given_p || find_by_lid(sm, mcsm_get16(query->data, lid_at), end);
}

/* ---- records ---- */

typedef struct way {
    uint8_t mtu, rate;
} way_t;

static void narrow(void *arg, const mcsm_port_t *port)
{
    way_t *way = arg;
    uint8_t mtu = mcsm_hi(port->info, MCSM_PI_MTU_HI), rate = mcsm_port_rate(port);
    /* The codes are not in the order of speeds. In units of 2.5 Gb/s: */
    static const uint16_t speed[] = {0, 0,  1,  4,  12, 2,  8,   16, 24, 32,  48, 64,
                                     6, 10, 12, 24, 40, 80, 120, 10, 80, 160, 240};

    if (mtu != 0 && mtu < way->mtu)
        way->mtu = mtu;
    if (speed[rate] < speed[way->rate])
        way->rate = rate;
}

/* Selector and value as the query wants them: 0 more than, 1 less than, 2 exactly, 3 the largest.
 */
static bool selected(const mcsm_query_t *query, int selector_bit, unsigned at, uint8_t value)
{
    uint8_t wanted = query->data[at] & 0x3f;

    if (!mcsm_asks(query, selector_bit) || !mcsm_asks(query, selector_bit + 1))
        return true;
    switch (query->data[at] >> 6) {
    case 0:
        return value > wanted;
    case 1:
        return value < wanted;
    case 2:
        return value >= wanted; /* a path that can more can this too */
    default:
        return true;
    }
}

static uint8_t sl_of(const mcsm_config_t *config, uint16_t pkey)
{
    for (size_t i = 0; i < config->partition_count; i++) {
        if (config->partitions[i].pkey == (pkey & 0x7fff))
            return config->partitions[i].sl;
    }
    return 0;
}

/* At least one end is a port of ours. Paths are reversible: the way to an end in another cluster is
 * also the way from there. */
static void add_path(mcsm_query_t *query, const end_t *from, const end_t *to)
{
    const mcsm_sm_t *sm = query->sa->sm;
    const end_t *ours = from->port ? from : to, *other = from->port ? to : from;
    uint16_t wanted = mcsm_get16(query->data, PR_PKEY), pkey;
    uint8_t record[PR_SIZE] = {0};
    way_t way = {5, 22};
    const mcsm_port_t *left;
    const char *reason;

    if (mcsm_sa_walk(sm, ours->port, other->lid, narrow, &way, &left, &reason) < 0)
        return;
    pkey = other->port ? mcsm_common_pkey(ours->port, other->port) : 0xffff;
    if (mcsm_asks(query, 13)) {
        if (!mcsm_has_pkey(ours->port, wanted) ||
            (other->port && !mcsm_has_pkey(other->port, wanted)))
            return;
        pkey = wanted | 0x8000;
    }
    if (mcsm_asks(query, 15) && (mcsm_get16(query->data, PR_SL) & 15) != sl_of(sm->config, pkey))
        return;
    if (pkey == 0 || !selected(query, 16, PR_MTU, way.mtu) ||
        !selected(query, 18, PR_RATE, way.rate))
        return;
    mcsm_put64(record, PR_DGID, sm->config->subnet_prefix);
    mcsm_put64(record, PR_DGID + 8, to->guid);
    mcsm_put64(record, PR_SGID, sm->config->subnet_prefix);
    mcsm_put64(record, PR_SGID + 8, from->guid);
    mcsm_put16(record, PR_DLID, to->lid);
    mcsm_put16(record, PR_SLID, from->lid);
    record[PR_NUM_PATH] = 0x80; /* reversible: no path needs another one for the way back */
    mcsm_put16(record, PR_PKEY, pkey);
    mcsm_put16(record, PR_SL, sl_of(sm->config, pkey));
    record[PR_MTU] = EXACT | way.mtu;
    record[PR_RATE] = EXACT | way.rate;
    record[PR_LIFE] = EXACT | sm->config->packet_life;
    mcsm_answer_add(query, record);
}

/* All destinations that are in the cluster, one LID each. */
static void add_paths_from(mcsm_query_t *query, const end_t *from)
{
    const mcsm_fabric_t *fabric = query->sa->sm->fabric;

    for (unsigned lid = 1; lid <= fabric->lid_top && query->status == 0; lid++) {
        const mcsm_port_t *port = fabric->by_lid[lid];

        if (port != NULL && port->lid == lid)
            add_path(query, from, &(end_t){port, lid, port->guid});
    }
}

void mcsm_sa_path(mcsm_query_t *query)
{
    bool from_given, to_given;
    end_t from = {0}, to = {0};

    if (query->method != MCSM_GET && query->method != MCSM_GET_TABLE) {
        query->status = MCSM_SA_BAD_METHOD_ATTR;
        return;
    }
    if (!find_end(query, 3, PR_SGID, 5, PR_SLID, &from, &from_given) ||
        !find_end(query, 2, PR_DGID, 4, PR_DLID, &to, &to_given)) {
        query->status =
            mcsm_asks(query, 2) || mcsm_asks(query, 3) ? MCSM_SA_BAD_GID : MCSM_SA_NO_RECORDS;
        return;
    }
    if (!from_given)
        from = (end_t){query->client, query->client->lid, query->client->guid};
    if (from.port == NULL && to.port == NULL)
        return; /* the managers of those clusters know that path */
    if (to_given)
        add_path(query, &from, &to);
    else if (query->method == MCSM_GET_TABLE)
        add_paths_from(query, &from);
    else
        query->status = MCSM_SA_FEW_COMPONENTS;
    if (query->method == MCSM_GET && query->count > 1)
        query->count = 1;
}

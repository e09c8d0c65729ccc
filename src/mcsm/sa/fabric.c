/* Records about the fabric, as infiniband-diags list them. Only records of this cluster. */
#include "part.h"
#include "sm/vl_tables.h"

#define MATCHES(query, record, table)                                                              \
    mcsm_matches(query, record, table, sizeof(table) / sizeof(*(table)))

static const struct mcsm_component node_parts[] = {
    {0, 16},   {16, 16},  {32, 8},   {40, 8},   {48, 8},  {56, 8},   {64, 64},  {128, 64},
    {192, 64}, {256, 16}, {272, 16}, {288, 32}, {320, 8}, {328, 24}, {352, 512}};
/* All 57 components of a PortInfoRecord. */
static const struct mcsm_component port_parts[] = {
    {0, 16},   {16, 8},  {24, 8},  {32, 64},  {96, 64},  {160, 16}, {176, 16}, {192, 32}, {224, 16},
    {240, 16}, {256, 8}, {264, 8}, {272, 8},  {280, 8},  {288, 4},  {292, 4},  {296, 4},  {300, 4},
    {304, 2},  {306, 3}, {309, 3}, {312, 4},  {316, 4},  {320, 4},  {324, 4},  {328, 4},  {332, 4},
    {336, 8},  {344, 8}, {352, 8}, {360, 4},  {364, 4},  {368, 3},  {371, 5},  {376, 4},  {380, 1},
    {381, 1},  {382, 1}, {383, 1}, {384, 16}, {400, 16}, {416, 16}, {432, 8},  {440, 3},  {443, 5},
    {448, 3},  {451, 5}, {456, 4}, {460, 4},  {464, 16}, {480, 8},  {488, 24}, {512, 16}, {528, 4},
    {532, 4},  {536, 3}, {539, 5}};
static const struct mcsm_component switch_parts[] = {
    {0, 16},  {16, 16}, {32, 16}, {48, 16}, {64, 16},  {80, 16},  {96, 8},  {104, 8},
    {112, 8}, {120, 5}, {125, 1}, {126, 2}, {128, 16}, {144, 16}, {160, 1}, {161, 1},
    {162, 1}, {163, 1}, {164, 1}, {165, 3}, {168, 8},  {176, 16}};
static const struct mcsm_component sm_parts[] = {{0, 16},   {16, 16}, {32, 64}, {96, 64},
                                                 {160, 32}, {192, 4}, {196, 4}};
static const struct mcsm_component sl2vl_parts[] = {{0, 16}, {16, 8}, {24, 8}};
static const struct mcsm_component vlarb_parts[] = {{0, 16}, {16, 8}, {24, 8}};
static const struct mcsm_component lft_parts[] = {{0, 16}, {16, 16}, {32, 32}, {64, 512}};
static const struct mcsm_component mft_parts[] = {{0, 16}, {16, 4},  {20, 3},
                                                  {23, 9}, {32, 32}, {64, 512}};
static const struct mcsm_component link_parts[] = {{0, 16}, {16, 8}, {24, 8}, {32, 16}};
static const struct mcsm_component guid_parts[] = {{0, 16}, {16, 8}, {24, 8}, {32, 32}, {64, 64}};
static const struct mcsm_component pkey_parts[] = {{0, 16}, {16, 16}, {32, 8}, {40, 24}, {64, 512}};

static uint16_t lid_of(const struct mcsm_port *port)
{
    return port->node->sw ? port->node->ports[0].lid : port->lid;
}

static void add_node(struct mcsm_query *query, const struct mcsm_port *port)
{
    uint8_t record[108] = {0};

    if (!mcsm_is_end_port(port) || port->lid == 0) {
        return;
    }
    mcsm_put16(record, 0, port->lid);
    memcpy(record + 4, port->node->info, 40);
    mcsm_put64(record, 4 + MCSM_NI_PORT_GUID, port->guid);
    record[4 + MCSM_NI_LOCAL_PORT] = port->num;
    memcpy(record + 44, port->node->raw_desc, 64);
    if (MATCHES(query, record, node_parts)) {
        mcsm_answer_add(query, record);
    }
}

static void add_port(struct mcsm_query *query, const struct mcsm_port *port)
{
    bool subset = mcsm_asks(query, 7) && mcsm_get32(query->mad, MCSM_MAD_MOD) >> 31;
    uint8_t record[68] = {0};
    uint32_t wanted = mcsm_get32(query->data, 4 + MCSM_PI_CAPABILITY), has;

    if (!port->known || lid_of(port) == 0) {
        return;
    }
    mcsm_put16(record, 0, lid_of(port));
    record[2] = port->num;
    memcpy(record + 4, port->info, 64);
    mcsm_put64(record, 4, 0); /* the M_Key is secret */
    has = mcsm_get32(record, 4 + MCSM_PI_CAPABILITY);
    if (subset) {
        if ((has & wanted) != wanted) {
            return;
        }
        query->mask &= ~(1ULL << 7);
    }
    if (MATCHES(query, record, port_parts)) {
        mcsm_answer_add(query, record);
    }
    if (subset) {
        query->mask |= 1ULL << 7;
    }
}

static void add_switch(struct mcsm_query *query, const struct mcsm_port *port)
{
    uint8_t record[24] = {0};

    if (!port->node->sw || port->num != 0 || port->lid == 0) {
        return;
    }
    mcsm_put16(record, 0, port->lid);
    memcpy(record + 4, port->node->sw_info, 20);
    if (MATCHES(query, record, switch_parts)) {
        mcsm_answer_add(query, record);
    }
}

static void add_lft(struct mcsm_query *query, const struct mcsm_port *port)
{
    const struct mcsm_node *node = port->node;
    uint8_t record[72] = {0};

    if (!node->sw || port->num != 0 || port->lid == 0 || node->lft == NULL) {
        return;
    }
    mcsm_put16(record, 0, port->lid);
    for (unsigned block = 0; block * 64 < node->lft_size; block++) {
        mcsm_put16(record, 2, block);
        memcpy(record + 8, node->lft + block * 64, 64);
        if (MATCHES(query, record, lft_parts) && !mcsm_answer_add(query, record)) {
            return;
        }
    }
}

static void add_mft(struct mcsm_query *query, const struct mcsm_port *port)
{
    const struct mcsm_node *node = port->node;
    unsigned mlids = query->sa->sm->config->mlids;
    uint8_t record[72] = {0};

    if (!node->sw || port->num != 0 || port->lid == 0 || node->mft == NULL) {
        return;
    }
    mcsm_put16(record, 0, port->lid);
    for (unsigned block = 0; block * 32 < mlids; block++) {
        for (int position = 0; position < mcsm_mft_positions(node); position++) {
            mcsm_put16(record, 2, position << 12 | block);
            for (int i = 0; i < 32; i++) {
                mcsm_put16(record, 8 + 2 * i, node->mft[position * mlids + block * 32 + i]);
            }
            if (MATCHES(query, record, mft_parts) && !mcsm_answer_add(query, record)) {
                return;
            }
        }
    }
}

static void add_link(struct mcsm_query *query, const struct mcsm_port *port)
{
    uint8_t record[8] = {0};

    if (port->peer == NULL || lid_of(port) == 0 || lid_of(port->peer) == 0) {
        return;
    }
    mcsm_put16(record, 0, lid_of(port));
    record[2] = port->num;
    record[3] = port->peer->num;
    mcsm_put16(record, 4, lid_of(port->peer));
    if (MATCHES(query, record, link_parts)) {
        mcsm_answer_add(query, record);
    }
}

static void add_guids(struct mcsm_query *query, const struct mcsm_port *port)
{
    uint8_t record[72] = {0};

    if (!mcsm_is_end_port(port) || port->lid == 0) {
        return;
    }
    mcsm_put16(record, 0, port->lid);
    mcsm_put64(record, 8, port->guid);
    if (MATCHES(query, record, guid_parts)) {
        mcsm_answer_add(query, record);
    }
}

/* Adds the P_Key tables. Only a trusted client may read partition keys. */
static void add_pkeys(struct mcsm_query *query, const struct mcsm_port *port)
{
    uint8_t record[72] = {0};

    if (!mcsm_sa_is_trusted(query)) {
        query->status = MCSM_SA_INVALID;
        return;
    }
    if (!mcsm_is_end_port(port) || port->lid == 0 || port->pkeys == NULL) {
        return;
    }
    mcsm_put16(record, 0, port->lid);
    record[4] = port->num;
    for (unsigned block = 0; block * 32 < port->pkey_count; block++) {
        mcsm_put16(record, 2, block);
        for (int i = 0; i < 32; i++) {
            mcsm_put16(record, 8 + 2 * i, port->pkeys[block * 32 + i]);
        }
        if (MATCHES(query, record, pkey_parts) && !mcsm_answer_add(query, record)) {
            return;
        }
    }
}

/* Tables of lanes are known where the manager sets them. */
static void add_sl2vl(struct mcsm_query *query, const struct mcsm_port *port)
{
    int inputs = port->node->sw ? port->node->nports : 0;
    uint8_t record[16] = {0};

    if (port->num == 0 || !port->known || lid_of(port) == 0 ||
        !mcsm_vl_sl2vl(query->sa->sm, port, record + 8)) {
        return;
    }
    mcsm_put16(record, 0, lid_of(port));
    record[3] = port->num;
    for (int in = 0; in <= inputs; in++) {
        record[2] = in;
        if (MATCHES(query, record, sl2vl_parts) && !mcsm_answer_add(query, record)) {
            return;
        }
    }
}

static void add_vlarb(struct mcsm_query *query, const struct mcsm_port *port)
{
    uint8_t record[72] = {0};

    if (port->num == 0 || !port->known || lid_of(port) == 0) {
        return;
    }
    mcsm_put16(record, 0, lid_of(port));
    record[2] = port->num;
    for (int block = 1; block <= 4; block++) {
        record[3] = block;
        if (mcsm_vl_arb(query->sa->sm, port, block, record + 8) > 0 &&
            MATCHES(query, record, vlarb_parts) && !mcsm_answer_add(query, record)) {
            return;
        }
    }
}

static void serve_managers(struct mcsm_query *query)
{
    const struct mcsm_sm *sm = query->sa->sm;
    uint8_t record[28] = {0}, info[64];

    if (query->method != MCSM_GET && query->method != MCSM_GET_TABLE) {
        query->status = MCSM_SA_BAD_METHOD_ATTR;
        return;
    }
    mcsm_election_info(&sm->election, info);
    mcsm_put64(info, MCSM_SMI_KEY, 0);
    mcsm_put16(record, 0, sm->fabric->own_port ? sm->fabric->own_port->lid : 0);
    memcpy(record + 4, info, 24);
    if (MATCHES(query, record, sm_parts)) {
        mcsm_answer_add(query, record);
    }
    for (const struct mcsm_rival *other = sm->election.peers; other != NULL; other = other->next) {
        memset(record, 0, sizeof(record));
        mcsm_put16(record, 0, mcsm_lids_find(sm->lids, other->guid));
        mcsm_put64(record, 4 + MCSM_SMI_GUID, other->guid);
        mcsm_put32(record, 4 + MCSM_SMI_ACT, other->act);
        record[4 + MCSM_SMI_STATE] = other->priority << 4 | other->state;
        if (MATCHES(query, record, sm_parts)) {
            mcsm_answer_add(query, record);
        }
    }
}

static const struct mcsm_sa_record records[] = {{MCSM_SA_NODE, 108, .add = add_node},
                                                {MCSM_SA_PORT, 68, .add = add_port},
                                                {MCSM_SA_SWITCH, 24, .add = add_switch},
                                                {MCSM_SA_LFT, 72, .add = add_lft},
                                                {MCSM_SA_MFT, 72, .add = add_mft},
                                                {MCSM_SA_LINK, 8, .add = add_link},
                                                {MCSM_SA_GUID_INFO, 72, .add = add_guids},
                                                {MCSM_SA_PKEY, 72, .add = add_pkeys},
                                                {MCSM_SA_SL2VL, 16, .add = add_sl2vl},
                                                {MCSM_SA_VLARB, 72, .add = add_vlarb},
                                                {MCSM_SA_SM_INFO, 28, .serve = serve_managers}};

const struct mcsm_sa_part mcsm_sa_fabric = {.records = records,
                                            .record_count = sizeof(records) / sizeof(*records)};

/* What the manager and its administration do where the standard leaves no choice, on the model. */
#include <filesystem>
#include <map>
#include <unistd.h>

#include "mcsm_test.h"

extern "C" {
#include "model.h"
#include "sa/part.h"
#include "sa/rate.h"
}

/* A switch with ten hosts; the tests change links before they start the manager. */
class Spec : public testing::Test
{
  protected:
    void SetUp() override
    {
        mcsm_log_set_level(MCSM_LOG_ERROR);
        model_start(&model);
        model_add(&model, 0x100, true, 16);
        for (int i = 0; i < 10; i++) {
            model_add(&model, 0x200 + 16 * i, false, 1);
            model_link(&model, 0, i + 1, i + 1, 1);
        }
        ASSERT_NE(nullptr, mkdtemp(directory));
        testing::internal::CaptureStderr();
    }
    void TearDown() override
    {
        model_manager_free(manager);
        std::filesystem::remove_all(directory);
        testing::internal::GetCapturedStderr();
    }
    void start(const std::string &more = "")
    {
        model_manager_free(manager);
        std::string text = std::string("[cluster]\nname = a\nlid-max = 99\nstate-dir = ") +
                           directory + "\n" + more;
        manager = model_manager_new(&model, 1, text.c_str());
        ASSERT_NE(nullptr, manager);
        model_run(manager, 10000);
    }
    uint16_t lid(int node)
    {
        return mcsm_get16(model.nodes[node].ports[node ? 1 : 0].info, MCSM_PI_LID);
    }
    void gid(unsigned at, int node)
    {
        mcsm_put64(data, at, 0xfe80000000000000ULL);
        mcsm_put64(data, at + 8, model.nodes[node].guid + 1);
    }
    int request(int from, uint8_t method, uint16_t attr, uint64_t mask)
    {
        return model_sa(manager, lid(from), method, attr, mask, data);
    }
    const uint8_t *record()
    {
        return manager->answer + MCSM_SA_DATA;
    }
    size_t records(size_t size)
    {
        return (manager->answer_length - MCSM_SA_DATA) / size;
    }
    /* The path from one host to another, with the components that `mask` adds. */
    int path(int from, int to, uint64_t mask)
    {
        gid(8, to);
        gid(24, from);
        return request(from, MCSM_GET, MCSM_SA_PATH, mask | 0xc);
    }
    int join(int node, uint8_t last, uint8_t state, uint64_t mask = 0)
    {
        const uint8_t mgid[] = {0xff, 0x12, 0x40, 0x1b, 0xff, 0xff};
        memcpy(data, mgid, 6);
        data[15] = last;
        gid(16, node);
        mcsm_put32(data, 32, 0xb1b);
        mcsm_put16(data, 40, 0xffff);
        data[48] = 0x20 | state;
        int status = request(node, MCSM_SET, MCSM_SA_MC_MEMBER, mask | 0x13087);
        if (status == 0) {
            mlid = mcsm_get16(record(), 36);
        }
        model_run(manager, 10000);
        return status;
    }
    void clear()
    {
        memset(data, 0, sizeof(data));
    }
    uint16_t pkey(int node, int port, int index)
    {
        return mcsm_get16(model.nodes[node].ports[port].pkeys, 2 * index);
    }
    int keys_of(int node, int port)
    {
        int count = 0;
        for (int i = 0; i < MODEL_PKEYS; i++) {
            count += pkey(node, port, i) != 0;
        }
        return count;
    }
    void link_speed(int host, uint8_t width, uint8_t speed, uint8_t extended)
    {
        for (auto *info : {model.nodes[host].ports[1].info, model.nodes[0].ports[host].info}) {
            info[MCSM_PI_WIDTH_ACTIVE] = width;
            mcsm_put_hi(info, MCSM_PI_SPEED_ACTIVE_HI, speed);
            mcsm_put_hi(info, MCSM_PI_SPEED_EXT_ACTIVE_HI, extended);
        }
    }
    uint8_t data[200] = {};
    uint16_t mlid = 0;
    struct model model;
    struct model_manager *manager = nullptr;
    char directory[32] = "/tmp/mcsm-spec-XXXXXX";
};

/* All widths and speeds, computed here from lanes and Mb/s. */
TEST(Rate, AllWidthsAndSpeeds)
{
    static const std::map<int, uint8_t> codes = {
        {2500, 2},    {10000, 3},   {30000, 4},   {5000, 5},    {20000, 6},   {40000, 7},
        {60000, 8},   {80000, 9},   {120000, 10}, {14000, 11},  {56000, 12},  {112000, 13},
        {168000, 14}, {25000, 15},  {100000, 16}, {200000, 17}, {300000, 18}, {28000, 19},
        {50000, 20},  {400000, 21}, {600000, 22}, {800000, 23}, {1200000, 24}};
    const int widths[][2] = {{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}};
    const int speeds[][3] = {{1, 0, 2500},  {2, 0, 5000},  {4, 0, 10000}, {4, 1, 14000},
                             {4, 2, 25000}, {4, 4, 50000}, {4, 8, 100000}};
    int checked = 0;
    for (auto width : widths) {
        for (auto speed : speeds) {
            int total = width[1] * speed[2];
            EXPECT_EQ((unsigned)total, mcsm_link_speed(width[0], speed[0], speed[1]));
            auto code = std::prev(codes.upper_bound(total)); /* 2x EDR and others are exact */
            EXPECT_EQ(code->second, mcsm_rate_code(total)) << total;
            checked++;
        }
    }
    EXPECT_EQ(35, checked);
    for (auto [speed, code] : codes) {
        EXPECT_EQ(code, mcsm_rate_code(speed));
        EXPECT_EQ((unsigned)speed, mcsm_rate_speed(code));
    }
    EXPECT_EQ(24, mcsm_rate_code(1600000));    /* 8x XDR */
    EXPECT_EQ(23, mcsm_rate_code(4 * 200000)); /* 4x XDR */
    EXPECT_EQ(0, mcsm_rate_below(2));
    EXPECT_EQ(2, mcsm_rate_below(5));
}

TEST_F(Spec, PathRateIsThatOfTheSlowestLink)
{
    link_speed(2, 2, 4, 1); /* 4x FDR */
    link_speed(3, 2, 4, 0); /* 4x QDR */
    link_speed(4, 2, 4, 4); /* 4x HDR */
    link_speed(5, 2, 4, 8); /* 4x NDR */
    start();
    ASSERT_EQ(0, path(2, 3, 0));
    EXPECT_EQ(7, record()[55] & 63); /* 40 */
    ASSERT_EQ(0, path(4, 5, 0));
    EXPECT_EQ(17, record()[55] & 63); /* 200 */
    ASSERT_EQ(0, path(5, 2, 0));
    EXPECT_EQ(12, record()[55] & 63); /* 56 */
}

TEST_F(Spec, PathSelectors)
{
    link_speed(2, 2, 2, 0); /* 4x DDR: 20 Gb/s */
    link_speed(3, 2, 2, 0);
    start();
    struct {
        int bit, at, selector, code, expected; /* -1: no path */
    } const cases[] = {
        {16, 54, 2, 1, 1},  {16, 54, 1, 3, 2},   {16, 54, 0, 3, 5},  {16, 54, 0, 5, -1},
        {16, 54, 3, 0, 5},  {16, 54, 1, 1, -1},  {16, 54, 2, 9, -1}, {18, 55, 0, 5, 6},
        {18, 55, 2, 3, 3},  {18, 55, 2, 7, -1},  {18, 55, 1, 6, 11}, {18, 55, 0, 6, -1},
        {18, 55, 1, 2, -1}, {18, 55, 2, 63, -1}, {18, 55, 3, 63, 6}, {20, 56, 0, 20, -1},
        {20, 56, 1, 10, 9}, {20, 56, 2, 18, 18}, {20, 56, 1, 0, -1}, {20, 56, 2, 25, -1}};
    for (auto &c : cases) {
        clear();
        data[c.at] = c.selector << 6 | c.code;
        int status = path(2, 3, 3ull << c.bit);
        EXPECT_EQ(c.expected < 0 ? (int)MCSM_SA_NO_RECORDS : 0, status)
            << c.bit << " " << c.selector << " " << c.code;
        if (status == 0) {
            EXPECT_EQ(2 << 6 | c.expected, record()[c.at])
                << c.bit << " " << c.selector << " " << c.code;
        }
    }
}

TEST_F(Spec, PathToASwitchHasTheMtuOfItsPort0)
{
    mcsm_put_lo(model.nodes[0].ports[0].info, MCSM_PI_MTU_CAP_LO, 3);
    start();
    clear();
    mcsm_put16(data, 40, lid(0));
    mcsm_put16(data, 42, lid(2));
    ASSERT_EQ(0, request(2, MCSM_GET, MCSM_SA_PATH, 0x30));
    EXPECT_EQ(3, record()[54] & 63);
}

/* A port that sends to itself has the MTU of its link: a QP refuses a higher one. */
TEST_F(Spec, PathToItself)
{
    mcsm_put_lo(model.nodes[0].ports[2].info, MCSM_PI_MTU_CAP_LO, 4);
    start();
    clear();
    ASSERT_EQ(0, path(2, 2, 0));
    EXPECT_EQ(4, record()[54] & 63);
}

/* PortInfoRecord has the states that the ports have after the first sweep. */
TEST_F(Spec, PortRecordsAreOfNow)
{
    start();
    clear();
    ASSERT_EQ(0, request(2, MCSM_GET_TABLE, MCSM_SA_PORT, 0));
    int active = 0;
    for (size_t i = 0; i < records(72); i++) {
        active += (record()[72 * i + 4 + MCSM_PI_STATE_LO] & 15) == MCSM_STATE_ACTIVE;
    }
    EXPECT_EQ(21, active) << "both ends of ten links, and port 0 of the switch";
}

/* CapabilityMask2 promises what this administration has. */
TEST_F(Spec, CapabilityMask2)
{
    start();
    ASSERT_EQ(0, request(5, MCSM_GET, MCSM_SA_CLASS_PORT_INFO, 0));
    EXPECT_EQ(1u << 3 | 1u << 6 | 1u << 7 | 1u << 12, mcsm_get32(record(), 4) >> 5);
    start("[rule r]\nservice-id = 1\nsl = 0\n");
    ASSERT_EQ(0, request(5, MCSM_GET, MCSM_SA_CLASS_PORT_INFO, 0));
    EXPECT_EQ(1u << 1 | 1u << 3 | 1u << 6 | 1u << 7 | 1u << 12, mcsm_get32(record(), 4) >> 5);
}

TEST_F(Spec, PathOfLimitedMembersAndSl)
{
    start("[partition p]\npkey = 0x12\nlimited = 0x211, 0x221\nfull = 0x231\n");
    clear();
    mcsm_put16(data, 50, 0x12);
    EXPECT_EQ(MCSM_SA_NO_RECORDS, path(2, 3, 1 << 13));
    ASSERT_EQ(0, path(2, 4, 1 << 13));
    EXPECT_EQ(0x8012, mcsm_get16(record(), 50));
    clear();
    mcsm_put16(data, 52, 3);
    ASSERT_EQ(0, path(2, 4, 1 << 15));
    EXPECT_EQ(3, mcsm_get16(record(), 52));
}

TEST_F(Spec, ReversibleNeedsTheWayBack)
{
    start();
    ASSERT_EQ(0, path(2, 3, 0));
    EXPECT_EQ(0x80, record()[49]);
    mcsm_fabric_find(manager->sm->fabric, 0x100)->lft[lid(2)] = MCSM_DROP;
    ASSERT_EQ(0, path(2, 3, 0));
    EXPECT_EQ(0, record()[49]);
    clear();
    data[49] = 0x80;
    EXPECT_EQ(MCSM_SA_NO_RECORDS, path(2, 3, 1 << 11));
}

TEST_F(Spec, LmcGivesSeveralPaths)
{
    start("lmc = 2\n");
    gid(8, 3);
    gid(24, 2);
    ASSERT_EQ(0, request(2, MCSM_GET_TABLE, MCSM_SA_PATH, 0xc));
    ASSERT_EQ(4u, records(64));
    for (int i = 0; i < 4; i++) {
        EXPECT_EQ(lid(3) + i, mcsm_get16(record() + 64 * i, 40));
        EXPECT_EQ(lid(2) + i, mcsm_get16(record() + 64 * i, 42));
    }
    data[49] = 2;
    ASSERT_EQ(0, request(2, MCSM_GET_TABLE, MCSM_SA_PATH, 0xc | 1 << 12));
    EXPECT_EQ(2u, records(64));
    ASSERT_EQ(0, request(2, MCSM_GET, MCSM_SA_PATH, 0xc));
}

TEST_F(Spec, SmKeyOfSaRequests)
{
    start("sm-key = 0x77\n");
    uint8_t mad[MCSM_MAD_SIZE] = {1, MCSM_CLASS_SA, 2, MCSM_GET_TABLE};
    struct mcsm_addr from = {};
    from.lid = lid(2);
    mcsm_put16(mad, MCSM_MAD_ATTR, MCSM_SA_NODE);
    for (uint64_t key : {0x0, 0x1, 0x77, 0x5}) {
        free(manager->answer);
        manager->answer = nullptr;
        mcsm_put64(mad, MCSM_SA_SM_KEY, key);
        mcsm_sa_receive(manager->sa, &from, mad, sizeof(mad));
        EXPECT_EQ(key == 5, manager->answer == nullptr) << key;
    }
}

TEST_F(Spec, GroupValues)
{
    start();
    auto has = [&](int at) { return record()[at] & 63; };
    clear();
    data[38] = 0 << 6 | 3;
    ASSERT_EQ(0, join(2, 1, 1, 3 << 4)); /* greater than 1024 */
    EXPECT_EQ(5, has(38));
    clear();
    data[38] = 3 << 6 | 1;
    ASSERT_EQ(0, join(2, 2, 1, 3 << 4)); /* the largest */
    EXPECT_EQ(5, has(38));
    clear();
    data[42] = 2 << 6 | 63;
    EXPECT_EQ(MCSM_SA_INVALID, join(2, 4, 1, 3 << 8)); /* no such rate */
    clear();
    data[42] = 2 << 6 | 17;
    EXPECT_EQ(MCSM_SA_INVALID, join(2, 4, 1, 3 << 8)); /* faster than the port */
    clear();
    data[38] = 2 << 6 | 2;
    EXPECT_EQ(MCSM_SA_INVALID, join(3, 1, 1, 3 << 4)); /* exactly 512: the group has 4096 */
    clear();
    mcsm_put32(data, 44, 5u << 28);
    EXPECT_EQ(MCSM_SA_INVALID, join(3, 2, 1)); /* another SL */
    clear();
    EXPECT_EQ(0, join(3, 2, 1));
    /* Get of groups by selector: of three groups two have more than 2048. */
    clear();
    data[38] = 0 << 6 | 4;
    ASSERT_EQ(0, request(2, MCSM_GET_TABLE, MCSM_SA_MC_MEMBER, 3 << 4));
    EXPECT_EQ(2u, records(56));
}

TEST_F(Spec, GroupOfAPortWithASmallerMtu)
{
    mcsm_put_lo(model.nodes[2].ports[1].info, MCSM_PI_MTU_CAP_LO, 4);
    start();
    clear();
    data[38] = 2 << 6 | 5;
    EXPECT_EQ(MCSM_SA_INVALID, join(2, 1, 1, 3 << 4));
    clear();
    ASSERT_EQ(0, join(3, 1, 1));
    clear();
    EXPECT_EQ(MCSM_SA_INVALID, join(2, 1, 1)); /* the group sends 4096 */
}

TEST_F(Spec, SendOnlyMembersReceiveNothing)
{
    start();
    ASSERT_EQ(0, join(3, 1, 1));
    for (uint8_t state : {4, 8}) {
        clear();
        ASSERT_EQ(0, join(4, 1, state));
        int received[MODEL_NODES];
        ASSERT_TRUE(model_multicast(&model, 3, mlid, received));
        EXPECT_EQ(0, received[4]) << (int)state;
        ASSERT_TRUE(model_multicast(&model, 4, mlid, received));
        EXPECT_EQ(1, received[3]) << (int)state;
    }
    clear();
    ASSERT_EQ(0, join(4, 1, 1)); /* now it wants to receive */
    int received[MODEL_NODES];
    ASSERT_TRUE(model_multicast(&model, 3, mlid, received));
    EXPECT_EQ(1, received[4]);
    /* A send-only full member creates a group, and keeps it alive. */
    clear();
    EXPECT_EQ(MCSM_SA_FEW_COMPONENTS, join(5, 9, 4));
    EXPECT_EQ(0, join(5, 9, 8));
    EXPECT_EQ(0, request(5, MCSM_GET, MCSM_SA_CLASS_PORT_INFO, 0));
    EXPECT_EQ(1u, mcsm_get32(record(), 4) >> 5 >> 12 & 1) << "as in <rdma/ib_sa.h>";
}

TEST_F(Spec, SubscriptionsByQpAndProducer)
{
    start();
    auto inform = [&](bool on, uint32_t qpn, uint32_t producer) {
        clear();
        mcsm_put16(data, 16, 0xffff);
        data[22] = 1;
        data[23] = on;
        mcsm_put16(data, 24, 0xffff);
        mcsm_put16(data, 26, 0xffff);
        mcsm_put32(data, 28, qpn << 8);
        mcsm_put32(data, 32, producer);
        return request(5, MCSM_SET, MCSM_SA_INFORM_INFO, 0);
    };
    ASSERT_EQ(0, inform(true, 0x111, 0xffffff));
    ASSERT_EQ(0, inform(true, 0x222, 0xffffff));
    ASSERT_EQ(0, inform(true, 0x222, 0xffffff)); /* the same one again */
    EXPECT_EQ(2u, mcsm_sa_stats(manager->sa)->subscriptions);
    clear();
    data[7] = 1; /* a subscriber that does not exist */
    ASSERT_EQ(0, request(5, MCSM_GET_TABLE, MCSM_SA_INFORM, 1));
    EXPECT_EQ(0u, records(64));
    ASSERT_EQ(0, request(5, MCSM_GET_TABLE, MCSM_SA_INFORM, 0));
    EXPECT_EQ(2u, records(64));
    ASSERT_EQ(0, inform(false, 0x111, 0xffffff));
    ASSERT_EQ(0, inform(false, 0x222, 0xffffff));
    EXPECT_EQ(0u, mcsm_sa_stats(manager->sa)->subscriptions);
    ASSERT_EQ(0, inform(true, 1, 1)); /* traps of channel adapters alone */
    uint8_t mad[MCSM_MAD_SIZE] = {1, MCSM_CLASS_SMP_LID, 1, MCSM_TRAP};
    struct mcsm_addr from = {};
    from.lid = lid(0);
    mcsm_put16(mad, MCSM_MAD_ATTR, MCSM_NOTICE);
    mcsm_put32(mad, 64, 0x81000002);
    mcsm_put16(mad, 68, 131);
    mcsm_put16(mad, 70, from.lid);
    model_deliver(manager, &from, mad);
    EXPECT_EQ(0u, mcsm_sa_stats(manager->sa)->reports);
    mcsm_put32(mad, 64, 0x81000001);
    model_deliver(manager, &from, mad);
    EXPECT_EQ(1u, mcsm_sa_stats(manager->sa)->reports);
    /* A burst of link errors is repressed, and handed on ten times in a second. */
    for (int i = 0; i < 100; i++) {
        model_deliver(manager, &from, mad);
    }
    EXPECT_LE(mcsm_sa_stats(manager->sa)->reports, 21u);
    EXPECT_EQ(102u, manager->repressed);
}

/* A mask with a bit that no component has selects nothing. */
TEST_F(Spec, RecordMasks)
{
    start("[port]\nsl2vl = 0 1 2 3 0 1 2 3 0 1 2 3 0 1 2 15\nvlarb-low = 0:64 1:32\n");
    clear();
    data[4 + 36] = 0x10;
    ASSERT_EQ(0, request(2, MCSM_GET_TABLE, MCSM_SA_PORT, 1ull << 23)); /* NeighborMTU 256 */
    EXPECT_EQ(0u, records(72));
    data[4 + 36] = 0x50;
    ASSERT_EQ(0, request(2, MCSM_GET_TABLE, MCSM_SA_PORT, 1ull << 23));
    EXPECT_EQ(20u, records(72));
    manager->sa_key = manager->config->sm_key;
    for (uint16_t attr : {MCSM_SA_NODE, MCSM_SA_PORT, MCSM_SA_SWITCH, MCSM_SA_LFT, MCSM_SA_MFT,
                          MCSM_SA_LINK, MCSM_SA_SM_INFO, MCSM_SA_GUID_INFO, MCSM_SA_PKEY}) {
        clear();
        ASSERT_EQ(0, request(2, MCSM_GET_TABLE, attr, 1ull << 63)) << attr;
        EXPECT_EQ(0u, records(8)) << attr;
    }
    /* The optional records that ClassPortInfo promises. */
    clear();
    ASSERT_EQ(0, request(2, MCSM_GET_TABLE, MCSM_SA_SL2VL, 0));
    EXPECT_EQ(16u * 17 + 10, records(16));
    EXPECT_EQ(0x01, record()[8]);
    ASSERT_EQ(0, request(2, MCSM_GET_TABLE, MCSM_SA_VLARB, 0));
    EXPECT_EQ(2u * 26, records(72));
}

/* What another manager left is removed: keys beyond the first block, and those of switch ports. */
TEST_F(Spec, PKeyTablesAreOwnedWhole)
{
    for (int node = 0; node <= 10; node++) {
        for (int port = 1; port <= model.nodes[node].nports; port++) {
            for (int i = 1; i <= 40; i++) {
                mcsm_put16(model.nodes[node].ports[port].pkeys, 2 * i, 0x8100 + i);
            }
        }
    }
    std::string partition = "[partition x]\npkey = 0x105\nfull = all\n";
    start(partition);
    EXPECT_EQ(2, keys_of(2, 1));
    EXPECT_EQ(0x8105, pkey(2, 1, 5)) << "a key keeps its index";
    EXPECT_EQ(0xffff, pkey(2, 1, 0));
    EXPECT_EQ(2, keys_of(0, 2)) << "the switch port to the host";
    EXPECT_EQ(MCSM_PI_ENFORCE_PKEYS, model.nodes[0].ports[2].info[MCSM_PI_OPER_VLS_HI] & 0xf);
    start("[partition y]\npkey = 0x20\nfull = all\n" + partition);
    EXPECT_EQ(0x8105, pkey(2, 1, 5)) << "after a new first partition";
    EXPECT_EQ(3, keys_of(2, 1));
    EXPECT_EQ(3, keys_of(0, 2));
    start("[port]\npartition-enforcement = no\n" + partition);
    EXPECT_EQ(0x8105, pkey(2, 1, 5));
    EXPECT_EQ(2, keys_of(2, 1));
    EXPECT_EQ(0, model.nodes[0].ports[2].info[MCSM_PI_OPER_VLS_HI] & 0xf);
    start(partition);
    EXPECT_EQ(MCSM_PI_ENFORCE_PKEYS, model.nodes[0].ports[2].info[MCSM_PI_OPER_VLS_HI] & 0xf);
    start(); /* a filter of the default partition alone would drop nothing */
    EXPECT_EQ(0, model.nodes[0].ports[2].info[MCSM_PI_OPER_VLS_HI] & 0xf);
    EXPECT_EQ(1, keys_of(2, 1));
    start("[partition default]\npkey = 0x7fff\nfull = 0x201\nlimited = all\n");
    EXPECT_EQ(MCSM_PI_ENFORCE_PKEYS, model.nodes[0].ports[2].info[MCSM_PI_OPER_VLS_HI] & 0xf)
        << "limited members could name the full key";
}

TEST_F(Spec, FortyPartitions)
{
    std::string text;
    for (int i = 1; i <= 40; i++) {
        text += "[partition p" + std::to_string(i) + "]\npkey = " + std::to_string(i) +
                "\nfull = all\n";
    }
    start(text);
    EXPECT_EQ(41, keys_of(2, 1));
    EXPECT_EQ(41, keys_of(0, 2));
    clear();
    mcsm_put16(data, 0, lid(2));
    EXPECT_EQ(MCSM_SA_INVALID, request(2, MCSM_GET_TABLE, MCSM_SA_PKEY, 1))
        << "a client without the key";
    manager->sa_key = manager->config->sm_key;
    ASSERT_EQ(0, request(2, MCSM_GET_TABLE, MCSM_SA_PKEY, 1));
    EXPECT_EQ(4u, records(72)); /* blocks of 32 keys */
    clear();
    mcsm_put16(data, 50, 40);
    EXPECT_EQ(0, path(2, 3, 1 << 13));
}

TEST_F(Spec, PortsAndSwitchesAreSetUp)
{
    mcsm_put32(model.nodes[0].ports[0].info, MCSM_PI_CAPABILITY, MCSM_CAP_MFT_TOP);
    mcsm_put16(model.nodes[0].sw_info, MCSM_SI_MFT_TOP, 0xc003);
    int second = model_add(&model, 0x101, true, 8);
    model_link(&model, 0, 16, second, 1);
    start();
    EXPECT_EQ(16, model.nodes[0].ports[2].info[MCSM_PI_HOQ] & 31); /* to a host */
    EXPECT_EQ(18, model.nodes[0].ports[16].info[MCSM_PI_HOQ] & 31);
    EXPECT_EQ(0xc0ff, mcsm_get16(model.nodes[0].sw_info, MCSM_SI_MFT_TOP));
}

/* Groups whose MLID is beyond the table of a switch do not pass the switch: the log names it. */
TEST_F(Spec, SwitchWithAShortMulticastTable)
{
    mcsm_put32(model.nodes[0].ports[0].info, MCSM_PI_CAPABILITY, MCSM_CAP_MFT_TOP);
    mcsm_put16(model.nodes[0].sw_info, MCSM_SI_MFT_CAP, 64);
    start();
    std::string said = testing::internal::GetCapturedStderr();
    testing::internal::CaptureStderr();
    EXPECT_NE(std::string::npos, said.find("has room for 64 MLIDs, and mlids = 256")) << said;
    EXPECT_EQ(0xc03f, mcsm_get16(model.nodes[0].sw_info, MCSM_SI_MFT_TOP));
}

/* Trap 144 for a new NodeDescription reads it; for anything else it sweeps. */
TEST_F(Spec, TrapOfANewDescription)
{
    start();
    uint8_t mad[MCSM_MAD_SIZE] = {1, MCSM_CLASS_SMP_LID, 1, MCSM_TRAP};
    struct mcsm_addr from = {};
    from.lid = lid(2);
    mcsm_put16(mad, MCSM_MAD_ATTR, MCSM_NOTICE);
    mad[64] = 0x84;
    mcsm_put16(mad, 68, 144);
    mcsm_put16(mad, 70, from.lid);
    mad[64 + 15] = 1;
    mcsm_put16(mad, 64 + 20, 1);
    uint64_t sweeps = manager->sm->stats.heavy_sweeps;
    model_deliver(manager, &from, mad);
    model_run(manager, 10000);
    EXPECT_EQ(sweeps, manager->sm->stats.heavy_sweeps);
    mcsm_put16(mad, 64 + 20, 8);
    model_deliver(manager, &from, mad);
    model_run(manager, 10000);
    EXPECT_EQ(sweeps + 1, manager->sm->stats.heavy_sweeps);
}

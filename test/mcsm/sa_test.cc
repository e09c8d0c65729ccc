/* Subnet administration on the model. */
#include <filesystem>
#include <unistd.h>

#include "mcsm_test.h"

extern "C" {
#include "model.h"
#include "sa/part.h"
}

class Sa : public testing::Test
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
        std::string text =
            std::string("[cluster]\nname = a\nlid-max = 99\nstate-dir = ") + directory +
            "\n[border]\n0x100/16 = b 0x900/1 transit\n[neighbour b]\nlids = 100-199\n";
        manager = model_manager_new(&model, 1, text.c_str());
        mcsm_put_lo(model.nodes[0].ports[16].info, MCSM_PI_STATE_LO, MCSM_STATE_ACTIVE);
        ASSERT_NE(nullptr, manager);
        model_run(manager, 10000);
    }
    void TearDown() override
    {
        model_manager_free(manager);
        std::filesystem::remove_all(directory);
    }
    uint16_t lid(int node)
    {
        return mcsm_get16(model.nodes[node].ports[node ? 1 : 0].info, MCSM_PI_LID);
    }
    void gid(uint8_t *at, int node)
    {
        mcsm_put64(at, 0, 0xfe80000000000000ULL);
        mcsm_put64(at, 8, model.nodes[node].guid + 1);
    }
    const uint8_t *record()
    {
        return manager->answer + MCSM_SA_DATA;
    }
    size_t records(size_t size)
    {
        return (manager->answer_length - MCSM_SA_DATA) / size;
    }
    int request(int from, uint8_t method, uint16_t attr, uint64_t mask)
    {
        return model_sa(manager, lid(from), method, attr, mask, data);
    }
    int join(int node, uint8_t last, uint8_t state = 1, uint64_t mask = 0x11087)
    {
        memset(data, 0, sizeof(data));
        const uint8_t mgid[] = {0xff, 0x12, 0x40, 0x1b, 0xff, 0xff};
        memcpy(data, mgid, 6);
        data[15] = last;
        gid(data + 16, node);
        mcsm_put32(data, 32, 0xb1b);
        mcsm_put16(data, 40, 0xffff);
        data[48] = 0x20 | state;
        return request(node, MCSM_SET, MCSM_SA_MC_MEMBER, mask);
    }
    uint8_t data[200] = {};
    struct model model;
    struct model_manager *manager = nullptr;
    char directory[32] = "/tmp/mcsm-sa-XXXXXX";
};

TEST_F(Sa, NodeRecordsOfAll)
{
    ASSERT_EQ(0, request(2, MCSM_GET_TABLE, MCSM_SA_NODE, 0));
    EXPECT_EQ(11u, records(112));
    EXPECT_EQ(14, mcsm_get16(manager->answer, MCSM_SA_ATTR_OFFSET));
    EXPECT_EQ(1, manager->answer[MCSM_SA_RMPP_FLAGS]); /* active: the kernel cuts it */
    mcsm_put16(data, 0, lid(3));
    ASSERT_EQ(0, request(2, MCSM_GET, MCSM_SA_NODE, 1));
    EXPECT_EQ(0x220u, mcsm_get64(record(), 4 + MCSM_NI_GUID));
    mcsm_put16(data, 0, 77);
    EXPECT_EQ(MCSM_SA_NO_RECORDS, request(2, MCSM_GET, MCSM_SA_NODE, 1));
}

/* A table goes to the kernel as one buffer, which it cuts into segments: an RMPP header that says
 * so, and every record once, at the distance that the header names. */
TEST_F(Sa, TableOfManySegments)
{
    ASSERT_EQ(0, request(2, MCSM_GET_TABLE, MCSM_SA_NODE, 0));
    ASSERT_GT(manager->answer_length, 5u * MCSM_SA_DATA_SIZE + MCSM_SA_DATA);
    EXPECT_EQ(1, manager->answer[MCSM_SA_RMPP_VERSION]);
    EXPECT_EQ(1, manager->answer[MCSM_SA_RMPP_TYPE]);
    EXPECT_EQ(1, manager->answer[MCSM_SA_RMPP_FLAGS]);
    size_t step = 8 * mcsm_get16(manager->answer, MCSM_SA_ATTR_OFFSET);
    const uint8_t *end = manager->answer + manager->answer_length;
    std::vector<uint8_t> table(record(), end);
    ASSERT_EQ(11 * step, table.size());
    for (int node = 0; node <= 10; node++) {
        memset(data, 0, sizeof(data));
        mcsm_put16(data, 0, lid(node));
        ASSERT_EQ(0, request(2, MCSM_GET, MCSM_SA_NODE, 1));
        int found = 0;
        for (size_t at = 0; at < table.size(); at += step) {
            found += memcmp(&table[at], record(), 108) == 0;
        }
        EXPECT_EQ(1, found) << "node " << node;
    }
}

/* Requests of several segments are put together below. None that is served needs them: they are
 * answered like any other that is not known, and never read beyond their end. */
TEST_F(Sa, RequestOfManySegments)
{
    std::vector<uint8_t> mad(3000);
    struct mcsm_addr from = {};
    from.lid = lid(2);
    mad[0] = 1, mad[1] = MCSM_CLASS_SA, mad[2] = 2, mad[3] = MCSM_GET_MULTI;
    mad[MCSM_SA_RMPP_VERSION] = mad[MCSM_SA_RMPP_TYPE] = 1;
    mad[MCSM_SA_RMPP_FLAGS] = 7;
    mcsm_put16(mad.data(), MCSM_MAD_ATTR, 0x3a); /* MultiPathRecord */
    mcsm_sa_receive(manager->sa, &from, mad.data(), mad.size());
    ASSERT_NE(nullptr, manager->answer);
    EXPECT_EQ(MCSM_SA_BAD_METHOD_ATTR, mcsm_get16(manager->answer, MCSM_MAD_STATUS));
    EXPECT_EQ(MCSM_GET_MULTI | MCSM_RESPONSE, manager->answer[MCSM_MAD_METHOD]);
    mad[3] = MCSM_GET_TABLE;
    mcsm_put16(mad.data(), MCSM_MAD_ATTR, MCSM_SA_NODE);
    mcsm_sa_receive(manager->sa, &from, mad.data(), mad.size());
    EXPECT_EQ(0, mcsm_get16(manager->answer, MCSM_MAD_STATUS));
    EXPECT_EQ(11u, records(112));
}

TEST_F(Sa, PathByGidLidAndForeign)
{
    gid(data + 8, 5);
    gid(data + 24, 2);
    ASSERT_EQ(0, request(2, MCSM_GET, MCSM_SA_PATH, 0xc));
    EXPECT_EQ(lid(5), mcsm_get16(record(), 40));
    EXPECT_EQ(lid(2), mcsm_get16(record(), 42));
    EXPECT_EQ(0xffff, mcsm_get16(record(), 50));
    memset(data, 0, sizeof(data));
    mcsm_put16(data, 40, lid(6));
    mcsm_put16(data, 42, lid(2));
    ASSERT_EQ(0, request(2, MCSM_GET, MCSM_SA_PATH, 0x30));
    EXPECT_EQ(model.nodes[6].guid + 1, mcsm_get64(record(), 16));
    mcsm_put16(data, 40, 150); /* another cluster's */
    ASSERT_EQ(0, request(2, MCSM_GET, MCSM_SA_PATH, 0x30));
    EXPECT_EQ(150, mcsm_get16(record(), 40));
    mcsm_put16(data, 40, lid(2)); /* the way back */
    mcsm_put16(data, 42, 150);
    ASSERT_EQ(0, request(2, MCSM_GET, MCSM_SA_PATH, 0x30));
    EXPECT_EQ(lid(2), mcsm_get16(record(), 40));
    EXPECT_EQ(150, mcsm_get16(record(), 42));
    EXPECT_EQ(model.nodes[2].guid + 1, mcsm_get64(record(), 16));
    mcsm_put16(data, 40, 151); /* between two other clusters */
    EXPECT_EQ(MCSM_SA_NO_RECORDS, request(2, MCSM_GET, MCSM_SA_PATH, 0x30));
    mcsm_put16(data, 42, lid(2));
    mcsm_put16(data, 40, lid(6));
    mcsm_put16(data, 52, 0);
    EXPECT_EQ(0, request(2, MCSM_GET, MCSM_SA_PATH, 0x8030));
    mcsm_put16(data, 40, 250); /* nobody's */
    EXPECT_EQ(MCSM_SA_NO_RECORDS, request(2, MCSM_GET, MCSM_SA_PATH, 0x30));
}

TEST_F(Sa, PathTableListsAllDestinations)
{
    ASSERT_EQ(0, request(2, MCSM_GET_TABLE, MCSM_SA_PATH, 0));
    EXPECT_EQ(11u, records(64));
}

TEST_F(Sa, TableRecords)
{
    ASSERT_EQ(0, request(2, MCSM_GET_TABLE, MCSM_SA_PORT, 0));
    EXPECT_EQ(27u, records(72));
    ASSERT_EQ(0, request(2, MCSM_GET_TABLE, MCSM_SA_SWITCH, 0));
    EXPECT_EQ(1u, records(24));
    ASSERT_EQ(0, request(2, MCSM_GET_TABLE, MCSM_SA_LFT, 0));
    EXPECT_EQ(4u, records(72)); /* LIDs up to 199 */
    ASSERT_EQ(0, request(2, MCSM_GET_TABLE, MCSM_SA_MFT, 0));
    EXPECT_EQ(16u, records(72)); /* 256 MLIDs, two positions of 16 ports */
    ASSERT_EQ(0, request(2, MCSM_GET_TABLE, MCSM_SA_LINK, 0));
    EXPECT_EQ(20u, records(8));
    ASSERT_EQ(0, request(2, MCSM_GET_TABLE, MCSM_SA_SM_INFO, 0));
    EXPECT_EQ(1u, records(32));
    ASSERT_EQ(0, request(2, MCSM_GET, MCSM_SA_CLASS_PORT_INFO, 0));
    EXPECT_EQ(1, record()[0]); /* base version */
    EXPECT_EQ(2, record()[1]);
    EXPECT_EQ(0x2300, mcsm_get16(record(), 2));
}

TEST_F(Sa, JoinAndLeave)
{
    ASSERT_EQ(0, join(2, 5));
    uint16_t mlid = mcsm_get16(record(), 36);
    EXPECT_GE(mlid, 0xc000);
    ASSERT_EQ(0, join(3, 5, 1, 0x10003));
    EXPECT_EQ(mlid, mcsm_get16(record(), 36));
    EXPECT_EQ(2u, mcsm_sa_stats(manager->sa)->members);
    EXPECT_EQ(2u, mcsm_sa_stats(manager->sa)->groups); /* and the broadcast group */
    for (int node : {2, 3}) {
        data[48] = 0x21;
        gid(data + 16, node);
        ASSERT_EQ(0, request(node, MCSM_DELETE, MCSM_SA_MC_MEMBER, 0x10003));
    }
    EXPECT_EQ(1u, mcsm_sa_stats(manager->sa)->groups);
    EXPECT_EQ(MCSM_SA_INVALID, request(3, MCSM_DELETE, MCSM_SA_MC_MEMBER, 0x10003));
}

TEST_F(Sa, JoinRefused)
{
    EXPECT_EQ(MCSM_SA_FEW_COMPONENTS, join(2, 5, 1, 0x10003)); /* creates, and does not say how */
    EXPECT_EQ(MCSM_SA_FEW_COMPONENTS, join(2, 5, 2));          /* a non-member creates nothing */
    join(2, 5);
    gid(data + 16, 4);
    EXPECT_EQ(MCSM_SA_DENIED,
              request(2, MCSM_SET, MCSM_SA_MC_MEMBER, 0x11087)); /* for another one */
    join(2, 5);
    mcsm_put32(data, 32, 0xbad);
    EXPECT_EQ(MCSM_SA_INVALID, request(2, MCSM_SET, MCSM_SA_MC_MEMBER, 0x11087)); /* other Q_Key */
    data[0] = 0xfe;
    EXPECT_EQ(MCSM_SA_INVALID, request(2, MCSM_SET, MCSM_SA_MC_MEMBER, 0x11087)); /* no MGID */
}

TEST_F(Sa, ThousandsOfJoinsAreBounded)
{
    int refused = 0;
    for (int i = 0; i < MCSM_MAX_GROUPS + 1000; i++) {
        join(2 + i % 8, 0);
        mcsm_put32(data, 12, i + 10);
        refused += request(2 + i % 8, MCSM_SET, MCSM_SA_MC_MEMBER, 0x11087) == MCSM_SA_NO_RESOURCES;
    }
    EXPECT_EQ(1002, refused); /* two groups were there before */
    EXPECT_EQ((unsigned)MCSM_MAX_GROUPS, mcsm_sa_stats(manager->sa)->groups);
    model_run(manager, 10000);
}

TEST_F(Sa, ServiceWithALease)
{
    mcsm_put64(data, 0, 77);
    gid(data + 8, 2);
    mcsm_put32(data, 28, 0); /* runs out at once */
    memcpy(data + 48, "storage", 7);
    ASSERT_EQ(0, request(2, MCSM_SET, MCSM_SA_SERVICE, 0x13));
    ASSERT_EQ(0, request(3, MCSM_GET, MCSM_SA_SERVICE, 1));
    EXPECT_STREQ("storage", (const char *)record() + 48);
    EXPECT_EQ(MCSM_SA_DENIED, request(3, MCSM_DELETE, MCSM_SA_SERVICE, 3)); /* not its owner */
    mcsm_sa_run(manager->sa, mcsm_now() + 2000);
    EXPECT_EQ(MCSM_SA_NO_RECORDS, request(3, MCSM_GET, MCSM_SA_SERVICE, 1));
}

TEST_F(Sa, SubscriberHearsOfPortsThatGo)
{
    data[22] = 1; /* generic */
    data[23] = 1; /* subscribe */
    mcsm_put16(data, 16, 0xffff);
    mcsm_put16(data, 24, 0xffff);
    mcsm_put16(data, 26, 65);
    memset(data + 33, 0xff, 3); /* of any producer */
    ASSERT_EQ(0, request(2, MCSM_SET, MCSM_SA_INFORM_INFO, 0));
    model_unlink(&model, 0, 5);
    mcsm_sm_sweep(manager->sm);
    model_run(manager, 10000);
    EXPECT_EQ(1u, manager->reports_sent);
    EXPECT_EQ(MCSM_REPORT, manager->answer[MCSM_MAD_METHOD]);
    EXPECT_EQ(65, mcsm_get16(record(), 4));
    EXPECT_EQ(model.nodes[5].guid + 1, mcsm_get64(record(), 24));
    EXPECT_EQ(lid(2), manager->answer_to.lid);
    data[23] = 0;
    ASSERT_EQ(0, request(2, MCSM_SET, MCSM_SA_INFORM_INFO, 0));
    model_unlink(&model, 0, 6);
    mcsm_sm_sweep(manager->sm);
    model_run(manager, 10000);
    EXPECT_EQ(1u, manager->reports_sent);
}

/* A sweep that can give no LID leaves a fabric without tables; a join must not need them. */
TEST_F(Sa, JoinAfterASweepWithoutLids)
{
    ASSERT_EQ(0, join(2, 5));
    struct mcsm_range range = manager->config->lids;
    manager->config->lids = {90, 80};
    mcsm_lids_free(manager->sm->lids);
    unlink((std::string(directory) + "/a.lids").c_str());
    manager->sm->lids = mcsm_lids_new(manager->config);
    mcsm_sm_sweep(manager->sm);
    model_run(manager, 10000);
    mcsm_sm_multicast(manager->sm);
    model_run(manager, 10000);
    manager->config->lids = range;
    mcsm_sm_sweep(manager->sm);
    model_run(manager, 10000);
    EXPECT_EQ(3, model_route(&model, 2, lid(3), nullptr));
}

TEST_F(Sa, StrangersGetNoAnswer)
{
    EXPECT_EQ(-1, model_sa(manager, 150, MCSM_GET_TABLE, MCSM_SA_NODE, 0, nullptr));
    EXPECT_EQ(-1, model_sa(manager, 0, MCSM_GET_TABLE, MCSM_SA_NODE, 0, nullptr));
    EXPECT_EQ(MCSM_SA_BAD_METHOD_ATTR, request(2, MCSM_GET_MULTI, MCSM_SA_PATH, 0));
    EXPECT_EQ(MCSM_SA_BAD_METHOD_ATTR, request(2, MCSM_GET, 0x7777, 0));
}

/* Managers on the model: what ibsim does not simulate. */
#include <filesystem>
#include <unistd.h>

#include "mcsm_test.h"

extern "C" {
#include "ctl/page.h"
#include "model.h"
#include "sm/phases.h"
}

/* Two clusters of two switches and two hosts each, with two border links:
 *
 *     h0 - s0 - s1 = t0 - t1 - k1
 *          h1 -^      ^- k0
 */
class Model : public testing::Test
{
  protected:
    void SetUp() override
    {
        mcsm_log_set_level(MCSM_LOG_ERROR);
        model_start(&model);
        for (int i = 0; i < 4; i++) {
            model_add(&model, 0x100 + i, true, 8); /* s0 s1 t0 t1 */
        }
        for (int i = 0; i < 4; i++) {
            model_add(&model, 0x200 + 16 * i, false, 1); /* h0 h1 k0 k1 */
        }
        model_link(&model, 0, 1, 4, 1);
        model_link(&model, 1, 1, 5, 1);
        model_link(&model, 2, 1, 6, 1);
        model_link(&model, 3, 1, 7, 1);
        model_link(&model, 0, 2, 1, 2);
        model_link(&model, 2, 2, 3, 2);
        model_link(&model, 1, 3, 2, 3);
        model_link(&model, 1, 4, 2, 4);
        strcpy(directory, "/tmp/mcsm-model-XXXXXX");
        ASSERT_NE(nullptr, mkdtemp(directory));
    }
    void TearDown() override
    {
        model_manager_free(a);
        model_manager_free(b);
        std::filesystem::remove_all(directory);
    }
    std::string text(char name, const std::string &more = "")
    {
        bool left = name == 'a';
        std::string here = left ? "0x101" : "0x102", there = left ? "0x102" : "0x101";
        std::string other = left ? "b" : "a";
        return "[cluster]\nname = " + std::string(1, name) + "\nlid-min = " + (left ? "1" : "100") +
               "\nlid-max = " + (left ? "99" : "199") + "\nstate-dir = " + directory +
               "\n[border]\n" + here + "/3 = " + other + " " + there + "/3 transit joint\n" + here +
               "/4 = " + other + " " + there + "/4 transit\n[neighbour " + other +
               "]\nlids = " + (left ? "100-199" : "1-99") + "\n" + more;
    }
    void start_a(const std::string &more = "")
    {
        a = model_manager_new(&model, 4, text('a', more).c_str());
        ASSERT_NE(nullptr, a);
        model_run(a, 10000);
    }
    void start_b()
    {
        b = model_manager_new(&model, 6, text('b').c_str());
        ASSERT_NE(nullptr, b);
        model_run(b, 10000);
    }
    uint16_t lid(int node)
    {
        return mcsm_get16(model.nodes[node].ports[model.nodes[node].sw ? 0 : 1].info, MCSM_PI_LID);
    }
    void resweep(struct model_manager *manager)
    {
        mcsm_sm_sweep(manager->sm);
        model_run(manager, 10000);
    }
    int join(struct model_manager *manager, int node, uint8_t last, uint8_t state = 1)
    {
        uint8_t data[200] = {0xff, 0x12, 0x40, 0x1b, 0xff, 0xff};
        data[15] = last;
        mcsm_put64(data, 16, 0xfe80000000000000ULL);
        mcsm_put64(data, 24, model.nodes[node].guid + 1);
        mcsm_put32(data, 32, 0xb1b);
        mcsm_put16(data, 40, 0xffff);
        data[48] = 0x20 | state;
        int status =
            model_sa(manager, lid(node), MCSM_SET, 0x38, 0x1000 | 0x10000 | 0x80 | 4 | 3, data);
        model_run(manager, 10000);
        return status;
    }
    struct model model;
    struct model_manager *a = nullptr, *b = nullptr;
    char directory[32];
};

TEST_F(Model, ManagersStayInsideTheirBorders)
{
    start_a();
    EXPECT_GT(model.nodes[1].smps, 0u);
    for (int node : {2, 3, 6, 7}) {
        EXPECT_EQ(0u, model.nodes[node].smps);
    }
    resweep(a);
    mcsm_sm_light(a->sm);
    model_run(a, 1000);
    for (int node : {2, 3, 6, 7}) {
        EXPECT_EQ(0u, model.nodes[node].smps);
    }
}

TEST_F(Model, EveryPairIsReachedOverBothClusters)
{
    start_a();
    start_b();
    resweep(a); /* the border links become active when both sides are armed */
    resweep(b);
    for (int from = 4; from < 8; from++) {
        for (int to = 0; to < 8; to++) {
            if (to != from) {
                EXPECT_EQ(to, model_route(&model, from, lid(to), nullptr)) << from << " to " << to;
            }
        }
    }
    EXPECT_EQ(1, lid(0));
    EXPECT_EQ(100, lid(2));
}

TEST_F(Model, SecondSweepWritesNothing)
{
    start_a();
    uint64_t lft = a->sm->stats.lft_blocks, mft = a->sm->stats.mft_blocks;
    EXPECT_GT(lft, 0u);
    resweep(a);
    EXPECT_EQ(lft, a->sm->stats.lft_blocks);
    EXPECT_EQ(mft, a->sm->stats.mft_blocks);
}

TEST_F(Model, RestartedSwitchGetsItsTablesAgain)
{
    start_a();
    memset(model.nodes[1].lft, MCSM_DROP, sizeof(model.nodes[1].lft));
    memset(model.nodes[1].sw_info + MCSM_SI_LFT_TOP, 0, 2);
    mcsm_put16(model.nodes[1].ports[0].info, MCSM_PI_SM_LID, 0);
    resweep(a);
    EXPECT_EQ(5, model_route(&model, 4, lid(5), nullptr));
}

TEST_F(Model, RestartedManagerKeepsLidsAndRoutes)
{
    start_a();
    struct model_node before[4];
    memcpy(before, model.nodes, sizeof(before));
    uint16_t lids[] = {lid(0), lid(1), lid(4), lid(5)};
    model_manager_free(a);
    a = nullptr;
    start_a();
    EXPECT_EQ(lids[2], lid(4));
    EXPECT_EQ(lids[3], lid(5));
    for (int i = 0; i < 2; i++) {
        EXPECT_EQ(0, memcmp(before[i].lft, model.nodes[i].lft, sizeof(before[i].lft)));
    }
}

TEST_F(Model, WrongMKeyIsNamedAndTheRestGoesOn)
{
    model.nodes[5].m_key = 0x1234;
    model.nodes[5].ports[1].info[MCSM_PI_LMC] = 3 << 6;
    start_a();
    EXPECT_EQ(1, a->sm->stats.silent);
    EXPECT_EQ(1, model_route(&model, 4, lid(1), nullptr));
    EXPECT_EQ(0, lid(5));
    model.nodes[5].m_key = 0;
    resweep(a);
    EXPECT_EQ(5, model_route(&model, 4, lid(5), nullptr));
}

TEST_F(Model, DuplicateGuid)
{
    int twin = model_add(&model, 0x210, false, 1); /* the GUID of h1 */
    model_link(&model, 0, 5, twin, 1);
    start_a();
    EXPECT_TRUE(a->sm->sweep.incomplete);
    /* One of both has the LID and is reached; the manager goes on. */
    EXPECT_EQ(1, model_route(&model, 4, lid(1), nullptr));
    EXPECT_NE(lid(5), lid(twin));
}

TEST_F(Model, LossOfAThird)
{
    model.loss = 33;
    start_a();
    for (int i = 0; i < 20 && a->sm->sweep.incomplete; i++) {
        resweep(a);
    }
    model.loss = 0;
    resweep(a);
    EXPECT_EQ(5, model_route(&model, 4, lid(5), nullptr));
}

TEST_F(Model, LinkThatFails)
{
    model_link(&model, 0, 6, 1, 6);
    start_a();
    model_unlink(&model, 0, 2);
    mcsm_sm_light(a->sm);
    model_run(a, 1000);
    EXPECT_TRUE(a->sm->sweep.changed);
    resweep(a);
    EXPECT_EQ(5, model_route(&model, 4, lid(5), nullptr));
}

TEST_F(Model, DrainedLinkCarriesNothing)
{
    model_link(&model, 0, 6, 1, 6);
    start_a();
    EXPECT_EQ(0, mcsm_sm_drain(a->sm, 0x100, 2, true));
    model_run(a, 10000);
    for (int i = 1; i < 200; i++) {
        EXPECT_NE(2, model.nodes[0].lft[i]);
    }
    EXPECT_EQ(5, model_route(&model, 4, lid(5), nullptr));
    EXPECT_EQ(0, mcsm_sm_drain(a->sm, 0x100, 2, false));
    EXPECT_LT(mcsm_sm_drain(a->sm, 0x100, 2, false), 0);
    EXPECT_LT(mcsm_sm_drain(a->sm, 0x100, 77, true), 0);
}

TEST_F(Model, PortsAreSetUp)
{
    start_a("[port]\nmtu = 2048\nvls = 4\nsl2vl = 0 1 2 3 0 1 2 3 0 1 2 3 0 1 2 15\n"
            "[partition p]\npkey = 0x0012\nlimited = 0x211\nfull = 0x201\n");
    const uint8_t *host = model.nodes[5].ports[1].info, *sw = model.nodes[0].ports[2].info;
    EXPECT_EQ(MCSM_STATE_ACTIVE, mcsm_lo(host, MCSM_PI_STATE_LO));
    EXPECT_EQ(MCSM_STATE_ACTIVE, mcsm_lo(sw, MCSM_PI_STATE_LO));
    EXPECT_EQ(4, mcsm_hi(host, MCSM_PI_MTU_HI));
    EXPECT_EQ(4, mcsm_hi(sw, MCSM_PI_MTU_HI));
    EXPECT_EQ(3, mcsm_hi(sw, MCSM_PI_OPER_VLS_HI));
    EXPECT_EQ(lid(4), mcsm_get16(host, MCSM_PI_SM_LID));
    EXPECT_EQ(0xffff, mcsm_get16(model.nodes[5].ports[1].pkeys, 0));
    EXPECT_EQ(0x0012, mcsm_get16(model.nodes[5].ports[1].pkeys, 2));
    EXPECT_EQ(0x8012, mcsm_get16(model.nodes[4].ports[1].pkeys, 2));
}

TEST_F(Model, TrapIsRepressedAndStartsASweep)
{
    start_a();
    uint8_t mad[MCSM_MAD_SIZE] = {1, MCSM_CLASS_SMP_LID, 1, MCSM_TRAP};
    struct mcsm_addr from = {};
    from.lid = lid(1);
    mcsm_put16(mad, MCSM_MAD_ATTR, MCSM_NOTICE);
    mad[MCSM_SMP_BODY] = 0x81;
    mcsm_put16(mad, MCSM_SMP_BODY + 4, 128);
    mcsm_put16(mad, MCSM_SMP_BODY + 6, from.lid);
    uint64_t sweeps = a->sm->stats.heavy_sweeps;
    model_deliver(a, &from, mad);
    model_run(a, 10000);
    EXPECT_EQ(1u, a->repressed);
    EXPECT_EQ(sweeps + 1, a->sm->stats.heavy_sweeps);
    for (int trap : {129, 130, 131, 144}) {
        mcsm_put16(mad, MCSM_SMP_BODY + 4, trap);
        model_deliver(a, &from, mad);
        model_run(a, 10000);
    }
    EXPECT_EQ(5u, a->repressed);
    for (int i = 0; i < 5; i++) {
        EXPECT_EQ(1u, a->sm->stats.traps[i]);
    }
    /* One from another cluster is neither answered nor acted on. */
    from.lid = 150;
    mcsm_put16(mad, MCSM_SMP_BODY + 6, 150);
    model_deliver(a, &from, mad);
    EXPECT_EQ(5u, a->repressed);
    EXPECT_EQ(1u, a->sm->stats.foreign_traps);
}

TEST_F(Model, SmInfoNeedsTheKey)
{
    start_a();
    uint8_t mad[MCSM_MAD_SIZE] = {1, MCSM_CLASS_SMP_LID, 1, MCSM_SET};
    struct mcsm_addr from = {};
    from.lid = lid(5);
    mcsm_put16(mad, MCSM_MAD_ATTR, MCSM_SM_INFO);
    mcsm_put32(mad, MCSM_MAD_MOD, MCSM_SM_DISABLE);
    model_deliver(a, &from, mad);
    EXPECT_EQ(MCSM_SM_MASTER_STATE, a->sm->election.state);
}

TEST_F(Model, MulticastOverBothClusters)
{
    start_a();
    start_b();
    resweep(a);
    resweep(b);
    ASSERT_EQ(0, join(a, 4, 7));
    ASSERT_EQ(0, join(b, 7, 7));
    uint16_t mlid = mcsm_get16(b->answer + MCSM_SA_DATA, 36);
    int received[MODEL_NODES];
    ASSERT_TRUE(model_multicast(&model, 4, mlid, received)) << "a circle";
    EXPECT_EQ(1, received[7]);
    EXPECT_EQ(0, received[5]);
    EXPECT_EQ(0, received[6]);
    ASSERT_TRUE(model_multicast(&model, 7, mlid, received));
    EXPECT_EQ(1, received[4]);
}

TEST_F(Model, MemberThatGoesLeavesItsGroups)
{
    start_a();
    ASSERT_EQ(0, join(a, 5, 9));
    EXPECT_EQ(1u, mcsm_sa_stats(a->sa)->members);
    model_unlink(&model, 1, 1);
    resweep(a);
    EXPECT_EQ(0u, mcsm_sa_stats(a->sa)->members);
}

/* A node names itself. Its description must not end the script that has the JSON. */
TEST_F(Model, PageEscapesDescriptions)
{
    start_a();
    strcpy(a->sm->fabric->switches[0]->desc, "x</script><!-- \"\\ &lt;");
    char *page = nullptr;
    size_t size = 0;
    FILE *out = open_memstream(&page, &size);
    ASSERT_NE(nullptr, out);
    mcsm_page(a->sm, nullptr, out);
    fclose(out);
    std::string text(page, size);
    free(page);
    EXPECT_EQ(std::string::npos, text.find("x</"));
    EXPECT_EQ(std::string::npos, text.find("<!--"));
    EXPECT_NE(std::string::npos,
              text.find("\"x\\u003c/script\\u003e\\u003c!-- \\u0022\\u005c \\u0026lt;\""));
}

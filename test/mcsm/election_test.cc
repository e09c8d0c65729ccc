/* Managers of one cluster, and managers that do not belong to it, on the model. */
#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

#include "mcsm_test.h"

extern "C" {
#include "model.h"
#include "sm/keys.h"
#include "sm/proof.h"
}

/* Two switches and four hosts; managers run on hosts 2 and 3. */
class Election : public testing::Test
{
  protected:
    void SetUp() override
    {
        mcsm_log_set_level(MCSM_LOG_ERROR);
        model_start(&model);
        model_two_switches(&model);
        ASSERT_NE(nullptr, mkdtemp(directory));
        testing::internal::CaptureStderr();
    }
    void TearDown() override
    {
        for (struct model_manager *manager : {a, b}) {
            model_manager_free(manager);
        }
        std::filesystem::remove_all(directory);
        testing::internal::GetCapturedStderr();
    }
    struct model_manager *start(int host, const std::string &name, const std::string &more)
    {
        std::string text = "[cluster]\nname = " + name +
                           "\nlid-min = 10\nlid-max = 99\nstate-dir = " + directory + "\n" + more;
        struct model_manager *manager = model_manager_new(&model, host, text.c_str());
        model_run(manager, 10000);
        return manager;
    }
    void sweep(struct model_manager *manager)
    {
        mcsm_sm_sweep(manager->sm);
        model_run(manager, 10000);
    }
    void light(struct model_manager *manager)
    {
        manager->sm->sweep.next_light = 0;
        model_run(manager, 10000);
    }
    uint8_t state(const struct model_manager *manager)
    {
        return manager->sm->election.state;
    }
    bool all_reached()
    {
        for (int from = 2; from < 6; from++) {
            for (int to = 0; to < 6; to++) {
                if (to != from && model_route(&model, from, lid(to), nullptr) != to) {
                    return false;
                }
            }
        }
        return true;
    }
    uint16_t lid(int node)
    {
        return mcsm_get16(model.nodes[node].ports[model.nodes[node].sw ? 0 : 1].info, MCSM_PI_LID);
    }
    uint64_t port_key(int node)
    {
        return model.nodes[node].m_key;
    }
    /* An order by SMInfo; returns the status of the answer. `proven`: by a peer that has the key.
     */
    unsigned send_order(struct model_manager *to, uint32_t what, bool proven)
    {
        uint8_t mad[MCSM_MAD_SIZE] = {1, MCSM_CLASS_SMP_LID, 1, MCSM_SET};
        struct mcsm_addr from = {};
        from.lid = 55;
        mcsm_put16(mad, MCSM_MAD_ATTR, MCSM_SM_INFO);
        mcsm_put32(mad, MCSM_MAD_MOD, what);
        mcsm_put64(mad, MCSM_SMP_BODY + MCSM_SMI_GUID, 0x999);
        /* Even the right key in the clear is no proof. */
        mcsm_put64(mad, MCSM_SMP_BODY + MCSM_SMI_KEY, to->config->sm_key);
        if (proven) {
            mcsm_proof_write(to->config->sm_key, MCSM_ROLE_ORDER, to->sm->election.challenge, what,
                             mad + MCSM_SMP_BODY);
        }
        model_deliver(to, &from, mad);
        return mcsm_get16(to->sm_info, MCSM_MAD_STATUS);
    }
    static constexpr const char *keys = "sm-key = 0x1111\nm-key = 0x2222\n";
    struct model model;
    struct model_manager *a = nullptr, *b = nullptr;
    char directory[40] = "/tmp/mcsm-election-XXXXXX";
};

TEST_F(Election, KeysAreMadeAndKept)
{
    a = start(2, "a", "");
    std::string file = std::string(directory) + "/a.keys";
    struct stat about;
    ASSERT_EQ(0, stat(file.c_str(), &about));
    EXPECT_EQ(0600u, about.st_mode & 0777);
    uint64_t sm_key = a->config->sm_key, m_key = a->config->m_key;
    EXPECT_NE(0u, sm_key);
    EXPECT_NE(0u, m_key);
    EXPECT_NE(sm_key, m_key);
    for (int node = 0; node < 6; node++) {
        const uint8_t *info = model.nodes[node].ports[node < 2 ? 0 : 1].info;
        EXPECT_EQ(m_key, port_key(node));
        EXPECT_EQ(1, info[MCSM_PI_LMC] >> 6);
        EXPECT_EQ(300, mcsm_get16(info, MCSM_PI_MKEY_LEASE));
    }
    model_manager_free(a);
    a = start(2, "a", "");
    EXPECT_EQ(sm_key, a->config->sm_key);
    EXPECT_EQ(m_key, a->config->m_key);
    EXPECT_TRUE(all_reached());
    std::ofstream(file) << "nonsense\n";
    struct mcsm_config config = *a->config;
    EXPECT_EQ(-EINVAL, mcsm_keys_complete(&config));
}

/* Managers that do not know the key, of every priority: another cluster's mcsm that was started on
 * one of our hosts. */
TEST_F(Election, ForeignManagerNeverTakesOver)
{
    for (int priority : {0, 8, 15}) {
        a = start(2, "a", "priority = 8\n");
        ASSERT_TRUE(all_reached());
        std::vector<struct model_node> before(model.nodes, model.nodes + 6);
        b = start(3, "x", "priority = " + std::to_string(priority) + "\n");
        mcsm_sm_sweep(a->sm); /* trap 144 does that on a real fabric */
        model_run(a, 10000);
        light(a);
        sweep(b);
        sweep(a);
        EXPECT_EQ(MCSM_SM_MASTER_STATE, state(a)) << priority;
        EXPECT_TRUE(all_reached()) << priority;
        for (int node = 0; node < 6; node++) {
            EXPECT_EQ(a->config->m_key, port_key(node));
            EXPECT_EQ(0, memcmp(before[node].lft, model.nodes[node].lft, MODEL_LIDS));
        }
        EXPECT_GT(model.nodes[0].violations, 0u);
        EXPECT_TRUE(a->sm->election.disputed);
        ASSERT_NE(nullptr, a->sm->election.foreign);
        EXPECT_EQ(model.nodes[3].guid + 1, a->sm->election.foreign->guid);
        EXPECT_NE(nullptr, strstr(a->event_log, "two-masters"));
        EXPECT_NE(nullptr, strstr(b->event_log, "two-masters"));
        EXPECT_EQ(1, mcsm_get64(a->sm_info + MCSM_SMP_BODY, MCSM_SMI_KEY)); /* not the secret */
        model_manager_free(b);
        b = nullptr;
        mcsm_put32(model.nodes[3].ports[1].info, MCSM_PI_CAPABILITY, 0);
        light(a);
        sweep(a);
        EXPECT_EQ(nullptr, a->sm->election.foreign);
        EXPECT_FALSE(a->sm->election.disputed);
        EXPECT_STREQ("foreign-manager-gone", a->event);
        model_manager_free(a);
        a = nullptr;
        std::filesystem::remove(std::string(directory) + "/x.keys");
        for (int node = 0; node < 6; node++) {
            model.nodes[node].m_key = model.nodes[node].violations = 0;
        }
    }
}

TEST_F(Election, PeerAboveGetsTheClusterByHandover)
{
    a = start(2, "a", std::string(keys) + "priority = 3\n");
    b = start(3, "a", std::string(keys) + "priority = 9\n");
    EXPECT_EQ(MCSM_SM_STANDBY_STATE, state(b)); /* a new manager disputes nothing */
    sweep(a);                                   /* trap 144 starts that on a real fabric */
    model_run(b, 10000);
    EXPECT_EQ(MCSM_SM_STANDBY_STATE, state(a));
    EXPECT_EQ(MCSM_SM_MASTER_STATE, state(b));
    EXPECT_EQ(nullptr, a->sm->election.foreign);
    EXPECT_TRUE(all_reached());
    /* The recorded HANDOVER, sent again, does nothing; nor does one to the new master. */
    struct mcsm_addr from = {};
    from.lid = lid(2);
    model_deliver(a, &from, a->order);
    EXPECT_EQ(MCSM_SM_STANDBY_STATE, state(a));
    uint64_t sweeps = b->sm->stats.heavy_sweeps;
    model_deliver(b, &from, a->order);
    model_run(b, 10000);
    EXPECT_EQ(sweeps, b->sm->stats.heavy_sweeps);
    /* The master dies. */
    b->deaf = true;
    for (int i = 0; i < 3; i++) {
        a->sm->sweep.next_poll = 0;
        model_run(a, 10000);
    }
    model_run(a, 10000);
    EXPECT_EQ(MCSM_SM_MASTER_STATE, state(a));
}

/* The old master stays the master until the new one has acknowledged. */
TEST_F(Election, HandoverWaitsForAcknowledge)
{
    a = start(2, "a", std::string(keys) + "priority = 3\n");
    b = start(3, "a", std::string(keys) + "priority = 9\n");
    sweep(a);
    uint8_t order[MCSM_MAD_SIZE];
    memcpy(order, b->order, sizeof(order));
    EXPECT_EQ((uint32_t)MCSM_SM_ACKNOWLEDGE, mcsm_get32(order, MCSM_MAD_MOD));
    EXPECT_EQ(MCSM_SM_STANDBY_STATE, state(a));
    model_manager_free(b);
    b = nullptr;
    /* Nobody answers now: no state changes by a HANDOVER that is not acknowledged. */
    a->sm->election.state = MCSM_SM_MASTER_STATE;
    b = model_manager_new(&model, 3,
                          ("[cluster]\nname = a\nlid-max = 99\npriority = 9\nstate-dir = " +
                           std::string(directory) + "\n" + keys)
                              .c_str());
    b->sm->election.state = MCSM_SM_STANDBY_STATE;
    mcsm_sm_sweep(a->sm);
    b->deaf = false;
    for (int i = 0; i < 20 && a->sm->election.peers == nullptr; i++) {
        model_run(a, 1);
    }
    b->deaf = true; /* it answered Get, and dies before HANDOVER */
    model_run(a, 10000);
    EXPECT_EQ(MCSM_SM_MASTER_STATE, state(a));
}

TEST_F(Election, OrdersFollowTheTable)
{
    enum { NOT, DISC, STBY, MAST, NO };
    /* Rows: states; columns: HANDOVER ACKNOWLEDGE DISABLE STANDBY DISCOVER. */
    static const uint8_t next[4][5] = {{NO, NO, NO, STBY, NO},
                                       {NO, NO, NO, NO, NO},
                                       {MAST, NO, NOT, NO, DISC},
                                       {MAST, NO, NO, NO, NO}};
    a = start(2, "a", keys);
    for (int from = 0; from < 4; from++) {
        for (uint32_t what = 0; what < 8; what++) {
            int to = what >= 1 && what <= 5 ? next[from][what - 1] : (int)NO;
            a->sm->election.state = from;
            EXPECT_EQ(0x1cu, send_order(a, what, false)) << from << " " << what;
            EXPECT_EQ(from, state(a));
            EXPECT_EQ(to == NO ? 0x1cu : 0u, send_order(a, what, true)) << from << " " << what;
            EXPECT_EQ(to == NO ? from : to, state(a)) << from << " " << what;
        }
    }
    a->sm->election.state = MCSM_SM_MASTER_STATE;
    a->sm->election.handing_over = true;
    EXPECT_EQ(0u, send_order(a, MCSM_SM_ACKNOWLEDGE, true));
    EXPECT_EQ(MCSM_SM_STANDBY_STATE, state(a));
    a->sm->election.state = MCSM_SM_NOTACTIVE_STATE;
    sweep(a);
    EXPECT_EQ(MCSM_SM_NOTACTIVE_STATE, state(a)) << "a sweep was asked for";
}

/* The counter of activity counts also where nothing changes. */
TEST_F(Election, ActCountMoves)
{
    a = start(2, "a", keys);
    uint8_t first[64], second[64];
    mcsm_election_info(&a->sm->election, first);
    light(a);
    mcsm_election_info(&a->sm->election, second);
    EXPECT_NE(mcsm_get32(first, MCSM_SMI_ACT), mcsm_get32(second, MCSM_SMI_ACT));
}

TEST_F(Election, ChangedMKey)
{
    for (const char *protect : {"1", "2", "3"}) {
        std::string more = "sm-key = 1\nm-key-protect = " + std::string(protect) + "\nm-key = 0x";
        a = start(2, "a", more + "11\n");
        EXPECT_EQ(0x11u, port_key(5));
        model_manager_free(a);
        a = start(2, "a", more + "22\n");
        for (int i = 0; i < 4 && a->sm->sweep.incomplete; i++) {
            sweep(a);
        }
        for (int node = 0; node < 6; node++) {
            EXPECT_EQ(0x22u, port_key(node)) << protect;
        }
        EXPECT_TRUE(all_reached());
        model_manager_free(a);
        a = nullptr;
    }
}

/* Each end port is read three times in a lease; a port that another manager has set is noticed. */
TEST_F(Election, LeasesAreRenewed)
{
    a = start(2, "a", std::string(keys) + "m-key-lease = 60\n[sweep]\ninterval = 10\n");
    uint64_t before[6];
    for (int i = 0; i < 6; i++) {
        before[i] = model.nodes[i].smps;
    }
    for (int i = 0; i < 2; i++) {
        light(a); /* 20 s */
    }
    for (int i = 3; i < 6; i++) {
        EXPECT_GT(model.nodes[i].smps, before[i]) << i;
    }
    mcsm_put16(model.nodes[5].ports[1].info, MCSM_PI_SM_LID, 77);
    memset(model.nodes[0].lft, 3, 64);
    for (int i = 0; i < 3; i++) {
        light(a);
    }
    model_run(a, 10000);
    EXPECT_NE(nullptr, strstr(a->event_log, "port-overwritten"));
    EXPECT_TRUE(all_reached());
    EXPECT_EQ(lid(2), mcsm_get16(model.nodes[5].ports[1].info, MCSM_PI_SM_LID));
}

TEST_F(Election, TrapOfAWrongMKey)
{
    a = start(2, "a", keys);
    uint8_t mad[MCSM_MAD_SIZE] = {1, MCSM_CLASS_SMP_LID, 1, MCSM_TRAP};
    struct mcsm_addr from = {};
    from.lid = lid(4);
    mcsm_put16(mad, MCSM_MAD_ATTR, MCSM_NOTICE);
    mad[MCSM_SMP_BODY] = 0x82;
    mcsm_put16(mad, MCSM_SMP_BODY + 4, 256);
    mcsm_put16(mad, MCSM_SMP_BODY + 6, from.lid);
    uint64_t read = model.nodes[4].smps;
    model_deliver(a, &from, mad);
    model_run(a, 10000);
    EXPECT_STREQ("wrong-m-key", a->event);
    EXPECT_GT(model.nodes[4].smps, read); /* which ends the countdown of its lease */
    EXPECT_EQ(1u, a->sm->stats.traps[5]);
}

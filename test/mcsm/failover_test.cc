/* Registrations on a standby manager, on the model. */
#include <algorithm>
#include <filesystem>
#include <unistd.h>

#include "mcsm_test.h"

extern "C" {
#include "model.h"
#include "sa/part.h"
}

/* Two switches and four hosts; managers run on hosts 2 and 3. */
class Failover : public testing::Test
{
  protected:
    void SetUp() override
    {
        mcsm_log_set_level(MCSM_LOG_ERROR);
        model_start(&model);
        model_two_switches(&model);
        ASSERT_NE(nullptr, mkdtemp(directory));
    }
    void TearDown() override
    {
        model_manager_free(a);
        model_manager_free(b);
        std::filesystem::remove_all(directory);
    }
    struct model_manager *start(int host, int priority)
    {
        std::string text =
            "[cluster]\nname = a\nlid-min = 10\nlid-max = 99\nsm-key = 0x1111\nm-key = 0x2222\n"
            "state-dir = " +
            std::string(directory) + "\npriority = " + std::to_string(priority) + "\n";
        struct model_manager *manager = model_manager_new(&model, host, text.c_str());
        model_run(manager, 10000);
        return manager;
    }
    uint8_t state(const struct model_manager *manager)
    {
        return manager->sm->election.state;
    }
    /* Until no packet is left. */
    void run_all(struct model_manager *manager)
    {
        for (int i = 0; i < 20; i++) {
            model_run(manager, 2000);
        }
    }
    void sweep(struct model_manager *manager)
    {
        mcsm_sm_sweep(manager->sm);
        run_all(manager);
    }
    /* The master looks for standbys. */
    void greet()
    {
        sweep(a);
        second += 2000;
        mcsm_sa_run(a->sa, mcsm_now() + second);
        run_all(a);
    }
    /* A master on host 2, and a standby on host 3 that has all registrations. */
    void start_both()
    {
        a = start(2, 9);
        b = start(3, 3);
        ASSERT_EQ(MCSM_SM_STANDBY_STATE, state(b));
        greet();
        ASSERT_EQ(1u, mcsm_standbys_live(a->standbys));
    }
    /* Requests that the master sent to the standby time out. */
    void time_out()
    {
        for (int i = 0; i < 10; i++) {
            run_all(a);
            mcsm_mads_tick(a->reports, mcsm_now() + 10000);
        }
        run_all(a);
    }
    /* The master dies, and the standby takes over. */
    void kill_master()
    {
        model_manager_free(a);
        a = nullptr;
        mcsm_put32(model.nodes[2].ports[1].info, MCSM_PI_CAPABILITY, 0);
        for (int i = 2; i < 6; i++) {
            model.nodes[i].asked_again = false;
        }
        for (int i = 0; i < 3 && state(b) != MCSM_SM_MASTER_STATE; i++) {
            b->sm->sweep.next_poll = 0;
            run_all(b);
        }
        ASSERT_EQ(MCSM_SM_MASTER_STATE, state(b));
    }
    /* How many hosts were asked to register again. */
    int asked_again()
    {
        int asked = 0;
        for (int i = 2; i < 6; i++) {
            asked += model.nodes[i].asked_again;
        }
        return asked;
    }
    uint16_t lid(int host)
    {
        return mcsm_get16(model.nodes[host].ports[1].info, MCSM_PI_LID);
    }
    void request(struct model_manager *to, int host, uint8_t method, uint16_t attr, uint64_t mask,
                 const uint8_t *data, uint32_t tid)
    {
        uint8_t mad[MCSM_MAD_SIZE] = {1, MCSM_CLASS_SA, 2, method};
        struct mcsm_addr from = {};
        from.lid = lid(host);
        from.qpn = 1;
        from.agent = MCSM_CLASS_SA;
        mcsm_put16(mad, MCSM_MAD_ATTR, attr);
        mcsm_put32(mad, MCSM_MAD_TID + 4, tid);
        mcsm_put64(mad, MCSM_SA_COMPONENTS, mask);
        memcpy(mad + MCSM_SA_DATA, data, MCSM_SA_DATA_SIZE);
        model_deliver(to, &from, mad);
    }
    void mgid_of(int group, uint8_t *mgid)
    {
        const uint8_t begin[] = {0xff, 0x12, 0x40, 0x1b, 0xff, 0xff};
        memset(mgid, 0, 16);
        memcpy(mgid, begin, sizeof(begin));
        mcsm_put16(mgid, 14, group);
    }
    void join(struct model_manager *to, int host, int group, uint32_t tid,
              uint8_t method = MCSM_SET)
    {
        uint8_t data[200] = {};
        mgid_of(group, data);
        mcsm_put64(data, 16, 0xfe80000000000000ULL);
        mcsm_put64(data, 24, model.nodes[host].guid + 1);
        mcsm_put32(data, 32, 0xb1b);
        mcsm_put16(data, 40, 0xffff);
        data[48] = 0x21;
        request(to, host, method, MCSM_SA_MC_MEMBER, 0x11087, data, tid);
    }
    bool is_member(struct model_manager *manager, int host, int group)
    {
        uint8_t mgid[16];
        struct mcsm_group *found;
        mgid_of(group, mgid);
        HASH_FIND(hh, manager->sa->groups, mgid, 16, found);
        for (struct mcsm_member *m = found ? found->members : nullptr; m; m = m->next) {
            if (m->port_guid == model.nodes[host].guid + 1) {
                return true;
            }
        }
        return false;
    }
    /* Whether each of the hosts from..to gets one packet of the group. */
    bool delivers(int group, int from, int to)
    {
        int received[MODEL_NODES];
        uint8_t mgid[16];
        mgid_of(group, mgid);
        bool good = model_multicast(&model, 2, mcsm_mlid_of(mgid, mlids), received);
        for (int host = from; host <= to; host++) {
            good &= received[host] == 1;
        }
        return good;
    }
    struct model model;
    struct model_manager *a = nullptr, *b = nullptr;
    unsigned mlids = 0;
    uint64_t second = 0;
    char directory[40] = "/tmp/mcsm-failover-XXXXXX";
};

/* The master dies in the middle of 1,000 joins. The standby knows each join that the master
 * confirmed. No host is asked to register again, and the packets of groups arrive all the time. */
TEST_F(Failover, KilledInTheMiddleOfAThousandJoins)
{
    start_both();
    mlids = a->config->mlids;
    for (int n = 0; n < 517; n++) {
        join(a, 2 + n % 4, n / 4, n);
        if (n == 299) {
            run_all(a); /* the tables have the first 75 groups */
        } else if (n % 3 == 0) {
            model_run(a, 1); /* some records and answers are on their way */
        }
    }
    std::vector<bool> confirmed(a->confirmed, a->confirmed + 1000);
    long count = std::count(confirmed.begin(), confirmed.end(), true);
    EXPECT_GE(count, 300);
    EXPECT_LT(count, 517) << "no request is on its way";
    for (int group = 0; group < 75; group++) {
        ASSERT_TRUE(delivers(group, 3, 5)) << group;
    }
    kill_master();
    EXPECT_EQ(0, asked_again());
    for (int n = 0; n < 517; n++) {
        EXPECT_TRUE(!confirmed[n] || is_member(b, 2 + n % 4, n / 4)) << n;
    }
    for (int group = 0; group < 75; group++) {
        ASSERT_TRUE(delivers(group, 3, 5)) << group;
    }
    for (int n = 0; n < 1000; n++) { /* hosts repeat requests that were not answered */
        if (!confirmed[n]) {
            join(b, 2 + n % 4, n / 4, n);
        }
    }
    run_all(b);
    EXPECT_EQ(1000u, mcsm_sa_stats(b->sa)->members);
    for (int group = 0; group < 250; group++) {
        ASSERT_TRUE(delivers(group, 3, 5)) << group;
    }
}

/* Groups, members, services and subscriptions; made before and after the standby came; and ended. */
TEST_F(Failover, EachKindOfRegistration)
{
    uint8_t service[200] = {}, inform[200] = {};
    a = start(2, 9);
    join(a, 4, 1, 1);
    join(a, 4, 2, 2);
    b = start(3, 3);
    greet();
    EXPECT_TRUE(is_member(b, 4, 1));
    join(a, 4, 1, 3, MCSM_DELETE);
    join(a, 5, 3, 4);
    mcsm_put64(service, 0, 0x1234);
    mcsm_put64(service, 8, 0xfe80000000000000ULL);
    mcsm_put64(service, 16, model.nodes[5].guid + 1);
    mcsm_put16(service, 24, 0xffff);
    mcsm_put32(service, 28, 600);
    request(a, 5, MCSM_SET, MCSM_SA_SERVICE, 0x1f, service, 5);
    mcsm_put16(inform, 16, 0xffff);
    inform[22] = inform[23] = 1;
    mcsm_put16(inform, 24, 0xffff);
    mcsm_put16(inform, 26, 64);
    memset(inform + 33, 0xff, 3);
    request(a, 4, MCSM_SET, MCSM_SA_INFORM_INFO, 0, inform, 6);
    inform[31] = 18; /* the same subscription, with another time of response */
    request(a, 4, MCSM_SET, MCSM_SA_INFORM_INFO, 0, inform, 7);
    run_all(a);
    for (int tid = 1; tid <= 7; tid++) {
        EXPECT_TRUE(a->confirmed[tid]) << tid;
    }
    kill_master();
    EXPECT_EQ(0, asked_again());
    EXPECT_FALSE(is_member(b, 4, 1));
    EXPECT_TRUE(is_member(b, 4, 2));
    EXPECT_TRUE(is_member(b, 5, 3));
    ASSERT_NE(nullptr, b->sa->services);
    EXPECT_EQ(0, memcmp(b->sa->services->record, service, 176));
    EXPECT_NEAR(b->sa->services->expires, mcsm_now() + 600000, 10000);
    ASSERT_NE(nullptr, b->sa->subscriptions);
    EXPECT_EQ(nullptr, b->sa->subscriptions->next);
    EXPECT_EQ(lid(4), b->sa->subscriptions->to.lid);
    /* The new master uses them: the subscriber hears of a port that comes. */
    model_unlink(&model, 1, 2);
    sweep(b);
    EXPECT_EQ(nullptr, b->sa->services) << "its owner is gone";
    unsigned reports = b->reports_sent;
    model_link(&model, 1, 2, 5, 1);
    sweep(b);
    EXPECT_GT(b->reports_sent, reports);
}

/* A host that went while no manager was the master is forgotten. If it returns, it registers again. */
TEST_F(Failover, HostThatWentMeanwhile)
{
    start_both();
    join(a, 5, 1, 1);
    run_all(a);
    ASSERT_TRUE(is_member(b, 5, 1));
    model_unlink(&model, 1, 2);
    kill_master();
    EXPECT_FALSE(is_member(b, 5, 1));
    model_link(&model, 1, 2, 5, 1);
    sweep(b);
    EXPECT_EQ(1, asked_again());
}

/* A standby that missed registrations does not claim to know them. */
TEST_F(Failover, StandbyThatMissedSomethingAsksAgain)
{
    start_both();
    join(a, 4, 1, 1);
    run_all(a);
    EXPECT_TRUE(a->confirmed[1]);
    b->deaf = true;
    join(a, 4, 2, 2);
    EXPECT_FALSE(a->confirmed[2]) << "the answer waits for the standby";
    time_out();
    EXPECT_TRUE(a->confirmed[2]) << "the standby was dropped";
    EXPECT_EQ(0u, mcsm_standbys_live(a->standbys));
    b->deaf = false;
    b->sm->election.master_alive = mcsm_now() + 6000; /* it heard SMInfo, and no record */
    kill_master();
    EXPECT_EQ(4, asked_again());
}

/* A dropped standby gets everything again. */
TEST_F(Failover, DroppedStandbyReturns)
{
    start_both();
    b->deaf = true;
    join(a, 4, 2, 2);
    time_out();
    EXPECT_EQ(0u, mcsm_standbys_live(a->standbys));
    b->deaf = false;
    greet();
    EXPECT_EQ(1u, mcsm_standbys_live(a->standbys));
    kill_master();
    EXPECT_TRUE(is_member(b, 4, 2));
    EXPECT_EQ(0, asked_again());
}

/* A recorded record and a changed one are refused, and the stream of the master goes on. */
TEST_F(Failover, RecordsAreProven)
{
    enum { NUMBER = 32 };
    start_both();
    join(a, 4, 1, 1);
    run_all(a);
    uint8_t recorded[MCSM_MAD_SIZE];
    memcpy(recorded, a->state_mad, sizeof(recorded));
    ASSERT_EQ(MCSM_SET, recorded[MCSM_MAD_METHOD]);
    join(a, 4, 1, 2, MCSM_DELETE);
    run_all(a);
    EXPECT_FALSE(is_member(b, 4, 1));
    struct mcsm_addr from = {};
    from.lid = lid(2);
    from.agent = MCSM_CLASS_STATE;
    unsigned sent = b->state_sent;
    model_deliver(b, &from, recorded);
    EXPECT_EQ(sent, b->state_sent) << "a recorded record is answered";
    for (int i = 1; i < 5; i++) { /* one of these numbers would fit */
        mcsm_put64(recorded, NUMBER, mcsm_get64(recorded, NUMBER) + 1);
        model_deliver(b, &from, recorded);
    }
    EXPECT_EQ(sent, b->state_sent);
    EXPECT_FALSE(is_member(b, 4, 1));
    join(a, 5, 7, 3);
    run_all(a);
    EXPECT_TRUE(a->confirmed[3]);
    EXPECT_TRUE(is_member(b, 5, 7));
}

/* With a priority above the master's, the standby gets the cluster by HANDOVER, and knows all. */
TEST_F(Failover, HandoverKeepsRegistrations)
{
    start_both();
    join(a, 4, 1, 1);
    run_all(a);
    struct mcsm_config *config = b->config;
    config->priority = 12;
    for (int i = 2; i < 6; i++) {
        model.nodes[i].asked_again = false;
    }
    EXPECT_TRUE(is_member(b, 4, 1));
    sweep(a);
    EXPECT_TRUE(is_member(b, 4, 1)) << "the old master reports ports as gone";
    run_all(b);
    ASSERT_EQ(MCSM_SM_MASTER_STATE, state(b));
    ASSERT_EQ(MCSM_SM_STANDBY_STATE, state(a));
    EXPECT_TRUE(is_member(b, 4, 1));
    EXPECT_EQ(0, asked_again());
    EXPECT_EQ(0u, mcsm_standbys_live(a->standbys));
}

/* A manager with a higher priority starts: it gets the registrations and drains before the cluster. */
TEST_F(Failover, HandoverWaitsUntilTheStandbyIsReady)
{
    a = start(2, 5);
    a->waits = true;
    join(a, 4, 1, 1);
    ASSERT_EQ(0, mcsm_sm_drain(a->sm, 0x100, 7, true));
    run_all(a);
    b = start(3, 12);
    ASSERT_EQ(MCSM_SM_STANDBY_STATE, state(b));
    sweep(a);
    sweep(a);
    EXPECT_EQ(MCSM_SM_MASTER_STATE, state(a)) << "the standby has nothing yet";
    greet();
    run_all(b);
    run_all(a);
    EXPECT_EQ(MCSM_SM_MASTER_STATE, state(b));
    EXPECT_EQ(MCSM_SM_STANDBY_STATE, state(a));
    EXPECT_TRUE(is_member(b, 4, 1));
    ASSERT_NE(nullptr, b->sm->drains.list);
    EXPECT_EQ(7, b->sm->drains.list->port);
}

/* A standby that takes no registrations gets the cluster after the longest wait. */
TEST_F(Failover, HandoverWaitsNotForEver)
{
    a = start(2, 5);
    a->waits = true;
    b = start(3, 12);
    sweep(a);
    ASSERT_EQ(MCSM_SM_MASTER_STATE, state(a));
    ASSERT_NE(0u, a->sm->election.waiting);
    a->sm->election.waiting -= std::min<uint64_t>(a->sm->election.waiting - 1, 20000);
    sweep(a);
    run_all(b);
    run_all(a);
    EXPECT_EQ(MCSM_SM_MASTER_STATE, state(b));
    EXPECT_EQ(MCSM_SM_STANDBY_STATE, state(a));
}

/* A standby that the master waits for dies: the next one gets the whole wait. */
TEST_F(Failover, HandoverWaitsAnewForTheNextStandby)
{
    a = start(2, 5);
    a->waits = true;
    b = start(3, 12);
    sweep(a);
    ASSERT_NE(0u, a->sm->election.waiting);
    model_manager_free(b);
    b = nullptr;
    mcsm_put32(model.nodes[3].ports[1].info, MCSM_PI_CAPABILITY, 0);
    sweep(a);
    EXPECT_EQ(MCSM_SM_MASTER_STATE, state(a));
    EXPECT_EQ(0u, a->sm->election.waiting);
}

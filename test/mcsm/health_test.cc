/* The health of links, on the model: counters, limits, holds, and links that must stay. */
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <unistd.h>

#include "mcsm_test.h"

extern "C" {
#include "health/counters.h"
#include "model.h"
}

/* A ring of three switches with a host each, and a fourth switch with a host behind s2:
 *
 *     h0 - s0 - s1 - h1
 *            \  /
 *             s2 - s3 - h3
 *             |
 *             h2
 *
 * Switch i has its host at port 1. Ports 2 and 3 lead round the ring, port 4 to the next one.
 */
class Health : public testing::Test
{
  protected:
    void SetUp() override
    {
        mcsm_log_set_level(MCSM_LOG_ERROR);
        model_start(&model);
        for (int i = 0; i < 4; i++) {
            model_add(&model, 0x100 + i, true, 8);
        }
        for (int i = 0; i < 4; i++) {
            model_add(&model, 0x200 + 16 * i, false, 1);
            model_link(&model, i, 1, 4 + i, 1);
        }
        model_link(&model, 0, 2, 1, 3);
        model_link(&model, 1, 2, 2, 3);
        model_link(&model, 2, 2, 0, 3);
        model_link(&model, 2, 4, 3, 4);
        strcpy(directory, "/tmp/mcsm-model-XXXXXX");
        ASSERT_NE(nullptr, mkdtemp(directory));
    }
    void TearDown() override
    {
        model_manager_free(m);
        std::filesystem::remove_all(directory);
    }
    void start(const std::string &keys)
    {
        std::string text = "[cluster]\nname = a\nstate-dir = " + std::string(directory) +
                           "\n[sweep]\ninterval = 0\n[health]\ninterval = 10\n" + keys;
        m = model_manager_new(&model, 4, text.c_str());
        ASSERT_NE(nullptr, m);
        model_run(m, 4000);
        model_health(m, 10);
    }
    void symbol_errors(int sw, int port, unsigned count)
    {
        uint8_t *counters = model.nodes[sw].ports[port].counters;
        mcsm_put16(counters, 4, mcsm_get16(counters, 4) + count);
    }
    /* Hops between two hosts; -1: no way. */
    int hops(int from, int to)
    {
        uint16_t lid = mcsm_get16(model.nodes[4 + to].ports[1].info, MCSM_PI_LID);
        int count;
        return model_route(&model, 4 + from, lid, &count) == 4 + to ? count : -1;
    }
    bool all_reached()
    {
        bool all = true;
        for (int a = 0; a < 4; a++) {
            for (int b = 0; b < 4; b++) {
                all &= hops(a, b) >= 0;
            }
        }
        return all;
    }
    struct mcsm_link *link(int sw, int port)
    {
        return mcsm_health_find(m->health, 0x100 + sw, port);
    }
    enum mcsm_link_state state(int sw, int port)
    {
        return mcsm_health_state(link(sw, port));
    }
    std::string events()
    {
        std::string found;
        for (std::string rest = m->event_log; rest.find(' ') != std::string::npos;
             rest = rest.substr(rest.find(' ') + 1)) {
            std::string word = rest.substr(0, rest.find(' '));
            found += word.substr(0, 4) == "link" ? word + " " : "";
        }
        m->event_log[0] = '\0';
        return found;
    }
    struct model model;
    struct model_manager *m = nullptr;
    char directory[64];
};

TEST_F(Health, CountersHaveDeltasAndTotals)
{
    symbol_errors(0, 2, 7);
    mcsm_put64(model.nodes[0].ports[2].wide, 8, 1ULL << 40);
    start("");
    struct mcsm_counters &counters = link(0, 2)->ends[0].counters;
    EXPECT_EQ(7u, counters.total[MCSM_COUNTER_SYMBOL_ERROR]);
    EXPECT_EQ(0u, counters.delta[MCSM_COUNTER_SYMBOL_ERROR]);
    EXPECT_EQ(1ULL << 40, counters.total[MCSM_COUNTER_XMIT_DATA]);
    symbol_errors(0, 2, 5);
    mcsm_put64(model.nodes[0].ports[2].wide, 8, (1ULL << 40) + 1000);
    model_health(m, 10);
    EXPECT_EQ(12u, counters.total[MCSM_COUNTER_SYMBOL_ERROR]);
    EXPECT_EQ(5u, counters.delta[MCSM_COUNTER_SYMBOL_ERROR]);
    EXPECT_EQ(1000u, counters.delta[MCSM_COUNTER_XMIT_DATA]);
    EXPECT_EQ(5u, mcsm_health_errors(link(0, 2)));
    EXPECT_EQ(0u, mcsm_health_errors(link(1, 2)));
    model_health(m, 10);
    EXPECT_EQ(0u, counters.delta[MCSM_COUNTER_SYMBOL_ERROR]);
}

/* Every counter of PortCounters at its place. */
TEST_F(Health, EveryCounterIsReadAtItsPlace)
{
    static const int sizes[] = {2, 1, 1, 2, 2, 2, 2, 1, 1};
    struct mcsm_counters counters = {};
    uint8_t data[64] = {};
    for (int i = 0, at = 4; i < 9; at += sizes[i++]) {
        data[at + sizes[i] - 1] = i + 1;
    }
    data[19] = 0x5a;
    mcsm_put16(data, 22, 12);
    for (int i = 0; i < 4; i++) {
        mcsm_put32(data, 24 + 4 * i, 13 + i);
    }
    EXPECT_EQ(1 << 10, mcsm_counters_take(&counters, data)); /* 10 is above half of 15 */
    for (int i = 0; i < MCSM_COUNTERS; i++) {
        EXPECT_EQ(i == 9 ? 5u : i == 10 ? 10u : i + 1u, counters.total[i]) << mcsm_counter_name(i);
    }
}

TEST_F(Health, CounterThatIsHalfFullIsReset)
{
    start("");
    symbol_errors(0, 2, 40000);
    model_health(m, 10);
    EXPECT_EQ(0u, mcsm_get16(model.nodes[0].ports[2].counters, 4));
    symbol_errors(0, 2, 3);
    model_health(m, 10);
    EXPECT_EQ(40003u, link(0, 2)->ends[0].counters.total[MCSM_COUNTER_SYMBOL_ERROR]);
}

TEST_F(Health, TrafficOfPortsWithoutExtendedCounters)
{
    model.no_wide = true;
    start("");
    mcsm_put32(model.nodes[0].ports[2].counters, 24, 5000);
    model_health(m, 10);
    model_health(m, 10);
    EXPECT_TRUE(link(0, 2)->ends[0].counters.refused);
    EXPECT_EQ(5000u, link(0, 2)->ends[0].counters.total[MCSM_COUNTER_XMIT_DATA]);
}

TEST_F(Health, NoisyLinkIsHeldForAGrowingTime)
{
    start("errors = 100\nhold = 60\nhold-max = 200\n");
    EXPECT_EQ(3, hops(0, 1));
    for (unsigned seconds : {60, 120, 200, 200}) {
        symbol_errors(0, 2, 60);
        model_health(m, 10);
        EXPECT_EQ(MCSM_LINK_UP, state(0, 2));
        symbol_errors(1, 3, 60); /* the other end */
        model_health(m, 10);
        EXPECT_EQ(MCSM_LINK_HELD, state(0, 2));
        EXPECT_EQ(4, hops(0, 1));
        EXPECT_TRUE(all_reached());
        EXPECT_EQ(1u, mcsm_health_held(m->health));
        model_health(m, seconds - 1);
        EXPECT_EQ(MCSM_LINK_HELD, state(0, 2));
        EXPECT_EQ("link-held ", events());
        model_health(m, 1);
        EXPECT_EQ(MCSM_LINK_UP, state(0, 2)) << seconds;
        EXPECT_EQ("link-released ", events());
        EXPECT_EQ(3, hops(0, 1));
    }
    model_health(m, 200); /* was good for hold-max */
    symbol_errors(0, 2, 100);
    model_health(m, 10);
    model_health(m, 60);
    EXPECT_EQ(MCSM_LINK_UP, state(0, 2));
}

TEST_F(Health, WithoutALimitNoLinkIsHeld)
{
    start("");
    symbol_errors(0, 2, 30000);
    model_health(m, 10);
    EXPECT_EQ(MCSM_LINK_UP, state(0, 2));
    EXPECT_EQ(30000u, mcsm_health_errors(link(0, 2)));
    EXPECT_EQ("", events());
}

TEST_F(Health, ErrorsOfAnOlderWindowDoNotCount)
{
    start("errors = 100\nwindow = 80\n");
    symbol_errors(0, 2, 99);
    model_health(m, 10);
    model_health(m, 100);
    symbol_errors(0, 2, 99);
    model_health(m, 10);
    EXPECT_EQ(MCSM_LINK_UP, state(0, 2));
}

/* The times of the model begin near 0, as after a boot. */
TEST_F(Health, ANewLengthOfTheWindowForgets)
{
    start("window = 8\n");
    symbol_errors(0, 2, 5);
    model_health(m, 11);
    EXPECT_EQ(5u, mcsm_health_errors(link(0, 2)));
    const_cast<struct mcsm_config *>(m->sm->config)->health_window = 86400;
    model_health(m, 11);
    EXPECT_EQ(0u, mcsm_health_errors(link(0, 2)));
    symbol_errors(0, 2, 3);
    model_health(m, 11);
    EXPECT_EQ(3u, mcsm_health_errors(link(0, 2)));
}

TEST_F(Health, TheAdministratorReleases)
{
    start("errors = 100\n");
    symbol_errors(0, 2, 100);
    model_health(m, 10);
    ASSERT_EQ(MCSM_LINK_HELD, state(0, 2));
    EXPECT_EQ(-ENOENT, mcsm_health_release(m->health, 0x100, 3));
    EXPECT_EQ(0, mcsm_health_release(m->health, 0x101, 3));
    EXPECT_EQ(-ENOENT, mcsm_health_release(m->health, 0x101, 3));
    model_run(m, 4000);
    EXPECT_EQ(3, hops(0, 1));
    EXPECT_EQ("link-held link-released ", events());
    EXPECT_EQ(0u, mcsm_health_held(m->health));
}

/* The order of the administrator stays when health ends its own. */
TEST_F(Health, DrainedAndHeld)
{
    start("errors = 100\n");
    symbol_errors(0, 2, 100);
    model_health(m, 10);
    EXPECT_EQ(0, mcsm_sm_drain(m->sm, 0x100, 2, true));
    EXPECT_EQ(0, mcsm_health_release(m->health, 0x100, 2));
    model_run(m, 4000);
    EXPECT_EQ(4, hops(0, 1));
    EXPECT_EQ(0, mcsm_sm_drain(m->sm, 0x100, 2, false));
    model_run(m, 4000);
    EXPECT_EQ(3, hops(0, 1));
}

TEST_F(Health, LinksThatAreTheOnlyWayStay)
{
    start("errors = 100\n");
    symbol_errors(2, 4, 500); /* to s3 */
    symbol_errors(1, 1, 500); /* to h1 */
    model_health(m, 10);
    EXPECT_EQ(MCSM_LINK_KEPT, state(2, 4));
    EXPECT_EQ(MCSM_LINK_KEPT, state(1, 1));
    EXPECT_STREQ("the only way to 2 nodes", link(2, 4)->kept);
    EXPECT_STREQ("the only way to 1 node", link(1, 1)->kept);
    EXPECT_EQ("link-kept link-kept ", events());
    EXPECT_TRUE(all_reached());
    symbol_errors(2, 4, 1);
    model_health(m, 10);
    EXPECT_EQ("", events()); /* said once */
    model_health(m, 1000);
    EXPECT_EQ(MCSM_LINK_UP, state(2, 4));
}

TEST_F(Health, OfAnAllNoisyRingOneLinkIsHeld)
{
    start("errors = 100\n");
    symbol_errors(0, 2, 500);
    symbol_errors(1, 2, 500);
    symbol_errors(2, 2, 500);
    model_health(m, 10);
    EXPECT_EQ(1, (state(0, 2) == MCSM_LINK_HELD) + (state(1, 2) == MCSM_LINK_HELD) +
                     (state(2, 2) == MCSM_LINK_HELD));
    EXPECT_TRUE(all_reached());
}

TEST_F(Health, HeldLinkReturnsWhenItIsNeeded)
{
    start("errors = 100\n");
    symbol_errors(0, 2, 500);
    model_health(m, 10);
    ASSERT_EQ(MCSM_LINK_HELD, state(0, 2));
    model_unlink(&model, 1, 2);
    mcsm_sm_sweep(m->sm);
    model_run(m, 4000);
    EXPECT_EQ("link-held link-needed ", events());
    EXPECT_TRUE(all_reached());
    EXPECT_EQ(3, hops(0, 1));
}

TEST_F(Health, HeldLinkReturnsIfTheContractLeavesOutMoreRoutes)
{
    start("errors = 100\n");
    m->sm->stats.left_out = 3;
    symbol_errors(0, 2, 500);
    model_health(m, 10);
    ASSERT_EQ(MCSM_LINK_HELD, state(0, 2)) << "the 3 routes were left out before";
    m->sm->stats.left_out = 4;
    mcsm_sm_sweep(m->sm);
    model_run(m, 4000);
    EXPECT_EQ("link-held link-needed ", events());
    symbol_errors(0, 2, 500);
    model_health(m, 10);
    EXPECT_EQ(MCSM_LINK_KEPT, state(0, 2)) << "it is not held again";
}

TEST_F(Health, FlappingLinkIsHeld)
{
    start("flaps = 3\nwindow = 600\n");
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(MCSM_LINK_UP, state(0, 2)) << i;
        model_unlink(&model, 0, 2);
        model.nodes[0].ports[2].counters[7]++; /* a failure that a sweep sees, too, counts once */
        mcsm_sm_sweep(m->sm);
        model_run(m, 4000);
        model_link(&model, 0, 2, 1, 3);
        mcsm_sm_sweep(m->sm);
        model_run(m, 4000);
        model_health(m, 10);
    }
    EXPECT_EQ(MCSM_LINK_HELD, state(0, 2));
    EXPECT_EQ(3u, link(0, 2)->total_flaps);
    EXPECT_EQ(4, hops(0, 1));
}

/* A link that is down and up again between two sweeps: only LinkDownedCounter shows this. Both ends
 * count the same failure. */
TEST_F(Health, ShortFailuresCountOnce)
{
    start("flaps = 3\n");
    model.nodes[0].ports[2].counters[7] = model.nodes[1].ports[3].counters[7] = 2;
    model_health(m, 10);
    EXPECT_EQ(2u, mcsm_health_flaps(link(0, 2)));
    EXPECT_EQ(MCSM_LINK_UP, state(0, 2));
    model.nodes[0].ports[2].counters[7] = 3;
    model_health(m, 10);
    EXPECT_EQ(MCSM_LINK_HELD, state(0, 2));
}

/* Whatever becomes noisy, fails and returns: if the links connect two hosts, packets arrive. */
TEST_F(Health, NoHostIsEverLost)
{
    static const int ring[][4] = {{0, 2, 1, 3}, {1, 2, 2, 3}, {2, 2, 0, 3}};
    int down = -1;
    unsigned seed = 7;
    start("errors = 100\nflaps = 4\nhold = 10\nhold-max = 80\n");
    for (int round = 0; round < 150; round++) {
        int what = rand_r(&seed) % 4, which = rand_r(&seed) % 3;
        if (what == 0 && down >= 0) {
            const int *back = ring[down];
            model_link(&model, back[0], back[1], back[2], back[3]);
            down = -1;
            mcsm_sm_sweep(m->sm);
        } else if (what == 0) {
            model_unlink(&model, ring[which][0], ring[which][1]);
            down = which;
            mcsm_sm_sweep(m->sm);
        } else {
            symbol_errors(ring[which][0], ring[which][1], rand_r(&seed) % 200);
        }
        model_run(m, 4000);
        model_health(m, rand_r(&seed) % 30);
        ASSERT_TRUE(all_reached()) << round;
    }
    EXPECT_NE(std::string::npos, events().find("link-held"));
}

/* The own end of a border link is polled. The link is named, but never held. */
TEST_F(Health, BorderLinkIsPolledAndKept)
{
    mcsm_put_lo(model.nodes[0].ports[8].info, MCSM_PI_STATE_LO, MCSM_STATE_ACTIVE);
    start("errors = 100\n[border]\n0x100/8 = b 0x900/1 transit\n[neighbour b]\nlids = 200-299\n"
          "[cluster]\nlid-max = 99\n");
    ASSERT_NE(nullptr, link(0, 8));
    EXPECT_STREQ("b", mcsm_health_name(m->health, &link(0, 8)->ends[1]));
    symbol_errors(0, 8, 200);
    model_health(m, 10);
    EXPECT_EQ(200u, mcsm_health_errors(link(0, 8)));
    EXPECT_EQ(MCSM_LINK_KEPT, state(0, 8));
    EXPECT_FALSE(link(0, 8)->ends[1].counters.seen);
    EXPECT_EQ("link-kept ", events());
    mcsm_put_lo(model.nodes[0].ports[8].info, MCSM_PI_STATE_LO, MCSM_STATE_DOWN);
    mcsm_sm_sweep(m->sm);
    model_run(m, 4000);
    EXPECT_EQ(MCSM_LINK_DOWN, state(0, 8));
    EXPECT_EQ(1u, mcsm_health_flaps(link(0, 8)));
}

/* A new process holds the link for the rest of the time, and counts on from there. */
TEST_F(Health, HoldsOutliveARestart)
{
    const std::string keys = "errors = 100\nhold = 600\nhold-max = 3600\n";
    start(keys);
    symbol_errors(0, 2, 200);
    model_health(m, 10);
    ASSERT_EQ(MCSM_LINK_HELD, state(0, 2));
    model_manager_free(m);
    start(keys);
    EXPECT_EQ(MCSM_LINK_HELD, state(0, 2));
    EXPECT_EQ(4, hops(0, 1)) << "the way round the ring";
    EXPECT_EQ(1u, link(0, 2)->holds);
    uint64_t left = link(0, 2)->held_until - mcsm_now();
    EXPECT_LE(left, 601000u);
    EXPECT_GT(left, 500000u);
    /* The link is needed: the restarted manager must not hold it. */
    model_manager_free(m);
    model_unlink(&model, 1, 2);
    start(keys);
    EXPECT_EQ(MCSM_LINK_UP, state(0, 2));
    EXPECT_TRUE(all_reached());
    /* Released: a restart knows nothing of it. */
    model_link(&model, 1, 2, 2, 3);
    mcsm_sm_sweep(m->sm);
    model_run(m, 4000);
    symbol_errors(0, 2, 200);
    model_health(m, 10);
    ASSERT_EQ(MCSM_LINK_HELD, state(0, 2));
    ASSERT_EQ(0, mcsm_health_release(m->health, 0x100, 2));
    model_manager_free(m);
    start(keys);
    EXPECT_EQ(MCSM_LINK_UP, state(0, 2));
}

/* A wrong line of the file costs no other line. */
TEST_F(Health, WrongLinesOfTheHolds)
{
    std::ofstream(std::string(directory) + "/a.holds")
        << "nonsense\n0x100/2 0x101/3\n0x100/999 0x101/3 99 1\n"
        << "0x100/2 0x101/3 " << time(nullptr) + 500 << " 3\n";
    start("");
    EXPECT_EQ(MCSM_LINK_HELD, state(0, 2));
    EXPECT_EQ(3u, link(0, 2)->holds);
}

/* A standby at h3, with a state directory of its own. Two links lead to it. */
class HealthStandby : public Health
{
  protected:
    void SetUp() override
    {
        Health::SetUp();
        model_link(&model, 2, 5, 3, 5);
        strcpy(other_directory, "/tmp/mcsm-model-XXXXXX");
        ASSERT_NE(nullptr, mkdtemp(other_directory));
        m = start_manager(4, 9, directory);
        model_health(m, 10);
    }
    void TearDown() override
    {
        model_manager_free(s);
        std::filesystem::remove_all(other_directory);
        Health::TearDown();
    }
    struct model_manager *start_manager(int host, int priority, const char *state)
    {
        std::string text = "[cluster]\nname = a\nsm-key = 0x1111\nm-key = 0x2222\nstate-dir = " +
                           std::string(state) + "\npriority = " + std::to_string(priority) +
                           "\n[sweep]\ninterval = 0\n[health]\ninterval = 10\nerrors = 100\n"
                           "hold = 600\nhold-max = 3600\n";
        struct model_manager *manager = model_manager_new(&model, host, text.c_str());
        run(manager);
        return manager;
    }
    void run(struct model_manager *manager)
    {
        for (int i = 0; i < 10; i++) {
            model_run(manager, 4000);
        }
    }
    void start_standby()
    {
        s = start_manager(7, 3, other_directory);
        ASSERT_EQ(MCSM_SM_STANDBY_STATE, s->sm->election.state);
        mcsm_sm_sweep(m->sm);
        run(m);
        mcsm_sa_run(m->sa, mcsm_now() + 2000);
        run(m);
        ASSERT_EQ(1u, mcsm_standbys_live(m->standbys));
    }
    void hold()
    {
        symbol_errors(0, 2, 200);
        model_health(m, 10);
        run(m);
        ASSERT_EQ(MCSM_LINK_HELD, state(0, 2));
    }
    /* The standby becomes the master, and takes the place of `m`. Packets from h0 to h1 have this
     * number of hops all the time; 0: any. */
    void kill_master(int wanted_hops)
    {
        model_manager_free(m);
        m = s;
        s = nullptr;
        mcsm_put32(model.nodes[4].ports[1].info, MCSM_PI_CAPABILITY, 0);
        for (int i = 0; i < 4; i++) {
            m->sm->sweep.next_poll = 0;
            for (int step = 0; step < 1000; step++) {
                model_run(m, 1);
                if (wanted_hops > 0) {
                    ASSERT_EQ(wanted_hops, hops(0, 1)) << step;
                }
            }
        }
        ASSERT_EQ(MCSM_SM_MASTER_STATE, m->sm->election.state);
    }
    bool is_used(int sw, int port)
    {
        const uint8_t *lft = model.nodes[sw].lft;
        return std::find(lft, lft + MODEL_LIDS, port) != lft + MODEL_LIDS;
    }
    struct model_manager *s = nullptr;
    char other_directory[64];
};

/* The hold is older than the standby, the drains are not. */
TEST_F(HealthStandby, HoldsAndDrainsOutliveTheMaster)
{
    ASSERT_NO_FATAL_FAILURE(hold());
    ASSERT_NO_FATAL_FAILURE(start_standby());
    ASSERT_EQ(0, mcsm_sm_drain(m->sm, 0x102, 5, true));
    ASSERT_EQ(0, mcsm_sm_drain(m->sm, 0x100, 3, true));
    ASSERT_EQ(0, mcsm_sm_drain(m->sm, 0x100, 3, false));
    run(m);
    ASSERT_EQ(4, hops(0, 1)) << "the way round the ring";
    ASSERT_NO_FATAL_FAILURE(kill_master(4));
    EXPECT_EQ(MCSM_LINK_HELD, state(0, 2));
    EXPECT_EQ(1u, link(0, 2)->holds);
    EXPECT_NEAR(link(0, 2)->held_until, mcsm_now() + 600000, 30000);
    EXPECT_EQ(1u, mcsm_health_held(m->health));
    EXPECT_FALSE(is_used(2, 5));
    EXPECT_FALSE(is_used(3, 5));
    EXPECT_TRUE(all_reached());
    /* The new master ends both. */
    EXPECT_EQ(0, mcsm_health_release(m->health, 0x100, 2));
    EXPECT_EQ(0, mcsm_sm_drain(m->sm, 0x102, 5, false));
    run(m);
    EXPECT_EQ(3, hops(0, 1));
    EXPECT_TRUE(is_used(2, 5) || is_used(3, 5));
}

TEST_F(HealthStandby, EndedHoldsAndDrainsEndOnTheStandby)
{
    ASSERT_NO_FATAL_FAILURE(start_standby());
    ASSERT_NO_FATAL_FAILURE(hold());
    ASSERT_EQ(0, mcsm_sm_drain(m->sm, 0x102, 5, true));
    run(m);
    ASSERT_EQ(0, mcsm_sm_drain(m->sm, 0x102, 5, false));
    ASSERT_EQ(0, mcsm_health_release(m->health, 0x100, 2));
    run(m);
    EXPECT_EQ(nullptr, s->sm->drains.list);
    ASSERT_NO_FATAL_FAILURE(kill_master(3));
    EXPECT_EQ(MCSM_LINK_UP, state(0, 2));
}

/* Another link fails while no manager is the master: the held link is the only way to h1. */
TEST_F(HealthStandby, HeldLinkIsUsedIfTheNewMasterNeedsIt)
{
    ASSERT_NO_FATAL_FAILURE(start_standby());
    ASSERT_NO_FATAL_FAILURE(hold());
    model_unlink(&model, 1, 2);
    ASSERT_NO_FATAL_FAILURE(kill_master(0));
    run(m);
    EXPECT_EQ(MCSM_LINK_UP, state(0, 2));
    EXPECT_TRUE(all_reached());
}

/* The holds of a former time, in the file of the standby, are not those of the master. */
TEST_F(HealthStandby, OldHoldsOfTheStandbyAreForgotten)
{
    std::ofstream(std::string(other_directory) + "/a.holds")
        << "0x100/2 0x101/3 " << time(nullptr) + 500 << " 3\n";
    ASSERT_NO_FATAL_FAILURE(start_standby());
    ASSERT_NO_FATAL_FAILURE(kill_master(3));
    EXPECT_EQ(MCSM_LINK_UP, state(0, 2));
}

/* Service levels of paths, and the tables SL2VL and VLArb of the ports, on the model. */
#include <filesystem>
#include <unistd.h>

#include "mcsm_test.h"

extern "C" {
#include "model.h"
#include "sa/part.h"
#include "sm/phases.h"
#include "sm/vl_tables.h"
}

enum { SERVICE = 3, PKEY = 1 << 13, CLASS = 1 << 14, LEVEL = 1 << 15 }; /* masks of PathRecord */

/* A ring of five switches, nodes 0 to 4, with a host each, nodes 5 to 9. It needs two lanes. */
class Qos : public testing::Test
{
  protected:
    void SetUp() override
    {
        mcsm_log_set_level(MCSM_LOG_ERROR);
        model_start(&model);
        for (int i = 0; i < 5; i++) {
            model_add(&model, 0x100 + i, true, 4);
        }
        for (int i = 0; i < 5; i++) {
            model_add(&model, 0x200 + 16 * i, false, 1);
            model_link(&model, i, 1, 5 + i, 1);
            model_link(&model, i, 2, (i + 1) % 5, 3);
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
    void start(const std::string &more)
    {
        model_manager_free(manager);
        std::string text = std::string("[cluster]\nname = a\nlid-max = 99\nstate-dir = ") +
                           directory + "\n" + more;
        manager = model_manager_new(&model, 5, text.c_str());
        ASSERT_NE(nullptr, manager);
        model_run(manager, 10000);
    }
    uint16_t lid(int node)
    {
        return mcsm_get16(model.nodes[node].ports[node >= 5 ? 1 : 0].info, MCSM_PI_LID);
    }
    /* The service level of the path between two hosts; -1 if there is no path. */
    int level(int from, int to, uint64_t mask = 0, uint64_t service = 0, uint16_t pkey = 0,
              uint16_t class_and_level = 0)
    {
        uint8_t data[200] = {};
        mcsm_put64(data, 0, service);
        mcsm_put16(data, 40, lid(to));
        mcsm_put16(data, 42, lid(from));
        mcsm_put16(data, 50, pkey);
        mcsm_put16(data, 52, class_and_level);
        int status = model_sa(manager, lid(from), MCSM_GET, MCSM_SA_PATH, mask | 0x30, data);
        if (status != 0) {
            EXPECT_EQ(MCSM_SA_NO_RECORDS, status);
            return -1;
        }
        uint16_t both = mcsm_get16(manager->answer + MCSM_SA_DATA, 52);
        EXPECT_EQ(mask & CLASS ? class_and_level >> 4 : 0, both >> 4);
        EXPECT_EQ(mask & SERVICE ? service : 0, mcsm_get64(manager->answer + MCSM_SA_DATA, 0));
        return both & 15;
    }
    void light_sweep()
    {
        manager->sm->sweep.next_light = 1;
        model_run(manager, 10000);
    }
    void light_sweeps()
    {
        for (int i = 0; i < 25; i++) { /* at least one port in each */
            light_sweep();
        }
    }
    int warnings()
    {
        int count = 0;
        for (const char *at = manager->event_log; (at = strstr(at, "vl-tables-differ")); at++) {
            count++;
        }
        return count;
    }
    struct model model;
    struct model_manager *manager = nullptr;
    char directory[32] = "/tmp/mcsm-qos-XXXXXX";
};

static const std::string partitions = "[partition p]\npkey = 0x12\nfull = all\nsl = 5\n"
                                      "[partition q]\npkey = 0x13\nfull = all\n";

TEST_F(Qos, FirstRuleThatMatchesCounts)
{
    start("[group mds]\nnode = host-21*\n"
          "[group few]\nguids = 0x221-0x22f\nlids = 40\n"
          "[rule storage]\nservice-id = 0x10000-0x1ffff\ndestination = mds\nsl = 2\n"
          "[rule any-service]\nservice-id = 0x10000 7\nsl = 3\n"
          "[rule key]\npkey = 0x12\nsource = few mds\nsl = 4\n"
          "[rule class]\nqos-class = 9\nsl = 6\n" +
          partitions);
    /* host-210 is node 6, and 0x221 is node 7. */
    EXPECT_EQ(2, level(7, 6, SERVICE, 0x12345));
    EXPECT_EQ(2, level(7, 6, SERVICE, 0x10000));
    EXPECT_EQ(3, level(6, 7, SERVICE, 0x10000)) << "the other direction";
    EXPECT_EQ(3, level(7, 6, SERVICE, 7));
    EXPECT_EQ(0, level(7, 6, SERVICE, 8)) << "no rule: the default partition";
    EXPECT_EQ(0, level(7, 6)) << "a query without a service";
    EXPECT_EQ(0, level(7, 6, 1, 0x12345)) << "half of a service is no service";
    EXPECT_EQ(4, level(7, 8, PKEY, 0, 0x8012));
    EXPECT_EQ(4, level(6, 8, PKEY, 0, 0x8012));
    EXPECT_EQ(5, level(8, 7, PKEY, 0, 0x8012)) << "the partition";
    EXPECT_EQ(0, level(7, 8, PKEY, 0, 0x8013));
    EXPECT_EQ(6, level(8, 9, CLASS, 0, 0, 9 << 4));
    EXPECT_EQ(0, level(8, 9, CLASS, 0, 0, 8 << 4));
    EXPECT_EQ(0, level(8, 9));
}

TEST_F(Qos, GroupsByLidPartitionAndType)
{
    start("[group lids]\nlids = 1-49151\n[group keys]\npkeys = 0x20\n[group me]\ntypes = self\n"
          "[group switches]\ntypes = switch\n[group port2]\nnode = host*/P2\n"
          "[rule never]\nsource = port2\nsl = 7\n"
          "[rule s]\ndestination = switches\nsl = 1\n[rule m]\ndestination = me\nsl = 2\n"
          "[rule k]\ndestination = keys\nsl = 3\n[rule l]\nsource = lids\nsl = 4\n"
          "[partition k]\npkey = 0x20\nfull = 0x211\n");
    EXPECT_EQ(1, level(6, 0));
    EXPECT_EQ(2, level(6, 5));
    EXPECT_EQ(3, level(7, 6));
    EXPECT_EQ(4, level(6, 7));
}

/* A query may not ask for another level than the rules give. */
TEST_F(Qos, LevelThatContradicts)
{
    start("[routing]\nengine = updn\n[rule r]\nservice-id = 1\nsl = 2\n");
    EXPECT_EQ(2, level(6, 7, SERVICE | LEVEL, 1, 0, 2));
    EXPECT_EQ(-1, level(6, 7, SERVICE | LEVEL, 1, 0, 3));
    EXPECT_EQ(-1, level(6, 7, SERVICE | LEVEL, 1, 0, 0));
    EXPECT_EQ(0, level(6, 7, LEVEL, 0, 0, 0));
    EXPECT_EQ(-1, level(6, 7, LEVEL, 0, 0, 2)) << "no rule gives this path level 2";
    start(""); /* without rules and with one lane a client may choose */
    ASSERT_EQ(2, mcsm_sm_lanes(manager->sm)) << "the ring needs two lanes";
    start("[routing]\nengine = updn\n[multicast]\nsl = 3\n"
          "[port]\nsl2vl = 0 1 2 3 4 5 6 7 0 1 2 3 4 5 6 15\n");
    EXPECT_EQ(2, level(6, 7, LEVEL, 0, 0, 2));
    EXPECT_EQ(-1, level(6, 7, LEVEL, 0, 0, 15)) << "no lane";
    EXPECT_EQ(-1, level(6, 7, LEVEL, 0, 0, 3)) << "the lane of the groups";
    EXPECT_EQ(-1, level(6, 7, LEVEL, 0, 0, 11)) << "also the lane of the groups";
}

/* On the ring, auto uses two lanes. If the links have too few lanes for each level of the rules, the
 * routes use one lane, and are free of circles on it: then any lane of a level is. */
TEST_F(Qos, RulesLeaveNoCircle)
{
    start("");
    EXPECT_EQ(MCSM_ENGINE_TORUS, manager->sm->stats.engine);
    EXPECT_EQ(2, mcsm_sm_lanes(manager->sm));
    EXPECT_EQ(0, manager->sm->stats.credit_loop);
    for (const std::string &levels :
         {std::string("[rule r]\nservice-id = 1\nsl = 1\n"), partitions}) {
        start("[port]\nvls = 2\n" + levels);
        EXPECT_EQ(MCSM_ENGINE_UPDN, manager->sm->stats.engine);
        EXPECT_EQ(1, mcsm_sm_lanes(manager->sm));
        EXPECT_EQ(0, manager->sm->stats.credit_loop);
        for (int from = 5; from < 10; from++) {
            for (int to = 5; to < 10; to++) {
                EXPECT_EQ(to, model_route(&model, from, lid(to), nullptr));
            }
        }
    }
}

/* Each level of the rules has the two lanes of the ring: a pair keeps its lane of the routes in each
 * level, and the lanes of two levels differ. */
TEST_F(Qos, LevelsTimesLanes)
{
    start("[rule r]\nservice-id = 1\nsl = 3\n" + std::string("[partition p]\npkey = 0x12\n"
                                                             "full = all\nsl = 5\n"));
    EXPECT_EQ(MCSM_ENGINE_TORUS, manager->sm->stats.engine);
    EXPECT_EQ(2, manager->sm->graph->lanes);
    EXPECT_EQ(6, mcsm_sm_lanes(manager->sm));
    EXPECT_EQ(0, manager->sm->stats.credit_loop);
    /* Levels 0, 3 and 5 keep their numbers. Level 1, 2 and 4 are those of pairs on lane 1. */
    int crossing = 0;
    for (int from = 5; from < 10; from++) {
        for (int to = 5; to < 10; to++) {
            bool lane1 = level(from, to) == 1;
            crossing += lane1;
            EXPECT_EQ(lane1 ? 1 : 0, level(from, to));
            EXPECT_EQ(lane1 ? 2 : 3, level(from, to, SERVICE, 1));
            EXPECT_EQ(lane1 ? 4 : 5, level(from, to, PKEY, 0, 0x8012));
            EXPECT_EQ(lane1 ? 2 : 3, level(from, to, SERVICE | LEVEL, 1, 0, lane1 ? 2 : 3));
            EXPECT_EQ(-1, level(from, to, SERVICE | LEVEL, 1, 0, lane1 ? 3 : 2));
        }
    }
    EXPECT_EQ(6, crossing);
    /* On a link of the ring: level 0 lane 0, 1 lane 1, 2 lane 3, 3 lane 2, 4 lane 5, 5 lane 4. */
    static const uint8_t ring[] = {0x01, 0x32, 0x54, 0xff}, host[] = {0x00, 0x22, 0x44, 0xff};
    EXPECT_EQ(0, memcmp(ring, model.nodes[2].ports[2].sl2vl[1], 4));
    EXPECT_EQ(0, memcmp(ring, model.nodes[2].ports[3].sl2vl[2], 4));
    EXPECT_EQ(0, memcmp(host, model.nodes[2].ports[1].sl2vl[2], 4));
    EXPECT_EQ(0, memcmp(host, model.nodes[7].ports[1].sl2vl[0], 4));
    light_sweeps();
    EXPECT_EQ(0, warnings());
    /* A chain needs one lane: each level has its own. */
    model_unlink(&model, 0, 2);
    mcsm_sm_sweep(manager->sm);
    model_run(manager, 10000);
    EXPECT_EQ(1, manager->sm->graph->lanes);
    EXPECT_EQ(0x23, model.nodes[2].ports[2].sl2vl[1][1]);
    EXPECT_EQ(3, level(5, 9, SERVICE, 1));
}

/* Lanes of pairs stay below the lane of the groups. */
TEST_F(Qos, GroupsHaveTheirOwnLane)
{
    start("[multicast]\nsl = 1\n");
    EXPECT_EQ(1, manager->sm->graph->lanes);
    EXPECT_EQ(MCSM_ENGINE_UPDN, manager->sm->stats.engine);
    start("[multicast]\nsl = 2\n");
    EXPECT_EQ(2, manager->sm->graph->lanes);
    EXPECT_EQ(3, mcsm_sm_lanes(manager->sm));
    EXPECT_EQ(MCSM_ENGINE_TORUS, manager->sm->stats.engine);
}

static const std::string tables = "[port]\nvls = 4\nsl2vl = 0 1 2 3 4 5 6 7 0 1 2 3 0 1 2 15\n"
                                  "vlarb-low = 0:64 1:32\nvlarb-high = 2:16\n";

/* All tables of all ports with links; lanes 4 to 7 share lanes 0 to 3. */
TEST_F(Qos, TablesAreWritten)
{
    static const uint8_t map[] = {0x01, 0x23, 0x01, 0x23, 0x01, 0x23, 0x01, 0x2f};
    model.nodes[1].ports[2].info[MCSM_PI_ARB_LOW_CAP] = 64;
    memset(model.nodes[1].ports[2].vlarb[1], 0x11, 64); /* what another manager left */
    start(tables);
    for (int node = 0; node < 10; node++) {
        for (int p = 1; p <= (node < 5 ? 3 : 1); p++) {
            const auto &port = model.nodes[node].ports[p];
            for (int in = 0; in <= (node < 5 ? 4 : 0); in++) {
                EXPECT_EQ(0, memcmp(map, port.sl2vl[in], 8)) << node << " " << p << " " << in;
            }
            EXPECT_EQ(0x0040, mcsm_get16(port.vlarb[0], 0)) << node << " " << p;
            EXPECT_EQ(0x0120, mcsm_get16(port.vlarb[0], 2));
            EXPECT_EQ(0x0210, mcsm_get16(port.vlarb[2], 0));
        }
    }
    EXPECT_EQ(0, mcsm_get16(model.nodes[1].ports[2].vlarb[1], 10)) << "the second block";
    EXPECT_EQ(0u, mcsm_vl_differing(manager->sm->fabric));
    /* The administration answers with the same tables. */
    ASSERT_EQ(0, model_sa(manager, lid(6), MCSM_GET_TABLE, MCSM_SA_SL2VL, 0, nullptr));
    EXPECT_EQ(0, memcmp(map, manager->answer + MCSM_SA_DATA + 8, 8));
}

/* Rules alone write SL2VL, too: level n has lane n. */
TEST_F(Qos, RulesNeedTables)
{
    start("[routing]\nengine = updn\n[rule r]\nservice-id = 1\nsl = 3\n");
    EXPECT_EQ(0x23, model.nodes[2].ports[2].sl2vl[1][1]);
    EXPECT_EQ(0x23, model.nodes[6].ports[1].sl2vl[0][1]);
    EXPECT_EQ(0, model.nodes[6].ports[1].vlarb[0][1]) << "no vlarb in the file";
}

TEST_F(Qos, TablesAreReadBack)
{
    start(tables);
    light_sweeps();
    EXPECT_EQ(0u, mcsm_vl_differing(manager->sm->fabric));
    EXPECT_EQ(0, warnings());
    unsigned sets = model.nodes[2].lane_sets;
    model.nodes[2].ports[2].sl2vl[1][0] = 0x77;
    model.nodes[7].ports[1].vlarb[2][1] = 9;
    model.nodes[3].ports[2].vlarb[0][8] = 3; /* an entry without weight says nothing */
    uint64_t heavy = manager->sm->stats.heavy_sweeps;
    while (warnings() < 2 && manager->sm->stats.light_sweeps < 100) {
        light_sweep();
    }
    light_sweep();
    EXPECT_EQ(2, warnings());
    EXPECT_EQ(0x01, model.nodes[2].ports[2].sl2vl[1][0]);
    EXPECT_EQ(16, model.nodes[7].ports[1].vlarb[2][1]);
    EXPECT_EQ(0u, mcsm_vl_differing(manager->sm->fabric));
    EXPECT_EQ(sets + 5 + 2, model.nodes[2].lane_sets) << "the tables of one port, once";
    light_sweeps();
    EXPECT_EQ(2, warnings());
    EXPECT_EQ(heavy, manager->sm->stats.heavy_sweeps);
    EXPECT_EQ(sets + 5 + 2, model.nodes[2].lane_sets);
}

/* A switch that keeps its own tables: its three ports with links are named once each, and written
 * again by light and heavy sweeps. */
TEST_F(Qos, PortThatKeepsItsTables)
{
    model.nodes[2].fixed_lanes = true;
    start(tables);
    EXPECT_EQ(3u, mcsm_vl_differing(manager->sm->fabric));
    EXPECT_EQ(3, warnings());
    for (bool heavy : {false, true}) {
        unsigned sets = model.nodes[2].lane_sets;
        if (heavy) {
            mcsm_sm_sweep(manager->sm);
            model_run(manager, 10000);
        } else {
            light_sweep();
        }
        EXPECT_EQ(sets + 3 * (5 + 2), model.nodes[2].lane_sets) << heavy;
    }
    EXPECT_EQ(3, warnings());
    EXPECT_EQ(3u, mcsm_vl_differing(manager->sm->fabric));
    model.nodes[2].fixed_lanes = false;
    light_sweep();
    EXPECT_EQ(0u, mcsm_vl_differing(manager->sm->fabric));
    EXPECT_EQ(0x01, model.nodes[2].ports[2].sl2vl[1][0]);
}

/* The lanes of the engine are watched as well: a wrong table would make a circle possible. */
TEST_F(Qos, LanesOfTheEngineAreReadBack)
{
    start("");
    ASSERT_EQ(2, mcsm_sm_lanes(manager->sm));
    EXPECT_EQ(0x01, model.nodes[2].ports[2].sl2vl[3][0]);
    model.nodes[2].ports[2].sl2vl[3][0] = 0;
    light_sweeps();
    EXPECT_EQ(1, warnings());
    EXPECT_EQ(0x01, model.nodes[2].ports[2].sl2vl[3][0]);
}

/* The link that closes the ring has lane 1 for the pairs that cross it. SL2VL selects it at both ends
 * of all links of the ring; the ports of hosts have lane 0. Level 2 belongs to no pair. */
TEST_F(Qos, RingHasTwoLanes)
{
    start("");
    EXPECT_EQ(MCSM_ENGINE_TORUS, manager->sm->stats.engine);
    ASSERT_EQ(2, manager->sm->graph->lanes);
    int crossing = 0;
    for (int from = 5; from < 10; from++) {
        for (int to = 5; to < 10; to++) {
            crossing += level(from, to) == 1;
            EXPECT_EQ(level(from, to), level(to, from));
        }
    }
    EXPECT_EQ(6, crossing) << "both directions of three pairs";
    EXPECT_EQ(0x01, model.nodes[1].ports[2].sl2vl[1][0]);
    EXPECT_EQ(0x01, model.nodes[1].ports[3].sl2vl[1][0]);
    EXPECT_EQ(0x00, model.nodes[1].ports[1].sl2vl[2][0]) << "to the host";
    EXPECT_EQ(0x00, model.nodes[6].ports[1].sl2vl[0][0]) << "of the host";
    EXPECT_EQ(0xff, model.nodes[1].ports[2].sl2vl[1][1]);
    start("[multicast]\nsl = 7\n");
    EXPECT_EQ(0xf7, model.nodes[1].ports[2].sl2vl[1][3]) << "the lane of groups";
    /* A broken ring is a line, which needs no second lane. */
    start("");
    model_unlink(&model, 0, 2);
    mcsm_sm_sweep(manager->sm);
    model_run(manager, 10000);
    EXPECT_EQ(0, manager->sm->stats.credit_loop);
    EXPECT_EQ(1, manager->sm->graph->lanes);
    EXPECT_EQ(0, level(5, 9));
}

/* Nothing is written or read where neither the file nor the engine needs a table. */
TEST_F(Qos, TablesStayAsTheyAre)
{
    model_unlink(&model, 0, 2); /* a chain: one lane */
    start("");
    light_sweeps();
    ASSERT_EQ(1, mcsm_sm_lanes(manager->sm));
    for (int node = 0; node < 10; node++) {
        EXPECT_EQ(0u, model.nodes[node].lane_sets) << node;
    }
}

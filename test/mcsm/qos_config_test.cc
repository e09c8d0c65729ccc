/* The sections [group NAME] and [rule NAME] of a configuration. */
#include <unistd.h>

#include "mcsm_test.h"

static const std::string good = "[cluster]\nname = a\nlid-max = 99\n";
static const std::string group = good + "[group g]\nguids = 0x1\n"; /* ends in line 5 */

TEST(QosConfig, RulesAreRead)
{
    struct mcsm_config *config;
    ASSERT_EQ("", errors_of(group + "lids = 5 7-9\nnode = mds* HCA-1/P1\nnode = a/b\n"
                                    "types = ca self\npkeys = 0x10-0x1f\n"
                                    "[group h]\nguids = 0x2-0x9, 0x20\n"
                                    "[rule one]\nservice-id = 0x10000-0x1ffff 7\npkey = 0x12\n"
                                    "qos-class = 3\nsource = g h\ndestination = h\nsl = 3\n"
                                    "[rule two]\nsl = 1\n",
                            &config));
    ASSERT_EQ(2u, config->qos.group_count);
    const struct mcsm_port_group *g = &config->qos.groups[0];
    EXPECT_TRUE(mcsm_spans_have(&g->lids, 9));
    EXPECT_FALSE(mcsm_spans_have(&g->lids, 6));
    ASSERT_EQ(2u, g->node_count);
    EXPECT_STREQ("mds* HCA-1", g->nodes[0].text);
    EXPECT_EQ(1, g->nodes[0].port);
    EXPECT_STREQ("a/b", g->nodes[1].text);
    EXPECT_EQ(0, g->nodes[1].port);
    EXPECT_TRUE(g->types[1] && g->self);
    EXPECT_FALSE(g->types[2]);
    ASSERT_EQ(2u, config->qos.rule_count);
    const struct mcsm_rule *one = &config->qos.rules[0];
    EXPECT_TRUE(mcsm_spans_have(&one->service_ids, 0x12345));
    EXPECT_FALSE(mcsm_spans_have(&one->service_ids, 0x20000));
    EXPECT_EQ(3, one->sl);
    EXPECT_EQ(1, one->sources.list[1].group);
    EXPECT_FALSE(mcsm_rule_is_open(one));
    EXPECT_TRUE(mcsm_rule_is_open(&config->qos.rules[1]));
    EXPECT_TRUE(config->own_levels);
    mcsm_config_free(config);
}

/* Each wrong text, the line that is blamed, and a word of the message. */
TEST(QosConfig, ErrorsNameTheLine)
{
    const struct {
        std::string text, where, what;
    } cases[] = {
        {good + "[group a b]\nguids = 0x1\n", ":5: ", "letters"},
        {good + "[group g]\nguid = 0x1\n", ":5: ", "no key \"guid\""},
        {good + "[group g]\nguids = 0\n", ":5: ", "port GUIDs"},
        {good + "[group g]\nguids = 0x9-0x2\n", ":5: ", "FROM-TO"},
        {good + "[group g]\nlids = 49152\n", ":5: ", "1 to 49151"},
        {good + "[group g]\npkeys = 0x8001\n", ":5: ", "0x7fff"},
        {good + "[group g]\nnode = /P1\n", ":5: ", "pattern"},
        {good + "[group g]\ntypes = hca\n", ":5: ", "switch"},
        {group + "[rule r]\nsource = x\nsl = 1\n", ":7: ", "no section [group x]"},
        {group + "[rule r]\nsl = 1\ndestination = g x\n", ":8: ", "no section [group x]"},
        {group + "[rule r]\nsource = g\n", ":7: ", "has no sl"},
        {group + "[rule r]\nsl = 16\n", ":7: ", "0 to 15"},
        {group + "[rule r]\nservice-id = x\n", ":7: ", "64-bit"},
        {group + "[rule r]\nqos-class = 4096\n", ":7: ", "0 to 4095"},
        {group + "[rule r]\npkey = 0\n", ":7: ", "P_Keys"},
        {group + "[rule r]\nmtu = 4\n", ":7: ", "no key \"mtu\""},
        {group + "[rule r]\nsl = 1\n[rule s]\npkey = 1\nsl = 2\n", ":9: ", "never counts"},
        {group + "[rule r]\npkey = 1\nsl = 1\n[rule s]\npkey = 2\nsl = 2\n[rule r]\npkey = 3\n",
         ":13: ", "line 7"},
        {group + "[rule r]\nsl = 15\n", ":7: ", "no virtual lane"},
        {group + "[port]\nsl2vl = 0 1 15 1 1 1 1 1 1 1 1 1 1 1 1 1\n[rule r]\nsl = 2\n",
         ":9: ", "no virtual lane"},
        {group + "[rule r]\nsl = 3\n[multicast]\nsl = 3\n", ":7: ", "reserves for groups"},
        {group + "[rule r]\nsl = 3\n[routing]\nengine = lash\n", ":7: ", "engine = lash"},
        {group + "[rule r]\nsl = 3\n[routing]\nengine = torus\n", ":7: ", "use engine auto"},
        {good + "[port]\nsl2vl = 0 0 1 1 1 1 1 1 1 1 1 1 1 1 1 1\n[multicast]\nsl = 1\n", ": ",
         "the same virtual lane"},
    };
    for (const auto &one : cases) {
        std::string said = errors_of(one.text);
        EXPECT_NE(std::string::npos, said.find(one.where)) << one.text << said;
        EXPECT_NE(std::string::npos, said.find(one.what)) << one.text << said;
    }
}

/* Levels whose lane a link lacks share its lanes, but not the lane of the groups. */
TEST(QosConfig, LanesOfNarrowLinks)
{
    struct mcsm_config *config;
    ASSERT_EQ("", errors_of(good + "[rule r]\nsl = 9\n", &config));
    EXPECT_EQ(9, mcsm_config_lane(config, 9, 15));
    EXPECT_EQ(1, mcsm_config_lane(config, 9, 8));
    EXPECT_EQ(0, mcsm_config_lane(config, 9, 1));
    EXPECT_EQ(15, mcsm_config_lane(config, 15, 8));
    mcsm_config_free(config);
    ASSERT_EQ("", errors_of(good + "[multicast]\nsl = 1\n[rule r]\nsl = 9\n", &config));
    EXPECT_EQ(0, mcsm_config_lane(config, 9, 8)) << "lane 1 has the groups";
    EXPECT_EQ(1, mcsm_config_lane(config, 1, 8));
    EXPECT_EQ(15, mcsm_config_lane(config, 1, 1));
    mcsm_config_free(config);
}

static void free_both(struct mcsm_config *const both[2])
{
    mcsm_config_free(both[0]);
    mcsm_config_free(both[1]);
}

/* Clusters with a common border map levels alike. */
TEST(QosConfig, ClustersAgreeOnLanes)
{
    std::string a = "[cluster]\nname = a\nlid-min = 1\nlid-max = 9\n[border]\n"
                    "0x1/1 = b 0x2/1 transit\n[neighbour b]\nlids = 10-19\n";
    std::string b = "[cluster]\nname = b\nlid-min = 10\nlid-max = 19\n[border]\n"
                    "0x2/1 = a 0x1/1 transit\n[neighbour a]\nlids = 1-9\n";
    std::string map = "[port]\nsl2vl = 0 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1\n";
    for (bool alike : {false, true}) {
        struct mcsm_config *both[2];
        ASSERT_EQ("", errors_of(a + map, &both[0]));
        ASSERT_EQ("", errors_of(b + (alike ? map : ""), &both[1]));
        char *said = nullptr;
        size_t size;
        FILE *err = open_memstream(&said, &size);
        EXPECT_EQ(alike ? 0 : 1, mcsm_config_cross_check(both, 2, err));
        fclose(err);
        EXPECT_EQ(!alike, strstr(said, "sl2vl of [port] differs") != nullptr) << said;
        free(said);
        free_both(both);
    }
}

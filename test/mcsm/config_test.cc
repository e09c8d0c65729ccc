#include <algorithm>
#include <unistd.h>

#include "mcsm_test.h"

static const std::string good = "[cluster]\nname = a\nlid-min = 1\nlid-max = 99\n";

static std::string border(const std::string &line)
{
    return good + "[border]\n" + line + "\n[neighbour b]\nlids = 100-199\n";
}

TEST(Config, SmallestFile)
{
    struct mcsm_config *config;
    EXPECT_EQ("", errors_of("[cluster]\nname = a\n", &config));
    EXPECT_STREQ("a", config->name);
    EXPECT_EQ(1, config->lids.from);
    EXPECT_EQ(49151, config->lids.to);
    ASSERT_EQ(1u, config->partition_count);
    EXPECT_EQ(0x7fff, config->partitions[0].pkey);
    EXPECT_STREQ("/run/mcsm/a.sock", config->socket);
    mcsm_config_free(config);
}

/* Each wrong text, the line that is blamed, and a word of the message. */
TEST(Config, ErrorsNameTheLine)
{
    const struct {
        std::string text, where, what;
    } cases[] = {
        {"[cluster]\n", ": ", "no name"},
        {good + "[cluser]\nx = 1\n", ":6: ", "unknown section"},
        {good + "lid = 1\n", ":5: ", "no key \"lid\""},
        {good + "lmc = 8\n", ":5: ", "0 to 7"},
        {good + "port-guid = 12\n", ":5: ", "port GUID"},
        {"[cluster]\nname = a b\n", ":2: ", "letters"},
        {"[cluster]\nname = a\nlid-min = 0\n", ":3: ", "unicast LID"},
        {"[cluster]\nname = a\nlid-max = 49152\n", ":3: ", "unicast LID"},
        {"[cluster]\nname = a\nlid-min = 9\nlid-max = 3\n", ": ", "above"},
        {border("0x1 = b 0x2/1"), ":6: ", "SWITCH-GUID/PORT"},
        {border("0x1/255 = b 0x2/1"), ":6: ", "SWITCH-GUID/PORT"},
        {border("0x1/1 = b"), ":6: ", "PEER-GUID"},
        {border("0x1/1 = b 0x2/1 transitt"), ":6: ", "transit"},
        {border("0x1/1 = b 0x2/1 transit\n0x1/1 = b 0x2/2"), ":7: ", "line 6"},
        {border("0x1/1 = b 0x2/1"), ":8: ", "transit"},
        {good + "[border]\n0x1/1 = b 0x2/1 transit\n", ":6: ", "no LIDs"},
        {good + "[neighbour b]\nlids = 50-150\n", ":6: ", "LID 50"},
        {good + "[neighbour b]\nlids = 150-100\n", ":6: ", "FROM-TO"},
        {good + "[neighbour b]\nlids = 100-199\nvia = c\n", ":7: ", "no such neighbour"},
        {good + "[routing]\nengine = ftree\n", ":6: ", "minhop"},
        {good + "[routing]\nengine = minhop\nroots = 0x1\n", ": ", "updn"},
        {good + "[routing]\ndimensions = 1 x\n", ":6: ", "groups of at most"},
        {good + "[port]\nmtu = 1000\n", ":6: ", "256"},
        {good + "[port]\nsl2vl = 0 1 2\n", ":6: ", "each service level"},
        {good + "[port]\nvlarb-low = 1\n", ":6: ", "VL:WEIGHT"},
        {good + "[sweep]\nwindow = 0\n", ":6: ", "1 to 1024"},
        {good + "[health]\nwindow = 7\n", ":6: ", "8 to 86400"},
        {good + "[health]\nerrors = many\n", ":6: ", "number of errors"},
        {good + "[health]\nlimit = 5\n", ":6: ", "no key \"limit\""},
        {good + "[multicast]\nmlids = 31\n", ":6: ", "32 to 16384"},
        {good + "[partition p]\nipoib = yes\n", ":6: ", "no pkey"},
        {good + "[partition p]\npkey = 5\n[partition q]\npkey = 5\n", ":8: ", "also that"},
        {good + "[partition p]\npkey = 5\nfull = 5\n", ":7: ", "port GUIDs"},
        {good + "nonsense\n", ":5: ", "key = value"},
        {good + "log-level = loud\n", ":5: ", "debug"},
        {good + "lid-database = /nonexistent\n", ":5: ", "cannot be used"},
    };
    for (const auto &one : cases) {
        std::string said = errors_of(one.text);
        EXPECT_NE(std::string::npos, said.find(one.where)) << one.text << said;
        EXPECT_NE(std::string::npos, said.find(one.what)) << one.text << said;
    }
}

/* The contract is kept by default, whatever lane the groups have. */
TEST(Config, ContractIsKept)
{
    std::string file = border("0x1/1 = b 0x2/1 transit joint");
    for (std::string more : {"", "[routing]\ncontract = keep\n", "[multicast]\nsl = 7\n"}) {
        struct mcsm_config *config;
        ASSERT_EQ("", errors_of(file + "\n" + more, &config)) << more;
        EXPECT_FALSE(config->contract_only_named);
        mcsm_config_free(config);
    }
}

/* Cluster m has a above, c below, d beside with higher LIDs and b beside with lower LIDs. */
TEST(Config, ContractFollowsTheOrderOfClusters)
{
    struct mcsm_config *config;
    ASSERT_EQ("", errors_of("[cluster]\nname = m\nlid-min = 100\nlid-max = 199\n[border]\n"
                            "0x1/1 = a 0x2/1 transit\n0x1/2 = b 0x3/1 transit\n"
                            "0x1/3 = c 0x4/1 transit\n0x1/4 = d 0x5/1 transit\n"
                            "[neighbour a]\nlids = 1-49\npasses-to = c\n"
                            "[neighbour b]\nlids = 50-99\n"
                            "[neighbour c]\nlids = 200-299\npasses-to = a\n"
                            "[neighbour d]\nlids = 300-399\n",
                            &config));
    const char *allowed[] = {"..c.", "..c.", "abcd", "..cd"}; /* of each entry: the exits */
    for (int e = 0; e < 4; e++) {
        std::string exits;
        for (int f = 0; f < 4; f++) {
            exits += mcsm_config_allows(config, &config->borders[e], &config->borders[f]) ?
                         'a' + f :
                         '.';
        }
        EXPECT_EQ(allowed[e], exits) << "entry " << (char)('a' + e);
    }
    mcsm_config_free(config);
}

TEST(Config, AllErrorsAreShown)
{
    std::string said = errors_of(good + "lmc = 8\npriority = 16\n");
    EXPECT_NE(std::string::npos, said.find(":5: "));
    EXPECT_NE(std::string::npos, said.find(":6: "));
}

TEST(Config, LongLine)
{
    std::string said = errors_of(good + "log-file = " + std::string(500, 'x') + "\n");
    EXPECT_NE(std::string::npos, said.find(":5: the line is longer")) << said;
}

TEST(Config, DatabaseErrors)
{
    const struct {
        std::string text, what;
    } cases[] = {{"0x1 5\n0x2 5\n", ":2: LID 5"}, {"0x1 5\n0x1 6\n", "two LIDs"},
                 {"0x1\n", ":1: expected"},       {"1 5\n", ":1: expected"},
                 {"0x1 0\n", ":1: expected"},     {"0x1 49152\n", ":1: expected"},
                 {"0x1 5 6\n", ":1: expected"}};
    for (const auto &one : cases) {
        TemporaryFile db(one.text);
        std::string said = errors_of(good + "lid-database = " + db.path + "\n");
        EXPECT_NE(std::string::npos, said.find(one.what)) << said;
    }
}

/* ---- clusters that contradict each other ---- */

class Cross : public testing::Test
{
  protected:
    std::string base(const std::string &name, int from, int to)
    {
        return "[cluster]\nname = " + name + "\nlid-min = " + std::to_string(from) +
               "\nlid-max = " + std::to_string(to) + "\n";
    }
    std::string check(const std::vector<std::string> &texts)
    {
        std::vector<struct mcsm_config *> configs;
        for (const auto &text : texts) {
            struct mcsm_config *config;
            EXPECT_EQ("", errors_of(text, &config));
            configs.push_back(config);
        }
        char *said = nullptr;
        size_t size;
        FILE *err = open_memstream(&said, &size);
        int found = mcsm_config_cross_check(configs.data(), configs.size(), err);
        fclose(err);
        std::string result(said);
        free(said);
        EXPECT_EQ(found, (int)std::count(result.begin(), result.end(), '\n'));
        for (auto *config : configs) {
            mcsm_config_free(config);
        }
        return result;
    }
    std::string a =
        base("a", 1, 9) + "[border]\n0x1/1 = b 0x2/1 transit joint\n[neighbour b]\nlids = 10-19\n";
    std::string b =
        base("b", 10, 19) + "[border]\n0x2/1 = a 0x1/1 transit joint\n[neighbour a]\nlids = 1-9\n";
};

TEST_F(Cross, Fits)
{
    EXPECT_EQ("", check({a, b}));
}

TEST_F(Cross, BorderOfOneSide)
{
    std::string said = check(
        {a, base("b", 10, 19) + "[border]\n0x2/2 = a 0x1/1 transit\n[neighbour a]\nlids = 1-9\n"});
    EXPECT_NE(std::string::npos, said.find("does not know its border port")) << said;
}

TEST_F(Cross, JointOfOneSide)
{
    std::string other = b;
    other.replace(other.find(" joint"), 6, "");
    EXPECT_NE(std::string::npos, check({a, other}).find("only one side calls"));
}

TEST_F(Cross, MtuOfOneSide)
{
    EXPECT_NE(std::string::npos, check({a, b + "[port]\nmtu = 2048\n"}).find("mtu or vls"));
    EXPECT_EQ("", check({a + "[port]\nmtu = 2048\n", b + "[port]\nmtu = 2048\n"}));
}

TEST_F(Cross, OverlappingLids)
{
    std::string other =
        base("b", 5, 19) + "[border]\n0x2/1 = a 0x1/1 transit joint\n[neighbour a]\nlids = 1-4\n";
    std::string said = check({a, other});
    EXPECT_NE(std::string::npos, said.find("LID 5 may be given by both")) << said;
}

TEST_F(Cross, ClusterThatNobodyKnows)
{
    std::string c =
        base("c", 20, 29) + "[border]\n0x3/1 = a 0x1/2 transit\n[neighbour a]\nlids = 1-9\n";
    std::string said = check({a, b, c});
    EXPECT_NE(std::string::npos, said.find("nothing is said of cluster c")) << said;
}

TEST_F(Cross, JointsInACircle)
{
    auto cluster = [&](const std::string &name, int n, const std::string &x, int nx,
                       const std::string &y, int ny) {
        auto g = [](int i, int port) {
            return "0x" + std::to_string(i) + "/" + std::to_string(port);
        };
        return base(name, n * 10, n * 10 + 9) + "[border]\n" + g(n, nx) + " = " + x + " " +
               g(nx, n) + " transit joint\n" + g(n, ny) + " = " + y + " " + g(ny, n) +
               " transit joint\n" + "[neighbour " + x + "]\nlids = " + std::to_string(nx * 10) +
               "-" + std::to_string(nx * 10 + 9) + "\n[neighbour " + y +
               "]\nlids = " + std::to_string(ny * 10) + "-" + std::to_string(ny * 10 + 9) + "\n";
    };
    std::string said = check({cluster("x", 1, "y", 2, "z", 3), cluster("y", 2, "x", 1, "z", 3),
                              cluster("z", 3, "x", 1, "y", 2)});
    EXPECT_NE(std::string::npos, said.find("closes a loop")) << said;
}

/* b sends packets to a through c, although a sends packets to b directly. */
TEST_F(Cross, WayBackThroughAnotherCluster)
{
    auto border = [](int x, const std::string &name, int y) {
        auto end = [](int i, int port) {
            return "0x" + std::to_string(i) + "/" + std::to_string(port);
        };
        return end(x, y) + " = " + name + " " + end(y, x) + " transit\n";
    };
    const std::string to_a = "[neighbour a]\nlids = 1-9\n", to_b = "[neighbour b]\nlids = 10-19\n",
                      to_c = "[neighbour c]\nlids = 20-29\n";
    std::string first =
        base("a", 1, 9) + "[border]\n" + border(1, "b", 2) + border(1, "c", 3) + to_b + to_c;
    std::string second =
        base("b", 10, 19) + "[border]\n" + border(2, "a", 1) + border(2, "c", 3) + to_a;
    std::string third =
        base("c", 20, 29) + "[border]\n" + border(3, "a", 1) + border(3, "b", 2) + to_a + to_b;
    EXPECT_EQ("", check({first, second + to_c, third}));
    std::string said = check({first, second + "via = c\n" + to_c, third + "passes-to = a\n"});
    EXPECT_NE(std::string::npos, said.find("sends packets to a via c")) << said;
}

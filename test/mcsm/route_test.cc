#include <algorithm>
#include <cstring>
#include <random>
#include <set>
#include <unistd.h>

#include "mcsm_test.h"

extern "C" {
#include "route/contract.h"
#include "route/plan.h"
}

/* Switches and links by number; LID 1000 + i is host i, at the switch that it was added to. */
class Net
{
  public:
    explicit Net(int count, uint8_t ports = 32) : tables(count)
    {
        std::vector<uint8_t> nports(count, ports);
        graph = mcsm_graph_new(count, nports.data());
        next.resize(count, 1);
        for (int i = 0; i < count; i++) {
            graph->sw[i].guid = 100 + i;
            tables[i].resize(MCSM_LID_MAX + 1);
            graph->sw[i].lft = tables[i].data();
        }
    }
    ~Net()
    {
        mcsm_graph_free(graph);
    }
    void link(int a, int b)
    {
        mcsm_graph_link(graph, a, next[a], b, next[b]);
        next[a]++;
        next[b]++;
    }
    void link_at(int a, int a_port, int b, int b_port)
    {
        mcsm_graph_link(graph, a, a_port, b, b_port);
        next[a] = std::max(next[a], a_port + 1);
        next[b] = std::max(next[b], b_port + 1);
    }
    int host(int sw)
    {
        graph->sw[sw].hosts++;
        at.push_back(sw);
        mcsm_graph_target(graph, sw, next[sw]++, 1000 + at.size() - 1, false);
        return at.size() - 1;
    }
    void route(enum mcsm_engine engine)
    {
        config.engine = engine;
        ASSERT_EQ(0, mcsm_route(graph, &config));
    }
    /* Links from a switch to a host; -1 if the packet is lost. */
    int hops(int from, int host)
    {
        for (int steps = 0; steps <= graph->count; steps++) {
            uint8_t out = tables[from][1000 + host];
            if (out == MCSM_DROP) {
                return -1;
            }
            if (from == at[host] && graph->sw[from].ports[out].peer < 0) {
                return steps;
            }
            if (graph->sw[from].ports[out].peer < 0) {
                return -1;
            }
            from = graph->sw[from].ports[out].peer;
        }
        return -1;
    }
    int distance(int from, int to)
    {
        std::vector<int> distances(graph->count), queue(graph->count);
        mcsm_distances(graph, from, distances.data(), queue.data());
        return distances[to];
    }
    struct mcsm_graph *graph;
    struct mcsm_config config = {};
    std::vector<std::vector<uint8_t>> tables;
    std::vector<int> next, at;
};

static void random_links(Net &net, int count, std::mt19937 &draw)
{
    for (int i = 1; i < count; i++) {
        net.link(i, draw() % i);
    }
    for (int i = 0; i < count; i++) {
        int a = draw() % count, b = draw() % count;
        if (a != b) {
            net.link(a, b);
        }
    }
    for (int i = 0; i < count; i++) {
        net.host(draw() % count);
    }
}

TEST(MinHop, ShortestOnRandomFabrics)
{
    for (unsigned seed = 0; seed < 100; seed++) {
        std::mt19937 draw(seed);
        int count = 2 + draw() % 14;
        Net net(count, 64);
        random_links(net, count, draw);
        net.route(MCSM_ENGINE_MINHOP);
        for (int from = 0; from < count; from++) {
            for (size_t host = 0; host < net.at.size(); host++) {
                ASSERT_EQ(net.distance(from, net.at[host]), net.hops(from, host))
                    << "seed " << seed;
            }
        }
    }
}

TEST(MinHop, FatTreeIsBalanced)
{
    Net net(8); /* leaves 0-3, spines 4-7 */
    for (int leaf = 0; leaf < 4; leaf++) {
        for (int spine = 4; spine < 8; spine++) {
            net.link(leaf, spine);
        }
    }
    for (int leaf = 0; leaf < 4; leaf++) {
        for (int i = 0; i < 4; i++) {
            net.host(leaf);
        }
    }
    net.route(MCSM_ENGINE_MINHOP);
    /* 12 foreign hosts reach 4 hosts of a leaf over 4 links: 12 pairs on each. */
    for (int leaf = 0; leaf < 4; leaf++) {
        for (int p = 1; p <= 4; p++) {
            const struct mcsm_gport &port = net.graph->sw[leaf].ports[p];
            int down = net.graph->sw[port.peer].first_link + port.peer_port;
            EXPECT_EQ(12u, net.graph->load[net.graph->sw[leaf].first_link + p]);
            EXPECT_EQ(12u, net.graph->load[down]);
        }
    }
}

/* A fifth of the links of a fat tree is cut. The first choice alone loads a link with 264 pairs. */
TEST(MinHop, FatTreeWithFaultsIsRoutedTwice)
{
    enum { LEAVES = 12, SPINES = 12, HOSTS = 12 };
    Net net(LEAVES + SPINES);
    for (int leaf = 0; leaf < LEAVES; leaf++) {
        for (int i = 0; i < HOSTS; i++) {
            net.host(leaf);
        }
        for (int spine = 0; spine < SPINES; spine++) {
            if ((leaf * leaf + 3 * spine) % 5 != 0) {
                net.link(leaf, LEAVES + spine);
            }
        }
    }
    net.route(MCSM_ENGINE_MINHOP);
    EXPECT_GE(240u, *std::max_element(net.graph->load, net.graph->load + net.graph->links));
}

TEST(UpDown, ReachesAllAndHasNoCreditLoop)
{
    for (unsigned seed = 0; seed < 100; seed++) {
        std::mt19937 draw(seed);
        int count = 2 + draw() % 14;
        Net net(count, 64);
        random_links(net, count, draw);
        net.route(MCSM_ENGINE_UPDN);
        for (int from = 0; from < count; from++) {
            for (size_t host = 0; host < net.at.size(); host++) {
                ASSERT_GE(net.hops(from, host), net.distance(from, net.at[host]))
                    << "seed " << seed;
            }
        }
        ASSERT_EQ(0, mcsm_plan_find_loop(net.graph, nullptr, nullptr, 0)) << "seed " << seed;
    }
}

/* A fat tree of two levels: 24 leaves with 4 hosts, 4 tops. `border`: tops with foreign sources. */
static void fat_tree(Net &net, int border)
{
    for (int leaf = 0; leaf < 24; leaf++) {
        for (int top = 24; top < 28; top++) {
            net.link(leaf, top);
        }
        for (int host = 0; host < 4; host++) {
            net.host(leaf);
        }
    }
    for (int i = 0; i < 28; i++) {
        mcsm_graph_target(net.graph, i, 0, 2000 + i, false);
    }
    for (int top = 24; top < 24 + border; top++) {
        net.graph->sw[top].border = true;
        net.graph->sw[top].hosts = net.graph->sw[top].entering = 96 / border;
    }
}

/* How many routes from a leaf to a host lead over the top. */
static int routes_over(const Net &net, int top)
{
    int count = 0;
    for (int leaf = 0; leaf < 24; leaf++) {
        for (size_t host = 0; host < net.at.size(); host++) {
            count += net.graph->sw[leaf].ports[net.tables[leaf][1000 + host]].peer == top;
        }
    }
    return count;
}

/* All tops are equal: each carries a quarter of the routes. Either the tops are the roots, or a leaf
 * is the root, because two border tops have to reach each other. */
TEST(UpDown, UsesAllTopsOfAFatTree)
{
    Net alone(28, 40);
    fat_tree(alone, 0);
    alone.route(MCSM_ENGINE_UPDN);
    for (int top = 24; top < 28; top++) {
        EXPECT_EQ(0, alone.graph->sw[top].rank);
        EXPECT_EQ(24 * 92 / 4, routes_over(alone, top));
    }
    Net joined(28, 40);
    fat_tree(joined, 2);
    joined.config.contract_only_named = true;
    joined.route(MCSM_ENGINE_UPDN);
    for (int from = 0; from < 28; from++) {
        for (size_t host = 0; host < joined.at.size(); host++) {
            ASSERT_GE(joined.hops(from, host), 0);
        }
    }
    for (int top = 24; top < 28; top++) {
        EXPECT_LT(100, routes_over(joined, top)); /* border tops carry other packets too */
    }
    for (int top = 24; top < 26; top++) {
        EXPECT_NE(MCSM_DROP, joined.tables[top][2000 + 49 - top]);
    }
}

/* Two tops are borders, and leaf 3 has lost its link to a top. Each switch reaches all hosts, and at least
 * two tops carry the packets between leaves. `strict`: packets from one border must not leave by the
 * other one. */
TEST(UpDown, NoTopOfABorderedFatTreeCarriesAll)
{
    for (int fault : {0, 26, 24, 25}) { /* the top that leaf 3 has no link to */
        for (bool strict : {false, true}) {
            Net net(28, 40);
            fat_tree(net, 2);
            for (int top : {24, 25}) {
                net.graph->sw[top].strict = strict;
                mcsm_graph_target(net.graph, top, 40, 3000 + top, true);
            }
            if (fault > 0) {
                struct mcsm_gport &port = net.graph->sw[3].ports[1 + fault - 24];
                net.graph->sw[fault].ports[port.peer_port].peer = -1;
                port.peer = -1;
            }
            net.route(MCSM_ENGINE_UPDN);
            auto where = testing::Message() << "fault " << fault << ", strict " << strict;
            for (int from = 0; from < 28; from++) {
                for (size_t host = 0; host < net.at.size(); host++) {
                    ASSERT_GE(net.hops(from, host), 0) << where;
                }
                for (int top = 24; top < 28 && from < 24; top++) {
                    ASSERT_NE(MCSM_DROP, net.tables[from][2000 + top]) << where;
                    ASSERT_NE(MCSM_DROP, net.tables[from][3000 + top % 2 + 24]) << where;
                }
            }
            EXPECT_EQ(0, mcsm_plan_find_loop(net.graph, nullptr, nullptr, 0)) << where;
            for (int top : {24, 25}) { /* a switch below all others has a rank above the count */
                EXPECT_TRUE(!strict || net.graph->sw[top].rank < 28) << where << ", border " << top;
            }
            int used = 0;
            for (int top = 24; top < 28; top++) {
                used += routes_over(net, top) > 24 * 92 / 5;
            }
            /* Packets from a border that is cut off must not go up to the other border. */
            EXPECT_LE(strict && (fault == 24 || fault == 25) ? 1 : 2, used) << where;
        }
    }
}

/* A fat tree of three levels: four pods of two leaves (0 to 7) and two middle switches (8 to 15), and four
 * tops. The tops 16 and 18 are borders. Whatever link is missing, all are reached, and more than one top
 * is a root. */
TEST(UpDown, EachLinkOfATreeOfThreeLevels)
{
    for (int fault = -1; fault < 32; fault++) {
        Net net(20);
        std::vector<std::pair<int, int>> links;
        for (int pod = 0; pod < 4; pod++) {
            for (int i = 0; i < 4; i++) {
                links.push_back({2 * pod + i / 2, 8 + 2 * pod + i % 2});
                links.push_back({8 + 2 * pod + i / 2, 16 + i});
            }
        }
        for (int i = 0; i < 32; i++) {
            if (i != fault) {
                net.link(links[i].first, links[i].second);
            }
        }
        for (int leaf = 0; leaf < 8; leaf++) {
            net.host(leaf);
            net.host(leaf);
        }
        for (int top : {16, 18}) {
            net.graph->sw[top].border = true;
            net.graph->sw[top].hosts = net.graph->sw[top].entering = 16;
        }
        for (int i = 0; i < 20; i++) {
            mcsm_graph_target(net.graph, i, 0, 2000 + i, false);
        }
        net.route(MCSM_ENGINE_UPDN);
        int roots = 0;
        for (int from = 0; from < 20; from++) {
            roots += net.graph->sw[from].rank == 0;
            for (size_t host = 0; host < net.at.size(); host++) {
                ASSERT_GE(net.hops(from, host), 0) << "without link " << fault;
            }
            for (int to = 0; to < 20 && from < 8; to++) {
                ASSERT_NE(MCSM_DROP, net.tables[from][2000 + to]) << "without link " << fault;
            }
        }
        EXPECT_LT(1, roots) << "without link " << fault;
        EXPECT_EQ(0, mcsm_plan_find_loop(net.graph, nullptr, nullptr, 0));
    }
}

/* A border top need not reach the other border: no packets come in for the neighbour. So the routes of
 * the engine stay, and both borders carry packets to the neighbour. */
TEST(UpDown, ContractKeepsRoutesOfTwoBorders)
{
    Net net(28, 40);
    fat_tree(net, 2);
    std::vector<int> none(4000, -1);
    for (int top : {24, 25}) {
        net.graph->sw[top].strict = true;
        mcsm_graph_target(net.graph, top, 40, 3000 + top, true);
        none[3000 + top] = 0;
    }
    net.route(MCSM_ENGINE_UPDN);
    const struct mcsm_gate gates[] = {{24, 40, 0, true, false, true},
                                      {25, 40, 0, true, false, true}};
    const bool allowed[4] = {}, enters[1] = {};
    struct mcsm_contract contract = {};
    contract.gates = gates;
    contract.count = 2;
    contract.via = contract.cluster = none.data();
    contract.allowed = allowed;
    contract.enters = enters;
    contract.clusters = 1;
    struct mcsm_contract_result result;
    ASSERT_EQ(0, mcsm_contract_keep(net.graph, &contract, &result));
    EXPECT_FALSE(result.broken);
    EXPECT_EQ(0u, result.left_out);
    for (int leaf = 0; leaf < 24; leaf++) {
        for (int top : {24, 25}) {
            EXPECT_EQ(top, net.graph->sw[leaf].ports[net.tables[leaf][3000 + top]].peer);
        }
    }
}

/* With LMC 2 the four LIDs of each host leave each switch through as many ports as lead nearer. */
TEST(Lmc, PathsOfAPairUseDifferentLinks)
{
    unsigned several = 0;
    for (unsigned seed = 0; seed < 50; seed++) {
        std::mt19937 draw(seed);
        int count = 6 + draw() % 10;
        Net net(count, 64);
        for (int i = 0; i < 4 * count; i++) {
            int a = draw() % count,
                b = i < count ? (a = i, (i + 1) % count) : (int)(draw() % count);
            if (a != b) {
                net.link(a, b);
            }
        }
        for (int host = 0; host < count; host++) {
            int sw = draw() % count, port = net.next[sw]++;
            net.graph->sw[sw].hosts++;
            for (int lid = 0; lid < 4; lid++) {
                net.at.push_back(sw);
                mcsm_graph_target(net.graph, sw, port, 1000 + 4 * host + lid, false);
            }
        }
        net.route(MCSM_ENGINE_MINHOP);
        for (int from = 0; from < count; from++) {
            for (int host = 0; host < count; host++) {
                int to = net.at[4 * host];
                std::set<uint8_t> nearer, ports;
                for (int p = 1; p <= 64 && from != to; p++) {
                    int peer = net.graph->sw[from].ports[p].peer;
                    if (peer >= 0 && net.distance(peer, to) < net.distance(from, to)) {
                        nearer.insert(p);
                    }
                }
                for (int lid = 0; lid < 4; lid++) {
                    ports.insert(net.tables[from][1000 + 4 * host + lid]);
                }
                if (from != to) {
                    ASSERT_EQ(std::min<size_t>(4, nearer.size()), ports.size()) << "seed " << seed;
                    several += ports.size() > 1;
                }
            }
        }
    }
    EXPECT_LT(1000u, several);
}

TEST(UpDown, NeverUpAfterDown)
{
    std::mt19937 draw(5);
    Net net(12, 64);
    random_links(net, 12, draw);
    net.route(MCSM_ENGINE_UPDN);
    for (int from = 0; from < 12; from++) {
        for (size_t host = 0; host < net.at.size(); host++) {
            bool down = false;
            for (int at = from; at != net.at[host];) {
                int to = net.graph->sw[at].ports[net.tables[at][1000 + host]].peer;
                bool up = mcsm_is_up(net.graph, at, to);
                ASSERT_FALSE(up && down);
                down |= !up;
                at = to;
            }
        }
    }
}

TEST(CreditLoop, RingOfMinHop)
{
    Net net(6);
    for (int i = 0; i < 6; i++) {
        net.link_at(i, 1, (i + 1) % 6, 2);
    }
    for (int i = 0; i < 6; i++) {
        net.host(i);
    }
    net.route(MCSM_ENGINE_MINHOP);
    EXPECT_GT(mcsm_plan_find_loop(net.graph, nullptr, nullptr, 0), 0);
    net.route(MCSM_ENGINE_UPDN);
    EXPECT_EQ(0, mcsm_plan_find_loop(net.graph, nullptr, nullptr, 0));
}

/* A torus of DOR: x by ports 1 and 2, y by 3 and 4. Packets turn from x to y only, so that a circle
 * is one ring; from a ring of four on, packets that go two steps fill it. */
TEST(CreditLoop, TorusOfDor)
{
    for (int n : {3, 4, 5}) {
        Net net(n * n);
        for (int y = 0; y < n; y++) {
            for (int x = 0; x < n; x++) {
                net.link_at(y * n + x, 1, y * n + (x + 1) % n, 2);
                net.link_at(y * n + x, 3, (y + 1) % n * n + x, 4);
            }
        }
        for (int i = 0; i < n * n; i++) {
            net.host(i);
        }
        net.config.dimension_count = 2;
        net.config.dimensions[0] = {{1, 2}, 2};
        net.config.dimensions[1] = {{3, 4}, 2};
        net.route(MCSM_ENGINE_DOR);
        int circle[64], length = mcsm_plan_find_loop(net.graph, nullptr, circle, 64);
        ASSERT_EQ(n < 4 ? 0 : n, length);
        for (int i = 0; i < length; i++) { /* each channel leads to the switch of the next one */
            int owner = mcsm_graph_owner(net.graph, circle[i]);
            int port = circle[i] - net.graph->sw[owner].first_link;
            ASSERT_EQ(mcsm_graph_owner(net.graph, circle[(i + 1) % length]),
                      net.graph->sw[owner].ports[port].peer);
        }
        for (int from = 0; from < n * n; from++) {
            for (int to = 0; to < n * n; to++) {
                ASSERT_EQ(net.distance(from, to), net.hops(from, to));
            }
        }
        net.route(MCSM_ENGINE_UPDN);
        EXPECT_EQ(0, mcsm_plan_find_loop(net.graph, nullptr, nullptr, 0));
    }
}

static void dor_dimensions(struct mcsm_config *config, int n)
{
    config->dimension_count = n;
    for (int i = 0; i < n; i++) {
        config->dimensions[i].count = 1;
        config->dimensions[i].ports[0] = i + 1;
    }
}

TEST(Dor, HypercubeInTheOrderOfDimensions)
{
    Net net(16);
    for (int i = 0; i < 16; i++) {
        for (int d = 0; d < 4; d++) {
            if (!(i >> d & 1)) {
                net.link_at(i, d + 1, i | 1 << d, d + 1);
            }
        }
    }
    for (int i = 0; i < 16; i++) {
        net.host(i);
    }
    dor_dimensions(&net.config, 4);
    net.route(MCSM_ENGINE_DOR);
    for (int from = 0; from < 16; from++) {
        for (int to = 0; to < 16; to++) {
            ASSERT_EQ(__builtin_popcount(from ^ to), net.hops(from, to));
            if (from != to) {
                ASSERT_EQ(__builtin_ctz(from ^ to) + 1, net.tables[from][1000 + to]);
            }
        }
    }
    EXPECT_EQ(0, mcsm_plan_find_loop(net.graph, nullptr, nullptr, 0));
}

TEST(Dor, ConfiguredOrderIsUsed)
{
    Net net(4);
    for (int i = 0; i < 4; i++) {
        for (int d = 0; d < 2; d++) {
            if (!(i >> d & 1)) {
                net.link_at(i, d + 1, i | 1 << d, d + 1);
            }
        }
    }
    for (int i = 0; i < 4; i++) {
        net.host(i);
    }
    net.config.dimension_count = 2;
    net.config.dimensions[0] = {{2}, 1};
    net.config.dimensions[1] = {{1}, 1};
    net.route(MCSM_ENGINE_DOR);
    EXPECT_EQ(2, net.tables[0][1003]);
}

TEST(Route, UnreachableIsDropped)
{
    Net net(2);
    net.host(0);
    net.host(1);
    net.route(MCSM_ENGINE_MINHOP);
    EXPECT_EQ(MCSM_DROP, net.tables[0][1001]);
    EXPECT_EQ(MCSM_DROP, net.tables[0][5]);
}

TEST(Transit, EvenAndStable)
{
    bool alive[4] = {true, true, true, true};
    int count[4] = {};
    for (size_t n = 0; n < 1000; n++) {
        count[mcsm_transit_choice(n, alive, 4)]++;
    }
    for (int i = 0; i < 4; i++) {
        EXPECT_EQ(250, count[i]);
    }
    alive[1] = false;
    int moved[4] = {};
    for (size_t n = 0; n < 1200; n++) {
        int choice = mcsm_transit_choice(n, alive, 4);
        ASSERT_NE(1, choice);
        if (n % 4 != 1) {
            ASSERT_EQ((int)(n % 4), choice); /* who did not lose its port keeps it */
        } else {
            moved[choice]++;
        }
    }
    EXPECT_EQ(100, moved[0]);
    EXPECT_EQ(100, moved[2]);
    EXPECT_EQ(100, moved[3]);
    bool none[2] = {};
    EXPECT_EQ(-1, mcsm_transit_choice(3, none, 2));
}

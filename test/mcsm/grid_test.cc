/* Meshes, tori and hypercubes that are recognised from the links, and the lanes of their rings. */
#include <functional>
#include <memory>
#include <random>
#include <set>

#include "mcsm_test.h"

extern "C" {
#include "route/plan.h"
}

namespace
{

using Links = std::vector<std::pair<int, int>>;

/* Switches with a host at port 16 each. Ports are in a random order, so they tell no dimension. */
struct Fabric {
    Fabric(int switches, const Links &links, unsigned seed = 1, uint8_t ports_each = 16)
        : count(switches)
    {
        std::mt19937 draw(seed);
        std::vector<uint8_t> nports(count, ports_each);
        std::vector<std::vector<int>> ports(count);

        graph = mcsm_graph_new(count, nports.data());
        for (int i = 0; i < count; i++) {
            for (int p = 1; p < 16; p++) {
                ports[i].push_back(p);
            }
            std::shuffle(ports[i].begin(), ports[i].end(), draw);
            graph->sw[i].guid = 0x100 + i;
            graph->sw[i].hosts = 1;
            mcsm_graph_target(graph, i, 16, 1 + i, false);
        }
        for (auto [a, b] : links) {
            mcsm_graph_link(graph, a, ports[a].back(), b, ports[b].back());
            ports[a].pop_back();
            ports[b].pop_back();
        }
        tables.assign(count, std::vector<uint8_t>(count + 1));
        for (int i = 0; i < count; i++) {
            graph->sw[i].lft = tables[i].data();
        }
    }
    ~Fabric()
    {
        mcsm_tree_free(plan.tree);
        mcsm_graph_free(graph);
    }
    void route(int lanes, uint8_t multicast_sl = 0)
    {
        struct mcsm_config config = {};

        config.multicast_sl = multicast_sl;
        mcsm_tree_free(plan.tree);
        ASSERT_EQ(0, mcsm_plan_routes(graph, &config, MCSM_ENGINE_AUTO, lanes, &plan));
    }
    /* The channels (port number, lane) from one switch to another; empty: no way. */
    std::vector<int> way(int from, int to) const
    {
        std::vector<int> channels;
        int level = mcsm_lane(graph, from, to);

        for (int at = from; at != to;) {
            int port = tables[at][1 + to];
            if (port > 16 || graph->sw[at].ports[port].peer < 0 || (int)channels.size() > count) {
                return {};
            }
            int link = graph->sw[at].first_link + port;
            channels.push_back(link * 16 + mcsm_vl(graph, link, level));
            at = graph->sw[at].ports[port].peer;
        }
        return channels;
    }
    /* Searches for a circle of (port, lane), not by route/deps.c. Groups use lane 0. */
    bool has_circle() const
    {
        std::vector<std::set<int>> after(graph->links * 16);
        std::vector<int> waits(graph->links * 16), ready;
        int all = 0, sorted = 0;
        auto note = [&](int a, int b) { waits[b] += after[a].insert(b).second; };

        for (int a = 0; a < count; a++) {
            for (int b = 0; b < count; b++) {
                auto channels = way(a, b);
                for (size_t i = 1; i < channels.size(); i++) {
                    note(channels[i - 1], channels[i]);
                }
            }
        }
        std::vector<std::set<int>> in_tree(count);
        for (int i = 1; i < plan.tree->reached; i++) {
            int at = plan.tree->order[i];
            in_tree[at].insert(plan.tree->up[at]);
            in_tree[plan.tree->parent[at]].insert(plan.tree->down[at]);
        }
        for (int i = 0; i < count; i++) {
            for (int in : in_tree[i]) {
                for (int out : in_tree[i]) {
                    const struct mcsm_gport &port = graph->sw[i].ports[in];
                    if (in != out) {
                        note((graph->sw[port.peer].first_link + port.peer_port) * 16,
                             (graph->sw[i].first_link + out) * 16);
                    }
                }
            }
        }
        for (size_t i = 0; i < after.size(); i++) {
            all++;
            if (waits[i] == 0) {
                ready.push_back(i);
            }
        }
        while (!ready.empty()) {
            int at = ready.back();
            ready.pop_back();
            sorted++;
            for (int b : after[at]) {
                if (--waits[b] == 0) {
                    ready.push_back(b);
                }
            }
        }
        return sorted < all;
    }
    uint64_t highest_load() const
    {
        std::vector<uint64_t> load(graph->links * 16);
        uint64_t most = 0;
        for (int a = 0; a < count; a++) {
            for (int b = 0; b < count; b++) {
                for (int channel : way(a, b)) {
                    most = std::max(most, ++load[channel / 16]);
                }
            }
        }
        return most;
    }
    void expect_all_pairs()
    {
        for (int a = 0; a < count; a++) {
            for (int b = 0; b < count; b++) {
                ASSERT_EQ(a == b, way(a, b).empty()) << a << " " << b;
                ASSERT_EQ(mcsm_lane(graph, a, b), mcsm_lane(graph, b, a)) << a << " " << b;
            }
        }
    }
    int count;
    struct mcsm_graph *graph;
    struct mcsm_plan plan = {};
    std::vector<std::vector<uint8_t>> tables;
};

/* The links of a torus; of a mesh if `closed` is false. */
Links grid(const std::vector<int> &size, bool closed = true)
{
    Links links;
    int count = 1, step = 1;

    for (int n : size) {
        count *= n;
    }
    for (int n : size) {
        for (int i = 0; i < count; i++) {
            int at = i / step % n;
            if (at + 1 < n) {
                links.push_back({i, i + step});
            } else if (closed && n > 2) {
                links.push_back({i, i - at * step});
            }
        }
        step *= n;
    }
    return links;
}

int product(const std::vector<int> &size)
{
    int count = 1;
    for (int n : size) {
        count *= n;
    }
    return count;
}

} // namespace

/* Whole grids: shortest ways, one lane without rings, two lanes with rings. A ring of four counts as
 * two lines. */
TEST(Grid, WholeGrids)
{
    struct {
        std::vector<int> size;
        bool closed;
        int lanes;
    } grids[] = {{{5, 5}, true, 2},    {{6, 6}, true, 2},    {{3, 3, 3}, true, 2},
                 {{4, 4, 4}, true, 1}, {{5, 6, 3}, true, 2}, {{4, 6, 5}, true, 2},
                 {{7}, true, 2},       {{6, 3}, false, 1},   {{2, 2, 2, 2, 2}, false, 1},
                 {{2, 3, 5}, true, 2}, {{10, 8}, true, 2}};
    for (const auto &shape : grids) {
        Fabric fabric(product(shape.size), grid(shape.size, shape.closed));
        std::string name;
        for (int n : shape.size) {
            name += std::to_string(n) + (shape.closed ? " " : "- ");
        }
        fabric.route(2);
        ASSERT_NE(nullptr, fabric.graph->grid) << name;
        EXPECT_EQ(MCSM_ENGINE_TORUS, fabric.plan.engine) << name;
        EXPECT_EQ(shape.lanes, fabric.graph->lanes) << name;
        fabric.expect_all_pairs();
        EXPECT_EQ(0, mcsm_plan_find_loop(fabric.graph, fabric.plan.tree, nullptr, 0)) << name;
        EXPECT_FALSE(fabric.has_circle()) << name;
        std::vector<int> distance(fabric.count), queue(fabric.count);
        for (int to = 0; to < fabric.count; to++) {
            mcsm_distances(fabric.graph, to, distance.data(), queue.data());
            for (int from = 0; from < fabric.count; from++) {
                ASSERT_EQ(distance[from], (int)fabric.way(from, to).size()) << name;
            }
        }
    }
}

/* A ring of ten: five of the pairs are opposite, and their packets are divided among both halves. */
TEST(Grid, RingsAreBalanced)
{
    Fabric fabric(100, grid({10, 10}));
    fabric.route(2);
    EXPECT_EQ(2, fabric.graph->lanes);
    EXPECT_LE(fabric.highest_load(), 130u) << "150 if all opposite pairs go one way";
}

/* Without its lanes, the same routes have a circle: the search sees it. */
TEST(Grid, LanesPreventCircles)
{
    Fabric fabric(36, grid({6, 6}));
    fabric.route(2);
    ASSERT_FALSE(fabric.has_circle());
    memset(fabric.graph->lane, 0, 36 * 36);
    EXPECT_TRUE(fabric.has_circle());
    EXPECT_LT(0, mcsm_plan_find_loop(fabric.graph, fabric.plan.tree, nullptr, 0));
}

/* Links and switches fail. Every pair that is connected has a way, and there is no circle. */
TEST(Grid, Faults)
{
    const std::vector<std::vector<int>> sizes = {{5, 5},    {6, 6}, {5, 5, 5},
                                                 {4, 6, 5}, {3, 7}, {8, 8}};
    int torus = 0, three_lanes = 0, others = 0, count = 60;

    mcsm_log_set_level(MCSM_LOG_ERROR);
    for (int seed = 0; seed < count; seed++) {
        std::mt19937 draw(seed);
        const auto &size = sizes[seed % sizes.size()];
        Links links = grid(size);
        std::shuffle(links.begin(), links.end(), draw);
        int last = product(size) - 1, dead = seed % 3 == 2 ? (int)(draw() % (last + 1)) : -1;
        if (dead < 0) {
            links.resize(links.size() - 1 - seed % 2);
        }
        Links left;
        for (auto [a, b] : links) {
            if (a != dead && b != dead) {
                left.push_back({a, b});
            }
        }
        /* The last switch takes the number of the dead one. */
        if (dead >= 0) {
            for (auto &[a, b] : left) {
                a = a == last ? dead : a;
                b = b == last ? dead : b;
            }
        }
        Fabric fabric(product(size) - (dead >= 0), left, seed);
        fabric.route(8);
        fabric.expect_all_pairs();
        EXPECT_EQ(0, mcsm_plan_find_loop(fabric.graph, fabric.plan.tree, nullptr, 0)) << seed;
        EXPECT_FALSE(fabric.has_circle()) << seed;
        EXPECT_LE(fabric.graph->lanes, 8);
        torus += fabric.graph->grid != nullptr;
        if (fabric.graph->grid != nullptr && fabric.graph->lanes > 2) {
            three_lanes++;
            /* Groups with level 8 leave no level for the third lane of a grid. Without groups, two
             * lanes may suffice. */
            fabric.route(15, 8);
            EXPECT_TRUE(fabric.graph->grid == nullptr || fabric.graph->lanes == 2) << seed;
            others += fabric.graph->grid == nullptr;
            fabric.expect_all_pairs();
            EXPECT_EQ(0, mcsm_plan_find_loop(fabric.graph, nullptr, nullptr, 0)) << seed;
        }
    }
    printf("%d of %d tori with faults are recognised, %d of them need more than two lanes\n", torus,
           count, three_lanes);
    EXPECT_LE(count * 8 / 10, torus);
    EXPECT_LT(0, others);
}

/* The search for circles gives each lane of a link a port number. 128 ports have no numbers for two
 * lanes, so these rings are routed as other fabrics. */
TEST(Grid, ManyPorts)
{
    for (int ports : {127, 128, 254}) {
        Fabric fabric(5, grid({5}), 1, ports);
        fabric.route(8);
        EXPECT_EQ(ports < 128, fabric.graph->grid != nullptr) << ports;
        EXPECT_EQ(2, fabric.graph->lanes) << ports;
        fabric.expect_all_pairs();
        EXPECT_EQ(0, mcsm_plan_find_loop(fabric.graph, fabric.plan.tree, nullptr, 0)) << ports;
    }
}

/* mcsm-check may read a dump without the `rings` row of some switch. Levels then select lanes there
 * that the search over two lanes does not have. */
TEST(Grid, PortsWithoutRings)
{
    Fabric fabric(27, grid({3, 3, 3}));
    fabric.route(2);
    ASSERT_EQ(2, fabric.graph->lanes);
    for (int i = 13; i < 27; i++) {
        memset(fabric.graph->ring + fabric.graph->sw[i].first_link, 0, 17);
    }
    EXPECT_LE(0, mcsm_plan_find_loop(fabric.graph, fabric.plan.tree, nullptr, 0));
}

/* Graphs that only look like grids somewhere. */
TEST(Grid, OthersAreNone)
{
    for (int seed = 0; seed < 50; seed++) {
        std::mt19937 draw(seed);
        Links links;
        std::set<std::pair<int, int>> known;
        int count = 5 + draw() % 30;
        for (int i = 1; i < count; i++) {
            int other = draw() % i;
            known.insert({other, i});
        }
        for (int i = 0; i < count; i++) {
            int a = draw() % count, b = draw() % count;
            if (a != b) {
                known.insert({std::min(a, b), std::max(a, b)});
            }
        }
        links.assign(known.begin(), known.end());
        Fabric fabric(count, links, seed);
        fabric.route(15);
        fabric.expect_all_pairs();
        EXPECT_FALSE(fabric.has_circle()) << seed;
    }
    /* A fat tree of two leaves and two tops is a ring of four; its leaves use both tops. */
    Fabric tree(4, {{0, 2}, {0, 3}, {1, 2}, {1, 3}});
    tree.graph->sw[2].hosts = tree.graph->sw[3].hosts = 0;
    tree.route(8);
    EXPECT_EQ(MCSM_ENGINE_LASH, tree.plan.engine);
    EXPECT_EQ(1, tree.graph->lanes);
}

/* Lanes inside of a cluster, and the contract by border port over several clusters. */
#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <random>
#include <set>

#include <unistd.h>

#include "mcsm_test.h"

extern "C" {
#include "check/model.h"
#include "route/contract.h"
#include "route/deps.h"
#include "route/lanes.h"
}

namespace
{

/* Switches with up to 32 ports and one host each, whose LID is 1 + its index. */
struct Switches {
    explicit Switches(int switches) : count(switches), next(switches, 1)
    {
        std::vector<uint8_t> nports(count, 48);
        graph = mcsm_graph_new(count, nports.data());
        for (int i = 0; i < count; i++) {
            graph->sw[i].guid = 0x100 + i;
        }
    }
    ~Switches()
    {
        mcsm_graph_free(graph);
        mcsm_tree_free(tree);
    }
    void link_at(int a, int a_port, int b, int b_port)
    {
        mcsm_graph_link(graph, a, a_port, b, b_port);
    }
    void link(int a, int b)
    {
        mcsm_graph_link(graph, a, next[a], b, next[b]);
        next[a]++;
        next[b]++;
    }
    void hosts()
    {
        for (int i = 0; i < count; i++) {
            graph->sw[i].hosts = 1;
            mcsm_graph_target(graph, i, 48, 1 + i, false);
        }
    }
    void route(enum mcsm_engine engine)
    {
        tables.assign(count, std::vector<uint8_t>(graph->lid_top + 1));
        for (int i = 0; i < count; i++) {
            graph->sw[i].lft = tables[i].data();
        }
        struct mcsm_config config = {};
        config.dimension_count = 3;
        for (int d = 0; d < 3; d++) {
            config.dimensions[d] = {{(uint8_t)(2 * d + 1), (uint8_t)(2 * d + 2)}, 2};
        }
        ASSERT_EQ(0, mcsm_route_by(graph, &config, engine));
        mcsm_tree_free(tree);
        tree = mcsm_tree_new(graph, engine == MCSM_ENGINE_UPDN);
    }
    int loop(bool with_tree)
    {
        int found = 0;
        for (int lane = 0; lane < graph->lanes && !found; lane++) {
            struct mcsm_deps *deps = mcsm_deps_new(graph);
            mcsm_deps_note_unicast(deps, lane);
            if (lane == 0 && with_tree) {
                mcsm_lanes_note_tree(deps, graph, tree);
            }
            found = mcsm_deps_circle(deps, nullptr, 0);
            mcsm_deps_free(deps);
        }
        return found;
    }
    int count;
    std::vector<int> next;
    struct mcsm_graph *graph;
    struct mcsm_tree *tree = nullptr;
    std::vector<std::vector<uint8_t>> tables;
};

std::unique_ptr<Switches> torus(std::vector<int> size)
{
    int count = 1;
    for (int n : size) {
        count *= n;
    }
    auto fabric = std::make_unique<Switches>(count);
    for (int i = 0; i < count; i++) {
        for (size_t d = 0, step = 1; d < size.size(); step *= size[d++]) {
            fabric->link_at(i, 2 * d + 1,
                            i - i / (int)step % size[d] * step + (i / step + 1) % size[d] * step,
                            2 * d + 2);
        }
    }
    fabric->hosts();
    return fabric;
}

void random_links(Switches &fabric, std::mt19937 &draw)
{
    for (int i = 1; i < fabric.count; i++) {
        fabric.link(i, draw() % i);
    }
    for (int i = 0; i < fabric.count; i++) {
        if (int a = draw() % fabric.count, b = draw() % fabric.count; a != b) {
            fabric.link(a, b);
        }
    }
}

} // namespace

/* The order of the channels against a search from scratch, on random dependencies. */
TEST(Deps, AddRefusesExactlyTheCircles)
{
    for (unsigned seed = 0; seed < 50; seed++) {
        std::mt19937 draw(seed);
        Switches fabric(2 + draw() % 8);
        random_links(fabric, draw);
        struct mcsm_deps *added = mcsm_deps_new(fabric.graph);
        std::set<std::pair<int, int>> edges;
        for (int i = 0; i < 400; i++) {
            int sw = draw() % fabric.count, in = 1 + draw() % (fabric.next[sw] - 1),
                out = 1 + draw() % (fabric.next[sw] - 1);
            const struct mcsm_gport &port = fabric.graph->sw[sw].ports[in];
            if (in == out) {
                continue;
            }
            int from = fabric.graph->sw[port.peer].first_link + port.peer_port;
            int to = fabric.graph->sw[sw].first_link + out;
            edges.insert({from, to});
            struct mcsm_deps *all = mcsm_deps_new(fabric.graph);
            for (auto [a, b] : edges) {
                mcsm_deps_note(all, a, b);
            }
            bool circle = mcsm_deps_circle(all, nullptr, 0) > 0;
            mcsm_deps_free(all);
            size_t mark = mcsm_deps_mark(added), after;
            ASSERT_EQ(!circle, mcsm_deps_add(added, from, to)) << "seed " << seed;
            after = mcsm_deps_mark(added);
            if (circle) {
                edges.erase({from, to});
            } else if (draw() % 4 == 0) {
                mcsm_deps_undo(added, mark);
                if (after > mark) {
                    edges.erase({from, to});
                }
                for (auto [a, b] : edges) {
                    ASSERT_TRUE(mcsm_deps_add(added, a, b));
                }
            }
        }
        ASSERT_EQ(0, mcsm_deps_circle(added, nullptr, 0));
        mcsm_deps_free(added);
    }
}

/* Groups that turn where unicast does not: no circle by itself, but one with both together. The
 * tree along the order of Up/Down has none, whatever the root. */
TEST(Deps, GroupsAndUnicastTogether)
{
    int circles = 0;
    for (int root = 0; root < 4; root++) {
        Switches ring(4);
        for (int i = 0; i < 4; i++) {
            ring.link(i, (i + 1) % 4);
        }
        ring.hosts();
        ring.graph->sw[root].border = true;
        ring.route(MCSM_ENGINE_UPDN);
        EXPECT_EQ(0, ring.loop(true)) << root;
        mcsm_tree_free(ring.tree);
        ring.tree = mcsm_tree_new(ring.graph, false); /* from the centre */
        circles += ring.loop(true) > 0;
        EXPECT_EQ(0, ring.loop(false));
    }
    EXPECT_LT(0, circles) << "the finding that the check has to see";
}

TEST(Lash, Rings)
{
    for (int n = 4; n < 12; n++) {
        auto ring = torus({n});
        ring->route(MCSM_ENGINE_LASH);
        bool circle = ring->loop(false) > 0;
        int lanes = mcsm_lanes_assign(ring->graph, nullptr, MCSM_MAX_LANES);
        EXPECT_EQ(circle, lanes > 1) << n;
        EXPECT_LE(lanes, 3) << n;
        EXPECT_EQ(0, ring->loop(false));
    }
}

TEST(Lash, NoCircleOnAnyFabric)
{
    int most = 0;
    for (unsigned seed = 0; seed < 200; seed++) {
        std::mt19937 draw(seed);
        Switches fabric(2 + draw() % 40);
        random_links(fabric, draw);
        fabric.hosts();
        fabric.route(MCSM_ENGINE_LASH);
        int lanes = mcsm_lanes_assign(fabric.graph, fabric.tree, MCSM_MAX_LANES);
        ASSERT_GE(lanes, 1);
        ASSERT_LE(lanes, MCSM_MAX_LANES);
        ASSERT_EQ(0, fabric.loop(true)) << "seed " << seed;
        most = std::max(most, lanes);
        for (int a = 0; a < fabric.count; a++) {
            for (int b = 0; b < fabric.count; b++) {
                ASSERT_EQ(mcsm_lane(fabric.graph, a, b), mcsm_lane(fabric.graph, b, a));
            }
        }
    }
    EXPECT_LE(most, 8);
}

TEST(Lash, Tori)
{
    for (auto size : std::vector<std::vector<int>>{{5, 5}, {4, 4, 4}, {6, 6}, {8, 8}, {5, 5, 5}}) {
        auto fabric = torus(size);
        fabric->route(MCSM_ENGINE_LASH);
        int lanes = mcsm_lanes_assign(fabric->graph, fabric->tree, MCSM_MAX_LANES);
        EXPECT_GE(lanes, 2);
        EXPECT_LE(lanes, MCSM_MAX_LANES + 1);
        if (lanes <= MCSM_MAX_LANES) {
            EXPECT_EQ(0, fabric->loop(true));
        }
        /* The order of dimensions needs few lanes. */
        fabric->route(MCSM_ENGINE_TORUS);
        int ordered = mcsm_lanes_assign(fabric->graph, fabric->tree, MCSM_MAX_LANES);
        printf("torus of %zu dimensions, %d switches: lash %d lanes, torus %d\n", size.size(),
               fabric->count, lanes, ordered);
        EXPECT_LE(ordered, 8);
        EXPECT_EQ(0, fabric->loop(true));
    }
}

/* ---- over several clusters ---- */

namespace
{

struct Cable {
    int a, b; /* switches of the whole fabric */
    int cluster_a, cluster_b;
    uint8_t port_a, port_b;
    bool up = true, joint = false;
};

/* Where the groups' packets are: on a lane of their own, or on lane 0 with all other packets. */
enum Groups { SEPARATE, SHARED };

/* Clusters of random switches, joined by cables; routes and the tree of groups as the managers make
 * them, each by itself. */
class Clusters
{
  public:
    Clusters(unsigned seed, bool tree, Groups lane_of_groups = SEPARATE)
        : draw(seed), rng_tree(tree), beside(seed % 4 == 3), groups(lane_of_groups)
    {
        count = 3 + draw() % 6;
        for (int c = 0; c < count; c++) {
            first.push_back(total);
            size.push_back(1 + draw() % 6);
            total += size[c];
        }
        whole = std::make_unique<Switches>(total);
        for (int c = 0; c < count; c++) {
            for (int i = 1; i < size[c]; i++) {
                whole->link(first[c] + i, first[c] + draw() % i);
            }
            for (int i = 0; i < size[c]; i++) {
                if (int a = draw() % size[c], b = draw() % size[c]; a != b) {
                    whole->link(first[c] + a, first[c] + b);
                }
            }
        }
        for (int c = 1; c < count; c++) {
            connect(draw() % c, c, 1 + draw() % 3);
        }
        for (int i = 0; !tree && i < count; i++) {
            if (int a = draw() % count, b = draw() % count; a != b) {
                connect(std::min(a, b), std::max(a, b), 1 + draw() % 2);
            }
        }
        whole->hosts();
        for (auto &cable : cables) {
            mcsm_graph_link(whole->graph, cable.a, cable.port_a, cable.b, cable.port_b);
        }
        whole->tables.assign(total, std::vector<uint8_t>(total + 1, MCSM_DROP));
        for (int i = 0; i < total; i++) {
            whole->graph->sw[i].lft = whole->tables[i].data();
        }
        mft.resize(total);
        dumps.resize(count);
        excess.resize(count);
        find_ways();
    }
    void connect(int a, int b, int n)
    {
        for (int i = 0; i < n; i++) {
            int sa = first[a] + draw() % size[a], sb = first[b] + draw() % size[b];
            cables.push_back(
                {sa, sb, a, b, (uint8_t)whole->next[sa]++, (uint8_t)whole->next[sb]++});
        }
    }
    int cluster_of(int sw) const
    {
        int c = 0;
        while (c + 1 < count && first[c + 1] <= sw) {
            c++;
        }
        return c;
    }
    /* next[c][d]: the cluster after c on the way to d, along a tree of clusters. One cable of each
     * branch of this tree is a joint. */
    void find_ways()
    {
        std::vector<int> parent(count, -1), order = {0};
        std::vector<bool> seen(count);
        seen[0] = true;
        for (size_t i = 0; i < order.size(); i++) {
            for (auto &cable : cables) {
                for (auto [here, there] : {std::pair(cable.cluster_a, cable.cluster_b),
                                           std::pair(cable.cluster_b, cable.cluster_a)}) {
                    if (here == order[i] && !seen[there]) {
                        seen[there] = true;
                        cable.joint = true;
                        parent[there] = here;
                        order.push_back(there);
                    }
                }
            }
        }
        next.assign(count, std::vector<int>(count, -1));
        for (int c = 0; c < count; c++) {
            for (int d = 0; d < count; d++) {
                if (c == d) {
                    continue;
                }
                /* Up to the root of the tree of clusters, or down towards d. */
                int at = d;
                while (at >= 0 && parent[at] != c) {
                    at = parent[at];
                }
                next[c][d] = at >= 0 ? at : parent[c];
            }
        }
        for (auto &cable : cables) {
            if (beside) {
                next[cable.cluster_a][cable.cluster_b] = cable.cluster_b;
                next[cable.cluster_b][cable.cluster_a] = cable.cluster_a;
            }
        }
    }
    /* As mcsm_config_allows() does it: cluster 0 is the top. */
    bool is_below(int c, int x) const
    {
        return c == 0 || (x != 0 && next[x][0] == c);
    }
    bool in_order(int c, int from, int to) const
    {
        return is_below(c, from) || is_below(c, to) ||
               (from == to && next[c][0] != from && c < from);
    }
    /* What the manager of a cluster does with what it sees now. */
    void manage(int c)
    {
        Switches own(size[c]);
        int base = first[c];
        std::vector<struct mcsm_gate> gates;
        for (int i = 0; i < size[c]; i++) {
            for (int p = 1; p <= 48; p++) {
                const struct mcsm_gport &port = whole->graph->sw[base + i].ports[p];
                if (port.peer >= 0 && cluster_of(port.peer) == c && port.peer - base > i) {
                    mcsm_graph_link(own.graph, i, p, port.peer - base, port.peer_port);
                }
            }
        }
        for (int i = 0; i < size[c]; i++) {
            own.graph->sw[i].guid = 0x100 + base + i;
            own.graph->sw[i].hosts = 1;
            mcsm_graph_target(own.graph, i, 48, 1 + base + i, false);
        }
        for (auto &cable : cables) {
            for (auto [sw, port, here, there] :
                 {std::tuple(cable.a, cable.port_a, cable.cluster_a, cable.cluster_b),
                  std::tuple(cable.b, cable.port_b, cable.cluster_b, cable.cluster_a)}) {
                if (here == c && cable.up) {
                    bool routed = next[c][there] == there;
                    gates.push_back({sw - base, port, (uint8_t)there, routed, cable.joint, routed});
                    own.graph->sw[sw - base].border |= routed;
                    own.graph->sw[sw - base].strict |= routed && !in_order(c, there, there);
                }
            }
        }
        std::vector<int> via(total + 1, -1), cluster(total + 1, -1);
        for (int sw = 0; sw < total; sw++) {
            int d = cluster_of(sw), lid = 1 + sw;
            if (d == c) {
                continue;
            }
            std::vector<size_t> exits;
            for (size_t g = 0; g < gates.size(); g++) {
                if (gates[g].neighbour == next[c][d]) {
                    exits.push_back(g);
                }
            }
            cluster[lid] = d;
            via[lid] = next[c][d];
            if (!exits.empty()) {
                const struct mcsm_gate &gate = gates[exits[lid % exits.size()]];
                mcsm_graph_target(own.graph, gate.sw, gate.port, lid, true);
            }
        }
        own.graph->lid_top = total;
        own.route(MCSM_ENGINE_UPDN);
        size_t n = gates.size();
        auto allowed = std::make_unique<bool[]>(n * n + 1);
        auto enters = std::make_unique<bool[]>(count * count);
        for (int x = 0; x < count; x++) {
            for (int y = 0; y < count; y++) { /* packets from x for y come in here */
                enters[x * count + y] =
                    x != c && y != c && x != y && next[x][y] == c && next[c][y] != x;
            }
        }
        for (size_t e = 0; e < n; e++) {
            for (size_t f = 0; f < n; f++) {
                allowed[e * n + f] =
                    in_order(c, gates[e].neighbour, gates[f].neighbour) ||
                    (groups == SHARED && e != f && gates[e].joint && gates[f].joint);
                for (int y = 0; y < count; y++) {
                    if (y != c && enters[gates[e].neighbour * count + y] &&
                        next[c][y] == gates[f].neighbour &&
                        gates[e].neighbour != gates[f].neighbour) {
                        allowed[e * n + f] = true;
                    }
                }
            }
        }
        struct mcsm_contract contract = {};
        contract.gates = gates.data();
        contract.count = n;
        contract.via = via.data();
        contract.cluster = cluster.data();
        contract.allowed = allowed.get();
        contract.enters = enters.get();
        contract.clusters = count;
        contract.tree = groups == SHARED ? own.tree : nullptr;
        auto closed = std::make_unique<bool[]>(n + 1);
        contract.closed = closed.get();
        struct mcsm_contract_result result;
        ASSERT_EQ(0, mcsm_contract_keep(own.graph, &contract, &result));
        left_out += result.left_out;
        closed_joints += result.closed;
        replaced += result.broken;
        auto matrix = std::make_unique<bool[]>(n * n + 1);
        ASSERT_EQ(0, mcsm_contract_matrix(own.graph, &contract, matrix.get()));
        excess[c] = 0;
        for (size_t i = 0; i < n * n; i++) {
            excess[c] += matrix[i] && !allowed[i];
        }
        ASSERT_EQ(0, excess[c]) << "the contract is exceeded";
        ASSERT_EQ(0, own.loop(groups == SHARED));
        cut_tree(c, own, gates, closed.get());
        for (int i = 0; i < size[c]; i++) {
            whole->tables[base + i] = own.tables[i];
        }
        for (int i = 0; i < total; i++) {
            whole->graph->sw[i].lft = whole->tables[i].data();
        }
    }
    /* The tables of a group with all hosts as members. Smaller groups use a part of them. */
    void cut_tree(int c, const Switches &own, const std::vector<struct mcsm_gate> &gates,
                  const bool *closed)
    {
        std::vector<struct mcsm_leaf> leaves;
        std::vector<std::array<uint64_t, 4>> ports(size[c]);
        for (int i = 0; i < size[c]; i++) {
            leaves.push_back({i, 48});
        }
        for (size_t g = 0; g < gates.size(); g++) {
            if (gates[g].joint) {
                leaves.push_back({gates[g].sw, closed[g] ? (uint8_t)MCSM_NO_PORT : gates[g].port});
            }
        }
        mcsm_tree_cut(own.tree, leaves.data(), leaves.size(), (uint64_t(*)[4])ports.data());
        std::copy(ports.begin(), ports.end(), mft.begin() + first[c]);
        dumps[c] = dump(c, own);
    }
    /* What mcsm-ctl dump fabric writes. */
    std::string dump(int c, const Switches &own) const
    {
        std::string text = "mcsm-dump 1\ncluster c" + std::to_string(c) + " 1 1\n";
        text += groups == SHARED ? "" : "multicast-sl 7\n";
        for (int i = 0; i < size[c]; i++) {
            int sw = first[c] + i;
            text += "node switch " + hex(sw) + " 48 \"s" + std::to_string(sw) + "\"\n";
            text += "node ca " + hex(0x1000 + sw) + " 1 \"h" + std::to_string(sw) + "\"\n";
            text += "lid " + hex(0x1000 + sw) + " 1 " + hex(0x1000 + sw) + " " +
                    std::to_string(1 + sw) + "\nlink " + hex(sw) + " 48 " + hex(0x1000 + sw) +
                    " 1\n";
        }
        for (int i = 0; i < size[c]; i++) {
            int sw = first[c] + i;
            for (int p = 1; p < 48; p++) {
                const struct mcsm_gport &port = own.graph->sw[i].ports[p];
                if (port.peer > i) {
                    text += "link " + hex(sw) + " " + std::to_string(p) + " " +
                            hex(first[c] + port.peer) + " " + std::to_string(port.peer_port) + "\n";
                }
            }
            text += "lft " + hex(sw);
            for (int lid = 1; lid <= total; lid++) {
                if (own.tables[i][lid] != MCSM_DROP) {
                    text += " " + std::to_string(lid) + "-" + std::to_string(lid) + ":" +
                            std::to_string(own.tables[i][lid]);
                }
            }
            text += "\nmft " + hex(sw) + " 49152";
            for (int p = 0; p <= 48; p++) {
                text += mft[sw][p / 64] >> p % 64 & 1 ? " " + std::to_string(p) : "";
            }
            text += "\n";
        }
        for (auto &cable : cables) {
            for (auto [sw, port, here, peer, peer_port, there] :
                 {std::tuple(cable.a, cable.port_a, cable.cluster_a, cable.b, cable.port_b,
                             cable.cluster_b),
                  std::tuple(cable.b, cable.port_b, cable.cluster_b, cable.a, cable.port_a,
                             cable.cluster_a)}) {
                if (here == c && cable.up) {
                    text += "border " + hex(sw) + " " + std::to_string(port) + " c" +
                            std::to_string(there) + " " + hex(peer) + " " +
                            std::to_string(peer_port) + " transit\n";
                }
            }
        }
        return text + "end\n";
    }
    static std::string hex(int number)
    {
        char text[16];
        snprintf(text, sizeof(text), "0x%x", 0x100 + number);
        return text;
    }
    /* What mcsm-check finds in the dumps of all clusters. */
    struct check_report check() const
    {
        struct check_model model = {};
        struct check_report report = {};
        for (auto &text : dumps) {
            TemporaryFile file(text);
            EXPECT_EQ(0, check_read(&model, file.path.c_str()));
        }
        EXPECT_EQ(0, check_connect(&model));
        EXPECT_EQ(0, check_verify(&model, &report, nullptr));
        check_free(&model);
        return report;
    }
    /* The length of a circle in the whole fabric. */
    int loop() const
    {
        auto note = [](struct mcsm_deps *deps, const void *arg) {
            auto clusters = (const Clusters *)arg;
            for (int i = 0; i < clusters->total; i++) {
                mcsm_deps_note_multicast(deps, i, clusters->mft[i].data());
            }
            return 0;
        };
        return mcsm_deps_search(whole->graph, note, this, groups == SEPARATE, nullptr, 0);
    }
    /* Pairs of switches that a packet gets through between, of all. */
    std::pair<int, int> reachable() const
    {
        int good = 0, all = 0;
        for (int from = 0; from < total; from++) {
            for (int to = 0; to < total; to++) {
                int at = from, steps = 0;
                while (at >= 0 && at != to && steps++ < 4 * total) {
                    uint8_t port = whole->tables[at][1 + to];
                    at = port == 0 || port > 48 ? -1 : whole->graph->sw[at].ports[port].peer;
                }
                good += at == to;
                all++;
            }
        }
        return {good, all};
    }
    void set_cable(Cable &cable, bool up)
    {
        cable.up = up;
        if (up) {
            mcsm_graph_link(whole->graph, cable.a, cable.port_a, cable.b, cable.port_b);
        } else {
            whole->graph->sw[cable.a].ports[cable.port_a].peer = -1;
            whole->graph->sw[cable.b].ports[cable.port_b].peer = -1;
        }
    }
    std::mt19937 draw;
    bool rng_tree;
    bool beside; /* cables beside the tree of clusters have routes */
    Groups groups;
    int count, total = 0;
    unsigned left_out = 0, replaced = 0, closed_joints = 0;
    std::vector<int> first, size;
    std::vector<Cable> cables;
    std::vector<std::vector<int>> next;
    std::unique_ptr<Switches> whole;
    std::vector<std::array<uint64_t, 4>> mft; /* of a group, in each switch */
    std::vector<std::string> dumps;           /* of each cluster, by its last manage() */
    std::vector<int> excess; /* of each cluster: pairs of border ports beyond the contract */
};

/* What the 200 fabrics had together. */
struct Sum {
    int64_t good = 0, all = 0,
            replaced = 0;        /* pairs that are reached without faults, all pairs, sweeps */
    int circles = 0, closed = 0; /* fabrics with a circle; closed joints of all sweeps */
};

/* Searches a fabric for circles while the managers work one after the other, when all managers are done,
 * and after faults. A fabric has no circle while each cluster is within its contract. */
void no_circle(unsigned seed, Groups groups, Sum &sum)
{
    Clusters fabric(seed, seed % 2 == 0, groups);
    bool circle = false;
    auto judge = [&] {
        circle |= fabric.loop() > 0;
        return !circle;
    };
    auto judge_dumps = [&] {
        struct check_report report = fabric.check();
        EXPECT_EQ(fabric.loop(), report.credit_loop) << "seed " << seed;
        EXPECT_EQ(0u, report.loops + report.multicast_loops) << "seed " << seed;
        return report;
    };
    for (int c = 0; c < fabric.count; c++) {
        fabric.manage(c);
        ASSERT_TRUE(judge()) << "seed " << seed;
    }
    auto [reached, pairs] = fabric.reachable();
    struct check_report report = judge_dumps();
    EXPECT_EQ((uint64_t)reached - fabric.total, report.reachable) << "no host sends to itself";
    EXPECT_TRUE(report.multicast_cut == 0 || fabric.closed_joints > 0) << "seed " << seed;
    for (int fault = 0; fault < 6; fault++) {
        Cable &cable = fabric.cables[fabric.draw() % fabric.cables.size()];
        fabric.set_cable(cable, !cable.up);
        ASSERT_TRUE(judge()) << "after a fault, seed " << seed;
        for (int c : {cable.cluster_b, cable.cluster_a}) {
            fabric.manage(c);
            ASSERT_TRUE(judge()) << "seed " << seed;
        }
    }
    judge_dumps();
    sum.good += reached;
    sum.all += pairs;
    sum.replaced += fabric.replaced;
    sum.circles += circle;
    sum.closed += fabric.closed_joints;
}

Sum random_fabrics(Groups groups)
{
    Sum sum;
    for (unsigned seed = 0; seed < 200 && !testing::Test::HasFailure(); seed++) {
        no_circle(seed, groups, sum);
    }
    printf("%ld of %ld pairs reached, routes of %ld sweeps were replaced, %d joints were closed, "
           "%d fabrics with a circle\n",
           sum.good, sum.all, sum.replaced, sum.closed, sum.circles);
    return sum;
}

} // namespace

/* 200 fabrics of 3 to 8 clusters with transit along a tree of clusters. Groups have their own lane. */
TEST(Contract, NoCircleOverRandomClusters)
{
    Sum sum = random_fabrics(SEPARATE);
    EXPECT_EQ(0, sum.circles);
    EXPECT_EQ(0, sum.closed);
    EXPECT_GT(sum.good * 100, sum.all * 95);
}

/* The same with the packets of groups on lane 0: joints are closed where groups exceed the contract. */
TEST(Contract, GroupsOnLane0)
{
    Sum sum = random_fabrics(SHARED);
    EXPECT_EQ(0, sum.circles);
    EXPECT_GT(sum.closed, 0) << "the test has not seen the case";
    EXPECT_GT(sum.good * 100, sum.all * 95);
}

/* A border switch without a route to another switch is hidden, not lost: only the switch where the packet
 * comes in, only for LIDs of switches, and only an entry that is missing. */
TEST(Check, HidesSwitchesBehindTheirBorderOnly)
{
    auto judge = [](const std::string &of_a0, const std::string &of_b0) {
        const std::string a = "mcsm-dump 1\ncluster a 1 9\nnode switch 0x1 8 \"a0\"\n"
                              "node ca 0x11 1 \"h\"\nlid 0x11 1 0x11 1\nlink 0x1 1 0x11 1\n"
                              "border 0x1 3 b 0x2 3 transit\nlft 0x1 1-1:1 " +
                              of_a0 + "\nend\n";
        const std::string b = "mcsm-dump 1\ncluster b 20 29\nnode switch 0x2 8 \"b0\"\n"
                              "node switch 0x3 8 \"b1\"\nnode ca 0x21 1 \"h\"\nlid 0x2 0 0x2 20\n"
                              "lid 0x3 0 0x3 21\nlid 0x21 1 0x21 22\nlink 0x2 1 0x3 1\n"
                              "link 0x3 2 0x21 1\nborder 0x2 3 a 0x1 3 transit\n"
                              "lft 0x3 1-1:1 20-20:1 21-21:0 22-22:2\nlft 0x2 1-1:3 20-20:0 " +
                              of_b0 + "\nend\n";
        struct check_model model = {};
        struct check_report report = {};
        TemporaryFile files[] = {TemporaryFile(a), TemporaryFile(b)};
        for (auto &file : files) {
            EXPECT_EQ(0, check_read(&model, file.path.c_str()));
        }
        EXPECT_EQ(0, check_connect(&model));
        EXPECT_EQ(0, check_verify(&model, &report, nullptr));
        check_free(&model);
        return std::pair(report.hidden, report.lost);
    };
    using Found = std::pair<uint64_t, uint64_t>;
    EXPECT_EQ(Found(0, 0), judge("20-22:3", "21-22:1"));
    EXPECT_EQ(Found(1, 0), judge("20-22:3", "22-22:1"));
    EXPECT_EQ(Found(0, 1), judge("20-20:3 22-22:3", "21-22:1")); /* lost before the border */
    EXPECT_EQ(Found(0, 1), judge("20-22:3", "21-21:5 22-22:1")); /* to a port without a link */
    EXPECT_EQ(Found(0, 1), judge("20-22:3", "21-21:1"));         /* the LID of a host */
}

/* The theorem, by brute force: whatever the tables are, the fabric has a circle exactly if a
 * cluster has one inside, or the graph of border channels and matrices has one. */
TEST(Contract, CircleExactlyIfTheMatricesHaveOne)
{
    int circles = 0, inside_circles = 0;
    for (unsigned seed = 1000; seed < 1400; seed++) {
        Clusters fabric(seed, false);
        /* Tables at random, but without a packet that goes round for ever: shortest ways in the
         * whole fabric over links with random lengths. */
        Switches &whole = *fabric.whole;
        for (int to = 0; to < fabric.total; to++) {
            std::vector<double> far(fabric.total, 1e9);
            std::vector<bool> done(fabric.total);
            far[to] = 0;
            for (int i = 0; i < fabric.total; i++) {
                whole.tables[i][1 + to] = i == to ? 48 : MCSM_DROP;
            }
            for (int round = 0; round < fabric.total; round++) {
                int at = -1;
                for (int i = 0; i < fabric.total; i++) {
                    if (!done[i] && (at < 0 || far[i] < far[at])) {
                        at = i;
                    }
                }
                done[at] = true;
                for (int p = 1; p <= 48; p++) {
                    const struct mcsm_gport &port = whole.graph->sw[at].ports[p];
                    double length = 1 + fabric.draw() % 100 / 40.0;
                    if (port.peer >= 0 && !done[port.peer] && far[at] + length < far[port.peer]) {
                        far[port.peer] = far[at] + length;
                        whole.tables[port.peer][1 + to] = port.peer_port;
                    }
                }
            }
        }
        /* Dependencies of the whole fabric, as pairs of channels. */
        struct mcsm_deps *deps = mcsm_deps_new(whole.graph);
        ASSERT_EQ(0, mcsm_deps_note_unicast(deps, 0));
        bool circle = mcsm_deps_circle(deps, nullptr, 0) > 0;
        /* The same from the matrices: inside of each cluster, chains between border channels. */
        int links = whole.graph->links;
        std::vector<int> owner(links), peer(links, -1);
        for (int i = 0; i < fabric.total; i++) {
            for (int p = 1; p <= 48; p++) {
                owner[whole.graph->sw[i].first_link + p] = i;
                peer[whole.graph->sw[i].first_link + p] = whole.graph->sw[i].ports[p].peer;
            }
        }
        auto border = [&](int c) {
            return fabric.cluster_of(owner[c]) != fabric.cluster_of(peer[c]);
        };
        std::vector<std::vector<int>> follows(links);
        for (int to = 0; to < fabric.total; to++) {
            for (int from = 0; from < fabric.total; from++) {
                for (int at = from, channel = -1, steps = 0; at != to && steps < 100; steps++) {
                    int out = whole.graph->sw[at].first_link + whole.tables[at][1 + to];
                    if (channel >= 0) {
                        follows[channel].push_back(out);
                    }
                    channel = out;
                    at = peer[out];
                }
            }
        }
        auto has_circle = [&](auto &&next) {
            std::vector<int> colour(links);
            std::function<bool(int)> visit = [&](int c) {
                colour[c] = 1;
                for (int d : next(c)) {
                    if (colour[d] == 1 || (colour[d] == 0 && visit(d))) {
                        return true;
                    }
                }
                colour[c] = 2;
                return false;
            };
            for (int c = 0; c < links; c++) {
                if (colour[c] == 0 && visit(c)) {
                    return true;
                }
            }
            return false;
        };
        bool inside = has_circle([&](int c) {
            std::vector<int> list;
            for (int d : follows[c]) {
                if (peer[c] >= 0 && !border(c) && !border(d)) {
                    list.push_back(d);
                }
            }
            return list;
        });
        /* matrix[e]: border channels at the ends of chains from border channel e through one
         * cluster. */
        bool between = has_circle([&](int e) {
            std::set<int> exits, seen;
            std::vector<int> stack;
            if (peer[e] >= 0 && border(e)) {
                stack = follows[e];
            }
            while (!stack.empty()) {
                int c = stack.back();
                stack.pop_back();
                if (border(c)) {
                    exits.insert(c);
                } else if (seen.insert(c).second) {
                    stack.insert(stack.end(), follows[c].begin(), follows[c].end());
                }
            }
            return std::vector<int>(exits.begin(), exits.end());
        });
        EXPECT_EQ(circle, inside || between) << "seed " << seed;
        circles += circle;
        inside_circles += inside;
        mcsm_deps_free(deps);
    }
    /* The test has seen all cases. */
    EXPECT_GT(circles, inside_circles);
    EXPECT_GT(inside_circles, 0);
    EXPECT_LT(circles, 400);
}

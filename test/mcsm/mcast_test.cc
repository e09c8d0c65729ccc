#include <algorithm>
#include <array>
#include <random>
#include <unistd.h>

#include "mcsm_test.h"

/* The ports of a group form one tree that reaches every leaf, and nothing hangs on it in vain. */
TEST(Multicast, TreeOnRandomFabrics)
{
    for (unsigned seed = 0; seed < 200; seed++) {
        std::mt19937 draw(seed);
        int count = 1 + draw() % 12;
        std::vector<uint8_t> nports(count, 60);
        struct mcsm_graph *graph = mcsm_graph_new(count, nports.data());
        std::vector<int> next(count, 1);
        auto link = [&](int a, int b) { mcsm_graph_link(graph, a, next[a]++, b, next[b]++); };
        for (int i = 1; i < count; i++) {
            link(i, draw() % i);
        }
        for (int i = 0; i < count; i++) {
            if (int a = draw() % count, b = draw() % count; a != b) {
                link(a, b);
            }
        }
        std::vector<struct mcsm_leaf> leaves;
        for (unsigned i = 0; i < 1 + seed % 5; i++) {
            int sw = draw() % count;
            leaves.push_back({sw, (uint8_t)next[sw]++});
        }
        struct mcsm_tree *tree = mcsm_tree_new(graph, false);
        std::vector<std::array<uint64_t, 4>> sets(count);
        auto *ports = reinterpret_cast<uint64_t(*)[4]>(sets.data());
        mcsm_tree_cut(tree, leaves.data(), leaves.size(), ports);

        auto has = [&](int sw, int port) { return ports[sw][port / 64] >> port % 64 & 1; };
        std::vector<int> seen(count);
        std::vector<std::pair<int, int>> stack = {{leaves[0].sw, leaves[0].port}};
        size_t reached = 0, steps = 0;
        while (!stack.empty()) {
            auto [sw, in] = stack.back();
            stack.pop_back();
            ASSERT_EQ(0, seen[sw]++) << "a circle, seed " << seed;
            ASSERT_TRUE(has(sw, in));
            ASSERT_LT(steps++, 100u);
            int out = 0;
            for (int p = 1; p <= 60; p++) {
                if (!has(sw, p)) {
                    continue;
                }
                out++;
                if (graph->sw[sw].ports[p].peer < 0) {
                    reached++;
                } else if (p != in) {
                    stack.push_back(
                        {graph->sw[sw].ports[p].peer, graph->sw[sw].ports[p].peer_port});
                }
            }
            if (leaves.size() > 1) {
                ASSERT_GT(out, 1) << "a branch that leads nowhere, seed " << seed;
            }
        }
        ASSERT_EQ(leaves.size(), reached);
        for (int sw = 0; sw < count; sw++) {
            ASSERT_EQ(!seen[sw], !(ports[sw][0] | ports[sw][1] | ports[sw][2] | ports[sw][3]));
        }
        mcsm_tree_free(tree);
        mcsm_graph_free(graph);
    }
}

TEST(Multicast, MlidIsTheSameEverywhereAndInRange)
{
    uint8_t mgid[16] = {0xff, 0x12, 0x40, 0x1b, 0xff, 0xff};
    std::vector<int> count(256);
    for (int i = 0; i < 4096; i++) {
        mgid[14] = i >> 8;
        mgid[15] = i;
        uint16_t mlid = mcsm_mlid_of(mgid, 256);
        ASSERT_EQ(mlid, mcsm_mlid_of(mgid, 256));
        ASSERT_GE(mlid, 0xc000);
        ASSERT_LT(mlid, 0xc100);
        count[mlid - 0xc000]++;
    }
    /* 16 on average; none takes them all. */
    EXPECT_LT(*std::max_element(count.begin(), count.end()), 64);
}

/* When sweeps start, and the orders that keep routes from ports. */
#include "mcsm_test.h"

extern "C" {
#include "sm/drain.h"
#include "sm/sweep.h"
}

#include <cerrno>

TEST(Sweep, incomplete_sweeps_are_repeated_after_a_growing_time)
{
    static const uint64_t waits[] = {2000, 4000, 8000, 16000, 32000, 60000, 60000};
    mcsm_config config = {};
    mcsm_sweep sweep = {};
    uint64_t now = 1000;

    config.sweep_interval = 10;
    for (uint64_t wait : waits) {
        mcsm_sweep_begin(&sweep, now);
        sweep.incomplete = true;
        mcsm_sweep_end(&sweep, &config, now);
        EXPECT_FALSE(mcsm_sweep_heavy_due(&sweep, now + wait - 1)) << wait;
        now += wait;
        EXPECT_TRUE(mcsm_sweep_heavy_due(&sweep, now)) << wait;
        EXPECT_FALSE(mcsm_sweep_heavy_due(&sweep, now)) << "due twice";
    }
    mcsm_sweep_begin(&sweep, now);
    mcsm_sweep_end(&sweep, &config, now);
    EXPECT_FALSE(mcsm_sweep_heavy_due(&sweep, now + 1000000)) << "a complete sweep is not repeated";
    EXPECT_FALSE(mcsm_sweep_light_due(&sweep, &config, now + 9999));
    EXPECT_TRUE(mcsm_sweep_light_due(&sweep, &config, now + 10000));
    EXPECT_FALSE(mcsm_sweep_light_due(&sweep, &config, now + 19999));
}

TEST(Drains, a_port_has_an_order_of_the_administrator_and_one_of_health)
{
    mcsm_drains drains = {}, kept = {};
    mcsm_fabric *fabric = mcsm_fabric_new();
    mcsm_node *node = mcsm_fabric_add(fabric, 0x10, 2, 4);

    EXPECT_EQ(0, mcsm_drains_add(&drains, 0x10, 2, false));
    EXPECT_EQ(0, mcsm_drains_add(&drains, 0x10, 2, true));
    EXPECT_EQ(0, mcsm_drains_add(&drains, 0x10, 2, true)) << "the order is there already";
    EXPECT_EQ(0, mcsm_drains_add(&drains, 0x10, 9, false)) << "the node has no such port";
    EXPECT_EQ(0, mcsm_drains_remove(&drains, 0x10, 2, true));
    EXPECT_EQ(-ENOENT, mcsm_drains_remove(&drains, 0x10, 2, true));
    mcsm_drains_move(&drains, &kept);
    EXPECT_EQ(nullptr, drains.list);
    mcsm_drains_mark(&kept, node);
    EXPECT_TRUE(node->ports[2].drained);
    EXPECT_FALSE(node->ports[2].held);
    EXPECT_FALSE(node->ports[1].drained);
    mcsm_drains_free(&kept);
    mcsm_fabric_free(fabric);
}

// ud_mon and the network: kinds of addresses, a link that goes down.
#include "ud_mon_fixture.h"

#include <unistd.h>

namespace
{

TEST_F(UdMonTest, IPv6)
{
    set("GID_INDEX", "2"); // fd09::i, or the link-local one: either is IPv6
    restart();
    ASSERT_GE(send_bcopy(ep, "six"), 0);
    ASSERT_TRUE(arrives(1));
}

TEST_F(UdMonTest, AddressesOfAnotherKindAreUnreachable)
{
    std::vector<uint8_t> dev = b->device_addr(), addr = b->iface_addr();
    auto reachable = [&] {
        return uct_iface_is_reachable(a->iface, (uct_device_addr_t *)dev.data(),
                                      (uct_iface_addr_t *)addr.data());
    };

    EXPECT_TRUE(reachable());
    dev[0] ^= 0x40;
    EXPECT_FALSE(reachable());
    dev[0] ^= 0x40;
    dev[1] ^= UD_MON_ADDR_ETH;
    EXPECT_FALSE(reachable());
    dev[1] ^= UD_MON_ADDR_ETH;
    dev[4 + 10] = 0; // not mapped IPv4 any more
    EXPECT_FALSE(reachable());
}

// Who asks for the address after the subnet manager has changed it gets the new one.
TEST_F(UdMonTest, AddressFollowsAPortThatMoves)
{
    std::vector<uint8_t> before = b->device_addr();
    auto lid = [](const std::vector<uint8_t> &addr) {
        return le16toh(reinterpret_cast<const ud_mon_device_addr_t *>(addr.data())->lid);
    };

    moved_to_lid = 4711;
    std::vector<uint8_t> after = b->device_addr();
    moved_to_lid = 0;
    EXPECT_NE(4711, lid(before));
    EXPECT_EQ(4711, lid(after));
    EXPECT_EQ(before, b->device_addr());
}

TEST_F(UdMonTest, LinkDownLosesAndLinkUpWorksAgain)
{
    ASSERT_EQ(1, a->stats().port_active);
    EXPECT_EQ(std::vector<std::string>{"ud_mon/rxe1:1"}, a->devices());
    ASSERT_EQ(0, system("ip -n fab link set p1 down"));
    EXPECT_TRUE(a->progress_until([&] { return a->stats().port_active == 0; }));
    EXPECT_TRUE(a->devices().empty()); // only active ports are offered
    EXPECT_EQ(std::vector<std::string>{"ud_mon/rxe2:1"}, b->devices());
    for (int i = 0; i < 5; ++i) {
        EXPECT_GE(send_bcopy(ep, "lost"), 0);
        a->progress();
        usleep(10000);
    }
    ASSERT_EQ(0, system("ip -n fab link set p1 up"));
    ASSERT_TRUE(a->progress_until([&] { return a->stats().port_active == 1; }));
    ASSERT_TRUE(a->progress_until(
        [&] {
            ssize_t ret = send_bcopy(ep, "again"); // the queue may be full of what could not leave
            EXPECT_TRUE((ret >= 0) || (ret == UCS_ERR_NO_RESOURCE)) << ret;
            return !b->received.empty() && (b->received.back() == "again");
        },
        b.get()));
}

} // namespace

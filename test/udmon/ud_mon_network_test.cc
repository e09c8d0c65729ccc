// ud_mon and the network: multicast groups, kinds of addresses, a link that goes down.
#include "ud_mon_fixture.h"

#include <arpa/inet.h>
#include <unistd.h>

namespace {

TEST_F(UdMonTest, MulticastReachesTheMembersOnly)
{
    struct sockaddr_in group = {};

    set("QKEY", "0x4d4f4e");
    restart();
    Host outsider("rxe2"), other("rxe2");
    group.sin_family = AF_INET;
    inet_pton(AF_INET, "239.7.7.7", &group.sin_addr);
    const auto *addr = reinterpret_cast<const struct sockaddr *>(&group);
    EXPECT_EQ(UCS_ERR_NO_ELEM, uct_ud_mon_mcast_status(b->iface, addr));
    ASSERT_UCS_OK(uct_ud_mon_mcast_join(a->iface, addr));
    ASSERT_UCS_OK(uct_ud_mon_mcast_join(b->iface, addr));
    ASSERT_UCS_OK(uct_ud_mon_mcast_join(other.iface, addr));
    EXPECT_EQ(UCS_ERR_ALREADY_EXISTS, uct_ud_mon_mcast_join(b->iface, addr));
    uct_ep_h all = a->connect_to_group(addr);
    auto joined = [&] {
        uct_iface_event_arm(a->iface, UCT_EVENT_RECV);
        uct_iface_event_arm(b->iface, UCT_EVENT_RECV);
        uct_iface_event_arm(other.iface, UCT_EVENT_RECV);
        return (uct_ud_mon_mcast_status(a->iface, addr) == UCS_OK) &&
               (uct_ud_mon_mcast_status(b->iface, addr) == UCS_OK) &&
               (uct_ud_mon_mcast_status(other.iface, addr) == UCS_OK);
    };
    ASSERT_TRUE(a->progress_until(joined, b.get()));
    ASSERT_GE(send_bcopy(all, "to everybody"), 0);
    ASSERT_TRUE(arrives(1));
    EXPECT_EQ("to everybody", b->received[0]);
    ASSERT_TRUE(other.progress_until([&] { return other.received.size() == 1; }));
    EXPECT_EQ("to everybody", other.received[0]);
    EXPECT_TRUE(a->received.empty()); // not to itself
    outsider.progress();
    EXPECT_TRUE(outsider.received.empty());
    ASSERT_UCS_OK(uct_ud_mon_mcast_leave(b->iface, addr));
    EXPECT_EQ(UCS_ERR_NO_ELEM, uct_ud_mon_mcast_status(b->iface, addr));
    ASSERT_GE(send_bcopy(all, "gone"), 0);
    a->progress();
    settle();
    EXPECT_EQ(1u, b->received.size());
    uct_ep_destroy(all);
}

TEST_F(UdMonTest, MulticastNeedsACommonKey)
{
    struct sockaddr_in group = {};

    group.sin_family = AF_INET;
    inet_pton(AF_INET, "239.7.7.7", &group.sin_addr);
    EXPECT_EQ(UCS_ERR_INVALID_PARAM,
              uct_ud_mon_mcast_join(a->iface, reinterpret_cast<struct sockaddr *>(&group)));
    inet_pton(AF_INET, "10.9.0.2", &group.sin_addr);
    EXPECT_EQ(UCS_ERR_INVALID_PARAM,
              uct_ud_mon_mcast_join(a->iface, reinterpret_cast<struct sockaddr *>(&group)));
}

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

TEST_F(UdMonTest, LinkDownLosesAndLinkUpWorksAgain)
{
    ASSERT_EQ(1, a->stats().port_active);
    EXPECT_EQ(std::vector<std::string> {"ud_mon/rxe1:1"}, a->devices());
    ASSERT_EQ(0, system("ip -n fab link set p1 down"));
    EXPECT_TRUE(a->progress_until([&] { return a->stats().port_active == 0; }));
    EXPECT_TRUE(a->devices().empty()); // only active ports are offered
    EXPECT_EQ(std::vector<std::string> {"ud_mon/rxe2:1"}, b->devices());
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

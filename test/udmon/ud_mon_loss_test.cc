// What ud_mon counts: datagrams that are lost, doubled, late, or not of our kind.
#include "ud_mon_fixture.h"

#include <unistd.h>

namespace
{

// What comes while no receive is posted is lost; its number is known, and so is the place.
TEST_F(UdMonTest, TellsWantOfReceivesFromLossOnTheWay)
{
    set("RX_QUEUE_LEN", "64");
    set("RX_BATCH", "16");
    restart();
    for (int i = 0; i < 100; ++i) { // b makes no progress meanwhile
        ASSERT_GE(send_bcopy(ep, std::to_string(i)), 0);
    }
    ASSERT_TRUE(a->progress_until([&] { return uct_iface_flush(a->iface, 0, NULL) == UCS_OK; }));
    usleep(300000);
    ASSERT_TRUE(arrives(64));
    settle();
    uct_ud_mon_stats_t stats = b->stats();
    EXPECT_EQ(64u, b->received.size());
    EXPECT_EQ(36u, stats.lost);
    ASSERT_TRUE(stats.no_receive_known);
    EXPECT_EQ(36u, stats.no_receive);
    EXPECT_EQ(0u, stats.lost_on_way);
}

TEST_F(UdMonTest, CountsLostDoubledAndLatePerSender)
{
    RawQp raw("rxe1");

    raw.aim(*b);
    for (uint64_t seq : {0, 1, 5, 3, 3, 5, 6}) { // 2 and 4 never come
        raw.send(header(77, seq, 1), std::to_string(seq));
    }
    raw.send(header(78, 1, 1), "z"); // another sender, whose first is missing
    ASSERT_TRUE(arrives(6));
    settle();
    EXPECT_EQ((std::vector<std::string>{"0", "1", "5", "3", "6", "z"}), b->received);
    uct_ud_mon_stats_t stats = b->stats();
    EXPECT_EQ(3u, stats.lost);
    EXPECT_EQ(1u, stats.reordered);
    EXPECT_EQ(2u, stats.duplicated);
    EXPECT_EQ(3u, stats.senders);
    EXPECT_EQ(3u, stats.lost_on_way);
    std::vector<uct_ud_mon_sender_stats_t> senders;
    ASSERT_UCS_OK(uct_ud_mon_iface_senders(
        b->iface,
        [](const uct_ud_mon_sender_stats_t *s, void *arg) {
            static_cast<std::vector<uct_ud_mon_sender_stats_t> *>(arg)->push_back(*s);
        },
        &senders));
    ASSERT_EQ(3u, senders.size());
    EXPECT_EQ(77u, senders[0].sender); // silent longest
    EXPECT_EQ(2u, senders[0].lost);
    EXPECT_EQ(5u, senders[0].received);
    EXPECT_EQ(2u, senders[0].duplicated);
    EXPECT_EQ(1u, senders[1].lost);
}

TEST_F(UdMonTest, ForgetsTheSilentWhenTheTableIsFull)
{
    RawQp raw("rxe1");

    set("MAX_SENDERS", "2");
    restart();
    raw.aim(*b);
    for (uint64_t sender : {10, 11, 10, 12}) {
        raw.send(header(sender, (sender == 10) ? b->received.size() / 2 : 0, 1), "x");
        ASSERT_TRUE(arrives(b->received.size() + 1));
    }
    EXPECT_EQ(2u, b->stats().senders);
    EXPECT_EQ(1u, b->stats().evicted);
    raw.send(header(11, 50, 4), "back"); // forgotten: no base to count a loss from
    raw.send(header(11, 52, 4), "back");
    ASSERT_TRUE(arrives(6));
    EXPECT_EQ(1u, b->stats().lost);
}

TEST_F(UdMonTest, IgnoresAndCountsWhatIsNotOurs)
{
    RawQp raw("rxe1");
    ud_mon_header_t h;

    raw.aim(*b);
    raw.send("hello", 5);
    raw.send(std::string(4096, '\xff').data(), 4096);
    h = header(5, 0, 1);
    h.magic = htole32(UD_MON_MAGIC + 0x01000000); // a later version
    raw.send(h, "x");
    h = header(5, 0, 2);
    raw.send(h, "x"); // says two bytes, has one
    h = header(5, 0, 1);
    h.am_id = 200;
    raw.send(h, "x");
    h = header(5, 0, 1);
    h.zero = 0x80;
    raw.send(h, "x");
    raw.send(header(0, 0, 1), "x");
    h = header(5, 0, 1);
    h.am_id = Host::am_id + 1;
    raw.send(h, "x");
    settle();
    EXPECT_TRUE(b->received.empty());
    EXPECT_EQ(3u, b->stats().foreign);
    EXPECT_EQ(4u, b->stats().malformed);
    EXPECT_EQ(1u, b->stats().no_handler);
    EXPECT_EQ(0u, b->stats().lost);
    EXPECT_EQ(1u, b->stats().senders); // only the marker's
}

TEST_F(UdMonTest, WrongQueueKeyGetsNowhere)
{
    RawQp raw("rxe1");

    // Nobody knows a key who has not been told it: each interface has its own.
    EXPECT_NE(((ud_mon_iface_addr_t *)a->iface_addr().data())->qkey,
              ((ud_mon_iface_addr_t *)b->iface_addr().data())->qkey);
    raw.aim(*b);
    raw.qkey ^= 1;
    raw.send(header(5, 0, 1), "x");
    raw.send(header(5, 1, 1), "x");
    settle();
    EXPECT_TRUE(b->received.empty());
    EXPECT_EQ(2u, b->stats().bad_qkey);
}

} // namespace

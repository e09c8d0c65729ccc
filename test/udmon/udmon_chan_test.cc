// Channels: small records share datagrams, losses are counted.
#include "udmon_chan_fixture.h"

namespace
{

TEST_F(ChanTest, OnlyFullDatagramsUntilFlushed)
{
    for (int i = 0; i < 3; ++i) {
        ASSERT_EQ(0, udmon_chan_push(&a.chan, "0123456789", 10));
    }
    EXPECT_EQ(0, udmon_chan_pump(&a.chan, 0));
    EXPECT_TRUE(a.wire.empty());
    for (int i = 0; i < 50; ++i) {
        ASSERT_EQ(0, udmon_chan_push(&a.chan, "0123456789", 10));
    }
    EXPECT_EQ(0, udmon_chan_pump(&a.chan, 0));
    EXPECT_EQ(1u, a.wire.size()); // 40 records of 10 + 2 bytes in 512 - 24
    EXPECT_LE(a.wire[0].size(), 512u);
    EXPECT_EQ(0, udmon_chan_pump(&a.chan, 1));
    EXPECT_EQ(2u, a.wire.size());
    carry(a, b);
    EXPECT_EQ(53u, b.delivered.size());
}

TEST_F(ChanTest, LossIsCountedToTheLastRecord)
{
    std::mt19937 random(3);
    const int count = 20000;

    for (int i = 0; i < count; ++i) {
        std::string record(random() % 1500, 'x'); // some whole, some in parts
        ASSERT_EQ(0, udmon_chan_push(&a.chan, record.data(), record.size()));
        ASSERT_EQ(0, udmon_chan_pump(&a.chan, 0));
        carry(a, b, [&] { return random() % 10 != 0; });
    }
    ASSERT_EQ(0, udmon_chan_push(&a.chan, "the end", 7));
    ASSERT_EQ(0, udmon_chan_pump(&a.chan, 1));
    ASSERT_FALSE(a.wire.empty());
    carry(a, b, [] { return false; }); // the last ones are lost
    ASSERT_GT(stats(b).received + stats(b).lost + 1, 1u);
    ASSERT_LT(stats(b).received + stats(b).lost, uint64_t(count) + 1);
    ASSERT_EQ(0, udmon_chan_ping(&a.chan, UDMON_PING, 1));
    carry(a, b);
    EXPECT_EQ(uint64_t(count) + 1, stats(b).received + stats(b).lost);
    EXPECT_EQ(uint64_t(count) + 1, stats(a).sent);
    EXPECT_EQ(b.delivered.size(), stats(b).received);
    EXPECT_EQ(b.gaps, stats(b).lost + stats(b).late);
    EXPECT_GT(stats(b).lost, 0u);
    for (size_t i = 1; i < b.seqs.size(); ++i) {
        ASSERT_GT(b.seqs[i], b.seqs[i - 1]);
    }
}

TEST_F(ChanTest, ARecordMissingAPartIsDroppedWhole)
{
    int n = 0;

    for (char c : {'a', 'b', 'c', 'd', 'e', 'f'}) {
        std::string record(2000, c);
        ASSERT_EQ(0, udmon_chan_push(&a.chan, record.data(), record.size()));
    }
    ASSERT_EQ(0, udmon_chan_pump(&a.chan, 1));
    carry(a, b, [&] { return ++n != 7; }); // the second part of 'b'
    EXPECT_EQ(5u, b.delivered.size());
    EXPECT_EQ(std::string(2000, 'c'), b.delivered[1]);
    EXPECT_EQ(1u, stats(b).lost);
    udmon_chan_disconnect(&b.chan);
    udmon_chan_connect(&b.chan, 4096, 43, 6);
    EXPECT_EQ(1u, stats(b).incomplete);
}

TEST_F(ChanTest, ARecordDroppedHalfSentLeavesTheNextOneWhole)
{
    std::string big(60000, 'a'), other(60000, 'b');

    a.room = 5; // a few parts of the first leave
    ASSERT_EQ(0, udmon_chan_push(&a.chan, big.data(), big.size()));
    EXPECT_EQ(-EAGAIN, udmon_chan_pump(&a.chan, 1));
    for (int i = 0; i < 18; ++i) { // a mebibyte holds 17 of them
        ASSERT_EQ(0, udmon_chan_push(&a.chan, other.data(), other.size()));
    }
    EXPECT_GE(stats(a).dropped, 1u);
    a.room = 1 << 30;
    EXPECT_EQ(0, udmon_chan_pump(&a.chan, 1));
    carry(a, b);
    EXPECT_EQ(19u - stats(a).dropped, b.delivered.size());
    for (const std::string &text : b.delivered) {
        EXPECT_EQ(other, text);
    }
}

TEST_F(ChanTest, LengthsThatDoNotAddUpAreRefused)
{
    std::string big(600, 'B'), dgram;

    udmon_chan_push(&a.chan, "one", 3);
    udmon_chan_pump(&a.chan, 1);
    udmon_chan_push(&a.chan, big.data(), big.size());
    udmon_chan_pump(&a.chan, 1);
    ASSERT_EQ(3u, a.wire.size());
    for (const std::string &good : a.wire) {
        dgram = good + "x";
        EXPECT_EQ(-EPROTO, udmon_chan_receive(&b.chan, dgram.data(), dgram.size()));
        dgram = good.substr(0, good.size() - 1);
        EXPECT_EQ(-EPROTO, udmon_chan_receive(&b.chan, dgram.data(), dgram.size()));
    }
    EXPECT_TRUE(b.delivered.empty());
    carry(a, b);
    EXPECT_EQ((std::vector<std::string>{"one", big}), b.delivered);
}

TEST_F(ChanTest, RoomIsWaitedForWithoutLoss)
{
    a.room = 3;
    for (int i = 0; i < 500; ++i) {
        ASSERT_EQ(0, udmon_chan_push(&a.chan, "0123456789", 10));
    }
    EXPECT_EQ(-EAGAIN, udmon_chan_pump(&a.chan, 1));
    EXPECT_EQ(3u, a.wire.size());
    a.room = 1000;
    EXPECT_EQ(0, udmon_chan_pump(&a.chan, 1));
    carry(a, b);
    EXPECT_EQ(500u, b.delivered.size());
    EXPECT_EQ(0u, stats(b).lost);
}

// Every byte of good datagrams changed in every way that matters: never a crash, never a delivery
// beyond the buffer (run this under the address sanitizer).
TEST_F(ChanTest, DamagedDatagramsAreRefused)
{
    std::mt19937 random(11);
    std::string big(2000, 'B');
    std::vector<std::string> good;

    udmon_chan_push(&a.chan, "one", 3);
    udmon_chan_push(&a.chan, "two", 3);
    udmon_chan_pump(&a.chan, 1);
    udmon_chan_push(&a.chan, big.data(), big.size());
    udmon_chan_pump(&a.chan, 1);
    udmon_chan_ping(&a.chan, UDMON_PING, 1);
    udmon_chan_signal(&a.chan, UDMON_BYE, a.chan.next_seq);
    good.assign(a.wire.begin(), a.wire.end());
    for (int i = 0; i < 200000; ++i) {
        std::string bad = good[random() % good.size()];
        for (int k = random() % 4; k >= 0; --k) {
            bad[random() % bad.size()] = char(random());
        }
        bad.resize(random() % 3 ? bad.size() : random() % (bad.size() + 1));
        std::vector<char> exact(bad.begin(), bad.end()); // of its own size, for the sanitizer
        udmon_chan_receive(&b.chan, exact.data(), exact.size());
    }
    EXPECT_GT(stats(b).malformed, 0u);
    for (const std::string &text : b.delivered) {
        EXPECT_LE(text.size(), 65536u);
    }
}

} // namespace

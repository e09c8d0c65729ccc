// Channels of libudmon without a network: two of them, joined by a wire that may lose.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

extern "C" {
#include "udmon/chan.h"
#include "udmon/options.h"
}

namespace {

struct Side {
    udmon_chan_t chan;
    std::deque<std::string> wire; // what it has sent
    std::vector<std::string> delivered;
    std::vector<uint64_t> seqs;
    uint64_t gaps = 0;
    int room = 1 << 30;

    static int send(void *arg, size_t size, udmon_chan_pack_t pack, void *pack_arg)
    {
        Side *self = static_cast<Side *>(arg);
        std::vector<char> buffer(size);

        if (self->room == 0) {
            return -EAGAIN;
        }
        --self->room;
        size_t length = pack(buffer.data(), size, pack_arg);
        EXPECT_LE(length, size);
        self->wire.emplace_back(buffer.data(), length);
        return 0;
    }
    static void deliver(void *arg, const udmon_message_t *m)
    {
        Side *self = static_cast<Side *>(arg);
        self->delivered.emplace_back(static_cast<const char *>(m->data), m->length);
        self->seqs.push_back(m->seq);
    }
    static void gap(void *arg, uint64_t, uint64_t count)
    {
        static_cast<Side *>(arg)->gaps += count;
    }
};

const udmon_chan_ops_t side_ops = {Side::send, Side::deliver, Side::gap};

struct ChanTest : testing::Test {
    Side a, b;
    udmon_settings_t settings;

    void SetUp() override
    {
        udmon_options_t options;
        udmon_options_init(&options);
        options.datagram_size = 512;
        ASSERT_EQ(0, udmon_settings_make(&options, &settings));
        for (Side *s : {&a, &b}) {
            udmon_chan_init(&s->chan, &settings.values, &side_ops, s);
            ASSERT_EQ(0, udmon_chan_connect(&s->chan, 4096, 42, 0));
        }
    }
    void TearDown() override
    {
        udmon_chan_cleanup(&a.chan);
        udmon_chan_cleanup(&b.chan);
    }
    // Carry what `from` has sent to `to`, as far as `keep` says.
    static void carry(Side &from, Side &to, const std::function<bool()> &keep = [] { return true; })
    {
        while (!from.wire.empty()) {
            std::string dgram = from.wire.front();
            from.wire.pop_front();
            if (keep()) {
                EXPECT_GT(udmon_chan_receive(&to.chan, dgram.data(), dgram.size()), 0);
            }
        }
    }
    udmon_stats_t stats(const Side &s)
    {
        udmon_stats_t out;
        udmon_chan_stats(&s.chan, &out);
        return out;
    }
};

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
    EXPECT_EQ((std::vector<std::string> {"one", big}), b.delivered);
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

// What is in a datagram of pieces: number, offset and length of each.
struct Piece {
    uint64_t seq;
    uint32_t total, offset;
    uint16_t length;
};

std::vector<Piece> pieces(const std::string &wire)
{
    const udmon_dgram_t *dgram = reinterpret_cast<const udmon_dgram_t *>(wire.data());
    std::vector<Piece> out;
    size_t at = sizeof(*dgram);

    if (dgram->type == UDMON_PIECES) {
        for (unsigned i = 0; i < le16toh(dgram->count); ++i) {
            udmon_piece_t piece;
            memcpy(&piece, &wire[at], sizeof(piece));
            out.push_back({le64toh(dgram->seq) + i, le32toh(piece.total), le32toh(piece.offset),
                           le16toh(piece.length)});
            at += sizeof(piece) + le16toh(piece.length);
        }
    }
    return out;
}

struct LongChanTest : ChanTest {
    void SetUp() override
    {
        ChanTest::SetUp();
        settings.values.datagram_size = 0;
        udmon_chan_cleanup(&a.chan);
        udmon_chan_init(&a.chan, &settings.values, &side_ops, &a);
        ASSERT_EQ(0, udmon_chan_connect(&a.chan, 4096, 42, 0));
    }
    void push(const std::string &record)
    {
        ASSERT_EQ(0, udmon_chan_push(&a.chan, record.data(), record.size()));
        ASSERT_EQ(0, udmon_chan_pump(&a.chan, 0));
    }
};

// By default long records go in as large datagrams as the network takes, small ones share 2 KB: of
// 512 bytes, four.
TEST_F(LongChanTest, LongRecordsUseTheNetworksDatagrams)
{
    std::string whole(4096 - 26, 'W'), cut(4096 - 25, 'P');

    push(whole);
    ASSERT_EQ(1u, a.wire.size());
    EXPECT_EQ(4096u, a.wire[0].size());
    for (int i = 0; i < 100; ++i) {
        push(whole.substr(0, 512));
    }
    EXPECT_EQ(1u + 24u, a.wire.size()); // into the last one a small record would still go
    EXPECT_EQ(0, udmon_chan_pump(&a.chan, 1));
    EXPECT_EQ(1u + 25u, a.wire.size());
    push(cut);
    ASSERT_EQ(1u + 26u, a.wire.size());
    EXPECT_GT(a.wire.back().size(), 4096u - UDMON_UNIT);
    EXPECT_EQ(0, udmon_chan_pump(&a.chan, 1)); // its end has waited for others
    EXPECT_EQ(1u + 27u, a.wire.size());
    carry(a, b);
    ASSERT_EQ(102u, b.delivered.size());
    EXPECT_EQ(whole, b.delivered[0]);
    EXPECT_EQ(cut, b.delivered[101]);
}

// Records that do not fit a datagram follow each other in full ones, as in a stream.
TEST_F(LongChanTest, CutRecordsFillDatagrams)
{
    const size_t count = 200;
    std::string record(4096, 'x');

    for (size_t i = 0; i < count; ++i) {
        push(record);
    }
    EXPECT_EQ(0, udmon_chan_pump(&a.chan, 1));
    EXPECT_LE(a.wire.size(), 1 + ((count * (record.size() + 50)) / (4096 - 24)));
    carry(a, b);
    EXPECT_EQ(std::vector<std::string>(count, record), b.delivered);
}

// Sharing must not make a record more likely to be lost: it lies in no more datagrams than alone.
TEST_F(LongChanTest, NoRecordNeedsMoreDatagramsThanByItself)
{
    std::map<uint64_t, std::pair<uint32_t, size_t>> used; // length, datagrams
    std::vector<std::string> records;
    std::mt19937 random(17);
    size_t shared = 0;

    for (int i = 0; i < 2000; ++i) {
        records.push_back(std::string(1 + random() % (random() % 5 ? 9000 : 500), char(random())));
        push(records.back());
    }
    EXPECT_EQ(0, udmon_chan_pump(&a.chan, 1));
    for (const std::string &wire : a.wire) {
        std::vector<Piece> list = pieces(wire);
        for (const Piece &p : list) {
            used[p.seq].first = p.total;
            ++used[p.seq].second;
        }
        shared += list.size() > 1;
    }
    EXPECT_GT(shared, 300u);
    carry(a, b);
    EXPECT_EQ(records, b.delivered);
    for (const auto &u : used) {
        Side alone;
        udmon_chan_init(&alone.chan, &settings.values, &side_ops, &alone);
        ASSERT_EQ(0, udmon_chan_connect(&alone.chan, 4096, 42, 0));
        ASSERT_EQ(0, udmon_chan_push(&alone.chan, records[u.first].data(), u.second.first));
        ASSERT_EQ(0, udmon_chan_pump(&alone.chan, 1));
        EXPECT_LE(u.second.second, alone.wire.size()) << u.second.first;
        udmon_chan_cleanup(&alone.chan);
    }
}

TEST_F(LongChanTest, PiecesThatCannotBeAreRefused)
{
    const struct {
        uint32_t total, offset;
        uint16_t length;
        int good;
    } cases[] = {
        {100, 96, 4, 1},     {100, 0, 96, 1},       {100, 96, 16, 0}, // beyond the end
        {100, 112, 16, 0},   {100, 8, 16, 0},       {100, 16, 15, 0}, // cut elsewhere
        {100, 0, 0, 0},      {0, 0, 0, 0},          {65537, 0, 16, 0}, // longer than max_record
        {100, 4294967280, 16, 0}, {100, 96, 65535, 0},
    };

    for (const auto &c : cases) {
        udmon_dgram_t header = {};
        header.version = UDMON_VERSION;
        header.type = UDMON_PIECES;
        header.count = htole16(1);
        udmon_piece_t piece = {htole32(c.total), htole32(c.offset), htole16(c.length)};
        std::string dgram(reinterpret_cast<char *>(&header), sizeof(header));
        dgram.append(reinterpret_cast<char *>(&piece), sizeof(piece)).append(c.length, 'x');
        int ret = udmon_chan_receive(&b.chan, dgram.data(), dgram.size());
        EXPECT_EQ(c.good ? int(UDMON_PIECES) : -EPROTO, ret)
            << c.total << " " << c.offset << " " << c.length;
    }
    EXPECT_EQ(std::vector<std::string> {std::string(100, 'x')}, b.delivered);
}

TEST_F(LongChanTest, PiecesThatComeTwiceOrLateDoNoHarm)
{
    std::vector<std::string> records, got;
    std::mt19937 random(23);

    for (int i = 0; i < 500; ++i) {
        records.push_back(std::string(4000 + random() % 5000, char('a' + i % 26)));
        push(records.back());
    }
    EXPECT_EQ(0, udmon_chan_pump(&a.chan, 1));
    for (size_t i = 0; i + 1 < a.wire.size(); i += 2) {
        std::swap(a.wire[i], a.wire[i + 1]);
    }
    while (!a.wire.empty()) {
        for (int twice = 0; twice < 2; ++twice) {
            udmon_chan_receive(&b.chan, a.wire.front().data(), a.wire.front().size());
        }
        a.wire.pop_front();
    }
    got = b.delivered;
    std::sort(got.begin(), got.end());
    std::sort(records.begin(), records.end());
    EXPECT_EQ(records, got);
    EXPECT_EQ(0u, stats(b).lost);
}

TEST_F(ChanTest, ReliableSurvivesLossBothWaysInOrder)
{
    std::mt19937 random(5);
    auto lossy = [&] { return random() % 3 != 0; };
    const size_t count = 300;
    size_t sent = 0;

    for (int round = 0; (round < 20000) && (b.delivered.size() < count); ++round) {
        std::string text = "message " + std::to_string(sent);
        if ((sent < count) && (udmon_reliable_send(&a.chan, text.data(), text.size()) == 0)) {
            ++sent;
        }
        for (auto &slot : a.chan.reliable.out) {
            slot.resend_ns = 0; // due now: no waiting in a test
        }
        udmon_reliable_tick(&a.chan);
        carry(a, b, lossy);
        udmon_chan_pump(&b.chan, 0);
        carry(b, a, lossy);
    }
    ASSERT_EQ(count, b.delivered.size());
    for (size_t i = 0; i < count; ++i) {
        EXPECT_EQ("message " + std::to_string(i), b.delivered[i]);
    }
    EXPECT_GT(stats(a).retransmitted, 0u);
}

TEST_F(ChanTest, ReliableWindowIsBounded)
{
    for (int i = 0; i < UDMON_WINDOW_MAX; ++i) {
        ASSERT_EQ(0, udmon_reliable_send(&a.chan, "x", 1));
    }
    EXPECT_EQ(-EAGAIN, udmon_reliable_send(&a.chan, "x", 1));
    carry(a, b);
    udmon_chan_pump(&b.chan, 0);
    carry(b, a);
    EXPECT_EQ(0, udmon_reliable_send(&a.chan, "x", 1));
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
    udmon_reliable_send(&a.chan, "rel", 3);
    udmon_chan_ping(&a.chan, UDMON_PING, 1);
    udmon_chan_signal(&a.chan, UDMON_BYE);
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

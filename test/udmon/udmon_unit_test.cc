// The inner parts of libudmon, without a network: a channel whose datagrams a test may lose.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

extern "C" {
#include "udmon/address.h"
#include "udmon/auth.h"
#include "udmon/chan.h"
#include "udmon/loop.h"
#include "udmon/meet.h"
#include "udmon/options.h"
#include "udmon/queue.h"
}

namespace {

// Queue

struct QueueTest : testing::Test {
    udmon_queue_t queue;
    std::deque<std::string> model;

    void open(size_t size) { ASSERT_EQ(0, udmon_queue_open(&queue, size)); }
    void TearDown() override { udmon_queue_close(&queue); }
    long push(const std::string &text)
    {
        long dropped = udmon_queue_push(&queue, text.data(), text.size());
        for (long i = 0; i < dropped; ++i) {
            model.pop_front();
        }
        if (dropped >= 0) {
            model.push_back(text);
        }
        return dropped;
    }
    void check()
    {
        size_t length, position = queue.head;
        const void *data = udmon_queue_front(&queue, &length);
        ASSERT_EQ(model.size(), queue.count);
        size_t payload = 0;
        for (const std::string &text : model) {
            ASSERT_NE(nullptr, data);
            ASSERT_EQ(text, std::string(static_cast<const char *>(data), length));
            payload += length;
            data = udmon_queue_next(&queue, &position, &length);
        }
        if (!model.empty()) {
            ASSERT_EQ(nullptr, data);
        }
        ASSERT_EQ(payload, queue.payload);
    }
};

TEST_F(QueueTest, RandomUseAgreesWithAModel)
{
    std::mt19937 random(7);

    open(1000);
    for (int i = 0; i < 100000; ++i) {
        if (random() % 3) {
            push(std::string(random() % 200, char('a' + i % 26)));
        } else if (!model.empty()) {
            udmon_queue_pop(&queue);
            model.pop_front();
        }
        ASSERT_NO_FATAL_FAILURE(check()) << i;
    }
}

TEST_F(QueueTest, ExactFitsAndTooLong)
{
    open(64);
    EXPECT_EQ(0, push(std::string(60, 'a'))); // exactly all of it
    check();
    EXPECT_EQ(1, push(std::string(28, 'b')));
    EXPECT_EQ(0, push(std::string(28, 'c')));
    check();
    EXPECT_EQ(1, push("d"));
    check();
    EXPECT_EQ(-EMSGSIZE, push(std::string(61, 'e')));
    check();
    EXPECT_EQ(0, push(""));
    check();
}

TEST_F(QueueTest, TheGapAfterAWrapIsUsedToTheLastByte)
{
    open(96); // records of 28 bytes take 32
    push(std::string(28, 'a'));
    push(std::string(28, 'b'));
    push(std::string(28, 'c'));
    udmon_queue_pop(&queue);
    udmon_queue_pop(&queue);
    model.erase(model.begin(), model.begin() + 2);
    EXPECT_EQ(0, push(std::string(28, 'd')));
    EXPECT_EQ(0, push(std::string(28, 'e'))); // up to where 'c' begins
    check();
    EXPECT_EQ(3u, queue.count);
}

// Channel: two of them, joined by a wire that may lose.

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

// Meeting

struct MeetTest : testing::Test {
    udmon_secret_t secret = {}, other = {};
    udmon_auth_t fields = {};
    uint8_t message[UDMON_RPC_MAX];
    long length = 0;

    void SetUp() override
    {
        secret.length = other.length = 4;
        memcpy(secret.bytes, "open", 4);
        memcpy(other.bytes, "shut", 4);
        fields.client_id = 9;
        memcpy(fields.transport, "tcp", 3);
        length = udmon_meet_auth(&secret, &fields, "ADDRESS", 7, "node<1>", message,
                                 sizeof(message));
        ASSERT_GT(length, 0);
    }
};

TEST_F(MeetTest, GoodAuthIsReadBack)
{
    udmon_auth_view_t view;

    ASSERT_EQ(0, udmon_meet_auth_parse(message, length, &view));
    EXPECT_TRUE(udmon_meet_auth_check(&secret, &view));
    EXPECT_FALSE(udmon_meet_auth_check(&other, &view));
    EXPECT_EQ("ADDRESS", std::string(static_cast<const char *>(view.address), view.address_length));
    EXPECT_STREQ("node_1_", view.name); // harmless in a web page
    EXPECT_STREQ("tcp", view.transport);
}

TEST_F(MeetTest, AnyChangedBitIsNoticed)
{
    for (long i = 0; i < length * 8; ++i) {
        std::vector<uint8_t> copy(message, message + length);
        udmon_auth_view_t view;

        copy[i / 8] ^= 1 << (i % 8);
        EXPECT_FALSE((udmon_meet_auth_parse(copy.data(), copy.size(), &view) == 0) &&
                     udmon_meet_auth_check(&secret, &view)) << i;
    }
    for (long i = 0; i < length; ++i) {
        std::vector<uint8_t> copy(message, message + i);
        udmon_auth_view_t view;
        EXPECT_NE(0, udmon_meet_auth_parse(copy.data(), copy.size(), &view));
    }
}

TEST_F(MeetTest, WelcomeIsSignedForThisAuth)
{
    const udmon_auth_t *auth = reinterpret_cast<const udmon_auth_t *>(message);
    udmon_welcome_t welcome = {};
    udmon_auth_t another = *auth;

    welcome.token = 77;
    ASSERT_EQ(0, udmon_meet_welcome_sign(&secret, auth, &welcome));
    EXPECT_TRUE(udmon_meet_welcome_check(&secret, auth, &welcome));
    EXPECT_FALSE(udmon_meet_welcome_check(&other, auth, &welcome));
    another.mac[0] ^= 1;
    EXPECT_FALSE(udmon_meet_welcome_check(&secret, &another, &welcome));
    welcome.token = 78;
    EXPECT_FALSE(udmon_meet_welcome_check(&secret, auth, &welcome));
}

TEST_F(MeetTest, NonceIsGoodOnceAndForItsClientOnly)
{
    auto gate = std::make_unique<udmon_gate_t>(), foreign = std::make_unique<udmon_gate_t>();
    uint8_t client[UDMON_NONCE_SIZE] = {1}, someone[UDMON_NONCE_SIZE] = {2};
    uint8_t nonce[UDMON_NONCE_SIZE];

    ASSERT_EQ(0, udmon_gate_open(gate.get()));
    ASSERT_EQ(0, udmon_gate_open(foreign.get()));
    ASSERT_EQ(0, udmon_gate_nonce(gate.get(), client, nonce));
    EXPECT_FALSE(udmon_gate_check(gate.get(), someone, nonce));
    EXPECT_FALSE(udmon_gate_check(foreign.get(), client, nonce));
    EXPECT_TRUE(udmon_gate_check(gate.get(), client, nonce));
    EXPECT_FALSE(udmon_gate_check(gate.get(), client, nonce)); // replayed
}

// A nonce as the server itself would have made it, a while ago.
TEST_F(MeetTest, NonceGrowsOld)
{
    auto gate = std::make_unique<udmon_gate_t>();
    uint8_t client[UDMON_NONCE_SIZE] = {1}, nonce[UDMON_NONCE_SIZE], mac[UDMON_MAC_SIZE];
    udmon_secret_t key = {};

    ASSERT_EQ(0, udmon_gate_open(gate.get()));
    key.length = sizeof(gate->key);
    memcpy(key.bytes, gate->key, sizeof(gate->key));
    auto make = [&](uint64_t age_ns) {
        uint64_t time = htole64(udmon_now_ns() - age_ns);
        ASSERT_EQ(0, udmon_sign(&key, "nonce", &time, sizeof(time), client, sizeof(client), mac));
        memcpy(nonce, &time, sizeof(time));
        memcpy(nonce + sizeof(time), mac, sizeof(nonce) - sizeof(time));
    };
    make(5000000000u);
    EXPECT_TRUE(udmon_gate_check(gate.get(), client, nonce));
    make(11000000000u);
    EXPECT_FALSE(udmon_gate_check(gate.get(), client, nonce));
}

// Filling gaps

TEST(Fill, InterpolatesAndMarks)
{
    udmon_sample_t s[] = {{99, 0}, {10, 0}, {99, 0}, {99, 0}, {40, 0}, {99, 0}};
    unsigned char present[] = {0, 1, 0, 0, 1, 0};
    double wanted[] = {10, 10, 20, 30, 40, 40};

    EXPECT_EQ(4, udmon_fill(s, present, 6));
    for (int i = 0; i < 6; ++i) {
        EXPECT_DOUBLE_EQ(wanted[i], s[i].value) << i;
        EXPECT_EQ(!present[i], s[i].filled) << i;
    }
}

TEST(Fill, NothingMeasuredNothingMissingNothingAtAll)
{
    udmon_sample_t s[] = {{1, 0}, {2, 0}};
    unsigned char none[] = {0, 0}, all[] = {1, 1};

    EXPECT_EQ(-ENODATA, udmon_fill(s, none, 2));
    EXPECT_EQ(1, s[0].value);
    EXPECT_EQ(0, udmon_fill(s, all, 2));
    EXPECT_EQ(0, udmon_fill(s, none, 0));
}

// Loop

TEST(Loop, TimersFireInOrderAndCancel)
{
    static std::string fired;
    udmon_loop_t loop;
    udmon_timer_t timers[4] = {};
    static const char *names = "abcd";

    fired.clear();
    ASSERT_EQ(0, udmon_loop_open(&loop));
    for (int i = 0; i < 4; ++i) {
        timers[i].arg = const_cast<char *>(&names[i]);
        timers[i].fire = [](udmon_timer_t *t) { fired += *static_cast<char *>(t->arg); };
    }
    udmon_timer_set(&loop, &timers[0], 30);
    udmon_timer_set(&loop, &timers[1], 10);
    udmon_timer_set(&loop, &timers[2], 20);
    udmon_timer_set(&loop, &timers[3], 1);
    udmon_timer_set(&loop, &timers[3], 40); // moved
    udmon_timer_cancel(&timers[2]);
    for (int i = 0; (i < 1000) && (fired.size() < 3); ++i) {
        struct epoll_event event;
        epoll_wait(loop.epoll_fd, &event, 1, 100);
        udmon_loop_run(&loop);
    }
    EXPECT_EQ("bad", fired);
    udmon_loop_close(&loop);
}

} // namespace

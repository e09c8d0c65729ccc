// Records longer than a datagram: how they are cut, and put together from what comes.
#include "udmon_chan_fixture.h"

#include <algorithm>
#include <map>

namespace
{

// What is in a datagram of pieces: number, offset and length of each.
struct Piece {
    uint64_t seq;
    uint32_t total, offset;
    uint16_t length;
};

std::vector<Piece> pieces(const std::string &wire)
{
    const struct udmon_dgram *dgram = reinterpret_cast<const struct udmon_dgram *>(wire.data());
    std::vector<Piece> out;
    size_t at = sizeof(*dgram);

    if (dgram->type == UDMON_PIECES) {
        for (unsigned i = 0; i < le16toh(dgram->count); ++i) {
            struct udmon_piece piece;
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
        std::string bytes = record;
        int pumped;

        ASSERT_EQ(0, udmon_chan_push_pump(&a.chan, bytes.data(), bytes.size(), &pumped));
        ASSERT_EQ((a.room == 0) ? -EAGAIN : 0, pumped);
        std::fill(bytes.begin(), bytes.end(), '#'); // they are the caller's again
    }
    void reconnect()
    {
        a.wire.clear();
        ASSERT_EQ(0, udmon_chan_connect(&a.chan, 4096, 43, 0));
        ASSERT_EQ(0, udmon_chan_connect(&b.chan, 4096, 43, udmon_chan_sent_before(&a.chan)));
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
    EXPECT_EQ(4096u, a.wire.back().size());
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

// What of a record was sent from the caller's memory is not there for another connection.
TEST_F(LongChanTest, ARecordHalfSentGoesWithItsConnection)
{
    push(std::string(6000, 'g'));
    ASSERT_EQ(1u, a.wire.size()); // its end waits
    reconnect();
    EXPECT_EQ(1u, stats(a).dropped);
    EXPECT_EQ(0u, stats(a).queued);
    push("next");
    EXPECT_EQ(0, udmon_chan_pump(&a.chan, 1));
    carry(a, b);
    EXPECT_EQ(std::vector<std::string>{"next"}, b.delivered);
    EXPECT_EQ(std::vector<uint64_t>{1}, b.seqs);
}

// A record that was in the queue as a whole is sent again as a whole.
TEST_F(LongChanTest, ARecordHalfSentFromTheQueueIsSentAgain)
{
    std::string kept(6000, 'k');

    a.room = 0;
    push(kept);
    push("next");
    a.room = 1;
    EXPECT_EQ(-EAGAIN, udmon_chan_pump(&a.chan, 1));
    ASSERT_EQ(1u, a.wire.size());
    reconnect();
    a.room = 100;
    EXPECT_EQ(0, udmon_chan_pump(&a.chan, 1));
    carry(a, b);
    EXPECT_EQ((std::vector<std::string>{kept, "next"}), b.delivered);
    EXPECT_EQ(0u, stats(a).dropped);
}

// Of the half of it that is not there nobody may fall a victim but itself.
TEST_F(LongChanTest, ARecordHalfSentAndDroppedTakesNoOtherAlong)
{
    size_t count = 0;

    push(std::string(6000, 'g'));
    a.room = 0;
    for (; stats(a).dropped == 0; ++count) {
        push(std::string(5000, 'n'));
    }
    reconnect();
    EXPECT_EQ(1u, stats(a).dropped);
    a.room = 1 << 20;
    EXPECT_EQ(0, udmon_chan_pump(&a.chan, 1));
    carry(a, b);
    EXPECT_EQ(std::vector<std::string>(count, std::string(5000, 'n')), b.delivered);
}

TEST_F(LongChanTest, ARecordSentToItsEndTakesNoOtherAlong)
{
    std::string next(6000, 'n');

    push(std::string(6000, 'g'));
    a.room = 0;
    push(next);
    a.room = 1;
    EXPECT_EQ(-EAGAIN, udmon_chan_pump(&a.chan, 1)); // the end of the first is out
    ASSERT_EQ(1u, stats(a).queued);
    reconnect();
    a.room = 100;
    EXPECT_EQ(0, udmon_chan_pump(&a.chan, 1));
    carry(a, b);
    EXPECT_EQ(std::vector<std::string>{next}, b.delivered);
    EXPECT_EQ(0u, stats(a).dropped);
}

// A datagram with one piece of record `seq`.
std::string one_piece(uint64_t seq, uint32_t total, uint32_t offset, const std::string &bytes)
{
    struct udmon_dgram header = {};
    struct udmon_piece piece = {htole32(total), htole32(offset), htole16(uint16_t(bytes.size()))};

    header.version = UDMON_VERSION;
    header.type = UDMON_PIECES;
    header.count = htole16(1);
    header.seq = htole64(seq);
    return std::string(reinterpret_cast<char *>(&header), sizeof(header))
        .append(reinterpret_cast<char *>(&piece), sizeof(piece))
        .append(bytes);
}

TEST_F(LongChanTest, PiecesThatCannotBeAreRefused)
{
    const struct {
        uint32_t total, offset;
        uint16_t length;
        int good;
    } cases[] = {
        {100, 97, 3, 1},          {100, 0, 97, 1},     {100, 97, 4, 0}, // beyond the end
        {100, 112, 16, 0},        {100, 100, 1, 0},    {100, 99, 2, 0},
        {100, 0, 0, 0},           {0, 0, 0, 0},        {65537, 0, 16, 0}, // longer than max_record
        {100, 4294967280, 16, 0}, {100, 96, 65535, 0},
    };

    for (const auto &c : cases) {
        std::string dgram = one_piece(0, c.total, c.offset, std::string(c.length, 'x'));
        int ret = udmon_chan_receive(&b.chan, dgram.data(), dgram.size());
        EXPECT_EQ(c.good ? int(UDMON_PIECES) : -EPROTO, ret)
            << c.total << " " << c.offset << " " << c.length;
    }
    EXPECT_EQ(std::vector<std::string>{std::string(100, 'x')}, b.delivered);
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

// In whatever order the pieces of a record come, and cut wherever: it is as it was. What overlaps a
// piece that has come is of no use.
TEST_F(LongChanTest, PiecesInAnyOrderMakeTheRecord)
{
    std::mt19937 random(29);
    std::vector<std::string> records;

    for (uint64_t seq = 0; seq < 1000; ++seq) {
        std::string record(16 + random() % 3000, 0);
        for (char &c : record) {
            c = char(random());
        }
        std::vector<size_t> cuts = {0, record.size()};
        for (unsigned n = random() % 12; n > 0; --n) {
            cuts.push_back(random() % record.size());
        }
        std::sort(cuts.begin(), cuts.end());
        cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
        std::vector<std::pair<size_t, size_t>> parts;
        for (size_t i = 0; i + 1 < cuts.size(); ++i) {
            parts.emplace_back(cuts[i], cuts[i + 1] - cuts[i]);
        }
        std::shuffle(parts.begin(), parts.end(), random);
        for (size_t i = 0; i < parts.size(); ++i) {
            size_t from = parts[i].first, length = parts[i].second;
            std::string dgram = one_piece(seq, record.size(), from, record.substr(from, length));
            EXPECT_EQ(UDMON_PIECES, udmon_chan_receive(&b.chan, dgram.data(), dgram.size()));
            from += length / 2;
            if ((i + 1 < parts.size()) && (from > 0)) { // to the end of the record: wrong bytes
                dgram = one_piece(seq, record.size(), from, std::string(record.size() - from, '!'));
                EXPECT_EQ(UDMON_PIECES, udmon_chan_receive(&b.chan, dgram.data(), dgram.size()));
            }
        }
        records.push_back(record);
    }
    EXPECT_EQ(records, b.delivered);
}

// More holes than are kept: the piece that would make one more is lost, and comes again.
TEST_F(LongChanTest, PiecesFarApartAreBounded)
{
    std::string record(2 * (UDMON_RANGES + 1), 'x');
    auto give = [&](size_t i) {
        std::string dgram = one_piece(0, record.size(), i, std::string(1, char('a' + i)));
        udmon_chan_receive(&b.chan, dgram.data(), dgram.size());
    };

    for (size_t i = 0; i < record.size(); i += 2) {
        give(i);
    }
    for (size_t i = 1; i < record.size(); i += 2) {
        give(i);
    }
    EXPECT_TRUE(b.delivered.empty());
    give(record.size() - 2);
    ASSERT_EQ(1u, b.delivered.size());
    for (size_t i = 0; i < record.size(); ++i) {
        EXPECT_EQ(char('a' + i), b.delivered[0][i]);
    }
}

} // namespace

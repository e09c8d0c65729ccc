/*
 * Arithmetic of the ER FIFO, against tables and against a model that is nothing but an array of
 * units, each free or taken.
 */
#include "internals.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>
#include <vector>

namespace
{

uct_glex_fifo_tx_t make_tx(uint16_t head, uint16_t tail, uint16_t units, uint16_t msgs = 0,
                           uint16_t acked = 0, uint16_t msgs_max = 1000)
{
    uct_glex_fifo_tx_t tx = {};

    tx.head = head;
    tx.acked.units = tail;
    tx.units = units;
    tx.msgs = msgs;
    tx.acked.msgs = acked;
    tx.msgs_max = msgs_max;
    return tx;
}

/* A receiver with what it consumed and what it told of that */
struct FifoRx : uct_glex_fifo_rx_t {
    FifoRx() : uct_glex_fifo_rx_t()
    {
    }

    void consume(uint16_t used)
    {
        consumed.units += used;
        consumed.msgs += 1;
    }

    bool must_tell() const
    {
        return uct_glex_fifo_must_tell(this, consumed, told);
    }

    uct_glex_fifo_count_t consumed = {0, 0}, told = {0, 0};
};

struct RoomCase {
    uint16_t units, head, tail;
    unsigned n;
    int ok;
    uint16_t offset, skip; /* if ok */
    const char *what;
};

const RoomCase room_cases[] = {
    {16, 0, 0, 1, 1, 0, 0, "empty, one unit"},
    {16, 0, 0, 8, 1, 0, 0, "empty, the longest message"},
    {16, 0, 0, 16, 1, 0, 0, "empty, all of it"},
    {16, 8, 0, 8, 1, 8, 0, "up to the very end"},
    {16, 8, 0, 9, 0, 0, 0, "one more than is free"},
    {16, 16, 0, 1, 0, 0, 0, "full"},
    {16, 16, 1, 1, 1, 0, 0, "one unit came free, at the start"},
    {16, 15, 0, 1, 1, 15, 0, "the last unit"},
    {16, 15, 0, 2, 0, 0, 0, "last unit does not hold two, start is taken"},
    {16, 15, 2, 2, 1, 0, 1, "the last unit is skipped"},
    {16, 15, 1, 2, 0, 0, 0, "skipping needs one more than is free"},
    {16, 9, 9, 8, 1, 0, 7, "empty, head behind the middle: wrap with the longest skip"},
    {16, 9, 8, 8, 1, 0, 7, "wrap fits exactly: 7 skipped and 8 used of 15"},
    {16, 10, 8, 8, 1, 0, 6, "wrap fits exactly: 6 skipped and 8 used of 14"},
    {16, 10, 7, 8, 0, 0, 0, "wrap misses one unit"},
    {16, 0xffff, 0xffff, 1, 1, 15, 0, "counter at its end, last unit"},
    {16, 0xffff, 0xffff, 2, 1, 0, 1, "counter at its end, skip over it"},
    {16, 0x0004, 0xfff8, 4, 1, 4, 0, "head has wrapped, tail has not"},
    {16, 0x0004, 0xfff8, 5, 0, 0, 0, "head has wrapped, tail has not: full"},
    {16384, 0xc001, 0xc000, 8192, 1, 1, 0, "longest FIFO"},
    {16384, 0x0000, 0xc000, 1, 0, 0, 0, "longest FIFO, full, head has wrapped"},
    {2, 1, 1, 1, 1, 1, 0, "shortest FIFO"},
    {2, 2, 0, 1, 0, 0, 0, "shortest FIFO, full"},
    {0, 0, 0, 1, 0, 0, 0, "no FIFO"},
    {0, 77, 77, 1, 0, 0, 0, "no FIFO any more"},
};

TEST(Fifo, RoomTable)
{
    for (const RoomCase &c : room_cases) {
        uct_glex_fifo_tx_t tx = make_tx(c.head, c.tail, c.units);
        uint16_t offset = 0xaaaa, skip = 0xaaaa;

        SCOPED_TRACE(c.what);
        EXPECT_EQ(uct_glex_fifo_reserve(&tx, c.n, &offset, &skip), c.ok);
        if (c.ok) {
            EXPECT_EQ(offset, c.offset);
            EXPECT_EQ(skip, c.skip);
        }
        EXPECT_EQ(tx.head, c.head) << "to reserve uses nothing up";
    }
}

/* What the model says: the first place for n units in a row, from the head on, without passing over
 * taken ones */
bool model_reserve(unsigned units, unsigned head, unsigned used, unsigned n, unsigned *offset,
                   unsigned *skip)
{
    std::vector<bool> taken(units);

    for (unsigned i = 0; i < used; ++i) {
        taken[(head + units - 1 - i % units) % units] = true;
    }
    for (*skip = 0, *offset = head % units; *offset + n > units; ++*skip) {
        if (taken[*offset]) {
            return false;
        }
        *offset = (*offset + 1) % units;
    }
    for (unsigned i = 0; i < n; ++i) {
        if (taken[*offset + i]) {
            return false;
        }
    }
    return true;
}

/* Every offset, every filling, every length; with the counters at 0 and where they wrap */
TEST(Fifo, RoomEverywhere)
{
    for (unsigned units : {2, 4, 8, 16, 32, 64}) {
        for (unsigned base : {0u, 0x7fc0u, 0xffc0u}) {
            for (unsigned i = 0; i < 2 * units; ++i) {
                for (unsigned used = 0; used <= units; ++used) {
                    for (unsigned n = 1; n <= units / 2; ++n) {
                        unsigned head = base + i, offset = 0, skip = 0;
                        bool ok = model_reserve(units, head, used, n, &offset, &skip);
                        uct_glex_fifo_tx_t tx = make_tx(head, head - used, units);
                        uint16_t got_offset = 0, got_skip = 0;

                        ASSERT_EQ(uct_glex_fifo_reserve(&tx, n, &got_offset, &got_skip), ok)
                            << units << " units, head " << head << ", used " << used
                            << ", message of " << n;
                        if (ok) {
                            ASSERT_EQ(got_offset, offset) << units << " " << head << " " << n;
                            ASSERT_EQ(got_skip, skip) << units << " " << head << " " << n;
                        }
                    }
                }
            }
        }
    }
}

/* The promise of the longest message: it fits into an empty FIFO wherever the head stands */
TEST(Fifo, LongestFitsAnywhereWhenEmpty)
{
    for (unsigned units : {4, 64, 1024, UCT_GLEX_FIFO_MAX_UNITS}) {
        for (unsigned head = 0; head < units; ++head) {
            uct_glex_fifo_tx_t tx = make_tx(head, head, units);
            uint16_t offset, skip;

            ASSERT_TRUE(
                uct_glex_fifo_reserve(&tx, uct_glex_fifo_max_message(units), &offset, &skip))
                << units << " " << head;
        }
    }
}

/* Sender and receiver agree on where a message lies: every head, every length */
TEST(Fifo, ArriveWhereReserved)
{
    for (unsigned units : {2, 4, 16, 64}) {
        for (unsigned base : {0u, 0xffc0u}) {
            for (unsigned i = 0; i < 2 * units; ++i) {
                for (unsigned n = 1; n <= units / 2; ++n) {
                    uint16_t head = base + i, offset, skip, rx_offset, used = 0;
                    uct_glex_fifo_tx_t tx = make_tx(head, head, units);
                    FifoRx rx;

                    rx.next = rx.consumed.units = rx.told.units = head;
                    rx.units = units;
                    ASSERT_TRUE(uct_glex_fifo_reserve(&tx, n, &offset, &skip));
                    uct_glex_fifo_commit(&tx, n, skip);
                    ++tx.msgs;
                    ASSERT_TRUE(uct_glex_fifo_arrive(&rx, n, skip != 0, &rx_offset, &used));
                    ASSERT_EQ(rx_offset, offset);
                    ASSERT_EQ(used, n + skip);
                    ASSERT_EQ(rx.next, tx.head);
                    rx.consume(used);
                    ASSERT_EQ(rx.consumed.units, tx.head);
                    ASSERT_EQ(rx.consumed.msgs, tx.msgs);
                }
            }
        }
    }
}

/* What a peer says is not trusted: nothing beyond the end is accepted, and nothing is changed */
TEST(Fifo, ArriveRefusesWhatCannotLieThere)
{
    for (unsigned units : {2, 16, 64}) {
        for (unsigned head = 0; head < units; ++head) {
            for (unsigned n : {units - head + 1, units + 1, 4096u, 262144u}) {
                FifoRx rx;
                uint16_t offset, used;

                rx.next = head;
                rx.units = units;
                ASSERT_FALSE(uct_glex_fifo_arrive(&rx, n, 0, &offset, &used));
                ASSERT_EQ(rx.next, head);
                if (n > units) {
                    ASSERT_FALSE(uct_glex_fifo_arrive(&rx, n, 1, &offset, &used));
                    ASSERT_EQ(rx.next, head);
                }
            }
        }
    }
}

struct MsgsCase {
    uint16_t msgs, acked, max;
    int ok;
};

const MsgsCase msgs_cases[] = {
    {0, 0, 1, 1},           {1, 0, 1, 0},           {1, 1, 1, 1},          {3, 0, 4, 1},
    {4, 0, 4, 0},           {0xffff, 0xfffc, 4, 1}, {0, 0xfffc, 4, 0},     {0, 0xfffd, 4, 1},
    {2, 0xffff, 4, 1},      {3, 0xffff, 4, 0},      {0x8000, 0, 4, 0},     {0, 0, 0, 0},
    {0x8003, 0x8000, 4, 1}, {0x8004, 0x8000, 4, 0}, {0x4000, 0, 16384, 0},
};

TEST(Fifo, MessagesOnTheirWayAreLimited)
{
    for (const MsgsCase &c : msgs_cases) {
        uct_glex_fifo_tx_t tx = make_tx(0, 0, 64, c.msgs, c.acked, c.max);
        uint16_t offset, skip;

        EXPECT_EQ(uct_glex_fifo_reserve(&tx, 1, &offset, &skip), c.ok)
            << "sent " << c.msgs << ", acknowledged " << c.acked << ", limit " << c.max;
    }
}

struct UpdateCase {
    uint16_t tail, acked, units, msgs;
    int more;
    uint16_t new_tail, new_acked;
};

const UpdateCase update_cases[] = {
    {0, 0, 0, 0, 0, 0, 0},
    {10, 5, 10, 5, 0, 10, 5},
    {10, 5, 12, 6, 1, 12, 6},
    {10, 5, 9, 4, 0, 10, 5},  /* overtaken by a later header */
    {10, 5, 10, 6, 1, 10, 6}, /* a message without units */
    {10, 5, 10, 4, 0, 10, 5},
    {0xfff0, 0xffff, 0x0010, 0x0001, 1, 0x10, 1}, /* both wrap */
    {0x0010, 0x0001, 0xfff0, 0xffff, 0, 0x10, 1}, /* from before the wrap */
    {0, 0, 0x4000, 0x4000, 1, 0x4000, 0x4000},
};

TEST(Fifo, UpdateTakesOnlyProgress)
{
    for (const UpdateCase &c : update_cases) {
        uct_glex_fifo_tx_t tx = make_tx(c.tail, c.tail, 64, c.acked, c.acked);

        EXPECT_EQ(uct_glex_fifo_update(&tx, c.units, c.msgs), c.more) << c.units << " " << c.msgs;
        EXPECT_EQ(tx.acked.units, c.new_tail);
        EXPECT_EQ(tx.acked.msgs, c.new_acked);
    }
}

struct TellCase {
    uint16_t units, msgs_max, consumed, msgs;
    int must;
    const char *what;
};

const TellCase tell_cases[] = {
    {64, 16, 0, 0, 0, "nothing consumed"},
    {64, 16, 15, 1, 0, "one unit less than a quarter"},
    {64, 16, 16, 1, 1, "a quarter of the units"},
    {64, 16, 7, 7, 0, "one message less than half"},
    {64, 16, 8, 8, 1, "half of the messages"},
    {64, 1, 1, 1, 1, "one message at a time"},
    {2, 16, 1, 1, 1, "shortest FIFO"},
    {16384, 4, 4095, 1, 0, "longest FIFO, one unit less than a quarter"},
    {16384, 4, 4096, 1, 1, "longest FIFO, a quarter"},
};

TEST(Fifo, MustTellTable)
{
    for (const TellCase &c : tell_cases) {
        for (uint16_t base : {0, 0xfff8}) {
            FifoRx rx;

            SCOPED_TRACE(c.what);
            uct_glex_fifo_set_size(&rx, c.units, c.msgs_max, 0);
            rx.told.units = base;
            rx.told.msgs = base;
            rx.consumed.units = base + c.consumed;
            rx.consumed.msgs = base + c.msgs;
            EXPECT_EQ(rx.must_tell(), c.must);
            rx.told = rx.consumed;
            EXPECT_FALSE(rx.must_tell());
        }
    }
}

/* One FIFO from both ends, everything consumed at once and told only when it must be */
class Ends
{
  public:
    Ends(unsigned units, unsigned msgs_max, unsigned start, bool is_published)
        : tx_(make_tx(start, start, units, 0, 0, msgs_max))
    {
        rx_.next = rx_.consumed.units = rx_.told.units = start;
        uct_glex_fifo_set_size(&rx_, units, msgs_max, is_published);
    }

    /* Returns whether the message could be sent at once or after what the receiver had to tell */
    bool pass(unsigned n)
    {
        uint16_t offset, skip, used = 0;

        if (!uct_glex_fifo_reserve(&tx_, n, &offset, &skip)) {
            return false;
        }
        uct_glex_fifo_commit(&tx_, n, skip);
        ++tx_.msgs;
        EXPECT_TRUE(uct_glex_fifo_arrive(&rx_, n, skip != 0, &offset, &used));
        rx_.consume(used);
        if (rx_.must_tell()) {
            uct_glex_fifo_update(&tx_, rx_.consumed.units, rx_.consumed.msgs);
            rx_.told = rx_.consumed;
        }
        return true;
    }

  private:
    uct_glex_fifo_tx_t tx_;
    FifoRx rx_;
};

void expect_no_standstill(unsigned units, unsigned msgs_max, unsigned n, unsigned start,
                          unsigned before, bool is_published)
{
    Ends ends(units, msgs_max, start, is_published);

    for (unsigned i = 0; i < before; ++i) {
        ASSERT_TRUE(ends.pass(1));
    }
    for (unsigned i = 0; i < 4; ++i) {
        ASSERT_TRUE(ends.pass(n)) << units << " units, " << msgs_max << " messages, length " << n
                                  << ", start " << start << ", after " << before << " short ones, "
                                  << is_published;
    }
}

/* No standstill: as soon as everything on its way was consumed and what must be told was told, any
 * message can be sent, whatever short ones went before */
TEST(Fifo, NobodyIsBlockedForEver)
{
    for (unsigned units : {4, 8, 16, 64}) {
        for (unsigned msgs_max : {1, 2, 4, 5, 64}) {
            for (unsigned n = 1; n <= uct_glex_fifo_max_message(units); ++n) {
                for (unsigned start = 0; start < units; ++start) {
                    for (unsigned before = 0; before <= units; ++before) {
                        expect_no_standstill(units, msgs_max, n, start, before, false);
                        expect_no_standstill(units, msgs_max, n, start, before, true);
                    }
                }
            }
        }
    }
}

/* A long life: random lengths, messages without units between, counters that come late, twice or
 * out of order, over several wraps of the counters. No unit is written while it holds a message
 * that was not consumed. */
TEST(Fifo, NothingIsOverwritten)
{
    struct Sent {
        uint16_t offset;
        unsigned n;
        bool wrap;
        unsigned id;
    };

    for (unsigned units : {4, 16, 64, 1024}) {
        std::mt19937 random(units);
        uct_glex_fifo_tx_t tx = make_tx(0, 0, units, 0, 0, units / 2);
        FifoRx rx;
        std::vector<unsigned> memory(units); /* 0: free, else the message's number */
        std::deque<Sent> wire;
        std::vector<std::pair<uint16_t, uint16_t>> headers;
        unsigned id = 0;

        uct_glex_fifo_set_size(&rx, units, units / 2, 0);
        for (unsigned long used_in_all = 0; used_in_all < 5 * 65536;) {
            unsigned n = 1 + random() % (units / 2);
            uint16_t offset, skip, used;

            if (((random() % 3) == 0) && uct_glex_fifo_may_send(&tx)) {
                ++tx.msgs; /* one in its event: without units */
                wire.push_back({0, 0, false, 0});
            } else if (((random() % 3) != 0) && uct_glex_fifo_reserve(&tx, n, &offset, &skip)) {
                ++id;
                for (unsigned i = 0; i < n; ++i) {
                    ASSERT_LT(offset + i, units);
                    ASSERT_EQ(memory[offset + i], 0u) << "overwritten";
                    memory[offset + i] = id;
                }
                uct_glex_fifo_commit(&tx, n, skip);
                ++tx.msgs;
                wire.push_back({offset, n, skip != 0, id});
                used_in_all += n + skip;
            } else if (!wire.empty()) {
                Sent sent = wire.front();

                wire.pop_front();
                used = 0;
                if (sent.n > 0) {
                    ASSERT_TRUE(uct_glex_fifo_arrive(&rx, sent.n, sent.wrap, &offset, &used));
                    ASSERT_EQ(offset, sent.offset);
                }
                for (unsigned i = 0; i < sent.n; ++i) {
                    ASSERT_EQ(memory[offset + i], sent.id) << "not what was sent";
                    memory[offset + i] = 0;
                }
                rx.consume(used);
                headers.push_back({rx.consumed.units, rx.consumed.msgs});
                if (headers.size() > 8) {
                    headers.erase(headers.begin());
                }
            } else {
                uct_glex_fifo_update(&tx, rx.consumed.units, rx.consumed.msgs);
            }
            if (!headers.empty() && ((random() % 4) == 0)) {
                auto header = headers[random() % headers.size()];

                uct_glex_fifo_update(&tx, header.first, header.second);
            }
        }
        EXPECT_GT(id, 100u);
    }
}

} // namespace

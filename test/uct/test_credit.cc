/*
 * Arithmetic of MP credits: tables, and a receiver with 64 senders whose headers come late and out
 * of order, whose windows grow and are recalled.
 */
#include "internals.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace {

/* A receiver with the last limit that it told */
struct CreditRx : uct_glex_credit_rx_t {
    CreditRx() : uct_glex_credit_rx_t() {}

    uint16_t told = 0;
};

struct UpdateCase {
    uint16_t    limit;
    uint8_t     epoch;
    uint16_t    told;
    uint8_t     told_epoch;
    int         more;
    uint16_t    result;
    const char *what;
};

const UpdateCase update_cases[] = {
    {8, 0, 8, 0, 0, 8, "the same again"},
    {8, 0, 9, 0, 1, 9, "one more"},
    {8, 0, 7, 0, 0, 8, "overtaken: an older one"},
    {8, 0, 9, 1, 0, 8, "of another epoch: a recall is on its way"},
    {8, 1, 9, 0, 0, 8, "stale: told before the recall was answered"},
    {8, 15, 9, 15, 1, 9, "last epoch"},
    {8, 0, 9, 15, 0, 8, "stale, over the wrap of epochs"},
    {0xfff8, 0, 0x0008, 0, 1, 0x0008, "over the wrap"},
    {0x0008, 0, 0xfff8, 0, 0, 0x0008, "older than the wrap"},
    {0, 0, 0x4000, 0, 1, 0x4000, "the largest window"},
    {0x8000, 0, 0x7fff, 0, 0, 0x8000, "one back at the sign"},
    {0x7fff, 0, 0x8000, 0, 1, 0x8000, "one forth at the sign"},
};

TEST(Credit, UpdateTable)
{
    for (const UpdateCase &c : update_cases) {
        uct_glex_credit_tx_t tx = {};

        SCOPED_TRACE(c.what);
        tx.limit = c.limit;
        tx.sent  = c.limit;
        tx.epoch = c.epoch;
        EXPECT_EQ(uct_glex_credit_update(&tx, c.told, c.told_epoch), c.more);
        EXPECT_EQ(tx.limit, c.result);
        EXPECT_EQ(uct_glex_credit_avail(&tx), (uint16_t)(c.result - c.limit));
    }
}

struct RecallCase {
    uint16_t    sent, limit;
    uint8_t     epoch;
    uint16_t    wanted, result;
    uint8_t     new_epoch;
    const char *what;
};

const RecallCase recall_cases[] = {
    {0, 16, 0, 8, 8, 1, "all that is wanted"},
    {12, 16, 0, 8, 12, 1, "as far as was sent"},
    {16, 16, 0, 8, 16, 1, "nothing is left to give"},
    {4, 8, 0, 16, 8, 1, "never up"},
    {0xfff8, 0x0008, 3, 0x0000, 0x0000, 4, "over the wrap"},
    {0x0004, 0x0008, 3, 0xfffc, 0x0004, 4, "over the wrap, as far as was sent"},
    {0, 16, 15, 8, 8, 0, "epochs wrap"},
};

TEST(Credit, RecallTable)
{
    for (const RecallCase &c : recall_cases) {
        uct_glex_credit_tx_t tx = {};

        SCOPED_TRACE(c.what);
        tx.sent  = c.sent;
        tx.limit = c.limit;
        tx.epoch = c.epoch;
        EXPECT_EQ(uct_glex_credit_recall(&tx, c.wanted), c.result);
        EXPECT_EQ(tx.limit, c.result);
        EXPECT_EQ(tx.epoch, c.new_epoch);
        EXPECT_EQ(tx.sent, c.sent);
    }
}

struct RecalledCase {
    uint16_t    rcvd, told, window;
    uint16_t    limit, least;
    uint16_t    new_window, freed, owed;
    const char *what;
};

const RecalledCase recalled_cases[] = {
    {0, 32, 32, 8, 8, 8, 24, 0, "all that was wanted comes back"},
    {4, 32, 28, 8, 4, 4, 24, 0, "some were received meanwhile"},
    {0, 32, 32, 20, 8, 20, 12, 0, "some are still on their way"},
    {32, 32, 32, 32, 8, 8, 24, 8, "all were used up: a least window is owed"},
    {30, 32, 32, 32, 8, 8, 24, 6, "two are on their way: the rest is owed"},
    {0xfffe, 0x001e, 32, 0x0006, 8, 8, 24, 0, "over the wrap"},
    {10, 18, 8, 100, 8, 8, 0, 0, "a limit that was never told"},
    {10, 14, 4, 14, 8, 4, 0, 0, "less than the least: nothing is taken, nothing invented"},
};

TEST(Credit, RecalledTable)
{
    for (const RecalledCase &c : recalled_cases) {
        CreditRx rx;

        SCOPED_TRACE(c.what);
        rx.rcvd   = c.rcvd;
        rx.told   = c.told;
        rx.window = c.window;
        rx.epoch  = UCT_GLEX_EPOCH_MASK;
        EXPECT_EQ(uct_glex_credit_recalled(&rx, &rx.told, c.limit, c.least), c.freed);
        EXPECT_EQ(rx.window, c.new_window);
        EXPECT_EQ(uct_glex_credit_owed(&rx, rx.told), c.owed);
        EXPECT_EQ(rx.epoch, 0);
    }
}

/* What was told before the recall must not bring the credits back */
TEST(Credit, StaleLimitAfterRecall)
{
    uct_glex_credit_tx_t tx = {};

    ASSERT_TRUE(uct_glex_credit_update(&tx, 32, 0));
    tx.sent = 4;
    ASSERT_EQ(uct_glex_credit_recall(&tx, 8), 8);
    EXPECT_FALSE(uct_glex_credit_update(&tx, 36, 0));
    EXPECT_EQ(uct_glex_credit_avail(&tx), 4);
    EXPECT_TRUE(uct_glex_credit_update(&tx, 12, 1));
    EXPECT_EQ(uct_glex_credit_avail(&tx), 8);
}

struct OwedCase {
    uint16_t    rcvd, told, window, owed;
    int         must;
    const char *what;
};

const OwedCase owed_cases[] = {
    {0, 8, 8, 0, 0, "nothing received"},
    {3, 8, 8, 3, 0, "less than half"},
    {4, 8, 8, 4, 1, "half"},
    {8, 8, 8, 8, 1, "all used up"},
    {0, 1, 1, 0, 0, "window of one, unused"},
    {1, 1, 1, 1, 1, "window of one, used"},
    {1, 3, 3, 1, 0, "odd window, one of three"},
    {2, 3, 3, 2, 1, "odd window, two of three"},
    {0xffff, 0x0003, 8, 4, 1, "the limit wraps"},
    {0x0002, 0x0006, 8, 4, 1, "all have wrapped"},
    {100, 100, 0, 0, 0, "no window"},
    {0, 0, 8, 8, 1, "a window that was never told"},
    {0, 8, 24, 16, 1, "grown by more than half"},
};

TEST(Credit, OwedTable)
{
    for (const OwedCase &c : owed_cases) {
        CreditRx rx;

        SCOPED_TRACE(c.what);
        rx.rcvd   = c.rcvd;
        rx.told   = c.told;
        rx.window = c.window;
        EXPECT_EQ(uct_glex_credit_limit(&rx), (uint16_t)(c.rcvd + c.window));
        EXPECT_EQ(uct_glex_credit_owed(&rx, rx.told), c.owed);
        EXPECT_EQ(uct_glex_credit_must_tell(&rx, rx.told), c.must);
    }
}

struct GrowthCase {
    uint16_t    window;
    unsigned    inc, max, free_units;
    uint16_t    growth;
    const char *what;
};

const GrowthCase growth_cases[] = {
    {8, 16, 256, 1000, 16, "at least the increment"},
    {32, 16, 256, 1000, 32, "doubles"},
    {200, 16, 256, 1000, 56, "up to the maximum"},
    {256, 16, 256, 1000, 0, "is at the maximum"},
    {300, 16, 256, 1000, 0, "is beyond the maximum"},
    {32, 16, 256, 5, 5, "no more than is free"},
    {32, 16, 256, 0, 0, "nothing is free"},
    {0, 16, 256, 1000, 16, "from nothing"},
    {1, 1, 2, 1000, 1, "smallest numbers"},
    {1, 16, 1, 1000, 0, "start is the maximum"},
    {8192, 1, UCT_GLEX_CREDIT_MAX, 65536, 8192, "largest numbers"},
};

TEST(Credit, GrowthTable)
{
    for (const GrowthCase &c : growth_cases) {
        CreditRx rx;

        SCOPED_TRACE(c.what);
        rx.window = c.window;
        EXPECT_EQ(uct_glex_credit_growth(&rx, c.inc, c.max, c.free_units), c.growth);
    }
}

/* Counters may start anywhere: sending, receiving and telling across 2^16 */
TEST(Credit, CountersWrap)
{
    for (unsigned window : {1, 2, 7, 256, UCT_GLEX_CREDIT_MAX}) {
        uct_glex_credit_tx_t tx = {};
        CreditRx rx;

        tx.sent = rx.rcvd = rx.told = tx.limit = 0xff00;
        rx.window = window;
        for (unsigned long sent = 0; sent < 3 * 65536UL;) {
            if (uct_glex_credit_must_tell(&rx, rx.told)) {
                rx.told = uct_glex_credit_limit(&rx);
                ASSERT_TRUE(uct_glex_credit_update(&tx, rx.told, rx.epoch));
            }
            ASSERT_GT(uct_glex_credit_avail(&tx), 0) << "stands still, window " << window;
            ASSERT_LE(uct_glex_credit_avail(&tx), window);
            while (uct_glex_credit_avail(&tx) > 0) {
                ++tx.sent;
                ++rx.rcvd;
                ++sent;
            }
        }
    }
}

/* ---- 64 senders and one receiver ---- */

class Receiver {
public:
    Receiver(unsigned capacity, unsigned start, unsigned max, unsigned seed)
        : capacity_(capacity), free_(capacity), start_(start), max_(max), random_(seed),
          peers_(64)
    {
        for (Peer &peer : peers_) {
            uint16_t base = random_();

            peer.tx.sent = peer.tx.limit = peer.rx.rcvd = base;
            peer.rx.window = std::min(start_, free_);
            free_ -= peer.rx.window;
            peer.rx.told = uct_glex_credit_limit(&peer.rx);
            uct_glex_credit_update(&peer.tx, peer.rx.told, 0);
        }
    }

    void step()
    {
        Peer &peer = peers_[random_() % peers_.size()];

        switch (random_() % 6) {
        case 0:
        case 1:
            send(peer);
            break;
        case 2:
        case 3:
            arrive(peer);
            break;
        case 4:
            tell(peer, (random_() % 4) == 0); /* a reply takes it along */
            break;
        case 5:
            hear(peer);
            break;
        }
        check(peer);
    }

    /* Everything on its way arrives, and what must be told is told: then all can send again */
    void settle()
    {
        for (unsigned round = 0; round < 4; ++round) {
            for (Peer &peer : peers_) {
                while (!peer.data.empty()) {
                    arrive(peer);
                }
                tell(peer, false);
                while (!peer.headers.empty()) {
                    hear(peer);
                }
                check(peer);
            }
        }
        for (Peer &peer : peers_) {
            ASSERT_FALSE(peer.recalling);
            ASSERT_GT(uct_glex_credit_avail(&peer.tx), 0)
                    << "a sender stands still for ever: window " << peer.rx.window;
        }
    }

    unsigned recalls = 0;
    unsigned grown   = 0;

private:
    struct Header {
        uint16_t limit;
        uint8_t  epoch;
        bool     recall;
        uint16_t recall_limit;
    };

    struct Data {
        bool     recalled;
        uint16_t limit;
        bool     more;
    };

    struct Peer {
        uct_glex_credit_tx_t tx = {};
        CreditRx rx;
        bool                 recalling = false;
        std::vector<Header>  headers; /* on their way to the sender, in no order */
        std::vector<Data>    data;    /* on their way to the receiver, in no order */
    };

    template <typename T> T take_any(std::vector<T> &list)
    {
        size_t i = random_() % list.size();
        T item   = list[i];

        list.erase(list.begin() + i);
        return item;
    }

    void send(Peer &peer)
    {
        uint16_t avail = uct_glex_credit_avail(&peer.tx);

        if (avail > 0) {
            ++peer.tx.sent;
            peer.data.push_back({false, 0, avail <= 2});
        }
    }

    void arrive(Peer &peer)
    {
        if (peer.data.empty()) {
            return;
        }
        Data data = take_any(peer.data);

        if (data.recalled) {
            recalled(peer, data.limit);
            return;
        }
        ++peer.rx.rcvd;
        if (data.more) {
            grow(peer);
        }
    }

    void grow(Peer &peer)
    {
        uint16_t growth = uct_glex_credit_growth(&peer.rx, 2, max_, free_);

        if (peer.recalling) {
            return;
        }
        peer.rx.window += growth;
        free_ -= growth;
        grown += growth;
        if ((growth == 0) && (peer.rx.window < max_)) {
            recall_from_other(peer);
        }
    }

    void recall_from_other(Peer &peer)
    {
        Peer *best = NULL;

        for (Peer &other : peers_) {
            if (other.recalling) {
                return;
            }
            if ((&other != &peer) && (other.rx.window > start_) &&
                ((best == NULL) || (other.rx.window > best->rx.window))) {
                best = &other;
            }
        }
        if (best != NULL) {
            best->recalling = true;
            best->headers.push_back({uct_glex_credit_limit(&best->rx), best->rx.epoch, true,
                                     (uint16_t)(best->rx.rcvd + start_)});
            ++recalls;
        }
    }

    void recalled(Peer &peer, uint16_t limit)
    {
        ASSERT_TRUE(peer.recalling);
        peer.recalling = false;
        free_ += uct_glex_credit_recalled(&peer.rx, &peer.rx.told, limit, start_);
    }

    void tell(Peer &peer, bool reply)
    {
        if (reply || uct_glex_credit_must_tell(&peer.rx, peer.rx.told)) {
            peer.rx.told = uct_glex_credit_limit(&peer.rx);
            peer.headers.push_back({peer.rx.told, peer.rx.epoch, false, 0});
        }
    }

    void hear(Peer &peer)
    {
        if (peer.headers.empty()) {
            return;
        }
        Header header = take_any(peer.headers);

        uct_glex_credit_update(&peer.tx, header.limit, header.epoch);
        if (header.recall) {
            uint16_t limit = uct_glex_credit_recall(&peer.tx, header.recall_limit);

            peer.data.push_back({true, limit, false});
        }
    }

    void check(const Peer &peer)
    {
        unsigned sum = free_;

        for (const Peer &each : peers_) {
            sum += each.rx.window;
        }
        ASSERT_EQ(sum, capacity_) << "granted + free = capacity";
        /* what is on its way, and what may still be sent, fit into what is reserved for them */
        ASSERT_LE((uint16_t)(peer.tx.limit - peer.rx.rcvd), peer.rx.window)
                << "may send more than the queue has room for";
        ASSERT_LE(uct_glex_credit_avail(&peer.tx), max_);
    }

    unsigned          capacity_, free_, start_, max_;
    std::mt19937      random_;
    std::vector<Peer> peers_;
};

struct ManyCase {
    unsigned capacity, start, max;
};

class CreditMany : public testing::TestWithParam<ManyCase> {};

TEST_P(CreditMany, GrantedAndFreeAreTheCapacity)
{
    for (unsigned seed = 1; seed <= 5; ++seed) {
        Receiver receiver(GetParam().capacity, GetParam().start, GetParam().max, seed);

        for (unsigned i = 0; i < 40000; ++i) {
            receiver.step();
            if (HasFatalFailure()) {
                return;
            }
            if ((i % 4000) == 3999) {
                receiver.settle();
                if (HasFatalFailure()) {
                    return;
                }
            }
        }
        EXPECT_GT(receiver.grown, 0u) << "the test did not do what it is for";
        EXPECT_GT(receiver.recalls, 10u) << "the test did not do what it is for";
    }
}

INSTANTIATE_TEST_SUITE_P(Tables, CreditMany,
                         testing::Values(ManyCase{64 * 8 + 32, 8, 64}, ManyCase{100, 1, 16},
                                         ManyCase{64 + 4, 1, 64}, ManyCase{1024, 4, 256}));

/* A window must not be lost by a recall: who has sent up to its limit keeps what a newcomer has */
TEST(Credit, RecallFromABusySenderLeavesAWindow)
{
    const uint16_t start    = 8;
    uct_glex_credit_tx_t tx = {};
    CreditRx rx;
    uint16_t wanted;

    rx.window = 32;
    rx.told   = uct_glex_credit_limit(&rx);
    ASSERT_TRUE(uct_glex_credit_update(&tx, rx.told, 0));
    wanted   = rx.rcvd + start;
    tx.sent  = 32; /* all was sent while the recall was on its way */
    rx.rcvd  = 32; /* and received before the answer */
    uct_glex_credit_recalled(&rx, &rx.told, uct_glex_credit_recall(&tx, wanted), start);
    EXPECT_TRUE(uct_glex_credit_must_tell(&rx, rx.told)) << "nobody tells the sender";
    uct_glex_credit_update(&tx, uct_glex_credit_limit(&rx), rx.epoch);
    EXPECT_EQ(uct_glex_credit_avail(&tx), start) << "stands still for ever";
}

} // namespace

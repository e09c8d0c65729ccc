/*
 * Arithmetic of MP credits: tables, and a receiver with 64 senders whose headers come late and out
 * of order, and whose windows grow.
 */
#include "internals.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace
{

/* A receiver with the last limit that it told */
struct CreditRx : uct_glex_credit_rx_t {
    CreditRx() : uct_glex_credit_rx_t()
    {
    }

    uint16_t told = 0;
};

struct UpdateCase {
    uint16_t limit;
    uint16_t told;
    int more;
    uint16_t result;
    const char *what;
};

const UpdateCase update_cases[] = {
    {8, 8, 0, 8, "the same again"},
    {8, 9, 1, 9, "one more"},
    {8, 7, 0, 8, "overtaken: an older one"},
    {0xfff8, 0x0008, 1, 0x0008, "over the wrap"},
    {0x0008, 0xfff8, 0, 0x0008, "older than the wrap"},
    {0, 0x4000, 1, 0x4000, "the largest window"},
    {0x8000, 0x7fff, 0, 0x8000, "one back at the sign"},
    {0x7fff, 0x8000, 1, 0x8000, "one forth at the sign"},
};

TEST(Credit, UpdateTable)
{
    for (const UpdateCase &c : update_cases) {
        uct_glex_credit_tx_t tx = {};

        SCOPED_TRACE(c.what);
        tx.limit = c.limit;
        tx.sent = c.limit;
        EXPECT_EQ(uct_glex_credit_update(&tx, c.told), c.more);
        EXPECT_EQ(tx.limit, c.result);
        EXPECT_EQ(uct_glex_credit_avail(&tx), (uint16_t)(c.result - c.limit));
    }
}

struct OwedCase {
    uint16_t rcvd, told, window, owed;
    int must;
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
        rx.rcvd = c.rcvd;
        rx.told = c.told;
        rx.window = c.window;
        EXPECT_EQ(uct_glex_credit_limit(&rx), (uint16_t)(c.rcvd + c.window));
        EXPECT_EQ(uct_glex_credit_owed(&rx, rx.told), c.owed);
        EXPECT_EQ(uct_glex_credit_must_tell(&rx, rx.told), c.must);
    }
}

struct GrowthCase {
    uint16_t window;
    unsigned inc, max;
    uint16_t growth;
    const char *what;
};

const GrowthCase growth_cases[] = {
    {8, 16, 256, 16, "at least the increment"},
    {32, 16, 256, 32, "doubles"},
    {200, 16, 256, 56, "up to the maximum"},
    {256, 16, 256, 0, "is at the maximum"},
    {300, 16, 256, 0, "is beyond the maximum"},
    {0, 16, 256, 16, "from nothing"},
    {1, 1, 2, 1, "smallest numbers"},
    {1, 16, 1, 0, "start is the maximum"},
    {8192, 1, UCT_GLEX_CREDIT_MAX, 8192, "largest numbers"},
};

TEST(Credit, GrowthTable)
{
    for (const GrowthCase &c : growth_cases) {
        CreditRx rx;

        SCOPED_TRACE(c.what);
        rx.window = c.window;
        EXPECT_EQ(uct_glex_credit_growth(&rx, c.inc, c.max), c.growth);
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
                ASSERT_TRUE(uct_glex_credit_update(&tx, rx.told));
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

class Receiver
{
  public:
    Receiver(unsigned capacity, unsigned start, unsigned max, unsigned seed)
        : capacity_(capacity), free_(capacity), max_(max), random_(seed), peers_(64)
    {
        for (Peer &peer : peers_) {
            uint16_t base = random_();

            peer.tx.sent = peer.tx.limit = peer.rx.rcvd = base;
            peer.rx.window = std::min(start, free_);
            free_ -= peer.rx.window;
            peer.rx.told = uct_glex_credit_limit(&peer.rx);
            uct_glex_credit_update(&peer.tx, peer.rx.told);
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
        for (Peer &peer : peers_) {
            while (!peer.data.empty()) {
                arrive(peer);
            }
            tell(peer, false);
            while (!peer.headers.empty()) {
                hear(peer);
            }
            check(peer);
            ASSERT_GT(uct_glex_credit_avail(&peer.tx), 0)
                << "a sender stands still for ever: window " << peer.rx.window;
        }
    }

    unsigned grown = 0;

  private:
    struct Peer {
        uct_glex_credit_tx_t tx = {};
        CreditRx rx;
        std::vector<uint16_t> headers; /* limits on their way to the sender, in no order */
        std::vector<bool> data;        /* on its way to the receiver, in no order: wants more */
    };

    template <typename T> T take_any(std::vector<T> &list)
    {
        size_t i = random_() % list.size();
        T item = list[i];

        list.erase(list.begin() + i);
        return item;
    }

    void send(Peer &peer)
    {
        uint16_t avail = uct_glex_credit_avail(&peer.tx);

        if (avail > 0) {
            ++peer.tx.sent;
            peer.data.push_back(avail <= 2);
        }
    }

    void arrive(Peer &peer)
    {
        if (peer.data.empty()) {
            return;
        }
        ++peer.rx.rcvd;
        if (take_any(peer.data)) {
            grow(peer);
        }
    }

    void grow(Peer &peer)
    {
        unsigned growth = std::min<unsigned>(uct_glex_credit_growth(&peer.rx, 2, max_), free_);

        peer.rx.window += growth;
        free_ -= growth;
        grown += growth;
    }

    void tell(Peer &peer, bool reply)
    {
        if (reply || uct_glex_credit_must_tell(&peer.rx, peer.rx.told)) {
            peer.rx.told = uct_glex_credit_limit(&peer.rx);
            peer.headers.push_back(peer.rx.told);
        }
    }

    void hear(Peer &peer)
    {
        if (!peer.headers.empty()) {
            uct_glex_credit_update(&peer.tx, take_any(peer.headers));
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

    unsigned capacity_, free_, max_;
    std::mt19937 random_;
    std::vector<Peer> peers_;
};

struct ManyCase {
    unsigned capacity, start, max;
};

class CreditMany : public testing::TestWithParam<ManyCase>
{
};

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
    }
}

INSTANTIATE_TEST_SUITE_P(Tables, CreditMany,
                         testing::Values(ManyCase{64 * 8 + 32, 8, 64}, ManyCase{100, 1, 16},
                                         ManyCase{64 + 4, 1, 64}, ManyCase{1024, 4, 256}));

} // namespace

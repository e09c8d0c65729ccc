/*
 * Many send to one through the shared channel: each that wants to grow gets an equal part of the
 * message queue, whoever came first, and what idle ones have goes to the busy.
 */
#include "traffic.h"

namespace {

const uint8_t AM_ID = 3;

/* Interfaces of one process that send to one more */
class Senders {
public:
    explicit Senders(unsigned count) : receiver(md)
    {
        receiver.on_am(AM_ID, [](const void *, size_t) {});
        for (unsigned i = 0; i < count; ++i) {
            ifaces_.emplace_back(md);
            eps_.emplace_back(new Ep(ifaces_.back(), receiver.address()));
        }
    }

    /* The first `count` send as much as they may, until `done` */
    void flood(const char *what, unsigned count, const std::function<bool()> &done)
    {
        progress_until(what, [&] {
            for (unsigned i = 0; i < count; ++i) {
                while (uct_ep_am_short(eps_[i]->handle, AM_ID, i, NULL, 0) == UCS_OK) {}
            }
            return done();
        });
        receiver.check_credits();
    }

    /* Whether the first `count` that connected may each send so many at once */
    bool have(unsigned count, unsigned window) const
    {
        const uct_glex_iface_t *in = receiver.internals();

        if (in->num_vcs < count) {
            return false;
        }
        for (unsigned i = 0; i < count; ++i) {
            if (in->vcs[i]->mp_rx.window != window) {
                return false;
            }
        }
        return true;
    }

    /* Recalls that were answered, of each that connected */
    std::vector<unsigned> recalls() const
    {
        const uct_glex_iface_t *in = receiver.internals();
        std::vector<unsigned> epochs;

        for (unsigned i = 0; i < in->num_vcs; ++i) {
            epochs.push_back(in->vcs[i]->mp_rx.epoch);
        }
        return epochs;
    }

    Md    md;
    Iface receiver;

private:
    std::list<Iface>                 ifaces_;
    std::vector<std::unique_ptr<Ep>> eps_;
};

const Env SHARED = {{"UCX_GLEX_CHANNELS", "sr"}};

/* Who came first, and has as much as anybody may, gives up what is more than its part */
TEST(Share, FirstAndLastAlike)
{
    isolated(SHARED, [] {
        Senders senders(20);
        const uct_glex_iface_t *in = senders.receiver.internals();
        unsigned start             = in->mpq.start;

        senders.flood("the first to grow", 3, [&] { return senders.have(3, in->mpq.max); });
        senders.flood("equal windows", 20, [&] {
            return senders.have(20, start + in->mpq.pool / 32) && (in->mpq.recalls == 0);
        });
        EXPECT_EQ(in->mpq.growers, 20u);

        /* and so it stays */
        std::vector<unsigned> before = senders.recalls();
        int rounds                   = 0;

        senders.flood("more messages", 20, [&] { return ++rounds == 2000; });
        EXPECT_EQ(senders.recalls(), before);
    });
}

/* A pool that is less than one each: it serves as many as it can */
TEST(Share, LessThanOneEach)
{
    isolated({{"UCX_GLEX_CHANNELS", "sr"}, {"UCX_GLEX_EP_MPQ_POOL_UNITS", "12"}}, [] {
        Senders senders(20);
        const uct_glex_iface_t *in = senders.receiver.internals();

        senders.flood("the first to grow", 1, [&] { return senders.have(1, in->mpq.start + 12); });
        senders.flood("one for each of twelve", 20, [&] {
            return (in->num_vcs == 20) && (in->mpq.growers == 12) && (in->mpq.grown == 12);
        });
    });
}

/* Those that send no more hold nothing back from one that does */
TEST(Share, IdleOnesGiveUp)
{
    isolated(SHARED, [] {
        Senders senders(20);
        const uct_glex_iface_t *in = senders.receiver.internals();

        senders.flood("equal windows", 20, [&] {
            return senders.have(20, in->mpq.start + in->mpq.pool / 32);
        });
        senders.flood("a window as large as may be", 1, [&] {
            return senders.have(1, in->mpq.max);
        });
    });
}

} // namespace

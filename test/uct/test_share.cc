/*
 * Many send to one through the shared channel: windows grow as far as SR_CREDIT_MAX and the pool
 * go, and who leaves gives up what it had.
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
            unsigned left = count;

            for (std::unique_ptr<Ep> &ep : eps_) {
                while ((left > 0) &&
                       (uct_ep_am_short(ep->handle, AM_ID, 0, NULL, 0) == UCS_OK)) {}
                left -= (left > 0);
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

    /* The first `count` leave: the receiver has their entries back */
    void leave(unsigned count)
    {
        for (unsigned i = 0; i < count; ++i) {
            eps_.pop_front();
            ifaces_.pop_front();
        }
    }

    Md    md;
    Iface receiver;

private:
    std::list<Iface>                 ifaces_;
    std::list<std::unique_ptr<Ep>>   eps_;
};

const Env SHARED = {{"UCX_GLEX_CHANNELS", "sr"}};

TEST(Share, AllGrowToTheMaximum)
{
    isolated(SHARED, [] {
        Senders senders(20);
        const uct_glex_iface_t *in = senders.receiver.internals();

        senders.flood("the first to grow", 3, [&] { return senders.have(3, in->mpq.max); });
        senders.flood("all others", 20, [&] { return senders.have(20, in->mpq.max); });
    });
}

/* Seven of the pool's entries are for the first sender's start credit, five for its growth. When it
 * leaves another can have them. */
TEST(Share, PoolIsTheLimit)
{
    isolated({{"UCX_GLEX_CHANNELS", "sr"}, {"UCX_GLEX_EP_MPQ_POOL_UNITS", "12"}}, [] {
        Senders senders(20);
        const uct_glex_iface_t *in = senders.receiver.internals();

        senders.flood("the first to grow", 1, [&] { return senders.have(1, 1 + 12); });
        senders.flood("others with one credit", 20, [&] { return in->num_vcs == 20; });
        EXPECT_EQ(in->mpq.pool, 0u);

        senders.leave(1);
        senders.flood("one of the others grows", 1, [&] {
            return in->vcs[1]->mp_rx.window == 1 + 12;
        });
    });
}

} // namespace

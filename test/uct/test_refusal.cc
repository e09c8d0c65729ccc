/*
 * A receiver ends a connection: the sender is told, however many are over at once, and also where
 * the receiver closes before it has told all.
 */
#include "traffic.h"

namespace
{

const uint8_t AM_ID = 2;

/* Flags of the team */
enum { READY, OVER };

/* A message that the receiver must refuse ends the connection there. The sender, who goes on
 * through its FIFO and needs no answer, is told. */
TEST(Refusal, TellsTheSender)
{
    const Env small = {{"UCX_GLEX_ERQ_SIZE", "4096"}, {"UCX_GLEX_SRQ_UNIT_SIZE", "4096"}};

    team(2, small, [](Team &team) {
        if (team.rank() == 1) {
            setenv("UCX_GLEX_SRQ_UNIT_SIZE", "8192", 1);
        }
        ErrorLog log;
        Md md;
        Iface iface(md);
        std::vector<uint8_t> data(6000);

        iface.on_am(AM_ID, [](const void *, size_t) {});
        team.publish(iface.address());
        team.barrier();
        if (team.rank() == 1) {
            Ep ep(iface, team.blob(0));

            EXPECT_OK(ep.am_short(AM_ID, 0, NULL, 0));
            progress_until("a FIFO", [&] { return ep.vc()->er_tx != NULL; });
            EXPECT_EQ(ep.am_bcopy(AM_ID, data.data(), data.size()), (ssize_t)data.size());
            progress_until("the error handler", [&] {
                uct_ep_am_short(ep.handle, AM_ID, 1, NULL, 0);
                return ep.failed();
            });
            team.flag(OVER) = 1;
        } else {
            progress_until("the sender", [&] { return team.flag(OVER) != 0; });
            EXPECT_NE(log.text().find("SRQ_UNIT_SIZE"), std::string::npos) << log.text();
        }
    });
}

/* The same, and many connections end at one stroke. The test has them end, for want of a reason
 * that all could have. */
TEST(Refusal, TellsAllSenders)
{
    team(41, {{"UCX_GLEX_CHANNELS", "er"}}, [](Team &team) {
        Md md;
        Iface iface(md);

        iface.on_am(AM_ID, [](const void *, size_t) {});
        team.publish(iface.address());
        team.barrier();
        if (team.rank() == 0) {
            progress_until("all senders", [&] { return team.flag(READY) == team.size() - 1; });
            for (unsigned i = 0; i < iface.internals()->num_vcs; ++i) {
                fail_at_once(iface.internals()->vcs[i]);
            }
            progress_until("all to be told", [&] { return team.flag(OVER) == team.size() - 1; });
            return;
        }
        Ep ep(iface, team.blob(0));

        EXPECT_OK(ep.am_short(AM_ID, 0, NULL, 0));
        progress_until("a FIFO", [&] { return ep.vc()->er_tx != NULL; });
        ++team.flag(READY);
        progress_until("the error handler", [&] {
            uct_ep_am_short(ep.handle, AM_ID, 1, NULL, 0);
            return ep.failed();
        });
        ++team.flag(OVER);
    });
}

/* No message finds room at the peer any more, which makes no progress */
void fill_mpq(const Iface &from, const Ep &to)
{
    glex_ep_addr_t peer = {};
    unsigned posted = 0;

    peer.v = to.vc()->peer;
    while (glex_ext_post_mp(from.internals()->nic, peer, 0, 0, 0, NULL, 0) == GLEX_SUCCESS) {
        ASSERT_LT(posted++, UINT16_MAX);
    }
}

/* It closes when one peer could not be told, because its queue is full, and another is to be sent
 * something: both are in the same list, and each leaves it before it is freed. */
TEST(Refusal, ClosesBeforeItHasTold)
{
    isolated({{"UCX_GLEX_CHANNELS", "sr"}}, [] {
        Md md;
        Iface full(md), other(md);
        std::unique_ptr<Iface> iface(new Iface(md));
        std::unique_ptr<Ep> to_full(new Ep(*iface, full.address()));
        std::unique_ptr<Ep> to_other(new Ep(*iface, other.address()));

        full.on_am(AM_ID, [](const void *, size_t) {});
        other.on_am(AM_ID, [](const void *, size_t) {});
        EXPECT_OK(to_full->am_short(AM_ID, 0, NULL, 0));
        EXPECT_OK(to_other->am_short(AM_ID, 0, NULL, 0));
        EXPECT_OK(to_full->flush());
        EXPECT_OK(to_other->flush());

        uct_glex_vc_t *vc = to_full->vc();

        fill_mpq(*iface, *to_full);
        fail_at_once(vc);
        for (int i = 0; i < 10; ++i) {
            iface->progress();
        }
        ASSERT_TRUE(to_full->failed());
        ASSERT_NE(vc->lease, nullptr);
        uct_glex_vc_schedule(to_other->vc());
        iface->internals()->goodbye_ms = 1; /* it waits for the full queue no longer */
        to_full.reset();
        to_other.reset();
        iface.reset(); /* sanitizers and valgrind see a VC that is used after it was freed */
        progress_until("the goodbye",
                       [&] { return other.internals()->vcs[0]->state == UCT_GLEX_VC_PEER_CLOSED; });
    });
}

/* A message through a mapped FIFO is a store, which its lender's closing cannot refuse. Sent before
 * the peer's END was read it must fail as well, and not be taken silently. */
TEST(Refusal, FifoOfAnInterfaceThatClosed)
{
    isolated({{"UCX_GLEX_CHANNELS", "er"}}, [] {
        Md md, other_md; /* the closed interface's endpoint goes to no other one */
        Iface sender(md);
        std::unique_ptr<Iface> lender(new Iface(other_md));
        Ep ep(sender, lender->address());
        unsigned received = 0;

        lender->on_am(AM_ID, [&](const void *, size_t) { ++received; });
        for (unsigned i = 1; i <= 10; ++i) {
            EXPECT_OK(ep.am_short(AM_ID, 0, NULL, 0));
            progress_until("a message", [&] { return received == i; });
        }
        ASSERT_TRUE((ep.vc()->er_tx != NULL) && (ep.vc()->er_tx->ctrl != NULL));
        ASSERT_EQ(lender->internals()->num_polled, 1u) << "no ring is asked for";

        lender.reset();
        EXPECT_OK(uct_ep_am_short(ep.handle, AM_ID, 0, NULL, 0)); /* nobody knows yet */
        for (int i = 0; (i < 1000) && !ep.failed(); ++i) {
            sender.progress();
        }
        EXPECT_TRUE(ep.failed()) << "the message was lost, and nobody said so";
    });
}

} // namespace

/*
 * Credits of ER that the receiver publishes in memory which the sender maps: a sender that only
 * sends, one that waits and progresses, one that waits and sleeps.
 */
#include "traffic.h"

#include <poll.h>

namespace
{

const uint8_t AM_ID = 5;

/* A sender and a receiver in one process, connected through ER */
struct Stream {
    Stream() : source(md), sink(md), ep(source, sink.address())
    {
        sink.on_am(AM_ID, [this](const void *, size_t) { ++received; });
        EXPECT_OK(ep.am_short(AM_ID, sent++, NULL, 0));
        progress_until("a FIFO", [&] { return ep.vc()->er_tx != NULL; });
        idle(source); /* what both have to say of the connection */
        idle(sink);
        idle(source);
    }

    /* Progress for long enough that all is said that is said when nothing happens */
    static void idle(Iface &iface)
    {
        ucs_time_t end = ucs_get_time() + ucs_time_from_msec(1);

        while (ucs_get_time() < end) {
            iface.progress();
        }
    }

    bool try_send()
    {
        ucs_status_t status = uct_ep_am_short(ep.handle, AM_ID, sent, NULL, 0);

        EXPECT_TRUE((status == UCS_OK) || (status == UCS_ERR_NO_RESOURCE));
        sent += (status == UCS_OK);
        return status == UCS_OK;
    }

    /* Send without any progress of the sender */
    void send(unsigned count)
    {
        for (unsigned tries = 0; (count > 0) && (tries < 100000); ++tries) {
            if (try_send()) {
                --count;
                tries = 0;
            } else {
                sink.progress();
            }
        }
        ASSERT_EQ(count, 0u) << "the receiver has taken all, and credits do not come back";
    }

    void fill()
    {
        while (try_send()) {
        }
        EXPECT_EQ(received, filled_at);
    }

    Md md;
    Iface source, sink;
    Ep ep;
    uint64_t sent = 0, received = 0, filled_at = 1;
};

/* A header that waited while the counters went round is not taken for a new one */
TEST(PublishedCredits, SenderMayNeverProgress)
{
    isolated({}, [] {
        Stream s;

        s.send(300);
        while (s.received < s.sent) {
            s.sink.progress();
        }
        uint64_t before = s.sink.counters().mp_tx;
        s.filled_at = s.received;
        s.fill();
        EXPECT_OK(uct_iface_event_arm(s.source.handle, UCT_EVENT_RECV)); /* says that it sleeps */
        while (s.received < s.sent) {
            s.sink.progress();
        }
        s.idle(s.sink);
        EXPECT_GT(s.sink.counters().mp_tx, before) << "no header waits: nothing is tested";
        s.send(40000);
        s.source.progress();
        s.send(70000);
        progress_until("all messages", [&] { return s.received == s.sent; });
    });
}

struct PendingSend {
    static ucs_status_t on_turn(uct_pending_req_t *uct)
    {
        PendingSend *self = (PendingSend *)uct; /* the first member */
        ucs_status_t status = uct_ep_am_short(self->ep, AM_ID, 0, NULL, 0);

        self->done += (status == UCS_OK);
        return status;
    }

    explicit PendingSend(const Ep &to) : ep(to.handle)
    {
        uct.func = on_turn;
    }

    uct_pending_req_t uct = {};
    uct_ep_h ep;
    int done = 0;
};

/* Who waits for credits and progresses goes on without any message */
TEST(PublishedCredits, PendingGoesOn)
{
    isolated({}, [] {
        Stream s;
        PendingSend pending(s.ep);
        uint64_t before;

        s.fill();
        EXPECT_OK(uct_ep_pending_add(s.ep.handle, &pending.uct, 0));
        s.idle(s.source);
        EXPECT_EQ(pending.done, 0);

        before = s.sink.counters().mp_tx;
        while (s.received < s.sent) {
            ASSERT_GT(s.sink.progress(), 0u);
        }
        for (unsigned i = 0; (i < 4) && (pending.done == 0); ++i) {
            s.source.progress();
        }
        EXPECT_EQ(pending.done, 1);
        EXPECT_EQ(s.sink.counters().mp_tx, before);
        progress_until("all messages", [&] { return s.received == s.sent + 1; });
    });
}

/* Take all that came, and say what is said then: go on for a while, or go to sleep */
static void take_all(Stream &s, bool then_sleep)
{
    while (s.received < s.sent) {
        s.sink.progress();
    }
    if (then_sleep) {
        while (uct_iface_event_arm(s.sink.handle, UCT_EVENT_RECV) == UCS_ERR_BUSY) {
            s.sink.progress();
        }
    } else {
        s.idle(s.sink);
    }
}

/* Who waits for credits and sleeps is woken, by a receiver that goes on and by one that sleeps;
 * whether its message is pending, or it will try again by itself */
TEST(PublishedCredits, SleeperIsWoken)
{
    isolated({}, [] {
        Stream s;

        for (unsigned round = 0; round < 8; ++round) {
            bool is_pending = round & 1, receiver_sleeps = round & 2;
            PendingSend pending(s.ep);
            struct pollfd fd = {};

            s.filled_at = s.received;
            s.fill();
            if (is_pending) {
                EXPECT_OK(uct_ep_pending_add(s.ep.handle, &pending.uct, 0));
            }
            EXPECT_OK(uct_iface_event_fd_get(s.source.handle, &fd.fd));
            fd.events = POLLIN;
            s.idle(s.source);
            EXPECT_OK(uct_iface_event_arm(s.source.handle, UCT_EVENT_RECV));
            EXPECT_EQ(poll(&fd, 1, 0), 0);

            take_all(s, receiver_sleeps);
            EXPECT_EQ(poll(&fd, 1, 0), 1) << "round " << round;
            if (is_pending) {
                progress_until("the message", [&] { return pending.done == 1; });
                ++s.sent;
            } else {
                s.idle(s.source);
                EXPECT_TRUE(s.try_send());
            }
            progress_until("all messages", [&] { return s.received == s.sent; });
        }
    });
}

/* Who arms when there are credits by now must not sleep */
TEST(PublishedCredits, WhoHasCreditsDoesNotSleep)
{
    isolated({}, [] {
        Stream s;
        PendingSend pending(s.ep);

        s.fill();
        EXPECT_OK(uct_ep_pending_add(s.ep.handle, &pending.uct, 0));
        s.idle(s.source);
        take_all(s, false);
        EXPECT_STATUS(UCS_ERR_BUSY, uct_iface_event_arm(s.source.handle, UCT_EVENT_RECV));
        progress_until("the message", [&] { return pending.done == 1; });
    });
}

/* Credits that another endpoint of the connection has seen are credits, too */
TEST(PublishedCredits, WhoHasOldCreditsDoesNotSleep)
{
    isolated({}, [] {
        Stream s;
        Ep other(s.source, s.sink.address());
        PendingSend pending(s.ep);

        EXPECT_OK(other.am_short(AM_ID, s.sent++, NULL, 0));
        progress_until("all messages", [&] { return s.received == s.sent; });
        s.idle(s.source);
        s.filled_at = s.received;
        s.fill();
        EXPECT_OK(uct_ep_pending_add(s.ep.handle, &pending.uct, 0));
        s.idle(s.source);
        take_all(s, false);
        EXPECT_OK(uct_ep_am_short(other.handle, AM_ID, s.sent++, NULL, 0));
        EXPECT_STATUS(UCS_ERR_BUSY, uct_iface_event_arm(s.source.handle, UCT_EVENT_RECV));
        progress_until("the message", [&] { return pending.done == 1; });
    });
}

/* A request that waits for something else than credits is nothing done in progress */
TEST(PublishedCredits, WhoWaitsForTheQueueDoesNothing)
{
    isolated({{"UCX_GLEX_CHANNELS", "er"}, {"GLEX_FAULT", "nomap"}}, [] {
        Stream s;
        PendingSend pending(s.ep);
        glex_ep_addr_t sink = {};

        sink.v = s.sink.internals()->ep_addr;
        while (glex_ext_post_event(s.source.internals()->nic, sink, 0, 0xf) == GLEX_SUCCESS) {
        } /* foreign events, which nobody minds */
        EXPECT_STATUS(UCS_ERR_NO_RESOURCE, uct_ep_am_short(s.ep.handle, AM_ID, 0, NULL, 0));
        EXPECT_TRUE(uct_glex_fifo_may_send(&s.ep.vc()->tx_fifo)) << "there are credits";
        EXPECT_OK(uct_ep_pending_add(s.ep.handle, &pending.uct, 0));
        s.idle(s.source);
        for (unsigned i = 0; i < 100; ++i) {
            EXPECT_EQ(s.source.progress(), 0u) << i;
        }
        EXPECT_EQ(pending.done, 0);
        progress_until("the message", [&] { return pending.done == 1; });
    });
}

/* A FIFO's former borrower, who is late, takes nothing back that the next one wants */
TEST(PublishedCredits, FormerBorrowerTakesBackNothing)
{
    isolated({}, [] {
        Stream s;
        uct_glex_fifo_ctrl_t *ctrl;

        s.fill();
        EXPECT_OK(uct_iface_event_arm(s.source.handle, UCT_EVENT_RECV));
        ctrl = s.ep.vc()->er_tx->ctrl;
        EXPECT_EQ(ctrl->wanted, ((uint32_t)s.ep.vc()->er_tx->gen << 8) | 1);
        ctrl->wanted += 1 << 8; /* as the next borrower */
        take_all(s, false);
        s.idle(s.source);
        EXPECT_TRUE(s.try_send());
        EXPECT_EQ(ctrl->wanted, ((uint32_t)(s.ep.vc()->er_tx->gen + 1) << 8) | 1);
    });
}

/* The receiver publishes its credits, and does not know that the sender cannot see them */
TEST(PublishedCredits, WhoCannotLookIsTold)
{
    const unsigned count = 5000;

    team(2, {{"UCX_GLEX_CHANNELS", "er"}}, [](Team &team) {
        if (team.rank() == 0) {
            setenv("GLEX_FAULT", "nomap", 1);
        }
        Md md;
        Iface iface(md);
        unsigned received = 0;

        iface.on_am(AM_ID, [&](const void *, size_t) { ++received; });
        team.publish(iface.address());
        team_barrier(team);
        if (team.rank() == 0) {
            Ep ep(iface, team.blob(1));

            for (unsigned i = 0; i < count; ++i) {
                EXPECT_OK(ep.am_short(AM_ID, i, NULL, 0)); /* progresses when it must wait */
            }
            EXPECT_TRUE((ep.vc()->er_tx != NULL) && (ep.vc()->er_tx->ctrl == NULL));
        } else {
            progress_until("all messages", [&] { return received == count; });
            EXPECT_TRUE(iface.internals()->er_rx[0].ctrl != NULL);
        }
        team_barrier(team);
    });
}

/* Nothing is sent to who progresses: not to who has credits, nor to who waits for them, nor to who
 * slept once */
TEST(PublishedCredits, NobodyAwakeIsWoken)
{
    isolated({}, [] {
        Stream s;

        for (bool slept : {false, true}) {
            for (bool waits : {false, true}) {
                uint64_t before = s.sink.counters().mp_tx;

                s.filled_at = s.received;
                if (waits) {
                    s.fill();
                } else {
                    s.send(s.ep.vc()->tx_fifo.msgs_max / 2);
                }
                for (bool receiver_sleeps : {false, true}) {
                    take_all(s, receiver_sleeps);
                }
                EXPECT_EQ(s.sink.counters().mp_tx, before)
                    << "slept " << slept << ", waits " << waits;
                s.idle(s.source);
            }
            if (!slept) {
                s.filled_at = s.received;
                s.fill();
                EXPECT_OK(uct_iface_event_arm(s.source.handle, UCT_EVENT_RECV));
                take_all(s, false);
                s.idle(s.source);
            }
        }
    });
}

} // namespace

/*
 * Credits of ER that the receiver shows in memory which the sender maps: a sender that only sends,
 * one that waits and progresses, one that waits and sleeps.
 */
#include "traffic.h"

#include <poll.h>

namespace {

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
        while (try_send()) {}
        EXPECT_EQ(received, filled_at);
    }

    Md       md;
    Iface    source, sink;
    Ep       ep;
    uint64_t sent = 0, received = 0, filled_at = 1;
};

/* A header that waited while the counters went round is not taken for a new one */
TEST(ShownCredits, SenderMayNeverProgress)
{
    isolated({}, [] {
        Stream s;

        s.send(300);
        while (s.received < s.sent) {
            s.sink.progress();
        }
        s.idle(s.sink);
        EXPECT_GT(s.sink.counters().mp_tx, 0u) << "no header waits: nothing is tested";
        s.send(40000);
        s.source.progress();
        s.send(70000);
        progress_until("all messages", [&] { return s.received == s.sent; });
    });
}

struct PendingSend {
    static ucs_status_t on_turn(uct_pending_req_t *uct)
    {
        PendingSend *self   = (PendingSend*)uct; /* the first member */
        ucs_status_t status = uct_ep_am_short(self->ep, AM_ID, 0, NULL, 0);

        self->done += (status == UCS_OK);
        return status;
    }

    explicit PendingSend(const Ep &to) : ep(to.handle)
    {
        uct.func = on_turn;
    }

    uct_pending_req_t uct = {};
    uct_ep_h          ep;
    int               done = 0;
};

/* Who waits for credits and progresses goes on without any message */
TEST(ShownCredits, PendingGoesOn)
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

/* Who waits for credits and sleeps is woken, by a receiver that goes on and by one that sleeps */
TEST(ShownCredits, SleeperIsWoken)
{
    isolated({}, [] {
        Stream s;

        for (bool receiver_sleeps : {false, true}) {
            PendingSend pending(s.ep);
            struct pollfd fd = {};

            s.filled_at = s.received;
            s.fill();
            EXPECT_OK(uct_ep_pending_add(s.ep.handle, &pending.uct, 0));
            EXPECT_OK(uct_iface_event_fd_get(s.source.handle, &fd.fd));
            fd.events = POLLIN;
            s.idle(s.source);
            EXPECT_OK(uct_iface_event_arm(s.source.handle, UCT_EVENT_RECV));
            EXPECT_EQ(poll(&fd, 1, 0), 0);

            while (s.received < s.sent) {
                s.sink.progress();
            }
            if (receiver_sleeps) {
                while (uct_iface_event_arm(s.sink.handle, UCT_EVENT_RECV) == UCS_ERR_BUSY) {
                    s.sink.progress();
                }
            } else {
                s.idle(s.sink);
            }
            EXPECT_EQ(poll(&fd, 1, 0), 1);
            progress_until("the message", [&] { return pending.done == 1; });
            ++s.sent;
            progress_until("all messages", [&] { return s.received == s.sent; });
        }
    });
}

} // namespace

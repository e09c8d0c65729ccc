/*
 * Credits of ER that the receiver shows in memory which the sender maps: a sender that only sends, one
 * that waits and progresses, one that waits and sleeps.
 */
#include "traffic.h"

#include <poll.h>

namespace {

const uint8_t AM_ID = 5;

/* A sender and a receiver in one process, connected through ER */
class ShownCredits : public testing::Test {
protected:
    ShownCredits() : source_(md_), sink_(md_), ep_(source_, sink_.address())
    {
        sink_.on_am(AM_ID, [this](const void *, size_t) { ++received_; });
        EXPECT_OK(ep_.am_short(AM_ID, sent_++, NULL, 0));
        progress_until("a FIFO", [&] { return ep_.vc()->er_tx != NULL; });
        idle(source_); /* what both have to say of the connection */
        idle(sink_);
        idle(source_);
    }

    /* Progress for long enough that all is said that is said when nothing happens */
    static void idle(Iface &iface)
    {
        for (unsigned i = 0; i < 2048; ++i) {
            iface.progress();
        }
    }

    bool try_send()
    {
        ucs_status_t status = uct_ep_am_short(ep_.handle, AM_ID, sent_, NULL, 0);

        EXPECT_TRUE((status == UCS_OK) || (status == UCS_ERR_NO_RESOURCE));
        sent_ += (status == UCS_OK);
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
                sink_.progress();
            }
        }
        ASSERT_EQ(count, 0u) << "the receiver has taken all that came, and credits do not come back";
    }

    void fill()
    {
        while (try_send()) {}
        EXPECT_EQ(received_, filled_at_);
    }

    Md       md_;
    Iface    source_, sink_;
    Ep       ep_;
    uint64_t sent_ = 0, received_ = 0, filled_at_ = 1;
};

/* A header that waited while the counters went round is not taken for a new one */
TEST_F(ShownCredits, SenderMayNeverProgress)
{
    send(300);
    while (received_ < sent_) {
        sink_.progress();
    }
    idle(sink_);
    EXPECT_GT(sink_.counters().mp_tx, 0u) << "no header waits: nothing is tested";
    send(40000);
    source_.progress();
    send(70000);
    progress_until("all messages", [&] { return received_ == sent_; });
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
TEST_F(ShownCredits, PendingGoesOn)
{
    PendingSend pending(ep_);
    uint64_t before;

    fill();
    EXPECT_OK(uct_ep_pending_add(ep_.handle, &pending.uct, 0));
    idle(source_);
    EXPECT_EQ(pending.done, 0);

    before = sink_.counters().mp_tx;
    while (received_ < sent_) {
        ASSERT_GT(sink_.progress(), 0u);
    }
    for (unsigned i = 0; (i < 4) && (pending.done == 0); ++i) {
        source_.progress();
    }
    EXPECT_EQ(pending.done, 1);
    EXPECT_EQ(sink_.counters().mp_tx, before);
    progress_until("all messages", [&] { return received_ == sent_ + 1; });
}

/* Who waits for credits and sleeps is woken, by a receiver that goes on and by one that sleeps */
TEST_F(ShownCredits, SleeperIsWoken)
{
    for (bool receiver_sleeps : {false, true}) {
        PendingSend pending(ep_);
        struct pollfd fd    = {};

        filled_at_ = received_;
        fill();
        EXPECT_OK(uct_ep_pending_add(ep_.handle, &pending.uct, 0));
        EXPECT_OK(uct_iface_event_fd_get(source_.handle, &fd.fd));
        fd.events = POLLIN;
        idle(source_);
        EXPECT_OK(uct_iface_event_arm(source_.handle, UCT_EVENT_RECV));
        EXPECT_EQ(poll(&fd, 1, 0), 0);

        while (received_ < sent_) {
            sink_.progress();
        }
        if (receiver_sleeps) {
            while (uct_iface_event_arm(sink_.handle, UCT_EVENT_RECV) == UCS_ERR_BUSY) {
                sink_.progress();
            }
        } else {
            idle(sink_);
        }
        EXPECT_EQ(poll(&fd, 1, 0), 1);
        progress_until("the message", [&] { return pending.done == 1; });
        ++sent_;
        progress_until("all messages", [&] { return received_ == sent_; });
    }
}

} // namespace

/*
 * Sleeping: the event fd, arming it, and that no wake-up is lost.
 */
#include "traffic.h"

#include <poll.h>

namespace
{

const uint8_t AM_ID = 1;

class Event : public WithSetting
{
};

/* Arm, as UCP does: progress until there is nothing to do, then ask for a wake-up. Returns false if
 * something came meanwhile. */
bool arm(Iface &iface)
{
    ucs_status_t status = uct_iface_event_arm(iface.handle, UCT_EVENT_RECV | UCT_EVENT_SEND_COMP);

    if (status == UCS_ERR_BUSY) {
        return false;
    }
    EXPECT_OK(status);
    return true;
}

int event_fd(Iface &iface)
{
    int fd = -1;

    EXPECT_OK(uct_iface_event_fd_get(iface.handle, &fd));
    return fd;
}

/* Sleep until something happens. A lost wake-up is a test that hangs. */
void sleep_until(Iface &iface, int fd, const std::function<bool()> &done)
{
    waiting_for("a wake-up");
    while (!done()) {
        if (iface.progress() > 0) {
            continue; /* what progress does not report may be slept over */
        }
        if (arm(iface)) {
            pollfd pfd = {fd, POLLIN, 0};

            EXPECT_EQ(poll(&pfd, 1, -1), 1);
            EXPECT_TRUE(pfd.revents & POLLIN);
        }
    }
}

/* Send the next message, asleep until that is possible: by a pending request, since nothing else
 * promises to wake */
void send_asleep(Iface &iface, int fd, Sender &sender)
{
    struct Request {
        static ucs_status_t on_turn(uct_pending_req_t *uct)
        {
            Request *self = (Request *)uct; /* the first member */

            self->sent = self->sender->try_send();
            return self->sent ? UCS_OK : UCS_ERR_NO_RESOURCE;
        }

        uct_pending_req_t uct;
        Sender *sender;
        bool sent;
    } request = {};

    request.uct.func = Request::on_turn;
    request.sender = &sender;
    waiting_for("room to send a message");
    while (!(request.sent = sender.try_send())) {
        ucs_status_t status = uct_ep_pending_add(sender.ep.handle, &request.uct, 0);

        if (status == UCS_OK) {
            sleep_until(iface, fd, [&] { return request.sent; });
            return;
        }
        EXPECT_STATUS(UCS_ERR_BUSY, status);
        iface.progress();
    }
}

/* Two processes sleep in turns, thousands of times */
TEST_P(Event, PingPongAsleep)
{
    team(2, env(), [](Team &team) {
        const unsigned rounds = 2000;
        Md md;
        Iface iface(md);

        if (iface.internals()->event_fd < 0) {
            return;
        }
        EXPECT_TRUE(iface.attr.cap.event_flags & UCT_IFACE_FLAG_EVENT_FD);
        team.publish(iface.address());
        team.barrier();
        unsigned peer = 1 - team.rank();
        Plan plan = mixed_plan(iface, 31, 3000);
        Sink sink(iface, AM_ID, peer, plan);
        Sender sender(iface, team.blob(peer), AM_ID, team.rank(), plan);
        int fd = event_fd(iface);

        for (unsigned i = 0; i < rounds; ++i) {
            if (team.rank() == 0) {
                send_asleep(iface, fd, sender);
            }
            sleep_until(iface, fd, [&] { return sink.received == i + 1; });
            if (team.rank() == 1) {
                send_asleep(iface, fd, sender);
            }
        }
        sender.drain();
        team_barrier(team); /* the last acknowledgements */
    });
}

/* A pending request of a sleeping process gets its turn: credits wake it */
TEST_P(Event, FloodToASleeper)
{
    team(2, env(), [](Team &team) {
        const unsigned count = 3000;
        Md md;
        Iface iface(md);

        if (iface.internals()->event_fd < 0) {
            return;
        }
        team.publish(iface.address());
        team.barrier();
        Plan plan = mixed_plan(iface, 32, 3000);
        int fd = event_fd(iface);

        if (team.rank() == 0) {
            Sink sink(iface, AM_ID, 1, plan);

            sleep_until(iface, fd, [&] { return sink.received == count; });
            team_barrier(team);
        } else {
            Sender sender(iface, team.blob(0), AM_ID, 1, plan);

            for (unsigned i = 0; i < count; ++i) {
                send_asleep(iface, fd, sender);
            }
            sender.drain();
            team_barrier(team);
        }
    });
}

/* Completions wake too */
TEST_P(Event, FlushAsleep)
{
    team(2, env(), [](Team &team) {
        const unsigned rounds = 500;
        Md md;
        Iface iface(md);

        if (iface.internals()->event_fd < 0) {
            return;
        }
        team.publish(iface.address());
        team.barrier();
        Plan plan = mixed_plan(iface, 33, 3000);
        int fd = event_fd(iface);

        if (team.rank() == 0) {
            Sink sink(iface, AM_ID, 1, plan);

            progress_until("messages", [&] { return sink.received == rounds; });
            team_barrier(team);
        } else {
            Sender sender(iface, team.blob(0), AM_ID, 1, plan);

            for (unsigned i = 0; i < rounds; ++i) {
                Completion comp;

                send_asleep(iface, fd, sender);
                ucs_status_t status = uct_ep_flush(sender.ep.handle, 0, &comp.uct);
                if (status == UCS_INPROGRESS) {
                    sleep_until(iface, fd, [&] { return comp.done > 0; });
                } else {
                    EXPECT_OK(status);
                }
            }
            sender.drain();
            team_barrier(team);
        }
    });
}

/* While something is there arming is refused */
TEST_P(Event, ArmIsBusyWhileSomethingIsThere)
{
    isolated(env(), [] {
        Md md;
        Iface a(md), b(md);
        Ep ep(a, b.address());
        unsigned received = 0;

        if (b.internals()->event_fd < 0) {
            EXPECT_FALSE(b.attr.cap.event_flags & UCT_IFACE_FLAG_EVENT_FD);
            return;
        }
        b.on_am(AM_ID, [&](const void *, size_t) { ++received; });
        EXPECT_OK(ep.am_short(AM_ID, 0, NULL, 0));
        progress_until("the first message", [&] { return received == 1; });
        for (unsigned i = 2; i < 200; ++i) {
            pollfd pfd = {event_fd(b), POLLIN, 0};

            progress_until("nothing to do", [&] { return arm(b); });
            while (uct_ep_am_short(ep.handle, AM_ID, i, NULL, 0) != UCS_OK) {
                progress();
            }
            if (received < i) {
                /* armed before or not: what has come must not be slept over */
                EXPECT_TRUE((poll(&pfd, 1, 0) == 1) || !arm(b));
                progress_until("the message", [&] { return received == i; });
            }
        }
    });
}

FOR_CHANNELS(Event);

} // namespace

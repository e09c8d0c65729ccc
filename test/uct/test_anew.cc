/*
 * A peer that leaves and comes back, as another interface at the same endpoint of its NIC: whoever
 * connects to the new one is served by it, whatever the NIC still has of the last one.
 */
#include "traffic.h"

#include <deque>
#include <random>
#include <unistd.h>

namespace
{

const uint8_t AM_ID = 9;

enum { OPENED, SERVED }; /* flags of the team: rounds that were */

unsigned num_messages(unsigned round)
{
    return 1 + round * 7 % 20;
}

/* Each round another interface, which leaves when the round's messages are here */
void leave_often(Team &team, unsigned rounds)
{
    Md md;

    for (unsigned round = 0; round < rounds; ++round) {
        Iface iface(md);
        Sink sink(iface, AM_ID, round, mixed_plan(iface, round, 8192));

        team.publish(iface.address());
        team.flag(OPENED) = round + 1;
        progress_until("the round's messages",
                       [&] { return sink.received == num_messages(round); });
        team.flag(SERVED) = round + 1;
    }
}

/* Wait for the next interface. Asleep, our NIC does not hear meanwhile that the last one ended. */
void wait_until_open(Team &team, Iface &iface, unsigned round, bool asleep)
{
    waiting_for("the next interface");
    while (team.flag(OPENED) <= round) {
        if (!asleep) {
            iface.progress();
        }
    }
}

/* Each round a connection to the interface that is there now; some earlier ones are still open */
void follow(Team &team, unsigned rounds)
{
    std::minstd_rand random(rounds);
    Md md;
    Iface iface(md);
    std::deque<std::unique_ptr<Sender>> senders;

    for (unsigned round = 0; round < rounds; ++round) {
        wait_until_open(team, iface, round, random() % 2);
        if (senders.size() > random() % 4) {
            senders.pop_front();
        }
        senders.emplace_back(
            new Sender(iface, team.blob(1), AM_ID, round, mixed_plan(iface, round, 8192)));
        for (unsigned i = 0; i < num_messages(round); ++i) {
            senders.back()->send();
        }
        progress_until("the round's end", [&] { return team.flag(SERVED) > round; });
    }
}

void play(Team &team, unsigned rounds)
{
    if (team.rank() == 1) {
        leave_often(team, rounds);
    } else {
        follow(team, rounds);
    }
}

class Anew : public WithSetting
{
};

TEST_P(Anew, OnThisHost)
{
    team(2, env(), [](Team &team) { play(team, 100); });
}

/* Who leaves waits a second for a peer that sleeps */
TEST_P(Anew, OnAnotherHost)
{
    network_team(2, env() + Env{{"GLEX_FAULT", "far"}}, [](Team &team) { play(team, 8); });
}

/* `b` sends to `a`, as much as it can while `a` sleeps, and leaves; another interface follows it */
struct LastWords {
    LastWords() : a(md_a)
    {
        a.on_am(AM_ID, [this](const void *, size_t) { ++received; });
        open();
        to_a.reset(new Ep(*b, a.address()));
    }

    void open()
    {
        b.reset(new Iface(md_b));
        b->on_am(AM_ID, [this](const void *, size_t) { ++at_b; });
    }

    void connect()
    {
        for (; sent < 20; ++sent) {
            EXPECT_OK(to_a->am_short(AM_ID, 0, NULL, 0));
        }
        progress_until("the first messages", [this] { return received == sent; });
    }

    void fill_and_leave()
    {
        while (uct_ep_am_short(to_a->handle, AM_ID, 0, NULL, 0) == UCS_OK) {
            ++sent;
        }
        EXPECT_GT(sent, 20u);
        to_a.reset();
        b.reset();
    }

    Md md_a, md_b;
    Iface a;
    std::unique_ptr<Iface> b;
    std::unique_ptr<Ep> to_a;
    unsigned received = 0, sent = 0, at_b = 0;
};

/* What it sent before it left is delivered, although we hear of the next one first: its CONNECT and
 * the messages in a FIFO come by different ways, and we may connect to it by ourselves. */
TEST_P(Anew, DeliversTheLastWords)
{
    for (bool we_connect : {false, true}) {
        isolated(env(), [=] {
            LastWords w;

            w.connect();
            w.fill_and_leave();
            w.open();
            if (we_connect) {
                Ep to_b(w.a, w.b->address());
                EXPECT_OK(to_b.am_short(AM_ID, 0, NULL, 0));
                progress_until("its last words",
                               [&] { return (w.at_b == 1) && (w.received == w.sent); });
            } else {
                w.to_a.reset(new Ep(*w.b, w.a.address()));
                EXPECT_OK(w.to_a->am_short(AM_ID, 0, NULL, 0));
                progress_until("its last words", [&] { return w.received == w.sent + 1; });
            }
        });
    }
}

/* A message to it fails, for it has left, and we hear of that before its last words are read */
TEST_P(Anew, DeliversTheLastWordsAfterAnError)
{
    isolated(env(), [] {
        LastWords w;
        Ep to_b(w.a, w.b->address());

        EXPECT_OK(to_b.am_short(AM_ID, 0, NULL, 0));
        w.connect();
        w.fill_and_leave();
        EXPECT_OK(uct_ep_am_short(to_b.handle, AM_ID, 0, NULL, 0));
        w.open();
        uct_iface_event_arm(w.a.handle, UCT_EVENT_RECV); /* takes the error from the NIC */
        progress_until("its last words", [&] { return w.received == w.sent; });
    });
}

/* The same where the program sleeps between its calls, and looks for dead peers whenever it arms:
 * that it took nothing from one look to the next does not say that nothing is there */
TEST_P(Anew, DeliversToOneThatSleeps)
{
    isolated(env(), [] {
        LastWords w;
        Ep first(w.a, w.b->address());
        auto arm_later = [&] {
            usleep(150000); /* all peers are due to be looked at */
            uct_iface_event_arm(w.a.handle, UCT_EVENT_RECV);
        };

        EXPECT_OK(first.am_short(AM_ID, 0, NULL, 0));
        w.connect();
        arm_later();
        w.fill_and_leave();
        w.open();
        Ep next(w.a, w.b->address());
        EXPECT_STATUS(UCS_ERR_NO_RESOURCE, uct_ep_am_short(next.handle, AM_ID, 0, NULL, 0));
        arm_later();
        arm_later();
        progress_until("its last words", [&] { return w.received == w.sent; });
    });
}

FOR_CHANNELS(Anew);

} // namespace

/*
 * Order, number and content of a long mixed traffic: all operations, all lengths, both directions
 * at once, on every channel and with every fault of the NIC that a protocol has to live with.
 */
#include "traffic.h"

namespace
{

const uint8_t AM_ID = 3;

class Order : public WithSetting
{
};

TEST_P(Order, BothDirections)
{
    const unsigned count = 1500;

    team(2, env(), [&](Team &team) {
        Md md;
        Iface iface(md);

        team.publish(iface.address());
        team.barrier();
        unsigned peer = 1 - team.rank();
        Sink sink(iface, AM_ID, peer, mixed_plan(iface, peer));
        Sender sender(iface, team.blob(peer), AM_ID, team.rank(), mixed_plan(iface, team.rank()));

        for (unsigned i = 0; i < count; ++i) {
            sender.send();
        }
        progress_until("all messages", [&] { return sink.received == count; });
        EXPECT_OK(sender.ep.flush());
        sender.drain();
        iface.check_credits();
        team_barrier(team);
        EXPECT_EQ(sink.received, count);
        EXPECT_EQ(iface.counters().mp_lost, 0u);
        EXPECT_EQ(iface.counters().event_lost, 0u);
        EXPECT_TRUE(iface.failed.empty());
    });
}

/* One way only: nothing takes credits back by chance */
TEST_P(Order, OneDirection)
{
    const unsigned count = 2000;

    team(2, env(), [&](Team &team) {
        Md md;
        Iface iface(md);
        Plan plan = mixed_plan(iface, 77);

        team.publish(iface.address());
        team.barrier();
        if (team.rank() == 0) {
            Sink sink(iface, AM_ID, 1, plan);

            progress_until("all messages", [&] { return sink.received == count; });
            team_barrier(team);
            EXPECT_EQ(sink.received, count);
        } else {
            Sender sender(iface, team.blob(0), AM_ID, 1, plan);

            for (unsigned i = 0; i < count; ++i) {
                sender.send();
            }
            EXPECT_OK(sender.ep.flush());
            sender.drain();
            team_barrier(team);
        }
        iface.check_credits();
    });
}

FOR_ALL(Order);

} // namespace

/*
 * Many processes to one whose message queue is tiny: nothing is lost, and the queue is never full.
 */
#include "traffic.h"

namespace
{

const uint8_t AM_ID = 6, AM_ANSWER = 7;

class Many : public WithSetting
{
};

void expect_nothing_lost(const Iface &iface)
{
    glex_ext_counters counters = iface.counters();

    EXPECT_EQ(counters.mp_lost, 0u) << "a message queue was full";
    EXPECT_EQ(counters.event_lost, 0u) << "an event queue was full";
    EXPECT_EQ(counters.error_req, 0u);
}

TEST_P(Many, ThirtyTwoToOne)
{
    team(33, env(), [](Team &team) {
        const unsigned count = 100;
        Md md;
        Iface iface(md);
        uint32_t total = 0;

        team.publish(iface.address());
        team_barrier(team);
        if (team.rank() == 0) {
            std::vector<uint32_t> received(team.size(), 0);

            iface.on_am(AM_ID, [&](const void *data, size_t length) {
                unsigned from = sender_of(data, length);

                ASSERT_LT(from, team.size());
                check_next(data, length, from, mixed_plan(iface, from, 3000), &received[from]);
                ++total;
            });
            progress_until("all messages", [&] { return total == (team.size() - 1) * count; });
            team_barrier(team);
            EXPECT_EQ(total, (team.size() - 1) * count);
            iface.check_credits();
            expect_nothing_lost(iface);
        } else {
            Sender sender(iface, team.blob(0), AM_ID, team.rank(),
                          mixed_plan(iface, team.rank(), 3000));

            for (unsigned i = 0; i < count; ++i) {
                sender.send();
            }
            EXPECT_OK(sender.ep.flush());
            sender.drain();
            EXPECT_EQ(sender.ep.vc()->peer_hint != 0, UCT_GLEX_NIC_MESSAGES)
                << "the NIC looks its address up for each message";
            team_barrier(team);
            expect_nothing_lost(iface);
        }
        EXPECT_TRUE(iface.failed.empty());
    });
}

/* The one answers each: it sends to more peers than it has entries for */
TEST_P(Many, RequestAndAnswer)
{
    team(25, env(), [](Team &team) {
        const unsigned count = 30;
        Md md;
        Iface iface(md);

        team.publish(iface.address());
        team_barrier(team);
        if (team.rank() == 0) {
            std::vector<uint32_t> received(team.size(), 0);
            std::vector<std::unique_ptr<Sender>> answers(1);
            std::vector<unsigned> due;
            uint32_t total = 0;

            for (unsigned i = 1; i < team.size(); ++i) {
                answers.emplace_back(new Sender(iface, team.blob(i), AM_ANSWER, i,
                                                mixed_plan(iface, 100 + i, 3000)));
            }
            iface.on_am(AM_ID, [&](const void *data, size_t length) {
                unsigned from = sender_of(data, length);

                check_next(data, length, from, mixed_plan(iface, from, 3000), &received[from]);
                due.push_back(from);
            });
            while (total < (team.size() - 1) * count) {
                progress_until("a request", [&] { return !due.empty(); });
                unsigned to = due.back();

                due.pop_back();
                answers[to]->send();
                ++total;
            }
            for (unsigned i = 1; i < team.size(); ++i) {
                EXPECT_OK(answers[i]->ep.flush());
                answers[i]->drain();
            }
            team_barrier(team);
            iface.check_credits();
        } else {
            Sink answers(iface, AM_ANSWER, team.rank(), mixed_plan(iface, 100 + team.rank(), 3000));
            Sender sender(iface, team.blob(0), AM_ID, team.rank(),
                          mixed_plan(iface, team.rank(), 3000));

            for (unsigned i = 0; i < count; ++i) {
                sender.send();
                progress_until("an answer", [&] { return answers.received == i + 1; });
            }
            EXPECT_OK(sender.ep.flush());
            sender.drain();
            team_barrier(team);
        }
        expect_nothing_lost(iface);
        EXPECT_TRUE(iface.failed.empty());
    });
}

TEST_P(Many, EightAllToAll)
{
    team(8, env(), [](Team &team) {
        const unsigned count = 100;
        Md md;
        Iface iface(md);
        std::list<Sink> sinks;
        std::list<Sender> senders;

        team.publish(iface.address());
        team.barrier();
        for (unsigned i = 0; i < team.size(); ++i) {
            /* by AM id: who sent it; by seed: from whom to whom */
            sinks.emplace_back(iface, i, i, mixed_plan(iface, i * 8 + team.rank()));
            senders.emplace_back(iface, team.blob(i), team.rank(), team.rank(),
                                 mixed_plan(iface, team.rank() * 8 + i));
        }
        team_barrier(team);
        for (unsigned i = 0; i < count; ++i) {
            for (Sender &sender : senders) {
                sender.send();
            }
        }
        for (Sink &sink : sinks) {
            progress_until("all messages", [&] { return sink.received == count; });
        }
        for (Sender &sender : senders) {
            EXPECT_OK(sender.ep.flush());
            sender.drain();
        }
        team_barrier(team);
        iface.check_credits();
        expect_nothing_lost(iface);
        EXPECT_TRUE(iface.failed.empty());
    });
}

std::vector<Setting> crowded()
{
    Env tiny = {{"UCX_GLEX_EP_MPQ_CAPACITY", "64"},
                {"UCX_GLEX_SR_CREDIT_START", "1"},
                {"UCX_GLEX_SRQ_CAPACITY", "4"},
                {"UCX_GLEX_ERQ_SIZE", "4096"}};
    Env sr = tiny + Env{{"UCX_GLEX_CHANNELS", "sr"}};
    Env both = tiny + Env{{"UCX_GLEX_CHANNELS", "er,sr"}, {"UCX_GLEX_ER_MAX_CHANNELS", "4"}};
    Env er = {{"UCX_GLEX_CHANNELS", "er"}};

    return {
        {"sr_tiny", sr},
        {"er_sr_tiny", both},
        {"er", er},
        {"er_tiny", tiny + er},
        {"er_sr_tiny_reorder", both + Env{{"GLEX_FAULT", "mp_reorder=0.2,seed=31"}}},
        {"sr_tiny_busy", sr + Env{{"GLEX_FAULT", "busy=0.2,seed=32"}}},
    };
}

INSTANTIATE_TEST_SUITE_P(Crowded, Many, testing::ValuesIn(crowded()), setting_name);

} // namespace

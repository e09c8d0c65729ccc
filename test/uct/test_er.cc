/*
 * The quota of ER channels: FIFOs go to whose traffic is heavy, are asked back and lent again, and
 * order is kept across every switch between ER and SR.
 */
#include "traffic.h"

namespace {

const uint8_t AM_ID = 4, OTHER_ID = 5;

/* Several interfaces that send to one, all in one process */
class Crowd {
public:
    explicit Crowd(unsigned num) : target(md)
    {
        for (unsigned i = 0; i < num; ++i) {
            ifaces.emplace_back(md);
            plans.push_back(mixed_plan(target, i, 500));
            received.push_back(0);
            senders.emplace_back(ifaces.back(), target.address(), AM_ID, i, plans.back());
        }
        target.on_am(AM_ID, [this](const void *data, size_t length) {
            unsigned from = sender_of(data, length);

            ASSERT_LT(from, plans.size());
            check_next(data, length, from, plans[from], &received[from]);
        });
    }

    Sender &sender(unsigned i)
    {
        auto it = senders.begin();

        std::advance(it, i);
        return *it;
    }

    bool has_fifo(unsigned i)
    {
        return (sender(i).ep.vc() != NULL) && (sender(i).ep.vc()->er_tx != NULL);
    }

    unsigned num_fifos()
    {
        unsigned count = 0;

        for (unsigned i = 0; i < plans.size(); ++i) {
            count += has_fifo(i);
        }
        return count;
    }

    void settle()
    {
        for (Sender &each : senders) {
            EXPECT_OK(each.ep.flush());
            each.drain();
        }
        for (unsigned i = 0; i < plans.size(); ++i) {
            progress_until("all messages", [&] { return received[i] == sender(i).sent; });
        }
    }

    Md                    md;
    Iface                 target;
    std::list<Iface>      ifaces;
    std::vector<Plan>     plans;
    std::vector<uint32_t> received;
    std::list<Sender>     senders;
};

/* Send `count` messages from each of a range of senders, in turn */
void send_in_turn(Crowd &crowd, unsigned first, unsigned end, unsigned count)
{
    for (unsigned i = 0; i < count; ++i) {
        for (unsigned from = first; from < end; ++from) {
            crowd.sender(from).send();
        }
        progress();
    }
}

Env quota_of(unsigned num)
{
    return {{"UCX_GLEX_CHANNELS", "er,sr"}, {"UCX_GLEX_ER_MAX_CHANNELS", std::to_string(num)}};
}

class ErQuota : public WithSetting {};

/* Send from one until it has a FIFO; the others say a word now and then */
void heat(Crowd &crowd, unsigned hot)
{
    const unsigned enough = 60000; /* patience doubles with every refusal, up to 16384 */
    unsigned i;

    for (i = 0; (i < enough) && !crowd.has_fifo(hot); ++i) {
        crowd.sender(hot).send();
        if ((i % 1000) == 999) {
            crowd.sender((hot + 1 + i / 1000) % crowd.plans.size()).send();
        }
        if ((i % 16) == 15) {
            progress();
        }
    }
    EXPECT_TRUE(crowd.has_fifo(hot)) << "no FIFO for the busiest after " << i << " messages";
    for (i = 0; i < 200; ++i) {
        crowd.sender(hot).send(); /* through the FIFO */
    }
}

/* The hot one changes: each gets the FIFO in its turn, more than once */
TEST_P(ErQuota, MovesWithTheTraffic)
{
    isolated(env(), [] {
        Crowd crowd(4);
        unsigned max = crowd.target.internals()->er.max;

        for (unsigned round = 0; round < 3; ++round) {
            for (unsigned hot = 0; hot < crowd.plans.size(); ++hot) {
                heat(crowd, hot);
                EXPECT_LE(crowd.target.internals()->er.lent, max);
                EXPECT_LE(crowd.num_fifos(), max);
            }
        }
        crowd.settle();
        crowd.target.check_credits();
    });
}

class ErHalf : public WithSetting {};

/* Those beyond the first 16 are half as long; all lengths go through them, also where there is no
 * other channel. One that comes free is lent again as what it was. */
TEST_P(ErHalf, BeyondTheFirst)
{
    isolated(env(), [] {
        Crowd crowd(20);
        const auto &er = crowd.target.internals()->er;
        unsigned half  = 0;

        send_in_turn(crowd, 0, 20, 200);
        crowd.settle();
        for (unsigned from = 0; from < crowd.plans.size(); ++from) {
            if (crowd.has_fifo(from)) {
                half += (crowd.sender(from).ep.vc()->tx_fifo.units == er.units / 2);
            }
        }
        EXPECT_EQ(crowd.num_fifos(), er.max);
        EXPECT_EQ(half, er.max - 16);
        EXPECT_EQ(er.lent_half, er.max - 16);
        EXPECT_EQ(er.lent, er.max);
        crowd.target.check_credits();

        crowd.senders.clear();
        crowd.ifaces.clear();
        progress_until("all FIFOs back", [&] { return er.lent == 0; });
        EXPECT_EQ(er.lent_half, 0u);
    });
}

std::vector<Setting> halves()
{
    Env both = {{"UCX_GLEX_CHANNELS", "er,sr"}, {"UCX_GLEX_ER_MAX_CHANNELS", "18"}};
    Env er   = {{"UCX_GLEX_CHANNELS", "er"}, {"UCX_GLEX_ER_MAX_CHANNELS", "20"}};

    return {
        {"both", both},
        {"er", er},
        {"er_nomap", er + Env{{"GLEX_FAULT", "nomap"}}},
    };
}

INSTANTIATE_TEST_SUITE_P(Lengths, ErHalf, testing::ValuesIn(halves()), setting_name);

/* Two senders for the only FIFO: the first has it, the second was refused */
class ErRefused : public testing::Test {
protected:
    static void with_both(const std::function<void(Crowd &, uct_glex_vc_t *)> &test)
    {
        isolated(quota_of(1), [&] {
            Crowd crowd(2);
            uct_glex_vc_t *vc;

            crowd.sender(0).send();
            progress_until("the only FIFO", [&] { return crowd.has_fifo(0); });
            send_in_turn(crowd, 0, 1, 200); /* too busy for its FIFO to be asked back */
            crowd.sender(1).send();
            vc = crowd.sender(1).ep.vc();
            progress_until("the refusal", [&] {
                return (vc->state == UCT_GLEX_VC_OPEN) && (vc->er_state == UCT_GLEX_ER_NONE);
            });
            test(crowd, vc);
            crowd.settle();
            crowd.target.check_credits();
        });
    }
};

/* Refused often, when it had little to send, it need not wait for long when it has much */
TEST_F(ErRefused, FasterAsksSooner)
{
    with_both([](Crowd &crowd, uct_glex_vc_t *vc) {
        const unsigned patient = 1u << UCT_GLEX_ER_PATIENCE_MAX;
        unsigned i;

        vc->sr_patience = UCT_GLEX_ER_PATIENCE_MAX;
        vc->sr_pace     = 15; /* 64 messages in a quarter of a second, or longer */
        for (i = 0; (i < patient) && !crowd.has_fifo(1); ++i) {
            crowd.sender(1).send();
            progress();
        }
        EXPECT_LT(i, patient / 16);
        EXPECT_TRUE(crowd.has_fifo(1));
        EXPECT_EQ(vc->sr_pace, 0) << "what was refused is of no interest now";
    });
}

/* A pause within the traffic is not taken for a low speed at once */
TEST_F(ErRefused, PauseIsNotSlowness)
{
    with_both([](Crowd &crowd, uct_glex_vc_t *vc) {
        vc->sr_patience = UCT_GLEX_ER_PATIENCE_MIN;
        vc->sr_count    = (1u << UCT_GLEX_ER_PATIENCE_MIN) - 1;
        vc->sr_pace     = 2;
        vc->sr_mark    += 30000; /* as if the last look was half a second ago */
        crowd.target.on_am(OTHER_ID, [](const void *, size_t) {});
        EXPECT_OK(crowd.sender(1).ep.am_short(OTHER_ID, 0, NULL, 0));
        EXPECT_EQ(vc->er_state, UCT_GLEX_ER_REQUESTED);
        EXPECT_EQ(vc->sr_pace, 3);
    });
}

/* Who connects and says little takes no FIFO away, also not an idle one: FIFOs would go from hand
 * to hand while a job connects */
TEST(Er, NewcomersTakeNothing)
{
    isolated(quota_of(2), [] {
        Crowd crowd(8);

        send_in_turn(crowd, 0, 2, 10);
        progress_until("the FIFOs", [&] { return crowd.num_fifos() == 2; });
        send_in_turn(crowd, 2, 8, 40);
        crowd.settle();
        EXPECT_TRUE(crowd.has_fifo(0));
        EXPECT_TRUE(crowd.has_fifo(1));
        EXPECT_EQ(crowd.target.internals()->er.next_gen,
                  (uint8_t)(crowd.target.internals()->uuid + 2)) << "lent more than twice";
    });
}

/* All idle borrowers are asked at once when others are busy, not one after the other */
TEST(Er, ManyChangeTogether)
{
    isolated(quota_of(8), [] {
        Crowd crowd(16);

        send_in_turn(crowd, 0, 8, 200);
        EXPECT_EQ(crowd.num_fifos(), 8u);
        send_in_turn(crowd, 8, 16, 600); /* they ask after 128 and 384 */
        for (unsigned from = 8; from < 16; ++from) {
            EXPECT_TRUE(crowd.has_fifo(from)) << from;
        }
        crowd.settle();
        crowd.target.check_credits();
    });
}

/* The first has the only FIFO; without a progress of its own, send from the second until that is
 * asked back for it */
void wait_for_revoke(Crowd &crowd)
{
    const uct_glex_er_rx_t *er_rx = crowd.target.internals()->er_rx;

    send_in_turn(crowd, 0, 1, 200);
    for (unsigned i = 0; (i < 5000) && (er_rx->waiter == NULL); ++i) {
        crowd.sender(1).try_send();
        std::next(crowd.ifaces.begin())->progress();
        crowd.target.progress();
    }
    ASSERT_TRUE(er_rx->waiter != NULL);
}

/* A FIFO that comes back is for who waits for it, also if somebody else asks at that moment */
TEST(Er, PromiseIsKept)
{
    isolated(quota_of(1), [] {
        Crowd crowd(3);
        const uct_glex_iface_t *target = crowd.target.internals();

        wait_for_revoke(crowd);
        crowd.sender(2).try_send(); /* CONNECT: it is taken first */
        crowd.ifaces.back().progress();
        crowd.ifaces.front().progress(); /* RELEASED */
        progress_until("the FIFO", [&] { return crowd.num_fifos() == 1; });
        EXPECT_TRUE(crowd.has_fifo(1));
        EXPECT_EQ(target->er.promised, 0u);
        crowd.settle();
    });
}

/* A peer that waits for a FIFO leaves before that is back: it comes free, for others */
TEST(Er, WaiterLeaves)
{
    isolated(quota_of(1), [] {
        Crowd crowd(3);
        const uct_glex_iface_t *target = crowd.target.internals();
        uct_iface_h first              = crowd.ifaces.front().handle;

        wait_for_revoke(crowd);
        /* The first does not hear of it, and keeps its FIFO */
        uct_iface_progress_disable(first, UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
        crowd.senders.erase(std::next(crowd.senders.begin()));
        crowd.ifaces.erase(std::next(crowd.ifaces.begin()));
        for (unsigned i = 0; (i < 100000) && (target->er_rx->waiter != NULL); ++i) {
            crowd.target.progress();
        }
        EXPECT_TRUE(target->er_rx->waiter == NULL) << "it is kept for who has left";
        uct_iface_progress_enable(first, UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
        progress_until("the FIFO", [&] { return target->er.lent == 0; });
        for (unsigned i = 0; (i < 20000) && !crowd.has_fifo(1); ++i) {
            crowd.sender(1).send();
            progress();
        }
        EXPECT_TRUE(crowd.has_fifo(1));
    });
}

/* Never all at once, whatever comes: many talk at the same time, by turns fast and slow */
TEST_P(ErQuota, ManyAtOnce)
{
    isolated(env(), [] {
        Crowd crowd(6);
        unsigned max = crowd.target.internals()->er.max;

        for (unsigned i = 0; i < 20000; ++i) {
            unsigned phase = i / 2500;

            crowd.sender((i % 3) ? phase % 6 : (i / 3) % 6).send();
            EXPECT_LE(crowd.num_fifos(), max);
        }
        crowd.settle();
        crowd.target.check_credits();
    });
}

std::vector<Setting> quotas()
{
    Env one = {{"UCX_GLEX_CHANNELS", "er,sr"}, {"UCX_GLEX_ER_MAX_CHANNELS", "1"}};
    Env two = {{"UCX_GLEX_CHANNELS", "er,sr"}, {"UCX_GLEX_ER_MAX_CHANNELS", "2"}};
    Env mem = {{"UCX_GLEX_ER_MAX_MEM", "64k"}};
    Env small = {{"UCX_GLEX_EP_MPQ_CAPACITY", "128"}, {"UCX_GLEX_SR_CREDIT_START", "1"},
                 {"UCX_GLEX_SRQ_CAPACITY", "4"}, {"UCX_GLEX_ERQ_SIZE", "4096"}};

    return {
        {"one", one},
        {"two", two},
        {"by_memory", mem},
        {"two_small", two + small},
        {"one_nomap", one + Env{{"GLEX_FAULT", "nomap"}}},
        {"one_busy", one + Env{{"GLEX_FAULT", "busy=0.2,seed=21"}}},
        {"two_busy_nomap", two + Env{{"GLEX_FAULT", "busy=0.2,nomap,seed=22"}}},
        {"one_reorder", one + Env{{"GLEX_FAULT", "mp_reorder=0.3,seed=23"}}},
        {"two_small_delay", two + small + Env{{"GLEX_FAULT", "mp_delay=0.2:7,seed=24"}}},
    };
}

INSTANTIATE_TEST_SUITE_P(Quotas, ErQuota, testing::ValuesIn(quotas()), setting_name);

/* Without SR there is no other way: an error, to the endpoint that got nothing, that names the
 * variables; the one that has a FIFO goes on */
TEST(Er, QuotaExhaustedWithoutSr)
{
    isolated({{"UCX_GLEX_CHANNELS", "er"}, {"UCX_GLEX_ER_MAX_CHANNELS", "1"}}, [] {
        Md md;
        Iface target(md), first(md), second(md);
        unsigned received = 0;
        ErrorLog log;
        Ep lucky(first, target.address()), unlucky(second, target.address());

        target.on_am(AM_ID, [&](const void *, size_t) { ++received; });
        EXPECT_OK(lucky.am_short(AM_ID, 1, NULL, 0));
        uct_ep_am_short(unlucky.handle, AM_ID, 1, NULL, 0);
        progress_until("the error handler", [&] { return !second.failed.empty(); });
        EXPECT_EQ(second.failed.front().first, unlucky.handle);
        EXPECT_NE(log.text().find("ER_MAX_CHANNELS"), std::string::npos) << log.text();
        EXPECT_TRUE(UCS_STATUS_IS_ERR(uct_ep_am_short(unlucky.handle, AM_ID, 1, NULL, 0)));
        EXPECT_OK(lucky.am_short(AM_ID, 1, NULL, 0));
        progress_until("the messages", [&] { return received == 2; });
    });
}

/* A FIFO that is too short for the sender's messages, where there is no other channel: an error,
 * not messages that wait for ever */
TEST(Er, FifoTooShortWithoutSr)
{
    isolated({{"UCX_GLEX_CHANNELS", "er"}, {"UCX_GLEX_ERQ_SIZE", "4096"}}, [] {
        Md md;
        Iface target(md);
        ErrorLog log;

        target.on_am(AM_ID, [](const void *, size_t) {});
        unsetenv("UCX_GLEX_ERQ_SIZE");
        Iface sender(md);
        Ep ep(sender, target.address());
        uct_ep_am_short(ep.handle, AM_ID, 1, NULL, 0);
        progress_until("the error handler", [&] { return !sender.failed.empty(); });
        EXPECT_EQ(sender.failed.front().first, ep.handle);
        EXPECT_NE(log.text().find("UCX_GLEX_ERQ_SIZE"), std::string::npos) << log.text();
    });
}

/* Every offset of the FIFO is the start of a message of every length: steps that have no common
 * divisor with the FIFO's length */
TEST(Er, WrapAtEveryOffset)
{
    for (const char *faults : {"", "nomap"}) {
        Env env = {{"UCX_GLEX_CHANNELS", "er"}, {"UCX_GLEX_ERQ_SIZE", "4096"}};

        if (*faults != '\0') {
            env["GLEX_FAULT"] = faults;
        }
        isolated(env, [] {
            Md md;
            Iface a(md), b(md);
            const size_t max = a.attr.cap.am.max_bcopy, unit = 64;
            const unsigned units = 4096 / unit;
            uint32_t n = 0, received = 0;
            Plan plan = [&](uint32_t i) {
                /* after `units` messages of one unit and one of each length, the start has moved */
                unsigned step = i % (max / unit + 1);

                return Message{Op::BCOPY, (step == 0) ? 1 : step * unit - (i % 3)};
            };
            b.on_am(AM_ID, [&](const void *data, size_t length) {
                check_next(data, length, 1, plan, &received);
            });
            Sender sender(a, b.address(), AM_ID, 1, plan);

            for (n = 0; n < 40 * units * (max / unit + 1); ++n) {
                sender.send();
            }
            progress_until("all messages", [&] { return received == n; });
            EXPECT_TRUE(sender.ep.vc()->er_tx != NULL) << "it was not ER that carried them";
        });
    }
}

} // namespace

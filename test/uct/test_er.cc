/*
 * The quota of ER channels: FIFOs go to who comes first, idle ones are asked back and lent again,
 * and order is kept across every switch between ER and SR.
 */
#include "traffic.h"

#include <sys/resource.h>
#include <array>

namespace
{

const uint8_t AM_ID = 4;

/* Several interfaces that send to one, all in one process */
class Crowd
{
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

    Md md;
    Iface target;
    std::list<Iface> ifaces;
    std::vector<Plan> plans;
    std::vector<uint32_t> received;
    std::list<Sender> senders;
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

/* `through_sr` messages go through SR before a FIFO is asked for. Where none do, both sides ask when
 * they connect; else the one that sends. */
void check_threshold(const char *channels, unsigned thresh, unsigned through_sr)
{
    Env env = {{"UCX_GLEX_CHANNELS", channels}, {"UCX_GLEX_ER_THRESH", std::to_string(thresh)}};

    isolated(env, [=] {
        Crowd crowd(1);
        uct_glex_iface_t *back = crowd.ifaces.front().internals();
        const unsigned lent_back = (through_sr == 0);

        for (unsigned i = 0; i < through_sr; ++i) {
            EXPECT_FALSE(crowd.has_fifo(0)) << i << " messages";
            crowd.sender(0).send();
            crowd.settle();
        }
        crowd.sender(0).send();
        progress_until("the FIFOs",
                       [&] { return crowd.has_fifo(0) && (back->er.lent == lent_back); });
        for (unsigned i = 0; i < 200; ++i) {
            crowd.sender(0).send();
        }
        crowd.settle();
        EXPECT_EQ(crowd.target.internals()->er.lent, 1u);
        EXPECT_EQ(back->er.lent, lent_back);
        crowd.target.check_credits();
    });
}

TEST(Er, IsAskedForAfterSoManyMessages)
{
    check_threshold("er,sr", 0, 0);
    check_threshold("er,sr", 1, 1);
    check_threshold("er,sr", 20, 20);
    check_threshold("er,sr", 300, 300);
    check_threshold("er", 20, 0); /* there is no other channel */
}

/* Without mapped memory the peer fetches long messages of SR over the network: both sides ask
 * when they connect. */
TEST(Er, IsAskedForAtOnceWhereNothingIsMapped)
{
    for (const char *faults : {"", "nomap"}) {
        const bool asks = (*faults != '\0');
        Env env = {{"UCX_GLEX_CHANNELS", "er,sr"}, {"UCX_GLEX_ER_THRESH", "64"}};

        if (asks) {
            env["GLEX_FAULT"] = faults;
        }
        isolated(env, [=] {
            Crowd crowd(1);

            crowd.sender(0).send();
            crowd.settle();
            for (unsigned i = 0; i < 100; ++i) {
                progress();
            }
            EXPECT_EQ(crowd.has_fifo(0), asks);
            EXPECT_EQ(crowd.ifaces.front().internals()->er.lent, unsigned(asks));
        });
    }
}

class ErQuota : public WithSetting
{
};

/* Send from one until it has a FIFO; the others are silent */
void heat(Crowd &crowd, unsigned hot)
{
    ucs_time_t end = ucs_get_time() + ucs_time_from_sec(30);
    unsigned i;

    for (i = 0; (ucs_get_time() < end) && !crowd.has_fifo(hot); ++i) {
        crowd.sender(hot).send();
        if ((i % 16) == 15) {
            progress();
        }
    }
    EXPECT_TRUE(crowd.has_fifo(hot)) << "no FIFO for the only one that sends, " << i << " messages";
    for (i = 0; i < 200; ++i) {
        crowd.sender(hot).send(); /* through the FIFO */
    }
}

/* Who sends gets the FIFO of one that lies idle, each in its turn, more than once */
TEST_P(ErQuota, IdleFifosMove)
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

/* FIFOs lent that have so many units */
unsigned num_of_size(Crowd &crowd, unsigned units)
{
    const uct_glex_iface_t *in = crowd.target.internals();
    unsigned num = 0;

    for (unsigned i = 0; i < in->er.max; ++i) {
        num += (in->er_rx[i].vc != NULL) && (in->er_rx[i].fifo.units == units);
    }
    return num;
}

/* Who chooses no size gets large FIFOs first. One that moves on is lent again as what it is. */
TEST(Er, TheFirstFifosAreLarge)
{
    isolated(quota_of(6), [] {
        Crowd crowd(8);
        const auto &er = crowd.target.internals()->er;

        for (unsigned i = 0; i < 6; ++i) {
            heat(crowd, i);
            EXPECT_EQ(num_of_size(crowd, er.units[1]), std::min(i + 1, 4u));
        }
        EXPECT_EQ(er.units[1] << er.layout[0].unit_shift, 256 << 10);
        EXPECT_EQ(er.units[0] << er.layout[0].unit_shift, 32 << 10);
        for (unsigned round = 0; round < 2; ++round) {
            for (unsigned i = 0; i < crowd.plans.size(); ++i) {
                heat(crowd, i);
                EXPECT_EQ(num_of_size(crowd, er.units[1]) + er.large_left, 4u);
            }
        }
        crowd.settle();
        crowd.target.check_credits();
    });
}

/* Who has no memory for a large one lends a small one */
TEST(Er, SmallFifoForWantOfMemory)
{
    isolated(quota_of(6), [] {
        Crowd crowd(1);
        const auto &er = crowd.target.internals()->er;
        const struct rlimit no_more = {984 << 10, 984 << 10}; /* of the endpoint's file */

        ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &no_more), 0);
        heat(crowd, 0);
        EXPECT_EQ(er.lent, 1u);
        EXPECT_EQ(num_of_size(crowd, er.units[0]), 1u);
        EXPECT_EQ(er.large_left, 0u);
        crowd.settle();
        crowd.target.check_credits();
    });
}

/* They take half of the memory at most, and one that is chosen is that of all */
TEST(Er, LargeFifosLeaveRoom)
{
    isolated(quota_of(64) + Env{{"UCX_GLEX_ER_MAX_MEM", "1m"}}, [] {
        Md md;
        Iface iface(md);

        EXPECT_EQ(iface.internals()->er.large_left, 2u);
        EXPECT_EQ(iface.internals()->er.max, 2u + 512 / 32);
    });
    isolated(quota_of(64) + Env{{"UCX_GLEX_ERQ_SIZE", "64k"}}, [] {
        Md md;
        Iface iface(md);

        EXPECT_EQ(iface.internals()->er.large_left, 0u);
        EXPECT_EQ(iface.internals()->er.units[0], 1024);
    });
}

/* First come, first served: borrowers that use their FIFOs keep them, however much others send */
TEST(Er, FifosInUseStay)
{
    isolated(quota_of(2), [] {
        Crowd crowd(4);
        const auto &er = crowd.target.internals()->er;
        uint8_t first_gen;

        send_in_turn(crowd, 0, 2, 10);
        progress_until("the FIFOs", [&] { return crowd.num_fifos() == 2; });
        first_gen = er.next_gen;
        for (ucs_time_t end = ucs_get_time() + ucs_time_from_msec(200); ucs_get_time() < end;) {
            send_in_turn(crowd, 0, 2, 1);
            send_in_turn(crowd, 2, 4, 10);
        }
        crowd.settle();
        EXPECT_TRUE(crowd.has_fifo(0) && crowd.has_fifo(1));
        EXPECT_EQ(er.next_gen, first_gen) << "a FIFO was lent again";
    });
}

/* One who has the only FIFO, and one who was refused it */
class Rivals
{
  public:
    Rivals()
        : target(md), holder_iface(md), refused_iface(md), holder(holder_iface, target.address()),
          refused(refused_iface, target.address())
    {
        target.on_am(AM_ID, [this](const void *data, size_t length) {
            uint64_t from;

            ASSERT_EQ(length, sizeof(from));
            memcpy(&from, data, length);
            ++received.at(from);
        });
        EXPECT_OK(holder.am_short(AM_ID, 0, NULL, 0));
        progress_until("the FIFO", [&] { return holder.vc()->er_tx != NULL; });
        EXPECT_OK(refused.am_short(AM_ID, 1, NULL, 0));
        progress_until("the refusal", [&] { return refused.vc()->er_backoff == 1; });
    }

    Md md;
    Iface target, holder_iface, refused_iface;
    Ep holder, refused;
    std::array<unsigned, 2> received{};
};

/* Who is refused a FIFO again and again asks ever more seldom */
TEST(Er, RequestsBackOff)
{
    isolated(quota_of(1), [] {
        Rivals rivals;
        unsigned requests = 0;
        bool asked = false;

        for (unsigned i = 0; i < 100000; ++i) {
            EXPECT_OK(rivals.holder.am_short(AM_ID, 0, NULL, 0));
            EXPECT_OK(rivals.refused.am_short(AM_ID, 1, NULL, 0));
            progress();
            requests += !asked && uct_glex_er_is_requested(rivals.refused.vc());
            asked = uct_glex_er_is_requested(rivals.refused.vc());
        }
        EXPECT_GE(requests, 7u); /* after 256, 512, 1024, ... */
        EXPECT_LE(requests, 9u);
    });
}

/* A FIFO that is never empty leaves the queue of messages its part of progress */
TEST(Er, BusyFifoLeavesRoomForSr)
{
    isolated(quota_of(1), [] {
        const unsigned CALLS = 4096;
        Rivals rivals;

        rivals.received = {};
        for (unsigned i = 0; i < CALLS; ++i) {
            while (uct_ep_am_short(rivals.holder.handle, AM_ID, 0, NULL, 0) == UCS_OK) {
            }
            while (uct_ep_am_short(rivals.refused.handle, AM_ID, 1, NULL, 0) == UCS_OK) {
            }
            rivals.target.progress();
            rivals.holder_iface.progress();
            rivals.refused_iface.progress();
        }
        EXPECT_GE(rivals.received[0], CALLS);
        EXPECT_GE(rivals.received[1], CALLS);
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
    Env small = {{"UCX_GLEX_EP_MPQ_CAPACITY", "128"},
                 {"UCX_GLEX_SR_CREDIT_START", "1"},
                 {"UCX_GLEX_SRQ_CAPACITY", "4"},
                 {"UCX_GLEX_ERQ_SIZE", "4096"}};

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

/* Without SR a borrower that returns its FIFO asks for another one at once. The lender, which has not
 * taken all messages from the FIFO yet, answers when it has. In each round the lender finds the request
 * at another time. */
TEST(Er, RevokedFifoIsLentAgainWithoutSr)
{
    isolated({{"UCX_GLEX_CHANNELS", "er"}}, [] {
        Md md;
        Iface lender(md), borrower(md);
        uint64_t sent = 0, received = 0;
        Ep ep(borrower, lender.address());

        lender.on_am(AM_ID, [&](const void *data, size_t) {
            EXPECT_EQ(*(const uint64_t *)data, received);
            ++received;
        });
        for (unsigned round = 0; round < 8; ++round) {
            EXPECT_OK(ep.am_short(AM_ID, sent++, NULL, 0));
            progress_until("the message", [&] { return received == sent; });
            for (unsigned i = 0; i < 100 + round; ++i) {
                lender.progress();
            }
            uct_glex_ctl_post(lender.internals()->vcs[0], UCT_GLEX_CTL_ER_REVOKE);
            while (lender.internals()->vcs[0]->ctl != 0) {
                lender.progress();
            }
            while (uct_ep_am_short(ep.handle, AM_ID, sent, NULL, 0) == UCS_OK) {
                ++sent;
            }
            borrower.progress();
            EXPECT_EQ(ep.vc()->er_tx, nullptr);
            progress_until("all messages", [&] { return received == sent; });
        }
        EXPECT_OK(ep.flush());
        EXPECT_FALSE(ep.failed());
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

/* Long messages take multiples of the spacing, where the borrower maps the FIFO; short ones units */
TEST(Er, LongMessagesLieApart)
{
    for (bool is_mapped : {true, false}) {
        Env env = {{"UCX_GLEX_CHANNELS", "er"}, {"UCX_GLEX_ERQ_SPACING", "2k"}};

        if (!is_mapped) {
            env["GLEX_FAULT"] = "nomap";
        }
        isolated(env, [&] {
            Md md;
            Iface a(md), b(md);
            const size_t lengths[] = {1, 512, 513, 2048, 2049};
            Plan plan = [&](uint32_t i) { return Message{Op::BCOPY, lengths[i % 5]}; };
            uint32_t received = 0;
            b.on_am(AM_ID, [&](const void *data, size_t length) {
                check_next(data, length, 1, plan, &received);
            });
            Sender sender(a, b.address(), AM_ID, 1, plan);

            for (unsigned n = 0; n < 5; ++n) {
                sender.send();
            }
            progress_until("all messages", [&] { return received == 5; });
            EXPECT_EQ(sender.ep.vc()->tx_fifo.head,
                      is_mapped ? 0 + 8 + 32 + 32 + 64 : 1 + 8 + 9 + 32 + 33);
        });
    }
}

/* Every offset of the FIFO is the start of a message of every length: steps that have no common
 * divisor with the FIFO's length */
TEST(Er, WrapAtEveryOffset)
{
    for (const Env &more :
         {Env{}, Env{{"GLEX_FAULT", "nomap"}}, Env{{"UCX_GLEX_ERQ_SPACING", "256"}}}) {
        isolated(Env{{"UCX_GLEX_CHANNELS", "er"}, {"UCX_GLEX_ERQ_SIZE", "4096"}} + more, [] {
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

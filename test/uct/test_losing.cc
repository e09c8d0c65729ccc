/*
 * A NIC that loses what a full message queue cannot take: peers that find no entries of the queue
 * wait, one line says so, and they are served when others leave. Iface::make_losing() has an
 * interface of the software NIC share out its queue for that.
 */
#include "traffic.h"

#include <algorithm>
#include <set>

#include <signal.h>
#include <string.h>

namespace
{

const uint8_t AM_ID = 3, AM_ANSWER = 4;

/* Messages of each peer */
const unsigned COUNT = 20;

/* A queue of the least size. Its reserve is 32 entries, its pool 8; 8 peers have 3 each. */
const Env SMALL = {{"UCX_GLEX_EP_MPQ_CAPACITY", "64"}};
const unsigned FITTING = 8;

const char *const FULL_LINE =
    "glex: 8 peers use up the message queue, and others wait to connect: raise "
    "UCX_GLEX_EP_MPQ_CAPACITY to 24 entries and 6 more for each peer\n";

class Losing : public WithSetting
{
};

/* VCs that wait for entries of an interface's queue */
unsigned waiting(const Iface &iface)
{
    return ucs_list_length(&iface.internals()->mpq.wait);
}

/* Interfaces of one process, which all send to one more, in the order in which they connect */
class Senders
{
  public:
    explicit Senders(unsigned count) : receiver(md), received(count, 0)
    {
        EXPECT_EQ(receiver.make_losing(), FITTING);
        receiver.on_am(AM_ID, [this](const void *data, size_t length) {
            unsigned from = sender_of(data, length);

            check_next(data, length, from, mixed_plan(receiver, from, 3000), &received[from]);
        });
        for (unsigned i = 0; i < count; ++i) {
            ifaces.emplace_back(new Iface(md));
            senders.emplace_back(new Sender(*ifaces.back(), receiver.address(), AM_ID, i,
                                            mixed_plan(receiver, i, 3000)));
        }
    }

    /* Who is still there sends all that it has, as far as it may */
    void send()
    {
        for (std::unique_ptr<Sender> &sender : senders) {
            while ((sender != nullptr) && (sender->sent < COUNT) && sender->try_send()) {
            }
        }
    }

    /* Everything of the first `count` arrives, or had arrived before its sender left */
    void deliver(const char *what, unsigned count)
    {
        progress_until(what, [&] {
            send();
            for (unsigned i = 0; i < count; ++i) {
                if ((received[i] < COUNT) && (senders[i] != nullptr)) {
                    return false;
                }
            }
            return true;
        });
    }

    /* Nobody after the first `served` has an entry of the queue, however long it tries */
    void expect_others_wait(unsigned served)
    {
        for (unsigned i = 0; i < 300; ++i) {
            send();
            progress();
        }
        for (unsigned i = served; i < senders.size(); ++i) {
            EXPECT_EQ(received[i], 0u) << "sender " << i;
            if (senders[i] != nullptr) {
                EXPECT_EQ(senders[i]->sent, 0u) << "sender " << i << " has a credit";
                EXPECT_EQ(senders[i]->ep.vc()->state, UCT_GLEX_VC_CONNECTING);
            }
        }
        receiver.check_credits();
        EXPECT_LT(receiver.internals()->mpq.free, 3u);
    }

    /* Its endpoint is destroyed, and its interface closed */
    void leave(unsigned i)
    {
        senders[i].reset();
        ifaces[i].reset();
    }

    void expect_nobody_failed() const
    {
        EXPECT_TRUE(receiver.failed.empty());
        for (const std::unique_ptr<Iface> &iface : ifaces) {
            EXPECT_TRUE((iface == nullptr) || iface->failed.empty());
        }
    }

    Md md;
    Iface receiver;
    std::vector<uint32_t> received;
    std::vector<std::unique_ptr<Iface>> ifaces;
    std::vector<std::unique_ptr<Sender>> senders;
};

/* Each that leaves makes room for one, in the order of their coming. The line is logged once. */
TEST_P(Losing, OthersWaitUntilOneLeaves)
{
    isolated(env(), [] {
        ErrorLog log;
        Senders all(20);

        all.deliver("those that fit", FITTING);
        all.expect_others_wait(FITTING);
        EXPECT_EQ(waiting(all.receiver), 12u);
        EXPECT_EQ(log.text(), FULL_LINE);
        for (unsigned i = 0; i < 12; ++i) {
            all.leave(i);
            all.deliver("the next one", FITTING + i + 1);
            all.expect_others_wait(FITTING + i + 1);
            EXPECT_EQ(waiting(all.receiver), 11 - i);
        }
        EXPECT_EQ(all.received, std::vector<uint32_t>(20, COUNT));
        EXPECT_EQ(log.text(), FULL_LINE);
        all.expect_nobody_failed();
    });
}

/* The line counts those that have entries, and neither those that have left nor those that wait */
TEST_P(Losing, LineCountsPeersWithEntries)
{
    isolated(env(), [] {
        ErrorLog log;
        Senders all(14);

        for (unsigned i = 0; i < 5; ++i) {
            all.senders[i]->send();
            progress_until("its message", [&] { return all.received[i] == 1; });
            all.leave(i);
        }
        all.deliver("those that fit", 5 + FITTING);
        EXPECT_EQ(waiting(all.receiver), 1u);
        EXPECT_EQ(log.text(), FULL_LINE);
    });
}

/* Nothing is logged where all that come fit */
TEST_P(Losing, NobodyWaitsWhereAllFit)
{
    isolated(env(), [] {
        Senders all(FITTING);

        all.deliver("all", FITTING);
        EXPECT_EQ(waiting(all.receiver), 0u);
        all.receiver.check_credits();
    });
}

/* Some leave while they wait: when their turn comes their entries are for those behind them */
TEST_P(Losing, LeavesWhileItWaits)
{
    isolated(env(), [] {
        ErrorLog log;
        Senders all(13);

        all.deliver("those that fit", FITTING);
        all.expect_others_wait(FITTING);
        all.leave(FITTING);
        all.leave(FITTING + 1);
        all.leave(0);
        all.deliver("the one behind them", FITTING + 3);
        all.expect_others_wait(FITTING + 3);
        EXPECT_EQ(waiting(all.receiver), 2u);
        all.leave(1);
        all.leave(2);
        all.deliver("the last ones", 13);
        EXPECT_EQ(waiting(all.receiver), 0u);
        all.receiver.check_credits();
        EXPECT_EQ(log.text(), FULL_LINE);
        all.expect_nobody_failed();
    });
}

/* A peer that lives may send what its credits allow until it knows that its VC failed here: until
 * then nobody else gets its entries */
TEST_P(Losing, EntriesOfAFailedVcAreKept)
{
    isolated(env(), [] {
        ErrorLog log;
        Senders all(FITTING + 1);
        uct_glex_iface_t *receiver = all.receiver.internals();

        all.deliver("those that fit", FITTING);
        fail_at_once(receiver->vcs[0]);
        for (unsigned i = 0; i < 1000; ++i) {
            all.receiver.progress();
            all.senders[FITTING]->try_send();
            all.ifaces[FITTING]->progress();
        }
        EXPECT_EQ(receiver->vcs[0]->state, UCT_GLEX_VC_FAILED);
        EXPECT_EQ(waiting(all.receiver), 1u);
        EXPECT_EQ(all.received[FITTING], 0u);
        all.receiver.check_credits();
        progress_until("the peer to learn of it", [&] { return waiting(all.receiver) == 0; });
        all.deliver("the one that waited", FITTING + 1);
        all.receiver.check_credits();
        EXPECT_EQ(log.text(), FULL_LINE);
    });
}

/* A request that is pending until its endpoint's VC has entries */
struct Pending {
    static ucs_status_t on_turn(uct_pending_req_t *uct)
    {
        Pending *self = (Pending *)uct; /* the first member */
        ucs_status_t status = uct_ep_am_short(self->ep->handle, AM_ID, 0, NULL, 0);

        self->done += (status == UCS_OK);
        return status;
    }

    uct_pending_req_t uct;
    Ep *ep;
    unsigned done = 0;
};

/* The one with the small queue connects itself, to more than fit. What waits is sent when others
 * leave, without another try; who gives up waiting leaves nothing behind. */
TEST_P(Losing, ConnectsToMoreThanFit)
{
    isolated(env(), [] {
        const unsigned count = FITTING + 4;
        ErrorLog log;
        Md md;
        Iface one(md);
        std::vector<std::unique_ptr<Iface>> peers;
        std::vector<std::unique_ptr<Ep>> eps;
        std::vector<Pending> pending(count);
        std::vector<unsigned> received(count, 0);

        EXPECT_EQ(one.make_losing(), FITTING);
        for (unsigned i = 0; i < count; ++i) {
            peers.emplace_back(new Iface(md));
            peers[i]->on_am(AM_ID, [&received, i](const void *, size_t) { ++received[i]; });
            eps.emplace_back(new Ep(one, peers[i]->address()));
            pending[i].ep = eps[i].get();
            pending[i].uct.func = Pending::on_turn;
            EXPECT_STATUS(UCS_ERR_NO_RESOURCE, uct_ep_am_short(eps[i]->handle, AM_ID, 0, NULL, 0));
            EXPECT_OK(uct_ep_pending_add(eps[i]->handle, &pending[i].uct, 0));
        }
        progress_until("those that fit",
                       [&] { return std::count(received.begin(), received.end(), 1u) == FITTING; });
        for (unsigned i = 0; i < 300; ++i) {
            progress();
        }
        for (unsigned i = FITTING; i < count; ++i) {
            EXPECT_EQ(eps[i]->vc()->state, UCT_GLEX_VC_WAIT_MPQ);
            EXPECT_EQ(received[i] + pending[i].done, 0u);
        }
        EXPECT_EQ(waiting(one), 4u);
        EXPECT_EQ(log.text(), FULL_LINE);
        one.check_credits();

        /* The first of those that wait is nobody's any more */
        uct_ep_pending_purge(eps[FITTING]->handle, [](uct_pending_req_t *, void *) {}, NULL);
        eps[FITTING].reset();
        for (unsigned i = 0; i < 4; ++i) {
            eps[i].reset();
            peers[i].reset();
        }
        progress_until("the others", [&] {
            return (received[FITTING + 1] == 1) && (received[FITTING + 2] == 1) &&
                   (received[FITTING + 3] == 1);
        });
        EXPECT_EQ(received[FITTING], 0u);
        EXPECT_EQ(waiting(one), 0u);
        EXPECT_TRUE(one.failed.empty());
        one.check_credits();
        EXPECT_EQ(log.text(), FULL_LINE);
    });
}

/* All send as much as they may to one that looks at nothing: its queue has room for all of it,
 * beside the reserve */
TEST(LosingQueue, HoldsAllThatMayCome)
{
    isolated(SMALL + Env{{"UCX_GLEX_CHANNELS", "sr"}}, [] {
        ErrorLog log;
        Senders all(20);
        struct glex_ext_queues queues;
        unsigned sent, more = 0;

        all.deliver("those that fit", FITTING);
        EXPECT_EQ(all.receiver.internals()->mpq.pool, 0u) << "windows have grown";
        all.receiver.check_credits();
        do {
            sent = more;
            for (std::unique_ptr<Sender> &sender : all.senders) {
                while (uct_ep_am_short(sender->ep.handle, AM_ANSWER, 0, NULL, 0) == UCS_OK) {
                    ++more;
                }
                sender->ep.iface.progress();
            }
        } while (more > sent);
        EXPECT_GE(more, FITTING);
        EXPECT_LE(more, FITTING + 8) << "a credit each, and the pool";
        EXPECT_EQ(glex_ext_query_queues(all.receiver.internals()->nic, &queues), GLEX_SUCCESS);
        EXPECT_GE(queues.mps_arrived - queues.mps_taken, more);
        EXPECT_LE(queues.mps_arrived - queues.mps_taken, 32u);
        all.receiver.on_am(AM_ANSWER, [&](const void *, size_t) { --more; });
        progress_until("what was sent", [&] { return more == 0; });
    });
}

/* A queue of the length that the line advises has enough for all peers, however many there are */
TEST(LosingQueue, AdviceSuffices)
{
    for (unsigned peers : {9, 10, 15, 21, 40, 100, 999, 10000}) {
        uct_glex_iface_config_t config = {};
        uct_glex_iface_t iface = {};

        EXPECT_OK(uct_glex_mpq_init(&iface, &config, 24 + 6 * peers));
        EXPECT_GE(iface.mpq.free / 3, peers);
        EXPECT_LE(iface.mpq.free + iface.mpq.pool, 24 + 6 * peers);
    }
}

/* A peer that waits has no credits. If it sends all the same, and wants more of them, it gets none,
 * and what others have is not touched. */
TEST(LosingQueue, GrowsForNobodyThatWaits)
{
    isolated(SMALL + Env{{"UCX_GLEX_CHANNELS", "er"}, {"UCX_GLEX_SR_CREDIT_START", "1"}}, [] {
        ErrorLog log;
        Senders all(FITTING + 1);
        glex_ep_addr_t to = {.v = all.receiver.internals()->ep_addr};

        progress_until("the one that waits", [&] {
            for (std::unique_ptr<Sender> &sender : all.senders) {
                if (sender->sent == 0) {
                    sender->try_send();
                }
            }
            return waiting(all.receiver) == 1;
        });
        const uct_glex_vc_t *vc = all.receiver.internals()->vcs[FITTING];
        EXPECT_EQ(vc->state, UCT_GLEX_VC_ACCEPTING);
        EXPECT_EQ(all.receiver.internals()->mpq.pool, 8u);
        all.receiver.on_am(AM_ANSWER, [](const void *, size_t) {});
        waiting_for("its message");
        EXPECT_EQ(glex_ext_post_mp(all.ifaces[FITTING]->internals()->nic, to,
                                   uct_glex_hdr_type_am(UCT_GLEX_MP_AM, AM_ANSWER) |
                                       (UCT_GLEX_FLAG_MORE << 8) | ((uint64_t)vc->id << 16),
                                   0, 0, NULL, 0),
                  GLEX_SUCCESS);
        while (vc->mp_rx.rcvd == 0) {
            all.receiver.progress();
        }
        all.receiver.progress();
        EXPECT_EQ(vc->mp_rx.window, 0u);
        EXPECT_EQ(vc->state, UCT_GLEX_VC_ACCEPTING);
        EXPECT_EQ(waiting(all.receiver), 1u);
        all.receiver.check_credits();
    });
}

/* Flags of the team */
enum { STOP };

/* Sends all it has, answers nothing, and is there until it is killed or told to end */
void send_until_stopped(Team &team, Iface &iface)
{
    Sender sender(iface, team.blob(0), AM_ID, team.rank(), mixed_plan(iface, team.rank(), 3000));

    iface.on_am(AM_ANSWER, [](const void *, size_t) {});
    team.may_die();
    progress_until("the end", [&] {
        while ((sender.sent < COUNT) && sender.try_send()) {
        }
        return team.flag(STOP) != 0;
    });
    sender.drain();
}

/* The one that others wait for */
class Survivor
{
  public:
    Survivor(Team &team, Iface &iface)
        : team_(team), iface_(iface), received_(team.size(), 0), answers_(team.size())
    {
        EXPECT_EQ(iface.make_losing(), FITTING);
        iface.on_am(AM_ID, [this](const void *data, size_t length) {
            unsigned from = sender_of(data, length);

            check_next(data, length, from, mixed_plan(iface_, from, 3000), &received_[from]);
        });
    }

    unsigned num_served() const
    {
        return std::count(received_.begin(), received_.end(), COUNT);
    }

    void serve(const char *what, unsigned count)
    {
        progress_until(what, [&] { return num_served() >= count; });
    }

    /* Each that was served gets an answer, so that there is an endpoint to it */
    void answer()
    {
        for (unsigned i = 1; i < team_.size(); ++i) {
            if ((received_[i] == COUNT) && (answers_[i] == nullptr)) {
                answers_[i].reset(new Ep(iface_, team_.blob(i)));
                EXPECT_OK(answers_[i]->am_short(AM_ANSWER, 0, NULL, 0));
            }
        }
    }

    void kill_one_that_was_served()
    {
        for (unsigned i = 1; i < team_.size(); ++i) {
            if ((received_[i] == COUNT) && (killed_.count(i) == 0)) {
                kill_rank(i);
                return;
            }
        }
        ADD_FAILURE() << "there is none";
    }

    void kill_the_first_that_waits()
    {
        const uct_glex_vc_t *vc =
            ucs_container_of(iface_.internals()->mpq.wait.next, uct_glex_vc_t, wait);

        for (unsigned i = 1; i < team_.size(); ++i) {
            if (endpoint_of(i) == vc->peer) {
                kill_rank(i);
                return;
            }
        }
        ADD_FAILURE() << "nobody has its address";
    }

  private:
    uint64_t endpoint_of(unsigned rank) const
    {
        uct_glex_iface_addr_t address;

        memcpy(&address, team_.blob(rank).data() + sizeof(uct_glex_device_addr_t), sizeof(address));
        return address.ep_addr;
    }

    void kill_rank(unsigned rank)
    {
        killed_.insert(rank);
        EXPECT_EQ(kill(team_.pid(rank), SIGKILL), 0);
    }

    Team &team_;
    Iface &iface_;
    std::vector<uint32_t> received_;
    std::vector<std::unique_ptr<Ep>> answers_;
    std::set<unsigned> killed_;
};

/* Processes are killed, one of them while it waits */
void kill_some(const Env &env, bool with_answers)
{
    team(FITTING + 4, env, [with_answers](Team &team) {
        Md md;
        Iface iface(md);

        team.publish(iface.address());
        team.barrier();
        if (team.rank() != 0) {
            send_until_stopped(team, iface);
            return;
        }
        ErrorLog log;
        Survivor survivor(team, iface);

        survivor.serve("those that fit", FITTING);
        if (with_answers) {
            survivor.answer();
        }
        progress_until("all others to wait", [&] { return waiting(iface) == 3; });
        EXPECT_EQ(log.text(), FULL_LINE);
        survivor.kill_the_first_that_waits();
        survivor.kill_one_that_was_served();
        survivor.serve("one that waited", FITTING + 1);
        if (with_answers) {
            survivor.answer();
        }
        iface.check_credits();
        survivor.kill_one_that_was_served();
        survivor.serve("the other one", FITTING + 2);
        EXPECT_EQ(waiting(iface), 0u);
        iface.check_credits();
        EXPECT_EQ(log.text(), FULL_LINE);
        team.flag(STOP) = 1;
        team.barrier();
    });
}

TEST_P(Losing, OneThatIsKilledMakesRoom)
{
    kill_some(env(), true);
}

/* Nothing is sent to those that are killed: they are looked for because others wait */
TEST_P(Losing, OneThatNobodyAnswersMakesRoom)
{
    kill_some(env(), false);
}

/* Have progress find that a message of the interface found its peer's queue full */
void lose(Iface &iface, const uct_glex_vc_t *vc, enum uct_glex_mp_type type)
{
    struct glex_err_req *error = &iface.internals()->error;
    glex_ep_addr_t peer = {.v = vc->peer};

    *error = {};
    error->op = GLEX_ERR_OP_IMM_MP;
    error->status = GLEX_ERR_STATUS_DEST_MPQ_FULL;
    error->rmt_nic_id = peer.nic_id;
    error->rmt_ep_num = peer.ep_num;
    error->data0 = uct_glex_hdr_type_am(type, 0) |
                   (type == UCT_GLEX_MP_CONNECT ? (uint64_t)uct_glex_vc_mark(vc) << 48 :
                                                  (uint64_t)vc->tx.vc_id << 16);
    iface.internals()->has_error = 1;
}

/* The request for a FIFO was lost with the CONNECT */
TEST(LosingQueue, ConnectThatWasLostAsksAgain)
{
    isolated({{"UCX_GLEX_CHANNELS", "er,sr"}, {"UCX_GLEX_ER_THRESH", "0"}}, [] {
        Md md;
        Iface a(md), b(md);
        Ep ep(a, b.address());

        EXPECT_STATUS(UCS_ERR_NO_RESOURCE, uct_ep_am_short(ep.handle, AM_ID, 0, NULL, 0));
        a.progress();
        EXPECT_EQ(ep.vc()->state, UCT_GLEX_VC_CONNECTING);
        EXPECT_TRUE(uct_glex_er_is_requested(ep.vc()));
        lose(a, ep.vc(), UCT_GLEX_MP_CONNECT);
        a.progress();
        a.progress();
        EXPECT_EQ(ep.vc()->state, UCT_GLEX_VC_CONNECTING);
        EXPECT_TRUE(uct_glex_er_is_requested(ep.vc()));
        progress_until("the FIFO", [&] { return ep.vc()->er_tx != NULL; });
    });
}

/* A peer that only waits would never learn that its connection is over. Its queue loses END, and
 * the lease sends END again. */
TEST(LosingQueue, EndThatWasLostIsSentAgain)
{
    isolated({}, [] {
        Md md;
        Iface a(md), b(md);
        Ep ep(a, b.address());
        ErrorLog log;
        glex_ep_addr_t src;
        uint32_t length;
        uint64_t sent;
        void *data;

        b.on_am(AM_ID, [](const void *, size_t) {});
        EXPECT_OK(ep.am_short(AM_ID, 0, NULL, 0));
        EXPECT_OK(ep.flush());
        for (int i = 0; i < 1000; ++i) {
            progress();
        }
        fail_at_once(ep.vc());
        sent = a.counters().mp_tx;
        while (a.counters().mp_tx == sent) {
            a.progress();
        }
        while (glex_probe_next_mp(b.internals()->nic, &src, &data, &length) == GLEX_SUCCESS) {
            glex_discard_probed_mp(b.internals()->nic);
        }
        lose(a, ep.vc(), UCT_GLEX_MP_END);
        progress_until("another END", [&] { return uct_glex_vc_is_over(b.internals()->vcs[0]); });
    });
}

INSTANTIATE_TEST_SUITE_P(Channels, Losing,
                         testing::Values(Setting{"er", SMALL + Env{{"UCX_GLEX_CHANNELS", "er"}}},
                                         Setting{"sr", SMALL + Env{{"UCX_GLEX_CHANNELS", "sr"}}},
                                         Setting{"er_sr", SMALL}),
                         setting_name);

} // namespace

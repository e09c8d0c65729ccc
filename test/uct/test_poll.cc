/*
 * FIFOs that are polled: from the first message on, and not any more when they are silent. Then the
 * sender rings, and no message is forgotten.
 */
#include "traffic.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

namespace
{

const uint8_t AM_ID = 5;

/* Progress until FIFOs that are silent are forgotten */
void be_silent(Iface &iface)
{
    waiting_for("silent FIFOs to be forgotten");
    while (iface.internals()->num_polled > 0) {
        iface.progress();
    }
}

struct Pair {
    Pair() : source(md), sink(md), ep(source, sink.address())
    {
        sink.on_am(AM_ID, [this](const void *, size_t) { ++received; });
        send();
        progress_until("a FIFO", [&] { return (ep.vc()->er_tx != NULL) && (received == sent); });
    }

    void send()
    {
        EXPECT_OK(ep.am_short(AM_ID, sent++, NULL, 0));
    }

    Md md;
    Iface source, sink;
    Ep ep;
    unsigned sent = 0, received = 0;
};

/* A stream rings once, and again after a silence */
TEST(Poll, StreamRingsOnce)
{
    isolated({}, [] {
        Pair pair;

        for (unsigned round = 0; round < 5; ++round) {
            be_silent(pair.sink);
            uint64_t before = pair.source.counters().event_tx;
            unsigned polled = 0;

            for (unsigned i = 0; i < 10000; ++i) {
                pair.send();
                pair.sink.progress();
                polled += pair.sink.internals()->num_polled;
            }
            progress_until("all messages", [&] { return pair.received == pair.sent; });
            EXPECT_GT(polled, 0u);
            /* Where this process does not run for a while, the FIFO may be silent */
            EXPECT_LT(pair.source.counters().event_tx - before, 100u);
            EXPECT_GT(pair.source.counters().event_tx - before, 0u);
        }
    });
}

/* However many have sent something: who is silent is not polled */
TEST(Poll, SilentOnesCostNothing)
{
    isolated({}, [] {
        Md md;
        Iface sink(md);
        std::list<Iface> sources;
        std::list<Ep> eps;
        unsigned received = 0;

        sink.on_am(AM_ID, [&](const void *, size_t) { ++received; });
        for (unsigned i = 0; i < 40; ++i) {
            sources.emplace_back(md);
            eps.emplace_back(sources.back(), sink.address());
        }
        for (unsigned round = 1; round <= 3; ++round) {
            for (Ep &ep : eps) {
                EXPECT_OK(ep.am_short(AM_ID, 0, NULL, 0));
            }
            progress_until("a message of each", [&] { return received == round * 40; });
            be_silent(sink);
        }
        EXPECT_EQ(sink.internals()->er.lent, 40u);
    });
}

/* The receiver's event queue is full when its FIFO is to be polled: the ring comes later */
TEST(Poll, RingWaitsForTheQueue)
{
    isolated({{"UCX_GLEX_CHANNELS", "er"}}, [] {
        Pair pair;
        glex_ep_addr_t sink = {};

        be_silent(pair.sink);
        sink.v = pair.sink.internals()->ep_addr;
        while (glex_ext_post_event(pair.source.internals()->nic, sink, 0, 0xf) == GLEX_SUCCESS) {
        } /* foreign events, which nobody minds */
        pair.send();
        EXPECT_TRUE(pair.ep.vc()->er_tx->ring_due);
        for (unsigned i = 0; i < 100; ++i) {
            EXPECT_EQ(pair.source.progress(), 0u) << i;
        }
        progress_until("the message", [&] { return pair.received == pair.sent; });
        EXPECT_FALSE(pair.ep.vc()->er_tx->ring_due);
    });
}

/* The last message of who was killed before it rang is delivered all the same */
TEST(Poll, LastMessageOfTheKilled)
{
    team(2, {}, [](Team &team) {
        Md md;
        Iface iface(md);
        unsigned received = 0;

        iface.on_am(AM_ID, [&](const void *, size_t) { ++received; });
        team.publish(iface.address());
        team_barrier(team);
        if (team.rank() == 0) {
            Ep ep(iface, team.blob(1));

            EXPECT_OK(ep.am_short(AM_ID, 0, NULL, 0));
            progress_until("a FIFO", [&] { return ep.vc()->er_tx != NULL; });
            progress_until("silence", [&] { return team.flag(0) == 1; });
            ep.vc()->er_tx->ctrl->armed = 0; /* as when it is killed before it rings */
            EXPECT_OK(uct_ep_am_short(ep.handle, AM_ID, 0, NULL, 0));
            team.may_die();
            raise(SIGKILL);
        }
        Ep back(iface, team.blob(0)); /* somebody cares for the peer */
        EXPECT_OK(back.am_short(AM_ID, 0, NULL, 0));
        progress_until("the first message", [&] { return received == 1; });
        be_silent(iface);
        team.flag(0) = 1;
        progress_until("the peer's death", [&] { return !iface.failed.empty(); });
        EXPECT_EQ(received, 2u);
    });
}

/* A sender that pauses for any time, while its receiver forgets the FIFO again and again by going
 * to sleep: whoever forgets it too early, or rings too seldom, sleeps for ever */
void expect_none_forgotten(Team &team)
{
    const unsigned count = 20000;
    Md md;
    Iface iface(md);
    unsigned received = 0, seed = 1;

    iface.on_am(AM_ID, [&](const void *, size_t) { ++received; });
    team.publish(iface.address());
    team_barrier(team);
    if (team.rank() == 0) {
        Ep ep(iface, team.blob(1));

        for (unsigned i = 0; i < count; ++i) {
            EXPECT_OK(ep.am_short(AM_ID, i, NULL, 0));
            while (team.flag(0) <= i) {
            } /* it must come without any help */
            for (unsigned pause = rand_r(&seed) % 2000; pause > 0; --pause) {
                ucs_memory_cpu_load_fence();
            }
        }
    } else {
        pollfd fd = {-1, POLLIN, 0};

        EXPECT_OK(uct_iface_event_fd_get(iface.handle, &fd.fd));
        waiting_for("a message that was forgotten");
        while (received < count) {
            if (iface.progress() > 0) {
                team.flag(0) = received;
            } else if (uct_iface_event_arm(iface.handle, UCT_EVENT_RECV) == UCS_OK) {
                EXPECT_EQ(poll(&fd, 1, -1), 1);
            }
        }
    }
    team_barrier(team);
}

TEST(Poll, NoMessageIsForgotten)
{
    team(2, {{"UCX_GLEX_CHANNELS", "er"}}, expect_none_forgotten);
}

/* As a container's seccomp profile may do */
void forbid_membarrier()
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};

    EXPECT_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    EXPECT_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

/* Where membarrier() is forbidden senders use fences */
TEST(Poll, WithoutMembarrier)
{
    team(2, {{"UCX_GLEX_CHANNELS", "er"}}, [](Team &team) {
        forbid_membarrier(); /* for this process: each case has its own */
        expect_none_forgotten(team);
    });
}

} // namespace

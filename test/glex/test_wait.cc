/* Timeouts, sleeping and waking. */
#include "internals.h"
#include "nic.h"
#include "process.h"
#include "stepped.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <memory>
#include <thread>

class wait : public testing::Test
{
  protected:
    Device dev;
    Ep a{dev}, b{dev};
    Target to = b.target(b.reg(b.alloc(64), 64));

    void put_event(uint64_t cookie)
    {
        glex_imm_rdma_req_t req = imm_put(to, nullptr, 0, 0, cookie);
        ASSERT_OK(glex_imm_rdma(a, &req, nullptr));
    }
};

static int64_t now_ms()
{
    timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

TEST_F(wait, timeout_passes)
{
    glex_event_t *event;
    glex_ep_addr_t src;
    uint32_t len;
    void *data;

    int64_t start = now_ms();
    EXPECT_EQ(GLEX_NO_EVENT, glex_probe_first_event(b, 30, &event));
    EXPECT_LE(start + 30, now_ms());
    start = now_ms();
    EXPECT_EQ(GLEX_NO_MP, glex_probe_first_mp(b, 30, &src, &data, &len));
    EXPECT_EQ(GLEX_NO_MP, glex_receive_mp(b, 30, &src, data, &len));
    EXPECT_LE(start + 60, now_ms());
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_probe_first_event(b, -2, &event));
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_probe_first_mp(b, -2, &src, &data, &len));
}

TEST_F(wait, a_waiting_call_sleeps)
{
    struct rusage before, after;
    glex_event_t *event;

    getrusage(RUSAGE_SELF, &before);
    EXPECT_EQ(GLEX_NO_EVENT, glex_probe_first_event(b, 500, &event));
    getrusage(RUSAGE_SELF, &after);
    int64_t used = (after.ru_utime.tv_sec - before.ru_utime.tv_sec) * 1000000 +
                   after.ru_utime.tv_usec - before.ru_utime.tv_usec;
    EXPECT_GT(250000, used) << "us of processor time in half a second";
}

/* A peer that answers each message with one, and sleeps in between. */
CHILD(wait_echo)
{
    Device dev;
    Ep ep(dev);
    glex_ep_addr_t src;
    uint32_t len;
    void *data;

    send_up(ep.addr().v);
    for (;;) {
        EXPECT_OK(glex_probe_first_mp(ep, -1, &src, &data, &len));
        uint64_t n = *static_cast<uint64_t *>(data);
        EXPECT_OK(glex_discard_probed_mp(ep));
        ep.send_number(src, n);
        if (n == 0) {
            return testing::Test::HasFailure();
        }
    }
}

/* Both sides sleep in every round, or are about to: no wake-up is lost. */
TEST_F(wait, ping_pong_of_sleepers)
{
    Process echo("wait_echo");
    glex_ep_addr_t peer = {.v = echo.receive<uint64_t>()};

    for (int i = 5000; i >= 0; i--) {
        if (i % 7 == 0) {
            usleep(i % 50);
        }
        a.send_number(peer, i);
        ASSERT_EQ(i, a.receive_number(-1));
    }
    EXPECT_EQ(0, echo.wait());
}

/* The same through the descriptor, for messages and events alike. */
TEST_F(wait, arm_and_poll)
{
    Process echo("wait_echo");
    glex_ep_addr_t peer = {.v = echo.receive<uint64_t>()};
    pollfd pfd = {};

    ASSERT_OK(glex_ext_event_fd(a, &pfd.fd));
    pfd.events = POLLIN;
    for (int i = 2000; i >= 0; i--) {
        a.send_number(peer, i);
        int64_t got = -1;
        while (got < 0) {
            glex_ret_t ret = glex_ext_arm(a);
            ASSERT_TRUE(ret == GLEX_SUCCESS || ret == GLEX_BUSY);
            if (ret == GLEX_SUCCESS) {
                ASSERT_EQ(1, poll(&pfd, 1, WAIT_MS));
            }
            got = a.receive_number(0);
        }
        ASSERT_EQ(i, got);
    }
    EXPECT_EQ(0, echo.wait());
}

TEST_F(wait, arm_answers_busy_while_something_is_there)
{
    pollfd pfd = {};

    ASSERT_OK(glex_ext_event_fd(b, &pfd.fd));
    pfd.events = POLLIN;
    EXPECT_OK(glex_ext_arm(b));
    EXPECT_OK(glex_ext_arm(b));
    EXPECT_EQ(0, poll(&pfd, 1, 0));
    put_event(1);
    EXPECT_EQ(1, poll(&pfd, 1, 0));
    EXPECT_EQ(GLEX_BUSY, glex_ext_arm(b));
    EXPECT_EQ(1, b.receive_event(0));
    EXPECT_OK(glex_ext_arm(b));
    EXPECT_EQ(0, poll(&pfd, 1, 0)) << "old wake-ups are gone";
    a.send_number(b.addr(), 2);
    EXPECT_EQ(1, poll(&pfd, 1, 0));
    EXPECT_EQ(GLEX_BUSY, glex_ext_arm(b));
    EXPECT_EQ(2, b.receive_number(0));
    uint64_t wakeups = a.counters().wakeups;
    a.send_number(b.addr(), 3);
    EXPECT_EQ(wakeups, a.counters().wakeups) << "who does not sleep is not woken";
    EXPECT_EQ(3, b.receive_number(0));
}

/* An event that an endpoint leaves itself wakes it as well. */
TEST_F(wait, local_event_wakes)
{
    glex_mem_handle_t mh = b.reg(b.alloc(64), 64);
    glex_rdma_req_t req = rdma(GLEX_RDMA_TYPE_PUT, b.target(mh), mh, 8, 0, 16);
    pollfd pfd = {};

    ASSERT_OK(glex_ext_event_fd(b, &pfd.fd));
    pfd.events = POLLIN;
    ASSERT_OK(glex_ext_arm(b));
    req.flag = GLEX_FLAG_LOCAL_EVT;
    req.local_evt.cookie_1 = 1;
    ASSERT_OK(glex_rdma(b, &req, nullptr));
    EXPECT_EQ(1, poll(&pfd, 1, 0));
    EXPECT_EQ(0, b.receive_event(0));
}

static void on_signal(int)
{
}

TEST_F(wait, a_signal_interrupts)
{
    struct sigaction action = {};
    pthread_t self = pthread_self();
    bool done = false;
    glex_event_t *event;
    glex_ep_addr_t src;
    uint32_t len;
    void *data;

    action.sa_handler = on_signal; /* no SA_RESTART */
    sigaction(SIGUSR1, &action, nullptr);
    std::thread killer([&] {
        while (!__atomic_load_n(&done, __ATOMIC_RELAXED)) {
            pthread_kill(self, SIGUSR1);
            usleep(1000);
        }
    });
    EXPECT_EQ(GLEX_INTR, glex_probe_first_event(b, -1, &event));
    EXPECT_EQ(GLEX_INTR, glex_probe_first_mp(b, -1, &src, &data, &len));
    __atomic_store_n(&done, true, __ATOMIC_RELAXED);
    killer.join();
}

/* A sleeper is woken by its own kind of arrival only, and finds the other afterwards. */
TEST_F(wait, event_while_waiting_for_a_message)
{
    glex_ep_addr_t src;
    uint32_t len;
    void *data;

    put_event(1);
    EXPECT_EQ(GLEX_NO_MP, glex_probe_first_mp(b, 10, &src, &data, &len));
    EXPECT_EQ(1, b.receive_event(-1));
}

/*
 * Wake-ups that nobody takes off their sockets fill the sender's buffer: the next sleeper is woken
 * all the same.
 */
TEST_F(wait, many_that_do_not_look_at_their_wake_ups)
{
    std::vector<std::unique_ptr<Ep>> eps;

    for (int i = 0; i < 100; i++) {
        pollfd pfd = {};

        eps.emplace_back(new Ep(dev, ep_attr(GLEX_ANY_EP_NUM, 32)));
        ASSERT_OK(glex_ext_event_fd(*eps.back(), &pfd.fd));
        ASSERT_OK(glex_ext_arm(*eps.back()));
        pfd.events = POLLIN;
        for (int j = 0; j < 20; j++) {
            a.send_number(eps.back()->addr(), j);
        }
        ASSERT_EQ(1, poll(&pfd, 1, 0)) << i;
    }
}

/* A sender that is out of file descriptors wakes whom it knows, however many these are. */
TEST_F(wait, a_sender_without_descriptors_wakes)
{
    const int num = 3;
    std::vector<std::unique_ptr<Ep>> eps;
    pollfd pfds[num] = {};
    rlimit files;

    for (pollfd &pfd : pfds) {
        eps.emplace_back(new Ep(dev));
        a.send_number(eps.back()->addr(), 1);
        EXPECT_EQ(1, eps.back()->receive_number(0));
        ASSERT_OK(glex_ext_event_fd(*eps.back(), &pfd.fd));
        ASSERT_OK(glex_ext_arm(*eps.back()));
        pfd.events = POLLIN;
    }
    ASSERT_EQ(0, getrlimit(RLIMIT_NOFILE, &files));
    const rlimit none = {0, files.rlim_max};
    ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &none));
    for (const std::unique_ptr<Ep> &ep : eps) {
        a.send_number(ep->addr(), 2);
    }
    ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &files));
    EXPECT_EQ(static_cast<uint64_t>(num), a.counters().wakeups);
    for (pollfd &pfd : pfds) {
        EXPECT_EQ(1, poll(&pfd, 1, 0));
    }
}

/* A sender is killed between the publication and the wake-up, and nobody else ever posts. */
TEST_F(wait, a_wake_up_that_never_comes)
{
    pollfd pfd = {};

    ASSERT_OK(glex_ext_event_fd(b, &pfd.fd));
    pfd.events = POLLIN;
    ASSERT_OK(glex_ext_arm(b));
    internals_post_without_waking(a, b.addr());
    ASSERT_EQ(1, poll(&pfd, 1, WAIT_MS));

    glex_ep_addr_t src;
    uint32_t len;
    void *data;
    ASSERT_OK(glex_probe_first_mp(b, 0, &src, &data, &len));
    ASSERT_OK(glex_discard_probed_mp(b));
    ASSERT_OK(glex_ext_arm(b));
    EXPECT_EQ(0, poll(&pfd, 1, 0)) << "arming takes the timer's expiry back";
}

/* The same of a call that waits for ever: the message comes when the call has fallen asleep. */
TEST_F(wait, a_wake_up_that_never_comes_to_a_waiting_call)
{
    std::thread sender([&] {
        while (!internals_is_armed(b)) {
            usleep(1000);
        }
        internals_post_without_waking(a, b.addr());
    });
    glex_ep_addr_t src;
    uint32_t len = 1;
    void *data;

    int64_t start = now_ms();
    EXPECT_OK(glex_probe_first_mp(b, WAIT_MS, &src, &data, &len));
    EXPECT_EQ(0u, len);
    EXPECT_GT(start + WAIT_MS, now_ms()) << "it slept to the end of its timeout";
    sender.join();
}

/* A peer sleeps on a fabric with a path of any length. */
CHILD(wait_in_its_fabric)
{
    pollfd pfd = {};
    Device dev;
    Ep a(dev), b(dev);

    EXPECT_OK(glex_ext_event_fd(b, &pfd.fd));
    pfd.events = POLLIN;
    EXPECT_OK(glex_ext_arm(b));
    a.send_number(b.addr(), 1);
    EXPECT_EQ(1, poll(&pfd, 1, 0));
    EXPECT_EQ(1u, a.counters().wakeups);
    EXPECT_EQ(1, b.receive_number(0));
    EXPECT_EQ(-1, b.receive_number(1));
    return testing::Test::HasFailure();
}

TEST(wait_path, of_any_length)
{
    char dir[PATH_MAX], here[] = "/dev/shm/wait-path-XXXXXX";

    ASSERT_NE(nullptr, mkdtemp(here));
    for (size_t len = 60; len <= 120;
         len++) { /* the kernel takes 107 bytes, the socket's name is 18 */
        const size_t fabric = 20, shm = len - fabric - strlen("/glex-12345/");

        snprintf(dir, sizeof(dir), "%s/", here);
        for (size_t i = strlen(dir); i <= shm; i++) {
            dir[i] = 'd';
            dir[i + 1] = '\0';
        }
        ASSERT_TRUE(mkdir(dir, 0700) == 0 || errno == EEXIST);
        Process child("wait_in_its_fabric", {std::string("GLEX_SHM_DIR=") + dir,
                                             "GLEX_FABRIC=" + std::string(fabric, 'f')});
        EXPECT_EQ(0, child.wait()) << len;
        rmdir(dir);
    }
    rmdir(here);
}

/* ---- no wake-up is lost, wherever the other side is when one arms ---------------------------- */

/* The sleeper is k instructions into arming when a message comes. */
TEST_F(wait, message_at_every_instruction_of_arming)
{
    bool complete = false;
    int steps = 0;

    for (; !complete; steps += STEP_STRIDE) {
        int up[2];

        ASSERT_EQ(0, pipe(up));
        Stepped sleeper([&] {
            Ep ep(dev);
            pollfd pfd = {};
            uint64_t addr = ep.addr().v;

            EXPECT_OK(glex_ext_event_fd(ep, &pfd.fd));
            pfd.events = POLLIN;
            /* Once before, so that all that is lazy is done; what it receives disarms it. */
            EXPECT_OK(glex_ext_arm(ep));
            ep.send_number(ep.addr(), 1);
            EXPECT_EQ(1, ep.receive_number(0));
            EXPECT_EQ(8, ::write(up[1], &addr, 8));
            Stepped::begin();
            glex_ret_t ret = glex_ext_arm(ep);
            Stepped::end();
            EXPECT_TRUE(ret == GLEX_BUSY || poll(&pfd, 1, WAIT_MS) == 1);
            EXPECT_EQ(3, ep.receive_number(0));
        });
        if (!sleeper.possible()) {
            GTEST_SKIP() << "no ptrace here";
        }
        glex_ep_addr_t addr;
        ASSERT_EQ(8, read(up[0], &addr, 8));
        complete = sleeper.step(steps);
        a.send_number(addr, 3);
        sleeper.resume();
        ASSERT_EQ(0, sleeper.wait()) << "after " << steps << " instructions";
        close(up[0]);
        close(up[1]);
    }
    EXPECT_LT(30, steps);
}

enum Post { SEND_IMM_MP, POST_MP, POST_EVENT };

class wait_step : public wait, public testing::WithParamInterface<Post>
{
  protected:
    static void post(const Ep &ep, glex_ep_addr_t to, uint64_t number)
    {
        switch (GetParam()) {
        case SEND_IMM_MP:
            ep.send_number(to, number);
            break;
        case POST_MP:
            EXPECT_OK(glex_ext_post_mp(ep, to, number, 0, 0, nullptr, 0));
            break;
        case POST_EVENT:
            EXPECT_OK(glex_ext_post_event(ep, to, number, 1));
            break;
        }
    }

    /* The next one is there. What was taken is given back, as who sleeps has nothing in use. */
    int64_t take()
    {
        glex_ext_arrival arrival, none;
        uint64_t number;

        if (b.poll(&arrival) != GLEX_SUCCESS) {
            return -1;
        }
        number = arrival.event != nullptr ? arrival.event->cookie_0 :
                                            *static_cast<uint64_t *>(arrival.data);
        EXPECT_EQ(GLEX_NO_EVENT, b.poll(&none));
        return static_cast<int64_t>(number);
    }
};

/* The sender is k instructions into its post when we arm. */
TEST_P(wait_step, arming_at_every_instruction_of_a_post)
{
    glex_ep_addr_t self = b.addr();
    bool complete = false;
    pollfd pfd = {};
    int steps = 0;

    ASSERT_OK(glex_ext_event_fd(b, &pfd.fd));
    pfd.events = POLLIN;
    for (; !complete; steps += STEP_STRIDE) {
        Stepped sender([&] {
            Ep ep(dev, ep_attr(GLEX_ANY_EP_NUM, 4));

            post(ep, self, 1);
            Stepped::begin();
            post(ep, self, 2);
            Stepped::end();
        });
        if (!sender.possible()) {
            GTEST_SKIP() << "no ptrace here";
        }
        ASSERT_EQ(1, take());
        complete = sender.step(steps);
        glex_ret_t ret = glex_ext_arm(b);
        ASSERT_TRUE(ret == GLEX_SUCCESS || ret == GLEX_BUSY);
        sender.resume();
        ASSERT_TRUE(ret == GLEX_BUSY || poll(&pfd, 1, WAIT_MS) == 1) << steps;
        ASSERT_EQ(2, take()) << steps;
        ASSERT_EQ(0, sender.wait());
    }
    EXPECT_LT(20, steps);
}

/* Armed until something is taken out of the queue; busy until that is given back. */
TEST_P(wait_step, arm_and_poll)
{
    glex_ext_arrival arrival;
    pollfd pfd = {};

    ASSERT_OK(glex_ext_event_fd(b, &pfd.fd));
    pfd.events = POLLIN;
    for (uint64_t i = 1; i <= 3; i++) { /* the first is the first ever to that peer */
        ASSERT_OK(glex_ext_arm(b));
        EXPECT_EQ(0, poll(&pfd, 1, 0)) << "old wake-ups are gone";
        post(a, b.addr(), 1);
        EXPECT_EQ(1, poll(&pfd, 1, 0));
        EXPECT_EQ(i, a.counters().wakeups);
        EXPECT_EQ(GLEX_BUSY, glex_ext_arm(b));
        ASSERT_OK(b.poll(&arrival));
        EXPECT_EQ(GLEX_BUSY, glex_ext_arm(b));
        post(a, b.addr(), 2);
        EXPECT_EQ(i, a.counters().wakeups) << "who does not sleep is not woken";
        EXPECT_EQ(2, take());
    }
    /* A wake-up by one queue: the other is still armed, until there something is taken, too. */
    ASSERT_OK(glex_ext_arm(b));
    post(a, b.addr(), 3);
    EXPECT_EQ(3, take());
    uint64_t wakeups = a.counters().wakeups;
    if (GetParam() != POST_EVENT) {
        put_event(4);
    } else {
        a.send_number(b.addr(), 4);
    }
    EXPECT_EQ(wakeups + 1, a.counters().wakeups);
    EXPECT_EQ(4, take());
    for (uint64_t i = 5; i < 8; i++) {
        a.send_number(b.addr(), i);
        EXPECT_EQ(static_cast<int64_t>(i), take());
        put_event(i);
        EXPECT_EQ(static_cast<int64_t>(i), take());
    }
    EXPECT_EQ(wakeups + 1, a.counters().wakeups);
}

static std::string post_name(const testing::TestParamInfo<Post> &info)
{
    static const char *const names[] = {"send_imm_mp", "post_mp", "post_event"};

    return names[info.param];
}

INSTANTIATE_TEST_SUITE_P(by, wait_step, testing::Values(SEND_IMM_MP, POST_MP, POST_EVENT),
                         post_name);

/* A peer that answers each message by one of the other kind, and sleeps in between. */
CHILD(wait_polling_echo)
{
    glex_ep_addr_t to = {.v = receive_down<uint64_t>()};
    glex_ext_arrival arrival;
    pollfd pfd = {};
    uint64_t n = 1;
    Device dev;
    Ep ep(dev);

    EXPECT_OK(glex_ext_event_fd(ep, &pfd.fd));
    pfd.events = POLLIN;
    send_up(ep.addr().v);
    while (n != 0) {
        if (ep.poll(&arrival) != GLEX_SUCCESS) {
            if (glex_ext_arm(ep) == GLEX_SUCCESS) {
                EXPECT_EQ(1, poll(&pfd, 1, WAIT_MS));
            }
        } else if (arrival.event != nullptr) {
            n = arrival.event->cookie_0;
            EXPECT_OK(glex_ext_post_mp(ep, to, n, 0, 0, nullptr, 0));
        } else {
            n = *static_cast<uint64_t *>(arrival.data);
            EXPECT_OK(glex_ext_post_event(ep, to, n, 1));
        }
    }
    return testing::Test::HasFailure();
}

/* Both sides sleep in every round, or are about to: no wake-up is lost. */
TEST_F(wait, ping_pong_of_polling_sleepers)
{
    Process echo("wait_polling_echo");
    glex_ext_arrival arrival;
    pollfd pfd = {};

    echo.send(a.addr().v);
    glex_ep_addr_t peer = {.v = echo.receive<uint64_t>()};
    ASSERT_OK(glex_ext_event_fd(a, &pfd.fd));
    pfd.events = POLLIN;
    for (uint64_t i = 3000; i-- > 0;) {
        if (i % 2 == 0) {
            ASSERT_OK(glex_ext_post_mp(a, peer, i, 0, 0, nullptr, 0));
        } else {
            ASSERT_OK(glex_ext_post_event(a, peer, i, 1));
        }
        while (a.poll(&arrival) != GLEX_SUCCESS) {
            if (glex_ext_arm(a) == GLEX_SUCCESS) {
                ASSERT_EQ(1, poll(&pfd, 1, WAIT_MS)) << i;
            }
        }
        ASSERT_EQ(i % 2 == 0, arrival.event != nullptr);
    }
    EXPECT_EQ(0, echo.wait());
}

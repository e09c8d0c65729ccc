/* Producers that are killed anywhere: the consumer loses nothing of the others. */
#include "internals.h"
#include "nic.h"
#include "process.h"
#include "stepped.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <string>
#include <random>

extern "C" {
#include "api/inspect.h"
}

/* What a producer's n-th message or event says. */
static uint64_t token(uint64_t life, uint64_t n)
{
    return life << 32 | n;
}

class kill_ : public testing::Test
{
  protected:
    ~kill_() override
    {
        EXPECT_OK(glex_inspect_clean(nullptr, nullptr)); /* the dead leave nothing */
    }

    Device dev;
    Ep consumer{dev, ep_attr(GLEX_ANY_EP_NUM, 64)};
    char *mem = consumer.alloc(4096);
    Target to = consumer.target(consumer.reg(mem, 4096, GLEX_MEM_WRITE | GLEX_EXT_MEM_EVENT_DATA));

    /* n-th message and event; false where the queue was full, and it was lost or refused. */
    bool post_mp(const Ep &ep, Target to, uint64_t value) const
    {
        uint64_t data[14];

        std::fill(data, data + 14, value);
        if (polled) {
            return glex_ext_post_mp(ep, {.v = to.addr}, value, value, value, data, 88) ==
                   GLEX_SUCCESS;
        }
        ep.send({.v = to.addr}, data, sizeof(data));
        return ep.errors().empty();
    }

    bool post_event(const Ep &ep, Target to, uint64_t value) const
    {
        uint64_t data[12];

        if (polled) {
            return glex_ext_post_event(ep, {.v = to.addr}, value, value) == GLEX_SUCCESS;
        }
        std::fill(data, data + 12, value);
        glex_imm_rdma_req_t req = imm_put(to, data, sizeof(data), 0, value);
        EXPECT_OK(glex_imm_rdma(ep, &req, nullptr));
        return ep.errors().empty();
    }

    [[noreturn]] void produce(uint64_t life)
    {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* nothing is left when the test is killed */
        Ep ep(dev, ep_attr(GLEX_ANY_EP_NUM, 4));

        for (uint64_t n = 1;; n++) {
            while (!post_mp(ep, to, token(life, n))) {
                sched_yield();
            }
            while (!post_event(ep, to, token(life, n))) {
                sched_yield();
            }
        }
    }

    /* Each life's tokens come one by one, and whole. */
    void check(std::map<uint64_t, uint64_t> &last, uint64_t value)
    {
        ASSERT_EQ(++last[value >> 32], value & 0xffffffff) << "life " << (value >> 32);
        got++;
    }

    /* The same by glex_ext_poll(). */
    void consume_polled()
    {
        glex_ext_arrival arrival;

        if (glex_ext_poll(consumer, &arrival) == GLEX_SUCCESS) {
            if (arrival.event != nullptr) {
                ASSERT_EQ(arrival.event->cookie_0, arrival.event->cookie_1);
                check(last_event, arrival.event->cookie_0);
                return;
            }
            uint64_t *words = static_cast<uint64_t *>(arrival.data);
            ASSERT_EQ(8u * 14, arrival.len);
            ASSERT_EQ(14, std::count(words, words + 14, words[0]));
            check(last_mp, words[0]);
        }
    }

    void consume()
    {
        if (polled) {
            consume_polled();
        } else {
            consume_probed();
        }
    }

    void consume_probed()
    {
        glex_event_t *event;
        glex_ep_addr_t src;
        uint32_t len;
        void *data;

        if (glex_probe_first_mp(consumer, 0, &src, &data, &len) == GLEX_SUCCESS) {
            uint64_t *words = static_cast<uint64_t *>(data);
            ASSERT_EQ(112u, len);
            ASSERT_EQ(14, std::count(words, words + 14, words[0]));
            check(last_mp, words[0]);
            ASSERT_OK(glex_discard_probed_mp(consumer));
        }
        if (glex_probe_first_event(consumer, 0, &event) == GLEX_SUCCESS) {
            uint64_t *words = reinterpret_cast<uint64_t *>(mem);
            ASSERT_EQ(12, std::count(words, words + 12, event->cookie_0));
            check(last_event, event->cookie_0);
            ASSERT_OK(glex_discard_probed_event(consumer));
        }
    }

    void consume_until(uint64_t us)
    {
        timespec t;
        uint64_t now, end = 0;

        do {
            clock_gettime(CLOCK_MONOTONIC, &t);
            now = static_cast<uint64_t>(t.tv_sec) * 1000000 + t.tv_nsec / 1000;
            end = end != 0 ? end : now + us;
            for (int i = 0; i < 20; i++) {
                consume();
                if (HasFatalFailure()) {
                    return;
                }
            }
        } while (now < end);
    }

    bool polled = false; /* by the calls of glex_ext.h */
    std::map<uint64_t, uint64_t> last_mp, last_event;
    uint64_t got = 0;
};

class kill_random : public kill_, public testing::WithParamInterface<bool>
{
  protected:
    kill_random()
    {
        polled = GetParam();
    }
};

TEST_P(kill_random, at_random)
{
    const int num = 4, lives = KILLED_LIVES / 2;
    pid_t pids[num] = {};
    std::mt19937 random(static_cast<unsigned>(getpid()));

    for (int life = 1; life <= lives && !HasFatalFailure(); life++) {
        pid_t &pid = pids[life % num];

        if (pid != 0) {
            kill(pid, SIGKILL);
            waitpid(pid, nullptr, 0);
        }
        if (life % 100 == 0) {
            EXPECT_OK(glex_inspect_clean(nullptr, nullptr));
        }
        pid = fork();
        if (pid == 0) {
            produce(static_cast<uint64_t>(life));
        }
        consume_until(random() % 1500);
    }
    for (pid_t pid : pids) {
        kill(pid, SIGKILL);
        waitpid(pid, nullptr, 0);
    }
    ASSERT_FALSE(HasFatalFailure());

    /* One more, living, gets through; what was abandoned in the meantime is passed over. */
    Ep alive(dev);
    for (uint64_t n = 1; n <= 1000; n++) {
        while (!post_mp(alive, to, token(lives + 1, n))) {
            consume_until(100);
            ASSERT_FALSE(HasFatalFailure());
        }
        while (n <= 500 && !post_event(alive, to, token(lives + 1, n))) {
            consume_until(100);
            ASSERT_FALSE(HasFatalFailure());
        }
        consume();
    }
    while (last_mp[lives + 1] < 1000) {
        consume();
        ASSERT_FALSE(HasFatalFailure());
    }
    EXPECT_LT(1000u, got);
    RecordProperty("messages", std::to_string(got));
    RecordProperty("abandoned", std::to_string(consumer.counters().abandoned));
}

INSTANTIATE_TEST_SUITE_P(ring, kill_random, testing::Bool(),
                         [](const auto &info) { return info.param ? "polled" : "probed"; });

/*
 * The same at every instruction: the producer is stepped k instructions into the library's
 * posting function and killed there, for every k until the post is complete.
 */
enum Post { SEND_IMM_MP, IMM_RDMA, POST_MP, POST_EVENT };

class kill_step : public kill_, public testing::WithParamInterface<Post>
{
  protected:
    kill_step() : is_mp(GetParam() == SEND_IMM_MP || GetParam() == POST_MP)
    {
        polled = GetParam() == POST_MP || GetParam() == POST_EVENT;
    }

    /* A post, and then one to be stepped through. */
    void produce_stepped(uint64_t life)
    {
        Ep ep(dev, ep_attr(GLEX_ANY_EP_NUM, 4));
        uint64_t data[14];
        glex_imm_mp_req_t mp = {};
        glex_imm_rdma_req_t put = imm_put(to, data, 96, 0, token(life, 2));

        mp.rmt_ep_addr.v = to.addr;
        mp.data = data;
        mp.len = 112;
        post(ep, token(life, 1));
        std::fill(data, data + 14, token(life, 2));
        Stepped::begin();
        switch (GetParam()) {
        case SEND_IMM_MP:
            glex_send_imm_mp(ep, &mp, nullptr);
            break;
        case IMM_RDMA:
            glex_imm_rdma(ep, &put, nullptr);
            break;
        case POST_MP:
            glex_ext_post_mp(ep, {.v = to.addr}, data[0], data[1], data[2], data, 88);
            break;
        case POST_EVENT:
            glex_ext_post_event(ep, {.v = to.addr}, data[0], data[1]);
            break;
        }
        Stepped::end();
    }

    void post(const Ep &ep, uint64_t value)
    {
        if (is_mp) {
            EXPECT_TRUE(post_mp(ep, to, value));
        } else {
            EXPECT_TRUE(post_event(ep, to, value));
        }
    }

    const bool is_mp;
};

TEST_P(kill_step, at_every_instruction)
{
    std::map<uint64_t, uint64_t> &last = is_mp ? last_mp : last_event;
    bool complete = false;
    Ep alive(dev);
    int steps = 0;

    for (uint64_t n = 1; !complete; n++, steps += STEP_STRIDE) {
        uint64_t life = n + 1;
        {
            Stepped producer([&] { produce_stepped(life); });

            if (!producer.possible()) {
                GTEST_SKIP() << "no ptrace here";
            }
            complete = producer.step(steps);
        } /* killed */
        post(alive, token(1, n));
        while (last[1] < n) { /* hangs where the dead one's slot blocks the queue */
            consume();
            ASSERT_FALSE(HasFatalFailure());
        }
        ASSERT_LE(1u, last[life]);
        ASSERT_LE(last[life], 2u);
        ASSERT_TRUE(!complete || last[life] == 2);
        EXPECT_OK(glex_inspect_clean(nullptr, nullptr));
    }
    EXPECT_LT(20, steps);
    EXPECT_LT(0u, consumer.counters().abandoned);
    RecordProperty("instructions", steps);
    RecordProperty("abandoned", std::to_string(consumer.counters().abandoned));
}

static std::string post_name(const testing::TestParamInfo<Post> &info)
{
    static const char *const names[] = {"mp", "event", "post_mp", "post_event"};

    return names[info.param];
}

INSTANTIATE_TEST_SUITE_P(ring, kill_step,
                         testing::Values(SEND_IMM_MP, IMM_RDMA, POST_MP, POST_EVENT), post_name);

CHILD(kill_owner)
{
    Device dev;
    Ep ep(dev);

    send_up(ep.target(ep.reg(ep.alloc(1 << 20), 1 << 20)));
    receive_down<int>();
    return 0;
}

/* Mappings of files that have no name any more: of the dead. Our own were made without one. */
static int mapped_of_the_dead()
{
    std::ifstream maps("/proc/self/maps");
    std::string line;
    int count = 0;

    while (std::getline(maps, line)) {
        count += line.find("/glex-") != std::string::npos &&
                 line.find("(deleted)") != std::string::npos &&
                 line.find("/#") == std::string::npos;
    }
    return count;
}

/* The shared memory of the dead is given back with the last pin. */
TEST_F(kill_, memory_of_the_dead_is_given_back)
{
    Process child("kill_owner");
    Target target = child.receive<Target>();
    glex_mem_handle_t mh = {.v = target.mh};
    glex_ep_addr_t addr = {.v = target.addr};
    Ep ep(dev);
    glex_ext_process process;
    glex_ext_watch watch;
    glex_ext_pin *pin;
    void *ptr;

    ASSERT_OK(glex_ext_peer_ptr(ep, addr, mh, TEST_KEY, 0, 1 << 20, &ptr, &pin));
    EXPECT_OK(glex_ext_peer_process(ep, addr, 0, &process));
    EXPECT_EQ(GLEX_EXT_PROCESS_RUNS, process.state);
    memset(ptr, 1, 1 << 20);
    ASSERT_OK(glex_ext_peer_watch(ep, addr, mh, TEST_KEY, &watch));
    child.kill_now();
    for (int i = 0; i < WAIT_MS && glex_ext_check_peer(ep, addr, 0, 0) == GLEX_SUCCESS; i++) {
        usleep(1000); /* the kernel frees its lock a moment after its end */
    }
    EXPECT_EQ(GLEX_NO_EP_RESOURCE, glex_ext_check_peer(ep, addr, 0, 0));
    EXPECT_OK(glex_ext_peer_process(ep, addr, 0, &process));
    EXPECT_EQ(GLEX_EXT_PROCESS_KILLED, process.state);
    EXPECT_EQ(static_cast<uint32_t>(child.pid()), process.pid);
    EXPECT_OK(glex_inspect_clean(nullptr, nullptr));
    EXPECT_EQ(1, static_cast<char *>(ptr)[(1 << 20) - 1]) << "until the pin is given back";
    EXPECT_NE(watch.state, *watch.word);
    EXPECT_EQ(2, mapped_of_the_dead());
    glex_ext_unpin(pin);
    glex_ext_unpin(watch.pin);
    EXPECT_EQ(0, mapped_of_the_dead());
}

/* Claimed and never published: everything behind it comes, for those who sleep as well. */
TEST_F(kill_, claim_without_publication)
{
    for (int which = 0; which < 2; which++) {
        pid_t pid = fork();

        if (pid == 0) {
            Ep ep(dev);
            internals_claim_only(ep, {.v = to.addr}, which);
            internals_claim_only(ep, {.v = to.addr}, which);
            _exit(0);
        }
        waitpid(pid, nullptr, 0);
    }
    Ep alive(dev);
    EXPECT_EQ(-1, consumer.receive_number(5));
    EXPECT_EQ(-1, consumer.receive_event(5));
    for (int i = 0; i < 1000 && glex_ext_arm(consumer) != GLEX_SUCCESS; i++) {
        usleep(1000); /* once it is passed over it does not keep us awake */
    }
    EXPECT_OK(glex_ext_arm(consumer));
    alive.send_number(consumer.addr(), 9);
    EXPECT_EQ(9, consumer.receive_number(-1));
    EXPECT_EQ(4u, consumer.counters().abandoned);
}

/* The same for those who do nothing but try to fall asleep. */
TEST_F(kill_, claim_without_publication_and_arming)
{
    for (int which = 0; which < 2; which++) {
        Ep dead(dev);

        internals_claim_only(dead, consumer.addr(), which);
        internals_claim_only(dead, consumer.addr(), which);
    }
    for (int i = 0; i < 10000 && glex_ext_arm(consumer) != GLEX_SUCCESS; i++) {
        usleep(1000);
    }
    EXPECT_OK(glex_ext_arm(consumer));
    EXPECT_EQ(4u, consumer.counters().abandoned);
    Ep alive(dev);
    alive.send_number(consumer.addr(), 9);
    EXPECT_EQ(9, consumer.receive_number(0));
}

/*
 * The living are about to publish the same position, but of other rings: that of the dead is passed
 * over all the same.
 */
TEST_F(kill_, intents_of_other_rings_hold_nothing)
{
    Ep other(dev), to_other(dev), to_eq(dev), dead(dev);

    internals_claim_only(to_other, other.addr(), 0);
    internals_claim_only(to_eq, consumer.addr(), 1);
    internals_claim_only(dead, consumer.addr(), 0);
    dead.destroy();
    Ep alive(dev);
    alive.send_number(consumer.addr(), 9);
    EXPECT_EQ(9, consumer.receive_number(WAIT_MS));
    EXPECT_EQ(1u, consumer.counters().abandoned);
    EXPECT_EQ(-1, other.receive_number(20));
    EXPECT_EQ(0u, other.counters().abandoned);
}

/*
 * A post whose claim fails, because another producer was faster, and that is given up then, because
 * the registration is gone meanwhile, holds nobody up: the position is that of the faster producer,
 * which was killed before it published.
 */
TEST_F(kill_, post_that_is_given_up_leaves_no_intent)
{
    bool complete = false;

    for (int steps = 0; !complete; steps += STEP_STRIDE) {
        int over[2];

        ASSERT_EQ(0, pipe(over));
        Stepped producer([&] {
            Ep ep(dev, ep_attr(GLEX_ANY_EP_NUM, 4));
            glex_imm_rdma_req_t put = imm_put(to, mem, 8, 0, 5);
            char byte;

            close(over[1]);
            EXPECT_TRUE(post_event(ep, to, 1));
            Stepped::begin();
            glex_imm_rdma(ep, &put, nullptr);
            Stepped::end();
            EXPECT_EQ(0, read(over[0], &byte, 1)); /* lives until the parent says so */
        });
        close(over[0]);
        if (!producer.possible()) {
            GTEST_SKIP() << "no ptrace here";
        }
        complete = producer.step(steps);
        {
            Ep dead(dev);
            internals_claim_only(dead, consumer.addr(), 1);
        }
        glex_mem_handle_t mh = {.v = to.mh};
        EXPECT_OK(glex_deregister_mem(consumer, mh));
        producer.resume();
        to = consumer.target(consumer.reg(mem, 4096, GLEX_MEM_WRITE | GLEX_EXT_MEM_EVENT_DATA));
        Ep alive(dev);
        EXPECT_TRUE(post_event(alive, to, 9));
        int64_t event;
        do {
            event = consumer.receive_event(WAIT_MS);
        } while (event == 1 || event == 5);
        EXPECT_EQ(9, event) << "after " << steps << " instructions";
        close(over[1]);
        EXPECT_EQ(0, producer.wait());
        ASSERT_FALSE(HasFailure());
    }
}

/* An endpoint has one intent for all rings that it posts to: it goes on with the next one. */
TEST_F(kill_, intent_moves_from_ring_to_ring)
{
    Ep other(dev), producer(dev), fast(dev);

    for (int i = 0; i < 3; i++) {
        producer.send_number(consumer.addr(), i);
        producer.send_number(other.addr(), i);
        EXPECT_EQ(i, consumer.receive_number(0));
        EXPECT_EQ(i, other.receive_number(0));
    }
    internals_claim_only(producer, consumer.addr(), 0);
    fast.send_number(consumer.addr(), 7);
    EXPECT_EQ(-1, consumer.receive_number(50));
    EXPECT_EQ(0u, consumer.counters().abandoned);
    producer.destroy();
    EXPECT_EQ(7, consumer.receive_number(WAIT_MS));
}

/* Who cannot look whether a producer lives, for want of file descriptors, waits for it. */
TEST_F(kill_, unknown_producer_is_waited_for)
{
    Ep slow(dev), fast(dev);
    rlimit files;

    internals_claim_only(slow, consumer.addr(), 0);
    fast.send_number(consumer.addr(), 2);
    ASSERT_EQ(0, getrlimit(RLIMIT_NOFILE, &files));
    const rlimit none = {0, files.rlim_max};
    ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &none));
    for (int i = 0; i < 50; i++) { /* it looks now and then */
        for (int j = 0; j < 20000; j++) {
            ASSERT_EQ(-1, consumer.receive_number(0));
        }
        usleep(100);
    }
    EXPECT_EQ(0u, consumer.counters().abandoned);
    ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &files));
    slow.destroy();
    EXPECT_EQ(2, consumer.receive_number(WAIT_MS));
    EXPECT_EQ(1u, consumer.counters().abandoned);
}

/* A producer that lives, however slow, is waited for. */
TEST_F(kill_, slow_producer_is_waited_for)
{
    Ep slow(dev), fast(dev);

    internals_claim_only(slow, consumer.addr(), 0);
    fast.send_number(consumer.addr(), 2);
    EXPECT_EQ(-1, consumer.receive_number(50));
    EXPECT_EQ(0u, consumer.counters().abandoned);
    slow.destroy();
    EXPECT_EQ(2, consumer.receive_number(WAIT_MS));
    EXPECT_EQ(1u, consumer.counters().abandoned);
}

/* A peer that dies, or leaves: everything that waits for it ends with an error, others go on. */
#include "node.h"

#include <csignal>
#include <rdma/fi_atomic.h>
#include <set>
#include <sys/wait.h>
#include <unistd.h>

namespace
{

/* A process with a node, made before this process has any thread or NIC of its own */
class Child
{
  public:
    Child()
    {
        EXPECT_EQ(0, pipe(up));
        EXPECT_EQ(0, pipe(down));
        pid = fork();
        if (pid == 0) {
            live();
            _exit(0);
        }
        close(up[1]);
        close(down[0]);
        name.resize(64);
        EXPECT_EQ(64, read(up[0], name.data(), 64));
    }

    ~Child()
    {
        end(SIGKILL);
        close(up[0]);
        close(down[1]);
    }

    void tell(const std::vector<char> &address)
    {
        EXPECT_EQ((ssize_t)address.size(), write(down[1], address.data(), address.size()));
    }

    void end(int signal)
    {
        if (pid > 0) {
            kill(pid, signal);
            waitpid(pid, nullptr, 0);
            pid = -1;
        }
    }

    /** It lives, and does nothing more. */
    void stop()
    {
        int status;

        kill(pid, SIGSTOP);
        waitpid(pid, &status, WUNTRACED);
    }

    std::vector<char> name;

  private:
    static volatile sig_atomic_t leaving;

    /* Echo one message; announce a long one that stays; then progress until told to leave */
    void live()
    {
        Node node;
        std::vector<char> other(64), big(200000);
        char buf[8];

        signal(SIGTERM, [](int) { leaving = 1; });
        if (write(up[1], node.name().data(), 64) != 64 || read(down[0], other.data(), 64) != 64) {
            return;
        }
        fi_addr_t addr = node.know(other);
        fi_trecv(node.ep, buf, 8, nullptr, FI_ADDR_UNSPEC, 1, 0, nullptr);
        next_done(node, {&node});
        retry({&node}, [&] { return fi_tinject(node.ep, buf, 8, addr, 2); });
        retry({&node},
              [&] { return fi_tsend(node.ep, big.data(), big.size(), nullptr, addr, 3, nullptr); });
        while (!leaving) {
            node.poll();
            usleep(100);
        }
    }

    pid_t pid;
    int up[2], down[2];
};

volatile sig_atomic_t Child::leaving;

class Death : public testing::TestWithParam<int>
{
};

TEST_P(Death, EverythingToThatPeerEnds)
{
    Child child;
    Wish wish;
    wish.caps = FI_TAGGED | FI_DIRECTED_RECV;
    Node a(wish), c(wish);
    fi_addr_t dead = a.know(child.name), alive = a.know(c);
    std::vector<char> big = pattern(300000, 1);
    char echo[8], never[8], any[8];

    child.tell(a.name());
    ASSERT_EQ(0, fi_trecv(a.ep, echo, 8, nullptr, dead, 2, 0, echo));
    ASSERT_EQ(0, retry({&a}, [&] { return fi_tinject(a.ep, "1234567", 8, dead, 1); }));
    ASSERT_EQ(echo, next_done(a, {&a}).context);
    ASSERT_EQ(0, fi_trecv(a.ep, never, 8, nullptr, dead, 77, 0, never));
    ASSERT_EQ(0, fi_trecv(a.ep, any, 8, nullptr, FI_ADDR_UNSPEC, 77, 0, any));
    ASSERT_EQ(0, retry({&a}, [&] {
                  return fi_tsend(a.ep, big.data(), big.size(), nullptr, dead, 88, big.data());
              }));
    for (int i = 0; i < 1000; i++) {
        a.poll();
    }
    EXPECT_TRUE(a.done.empty());
    child.end(GetParam());

    /* a receive from a peer that left in good order stays posted */
    bool left = GetParam() == SIGTERM;
    ASSERT_TRUE(wait_for({&a}, [&] { return a.done.size() == (left ? 1 : 2); }));
    for (const Done &done : a.done) {
        EXPECT_NE(0, done.err);
        EXPECT_TRUE((!left && done.context == never) || done.context == big.data());
    }
    a.done.clear();
    if (left) {
        EXPECT_EQ(0, fi_cancel(&a.ep->fid, never));
        EXPECT_EQ(FI_ECANCELED, next_done(a, {&a}).err);
    }
    /* `big` ends with the peer's endpoint. BYE follows, and until then a message is accepted. */
    EXPECT_TRUE(wait_for({&a}, [&] {
        ssize_t ret = fi_tinject(a.ep, "too late", 8, dead, 1);
        return ret != 0 && ret != -FI_EAGAIN;
    }));
    EXPECT_EQ(left, fi_trecv(a.ep, echo, 8, nullptr, dead, 1, 0, nullptr) == 0);
    /* what it announced cannot be fetched any more; or was never seen here, and is never matched */
    ASSERT_EQ(0, fi_trecv(a.ep, big.data(), big.size(), nullptr, FI_ADDR_UNSPEC, 3, 0, &big));
    for (int i = 0; i < 1000; i++) {
        a.poll();
    }
    for (const Done &done : a.done) {
        EXPECT_EQ(&big, done.context);
        EXPECT_NE(0, done.err);
    }
    a.done.clear();
    /* the living are not touched */
    fi_addr_t a_of_c = c.know(a);
    ASSERT_EQ(0, retry({&a, &c}, [&] { return fi_tinject(c.ep, "1234567", 8, a_of_c, 77); }));
    EXPECT_EQ(any, next_done(a, {&a, &c}).context);
    ASSERT_EQ(0, retry({&a, &c}, [&] { return fi_tinject(a.ep, "1234567", 8, alive, 5); }));
}

/* The child waits for an address that never comes, so it does not even say hello */
TEST(DeathInSilence, EndsWhatWaitsForIt)
{
    Child silent, unasked;
    Wish wish;
    wish.caps = FI_TAGGED | FI_DIRECTED_RECV;
    Node a(wish);
    fi_addr_t dead = a.know(silent.name), other = a.know(unasked.name);
    char never[8], data[8] = "1234567";

    ASSERT_EQ(0, fi_tsend(a.ep, data, 8, nullptr, dead, 1, data));
    ASSERT_EQ(0, fi_trecv(a.ep, never, 8, nullptr, other, 2, 0, never));
    for (int i = 0; i < 1000; i++) {
        a.poll();
    }
    EXPECT_TRUE(a.done.empty());
    silent.end(SIGKILL);
    unasked.end(SIGKILL);
    ASSERT_TRUE(wait_for({&a}, [&] { return a.done.size() == 2; }));
    for (const Done &done : a.done) {
        EXPECT_NE(0, done.err);
        EXPECT_TRUE(done.context == never || done.context == data);
    }
}

/* The request has arrived, and nobody executes it; or the peer never said hello, and it was not sent */
TEST(DeathInSilence, EndsAtomicOperations)
{
    Child child, silent;
    Wish wish;
    wish.caps = FI_TAGGED | FI_ATOMIC;
    Node a(wish);
    fi_addr_t dead = a.know(child.name), other = a.know(silent.name);
    uint64_t one = 1, old = 99;
    char echo[8];

    child.tell(a.name());
    ASSERT_EQ(0, fi_trecv(a.ep, echo, 8, nullptr, FI_ADDR_UNSPEC, 2, 0, echo));
    ASSERT_EQ(0, retry({&a}, [&] { return fi_tinject(a.ep, "1234567", 8, dead, 1); }));
    ASSERT_EQ(echo, next_done(a, {&a}).context);
    child.stop();
    ASSERT_EQ(0, fi_fetch_atomic(a.ep, &one, 1, nullptr, &old, nullptr, dead, 0, 1, FI_UINT64,
                                 FI_SUM, &one));
    ASSERT_EQ(0, fi_atomic(a.ep, &one, 1, nullptr, other, 0, 1, FI_UINT64, FI_SUM, &old));
    for (int i = 0; i < 1000; i++) {
        a.poll();
    }
    EXPECT_TRUE(a.done.empty());
    child.end(SIGKILL);
    silent.end(SIGKILL);
    ASSERT_TRUE(wait_for({&a}, [&] { return a.done.size() == 2; }));
    for (const Done &done : a.done) {
        EXPECT_NE(0, done.err);
        EXPECT_TRUE(done.context == &one || done.context == &old);
    }
    EXPECT_EQ(99u, old);
    EXPECT_NE(0, fi_atomic(a.ep, &one, 1, nullptr, dead, 0, 1, FI_UINT64, FI_SUM, nullptr));
}

/* A key that was asked for, delivery that was not confirmed: the child has got both, and answers nothing;
 * another one never said hello */
TEST(DeathInSilence, EndsReadsWritesAndDeliveries)
{
    Child child, silent;
    Wish wish;
    wish.caps = FI_TAGGED | FI_RMA;
    wish.tx_op_flags = FI_DELIVERY_COMPLETE;
    Node a(wish);
    fi_addr_t dead = a.know(child.name), other = a.know(silent.name);
    char echo[8], buf[3][8] = {};
    std::set<void *> waiting = {buf[0], buf[1], buf[2], &dead, &other};

    child.tell(a.name());
    ASSERT_EQ(0, fi_trecv(a.ep, echo, 8, nullptr, FI_ADDR_UNSPEC, 2, 0, echo));
    ASSERT_EQ(0, retry({&a}, [&] { return fi_tinject(a.ep, "1234567", 8, dead, 1); }));
    ASSERT_EQ(echo, next_done(a, {&a}).context);
    child.stop();
    ASSERT_EQ(0, fi_read(a.ep, buf[0], 8, nullptr, dead, 0, 1, buf[0]));
    ASSERT_EQ(0, fi_writedata(a.ep, buf[1], 8, nullptr, 7, dead, 0, 2, buf[1]));
    ASSERT_EQ(0, fi_tsend(a.ep, "unread", 7, nullptr, dead, 99, &dead));
    ASSERT_EQ(0, fi_write(a.ep, buf[2], 8, nullptr, other, 0, 1, buf[2]));
    ASSERT_EQ(0, fi_tsend(a.ep, "unread", 7, nullptr, other, 99, &other));
    for (int i = 0; i < 1000; i++) {
        a.poll();
    }
    EXPECT_TRUE(a.done.empty());
    child.end(SIGKILL);
    silent.end(SIGKILL);
    ASSERT_TRUE(wait_for({&a}, [&] { return a.done.size() == waiting.size(); }));
    for (const Done &done : a.done) {
        EXPECT_NE(0, done.err);
        EXPECT_EQ(1u, waiting.erase(done.context)); /* each once */
    }
    EXPECT_NE(0, fi_read(a.ep, buf[0], 8, nullptr, dead, 0, 1, nullptr));
    EXPECT_NE(0, fi_write(a.ep, buf[0], 8, nullptr, other, 0, 1, nullptr));
}

/* A message that was claimed before its sender died: all of it is here, and it is received; or it was
 * only announced, and the receive ends with an error */
TEST(DeathInSilence, ClaimedMessagesOfTheDead)
{
    Child child;
    Node a;
    fi_addr_t dead = a.know(child.name);
    fi_context short_one{}, long_one{};
    std::vector<char> got(200000);
    iovec iov = {got.data(), got.size()};
    fi_msg_tagged msg{};

    child.tell(a.name());
    ASSERT_EQ(0, retry({&a}, [&] { return fi_tinject(a.ep, "1234567", 8, dead, 1); }));
    for (auto *context : {&short_one, &long_one}) {
        msg.addr = FI_ADDR_UNSPEC;
        msg.tag = context == &short_one ? 2 : 3;
        msg.context = context;
        ASSERT_TRUE(wait_for({}, [&] {
            EXPECT_EQ(0, fi_trecvmsg(a.ep, &msg, FI_PEEK | FI_CLAIM));
            return next_done(a, {&a}).err == 0;
        }));
    }
    child.end(SIGKILL);
    ASSERT_TRUE(wait_for({&a}, [&] {
        ssize_t ret = fi_tinject(a.ep, "too late", 8, dead, 1);
        return ret != 0 && ret != -FI_EAGAIN;
    }));
    msg.msg_iov = &iov;
    msg.iov_count = 1;
    msg.context = &short_one;
    ASSERT_EQ(0, fi_trecvmsg(a.ep, &msg, FI_CLAIM));
    Done done = next_done(a, {&a});
    EXPECT_EQ(0, done.err);
    EXPECT_EQ(8u, done.len);
    EXPECT_STREQ("1234567", got.data());
    msg.context = &long_one;
    ASSERT_EQ(0, fi_trecvmsg(a.ep, &msg, FI_CLAIM));
    done = next_done(a, {&a});
    EXPECT_NE(0, done.err);
    EXPECT_EQ(&long_one, done.context);
}

INSTANTIATE_TEST_SUITE_P(How, Death, testing::Values(SIGKILL, SIGTERM),
                         [](const testing::TestParamInfo<int> &how) {
                             return how.param == SIGKILL ? "Killed" : "LeftInGoodOrder";
                         });

} // namespace

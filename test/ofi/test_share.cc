/* Long messages of which the receiver fetches one part and the sender writes the other. */
#include "node.h"

#include <algorithm>
#include <csignal>
#include <sys/wait.h>
#include <unistd.h>

namespace
{

constexpr size_t LONG = 1 << 20;

void poll_often(Node &node)
{
    for (int i = 0; i < 200; i++) {
        node.poll();
    }
}

/* OFFER, and no more. The message does not begin with 0, and the buffer does. */
void fetch_first_piece(Node &node, const std::vector<char> &got)
{
    ASSERT_TRUE(wait_for({&node}, [&] { return got[0] != 0; }));
}

class Share : public Pair
{
  protected:
    void SetUp() override
    {
        open();
        meet(*a, b_of_a, *b);
    }

    /* One short message, so that both know each other */
    static void meet(Node &from, fi_addr_t to, Node &other)
    {
        char byte = 0;

        ASSERT_EQ(0, fi_trecv(other.ep, &byte, 1, nullptr, FI_ADDR_UNSPEC, 1, 0, nullptr));
        ASSERT_EQ(0, retry({&from, &other}, [&] { return fi_tinject(from.ep, &byte, 1, to, 1); }));
        ASSERT_EQ(0, next_done(other, {&from, &other}).err);
    }

    static void receive(Node &node, std::vector<char> &buffer)
    {
        ASSERT_EQ(0, fi_trecv(node.ep, buffer.data(), buffer.size(), nullptr, FI_ADDR_UNSPEC, 2, 0,
                              buffer.data()));
    }

    static void send(Node &node, const std::vector<char> &data, fi_addr_t to)
    {
        ASSERT_EQ(0, retry({&node}, [&] {
                      return fi_tsend(node.ep, data.data(), data.size(), nullptr, to, 2, nullptr);
                  }));
    }

    /* Until the receiver has copied its part of a message that was sent, and waits for the sender's */
    static void reach_the_half(Node &from, Node &to, const std::vector<char> &got)
    {
        fetch_first_piece(to, got);
        from.poll();    /* ACCEPT */
        poll_often(to); /* GRANT */
        EXPECT_TRUE(to.done.empty());
    }
};

TEST_F(Share, AllOfTheMessageArrives)
{
    for (size_t length : {size_t(256 << 10), size_t(300001), LONG, 5 * LONG + 3}) {
        std::vector<char> data = pattern(length, 7), got(length);

        receive(*b, got);
        send(*a, data, b_of_a);
        Done done = next(*b);
        EXPECT_EQ(0, done.err);
        EXPECT_EQ(length, done.len);
        EXPECT_EQ(data, got);
        EXPECT_EQ(0, next(*a).err);
    }
}

/* The receiver fetches no more than its part: it ends when the sender has written the other */
TEST_F(Share, TheSenderWritesAPart)
{
    for (unsigned round = 0; round < 3; round++) {
        std::vector<char> data = pattern(LONG, round + 1), got(LONG);

        receive(*b, got);
        send(*a, data, b_of_a);
        reach_the_half(*a, *b, got);
        EXPECT_NE(data, got);
        EXPECT_TRUE(std::equal(data.begin(), data.begin() + LONG / 16, got.begin()));
        a->poll();
        EXPECT_EQ(data, got);
        EXPECT_EQ(0, next(*b).err);
        EXPECT_EQ(0, next(*a).err);
    }
}

TEST_F(Share, ASenderThatIsBusyIsNotWaitedFor)
{
    for (unsigned round = 0; round < 3; round++) {
        std::vector<char> data = pattern(LONG, round + 1), got(LONG);

        receive(*b, got);
        send(*a, data, b_of_a);
        EXPECT_EQ(0, next_done(*b, {b.get()}).err);
        EXPECT_EQ(data, got);
        EXPECT_EQ(0, next(*a).err);
    }
}

TEST_F(Share, ASenderHelpsOnePeerAtATime)
{
    Node c;
    fi_addr_t c_of_a = a->know(c);
    std::vector<char> data = pattern(LONG, 1), got_b(LONG), got_c(LONG);

    meet(*a, c_of_a, c);
    receive(*b, got_b);
    receive(c, got_c);
    send(*a, data, b_of_a);
    send(*a, data, c_of_a);
    fetch_first_piece(*b, got_b);
    fetch_first_piece(c, got_c);
    reach_the_half(*a, *b, got_b);
    EXPECT_EQ(0, next_done(c, {&c}).err);
    EXPECT_EQ(data, got_c);
    EXPECT_TRUE(b->done.empty());
    EXPECT_EQ(0, next(*b).err);
    EXPECT_EQ(data, got_b);
    EXPECT_EQ(0, next(*a).err);
    EXPECT_EQ(0, next(*a).err);
    /* then another one */
    got_c[0] = 0;
    receive(c, got_c);
    send(*a, data, c_of_a);
    reach_the_half(*a, c, got_c);
    a->poll();
    EXPECT_EQ(0, next_done(c, {a.get(), &c}).err);
}

TEST_F(Share, TruncatedMessages)
{
    std::vector<char> data = pattern(2 * LONG, 1), got(LONG);

    receive(*b, got);
    send(*a, data, b_of_a);
    Done done = next(*b);
    EXPECT_EQ(FI_ETRUNC, done.err);
    EXPECT_EQ(LONG, done.olen);
    EXPECT_TRUE(std::equal(got.begin(), got.end(), data.begin()));
}

/* The GRANT finds no message any more */
TEST_F(Share, TheSenderClosesItsEndpoint)
{
    std::vector<char> data = pattern(LONG, 1), got(LONG);

    receive(*b, got);
    send(*a, data, b_of_a);
    reach_the_half(*a, *b, got);
    ASSERT_EQ(0, fi_close(&a->ep->fid));
    a->ep = nullptr;
    ASSERT_TRUE(wait([&] { return !b->done.empty(); }));
}

/* The buffer is the program's again when the endpoint is closed */
TEST_F(Share, TheReceiverClosesItsEndpoint)
{
    std::vector<char> data = pattern(LONG, 1), got(LONG), mine(LONG, 'z');

    receive(*b, got);
    send(*a, data, b_of_a);
    reach_the_half(*a, *b, got);
    ASSERT_EQ(0, fi_close(&b->ep->fid));
    b->ep = nullptr;
    got = mine;
    settle();
    EXPECT_EQ(mine, got);
}

/* A process that sends one long message, and makes progress when it is told to */
class Sender
{
  public:
    Sender()
    {
        EXPECT_EQ(0, pipe(up));
        EXPECT_EQ(0, pipe(down));
        pid = fork();
        if (pid == 0) {
            live();
            _exit(0);
        }
        name.resize(64);
        EXPECT_EQ(64, ::read(up[0], name.data(), 64));
    }

    ~Sender()
    {
        kill(pid, SIGKILL);
        waitpid(pid, nullptr, 0);
        for (int fd : {up[0], up[1], down[0], down[1]}) {
            close(fd);
        }
    }

    void start(const std::vector<char> &address)
    {
        char byte;

        EXPECT_EQ(64, write(down[1], address.data(), 64));
        EXPECT_EQ(1, ::read(up[0], &byte, 1));
    }

    void progress()
    {
        char byte = 0;

        EXPECT_EQ(1, write(down[1], &byte, 1));
        EXPECT_EQ(1, ::read(up[0], &byte, 1));
    }

    std::vector<char> name;

  private:
    void live()
    {
        Node node;
        std::vector<char> other(64), data = pattern(LONG, 1);
        char byte = 0;

        if (write(up[1], node.name().data(), 64) != 64 || ::read(down[0], other.data(), 64) != 64) {
            return;
        }
        fi_addr_t addr = node.know(other);
        fi_tsend(node.ep, data.data(), data.size(), nullptr, addr, 2, nullptr);
        while (write(up[1], &byte, 1) == 1 && ::read(down[0], &byte, 1) == 1) {
            poll_often(node);
        }
    }

    pid_t pid;
    int up[2], down[2];
};

TEST(ShareDeath, TheSenderDiesWithItsPart)
{
    auto sender = std::make_unique<Sender>();
    Node node;
    std::vector<char> got(LONG);

    node.know(sender->name);
    ASSERT_EQ(0, fi_trecv(node.ep, got.data(), LONG, nullptr, FI_ADDR_UNSPEC, 2, 0, &got));
    sender->start(node.name());
    for (int i = 0; i < 1000 && got[0] == 0; i++) {
        sender->progress(); /* HELLO, RTS */
        node.poll();        /* OFFER */
    }
    sender->progress(); /* ACCEPT */
    poll_often(node);   /* GRANT */
    EXPECT_TRUE(node.done.empty());
    sender.reset();
    Done done = next_done(node, {&node});
    EXPECT_EQ(&got, done.context);
    EXPECT_GT(done.err, 0);
}

} // namespace

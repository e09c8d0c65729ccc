/* Peers that come and go: connections that fail although both sides live, and clients of a server. */
#include "node.h"

namespace
{

class Again : public Pair
{
  protected:
    /** A message from one node to the other, into a receive that names the sender. */
    void message(Node &from, fi_addr_t to, Node &other, fi_addr_t source)
    {
        char buf[8] = "";

        ASSERT_EQ(0, fi_trecv(other.ep, buf, 8, nullptr, source, 1, 0, buf));
        ASSERT_EQ(0, go([&] { return fi_tsend(from.ep, "message", 8, nullptr, to, 1, nullptr); }));
        EXPECT_EQ(0, next(from).err);
        Done done = next(other);
        EXPECT_EQ(0, done.err);
        EXPECT_EQ(source, done.source);
        EXPECT_STREQ("message", buf);
    }

    void both_ways(fi_addr_t to)
    {
        message(*a, to, *b, a_of_b);
        message(*b, a_of_b, *a, b_of_a);
    }

    /** The first message of a new connection. Receives of `b` that name `a` and were posted before end with
     *  an error. */
    void greet(fi_addr_t to)
    {
        char buf[8] = "";

        ASSERT_EQ(0, fi_trecv(b->ep, buf, 8, nullptr, FI_ADDR_UNSPEC, 99, 0, buf));
        ASSERT_EQ(0, go([&] { return fi_tinject(a->ep, "message", 8, to, 99); }));
        EXPECT_EQ(buf, next(*b).context);
        EXPECT_STREQ("message", buf);
    }

    void write(fi_addr_t to, uint64_t at, uint64_t key)
    {
        ASSERT_EQ(0, go([&] { return fi_write(a->ep, "message", 8, nullptr, to, at, key, this); }));
    }

    /** The connection fails at `a`: `a` writes with a key that `b` has closed, and KEY_REVOKE has not
     *  arrived. */
    void cut()
    {
        std::vector<char> memory(8);
        uint64_t at = reinterpret_cast<uint64_t>(memory.data()), key;
        fid_mr *mr = nullptr;
        ssize_t ret = 0;

        ASSERT_EQ(0,
                  fi_mr_reg(b->domain, memory.data(), 8, FI_REMOTE_WRITE, 0, 0, 0, &mr, nullptr));
        key = fi_mr_key(mr);
        write(b_of_a, at, key);
        EXPECT_EQ(0, next(*a).err);
        EXPECT_STREQ("message", memory.data());
        EXPECT_EQ(0, fi_close(&mr->fid));
        write(b_of_a, at, key);
        ASSERT_TRUE(wait_for({a.get()}, [&] {
            ret = fi_tinject(a->ep, "too late", 8, b_of_a, 9);
            return ret != 0 && ret != -FI_EAGAIN;
        }));
        settle();
        a->done.clear();
    }
};

/* After the address is inserted again, its numbers work on both sides, the old ones too */
TEST_F(Again, AConnectionThatFailed)
{
    Wish wish;
    wish.caps = FI_TAGGED | FI_RMA | FI_SOURCE | FI_DIRECTED_RECV;
    open(wish);
    both_ways(b_of_a);
    for (int round = 0; round < 3; round++) {
        cut();
        fi_addr_t second = a->know(*b);
        EXPECT_NE(b_of_a, second);
        greet(round % 2 == 0 ? second : b_of_a);
        both_ways(second);
        both_ways(b_of_a);
        ASSERT_EQ(0, fi_av_remove(a->av, &second, 1, 0));
        both_ways(b_of_a);
    }
}

/* What was delivered before is received by the sender's name. Receives that waited end with an error. */
TEST_F(Again, MessagesOfTheOldConnection)
{
    Wish wish;
    wish.caps = FI_TAGGED | FI_RMA | FI_SOURCE | FI_DIRECTED_RECV;
    open(wish);
    Node other(wish);
    fi_addr_t b_of_other = other.know(*b), other_of_b = b->know(other);
    char buf[8], waiting[8];

    both_ways(b_of_a);
    ASSERT_EQ(0, fi_trecv(b->ep, waiting, 8, nullptr, a_of_b, 6, 0, waiting));
    for (char c : {'1', '2', '3'}) {
        ASSERT_EQ(0, go([&] { return fi_tinject(a->ep, &c, 1, b_of_a, 5); }));
        ASSERT_EQ(0, retry({&other, b.get()},
                           [&] { return fi_tinject(other.ep, &c, 1, b_of_other, 5); }));
        settle();
    }
    cut();
    a->know(*b);
    char four = '4';
    ASSERT_EQ(0, go([&] { return fi_tinject(a->ep, &four, 1, b_of_a, 5); }));
    Done done = next(*b);
    EXPECT_EQ(waiting, done.context);
    EXPECT_NE(0, done.err);
    settle();
    for (char c : {'1', '2', '3', '4'}) {
        ASSERT_EQ(0, fi_trecv(b->ep, buf, 8, nullptr, a_of_b, 5, 0, nullptr));
        done = next(*b);
        EXPECT_EQ(a_of_b, done.source);
        EXPECT_EQ(c, buf[0]);
    }
    for (char c : {'1', '2', '3'}) {
        ASSERT_EQ(0, fi_trecv(b->ep, buf, 8, nullptr, other_of_b, 5, 0, nullptr));
        EXPECT_EQ(other_of_b, next(*b).source);
        EXPECT_EQ(c, buf[0]);
    }
    settle();
    EXPECT_TRUE(b->done.empty());
}

/* The other side does not know of the failure, and sends before it hears of the new connection */
TEST_F(Again, MessagesOfASideThatKnowsNothing)
{
    Wish wish;
    wish.caps = FI_TAGGED | FI_RMA | FI_SOURCE | FI_DIRECTED_RECV;
    open(wish);
    char buf[8] = "";

    both_ways(b_of_a);
    cut();
    a->know(*b);
    ASSERT_EQ(0, fi_trecv(a->ep, buf, 8, nullptr, b_of_a, 1, 0, buf));
    ssize_t ret = go([&] { return fi_tinject(b->ep, "message", 8, a_of_b, 1); });
    if (ret != 0) { /* the transport has told the other side: its program inserts the address too */
        b->know(*a);
        ASSERT_EQ(0, go([&] { return fi_tinject(b->ep, "message", 8, a_of_b, 1); }));
    }
    Done done = next(*a);
    EXPECT_EQ(0, done.err);
    EXPECT_EQ(b_of_a, done.source);
    EXPECT_STREQ("message", buf);
    greet(b_of_a);
    both_ways(b_of_a);
}

/* Clients come, send, and go: some are removed by the server before, some after, some never */
TEST(Churn, ClientsOfAServer)
{
    Wish wish;
    wish.caps = FI_TAGGED | FI_RMA | FI_SOURCE;
    Node server(wish);
    char buf[8];

    for (int i = 0; i < 40; i++) {
        fi_addr_t client_addr = FI_ADDR_UNSPEC;
        {
            Node client(wish);
            fi_addr_t to = client.know(server);
            if (i % 2 == 0) {
                client_addr = server.know(client);
            }
            ASSERT_EQ(0, fi_trecv(server.ep, buf, 8, nullptr, FI_ADDR_UNSPEC, 1, 0, nullptr));
            ASSERT_EQ(0, retry({&client, &server},
                               [&] { return fi_tinject(client.ep, "message", 8, to, 1); }));
            ASSERT_EQ(0, retry({&client, &server},
                               [&] { return fi_tinject(client.ep, "kept", 5, to, 2); }));
            EXPECT_EQ(client_addr == FI_ADDR_UNSPEC ? FI_ADDR_NOTAVAIL : client_addr,
                      next_done(server, {&client, &server}).source);
            if (i % 4 == 0) {
                EXPECT_EQ(0, fi_av_remove(server.av, &client_addr, 1, 0));
            }
        }
        if (i % 4 == 2 && i % 8 != 6) {
            EXPECT_EQ(0, fi_av_remove(server.av, &client_addr, 1, 0));
        }
        for (int j = 0; j < 3000; j++) { /* the clients are looked at */
            server.poll();
        }
        if (i % 3 == 0) {
            ASSERT_EQ(0, fi_trecv(server.ep, buf, 8, nullptr, FI_ADDR_UNSPEC, 2, 0, nullptr));
            EXPECT_EQ(0, next_done(server, {&server}).err);
            EXPECT_STREQ("kept", buf);
        }
    }
}

} // namespace

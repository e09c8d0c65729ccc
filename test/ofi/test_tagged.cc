/* Tagged messages of all lengths, in order, expected and not; and all that can be done to them. */
#include "node.h"

#include <algorithm>
#include <array>
#include <map>
#include <random>

namespace
{

const size_t kLengths[] = {0,  1,    8,    72,   73,   80,   81,    88,    96,
                           97, 1000, 4096, 8191, 8192, 8193, 20000, 65536, 1000003};

class Tagged : public Pair
{
};

TEST_F(Tagged, AllLengthsExpectedAndUnexpected)
{
    open();
    for (bool expected : {true, false}) {
        for (size_t length : kLengths) {
            std::vector<char> data = pattern(length, 7), got(length + 1, 'x');
            int send_context, recv_context;

            if (expected) {
                ASSERT_EQ(0, fi_trecv(b->ep, got.data(), length, nullptr, FI_ADDR_UNSPEC, length, 0,
                                      &recv_context));
            }
            ASSERT_EQ(0, go([&] {
                          return fi_tsend(a->ep, data.data(), length, nullptr, b_of_a, length,
                                          &send_context);
                      }));
            settle();
            if (!expected) {
                ASSERT_TRUE(b->done.empty());
                ASSERT_EQ(0, fi_trecv(b->ep, got.data(), length, nullptr, FI_ADDR_UNSPEC, length, 0,
                                      &recv_context));
            }
            Done done = next(*b);
            ASSERT_EQ(0, done.err) << length;
            EXPECT_EQ(length, done.len);
            EXPECT_EQ(length, done.tag);
            EXPECT_EQ(&recv_context, done.context);
            EXPECT_EQ((uint64_t)(FI_RECV | FI_TAGGED), done.flags);
            EXPECT_EQ('x', got[length]);
            got.resize(length);
            EXPECT_EQ(data, got);
            done = next(*a);
            EXPECT_EQ(0, done.err);
            EXPECT_EQ(&send_context, done.context);
            EXPECT_EQ((uint64_t)(FI_SEND | FI_TAGGED), done.flags);
        }
    }
}

TEST_F(Tagged, RemoteDataComesAlong)
{
    open();
    for (size_t length : kLengths) {
        std::vector<char> data = pattern(length, 1), got(length);

        ASSERT_EQ(0, fi_trecv(b->ep, got.data(), length, nullptr, FI_ADDR_UNSPEC, 1, 0, nullptr));
        ASSERT_EQ(0, go([&] {
                      return fi_tsenddata(a->ep, data.data(), length, nullptr,
                                          0x1122334455667788 + length, b_of_a, 1, nullptr);
                  }));
        Done done = next(*b);
        ASSERT_EQ(0, done.err);
        EXPECT_TRUE(done.flags & FI_REMOTE_CQ_DATA);
        EXPECT_EQ(0x1122334455667788 + length, done.data);
        EXPECT_EQ(data, got);
        EXPECT_EQ(0, next(*a).err);
    }
}

/* What was injected may be changed at once, and nobody is told that it went */
TEST_F(Tagged, InjectedBuffersAreFreeAtOnce)
{
    open();
    for (size_t length : {size_t(0), size_t(8), size_t(200), a->info->tx_attr->inject_size}) {
        std::vector<char> data = pattern(length, 3), sent = data, got(length);

        ASSERT_EQ(0, go([&] { return fi_tinject(a->ep, sent.data(), length, b_of_a, 5); }));
        std::fill(sent.begin(), sent.end(), 'z');
        ASSERT_EQ(0, fi_trecv(b->ep, got.data(), length, nullptr, FI_ADDR_UNSPEC, 5, 0, nullptr));
        EXPECT_EQ(0, next(*b).err);
        EXPECT_EQ(data, got);
        EXPECT_TRUE(a->done.empty());
    }
    EXPECT_EQ(-FI_EMSGSIZE,
              fi_tinject(a->ep, a.get(), a->info->tx_attr->inject_size + 1, b_of_a, 5));
}

TEST_F(Tagged, PiecesOnBothSides)
{
    open();
    for (size_t length : {size_t(40), size_t(4000), size_t(40000)}) {
        std::vector<char> data = pattern(length, 9), got(length);
        iovec out[3] = {{data.data(), 7},
                        {data.data() + 7, length / 2},
                        {data.data() + 7 + length / 2, length - 7 - length / 2}};
        iovec in[4] = {{got.data(), length / 3},
                       {got.data() + length / 3, 0},
                       {got.data() + length / 3, 1},
                       {got.data() + length / 3 + 1, length - length / 3 - 1}};

        ASSERT_EQ(0, fi_trecvv(b->ep, in, nullptr, 4, FI_ADDR_UNSPEC, 1, 0, nullptr));
        ASSERT_EQ(0, go([&] { return fi_tsendv(a->ep, out, nullptr, 3, b_of_a, 1, nullptr); }));
        EXPECT_EQ(0, next(*b).err);
        EXPECT_EQ(data, got);
        EXPECT_EQ(0, next(*a).err);
    }
    iovec many[5] = {};
    EXPECT_EQ(-FI_EINVAL, fi_trecvv(b->ep, many, nullptr, 5, FI_ADDR_UNSPEC, 1, 0, nullptr));
}

TEST_F(Tagged, TooLongMessagesAreTruncated)
{
    open();
    for (bool expected : {true, false}) {
        for (size_t length : {size_t(9), size_t(500), size_t(70000)}) {
            std::vector<char> data = pattern(length, 9), got(length, 'x');
            int context;
            auto post = [&] {
                return fi_trecv(b->ep, got.data(), length - 5, nullptr, FI_ADDR_UNSPEC, 1, 0,
                                &context);
            };

            if (expected) {
                ASSERT_EQ(0, post());
            }
            ASSERT_EQ(0, go([&] {
                          return fi_tsend(a->ep, data.data(), length, nullptr, b_of_a, 1, nullptr);
                      }));
            settle();
            if (!expected) {
                ASSERT_EQ(0, post());
            }
            Done done = next(*b);
            EXPECT_EQ(FI_ETRUNC, done.err);
            EXPECT_EQ(5u, done.olen);
            EXPECT_EQ(length - 5, done.len);
            EXPECT_EQ(&context, done.context);
            EXPECT_EQ('x', got[length - 5]);
            EXPECT_EQ(0, memcmp(data.data(), got.data(), length - 5));
            EXPECT_EQ(0, next(*a).err);
        }
    }
}

TEST_F(Tagged, CancelledReceivesEndAndTakeNothing)
{
    open();
    char buf[3][8], context[3];

    for (int i = 0; i < 3; i++) {
        ASSERT_EQ(0, fi_trecv(b->ep, buf[i], 8, nullptr, FI_ADDR_UNSPEC, 1, i, &context[i]));
    }
    EXPECT_EQ(0, fi_cancel(&b->ep->fid, &context[0]));
    EXPECT_EQ(-FI_ENOENT, fi_cancel(&b->ep->fid, &context[0]));
    Done done = next(*b);
    EXPECT_EQ(FI_ECANCELED, done.err);
    EXPECT_EQ(&context[0], done.context);
    ASSERT_EQ(0, go([&] { return fi_tinject(a->ep, "1234567", 8, b_of_a, 1); }));
    done = next(*b);
    EXPECT_EQ(0, done.err);
    EXPECT_EQ(&context[1], done.context);
    EXPECT_EQ(0, fi_cancel(&b->ep->fid, &context[2]));
    EXPECT_EQ(FI_ECANCELED, next(*b).err);
}

TEST_F(Tagged, PeekClaimDiscard)
{
    open();
    for (size_t length : {size_t(8), size_t(50000)}) {
        std::vector<char> data = pattern(length, 2), got(length);
        fi_context context{}, other{};
        fi_msg_tagged msg{};
        iovec iov = {got.data(), length};

        msg.addr = FI_ADDR_UNSPEC;
        msg.tag = 9;
        msg.context = &context;
        ASSERT_EQ(0, fi_trecvmsg(b->ep, &msg, FI_PEEK));
        EXPECT_EQ(FI_ENOMSG, next(*b).err);
        for (int i = 0; i < 3; i++) {
            ASSERT_EQ(0, go([&] {
                          return fi_tsend(a->ep, data.data(), length, nullptr, b_of_a, 9, nullptr);
                      }));
        }
        settle();
        ASSERT_EQ(0, fi_trecvmsg(b->ep, &msg, FI_PEEK)); /* looks only */
        Done done = next(*b);
        EXPECT_EQ(0, done.err);
        EXPECT_EQ(length, done.len);
        ASSERT_EQ(0, fi_trecvmsg(b->ep, &msg, FI_PEEK | FI_CLAIM));
        EXPECT_EQ(0, next(*b).err);
        msg.context = &other;
        ASSERT_EQ(0, fi_trecvmsg(b->ep, &msg, FI_PEEK | FI_DISCARD)); /* the second */
        EXPECT_EQ(0, next(*b).err);
        EXPECT_EQ(-FI_EINVAL, fi_trecvmsg(b->ep, &msg, FI_CLAIM)); /* not claimed */
        msg.context = &context;
        msg.msg_iov = &iov;
        msg.iov_count = 1;
        ASSERT_EQ(0, fi_trecvmsg(b->ep, &msg, FI_CLAIM));
        done = next(*b);
        EXPECT_EQ(0, done.err);
        EXPECT_EQ(length, done.len);
        EXPECT_EQ(data, got);
        EXPECT_EQ(-FI_EINVAL, fi_trecvmsg(b->ep, &msg, FI_CLAIM)); /* only once */
        msg.iov_count = 0;
        ASSERT_EQ(0, fi_trecvmsg(b->ep, &msg, FI_PEEK | FI_CLAIM)); /* the third */
        EXPECT_EQ(0, next(*b).err);
        ASSERT_EQ(0, fi_trecvmsg(b->ep, &msg, FI_CLAIM | FI_DISCARD));
        EXPECT_EQ(0, next(*b).err);
        ASSERT_EQ(0, fi_trecvmsg(b->ep, &msg, FI_PEEK));
        EXPECT_EQ(FI_ENOMSG, next(*b).err);
        for (int i = 0; i < 3; i++) {
            EXPECT_EQ(0, next(*a).err) << i; /* all senders are told, also of those discarded */
        }
    }
}

TEST_F(Tagged, DirectedReceivesTakeTheirSourceOnly)
{
    Wish wish;
    wish.caps = FI_TAGGED | FI_DIRECTED_RECV | FI_SOURCE;
    open(wish);
    Node c(wish);
    fi_addr_t b_of_c = c.know(*b), c_of_b = b->know(c);
    char from_a[8] = "", from_c[8] = "";

    ASSERT_EQ(0, fi_trecv(b->ep, from_c, 8, nullptr, c_of_b, 1, 0, from_c));
    ASSERT_EQ(0, fi_trecv(b->ep, from_a, 8, nullptr, a_of_b, 1, 0, from_a));
    ASSERT_EQ(0, go([&] { return fi_tinject(a->ep, "I am A.", 8, b_of_a, 1); }));
    Done done = next(*b);
    EXPECT_EQ(from_a, done.context);
    EXPECT_EQ(a_of_b, done.source);
    EXPECT_STREQ("I am A.", from_a);
    ASSERT_EQ(0, retry({&c, b.get()}, [&] { return fi_tinject(c.ep, "I am C.", 8, b_of_c, 1); }));
    done = next_done(*b, {&c, b.get()});
    EXPECT_EQ(from_c, done.context);
    EXPECT_EQ(c_of_b, done.source);
}

/* A stream of random lengths over two tags: each tag's messages arrive in the order of sending */
TEST_F(Tagged, MessagesOfATagStayInOrder)
{
    open();
    std::mt19937 random(5);
    const unsigned count = 3000;
    unsigned received = 0, posted = 0, sent = 0;
    std::vector<std::vector<unsigned>> out(count), in(64, std::vector<unsigned>(12000));
    std::vector<unsigned *> unused;
    std::map<void *, unsigned> expected; /* message that a posted receive must hold */

    for (std::vector<unsigned> &buffer : in) {
        unused.push_back(buffer.data());
    }

    ASSERT_TRUE(wait([&] {
        if (sent < count) {
            out[sent].assign(2 + random() % (random() % 8 == 0 ? 11000 : 40), sent);
            if (fi_tsend(a->ep, out[sent].data(), out[sent].size() * 4, nullptr, b_of_a, sent % 2,
                         nullptr) == 0) {
                sent++;
            }
        }
        while (posted < count && !unused.empty()) {
            unsigned *to = unused.back();
            EXPECT_EQ(0, fi_trecv(b->ep, to, in[0].size() * 4, nullptr, FI_ADDR_UNSPEC, posted % 2,
                                  0, to));
            unused.pop_back();
            expected[to] = posted++;
        }
        while (!b->done.empty()) {
            Done done = b->done.front();
            b->done.pop_front();
            EXPECT_EQ(0, done.err);
            unsigned number = *static_cast<unsigned *>(done.context);
            EXPECT_EQ(done.tag, number % 2);
            EXPECT_EQ(number, expected[done.context]);
            unused.push_back(static_cast<unsigned *>(done.context));
            received++;
        }
        a->done.clear();
        return received == count;
    }));
}

/* Two receives for each tag, so that the second must hold the second message, whatever their way */
TEST_F(Tagged, AShortMessageDoesNotOvertakeALongOne)
{
    open();
    std::vector<char> data = pattern(300000, 4), first(300000), second(300000);

    for (int round = 0; round < 20; round++) {
        ASSERT_EQ(0, go([&] {
                      return fi_tsend(a->ep, data.data(), data.size(), nullptr, b_of_a, 3, nullptr);
                  }));
        ASSERT_EQ(0, go([&] { return fi_tinject(a->ep, "short", 6, b_of_a, 3); }));
        if (round % 2) {
            settle();
        }
        ASSERT_EQ(0, fi_trecv(b->ep, first.data(), first.size(), nullptr, FI_ADDR_UNSPEC, 3, 0,
                              first.data()));
        ASSERT_EQ(0, fi_trecv(b->ep, second.data(), second.size(), nullptr, FI_ADDR_UNSPEC, 3, 0,
                              second.data()));
        for (int i = 0; i < 2; i++) {
            Done done = next(*b);
            EXPECT_EQ(0, done.err);
            EXPECT_EQ(done.context == first.data() ? data.size() : 6u, done.len);
        }
        EXPECT_EQ(data, first);
        EXPECT_STREQ("short", second.data());
        EXPECT_EQ(0, next(*a).err);
    }
}

/* Delivery complete: not before the receiver has the message */
TEST_F(Tagged, DeliveryCompleteWaitsForTheReceiver)
{
    Wish wish;
    wish.tx_op_flags = FI_DELIVERY_COMPLETE;
    open(wish);
    for (size_t length : {size_t(0), size_t(8), size_t(3000), size_t(100000)}) {
        std::vector<char> data = pattern(length, 2), got(length);

        ASSERT_EQ(0, go([&] {
                      return fi_tsend(a->ep, data.data(), length, nullptr, b_of_a, 9, nullptr);
                  }));
        settle();
        EXPECT_TRUE(a->done.empty()) << length;
        ASSERT_EQ(0, fi_trecv(b->ep, got.data(), length, nullptr, FI_ADDR_UNSPEC, 9, 0, nullptr));
        EXPECT_EQ(0, next(*b).err);
        EXPECT_EQ(0, next(*a).err);
        EXPECT_EQ(data, got);
    }
}

TEST_F(Tagged, TransmitCompleteNeedsNoReceive)
{
    Wish wish;
    wish.tx_op_flags = FI_TRANSMIT_COMPLETE;
    open(wish);
    std::vector<char> data = pattern(8000, 2), got(8000);

    for (size_t length : {size_t(8), size_t(3000), size_t(8000)}) {
        ASSERT_EQ(0, go([&] {
                      return fi_tsend(a->ep, data.data(), length, nullptr, b_of_a, 9, nullptr);
                  }));
        EXPECT_EQ(0, next(*a).err);
        ASSERT_EQ(0, fi_trecv(b->ep, got.data(), length, nullptr, FI_ADDR_UNSPEC, 9, 0, nullptr));
        EXPECT_EQ(0, next(*b).err);
    }
}

/* What a look tells: length, tag, CQ data, source; of the first message that the receive would get */
TEST_F(Tagged, PeeksTellAllOfTheMessage)
{
    Wish wish;
    wish.caps = FI_TAGGED | FI_DIRECTED_RECV | FI_SOURCE;
    open(wish);
    Node c(wish);
    fi_addr_t b_of_c = c.know(*b), c_of_b = b->know(c);
    std::vector<char> data = pattern(30000, 1);
    struct {
        fi_addr_t source;
        uint64_t tag, ignore;
        int err;
        size_t len;
    } looks[] = {
        {FI_ADDR_UNSPEC, 0x10, 0, 0, 100},  {FI_ADDR_UNSPEC, 0x20, 0, 0, 30000},
        {FI_ADDR_UNSPEC, 0, ~0ull, 0, 100}, {c_of_b, 0, ~0ull, 0, 30000},
        {c_of_b, 0x21, 0xf, 0, 30000},      {c_of_b, 0x10, 0, FI_ENOMSG, 0},
        {a_of_b, 0x20, 0xf, FI_ENOMSG, 0},  {FI_ADDR_UNSPEC, 0x30, 0xf, FI_ENOMSG, 0},
    };

    ASSERT_EQ(0, go([&] {
                  return fi_tsenddata(a->ep, data.data(), 100, nullptr, 4711, b_of_a, 0x10,
                                      nullptr);
              }));
    settle();
    ASSERT_EQ(0, retry({&c, b.get()}, [&] {
                  return fi_tsend(c.ep, data.data(), 30000, nullptr, b_of_c, 0x20, nullptr);
              }));
    for (int i = 0; i < 1000; i++) {
        c.poll();
        b->poll();
    }
    for (auto &look : looks) {
        fi_msg_tagged msg{};
        msg.addr = look.source;
        msg.tag = look.tag;
        msg.ignore = look.ignore;
        msg.context = &look;
        ASSERT_EQ(0, fi_trecvmsg(b->ep, &msg, FI_PEEK));
        Done done = next(*b);
        EXPECT_EQ(&look, done.context);
        EXPECT_EQ(look.err, done.err);
        EXPECT_EQ(look.len, done.len);
        if (look.err == 0) {
            bool is_first = look.len == 100;
            EXPECT_EQ(is_first ? 0x10u : 0x20u, done.tag);
            EXPECT_EQ(is_first ? 4711u : 0u, done.data);
            EXPECT_EQ(is_first ? a_of_b : c_of_b, done.source);
            EXPECT_EQ((uint64_t)(FI_RECV | FI_TAGGED | (is_first ? FI_REMOTE_CQ_DATA : 0)),
                      done.flags);
        }
    }
    std::vector<char> got(30000); /* both are there still */
    ASSERT_EQ(0, fi_trecv(b->ep, got.data(), 100, nullptr, FI_ADDR_UNSPEC, 0x10, 0, nullptr));
    EXPECT_EQ(0, next(*b).err);
    ASSERT_EQ(0, fi_trecv(b->ep, got.data(), 30000, nullptr, FI_ADDR_UNSPEC, 0x20, 0, nullptr));
    EXPECT_EQ(0, next_done(*b, {&c, b.get()}).err);
    EXPECT_EQ(data, got);
}

/* What is claimed is nobody else's; it is received in pieces, or cut off, as any message is */
TEST_F(Tagged, ClaimedMessagesAreReceivedLikeOthers)
{
    open();
    for (size_t length : {size_t(64), size_t(5000), size_t(60000)}) {
        std::vector<char> first = pattern(length, 2), second = pattern(length, 3), got(length, 'x');
        fi_context context{};
        fi_msg_tagged msg{};
        iovec pieces[2] = {{got.data(), 10}, {got.data() + 10, length - 10}},
              part = {got.data(), 20};

        msg.addr = FI_ADDR_UNSPEC;
        msg.tag = 9;
        msg.context = &context;
        for (bool is_cut : {false, true}) {
            for (auto *data : {&first, &second}) {
                ASSERT_EQ(0, go([&] {
                              return fi_tsend(a->ep, data->data(), length, nullptr, b_of_a, 9,
                                              nullptr);
                          }));
            }
            settle();
            msg.iov_count = 0;
            ASSERT_EQ(0, fi_trecvmsg(b->ep, &msg, FI_PEEK | FI_CLAIM));
            EXPECT_EQ(0, next(*b).err);
            ASSERT_EQ(0,
                      fi_trecv(b->ep, got.data(), length, nullptr, FI_ADDR_UNSPEC, 9, 0, nullptr));
            EXPECT_EQ(0, next(*b).err);
            EXPECT_EQ(second, got);
            std::fill(got.begin(), got.end(), 'x');
            EXPECT_EQ(-FI_ENOENT, fi_cancel(&b->ep->fid, &context)); /* it is no receive yet */
            msg.msg_iov = is_cut ? &part : pieces;
            msg.iov_count = is_cut ? 1 : 2;
            ASSERT_EQ(0, fi_trecvmsg(b->ep, &msg, FI_CLAIM));
            Done done = next(*b);
            EXPECT_EQ(is_cut ? FI_ETRUNC : 0, done.err);
            EXPECT_EQ(is_cut ? 20 : length, done.len);
            EXPECT_EQ(is_cut ? length - 20 : 0, done.olen);
            EXPECT_EQ(0, memcmp(first.data(), got.data(), done.len));
            EXPECT_EQ(is_cut ? 'x' : first[20], got[20]);
            EXPECT_EQ(0, next(*a).err);
            EXPECT_EQ(0, next(*a).err);
        }
    }
}

/* A sender that waits for delivery is told when its message is thrown away, and not before */
TEST_F(Tagged, SendersOfDiscardedMessagesAreTold)
{
    Wish wish;
    wish.tx_op_flags = FI_DELIVERY_COMPLETE;
    open(wish);
    for (size_t length : {size_t(8), size_t(3000), size_t(100000)}) {
        for (bool is_claimed : {false, true}) {
            std::vector<char> data = pattern(length, 2);
            fi_context context{};
            fi_msg_tagged msg{};

            msg.addr = FI_ADDR_UNSPEC;
            msg.tag = 9;
            msg.context = &context;
            ASSERT_EQ(0, go([&] {
                          return fi_tsend(a->ep, data.data(), length, nullptr, b_of_a, 9, nullptr);
                      }));
            settle();
            if (is_claimed) {
                ASSERT_EQ(0, fi_trecvmsg(b->ep, &msg, FI_PEEK | FI_CLAIM));
                EXPECT_EQ(0, next(*b).err);
            }
            settle();
            EXPECT_TRUE(a->done.empty());
            ASSERT_EQ(0, fi_trecvmsg(b->ep, &msg, FI_DISCARD | (is_claimed ? FI_CLAIM : FI_PEEK)));
            EXPECT_EQ(length, next(*b).len);
            EXPECT_EQ(0, next(*a).err);
        }
    }
}

/* Out of the middle of many that are equal; of two with one context the earlier; none on its way */
TEST_F(Tagged, AnyReceiveIsCancelled)
{
    open();
    const int count = 300;
    std::vector<std::array<char, 8>> bufs(count);
    std::vector<char> data = pattern(3000000, 1), got(data.size());
    std::vector<int> order(count);
    char one[8], other[8];

    for (int i = 0; i < count; i++) {
        ASSERT_EQ(
            0, fi_trecv(b->ep, &bufs[i], 8, nullptr, FI_ADDR_UNSPEC, i % 3 == 0, i % 7, &bufs[i]));
        order[i] = i;
    }
    std::shuffle(order.begin(), order.end(), std::mt19937(1));
    for (int i : order) {
        EXPECT_EQ(0, fi_cancel(&b->ep->fid, &bufs[i]));
        Done done = next(*b);
        EXPECT_EQ(FI_ECANCELED, done.err);
        EXPECT_EQ(&bufs[i], done.context);
        EXPECT_EQ(-FI_ENOENT, fi_cancel(&b->ep->fid, &bufs[i]));
    }
    for (char *buf : {one, other}) {
        ASSERT_EQ(0, fi_trecv(b->ep, buf, 8, nullptr, FI_ADDR_UNSPEC, 1, 0, &got));
    }
    EXPECT_EQ(0, fi_cancel(&b->ep->fid, &got));
    EXPECT_EQ(FI_ECANCELED, next(*b).err);
    ASSERT_EQ(0, go([&] { return fi_tinject(a->ep, "message", 8, b_of_a, 1); }));
    EXPECT_EQ(0, next(*b).err);
    EXPECT_STREQ("message", other);
    /* a message that the receive has found comes to its end */
    ASSERT_EQ(0, fi_trecv(b->ep, got.data(), got.size(), nullptr, FI_ADDR_UNSPEC, 2, 0, &got));
    ASSERT_EQ(0, go([&] {
                  return fi_tsend(a->ep, data.data(), data.size(), nullptr, b_of_a, 2, nullptr);
              }));
    for (int i = 0; i < 100; i++) { /* b has the announcement, and reads no completion */
        fi_cq_tagged_entry entry;
        fi_cq_read(b->cq, &entry, 0);
    }
    EXPECT_EQ(-FI_ENOENT, fi_cancel(&b->ep->fid, &got));
    EXPECT_EQ(0, next(*b).err);
    EXPECT_EQ(data, got);
    EXPECT_EQ(0, next(*a).err);
}

/* With many receives fi_cancel() uses a table of contexts. The table follows receives that are posted,
 * matched and cancelled after it was made; equal contexts are cancelled in the order of posting. */
TEST_F(Tagged, ManyReceivesAreCancelled)
{
    open();
    const size_t count = 1000;
    std::vector<std::array<char, 8>> bufs(count);
    std::mt19937 random(7);
    char one[8] = "", other[8] = "", last[8] = "";

    auto post = [&](size_t i) {
        ASSERT_EQ(0, i % 5 == 0 ?
                         fi_recv(b->ep, &bufs[i], 8, nullptr, FI_ADDR_UNSPEC, &bufs[i]) :
                         fi_trecv(b->ep, &bufs[i], 8, nullptr, FI_ADDR_UNSPEC, i, 0, &bufs[i]));
    };
    auto cancel = [&](void *context) {
        ASSERT_EQ(0, fi_cancel(&b->ep->fid, context));
        Done done = next(*b);
        EXPECT_EQ(FI_ECANCELED, done.err);
        EXPECT_EQ(context, done.context);
    };
    auto take = [&](size_t i) { /* by a message */
                                ASSERT_EQ(0, go([&] {
                                              return fi_tinject(a->ep, "message", 8, b_of_a, i);
                                          }));
                                EXPECT_EQ(&bufs[i], next(*b).context);
                                EXPECT_EQ(-FI_ENOENT, fi_cancel(&b->ep->fid, &bufs[i]));
    };
    for (int round = 0; round < 2; round++) { /* the table ends with the last receive of a round */
        std::vector<size_t> order;
        for (size_t i = 0; i < count / 2; i++) {
            post(i);
        }
        EXPECT_EQ(-FI_ENOENT, fi_cancel(&b->ep->fid, &order)); /* from here on there is a table */
        for (size_t i = count / 2; i < count; i++) {
            post(i);
        }
        for (char *buf : {one, other, last}) {
            ASSERT_EQ(0, fi_trecv(b->ep, buf, 8, nullptr, FI_ADDR_UNSPEC, count, 0, nullptr));
        }
        for (size_t i = 0; i < count; i++) {
            if (i % 7 == 1 && i % 5 != 0) {
                take(i);
            } else {
                order.push_back(i);
            }
        }
        cancel(nullptr);
        ASSERT_EQ(0, go([&] { return fi_tinject(a->ep, "message", 8, b_of_a, count); }));
        EXPECT_EQ(nullptr, next(*b).context);
        EXPECT_STREQ("", one);
        EXPECT_STREQ("message", other);
        other[0] = '\0';
        std::shuffle(order.begin(), order.end(), random);
        for (size_t i : order) {
            cancel(&bufs[i]);
        }
        cancel(nullptr);
        EXPECT_EQ(-FI_ENOENT, fi_cancel(&b->ep->fid, nullptr));
    }
    for (size_t i = 0; i < count; i++) { /* and these are posted when the endpoint is closed */
        post(i);
    }
    cancel(&bufs[count - 1]);
}

} // namespace

/* Messages without tags: buffers for several messages, bounded memory for unexpected ones, streams. */
#include "node.h"

#include <algorithm>
#include <cstdlib>
#include <set>

namespace
{

class Msg : public Pair
{
};

TEST_F(Msg, AllCallsSend)
{
    open();
    std::vector<char> data = pattern(64, 1), got(64);
    iovec iov = {data.data(), 64};
    fi_msg msg{};
    int which = 0;

    msg.msg_iov = &iov;
    msg.iov_count = 1;
    msg.addr = b_of_a;
    msg.data = 77;
    const std::vector<std::function<ssize_t()>> calls = {
        [&] { return fi_send(a->ep, data.data(), 64, nullptr, b_of_a, nullptr); },
        [&] { return fi_sendv(a->ep, &iov, nullptr, 1, b_of_a, nullptr); },
        [&] { return fi_sendmsg(a->ep, &msg, 0); },
        [&] { return fi_inject(a->ep, data.data(), 64, b_of_a); },
        [&] { return fi_senddata(a->ep, data.data(), 64, nullptr, 77, b_of_a, nullptr); },
        [&] { return fi_sendmsg(a->ep, &msg, FI_REMOTE_CQ_DATA | FI_INJECT); },
        [&] { return fi_injectdata(a->ep, data.data(), 64, 77, b_of_a); },
    };
    for (const auto &call : calls) {
        std::fill(got.begin(), got.end(), 0);
        ASSERT_EQ(0, fi_recv(b->ep, got.data(), 64, nullptr, FI_ADDR_UNSPEC, nullptr));
        ASSERT_EQ(0, go(call)) << which;
        Done done = next(*b);
        EXPECT_EQ(0, done.err);
        EXPECT_EQ((uint64_t)(FI_RECV | FI_MSG | (which >= 4 ? FI_REMOTE_CQ_DATA : 0)), done.flags);
        EXPECT_EQ(which >= 4 ? 77u : 0u, done.data);
        EXPECT_EQ(data, got);
        which++;
    }
    EXPECT_EQ(5u, a->done.size()); /* none for fi_inject() and fi_injectdata() */
    EXPECT_EQ(-FI_EBADFLAGS, fi_sendmsg(a->ep, &msg, FI_PEEK));
}

TEST_F(Msg, SelectiveCompletion)
{
    Wish wish;
    wish.cq_flags = FI_SELECTIVE_COMPLETION;
    open(wish);
    char buf[8];
    iovec iov = {buf, 8};
    fi_msg msg{};

    msg.msg_iov = &iov;
    msg.iov_count = 1;
    msg.addr = FI_ADDR_UNSPEC;
    ASSERT_EQ(0, fi_recv(b->ep, buf, 8, nullptr, FI_ADDR_UNSPEC, nullptr));
    ASSERT_EQ(0, fi_recvmsg(b->ep, &msg, FI_COMPLETION));
    ASSERT_EQ(0, go([&] { return fi_send(a->ep, "quiet..", 8, nullptr, b_of_a, nullptr); }));
    msg.addr = b_of_a;
    ASSERT_EQ(0, go([&] { return fi_sendmsg(a->ep, &msg, FI_COMPLETION); }));
    EXPECT_EQ(0, next(*b).err);
    EXPECT_EQ(0, next(*a).err);
    settle();
    EXPECT_TRUE(a->done.empty());
    EXPECT_TRUE(b->done.empty());
}

/* One buffer for many messages, of all lengths and ways; none is lost, none lies over another */
TEST_F(Msg, ABufferForSeveralMessages)
{
    open();
    const size_t lengths[] = {10, 100, 9000, 0, 30000, 5000, 40};
    std::vector<char> buffer(60000);
    size_t min = 10000, offset = 0, value = 0, value_length = sizeof(value);
    iovec iov = {buffer.data(), buffer.size()};
    fi_msg msg{};
    int context;

    ASSERT_EQ(0, fi_setopt(&b->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &min, sizeof(min)));
    ASSERT_EQ(
        0, fi_getopt(&b->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value, &value_length));
    EXPECT_EQ(min, value);
    msg.msg_iov = &iov;
    msg.iov_count = 1;
    msg.addr = FI_ADDR_UNSPEC;
    msg.context = &context;
    std::vector<std::vector<char>> sent;
    for (size_t length : lengths) {
        sent.push_back(pattern(length, length));
    }
    for (bool expected : {true, false}) {
        /* Places are given in the order of sending; a long message may complete later than others */
        std::multiset<std::pair<const void *, size_t>> places, completed;
        offset = 0;
        if (expected) {
            ASSERT_EQ(0, fi_recvmsg(b->ep, &msg, FI_MULTI_RECV));
        }
        for (const std::vector<char> &data : sent) {
            ASSERT_EQ(0, go([&] {
                          return fi_send(a->ep, data.data(), data.size(), nullptr, b_of_a, nullptr);
                      }));
        }
        if (!expected) {
            settle();
            ASSERT_EQ(0, fi_recvmsg(b->ep, &msg, FI_MULTI_RECV));
        }
        for (const std::vector<char> &data : sent) {
            Done done = next(*b);
            ASSERT_EQ(0, done.err);
            EXPECT_EQ(&context, done.context);
            EXPECT_FALSE(done.flags & FI_MULTI_RECV);
            completed.emplace(done.buf, done.len);
            places.emplace(buffer.data() + offset, data.size());
            offset += data.size();
        }
        EXPECT_EQ(places, completed);
        offset = 0;
        for (const std::vector<char> &data : sent) {
            EXPECT_EQ(0, memcmp(data.data(), buffer.data() + offset, data.size()));
            offset += data.size();
        }
        /* 44150 bytes are used, 15850 are left: one more makes it too little */
        std::vector<char> last = pattern(7000, 1);
        ASSERT_EQ(0,
                  go([&] { return fi_send(a->ep, last.data(), 7000, nullptr, b_of_a, nullptr); }));
        Done done = next(*b);
        EXPECT_EQ(7000u, done.len);
        EXPECT_TRUE(done.flags & FI_MULTI_RECV);
        EXPECT_EQ(0, memcmp(last.data(), buffer.data() + offset, 7000));
        for (size_t i = 0; i <= std::size(lengths); i++) {
            EXPECT_EQ(0, next(*a).err);
        }
    }
}

/* With 100 messages unexpected the receiver has said stop: its memory does not grow with what the
 * sender has; and all arrive, in order. FI_GLEX_UNEXPECTED_SIZE is read once, so in a process of its
 * own: ofi_test.sh runs this test again with a small one. */
TEST_F(Msg, UnexpectedMessagesAreBounded)
{
    open();
    const unsigned count = 2000;
    std::vector<std::vector<unsigned>> out(count, std::vector<unsigned>(1000));
    std::vector<unsigned> got(1000);
    unsigned sent = 0, refused = 0;

    while (sent < count && refused < 3000) { /* as long as any are taken */
        out[sent][0] = sent;
        ssize_t ret = fi_tsend(a->ep, out[sent].data(), 4000, nullptr, b_of_a, 1, nullptr);
        if (ret == 0) {
            sent++;
            refused = 0;
        } else {
            ASSERT_EQ(-FI_EAGAIN, ret);
            refused++;
        }
        a->poll();
        b->poll();
    }
    if (getenv("FI_GLEX_UNEXPECTED_SIZE") != nullptr) {
        EXPECT_LT(sent, count); /* what may be announced is bounded, too */
        EXPECT_LT(a->done.size(), 300u);
    }
    for (unsigned i = 0; i < count; i++) {
        ASSERT_EQ(0, fi_trecv(b->ep, got.data(), 4000, nullptr, FI_ADDR_UNSPEC, 1, 0, nullptr));
        ASSERT_TRUE(wait([&] {
            if (sent < count) {
                out[sent][0] = sent;
                sent += fi_tsend(a->ep, out[sent].data(), 4000, nullptr, b_of_a, 1, nullptr) == 0;
            }
            return !b->done.empty();
        }));
        EXPECT_EQ(0, next(*b).err);
        ASSERT_EQ(i, got[0]);
    }
    ASSERT_TRUE(wait([&] { return a->done.size() == count; }));
}

TEST_F(Msg, AnEndpointTalksToItself)
{
    open();
    fi_addr_t self = a->know(*a);
    for (size_t length : {size_t(8), size_t(5000), size_t(100000)}) {
        std::vector<char> data = pattern(length, 1), got(length);

        ASSERT_EQ(0, fi_recv(a->ep, got.data(), length, nullptr, FI_ADDR_UNSPEC, nullptr));
        ASSERT_EQ(0,
                  go([&] { return fi_send(a->ep, data.data(), length, nullptr, self, nullptr); }));
        EXPECT_EQ(0, next(*a).err);
        EXPECT_EQ(0, next(*a).err);
        EXPECT_EQ(data, got);
    }
}

/* Closing an endpoint with all kinds of unfinished business frees everything (under ASan) */
TEST_F(Msg, EndpointsAreClosedInTheMiddle)
{
    open();
    std::vector<char> data = pattern(100000, 1), got(100000);

    ASSERT_EQ(0, fi_recv(b->ep, got.data(), 100, nullptr, FI_ADDR_UNSPEC, nullptr));
    ASSERT_EQ(0, fi_trecv(a->ep, got.data(), 100, nullptr, FI_ADDR_UNSPEC, 1, 1, nullptr));
    ASSERT_EQ(
        0, go([&] { return fi_tsend(a->ep, data.data(), 100000, nullptr, b_of_a, 9, nullptr); }));
    ASSERT_EQ(0, go([&] { return fi_tsend(b->ep, data.data(), 50, nullptr, a_of_b, 9, nullptr); }));
    settle();
}

class MultiRecv : public Pair
{
  protected:
    void open_multi(size_t min)
    {
        open();
        ASSERT_EQ(
            0, fi_setopt(&b->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &min, sizeof(min)));
    }

    void post(std::vector<char> &buffer)
    {
        iovec iov = {buffer.data(), buffer.size()};
        fi_msg msg{};

        msg.msg_iov = &iov;
        msg.iov_count = 1;
        msg.addr = FI_ADDR_UNSPEC;
        msg.context = &buffer;
        ASSERT_EQ(0, fi_recvmsg(b->ep, &msg, FI_MULTI_RECV));
    }

    /* A message of `length`; the part of it that was received must lie at `place` */
    void expect(size_t length, std::vector<char> &buffer, size_t place, size_t received,
                bool is_last)
    {
        std::vector<char> data = pattern(length, (unsigned)(length + place));

        ASSERT_EQ(
            0, go([&] { return fi_send(a->ep, data.data(), length, nullptr, b_of_a, nullptr); }));
        Done done = next(*b);
        EXPECT_EQ(&buffer, done.context);
        EXPECT_EQ(received < length ? FI_ETRUNC : 0, done.err);
        EXPECT_EQ(received, done.len);
        EXPECT_EQ(length - received, done.olen);
        EXPECT_EQ(is_last, (done.flags & FI_MULTI_RECV) != 0);
        if (done.err == 0) {
            EXPECT_EQ(buffer.data() + place, done.buf);
        }
        EXPECT_EQ(0, memcmp(data.data(), buffer.data() + place, received));
        EXPECT_EQ(0, next(*a).err);
    }
};

/* Each buffer is given back with the message that leaves too little of it; the next one is used then */
TEST_F(MultiRecv, ABufferThatRunsFullHandsOverToTheNext)
{
    for (size_t unit : {size_t(10), size_t(2000)}) { /* at once; announced */
        open_multi(20 * unit);
        std::vector<char> first(100 * unit), second(100 * unit);
        post(first);
        post(second);
        expect(30 * unit, first, 0, 30 * unit, false);
        expect(50 * unit, first, 30 * unit, 50 * unit, false); /* 20 are left: enough */
        expect(unit, first, 80 * unit, unit, true);
        expect(60 * unit, second, 0, 60 * unit, false);
        post(first);
        expect(25 * unit, second, 60 * unit, 25 * unit, true);
        expect(0, first, 0, 0, false);
        expect(100 * unit, first, 0, 100 * unit, true);
        settle();
        EXPECT_TRUE(b->done.empty());
    }
}

/* What does not fit into the rest of a buffer is cut off, and the buffer is given back with the error */
TEST_F(MultiRecv, MessagesLongerThanTheRestAreTruncated)
{
    for (size_t unit : {size_t(10), size_t(2000)}) {
        open_multi(20 * unit);
        std::vector<char> first(100 * unit), second(100 * unit);
        post(first);
        post(second);
        expect(70 * unit, first, 0, 70 * unit, false);
        expect(45 * unit, first, 70 * unit, 30 * unit, true);
        expect(101 * unit, second, 0, 100 * unit, true);
        settle();
        EXPECT_TRUE(b->done.empty());
        /* nothing is posted: the next one waits */
        ASSERT_EQ(0, go([&] { return fi_send(a->ep, "waits", 6, nullptr, b_of_a, nullptr); }));
        settle();
        EXPECT_TRUE(b->done.empty());
        post(first);
        EXPECT_EQ(first.data(), next(*b).buf);
        EXPECT_STREQ("waits", first.data());
        b.reset(); /* with a buffer that is partly used */
    }
}

/* A program that asks for no room at all gets each buffer back when it is used to its last byte */
TEST_F(MultiRecv, ABufferIsUsedToItsLastByte)
{
    open_multi(0);
    std::vector<char> first(100), second(100);
    post(first);
    post(second);
    expect(60, first, 0, 60, false);
    expect(39, first, 60, 39, false);
    expect(1, first, 99, 1, true);
    expect(100, second, 0, 100, true);
}

/* A cancel gives the buffer back, and what is in it is whole */
TEST_F(MultiRecv, PartlyUsedBuffersAreCancelled)
{
    open_multi(64);
    std::vector<char> first(1000), second(1000);
    post(first);
    post(second);
    expect(300, first, 0, 300, false);
    EXPECT_EQ(0, fi_cancel(&b->ep->fid, &first));
    Done done = next(*b);
    EXPECT_EQ(FI_ECANCELED, done.err);
    EXPECT_EQ(&first, done.context);
    EXPECT_TRUE(done.flags & FI_MULTI_RECV);
    EXPECT_EQ(-FI_ENOENT, fi_cancel(&b->ep->fid, &first));
    expect(300, second, 0, 300, false);
}

/* Tagged receives, and those of several pieces, are of one message each */
TEST_F(MultiRecv, IsForWholeBuffersWithoutTags)
{
    open_multi(64);
    char buf[100];
    iovec iov[2] = {{buf, 50}, {buf + 50, 50}};
    fi_msg msg{};
    fi_msg_tagged tagged{};

    msg.msg_iov = tagged.msg_iov = iov;
    msg.iov_count = 2;
    tagged.iov_count = 1;
    msg.addr = tagged.addr = FI_ADDR_UNSPEC;
    EXPECT_EQ(-FI_EINVAL, fi_recvmsg(b->ep, &msg, FI_MULTI_RECV));
    EXPECT_EQ(-FI_EBADFLAGS, fi_trecvmsg(b->ep, &tagged, FI_MULTI_RECV));
}

TEST_F(Msg, TooLongMessagesAreTruncated)
{
    open();
    for (bool expected : {true, false}) {
        for (size_t length : {size_t(9), size_t(500), size_t(70000)}) {
            std::vector<char> data = pattern(length, 9), got(length, 'x');
            iovec pieces[2] = {{got.data(), 2}, {got.data() + 2, length - 7}};

            if (expected) {
                ASSERT_EQ(0, fi_recvv(b->ep, pieces, nullptr, 2, FI_ADDR_UNSPEC, &got));
            }
            ASSERT_EQ(0, go([&] {
                          return fi_send(a->ep, data.data(), length, nullptr, b_of_a, nullptr);
                      }));
            settle();
            if (!expected) {
                ASSERT_EQ(0, fi_recvv(b->ep, pieces, nullptr, 2, FI_ADDR_UNSPEC, &got));
            }
            Done done = next(*b);
            EXPECT_EQ(FI_ETRUNC, done.err);
            EXPECT_EQ(5u, done.olen);
            EXPECT_EQ(length - 5, done.len);
            EXPECT_EQ(&got, done.context);
            EXPECT_EQ('x', got[length - 5]);
            EXPECT_EQ(0, memcmp(data.data(), got.data(), length - 5));
            EXPECT_EQ(0, next(*a).err);
        }
    }
}

/* Untagged receives are cancelled, and looked for, apart from tagged ones */
TEST_F(Msg, ReceivesAreCancelledAndMessagesLookedAt)
{
    open();
    char buf[2][8];
    fi_context context{};
    iovec iov = {buf[0], 8};
    fi_msg msg{};

    ASSERT_EQ(0, fi_trecv(b->ep, buf[1], 8, nullptr, FI_ADDR_UNSPEC, 0, ~0ull, buf[1]));
    ASSERT_EQ(0, fi_recv(b->ep, buf[0], 8, nullptr, FI_ADDR_UNSPEC, buf[0]));
    EXPECT_EQ(0, fi_cancel(&b->ep->fid, buf[0]));
    Done done = next(*b);
    EXPECT_EQ(FI_ECANCELED, done.err);
    EXPECT_EQ(buf[0], done.context);
    EXPECT_EQ((uint64_t)(FI_RECV | FI_MSG), done.flags);
    msg.addr = FI_ADDR_UNSPEC;
    msg.context = &context;
    ASSERT_EQ(0, fi_recvmsg(b->ep, &msg, FI_PEEK));
    EXPECT_EQ(FI_ENOMSG, next(*b).err);
    ASSERT_EQ(0, go([&] { return fi_inject(a->ep, "message", 8, b_of_a); }));
    settle();
    ASSERT_EQ(0, fi_recvmsg(b->ep, &msg, FI_PEEK | FI_CLAIM));
    EXPECT_EQ(8u, next(*b).len);
    msg.msg_iov = &iov;
    msg.iov_count = 1;
    ASSERT_EQ(0, fi_recvmsg(b->ep, &msg, FI_CLAIM));
    EXPECT_EQ(0, next(*b).err);
    EXPECT_STREQ("message", buf[0]);
}

} // namespace

/* Messages without tags: buffers for several messages, bounded memory for unexpected ones, streams. */
#include "node.h"

#include <algorithm>
#include <cstdlib>
#include <set>

namespace {

class Msg : public Pair {};

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
    ASSERT_EQ(0, fi_getopt(&b->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value,
                           &value_length));
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
            ASSERT_EQ(0, go([&] { return fi_send(a->ep, data.data(), data.size(), nullptr, b_of_a,
                                                 nullptr); }));
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
        ASSERT_EQ(0, go([&] { return fi_send(a->ep, last.data(), 7000, nullptr, b_of_a, nullptr); }));
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
        ASSERT_EQ(0, go([&] { return fi_send(a->ep, data.data(), length, nullptr, self, nullptr); }));
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
    ASSERT_EQ(0, go([&] { return fi_tsend(a->ep, data.data(), 100000, nullptr, b_of_a, 9, nullptr); }));
    ASSERT_EQ(0, go([&] { return fi_tsend(b->ep, data.data(), 50, nullptr, a_of_b, 9, nullptr); }));
    settle();
}

} // namespace

/* Completion queues, counters, waiting. */
#include "node.h"

#include <algorithm>
#include <poll.h>
#include <thread>

namespace
{

class Cq : public Pair
{
};

/* More completions than the queue was opened for: none is lost, and senders are held back */
TEST_F(Cq, NoCompletionIsLost)
{
    Wish wish;
    wish.cq_size = 4;
    open(wish);
    char buf[64][8];
    fi_cq_tagged_entry entry;
    int sent = 0;

    for (auto &one : buf) {
        ASSERT_EQ(0, fi_trecv(b->ep, one, 8, nullptr, FI_ADDR_UNSPEC, 0, ~0ull, one));
    }
    ASSERT_EQ(0, go([&] { return fi_tinject(a->ep, "first", 6, b_of_a, 0); }));
    ASSERT_TRUE(wait([&] { return b->done.size() == 1; }));
    for (int i = 0; i < 1000; i++) { /* nobody reads a's queue */
        sent += fi_tsend(a->ep, "message", 8, nullptr, b_of_a, 0, nullptr) == 0;
        fi_cq_read(b->cq, &entry, 0);
    }
    EXPECT_EQ(4, sent);
    a->poll();
    EXPECT_EQ(4u, a->done.size());
    while (sent < 63) {
        ssize_t ret = fi_tsend(a->ep, "message", 8, nullptr, b_of_a, 0, nullptr);
        sent += ret == 0;
        a->poll();
        fi_cq_read(b->cq, &entry, 0);
    }
    for (int i = 0; i < 64; i++) {
        Done done = next(*b);
        EXPECT_EQ(0, done.err);
        EXPECT_EQ(buf[i], done.context);
    }
}

/* Beyond its size, and in the middle of its ring, a queue keeps all there is, in order, errors too */
TEST_F(Cq, OverrunQueuesKeepTheirOrder)
{
    Wish wish;
    wish.cq_size = 4;
    open(wish);
    std::deque<int> expected; /* of contexts[]; odd ones are errors */
    std::vector<fi_context> contexts(2000);
    int next_context = 0;
    char buf[8];

    auto write = [&](int count) { /* a look finds the message, or another one that is not there */
                                  for (int i = 0; i < count; i++) {
                                      fi_msg_tagged msg{};
                                      msg.addr = FI_ADDR_UNSPEC;
                                      msg.tag = next_context % 2;
                                      msg.context = &contexts[next_context];
                                      ASSERT_EQ(0, fi_trecvmsg(b->ep, &msg, FI_PEEK));
                                      expected.push_back(next_context++);
                                  }
    };
    auto read = [&](int count) {
        fi_cq_tagged_entry entry[3];
        fi_cq_err_entry error{};
        while (count > 0) {
            ssize_t ret = fi_cq_read(b->cq, entry, (size_t)std::min(count, 3));
            ASSERT_NE(0, ret);
            if (ret < 0) {
                ASSERT_EQ(-FI_EAVAIL, ret);
                ASSERT_EQ(1, fi_cq_readerr(b->cq, &error, 0));
                ASSERT_EQ(FI_ENOMSG, error.err);
                entry[0].op_context = error.op_context;
            }
            for (ssize_t i = 0; i < (ret < 0 ? 1 : ret); i++, count--) {
                ASSERT_EQ(&contexts[expected.front()], entry[i].op_context);
                ASSERT_EQ(ret < 0, expected.front() % 2 == 1);
                expected.pop_front();
            }
        }
    };
    ASSERT_EQ(0, go([&] { return fi_tinject(a->ep, "message", 8, b_of_a, 0); }));
    settle();
    for (int grow : {10, 14, 30, 60, 200, 500}) {
        write(grow);
        read(grow - 3);
        write(7);
    }
    EXPECT_EQ(-FI_EAGAIN, fi_tsend(b->ep, "refused", 8, nullptr, a_of_b, 1, nullptr));
    read((int)expected.size());
    fi_cq_tagged_entry entry;
    EXPECT_EQ(-FI_EAGAIN, fi_cq_read(b->cq, &entry, 1));
    EXPECT_EQ(0, fi_tsend(b->ep, "taken..", 8, nullptr, a_of_b, 1, nullptr));
    ASSERT_EQ(0, fi_trecv(a->ep, buf, 8, nullptr, FI_ADDR_UNSPEC, 1, 0, nullptr));
    EXPECT_EQ(0, next(*a).err);
    write(10); /* errors that nobody reads are freed with the queue */
}

TEST_F(Cq, AnErrorStopsReadingUntilItIsRead)
{
    open();
    char buf[3][8];
    fi_cq_tagged_entry entries[4];
    fi_cq_err_entry error{};

    for (auto &one : buf) {
        ASSERT_EQ(0, fi_trecv(a->ep, one, 8, nullptr, FI_ADDR_UNSPEC, 1, 0, one));
    }
    ASSERT_EQ(0, go([&] { return fi_tinject(b->ep, "1", 1, a_of_b, 1); }));
    ASSERT_TRUE(wait([&] { return !a->done.empty(); }));
    EXPECT_EQ(0, fi_cancel(&a->ep->fid, buf[1]));
    EXPECT_EQ(-FI_EAVAIL, fi_cq_read(a->cq, entries, 4));
    EXPECT_EQ(-FI_EAVAIL, fi_cq_read(a->cq, entries, 4));
    EXPECT_EQ(1, fi_cq_readerr(a->cq, &error, 0));
    EXPECT_EQ(FI_ECANCELED, error.err);
    EXPECT_EQ(buf[1], error.op_context);
    EXPECT_STRNE("", fi_cq_strerror(a->cq, error.prov_errno, nullptr, nullptr, 0));
    EXPECT_EQ(-FI_EAGAIN, fi_cq_readerr(a->cq, &error, 0));
    EXPECT_EQ(-FI_EAGAIN, fi_cq_read(a->cq, entries, 4));
}

TEST_F(Cq, FormatsArePrefixes)
{
    open();
    for (fi_cq_format format : {FI_CQ_FORMAT_UNSPEC, FI_CQ_FORMAT_CONTEXT, FI_CQ_FORMAT_MSG,
                                FI_CQ_FORMAT_DATA, FI_CQ_FORMAT_TAGGED}) {
        fi_cq_attr attr{};
        fid_cq *cq = nullptr;

        attr.format = format;
        ASSERT_EQ(0, fi_cq_open(a->domain, &attr, &cq, nullptr));
        EXPECT_EQ(0, fi_close(&cq->fid));
    }
    fi_cq_attr attr{};
    fid_cq *cq = nullptr;
    attr.wait_obj = FI_WAIT_MUTEX_COND;
    EXPECT_EQ(-FI_ENOSYS, fi_cq_open(a->domain, &attr, &cq, nullptr));
}

/* A sleeper is woken by a message, by a signal, and by time */
TEST_F(Cq, SleepersWake)
{
    Wish wish;
    wish.wait_obj = FI_WAIT_FD;
    open(wish);
    fi_cq_tagged_entry entry;
    char buf[8];
    int fd = -1;

    ASSERT_EQ(0, fi_control(&b->cq->fid, FI_GETWAIT, &fd));
    EXPECT_LE(0, fd);
    EXPECT_EQ(-FI_EAGAIN, fi_cq_sread(b->cq, &entry, 1, nullptr, 20));
    EXPECT_EQ(0, fi_cq_signal(b->cq));
    EXPECT_EQ(-FI_EAGAIN, fi_cq_sread(b->cq, &entry, 1, nullptr, -1));
    for (int i = 0; i < 100; i++) {
        ASSERT_EQ(0, fi_trecv(b->ep, buf, 8, nullptr, FI_ADDR_UNSPEC, 1, 0, nullptr));
        if (i == 0) {
            ASSERT_EQ(0, go([&] { return fi_tinject(a->ep, "wake up", 8, b_of_a, 1); }));
            EXPECT_EQ(0, next(*b).err);
            continue;
        }
        std::thread sender([&] { /* alone with `a`, as another process would be */
                                 std::this_thread::sleep_for(
                                     std::chrono::microseconds(i * 20 % 700));
                                 while (fi_tinject(a->ep, "wake up", 8, b_of_a, 1) == -FI_EAGAIN) {
                                 }
        });
        ssize_t ret = fi_cq_sread(b->cq, &entry, 1, nullptr, 60000);
        sender.join();
        ASSERT_EQ(1, ret) << i;
    }
}

TEST_F(Cq, TheDescriptorTellsOfArrivals)
{
    Wish wish;
    wish.wait_obj = FI_WAIT_FD;
    open(wish);
    char buf[8];
    int fd = -1;

    ASSERT_EQ(0, go([&] { return fi_tinject(a->ep, "first..", 8, b_of_a, 1); }));
    ASSERT_EQ(0, fi_trecv(b->ep, buf, 8, nullptr, FI_ADDR_UNSPEC, 1, 0, nullptr));
    EXPECT_EQ(0, next(*b).err);
    ASSERT_EQ(0, fi_trecv(b->ep, buf, 8, nullptr, FI_ADDR_UNSPEC, 1, 0, nullptr));
    ASSERT_EQ(0, fi_control(&b->cq->fid, FI_GETWAIT, &fd));
    fid *fids[] = {&b->cq->fid};
    while (fi_trywait(b->fabric, fids, 1) == -FI_EAGAIN) {
        b->poll();
    }
    pollfd pollfd = {fd, POLLIN, 0};
    EXPECT_EQ(0, poll(&pollfd, 1, 0));
    ASSERT_EQ(0, go([&] { return fi_tinject(a->ep, "second.", 8, b_of_a, 1); }));
    if (b->done.empty()) {
        EXPECT_EQ(1, poll(&pollfd, 1, 60000));
    }
    EXPECT_EQ(0, next(*b).err);
}

TEST_F(Cq, CountersCountAndWait)
{
    open();
    fi_cntr_attr attr{};
    fid_cntr *cntr = nullptr;
    fid_ep *ep = nullptr;
    std::vector<char> name(256);
    size_t length = name.size();
    char buf[8];

    attr.wait_obj = FI_WAIT_UNSPEC;
    ASSERT_EQ(0, fi_cntr_open(b->domain, &attr, &cntr, nullptr));
    ASSERT_EQ(0, fi_endpoint(b->domain, b->info, &ep, nullptr));
    ASSERT_EQ(0, fi_ep_bind(ep, &b->av->fid, 0));
    ASSERT_EQ(0, fi_ep_bind(ep, &b->cq->fid, FI_TRANSMIT));
    ASSERT_EQ(0, fi_ep_bind(ep, &cntr->fid, FI_RECV));
    ASSERT_EQ(0, fi_enable(ep));
    ASSERT_EQ(0, fi_getname(&ep->fid, name.data(), &length));
    fi_addr_t second = a->know(name);
    EXPECT_NE(b_of_a, second);
    for (int i = 0; i < 3; i++) {
        ASSERT_EQ(0, fi_trecv(ep, buf, i == 2 ? 2 : 8, nullptr, FI_ADDR_UNSPEC, 1, 0, nullptr));
        ASSERT_EQ(0, go([&] { return fi_tinject(a->ep, "message", 8, second, 1); }));
        if (i == 0) {
            settle(); /* the first message waits for the connection, which takes both sides */
        }
        EXPECT_EQ(i == 2 ? -FI_EAVAIL : 0, fi_cntr_wait(cntr, i + 1, 60000));
    }
    EXPECT_EQ(2u, fi_cntr_read(cntr));
    EXPECT_EQ(1u, fi_cntr_readerr(cntr)); /* the third was truncated */
    EXPECT_EQ(-FI_ETIMEDOUT, fi_cntr_wait(cntr, 3, 20));
    EXPECT_EQ(0, fi_cntr_add(cntr, 5));
    EXPECT_EQ(7u, fi_cntr_read(cntr));
    EXPECT_EQ(0, fi_cntr_set(cntr, 1));
    EXPECT_EQ(1u, fi_cntr_read(cntr));
    EXPECT_EQ(0, fi_close(&ep->fid));
    EXPECT_EQ(0, fi_close(&cntr->fid));
}

TEST_F(Cq, PollSetsNameTheQueuesThatHaveSomething)
{
    open();
    fid_poll *poll_set = nullptr;
    fi_poll_attr attr{};
    void *context = nullptr;
    char buf[8];

    ASSERT_EQ(0, fi_poll_open(b->domain, &attr, &poll_set));
    ASSERT_EQ(0, fi_poll_add(poll_set, &b->cq->fid, 0));
    b->cq->fid.context = buf;
    EXPECT_EQ(0, fi_poll(poll_set, &context, 1));
    ASSERT_EQ(0, fi_trecv(b->ep, buf, 8, nullptr, FI_ADDR_UNSPEC, 1, 0, nullptr));
    ASSERT_EQ(0, go([&] { return fi_tinject(a->ep, "message", 8, b_of_a, 1); }));
    while (fi_poll(poll_set, &context, 1) == 0) {
        a->poll(); /* the first message waits for the connection, which takes both sides */
    }
    EXPECT_EQ(buf, context);
    EXPECT_EQ(0, next(*b).err);
    EXPECT_EQ(0, fi_poll_del(poll_set, &b->cq->fid, 0));
    EXPECT_EQ(-FI_EINVAL, fi_poll_del(poll_set, &b->cq->fid, 0));
    EXPECT_EQ(0, fi_close(&poll_set->fid));
}

} // namespace

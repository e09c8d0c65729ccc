/*
 * Waiting: descriptors of completion queues, counters and event queues, and that no wake-up is lost
 * between a look that finds nothing and the sleep.
 */
#include "node.h"

#include <atomic>
#include <poll.h>
#include <thread>
#include <unistd.h>

namespace
{

const int kPatience = 60000; /* ms: who sleeps for so long was not woken */

int descriptor_of(fid *object)
{
    int fd = -1;

    EXPECT_EQ(0, fi_control(object, FI_GETWAIT, &fd));
    return fd;
}

bool is_readable(int fd, int timeout = 0)
{
    pollfd pollfd = {fd, POLLIN, 0};

    return poll(&pollfd, 1, timeout) == 1;
}

class Wait : public Pair
{
  protected:
    /* Both sides know each other, so that what is sent later goes at once */
    void open_wait(fi_wait_obj wait_obj)
    {
        Wish wish;
        wish.wait_obj = wait_obj;
        open(wish);
        char buf[8];
        ASSERT_EQ(0, fi_trecv(b->ep, buf, 8, nullptr, FI_ADDR_UNSPEC, 0, 0, nullptr));
        ASSERT_EQ(0, go([&] { return fi_tinject(a->ep, "first..", 8, b_of_a, 0); }));
        EXPECT_EQ(0, next(*b).err);
    }

    int trywait(fid *object)
    {
        return fi_trywait(b->fabric, &object, 1);
    }

    /* Until a program that follows fi_poll(3) would sleep */
    void trywait_until_quiet(fid *object)
    {
        ASSERT_TRUE(wait_for({}, [&] { return trywait(object) == 0; }));
    }
};

TEST_F(Wait, KindsOfWaitObjects)
{
    Node node;
    fi_wait_obj kinds[] = {FI_WAIT_NONE, FI_WAIT_UNSPEC, FI_WAIT_FD};

    for (fi_wait_obj kind : kinds) {
        fi_cq_attr cq_attr{};
        fi_cntr_attr cntr_attr{};
        fi_eq_attr eq_attr{};
        fid_cq *cq = nullptr;
        fid_cntr *cntr = nullptr;
        fid_eq *eq = nullptr;
        cq_attr.wait_obj = cntr_attr.wait_obj = eq_attr.wait_obj = kind;
        ASSERT_EQ(0, fi_cq_open(node.domain, &cq_attr, &cq, nullptr));
        ASSERT_EQ(0, fi_cntr_open(node.domain, &cntr_attr, &cntr, nullptr));
        ASSERT_EQ(0, fi_eq_open(node.fabric, &eq_attr, &eq, nullptr));
        for (fid *object : {&cq->fid, &cntr->fid, &eq->fid}) {
            fi_wait_obj told = FI_WAIT_SET;
            int fd = -1;
            EXPECT_EQ(0, fi_control(object, FI_GETWAITOBJ, &told));
            EXPECT_EQ(kind, told);
            EXPECT_EQ(kind == FI_WAIT_FD ? 0 : -FI_ENODATA, fi_control(object, FI_GETWAIT, &fd));
            EXPECT_EQ(kind == FI_WAIT_FD, fd >= 0);
        }
        fi_cq_entry entry;
        EXPECT_EQ(kind == FI_WAIT_NONE ? -FI_EINVAL : -FI_EAGAIN,
                  fi_cq_sread(cq, &entry, 1, nullptr, 1));
        EXPECT_EQ(kind == FI_WAIT_NONE ? -FI_EINVAL : 0, fi_cq_signal(cq));
        fid *fids[] = {&cq->fid};
        if (kind == FI_WAIT_NONE) {
            EXPECT_EQ(-FI_EINVAL, fi_trywait(node.fabric, fids, 1));
        }
        EXPECT_EQ(0, fi_close(&cq->fid));
        EXPECT_EQ(0, fi_close(&cntr->fid));
        EXPECT_EQ(0, fi_close(&eq->fid));
    }
}

/* FI_WAIT_YIELD has no descriptor: readers call, and let other threads run */
TEST_F(Wait, YieldingReaders)
{
    open_wait(FI_WAIT_YIELD);
    fi_cq_tagged_entry entry;
    fi_cntr_attr attr{};
    fid_cntr *cntr = nullptr;
    char buf[8];
    int fd;

    EXPECT_EQ(-FI_EAGAIN, fi_cq_sread(b->cq, &entry, 1, nullptr, 1));
    ASSERT_EQ(0, fi_trecv(b->ep, buf, 8, nullptr, FI_ADDR_UNSPEC, 1, 0, buf));
    std::thread sender([&] {
        usleep(10000);
        while (fi_tinject(a->ep, "message", 8, b_of_a, 1) == -FI_EAGAIN) {
        }
    });
    EXPECT_EQ(1, fi_cq_sread(b->cq, &entry, 1, nullptr, kPatience));
    EXPECT_EQ(buf, entry.op_context);
    sender.join();
    EXPECT_EQ(0, fi_cq_signal(b->cq));
    EXPECT_EQ(-FI_EAGAIN, fi_cq_sread(b->cq, &entry, 1, nullptr, -1));
    EXPECT_EQ(-FI_ENODATA, fi_control(&b->cq->fid, FI_GETWAIT, &fd));
    attr.wait_obj = FI_WAIT_YIELD;
    ASSERT_EQ(0, fi_cntr_open(b->domain, &attr, &cntr, nullptr));
    EXPECT_EQ(-FI_ETIMEDOUT, fi_cntr_wait(cntr, 1, 1));
    EXPECT_EQ(0, fi_cntr_add(cntr, 1));
    EXPECT_EQ(0, fi_cntr_wait(cntr, 1, -1));
    EXPECT_EQ(0, fi_close(&cntr->fid));
}

/* FI_WAIT_POLLFD: an array of descriptors, here of one */
TEST_F(Wait, DescriptorsForPoll)
{
    open_wait(FI_WAIT_POLLFD);
    char buf[8];
    pollfd pollfd{};
    fi_wait_pollfd set{};

    EXPECT_EQ(-FI_ETOOSMALL, fi_control(&b->cq->fid, FI_GETWAIT, &set));
    ASSERT_EQ(1u, set.nfds);
    set.fd = &pollfd;
    ASSERT_EQ(0, fi_control(&b->cq->fid, FI_GETWAIT, &set));
    EXPECT_EQ(POLLIN, pollfd.events);
    ASSERT_EQ(0, fi_trecv(b->ep, buf, 8, nullptr, FI_ADDR_UNSPEC, 1, 0, nullptr));
    trywait_until_quiet(&b->cq->fid);
    EXPECT_EQ(0, poll(&pollfd, 1, 0));
    ASSERT_EQ(0, fi_tinject(a->ep, "message", 8, b_of_a, 1));
    EXPECT_EQ(1, poll(&pollfd, 1, kPatience));
    EXPECT_EQ(0, next(*b).err);
}

/* Something arrives at any moment around the look and the sleep: the descriptor tells of it */
TEST_F(Wait, ArrivalsWakeWhoPollsTheDescriptor)
{
    open_wait(FI_WAIT_FD);
    int fd = descriptor_of(&b->cq->fid);
    char buf[8];

    for (int i = 0; i < 300; i++) {
        ASSERT_EQ(0, fi_trecv(b->ep, buf, 8, nullptr, FI_ADDR_UNSPEC, 1, 0, nullptr));
        std::thread sender([&] {
            for (volatile int spin = i * 97 % 20000; spin > 0; spin = spin - 1) {
            }
            while (fi_tinject(a->ep, "wake up", 8, b_of_a, 1) == -FI_EAGAIN) {
            }
        });
        while (b->done.empty()) {
            if (trywait(&b->cq->fid) == 0) {
                EXPECT_TRUE(is_readable(fd, kPatience)) << i;
            }
            b->poll();
        }
        sender.join();
        EXPECT_EQ(0, b->done.front().err);
        b->done.clear();
    }
}

/* A queue with something in it is no reason to sleep, and its descriptor tells so when asked again */
TEST_F(Wait, CompletionsOfOneQueueArriveWhileAnotherIsRead)
{
    open_wait(FI_WAIT_FD);
    fi_cq_attr attr{};
    fid_cq *other = nullptr;
    fi_cq_tagged_entry entry;
    char buf[8];

    attr.wait_obj = FI_WAIT_FD;
    attr.format = FI_CQ_FORMAT_TAGGED;
    ASSERT_EQ(0, fi_cq_open(b->domain, &attr, &other, nullptr));
    int fd = descriptor_of(&b->cq->fid);
    ASSERT_EQ(0, fi_trecv(b->ep, buf, 8, nullptr, FI_ADDR_UNSPEC, 1, 0, nullptr));
    trywait_until_quiet(&b->cq->fid);
    EXPECT_FALSE(is_readable(fd));
    ASSERT_EQ(0, fi_tinject(a->ep, "message", 8, b_of_a, 1));
    /* the other queue's reader takes the message from the NIC, and finds nothing for itself */
    for (int i = 0; i < 100; i++) {
        EXPECT_EQ(-FI_EAGAIN, fi_cq_read(other, &entry, 1));
    }
    EXPECT_TRUE(is_readable(fd));
    EXPECT_EQ(-FI_EAGAIN, trywait(&b->cq->fid));
    fid *both[] = {&other->fid, &b->cq->fid};
    EXPECT_EQ(-FI_EAGAIN, fi_trywait(b->fabric, both, 2));
    ASSERT_EQ(1, fi_cq_read(b->cq, &entry, 1));
    trywait_until_quiet(&b->cq->fid);
    EXPECT_FALSE(is_readable(fd));
    EXPECT_EQ(0, fi_close(&other->fid));
}

/* Between one thread's look and its sleep, others of the domain look at their own queues: what arrives
 * after that wakes the sleeper still, though nobody else looks any more */
TEST_F(Wait, ArrivalsWakeThoughOthersLookedMeanwhile)
{
    open_wait(FI_WAIT_FD);
    fi_cq_attr attr{};
    fid_cq *other = nullptr;
    fi_cq_tagged_entry entry;
    char buf[8];

    attr.wait_obj = FI_WAIT_FD;
    attr.format = FI_CQ_FORMAT_TAGGED;
    ASSERT_EQ(0, fi_cq_open(b->domain, &attr, &other, nullptr));
    int fd = descriptor_of(&b->cq->fid);
    for (bool looks : {false, true}) {
        for (int i = 0; i < 3; i++) {
            ASSERT_EQ(0, fi_trecv(b->ep, buf, 8, nullptr, FI_ADDR_UNSPEC, 1, 0, nullptr));
            trywait_until_quiet(&b->cq->fid);
            EXPECT_EQ(-FI_EAGAIN, looks ? fi_cq_read(other, &entry, 1) : -FI_EAGAIN);
            ASSERT_EQ(0, fi_tinject(a->ep, "message", 8, b_of_a, 1));
            EXPECT_TRUE(is_readable(fd, 2000)) << looks;
            ASSERT_EQ(0, next(*b).err);
        }
    }
    EXPECT_EQ(0, fi_close(&other->fid));
}

/* One thread sleeps. Another one looks, which over SR takes from the NIC what would have woken the
 * first. It may not sleep, because more has arrived than one look takes, and goes away. */
TEST_F(Wait, SleepersWakeWhenAnotherMayNotSleep)
{
    open_wait(FI_WAIT_FD);
    fi_cq_attr attr{};
    fid_cq *other = nullptr;
    int sent = 0;

    attr.wait_obj = FI_WAIT_FD;
    attr.format = FI_CQ_FORMAT_TAGGED;
    ASSERT_EQ(0, fi_cq_open(b->domain, &attr, &other, nullptr));
    int fd = descriptor_of(&other->fid);
    trywait_until_quiet(&other->fid);
    EXPECT_FALSE(is_readable(fd));
    while (sent < 1000 && fi_tinject(a->ep, "message", 8, b_of_a, 7) == 0) {
        sent++; /* nobody has posted a receive: no queue gets an entry */
    }
    ASSERT_EQ(-FI_EAGAIN, trywait(&b->cq->fid)) << sent;
    EXPECT_TRUE(is_readable(fd)) << sent;
    trywait_until_quiet(&b->cq->fid);
    EXPECT_FALSE(is_readable(fd));
    EXPECT_EQ(0, fi_close(&other->fid));
}

/* An error is something to wake up for, too */
TEST_F(Wait, ErrorsWake)
{
    open_wait(FI_WAIT_FD);
    int fd = descriptor_of(&b->cq->fid);
    char buf[8];
    fi_cq_tagged_entry entry;

    ASSERT_EQ(0, fi_trecv(b->ep, buf, 8, nullptr, FI_ADDR_UNSPEC, 1, 0, buf));
    trywait_until_quiet(&b->cq->fid);
    EXPECT_EQ(0, fi_cancel(&b->ep->fid, buf));
    EXPECT_TRUE(is_readable(fd));
    EXPECT_EQ(-FI_EAVAIL, fi_cq_sread(b->cq, &entry, 1, nullptr, kPatience));
    EXPECT_EQ(FI_ECANCELED, next(*b).err);
}

/* FI_WAIT_UNSPEC: no descriptor, but sleepers, which messages wake at any moment */
TEST_F(Wait, SleepersWithoutADescriptor)
{
    open_wait(FI_WAIT_UNSPEC);
    fi_cq_tagged_entry entries[4];
    fi_addr_t source;
    char buf[8];

    EXPECT_EQ(-FI_EAGAIN, fi_cq_sread(b->cq, entries, 4, nullptr, 0));
    for (int i = 0; i < 100; i++) {
        ASSERT_EQ(0, fi_trecv(b->ep, buf, 8, nullptr, FI_ADDR_UNSPEC, 1, 0, nullptr));
        std::thread sender([&] {
            for (volatile int spin = i * 997 % 50000; spin > 0; spin = spin - 1) {
            }
            while (fi_tinject(a->ep, "wake up", 8, b_of_a, 1) == -FI_EAGAIN) {
            }
        });
        ssize_t ret = fi_cq_sreadfrom(b->cq, entries, 4, &source, nullptr, kPatience);
        sender.join();
        ASSERT_EQ(1, ret) << i;
        EXPECT_EQ(1u, entries[0].tag);
    }
}

class WaitCounter : public Wait
{
  protected:
    void open_counter(fi_wait_obj wait_obj)
    {
        fi_cntr_attr attr{};
        std::vector<char> name(256);
        size_t length = name.size();

        open_wait(wait_obj);
        attr.wait_obj = wait_obj;
        ASSERT_EQ(0, fi_cntr_open(b->domain, &attr, &cntr, nullptr));
        ASSERT_EQ(0, fi_endpoint(b->domain, b->info, &ep, nullptr));
        ASSERT_EQ(0, fi_ep_bind(ep, &b->av->fid, 0));
        ASSERT_EQ(0, fi_ep_bind(ep, &b->cq->fid, FI_TRANSMIT));
        ASSERT_EQ(0, fi_ep_bind(ep, &cntr->fid, FI_RECV));
        ASSERT_EQ(0, fi_enable(ep));
        ASSERT_EQ(0, fi_getname(&ep->fid, name.data(), &length));
        second = a->know(name);
        for (int i = 0; i < 8; i++) {
            ASSERT_EQ(0, fi_trecv(ep, buf, 8, nullptr, FI_ADDR_UNSPEC, 1, 0, nullptr));
        }
    }

    void TearDown() override
    {
        EXPECT_EQ(0, fi_close(&ep->fid));
        EXPECT_EQ(0, fi_close(&cntr->fid));
    }

    void send(size_t length = 8)
    {
        ASSERT_EQ(0, fi_tinject(a->ep, "message too long", length, second, 1));
    }

    fid_cntr *cntr = nullptr;
    fid_ep *ep = nullptr;
    fi_addr_t second = 0;
    char buf[8];
};

TEST_F(WaitCounter, TheDescriptorTellsOfCounts)
{
    open_counter(FI_WAIT_FD);
    int fd = descriptor_of(&cntr->fid);

    trywait_until_quiet(&cntr->fid);
    EXPECT_FALSE(is_readable(fd));
    send();
    EXPECT_TRUE(is_readable(fd, kPatience)); /* the NIC has something, or it is counted already */
    EXPECT_EQ(1u, fi_cntr_read(cntr));
    trywait_until_quiet(&cntr->fid);
    EXPECT_FALSE(is_readable(fd));
    send(16); /* truncated: an error */
    EXPECT_TRUE(is_readable(fd, kPatience));
    EXPECT_EQ(1u, fi_cntr_readerr(cntr));
    trywait_until_quiet(&cntr->fid);
    EXPECT_EQ(0, fi_cntr_add(cntr, 3)); /* by the program itself, in another thread */
    EXPECT_TRUE(is_readable(fd));
}

/* A count that came after the program's last look, while something else was in progress: a program
 * that slept now would not be woken, as the NIC has nothing any more */
TEST_F(WaitCounter, CountsThatCameUnseenKeepFromSleeping)
{
    open_counter(FI_WAIT_FD);
    for (size_t length : {size_t(8), size_t(16)}) { /* a success, an error */
        uint64_t value = fi_cntr_read(cntr), errors = fi_cntr_readerr(cntr);
        trywait_until_quiet(&cntr->fid);
        EXPECT_EQ(value + errors, fi_cntr_read(cntr) + fi_cntr_readerr(cntr));
        trywait_until_quiet(&cntr->fid);
        EXPECT_TRUE(value == fi_cntr_read(cntr) && errors == fi_cntr_readerr(cntr));
        send(length);
        b->poll(); /* takes the message from the NIC */
        b->poll();
        EXPECT_EQ(-FI_EAGAIN, trywait(&cntr->fid));
        EXPECT_EQ(value + errors + 1, fi_cntr_read(cntr) + fi_cntr_readerr(cntr));
        trywait_until_quiet(&cntr->fid);
    }
}

TEST_F(WaitCounter, WaitersAreWokenByCountsAndByThePrograms)
{
    open_counter(FI_WAIT_UNSPEC);
    for (int i = 0; i < 8; i++) {
        std::thread sender([&] {
            std::this_thread::sleep_for(std::chrono::microseconds(i * 150));
            while (fi_tinject(a->ep, "message", 8, second, 1) == -FI_EAGAIN) {
            }
        });
        EXPECT_EQ(0, fi_cntr_wait(cntr, i + 1, kPatience));
        sender.join();
        EXPECT_EQ(i + 1u, fi_cntr_read(cntr));
    }
    EXPECT_EQ(-FI_ETIMEDOUT, fi_cntr_wait(cntr, 9, 10));
    EXPECT_EQ(0, fi_cntr_adderr(cntr, 1));
    EXPECT_EQ(1u, fi_cntr_readerr(cntr));
    EXPECT_EQ(0, fi_cntr_seterr(cntr, 7));
    EXPECT_EQ(7u, fi_cntr_readerr(cntr));
    EXPECT_EQ(0, fi_cntr_wait(cntr, 8, -1)); /* old errors end no wait */
}

/* Event queues */
class Eq : public testing::Test
{
  protected:
    void open(fi_wait_obj wait_obj, uint64_t flags = FI_WRITE)
    {
        fi_eq_attr attr{};

        attr.wait_obj = wait_obj;
        attr.flags = flags;
        ASSERT_EQ(0, fi_eq_open(node.fabric, &attr, &eq, nullptr));
    }

    void TearDown() override
    {
        if (eq != nullptr) {
            EXPECT_EQ(0, fi_close(&eq->fid));
        }
    }

    ssize_t write(uint32_t what, uint64_t data)
    {
        fi_eq_entry written{};

        written.data = data;
        return fi_eq_write(eq, what, &written, sizeof(written), 0);
    }

    Node node;
    fid_eq *eq = nullptr;
    fi_eq_entry entry{};
    uint32_t event = 0;
};

TEST_F(Eq, EventsAreReadInOrder)
{
    open(FI_WAIT_NONE);
    EXPECT_EQ(-FI_EAGAIN, fi_eq_read(eq, &event, &entry, sizeof(entry), 0));
    EXPECT_EQ(-FI_EINVAL, fi_eq_sread(eq, &event, &entry, sizeof(entry), 1, 0));
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < 100; i++) {
            ASSERT_EQ((ssize_t)sizeof(entry), write(i % 2 ? FI_NOTIFY : FI_MR_COMPLETE, i));
        }
        for (unsigned i = 0; i < 100; i++) {
            EXPECT_EQ(-FI_ETOOSMALL, fi_eq_read(eq, &event, &entry, sizeof(entry) - 1, 0));
            entry.data = 1000;
            ASSERT_EQ((ssize_t)sizeof(entry),
                      fi_eq_read(eq, &event, &entry, sizeof(entry), FI_PEEK));
            EXPECT_EQ(i, entry.data);
            ASSERT_EQ((ssize_t)sizeof(entry), fi_eq_read(eq, &event, &entry, sizeof(entry), 0));
            EXPECT_EQ(i, entry.data);
            EXPECT_EQ((uint32_t)(i % 2 ? FI_NOTIFY : FI_MR_COMPLETE), event);
        }
        EXPECT_EQ(-FI_EAGAIN, fi_eq_read(eq, &event, &entry, sizeof(entry), 0));
    }
    write(FI_NOTIFY, 1); /* stays, and is freed with the queue */
}

TEST_F(Eq, OnlyWhoAskedForItMayWrite)
{
    open(FI_WAIT_NONE, 0);
    EXPECT_EQ(-FI_EINVAL, write(FI_NOTIFY, 1));
    EXPECT_EQ(-FI_EAGAIN, fi_eq_read(eq, &event, &entry, sizeof(entry), 0));
}

/* The descriptor is readable as long as there is an event, and no longer */
TEST_F(Eq, TheDescriptorTellsOfEvents)
{
    open(FI_WAIT_FD);
    int fd = descriptor_of(&eq->fid);
    fid *fids[] = {&eq->fid};

    EXPECT_FALSE(is_readable(fd));
    EXPECT_EQ(0, fi_trywait(node.fabric, fids, 1));
    write(FI_NOTIFY, 1);
    write(FI_NOTIFY, 2);
    EXPECT_TRUE(is_readable(fd));
    EXPECT_EQ(-FI_EAGAIN, fi_trywait(node.fabric, fids, 1));
    EXPECT_LT(0, fi_eq_read(eq, &event, &entry, sizeof(entry), FI_PEEK));
    EXPECT_LT(0, fi_eq_read(eq, &event, &entry, sizeof(entry), 0));
    EXPECT_TRUE(is_readable(fd));
    EXPECT_LT(0, fi_eq_sread(eq, &event, &entry, sizeof(entry), -1, 0));
    EXPECT_FALSE(is_readable(fd));
    EXPECT_EQ(0, fi_trywait(node.fabric, fids, 1));
    EXPECT_EQ(-FI_EAGAIN, fi_eq_sread(eq, &event, &entry, sizeof(entry), 10, 0));
}

TEST_F(Eq, SleepersWake)
{
    open(FI_WAIT_UNSPEC);
    for (unsigned i = 0; i < 100; i++) {
        std::thread writer([&] {
            for (volatile int spin = i * 997 % 50000; spin > 0; spin = spin - 1) {
            }
            write(FI_NOTIFY, i);
        });
        ssize_t ret = fi_eq_sread(eq, &event, &entry, sizeof(entry), kPatience, 0);
        writer.join();
        ASSERT_EQ((ssize_t)sizeof(entry), ret);
        EXPECT_EQ(i, entry.data);
    }
}

/* An error stops reading until it is read; a look at it leaves it there */
TEST_F(Eq, ErrorsAreReadApart)
{
    open(FI_WAIT_FD, 0);
    fi_av_attr attr{};
    fid_av *av = nullptr;
    fi_eq_err_entry error{};
    std::vector<char> bad(node.name().size());
    int context;

    attr.flags = FI_EVENT;
    ASSERT_EQ(0, fi_av_open(node.domain, &attr, &av, nullptr));
    ASSERT_EQ(0, fi_av_bind(av, &eq->fid, 0));
    EXPECT_EQ(-FI_EBUSY, fi_close(&eq->fid));
    EXPECT_EQ(-FI_EAGAIN, fi_eq_readerr(eq, &error, 0));
    ASSERT_EQ(0, fi_av_insert(av, bad.data(), 1, nullptr, 0, &context));
    EXPECT_EQ(-FI_EAVAIL, fi_eq_read(eq, &event, &entry, sizeof(entry), 0));
    for (uint64_t flags : {uint64_t(FI_PEEK), uint64_t(0)}) {
        error = fi_eq_err_entry{};
        ASSERT_EQ((ssize_t)sizeof(error), fi_eq_readerr(eq, &error, flags));
        EXPECT_EQ(FI_EINVAL, error.err);
        EXPECT_EQ(&context, error.context);
        EXPECT_EQ(&av->fid, error.fid);
        EXPECT_STRNE("", fi_eq_strerror(eq, error.prov_errno, nullptr, nullptr, 0));
    }
    EXPECT_EQ(-FI_EAGAIN, fi_eq_readerr(eq, &error, 0));
    ASSERT_EQ((ssize_t)sizeof(entry), fi_eq_read(eq, &event, &entry, sizeof(entry), 0));
    EXPECT_EQ(0u, entry.data); /* so many were inserted */
    EXPECT_EQ(0, fi_close(&av->fid));
}

} // namespace

/* GLEX_FAULT: each fault does what it says. */
#include "message.h"
#include "process.h"

#include <signal.h>

#include <algorithm>

static const int NUM = 1000;

/* Send NUM numbers to oneself; what comes, in order of arrival. */
static std::vector<int64_t> send_all(const Ep &ep)
{
    std::vector<int64_t> got;
    int64_t n;

    for (int i = 0; i < NUM; i++) {
        ep.send_number(ep.addr(), i);
    }
    while ((n = ep.receive_number(1)) >= 0) {
        got.push_back(n);
    }
    return got;
}

static bool in_order(const std::vector<int64_t> &list)
{
    return std::is_sorted(list.begin(), list.end());
}

#define RUN(name, setting)                                                                         \
    TEST(fault, name)                                                                              \
    {                                                                                              \
        Process child("fault_" #name, {"GLEX_FAULT=" setting});                                    \
        EXPECT_EQ(0, child.wait());                                                                \
    }

CHILD(fault_loss)
{
    Device dev;
    Ep ep(dev);
    std::vector<int64_t> got = send_all(ep);

    EXPECT_NEAR(NUM / 4 * 3, got.size(), NUM / 10);
    EXPECT_TRUE(in_order(got));
    EXPECT_TRUE(ep.errors().empty());
    return testing::Test::HasFailure();
}
RUN(loss, "mp_loss=0.25,seed=3")

CHILD(fault_delay)
{
    Device dev;
    Ep ep(dev);
    std::vector<int64_t> got = send_all(ep);
    int64_t late = 0;

    EXPECT_EQ(static_cast<size_t>(NUM), got.size());
    EXPECT_FALSE(in_order(got));
    for (size_t i = 0; i < got.size(); i++) {
        late = std::max(late, static_cast<int64_t>(i) - got[i]);
    }
    EXPECT_LE(late, 7);
    EXPECT_LE(2, late);
    std::sort(got.begin(), got.end());
    for (int i = 0; i < NUM; i++) {
        EXPECT_EQ(i, got[i]);
    }
    return testing::Test::HasFailure();
}
RUN(delay, "mp_delay=0.2:7,seed=3")

CHILD(fault_reorder)
{
    Device dev;
    Ep ep(dev);
    std::vector<int64_t> got = send_all(ep);

    EXPECT_EQ(static_cast<size_t>(NUM), got.size());
    EXPECT_FALSE(in_order(got));
    std::sort(got.begin(), got.end());
    EXPECT_EQ(got.end(), std::adjacent_find(got.begin(), got.end()));
    return testing::Test::HasFailure();
}
RUN(reorder, "mp_reorder=0.3,seed=3")

/* A fence waits for what was delayed. */
CHILD(fault_fence)
{
    Device dev;
    Ep ep(dev);

    for (uint64_t i = 0; i < 20; i++) {
        ep.send_number(ep.addr(), i);
    }
    uint64_t last = 99;
    ep.send(ep.addr(), &last, 8, GLEX_FLAG_FENCE);
    for (int i = 0; i < 20; i++) {
        EXPECT_EQ(i, ep.receive_number(0));
    }
    glex_mem_handle_t mh = ep.reg(ep.alloc(64), 64);
    glex_rdma_req_t req = rdma(GLEX_RDMA_TYPE_PUT, ep.target(mh), mh, 1, 32);
    req.flag = GLEX_FLAG_FENCE;
    EXPECT_OK(glex_rdma(ep, &req, nullptr));
    EXPECT_EQ(99, ep.receive_number(0));
    return testing::Test::HasFailure();
}
RUN(fence, "mp_delay=1:1000")

/* The delayed message finds that its peer is gone, and lets go of it, before the fenced one looks
 * for that peer. */
CHILD(fault_fence_gone)
{
    Device dev;
    Ep a(dev), b(dev);
    Target gone = b.target(b.reg(b.alloc(64), 64));
    uint64_t number = 5;
    glex_imm_rdma_req_t req = imm_put(gone, &number, 8);

    a.send_number(b.addr(), 5);
    b.destroy();
    req.flag |= GLEX_FLAG_FENCE;
    EXPECT_OK(glex_imm_rdma(a, &req, nullptr));
    EXPECT_EQ(2u, a.errors().size());
    return testing::Test::HasFailure();
}
RUN(fence_gone, "mp_delay=1:1000")

/* An endpoint that goes sends what it still holds. */
CHILD(fault_destroy)
{
    Device dev;
    Ep a(dev), b(dev);

    a.send_number(b.addr(), 5);
    EXPECT_EQ(-1, b.receive_number(1));
    a.destroy();
    EXPECT_EQ(5, b.receive_number(0));
    return testing::Test::HasFailure();
}
RUN(destroy, "mp_delay=1:1000")

CHILD(fault_mpq_full)
{
    Device dev;
    Ep ep(dev);
    size_t lost = 0;

    for (int i = 0; i < NUM; i++) {
        ep.send_number(ep.addr(), i);
        for (const glex_err_req &error : ep.errors()) {
            EXPECT_EQ(GLEX_ERR_STATUS_DEST_MPQ_FULL, error.status);
            EXPECT_EQ(static_cast<uint64_t>(i), error.data0);
            lost++;
        }
    }
    EXPECT_NEAR(NUM / 4, lost, NUM / 10);
    EXPECT_EQ(lost, ep.counters().mp_lost);
    size_t got = 0;
    while (ep.receive_number(1) >= 0) {
        got++;
    }
    EXPECT_EQ(NUM - lost, got);
    return testing::Test::HasFailure();
}
RUN(mpq_full, "mpq_full=0.25,seed=3")

CHILD(fault_eq_full)
{
    Device dev;
    Ep ep(dev);
    char *p = ep.alloc(64);
    glex_mem_handle_t mh = ep.reg(p, 64);
    glex_imm_rdma_req_t imm = imm_put(ep.target(mh), "a", 1, 1, 1);
    glex_rdma_req_t req = rdma(GLEX_RDMA_TYPE_PUT, ep.target(mh), mh, 1, 2, 1);

    EXPECT_OK(glex_imm_rdma(ep, &imm, nullptr));
    EXPECT_EQ(GLEX_ERR_STATUS_DEST_EQ_FULL, ep.only_error());
    EXPECT_EQ('a', p[1]); /* the data is there, the event is lost */
    req.flag = GLEX_FLAG_REMOTE_EVT;
    req.rmt_evt.cookie_1 = 1;
    EXPECT_OK(glex_rdma(ep, &req, nullptr));
    EXPECT_EQ(GLEX_ERR_STATUS_DEST_EQ_FULL, ep.only_error());
    EXPECT_EQ('a', p[2]);
    EXPECT_EQ(-1, ep.receive_event(1));
    return testing::Test::HasFailure();
}
RUN(eq_full, "eq_full=1")

/* Busy clears without the program's doing anything but trying again. */
CHILD(fault_busy)
{
    Device dev;
    Ep ep(dev);
    glex_mem_handle_t mh = ep.reg(ep.alloc(64), 64);
    glex_imm_mp_req_t mp[2] = {}, *bad_mp;
    glex_imm_rdma_req_t imm = imm_put(ep.target(mh), "a", 1), *bad_imm;
    glex_rdma_req_t req = rdma(GLEX_RDMA_TYPE_PUT, ep.target(mh), mh, 1, 2), *bad;
    int busy = 0;

    mp[0].rmt_ep_addr = mp[1].rmt_ep_addr = ep.addr();
    mp[0].next = &mp[1];
    for (int i = 0; i < NUM / 2; i++) {
        glex_imm_mp_req_t *next = mp;
        glex_ret_t ret;

        while ((ret = glex_send_imm_mp(ep, next, &bad_mp)) == GLEX_BUSY) {
            next = bad_mp;
            busy++;
        }
        EXPECT_OK(ret);
        while ((ret = glex_imm_rdma(ep, &imm, &bad_imm)) == GLEX_BUSY) {
            EXPECT_EQ(&imm, bad_imm);
        }
        EXPECT_OK(ret);
        while ((ret = glex_rdma(ep, &req, &bad)) == GLEX_BUSY) {
            EXPECT_EQ(&req, bad);
        }
        EXPECT_OK(ret);
    }
    EXPECT_LT(NUM / 4, busy);
    EXPECT_EQ(static_cast<uint64_t>(NUM), ep.counters().mp_tx);
    EXPECT_TRUE(ep.errors().empty());
    return testing::Test::HasFailure();
}
RUN(busy, "busy=0.5,seed=3")

/* What must not be lost is refused instead, and says nothing of it. Returns how often. */
template <typename Post> static int post_all(const Ep &ep, Post post)
{
    glex_ext_arrival arrival;
    int busy = 0;

    for (uint64_t i = 0; i < NUM; i++) {
        while (post(i) == GLEX_BUSY) {
            busy++;
        }
        EXPECT_TRUE(ep.poll_long(&arrival));
        EXPECT_EQ(i, number_of(arrival));
    }
    EXPECT_EQ(GLEX_NO_EVENT, ep.poll(&arrival));
    EXPECT_TRUE(ep.errors().empty());
    return busy;
}

static int post_all_events(const Ep &ep)
{
    return post_all(ep, [&](uint64_t i) { return glex_ext_post_event(ep, ep.addr(), i, 1); });
}

static int post_all_mps(const Ep &ep)
{
    return post_all(
        ep, [&](uint64_t i) { return glex_ext_post_mp(ep, ep.addr(), i, 0, 0, nullptr, 0); });
}

CHILD(fault_busy_messages)
{
    Device dev;
    Ep ep(dev);

    EXPECT_NEAR(NUM, post_all_events(ep), NUM / 4);
    EXPECT_NEAR(NUM, post_all_mps(ep), NUM / 4);
    EXPECT_EQ(static_cast<uint64_t>(NUM), ep.counters().event_tx);
    EXPECT_EQ(static_cast<uint64_t>(NUM), ep.counters().mp_tx);
    return testing::Test::HasFailure();
}
RUN(busy_messages, "busy=0.5,seed=3")

/* A full queue holds up the posts to it, and no others, and loses nothing. */
static int full_queue_delays(int events, int mps)
{
    Device dev;
    Ep ep(dev);

    EXPECT_NEAR(events, post_all_events(ep), events / 4);
    EXPECT_NEAR(mps, post_all_mps(ep), mps / 4);
    EXPECT_EQ(0u, ep.counters().event_lost);
    EXPECT_EQ(0u, ep.counters().mp_lost);
    return testing::Test::HasFailure();
}

CHILD(fault_eq_full_messages)
{
    return full_queue_delays(NUM, 0);
}
RUN(eq_full_messages, "eq_full=0.5,seed=3")

CHILD(fault_mpq_full_messages)
{
    return full_queue_delays(0, NUM);
}
RUN(mpq_full_messages, "mpq_full=0.5,seed=3")

/* Later posts of events carry delayed MPs along, and so does a poll that finds nothing for long. */
CHILD(fault_delayed_messages)
{
    Device dev;
    Ep ep(dev);
    glex_ext_arrival arrival;

    EXPECT_EQ(0, post_all_mps(ep));
    EXPECT_OK(glex_ext_post_mp(ep, ep.addr(), 7, 0, 0, "data", 5));
    for (int i = 1; i <= 3; i++) {
        int events = 0, mps = 0;

        EXPECT_OK(glex_ext_post_event(ep, ep.addr(), 8, 1));
        while (ep.poll(&arrival) == GLEX_SUCCESS) {
            events += arrival.event != nullptr;
            if (arrival.event == nullptr) {
                mps++;
                EXPECT_STREQ("data", static_cast<char *>(arrival.data) + 24);
            }
        }
        EXPECT_EQ(1, events);
        EXPECT_EQ(i == 3, mps);
    }
    return testing::Test::HasFailure();
}
RUN(delayed_messages, "mp_delay=1:3")

/* Who polls seldom need not poll thousands of times for what is delayed. */
CHILD(fault_seldom_polled)
{
    Device dev;
    Ep ep(dev);
    glex_ext_arrival arrival;
    int polls = 0;

    EXPECT_OK(glex_ext_post_mp(ep, ep.addr(), 7, 0, 0, "data", 5));
    while (polls < 100 && ep.poll(&arrival) == GLEX_NO_EVENT) {
        usleep(100);
        polls++;
    }
    EXPECT_LT(0, polls) << "it was not delayed";
    EXPECT_GT(100, polls);
    return testing::Test::HasFailure();
}
RUN(seldom_polled, "mp_delay=1:1000")

/* Nor does one who sleeps until the message is there, or for a time. */
CHILD(fault_sleeper)
{
    Device dev;
    Ep ep(dev);
    glex_ep_addr_t from;
    uint32_t len;
    void *data;

    for (int timeout : {-1, 5000}) {
        EXPECT_OK(glex_ext_post_mp(ep, ep.addr(), 7, 0, 0, "data", 5));
        EXPECT_OK(glex_probe_first_mp(ep, timeout, &from, &data, &len));
        EXPECT_STREQ("data", static_cast<char *>(data) + 24);
        EXPECT_OK(glex_discard_probed_mp(ep));
    }
    return testing::Test::HasFailure();
}
RUN(sleeper, "mp_delay=1:1000")

CHILD(fault_kill)
{
    Device dev;
    Ep ep(dev);
    glex_ep_addr_t to = {.v = receive_down<uint64_t>()};

    for (uint64_t i = 1;; i++) {
        ep.send_number(to, i);
    }
}

TEST(fault, kill)
{
    Device dev;
    Ep ep(dev);
    Process child("fault_kill", {"GLEX_FAULT=kill=5"});

    child.send(ep.addr().v);
    EXPECT_EQ(128 + SIGKILL, child.wait());
    for (int i = 1; i <= 4; i++) {
        EXPECT_EQ(i, ep.receive_number(0));
    }
    EXPECT_EQ(-1, ep.receive_number(0));
}

CHILD(fault_nomap)
{
    glex_ext_device_attr attr;
    char buf[64] = {};
    Device dev;
    Ep ep(dev);
    void *p;

    EXPECT_OK(glex_ext_query_device(dev, &attr));
    EXPECT_EQ(0u, attr.caps & GLEX_EXT_CAP_MAP);
    EXPECT_NE(0u, attr.caps & GLEX_EXT_CAP_PRIVATE_RDMA);
    EXPECT_NE(nullptr, strstr(attr.missing, "nomap"));
    EXPECT_EQ(GLEX_NOT_IMPLEMENTED, glex_ext_mem_alloc(ep, 64, &p));
    Ep other(dev);
    glex_imm_rdma_req_t imm = imm_put(other.target(other.reg(buf, 64)), "private", 8);
    EXPECT_OK(glex_imm_rdma(ep, &imm, nullptr));
    EXPECT_STREQ("private", buf);
    return testing::Test::HasFailure();
}
RUN(nomap, "nomap")

/* As where the system forbids it: registration works, requests fail, mapped memory is reached. */
CHILD(fault_noprivate)
{
    glex_ext_device_attr attr;
    char buf[64] = {};
    Device dev;
    Ep ep(dev), other(dev);
    char *p = other.alloc(64);

    EXPECT_OK(glex_ext_query_device(dev, &attr));
    EXPECT_NE(0u, attr.caps & GLEX_EXT_CAP_MAP);
    EXPECT_EQ(0u, attr.caps & GLEX_EXT_CAP_PRIVATE_RDMA);
    EXPECT_NE(nullptr, strstr(attr.missing, "noprivate"));
    glex_imm_rdma_req_t imm = imm_put(other.target(other.reg(buf, 64)), "private", 8);
    EXPECT_OK(glex_imm_rdma(ep, &imm, nullptr));
    EXPECT_EQ(GLEX_ERR_STATUS_PCIE_READ, ep.only_error());
    EXPECT_STREQ("", buf);
    imm.rmt_mh = other.reg(p, 64);
    EXPECT_OK(glex_imm_rdma(ep, &imm, nullptr));
    EXPECT_STREQ("private", p);
    return testing::Test::HasFailure();
}
RUN(noprivate, "noprivate")

/* The same seed gives the same faults. */
CHILD(fault_seed)
{
    Device dev;
    Ep ep(dev);

    send_up(send_all(ep).size());
    return testing::Test::HasFailure();
}

TEST(fault, seed)
{
    Process first("fault_seed", {"GLEX_FAULT=mp_loss=0.5,seed=1"});
    Process same("fault_seed", {"GLEX_FAULT=mp_loss=0.5,seed=1"});
    size_t lost = first.receive<size_t>();

    EXPECT_EQ(lost, same.receive<size_t>());
    EXPECT_EQ(0, first.wait());
    EXPECT_EQ(0, same.wait());
}

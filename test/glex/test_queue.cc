/*
 * Storage of large queues: it comes as they are used.
 */
#include "internals.h"
#include "nic.h"
#include "process.h"

#include <openglex.h>

#include <memory>
#include <signal.h>
#include <thread>

static const uint32_t LARGE = 139240, REAL = 262144, SLOT = 128, STEP = 2048;

class queue : public testing::Test
{
  protected:
    static uint64_t storage(const Ep &ep)
    {
        return internals_segment_storage(ep.addr().v);
    }

    Device dev;
};

TEST_F(queue, what_is_not_used_takes_no_storage)
{
    Ep small(dev), large(dev, ep_attr(GLEX_ANY_EP_NUM, LARGE)), sender(dev);
    /* what the default takes, and a page, because the parts of a large one share none */
    uint64_t begin = storage(small) + static_cast<uint64_t>(sysconf(_SC_PAGESIZE));

    EXPECT_GE(begin, storage(large));
    for (uint32_t i = 0; i < STEP - 1; i++) {
        sender.send_number(large.addr(), i);
    }
    EXPECT_GE(begin, storage(large)) << "the first step was there";
    sender.send_number(large.addr(), STEP - 1);
    EXPECT_GE(begin + STEP * SLOT, storage(large)) << "one more step";
    for (uint32_t i = STEP; i < REAL; i++) {
        sender.send_number(large.addr(), i);
    }
    EXPECT_TRUE(sender.errors().empty());
    EXPECT_LE(REAL * SLOT, storage(large));
    EXPECT_GE(REAL * SLOT + begin, storage(large)) << "of the MPQ, not of the EQ";
    for (int i = 0; i < 2; i++) { /* twice around */
        for (uint32_t j = 0; j < REAL; j++) {
            ASSERT_EQ(j, large.receive_number(0));
            sender.send_number(large.addr(), j);
        }
    }
    EXPECT_GE(REAL * SLOT + begin, storage(large));
}

/* Events of others, and those of its own requests. */
TEST_F(queue, events)
{
    Ep a(dev, ep_attr(GLEX_ANY_EP_NUM, 8192)), b(dev, ep_attr(GLEX_ANY_EP_NUM, 8192));
    char *p = a.alloc(64), *q = b.alloc(64);
    glex_mem_handle_t local = a.reg(p, 64), remote = b.reg(q, 64);
    glex_rdma_req_t req = rdma(GLEX_RDMA_TYPE_PUT, b.target(remote), local, 8);

    req.flag = GLEX_FLAG_LOCAL_EVT | GLEX_FLAG_REMOTE_EVT;
    for (uint64_t i = 1; i <= 8192; i++) {
        req.local_evt.cookie_0 = req.rmt_evt.cookie_0 = i;
        req.local_evt.cookie_1 = req.rmt_evt.cookie_1 = 1;
        ASSERT_OK(glex_rdma(a, &req, nullptr)) << i;
    }
    EXPECT_EQ(GLEX_BUSY, glex_rdma(a, &req, nullptr));
    for (int64_t i = 1; i <= 8192; i++) {
        ASSERT_EQ(i, a.receive_event(0));
        ASSERT_EQ(i, b.receive_event(0));
    }
}

/* Producers that meet at the end of each step. */
TEST_F(queue, several_producers)
{
    enum { PRODUCERS = 4, EACH = 30000 };
    Ep ep(dev, ep_attr(GLEX_ANY_EP_NUM, LARGE));
    std::unique_ptr<Ep> senders[PRODUCERS];
    std::vector<std::thread> threads;
    uint32_t next[PRODUCERS] = {};

    for (auto &sender : senders) {
        sender.reset(new Ep(dev));
    }
    for (uint64_t t = 0; t < PRODUCERS; t++) {
        threads.emplace_back([&, t] {
            for (uint64_t i = 0; i < EACH; i++) {
                senders[t]->send_number(ep.addr(), t << 32 | i);
            }
        });
    }
    for (int i = 0; i < PRODUCERS * EACH; i++) {
        int64_t number = ep.receive_number();

        ASSERT_LE(0, number);
        ASSERT_GT(PRODUCERS, number >> 32);
        ASSERT_EQ(next[number >> 32]++, static_cast<uint32_t>(number));
    }
    for (auto &thread : threads) {
        thread.join();
    }
    for (auto &sender : senders) {
        EXPECT_TRUE(sender->errors().empty());
    }
}

/* In a mount namespace of its own, with 2 MiB of shared memory. */
CHILD(queue_no_storage)
{
    void *p, *page;

    if (!own_shared_memory("2m")) {
        return 77;
    }
    Device dev;
    Ep ep(dev, ep_attr(GLEX_ANY_EP_NUM, LARGE)), sender(dev);
    uint64_t sent = 0, received = 0;

    EXPECT_OK(glex_ext_mem_alloc(sender, 262144, &p)); /* to be given back below */
    for (int round = 0; round < 2; round++) {
        glex_imm_mp_req_t req = {};

        req.rmt_ep_addr = ep.addr();
        req.data = &sent;
        req.len = sizeof(sent);
        req.flag = GLEX_EXT_FLAG_NO_LOSS;
        while (glex_send_imm_mp(sender, &req, nullptr) == GLEX_SUCCESS) {
            sent++;
        }
        while (glex_ext_mem_alloc(sender, 1, &page) == GLEX_SUCCESS) {
        } /* full to the last page: a look at a hole would end this process */
        EXPECT_LT(received + STEP / 2, sent);
        EXPECT_GT(REAL, sent);
        for (; received < sent; received++) {
            EXPECT_EQ(static_cast<int64_t>(received), ep.receive_number(0));
        }
        EXPECT_EQ(-1, ep.receive_number(0)); /* looks at the next slot */
        EXPECT_EQ(GLEX_BUSY, glex_send_imm_mp(sender, &req, nullptr));
        if (round == 0) {
            EXPECT_OK(glex_ext_mem_free(sender, p));
        }
    }
    return testing::Test::HasFailure();
}

#ifdef OPENGLEX_DEBUG
/* An intent names one position: a debug build ends a producer that claims a second one before it has
 * published the first. */
TEST(queue_claim, two_at_once_are_caught)
{
    auto claim_twice = [] {
        Device dev;
        Ep a(dev), b(dev);

        internals_claim_twice(a, b.addr());
    };

    EXPECT_EXIT(claim_twice(), testing::KilledBySignal(SIGILL), "");
}
#endif

TEST(queue_storage, none_left)
{
    char dir[] = "/tmp/glex-test-XXXXXX";
    size_t said;

    ASSERT_NE(nullptr, mkdtemp(dir));
    Process child("queue_no_storage", {std::string("GLEX_SHM_DIR=") + dir, "GLEX_LOG=warn"});
    int status = child.wait();
    rmdir(dir);
    if (status == 77) {
        GTEST_SKIP() << "no mount namespaces here";
    }
    EXPECT_EQ(0, status);
    said = child.error_text().find("gets no more: No space left");
    EXPECT_NE(std::string::npos, said) << child.error_text();
    EXPECT_EQ(std::string::npos, child.error_text().find("gets no more", said + 1)) << "said once";
}

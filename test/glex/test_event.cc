/* Events and the event queue. */
#include "internals.h"
#include "nic.h"

#include <algorithm>

class event : public testing::Test
{
  protected:
    Device dev;
    Ep a{dev}, b{dev, ep_attr(GLEX_ANY_EP_NUM, 16)};
    char *mem = b.alloc(4096);
    Target to = b.target(b.reg(mem, 4096));

    void put_event(uint64_t cookie)
    {
        glex_imm_rdma_req_t req = imm_put(to, nullptr, 0, 0, cookie);

        ASSERT_OK(glex_imm_rdma(a, &req, nullptr));
    }
};

TEST_F(event, both_cookies)
{
    glex_imm_rdma_req_t req = imm_put(to, nullptr, 0, 0, 1);
    glex_event_t *event;

    req.rmt_evt.cookie_0 = 0; /* may be 0 */
    req.rmt_evt.cookie_1 = 0x0123456789abcdef;
    ASSERT_OK(glex_imm_rdma(a, &req, nullptr));
    ASSERT_OK(glex_probe_first_event(b, 0, &event));
    EXPECT_EQ(0u, event->cookie_0);
    EXPECT_EQ(0x0123456789abcdefu, event->cookie_1);
    event->cookie_0 = 9; /* writable */
    ASSERT_OK(glex_probe_first_event(b, 0, &event));
    EXPECT_EQ(9u, event->cookie_0);
    EXPECT_OK(glex_discard_probed_event(b));
}

TEST_F(event, cookie_1_of_zero_is_refused)
{
    glex_imm_rdma_req_t req = imm_put(to, "x", 1, 0, 1), *bad = nullptr;

    req.rmt_evt.cookie_1 = 0;
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_imm_rdma(a, &req, &bad));
    EXPECT_EQ(&req, bad);
    req.flag = 0; /* not asked for: not looked at */
    EXPECT_OK(glex_imm_rdma(a, &req, nullptr));
    EXPECT_EQ(-1, b.receive_event(0));
}

TEST_F(event, probe_and_discard)
{
    glex_event_t *event, *event1;

    EXPECT_EQ(GLEX_NO_EVENT, glex_probe_first_event(b, 0, &event));
    EXPECT_EQ(GLEX_NO_EVENT, glex_probe_next_event(b, &event));
    EXPECT_OK(glex_discard_probed_event(b));
    for (uint64_t i = 1; i <= 5; i++) {
        put_event(i);
    }
    ASSERT_OK(glex_probe_first_event(b, 0, &event1));
    ASSERT_OK(glex_probe_next_event(b, &event));
    EXPECT_EQ(2u, event->cookie_0);
    ASSERT_OK(glex_probe_next_event(b, &event));
    EXPECT_EQ(3u, event->cookie_0);
    EXPECT_EQ(1u, event1->cookie_0);
    ASSERT_OK(glex_probe_first_event(b, 0, &event));
    EXPECT_EQ(event1, event);
    ASSERT_OK(glex_discard_probed_event(b));
    EXPECT_EQ(2, b.receive_event(0));
    ASSERT_OK(glex_probe_next_event(b, &event));
    EXPECT_EQ(3u, event->cookie_0);
    ASSERT_OK(glex_discard_probed_event(b));
    EXPECT_EQ(4, b.receive_event(0));
    EXPECT_EQ(5, b.receive_event(0));
    EXPECT_EQ(-1, b.receive_event(0));
    EXPECT_EQ(5u, b.counters().event_rx);
}

TEST_F(event, wrap)
{
    for (uint64_t start : {uint64_t(0), uint64_t(15), (uint64_t(1) << 32) - 8,
                           (uint64_t(1) << 32) - 1, uint64_t(1) << 60}) {
        Ep ring(dev, ep_attr(GLEX_ANY_EP_NUM, 16));
        char *ring_mem = ring.alloc(8);

        to = ring.target(ring.reg(ring_mem, 8));
        internals_move_rings(ring, start);
        for (int i = 1; i < 100; i++) {
            put_event(i);
            put_event(1000 + i);
            ASSERT_EQ(i, ring.receive_event(0)) << start;
            ASSERT_EQ(1000 + i, ring.receive_event(0)) << start;
        }
        EXPECT_TRUE(a.errors().empty());
    }
}

TEST_F(event, full_queue_places_the_data_and_loses_the_event)
{
    for (uint64_t i = 1; i <= 16; i++) {
        put_event(i);
    }
    glex_imm_rdma_req_t req = imm_put(to, "late", 5, 8, 17);
    ASSERT_OK(glex_imm_rdma(a, &req, nullptr));
    std::vector<glex_err_req> errors = a.errors();
    ASSERT_EQ(1u, errors.size());
    EXPECT_EQ(GLEX_ERR_OP_IMM_RDMA_PUT, errors[0].op);
    EXPECT_EQ(GLEX_ERR_STATUS_DEST_EQ_FULL, errors[0].status);
    EXPECT_EQ(to.mh, errors[0].data0);
    EXPECT_EQ(uint64_t(8) << 32 | 5, errors[0].data1);
    EXPECT_EQ(1u, errors[0].data2);
    EXPECT_STREQ("late", mem + 8);
    EXPECT_EQ(1u, a.counters().event_lost);
    for (int i = 1; i <= 16; i++) {
        EXPECT_EQ(i, b.receive_event(0));
    }
    EXPECT_EQ(-1, b.receive_event(0));
    EXPECT_EQ(16u, b.counters().eq_high);
}

/* Neither data in the queue's slot nor data beside it: the whole request is to be posted again. */
TEST_F(event, full_queue_refuses_what_must_not_be_lost)
{
    char *carried = b.alloc(4096);
    Target place = b.target(b.reg(carried, 4096, GLEX_MEM_WRITE | GLEX_EXT_MEM_EVENT_DATA));

    for (const Target &target : {to, place}) {
        for (uint64_t i = 1; i <= 16; i++) {
            put_event(i);
        }
        glex_imm_rdma_req_t req = imm_put(target, "late", 5, 8, 17);
        req.flag |= GLEX_EXT_FLAG_NO_LOSS;
        EXPECT_EQ(GLEX_BUSY, glex_imm_rdma(a, &req, nullptr));
        EXPECT_EQ(1, b.receive_event(0));
        ASSERT_OK(glex_imm_rdma(a, &req, nullptr));
        for (int i = 2; i <= 17; i++) {
            EXPECT_EQ(i, b.receive_event(0));
        }
        EXPECT_EQ(-1, b.receive_event(0));
    }
    EXPECT_STREQ("late", mem + 8);
    EXPECT_STREQ("late", carried + 8);
    EXPECT_TRUE(a.errors().empty());
    EXPECT_EQ(0u, a.counters().event_lost);
}

/* Data that comes with the event is placed by the probe, once. */
TEST_F(event, carried_data_is_placed_by_the_first_probe)
{
    char *carried = b.alloc(4096);
    Target place = b.target(b.reg(carried, 4096, GLEX_MEM_WRITE | GLEX_EXT_MEM_EVENT_DATA));
    glex_imm_rdma_req_t req = imm_put(place, "hello", 6, 100, 1);
    glex_event_t *event;

    ASSERT_OK(glex_imm_rdma(a, &req, nullptr));
    EXPECT_EQ(0, carried[100]);
    ASSERT_OK(glex_probe_first_event(b, 0, &event));
    EXPECT_STREQ("hello", carried + 100);
    strcpy(carried + 100, "mine");
    ASSERT_OK(glex_probe_first_event(b, 0, &event));
    EXPECT_STREQ("mine", carried + 100);
    EXPECT_OK(glex_discard_probed_event(b));

    req.flag = 0; /* without an event it goes straight there */
    req.rmt_offset = 200;
    ASSERT_OK(glex_imm_rdma(a, &req, nullptr));
    EXPECT_STREQ("hello", carried + 200);
}

TEST_F(event, carried_data_of_every_length)
{
    std::vector<unsigned char> carried(256), data(96);
    Target place = b.target(b.reg(carried.data(), 256, GLEX_MEM_WRITE | GLEX_EXT_MEM_EVENT_DATA));

    for (uint32_t len = 0; len <= 96; len++) {
        std::fill(carried.begin(), carried.end(), 0xee);
        for (uint32_t i = 0; i < len; i++) {
            data[i] = static_cast<unsigned char>(i + len);
        }
        glex_imm_rdma_req_t req = imm_put(place, data.data(), len, 3, 1);
        ASSERT_OK(glex_imm_rdma(a, &req, nullptr));
        ASSERT_EQ(1, b.receive_event(0));
        for (uint32_t i = 0; i < 256; i++) {
            unsigned expected = i >= 3 && i < 3 + len ? (i - 3 + len) & 0xff : 0xee;
            ASSERT_EQ(expected, carried[i]) << len << " " << i;
        }
    }
}

/* What is registered no more when the event is probed is not written. */
TEST_F(event, carried_data_for_a_registration_that_is_gone)
{
    char *carried = b.alloc(4096);
    glex_mem_handle_t mh = b.reg(carried, 4096, GLEX_MEM_WRITE | GLEX_EXT_MEM_EVENT_DATA);
    glex_imm_rdma_req_t req = imm_put(b.target(mh), "hello", 6, 0, 1);

    ASSERT_OK(glex_imm_rdma(a, &req, nullptr));
    ASSERT_OK(glex_deregister_mem(b, mh));
    b.reg(carried, 4096, GLEX_MEM_WRITE | GLEX_EXT_MEM_EVENT_DATA); /* same entry, anew */
    EXPECT_EQ(1, b.receive_event(0));
    EXPECT_EQ(0, carried[0]);
}

/* Both spellings of an event's words, the same layout for both. */
TEST(event_words, spellings)
{
    glex_event_t event = {};

    event.cookie_0 = 3;
    event.cookie[1] = 4;
    EXPECT_EQ(3u, event.cookie[0]);
    EXPECT_EQ(4u, event.cookie_1);
    EXPECT_EQ(16u, sizeof(event));
    EXPECT_EQ(8u, offsetof(glex_event_t, cookie_1));
    EXPECT_EQ(64u, offsetof(glex_imm_rdma_req_t, flag));
    EXPECT_EQ(80u, sizeof(glex_imm_rdma_req_t));
    EXPECT_EQ(96u, sizeof(glex_rdma_req_t));
    EXPECT_EQ(7u, GLEX_EP_MAKE_HC_UMMT_KEY(7));
}

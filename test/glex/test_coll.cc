/* Collective offload: what each flag means, with all endpoints in one process. */
#include "collective.h"
#include "internals.h"

#include <memory>
#include <poll.h>

class coll : public testing::Test
{
  protected:
    Device dev;
    Ep a{dev}, b{dev}, c{dev}, d{dev};
};

TEST_F(coll, control_packet_is_not_in_the_mpq)
{
    ASSERT_OK(coll_send(a, b.addr(), 1, COUNTER));
    EXPECT_EQ(-1, b.receive_number(0));
    ASSERT_OK(coll_send(a, b.addr(), 2, COUNTER | CP_DATA));
    EXPECT_EQ(2, b.receive_number(0));
    ASSERT_OK(coll_send(a, b.addr(), 3, CP_DATA));
    EXPECT_EQ(3, b.receive_number(0));
    ASSERT_OK(coll_send(a, b.addr(), 4, 0)); /* nothing of a control packet: an MP */
    EXPECT_EQ(4, b.receive_number(0));
    EXPECT_EQ(-1, b.receive_number(0));
}

TEST_F(coll, sequence_waits_for_its_packets)
{
    ASSERT_OK(coll_send(b, c.addr(), 7, START | TAIL, 2));
    EXPECT_EQ(-1, c.receive_number(0));
    ASSERT_OK(coll_send(a, b.addr(), 0, COUNTER));
    EXPECT_EQ(-1, c.receive_number(0));
    ASSERT_OK(coll_send(d, b.addr(), 0, COUNTER));

    glex_ep_addr_t src;
    uint32_t len;
    void *data;
    ASSERT_OK(glex_probe_first_mp(c, 0, &src, &data, &len));
    EXPECT_EQ(b.addr().v, src.v) << "whoever carried it";
    EXPECT_EQ(7, c.receive_number(0));
    EXPECT_EQ(-1, c.receive_number(0));
    EXPECT_EQ(1u, d.counters().coll_carried);
    EXPECT_EQ(0u, b.counters().coll_tx);
}

TEST_F(coll, counter_0_runs_at_once)
{
    ASSERT_OK(coll_send(b, c.addr(), 7, START | TAIL, 0));
    EXPECT_EQ(7, c.receive_number(0));
    EXPECT_EQ(1u, b.counters().coll_tx);
}

/* What came before anything waited counts, and what is left over counts for the next. */
TEST_F(coll, left_over_packets_count_for_the_next)
{
    for (int i = 0; i < 5; i++) {
        ASSERT_OK(coll_send(a, b.addr(), 0, COUNTER));
    }
    ASSERT_OK(coll_send(b, c.addr(), 1, START | TAIL, 2));
    EXPECT_EQ(1, c.receive_number(0));
    ASSERT_OK(coll_send(b, c.addr(), 2, START | TAIL, 1));
    EXPECT_EQ(2, c.receive_number(0));
    ASSERT_OK(coll_send(b, c.addr(), 3, START | TAIL, 3));
    EXPECT_EQ(-1, c.receive_number(0));
    ASSERT_OK(coll_send(a, b.addr(), 0, COUNTER));
    EXPECT_EQ(3, c.receive_number(0));
}

TEST_F(coll, sequences_run_in_the_order_of_posting)
{
    for (uint64_t i = 1; i <= 10; i++) {
        ASSERT_OK(coll_send(b, c.addr(), i, START | TAIL, i % 3));
    }
    for (uint64_t i = 1; i <= 10; i++) {
        for (uint64_t j = 0; j < i % 3; j++) {
            EXPECT_EQ(-1, c.receive_number(0));
            ASSERT_OK(coll_send(a, b.addr(), 0, COUNTER));
        }
        EXPECT_EQ(static_cast<int64_t>(i), c.receive_number(0));
        if (i % 3 == 2 && i < 10) {
            EXPECT_EQ(static_cast<int64_t>(++i), c.receive_number(0)) << "counts 0";
        }
    }
}

/* The caller's memory is its own again after the call. */
TEST_F(coll, chain_or_several_calls)
{
    for (bool chain : {true, false}) {
        uint64_t numbers[3] = {1, 2, 3};
        glex_imm_mp_req_t req[3];
        const int flags[3] = {START, 0, TAIL};

        for (int i = 0; i < 3; i++) {
            req[i] = coll_mp(c.addr(), &numbers[i], 8, flags[i], 1);
            req[i].next = chain && i < 2 ? &req[i + 1] : nullptr;
        }
        for (int i = 0; i < (chain ? 1 : 3); i++) {
            ASSERT_OK(glex_send_imm_mp(b, &req[i], nullptr));
        }
        memset(numbers, 0xff, sizeof(numbers));
        memset(req, 0xff, sizeof(req));
        EXPECT_EQ(-1, c.receive_number(0));
        ASSERT_OK(coll_send(a, b.addr(), 0, COUNTER));
        for (int64_t i = 1; i <= 3; i++) {
            EXPECT_EQ(i, c.receive_number(0));
        }
        EXPECT_EQ(-1, c.receive_number(0));
    }
}

/* A request that belongs to no sequence does not wait behind one. */
TEST_F(coll, single_request_runs_at_once)
{
    ASSERT_OK(coll_send(b, c.addr(), 1, START | TAIL, 1));
    ASSERT_OK(coll_send(b, c.addr(), 2, 0));
    EXPECT_EQ(2, c.receive_number(0));
    ASSERT_OK(coll_send(a, b.addr(), 0, COUNTER));
    EXPECT_EQ(1, c.receive_number(0));
}

TEST_F(coll, to_oneself)
{
    ASSERT_OK(coll_send(b, b.addr(), 5, START | TAIL | CP_DATA, 1));
    ASSERT_OK(coll_send(b, b.addr(), 0, COUNTER));
    EXPECT_EQ(5, b.receive_number(0));
    EXPECT_EQ(1, coll_send(b, b.addr(), 0, COUNTER) == GLEX_SUCCESS);
    ASSERT_OK(coll_send(b, b.addr(), 6, START | TAIL | CP_DATA | COUNTER, 1));
    EXPECT_EQ(6, b.receive_number(0));
    ASSERT_OK(coll_send(b, b.addr(), 7, START | TAIL | CP_DATA, 1)); /* by what the last sent */
    EXPECT_EQ(7, b.receive_number(0));
}

TEST_F(coll, no_data)
{
    glex_imm_mp_req_t req = coll_mp(b.addr(), nullptr, 0, CP_DATA | COUNTER);
    glex_ep_addr_t src;
    uint32_t len = 9;
    void *data;

    ASSERT_OK(glex_send_imm_mp(a, &req, nullptr));
    ASSERT_OK(glex_probe_first_mp(b, 0, &src, &data, &len));
    EXPECT_EQ(0u, len);
}

/* The last CP's data, of any length, goes on. */
TEST_F(coll, swap)
{
    for (uint32_t len = 0; len <= 112; len++) {
        unsigned char data[112], got[112] = {};
        glex_ep_addr_t src;
        uint32_t got_len = 0;

        memset(data, static_cast<int>(len + 1), sizeof(data));
        ASSERT_OK(coll_send(b, c.addr(), 0, START | TAIL | SWAP, 2));
        ASSERT_OK(coll_send(a, b.addr(), 99, COUNTER | SWAP_DATA));
        glex_imm_mp_req_t req = coll_mp(b.addr(), data, len, COUNTER | SWAP_DATA | CP_DATA);
        ASSERT_OK(glex_send_imm_mp(a, &req, nullptr));
        ASSERT_OK(glex_receive_mp(c, 0, &src, got, &got_len));
        ASSERT_EQ(len, got_len);
        EXPECT_EQ(0, memcmp(data, got, len));
        ASSERT_OK(glex_receive_mp(b, 0, &src, got, &got_len)) << "CP_DATA: to the queue as well";
        ASSERT_EQ(len, got_len);
    }
}

/* Where nothing was offered, a request's own data goes. */
TEST_F(coll, swap_without_an_offer)
{
    ASSERT_OK(coll_send(b, c.addr(), 4, START | TAIL | SWAP, 1));
    ASSERT_OK(coll_send(a, b.addr(), 9, COUNTER));
    EXPECT_EQ(4, c.receive_number(0));
    /* and an offer to the next sequence is not one to this */
    ASSERT_OK(coll_send(a, b.addr(), 10, COUNTER | SWAP_DATA));
    ASSERT_OK(coll_send(b, c.addr(), 5, START | TAIL | SWAP, 0));
    EXPECT_EQ(5, c.receive_number(0));
    ASSERT_OK(coll_send(b, c.addr(), 6, START | TAIL | SWAP, 1));
    EXPECT_EQ(10, c.receive_number(0));
}

TEST_F(coll, offer_that_does_not_count)
{
    ASSERT_OK(coll_send(b, c.addr(), 4, START | TAIL | SWAP, 1));
    ASSERT_OK(coll_send(a, b.addr(), 9, SWAP_DATA));
    EXPECT_EQ(-1, c.receive_number(0));
    EXPECT_EQ(-1, b.receive_number(0));
    ASSERT_OK(coll_send(a, b.addr(), 0, COUNTER));
    EXPECT_EQ(9, c.receive_number(0));
}

TEST_F(coll, swap_set)
{
    glex_ep_addr_t set[14] = {c.addr(), d.addr(), a.addr()};
    char data[112];
    uint32_t len;

    ASSERT_OK(glex_coll_compose_mp_set_data(set, 3, data, &len));
    glex_imm_mp_req_t req =
        coll_mp(b.addr(), data, len, START | TAIL | SWAP | SWAP_SET | CP_DATA, 1);
    ASSERT_OK(glex_send_imm_mp(b, &req, nullptr));
    ASSERT_OK(glex_coll_compose_mp_set_data(set, 0, data, &len));
    req = coll_mp(b.addr(), data, len, START | TAIL | SWAP | SWAP_SET | CP_DATA, 1);
    ASSERT_OK(glex_send_imm_mp(b, &req, nullptr));
    ASSERT_OK(coll_send(a, b.addr(), 21, COUNTER | SWAP_DATA));
    for (const Ep *ep : {&a, &c, &d}) {
        EXPECT_EQ(21, ep->receive_number(0));
        EXPECT_EQ(-1, ep->receive_number(0));
    }
    EXPECT_EQ(-1, b.receive_number(0));
    ASSERT_OK(coll_send(a, b.addr(), 22, COUNTER | SWAP_DATA));
    EXPECT_EQ(22, b.receive_number(0)) << "the empty set is the request's own destination";
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_coll_compose_mp_set_data(set, 15, data, &len));
}

/* A chain of 200 endpoints is carried on by one call: from a list, not by calls within calls. */
TEST_F(coll, long_way_in_one_call)
{
    std::vector<std::unique_ptr<Ep>> eps;
    const int num = 200;

    for (int i = 0; i < num; i++) {
        eps.emplace_back(new Ep(dev, ep_attr(GLEX_ANY_EP_NUM, 4)));
    }
    for (int i = 1; i < num; i++) {
        glex_ep_addr_t to = i + 1 < num ? eps[i + 1]->addr() : c.addr();
        int flag = i + 1 < num ? COUNTER | SWAP_DATA : CP_DATA;

        ASSERT_OK(coll_send(*eps[i], to, 0, START | TAIL | SWAP | flag, 1));
    }
    ASSERT_OK(coll_send(*eps[0], eps[1]->addr(), 77, COUNTER | SWAP_DATA));
    EXPECT_EQ(77, c.receive_number(0));
    EXPECT_EQ(static_cast<uint64_t>(num - 1), eps[0]->counters().coll_carried);
}

TEST_F(coll, busy_when_there_is_no_room_for_descriptors)
{
    uint64_t posted = 0, got = 0;
    glex_imm_mp_req_t *bad = nullptr;

    while (coll_send(b, c.addr(), posted, START | TAIL, 1) == GLEX_SUCCESS) {
        ASSERT_GT(2000u, ++posted);
    }
    EXPECT_EQ(1024u, posted);
    glex_imm_mp_req_t req = coll_mp(c.addr(), &posted, 8, START | TAIL, 1);
    EXPECT_EQ(GLEX_BUSY, glex_send_imm_mp(b, &req, &bad));
    EXPECT_EQ(&req, bad);
    ASSERT_OK(coll_send(a, b.addr(), 0, COUNTER));
    EXPECT_EQ(0, c.receive_number(0));
    ASSERT_OK(glex_send_imm_mp(b, &req, &bad));
    for (got = 1; got <= posted; got++) {
        ASSERT_OK(coll_send(a, b.addr(), 0, COUNTER));
        ASSERT_EQ(static_cast<int64_t>(got), c.receive_number(0));
    }
}

/* A chain that does not fit: what was taken is taken, and the rest can be posted later. */
TEST_F(coll, chain_stops_at_what_has_no_room)
{
    std::vector<glex_imm_mp_req_t> req;
    glex_imm_mp_req_t *bad = nullptr;
    std::vector<uint64_t> numbers(1500);
    glex_ret_t ret;

    for (uint64_t i = 0; i < numbers.size(); i++) {
        numbers[i] = i;
        req.push_back(coll_mp(c.addr(), &numbers[i], 8,
                              i == 0                  ? START :
                              i + 1 == numbers.size() ? TAIL :
                                                        0,
                              1));
    }
    for (size_t i = 0; i + 1 < req.size(); i++) {
        req[i].next = &req[i + 1];
    }
    EXPECT_EQ(GLEX_BUSY, glex_send_imm_mp(b, req.data(), &bad));
    ASSERT_EQ(&req[1024], bad);
    EXPECT_EQ(-1, c.receive_number(0));
    ASSERT_OK(coll_send(a, b.addr(), 0, COUNTER));
    do {
        ret = glex_send_imm_mp(b, bad, &bad);
    } while (ret == GLEX_BUSY);
    ASSERT_OK(ret);
    for (uint64_t i = 0; i < numbers.size(); i++) {
        ASSERT_EQ(static_cast<int64_t>(i), c.receive_number(0));
    }
}

/* Too many control packets for who does not wait for them: none is lost. */
TEST_F(coll, busy_when_there_is_no_room_for_control_packets)
{
    uint64_t sent = 0;

    while (coll_send(a, b.addr(), 0, COUNTER) == GLEX_SUCCESS) {
        ASSERT_GT(2000u, ++sent);
    }
    EXPECT_EQ(1024u, sent);
    /* A sequence that meets it is continued by its owner. */
    ASSERT_OK(coll_send(d, b.addr(), 0, START | COUNTER, 0));
    ASSERT_OK(coll_send(d, c.addr(), 8, TAIL));
    EXPECT_EQ(-1, c.receive_number(0));
    for (uint64_t i = 0; i < sent; i++) {
        ASSERT_OK(coll_send(b, a.addr(), i, START | TAIL, 1));
        ASSERT_EQ(static_cast<int64_t>(i), a.receive_number(0));
    }
    EXPECT_EQ(-1, d.receive_number(1)); /* waits: any call of its owner */
    EXPECT_EQ(8, c.receive_number(0));
    ASSERT_OK(coll_send(b, a.addr(), 5, START | TAIL, 1));
    EXPECT_EQ(5, a.receive_number(0));
    EXPECT_TRUE(d.errors().empty());
}

/* A sequence that met a full queue goes on although its owner finds something at each look. */
TEST_F(coll, a_flood_keeps_no_sequence_waiting)
{
    const int bound = 2 * 4096; /* looks; docs/nic.md, fairness */

    for (char way : {'p', 'r', 'e', 'x'}) { /* probe, receive, event, glex_ext_poll() */
        Ep small(dev, ep_attr(GLEX_ANY_EP_NUM, 4)), owner(dev, ep_attr(GLEX_ANY_EP_NUM, 64));
        glex_ext_arrival arrival;
        glex_ep_addr_t src;
        int64_t number = -1;
        uint32_t len;
        void *data;

        for (int i = 0; i < 4; i++) {
            a.send_number(small.addr(), 1);
        }
        ASSERT_OK(coll_send(owner, small.addr(), 9, START | TAIL | GLEX_EXT_FLAG_NO_LOSS, 0));
        EXPECT_EQ(1, small.receive_number(0));
        for (int i = 0; i < bound && number != 9; i++) {
            if (way == 'e') {
                ASSERT_OK(glex_ext_post_event(a, owner.addr(), 1, 1));
                ASSERT_EQ(1, owner.receive_event(0));
            } else {
                a.send_number(owner.addr(), 2);
                if (way == 'r') {
                    ASSERT_EQ(2, owner.receive_number(0));
                } else if (way == 'x') {
                    ASSERT_OK(owner.poll(&arrival));
                } else {
                    ASSERT_OK(glex_probe_first_mp(owner, 0, &src, &data, &len));
                    ASSERT_OK(glex_discard_probed_mp(owner));
                }
            }
            number = small.receive_number(0);
        }
        EXPECT_EQ(9, number) << way;
    }
}

TEST_F(coll, failures_are_the_owner_s_error_requests)
{
    Ep *gone = new Ep(dev);
    glex_ep_addr_t to = gone->addr();

    delete gone;
    ASSERT_OK(coll_send(b, to, 0x55, START, 1));
    ASSERT_OK(coll_send(b, c.addr(), 2, TAIL));
    EXPECT_TRUE(b.errors().empty());
    ASSERT_OK(coll_send(a, b.addr(), 0, COUNTER));
    std::vector<glex_err_req> errors = b.errors();
    ASSERT_EQ(1u, errors.size());
    EXPECT_EQ(GLEX_ERR_STATUS_DEST_VP_STOP, errors[0].status);
    EXPECT_EQ(GLEX_ERR_OP_IMM_MP, errors[0].op);
    EXPECT_EQ(0x55u, errors[0].data0);
    EXPECT_EQ(to.ep_num, errors[0].rmt_ep_num);
    EXPECT_EQ(2, c.receive_number(0)) << "the others are sent";
    EXPECT_TRUE(a.errors().empty());
    ASSERT_OK(coll_send(a, to, 0, COUNTER));
    EXPECT_EQ(GLEX_ERR_STATUS_DEST_VP_STOP, a.only_error());
}

TEST_F(coll, full_mpq_loses_the_message)
{
    Ep small(dev, ep_attr(GLEX_ANY_EP_NUM, 4));

    for (int i = 0; i < 4; i++) {
        a.send_number(small.addr(), 1);
    }
    ASSERT_OK(coll_send(small, c.addr(), 3, START | TAIL, 1));
    ASSERT_OK(coll_send(a, small.addr(), 2, COUNTER | CP_DATA));
    EXPECT_EQ(GLEX_ERR_STATUS_DEST_MPQ_FULL, a.only_error());
    EXPECT_EQ(-1, c.receive_number(0)) << "a packet that is lost does not count";
    EXPECT_EQ(GLEX_BUSY, coll_send(a, small.addr(), 2, COUNTER | CP_DATA | GLEX_EXT_FLAG_NO_LOSS));
    EXPECT_EQ(1, small.receive_number(0));
    ASSERT_OK(coll_send(a, small.addr(), 2, COUNTER | CP_DATA | GLEX_EXT_FLAG_NO_LOSS));
    EXPECT_EQ(3, c.receive_number(0));
}

TEST_F(coll, bad_requests)
{
    uint64_t number = 1;
    char big[113] = {};
    glex_imm_mp_req_t req = coll_mp(b.addr(), big, 113, COUNTER);

    EXPECT_EQ(GLEX_INVALID_PARAM, glex_send_imm_mp(a, &req, nullptr));
    req = coll_mp(b.addr(), nullptr, 8, COUNTER);
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_send_imm_mp(a, &req, nullptr));
    EXPECT_EQ(GLEX_INVALID_PARAM, coll_send(a, b.addr(), number, START | TAIL, 513));
    EXPECT_EQ(GLEX_INVALID_PARAM, coll_send(a, b.addr(), number, REDUCE)) << "no such data";
    EXPECT_EQ(GLEX_INVALID_PARAM, coll_send(a, b.addr(), number, COUNTER | SWAP_ADDR));
    EXPECT_EQ(GLEX_NOT_IMPLEMENTED, coll_send(a, b.addr(), number, 1 << 19));
    req = coll_mp(b.addr(), big, 12, SWAP_SET);
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_send_imm_mp(a, &req, nullptr));
    EXPECT_EQ(-1, b.receive_number(0));
    EXPECT_TRUE(a.errors().empty());
}

TEST_F(coll, without_a_receiver)
{
    ASSERT_OK(coll_send(b, b.addr(), 1, START | TAIL | CP_DATA, 0));
    EXPECT_EQ(1, b.receive_number(0));
    ASSERT_OK(glex_ext_set_receiver(b, 0));
    ASSERT_OK(coll_send(a, b.addr(), 1, COUNTER));
    EXPECT_EQ(GLEX_ERR_STATUS_DEST_VP_STOP, a.only_error());
    b.send_number(b.addr(), 1); /* finds itself closed */
    EXPECT_EQ(GLEX_ERR_STATUS_DEST_VP_STOP, b.only_error());
    ASSERT_OK(coll_send(b, c.addr(), 2, START | TAIL, 0));
    EXPECT_EQ(2, c.receive_number(0));
    ASSERT_OK(glex_ext_set_receiver(b, 1));
    ASSERT_OK(coll_send(b, c.addr(), 3, START | TAIL, 1));
    ASSERT_OK(coll_send(a, b.addr(), 1, COUNTER));
    EXPECT_EQ(3, c.receive_number(0));
}

/* ---- RDMA ------------------------------------------------------------------------------------ */

class coll_rdma : public coll, public testing::WithParamInterface<bool>
{
  protected:
    /* Of the NIC, or private. */
    char *memory(const Ep &ep)
    {
        if (GetParam()) {
            return ep.alloc(SIZE);
        }
        owned.emplace_back(new char[SIZE]());
        return owned.back().get();
    }

    enum { SIZE = 100000 };
    std::vector<std::unique_ptr<char[]>> owned;
    char *src = memory(b), *dst = memory(c);
    glex_mem_handle_t src_mh = b.reg(src, SIZE), dst_mh = c.reg(dst, SIZE);
};

/* The data is there before the packet counts; the events are where they belong. */
TEST_P(coll_rdma, put_in_a_sequence)
{
    glex_rdma_req_t req = rdma(GLEX_RDMA_TYPE_PUT, c.target(dst_mh), src_mh, 90000, 5, 10);

    for (int i = 0; i < SIZE; i++) {
        src[i] = static_cast<char>(i * 7);
    }
    req.flag = COLL | START | TAIL | COUNTER | GLEX_FLAG_LOCAL_EVT | GLEX_FLAG_REMOTE_EVT;
    req.coll_counter = 1;
    req.local_evt = {.cookie_0 = 1, .cookie_1 = 1};
    req.rmt_evt = {.cookie_0 = 2, .cookie_1 = 1};
    ASSERT_OK(glex_rdma(b, &req, nullptr));
    ASSERT_OK(coll_send(c, d.addr(), 3, START | TAIL, 1));
    EXPECT_EQ(-1, b.receive_event(0));
    EXPECT_EQ(0, dst[5 + 1]);
    ASSERT_OK(coll_send(a, b.addr(), 0, COUNTER));
    EXPECT_EQ(0, memcmp(dst + 5, src + 10, 90000));
    EXPECT_EQ(0, dst[4]);
    EXPECT_EQ(0, dst[5 + 90000]);
    EXPECT_EQ(1, b.receive_event(0));
    EXPECT_EQ(2, c.receive_event(0));
    EXPECT_EQ(3, d.receive_number(0)) << "it counts";
    EXPECT_EQ(2u, a.counters().coll_carried);
}

TEST_P(coll_rdma, immediate_put_in_a_sequence)
{
    uint64_t number = 0x1234567;
    glex_imm_rdma_req_t req = imm_put(c.target(dst_mh), &number, 8, 16, 9);

    req.flag |= COLL | START | TAIL | COUNTER | CP_DATA;
    req.coll_counter = 1;
    ASSERT_OK(glex_imm_rdma(b, &req, nullptr));
    ASSERT_OK(coll_send(c, d.addr(), 3, START | TAIL, 1));
    number = 0;
    ASSERT_OK(coll_send(a, b.addr(), 0, COUNTER));
    memcpy(&number, dst + 16, 8);
    EXPECT_EQ(0x1234567u, number);
    EXPECT_EQ(9, c.receive_event(0));
    EXPECT_EQ(0x1234567, c.receive_number(0));
    EXPECT_EQ(3, d.receive_number(0));
}

/* By itself, from the initiator's own memory, and offering its data. */
TEST_P(coll_rdma, single_put)
{
    uint64_t number = 42;
    glex_rdma_req_t req = rdma(GLEX_RDMA_TYPE_PUT, c.target(dst_mh), src_mh, 8);

    memcpy(src, &number, 8);
    req.flag = COLL | COUNTER | SWAP_DATA | GLEX_FLAG_LOCAL_EVT;
    req.local_evt = {.cookie_0 = 6, .cookie_1 = 1};
    ASSERT_OK(coll_send(c, d.addr(), 0, START | TAIL | SWAP, 1));
    ASSERT_OK(glex_rdma(b, &req, nullptr));
    EXPECT_EQ(6, b.receive_event(0));
    EXPECT_EQ(0, memcmp(src, dst, 8));
    EXPECT_EQ(42, d.receive_number(0));
}

TEST_P(coll_rdma, the_own_event_wakes_who_armed_before)
{
    glex_rdma_req_t req = rdma(GLEX_RDMA_TYPE_PUT, c.target(dst_mh), src_mh, 8);
    struct pollfd pfd = {.fd = -1, .events = POLLIN, .revents = 0};

    ASSERT_OK(glex_ext_event_fd(b, &pfd.fd));
    req.flag = COLL | GLEX_FLAG_LOCAL_EVT;
    req.local_evt = {.cookie_0 = 6, .cookie_1 = 1};
    ASSERT_OK(glex_ext_arm(b));
    ASSERT_OK(glex_rdma(b, &req, nullptr));
    EXPECT_EQ(1, poll(&pfd, 1, 0));
    EXPECT_EQ(6, b.receive_event(0));
}

/* A child says where its memory is; the parent's put goes there. */
TEST_P(coll_rdma, swap_addr)
{
    for (bool ep_too : {false, true}) {
        uint64_t number = 0x77, wrong = 1;
        glex_imm_rdma_req_t req = imm_put(c.target(), &number, 8);
        char data[112];
        uint32_t len;

        memset(dst, 0, 64);
        req.rmt_mh.v = ~0ull;
        req.rmt_key = 0;
        req.rmt_ep_addr = ep_too ? d.addr() : c.addr();
        req.flag = COLL | START | TAIL | (ep_too ? SWAP_EP : SWAP);
        req.coll_counter = 1;
        ASSERT_OK(glex_imm_rdma(b, &req, nullptr));
        ASSERT_OK(glex_coll_compose_mp_swap_addr_data(c, dst_mh, 32, TEST_KEY, data, &len));
        glex_imm_mp_req_t cp = coll_mp(b.addr(), data, len, COUNTER | SWAP_ADDR);
        ASSERT_OK(glex_send_imm_mp(c, &cp, nullptr));
        memcpy(&wrong, dst + 32, 8);
        EXPECT_EQ(0x77u, wrong);
        EXPECT_TRUE(b.errors().empty());
    }
}

TEST_P(coll_rdma, what_fails)
{
    glex_rdma_req_t req = rdma(GLEX_RDMA_TYPE_PUT, c.target(dst_mh), src_mh, 8, SIZE);

    req.flag = COLL | START | TAIL | COUNTER | GLEX_FLAG_LOCAL_EVT;
    req.local_evt = {.cookie_0 = 6, .cookie_1 = 66};
    req.coll_counter = 1;
    ASSERT_OK(glex_rdma(b, &req, nullptr)); /* leaves the registration */
    req.rmt_offset = 0;
    req.local_mh.v ^= 0x10000;
    ASSERT_OK(glex_rdma(b, &req, nullptr)); /* not registered */
    for (int i = 0; i < 2; i++) {
        ASSERT_OK(coll_send(a, b.addr(), 0, COUNTER));
    }
    std::vector<glex_err_req> errors = b.errors();
    ASSERT_EQ(2u, errors.size());
    EXPECT_EQ(GLEX_ERR_STATUS_ATT, errors[0].status);
    EXPECT_EQ(66u, errors[0].data2);
    EXPECT_EQ(GLEX_ERR_OP_RDMA_PUT, errors[0].op);
    EXPECT_EQ(GLEX_ERR_STATUS_FORMAT, errors[1].status);
    EXPECT_EQ(-1, b.receive_event(0));

    req.type = GLEX_RDMA_TYPE_GET;
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_rdma(b, &req, nullptr));
    req.type = GLEX_RDMA_TYPE_PUT;
    req.flag |= SWAP_SET;
    EXPECT_EQ(GLEX_NOT_IMPLEMENTED, glex_rdma(b, &req, nullptr));
}

/* A refused request leaves no trace: whichever queue is full, no position of any queue is claimed
 * however often the request is tried. */
TEST_P(coll_rdma, refused_requests_leave_no_trace)
{
    enum { MPQ, EQ, CPQ, OWN_EQ, QUEUES };

    for (int full = MPQ; full < QUEUES; full++) {
        Ep own(dev, ep_attr(GLEX_ANY_EP_NUM, 8)), dst(dev, ep_attr(GLEX_ANY_EP_NUM, 8));
        glex_mem_handle_t own_mh = own.reg(own.alloc(SIZE), SIZE);
        glex_rdma_req_t req =
            rdma(GLEX_RDMA_TYPE_PUT, dst.target(dst.reg(dst.alloc(SIZE), SIZE)), own_mh, 8);
        uint64_t before[2][3];
        int queued = 0;

        for (Ep *ep : {&own, &dst}) { /* both have collective areas */
            ASSERT_OK(coll_send(*ep, c.addr(), 1, START | TAIL, 1));
        }
        while ((full == MPQ ? coll_send(a, dst.addr(), 0, GLEX_EXT_FLAG_NO_LOSS) :
                full == CPQ ? coll_send(a, dst.addr(), 0, SWAP_DATA) :
                              glex_ext_post_event(a, full == EQ ? dst.addr() : own.addr(), 1, 1)) ==
               GLEX_SUCCESS) {
            ASSERT_GT(2000, ++queued);
        }
        req.flag = COLL | COUNTER | CP_DATA | GLEX_FLAG_REMOTE_EVT | GLEX_FLAG_LOCAL_EVT |
                   GLEX_EXT_FLAG_NO_LOSS;
        req.rmt_evt = req.local_evt = {.cookie_0 = 6, .cookie_1 = 1};
        for (int which = MPQ; which <= CPQ; which++) {
            before[0][which] = internals_claimed(own, which);
            before[1][which] = internals_claimed(dst, which);
        }
        for (int i = 0; i < 2000; i++) {
            ASSERT_EQ(GLEX_BUSY, glex_rdma(own, &req, nullptr)) << full;
        }
        for (int which = MPQ; which <= CPQ; which++) {
            EXPECT_EQ(before[0][which], internals_claimed(own, which)) << full << ", " << which;
            EXPECT_EQ(before[1][which], internals_claimed(dst, which)) << full << ", " << which;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(of, coll_rdma, testing::Values(true, false),
                         [](const auto &info) { return info.param ? "nic" : "private"; });

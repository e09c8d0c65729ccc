/* Messages and the message queue. */
#include "internals.h"
#include "nic.h"
#include "process.h"

#include <algorithm>
#include <map>

class mp : public testing::Test
{
  protected:
    Device dev;
    Ep a{dev}, b{dev, ep_attr(GLEX_ANY_EP_NUM, 16)};
};

TEST_F(mp, every_length)
{
    for (uint32_t len = 0; len <= 112; len++) {
        unsigned char data[112], got[112] = {};
        glex_ep_addr_t src = {};
        uint32_t got_len = 999;

        for (uint32_t i = 0; i < len; i++) {
            data[i] = static_cast<unsigned char>(len * 7 + i);
        }
        a.send(b.addr(), data, len);
        memset(data, 0, sizeof(data)); /* it was copied at the call */
        ASSERT_OK(glex_receive_mp(b, WAIT_MS, &src, got, &got_len));
        EXPECT_EQ(a.addr().v, src.v);
        ASSERT_EQ(len, got_len);
        for (uint32_t i = 0; i < len; i++) {
            ASSERT_EQ(static_cast<unsigned char>(len * 7 + i), got[i]) << len << " " << i;
        }
        for (uint32_t i = len; i < 112; i++) {
            ASSERT_EQ(0, got[i]) << len << " " << i;
        }
    }
}

TEST_F(mp, no_data_and_null_pointer)
{
    a.send(b.addr(), nullptr, 0);
    glex_ep_addr_t src;
    uint32_t len = 5;
    void *data;
    ASSERT_OK(glex_probe_first_mp(b, 0, &src, &data, &len));
    EXPECT_EQ(0u, len);
    EXPECT_OK(glex_discard_probed_mp(b));
}

TEST_F(mp, empty_queue)
{
    glex_ep_addr_t src;
    uint32_t len;
    void *data;

    EXPECT_EQ(GLEX_NO_MP, glex_probe_first_mp(b, 0, &src, &data, &len));
    EXPECT_EQ(GLEX_NO_MP, glex_probe_next_mp(b, &src, &data, &len));
    EXPECT_EQ(GLEX_NO_MP, glex_receive_mp(b, 0, &src, data, &len));
    EXPECT_OK(glex_discard_probed_mp(b));
}

static int64_t number(void *data)
{
    return static_cast<int64_t>(*static_cast<uint64_t *>(data));
}

/* Probed messages stay, writable, until discarded; the cursor is what probe_first restarts. */
TEST_F(mp, probe_and_discard)
{
    void *data, *data1;
    glex_ep_addr_t src;
    uint32_t len;

    for (int i = 1; i <= 5; i++) {
        a.send_number(b.addr(), i);
    }
    ASSERT_OK(glex_probe_first_mp(b, 0, &src, &data1, &len));
    EXPECT_EQ(1, number(data1));
    ASSERT_OK(glex_probe_next_mp(b, &src, &data, &len));
    EXPECT_EQ(2, number(data));
    ASSERT_OK(glex_probe_next_mp(b, &src, &data, &len));
    EXPECT_EQ(3, number(data));
    *static_cast<uint64_t *>(data1) = 11;
    ASSERT_OK(glex_probe_first_mp(b, 0, &src, &data, &len));
    EXPECT_EQ(data1, data);
    EXPECT_EQ(11, number(data));
    ASSERT_OK(glex_probe_next_mp(b, &src, &data, &len));
    EXPECT_EQ(2, number(data));
    ASSERT_OK(glex_discard_probed_mp(b)); /* up to the cursor: 1 and 2 */
    EXPECT_EQ(3, b.receive_number(0));
    ASSERT_OK(glex_probe_next_mp(b, &src, &data, &len)); /* without a first */
    EXPECT_EQ(4, number(data));
    ASSERT_OK(glex_discard_probed_mp(b));
    EXPECT_EQ(5, b.receive_number(0));
    EXPECT_EQ(-1, b.receive_number(0));
}

TEST_F(mp, receive_takes_the_first_and_leaves_the_cursor)
{
    glex_ep_addr_t src;
    uint32_t len;
    void *data;

    for (int i = 1; i <= 3; i++) {
        a.send_number(b.addr(), i);
    }
    ASSERT_OK(glex_probe_first_mp(b, 0, &src, &data, &len));
    ASSERT_OK(glex_probe_next_mp(b, &src, &data, &len));
    EXPECT_EQ(1, b.receive_number(0));
    ASSERT_OK(glex_probe_next_mp(b, &src, &data, &len));
    EXPECT_EQ(3, number(data));
    ASSERT_OK(glex_discard_probed_mp(b));
    EXPECT_EQ(-1, b.receive_number(0));
}

TEST_F(mp, counts_messages_that_the_nic_does_not_see)
{
    ASSERT_OK(glex_ext_count_messages(a, GLEX_EXT_MESSAGE_MAPPED, 1, 2));
    ASSERT_OK(glex_ext_count_messages(a, GLEX_EXT_MESSAGE_MAPPED, 10, 20));
    ASSERT_OK(glex_ext_count_messages(a, GLEX_EXT_MESSAGE_BUFFERED, 3, 4));
    ASSERT_OK(glex_ext_count_messages(a, GLEX_EXT_MESSAGE_ZCOPY, 5, 6));
    EXPECT_EQ(GLEX_INVALID_PARAM,
              glex_ext_count_messages(a, static_cast<glex_ext_message>(3), 1, 1));
    glex_ext_counters counters = a.counters();
    EXPECT_EQ(11u, counters.mapped_tx);
    EXPECT_EQ(22u, counters.mapped_bytes);
    EXPECT_EQ(3u, counters.buffered_tx);
    EXPECT_EQ(4u, counters.buffered_bytes);
    EXPECT_EQ(5u, counters.zcopy_tx);
    EXPECT_EQ(6u, counters.zcopy_bytes);
    EXPECT_EQ(0u, counters.mp_tx);
}

TEST_F(mp, full_queue_loses_the_message_and_says_so)
{
    for (int i = 0; i < 16; i++) {
        a.send_number(b.addr(), i);
    }
    EXPECT_TRUE(a.errors().empty());
    a.send_number(b.addr(), 77);
    std::vector<glex_err_req> errors = a.errors();
    ASSERT_EQ(1u, errors.size());
    EXPECT_EQ(GLEX_ERR_OP_IMM_MP, errors[0].op);
    EXPECT_EQ(GLEX_ERR_STATUS_DEST_MPQ_FULL, errors[0].status);
    EXPECT_EQ(b.addr().nic_id, errors[0].rmt_nic_id);
    EXPECT_EQ(b.addr().ep_num, errors[0].rmt_ep_num);
    EXPECT_EQ(77u, errors[0].data0);
    EXPECT_EQ(8u, errors[0].data1);
    EXPECT_EQ(1u, a.counters().mp_lost);
    EXPECT_EQ(16u, a.counters().mp_tx);
    EXPECT_EQ(16u * 8, a.counters().mp_bytes);
    for (int i = 0; i < 16; i++) {
        EXPECT_EQ(i, b.receive_number(0));
    }
    EXPECT_EQ(-1, b.receive_number(0));
    a.send_number(b.addr(), 78); /* there is room again */
    EXPECT_EQ(78, b.receive_number(0));
    EXPECT_EQ(16u, b.counters().mpq_high);
    EXPECT_EQ(17u, b.counters().mp_rx);
}

/* The sender waits for the receiver instead, and nothing is lost, or reported. */
TEST_F(mp, full_queue_refuses_what_must_not_be_lost)
{
    uint64_t value = 77;
    glex_imm_mp_req_t req = {};
    glex_imm_mp_req_t *bad = nullptr;

    req.rmt_ep_addr = b.addr();
    req.data = &value;
    req.len = sizeof(value);
    req.flag = GLEX_EXT_FLAG_NO_LOSS;
    for (int i = 0; i < 16; i++) {
        a.send_number(b.addr(), i);
    }
    EXPECT_EQ(GLEX_BUSY, glex_send_imm_mp(a, &req, &bad));
    EXPECT_EQ(&req, bad);
    EXPECT_EQ(0, b.receive_number(0));
    ASSERT_OK(glex_send_imm_mp(a, &req, &bad));
    EXPECT_TRUE(a.errors().empty());
    EXPECT_EQ(0u, a.counters().mp_lost);
    for (int i = 1; i < 16; i++) {
        EXPECT_EQ(i, b.receive_number(0));
    }
    EXPECT_EQ(77, b.receive_number(0));
    EXPECT_EQ(-1, b.receive_number(0));
}

/* A producer that was held up between its look at the tail and the one at the head */
TEST_F(mp, tail_that_was_overtaken_is_not_a_full_queue)
{
    a.send_number(b.addr(), 1);
    ASSERT_EQ(1, b.receive_number(0));
    EXPECT_TRUE(internals_can_claim(a, b.addr(), 0));
    for (int i = 0; i < 40; i++) {
        a.send_number(b.addr(), i);
        ASSERT_EQ(i, b.receive_number(0));
    }
    EXPECT_TRUE(internals_can_claim(a, b.addr(), 20));
}

/* Around every boundary that a position can meet: lap, 32 bits. */
TEST_F(mp, wrap)
{
    for (uint64_t start : {uint64_t(0), uint64_t(15), uint64_t(1) << 31, (uint64_t(1) << 32) - 8,
                           (uint64_t(1) << 32) - 1, uint64_t(1) << 60}) {
        Ep ring(dev, ep_attr(GLEX_ANY_EP_NUM, 16));

        internals_move_rings(ring, start);
        for (uint64_t i = 0; i < 100; i += 16) {
            for (uint64_t j = 0; j < 16; j++) {
                a.send_number(ring.addr(), i + j);
            }
            EXPECT_TRUE(a.errors().empty());
            a.send_number(ring.addr(), 0);
            EXPECT_EQ(GLEX_ERR_STATUS_DEST_MPQ_FULL, a.only_error());
            for (uint64_t j = 0; j < 16; j++) {
                ASSERT_EQ(static_cast<int64_t>(i + j), ring.receive_number(0)) << start;
            }
            ASSERT_EQ(-1, ring.receive_number(0));
        }
    }
}

TEST_F(mp, capacity_of_one)
{
    Ep one(dev, ep_attr(GLEX_ANY_EP_NUM, 1));

    for (int i = 0; i < 10; i++) {
        a.send_number(one.addr(), i);
        a.send_number(one.addr(), 99);
        EXPECT_EQ(GLEX_ERR_STATUS_DEST_MPQ_FULL, a.only_error());
        EXPECT_EQ(i, one.receive_number(0));
    }
}

TEST_F(mp, chain_stops_at_the_first_bad_request)
{
    uint64_t data[4] = {1, 2, 3, 4};
    glex_imm_mp_req_t req[4] = {}, *bad = nullptr;

    for (int i = 0; i < 4; i++) {
        req[i].rmt_ep_addr = b.addr();
        req[i].data = &data[i];
        req[i].len = 8;
        req[i].next = i < 3 ? &req[i + 1] : nullptr;
    }
    EXPECT_OK(glex_send_imm_mp(a, req, &bad));
    EXPECT_EQ(nullptr, bad);
    for (int i = 1; i <= 4; i++) {
        EXPECT_EQ(i, b.receive_number(0));
    }

    req[2].len = 113;
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_send_imm_mp(a, req, &bad));
    EXPECT_EQ(&req[2], bad);
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_send_imm_mp(a, &req[2], nullptr));
    EXPECT_EQ(1, b.receive_number(0));
    EXPECT_EQ(2, b.receive_number(0));
    EXPECT_EQ(-1, b.receive_number(0));

    req[2].len = 8;
    req[2].data = nullptr;
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_send_imm_mp(a, &req[2], &bad));
    for (int flag = GLEX_FLAG_COLL_SEQ_START; flag <= 1 << 29; flag <<= 1) {
        bool known = flag <= GLEX_FLAG_COLL_REDUCE_RESULT; /* but not without COLL */
        req[1].flag = flag;
        EXPECT_EQ(known ? GLEX_INVALID_PARAM : GLEX_NOT_IMPLEMENTED,
                  glex_send_imm_mp(a, &req[1], &bad));
        EXPECT_EQ(&req[1], bad);
    }
    EXPECT_EQ(-1, b.receive_number(0));
}

TEST_F(mp, to_oneself)
{
    a.send_number(a.addr(), 5);
    EXPECT_EQ(5, a.receive_number(0));
}

/* Programs leave the reserved bits of an address as they are. */
TEST_F(mp, reserved_bits_of_an_address)
{
    glex_ep_addr_t addr = b.addr();

    addr.resv = 0xabcd;
    a.send_number(addr, 6);
    EXPECT_EQ(6, b.receive_number(0));
}

/* More peers than the address cache holds, and than the hash has buckets at first. */
TEST_F(mp, many_peers)
{
    std::vector<std::unique_ptr<Ep>> eps;

    for (int i = 0; i < 200; i++) {
        eps.emplace_back(new Ep(dev, ep_attr(GLEX_ANY_EP_NUM, 4)));
    }
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 200; i++) {
            a.send_number(eps[i]->addr(), i);
        }
        for (int i = 0; i < 200; i++) {
            ASSERT_EQ(i, eps[i]->receive_number(0));
        }
    }
}

static const uint64_t MANY_NUM = 20000;

/* The sender keeps a window: it gets one number back for each 64. */
CHILD(mp_many_sender)
{
    Device dev;
    Ep ep(dev);
    glex_ep_addr_t to = {.v = receive_down<uint64_t>()};

    for (uint64_t i = 0; i < MANY_NUM; i++) {
        if (i >= 128 && i % 64 == 0) {
            EXPECT_EQ(static_cast<int64_t>(i - 128), ep.receive_number());
        }
        ep.send_number(to, i);
    }
    EXPECT_TRUE(ep.errors().empty());
    send_up(1);
    receive_down<int>();
    return testing::Test::HasFailure();
}

TEST_F(mp, many_processes_to_one)
{
    const int num = 4;
    Process senders[num] = {Process("mp_many_sender"), Process("mp_many_sender"),
                            Process("mp_many_sender"), Process("mp_many_sender")};
    std::map<uint64_t, uint64_t> next;

    for (Process &sender : senders) {
        sender.send(a.addr().v);
    }
    for (uint64_t i = 0; i < num * MANY_NUM; i++) {
        glex_ep_addr_t src;
        uint32_t len;
        void *data;

        ASSERT_OK(glex_probe_first_mp(a, WAIT_MS, &src, &data, &len));
        uint64_t n = *static_cast<uint64_t *>(data);
        ASSERT_OK(glex_discard_probed_mp(a));
        ASSERT_EQ(next[src.v]++, n) << "order of a pair";
        if (n % 64 == 0) {
            a.send_number(src, n);
        }
    }
    EXPECT_EQ(static_cast<size_t>(num), next.size());
    EXPECT_EQ(-1, a.receive_number(0));
    for (Process &sender : senders) {
        sender.receive<int>();
        sender.send(0);
        EXPECT_EQ(0, sender.wait());
    }
}

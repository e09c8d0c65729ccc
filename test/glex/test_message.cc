/* Two words: as events, and as MPs with data behind them. */
#include "internals.h"
#include "message.h"
#include "process.h"

#include <sys/wait.h>

#include <random>

extern "C" {
#include "api/inspect.h"
}

static const uint32_t CAPACITY = 32;

class message : public testing::TestWithParam<Kind>
{
  protected:
    glex_ret_t post_number(uint64_t number, uint32_t len = MAX_LEN)
    {
        return post(GetParam(), a, b.addr(), Message(number, len));
    }

    /* Takes the message with that number, and nothing else. */
    void take(uint64_t number, uint32_t len = MAX_LEN)
    {
        ASSERT_OK(b.poll(&arrival));
        ASSERT_EQ(GetParam(), kind_of(arrival));
        if (GetParam() == MP) {
            ASSERT_EQ(a.addr().v, arrival.src.v);
        }
        expect_message(Message(number, len), arrival);
    }

    uint64_t sent() const
    {
        return GetParam() == EVENT ? a.counters().event_tx : a.counters().mp_tx;
    }

    uint64_t received() const
    {
        return GetParam() == EVENT ? b.counters().event_rx : b.counters().mp_rx;
    }

    Device dev;
    Ep a{dev}, b{dev, ep_attr(GLEX_ANY_EP_NUM, CAPACITY)};
    glex_ext_arrival arrival = {};
};

TEST_P(message, every_length)
{
    for (uint32_t len = 0; len <= MAX_LEN; len++) {
        Message m(len + 1, len);

        ASSERT_OK(post(GetParam(), a, b.addr(), m));
        m = Message(UINT32_MAX); /* it was copied at the call */
        take(len + 1, len);
        if (HasFatalFailure()) {
            return;
        }
    }
    EXPECT_EQ(MAX_LEN + 1, sent());
    EXPECT_EQ(GLEX_NO_EVENT, b.poll(&arrival));
    EXPECT_EQ(MAX_LEN + 1, received());
    EXPECT_EQ(0u, a.counters().imm_put_tx);
    if (GetParam() == MP) { /* two words, the head, and the data of each length */
        EXPECT_EQ((MAX_LEN + 1) * 24 + MAX_LEN * (MAX_LEN + 1) / 2, a.counters().mp_bytes);
    }
}

/* What is refused leaves nothing behind: at the first post to a peer, and to one that is known. */
TEST_P(message, limits)
{
    Message m(1);

    for (int known = 0; known < 2; known++) {
        if (GetParam() == EVENT) {
            EXPECT_EQ(GLEX_INVALID_PARAM, glex_ext_post_event(a, b.addr(), 1, 0));
            EXPECT_OK(glex_ext_post_event(a, b.addr(), 0, 1));
        } else {
            m.len = MAX_LEN + 1;
            EXPECT_EQ(GLEX_INVALID_PARAM, post(MP, a, b.addr(), m));
            m.len = UINT32_MAX;
            EXPECT_EQ(GLEX_INVALID_PARAM, post(MP, a, b.addr(), m));
            EXPECT_EQ(GLEX_INVALID_PARAM, glex_ext_post_mp(a, b.addr(), 1, 1, 2, nullptr, 1));
            EXPECT_OK(glex_ext_post_mp(a, b.addr(), 0, 0, 0, nullptr, 0));
        }
        ASSERT_OK(b.poll(&arrival));
        EXPECT_EQ(0u, number_of(arrival));
        EXPECT_EQ(GLEX_NO_EVENT, b.poll(&arrival));
    }
    EXPECT_TRUE(a.errors().empty());
    EXPECT_EQ(2u, sent());
}

TEST_P(message, full_queue_is_busy)
{
    for (uint64_t i = 0; i < 3 * CAPACITY; i += CAPACITY) {
        for (uint64_t j = 0; j < CAPACITY; j++) {
            ASSERT_OK(post_number(i + j));
        }
        EXPECT_EQ(GLEX_BUSY, post_number(0));
        EXPECT_EQ(GLEX_BUSY, post_number(0));
        EXPECT_EQ(i + CAPACITY, sent());
        for (uint64_t j = 0; j < CAPACITY; j++) {
            take(i + j);
        }
        EXPECT_EQ(GLEX_NO_EVENT, b.poll(&arrival)); /* which gives the last ones back, too */
        EXPECT_EQ(i + CAPACITY, received());
    }
    EXPECT_TRUE(a.errors().empty());
    EXPECT_EQ(CAPACITY, GetParam() == EVENT ? b.counters().eq_high : b.counters().mpq_high);
}

/* Many laps of small queues, from each position where a number wraps. */
TEST_P(message, order_and_wrap)
{
    std::mt19937 random(1);

    for (uint32_t capacity : {1, 2, 16, 64}) {
        for (uint64_t start : {uint64_t(0), (uint64_t(1) << 32) - 8, uint64_t(1) << 60}) {
            Ep ring(dev, ep_attr(GLEX_ANY_EP_NUM, capacity));
            uint64_t posted = 0, taken = 0;

            internals_move_rings(ring, start);
            while (taken < 3000) {
                for (uint64_t n = random() % 40; n > 0; n--) {
                    Message m(posted, static_cast<uint32_t>(posted % (MAX_LEN + 1)));
                    if (post(GetParam(), a, ring.addr(), m) == GLEX_SUCCESS) {
                        posted++;
                    }
                }
                ASSERT_LE(posted - taken, capacity);
                for (uint64_t n = random() % 40; n > 0; n--) {
                    if (ring.poll(&arrival) == GLEX_SUCCESS) {
                        ASSERT_LT(taken, posted);
                        expect_message(Message(taken, static_cast<uint32_t>(taken % (MAX_LEN + 1))),
                                       arrival);
                        ASSERT_FALSE(HasFatalFailure()) << start << " " << taken;
                        taken++;
                    }
                }
            }
        }
    }
    EXPECT_TRUE(a.errors().empty());
}

/* Others post as much as they can: what was handed out last stays as it is until the next call. */
TEST_P(message, what_was_handed_out_stays)
{
    for (uint32_t capacity : {1, 4, 16, 32, 64}) {
        Ep ring(dev, ep_attr(GLEX_ANY_EP_NUM, capacity));
        uint64_t posted = 0;

        for (uint64_t taken = 0; taken < 300; taken++) {
            while (post(GetParam(), a, ring.addr(), Message(posted)) == GLEX_SUCCESS) {
                posted++;
            }
            if (ring.poll(&arrival) != GLEX_SUCCESS) { /* all taken, and given back by this call */
                ASSERT_EQ(posted, taken--);
                continue;
            }
            while (post(GetParam(), a, ring.addr(), Message(posted)) == GLEX_SUCCESS) {
                posted++;
            }
            expect_message(Message(taken), arrival);
            ASSERT_FALSE(HasFatalFailure()) << capacity << " " << taken;
        }
    }
}

/* Producers wait for no more than sixteen entries, however long the stream is. */
TEST_P(message, given_back_in_the_stream)
{
    Ep ring(dev, ep_attr(GLEX_ANY_EP_NUM, 32));
    uint64_t posted = 0;

    for (uint64_t taken = 0; taken < 1000; taken++) {
        while (post(GetParam(), a, ring.addr(), Message(posted)) == GLEX_SUCCESS) {
            posted++;
        }
        ASSERT_LE(taken + 32 - 16, posted);
        ASSERT_OK(ring.poll(&arrival)) << "never empty";
    }
}

/* Addresses as programs keep them: with anything in the reserved bits. */
TEST_P(message, reserved_bits_of_an_address)
{
    glex_ep_addr_t addr = b.addr();

    for (uint32_t resv : {0xabcdu, 0u, 0xffffu}) {
        addr.resv = resv & 0xffff;
        ASSERT_OK(post(GetParam(), a, addr, Message(resv)));
        take(resv);
    }
}

TEST_P(message, to_oneself)
{
    ASSERT_OK(post(GetParam(), b, b.addr(), Message(5)));
    ASSERT_OK(b.poll(&arrival));
    expect_message(Message(5), arrival);
}

/* A post to who is gone succeeds, and leaves an error request. */
TEST_P(message, peer_that_is_gone)
{
    glex_ep_addr_t addr = b.addr(), nobody = b.addr();

    for (int known = 0; known < 2; known++) {
        if (known) {
            ASSERT_OK(post_number(1));
            b.destroy();
        } else {
            nobody.v ^= 0x100;
        }
        ASSERT_OK(post(GetParam(), a, known ? addr : nobody, Message(2)));
        std::vector<glex_err_req> errors = a.errors();
        ASSERT_EQ(1u, errors.size());
        EXPECT_EQ(GLEX_ERR_STATUS_DEST_VP_STOP, errors[0].status);
        EXPECT_EQ(addr.nic_id, errors[0].rmt_nic_id);
        if (GetParam() == EVENT) {
            EXPECT_EQ(GLEX_ERR_OP_IMM_RDMA_PUT, errors[0].op);
            EXPECT_EQ(0u, errors[0].data1);
            EXPECT_EQ(~uint64_t(2), errors[0].data2);
        } else {
            EXPECT_EQ(GLEX_ERR_OP_IMM_MP, errors[0].op);
            EXPECT_EQ(2u, errors[0].data0);
            EXPECT_EQ(24u + MAX_LEN, errors[0].data1);
        }
    }
    EXPECT_EQ(1u, sent());
}

/* Attached, destroyed and made again with the same number: the new one gets it. */
TEST_P(message, peer_that_was_replaced)
{
    uint32_t num = b.addr().ep_num;

    ASSERT_OK(post_number(1));
    b.destroy();
    Ep c(dev, ep_attr(num));
    ASSERT_OK(post(GetParam(), a, c.addr(), Message(2)));
    ASSERT_OK(c.poll(&arrival));
    expect_message(Message(2), arrival);
    EXPECT_TRUE(a.errors().empty());
    EXPECT_EQ(2u, sent());
}

TEST_P(message, peer_without_a_receiver)
{
    ASSERT_OK(post_number(1));
    ASSERT_OK(glex_ext_set_receiver(b, 0));
    ASSERT_OK(post_number(2));
    EXPECT_EQ(GLEX_ERR_STATUS_DEST_VP_STOP, a.only_error());
    take(1); /* came before */
    EXPECT_EQ(GLEX_NO_EVENT, b.poll(&arrival));
    ASSERT_OK(glex_ext_set_receiver(b, 1));
    ASSERT_OK(post_number(3));
    take(3);
}

CHILD(message_never_polls)
{
    Device dev;
    Ep ep(dev, ep_attr(GLEX_ANY_EP_NUM, 16));

    send_up(ep.addr().v);
    receive_down<int>();
    return 0;
}

/* Its queue stays full: BUSY is not for ever. */
TEST_P(message, full_queue_of_the_dead)
{
    Process child("message_never_polls");
    glex_ep_addr_t to = {.v = child.receive<uint64_t>()};
    glex_ret_t ret = GLEX_BUSY;

    for (uint64_t i = 0; i < 16; i++) {
        ASSERT_OK(post(GetParam(), a, to, Message(i)));
    }
    EXPECT_EQ(GLEX_BUSY, post(GetParam(), a, to, Message(16)));
    child.kill_now();
    for (int i = 0; i < WAIT_MS && ret == GLEX_BUSY; i++) {
        usleep(1000); /* its death is looked for every few ms */
        ret = post(GetParam(), a, to, Message(16));
    }
    EXPECT_OK(ret);
    EXPECT_EQ(GLEX_ERR_STATUS_DEST_VP_STOP, a.only_error());
    EXPECT_OK(glex_inspect_clean(nullptr, nullptr));
}

/* In a child of fork() the parent's endpoint refuses, also one that has entries in use. */
TEST_P(message, fork)
{
    glex_ep_addr_t addr_a = a.addr(), addr_b = b.addr();

    for (int held = 0; held < 2; held++) {
        int status = -1;
        pid_t pid;

        if (held) {
            ASSERT_OK(post_number(1));
            take(1);
        }
        pid = ::fork();
        if (pid == 0) {
            int wrong = 0;

            for (int i = 0; i < 3; i++) {
                wrong |= b.poll(&arrival) != GLEX_INVALID_PARAM;
                wrong |= (post(GetParam(), a, addr_b, Message(1)) != GLEX_INVALID_PARAM) << 1;
                wrong |= (post(GetParam(), b, addr_a, Message(1)) != GLEX_INVALID_PARAM) << 1;
            }
            _exit(wrong);
        }
        ASSERT_EQ(pid, waitpid(pid, &status, 0));
        EXPECT_EQ(0, status) << held;
    }
    ASSERT_OK(post_number(2));
    take(2);
    EXPECT_EQ(GLEX_NO_EVENT, b.poll(&arrival));
    EXPECT_EQ(GLEX_NO_EVENT, a.poll(&arrival));
}

INSTANTIATE_TEST_SUITE_P(as, message, testing::Values(EVENT, MP),
                         [](const auto &info) { return info.param == EVENT ? "event" : "mp"; });

/* Orders behind RMA and atomic operations, and FI_FENCE. An access with an unknown key waits for an answer,
 * and an atomic operation waits for the target's progress. Later operations would overtake both. */
#include "node.h"

#include <rdma/fi_atomic.h>
#include <random>

namespace
{

const uint64_t kOrders = FI_ORDER_SAS | FI_ORDER_SAW | FI_ORDER_SAR | FI_ORDER_RAR | FI_ORDER_RAW |
                         FI_ORDER_WAR | FI_ORDER_WAW;

class Order : public Pair
{
  protected:
    void TearDown() override
    {
        if (mr != nullptr) {
            EXPECT_EQ(0, fi_close(&mr->fid));
        }
    }

    void open_order(uint64_t msg_order)
    {
        Wish wish;
        wish.msg_order = msg_order;
        open(wish);
        renew();
    }

    /** A registration of `cell` whose key `a` does not know */
    void renew()
    {
        if (mr != nullptr) {
            EXPECT_EQ(0, fi_close(&mr->fid));
            mr = nullptr;
        }
        ASSERT_EQ(0, fi_mr_reg(b->domain, &cell, sizeof(cell), FI_REMOTE_READ | FI_REMOTE_WRITE, 0,
                               0, 0, &mr, nullptr));
    }

    /** `a` knows the key, and the peer. */
    void meet()
    {
        uint64_t got = 0;

        read(&got);
        EXPECT_EQ(0, next(*a).err);
    }

    uint64_t at() const
    {
        return reinterpret_cast<uint64_t>(&cell);
    }

    void read(uint64_t *to)
    {
        ASSERT_EQ(
            0, go([&] { return fi_read(a->ep, to, 8, nullptr, b_of_a, at(), fi_mr_key(mr), to); }));
    }

    /** `flags`: FI_FENCE or 0 */
    void write(const uint64_t *value, uint64_t flags = 0)
    {
        iovec iov = {const_cast<uint64_t *>(value), 8};
        fi_rma_iov remote = {at(), 8, fi_mr_key(mr)};
        fi_msg_rma msg{};

        msg.msg_iov = &iov;
        msg.iov_count = 1;
        msg.addr = b_of_a;
        msg.rma_iov = &remote;
        msg.rma_iov_count = 1;
        ASSERT_EQ(0, go([&] { return fi_writemsg(a->ep, &msg, flags); }));
    }

    void atomic_write(const uint64_t *value)
    {
        ASSERT_EQ(0, go([&] {
                      return fi_atomic(a->ep, value, 1, nullptr, b_of_a, at(), fi_mr_key(mr),
                                       FI_UINT64, FI_ATOMIC_WRITE, nullptr);
                  }));
    }

    void send(uint64_t tag, const void *data, size_t length, uint64_t flags = 0)
    {
        iovec iov = {const_cast<void *>(data), length};
        fi_msg_tagged msg{};

        msg.msg_iov = &iov;
        msg.iov_count = 1;
        msg.addr = b_of_a;
        msg.tag = tag;
        ASSERT_EQ(0, go([&] { return fi_tsendmsg(a->ep, &msg, flags); }));
    }

    /** All `count` operations of `a` are over, without errors. */
    void finish(size_t count)
    {
        for (size_t i = 0; i < count; i++) {
            EXPECT_EQ(0, next(*a).err);
        }
        settle();
        EXPECT_TRUE(a->done.empty());
    }

    uint64_t cell = 0;
    fid_mr *mr = nullptr;
    const uint64_t one = 1, two = 2;
};

TEST_F(Order, SendsStayBehindWrites)
{
    open_order(FI_ORDER_SAS | FI_ORDER_SAW);
    std::vector<char> data = pattern(200000, 1), got(data.size());

    EXPECT_EQ((uint64_t)(FI_ORDER_SAS | FI_ORDER_SAW), a->info->tx_attr->msg_order);
    for (uint64_t length : {uint64_t(8), uint64_t(5000), uint64_t(data.size())}) {
        renew();
        ASSERT_EQ(0, fi_trecv(b->ep, got.data(), length, nullptr, FI_ADDR_UNSPEC, 1, 0, nullptr));
        write(&length);
        send(1, data.data(), length);
        EXPECT_EQ(0, next(*b).err);
        EXPECT_EQ(length, cell);
        EXPECT_EQ(0, memcmp(got.data(), data.data(), length));
        finish(2);
    }
}

TEST_F(Order, WritesStayBehindAtomicOperations)
{
    open_order(FI_ORDER_WAW);
    EXPECT_EQ(SIZE_MAX, a->info->ep_attr->max_order_waw_size);
    meet();
    atomic_write(&one);
    write(&two);
    finish(2);
    EXPECT_EQ(2u, cell);
}

TEST_F(Order, ReadsStayBehindAtomicOperations)
{
    open_order(FI_ORDER_RAW);
    uint64_t got = 0;

    meet();
    atomic_write(&one);
    read(&got);
    finish(2);
    EXPECT_EQ(1u, got);
}

TEST_F(Order, WritesStayBehindFetches)
{
    open_order(FI_ORDER_WAR);
    uint64_t got = 77;

    meet();
    ASSERT_EQ(0, go([&] {
                  return fi_fetch_atomic(a->ep, nullptr, 1, nullptr, &got, nullptr, b_of_a, at(),
                                         fi_mr_key(mr), FI_UINT64, FI_ATOMIC_READ, nullptr);
              }));
    write(&two);
    finish(2);
    EXPECT_EQ(0u, got);
    EXPECT_EQ(2u, cell);
}

/* All kinds of operations: each sees the results of the earlier ones */
TEST_F(Order, RandomOperations)
{
    open_order(kOrders);
    const size_t count = 400;
    std::vector<uint64_t> values(count), got(count), expected(count), messages(count);
    std::vector<size_t> sent;
    std::mt19937 random(5);
    uint64_t now = 0;

    for (size_t i = 0; i < count; i++) {
        ASSERT_EQ(0, fi_trecv(b->ep, &messages[i], 8, nullptr, FI_ADDR_UNSPEC, i, 0, nullptr));
    }
    size_t arrived = 0;
    auto check = [&] { /* what a message says was written is there, or something later */
                       for (; arrived < b->done.size(); arrived++) {
                           EXPECT_GE(cell, messages[b->done[arrived].tag]);
                       }
    };
    for (size_t i = 0; i < count; i++) {
        values[i] = i + 1;
        switch (random() % 5) {
        case 0:
            write(&values[i]);
            now = values[i];
            break;
        case 1:
            atomic_write(&values[i]);
            now = values[i];
            break;
        case 2:
            read(&got[i]);
            expected[i] = now;
            break;
        case 3:
            values[i] = now;
            send(i, &values[i], 8);
            sent.push_back(i);
            break;
        default:
            ASSERT_EQ(0, go([&] {
                          return fi_inject_write(a->ep, &values[i], 8, b_of_a, at(), fi_mr_key(mr));
                      }));
            now = values[i];
            break;
        }
        if (random() % 20 == 0) {
            a->poll();
            b->poll();
            check();
        }
    }
    ASSERT_TRUE(wait([&] {
        check();
        return b->done.size() == sent.size() && cell == now;
    }));
    settle();
    EXPECT_EQ(expected, got);
    for (const Done &done : a->done) {
        EXPECT_EQ(0, done.err);
    }
}

/* ---- FI_FENCE, on an endpoint without orders ---- */

TEST_F(Order, FencedWrite)
{
    open_order(0);
    EXPECT_TRUE(a->info->caps & FI_FENCE);
    EXPECT_EQ((uint64_t)FI_ORDER_SAS, a->info->tx_attr->msg_order);
    meet();
    for (uint64_t i = 2; i < 10; i += 2) {
        uint64_t before = i - 1;
        atomic_write(&before);
        write(&i, FI_FENCE);
        finish(2);
        EXPECT_EQ(i, cell);
    }
    write(&one, FI_FENCE); /* behind nothing */
    finish(1);
    EXPECT_EQ(1u, cell);
}

TEST_F(Order, FencedMessage)
{
    open_order(0);
    std::vector<char> data = pattern(200000, 1), got(data.size());

    for (uint64_t length : {uint64_t(8), uint64_t(5000), uint64_t(data.size())}) {
        renew();
        ASSERT_EQ(0, fi_trecv(b->ep, got.data(), length, nullptr, FI_ADDR_UNSPEC, 1, 0, nullptr));
        write(&length);
        send(1, data.data(), length, FI_FENCE);
        EXPECT_EQ(0, next(*b).err);
        EXPECT_EQ(length, cell);
        EXPECT_EQ(0, memcmp(got.data(), data.data(), length));
        finish(2);
    }
}

/* Operations that are posted later do not overtake a fenced one */
TEST_F(Order, OperationsBehindAFence)
{
    open_order(0);
    const uint64_t three = 3;
    uint64_t got[2] = {0, 0};

    meet();
    for (uint64_t tag : {1, 2}) {
        ASSERT_EQ(0, fi_trecv(b->ep, &got[tag - 1], 8, nullptr, FI_ADDR_UNSPEC, tag, 0, nullptr));
    }
    atomic_write(&one);
    send(1, &one, 8, FI_FENCE);
    write(&two);
    finish(3);
    EXPECT_EQ(2u, cell);
    atomic_write(&one);
    write(&three, FI_FENCE);
    send(2, &three, 8);
    EXPECT_EQ(1u, next(*b).tag);
    EXPECT_EQ(2u, next(*b).tag);
    finish(3);
    EXPECT_EQ(3u, cell);
    EXPECT_EQ(1u, got[0]);
    EXPECT_EQ(3u, got[1]);
}

/* A fenced operation waits until a message is delivered, if that is what its completion means */
TEST_F(Order, FenceBehindADelivery)
{
    open_order(0);
    uint64_t got = 0;

    meet();
    send(1, &one, 8, FI_DELIVERY_COMPLETE);
    write(&two, FI_FENCE);
    settle();
    EXPECT_TRUE(a->done.empty());
    EXPECT_EQ(0u, cell);
    ASSERT_EQ(0, fi_trecv(b->ep, &got, 8, nullptr, FI_ADDR_UNSPEC, 1, 0, nullptr));
    EXPECT_EQ(0, next(*b).err);
    finish(2);
    EXPECT_EQ(1u, got);
    EXPECT_EQ(2u, cell);
}

/* The endpoint is closed while a fenced operation waits: it is reported, and never done */
TEST_F(Order, FenceOfAClosedEndpoint)
{
    open_order(0);
    meet();
    send(1, &one, 8, FI_DELIVERY_COMPLETE);
    write(&two, FI_FENCE);
    send(2, &two, 8);
    ASSERT_EQ(0, fi_close(&a->ep->fid));
    a->ep = nullptr;
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(FI_ECANCELED, next(*a).err);
    }
    settle();
    EXPECT_EQ(0u, cell);
}

} // namespace

/* Reads and writes of a peer's memory, with keys of both kinds, and with wrong ones. */
#include "node.h"

#include <algorithm>
#include <cstdlib>

namespace
{

class Rma : public Pair, public testing::WithParamInterface<int>
{
  protected:
    void open_rma(uint64_t tx_op_flags = 0)
    {
        Wish wish;
        wish.mr_mode = GetParam();
        wish.tx_op_flags = tx_op_flags;
        open(wish);
    }

    void expose(std::vector<char> &memory, uint64_t access, uint64_t key = 11)
    {
        ASSERT_EQ(
            0, fi_mr_reg(b->domain, memory.data(), memory.size(), access, 0, key, 0, &mr, nullptr));
        base = b->info->domain_attr->mr_mode & (FI_MR_VIRT_ADDR | MR_BASIC) ?
                   (uint64_t)memory.data() :
                   0;
    }

    void hide()
    {
        EXPECT_EQ(0, fi_close(&mr->fid));
    }

    fid_mr *mr = nullptr;
    uint64_t base = 0;
};

TEST_P(Rma, AllLengthsBothWays)
{
    open_rma();
    std::vector<char> memory(2000000);
    expose(memory, FI_REMOTE_READ | FI_REMOTE_WRITE);
    for (size_t length :
         {size_t(0), size_t(1), size_t(8), size_t(100), size_t(9000), size_t(1999000)}) {
        std::vector<char> data = pattern(length, 5), got(length);
        int context;

        ASSERT_EQ(0, go([&] {
                      return fi_write(a->ep, data.data(), length, nullptr, b_of_a, base + 7,
                                      fi_mr_key(mr), &context);
                  }));
        Done done = next(*a);
        EXPECT_EQ(0, done.err);
        EXPECT_EQ((uint64_t)(FI_RMA | FI_WRITE), done.flags);
        EXPECT_EQ(&context, done.context);
        EXPECT_EQ(0, memcmp(memory.data() + 7, data.data(), length));
        ASSERT_EQ(0, go([&] {
                      return fi_read(a->ep, got.data(), length, nullptr, b_of_a, base + 7,
                                     fi_mr_key(mr), &context);
                  }));
        done = next(*a);
        EXPECT_EQ(0, done.err);
        EXPECT_EQ((uint64_t)(FI_RMA | FI_READ), done.flags);
        EXPECT_EQ(data, got);
    }
    hide();
}

TEST_P(Rma, PiecesInjectAndMessages)
{
    open_rma();
    std::vector<char> memory(10000), data = pattern(6000, 5), got(6000), sent = data;
    expose(memory, FI_REMOTE_READ | FI_REMOTE_WRITE);
    iovec out[2] = {{data.data(), 2500}, {data.data() + 2500, 3500}};
    iovec in[2] = {{got.data(), 10}, {got.data() + 10, 5990}};
    fi_rma_iov remote = {base, 6000, fi_mr_key(mr)};
    fi_msg_rma msg{};

    ASSERT_EQ(0, go([&] {
                  return fi_inject_write(a->ep, sent.data(), 3000, b_of_a, base + 6000,
                                         fi_mr_key(mr));
              }));
    std::fill(sent.begin(), sent.end(), 'z');
    ASSERT_TRUE(wait([&] { return memcmp(memory.data() + 6000, data.data(), 3000) == 0; }));
    ASSERT_EQ(0, go([&] {
                  return fi_writev(a->ep, out, nullptr, 2, b_of_a, base, fi_mr_key(mr), nullptr);
              }));
    EXPECT_EQ(0, next(*a).err);
    EXPECT_EQ(0, memcmp(memory.data(), data.data(), 6000));
    msg.msg_iov = in;
    msg.iov_count = 2;
    msg.addr = b_of_a;
    msg.rma_iov = &remote;
    msg.rma_iov_count = 1;
    ASSERT_EQ(0, go([&] { return fi_readmsg(a->ep, &msg, 0); }));
    EXPECT_EQ(0, next(*a).err);
    EXPECT_EQ(data, got);
    EXPECT_EQ(-FI_EBADFLAGS, fi_readmsg(a->ep, &msg, FI_REMOTE_CQ_DATA));
    remote.len = 5999;
    EXPECT_EQ(-FI_EINVAL, fi_readmsg(a->ep, &msg, 0));
    EXPECT_TRUE(a->done.empty());
    hide();
}

/* The data is in place when the target is told of it */
TEST_P(Rma, WritesWithDataAreReported)
{
    for (uint64_t flags : {uint64_t(0), uint64_t(FI_DELIVERY_COMPLETE)}) {
        open_rma(flags);
        std::vector<char> memory(100000), data = pattern(100000, 5);
        expose(memory, FI_REMOTE_WRITE);
        for (size_t length : {size_t(0), size_t(8), size_t(100000)}) {
            ASSERT_EQ(0, go([&] {
                          return fi_writedata(a->ep, data.data(), length, nullptr, 99 + length,
                                              b_of_a, base, fi_mr_key(mr), nullptr);
                      }));
            Done done = next(*b);
            EXPECT_EQ(0, done.err);
            EXPECT_EQ((uint64_t)(FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA), done.flags);
            EXPECT_EQ(99 + length, done.data);
            EXPECT_EQ(length, done.len);
            EXPECT_EQ(0, memcmp(memory.data(), data.data(), length));
            EXPECT_EQ(0, next(*a).err);
        }
        hide();
    }
}

/* What is not allowed ends with an error, and the connection goes on */
TEST_P(Rma, WrongKeysAndPlaces)
{
    open_rma();
    std::vector<char> memory(1000), got(2000);
    expose(memory, FI_REMOTE_READ);
    struct {
        const char *what;
        bool is_write;
        uint64_t addr, length, key;
        int err;
    } wrong[] = {
        {"unknown key", false, base, 8, 12345, FI_EKEYREJECTED},
        {"write to what may be read", true, base, 8, fi_mr_key(mr), FI_EACCES},
        {"behind the end", false, base + 993, 8, fi_mr_key(mr), FI_EINVAL},
        {"before the beginning", false, base - 1, 8, fi_mr_key(mr), FI_EINVAL},
        {"far away", false, base + (1ull << 40), 8, fi_mr_key(mr), FI_EINVAL},
        {"too long", false, base, 1001, fi_mr_key(mr), FI_EINVAL},
    };

    for (int round = 0; round < 2; round++) { /* the key is unknown in the first, known later */
        for (auto &one : wrong) {
            ASSERT_EQ(0, go([&] {
                          return one.is_write ? fi_write(a->ep, got.data(), one.length, nullptr,
                                                         b_of_a, one.addr, one.key, &one) :
                                                fi_read(a->ep, got.data(), one.length, nullptr,
                                                        b_of_a, one.addr, one.key, &one);
                      }));
            Done done = next(*a);
            EXPECT_EQ(one.err, done.err) << one.what;
            EXPECT_EQ(&one, done.context);
        }
        ASSERT_EQ(0, go([&] {
                      return fi_read(a->ep, got.data(), 1000, nullptr, b_of_a, base, fi_mr_key(mr),
                                     nullptr);
                  }));
        EXPECT_EQ(0, next(*a).err);
    }
    hide();
}

/* A key that was closed is refused; the same number, registered again, means the new memory */
TEST_P(Rma, KeysAreForgottenWhenTheyAreClosed)
{
    open_rma();
    std::vector<char> first = pattern(500, 1), second = pattern(500, 2), got(500);
    for (int round = 0; round < 3; round++) {
        std::vector<char> &memory = round % 2 ? second : first;
        expose(memory, FI_REMOTE_READ);
        uint64_t key = fi_mr_key(mr);
        ASSERT_EQ(0, go([&] {
                      return fi_read(a->ep, got.data(), 500, nullptr, b_of_a, base, key, nullptr);
                  }));
        EXPECT_EQ(0, next(*a).err);
        EXPECT_EQ(memory, got);
        hide();
        settle();
        ASSERT_EQ(0, go([&] {
                      return fi_read(a->ep, got.data(), 500, nullptr, b_of_a, base, key, nullptr);
                  }));
        EXPECT_EQ(FI_EKEYREJECTED, next(*a).err);
    }
}

TEST_P(Rma, KeysOfPrograms)
{
    open_rma();
    std::vector<char> memory(100);
    fid_mr *again = nullptr;
    bool provider_keys = b->info->domain_attr->mr_mode & (FI_MR_PROV_KEY | MR_BASIC);

    expose(memory, FI_REMOTE_READ, 4711);
    if (!provider_keys) {
        EXPECT_EQ(4711u, fi_mr_key(mr));
    }
    int ret = fi_mr_reg(b->domain, memory.data(), 50, FI_REMOTE_READ, 0, 4711, 0, &again, nullptr);
    EXPECT_EQ(provider_keys ? 0 : -FI_ENOKEY, ret);
    if (ret == 0) {
        EXPECT_NE(fi_mr_key(mr), fi_mr_key(again));
        EXPECT_EQ(0, fi_close(&again->fid));
    }
    hide();
}

/* What is refused leaves the memory, and the target, as they were; whatever the way it was asked for */
TEST_P(Rma, RefusedAccessesLeaveNoTrace)
{
    open_rma();
    std::vector<char> memory = pattern(1000, 1), before = memory, got(2000, 'x'), untouched = got;
    fid_mr *own = nullptr;
    expose(memory, FI_REMOTE_WRITE);
    ASSERT_EQ(0, fi_mr_reg(a->domain, got.data(), 2000, FI_REMOTE_WRITE | FI_REMOTE_READ, 0, 4712,
                           0, &own, nullptr));
    uint64_t key = fi_mr_key(mr), wrong_key = key + 1000003;
    const std::vector<std::pair<int, std::function<ssize_t()>>> refused = {
        {FI_EACCES,
         [&] { return fi_read(a->ep, got.data(), 8, nullptr, b_of_a, base, key, &key); }},
        {FI_EINVAL,
         [&] { return fi_write(a->ep, got.data(), 8, nullptr, b_of_a, base - 4, key, &key); }},
        {FI_EINVAL,
         [&] { return fi_write(a->ep, got.data(), 8, nullptr, b_of_a, base + 996, key, &key); }},
        {FI_EINVAL,
         [&] { return fi_write(a->ep, got.data(), 8, nullptr, b_of_a, base - 8, key, &key); }},
        {FI_EINVAL,
         [&] { return fi_write(a->ep, got.data(), 1001, nullptr, b_of_a, base, key, &key); }},
        {FI_EINVAL, /* the end lies before the beginning */
         [&] { return fi_write(a->ep, got.data(), 1000, nullptr, b_of_a, ~0ull - 3, key, &key); }},
        {FI_EINVAL,
         [&] {
             return fi_writedata(a->ep, got.data(), 8, nullptr, 7, b_of_a, base + 993, key, &key);
         }},
        {FI_EINVAL, /* nothing, behind the end */
         [&] {
             return fi_writedata(a->ep, nullptr, 0, nullptr, 7, b_of_a, base + 1001, key, &key);
         }},
        {FI_EINVAL,
         [&] { return fi_writedata(a->ep, nullptr, 0, nullptr, 7, b_of_a, base - 1, key, &key); }},
        {FI_EKEYREJECTED,
         [&] {
             return fi_writedata(a->ep, got.data(), 8, nullptr, 7, b_of_a, base, wrong_key, &key);
         }},
        {FI_EKEYREJECTED,
         [&] {
             return fi_writedata(a->ep, nullptr, 0, nullptr, 7, b_of_a, base, wrong_key, &key);
         }},
    };
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < refused.size(); i++) {
            ASSERT_EQ(0, go(refused[i].second)) << i;
            Done done = next(*a);
            EXPECT_EQ(refused[i].first, done.err) << i;
            EXPECT_EQ(&key, done.context);
        }
        ASSERT_EQ(
            0, go([&] { return fi_inject_write(a->ep, got.data(), 8, b_of_a, base + 993, key); }));
        ASSERT_EQ(
            0, go([&] { return fi_inject_write(a->ep, got.data(), 8, b_of_a, base, wrong_key); }));
        settle();
        EXPECT_TRUE(a->done.empty()); /* nobody hears of what was injected */
        EXPECT_TRUE(b->done.empty());
        EXPECT_EQ(before, memory);
        EXPECT_EQ(untouched, got);
    }
    /* up to the last byte, and nothing behind it */
    ASSERT_EQ(0, go([&] {
                  return fi_write(a->ep, got.data(), 8, nullptr, b_of_a, base + 992, key, nullptr);
              }));
    EXPECT_EQ(0, next(*a).err);
    EXPECT_EQ('x', memory[999]);
    ASSERT_EQ(0, go([&] {
                  return fi_write(a->ep, got.data(), 0, nullptr, b_of_a, base + 1000, key, nullptr);
              }));
    EXPECT_EQ(0, next(*a).err);
    EXPECT_EQ(0, fi_close(&own->fid));
    hide();
}

/* Whether peers map memory of malloc(): the library of glexrun --shared-heap is loaded */
bool has_shared_heap()
{
    const char *preload = getenv("LD_PRELOAD");

    return preload != nullptr && strstr(preload, "libglex_heap") != nullptr;
}

/* The target makes no progress. Accesses to mapped memory, and to memory that the kernel copies, are over
 * all the same. Other accesses wait for the target. */
TEST_P(Rma, OnlyMessagesNeedTheTarget)
{
    const char *private_rdma = getenv("GLEX_PRIVATE_RDMA");
    const bool needs_target =
        private_rdma != nullptr && strcmp(private_rdma, "n") == 0 && !has_shared_heap();

    open_rma();
    std::vector<char> memory(300000), got(300000), data = pattern(300000, 5);
    expose(memory, FI_REMOTE_READ | FI_REMOTE_WRITE);
    ASSERT_EQ(0, go([&] {
                  return fi_read(a->ep, got.data(), 8, nullptr, b_of_a, base, fi_mr_key(mr),
                                 nullptr);
              }));
    ASSERT_EQ(0, next(*a).err); /* `a` knows the key */
    for (size_t length : {size_t(8), size_t(300000)}) {
        ASSERT_EQ(
            0, fi_write(a->ep, data.data(), length, nullptr, b_of_a, base, fi_mr_key(mr), nullptr));
        for (int i = 0; i < 1000; i++) {
            a->poll();
        }
        EXPECT_EQ(needs_target, a->done.empty());
        EXPECT_EQ(!needs_target, memcmp(memory.data(), data.data(), length) == 0);
        EXPECT_EQ(0, next(*a).err);
        EXPECT_EQ(0, memcmp(memory.data(), data.data(), length));
        ASSERT_EQ(
            0, fi_read(a->ep, got.data(), length, nullptr, b_of_a, base, fi_mr_key(mr), nullptr));
        for (int i = 0; i < 1000; i++) {
            a->poll();
        }
        EXPECT_EQ(needs_target, a->done.empty());
        EXPECT_EQ(0, next(*a).err);
        EXPECT_EQ(0, memcmp(got.data(), data.data(), length));
    }
    hide();
}

INSTANTIATE_TEST_SUITE_P(Modes, Rma,
                         testing::Values(int(MR_BASIC), int(MR_SCALABLE), 0,
                                         FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY,
                                         int(FI_MR_PROV_KEY)));

} // namespace

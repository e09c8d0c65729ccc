/* FI_RMA_EVENT: a target counts what its peers read and write. */
#include "node.h"

#include <rdma/fi_atomic.h>

namespace
{

constexpr uint64_t CAPS = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC;

/* Registered memory of a node */
class Memory
{
  public:
    Memory(Node &node, size_t size) : bytes(size)
    {
        EXPECT_EQ(0, fi_mr_reg(node.domain, bytes.data(), size, FI_REMOTE_READ | FI_REMOTE_WRITE, 0,
                               0, FI_RMA_EVENT, &mr, nullptr));
    }

    ~Memory()
    {
        EXPECT_EQ(0, fi_close(&mr->fid));
    }

    uint64_t addr() const
    {
        return reinterpret_cast<uint64_t>(bytes.data());
    }

    std::vector<char> bytes;
    fid_mr *mr = nullptr;
};

/* A counter of a node; it has to live longer than what it is bound to */
class Counter
{
  public:
    explicit Counter(Node &node)
    {
        fi_cntr_attr attr{};

        EXPECT_EQ(0, fi_cntr_open(node.domain, &attr, &cntr, nullptr));
    }

    ~Counter()
    {
        EXPECT_EQ(0, fi_close(&cntr->fid));
    }

    fid_cntr *cntr = nullptr;
};

/* `a` is the initiator, `b` the target */
class RmaEvent : public Pair
{
  protected:
    void open_nodes(uint64_t caps, bool count_remote)
    {
        Wish wish;
        wish.caps = caps;
        wish.count_remote = count_remote;
        open(wish);
    }

    void write(const Memory &memory, const std::vector<char> &data)
    {
        ASSERT_EQ(0, go([&] {
                      return fi_write(a->ep, data.data(), data.size(), nullptr, b_of_a,
                                      memory.addr(), fi_mr_key(memory.mr), nullptr);
                  }));
        ASSERT_EQ(0, next(*a).err);
    }

    void read(const Memory &memory, size_t length)
    {
        std::vector<char> got(length);

        ASSERT_EQ(0, go([&] {
                      return fi_read(a->ep, got.data(), length, nullptr, b_of_a, memory.addr(),
                                     fi_mr_key(memory.mr), nullptr);
                  }));
        ASSERT_EQ(0, next(*a).err);
    }

    /* The counter gets there, and not beyond */
    bool comes_to(fid_cntr *cntr, uint64_t value)
    {
        bool came = wait([&] { return fi_cntr_read(cntr) >= value; });

        settle();
        return came && fi_cntr_read(cntr) == value;
    }
};

/* The data is in place when a write is counted */
TEST_F(RmaEvent, EndpointsCountReadsAndWrites)
{
    open_nodes(CAPS | FI_RMA_EVENT, true);
    Memory memory(*b, 300000);
    uint64_t count = 0;

    for (size_t length : {size_t(0), size_t(8), size_t(100), size_t(9000), size_t(300000)}) {
        for (unsigned round = 0; round < 3; round++) {
            std::vector<char> data = pattern(length, round + 1);

            count++;
            ASSERT_EQ(0, go([&] {
                          return fi_write(a->ep, data.data(), length, nullptr, b_of_a,
                                          memory.addr(), fi_mr_key(memory.mr), nullptr);
                      }));
            ASSERT_TRUE(wait([&] { return fi_cntr_read(b->remote_writes) == count; })) << length;
            EXPECT_EQ(0, memcmp(memory.bytes.data(), data.data(), length));
            EXPECT_EQ(0, next(*a).err);
            read(memory, length);
            EXPECT_TRUE(comes_to(b->remote_reads, count)) << length;
        }
    }
    EXPECT_TRUE(comes_to(b->remote_writes, count));
    EXPECT_TRUE(b->done.empty()); /* no completion at the target without CQ data */
    EXPECT_EQ(0u, fi_cntr_read(a->remote_writes));
}

TEST_F(RmaEvent, InjectedWritesAndThoseWithData)
{
    open_nodes(CAPS | FI_RMA_EVENT, true);
    Memory memory(*b, 1000);
    std::vector<char> data = pattern(1000, 3);

    ASSERT_EQ(0, go([&] {
                  return fi_inject_write(a->ep, data.data(), 1000, b_of_a, memory.addr(),
                                         fi_mr_key(memory.mr));
              }));
    EXPECT_TRUE(comes_to(b->remote_writes, 1));
    EXPECT_EQ(data, memory.bytes);
    ASSERT_EQ(0, go([&] {
                  return fi_writedata(a->ep, data.data(), 8, nullptr, 77, b_of_a, memory.addr(),
                                      fi_mr_key(memory.mr), nullptr);
              }));
    Done done = next(*b);
    EXPECT_EQ((uint64_t)(FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA), done.flags);
    EXPECT_EQ(77u, done.data);
    EXPECT_TRUE(comes_to(b->remote_writes, 2));
}

TEST_F(RmaEvent, RefusedAccessesAreNotCounted)
{
    open_nodes(CAPS | FI_RMA_EVENT, true);
    Memory memory(*b, 100);
    char byte = 1;

    for (uint64_t key : {fi_mr_key(memory.mr), fi_mr_key(memory.mr) + 1000}) {
        ASSERT_EQ(0, go([&] {
                      return fi_write(a->ep, &byte, 1, nullptr, b_of_a, memory.addr() + 100, key,
                                      nullptr);
                  }));
        EXPECT_NE(0, next(*a).err);
    }
    write(memory, {1});
    EXPECT_TRUE(comes_to(b->remote_writes, 1));
}

/* Endpoints count what gives no value back as a write, the rest as a read; registrations count
 * what may change them */
TEST_F(RmaEvent, AtomicOperations)
{
    open_nodes(CAPS | FI_RMA_EVENT, true);
    Counter counter(*b);
    fid_cntr *cntr = counter.cntr;
    Memory memory(*b, 8);
    uint64_t one = 1, zero = 0, before = 0, key = fi_mr_key(memory.mr);

    ASSERT_EQ(0, fi_mr_bind(memory.mr, &cntr->fid, FI_REMOTE_WRITE));
    ASSERT_EQ(0, go([&] {
                  return fi_atomic(a->ep, &one, 1, nullptr, b_of_a, memory.addr(), key, FI_UINT64,
                                   FI_SUM, nullptr);
              }));
    EXPECT_TRUE(comes_to(b->remote_writes, 1));
    EXPECT_TRUE(comes_to(cntr, 1));
    EXPECT_TRUE(comes_to(b->remote_reads, 0));
    ASSERT_EQ(0, go([&] {
                  return fi_fetch_atomic(a->ep, &one, 1, nullptr, &before, nullptr, b_of_a,
                                         memory.addr(), key, FI_UINT64, FI_SUM, nullptr);
              }));
    EXPECT_TRUE(comes_to(b->remote_reads, 1));
    EXPECT_TRUE(comes_to(cntr, 2));
    ASSERT_EQ(0, go([&] {
                  return fi_compare_atomic(a->ep, &one, 1, nullptr, &zero, nullptr, &before,
                                           nullptr, b_of_a, memory.addr(), key, FI_UINT64, FI_CSWAP,
                                           nullptr);
              }));
    EXPECT_TRUE(comes_to(b->remote_reads, 2));
    EXPECT_TRUE(comes_to(cntr, 3));
    ASSERT_EQ(0, go([&] {
                  return fi_fetch_atomic(a->ep, nullptr, 1, nullptr, &before, nullptr, b_of_a,
                                         memory.addr(), key, FI_UINT64, FI_ATOMIC_READ, nullptr);
              }));
    EXPECT_TRUE(comes_to(b->remote_reads, 3));
    EXPECT_TRUE(comes_to(cntr, 3));
    EXPECT_TRUE(comes_to(b->remote_writes, 1));
}

/* The initiator knows the key already when the counter is bound */
TEST_F(RmaEvent, RegistrationsCountWrites)
{
    open_nodes(CAPS | FI_RMA_EVENT, false);
    Counter counter(*b), foreign(*a);
    fid_t cntr = &counter.cntr->fid;
    Memory memory(*b, 100), other(*b, 100);

    write(memory, {1});
    write(other, {1});
    EXPECT_EQ(-FI_EINVAL, fi_mr_bind(memory.mr, cntr, FI_REMOTE_READ));
    EXPECT_EQ(-FI_EINVAL, fi_mr_bind(memory.mr, &foreign.cntr->fid, FI_REMOTE_WRITE));
    ASSERT_EQ(0, fi_mr_bind(memory.mr, cntr, FI_REMOTE_WRITE));
    EXPECT_EQ(-FI_EINVAL, fi_mr_bind(memory.mr, cntr, FI_REMOTE_WRITE));
    EXPECT_EQ(-FI_EBUSY, fi_close(cntr));
    EXPECT_EQ(0, fi_mr_enable(memory.mr));
    settle();
    for (uint64_t i = 1; i <= 3; i++) {
        write(memory, pattern(i * 30, 1));
        write(other, {2});
        read(memory, 8);
        EXPECT_TRUE(comes_to(counter.cntr, i));
    }
}

/* An endpoint with counters is opened beside one without: the keys of the domain are known by then */
TEST_F(RmaEvent, EndpointsThatComeLater)
{
    open_nodes(CAPS | FI_RMA_EVENT, false);
    Counter counter(*b);
    Memory memory(*b, 100);
    std::vector<char> name(256);
    size_t length = name.size();
    fid_ep *later = nullptr;

    write(memory, {1});
    ASSERT_EQ(0, fi_endpoint(b->domain, b->info, &later, nullptr));
    ASSERT_EQ(0, fi_ep_bind(later, &b->av->fid, 0));
    ASSERT_EQ(0, fi_ep_bind(later, &b->cq->fid, FI_TRANSMIT | FI_RECV));
    ASSERT_EQ(0, fi_ep_bind(later, &counter.cntr->fid, FI_REMOTE_WRITE));
    ASSERT_EQ(0, fi_enable(later));
    settle();
    ASSERT_EQ(0, fi_getname(&later->fid, name.data(), &length));
    name.resize(length);
    write(memory, {2}); /* to the first endpoint: counted by none */
    b_of_a = a->know(name);
    write(memory, {3});
    EXPECT_TRUE(comes_to(counter.cntr, 1));
    EXPECT_EQ(0, fi_close(&later->fid));
}

/* Who did not ask for FI_RMA_EVENT pays nothing: no initiator sends a message */
TEST_F(RmaEvent, NothingIsSentUnlessAskedFor)
{
    open_nodes(CAPS, true);
    Memory memory(*b, 100);

    EXPECT_FALSE(b->info->caps & FI_RMA_EVENT);
    write(memory, pattern(100, 1));
    read(memory, 100);
    EXPECT_TRUE(comes_to(b->remote_writes, 0));
    EXPECT_TRUE(comes_to(b->remote_reads, 0));
}

/* A message that is sent after the counter was bound does not overtake the news of it, though the
 * NIC had no room when it was bound */
TEST_F(RmaEvent, MessagesDoNotOvertakeTheNews)
{
    open_nodes(CAPS | FI_RMA_EVENT, false);
    Counter counter(*b);
    Memory memory(*b, 100);
    constexpr uint64_t GO = 1;
    char byte = 0;

    write(memory, {1});
    ASSERT_EQ(0, go([&] { return fi_tinject(b->ep, &byte, 1, a_of_b, 0); }));
    settle();
    for (ssize_t ret = 0; ret == 0; ret = fi_tinject(b->ep, &byte, 1, a_of_b, 0)) {
    }
    ASSERT_EQ(0, fi_mr_bind(memory.mr, &counter.cntr->fid, FI_REMOTE_WRITE));
    ASSERT_EQ(0, fi_trecv(a->ep, &byte, 1, nullptr, FI_ADDR_UNSPEC, GO, 0, nullptr));
    a->poll(); /* makes room, but the target does not see it yet */
    bool sent = false;
    ASSERT_TRUE(wait_for({a.get()}, [&] {
        sent = sent || fi_tinject(b->ep, &byte, 1, a_of_b, GO) == 0;
        return !a->done.empty();
    }));
    EXPECT_EQ(0, fi_write(a->ep, &byte, 1, nullptr, b_of_a, memory.addr(), fi_mr_key(memory.mr),
                          nullptr));
    EXPECT_TRUE(comes_to(counter.cntr, 1));
}

} // namespace

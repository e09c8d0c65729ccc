/* Long messages, which the receiver fetches. libglex lets both sides copy them: test/glex/test_help.cc */
#include "node.h"

#include <algorithm>
#include <sys/mman.h>
#include <unistd.h>

namespace
{

constexpr size_t LONG = 1 << 20;

/* More than 4 GiB of address space in little memory: the same pages again and again, and behind 4 GiB
 * pages of their own. */
class Huge
{
  public:
    Huge()
    {
        int fd = memfd_create("huge", 0);

        EXPECT_EQ(0, ftruncate(fd, PERIOD + TAIL));
        start = static_cast<char *>(
            mmap(nullptr, SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
        EXPECT_NE(MAP_FAILED, static_cast<void *>(start));
        for (size_t at = 0; at < FRONT; at += PERIOD) {
            map(fd, start + at, PERIOD, 0);
        }
        map(fd, tail(), TAIL, PERIOD);
        close(fd);
    }

    ~Huge()
    {
        munmap(start, SIZE);
    }

    Huge(const Huge &) = delete;
    Huge &operator=(const Huge &) = delete;

    char *tail() const
    {
        return start + FRONT;
    }

    void fill()
    {
        std::vector<char> front = pattern(PERIOD, 1), end = pattern(TAIL, 2);

        std::copy(front.begin(), front.end(), start);
        std::copy(end.begin(), end.end(), tail());
    }

    static constexpr size_t PERIOD = 16 << 20, TAIL = LONG, FRONT = size_t(1) << 32;
    static constexpr size_t SIZE = FRONT + TAIL;
    char *start;

  private:
    static void map(int fd, char *at, size_t length, size_t offset)
    {
        EXPECT_EQ(at, mmap(at, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
                           static_cast<off_t>(offset)));
    }
};

class Long : public Pair
{
  protected:
    void SetUp() override
    {
        open();
        meet(*a, b_of_a, *b);
    }

    /* One short message, so that both know each other */
    static void meet(Node &from, fi_addr_t to, Node &other)
    {
        char byte = 0;

        ASSERT_EQ(0, fi_trecv(other.ep, &byte, 1, nullptr, FI_ADDR_UNSPEC, 1, 0, nullptr));
        ASSERT_EQ(0, retry({&from, &other}, [&] { return fi_tinject(from.ep, &byte, 1, to, 1); }));
        ASSERT_EQ(0, next_done(other, {&from, &other}).err);
    }

    static void receive(Node &node, std::vector<char> &buffer)
    {
        ASSERT_EQ(0, fi_trecv(node.ep, buffer.data(), buffer.size(), nullptr, FI_ADDR_UNSPEC, 2, 0,
                              buffer.data()));
    }

    static void send(Node &node, const std::vector<char> &data, fi_addr_t to)
    {
        ASSERT_EQ(0, retry({&node}, [&] {
                      return fi_tsend(node.ep, data.data(), data.size(), nullptr, to, 2, nullptr);
                  }));
    }
};

TEST_F(Long, AllOfTheMessageArrives)
{
    for (size_t length : {size_t(256 << 10), size_t(300001), LONG, 5 * LONG + 3}) {
        std::vector<char> data = pattern(length, 7), got(length);

        receive(*b, got);
        send(*a, data, b_of_a);
        Done done = next(*b);
        EXPECT_EQ(0, done.err);
        EXPECT_EQ(length, done.len);
        EXPECT_EQ(data, got);
        EXPECT_EQ(0, next(*a).err);
    }
}

TEST_F(Long, ASenderThatIsBusyIsNotWaitedFor)
{
    for (unsigned round = 0; round < 3; round++) {
        std::vector<char> data = pattern(LONG, round + 1), got(LONG);

        receive(*b, got);
        send(*a, data, b_of_a);
        EXPECT_EQ(0, next_done(*b, {b.get()}).err);
        EXPECT_EQ(data, got);
        EXPECT_EQ(0, next(*a).err);
    }
}

TEST_F(Long, TruncatedMessages)
{
    std::vector<char> data = pattern(2 * LONG, 1), got(LONG);

    receive(*b, got);
    send(*a, data, b_of_a);
    Done done = next(*b);
    EXPECT_EQ(FI_ETRUNC, done.err);
    EXPECT_EQ(LONG, done.olen);
    EXPECT_TRUE(std::equal(got.begin(), got.end(), data.begin()));
}

TEST_F(Long, MoreThan4GiB)
{
    Huge data, got;

    EXPECT_EQ(SIZE_MAX, a->info->ep_attr->max_msg_size);
    data.fill();
    ASSERT_EQ(0, fi_trecv(b->ep, got.start, Huge::SIZE, nullptr, FI_ADDR_UNSPEC, 2, 0, nullptr));
    ASSERT_EQ(0, go([&] {
                  return fi_tsend(a->ep, data.start, Huge::SIZE, nullptr, b_of_a, 2, nullptr);
              }));
    Done done = next(*b);
    EXPECT_EQ(0, done.err);
    EXPECT_EQ(Huge::SIZE, done.len);
    EXPECT_EQ(0, next(*a).err);
    EXPECT_EQ(0, memcmp(data.start, got.start, Huge::PERIOD));
    EXPECT_EQ(0, memcmp(data.tail(), got.tail(), Huge::TAIL));
}

/* One registration of more than 4 GiB: reads and writes behind 4 GiB reach their place */
TEST_F(Long, RegistrationOfMoreThan4GiB)
{
    Huge memory;
    std::vector<char> data = pattern(LONG, 9), got(LONG);
    fid_mr *mr = nullptr;

    memory.fill();
    ASSERT_EQ(0, fi_mr_reg(b->domain, memory.start, Huge::SIZE, FI_REMOTE_READ | FI_REMOTE_WRITE, 0,
                           0, 0, &mr, nullptr));
    uint64_t key = fi_mr_key(mr), tail = reinterpret_cast<uint64_t>(memory.tail());
    ASSERT_EQ(0, go([&] {
                  return fi_read(a->ep, got.data(), LONG, nullptr, b_of_a, tail, key, nullptr);
              }));
    EXPECT_EQ(0, next(*a).err);
    EXPECT_EQ(pattern(LONG, 2), got);
    ASSERT_EQ(0, go([&] {
                  return fi_write(a->ep, data.data(), LONG, nullptr, b_of_a, tail, key, nullptr);
              }));
    EXPECT_EQ(0, next(*a).err);
    EXPECT_EQ(0, memcmp(memory.tail(), data.data(), LONG));
    EXPECT_EQ(0, memcmp(memory.start, pattern(Huge::PERIOD, 1).data(), Huge::PERIOD));
    EXPECT_EQ(0, fi_close(&mr->fid));
}

} // namespace

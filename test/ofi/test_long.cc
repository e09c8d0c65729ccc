/* Long messages, which the receiver fetches. libglex lets both sides copy them: test/glex/test_help.cc */
#include "node.h"

#include <algorithm>

namespace
{

constexpr size_t LONG = 1 << 20;

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

} // namespace

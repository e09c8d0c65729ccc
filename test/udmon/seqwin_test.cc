// The sequence window: every case of arrival, and the sum that has to hold: received + lost = sent.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

extern "C" {
#include "common/seqwin.h"
}

namespace
{

struct SeqwinTest : testing::Test {
    struct seqwin win;
    uint64_t gap = 99;

    void SetUp() override
    {
        seqwin_init(&win, 0);
    }
    enum seqwin_verdict arrive(uint64_t seq)
    {
        return seqwin_arrive(&win, seq, &gap);
    }
};

TEST_F(SeqwinTest, InOrderLosesNothing)
{
    for (uint64_t seq = 0; seq < 5000; ++seq) {
        ASSERT_EQ(SEQWIN_NEW, arrive(seq));
        ASSERT_EQ(0u, gap);
    }
    EXPECT_EQ(5000u, win.received);
    EXPECT_EQ(0u, win.lost);
}

TEST_F(SeqwinTest, GapIsLostUntilItComesLate)
{
    arrive(0);
    EXPECT_EQ(SEQWIN_NEW, arrive(4));
    EXPECT_EQ(3u, gap);
    EXPECT_EQ(3u, win.lost);
    EXPECT_EQ(SEQWIN_LATE, arrive(2));
    EXPECT_EQ(0u, gap);
    EXPECT_EQ(2u, win.lost);
    EXPECT_EQ(1u, win.reordered);
    EXPECT_EQ(SEQWIN_DUPLICATE, arrive(2));
    EXPECT_EQ(SEQWIN_DUPLICATE, arrive(4));
    EXPECT_EQ(2u, win.duplicated);
    EXPECT_EQ(3u, win.received);
}

TEST_F(SeqwinTest, WhatCameBeforeTheStartIsNoHole)
{
    seqwin_init(&win, 700);
    EXPECT_EQ(SEQWIN_NEW, arrive(700));
    EXPECT_EQ(SEQWIN_DUPLICATE, arrive(699));
    EXPECT_EQ(0u, win.lost);
    EXPECT_EQ(SEQWIN_NEW, arrive(710));
    EXPECT_EQ(9u, win.lost);
}

TEST_F(SeqwinTest, EdgeOfTheWindow)
{
    arrive(SEQWIN_SIZE); // 0 is now exactly one beyond the oldest the window remembers
    EXPECT_EQ(uint64_t(SEQWIN_SIZE), win.lost);
    EXPECT_EQ(SEQWIN_STALE, arrive(0));
    EXPECT_EQ(uint64_t(SEQWIN_SIZE), win.lost);
    EXPECT_EQ(SEQWIN_LATE, arrive(1));
    EXPECT_EQ(SEQWIN_DUPLICATE, arrive(1));
    EXPECT_EQ(uint64_t(SEQWIN_SIZE) - 1, win.lost);
}

TEST_F(SeqwinTest, JumpOverTheWholeWindowForgetsTheOldBits)
{
    for (uint64_t seq = 0; seq < SEQWIN_SIZE; ++seq) {
        arrive(seq);
    }
    arrive(10 * SEQWIN_SIZE);
    EXPECT_EQ(uint64_t(9 * SEQWIN_SIZE), win.lost);
    // same bit of the ring as one that was set before the jump
    EXPECT_EQ(SEQWIN_LATE, arrive(10 * SEQWIN_SIZE - 5));
}

TEST_F(SeqwinTest, TailLossIsCountedByAdvance)
{
    arrive(0);
    EXPECT_EQ(4u, seqwin_advance(&win, 5));
    EXPECT_EQ(0u, seqwin_advance(&win, 5));
    EXPECT_EQ(0u, seqwin_advance(&win, 3));
    EXPECT_EQ(4u, win.lost);
    EXPECT_EQ(SEQWIN_LATE, arrive(3));
    EXPECT_EQ(SEQWIN_NEW, arrive(5));
    EXPECT_EQ(3u, win.lost);
}

TEST_F(SeqwinTest, EndOfTheNumbers)
{
    seqwin_init(&win, UINT64_MAX - 3);
    EXPECT_EQ(SEQWIN_NEW, arrive(UINT64_MAX - 1));
    EXPECT_EQ(2u, win.lost);
    EXPECT_EQ(SEQWIN_LATE, arrive(UINT64_MAX - 3));
}

// Random losses, doubles and displacement, against plain sets.
TEST_F(SeqwinTest, AgreesWithAModel)
{
    std::mt19937 random(1);
    const uint64_t count = 200000;
    std::vector<uint64_t> order;

    for (uint64_t seq = 0; seq < count; ++seq) {
        if (random() % 10 != 0) {
            order.push_back(seq);
        }
        if (random() % 20 == 0) {
            order.push_back(seq);
        }
    }
    for (size_t i = 0; i + 300 < order.size(); i += 300) {
        std::shuffle(order.begin() + i, order.begin() + i + 300, random);
    }
    std::vector<bool> seen(count);
    uint64_t highest = 0, received = 0, duplicated = 0;
    for (uint64_t seq : order) {
        enum seqwin_verdict verdict = arrive(seq);
        if (seen[seq]) {
            ASSERT_EQ(SEQWIN_DUPLICATE, verdict) << seq;
            ++duplicated;
            continue;
        }
        ASSERT_EQ((seq >= highest) ? SEQWIN_NEW : SEQWIN_LATE, verdict) << seq;
        seen[seq] = true;
        highest = std::max(highest, seq + 1);
        ++received;
    }
    EXPECT_EQ(received, win.received);
    EXPECT_EQ(duplicated, win.duplicated);
    EXPECT_EQ(highest - received, win.lost);
    EXPECT_EQ(0u, win.stale);
}

} // namespace

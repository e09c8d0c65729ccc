// Limits of a sender: what it may send at once and a second, and its share of the history.
#include <gtest/gtest.h>

#include <string>

extern "C" {
#include "udmon/collector/quota.h"
}

namespace
{

constexpr uint64_t SECOND = 1000000000;

struct QuotaTest : testing::Test {
    struct quota_limits limits;
    struct quota quota = {}, other = {};
    struct quota_total total = {};
    uint64_t now = 100 * QUOTA_WINDOW_S * SECOND;

    void SetUp() override
    {
        quota_defaults(&limits, false);
    }
    int parse(std::string text)
    {
        return quota_parse(&limits, &text[0]);
    }
    // Records of `bytes` that are taken now.
    int take(int count, size_t bytes)
    {
        int taken = 0;

        for (int i = 0; i < count; ++i) {
            taken += (quota_take(&quota, &limits, bytes, now) < 0);
        }
        return taken;
    }
    int store(struct quota *of, int count)
    {
        int stored = 0;

        for (int i = 0; i < count; ++i) {
            if (quota_may_store(of, &limits, &total, now)) {
                quota_stored(of);
                ++total.stored;
                ++stored;
            }
        }
        return stored;
    }
};

TEST_F(QuotaTest, OptionsAreRead)
{
    EXPECT_EQ(0, parse("series=5,samples=6,bytes=7,history=8"));
    EXPECT_EQ(5, limits.limits[QUOTA_SERIES]);
    EXPECT_EQ(6, limits.limits[QUOTA_SAMPLES]);
    EXPECT_EQ(7, limits.limits[QUOTA_BYTES]);
    EXPECT_EQ(8, limits.limits[QUOTA_HISTORY]);
    for (const char *wrong : {"series", "series=", "series=x", "series=1x", "=1", "nodes=1",
                              "series=-1", "series=99999999999999999999", "history=101"}) {
        EXPECT_EQ(-EINVAL, parse(wrong)) << wrong;
    }
    quota_defaults(&limits, true);
    EXPECT_EQ(0, parse("nodes=3"));
}

// A queue that waited arrives at once; in the long run the rate counts.
TEST_F(QuotaTest, SamplesOfAMinuteMayComeAtOnce)
{
    ASSERT_EQ(0, parse("samples=10"));
    EXPECT_EQ(10 * QUOTA_BURST_S, take(1000, 1));
    EXPECT_EQ(1000u - 10 * QUOTA_BURST_S, quota.refused[QUOTA_SAMPLES]);
    now += 2 * SECOND;
    EXPECT_EQ(20, take(1000, 1));
    now += 3600 * SECOND;
    EXPECT_EQ(10 * QUOTA_BURST_S, take(1000, 1));
    EXPECT_EQ(3000u, quota.all_bytes);
}

TEST_F(QuotaTest, BytesAreLimitedAlone)
{
    ASSERT_EQ(0, parse("bytes=100"));
    EXPECT_EQ(60, take(1000, 100));
    EXPECT_EQ(940u, quota.refused[QUOTA_BYTES]);
    EXPECT_EQ(0u, quota.refused[QUOTA_SAMPLES]);
}

TEST_F(QuotaTest, AShareOfTheHistoryIsOfTheMinuteBefore)
{
    const int sure = QUOTA_HISTORY_MIN * QUOTA_WINDOW_S;

    ASSERT_EQ(0, parse("history=25"));
    EXPECT_EQ(sure, store(&quota, sure + 100)); // nobody has stored anything before
    EXPECT_EQ(100u, quota.refused[QUOTA_HISTORY]);
    EXPECT_EQ(10, store(&other, 10)); // the other sender has its own share
    for (int i = 0; i < 5; ++i) {
        struct quota another = {};
        EXPECT_EQ(sure, store(&another, sure));
    }
    now += QUOTA_WINDOW_S * SECOND;
    EXPECT_EQ((6 * sure + 10) / 4, store(&quota, 2 * sure)); // of all samples of the minute before
    now += 2 * QUOTA_WINDOW_S * SECOND;
    EXPECT_EQ(sure, store(&quota, 2 * sure)); // and a minute without samples ends it
    ASSERT_EQ(0, parse("history=100"));
    EXPECT_EQ(2 * sure, store(&quota, 2 * sure)); // no limit
}

} // namespace

// Limits of a sender: what it may send at once and a second, and its share of the history.
#include <gtest/gtest.h>

#include <cstring>
#include <string>

extern "C" {
#include "udmon/collector/quota.h"
#include "udmon/lib/chan/queue.h"
#include "udmon/lib/metric.h"
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
    int parse(const std::string &text)
    {
        return quota_parse(&limits, text.c_str());
    }
    // Records of `bytes` that are taken now.
    int take(int count, size_t bytes)
    {
        int taken = 0;

        for (int i = 0; i < count; ++i) {
            taken += (quota_take(&quota, &limits, &total, bytes, now) < 0);
        }
        return taken;
    }
    int store(struct quota *of, int count)
    {
        int stored = 0;

        quota_take(of, &limits, &total, 1, now);
        for (int i = 0; i < count; ++i) {
            if (quota_may_store(of, &limits)) {
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
                              "series=-1", "series=99999999999999999999", "history=101", "",
                              "series=1,", "series=1,,bytes=1", "seriess=1"}) {
        EXPECT_EQ(-EINVAL, parse(wrong)) << wrong;
    }
    quota_defaults(&limits, true);
    EXPECT_EQ(0, parse("nodes=3"));
}

// A queue that waited arrives at once; in the long run the rate counts.
TEST_F(QuotaTest, SamplesThatWaitedMayComeAtOnce)
{
    ASSERT_EQ(0, parse("samples=10"));
    EXPECT_EQ(10 * QUOTA_BURST_S, take(2000, 1));
    EXPECT_EQ(2000u - 10 * QUOTA_BURST_S, quota.refused[QUOTA_SAMPLES]);
    now += 2 * SECOND;
    EXPECT_EQ(20, take(2000, 1));
    now += 3600 * SECOND;
    EXPECT_EQ(10 * QUOTA_BURST_S, take(2000, 1));
    EXPECT_EQ(6000u, quota.all_bytes);
}

TEST_F(QuotaTest, BytesAreLimitedAlone)
{
    ASSERT_EQ(0, parse("bytes=100"));
    EXPECT_EQ(int(QUOTA_BURST_S), take(1000, 100));
    EXPECT_EQ(1000u - QUOTA_BURST_S, quota.refused[QUOTA_BYTES]);
    EXPECT_EQ(0u, quota.refused[QUOTA_SAMPLES]);
}

TEST_F(QuotaTest, AShareOfTheHistoryIsOfTheMinuteBefore)
{
    const int burst = 100 * QUOTA_BURST_S; // stored without regard to the share
    int all;

    ASSERT_EQ(0, parse("samples=100,history=25"));
    EXPECT_EQ(burst, store(&quota, burst + 10));
    EXPECT_EQ(10u, quota.refused[QUOTA_HISTORY]);
    EXPECT_EQ(10, store(&other, 10)); // the other sender has its own share
    for (int i = 0; i < 5; ++i) {
        struct quota another = {};
        EXPECT_EQ(burst, store(&another, burst));
    }
    all = 6 * burst + 10;
    now += QUOTA_WINDOW_S * SECOND;
    EXPECT_EQ(burst, store(&quota, 2 * burst));
    now += 10 * SECOND;
    EXPECT_EQ(10 * all / (4 * QUOTA_WINDOW_S), store(&quota, burst)); // of the minute before
    now += 2 * QUOTA_WINDOW_S * SECOND;
    // A minute without samples: a quarter of the limit of samples.
    EXPECT_EQ(2 * QUOTA_WINDOW_S * 100 / QUOTA_HISTORY_PART, store(&quota, burst));
    ASSERT_EQ(0, parse("history=100"));
    EXPECT_EQ(2 * burst, store(&quota, 2 * burst)); // no limit
}

// A relay was without its upper collector until its queue was full, with samples of one node.
TEST_F(QuotaTest, AFullQueueOfARelayIsTakenAndStored)
{
    const size_t record = sizeof(struct udmon_metric_header) + strlen("xn"); // the least
    const size_t count = (64 << 20) / udmon_queue_space(record); // udmon-collector's --queue
    struct quota_limits of_relays;
    size_t stored = 0;

    quota_defaults(&of_relays, true);
    for (size_t i = 0; i < count; ++i) {
        if ((quota_take(&quota, &limits, &total, record, now) < 0) &&
            (quota_take(&other, &of_relays, &total, record, now) < 0) &&
            quota_may_store(&quota, &limits) && quota_may_store(&other, &of_relays)) {
            quota_stored(&quota);
            quota_stored(&other);
            ++total.stored;
            ++stored;
        }
    }
    EXPECT_EQ(count, stored);
}

} // namespace

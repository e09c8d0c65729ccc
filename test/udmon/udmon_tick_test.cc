// When the agent's sensors sample, with clocks of the test: the time of day is stepped, timers fire
// early and late.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

extern "C" {
#include "udmon/agent/tick.h"
}

namespace
{

constexpr uint64_t SECOND = 1000000000;

// A sensor of a host: a monotonic clock, and the time of day beside it.
struct TickTest : testing::Test {
    uint64_t now = 12345678901, offset = 1700000000 * SECOND;
    uint64_t early_percent = 0, late = 0; // of each timer
    struct tick tick = {};
    std::vector<uint64_t> samples; // by the time of day

    uint64_t time() const
    {
        return now + offset;
    }
    void begin(uint64_t interval_ns)
    {
        tick_begin(&tick, interval_ns, time());
    }
    // Runs the timer until the sensor has sampled `count` times more.
    void sample(int count)
    {
        size_t until = samples.size() + count;

        for (int timers = 0; samples.size() < until; ++timers) {
            ASSERT_LT(timers, 10 * count);
            wait(tick_wait_ns(&tick, time()));
            if (tick_due(&tick, time())) {
                samples.push_back(time());
            }
        }
    }
    void wait(uint64_t wait_ns)
    {
        now += wait_ns - wait_ns * early_percent / 100 + late;
    }
    // Steps the time of day, in the middle of a period.
    void step(int64_t ns)
    {
        now += tick.interval_ns / 2;
        offset += ns;
    }
};

TEST_F(TickTest, HostsSampleAtTheSameInstants)
{
    std::vector<uint64_t> first;

    begin(3 * SECOND);
    sample(5);
    for (uint64_t at : samples) {
        EXPECT_EQ(0u, at % (3 * SECOND));
    }
    first.swap(samples);
    now += 1234567890; // a host that has run for another time
    offset = first[0] - 1 - now;
    begin(3 * SECOND);
    sample(5);
    EXPECT_EQ(first, samples);
}

TEST_F(TickTest, EarlyTimerSamplesNoPeriodTwice)
{
    early_percent = 1;
    begin(SECOND);
    sample(20);
    for (size_t i = 1; i < samples.size(); ++i) {
        EXPECT_EQ(samples[i - 1] / SECOND + 1, samples[i] / SECOND);
    }
}

TEST_F(TickTest, LatenessIsMeasuredAndDoesNotAdd)
{
    late = SECOND / 5;
    begin(SECOND);
    sample(10);
    for (uint64_t at : samples) {
        EXPECT_EQ(late, at % SECOND);
    }
    EXPECT_EQ(10u, tick.count);
    EXPECT_EQ(10 * late, tick.late_ns);
    EXPECT_EQ(late, tick_late_greatest(&tick));
    late = SECOND / 10;
    sample(1);
    EXPECT_EQ(late, tick_late_greatest(&tick)) << "the greatest since the last question";
    EXPECT_EQ(0u, tick_late_greatest(&tick));
}

TEST_F(TickTest, MissedPeriodsAreLeftOut)
{
    begin(SECOND);
    sample(1);
    now += 10 * SECOND + SECOND / 3;
    sample(2);
    EXPECT_EQ(samples[0] + 11 * SECOND, samples[1]);
    EXPECT_EQ(samples[1] + SECOND, samples[2]);
}

// The clock is stepped while the timer runs: it fires in a period that was sampled, or far away.
TEST_F(TickTest, StepsOfTheClock)
{
    for (int64_t step_ms : {-100, -900, -1100, 100, 700, 1100}) {
        uint64_t wait, before, period;

        samples.clear();
        begin(SECOND);
        sample(3);
        before = now;
        period = tick.period;
        wait = tick_wait_ns(&tick, time());
        step(step_ms * 1000000);
        now += wait - SECOND / 2;
        if (tick_due(&tick, time())) {
            samples.push_back(time());
        }
        sample(2);
        EXPECT_LE(now - before, 5 * SECOND) << step_ms;
        for (size_t i = 1; i < samples.size(); ++i) {
            EXPECT_LT(samples[i - 1] / SECOND, samples[i] / SECOND) << step_ms;
        }
        EXPECT_LT(period, samples[3] / SECOND) << step_ms;
        EXPECT_EQ(0u, samples.back() % SECOND) << step_ms;
    }
}

// After a large step back, the sensor does not wait for the old time.
TEST_F(TickTest, LargeStepsBack)
{
    uint64_t before;

    begin(SECOND);
    sample(3);
    before = now;
    step(-3600 * static_cast<int64_t>(SECOND));
    sample(3);
    EXPECT_LE(now - before, 5 * SECOND);
    EXPECT_EQ(0u, samples.back() % SECOND);
    EXPECT_EQ(samples[samples.size() - 2] + SECOND, samples.back());
}

// A new interval of a kept sensor: the counters go on.
TEST_F(TickTest, NewInterval)
{
    begin(SECOND);
    sample(3);
    begin(7 * SECOND);
    sample(2);
    EXPECT_EQ(0u, samples[3] % (7 * SECOND));
    EXPECT_EQ(samples[3] + 7 * SECOND, samples[4]);
    EXPECT_EQ(5u, tick.count);
}

} // namespace

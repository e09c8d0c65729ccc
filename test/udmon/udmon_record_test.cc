// What the agent's recorder keeps, with a clock of the test: which samples come back, for how long,
// and within which memory.
#include <gtest/gtest.h>

#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

extern "C" {
#include "udmon/agent/record.h"
}

namespace
{

constexpr uint64_t SECOND = 1000000000, TENTH = SECOND / 10, BEGIN = 5 * SECOND;

struct RecordTest : testing::Test {
    struct record *record = nullptr;
    uint64_t now = BEGIN;

    void begin(uint64_t seconds, size_t bytes = 1 << 20)
    {
        record = record_new(seconds * SECOND, bytes, now);
        ASSERT_NE(record, nullptr);
    }
    ~RecordTest() override
    {
        record_free(record);
    }
    bool add(const std::string &name, double value, uint64_t time_ns, int counter = 0)
    {
        struct udmon_metric metric = {};

        metric.name = name.c_str();
        metric.value = value;
        metric.time_ns = time_ns;
        metric.counter = counter;
        return record_add(record, &metric, now);
    }
    // 10 Hz: value n at n tenths of a second.
    void run(const std::string &name, unsigned samples)
    {
        for (unsigned i = 0; i < samples; ++i, now += TENTH) {
            add(name, (now - BEGIN) / TENTH, now - BEGIN);
            record_expire(record, now);
        }
    }
    struct record_stats stats()
    {
        struct record_stats now_stats;

        record_tell(record, now, &now_stats);
        return now_stats;
    }
    std::vector<uint8_t> save()
    {
        uint8_t *data;
        size_t length;

        EXPECT_EQ(record_save(record, &data, &length), 0);
        std::vector<uint8_t> saved(data, data + length);
        free(data);
        return saved;
    }
    static int print(const std::vector<uint8_t> &saved, std::string &text)
    {
        char *data = nullptr;
        size_t length = 0;
        FILE *out = open_memstream(&data, &length);
        int ret = record_print(saved.data(), saved.size(), "n1", out);

        fclose(out);
        text.assign(data, length);
        free(data);
        return ret;
    }
    std::string print()
    {
        std::string text;

        EXPECT_EQ(print(save(), text), 0);
        return text;
    }
    // The first number in the text of a run().
    double first()
    {
        std::string text = print();

        return strtod(text.c_str() + text.find("} ") + 2, nullptr);
    }
};

TEST_F(RecordTest, PrintsOpenMetrics)
{
    begin(600);
    add("a_b", -0.0, SECOND);
    add("a{x=\"1\"}", 0.1, SECOND + 1999999);
    add("a", INFINITY, SECOND);
    add("m{node=\"0\"}", 1e300, SECOND);
    add("a", NAN, 2 * SECOND);
    add("a", 1.0 / 3, SECOND, 1);
    EXPECT_EQ(print(), "# TYPE a gauge\n"
                       "a{node=\"n1\"} +Inf 1.000\n"
                       "a{node=\"n1\"} NaN 2.000\n"
                       "a{node=\"n1\",x=\"1\"} 0.1 1.001\n"
                       "# TYPE a counter\n"
                       "a_total{node=\"n1\"} 0.33333333333333331 1.000\n"
                       "# TYPE a_b gauge\n"
                       "a_b{node=\"n1\"} -0 1.000\n"
                       "# TYPE m gauge\n"
                       "m{node=\"n1\",exported_node=\"0\"} 1e+300 1.000\n"
                       "# EOF\n");
}

// promtool refuses samples that go back in time, and two samples of one time.
TEST_F(RecordTest, SamplesAreInTheOrderOfTime)
{
    begin(600);
    for (uint64_t time : {5, 6, 2, 6, 7}) {
        add("a", time, time * SECOND);
    }
    EXPECT_EQ(print(), "# TYPE a gauge\na{node=\"n1\"} 2 2.000\na{node=\"n1\"} 5 5.000\n"
                       "a{node=\"n1\"} 6 6.000\na{node=\"n1\"} 7 7.000\n# EOF\n");
}

TEST_F(RecordTest, KeepsEverySampleOfTheTime)
{
    std::string expected = "# TYPE a gauge\n";
    char line[64];

    begin(600);
    run("a", 1000);
    for (unsigned i = 0; i < 1000; ++i) {
        snprintf(line, sizeof(line), "a{node=\"n1\"} %u %u.%u00\n", i, i / 10, i % 10);
        expected += line;
    }
    EXPECT_EQ(print(), expected + "# EOF\n");
    EXPECT_EQ(stats().complete_ns, 100 * SECOND);
    EXPECT_EQ(stats().series, 1u);
}

// A chunk has 12 seconds.
TEST_F(RecordTest, DropsSamplesByAge)
{
    begin(60);
    run("a", 2000);
    EXPECT_LE(first(), 1400);
    EXPECT_GE(first(), 1400 - 120);
    EXPECT_GE(stats().complete_ns, 60 * SECOND);
    EXPECT_LE(stats().complete_ns, 72 * SECOND);
}

TEST_F(RecordTest, DropsTheOldestIfTheMemoryIsFull)
{
    begin(3600, 65536);
    for (unsigned i = 0; i < 10000; ++i, now += TENTH) {
        add("a", sin(i), now);
        add("b", cos(i), now);
        ASSERT_LE(stats().bytes, 65536u);
    }
    EXPECT_GT(stats().bytes, 60000u);
    EXPECT_LT(stats().complete_ns, 1000 * SECOND);
    EXPECT_GT(stats().complete_ns, 100 * SECOND);
}

TEST_F(RecordTest, RefusesSeriesWithoutRoom)
{
    unsigned accepted = 0;

    begin(3600, 65536);
    for (unsigned i = 0; i < 100; ++i) {
        accepted += add("a" + std::to_string(i), i, now);
    }
    EXPECT_GT(accepted, 10u);
    EXPECT_LT(accepted, 20u);
    EXPECT_EQ(stats().series, accepted);
    EXPECT_EQ(stats().refused, 100 - accepted);
    EXPECT_TRUE(add("a0", 1, now));
}

TEST_F(RecordTest, ForgetsSeriesThatHaveEnded)
{
    begin(60);
    for (unsigned i = 0; i < 130; ++i, now += TENTH) {
        add("ended", i, now);
        add("a", i, now);
        record_expire(record, now);
    }
    EXPECT_EQ(stats().series, 2u);
    size_t before = stats().bytes;
    run("a", 1000);
    EXPECT_EQ(stats().series, 1u);
    EXPECT_EQ(print().find("ended"), std::string::npos);
    EXPECT_LT(stats().bytes, before);
    EXPECT_TRUE(add("ended", 1, now));
    EXPECT_EQ(stats().series, 2u);
}

// The printing program reads what another process has sent.
TEST_F(RecordTest, RefusesDamagedRecordings)
{
    std::string text;

    begin(600);
    run("a{x=\"1\"}", 300);
    std::vector<uint8_t> saved = save();
    for (size_t length = 0; length < saved.size(); ++length) {
        EXPECT_EQ(print({saved.begin(), saved.begin() + length}, text), -EPROTO);
        EXPECT_EQ(text.find("# EOF"), std::string::npos);
    }
    for (size_t i = 0; i < saved.size(); ++i) { // whatever it prints, it reads nothing beyond
        std::vector<uint8_t> damaged = saved;
        damaged[i] ^= 0xff;
        print(damaged, text);
    }
}

} // namespace

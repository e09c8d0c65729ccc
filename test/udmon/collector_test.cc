// The collector's parts, each by itself: what it keeps, and what it shows.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <sys/resource.h>
#include <unistd.h>
#include <vector>

extern "C" {
#include "udmon/collector/api.h"
#include "udmon/collector/heatmap.h"
#include "udmon/collector/history.h"
#include "udmon/collector/job.h"
#include "udmon/collector/metrics.h"
#include "udmon/collector/overview.h"
#include "udmon/collector/remote.h"
#include "udmon/collector/store.h"
#include "udmon/collector/writer.h"
#include "udmon/include/udmon.h"
#include "udmon/lib/base/chunk.h"
#include "udmon/lib/net/loop.h"
#include "udmon/lib/metric.h"
}

#include "pch/sanitizer.h"

namespace
{

// A sample as an agent sends it, and as a collector takes it.
std::string record(const std::string &name, bool counter = false)
{
    struct udmon_metric_header header = {};

    header.version = UDMON_METRIC_VERSION;
    header.flags = counter ? UDMON_METRIC_COUNTER : 0;
    header.name_length = htole16(name.size());
    return std::string(reinterpret_cast<char *>(&header), sizeof(header)) + name;
}

bool taken(const std::string &name)
{
    char text[UDMON_METRIC_NAME_MAX + 1];
    std::string bytes = record(name);
    struct udmon_metric metric;

    return udmon_metric_decode(bytes.data(), bytes.size(), &metric, text) == 0;
}

// Prometheus refuses a whole page for one line of these.
TEST(MetricNames, WhatPrometheusRefusesIsNotTaken)
{
    for (const char *good : {"a", "a{b=\"1\"}", "a{b=\"1\",bc=\"1\"}", "a{bc=\"1\",b=\"1\"}",
                             "a{b=\"c=\",c=\"\"}", "a{_b=\"1\"}", "a{b=\",b=\",c=\"1\"}"}) {
        EXPECT_TRUE(taken(good)) << good;
    }
    for (const char *bad :
         {"dup{a=\"1\",a=\"2\"}", "dup{a=\"1\",b=\"2\",a=\"1\"}", "a{__name__=\"b\"}",
          "a{b=\"1\",__name__=\"b\"}", "a{__x=\"1\"}", "a{b=\"1\",}", "a{}", "a{b}", "1a", ""}) {
        EXPECT_FALSE(taken(bad)) << bad;
    }
}

TEST(MetricNames, ALabelIsCutBetweenCharacters)
{
    const char *at = "{a=\"\u00e4\\n\\\\\u20ac\"}";
    struct udmon_label label;
    char text[9];

    ASSERT_TRUE(udmon_label_next(&at, &label));
    EXPECT_EQ(7u, udmon_label_value(&label, text, 8));
    EXPECT_STREQ("\u00e4\n\\\u20ac", text);
    EXPECT_EQ(4u, udmon_label_value(&label, text, 7));
    EXPECT_STREQ("\u00e4\n\\", text);
    EXPECT_EQ(0u, udmon_label_value(&label, text, 2));
}

// Before the last tidying was due, however short ago the machine was started.
uint64_t long_ago()
{
    return udmon_now_ns() - UINT64_C(3600000000000);
}

// What a chunk gives back is what it was given, to the last bit, in no more bytes than there is
// room for.
TEST(Chunk, GivesBackEachBit)
{
    unsigned seed = 1;
    auto random = [&] {
        return uint64_t(rand_r(&seed)) << 33 ^ uint64_t(rand_r(&seed)) << 12 ^ rand_r(&seed);
    };
    auto chunk = std::make_unique<struct chunk>(), back = std::make_unique<struct chunk>();
    uint8_t bytes[CHUNK_BYTES];

    for (int round = 0; round < 5000; ++round) {
        int kind = random() % 7;
        int64_t time_ms = 1700000000000 + int64_t(random() % 1000);
        chunk->count = 1 + random() % CHUNK_SAMPLES;
        chunk->columns = 1 + random() % CHUNK_COLUMNS;
        for (unsigned i = 0; i < chunk->count; ++i) {
            time_ms = (kind == 6) ? int64_t(random()) : time_ms + 998 + int64_t(random() % 5);
            chunk->times[i] = time_ms;
            for (unsigned k = 0; k < chunk->columns; ++k) {
                uint64_t bits = random();
                double any;
                memcpy(&any, &bits, sizeof(any));
                const double values[] = {double(i),
                                         (1000000.0 + i * 99 + random() % 3) / 100,
                                         random() / 7.0,
                                         4096.0 * (random() % 100000),
                                         random() % 9 ? 1.5 : NAN,
                                         random() % 9 ? 0.0 :
                                         random() % 2 ? -0.0 :
                                                        INFINITY,
                                         any};
                chunk->values[k][i] = values[kind];
            }
        }
        size_t length = chunk_encode(chunk.get(), bytes);
        ASSERT_LE(length, size_t(CHUNK_BYTES));
        ASSERT_EQ(0, chunk_decode(bytes, length, back.get())) << kind;
        ASSERT_EQ(chunk->count, back->count);
        ASSERT_EQ(0, memcmp(chunk->times, back->times, 8 * chunk->count));
        for (unsigned k = 0; k < chunk->columns; ++k) {
            ASSERT_EQ(0, memcmp(chunk->values[k], back->values[k], 8 * chunk->count)) << kind;
        }
        bytes[random() % length] ^=
            1 << (random() % 8); // a damaged one is refused, or gives other values
        chunk_decode(bytes, random() % (length + 1), back.get());
    }
}

// A counter of an idle host, each second: at most 2.5 bytes a sample with times.
TEST(Chunk, IsSmall)
{
    auto chunk = std::make_unique<struct chunk>();
    uint8_t bytes[CHUNK_BYTES];

    chunk->count = CHUNK_SAMPLES;
    chunk->columns = 1;
    for (int i = 0; i < CHUNK_SAMPLES; ++i) {
        chunk->times[i] = 1700000000000 + i * 1000 + i % 2;
        chunk->values[0][i] = (123456789 + i * 99 + (i * 7) % 5) / 100.0;
    }
    EXPECT_LE(chunk_encode(chunk.get(), bytes), size_t(2.5 * CHUNK_SAMPLES));
}

struct HistoryTest : testing::Test {
    char file[40] = "/tmp/udmon-history-XXXXXX";
    struct history history;
    struct store store;
    uint64_t now_ms = 1;

    void SetUp() override
    {
        close(mkstemp(file));
        store_init(&store);
        ASSERT_EQ(0, history_open(&history, file, UINT64_C(1) << 32, INT64_C(1) << 40));
    }
    void TearDown() override
    {
        history_close(&history);
        store_free(&store);
        for (const char *end : {"", "-wal", "-shm", "-lock"}) {
            unlink((std::string(file) + end).c_str());
        }
    }
    // The counter of a name, if the test has made one, else the gauge.
    struct series *found(const std::string &node, const std::string &name)
    {
        struct host *host = store_host(&store, node.c_str());
        struct series *counter = store_find_series(host, name.c_str(), 1);

        return (counter != nullptr) ? counter : store_series(host, name.c_str());
    }
    void add(const std::string &node, const std::string &name, double value)
    {
        history_add(&history, found(node, name), now_ms++, value);
    }
    int64_t ask(const std::string &query)
    {
        sqlite3_stmt *statement = nullptr;
        int64_t number = -1;

        EXPECT_EQ(SQLITE_OK,
                  sqlite3_prepare_v2(history.db, query.c_str(), -1, &statement, nullptr));
        if (sqlite3_step(statement) == SQLITE_ROW) {
            number = sqlite3_column_int64(statement, 0);
        }
        sqlite3_finalize(statement);
        return number;
    }
    // Write what is in memory.
    void finish()
    {
        struct host *host;

        LIST_FOREACH(host, &store.hosts, list) {
            store_each(
                host,
                [](struct series *series, void *to) {
                    history_finish(static_cast<struct history *>(to), series);
                },
                &history);
        }
        history_commit(&history);
    }
    // What a level has of a series, as any reader sees it.
    std::vector<struct history_point> read(const std::string &node, const std::string &name,
                                           int level = 0)
    {
        const struct series *series = found(node, name);
        int64_t key = ask("SELECT series.id FROM series JOIN host ON host.id = series.host WHERE"
                          " host.name = '" +
                          node + "' AND series.name = '" + name + "'");
        struct history_points points;

        EXPECT_EQ(0, history_read(history.db, series, key, level, 0, INT64_MAX, nullptr, &points));
        std::vector<struct history_point> all(points.points, points.points + points.count);
        free(points.points);
        return all;
    }
    // Samples stored of a node, all of which have its own value.
    int64_t samples(const std::string &node, double value)
    {
        int64_t count = 0;

        for (int i = 0; i < 50; ++i) {
            for (const struct history_point &point : read(node, "load" + std::to_string(i))) {
                EXPECT_EQ(value, point.value);
                ++count;
            }
        }
        return count;
    }
};

// A transaction that a full disk undoes takes rows along whose numbers are given to others later.
TEST_F(HistoryTest, AFullDiskMixesNoNodesUp)
{
    uint64_t sent[4] = {0};

    add("node0", "load1", 0);
    ++sent[0];
    history_commit(&history);
    ASSERT_EQ(1, samples("node0", 0));
    finish();
    now_ms = 10; // each sample has a time of its own
    // As large as it is, and room for a few rows: node1 and node2 come while it is full.
    sqlite3_exec(
        history.db,
        ("PRAGMA max_page_count = " + std::to_string(ask("PRAGMA page_count") + 2)).c_str(),
        nullptr, nullptr, nullptr);
    for (int i = 0; i < 20000; ++i) {
        for (int node = 0; node < 3; ++node) {
            add("node" + std::to_string(node), "load" + std::to_string(i % 50), node);
            ++sent[node];
        }
        if (i % 100 == 99) {
            history_commit(&history);
        }
    }
    sqlite3_exec(history.db, "PRAGMA max_page_count = 1000000", nullptr, nullptr, nullptr);
    history_commit(&history);
    for (int i = 0; i < 100; ++i) {
        for (int node = 3; node >= 0; --node) { // node3 is new, and comes first
            add("node" + std::to_string(node), "load" + std::to_string(i % 50), node);
            ++sent[node];
        }
    }
    finish();
    uint64_t stored = 0, all = 0;
    for (int node = 0; node < 4; ++node) {
        int64_t of_node = samples("node" + std::to_string(node), node);
        EXPECT_GE(of_node, 100);
        EXPECT_LE(of_node, int64_t(sent[node]));
        stored += of_node;
        all += sent[node];
    }
    EXPECT_GT(history.unstored, 0u);
    EXPECT_EQ(all, stored + history.unstored); // what is not stored is counted
    EXPECT_EQ(0, ask("SELECT count(*) FROM chunk WHERE series NOT IN (SELECT id FROM series)"));
    EXPECT_EQ(0, ask("SELECT count(*) FROM series WHERE host NOT IN (SELECT id FROM host)"));
    EXPECT_EQ(int64_t(stored), ask("SELECT sum(count) FROM chunk"));
}

struct StoreTest : testing::Test {
    struct store store;

    void SetUp() override
    {
        store_init(&store);
    }
    void TearDown() override
    {
        store_free(&store);
    }
    struct series *add(const std::string &node, const std::string &name, double value, bool counter,
                       uint64_t time_ns, uint64_t arrived_ns, bool late = false)
    {
        struct host *host = store_host(&store, node.c_str());
        struct series *series =
            counter ? store_counter(host, name.c_str()) : store_series(host, name.c_str());
        struct udmon_metric metric = {name.c_str(), time_ns, value, counter, 0, nullptr};

        host->connected = 1;
        store_sample(series, &metric, late, arrived_ns);
        return series;
    }
    // What `write` writes.
    template <typename Write> static std::string written(Write write)
    {
        char *bytes = nullptr;
        size_t length = 0;
        FILE *out = open_memstream(&bytes, &length);

        write(out);
        fclose(out);
        std::string text(bytes, length);
        free(bytes);
        return text;
    }
    std::string page(int format = METRICS_TEXT)
    {
        return written([&](FILE *out) {
            metrics_write(&store, nullptr, nullptr, nullptr, nullptr, format, out);
        });
    }
    static size_t count(const std::string &text, const std::string &what)
    {
        size_t n = 0;

        for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at) {
            ++n;
        }
        return n;
    }
};

// One of long ago keeps its time where the agent's clock is right: it has waited for the collector.
TEST_F(StoreTest, OldSamplesKeepTheirTimeIfTheClockIsRight)
{
    const int64_t second = 1000, hour = 3600 * second;

    EXPECT_TRUE(store_is_dated(0, UDMON_CLOCK_UNKNOWN));
    EXPECT_TRUE(store_is_dated(10 * second, 0));
    EXPECT_FALSE(store_is_dated(11 * second, 0));
    EXPECT_TRUE(store_is_dated(-300 * second, UDMON_CLOCK_UNKNOWN));
    EXPECT_FALSE(store_is_dated(-301 * second, UDMON_CLOCK_UNKNOWN));
    EXPECT_TRUE(store_is_dated(-5 * hour, 0));
    EXPECT_TRUE(store_is_dated(-5 * hour, -300));
    EXPECT_FALSE(store_is_dated(-5 * hour, -301));
    EXPECT_FALSE(store_is_dated(-5 * hour, 11));
    EXPECT_FALSE(store_is_dated(-5 * hour, -5 * 3600));
}

// What counts is when a sample came: an agent's clock may be wrong, and be set right.
TEST_F(StoreTest, TheLatestIsTheOneThatCameLast)
{
    const uint64_t now = udmon_now_ns(), hour = UINT64_C(3600000000000), clock = 1000 * hour;

    add("n", "load1", 1, false, clock + hour, now); // an hour ahead
    EXPECT_EQ(2, add("n", "load1", 2, false, clock, now + 1)->value);
    EXPECT_EQ(2, add("n", "load1", 3, false, clock - 1, now + 2, true)->value); // came late
    add("slow", "load1", 4, false, clock - hour, now);
    EXPECT_EQ(1u, count(page(), "load1{node=\"slow\"} 4\n")); // behind, and shown
}

TEST_F(StoreTest, RateOfACounterThatIsRestarted)
{
    add("n", "c", 10, true, 1000000000, 1);
    EXPECT_EQ(5, add("n", "c", 20, true, 3000000000, 2)->rate);
    EXPECT_EQ(0, add("n", "c", 1, true, 4000000000, 3)->rate);
    EXPECT_EQ(2, add("n", "c", 3, true, 5000000000, 4)->rate);
}

TEST_F(StoreTest, ANodeThatIsGoneHasNoSamples)
{
    add("here", "load1", 1, false, 1, udmon_now_ns());
    add("gone", "load1", 2, false, 1, udmon_now_ns());
    store_host(&store, "gone")->connected = 0;
    std::string text = page();
    EXPECT_EQ(1u, count(text, "load1{node=\"here\"} 1\n"));
    EXPECT_EQ(0u, count(text, "load1{node=\"gone\"}"));
    EXPECT_EQ(1u, count(text, "udmon_node_up{node=\"gone\"} 0\n"));
}

TEST_F(StoreTest, FormsOfCountersAndUnits)
{
    add("n", "node_cpu_seconds{mode=\"idle\"}", 1.5, true, 1, udmon_now_ns());
    add("n", "x_total", 1, false, 1, udmon_now_ns());
    add("n", "y_total", 1, false, 1, udmon_now_ns()); // is one name with counter y
    add("n", "y", 2, true, 1, udmon_now_ns());
    add("n", "z", 3, true, 1, udmon_now_ns()); // a gauge and a counter of Go's programs
    add("n", "z", 4, false, 1, udmon_now_ns());
    std::string text = page(), open = page(METRICS_OPENMETRICS);
    EXPECT_EQ(1u, count(text, "# TYPE node_cpu_seconds_total counter\n"));
    EXPECT_EQ(0u, count(text, "# UNIT"));
    EXPECT_EQ(1u,
              count(open, "# TYPE node_cpu_seconds counter\n# UNIT node_cpu_seconds seconds\n"));
    for (const std::string &each : {text, open}) {
        EXPECT_EQ(1u, count(each, "node_cpu_seconds_total{node=\"n\",mode=\"idle\"} 1.5\n"));
        EXPECT_EQ(1u, count(each, "\nx_total{node=\"n\"} 1\n"));
        EXPECT_EQ(1u, count(each, "\ny_total{node=\"n\"} 2\n"));
        EXPECT_EQ(0u, count(each, "\ny_total{node=\"n\"} 1\n"));
        EXPECT_EQ(1u, count(each, "\nz_total{node=\"n\"} 3\n"));
        EXPECT_EQ(1u, count(each, "\nz{node=\"n\"} 4\n"));
    }
    EXPECT_EQ("# EOF\n", open.substr(open.size() - 6));
    EXPECT_EQ(0u, count(text, "# EOF"));
}

// The parts of histograms and summaries stand under one TYPE line, each histogram by itself, with
// increasing bounds.
TEST_F(StoreTest, HistogramsAndSummariesAreFamilies)
{
    const struct udmon_family histogram = {"h", 0, UDMON_TYPE_HISTOGRAM, "", "A histogram."},
                              summary = {"s_seconds", 0, UDMON_TYPE_SUMMARY, "seconds", ""};

    for (const char *node : {"a", "b"}) {
        struct host *host = store_host(&store, node);

        ASSERT_EQ(0, descriptions_put(&store.descriptions, host, &histogram, 1));
        ASSERT_EQ(0, descriptions_put(&store.descriptions, host, &summary, 1));
        for (const char *name :
             {"h_bucket{q=\"x\",le=\"10\"}", "h_bucket{q=\"x\",le=\"2\"}",
              "h_bucket{q=\"x\",le=\"+Inf\"}", "h_bucket{q=\"w\",le=\"+Inf\"}", "h_sum{q=\"x\"}",
              "h_count{q=\"x\"}", "h_sum{q=\"w\"}", "h_count{q=\"w\"}", "h_countries",
              "s_seconds{quantile=\"0.9\"}", "s_seconds{quantile=\"0.05\"}", "s_seconds_sum",
              "s_seconds_count", "s_seconds_bucket{le=\"1\"}", "other_sum"}) {
            add(node, name, 1, false, 1, udmon_now_ns());
        }
    }
    add("c", "h", 1, false, 1, udmon_now_ns()); // a gauge of this name: nodes disagree
    std::string text = page(), open = page(METRICS_OPENMETRICS);
    std::string h = "# HELP h A histogram.\n# TYPE h histogram\n";
    for (const char *node : {"a", "b"}) {
        std::string n = std::string("{node=\"") + node + "\"";
        h += "h_bucket" + n + ",q=\"w\",le=\"+Inf\"} 1\nh_sum" + n + ",q=\"w\"} 1\nh_count" + n +
             ",q=\"w\"} 1\nh_bucket" + n + ",q=\"x\",le=\"2\"} 1\nh_bucket" + n +
             ",q=\"x\",le=\"10\"} 1\nh_bucket" + n + ",q=\"x\",le=\"+Inf\"} 1\nh_sum" + n +
             ",q=\"x\"} 1\nh_count" + n + ",q=\"x\"} 1\n";
    }
    for (const std::string &each : {text, open}) {
        EXPECT_EQ(1u, count(each, h + "#")) << each;
        EXPECT_EQ(1u, count(each, "\ns_seconds{node=\"a\",quantile=\"0.05\"} 1\n"
                                  "s_seconds{node=\"a\",quantile=\"0.9\"} 1\n"
                                  "s_seconds_sum{node=\"a\"} 1\ns_seconds_count{node=\"a\"} 1\n"
                                  "s_seconds{node=\"b\""));
        EXPECT_EQ(1u, count(each, "# TYPE s_seconds summary\n"));
        EXPECT_EQ(1u, count(each, "# TYPE h_countries gauge\n"));
        EXPECT_EQ(1u, count(each, "# TYPE s_seconds_bucket gauge\n")); // no part of a summary
        EXPECT_EQ(1u, count(each, "# TYPE other_sum gauge\n"));
        EXPECT_EQ(0u, count(each, "\nh{node=\"c\"}"));
    }
    EXPECT_EQ(1u, count(open, "# UNIT s_seconds seconds\n"));
}

// node_exporter's NUMA metrics have a label "node" too, and a page with one twice is refused.
TEST_F(StoreTest, ALabelNodeOfASeriesGetsAnotherName)
{
    add("n", "numa{node=\"1\"}", 1, false, 1, udmon_now_ns());
    add("n", "numa{a=\",node=\",node=\"2\",z=\"\"}", 2, false, 1, udmon_now_ns());
    add("n", "numa{a=\",node=\",anode=\"3\"}", 3, false, 1, udmon_now_ns());
    std::string text = page();
    EXPECT_EQ(1u, count(text, "\nnuma{node=\"n\",exported_node=\"1\"} 1\n"));
    EXPECT_EQ(1u, count(text, "\nnuma{node=\"n\",a=\",node=\",exported_node=\"2\",z=\"\"} 2\n"));
    EXPECT_EQ(1u, count(text, "\nnuma{node=\"n\",a=\",node=\",anode=\"3\"} 3\n"));
}

// What another Prometheus has renamed already may come with both labels.
TEST_F(StoreTest, NorDoesThatNameComeTwice)
{
    struct series *series =
        add("n", "numa{exported_node=\"1\",node=\"2\"}", 4, false, 1, udmon_now_ns());
    struct remote_entry sample = {series, 1, 4};

    EXPECT_EQ(1u, count(page(), "\nnuma{node=\"n\",exported_exported_node=\"1\","
                                "exported_node=\"2\"} 4\n"));
    std::string bytes = written([&](FILE *out) { remote_encode(out, &sample, 1); });
    EXPECT_EQ(1u, count(bytes, std::string("\n\x16"
                                           "exported_exported_node\x12\x01"
                                           "1")));
    EXPECT_EQ(1u, count(bytes, std::string("\n\x0d"
                                           "exported_node\x12\x01"
                                           "2")));
}

struct OverviewTest : StoreTest {
    struct overview overview;

    void SetUp() override
    {
        StoreTest::SetUp();
        overview_init(&overview, &store);
    }
    void TearDown() override
    {
        overview_free(&overview);
        StoreTest::TearDown();
    }
    // Not the answer of the same second.
    void later()
    {
        overview.made_ns = 0;
        for (auto &map : overview.maps) {
            map.made_ns = 0;
        }
    }
    std::string map(const char *metric, const char *function = nullptr, bool anew = true)
    {
        struct json_object *answer, *field;
        std::string text;

        answer = overview_get_map(&overview, metric, function, anew ? 0 : generation, version);
        for (const char *name : {"names", "at", "values"}) {
            if (json_object_object_get_ex(answer, name, &field)) {
                text += json_object_to_json_string_ext(field, JSON_C_TO_STRING_PLAIN);
            }
        }
        json_object_object_get_ex(answer, "generation", &field);
        generation = json_object_get_int64(field);
        json_object_object_get_ex(answer, "version", &field);
        version = json_object_get_int64(field);
        json_object_put(answer);
        return text;
    }
    // Names of nodes, in the order of the answer.
    std::string nodes(struct overview_query query)
    {
        struct json_object *answer = overview_get_nodes(&overview, &query), *list, *name;
        std::string text;

        json_object_object_get_ex(answer, "nodes", &list);
        for (size_t i = 0; i < json_object_array_length(list); ++i) {
            json_object_object_get_ex(json_object_array_get_idx(list, i), "name", &name);
            text += std::string(json_object_get_string(name)) + " ";
        }
        json_object_put(answer);
        return text;
    }
    uint32_t generation = 0, version = 0;
};

TEST_F(OverviewTest, AMapOfAnyMetricSendsWhatHasChanged)
{
    const uint64_t now = udmon_now_ns();

    for (const char *name : {"n10", "n9", "down", "without"}) {
        add(name, "temp{chip=\"a\"}", 40.04, false, 1, now);
        add(name, "temp{chip=\"b\"}", 60, false, 1, now);
        add(name, "temperature", 1000, false, 1, now);
    }
    store_host(&store, "down")->connected = 0;
    add("old", "temp{chip=\"a\"}", 1, false, 1, 0); // silent for long
    add("n9", "temp{chip=\"b\"}", 62, false, 2, now);
    EXPECT_EQ("[\"down\",\"n9\",\"n10\",\"old\",\"without\"][false,1e+02,1e+02,null,1e+02]",
              map("temp"));
    EXPECT_NE(std::string::npos, map("temp", "max").find("[false,62,60,null,60]"));
    EXPECT_NE(std::string::npos, map("temp", "mean").find("[false,51,50,null,50]"));
    EXPECT_EQ(nullptr, overview_get_map(&overview, "temp", "median", 0, 0));

    map("temp", "max");
    EXPECT_EQ("[][]", map("temp", "max", false));
    later();
    add("n10", "temp{chip=\"b\"}", 60.1, false, 3, now); // the same in two digits
    EXPECT_EQ("[][]", map("temp", "max", false));
    later();
    add("n10", "temp{chip=\"b\"}", 70, false, 4, now);
    store_host(&store, "down")->connected = 1;
    EXPECT_EQ("[0,2][60,70]", map("temp", "max", false));
    EXPECT_EQ("[][]", map("temp", "max", false));

    later();
    add("n1", "temp{chip=\"b\"}", 5, false, 5, now); // other nodes: all anew
    EXPECT_EQ("[\"down\",\"n1\",\"n9\",\"n10\",\"old\",\"without\"][60,5,62,70,null,60]",
              map("temp", "max", false));
    struct json_object *families = overview_get_families(&overview);
    EXPECT_STREQ("[\"temp\",\"temperature\"]",
                 json_object_to_json_string_ext(families, JSON_C_TO_STRING_PLAIN));
    json_object_put(families);
}

TEST_F(OverviewTest, NodesAreSortedAndSearchedHere)
{
    const uint64_t now = udmon_now_ns();

    add("cn2", "node_load1", 2, false, 1, now);
    add("cn10", "node_load1", 3, false, 1, now);
    add("cn1", "node_load1", 1, false, 1, now);
    add("login", "other", 1, false, 1, now);
    store_host(&store, "cn1")->lost = 7;
    store_host(&store, "login")->connected = 0;
    EXPECT_EQ("cn1 cn2 cn10 login ", nodes({nullptr, nullptr, 0, 0, 100}));
    EXPECT_EQ("cn10 cn2 cn1 ", nodes({"CN", "name", 1, 0, 100}));
    EXPECT_EQ("cn10 cn2 cn1 login ", nodes({nullptr, "load", 1, 0, 100})); // unknown: last
    EXPECT_EQ("cn2 cn1 ", nodes({nullptr, "load", 1, 1, 2}));
    EXPECT_EQ("cn1 cn2 cn10 login ", nodes({nullptr, "lost", 1, 0, 100}));
    EXPECT_EQ("login cn1 cn2 cn10 ", nodes({nullptr, "state", 0, 0, 100}));
    EXPECT_EQ("", nodes({"absent", nullptr, 0, 0, 100}));
    EXPECT_EQ("", nodes({nullptr, nullptr, 0, 1000, 100}));
}

TEST_F(StoreTest, ANodeWithManySeriesTakesNoRoomFromOthers)
{
    struct host *greedy = store_host(&store, "greedy"), *other = store_host(&store, "other");
    auto name = [](int i) { return "n" + std::to_string(i); };

    store.series_max = 1500;
    for (int i = 0; i < 1500; ++i) {
        ASSERT_NE(nullptr, store_series(greedy, name(i).c_str()));
    }
    EXPECT_EQ(nullptr, store_series(greedy, "more"));
    EXPECT_EQ(EDQUOT, errno);
    EXPECT_NE(nullptr, store_series(greedy, "n7")); // is there already
    for (int i = 0; i < STORE_SERIES_SURE; ++i) {
        ASSERT_NE(nullptr, store_series(other, name(i).c_str()));
    }
    EXPECT_EQ(nullptr, store_series(other, "more"));
    while (greedy->series_count > 0) { // in pieces
        store_forget(&store, 1000, 0, 1000);
    }
    while (other->series_count > 0) {
        store_forget(&store, 1000, 0, 1000);
    }
    EXPECT_EQ(0u, store.series_count);
    for (int i = 0; i < 1500; ++i) {
        ASSERT_NE(nullptr, store_series(other, name(i).c_str()));
    }
    EXPECT_NE(nullptr, store_series(greedy, "more"));
}

TEST_F(StoreTest, WhatIsSilentForLongIsForgottenUnlessItIsOnItsWay)
{
    struct series *waiting = add("n", "waiting", 1, false, 1, 10);

    add("n", "old", 1, false, 1, 10);
    add("n", "new", 1, false, 1, 1000);
    waiting->queued = 1;
    store_reader_begin(&store);
    store_forget(&store, 1100, 200, 200);
    EXPECT_EQ(3u, store_host(&store, "n")->series_count); // somebody reads
    store_reader_end(&store);
    store_forget(&store, 1100, 200, 200);
    EXPECT_EQ(2u, store_host(&store, "n")->series_count);
    waiting->queued = 0;
    store_forget(&store, 1100, 200, 200);
    EXPECT_EQ(1u, store_host(&store, "n")->series_count);
    EXPECT_EQ(1000u, store_series(store_host(&store, "n"), "new")->arrived_ns);
}

TEST_F(StoreTest, ANodeThatIsGoneForLongIsForgotten)
{
    for (const char *name : {"gone", "waiting", "here", "lately"}) {
        add(name, "load1", 1, false, 1, 10);
        store_host(&store, name)->connected = 0;
        store_host(&store, name)->arrived_ns = 10;
    }
    store_host(&store, "here")->connected = 1;
    store_host(&store, "waiting")->queued = 1;
    store_host(&store, "lately")->arrived_ns = 900;
    store_forget(&store, 1100, 200, 500);
    EXPECT_EQ(nullptr, store_find_host(&store, "gone"));
    for (const char *name : {"waiting", "here", "lately"}) {
        EXPECT_NE(nullptr, store_find_host(&store, name)) << name;
    }
    EXPECT_EQ(3u, store.host_count);
}

// A receiver refuses a batch for one time that goes back: such a sample is not sent, and counted
// for its node alone.
TEST_F(HistoryTest, RemoteWriteNeverGoesBackInTime)
{
    struct remote remote = {};
    struct series *series = store_series(store_host(&store, "back"), "load1");
    struct series *other = store_series(store_host(&store, "good"), "load1");
    std::vector<struct remote_entry> ring(REMOTE_QUEUE);

    int64_t good_ms = 0;

    remote.samples = ring.data();
    for (int64_t time_ms : {1000, 2000, 2000, 1500, 3000}) {
        remote_sample(&remote, series, time_ms, 1);
        remote_sample(&remote, other, ++good_ms, 1);
    }
    EXPECT_EQ(2u, store_host(&store, "back")->out_of_order);
    EXPECT_EQ(0u, store_host(&store, "good")->out_of_order);
    EXPECT_EQ(8u, remote.tail);
    EXPECT_EQ(3000, ring[6].time_ms);
}

// Remote write has no escapes: a label's value is sent as it is.
TEST_F(HistoryTest, RemoteWriteSendsLabelsAsTheyAre)
{
    struct series *series =
        store_series(store_host(&store, "n"), "a{b=\"x\\\"y\\n\\\\z\",c=\"Größe\"}");
    struct remote_entry sample = {series, 1, 4};
    char *bytes = nullptr;
    size_t size = 0;
    FILE *out = open_memstream(&bytes, &size);

    remote_encode(out, &sample, 1);
    fclose(out);
    std::string body(bytes, size);
    free(bytes);
    EXPECT_NE(std::string::npos, body.find("x\"y\n\\z"));
    EXPECT_NE(std::string::npos, body.find("Größe"));
    EXPECT_EQ(1u, remote_count(body.data(), body.size()));
}

// Two series may differ in the last label only. An empty label is no label for Prometheus.
TEST_F(HistoryTest, RemoteWriteSendsAllLabels)
{
    std::string name = "a{empty=\"\"";

    for (int i = 0; i < 90; ++i) {
        name += ",l" + std::to_string(i) + "=\"1\"";
    }
    struct remote_entry sample = {store_series(store_host(&store, "n"), (name + "}").c_str()), 1,
                                  4};
    char *bytes = nullptr;
    size_t size = 0;
    FILE *out = open_memstream(&bytes, &size);

    remote_encode(out, &sample, 1);
    fclose(out);
    std::string body(bytes, size);
    free(bytes);
    EXPECT_NE(std::string::npos, body.find("l89"));
    EXPECT_EQ(std::string::npos, body.find("empty"));
}

// A body is divided between series, and its samples are counted.
TEST_F(HistoryTest, ABodyIsDividedBetweenSeries)
{
    std::vector<struct remote_entry> samples;

    for (int i = 0; i < 10; ++i) {
        struct series *series =
            store_series(store_host(&store, "n"), ("load" + std::to_string(i)).c_str());
        for (int sample = 0; sample <= i; ++sample) {
            samples.push_back({series, sample + 1, 1.5});
        }
    }
    char *bytes = nullptr;
    size_t size = 0;
    FILE *out = open_memstream(&bytes, &size);
    for (size_t at = 0, i = 1; i <= 10; at += i++) {
        remote_encode(out, &samples[at], i);
    }
    fclose(out);
    std::string body(bytes, size);
    free(bytes);
    EXPECT_EQ(55u, remote_count(body.data(), body.size()));
    uint64_t count = 0;
    std::vector<std::pair<size_t, size_t>> parts = {{0, body.size()}};
    size_t alone = 0;
    while (!parts.empty()) {
        auto [from, length] = parts.back();
        parts.pop_back();
        size_t half = remote_half(body.data() + from, length);
        if (half == length) {
            count += remote_count(body.data() + from, length);
            ++alone;
        } else {
            parts.push_back({from, half});
            parts.push_back({from + half, length - half});
        }
    }
    EXPECT_EQ(10u, alone);
    EXPECT_EQ(55u, count);
}

// The receiver never waits for the history: what the queue does not take is counted.
TEST_F(HistoryTest, AQueueThatIsFullIsCounted)
{
    auto writer = std::make_unique<struct writer>();
    const char *file2 = "/tmp/udmon-history-queue.db";
    std::string second = file2 + std::to_string(getpid());
    sqlite3 *other = nullptr;

    ASSERT_EQ(0,
              history_open(&writer->history, second.c_str(), UINT64_C(1) << 32, INT64_C(1) << 40));
    ASSERT_EQ(SQLITE_OK, sqlite3_open(second.c_str(), &other));
    ASSERT_EQ(SQLITE_OK, sqlite3_exec(other, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr));
    ASSERT_EQ(0, writer_start(writer.get()));
    struct series *series = store_series(store_host(&store, "n"), "load1");
    uint64_t taken = 0;
    for (int i = 0; i < WRITER_QUEUE + 1000; ++i) {
        taken += (writer_sample(writer.get(), series, i + 1, i) == 0);
    }
    EXPECT_LE(taken, uint64_t(WRITER_QUEUE) + 1); // one may be in the thread's hand
    EXPECT_EQ(uint64_t(WRITER_QUEUE) + 1000, taken + writer->overflowed);
    EXPECT_EQ(-EAGAIN, writer_commit(writer.get()));
    ASSERT_EQ(SQLITE_OK, sqlite3_exec(other, "ROLLBACK", nullptr, nullptr, nullptr));
    writer_stop(writer.get());
    EXPECT_EQ(taken, writer->history.stored);
    history_finish(&writer->history, series);
    history_commit(&writer->history);
    EXPECT_EQ(0u, series->queued);
    sqlite3_close(other);
    history_close(&writer->history);
    for (const char *end : {"", "-wal", "-shm", "-lock"}) {
        unlink((second + end).c_str());
    }
}

TEST_F(HistoryTest, BytesAndAgeAreBoundedInPieces)
{
    for (int i = 0; i < 100000; ++i) {
        add("n", "load1", i * 0.7 + i % 3);
        if (i % 1000 == 999) {
            history_commit(&history);
        }
    }
    int64_t all = ask("SELECT sum(count) FROM chunk");
    history.max_bytes = 64 * 1024;
    for (int i = 0; i < 3; ++i) {
        history_commit(&history);
    }
    EXPECT_LT(ask("SELECT sum(count) FROM chunk"), all);
    EXPECT_LE(history.bytes[0], history.max_bytes);
    EXPECT_GT(ask("SELECT min(start_ms) FROM chunk"), 1); // the oldest went
    history.max_bytes = INT64_C(1) << 40;
    history_agent(&history, 7, 1000);
    history_agent(&history, 8, 1000);
    history_commit(&history);
    ASSERT_EQ(SQLITE_OK, sqlite3_exec(history.db, "UPDATE agents SET seen_ms = 1 WHERE id = 7",
                                      nullptr, nullptr, nullptr));
    finish();
    EXPECT_EQ(1, ask("SELECT count(*) FROM chunk_10min"));
    history.keep_ms = 1; // all are of 1970
    history_commit(&history);
    for (const struct history_level &level : history_levels) {
        EXPECT_EQ(0, ask(std::string("SELECT count(*) FROM ") + level.table)) << level.table;
    }
    EXPECT_EQ(0, history.bytes[0]);
    history.tidied_ns = long_ago();
    history_commit(&history);
    EXPECT_EQ(0, ask("SELECT count(*) FROM series"));
    EXPECT_EQ(0, ask("SELECT count(*) FROM host"));
    EXPECT_EQ(8, ask("SELECT sum(id) FROM agents"));
    add("n", "load1", 5); // its rows are made anew
    history_commit(&history);
    EXPECT_EQ(1, ask("SELECT count(*) FROM host"));
    EXPECT_EQ(1u, read("n", "load1").size());
}

// A relay has counts and no samples: it is kept as long as it counts.
TEST_F(HistoryTest, CountsOfWhoHasNoSamplesAreKept)
{
    history_host(&history, store_host(&store, "relay"), 7, 2000);
    history.tidied_ns = long_ago();
    history_commit(&history);
    EXPECT_EQ(2000, ask("SELECT lost FROM host WHERE name = 'relay'"));
    history.tidied_ns = long_ago();
    history_commit(&history);
    EXPECT_EQ(0, ask("SELECT count(*) FROM host"));
}

// Of a gauge each step has the mean and the extremes, of a counter the last value and the extremes
// of its rate.
TEST_F(HistoryTest, StepsOfAMinuteAndTenMinutes)
{
    store_counter(store_host(&store, "n"), "counter")->counter = 1;
    for (int second = 0; second < 1800; ++second) {
        now_ms = (600000 * 1000) + (second * 1000);
        add("n", "gauge", second);
        now_ms = (600000 * 1000) + (second * 1000);
        add("n", "counter", second < 900 ? second : 3 * second);
    }
    finish();
    EXPECT_EQ(1800u, read("n", "gauge").size());
    auto minutes = read("n", "gauge", 1), tens = read("n", "gauge", 2);
    ASSERT_EQ(30u, minutes.size());
    ASSERT_EQ(3u, tens.size());
    EXPECT_EQ(29.5, minutes[0].value);
    EXPECT_EQ(0, minutes[0].least);
    EXPECT_EQ(59, minutes[0].most);
    EXPECT_EQ(1499.5, tens[2].value);
    EXPECT_EQ(1799, tens[2].most);
    tens = read("n", "counter", 2);
    ASSERT_EQ(3u, tens.size());
    EXPECT_EQ(599, tens[0].value);
    EXPECT_EQ(1, tens[0].least);
    EXPECT_EQ(1, tens[0].most);
    EXPECT_EQ(5397, tens[2].value);
    EXPECT_EQ(3, tens[2].most);
}

// A collector that is killed loses no committed sample, and no step; NaN stays NaN.
TEST_F(HistoryTest, AKillLosesNothingThatWasCommitted)
{
    const int64_t begin = (int64_t(time(nullptr)) / 60 - 120) * 60000;
    auto value = [](int second) { return second % 50 == 7 ? NAN : second * 0.25; };

    for (int second = 0; second < 4000; ++second) {
        now_ms = begin + (second * 1000);
        add("n", "gauge", value(second));
        if (second % 900 == 0) {
            now_ms = begin + (second * 1000);
            add("n", "slow", second);
        }
        history_commit(&history);
    }
    // As a kill leaves it: what is in memory is gone.
    struct history killed = history;
    history_close(&killed);
    store_free(&store);
    store_init(&store);
    ASSERT_EQ(0, history_open(&history, file, UINT64_C(1) << 32, INT64_C(1) << 40));
    EXPECT_EQ(0, ask("SELECT count(*) FROM log"));
    auto points = read("n", "gauge");
    ASSERT_EQ(4000u, points.size());
    for (int second = 0; second < 4000; ++second) {
        EXPECT_EQ(begin + (second * 1000), points[second].time_ms);
        if (std::isnan(value(second))) {
            EXPECT_TRUE(std::isnan(points[second].value));
        } else {
            EXPECT_EQ(value(second), points[second].value);
        }
    }
    EXPECT_EQ(5u, read("n", "slow").size());
    now_ms = begin + 4000000;
    add("n", "gauge", 7);
    finish();
    EXPECT_EQ(size_t(4000 / 60 + 1), read("n", "gauge", 1).size());
    EXPECT_EQ(4001u, read("n", "gauge").size());
}

// The samples of one series in the log of a killed collector become one chunk, whatever the number
// of series. A chunk for each sample would take memory and minutes at each beginning.
TEST_F(HistoryTest, AKilledCollectorsLogBecomesFewChunks)
{
    const int64_t begin = (int64_t(time(nullptr)) / 60 - 2) * 60000;

    for (int second = 0; second < 50; ++second) {
        now_ms = begin + (second * 1000);
        for (int series = 0; series < 20; ++series) {
            add("n", ("gauge" + std::to_string(series)).c_str(), second);
        }
        history_commit(&history);
    }
    struct history killed = history;
    history_close(&killed);
    store_free(&store);
    store_init(&store);
    ASSERT_EQ(0, history_open(&history, file, UINT64_C(1) << 32, INT64_C(1) << 40));
    EXPECT_EQ(20, ask("SELECT count(*) FROM chunk"));
    EXPECT_EQ(20 * 50, ask("SELECT sum(count) FROM chunk"));
    EXPECT_EQ(50u, read("n", "gauge13").size());
}

// Readers see each sample once at any time: in memory, in a transaction, and after it.
TEST_F(HistoryTest, ReadersMissNothing)
{
    for (int second = 0; second < 1000; ++second) {
        now_ms = 1000000 + (second * 1000);
        add("n", "gauge", second);
        if (second % 7 == 0) {
            history_commit(&history);
        }
        if (ask("SELECT count(*) FROM series") == 1) {
            ASSERT_EQ(size_t(second + 1), read("n", "gauge").size());
        }
    }
}

// Samples that come late lie where they belong.
TEST_F(HistoryTest, LateSamplesAreSorted)
{
    for (int i = 0; i < 500; ++i) {
        now_ms = 1000000 + ((i ^ 1) * 1000);
        add("n", "gauge", i ^ 1);
    }
    now_ms = 1000500;
    add("n", "gauge", 0.5); // of long ago
    finish();
    auto points = read("n", "gauge");
    ASSERT_EQ(501u, points.size());
    for (size_t i = 1; i < points.size(); ++i) {
        EXPECT_LT(points[i - 1].value, points[i].value);
    }
}

// Two collectors on one file would mix their histories.
TEST_F(HistoryTest, ASecondCollectorIsRefused)
{
    struct history again;

    EXPECT_EQ(-EBUSY, history_open(&again, file, 86400, INT64_C(1) << 40));
    history_close(&history);
    EXPECT_EQ(0, history_open(&history, file, 86400, INT64_C(1) << 40));
}

// A removed database is noticed: nothing counts as stored.
TEST_F(HistoryTest, ARemovedFileIsNoticed)
{
    add("n", "gauge", 1);
    history_commit(&history);
    EXPECT_EQ(1u, history.stored);
    unlink(file);
    add("n", "gauge", 2);
    history_commit(&history);
    EXPECT_EQ(1u, history.stored);
    EXPECT_EQ(1u, history.unstored);
}

// The form of version 1: a row for each sample, in four tables.
TEST_F(HistoryTest, AnEarlierFormIsConverted)
{
    const int64_t begin = 1700000000000;

    history_close(&history);
    unlink(file);
    sqlite3 *db;
    ASSERT_EQ(SQLITE_OK, sqlite3_open(file, &db));
    std::string sql =
        "CREATE TABLE host(id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, received INTEGER"
        " NOT NULL, lost INTEGER NOT NULL); CREATE TABLE series(id INTEGER PRIMARY KEY, host"
        " INTEGER NOT NULL, name TEXT NOT NULL, counter INTEGER NOT NULL, UNIQUE(host, name));"
        "INSERT INTO host VALUES(3, 'n', 5000, 7); INSERT INTO series VALUES(9, 3, 'gauge', 0);";
    for (const char *table : {"sample", "sample_10s", "sample_1min", "sample_10min"}) {
        sql += std::string("CREATE TABLE ") + table +
               "(id INTEGER PRIMARY KEY AUTOINCREMENT, series INTEGER"
               " NOT NULL, time_ms INTEGER NOT NULL, value REAL);";
    }
    auto rows = [&](const char *table, int from, int until, int step) {
        for (int second = from; second < until; second += step) {
            sql += std::string("INSERT INTO ") + table + "(series, time_ms, value) VALUES(9, " +
                   std::to_string(begin + second * 1000) + ", " +
                   (second == 3500 ? "NULL" : std::to_string(second)) + ");";
        }
    };
    rows("sample", 3000, 4000, 1); // the samples of the last 1,000 seconds are there
    rows("sample_10s", 2000, 4000, 10);
    rows("sample_1min", 0, 4000, 60);
    rows("sample_10min", 0, 4000, 600);
    ASSERT_EQ(SQLITE_OK,
              sqlite3_exec(db, ("BEGIN;" + sql + "COMMIT").c_str(), nullptr, nullptr, nullptr));
    sqlite3_close(db);
    ASSERT_EQ(0, history_open(&history, file, UINT64_C(1) << 40, INT64_C(1) << 40));
    auto points = read("n", "gauge");
    ASSERT_EQ(100u + 1000u, points.size());
    EXPECT_EQ(2000, points[0].value);
    EXPECT_EQ(3999, points.back().value);
    EXPECT_TRUE(std::isnan(points[600].value));
    EXPECT_EQ(67u, read("n", "gauge", 1).size());
    EXPECT_EQ(7u, read("n", "gauge", 2).size());
    EXPECT_EQ(0, ask("SELECT count(*) FROM sqlite_master WHERE name LIKE 'sample%'"));
    history_load(&history, &store);
    EXPECT_EQ(7u, store_host(&store, "n")->lost);
    now_ms = begin + 4000000;
    add("n", "gauge", 4000); // and goes on
    finish();
    EXPECT_EQ(1101u, read("n", "gauge").size());
    history_close(&history);
    ASSERT_EQ(0, history_open(&history, file, UINT64_C(1) << 40, INT64_C(1) << 40)); // once
    EXPECT_EQ(1101u, read("n", "gauge").size());
}

// What is asked for begins in the coarse levels and ends with the last sample, without a hole.
TEST_F(HistoryTest, AnAnswerGoesOnFromLevelToLevel)
{
    const int64_t begin = (int64_t(time(nullptr)) - 7200) * 1000;

    for (int second = 0; second < 7200; ++second) {
        now_ms = begin + (second * 1000);
        add("n", "gauge", second);
    }
    history_commit(&history);
    // 600 samples of the last chunks, and all minutes
    ASSERT_EQ(SQLITE_OK,
              sqlite3_exec(history.db,
                           "DELETE FROM chunk WHERE id <= (SELECT max(id) FROM chunk) - 5", nullptr,
                           nullptr, nullptr));
    ASSERT_EQ(600u, read("n", "gauge").size());
    const struct api_range range = {begin - 800000, int64_t(udmon_time_ns() / 1000000), 100000, 0};
    const struct api_reader reader = {history.db, &store, nullptr, nullptr};
    struct json_object *answer = api_series(&reader, "n", "gauge", &range), *points, *point;
    json_object_object_get_ex(answer, "points", &points);
    size_t count = json_object_array_length(points);
    EXPECT_GE(count, 600u + 100u);
    int64_t last_ms = 0;
    for (size_t i = 0; i < count; ++i) {
        point = json_object_array_get_idx(points, i);
        int64_t time_ms = json_object_get_int64(json_object_array_get_idx(point, 0));
        double value = json_object_get_double(json_object_array_get_idx(point, 1));
        EXPECT_GT(time_ms, last_ms);
        if (i > 0) {
            EXPECT_LE(time_ms - last_ms, 60 * 1000);
        }
        EXPECT_NEAR(value, (time_ms - begin) / 1000.0, 60); // the mean of a step, told at its end
        last_ms = time_ms;
    }
    EXPECT_EQ(begin + (7199 * 1000), last_ms);
    json_object_put(answer);

    // A part of it: nothing beyond, from coarse levels and from fine ones.
    for (int64_t from_s : {600, 6000, 6900}) { // minutes, minutes, samples
        const struct api_range part = {begin + (from_s * 1000), begin + ((from_s + 240) * 1000),
                                       240, 0};
        answer = api_series(&reader, "n", "gauge", &part);
        json_object_object_get_ex(answer, "points", &points);
        count = json_object_array_length(points);
        ASSERT_GE(count, 3u) << from_s;
        EXPECT_EQ(from_s == 6900, count == 240) << from_s;
        for (size_t i = 0; i < count; ++i) {
            point = json_object_array_get_idx(points, i);
            int64_t time_ms = json_object_get_int64(json_object_array_get_idx(point, 0));
            EXPECT_GE(time_ms, part.from_ms);
            EXPECT_LT(time_ms, part.until_ms);
        }
        json_object_put(answer);
    }
}

struct JobTest : HistoryTest {
    const int64_t begin = (int64_t(time(nullptr)) - 7200) * 1000;

    // A series of a node in some seconds: a gauge of this value, or a counter with this rate.
    void series(const std::string &node, const std::string &name, double value, bool counter,
                int from_s = 600, int until_s = 720)
    {
        if (counter) {
            store_counter(store_host(&store, node.c_str()), name.c_str())->counter = 1;
        }
        for (int second = from_s; second <= until_s; ++second) {
            now_ms = begin + (second * 1000);
            add(node, name, counter ? value * second : value);
        }
    }
    struct json_object *job(const char *id, int64_t at_ms, long points = 10)
    {
        const struct api_reader reader = {history.db, &store, nullptr, nullptr};
        const struct api_range range = {0, 0, points, 0};

        struct json_object *answer = nullptr;
        const int ret = job_json(&reader, id, &range, at_ms, &answer);

        EXPECT_EQ((answer == nullptr) ? -ENOENT : 0, ret);
        return answer;
    }
    static struct json_object *field(struct json_object *object, const char *name)
    {
        struct json_object *value = nullptr;

        EXPECT_TRUE(json_object_object_get_ex(object, name, &value)) << name;
        return value;
    }
    static double number(struct json_object *object, const char *name)
    {
        struct json_object *value = field(object, name);

        return (value == nullptr) ? NAN : json_object_get_double(value);
    }
    static std::string text(struct json_object *object, const char *name)
    {
        return json_object_get_string(field(object, name));
    }
};

TEST_F(JobTest, NodesAndTheirUse)
{
    for (const char *node : {"a", "b"}) {
        const std::string labels = "{job=\"7\",user=\"ann\",partition=\"gpu\"";
        const bool busy = !strcmp(node, "a");

        series(node, "slurm_job_memory_bytes" + labels + "}", busy ? 1000 : 3000, false);
        series(node, "slurm_job_cpus" + labels + "}", 4, false);
        series(node, "slurm_job_cpu_seconds" + labels + ",mode=\"user\"}", busy ? 3 : 1, true);
        series(node, "slurm_job_cpu_seconds" + labels + ",mode=\"system\"}", busy ? 1 : 0, true);
        series(node, "node_network_receive_bytes{device=\"eth0\"}", 100, true, 0, 1000);
        series(node, "node_network_receive_bytes{device=\"lo\"}", 9999, true, 0, 1000);
    }
    series("b", "slurm_job_memory_bytes{job=\"8\",user=\"bob\"}", 1, false, 650, 660);
    series("a", "slurm_job_memory_bytes{job=\"9\",user=\"bob\"}", 1, false, 100, 200);
    series("c", "slurm_job_memory_bytes{job=\"77\",user=\"bob\"}", 1, false);
    finish();

    struct json_object *answer = job("7", begin + 730000), *nodes, *a, *b, *points, *point;
    ASSERT_NE(nullptr, answer);
    EXPECT_EQ("7", text(answer, "job"));
    EXPECT_EQ("ann", text(answer, "user"));
    EXPECT_EQ("gpu", text(answer, "partition"));
    EXPECT_EQ(begin + 600000, json_object_get_int64(field(answer, "from_ms")));
    EXPECT_EQ(begin + 720000, json_object_get_int64(field(answer, "until_ms")));
    EXPECT_TRUE(json_object_get_boolean(field(answer, "running")));
    EXPECT_EQ(8, number(answer, "cores"));
    nodes = field(answer, "nodes");
    ASSERT_EQ(2u, json_object_array_length(nodes));
    a = json_object_array_get_idx(nodes, 0);
    b = json_object_array_get_idx(nodes, 1);
    EXPECT_EQ("a", text(a, "name"));
    EXPECT_NEAR(4, number(a, "cpu"), 1e-6);
    EXPECT_NEAR(1, number(b, "cpu"), 1e-6);
    EXPECT_EQ(1000, number(a, "memory"));
    EXPECT_EQ(4, number(b, "cores"));
    EXPECT_NEAR(100, number(b, "network_in"), 1e-6) << "without the loopback device";
    EXPECT_TRUE(std::isnan(number(a, "rdma_in"))) << "no such device";
    EXPECT_EQ(0, number(a, "others")) << "job 9 had ended";
    EXPECT_EQ(1, number(b, "others"));
    EXPECT_NEAR(1.6, number(field(answer, "imbalance"), "cpu"), 1e-6);
    EXPECT_NEAR(1.5, number(field(answer, "imbalance"), "memory"), 1e-6);
    points = field(json_object_array_get_idx(field(answer, "lines"), 0), "points");
    ASSERT_GE(json_object_array_length(points), 10u);
    point = json_object_array_get_idx(points, 5);
    EXPECT_NEAR(5, json_object_get_double(json_object_array_get_idx(point, 1)), 1e-6);
    EXPECT_NEAR(1, json_object_get_double(json_object_array_get_idx(point, 2)), 1e-6);
    EXPECT_NEAR(4, json_object_get_double(json_object_array_get_idx(point, 3)), 1e-6);
    EXPECT_EQ(2, json_object_get_int(json_object_array_get_idx(point, 4)));
    json_object_put(answer);

    answer = job("7", begin + 7200000);
    EXPECT_FALSE(json_object_get_boolean(field(answer, "running")));
    json_object_put(answer);
    EXPECT_EQ(nullptr, job("6", begin));
    EXPECT_TRUE(job_id_valid("4711_12"));
    for (const char *wrong : {"", "a", "1\"", "12345678901234567890123456789012"}) {
        EXPECT_FALSE(job_id_valid(wrong)) << wrong;
    }
}

// Exits with 0 if the answer can be made in so many bytes more than there are now.
[[noreturn]] void exit_in_memory(size_t bytes, const std::function<int()> &answer)
{
    struct rlimit limit = {};
    std::ifstream statm("/proc/self/statm");

    statm >> limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max = limit.rlim_cur * getpagesize() + bytes;
    setrlimit(RLIMIT_AS, &limit);
    _exit((answer() == 0) ? 0 : 1);
}

// The values of one node at a time are in memory.
TEST_F(JobTest, MemoryDoesNotGrowWithTheNodes)
{
    if (under_sanitizer()) {
        GTEST_SKIP() << "the sanitizer's own memory has no bound";
    }
    const int nodes = 600;

    for (int i = 0; i < nodes; ++i) {
        series("n" + std::to_string(i), "slurm_job_memory_bytes{job=\"7\"}", 1, false, 600, 601);
    }
    finish();
    EXPECT_EXIT(exit_in_memory(24 << 20,
                               [&] {
                                   const struct api_reader reader = {history.db, &store, nullptr,
                                                                     nullptr};
                                   const struct api_range range = {begin, begin + 1000000, 1000, 0};
                                   struct json_object *answer;

                                   return job_json(&reader, "7", &range, begin, &answer);
                               }),
                testing::ExitedWithCode(0), "");
}

TEST_F(JobTest, NoMemoryIsNotAnUnknownJob)
{
    if (under_sanitizer()) {
        GTEST_SKIP() << "the sanitizer ends the program";
    }
    const struct api_reader reader = {history.db, &store, nullptr, nullptr};
    const struct api_range range = {1, INT64_C(1) << 60, long(INT64_C(1) << 60), 0};
    struct json_object *answer;

    series("n", "slurm_job_memory_bytes{job=\"7\"}", 1, false);
    finish();
    EXPECT_EQ(-ENOMEM, job_json(&reader, "7", &range, begin, &answer));
}

// A node may have had a hundred thousand jobs.
TEST_F(JobTest, OtherJobsAreSoughtNearby)
{
    struct json_object *answer;
    int i;

    for (i = 0; i < 4 * JOB_NEIGHBOURS; ++i) {
        series("n", "slurm_job_memory_bytes{job=\"" + std::to_string(1000 + i) + "\"}", 1, false);
    }
    finish();
    answer = job(std::to_string(1000 + 2 * JOB_NEIGHBOURS).c_str(), begin);
    ASSERT_NE(nullptr, answer);
    EXPECT_EQ(2 * JOB_NEIGHBOURS,
              number(json_object_array_get_idx(field(answer, "nodes"), 0), "others"));
    json_object_put(answer);
}

TEST_F(JobTest, LongNamesOfUsersAreComplete)
{
    std::string user;
    struct json_object *answer;

    for (int i = 0; i < 100; ++i) {
        user += "\u00e4";
    }
    user += "@example.org";
    series("n", "slurm_job_memory_bytes{job=\"7\",user=\"" + user + "\"}", 1, false);
    finish();
    answer = job("7", begin);
    ASSERT_NE(nullptr, answer);
    EXPECT_EQ(user, text(answer, "user"));
    json_object_put(answer);
}

// The lines that /api/lines answers with: family and label, how many series, and the values.
struct Line {
    int series;
    std::vector<double> values;
};

std::map<std::string, Line> lines(const struct api_reader &reader, const char *families,
                                  const char *by, int *left_out)
{
    const int64_t now = udmon_time_ns() / 1000000;
    const struct api_range range = {now - 60000, now, 60, 0};
    struct json_object *answer = api_lines(&reader, "n", families, by, &range), *list, *field;
    std::map<std::string, Line> found;

    json_object_object_get_ex(answer, "left_out", &field);
    *left_out = json_object_get_int(field);
    json_object_object_get_ex(answer, "lines", &list);
    for (size_t i = 0; i < json_object_array_length(list); ++i) {
        struct json_object *line = json_object_array_get_idx(list, i), *points;
        json_object_object_get_ex(line, "family", &field);
        std::string name = json_object_get_string(field);
        json_object_object_get_ex(line, "label", &field);
        Line &to = found[name + " " + json_object_get_string(field)];
        json_object_object_get_ex(line, "series", &field);
        to.series = json_object_get_int(field);
        json_object_object_get_ex(line, "points", &points);
        for (size_t p = 0; p < json_object_array_length(points); ++p) {
            struct json_object *point = json_object_array_get_idx(points, p);
            to.values.push_back(json_object_get_double(json_object_array_get_idx(point, 1)));
        }
    }
    json_object_put(answer);
    return found;
}

// A chart of a node with many cores shows all of them, as one answer.
TEST_F(HistoryTest, LinesAreSumsOfAllSeries)
{
    const int cores = 128;
    const uint64_t begin = (uint64_t(time(nullptr)) - 50) * 1000;
    int left_out;

    for (int second = 0; second < 40; ++second) {
        now_ms = begin + (second * 1000);
        for (int core = 0; core < cores; ++core) {
            std::string start = "node_cpu_seconds{cpu=\"" + std::to_string(core) + "\",mode=\"";
            for (std::string mode : {"idle", "user"}) {
                store_counter(store_host(&store, "n"), (start + mode + "\"}").c_str())->counter = 1;
                add("n", start + mode + "\"}", (mode == "user") ? 0.75 * second : 0.25 * second);
            }
        }
        add("n", "node_cpu_seconds_of_others{mode=\"user\"}", 1000);
        add("n", "node_load1", 3);
        add("n", "odd{amode=\"x\",b=\",mode=\",mode=\"z\"}", 4);
    }
    history_commit(&history);
    auto found = lines({history.db, &store, nullptr, nullptr},
                       "node_cpu_seconds,node_load1,absent,odd", "mode", &left_out);
    ASSERT_EQ(4u, found.size());
    EXPECT_EQ(0, left_out);
    EXPECT_EQ(cores, found["node_cpu_seconds user"].series);
    EXPECT_EQ(cores, found["node_cpu_seconds idle"].series);
    ASSERT_EQ(39u, found["node_cpu_seconds user"].values.size()); // rates
    for (double value : found["node_cpu_seconds user"].values) {
        EXPECT_NEAR(0.75 * cores, value, 1e-6);
    }
    ASSERT_EQ(40u, found["node_load1 "].values.size());
    EXPECT_EQ(3, found["node_load1 "].values[7]);
    EXPECT_EQ(1, found["odd z"].series);

    found = lines({history.db, &store, nullptr, nullptr}, "odd", "*", &left_out);
    ASSERT_EQ(1u, found.size());
    EXPECT_EQ(1, found["odd amode=\"x\",b=\",mode=\",mode=\"z\""].series);

    found = lines({history.db, &store, nullptr, nullptr}, "node_cpu_seconds", nullptr, &left_out);
    ASSERT_EQ(1u, found.size());
    EXPECT_EQ(2 * cores, found["node_cpu_seconds "].series);
    EXPECT_NEAR(cores, found["node_cpu_seconds "].values[5], 1e-6);

    for (int i = 0; i < API_LINES_MAX + 2; ++i) {
        add("n", "many{i=\"" + std::to_string(i) + "\"}", i);
    }
    history_commit(&history);
    found = lines({history.db, &store, nullptr, nullptr}, "many", "i", &left_out);
    EXPECT_EQ(size_t(API_LINES_MAX), found.size());
    EXPECT_EQ(2, left_out);
}

// The last value of a node's row, or -1 for none.
double heat(const struct api_reader &reader, const char *metric, const char *function,
            const char *node, bool *known_p = nullptr)
{
    const int64_t now = udmon_time_ns() / 1000000;
    char name[1][64] = {};
    struct overview_names names = {name, 1, 5};
    struct heatmap_query query = {metric, function, {now - 60000, now, 6, 0}, 2};
    struct json_object *answer, *field, *values, *last;
    double value = -1;

    strcpy(name[0], node);
    answer = heatmap_json(&reader, &query, &names);
    if (known_p != nullptr) {
        *known_p = answer != nullptr;
    }
    if (answer != nullptr) {
        EXPECT_TRUE(json_object_object_get_ex(answer, "next", &field));
        EXPECT_EQ(3, json_object_get_int(field)); // one of the names from the second on
        json_object_object_get_ex(answer, "rows", &field);
        json_object_object_get_ex(json_object_array_get_idx(field, 0), "values", &values);
        for (size_t i = 0; i < json_object_array_length(values); ++i) {
            last = json_object_array_get_idx(values, i);
            value = (last != nullptr) ? json_object_get_double(last) : value;
        }
        json_object_put(answer);
    }
    return value;
}

TEST_F(HistoryTest, ARowOfTheHeatmapCombinesTheSeriesOfANode)
{
    const uint64_t begin = (uint64_t(time(nullptr)) - 50) * 1000;
    const struct api_reader reader = {history.db, &store, nullptr, nullptr};
    bool known;

    for (int second = 0; second < 48; ++second) {
        now_ms = begin + (second * 1000);
        for (std::string core : {"0", "1"}) {
            for (std::string mode : {"idle", "user"}) {
                std::string name = "node_cpu_seconds{cpu=\"" + core + "\",mode=\"" + mode + "\"}";
                store_counter(store_host(&store, "n"), name.c_str())->counter = 1;
                add("n", name, second * ((mode == "idle") ? ((core == "0") ? 0.5 : 0.9) : 0.1));
            }
        }
        add("n", "node_memory_MemTotal_bytes", 200);
        add("n", "node_memory_MemAvailable_bytes", 50);
        add("n", "node_network_receive_bytes{device=\"eth0\"}", 3);
        add("n", "node_network_receive_bytes{device=\"lo\"}", 7);
        add("n", "temp{sensor=\"1\"}", 20);
        add("n", "temp{sensor=\"2\"}", 40);
        add("n", "temp_limit", 90);
    }
    history_commit(&history);
    EXPECT_NEAR(0.3, heat(reader, "cpu", nullptr, "n"), 1e-3);
    EXPECT_NEAR(0.75, heat(reader, "memory", nullptr, "n"), 1e-3);
    EXPECT_EQ(50, heat(reader, "memory_free", nullptr, "n"));
    EXPECT_EQ(3, heat(reader, "in", nullptr, "n"));
    EXPECT_EQ(60, heat(reader, "temp", nullptr, "n"));
    EXPECT_EQ(40, heat(reader, "temp", "max", "n"));
    EXPECT_EQ(30, heat(reader, "temp", "mean", "n"));
    EXPECT_EQ(-1, heat(reader, "temp", "least", "n", &known));
    EXPECT_FALSE(known);
    EXPECT_EQ(-1, heat(reader, "temp", "max", "other", &known));
    EXPECT_TRUE(known);
}

// The clock that ages are counted by goes on as it went when the system's jumps.
TEST_F(HistoryTest, AClockThatJumpsDeletesNothing)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    now_ms = uint64_t(now.tv_sec) * 1000;
    history.keep_ms = 3600 * 1000;
    history_commit(&history);
    // As if the system had been two hours behind until now: what was stored then seems too old.
    history.clock_ms -= 2 * 3600 * 1000;
    now_ms -= 2 * 3600 * 1000;
    add("n", "load1", 1);
    history_finish(&history, store_series(store_host(&store, "n"), "load1"));
    history_commit(&history);
    EXPECT_EQ(1, ask("SELECT count(*) FROM chunk"));
    // If it stays there, it is right.
    history.jumped_at_ns = udmon_now_ns() - UINT64_C(3700000000000);
    history_commit(&history);
    history_commit(&history);
    EXPECT_EQ(0, ask("SELECT count(*) FROM chunk"));
}

} // namespace

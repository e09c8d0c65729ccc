// Descriptions of families: on the wire, and which node's description counts.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <random>
#include <string>

extern "C" {
#include "udmon/collector/store.h"
#include "udmon/lib/metric.h"
}

namespace
{

struct udmon_family family_of(const char *name, const char *help)
{
    return {name, 0, UDMON_TYPE_GAUGE, "", help};
}

std::string encode(const struct udmon_family &family, const char *node)
{
    uint8_t record[UDMON_RELAYED_RECORD_MAX];
    int length = udmon_family_encode(&family, node, record);

    return (length < 0) ? "" : std::string(reinterpret_cast<char *>(record), length);
}

TEST(Description, RoundTrip)
{
    const std::string name(UDMON_FAMILY_NAME_MAX, 'n'), unit(UDMON_UNIT_MAX, 'u'),
        help(UDMON_HELP_MAX, 'h'), node(UDMON_NAME_MAX, 'x');
    const struct udmon_family families[] = {
        {"a", 0, UDMON_TYPE_UNKNOWN, "", ""},
        {"a:b_joules", 1, UDMON_TYPE_COUNTER, "joules",
         "Größe, \"quoted\" \\ and\nanother line.\t"},
        {name.c_str(), 0, UDMON_TYPE_GAUGE, unit.c_str(), help.c_str()},
        {"h", 0, UDMON_TYPE_HISTOGRAM, "", ""},
        {"s", 0, UDMON_TYPE_SUMMARY, "", "help"},
    };
    char back_node[UDMON_NAME_MAX + 1], series[UDMON_METRIC_NAME_MAX + 1];
    struct udmon_family_text back;
    struct udmon_metric metric;

    for (const struct udmon_family &family : families) {
        std::string record = encode(family, nullptr);
        ASSERT_TRUE(udmon_record_is_family(record.data(), record.size()));
        ASSERT_EQ(0, udmon_family_decode(record.data(), record.size(), &back, nullptr));
        EXPECT_TRUE(udmon_family_equal(&family, &back.family));
        // An earlier version takes it for no sample.
        EXPECT_EQ(-EPROTO, udmon_metric_decode(record.data(), record.size(), &metric, series));
        EXPECT_EQ(-EPROTO, udmon_family_decode(record.data(), record.size(), &back, back_node));
        record = encode(family, node.c_str());
        ASSERT_EQ(0, udmon_family_decode(record.data(), record.size(), &back, back_node));
        EXPECT_TRUE(udmon_family_equal(&family, &back.family));
        EXPECT_EQ(node, back_node);
        EXPECT_EQ(-EPROTO, udmon_family_decode(record.data(), record.size(), &back, nullptr));
    }
}

TEST(Description, WrongTextsAreLeftOut)
{
    struct udmon_family_text copy;

    for (const std::string &help : {std::string(UDMON_HELP_MAX + 1, 'h'), std::string("\x1b[1m"),
                                    std::string("\xc3"), std::string("a\rb")}) {
        struct udmon_family family = {"a_b", 0, UDMON_TYPE_GAUGE, "b", help.c_str()};
        ASSERT_EQ(0, udmon_family_copy(&family, &copy));
        EXPECT_STREQ("", copy.help);
        EXPECT_STREQ("b", copy.unit);
    }
    struct udmon_family family = {"a_b", 0, UDMON_TYPE_GAUGE, "b\n# EOF", ""};
    ASSERT_EQ(0, udmon_family_copy(&family, &copy));
    EXPECT_STREQ("", copy.unit);
    for (const std::string &name : {std::string(UDMON_FAMILY_NAME_MAX + 1, 'n'),
                                    std::string("a{b=\"c\"}"), std::string("")}) {
        family.name = name.c_str();
        EXPECT_EQ(-EINVAL, udmon_family_copy(&family, &copy)) << name;
    }
}

// Whatever arrives, the texts are valid or refused.
TEST(Description, RandomRecords)
{
    const std::string good = encode({"name", 1, UDMON_TYPE_COUNTER, "unit", "help"}, "node");
    struct udmon_family_text back, copy;
    char node[UDMON_NAME_MAX + 1];
    std::mt19937 random(1);

    for (int i = 0; i < 200000; ++i) {
        std::string record = good;
        for (int k = random() % 3; k >= 0; --k) {
            record[random() % record.size()] = char(random());
        }
        record.resize(random() % 4 ? record.size() : random() % record.size());
        if (udmon_family_decode(record.data(), record.size(), &back, node) == 0) {
            ASSERT_EQ(0, udmon_family_copy(&back.family, &copy));
            ASSERT_TRUE(udmon_family_equal(&back.family, &copy.family));
            ASSERT_LE(strlen(node), size_t(UDMON_NAME_MAX));
        }
    }
}

struct Descriptions : testing::Test {
    struct store store;
    struct host *first, *second;
    uint64_t now = 1000 * DESCRIPTION_OLD_NS;

    Descriptions()
    {
        store_init(&store);
        first = store_host(&store, "first");
        second = store_host(&store, "second");
    }
    ~Descriptions() override
    {
        store_free(&store);
    }
    int put(struct host *host, const char *name, const char *help)
    {
        struct udmon_family family = family_of(name, help);

        return descriptions_put(&store.descriptions, host, &family, now);
    }
    int put_all(struct host *host, int type, const char *unit, const char *help)
    {
        struct udmon_family family = {"a", 0, type, unit, help};

        return descriptions_put(&store.descriptions, host, &family, now);
    }
    std::string all() const
    {
        const struct udmon_family *found = descriptions_find(&store.descriptions, "a", 1, 0);

        return std::to_string(found->type) + "," + found->unit + "," + found->help;
    }
    std::string help(const char *name)
    {
        const struct udmon_family *found =
            descriptions_find(&store.descriptions, name, strlen(name), 0);

        return (found != nullptr) ? found->help : "none";
    }
};

TEST_F(Descriptions, TheFirstNodeCounts)
{
    put(first, "a", "one");
    put(second, "a", "two");
    EXPECT_EQ("one", help("a"));
    put(first, "a", "one, changed");
    EXPECT_EQ("one, changed", help("a"));
    EXPECT_EQ(nullptr, descriptions_find(&store.descriptions, "a", 1, 1)); // the counter
    EXPECT_EQ("one, changed", help("a"));
    now += DESCRIPTION_OLD_NS - 1;
    put(second, "a", "two");
    EXPECT_EQ("one, changed", help("a"));
    now += 1;
    put(second, "a", "two"); // the first node has not repeated it
    EXPECT_EQ("two", help("a"));
    EXPECT_EQ(0u, first->descriptions);
    EXPECT_EQ(1u, second->descriptions);
    put(first, "a", "one");
    EXPECT_EQ("two", help("a"));
}

TEST_F(Descriptions, ARepeatedOneStays)
{
    put(first, "a", "one");
    now += DESCRIPTION_OLD_NS;
    put(first, "a", "one");
    put(second, "a", "two");
    EXPECT_EQ("one", help("a"));
}

TEST_F(Descriptions, AFullerOneCompletesAPoorOne)
{
    put_all(first, UDMON_TYPE_UNKNOWN, "", ""); // samples without comments
    put_all(second, UDMON_TYPE_GAUGE, "", "two");
    EXPECT_EQ("1,,two", all());
    put_all(first, UDMON_TYPE_UNKNOWN, "", "");
    EXPECT_EQ("1,,two", all());
    put_all(first, UDMON_TYPE_COUNTER, "joules", "one"); // another type
    put_all(first, UDMON_TYPE_GAUGE, "joules", "one");   // another help
    put_all(first, UDMON_TYPE_GAUGE, "joules", "");      // no help
    EXPECT_EQ("1,,two", all());
    put_all(first, UDMON_TYPE_GAUGE, "joules", "two");
    EXPECT_EQ("1,joules,two", all());
    EXPECT_EQ(1u, first->descriptions);
    EXPECT_EQ(0u, second->descriptions);
}

// Two sources of one node describe a family. The poor description would replace the full one each minute.
TEST_F(Descriptions, APoorOneOfTheSameNodeWaits)
{
    put_all(first, UDMON_TYPE_GAUGE, "", "one");
    put_all(first, UDMON_TYPE_UNKNOWN, "", "");
    EXPECT_EQ("1,,one", all());
    now += DESCRIPTION_OLD_NS;
    put_all(first, UDMON_TYPE_GAUGE, "", "one");
    put_all(first, UDMON_TYPE_UNKNOWN, "", "");
    EXPECT_EQ("1,,one", all());
    now += DESCRIPTION_OLD_NS;
    put_all(first, UDMON_TYPE_UNKNOWN, "", ""); // the full one was not repeated
    EXPECT_EQ("0,,", all());
}

TEST_F(Descriptions, ANodeHasALimitedNumber)
{
    for (int i = 0; i < 2 * DESCRIPTIONS_OF_NODE; ++i) {
        EXPECT_EQ((i < DESCRIPTIONS_OF_NODE) ? 0 : -ENOSPC,
                  put(first, ("n" + std::to_string(i)).c_str(), "one"));
    }
    EXPECT_EQ(size_t(DESCRIPTIONS_OF_NODE), store.descriptions.count);
    EXPECT_EQ(0, put(second, "other", "two"));
    EXPECT_EQ("two", help("other"));
    EXPECT_EQ(0, put(first, "other", "one")); // no limit is the reason
    EXPECT_EQ("two", help("other"));
    EXPECT_EQ(0, put(first, "n0", "changed"));
    EXPECT_EQ("changed", help("n0"));
}

TEST_F(Descriptions, AllNodesHaveALimitedNumber)
{
    const int nodes = DESCRIPTIONS_MAX / DESCRIPTIONS_OF_NODE;

    for (int i = 0; i < nodes; ++i) {
        struct host *host = store_host(&store, ("node" + std::to_string(i)).c_str());
        for (int k = 0; k < DESCRIPTIONS_OF_NODE; ++k) {
            ASSERT_EQ(0, put(host, (std::to_string(i) + "n" + std::to_string(k)).c_str(), "one"));
        }
    }
    EXPECT_EQ(-ENOSPC, put(second, "other", "two"));
    EXPECT_EQ(size_t(DESCRIPTIONS_MAX), store.descriptions.count);
}

TEST_F(Descriptions, TheyEndAfterTheirNodes)
{
    put(first, "a", "one");
    put(second, "b", "two");
    first->arrived_ns = second->arrived_ns = now;
    second->connected = 1;
    store_forget(&store, now + 10, 100, 5); // the first node is gone
    EXPECT_EQ(nullptr, store_find_host(&store, "first"));
    EXPECT_EQ("one", help("a"));
    put(second, "a", "two"); // nobody owns it
    EXPECT_EQ("two", help("a"));
    now += 50;
    put(second, "b", "two");
    now += 60;
    store_forget(&store, now, 100, 5);
    EXPECT_EQ("none", help("a"));
    EXPECT_EQ("two", help("b"));
    EXPECT_EQ(1u, second->descriptions);
}

} // namespace

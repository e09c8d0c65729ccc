// What relays send, and what an upper collector makes of it.
#include <gtest/gtest.h>

#include <cstring>
#include <string>

extern "C" {
#include "udmon/collector/relay.h"
#include "udmon/collector/store.h"
#include "udmon/lib/metric.h"
}

namespace
{

std::string encode(const struct udmon_relayed &relayed)
{
    uint8_t record[UDMON_RELAYED_RECORD_MAX];
    int length = udmon_relayed_encode(&relayed, record);

    EXPECT_GT(length, 0);
    return std::string(reinterpret_cast<char *>(record), length);
}

bool decode(const std::string &record, struct udmon_relayed *relayed, char *name)
{
    return udmon_relayed_decode(record.data(), record.size(), relayed, name) == 0;
}

struct udmon_relayed sample(const char *node, const char *name)
{
    struct udmon_relayed relayed = {};

    strcpy(relayed.node, node);
    relayed.metric = {name, 1234567890123456789u, -1.5, 1, 0, nullptr};
    relayed.late = 1;
    return relayed;
}

TEST(Relayed, SampleComesAsItWas)
{
    std::string longest(UDMON_METRIC_NAME_MAX, 'a'), node(UDMON_NAME_MAX, 'n');
    char name[UDMON_METRIC_NAME_MAX + 1];
    struct udmon_relayed back;

    ASSERT_TRUE(decode(encode(sample(node.c_str(), longest.c_str())), &back, name));
    EXPECT_FALSE(back.is_state);
    EXPECT_EQ(node, back.node);
    EXPECT_EQ(longest, back.metric.name);
    EXPECT_EQ(1234567890123456789u, back.metric.time_ns);
    EXPECT_EQ(-1.5, back.metric.value);
    EXPECT_EQ(1, back.metric.counter);
    EXPECT_EQ(1, back.late);
}

TEST(Relayed, StateComesAsItWas)
{
    char name[UDMON_METRIC_NAME_MAX + 1];
    struct udmon_relayed state = {}, back;

    strcpy(state.node, "n");
    state.is_state = 1;
    for (int up : {0, 1}) {
        state.up = up;
        state.lost = (uint64_t(1) << 63) + 1;
        ASSERT_TRUE(decode(encode(state), &back, name));
        EXPECT_TRUE(back.is_state);
        EXPECT_STREQ("n", back.node);
        EXPECT_EQ(up, back.up);
        EXPECT_EQ(state.lost, back.lost);
    }
}

// A relay's record is no agent's, nor the other way round: who said to be an agent speaks for itself.
TEST(Relayed, OtherRecordsAreRefused)
{
    struct udmon_metric metric = {"a", 1, 2, 0, 0, nullptr}, decoded;
    char name[UDMON_METRIC_NAME_MAX + 1];
    uint8_t agent[UDMON_METRIC_RECORD_MAX];
    std::string good = encode(sample("n", "a"));
    struct udmon_relayed back;

    EXPECT_EQ(-EPROTO, udmon_metric_decode(good.data(), good.size(), &decoded, name));
    int length = udmon_metric_encode(&metric, agent);
    EXPECT_FALSE(decode(std::string(reinterpret_cast<char *>(agent), length), &back, name));
    EXPECT_FALSE(decode(good.substr(0, good.size() - 1), &back, name));
    EXPECT_FALSE(decode(good + "x", &back, name));
    EXPECT_FALSE(decode(encode(sample("", "a")), &back, name));
    for (const char *node : {"a b", "a\"b", "a/b", "<a>", "a\x7f"}) {
        EXPECT_FALSE(decode(encode(sample(node, "a")), &back, name)) << node;
    }
    good[good.size() - 2] = '1'; // the series is "1"
    EXPECT_FALSE(decode(good, &back, name));
}

// The queue of a relay without its upper collector keeps samples. Agents send descriptions again.
TEST(Relay, DescriptionsDoNotWaitForTheUpperCollector)
{
    const struct udmon_family family = {"a", 0, UDMON_TYPE_GAUGE, "", "help"};
    const struct udmon_metric metric = {"a", 1, 2, 0, 0, &family};
    struct udmon_options options;
    struct udmon_stats stats;
    struct udmon_loop loop;
    struct relay relay = {};
    struct store store;
    struct host *host;

    store_init(&store);
    host = store_host(&store, "n");
    udmon_options_init(&options);
    options.name = "relay";
    ASSERT_EQ(0, udmon_loop_open(&loop));
    ASSERT_EQ(0, relay_open(&relay, "tcp://127.0.0.1:1", &options, &loop));
    relay_family(&relay, host, &family);
    udmon_client_stats(relay.client, &stats);
    EXPECT_EQ(0u, stats.queued);
    relay_sample(&relay, host, &metric, 1, 0);
    udmon_client_stats(relay.client, &stats);
    EXPECT_EQ(1u, stats.queued);
    relay_close(&relay);
    udmon_loop_close(&loop);
    store_free(&store);
}

struct RelayedState : testing::Test {
    struct store store;
    struct host *host;

    RelayedState()
    {
        store_init(&store);
        host = store_host(&store, "n");
    }
    ~RelayedState() override
    {
        store_free(&store);
    }
};

TEST_F(RelayedState, NodesComeAndGoWithTheirRelay)
{
    struct host *direct = store_host(&store, "direct");

    direct->connected = 1;
    relayed_state(host, 1, "relay1", 1, 0);
    relayed_state(host, 1, "relay1", 1, 0); // it is told again and again
    EXPECT_EQ(1, host->connected);
    relayed_gone(&store, 2);
    EXPECT_EQ(1, host->connected);
    relayed_gone(&store, 1);
    EXPECT_EQ(0, host->connected);
    EXPECT_EQ(1, direct->connected);
    relayed_state(host, 3, "relay1", 1, 0);
    relayed_state(host, 3, "relay1", 0, 0);
    EXPECT_EQ(0, host->connected);
    relayed_state(host, 3, "relay1", 0, 0);
    EXPECT_EQ(0, host->connected);
}

// A node goes to another relay: that the first one has it no more is no news by then.
TEST_F(RelayedState, TheRelayThatHasTheNodeIsRight)
{
    relayed_state(host, 1, "relay1", 1, 0);
    relayed_state(host, 2, "relay2", 1, 0);
    EXPECT_EQ(1, host->connected);
    relayed_state(host, 1, "relay1", 0, 5);
    relayed_gone(&store, 1);
    EXPECT_EQ(1, host->connected);
    EXPECT_EQ(0u, host->lost);
    relayed_gone(&store, 2);
    EXPECT_EQ(0, host->connected);
}

TEST_F(RelayedState, LossesAreThoseSinceTheRelayHasTheNode)
{
    relayed_state(host, 1, "relay1", 1, 100); // before our time
    EXPECT_EQ(0u, host->lost);
    relayed_state(host, 1, "relay1", 1, 107);
    EXPECT_EQ(7u, host->lost);
    relayed_state(host, 1, "relay1", 1, 105); // two came late
    EXPECT_EQ(5u, host->lost);
    relayed_gone(&store, 1);
    relayed_state(host, 2, "relay1", 1, 106); // it was restarted, and knows what it had lost
    EXPECT_EQ(6u, host->lost);
    relayed_state(host, 3, "relay2", 1, 50);
    EXPECT_EQ(6u, host->lost);
    relayed_state(host, 3, "relay2", 1, 51);
    EXPECT_EQ(7u, host->lost);
    relayed_state(host, 3, "relay2", 1, 0); // its history was removed
    EXPECT_EQ(0u, host->lost);
}

} // namespace

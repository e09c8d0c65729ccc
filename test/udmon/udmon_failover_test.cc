// A client of several servers: it goes on at the next when one is away, and comes back. What each
// record's fate was is known: it came at one of them, once, or is counted as lost.
#include "udmon_fixture.h"

#include <chrono>

namespace
{

class UdmonFailover : public UdmonTest
{
  protected:
    void SetUp() override
    {
        UdmonTest::SetUp();
        options.return_ms = 200;
        options.client_id = 7;
    }
    std::string both(int first, int second) const
    {
        return url(first) + "," + url(second);
    }
    static int server_of(const Client &client)
    {
        const char *address;

        return udmon_client_server(client.client, &address);
    }
    void send(Client &client, int count)
    {
        while (count-- > 0) {
            ASSERT_EQ(0, client.send(std::to_string(sent++)));
        }
    }
    // How often each record came, at all of the servers together.
    std::vector<int> came(const std::vector<const Server *> &servers) const
    {
        std::vector<int> counts(sent);

        for (const Server *server : servers) {
            for (const Received &record : server->received) {
                ++counts[std::stoi(record.data)];
            }
        }
        return counts;
    }
    int sent = 0;
};

// The goodbye and the end of its connection, read together, are one loss, after which the client
// waits. Were they two, it would meet the second server at once, and begin again with the first in
// the middle of that: over the connection to the second, which it would then take for the first.
TEST_P(UdmonFailover, AGoodbyeAndTheEndOfTheConnectionAreOneLoss)
{
    Server first(url(free_port()), &options);
    Server second(url(free_port() + 1), &options);
    Client client(both(free_port(), free_port() + 1), &options);

    ASSERT_TRUE(run({&first}, {&client}, [&] { return client.connected(); }));
    first.close();
    usleep(10000); // both are there to be read
    ASSERT_TRUE(run({}, {&client}, [&] { return !client.connected(); }));
    EXPECT_EQ(UDMON_DISCONNECTED, client.states.back());
}

TEST_P(UdmonFailover, ToTheNextAndBackWithEachRecordOnce)
{
    auto first = std::make_unique<Server>(url(free_port()), &options);
    Server second(url(free_port() + 1), &options);
    Client client(both(free_port(), free_port() + 1), &options);

    send(client, 10);
    ASSERT_TRUE(run({first.get(), &second}, {&client}, [&] {
        return first->received.size() == 10;
    })) << client.reason;
    EXPECT_EQ(0, server_of(client));
    first->close();
    send(client, 10);
    ASSERT_TRUE(run({&second}, {&client}, [&] { return second.received.size() == 10; }))
        << client.reason;
    EXPECT_EQ(1, server_of(client));

    auto start = std::chrono::steady_clock::now();
    Server back(url(free_port()), &options);
    back.resume[7] = 10; // as it would have remembered
    ASSERT_TRUE(run({&back, &second}, {&client}, [&] {
        send(client, 1); // also while it changes over
        return server_of(client) == 0;
    })) << client.reason;
    EXPECT_GE(std::chrono::steady_clock::now() - start,
              std::chrono::milliseconds(options.return_ms));
    send(client, 10);
    ASSERT_TRUE(run({&back, &second}, {&client}, [&] {
        return first->received.size() + second.received.size() + back.received.size() ==
               size_t(sent);
    }));
    EXPECT_EQ(std::vector<int>(sent, 1), came({first.get(), &second, &back}));
    EXPECT_TRUE(back.lost.empty());
    EXPECT_TRUE(second.lost.empty());
    ASSERT_EQ(1u, second.left.size());
    EXPECT_EQ(UDMON_LEFT_BYE, second.left[0].second);
    EXPECT_EQ(0u, client.stats().dropped);
}

// A server that hangs takes with it what it was sent until that was noticed: it, and nobody else,
// counts that as lost when it is back.
TEST_P(UdmonFailover, LossIsCountedWhereItHappened)
{
    options.connect_ms = 300;
    auto first = std::make_unique<Server>(url(free_port()), &options);
    Server second(url(free_port() + 1), &options);
    Client client(both(free_port(), free_port() + 1), &options);

    send(client, 10);
    ASSERT_TRUE(run({first.get(), &second}, {&client}, [&] {
        return first->received.size() == 10;
    })) << client.reason;
    ASSERT_TRUE(run({&second}, {&client}, [&] {
        send(client, client.connected() ? 1 : 0);
        return server_of(client) == 1;
    })) << client.reason;
    send(client, 10);
    size_t gone = first->received.size();
    first.reset(); // it does not read what waits for it, as a killed one would not
    Server back(url(free_port()), &options);
    back.resume[7] = gone;
    ASSERT_TRUE(run({&back, &second}, {&client}, [&] { return server_of(client) == 0; }))
        << client.reason;
    send(client, 10);
    ASSERT_TRUE(run({&back, &second}, {&client}, [&] { return back.received.size() >= 10; }));
    EXPECT_TRUE(second.lost.empty());
    EXPECT_GT(back.lost[7], 0u);
    EXPECT_EQ(size_t(sent), gone + second.received.size() + back.received.size() + back.lost[7]);
    for (int count : came({&second, &back})) {
        EXPECT_LE(count, 1);
    }
}

TEST_P(UdmonFailover, WithTheFirstAwayFromTheStart)
{
    Server second(url(free_port() + 1), &options);
    Client client(both(free_port(), free_port() + 1), &options);

    send(client, 10);
    ASSERT_TRUE(run({&second}, {&client}, [&] { return second.received.size() == 10; }))
        << client.reason;
    EXPECT_EQ(std::vector<int>(sent, 1), came({&second}));
}

// Who is at the second asks the first in vain; that disturbs nothing.
TEST_P(UdmonFailover, TheSecondDiesToo)
{
    options.return_ms = 20; // so that it is asking all the time
    auto second = std::make_unique<Server>(url(free_port() + 1), &options);
    Client client(both(free_port(), free_port() + 1), &options);

    ASSERT_TRUE(run({second.get()}, {&client}, [&] { return client.connected(); }));
    ASSERT_FALSE(run({second.get()}, {&client}, [] { return false; }, 200));
    EXPECT_EQ(1u, client.stats().connections);
    second->close();
    ASSERT_TRUE(run({}, {&client}, [&] { return !client.connected(); }));
    send(client, 10);
    Server again(url(free_port() + 1), &options);
    ASSERT_TRUE(run({&again}, {&client}, [&] { return again.received.size() == 10; }))
        << client.reason;
}

// A preferred server is back, but the present one, which has not said that it has all, does not
// answer any more: it is left because of its silence, not before.
TEST_P(UdmonFailover, NobodyIsLeftWhoMayLackSomething)
{
    options.keepalive_ms = 100; // silent means 500 ms, return_ms is less
    Server second(url(free_port() + 1), &options);
    Client client(both(free_port(), free_port() + 1), &options);

    ASSERT_TRUE(run({&second}, {&client}, [&] { return client.connected(); }));
    Server back(url(free_port()), &options);
    send(client, 10);
    ASSERT_TRUE(run({&back}, {&client}, [&] { return !client.connected(); }));
    EXPECT_NE(std::string::npos, client.reason.find("nothing heard")) << client.reason;
}

INSTANTIATE_TEST_SUITE_P(Networks, UdmonFailover, testing::ValuesIn(schemes()),
                         [](const auto &scheme) { return scheme.param; });

TEST(UdmonFailoverErrors, Addresses)
{
    for (const char *bad : {" ", ",", "h:1,bad", "h:1 h:2 h:3 h:4 h:5 h:6 h:7 h:8 h:9"}) {
        EXPECT_EQ(-EINVAL, Client(bad).error) << bad;
    }
    EXPECT_EQ(0, Client("h:1,h:2, h:3 h:4,h:5,h:6,h:7,h:8").error);
}

} // namespace

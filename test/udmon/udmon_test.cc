// libudmon through its public interface, over each network that this host has: what is sent arrives
// unchanged, and what does not is counted.
#include "udmon_fixture.h"

#include <atomic>
#include <random>
#include <thread>

namespace
{

class UdmonRecords : public UdmonTest
{
};

TEST_P(UdmonRecords, RecordsArriveInOrderOverTheNetworkAskedFor)
{
    Server server(url(free_port()), &options);
    ASSERT_EQ(0, server.error);
    Client client(url(server.port()), &options);
    ASSERT_EQ(0, client.error);
    const int count = 3000;
    int sent = 0;

    ASSERT_TRUE(run({&server}, {&client}, [&] { return client.connected(); })) << client.reason;
    EXPECT_EQ(GetParam(), udmon_client_transport(client.client));
    ASSERT_TRUE(run({&server}, {&client}, [&] {
        for (int i = 0; (i < 100) && (sent < count); ++i) {
            EXPECT_EQ(0, client.send(numbered("record ", sent++)));
        }
        return server.received.size() == size_t(count);
    }));
    for (int i = 0; i < count; ++i) {
        ASSERT_EQ(numbered("record ", i), server.received[i].data);
        ASSERT_EQ(uint64_t(i), server.received[i].seq);
    }
    EXPECT_EQ(uint64_t(count), client.stats().sent);
    EXPECT_EQ(0u, client.stats().dropped);
    EXPECT_LT(client.stats().datagrams_sent, uint64_t(count) / 10); // they share datagrams
}

// Under load a receiver sleeps otherwise than with little to do; both have to end.
TEST_P(UdmonRecords, AFloodAndWhatComesAfterIt)
{
    options.client_id = 8;
    Server server(url(free_port()), &options);
    Client client(url(server.port()), &options);
    const std::string record(3000, 'r');
    const uint64_t count = 20000;
    uint64_t sent = 0;
    auto got = [&] { return server.received.size() + server.lost[options.client_id]; };

    ASSERT_TRUE(run({&server}, {&client}, [&] { return client.connected(); }));
    ASSERT_TRUE(run({&server}, {&client},
                    [&] {
                        while ((sent < count) && (client.stats().queued < 100)) {
                            EXPECT_EQ(0, client.send(record));
                            ++sent;
                        }
                        return got() == count;
                    }))
        << got() << " in " << client.stats().connections << " connections, " << client.reason;
    EXPECT_EQ(record, server.received.back().data);
    for (int i = 0; i < 5; ++i) {
        uint64_t before = got();
        ASSERT_EQ(0, client.send("after"));
        ASSERT_TRUE(run({&server}, {&client}, [&] { return got() == before + 1; }));
        usleep(20000);
    }
    EXPECT_EQ(0u, client.stats().dropped);
}

// A server that takes records slowly has megabytes of them before it when it reads a ping: it
// answers late, but lives. (Over UD it loses what its queue has no room for.)
TEST_P(UdmonRecords, AServerThatIsSlowIsNotGivenUp)
{
    options.client_id = 8;
    options.keepalive_ms = 200;
    Server server(url(free_port()), &options);
    Client client(url(server.port()), &options);
    const std::string record(3000, 'r');
    const uint64_t count = 3000;
    uint64_t sent = 0;
    std::atomic<bool> done(false);

    ASSERT_TRUE(run({&server}, {&client}, [&] { return client.connected(); }));
    server.pause_us = 1000;
    std::thread slow([&] { run({&server}, {}, [&] { return done.load(); }); });
    EXPECT_TRUE(run(
        {}, {&client},
        [&] {
            while ((sent < count) && (client.stats().queued < 100)) {
                EXPECT_EQ(0, client.send(record));
                ++sent;
            }
            return (client.stats().peer_received + client.stats().peer_lost) == count;
        },
        30000))
        << client.stats().peer_received << " and " << client.stats().peer_lost << " lost";
    done = true;
    slow.join();
    EXPECT_EQ(1u, client.stats().connections) << client.reason;
    EXPECT_EQ(count, server.received.size() + server.lost[options.client_id]);
    EXPECT_TRUE((GetParam() == "ud") || (server.lost[options.client_id] == 0));
}

TEST_P(UdmonRecords, LongRecordsAreCutAndPutTogether)
{
    options.max_record = 300000;
    Server server(url(free_port()), &options);
    Client client(url(server.port()), &options);
    std::vector<std::string> records;
    std::mt19937 random(1);

    for (size_t size : {0, 1, 1000, 2021, 2022, 2023, 2024, 4096, 65536, 300000, 5}) {
        std::string record(size, 0);
        for (char &c : record) {
            c = char(random());
        }
        records.push_back(record);
        ASSERT_EQ(0, client.send(record));
    }
    EXPECT_EQ(-EMSGSIZE, client.send(std::string(300001, 'x')));
    ASSERT_TRUE(
        run({&server}, {&client}, [&] { return server.received.size() == records.size(); }));
    for (size_t i = 0; i < records.size(); ++i) {
        EXPECT_EQ(records[i], server.received[i].data) << records[i].size();
    }
}

TEST_P(UdmonRecords, ManyClientsAtOnceEachWithItsName)
{
    Server server(url(free_port()), &options);
    std::vector<std::unique_ptr<Client>> clients;
    std::vector<Client *> all;
    std::map<uint64_t, std::vector<std::string>> by_client;

    server.echo = true;
    for (int i = 0; i < 8; ++i) {
        std::string name = numbered("node", i);
        options.name = name.c_str();
        clients.push_back(std::make_unique<Client>(url(server.port()), &options));
        ASSERT_EQ(0, clients.back()->error);
        all.push_back(clients.back().get());
        for (int k = 0; k < 20; ++k) {
            ASSERT_EQ(0, clients[i]->send(name + numbered(" ", k)));
        }
    }
    ASSERT_TRUE(run({&server}, all, [&] {
        for (Client *c : all) {
            if (c->received.size() < 20) {
                return false;
            }
        }
        return true;
    }));
    EXPECT_EQ(8u, std::set<std::string>(server.joined.begin(), server.joined.end()).size());
    for (int i = 0; i < 8; ++i) {
        for (int k = 0; k < 20; ++k) { // replies come to the one who asked, in order
            EXPECT_EQ("echo " + numbered("node", i) + numbered(" ", k), all[i]->received[k].data);
        }
    }
    clients[3]->close(); // says goodbye
    all.erase(all.begin() + 3);
    ASSERT_TRUE(run({&server}, all, [&] { return !server.left.empty(); }));
    ASSERT_EQ(1u, server.left.size());
    EXPECT_EQ("node3", server.left[0].first);
    EXPECT_EQ(UDMON_LEFT_BYE, server.left[0].second);
}

TEST_P(UdmonRecords, FullQueueDropsTheOldestAndEveryRecordIsAccountedFor)
{
    options.queue_bytes = 4096;
    options.max_record = 1000;
    Client client(url(free_port()), &options);
    const int count = 500;

    for (int i = 0; i < count; ++i) { // nobody is there
        ASSERT_EQ(0, client.send(numbered("record number ", i)));
    }
    EXPECT_GT(client.stats().dropped, 0u);
    EXPECT_EQ(uint64_t(count), client.stats().dropped + client.stats().queued);
    uint64_t queued = client.stats().queued;
    Server server(url(free_port()), &options);
    server.resume[0] = 0;
    ASSERT_TRUE(run({&server}, {&client}, [&] { return server.received.size() >= queued; }));
    EXPECT_EQ(numbered("record number ", count - 1), server.received.back().data);
    EXPECT_EQ(queued, server.received.size());
    EXPECT_EQ(uint64_t(count) - queued, server.received.front().seq);
}

TEST_P(UdmonRecords, ServerRestartedIsFoundAgainAndTheGapIsKnown)
{
    options.client_id = 4711;
    auto server = std::make_unique<Server>(url(free_port()), &options);
    int port = server->port();
    Client client(url(port), &options);
    uint64_t sent = 0, first_life;

    ASSERT_TRUE(run({server.get()}, {&client}, [&] {
        client.send(numbered("r", sent++));
        return server->received.size() > 50;
    }));
    uint64_t next = server->received.back().seq + 1;
    first_life = server->received.size();
    // Killed: no goodbye. A closed server says one, so keep the old one but stop processing it.
    auto dead = std::move(server);
    udmon_server_close(dead->server);
    dead->server = nullptr;
    for (int i = 0; i < 100; ++i) {
        client.send(numbered("r", sent++));
    }
    server = std::make_unique<Server>(url(port), &options);
    ASSERT_EQ(0, server->error);
    server->resume[4711] = next;
    // All of them may have gone to the dead one, on a slow machine. A later record shows the gap.
    ASSERT_TRUE(run({server.get()}, {&client}, [&] { return client.stats().connections == 2; }));
    client.send(numbered("r", sent++));
    ASSERT_TRUE(run({server.get()}, {&client}, [&] {
        return !server->received.empty() && (server->received.back().seq == sent - 1);
    }));
    EXPECT_EQ(sent, first_life + server->received.size() + server->lost[4711]);
    EXPECT_EQ(2u, client.stats().connections);
}

// A server that was away for long is not flooded: so many datagrams go, and more when it answers.
TEST_P(UdmonRecords, WhatWaitedIsSentAsTheServerAnswers)
{
    const uint64_t count = 20000;
    const std::string record(100, 'r');
    struct udmon_stats stats;

    options.client_id = 12;
    options.keepalive_ms = 5000; // those that are not processed below are not dead
    options.queue_bytes = 8 << 20;
    int port = free_port();
    Client client(url(port), &options);
    for (uint64_t i = 0; i < count; ++i) {
        ASSERT_EQ(0, client.send(record));
    }
    Server server(url(port), &options);
    ASSERT_EQ(0, server.error);
    ASSERT_TRUE(run({&server}, {&client}, [&] { return client.connected(); }));
    ASSERT_EQ(0, udmon_server_stats(server.server, 12, &stats));
    EXPECT_LE(std::abs(stats.peer_clock_s), 1);

    uint64_t sent = client.stats().datagrams_sent;
    auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
    ASSERT_TRUE(run({}, {&client}, [&] { return std::chrono::steady_clock::now() > end; }));
    EXPECT_LE(client.stats().datagrams_sent, sent + 40);
    EXPECT_GT(client.stats().queued, count / 2);

    ASSERT_TRUE(run({&server}, {&client}, [&] { return server.received.size() == count; }));
    EXPECT_EQ(0u, server.lost[12]);
    ASSERT_EQ(0, client.send("now"));
    ASSERT_TRUE(run({&server}, {&client}, [&] { return server.received.back().data == "now"; }));
}

// The server knows what it has of a client, so what came to nothing between is known too.
// The network is full all the time, so that a ping often finds no room: no reason to give a server up
// that takes what it is sent.
TEST_P(UdmonRecords, ABusyNetworkIsNoDeadServer)
{
    const std::string record(1000, 'x');
    options.keepalive_ms = 200;
    Server server(url(free_port()), &options);
    Client client(url(server.port()), &options);

    ASSERT_TRUE(run({&server}, {&client}, [&] { return client.connected(); })) << client.reason;
    ASSERT_FALSE(run(
        {&server}, {&client},
        [&] {
            for (int i = 0; i < 2000; ++i) {
                client.send(record);
            }
            server.received.clear();
            return !client.connected();
        },
        15 * options.keepalive_ms));
    EXPECT_EQ(1u, client.stats().connections);
    EXPECT_TRUE(server.left.empty());
}

TEST_P(UdmonRecords, LossBetweenTwoConnectionsIsKnown)
{
    options.client_id = 6;
    options.keepalive_ms = 5000; // as above
    Server server(url(free_port()), &options);
    Client first(url(server.port()), &options);
    for (int i = 0; i < 10; ++i) {
        ASSERT_EQ(0, first.send("x"));
    }
    ASSERT_TRUE(run({&server}, {&first}, [&] { return server.received.size() == 10; }));
    options.queue_bytes = 4096;
    options.max_record = 1000;
    Client second(url(server.port()), &options);
    for (int i = 0; i < 1000; ++i) {
        ASSERT_EQ(0, second.send("y"));
    }
    uint64_t dropped = second.stats().dropped;
    ASSERT_GT(dropped, 10u);
    ASSERT_TRUE(
        run({&server}, {&second}, [&] { return server.received.size() == 1010 - dropped; }));
    EXPECT_EQ(dropped - 10, server.lost[6]);
    ASSERT_EQ(1u, server.left.size());
    EXPECT_EQ(UDMON_LEFT_REPLACED, server.left[0].second);
}

INSTANTIATE_TEST_SUITE_P(Networks, UdmonRecords, testing::ValuesIn(schemes()),
                         [](const auto &scheme) { return scheme.param; });

} // namespace

int main(int argc, char **argv)
{
    testing::InitGoogleTest(&argc, argv);
    if (getenv("UDMON_TEST_CHILD") != nullptr) {
        udmon_run_child(getenv("UDMON_TEST_CHILD"));
        return 1;
    }
    return RUN_ALL_TESTS();
}

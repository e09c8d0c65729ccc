// libudmon through its public interface, over each network that this host has. UDMON_TEST_SCHEMES
// names them, best first (default: posix and tcp); UDMON_TEST_HOST the server's address, and
// UDMON_TEST_SOURCE the clients'.
#include "udmon_loopback.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>

namespace {

std::vector<std::string> schemes()
{
    const char *text = getenv("UDMON_TEST_SCHEMES");
    std::istringstream words((text != nullptr) ? text : "posix tcp");
    std::vector<std::string> list;
    std::string word;

    while (words >> word) {
        list.push_back(word);
    }
    return list;
}

std::string host()
{
    const char *text = getenv("UDMON_TEST_HOST");

    return (text != nullptr) ? text : "127.0.0.1";
}

std::string numbered(const std::string &prefix, int i)
{
    return prefix + std::to_string(i);
}

class UdmonTest : public testing::TestWithParam<std::string> {
protected:
    udmon_options_t options = quick_options();
    char secret[32] = "/tmp/udmon-secret-XXXXXX";

    void SetUp() override
    {
        options.source = getenv("UDMON_TEST_SOURCE");
        int fd = mkstemp(secret);
        ASSERT_GE(fd, 0);
        ASSERT_EQ(6, write(fd, "sesam\n", 6));
        close(fd);
    }
    void TearDown() override { unlink(secret); }

    std::string url(int port = 0) const
    {
        return GetParam() + "://" + host() + ":" + std::to_string(port);
    }
    // A port that nobody listens on, to come back to; none that the kernel hands out
    int free_port() const { return 20000 + (getpid() % 12000); }
};

TEST_P(UdmonTest, RecordsArriveInOrderOverTheNetworkAskedFor)
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

TEST_P(UdmonTest, LongRecordsAreCutAndPutTogether)
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
    ASSERT_TRUE(run({&server}, {&client},
                    [&] { return server.received.size() == records.size(); }));
    for (size_t i = 0; i < records.size(); ++i) {
        EXPECT_EQ(records[i], server.received[i].data) << records[i].size();
    }
}

TEST_P(UdmonTest, ManyClientsAtOnceEachWithItsName)
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

TEST_P(UdmonTest, FullQueueDropsTheOldestAndEveryRecordIsAccountedFor)
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

TEST_P(UdmonTest, ServerRestartedIsFoundAgainAndTheGapIsKnown)
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
    ASSERT_TRUE(run({server.get()}, {&client}, [&] {
        return !server->received.empty() && (server->received.back().seq == sent - 1);
    }));
    EXPECT_EQ(sent, first_life + server->received.size() + server->lost[4711]);
    EXPECT_EQ(2u, client.stats().connections);
}

TEST_P(UdmonTest, DeadClientIsNoticedByItsSilence)
{
    Server server(url(free_port()), &options);
    int port = server.port();
    int ready[2];
    ASSERT_EQ(0, pipe(ready));
    pid_t pid = fork();

    if (pid == 0) {
        // A process of its own, without what the parent has open
        std::string self = "/proc/self/exe", target = url(port);
        setenv("UDMON_TEST_CHILD", target.c_str(), 1);
        execl(self.c_str(), "udmon_test", "--gtest_filter=NONE", nullptr);
        _exit(127);
    }
    ASSERT_TRUE(run({&server}, {}, [&] { return server.received.size() >= 5; }));
    EXPECT_TRUE(server.left.empty());
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    ASSERT_TRUE(run({&server}, {}, [&] { return server.left.size() == 1; }));
    EXPECT_EQ(UDMON_LEFT_SILENT, server.left[0].second);
    close(ready[0]);
    close(ready[1]);
}

// A program that is stopped for a while has to read what has come before it judges who is silent.
TEST_P(UdmonTest, StalledProgramDoesNotTakeItselfForSilentPeers)
{
    Server server(url(free_port()), &options);
    Client client(url(server.port()), &options);

    server.echo = true;
    ASSERT_EQ(0, client.send("before"));
    ASSERT_TRUE(run({&server}, {&client}, [&] { return client.received.size() == 1; }));
    usleep(10 * options.keepalive_ms * 1000);
    ASSERT_EQ(0, client.send("after"));
    ASSERT_TRUE(run({&server}, {&client}, [&] { return client.received.size() == 2; }));
    EXPECT_TRUE(server.left.empty());
    EXPECT_EQ(1u, client.stats().connections);
}

// The first datagram over a new way may take long. The client tries for connect_ms; the server, which
// has let it in, does not give it up sooner.
TEST_P(UdmonTest, ClientThatIsSlowToSpeakIsNotTakenForSilent)
{
    Server server(url(free_port()), &options);
    Client client(url(server.port()), &options);

    ASSERT_TRUE(run({&server}, {&client}, [&] { return !server.joined.empty(); }));
    ASSERT_FALSE(client.connected());
    ASSERT_FALSE(run({&server}, {}, [] { return false; }, 12 * options.keepalive_ms));
    ASSERT_TRUE(run({&server}, {&client}, [&] { return client.connected(); }));
    EXPECT_TRUE(server.left.empty());
    EXPECT_EQ(1u, server.joined.size());
}

TEST_P(UdmonTest, NobodyThereIsNoErrorUntilItComes)
{
    Client client(url(free_port()), &options);

    ASSERT_EQ(0, client.error);
    ASSERT_TRUE(run({}, {&client}, [&] {
        return std::count(client.states.begin(), client.states.end(), UDMON_DISCONNECTED) >= 2;
    }));
    EXPECT_NE(std::string::npos, client.reason.find(GetParam())) << client.reason;
    Server server(url(free_port()), &options);
    EXPECT_TRUE(run({&server}, {&client}, [&] { return client.connected(); }));
}

TEST_P(UdmonTest, SecretLetsInOnlyThoseWhoKnowIt)
{
    options.secret_file = secret;
    Server server(url(free_port()), &options);
    Client good(url(server.port()), &options);
    options.secret_file = nullptr;
    Client without(url(server.port()), &options);

    ASSERT_EQ(0, without.send("let me in"));
    ASSERT_EQ(0, good.send("sesam"));
    ASSERT_TRUE(run({&server}, {&good, &without}, [&] {
        return (server.received.size() == 1) &&
               (without.reason.find("secret") != std::string::npos);
    })) << without.reason;
    EXPECT_EQ(0u, without.stats().sent);
    EXPECT_EQ(1u, server.joined.size());
    EXPECT_EQ("sesam", server.received[0].data);
}

TEST_P(UdmonTest, ServerWithoutTheSecretIsNotTrusted)
{
    Server server(url(free_port()), &options);
    options.secret_file = secret;
    Client client(url(server.port()), &options);

    ASSERT_EQ(0, client.send("confidential"));
    ASSERT_TRUE(run({&server}, {&client},
                    [&] { return client.reason.find("secret") != std::string::npos; }));
    EXPECT_TRUE(server.received.empty());
}

TEST_P(UdmonTest, ReliableMessagesInBothDirections)
{
    Server server(url(free_port()), &options);
    Client client(url(server.port()), &options);
    const int count = 500;
    int sent = 0;

    server.echo = true;
    ASSERT_TRUE(run({&server}, {&client}, [&] {
        while ((sent < count) && (client.send(numbered("c", sent), UDMON_RELIABLE) == 0)) {
            ++sent;
        }
        return client.received.size() == size_t(count);
    }));
    for (int i = 0; i < count; ++i) {
        ASSERT_EQ(numbered("c", i), server.received[i].data);
        ASSERT_TRUE(server.received[i].reliable);
        ASSERT_EQ("echo " + numbered("c", i), client.received[i].data);
    }
    ASSERT_TRUE(run({&server}, {&client}, [&] { return client.stats().unacknowledged == 0; }));
    EXPECT_EQ(-EMSGSIZE, client.send(std::string(5000, 'x'), UDMON_RELIABLE));
}

TEST_P(UdmonTest, ReliableMessageOutlivesTheServer)
{
    auto server = std::make_unique<Server>(url(free_port()), &options);
    int port = server->port();
    Client client(url(port), &options);

    ASSERT_TRUE(run({server.get()}, {&client}, [&] { return client.connected(); }));
    server.reset();
    ASSERT_EQ(0, client.send("remember", UDMON_RELIABLE));
    server = std::make_unique<Server>(url(port), &options);
    ASSERT_TRUE(run({server.get()}, {&client}, [&] { return server->received.size() == 1; }));
    EXPECT_EQ("remember", server->received[0].data);
    EXPECT_TRUE(server->received[0].reliable);
}

TEST_P(UdmonTest, ClientOfTheSameIdentityReplacesTheFirst)
{
    options.client_id = 5;
    options.keepalive_ms = 5000; // the first is not processed any more and must not seem dead
    Server server(url(free_port()), &options);
    Client first(url(server.port()), &options);

    ASSERT_TRUE(run({&server}, {&first}, [&] { return first.connected(); }));
    Client second(url(server.port()), &options);
    ASSERT_TRUE(run({&server}, {&second}, [&] { return second.connected(); }));
    ASSERT_EQ(1u, server.left.size());
    EXPECT_EQ(UDMON_LEFT_REPLACED, server.left[0].second);
}

// The server knows what it has of a client, so what came to nothing between is known too.
TEST_P(UdmonTest, LossBetweenTwoConnectionsIsKnown)
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
    ASSERT_TRUE(run({&server}, {&second},
                    [&] { return server.received.size() == 1010 - dropped; }));
    EXPECT_EQ(dropped - 10, server.lost[6]);
    ASSERT_EQ(1u, server.left.size());
    EXPECT_EQ(UDMON_LEFT_REPLACED, server.left[0].second);
}

TEST_P(UdmonTest, FullServerRefuses)
{
    options.max_clients = 1;
    Server server(url(free_port()), &options);
    Client one(url(server.port()), &options);

    ASSERT_TRUE(run({&server}, {&one}, [&] { return one.connected(); }));
    Client two(url(server.port()), &options);
    ASSERT_TRUE(run({&server}, {&one, &two},
                    [&] { return two.reason.find("room") != std::string::npos; }));
    EXPECT_TRUE(one.connected());
}

INSTANTIATE_TEST_SUITE_P(Networks, UdmonTest, testing::ValuesIn(schemes()),
                         [](const auto &scheme) { return scheme.param; });

TEST(UdmonSchemes, WithoutASchemeTheBestIsTaken)
{
    udmon_options_t options = quick_options();
    options.source = getenv("UDMON_TEST_SOURCE");
    Server server(host() + ":0", &options);
    ASSERT_EQ(0, server.error);
    ASSERT_GT(server.port(), 0);
    Client client(host() + ":" + std::to_string(server.port()), &options);
    ASSERT_TRUE(run({&server}, {&client}, [&] { return client.connected(); })) << client.reason;
    EXPECT_EQ(schemes()[0], udmon_client_transport(client.client));
}

TEST(UdmonSchemes, ServerOfOneNetworkRefusesAnother)
{
    udmon_options_t options = quick_options();
    Server server("tcp://127.0.0.1:0", &options);
    Client client("posix://127.0.0.1:" + std::to_string(server.port()), &options);
    ASSERT_TRUE(run({&server}, {&client},
                    [&] { return client.reason.find("does not offer") != std::string::npos; }))
        << client.reason;
}

TEST(UdmonSchemes, IPv6)
{
    udmon_options_t options = quick_options();
    Server server("tcp://[::1]:0", &options);
    if (server.error == -EADDRNOTAVAIL) {
        GTEST_SKIP() << "no IPv6 here";
    }
    ASSERT_EQ(0, server.error);
    Client client("tcp://[::1]:" + std::to_string(server.port()), &options);
    ASSERT_EQ(0, client.send("six"));
    ASSERT_TRUE(run({&server}, {&client}, [&] { return server.received.size() == 1; }))
        << client.reason;
}

TEST(UdmonErrors, AddressesOptionsAndSecrets)
{
    for (const char *bad : {"", "host", "host:", ":1", "ftp://h:1", "h:0", "h:99999", "h:1x",
                            "::1:4999", "[::1]", "tcp://"}) {
        EXPECT_EQ(-EINVAL, Client(bad).error) << bad;
    }
    EXPECT_EQ(-ENOENT, Client("no-such-host.invalid:1").error);
    EXPECT_EQ(-ENOENT, Server("no-such-host.invalid:1").error);
    udmon_options_t options = quick_options();
    options.secret_file = "/nonexistent/secret";
    EXPECT_EQ(-EACCES, Client("tcp://127.0.0.1:1", &options).error);
    char path[] = "/tmp/udmon-secret-XXXXXX";
    close(mkstemp(path));
    options.secret_file = path;
    EXPECT_EQ(-EACCES, Client("tcp://127.0.0.1:1", &options).error); // empty
    std::ofstream(path) << "s";
    EXPECT_EQ(0, Client("tcp://127.0.0.1:1", &options).error);
    chmod(path, 0640);
    EXPECT_EQ(-EACCES, Client("tcp://127.0.0.1:1", &options).error);
    unlink(path);
    options = quick_options();
    options.datagram_size = 10;
    EXPECT_EQ(-EINVAL, Client("tcp://127.0.0.1:1", &options).error);
    options = quick_options();
    options.source = "not an address";
    EXPECT_EQ(-EINVAL, Client("tcp://127.0.0.1:1", &options).error);
    Server first("tcp://127.0.0.1:0");
    EXPECT_EQ(-EADDRINUSE, Server("tcp://127.0.0.1:" + std::to_string(first.port())).error);
}

// Somebody accepts the call and says nothing.
TEST(UdmonErrors, AServerThatDoesNotAnswerIsGivenUp)
{
    udmon_options_t options = quick_options();
    options.connect_ms = 50;
    struct sockaddr_in addr = {};
    socklen_t length = sizeof(addr);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    addr.sin_family = AF_INET;
    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(0, bind(fd, reinterpret_cast<struct sockaddr *>(&addr), sizeof(addr)));
    ASSERT_EQ(0, listen(fd, 5));
    ASSERT_EQ(0, getsockname(fd, reinterpret_cast<struct sockaddr *>(&addr), &length));
    Client client("tcp://127.0.0.1:" + std::to_string(ntohs(addr.sin_port)), &options);
    EXPECT_TRUE(run({}, {&client}, [&] {
        return client.reason.find("timed out") != std::string::npos;
    })) << client.reason;
    close(fd);
}

TEST(UdmonIdle, ProcessesSleep)
{
    udmon_options_t options = quick_options();
    options.keepalive_ms = 3600 * 1000;
    Server server("tcp://127.0.0.1:0", &options);
    Client client("tcp://127.0.0.1:" + std::to_string(server.port()), &options);
    ASSERT_TRUE(run({&server}, {&client}, [&] { return client.connected(); }));
    // Let the handshake's own looking around end, then count who is woken without cause.
    ASSERT_FALSE(run({&server}, {&client}, [] { return false; }, 4000));
    struct pollfd fds[] = {{udmon_server_fd(server.server), POLLIN, 0},
                           {udmon_client_fd(client.client), POLLIN, 0}};
    EXPECT_EQ(0, poll(fds, 2, 1000));
}

} // namespace

// The child of DeadClientIsNoticedByItsSilence: sends for ever.
static void run_child(const char *url)
{
    udmon_options_t options = quick_options();
    options.source = getenv("UDMON_TEST_SOURCE");
    Client client(url, &options);
    run({}, {&client}, [&] {
        client.send("alive");
        return false;
    });
}

int main(int argc, char **argv)
{
    testing::InitGoogleTest(&argc, argv);
    if (getenv("UDMON_TEST_CHILD") != nullptr) {
        run_child(getenv("UDMON_TEST_CHILD"));
        return 1;
    }
    return RUN_ALL_TESTS();
}

// Who is connected to whom: peers that come, go, fall silent, are not there, or are not let in.
#include "udmon_fixture.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <fstream>

namespace
{

class UdmonPeers : public UdmonTest
{
};

TEST_P(UdmonPeers, DeadClientIsNoticedByItsSilence)
{
    Server server(url(free_port()), &options);
    int port = server.port();
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
}

// A program that is stopped for a while has to read what has come before it judges who is silent.
TEST_P(UdmonPeers, StalledProgramDoesNotTakeItselfForSilentPeers)
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

// The first datagram over a new way may take long. The client tries for connect_ms; the server,
// which has let it in, does not give it up sooner.
TEST_P(UdmonPeers, ClientThatIsSlowToSpeakIsNotTakenForSilent)
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

TEST_P(UdmonPeers, NobodyThereIsNoErrorUntilItComes)
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

TEST_P(UdmonPeers, SecretLetsInOnlyThoseWhoKnowIt)
{
    SecretFile other("another\n");
    Server server(url(free_port()), &options);
    Client good(url(server.port()), &options);
    options.secret_file = nullptr;
    Client without(url(server.port()), &options);
    options.secret_file = other.path;
    Client wrong(url(server.port()), &options);

    ASSERT_EQ(0, without.send("let me in"));
    ASSERT_EQ(0, wrong.send("let me in"));
    ASSERT_EQ(0, good.send("sesam"));
    ASSERT_TRUE(run({&server}, {&good, &without, &wrong},
                    [&] {
                        return (server.received.size() == 1) &&
                               (without.reason.find("secret") != std::string::npos) &&
                               (wrong.reason.find("secret") != std::string::npos);
                    }))
        << without.reason << wrong.reason;
    EXPECT_EQ(0u, without.stats().sent);
    EXPECT_EQ(0u, wrong.stats().sent);
    EXPECT_EQ(1u, server.joined.size());
    EXPECT_EQ("sesam", server.received[0].data);
}

TEST_P(UdmonPeers, ServerWithoutTheSecretIsNotTrusted)
{
    SecretFile other("another\n");
    Client client(url(free_port()), &options);
    options.secret_file = other.path;
    Server server(url(free_port()), &options);

    ASSERT_EQ(0, client.send("confidential"));
    ASSERT_TRUE(run({&server}, {&client},
                    [&] { return client.reason.find("secret") != std::string::npos; }));
    EXPECT_TRUE(server.received.empty());
}

TEST_P(UdmonPeers, ClientOfTheSameIdentityReplacesTheFirst)
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

TEST_P(UdmonPeers, FullServerRefuses)
{
    options.max_clients = 1;
    Server server(url(free_port()), &options);
    Client one(url(server.port()), &options);

    ASSERT_TRUE(run({&server}, {&one}, [&] { return one.connected(); }));
    Client two(url(server.port()), &options);
    ASSERT_TRUE(
        run({&server}, {&one, &two}, [&] { return two.reason.find("room") != std::string::npos; }));
    EXPECT_TRUE(one.connected());
}

// Relays behind relays could be joined in a circle.
TEST_P(UdmonPeers, RelaysAreKnownAndMayBeRefused)
{
    struct udmon_options refusing = options;
    refusing.refuse_relays = 1;
    Server upper(url(free_port()), &options), relay(url(free_port() + 1), &refusing);
    Client agent(url(free_port() + 1), &options);
    options.relay = 1;
    Client good(url(free_port()), &options), bad(url(free_port() + 1), &options);

    ASSERT_TRUE(run({&upper, &relay}, {&agent, &good, &bad}, [&] {
        return agent.connected() && good.connected() &&
               (bad.reason.find("is a relay itself") != std::string::npos);
    })) << bad.reason;
    EXPECT_EQ(1u, relay.joined.size());
    EXPECT_EQ(0, relay.relays);
    EXPECT_EQ(1, upper.relays);
}

// Nothing spins: connected, and with nothing to say, nobody is woken. An endpoint of glex that sleeps
// looks by itself five times a second, since its peer may be killed before it wakes it.
TEST_P(UdmonPeers, Sleep)
{
    options.keepalive_ms = 3600 * 1000;
    Server server(url(free_port()), &options);
    Client client(url(server.port()), &options);
    ASSERT_TRUE(run({&server}, {&client}, [&] { return client.connected(); }));
    // Let what is under way end, then count who is woken without cause.
    ASSERT_FALSE(run({&server}, {&client}, [] { return false; }, 500));
    struct pollfd fds[] = {{udmon_server_fd(server.server), POLLIN, 0},
                           {udmon_client_fd(client.client), POLLIN, 0}};
    if (GetParam() != std::string("glex")) {
        EXPECT_EQ(0, poll(fds, 2, 1000));
        return;
    }
    unsigned woken = 0;
    EXPECT_FALSE(run({&server}, {&client}, [&] { return ++woken > 100; }, 1000));
}

INSTANTIATE_TEST_SUITE_P(Networks, UdmonPeers, testing::ValuesIn(schemes()),
                         [](const auto &scheme) { return scheme.param; });

TEST(UdmonSchemes, WithoutASchemeTheBestIsTaken)
{
    struct udmon_options options = quick_options();
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
    struct udmon_options options = quick_options();
    Server server("tcp://127.0.0.1:0", &options);
    Client client("glex://127.0.0.1:" + std::to_string(server.port()), &options);
    ASSERT_TRUE(run({&server}, {&client}, [&] {
        return client.reason.find("does not offer") != std::string::npos;
    })) << client.reason;
}

TEST(UdmonSchemes, IPv6)
{
    struct udmon_options options = quick_options();
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

// Who listens for others without a secret listens for everybody.
TEST(UdmonErrors, WithoutASecretThereIsOnlyLoopback)
{
    struct udmon_options options = quick_options();
    options.secret_file = nullptr;
    for (const char *open : {"*:0", ":0", "tcp://0.0.0.0:0", "tcp://[::]:0", "glex://*:0"}) {
        EXPECT_EQ(-EACCES, Server(open, &options).error) << open;
    }
    for (const char *closed : {"127.0.0.1:0", "tcp://localhost:0", "tcp://127.1.2.3:0"}) {
        EXPECT_EQ(0, Server(closed, &options).error) << closed;
    }
    Client client("tcp://192.0.2.1:4999", &options);
    ASSERT_TRUE(run({}, {&client}, [&] {
        return client.reason.find("needs a shared secret") != std::string::npos;
    })) << client.reason;
    options.secret_file = shared_secret();
    EXPECT_EQ(0, Server("tcp://*:0", &options).error);
}

TEST(UdmonErrors, AddressesOptionsAndSecrets)
{
    for (const char *bad : {"", "host", "host:", ":1", "ftp://h:1", "h:0", "h:99999", "h:1x",
                            "::1:4999", "[::1]", "tcp://"}) {
        EXPECT_EQ(-EINVAL, Client(bad).error) << bad;
    }
    EXPECT_EQ(-ENOENT, Server("no-such-host.invalid:1").error);
    struct udmon_options options = quick_options();
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

// A name service that knows nothing, or not yet, does not end a client.
TEST(UdmonErrors, AHostWithoutAnAddressIsAskedForAgain)
{
    struct udmon_options options = quick_options();
    Client client("no-such-host.invalid:1", &options);

    ASSERT_EQ(0, client.error);
    EXPECT_EQ(0, client.send("wait"));
    ASSERT_TRUE(run({}, {&client}, [&] {
        return std::count(client.states.begin(), client.states.end(), UDMON_DISCONNECTED) >= 2;
    }));
    EXPECT_NE(std::string::npos, client.reason.find("no address for host")) << client.reason;
    EXPECT_EQ(1u, client.stats().queued);
}

TEST(UdmonErrors, ANameLeadsToTheServer)
{
    struct udmon_options options = quick_options();
    Server server("tcp://127.0.0.1:0", &options);
    Client client("tcp://localhost:" + std::to_string(server.port()), &options);

    ASSERT_TRUE(run({&server}, {&client}, [&] { return client.connected(); })) << client.reason;
}

// Somebody accepts the call and says nothing.
TEST(UdmonErrors, AServerThatDoesNotAnswerIsGivenUp)
{
    struct udmon_options options = quick_options();
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

// Who is not answered is more patient the next time; who was connected begins anew.
TEST(UdmonErrors, PatienceGrowsWithEachRoundWithoutAnAnswer)
{
    struct udmon_options options = quick_options();
    options.connect_ms = 100;
    struct sockaddr_in addr = {};
    socklen_t length = sizeof(addr);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    addr.sin_family = AF_INET;
    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(0, bind(fd, reinterpret_cast<struct sockaddr *>(&addr), sizeof(addr)));
    ASSERT_EQ(0, listen(fd, 5));
    ASSERT_EQ(0, getsockname(fd, reinterpret_cast<struct sockaddr *>(&addr), &length));
    Client client("tcp://127.0.0.1:" + std::to_string(ntohs(addr.sin_port)), &options);
    auto start = std::chrono::steady_clock::now();
    ASSERT_TRUE(run({}, {&client}, [&] {
        return std::count(client.states.begin(), client.states.end(), UDMON_DISCONNECTED) >= 3;
    }));
    EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(100 + 200 + 400));
    close(fd);
}

// UDMON_TEST_ABSENT: an address of the network that nobody has. 192.0.2.1 is for documentation.
TEST(UdmonErrors, AHostThatIsNotThereIsSaidAndRecordsWait)
{
    const char *text = getenv("UDMON_TEST_ABSENT");
    std::string absent = (text != nullptr) ? text : "192.0.2.1";
    struct udmon_options options = quick_options();
    options.source = getenv("UDMON_TEST_SOURCE");
    options.connect_ms = 300;
    std::string scheme = (text != nullptr) ? schemes()[0] : "tcp";
    Client client(scheme + "://" + absent + ":4999", &options);

    ASSERT_EQ(0, client.error);
    EXPECT_EQ(0, client.send("wait"));
    ASSERT_TRUE(run({}, {&client}, [&] {
        return std::count(client.states.begin(), client.states.end(), UDMON_DISCONNECTED) >= 2;
    }));
    EXPECT_NE(std::string::npos, client.reason.find(absent)) << client.reason;
    EXPECT_EQ(1u, client.stats().queued);
    EXPECT_EQ(0u, client.stats().dropped);
}

} // namespace

// The child of DeadClientIsNoticedByItsSilence: sends for ever.
void udmon_run_child(const char *url)
{
    struct udmon_options options = quick_options();
    options.source = getenv("UDMON_TEST_SOURCE");
    Client client(url, &options);
    run({}, {&client}, [&] {
        client.send("alive");
        return false;
    });
}

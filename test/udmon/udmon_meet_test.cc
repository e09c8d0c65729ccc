// Strangers at a server's port, and somebody between a client and its server who reads what they
// say or changes it: without the secret nothing is learned, and nothing is delivered.
#include "udmon_loopback.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <atomic>
#include <random>
#include <thread>

#include "udmon/lib/base/wire.h"

namespace
{

sockaddr_in local(int port)
{
    sockaddr_in addr = {};

    addr.sin_family = AF_INET;
    addr.sin_port = htons(port);
    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return addr;
}

int dial(int port)
{
    sockaddr_in addr = local(port);
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    if (connect(fd, (sockaddr *)&addr, sizeof(addr))) {
        throw std::runtime_error("nobody listens there");
    }
    return fd;
}

// Passes bytes between a client and the server on a port of this host.
class Relay
{
  public:
    // Called with each piece, the direction, and how many bytes have passed there before.
    std::function<void(std::string &, bool to_server, size_t before)> change;
    int port;

    explicit Relay(int to) : server_port(to)
    {
        sockaddr_in addr = local(0);
        socklen_t length = sizeof(addr);

        listener = socket(AF_INET, SOCK_STREAM, 0);
        if (bind(listener, (sockaddr *)&addr, sizeof(addr)) || listen(listener, 16) ||
            getsockname(listener, (sockaddr *)&addr, &length)) {
            throw std::runtime_error("no port for the relay");
        }
        port = ntohs(addr.sin_port);
        thread = std::thread([this] { serve(); });
    }
    ~Relay()
    {
        stopping = true;
        shutdown(listener, SHUT_RDWR);
        thread.join();
        close(listener);
    }

  private:
    int server_port, listener;
    std::atomic<bool> stopping{false};
    std::thread thread;

    bool pass(int from, int to, bool to_server, size_t *before)
    {
        char bytes[4096];
        ssize_t n = recv(from, bytes, sizeof(bytes), 0);

        if (n <= 0) {
            return false;
        }
        std::string piece(bytes, n);
        if (change) {
            change(piece, to_server, *before);
        }
        *before += n;
        return send(to, piece.data(), piece.size(), MSG_NOSIGNAL) == n;
    }
    void serve()
    {
        int client;

        while ((client = accept(listener, nullptr, nullptr)) >= 0) {
            int server = dial(server_port);
            size_t before[2] = {0, 0};
            pollfd fds[2] = {{client, POLLIN, 0}, {server, POLLIN, 0}};
            bool open = true;
            while (open && !stopping) {
                poll(fds, 2, 50);
                for (int i = 0; (i < 2) && open; ++i) {
                    open = !fds[i].revents || pass(fds[i].fd, fds[1 - i].fd, i == 0, &before[i]);
                }
            }
            close(server);
            close(client);
        }
    }
};

// Bytes that a stranger gets for his, until the server closes.
std::string answer(Server &server, const std::string &bytes, std::vector<Client *> others = {})
{
    int fd = dial(server.port());
    std::string got;
    bool closed = false;

    send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    shutdown(fd, SHUT_WR);
    EXPECT_TRUE(run({&server}, others, [&] {
        char piece[1024];
        ssize_t n = recv(fd, piece, sizeof(piece), MSG_DONTWAIT);
        if (n > 0) {
            got.append(piece, n);
        }
        closed = (n == 0) || ((n < 0) && (errno != EAGAIN));
        return closed;
    }));
    close(fd);
    return got;
}

// Of this process, in which the server is: other processes come and go.
size_t listening_sockets()
{
    size_t count = 0;

    for (int fd = 0; fd < 1024; ++fd) {
        int listens = 0;
        socklen_t length = sizeof(listens);
        count += !getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) && listens;
    }
    return count;
}

// Requests as version 1 of the protocol had them, without TLS, for each network.
TEST(Strangers, AHelloWithoutProofOpensNothingAndIsNotAnswered)
{
    struct udmon_options options = quick_options();
    Server server("127.0.0.1:0", &options);

    for (const char *transport : {"tcp", "glex", "ud"}) {
        struct udmon_hello hello = {};
        hello.header.magic = htole16(UDMON_MAGIC);
        hello.header.version = UDMON_VERSION;
        hello.header.type = UDMON_HELLO;
        strcpy(hello.transport, transport);
        std::string bytes("\x20\0", 2);
        bytes.append((const char *)&hello, sizeof(hello));
        std::string got = answer(server, bytes);
        EXPECT_LT(got.size(), 16u); // an alert of TLS at most
    }
}

// Agents over TCP need no other port than the one they are told: UCX's TCP is not there.
TEST(Strangers, NoOtherPortIsOpenedForAgents)
{
    struct udmon_options options = quick_options();
    Server server("127.0.0.1:0", &options);
    size_t before = listening_sockets();
    Client client("tcp://127.0.0.1:" + std::to_string(server.port()), &options);

    ASSERT_EQ(0, client.send("x"));
    ASSERT_TRUE(run({&server}, {&client}, [&] { return server.received.size() == 1; }));
    EXPECT_EQ(before, listening_sockets());
    Server other("127.0.0.1:0", &options);
    EXPECT_LT(before, listening_sockets());
}

TEST(Strangers, NoiseDoesNoHarm)
{
    struct udmon_options options = quick_options();
    Server server("127.0.0.1:0", &options);
    Client client("tcp://127.0.0.1:" + std::to_string(server.port()), &options);
    std::mt19937 random(3);

    ASSERT_TRUE(run({&server}, {&client}, [&] { return client.connected(); }));
    for (int i = 0; i < 300; ++i) {
        std::string noise(random() % 2000, 0);
        for (char &c : noise) {
            c = char(random());
        }
        if (i % 2) { // a record of TLS's handshake
            noise.insert(0, std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11));
        }
        answer(server, noise, {&client});
        ASSERT_EQ(0, client.send("still here"));
    }
    ASSERT_TRUE(run({&server}, {&client}, [&] { return server.received.size() == 300; }));
    EXPECT_EQ(1u, client.stats().connections);
    EXPECT_EQ(0u, server.lost.size());
}

// Of many who come at once, as agents do when their collector is back, nobody is closed to make room
// before he has had a second; those for whom there is no room wait.
TEST(Strangers, NobodyIsPushedOutAtOnce)
{
    struct udmon_options options = quick_options();
    size_t closed = 0;
    char byte;

    for (int attempt = 0; attempt < 5; ++attempt) {
        Server server("127.0.0.1:0", &options);
        std::vector<int> fds;
        auto start = std::chrono::steady_clock::now();
        for (int i = 0; i < 700; ++i) {
            fds.push_back(dial(server.port()));
        }
        run({&server}, {}, [] { return false; }, 300);
        closed = 0;
        for (int fd : fds) {
            closed += (recv(fd, &byte, 1, MSG_DONTWAIT) == 0);
        }
        bool soon = (std::chrono::steady_clock::now() - start) < std::chrono::milliseconds(900);
        // Afterwards there is room, for those who waited and for others.
        Client client("tcp://127.0.0.1:" + std::to_string(server.port()), &options);
        EXPECT_TRUE(run({&server}, {&client}, [&] { return client.connected(); }));
        for (int fd : fds) {
            close(fd);
        }
        if (soon) {
            break; // else this machine was too slow to tell
        }
    }
    EXPECT_EQ(0u, closed);
}

struct RelayTest : testing::Test {
    struct udmon_options options = quick_options();
    std::atomic<int> changed{0};
    std::string passed; // of the first connection, in both directions

    // Whether a record arrives if a byte at a place is changed; negative: none is.
    bool arrives(bool to_server, long place)
    {
        Server server("tcp://127.0.0.1:0", &options);
        Relay relay(server.port());

        relay.change = [&](std::string &piece, bool direction, size_t before) {
            passed += piece;
            if ((direction == to_server) && (place >= long(before)) &&
                (place < long(before + piece.size()))) {
                piece[place - before] ^= 1;
                ++changed;
            }
        };
        Client client("tcp://127.0.0.1:" + std::to_string(relay.port), &options);
        client.send("confidential");
        EXPECT_TRUE(run({&server}, {&client}, [&] {
            return !server.received.empty() ||
                   (!client.states.empty() && (client.states.back() == UDMON_DISCONNECTED));
        }));
        return !server.received.empty();
    }
};

TEST_F(RelayTest, UnchangedArrivesAndCannotBeRead)
{
    EXPECT_TRUE(arrives(true, -1));
    EXPECT_GT(passed.size(), 500u);
    EXPECT_EQ(std::string::npos, passed.find("confidential"));
    EXPECT_EQ(std::string::npos, passed.find("shared by all"));
}

// Headers of TLS records carry bytes that receivers ignore (their version): those are left alone.
TEST_F(RelayTest, ChangedDoesNotArrive)
{
    for (long place : {0, 3, 7, 20, 45, 100, 150, 200, 250, 300, 400}) {
        changed = 0;
        EXPECT_FALSE(arrives(true, place) && changed) << "to the server, " << place;
        changed = 0;
        EXPECT_FALSE(arrives(false, place) && changed) << "to the client, " << place;
    }
}

} // namespace

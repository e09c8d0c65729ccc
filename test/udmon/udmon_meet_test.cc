// A client and somebody between it and its server, who passes on what they say when they meet, or
// changes it: only what was signed with the secret may lead to a connection.
#include "udmon_loopback.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "udmon/wire.h"

namespace {

using Message = std::vector<uint8_t>;

// Relays requests and responses between a client and the server on a port of this host.
class Relay {
public:
    std::function<void(Message &)> change = [](Message &) {};

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
        shutdown(listener, SHUT_RDWR);
        thread.join();
        close(listener);
    }
    int port;

private:
    int server_port, listener;
    std::thread thread;

    static sockaddr_in local(int port)
    {
        sockaddr_in addr = {};

        addr.sin_family = AF_INET;
        addr.sin_port = htons(port);
        addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        return addr;
    }
    static bool all(int fd, void *data, size_t size, bool out)
    {
        size_t done = 0;

        while (done < size) {
            ssize_t n = out ? send(fd, (char *)data + done, size - done, MSG_NOSIGNAL) :
                              recv(fd, (char *)data + done, size - done, 0);
            if (n <= 0) {
                return false;
            }
            done += n;
        }
        return true;
    }
    // Messages are preceded by their length, 16 bits.
    bool pass(int from, int to)
    {
        uint16_t size;

        if (!all(from, &size, sizeof(size), false)) {
            return false;
        }
        Message message(le16toh(size));
        if (!all(from, message.data(), message.size(), false)) {
            return false;
        }
        change(message);
        return all(to, &size, sizeof(size), true) &&
               all(to, message.data(), message.size(), true);
    }
    void serve()
    {
        int client;

        while ((client = accept(listener, nullptr, nullptr)) >= 0) {
            sockaddr_in addr = local(server_port);
            int server = socket(AF_INET, SOCK_STREAM, 0);
            if (connect(server, (sockaddr *)&addr, sizeof(addr)) == 0) {
                pass(client, server) && pass(server, client);
            }
            close(server);
            close(client);
        }
    }
};

struct MeetTest : testing::Test {
    udmon_options_t options = quick_options();
    char secret[32] = "/tmp/udmon-secret-XXXXXX";

    void SetUp() override
    {
        int fd = mkstemp(secret);
        ASSERT_GE(fd, 0);
        ASSERT_EQ(6, write(fd, "sesam\n", 6));
        close(fd);
        options.secret_file = secret;
    }
    void TearDown() override { unlink(secret); }

    // Why there is no connection if messages of a type are changed at a place; "" if there is one.
    std::string outcome(uint8_t type, size_t offset)
    {
        std::atomic<int> changed{0};
        Server server("tcp://127.0.0.1:0", &options);
        Relay relay(server.port());

        relay.change = [&](Message &message) {
            if ((message.size() > offset) &&
                (message[offsetof(udmon_rpc_header_t, type)] == type)) {
                message[offset] ^= 1;
                ++changed;
            }
        };
        Client client("tcp://127.0.0.1:" + std::to_string(relay.port), &options);
        client.send("confidential");
        EXPECT_TRUE(run({&server}, {&client}, [&] {
            return !server.received.empty() ||
                   (!client.states.empty() && (client.states.back() == UDMON_DISCONNECTED));
        }));
        EXPECT_TRUE((changed > 0) || (type == 0));
        return server.received.empty() ? client.reason : "";
    }
};

TEST_F(MeetTest, UnchangedMessagesConnect)
{
    EXPECT_EQ("", outcome(0, 0));
}

TEST_F(MeetTest, WelcomeOfSomebodyWithoutTheSecretIsRefused)
{
    EXPECT_NE(std::string::npos, outcome(UDMON_WELCOME, offsetof(udmon_welcome_t, mac))
                                     .find("the server does not know the secret"));
}

TEST_F(MeetTest, WelcomeWithAnotherTokenIsRefused)
{
    EXPECT_NE(std::string::npos, outcome(UDMON_WELCOME, offsetof(udmon_welcome_t, token))
                                     .find("the server does not know the secret"));
}

TEST_F(MeetTest, AuthOfAnotherClientIsRefused)
{
    for (size_t offset : {offsetof(udmon_auth_t, client_id), offsetof(udmon_auth_t, next_seq),
                          offsetof(udmon_auth_t, client_nonce), offsetof(udmon_auth_t, mac),
                          sizeof(udmon_auth_t)}) {
        EXPECT_NE(std::string::npos, outcome(UDMON_AUTH, offset).find("secret")) << offset;
    }
}

TEST_F(MeetTest, ChallengeWithAnotherNonceIsRefused)
{
    EXPECT_NE(std::string::npos,
              outcome(UDMON_CHALLENGE, offsetof(udmon_challenge_t, server_nonce)).find("secret"));
}

} // namespace

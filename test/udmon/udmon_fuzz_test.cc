// Whatever comes from outside, in forms that nobody would send: requests to connect (as RDMA CM
// delivers them, and over TCP before and after the secret is proved), datagrams of a connection,
// samples, HTTP. Nothing crashes, no stranger is let in, and those who are connected lose nothing.
// UDMON_FUZZ is the number of inputs of each kind; the sanitizers look on.
#include "udmon_loopback.h"

#include <arpa/inet.h>
#include <cstdlib>
#include <microhttpd.h>
#include <random>
#include <sys/socket.h>
#include <ucs/debug/log_def.h>

extern "C" {
#include "udmon/collector/history.h"
#include "udmon/collector/http.h"
#include "udmon/lib/meet.h"
#include "udmon/lib/metric.h"
#include "udmon/lib/net/net.h"
#include "udmon/lib/server.h"
}

namespace
{

int inputs(int usual)
{
    const char *text = getenv("UDMON_FUZZ");

    return (text != nullptr) ? atoi(text) : usual;
}

using Bytes = std::vector<uint8_t>;

struct Mutator {
    std::mt19937 random{11};

    // Some bytes changed, cut off or added: mostly still what it was.
    Bytes mutate(Bytes bytes)
    {
        int times = 1 + random() % 4;

        for (int i = 0; i < times; ++i) {
            switch (random() % 4) {
            case 0:
                bytes.resize(random() % (bytes.size() + 1));
                break;
            case 1:
                bytes.resize(bytes.size() + random() % 64, uint8_t(random()));
                break;
            default:
                if (!bytes.empty()) {
                    bytes[random() % bytes.size()] = (random() % 3) ? uint8_t(random()) : 0xff;
                }
            }
        }
        return bytes;
    }
};

struct FuzzTest : testing::Test, Mutator {
    struct udmon_options options = quick_options();
    Server server{"127.0.0.1:0", &options};
    Client client{"tcp://127.0.0.1:" + std::to_string(server.port()), &options};

    void SetUp() override
    {
        udmon_set_log([](void *, enum udmon_log_level, const char *) {}, nullptr);
        ASSERT_TRUE(run({&server}, {&client}, [&] { return client.connected(); }));
    }
    void TearDown() override
    {
        // The connection there was is there still, and works.
        ASSERT_EQ(0, client.send("afterwards"));
        EXPECT_TRUE(run({&server}, {&client}, [&] {
            return !server.received.empty() && (server.received.back().data == "afterwards");
        }));
        udmon_set_log(nullptr, nullptr);
    }
};

// Strangers do not have the secret, so the server refuses all of them.
TEST_F(FuzzTest, RequestsOfStrangersOverRdmaCm)
{
    struct udmon_secret wrong = {{'x'}, 1, ""};
    struct udmon_auth fields = {};
    uint8_t message[UDMON_RPC_MAX], response[UDMON_CM_RESPONSE_MAX];
    uint8_t hello[UDMON_HELLO_MAX];
    struct udmon_hint hint = {{}, "node"};
    struct udmon_rpc_place place = {};

    place.remote.ss_family = AF_INET;
    place.gid_index = -1;
    memcpy(place.device, "rxe0:1", 6);
    memcpy(fields.transport, "ud", 2);
    size_t greeting = udmon_meet_hello(fields.client_nonce, "ud", &hint, hello);
    long length = udmon_meet_auth(&wrong, &fields, "ADDRESS", 7, "node", message, sizeof(message));
    ASSERT_GT(length, 0);
    const Bytes seeds[] = {Bytes(hello, hello + greeting), Bytes(message, message + length),
                           Bytes(100, 0)};
    for (int i = 0; i < inputs(50000); ++i) {
        Bytes bytes = mutate(seeds[random() % 3]);
        bytes.resize(std::min(bytes.size(), size_t(UDMON_CM_REQUEST_MAX)));
        size_t answered = udmon_server_serve(server.server, &place, bytes.data(), bytes.size(),
                                             response, sizeof(response));
        ASSERT_LE(answered, sizeof(response));
    }
    EXPECT_EQ(1u, server.joined.size());
}

// A client with the secret may come too late, or with a nonce that was used before. The server tells the
// client so.
TEST_F(FuzzTest, AnExpiredNonceIsNotCalledAWrongSecret)
{
    uint8_t message[UDMON_RPC_MAX], response[UDMON_CM_RESPONSE_MAX];
    struct udmon_secret *secret = &server.server->keys.secrets[KEYS_PRESENT];
    struct udmon_auth fields = {};
    struct udmon_rpc_place place = {};

    place.remote.ss_family = AF_INET;
    memcpy(fields.transport, "ud", 2);
    for (uint8_t status : {UDMON_NO_TRANSPORT, UDMON_EXPIRED}) {
        if (status == UDMON_NO_TRANSPORT) { // the first time: good, but there is no RDMA
            ASSERT_EQ(0, udmon_gate_nonce(&server.server->gate, fields.client_nonce,
                                          fields.server_nonce));
        }
        long length =
            udmon_meet_auth(secret, &fields, "ADDRESS", 7, "node", message, sizeof(message));
        ASSERT_GT(
            udmon_server_serve(server.server, &place, message, length, response, sizeof(response)),
            0u);
        EXPECT_EQ(status, reinterpret_cast<struct udmon_rpc_header *>(response)->status);
    }
    EXPECT_EQ(std::string::npos, std::string(udmon_meet_status_text(UDMON_EXPIRED)).find("secret"));
    EXPECT_NE(std::string::npos, std::string(udmon_meet_status_text(UDMON_REFUSED)).find("secret"));
}

// Of somebody who knows the token: he can send what he likes, and harms himself alone.
TEST_F(FuzzTest, DatagramsOfAConnection)
{
    options.client_id = 99;
    Client bad("tcp://127.0.0.1:" + std::to_string(server.port()), &options);
    ASSERT_TRUE(run({&server}, {&client, &bad}, [&] { return bad.connected(); }));
    struct udmon_session *session = udmon_sessions_by_id(&server.server->sessions, 99);
    ASSERT_NE(nullptr, session);
    for (int i = 0; i < inputs(50000); ++i) {
        struct udmon_dgram dgram = {};
        dgram.version = UDMON_VERSION;
        dgram.type = 1 + random() % UDMON_PONG; // no goodbye
        dgram.count = htole16(random() % 5);
        dgram.clock_s = htole32((random() % 2) ? random() : 0);
        dgram.token = htole64(session->chan.token);
        dgram.seq = htole64((random() % 4) ? session->chan.win.next + random() % 3 : random());
        Bytes bytes((uint8_t *)&dgram, (uint8_t *)(&dgram + 1));
        for (int k = random() % 60; k > 0; --k) {
            bytes.push_back((random() % 3) ? random() % 8 : random());
        }
        bytes = mutate(bytes);
        memcpy(bytes.data() + offsetof(struct udmon_dgram, token), &dgram.token,
               (bytes.size() >= sizeof(dgram)) ? sizeof(dgram.token) : 0);
        if (bytes.size() > 1 && bytes[1] == UDMON_BYE) {
            bytes[1] = UDMON_DATA;
        }
        udmon_server_received(server.server, bytes.data(), bytes.size());
        server.received.clear();
    }
    bad.close();
}

TEST_F(FuzzTest, Samples)
{
    uint8_t record[UDMON_METRIC_RECORD_MAX];
    struct udmon_metric metric = {"name{a=\"b\",c=\"d\"}", 1, 2, 1, 0, nullptr}, decoded;
    char name[UDMON_METRIC_NAME_MAX + 1];
    int length = udmon_metric_encode(&metric, record);

    ASSERT_GT(length, 0);
    for (int i = 0; i < inputs(1000000); ++i) {
        Bytes bytes = mutate(Bytes(record, record + length));
        if (udmon_metric_decode(bytes.data(), bytes.size(), &decoded, name) == 0) {
            ASSERT_TRUE(udmon_metric_name_valid(name));
            ASSERT_LE(strlen(name), size_t(UDMON_METRIC_NAME_MAX));
        }
    }
}

TEST_F(FuzzTest, RelayedSamples)
{
    uint8_t record[UDMON_RELAYED_RECORD_MAX];
    char name[UDMON_METRIC_NAME_MAX + 1];
    struct udmon_relayed relayed = {}, decoded;

    strcpy(relayed.node, "node1");
    relayed.metric = {"name{a=\"b\",c=\"d\"}", 1, 2, 1, 0, nullptr};
    int length = udmon_relayed_encode(&relayed, record);
    ASSERT_GT(length, 0);
    for (int i = 0; i < inputs(1000000); ++i) {
        Bytes bytes = mutate(Bytes(record, record + length));
        if (udmon_relayed_decode(bytes.data(), bytes.size(), &decoded, name) == 0) {
            ASSERT_TRUE(decoded.is_state || udmon_metric_name_valid(name));
            ASSERT_LE(strlen(name), size_t(UDMON_METRIC_NAME_MAX));
            ASSERT_LE(strlen(decoded.node), size_t(UDMON_NAME_MAX));
        }
    }
}

// A socket on loopback: connected to a port, or (port 0) listening.
struct Socket {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    explicit Socket(int port)
    {
        struct sockaddr_in in = {};

        in.sin_family = AF_INET;
        in.sin_port = htons(port);
        in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        int ret = (port == 0) ? bind(fd, (struct sockaddr *)&in, sizeof(in)) | listen(fd, 8) :
                                connect(fd, (struct sockaddr *)&in, sizeof(in));
        EXPECT_EQ(0, ret) << strerror(errno);
    }
    ~Socket()
    {
        close(fd);
    }
    Socket(const Socket &) = delete;
    int port() const
    {
        struct sockaddr_in in = {};
        socklen_t length = sizeof(in);

        getsockname(fd, (struct sockaddr *)&in, &length);
        return ntohs(in.sin_port);
    }
    // Whether the other side sends something, or ends, within a time.
    bool readable(int wait_ms) const
    {
        struct pollfd wait = {fd, POLLIN, 0};

        return poll(&wait, 1, wait_ms) == 1;
    }
};

// What a client says first over TCP, and what is none of that: TLS is as far as a stranger gets.
TEST_F(FuzzTest, BytesOfStrangersOverTcp)
{
    uint8_t first[2048];
    ssize_t length;
    {
        Socket listener(0);
        Client other("tcp://127.0.0.1:" + std::to_string(listener.port()), &options);
        ASSERT_TRUE(run({}, {&other}, [&] {
            struct pollfd wait = {listener.fd, POLLIN, 0};
            return poll(&wait, 1, 0) == 1;
        }));
        int fd = accept(listener.fd, nullptr, nullptr);
        ASSERT_TRUE(run({}, {&other}, [&] {
            length = recv(fd, first, sizeof(first), MSG_DONTWAIT);
            return length > 0;
        }));
        close(fd);
    }
    const Bytes hello(first, first + length);
    for (int i = 0; i < inputs(1000); ++i) {
        Socket stranger(server.port());
        Bytes bytes = mutate((random() % 8) ? hello : Bytes(random() % 64, uint8_t(random())));
        ASSERT_EQ(ssize_t(bytes.size()),
                  send(stranger.fd, bytes.data(), bytes.size(), MSG_NOSIGNAL));
        if (random() % 4) {
            shutdown(stranger.fd, SHUT_WR);
        }
        for (int k = random() % 4; k > 0; --k) { // some are gone before anybody looks
            udmon_server_process(server.server);
            udmon_client_process(client.client);
        }
    }
    EXPECT_EQ(1u, server.joined.size());
}

// Who knows the secret, over a TLS connection in which the test says what it likes.
class Member
{
  public:
    struct udmon_loop loop;
    struct udmon_tls tls;
    struct udmon_net net; // for addresses of its own
    struct udmon_link *link = nullptr;
    bool open = false, failed = false;
    int refused = 0, welcome = 0;

    Member(struct udmon_keys *keys, const struct udmon_options *options)
    {
        EXPECT_EQ(0, udmon_loop_open(&loop));
        EXPECT_EQ(0, udmon_tls_open(&tls, keys, options, 0));
        EXPECT_EQ(0, udmon_net_open(&net, &loop, &tls, nullptr, nullptr, nullptr));
    }
    ~Member()
    {
        hang_up();
        udmon_net_close(&net);
        udmon_tls_close(&tls);
        udmon_loop_close(&loop);
    }
    Member(const Member &) = delete;
    void hang_up()
    {
        if (link != nullptr) {
            udmon_link_close(link);
        }
        link = nullptr;
        open = failed = false;
    }
    void dial(int port)
    {
        static const struct udmon_link_ops ops = {opened, received, broken};
        struct sockaddr_in in = {};

        in.sin_family = AF_INET;
        in.sin_port = htons(port);
        in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        hang_up();
        ASSERT_EQ(0, udmon_link_connect(&tls, &loop, nullptr, (struct sockaddr *)&in, "127.0.0.1",
                                        &ops, this, &link));
    }
    // As it is, without the length that goes before a message.
    void write(const Bytes &bytes)
    {
        if (!bytes.empty()) {
            SSL_write(link->ssl, bytes.data(), int(bytes.size()));
        }
    }
    void progress()
    {
        udmon_links_send(&tls, 1);
        udmon_loop_run(&loop);
    }

  private:
    static void opened(void *arg)
    {
        static_cast<Member *>(arg)->open = true;
    }
    static void broken(void *arg, int)
    {
        static_cast<Member *>(arg)->failed = true;
    }
    static void received(void *arg, const void *data, size_t length)
    {
        Member *self = static_cast<Member *>(arg);

        if (udmon_meet_type(data, length) == UDMON_WELCOME) {
            ++(static_cast<const struct udmon_rpc_header *>(data)->status ? self->refused :
                                                                            self->welcome);
        }
    }
};

class MemberFuzz : public FuzzTest
{
  protected:
    std::unique_ptr<Member> member;
    uint8_t address[256] = {};
    int address_length = 0;

    void SetUp() override
    {
        struct udmon_port *port;

        FuzzTest::SetUp();
        ucs_log_push_handler([](const char *, unsigned, const char *, ucs_log_level_t,
                                const ucs_log_component_config_t *, const char *, va_list) {
            return UCS_LOG_FUNC_RC_STOP; // of addresses that UCX finds nobody at
        });
        member = std::make_unique<Member>(&server.server->keys, &options);
        if (udmon_net_port(&member->net, "glex", nullptr, -1, &port) == 0) { // where it was built
            address_length = udmon_port_address(port, address, sizeof(address));
            ASSERT_GT(address_length, 0);
        }
    }
    void TearDown() override
    {
        member.reset();
        ucs_log_pop_handler();
        FuzzTest::TearDown();
    }
    void dial()
    {
        member->dial(server.port());
        ASSERT_TRUE(run({&server}, {&client}, [&] {
            member->progress();
            return member->open || member->failed;
        }));
        ASSERT_TRUE(member->open);
        EXPECT_EQ(0, udmon_gate_open(&server.server->gate)); // has no end of nonces
    }
    Bytes hello(const char *transport)
    {
        uint8_t nonce[UDMON_NONCE_SIZE] = {}, hello[UDMON_HELLO_MAX];
        struct udmon_hint hint;

        EXPECT_EQ(0, udmon_keys_hint(&server.server->keys.secrets[KEYS_PRESENT], &hint));
        return Bytes(hello, hello + udmon_meet_hello(nonce, transport, &hint, hello));
    }
    // Signed as it should be, whatever it says.
    Bytes auth(const char *transport)
    {
        static const char *const names[] = {"node", "", "with blanks", "\x01\xff", "a"};
        Bytes own = Bytes(address, address + (strcmp(transport, "tcp") ? address_length : 0));
        uint8_t message[UDMON_RPC_MAX];
        struct udmon_auth fields = {};

        if (random() % 2) {
            own = mutate(own);
            own.resize(std::min(own.size(), size_t(255)));
        }
        fields.header.flags = random();
        fields.client_id = htole64((random() % 2) ? random() % 8 + 1000 : random());
        fields.next_seq = htole64((random() % 2) ? random() % 1000 : ~uint64_t(random() % 3));
        memcpy(fields.transport, transport, strlen(transport));
        udmon_gate_nonce(&server.server->gate, fields.client_nonce, fields.server_nonce);
        long length =
            udmon_meet_auth(&server.server->keys.secrets[KEYS_PRESENT], &fields, own.data(),
                            own.size(), names[random() % 5], message, sizeof(message));
        EXPECT_GT(length, 0);
        return Bytes(message, message + length);
    }
    // A message, or a few bytes that are hardly one.
    void say()
    {
        static const char *const transports[] = {"tcp", "glex", "glex", "posix", "ud", "x"};
        const char *transport = transports[random() % 6];
        Bytes bytes = (random() % 2) ? hello(transport) : auth(transport);

        if (random() % 4 == 0) {
            bytes = mutate(bytes);
        }
        Bytes framed = {uint8_t(bytes.size()), uint8_t(bytes.size() >> 8)};
        framed.insert(framed.end(), bytes.begin(), bytes.end());
        member->write((random() % 64) ? framed : mutate(framed));
    }
};

// He may ask for what he likes, and speak no protocol at all; some of it lets him in.
TEST_F(MemberFuzz, RequestsOverTcp)
{
    for (int i = 0; i < inputs(20000); ++i) {
        if (!member->open || member->failed || (random() % 256 == 0)) {
            ASSERT_NO_FATAL_FAILURE(dial());
        }
        say();
        for (int k = random() % 3; k > 0; --k) {
            udmon_server_process(server.server);
            udmon_client_process(client.client);
            member->progress();
        }
    }
    EXPECT_GT(member->welcome, 0);
    EXPECT_GT(member->refused, 0);
}

// The collector's HTTP server with one series.
struct HttpFuzz : testing::Test, Mutator {
    char file[32] = "/tmp/udmon-fuzz-XXXXXX";
    struct writer *writer = new struct writer();
    struct store store;
    struct http http;
    struct http_options options = {};
    std::string address;
    int port = 0;

    void SetUp() override
    {
        ::close(mkstemp(file));
        store_init(&store);
        store_series(store_host(&store, "n"), "load1{a=\"1\"}");
        ASSERT_EQ(0, history_open(&writer->history, file, 3600, 1 << 20));
        port = std::make_unique<Socket>(0)->port();
        address = "127.0.0.1:" + std::to_string(port);
        options.address = address.c_str();
        options.database = file;
        ASSERT_EQ(0, http_open(&http, &options, &store, writer, nullptr, nullptr, nullptr));
    }
    void TearDown() override
    {
        http_close(&http);
        history_close(&writer->history);
        store_free(&store);
        for (const char *end : {"", "-wal", "-shm", "-lock"}) {
            unlink((std::string(file) + end).c_str());
        }
        delete writer;
    }
    // Half a request is waited for by the server; so its answer is only looked at if it is there.
    std::string ask(const void *bytes, size_t length, int wait_ms)
    {
        Socket reader(port);
        char answer[4096];
        std::string text;
        ssize_t got;

        EXPECT_EQ(ssize_t(length), send(reader.fd, bytes, length, MSG_NOSIGNAL));
        while (reader.readable(wait_ms) &&
               ((got = recv(reader.fd, answer, sizeof(answer), 0)) > 0)) {
            text.append(answer, got);
        }
        return text;
    }
    unsigned connections()
    {
        return MHD_get_daemon_info(http.daemon, MHD_DAEMON_INFO_CURRENT_CONNECTIONS)
            ->num_connections;
    }
};

// Requests of browsers and Prometheus, and what is none.
TEST_F(HttpFuzz, Requests)
{
    const std::string seeds[] = {
        "GET /metrics HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n",
        "GET /api/series?node=n&name=load1%7Ba%3D%221%22%7D&seconds=60&points=9 HTTP/1.1\r\n"
        "Host: a\r\n\r\n",
        "GET /api/names?node=n HTTP/1.0\r\n\r\nGET / HTTP/1.0\r\n\r\n",
        "POST /api/nodes HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nabcde",
    };

    for (int i = 0; i < inputs(1000); ++i) {
        const std::string &seed = seeds[random() % 4];
        Bytes bytes = mutate(Bytes(seed.begin(), seed.end()));
        std::string text = ask(bytes.data(), bytes.size(), 0);
        ASSERT_TRUE(text.empty() || (text.compare(0, 7, "HTTP/1.") == 0)) << text;
    }
    EXPECT_NE(std::string::npos,
              ask(seeds[2].data(), seeds[2].find("GET / "), 30000).find("load1"));
}

// Who has gone after half a request is forgotten at once, and not when its time is over: else a few
// scanners would take all connections.
TEST_F(HttpFuzz, HalfRequestsOfThoseWhoHaveGone)
{
    const std::string half = "GET /metrics HTTP/1.1\r\n";
    Socket first(port); // ends when its time is over

    send(first.fd, half.data(), half.size(), MSG_NOSIGNAL);
    while (connections() < 1) {
        usleep(1000);
    }
    for (int i = 0; i < 100; ++i) {
        ask(half.data(), half.size(), 0);
    }
    ask("GET / HTTP/1.0\r\n\r\n", 18, 30000); // all before have been accepted
    while (connections() > 1) {
        usleep(1000);
    }
    EXPECT_EQ(1u, connections());
    EXPECT_FALSE(first.readable(0));
}

} // namespace

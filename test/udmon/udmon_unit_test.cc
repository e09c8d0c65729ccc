// The inner parts of libudmon, each by itself; its channels: udmon_chan_test.cc.
#include <gtest/gtest.h>

#include <deque>
#include <random>
#include <string>
#include <vector>

extern "C" {
#include "udmon/lib/net/address.h"
#include "udmon/lib/base/auth.h"
#include "udmon/lib/client.h"
#include "udmon/lib/net/loop.h"
#include "udmon/lib/meet.h"
#include "udmon/lib/options.h"
#include "udmon/lib/chan/queue.h"
#include "udmon/lib/server.h"
}

#include "udmon_loopback.h"

namespace
{

// Queue

struct QueueTest : testing::Test {
    struct udmon_queue queue;
    std::deque<std::string> model;

    void open(size_t size)
    {
        ASSERT_EQ(0, udmon_queue_open(&queue, size));
    }
    void TearDown() override
    {
        udmon_queue_close(&queue);
    }
    long push(const std::string &text)
    {
        long dropped = udmon_queue_lend(&queue, text.data(), text.size());
        if (dropped >= 0) {
            udmon_queue_keep(&queue, 0);
        }
        for (long i = 0; i < dropped; ++i) {
            model.pop_front();
        }
        if (dropped >= 0) {
            model.push_back(text);
        }
        return dropped;
    }
    void check()
    {
        size_t length = 0, position = queue.head;
        const void *data = udmon_queue_front(&queue, &length);
        ASSERT_EQ(model.size(), queue.count);
        size_t payload = 0;
        for (const std::string &text : model) {
            ASSERT_NE(nullptr, data);
            ASSERT_EQ(text, std::string(static_cast<const char *>(data), length));
            payload += length;
            data = udmon_queue_next(&queue, &position, &length);
        }
        if (!model.empty()) {
            ASSERT_EQ(nullptr, data);
        }
        ASSERT_EQ(payload, queue.payload);
    }
};

TEST_F(QueueTest, RandomUseAgreesWithAModel)
{
    std::mt19937 random(7);

    open(1000);
    for (int i = 0; i < 100000; ++i) {
        if (random() % 3) {
            push(std::string(random() % 200, char('a' + i % 26)));
        } else if (!model.empty()) {
            udmon_queue_pop(&queue);
            model.pop_front();
        }
        ASSERT_NO_FATAL_FAILURE(check()) << i;
    }
}

// Lent bytes are seen where they are, and in the ring once they are kept; `from` are left out.
TEST_F(QueueTest, LentIsKeptUnlessItHasGone)
{
    std::string bytes(20, 'l');
    size_t length = 0;

    open(100);
    push("first");
    EXPECT_EQ(0, udmon_queue_lend(&queue, bytes.data(), bytes.size()));
    model.push_back(bytes);
    check();
    udmon_queue_keep(&queue, 0);
    bytes.assign(20, 'x');
    check();
    udmon_queue_pop(&queue);
    udmon_queue_pop(&queue);
    model.clear();
    bytes.assign(20, 'm');
    EXPECT_EQ(0, udmon_queue_lend(&queue, bytes.data(), bytes.size()));
    EXPECT_EQ(bytes.data(), udmon_queue_front(&queue, &length));
    udmon_queue_pop(&queue);
    EXPECT_EQ(nullptr, queue.lent); // nothing to keep: at its place may be another
    udmon_queue_keep(&queue, 0);
    EXPECT_EQ(0u, queue.count);
    push("another");
    check();
    bytes.assign(20, 'n');
    udmon_queue_lend(&queue, bytes.data(), bytes.size());
    udmon_queue_keep(&queue, 15);
    udmon_queue_pop(&queue);
    auto *kept = static_cast<const char *>(udmon_queue_front(&queue, &length));
    ASSERT_NE(nullptr, kept);
    EXPECT_EQ("nnnnn", std::string(kept + 15, length - 15));
}

TEST_F(QueueTest, ExactFitsAndTooLong)
{
    open(64);
    EXPECT_EQ(0, push(std::string(60, 'a'))); // exactly all of it
    check();
    EXPECT_EQ(1, push(std::string(28, 'b')));
    EXPECT_EQ(0, push(std::string(28, 'c')));
    check();
    EXPECT_EQ(1, push("d"));
    check();
    EXPECT_EQ(-EMSGSIZE, push(std::string(61, 'e')));
    check();
    EXPECT_EQ(0, push(""));
    check();
}

TEST_F(QueueTest, TheGapAfterAWrapIsUsedToTheLastByte)
{
    open(96); // records of 28 bytes take 32
    push(std::string(28, 'a'));
    push(std::string(28, 'b'));
    push(std::string(28, 'c'));
    udmon_queue_pop(&queue);
    udmon_queue_pop(&queue);
    model.erase(model.begin(), model.begin() + 2);
    EXPECT_EQ(0, push(std::string(28, 'd')));
    EXPECT_EQ(0, push(std::string(28, 'e'))); // up to where 'c' begins
    check();
    EXPECT_EQ(3u, queue.count);
}

// Token: a server and a client that are connected, and datagrams as a stranger would send them.

struct TokenTest : testing::Test {
    struct udmon_options options = quick_options();
    Server server{"tcp://127.0.0.1:0", &options};
    Client client{"tcp://127.0.0.1:" + std::to_string(server.port()), &options};

    void SetUp() override
    {
        ASSERT_TRUE(run({&server}, {&client}, [&] { return client.connected(); }));
    }
    // One record, or a goodbye.
    static std::string dgram(uint8_t type, uint64_t token)
    {
        struct udmon_dgram header = {};
        header.version = UDMON_VERSION;
        header.type = type;
        header.token = htole64(token);
        header.count = htole16(type == UDMON_DATA);
        std::string out(reinterpret_cast<char *>(&header), sizeof(header));
        return (type == UDMON_DATA) ? out + std::string("\3\0new", 5) : out;
    }
    static void receive(struct udmon_net &net, const std::string &data)
    {
        net.receive(net.arg, data.data(), data.size());
    }
};

TEST_F(TokenTest, ServerIgnoresDatagramsWithoutIt)
{
    uint64_t token = client.client->chan.token;

    receive(server.server->net, dgram(UDMON_DATA, token + 1));
    receive(server.server->net, dgram(UDMON_BYE, 0));
    receive(server.server->net, dgram(UDMON_DATA, token).substr(0, sizeof(struct udmon_dgram) - 1));
    EXPECT_TRUE(server.received.empty());
    receive(server.server->net, dgram(UDMON_DATA, token));
    ASSERT_EQ(1u, server.received.size());
    EXPECT_EQ("new", server.received[0].data);
    EXPECT_TRUE(server.left.empty());
}

TEST_F(TokenTest, ClientIgnoresDatagramsWithoutIt)
{
    uint64_t token = client.client->chan.token;

    receive(client.client->net, dgram(UDMON_DATA, token + 1));
    receive(client.client->net, dgram(UDMON_BYE, token + 1));
    EXPECT_TRUE(client.received.empty());
    receive(client.client->net, dgram(UDMON_DATA, token));
    ASSERT_EQ(1u, client.received.size());
    EXPECT_EQ("new", client.received[0].data);
    EXPECT_FALSE(client.client->bye);
}

TEST_F(TokenTest, OfAConnectionThatIsOverIsWorthNothing)
{
    uint64_t token = client.client->chan.token;

    client.close();
    ASSERT_TRUE(run({&server}, {}, [&] { return server.left.size() == 1; }));
    receive(server.server->net, dgram(UDMON_DATA, token));
    EXPECT_TRUE(server.received.empty());
}

// Meeting

struct MeetTest : testing::Test {
    struct udmon_secret secret = {}, other = {};
    struct udmon_auth fields = {};
    uint8_t message[UDMON_RPC_MAX];
    long length = 0;

    void SetUp() override
    {
        secret.length = other.length = 4;
        memcpy(secret.bytes, "open", 4);
        memcpy(other.bytes, "shut", 4);
        fields.client_id = 9;
        memcpy(fields.transport, "tcp", 3);
        length =
            udmon_meet_auth(&secret, &fields, "ADDRESS", 7, "node<1>", message, sizeof(message));
        ASSERT_GT(length, 0);
    }
};

TEST_F(MeetTest, GoodAuthIsReadBack)
{
    struct udmon_auth_view view;

    ASSERT_EQ(0, udmon_meet_auth_parse(message, length, &view));
    EXPECT_TRUE(udmon_meet_auth_check(&secret, &view));
    EXPECT_FALSE(udmon_meet_auth_check(&other, &view));
    EXPECT_EQ("ADDRESS", std::string(static_cast<const char *>(view.address), view.address_length));
    EXPECT_STREQ("node_1_", view.name); // harmless in a web page
    EXPECT_STREQ("tcp", view.transport);
}

// With the address of a ud_mon interface, in a request of RDMA CM.
TEST_F(MeetTest, TheLongestNameIsNotCut)
{
    const std::string address(sizeof(struct udmon_address) + 28, 'a'), name(UDMON_NAME_MAX, 'n');
    struct udmon_auth_view view;

    length = udmon_meet_auth(&secret, &fields, address.data(), address.size(), name.c_str(),
                             message, UDMON_CM_REQUEST_MAX);
    ASSERT_GT(length, 0);
    ASSERT_EQ(0, udmon_meet_auth_parse(message, length, &view));
    EXPECT_TRUE(udmon_meet_auth_check(&secret, &view));
    EXPECT_EQ(name, view.name);
    EXPECT_EQ(-EMSGSIZE, udmon_meet_auth(&secret, &fields, address.data(), address.size(),
                                         (name + "n").c_str(), message, sizeof(message)));
}

TEST_F(MeetTest, AnyChangedBitIsNoticed)
{
    for (long i = 0; i < length * 8; ++i) {
        std::vector<uint8_t> copy(message, message + length);
        struct udmon_auth_view view;

        copy[i / 8] ^= 1 << (i % 8);
        EXPECT_FALSE((udmon_meet_auth_parse(copy.data(), copy.size(), &view) == 0) &&
                     udmon_meet_auth_check(&secret, &view))
            << i;
    }
    for (long i = 0; i < length; ++i) {
        std::vector<uint8_t> copy(message, message + i);
        struct udmon_auth_view view;
        EXPECT_NE(0, udmon_meet_auth_parse(copy.data(), copy.size(), &view));
    }
}

// What follows the header is read without looking at the length again.
TEST_F(MeetTest, OnlyAResponseMayBeAHeaderAlone)
{
    struct udmon_rpc_header header;
    const struct {
        uint8_t type;
        bool response;
    } types[] = {
        {UDMON_HELLO, false}, {UDMON_CHALLENGE, true}, {UDMON_AUTH, false}, {UDMON_WELCOME, true}};

    for (const auto &each : types) {
        size_t size = udmon_meet_header(&header, each.type, UDMON_REFUSED);
        EXPECT_EQ(each.response ? each.type : 0, udmon_meet_type(&header, size));
        udmon_meet_header(&header, each.type, UDMON_OK);
        EXPECT_EQ(0, udmon_meet_type(&header, size));
    }
}

TEST_F(MeetTest, WelcomeIsSignedForThisAuth)
{
    const struct udmon_auth *auth = reinterpret_cast<const struct udmon_auth *>(message);
    struct udmon_welcome welcome = {};
    struct udmon_auth another = *auth;

    welcome.token = 77;
    ASSERT_EQ(0, udmon_meet_welcome_sign(&secret, auth, &welcome));
    EXPECT_TRUE(udmon_meet_welcome_check(&secret, auth, &welcome));
    EXPECT_FALSE(udmon_meet_welcome_check(&other, auth, &welcome));
    another.mac[0] ^= 1;
    EXPECT_FALSE(udmon_meet_welcome_check(&secret, &another, &welcome));
    welcome.token = 78;
    EXPECT_FALSE(udmon_meet_welcome_check(&secret, auth, &welcome));
}

TEST_F(MeetTest, ChallengeIsSignedWithItsAddressForThisNonce)
{
    uint8_t nonce[UDMON_NONCE_SIZE] = {1, 2, 3}, another[UDMON_NONCE_SIZE] = {4};
    std::vector<uint8_t> bytes(sizeof(struct udmon_challenge) + 5);
    auto challenge = reinterpret_cast<struct udmon_challenge *>(bytes.data());

    challenge->address_length = 5;
    memcpy(challenge + 1, "PLACE", 5);
    ASSERT_EQ(0, udmon_meet_challenge_sign(&secret, nonce, challenge));
    EXPECT_EQ(1, udmon_meet_challenge_check(&secret, nonce, challenge, bytes.size()));
    EXPECT_EQ(0, udmon_meet_challenge_check(&other, nonce, challenge, bytes.size()));
    EXPECT_EQ(0, udmon_meet_challenge_check(&secret, another, challenge, bytes.size()));
    EXPECT_EQ(-EPROTO, udmon_meet_challenge_check(&secret, nonce, challenge, bytes.size() - 1));
    for (size_t i = 0; i < bytes.size(); ++i) {
        bytes[i] ^= 1;
        EXPECT_LE(udmon_meet_challenge_check(&secret, nonce, challenge, bytes.size()), 0) << i;
        bytes[i] ^= 1;
    }
}

TEST_F(MeetTest, NonceIsGoodOnceAndForItsClientOnly)
{
    auto gate = std::make_unique<struct udmon_gate>(),
         foreign = std::make_unique<struct udmon_gate>();
    uint8_t client[UDMON_NONCE_SIZE] = {1}, someone[UDMON_NONCE_SIZE] = {2};
    uint8_t nonce[UDMON_NONCE_SIZE];

    ASSERT_EQ(0, udmon_gate_open(gate.get()));
    ASSERT_EQ(0, udmon_gate_open(foreign.get()));
    ASSERT_EQ(0, udmon_gate_nonce(gate.get(), client, nonce));
    EXPECT_FALSE(udmon_gate_check(gate.get(), someone, nonce));
    EXPECT_FALSE(udmon_gate_check(foreign.get(), client, nonce));
    EXPECT_TRUE(udmon_gate_check(gate.get(), client, nonce));
    EXPECT_FALSE(udmon_gate_check(gate.get(), client, nonce)); // replayed
}

// A nonce as the server itself would have made it, a while ago.
TEST_F(MeetTest, NonceGrowsOld)
{
    auto gate = std::make_unique<struct udmon_gate>();
    uint8_t client[UDMON_NONCE_SIZE] = {1}, nonce[UDMON_NONCE_SIZE], mac[UDMON_MAC_SIZE];
    struct udmon_secret key = {};

    ASSERT_EQ(0, udmon_gate_open(gate.get()));
    key.length = sizeof(gate->key);
    memcpy(key.bytes, gate->key, sizeof(gate->key));
    auto make = [&](uint64_t age_ns) {
        uint64_t time = htole64(udmon_now_ns() - age_ns);
        ASSERT_EQ(0, udmon_sign(&key, "nonce", &time, sizeof(time), client, sizeof(client), mac));
        memcpy(nonce, &time, sizeof(time));
        memcpy(nonce + sizeof(time), mac, sizeof(nonce) - sizeof(time));
    };
    make(5000000000u);
    EXPECT_TRUE(udmon_gate_check(gate.get(), client, nonce));
    make(11000000000u);
    EXPECT_FALSE(udmon_gate_check(gate.get(), client, nonce));
}

// Loop

TEST(Loop, TimersFireInOrderAndCancel)
{
    static std::string fired;
    struct udmon_loop loop;
    struct udmon_timer timers[4] = {};
    static const char *names = "abcd";

    fired.clear();
    ASSERT_EQ(0, udmon_loop_open(&loop));
    for (int i = 0; i < 4; ++i) {
        timers[i].arg = const_cast<char *>(&names[i]);
        timers[i].fire = [](struct udmon_timer *t) { fired += *static_cast<char *>(t->arg); };
    }
    udmon_timer_set(&loop, &timers[0], 30);
    udmon_timer_set(&loop, &timers[1], 10);
    udmon_timer_set(&loop, &timers[2], 20);
    udmon_timer_set(&loop, &timers[3], 1);
    udmon_timer_set(&loop, &timers[3], 40); // moved
    udmon_timer_cancel(&timers[2]);
    for (int i = 0; (i < 1000) && (fired.size() < 3); ++i) {
        struct epoll_event event;
        epoll_wait(loop.epoll_fd, &event, 1, 100);
        udmon_loop_run(&loop);
    }
    EXPECT_EQ("bad", fired);
    udmon_loop_close(&loop);
}

// While it is entered the timerfd is left alone; leaving sets it, so that poll wakes.
TEST(Loop, TimerSetWhileEnteredWakesAfterLeaving)
{
    struct udmon_loop loop;
    struct udmon_timer timer = {};
    struct epoll_event event;
    static int fired;

    fired = 0;
    ASSERT_EQ(0, udmon_loop_open(&loop));
    timer.fire = [](struct udmon_timer *) { ++fired; };
    udmon_loop_enter(&loop);
    udmon_timer_set(&loop, &timer, 0);
    EXPECT_EQ(0, epoll_wait(loop.epoll_fd, &event, 1, 20));
    udmon_loop_leave(&loop);
    ASSERT_EQ(1, epoll_wait(loop.epoll_fd, &event, 1, 10000));
    udmon_loop_run(&loop);
    EXPECT_EQ(1, fired);
    udmon_timer_set(&loop, &timer, 0); // from outside again
    EXPECT_EQ(1, epoll_wait(loop.epoll_fd, &event, 1, 10000));
    udmon_loop_close(&loop);
}

} // namespace

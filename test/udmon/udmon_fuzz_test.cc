// Whatever comes from outside, in forms that nobody would send: requests to connect (as RDMA CM
// delivers them), datagrams of a connection, samples. Nothing crashes, nobody is let in, and those
// who are connected lose nothing. UDMON_FUZZ inputs of each kind; the sanitizers look on.
#include "udmon_loopback.h"

#include <cstdlib>
#include <random>

extern "C" {
#include "udmon/lib/meet.h"
#include "udmon/lib/metric.h"
#include "udmon/lib/server.h"
}

namespace {

int inputs()
{
    const char *text = getenv("UDMON_FUZZ");

    return (text != nullptr) ? atoi(text) : 50000;
}

using Bytes = std::vector<uint8_t>;

struct FuzzTest : testing::Test {
    std::mt19937 random{11};
    udmon_options_t options = quick_options();
    Server server{"127.0.0.1:0", &options};
    Client client{"tcp://127.0.0.1:" + std::to_string(server.port()), &options};

    void SetUp() override
    {
        udmon_set_log([](void *, udmon_log_level_t, const char *) {}, nullptr);
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

// Of strangers: none has the secret, so none is let in.
TEST_F(FuzzTest, RequestsOfStrangersOverRdmaCm)
{
    udmon_secret_t wrong = {{'x'}, 1};
    udmon_auth_t fields = {};
    uint8_t message[UDMON_RPC_MAX], response[UDMON_CM_RESPONSE_MAX];
    udmon_hello_t hello;
    udmon_rpc_place_t place = {};

    place.remote.ss_family = AF_INET;
    place.gid_index = -1;
    memcpy(place.device, "rxe0:1", 6);
    memcpy(fields.transport, "ud", 2);
    udmon_meet_hello(fields.client_nonce, "ud", &hello);
    long length = udmon_meet_auth(&wrong, &fields, "ADDRESS", 7, "node", message, sizeof(message));
    ASSERT_GT(length, 0);
    const Bytes seeds[] = {Bytes((uint8_t *)&hello, (uint8_t *)(&hello + 1)),
                           Bytes(message, message + length), Bytes(100, 0)};
    for (int i = 0; i < inputs(); ++i) {
        Bytes bytes = mutate(seeds[random() % 3]);
        bytes.resize(std::min(bytes.size(), size_t(UDMON_CM_REQUEST_MAX)));
        size_t answered = udmon_server_serve(server.server, &place, bytes.data(), bytes.size(),
                                             response, sizeof(response));
        ASSERT_LE(answered, sizeof(response));
    }
    EXPECT_EQ(1u, server.joined.size());
}

// Of somebody who knows the token: he can send what he likes, and harms himself alone.
TEST_F(FuzzTest, DatagramsOfAConnection)
{
    options.client_id = 99;
    Client bad("tcp://127.0.0.1:" + std::to_string(server.port()), &options);
    ASSERT_TRUE(run({&server}, {&client, &bad}, [&] { return bad.connected(); }));
    udmon_session_t *session = udmon_sessions_by_id(&server.server->sessions, 99);
    ASSERT_NE(nullptr, session);
    for (int i = 0; i < inputs(); ++i) {
        udmon_dgram_t dgram = {};
        dgram.version = UDMON_VERSION;
        dgram.type = 1 + random() % UDMON_PONG; // no goodbye
        dgram.count = htole16(random() % 5);
        dgram.extra = htole32((random() % 2) ? random() : 0);
        dgram.token = htole64(session->chan.token);
        dgram.seq = htole64((random() % 4) ? session->chan.win.next + random() % 3 : random());
        Bytes bytes((uint8_t *)&dgram, (uint8_t *)(&dgram + 1));
        for (int k = random() % 60; k > 0; --k) {
            bytes.push_back((random() % 3) ? random() % 8 : random());
        }
        bytes = mutate(bytes);
        memcpy(bytes.data() + offsetof(udmon_dgram_t, token), &dgram.token,
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
    udmon_metric_t metric = {"name{a=\"b\",c=\"d\"}", 1, 2, 1, 0}, decoded;
    char name[UDMON_METRIC_NAME_MAX + 1];
    int length = udmon_metric_encode(&metric, record);

    ASSERT_GT(length, 0);
    for (int i = 0; i < 20 * inputs(); ++i) {
        Bytes bytes = mutate(Bytes(record, record + length));
        if (udmon_metric_decode(bytes.data(), bytes.size(), &decoded, name) == 0) {
            ASSERT_TRUE(udmon_metric_name_valid(name));
            ASSERT_LE(strlen(name), size_t(UDMON_METRIC_NAME_MAX));
        }
    }
}

} // namespace

// Secrets of nodes, and two secrets at once: a node cannot speak as another node, and a change of the
// secret needs no restart.
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

extern "C" {
#include "udmon/lib/base/keys.h"
#include "udmon/lib/client.h"
#include "udmon/lib/meet.h"
#include "udmon/lib/server.h"
}

#include "udmon_loopback.h"

namespace
{

std::string text_of(const struct udmon_secret &secret)
{
    return std::string(reinterpret_cast<const char *>(secret.bytes), secret.length);
}

struct KeysTest : testing::Test {
    SecretFile shared{"the shared secret\n"}, other{"another secret\n"};
    struct udmon_options options = quick_options();

    void SetUp() override
    {
        options.secret_file = shared.path;
    }
    static std::string of_node(const SecretFile &file, const char *node)
    {
        struct udmon_secret secret;

        EXPECT_EQ(0, udmon_secret_load(file.path, &secret));
        EXPECT_EQ(0, udmon_secret_of_node(&secret, node, &secret));
        return text_of(secret) + "\n";
    }
    static std::string url(const Server &server)
    {
        return "tcp://127.0.0.1:" + std::to_string(server.port());
    }
    struct udmon_options with(const SecretFile &file, const char *name = nullptr) const
    {
        struct udmon_options copy = options;

        copy.secret_file = file.path;
        copy.name = name;
        copy.old_secret_file = nullptr;
        copy.check_names = 0;
        return copy;
    }
    static bool refused(const Client &client)
    {
        return client.reason.find("refused") != std::string::npos ||
               client.reason.find("the secret of the server is another") != std::string::npos;
    }
    // Another file in its place, as an editor writes it.
    static void replace(const SecretFile &file, const std::string &text)
    {
        SecretFile fresh(text);

        ASSERT_EQ(0, rename(fresh.path, file.path));
    }
};

TEST_F(KeysTest, TheSecretOfANodeIsReadBack)
{
    SecretFile file(of_node(shared, "node:1"));
    struct udmon_secret secret, again;

    ASSERT_EQ(0, udmon_secret_load(file.path, &secret));
    EXPECT_STREQ("node:1", secret.node);
    EXPECT_EQ(of_node(shared, "node:1"), text_of(secret) + "\n");
    EXPECT_NE(of_node(shared, "node2"), of_node(other, "node2"));
    EXPECT_EQ(-EINVAL, udmon_secret_of_node(&secret, "node2", &again)); // no secret makes others
}

TEST_F(KeysTest, AnIncompleteSecretOfANodeIsRefused)
{
    const std::string text = of_node(shared, "a");
    struct udmon_secret secret;

    udmon_set_log([](void *, enum udmon_log_level, const char *) {}, nullptr);
    for (size_t length = strlen("udmon-node:"); length < (text.size() - 1); ++length) {
        SecretFile file(text.substr(0, length));
        EXPECT_EQ(-EACCES, udmon_secret_load(file.path, &secret)) << length;
    }
    for (const std::string &wrong :
         {"udmon-node:" + text.substr(text.rfind(':')), // no name
          text.substr(0, text.size() - 1) + "0", text.substr(0, text.size() - 2) + "G"}) {
        SecretFile file(wrong);
        EXPECT_EQ(-EACCES, udmon_secret_load(file.path, &secret)) << wrong;
    }
    udmon_set_log(nullptr, nullptr);
}

TEST_F(KeysTest, AHintIsReadBackFromHello)
{
    uint8_t nonce[UDMON_NONCE_SIZE] = {}, message[UDMON_HELLO_MAX];
    struct udmon_hint hint = {{1, 2, 3}, ""}, found;

    for (const std::string &node : {std::string(), std::string("a"), std::string(63, 'n')}) {
        snprintf(hint.node, sizeof(hint.node), "%s", node.c_str());
        size_t length = udmon_meet_hello(nonce, "tcp", &hint, message);
        ASSERT_LE(length, size_t(UDMON_CM_REQUEST_MAX));
        ASSERT_EQ(UDMON_HELLO, udmon_meet_type(message, length));
        ASSERT_EQ(1, udmon_meet_hint(message, length, &found));
        EXPECT_EQ(0, memcmp(hint.id, found.id, sizeof(hint.id)));
        EXPECT_EQ(node, found.node);
        for (size_t cut = sizeof(struct udmon_hello); cut < length; ++cut) {
            EXPECT_EQ(-EPROTO, udmon_meet_hint(message, cut, &found));
        }
    }
}

TEST_F(KeysTest, ANodeIsLetInByItsSecretAndHasItsName)
{
    SecretFile file(of_node(shared, "node1"));
    struct udmon_options own = with(file), wrong = with(file, "node2");

    options.check_names = 1;
    Server server("tcp://127.0.0.1:0", &options);
    Client client(url(server), &own);
    ASSERT_EQ(0, client.send("hello"));
    ASSERT_TRUE(run({&server}, {&client}, [&] { return server.received.size() == 1; }));
    EXPECT_EQ(std::vector<std::string>{"node1"}, server.joined);
    EXPECT_EQ(-EACCES, Client(url(server), &wrong).error);
    EXPECT_EQ(-EACCES, Server("tcp://127.0.0.1:0", &own).error); // a server needs the shared secret
}

// Of the library itself, with nothing but the name changed.
TEST_F(KeysTest, ANodeCannotSpeakAsAnother)
{
    SecretFile file(of_node(shared, "node1")),
        changed("udmon-node:node2" + of_node(shared, "node1").substr(16));
    struct udmon_options own = with(file), claimed = with(changed);
    Server server("tcp://127.0.0.1:0", &options); // also a server that takes the shared secret
    Client liar(url(server), &own), forger(url(server), &claimed);

    snprintf(liar.client->settings.name, sizeof(liar.client->settings.name), "node2");
    ASSERT_EQ(0, liar.send("let me in"));
    ASSERT_EQ(0, forger.send("let me in"));
    ASSERT_TRUE(run({&server}, {&liar, &forger}, [&] { return refused(liar) && refused(forger); }));
    EXPECT_TRUE(server.joined.empty());
    EXPECT_NE(std::string::npos, liar.reason.find("is not for our name")) << liar.reason;
}

TEST_F(KeysTest, WithCheckedNamesTheSharedSecretProvesNothing)
{
    struct udmon_options agent = with(shared, "node1"), nameless = with(shared, "");

    options.check_names = 1;
    Server server("tcp://127.0.0.1:0", &options);
    Client client(url(server), &agent), empty(url(server), &nameless);
    ASSERT_TRUE(
        run({&server}, {&client, &empty}, [&] { return refused(client) && refused(empty); }));
    EXPECT_NE(std::string::npos, client.reason.find("our secret is not the secret of our name"));
    EXPECT_TRUE(server.joined.empty());
    options.secret_file = nullptr;
    EXPECT_EQ(-EINVAL, Server("tcp://127.0.0.1:0", &options).error); // nothing proves a name
}

// A server without a secret makes no secrets of nodes: every program could compute them.
TEST_F(KeysTest, AnEmptySecretMakesNoSecretOfANode)
{
    struct udmon_keys keys;
    struct udmon_secret secret;
    struct udmon_hint hint = {{}, "node1"};

    ASSERT_EQ(0, udmon_keys_of_server(&keys, nullptr, nullptr));
    EXPECT_FALSE(udmon_keys_of_node(&keys, KEYS_PRESENT, "node1", &secret));
    EXPECT_FALSE(udmon_keys_find(&keys, &hint, &secret));
    udmon_keys_close(&keys);
}

// The identity of a client is no secret: agents make it from their names.
TEST_F(KeysTest, ANodeCannotTakeTheConnectionOfAnother)
{
    SecretFile one(of_node(shared, "node1")), two(of_node(shared, "node2"));
    struct udmon_options first = with(one), second = with(two);

    options.check_names = 1;
    first.client_id = second.client_id = 5;
    Server server("tcp://127.0.0.1:0", &options);
    Client victim(url(server), &first);
    ASSERT_TRUE(run({&server}, {&victim}, [&] { return victim.connected(); }));
    Client thief(url(server), &second);
    ASSERT_TRUE(run({&server}, {&victim, &thief}, [&] { return thief.connected(); }));
    ASSERT_EQ(0, victim.send("still here"));
    ASSERT_TRUE(run({&server}, {&victim, &thief}, [&] { return server.received.size() == 1; }));
    EXPECT_EQ("still here", server.received[0].data);
    EXPECT_TRUE(server.left.empty());
}

// The order of docs/udmon.md: the server has both secrets while the nodes change, one by one.
TEST_F(KeysTest, TheSecretChangesWithoutARestart)
{
    SecretFile old("x"), mine("the shared secret\n"), node(of_node(shared, "node1"));
    struct udmon_options agent = with(mine, "agent"), bound = with(node), late = with(mine, "late");

    unlink(old.path);
    options.old_secret_file = old.path; // does not exist yet
    Server server("tcp://127.0.0.1:0", &options);
    Client first(url(server), &agent);
    ASSERT_TRUE(run({&server}, {&first}, [&] { return first.connected(); })) << first.reason;

    replace(old, "the shared secret\n");
    replace(shared, "the next secret\n");
    Client second(url(server), &late), third(url(server), &bound);
    EXPECT_TRUE(run({&server}, {&first, &second, &third},
                    [&] { return second.connected() && third.connected(); }));
    EXPECT_TRUE(first.connected());
    struct udmon_options next = with(shared, "next");
    Client fourth(url(server), &next);
    EXPECT_TRUE(run({&server}, {&fourth}, [&] { return fourth.connected(); })) << fourth.reason;

    second.close();
    third.close();
    unlink(old.path);
    Client fifth(url(server), &late), sixth(url(server), &bound);
    ASSERT_TRUE(run({&server}, {&fifth, &sixth}, [&] { return refused(fifth) && refused(sixth); }));
    replace(mine, "the next secret\n");
    replace(node, of_node(shared, "node1"));
    EXPECT_TRUE(
        run({&server}, {&fifth, &sixth}, [&] { return fifth.connected() && sixth.connected(); }))
        << fifth.reason << sixth.reason;

    udmon_set_log([](void *, enum udmon_log_level, const char *) {}, nullptr);
    replace(shared, "\n"); // unusable: the secret that was read before stays
    Client seventh(url(server), &late);
    EXPECT_TRUE(run({&server}, {&seventh}, [&] { return seventh.connected(); })) << seventh.reason;
    udmon_set_log(nullptr, nullptr);
}

// As with `mv`, and chown or chmod afterwards: the last step changes neither content nor inode.
TEST_F(KeysTest, AFileThatBecomesReadableIsRead)
{
    struct udmon_keys keys;

    ASSERT_EQ(0, udmon_keys_of_server(&keys, shared.path, nullptr));
    udmon_set_log([](void *, enum udmon_log_level, const char *) {}, nullptr);
    replace(shared, "the next secret\n");
    chmod(shared.path, 0644);
    udmon_keys_refresh(&keys);
    EXPECT_EQ("the shared secret", text_of(keys.secrets[KEYS_PRESENT]));
    usleep(50000); // the kernel's clock of files has steps of up to 10 ms
    chmod(shared.path, 0600);
    udmon_keys_refresh(&keys);
    EXPECT_EQ("the next secret", text_of(keys.secrets[KEYS_PRESENT]));
    udmon_set_log(nullptr, nullptr);
    udmon_keys_close(&keys);
}

} // namespace

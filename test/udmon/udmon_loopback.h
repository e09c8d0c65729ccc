// A server and clients of libudmon in one process, driven by poll as a program would.
#ifndef UDMON_LOOPBACK_H
#define UDMON_LOOPBACK_H

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "threads_end.h"
#include "udmon/include/udmon.h"

struct Received {
    std::string data;
    uint64_t seq;
    uint64_t client;
};

class Server
{
  public:
    struct udmon_server *server = nullptr;
    int error = 0;
    bool echo = false;
    unsigned pause_us = 0; // that each record takes
    std::vector<Received> received;
    std::vector<std::string> joined;
    int relays = 0; // of those who joined
    std::vector<std::pair<std::string, enum udmon_left>> left;
    std::map<uint64_t, uint64_t> lost; // by client
    std::map<uint64_t, uint64_t> resume;

    Server(const std::string &address, const struct udmon_options *options = nullptr)
    {
        struct udmon_server_callbacks callbacks = {};

        callbacks.message = [](void *arg, const struct udmon_peer *peer,
                               const struct udmon_message *m) {
            Server *self = static_cast<Server *>(arg);
            std::string data(static_cast<const char *>(m->data), m->length);
            self->received.push_back({data, m->seq, peer->id});
            if (self->pause_us > 0) {
                usleep(self->pause_us);
            }
            if (self->echo) {
                data.insert(0, "echo ");
                EXPECT_EQ(0, udmon_server_reply(self->server, peer->id, data.data(), data.size()));
            }
        };
        callbacks.joined = [](void *arg, const struct udmon_peer *peer) {
            static_cast<Server *>(arg)->joined.push_back(peer->name);
            static_cast<Server *>(arg)->relays += peer->relay;
        };
        callbacks.left = [](void *arg, const struct udmon_peer *peer, enum udmon_left reason,
                            const struct udmon_stats *) {
            static_cast<Server *>(arg)->left.emplace_back(peer->name, reason);
        };
        callbacks.gap = [](void *arg, const struct udmon_peer *peer, uint64_t, uint64_t count) {
            static_cast<Server *>(arg)->lost[peer->id] += count;
        };
        callbacks.resume = [](void *arg, uint64_t id) {
            Server *self = static_cast<Server *>(arg);
            return self->resume.count(id) ? self->resume[id] : UDMON_SEQ_UNKNOWN;
        };
        error = udmon_server_open(address.c_str(), options, &callbacks, this, &server);
    }
    ~Server()
    {
        close();
    }
    Server(const Server &) = delete;
    void close()
    {
        if (server != nullptr) {
            udmon_server_close(server);
            server = nullptr;
        }
    }
    int port() const
    {
        if (server == nullptr) {
            throw std::runtime_error(std::string("no server: ") + strerror(-error));
        }
        return udmon_server_port(server);
    }
};

class Client
{
  public:
    struct udmon_client *client = nullptr;
    int error = 0;
    std::vector<Received> received;
    std::vector<enum udmon_client_state> states;
    std::string reason;

    Client(const std::string &address, const struct udmon_options *options = nullptr)
    {
        struct udmon_client_callbacks callbacks = {};

        callbacks.message = [](void *arg, const struct udmon_message *m) {
            static_cast<Client *>(arg)->received.push_back(
                {std::string(static_cast<const char *>(m->data), m->length), m->seq, 0});
        };
        callbacks.state = [](void *arg, enum udmon_client_state state, const char *why) {
            static_cast<Client *>(arg)->states.push_back(state);
            static_cast<Client *>(arg)->reason = why;
        };
        error = udmon_client_open(address.c_str(), options, &callbacks, this, &client);
    }
    ~Client()
    {
        close();
    }
    Client(const Client &) = delete;
    void close()
    {
        if (client != nullptr) {
            udmon_client_close(client);
            client = nullptr;
        }
    }
    int send(const std::string &data)
    {
        return udmon_client_send(client, data.data(), data.size());
    }
    bool connected() const
    {
        return udmon_client_state(client) == UDMON_CONNECTED;
    }
    struct udmon_stats stats() const
    {
        struct udmon_stats s;
        udmon_client_stats(client, &s);
        return s;
    }
};

// Poll all and process what is ready until `done`; false if that takes unreasonably long: under
// ThreadSanitizer, beside eight other busy processes, a flood over TLS takes ten seconds.
inline bool run(std::vector<Server *> servers, std::vector<Client *> clients,
                const std::function<bool()> &done, int limit_ms = 120000)
{
    auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(limit_ms);

    while (!done()) {
        std::vector<struct pollfd> fds;
        for (Server *s : servers) {
            fds.push_back({udmon_server_fd(s->server), POLLIN, 0});
        }
        for (Client *c : clients) {
            fds.push_back({udmon_client_fd(c->client), POLLIN, 0});
        }
        if (std::chrono::steady_clock::now() > end) {
            return false;
        }
        poll(fds.data(), fds.size(), 100);
        for (size_t i = 0; i < fds.size(); ++i) {
            if (fds[i].revents == 0) {
                continue;
            }
            if (i < servers.size()) {
                EXPECT_GE(udmon_server_process(servers[i]->server), 0);
            } else {
                EXPECT_GE(udmon_client_process(clients[i - servers.size()]->client), 0);
            }
        }
    }
    return true;
}

// A file with a secret for as long as the process lives: other addresses than loopback need one.
class SecretFile
{
  public:
    char path[32] = "/tmp/udmon-secret-XXXXXX";

    explicit SecretFile(const std::string &secret)
    {
        int fd = mkstemp(path);
        if ((fd < 0) || (write(fd, secret.data(), secret.size()) != ssize_t(secret.size()))) {
            throw std::runtime_error("no file for the secret");
        }
        ::close(fd);
    }
    ~SecretFile()
    {
        unlink(path);
    }
    SecretFile(const SecretFile &) = delete;
};

inline const char *shared_secret()
{
    static SecretFile file("shared by all\n");
    return file.path;
}

inline struct udmon_options quick_options()
{
    struct udmon_options options;

    udmon_options_init(&options);
    options.secret_file = shared_secret();
    options.flush_ms = 10;
    options.keepalive_ms = 50;
    options.retry_ms = 50;
    options.connect_ms = 6000;
    return options;
}

#endif

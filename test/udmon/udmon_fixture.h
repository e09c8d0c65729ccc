// What the tests of libudmon over a network have in common. UDMON_TEST_SCHEMES names the networks,
// best first (default: tcp); UDMON_TEST_HOST the server's address, and UDMON_TEST_SOURCE
// the clients'.
#ifndef UDMON_FIXTURE_H
#define UDMON_FIXTURE_H

#include "udmon_loopback.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

inline std::vector<std::string> schemes()
{
    const char *text = getenv("UDMON_TEST_SCHEMES");
    std::istringstream words((text != nullptr) ? text : "tcp");
    std::vector<std::string> list;
    std::string word;

    while (words >> word) {
        list.push_back(word);
    }
    return list;
}

inline std::string host()
{
    const char *text = getenv("UDMON_TEST_HOST");

    return (text != nullptr) ? text : "127.0.0.1";
}

inline std::string numbered(const std::string &prefix, int i)
{
    return prefix + std::to_string(i);
}

// In a process of its own: sends to `url` for ever (udmon_peers_test.cc).
void udmon_run_child(const char *url);

class UdmonTest : public testing::TestWithParam<std::string>
{
  protected:
    struct udmon_options options = quick_options();

    void SetUp() override
    {
        options.source = getenv("UDMON_TEST_SOURCE");
    }

    std::string url(int port = 0) const
    {
        return GetParam() + "://" + host() + ":" + std::to_string(port);
    }
    // A port on which no process listens, and the next: the kernel gives no client these ports
    int free_port() const
    {
        return 30000 + (getpid() % 1380) * 2;
    }
};

#endif

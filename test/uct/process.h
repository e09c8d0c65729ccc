/*
 * Tests in separate processes. The NIC and UCX read their environment once per process, a test may
 * crash or be killed, and its remains must not disturb the next test. So the process that runs
 * gtest never touches the NIC, and forks a team for every test that does.
 *
 *     isolated({{"UCX_GLEX_CHANNELS", "sr"}}, [] { ... EXPECT_EQ(...) ... });
 *     team(4, env, [](Team &team) { ... team.barrier(); ... });
 *
 * A failed expectation ends its process by an exception. The other processes of a team do not wait
 * for this process.
 */
#ifndef UCT_TEST_PROCESS_H
#define UCT_TEST_PROCESS_H

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <map>
#include <string>

/* Variables of the environment, by name */
typedef std::map<std::string, std::string> Env;

/* `more` wins */
Env operator+(Env env, const Env &more);

/* Shared memory of a team: blobs, flags and a barrier */
class Team
{
  public:
    static constexpr unsigned max_size = 64;
    static constexpr unsigned num_flags = 16;

    unsigned rank() const
    {
        return rank_;
    }

    unsigned size() const
    {
        return size_;
    }

    /* Publish data for the team, such as an address. Readable after the next barrier. */
    void publish(const std::string &blob);
    std::string blob(unsigned rank) const;

    /* Wait for all, calling `progress` meanwhile */
    void barrier(const std::function<void()> &progress = nullptr);

    /* Initially 0; for any use of a test */
    std::atomic<unsigned> &flag(unsigned i);

    /* Such as a victim's process, to be killed */
    pid_t pid(unsigned rank) const;

    /* This process is about to die by a signal, and that is right. It leaves all barriers. */
    void may_die();

  private:
    friend void team(unsigned, const Env &, const std::function<void(Team &)> &);
    struct Shared;

    Team(Shared *shared, unsigned size) : shared_(shared), size_(size)
    {
    }
    void run(const Env &env, const std::function<void(Team &)> &body);
    void check_exit(unsigned rank, int status) const;

    Shared *shared_;
    unsigned rank_ = 0;
    unsigned size_;
};

/* Run `body` in `size` processes on a separate fabric, and expect all of them to succeed */
void team(unsigned size, const Env &env, const std::function<void(Team &)> &body);

/* Run `body` in one process */
void isolated(const Env &env, const std::function<void()> &body);

/* Called after a test's time limit, to print more; set by node.cc */
extern void (*report_hang)();

/*
 * Names the event that this process waits for; printed if the process is ended after the time limit
 */
void waiting_for(const char *what);

#endif

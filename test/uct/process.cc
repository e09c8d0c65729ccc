#include "process.h"
#include "sanitizer.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_BLOB 512

/* Seconds after which a test hangs for sure. Whoever hunts a bug may want to wait for a shorter time. */
static unsigned hang_time()
{
    const char *text = getenv("UCT_TEST_HANG_TIME");

    if (text != NULL) {
        return strtoul(text, NULL, 10);
    }
    return under_asan() ? 100 : 30;
}

struct Team::Shared {
    std::atomic<unsigned> arrived;
    std::atomic<unsigned> generation;
    std::atomic<unsigned> members; /* that take part in barriers */
    std::atomic<unsigned> failed;  /* nobody needs to wait any more */
    std::atomic<unsigned> flags[num_flags];
    std::atomic<unsigned> may_die[max_size];
    pid_t pids[max_size];
    size_t blob_length[max_size];
    char blobs[max_size][MAX_BLOB];
};

Env operator+(Env env, const Env &more)
{
    for (const auto &variable : more) {
        env[variable.first] = variable.second;
    }
    return env;
}

/* ---- a test that hangs says where ---- */

void (*report_hang)();
static std::atomic<const char *> waiting_what("nothing known"); /* of the last thread that waits */

void waiting_for(const char *what)
{
    waiting_what = what;
}

static void write_text(const char *text)
{
    if (write(STDERR_FILENO, text, strlen(text)) < 0) {
        _exit(98);
    }
}

static void on_alarm(int)
{
    write_text("hangs, waiting for: ");
    write_text(waiting_what);
    write_text("\n");
    if (report_hang != NULL) {
        report_hang(); /* not safe in a signal handler, but all is lost here anyway */
    }
    _exit(97);
}

/* ---- the members' side ---- */

void Team::publish(const std::string &blob)
{
    ASSERT_LE(blob.size(), (size_t)MAX_BLOB);
    memcpy(shared_->blobs[rank_], blob.data(), blob.size());
    shared_->blob_length[rank_] = blob.size();
}

std::string Team::blob(unsigned rank) const
{
    return std::string(shared_->blobs[rank], shared_->blob_length[rank]);
}

std::atomic<unsigned> &Team::flag(unsigned i)
{
    return shared_->flags[i];
}

pid_t Team::pid(unsigned rank) const
{
    return shared_->pids[rank];
}

void Team::may_die()
{
    shared_->may_die[rank_] = 1;
    --shared_->members;
}

void Team::barrier(const std::function<void()> &progress)
{
    unsigned generation = shared_->generation;

    waiting_for("a barrier");
    ++shared_->arrived;
    while (shared_->generation == generation) {
        unsigned members = shared_->members;

        /* whoever sees all of them opens it: also when the last one left instead of coming */
        if (shared_->arrived.compare_exchange_strong(members, 0)) {
            ++shared_->generation;
            return;
        }
        if (shared_->failed != 0) {
            _exit(0); /* the one that failed tells about it */
        }
        if (progress) {
            progress();
        }
        sched_yield();
    }
}

void Team::run(const Env &env, const std::function<void(Team &)> &body)
{
    bool ok = true;

    for (const auto &variable : env) {
        setenv(variable.first.c_str(), variable.second.c_str(), 1);
    }
    testing::GTEST_FLAG(throw_on_failure) = true;
    signal(SIGALRM, on_alarm);
    alarm(hang_time());
    try {
        body(*this);
    } catch (const std::exception &e) {
        ok = false; /* gtest has printed it */
    }
    ok = ok && (sanitizer_leaks() == 0);
    if (!ok) {
        shared_->failed = 1;
    }
    fflush(NULL);
#ifdef OPENGLEX_COVERAGE
    exit(ok ? 0 : 1); /* which writes down what ran */
#endif
    _exit(ok ? 0 : 1);
}

/* ---- the parent's side ---- */

void Team::check_exit(unsigned rank, int status) const
{
    if (WIFSIGNALED(status)) {
        EXPECT_TRUE(shared_->may_die[rank])
            << "process " << rank << " of " << size_ << " was ended by signal " << WTERMSIG(status);
    } else {
        EXPECT_EQ(WEXITSTATUS(status), 0) << "process " << rank << " of " << size_ << " failed";
    }
}

void team(unsigned size, const Env &env, const std::function<void(Team &)> &body)
{
    void *memory =
        mmap(NULL, sizeof(Team::Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    ASSERT_LE(size, Team::max_size);
    Team members(new (memory) Team::Shared(), size);
    int status;

    members.shared_->members = size;
    fflush(NULL);
    for (unsigned i = 0; i < size; ++i) {
        pid_t pid = fork();

        ASSERT_GE(pid, 0);
        if (pid == 0) {
            members.rank_ = i;
            members.shared_->pids[i] = getpid();
            members.run(env, body);
        }
        members.shared_->pids[i] = pid;
    }
    for (unsigned i = 0; i < size; ++i) {
        pid_t pid = wait(&status);

        ASSERT_GE(pid, 0);
        for (unsigned rank = 0; rank < size; ++rank) {
            if (members.shared_->pids[rank] == pid) {
                members.check_exit(rank, status);
                /* one that crashed has not said so; those killed on purpose may */
                if ((status != 0) && !members.shared_->may_die[rank]) {
                    members.shared_->failed = 1;
                }
            }
        }
    }
    munmap(memory, sizeof(Team::Shared));
}

void isolated(const Env &env, const std::function<void()> &body)
{
    team(1, env, [&](Team &) { body(); });
}

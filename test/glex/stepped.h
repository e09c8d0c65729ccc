/*
 * Runs a child of this process instruction by instruction through a part of its work. A test can
 * act between any two instructions.
 */
#ifndef GLEX_TEST_STEPPED_H
#define GLEX_TEST_STEPPED_H

#include "sanitizer.h"

#include <gtest/gtest.h>

#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

/* With a sanitizer a child costs far more, and a function has far more instructions. Builds without
 * a sanitizer try every instruction. Here it suffices to cover each path. */
static const int STEP_STRIDE = under_asan() ? 61 : 1;
static const int KILLED_LIVES = under_asan() ? 200 : 2000;

class Stepped
{
  public:
    /* `fn` calls begin() and end() around the stepped part. */
    template <typename Fn> explicit Stepped(Fn fn) : pid_(fork())
    {
        if (pid_ == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL); /* nothing is left when the test is killed */
            fn();
            _exit(testing::Test::HasFailure());
        }
        EXPECT_EQ(pid_, waitpid(pid_, &status_, 0));
    }

    ~Stepped()
    {
        if (WIFSTOPPED(status_)) {
            kill(pid_, SIGKILL);
            waitpid(pid_, &status_, 0);
        }
    }

    Stepped(const Stepped &) = delete;

    static void begin()
    {
        if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) {
            _exit(77);
        }
        raise(SIGSTOP);
    }

    static void end()
    {
        raise(SIGSTOP);
    }

    /* False where ptrace is forbidden. */
    bool possible() const
    {
        return WIFSTOPPED(status_);
    }

    /* Run `num` instructions. @return whether the end was reached. */
    bool step(int num)
    {
        while (num-- > 0 && !complete_) {
            EXPECT_EQ(0, ptrace(PTRACE_SINGLESTEP, pid_, nullptr, nullptr));
            wait_stop();
        }
        return complete_;
    }

    /* Let it run on, to the end and beyond. */
    void resume()
    {
        if (!complete_) {
            EXPECT_EQ(0, ptrace(PTRACE_CONT, pid_, nullptr, nullptr));
            wait_stop();
            EXPECT_TRUE(complete_);
        }
        EXPECT_EQ(0, ptrace(PTRACE_DETACH, pid_, nullptr, nullptr));
    }

    /* After resume(). */
    void kill_now()
    {
        kill(pid_, SIGKILL);
        EXPECT_EQ(pid_, waitpid(pid_, &status_, 0));
    }

    /* Lets it run alone from here on, with a signal, or 0. */
    void leave(int sig)
    {
        EXPECT_EQ(0, ptrace(PTRACE_DETACH, pid_, nullptr, sig));
    }

    /* Exit status, after leave(); -1: it was killed, because it had not ended after some time. */
    int wait_ms(int ms)
    {
        for (; waitpid(pid_, &status_, WNOHANG) == 0; ms--) {
            if (ms == 0) {
                kill_now();
                return -1;
            }
            usleep(1000);
        }
        return WIFEXITED(status_) ? WEXITSTATUS(status_) : -1;
    }

    /* Exit status, after resume(). */
    int wait()
    {
        EXPECT_EQ(pid_, waitpid(pid_, &status_, 0));
        return WIFEXITED(status_) ? WEXITSTATUS(status_) : -1;
    }

  private:
    void wait_stop()
    {
        EXPECT_EQ(pid_, waitpid(pid_, &status_, 0));
        complete_ = WIFSTOPPED(status_) && WSTOPSIG(status_) == SIGSTOP;
    }

    pid_t pid_;
    int status_ = 0;
    bool complete_ = false;
};

#endif

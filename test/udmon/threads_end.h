// A look-up of a name has a thread that nobody joins, because getaddrinfo() cannot be interrupted. The
// thread may end while LeakSanitizer reads its memory at the end of the program, and then
// LeakSanitizer crashes. So the program waits for its threads first.
#ifndef THREADS_END_H
#define THREADS_END_H

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <iterator>

class ThreadsEnd : public testing::Environment
{
    static long threads()
    {
        std::error_code error;
        return std::distance(std::filesystem::directory_iterator("/proc/self/task", error), {});
    }

    void TearDown() override
    {
        for (int ms = 0; ms < 5000 && threads() > 1; ++ms) {
            usleep(1000);
        }
    }
};

inline testing::Environment *const threads_end = testing::AddGlobalTestEnvironment(new ThreadsEnd);

#endif

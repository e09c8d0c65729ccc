/*
 * Other processes for tests. A process runs this program again with one function, its own
 * environment, and a pipe in each direction.
 *
 *     CHILD(echo) { send_up(receive_down<int>()); return 0; }
 *     Process p("echo", {"GLEX_FABRIC=other"});
 */
#ifndef GLEX_TEST_PROCESS_H
#define GLEX_TEST_PROCESS_H

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <sys/types.h>

typedef int (*child_fn)();

/** Register a function that a process can run. */
bool child_register(const char *name, child_fn fn);

/** In the started process: run it; does not return if this is one. */
void child_main_if_any(int argc, char **argv);

#define CHILD(name)                                                                                \
    static int child_##name();                                                                     \
    static const bool child_registered_##name = child_register(#name, child_##name);               \
    static int child_##name()

/* The child's ends of the pipes. */
void child_write(const void *data, size_t len);
bool child_read(void *data, size_t len);

template <typename T> void send_up(const T &value)
{
    child_write(&value, sizeof(value));
}

template <typename T> T receive_down()
{
    T value{};
    child_read(&value, sizeof(value));
    return value;
}

class Process
{
  public:
    explicit Process(const char *name, std::vector<std::string> env = {});
    ~Process();
    Process(const Process &) = delete;

    template <typename T> void send(const T &value)
    {
        write_pipe(&value, sizeof(value));
    }

    template <typename T> T receive()
    {
        T value{};
        EXPECT_TRUE(read_pipe(&value, sizeof(value))) << "child ended early: " << wait();
        return value;
    }

    bool readable() const;    /* receive() would not wait */
    void kill_now();          /* SIGKILL, and wait */
    int wait();               /* exit status, or 128 + signal */
    std::string error_text(); /* standard error of the process, after its end */
    pid_t pid() const
    {
        return pid_;
    }

  private:
    void write_pipe(const void *data, size_t len);
    bool read_pipe(void *data, size_t len);

    pid_t pid_ = -1;
    int to_ = -1, from_ = -1, err_ = -1;
    int status_ = -1;
};

/* Gives this process a private $GLEX_SHM_DIR of the given size, which ends with the process. False:
 * mount namespaces are forbidden. */
bool own_shared_memory(const char *size);

#endif

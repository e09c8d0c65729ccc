#include "process.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>

/* Where a child finds its ends of the pipes. */
static const int CHILD_IN = 100, CHILD_OUT = 101;

static std::map<std::string, child_fn> &children()
{
    static std::map<std::string, child_fn> map;
    return map;
}

bool child_register(const char *name, child_fn fn)
{
    children()[name] = fn;
    return true;
}

void child_main_if_any(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--child") == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* nothing is left when the test itself is killed */
        exit(children().at(argv[2])());
    }
}

void child_write(const void *data, size_t len)
{
    if (write(CHILD_OUT, data, len) != static_cast<ssize_t>(len)) {
        _exit(99);
    }
}

static bool read_all(int fd, void *data, size_t len)
{
    char *p = static_cast<char *>(data);
    ssize_t ret;

    while (len > 0) {
        ret = read(fd, p, len);
        if (ret <= 0) {
            return false;
        }
        p += ret;
        len -= static_cast<size_t>(ret);
    }
    return true;
}

/* A child whose parent is gone has nothing to do any more. */
bool child_read(void *data, size_t len)
{
    if (!read_all(CHILD_IN, data, len)) {
        _exit(98);
    }
    return true;
}

Process::Process(const char *name, std::vector<std::string> env)
{
    int down[2], up[2];

    EXPECT_EQ(0, pipe2(down, O_CLOEXEC));
    EXPECT_EQ(0, pipe2(up, O_CLOEXEC));
    err_ = memfd_create("stderr", MFD_CLOEXEC);
    pid_ = fork();
    if (pid_ == 0) {
        dup2(down[0], CHILD_IN);
        dup2(up[1], CHILD_OUT);
        dup2(err_, STDERR_FILENO);
        for (const std::string &var : env) {
            putenv(strdup(var.c_str()));
        }
        execl("/proc/self/exe", "glex_test", "--child", name, static_cast<char *>(nullptr));
        _exit(97);
    }
    close(down[0]);
    close(up[1]);
    to_ = down[1];
    from_ = up[0];
}

Process::~Process()
{
    if (status_ < 0) {
        kill_now();
    }
    close(to_);
    close(from_);
    close(err_);
}

bool Process::readable() const
{
    pollfd pfd = {from_, POLLIN, 0};

    return poll(&pfd, 1, 0) == 1;
}

void Process::kill_now()
{
    if (status_ < 0) {
        kill(pid_, SIGKILL);
        wait();
    }
}

int Process::wait()
{
    if (status_ < 0) {
        int status = 0;

        EXPECT_EQ(pid_, waitpid(pid_, &status, 0));
        status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        if (status_ != 0 && status_ != 128 + SIGKILL) {
            fprintf(stderr, "child ended with %d:\n%s", status_, error_text().c_str());
        }
    }
    return status_;
}

std::string Process::error_text()
{
    char buf[16384];
    ssize_t len = pread(err_, buf, sizeof(buf), 0);

    return std::string(buf, len > 0 ? static_cast<size_t>(len) : 0);
}

void Process::write_pipe(const void *data, size_t len)
{
    EXPECT_EQ(static_cast<ssize_t>(len), write(to_, data, len));
}

bool Process::read_pipe(void *data, size_t len)
{
    return read_all(from_, data, len);
}

bool own_shared_memory(const char *size)
{
    std::string options = std::string("mode=1777,size=") + size;

    return (unshare(CLONE_NEWNS) == 0 || unshare(CLONE_NEWNS | CLONE_NEWUSER) == 0) &&
           mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
           mount("none", getenv("GLEX_SHM_DIR"), "tmpfs", 0, options.c_str()) == 0;
}

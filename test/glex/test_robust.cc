/* The robust mutex of a process, and copies from and to a process that ends or execs meanwhile. */
#include "internals.h"
#include "nic.h"
#include "process.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <linux/sched.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <tuple>

/* Where the owner has memory, and the process that takes its place, too. */
static char *const PLACE = reinterpret_cast<char *>(0x210000000000);
static const size_t SIZE = 65536;

static bool map_place()
{
    return mmap(PLACE, SIZE, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == PLACE;
}

/* ---- which copies ask the kernel ------------------------------------------------------------- */

static void end_a_child(Ep &)
{
    pid_t pid = fork();

    if (pid == 0) {
        _exit(0);
    }
    waitpid(pid, nullptr, 0);
}

static void end_a_program(Ep &)
{
    char name[] = "true", *argv[] = {name, nullptr};
    pid_t pid;

    if (posix_spawnp(&pid, name, nullptr, nullptr, argv, environ) == 0) {
        waitpid(pid, nullptr, 0);
    }
}

static void close_the_file(Ep &ep)
{
    close(internals_robust_fd(ep));
}

/* This thread has a list that libc does not know. */
static void replace_the_list()
{
    static robust_list_head head = {{&head.list}, 0, nullptr};

    syscall(SYS_set_robust_list, &head, sizeof(head));
}

struct Owner {
    const char *name;
    bool in_thread;      /* a thread that ends makes the first endpoint */
    void (*before)();    /* in the process, before its first endpoint */
    void (*after)(Ep &); /* before its first peer */
    bool is_held;
    bool is_held_later; /* when the main thread has made another endpoint */
};

static const Owner owners[] = {
    {"lives", false, nullptr, nullptr, true, true},
    {"has_lost_the_thread", true, nullptr, nullptr, false, true},
    {"has_lost_a_child", false, nullptr, end_a_child, true, true},
    {"has_started_a_program", false, nullptr, end_a_program, true, true},
    {"has_closed_the_file", false, nullptr, close_the_file, false, false},
    {"has_another_list", false, replace_the_list, nullptr, false, false},
};

CHILD(robust_owner)
{
    const Owner &owner = owners[receive_down<size_t>()];
    Device dev;
    std::unique_ptr<Ep> ep, later;

    if (!map_place()) {
        return 1;
    }
    memset(PLACE, 7, SIZE);
    if (owner.before != nullptr) {
        owner.before();
    }
    if (owner.in_thread) {
        std::thread([&] { ep.reset(new Ep(dev)); }).join();
    } else {
        ep.reset(new Ep(dev));
    }
    if (owner.after != nullptr) {
        owner.after(*ep);
    }
    send_up(ep->target(ep->reg(PLACE, SIZE)));
    receive_down<char>();
    later.reset(new Ep(dev));
    send_up(later->target(later->reg(PLACE, SIZE)));
    receive_down<char>();
    return testing::Test::HasFailure();
}

class robust : public testing::TestWithParam<size_t>
{
  protected:
    /* Without the word the kernel reads the cookie: with a get, and before a put. */
    void check_copies(const Target &to, bool is_held)
    {
        glex_rdma_req_t get = rdma(GLEX_RDMA_TYPE_GET, to, {}, sizeof(data));
        glex_rdma_req_t put = rdma(GLEX_RDMA_TYPE_PUT, to, {}, sizeof(data));

        for (int i = 0; i < 3; i++) {
            unsigned pieces = internals_fetched_pieces();

            memset(data, 0, sizeof(data));
            ASSERT_OK(glex_ext_rdma_now(ep, &get, data));
            EXPECT_EQ(7, data[0]);
            EXPECT_EQ(7, data[sizeof(data) - 1]);
            EXPECT_EQ(is_held ? 1u : 2u, internals_fetched_pieces() - pieces);
            pieces = internals_fetched_pieces();
            ASSERT_OK(glex_ext_rdma_now(ep, &put, data));
            EXPECT_EQ(is_held ? 0u : 1u, internals_fetched_pieces() - pieces);
        }
    }

    char data[4096];
    Device dev;
    Ep ep{dev};
};

TEST_P(robust, copies_read_the_cookie_only_without_the_word)
{
    const Owner &expected = owners[GetParam()];
    Process owner("robust_owner");
    Target first, second;

    owner.send(GetParam());
    first = owner.receive<Target>();
    check_copies(first, expected.is_held);
    owner.send('n');
    second = owner.receive<Target>();
    check_copies(second, expected.is_held_later);
    check_copies(first, expected.is_held || expected.is_held_later);
    owner.send('e');
    EXPECT_EQ(0, owner.wait());
}

static std::string robust_name(const testing::TestParamInfo<size_t> &info)
{
    return owners[info.param].name;
}

INSTANTIATE_TEST_SUITE_P(owner, robust, testing::Range<size_t>(0, std::size(owners)), robust_name);

/* The pointers of the mutex lead libc through memory of the holder. */
TEST(robust_file, cannot_be_changed_by_peers)
{
    Device dev;
    Ep ep(dev);
    int fd = internals_robust_fd(ep);
    char byte = 0;

    ASSERT_GE(fd, 0);
    EXPECT_EQ(MAP_FAILED, mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    EXPECT_EQ(-1, pwrite(fd, &byte, 1, 0));
    EXPECT_EQ(-1, ftruncate(fd, 0));
}

TEST(robust_file, child_of_fork_has_its_own)
{
    int status = -1;
    Device dev;
    Ep ep(dev);
    int fd = internals_robust_fd(ep);
    uint64_t id = internals_robust_id(ep);

    ASSERT_GE(fd, 0);
    pid_t pid = fork();
    if (pid == 0) {
        bool is_closed = fcntl(fd, F_GETFD) == -1;
        Device own;
        Ep mine(own);

        _exit(!is_closed                      ? 1 :
              internals_robust_fd(mine) < 0   ? 2 :
              internals_robust_id(mine) == id ? 3 :
                                                0);
    }
    waitpid(pid, &status, 0);
    EXPECT_EQ(0, status);
}

/* ---- the owner goes between the look and the copy -------------------------------------------- */

/* Whether nobody has changed the memory */
static bool is_blank()
{
    for (size_t i = 0; i < SIZE; i++) {
        if (PLACE[i] != 0) {
            return false;
        }
    }
    return true;
}

/* The new program: its memory is its own. */
CHILD(robust_execed)
{
    if (!map_place()) {
        return 1;
    }
    send_up('m');
    receive_down<char>();
    return is_blank() ? 0 : 2;
}

CHILD(robust_goes)
{
    Device dev;
    Ep ep(dev);

    if (!map_place()) {
        return 1;
    }
    memset(PLACE, 7, SIZE);
    send_up(ep.target(ep.reg(PLACE, SIZE)));
    if (receive_down<char>() == 'x') {
        return 0;
    }
    execl("/proc/self/exe", "glex_test", "--child", "robust_execed", nullptr);
    return 3;
}

/* A process with a given pid that has memory at the same place. Exit status 0: nobody has changed this
 * memory. */
class Stranger
{
  public:
    bool start(pid_t pid)
    {
        clone_args args = {};
        char byte;

        if (pipe(up) != 0 || pipe(down) != 0) {
            return false;
        }
        args.exit_signal = SIGCHLD;
        args.set_tid = reinterpret_cast<uint64_t>(&pid);
        args.set_tid_size = 1;
        pid_ = static_cast<pid_t>(syscall(SYS_clone3, &args, sizeof(args)));
        if (pid_ == 0) {
            bool has_memory = map_place();

            _exit(has_memory && write(up[1], "m", 1) == 1 && read(down[0], &byte, 1) == 1 &&
                          is_blank() ?
                      0 :
                      1);
        }
        return pid_ == pid && read(up[0], &byte, 1) == 1;
    }

    int wait()
    {
        int status = -1;

        if (pid_ > 0 && write(down[1], "c", 1) == 1) {
            waitpid(pid_, &status, 0);
        }
        return status;
    }

    ~Stranger()
    {
        for (int fd : {up[0], up[1], down[0], down[1]}) {
            close(fd);
        }
    }

  private:
    pid_t pid_ = -1;
    int up[2] = {-1, -1}, down[2] = {-1, -1};
};

enum How { KILLED, EXITED, EXECED };

static How how_to_go;
static Process *going;
static Stranger *stranger;
static bool has_gone, has_stranger;

/* The owner goes, and then its pid belongs to a process with other memory at the same place. */
static void owner_goes()
{
    internals_on_storing(nullptr);
    internals_on_fetching(nullptr);
    has_gone = true;
    if (how_to_go == EXECED) {
        going->send('e');
        has_stranger = going->receive<char>() == 'm';
        return;
    }
    if (how_to_go == KILLED) {
        going->kill_now();
    } else {
        going->send('x');
        going->wait();
    }
    has_stranger = stranger->start(going->pid());
}

class robust_gone : public testing::TestWithParam<std::tuple<How, glex_rdma_type>>
{
};

TEST_P(robust_gone, within_a_copy)
{
    const glex_rdma_type type = std::get<1>(GetParam());
    Process owner("robust_goes");
    Target to = owner.receive<Target>();
    Stranger other;
    char data[4096];
    Device dev;
    Ep ep(dev);
    glex_rdma_req_t req = rdma(type, to, {}, sizeof(data));

    how_to_go = std::get<0>(GetParam());
    going = &owner;
    stranger = &other;
    has_gone = has_stranger = false;
    memset(data, 7, sizeof(data));
    ASSERT_OK(glex_ext_rdma_now(ep, &req, data));
    ASSERT_EQ(7, data[0]);

    internals_on_storing(owner_goes);
    internals_on_fetching(owner_goes);
    EXPECT_NE(GLEX_SUCCESS, glex_ext_rdma_now(ep, &req, data));
    EXPECT_TRUE(has_gone);
    if (!has_stranger) {
        GTEST_SKIP() << "this system gives no process a pid of choice";
    }
    EXPECT_NE(GLEX_SUCCESS, glex_ext_rdma_now(ep, &req, data)); /* and when it has gone */
    if (how_to_go == EXECED) {
        owner.send('c');
        EXPECT_EQ(0, owner.wait());
    } else {
        EXPECT_EQ(0, other.wait());
    }
}

static std::string gone_name(const testing::TestParamInfo<robust_gone::ParamType> &info)
{
    const char *const names[] = {"killed", "exited", "execed"};

    return std::string(names[std::get<0>(info.param)]) +
           (std::get<1>(info.param) == GLEX_RDMA_TYPE_PUT ? "_put" : "_get");
}

INSTANTIATE_TEST_SUITE_P(owner, robust_gone,
                         testing::Combine(testing::Values(KILLED, EXITED, EXECED),
                                          testing::Values(GLEX_RDMA_TYPE_PUT, GLEX_RDMA_TYPE_GET)),
                         gone_name);

/* Systems that forbid something: it is found out, said, and done without. */
#include "internals.h"
#include "nic.h"
#include "process.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

static bool filter_calls(sock_filter *filter, size_t len)
{
    sock_fprog program = {static_cast<unsigned short>(len), filter};

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* As a container's seccomp profile does: process_vm_readv and _writev fail with EPERM. */
static bool forbid_process_vm()
{
    sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };

    return filter_calls(filter, sizeof(filter) / sizeof(filter[0]));
}

CHILD(system_seccomp)
{
    glex_ext_device_attr attr;
    char buf[64] = {};

    if (!forbid_process_vm()) {
        return 77;
    }
    Device dev;
    Ep ep(dev), other(dev);
    char *mapped = other.alloc(64);

    EXPECT_OK(glex_ext_query_device(dev, &attr));
    EXPECT_EQ(static_cast<uint32_t>(GLEX_EXT_CAP_MAP | GLEX_EXT_CAP_SLEEP | GLEX_EXT_CAP_COLL),
              attr.caps);
    EXPECT_NE(nullptr, strstr(attr.missing, "seccomp")) << attr.missing;
    glex_imm_rdma_req_t req = imm_put(other.target(other.reg(buf, 64)), "x", 2);
    EXPECT_OK(glex_imm_rdma(ep, &req, nullptr));
    EXPECT_OK(glex_imm_rdma(ep, &req, nullptr));
    std::vector<glex_err_req> errors = ep.errors();
    EXPECT_EQ(2u, errors.size());
    EXPECT_EQ(GLEX_ERR_STATUS_PCIE_READ, errors[0].status);
    req.rmt_mh = other.reg(mapped, 64);
    EXPECT_OK(glex_imm_rdma(ep, &req, nullptr));
    EXPECT_STREQ("x", mapped);
    return testing::Test::HasFailure();
}

TEST(system_, seccomp)
{
    Process child("system_seccomp", {"GLEX_LOG=warn"});

    if (child.wait() == 77) {
        GTEST_SKIP() << "no seccomp here";
    }
    EXPECT_EQ(0, child.wait());
    const std::string text = child.error_text(); /* one line, however many requests */
    EXPECT_EQ(1, std::count(text.begin(), text.end(), '\n')) << text;
    EXPECT_NE(std::string::npos, text.find("seccomp"));
}

/* Only who lets peers reach its private memory lets them trace it. */
CHILD(system_ptracer)
{
    const bool allowed = receive_down<char>() != 'n';
    char buf[64];
    Device dev;
    Ep ep(dev);

    ep.reg(ep.alloc(64), 64);
    EXPECT_EQ(0u, internals_ptracer_calls()) << "memory of the NIC";
    ep.reg(buf, sizeof(buf));
    EXPECT_EQ(allowed ? 1u : 0u, internals_ptracer_calls());
    return testing::Test::HasFailure();
}

TEST(system_, ptracer)
{
    for (char allowed : {'y', 'n'}) {
        Process child("system_ptracer", {std::string("GLEX_PRIVATE_RDMA=") + allowed});

        child.send(allowed);
        EXPECT_EQ(0, child.wait());
    }
}

/*
 * An endpoint in another pid namespace: its pid means another process here, or none. Everything
 * works but its private memory, and nobody else's is touched.
 */
CHILD(system_pid_namespace)
{
    static char priv[64];
    int status = 1;

    if (unshare(CLONE_NEWPID) != 0 && unshare(CLONE_NEWPID | CLONE_NEWUSER) != 0) {
        send_up(0);
        return 0;
    }
    if (fork() != 0) {
        wait(&status);
        _exit(status != 0); /* no leak check, which needs pids as they were */
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getpid() != 1) {
        return 1;
    }
    {
        Device dev;
        Ep ep(dev);

        send_up(1);
        send_up(ep.target(ep.reg(ep.alloc(64), 64)));
        send_up(ep.target(ep.reg(priv, 64)));
        EXPECT_EQ(5, ep.receive_number());
        EXPECT_STREQ("", priv);
    }
    _exit(testing::Test::HasFailure());
}

TEST(system_, pid_namespace)
{
    Process child("system_pid_namespace");
    Device dev;
    Ep ep(dev);

    if (child.receive<int>() == 0) {
        GTEST_SKIP() << "no pid namespaces here";
    }
    Target mapped = child.receive<Target>(), priv = child.receive<Target>();
    glex_imm_rdma_req_t req = imm_put(mapped, "x", 2);
    EXPECT_OK(glex_imm_rdma(ep, &req, nullptr));
    EXPECT_TRUE(ep.errors().empty());
    req = imm_put(priv, "x", 2);
    EXPECT_OK(glex_imm_rdma(ep, &req, nullptr));
    EXPECT_EQ(GLEX_ERR_STATUS_PCIE_READ, ep.only_error());
    glex_ep_addr_t addr = {.v = mapped.addr};
    EXPECT_OK(glex_ext_check_peer(ep, addr, 0, 0));
    ep.send_number(addr, 5);
    EXPECT_EQ(0, child.wait());
    EXPECT_EQ(GLEX_NO_EP_RESOURCE, glex_ext_check_peer(ep, addr, 0, 0));
}

/* Without /proc no endpoint can be made; the message says what is missing. */
CHILD(system_no_proc)
{
    glex_ep_attr attr = ep_attr();
    glex_ep_handle_t ep;

    if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWNS | CLONE_NEWUSER) != 0) {
        return 77;
    }
    mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
    if (mount("none", "/proc", "tmpfs", 0, nullptr) != 0) {
        return 77;
    }
    {
        Device dev;

        EXPECT_EQ(GLEX_SYS_ERR, glex_create_ep(dev, &attr, &ep));
    }
    _exit(testing::Test::HasFailure()); /* no leak check, which needs /proc */
}

TEST(system_, no_proc)
{
    Process child("system_no_proc", {"GLEX_LOG=error"});

    if (child.wait() == 77) {
        GTEST_SKIP() << "no mount namespaces here";
    }
    EXPECT_EQ(0, child.wait());
    EXPECT_NE(std::string::npos, child.error_text().find("/proc")) << child.error_text();
}

/* The table of registrations, which is neither the first nor the last part of an endpoint, cannot be
 * mapped. */
static bool forbid_table()
{
    const uint32_t size = 65536 * 32; /* of its entries, and of one */
    sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 5),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[1])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, size, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[3])),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, MAP_NORESERVE, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOMEM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };

    return filter_calls(filter, sizeof(filter) / sizeof(filter[0]));
}

/* An endpoint that cannot be made completely leaves nothing, and the process goes on. */
CHILD(system_half_an_endpoint)
{
    glex_ep_attr attr = ep_attr();
    glex_ep_handle_t handle;
    Device dev;
    Ep ep(dev);

    if (!forbid_table()) {
        return 77;
    }
    for (int i = 0; i < 3; i++) {
        EXPECT_NE(GLEX_SUCCESS, glex_create_ep(dev, &attr, &handle));
    }
    return testing::Test::HasFailure();
}

TEST(system_, half_an_endpoint)
{
    Process child("system_half_an_endpoint", {"GLEX_LOG=error"});

    if (child.wait() == 77) {
        GTEST_SKIP() << "no seccomp here";
    }
    EXPECT_EQ(0, child.wait());
    EXPECT_NE(std::string::npos, child.error_text().find("registration table"))
        << child.error_text();
}

/* Over the limit of file sizes there is an error that names it, and no signal. */
CHILD(system_file_size)
{
    glex_ep_attr attr = ep_attr();
    glex_ep_handle_t handle;
    rlimit limit;
    void *mem;
    Device dev;
    Ep ep(dev);

    EXPECT_EQ(0, getrlimit(RLIMIT_FSIZE, &limit));
    limit.rlim_cur = 100000;
    EXPECT_EQ(0, setrlimit(RLIMIT_FSIZE, &limit));
    EXPECT_EQ(GLEX_NO_MEM_RESOURCE, glex_create_ep(dev, &attr, &handle));
    EXPECT_EQ(GLEX_NO_MEM_RESOURCE, glex_ext_mem_alloc(ep, 1 << 20, &mem));
    return testing::Test::HasFailure();
}

TEST(system_, file_size)
{
    Process child("system_file_size", {"GLEX_LOG=error"});

    EXPECT_EQ(0, child.wait());
    const std::string text = child.error_text();
    EXPECT_EQ(2, std::count(text.begin(), text.end(), '\n')) << text;
    EXPECT_NE(std::string::npos, text.find("ulimit -f")) << text;
}

/* Writes its counters to a file, but not as a program with other privileges than its caller. */
CHILD(system_stats)
{
    if (receive_down<char>() == 'p') {
        internals_be_privileged();
    }
    {
        Device dev;
        Ep ep(dev);
    }
    return testing::Test::HasFailure();
}

TEST(system_, stats_of_the_privileged)
{
    char dir[] = "/tmp/glex-test-XXXXXX";

    ASSERT_NE(nullptr, mkdtemp(dir));
    const std::string file = std::string(dir) + "/stats";
    for (char how : {'p', 'n'}) {
        Process child("system_stats", {"GLEX_STATS=" + file});

        child.send(how);
        EXPECT_EQ(0, child.wait());
        EXPECT_EQ(how == 'p' ? -1 : 0, access(file.c_str(), F_OK));
    }
    unlink(file.c_str());
    rmdir(dir);
}

/* A signal in the middle of reserving memory does not make it fail. */
TEST(system_, interrupted_reservation)
{
    Device dev;

    internals_interrupt_reservations(3);
    Ep ep(dev);
    internals_interrupt_reservations(3);
    EXPECT_NE(nullptr, ep.alloc(1 << 20));
    EXPECT_EQ(0u, internals_interrupt_reservations(0)) << "all were met";
}

/* Who cannot open a file cannot tell whether a peer lives, and does not take it for dead. */
CHILD(system_no_files)
{
    Device dev;
    Ep ep(dev), known(dev), stranger(dev);
    rlimit files;
    glex_imm_mp_req_t req = {};
    char data[8] = {};

    ep.send_number(known.addr(), 1);
    EXPECT_EQ(0, getrlimit(RLIMIT_NOFILE, &files));
    const rlimit none = {0, files.rlim_max};
    EXPECT_EQ(0, setrlimit(RLIMIT_NOFILE, &none));
    EXPECT_OK(glex_ext_check_peer(ep, known.addr(), 0, 0));
    ep.send_number(known.addr(), 2);
    EXPECT_TRUE(ep.errors().empty());
    req.rmt_ep_addr = stranger.addr();
    req.data = data;
    req.len = sizeof(data);
    EXPECT_OK(glex_send_imm_mp(ep, &req, nullptr));
    EXPECT_EQ(GLEX_ERR_STATUS_CONNECTION_NACK, ep.only_error());
    EXPECT_EQ(1, known.receive_number(0));
    EXPECT_EQ(2, known.receive_number(0));
    EXPECT_EQ(0, setrlimit(RLIMIT_NOFILE, &files));
    return testing::Test::HasFailure();
}

TEST(system_, no_file_descriptors)
{
    Process child("system_no_files", {"GLEX_LOG=warn"});

    EXPECT_EQ(0, child.wait());
    EXPECT_NE(std::string::npos, child.error_text().find("ulimit -n"));
}

/* The pid in a segment means another process, one that has memory at the same addresses. */
TEST(system_, pid_of_another_process)
{
    static char priv[64];
    Device dev;
    Ep ep(dev), other(dev);
    Target to = other.target(other.reg(priv, sizeof(priv)));
    char path[512];
    int up[2], down[2], status = -1;
    char c = 'c';

    ASSERT_EQ(0, pipe(up));
    ASSERT_EQ(0, pipe(down));
    pid_t pid = fork();
    if (pid == 0) {
        close(down[1]);
        _exit(write(up[1], &c, 1) == 1 && read(down[0], &c, 1) == 0 && priv[0] == 0 ? 0 : 1);
    }
    ASSERT_EQ(1, read(up[0], &c, 1));
    internals_segment_path(to.addr, path, sizeof(path));
    internals_damage(path, INTERNALS_PID, static_cast<uint64_t>(pid));
    glex_imm_rdma_req_t req = imm_put(to, "x", 2);
    EXPECT_OK(glex_imm_rdma(ep, &req, nullptr));
    EXPECT_EQ(GLEX_ERR_STATUS_PCIE_READ, ep.only_error());
    close(down[1]);
    waitpid(pid, &status, 0);
    EXPECT_EQ(0, status) << "its memory was written";
    EXPECT_EQ(0, priv[0]);
    close(up[0]);
    close(up[1]);
    close(down[0]);
}

/* Two threads with an endpoint each, and a third that registers meanwhile. */
TEST(system_, threads)
{
    Device dev;
    Ep a(dev), b(dev);
    char buf[4096];
    bool done = false;

    std::thread registrar([&] {
        while (!__atomic_load_n(&done, __ATOMIC_RELAXED)) {
            glex_mem_handle_t mh = b.reg(buf, sizeof(buf));
            void *p = b.alloc(4096);
            EXPECT_OK(glex_deregister_mem(b, mh));
            EXPECT_OK(glex_ext_mem_free(b, p));
        }
    });
    std::thread echo([&] {
        for (int i = 0; i < 20000; i++) {
            EXPECT_EQ(i, b.receive_number());
            b.send_number(a.addr(), i);
        }
    });
    Target to = b.target(b.reg(b.alloc(64), 64));
    for (int i = 0; i < 20000; i++) {
        glex_imm_rdma_req_t req = imm_put(to, &i, sizeof(i));

        ASSERT_OK(glex_imm_rdma(a, &req, nullptr));
        a.send_number(b.addr(), i);
        ASSERT_EQ(i, a.receive_number());
    }
    __atomic_store_n(&done, true, __ATOMIC_RELAXED);
    echo.join();
    registrar.join();
    EXPECT_TRUE(a.errors().empty());
}

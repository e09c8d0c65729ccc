/* Peers as a transport needs them: pins of their memory, their receivers, their epochs. */
#include "nic.h"
#include "process.h"

#include <dirent.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <atomic>
#include <fstream>
#include <iterator>
#include <thread>

#include "internals.h"

class peer : public testing::Test
{
  protected:
    Device dev;
    Ep a{dev}, b{dev};

    /* The way to registered NIC memory of an endpoint; the pin keeps it. */
    static char *pin(const Ep &from, Target to, uint64_t len, glex_ext_pin **pin_p)
    {
        void *ptr = nullptr;

        EXPECT_OK(
            glex_ext_peer_ptr(from, {.v = to.addr}, {.v = to.mh}, TEST_KEY, 0, len, &ptr, pin_p));
        return static_cast<char *>(ptr);
    }
};

/* ---- pins ------------------------------------------------------------------------------------ */

/* What a process has that something may leave behind. */
struct Footprint {
    long maps, pages, files;
};

static Footprint footprint()
{
    std::ifstream maps("/proc/self/maps"), statm("/proc/self/statm");
    Footprint now = {};
    DIR *dir = opendir("/proc/self/fd");

    now.maps =
        std::count(std::istreambuf_iterator<char>(maps), std::istreambuf_iterator<char>(), '\n');
    statm >> now.pages;
    while (readdir(dir) != nullptr) {
        now.files++;
    }
    closedir(dir);
    return now;
}

/* Nothing is left of `what` but as much as a cache of some entries may keep. */
template <typename Fn> static void expect_bounded(Fn what)
{
    const int rounds = 300, first = 50;
    Footprint before = {}, after;

    for (int i = 0; i < rounds; i++) {
        if (i == first) {
            before = footprint();
        }
        what(i);
    }
    after = footprint();
    EXPECT_GE(before.maps + 8, after.maps);
    EXPECT_GE(before.pages + 4096, after.pages); /* the allocator may take another arena */
    EXPECT_EQ(before.files, after.files);
}

TEST_F(peer, windows_come_and_go)
{
    const uint64_t size = 1 << 20;

    expect_bounded([&](int i) {
        char *mem = b.alloc(size);
        glex_mem_handle_t mh = b.reg(mem, size);
        glex_ext_pin *pinned;
        glex_ext_watch watch;
        char *ptr = pin(a, b.target(mh), size, &pinned);

        ASSERT_OK(glex_ext_peer_watch(a, b.addr(), mh, TEST_KEY, &watch));
        ptr[size - 1] = static_cast<char>(i);
        EXPECT_EQ(static_cast<char>(i), mem[size - 1]);
        EXPECT_OK(glex_deregister_mem(b, mh));
        EXPECT_NE(watch.state, *watch.word);
        glex_ext_unpin(pinned);
        glex_ext_unpin(watch.pin);
        EXPECT_OK(glex_ext_mem_free(b, mem));
    });
}

TEST_F(peer, endpoints_come_and_go)
{
    expect_bounded([&](int) {
        Ep c(dev);
        glex_mem_handle_t mh = c.reg(c.alloc(1 << 16), 1 << 16);
        glex_ep_addr_t addr = c.addr();
        glex_ext_pin *pinned;
        glex_ext_watch watch;

        pin(a, c.target(mh), 1 << 16, &pinned);
        ASSERT_OK(glex_ext_peer_watch(a, addr, mh, TEST_KEY, &watch));
        c.destroy();
        EXPECT_EQ(GLEX_NO_EP_RESOURCE, glex_ext_check_peer(a, addr, 0, 0));
        EXPECT_NE(watch.state, *watch.word);
        glex_ext_unpin(watch.pin);
        glex_ext_unpin(pinned);
    });
}

/* Registrations of one memory share a mapping, and each pin counts. */
TEST_F(peer, pins_of_one_mapping)
{
    char *mem = b.alloc(8192);
    glex_ext_pin *whole, *part;
    char *ptr = pin(a, b.target(b.reg(mem, 8192)), 8192, &whole);
    char *inner = pin(a, b.target(b.reg(mem + 5000, 100)), 100, &part);

    EXPECT_EQ(ptr + 5000, inner);
    glex_ext_unpin(whole);
    inner[0] = 'x';
    EXPECT_EQ('x', mem[5000]);
    glex_ext_unpin(part);
}

TEST_F(peer, a_pin_outlives_the_endpoint_and_the_peer)
{
    Target to = b.target(b.reg(b.alloc(4096), 4096));
    glex_ext_pin *first, *second;
    glex_ext_watch watch;
    char *ptr = pin(a, to, 4096, &first);

    ASSERT_OK(glex_ext_peer_watch(a, b.addr(), {.v = to.mh}, TEST_KEY, &watch));
    pin(a, to, 4096, &second);
    strcpy(ptr, "here");
    a.destroy();
    EXPECT_STREQ("here", ptr);
    EXPECT_EQ(watch.state, *watch.word);
    b.destroy();
    EXPECT_NE(watch.state, *watch.word);
    glex_ext_unpin(second);
    strcpy(ptr, "still");
    EXPECT_STREQ("still", ptr);
    glex_ext_unpin(first);
    glex_ext_unpin(watch.pin);
    glex_ext_unpin(nullptr);
}

TEST_F(peer, own_memory_needs_no_pin)
{
    char *mem = a.alloc(4096);
    glex_mem_handle_t mh = a.reg(mem, 4096);
    glex_ext_pin *pinned;
    glex_ext_watch watch;

    EXPECT_EQ(mem, pin(a, a.target(mh), 4096, &pinned));
    EXPECT_EQ(nullptr, pinned);
    ASSERT_OK(glex_ext_peer_watch(a, a.addr(), mh, TEST_KEY, &watch));
    EXPECT_EQ(nullptr, watch.pin);
}

CHILD(peer_owner)
{
    Device dev;
    Ep ep(dev);
    char *mem = ep.alloc(4096);

    strcpy(mem, "owner");
    send_up(ep.target(ep.reg(mem, 4096)));
    receive_down<int>();
    send_up(mem[0]);
    return 0;
}

/* A child of fork() has the pointers of its parent, and reaches nobody by them. */
TEST_F(peer, a_forked_child_writes_nothing)
{
    Process owner("peer_owner");
    Target to = owner.receive<Target>();
    glex_ext_pin *pinned;
    glex_ext_watch watch;
    char *ptr = pin(a, to, 4096, &pinned);
    int status;

    ASSERT_OK(glex_ext_peer_watch(a, {.v = to.addr}, {.v = to.mh}, TEST_KEY, &watch));
    EXPECT_STREQ("owner", ptr);
    pid_t pid = fork();
    if (pid == 0) {
        bool blank = ptr[0] == '\0' && *watch.word != watch.state;

        ptr[0] = 'c';
        glex_ext_unpin(pinned);
        glex_ext_unpin(watch.pin);
        _exit(!blank);
    }
    ASSERT_EQ(pid, waitpid(pid, &status, 0));
    EXPECT_EQ(0, status);
    EXPECT_STREQ("owner", ptr);
    EXPECT_EQ(watch.state, *watch.word);
    owner.send(0);
    EXPECT_EQ('o', owner.receive<char>());
    glex_ext_unpin(pinned);
    glex_ext_unpin(watch.pin);
}

/* Pins are given back by any thread, while the endpoint's thread makes others of the same mapping. */
TEST_F(peer, pins_and_threads)
{
    const int rounds = 2000;
    Target to = b.target(b.reg(b.alloc(4096), 4096));
    std::atomic<glex_ext_pin *> handed{nullptr};
    std::thread other([&] {
        for (int i = 0; i < rounds; i++) {
            glex_ext_pin *pinned;

            while ((pinned = handed.exchange(nullptr)) == nullptr) {
                std::this_thread::yield();
            }
            glex_ext_unpin(pinned);
        }
    });

    for (int i = 0; i < rounds; i++) {
        glex_ext_pin *pinned;

        if (i % 10 == 0) { /* the last one may be unmapped meanwhile */
            EXPECT_OK(glex_deregister_mem(b, {.v = to.mh}));
            to = b.target(b.reg(b.alloc(4096), 4096));
        }
        pin(a, to, 4096, &pinned)[0] = 1;
        while (handed.load() != nullptr) {
            std::this_thread::yield();
        }
        handed.store(pinned);
    }
    other.join();
}

/* ---- what this process lacks ----------------------------------------------------------------- */

static void limit(int resource, rlim_t value)
{
    rlimit now = {};

    EXPECT_EQ(0, getrlimit(static_cast<__rlimit_resource>(resource), &now));
    now.rlim_cur = value < now.rlim_max ? value : now.rlim_max;
    EXPECT_EQ(0, setrlimit(static_cast<__rlimit_resource>(resource), &now));
}

/* Its own lack of address space or descriptors is no fault of a peer. */
CHILD(peer_starved)
{
    const uint64_t size = 64 << 20;
    Target to = receive_down<Target>(), known = receive_down<Target>();
    glex_ep_addr_t addr = {.v = to.addr};
    glex_mem_handle_t mh = {.v = to.mh};
    static char local[4096];
    Device dev;
    Ep ep(dev);
    glex_rdma_req_t get = rdma(GLEX_RDMA_TYPE_GET, to, {}, sizeof(local));
    void *ptr;

    /* attached, and mapped in part */
    EXPECT_OK(glex_ext_peer_ptr(ep, addr, {.v = known.mh}, TEST_KEY, 0, 8, &ptr, nullptr));
    limit(RLIMIT_AS, static_cast<rlim_t>(footprint().pages) * 4096 + size / 2);
    EXPECT_EQ(GLEX_NO_MEM_RESOURCE,
              glex_ext_peer_ptr(ep, addr, mh, TEST_KEY, 0, size, &ptr, nullptr));
    if (receive_down<bool>()) { /* private memory can be reached, and so can this */
        EXPECT_OK(glex_ext_rdma_now(ep, &get, local));
        EXPECT_STREQ("by the kernel", local);
    } else {
        EXPECT_EQ(GLEX_NO_MEM_RESOURCE, glex_ext_rdma_now(ep, &get, local));
    }
    limit(RLIMIT_AS, RLIM_INFINITY);
    EXPECT_OK(glex_ext_peer_ptr(ep, addr, mh, TEST_KEY, 0, size, &ptr, nullptr));
    EXPECT_STREQ("by the kernel", static_cast<char *>(ptr));

    Ep other(dev);
    limit(RLIMIT_NOFILE, 0);
    EXPECT_EQ(GLEX_NO_MEM_RESOURCE,
              glex_ext_peer_ptr(other, addr, mh, TEST_KEY, 0, size, &ptr, nullptr));
    EXPECT_OK(glex_ext_check_peer(other, addr, 0, 0));
    EXPECT_OK(glex_ext_check_peer(ep, addr, 0, 0));
    limit(RLIMIT_NOFILE, RLIM_INFINITY);
    EXPECT_OK(glex_ext_check_peer(other, addr, 0, 0));
    return testing::Test::HasFailure();
}

static void starve(const Ep &b, bool private_rdma)
{
    const uint64_t size = 64 << 20;
    Process child("peer_starved",
                  {"GLEX_LOG=none", private_rdma ? "GLEX_PRIVATE_RDMA=y" : "GLEX_PRIVATE_RDMA=n"});
    char *mem = b.alloc(size);

    strcpy(mem, "by the kernel");
    child.send(b.target(b.reg(mem, size)));
    child.send(b.target(b.reg(b.alloc(4096), 4096)));
    child.send(private_rdma);
    EXPECT_EQ(0, child.wait()) << child.error_text();
}

TEST_F(peer, lack_of_address_space_or_descriptors)
{
    starve(b, true);
}

TEST_F(peer, lack_of_address_space_without_private_rdma)
{
    starve(b, false);
}

/* ---- receivers and epochs -------------------------------------------------------------------- */

TEST_F(peer, receivers)
{
    glex_ep_addr_t to = b.addr();

    EXPECT_OK(glex_ext_check_peer(a, to, 0, 0));
    EXPECT_EQ(GLEX_ACCESS_ERR, glex_ext_check_peer(a, to, 77, 0)); /* it has a name by itself */
    EXPECT_OK(glex_ext_set_receiver(b, 77));
    EXPECT_OK(glex_ext_check_peer(a, to, 77, 0));
    EXPECT_EQ(GLEX_ACCESS_ERR, glex_ext_check_peer(a, to, 78, 0));
    EXPECT_OK(glex_ext_set_receiver(b, 0));
    EXPECT_EQ(GLEX_NO_EP_RESOURCE, glex_ext_check_peer(a, to, 77, 0));
    EXPECT_EQ(GLEX_NO_EP_RESOURCE, glex_ext_check_peer(a, to, 0, 0));
    EXPECT_OK(glex_ext_set_receiver(b, 78));
    EXPECT_EQ(GLEX_ACCESS_ERR, glex_ext_check_peer(a, to, 77, 0));
    EXPECT_OK(glex_ext_check_peer(a, to, 78, 0));
    EXPECT_OK(glex_ext_check_peer(a, to, 0, 0));
}

/* A process is known by each receiver of its endpoint, also after the endpoint is destroyed. */
TEST_F(peer, process_of_a_receiver)
{
    glex_ext_process process;
    glex_ep_addr_t to;
    {
        Ep next(dev);

        to = next.addr();
        EXPECT_EQ(GLEX_NO_EP_RESOURCE, glex_ext_peer_process(a, to, 0, &process)) << "not attached";
        ASSERT_OK(glex_ext_set_receiver(next, 77));
        EXPECT_OK(glex_ext_check_peer(a, to, 77, 0));
        EXPECT_OK(glex_ext_peer_process(a, to, 77, &process));
        EXPECT_EQ(GLEX_EXT_PROCESS_RUNS, process.state);
        EXPECT_EQ(static_cast<uint32_t>(getpid()), process.pid);
        EXPECT_OK(glex_ext_set_receiver(next, 78));
        EXPECT_OK(glex_ext_peer_process(a, to, 78, &process));
        EXPECT_OK(glex_ext_peer_process(a, to, 77, &process));
        EXPECT_EQ(GLEX_NO_EP_RESOURCE, glex_ext_peer_process(a, to, 79, &process));
    }
    EXPECT_EQ(GLEX_NO_EP_RESOURCE, glex_ext_check_peer(a, to, 0, 0)); /* detaches */
    EXPECT_OK(glex_ext_peer_process(a, to, 77, &process));
    EXPECT_EQ(GLEX_EXT_PROCESS_CLOSED, process.state);
    EXPECT_EQ(static_cast<uint32_t>(getpid()), process.pid);
}

/* An endpoint has one epoch within a host, and the next one at its address has another. */
TEST_F(peer, epochs_within_a_host)
{
    glex_ep_attr attr = ep_attr(b.addr().ep_num);
    glex_ep_addr_t to = b.addr();
    uint64_t epoch = 0, again = 0;

    ASSERT_OK(glex_ext_set_receiver(b, 77));
    ASSERT_OK(glex_ext_peer_epoch(a, to, &epoch));
    EXPECT_NE(0u, epoch);
    EXPECT_OK(glex_ext_check_peer(a, to, 77, epoch));
    EXPECT_OK(glex_ext_check_peer(a, to, 0, epoch));
    EXPECT_EQ(GLEX_NO_EP_RESOURCE, glex_ext_check_peer(a, to, 77, epoch + 1));
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_ext_peer_epoch(a, to, nullptr));

    b.destroy();
    EXPECT_EQ(GLEX_NO_EP_RESOURCE, glex_ext_check_peer(a, to, 77, epoch));
    EXPECT_EQ(GLEX_NO_EP_RESOURCE, glex_ext_peer_epoch(a, to, &again));
    Ep next(dev, attr);
    ASSERT_EQ(to.v, next.addr().v);
    ASSERT_OK(glex_ext_set_receiver(next, 77));
    EXPECT_EQ(GLEX_NO_EP_RESOURCE, glex_ext_check_peer(a, to, 77, epoch));
    EXPECT_OK(glex_ext_check_peer(a, to, 77, 0));
    ASSERT_OK(glex_ext_peer_epoch(a, to, &again));
    EXPECT_NE(epoch, again);
    EXPECT_OK(glex_ext_check_peer(a, to, 77, again));
}

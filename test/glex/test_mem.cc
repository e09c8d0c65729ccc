/* Registration, and memory of the NIC. */
#include "nic.h"
#include "process.h"
#include "stepped.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <thread>

#include "internals.h"

class mem : public testing::Test
{
  protected:
    Device dev;
    Ep a{dev}, b{dev};
    char buf[4096] = {};

    int put_status(Target to, uint32_t offset, uint32_t len)
    {
        char data[96] = {};
        glex_imm_rdma_req_t req = imm_put(to, data, len, offset);

        EXPECT_OK(glex_imm_rdma(a, &req, nullptr));
        std::vector<glex_err_req> errors = a.errors();
        return errors.empty() ? -1 : static_cast<int>(errors[0].status);
    }
};

TEST_F(mem, arguments)
{
    glex_mem_handle_t mh;
    const size_t page = sysconf(_SC_PAGESIZE);
    char *hole = static_cast<char *>(
        mmap(nullptr, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));

    EXPECT_EQ(GLEX_INVALID_PARAM, glex_register_mem(a, nullptr, 1, 3, &mh));
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_register_mem(a, buf, 0, 3, &mh));
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_register_mem(a, buf, 1, 3, nullptr));
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_register_mem(a, buf, 1, 0x200, &mh));
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_register_mem(a, buf, UINT64_MAX, 3, &mh));
    EXPECT_EQ(0, munmap(hole + page, page));
    EXPECT_EQ(GLEX_ACCESS_ERR, glex_register_mem(a, hole, 3 * page, 3, &mh));
    EXPECT_EQ(GLEX_ACCESS_ERR, glex_register_mem(a, hole + page - 1, 2, 3, &mh));
    EXPECT_OK(glex_register_mem(a, hole, page, 3, &mh));
    munmap(hole, 3 * page);
}

TEST_F(mem, deregister)
{
    glex_mem_handle_t mh = b.reg(buf, sizeof(buf)), bad = mh;

    EXPECT_EQ(-1, put_status(b.target(mh), 0, 8));
    bad.att_index ^= 1;
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_deregister_mem(b, bad));
    bad = mh;
    bad.att_base_off++;
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_deregister_mem(b, bad));
    bad = mh;
    bad.mmt_index++;
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_deregister_mem(b, bad));
    EXPECT_OK(glex_deregister_mem(b, mh));
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_deregister_mem(b, mh));
    EXPECT_EQ(GLEX_ERR_STATUS_MMT, put_status(b.target(mh), 0, 8));
}

/* A handle names one registration for good, although its entry is used again. */
TEST_F(mem, stale_handles)
{
    glex_mem_handle_t old = b.reg(buf, 100);

    for (int i = 0; i < 1000; i++) {
        glex_mem_handle_t mh;

        ASSERT_OK(glex_deregister_mem(b, old));
        mh = b.reg(buf, 100);
        ASSERT_EQ(GLEX_ERR_STATUS_MMT, put_status(b.target(old), 0, 8));
        ASSERT_EQ(-1, put_status(b.target(mh), 0, 8));
        old = mh;
    }
}

/* Also after more registrations than half of a generation counts. */
TEST_F(mem, a_stale_handle_after_very_many_registrations)
{
    const int flag = GLEX_MEM_READ | GLEX_MEM_WRITE | GLEX_EXT_MEM_EVENT_DATA;
    glex_mem_handle_t old = b.reg(buf, 100, flag), mh = old;
    glex_imm_rdma_req_t put = imm_put(b.target(old), "stale", 6, 0, 1);

    ASSERT_OK(glex_imm_rdma(a, &put, nullptr)); /* on its way, in the event */
    for (int i = 0; i < 65536; i++) {
        ASSERT_OK(glex_deregister_mem(b, mh));
        mh = b.reg(buf, 100, flag);
        ASSERT_NE(old.v, mh.v);
    }
    EXPECT_EQ(1, b.receive_event(0));
    EXPECT_STREQ("", buf) << "placed in a later registration";
    EXPECT_EQ(GLEX_ERR_STATUS_MMT, put_status(b.target(old), 0, 8));
    EXPECT_EQ(-1, put_status(b.target(mh), 0, 8));
}

/* Nor when the table's entry was registered as often as 16 bits count. */
TEST_F(mem, a_stale_handle_of_an_entry_used_very_often)
{
    glex_mem_handle_t old = b.reg(buf, 100), mh;

    ASSERT_OK(glex_deregister_mem(b, old));
    internals_age_registration(b, old.mmt_index, 65535);
    for (mh = b.reg(buf, 100); mh.mmt_index != old.mmt_index; mh = b.reg(buf, 100)) {
        ASSERT_OK(glex_deregister_mem(b, mh));
    }
    EXPECT_NE(old.v, mh.v);
    EXPECT_EQ(GLEX_ERR_STATUS_MMT, put_status(b.target(old), 0, 8));
    EXPECT_EQ(-1, put_status(b.target(mh), 0, 8));
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_deregister_mem(b, old));
}

/* Nor does it name one of the next endpoint that gets the number. */
TEST_F(mem, a_handle_of_an_endpoint_that_had_the_number_before)
{
    std::unique_ptr<Ep> first(new Ep(dev));
    Target old = first->target(first->reg(buf, 100));

    EXPECT_EQ(-1, put_status(old, 0, 8));
    first.reset();
    Ep second(dev, ep_attr(glex_ep_addr_t{.v = old.addr}.ep_num));
    second.reg(buf, 100);
    EXPECT_EQ(GLEX_ERR_STATUS_MMT, put_status(old, 0, 8));
}

TEST_F(mem, bounds)
{
    glex_mem_handle_t mh = b.reg(buf + 100, 10);

    EXPECT_EQ(-1, put_status(b.target(mh), 0, 10));
    EXPECT_EQ(-1, put_status(b.target(mh), 9, 1));
    EXPECT_EQ(-1, put_status(b.target(mh), 10, 0));
    EXPECT_EQ(GLEX_ERR_STATUS_ATT, put_status(b.target(mh), 10, 1));
    EXPECT_EQ(GLEX_ERR_STATUS_ATT, put_status(b.target(mh), 0, 11));
    EXPECT_EQ(GLEX_ERR_STATUS_ATT, put_status(b.target(mh), 11, 0));
    EXPECT_EQ(GLEX_ERR_STATUS_ATT, put_status(b.target(mh), UINT32_MAX, 96));
}

TEST_F(mem, direction)
{
    char mine[8] = {};
    glex_mem_handle_t lmh = a.reg(mine, 8, 0); /* for local use */
    Target ro = b.target(b.reg(buf, 8, GLEX_MEM_READ));
    Target wo = b.target(b.reg(buf, 8, GLEX_MEM_WRITE));
    struct {
        Target to;
        glex_rdma_type type;
        int status;
    } cases[] = {
        {ro, GLEX_RDMA_TYPE_GET, -1},
        {wo, GLEX_RDMA_TYPE_PUT, -1},
        {ro, GLEX_RDMA_TYPE_PUT, GLEX_ERR_STATUS_MMT},
        {wo, GLEX_RDMA_TYPE_GET, GLEX_ERR_STATUS_MMT},
        {a.target(lmh), GLEX_RDMA_TYPE_GET, GLEX_ERR_STATUS_MMT},
    };

    for (int round = 0; round < 2; round++) { /* the second time out of the cache */
        for (auto &c : cases) {
            glex_rdma_req_t req = rdma(c.type, c.to, lmh, 8);

            ASSERT_OK(glex_rdma(a, &req, nullptr));
            EXPECT_EQ(c.status, a.only_error());
        }
    }
    EXPECT_EQ(GLEX_ERR_STATUS_MMT, put_status(ro, 0, 8));
}

TEST_F(mem, many_registrations)
{
    std::vector<glex_mem_handle_t> handles;
    glex_mem_handle_t mh;

    for (int i = 0; i < 1000; i++) { /* beyond the table's first page */
        handles.push_back(b.reg(buf + i, 1));
    }
    for (int i = 999; i >= 0; i--) {
        char c = static_cast<char>(i);
        glex_imm_rdma_req_t req = imm_put(b.target(handles[i]), &c, 1);
        ASSERT_OK(glex_imm_rdma(a, &req, nullptr));
    }
    EXPECT_TRUE(a.errors().empty());
    for (int i = 0; i < 1000; i++) {
        ASSERT_EQ(static_cast<char>(i), buf[i]);
    }
    for (int i = 1000; i < 65536; i++) {
        ASSERT_OK(glex_register_mem(b, buf, 1, 3, &mh));
    }
    EXPECT_EQ(GLEX_NO_MEM_RESOURCE, glex_register_mem(b, buf, 1, 3, &mh));
    ASSERT_OK(glex_deregister_mem(b, handles[7]));
    ASSERT_OK(glex_register_mem(b, buf, 1, 3, &mh));
    EXPECT_EQ(handles[7].mmt_index, mh.mmt_index);
}

/* ---- long ranges ----------------------------------------------------------------------------- */

/* Address space without storage. */
class Sparse
{
  public:
    explicit Sparse(uint64_t size) : size_(size)
    {
        void *addr = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

        EXPECT_NE(MAP_FAILED, addr);
        base = static_cast<char *>(addr);
    }
    ~Sparse()
    {
        munmap(base, size_);
    }

    char *base;

  private:
    uint64_t size_;
};

/* Both sides of a request lie in a range of 100 GiB, also across the step between two handles. */
TEST_F(mem, long_ranges)
{
    const uint64_t size = 100ull << 30;
    const uint64_t places[] = {0, GLEX_EXT_LONG_STEP - 4, 5ull << 30, size - 8};
    Sparse theirs(size), ours(size);
    glex_mem_handle_t to = {}, from = {};

    ASSERT_OK(glex_ext_register_long(b, theirs.base, size, 3, &to));
    ASSERT_OK(glex_ext_register_long(a, ours.base, size, 3, &from));
    for (uint64_t place : places) {
        uint32_t remote, local;
        glex_mem_handle_t remote_mh = glex_ext_long_handle(to, place, &remote);
        glex_mem_handle_t local_mh = glex_ext_long_handle(from, place, &local);
        glex_rdma_req_t put =
            rdma(GLEX_RDMA_TYPE_PUT, b.target(remote_mh), local_mh, 8, remote, local);

        memcpy(ours.base + place, &place, 8);
        ASSERT_OK(glex_rdma(a, &put, nullptr));
        EXPECT_TRUE(a.errors().empty());
        EXPECT_EQ(0, memcmp(theirs.base + place, &place, 8));
        EXPECT_EQ(place + 8 > size - 8 ? GLEX_ERR_STATUS_ATT : -1,
                  put_status(b.target(remote_mh), remote + 1, 8));
    }
    EXPECT_OK(glex_ext_deregister_long(b, to, size));
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_ext_deregister_long(b, to, size));
    for (uint64_t i = 0; i < size / GLEX_EXT_LONG_STEP; i++) {
        EXPECT_EQ(GLEX_ERR_STATUS_MMT, put_status({b.addr().v, to.v + i}, 0, 8));
    }
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_ext_register_long(b, theirs.base, 0, 3, &to));
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_ext_register_long(b, theirs.base, UINT64_MAX, 3, &to));
}

/* Long and short ranges come and go: no handle is ever given out twice, and none is lost. */
TEST_F(mem, long_ranges_come_and_go)
{
    const uint64_t size = 20 * GLEX_EXT_LONG_STEP;
    Sparse memory(size);
    std::vector<std::pair<glex_mem_handle_t, uint64_t>> open;
    std::set<uint64_t> seen;
    unsigned seed = 1;

    for (int i = 0; i < 20000; i++) {
        uint64_t len = i % 3 == 0 ? 1 + rand_r(&seed) % 20 * GLEX_EXT_LONG_STEP : 64;
        glex_mem_handle_t mh = {};

        ASSERT_OK(glex_ext_register_long(b, memory.base, len, 3, &mh)) << i;
        for (uint64_t j = 0; j <= (len - 1) / GLEX_EXT_LONG_STEP; j++) {
            ASSERT_TRUE(seen.insert(mh.v + j).second);
            ASSERT_LT((mh.v + j) & 0xffff, 16384u);
        }
        open.emplace_back(mh, len);
        if (open.size() > 200) {
            size_t which = rand_r(&seed) % open.size();

            ASSERT_OK(glex_ext_deregister_long(b, open[which].first, open[which].second));
            open.erase(open.begin() + static_cast<long>(which));
        }
    }
}

/* ---- memory of the NIC ----------------------------------------------------------------------- */

TEST_F(mem, alloc_is_zeroed_aligned_and_peers_have_a_pointer_to_it)
{
    char *p = b.alloc(10000);
    glex_mem_handle_t mh = b.reg(p + 5000, 100);
    void *ptr;

    EXPECT_EQ(0u, reinterpret_cast<uintptr_t>(p) % 4096);
    EXPECT_EQ(std::string(10000, '\0'), std::string(p, 10000));
    ASSERT_OK(glex_ext_peer_ptr(a, b.addr(), mh, TEST_KEY, 10, 90, &ptr, nullptr));
    strcpy(static_cast<char *>(ptr), "through the pointer");
    EXPECT_STREQ("through the pointer", p + 5010);
    EXPECT_EQ(GLEX_ACCESS_ERR, glex_ext_peer_ptr(a, b.addr(), mh, TEST_KEY, 10, 91, &ptr, nullptr));
    EXPECT_EQ(GLEX_ACCESS_ERR,
              glex_ext_peer_ptr(a, b.addr(), mh, TEST_KEY, UINT64_MAX, 2, &ptr, nullptr));
    EXPECT_EQ(GLEX_ACCESS_ERR,
              glex_ext_peer_ptr(a, b.addr(), mh, TEST_KEY + 1, 0, 1, &ptr, nullptr));
    mh.att_base_off++;
    EXPECT_EQ(GLEX_ACCESS_ERR, glex_ext_peer_ptr(a, b.addr(), mh, TEST_KEY, 0, 1, &ptr, nullptr));
    EXPECT_EQ(GLEX_NOT_IMPLEMENTED,
              glex_ext_peer_ptr(a, b.addr(), b.reg(buf, 8), TEST_KEY, 0, 8, &ptr, nullptr));
    glex_ep_addr_t nobody = b.addr();
    nobody.ep_num++;
    EXPECT_EQ(GLEX_NO_EP_RESOURCE, glex_ext_peer_ptr(a, nobody, mh, TEST_KEY, 0, 1, &ptr, nullptr));
    EXPECT_EQ(GLEX_INVALID_PARAM,
              glex_ext_peer_ptr(a, b.addr(), mh, TEST_KEY, 0, 1, nullptr, nullptr));
}

TEST_F(mem, a_pointer_outlives_registration_and_peer)
{
    char *p = b.alloc(4096);
    glex_mem_handle_t mh = b.reg(p, 4096);
    glex_ext_pin *pin;
    void *ptr;

    ASSERT_OK(glex_ext_peer_ptr(a, b.addr(), mh, TEST_KEY, 0, 4096, &ptr, &pin));
    ASSERT_OK(glex_deregister_mem(b, mh));
    mh = b.reg(p, 4096);
    EXPECT_EQ(-1, put_status(b.target(mh), 0, 8)); /* the entry is read anew */
    strcpy(static_cast<char *>(ptr), "still");
    EXPECT_STREQ("still", p);
    Target to = b.target(mh);
    b.destroy();
    EXPECT_EQ(GLEX_ERR_STATUS_DEST_VP_STOP, put_status(to, 0, 8));
    strcpy(static_cast<char *>(ptr), "and still");
    EXPECT_STREQ("and still", static_cast<char *>(ptr));
    glex_ext_unpin(pin);
}

static bool holds(const glex_ext_watch &watch)
{
    return __atomic_load_n(watch.word, __ATOMIC_ACQUIRE) == watch.state;
}

TEST_F(mem, a_watch_holds_as_long_as_the_registration)
{
    char *p = b.alloc(4096);
    glex_mem_handle_t mh = b.reg(p, 4096);
    const glex_mem_handle_t old = mh;
    glex_ext_watch first, second;

    ASSERT_OK(glex_ext_peer_watch(a, b.addr(), mh, TEST_KEY, &first));
    EXPECT_TRUE(holds(first));
    ASSERT_OK(glex_deregister_mem(b, mh));
    EXPECT_FALSE(holds(first));
    EXPECT_EQ(GLEX_ACCESS_ERR, glex_ext_peer_watch(a, b.addr(), mh, TEST_KEY, &second));

    do { /* until it is in the same entry of the table */
        EXPECT_FALSE(holds(first));
        mh = b.reg(p, 4096);
        EXPECT_FALSE(holds(first));
        if (mh.mmt_index != old.mmt_index) {
            EXPECT_OK(glex_deregister_mem(b, mh));
        }
    } while (mh.mmt_index != old.mmt_index);
    ASSERT_OK(glex_ext_peer_watch(a, b.addr(), mh, TEST_KEY, &second));
    EXPECT_EQ(first.word, second.word);
    EXPECT_TRUE(holds(second));
    EXPECT_EQ(GLEX_ACCESS_ERR, glex_ext_peer_watch(a, b.addr(), mh, TEST_KEY + 1, &first));
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_ext_peer_watch(a, b.addr(), mh, TEST_KEY, nullptr));
    glex_ep_addr_t nobody = b.addr();
    nobody.ep_num++;
    EXPECT_EQ(GLEX_NO_EP_RESOURCE, glex_ext_peer_watch(a, nobody, mh, TEST_KEY, &first));
}

TEST_F(mem, a_watch_can_be_looked_at_when_the_peer_has_gone)
{
    glex_ext_watch watch;
    Target to = b.target(b.reg(b.alloc(4096), 4096));

    ASSERT_OK(glex_ext_peer_watch(a, b.addr(), {.v = to.mh}, TEST_KEY, &watch));
    b.destroy();
    EXPECT_EQ(GLEX_ERR_STATUS_DEST_VP_STOP, put_status(to, 0, 8)); /* it is detached */
    EXPECT_FALSE(holds(watch));
    glex_ext_unpin(watch.pin);
}

static uint64_t segment_bytes(const Ep &ep)
{
    return internals_segment_storage(ep.addr().v);
}

TEST_F(mem, free_gives_the_pages_back)
{
    uint64_t before = segment_bytes(b);
    char *p = b.alloc(1 << 20), *q = b.alloc(8192);

    EXPECT_EQ(before + (1 << 20) + 8192, segment_bytes(b));
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_ext_mem_free(b, p + 1));
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_ext_mem_free(b, buf));
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_ext_mem_free(b, nullptr));
    strcpy(q, "stays");
    EXPECT_OK(glex_ext_mem_free(b, p));
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_ext_mem_free(b, p));
    EXPECT_EQ(before + 8192, segment_bytes(b));
    EXPECT_STREQ("stays", q);
    EXPECT_OK(glex_ext_mem_free(b, q));
    EXPECT_EQ(before, segment_bytes(b));
}

/* Many times the size of the file, which may not become longer than 64 MiB. Memory that is allocated
 * again is zeroed, and no two regions overlap. GLEX_TEST_ALLOC_GIB=100 takes a minute. */
CHILD(mem_alloc_in_small_file)
{
    const char *gib = getenv("GLEX_TEST_ALLOC_GIB");
    const uint64_t limit = 64 << 20, largest = 12 << 20,
                   total = (gib != nullptr ? strtoull(gib, nullptr, 10) : 1ull) << 30;
    const struct rlimit file = {limit, limit};
    Device dev;
    Ep ep(dev);
    struct Region {
        uint64_t *first, *last, mark;
    };
    std::vector<Region> regions;
    uint64_t done = 0, mark = 0;
    unsigned seed = 7;

    EXPECT_EQ(0, setrlimit(RLIMIT_FSIZE, &file));
    while (done < total && !testing::Test::HasFailure()) {
        uint64_t len = largest - 4096 * (static_cast<unsigned>(rand_r(&seed)) % 2048);
        Region region;

        if (regions.size() == 3) {
            size_t i = static_cast<unsigned>(rand_r(&seed)) % regions.size();

            EXPECT_EQ(regions[i].mark, *regions[i].first);
            EXPECT_EQ(regions[i].mark, *regions[i].last);
            EXPECT_OK(glex_ext_mem_free(ep, regions[i].first));
            regions.erase(regions.begin() + static_cast<long>(i));
        }
        region.first = reinterpret_cast<uint64_t *>(ep.alloc(len));
        region.last = region.first + len / 8 - 1;
        EXPECT_EQ(0u, *region.first);
        EXPECT_EQ(0u, *region.last);
        *region.first = *region.last = region.mark = ++mark;
        regions.push_back(region);
        done += len;
    }
    return testing::Test::HasFailure();
}

TEST(mem_alloc, file_does_not_grow)
{
    Process child("mem_alloc_in_small_file");

    EXPECT_EQ(0, child.wait());
}

TEST_F(mem, alloc_arguments)
{
    void *p;

    EXPECT_EQ(GLEX_INVALID_PARAM, glex_ext_mem_alloc(a, 0, &p));
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_ext_mem_alloc(a, 8, nullptr));
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_ext_mem_alloc(a, UINT64_MAX, &p));
}

/* NIC memory is inherited, as other memory is; the endpoint is not. */
TEST_F(mem, fork_inherits_memory)
{
    char *p = b.alloc(4096);
    pid_t pid = fork();

    if (pid == 0) {
        p[0] = 'c';
        _exit(0);
    }
    int status;
    waitpid(pid, &status, 0);
    EXPECT_EQ(0, status);
    EXPECT_EQ('c', p[0]);
}

CHILD(mem_owner)
{
    Device dev;
    Ep ep(dev);

    send_up(ep.target(ep.reg(ep.alloc(4096), 4096)));
    receive_down<int>();
    return 0;
}

/* In a child of fork() a watch can be looked at, and does not hold. */
TEST_F(mem, a_watch_in_a_child_of_fork)
{
    Process owner("mem_owner");
    Target to = owner.receive<Target>();
    glex_ep_addr_t addr = {.v = to.addr};
    glex_mem_handle_t mh = {.v = to.mh};
    glex_ext_watch watch;
    int status;

    ASSERT_OK(glex_ext_peer_watch(a, addr, mh, TEST_KEY, &watch));
    EXPECT_EQ(watch.state, *watch.word);
    pid_t pid = fork();
    if (pid == 0) {
        _exit(*watch.word == watch.state);
    }
    ASSERT_EQ(pid, waitpid(pid, &status, 0));
    EXPECT_EQ(0, status);
    EXPECT_EQ(watch.state, *watch.word);
    glex_ext_unpin(watch.pin);
}

static size_t num_mapped()
{
    std::ifstream maps("/proc/self/maps");

    return std::count(std::istreambuf_iterator<char>(maps), std::istreambuf_iterator<char>(), '\n');
}

/* Pointers into memory that its owner registers again and again need one mapping. */
TEST_F(mem, pointers_to_memory_that_is_registered_anew)
{
    char *mem = b.alloc(1 << 16);
    size_t before = 0;
    void *ptr, *first = nullptr;

    for (int i = 0; i < 100; i++) {
        glex_mem_handle_t mh = b.reg(mem, 1 << 16);
        glex_mem_handle_t part = b.reg(mem + 5000, 100);

        ASSERT_OK(glex_ext_peer_ptr(a, b.addr(), mh, TEST_KEY, 0, 1 << 16, &ptr, nullptr));
        first = i == 0 ? ptr : first;
        EXPECT_EQ(first, ptr);
        mem[5000] = static_cast<char>(i);
        ASSERT_OK(glex_ext_peer_ptr(a, b.addr(), part, TEST_KEY, 0, 100, &ptr, nullptr));
        EXPECT_EQ(i, *static_cast<char *>(ptr));
        ASSERT_OK(glex_deregister_mem(b, mh));
        ASSERT_OK(glex_deregister_mem(b, part));
        if (i == 10) {
            before = num_mapped();
        }
    }
    EXPECT_GE(before + 10, num_mapped());
}

/*
 * Another thread takes a registration back and registers other memory, which gets the same table
 * entry, while this one is at any instruction of using the first: what is written lies within one of
 * the two, never at the offset of the one behind the address of the other.
 */
enum Use { PLACE_EVENT_DATA, LOCAL_SIDE_OF_RDMA, LOCAL_SIDE_GROWS, PUT_TO_ITSELF };

class mem_swap : public mem, public testing::WithParamInterface<Use>
{
  protected:
    static const uint32_t SMALL = 64, BIG = 16384, OFFSET = 8192;

    static char *map()
    {
        return static_cast<char *>(
            mmap(nullptr, BIG, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    }

    /* Register in the table's entry that `old` had: entries are used again in turn. */
    static void register_instead(const Ep &ep, glex_mem_handle_t old, char *addr, uint32_t len,
                                 int flag)
    {
        glex_mem_handle_t mh = ep.reg(addr, len, flag);

        for (int i = 0; mh.mmt_index != old.mmt_index; i++) {
            EXPECT_OK(glex_deregister_mem(ep, mh));
            ASSERT_GT(1000, i);
            mh = ep.reg(addr, len, flag);
        }
    }

    /* Runs in a child, whose other thread exchanges the registrations when it is told to. */
    void use(int go, int done)
    {
        char *small = map(), *big = map(), data[8] = "written", byte;
        /* The second one is smaller, or larger; the event is posted while the first one holds. */
        const bool grow = GetParam() == PUT_TO_ITSELF || GetParam() == LOCAL_SIDE_GROWS;
        const int flag = GLEX_MEM_READ | GLEX_MEM_WRITE |
                         (GetParam() == PLACE_EVENT_DATA ? GLEX_EXT_MEM_EVENT_DATA : 0);
        Ep ep(dev);
        glex_mem_handle_t source = ep.reg(ep.alloc(64), 64);
        glex_mem_handle_t first = ep.reg(grow ? small : big, grow ? SMALL : BIG, flag);
        glex_imm_rdma_req_t put =
            imm_put(ep.target(first), data, sizeof(data), OFFSET, GetParam() == PLACE_EVENT_DATA);
        glex_rdma_req_t get =
            rdma(GLEX_RDMA_TYPE_GET, ep.target(source), first, sizeof(data), 0, OFFSET);
        glex_imm_rdma_req_t fill = imm_put(ep.target(source), data, sizeof(data));
        glex_event_t *event;

        EXPECT_OK(glex_imm_rdma(ep, &fill, nullptr));
        std::thread other([&] {
            EXPECT_EQ(1, read(go, &byte, 1));
            EXPECT_OK(glex_deregister_mem(ep, first));
            register_instead(ep, first, grow ? big : small, grow ? BIG : SMALL, flag);
            EXPECT_EQ(1, write(done, &byte, 1));
        });
        if (GetParam() == PLACE_EVENT_DATA) {
            EXPECT_OK(glex_imm_rdma(ep, &put, nullptr));
        }
        Stepped::begin();
        switch (GetParam()) {
        case PLACE_EVENT_DATA:
            glex_probe_first_event(ep, 0, &event);
            break;
        case LOCAL_SIDE_OF_RDMA:
        case LOCAL_SIDE_GROWS:
            glex_rdma(ep, &get, nullptr);
            break;
        case PUT_TO_ITSELF:
            glex_imm_rdma(ep, &put, nullptr);
            break;
        }
        Stepped::end();
        other.join();
        EXPECT_STREQ("", small + OFFSET) << "written behind a registration of 64 bytes";
        if (grow) {
            EXPECT_STREQ("", big + OFFSET) << "written by the handle of the other registration";
        }
    }
};

TEST_P(mem_swap, at_every_instruction)
{
    bool complete = false;
    int steps = 0;

    for (; !complete && !HasFailure(); steps += STEP_STRIDE) {
        int go[2], done[2];
        char byte = 0;

        ASSERT_EQ(0, pipe2(go, O_CLOEXEC));
        ASSERT_EQ(0, pipe2(done, O_CLOEXEC));
        Stepped user([&] { use(go[0], done[1]); });
        if (!user.possible()) {
            GTEST_SKIP() << "no ptrace here";
        }
        complete = user.step(steps);
        EXPECT_EQ(1, write(go[1], &byte, 1));
        EXPECT_EQ(1, read(done[0], &byte, 1));
        user.resume();
        EXPECT_EQ(0, user.wait()) << "after " << steps << " instructions";
        for (int fd : {go[0], go[1], done[0], done[1]}) {
            close(fd);
        }
    }
    EXPECT_LT(20, steps);
}

static std::string use_name(const testing::TestParamInfo<Use> &info)
{
    static const char *const names[] = {"placed_event", "local_side", "local_side_grows",
                                        "put_to_itself"};

    return names[info.param];
}

INSTANTIATE_TEST_SUITE_P(registrations, mem_swap,
                         testing::Values(PLACE_EVENT_DATA, LOCAL_SIDE_OF_RDMA, LOCAL_SIDE_GROWS,
                                         PUT_TO_ITSELF),
                         use_name);

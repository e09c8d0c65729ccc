/* Segments that are damaged, left over or find no room: nothing others write is trusted. */
#include "internals.h"
#include "nic.h"
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <random>

extern "C" {
#include "api/inspect.h"
}

class segment : public testing::Test
{
  protected:
    Device dev;
    Ep a{dev};

    static std::string path_of(glex_ep_addr_t addr)
    {
        char path[512];

        internals_segment_path(addr.v, path, sizeof(path));
        return path;
    }

    void expect_stopped(glex_ep_addr_t addr)
    {
        a.send_number(addr, 1);
        EXPECT_EQ(GLEX_ERR_STATUS_DEST_VP_STOP, a.only_error());
    }
};

TEST_F(segment, damaged_header)
{
    for (int what = 0; what < INTERNALS_PID; what++) {
        for (uint64_t value : {uint64_t(0), uint64_t(77), UINT64_MAX, uint64_t(1) << 20}) {
            Ep b(dev);

            internals_damage(path_of(b.addr()).c_str(), static_cast<internals_field>(what), value);
            if (what == INTERNALS_INCARNATION && value != 0) {
                continue; /* any other number is a good one */
            }
            expect_stopped(b.addr());
        }
    }
}

/* The owner goes by its own copy of everything. */
TEST_F(segment, header_damaged_under_a_living_endpoint)
{
    Ep b(dev);
    std::vector<char> noise(4096, static_cast<char>(0xa5));

    a.send_number(b.addr(), 1);
    int fd = open(path_of(b.addr()).c_str(), O_RDWR);
    ASSERT_EQ(4096, pwrite(fd, noise.data(), 4096, 0));
    close(fd);
    a.send_number(b.addr(), 2);
    EXPECT_EQ(1, b.receive_number(0));
    EXPECT_EQ(2, b.receive_number(0));
    char *p = b.alloc(5000);
    glex_mem_handle_t mh = b.reg(p, 5000);
    EXPECT_OK(glex_deregister_mem(b, mh));
    EXPECT_OK(glex_ext_mem_free(b, p));
}

/* A file with a living owner, and anything in it. */
class Fake
{
  public:
    Fake(const std::string &path, const void *data, size_t len)
        : path_(path), fd_(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600))
    {
        EXPECT_EQ(0, flock(fd_, LOCK_EX | LOCK_NB));
        EXPECT_EQ(static_cast<ssize_t>(len), write(fd_, data, len));
    }
    ~Fake()
    {
        close(fd_);
        unlink(path_.c_str());
    }
    Fake(const Fake &) = delete;

  private:
    std::string path_;
    int fd_;
};

TEST_F(segment, truncated)
{
    Ep b(dev);
    std::vector<char> whole(4 << 20);
    int fd = open(path_of(b.addr()).c_str(), O_RDONLY);
    ssize_t len = read(fd, whole.data(), whole.size());
    glex_ep_addr_t addr = b.addr();

    close(fd);
    ASSERT_LT(8192, len);
    b.destroy();
    for (ssize_t cut : {ssize_t(0), ssize_t(1), ssize_t(100), ssize_t(4096), len / 2, len - 1}) {
        Fake fake(path_of(addr), whole.data(), static_cast<size_t>(cut));
        expect_stopped(addr);
    }
    Fake fake(path_of(addr), whole.data(), static_cast<size_t>(len)); /* the whole is good */
    a.send_number(addr, 1);
    EXPECT_TRUE(a.errors().empty());
}

/* Its length is right, but there is no storage behind it: a store could raise SIGBUS. */
TEST_F(segment, sparse)
{
    Ep b(dev);
    glex_ep_addr_t addr = b.addr();
    std::vector<char> head(4096);
    int fd = open(path_of(addr).c_str(), O_RDONLY);

    ASSERT_EQ(4096, read(fd, head.data(), 4096));
    close(fd);
    b.destroy();
    Fake fake(path_of(addr), head.data(), 4096);
    ASSERT_EQ(0, truncate(path_of(addr).c_str(), 8 << 20));
    expect_stopped(addr);
}

TEST_F(segment, noise)
{
    std::mt19937 random(1);
    std::vector<char> data(1 << 16);
    glex_ep_addr_t addr = a.addr();

    addr.ep_num ^= 0x10;
    for (int i = 0; i < 50; i++) {
        for (char &c : data) {
            c = static_cast<char>(random());
        }
        Fake fake(path_of(addr), data.data(), data.size());
        expect_stopped(addr);
    }
}

TEST_F(segment, no_regular_file)
{
    glex_ep_addr_t addr = a.addr();
    std::string path;
    glex_ep_attr attr;
    glex_ep_handle_t ep;

    addr.ep_num ^= 0x10;
    path = path_of(addr);
    attr = ep_attr(addr.ep_num);
    ASSERT_EQ(0, symlink(path_of(a.addr()).c_str(), path.c_str()));
    expect_stopped(addr);
    EXPECT_EQ(GLEX_NO_EP_RESOURCE, glex_create_ep(dev, &attr, &ep));
    unlink(path.c_str());
    ASSERT_EQ(0, mkfifo(path.c_str(), 0600));
    expect_stopped(addr);
    unlink(path.c_str());
    ASSERT_EQ(0, mkdir(path.c_str(), 0700));
    expect_stopped(addr);
    rmdir(path.c_str());
}

static void count_removed(const glex_inspect_ep *, bool removed, void *arg)
{
    *static_cast<uint32_t *>(arg) += removed;
}

/* A file without a living owner is rubbish, whatever it holds: the number is free. */
TEST_F(segment, rubbish_is_reaped)
{
    glex_ep_addr_t addr = a.addr();
    uint32_t removed = 0;

    EXPECT_OK(glex_inspect_clean(nullptr, nullptr)); /* what tests that kill have left */
    addr.ep_num ^= 0x10;
    int fd = open(path_of(addr).c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
    ASSERT_EQ(5, write(fd, "noise", 5));
    close(fd);
    expect_stopped(addr);
    EXPECT_OK(glex_inspect_clean(count_removed, &removed));
    EXPECT_EQ(1u, removed);
    EXPECT_NE(0, access(path_of(addr).c_str(), F_OK));
    a.send_number(a.addr(), 1); /* the living are left alone */
    EXPECT_EQ(1, a.receive_number(0));
    Ep b(dev, ep_attr(addr.ep_num));
}

/* ---- a peer that writes nonsense where it may write ------------------------------------------ */

static void scribble(const std::string &path, uint64_t off, std::vector<uint64_t> words)
{
    int fd = open(path.c_str(), O_RDWR);

    EXPECT_EQ(static_cast<ssize_t>(words.size() * 8),
              pwrite(fd, words.data(), words.size() * 8, static_cast<off_t>(off)));
    close(fd);
}

TEST_F(segment, slots_that_no_producer_would_write)
{
    const uint64_t lens[] = {113, 255, 5000, 0x7fffffff, 0xffffffff};

    uint32_t num = 1000;

    for (int which = 0; which < 2; which++) {
        for (uint64_t len : lens) {
            Ep b(dev, ep_attr(num++)); /* one that the producer has never met */
            std::string path = path_of(b.addr());
            glex_mem_handle_t mh = b.reg(b.alloc(64), 64);

            internals_claim_only(a, b.addr(), which); /* position 0 is ours to damage */
            scribble(path, internals_slot_offset(b, which, 0), {1 | len << 32, 0, 1, 2, 3});
            a.send_number(b.addr(), 5);
            glex_imm_rdma_req_t req = imm_put(b.target(mh), nullptr, 0, 0, 6);
            ASSERT_OK(glex_imm_rdma(a, &req, nullptr));
            EXPECT_EQ(5, b.receive_number(0));
            EXPECT_EQ(6, b.receive_event(0));
            EXPECT_EQ(-1, b.receive_number(0));
            EXPECT_EQ(-1, b.receive_event(0));
        }
    }
}

/* Data in an event's slot goes where its owner registered it for that, or nowhere. */
TEST_F(segment, places_that_no_producer_would_name)
{
    Ep b(dev);
    char *p = b.alloc(4096);
    glex_mem_handle_t carried = b.reg(p, 64, GLEX_MEM_WRITE | GLEX_EXT_MEM_EVENT_DATA);
    glex_mem_handle_t plain = b.reg(p, 64, GLEX_MEM_WRITE);
    glex_mem_handle_t unwritable = b.reg(p, 64, GLEX_MEM_READ | GLEX_EXT_MEM_EVENT_DATA);
    struct {
        uint64_t place;
        bool written;
    } cases[] = {
        {(carried.v & 0xffffffff) | uint64_t(56) << 32, true},
        {(carried.v & 0xffffffff) | uint64_t(57) << 32, false},
        {(carried.v & 0xffffffff) | uint64_t(UINT32_MAX) << 32, false},
        {(carried.v & 0xffffffff) + 0x10000, false}, /* another generation */
        {plain.v & 0xffffffff, false},
        {unwritable.v & 0xffffffff, false},
        {0xffff, false},
        {UINT64_MAX, false},
    };
    uint64_t pos = 0;

    for (auto &c : cases) {
        memset(p, 0, 4096);
        internals_claim_only(a, b.addr(), 1);
        uint64_t ctrl = (pos + 1) | uint64_t(8) << 32;
        scribble(path_of(b.addr()), internals_slot_offset(b, 1, pos),
                 {ctrl, 77, 1, c.place, 0x4141414141414141});
        ASSERT_EQ(77, b.receive_event(0));
        EXPECT_EQ(c.written ? 8 : 0, std::count(p, p + 4096, 'A')) << std::hex << c.place;
        pos++;
    }
}

/* The target's table, damaged: requests fail, the initiator does not. */
TEST_F(segment, registrations_that_no_owner_would_make)
{
    const uint64_t valid = uint64_t(1) << 31 | GLEX_MEM_READ | GLEX_MEM_WRITE;
    const std::vector<uint64_t> entries[] = {
        {uint64_t(9) << 32 | valid, 0, 1 << 20, 1},                    /* in the header */
        {uint64_t(9) << 32 | valid, 0, 1 << 20, uint64_t(1) << 40},    /* beyond the file */
        {uint64_t(9) << 32 | valid, 0, UINT64_MAX, uint64_t(3) << 20}, /* longer than all */
        {uint64_t(9) << 32 | valid, 0, UINT64_MAX, UINT64_MAX - 5},
    };
    char *local = a.alloc(64);
    glex_mem_handle_t lmh = a.reg(local, 64);

    for (auto &entry : entries) {
        Ep b(dev);
        glex_mem_handle_t mh = b.reg(b.alloc(4096), 4096);

        scribble(path_of(b.addr()), internals_mmt_offset(b, mh.mmt_index), entry);
        mh.v = mh.mmt_index | uint64_t(9) << 16;
        glex_rdma_req_t req = rdma(GLEX_RDMA_TYPE_PUT, b.target(mh), lmh, 8);
        ASSERT_OK(glex_rdma(a, &req, nullptr));
        EXPECT_EQ(GLEX_ERR_STATUS_MMT, a.only_error());
    }
    /* private memory at an address where there is none */
    Ep b(dev);
    glex_mem_handle_t mh = b.reg(local, 64);
    scribble(path_of(b.addr()), internals_mmt_offset(b, mh.mmt_index),
             {uint64_t(9) << 32 | valid, 16, UINT64_MAX, 0});
    mh.v = mh.mmt_index | uint64_t(9) << 16;
    glex_rdma_req_t req = rdma(GLEX_RDMA_TYPE_PUT, b.target(mh), lmh, 8);
    ASSERT_OK(glex_rdma(a, &req, nullptr));
    EXPECT_EQ(GLEX_ERR_STATUS_PCIE_READ, a.only_error());
}

/* A length so great that the end of the memory is a small number. */
TEST_F(segment, shared_memory_that_is_longer_than_the_address_space)
{
    const size_t size = 4096;
    const uint64_t valid = uint64_t(1) << 31 | GLEX_MEM_READ;
    void *mem = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    char *begin = static_cast<char *>(mem) + size / 2;
    Ep b(dev);
    glex_mem_handle_t mh = b.reg(begin, 8, GLEX_MEM_READ);
    glex_ext_device_attr attr;
    glex_ret_t wanted;
    char got[8];
    void *ptr;

    EXPECT_OK(glex_ext_query_device(dev, &attr));
    /* without an alias the kernel copies, where it may */
    wanted = attr.caps & GLEX_EXT_CAP_PRIVATE_RDMA ? GLEX_SUCCESS : GLEX_ACCESS_ERR;
    scribble(path_of(b.addr()), internals_mmt_offset(b, mh.mmt_index),
             {uint64_t(9) << 32 | valid, reinterpret_cast<uintptr_t>(begin), UINT64_MAX - 7, 0});
    mh.v = mh.mmt_index | uint64_t(9) << 16;
    glex_rdma_req_t req = rdma(GLEX_RDMA_TYPE_GET, b.target(mh), {}, 8);
    for (int i = 0; i < 1000; i++) {
        ASSERT_EQ(wanted, glex_ext_rdma_now(a, &req, got));
    }
    EXPECT_EQ(GLEX_NOT_IMPLEMENTED,
              glex_ext_peer_ptr(a, b.addr(), mh, TEST_KEY, 1 << 20, 8, &ptr, nullptr));
    munmap(mem, size);
}

CHILD(segment_owner)
{
    Device dev;
    Ep ep(dev);

    send_up(ep.target(ep.reg(ep.alloc(64), 64)));
    receive_down<int>();
    return 0;
}

static uint64_t word_at(int fd, uint64_t off)
{
    uint64_t word = 0;

    EXPECT_EQ(8, pread(fd, &word, 8, static_cast<off_t>(off)));
    return word;
}

/*
 * A dead owner's table, which seems to be longer than its storage: its registrations are withdrawn,
 * and nothing beyond the storage is touched, which a full file system would answer with SIGBUS.
 */
TEST_F(segment, of_the_dead_with_a_forged_table)
{
    Process owner("segment_owner");
    Target to = owner.receive<Target>();
    const std::string path = path_of({.v = to.addr});
    const uint64_t entry = internals_mmt_offset(a, to.mh & 0xffff);
    const uint64_t before = internals_segment_storage(to.addr);
    struct stat st;

    owner.kill_now();
    internals_damage(path.c_str(), INTERNALS_MMT_READY, 1 << 16);
    int fd = open(path.c_str(), O_RDONLY);
    EXPECT_TRUE(word_at(fd, entry) >> 31 & 1) << "the entry's state, valid";
    for (int i = 0; i < WAIT_MS && access(path.c_str(), F_OK) == 0; i++) {
        EXPECT_OK(glex_inspect_clean(nullptr, nullptr));
        usleep(1000); /* the kernel frees the owner's lock a moment after its end */
    }
    EXPECT_NE(0, access(path.c_str(), F_OK));
    EXPECT_FALSE(word_at(fd, entry) >> 31 & 1);
    ASSERT_EQ(0, fstat(fd, &st));
    EXPECT_EQ(before, static_cast<uint64_t>(st.st_blocks) * 512);
    close(fd);
}

/* ---- looking from outside -------------------------------------------------------------------- */

static bool collect(const glex_inspect_ep *ep, void *arg)
{
    static_cast<std::vector<glex_inspect_ep> *>(arg)->push_back(*ep);
    return true;
}

TEST_F(segment, inspect)
{
    std::vector<glex_inspect_ep> eps;
    Ep b(dev, ep_attr(GLEX_ANY_EP_NUM, 64));

    for (int i = 0; i < 3; i++) {
        a.send_number(b.addr(), i);
    }
    b.reg(b.alloc(64), 64);
    ASSERT_OK(glex_inspect_endpoints(collect, &eps));
    ASSERT_EQ(2u, eps.size());
    const glex_inspect_ep &info = eps[eps[0].addr.v == b.addr().v ? 0 : 1];
    EXPECT_EQ(b.addr().v, info.addr.v);
    EXPECT_EQ(GLEX_INSPECT_LIVING, info.state);
    EXPECT_EQ(static_cast<uint32_t>(getpid()), info.pid);
    EXPECT_EQ(64u, info.mpq.capacity);
    EXPECT_EQ(3u, info.mpq.used);
    EXPECT_EQ(0u, info.eq.used);
    EXPECT_EQ(0u, info.peers);
    EXPECT_EQ(1u, info.registrations);
    EXPECT_LT(4096u, info.bytes);
    EXPECT_EQ(std::string(program_invocation_short_name).substr(0, 15), info.command);
}

/* ---- no room --------------------------------------------------------------------------------- */

/* In a mount namespace of its own, with 2 MiB of shared memory. */
CHILD(segment_no_room)
{
    std::vector<std::unique_ptr<Ep>> eps;
    glex_ep_attr attr = ep_attr(GLEX_ANY_EP_NUM, 1024);
    glex_ep_handle_t ep;
    void *p;

    if (!own_shared_memory("2m")) {
        return 77;
    }
    {
        Device dev;

        for (;;) {
            errno = 0;
            glex_ret_t ret = glex_create_ep(dev, &attr, &ep);
            if (ret != GLEX_SUCCESS) {
                EXPECT_EQ(GLEX_NO_MEM_RESOURCE, ret);
                EXPECT_EQ(ENOSPC, errno);
                break;
            }
            glex_ep_attr real;
            EXPECT_OK(glex_query_ep(ep, &real));
            EXPECT_OK(glex_destroy_ep(ep));
            eps.emplace_back(new Ep(dev, ep_attr(real.num, 1024)));
            EXPECT_GT(20u, eps.size());
        }
        EXPECT_LT(2u, eps.size());
        Ep &a = *eps[0], &b = *eps[1];
        eps.pop_back(); /* room for something */
        uint64_t total = 0;
        while (glex_ext_mem_alloc(a, 65536, &p) == GLEX_SUCCESS) {
            memset(p, 1, 65536); /* what was given can be written to */
            total += 65536;
        }
        EXPECT_EQ(ENOSPC, errno);
        EXPECT_LT(0u, total);
        while (glex_ext_mem_alloc(b, 1, &p) == GLEX_SUCCESS) {
        }
        /* full to the last page: everything that exists still works, all around the rings */
        char buf[64];
        glex_mem_handle_t mh = b.reg(buf, sizeof(buf));
        for (int i = 0; i < 3000; i++) {
            a.send_number(b.addr(), i);
            EXPECT_EQ(i, b.receive_number(0));
            glex_imm_rdma_req_t req = imm_put(b.target(mh), "x", 1, 0, 1);
            EXPECT_OK(glex_imm_rdma(a, &req, nullptr));
            EXPECT_EQ(1, b.receive_event(0));
        }
        glex_ret_t ret;
        int num = 0;
        do { /* up to the table's first page */
            ret = glex_register_mem(b, buf, 1, 3, &mh);
            num++;
        } while (ret == GLEX_SUCCESS && num < 1000);
        EXPECT_EQ(GLEX_NO_MEM_RESOURCE, ret);
        EXPECT_OK(glex_ext_mem_free(b, p));
        eps.clear();
        Ep again(dev, attr);
    }
    return testing::Test::HasFailure();
}

TEST(no_room, is_a_clean_error)
{
    char dir[] = "/tmp/glex-test-XXXXXX";

    ASSERT_NE(nullptr, mkdtemp(dir));
    Process child("segment_no_room", {std::string("GLEX_SHM_DIR=") + dir, "GLEX_LOG=error"});
    int status = child.wait();
    rmdir(dir);
    if (status == 77) {
        GTEST_SKIP() << "no mount namespaces here";
    }
    EXPECT_EQ(0, status);
    EXPECT_NE(std::string::npos, child.error_text().find("No space left"));
    EXPECT_NE(std::string::npos, child.error_text().find("GLEX_SHM_DIR"));
}

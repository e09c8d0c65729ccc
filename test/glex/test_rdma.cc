/* RDMA: immediate puts, and puts and gets between registrations. */
#include "internals.h"
#include "nic.h"
#include "process.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <memory>
#include <string>

/* Both kinds of target memory: mapped by the initiator, and private to its owner. */
class rdma_kind : public testing::TestWithParam<bool>
{
  protected:
    static const uint32_t SIZE = 1 << 20;

    rdma_kind()
    {
        remote = GetParam() ? b.alloc(SIZE) : priv.get();
        memset(remote, 0, SIZE);
        rmh = b.reg(remote, SIZE);
        lmh = a.reg(local.get(), SIZE);
        for (uint32_t i = 0; i < SIZE; i++) {
            local[i] = static_cast<char>(i * 31 + i / 256);
        }
    }

    std::unique_ptr<char[]> priv{new char[SIZE]()}, local{new char[SIZE]()};
    Device dev;
    Ep a{dev}, b{dev};
    char *remote;
    glex_mem_handle_t rmh, lmh;
};

TEST_P(rdma_kind, put_of_any_length_and_alignment)
{
    for (uint32_t len : {0u, 1u, 7u, 8u, 63u, 96u, 97u, 4095u, 4096u, 4097u, 100001u, SIZE}) {
        for (uint32_t off : {0u, 1u, 13u, 4095u}) {
            if (off + len > SIZE) {
                continue;
            }
            memset(remote, 0x11, SIZE);
            glex_rdma_req_t req = rdma(GLEX_RDMA_TYPE_PUT, b.target(rmh), lmh, len, off, off / 2);
            ASSERT_OK(glex_rdma(a, &req, nullptr));
            ASSERT_EQ(0, memcmp(remote + off, local.get() + off / 2, len)) << len << " " << off;
            ASSERT_TRUE(off == 0 || remote[off - 1] == 0x11);
            ASSERT_TRUE(off + len == SIZE || remote[off + len] == 0x11);
        }
    }
    EXPECT_TRUE(a.errors().empty());
}

TEST_P(rdma_kind, get_of_any_length_and_alignment)
{
    for (uint32_t i = 0; i < SIZE; i++) {
        remote[i] = static_cast<char>(i * 17 + i / 256);
    }
    for (uint32_t len : {0u, 1u, 8u, 97u, 4097u, 100001u, SIZE}) {
        for (uint32_t off : {0u, 1u, 4095u}) {
            if (off + len > SIZE) {
                continue;
            }
            memset(local.get(), 0x11, SIZE);
            glex_rdma_req_t req = rdma(GLEX_RDMA_TYPE_GET, b.target(rmh), lmh, len, off, off / 2);
            ASSERT_OK(glex_rdma(a, &req, nullptr));
            ASSERT_EQ(0, memcmp(local.get() + off / 2, remote + off, len)) << len << " " << off;
            ASSERT_TRUE(off / 2 + len == SIZE || local[off / 2 + len] == 0x11);
        }
    }
    EXPECT_TRUE(a.errors().empty());
}

/* Over at once, from and to memory that is not registered; refused for the same reasons. */
TEST_P(rdma_kind, now)
{
    std::unique_ptr<char[]> mine(new char[SIZE]());
    Target to = b.target(rmh);
    glex_rdma_req_t put = rdma(GLEX_RDMA_TYPE_PUT, to, {}, 100001, 7, 0);
    glex_rdma_req_t get = rdma(GLEX_RDMA_TYPE_GET, to, {}, 100001, 7, 0);
    glex_rdma_req_t bad;

    ASSERT_OK(glex_ext_rdma_now(a, &put, local.get()));
    EXPECT_EQ(0, memcmp(remote + 7, local.get(), 100001));
    EXPECT_EQ(0, remote[6]);
    EXPECT_EQ(0, remote[7 + 100001]);
    ASSERT_OK(glex_ext_rdma_now(a, &get, mine.get()));
    EXPECT_EQ(0, memcmp(mine.get(), local.get(), 100001));
    EXPECT_EQ(0, mine[100001]);
    EXPECT_EQ(1u, a.counters().put_tx);
    EXPECT_EQ(1u, a.counters().get_tx);

    bad = put;
    bad.rmt_key++;
    EXPECT_EQ(GLEX_ACCESS_ERR, glex_ext_rdma_now(a, &bad, mine.get()));
    bad = rdma(GLEX_RDMA_TYPE_GET, to, {}, 8, SIZE - 7);
    EXPECT_EQ(GLEX_ACCESS_ERR, glex_ext_rdma_now(a, &bad, mine.get()));
    bad = put;
    bad.flag |= GLEX_FLAG_LOCAL_EVT;
    bad.local_evt.cookie_1 = 1;
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_ext_rdma_now(a, &bad, mine.get()));
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_ext_rdma_now(a, &put, nullptr));
    ASSERT_OK(glex_deregister_mem(b, rmh));
    EXPECT_EQ(GLEX_ACCESS_ERR, glex_ext_rdma_now(a, &get, mine.get()));
    b.destroy();
    EXPECT_EQ(GLEX_NO_EP_RESOURCE, glex_ext_rdma_now(a, &get, mine.get()));
    EXPECT_TRUE(a.errors().empty());
}

TEST_P(rdma_kind, immediate_put_of_every_length)
{
    for (uint32_t len = 0; len <= 96; len++) {
        memset(remote, 0x11, 256);
        glex_imm_rdma_req_t req = imm_put(b.target(rmh), local.get(), len, 5);
        ASSERT_OK(glex_imm_rdma(a, &req, nullptr));
        ASSERT_EQ(0, memcmp(remote + 5, local.get(), len)) << len;
        ASSERT_EQ(0x11, remote[4]);
        ASSERT_EQ(0x11, remote[5 + len]);
    }
    EXPECT_EQ(97u, a.counters().imm_put_tx);
    EXPECT_EQ(96u * 97 / 2, a.counters().imm_put_bytes);
}

TEST_P(rdma_kind, events_of_put_and_get_at_both_sides)
{
    for (glex_rdma_type type : {GLEX_RDMA_TYPE_PUT, GLEX_RDMA_TYPE_GET}) {
        glex_rdma_req_t req = rdma(type, b.target(rmh), lmh, 1000);

        req.flag = GLEX_FLAG_LOCAL_EVT | GLEX_FLAG_REMOTE_EVT;
        req.local_evt.cookie_0 = 10;
        req.local_evt.cookie_1 = 1;
        req.rmt_evt.cookie_0 = 20;
        req.rmt_evt.cookie_1 = 1;
        ASSERT_OK(glex_rdma(a, &req, nullptr));
        EXPECT_EQ(10, a.receive_event(0));
        EXPECT_EQ(20, b.receive_event(0));
    }
    EXPECT_EQ(-1, a.receive_event(0));
    EXPECT_EQ(-1, b.receive_event(0));
    glex_ext_counters counters = a.counters();
    EXPECT_EQ(1u, counters.put_tx);
    EXPECT_EQ(1000u, counters.put_bytes);
    EXPECT_EQ(1u, counters.get_tx);
    EXPECT_EQ(1000u, counters.get_bytes);
}

INSTANTIATE_TEST_SUITE_P(memory, rdma_kind, testing::Bool(),
                         [](const auto &info) { return info.param ? "mapped" : "private"; });

class rdma_ : public testing::Test
{
  protected:
    Device dev;
    Ep a{dev}, b{dev};
    char *remote = b.alloc(4096), *local = a.alloc(4096);
    glex_mem_handle_t rmh = b.reg(remote, 4096), lmh = a.reg(local, 4096);
};

TEST_F(rdma_, malformed_requests_are_refused)
{
    glex_rdma_req_t req = rdma(GLEX_RDMA_TYPE_PUT, b.target(rmh), lmh, 8), *bad;
    glex_imm_rdma_req_t imm = imm_put(b.target(rmh), local, 8), *imm_bad;
    glex_device_attr attr;

    ASSERT_OK(glex_query_device(dev, &attr));
    imm.len = attr.max_imm_rdma_data_len + 1;
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_imm_rdma(a, &imm, &imm_bad));
    EXPECT_EQ(&imm, imm_bad);
    imm.len = 8;
    imm.data = nullptr;
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_imm_rdma(a, &imm, nullptr));
    imm.data = local;
    imm.flag = 1 << 19; /* no such flag */
    EXPECT_EQ(GLEX_NOT_IMPLEMENTED, glex_imm_rdma(a, &imm, &imm_bad));
    imm.flag = GLEX_FLAG_LOCAL_EVT; /* an immediate put has none */
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_imm_rdma(a, &imm, &imm_bad));

    req.len = attr.max_rdma_data_len + 1;
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_rdma(a, &req, &bad));
    EXPECT_EQ(&req, bad);
    req.len = 8;
    req.type = static_cast<glex_rdma_type>(2);
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_rdma(a, &req, &bad));
    req.type = GLEX_RDMA_TYPE_PUT;
    req.flag = GLEX_FLAG_COLL_REDUCE;
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_rdma(a, &req, &bad));
    for (int flag : {GLEX_FLAG_LOCAL_EVT, GLEX_FLAG_REMOTE_EVT}) {
        req.flag = flag;
        EXPECT_EQ(GLEX_INVALID_PARAM, glex_rdma(a, &req, &bad)) << "cookie_1 is 0";
    }
    EXPECT_TRUE(a.errors().empty());
}

TEST_F(rdma_, chain_stops_at_the_first_bad_request)
{
    glex_rdma_req_t req[3], *bad = nullptr;
    glex_imm_rdma_req_t imm[3], *imm_bad = nullptr;

    strcpy(local, "abc");
    for (uint32_t i = 0; i < 3; i++) {
        req[i] = rdma(GLEX_RDMA_TYPE_PUT, b.target(rmh), lmh, 1, i, i);
        req[i].next = i < 2 ? &req[i + 1] : nullptr;
        imm[i] = imm_put(b.target(rmh), local + i, 1, 10 + i);
        imm[i].next = i < 2 ? &imm[i + 1] : nullptr;
    }
    ASSERT_OK(glex_rdma(a, req, &bad));
    ASSERT_OK(glex_imm_rdma(a, imm, &imm_bad));
    EXPECT_STREQ("abc", remote);
    EXPECT_STREQ("abc", remote + 10);
    memset(remote, 0, 20);
    req[1].flag = 1 << 19;
    imm[1].flag = 1 << 19;
    EXPECT_EQ(GLEX_NOT_IMPLEMENTED, glex_rdma(a, req, &bad));
    EXPECT_EQ(&req[1], bad);
    EXPECT_EQ(GLEX_NOT_IMPLEMENTED, glex_imm_rdma(a, imm, &imm_bad));
    EXPECT_EQ(&imm[1], imm_bad);
    EXPECT_STREQ("a", remote);
    EXPECT_STREQ("a", remote + 10);
}

TEST_F(rdma_, local_event_without_room_is_busy_and_does_nothing)
{
    Ep small(dev, ep_attr(GLEX_ANY_EP_NUM, 2));
    glex_mem_handle_t mh = small.reg(local, 4096);
    glex_rdma_req_t req = rdma(GLEX_RDMA_TYPE_PUT, b.target(rmh), mh, 1), *bad = nullptr;

    req.flag = GLEX_FLAG_LOCAL_EVT;
    req.local_evt.cookie_0 = 1;
    req.local_evt.cookie_1 = 1;
    ASSERT_OK(glex_rdma(small, &req, nullptr));
    ASSERT_OK(glex_rdma(small, &req, nullptr));
    local[0] = 'x';
    EXPECT_EQ(GLEX_BUSY, glex_rdma(small, &req, &bad));
    EXPECT_EQ(&req, bad);
    EXPECT_EQ(0, remote[0]);
    EXPECT_EQ(1, small.receive_event(0));
    EXPECT_OK(glex_rdma(small, &req, nullptr));
    EXPECT_EQ('x', remote[0]);
}

/* A request that failed leaves an error request and no event, and the queue goes on behind it. */
TEST_F(rdma_, no_local_event_of_a_failed_request)
{
    Ep small(dev, ep_attr(GLEX_ANY_EP_NUM, 4));
    glex_rdma_req_t req = rdma(GLEX_RDMA_TYPE_PUT, b.target(rmh), small.reg(local, 4096), 1);

    req.flag = GLEX_FLAG_LOCAL_EVT;
    req.local_evt.cookie_0 = 1;
    req.local_evt.cookie_1 = 7;
    req.rmt_offset = 4096;
    ASSERT_OK(glex_rdma(small, &req, nullptr));
    EXPECT_EQ(-1, small.receive_event(0));
    std::vector<glex_err_req> errors = small.errors();
    ASSERT_EQ(1u, errors.size());
    EXPECT_EQ(7u, errors[0].data2);
    req.flag |= GLEX_FLAG_REMOTE_EVT; /* the initiator's own event comes first */
    req.rmt_evt.cookie_1 = 8;
    ASSERT_OK(glex_rdma(small, &req, nullptr));
    EXPECT_EQ(7u, small.errors()[0].data2);
    req.flag = GLEX_FLAG_REMOTE_EVT;
    ASSERT_OK(glex_rdma(small, &req, nullptr));
    EXPECT_EQ(8u, small.errors()[0].data2);
    req.flag = GLEX_FLAG_LOCAL_EVT;
    for (int i = 0; i < 20; i++) { /* more than the queue holds: skipped slots are given back */
        ASSERT_OK(glex_rdma(small, &req, nullptr));
        EXPECT_EQ(-1, small.receive_event(1));
    }
    req.rmt_offset = 0;
    ASSERT_OK(glex_rdma(small, &req, nullptr));
    EXPECT_EQ(1, small.receive_event(0));
}

TEST_F(rdma_, fields_that_no_flag_asks_for_are_not_read)
{
    glex_rdma_req_t req;
    glex_imm_rdma_req_t imm;

    memset(&req, 0xff, sizeof(req));
    req.rmt_ep_addr = b.addr();
    req.local_mh = lmh;
    req.local_offset = 0;
    req.len = 1;
    req.rmt_mh = rmh;
    req.rmt_offset = 0;
    req.type = GLEX_RDMA_TYPE_PUT;
    req.rmt_key = TEST_KEY;
    req.flag = 0;
    req.next = nullptr;
    EXPECT_OK(glex_rdma(a, &req, nullptr));
    memset(&imm, 0xff, sizeof(imm));
    imm.rmt_ep_addr = b.addr();
    imm.data = local;
    imm.len = 1;
    imm.rmt_mh = rmh;
    imm.rmt_offset = 0;
    imm.rmt_key = TEST_KEY;
    imm.flag = 0;
    imm.next = nullptr;
    EXPECT_OK(glex_imm_rdma(a, &imm, nullptr));
    EXPECT_TRUE(a.errors().empty());
}

TEST_F(rdma_, fence_and_route_flags_are_taken)
{
    glex_rdma_req_t req = rdma(GLEX_RDMA_TYPE_PUT, b.target(rmh), lmh, 1);

    req.flag = GLEX_FLAG_FENCE | GLEX_FLAG_ROUTE_ADAPTIVE | GLEX_FLAG_NO_CONNECTION;
    EXPECT_OK(glex_rdma(a, &req, nullptr));
    EXPECT_TRUE(a.errors().empty());
}

/* An endpoint may put to itself, and the ranges may overlap. */
TEST_F(rdma_, to_oneself)
{
    glex_rdma_req_t req = rdma(GLEX_RDMA_TYPE_PUT, a.target(lmh), lmh, 100, 10, 0);

    for (int i = 0; i < 110; i++) {
        local[i] = static_cast<char>(i);
    }
    ASSERT_OK(glex_rdma(a, &req, nullptr));
    for (int i = 0; i < 100; i++) {
        ASSERT_EQ(i, local[10 + i]);
    }
}

/* ---- between processes ----------------------------------------------------------------------- */

CHILD(rdma_owner)
{
    static char priv[1 << 16];
    Device dev;
    Ep ep(dev);
    char *mapped = ep.alloc(1 << 16);

    memset(priv, 1, sizeof(priv));
    memset(mapped, 2, 1 << 16);
    send_up(ep.target(ep.reg(priv, sizeof(priv))));
    send_up(ep.target(ep.reg(mapped, 1 << 16)));
    for (int i = 0; i < 2; i++) {
        EXPECT_EQ(33, ep.receive_event());
        EXPECT_EQ(44, ep.receive_event());
    }
    EXPECT_EQ(0x77, priv[5000]);
    EXPECT_EQ(0x77, mapped[5000]);
    EXPECT_EQ(1, priv[5001]);
    return testing::Test::HasFailure();
}

TEST_F(rdma_, between_processes)
{
    Process owner("rdma_owner");
    Target kinds[2] = {owner.receive<Target>(), owner.receive<Target>()};

    for (int i = 0; i < 2; i++) {
        glex_rdma_req_t get = rdma(GLEX_RDMA_TYPE_GET, kinds[i], lmh, 4096, 100);
        glex_rdma_req_t put = rdma(GLEX_RDMA_TYPE_PUT, kinds[i], lmh, 1, 5000);

        get.flag = put.flag = GLEX_FLAG_REMOTE_EVT;
        get.rmt_evt.cookie_0 = 33;
        put.rmt_evt.cookie_0 = 44;
        get.rmt_evt.cookie_1 = put.rmt_evt.cookie_1 = 1;
        ASSERT_OK(glex_rdma(a, &get, nullptr));
        EXPECT_EQ(std::string(4096, static_cast<char>(i + 1)), std::string(local, 4096));
        local[0] = 0x77;
        ASSERT_OK(glex_rdma(a, &put, nullptr));
    }
    EXPECT_TRUE(a.errors().empty());
    EXPECT_EQ(0, owner.wait());
}

/* ---- memory that both processes map ---------------------------------------------------------- */

/* A file of shared memory */
static char *map_shared(const char *name, size_t size, bool is_private = false)
{
    int fd = shm_open(name, O_RDWR | O_CREAT, 0600);
    void *addr = MAP_FAILED;

    if (fd >= 0 && ftruncate(fd, static_cast<off_t>(size)) == 0) {
        addr = mmap(nullptr, size, PROT_READ | PROT_WRITE, is_private ? MAP_PRIVATE : MAP_SHARED,
                    fd, 0);
    }
    close(fd);
    return addr == MAP_FAILED ? nullptr : static_cast<char *>(addr);
}

static const size_t SHARED_SIZE = 1 << 20;
static const size_t SHARED_BEGIN = 12345; /* of the registration */
static const size_t SHARED_LEN = 100000;

CHILD(rdma_shares)
{
    auto name = receive_down<std::array<char, 64>>();
    char *memory = map_shared(name.data(), SHARED_SIZE, receive_down<bool>());
    Device dev;
    Ep ep(dev);
    glex_mem_handle_t mh = ep.reg(memory + SHARED_BEGIN, SHARED_LEN);

    memset(memory, 5, SHARED_SIZE);
    send_up(ep.target(mh));
    receive_down<char>(); /* until the peer has put */
    send_up(memory[SHARED_BEGIN + 70]);
    EXPECT_OK(glex_deregister_mem(ep, mh));
    send_up('d');
    receive_down<char>();
    return testing::Test::HasFailure();
}

enum sharing { BOTH_MAP, OWNER_MAPS_PRIVATELY, ONLY_OWNER_MAPS };

class rdma_shared : public testing::TestWithParam<sharing>
{
};

/* Whether this process maps a file. */
static bool is_mapped(const char *name)
{
    std::ifstream list("/proc/self/maps");

    for (std::string line; std::getline(list, line);) {
        if (line.find(name) != std::string::npos) {
            return true;
        }
    }
    return false;
}

/* After some copies by the kernel, memory that both processes map from one file has a pointer. */
TEST_P(rdma_shared, becomes_mapped_after_some_copies)
{
    std::array<char, 64> name{};
    snprintf(name.data(), name.size(), "/glex-test-%d", getpid());
    Device dev;
    Ep a(dev);
    char *mine = GetParam() == ONLY_OWNER_MAPS ? nullptr : map_shared(name.data(), SHARED_SIZE);
    Process owner("rdma_shares");
    owner.send(name);
    owner.send(GetParam() == OWNER_MAPS_PRIVATELY);
    Target to = owner.receive<Target>();
    shm_unlink(name.data());
    char local[8] = {};
    glex_rdma_req_t get = rdma(GLEX_RDMA_TYPE_GET, to, {}, 8, 1000);
    glex_rdma_req_t put = rdma(GLEX_RDMA_TYPE_PUT, to, {}, 1, 70);
    void *ptr = nullptr;

    ASSERT_OK(glex_ext_rdma_now(a, &get, local));
    EXPECT_EQ(5, local[7]);
    EXPECT_EQ(GLEX_NOT_IMPLEMENTED, glex_ext_peer_ptr(a, {.v = to.addr}, {.v = to.mh}, TEST_KEY, 0,
                                                      SHARED_LEN, &ptr, nullptr));
    for (int i = 0; i < 1000; i++) {
        ASSERT_OK(glex_ext_rdma_now(a, &get, local));
    }
    EXPECT_EQ(
        GetParam() == BOTH_MAP ? GLEX_SUCCESS : GLEX_NOT_IMPLEMENTED,
        glex_ext_peer_ptr(a, {.v = to.addr}, {.v = to.mh}, TEST_KEY, 0, SHARED_LEN, &ptr, nullptr));
    if (mine != nullptr) { /* the program's own mapping is not needed */
        munmap(mine, SHARED_SIZE);
    }
    EXPECT_EQ(GetParam() == BOTH_MAP, is_mapped(name.data()));
    if (GetParam() == BOTH_MAP) {
        EXPECT_NE(mine + SHARED_BEGIN, ptr);
        EXPECT_EQ(5, static_cast<char *>(ptr)[SHARED_LEN - 1]);
    }
    ASSERT_OK(glex_ext_rdma_now(a, &get, local));
    EXPECT_EQ(5, local[7]);
    local[0] = 7;
    ASSERT_OK(glex_ext_rdma_now(a, &put, local));
    owner.send('p');
    EXPECT_EQ(7, owner.receive<char>());
    EXPECT_EQ('d', owner.receive<char>());
    EXPECT_EQ(GLEX_ACCESS_ERR, glex_ext_rdma_now(a, &put, local)) << "deregistered";
    EXPECT_FALSE(is_mapped(name.data())) << "the file's memory cannot be freed";
    owner.send('e');
    EXPECT_EQ(0, owner.wait());
}

INSTANTIATE_TEST_SUITE_P(memory, rdma_shared,
                         testing::Values(BOTH_MAP, OWNER_MAPS_PRIVATELY, ONLY_OWNER_MAPS));

/* Each alignment of both sides: some processors, and the kernel, copy some of them in another way. */
TEST_P(rdma_kind, long_copies_of_each_alignment)
{
    const uint32_t len = 70001;

    for (uint32_t off : {0u, 1u, 16u, 31u, 32u, 33u, 63u, 4095u}) {
        for (uint32_t local_off : {0u, 1u, 16u, 47u, 64u, 100u}) {
            Target to = b.target(rmh);
            glex_rdma_req_t put = rdma(GLEX_RDMA_TYPE_PUT, to, lmh, len, off, local_off);
            glex_rdma_req_t get = rdma(GLEX_RDMA_TYPE_GET, to, lmh, len, off, SIZE / 2 + local_off);
            memset(remote, 0, SIZE);
            memset(local.get() + SIZE / 2, 0, SIZE / 2);
            ASSERT_OK(glex_rdma(a, &put, nullptr));
            ASSERT_EQ(0, memcmp(remote + off, local.get() + local_off, len));
            ASSERT_EQ(0, remote[off + len]);
            ASSERT_OK(glex_rdma(a, &get, nullptr));
            ASSERT_EQ(0, memcmp(remote + off, local.get() + SIZE / 2 + local_off, len));
            ASSERT_EQ(0, local[SIZE / 2 + local_off + len]);
        }
    }
    EXPECT_TRUE(a.errors().empty());
}

/* Placement before the event, seen by a process that polls: many rounds. */
CHILD(rdma_placement)
{
    Device dev;
    Ep ep(dev);
    uint64_t *mem = reinterpret_cast<uint64_t *>(ep.alloc(4096));
    glex_event_t *event;

    send_up(ep.target(ep.reg(mem, 4096)));
    glex_ep_addr_t peer = {.v = receive_down<uint64_t>()};
    for (uint64_t i = 1; i <= 20000; i++) {
        EXPECT_OK(glex_probe_first_event(ep, WAIT_MS, &event));
        EXPECT_EQ(i, event->cookie_0);
        EXPECT_EQ(i, mem[0]);
        EXPECT_EQ(i, mem[500]);
        EXPECT_OK(glex_discard_probed_event(ep));
        ep.send_number(peer, i);
        if (testing::Test::HasFailure()) {
            return 1;
        }
    }
    return 0;
}

TEST_F(rdma_, data_is_placed_before_its_event)
{
    Process owner("rdma_placement");
    Target to = owner.receive<Target>();
    uint64_t *data = reinterpret_cast<uint64_t *>(local);
    glex_rdma_req_t req = rdma(GLEX_RDMA_TYPE_PUT, to, lmh, 4096);

    owner.send(a.addr().v);
    req.flag = GLEX_FLAG_REMOTE_EVT;
    req.rmt_evt.cookie_1 = 1;
    for (uint64_t i = 1; i <= 20000; i++) {
        data[0] = data[500] = i;
        req.rmt_evt.cookie_0 = i;
        ASSERT_OK(glex_rdma(a, &req, nullptr));
        ASSERT_EQ(static_cast<int64_t>(i), a.receive_number());
    }
    EXPECT_EQ(0, owner.wait());
}

/* ---- exec ------------------------------------------------------------------------------------ */

/* Where a process and the program that it execs both have memory. */
static char *const SAME_PLACE = reinterpret_cast<char *>(0x200000000000);
static const size_t SAME_SIZE = 1 << 20;

static bool map_same_place()
{
    return mmap(SAME_PLACE, SAME_SIZE, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == SAME_PLACE;
}

/* The new program: its memory is its own. */
CHILD(rdma_execed)
{
    if (!map_same_place()) {
        return 1;
    }
    send_up('m');
    receive_down<char>();
    for (size_t i = 0; i < SAME_SIZE; i++) {
        if (SAME_PLACE[i] != 0) {
            fprintf(stderr, "written at %zu by a peer of the program before\n", i);
            return 2;
        }
    }
    return 0;
}

CHILD(rdma_execs)
{
    Device dev;
    Ep ep(dev);

    if (!map_same_place()) {
        return 1;
    }
    send_up(ep.target(ep.reg(SAME_PLACE, SAME_SIZE)));
    receive_down<char>();
    execl("/proc/self/exe", "glex_test", "--child", "rdma_execed", nullptr);
    return 3;
}

/*
 * Puts to a process that execs end with an error, and hit nothing of the new program: those that go
 * on meanwhile, and those that come when it has its memory.
 */
class rdma_exec : public testing::TestWithParam<bool>
{
};

TEST_P(rdma_exec, memory_of_the_new_program_is_not_written)
{
    const bool meanwhile = GetParam();
    Process child("rdma_execs");
    Device dev;
    Ep ep(dev);
    Target to = child.receive<Target>();
    char data[64];

    memset(data, 1, sizeof(data));
    glex_imm_rdma_req_t req = imm_put(to, data, sizeof(data));
    ASSERT_OK(glex_imm_rdma(ep, &req, nullptr));
    ASSERT_TRUE(ep.errors().empty());
    child.send('e');
    /* The old program's memory, and then nobody's */
    for (uint32_t i = 0; meanwhile && !child.readable(); i++) {
        req.rmt_offset = i * 4096 % SAME_SIZE;
        ASSERT_OK(glex_imm_rdma(ep, &req, nullptr));
        ep.errors();
    }
    EXPECT_EQ('m', child.receive<char>());
    for (uint32_t i = 0; i < SAME_SIZE; i += 4096) {
        req.rmt_offset = i;
        ASSERT_OK(glex_imm_rdma(ep, &req, nullptr));
        EXPECT_EQ(GLEX_ERR_STATUS_DEST_VP_STOP, ep.only_error());
    }
    child.send('c');
    EXPECT_EQ(0, child.wait());
}

static std::string exec_name(const testing::TestParamInfo<bool> &info)
{
    return info.param ? "meanwhile" : "afterwards";
}

INSTANTIATE_TEST_SUITE_P(puts, rdma_exec, testing::Bool(), exec_name);

/* A put that finds the target's event queue full gives its place in our own event queue back. */
TEST(rdma_refused, leaves_no_trace)
{
    Device dev;
    Ep a(dev), b(dev, ep_attr(GLEX_ANY_EP_NUM, 8));
    glex_rdma_req_t req =
        rdma(GLEX_RDMA_TYPE_PUT, b.target(b.reg(b.alloc(8), 8)), a.reg(a.alloc(8), 8), 8);

    req.flag = GLEX_FLAG_LOCAL_EVT | GLEX_FLAG_REMOTE_EVT | GLEX_EXT_FLAG_NO_LOSS;
    req.local_evt = req.rmt_evt = {.cookie_0 = 3, .cookie_1 = 1};
    for (int i = 0; i < 8; i++) {
        ASSERT_OK(glex_ext_post_event(a, b.addr(), 1, 1));
    }
    for (int i = 0; i < 3000; i++) {
        ASSERT_EQ(GLEX_BUSY, glex_rdma(a, &req, nullptr));
    }
    EXPECT_EQ(0u, internals_claimed(a, 1));
    EXPECT_EQ(1, b.receive_event(0));
    ASSERT_OK(glex_rdma(a, &req, nullptr));
    EXPECT_EQ(3, a.receive_event(0));
}

/* A child has a cookie of its own, and not the parent's at its place. */
TEST(rdma_private, child_of_fork_has_a_cookie_of_its_own)
{
    int status = -1;
    Device dev;
    Ep ep(dev);
    uint64_t *before = internals_cookie(ep);

    pid_t pid = fork();
    if (pid == 0) {
        char there;
        struct iovec local = {&there, 1}, remote = {before, 1};
        Device own;
        Ep mine(own);
        uint64_t *now = internals_cookie(mine);

        _exit(now != before && *now != 0 &&
                      process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == -1 ?
                  0 :
                  1);
    }
    waitpid(pid, &status, 0);
    EXPECT_EQ(0, status);
    EXPECT_NE(0u, *before);
}

static pid_t put_child;
static int put_gate[2];

/* The child goes on with the put when the gate is opened. */
static void fork_before_the_store()
{
    char byte;

    internals_on_storing(nullptr);
    put_child = fork();
    if (put_child == 0 && read(put_gate[0], &byte, 1) != 1) {
        _exit(2);
    }
}

/* A signal handler may fork within a put. The child goes on with the put much later, when the memory
 * holds other data. */
TEST(rdma_private, a_child_that_continues_a_put_stores_nothing)
{
    static char theirs[8192];
    char mine[sizeof(theirs)];
    Device dev;
    Ep a(dev), b(dev);
    glex_rdma_req_t req =
        rdma(GLEX_RDMA_TYPE_PUT, b.target(b.reg(theirs, sizeof(theirs))), {}, sizeof(theirs));
    glex_ret_t ret;
    int status = -1;

    ASSERT_EQ(0, pipe(put_gate));
    memset(mine, 1, sizeof(mine));
    internals_on_storing(fork_before_the_store);
    ret = glex_ext_rdma_now(a, &req, mine);
    if (put_child == 0) {
        _exit(ret == GLEX_SUCCESS);
    }
    EXPECT_OK(ret);
    memset(theirs, 2, sizeof(theirs));
    EXPECT_EQ(1, write(put_gate[1], "", 1));
    ASSERT_EQ(put_child, waitpid(put_child, &status, 0));
    EXPECT_EQ(0, status) << "the child's put must fail, without a signal";
    for (char byte : theirs) {
        ASSERT_EQ(2, byte);
    }
    close(put_gate[0]);
    close(put_gate[1]);
}

/*
 * The shared heap, from the side of libglex: registrations in it are mapped by peers. A stand-in of the
 * library that glexrun preloads makes the file. test/real/heap.sh tests the library itself.
 */
#include "nic.h"
#include "process.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>

extern "C" {
#include "common/shared_heap.h"
}

static const size_t HEAP_SIZE = 200 << 20; /* several windows */
static const size_t HEAP_BEGIN = 12345;    /* of the registration */
static const size_t HEAP_LEN = 100000;
static const size_t HEAP_WINDOW = 64 << 20;

static shared_heap heap;

extern "C" void shared_heap_query(shared_heap *heap_p)
{
    *heap_p = heap;
    heap_p->version = SHARED_HEAP_VERSION;
}

/* Makes the heap of this process. */
static void make_heap(int seals)
{
    char name[SHARED_HEAP_NAME_LEN];

    heap.id = 0x123456789abcull + static_cast<uint64_t>(getpid());
    heap.size = HEAP_SIZE;
    shared_heap_name(name, heap.id);
    heap.fd = memfd_create(name, MFD_ALLOW_SEALING | MFD_CLOEXEC);
    ASSERT_EQ(0, ftruncate(heap.fd, HEAP_SIZE));
    ASSERT_EQ(0, fcntl(heap.fd, F_ADD_SEALS, seals));
    heap.base = static_cast<char *>(
        mmap(nullptr, HEAP_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, heap.fd, 0));
    ASSERT_NE(MAP_FAILED, static_cast<void *>(heap.base));
}

/* How the owner's heap is. */
enum kind {
    GOOD,
    NOT_SEALED, /* a peer would risk SIGBUS */
    CLOSED,     /* the program has closed the descriptor */
    REPLACED,   /* and its number belongs to another file */
    OTHER_HEAP, /* and to a heap with another name */
    BEYOND,     /* the registration is not completely in the heap */
    KINDS
};

static void spoil(kind what)
{
    int fd = -1;

    if (what == CLOSED || what == REPLACED || what == OTHER_HEAP) {
        close(heap.fd);
    }
    if (what == REPLACED) {
        fd = open("/dev/zero", O_RDWR);
    } else if (what == OTHER_HEAP) {
        fd = memfd_create("glex-heap.0000000000000001", MFD_ALLOW_SEALING | MFD_CLOEXEC);
        EXPECT_EQ(0, ftruncate(fd, HEAP_SIZE));
        EXPECT_EQ(0, fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK));
    }
    if (fd >= 0 && fd != heap.fd) {
        EXPECT_EQ(heap.fd, dup2(fd, heap.fd));
    }
}

CHILD(heap_owner)
{
    auto what = receive_down<kind>();
    make_heap(what == NOT_SEALED ? 0 : F_SEAL_SHRINK | F_SEAL_GROW);
    char *begin = heap.base + HEAP_BEGIN;

    memset(begin, 5, HEAP_LEN);
    if (what == BEYOND) {
        heap.size = HEAP_BEGIN + HEAP_LEN - 1;
    }
    Device dev;
    Ep ep(dev);
    glex_mem_handle_t near_mh = ep.reg(begin, HEAP_LEN);
    /* from the last byte of a window on */
    heap.base[HEAP_WINDOW - 1] = 6;
    heap.base[HEAP_WINDOW] = 7;
    glex_mem_handle_t far_mh = ep.reg(heap.base + HEAP_WINDOW - 1, 2);
    spoil(what);
    send_up(ep.target(near_mh));
    send_up(ep.target(far_mh));
    receive_down<char>(); /* until the peer has put */
    send_up(begin[70]);
    EXPECT_OK(glex_deregister_mem(ep, near_mh));
    EXPECT_OK(glex_deregister_mem(ep, far_mh));
    send_up('d');
    receive_down<char>();
    return testing::Test::HasFailure();
}

class heap_ : public testing::TestWithParam<kind>
{
};

TEST_P(heap_, is_mapped_by_peers)
{
    const bool mapped = GetParam() == GOOD;
    Device dev;
    Ep a(dev);
    Process owner("heap_owner");
    owner.send(GetParam());
    Target to = owner.receive<Target>(), far_to = owner.receive<Target>();
    char local[8] = {};
    glex_rdma_req_t get = rdma(GLEX_RDMA_TYPE_GET, to, {}, 8, HEAP_LEN - 8);
    glex_rdma_req_t put = rdma(GLEX_RDMA_TYPE_PUT, to, {}, 1, 70);
    glex_rdma_req_t far_get = rdma(GLEX_RDMA_TYPE_GET, far_to, {}, 2);
    void *ptr = nullptr;
    glex_ext_pin *pin = nullptr;

    EXPECT_EQ(
        mapped ? GLEX_SUCCESS : GLEX_NOT_IMPLEMENTED,
        glex_ext_peer_ptr(a, {.v = to.addr}, {.v = to.mh}, TEST_KEY, 0, HEAP_LEN, &ptr, &pin));
    if (mapped) {
        EXPECT_EQ(5, static_cast<char *>(ptr)[HEAP_LEN - 1]);
    }
    ASSERT_OK(glex_ext_rdma_now(a, &get, local));
    EXPECT_EQ(5, local[7]);
    ASSERT_OK(glex_ext_rdma_now(a, &far_get, local));
    EXPECT_EQ(6, local[0]);
    EXPECT_EQ(7, local[1]);
    local[0] = 9;
    ASSERT_OK(glex_ext_rdma_now(a, &put, local));
    owner.send('p');
    EXPECT_EQ(9, owner.receive<char>());
    EXPECT_EQ('d', owner.receive<char>());
    EXPECT_EQ(mapped ? 2u : 0u, a.counters().heap_maps);
    EXPECT_EQ(mapped, a.counters().kernel_bytes == 0);
    EXPECT_EQ(GLEX_ACCESS_ERR, glex_ext_rdma_now(a, &put, local)) << "deregistered";
    glex_ext_unpin(pin);
    owner.send('e');
    EXPECT_EQ(0, owner.wait());
}

static std::string name_of(const testing::TestParamInfo<kind> &info)
{
    static const char *const names[KINDS] = {"good",     "not_sealed", "closed",
                                             "replaced", "other_heap", "beyond"};

    return names[info.param];
}

INSTANTIATE_TEST_SUITE_P(heap, heap_,
                         testing::Values(GOOD, NOT_SEALED, CLOSED, REPLACED, OTHER_HEAP, BEYOND),
                         name_of);

/* The registrations of one window share a mapping, and peers see stores at once. */
CHILD(heap_many)
{
    make_heap(F_SEAL_SHRINK);
    Device dev;
    Ep ep(dev);

    for (int i = 0; i < 100; i++) {
        heap.base[i << 12] = static_cast<char>(i);
        send_up(ep.target(ep.reg(heap.base + (i << 12), 100)));
    }
    receive_down<char>();
    return testing::Test::HasFailure();
}

TEST(heap_window, is_mapped_once)
{
    Device dev;
    Ep a(dev);
    Process owner("heap_many");
    char byte = 0;

    for (int i = 0; i < 100; i++) {
        glex_rdma_req_t get = rdma(GLEX_RDMA_TYPE_GET, owner.receive<Target>(), {}, 1);

        ASSERT_OK(glex_ext_rdma_now(a, &get, &byte));
        EXPECT_EQ(i, byte);
    }
    EXPECT_EQ(1u, a.counters().heap_maps);
    EXPECT_EQ(0u, a.counters().kernel_bytes);
    owner.send('e');
    EXPECT_EQ(0, owner.wait());
}

/* An initiator that must not map, as with a capture, has the kernel copy. */
CHILD(heap_no_map)
{
    Device dev;
    Ep a(dev);
    glex_rdma_req_t get = rdma(GLEX_RDMA_TYPE_GET, receive_down<Target>(), {}, 1, 4);
    char byte = 0;

    EXPECT_OK(glex_ext_rdma_now(a, &get, &byte));
    EXPECT_EQ(5, byte);
    EXPECT_EQ(0u, a.counters().heap_maps);
    EXPECT_EQ(1u, a.counters().kernel_bytes);
    return testing::Test::HasFailure();
}

TEST(heap_window, is_not_mapped_by_those_who_must_not)
{
    Process owner("heap_owner");
    owner.send(GOOD);
    Target to = owner.receive<Target>();
    owner.receive<Target>();
    Process peer("heap_no_map", {"GLEX_FAULT=nomap"});

    peer.send(to);
    EXPECT_EQ(0, peer.wait());
    owner.send('p');
    owner.receive<char>();
    owner.receive<char>();
    owner.send('e');
    EXPECT_EQ(0, owner.wait());
}

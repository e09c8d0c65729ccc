/* Long copies of private memory that the owner of the memory helps with. */
#include "internals.h"
#include "nic.h"
#include "process.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <random>
#include <thread>

static const uint32_t CHUNK = 65536;
static const uint32_t LONG = 16 * CHUNK + 4096 + 123;
static const uint32_t GRANULE = INTERNALS_GRANULE;

static void *private_memory(size_t len)
{
    void *mem = mmap(nullptr, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    EXPECT_NE(MAP_FAILED, mem);
    return mem;
}

/* The 8 bytes at a place of a pattern: no place and no round has those of another. */
static uint64_t pattern(uint64_t round, uint64_t place)
{
    return (round << 32 | place) * 0x9e3779b97f4a7c15u;
}

static void fill(char *mem, uint64_t len, uint64_t round)
{
    for (uint64_t i = 0; i < len / 8; i++) {
        reinterpret_cast<uint64_t *>(mem)[i] = pattern(round, i);
    }
}

static bool holds(const char *mem, uint64_t from, uint64_t len, uint64_t round)
{
    for (uint64_t i = from / 8; i < (from + len) / 8; i++) {
        if (reinterpret_cast<const uint64_t *>(mem)[i] != pattern(round, i)) {
            return false;
        }
    }
    return true;
}

/* ---- single pieces: both endpoints in this process ------------------------------------------- */

class help : public testing::Test
{
  protected:
    static constexpr uint32_t SIZE = 3 * CHUNK - 800;

    Device dev;
    Ep initiator{dev}, helper{dev};
    char *theirs = static_cast<char *>(private_memory(SIZE));
    char *mine = static_cast<char *>(private_memory(SIZE));
    glex_mem_handle_t mh = helper.reg(theirs, SIZE, GLEX_MEM_READ);
    internals_job job = {
        GLEX_RDMA_TYPE_GET, mh.v, 0, reinterpret_cast<uintptr_t>(mine), SIZE, 7, 0, 0, 0};
    bool failed = false;

    help()
    {
        fill(theirs, SIZE, 1);
    }
    ~help() override
    {
        munmap(theirs, SIZE);
        munmap(mine, SIZE);
    }

    /* Polls until nobody asks for help. @return How many granules were reported. */
    unsigned run()
    {
        glex_ext_arrival arrival;

        internals_help_job(initiator, helper, &job);
        for (int i = 0; i < 100000 && internals_help_asked(helper); i++) {
            EXPECT_EQ(GLEX_NO_EVENT, helper.poll(&arrival));
        }
        EXPECT_FALSE(internals_help_asked(helper));
        return internals_help_reported(initiator, &failed);
    }
};

/* Half of a short copy; a third of the rest of a longer one, 64 KB to 1 MB. */
TEST_F(help, pieces_shrink_and_cover_the_copy)
{
    for (uint64_t len = 2 * GRANULE; len < 40 * CHUNK; len += 4096 + 123) {
        unsigned all = static_cast<unsigned>((len + GRANULE - 1) / GRANULE), num, before = all;

        for (unsigned first = 0; first < all; first += num, before = num) {
            num = internals_help_piece(len, first);
            ASSERT_LT(0u, num);
            ASSERT_GE(before, num) << len;
            ASSERT_GE(all - first, num);
        }
    }
    EXPECT_EQ(1u, internals_help_piece(2 * GRANULE, 0));
    EXPECT_EQ(2u, internals_help_piece(4 * GRANULE, 0));
    EXPECT_EQ(2u, internals_help_piece(5 * GRANULE, 0));
    EXPECT_EQ(10u, internals_help_piece(32 * GRANULE, 0));
    EXPECT_EQ(32u, internals_help_piece(4096 * GRANULE, 0));
}

TEST_F(help, copies_all_pieces_and_counts_them)
{
    EXPECT_EQ(6u, run());
    EXPECT_FALSE(failed);
    EXPECT_TRUE(holds(mine, 0, SIZE, 1));
    EXPECT_EQ(SIZE, helper.counters().help_bytes);
}

TEST_F(help, copies_only_unclaimed_granules)
{
    job.next = 2;
    EXPECT_EQ(4u, run());
    EXPECT_TRUE(holds(mine, CHUNK, SIZE - CHUNK, 1));
    EXPECT_EQ(0u, *reinterpret_cast<uint64_t *>(mine));
}

TEST_F(help, of_a_put)
{
    glex_mem_handle_t write = helper.reg(theirs, SIZE, GLEX_MEM_WRITE);

    job.type = GLEX_RDMA_TYPE_PUT;
    job.mh = write.v;
    fill(mine, SIZE, 2);
    EXPECT_EQ(6u, run());
    EXPECT_TRUE(holds(theirs, 0, SIZE, 2));
}

TEST_F(help, by_a_probe_and_by_a_wait)
{
    glex_event_t *event;

    internals_help_job(initiator, helper, &job);
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(GLEX_NO_EVENT, glex_probe_first_event(helper, i == 2, &event));
    }
    EXPECT_EQ(6u, internals_help_reported(initiator, &failed));
    EXPECT_TRUE(holds(mine, 0, SIZE, 1));
}

TEST_F(help, waits_while_something_has_arrived)
{
    glex_ext_arrival arrival;

    internals_help_job(initiator, helper, &job);
    for (int i = 0; i < 200; i++) {
        initiator.send_number(helper.addr(), 1);
        EXPECT_OK(helper.poll(&arrival));
    }
    EXPECT_EQ(0u, internals_help_reported(initiator, &failed));
}

TEST_F(help, refuses_the_wrong_direction)
{
    job.type = GLEX_RDMA_TYPE_PUT; /* registered for reading only */
    EXPECT_EQ(0u, run());
    EXPECT_TRUE(holds(theirs, 0, SIZE, 1));
}

TEST_F(help, refuses_a_range_that_is_not_registered)
{
    job.len = SIZE + 1;
    job.next = 4;
    EXPECT_EQ(0u, run());
    job.len = SIZE;
    EXPECT_OK(glex_deregister_mem(helper, mh));
    EXPECT_EQ(0u, run());
    EXPECT_EQ(0u, *reinterpret_cast<uint64_t *>(mine));
}

TEST_F(help, refuses_a_report_of_another_copy_and_a_copy_for_another)
{
    job.late = 1;
    EXPECT_EQ(0u, run());
    job.late = 0;
    job.for_another = 1;
    EXPECT_EQ(0u, run());
}

TEST_F(help, reports_a_piece_that_it_cannot_copy_and_stops)
{
    munmap(mine + CHUNK, CHUNK);
    testing::internal::CaptureStderr();
    EXPECT_EQ(2u, run());
    EXPECT_EQ("", testing::internal::GetCapturedStderr());
    EXPECT_TRUE(failed);
    EXPECT_TRUE(holds(mine, 0, CHUNK, 1));
}

/* An initiator that cannot ask for help makes one system call, as without help. */
TEST_F(help, is_not_asked_while_another_endpoint_asks)
{
    glex_rdma_req_t req = rdma(GLEX_RDMA_TYPE_GET, helper.target(mh), {}, SIZE);
    Ep other(dev);
    unsigned before;

    job.next = 6;
    internals_help_job(initiator, helper, &job);
    before = internals_fetches();
    EXPECT_OK(glex_ext_rdma_now(other, &req, mine));
    EXPECT_EQ(before + 1, internals_fetches());
    EXPECT_TRUE(holds(mine, 0, SIZE, 1));
    EXPECT_TRUE(internals_help_asked(helper));
}

TEST_F(help, for_the_next_owner_of_an_address)
{
    glex_ep_attr attr = ep_attr(7);
    glex_ext_arrival arrival;

    for (int life = 0; life < 3; life++) {
        Ep asker(dev, attr);

        memset(mine, 0, SIZE);
        for (int i = 0; i < 5 && !holds(mine, 0, SIZE, 1);
             i++) { /* the first look finds the dead */
            internals_help_job(asker, helper, &job);
            for (int j = 0; j < 1000; j++) {
                EXPECT_EQ(GLEX_NO_EVENT, helper.poll(&arrival));
            }
        }
        EXPECT_TRUE(holds(mine, 0, SIZE, 1)) << life;
    }
}

/* ---- between processes ----------------------------------------------------------------------- */

/* What a child tells: its endpoint, a registration, and the memory's place. */
struct Owner {
    Target target;
};

/* Owns memory with the pattern of round 0, and polls until it is told to end. */
static int own_memory()
{
    Device dev;
    Ep ep(dev, ep_attr(), ONE_THREAD);
    char *mem = static_cast<char *>(private_memory(LONG));
    glex_ext_arrival arrival;

    fill(mem, LONG, 0);
    send_up(ep.target(ep.reg(mem, LONG)));
    while (ep.poll(&arrival) != GLEX_SUCCESS) {
    }
    send_up(ep.counters());
    return 0;
}

CHILD(help_owner)
{
    return own_memory();
}

static void get(const Ep &ep, Target from, char *local, uint32_t len, uint32_t offset = 0)
{
    glex_rdma_req_t req = rdma(GLEX_RDMA_TYPE_GET, from, {}, len, offset);

    ASSERT_OK(glex_ext_rdma_now(ep, &req, local));
}

static void put(const Ep &ep, Target to, const char *local, uint32_t len, uint32_t offset = 0)
{
    glex_rdma_req_t req = rdma(GLEX_RDMA_TYPE_PUT, to, {}, len, offset);

    ASSERT_OK(glex_ext_rdma_now(ep, &req, const_cast<char *>(local)));
}

TEST(help_between, both_copy_any_length)
{
    Device dev;
    Ep ep(dev, ep_attr(), ONE_THREAD);
    Process owner("help_owner");
    Target to = owner.receive<Target>();
    std::unique_ptr<char[]> sent(new char[LONG]), got(new char[LONG]);
    std::mt19937 random(1);

    for (int i = 0; i < 20000 && (i < 100 || ep.counters().helped_bytes < 10 * CHUNK); i++) {
        uint32_t len = 1 + random() % LONG, offset = random() % (LONG - len + 1);

        for (uint32_t j = 0; j < len; j += 509) {
            sent[j] = static_cast<char>(random());
        }
        internals_help_forget(ep, to.addr);
        put(ep, to, sent.get(), len, offset);
        memset(got.get(), 0, LONG);
        get(ep, to, got.get(), len, offset);
        ASSERT_EQ(0, memcmp(sent.get(), got.get(), len)) << i << ' ' << len << ' ' << offset;
        ASSERT_TRUE(len == LONG || got[len] == 0);
    }
    EXPECT_LE(10 * CHUNK, ep.counters().helped_bytes);
    ep.send_number({.v = to.addr}, 0);
    EXPECT_EQ(ep.counters().helped_bytes, owner.receive<glex_ext_counters>().help_bytes);
}

CHILD(help_off_initiator)
{
    Device dev;
    Ep ep(dev, ep_attr(), ONE_THREAD);
    Target to = receive_down<Target>();
    std::unique_ptr<char[]> got(new char[LONG]);

    for (int i = 0; i < 300; i++) {
        get(ep, to, got.get(), LONG);
    }
    send_up(ep.counters().helped_bytes);
    ep.send_number({.v = to.addr}, 0);
    return 0;
}

TEST(help_between, the_variable_turns_both_sides_off)
{
    for (bool initiator_off : {false, true}) {
        const char *off = "GLEX_COPY_HELP=n", *on = "GLEX_COPY_HELP=y";
        Process owner("help_owner", {initiator_off ? on : off});
        Process initiator("help_off_initiator", {initiator_off ? off : on});

        initiator.send(owner.receive<Target>());
        EXPECT_EQ(0u, initiator.receive<uint64_t>());
        EXPECT_EQ(0u, owner.receive<glex_ext_counters>().help_bytes);
    }
}

/* A claimed piece. */
struct Piece {
    uint32_t first, num;
};

/* Claims one piece and does not copy it. Reports it when told so, or its failure. */
CHILD(help_claimer)
{
    Device dev;
    Ep ep(dev, ep_attr(), ONE_THREAD);
    char *mem = static_cast<char *>(private_memory(LONG));
    unsigned num = 0;
    int first;

    fill(mem, LONG, 0);
    send_up(ep.target(ep.reg(mem, LONG)));
    do {
        first = internals_help_claim(ep, &num);
    } while (first < 0);
    send_up(Piece{static_cast<uint32_t>(first), num});
    internals_help_report(ep, num, receive_down<int>() != 0);
    receive_down<int>();
    return 0;
}

enum class Ends { REPORTED, FAILED, KILLED };

/* The initiator neither copies the piece of a living helper nor ends before its end. */
static void claim_and_end(Ends ends)
{
    Device dev;
    Ep ep(dev, ep_attr(), ONE_THREAD);
    Process claimer("help_claimer");
    Target to = claimer.receive<Target>();
    std::vector<char> got(LONG);
    std::atomic<uint64_t> ended{0};
    std::atomic<bool> claimed{false};
    glex_ret_t ret = GLEX_SUCCESS;
    std::thread initiator([&] { /* until the claimer was fast enough */
                                glex_rdma_req_t req = rdma(GLEX_RDMA_TYPE_GET, to, {}, LONG);
                                while (!claimed && ret == GLEX_SUCCESS) {
                                    std::fill(got.begin(), got.end(), 0);
                                    internals_help_forget(ep, to.addr);
                                    ret = glex_ext_rdma_now(ep, &req, got.data());
                                    ended++;
                                }
    });
    Piece piece = claimer.receive<Piece>();
    uint64_t begin = piece.first * GRANULE, end = begin + piece.num * GRANULE, before;

    claimed = true;
    usleep(20000);
    before = ended;
    usleep(200000);
    EXPECT_EQ(before, ended) << "it ended";
    kill(claimer.pid(), SIGSTOP);
    usleep(50000);
    EXPECT_EQ(before, ended) << "it ended while the helper was stopped";
    if (ends == Ends::KILLED) {
        claimer.kill_now();
    } else {
        kill(claimer.pid(), SIGCONT);
        claimer.send(static_cast<int>(ends == Ends::FAILED));
    }
    initiator.join();
    EXPECT_EQ(before + 1, ended);
    EXPECT_EQ(ends == Ends::KILLED ? GLEX_NO_EP_RESOURCE : GLEX_SUCCESS, ret);
    EXPECT_EQ(ends == Ends::REPORTED ? end - begin : 0, ep.counters().helped_bytes);
    if (ends == Ends::KILLED) {
        return;
    }
    EXPECT_TRUE(holds(got.data(), 0, begin, 0));
    EXPECT_TRUE(holds(got.data(), end, (LONG & ~7u) - end, 0));
    if (ends == Ends::FAILED) {
        EXPECT_TRUE(holds(got.data(), begin, end - begin, 0));
    } else { /* the helper has copied nothing */
        EXPECT_EQ(static_cast<long>(end - begin),
                  std::count(got.begin() + static_cast<long>(begin),
                             got.begin() + static_cast<long>(end), 0));
    }
    EXPECT_EQ(1u, ep.counters().help_waits);
    claimer.send(0);
}

TEST(help_between, a_piece_of_a_living_helper_is_left_to_it)
{
    claim_and_end(Ends::REPORTED);
}

TEST(help_between, a_piece_that_the_helper_could_not_copy_is_copied_again)
{
    claim_and_end(Ends::FAILED);
}

TEST(help_between, a_piece_of_a_killed_helper_is_copied_again)
{
    claim_and_end(Ends::KILLED);
}

/* The helper stores into this process. With yama's scope 1 it needs the process's leave. */
CHILD(help_ptracer)
{
    Device dev;
    Ep ep(dev, ep_attr(), ONE_THREAD);
    std::unique_ptr<char[]> got(new char[LONG]);
    Target from = receive_down<Target>();

    EXPECT_EQ(0u, internals_ptracer_calls()) << "no memory is registered";
    get(ep, from, got.get(), LONG);
    EXPECT_EQ(1u, internals_ptracer_calls());
    return testing::Test::HasFailure();
}

TEST(help_between, an_initiator_allows_its_helper)
{
    Process owner("help_owner"), initiator("help_ptracer");

    initiator.send(owner.receive<Target>());
    EXPECT_EQ(0, initiator.wait());
    owner.kill_now();
}

/* ---- fork and exit within a copy ------------------------------------------------------------- */

static pid_t forked = -1;
static int gate[2];

/* The child goes on when the gate is opened. */
static void fork_before_the_store()
{
    char byte;

    internals_on_storing(nullptr);
    forked = fork();
    if (forked == 0 && read(gate[0], &byte, 1) != 1) {
        _exit(2);
    }
}

/* A signal handler may fork within a put. The child goes on with the put, much later. */
TEST(help_between, a_child_that_continues_a_put_stores_nothing)
{
    Device dev;
    Ep ep(dev, ep_attr(), ONE_THREAD);
    Process owner("help_owner");
    Target to = owner.receive<Target>();
    std::vector<char> mine(LONG);
    int status = 0;

    ASSERT_EQ(0, pipe(gate));
    for (uint32_t len : {8192u, 16 * CHUNK}) {
        glex_rdma_req_t req = rdma(GLEX_RDMA_TYPE_PUT, to, {}, len);
        glex_ret_t ret;

        fill(mine.data(), len, 1);
        internals_on_storing(fork_before_the_store);
        ret = glex_ext_rdma_now(ep, &req, mine.data());
        if (forked == 0) {
            _exit(ret == GLEX_SUCCESS);
        }
        ASSERT_OK(ret);
        fill(mine.data(), len, 2);
        put(ep, to, mine.data(), len);
        ASSERT_EQ(1, write(gate[1], "", 1));
        ASSERT_EQ(forked, waitpid(forked, &status, 0));
        EXPECT_EQ(0, status) << "the child's put must fail, without a signal";
        std::fill(mine.begin(), mine.end(), 0);
        get(ep, to, mine.data(), len);
        EXPECT_TRUE(holds(mine.data(), 0, len, 2)) << len;
    }
    close(gate[0]);
    close(gate[1]);
    owner.kill_now();
}

static void fork_before_the_help()
{
    internals_on_storing(nullptr);
    forked = fork();
    if (forked == 0) {
        receive_down<int>();
    }
}

/* A thread of the owner forks within a piece, and the child goes on later. */
CHILD(help_owner_that_forks)
{
    Device dev;
    Ep ep(dev, ep_attr(), ONE_THREAD);
    char *mem = static_cast<char *>(private_memory(LONG));
    glex_ext_arrival arrival;
    glex_ret_t ret;

    fill(mem, LONG, 0);
    send_up(ep.target(ep.reg(mem, LONG)));
    internals_on_storing(fork_before_the_help);
    do {
        ret = ep.poll(&arrival);
    } while (ret == GLEX_NO_EVENT);
    if (forked == 0) {
        send_up(ret);
        _exit(0);
    }
    return ret;
}

TEST(help_between, a_child_that_continues_a_piece_stores_nothing)
{
    Device dev;
    Ep ep(dev, ep_attr(), ONE_THREAD);
    Process owner("help_owner_that_forks");
    Target from = owner.receive<Target>();
    std::vector<char> mine(LONG);

    for (int i = 0; i < 100000 && ep.counters().helped_bytes == 0; i++) {
        internals_help_forget(ep, from.addr);
        get(ep, from, mine.data(), LONG);
    }
    ASSERT_LT(0u, ep.counters().helped_bytes);
    fill(mine.data(), LONG, 9);
    owner.send(0);
    EXPECT_EQ(GLEX_INVALID_PARAM, owner.receive<glex_ret_t>());
    EXPECT_TRUE(holds(mine.data(), 0, LONG & ~7u, 9));
    get(ep, from, mine.data(), LONG);
    EXPECT_TRUE(holds(mine.data(), 0, LONG & ~7u, 0));
    ep.send_number({.v = from.addr}, 0);
    EXPECT_EQ(0, owner.wait());
}

static std::atomic<bool> is_storing{false};

/* exit() writes streams to their files after the destructors of libraries. */
static ssize_t write_late(void *, const char *, size_t size)
{
    usleep(600000);
    send_up(1);
    return static_cast<ssize_t>(size);
}

static void make_exit_slow()
{
    static const cookie_io_functions_t late = {nullptr, write_late, nullptr, nullptr};
    FILE *file = fopencookie(nullptr, "w", late);

    fputs("late", file);
}

static void store_late()
{
    is_storing = true;
    usleep(300000);
}

static void exit_before_the_store()
{
    make_exit_slow();
    exit(0);
}

/* The process exits while a thread copies a piece: another thread, or the thread that exits. */
static int own_until_exit(bool other_thread)
{
    Device dev;
    Ep ep(dev, ep_attr(), ONE_THREAD);
    char *mem = static_cast<char *>(private_memory(LONG));
    auto serve = [&ep] {
        for (glex_ext_arrival arrival;;) {
            ep.poll(&arrival);
        }
    };

    fill(mem, LONG, 0);
    internals_on_storing(other_thread ? store_late : exit_before_the_store);
    send_up(ep.target(ep.reg(mem, LONG)));
    if (!other_thread) {
        serve();
    }
    std::thread helper(serve);
    while (!is_storing) {
        usleep(100);
    }
    make_exit_slow();
    exit(0);
}

CHILD(help_owner_exits_beside_a_store)
{
    return own_until_exit(true);
}

CHILD(help_owner_exits_before_a_store)
{
    return own_until_exit(false);
}

/* Gets until the owner is gone, and checks each byte. With `puts`, each fourth copy puts the bytes
 * back. @return The result of the last copy. GLEX_SUCCESS: the last copy brought wrong bytes. */
static glex_ret_t copy_until_the_end(const Ep &ep, Target owner, char *mine, bool puts)
{
    glex_rdma_req_t req = rdma(GLEX_RDMA_TYPE_GET, owner, {}, LONG & ~7u);
    glex_ret_t ret;
    int i = 0;

    do {
        req.type = puts && i++ % 4 == 3 ? GLEX_RDMA_TYPE_PUT : GLEX_RDMA_TYPE_GET;
        if (req.type == GLEX_RDMA_TYPE_GET) {
            memset(mine, 0, LONG);
        }
        internals_help_forget(ep, owner.addr);
        ret = glex_ext_rdma_now(ep, &req, mine);
    } while (ret == GLEX_SUCCESS && holds(mine, 0, req.len, 0));
    return ret;
}

TEST(help_between, exit_of_the_owner_within_a_piece_of_another_thread)
{
    Device dev;
    Ep ep(dev, ep_attr(), ONE_THREAD);
    Process owner("help_owner_exits_beside_a_store");
    Target from = owner.receive<Target>();
    std::vector<char> mine(LONG);

    EXPECT_EQ(GLEX_NO_EP_RESOURCE, copy_until_the_end(ep, from, mine.data(), false));
    fill(mine.data(), LONG, 9);
    EXPECT_EQ(0, owner.wait());
    EXPECT_TRUE(holds(mine.data(), 0, LONG & ~7u, 9)) << "a store came after the end";
}

TEST(help_between, exit_of_the_owner_within_its_own_piece)
{
    Device dev;
    Ep ep(dev, ep_attr(), ONE_THREAD);
    Process owner("help_owner_exits_before_a_store");
    Target from = owner.receive<Target>();
    std::vector<char> mine(LONG);

    EXPECT_EQ(GLEX_NO_EP_RESOURCE, copy_until_the_end(ep, from, mine.data(), false));
    EXPECT_TRUE(owner.readable()) << "the get ended while the owner could still store";
    EXPECT_EQ(0, owner.wait());
}

/* ---- killed and stopped at random ------------------------------------------------------------ */

/* Copies until the owner is dead. A later check finds a store that comes after the end of a copy. */
CHILD(help_victim_initiator)
{
    Device dev;
    Ep ep(dev, ep_attr(), ONE_THREAD);
    Target to = receive_down<Target>();
    char *got = static_cast<char *>(private_memory(LONG));
    glex_rdma_req_t req = rdma(GLEX_RDMA_TYPE_GET, to, {}, LONG & ~7u);

    EXPECT_OK(glex_ext_rdma_now(ep, &req, got));
    send_up('g');
    if (copy_until_the_end(ep, to, got, true) == GLEX_SUCCESS) {
        return 3;
    }
    /* the owner is dead: nothing is stored any more */
    fill(got, LONG, 9);
    usleep(2000);
    send_up(ep.counters().helped_bytes);
    return holds(got, 0, LONG & ~7u, 9) ? 0 : 4;
}

struct Kills {
    int owners = 0, initiators = 0;
    uint64_t helped = 0;
};

/* One life: an owner, two initiators, some stops, and kills. */
static void kill_one(std::mt19937 &random, Kills *kills)
{
    Process owner("help_owner");
    Target to = owner.receive<Target>();
    Process first("help_victim_initiator"), second("help_victim_initiator");
    Process *all[] = {&owner, &first, &second};

    first.send(to);
    second.send(to);
    first.receive<char>();
    second.receive<char>();
    usleep(random() % 8000);
    for (int i = random() % 4; i > 0; i--) {
        const Process *stopped = all[random() % 3];

        kill(stopped->pid(), SIGSTOP);
        usleep(random() % 3000);
        kill(stopped->pid(), SIGCONT);
        usleep(random() % 1000);
    }
    if (random() % 3 == 0) {
        first.kill_now(); /* the owner goes on with the other one */
        kills->initiators++;
        usleep(random() % 2000);
    } else if (random() % 2 == 0) {
        kill(owner.pid(), SIGSTOP); /* killed in the middle of its stop */
        usleep(random() % 2000);
    }
    owner.kill_now();
    kills->owners++;
    kills->helped += second.receive<uint64_t>();
    EXPECT_EQ(0, second.wait()) << "3: wrong bytes; 4: a store after the end";
    EXPECT_TRUE(first.wait() == 0 || first.wait() == 128 + SIGKILL) << first.wait();
}

/* HELP_KILLS kills, or as many as fit in some seconds, and on a slow machine until a first piece was
 * copied by an owner. */
TEST(help_between, killed_and_stopped_at_random)
{
    const char *wanted = getenv("HELP_KILLS"), *seed = getenv("HELP_SEED");
    std::mt19937 random(seed != nullptr ? atoi(seed) : static_cast<unsigned>(time(nullptr)));
    time_t end = time(nullptr) + 8;
    Kills kills;

    while (!HasFailure() &&
           (wanted != nullptr ? kills.owners + kills.initiators < atoi(wanted) :
                                time(nullptr) < end + (kills.helped == 0 ? 60 : 0))) {
        kill_one(random, &kills);
    }
    printf("%d owners and %d initiators were killed, %llu bytes were copied by owners\n",
           kills.owners, kills.initiators, static_cast<unsigned long long>(kills.helped));
    EXPECT_LT(0u, kills.helped);
}

/* Collectives between processes: the usual ones against a model, killed agents, hostile areas. */
#include "collective.h"
#include "internals.h"
#include "stepped.h"

#include <sched.h>
#include <sys/mman.h>

#include <atomic>
#include <functional>
#include <memory>
#include <random>

extern "C" {
#include "api/inspect.h"
}

static const uint32_t MAX_RANKS = 64;

/* What the processes of a test share: addresses, and how far each is. */
struct Board {
    uint64_t addr[MAX_RANKS][2], mh[MAX_RANKS];
    std::atomic<uint32_t> at[MAX_RANKS];
};

static uint64_t number_of(const void *data)
{
    glex_coll_data_loc loc;

    EXPECT_OK(glex_coll_decompose_mp_reduce_data(&loc, 1, GLEX_COLL_REDUCE_DATA_BITS_64,
                                                 const_cast<void *>(data)));
    return loc.uint64_s.data;
}

/* One process of a collective. */
class Rank
{
  public:
    enum { PIECE = 1000, PIECES = 40 };

    Rank(Board *shared, uint32_t me, uint32_t ranks, uint32_t children)
        : board(shared), rank(me), num(ranks), degree(children), memory(ep.alloc(PIECE * PIECES))
    {
        board->addr[rank][0] = ep.addr().v;
        board->addr[rank][1] = down.addr().v;
        board->mh[rank] = ep.reg(memory, PIECE * PIECES).v;
        meet();
    }

    ~Rank()
    {
        EXPECT_TRUE(ep.errors().empty());
        meet(); /* nobody goes before all are done */
    }

    /* A barrier of the test's own. */
    void meet()
    {
        uint32_t goal = ++board->at[rank];

        EXPECT_TRUE(wait_until([&] {
            for (uint32_t i = 0; i < num; i++) {
                if (board->at[i] < goal) {
                    return false;
                }
            }
            return true;
        }));
    }

    bool is_root() const
    {
        return rank == 0;
    }
    uint32_t parent() const
    {
        return (rank - 1) / degree;
    }
    std::vector<uint32_t> children(uint32_t of) const
    {
        std::vector<uint32_t> list;

        for (uint32_t i = of * degree + 1; i <= of * degree + degree && i < num; i++) {
            list.push_back(i);
        }
        return list;
    }
    bool is_inner(uint32_t of) const
    {
        return !children(of).empty();
    }
    glex_ep_addr_t addr(uint32_t of, int which = 0) const
    {
        glex_ep_addr_t to;

        to.v = board->addr[of][which];
        return to;
    }

    template <typename Req> void post(std::vector<Req> &list, uint32_t counter, const Ep &from)
    {
        glex_ret_t ret;
        Req *bad;

        list.front().flag |= START;
        list.front().coll_counter = counter;
        list.back().flag |= TAIL;
        for (size_t i = 0; i + 1 < list.size(); i++) {
            list[i].next = &list[i + 1];
        }
        bad = &list[0];
        do {
            ret = post_chain(from, bad, &bad);
        } while (ret == GLEX_BUSY);
        ASSERT_OK(ret);
    }

    /* A program polls its queue to learn that it is over. */
    uint64_t wait_number(const Ep &from)
    {
        char data[112] = {};
        glex_ep_addr_t src;
        uint32_t len;

        EXPECT_OK(glex_receive_mp(from, WAIT_MS, &src, data, &len));
        return len == 0 ? 0 : number_of(data);
    }

    void barrier()
    {
        std::vector<glex_imm_mp_req_t> list;

        if (is_inner(rank) && !is_root()) {
            list.push_back(coll_mp(addr(parent()), nullptr, 0, COUNTER));
            post(list, static_cast<uint32_t>(children(rank).size()), ep);
        } else if (!is_root()) {
            ASSERT_OK(coll_send(ep, addr(parent()), 0, COUNTER));
        }
        if (is_inner(rank)) {
            list.clear();
            for (uint32_t child : children(rank)) {
                list.push_back(
                    coll_mp(addr(child), nullptr, 0, is_inner(child) ? COUNTER : CP_DATA));
            }
            list.push_back(coll_mp(addr(rank), nullptr, 0, CP_DATA));
            post(list, is_root() ? static_cast<uint32_t>(children(rank).size()) : 1, ep);
        }
        if (num > 1) {
            wait_number(ep);
        }
    }

    glex_imm_mp_req_t reduction(char *data, uint64_t value, glex_coll_reduce_op op,
                                glex_ep_addr_t to, int flag)
    {
        glex_coll_data_loc loc;
        uint32_t len;

        loc.uint64_s = {value, rank};
        EXPECT_OK(glex_coll_compose_mp_reduce_data(&loc, 1, GLEX_COLL_REDUCE_DATA_BITS_64, op,
                                                   degree, data, &len));
        return coll_mp(to, data, len, flag);
    }

    /* Up by one endpoint, the result down by another. */
    uint64_t allreduce(uint64_t value, glex_coll_reduce_op op)
    {
        std::vector<glex_imm_mp_req_t> list;
        char data[112];

        if (num == 1) {
            return value;
        }
        list.push_back(reduction(data, value, op, is_root() ? addr(0, 1) : addr(parent()),
                                 REDUCE | SWAP | COUNTER | SWAP_DATA));
        post(list, static_cast<uint32_t>(children(rank).size()), ep);
        if (is_inner(rank)) {
            list.clear();
            for (uint32_t child : children(rank)) {
                list.push_back(
                    coll_mp(addr(child, 1), nullptr, 0,
                            RESULT | SWAP | (is_inner(child) ? COUNTER | SWAP_DATA : CP_DATA)));
            }
            list.push_back(coll_mp(addr(rank, 1), nullptr, 0, RESULT | SWAP | CP_DATA));
            post(list, 1, down);
        }
        return wait_number(down);
    }

    /* Pieces down the tree; whoever has all of them has the event. */
    void broadcast(uint64_t seed)
    {
        if (is_root()) {
            std::mt19937_64 random(seed);

            for (int i = 0; i < PIECE * PIECES; i++) {
                memory[i] = static_cast<char>(random());
            }
        }
        for (uint32_t piece = 0; piece < PIECES && is_inner(rank); piece++) {
            std::vector<glex_rdma_req_t> list;

            for (uint32_t child : children(rank)) {
                glex_mem_handle_t local;

                local.v = board->mh[rank];
                list.push_back(rdma(GLEX_RDMA_TYPE_PUT, {board->addr[child][0], board->mh[child]},
                                    local, PIECE, piece * PIECE, piece * PIECE));
                list.back().flag = COLL | (is_inner(child) ? COUNTER : 0);
                if (piece + 1 == PIECES) {
                    list.back().flag |= GLEX_FLAG_REMOTE_EVT;
                    list.back().rmt_evt = {.cookie_0 = seed, .cookie_1 = 1};
                }
            }
            post(list, is_root() ? 0 : 1, ep);
        }
        if (!is_root()) {
            std::mt19937_64 random(seed);
            bool right = true;

            EXPECT_EQ(static_cast<int64_t>(seed), ep.receive_event());
            for (int i = 0; i < PIECE * PIECES; i++) {
                right = right && memory[i] == static_cast<char>(random());
            }
            EXPECT_TRUE(right);
        }
    }

    /* Of each row and column the next waits for both: the number of ways that lead to a cell. */
    void wavefront(uint32_t columns)
    {
        uint32_t row = rank / columns, column = rank % columns, before = (row > 0) + (column > 0);
        std::vector<glex_imm_mp_req_t> list;
        char data[112];
        uint64_t own = rank == 0 ? 1 : 0, ways = 1;

        for (bool right : {true, false}) {
            uint32_t next = right ? rank + 1 : rank + columns;

            if (next < num && (!right || column + 1 < columns)) {
                list.push_back(reduction(data, own, GLEX_COLL_REDUCE_SUM_UNSIGNED, addr(next),
                                         REDUCE | SWAP | COUNTER | SWAP_DATA));
            }
        }
        list.push_back(reduction(data, own, GLEX_COLL_REDUCE_SUM_UNSIGNED, addr(rank),
                                 REDUCE | SWAP | CP_DATA));
        post(list, before, ep);
        for (uint32_t i = 1; i <= column; i++) {
            ways = ways * (row + i) / i;
        }
        EXPECT_EQ(ways, wait_number(ep));
    }

    /* What all before have, and one's own. */
    void scan(uint64_t value)
    {
        std::vector<glex_imm_mp_req_t> list;
        uint64_t expected = 0;
        char data[112];

        for (uint32_t i = 0; i <= rank; i++) {
            expected += value + i;
        }
        if (rank + 1 < num) {
            list.push_back(reduction(data, value + rank, GLEX_COLL_REDUCE_SUM_UNSIGNED,
                                     addr(rank + 1), REDUCE | SWAP | COUNTER | SWAP_DATA));
        }
        list.push_back(reduction(data, value + rank, GLEX_COLL_REDUCE_SUM_UNSIGNED, addr(rank),
                                 REDUCE | SWAP | CP_DATA));
        post(list, rank > 0, ep);
        EXPECT_EQ(expected, wait_number(ep));
    }

    Board *board;
    const uint32_t rank, num, degree;
    Device dev;
    Ep ep{dev}, down{dev};
    char *memory;

  private:
    static glex_ret_t post_chain(const Ep &from, glex_imm_mp_req_t *req, glex_imm_mp_req_t **bad)
    {
        return glex_send_imm_mp(from, req, bad);
    }
    static glex_ret_t post_chain(const Ep &from, glex_rdma_req_t *req, glex_rdma_req_t **bad)
    {
        return glex_rdma(from, req, bad);
    }
};

struct Size {
    uint32_t ranks, degree;
};

class coll_process : public testing::TestWithParam<Size>
{
  protected:
    /* Run a function in each of the processes. */
    void run(const std::function<void(Rank &)> &fn)
    {
        void *map =
            mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        std::vector<pid_t> pids;
        int status;

        ASSERT_NE(MAP_FAILED, map);
        for (uint32_t i = 0; i < GetParam().ranks; i++) {
            pid_t pid = fork();

            if (pid == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                {
                    Rank rank(static_cast<Board *>(map), i, GetParam().ranks, GetParam().degree);

                    fn(rank);
                }
                _exit(HasFailure());
            }
            pids.push_back(pid);
        }
        for (pid_t pid : pids) {
            waitpid(pid, &status, 0);
            EXPECT_EQ(0, status);
        }
        munmap(map, sizeof(Board));
    }
};

/* Nobody leaves a barrier before all have come. */
TEST_P(coll_process, barrier)
{
    run([](Rank &r) {
        static const uint32_t rounds = 50;
        uint32_t before = r.board->at[r.rank];

        for (uint32_t i = 1; i <= rounds; i++) {
            r.board->at[r.rank] = before + i;
            r.barrier();
            for (uint32_t other = 0; other < r.num; other++) {
                ASSERT_LE(before + i, r.board->at[other]) << other;
            }
        }
    });
}

TEST_P(coll_process, broadcast)
{
    run([](Rank &r) {
        for (uint64_t seed = 1; seed <= 3; seed++) {
            r.broadcast(seed);
            r.meet();
        }
    });
}

TEST_P(coll_process, allreduce)
{
    run([](Rank &r) {
        for (uint64_t i = 0; i < 30; i++) {
            uint64_t n = r.num;

            ASSERT_EQ(n * i + n * (n - 1) / 2,
                      r.allreduce(i + r.rank, GLEX_COLL_REDUCE_SUM_UNSIGNED));
            ASSERT_EQ(i + n - 1, r.allreduce(i + r.rank, GLEX_COLL_REDUCE_MAXLOC_UNSIGNED));
        }
    });
}

TEST_P(coll_process, wavefront)
{
    run([](Rank &r) {
        for (uint32_t columns : {1u, 2u, 5u, 8u}) {
            r.wavefront(columns);
            r.meet(); /* the next one has other neighbours */
        }
    });
}

TEST_P(coll_process, scan)
{
    run([](Rank &r) {
        for (uint64_t i = 0; i < 20; i++) {
            r.scan(i);
        }
    });
}

/*
 * What all processes know of a round: a random tree, and for each rank how it divides the packets
 * that come from its children into sequences, each of which sends one packet on, and a copy to a
 * witness. Which packet is taken by which sequence is chance; what reaches the root is not: each
 * number goes into one sum. So the root's messages of all rounds on a tree add up to all numbers,
 * and a witness gets as many copies as there are sequences that chose it.
 */
class RandomTree
{
  public:
    enum { MAX_SEQUENCES = 4, ROUNDS = 8 };

    RandomTree(uint64_t seed, uint32_t ranks, uint32_t degree) : random_(seed)
    {
        std::vector<uint32_t> children(ranks);

        counters.resize(ranks);
        witness.resize(ranks);
        parent.resize(ranks);
        for (uint32_t i = 1; i < ranks; i++) {
            do {
                parent[i] = below(i);
            } while (children[parent[i]] == degree);
            children[parent[i]]++;
        }
        std::vector<uint32_t> incoming(ranks);
        for (uint32_t i = ranks; i-- > 0;) {
            divide(i, incoming[i]);
            if (i > 0) {
                incoming[parent[i]] += static_cast<uint32_t>(counters[i].size());
            }
            for (size_t j = 0; j < counters[i].size(); j++) {
                witness[i].push_back(below(ranks));
            }
        }
    }

    static uint64_t number(uint64_t seed, uint32_t rank, size_t sequence, uint32_t round)
    {
        return (seed * 31 + rank * 7 + sequence + 1) * (round * 2654435761u + 12345);
    }

    std::vector<uint32_t> parent;
    std::vector<std::vector<uint32_t>> counters, witness; /* of each rank's sequences */

  private:
    uint32_t below(uint32_t limit)
    {
        return static_cast<uint32_t>(random_() % limit);
    }

    void divide(uint32_t rank, uint32_t incoming)
    {
        counters[rank].resize(1 + below(std::min<uint32_t>(incoming + 1, MAX_SEQUENCES)));
        for (uint32_t i = 0; i < incoming; i++) {
            counters[rank][below(static_cast<uint32_t>(counters[rank].size()))]++;
        }
    }

    std::mt19937_64 random_;
};

static void post_sequence(Rank &rank, const RandomTree &tree, uint64_t seed, size_t sequence,
                          uint32_t round)
{
    const bool root = rank.is_root();
    const uint32_t counter = tree.counters[rank.rank][sequence];
    const uint64_t value = RandomTree::number(seed, rank.rank, sequence, round);
    std::vector<glex_imm_mp_req_t> list;
    char data[112];

    list.push_back(rank.reduction(data, value, GLEX_COLL_REDUCE_SUM_UNSIGNED,
                                  rank.addr(root ? 0 : tree.parent[rank.rank]),
                                  REDUCE | SWAP | (root ? CP_DATA : COUNTER | SWAP_DATA)));
    list.push_back(rank.reduction(data, value, GLEX_COLL_REDUCE_SUM_UNSIGNED,
                                  rank.addr(tree.witness[rank.rank][sequence], 1),
                                  REDUCE | SWAP | CP_DATA));
    rank.post(list, counter, rank.ep);
}

static void play_tree(Rank &rank, uint64_t seed)
{
    const RandomTree tree(seed, rank.num, rank.degree);
    uint64_t expected = 0, sum = 0;
    size_t copies = 0;

    for (uint32_t round = 0; round < RandomTree::ROUNDS; round++) {
        for (size_t i = 0; i < tree.counters[rank.rank].size(); i++) {
            post_sequence(rank, tree, seed, i, round);
        }
        for (uint32_t i = 0; i < rank.num; i++) {
            for (size_t j = 0; j < tree.counters[i].size(); j++) {
                expected += RandomTree::number(seed, i, j, round);
                copies += tree.witness[i][j] == rank.rank;
            }
        }
    }
    for (size_t i = 0; rank.is_root() && i < tree.counters[0].size() * RandomTree::ROUNDS; i++) {
        sum += rank.wait_number(rank.ep);
    }
    if (rank.is_root()) {
        EXPECT_EQ(expected, sum) << "seed " << seed;
    }
    for (size_t i = 0; i < copies; i++) {
        rank.wait_number(rank.down);
    }
    rank.meet();
    EXPECT_EQ(-1, rank.ep.receive_number(0)) << "seed " << seed;
    EXPECT_EQ(-1, rank.down.receive_number(0)) << "seed " << seed;
    rank.meet(); /* before anybody posts for the next tree */
}

/* COLL_STEPS / 500 trees; `make check` plays 40 of each size. */
TEST_P(coll_process, random_trees)
{
    run([](Rank &rank) {
        const char *env = getenv("COLL_STEPS");
        uint64_t trees = env != nullptr ? strtoull(env, nullptr, 0) / 500 : 40;

        for (uint64_t seed = 1; seed <= trees && !testing::Test::HasFailure(); seed++) {
            play_tree(rank, seed);
        }
    });
}

INSTANTIATE_TEST_SUITE_P(of, coll_process,
                         testing::Values(Size{2, 2}, Size{3, 2}, Size{8, 2}, Size{9, 8},
                                         Size{33, 32}, Size{64, 8}),
                         [](const auto &info) {
                             return std::to_string(info.param.ranks) + "_degree_" +
                                    std::to_string(info.param.degree);
                         });

/* ---- although the owner computes ------------------------------------------------------------- */

/* The inner process makes no call at all while the packets come. */
TEST(coll_overlap, owner_computes)
{
    Device dev;
    Ep leaf(dev), root(dev);
    int go[2], ready[2], status;
    glex_ep_addr_t inner, to = root.addr();
    char byte;

    ASSERT_EQ(0, pipe(go) | pipe(ready));
    pid_t pid = fork();
    if (pid == 0) {
        Device own;
        Ep ep(own);
        glex_ep_addr_t self = ep.addr();

        EXPECT_OK(coll_send(ep, to, 5, START | TAIL, 1));
        EXPECT_EQ(static_cast<ssize_t>(sizeof(self)), write(ready[1], &self, sizeof(self)));
        EXPECT_EQ(1, read(go[0], &byte, 1));
        EXPECT_EQ(0u, ep.counters().coll_tx);
        _exit(testing::Test::HasFailure());
    }
    ASSERT_EQ(static_cast<ssize_t>(sizeof(inner)), read(ready[0], &inner, sizeof(inner)));
    ASSERT_OK(coll_send(leaf, inner, 0, COUNTER));
    EXPECT_EQ(5, root.receive_number(0)) << "carried within the call above";
    EXPECT_EQ(1u, leaf.counters().coll_carried);
    ASSERT_EQ(1, write(go[1], "", 1));
    waitpid(pid, &status, 0);
    EXPECT_EQ(0, status);
    for (int fd : {go[0], go[1], ready[0], ready[1]}) {
        close(fd);
    }
}

/* ---- killed ---------------------------------------------------------------------------------- */

/*
 * An agent is killed after every few instructions of the call by which it carries b's sequence and,
 * behind it, c's. Whatever it has done, all requests are carried out once: a put with two events,
 * an MP that counts, and what c sends on to d. All is posted twice; the first time prepares.
 */
class coll_kill : public testing::Test
{
  protected:
    coll_kill()
    {
        glex_mem_handle_t src_mh = b.reg(b.alloc(4096), 4096), dst_mh = c.reg(c.alloc(4096), 4096);

        for (uint64_t i = 1; i <= 2; i++) {
            glex_rdma_req_t put = rdma(GLEX_RDMA_TYPE_PUT, c.target(dst_mh), src_mh, 8);

            put.flag = COLL | START | GLEX_FLAG_REMOTE_EVT | GLEX_FLAG_LOCAL_EVT;
            put.coll_counter = 1;
            put.rmt_evt = put.local_evt = {.cookie_0 = i, .cookie_1 = 1};
            EXPECT_OK(glex_rdma(b, &put, nullptr));
            EXPECT_OK(coll_send(b, c.addr(), i, TAIL | COUNTER | CP_DATA | SWAP_DATA));
            EXPECT_OK(coll_send(c, d.addr(), 0, START | TAIL | SWAP, 1));
        }
    }

    /* In the agent's process. */
    void carry_stepped()
    {
        Device own;
        Ep ep(own, ep_attr(GLEX_ANY_EP_NUM, 4));

        coll_send(ep, to, 0, COUNTER);
        Stepped::begin();
        coll_send(ep, to, 0, COUNTER);
        Stepped::end();
    }

    static void add(std::vector<int64_t> *list, int64_t number)
    {
        if (number >= 0) {
            list->push_back(number);
        }
    }

    /* All look after themselves. */
    void poll(int timeout = 1)
    {
        add(&at_b, b.receive_event(timeout));
        add(&at_c, c.receive_event(timeout));
        add(&mp_c, c.receive_number(timeout));
        add(&mp_d, d.receive_number(timeout));
    }

    /* Long enough for a consumer to find out that its next position is claimed and not published,
     * and to ask whose claim it is. */
    void poll_beyond_a_stall()
    {
        for (auto end = now_ms() + 3; now_ms() < end;) {
            poll(0);
        }
    }

    static int64_t now_ms()
    {
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return now.tv_sec * 1000 + now.tv_nsec / 1000000;
    }

    bool has_all() const
    {
        return at_b.size() >= 2 && at_c.size() >= 2 && mp_c.size() >= 2 && mp_d.size() >= 2;
    }

    void expect_each_once() const
    {
        for (const auto *list : {&at_b, &at_c, &mp_c, &mp_d}) {
            EXPECT_EQ(std::vector<int64_t>({1, 2}), *list);
        }
        EXPECT_TRUE(b.errors().empty());
        EXPECT_TRUE(c.errors().empty());
    }

    std::vector<int64_t> at_b, at_c, mp_c, mp_d;
    Device dev;
    Ep b{dev, ep_attr(GLEX_ANY_EP_NUM, 64)}, c{dev, ep_attr(GLEX_ANY_EP_NUM, 64)},
        d{dev, ep_attr(GLEX_ANY_EP_NUM, 64)}, alive{dev};
    const glex_ep_addr_t to = b.addr(); /* the agent inherits no endpoint */
};

/* What becomes of the agent in the middle of its call. */
enum coll_agent { COLL_AGENT_KILLED, COLL_AGENT_PAUSED };

/* @param [out] complete  Whether the call ended before. */
class coll_kill_run : public coll_kill
{
  public:
    void TestBody() override
    {
    }

    void run(coll_agent what, int steps, bool *complete, bool *possible)
    {
        {
            Stepped agent([&] { carry_stepped(); });

            *possible = agent.possible();
            *complete = *possible && agent.step(steps);
            if (*possible && what == COLL_AGENT_PAUSED) {
                poll_beyond_a_stall();
                agent.resume();
                EXPECT_EQ(0, agent.wait());
            }
        } /* killed, if it still runs */
        for (int i = 0; *possible && !has_all() && i < WAIT_MS / 4; i++) {
            if (i == 10 && what == COLL_AGENT_KILLED) {
                EXPECT_OK(coll_send(alive, to, 0, COUNTER)); /* the agent's never came */
            }
            poll();
        }
        poll();
        expect_each_once();
    }
};

static void coll_agent_at_every_instruction(coll_agent what, int default_stride)
{
    const char *env = getenv("COLL_STRIDE");
    const int stride = env != nullptr ? atoi(env) : STEP_STRIDE == 1 ? default_stride : 611;
    bool complete = false, possible;
    int steps = 0;

    for (; !complete; steps += stride) {
        coll_kill_run one;

        one.run(what, steps, &complete, &possible);
        if (!possible) {
            GTEST_SKIP() << "no ptrace here";
        }
        ASSERT_FALSE(testing::Test::HasFailure()) << "after " << steps << " instructions";
        EXPECT_OK(glex_inspect_clean(nullptr, nullptr));
    }
    EXPECT_LT(200, steps);
    testing::Test::RecordProperty("instructions", steps);
}

TEST(coll_killed, agent_at_every_instruction)
{
    coll_agent_at_every_instruction(COLL_AGENT_KILLED, 41);
}

/* Consumers that wait for a paused agent wait until it goes on: none of its entries is lost. */
TEST(coll_killed, agent_paused_at_every_instruction)
{
    coll_agent_at_every_instruction(COLL_AGENT_PAUSED, 23);
}

/*
 * A put with an event and a control packet finds room for one control packet. In the middle of the
 * call another producer takes that room. The put is refused and leaves nothing, or its event and its
 * control packet come once each.
 */
class coll_race : public testing::Test
{
  protected:
    enum { CPQ_CAPACITY = 1024 };

    coll_race() : mh(b.reg(b.alloc(4096), 4096)), target(b.target(mh))
    {
        EXPECT_EQ(0, pipe(result));
        /* The first attempt of the child, and one more, find room. */
        for (int i = 0; i < CPQ_CAPACITY - 2; i++) {
            EXPECT_OK(coll_send(other, to, 0, COUNTER));
        }
    }

    ~coll_race()
    {
        close(result[0]);
        close(result[1]);
    }

    glex_ret_t put(glex_ep_handle_t ep) const
    {
        glex_imm_rdma_req_t req = imm_put(target, "1", 1, 0, EVENT);

        req.flag |= COLL | COUNTER | GLEX_EXT_FLAG_NO_LOSS;
        return glex_imm_rdma(ep, &req, nullptr);
    }

    void post_stepped()
    {
        Device own;
        Ep ep(own);
        glex_ret_t ret;

        put(ep);
        Stepped::begin();
        ret = put(ep);
        Stepped::end();
        EXPECT_EQ(static_cast<ssize_t>(sizeof(ret)), write(result[1], &ret, sizeof(ret)));
        for (;;) {
            ep.receive_event(1);
        }
    }

    /* Takes control packets until no more come. @return How many came. */
    int drain()
    {
        int num = 0;

        do {
            EXPECT_OK(coll_send(b, other.addr(), 0, START | TAIL, 1));
        } while (other.receive_number(50) >= 0 && ++num < 2 * CPQ_CAPACITY);
        return num;
    }

    int num_events()
    {
        int num = 0;

        while (b.receive_event(0) == EVENT) {
            num++;
        }
        return num;
    }

    static const int EVENT = 7;
    int result[2];
    Device dev;
    Ep b{dev}, other{dev};
    const glex_ep_addr_t to = b.addr();
    glex_mem_handle_t mh;
    Target target;
};

class coll_race_run : public coll_race
{
  public:
    void TestBody() override
    {
    }

    void run(int steps, bool *complete, bool *possible)
    {
        Stepped child([&] { post_stepped(); });
        glex_ret_t ret = GLEX_SUCCESS;
        int others = CPQ_CAPACITY - 2;

        *possible = child.possible();
        if (!*possible) {
            return;
        }
        *complete = child.step(steps);
        while (coll_send(other, to, 0, COUNTER) == GLEX_SUCCESS) {
            others++;
        }
        child.resume();
        ASSERT_EQ(static_cast<ssize_t>(sizeof(ret)), read(result[0], &ret, sizeof(ret)));
        EXPECT_TRUE(ret == GLEX_SUCCESS || ret == GLEX_BUSY) << ret;
        EXPECT_EQ(1 + (ret == GLEX_SUCCESS), num_events());
        EXPECT_EQ(others + 1 + (ret == GLEX_SUCCESS), drain());
        EXPECT_EQ(0, num_events());
        child.kill_now();
    }
};

TEST(coll_refused, while_another_producer_takes_the_room)
{
    const int stride = STEP_STRIDE == 1 ? 23 : STEP_STRIDE;
    bool complete = false, possible;
    int steps = 0;

    for (; !complete; steps += stride) {
        coll_race_run one;

        one.run(steps, &complete, &possible);
        if (!possible) {
            GTEST_SKIP() << "no ptrace here";
        }
        ASSERT_FALSE(testing::Test::HasFailure()) << "after " << steps << " instructions";
    }
    EXPECT_LT(100, steps);
}

/* Those that wait for a dead one get what a dead peer gives, and can go. */
TEST(coll_killed, member_that_never_sends)
{
    Device dev;
    Ep b(dev), c(dev);
    glex_ep_addr_t dead, to = c.addr();
    int ready[2];

    ASSERT_EQ(0, pipe(ready));
    pid_t pid = fork();
    if (pid == 0) {
        Device own;
        Ep ep(own);
        glex_ep_addr_t self = ep.addr();

        coll_send(ep, to, 1, START | TAIL, 1);
        EXPECT_EQ(static_cast<ssize_t>(sizeof(self)), write(ready[1], &self, sizeof(self)));
        pause();
    }
    ASSERT_EQ(static_cast<ssize_t>(sizeof(dead)), read(ready[0], &dead, sizeof(dead)));
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    EXPECT_OK(glex_inspect_clean(nullptr, nullptr));

    ASSERT_OK(coll_send(b, c.addr(), 3, START | TAIL, 2));
    ASSERT_OK(coll_send(c, b.addr(), 0, COUNTER));
    EXPECT_EQ(-1, c.receive_number(20));
    EXPECT_EQ(GLEX_NO_EP_RESOURCE, glex_ext_check_peer(b, dead, 0, 0));
    ASSERT_OK(coll_send(b, dead, 0, COUNTER));
    EXPECT_EQ(GLEX_ERR_STATUS_DEST_VP_STOP, b.only_error());
    close(ready[0]);
    close(ready[1]);
}

/* ---- hostile --------------------------------------------------------------------------------- */

/*
 * Anything may stand in an area: noise, and noise that looks like descriptors whose turn it is.
 * Whoever carries survives, and comes to an end; memory that is not registered stays as it is.
 */
TEST(coll_hostile, noise)
{
    const char *env = getenv("COLL_STEPS");
    uint64_t rounds = env != nullptr ? strtoull(env, nullptr, 0) / 50 : 1000;
    std::mt19937_64 random(5);
    Device dev;
    Ep a(dev), c(dev);
    char *dst = c.alloc(8192);
    glex_mem_handle_t mh = c.reg(dst, 4096);

    memset(dst, 1, 8192);
    for (uint64_t round = 0; round < rounds; round++) {
        Ep b(dev, ep_attr(GLEX_ANY_EP_NUM, 16));
        size_t size;

        ASSERT_OK(coll_send(b, c.addr(), 1, START | TAIL, 1));
        char *area = static_cast<char *>(internals_coll_area(b, &size));
        bool all = random() % 2;
        for (size_t i = 0; i < size; i += all ? 8 : 8 + random() % 64 * 8) {
            uint64_t value = random() >> random() % 64;

            switch (random() % 8) {
            case 0:
                value = c.addr().v;
                break;
            case 1:
                value = b.addr().v;
                break;
            case 2:
                value = mh.v;
                break;
            case 3:
                value = random() % 128 | static_cast<uint64_t>(random() % 4) << 32;
                break;
            default:
                break;
            }
            memcpy(area + i, &value, 8);
        }
        for (unsigned i = 0; i < 20; i++) {
            internals_coll_offer(area, static_cast<unsigned>(random() % 1024));
            ASSERT_LE(0, coll_send(a, b.addr(), 1, COUNTER | SWAP_DATA));
            coll_send(b, c.addr(), 1, START | TAIL, 1);
            b.errors();
            glex_ext_arrival arrival;
            for (int j = 0; j < 40; j++) {
                c.poll(&arrival);
                b.poll(&arrival);
            }
        }
        a.errors();
    }
    for (int i = 4096; i < 8192; i++) {
        ASSERT_EQ(1, dst[i]);
    }
}

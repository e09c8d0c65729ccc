/*
 * Atomic operations: what each does, that many at once are exact, also with the owner's processor,
 * and that a key which is wrong, withdrawn or not mapped changes nothing.
 */
#include "traffic.h"

#include <signal.h>
#include <string.h>
#include <thread>

namespace
{

const uct_atomic_op_t post_ops[] = {UCT_ATOMIC_OP_ADD, UCT_ATOMIC_OP_AND, UCT_ATOMIC_OP_OR,
                                    UCT_ATOMIC_OP_XOR};
const uct_atomic_op_t fetch_ops[] = {UCT_ATOMIC_OP_ADD, UCT_ATOMIC_OP_AND, UCT_ATOMIC_OP_OR,
                                     UCT_ATOMIC_OP_XOR, UCT_ATOMIC_OP_SWAP};

/* UCT's functions for one width under one name */

ucs_status_t post(uct_ep_h ep, uct_atomic_op_t op, uint32_t value, uint64_t address, uct_rkey_t key)
{
    return uct_ep_atomic32_post(ep, op, value, address, key);
}

ucs_status_t post(uct_ep_h ep, uct_atomic_op_t op, uint64_t value, uint64_t address, uct_rkey_t key)
{
    return uct_ep_atomic64_post(ep, op, value, address, key);
}

ucs_status_t fetch(uct_ep_h ep, uct_atomic_op_t op, uint32_t value, uint32_t *old, uint64_t address,
                   uct_rkey_t key, uct_completion_t *comp)
{
    return uct_ep_atomic32_fetch(ep, op, value, old, address, key, comp);
}

ucs_status_t fetch(uct_ep_h ep, uct_atomic_op_t op, uint64_t value, uint64_t *old, uint64_t address,
                   uct_rkey_t key, uct_completion_t *comp)
{
    return uct_ep_atomic64_fetch(ep, op, value, old, address, key, comp);
}

ucs_status_t cswap(uct_ep_h ep, uint32_t compare, uint32_t swap, uint64_t address, uct_rkey_t key,
                   uint32_t *old, uct_completion_t *comp)
{
    return uct_ep_atomic_cswap32(ep, compare, swap, address, key, old, comp);
}

ucs_status_t cswap(uct_ep_h ep, uint64_t compare, uint64_t swap, uint64_t address, uct_rkey_t key,
                   uint64_t *old, uct_completion_t *comp)
{
    return uct_ep_atomic_cswap64(ep, compare, swap, address, key, old, comp);
}

template <typename T> T expected(uct_atomic_op_t op, T old, T value)
{
    switch (op) {
    case UCT_ATOMIC_OP_ADD:
        return old + value;
    case UCT_ATOMIC_OP_AND:
        return old & value;
    case UCT_ATOMIC_OP_OR:
        return old | value;
    case UCT_ATOMIC_OP_XOR:
        return old ^ value;
    default:
        return value;
    }
}

/* Two interfaces of two memory domains: the first has the key of memory of the second */
class Pair
{
  public:
    explicit Pair(Memory::Kind kind = Memory::NIC)
        : a(md_a), b(md_b), ep(a, b.address()), memory(md_b, 4096, kind), remote(memory.describe())
    {
        memset(memory.data, 0xee, memory.length);
    }

    template <typename T> T *word(size_t offset)
    {
        return (T *)(memory.data + offset);
    }

    uint64_t address(size_t offset) const
    {
        return remote.address + offset;
    }

    Md md_a, md_b;
    Iface a, b;
    Ep ep;
    Memory memory;
    RemoteMemory remote;
};

/* ---- what each does ---- */

template <typename T> void every_operation(Pair &t, size_t offset)
{
    const T values[] = {0, 1, 0x55, (T)0x8000000180000001ull, (T)-1};
    uct_rkey_t key = t.remote.rkey.rkey;
    uint8_t *byte = t.memory.data + offset;
    Completion comp;
    T old;

    for (T before : values) {
        for (T value : values) {
            for (uct_atomic_op_t op : post_ops) {
                *t.word<T>(offset) = before;
                EXPECT_OK(post(t.ep.handle, op, value, t.address(offset), key));
                EXPECT_EQ(*t.word<T>(offset), expected(op, before, value)) << "operation " << op;
            }
            for (uct_atomic_op_t op : fetch_ops) {
                *t.word<T>(offset) = before;
                EXPECT_OK(fetch(t.ep.handle, op, value, &old, t.address(offset), key, &comp.uct));
                EXPECT_EQ(*t.word<T>(offset), expected(op, before, value)) << "operation " << op;
                EXPECT_EQ(old, before) << "operation " << op;
            }
            for (T compare : values) {
                *t.word<T>(offset) = before;
                EXPECT_OK(
                    cswap(t.ep.handle, compare, value, t.address(offset), key, &old, &comp.uct));
                EXPECT_EQ(*t.word<T>(offset), (compare == before) ? value : before);
                EXPECT_EQ(old, before);
            }
        }
    }
    EXPECT_EQ(comp.done, 0) << "what is over at once is told by the status alone";
    EXPECT_EQ((offset == 0) ? 0xee : byte[-1], 0xee) << "written before the word";
    EXPECT_EQ((offset + sizeof(T) == t.memory.length) ? 0xee : byte[sizeof(T)], 0xee)
        << "written behind the word";
    EXPECT_OK(t.ep.flush());
    memset(byte, 0xee, sizeof(T));
}

class Atomic : public WithSetting
{
};

TEST_P(Atomic, EveryOperation)
{
    isolated(env(), [] {
        Pair t;

        for (size_t offset : {0ul, 8ul, 64ul, 2040ul, t.memory.length - 8}) {
            every_operation<uint64_t>(t, offset);
        }
        for (size_t offset : {0ul, 4ul, 60ul, 2044ul, t.memory.length - 4}) {
            every_operation<uint32_t>(t, offset);
        }
    });
}

/* ---- many at once ---- */

enum { TICKETS = 0, SMALL = 8, BITS = 16, RAISED = 24 }; /* offsets of words */

/* One of the contenders: its share of operations on the words at `remote`. Returns the sum of its
 * tickets. */
uint64_t contend(Ep &ep, const RemoteMemory &remote, unsigned rank, unsigned count)
{
    uct_rkey_t key = remote.rkey.rkey;
    uint64_t sum = 0, ticket, seen = 0, old;

    for (unsigned i = 0; i < count; ++i) {
        EXPECT_OK(uct_ep_atomic64_fetch(ep.handle, UCT_ATOMIC_OP_ADD, 1, &ticket,
                                        remote.address + TICKETS, key, NULL));
        sum += ticket;
        EXPECT_OK(
            uct_ep_atomic32_post(ep.handle, UCT_ATOMIC_OP_ADD, 1, remote.address + SMALL, key));
        EXPECT_OK(uct_ep_atomic64_post(ep.handle, UCT_ATOMIC_OP_XOR, UINT64_C(1) << rank,
                                       remote.address + BITS, key));
        while (true) {
            EXPECT_OK(uct_ep_atomic_cswap64(ep.handle, seen, seen + 1, remote.address + RAISED, key,
                                            &old, NULL));
            if (old == seen) {
                break;
            }
            seen = old;
        }
    }
    return sum;
}

void expect_exact(const Memory &memory, unsigned contenders, unsigned count, uint64_t sum)
{
    const uint64_t all = (uint64_t)contenders * count;

    EXPECT_EQ(*(uint64_t *)(memory.data + TICKETS), all);
    EXPECT_EQ(sum, all * (all - 1) / 2) << "no ticket twice";
    EXPECT_EQ(*(uint32_t *)(memory.data + SMALL), all);
    EXPECT_EQ(*(uint64_t *)(memory.data + BITS), (count % 2) ? (UINT64_C(1) << contenders) - 1 : 0);
    EXPECT_EQ(*(uint64_t *)(memory.data + RAISED), all);
}

/* Processes, and among them the owner, by operations of its processor on the ticket counter */
TEST_P(Atomic, ProcessesAtOnce)
{
    const unsigned size = 4, count = 20001;

    team(size, env(), [&](Team &team) {
        Md md;
        Iface iface(md);
        Memory memory(md, 4096, Memory::NIC);

        memset(memory.data, 0, memory.length);
        team.publish(iface.address());
        team.barrier();
        const std::string owner = team.blob(0);
        team.barrier();
        team.publish(memory.describe());
        team.barrier();
        RemoteMemory remote(team.blob(0));
        Ep ep(iface, owner);

        uint64_t sum = contend(ep, remote, team.rank(), count);
        for (unsigned i = 0; (team.rank() == 0) && (i < count); ++i) {
            sum += __atomic_fetch_add((uint64_t *)(memory.data + TICKETS), 1, __ATOMIC_RELAXED);
            __atomic_fetch_add((uint32_t *)(memory.data + SMALL), 1, __ATOMIC_RELAXED);
            __atomic_fetch_xor((uint64_t *)(memory.data + BITS), UINT64_C(1) << size,
                               __ATOMIC_RELAXED);
            __atomic_fetch_add((uint64_t *)(memory.data + RAISED), 1, __ATOMIC_RELAXED);
        }
        EXPECT_OK(ep.flush());
        team_barrier(team);
        team.publish(std::to_string(sum));
        team_barrier(team);
        if (team.rank() == 0) {
            uint64_t total = 0;

            for (unsigned rank = 0; rank < size; ++rank) {
                total += std::stoull(team.blob(rank));
            }
            expect_exact(memory, size + 1, count, total);
        }
    });
}

/* Each thread has an interface of its own; they share the key, which each of them maps */
TEST_P(Atomic, ThreadsAtOnce)
{
    isolated(env(), [] {
        const unsigned num = 3, count = 20001;
        std::atomic<unsigned> ready(0);
        Md md, md_target;
        Iface target(md_target);
        Memory memory(md_target, 4096, Memory::NIC);
        const std::string address = target.address();
        RemoteMemory remote(memory.describe());
        std::vector<std::thread> threads;
        std::atomic<uint64_t> sum(0);

        memset(memory.data, 0, memory.length);
        for (unsigned rank = 0; rank < num; ++rank) {
            threads.emplace_back([&, rank] {
                Iface iface(md);
                Ep ep(iface, address);

                ++ready;
                progress_until("the other threads", [&] { return ready == num; });
                sum += contend(ep, remote, rank, count);
            });
        }
        for (std::thread &thread : threads) {
            thread.join();
        }
        expect_exact(memory, num, count, sum);
    });
}

/* The first interface that uses a key keeps where its memory lies; others find it all the same */
TEST_P(Atomic, SharedKey)
{
    isolated(env(), [] {
        Pair t;
        Iface second(t.md_a), third(t.md_a);
        Ep ep_2(second, t.b.address()), ep_3(third, t.b.address());
        const uct_glex_rkey_t *rkey = (uct_glex_rkey_t *)t.remote.rkey.rkey;
        uint64_t old;

        memset(t.memory.data, 0, 8);
        for (uint64_t i = 0; i < 30; ++i) {
            Ep &ep = (i % 3 == 0) ? t.ep : (i % 3 == 1) ? ep_2 : ep_3;

            EXPECT_OK(fetch(ep.handle, UCT_ATOMIC_OP_ADD, UINT64_C(1), &old, t.address(0),
                            t.remote.rkey.rkey, NULL));
            EXPECT_EQ(old, i);
            EXPECT_EQ(rkey->ep, t.a.internals()->nic);
        }
    });
}

/* A lock taken by compare-and-swap and given back by swap guards what is put and got */
TEST_P(Atomic, Lock)
{
    team(3, env(), [](Team &team) {
        const unsigned rounds = 2000, words = 32;
        Md md;
        Iface iface(md);
        Memory memory(md, 4096, Memory::NIC);

        memset(memory.data, 0, memory.length);
        team.publish(iface.address());
        team.barrier();
        const std::string owner = team.blob(0);
        team.barrier();
        team.publish(memory.describe());
        team.barrier();
        RemoteMemory remote(team.blob(0));
        Ep ep(iface, owner);
        uct_rkey_t key = remote.rkey.rkey;
        std::vector<uint64_t> data(words);

        for (unsigned i = 0; i < rounds; ++i) {
            uint64_t old = 1;

            while (old != 0) {
                waiting_for("the lock");
                EXPECT_OK(uct_ep_atomic_cswap64(ep.handle, 0, team.rank() + 1, remote.address, key,
                                                &old, NULL));
                if (old != 0) {
                    progress();
                }
            }
            EXPECT_OK(ep.get_short(data.data(), words * 8, remote.address + 64, key));
            for (unsigned j = 1; j < words; ++j) {
                EXPECT_EQ(data[j], data[0]) << "word " << j << " of round " << i;
            }
            data.assign(words, data[0] + 1);
            EXPECT_OK(ep.put_short(data.data(), words * 8, remote.address + 64, key));
            EXPECT_OK(uct_ep_fence(ep.handle, 0));
            EXPECT_OK(uct_ep_atomic64_fetch(ep.handle, UCT_ATOMIC_OP_SWAP, 0, &old, remote.address,
                                            key, NULL));
            EXPECT_EQ(old, team.rank() + 1) << "somebody else had it, too";
        }
        team_barrier(team);
        if (team.rank() == 0) {
            EXPECT_EQ(*(uint64_t *)(memory.data + 64), 3u * rounds);
        }
        team_barrier(team);
    });
}

/* ---- what is refused ---- */

/* All six functions, on one address */
template <typename Judge> void all_functions(Ep &ep, uint64_t address, uct_rkey_t key, Judge judge)
{
    uint32_t old32 = 77;
    uint64_t old64 = 77;

    judge(post(ep.handle, UCT_ATOMIC_OP_ADD, UINT32_C(1), address, key));
    judge(post(ep.handle, UCT_ATOMIC_OP_ADD, UINT64_C(1), address, key));
    judge(fetch(ep.handle, UCT_ATOMIC_OP_ADD, UINT32_C(1), &old32, address, key, NULL));
    judge(fetch(ep.handle, UCT_ATOMIC_OP_ADD, UINT64_C(1), &old64, address, key, NULL));
    judge(cswap(ep.handle, UINT32_C(0xeeeeeeee), UINT32_C(1), address, key, &old32, NULL));
    judge(cswap(ep.handle, UINT64_C(0xeeeeeeeeeeeeeeee), UINT64_C(1), address, key, &old64, NULL));
    EXPECT_EQ(old32, 77u);
    EXPECT_EQ(old64, 77u);
}

void expect_untouched(const Memory &memory)
{
    for (size_t i = 0; i < memory.length; ++i) {
        EXPECT_EQ(memory.data[i], 0xee) << "at " << i;
    }
}

/* Outside of the registration, or not a multiple of the size. The endpoint is as good as before. */
TEST_P(Atomic, RefusedAddress)
{
    isolated(env(), [] {
        Pair t;
        const uint64_t end = t.memory.length;
        uct_rkey_t key = t.remote.rkey.rkey;
        auto refused = [](ucs_status_t status) { EXPECT_STATUS(UCS_ERR_INVALID_ADDR, status); };
        uint64_t old = 0;

        /* by a key that is new, and by one that was used */
        for (int round = 0; round < 2; ++round) {
            {
                ErrorLog log;

                for (uint64_t address :
                     {t.address(end), t.address(0) - 8, t.address(1), t.address(62),
                      t.address(end - 2), (uint64_t)0, UINT64_MAX - 7, UINT64_MAX}) {
                    all_functions(t.ep, address, key, refused);
                }
                refused(post(t.ep.handle, UCT_ATOMIC_OP_ADD, UINT64_C(1), t.address(4), key));
                EXPECT_STATUS(UCS_ERR_UNSUPPORTED,
                              uct_ep_atomic64_fetch(t.ep.handle, UCT_ATOMIC_OP_LAST, 1, &old,
                                                    t.address(0), key, NULL));
            }
            expect_untouched(t.memory);
            EXPECT_OK(post(t.ep.handle, UCT_ATOMIC_OP_ADD, UINT64_C(2), t.address(8), key));
            EXPECT_OK(t.ep.flush());
            EXPECT_EQ(*t.word<uint64_t>(8), UINT64_C(0xeeeeeeeeeeeeeef0));
            *t.word<uint64_t>(8) -= 2;
        }
        EXPECT_TRUE(t.a.failed.empty());
    });
}

/* A key that was guessed: refused as puts are, and the error handler hears of it */
TEST_P(Atomic, WrongKey)
{
    isolated(env(), [] {
        for (int which = 0; which < 2; ++which) {
            Pair t;
            uct_glex_rkey_t *key = (uct_glex_rkey_t *)t.remote.rkey.rkey;

            if (which == 0) {
                key->packed.key ^= 1;
            } else {
                key->packed.mh ^= 0x10;
            }
            {
                ErrorLog log;

                all_functions(t.ep, t.address(0), t.remote.rkey.rkey, [](ucs_status_t status) {
                    EXPECT_STATUS(UCS_ERR_ENDPOINT_TIMEOUT, status);
                });
            }
            progress_until("the error handler", [&] { return t.ep.failed(); });
            expect_untouched(t.memory);
        }
    });
}

/* Memory that is registered no more, by a key that was mapped and used before, or not */
TEST_P(Atomic, AfterDeregistration)
{
    isolated(env(), [] {
        for (bool used : {false, true}) {
            Pair t;
            std::vector<char> packed(t.md_b.attr.rkey_packed_size);
            const uint64_t address = (uintptr_t)t.memory.data;
            uct_rkey_bundle_t key;
            uct_mem_h memh;

            EXPECT_OK(
                uct_md_mem_reg(t.md_b.handle, t.memory.data, 4096, UCT_MD_MEM_ACCESS_ALL, &memh));
            EXPECT_OK(uct_md_mkey_pack(t.md_b.handle, memh, packed.data()));
            EXPECT_OK(uct_rkey_unpack(component(), packed.data(), &key));
            if (used) {
                EXPECT_OK(post(t.ep.handle, UCT_ATOMIC_OP_XOR, UINT64_MAX, address, key.rkey));
                EXPECT_OK(post(t.ep.handle, UCT_ATOMIC_OP_XOR, UINT64_MAX, address, key.rkey));
                EXPECT_OK(t.ep.flush());
            }
            EXPECT_OK(uct_md_mem_dereg(t.md_b.handle, memh));
            if (t.md_b.internals()->rcache == NULL) { /* which keeps registrations */
                ErrorLog log;

                all_functions(t.ep, address, key.rkey, [](ucs_status_t status) {
                    EXPECT_STATUS(UCS_ERR_ENDPOINT_TIMEOUT, status);
                });
                progress_until("the error handler", [&] { return t.ep.failed(); });
            }
            expect_untouched(t.memory);
            uct_rkey_release(component(), &key);
        }
    });
}

/* The owner is killed. Its memory is there as long as it is mapped here, as for a put; the flush
 * says that nobody has it. */
TEST_P(Atomic, PeerKilled)
{
    team(2, env(), [](Team &team) {
        Md md;
        Iface iface(md);
        Memory memory(md, 4096, Memory::NIC);

        memset(memory.data, 0, memory.length);
        team.publish(iface.address());
        team.barrier();
        const std::string victim = team.blob(1);
        team.barrier();
        team.publish(memory.describe());
        team.barrier();
        if (team.rank() == 1) {
            team.may_die();
            team.flag(0) = 1;
            for (;;) {
                waiting_for("death");
                progress();
            }
        }
        RemoteMemory remote(team.blob(1));
        Ep ep(iface, victim);
        ucs_status_t status;
        uint64_t old = 0;

        EXPECT_OK(uct_ep_atomic64_fetch(ep.handle, UCT_ATOMIC_OP_ADD, 1, &old, remote.address,
                                        remote.rkey.rkey, NULL));
        EXPECT_OK(ep.flush());
        progress_until("the victim", [&] { return team.flag(0) != 0; });
        EXPECT_EQ(kill(team.pid(1), SIGKILL), 0);
        do {
            progress();
            status = uct_ep_atomic64_fetch(ep.handle, UCT_ATOMIC_OP_ADD, 1, &old, remote.address,
                                           remote.rkey.rkey, NULL);
            if (status == UCS_OK) {
                status = ep.flush();
            }
        } while (status == UCS_OK);
        EXPECT_TRUE((status == UCS_ERR_ENDPOINT_TIMEOUT) || (status == UCS_ERR_CONNECTION_RESET))
            << ucs_status_string(status);
        progress_until("the error handler", [&] { return ep.failed(); });
        EXPECT_NE(
            uct_ep_atomic64_post(ep.handle, UCT_ATOMIC_OP_ADD, 1, remote.address, remote.rkey.rkey),
            UCS_OK);
        EXPECT_EQ(iface.failed.size(), 1u);
    });
}

/* Offered where each key that there can be is mapped; nowhere else: UCP does not fall back */
TEST_P(Atomic, Offer)
{
    isolated(env(), [] {
        Md md;
        Iface iface(md);
        const bool offered = !md.has(UCT_MD_FLAG_REG);
        const uint64_t post = offered ? 0x0f : 0, fetch = offered ? 0x3f : 0;

        EXPECT_EQ(iface.has(UCT_IFACE_FLAG_ATOMIC_CPU), offered);
        EXPECT_FALSE(iface.has(UCT_IFACE_FLAG_ATOMIC_DEVICE));
        EXPECT_EQ(iface.attr.cap.atomic32.op_flags, post);
        EXPECT_EQ(iface.attr.cap.atomic64.op_flags, post);
        EXPECT_EQ(iface.attr.cap.atomic32.fop_flags, fetch);
        EXPECT_EQ(iface.attr.cap.atomic64.fop_flags, fetch);
    });
}

INSTANTIATE_TEST_SUITE_P(Nic, Atomic,
                         testing::Values(Setting{"plain", {}},
                                         Setting{"no_rcache", {{"UCX_GLEX_RCACHE", "n"}}},
                                         Setting{"noprivate", {{"GLEX_PRIVATE_RDMA", "n"}}}),
                         setting_name);

/* Memory that cannot be mapped: refused, untouched, and the endpoint is as good as before */
class AtomicUnmapped : public WithSetting
{
};

TEST_P(AtomicUnmapped, Refused)
{
    isolated(env(), [] {
        Md probe;

        for (Memory::Kind kind : memory_kinds(probe)) {
            Pair t(kind);

            if ((kind == Memory::NIC) && (probe.internals()->ext_attr.caps & GLEX_EXT_CAP_MAP)) {
                continue;
            }
            EXPECT_FALSE(t.a.has(UCT_IFACE_FLAG_ATOMIC_CPU));
            {
                ErrorLog log;

                all_functions(t.ep, t.address(0), t.remote.rkey.rkey, [](ucs_status_t status) {
                    EXPECT_STATUS(UCS_ERR_UNSUPPORTED, status);
                });
            }
            expect_untouched(t.memory);
            EXPECT_OK(t.ep.flush());
            EXPECT_TRUE(t.a.failed.empty());
        }
    });
}

INSTANTIATE_TEST_SUITE_P(Nic, AtomicUnmapped,
                         testing::Values(Setting{"private", {}},
                                         Setting{"nomap", {{"GLEX_FAULT", "nomap"}}}),
                         setting_name);

} // namespace

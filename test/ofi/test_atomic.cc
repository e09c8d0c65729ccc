/* Atomic operations: random ones held against a model, all ways to call them, wrong ones. */
#include "node.h"

#include <algorithm>
#include <complex>
#include <random>
#include <rdma/fi_atomic.h>
#include <type_traits>

namespace
{

/* ---- the model ---- */

template <typename T> struct IsComplex : std::false_type {
};
template <typename T> struct IsComplex<std::complex<T>> : std::true_type {
};

/* What the operation makes of a value; false: there is no such operation for the datatype */
template <typename T> bool model(fi_op op, T &v, T o, T c)
{
    const T zero{};

    switch (op) {
    case FI_LOR:
        v = v != zero || o != zero ? T(1) : T(0);
        return true;
    case FI_LAND:
        v = v != zero && o != zero ? T(1) : T(0);
        return true;
    case FI_LXOR:
        v = (v != zero) != (o != zero) ? T(1) : T(0);
        return true;
    case FI_ATOMIC_READ:
        return true;
    case FI_ATOMIC_WRITE:
        v = o;
        return true;
    case FI_CSWAP:
        if (c == v) {
            v = o;
        }
        return true;
    case FI_CSWAP_NE:
        if (c != v) {
            v = o;
        }
        return true;
    case FI_SUM:
    case FI_PROD:
        if constexpr (std::is_integral<T>::value) { /* wraps around */
            uint64_t a = uint64_t(v), b = uint64_t(o);
            v = T(op == FI_SUM ? a + b : a * b);
        } else {
            v = op == FI_SUM ? v + o : v * o;
        }
        return true;
    default:
        break;
    }
    if constexpr (!IsComplex<T>::value) {
        switch (op) {
        case FI_MIN:
            v = std::min(v, o);
            return true;
        case FI_MAX:
            v = std::max(v, o);
            return true;
        case FI_CSWAP_LE:
            if (c <= v) {
                v = o;
            }
            return true;
        case FI_CSWAP_LT:
            if (c < v) {
                v = o;
            }
            return true;
        case FI_CSWAP_GE:
            if (c >= v) {
                v = o;
            }
            return true;
        case FI_CSWAP_GT:
            if (c > v) {
                v = o;
            }
            return true;
        default:
            break;
        }
    }
    if constexpr (std::is_integral<T>::value) {
        switch (op) {
        case FI_BOR:
            v = T(v | o);
            return true;
        case FI_BAND:
            v = T(v & o);
            return true;
        case FI_BXOR:
            v = T(v ^ o);
            return true;
        case FI_MSWAP:
            v = T((o & c) | (v & ~c));
            return true;
        default:
            break;
        }
    }
    return false;
}

enum Kind { BASE, FETCH, COMPARE };

bool is_of(Kind kind, fi_op op)
{
    return op >= FI_CSWAP       ? kind == COMPARE :
           op == FI_ATOMIC_READ ? kind == FETCH :
                                  kind == BASE || kind == FETCH;
}

class Atomic : public Pair
{
  protected:
    void open_atomic(uint64_t tx_op_flags = 0)
    {
        Wish wish;
        wish.caps = FI_ATOMIC;
        wish.tx_op_flags = tx_op_flags;
        open(wish);
    }

    void expose(void *memory, size_t length, uint64_t access = FI_REMOTE_READ | FI_REMOTE_WRITE)
    {
        ASSERT_EQ(0, fi_mr_reg(b->domain, memory, length, access, 0, 0, 0, &mr, nullptr));
        key = fi_mr_key(mr);
    }

    void hide()
    {
        EXPECT_EQ(0, fi_close(&mr->fid));
    }

    int is_valid(Kind kind, fi_datatype type, fi_op op, size_t *count)
    {
        return kind == BASE  ? fi_atomicvalid(a->ep, type, op, count) :
               kind == FETCH ? fi_fetch_atomicvalid(a->ep, type, op, count) :
                               fi_compare_atomicvalid(a->ep, type, op, count);
    }

    ssize_t call(Kind kind, const void *o, const void *c, void *result, size_t count, uint64_t addr,
                 fi_datatype type, fi_op op, void *context = nullptr)
    {
        return go([&] {
            return kind == BASE ?
                       fi_atomic(a->ep, o, count, nullptr, b_of_a, addr, key, type, op, context) :
                   kind == FETCH ? fi_fetch_atomic(a->ep, o, count, nullptr, result, nullptr,
                                                   b_of_a, addr, key, type, op, context) :
                                   fi_compare_atomic(a->ep, o, count, nullptr, c, nullptr, result,
                                                     nullptr, b_of_a, addr, key, type, op, context);
        });
    }

    /* Small numbers, so that they are often equal, and their products exact */
    template <typename T> T value()
    {
        int n = int(random() % 7) - 2;

        if constexpr (IsComplex<T>::value) {
            return T(n, int(random() % 3));
        } else {
            return T(n);
        }
    }

    template <typename T> void try_one(fi_datatype type, fi_op op, Kind kind)
    {
        size_t max = 0, count = 1 + random() % 9, at = random() % 8;
        std::vector<T> memory(32), o(count), c(count), result(count, T(99));
        fi_atomic_attr attr{};
        T probe{}, unused{};
        uint64_t flags = kind == BASE ? 0 : kind == FETCH ? FI_FETCH_ATOMIC : FI_COMPARE_ATOMIC;

        bool there = is_of(kind, op) && model(op, probe, unused, unused);
        EXPECT_EQ(there ? 0 : -FI_EOPNOTSUPP, is_valid(kind, type, op, &max)) << type << " " << op;
        EXPECT_EQ(there ? 0 : -FI_EOPNOTSUPP, fi_query_atomic(a->domain, type, op, &attr, flags));
        for (T &v : memory) {
            v = value<T>();
        }
        for (T &v : o) {
            v = value<T>();
        }
        for (T &v : c) {
            v = value<T>();
        }
        if (!there) {
            EXPECT_EQ(-FI_EOPNOTSUPP,
                      call(kind, o.data(), c.data(), result.data(), count, 0, type, op));
            return;
        }
        EXPECT_EQ(max, attr.count);
        EXPECT_EQ(sizeof(T), attr.size);
        ASSERT_GE(max, count);
        expose(memory.data(), memory.size() * sizeof(T));
        std::vector<T> expected = memory,
                       before(memory.begin() + long(at), memory.begin() + long(at + count));
        for (size_t i = 0; i < count; i++) {
            model(op, expected[at + i], o[i], c[i]);
        }
        ASSERT_EQ(0, call(kind, o.data(), c.data(), result.data(), count, (uint64_t)&memory[at],
                          type, op, &type));
        Done done = next(*a);
        EXPECT_EQ(0, done.err);
        EXPECT_EQ(&type, done.context);
        EXPECT_EQ(uint64_t(FI_ATOMIC) | uint64_t(kind == BASE ? FI_WRITE : FI_READ), done.flags);
        EXPECT_EQ(expected, memory) << "type " << type << " op " << op;
        EXPECT_EQ(kind == BASE ? std::vector<T>(count, T(99)) : before, result)
            << "type " << type << " op " << op;
        hide();
    }

    template <typename T> void try_type(fi_datatype type)
    {
        for (int op = FI_MIN; op <= FI_MSWAP; op++) {
            for (Kind kind : {BASE, FETCH, COMPARE}) {
                try_one<T>(type, fi_op(op), kind);
            }
        }
    }

    std::mt19937 random{16};
    fid_mr *mr = nullptr;
    uint64_t key = 0;
};

TEST_F(Atomic, AllOperationsOnAllDatatypesAsTheModel)
{
    open_atomic();
    for (int round = 0; round < 8; round++) {
        try_type<int8_t>(FI_INT8);
        try_type<uint8_t>(FI_UINT8);
        try_type<int16_t>(FI_INT16);
        try_type<uint16_t>(FI_UINT16);
        try_type<int32_t>(FI_INT32);
        try_type<uint32_t>(FI_UINT32);
        try_type<int64_t>(FI_INT64);
        try_type<uint64_t>(FI_UINT64);
        try_type<float>(FI_FLOAT);
        try_type<double>(FI_DOUBLE);
        try_type<long double>(FI_LONG_DOUBLE);
        try_type<std::complex<float>>(FI_FLOAT_COMPLEX);
        try_type<std::complex<double>>(FI_DOUBLE_COMPLEX);
        try_type<std::complex<long double>>(FI_LONG_DOUBLE_COMPLEX);
    }
    EXPECT_TRUE(a->done.empty());
}

/* As many elements as are offered, and one more; elements that are not aligned */
TEST_F(Atomic, LengthsAndPlaces)
{
    open_atomic(FI_DELIVERY_COMPLETE);
    std::vector<char> memory(8192);
    std::vector<int32_t> ones(2048, 1), old(2048);
    size_t max = 0;

    expose(memory.data(), memory.size());
    ASSERT_EQ(0, fi_compare_atomicvalid(a->ep, FI_INT32, FI_CSWAP, &max));
    ASSERT_LT(max, ones.size());
    for (size_t at : {size_t(0), size_t(1), size_t(6)}) {
        uint64_t addr = (uint64_t)memory.data() + at;
        memset(memory.data(), 0, memory.size());
        ASSERT_EQ(0, call(FETCH, ones.data(), nullptr, old.data(), max, addr, FI_INT32, FI_SUM));
        EXPECT_EQ(0, next(*a).err);
        EXPECT_EQ(0, memcmp(memory.data() + at, ones.data(), max * 4));
        EXPECT_EQ(std::vector<int32_t>(max),
                  std::vector<int32_t>(old.begin(), old.begin() + long(max)));
        EXPECT_EQ(0, memory[at + 4 * max]);
    }
    EXPECT_EQ(-FI_EMSGSIZE, call(FETCH, ones.data(), nullptr, old.data(), max + 1,
                                 (uint64_t)memory.data(), FI_INT32, FI_SUM));
    EXPECT_EQ(-FI_EINVAL, call(BASE, ones.data(), nullptr, nullptr, 0, (uint64_t)memory.data(),
                               FI_INT32, FI_SUM));
    hide();
}

TEST_F(Atomic, PiecesInjectAndMessages)
{
    open_atomic();
    uint64_t memory[4] = {1, 2, 3, 4}, o[4] = {10, 20, 30, 40}, c[4] = {11, 0, 33, 44}, old[4] = {};
    fi_ioc out[2] = {{o, 1}, {o + 1, 3}}, in[2] = {{old, 3}, {old + 3, 1}}, compare[1] = {{c, 4}};
    fi_rma_ioc remote = {(uint64_t)memory, 4, 0};
    fi_msg_atomic msg{};

    expose(memory, sizeof(memory));
    remote.key = key;
    uint64_t injected[4] = {10, 20, 30, 40};
    ASSERT_EQ(0, go([&] {
                  return fi_inject_atomic(a->ep, injected, 4, b_of_a, (uint64_t)memory, key,
                                          FI_UINT64, FI_SUM);
              }));
    std::fill(injected, injected + 4, 7);
    ASSERT_TRUE(wait([&] { return __atomic_load_n(&memory[3], __ATOMIC_ACQUIRE) == 44; }));
    msg.msg_iov = out;
    msg.iov_count = 2;
    msg.addr = b_of_a;
    msg.rma_iov = &remote;
    msg.rma_iov_count = 1;
    msg.datatype = FI_UINT64;
    msg.op = FI_CSWAP;
    ASSERT_EQ(0, go([&] {
                  return fi_compare_atomicmsg(a->ep, &msg, compare, nullptr, 1, in, nullptr, 2,
                                              FI_INJECT);
              }));
    EXPECT_EQ(0, next(*a).err);
    EXPECT_EQ(std::vector<uint64_t>({11, 22, 33, 44}), std::vector<uint64_t>(old, old + 4));
    EXPECT_EQ(std::vector<uint64_t>({10, 22, 30, 40}), std::vector<uint64_t>(memory, memory + 4));
    msg.op = FI_BXOR;
    ASSERT_EQ(0, go([&] { return fi_fetch_atomicmsg(a->ep, &msg, in, nullptr, 2, 0); }));
    EXPECT_EQ(0, next(*a).err);
    EXPECT_EQ(22u, old[1]);
    ASSERT_EQ(0, go([&] { return fi_atomicmsg(a->ep, &msg, FI_DELIVERY_COMPLETE); }));
    EXPECT_EQ(0, next(*a).err);
    EXPECT_EQ(22u, memory[1]);
    msg.op = FI_ATOMIC_READ; /* has no operands */
    msg.msg_iov = nullptr;
    msg.iov_count = 0;
    ASSERT_EQ(0, go([&] { return fi_fetch_atomicmsg(a->ep, &msg, in, nullptr, 2, 0); }));
    EXPECT_EQ(0, next(*a).err);
    EXPECT_EQ(std::vector<uint64_t>(memory, memory + 4), std::vector<uint64_t>(old, old + 4));
    EXPECT_EQ(-FI_EBADFLAGS, fi_fetch_atomicmsg(a->ep, &msg, in, nullptr, 2, FI_REMOTE_CQ_DATA));
    remote.count = 3;
    EXPECT_EQ(-FI_EINVAL, fi_fetch_atomicmsg(a->ep, &msg, in, nullptr, 2, 0));
    EXPECT_TRUE(a->done.empty());
    hide();
}

TEST_F(Atomic, WrongKeysRangesAndRights)
{
    open_atomic();
    uint64_t memory[4] = {1, 2, 3, 4}, one = 1, old = 99, right;

    expose(memory, sizeof(memory), FI_REMOTE_READ);
    right = key;
    struct {
        const char *what;
        Kind kind;
        fi_op op;
        uint64_t addr, key;
        int err;
    } tries[] = {
        {"unknown key", FETCH, FI_SUM, (uint64_t)memory, right + 77, FI_EKEYREJECTED},
        {"change of what may be read", BASE, FI_SUM, (uint64_t)memory, right, FI_EACCES},
        {"fetch and change of it", FETCH, FI_SUM, (uint64_t)memory, right, FI_EACCES},
        {"behind the end", FETCH, FI_ATOMIC_READ, (uint64_t)(memory + 4), right, FI_EINVAL},
        {"half behind the end", FETCH, FI_ATOMIC_READ, (uint64_t)memory + 25, right, FI_EINVAL},
        {"before the beginning", FETCH, FI_ATOMIC_READ, (uint64_t)memory - 1, right, FI_EINVAL},
        {"the last one", FETCH, FI_ATOMIC_READ, (uint64_t)(memory + 3), right, 0},
    };
    for (auto &t : tries) {
        key = t.key;
        ASSERT_EQ(0, call(t.kind, &one, nullptr, &old, 1, t.addr, FI_UINT64, t.op, &t));
        Done done = next(*a);
        EXPECT_EQ(t.err, done.err) << t.what;
        EXPECT_EQ(&t, done.context);
    }
    EXPECT_EQ(4u, old);
    EXPECT_EQ(std::vector<uint64_t>({1, 2, 3, 4}), std::vector<uint64_t>(memory, memory + 4));
    key = right;
    hide();
    ASSERT_EQ(0, call(FETCH, &one, nullptr, &old, 1, (uint64_t)memory, FI_UINT64, FI_ATOMIC_READ));
    EXPECT_EQ(FI_EKEYREJECTED, next(*a).err);
}

/* Without FI_ATOMIC in the hints there is none */
TEST_F(Atomic, OnlyWhenAskedFor)
{
    Wish wish;
    wish.caps = FI_MSG | FI_RMA;
    open(wish);
    uint64_t one = 1;

    EXPECT_EQ(0u, a->info->caps & FI_ATOMIC);
    EXPECT_EQ(-FI_EOPNOTSUPP, call(BASE, &one, nullptr, nullptr, 1, 0, FI_UINT64, FI_SUM));
}

/* Two initiators add to one word, and each sees every value once */
TEST_F(Atomic, CountersOfSeveralInitiators)
{
    enum { ROUNDS = 2000 };
    open_atomic();
    Wish wish;
    wish.caps = FI_ATOMIC;
    Node c(wish);
    fi_addr_t b_of_c = c.know(*b);
    uint64_t memory = 0, one = 1;
    std::vector<uint64_t> seen(2 * ROUNDS, ~0ull), expected;
    fid_cntr *cntr = nullptr;
    fi_cntr_attr attr{};

    expose(&memory, sizeof(memory));
    ASSERT_EQ(0, fi_cntr_open(a->domain, &attr, &cntr, nullptr));
    ASSERT_EQ(0, fi_ep_bind(a->ep, &cntr->fid, FI_READ));
    for (int i = 0; i < ROUNDS; i++) {
        ASSERT_EQ(0, retry({a.get(), b.get(), &c}, [&] {
                      return fi_fetch_atomic(a->ep, &one, 1, nullptr, &seen[size_t(2 * i)], nullptr,
                                             b_of_a, (uint64_t)&memory, key, FI_UINT64, FI_SUM,
                                             nullptr);
                  }));
        ASSERT_EQ(0, retry({a.get(), b.get(), &c}, [&] {
                      return fi_fetch_atomic(c.ep, &one, 1, nullptr, &seen[size_t(2 * i + 1)],
                                             nullptr, b_of_c, (uint64_t)&memory, key, FI_UINT64,
                                             FI_SUM, nullptr);
                  }));
    }
    ASSERT_TRUE(wait_for({a.get(), b.get(), &c},
                         [&] { return a->done.size() == ROUNDS && c.done.size() == ROUNDS; }));
    EXPECT_EQ(uint64_t(ROUNDS), fi_cntr_read(cntr));
    std::sort(seen.begin(), seen.end());
    for (uint64_t i = 0; i < 2 * ROUNDS; i++) {
        expected.push_back(i);
    }
    EXPECT_EQ(expected, seen);
    EXPECT_EQ(uint64_t(2 * ROUNDS), memory);
    hide();
    EXPECT_EQ(0, fi_close(&a->ep->fid)); /* before its counter */
    EXPECT_EQ(0, fi_close(&cntr->fid));
    a->ep = nullptr;
}

} // namespace

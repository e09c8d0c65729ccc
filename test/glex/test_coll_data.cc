/* The data of collective packets: all operations, widths and locations, and what is refused. */
#include "collective.h"

#include <cmath>
#include <memory>
#include <limits>
#include <random>

/* A packet with one unit or more, as the interface makes it. */
struct Packet {
    char data[112];
    uint32_t len = 0;
};

template <typename T> struct Unit {
    T value;
    uint32_t location;
};

template <typename T> glex_coll_data_loc data_loc(Unit<T> unit)
{
    glex_coll_data_loc loc;

    memset(&loc, 0xa5, sizeof(loc));
    memcpy(&loc, &unit.value, sizeof(T));
    if (sizeof(T) == 8) {
        loc.uint64_s.location = unit.location;
    } else {
        loc.uint32_s.location = unit.location;
    }
    return loc;
}

template <typename T> constexpr glex_coll_reduce_data_bits bits_of()
{
    return sizeof(T) == 8 ? GLEX_COLL_REDUCE_DATA_BITS_64 : GLEX_COLL_REDUCE_DATA_BITS_32;
}

template <typename T>
Packet compose(glex_coll_reduce_op op, const std::vector<Unit<T>> &units, uint32_t degree = 2)
{
    std::vector<glex_coll_data_loc> list;
    Packet packet;

    for (const Unit<T> &unit : units) {
        list.push_back(data_loc(unit));
    }
    EXPECT_OK(glex_coll_compose_mp_reduce_data(list.data(), static_cast<uint32_t>(list.size()),
                                               bits_of<T>(), op, degree, packet.data, &packet.len));
    return packet;
}

template <typename T> Unit<T> decompose(void *data, uint32_t count = 1, uint32_t index = 0)
{
    glex_coll_data_loc list[6];
    Unit<T> unit = {};

    EXPECT_OK(glex_coll_decompose_mp_reduce_data(list, count, bits_of<T>(), data));
    memcpy(&unit.value, &list[index], sizeof(T));
    unit.location = sizeof(T) == 8 ? list[index].uint64_s.location : list[index].uint32_s.location;
    return unit;
}

class coll_data : public testing::Test
{
  protected:
    Device dev;
    Ep a{dev}, b{dev}, c{dev};

    /* a sends `x`, b combines it with its own `y`; what c gets. */
    template <typename T> Unit<T> reduce(glex_coll_reduce_op op, Unit<T> x, Unit<T> y)
    {
        Packet mine = compose<T>(op, {y}), other = compose<T>(op, {x});
        glex_imm_mp_req_t req =
            coll_mp(c.addr(), mine.data, mine.len, START | TAIL | REDUCE | SWAP | CP_DATA, 1);
        char got[112];
        glex_ep_addr_t src;
        uint32_t len = 0;

        EXPECT_OK(glex_send_imm_mp(b, &req, nullptr));
        req = coll_mp(b.addr(), other.data, other.len, REDUCE | SWAP_DATA | COUNTER);
        EXPECT_OK(glex_send_imm_mp(a, &req, nullptr));
        EXPECT_OK(glex_receive_mp(c, 0, &src, got, &len));
        EXPECT_EQ(mine.len, len);
        return decompose<T>(got);
    }

    /* A sum, and both selections with their locations. */
    template <typename T> void numbers(glex_coll_reduce_op sum)
    {
        glex_coll_reduce_op max = static_cast<glex_coll_reduce_op>(sum + 1),
                            min = static_cast<glex_coll_reduce_op>(sum + 2);
        std::mt19937_64 random(7);

        for (int i = 0; i < 200; i++) {
            T x = static_cast<T>(random()), y = static_cast<T>(random());
            uint32_t lx = static_cast<uint32_t>(random()), ly = static_cast<uint32_t>(random());

            if (i % 4 == 0) {
                y = x;
            }
            Unit<T> got = reduce<T>(max, {x, lx}, {y, ly});
            EXPECT_EQ(x > y ? x : y, got.value);
            EXPECT_EQ(x == y ? std::min(lx, ly) : x > y ? lx : ly, got.location);
            got = reduce<T>(min, {x, lx}, {y, ly});
            EXPECT_EQ(x < y ? x : y, got.value);
            EXPECT_EQ(x == y ? std::min(lx, ly) : x < y ? lx : ly, got.location);
            EXPECT_EQ(sum_of(x, y), reduce<T>(sum, {x, lx}, {y, ly}).value);
        }
    }

    template <typename T> static T sum_of(T x, T y)
    {
        if constexpr (std::is_floating_point<T>::value) {
            return x + y;
        } else {
            return static_cast<T>(static_cast<uint64_t>(x) + static_cast<uint64_t>(y));
        }
    }

    template <typename T> void logical()
    {
        std::mt19937_64 random(8);

        for (int i = 0; i < 100; i++) {
            T x = i % 3 ? static_cast<T>(random()) : 0, y = i % 5 ? static_cast<T>(random()) : 0;
            const T expected[] = {static_cast<T>(x && y),   static_cast<T>(x || y),
                                  static_cast<T>(!x != !y), static_cast<T>(x & y),
                                  static_cast<T>(x | y),    static_cast<T>(x ^ y)};

            for (int op = GLEX_COLL_REDUCE_LAND; op <= GLEX_COLL_REDUCE_BXOR; op++) {
                EXPECT_EQ(expected[op - GLEX_COLL_REDUCE_LAND],
                          reduce<T>(static_cast<glex_coll_reduce_op>(op), {x, 1}, {y, 2}).value)
                    << op;
            }
        }
    }
};

TEST_F(coll_data, numbers)
{
    numbers<int32_t>(GLEX_COLL_REDUCE_SUM_SIGNED);
    numbers<int64_t>(GLEX_COLL_REDUCE_SUM_SIGNED);
    numbers<uint32_t>(GLEX_COLL_REDUCE_SUM_UNSIGNED);
    numbers<uint64_t>(GLEX_COLL_REDUCE_SUM_UNSIGNED);
    numbers<float>(GLEX_COLL_REDUCE_SUM_FLOAT);
    numbers<double>(GLEX_COLL_REDUCE_SUM_FLOAT);
}

TEST_F(coll_data, logical)
{
    logical<uint32_t>();
    logical<uint64_t>();
}

TEST_F(coll_data, limits_of_numbers)
{
    const int64_t min = std::numeric_limits<int64_t>::min();
    const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();

    EXPECT_EQ(std::numeric_limits<int64_t>::max(),
              reduce<int64_t>(GLEX_COLL_REDUCE_SUM_SIGNED, {min, 0}, {-1, 0}).value);
    EXPECT_EQ(-1, reduce<int32_t>(GLEX_COLL_REDUCE_MAXLOC_SIGNED, {-1, 0}, {-2, 0}).value);
    EXPECT_EQ(0xffffffffu,
              reduce<uint32_t>(GLEX_COLL_REDUCE_MAXLOC_UNSIGNED, {0xffffffff, 0}, {1, 0}).value);
    EXPECT_EQ(inf, reduce<double>(GLEX_COLL_REDUCE_MAXLOC_FLOAT, {inf, 0}, {1, 0}).value);
    /* What is no number wins, wherever it comes from. */
    for (auto op : {GLEX_COLL_REDUCE_MAXLOC_FLOAT, GLEX_COLL_REDUCE_MINLOC_FLOAT}) {
        EXPECT_TRUE(std::isnan(reduce<double>(op, {nan, 3}, {1, 4}).value));
        EXPECT_EQ(4u, reduce<double>(op, {1, 3}, {nan, 4}).location);
        EXPECT_EQ(3u, reduce<double>(op, {nan, 3}, {nan, 4}).location);
    }
}

TEST_F(coll_data, up_to_6_units)
{
    for (uint32_t count = 1; count <= 6; count++) {
        std::vector<Unit<double>> units;

        for (uint32_t i = 0; i < count; i++) {
            units.push_back({i * 1.5, i + 100});
        }
        Packet packet = compose<double>(GLEX_COLL_REDUCE_SUM_FLOAT, units, 32);
        EXPECT_GE(112u, packet.len);
        for (uint32_t i = 0; i < count; i++) {
            EXPECT_EQ(i * 1.5, decompose<double>(packet.data, count, i).value);
            EXPECT_EQ(i + 100, decompose<double>(packet.data, count, i).location);
        }
    }
}

TEST_F(coll_data, bad_parameters)
{
    glex_coll_data_loc list[7] = {};
    Packet p;
    auto compose_ret = [&](uint32_t count, int bits, int op, uint32_t degree) {
        return glex_coll_compose_mp_reduce_data(
            list, count, static_cast<glex_coll_reduce_data_bits>(bits),
            static_cast<glex_coll_reduce_op>(op), degree, p.data, &p.len);
    };

    EXPECT_OK(compose_ret(6, 1, 0xe, 32));
    EXPECT_EQ(GLEX_INVALID_PARAM, compose_ret(0, 1, 0, 1));
    EXPECT_EQ(GLEX_INVALID_PARAM, compose_ret(7, 1, 0, 1));
    EXPECT_EQ(GLEX_INVALID_PARAM, compose_ret(1, 2, 0, 1));
    EXPECT_EQ(GLEX_INVALID_PARAM, compose_ret(1, 1, 0xf, 1));
    EXPECT_EQ(GLEX_INVALID_PARAM, compose_ret(1, 1, 0, 33));
    ASSERT_OK(compose_ret(2, 1, 0, 1));
    EXPECT_EQ(GLEX_INVALID_PARAM,
              glex_coll_decompose_mp_reduce_data(list, 1, GLEX_COLL_REDUCE_DATA_BITS_64, p.data));
    EXPECT_EQ(GLEX_INVALID_PARAM,
              glex_coll_decompose_mp_reduce_data(list, 2, GLEX_COLL_REDUCE_DATA_BITS_32, p.data));
    p.data[0] ^= 1;
    EXPECT_EQ(GLEX_INVALID_PARAM,
              glex_coll_decompose_mp_reduce_data(list, 2, GLEX_COLL_REDUCE_DATA_BITS_64, p.data));
}

/* Packets of another operation, width or length cannot be combined: the owner is told. */
TEST_F(coll_data, what_does_not_fit_together)
{
    Packet mine = compose<double>(GLEX_COLL_REDUCE_SUM_FLOAT, {{1.0, 0}});
    Packet others[] = {compose<double>(GLEX_COLL_REDUCE_MAXLOC_FLOAT, {{1.0, 0}}),
                       compose<float>(GLEX_COLL_REDUCE_SUM_FLOAT, {{1.0f, 0}}),
                       compose<double>(GLEX_COLL_REDUCE_SUM_FLOAT, {{1.0, 0}, {2.0, 0}})};

    for (Packet &other : others) {
        glex_imm_mp_req_t req =
            coll_mp(c.addr(), mine.data, mine.len, START | TAIL | REDUCE | SWAP, 1);

        ASSERT_OK(glex_send_imm_mp(b, &req, nullptr));
        req = coll_mp(b.addr(), other.data, other.len, REDUCE | SWAP_DATA | COUNTER);
        ASSERT_OK(glex_send_imm_mp(a, &req, nullptr));
        EXPECT_EQ(GLEX_ERR_STATUS_FORMAT, b.only_error());
        EXPECT_EQ(-1, c.receive_number(0));
    }
}

/* 32 children and the own data; the finished result goes down. */
TEST_F(coll_data, widest_tree)
{
    Ep down(dev);
    std::vector<std::unique_ptr<Ep>> leaves;
    uint64_t sum = 1000;
    Packet mine = compose<uint64_t>(GLEX_COLL_REDUCE_SUM_UNSIGNED, {{1000, 0}}, 32);
    glex_imm_mp_req_t req = coll_mp(down.addr(), mine.data, mine.len,
                                    START | TAIL | REDUCE | SWAP | COUNTER | SWAP_DATA, 32);

    ASSERT_OK(glex_send_imm_mp(b, &req, nullptr));
    for (uint32_t i = 0; i < 32; i++) {
        leaves.emplace_back(new Ep(dev, ep_attr(GLEX_ANY_EP_NUM, 4)));
        req = coll_mp(leaves[i]->addr(), nullptr, 0,
                      (i == 0  ? START :
                       i == 31 ? TAIL :
                                 0) |
                          RESULT | SWAP | CP_DATA,
                      1);
        ASSERT_OK(glex_send_imm_mp(down, &req, nullptr));
    }
    for (uint32_t i = 0; i < 32; i++) {
        Packet packet = compose<uint64_t>(GLEX_COLL_REDUCE_SUM_UNSIGNED, {{i, i}}, 32);

        sum += i;
        req = coll_mp(b.addr(), packet.data, packet.len, REDUCE | SWAP_DATA | COUNTER);
        ASSERT_OK(glex_send_imm_mp(*leaves[i], &req, nullptr));
    }
    for (uint32_t i = 0; i < 32; i++) {
        char got[112];
        glex_ep_addr_t src;
        uint32_t len;

        ASSERT_OK(glex_receive_mp(*leaves[i], 0, &src, got, &len));
        EXPECT_EQ(down.addr().v, src.v);
        EXPECT_EQ(sum, decompose<uint64_t>(got).value);
    }
}

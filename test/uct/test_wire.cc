/*
 * Encodings of events: what goes in comes out, and no field reaches into another.
 */
#include "internals.h"

#include <gtest/gtest.h>

namespace {

struct ErEvent {
    uint32_t length;
    uint8_t  flags;
    uint16_t er_units, er_msgs;
    uint8_t  am_id;
    uint16_t index;
    uint8_t  gen;
    uint16_t seq, mp_limit;
};

const ErEvent er_events[] = {
    {0, 0, 0, 0, 0, 0, 0, 0, 0},
    {UCT_GLEX_ER_MAX_LENGTH, 0, 0, 0, 0, 0, 0, 0, 0},
    {0, 0xff, 0, 0, 0, 0, 0, 0, 0},
    {0, 0, 0xffff, 0, 0, 0, 0, 0, 0},
    {0, 0, 0, 0xffff, 0, 0, 0, 0, 0},
    {0, 0, 0, 0, 31, 0, 0, 0, 0},
    {0, 0, 0, 0, 0, 0xffff, 0, 0, 0},
    {0, 0, 0, 0, 0, 0, 0xff, 0, 0},
    {0, 0, 0, 0, 0, 0, 0, 0xffff, 0},
    {0, 0, 0, 0, 0, 0, 0, 0, 0xffff},
    {UCT_GLEX_ER_MAX_LENGTH, 0xff, 0xffff, 0xffff, 31, 0xffff, 0xff, 0xffff, 0xffff},
    {0x123456, 0xa7, 0x89ab, 0xcdef, 21, 0xfedc, 0xba, 0x9876, 0x5432},
};

/* As docs/protocol.md and the comment in glex_wire.h have it */
TEST(Wire, ErEventRoundTrip)
{
    for (const ErEvent &e : er_events) {
        uint64_t base     = uct_glex_er_cookie_1_base(e.index, e.gen);
        uint64_t cookie_0 = uct_glex_er_cookie_0(e.length, e.flags, e.er_units, e.er_msgs);
        uint64_t cookie_1 = uct_glex_er_cookie_1(base, e.am_id, e.seq, e.mp_limit);

        EXPECT_EQ(cookie_0 & 0xffffff, e.length);
        EXPECT_EQ((cookie_0 >> 24) & 0xff, e.flags);
        EXPECT_EQ((cookie_0 >> 32) & 0xffff, e.er_units);
        EXPECT_EQ(cookie_0 >> 48, e.er_msgs);
        EXPECT_EQ(cookie_1 & UCT_GLEX_EVENT_TYPE_MASK, (uint64_t)UCT_GLEX_EVENT_ER);
        EXPECT_EQ((cookie_1 >> 3) & 0x1f, e.am_id);
        EXPECT_EQ((cookie_1 >> 8) & 0xffff, e.index);
        EXPECT_EQ((cookie_1 >> 24) & 0xff, e.gen);
        EXPECT_EQ((cookie_1 >> 32) & 0xffff, e.seq);
        EXPECT_EQ(cookie_1 >> 48, e.mp_limit);
        EXPECT_NE(cookie_1, 0u) << "the NIC takes 0 for no event";
    }
}

TEST(Wire, OpEventRoundTrip)
{
    for (uint32_t id : {0u, 1u, 0xfffffu, 0x100000u, 0x80000000u, 0xffffffffu}) {
        uint64_t cookie_1 = uct_glex_op_cookie_1(id);

        EXPECT_EQ(cookie_1 & UCT_GLEX_EVENT_TYPE_MASK, (uint64_t)UCT_GLEX_EVENT_OP);
        EXPECT_EQ(cookie_1 >> 32, id);
        EXPECT_NE(cookie_1, 0u);
    }
}

/* The epoch travels in what the flags leave free, of an MP and of an ER event alike */
TEST(Wire, EpochBesideFlags)
{
    const unsigned mp_flags = UCT_GLEX_MP_FLAG_ACK | UCT_GLEX_MP_FLAG_MORE | UCT_GLEX_MP_FLAG_ZC;
    const unsigned er_flags = UCT_GLEX_ER_FLAG_WRAP | UCT_GLEX_ER_FLAG_ACK | UCT_GLEX_ER_FLAG_ZC;

    EXPECT_LT(mp_flags, 1u << UCT_GLEX_MP_EPOCH_SHIFT);
    EXPECT_LT(er_flags, 1u << UCT_GLEX_ER_EPOCH_SHIFT);
    for (unsigned epoch = 0; epoch <= UCT_GLEX_EPOCH_MASK; ++epoch) {
        uint16_t mp = mp_flags | (epoch << UCT_GLEX_MP_EPOCH_SHIFT);
        uint8_t er  = er_flags | (epoch << UCT_GLEX_ER_EPOCH_SHIFT);

        EXPECT_EQ(mp >> UCT_GLEX_MP_EPOCH_SHIFT, (int)epoch);
        EXPECT_EQ(er >> UCT_GLEX_ER_EPOCH_SHIFT, (int)epoch);
    }
}

/* Every structure that is sent in one MP fits into one */
TEST(Wire, SizesFitTheNic)
{
    EXPECT_LE(sizeof(uct_glex_mp_hdr_t) + sizeof(uct_glex_ctl_t), (size_t)UCT_GLEX_MP_LEN);
    EXPECT_LE(sizeof(uct_glex_mp_hdr_t) + sizeof(uct_glex_sr_t), (size_t)UCT_GLEX_MP_LEN);
    EXPECT_EQ(UCT_GLEX_MP_DATA_LEN, (size_t)UCT_GLEX_IMM_PUT_LEN)
            << "am_short goes by an MP or by an immediate put: the shorter one is the limit";
}

} // namespace

/*
 * Encodings of events: what goes in comes out, and no field reaches into another.
 */
#include "internals.h"

#include <gtest/gtest.h>

namespace
{

struct Header {
    unsigned type;
    uint8_t am_id, flags;
    uint32_t vc_id;
    uint16_t seq, length, mp_limit, er_units, er_msgs;
};

const Header headers[] = {
    {0, 0, 0, 0, 0, 0, 0, 0, 0},
    {7, 0, 0, 0, 0, 0, 0, 0, 0},
    {0, 31, 0, 0, 0, 0, 0, 0, 0},
    {0, 0, 0xff, 0, 0, 0, 0, 0, 0},
    {0, 0, 0, 0xffffffff, 0, 0, 0, 0, 0},
    {0, 0, 0, 0, 0xffff, 0, 0, 0, 0},
    {0, 0, 0, 0, 0, 0xffff, 0, 0, 0},
    {0, 0, 0, 0, 0, 0, 0xffff, 0, 0},
    {0, 0, 0, 0, 0, 0, 0, 0xffff, 0},
    {0, 0, 0, 0, 0, 0, 0, 0, 0xffff},
    {7, 31, 0xff, 0xffffffff, 0xffff, 0xffff, 0xffff, 0xffff, 0xffff},
    {5, 21, 0xa7, 0xfedcba98, 0x7654, 0x3210, 0x5432, 0x89ab, 0xcdef},
};

/* As docs/protocol.md and the comments in glex_wire.h have it: the words that are put together and
 * taken apart, and the fields where each begins */
TEST(Wire, HeaderRoundTrip)
{
    for (const Header &h : headers) {
        uct_glex_hdr_t hdr = {};
        uint64_t word;

        hdr.flags = h.flags;
        hdr.vc_id = h.vc_id;
        hdr.seq = h.seq;
        hdr.credits.length = h.length;
        hdr.credits.mp_limit = h.mp_limit;
        hdr.credits.er = {h.er_units, h.er_msgs};
        hdr.word |= uct_glex_hdr_type_am(h.type, h.am_id);

        word = hdr.word;
        EXPECT_EQ(hdr.type_am, h.type | (h.am_id << 3));
        EXPECT_EQ(uct_glex_hdr_type(word), h.type);
        EXPECT_EQ(uct_glex_hdr_am_id(word), h.am_id);
        EXPECT_EQ(uct_glex_hdr_flags(word), h.flags);
        EXPECT_EQ(uct_glex_hdr_vc_id(word), h.vc_id);
        EXPECT_EQ(uct_glex_hdr_seq(word), h.seq);
        EXPECT_EQ(hdr.credits.word & 0xffff, h.length);
        EXPECT_EQ((hdr.credits.word >> 16) & 0xffff, h.mp_limit);
        EXPECT_EQ((hdr.credits.word >> 32) & 0xffff, h.er_units);
        EXPECT_EQ(hdr.credits.word >> 48, h.er_msgs);
    }
}

/* One more of what stands uppermost: nothing else changes, and the counter wraps */
TEST(Wire, CountingInWords)
{
    for (const Header &h : headers) {
        uct_glex_hdr_t hdr = {}, before;

        hdr.vc_id = h.vc_id;
        hdr.seq = h.seq;
        hdr.credits.mp_limit = h.mp_limit;
        hdr.credits.er = {h.er_units, h.er_msgs};
        before = hdr;

        hdr.word += UCT_GLEX_HDR_ONE_SEQ;
        hdr.credits.word += UCT_GLEX_CREDITS_ONE_MSG;
        EXPECT_EQ(hdr.seq, (uint16_t)(h.seq + 1));
        EXPECT_EQ(hdr.credits.er.msgs, (uint16_t)(h.er_msgs + 1));
        hdr.seq = before.seq;
        hdr.credits.er.msgs = before.credits.er.msgs;
        EXPECT_EQ(hdr.word, before.word);
        EXPECT_EQ(hdr.credits.word, before.credits.word);
    }
}

TEST(Wire, OpEventRoundTrip)
{
    for (uint32_t id : {0u, 1u, 0xfffffu, 0x100000u, 0x80000000u, 0xffffffffu}) {
        for (auto type : {UCT_GLEX_EVENT_OP, UCT_GLEX_EVENT_PUTS}) {
            uint64_t cookie_1 = uct_glex_op_cookie_1(type, id);

            EXPECT_EQ(cookie_1 & UCT_GLEX_TYPE_MASK, (uint64_t)type);
            EXPECT_EQ(cookie_1 >> 32, id);
            EXPECT_NE(cookie_1, 0u);
        }
    }
}

/* Every structure that is sent in one MP fits into one */
TEST(Wire, SizesFitTheNic)
{
    EXPECT_LE(sizeof(uct_glex_hdr_t) + sizeof(uct_glex_ctl_t), (size_t)UCT_GLEX_MP_LEN);
    EXPECT_LE(sizeof(uct_glex_hdr_t) + sizeof(uct_glex_sr_t), (size_t)UCT_GLEX_MP_LEN);
    EXPECT_EQ(UCT_GLEX_MP_DATA_LEN, (size_t)UCT_GLEX_IMM_PUT_LEN)
        << "am_short goes by an MP or by an immediate put: the shorter one is the limit";
}

} // namespace

// Formats: descriptor, packet, routing table.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>

extern "C" {
#include "common/nmp.h"
#include "inm/wire/flit.h"
#include "inm/wire/table.h"
}

static std::mt19937_64 rng(22);

static nmp_desc random_desc(unsigned type)
{
    nmp_desc d;
    nmp_init(&d, static_cast<nmp_type>(type), NMP_CHIP_NRC, rng() & 0xffffff);
    d.fence = rng() & 1;
    d.err = rng() & 1;
    d.src_vp = rng();
    d.dest_vp = rng();
    d.transaction = rng();
    for (nmp_route *r : {&d.forward, &d.backward}) {
        r->num = rng() % (NMP_MAX_HOPS + 1);
        for (int i = 0; i < r->num; i++) {
            r->hop[i] = rng() % 32;
        }
    }
    d.data.count = rng() % 7;
    d.data.status = rng() % 6;
    if (type == NMP_REPORT) {
        d.data.report.event = rng();
        d.data.report.port = rng();
        d.data.report.src_type = rng();
        d.data.report.src_id = rng() & 0xffffff;
        d.data.report.seq = rng();
        d.data.report.value = rng();
    } else {
        int n = type >= NMP_EEP_READ_REQ ? NMP_MAX_BYTES : NMP_MAX_REGS;
        for (int i = 0; i < n; i++) {
            d.data.addr[i] = rng();
            if (type >= NMP_EEP_READ_REQ) {
                d.data.byte[i] = rng();
            } else {
                d.data.reg[i] = rng();
            }
        }
    }
    return d;
}

TEST(Descriptor, RoundTripOfEveryType)
{
    for (int n = 0; n < 20000; n++) {
        nmp_desc d = random_desc(1 + n % 11), back;
        uint8_t buf[NMP_DESC_BYTES];
        nmp_encode(&d, buf);
        ASSERT_TRUE(nmp_decode(buf, &back));
        ASSERT_EQ(d.dest_id, back.dest_id);
        ASSERT_EQ(d.transaction, back.transaction);
        ASSERT_EQ(d.fence, back.fence);
        ASSERT_EQ(d.src_vp, back.src_vp);
        ASSERT_EQ(0, memcmp(&d.forward, &back.forward, sizeof(d.forward)));
        ASSERT_EQ(0, memcmp(&d.backward, &back.backward, sizeof(d.backward)));
        ASSERT_EQ(0, memcmp(d.data.addr, back.data.addr, sizeof(d.data.addr)));
        ASSERT_EQ(0, memcmp(d.data.reg, back.data.reg, sizeof(d.data.reg)));
        ASSERT_EQ(0, memcmp(d.data.byte, back.data.byte, sizeof(d.data.byte)));
        ASSERT_EQ(d.data.report.value, back.data.report.value);
        ASSERT_EQ(d.data.report.src_id, back.data.report.src_id);
        ASSERT_EQ(d.data.report.seq, back.data.report.seq);
    }
}

TEST(Descriptor, AnyBytesAreDecodedWithinBounds)
{
    for (int n = 0; n < 200000; n++) {
        uint8_t buf[NMP_DESC_BYTES];
        for (auto &b : buf) {
            b = rng();
        }
        nmp_desc d;
        bool ok = nmp_decode(buf, &d);
        ASSERT_LE(d.forward.num, NMP_MAX_HOPS);
        ASSERT_LE(d.backward.num, NMP_MAX_HOPS);
        ASSERT_EQ(ok && d.head != NMP_HEAD, false);
        nmp_encode(&d, buf);
    }
}

TEST(Descriptor, ForeignPacketsAreRefused)
{
    nmp_desc d = random_desc(NMP_REG_READ_REQ), back;
    uint8_t buf[NMP_DESC_BYTES];
    const struct {
        unsigned bit, width, value;
    } wrong[] = {{NMP_BIT_HEAD, 8, 0},
                 {NMP_BIT_TYPE, 4, 1},
                 {NMP_BIT_RT_TYPE, 2, 0},
                 {NMP_BIT_FROUTE, 5, 21},
                 {NMP_BIT_BROUTE, 5, 31}};
    for (auto &w : wrong) {
        nmp_encode(&d, buf);
        ASSERT_TRUE(nmp_decode(buf, &back));
        nmp_put_bits(buf, w.bit, w.width, w.value);
        EXPECT_FALSE(nmp_decode(buf, &back)) << w.bit;
    }
}

TEST(Packet, RoundTripAndEveryWrongBitIsSeen)
{
    nmp_desc d = random_desc(NMP_REG_WRITE_REQ);
    uint8_t desc[NMP_DESC_BYTES], back[NMP_DESC_BYTES], packet[PACKET_BYTES];
    nmp_encode(&d, desc);
    flit_pack(desc, packet);
    ASSERT_TRUE(flit_unpack(packet, back));
    ASSERT_EQ(0, memcmp(desc, back, sizeof(desc)));
    int seen = 0;
    for (int bit = 0; bit < PACKET_BITS; bit++) {
        packet[bit / 8] ^= 1 << bit % 8;
        seen += !flit_unpack(packet, back);
        packet[bit / 8] ^= 1 << bit % 8;
    }
    // All but the hop count and what is reserved: 57 + 5 in the head, 2 x 4, 164 in the tail.
    EXPECT_EQ(PACKET_BITS - 57 - 5 - 8 - 164, seen);
}

TEST(Table, EqualsAPlainArray)
{
    for (int round = 0; round < 200; round++) {
        inm_table table = {nullptr, 0, 0};
        std::map<uint32_t, uint32_t> model;
        for (int n = 0; n < 60; n++) {
            uint32_t first = rng() % 300, num = 1 + rng() % 60, ports = rng() % 4;
            ASSERT_TRUE(inm_table_set(&table, first, num, ports));
            for (uint32_t i = first; i < first + num; i++) {
                model[i] = ports;
            }
            for (uint32_t i = 0; i < 400; i++) {
                ASSERT_EQ(model.count(i) ? model[i] : 0, inm_table_get(&table, i)) << i;
            }
            for (uint32_t i = 1; i < table.num; i++) {
                ASSERT_GE(table.runs[i].first, table.runs[i - 1].first + table.runs[i - 1].num);
            }
        }
        inm_table_clear(&table);
    }
}

// Unit tests of what commatrix is made of: sequence numbers, packets cut anywhere, ranks, maps.
#include <gtest/gtest.h>

#include <vector>

extern "C" {
#include "flow/psn.h"
#include "flow/rank.h"
#include "flow/traffic.h"
#include "matrix/map.h"
#include "matrix/matrix.h"
#include "read/packet.h"
}

namespace
{

constexpr uint32_t SKEW = 100;

struct Numbers {
    struct cm_psn psn = {};
    uint32_t now = 1000, lost = 0;

    cm_psn_verdict at(uint32_t number, uint32_t later)
    {
        now += later;
        return cm_psn_arrive(&psn, number, now, SKEW, &lost);
    }
};

TEST(Psn, GapIsLost)
{
    Numbers n;
    EXPECT_EQ(CM_PSN_NEW, n.at(10, 1));
    EXPECT_EQ(CM_PSN_NEW, n.at(14, 1));
    EXPECT_EQ(3u, n.lost);
    EXPECT_EQ(CM_PSN_LATE, n.at(12, 1));
    EXPECT_EQ(CM_PSN_DUPLICATE, n.at(12, 1));
}

TEST(Psn, WrapsAround)
{
    Numbers n;
    EXPECT_EQ(CM_PSN_NEW, n.at(0xfffffe, 1));
    EXPECT_EQ(CM_PSN_NEW, n.at(0xffffff, 1));
    EXPECT_EQ(CM_PSN_NEW, n.at(0, 1));
    EXPECT_EQ(0u, n.lost);
    EXPECT_EQ(CM_PSN_DUPLICATE, n.at(0xffffff, 1));
    EXPECT_EQ(CM_PSN_NEW, n.at(3, 1));
    EXPECT_EQ(2u, n.lost);
}

TEST(Psn, CopyComesAtOnceRetransmissionLater)
{
    Numbers n;
    n.at(1, 1);
    n.at(2, 1);
    EXPECT_EQ(CM_PSN_DUPLICATE, n.at(2, SKEW - 1));
    EXPECT_EQ(CM_PSN_RETRANSMISSION, n.at(2, SKEW));
    EXPECT_EQ(CM_PSN_DUPLICATE, n.at(2, 1)); // a copy of the retransmission
}

TEST(Psn, RetransmissionGoesOn)
{
    Numbers n;
    for (uint32_t i = 0; i < 8; i++) {
        n.at(i, 1);
    }
    EXPECT_EQ(CM_PSN_RETRANSMISSION, n.at(4, 1000));
    EXPECT_EQ(CM_PSN_RETRANSMISSION, n.at(5, 1));
    EXPECT_EQ(CM_PSN_RETRANSMISSION, n.at(6, 1));
    EXPECT_EQ(CM_PSN_DUPLICATE, n.at(5, 1));
    EXPECT_EQ(CM_PSN_RETRANSMISSION, n.at(7, 1));
    EXPECT_EQ(CM_PSN_NEW, n.at(8, 1));
}

TEST(Psn, NakAsksAgain)
{
    Numbers n;
    for (uint32_t i = 0; i < 8; i++) {
        n.at(i, 1);
    }
    cm_psn_nak(&n.psn, 5);
    EXPECT_EQ(CM_PSN_RETRANSMISSION, n.at(5, 1));
    EXPECT_EQ(CM_PSN_RETRANSMISSION, n.at(6, 1));
    EXPECT_EQ(CM_PSN_NEW, n.at(8, 1));
    EXPECT_EQ(0u, n.lost);
}

TEST(Psn, AnswersOfReadsTakeNumbers)
{
    Numbers n;
    n.at(1, 1);
    cm_psn_pass_over(&n.psn, 4);
    EXPECT_EQ(CM_PSN_NEW, n.at(6, 1));
    EXPECT_EQ(0u, n.lost);
    EXPECT_EQ(CM_PSN_NEW, n.at(8, 1));
    EXPECT_EQ(1u, n.lost);
}

TEST(Psn, NewConnectionIsNoLoss)
{
    Numbers n;
    n.at(0x100000, 1);
    EXPECT_EQ(CM_PSN_NEW, n.at(0x700000, 1));
    EXPECT_EQ(0u, n.lost);
}

// A RoCEv2 frame: Ethernet, IPv4, UDP, BTH, DETH, eight bytes of data, ICRC.
std::vector<uint8_t> datagram()
{
    std::vector<uint8_t> f(14 + 20 + 8 + 12 + 8 + 8 + 4);
    f[12] = 0x08;
    uint8_t *ip = &f[14];
    ip[0] = 0x45;
    ip[3] = uint8_t(f.size() - 14);
    ip[9] = 17;
    ip[12] = ip[16] = 10;
    ip[15] = 1;
    ip[19] = 2;
    uint8_t *udp = ip + 20;
    udp[2] = 4791 >> 8;
    udp[3] = 4791 & 0xff;
    udp[5] = uint8_t(f.size() - 34);
    uint8_t *bth = udp + 8;
    bth[0] = 0x64;
    bth[7] = 9;
    bth[11] = 5;
    bth[12 + 7] = 8;
    return f;
}

TEST(Packet, Datagram)
{
    auto f = datagram();
    cm_packet p;
    cm_packet_parse(&p, 1, f.data(), uint32_t(f.size()), uint32_t(f.size()));
    EXPECT_EQ(CM_KIND_DATA, p.kind);
    EXPECT_FALSE(p.cut);
    EXPECT_EQ(9u, p.dst_qpn);
    EXPECT_EQ(8u, p.src_qpn);
    EXPECT_EQ(5u, p.psn);
    EXPECT_EQ(8u, p.payload);
    EXPECT_EQ(f.data() + 62, p.data);
    EXPECT_EQ(8u, p.data_len);
}

// A copy of just so many bytes on the heap: the address sanitizer sees each byte too many.
TEST(Packet, CutAnywhere)
{
    auto f = datagram();
    for (uint32_t len = 0; len <= f.size(); len++) {
        std::vector<uint8_t> cut(f.begin(), f.begin() + len);
        cut.shrink_to_fit();
        for (int link : {1, 113, 276, 247, 197, 12}) {
            cm_packet p;
            cm_packet_parse(&p, link, cut.data(), len, uint32_t(f.size()));
            EXPECT_EQ(link == 197 && len >= 16 ? p.wire : f.size(), p.wire);
        }
    }
    std::vector<uint8_t> headers(f.begin(), f.begin() + 62);
    cm_packet p;
    cm_packet_parse(&p, 1, headers.data(), 62, uint32_t(f.size()));
    EXPECT_FALSE(p.cut);
    EXPECT_EQ(8u, p.payload);
    EXPECT_EQ(0u, p.data_len);
    cm_packet_parse(&p, 1, headers.data(), 61, uint32_t(f.size()));
    EXPECT_TRUE(p.cut);
}

cm_packet message(const std::vector<uint8_t> &data)
{
    cm_packet p = {};
    p.transport = CM_RC;
    p.operation = CM_SEND_ONLY;
    p.data = data.data();
    p.data_len = p.payload = uint32_t(data.size());
    return p;
}

std::vector<uint8_t> eager(uint64_t tag)
{
    std::vector<uint8_t> data{2}; // UCP_AM_ID_EAGER_ONLY
    for (int i = 0; i < 8; i++) {
        data.push_back(uint8_t(tag >> 8 * i));
    }
    return data;
}

TEST(Rank, OpenMpiOverUcx)
{
    cm_vote votes[CM_NUM_MPI] = {};
    auto data = eager(uint64_t(7) << 40 | uint64_t(12345) << 20); // tag 7, rank, MPI_COMM_WORLD
    auto p = message(data);
    cm_rank_vote(votes, &p);
    EXPECT_EQ(12345u, votes[CM_MPI_OMPI_UCX].rank);
    EXPECT_EQ(1u, votes[CM_MPI_OMPI_UCX].lead);
    auto other = eager(uint64_t(7) << 40 | uint64_t(3) << 20 | 5); // another communicator
    p = message(other);
    cm_rank_vote(votes, &p);
    EXPECT_EQ(1u, votes[CM_MPI_OMPI_UCX].lead);
}

TEST(Rank, Mpich)
{
    cm_vote votes[CM_NUM_MPI] = {};
    auto data = eager(uint64_t(77) << 32 | 99);
    auto p = message(data);
    cm_rank_vote(votes, &p);
    EXPECT_EQ(77u, votes[CM_MPI_MPICH_UCX].rank);
}

TEST(Rank, Openib)
{
    cm_vote votes[CM_NUM_MPI] = {};
    std::vector<uint8_t> data(40);
    data[0] = data[4] = 65;
    data[8] = 21;
    auto p = message(data);
    cm_rank_vote(votes, &p);
    EXPECT_EQ(21u, votes[CM_MPI_OMPI_OPENIB].rank);
    EXPECT_EQ(1u, votes[CM_MPI_OMPI_OPENIB].lead);
}

TEST(Rank, Mvapich)
{
    cm_vote votes[CM_NUM_MPI] = {};
    std::vector<uint8_t> data(40);
    data[28] = 6;
    auto p = message(data);
    cm_rank_vote(votes, &p);
    EXPECT_EQ(6u, votes[CM_MPI_MVAPICH].rank);
}

// Through SR and through ER; not a descriptor of zero copy, which begins otherwise.
TEST(Rank, Glex)
{
    for (uint8_t zero_copy : {0, 2}) {
        cm_vote votes[CM_NUM_MPI] = {};
        std::vector<uint8_t> data(16); // the header of a message: type and id, flags, ...
        auto tag = eager(uint64_t(7) << 40 | uint64_t(5) << 20);
        data[0] = 2 << 3 | 6;
        data[1] = zero_copy;
        data.insert(data.end(), tag.begin() + 1, tag.end());
        auto p = message(data);
        p.transport = CM_RD;
        cm_rank_vote(votes, &p);
        EXPECT_EQ(zero_copy ? 0u : 1u, votes[CM_MPI_OMPI_UCX].lead);
        p.operation = CM_WRITE_ONLY_IMM;
        p.q_key = 2 << 3 | 1 | uint32_t(zero_copy) << 8;
        p.data += 16;
        p.data_len -= 16;
        cm_rank_vote(votes, &p);
        EXPECT_EQ(zero_copy ? 0u : 2u, votes[CM_MPI_OMPI_UCX].lead);
        EXPECT_EQ(zero_copy ? 0u : 5u, votes[CM_MPI_OMPI_UCX].rank);
    }
}

TEST(Rank, ShortMessageVotesForNothing)
{
    auto data = eager(uint64_t(1) << 20);
    for (size_t len = 0; len < data.size(); len++) {
        cm_vote votes[CM_NUM_MPI] = {};
        std::vector<uint8_t> cut(data.begin(), data.begin() + long(len));
        auto p = message(cut);
        cm_rank_vote(votes, &p);
        EXPECT_EQ(0u, votes[CM_MPI_OMPI_UCX].lead);
    }
}

cm_address ip(uint8_t last)
{
    cm_address a = {};
    a.has_gid = true;
    a.gid[10] = a.gid[11] = 0xff;
    a.gid[12] = 10;
    a.gid[15] = last;
    return a;
}

// Two queue pairs of a host that have the same numbers under way: which answer is whose?
struct Connected : testing::Test {
    cm_traffic *traffic = nullptr;
    uint64_t now = 1;

    void SetUp() override
    {
        cm_traffic_options options = {};
        options.kinds = 1;
        options.skew_us = 100;
        traffic = cm_traffic_new(&options);
    }
    void TearDown() override
    {
        cm_traffic_free(traffic);
    }
    void send(uint8_t from, uint8_t to, uint32_t qpn, uint32_t psn, uint8_t operation)
    {
        cm_packet p = {};
        p.src = ip(from);
        p.dst = ip(to);
        p.wire = 100;
        p.time_ns = now += 1000;
        p.operation = operation;
        p.kind = operation == CM_ACKNOWLEDGE ? CM_KIND_ACK : CM_KIND_DATA;
        p.dst_qpn = qpn;
        p.src_qpn = CM_QPN_NONE;
        p.psn = psn;
        cm_traffic_add(traffic, &p, 100);
    }
    uint32_t source_of(uint32_t qpn)
    {
        for (uint32_t i = 0; i < traffic->num_flows; i++) {
            if (cm_traffic_flow(traffic, i)->key.dst_qpn == qpn) {
                return cm_flow_src_qpn(cm_traffic_flow(traffic, i));
            }
        }
        return CM_QPN_NONE;
    }
};

TEST_F(Connected, AnswersTellThePartner)
{
    send(1, 2, 20, 7, CM_SEND_ONLY);
    send(2, 1, 10, 7, CM_ACKNOWLEDGE);
    EXPECT_EQ(10u, source_of(20));
    EXPECT_EQ(20u, source_of(10));
}

TEST_F(Connected, NothingIsConcludedWhileTwoWait)
{
    send(1, 2, 20, 7, CM_SEND_ONLY);
    send(1, 2, 21, 7, CM_SEND_ONLY);
    send(2, 1, 10, 7, CM_ACKNOWLEDGE);
    send(2, 1, 11, 7, CM_ACKNOWLEDGE);
    EXPECT_EQ(CM_QPN_NONE, source_of(20));
    EXPECT_EQ(CM_QPN_NONE, source_of(21));
    send(1, 2, 20, 8, CM_SEND_ONLY);
    send(2, 1, 10, 8, CM_ACKNOWLEDGE);
    send(1, 2, 21, 8, CM_SEND_ONLY);
    send(2, 1, 11, 8, CM_ACKNOWLEDGE);
    EXPECT_EQ(10u, source_of(20));
    EXPECT_EQ(11u, source_of(21));
}

// A host with one rank is that rank, whichever queue pair sends; not if two processes on it talk.
TEST_F(Connected, WhoNamesNoRankIsNotHisNeighbour)
{
    auto data = eager(uint64_t(7) << 40 | uint64_t(3) << 20);
    cm_packet named = message(data), silent = named;
    char *why = nullptr;

    named.transport = silent.transport = CM_UD;
    named.src = silent.src = silent.dst = ip(1);
    named.dst = ip(2);
    named.dst_qpn = 20;
    named.src_qpn = 10;
    silent.dst_qpn = 10;
    silent.src_qpn = 11;
    silent.data_len = 0;
    std::vector<uint8_t> datagram(8); // UCX's header for UD, whose last byte names the message
    datagram[3] = 2 << 3 | 1;
    datagram.insert(datagram.end(), data.begin() + 1, data.end());
    named.data = datagram.data();
    named.data_len = uint32_t(datagram.size());
    cm_traffic_add(traffic, &named, 100);
    uint32_t host = cm_traffic_flow(traffic, 0)->key.src;
    for (int64_t neighbour : {3, -1}) { // at first nobody knows that there is one
        cm_ranks *ranks = cm_ranks_new(traffic, &why);
        ASSERT_NE(nullptr, ranks) << why;
        EXPECT_EQ(3, cm_ranks_of(ranks, host, 10));
        EXPECT_EQ(neighbour, cm_ranks_of(ranks, host, 11));
        cm_ranks_free(ranks);
        cm_traffic_add(traffic, &silent, 100);
    }
}

TEST(Address, Parse)
{
    cm_address a;
    EXPECT_TRUE(cm_address_parse("0x1f", &a));
    EXPECT_TRUE(a.has_lid && a.lid == 31 && !a.has_gid);
    EXPECT_TRUE(cm_address_parse("10.0.0.7", &a));
    EXPECT_TRUE(a.has_gid && a.gid[15] == 7 && a.gid[11] == 0xff);
    EXPECT_TRUE(cm_address_parse("fe80::1", &a));
    EXPECT_FALSE(cm_address_parse("70000", &a));
    EXPECT_FALSE(cm_address_parse("node1", &a));
    EXPECT_FALSE(cm_address_parse("", &a));
}

TEST(Phases, PauseSeparates)
{
    cm_activity activity = {};
    activity.width_ns = 1000;
    for (int i = 0; i < 100; i++) {
        activity.bytes[i] = activity.bytes[1000 + i] = 5000;
    }
    GArray *phases = cm_phases_find(&activity, 0);
    ASSERT_EQ(2u, phases->len);
    EXPECT_EQ(1000000u, g_array_index(phases, cm_phase, 1).begin_ns);
    EXPECT_EQ(1100000u, g_array_index(phases, cm_phase, 1).end_ns);
    g_array_free(phases, TRUE);
}

} // namespace

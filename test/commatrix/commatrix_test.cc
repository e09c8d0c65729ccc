// Unit tests of what commatrix is made of: sequence numbers, packets cut anywhere, ranks, maps.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

extern "C" {
#include "flow/psn.h"
#include "flow/rank.h"
#include "flow/traffic.h"
#include "matrix/map.h"
#include "matrix/matrix.h"
#include "matrix/pattern.h"
#include "read/packet.h"
#include "show/names.h"
}

namespace
{

constexpr uint32_t SKEW = 100;

struct Numbers {
    struct cm_psn psn = {};
    uint32_t now = 1000, lost = 0;
    bool restarted = false;

    ~Numbers()
    {
        cm_psn_reset(&psn);
    }
    cm_psn_verdict at(uint32_t number, uint32_t later)
    {
        now += later;
        auto result = cm_psn_arrive(&psn, number, now, SKEW);
        lost = result.lost;
        restarted = result.restarted;
        return result.verdict;
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
    EXPECT_EQ(CM_PSN_LATE, n.at(1, 1));
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
    cm_psn_pass_over(&n.psn, 1, 4);
    EXPECT_EQ(CM_PSN_NEW, n.at(6, 1));
    EXPECT_EQ(0u, n.lost);
    EXPECT_EQ(CM_PSN_NEW, n.at(8, 1));
    EXPECT_EQ(1u, n.lost);
    EXPECT_EQ(CM_PSN_NEW, n.at(3, 1)); // a request where an answer was expected is no copy
    EXPECT_EQ(CM_PSN_DUPLICATE, n.at(3, 1));
}

// A read request that comes late explains the gap behind it.
TEST(Psn, LateReadRequest)
{
    Numbers n;
    n.at(1, 1);
    EXPECT_EQ(CM_PSN_NEW, n.at(6, 1));
    EXPECT_EQ(4u, n.lost);
    EXPECT_EQ(CM_PSN_LATE, n.at(2, 1));
    EXPECT_EQ(3u, cm_psn_pass_over(&n.psn, 2, 3));
    EXPECT_EQ(0u, cm_psn_pass_over(&n.psn, 2, 3));
}

TEST(Psn, NewConnectionIsNoLoss)
{
    Numbers n;
    n.at(0x100000, 1);
    EXPECT_EQ(CM_PSN_NEW, n.at(0x700000, 1));
    EXPECT_EQ(0u, n.lost);
    EXPECT_TRUE(n.restarted);
}

// A sender of a thousand packets in a second cannot have sent a million in the next one.
TEST(Psn, ImplausibleGapIsNoLoss)
{
    Numbers n;
    for (uint32_t i = 0; i < 30; i++) {
        n.at(i, 1000);
    }
    EXPECT_EQ(CM_PSN_NEW, n.at(900000, 1000000));
    EXPECT_EQ(0u, n.lost);
    EXPECT_TRUE(n.restarted);
}

TEST(Psn, ConnectionBeginsAnewWithItsFirstNumber)
{
    Numbers n;
    for (int connection = 0; connection < 5; connection++) {
        for (uint32_t i = 0; i < 30; i++) {
            EXPECT_EQ(CM_PSN_NEW, n.at(i, i == 0 ? 1000000 : 1000));
        }
    }
}

// In whatever order packets come, and whatever is lost: each packet is counted, or a copy, or lost.
class PsnOrder : public testing::TestWithParam<std::tuple<int, int, int>>
{
};

TEST_P(PsnOrder, CountedAndCopiesAndLostAreAllThatWasSent)
{
    auto [delay, lost_percent, copies_percent] = GetParam();
    constexpr int SENT = 20000;
    std::mt19937 random(unsigned(delay * 1000 + lost_percent * 10 + copies_percent));
    auto chance = [&](int percent) { return int(random() % 100) < percent; };
    std::vector<std::tuple<uint32_t, uint32_t, bool>> arrivals; // time, number, copy
    uint32_t first = 0xfff000, gone = 0;

    for (uint32_t i = 0; i < SENT; i++) {
        // The first and the last packet arrive: the numbers between them are known.
        if (i != 0 && i + 1 != SENT && chance(lost_percent)) {
            gone++;
            continue;
        }
        uint32_t at =
            i + (i != 0 && i + 1 != SENT && delay && chance(50) ? random() % unsigned(delay) : 0);
        arrivals.emplace_back(at, i, false);
        if (chance(copies_percent)) {
            arrivals.emplace_back(at, i, true);
        }
    }
    std::stable_sort(arrivals.begin(), arrivals.end(),
                     [](auto &a, auto &b) { return std::get<0>(a) < std::get<0>(b); });
    cm_psn psn = {};
    std::vector<int> seen(SENT);
    int64_t counted = 0, copies = 0, lost = 0;
    for (auto &[at, i, copy] : arrivals) {
        auto result = cm_psn_arrive(&psn, (first + i) & CM_PSN_MASK, at / 10, 4000);
        bool is_copy = result.verdict == CM_PSN_DUPLICATE;
        ASSERT_EQ(seen[i] > 0, is_copy) << "number " << i;
        ASSERT_NE(CM_PSN_RETRANSMISSION, result.verdict);
        ASSERT_FALSE(result.restarted);
        seen[i]++;
        copies += is_copy;
        counted += !is_copy;
        lost += result.lost;
        lost -= result.verdict == CM_PSN_LATE;
    }
    EXPECT_EQ(int64_t(gone), lost);
    EXPECT_EQ(int64_t(arrivals.size()) + gone, counted + copies + lost);
    cm_psn_reset(&psn);
}

INSTANTIATE_TEST_SUITE_P(, PsnOrder,
                         testing::Combine(testing::Values(0, 1, 63, 64, 65, 70, 500, 4096),
                                          testing::Values(0, 1, 30), testing::Values(0, 40)));

// More gaps than the list holds: the oldest are forgotten, no packet becomes a copy.
TEST(Psn, ForgetsTheOldestGaps)
{
    Numbers n;
    for (uint32_t i = 0; i < 400000; i += 2) {
        ASSERT_EQ(CM_PSN_NEW, n.at(i, 0));
    }
    EXPECT_EQ(CM_PSN_LATE, n.at(399001, 0));
    EXPECT_EQ(CM_PSN_DUPLICATE, n.at(399001, 0));
    EXPECT_NE(CM_PSN_DUPLICATE, n.at(1, 0));
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
        cm_ranks *ranks = cm_ranks_new(traffic, nullptr, &why);
        ASSERT_NE(nullptr, ranks) << why;
        EXPECT_EQ(3, cm_ranks_of(ranks, host, 10).rank);
        EXPECT_EQ(neighbour, cm_ranks_of(ranks, host, 11).rank);
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

// Packets of any order; then each phase, taken as --from and --to, holds its bytes.
TEST(Phases, EachHoldsItsBytes)
{
    std::mt19937 random(7);
    std::vector<uint64_t> times;
    const uint64_t zero = 1700000000000000123u;
    for (int phase = 0; phase < 5; phase++) {
        for (int i = 0; i < 400; i++) {
            times.push_back(zero + uint64_t(phase) * 40000000 + random() % 3000000);
        }
    }
    std::shuffle(times.begin(), times.end(), random);
    cm_packet p = {};
    p.transport = CM_RC;
    p.operation = CM_SEND_ONLY;
    p.src = ip(1);
    p.dst = ip(2);
    p.wire = 100;
    p.cut = true; // sequence numbers would need the order
    auto count = [&](uint64_t from, uint64_t to) {
        cm_traffic_options options = {};
        options.kinds = 1;
        options.zero_ns = *std::min_element(times.begin(), times.end());
        options.from_ns = from;
        options.to_ns = to;
        cm_traffic *traffic = cm_traffic_new(&options);
        for (uint64_t time : times) {
            p.time_ns = time;
            cm_traffic_add(traffic, &p, 100);
        }
        return traffic;
    };
    cm_traffic *all = count(0, 0);
    GArray *phases = cm_phases_find(&all->activity, cm_traffic_zero(all));
    ASSERT_EQ(5u, phases->len);
    EXPECT_EQ(0u, g_array_index(phases, cm_phase, 0).begin_ns);
    uint64_t sum = 0;
    for (unsigned i = 0; i < phases->len; i++) {
        auto &phase = g_array_index(phases, cm_phase, i);
        cm_traffic *part = count(phase.begin_ns, phase.end_ns);
        EXPECT_EQ(phase.bytes, part->capture.wire);
        EXPECT_EQ(phase.packets, part->capture.packets);
        sum += phase.bytes;
        cm_traffic_free(part);
    }
    EXPECT_EQ(all->capture.wire, sum);
    g_array_free(phases, TRUE);
    cm_traffic_free(all);
}

// ---- jobs ----

struct Jobs : Connected {
    // A message from one host to another, whose user data names the sender's rank.
    // `own`: the queue pair of the sender.
    void say(uint8_t from, uint8_t to, uint32_t qpn, uint32_t rank, uint32_t own = 0)
    {
        own = own != 0 ? own : qpn + 1000;
        auto data = eager(uint64_t(7) << 40 | uint64_t(rank) << 20);
        cm_packet p = message(data);
        p.src = ip(from);
        p.dst = ip(to);
        p.wire = 100;
        p.time_ns = now += 1000;
        p.dst_qpn = qpn;
        p.src_qpn = CM_QPN_NONE;
        p.psn = psn++;
        cm_traffic_add(traffic, &p, 100);
        send(to, from, own, p.psn, CM_ACKNOWLEDGE);
    }
    uint32_t host(uint8_t last)
    {
        cm_address address = ip(last);
        for (uint32_t i = 0; i < traffic->addresses->len; i++) {
            if (memcmp(cm_traffic_address(traffic, i), &address, sizeof(address)) == 0) {
                return i;
            }
        }
        return UINT32_MAX;
    }
    uint32_t psn = 1;
};

TEST_F(Jobs, OneRankOnTwoHostsAreTwoJobs)
{
    char *why = nullptr;
    say(1, 2, 20, 0);
    say(2, 1, 21, 1);
    say(3, 4, 30, 0);
    say(4, 3, 31, 1);
    cm_ranks *ranks = cm_ranks_new(traffic, nullptr, &why);
    ASSERT_NE(nullptr, ranks) << why;
    EXPECT_EQ(2u, cm_ranks_jobs(ranks));
    auto first = cm_ranks_of(ranks, host(1), 1020), third = cm_ranks_of(ranks, host(3), 1030);
    EXPECT_EQ(0, first.rank);
    EXPECT_EQ(0, third.rank);
    EXPECT_EQ(1u, first.job);
    EXPECT_EQ(2u, third.job);
    EXPECT_EQ(1, cm_ranks_of(ranks, host(4), 1031).rank);
    cm_ranks_free(ranks);
}

// Pairs of one job that never talk to other pairs are no jobs of their own.
TEST_F(Jobs, SilentPairsAreOneJob)
{
    char *why = nullptr;
    for (uint8_t pair = 0; pair < 4; pair++) {
        say(uint8_t(2 * pair + 1), uint8_t(2 * pair + 2), 20u + pair, 2u * pair);
        say(uint8_t(2 * pair + 2), uint8_t(2 * pair + 1), 40u + pair, 2u * pair + 1);
    }
    cm_ranks *ranks = cm_ranks_new(traffic, nullptr, &why);
    ASSERT_NE(nullptr, ranks) << why;
    EXPECT_EQ(1u, cm_ranks_jobs(ranks));
    EXPECT_EQ(8u, cm_ranks_size(ranks, 1));
    cm_ranks_free(ranks);
}

// Two jobs that share a host: the host has a rank of each.
TEST_F(Jobs, JobsThatShareAHost)
{
    char *why = nullptr;
    say(1, 2, 20, 0, 30);
    say(2, 1, 30, 1, 20);
    say(2, 3, 21, 0, 31);
    say(3, 2, 31, 1, 21);
    cm_ranks *ranks = cm_ranks_new(traffic, nullptr, &why);
    ASSERT_NE(nullptr, ranks) << why;
    EXPECT_EQ(2u, cm_ranks_jobs(ranks));
    auto first = cm_ranks_of(ranks, host(2), 20), second = cm_ranks_of(ranks, host(2), 31);
    EXPECT_EQ(1, first.rank);
    EXPECT_EQ(1u, first.job);
    EXPECT_EQ(0, second.rank);
    EXPECT_EQ(2u, second.job);
    EXPECT_EQ(0u, cm_ranks_refuted(ranks));
    cm_ranks_free(ranks);
}

TEST_F(Jobs, ContradictionWithinAJobRefutes)
{
    char *why = nullptr;
    say(1, 2, 20, 0);
    send(2, 1, 1020, 7, CM_SEND_ONLY); // the same connection, backwards
    say(2, 1, 1020, 0);
    cm_ranks *ranks = cm_ranks_new(traffic, nullptr, &why);
    EXPECT_EQ(nullptr, ranks);
    EXPECT_NE(nullptr, strstr(why, "several hosts"));
    g_free(why);
}

TEST(Rank, ZerosAreNoRank)
{
    cm_vote votes[CM_NUM_MPI] = {};
    std::vector<uint8_t> data(256);
    auto p = message(data);
    cm_rank_vote(votes, &p);
    for (auto &vote : votes) {
        EXPECT_EQ(0u, vote.lead);
    }
}

// ---- loss ----

// Two counters of management datagrams that share the permissive LID are no loss.
TEST_F(Connected, ManagementDatagramsHaveNoNumbers)
{
    cm_packet p = {};
    p.transport = CM_UD;
    p.operation = CM_SEND_ONLY;
    p.src.has_lid = p.dst.has_lid = true;
    p.src.lid = p.dst.lid = CM_LID_PERMISSIVE;
    p.dst_qpn = p.src_qpn = 0;
    p.wire = 100;
    traffic->options.kinds = (1u << CM_NUM_KINDS) - 1;
    for (int i = 0; i < 20; i++) {
        p.psn = uint32_t(i % 2 ? 300000 : 10) + uint32_t(i);
        p.time_ns = now += 1000;
        cm_traffic_add(traffic, &p, 100);
    }
    EXPECT_EQ(0u, traffic->capture.lost);
    EXPECT_EQ(0u, traffic->capture.unsure);
    EXPECT_EQ(0u, traffic->capture.numbered);
}

// Datagrams to receivers that are not captured: nothing says that they are lost.
TEST_F(Connected, DatagramsMayHaveOtherReceivers)
{
    cm_packet p = {};
    p.transport = CM_UD;
    p.operation = CM_SEND_ONLY;
    p.src = ip(1);
    p.dst = ip(2);
    p.dst_qpn = 7;
    p.src_qpn = 8;
    p.wire = 100;
    for (uint32_t psn : {1u, 5u, 6u}) {
        p.psn = psn;
        p.time_ns = now += 1000;
        cm_traffic_add(traffic, &p, 100);
    }
    EXPECT_EQ(0u, traffic->capture.lost);
    EXPECT_EQ(3u, traffic->capture.unsure);
}

// A request of the connection management: the numbers to its sender's queue pair start anew.
TEST_F(Connected, RequestForAConnectionStartsAnew)
{
    send(1, 2, 20, 5, CM_SEND_ONLY);
    std::vector<uint8_t> mad(256);
    mad[1] = CM_MAD_CM;
    mad[17] = 0x10;
    mad[58] = 20;
    cm_packet p = message(mad);
    p.transport = CM_UD;
    p.src = ip(2);
    p.dst = ip(1);
    p.dst_qpn = p.src_qpn = 1;
    p.kind = CM_KIND_CM;
    p.wire = 300;
    p.time_ns = now += 1000;
    cm_traffic_add(traffic, &p, 300);
    send(1, 2, 20, 500, CM_SEND_ONLY);
    EXPECT_EQ(0u, traffic->capture.lost);
    send(1, 2, 20, 503, CM_SEND_ONLY);
    EXPECT_EQ(2u, traffic->capture.lost);
}

TEST_F(Connected, AnswersTakeTime)
{
    send(1, 2, 20, 7, CM_SEND_ONLY);
    send(2, 1, 10, 7, CM_ACKNOWLEDGE); // 1000 ns later
    const cm_flow *flow = cm_traffic_flow(traffic, 0);
    ASSERT_NE(nullptr, flow->signs);
    EXPECT_NEAR(1000, double(cm_delay_percentile(flow->signs, 50)), 100);
}

// ---- names ----

// Distinct names stay distinct, and no name is too long.
TEST(Names, StayDistinct)
{
    std::mt19937 random(3);
    const std::vector<std::vector<std::string>> parts = {
        {"fe80::2:c903:0:10", ".cluster.example.com", "lid 49152 qp 16777", "192.168.7."},
        {"", "a", "node-", "rack7-", "\xc3\xa4\xc3\xb6"},
    };
    for (int round = 0; round < 2000; round++) {
        std::set<std::string> set;
        const auto &heads = parts[random() % 2], &tails = parts[random() % 2];
        std::string head = heads[random() % heads.size()], tail = tails[random() % tails.size()];
        size_t n = 1 + random() % 300;
        while (set.size() < n) {
            std::string middle = std::to_string(random() % (2 * n));
            if (random() % 3 == 0) {
                middle.insert(random() % (middle.size() + 1), std::string(random() % 30, 'x'));
            }
            set.insert(head + middle + tail);
        }
        GPtrArray *names = g_ptr_array_new_with_free_func(g_free);
        for (auto &name : set) {
            g_ptr_array_add(names, g_strdup(name.c_str()));
        }
        unsigned most = 6 + unsigned(random() % 20);
        char **result = cm_names_shorten(names, most);
        std::set<std::string> found;
        for (size_t i = 0; i < n; i++) {
            EXPECT_LE(g_utf8_strlen(result[i], -1), long(most)) << result[i];
            found.insert(result[i]);
        }
        EXPECT_EQ(n, found.size());
        g_strfreev(result);
        g_ptr_array_free(names, TRUE);
    }
}

TEST(Names, KeepWhatDiffers)
{
    GPtrArray *names = g_ptr_array_new();
    for (const char *name : {"192.168.7.11", "192.168.7.12"}) {
        g_ptr_array_add(names, const_cast<char *>(name));
    }
    char **result = cm_names_shorten(names, 9);
    EXPECT_STREQ("\xe2\x80\xa6"
                 "11",
                 result[0]);
    EXPECT_STREQ("\xe2\x80\xa6"
                 "12",
                 result[1]);
    g_strfreev(result);
    g_ptr_array_free(names, TRUE);
}

// ---- patterns ----

using Matrix = std::vector<double>;

struct Known {
    const char *name; // what the pattern's name begins with
    unsigned n;
    std::function<bool(int, int)> talks;
};

int bits(int value)
{
    return __builtin_popcount(unsigned(value));
}

// Rank = (x * b + y) * c + z; the distance of two ranks on a grid, in one dimension or all.
bool near(int i, int k, int a, int b, int c, bool periodic)
{
    int sizes[] = {a, b, c}, at[] = {i / c / b, i / c % b, i % c},
        to[] = {k / c / b, k / c % b, k % c}, sum = 0;
    for (int d = 0; d < 3; d++) {
        int apart = std::abs(at[d] - to[d]);
        sum += periodic ? std::min(apart, sizes[d] - apart) : apart;
    }
    return sum == 1;
}

const Known known_patterns[] = {
    {"all-to-all", 16, [](int i, int k) { return i != k; }},
    {"all-to-all", 64, [](int i, int k) { return i != k; }},
    {"ring: each rank", 16, [](int i, int k) { return k == (i + 1) % 16; }},
    {"nearest neighbors in a line", 16, [](int i, int k) { return std::abs(i - k) == 1; }},
    {"nearest neighbors in a ring", 16,
     [](int i, int k) { return (i + 1) % 16 == k || (k + 1) % 16 == i; }},
    {"nearest neighbors on a 2-D grid of 4 x 4", 16,
     [](int i, int k) { return near(i, k, 4, 4, 1, false); }},
    {"nearest neighbors on a 2-D grid of 4 x 6", 24,
     [](int i, int k) { return near(i, k, 4, 6, 1, false); }},
    {"nearest neighbors on a 2-D grid of 8 x 8, periodic", 64,
     [](int i, int k) { return near(i, k, 8, 8, 1, true); }},
    {"nearest neighbors on a 3-D grid of 4 x 4 x 4", 64,
     [](int i, int k) { return near(i, k, 4, 4, 4, false); }},
    {"nearest neighbors on a 3-D grid of 3 x 4 x 5, periodic", 60,
     [](int i, int k) { return near(i, k, 3, 4, 5, true); }},
    {"master and workers: rank 3", 16, [](int i, int k) { return i != k && (i == 3 || k == 3); }},
    {"gather: each rank sends to rank 0", 16, [](int i, int k) { return i != 0 && k == 0; }},
    {"recursive doubling", 32, [](int i, int k) { return bits(i ^ k) == 1; }},
    {"binomial tree", 32,
     [](int i, int k) {
         int low = std::min(i, k), step = std::max(i, k) - low;
         return bits(step) == 1 && low % (2 * step) == 0;
     }},
    {"FFT transposes of pencils: all-to-all in rows and columns of 4 x 8", 32,
     [](int i, int k) { return i != k && (i / 8 == k / 8 || i % 8 == k % 8); }},
    {"all-to-all within 4 groups of 8 consecutive", 32,
     [](int i, int k) { return i != k && i / 8 == k / 8; }},
    {"multi-partition on a square of 5 x 5", 25,
     [](int i, int k) {
         int dx = ((k / 5 - i / 5) % 5 + 5) % 5, dy = ((k % 5 - i % 5) % 5 + 5) % 5;
         return (dx == 0 && (dy == 1 || dy == 4)) || (dy == 0 && (dx == 1 || dx == 4)) ||
                (dx == 1 && dy == 4) || (dx == 4 && dy == 1);
     }},
    {"sums in rows and a transposition on 4 x 4", 16,
     [](int i, int k) {
         return (i / 4 == k / 4 && bits(i % 4 ^ k % 4) == 1) || (i != k && k == i % 4 * 4 + i / 4);
     }},
};

class Pattern : public testing::TestWithParam<Known>
{
};

// The pattern is found although the pairs differ in size, and a twentieth of the traffic is noise.
TEST_P(Pattern, IsFound)
{
    const Known &known = GetParam();
    std::mt19937 random(11);
    Matrix traffic(known.n * known.n);
    double total = 0;
    for (unsigned i = 0; i < known.n; i++) {
        for (unsigned k = 0; k < known.n; k++) {
            if (known.talks(int(i), int(k))) {
                traffic[i * known.n + k] = 1e6 * (1 + double(random() % 100) / 100);
                total += traffic[i * known.n + k];
            }
        }
    }
    for (int noise = 0; noise < 50; noise++) {
        unsigned i = unsigned(random() % known.n), k = unsigned(random() % known.n);
        traffic[i * known.n + k] += i != k ? total / 1000 : 0;
    }
    GArray *found = cm_patterns_find(traffic.data(), known.n);
    ASSERT_GT(found->len, 0u);
    auto &best = g_array_index(found, cm_pattern, 0);
    EXPECT_EQ(0u, std::string(best.name).find(known.name)) << best.name << " " << best.score;
    EXPECT_GT(best.score, 0.9);
    cm_patterns_free(found);
}

INSTANTIATE_TEST_SUITE_P(, Pattern, testing::ValuesIn(known_patterns));

// Random pairs are no pattern.
TEST(PatternNone, RandomPairs)
{
    std::mt19937 random(5);
    Matrix traffic(64 * 64);
    for (int i = 0; i < 300; i++) {
        traffic[random() % traffic.size()] += double(random() % 1000);
    }
    GArray *found = cm_patterns_find(traffic.data(), 64);
    EXPECT_LT(g_array_index(found, cm_pattern, 0).score, 0.6);
    cm_patterns_free(found);
}

} // namespace

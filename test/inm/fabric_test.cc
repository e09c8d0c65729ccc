// The emulated network: topology, chips, modelled time, faults.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <queue>
#include <vector>
#include <unistd.h>

extern "C" {
#include "inm/fabric/fabric.h"
#include "inm/fabric/faults.h"
}

struct Delivered {
    uint64_t time;
    nmp_desc desc;
};

class Fabric : public testing::Test
{
  protected:
    void make(const char *what, bool modelled = true)
    {
        char error[256];
        inm_topo *topo = inm_topo_make(what, error, sizeof(error));
        ASSERT_NE(nullptr, topo) << error;
        fab = fab_new(topo, modelled, 1);
        fab->deliver = [](void *arg, uint32_t, uint64_t time, const uint8_t *buf, uint8_t) {
            Delivered d{time, {}};
            nmp_decode(buf, &d.desc);
            static_cast<std::vector<Delivered> *>(arg)->push_back(d);
        };
        fab->deliver_arg = &got;
        find_routes();
    }

    void TearDown() override
    {
        if (fab != nullptr) {
            fab_free(fab);
        }
    }

    void find_routes()
    {
        const inm_topo *t = fab->topo;
        forward.assign(t->num_nrc, {});
        backward.assign(t->num_nrc, {});
        hops.assign(t->num_nrc, -1);
        uint32_t port = t->peer[inm_topo_port(t, t->server, 0)];
        std::queue<uint32_t> queue;
        first = port / 24;
        hops[first] = 0;
        backward[first] = {1, {static_cast<uint8_t>(port % 24)}};
        queue.push(first);
        while (!queue.empty()) {
            uint32_t chip = queue.front();
            queue.pop();
            for (uint32_t i = 0; i < 24; i++) {
                uint32_t peer = t->peer[chip * 24 + i];
                if (peer >= t->num_nrc * 24 || hops[peer / 24] >= 0) {
                    continue;
                }
                uint32_t to = peer / 24;
                hops[to] = hops[chip] + 1;
                forward[to] = forward[chip];
                forward[to].hop[forward[to].num++] = i;
                backward[to].num = backward[chip].num + 1;
                backward[to].hop[0] = peer % 24;
                memcpy(backward[to].hop + 1, backward[chip].hop, backward[chip].num);
                queue.push(to);
            }
        }
    }

    nmp_desc request(uint32_t chip, nmp_type type, uint16_t addr, uint8_t count = 1)
    {
        nmp_desc d;
        nmp_init(&d, type, NMP_CHIP_NRC, chip);
        d.forward = forward[chip];
        d.backward = backward[chip];
        d.data.count = count;
        for (int i = 0; i < 6; i++) {
            d.data.addr[i] = addr + i;
        }
        return d;
    }

    size_t send(const nmp_desc &d, uint64_t time = 0)
    {
        uint8_t buf[NMP_DESC_BYTES];
        got.clear();
        nmp_encode(&d, buf);
        fab_send(fab, fab->topo->server, time, buf);
        return got.size();
    }

    uint32_t at_hop(int n)
    {
        for (uint32_t i = 0; i < hops.size(); i++) {
            if (hops[i] == n) {
                return i;
            }
        }
        return INM_NONE;
    }

    fabric *fab = nullptr;
    uint32_t first = 0;
    std::vector<Delivered> got;
    std::vector<nmp_route> forward, backward;
    std::vector<int> hops;
};

TEST_F(Fabric, Th2AsBuilt)
{
    make("th2");
    EXPECT_EQ(5856u, fab->topo->num_nrc);
    EXPECT_EQ(18304u, fab->topo->num_nic);
    std::vector<int> amount(9);
    for (int h : hops) {
        ASSERT_GE(h, 0);
        ASSERT_LE(h, 8); // paper, 4.3: at most 8 hops to an NRC
        amount[h]++;
    }
    EXPECT_EQ((std::vector<int>{1, 2, 23, 262, 744, 984, 1248, 864, 1728}), amount);
}

TEST_F(Fabric, ModelledTimesOfThePaper)
{
    make("th2");
    for (int h = 0; h <= 8; h++) {
        ASSERT_EQ(
            1u, send(request(at_hop(h), NMP_REG_READ_REQ, REG_LINKS_UP), 1000000000ull * (h + 1)));
        double us = (got[0].time - 1000000000ull * (h + 1)) / 1000.0;
        EXPECT_NEAR(6.73 + 0.8762 * h, us, 0.01 * us) << h;
    }
    for (int n = 1; n <= 6; n++) {
        ASSERT_EQ(1u, send(request(first, NMP_EEP_READ_REQ, 0, n), 20000000000ull * n));
        EXPECT_NEAR(157.826 + 0.77 + 150 * (n - 1), (got[0].time - 20000000000ull * n) / 1000.0, 1);
        ASSERT_EQ(1u, send(request(first, NMP_EEP_WRITE_REQ, 99, n),
                           20000000000ull * n + 10000000000ull));
        EXPECT_NEAR(157.826 + 0.77 + 3000 * (n - 1),
                    (got[0].time - 20000000000ull * n - 10000000000ull) / 1000.0, 1);
    }
}

TEST_F(Fabric, RequestsThatAreWrong)
{
    make("small");
    struct {
        nmp_type type;
        uint16_t addr;
        uint8_t count;
        int status;
    } refused[] = {{NMP_REG_READ_REQ, 0x7fff, 1, NMP_BAD_ADDRESS},
                   {NMP_REG_READ_REQ, 0xffff, 1, NMP_BAD_ADDRESS},
                   {NMP_REG_READ_REQ, 0, 0, NMP_BAD_COUNT},
                   {NMP_REG_READ_REQ, 0, 3, NMP_BAD_COUNT},
                   {NMP_REG_WRITE_REQ, REG_ID, 1, NMP_READ_ONLY},
                   {NMP_EEP_READ_REQ, 0, 7, NMP_BAD_COUNT},
                   {NMP_REG_WRITE_REQ, 0x7000, 1, NMP_BAD_ADDRESS}};
    for (auto &r : refused) {
        ASSERT_EQ(1u, send(request(first, r.type, r.addr, r.count)));
        EXPECT_TRUE(got[0].desc.nmp_type == NMP_REG_ERR_RSP ||
                    got[0].desc.nmp_type == NMP_EEP_ERR_RSP);
        EXPECT_EQ(r.status, got[0].desc.data.status) << r.addr;
    }
    EXPECT_EQ(7u, fab->chips[first].errors);
    nmp_desc other = request(first, NMP_REG_READ_REQ, 0);
    other.dest_id = first + 1;
    EXPECT_EQ(0u, send(other));
    EXPECT_EQ(1u, fab->chips[first].drop_dest);
    EXPECT_EQ(0u, send(request(first, NMP_REG_READ_RSP, 0)));
    EXPECT_EQ(0u, send(request(first, static_cast<nmp_type>(63), 0)));
    EXPECT_EQ(2u, fab->chips[first].drop_format);
    nmp_desc any = request(first, NMP_REG_READ_REQ, 0);
    any.dest_id = NMP_ID_NONE;
    EXPECT_EQ(1u, send(any));
    fab->corrupt_ppm = 1000000;
    EXPECT_EQ(0u, send(request(first, NMP_REG_READ_REQ, 0)));
    EXPECT_EQ(1u, fab->chips[first].drop_crc);
}

TEST_F(Fabric, AnyDescriptorIsSurvived)
{
    make("small");
    uint32_t seed = 7;
    for (int n = 0; n < 100000; n++) {
        nmp_desc d = request(fab_random(fab, fab->topo->num_nrc), NMP_REG_READ_REQ, 0);
        uint8_t buf[NMP_DESC_BYTES];
        nmp_encode(&d, buf);
        int flips = 1 + n % 12;
        for (int i = 0; i < flips; i++) {
            seed = seed * 1664525 + 1013904223;
            buf[(seed >> 8) % NMP_DESC_BYTES] ^= 1 << (seed >> 28) % 8;
        }
        got.clear();
        fab_send(fab, fab->topo->server, 0, buf);
    }
    EXPECT_EQ(100000u, fab->counters.requests);
}

TEST_F(Fabric, NeighboursAndWritableRegisters)
{
    make("small");
    uint64_t value = 0;
    ASSERT_EQ(NMP_OK, reg_read(fab, first, REG_NEIGHBOUR0, &value));
    EXPECT_EQ(REG_NB(0, 0, NMP_CHIP_NIC, true), static_cast<uint32_t>(value));
    nmp_desc w = request(first, NMP_REG_WRITE_REQ, REG_CONFIG0, 2);
    w.data.reg[0] = 0x1122334455667788;
    w.data.reg[1] = 42;
    ASSERT_EQ(1u, send(w));
    EXPECT_EQ(NMP_REG_WRITE_RSP, got[0].desc.nmp_type);
    ASSERT_EQ(1u, send(request(first, NMP_REG_READ_REQ, REG_CONFIG0, 2)));
    EXPECT_EQ(0x1122334455667788u, got[0].desc.data.reg[0]);
    EXPECT_EQ(42u, got[0].desc.data.reg[1]);
    // A port's own table hides that of the chip.
    ASSERT_EQ(NMP_OK, reg_write(fab, first, REG_ROUTE_ADDR, 3 | 2 << 16));
    ASSERT_EQ(NMP_OK, reg_write(fab, first, REG_ROUTE_DATA, 0x30));
    ASSERT_EQ(NMP_OK, reg_write(fab, first, REG_PORT(1) + PORT_ROUTE_ADDR, 3 | 1 << 16));
    ASSERT_EQ(NMP_OK, reg_write(fab, first, REG_PORT(1) + PORT_ROUTE_DATA, 0x40));
    ASSERT_EQ(NMP_OK, reg_read(fab, first, REG_PORT(1) + PORT_ROUTE_DATA, &value));
    EXPECT_EQ(0x40u, value);
    ASSERT_EQ(NMP_OK, reg_read(fab, first, REG_ROUTE_DATA, &value));
    EXPECT_EQ(0x30u, value);
    EXPECT_EQ(NMP_BAD_VALUE, reg_write(fab, first, REG_ROUTE_DATA, 1u << 24));
}

TEST_F(Fabric, EepromIsLoadedAtPowerOn)
{
    make("small");
    auto put = [&](uint32_t addr, uint64_t v, int len) {
        for (int i = 0; i < len; i++) {
            nmp_desc w = request(first, NMP_EEP_WRITE_REQ, addr + i);
            w.data.byte[0] = v >> 8 * i;
            ASSERT_EQ(1u, send(w));
        }
    };
    put(EEP_CONFIG, 77, 8);
    put(EEP_ROUTE_NUM, 1, 2);
    put(EEP_ROUTES, 5 | 9 << 16 | 0x21ull << 32, 8);
    char error[200];
    faults *f = faults_new(fab);
    std::string name = "dead:nrc" + std::to_string(first);
    ASSERT_EQ(1, faults_add(f, name.c_str(), 0, error, sizeof(error))) << error;
    faults_run(f, 1);
    EXPECT_EQ(0u, send(request(first, NMP_REG_READ_REQ, 0)));
    ASSERT_TRUE(faults_clear(f, 1));
    ASSERT_EQ(1u, send(request(first, NMP_REG_READ_REQ, REG_CONFIG0)));
    EXPECT_EQ(77u, got[0].desc.data.reg[0]);
    EXPECT_EQ(0x21u, inm_table_get(&fab->chips[first].table, 13));
    EXPECT_EQ(0u, inm_table_get(&fab->chips[first].table, 14));
    faults_free(f);
}

TEST_F(Fabric, ReportsFollowMaskAndEnable)
{
    make("small");
    uint32_t chip = at_hop(3), port = chip * 24;
    while (fab->topo->peer[port] == INM_NONE ||
           fab->topo->peer[port] == chip * 24 + forward[chip].hop[0]) {
        port++;
    }
    uint8_t route[16] = {0};
    nmp_put_route(route, 0, &backward[chip]);
    reg_write(fab, chip, REG_REPORT_ROUTE0, nmp_get_bits(route, 0, 64));
    reg_write(fab, chip, REG_REPORT_ROUTE1, nmp_get_bits(route, 64, 41));
    got.clear();
    fab_event(fab, chip, NMP_EVENT_HOT, 0, 1);
    EXPECT_EQ(0u, got.size()); // not enabled
    reg_write(fab, chip, REG_REPORT_ENABLE, ~0ull);
    fab_event(fab, chip, NMP_EVENT_HOT, 0, 2);
    ASSERT_EQ(1u, got.size());
    EXPECT_EQ(NMP_REPORT, got[0].desc.nmp_type);
    EXPECT_EQ(chip, got[0].desc.data.report.src_id);
    EXPECT_EQ(2u, got[0].desc.data.report.value);
    reg_write(fab, chip, REG_FAULT_MASK, 1ull << NMP_EVENT_HOT);
    fab_event(fab, chip, NMP_EVENT_HOT, 0, 3);
    EXPECT_EQ(1u, got.size()); // masked
    EXPECT_EQ(2u, fab->chips[chip].reports_masked);
}

TEST_F(Fabric, FaultsOfASeedAreTheSame)
{
    std::string first_list;
    for (int round = 0; round < 2; round++) {
        make("small");
        char error[200];
        faults *f = faults_new(fab);
        for (int i = 0; i < 5; i++) {
            ASSERT_GT(faults_add(f, "random", 0, error, sizeof(error)), 0) << error;
        }
        faults_run(f, 1);
        std::string state;
        for (uint32_t i = 0; i < inm_topo_ports(fab->topo); i++) {
            state += fab->ports[i].up ? '1' : '0';
        }
        EXPECT_TRUE(round == 0 || state == first_list);
        first_list = state;
        faults_clear(f, 0);
        for (uint32_t i = 0; i < inm_topo_ports(fab->topo); i++) {
            ASSERT_EQ(fab->topo->peer[i] != INM_NONE, fab->ports[i].up) << i;
        }
        faults_free(f);
        fab_free(fab);
        fab = nullptr;
    }
}

TEST_F(Fabric, WrongFaultsAreNamed)
{
    make("small");
    faults *f = faults_new(fab);
    char error[200];
    for (const char *spec : {"", "dwn:r0f0n0:0", "down", "down:r9f9n9:0", "down:r0f0n0:24",
                             "swap:r0f0n4:0", "hot:r0f0n0,temp=x", "lose,ppm=-1",
                             "down:r0f0n0:0,at", "dead:r99", "swap:r0f0n4:0,with=r0f0n4:0"}) {
        EXPECT_EQ(-1, faults_add(f, spec, 0, error, sizeof(error))) << spec;
        EXPECT_NE(nullptr, strstr(error, "wrong at")) << error;
    }
    faults_free(f);
}

TEST(Topology, NamesGoBothWays)
{
    char error[200], name[INM_NAME_MAX];
    inm_topo *t = inm_topo_make("th2", error, sizeof(error));
    ASSERT_NE(nullptr, t);
    for (uint32_t i = 0; i < inm_topo_chips(t); i++) {
        ASSERT_EQ(i, inm_chip_parse(t, inm_chip_name(t, i, name))) << name;
    }
    for (uint32_t i = 0; i < inm_topo_ports(t); i++) {
        ASSERT_EQ(i, inm_port_parse(t, inm_port_name(t, i, name))) << name;
        ASSERT_TRUE(t->peer[i] == INM_NONE || t->peer[t->peer[i]] == i);
    }
    for (const char *wrong :
         {"", "r144f0n0", "r143f0h0", "r0f4n0", "r0f0n6", "r0f0x0", "l16s0b0", "t8b0n0", "t0b30n0",
          "nrc5856", "nic18304", "r0f0n0 ", "r0f0n0:24", "r0f0n0:-1", "r0f0n0:"}) {
        EXPECT_TRUE(inm_chip_parse(t, wrong) == INM_NONE && inm_port_parse(t, wrong) == INM_NONE)
            << wrong;
    }
    inm_topo_free(t);
}

static std::string read_topology(const std::string &text)
{
    std::string path = testing::TempDir() + "inm-topology-" + std::to_string(getpid());
    std::ofstream(path) << text;
    char error[512];
    inm_topo *t = inm_topo_read(path.c_str(), error, sizeof(error));
    unlink(path.c_str());
    if (t == nullptr) {
        return error + path.size();
    }
    std::string result = std::to_string(t->num_nrc) + " " + std::to_string(t->num_links);
    inm_topo_free(t);
    return result;
}

TEST(Topology, FilesAndTheirErrors)
{
    const std::string list =
        "[topology]\nname = ring\nnrc = 2\nnic = 1\nserver = nic0\n[links]\nlink = nrc0:0 nic0:0\n";
    EXPECT_EQ("2 2", read_topology(list + "link = nrc0:1 nrc1:1\n"));
    EXPECT_EQ(":8: no such port: nrc2:1", read_topology(list + "link = nrc2:1 nrc1:1\n"));
    EXPECT_EQ(":8: port nrc0:0 or nrc1:1 has a link already",
              read_topology(list + "link = nrc0:0 nrc1:1\n"));
    EXPECT_EQ(":2: [topology] has no \"nmae\", or its value is too long",
              read_topology("[topology]\nnmae = x\n"));
    EXPECT_EQ(":3: racks: \"many\" is not a number from 0 to 4096",
              read_topology("[tree]\nframes = 2\nracks = many\n"));
    EXPECT_EQ(": needs one of [tree] and [links]", read_topology("[topology]\nname = x\n"));
    EXPECT_EQ(":2: is neither [section] nor name = value, or is too long",
              read_topology("[topology]\nrubbish\n"));
}

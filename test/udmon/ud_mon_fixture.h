// A host on transport ud_mon, and a bare UD queue pair that sends whatever a test wants it to.
// Everything here needs RDMA devices: run in contrib/rdma-vm, with two hosts.
#ifndef UD_MON_FIXTURE_H
#define UD_MON_FIXTURE_H

#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <uct/api/uct.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

extern "C" {
#include "uct/ib_ud_mon/uct_ud_mon.h"
#include "uct/ib_ud_mon/ud_mon_wire.h"
}

#define ASSERT_UCS_OK(_expr) ASSERT_EQ(UCS_OK, (_expr))

// An open interface with its worker; configured by the environment, as a user would.
class Host
{
  public:
    static constexpr uint8_t am_id = 7;

    explicit Host(const std::string &device)
    {
        open(device);
    }
    ~Host();
    Host(const Host &) = delete;

    unsigned progress()
    {
        return uct_worker_progress(worker);
    }
    // Progress until `done`, or for a generous number of rounds; returns whether it was done.
    bool progress_until(const std::function<bool()> &done, Host *other = nullptr);
    uct_ep_h connect(Host &peer);
    uct_ud_mon_stats_t stats();
    uct_iface_attr_t attr();
    std::vector<uint8_t> device_addr(), iface_addr();
    std::vector<std::string> devices(); // what UCT lists for this RDMA device

    uct_md_h md = nullptr;
    uct_worker_h worker = nullptr;
    uct_iface_h iface = nullptr;
    std::vector<std::string> received;
    std::function<void()> on_message; // called inside the handler

  private:
    void open(const std::string &device);
    void open_md(const std::string &device);
    void open_iface(const std::string &device);
    static ucs_status_t handler(void *arg, void *data, size_t length, unsigned flags);

    ucs_async_context_t *async = nullptr;
    uct_component_h component = nullptr;
};

// How many address handles have been made and destroyed, by whomever.
extern unsigned created_ahs, destroyed_ahs;

// The LID that ports have from now on, as if a subnet manager had given them another: soft-RoCE has none.
extern uint16_t moved_to_lid; // 0: their own

ssize_t send_bcopy(uct_ep_h ep, const std::string &data, uint8_t am_id = Host::am_id);

// UD without ud_mon: to send what no ud_mon would.
class RawQp
{
  public:
    explicit RawQp(const std::string &device);
    ~RawQp();
    void aim(Host &peer);
    void send(const void *data, size_t length);
    void send(const ud_mon_header_t &header, const std::string &payload);

    uint32_t qkey = 0; // of the peer
    uint32_t qpn = 0;

  private:
    ibv_context *context = nullptr;
    ibv_pd *pd = nullptr;
    ibv_cq *cq = nullptr;
    ibv_qp *qp = nullptr;
    ibv_ah *ah = nullptr;
    ibv_mr *mr = nullptr;
    uint8_t buffer[4096];
};

// Bytes that differ with `seed`.
std::string pattern(size_t length, unsigned seed);

// Two hosts, and an endpoint from the first to the second.
class UdMonTest : public testing::Test
{
  protected:
    void SetUp() override
    {
        restart();
    }
    void TearDown() override
    {
        close();
        for (const std::string &name : variables) {
            unsetenv(name.c_str());
        }
    }

    void close()
    {
        if (ep != nullptr) {
            uct_ep_destroy(ep);
            ep = nullptr;
        }
        a.reset();
        b.reset();
    }

    // Open both anew, with what set() has changed.
    void restart()
    {
        close();
        a = std::make_unique<Host>("rxe1");
        b = std::make_unique<Host>("rxe2");
        ep = a->connect(*b);
    }

    void set(const std::string &name, const std::string &value)
    {
        variables.push_back("UCX_IB_UD_MON_" + name);
        setenv(variables.back().c_str(), value.c_str(), 1);
    }

    bool arrives(size_t count)
    {
        return a->progress_until([&] { return b->received.size() >= count; }, b.get());
    }

    // Give what must not arrive the time to do so: a marker sent after it has come through.
    void settle()
    {
        size_t before = b->received.size();

        ASSERT_GE(send_bcopy(ep, "marker"), 0);
        ASSERT_TRUE(arrives(before + 1));
        ASSERT_EQ("marker", b->received.back());
        b->received.pop_back();
    }

    // The header of a datagram as a ud_mon of identity `sender` would write it.
    static ud_mon_header_t header(uint64_t sender, uint64_t seq, size_t length)
    {
        ud_mon_header_t h = {};

        h.magic = htole32(UD_MON_MAGIC);
        h.am_id = Host::am_id;
        h.length = htole16(length);
        h.sender = htole64(sender);
        h.seq = htole64(seq);
        return h;
    }

    std::unique_ptr<Host> a, b;
    uct_ep_h ep = nullptr;
    std::vector<std::string> variables;
};

#endif

/*
 * UCT objects of the transport, for tests: a memory domain, its interfaces, endpoints, registered
 * memory. They are made and closed like C++ objects, expect success, and are used through UCT's
 * own interface.
 */
#ifndef UCT_TEST_NODE_H
#define UCT_TEST_NODE_H

#include "internals.h"
#include "process.h"

#include <uct/api/uct.h>
#include <uct/api/v2/uct_v2.h>

extern "C" {
#include <glex_ext.h>
}

#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

/* Expect UCS_OK (or another status) and print the actual status */
#define EXPECT_STATUS(_expected, _call)                                                            \
    do {                                                                                           \
        ucs_status_t status_ = (_call);                                                            \
        EXPECT_EQ(status_, (_expected)) << #_call << ": " << ucs_status_string(status_);           \
    } while (0)
#define EXPECT_OK(_call) EXPECT_STATUS(UCS_OK, _call)

/* The module, loaded into this process at the first call */
uct_component_h component();

/* ---- the log ---- */

/* While one exists errors that UCX logs are kept instead of printed. Otherwise an error fails the
 * test. */
class ErrorLog
{
  public:
    ErrorLog();
    ~ErrorLog();
    ErrorLog(const ErrorLog &) = delete;

    /* All messages, a line each */
    std::string text() const;
};

/* ---- memory domain ---- */

class Md
{
  public:
    explicit Md(unsigned nic = 0);
    ~Md();
    Md(const Md &) = delete;

    uct_md_h handle = NULL;
    uct_md_attr_t attr;
    uct_glex_md_t *internals() const
    {
        return (uct_glex_md_t *)handle;
    }

    bool has(uint64_t md_flag) const
    {
        return (attr.cap.flags & md_flag) == md_flag;
    }
};

/* Try to open a memory domain; UCS_OK closes it again */
ucs_status_t try_open_md();
ucs_status_t try_open_iface(Md &md);

/* Memory of a domain: allocated from the NIC, or registered private memory */
class Memory
{
  public:
    enum Kind { NIC, PRIVATE };

    Memory(Md &md, size_t length, Kind kind);
    ~Memory();
    Memory(const Memory &) = delete;

    /* For peers: address, length, packed key */
    std::string describe() const;

    uint8_t *data = NULL;
    size_t length = 0;
    uct_mem_h memh = NULL;

  private:
    Md &md_;
    Kind kind_;
};

/* Kinds of memory that a domain has */
std::vector<Memory::Kind> memory_kinds(const Md &md);

/* A peer's memory, from its description */
class RemoteMemory
{
  public:
    explicit RemoteMemory(const std::string &description);
    ~RemoteMemory();
    RemoteMemory(const RemoteMemory &) = delete;

    uint64_t address;
    size_t length;
    uct_rkey_bundle_t rkey;
};

/* ---- interface ---- */

typedef std::function<void(const void *data, size_t length)> AmHandler;

class Iface
{
  public:
    explicit Iface(Md &md, size_t rx_headroom = 0);
    ~Iface();
    Iface(const Iface &) = delete;

    void on_am(uint8_t id, const AmHandler &handler);
    std::string address() const;
    unsigned progress();

    /* Messages and errors of the NIC's endpoint */
    glex_ext_counters counters() const;

    bool has(uint64_t iface_flag) const
    {
        return (attr.cap.flags & iface_flag) == iface_flag;
    }

    uct_glex_iface_t *internals() const
    {
        return (uct_glex_iface_t *)handle;
    }

    /* Flush, going on until it is done */
    void flush();

    /* Before the first connection: divide the message queue as on a NIC that loses messages when a
     * queue is full, so that peers must wait. Returns the number of peers that fit. */
    unsigned make_losing();

    /* The sum of granted windows, their control reserve and free entries must be the capacity */
    void check_credits() const;

    Md &md;
    uct_iface_h handle = NULL;
    uct_iface_attr_t attr;
    uct_worker_h worker = NULL;

    /* Endpoints whose peers were reported dead, with the reason */
    std::list<std::pair<uct_ep_h, ucs_status_t>> failed;

  private:
    static ucs_status_t am_callback(void *arg, void *data, size_t length, unsigned flags);
    static ucs_status_t error_callback(void *arg, uct_ep_h ep, ucs_status_t status);

    ucs_async_context_t *async_ = NULL;
    unsigned mpq_units_;
    AmHandler handlers_[UCT_AM_ID_MAX];
};

/* Progress all interfaces of this thread; gives way to others when nothing happens */
void progress();

/* Progress until `done`. `what` is printed after the time limit. */
void progress_until(const char *what, const std::function<bool()> &done);

/* As a function of Team::barrier() */
void team_barrier(Team &team);

/* ---- completion and endpoint ---- */

struct Completion {
    explicit Completion(int count = 1)
    {
        uct.func = on_done;
        uct.count = count;
        uct.status = UCS_OK;
    }
    Completion(const Completion &) = delete;

    void wait(const char *what = "a completion")
    {
        progress_until(what, [this] { return done > 0; });
    }

    uct_completion_t uct;
    int done = 0;

  private:
    static void on_done(uct_completion_t *self)
    {
        ++((Completion *)self)->done; /* the first member */
    }
};

class Ep
{
  public:
    Ep(Iface &iface, const std::string &peer);
    ~Ep();
    Ep(const Ep &) = delete;

    /* Each tries again, with progress, as long as there are no resources */
    ucs_status_t am_short(uint8_t id, uint64_t header, const void *payload, unsigned length);
    ucs_status_t am_short_iov(uint8_t id, const std::vector<uct_iov_t> &iov);
    ssize_t am_bcopy(uint8_t id, const void *data, size_t length, unsigned flags = 0);
    ucs_status_t am_zcopy(uint8_t id, const void *header, unsigned header_length,
                          const std::vector<uct_iov_t> &iov, Completion *comp);
    ucs_status_t put_short(const void *data, unsigned length, uint64_t address, uct_rkey_t rkey);
    ssize_t put_bcopy(const void *data, size_t length, uint64_t address, uct_rkey_t rkey);
    ucs_status_t put_zcopy(const std::vector<uct_iov_t> &iov, uint64_t address, uct_rkey_t rkey,
                           Completion *comp);
    ucs_status_t get_short(void *data, unsigned length, uint64_t address, uct_rkey_t rkey);
    ucs_status_t get_bcopy(void *data, size_t length, uint64_t address, uct_rkey_t rkey,
                           Completion *comp);
    ucs_status_t get_zcopy(const std::vector<uct_iov_t> &iov, uint64_t address, uct_rkey_t rkey,
                           Completion *comp);

    /* Flush with a completion, going on until it is done. Returns its status. */
    ucs_status_t flush();

    /* State of the connection, or NULL before the first communication */
    uct_glex_vc_t *vc() const;

    /* Whether its peer was reported dead */
    bool failed() const;

    Iface &iface;
    uct_ep_h handle = NULL;
};

/* As if the peer is dead and all its messages are handled: the next progress fails the VC */
void fail_at_once(uct_glex_vc_t *vc);

/* One piece of memory as a vector of one */
uct_iov_t piece(void *data, size_t length, uct_mem_h memh = NULL);

#endif

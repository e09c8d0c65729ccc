/*
 * One side of a test: a domain with an endpoint, its queues, counters and address vector, opened
 * through libfabric. Two of them in one process talk to each other like two processes.
 */
#ifndef TEST_OFI_NODE_H
#define TEST_OFI_NODE_H

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <vector>

/** Bits of mr_mode of older programs, whose names libfabric 2 calls deprecated. */
constexpr int MR_BASIC = 1 << 0, MR_SCALABLE = 1 << 1;

/** Options of a node. */
struct Wish {
    uint64_t caps = 0;
    uint64_t tx_op_flags = 0;
    uint64_t msg_order = 0;
    int mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    fi_threading threading = FI_THREAD_DOMAIN;
    fi_progress data_progress = FI_PROGRESS_UNSPEC;
    fi_wait_obj wait_obj = FI_WAIT_NONE;
    fi_av_type av_type = FI_AV_UNSPEC;
    uint32_t addr_format = FI_FORMAT_UNSPEC;
    size_t cq_size = 0;
    uint64_t cq_flags = 0;     /* FI_SELECTIVE_COMPLETION */
    bool count_remote = false; /* counters of remote reads and writes are bound */
};

/** A completion, good or bad. */
struct Done {
    void *context;
    uint64_t flags, len, data, tag;
    void *buf;
    fi_addr_t source;
    int err;
    size_t olen;
    std::vector<char> err_data = {};
};

class Node
{
  public:
    explicit Node(const Wish &wish = Wish());
    ~Node();
    Node(const Node &) = delete;
    Node &operator=(const Node &) = delete;

    std::vector<char> name();
    fi_addr_t know(const std::vector<char> &name);
    fi_addr_t know(Node &other)
    {
        return know(other.name());
    }

    /** Read the waiting completions into `done`. */
    void poll();

    fi_info *info = nullptr;
    fid_fabric *fabric = nullptr;
    fid_domain *domain = nullptr;
    fid_av *av = nullptr;
    fid_cq *cq = nullptr;
    fid_ep *ep = nullptr;
    fid_cntr *remote_reads = nullptr, *remote_writes = nullptr;
    std::deque<Done> done;
};

/** Call again and again until it is true; all nodes are polled meanwhile. False: a minute went
 *  by. */
bool wait_for(std::initializer_list<Node *> nodes, const std::function<bool()> &is_true);

/** Call until it says something else than -FI_EAGAIN. */
ssize_t retry(std::initializer_list<Node *> nodes, const std::function<ssize_t()> &call);

/** Wait for the next completion of a node and take it. `err` is -1 if none came. */
Done next_done(Node &node, std::initializer_list<Node *> nodes);

/** Bytes that depend on their position. */
std::vector<char> pattern(size_t length, unsigned seed);

/** Two nodes that know each other. */
class Pair : public testing::Test
{
  protected:
    void open(const Wish &wish = Wish())
    {
        a.reset(new Node(wish));
        b.reset(new Node(wish));
        b_of_a = a->know(*b);
        a_of_b = b->know(*a);
    }

    Done next(Node &node)
    {
        return next_done(node, {a.get(), b.get()});
    }

    bool wait(const std::function<bool()> &is_true)
    {
        return wait_for({a.get(), b.get()}, is_true);
    }

    ssize_t go(const std::function<ssize_t()> &call)
    {
        return retry({a.get(), b.get()}, call);
    }

    /** Progress of both nodes, so that an unwanted message would arrive. */
    void settle()
    {
        for (int i = 0; i < 2000; i++) {
            a->poll();
            b->poll();
        }
    }

    std::unique_ptr<Node> a, b;
    fi_addr_t b_of_a = 0, a_of_b = 0;
};

#endif

#include "node.h"

#include <sched.h>

static const unsigned kRoundsOfOneProcess = 32;

static void check(int ret, const char *what)
{
    if (ret != 0) {
        throw std::runtime_error(std::string(what) + ": " + fi_strerror(-ret));
    }
}

Node::Node(const Wish &wish)
{
    fi_info *hints = fi_allocinfo();
    fi_cq_attr cq_attr{};
    fi_av_attr av_attr{};
    fi_cntr_attr cntr_attr{};

    hints->caps = wish.caps;
    hints->addr_format = wish.addr_format;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = wish.mr_mode;
    hints->domain_attr->threading = wish.threading;
    hints->domain_attr->data_progress = wish.data_progress;
    hints->tx_attr->op_flags = wish.tx_op_flags;
    hints->tx_attr->msg_order = hints->rx_attr->msg_order = wish.msg_order;
    hints->fabric_attr->prov_name = strdup("glex");
    int ret = fi_getinfo(FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION), nullptr, nullptr, 0, hints,
                         &info);
    fi_freeinfo(hints);
    check(ret, "fi_getinfo");
    check(fi_fabric(info->fabric_attr, &fabric, nullptr), "fi_fabric");
    check(fi_domain(fabric, info, &domain, nullptr), "fi_domain");
    av_attr.type = wish.av_type;
    check(fi_av_open(domain, &av_attr, &av, nullptr), "fi_av_open");
    cq_attr.format = FI_CQ_FORMAT_TAGGED;
    cq_attr.wait_obj = wish.wait_obj;
    cq_attr.size = wish.cq_size;
    check(fi_cq_open(domain, &cq_attr, &cq, nullptr), "fi_cq_open");
    check(fi_endpoint(domain, info, &ep, nullptr), "fi_endpoint");
    check(fi_ep_bind(ep, &av->fid, 0), "fi_ep_bind av");
    check(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV | wish.cq_flags), "fi_ep_bind cq");
    if (wish.count_remote) {
        check(fi_cntr_open(domain, &cntr_attr, &remote_reads, nullptr), "fi_cntr_open");
        check(fi_cntr_open(domain, &cntr_attr, &remote_writes, nullptr), "fi_cntr_open");
        check(fi_ep_bind(ep, &remote_reads->fid, FI_REMOTE_READ), "fi_ep_bind cntr");
        check(fi_ep_bind(ep, &remote_writes->fid, FI_REMOTE_WRITE), "fi_ep_bind cntr");
    }
    check(fi_enable(ep), "fi_enable");
}

Node::~Node()
{
    if (ep != nullptr) { /* else the test has closed it */
        EXPECT_EQ(0, fi_close(&ep->fid));
    }
    for (fid_cntr *cntr : {remote_reads, remote_writes}) {
        if (cntr != nullptr) {
            EXPECT_EQ(0, fi_close(&cntr->fid));
        }
    }
    EXPECT_EQ(0, fi_close(&cq->fid));
    EXPECT_EQ(0, fi_close(&av->fid));
    EXPECT_EQ(0, fi_close(&domain->fid));
    EXPECT_EQ(0, fi_close(&fabric->fid));
    fi_freeinfo(info);
}

std::vector<char> Node::name()
{
    std::vector<char> name(256);
    size_t length = name.size();

    check(fi_getname(&ep->fid, name.data(), &length), "fi_getname");
    name.resize(length);
    return name;
}

fi_addr_t Node::know(const std::vector<char> &name)
{
    fi_addr_t addr = FI_ADDR_UNSPEC;

    EXPECT_EQ(1, fi_av_insert(av, name.data(), 1, &addr, 0, nullptr));
    return addr;
}

void Node::poll()
{
    fi_cq_tagged_entry entry;
    fi_cq_err_entry error{};
    fi_addr_t source = FI_ADDR_UNSPEC;
    ssize_t ret;

    while ((ret = fi_cq_readfrom(cq, &entry, 1, &source)) == 1) {
        done.push_back({entry.op_context, entry.flags, entry.len, entry.data, entry.tag, entry.buf,
                        source, 0, 0});
    }
    if (ret == -FI_EAVAIL) {
        ASSERT_EQ(1, fi_cq_readerr(cq, &error, 0));
        done.push_back({error.op_context, error.flags, error.len, error.data, error.tag, error.buf,
                        FI_ADDR_UNSPEC, error.err, error.olen});
        if (error.err_data_size > 0) {
            const char *data = static_cast<const char *>(error.err_data);
            done.back().err_data.assign(data, data + error.err_data_size);
        }
    } else {
        ASSERT_EQ(-FI_EAGAIN, ret);
    }
}

bool wait_for(std::initializer_list<Node *> nodes, const std::function<bool()> &is_true)
{
    auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);

    for (unsigned round = 1; !is_true(); round++) {
        if (std::chrono::steady_clock::now() > end) {
            return false;
        }
        for (Node *node : nodes) {
            node->poll();
        }
        /* Most messages are there after one or two rounds. On a busy machine each yield costs time slices
         * of other programs. Only other processes and sleeping threads need the processor */
        if (round % kRoundsOfOneProcess == 0) {
            sched_yield();
        }
    }
    return true;
}

ssize_t retry(std::initializer_list<Node *> nodes, const std::function<ssize_t()> &call)
{
    ssize_t ret = -FI_EAGAIN;

    wait_for(nodes, [&] { return (ret = call()) != -FI_EAGAIN; });
    return ret;
}

Done next_done(Node &node, std::initializer_list<Node *> nodes)
{
    Done none{};

    none.err = -1;
    if (!wait_for(nodes, [&] { return !node.done.empty(); })) {
        return none;
    }
    Done first = node.done.front();
    node.done.pop_front();
    return first;
}

std::vector<char> pattern(size_t length, unsigned seed)
{
    std::vector<char> bytes(length);

    for (size_t i = 0; i < length; i++) {
        bytes[i] = static_cast<char>(i * 131 + i / 251 + seed);
    }
    return bytes;
}

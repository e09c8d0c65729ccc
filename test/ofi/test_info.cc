/* fi_getinfo(): what is offered, and that the rest is refused. */
#include "node.h"

#include <algorithm>
#include <csignal>
#include <functional>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace
{

int ask(const std::function<void(fi_info *)> &change, fi_info **info_p = nullptr)
{
    fi_info *hints = fi_allocinfo(), *info = nullptr;

    hints->fabric_attr->prov_name = strdup("glex");
    change(hints);
    int ret = fi_getinfo(FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION), nullptr, nullptr, 0, hints,
                         &info);
    fi_freeinfo(hints);
    if (info_p != nullptr) {
        *info_p = info;
    } else if (info != nullptr) {
        fi_freeinfo(info);
    }
    return ret;
}

TEST(Info, WhatIsOfferedIsGranted)
{
    EXPECT_EQ(0, ask([](fi_info *) {}));
    EXPECT_EQ(0, ask([](fi_info *h) { h->caps = FI_MSG | FI_TAGGED | FI_RMA | FI_SOURCE; }));
    EXPECT_EQ(0, ask([](fi_info *h) { h->caps = FI_ATOMIC; }));
    EXPECT_EQ(0, ask([](fi_info *h) { h->caps = FI_RMA | FI_RMA_EVENT; }));
    EXPECT_EQ(0, ask([](fi_info *h) { h->ep_attr->type = FI_EP_RDM; }));
    EXPECT_EQ(0, ask([](fi_info *h) { h->tx_attr->op_flags = FI_DELIVERY_COMPLETE; }));
    EXPECT_EQ(0, ask([](fi_info *h) { h->tx_attr->msg_order = FI_ORDER_SAS; }));
    EXPECT_EQ(0, ask([](fi_info *h) { h->domain_attr->mr_mode = MR_BASIC; }));
    EXPECT_EQ(0, ask([](fi_info *h) { h->domain_attr->mr_mode = MR_SCALABLE; }));
    EXPECT_EQ(0, ask([](fi_info *h) { h->mode = FI_CONTEXT | FI_CONTEXT2; }));
    EXPECT_EQ(0, ask([](fi_info *h) { h->caps = FI_RMA | FI_FENCE; }));
    EXPECT_EQ(0, ask([](fi_info *h) {
                  h->tx_attr->msg_order = FI_ORDER_WAW;
                  h->ep_attr->max_order_waw_size = 1 << 20;
              }));
    EXPECT_EQ(0, ask([](fi_info *h) { h->addr_format = FI_ADDR_STR; }));
    EXPECT_EQ(0, ask([](fi_info *h) { h->caps = FI_MSG | FI_SOURCE | FI_SOURCE_ERR; }));
}

/* Hints as programs give them, in short */
TEST(Info, WhatProgramsAskFor)
{
    struct {
        const char *program;
        uint64_t caps;
        fi_progress control, data;
        fi_threading threading;
        uint64_t op_flags, msg_order;
    } hints[] = {
        {"Open MPI mtl ofi", FI_MSG | FI_TAGGED | FI_DIRECTED_RECV | FI_LOCAL_COMM | FI_REMOTE_COMM,
         FI_PROGRESS_UNSPEC, FI_PROGRESS_MANUAL, FI_THREAD_DOMAIN, 0, FI_ORDER_SAS},
        {"Open MPI btl ofi", FI_RMA | FI_ATOMIC, FI_PROGRESS_MANUAL, FI_PROGRESS_MANUAL,
         FI_THREAD_DOMAIN, FI_DELIVERY_COMPLETE, 0},
        {"MPICH ch4:ofi",
         FI_RMA | FI_ATOMIC | FI_TAGGED | FI_MSG | FI_MULTI_RECV | FI_DIRECTED_RECV,
         FI_PROGRESS_UNSPEC, FI_PROGRESS_MANUAL, FI_THREAD_DOMAIN,
         FI_DELIVERY_COMPLETE | FI_COMPLETION, FI_ORDER_SAS},
        {"Sandia OpenSHMEM", FI_RMA | FI_ATOMIC | FI_RMA_EVENT, FI_PROGRESS_UNSPEC,
         FI_PROGRESS_AUTO, FI_THREAD_DOMAIN, FI_DELIVERY_COMPLETE, 0},
        {"Mercury", FI_MSG | FI_TAGGED | FI_RMA | FI_DIRECTED_RECV | FI_MULTI_RECV,
         FI_PROGRESS_MANUAL, FI_PROGRESS_MANUAL, FI_THREAD_SAFE, FI_DELIVERY_COMPLETE, 0},
        {"GASNet-EX", FI_MSG | FI_RMA | FI_MULTI_RECV, FI_PROGRESS_AUTO, FI_PROGRESS_AUTO,
         FI_THREAD_SAFE, 0, 0},
        {"NCCL plug-in, host memory", FI_TAGGED | FI_MSG | FI_LOCAL_COMM | FI_REMOTE_COMM,
         FI_PROGRESS_AUTO, FI_PROGRESS_UNSPEC, FI_THREAD_SAFE, 0, FI_ORDER_SAS},
        {"Chapel comm=ofi", FI_MSG | FI_MULTI_RECV | FI_RMA | FI_ATOMIC, FI_PROGRESS_MANUAL,
         FI_PROGRESS_MANUAL, FI_THREAD_SAFE, FI_DELIVERY_COMPLETE,
         FI_ORDER_RAW | FI_ORDER_WAW | FI_ORDER_SAW | FI_ORDER_SAS},
        {"oneCCL", FI_TAGGED | FI_DIRECTED_RECV, FI_PROGRESS_UNSPEC, FI_PROGRESS_MANUAL,
         FI_THREAD_ENDPOINT, 0, 0},
    };

    for (auto &hint : hints) {
        fi_info *info = nullptr;
        ASSERT_EQ(0, ask(
                         [&](fi_info *h) {
                             h->caps = hint.caps;
                             h->ep_attr->type = FI_EP_RDM;
                             h->domain_attr->control_progress = hint.control;
                             h->domain_attr->data_progress = hint.data;
                             h->domain_attr->threading = hint.threading;
                             h->tx_attr->op_flags = hint.op_flags;
                             h->tx_attr->msg_order = hint.msg_order;
                         },
                         &info))
            << hint.program;
        EXPECT_EQ(hint.data == FI_PROGRESS_AUTO,
                  info->domain_attr->data_progress == FI_PROGRESS_AUTO);
        EXPECT_EQ(hint.control == FI_PROGRESS_AUTO,
                  info->domain_attr->control_progress == FI_PROGRESS_AUTO);
        fi_freeinfo(info);
    }
}

/* Hints that are refused, with the field that the log names */
struct Refused {
    const char *what, *field;
    std::function<void(fi_info *)> change;
};

const Refused refused[] = {
    {"collectives", "caps", [](fi_info *h) { h->caps = FI_COLLECTIVE; }},
    {"fences of all operations", "tx_attr->op_flags",
     [](fi_info *h) { h->tx_attr->op_flags = FI_FENCE; }},
    {"triggered operations", "caps", [](fi_info *h) { h->caps = FI_MSG | FI_TRIGGER; }},
    {"named receive contexts", "caps", [](fi_info *h) { h->caps = FI_MSG | FI_NAMED_RX_CTX; }},
    {"accelerators' memory", "caps", [](fi_info *h) { h->caps = FI_MSG | FI_HMEM; }},
    {"connected endpoints", "ep_attr->type", [](fi_info *h) { h->ep_attr->type = FI_EP_MSG; }},
    {"datagrams", "ep_attr->type", [](fi_info *h) { h->ep_attr->type = FI_EP_DGRAM; }},
    {"another protocol", "ep_attr->protocol",
     [](fi_info *h) { h->ep_attr->protocol = FI_PROTO_UDP; }},
    {"unknown progress", "domain_attr->data_progress",
     [](fi_info *h) { h->domain_attr->data_progress = fi_progress(4); }},
    {"RMA behind sends", "tx_attr->msg_order",
     [](fi_info *h) { h->tx_attr->msg_order = FI_ORDER_WAS; }},
    {"ordered long writes", "ep_attr->max_order_waw_size",
     [](fi_info *h) { h->ep_attr->max_order_waw_size = 8; }},
    {"RMA behind sends, of receivers", "rx_attr->msg_order",
     [](fi_info *h) { h->rx_attr->msg_order = FI_ORDER_RAS; }},
    {"long injects", "tx_attr->inject_size", [](fi_info *h) { h->tx_attr->inject_size = 1 << 20; }},
    {"long error data", "domain_attr->max_err_data",
     [](fi_info *h) { h->domain_attr->max_err_data = 256; }},
    {"many pieces", "tx_attr->iov_limit", [](fi_info *h) { h->tx_attr->iov_limit = 5; }},
    {"many remote pieces", "tx_attr->rma_iov_limit",
     [](fi_info *h) { h->tx_attr->rma_iov_limit = 2; }},
    {"many received pieces", "rx_attr->iov_limit", [](fi_info *h) { h->rx_attr->iov_limit = 5; }},
    {"long keys", "domain_attr->mr_key_size", [](fi_info *h) { h->domain_attr->mr_key_size = 16; }},
    {"registered pieces", "domain_attr->mr_iov_limit",
     [](fi_info *h) { h->domain_attr->mr_iov_limit = 5; }},
    {"old and new bits", "domain_attr->mr_mode",
     [](fi_info *h) { h->domain_attr->mr_mode = MR_BASIC | FI_MR_LOCAL; }},
    {"shared contexts", "ep_attr->rx_ctx_cnt",
     [](fi_info *h) { h->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT; }},
    {"scalable endpoints", "ep_attr->tx_ctx_cnt", [](fi_info *h) { h->ep_attr->tx_ctx_cnt = 2; }},
    {"socket addresses", "addr_format", [](fi_info *h) { h->addr_format = FI_SOCKADDR_IN; }},
    {"another domain", "domain_attr->name",
     [](fi_info *h) { h->domain_attr->name = strdup("eth0"); }},
    {"durable writes", "tx_attr->op_flags",
     [](fi_info *h) { h->tx_attr->op_flags = FI_COMMIT_COMPLETE; }},
};

TEST(Info, WhatIsNotOfferedIsRefused)
{
    for (auto &hint : refused) {
        EXPECT_EQ(-FI_ENODATA, ask(hint.change)) << hint.what;
    }
}

/* The log of one test in another process, because libfabric reads its variables once */
std::vector<std::string> log_of(const std::string &variables, const std::string &test)
{
    char self[4096] = "", text[4096];
    std::vector<std::string> lines;

    EXPECT_GT(readlink("/proc/self/exe", self, sizeof(self) - 1), 0);
    FILE *out = popen(("env -u GLEX_FABRIC FI_LOG_PROV=glex " + variables + " " + self +
                       " --gtest_filter=" + test + " 2>&1")
                          .c_str(),
                      "r");
    EXPECT_NE(nullptr, out);
    while (out != nullptr && fgets(text, sizeof(text), out) != nullptr) {
        /* the name of another provider before this one: the other provider asks for itself */
        if (strstr(text, "::glex:") != nullptr) {
            lines.emplace_back(text);
        }
    }
    pclose(out);
    return lines;
}

TEST(Info, TheLogNamesTheRefusedHint)
{
    std::vector<std::string> hints;

    for (const std::string &line : log_of("FI_LOG_LEVEL=info", "Info.WhatIsNotOfferedIsRefused")) {
        if (line.find("hint ") != std::string::npos) {
            hints.push_back(line.substr(line.find("hint ")));
        }
    }
    ASSERT_EQ(std::size(refused), hints.size());
    for (size_t i = 0; i < hints.size(); i++) {
        std::string begin = std::string("hint ") + refused[i].field;
        EXPECT_EQ(begin, hints[i].substr(0, begin.size())) << refused[i].what;
    }
}

TEST(Info, TheLogTellsOfASizeThatIsCut)
{
    const char *test = "Tagged.RemoteDataComesAlong",
               *cut = "FI_GLEX_EAGER_SIZE=1000000 is more than";
    auto says = [&](const std::string &variables) {
        std::vector<std::string> lines = log_of(variables, test);
        return std::any_of(lines.begin(), lines.end(), [&](const std::string &line) {
            return line.find(cut) != std::string::npos;
        });
    };

    EXPECT_FALSE(says("FI_LOG_LEVEL=warn"));
    EXPECT_TRUE(says("FI_LOG_LEVEL=warn FI_GLEX_EAGER_SIZE=1000000"));
}

TEST(Info, OnlyWhatIsAskedForIsSwitchedOn)
{
    fi_info *info = nullptr;

    ASSERT_EQ(0, ask([](fi_info *h) { h->caps = FI_TAGGED; }, &info));
    EXPECT_TRUE(info->caps & FI_SEND);
    EXPECT_TRUE(info->caps & FI_RECV);
    EXPECT_FALSE(info->caps & (FI_MSG | FI_RMA | FI_SOURCE | FI_DIRECTED_RECV));
    EXPECT_EQ(0, info->domain_attr->mr_mode);
    fi_freeinfo(info);
    ASSERT_EQ(0, ask([](fi_info *) {}, &info)); /* errors need a program that expects them */
    EXPECT_EQ((uint64_t)FI_SOURCE, info->caps & (FI_SOURCE | FI_SOURCE_ERR));
    EXPECT_EQ((uint32_t)FI_FORMAT_UNSPEC, info->addr_format);
    fi_freeinfo(info);
    ASSERT_EQ(
        0, ask([](fi_info *h) { h->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_LOCAL; }, &info));
    EXPECT_EQ(FI_MR_VIRT_ADDR, info->domain_attr->mr_mode);
    EXPECT_EQ(FI_PROGRESS_MANUAL, info->domain_attr->control_progress);
    fi_freeinfo(info);
    /* FI_PROGRESS_CONTROL_UNIFIED of libfabric 2: one thread at a time, whatever it calls */
    ASSERT_EQ(0, ask([](fi_info *h) { h->domain_attr->control_progress = fi_progress(3); }, &info));
    EXPECT_EQ(fi_progress(3), info->domain_attr->control_progress);
    fi_freeinfo(info);
}

TEST(Info, AnAddressGoesThroughAString)
{
    Node node;
    std::vector<char> name = node.name();
    char text[512];
    size_t length = sizeof(text);
    fi_info *info = nullptr;

    fi_av_straddr(node.av, name.data(), text, &length);
    EXPECT_EQ(strlen(text) + 1, length);
    ASSERT_EQ(0, fi_getinfo(FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION), text, nullptr, 0,
                            nullptr, &info));
    ASSERT_EQ(name.size(), info->dest_addrlen);
    EXPECT_EQ(0, memcmp(name.data(), info->dest_addr, name.size()));
    fi_freeinfo(info);
    text[strlen(text) - 1] = 'x';
    EXPECT_NE(0, fi_getinfo(FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION), text, nullptr, 0,
                            nullptr, &info));
}

/* An endpoint that was opened for fi_getinfo(node, service, FI_SOURCE), and sends nothing */
class Server
{
  public:
    Server(const char *node, const char *service)
    {
        fi_info *hints = fi_allocinfo();
        fi_cq_attr cq_attr{};
        fi_av_attr av_attr{};

        hints->fabric_attr->prov_name = strdup("glex");
        hints->caps = FI_MSG | FI_RECV;
        EXPECT_EQ(0, fi_getinfo(FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION), node, service,
                                FI_SOURCE, hints, &info));
        fi_freeinfo(hints);
        EXPECT_EQ(0, fi_fabric(info->fabric_attr, &fabric, nullptr));
        EXPECT_EQ(0, fi_domain(fabric, info, &domain, nullptr));
        EXPECT_EQ(0, fi_av_open(domain, &av_attr, &av, nullptr));
        EXPECT_EQ(0, fi_cq_open(domain, &cq_attr, &cq, nullptr));
        EXPECT_EQ(0, fi_endpoint(domain, info, &ep, nullptr));
        EXPECT_EQ(0, fi_ep_bind(ep, &av->fid, 0));
        EXPECT_EQ(0, fi_ep_bind(ep, &cq->fid, FI_RECV));
    }

    ~Server()
    {
        for (fid *one : {&ep->fid, &av->fid, &cq->fid, &domain->fid, &fabric->fid}) {
            EXPECT_EQ(0, fi_close(one));
        }
        fi_freeinfo(info);
    }

    std::vector<char> name()
    {
        std::vector<char> bytes(64);
        size_t length = bytes.size();

        EXPECT_EQ(0, fi_getname(&ep->fid, bytes.data(), &length));
        return bytes;
    }

    fi_info *info = nullptr;
    fid_fabric *fabric = nullptr;
    fid_domain *domain = nullptr;
    fid_av *av = nullptr;
    fid_cq *cq = nullptr;
    fid_ep *ep = nullptr;
};

/* The address that fi_getinfo() finds; empty if it finds none */
std::vector<char> find(const char *node, const char *service)
{
    fi_info *hints = fi_allocinfo(), *info = nullptr;
    std::vector<char> found;

    hints->fabric_attr->prov_name = strdup("glex");
    if (fi_getinfo(FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION), node, service, 0, hints,
                   &info) == 0) {
        const char *bytes = static_cast<char *>(info->dest_addr);
        found.assign(bytes, bytes + info->dest_addrlen);
        fi_freeinfo(info);
    }
    fi_freeinfo(hints);
    return found;
}

/* The name belongs to the endpoint from fi_enable() to fi_close() */
TEST(Names, LeadToTheEndpoint)
{
    const std::vector<char> none;
    Node client;

    for (auto &[node, service] :
         {std::pair<const char *, const char *>("fi_glex://my-server", nullptr),
          {nullptr, "my-server"}}) {
        fi_addr_t number = FI_ADDR_UNSPEC;
        Server server(node, service), second(node, service);

        EXPECT_EQ(none, find("fi_glex://my-server", nullptr));
        ASSERT_EQ(0, fi_enable(server.ep));
        EXPECT_EQ(0, fi_enable(second.ep)); /* of the same process: the first one keeps the name */
        EXPECT_EQ(server.name(), find("fi_glex://my-server", nullptr));
        EXPECT_EQ(server.name(), find("localhost", "my-server"));
        EXPECT_EQ(none, find("fi_glex://my-serve", nullptr));
        EXPECT_EQ(none, find("localhost", "no/name"));
        ASSERT_EQ(1, fi_av_insertsvc(client.av, "localhost", "my-server", &number, 0, nullptr));
        std::vector<char> known(64);
        size_t length = known.size();
        ASSERT_EQ(0, fi_av_lookup(client.av, number, known.data(), &length));
        EXPECT_EQ(server.name(), known);
    }
    EXPECT_EQ(none, find("fi_glex://my-server", nullptr));
    EXPECT_EQ(-FI_EINVAL,
              fi_av_insertsvc(client.av, "localhost", "my-server", nullptr, 0, nullptr));
}

/* Another process has the name: it is refused. The process dies: the name is free */
TEST(Names, BelongToOneLivingProcess)
{
    int ready[2];
    char byte = 0;

    ASSERT_EQ(0, pipe(ready));
    pid_t child = fork();
    if (child == 0) {
        Server server(nullptr, "4711");
        byte = fi_enable(server.ep) == 0 ? 'y' : 'n';
        (void)!write(ready[1], &byte, 1);
        pause();
    }
    ASSERT_EQ(1, read(ready[0], &byte, 1));
    ASSERT_EQ('y', byte);
    Server server(nullptr, "4711");
    EXPECT_EQ(-FI_EADDRINUSE, fi_enable(server.ep));
    EXPECT_NE(server.name(), find("localhost", "4711"));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    EXPECT_TRUE(find("localhost", "4711").empty());
    EXPECT_EQ(0, fi_enable(server.ep));
    EXPECT_EQ(server.name(), find("localhost", "4711"));
    close(ready[0]);
    close(ready[1]);
}

TEST(Info, WaitSetsAreRefused)
{
    Node node;
    fi_wait_attr wait_attr = {};
    fi_cq_attr cq_attr = {};
    fi_cntr_attr cntr_attr = {};
    fid_wait *wait_set;
    fid_cq *cq;
    fid_cntr *cntr;

    wait_attr.wait_obj = FI_WAIT_FD;
    cq_attr.wait_obj = cntr_attr.wait_obj = FI_WAIT_SET;
    EXPECT_EQ(-FI_ENOSYS, fi_wait_open(node.fabric, &wait_attr, &wait_set));
    EXPECT_EQ(-FI_ENOSYS, fi_cq_open(node.domain, &cq_attr, &cq, nullptr));
    EXPECT_EQ(-FI_ENOSYS, fi_cntr_open(node.domain, &cntr_attr, &cntr, nullptr));
}

TEST(Info, ADomainInUseIsNotClosed)
{
    Node node;

    EXPECT_EQ(-FI_EBUSY, fi_close(&node.domain->fid));
    EXPECT_EQ(-FI_EBUSY, fi_close(&node.cq->fid));
    EXPECT_EQ(-FI_EBUSY, fi_close(&node.av->fid));
    EXPECT_EQ(-FI_EBUSY, fi_close(&node.fabric->fid));
}

} // namespace

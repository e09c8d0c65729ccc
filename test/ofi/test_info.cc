/* fi_getinfo(): what is offered, and that the rest is refused. */
#include "node.h"

#include <functional>

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
}

TEST(Info, WhatIsNotOfferedIsRefused)
{
    struct {
        const char *what;
        std::function<void(fi_info *)> change;
    } refused[] = {
        {"collectives", [](fi_info *h) { h->caps = FI_COLLECTIVE; }},
        {"fences", [](fi_info *h) { h->caps = FI_RMA | FI_FENCE; }},
        {"fences of all operations", [](fi_info *h) { h->tx_attr->op_flags = FI_FENCE; }},
        {"triggered operations", [](fi_info *h) { h->caps = FI_MSG | FI_TRIGGER; }},
        {"named receive contexts", [](fi_info *h) { h->caps = FI_MSG | FI_NAMED_RX_CTX; }},
        {"accelerators' memory", [](fi_info *h) { h->caps = FI_MSG | FI_HMEM; }},
        {"connected endpoints", [](fi_info *h) { h->ep_attr->type = FI_EP_MSG; }},
        {"datagrams", [](fi_info *h) { h->ep_attr->type = FI_EP_DGRAM; }},
        {"automatic progress",
         [](fi_info *h) { h->domain_attr->data_progress = FI_PROGRESS_AUTO; }},
        {"ordered RMA", [](fi_info *h) { h->tx_attr->msg_order = FI_ORDER_RAW; }},
        {"long injects", [](fi_info *h) { h->tx_attr->inject_size = 1 << 20; }},
        {"many pieces", [](fi_info *h) { h->tx_attr->iov_limit = 5; }},
        {"long keys", [](fi_info *h) { h->domain_attr->mr_key_size = 16; }},
        {"shared contexts", [](fi_info *h) { h->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT; }},
        {"scalable endpoints", [](fi_info *h) { h->ep_attr->tx_ctx_cnt = 2; }},
        {"socket addresses", [](fi_info *h) { h->addr_format = FI_SOCKADDR_IN; }},
        {"another domain", [](fi_info *h) { h->domain_attr->name = strdup("eth0"); }},
        {"durable writes", [](fi_info *h) { h->tx_attr->op_flags = FI_COMMIT_COMPLETE; }},
    };

    for (auto &hint : refused) {
        EXPECT_EQ(-FI_ENODATA, ask(hint.change)) << hint.what;
    }
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

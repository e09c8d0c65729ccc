#include "ofi_node.h"
#include "measure.h"

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>
#include <string.h>
#include <unistd.h>

#define TAG      7
#define CONTEXTS 32768 /* more than receives and sends can be outstanding */

static int meet_out, meet_in;

void meet_by(int out, int in)
{
    meet_out = out;
    meet_in = in;
}

void meet(const void *mine, void *theirs, size_t size)
{
    size_t done = 0;
    ssize_t ret;

    if (write(meet_out, mine, size) != (ssize_t)size) {
        fail("the other process is gone");
    }
    while (done < size) {
        ret = read(meet_in, (char *)theirs + done, size - done);
        if (ret <= 0) {
            fail("the other process is gone");
        }
        done += (size_t)ret;
    }
}

static void must(ssize_t ret, const char *what)
{
    if (ret < 0) {
        fail("%s: %s", what, fi_strerror((int)-ret));
    }
}

static void get_info(struct ofi_node *node, const char *provider)
{
    struct fi_info *hints = fi_allocinfo();

    hints->caps = FI_TAGGED;
    hints->mode = FI_CONTEXT;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->fabric_attr->prov_name = strdup(provider);
    must(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &node->info), "fi_getinfo");
    fi_freeinfo(hints);
}

static void meet_peer(struct ofi_node *node)
{
    char mine[512] = "", theirs[512];
    size_t length = sizeof(mine);

    must(fi_getname(&node->ep->fid, mine, &length), "fi_getname");
    meet(mine, theirs, sizeof(mine));
    if (fi_av_insert(node->av, theirs, 1, &node->peer, 0, NULL) != 1) {
        fail("fi_av_insert takes no address of the other process");
    }
}

void ofi_open(struct ofi_node *node, const char *provider)
{
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED, .size = 4096};
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE};

    get_info(node, provider);
    must(fi_fabric(node->info->fabric_attr, &node->fabric, NULL), "fi_fabric");
    must(fi_domain(node->fabric, node->info, &node->domain, NULL), "fi_domain");
    must(fi_av_open(node->domain, &av_attr, &node->av, NULL), "fi_av_open");
    must(fi_cq_open(node->domain, &cq_attr, &node->cq, NULL), "fi_cq_open");
    must(fi_endpoint(node->domain, node->info, &node->ep, NULL), "fi_endpoint");
    must(fi_ep_bind(node->ep, &node->av->fid, 0), "fi_ep_bind");
    must(fi_ep_bind(node->ep, &node->cq->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
    must(fi_enable(node->ep), "fi_enable");
    meet_peer(node);
}

static struct fi_context *next_context(void)
{
    static struct fi_context contexts[CONTEXTS];
    static unsigned next;

    return &contexts[next++ % CONTEXTS];
}

static void progress(struct ofi_node *node)
{
    struct fi_cq_tagged_entry entries[16];
    ssize_t ret = fi_cq_read(node->cq, entries, 16), i;

    if (ret == -FI_EAGAIN) {
        return;
    }
    must(ret, "fi_cq_read");
    for (i = 0; i < ret; i++) {
        if (entries[i].flags & FI_RECV) {
            node->recvs++;
        } else {
            node->sends++;
        }
    }
}

void ofi_post(struct ofi_node *node, void *buf, size_t len, uint64_t tag)
{
    struct fi_context *context = next_context();
    ssize_t ret;

    while ((ret = fi_trecv(node->ep, buf, len, NULL, FI_ADDR_UNSPEC, tag, 0, context)) ==
           -FI_EAGAIN) {
        progress(node);
    }
    must(ret, "fi_trecv");
}

void ofi_inject(struct ofi_node *node, const void *buf, size_t len)
{
    ssize_t ret;

    while ((ret = fi_tinject(node->ep, buf, len, node->peer, TAG)) == -FI_EAGAIN) {
        progress(node);
    }
    must(ret, "fi_tinject");
}

void ofi_send(struct ofi_node *node, const void *buf, size_t len)
{
    struct fi_context *context = next_context();
    ssize_t ret;

    while ((ret = fi_tsend(node->ep, buf, len, NULL, node->peer, TAG, context)) == -FI_EAGAIN) {
        progress(node);
    }
    must(ret, "fi_tsend");
}

void ofi_wait_recvs(struct ofi_node *node, unsigned until)
{
    while ((int)(node->recvs - until) < 0) {
        progress(node);
    }
}

void ofi_wait_sends(struct ofi_node *node, unsigned until)
{
    while ((int)(node->sends - until) < 0) {
        progress(node);
    }
}

void ofi_idle(struct ofi_node *node)
{
    struct fi_cq_tagged_entry entry;

    if (fi_cq_read(node->cq, &entry, 1) != -FI_EAGAIN) {
        fail("something arrived while nothing was sent");
    }
}

void ofi_round_trip(struct ofi_node *node, int is_server)
{
    unsigned until = node->recvs + 1;
    uint64_t out = 1, in;

    ofi_post(node, &in, sizeof(in), TAG);
    if (is_server) {
        ofi_wait_recvs(node, until);
        ofi_inject(node, &out, sizeof(out));
    } else {
        ofi_inject(node, &out, sizeof(out));
        ofi_wait_recvs(node, until);
    }
}

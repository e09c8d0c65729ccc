/*
 * Two processes that exchange 8-byte tagged messages over several transports in turn: providers of
 * libfabric, and UCP. An error ends the program with one line.
 */
#ifndef TEST_BENCH_OFI_NODE_H
#define TEST_BENCH_OFI_NODE_H

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_tagged.h>
#include <stdint.h>

/** An endpoint of libfabric, and its peer in the other process. */
struct ofi_node {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_ep *ep;
    fi_addr_t peer;
    unsigned sends, recvs; /* completions seen */
};

/** Send a block of bytes to the other process, and take its block of the same size. */
void meet(const void *mine, void *theirs, size_t size);

/** The descriptors that meet() uses. */
void meet_by(int out, int in);

/** Open an endpoint of a provider, and meet the other process's. */
void ofi_open(struct ofi_node *node, const char *provider);

/** Post a receive. Its context is the node's own. */
void ofi_post(struct ofi_node *node, void *buf, size_t len, uint64_t tag);

void ofi_inject(struct ofi_node *node, const void *buf, size_t len);
void ofi_send(struct ofi_node *node, const void *buf, size_t len);

/** Wait until so many receives, or sends, have completed since the node was opened. */
void ofi_wait_recvs(struct ofi_node *node, unsigned until);
void ofi_wait_sends(struct ofi_node *node, unsigned until);

/** A progress call that must find nothing. */
void ofi_idle(struct ofi_node *node);

/** One round trip of 8 bytes; a server answers. */
void ofi_round_trip(struct ofi_node *node, int is_server);

/** The same by UCP over the transports in UCX_TLS. Only one such pair exists. */
void ucp_pair_open(void);
void ucp_pair_round_trip(int is_server);

#endif

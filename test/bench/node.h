/*
 * For programs that measure the transport itself: an interface of the transport, opened as UCP
 * would, and endpoints to other interfaces of the transport. An error ends the program with one
 * line.
 */
#ifndef TEST_BENCH_NODE_H
#define TEST_BENCH_NODE_H

#include <config.h> /* of UCX: decides the layout of its structures */

#include "measure.h"

#include <stddef.h>
#include <ucs/async/async.h>
#include <uct/api/uct.h>

/** How others find an interface: as much as any transport of UCX asks for. */
struct node_address {
    char device[64];
    char iface[64];
};

struct node {
    ucs_async_context_t *async;
    uct_worker_h worker;
    uct_md_h md;
    uct_iface_h iface;
    uct_iface_attr_t attr;
    struct node_address address;
};

/**
 * Have interfaces be opened of another transport of UCX, to compare with: one whose component has
 * its name, such as "posix". Kept, not copied.
 */
void node_use(const char *transport);

/** Open an interface of the glex transport, or the one of node_use(); progress is enabled. */
void node_open(struct node *node);

/** The same, with a handler that is called where an endpoint fails. */
void node_open_with(struct node *node, uct_error_handler_t on_error, void *arg);

void node_close(struct node *node);

/** An endpoint to the interface at an address. */
uct_ep_h node_connect(struct node *node, const struct node_address *peer);

/** Have active messages with this id handled by `handler`, at once and in place. */
void node_handle(struct node *node, uint8_t id, uct_am_callback_t handler, void *arg);

#endif

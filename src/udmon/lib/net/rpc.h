/*
 * Requests and responses with which client and server meet: in the private data of RDMA CM, or as
 * messages of a link (TLS over TCP). See wire.h.
 */
#ifndef UDMON_RPC_H
#define UDMON_RPC_H

#include "link.h"
#include "loop.h"
#include "../base/wire.h"

#include <stddef.h>
#include <sys/socket.h>

/* Where a request came from, or a response. */
struct udmon_rpc_place {
    struct sockaddr_storage local;
    struct sockaddr_storage remote;
    char device[80];         /* of UCT, as "rxe0:1"; "" for a link */
    int gid_index;           /* of the local address on the RDMA device, or -1 */
    struct udmon_link *link; /* the link of the request, or NULL for RDMA CM */
};

/*
 * Answers a request: writes the response and returns its length; 0: no response. A function that
 * keeps place->link gives the link a new owner (udmon_link_give).
 */
typedef size_t (*udmon_rpc_serve_fn)(void *arg, const struct udmon_rpc_place *place,
                                     const void *request, size_t length, void *response,
                                     size_t size);

struct udmon_rpc_listener;

struct udmon_rpc_ops {
    /* NULL: this build does not have it. `tls` is not used for RDMA CM. */
    int (*listen)(struct udmon_loop *loop, struct udmon_tls *tls, const struct sockaddr *addr,
                  udmon_rpc_serve_fn serve, void *arg, struct udmon_rpc_listener **listener_p);
    int (*port)(const struct udmon_rpc_listener *listener);
    void (*close)(struct udmon_rpc_listener *listener);
};

extern const struct udmon_rpc_ops udmon_rpc_tcp;
extern const struct udmon_rpc_ops udmon_rpc_cm;

/* A request over RDMA CM in progress. */
struct udmon_cm_request;

/* The answer, or a negative errno in `length`. The call is over. */
typedef void (*udmon_rpc_done_fn)(void *arg, const struct udmon_rpc_place *place,
                                  const void *response, long length);

/**
 * From `source` (NULL: by routing) to `addr`. `done` is called later, never from within. -ENODEV:
 * this host has no RDMA.
 */
int udmon_cm_call(struct udmon_loop *loop, const struct sockaddr *source,
                  const struct sockaddr *addr, const void *request, size_t length,
                  unsigned timeout_ms, udmon_rpc_done_fn done, void *arg,
                  struct udmon_cm_request **call_p);
void udmon_cm_cancel(struct udmon_cm_request *call);

#endif

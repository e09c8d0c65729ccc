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
typedef struct udmon_rpc_place {
    struct sockaddr_storage local;
    struct sockaddr_storage remote;
    char device[80];    /* of UCT, as "rxe0:1"; "" for a link */
    int gid_index;      /* of the local address on the RDMA device, or -1 */
    udmon_link_t *link; /* the link of the request, or NULL for RDMA CM */
} udmon_rpc_place_t;

/*
 * Answers a request: writes the response and returns its length; 0: no response. A function that
 * keeps place->link gives the link a new owner (udmon_link_give).
 */
typedef size_t (*udmon_rpc_serve_t)(void *arg, const udmon_rpc_place_t *place, const void *request,
                                    size_t length, void *response, size_t size);

typedef struct udmon_rpc_listener udmon_rpc_listener_t;

typedef struct udmon_rpc_ops {
    /* NULL: this build does not have it. `tls` is not used for RDMA CM. */
    int (*listen)(udmon_loop_t *loop, udmon_tls_t *tls, const struct sockaddr *addr,
                  udmon_rpc_serve_t serve, void *arg, udmon_rpc_listener_t **listener_p);
    int (*port)(const udmon_rpc_listener_t *listener);
    void (*close)(udmon_rpc_listener_t *listener);
} udmon_rpc_ops_t;

extern const udmon_rpc_ops_t udmon_rpc_tcp;
extern const udmon_rpc_ops_t udmon_rpc_cm;

/* A request over RDMA CM in progress. */
typedef struct udmon_cm_request udmon_cm_call_t;

/* The answer, or a negative errno in `length`. The call is over. */
typedef void (*udmon_rpc_done_t)(void *arg, const udmon_rpc_place_t *place, const void *response,
                                 long length);

/*
 * From `source` (NULL: by routing) to `addr`. `done` is called later, never from within. -ENODEV:
 * this host has no RDMA.
 */
int udmon_cm_call(udmon_loop_t *loop, const struct sockaddr *source, const struct sockaddr *addr,
                  const void *request, size_t length, unsigned timeout_ms, udmon_rpc_done_t done,
                  void *arg, udmon_cm_call_t **call_p);
void udmon_cm_cancel(udmon_cm_call_t *call);

#endif

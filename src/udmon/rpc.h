/*
 * One request, one response: how client and server meet before there is a connection. Over RDMA CM
 * (port space UDP, in the private data) or over a TCP connection for each.
 */
#ifndef UDMON_RPC_H
#define UDMON_RPC_H

#include "loop.h"
#include "wire.h"

#include <stddef.h>
#include <sys/socket.h>

/* Where a request came through, or a response. */
typedef struct udmon_rpc_place {
    struct sockaddr_storage local;
    struct sockaddr_storage remote;
    char device[80]; /* of UCT: "rxe0:1" for RDMA CM, "eth0" for TCP */
    int gid_index;   /* of the local address on the RDMA device, or -1 */
} udmon_rpc_place_t;

/* Answer a request: write the response and return its length; 0 to stay silent. */
typedef size_t (*udmon_rpc_serve_t)(void *arg, const udmon_rpc_place_t *place, const void *request,
                                    size_t length, void *response, size_t size);

typedef struct udmon_rpc_listener udmon_rpc_listener_t;
typedef struct udmon_rpc_call udmon_rpc_call_t;

/* The answer, or a negative errno in `length`. The call is over. */
typedef void (*udmon_rpc_done_t)(void *arg, const udmon_rpc_place_t *place, const void *response,
                                 long length);

typedef struct udmon_rpc_ops {
    int (*listen)(udmon_loop_t *loop, const struct sockaddr *addr, udmon_rpc_serve_t serve,
                  void *arg, udmon_rpc_listener_t **listener_p);
    int (*port)(const udmon_rpc_listener_t *listener);
    void (*close)(udmon_rpc_listener_t *listener);
    /* From `source` (NULL: by routing) to `addr`. `done` is called later, never from within. */
    int (*call)(udmon_loop_t *loop, const struct sockaddr *source, const struct sockaddr *addr,
                const void *request, size_t length, unsigned timeout_ms, udmon_rpc_done_t done,
                void *arg, udmon_rpc_call_t **call_p);
    void (*cancel)(udmon_rpc_call_t *call);
} udmon_rpc_ops_t;

extern const udmon_rpc_ops_t udmon_rpc_tcp;
extern const udmon_rpc_ops_t udmon_rpc_cm; /* every call answers -ENODEV where there is no RDMA */

#endif

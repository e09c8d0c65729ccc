/*
 * Networks of libudmon: paths to peers, and datagrams. A path is an endpoint of UCT, made on a port
 * (an open interface), whose active messages are the datagrams; or a link (TLS over TCP). libudmon
 * knows UCT's transports by name only. Any transport with active messages and addresses works.
 */
#ifndef UDMON_NET_H
#define UDMON_NET_H

#include "link.h"
#include "loop.h"

#include <uct/api/uct.h>

#include <stddef.h>
#include <sys/queue.h>

struct udmon_net;

struct udmon_port {
    LIST_ENTRY(udmon_port) list;
    struct udmon_net *net;
    uct_md_h md;
    uct_iface_h iface;
    uct_iface_attr_t attr;
    char transport[UCT_TL_NAME_MAX];
    char device[UCT_DEVICE_NAME_MAX];
    int gid_index;
    struct udmon_source source; /* fd -1 if the transport has none */
    int deaf;                   /* its events do not wake us now: see udmon_net_arm */
};

struct udmon_path {
    struct udmon_net *net;
    struct udmon_port *port; /* NULL if it is a link */
    uct_ep_h ep;
    struct udmon_link *link;
    void *owner;
    int failed; /* the transport says so: of no use any more */
    LIST_ENTRY(udmon_path) list;
};

/* A datagram has come. */
typedef void (*udmon_net_receive_fn)(void *arg, const void *data, size_t length);
/* The link of a path is broken; the path is to be closed. */
typedef void (*udmon_net_broken_fn)(void *arg, struct udmon_path *path);

struct udmon_net {
    struct udmon_loop *loop;
    ucs_async_context_t *async;
    uct_worker_h worker;
    LIST_HEAD(, udmon_port) ports;
    LIST_HEAD(, udmon_path) paths;
    struct udmon_timer retry; /* for transports without events for room or arrival */
    struct udmon_tls *tls;
    udmon_net_receive_fn receive;
    udmon_net_broken_fn broken;
    void *arg;
    int blocked;                         /* a path waits for room */
    uint64_t received;                   /* datagrams */
    uint64_t window_received, window_ns; /* `received` and time at the beginning of the current
                                          * window */
    int busy;                            /* the window before had many datagrams */
    uint64_t pause_ns;                   /* pause between two polls while `busy` */
    int by_batches;                      /* the end of a batch wakes us, */
    uint64_t armed_ns;                   /* asked for at this time; */
    unsigned pauses;                     /* as often udmon_net_arm requests no wake-up by batches */
    uint64_t seen_received;              /* `received` at the last udmon_net_arm() */
};

/** `tls` made the links that become paths. The caller owns it. */
int udmon_net_open(struct udmon_net *net, struct udmon_loop *loop, struct udmon_tls *tls,
                   udmon_net_receive_fn receive, udmon_net_broken_fn broken, void *arg);
void udmon_net_close(struct udmon_net *net);

/**
 * The port of a transport on a device, opened if it is not. `device` NULL: the first one;
 * `gid_index` -1: the transport's choice. -ENODEV: UCT has no such thing here.
 */
int udmon_net_port(struct udmon_net *net, const char *transport, const char *device, int gid_index,
                   struct udmon_port **port_p);

/** Its paths are closed before. */
void udmon_port_close(struct udmon_port *port);

/** A UCT status as a negative errno. */
int udmon_net_errno(ucs_status_t status);

/** Write struct udmon_address; returns its length, or -EMSGSIZE. */
int udmon_port_address(struct udmon_port *port, void *buffer, size_t size);

/** -EINVAL: malformed address; -ENETUNREACH: no way there from this port. */
int udmon_path_open(struct udmon_port *port, const void *address, size_t length,
                    struct udmon_path **path_p);
/** Makes a path from a link, and takes over the link. */
int udmon_path_of_link(struct udmon_net *net, struct udmon_link *link, struct udmon_path **path_p);
void udmon_path_close(struct udmon_path *path);
/** Largest datagram. */
size_t udmon_path_mtu(const struct udmon_path *path);

/** 0; -EAGAIN: no room now, `pack` was not called; -EIO: the path has failed. */
int udmon_path_send(struct udmon_path *path, size_t size, udmon_pack_fn pack, void *arg);

/** Handle completions and datagrams; returns how many. */
unsigned udmon_net_progress(struct udmon_net *net);

/**
 * Gives sent datagrams a short time to leave. Only this function waits, and only before closing.
 */
void udmon_net_drain(struct udmon_net *net);

/** Prepare to sleep. Returns 0 if news will wake us, 1 if there is something to do already. */
int udmon_net_arm(struct udmon_net *net);

#endif

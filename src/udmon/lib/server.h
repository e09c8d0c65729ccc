/*
 * The inside of the server, with a file for each part: server.c (functions for programs,
 * listeners), server_meet.c (requests to connect), server_session.c (connected clients).
 */
#ifndef UDMON_SERVER_H
#define UDMON_SERVER_H

#include "net/address.h"
#include "net/loop.h"
#include "meet.h"
#include "net/net.h"
#include "options.h"
#include "net/rpc.h"
#include "sessions.h"

enum { SERVER_LISTENERS_MAX = 16 };

struct udmon_server {
    struct udmon_loop loop;
    struct udmon_tls tls;
    struct udmon_net net;
    struct udmon_settings settings;
    struct udmon_keys keys;
    struct udmon_gate gate;
    enum udmon_scheme scheme;
    struct udmon_server_callbacks callbacks;
    void *arg;
    struct {
        const struct udmon_rpc_ops *ops;
        struct udmon_rpc_listener *listener;
    } listeners[SERVER_LISTENERS_MAX];
    unsigned listener_count;
    struct udmon_sessions sessions;
    struct udmon_timer scan, kick;
    uint64_t scanned_ns; /* when `scan` was fired last */
    int delivered;
};

/** server_meet.c: answers HELLO and AUTH, as udmon_rpc_serve_fn */
size_t udmon_server_serve(void *arg, const struct udmon_rpc_place *place, const void *request,
                          size_t length, void *response, size_t size);

/* server_session.c */
extern const struct udmon_chan_ops udmon_server_chan_ops; /* with a session as their argument */
void udmon_server_received(void *arg, const void *data, size_t length);
void udmon_server_broken(void *arg, struct udmon_path *path);
void udmon_server_gap(void *session, uint64_t first, uint64_t count);
/** The session goes at the next udmon_server_service. */
void udmon_server_leave(struct udmon_server *server, struct udmon_session *session,
                        enum udmon_left reason);
void udmon_server_tell_left(struct udmon_session *session, enum udmon_left reason);
/** Sends a session's waiting messages; -EAGAIN if it must wait. */
int udmon_server_pump(struct udmon_session *session);
/** Serves each session with work once; a session that must wait moves to the end. */
void udmon_server_service(struct udmon_server *server);
/** A timer: finds silent clients. */
void udmon_server_scan(struct udmon_timer *timer);

#endif

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
    udmon_loop_t loop;
    udmon_tls_t tls;
    udmon_net_t net;
    udmon_settings_t settings;
    udmon_secret_t secret;
    udmon_gate_t gate;
    udmon_scheme_t scheme;
    udmon_server_callbacks_t callbacks;
    void *arg;
    struct {
        const udmon_rpc_ops_t *ops;
        udmon_rpc_listener_t *listener;
    } listeners[SERVER_LISTENERS_MAX];
    unsigned listener_count;
    udmon_sessions_t sessions;
    udmon_timer_t scan, kick;
    uint64_t scanned_ns; /* when `scan` was fired last */
    int delivered;
};

/* server_meet.c: answers HELLO and AUTH, as udmon_rpc_serve_t */
size_t udmon_server_serve(void *arg, const udmon_rpc_place_t *place, const void *request,
                          size_t length, void *response, size_t size);

/* server_session.c */
extern const udmon_chan_ops_t udmon_server_chan_ops; /* with a session as their argument */
void udmon_server_received(void *arg, const void *data, size_t length);
void udmon_server_broken(void *arg, udmon_path_t *path);
void udmon_server_gap(void *session, uint64_t first, uint64_t count);
/* The session goes at the next udmon_server_service. */
void udmon_server_leave(udmon_server_t *server, udmon_session_t *session, udmon_left_t reason);
void udmon_server_tell_left(udmon_session_t *session, udmon_left_t reason);
/* Sends a session's waiting messages; -EAGAIN if it must wait. */
int udmon_server_pump(udmon_session_t *session);
/* Serves each session with work once; a session that must wait moves to the end. */
void udmon_server_service(udmon_server_t *server);
/* A timer: finds silent clients. */
void udmon_server_scan(udmon_timer_t *timer);

#endif

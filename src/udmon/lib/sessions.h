/* The server's connected clients, found by the token of their datagrams and by their identity. */
#ifndef UDMON_SESSIONS_H
#define UDMON_SESSIONS_H

#include "chan/chan.h"
#include "net/net.h"
#include "../include/udmon.h"

#include <sys/queue.h>

enum { UDMON_SESSION_BUCKETS = 1024 };

struct udmon_session {
    LIST_ENTRY(udmon_session) all, by_token, by_id;
    TAILQ_ENTRY(udmon_session) pending; /* has something to be sent, or is to go */
    int is_pending;
    struct udmon_server *server;
    struct udmon_peer peer;
    char name[UDMON_NAME_MAX + 1];
    char transport[8];
    char address[80];
    struct udmon_path *path;
    struct udmon_chan chan;
    uint64_t heard_ns;
    int proven;         /* a datagram of its has come: the way from it works */
    uint64_t pong_time; /* time in the ping that the PONG answers; 0: an unrequested PONG */
    int pong_due;
    uint64_t pong_ns; /* when the last one was sent */
    int gone;         /* the session must be removed; `reason` says why */
    enum udmon_left reason;
};

struct udmon_sessions {
    LIST_HEAD(, udmon_session) all;
    LIST_HEAD(, udmon_session) by_token[UDMON_SESSION_BUCKETS];
    LIST_HEAD(, udmon_session) by_id[UDMON_SESSION_BUCKETS];
    TAILQ_HEAD(, udmon_session) pending;
    unsigned count;
};

void udmon_sessions_init(struct udmon_sessions *sessions);
struct udmon_session *udmon_sessions_by_token(const struct udmon_sessions *sessions,
                                              uint64_t token);
struct udmon_session *udmon_sessions_by_id(const struct udmon_sessions *sessions, uint64_t id);
/** Takes it over; its token and identity are set. */
void udmon_sessions_add(struct udmon_sessions *sessions, struct udmon_session *session);
/** Removes the session and frees it with its channel and path. */
void udmon_sessions_remove(struct udmon_sessions *sessions, struct udmon_session *session);
void udmon_session_pend(struct udmon_sessions *sessions, struct udmon_session *session);

#endif

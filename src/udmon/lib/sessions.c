#include "sessions.h"

#include <stdlib.h>

/* Tokens and identities are random: their low bits are as good a hash as any. */
static unsigned bucket(uint64_t key)
{
    return key % UDMON_SESSION_BUCKETS;
}

void udmon_sessions_init(struct udmon_sessions *sessions)
{
    unsigned i;

    LIST_INIT(&sessions->all);
    TAILQ_INIT(&sessions->pending);
    for (i = 0; i < UDMON_SESSION_BUCKETS; ++i) {
        LIST_INIT(&sessions->by_token[i]);
        LIST_INIT(&sessions->by_id[i]);
    }
    sessions->count = 0;
}

struct udmon_session *udmon_sessions_by_token(const struct udmon_sessions *sessions, uint64_t token)
{
    struct udmon_session *session;

    LIST_FOREACH(session, &sessions->by_token[bucket(token)], by_token) {
        if (session->chan.token == token) {
            return session;
        }
    }
    return NULL;
}

struct udmon_session *udmon_sessions_by_id(const struct udmon_sessions *sessions, uint64_t id)
{
    struct udmon_session *session;

    LIST_FOREACH(session, &sessions->by_id[bucket(id)], by_id) {
        if ((session->peer.id == id) && !session->gone) {
            return session;
        }
    }
    return NULL;
}

void udmon_sessions_add(struct udmon_sessions *sessions, struct udmon_session *session)
{
    LIST_INSERT_HEAD(&sessions->all, session, all);
    LIST_INSERT_HEAD(&sessions->by_token[bucket(session->chan.token)], session, by_token);
    LIST_INSERT_HEAD(&sessions->by_id[bucket(session->peer.id)], session, by_id);
    ++sessions->count;
}

void udmon_session_pend(struct udmon_sessions *sessions, struct udmon_session *session)
{
    if (!session->is_pending) {
        session->is_pending = 1;
        TAILQ_INSERT_TAIL(&sessions->pending, session, pending);
    }
}

void udmon_sessions_remove(struct udmon_sessions *sessions, struct udmon_session *session)
{
    LIST_REMOVE(session, all);
    LIST_REMOVE(session, by_token);
    LIST_REMOVE(session, by_id);
    if (session->is_pending) {
        TAILQ_REMOVE(&sessions->pending, session, pending);
    }
    --sessions->count;
    udmon_chan_cleanup(&session->chan);
    udmon_path_close(session->path);
    free(session);
}

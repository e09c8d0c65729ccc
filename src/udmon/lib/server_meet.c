/*
 * Server: a client asks to connect (HELLO), proves that it knows a secret (AUTH), and gets a
 * session.
 */
#include "server.h"
#include "base/log.h"

#include <openssl/crypto.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum udmon_scheme server_scheme(const char *name)
{
    int i;

    for (i = UDMON_SCHEME_UD; i < UDMON_SCHEME_COUNT; ++i) {
        if (!strcmp(udmon_scheme_name(i), name)) {
            return i;
        }
    }
    return UDMON_SCHEME_COUNT;
}

/*
 * Finds the port that a client asks for (NULL: the client wants the link itself), or returns the
 * status of the refusal.
 */
static uint8_t server_port(struct udmon_server *server, const char *transport,
                           const struct udmon_rpc_place *place, struct udmon_port **port_p)
{
    enum udmon_scheme scheme = server_scheme(transport);
    int by_device = (scheme == UDMON_SCHEME_UD);

    *port_p = NULL;
    if ((scheme == UDMON_SCHEME_COUNT) ||
        ((server->scheme != UDMON_SCHEME_ANY) && (server->scheme != scheme)) ||
        /*
         * Requests over RDMA CM must ask for RDMA datagrams, and only such requests may ask for
         * them.
         */
        (by_device != (place->link == NULL))) {
        return UDMON_NO_TRANSPORT;
    }
    if ((scheme != UDMON_SCHEME_TCP) &&
        (udmon_net_port(&server->net, by_device ? "ud_mon" : transport,
                        by_device ? place->device : NULL, place->gid_index, port_p) < 0)) {
        return UDMON_NO_TRANSPORT;
    }
    return UDMON_OK;
}

/* The secret that the client says it has. */
static bool server_hinted_secret(struct udmon_server *server, const void *hello, size_t length,
                                 struct udmon_secret *secret)
{
    struct udmon_hint hint;
    int ret = udmon_meet_hint(hello, length, &hint);

    udmon_keys_refresh(&server->keys);
    *secret = server->keys.secrets[KEYS_PRESENT];
    return (ret == 0) || ((ret > 0) && udmon_keys_find(&server->keys, &hint, secret));
}

/* Answers a HELLO of a client that has this secret. */
static size_t server_challenge(struct udmon_server *server, const struct udmon_rpc_place *place,
                               const struct udmon_hello *hello, const struct udmon_secret *secret,
                               void *response, size_t size)
{
    char transport[UDMON_TRANSPORT_SIZE + 1] = "";
    struct udmon_challenge *challenge = response;
    struct udmon_port *port;
    int length = 0;
    uint8_t status;

    memcpy(transport, hello->transport, sizeof(hello->transport));
    status = server_port(server, transport, place, &port);
    if (status != UDMON_OK) {
        return udmon_meet_header(response, UDMON_CHALLENGE, status);
    }
    udmon_meet_header(challenge, UDMON_CHALLENGE, UDMON_OK);
    if (port != NULL) {
        length = udmon_port_address(port, challenge + 1, size - sizeof(*challenge));
    }
    if ((length < 0) || (length > UINT8_MAX) ||
        (udmon_gate_nonce(&server->gate, hello->client_nonce, challenge->server_nonce) < 0)) {
        return udmon_meet_header(response, UDMON_CHALLENGE, UDMON_NO_TRANSPORT);
    }
    challenge->address_length = length;
    return (udmon_meet_challenge_sign(secret, hello->client_nonce, challenge) == 0) ?
               sizeof(*challenge) + length :
               0;
}

static size_t server_hello(struct udmon_server *server, const struct udmon_rpc_place *place,
                           const void *request, size_t length, void *response, size_t size)
{
    static struct udmon_log_limit unknown;
    struct udmon_secret secret;
    size_t answered;
    char text[80];

    if (server_hinted_secret(server, request, length, &secret)) {
        answered = server_challenge(server, place, request, &secret, response, size);
    } else {
        udmon_warn_limited(
            &unknown, "client at %s refused: it does not know the secret",
            udmon_sockaddr_text((const struct sockaddr *)&place->remote, text, sizeof(text)));
        answered = udmon_meet_header(response, UDMON_CHALLENGE, UDMON_REFUSED);
    }
    OPENSSL_cleanse(&secret, sizeof(secret));
    return answered;
}

/*
 * Number of the first record that counts. The server or its program remembers this number. At a
 * client's first connection all records count, so records that the client's queue dropped are lost.
 * If the server has forgotten the client, counting begins at the client's next record.
 */
static uint64_t server_resume(struct udmon_server *server, uint64_t client_id,
                              const struct udmon_auth *auth)
{
    uint64_t next_seq = le64toh(auth->next_seq);
    struct udmon_session *before = udmon_sessions_by_id(&server->sessions, client_id);
    uint64_t expected = UDMON_SEQ_UNKNOWN;

    if (before != NULL) {
        expected = before->chan.win.next;
        udmon_server_leave(server, before, UDMON_LEFT_REPLACED);
    } else if (server->callbacks.resume != NULL) {
        expected = server->callbacks.resume(server->arg, client_id);
    }
    if ((expected == UDMON_SEQ_UNKNOWN) && (auth->header.flags & UDMON_FIRST)) {
        expected = 0;
    }
    return (expected <= next_seq) ? expected : next_seq;
}

static int server_path(struct udmon_server *server, const struct udmon_rpc_place *place,
                       const struct udmon_auth_view *view, struct udmon_port *port,
                       struct udmon_path **path_p)
{
    return (port == NULL) ? udmon_path_of_link(&server->net, place->link, path_p) :
                            udmon_path_open(port, view->address, view->address_length, path_p);
}

/*
 * The identity of a client. If names are checked, the server mixes the proved name in. So no client
 * can take the connection or the record numbers of another client by the other client's identity.
 */
static uint64_t server_client_id(const struct udmon_server *server,
                                 const struct udmon_auth_view *view)
{
    static const struct udmon_secret none;
    uint8_t mac[UDMON_MAC_SIZE];
    uint64_t id = le64toh(view->auth->client_id);

    if (server->settings.values.check_names &&
        (udmon_sign(&none, "client", &view->auth->client_id, sizeof(view->auth->client_id),
                    view->name, strlen(view->name), mac) == 0)) {
        memcpy(&id, mac, sizeof(id));
    }
    return id;
}

static struct udmon_session *server_session_new(struct udmon_server *server,
                                                const struct udmon_rpc_place *place,
                                                const struct udmon_auth_view *view,
                                                struct udmon_port *port)
{
    struct udmon_session *session = calloc(1, sizeof(*session));

    if (session == NULL) {
        return NULL;
    }
    if (server_path(server, place, view, port, &session->path) < 0) {
        free(session);
        return NULL;
    }
    session->path->owner = session;
    session->server = server;
    snprintf(session->name, sizeof(session->name), "%s", view->name);
    snprintf(session->transport, sizeof(session->transport), "%.7s", view->transport);
    udmon_sockaddr_text((const struct sockaddr *)&place->remote, session->address,
                        sizeof(session->address));
    session->peer = (struct udmon_peer){
        .id = server_client_id(server, view),
        .name = session->name,
        .transport = session->transport,
        .address = session->address,
        .relay = !!(view->auth->header.flags & UDMON_RELAY),
    };
    session->heard_ns = session->pong_ns = udmon_now_ns();
    udmon_chan_init(&session->chan, &server->settings.values, &udmon_server_chan_ops, session);
    return session;
}

/* A token that no other session has. */
static int server_token(struct udmon_server *server, uint64_t *token_p)
{
    int ret;

    do {
        ret = udmon_random(token_p, sizeof(*token_p));
    } while ((ret == 0) && (udmon_sessions_by_token(&server->sessions, *token_p) != NULL));
    return ret;
}

/* Whether a list of names with commas has the name. */
static bool list_has(const char *list, const char *name)
{
    size_t length = strlen(name), word;

    for (; *list != '\0'; list += word + (list[word] == ',')) {
        word = strcspn(list, ",");
        if ((word == length) && !strncmp(list, name, length)) {
            return true;
        }
    }
    return false;
}

/*
 * Whether the secret is of this name, or the certificate of the client has the name. A request over
 * RDMA CM has no certificate.
 */
static bool server_has_name(const struct udmon_rpc_place *place, const struct udmon_secret *secret,
                            const char *name)
{
    return ((secret->node[0] != '\0') && !strcmp(secret->node, name)) ||
           ((place->link != NULL) && udmon_tls_names(place->link->ssl, name));
}

/*
 * A relay sends records of all nodes. The secret is no proof of a relay, because agents have it,
 * too.
 */
static uint8_t server_check_relay(const struct udmon_server *server,
                                  const struct udmon_rpc_place *place,
                                  const struct udmon_secret *secret, const char *name)
{
    static struct udmon_log_limit twice, unlisted, unproved;

    if (server->settings.values.refuse_relays) {
        udmon_warn_limited(&twice, "client %s refused: it is a relay, and so are we", name);
        return UDMON_NO_RELAY;
    }
    if (server->settings.values.relays == NULL) {
        return UDMON_OK;
    }
    if (!list_has(server->settings.values.relays, name)) {
        udmon_warn_limited(
            &unlisted, "client %s refused: it is a relay, and is not in the list of option relays",
            name);
        return UDMON_UNKNOWN_RELAY;
    }
    if (!server->tls.certificates || server_has_name(place, secret, name)) {
        return UDMON_OK;
    }
    if (place->link == NULL) {
        return UDMON_NO_TRANSPORT; /* the relay goes on to a network with certificates */
    }
    udmon_warn_limited(
        &unproved, "client %s refused: it is a relay, and its certificate does not name it", name);
    return UDMON_UNKNOWN_RELAY;
}

/* Whether the client has proved its name, if the server checks names. */
static uint8_t server_check_name(const struct udmon_server *server,
                                 const struct udmon_rpc_place *place,
                                 const struct udmon_secret *secret, const char *name)
{
    static struct udmon_log_limit named, unnamed;

    if (!server->settings.values.check_names || server_has_name(place, secret, name)) {
        return UDMON_OK;
    }
    if (!server->tls.certificates) {
        udmon_warn_limited(&unnamed,
                           "client %s refused: it has the shared secret, and needs the secret of "
                           "its name (option check-names)",
                           name);
        return UDMON_WRONG_NAME;
    }
    if (place->link == NULL) {
        return UDMON_NO_TRANSPORT; /* the client goes on to a network with certificates */
    }
    udmon_warn_limited(&named, "client %s refused: its certificate does not name it", name);
    return UDMON_WRONG_NAME;
}

static uint8_t server_admit(struct udmon_server *server, const struct udmon_rpc_place *place,
                            const struct udmon_auth_view *view, const struct udmon_secret *secret,
                            uint64_t *token_p)
{
    static struct udmon_log_limit full;
    uint64_t gap, first, next_seq = le64toh(view->auth->next_seq);
    struct udmon_session *session;
    struct udmon_port *port;
    uint8_t status = (view->auth->header.flags & UDMON_RELAY) ?
                         server_check_relay(server, place, secret, view->name) :
                         UDMON_OK;

    if (status == UDMON_OK) {
        status = server_check_name(server, place, secret, view->name);
    }
    if (status != UDMON_OK) {
        return status;
    }
    if (server->sessions.count >= server->settings.values.max_clients) {
        udmon_warn_limited(&full, "client %s refused: there are %u already (option max_clients)",
                           view->name, server->sessions.count);
        return UDMON_FULL;
    }
    status = server_port(server, view->transport, place, &port);
    if (status != UDMON_OK) {
        return status;
    }
    session = server_session_new(server, place, view, port);
    if (session == NULL) {
        return UDMON_NO_TRANSPORT;
    }
    first = server_resume(server, session->peer.id, view->auth);
    if ((server_token(server, token_p) < 0) ||
        (udmon_chan_connect(&session->chan, udmon_path_mtu(session->path), *token_p, first) < 0)) {
        udmon_chan_cleanup(&session->chan);
        udmon_path_close(session->path);
        free(session);
        return UDMON_NO_TRANSPORT;
    }
    udmon_sessions_add(&server->sessions, session);
    if (server->callbacks.joined != NULL) {
        server->callbacks.joined(server->arg, &session->peer);
    }
    gap = seqwin_advance(&session->chan.win, next_seq);
    if (gap > 0) {
        udmon_server_gap(session, first, gap);
    }
    return UDMON_OK;
}

/* Finds the secret that signed the request: a shared secret, or the secret of the client's name. */
static bool server_signer(const struct udmon_server *server, const struct udmon_auth_view *view,
                          struct udmon_secret *secret)
{
    unsigned i;

    for (i = 0; i < KEYS_MAX; ++i) {
        *secret = server->keys.secrets[i];
        /* An empty secret signs only if the server has no secret. */
        if (((i == KEYS_PRESENT) || (secret->length > 0)) && udmon_meet_auth_check(secret, view)) {
            return true;
        }
        if (udmon_keys_of_node(&server->keys, i, view->name, secret) &&
            udmon_meet_auth_check(secret, view)) {
            return true;
        }
    }
    return false;
}

/* Answers an AUTH that this secret has signed. */
static size_t server_welcome(struct udmon_server *server, const struct udmon_rpc_place *place,
                             const struct udmon_auth_view *view, const struct udmon_secret *secret,
                             struct udmon_welcome *welcome)
{
    uint8_t status;
    uint64_t token;

    if (!udmon_gate_check(&server->gate, view->auth->client_nonce, view->auth->server_nonce)) {
        return udmon_meet_header(welcome, UDMON_WELCOME, UDMON_EXPIRED);
    }
    status = server_admit(server, place, view, secret, &token);
    if (status != UDMON_OK) {
        return udmon_meet_header(welcome, UDMON_WELCOME, status);
    }
    memset(welcome, 0, sizeof(*welcome));
    udmon_meet_header(welcome, UDMON_WELCOME, UDMON_OK);
    welcome->token = htole64(token);
    return (udmon_meet_welcome_sign(secret, view->auth, welcome) == 0) ? sizeof(*welcome) : 0;
}

static size_t server_auth(struct udmon_server *server, const struct udmon_rpc_place *place,
                          const void *request, size_t length, void *response)
{
    static struct udmon_log_limit refused;
    struct udmon_auth_view view;
    struct udmon_secret secret;
    size_t answered;
    char text[80];

    if (udmon_meet_auth_parse(request, length, &view) < 0) {
        return udmon_meet_header(response, UDMON_WELCOME, UDMON_BAD_REQUEST);
    }
    if (server_signer(server, &view, &secret)) {
        answered = server_welcome(server, place, &view, &secret, response);
    } else {
        udmon_warn_limited(
            &refused,
            "client %s at %s refused: it knows neither the secret nor the secret of this name",
            view.name,
            udmon_sockaddr_text((const struct sockaddr *)&place->remote, text, sizeof(text)));
        answered = udmon_meet_header(response, UDMON_WELCOME, UDMON_REFUSED);
    }
    OPENSSL_cleanse(&secret, sizeof(secret));
    return answered;
}

size_t udmon_server_serve(void *arg, const struct udmon_rpc_place *place, const void *request,
                          size_t length, void *response, size_t size)
{
    struct udmon_server *server = arg;

    switch (udmon_meet_type(request, length)) {
    case UDMON_HELLO:
        return server_hello(server, place, request, length, response, size);
    case UDMON_AUTH:
        return server_auth(server, place, request, length, response);
    default:
        return udmon_meet_header(response, UDMON_CHALLENGE, UDMON_BAD_REQUEST);
    }
}

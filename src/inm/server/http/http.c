/*
 * HTTP: connections, the page, live updates. libmicrohttpd runs a thread for each connection, at
 * most MAX_CONNECTIONS. connections.h describes the choice of connections to close.
 *
 * The kernel names the clients of the Unix socket: root and the user of inmd are administrators,
 * others are refused. Clients over TCP need a session.
 */
#include "http.h"
#include "api.h"
#include "client.h"
#include "common/unix_listen.h"
#include "connections.h"
#include "web.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <zlib.h>

#define MAX_CONNECTIONS  256
#define MAX_CLOSING      1024 /* connections that are closed, and whose threads end */
#define MAX_STREAMS      128
#define MAX_USER_STREAMS 32
#define MAX_BODY         (1u << 20)
#define MIN_COMPRESSED   2000 /* bytes of an answer */
#define STOP_SECONDS     5    /* for the last answers of a server that stops */
#define STREAM           "/api/v1/stream"

struct http {
    struct inmd *d;
    struct MHD_Daemon *tcp, *local;
    struct connections *connections;
    pthread_t expire;
    bool expires; /* the thread runs */
    char *cert, *key;
    pthread_mutex_t lock;
    struct stream *streams;
};

struct request {
    char *body;
    size_t len;
    bool too_long;
};

/* ---- answers --------------------------------------------------------------------------------- */

static void add_headers(struct MHD_Response *response)
{
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(response, "X-Frame-Options", "DENY");
    MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
    MHD_add_response_header(response, "Cache-Control", "no-store");
    MHD_add_response_header(response, "Content-Security-Policy",
                            "default-src 'none'; script-src 'self'; style-src 'self'; "
                            "connect-src 'self'; img-src 'self' data:; frame-ancestors 'none'; "
                            "base-uri 'none'; form-action 'none'");
}

/* Compresses an answer for a client that takes gzip. @return NULL: not worth it, or not asked for. */
static void *compress_answer(struct MHD_Connection *connection, const void *data, size_t len,
                             size_t *packed_len)
{
    const char *accept =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Accept-Encoding");
    z_stream z = {.next_in = (Bytef *)(uintptr_t)data, .avail_in = (uInt)len};
    void *packed = NULL;

    if (len < MIN_COMPRESSED || len > UINT32_MAX || accept == NULL ||
        strstr(accept, "gzip") == NULL ||
        deflateInit2(&z, 4, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
        return NULL;
    }
    z.avail_out = (uInt)deflateBound(&z, (uLong)len);
    packed = malloc(z.avail_out);
    z.next_out = packed;
    if (packed != NULL && deflate(&z, Z_FINISH) != Z_STREAM_END) {
        free(packed);
        packed = NULL;
    }
    *packed_len = z.total_out;
    deflateEnd(&z);
    return packed;
}

/* A response with a copy of the data, compressed if the client takes that. */
static struct MHD_Response *make_response(struct MHD_Connection *connection, const void *data,
                                          size_t len)
{
    size_t packed_len;
    void *packed = compress_answer(connection, data, len, &packed_len);
    struct MHD_Response *response;

    if (packed == NULL) {
        return MHD_create_response_from_buffer(len, (void *)(uintptr_t)data, MHD_RESPMEM_MUST_COPY);
    }
    response = MHD_create_response_from_buffer(packed_len, packed, MHD_RESPMEM_MUST_FREE);
    if (response == NULL) {
        free(packed);
    } else {
        MHD_add_response_header(response, "Content-Encoding", "gzip");
    }
    return response;
}

static enum MHD_Result send_text(struct MHD_Connection *connection, unsigned status,
                                 const char *type, const void *text, size_t len)
{
    struct MHD_Response *response = make_response(connection, text, len);
    enum MHD_Result ret;

    if (response == NULL) {
        return MHD_NO;
    }
    MHD_add_response_header(response, "Content-Type", type);
    add_headers(response);
    ret = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return ret;
}

static void set_cookie(struct call *call, struct MHD_Response *response)
{
    char cookie[200];
    const char *secure = call->d->config.tls_cert[0] != '\0' ? "; Secure" : "";

    if (call->new_cookie[0] != '\0' || call->drop_cookie) {
        snprintf(cookie, sizeof(cookie), "inm_session=%s; Path=/; HttpOnly; SameSite=Strict%s%s",
                 call->new_cookie, secure, call->drop_cookie ? "; Max-Age=0" : "");
        MHD_add_response_header(response, "Set-Cookie", cookie);
    }
}

static enum MHD_Result send_call(struct call *call)
{
    struct MHD_Response *response;
    enum MHD_Result ret;
    char disposition[100];
    const char *text;
    size_t len;

    if (call->text != NULL) {
        response = make_response(call->connection, call->text, call->text_len);
    } else {
        if (call->reply == NULL) {
            call->reply = json_object_new_object();
        }
        text = json_object_to_json_string_length(call->reply, JSON_C_TO_STRING_PLAIN, &len);
        response = make_response(call->connection, text, len);
        call->type = "application/json";
    }
    if (response == NULL) {
        return MHD_NO;
    }
    MHD_add_response_header(response, "Content-Type", call->type);
    if (call->file_name != NULL) {
        snprintf(disposition, sizeof(disposition), "attachment; filename=\"%s\"", call->file_name);
        MHD_add_response_header(response, "Content-Disposition", disposition);
    }
    add_headers(response);
    set_cookie(call, response);
    ret = MHD_queue_response(call->connection, call->status, response);
    MHD_destroy_response(response);
    return ret;
}

/* ---- live updates: server-sent events -------------------------------------------------------- */

struct stream {
    struct stream *next;
    struct http *http;
    struct inmd *d;
    char user[64];
    uint64_t version;
    char token[AUTH_TOKEN]; /* empty: a local user, or a user of a proxy */
};

/* At most five a second, however much happens; a sign of life every few seconds. */
static ssize_t stream_read(void *arg, uint64_t pos, char *buf, size_t max)
{
    struct stream *s = arg;
    struct inmd *d = s->d;
    struct auth_session session;
    struct timespec until;
    int len, i;

    if (pos > 0) {
        usleep(200000);
    }
    if (s->token[0] != '\0' && !auth_find_session(d->auth, s->token, &session)) {
        return MHD_CONTENT_READER_END_OF_STREAM; /* logged out */
    }
    pthread_mutex_lock(&d->lock);
    for (i = 0; i < 10 && s->version == d->version && !d->stop; i++) {
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 300000000;
        if (until.tv_nsec >= 1000000000) {
            until.tv_sec++;
            until.tv_nsec -= 1000000000;
        }
        pthread_cond_timedwait(&d->changed, &d->lock, &until);
    }
    s->version = d->version;
    len = snprintf(buf, max,
                   "data: {\"version\":%llu,\"alarms\":%u,\"reports\":%llu,"
                   "\"events\":%llu}\n\n",
                   (unsigned long long)d->version, d->num_alarms, (unsigned long long)d->reports,
                   (unsigned long long)d->next_event);
    pthread_mutex_unlock(&d->lock);
    if (d->stop || len < 0 || (size_t)len >= max) {
        return MHD_CONTENT_READER_END_OF_STREAM;
    }
    return len;
}

/* A stream keeps its connection: the streams of each user are limited. */
static bool stream_begin(struct http *http, struct stream *stream)
{
    uint32_t all = 0, of_user = 0;
    const struct stream *s;

    pthread_mutex_lock(&http->lock);
    for (s = http->streams; s != NULL; s = s->next) {
        all++;
        of_user += strcmp(s->user, stream->user) == 0;
    }
    if (all < MAX_STREAMS && of_user < MAX_USER_STREAMS) {
        stream->next = http->streams;
        http->streams = stream;
        pthread_mutex_unlock(&http->lock);
        return true;
    }
    pthread_mutex_unlock(&http->lock);
    return false;
}

static void stream_end(void *arg)
{
    struct stream *stream = arg, **s;

    pthread_mutex_lock(&stream->http->lock);
    for (s = &stream->http->streams; *s != NULL && *s != stream; s = &(*s)->next) {
    }
    if (*s != NULL) {
        *s = stream->next;
    }
    pthread_mutex_unlock(&stream->http->lock);
    free(stream);
}

static enum MHD_Result send_stream(struct http *http, struct call *call)
{
    struct stream *s = calloc(1, sizeof(*s));
    struct MHD_Response *response;
    enum MHD_Result ret;

    if (s == NULL) {
        return MHD_NO;
    }
    s->http = http;
    memcpy(s->user, call->session.user, sizeof(s->user));
    if (!stream_begin(http, s)) {
        free(s);
        return send_text(call->connection, 429, "text/plain", "too many streams\n", 17);
    }
    s->d = call->d;
    memcpy(s->token, call->session.token, sizeof(s->token));
    response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 1024, stream_read, s, stream_end);
    if (response == NULL) {
        stream_end(s);
        return MHD_NO;
    }
    MHD_add_response_header(response, "Content-Type", "text/event-stream");
    add_headers(response);
    ret = MHD_queue_response(call->connection, 200, response);
    MHD_destroy_response(response);
    return ret;
}

/* ---- requests -------------------------------------------------------------------------------- */

static bool parse_body(struct call *call, const struct request *request)
{
    struct json_tokener *tokener;

    if (request->len == 0) {
        return true;
    }
    tokener = json_tokener_new_ex(16);
    if (tokener == NULL) {
        return false;
    }
    call->body = json_tokener_parse_ex(tokener, request->body, (int)request->len);
    json_tokener_free(tokener);
    return json_object_is_type(call->body, json_type_object);
}

/* The log has the arguments of a change, but no passwords. */
static void audit(struct call *call, const struct api *a)
{
    char text[700];
    bool secret = strstr(a->path, "login") != NULL || strstr(a->path, "users") != NULL;
    const char *name = secret ? call_text(call, "name") : NULL;

    snprintf(text, sizeof(text), "%s %s: %s", a->path,
             secret || call->body == NULL ?
                 (name != NULL ? name : "") :
                 json_object_to_json_string_ext(call->body, JSON_C_TO_STRING_PLAIN),
             call->status == 200 ? "done" : "refused");
    history_log(
        call->d->history,
        &(struct log_entry){.kind = "change",
                            .user = call->session.user[0] != '\0' ? call->session.user : NULL,
                            .address = call->address,
                            .text = text});
}

static bool may_call(struct call *call, const struct api *a, bool local)
{
    if (call->session.role < a->role) {
        call_error(call, call->session.role == ROLE_NONE ? 401 : 403, "%s",
                   call->session.role == ROLE_NONE ? "log in first" :
                                                     "your role does not allow that");
        return false;
    }
    if (!call->get && a->role != ROLE_NONE && !client_csrf_ok(call, local)) {
        call_error(call, 403, "the header X-CSRF-Token is missing or wrong");
        return false;
    }
    return true;
}

static void do_api(struct call *call, const char *method, const char *path,
                   const struct request *request, bool local)
{
    bool other_method;
    const struct api *a = api_find(method, path, &other_method);

    call->get = strcmp(method, "GET") == 0;
    if (call->status != 200) {
        return; /* refused before */
    }
    if (a == NULL) {
        call_error(call, other_method ? 405 : 404,
                   other_method ? "the call has another method" : "there is nothing here");
        return;
    }
    if (may_call(call, a, local)) {
        if (!call->get && (request->too_long || !parse_body(call, request))) {
            call_error(call, request->too_long ? 413 : 400,
                       "the body is no JSON object, or too long");
        } else if (a->handle != NULL && api_check(call, a)) { /* the stream has no handler */
            a->handle(call);
        }
    }
    /* Visitors without a session cannot fill the log; tries to log in are limited. */
    if (a->audit && call->status != 429 &&
        (call->session.role != ROLE_NONE || a->role == ROLE_NONE)) {
        audit(call, a);
    }
}

static bool stream_check(struct call *call)
{
    bool other_method;

    call->get = true;
    return api_check(call, api_find("GET", STREAM, &other_method));
}

static enum MHD_Result send_page(struct call *call, const char *path)
{
    size_t i;

    for (i = 0; i < web_files_num; i++) {
        if (strcmp(path, web_files[i].path) == 0) {
            return send_text(call->connection, 200, web_files[i].type, web_files[i].data,
                             web_files[i].len);
        }
    }
    return send_text(call->connection, 404, "text/plain", "not found\n", 10);
}

static enum MHD_Result answer(struct http *http, struct MHD_Connection *connection,
                              const char *path, const char *method, struct request *request)
{
    struct call call = {.d = http->d, .connection = connection, .status = 200};
    bool local = false;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_DAEMON);
    enum MHD_Result ret;

    if (strcmp(method, "HEAD") == 0) {
        method = "GET"; /* libmicrohttpd leaves the body out */
    }
    local = info != NULL && info->daemon == http->local;
    client_find(&call, local);
    if (!local && !client_host_ok(&call)) {
        return send_text(connection, 421, "text/plain", "this name is not in [http] host_names\n",
                         38);
    }
    if (local && call.session.role == ROLE_NONE) {
        return send_text(connection, 403, "text/plain", "not for this user\n", 18);
    }
    /* A request of a user counts for the user, not for the address: users behind one proxy do not
     * share a limit. */
    if (!local && !auth_rate(http->d->auth,
                             call.session.role != ROLE_NONE ? call.session.user : call.address)) {
        return send_text(connection, 429, "text/plain", "too many requests\n", 18);
    }
    if (strcmp(path, STREAM) == 0 && strcmp(method, "GET") == 0 &&
        call.session.role >= ROLE_VIEWER && stream_check(&call)) {
        return send_stream(http, &call);
    }
    if (strncmp(path, "/api/", 5) == 0 || strcmp(path, "/healthz") == 0 ||
        strcmp(path, "/metrics") == 0) {
        do_api(&call, method, path, request, local);
        ret = send_call(&call);
    } else {
        ret = strcmp(method, "GET") == 0 ?
                  send_page(&call, path) :
                  send_text(connection, 405, "text/plain", "GET only\n", 9);
    }
    json_object_put(call.body);
    json_object_put(call.reply);
    free(call.text);
    return ret;
}

static void set_state(struct http *http, struct MHD_Connection *connection,
                      enum connection_state state)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

    if (info != NULL && info->socket_context != NULL) {
        connections_set(http->connections, info->socket_context, state);
    }
}

static bool is_stream(const char *url)
{
    return strcmp(url, STREAM) == 0;
}

static enum MHD_Result handle(void *arg, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *data,
                              size_t *size, void **state)
{
    struct request *request = *state;
    enum MHD_Result ret;
    char *more;

    (void)version;
    if (request == NULL) {
        *state = calloc(1, sizeof(*request));
        return *state != NULL ? MHD_YES : MHD_NO;
    }
    if (*size > 0) {
        if (request->len + *size > MAX_BODY) {
            request->too_long = true;
        } else {
            more = realloc(request->body, request->len + *size);
            if (more == NULL) {
                return MHD_NO;
            }
            request->body = more;
            memcpy(request->body + request->len, data, *size);
            request->len += *size;
        }
        *size = 0;
        return MHD_YES;
    }
    set_state(arg, connection, CONNECTION_WORKS);
    ret = answer(arg, connection, url, method, request);
    if (!is_stream(url)) {
        set_state(arg, connection, CONNECTION_ANSWERS);
    }
    return ret;
}

static void completed(void *arg, struct MHD_Connection *connection, void **state,
                      enum MHD_RequestTerminationCode code)
{
    struct request *request = *state;

    (void)code;
    set_state(arg, connection, CONNECTION_WAITS);
    if (request != NULL) {
        free(request->body);
        free(request);
        *state = NULL;
    }
}

static void notify(void *arg, struct MHD_Connection *connection, void **context,
                   enum MHD_ConnectionNotificationCode code)
{
    struct http *http = arg;
    const union MHD_ConnectionInfo *info;

    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        *context = info != NULL ? connections_add(http->connections, info->connect_fd) : NULL;
    } else if (*context != NULL) {
        connections_remove(http->connections, *context);
        *context = NULL;
    }
}

static void *expire_thread(void *arg)
{
    struct http *http = arg;

    while (!http->d->stop) {
        usleep(200000);
        connections_expire(http->connections);
    }
    return NULL;
}

/* ---- listening ------------------------------------------------------------------------------- */

static int listen_unix(const char *path)
{
    char error[100];
    int fd = unix_listen(path, SOCK_STREAM, 512, error, sizeof(error));

    if (fd < 0) {
        inm_log(LOG_ERR, "%s: %s", path, error);
    }
    return fd;
}

static int listen_tcp(const char *address, uint32_t port)
{
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    bool is_four = inet_pton(AF_INET, address, &four.sin_addr) == 1;
    int fd, one = 1;

    if (!is_four && inet_pton(AF_INET6, address, &six.sin6_addr) != 1) {
        inm_log(LOG_ERR, "[http] address = %s is no IPv4 or IPv6 address", address);
        return -1;
    }
    fd = socket(is_four ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) {
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    }
    if (fd < 0 ||
        bind(fd, is_four ? (struct sockaddr *)&four : (struct sockaddr *)&six,
             is_four ? sizeof(four) : sizeof(six)) != 0 ||
        listen(fd, 512) != 0) {
        inm_log(LOG_ERR, "%s port %u: %s", address, port, strerror(errno));
        if (fd >= 0) {
            close(fd);
        }
        return -1;
    }
    return fd;
}

static char *read_file(const char *path)
{
    FILE *file = fopen(path, "re");
    char *text = calloc(1, 65536);

    if (file == NULL || text == NULL || fread(text, 1, 65535, file) == 0) {
        inm_log(LOG_ERR, "%s: cannot be read", path);
        free(text);
        text = NULL;
    }
    if (file != NULL) {
        fclose(file);
    }
    return text;
}

static struct MHD_Daemon *start(struct http *http, int fd, bool tls)
{
    unsigned flags = MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD |
                     MHD_USE_POLL | MHD_USE_ITC | (tls ? MHD_USE_TLS : 0);
    struct MHD_OptionItem tls_options[] = {{MHD_OPTION_HTTPS_MEM_CERT, 0, http->cert},
                                           {MHD_OPTION_HTTPS_MEM_KEY, 0, http->key},
                                           {MHD_OPTION_END, 0, NULL}};
    struct MHD_OptionItem none[] = {{MHD_OPTION_END, 0, NULL}};

    return MHD_start_daemon(
        flags, 0, NULL, NULL, handle, http, MHD_OPTION_LISTEN_SOCKET, fd,
        MHD_OPTION_CONNECTION_LIMIT, MAX_CONNECTIONS + MAX_CLOSING, MHD_OPTION_CONNECTION_TIMEOUT,
        60, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)65536, MHD_OPTION_THREAD_STACK_SIZE,
        (size_t)524288, MHD_OPTION_NOTIFY_CONNECTION, notify, http, MHD_OPTION_NOTIFY_COMPLETED,
        completed, http, MHD_OPTION_ARRAY, tls ? tls_options : none, MHD_OPTION_END);
}

struct http *http_start(struct inmd *d)
{
    const struct inm_config *c = &d->config;
    struct http *http = calloc(1, sizeof(*http));
    bool tls = c->tls_cert[0] != '\0';
    int fd;

    if (http == NULL) {
        return NULL;
    }
    http->d = d;
    pthread_mutex_init(&http->lock, NULL);
    http->connections = connections_new(MAX_CONNECTIONS);
    if (http->connections == NULL) {
        goto err;
    }
    http->expires = pthread_create(&http->expire, NULL, expire_thread, http) == 0;
    if (!http->expires) {
        inm_log(LOG_ERR, "no thread");
        goto err;
    }
    if (tls) {
        http->cert = read_file(c->tls_cert);
        http->key = read_file(c->tls_key);
        if (http->cert == NULL || http->key == NULL) {
            goto err;
        }
    }
    if (c->socket[0] != '\0') {
        fd = listen_unix(c->socket);
        http->local = fd >= 0 ? start(http, fd, false) : NULL;
        if (http->local == NULL) {
            goto err;
        }
    }
    if (c->port != 0) {
        fd = listen_tcp(c->address, c->port);
        http->tcp = fd >= 0 ? start(http, fd, tls) : NULL;
        if (http->tcp == NULL) {
            inm_log(LOG_ERR, "no HTTP at %s port %u%s", c->address, c->port,
                    tls ? ": are certificate and key right?" : "");
            goto err;
        }
    }
    return http;

err:
    http_stop(http);
    return NULL;
}

void http_stop(struct http *http)
{
    http->d->stop = 1; /* ends the thread, also after a failed start */
    if (http->expires) {
        pthread_join(http->expire, NULL);
    }
    connections_finish(http->connections, STOP_SECONDS);
    if (http->tcp != NULL) {
        MHD_stop_daemon(http->tcp);
    }
    if (http->local != NULL) {
        MHD_stop_daemon(http->local);
        unlink(http->d->config.socket);
    }
    connections_free(http->connections);
    pthread_mutex_destroy(&http->lock);
    free(http->cert);
    free(http->key);
    free(http);
}

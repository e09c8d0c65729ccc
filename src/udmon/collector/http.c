#include "http.h"
#include "api.h"
#include "metrics.h"
#include "../lib/net/address.h"
#include "../lib/log.h"
#include "../lib/net/loop.h"

#include <errno.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <zlib.h>

enum {
    HTTP_CONNECTIONS = 1024,
    HTTP_IDLE_SECONDS = 10,
    HTTP_SENDING_MAX = 48,     /* large answers at once, for slow readers keep them in memory */
    HTTP_POOL = 8 * 1024,      /* bytes of a request */
    HTTP_LARGE = 64 * 1024,
    HTTP_GZIP_MIN = 1024
};
#define HTTP_CACHE_NS   UINT64_C(1000000000)
#define HTTP_TIME_END_MS INT64_C(253402300800000) /* the year 10,000 */
#define HTTP_REQUEST_NS UINT64_C(10000000000)  /* for a request, however it drips in */
#define HTTP_ANSWER_NS  UINT64_C(30000000000) /* for reading the answer */

/* Connections, to end those that take too long */

typedef struct http_connection {
    LIST_ENTRY(http_connection) list;
    int fd;
    int answering;
    uint64_t since_ns;
} http_connection_t;

static void http_connected(void *arg, struct MHD_Connection *connection, void **socket_context,
                           enum MHD_ConnectionNotificationCode code)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    http_connection_t *each = *socket_context;
    http_t *http = arg;

    pthread_mutex_lock(&http->lock);
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        each = calloc(1, sizeof(*each));
        if ((each != NULL) && (info != NULL)) {
            each->fd = info->connect_fd;
            each->since_ns = udmon_now_ns();
            LIST_INSERT_HEAD(&http->connections, each, list);
            *socket_context = each;
        } else {
            free(each);
        }
    } else if (each != NULL) {
        LIST_REMOVE(each, list);
        free(each);
    }
    pthread_mutex_unlock(&http->lock);
}

static void http_set_answering(http_t *http, struct MHD_Connection *connection, int answering)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    http_connection_t *each = (info != NULL) ? info->socket_context : NULL;

    pthread_mutex_lock(&http->lock);
    if (each != NULL) {
        each->answering = answering;
        each->since_ns = udmon_now_ns();
    }
    pthread_mutex_unlock(&http->lock);
}

void http_expire(http_t *http)
{
    uint64_t now = udmon_now_ns();
    http_connection_t *each;

    pthread_mutex_lock(&http->lock);
    LIST_FOREACH(each, &http->connections, list) {
        if ((now - each->since_ns) > (each->answering ? HTTP_ANSWER_NS : HTTP_REQUEST_NS)) {
            shutdown(each->fd, SHUT_RDWR);
        }
    }
    pthread_mutex_unlock(&http->lock);
}

/* Answers */

static int http_takes(struct MHD_Connection *connection, const char *header, const char *what)
{
    const char *value = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, header);

    return (value != NULL) && (strstr(value, what) != NULL);
}

static int http_gzip(char **bytes_p, size_t *length_p)
{
    z_stream stream = {0};
    size_t size;
    char *bytes;
    int ret;

    /* 15 bits of window, and 16 for gzip's form; level 1: the thread has other clients */
    if (deflateInit2(&stream, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
        return 0;
    }
    size = deflateBound(&stream, *length_p);
    bytes = malloc(size);
    stream.next_in = (Bytef *)*bytes_p;
    stream.avail_in = *length_p;
    stream.next_out = (Bytef *)bytes;
    stream.avail_out = size;
    ret = (bytes != NULL) ? deflate(&stream, Z_FINISH) : Z_MEM_ERROR;
    deflateEnd(&stream);
    if (ret != Z_STREAM_END) {
        free(bytes);
        return 0;
    }
    free(*bytes_p);
    *bytes_p = bytes;
    *length_p = stream.total_out;
    return 1;
}

/* A response made of a text, which is taken over and may be NULL. NULL: no memory. */
static struct MHD_Response *http_response(char *text, size_t length, const char *type, int gzip)
{
    struct MHD_Response *response;
    int zipped;

    if (text == NULL) {
        return NULL;
    }
    zipped = gzip && (length >= HTTP_GZIP_MIN) && http_gzip(&text, &length);
    response = MHD_create_response_from_buffer(length, text, MHD_RESPMEM_MUST_FREE);
    if (response == NULL) {
        free(text);
        return NULL;
    }
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    MHD_add_response_header(response, MHD_HTTP_HEADER_VARY, "Accept, Accept-Encoding");
    if (zipped) {
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_ENCODING, "gzip");
    }
    return response;
}

/* The same of one line. */
static struct MHD_Response *http_line(const char *line, const char *type, int gzip)
{
    char *text;
    int length = asprintf(&text, "%s\n", line);

    return (length < 0) ? NULL : http_response(text, length, type, gzip);
}

static struct MHD_Response *http_json(struct json_object *object, int gzip)
{
    struct MHD_Response *response;

    if (object == NULL) {
        return NULL;
    }
    response = http_line(json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN),
                         "application/json", gzip);
    json_object_put(object);
    return response;
}

/* The place for a cached answer: the one with it if it is fresh, else the oldest. */
static http_cached_t *http_cache(http_t *http, const char *what)
{
    http_cached_t *oldest = &http->cached[0];
    int i;

    for (i = 0; i < HTTP_CACHED; ++i) {
        if (!strcmp(http->cached[i].what, what)) {
            return &http->cached[i];
        }
        if (http->cached[i].made_ns < oldest->made_ns) {
            oldest = &http->cached[i];
        }
    }
    return oldest;
}

static struct MHD_Response *http_metrics(http_t *http, int format, int gzip)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);

    if (out == NULL) {
        return NULL;
    }
    metrics_write(http->store, http->writer, http->remote, http->relay, format, out);
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return http_response(text, length, (format == METRICS_OPENMETRICS) ?
                             "application/openmetrics-text; version=1.0.0; charset=utf-8" :
                             "text/plain; version=0.0.4; charset=utf-8", gzip);
}

/* /metrics and /api/nodes of all, shared by all who ask within a second. Not to be destroyed. */
static struct MHD_Response *http_shared(http_t *http, const char *url, int format, int gzip)
{
    const overview_query_t all = {.limit = SIZE_MAX};
    uint64_t now = udmon_now_ns();
    http_cached_t *cached;
    char what[24];

    snprintf(what, sizeof(what), "%s %d %d", url, format, gzip);
    cached = http_cache(http, what);
    if (strcmp(cached->what, what) || ((now - cached->made_ns) > HTTP_CACHE_NS)) {
        if (cached->response != NULL) {
            MHD_destroy_response(cached->response);
        }
        cached->response = !strcmp(url, "/metrics") ? http_metrics(http, format, gzip) :
                                                      http_json(overview_get_nodes(&http->overview, &all), gzip);
        snprintf(cached->what, sizeof(cached->what), "%s",
                 (cached->response != NULL) ? what : "");
        cached->made_ns = now;
    }
    return cached->response;
}

static long http_number(struct MHD_Connection *connection, const char *name, long missing)
{
    const char *text = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, name);
    char *end;
    long number;

    if (text == NULL) {
        return missing;
    }
    number = strtol(text, &end, 10);
    return ((end != text) && (*end == '\0')) ? number : -1;
}

static struct MHD_Response *http_text(const char *words)
{
    return http_line(words, "text/plain; charset=utf-8", 0);
}

static const char *http_argument(struct MHD_Connection *connection, const char *name)
{
    return MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, name);
}

/* The part of the history that is asked for: the last `seconds`, or `from`..`until`. */
static int http_range(struct MHD_Connection *connection, api_range_t *range)
{
    long seconds = http_number(connection, "seconds", 600);

    if ((seconds <= 0) || (seconds > 31536000)) {
        return -EINVAL;
    }
    range->until_ms = http_number(connection, "until", udmon_time_ns() / 1000000);
    range->from_ms = http_number(connection, "from", range->until_ms - (seconds * 1000));
    range->points = http_number(connection, "points", 1000);
    return ((range->from_ms >= 0) && (range->until_ms > range->from_ms) &&
            (range->until_ms < HTTP_TIME_END_MS) &&
            ((range->until_ms - range->from_ms) <= INT64_C(31536000000)) && (range->points > 0) &&
            (range->points <= 10000)) ? 0 : -EINVAL;
}

/* /api/series of a `name`, /api/lines of a `family`. */
static struct MHD_Response *http_series(http_t *http, struct MHD_Connection *connection, int lines,
                                        int gzip, unsigned *status_p)
{
    const char *node = http_argument(connection, "node");
    const char *what = http_argument(connection, lines ? "family" : "name");
    api_range_t range;

    if ((node == NULL) || (what == NULL) || (http_range(connection, &range) < 0)) {
        *status_p = MHD_HTTP_BAD_REQUEST;
        return http_text("node, and name or family, are needed; seconds is 1 to 31536000, points 1"
                         " to 10000, from is before until by a year at most");
    }
    return http_json(lines ? api_lines(http->db, node, what, http_argument(connection, "by"),
                                       &range) :
                             api_series(http->db, node, what, &range), gzip);
}

/* /api/nodes of some of them; all: http_shared. */
static struct MHD_Response *http_nodes(http_t *http, struct MHD_Connection *connection, int gzip,
                                       unsigned *status_p)
{
    long offset = http_number(connection, "offset", 0);
    long limit = http_number(connection, "limit", 100);
    overview_query_t query = {
        .search = http_argument(connection, "search"),
        .sort = http_argument(connection, "sort"),
        .descending = http_number(connection, "descending", 0) != 0,
        .offset = offset,
        .limit = limit,
    };

    if ((offset < 0) || (limit < 0)) {
        *status_p = MHD_HTTP_BAD_REQUEST;
        return http_text("offset and limit are numbers");
    }
    return http_json(overview_get_nodes(&http->overview, &query), gzip);
}

static struct MHD_Response *http_map(http_t *http, struct MHD_Connection *connection, int gzip,
                                     unsigned *status_p)
{
    const char *metric = http_argument(connection, "metric");
    struct json_object *map =
        (metric == NULL) ? NULL :
                           overview_get_map(&http->overview, metric,
                                            http_argument(connection, "function"),
                                            (uint32_t)http_number(connection, "generation", 0),
                                            (uint32_t)http_number(connection, "version", 0));

    if (map == NULL) {
        *status_p = MHD_HTTP_BAD_REQUEST;
        return http_text("metric is needed; function is sum, max or mean");
    }
    return http_json(map, gzip);
}

static struct MHD_Response *http_names(http_t *http, struct MHD_Connection *connection, int gzip,
                                       unsigned *status_p)
{
    const char *node = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "node");
    struct json_object *names = (node != NULL) ? api_names(http->store, node) : NULL;

    if (names == NULL) {
        *status_p = MHD_HTTP_NOT_FOUND;
        return http_text("no such node");
    }
    return http_json(names, gzip);
}

static struct MHD_Response *http_page_response(void)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(
        http_page_length, (void *)http_page, MHD_RESPMEM_PERSISTENT);

    if (response != NULL) {
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE,
                                "text/html; charset=utf-8");
        /* The page has all it needs in itself, and asks nobody else. */
        MHD_add_response_header(response, "Content-Security-Policy",
                                "default-src 'self' 'unsafe-inline'; img-src data:");
    }
    return response;
}

static enum MHD_Result http_send(http_t *http, struct MHD_Connection *connection, unsigned status,
                                 struct MHD_Response *response, int ours, void **request)
{
    static udmon_log_limit_t limit;
    enum MHD_Result result = MHD_NO;

    if (response == NULL) {
        udmon_warn_limited(&limit, "no memory for the answer to an HTTP request%s", "");
        return MHD_NO;
    }
    http_set_answering(http, connection, 1);
    ++http->sending;
    *request = http; /* http_completed counts it out */
    result = MHD_queue_response(connection, status, response);
    if (ours) {
        MHD_destroy_response(response);
    }
    return result;
}

static enum MHD_Result http_handle(void *arg, struct MHD_Connection *connection, const char *url,
                                   const char *method, const char *version, const char *upload,
                                   size_t *upload_size, void **request)
{
    int gzip = http_takes(connection, MHD_HTTP_HEADER_ACCEPT_ENCODING, "gzip");
    int format = http_takes(connection, MHD_HTTP_HEADER_ACCEPT, "application/openmetrics-text") ?
                     METRICS_OPENMETRICS : METRICS_TEXT;
    struct MHD_Response *response;
    unsigned status = MHD_HTTP_OK;
    http_t *http = arg;
    int shared = 0;

    (void)version;
    (void)upload;
    (void)upload_size;
    if (strcmp(method, MHD_HTTP_METHOD_GET) && strcmp(method, MHD_HTTP_METHOD_HEAD)) {
        status = MHD_HTTP_METHOD_NOT_ALLOWED;
        response = http_text("only GET");
    } else if (http->sending >= HTTP_SENDING_MAX) {
        status = MHD_HTTP_SERVICE_UNAVAILABLE;
        response = http_text("too many answers are being read at once");
    } else if (!strcmp(url, "/metrics") ||
               (!strcmp(url, "/api/nodes") && (http_argument(connection, "limit") == NULL))) {
        response = http_shared(http, url, strcmp(url, "/metrics") ? 0 : format, gzip);
        shared = 1;
    } else if (!strcmp(url, "/api/series") || !strcmp(url, "/api/lines")) {
        response = http_series(http, connection, !strcmp(url, "/api/lines"), gzip, &status);
    } else if (!strcmp(url, "/api/nodes")) {
        response = http_nodes(http, connection, gzip, &status);
    } else if (!strcmp(url, "/api/map")) {
        response = http_map(http, connection, gzip, &status);
    } else if (!strcmp(url, "/api/families")) {
        response = http_json(overview_get_families(&http->overview), gzip);
    } else if (!strcmp(url, "/api/names")) {
        response = http_names(http, connection, gzip, &status);
    } else if (!strcmp(url, "/")) {
        response = http_page_response();
    } else {
        status = MHD_HTTP_NOT_FOUND;
        response = http_text("there are /, /metrics, /api/nodes, /api/map, /api/families, /api/names,"
                             " /api/series and /api/lines");
    }
    return http_send(http, connection, status, response, !shared, request);
}

static void http_completed(void *arg, struct MHD_Connection *connection, void **request,
                           enum MHD_RequestTerminationCode code)
{
    http_t *http = arg;

    (void)code;
    if (*request != NULL) {
        --http->sending;
        *request = NULL;
    }
    http_set_answering(http, connection, 0);
}

/* MHD's own words for what went wrong, seldom more than "the connection was reset". */
static void http_log(void *arg, const char *format, va_list args)
{
    char line[256];

    (void)arg;
    vsnprintf(line, sizeof(line), format, args);
    line[strcspn(line, "\n")] = '\0';
    udmon_debug("HTTP: %s", line);
}

static int http_open_database(http_t *http, const char *database)
{
    if (sqlite3_open_v2(database, &http->db, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK) {
        udmon_error("cannot read history %s: %s", database, sqlite3_errmsg(http->db));
        sqlite3_close(http->db);
        return -EIO;
    }
    sqlite3_busy_timeout(http->db, 200);
    return 0;
}

int http_open(http_t *http, const char *address, const char *database, store_t *store,
              const writer_t *writer, const remote_t *remote, const relay_t *relay)
{
    unsigned flags = MHD_USE_POLL_INTERNAL_THREAD | MHD_USE_ERROR_LOG;
    udmon_endpoint_t endpoint;
    int ret;

    memset(http, 0, sizeof(*http));
    http->store = store;
    http->writer = writer;
    http->remote = remote;
    http->relay = relay;
    LIST_INIT(&http->connections);
    overview_init(&http->overview, store);
    ret = http_open_database(http, database);
    if (ret < 0) {
        return ret;
    }
    ret = udmon_endpoint_parse(address, 1, &endpoint);
    if (ret < 0) {
        sqlite3_close(http->db);
        return ret;
    }
    if (endpoint.hosts->ai_family == AF_INET6) {
        flags |= MHD_USE_DUAL_STACK;
    }
    pthread_mutex_init(&http->lock, NULL);
    http->daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, http_handle, http, MHD_OPTION_EXTERNAL_LOGGER, http_log, NULL,
        MHD_OPTION_SOCK_ADDR, endpoint.hosts->ai_addr, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)HTTP_CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)HTTP_IDLE_SECONDS,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HTTP_POOL, MHD_OPTION_NOTIFY_CONNECTION,
        http_connected, http, MHD_OPTION_NOTIFY_COMPLETED, http_completed, http, MHD_OPTION_END);
    udmon_endpoint_free(&endpoint);
    if (http->daemon == NULL) {
        udmon_error("cannot serve HTTP on %s: %s", address, strerror(errno));
        sqlite3_close(http->db);
        return -EADDRINUSE;
    }
    return 0;
}

void http_close(http_t *http)
{
    int i;

    MHD_stop_daemon(http->daemon);
    for (i = 0; i < HTTP_CACHED; ++i) {
        if (http->cached[i].response != NULL) {
            MHD_destroy_response(http->cached[i].response);
        }
    }
    overview_free(&http->overview);
    pthread_mutex_destroy(&http->lock);
    sqlite3_close(http->db);
}

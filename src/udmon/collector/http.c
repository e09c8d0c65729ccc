#include "http.h"
#include "alert/show.h"
#include "api.h"
#include "heatmap.h"
#include "job.h"
#include "metrics.h"
#include "../lib/net/address.h"
#include "../lib/base/log.h"
#include "../lib/net/loop.h"
#include "common/fnv.h"

#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zlib.h>

enum {
    HTTP_CONNECTIONS = 1024,
    HTTP_REQUESTING_MAX = 512, /* connections that have not sent a whole request */
    HTTP_READING_MAX = 48,     /* answers that are read at once: each is kept in memory */
    HTTP_POOL = 8 * 1024,      /* bytes of a request */
    HTTP_LARGE = 64 * 1024,
    HTTP_GZIP_MIN = 1024,
    HTTP_ALERTS = 100,      /* of an answer, unless it is asked for another number */
    HTTP_FILE_MAX = 1 << 20 /* bytes of a certificate */
};
#define HTTP_CACHE_NS    UINT64_C(1000000000)
#define HTTP_TIME_END_MS INT64_C(253402300800000) /* the year 10,000 */
#define HTTP_REQUEST_NS  UINT64_C(10000000000)    /* for a request, however it drips in */
#define HTTP_ANSWER_NS   UINT64_C(30000000000)    /* for reading the answer */
#define HTTP_EVICT_NS    UINT64_C(1000000000)     /* a reader may always take so long */

/* Connections, to close slow ones */

enum http_state { HTTP_REQUESTING, HTTP_ASKED, HTTP_READING };

struct http_connection {
    LIST_ENTRY(http_connection) list;
    int fd;
    enum http_state state;
    uint64_t since_ns; /* of the state */
};

/* Close the oldest connection of a state. With the lock held. */
static void http_evict(struct http *http, enum http_state state, uint64_t before_ns)
{
    struct http_connection *each, *oldest = NULL;

    LIST_FOREACH(each, &http->connections, list) {
        if ((each->state == state) && (each->since_ns < before_ns) &&
            ((oldest == NULL) || (each->since_ns < oldest->since_ns))) {
            oldest = each;
        }
    }
    if (oldest != NULL) {
        shutdown(oldest->fd, SHUT_RDWR);
        oldest->since_ns = UINT64_MAX; /* not twice */
    }
}

/* With the lock held. */
static void http_count(struct http *http, enum http_state state, int by)
{
    http->requesting += (state == HTTP_REQUESTING) ? by : 0;
    http->reading += (state == HTTP_READING) ? by : 0;
}

static void http_connected(void *arg, struct MHD_Connection *connection, void **socket_context,
                           enum MHD_ConnectionNotificationCode code)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct http_connection *each = *socket_context;
    struct http *http = arg;

    pthread_mutex_lock(&http->lock);
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        if (http->requesting >= HTTP_REQUESTING_MAX) {
            http_evict(http, HTTP_REQUESTING, UINT64_MAX);
        }
        each = calloc(1, sizeof(*each));
        if ((each != NULL) && (info != NULL)) {
            each->fd = info->connect_fd;
            each->since_ns = udmon_now_ns();
            LIST_INSERT_HEAD(&http->connections, each, list);
            http_count(http, each->state, 1);
            *socket_context = each;
        } else {
            free(each);
        }
    } else if (each != NULL) {
        LIST_REMOVE(each, list);
        http_count(http, each->state, -1);
        free(each);
    }
    pthread_mutex_unlock(&http->lock);
}

static void http_enter(struct http *http, struct MHD_Connection *connection, enum http_state state)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct http_connection *each = (info != NULL) ? info->socket_context : NULL;

    pthread_mutex_lock(&http->lock);
    if (each != NULL) {
        if ((state == HTTP_READING) && (http->reading >= HTTP_READING_MAX)) {
            http_evict(http, HTTP_READING, udmon_now_ns() - HTTP_EVICT_NS);
        }
        http_count(http, each->state, -1);
        http_count(http, state, 1);
        each->state = state;
        each->since_ns = udmon_now_ns();
    }
    pthread_mutex_unlock(&http->lock);
}

static int http_too_many_readers(struct http *http)
{
    int too_many;

    pthread_mutex_lock(&http->lock);
    too_many = (http->reading >= 4 * HTTP_READING_MAX);
    pthread_mutex_unlock(&http->lock);
    return too_many;
}

void http_expire(struct http *http)
{
    static const uint64_t limits[] = {
        [HTTP_REQUESTING] = HTTP_REQUEST_NS,
        [HTTP_ASKED] = UINT64_MAX, /* the pool's limits hold */
        [HTTP_READING] = HTTP_ANSWER_NS,
    };
    uint64_t now = udmon_now_ns();
    struct http_connection *each;

    pthread_mutex_lock(&http->lock);
    LIST_FOREACH(each, &http->connections, list) {
        if ((each->since_ns <= now) && ((now - each->since_ns) > limits[each->state])) {
            shutdown(each->fd, SHUT_RDWR);
        }
    }
    pthread_mutex_unlock(&http->lock);
}

/* Answers */

static bool http_takes(struct MHD_Connection *connection, const char *header, const char *what)
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

/* The cache's entry for an answer, or else its oldest entry. */
static struct http_cached *http_cache(struct http_cached cache[HTTP_CACHED], const char *what)
{
    struct http_cached *oldest = &cache[0];
    int i;

    for (i = 0; i < HTTP_CACHED; ++i) {
        if (!strcmp(cache[i].what, what)) {
            return &cache[i];
        }
        if (cache[i].made_ns < oldest->made_ns) {
            oldest = &cache[i];
        }
    }
    return oldest;
}

/* A fresh answer, or NULL: then `response` is to be made and kept by http_keep. */
static struct MHD_Response *http_fresh(struct http_cached cache[HTTP_CACHED], const char *what)
{
    const struct http_cached *cached = http_cache(cache, what);

    return (!strcmp(cached->what, what) && ((udmon_now_ns() - cached->made_ns) <= HTTP_CACHE_NS)) ?
               cached->response :
               NULL;
}

/* Keep an answer for a second. */
static void http_keep(struct http_cached cache[HTTP_CACHED], const char *what,
                      struct MHD_Response *response)
{
    struct http_cached *cached = http_cache(cache, what);

    if (cached->response != NULL) {
        MHD_destroy_response(cached->response); /* connections that send it have references */
    }
    cached->response = response;
    cached->made_ns = udmon_now_ns();
    snprintf(cached->what, sizeof(cached->what), "%s", (response != NULL) ? what : "");
}

static void http_forget(struct http_cached cache[HTTP_CACHED])
{
    int i;

    for (i = 0; i < HTTP_CACHED; ++i) {
        if (cache[i].response != NULL) {
            MHD_destroy_response(cache[i].response);
            cache[i].response = NULL;
        }
    }
}

static struct MHD_Response *http_metrics(struct http *http, int format, int gzip)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);

    if (out == NULL) {
        return NULL;
    }
    if (http->alerts != NULL) {
        show_metrics(http->alerts, format == METRICS_OPENMETRICS, out);
    }
    if (http->options.query != NULL) {
        metrics_write_query(http->options.query, format, out);
    }
    metrics_write(http->store, http->writer, http->remote, http->relay, NULL, format, out);
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return http_response(text, length,
                         (format == METRICS_OPENMETRICS) ?
                             "application/openmetrics-text; version=1.0.0; charset=utf-8" :
                             "text/plain; version=0.0.4; charset=utf-8",
                         gzip);
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
static int http_range(struct MHD_Connection *connection, struct api_range *range)
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
            (range->points <= 10000)) ?
               0 :
               -EINVAL;
}

/* A request, from its header to the end of its answer */

struct http_request {
    struct pool_job job;
    struct http *http;
    struct MHD_Connection *connection;
    const char *url;
    int gzip, format;
    int authorized;
    int answered; /* with `status` and: */
    unsigned status;
    struct MHD_Response *response; /* of the request's own, or of /metrics, or NULL: no memory; */
    int is_metrics, is_nodes;      /* or the contents of the cache */
};

static struct MHD_Response *http_fail(struct http_request *request, unsigned status,
                                      const char *words)
{
    request->status = status;
    request->answered = 1;
    return http_text(words);
}

/* A reader of the history, and of older values if there is an engine. */
static struct api_reader http_reader(struct http_request *request, sqlite3 *db,
                                     struct budget *budget, struct older *older)
{
    struct http *http = request->http;

    int64_t oldest_ms, late_ms = (int64_t)(udmon_time_ns() / 1000000) - OLDER_DELAY_MS;

    *older = (struct older){.query = http->options.query, .budget = budget};
    if (older->query != NULL) {
        oldest_ms = history_oldest(db);
        older->end_ms = (oldest_ms < late_ms) ? oldest_ms : late_ms;
    }
    return (struct api_reader){.db = db,
                               .store = http->store,
                               .budget = budget,
                               .older = (http->options.query != NULL) ? older : NULL};
}

/* /api/series of a `name`, /api/lines of a `family`. */
static struct MHD_Response *http_series(struct http_request *request, int lines, sqlite3 *db,
                                        struct budget *budget)
{
    const char *node = http_argument(request->connection, "node");
    const char *what = http_argument(request->connection, lines ? "family" : "name");
    struct older older;
    struct api_reader reader = http_reader(request, db, budget, &older);
    struct json_object *answer;
    struct api_range range;

    if ((node == NULL) || (what == NULL) || (http_range(request->connection, &range) < 0)) {
        return http_fail(request, MHD_HTTP_BAD_REQUEST,
                         "node, and name or family, are needed; seconds is 1 to 31536000, points 1"
                         " to 10000, from is before until by a year at most");
    }
    range.extremes = http_number(request->connection, "extremes", 0) == 1;
    answer = lines ?
                 api_lines(&reader, node, what, http_argument(request->connection, "by"), &range) :
                 api_series(&reader, node, what, &range);
    if (budget->spent) {
        json_object_put(answer);
        return http_fail(request, MHD_HTTP_SERVICE_UNAVAILABLE,
                         "this takes too long: ask for a shorter time or fewer series");
    }
    return http_json(answer, request->gzip);
}

static const char *http_nodes_kind(const struct http_request *request)
{
    return request->gzip ? "gzip" : "plain";
}

/* All nodes, unless the cache has a fresh answer. With the overview's lock held. */
static void http_make_nodes(struct http *http, const char *what, int gzip)
{
    const struct overview_query all = {.limit = SIZE_MAX};
    struct MHD_Response *response;
    int fresh;

    pthread_mutex_lock(&http->nodes_lock);
    fresh = (http_fresh(http->nodes, what) != NULL);
    pthread_mutex_unlock(&http->nodes_lock);
    if (!fresh) {
        response = http_json(overview_get_nodes(&http->overview, &all), gzip);
        pthread_mutex_lock(&http->nodes_lock);
        http_keep(http->nodes, what, response);
        pthread_mutex_unlock(&http->nodes_lock);
    }
}

static struct overview_query http_overview_query(struct MHD_Connection *connection)
{
    return (struct overview_query){
        .search = http_argument(connection, "search"),
        .sort = http_argument(connection, "sort"),
        .descending = http_number(connection, "descending", 0) != 0,
        .offset = (size_t)http_number(connection, "offset", 0),
        .limit = (size_t)http_number(connection, "limit", -1),
    };
}

/* /api/nodes: all nodes, the same answer for all requests of a second; or a part of the table. */
static struct MHD_Response *http_nodes(struct http_request *request)
{
    long offset = http_number(request->connection, "offset", 0);
    long limit = http_number(request->connection, "limit", -1);
    struct http *http = request->http;
    struct overview_query query = http_overview_query(request->connection);

    if (http_argument(request->connection, "limit") == NULL) {
        request->is_nodes = 1;
        http_make_nodes(http, http_nodes_kind(request), request->gzip);
        return NULL;
    }
    if ((offset < 0) || (limit < 0)) {
        return http_fail(request, MHD_HTTP_BAD_REQUEST, "offset and limit are numbers");
    }
    return http_json(overview_get_nodes(&http->overview, &query), request->gzip);
}

static struct MHD_Response *http_map(struct http_request *request)
{
    struct MHD_Connection *connection = request->connection;
    const char *metric = http_argument(connection, "metric");
    struct json_object *map =
        (metric == NULL) ? NULL :
                           overview_get_map(&request->http->overview, metric,
                                            http_argument(connection, "function"),
                                            (uint32_t)http_number(connection, "generation", 0),
                                            (uint32_t)http_number(connection, "version", 0));

    if (map == NULL) {
        return http_fail(request, MHD_HTTP_BAD_REQUEST,
                         "metric is needed; function is sum, max or mean");
    }
    return http_json(map, request->gzip);
}

static struct MHD_Response *http_heatmap(struct http_request *request, sqlite3 *db,
                                         struct budget *budget)
{
    struct MHD_Connection *connection = request->connection;
    struct overview_query nodes = http_overview_query(connection);
    struct heatmap_query query = {.metric = http_argument(connection, "metric"),
                                  .function = http_argument(connection, "function"),
                                  .offset = nodes.offset};
    struct api_reader reader = {.db = db, .store = request->http->store, .budget = budget};
    struct overview_names names;
    struct json_object *answer;
    int ret;

    if ((query.metric == NULL) || (http_range(connection, &query.range) < 0) ||
        (http_number(connection, "offset", 0) < 0)) {
        return http_fail(request, MHD_HTTP_BAD_REQUEST,
                         "metric is needed; seconds is 1 to 31536000, from is before until by a"
                         " year at most");
    }
    if (query.range.points > HEATMAP_POINTS) {
        query.range.points = HEATMAP_POINTS;
    }
    nodes.limit = (nodes.limit < HEATMAP_ROWS) ? nodes.limit : HEATMAP_ROWS;
    pthread_mutex_lock(&request->http->overview_lock);
    ret = overview_get_names(&request->http->overview, &nodes, &names);
    pthread_mutex_unlock(&request->http->overview_lock);
    if (ret < 0) {
        return NULL;
    }
    answer = heatmap_json(&reader, &query, &names);
    free(names.names);
    if (budget->spent) {
        json_object_put(answer);
        return http_fail(request, MHD_HTTP_SERVICE_UNAVAILABLE,
                         "this takes too long: ask for a shorter time");
    }
    return (answer != NULL) ?
               http_json(answer, request->gzip) :
               http_fail(request, MHD_HTTP_BAD_REQUEST, "function is sum, max or mean");
}

static struct MHD_Response *http_names(struct http_request *request)
{
    const char *node = http_argument(request->connection, "node");
    struct json_object *names = (node != NULL) ? api_names(request->http->store, node) : NULL;

    if (names == NULL) {
        return http_fail(request, MHD_HTTP_NOT_FOUND, "no such node");
    }
    return http_json(names, request->gzip);
}

/* /api/job: without a range, the whole time of the job. */
static struct MHD_Response *http_job(struct http_request *request, sqlite3 *db,
                                     struct budget *budget)
{
    struct MHD_Connection *connection = request->connection;
    const char *id = http_argument(connection, "job");
    struct older older;
    struct api_reader reader = http_reader(request, db, budget, &older);
    struct api_range range = {.from_ms = http_number(connection, "from", 0),
                              .until_ms = http_number(connection, "until", 0),
                              .points = http_number(connection, "points", JOB_POINTS)};
    struct json_object *answer = NULL;
    int ret;

    if ((id == NULL) || !job_id_valid(id) || (range.from_ms < 0) || (range.until_ms < 0) ||
        (range.from_ms >= HTTP_TIME_END_MS) || (range.until_ms >= HTTP_TIME_END_MS) ||
        (range.points <= 0) || (range.points > 1000) ||
        ((range.until_ms > 0) && (range.until_ms <= range.from_ms))) {
        return http_fail(request, MHD_HTTP_BAD_REQUEST,
                         "job is needed: its number; points is 1 to 1000, from is before until");
    }
    ret = job_json(&reader, id, &range, (int64_t)(udmon_time_ns() / 1000000), &answer);
    if (budget->spent) {
        json_object_put(answer);
        return http_fail(request, MHD_HTTP_SERVICE_UNAVAILABLE,
                         "this takes too long: ask for a part of the job's time");
    }
    if ((ret == -ENOENT) && older.failed) {
        return http_fail(
            request, MHD_HTTP_SERVICE_UNAVAILABLE,
            "no node knows this job, and the engine with older values does not answer");
    }
    if (ret == -ENOENT) {
        return http_fail(request, MHD_HTTP_NOT_FOUND, "no node knows this job");
    }
    return (ret == 0) ? http_json(answer, request->gzip) :
                        http_fail(request, MHD_HTTP_SERVICE_UNAVAILABLE,
                                  "the collector has no memory for this job");
}

/* Without rules there are no alerts. */
static struct MHD_Response *http_alerts(struct http_request *request)
{
    long limit = http_number(request->connection, "limit", HTTP_ALERTS);
    struct alerts *alerts = request->http->alerts;

    if (limit < 0) {
        return http_fail(request, MHD_HTTP_BAD_REQUEST, "limit is a number");
    }
    if (alerts == NULL) {
        return http_line("{\"rules\":[],\"alerts\":[],\"pending\":0,\"firing\":0,\"resolved\":0}",
                         "application/json", request->gzip);
    }
    return http_json(show_json(alerts, (size_t)limit, (int64_t)(udmon_time_ns() / 1000000)),
                     request->gzip);
}

static struct MHD_Response *http_page_response(void)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(
        http_page_length, (void *)http_page, MHD_RESPMEM_PERSISTENT);

    if (response != NULL) {
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "text/html; charset=utf-8");
        /* The page loads nothing from other servers. */
        MHD_add_response_header(response, "Content-Security-Policy",
                                "default-src 'self' 'unsafe-inline'; img-src data:");
    }
    return response;
}

static struct MHD_Response *http_metrics_shared(struct http_request *request)
{
    struct http *http = request->http;
    char what[24];

    snprintf(what, sizeof(what), "%d %d", request->format, request->gzip);
    request->is_metrics = 1;
    request->response = http_fresh(http->metrics, what);
    if (request->response == NULL) {
        request->response = http_metrics(http, request->format, request->gzip);
        http_keep(http->metrics, what, request->response);
    }
    return request->response;
}

static struct MHD_Response *http_unauthorized(struct http_request *request)
{
    struct MHD_Response *response =
        http_fail(request, MHD_HTTP_UNAUTHORIZED, "a user and a password are needed");

    if (response != NULL) {
        MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE,
                                "Basic realm=\"udmon\", charset=\"UTF-8\"");
    }
    return response;
}

static const char *http_authorization(const struct http_request *request)
{
    return MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND,
                                       MHD_HTTP_HEADER_AUTHORIZATION);
}

/* By a thread of the pool: the hash of a password. */
static void http_run_check(struct pool_job *job, sqlite3 *db, struct budget *budget)
{
    struct http_request *request = (struct http_request *)job;

    (void)db;
    (void)budget;
    request->authorized = users_check(&request->http->users, http_authorization(request));
    if (!request->authorized) {
        request->response = http_unauthorized(request);
    }
}

/* Whether the client has closed the connection. */
static bool http_is_gone(const struct http_request *request)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(request->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    char byte;

    return (info == NULL) || (recv(info->connect_fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0);
}

/* By a thread of the pool: /api/... */
static void http_run_api(struct pool_job *job, sqlite3 *db, struct budget *budget)
{
    struct http_request *request = (struct http_request *)job;
    const char *url = request->url + strlen("/api/");
    struct http *http = request->http;

    if (http_is_gone(request)) {
        request->response = http_fail(request, MHD_HTTP_BAD_REQUEST, "nobody reads this");
        return;
    }
    if (!strcmp(url, "series") || !strcmp(url, "lines")) {
        request->response = http_series(request, !strcmp(url, "lines"), db, budget);
    } else if (!strcmp(url, "names")) {
        request->response = http_names(request);
    } else if (!strcmp(url, "heatmap")) {
        request->response = http_heatmap(request, db, budget);
    } else if (!strcmp(url, "job")) {
        request->response = http_job(request, db, budget);
    } else if (!strcmp(url, "alerts")) {
        request->response = http_alerts(request);
    } else {
        pthread_mutex_lock(&http->overview_lock);
        if (!strcmp(url, "nodes")) {
            request->response = http_nodes(request);
        } else if (!strcmp(url, "map")) {
            request->response = http_map(request);
        } else {
            request->response = http_json(overview_get_families(&http->overview), request->gzip);
        }
        pthread_mutex_unlock(&http->overview_lock);
    }
    request->answered = 1;
}

/* By a thread of the pool: the HTTP thread goes on with the request. */
static void http_asked(struct pool_job *job, int was_run)
{
    struct http_request *request = (struct http_request *)job;

    if (!was_run) {
        request->response =
            http_fail(request, MHD_HTTP_SERVICE_UNAVAILABLE, "the collector is ending");
    }
    MHD_resume_connection(request->connection);
}

/* The client's address, without the port. */
static uint64_t http_address(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *address = (info != NULL) ? info->client_addr : NULL;

    if ((address != NULL) && (address->sa_family == AF_INET)) {
        return fnv1a(FNV_START, &((const struct sockaddr_in *)address)->sin_addr, 4);
    }
    if ((address != NULL) &&
        (address->sa_family == AF_INET6)) { /* a host has a network of 64 bits */
        return fnv1a(FNV_START, &((const struct sockaddr_in6 *)address)->sin6_addr, 8);
    }
    return 0;
}

/* Suspend the request while the pool works for it; 0: too many wait, and the answer says so. */
static int http_ask(struct http_request *request,
                    void (*run)(struct pool_job *job, sqlite3 *db, struct budget *budget))
{
    request->job = (struct pool_job){
        .address = http_address(request->connection),
        .run = run,
        .done = http_asked,
    };
    http_enter(request->http, request->connection, HTTP_ASKED);
    MHD_suspend_connection(request->connection);
    if (pool_submit(&request->http->pool, &request->job) == 0) {
        return 1;
    }
    MHD_resume_connection(request->connection);
    request->response = http_fail(request, MHD_HTTP_SERVICE_UNAVAILABLE,
                                  "too many questions wait: ask again later");
    return 0;
}

static bool http_is_api(const char *url)
{
    static const char *const urls[] = {"/api/series", "/api/lines",    "/api/names",
                                       "/api/nodes",  "/api/families", "/api/map",
                                       "/api/alerts", "/api/job",      "/api/heatmap"};
    size_t i;

    for (i = 0; i < (sizeof(urls) / sizeof(urls[0])); ++i) {
        if (!strcmp(urls[i], url)) {
            return true;
        }
    }
    return false;
}

/* Make the answer, or suspend the request until the pool has made it; returns whether it is there. */
static int http_answer(struct http_request *request)
{
    struct http *http = request->http;

    if (request->answered) {
        return 1;
    }
    if ((http->options.users_file != NULL) && !request->authorized) {
        switch (users_know(&http->users, http_authorization(request))) {
        case USERS_NO:
            request->response = http_unauthorized(request);
            return 1;
        case USERS_CHECK:
            return !http_ask(request, http_run_check);
        case USERS_YES:
            request->authorized = 1;
            break;
        }
    }
    if (!strcmp(request->url, "/metrics")) {
        http_metrics_shared(request);
    } else if (!strcmp(request->url, "/")) {
        request->response = http_page_response();
    } else if (http_is_api(request->url)) {
        return !http_ask(request, http_run_api);
    } else {
        request->response =
            http_fail(request, MHD_HTTP_NOT_FOUND,
                      "there are /, /metrics, /api/nodes, /api/map, /api/heatmap, /api/families,"
                      " /api/names, /api/series, /api/lines, /api/alerts and /api/job");
    }
    return 1;
}

static enum MHD_Result http_send(struct http_request *request)
{
    static struct udmon_log_limit limit;
    struct MHD_Response *response = request->response;
    enum MHD_Result result = MHD_NO;
    struct http *http = request->http;

    http_enter(http, request->connection, HTTP_READING);
    if (request->is_nodes) { /* the lock keeps the response from being replaced */
        pthread_mutex_lock(&http->nodes_lock);
        response = http_cache(http->nodes, http_nodes_kind(request))->response;
    }
    if (response != NULL) {
        result = MHD_queue_response(request->connection, request->status, response);
    } else {
        udmon_warn_limited(&limit, "no memory for the answer to an HTTP request%s", "");
        result =
            MHD_queue_response(request->connection, MHD_HTTP_SERVICE_UNAVAILABLE, http->no_memory);
    }
    if (request->is_nodes) {
        pthread_mutex_unlock(&http->nodes_lock);
    } else if ((response != NULL) && !request->is_metrics) {
        MHD_destroy_response(response);
    }
    request->response = NULL;
    return result;
}

static enum MHD_Result http_handle(void *arg, struct MHD_Connection *connection, const char *url,
                                   const char *method, const char *version, const char *upload,
                                   size_t *upload_size, void **context)
{
    struct http_request *request = *context;
    struct http *http = arg;

    (void)version;
    (void)upload;
    (void)upload_size;
    if (request == NULL) {
        request = calloc(1, sizeof(*request));
        if (request == NULL) {
            return MHD_NO;
        }
        *request = (struct http_request){
            .http = http,
            .connection = connection,
            .url = url,
            .status = MHD_HTTP_OK,
            .gzip = http_takes(connection, MHD_HTTP_HEADER_ACCEPT_ENCODING, "gzip"),
            .format =
                http_takes(connection, MHD_HTTP_HEADER_ACCEPT, "application/openmetrics-text") ?
                    METRICS_OPENMETRICS :
                    METRICS_TEXT,
        };
        *context = request; /* http_completed frees it */
        if (strcmp(method, MHD_HTTP_METHOD_GET) && strcmp(method, MHD_HTTP_METHOD_HEAD)) {
            request->response = http_fail(request, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET");
        } else if (http_too_many_readers(http)) {
            request->response = http_fail(request, MHD_HTTP_SERVICE_UNAVAILABLE,
                                          "too many answers are being read at once");
        }
    }
    if (!http_answer(request)) {
        return MHD_YES; /* suspended */
    }
    return http_send(request);
}

static void http_completed(void *arg, struct MHD_Connection *connection, void **context,
                           enum MHD_RequestTerminationCode code)
{
    struct http_request *request = *context;
    struct http *http = arg;

    (void)code;
    if (request != NULL) {
        if ((request->response != NULL) && !request->is_metrics) {
            MHD_destroy_response(request->response); /* never sent */
        }
        free(request);
        *context = NULL;
    }
    http_enter(http, connection, HTTP_REQUESTING);
}

/* MHD's error message, seldom more than "the connection was reset". */
static void http_log(void *arg, const char *format, va_list args)
{
    char line[256];

    (void)arg;
    vsnprintf(line, sizeof(line), format, args);
    line[strcspn(line, "\n")] = '\0';
    udmon_debug("HTTP: %s", line);
}

/* The contents of a PEM file, of the caller's. */
static int http_load(const char *path, char **text_p)
{
    FILE *file = fopen(path, "re");
    char *text = malloc(HTTP_FILE_MAX + 1);
    int ret = 0;

    if ((file == NULL) || (text == NULL)) {
        ret = -errno;
        udmon_error("cannot read %s for HTTP: %s", path, strerror(errno));
        free(text);
    } else {
        text[fread(text, 1, HTTP_FILE_MAX, file)] = '\0';
        *text_p = text;
    }
    if (file != NULL) {
        fclose(file);
    }
    return ret;
}

/* Serve on the listening socket, with TLS if there is a certificate. */
static int http_start(struct http *http, const char *cert, const char *key)
{
    unsigned flags = MHD_USE_POLL_INTERNAL_THREAD | MHD_USE_ERROR_LOG | MHD_ALLOW_SUSPEND_RESUME |
                     ((cert != NULL) ? MHD_USE_TLS : 0);
    struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)cert},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)key},
        {MHD_OPTION_END, 0, NULL},
    };

    http->daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, http_handle, http, MHD_OPTION_EXTERNAL_LOGGER, http_log, NULL,
        MHD_OPTION_LISTEN_SOCKET, http->listen_fd, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)HTTP_CONNECTIONS, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HTTP_POOL,
        MHD_OPTION_NOTIFY_CONNECTION, http_connected, http, MHD_OPTION_NOTIFY_COMPLETED,
        http_completed, http, MHD_OPTION_ARRAY, (cert != NULL) ? tls : &tls[2], MHD_OPTION_END);
    return (http->daemon != NULL) ? 0 : -EINVAL;
}

static void http_stop(struct http *http)
{
    pool_close(&http->pool); /* resumes requests that it has not answered */
    MHD_quiesce_daemon(http->daemon);
    MHD_stop_daemon(http->daemon);
    http->daemon = NULL;
}

static int http_listen(struct http *http)
{
    const int on = 1, off = 0;
    struct udmon_endpoint endpoint;
    int ret;

    ret = udmon_endpoint_parse(http->options.address, 1, &endpoint);
    if (ret < 0) {
        return ret;
    }
    if ((http->options.users_file == NULL) && !http->options.open &&
        !udmon_sockaddr_is_loopback(endpoint.hosts->ai_addr)) {
        udmon_error(
            "HTTP on %s is for other hosts, too: name the users who may read (--http-users), "
            "or let everybody read (--http-open)",
            http->options.address);
        udmon_endpoint_free(&endpoint);
        return -EACCES;
    }
    http->listen_fd =
        socket(endpoint.hosts->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (http->listen_fd >= 0) {
        setsockopt(http->listen_fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
        if (endpoint.hosts->ai_family == AF_INET6) {
            setsockopt(http->listen_fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
        }
    }
    ret = ((http->listen_fd < 0) ||
           (bind(http->listen_fd, endpoint.hosts->ai_addr, endpoint.hosts->ai_addrlen) < 0) ||
           (listen(http->listen_fd, SOMAXCONN) < 0)) ?
              -errno :
              0;
    if (ret < 0) {
        udmon_error("cannot serve HTTP on %s: %s", http->options.address, strerror(-ret));
        if (http->listen_fd >= 0) {
            close(http->listen_fd);
        }
    }
    udmon_endpoint_free(&endpoint);
    return ret;
}

static int http_open_tls(struct http *http)
{
    int ret;

    if (http->options.cert_file == NULL) {
        return 0;
    }
    ret = http_load(http->options.cert_file, &http->cert);
    if (ret == 0) {
        ret = http_load(http->options.key_file, &http->key);
    }
    return ret;
}

int http_open(struct http *http, const struct http_options *options, struct store *store,
              const struct writer *writer, const struct remote *remote, const struct relay *relay,
              struct alerts *alerts)
{
    static const char no_memory[] = "the collector has no memory for this answer\n";
    int ret;

    memset(http, 0, sizeof(*http));
    http->options = *options;
    http->store = store;
    http->writer = writer;
    http->remote = remote;
    http->relay = relay;
    http->alerts = alerts;
    LIST_INIT(&http->connections);
    overview_init(&http->overview, store);
    pthread_mutex_init(&http->lock, NULL);
    pthread_mutex_init(&http->overview_lock, NULL);
    pthread_mutex_init(&http->nodes_lock, NULL);
    ret = (options->users_file != NULL) ? users_open(&http->users, options->users_file) : 0;
    if (ret < 0) {
        return ret;
    }
    ret = http_open_tls(http);
    if (ret < 0) {
        goto err_tls;
    }
    http->no_memory = MHD_create_response_from_buffer(strlen(no_memory), (void *)no_memory,
                                                      MHD_RESPMEM_PERSISTENT);
    ret = (http->no_memory != NULL) ? http_listen(http) : -ENOMEM;
    if (ret < 0) {
        goto err_tls;
    }
    ret = pool_open(&http->pool, options->database);
    if (ret < 0) {
        goto err_socket;
    }
    ret = http_start(http, http->cert, http->key);
    if (ret < 0) {
        udmon_error("cannot serve HTTP on %s%s", options->address,
                    (http->cert != NULL) ? ": is the certificate one, and the key its key?" : "");
        goto err_pool;
    }
    return 0;

err_pool:
    pool_close(&http->pool);
err_socket:
    close(http->listen_fd);
err_tls:
    if (http->no_memory != NULL) {
        MHD_destroy_response(http->no_memory);
    }
    free(http->cert);
    free(http->key);
    if (options->users_file != NULL) {
        users_close(&http->users);
    }
    return ret;
}

void http_reload(struct http *http)
{
    char *cert = http->cert, *key = http->key;

    if ((http->options.users_file != NULL) && (users_reload(&http->users) == 0)) {
        udmon_info("%s read again", http->options.users_file);
    }
    if ((cert == NULL) || (http_open_tls(http) < 0)) {
        http->cert = cert;
        http->key = key;
        return;
    }
    /* Connections end, and come back with the new certificate; the listening socket stays. */
    http_stop(http);
    if ((pool_open(&http->pool, http->options.database) < 0) ||
        ((http_start(http, http->cert, http->key) < 0) && (http_start(http, cert, key) < 0))) {
        udmon_error("HTTP has ended%s", ": neither the new nor the old certificate can be used");
    }
    free(cert);
    free(key);
}

void http_close(struct http *http)
{
    if (http->daemon != NULL) {
        http_stop(http);
    }
    close(http->listen_fd);
    http_forget(http->metrics);
    http_forget(http->nodes);
    MHD_destroy_response(http->no_memory);
    overview_free(&http->overview);
    free(http->cert);
    free(http->key);
    if (http->options.users_file != NULL) {
        users_close(&http->users);
    }
    pthread_mutex_destroy(&http->nodes_lock);
    pthread_mutex_destroy(&http->overview_lock);
    pthread_mutex_destroy(&http->lock);
}

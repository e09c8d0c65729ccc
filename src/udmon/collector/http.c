#include "http.h"
#include "openmetrics.h"
#include "../address.h"
#include "../log.h"

#include <errno.h>
#include <math.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { HTTP_CONNECTIONS = 64, HTTP_IDLE_SECONDS = 10, HTTP_TIMER_MS = 1000 };
#define HTTP_STALE_NS UINT64_C(300000000000)

static uint64_t http_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return ((uint64_t)now.tv_sec * 1000000000u) + now.tv_nsec;
}

/* Answer with a text, which is taken over. */
static enum MHD_Result http_answer(struct MHD_Connection *connection, unsigned status,
                                   const char *type, text_t *text)
{
    struct MHD_Response *response;
    enum MHD_Result result = MHD_NO;

    if (text->failed) {
        free(text->bytes);
        udmon_error("no memory for the answer to an HTTP request");
        return MHD_NO;
    }
    response = MHD_create_response_from_buffer(text->length, text->bytes, MHD_RESPMEM_MUST_FREE);
    if (response == NULL) {
        free(text->bytes);
        return MHD_NO;
    }
    if ((MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type) == MHD_YES) &&
        (MHD_add_response_header(response, "X-Content-Type-Options", "nosniff") == MHD_YES) &&
        (MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store") == MHD_YES)) {
        result = MHD_queue_response(connection, status, response);
    }
    MHD_destroy_response(response);
    return result;
}

typedef struct http_list {
    text_t *text;
    int count;
} http_list_t;

static void http_series_name(series_t *series, void *arg)
{
    http_list_t *list = arg;

    text_add(list->text, (list->count++ > 0) ? "," : "");
    text_add_json(list->text, series->name);
}

static void http_nodes(http_t *http, text_t *text)
{
    http_list_t list = {.text = text};
    const host_t *host;
    int count = 0;

    text_add(text, "[");
    LIST_FOREACH(host, &http->store->hosts, list) {
        text_add(text, "%s{\"name\":", (count++ > 0) ? ",\n" : "");
        text_add_json(text, host->name);
        text_add(text, ",\"up\":%s,\"transport\":\"%s\",\"address\":\"%s\",\"received\":%llu,"
                       "\"lost\":%llu,\"series\":[", (host->connected > 0) ? "true" : "false",
                 host->transport, host->address, (unsigned long long)host->received,
                 (unsigned long long)host->lost);
        list.count = 0;
        store_each(host, http_series_name, &list);
        text_add(text, "]}");
    }
    text_add(text, "]\n");
}

static void http_sample(int64_t time_ms, double value, void *arg)
{
    http_list_t *list = arg;

    if (isfinite(value)) { /* JSON has no others */
        text_add(list->text, "%s[%lld,%.17g]", (list->count++ > 0) ? "," : "", (long long)time_ms,
                 value);
    }
}

static unsigned http_series(http_t *http, struct MHD_Connection *connection, text_t *text)
{
    const char *node = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "node");
    const char *name = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "name");
    const char *span = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "seconds");
    long seconds = (span != NULL) ? strtol(span, NULL, 10) : 600;
    http_list_t list = {.text = text};

    if ((node == NULL) || (name == NULL) || (seconds <= 0) || (seconds > 31536000)) {
        text_add(text, "{\"error\":\"node and name are needed, seconds is 1 to 31536000\"}\n");
        return MHD_HTTP_BAD_REQUEST;
    }
    text_add(text, "[");
    history_query(http->history, node, name,
                  (int64_t)(http_now_ns() / 1000000) - ((int64_t)seconds * 1000), http_sample,
                  &list);
    text_add(text, "]\n");
    return MHD_HTTP_OK;
}

static enum MHD_Result http_handle(void *arg, struct MHD_Connection *connection, const char *url,
                                   const char *method, const char *version, const char *upload,
                                   size_t *upload_size, void **request)
{
    unsigned status = MHD_HTTP_OK;
    const char *type = "application/json";
    http_t *http = arg;
    text_t text = {0};

    (void)version;
    (void)upload;
    (void)upload_size;
    (void)request;
    if (strcmp(method, MHD_HTTP_METHOD_GET) && strcmp(method, MHD_HTTP_METHOD_HEAD)) {
        text_add(&text, "only GET\n");
        return http_answer(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "text/plain", &text);
    }
    if (!strcmp(url, "/metrics")) {
        type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        openmetrics_write(http->store, http_now_ns(), HTTP_STALE_NS, &text);
    } else if (!strcmp(url, "/api/nodes")) {
        http_nodes(http, &text);
    } else if (!strcmp(url, "/api/series")) {
        status = http_series(http, connection, &text);
    } else if (!strcmp(url, "/")) {
        type = "text/html; charset=utf-8";
        text_add(&text, "%s", http_page);
    } else {
        type = "text/plain";
        status = MHD_HTTP_NOT_FOUND;
        text_add(&text, "there are /, /metrics, /api/nodes and /api/series\n");
    }
    return http_answer(connection, status, type, &text);
}

static void http_ready(udmon_source_t *source, uint32_t events)
{
    (void)events;
    MHD_run(((http_t *)source->arg)->daemon);
}

static void http_timer(udmon_timer_t *timer)
{
    http_t *http = timer->arg;

    MHD_run(http->daemon);
    udmon_timer_set(http->loop, timer, HTTP_TIMER_MS);
}

int http_open(http_t *http, udmon_loop_t *loop, const char *address, store_t *store,
              history_t *history)
{
    const union MHD_DaemonInfo *info;
    udmon_endpoint_t endpoint;
    unsigned flags = MHD_USE_EPOLL;
    int ret;

    memset(http, 0, sizeof(*http));
    http->loop = loop;
    http->store = store;
    http->history = history;
    ret = udmon_endpoint_parse(address, 1, &endpoint);
    if (ret < 0) {
        return ret;
    }
    if (endpoint.hosts->ai_family == AF_INET6) {
        flags |= MHD_USE_DUAL_STACK;
    }
    http->daemon = MHD_start_daemon(flags, 0, NULL, NULL, http_handle, http, MHD_OPTION_SOCK_ADDR,
                                    endpoint.hosts->ai_addr, MHD_OPTION_CONNECTION_LIMIT,
                                    (unsigned)HTTP_CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT,
                                    (unsigned)HTTP_IDLE_SECONDS, MHD_OPTION_END);
    udmon_endpoint_free(&endpoint);
    if (http->daemon == NULL) {
        udmon_error("cannot serve HTTP on %s: %s", address, strerror(errno));
        return -EADDRINUSE;
    }
    info = MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    http->source.fd = (info != NULL) ? info->epoll_fd : -1;
    http->source.ready = http_ready;
    http->source.arg = http;
    ret = udmon_loop_add(loop, &http->source, EPOLLIN);
    if (ret < 0) {
        MHD_stop_daemon(http->daemon);
        return ret;
    }
    http->timer.fire = http_timer;
    http->timer.arg = http;
    udmon_timer_set(loop, &http->timer, HTTP_TIMER_MS);
    return 0;
}

void http_close(http_t *http)
{
    udmon_timer_cancel(&http->timer);
    udmon_loop_delete(http->loop, &http->source);
    MHD_stop_daemon(http->daemon);
}

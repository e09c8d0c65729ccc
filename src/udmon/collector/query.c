#include "query.h"
#include "../lib/base/log.h"
#include "../lib/net/loop.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    QUERY_RESERVE_MS = 700, /* of the budget, for the rest of the work */
    QUERY_LEAST_MS = 50,
    QUERY_TIMEOUT_MS = 5000, /* without a budget */
    QUERY_URL_MAX = 900
};

int query_open(struct query *query, const struct query_options *options)
{
    if (!access_url_valid(options->url) || (strlen(options->url) > QUERY_URL_MAX)) {
        udmon_error("queries: '%s' is no URL: write as http://HOST:9090", options->url);
        return -EINVAL;
    }
    *query = (struct query){.options = *options};
    curl_global_init(CURL_GLOBAL_DEFAULT);
    return 0;
}

/* ---- the answer ------------------------------------------------------------------------------ */

struct answer {
    char *bytes;
    size_t length, size;
    bool too_long, no_memory;
};

static size_t answer_add(char *data, size_t size, size_t count, void *arg)
{
    struct answer *answer = arg;
    size_t length = size * count, room;
    char *grown;

    answer->too_long = answer->length + length > QUERY_BYTES_MAX;
    if (!answer->too_long && (answer->length + length + 1 > answer->size)) {
        room = 2 * (answer->length + length + 1);
        grown = realloc(answer->bytes, room);
        answer->no_memory = grown == NULL;
        if (grown != NULL) {
            answer->bytes = grown;
            answer->size = room;
        }
    }
    if (answer->too_long || answer->no_memory) {
        return 0; /* the request ends */
    }
    memcpy(answer->bytes + answer->length, data, length);
    answer->length += length;
    answer->bytes[answer->length] = '\0';
    return length;
}

/* A member of an object, if both are of the expected type. */
static struct json_object *member(struct json_object *object, const char *name, enum json_type type)
{
    struct json_object *found = NULL;

    return (json_object_is_type(object, json_type_object) &&
            json_object_object_get_ex(object, name, &found) && json_object_is_type(found, type)) ?
               found :
               NULL;
}

/* A point is [seconds, "value"]. The engine may have moved the times: the nearest step counts. */
static void row_add(struct query_row *row, const struct query_steps *steps,
                    struct json_object *point)
{
    struct json_object *value;
    double at;

    if (!json_object_is_type(point, json_type_array) || (json_object_array_length(point) != 2)) {
        return;
    }
    value = json_object_array_get_idx(point, 1);
    at = json_object_get_double(json_object_array_get_idx(point, 0)) * 1000;
    at = ((at + 1) / (double)steps->step_ms) - 1 - (double)steps->first;
    at = round(at);
    if (json_object_is_type(value, json_type_string) && (at >= 0) && (at < (double)steps->num)) {
        row->values[(size_t)at] = strtod(json_object_get_string(value), NULL);
    }
}

static bool row_fill(struct query_row *row, const struct query_steps *steps,
                     struct json_object *series)
{
    struct json_object *labels = member(series, "metric", json_type_object);
    struct json_object *values = member(series, "values", json_type_array);
    size_t i, count;

    if ((labels == NULL) || (values == NULL)) {
        return false;
    }
    json_object_object_foreach(labels, name, label) {
        (void)name;
        if (!json_object_is_type(label, json_type_string)) {
            return false;
        }
    }
    row->values = malloc((size_t)steps->num * sizeof(*row->values));
    if (row->values == NULL) {
        return false;
    }
    for (i = 0; i < (size_t)steps->num; ++i) {
        row->values[i] = NAN;
    }
    count = json_object_array_length(values);
    for (i = 0; i < count; ++i) {
        row_add(row, steps, json_object_array_get_idx(values, i));
    }
    row->labels = json_object_get(labels);
    return true;
}

/* Returns NULL, or why the answer is none. */
static const char *table_fill(struct query_table *table, const struct query_steps *steps,
                              struct json_object *answer)
{
    struct json_object *data = member(answer, "data", json_type_object);
    struct json_object *status = member(answer, "status", json_type_string);
    struct json_object *result = member(data, "result", json_type_array);
    size_t i, count;

    if ((result == NULL) || (status == NULL) || strcmp(json_object_get_string(status), "success")) {
        return "the answer has no table";
    }
    count = json_object_array_length(result);
    if (count > QUERY_CELLS_MAX / (size_t)steps->num) {
        return "the answer has too many series";
    }
    table->rows = calloc((count > 0) ? count : 1, sizeof(*table->rows));
    if (table->rows == NULL) {
        return "no memory for the answer";
    }
    for (i = 0; i < count; ++i) {
        if (!row_fill(&table->rows[i], steps, json_object_array_get_idx(result, i))) {
            return "the answer has a row that cannot be read";
        }
        ++table->count;
    }
    return NULL;
}

void query_free(struct query_table *table)
{
    size_t i;

    for (i = 0; i < table->count; ++i) {
        json_object_put(table->rows[i].labels);
        free(table->rows[i].values);
    }
    free(table->rows);
    *table = (struct query_table){0};
}

/* ---- the request ----------------------------------------------------------------------------- */

static int request_progress(void *arg, curl_off_t total, curl_off_t now, curl_off_t up_total,
                            curl_off_t up)
{
    struct budget *budget = arg;

    (void)total;
    (void)now;
    (void)up_total;
    (void)up;
    return (budget->stopping != NULL) && __atomic_load_n(budget->stopping, __ATOMIC_SEQ_CST);
}

/* The body of the request, or NULL. PromQL durations have milliseconds, PromQL times seconds. */
static char *request_form(CURL *curl, const char *expression, const struct query_steps *steps,
                          long timeout_ms)
{
    int64_t first_ms = ((steps->first + 1) * steps->step_ms) - 1;
    int64_t last_ms = first_ms + ((steps->num - 1) * steps->step_ms);
    char *escaped = curl_easy_escape(curl, expression, 0), *form = NULL;

    /* nocache: VictoriaMetrics does not move the times to multiples of the step. */
    if ((escaped != NULL) &&
        (asprintf(&form,
                  "query=%s&start=%lld.%03d&end=%lld.%03d&step=%lldms&timeout=%ldms&nocache=1",
                  escaped, (long long)(first_ms / 1000), (int)(first_ms % 1000),
                  (long long)(last_ms / 1000), (int)(last_ms % 1000), (long long)steps->step_ms,
                  timeout_ms) < 0)) {
        form = NULL;
    }
    curl_free(escaped);
    return form;
}

/* Returns NULL, or why there is no answer. *silent_p: the engine is not to be asked again at once. */
static const char *request_perform(struct query *query, CURL *curl, const char *form,
                                   struct answer *answer, bool *silent_p)
{
    static __thread char reason[300];
    long status = 0;
    CURLcode code;
    char *at;

    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, form);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, answer_add);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, answer);
    access_authorize(curl, &query->options.access, "queries");
    code = curl_easy_perform(curl);
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    if (answer->too_long || answer->no_memory) {
        return answer->too_long ? "the answer is too long" : "no memory for the answer";
    }
    if (code != CURLE_OK) {
        *silent_p = true;
        return curl_easy_strerror(code);
    }
    if (status != 200) {
        *silent_p = (status / 100) != 4;
        snprintf(reason, sizeof(reason), "HTTP status %ld: %.200s", status,
                 (answer->bytes != NULL) ? answer->bytes : "");
        for (at = reason; *at != '\0'; ++at) {
            *at = (*at >= ' ') ? *at : ' ';
        }
        return reason;
    }
    return NULL;
}

static const char *request_run(struct query *query, struct budget *budget, const char *expression,
                               const struct query_steps *steps, long timeout_ms,
                               struct query_table *table, bool *silent_p)
{
    CURL *curl = curl_easy_init();
    struct json_object *object = NULL;
    struct answer answer = {0};
    const char *reason = "no memory for the question";
    char *form = NULL, url[QUERY_URL_MAX + 32];

    if (curl != NULL) {
        snprintf(url, sizeof(url), "%s%sapi/v1/query_range", query->options.url,
                 (query->options.url[strlen(query->options.url) - 1] == '/') ? "" : "/");
        access_prepare(curl, url, &query->options.access, timeout_ms);
        if (budget != NULL) {
            curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, request_progress);
            curl_easy_setopt(curl, CURLOPT_XFERINFODATA, budget);
            curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
        }
        form = request_form(curl, expression, steps, timeout_ms);
    }
    if (form != NULL) {
        reason = request_perform(query, curl, form, &answer, silent_p);
    }
    if ((reason == NULL) && (answer.bytes != NULL)) {
        object = json_tokener_parse(answer.bytes);
    }
    if (reason == NULL) {
        reason = table_fill(table, steps, object);
    }
    json_object_put(object);
    free(answer.bytes);
    free(form);
    curl_easy_cleanup(curl);
    return reason;
}

int query_ask(struct query *query, struct budget *budget, const char *expression,
              const struct query_steps *steps, struct query_table *table_p)
{
    static struct udmon_log_limit limit;
    uint64_t now_ns = udmon_now_ns();
    struct query_table table = {0};
    long timeout_ms = QUERY_TIMEOUT_MS;
    bool silent = false;
    const char *reason;

    if ((budget != NULL) && (budget->until_ns != 0)) {
        timeout_ms = (long)(((int64_t)(budget->until_ns - now_ns)) / 1000000) - QUERY_RESERVE_MS;
    }
    if ((timeout_ms < QUERY_LEAST_MS) ||
        (now_ns < __atomic_load_n(&query->silent_until_ns, __ATOMIC_SEQ_CST))) {
        return -EIO;
    }
    __atomic_fetch_add(&query->asked, 1, __ATOMIC_RELAXED);
    reason = request_run(query, budget, expression, steps, timeout_ms, &table, &silent);
    if (reason == NULL) {
        *table_p = table;
        return 0;
    }
    __atomic_fetch_add(&query->failed, 1, __ATOMIC_RELAXED);
    if (silent) {
        __atomic_store_n(&query->silent_until_ns,
                         udmon_now_ns() + (QUERY_PAUSE_MS * UINT64_C(1000000)), __ATOMIC_SEQ_CST);
    }
    udmon_warn_limited(&limit, "older values from %s: %s", query->options.url, reason);
    query_free(&table);
    return -EIO;
}

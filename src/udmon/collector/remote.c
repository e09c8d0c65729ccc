#include "remote.h"
#include "../lib/log.h"
#include "../lib/net/loop.h"
#include "../lib/metric.h"

#include <curl/curl.h>
#include <snappy-c.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    REMOTE_PAUSE_MS = 200,      /* between two looks at the queue */
    REMOTE_BACKOFF_MAX_MS = 30000,
    REMOTE_TIMEOUT_S = 10,
    REMOTE_LABELS = 64
};

/* Protobuf: a field is its number and type in one, then a length or a value. */

enum { FIELD_BYTES = 2, FIELD_DOUBLE = 1, FIELD_VARINT = 0 };

static size_t varint(unsigned char bytes[10], uint64_t value)
{
    size_t length = 0;

    do {
        bytes[length++] = (value & 0x7f) | ((value > 0x7f) ? 0x80 : 0);
        value >>= 7;
    } while (value > 0);
    return length;
}

static size_t varint_length(uint64_t value)
{
    unsigned char bytes[10];

    return varint(bytes, value);
}

static void body_varint(FILE *body, uint64_t value)
{
    unsigned char bytes[10];

    fwrite(bytes, varint(bytes, value), 1, body);
}

static void body_field(FILE *body, unsigned number, unsigned type)
{
    body_varint(body, (number << 3) | type);
}

/* Labels of a series, sorted by name as the protocol wants it. */

static int label_compare(const void *left, const void *right)
{
    const udmon_label_t *a = left, *b = right;
    size_t shorter = (a->name_length < b->name_length) ? a->name_length : b->name_length;
    int order = memcmp(a->name, b->name, shorter);

    return (order != 0) ? order : ((a->name_length > b->name_length) -
                                   (a->name_length < b->name_length));
}

/* `names`: room for those that are not written as in the series' name. */
static size_t series_labels(const series_t *series, char *names, size_t size, udmon_label_t *labels)
{
    size_t count = 0, used, length = strcspn(series->name, "{");
    const char *at = series->name + length;
    udmon_label_t label;

    used = snprintf(names, size, "%.*s%s", (int)length, series->name,
                    series->counter ? "_total" : "");
    labels[count++] = (udmon_label_t) {"__name__", names, 8, used};
    labels[count++] = (udmon_label_t) {"node", series->host->name, 4, strlen(series->host->name)};
    while ((count < REMOTE_LABELS) && udmon_label_next(&at, &label)) {
        length = snprintf(names + used, size - used, "%s%.*s", udmon_label_prefix(&label),
                          (int)label.name_length, label.name);
        label.name = names + used;
        label.name_length = length;
        used += length;
        labels[count++] = label;
    }
    qsort(labels, count, sizeof(*labels), label_compare);
    return count;
}

static size_t label_length(const udmon_label_t *label)
{
    return 1 + varint_length(label->name_length) + label->name_length + 1 +
           varint_length(label->value_length) + label->value_length;
}

static size_t sample_length(const remote_sample_t *sample)
{
    return 1 + sizeof(sample->value) + 1 + varint_length(sample->time_ms);
}

static void encode_label(FILE *body, const udmon_label_t *label)
{
    body_field(body, 1, FIELD_BYTES);
    body_varint(body, label_length(label));
    body_field(body, 1, FIELD_BYTES);
    body_varint(body, label->name_length);
    fwrite(label->name, label->name_length, 1, body);
    body_field(body, 2, FIELD_BYTES);
    body_varint(body, label->value_length);
    fwrite(label->value, label->value_length, 1, body);
}

static void encode_sample(FILE *body, const remote_sample_t *sample)
{
    body_field(body, 2, FIELD_BYTES);
    body_varint(body, sample_length(sample));
    body_field(body, 1, FIELD_DOUBLE);
    fwrite(&sample->value, sizeof(sample->value), 1, body); /* little-endian, as we are */
    body_field(body, 2, FIELD_VARINT);
    body_varint(body, sample->time_ms);
}

void remote_encode(FILE *body, const remote_sample_t *samples, size_t count)
{
    char names[2 * UDMON_METRIC_NAME_MAX];
    udmon_label_t labels[REMOTE_LABELS];
    size_t i, label_count, length = 0;

    label_count = series_labels(samples[0].series, names, sizeof(names), labels);
    for (i = 0; i < label_count; ++i) {
        length += 1 + varint_length(label_length(&labels[i])) + label_length(&labels[i]);
    }
    for (i = 0; i < count; ++i) {
        length += 1 + varint_length(sample_length(&samples[i])) + sample_length(&samples[i]);
    }
    body_field(body, 1, FIELD_BYTES);
    body_varint(body, length);
    for (i = 0; i < label_count; ++i) {
        encode_label(body, &labels[i]);
    }
    for (i = 0; i < count; ++i) {
        encode_sample(body, &samples[i]);
    }
}

/* Sending */

typedef struct sender {
    remote_t *remote;
    CURL *curl;
    struct curl_slist *headers;
    char answer[200]; /* the beginning of what the receiver says */
    size_t answer_length;
} sender_t;

static size_t sender_answer(char *data, size_t size, size_t count, void *arg)
{
    sender_t *sender = arg;
    size_t i;

    for (i = 0; (i < (size * count)) && (sender->answer_length + 1 < sizeof(sender->answer)); ++i) {
        sender->answer[sender->answer_length++] = (data[i] >= ' ') ? data[i] : ' ';
    }
    sender->answer[sender->answer_length] = '\0';
    return size * count;
}

static int sample_compare(const void *left, const void *right)
{
    const remote_sample_t *a = left, *b = right;
    int order = (a->series > b->series) - (a->series < b->series);

    return (order != 0) ? order : ((a->time_ms > b->time_ms) - (a->time_ms < b->time_ms));
}

/* Protobuf of a batch: for each series its samples, oldest first. NULL: no memory. */
static char *sender_encode(remote_sample_t *batch, size_t count, size_t *length_p)
{
    char *bytes = NULL;
    FILE *body = open_memstream(&bytes, length_p);
    size_t i, from;

    if (body == NULL) {
        return NULL;
    }
    qsort(batch, count, sizeof(*batch), sample_compare);
    for (from = 0; from < count; from = i) {
        for (i = from + 1; (i < count) && (batch[i].series == batch[from].series); ++i) {
        }
        remote_encode(body, &batch[from], i - from);
    }
    if (fclose(body) != 0) {
        free(bytes);
        bytes = NULL;
    }
    return bytes;
}

/* The request for a batch, compressed; NULL: no memory. */
static char *sender_body(remote_sample_t *batch, size_t count, size_t *length_p)
{
    size_t length = 0;
    char *bytes = sender_encode(batch, count, &length), *packed;

    *length_p = snappy_max_compressed_length(length);
    packed = (bytes != NULL) ? malloc(*length_p) : NULL;
    if ((packed != NULL) && (snappy_compress(bytes, length, packed, length_p) != SNAPPY_OK)) {
        free(packed);
        packed = NULL;
    }
    free(bytes);
    return packed;
}

/* 1: taken; 0: refused for ever, or -EAGAIN: to be tried again. */
static int sender_post(sender_t *sender, const char *body, size_t length)
{
    static udmon_log_limit_t limit;
    long status = 0;
    CURLcode code;

    sender->answer_length = 0;
    sender->answer[0] = '\0';
    curl_easy_setopt(sender->curl, CURLOPT_POSTFIELDS, body);
    curl_easy_setopt(sender->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)length);
    code = curl_easy_perform(sender->curl);
    curl_easy_getinfo(sender->curl, CURLINFO_RESPONSE_CODE, &status);
    if ((code == CURLE_OK) && ((status / 100) == 2)) {
        return 1;
    }
    udmon_warn_limited(&limit, "remote write to %s: %s (HTTP status %ld) %s", sender->remote->url,
                       (code != CURLE_OK) ? curl_easy_strerror(code) : "not taken", status,
                       sender->answer);
    /* By the protocol what is wrong with a request (4xx) stays wrong, but for 429: too many. */
    return ((code == CURLE_OK) && ((status / 100) == 4) && (status != 429)) ? 0 : -EAGAIN;
}

static void sender_pause(const remote_t *remote, unsigned ms)
{
    const struct timespec slice = {.tv_nsec = 50000000};

    for (; (ms > 0) && !__atomic_load_n(&remote->stopping, __ATOMIC_SEQ_CST);
         ms -= (ms < 50) ? ms : 50) {
        nanosleep(&slice, NULL);
    }
}

static void sender_batch(sender_t *sender, remote_sample_t *batch, size_t count)
{
    remote_t *remote = sender->remote;
    unsigned backoff_ms = REMOTE_PAUSE_MS;
    size_t i, length;
    char *body = sender_body(batch, count, &length);
    int ret = 0;

    if (body != NULL) {
        while (((ret = sender_post(sender, body, length)) == -EAGAIN) &&
               !__atomic_load_n(&remote->stopping, __ATOMIC_SEQ_CST)) {
            sender_pause(remote, backoff_ms);
            backoff_ms = (backoff_ms * 2 < REMOTE_BACKOFF_MAX_MS) ? (backoff_ms * 2) :
                                                                    REMOTE_BACKOFF_MAX_MS;
        }
        free(body);
    }
    __atomic_fetch_add((ret == 1) ? &remote->sent : &remote->refused, count, __ATOMIC_SEQ_CST);
    for (i = 0; i < count; ++i) {
        __atomic_fetch_sub(&batch[i].series->queued, 1, __ATOMIC_SEQ_CST);
    }
}

static void sender_loop(sender_t *sender, remote_sample_t *batch)
{
    remote_t *remote = sender->remote;
    uint64_t head = 0, waiting;
    size_t i, count;
    int stopping;

    do {
        stopping = __atomic_load_n(&remote->stopping, __ATOMIC_SEQ_CST);
        waiting = __atomic_load_n(&remote->tail, __ATOMIC_ACQUIRE) - head;
        count = (waiting < REMOTE_BATCH) ? waiting : REMOTE_BATCH;
        for (i = 0; i < count; ++i) {
            batch[i] = remote->samples[head++ % REMOTE_QUEUE];
        }
        __atomic_store_n(&remote->head, head, __ATOMIC_RELEASE);
        if (count > 0) {
            sender_batch(sender, batch, count);
        }
        if (count < REMOTE_BATCH) {
            sender_pause(remote, REMOTE_PAUSE_MS);
        }
    } while (!stopping || (count > 0));
}

static void *remote_run(void *arg)
{
    remote_sample_t *batch = calloc(REMOTE_BATCH, sizeof(*batch));
    sender_t sender = {.remote = arg, .curl = curl_easy_init()};

    sender.headers = curl_slist_append(NULL, "Content-Type: application/x-protobuf");
    sender.headers = curl_slist_append(sender.headers, "Content-Encoding: snappy");
    sender.headers = curl_slist_append(sender.headers, "X-Prometheus-Remote-Write-Version: 0.1.0");
    if ((batch != NULL) && (sender.curl != NULL)) {
        curl_easy_setopt(sender.curl, CURLOPT_URL, sender.remote->url);
        curl_easy_setopt(sender.curl, CURLOPT_HTTPHEADER, sender.headers);
        curl_easy_setopt(sender.curl, CURLOPT_USERAGENT, "udmon-collector");
        curl_easy_setopt(sender.curl, CURLOPT_TIMEOUT, (long)REMOTE_TIMEOUT_S);
        curl_easy_setopt(sender.curl, CURLOPT_NOSIGNAL, 1L);
        curl_easy_setopt(sender.curl, CURLOPT_WRITEFUNCTION, sender_answer);
        curl_easy_setopt(sender.curl, CURLOPT_WRITEDATA, &sender);
        sender_loop(&sender, batch);
    } else {
        udmon_error("remote write: no memory");
    }
    curl_slist_free_all(sender.headers);
    curl_easy_cleanup(sender.curl);
    free(batch);
    return NULL;
}

int remote_open(remote_t *remote, const char *url)
{
    int ret;

    if ((strncmp(url, "http://", 7) && strncmp(url, "https://", 8)) ||
        (strlen(url) >= sizeof(remote->url))) {
        udmon_error("remote write: '%s' is no URL: write as http://HOST:9090/api/v1/write", url);
        return -EINVAL;
    }
    memset(remote, 0, sizeof(*remote));
    snprintf(remote->url, sizeof(remote->url), "%s", url);
    remote->samples = calloc(REMOTE_QUEUE, sizeof(*remote->samples));
    if (remote->samples == NULL) {
        return -ENOMEM;
    }
    curl_global_init(CURL_GLOBAL_DEFAULT);
    ret = udmon_thread_start(&remote->thread, remote_run, remote);
    if (ret < 0) {
        udmon_error("no thread for remote write: %s", strerror(-ret));
        free(remote->samples);
        remote->samples = NULL;
    }
    return ret;
}

void remote_close(remote_t *remote)
{
    __atomic_store_n(&remote->stopping, 1, __ATOMIC_SEQ_CST);
    pthread_join(remote->thread, NULL);
    free(remote->samples);
}

void remote_sample(remote_t *remote, series_t *series, int64_t time_ms, double value)
{
    static udmon_log_limit_t limit;
    uint64_t tail = __atomic_load_n(&remote->tail, __ATOMIC_RELAXED);

    if ((tail - __atomic_load_n(&remote->head, __ATOMIC_ACQUIRE)) == REMOTE_QUEUE) {
        __atomic_fetch_add(&remote->overflowed, 1, __ATOMIC_SEQ_CST);
        udmon_warn_limited(&limit, "remote write to %s does not keep up: samples are not sent",
                           remote->url);
        return;
    }
    __atomic_fetch_add(&series->queued, 1, __ATOMIC_SEQ_CST);
    remote->samples[tail % REMOTE_QUEUE] = (remote_sample_t) {series, time_ms, value};
    __atomic_store_n(&remote->tail, tail + 1, __ATOMIC_RELEASE);
}

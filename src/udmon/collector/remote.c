#include "remote.h"
#include "../lib/base/log.h"
#include "../lib/net/loop.h"
#include "../lib/metric.h"

#include <snappy-c.h>

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    REMOTE_PAUSE_MS = 200, /* between two checks of the queue */
    REMOTE_BACKOFF_MAX_MS = 5000,
    REMOTE_TIMEOUT_MS = 10000,
    REMOTE_REQUESTS_MAX = 200,                      /* for one batch that is refused */
    REMOTE_LABELS = 2 + (UDMON_METRIC_NAME_MAX / 5) /* of the collector, and of the longest name */
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
    const struct udmon_label *a = left, *b = right;
    size_t shorter = (a->name_length < b->name_length) ? a->name_length : b->name_length;
    int order = memcmp(a->name, b->name, shorter);

    return (order != 0) ? order :
                          ((a->name_length > b->name_length) - (a->name_length < b->name_length));
}

/* `names`: room for names that differ from the series' name. */
static size_t series_labels(const struct series *series, char *names, size_t size,
                            struct udmon_label *labels)
{
    size_t count = 0, used, length = strcspn(series->name, "{");
    const char *at = series->name + length;
    struct udmon_label label;

    used =
        snprintf(names, size, "%.*s%s", (int)length, series->name, series->counter ? "_total" : "");
    labels[count++] = (struct udmon_label){"__name__", names, 8, used};
    labels[count++] =
        (struct udmon_label){"node", series->host->name, 4, strlen(series->host->name)};
    while ((count < REMOTE_LABELS) && udmon_label_next(&at, &label)) {
        if (label.value_length == 0) {
            continue; /* a series without the label, as Prometheus defines it */
        }
        length = snprintf(names + used, size - used, "%s%.*s", udmon_label_prefix(&label),
                          (int)label.name_length, label.name);
        label.name = names + used;
        label.name_length = length;
        used += length;
        if (memchr(label.value, '\\', label.value_length) != NULL) {
            length = udmon_label_value(&label, names + used, size - used);
            label.value = names + used;
            label.value_length = length;
            used += length + 1;
        }
        labels[count++] = label;
    }
    qsort(labels, count, sizeof(*labels), label_compare);
    return count;
}

static size_t label_length(const struct udmon_label *label)
{
    return 1 + varint_length(label->name_length) + label->name_length + 1 +
           varint_length(label->value_length) + label->value_length;
}

static size_t sample_length(const struct remote_entry *sample)
{
    return 1 + sizeof(sample->value) + 1 + varint_length(sample->time_ms);
}

static void encode_label(FILE *body, const struct udmon_label *label)
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

static void encode_sample(FILE *body, const struct remote_entry *sample)
{
    body_field(body, 2, FIELD_BYTES);
    body_varint(body, sample_length(sample));
    body_field(body, 1, FIELD_DOUBLE);
    fwrite(&sample->value, sizeof(sample->value), 1, body); /* little-endian, as we are */
    body_field(body, 2, FIELD_VARINT);
    body_varint(body, sample->time_ms);
}

void remote_encode(FILE *body, const struct remote_entry *samples, size_t count)
{
    char names[3 * UDMON_METRIC_NAME_MAX]; /* also values without escapes */
    struct udmon_label labels[REMOTE_LABELS];
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

/* Splitting a body: a body is a sequence of fields, one for each series with its samples. */

/* Reads a varint; returns the following byte, or NULL. */
static const uint8_t *field_number(const uint8_t *at, const uint8_t *end, uint64_t *number_p)
{
    unsigned shift;

    *number_p = 0;
    for (shift = 0; (at < end) && (shift < 64); shift += 7) {
        *number_p |= (uint64_t)(*at & 0x7f) << shift;
        if ((*at++ & 0x80) == 0) {
            return at;
        }
    }
    return NULL;
}

/* The next field of bytes: its number and contents. Returns the byte after the field, or NULL. */
static const uint8_t *field_next(const uint8_t *at, const uint8_t *end, unsigned *number_p,
                                 const uint8_t **bytes_p)
{
    uint64_t key, length;

    at = field_number(at, end, &key);
    at = ((at != NULL) && ((key & 7) == FIELD_BYTES)) ? field_number(at, end, &length) : NULL;
    if ((at == NULL) || (length > (uint64_t)(end - at))) {
        return NULL;
    }
    *number_p = (unsigned)(key >> 3);
    *bytes_p = at;
    return at + length;
}

uint64_t remote_count(const char *body, size_t length)
{
    const uint8_t *at = (const uint8_t *)body, *end = at + length, *series, *next, *bytes;
    uint64_t count = 0;
    unsigned number;

    while ((at < end) && ((at = field_next(at, end, &number, &series)) != NULL)) {
        for (; (series < at) && ((next = field_next(series, at, &number, &bytes)) != NULL);
             series = next) {
            count += (number == 2);
        }
    }
    return count;
}

size_t remote_half(const char *body, size_t length)
{
    const uint8_t *begin = (const uint8_t *)body, *end = begin + length, *at = begin, *next, *bytes;
    unsigned number;

    while ((at < end) && ((next = field_next(at, end, &number, &bytes)) != NULL)) {
        if ((size_t)(next - begin) > length / 2) {
            return (at > begin) ? (size_t)(at - begin) : (size_t)(next - begin);
        }
        at = next;
    }
    return length;
}

/* Sending */

enum sent {
    SENT_TAKEN,
    SENT_REFUSED, /* something in it is wrong, and stays wrong */
    SENT_LATER
};

struct sender {
    struct remote *remote;
    CURL *curl;
    struct curl_slist *headers;
    char answer[200]; /* the beginning of the receiver's answer */
    size_t answer_length;
    unsigned backoff_ms;
    uint64_t next_ns;  /* not before */
    unsigned requests; /* that one batch may still cost */
};

static size_t sender_answer(char *data, size_t size, size_t count, void *arg)
{
    struct sender *sender = arg;
    size_t i;

    for (i = 0; (i < (size * count)) && (sender->answer_length + 1 < sizeof(sender->answer)); ++i) {
        sender->answer[sender->answer_length++] = (data[i] >= ' ') ? data[i] : ' ';
    }
    sender->answer[sender->answer_length] = '\0';
    return size * count;
}

static int sample_compare(const void *left, const void *right)
{
    const struct remote_entry *a = left, *b = right;
    int order = (a->series > b->series) - (a->series < b->series);

    return (order != 0) ? order : ((a->time_ms > b->time_ms) - (a->time_ms < b->time_ms));
}

/* Protobuf of a batch: for each series its samples, oldest first. NULL: no memory. */
static char *sender_encode(struct remote_entry *batch, size_t count, size_t *length_p)
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

static enum sent sender_post(struct sender *sender, const char *body, size_t length)
{
    static struct udmon_log_limit limit;
    long status = 0;
    CURLcode code;

    sender->answer_length = 0;
    sender->answer[0] = '\0';
    access_authorize(sender->curl, &sender->remote->options.access, "remote write");
    curl_easy_setopt(sender->curl, CURLOPT_POSTFIELDS, body);
    curl_easy_setopt(sender->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)length);
    code = curl_easy_perform(sender->curl);
    curl_easy_getinfo(sender->curl, CURLINFO_RESPONSE_CODE, &status);
    if ((code == CURLE_OK) && ((status / 100) == 2)) {
        return SENT_TAKEN;
    }
    udmon_warn_limited(&limit, "remote write to %s: %s (HTTP status %ld) %s", sender->remote->url,
                       (code != CURLE_OK) ? curl_easy_strerror(code) : "not taken", status,
                       sender->answer);
    /*
     * Other errors do not depend on the samples. For example, the administrator may correct a wrong
     * password.
     */
    return ((code == CURLE_OK) && ((status == 400) || (status == 413) || (status == 422))) ?
               SENT_REFUSED :
               SENT_LATER;
}

/* Send a body, compressed. */
static enum sent sender_send(struct sender *sender, const char *body, size_t length)
{
    size_t packed_length = snappy_max_compressed_length(length);
    char *packed = malloc(packed_length);
    enum sent sent = SENT_LATER;

    if ((packed != NULL) && (snappy_compress(body, length, packed, &packed_length) == SNAPPY_OK)) {
        sent = sender_post(sender, packed, packed_length);
    }
    free(packed);
    return sent;
}

/*
 * A receiver refuses a whole batch for one bad sample. The sender then sends halves of the batch until
 * the bad series is alone, so the other series lose nothing. Returns the number of bytes that are done.
 */
static size_t sender_divide(struct sender *sender, const char *body, size_t length)
{
    struct remote *remote = sender->remote;
    enum sent sent = sender_send(sender, body, length);
    size_t half, done;

    if (sent == SENT_LATER) {
        return 0;
    }
    if (sent == SENT_TAKEN) {
        __atomic_fetch_add(&remote->sent, remote_count(body, length), __ATOMIC_SEQ_CST);
        return length;
    }
    half = remote_half(body, length);
    if ((half == length) || (sender->requests < 2)) {
        __atomic_fetch_add(&remote->refused, remote_count(body, length), __ATOMIC_SEQ_CST);
        return length;
    }
    sender->requests -= 2;
    done = sender_divide(sender, body, half);
    return (done < half) ? done : (half + sender_divide(sender, body + half, length - half));
}

static void sender_later(struct sender *sender)
{
    sender->next_ns = udmon_now_ns() + (sender->backoff_ms * UINT64_C(1000000));
    sender->backoff_ms = (sender->backoff_ms * 2 < REMOTE_BACKOFF_MAX_MS) ?
                             (sender->backoff_ms * 2) :
                             REMOTE_BACKOFF_MAX_MS;
}

static void sender_publish(struct sender *sender)
{
    struct remote *remote = sender->remote;

    __atomic_store_n(&remote->waiting, remote->spool.samples, __ATOMIC_SEQ_CST);
    __atomic_store_n(&remote->dropped, remote->spool.dropped, __ATOMIC_SEQ_CST);
}

/* Send a body, or as much of it as is taken now; the rest waits on the disk. */
static void sender_body(struct sender *sender, const char *body, size_t length)
{
    struct spool *spool = &sender->remote->spool;
    size_t done = 0;

    if (spool_is_empty(spool) && (udmon_now_ns() >= sender->next_ns)) {
        sender->requests = REMOTE_REQUESTS_MAX;
        done = sender_divide(sender, body, length);
        if (done < length) {
            sender_later(sender);
        } else {
            sender->backoff_ms = REMOTE_PAUSE_MS;
        }
    }
    if (done < length) {
        spool_put(spool, body + done, length - done, remote_count(body + done, length - done));
    }
    sender_publish(sender);
}

/* Sends the oldest request on the disk; returns whether the receiver accepts more. */
static bool sender_oldest(struct sender *sender)
{
    struct spool *spool = &sender->remote->spool;
    uint64_t samples;
    size_t length, done;
    char *body;

    if (spool_is_empty(spool) || (udmon_now_ns() < sender->next_ns)) {
        return false;
    }
    body = spool_oldest(spool, &length, &samples);
    if (body != NULL) {
        sender->requests = REMOTE_REQUESTS_MAX;
        done = sender_divide(sender, body, length);
        if ((done > 0) && (done < length)) {
            spool_shorten_oldest(spool, body + done, length - done,
                                 remote_count(body + done, length - done));
        }
        free(body);
        if (done < length) {
            sender_later(sender);
            sender_publish(sender);
            return false;
        }
        spool_remove_oldest(spool);
    }
    sender->backoff_ms = REMOTE_PAUSE_MS;
    sender_publish(sender);
    return true;
}

static void sender_batch(struct sender *sender, struct remote_entry *batch, size_t count)
{
    size_t i, length = 0;
    char *body = sender_encode(batch, count, &length);

    if (body != NULL) {
        sender_body(sender, body, length);
        free(body);
    } else {
        __atomic_fetch_add(&sender->remote->refused, count, __ATOMIC_SEQ_CST);
    }
    for (i = 0; i < count; ++i) {
        __atomic_fetch_sub(&batch[i].series->queued, 1, __ATOMIC_SEQ_CST);
    }
}

static void sender_loop(struct sender *sender, struct remote_entry *batch)
{
    const struct timespec pause = {.tv_nsec = REMOTE_PAUSE_MS * 1000000};
    struct remote *remote = sender->remote;
    uint64_t head = 0, waiting;
    size_t i, count;
    int stopping, more;

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
        more = !stopping && sender_oldest(sender);
        if ((count < REMOTE_BATCH) && !more && !stopping) {
            nanosleep(&pause, NULL);
        }
    } while (!stopping || (count > 0));
}

static void *remote_run(void *arg)
{
    struct remote_entry *batch = calloc(REMOTE_BATCH, sizeof(*batch));
    struct sender sender = {.remote = arg, .curl = curl_easy_init(), .backoff_ms = REMOTE_PAUSE_MS};

    sender.headers = curl_slist_append(NULL, "Content-Type: application/x-protobuf");
    sender.headers = curl_slist_append(sender.headers, "Content-Encoding: snappy");
    sender.headers = curl_slist_append(sender.headers, "X-Prometheus-Remote-Write-Version: 0.1.0");
    if ((batch != NULL) && (sender.curl != NULL)) {
        access_prepare(sender.curl, sender.remote->url, &sender.remote->options.access,
                       REMOTE_TIMEOUT_MS);
        curl_easy_setopt(sender.curl, CURLOPT_HTTPHEADER, sender.headers);
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

int remote_open(struct remote *remote, const char *url, const struct remote_options *options)
{
    int ret;

    if (!access_url_valid(url) || (strlen(url) >= sizeof(remote->url))) {
        udmon_error("remote write: '%s' is no URL: write as http://HOST:9090/api/v1/write", url);
        return -EINVAL;
    }
    memset(remote, 0, sizeof(*remote));
    snprintf(remote->url, sizeof(remote->url), "%s", url);
    remote->options = *options;
    ret = spool_open(&remote->spool, options->directory, options->queue_bytes);
    if (ret < 0) {
        return ret;
    }
    remote->waiting = remote->spool.samples;
    remote->samples = calloc(REMOTE_QUEUE, sizeof(*remote->samples));
    if (remote->samples == NULL) {
        spool_close(&remote->spool);
        return -ENOMEM;
    }
    curl_global_init(CURL_GLOBAL_DEFAULT);
    ret = udmon_thread_start(&remote->thread, remote_run, remote);
    if (ret < 0) {
        udmon_error("no thread for remote write: %s", strerror(-ret));
        free(remote->samples);
        remote->samples = NULL;
        spool_close(&remote->spool);
    }
    return ret;
}

void remote_close(struct remote *remote)
{
    __atomic_store_n(&remote->stopping, 1, __ATOMIC_SEQ_CST);
    pthread_join(remote->thread, NULL);
    spool_close(&remote->spool);
    free(remote->samples);
}

void remote_sample(struct remote *remote, struct series *series, int64_t time_ms, double value)
{
    static struct udmon_log_limit limit, back;
    uint64_t tail = __atomic_load_n(&remote->tail, __ATOMIC_RELAXED);

    if (time_ms <= series->remote_ms) {
        /* Receivers refuse the whole batch for a time that goes back. */
        ++series->host->out_of_order;
        udmon_warn_limited(&back,
                           "node %s: %s goes back in time by %lld ms: this is not sent by remote "
                           "write",
                           series->host->name, series->name,
                           (long long)(series->remote_ms - time_ms));
        return;
    }
    if ((tail - __atomic_load_n(&remote->head, __ATOMIC_ACQUIRE)) == REMOTE_QUEUE) {
        __atomic_fetch_add(&remote->overflowed, 1, __ATOMIC_SEQ_CST);
        udmon_warn_limited(&limit, "remote write to %s does not keep up: samples are not sent",
                           remote->url);
        return;
    }
    series->remote_ms = time_ms;
    __atomic_fetch_add(&series->queued, 1, __ATOMIC_SEQ_CST);
    remote->samples[tail % REMOTE_QUEUE] = (struct remote_entry){series, time_ms, value};
    __atomic_store_n(&remote->tail, tail + 1, __ATOMIC_RELEASE);
}

#include "writer.h"
#include "../lib/base/log.h"
#include "../lib/net/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void writer_wake(struct writer *writer)
{
    pthread_mutex_lock(&writer->lock);
    writer->woken = 1;
    pthread_cond_signal(&writer->wake);
    pthread_mutex_unlock(&writer->lock);
}

static void writer_handle(struct writer *writer, const struct writer_entry *entry)
{
    struct history *history = &writer->history;

    switch ((enum writer_kind)entry->kind) {
    case WRITER_SAMPLE:
        if (history->broken && __atomic_load_n(&writer->stopping, __ATOMIC_SEQ_CST)) {
            ++history->unstored; /* do not try every sample while the database is broken */
        } else {
            history_add(history, entry->series, entry->number, entry->value);
        }
        __atomic_fetch_sub(&entry->series->queued, 1, __ATOMIC_SEQ_CST);
        break;
    case WRITER_HOST:
        history_host(history, entry->host, entry->number, entry->lost);
        __atomic_fetch_sub(&entry->host->queued, 1, __ATOMIC_SEQ_CST);
        break;
    case WRITER_AGENT:
        history_agent(history, entry->agent, entry->number);
        break;
    case WRITER_COMMIT:
        history_commit(history);
        __atomic_store_n(&writer->unstored, history->unstored, __ATOMIC_SEQ_CST);
        __atomic_store_n(&writer->stored, history->stored, __ATOMIC_SEQ_CST);
        __atomic_fetch_add(&writer->commits, 1, __ATOMIC_SEQ_CST);
        break;
    }
}

static void *writer_run(void *arg)
{
    struct writer *writer = arg;
    uint64_t head = 0;

    for (;;) {
        pthread_mutex_lock(&writer->lock);
        while (!writer->woken) {
            pthread_cond_wait(&writer->wake, &writer->lock);
        }
        writer->woken = 0;
        pthread_mutex_unlock(&writer->lock);
        while (head != __atomic_load_n(&writer->tail, __ATOMIC_ACQUIRE)) {
            writer_handle(writer, &writer->entries[head % WRITER_QUEUE]);
            __atomic_store_n(&writer->head, ++head, __ATOMIC_RELEASE);
        }
        if (__atomic_load_n(&writer->stopping, __ATOMIC_SEQ_CST)) {
            history_commit(&writer->history);
            return NULL; /* writer_stop() has queued its last entry before */
        }
    }
}

int writer_start(struct writer *writer)
{
    int ret;

    writer->entries = calloc(WRITER_QUEUE, sizeof(*writer->entries));
    if (writer->entries == NULL) {
        return -ENOMEM;
    }
    pthread_mutex_init(&writer->lock, NULL);
    pthread_cond_init(&writer->wake, NULL);
    writer->history.stopping = &writer->stopping;
    ret = udmon_thread_start(&writer->thread, writer_run, writer);
    if (ret < 0) {
        udmon_error("no thread for the history: %s", strerror(-ret));
        free(writer->entries);
    }
    return ret;
}

void writer_stop(struct writer *writer)
{
    writer_commit(writer);
    __atomic_store_n(&writer->stopping, 1, __ATOMIC_SEQ_CST);
    writer_wake(writer);
    pthread_join(writer->thread, NULL);
    pthread_mutex_destroy(&writer->lock);
    pthread_cond_destroy(&writer->wake);
    free(writer->entries);
}

size_t writer_waiting(const struct writer *writer)
{
    return __atomic_load_n(&writer->tail, __ATOMIC_SEQ_CST) -
           __atomic_load_n(&writer->head, __ATOMIC_SEQ_CST);
}

static int writer_put(struct writer *writer, const struct writer_entry *entry)
{
    uint64_t tail = __atomic_load_n(&writer->tail, __ATOMIC_RELAXED);
    uint64_t waiting = tail - __atomic_load_n(&writer->head, __ATOMIC_ACQUIRE);

    if (waiting == WRITER_QUEUE) {
        return -EAGAIN;
    }
    writer->entries[tail % WRITER_QUEUE] = *entry;
    __atomic_store_n(&writer->tail, tail + 1, __ATOMIC_RELEASE);
    if (waiting == (WRITER_QUEUE / 4)) {
        writer_wake(writer); /* more than a commit's worth: do not wait for it */
    }
    return 0;
}

int writer_sample(struct writer *writer, struct series *series, int64_t time_ms, double value)
{
    static struct udmon_log_limit limit;
    struct writer_entry entry = {
        .kind = WRITER_SAMPLE,
        .number = time_ms,
        .series = series,
        .value = value,
    };
    uint64_t overflowed;
    int ret;

    __atomic_fetch_add(&series->queued, 1, __ATOMIC_SEQ_CST);
    ret = writer_put(writer, &entry);
    if (ret < 0) {
        __atomic_fetch_sub(&series->queued, 1, __ATOMIC_SEQ_CST);
        overflowed = __atomic_fetch_add(&writer->overflowed, 1, __ATOMIC_SEQ_CST) + 1;
        udmon_warn_limited(&limit,
                           "the history cannot keep up (is the database locked, or the "
                           "disk slow?): %llu samples are shown, but not stored",
                           (unsigned long long)overflowed);
    }
    return ret;
}

int writer_host(struct writer *writer, struct host *host)
{
    struct writer_entry entry = {
        .kind = WRITER_HOST,
        .number = host->received,
        .host = host,
        .lost = host->lost,
    };
    int ret;

    __atomic_fetch_add(&host->queued, 1, __ATOMIC_SEQ_CST);
    ret = writer_put(writer, &entry);
    if (ret < 0) {
        __atomic_fetch_sub(&host->queued, 1, __ATOMIC_SEQ_CST);
    }
    return ret;
}

int writer_agent(struct writer *writer, uint64_t id, uint64_t next)
{
    struct writer_entry entry = {.kind = WRITER_AGENT, .number = next, .agent = id};

    return writer_put(writer, &entry);
}

int writer_commit(struct writer *writer)
{
    struct writer_entry entry = {.kind = WRITER_COMMIT};
    int ret = writer_put(writer, &entry);

    writer_wake(writer);
    return ret;
}

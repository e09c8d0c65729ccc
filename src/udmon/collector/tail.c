#include "tail.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* There are many tails, and most of the time most of a collector's memory is in them. */
typedef struct raw_entry {
    int32_t after_ms; /* tail_level.begin_ms */
    double value;
} __attribute__((packed)) raw_entry_t;

typedef struct step_entry {
    int32_t after_ms;
    float least, most;
    double value;
} __attribute__((packed)) step_entry_t;

static const struct {
    size_t entry;
    unsigned full, columns;
} shapes[TAIL_LEVELS] = {
    {sizeof(raw_entry_t), CHUNK_SAMPLES, 1},
    {sizeof(step_entry_t), 30, 3},
    {sizeof(step_entry_t), 18, 3},
};

/* Readers are few and hold it for microseconds. */
static pthread_mutex_t tails_lock = PTHREAD_MUTEX_INITIALIZER;

unsigned tail_full(int level)
{
    return shapes[level].full;
}

unsigned tail_columns(int level)
{
    return shapes[level].columns;
}

tail_t *tail_new(void)
{
    tail_t *tail = calloc(1, sizeof(*tail));

    if (tail != NULL) {
        STAILQ_INIT(&tail->written);
    }
    return tail;
}

static void tail_drop_written(tail_t *tail)
{
    tail_chunk_t *chunk;

    while ((chunk = STAILQ_FIRST(&tail->written)) != NULL) {
        STAILQ_REMOVE_HEAD(&tail->written, list);
        free(chunk);
    }
}

void tail_free(tail_t *tail)
{
    int level;

    if (tail != NULL) {
        tail_drop_written(tail);
        for (level = 0; level < TAIL_LEVELS; ++level) {
            free(tail->levels[level].entries);
        }
        free(tail);
    }
}

/* Makes room for another entry. Takes the lock, because readers use the entries. */
static int tail_grow(tail_level_t *open, int level)
{
    unsigned size = (open->size > 0) ? (2 * open->size) : 8;
    void *entries;

    if (open->count < open->size) {
        return 0;
    }
    size = (size < shapes[level].full) ? size : shapes[level].full;
    entries = realloc(open->entries, size * shapes[level].entry);
    if (entries == NULL) {
        return -ENOMEM;
    }
    open->entries = entries;
    open->size = size;
    return 0;
}

int tail_add(tail_t *tail, int level, int64_t time_ms, const double values[CHUNK_COLUMNS])
{
    tail_level_t *open = &tail->levels[level];
    int ret;

    pthread_mutex_lock(&tails_lock);
    ret = tail_grow(open, level);
    if (ret == 0) {
        open->begin_ms = (open->count == 0) ? time_ms : open->begin_ms;
        if (level == 0) {
            ((raw_entry_t *)open->entries)[open->count++] =
                (raw_entry_t){(int32_t)(time_ms - open->begin_ms), values[0]};
        } else {
            ((step_entry_t *)open->entries)[open->count++] = (step_entry_t){
                (int32_t)(time_ms - open->begin_ms), (float)values[1], (float)values[2], values[0]};
        }
    }
    pthread_mutex_unlock(&tails_lock);
    return ret;
}

void tail_pack(const tail_t *tail, int level, chunk_t *chunk)
{
    const tail_level_t *open = &tail->levels[level];
    const raw_entry_t *raw = open->entries;
    const step_entry_t *steps = open->entries;
    unsigned i;

    chunk->count = open->count;
    chunk->columns = shapes[level].columns;
    for (i = 0; i < open->count; ++i) {
        if (level == 0) {
            chunk->times[i] = open->begin_ms + raw[i].after_ms;
            chunk->values[0][i] = raw[i].value;
        } else {
            chunk->times[i] = open->begin_ms + steps[i].after_ms;
            chunk->values[0][i] = steps[i].value;
            chunk->values[1][i] = steps[i].least;
            chunk->values[2][i] = steps[i].most;
        }
    }
    chunk_sort(chunk);
}

void tail_clear(tail_t *tail, int level, const uint8_t *bytes, size_t length)
{
    tail_level_t *open = &tail->levels[level];
    tail_chunk_t *chunk = malloc(sizeof(*chunk) + length);

    pthread_mutex_lock(&tails_lock);
    if (chunk != NULL) { /* else readers miss it until the commit */
        chunk->level = level;
        chunk->length = length;
        memcpy(chunk->bytes, bytes, length);
        STAILQ_INSERT_TAIL(&tail->written, chunk, list);
    }
    open->count = 0;
    open->row = 0;
    open->row_count = 0;
    open->committed = 0;
    pthread_mutex_unlock(&tails_lock);
}

void tail_committed(tail_t *tail)
{
    pthread_mutex_lock(&tails_lock);
    tail_drop_written(tail);
    pthread_mutex_unlock(&tails_lock);
}

void tail_read(tail_t *const *tail_p, int level, void (*each)(const chunk_t *chunk, void *arg),
               void *arg)
{
    const tail_t *tail = __atomic_load_n(tail_p, __ATOMIC_ACQUIRE);
    const tail_chunk_t *written;
    chunk_t chunk;

    if (tail == NULL) {
        return;
    }
    pthread_mutex_lock(&tails_lock);
    STAILQ_FOREACH(written, &tail->written, list) {
        if ((written->level == level) &&
            (chunk_decode(written->bytes, written->length, &chunk) == 0)) {
            each(&chunk, arg);
        }
    }
    tail_pack(tail, level, &chunk);
    pthread_mutex_unlock(&tails_lock);
    each(&chunk, arg);
}

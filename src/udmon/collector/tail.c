#include "tail.h"
#include "reserve.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* There are many tails, and most of the time most of a collector's memory is in them. */
struct raw_entry {
    int32_t after_ms; /* tail_level.begin_ms */
    double value;
} __attribute__((packed));

struct step_entry {
    int32_t after_ms;
    float least, most;
    double value;
} __attribute__((packed));

static const struct {
    size_t entry;
    unsigned full, columns;
} shapes[TAIL_LEVELS] = {
    {sizeof(struct raw_entry), CHUNK_SAMPLES, 1},
    {sizeof(struct step_entry), 30, 3},
    {sizeof(struct step_entry), 18, 3},
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

struct tail *tail_new(void)
{
    struct tail *tail = reserve_allows(sizeof(*tail)) ? calloc(1, sizeof(*tail)) : NULL;

    if (tail != NULL) {
        STAILQ_INIT(&tail->written);
    }
    return tail;
}

static void tail_drop_written(struct tail *tail)
{
    struct tail_chunk *chunk;

    while ((chunk = STAILQ_FIRST(&tail->written)) != NULL) {
        STAILQ_REMOVE_HEAD(&tail->written, list);
        free(chunk);
    }
}

void tail_free(struct tail *tail)
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
static int tail_grow(struct tail_level *open, int level)
{
    unsigned size = (open->size > 0) ? (2 * open->size) : 8;
    void *entries;

    if (open->count < open->size) {
        return 0;
    }
    size = (size < shapes[level].full) ? size : shapes[level].full;
    entries = reserve_allows((size - open->size) * shapes[level].entry) ?
                  realloc(open->entries, size * shapes[level].entry) :
                  NULL;
    if (entries == NULL) {
        return -ENOMEM;
    }
    open->entries = entries;
    open->size = size;
    return 0;
}

int tail_add(struct tail *tail, int level, int64_t time_ms, const double values[CHUNK_COLUMNS])
{
    struct tail_level *open = &tail->levels[level];
    int ret;

    pthread_mutex_lock(&tails_lock);
    ret = tail_grow(open, level);
    if (ret == 0) {
        open->begin_ms = (open->count == 0) ? time_ms : open->begin_ms;
        if (level == 0) {
            ((struct raw_entry *)open->entries)[open->count++] =
                (struct raw_entry){(int32_t)(time_ms - open->begin_ms), values[0]};
        } else {
            ((struct step_entry *)open->entries)[open->count++] = (struct step_entry){
                (int32_t)(time_ms - open->begin_ms), (float)values[1], (float)values[2], values[0]};
        }
    }
    pthread_mutex_unlock(&tails_lock);
    return ret;
}

void tail_pack(const struct tail *tail, int level, struct chunk *chunk)
{
    const struct tail_level *open = &tail->levels[level];
    const struct raw_entry *raw = open->entries;
    const struct step_entry *steps = open->entries;
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

void tail_clear(struct tail *tail, int level, const uint8_t *bytes, size_t length)
{
    struct tail_level *open = &tail->levels[level];
    struct tail_chunk *chunk = malloc(sizeof(*chunk) + length);

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

void tail_committed(struct tail *tail)
{
    pthread_mutex_lock(&tails_lock);
    tail_drop_written(tail);
    pthread_mutex_unlock(&tails_lock);
}

void tail_read(struct tail *const *tail_p, int level,
               void (*each)(const struct chunk *chunk, void *arg), void *arg)
{
    const struct tail *tail = __atomic_load_n(tail_p, __ATOMIC_ACQUIRE);
    const struct tail_chunk *written;
    struct chunk chunk;

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

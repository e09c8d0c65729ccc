#include "record.h"
#include "../lib/base/chunk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#define RECORD_SWEEP_NS UINT64_C(10000000000)

/* A chunk of a series. */
struct packed {
    TAILQ_ENTRY(packed) by_age;
    STAILQ_ENTRY(packed) list; /* of its series */
    struct series *series;
    uint64_t closed_ns;
    uint16_t length;
    uint8_t bytes[];
};

struct series {
    char *name;
    int counter;
    size_t size;             /* of this struct with the name */
    struct series *follower; /* its sample came after the sample of this series, the last time */
    uint64_t last_ns;        /* of the last sample */
    unsigned packed_count;
    STAILQ_HEAD(, packed) packed; /* oldest first */
    unsigned count;               /* samples that are not packed yet */
    int64_t times[CHUNK_SAMPLES]; /* ms since 1970 */
    double values[CHUNK_SAMPLES];
};

struct record {
    uint64_t keep_ns;
    size_t bytes_max, bytes, series_bytes;
    TAILQ_HEAD(, packed) packed; /* oldest first */
    struct series **series;      /* by family, counters last, and labels */
    size_t series_count, series_room;
    struct series *last; /* of the last sample */
    uint64_t complete_since_ns, swept_ns;
    uint64_t refused;
};

/* The labels come last: all series of a family follow each other. */
static int series_order(const char *a, int a_counter, const char *b, int b_counter)
{
    size_t a_length = strcspn(a, "{"), b_length = strcspn(b, "{");
    int order = memcmp(a, b, (a_length < b_length) ? a_length : b_length);

    if ((order != 0) || (a_length != b_length)) {
        return (order != 0) ? order : ((a_length > b_length) - (a_length < b_length));
    }
    order = !!a_counter - !!b_counter;
    return (order != 0) ? order : strcmp(a + a_length, b + b_length);
}

static bool series_is(const struct series *series, const struct udmon_metric *metric)
{
    return (series != NULL) && (!series->counter == !metric->counter) &&
           !strcmp(series->name, metric->name);
}

/* The index of a series, or the index for a new one. */
static size_t record_place(const struct record *record, const struct udmon_metric *metric)
{
    size_t low = 0, high = record->series_count, middle;
    const struct series *series;

    while (low < high) {
        middle = (low + high) / 2;
        series = record->series[middle];
        if (series_order(series->name, series->counter, metric->name, metric->counter) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void record_drop_oldest(struct record *record)
{
    struct packed *packed = TAILQ_FIRST(&record->packed);

    TAILQ_REMOVE(&record->packed, packed, by_age);
    STAILQ_REMOVE_HEAD(&packed->series->packed, list);
    --packed->series->packed_count;
    record->bytes -= sizeof(*packed) + packed->length;
    record->complete_since_ns = packed->closed_ns;
    free(packed);
}

static void record_make_room(struct record *record, size_t size)
{
    while ((record->bytes + size > record->bytes_max) && !TAILQ_EMPTY(&record->packed)) {
        record_drop_oldest(record);
    }
}

static void series_free(struct series *series)
{
    free(series->name);
    free(series);
}

static struct series *series_new(const struct udmon_metric *metric)
{
    struct series *series = calloc(1, sizeof(*series));

    if (series == NULL) {
        return NULL;
    }
    STAILQ_INIT(&series->packed);
    series->counter = !!metric->counter;
    series->size = sizeof(*series) + strlen(metric->name) + 1 + sizeof(series);
    series->name = strdup(metric->name);
    if (series->name == NULL) {
        series_free(series);
        return NULL;
    }
    return series;
}

static bool record_reserve(struct record *record)
{
    size_t room = (record->series_room > 0) ? (2 * record->series_room) : 64;
    struct series **series;

    if (record->series_count < record->series_room) {
        return true;
    }
    series = realloc(record->series, room * sizeof(series[0]));
    if (series == NULL) {
        return false;
    }
    record->series = series;
    record->series_room = room;
    return true;
}

/* Half of the memory is for chunks. */
static struct series *record_insert(struct record *record, size_t at,
                                    const struct udmon_metric *metric)
{
    struct series *series = series_new(metric);

    if ((series == NULL) || (record->series_bytes + series->size > record->bytes_max / 2) ||
        !record_reserve(record)) {
        if (series != NULL) {
            series_free(series);
        }
        return NULL;
    }
    record_make_room(record, series->size);
    record->bytes += series->size;
    record->series_bytes += series->size;
    memmove(&record->series[at + 1], &record->series[at],
            (record->series_count - at) * sizeof(record->series[0]));
    record->series[at] = series;
    ++record->series_count;
    return series;
}

/* A sensor's samples come in the same order at each tick, so the search is seldom needed. */
static struct series *record_series(struct record *record, const struct udmon_metric *metric)
{
    struct series *series = (record->last != NULL) ? record->last->follower : NULL;
    size_t at;

    if (!series_is(series, metric)) {
        at = record_place(record, metric);
        series = (at < record->series_count) ? record->series[at] : NULL;
        if (!series_is(series, metric)) {
            series = record_insert(record, at, metric);
        }
        if ((record->last != NULL) && (series != NULL)) {
            record->last->follower = series;
        }
    }
    record->last = series;
    return series;
}

/* The length of the samples that are not packed yet, as a chunk. */
static size_t series_encode(const struct series *series, uint8_t bytes[CHUNK_BYTES])
{
    struct chunk chunk = {.count = series->count, .columns = 1};

    memcpy(chunk.times, series->times, sizeof(series->times));
    memcpy(chunk.values[0], series->values, sizeof(series->values));
    return chunk_encode(&chunk, bytes);
}

/* Without memory, the samples are lost. */
static void series_pack(struct record *record, struct series *series, uint64_t now_ns)
{
    uint8_t bytes[CHUNK_BYTES];
    size_t length = series_encode(series, bytes);
    struct packed *packed = malloc(sizeof(*packed) + length);

    series->count = 0;
    if (packed == NULL) {
        record->complete_since_ns = now_ns;
        return;
    }
    packed->series = series;
    packed->closed_ns = now_ns;
    packed->length = length;
    memcpy(packed->bytes, bytes, length);
    record_make_room(record, sizeof(*packed) + length);
    TAILQ_INSERT_TAIL(&record->packed, packed, by_age);
    STAILQ_INSERT_TAIL(&series->packed, packed, list);
    ++series->packed_count;
    record->bytes += sizeof(*packed) + length;
}

bool record_add(struct record *record, const struct udmon_metric *metric, uint64_t now_ns)
{
    struct series *series = record_series(record, metric);

    if (series == NULL) {
        ++record->refused;
        return false;
    }
    series->last_ns = now_ns;
    series->times[series->count] = metric->time_ns / 1000000;
    series->values[series->count] = metric->value;
    if (++series->count == CHUNK_SAMPLES) {
        series_pack(record, series, now_ns);
    }
    return true;
}

/* Removes the series whose last sample is too old. */
static void record_sweep(struct record *record, uint64_t now_ns)
{
    size_t i, kept = 0;
    struct series *series;

    for (i = 0; i < record->series_count; ++i) {
        series = record->series[i];
        if ((series->packed_count > 0) || (now_ns - series->last_ns <= record->keep_ns)) {
            record->series[kept++] = series;
            continue;
        }
        record->bytes -= series->size;
        record->series_bytes -= series->size;
        if (record->complete_since_ns < series->last_ns) {
            record->complete_since_ns = series->last_ns;
        }
        series_free(series);
    }
    if (kept < record->series_count) {
        record->last = NULL;
        for (i = 0; i < kept; ++i) {
            record->series[i]->follower = NULL;
        }
    }
    record->series_count = kept;
}

void record_expire(struct record *record, uint64_t now_ns)
{
    const struct packed *oldest;

    while (((oldest = TAILQ_FIRST(&record->packed)) != NULL) &&
           (now_ns - oldest->closed_ns > record->keep_ns)) {
        record_drop_oldest(record);
    }
    if (now_ns - record->swept_ns > RECORD_SWEEP_NS) {
        record->swept_ns = now_ns;
        record_sweep(record, now_ns);
    }
}

void record_tell(const struct record *record, uint64_t now_ns, struct record_stats *stats)
{
    *stats = (struct record_stats){.series = record->series_count,
                                   .bytes = record->bytes,
                                   .complete_ns = now_ns - record->complete_since_ns,
                                   .refused = record->refused};
}

struct record *record_new(uint64_t keep_ns, size_t bytes_max, uint64_t now_ns)
{
    struct record *record = calloc(1, sizeof(*record));

    if (record != NULL) {
        TAILQ_INIT(&record->packed);
        record->keep_ns = keep_ns;
        record->bytes_max = bytes_max;
        record->complete_since_ns = now_ns;
        record->swept_ns = now_ns;
    }
    return record;
}

void record_free(struct record *record)
{
    size_t i;

    while (!TAILQ_EMPTY(&record->packed)) {
        record_drop_oldest(record);
    }
    for (i = 0; i < record->series_count; ++i) {
        series_free(record->series[i]);
    }
    free(record->series);
    free(record);
}

static bool save_put(FILE *out, const void *data, size_t length)
{
    return fwrite(data, 1, length, out) == length;
}

static bool save_chunk(FILE *out, const void *bytes, uint16_t length)
{
    return save_put(out, &length, sizeof(length)) && save_put(out, bytes, length);
}

static bool save_series(FILE *out, const struct series *series)
{
    struct record_saved saved = {.name_length = strlen(series->name),
                                 .counter = series->counter,
                                 .chunks = series->packed_count + (series->count > 0)};
    const struct packed *packed;
    uint8_t bytes[CHUNK_BYTES];

    if (!save_put(out, &saved, sizeof(saved)) || !save_put(out, series->name, saved.name_length)) {
        return false;
    }
    STAILQ_FOREACH(packed, &series->packed, list) {
        if (!save_chunk(out, packed->bytes, packed->length)) {
            return false;
        }
    }
    return (series->count == 0) || save_chunk(out, bytes, series_encode(series, bytes));
}

int record_save(const struct record *record, uint8_t **data_p, size_t *length_p)
{
    struct record_head head = {.series = record->series_count};
    char *data = NULL;
    size_t i, length = 0;
    FILE *out = open_memstream(&data, &length);
    bool good;

    if (out == NULL) {
        return -ENOMEM;
    }
    memcpy(head.magic, RECORD_MAGIC, sizeof(head.magic));
    good = save_put(out, &head, sizeof(head));
    for (i = 0; (i < record->series_count) && good; ++i) {
        good = save_series(out, record->series[i]);
    }
    if ((fclose(out) != 0) || !good) {
        free(data);
        return -ENOMEM;
    }
    *data_p = (uint8_t *)data;
    *length_p = length;
    return 0;
}

/*
 * The samples of the last minutes, in memory: what the recorder keeps. A series collects samples
 * and packs them into chunks of CHUNK_SAMPLES, as the history of the collector does. A chunk is
 * dropped `keep_ns` after its last sample, or earlier if the memory is used up; the oldest chunk of
 * all series goes first. Ages follow the monotonic clock that the caller passes, so a step of the
 * time of day drops nothing.
 */
#ifndef UDMON_AGENT_RECORD_H
#define UDMON_AGENT_RECORD_H

#include "../include/udmon_module.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct record;

/*
 * The saved form, in the byte order of the host: this head, and for each series a struct
 * record_saved, the name, and chunks. A chunk is a length of two bytes and so many bytes.
 */
#define RECORD_MAGIC "udmrec1"
struct record_head {
    char magic[8];
    uint64_t series;
};
struct record_saved {
    uint16_t name_length, counter;
    uint32_t chunks;
};

struct record_stats {
    size_t series;
    size_t bytes;
    uint64_t complete_ns; /* no sample of this time before now has been dropped */
    uint64_t refused;     /* samples of series that the memory has no room for */
};

/** NULL: no memory. */
struct record *record_new(uint64_t keep_ns, size_t bytes_max, uint64_t now_ns);
void record_free(struct record *record);

/** False: the sample is refused, because half of the memory is taken by the series. */
bool record_add(struct record *record, const struct udmon_metric *metric, uint64_t now_ns);
/** Drops old chunks, and series without samples. */
void record_expire(struct record *record, uint64_t now_ns);
void record_tell(const struct record *record, uint64_t now_ns, struct record_stats *stats);

/** Copies all samples, packed, to memory that the caller frees. Returns 0 or a negative errno. */
int record_save(const struct record *record, uint8_t **data_p, size_t *length_p);
/**
 * Prints what record_save() has made, in OpenMetrics format with timestamps. Each series gets a
 * label node, as in the collector's /metrics. -EPROTO: the data is damaged or of another version.
 */
int record_print(const uint8_t *data, size_t length, const char *node, FILE *out);

#endif

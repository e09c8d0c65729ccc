/*
 * Samples of one series, packed: about 120 samples in one row of the history.
 *
 * Times are stored as changes of their distance (delta of delta). Each column of values uses the
 * shortest of three encodings: whole numbers of a decimal unit by their distance, the same by the
 * change of the distance, or XOR with the previous value, as in Facebook's Gorilla. All encodings
 * are lossless.
 */
#ifndef UDMON_CHUNK_H
#define UDMON_CHUNK_H

#include <stddef.h>
#include <stdint.h>

enum {
    CHUNK_SAMPLES = 120,
    CHUNK_COLUMNS = 3,
    /* Bytes that the largest chunk needs: 9 bytes for each number, 11 for a value. */
    CHUNK_BYTES = 32 + (CHUNK_SAMPLES * (9 + (CHUNK_COLUMNS * 11)))
};

struct chunk {
    unsigned count, columns;
    int64_t times[CHUNK_SAMPLES]; /* ms since 1970 */
    double values[CHUNK_COLUMNS][CHUNK_SAMPLES];
};

/** Returns the length. */
size_t chunk_encode(const struct chunk *chunk, uint8_t bytes[CHUNK_BYTES]);
/** -EPROTO: these bytes are no chunk. */
int chunk_decode(const uint8_t *bytes, size_t length, struct chunk *chunk);

/** Sort by time; of samples of one time the last stays. */
void chunk_sort(struct chunk *chunk);

#endif

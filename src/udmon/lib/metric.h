/*
 * What agents send to collectors: one libudmon record for each sample. Name and labels are written
 * as Prometheus does, without the suffix "_total" of counters: cpu_seconds{cpu="0",mode="user"}.
 */
#ifndef UDMON_METRIC_H
#define UDMON_METRIC_H

#include "../include/udmon_module.h"

#include <stddef.h>
#include <stdint.h>

enum { UDMON_METRIC_COUNTER = 1 << 0 };

/* On the wire, little-endian; the name follows. */
typedef struct udmon_metric_header {
    uint8_t version;
    uint8_t flags;
    uint16_t name_length;
    uint32_t zero;
    uint64_t time_ns; /* since 1970 */
    uint64_t value;   /* the bits of an IEEE double */
} __attribute__((packed)) udmon_metric_header_t;

enum { UDMON_METRIC_VERSION = 1, UDMON_METRIC_RECORD_MAX = 24 + UDMON_METRIC_NAME_MAX };

/* Returns the length, or -EINVAL for a name that is none. */
int udmon_metric_encode(const udmon_metric_t *metric, uint8_t record[UDMON_METRIC_RECORD_MAX]);

/* `name` is where the name is put. -EPROTO: no sample. */
int udmon_metric_decode(const void *record, size_t length, udmon_metric_t *metric,
                        char name[UDMON_METRIC_NAME_MAX + 1]);

/* Whether it is NAME or NAME{LABEL="VALUE",...} and not too long. */
int udmon_metric_name_valid(const char *name);

#endif

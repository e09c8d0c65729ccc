/*
 * Samples between agents, collectors and upper collectors: a libudmon record for each sample, and
 * for each description of a family. Name and labels are written as in Prometheus, without the
 * suffix "_total" of counters: cpu_seconds{cpu="0",mode="user"}.
 */
#ifndef UDMON_METRIC_H
#define UDMON_METRIC_H

#include "../include/udmon.h"
#include "../include/udmon_module.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    UDMON_METRIC_COUNTER = 1 << 0,
    /* Of relays: */
    UDMON_METRIC_LATE = 1 << 1,  /* a newer sample of the series may have been sent before */
    UDMON_METRIC_STATE = 1 << 2, /* no sample but the state of a node: the name of the series is
                                  * empty, `value` an integer: samples lost before the relay */
    UDMON_METRIC_UP = 1 << 3,    /* with STATE: an agent of the node is connected */
    UDMON_METRIC_FAMILY = 1 << 4 /* no sample but the description of a family, with COUNTER if its
                                  * samples have it: `value` is the type, and the unit, a newline
                                  * and the help follow the name */
};

/* On the wire, little-endian; the name follows, and in records of a relay that of the node. */
struct udmon_metric_header {
    uint8_t version;
    uint8_t flags;
    uint16_t name_length;
    uint8_t node_length; /* of version 2, else 0 */
    uint8_t zero[3];
    uint64_t time_ns; /* since 1970 */
    uint64_t value;   /* the bits of an IEEE double */
} __attribute__((packed));

enum {
    UDMON_METRIC_VERSION = 1,
    UDMON_METRIC_RECORD_MAX = 24 + UDMON_METRIC_NAME_MAX,
    UDMON_RELAYED_VERSION = 2,
    UDMON_RELAYED_RECORD_MAX = UDMON_METRIC_RECORD_MAX + UDMON_NAME_MAX
};

/* A record of a relay. */
struct udmon_relayed {
    char node[UDMON_NAME_MAX + 1];
    int is_state;
    /* A sample: */
    struct udmon_metric metric;
    int late;
    /* A state: */
    int up;
    uint64_t lost;
};

/** Returns the length, or -EINVAL for an invalid name. */
int udmon_metric_encode(const struct udmon_metric *metric, uint8_t record[UDMON_METRIC_RECORD_MAX]);

/** `name` is where the name is put. -EPROTO: no sample. */
int udmon_metric_decode(const void *record, size_t length, struct udmon_metric *metric,
                        char name[UDMON_METRIC_NAME_MAX + 1]);

/** Encode and decode the record of a relay. */
int udmon_relayed_encode(const struct udmon_relayed *relayed,
                         uint8_t record[UDMON_RELAYED_RECORD_MAX]);
int udmon_relayed_decode(const void *record, size_t length, struct udmon_relayed *relayed,
                         char name[UDMON_METRIC_NAME_MAX + 1]);

/* A description of a family with room for its texts. */
struct udmon_family_text {
    struct udmon_family family;
    char name[UDMON_FAMILY_NAME_MAX + 1];
    char unit[UDMON_UNIT_MAX + 1];
    char help[UDMON_HELP_MAX + 1];
};

/** Copies a description. An invalid help or unit is left out. -EINVAL: the name is invalid. */
int udmon_family_copy(const struct udmon_family *family, struct udmon_family_text *copy);
/** Whether two descriptions are equal. */
bool udmon_family_equal(const struct udmon_family *a, const struct udmon_family *b);

/** Whether the record is the description of a family. */
bool udmon_record_is_family(const void *record, size_t length);
/** `node`: of a relay's record, else NULL. Returns the length, or -EINVAL. */
int udmon_family_encode(const struct udmon_family *family, const char *node,
                        uint8_t record[UDMON_RELAYED_RECORD_MAX]);
/** `node`: where the node's name of a relay's record is put, else NULL. -EPROTO: no description. */
int udmon_family_decode(const void *record, size_t length, struct udmon_family_text *family,
                        char node[UDMON_NAME_MAX + 1]);

/**
 * Names of nodes appear in logs, web pages and file names. Returns whether the character is
 * allowed.
 */
bool udmon_node_name_char(char c);

/** Whether it is NAME or NAME{LABEL="VALUE",...} and not too long. */
bool udmon_metric_name_valid(const char *name);

/* A label; its parts lie in the series' name, and no zero ends them. */
struct udmon_label {
    const char *name, *value;
    size_t name_length, value_length;
};

/**
 * Finds the next label of a valid name; 0 after the last label. At the first call *at_p points to
 * the beginning of the labels ('{', or the end of a name without labels). Later it points before
 * the next label.
 */
bool udmon_label_next(const char **at_p, struct udmon_label *label);
/**
 * The value without escapes, and a text with escapes; cut at the end of a character if `size` is too
 * small. Return the length.
 */
size_t udmon_label_value(const struct udmon_label *label, char *text, size_t size);
size_t udmon_label_quote(const char *value, char *text, size_t size);
bool udmon_label_is(const struct udmon_label *label, const char *name);
/**
 * The prefix that the collector writes before the name of a label. The collector adds a label "node".
 * A label "node" of the series becomes "exported_node", and "exported_node" becomes
 * "exported_exported_node".
 */
const char *udmon_label_prefix(const struct udmon_label *label);

#endif

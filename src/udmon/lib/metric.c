#include "metric.h"

#include <ctype.h>
#include <endian.h>
#include <errno.h>
#include <string.h>

/* An identifier at `at`; returns what follows it, or NULL. */
static const char *metric_identifier(const char *at)
{
    if (!isalpha((unsigned char)*at) && (*at != '_')) {
        return NULL;
    }
    while (isalnum((unsigned char)*at) || (*at == '_')) {
        ++at;
    }
    return at;
}

/* Whether a label that ends before `end` has a name that may not be: reserved, or there before. */
static int metric_label_bad(const char *labels, const char *label, const char *end)
{
    size_t length = end - label;
    const char *at = labels;

    if ((length >= 2) && !strncmp(label, "__", 2)) {
        return 1; /* of Prometheus itself: __name__ would name the series */
    }
    while (at < label) {
        if (!strncmp(at, label, length) && (at[length] == '=')) {
            return 1;
        }
        at = strchr(strchr(at, '"') + 1, '"') + 2; /* behind the value and a comma */
    }
    return 0;
}

/* A quoted label value without anything that would need an escape. */
static const char *metric_value(const char *at)
{
    if (*at++ != '"') {
        return NULL;
    }
    while (*at != '"') {
        if ((*at == '\0') || (*at == '\\') || iscntrl((unsigned char)*at) ||
            ((unsigned char)*at > '~')) {
            return NULL;
        }
        ++at;
    }
    return at + 1;
}

int udmon_metric_name_valid(const char *name)
{
    const char *at = (strlen(name) <= UDMON_METRIC_NAME_MAX) ? metric_identifier(name) : NULL;
    const char *labels, *label;

    if ((at == NULL) || (*at == '\0')) {
        return at != NULL;
    }
    if (*at != '{') {
        return 0;
    }
    labels = at + 1;
    do {
        label = at + 1;
        at = metric_identifier(label);
        at = ((at != NULL) && (*at == '=') && !metric_label_bad(labels, label, at)) ?
                 metric_value(at + 1) : NULL;
    } while ((at != NULL) && (*at == ','));
    return (at != NULL) && !strcmp(at, "}");
}

int udmon_metric_encode(const udmon_metric_t *metric, uint8_t record[UDMON_METRIC_RECORD_MAX])
{
    udmon_metric_header_t header = {.version = UDMON_METRIC_VERSION};
    size_t length = strlen(metric->name);
    uint64_t bits;

    if (!udmon_metric_name_valid(metric->name)) {
        return -EINVAL;
    }
    memcpy(&bits, &metric->value, sizeof(bits));
    header.flags = metric->counter ? UDMON_METRIC_COUNTER : 0;
    header.name_length = htole16(length);
    header.time_ns = htole64(metric->time_ns);
    header.value = htole64(bits);
    memcpy(record, &header, sizeof(header));
    memcpy(record + sizeof(header), metric->name, length);
    return sizeof(header) + length;
}

int udmon_metric_decode(const void *record, size_t length, udmon_metric_t *metric,
                        char name[UDMON_METRIC_NAME_MAX + 1])
{
    udmon_metric_header_t header;
    size_t name_length;
    uint64_t bits;

    if (length < sizeof(header)) {
        return -EPROTO;
    }
    memcpy(&header, record, sizeof(header));
    name_length = le16toh(header.name_length);
    if ((header.version != UDMON_METRIC_VERSION) || (name_length > UDMON_METRIC_NAME_MAX) ||
        (length != (sizeof(header) + name_length))) {
        return -EPROTO;
    }
    memcpy(name, (const uint8_t *)record + sizeof(header), name_length);
    name[name_length] = '\0';
    if ((strlen(name) != name_length) || !udmon_metric_name_valid(name)) {
        return -EPROTO;
    }
    bits = le64toh(header.value);
    memcpy(&metric->value, &bits, sizeof(bits));
    metric->time_ns = le64toh(header.time_ns);
    metric->clock_ns = 0; /* clocks of two hosts have nothing to do with each other */
    metric->counter = !!(header.flags & UDMON_METRIC_COUNTER);
    metric->name = name;
    return 0;
}

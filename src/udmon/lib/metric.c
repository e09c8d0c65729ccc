#include "metric.h"

#include <stdbool.h>
#include <ctype.h>
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/*
 * Reads an identifier at `at`; returns the following byte, or NULL. Only names of metrics may have
 * ':'.
 */
static const char *metric_identifier(const char *at, int metric)
{
    if (isdigit((unsigned char)*at)) {
        return NULL;
    }
    while ((isascii((unsigned char)*at) && isalnum((unsigned char)*at)) || (*at == '_') ||
           (metric && (*at == ':'))) {
        ++at;
    }
    return at;
}

/* Returns the length of the UTF-8 character at `at`, or 0 for invalid bytes. */
static size_t metric_character(const unsigned char *at)
{
    size_t i, length = (at[0] < 0x80)                  ? 1 :
                       (at[0] >= 0xc2 && at[0] < 0xe0) ? 2 :
                       (at[0] >= 0xe0 && at[0] < 0xf0) ? 3 :
                       (at[0] >= 0xf0 && at[0] < 0xf5) ? 4 :
                                                         0;

    for (i = 1; i < length; ++i) {
        if ((at[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    if (((at[0] == 0xe0) && (at[1] < 0xa0)) || ((at[0] == 0xed) && (at[1] > 0x9f)) ||
        ((at[0] == 0xf0) && (at[1] < 0x90)) || ((at[0] == 0xf4) && (at[1] > 0x8f))) {
        return 0; /* longer than it needs to be, a surrogate, or beyond Unicode */
    }
    return length;
}

/* Whether the name of a label before `end` is invalid: reserved, or already used. */
static bool metric_label_bad(const char *labels, const char *label, const char *end)
{
    size_t length = end - label;
    const char *at = labels;
    struct udmon_label other;

    if ((length >= 2) && !strncmp(label, "__", 2)) {
        return true; /* of Prometheus itself: __name__ would name the series */
    }
    while (((at + 1) < label) && udmon_label_next(&at, &other)) {
        if ((other.name_length == length) && !strncmp(other.name, label, length)) {
            return true;
        }
    }
    return false;
}

/*
 * A quoted label value: UTF-8 with the escapes \\, \" and \n, as in Prometheus' text format.
 * Control characters except tab are refused, because names appear in logs and terminals.
 */
static const char *metric_value(const char *at)
{
    size_t length;

    if (*at++ != '"') {
        return NULL;
    }
    while (*at != '"') {
        if (*at == '\\') {
            ++at;
            length = ((*at == '\\') || (*at == '"') || (*at == 'n')) ? 1 : 0;
        } else {
            length = (((unsigned char)*at >= ' ') && (*at != 0x7f)) || (*at == '\t') ?
                         metric_character((const unsigned char *)at) :
                         0;
        }
        if (length == 0) {
            return NULL;
        }
        at += length;
    }
    return at + 1;
}

size_t udmon_label_value(const struct udmon_label *label, char *text, size_t size)
{
    const char *at = label->value, *end = at + label->value_length;
    size_t length, used = 0;
    bool escaped;

    while (at < end) {
        escaped = (*at == '\\') && (at + 1 < end);
        at += escaped;
        length = metric_character((const unsigned char *)at);
        length = (length > 0) ? length : 1;
        if (used + length >= size) {
            break;
        }
        memcpy(text + used, at, length);
        if (escaped && (*at == 'n')) {
            text[used] = '\n';
        }
        used += length;
        at += length;
    }
    text[used] = '\0';
    return used;
}

size_t udmon_label_quote(const char *value, char *text, size_t size)
{
    const unsigned char *at = (const unsigned char *)value;
    size_t length, used = 0;

    while ((*at != '\0') && (used + 5 < size)) {
        length = metric_character(at);
        if ((*at == '\\') || (*at == '"') || (*at == '\n')) {
            text[used++] = '\\';
            text[used++] = (*at == '\n') ? 'n' : (char)*at;
            ++at;
        } else if ((length == 0) || ((*at < ' ') && (*at != '\t')) || (*at == 0x7f)) {
            text[used++] = '_';
            ++at;
        } else {
            memcpy(text + used, at, length);
            used += length;
            at += length;
        }
    }
    text[used] = '\0';
    return used;
}

bool udmon_metric_name_valid(const char *name)
{
    const char *at = (strlen(name) <= UDMON_METRIC_NAME_MAX) ? metric_identifier(name, 1) : NULL;
    const char *labels, *label;

    if ((at == NULL) || (at == name) || (*at == '\0')) {
        return (at != NULL) && (at != name);
    }
    if (*at != '{') {
        return false;
    }
    labels = at;
    do {
        label = at + 1;
        at = metric_identifier(label, 0);
        at = ((at != NULL) && (at != label) && (*at == '=') &&
              !metric_label_bad(labels, label, at)) ?
                 metric_value(at + 1) :
                 NULL;
    } while ((at != NULL) && (*at == ','));
    return (at != NULL) && !strcmp(at, "}");
}

bool udmon_label_next(const char **at_p, struct udmon_label *label)
{
    const char *at = *at_p, *end;

    if ((*at != '{') && (*at != ',')) {
        return false;
    }
    label->name = at + 1;
    label->name_length = strcspn(label->name, "=");
    label->value = label->name + label->name_length + 2;
    for (end = label->value; *end != '"'; ++end) {
        end += (*end == '\\');
    }
    label->value_length = end - label->value;
    *at_p = label->value + label->value_length + 1;
    return true;
}

bool udmon_label_is(const struct udmon_label *label, const char *name)
{
    return (label->name_length == strlen(name)) && !strncmp(label->name, name, label->name_length);
}

const char *udmon_label_prefix(const struct udmon_label *label)
{
    static const char prefix[] = "exported_";
    struct udmon_label rest = *label;

    while (!strncmp(rest.name, prefix, strlen(prefix))) {
        rest.name += strlen(prefix);
        rest.name_length -= strlen(prefix);
    }
    return udmon_label_is(&rest, "node") ? prefix : "";
}

bool udmon_node_name_char(char c)
{
    return (c > ' ') && (c <= '~') && (strchr("\"'<>&\\/", c) == NULL);
}

/* Write header, name and node; returns the length. */
static int metric_write(const struct udmon_metric_header *fields, uint64_t time_ns, uint64_t value,
                        const char *name, const char *node, uint8_t *record)
{
    struct udmon_metric_header header = *fields;
    size_t length = strlen(name), node_length = strlen(node);

    header.name_length = htole16(length);
    header.node_length = node_length;
    header.time_ns = htole64(time_ns);
    header.value = htole64(value);
    memcpy(record, &header, sizeof(header));
    memcpy(record + sizeof(header), name, length);
    memcpy(record + sizeof(header) + length, node, node_length);
    return sizeof(header) + length + node_length;
}

static uint64_t metric_bits(double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

int udmon_metric_encode(const struct udmon_metric *metric, uint8_t record[UDMON_METRIC_RECORD_MAX])
{
    struct udmon_metric_header header = {.version = UDMON_METRIC_VERSION};

    if (!udmon_metric_name_valid(metric->name)) {
        return -EINVAL;
    }
    header.flags = metric->counter ? UDMON_METRIC_COUNTER : 0;
    return metric_write(&header, metric->time_ns, metric_bits(metric->value), metric->name, "",
                        record);
}

int udmon_relayed_encode(const struct udmon_relayed *relayed,
                         uint8_t record[UDMON_RELAYED_RECORD_MAX])
{
    struct udmon_metric_header header = {.version = UDMON_RELAYED_VERSION};
    const struct udmon_metric *metric = &relayed->metric;

    if (relayed->is_state) {
        header.flags = UDMON_METRIC_STATE | (relayed->up ? UDMON_METRIC_UP : 0);
        return metric_write(&header, 0, relayed->lost, "", relayed->node, record);
    }
    if (!udmon_metric_name_valid(metric->name)) {
        return -EINVAL;
    }
    header.flags =
        (metric->counter ? UDMON_METRIC_COUNTER : 0) | (relayed->late ? UDMON_METRIC_LATE : 0);
    return metric_write(&header, metric->time_ns, metric_bits(metric->value), metric->name,
                        relayed->node, record);
}

/* Reads header and name of a record of the version. Returns the length of the rest, or -EPROTO. */
static int metric_read_text(const void *record, size_t length, unsigned version,
                            struct udmon_metric_header *header,
                            char name[UDMON_METRIC_NAME_MAX + 1])
{
    size_t name_length, used;

    if (length < sizeof(*header)) {
        return -EPROTO;
    }
    memcpy(header, record, sizeof(*header));
    name_length = le16toh(header->name_length);
    used = sizeof(*header) + name_length + header->node_length;
    if ((header->version != version) || (name_length > UDMON_METRIC_NAME_MAX) || (length < used)) {
        return -EPROTO;
    }
    memcpy(name, (const uint8_t *)record + sizeof(*header), name_length);
    name[name_length] = '\0';
    return (strlen(name) == name_length) ? (int)(length - used) : -EPROTO;
}

/* Reads a record without further text. */
static int metric_read(const void *record, size_t length, unsigned version,
                       struct udmon_metric_header *header, char name[UDMON_METRIC_NAME_MAX + 1])
{
    return (metric_read_text(record, length, version, header, name) == 0) ? 0 : -EPROTO;
}

/* Reads the node's name at the end of a relay's record. */
static int metric_node(const void *record, size_t length, const struct udmon_metric_header *header,
                       char node[UDMON_NAME_MAX + 1])
{
    size_t i;

    if ((header->node_length == 0) || (header->node_length > UDMON_NAME_MAX)) {
        return -EPROTO;
    }
    memcpy(node, (const uint8_t *)record + length - header->node_length, header->node_length);
    node[header->node_length] = '\0';
    for (i = 0; i < header->node_length; ++i) {
        if (!udmon_node_name_char(node[i])) {
            return -EPROTO;
        }
    }
    return 0;
}

static int metric_sample(const struct udmon_metric_header *header, const char *name,
                         struct udmon_metric *metric)
{
    uint64_t bits = le64toh(header->value);

    if (!udmon_metric_name_valid(name)) {
        return -EPROTO;
    }
    memcpy(&metric->value, &bits, sizeof(bits));
    metric->time_ns = le64toh(header->time_ns);
    metric->family = NULL;
    metric->clock_ns = 0; /* clocks of two hosts have nothing to do with each other */
    metric->counter = !!(header->flags & UDMON_METRIC_COUNTER);
    metric->name = name;
    return 0;
}

int udmon_metric_decode(const void *record, size_t length, struct udmon_metric *metric,
                        char name[UDMON_METRIC_NAME_MAX + 1])
{
    struct udmon_metric_header header;
    int ret = metric_read(record, length, UDMON_METRIC_VERSION, &header, name);

    return ((ret == 0) && (header.node_length == 0)) ? metric_sample(&header, name, metric) :
                                                       -EPROTO;
}

int udmon_relayed_decode(const void *record, size_t length, struct udmon_relayed *relayed,
                         char name[UDMON_METRIC_NAME_MAX + 1])
{
    struct udmon_metric_header header;

    memset(relayed, 0, sizeof(*relayed));
    if ((metric_read(record, length, UDMON_RELAYED_VERSION, &header, name) < 0) ||
        (metric_node(record, length, &header, relayed->node) < 0)) {
        return -EPROTO;
    }
    relayed->is_state = !!(header.flags & UDMON_METRIC_STATE);
    if (!relayed->is_state) {
        relayed->late = !!(header.flags & UDMON_METRIC_LATE);
        return metric_sample(&header, name, &relayed->metric);
    }
    relayed->up = !!(header.flags & UDMON_METRIC_UP);
    relayed->lost = le64toh(header.value);
    return (name[0] == '\0') ? 0 : -EPROTO;
}

static bool family_unit_valid(const char *unit)
{
    const char *at = unit;

    while ((isascii((unsigned char)*at) && isalnum((unsigned char)*at)) || (*at == '_')) {
        ++at;
    }
    return (*at == '\0') && ((at - unit) <= UDMON_UNIT_MAX);
}

static bool family_help_valid(const char *help)
{
    const unsigned char *at;
    size_t length;

    if (strlen(help) > UDMON_HELP_MAX) {
        return false;
    }
    for (at = (const unsigned char *)help; *at != '\0'; at += length) {
        length = (((*at >= ' ') && (*at != 0x7f)) || (*at == '\t') || (*at == '\n')) ?
                     metric_character(at) :
                     0;
        if (length == 0) {
            return false;
        }
    }
    return true;
}

int udmon_family_copy(const struct udmon_family *family, struct udmon_family_text *copy)
{
    size_t length = strlen(family->name);

    if ((length > UDMON_FAMILY_NAME_MAX) || (strchr(family->name, '{') != NULL) ||
        !udmon_metric_name_valid(family->name)) {
        return -EINVAL;
    }
    memcpy(copy->name, family->name, length + 1);
    strcpy(copy->unit, family_unit_valid(family->unit) ? family->unit : "");
    strcpy(copy->help, family_help_valid(family->help) ? family->help : "");
    copy->family = (struct udmon_family){
        .name = copy->name,
        .counter = family->counter,
        .type = family->counter ? UDMON_TYPE_COUNTER : family->type,
        .unit = copy->unit,
        .help = copy->help,
    };
    return 0;
}

bool udmon_family_equal(const struct udmon_family *a, const struct udmon_family *b)
{
    return (a->counter == b->counter) && (a->type == b->type) && !strcmp(a->name, b->name) &&
           !strcmp(a->unit, b->unit) && !strcmp(a->help, b->help);
}

bool udmon_record_is_family(const void *record, size_t length)
{
    struct udmon_metric_header header;

    if (length < sizeof(header)) {
        return false;
    }
    memcpy(&header, record, sizeof(header));
    return header.flags & UDMON_METRIC_FAMILY;
}

int udmon_family_encode(const struct udmon_family *family, const char *node,
                        uint8_t record[UDMON_RELAYED_RECORD_MAX])
{
    struct udmon_metric_header header = {.version = (node != NULL) ? UDMON_RELAYED_VERSION :
                                                                     UDMON_METRIC_VERSION};
    struct udmon_family_text copy;
    size_t length, node_length;
    int ret;

    ret = udmon_family_copy(family, &copy);
    if (ret < 0) {
        return ret;
    }
    header.flags = UDMON_METRIC_FAMILY | (copy.family.counter ? UDMON_METRIC_COUNTER : 0);
    length = metric_write(&header, 0, copy.family.type, copy.name, "", record);
    length += sprintf((char *)record + length, "%s\n%s", copy.unit, copy.help);
    if (node != NULL) {
        node_length = strlen(node);
        memcpy(record + length, node, node_length);
        ((struct udmon_metric_header *)record)->node_length = node_length;
        length += node_length;
    }
    return (int)length;
}

int udmon_family_decode(const void *record, size_t length, struct udmon_family_text *family,
                        char node[UDMON_NAME_MAX + 1])
{
    char name[UDMON_METRIC_NAME_MAX + 1], text[UDMON_UNIT_MAX + UDMON_HELP_MAX + 2], *help;
    struct udmon_metric_header header;
    int text_length;

    text_length = metric_read_text(record, length,
                                   (node != NULL) ? UDMON_RELAYED_VERSION : UDMON_METRIC_VERSION,
                                   &header, name);
    if ((text_length < 0) || (text_length >= (int)sizeof(text)) ||
        ((node != NULL) ? (metric_node(record, length, &header, node) < 0) :
                          (header.node_length != 0)) ||
        (le64toh(header.value) >= UDMON_TYPES)) {
        return -EPROTO;
    }
    memcpy(text, (const uint8_t *)record + sizeof(header) + strlen(name), text_length);
    text[text_length] = '\0';
    help = strchr(text, '\n');
    if ((help == NULL) || ((int)strlen(text) != text_length)) {
        return -EPROTO;
    }
    *help++ = '\0';
    return (udmon_family_copy(
                &(struct udmon_family){.name = name,
                                       .counter = !!(header.flags & UDMON_METRIC_COUNTER),
                                       .type = (int)le64toh(header.value),
                                       .unit = text,
                                       .help = help},
                family) == 0) ?
               0 :
               -EPROTO;
}

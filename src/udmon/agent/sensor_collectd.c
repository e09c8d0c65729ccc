/*
 * Receives the datagrams of collectd's plugin "network" on a port of this host, so metrics of all
 * collectd plugins are available. Datagrams wait in the socket until the next tick. The port is on
 * loopback only, because the sender is not authenticated.
 *
 * A datagram is a sequence of parts: type (2 bytes), length including this header (2), contents.
 * Strings and times stay valid until the next part of their type. The part "values" produces
 * samples. Names are those of collectd's write_prometheus:
 * collectd_PLUGIN_TYPE_SOURCE{PLUGIN="instance",type="..."}.
 */
#include "node.h"
#include "samples.h"
#include "types.h"
#include "../lib/base/auth.h"
#include "../lib/base/log.h"
#include "../lib/net/address.h"
#include "common/fnv.h"

#include <ctype.h>
#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    PART_TIME = 1,
    PART_PLUGIN = 2,
    PART_PLUGIN_INSTANCE = 3,
    PART_TYPE = 4,
    PART_TYPE_INSTANCE = 5,
    PART_VALUES = 6,
    PART_TIME_HIGH = 8, /* in units of 2^-30 s */
    PART_HEADER = 4,

    VALUE_COUNTER = 0,
    VALUE_GAUGE = 1,
    VALUE_DERIVE = 2,
    VALUE_ABSOLUTE = 3,

    STRING_MAX = 64,
    DATAGRAM_MAX = 65536,
    DATAGRAMS_MAX = 1000, /* in one tick: the others wait for the next */
    SOCKET_BYTES = 4 << 20,
    SERIES_DEFAULT = 5000,
    SERIES_MOST = 20000 /* a collector takes no more of a host */
};
#define SERIES_FORGET_NS UINT64_C(3600000000000) /* as the collector does */
#define SERIES_SWEEP_NS  UINT64_C(60000000000)

/* A series that has come in the last hour. */
struct known {
    uint64_t hash, seen_ns; /* seen_ns 0: free */
};

/*
 * Any user of the host may send to the socket. Without a limit a user could fill the collector's
 * room for the host, and new series of other sensors would be discarded.
 */
struct known_table {
    struct known *entries; /* an open table, twice as large as the limit */
    size_t count, limit;
    uint64_t seed; /* so that a sender cannot choose names with equal hashes */
    uint64_t swept_ns;
};

struct collectd {
    struct known_table known;
    int fd;
    char *types; /* contents of types.db, or NULL */
    struct udmon_log_limit wrong;
};

/* The values of the parts of a datagram so far. */
struct value_list {
    char plugin[STRING_MAX], plugin_instance[2 * STRING_MAX], type[STRING_MAX],
        type_instance[2 * STRING_MAX];
    char
        plugin_was[2 * STRING_MAX]; /* the plug-in's own name, if it cannot be part of a metric's */
    uint64_t time_ns;
};

static const char *const collectd_options[] = {"listen", "types", "series", NULL};

static struct known *known_place(const struct known_table *table, uint64_t hash)
{
    size_t size = 2 * table->limit, at = hash % size;

    while ((table->entries[at].seen_ns != 0) && (table->entries[at].hash != hash)) {
        at = (at + 1) % size;
    }
    return &table->entries[at];
}

/* Forgets the series that have not come for an hour. */
static void known_sweep(struct known_table *table, uint64_t now_ns)
{
    struct known *old = table->entries;
    size_t i;

    table->entries = calloc(2 * table->limit, sizeof(*old));
    if (table->entries == NULL) {
        table->entries = old; /* at the next sweep */
        return;
    }
    table->count = 0;
    for (i = 0; i < (2 * table->limit); ++i) {
        if ((old[i].seen_ns != 0) && ((now_ns - old[i].seen_ns) < SERIES_FORGET_NS)) {
            *known_place(table, old[i].hash) = old[i];
            ++table->count;
        }
    }
    free(old);
}

/* Whether a series may be sent: the series is known, or there is room for one more. */
static bool known_enter(struct known_table *table, const char *name, int counter)
{
    uint64_t now_ns = udmon_now_ns();
    uint64_t hash = fnv1a(table->seed + counter, name, strlen(name));
    struct known *known;

    if ((table->count == table->limit) && ((now_ns - table->swept_ns) > SERIES_SWEEP_NS)) {
        table->swept_ns = now_ns;
        known_sweep(table, now_ns);
    }
    known = known_place(table, hash);
    if (known->seen_ns == 0) {
        if (table->count == table->limit) {
            return false;
        }
        ++table->count;
    }
    known->hash = hash;
    known->seen_ns = now_ns;
    return true;
}

static int known_open(struct udmon_node *node, struct known_table *table)
{
    double limit;
    int ret = udmon_node_number(node, "series", SERIES_DEFAULT, 1, SERIES_MOST, &limit);

    ret = (ret == 0) ? udmon_random(&table->seed, sizeof(table->seed)) : ret;
    if (ret < 0) {
        return ret;
    }
    table->limit = (size_t)limit;
    table->entries = calloc(2 * table->limit, sizeof(*table->entries));
    return (table->entries != NULL) ? 0 : -ENOMEM;
}

/*
 * Copies a part's string, which must end with a zero. Characters that names may not have become
 * '_'.
 */
static int part_string(const unsigned char *bytes, size_t length, int is_name, char *out)
{
    size_t i, size = is_name ? STRING_MAX : (2 * STRING_MAX);

    if ((length == 0) || (bytes[length - 1] != '\0')) {
        return -EINVAL;
    }
    samples_label(out, size, (const char *)bytes);
    for (i = 0; is_name && (out[i] != '\0'); ++i) {
        out[i] = isalnum((unsigned char)out[i]) ? out[i] : '_';
    }
    return 0;
}

static uint64_t part_number(const unsigned char *bytes)
{
    uint64_t number;

    memcpy(&number, bytes, sizeof(number));
    return be64toh(number);
}

/*
 * The name of a type's data source in types.db: "if_octets  rx:DERIVE:0:U, tx:DERIVE:0:U". Without
 * it, sources have numbers. "value", which most types have alone, is left out.
 */
static void source_name(const char *types, const char *type, unsigned index, unsigned count,
                        char *name, size_t size)
{
    const char *line = types, *at;
    size_t length = strlen(type);

    name[0] = '\0';
    if (count > 1) {
        snprintf(name, size, "_%u", index);
    }
    while ((line != NULL) &&
           (strncmp(line, type, length) || !isblank((unsigned char)line[length]))) {
        line = strchr(line, '\n');
        line += (line != NULL);
    }
    if (line == NULL) {
        return;
    }
    at = line + length;
    while (1) {
        at += strspn(at, " \t,");
        if (index-- == 0) {
            break;
        }
        at += strcspn(at, ",\n");
        if (*at != ',') {
            return; /* fewer sources than came */
        }
    }
    length = strcspn(at, ":\n");
    if ((at[length] == ':') && (length < STRING_MAX)) {
        snprintf(name, size, "_%.*s", (int)length, at);
        if (!strcmp(name, "_value")) {
            name[0] = '\0';
        }
    }
}

/* A value of a kind; false if it is no sample: an "absolute" counts since the last one. */
static bool value_read(int kind, const unsigned char *bytes, double *value_p)
{
    uint64_t number = part_number(bytes);

    switch (kind) {
    case VALUE_COUNTER:
        *value_p = number;
        return true;
    case VALUE_DERIVE:
        *value_p = (int64_t)number;
        return true;
    case VALUE_GAUGE: /* this one alone is little-endian */
        number = le64toh(be64toh(number));
        memcpy(value_p, &number, sizeof(number));
        return true;
    default:
        return false;
    }
}

static void value_add(struct collectd *collectd, struct samples *samples,
                      const struct value_list *list, const unsigned char *kinds, unsigned index,
                      unsigned count)
{
    char source[STRING_MAX + 2], labels[600] = "", name[UDMON_METRIC_NAME_MAX + 1];
    int same = !strcmp(list->plugin, list->type), used = 0;
    double value;

    if (!value_read(kinds[index], kinds + count + (8 * index), &value)) {
        return;
    }
    source_name(collectd->types, list->type, index, count, source, sizeof(source));
    if (list->plugin_instance[0] != '\0') {
        used = snprintf(labels, sizeof(labels), "%s=\"%s\"", list->plugin, list->plugin_instance);
    }
    if (list->type_instance[0] != '\0') {
        used += snprintf(labels + used, sizeof(labels) - used, "%stype=\"%s\"",
                         (used > 0) ? "," : "", list->type_instance);
    }
    if (strcmp(list->plugin, list->plugin_was)) { /* my-plug and my_plug are two */
        snprintf(labels + used, sizeof(labels) - used, "%splugin=\"%s\"", (used > 0) ? "," : "",
                 list->plugin_was);
    }
    snprintf(name, sizeof(name), "collectd_%s%s%s%s%s%s%s", list->plugin, same ? "" : "_",
             same ? "" : list->type, source, (labels[0] != '\0') ? "{" : "", labels,
             (labels[0] != '\0') ? "}" : "");
    if (!known_enter(&collectd->known, name, kinds[index] != VALUE_GAUGE)) {
        node_refuse(samples->node, REFUSED_SERIES, name);
        return;
    }
    samples_add(samples, kinds[index] != VALUE_GAUGE, value, "%s", name);
}

static int part_values(struct collectd *collectd, struct samples *samples,
                       const struct value_list *list, const unsigned char *bytes, size_t length)
{
    unsigned i, count = (length >= 2) ? ((bytes[0] << 8) | bytes[1]) : 0;
    uint64_t time_ns = samples->time_ns, clock_ns = samples->clock_ns;

    if ((length != (2 + (9 * (size_t)count))) || (list->plugin[0] == '\0') ||
        (list->type[0] == '\0')) {
        return -EINVAL;
    }
    if (list->time_ns != 0) {
        samples->time_ns = list->time_ns;
        samples->clock_ns = 0; /* only known by the time of day */
    }
    for (i = 0; i < count; ++i) {
        value_add(collectd, samples, list, bytes + 2, i, count);
    }
    samples->time_ns = time_ns;
    samples->clock_ns = clock_ns;
    return 0;
}

static int part_read(struct collectd *collectd, struct samples *samples, struct value_list *list,
                     unsigned type, const unsigned char *bytes, size_t length)
{
    switch (type) {
    case PART_TIME:
    case PART_TIME_HIGH:
        if (length != 8) {
            return -EINVAL;
        }
        list->time_ns = (type == PART_TIME) ? (part_number(bytes) * 1000000000) :
                                              (uint64_t)(part_number(bytes) * (1e9 / (1 << 30)));
        return 0;
    case PART_PLUGIN:
        if ((part_string(bytes, length, 1, list->plugin) < 0) ||
            (part_string(bytes, length, 0, list->plugin_was) < 0)) {
            return -EINVAL;
        }
        return 0;
    case PART_PLUGIN_INSTANCE:
        return part_string(bytes, length, 0, list->plugin_instance);
    case PART_TYPE:
        return part_string(bytes, length, 1, list->type);
    case PART_TYPE_INSTANCE:
        return part_string(bytes, length, 0, list->type_instance);
    case PART_VALUES:
        return part_values(collectd, samples, list, bytes, length);
    default:
        return 0; /* host, interval, notifications, signatures; encrypted parts are ignored */
    }
}

static int datagram_read(struct collectd *collectd, struct samples *samples,
                         const unsigned char *bytes, size_t length)
{
    struct value_list list = {0};
    size_t part;

    for (; length > 0; bytes += part, length -= part) {
        part = (length >= PART_HEADER) ? (size_t)((bytes[2] << 8) | bytes[3]) : 0;
        if ((part < PART_HEADER) || (part > length) ||
            (part_read(collectd, samples, &list, (bytes[0] << 8) | bytes[1], bytes + PART_HEADER,
                       part - PART_HEADER) < 0)) {
            return -EINVAL;
        }
    }
    return 0;
}

static void collectd_tick(struct udmon_node *node, void *state)
{
    static unsigned char bytes[DATAGRAM_MAX];
    struct samples *samples = samples_begin(node);
    struct collectd *collectd = state;
    ssize_t length;
    int i;

    for (i = 0; i < DATAGRAMS_MAX; ++i) {
        length = recv(collectd->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
        if (length < 0) {
            break;
        }
        if (datagram_read(collectd, samples, bytes, length) < 0) {
            udmon_warn_limited(&collectd->wrong,
                               "node %s: a datagram of %zd bytes is not collectd's", node->name,
                               length);
        }
    }
    samples_end(samples);
}

/* A socket that only this host can send to. */
static int collectd_listen(struct udmon_node *node, const char *address, int *fd_p)
{
    const int bytes = SOCKET_BYTES;
    struct udmon_endpoint endpoint;
    int ret;

    ret = udmon_endpoint_parse(address, 1, &endpoint);
    if (ret < 0) {
        return ret;
    }
    if (!udmon_sockaddr_is_loopback(endpoint.hosts->ai_addr)) {
        udmon_endpoint_free(&endpoint);
        udmon_node_error(node, "listen", "%s is no loopback address: nothing proves who sends",
                         address);
        return -EINVAL;
    }
    *fd_p = socket(endpoint.hosts->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ret = ((*fd_p < 0) || (bind(*fd_p, endpoint.hosts->ai_addr, endpoint.hosts->ai_addrlen) < 0)) ?
              -errno :
              0;
    udmon_endpoint_free(&endpoint);
    if (ret < 0) {
        udmon_node_error(node, NULL, "cannot listen on %s: %s", address, strerror(-ret));
        if (*fd_p >= 0) {
            close(*fd_p);
        }
        return ret;
    }
    setsockopt(*fd_p, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes)); /* as much as there may be */
    return 0;
}

/* Without the default file, sources have numbers. A file that an option names must exist. */
static int collectd_types(struct udmon_node *node, char **types_p)
{
    const char *path = udmon_node_option(node, "types");

    *types_p = samples_load((path != NULL) ? path : "/usr/share/collectd/types.db");
    if ((*types_p == NULL) && (path != NULL)) {
        udmon_node_error(node, "types", "cannot read %s: %s", path, strerror(errno));
        return -EINVAL;
    }
    return 0;
}

static void collectd_destroy(void *state)
{
    struct collectd *collectd = state;

    close(collectd->fd);
    free(collectd->known.entries);
    free(collectd->types);
    free(collectd);
}

static int collectd_create(struct udmon_node *node, void **state_p)
{
    const char *address = udmon_node_option(node, "listen");
    struct collectd *collectd = calloc(1, sizeof(*collectd));
    int ret;

    if (collectd == NULL) {
        return -ENOMEM;
    }
    ret = known_open(node, &collectd->known);
    ret = (ret == 0) ? collectd_types(node, &collectd->types) : ret;
    ret = (ret == 0) ? collectd_listen(node, (address != NULL) ? address : "127.0.0.1:25826",
                                       &collectd->fd) :
                       ret;
    if (ret < 0) {
        free(collectd->known.entries);
        free(collectd->types);
        free(collectd);
        return ret;
    }
    *state_p = collectd;
    return 0;
}

const struct udmon_node_type sensor_collectd = {
    .name = "collectd",
    .options = collectd_options,
    .create = collectd_create,
    .destroy = collectd_destroy,
    .tick = collectd_tick,
    .has_output = 1,
};

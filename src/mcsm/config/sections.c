/* The keys of [cluster], [routing], [multicast], [port], [sweep] and [health]. */
#include "parse.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>

static int bad(struct mcsm_parser *parser, const char *name, const char *value,
               const char *expected)
{
    return mcsm_parse_error(parser, parser->line, "%s = %s: expected %s", name, value, expected);
}

static int unknown(struct mcsm_parser *parser, const char *name, const char *section)
{
    return mcsm_parse_error(parser, parser->line, "[%s] has no key \"%s\" (see mcsm.conf(5))",
                            section, name);
}

static int text(struct mcsm_parser *parser, const char *name, const char *value, char *to,
                size_t size)
{
    if (value[0] == '\0' || strlen(value) >= size) {
        return mcsm_parse_error(parser, parser->line, "%s: expected 1 to %zu characters", name,
                                size - 1);
    }
    strcpy(to, value);
    return 1;
}

/* A key with a number: its range; `size` is the size of the field. */
struct number_key {
    const char *name;
    size_t offset;
    uint8_t size;
    uint64_t min, max;
    const char *expected;
};

#define KEY(name, field, min, max, expected)                                                       \
    {name,                                                                                         \
     offsetof(struct mcsm_config, field),                                                          \
     sizeof(((struct mcsm_config *)0)->field),                                                     \
     min,                                                                                          \
     max,                                                                                          \
     expected}

/* 1 or 0 if the table has the key, -1 if it does not. */
static int number(struct mcsm_parser *parser, const struct number_key *keys, size_t count,
                  const char *name, const char *value)
{
    for (size_t i = 0; i < count; i++) {
        const struct number_key *key = &keys[i];
        uint64_t result;

        if (strcmp(key->name, name) != 0) {
            continue;
        }
        if (mcsm_parse_number(value, key->min, key->max, &result) < 0) {
            return bad(parser, name, value, key->expected);
        }

        char *field = (char *)parser->config + key->offset;
        switch (key->size) {
        case 1:
            *(uint8_t *)field = result;
            break;
        case 2:
            *(uint16_t *)field = result;
            break;
        case 4:
            *(uint32_t *)field = result;
            break;
        default:
            *(uint64_t *)field = result;
        }
        return 1;
    }
    return -1;
}

static int is_name(const char *word)
{
    return word[0] != '\0' && strlen(word) <= MCSM_NAME_MAX &&
           strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") ==
               strlen(word);
}

static int cluster_text(struct mcsm_parser *parser, const char *name, const char *value)
{
    struct mcsm_config *config = parser->config;

    if (strcmp(name, "state-dir") == 0) {
        return text(parser, name, value, config->state_dir, sizeof(config->state_dir));
    }
    if (strcmp(name, "socket") == 0) {
        return text(parser, name, value, config->socket, sizeof(config->socket));
    }
    if (strcmp(name, "metrics-file") == 0) {
        return text(parser, name, value, config->metrics_file, sizeof(config->metrics_file));
    }
    if (strcmp(name, "log-file") == 0) {
        return text(parser, name, value, config->log_file, sizeof(config->log_file));
    }
    if (strcmp(name, "on-event") == 0) {
        return text(parser, name, value, config->on_event, sizeof(config->on_event));
    }
    if (strcmp(name, "log-level") == 0) {
        return mcsm_log_parse_level(value, &config->log_level) == 0 ?
                   1 :
                   bad(parser, name, value, "error, warn, info or debug");
    }
    if (strcmp(name, "lid-database") == 0) {
        int line = parser->line;

        if (mcsm_lid_db_read(value, parser->err, &config->db) < 0) {
            return mcsm_parse_error(parser, line, "lid-database = %s cannot be used", value);
        }
        return config->db.count > 0 ? 1 : bad(parser, name, value, "a database with a line in it");
    }
    return unknown(parser, name, "cluster");
}

int mcsm_parse_cluster(struct mcsm_parser *parser, const char *name, const char *value)
{
    static const struct number_key keys[] = {
        KEY("subnet-prefix", subnet_prefix, 1, UINT64_MAX,
            "a 64-bit number such as 0xfe80000000000000"),
        KEY("sm-key", sm_key, 1, UINT64_MAX, "a 64-bit number, not 0"),
        KEY("shown-sm-key", shown_sm_key, 0, UINT64_MAX, "a 64-bit number"),
        KEY("m-key-before", m_key_before, 0, UINT64_MAX, "a 64-bit number"),
        KEY("m-key-lease", m_key_lease, 0, 65535, "seconds, 0 to 65535"),
        KEY("m-key", m_key, 0, UINT64_MAX, "a 64-bit number"),
        KEY("m-key-protect", m_key_bits, 0, 3, "0 to 3"),
        KEY("priority", priority, 0, 15, "0 to 15"),
        KEY("lmc", lmc, 0, 7, "0 to 7"),
        KEY("lid-min", lids.from, 1, MCSM_LID_MAX, "a unicast LID, 1 to 49151"),
        KEY("lid-max", lids.to, 1, MCSM_LID_MAX, "a unicast LID, 1 to 49151"),
    };
    int status = number(parser, keys, sizeof(keys) / sizeof(*keys), name, value);

    if (status >= 0) {
        parser->lids_set |= strncmp(name, "lid-", 4) == 0;
        parser->config->sm_key_given |= strcmp(name, "sm-key") == 0;
        parser->config->m_key_given |= strcmp(name, "m-key") == 0;
        return status;
    }
    if (strcmp(name, "name") == 0) {
        return is_name(value) ?
                   text(parser, name, value, parser->config->name, MCSM_NAME_MAX + 1) :
                   bad(parser, name, value, "1 to 31 letters, digits, dots, dashes or underscores");
    }
    if (strcmp(name, "port-guid") == 0) {
        return mcsm_parse_guid(value, &parser->config->port_guid) == 0 ?
                   1 :
                   bad(parser, name, value, "a port GUID such as 0x0002c90300a1b2c3");
    }
    return cluster_text(parser, name, value);
}

static int parse_roots(struct mcsm_parser *parser, const char *value)
{
    struct mcsm_config *config = parser->config;
    char word[64];
    uint64_t guid, *root;

    while (mcsm_next_word(&value, " ,\t\n", word, sizeof(word))) {
        if (mcsm_parse_guid(word, &guid) < 0) {
            return bad(parser, "roots", word, "GUIDs of switches");
        }
        root = mcsm_grow(parser, (void **)&config->roots, &config->root_count, sizeof(*root));
        if (root == NULL) {
            return 0;
        }
        *root = guid;
    }
    return 1;
}

/* "1 2, 3 4": the ports of the first dimension, then the ports of the second dimension. */
static int parse_dimensions(struct mcsm_parser *parser, const char *value)
{
    struct mcsm_config *config = parser->config;
    char group[128], word[16];
    uint64_t port;

    config->dimension_count = 0;
    while (mcsm_next_word(&value, ",", group, sizeof(group))) {
        const char *rest = group;
        struct mcsm_dimension *dimension = &config->dimensions[config->dimension_count];

        if (config->dimension_count++ == MCSM_MAX_DIMENSIONS) {
            return bad(parser, "dimensions", group, "at most 16 groups of ports");
        }
        while (mcsm_next_word(&rest, " \t\n", word, sizeof(word))) {
            if (mcsm_parse_number(word, 1, 254, &port) < 0 ||
                dimension->count == sizeof(dimension->ports)) {
                return bad(parser, "dimensions", word,
                           "groups of at most 16 ports, such as \"1 2, 3 4\"");
            }
            dimension->ports[dimension->count++] = port;
        }
    }
    return 1;
}

int mcsm_parse_routing(struct mcsm_parser *parser, const char *name, const char *value)
{
    static const struct number_key keys[] = {
        KEY("sl", multicast_sl, 0, 14, "0 to 14, the same in all clusters of the fabric"),
        KEY("mlids", mlids, 32, 16384, "32 to 16384, the same in all clusters of the fabric"),
    };
    int status = number(parser, keys, sizeof(keys) / sizeof(*keys), name, value);

    if (status >= 0) {
        return status;
    }
    if (strcmp(name, "engine") == 0) {
        for (int i = MCSM_ENGINE_MINHOP; i <= MCSM_ENGINE_AUTO; i++) {
            if (strcmp(value, mcsm_engine_name(i)) == 0) {
                parser->config->engine = i;
                return 1;
            }
        }
        return bad(parser, name, value, "auto, minhop, updn, dor, lash or torus");
    }
    if (strcmp(name, "contract") == 0) {
        if (strcmp(value, "keep") != 0 && strcmp(value, "report") != 0) {
            return bad(parser, name, value, "keep or report");
        }
        parser->config->contract_only_named = value[0] == 'r';
        return 1;
    }
    if (strcmp(name, "roots") == 0) {
        return parse_roots(parser, value);
    }
    if (strcmp(name, "dimensions") == 0) {
        return parse_dimensions(parser, value);
    }
    return unknown(parser, name, "routing");
}

int mcsm_parse_sweep(struct mcsm_parser *parser, const char *name, const char *value)
{
    static const struct number_key keys[] = {
        KEY("interval", sweep_interval, 0, 86400, "seconds, 0 to 86400"),
        KEY("window", window, 1, 1024, "1 to 1024 MADs"),
        KEY("timeout", timeout, 10, 60000, "milliseconds, 10 to 60000"),
        KEY("retries", retries, 0, 100, "0 to 100"),
        KEY("standby-interval", standby_interval, 1, 3600, "seconds, 1 to 3600"),
    };
    int status = number(parser, keys, sizeof(keys) / sizeof(*keys), name, value);

    return status >= 0 ? status : unknown(parser, name, "sweep");
}

int mcsm_parse_health(struct mcsm_parser *parser, const char *name, const char *value)
{
    static const struct number_key keys[] = {
        KEY("interval", health_interval, 0, 86400, "seconds, 0 to 86400"),
        KEY("errors", health_errors, 0, UINT32_MAX, "a number of errors; 0: no limit"),
        KEY("flaps", health_flaps, 0, UINT32_MAX, "a number of times; 0: no limit"),
        KEY("window", health_window, 8, 86400, "seconds, 8 to 86400"),
        KEY("hold-max", health_hold_max, 1, 604800, "seconds, 1 to 604800"),
        KEY("hold", health_hold, 1, 604800, "seconds, 1 to 604800"),
    };
    int status = number(parser, keys, sizeof(keys) / sizeof(*keys), name, value);

    return status >= 0 ? status : unknown(parser, name, "health");
}

static int parse_mtu(struct mcsm_parser *parser, const char *value)
{
    uint64_t bytes;

    if (mcsm_parse_number(value, 256, 4096, &bytes) < 0 || (bytes & (bytes - 1)) != 0) {
        return bad(parser, "mtu", value, "256, 512, 1024, 2048 or 4096");
    }
    parser->config->max_mtu = __builtin_ctz(bytes) - 7;
    return 1;
}

static int parse_vls(struct mcsm_parser *parser, const char *value)
{
    static const uint8_t counts[] = {1, 2, 4, 8, 15};
    uint64_t vls;

    for (int i = 0; i < 5 && mcsm_parse_number(value, 1, 15, &vls) == 0; i++) {
        if (counts[i] == vls) {
            parser->config->max_op_vls = i + 1;
            return 1;
        }
    }
    return bad(parser, "vls", value, "1, 2, 4, 8 or 15 virtual lanes");
}

static int parse_width(struct mcsm_parser *parser, const char *value)
{
    static const char *const names[] = {"any", "1x", "4x", "8x", "12x"};
    static const uint8_t bits[] = {0, 1, 1 | 2, 1 | 2 | 4, 1 | 2 | 8};

    for (int i = 0; i < 5; i++) {
        if (strcmp(value, names[i]) == 0) {
            parser->config->link_width = bits[i];
            return 1;
        }
    }
    return bad(parser, "width", value, "any, or the widest: 1x, 4x, 8x or 12x");
}

static int parse_sl2vl(struct mcsm_parser *parser, const char *value)
{
    char word[16];
    uint64_t vl;
    int sl = 0;

    while (mcsm_next_word(&value, " ,\t\n", word, sizeof(word))) {
        if (sl == 16 || mcsm_parse_number(word, 0, 15, &vl) < 0) {
            return bad(parser, "sl2vl", word,
                       "16 virtual lanes, 0 to 15, one for each service level");
        }
        parser->config->sl2vl[sl++] = vl;
    }
    parser->config->set_sl2vl = true;
    return sl == 16 ?
               1 :
               bad(parser, "sl2vl", "fewer than 16", "a virtual lane for each service level");
}

/* "VL:WEIGHT ..." */
static int parse_vlarb(struct mcsm_parser *parser, const char *name, const char *value,
                       uint8_t table[32][2])
{
    char word[16], *colon;
    uint64_t vl, weight;
    int n = 0;

    while (mcsm_next_word(&value, " ,\t\n", word, sizeof(word))) {
        colon = strchr(word, ':');
        if (colon != NULL) {
            *colon = '\0';
        }
        if (n == 32 || colon == NULL || mcsm_parse_number(word, 0, 14, &vl) < 0 ||
            mcsm_parse_number(colon + 1, 0, 255, &weight) < 0) {
            return bad(parser, name, word, "at most 32 entries VL:WEIGHT, such as \"0:64 1:32\"");
        }
        table[n][0] = vl;
        table[n++][1] = weight;
    }
    parser->config->set_vlarb = true;
    return 1;
}

int mcsm_parse_port(struct mcsm_parser *parser, const char *name, const char *value)
{
    static const struct number_key keys[] = {
        KEY("subnet-timeout", subnet_timeout, 0, 31, "0 to 31 (4.096 us * 2^n)"),
        KEY("packet-life", packet_life, 0, 31, "0 to 31 (4.096 us * 2^n)"),
        KEY("head-of-queue-life", head_of_queue_life, 0, 20, "0 to 20 (4.096 us * 2^n)"),
        KEY("leaf-head-of-queue-life", leaf_head_of_queue_life, 0, 20, "0 to 20 (4.096 us * 2^n)"),
        KEY("vlarb-high-limit", vlarb_high_limit, 0, 255, "0 to 255 (times 4 KB)"),
    };
    int status = number(parser, keys, sizeof(keys) / sizeof(*keys), name, value);

    if (status >= 0) {
        return status;
    }
    if (strcmp(name, "mtu") == 0) {
        return parse_mtu(parser, value);
    }
    if (strcmp(name, "vls") == 0) {
        return parse_vls(parser, value);
    }
    if (strcmp(name, "width") == 0) {
        return parse_width(parser, value);
    }
    if (strcmp(name, "partition-enforcement") == 0) {
        return mcsm_parse_bool(value, &parser->config->enforce_partitions) == 0 ?
                   1 :
                   bad(parser, name, value, "yes or no");
    }
    if (strcmp(name, "sl2vl") == 0) {
        return parse_sl2vl(parser, value);
    }
    if (strcmp(name, "vlarb-high") == 0) {
        return parse_vlarb(parser, name, value, parser->config->vlarb_high);
    }
    if (strcmp(name, "vlarb-low") == 0) {
        return parse_vlarb(parser, name, value, parser->config->vlarb_low);
    }
    return unknown(parser, name, "port");
}

/* Reads the file line by line through inih and counts the lines for its messages. */
#include "parse.h"

#include <errno.h>
#include <ini.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static char *read_line(char *line, int size, void *stream)
{
    struct mcsm_parser *parser = stream;

    if (fgets(line, size, parser->file) == NULL) {
        return NULL;
    }
    parser->line++;
    if (strchr(line, '\n') == NULL && !feof(parser->file)) {
        mcsm_parse_error(parser, parser->line,
                         "the line is longer than %d characters: repeat the key on a new line",
                         size - 2);
        for (int c = getc(parser->file); c != '\n' && c != EOF; c = getc(parser->file)) {
            continue;
        }
        line[0] = '\n';
        line[1] = '\0';
    }
    return line;
}

static int handle(void *user, const char *section, const char *name, const char *value)
{
    struct mcsm_parser *parser = user;

    if (strcmp(section, "cluster") == 0) {
        return mcsm_parse_cluster(parser, name, value);
    }
    if (strcmp(section, "border") == 0) {
        return mcsm_parse_border(parser, name, value);
    }
    if (strncmp(section, "neighbour ", 10) == 0) {
        return mcsm_parse_neighbour(parser, section + 10, name, value);
    }
    if (strcmp(section, "routing") == 0 || strcmp(section, "multicast") == 0) {
        return mcsm_parse_routing(parser, name, value);
    }
    if (strcmp(section, "port") == 0) {
        return mcsm_parse_port(parser, name, value);
    }
    if (strcmp(section, "sweep") == 0) {
        return mcsm_parse_sweep(parser, name, value);
    }
    if (strcmp(section, "health") == 0) {
        return mcsm_parse_health(parser, name, value);
    }
    if (strncmp(section, "partition ", 10) == 0) {
        return mcsm_parse_partition(parser, section + 10, name, value);
    }
    if (strncmp(section, "group ", 6) == 0) {
        return mcsm_parse_group(parser, section + 6, name, value);
    }
    if (strncmp(section, "rule ", 5) == 0) {
        return mcsm_parse_rule(parser, section + 5, name, value);
    }
    return mcsm_parse_error(
        parser, parser->line,
        "unknown section [%s]: there are [cluster], [border], [neighbour NAME], "
        "[routing], [multicast], [port], [sweep], [health], [partition NAME], [group NAME] and "
        "[rule NAME]",
        section);
}

static void set_defaults(struct mcsm_config *config, const char *path)
{
    static const uint8_t straight[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

    snprintf(config->path, sizeof(config->path), "%s", path);
    config->subnet_prefix = 0xfe80000000000000ULL;
    config->shown_sm_key = 1;
    config->m_key_bits = 1;
    config->m_key_lease = 300;
    config->priority = 8;
    config->lids = (struct mcsm_range){1, MCSM_LID_MAX};
    snprintf(config->state_dir, sizeof(config->state_dir), "/var/lib/mcsm");
    config->log_level = MCSM_LOG_INFO;
    config->engine = MCSM_ENGINE_AUTO;
    config->max_mtu = 5;
    config->max_op_vls = 4;
    config->subnet_timeout = 18;
    config->packet_life = 18;
    config->head_of_queue_life = 18;
    config->leaf_head_of_queue_life = 16;
    config->enforce_partitions = true;
    memcpy(config->sl2vl, straight, sizeof(straight));
    config->mlids = 256;
    config->sweep_interval = 10;
    config->window = 64;
    config->timeout = 500;
    config->retries = 4;
    config->standby_interval = 5;
    config->health_interval = 60;
    config->health_window = 600;
    config->health_hold = 60;
    config->health_hold_max = 86400;
}

struct mcsm_config *mcsm_config_read(const char *path, FILE *err)
{
    struct mcsm_config *config = calloc(1, sizeof(*config));
    struct mcsm_parser parser = {.config = config, .err = err};
    int bad_line;

    if (config == NULL) {
        return NULL;
    }
    set_defaults(config, path);
    parser.file = fopen(path, "re");
    if (parser.file == NULL) {
        mcsm_parse_error(&parser, 0, "%s", strerror(errno));
    } else {
        bad_line = ini_parse_stream(read_line, &parser, handle, &parser);
        fclose(parser.file);
        if (bad_line > 0 && parser.errors == 0) {
            mcsm_parse_error(&parser, bad_line, "expected \"[section]\" or \"key = value\"");
        }
        if (parser.errors == 0) {
            mcsm_config_finish(&parser);
        }
    }
    if (parser.errors > 0) {
        mcsm_config_free(config);
        config = NULL;
    }
    return config;
}

void mcsm_config_free(struct mcsm_config *config)
{
    if (config == NULL) {
        return;
    }
    for (size_t i = 0; i < config->neighbour_count; i++) {
        free(config->neighbours[i].db.entries);
    }
    for (size_t i = 0; i < config->partition_count; i++) {
        free(config->partitions[i].full);
        free(config->partitions[i].limited);
    }
    mcsm_qos_free(&config->qos);
    free(config->partitions);
    free(config->neighbours);
    free(config->borders);
    free(config->roots);
    free(config->db.entries);
    free(config);
}

const struct mcsm_border *mcsm_config_border(const struct mcsm_config *config, uint64_t guid,
                                             uint8_t port)
{
    for (size_t i = 0; i < config->border_count; i++) {
        if (config->borders[i].guid == guid && config->borders[i].port == port) {
            return &config->borders[i];
        }
    }
    return NULL;
}

uint8_t mcsm_config_lane(const struct mcsm_config *config, uint8_t sl, int lanes)
{
    uint8_t lane = config->sl2vl[sl], groups = config->sl2vl[config->multicast_sl];

    if (lane < lanes || lane == 15) {
        return lane;
    }
    if (config->multicast_sl > 0) {
        return lane == groups || config->sl2vl[0] >= lanes ? 15 : config->sl2vl[0];
    }
    return lane % lanes;
}

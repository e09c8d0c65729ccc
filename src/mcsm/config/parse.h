/* Common declarations of the files that read a configuration. */
#ifndef MCSM_CONFIG_PARSE_H
#define MCSM_CONFIG_PARSE_H

#include "config.h"

struct mcsm_parser {
    struct mcsm_config *config;
    FILE *file;
    FILE *err;
    int line;
    int errors;
    bool lids_set;
    bool min_set;
};

/** One error line, "FILE:LINE: ...". Returns 0, which stops nothing: all errors are shown. */
int mcsm_parse_error(struct mcsm_parser *parser, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** Append one zeroed element to an array; NULL and an error without memory. */
void *mcsm_grow(struct mcsm_parser *parser, void **array, size_t *count, size_t size);

/** Sections. Each returns 1, or 0 after an error. */
int mcsm_parse_cluster(struct mcsm_parser *parser, const char *name, const char *value);
int mcsm_parse_port(struct mcsm_parser *parser, const char *name, const char *value);
int mcsm_parse_routing(struct mcsm_parser *parser, const char *name, const char *value);
int mcsm_parse_sweep(struct mcsm_parser *parser, const char *name, const char *value);
int mcsm_parse_health(struct mcsm_parser *parser, const char *name, const char *value);
int mcsm_parse_border(struct mcsm_parser *parser, const char *name, const char *value);
int mcsm_parse_neighbour(struct mcsm_parser *parser, const char *which, const char *name,
                         const char *value);
int mcsm_parse_partition(struct mcsm_parser *parser, const char *which, const char *name,
                         const char *value);
int mcsm_parse_group(struct mcsm_parser *parser, const char *which, const char *name,
                     const char *value);
int mcsm_parse_rule(struct mcsm_parser *parser, const char *which, const char *name,
                    const char *value);

/** Checks the rules and the service levels of the whole file. */
void mcsm_qos_check(struct mcsm_parser *parser);

/** Checks that need the whole file. */
void mcsm_config_finish(struct mcsm_parser *parser);

#endif

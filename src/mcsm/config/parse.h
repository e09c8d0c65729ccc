/* Common declarations of the files that read a configuration. */
#ifndef MCSM_CONFIG_PARSE_H
#define MCSM_CONFIG_PARSE_H

#include "config.h"

typedef struct mcsm_parser {
    mcsm_config_t *config;
    FILE *file;
    FILE *err;
    int line;
    int errors;
    bool lids_set;
    bool min_set;
} mcsm_parser_t;

/* One error line, "FILE:LINE: ...". Returns 0, which stops nothing: all errors are shown. */
int mcsm_parse_error(mcsm_parser_t *parser, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Append one zeroed element to an array; NULL and an error without memory. */
void *mcsm_grow(mcsm_parser_t *parser, void **array, size_t *count, size_t size);

/* Sections. Each returns 1, or 0 after an error. */
int mcsm_parse_cluster(mcsm_parser_t *parser, const char *name, const char *value);
int mcsm_parse_port(mcsm_parser_t *parser, const char *name, const char *value);
int mcsm_parse_routing(mcsm_parser_t *parser, const char *name, const char *value);
int mcsm_parse_sweep(mcsm_parser_t *parser, const char *name, const char *value);
int mcsm_parse_health(mcsm_parser_t *parser, const char *name, const char *value);
int mcsm_parse_border(mcsm_parser_t *parser, const char *name, const char *value);
int mcsm_parse_neighbour(mcsm_parser_t *parser, const char *which, const char *name,
                         const char *value);
int mcsm_parse_partition(mcsm_parser_t *parser, const char *which, const char *name,
                         const char *value);

/* Checks that need the whole file. */
void mcsm_config_finish(mcsm_parser_t *parser);

#endif

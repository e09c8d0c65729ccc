/*
 * The command line of commatrix.
 */
#ifndef CM_OPTIONS_H
#define CM_OPTIONS_H

#include "flow/traffic.h"
#include "matrix/matrix.h"

enum { CM_EXIT_OK, CM_EXIT_DIFFERENT, CM_EXIT_USAGE, CM_EXIT_DAMAGED, CM_EXIT_ERROR };

struct cm_options {
    struct cm_traffic_options traffic;
    enum cm_by by;
    enum cm_count count;
    bool json, csv, table; /* on standard output: one of them */
    bool linear;
    bool quiet; /* no progress */
    const char *svg, *png, *html, *map, *title, *interface;
    uint64_t duration_ns; /* of a live capture; 0: until interrupted */
    char **files;
    int num_files;
};

/* Read the command line. A mistake ends the program with CM_EXIT_USAGE, --help with CM_EXIT_OK. */
void cm_options_read(struct cm_options *options, int argc, char **argv);

/* A time such as 100ms, 1.5s, 20us; without a unit in seconds. False: it is none. */
bool cm_parse_time(const char *text, uint64_t *ns_p);

/* End the program with CM_EXIT_USAGE and a message. */
void cm_usage_error(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

#endif

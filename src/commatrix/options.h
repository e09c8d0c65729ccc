/*
 * The command line of commatrix.
 */
#ifndef CM_OPTIONS_H
#define CM_OPTIONS_H

#include "flow/traffic.h"
#include "matrix/matrix.h"

struct cm_options {
    struct cm_traffic_options traffic;
    struct cm_matrix_options matrix;
    enum cm_count count;
    bool json, csv, explain, table; /* on standard output: one of them */
    bool linear;
    bool hide_diagonal;
    bool quiet; /* no progress */
    const char *svg, *png, *html, *map, *topology, *title, *interface;
    uint64_t refresh_ns;  /* a live page is written anew after so long; 0: never */
    uint64_t duration_ns; /* of a live capture; 0: until interrupted */
    char **files;
    int num_files;
};

/**
 * Reads the command line. A mistake ends the program with CM_EXIT_USAGE, --help with CM_EXIT_OK.
 */
void cm_options_read(struct cm_options *options, int argc, char **argv);

/**
 * Reads a time such as 100ms, 1.5s, 20us. Without a unit: seconds. Returns false for other text.
 */
bool cm_parse_time(const char *text, uint64_t *ns_p);

#endif

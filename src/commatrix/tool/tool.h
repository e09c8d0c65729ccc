/*
 * The commands that work on matrices as --json wrote them.
 */
#ifndef CM_TOOL_H
#define CM_TOOL_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/** commatrix diff, commatrix place: the arguments from the command's name on. Return the exit
 * status. */
int cm_tool_diff(int argc, char **argv);
int cm_tool_place(int argc, char **argv);

/* A matrix from a file: the names, and the value of each pair with traffic. */
struct cm_loaded {
    char *by;
    GPtrArray *names;
    GHashTable *numbers; /* name -> number + 1 */
    GArray *cells;       /* of struct cm_loaded_cell */
};

struct cm_loaded_cell {
    uint32_t from, to;
    double value;
};

/**
 * Read a matrix; `field` is the member of cells that counts, such as wire_bytes. Returns NULL after
 * a message on stderr.
 */
struct cm_loaded *cm_loaded_new(const char *file, const char *field);
void cm_loaded_free(struct cm_loaded *loaded);

/** Returns the member of cells for a value of --count. Ends the program if the value is unknown. */
const char *cm_loaded_field(const char *count);

#endif

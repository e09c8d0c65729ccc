/*
 * The bytes of a capture file: as they are, or compressed by gzip, zstd or xz, which the first
 * bytes tell. Reads forward only, so that a pipe does as well.
 */
#ifndef CM_SOURCE_H
#define CM_SOURCE_H

#include <stdint.h>
#include <stdio.h>

struct cm_source;

/*
 * Open a file; "-" is standard input. Returns NULL, and *error_p a message to be freed by g_free().
 * The stream is closed by whoever reads it, before cm_source_free().
 */
struct cm_source *cm_source_open(const char *name, char **error_p);

/* To be read from by libpcap. */
FILE *cm_source_stream(struct cm_source *source);

/* Why reading failed, beyond what errno says: "" if it did not. */
const char *cm_source_error(const struct cm_source *source);

/* Bytes of the file that were read, and how long it is; 0: not known, as of a pipe. */
uint64_t cm_source_position(const struct cm_source *source);
uint64_t cm_source_size(const struct cm_source *source);

/* After the stream was closed. */
void cm_source_free(struct cm_source *source);

#endif

/*
 * The bytes of a capture file. libarchive finds out how the file is compressed (gzip, bzip2, xz,
 * lzma, lzip, zstd, lz4, compress, or not at all). A source reads forward only, so a pipe is fine.
 */
#ifndef CM_SOURCE_H
#define CM_SOURCE_H

#include <stddef.h>
#include <stdint.h>

struct cm_source;

/** The file that a name stands for; "-" is standard input. -1 with errno on error. */
int cm_source_fd(const char *name);

/**
 * Reads from a file descriptor, which the source closes unless it is standard input. Returns NULL,
 * and *error_p a message to be freed by g_free().
 */
struct cm_source *cm_source_open(int fd, char **error_p);

/**
 * The next `len` bytes, without a step forward. NULL: the file has fewer bytes, or cannot be read.
 * The bytes are valid until the next call.
 */
const uint8_t *cm_source_peek(struct cm_source *source, size_t len);

/** Steps over bytes, also over more than cm_source_peek() showed. Stops at the end of the file. */
void cm_source_skip(struct cm_source *source, uint64_t len);

/** How many bytes there are before the end of the file, at most `most`. */
size_t cm_source_left(struct cm_source *source, size_t most);

/** Why reading failed; NULL: it did not. */
const char *cm_source_error(const struct cm_source *source);

/** The offset of the next byte in the uncompressed data. */
uint64_t cm_source_offset(const struct cm_source *source);
/** Bytes of the file that were read, and its length; 0: not known, as of a pipe. */
uint64_t cm_source_position(const struct cm_source *source);
uint64_t cm_source_size(const struct cm_source *source);

void cm_source_close(struct cm_source *source);

#endif

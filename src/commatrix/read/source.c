#include "source.h"

#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <lzma.h>
#include <stdbool.h>
#include <stdio_ext.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

enum { INPUT_SIZE = 1 << 17, STREAM_SIZE = 1 << 18, MAGIC_LEN = 6 };

enum format { PLAIN, GZIP, ZSTD, XZ };

struct cm_source {
    FILE *stream;
    int fd;
    enum format format;
    uint64_t size;
    uint64_t position; /* in the file */
    uint64_t produced; /* bytes handed to the stream */
    bool at_end;       /* of a compressed member: the file may end here */
    const char *error;
    size_t input_at, input_len;
    z_stream gzip;
    ZSTD_DStream *zstd;
    lzma_stream xz;
    uint8_t input[INPUT_SIZE];
    char buffer[STREAM_SIZE];
};

/* Returns false at the end of the file, and with errno at an error. */
static bool fill(struct cm_source *source)
{
    ssize_t len;

    if (source->input_at < source->input_len) {
        return true;
    }
    do {
        len = read(source->fd, source->input, INPUT_SIZE);
    } while (len < 0 && errno == EINTR);
    if (len < 0) {
        source->error = g_intern_string(g_strerror(errno));
        return false;
    }
    errno = 0;
    source->input_at = 0;
    source->input_len = (size_t)len;
    source->position += (uint64_t)len;
    return len > 0;
}

static ssize_t damaged(struct cm_source *source, const char *why)
{
    source->error = why;
    errno = EIO;
    return -1;
}

static ssize_t read_plain(struct cm_source *source, char *out, size_t size)
{
    size_t len = source->input_len - source->input_at;

    len = len < size ? len : size;
    memcpy(out, source->input + source->input_at, len);
    source->input_at += len;
    return (ssize_t)len;
}

static ssize_t read_gzip(struct cm_source *source, char *out, size_t size)
{
    z_stream *gzip = &source->gzip;
    int status;

    if (source->at_end) {
        inflateReset(gzip); /* files may be joined */
        source->at_end = false;
    }
    gzip->next_in = source->input + source->input_at;
    gzip->avail_in = (unsigned)(source->input_len - source->input_at);
    gzip->next_out = (unsigned char *)out;
    gzip->avail_out = (unsigned)size;
    status = inflate(gzip, Z_NO_FLUSH);
    source->input_at = source->input_len - gzip->avail_in;
    if (status == Z_STREAM_END) {
        source->at_end = true;
    } else if (status != Z_OK && status != Z_BUF_ERROR) {
        return damaged(source, "the gzip data is damaged");
    }
    return (ssize_t)(size - gzip->avail_out);
}

static ssize_t read_zstd(struct cm_source *source, char *out, size_t size)
{
    ZSTD_inBuffer from = {source->input, source->input_len, source->input_at};
    ZSTD_outBuffer to = {out, size, 0};
    size_t status = ZSTD_decompressStream(source->zstd, &to, &from);

    source->input_at = from.pos;
    if (ZSTD_isError(status)) {
        return damaged(source, "the zstd data is damaged");
    }
    source->at_end = status == 0;
    return (ssize_t)to.pos;
}

static ssize_t read_xz(struct cm_source *source, char *out, size_t size, lzma_action action)
{
    lzma_stream *xz = &source->xz;
    lzma_ret status;

    xz->next_in = source->input + source->input_at;
    xz->avail_in = source->input_len - source->input_at;
    xz->next_out = (uint8_t *)out;
    xz->avail_out = size;
    status = lzma_code(xz, action);
    source->input_at = source->input_len - xz->avail_in;
    if (status == LZMA_STREAM_END) {
        source->at_end = true;
    } else if (status != LZMA_OK && status != LZMA_BUF_ERROR) {
        return damaged(source, "the xz data is damaged");
    }
    return (ssize_t)(size - xz->avail_out);
}

static ssize_t expand(struct cm_source *source, char *out, size_t size, bool finish)
{
    switch (source->format) {
    case GZIP:
        return finish ? 0 : read_gzip(source, out, size);
    case ZSTD:
        return finish ? 0 : read_zstd(source, out, size);
    case XZ:
        return read_xz(source, out, size, finish ? LZMA_FINISH : LZMA_RUN);
    default:
        return finish ? 0 : read_plain(source, out, size);
    }
}

static ssize_t cookie_read(void *cookie, char *out, size_t size)
{
    struct cm_source *source = cookie;
    ssize_t len = 0;

    while (len == 0) {
        if (!fill(source)) {
            if (source->error != NULL) {
                return -1;
            }
            len = expand(source, out, size, true);
            if (len == 0 && source->format != PLAIN && !source->at_end) {
                return damaged(source, "the compressed data ends too early");
            }
            break;
        }
        len = expand(source, out, size, false);
    }
    source->produced += len > 0 ? (uint64_t)len : 0;
    return len;
}

/* Only to tell where it is. */
static int cookie_seek(void *cookie, off64_t *offset, int whence)
{
    struct cm_source *source = cookie;

    if (whence != SEEK_CUR || *offset != 0) {
        errno = ESPIPE;
        return -1;
    }
    *offset = (off64_t)source->produced;
    return 0;
}

static int cookie_close(void *cookie)
{
    struct cm_source *source = cookie;

    return source->fd != STDIN_FILENO ? close(source->fd) : 0;
}

static enum format recognize(const uint8_t *magic, size_t len)
{
    if (len >= 2 && memcmp(magic, "\x1f\x8b", 2) == 0) {
        return GZIP;
    }
    if (len >= 4 && memcmp(magic, "\x28\xb5\x2f\xfd", 4) == 0) {
        return ZSTD;
    }
    if (len >= 6 && memcmp(magic, "\xfd\x37zXZ\0", 6) == 0) {
        return XZ;
    }
    return PLAIN;
}

/* The first bytes of a pipe may come one by one. */
static bool read_magic(struct cm_source *source)
{
    ssize_t len = 1;

    while (source->input_len < MAGIC_LEN && len > 0) {
        len = read(source->fd, source->input + source->input_len, INPUT_SIZE - source->input_len);
        if (len < 0 && errno == EINTR) {
            len = 1;
        } else if (len > 0) {
            source->input_len += (size_t)len;
        }
    }
    source->position = source->input_len;
    source->format = recognize(source->input, source->input_len);
    return len >= 0;
}

static bool start_format(struct cm_source *source)
{
    switch (source->format) {
    case GZIP:
        return inflateInit2(&source->gzip, 15 + 16) == Z_OK;
    case ZSTD:
        source->zstd = ZSTD_createDStream();
        return source->zstd != NULL;
    case XZ:
        return lzma_stream_decoder(&source->xz, UINT64_MAX, LZMA_CONCATENATED) == LZMA_OK;
    default:
        return true;
    }
}

static bool open_fd(struct cm_source *source, const char *name)
{
    struct stat st;

    source->fd = strcmp(name, "-") == 0 ? STDIN_FILENO : open(name, O_RDONLY | O_CLOEXEC);
    if (source->fd < 0 || fstat(source->fd, &st) != 0) {
        return false;
    }
    if (S_ISDIR(st.st_mode)) {
        errno = EISDIR;
        return false;
    }
    source->size = S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
    (void)posix_fadvise(source->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    return read_magic(source);
}

struct cm_source *cm_source_open(const char *name, char **error_p)
{
    static const cookie_io_functions_t functions = {
        .read = cookie_read, .seek = cookie_seek, .close = cookie_close};
    struct cm_source *source = g_new0(struct cm_source, 1);

    source->xz = (lzma_stream)LZMA_STREAM_INIT;
    if (!open_fd(source, name)) {
        *error_p = g_strdup(g_strerror(errno));
    } else if (!start_format(source)) {
        *error_p = g_strdup("out of memory");
    } else {
        source->stream = fopencookie(source, "r", functions);
    }
    if (source->stream == NULL) {
        if (source->fd > STDIN_FILENO) {
            close(source->fd);
        }
        cm_source_free(source);
        return NULL;
    }
    setvbuf(source->stream, source->buffer, _IOFBF, STREAM_SIZE);
    __fsetlocking(source->stream, FSETLOCKING_BYCALLER); /* one thread reads */
    return source;
}

FILE *cm_source_stream(struct cm_source *source)
{
    return source->stream;
}

const char *cm_source_error(const struct cm_source *source)
{
    return source->error != NULL ? source->error : "";
}

uint64_t cm_source_position(const struct cm_source *source)
{
    return source->position;
}

uint64_t cm_source_size(const struct cm_source *source)
{
    return source->size;
}

void cm_source_free(struct cm_source *source)
{
    if (source->gzip.state != NULL) {
        inflateEnd(&source->gzip);
    }
    ZSTD_freeDStream(source->zstd);
    lzma_end(&source->xz);
    g_free(source);
}

#include "source.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCK = 1 << 16, FIRST_BUFFER = 1 << 17 };

struct cm_source {
    struct archive *archive;
    int fd;
    uint64_t size;
    uint64_t offset; /* of the next byte */
    bool at_end;
    char *error;
    uint8_t *buffer;
    size_t at, len, room; /* the unread bytes are at .. len */
};

int cm_source_fd(const char *name)
{
    return strcmp(name, "-") == 0 ? STDIN_FILENO : open(name, O_RDONLY | O_CLOEXEC);
}

static void note_error(struct cm_source *source)
{
    const char *why = archive_error_string(source->archive);

    if (source->error == NULL) {
        source->error = g_strdup(why != NULL ? why : g_strerror(archive_errno(source->archive)));
    }
    source->at_end = true;
}

static void enable_formats(struct archive *archive)
{
    archive_read_support_filter_gzip(archive);
    archive_read_support_filter_bzip2(archive);
    archive_read_support_filter_xz(archive);
    archive_read_support_filter_lzma(archive);
    archive_read_support_filter_lzip(archive);
    archive_read_support_filter_zstd(archive);
    archive_read_support_filter_lz4(archive);
    archive_read_support_filter_compress(archive);
    archive_read_support_format_raw(archive);
    archive_read_support_format_empty(archive);
}

/* The one entry of the archive is the file. An empty file has none. */
static void open_entry(struct cm_source *source)
{
    struct archive_entry *entry;
    int status = archive_read_open_fd(source->archive, source->fd, BLOCK);

    if (status == ARCHIVE_OK) {
        status = archive_read_next_header(source->archive, &entry);
    }
    if (status == ARCHIVE_EOF) {
        source->at_end = true;
    } else if (status < ARCHIVE_WARN) {
        note_error(source);
    }
}

struct cm_source *cm_source_open(int fd, char **error_p)
{
    struct cm_source *source = g_new0(struct cm_source, 1);
    struct stat st = {0};

    source->fd = fd;
    source->archive = archive_read_new();
    source->room = FIRST_BUFFER;
    source->buffer = g_malloc(source->room);
    if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
        source->error = g_strdup(g_strerror(EISDIR));
    } else {
        source->size = S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
        (void)posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
        enable_formats(source->archive);
        open_entry(source);
    }
    if (source->error != NULL) {
        *error_p = g_strdup(source->error);
        cm_source_close(source);
        return NULL;
    }
    return source;
}

/* Makes room for `len` bytes behind the unread ones. */
static void make_room(struct cm_source *source, size_t len)
{
    size_t unread = source->len - source->at;

    if (source->room - source->len >= len) {
        return;
    }
    memmove(source->buffer, source->buffer + source->at, unread);
    source->at = 0;
    source->len = unread;
    if (source->room < unread + len) {
        source->room = MAX(2 * source->room, unread + len);
        source->buffer = g_realloc(source->buffer, source->room);
    }
}

/* Block by block: archive_read_data() would drop the data before an error. */
static void fill(struct cm_source *source, size_t len)
{
    const void *block;
    la_int64_t offset;
    size_t size;
    int status;

    while (source->len - source->at < len && !source->at_end) {
        status = archive_read_data_block(source->archive, &block, &size, &offset);
        if (status == ARCHIVE_EOF) {
            source->at_end = true;
        } else if (status < ARCHIVE_WARN) {
            note_error(source);
        } else {
            make_room(source, size);
            memcpy(source->buffer + source->len, block, size);
            source->len += size;
        }
    }
}

const uint8_t *cm_source_peek(struct cm_source *source, size_t len)
{
    if (source->len - source->at < len) {
        fill(source, len);
    }
    return source->len - source->at >= len ? source->buffer + source->at : NULL;
}

void cm_source_skip(struct cm_source *source, uint64_t len)
{
    size_t step;

    while (len > 0) {
        step = (size_t)MIN(len, source->len - source->at);
        source->at += step;
        source->offset += step;
        len -= step;
        if (len > 0 && cm_source_left(source, 1) == 0) {
            return;
        }
    }
}

size_t cm_source_left(struct cm_source *source, size_t most)
{
    fill(source, most);
    return MIN(source->len - source->at, most);
}

const char *cm_source_error(const struct cm_source *source)
{
    return source->error;
}

uint64_t cm_source_offset(const struct cm_source *source)
{
    return source->offset;
}

uint64_t cm_source_position(const struct cm_source *source)
{
    return (uint64_t)MAX(archive_filter_bytes(source->archive, -1), 0);
}

uint64_t cm_source_size(const struct cm_source *source)
{
    return source->size;
}

void cm_source_close(struct cm_source *source)
{
    archive_read_free(source->archive);
    if (source->fd > STDIN_FILENO) {
        close(source->fd);
    }
    g_free(source->buffer);
    g_free(source->error);
    g_free(source);
}

#include "file.h"

#include "packet.h"
#include "source.h"

#include <byteswap.h>
#include <glib.h>
#include <inttypes.h>
#include <string.h>

enum {
    PCAP_HEADER = 24,
    PCAP_RECORD = 16,
    PCAP_RECORD_LONG = 24, /* of Linux in 1999: eight bytes more */
    MAX_FRAME = 16 << 20
};

#define MAX_SECONDS INT64_C(9000000000) /* since 1970 */

enum { MAGIC_US = 0xa1b2c3d4, MAGIC_NS = 0xa1b23c4d, MAGIC_LONG = 0xa1b2cd34 };

/* pcapng: types of blocks, and codes of options of an interface */
enum {
    SECTION = 0x0a0d0d0a,
    INTERFACE = 1,
    OLD_PACKET = 2,
    SIMPLE_PACKET = 3,
    ENHANCED_PACKET = 6,
    ORDER_MAGIC = 0x1a2b3c4d,
    OPTION_RESOLUTION = 9,
    OPTION_OFFSET = 14,
    BLOCK_HEAD = 8,
    BLOCK_LEN = 12
};

struct interface {
    int link_type;
    uint32_t snaplen;
    uint64_t units; /* of time in a second */
    int64_t offset_s;
};

struct cm_file {
    struct cm_source *source;
    bool swapped;
    bool pcapng;
    uint32_t record_len; /* pcap: of a record's header */
    struct interface pcap;
    GArray *interfaces; /* pcapng: of the section */
    uint64_t last_ns, timeless;
    int unknown_link;
    const char *damage;
    uint64_t damage_at;
};

static uint16_t get16(const struct cm_file *file, const uint8_t *p)
{
    uint16_t value;

    memcpy(&value, p, 2);
    return file->swapped ? bswap_16(value) : value;
}

static uint32_t get32(const struct cm_file *file, const uint8_t *p)
{
    uint32_t value;

    memcpy(&value, p, 4);
    return file->swapped ? bswap_32(value) : value;
}

static bool damaged(struct cm_file *file, const char *why)
{
    file->damage = why;
    file->damage_at = cm_source_offset(file->source);
    return false;
}

/* The bytes of a structure; NULL: the file ends, within the structure if it has begun. */
static const uint8_t *need(struct cm_file *file, size_t len, const char *truncated)
{
    const uint8_t *p = cm_source_peek(file->source, len);

    if (p == NULL && cm_source_error(file->source) != NULL) {
        damaged(file, cm_source_error(file->source));
    } else if (p == NULL && cm_source_left(file->source, 1) > 0) {
        damaged(file, truncated);
    }
    return p;
}

/* Times before 1970 are 1970. Times that do not fit become the year 2255. */
static uint64_t to_ns(const struct interface *interface, uint64_t time)
{
    uint64_t units = interface->units;
    unsigned __int128 part = (unsigned __int128)(time % units) * 1000000000 / units;
    __int128 seconds = (__int128)(time / units) + interface->offset_s;

    return (uint64_t)CLAMP(seconds, 0, MAX_SECONDS) * 1000000000 + (uint64_t)part;
}

static void note_link(struct cm_file *file, int link_type)
{
    if (!cm_link_supported(link_type) && file->unknown_link < 0) {
        file->unknown_link = link_type;
    }
}

/* ---- pcap ------------------------------------------------------------------------------------ */

/* All packets of a pcap file have one link type. */
static bool open_pcap(struct cm_file *file, const uint8_t *header, uint32_t magic, char **error_p)
{
    file->record_len = magic == MAGIC_LONG ? PCAP_RECORD_LONG : PCAP_RECORD;
    file->pcap.units = magic == MAGIC_NS ? 1000000000 : 1000000;
    file->pcap.snaplen = get32(file, header + 16);
    file->pcap.link_type = (int)(get32(file, header + 20) & 0x3ffffff);
    if (!cm_link_supported(file->pcap.link_type)) {
        *error_p = cm_link_reason(file->pcap.link_type);
        return false;
    }
    cm_source_skip(file->source, PCAP_HEADER);
    return true;
}

static bool next_record(struct cm_file *file, struct cm_frame *frame)
{
    const uint8_t *record = need(file, file->record_len, "truncated header of a packet");
    uint32_t captured;

    if (record == NULL) {
        return false;
    }
    captured = get32(file, record + 8);
    if (captured > MAX_FRAME) {
        return damaged(file, "a packet of more than 16 MB: not the header of a packet");
    }
    record = need(file, file->record_len + captured, "truncated packet");
    if (record == NULL) {
        return false;
    }
    frame->data = record + file->record_len;
    frame->captured = captured;
    frame->wire = get32(file, record + 12);
    frame->link_type = file->pcap.link_type;
    frame->time_ns = (uint64_t)get32(file, record) * 1000000000 +
                     (uint64_t)get32(file, record + 4) * (1000000000 / file->pcap.units);
    cm_source_skip(file->source, file->record_len + captured);
    return true;
}

/* ---- pcapng ---------------------------------------------------------------------------------- */

static void read_resolution(struct interface *interface, uint8_t resolution)
{
    uint64_t base = resolution & 0x80 ? 2 : 10, units = 1;
    int i;

    for (i = 0; i < (resolution & 0x7f) && units <= UINT64_MAX / base / 2; i++) {
        units *= base;
    }
    interface->units = units;
}

static void read_options(const struct cm_file *file, struct interface *interface,
                         const uint8_t *option, uint32_t left)
{
    uint32_t len;
    uint64_t offset;

    while (left >= 4) {
        len = get16(file, option + 2);
        if (len > left - 4) {
            return;
        }
        if (get16(file, option) == OPTION_RESOLUTION && len >= 1) {
            read_resolution(interface, option[4]);
        } else if (get16(file, option) == OPTION_OFFSET && len >= 8) {
            memcpy(&offset, option + 4, 8);
            interface->offset_s = (int64_t)(file->swapped ? bswap_64(offset) : offset);
        }
        len = (len + 3) & ~3u;
        if (len > left - 4) {
            return;
        }
        option += 4 + len;
        left -= 4 + len;
    }
}

static bool read_interface(struct cm_file *file, const uint8_t *body, uint32_t len)
{
    struct interface interface = {.units = 1000000};

    if (len < 8) {
        return damaged(file, "truncated block of an interface");
    }
    interface.link_type = get16(file, body);
    interface.snaplen = get32(file, body + 4);
    read_options(file, &interface, body + 8, len - 8);
    g_array_append_val(file->interfaces, interface);
    note_link(file, interface.link_type);
    return true;
}

static const struct interface *interface_at(struct cm_file *file, uint32_t number)
{
    if (number >= file->interfaces->len) {
        damaged(file, "a packet of an interface that the section does not have");
        return NULL;
    }
    return &g_array_index(file->interfaces, struct interface, number);
}

/* A packet with a time. `old`: the block of version 0, whose first field is shorter. */
static bool read_packet(struct cm_file *file, struct cm_frame *frame, const uint8_t *body,
                        uint32_t len, bool old)
{
    const struct interface *interface;
    uint64_t time;

    if (len < 20) {
        return damaged(file, "truncated block of a packet");
    }
    interface = interface_at(file, old ? get16(file, body) : get32(file, body));
    if (interface == NULL) {
        return false;
    }
    time = (uint64_t)get32(file, body + 4) << 32 | get32(file, body + 8);
    frame->captured = get32(file, body + 12);
    frame->wire = get32(file, body + 16);
    if (frame->captured > len - 20) {
        return damaged(file, "a packet that is longer than its block");
    }
    frame->data = body + 20;
    frame->link_type = interface->link_type;
    frame->time_ns = file->last_ns = to_ns(interface, time);
    return true;
}

static bool read_simple(struct cm_file *file, struct cm_frame *frame, const uint8_t *body,
                        uint32_t len)
{
    const struct interface *interface = interface_at(file, 0);

    if (interface == NULL) {
        return false;
    }
    if (len < 4) {
        return damaged(file, "truncated block of a packet");
    }
    frame->wire = get32(file, body);
    frame->captured = MIN(frame->wire, len - 4);
    if (interface->snaplen != 0) {
        frame->captured = MIN(frame->captured, interface->snaplen);
    }
    frame->data = body + 4;
    frame->link_type = interface->link_type;
    frame->time_ns = file->last_ns;
    file->timeless++;
    return true;
}

/* A section may have another byte order than the one before. */
static bool begin_section(struct cm_file *file)
{
    const uint8_t *head = need(file, BLOCK_LEN, "truncated header of a section");
    uint32_t order;

    if (head == NULL) {
        return false;
    }
    memcpy(&order, head + BLOCK_HEAD, 4);
    if (order != ORDER_MAGIC && order != bswap_32(ORDER_MAGIC)) {
        return damaged(file, "a section without a byte order");
    }
    file->swapped = order != ORDER_MAGIC;
    g_array_set_size(file->interfaces, 0);
    return true;
}

/* One block. Returns false at the end, and for damage; *found_p: the block has a packet. */
static bool next_block(struct cm_file *file, struct cm_frame *frame, bool *found_p)
{
    const uint8_t *head = need(file, BLOCK_HEAD, "truncated header of a block"), *body;
    uint32_t type, len;
    bool ok = true;

    if (head == NULL) {
        return false;
    }
    memcpy(&type, head, 4); /* SECTION has the same bytes in both byte orders */
    if (type == SECTION && !begin_section(file)) {
        return false;
    }
    head = need(file, BLOCK_HEAD, "truncated header of a block");
    type = get32(file, head);
    len = get32(file, head + 4);
    if (len < BLOCK_LEN || len % 4 != 0) {
        return damaged(file, "a block of an impossible length");
    }
    if (len > MAX_FRAME) {
        if (type == ENHANCED_PACKET || type == OLD_PACKET || type == SIMPLE_PACKET ||
            type == INTERFACE) {
            return damaged(file, "a block of more than 16 MB");
        }
        cm_source_skip(file->source, len);
        return true;
    }
    head = need(file, len, "truncated block");
    if (head == NULL) {
        return false;
    }
    if (get32(file, head + len - 4) != len) {
        return damaged(file, "a block whose two lengths differ");
    }
    body = head + BLOCK_HEAD;
    *found_p = type == ENHANCED_PACKET || type == OLD_PACKET || type == SIMPLE_PACKET;
    if (type == INTERFACE) {
        ok = read_interface(file, body, len - BLOCK_LEN);
    } else if (type == SIMPLE_PACKET) {
        ok = read_simple(file, frame, body, len - BLOCK_LEN);
    } else if (*found_p) {
        ok = read_packet(file, frame, body, len - BLOCK_LEN, type == OLD_PACKET);
    }
    if (ok) {
        cm_source_skip(file->source, len);
    }
    return ok;
}

/* ---- both ------------------------------------------------------------------------------------ */

static bool read_header(struct cm_file *file, char **error_p)
{
    const uint8_t *header = cm_source_peek(file->source, PCAP_HEADER);
    uint32_t magic;

    if (header == NULL && cm_source_error(file->source) != NULL) {
        *error_p = g_strdup(cm_source_error(file->source));
        return false;
    }
    if (header == NULL) {
        *error_p =
            g_strdup(cm_source_left(file->source, 1) == 0 ? "the file is empty" :
                                                            "the file is too short for a capture");
        return false;
    }
    memcpy(&magic, header, 4);
    if (magic == SECTION) {
        file->pcapng = true;
        return true;
    }
    file->swapped = magic != MAGIC_US && magic != MAGIC_NS && magic != MAGIC_LONG;
    magic = file->swapped ? bswap_32(magic) : magic;
    if (magic != MAGIC_US && magic != MAGIC_NS && magic != MAGIC_LONG) {
        *error_p = g_strdup("unknown file format: pcap and pcapng are known");
        return false;
    }
    return open_pcap(file, header, magic, error_p);
}

struct cm_file *cm_file_open(int fd, char **error_p)
{
    struct cm_source *source = cm_source_open(fd, error_p);
    struct cm_file *file;

    if (source == NULL) {
        return NULL;
    }
    file = g_new0(struct cm_file, 1);
    file->source = source;
    file->unknown_link = -1;
    file->interfaces = g_array_new(FALSE, FALSE, sizeof(struct interface));
    if (!read_header(file, error_p)) {
        cm_file_close(file);
        return NULL;
    }
    return file;
}

bool cm_file_next(struct cm_file *file, struct cm_frame *frame)
{
    bool found = false;

    if (file->damage != NULL) {
        return false;
    }
    if (!file->pcapng) {
        return next_record(file, frame);
    }
    while (!found) {
        if (!next_block(file, frame, &found)) {
            return false;
        }
    }
    return true;
}

char *cm_file_damage(const struct cm_file *file)
{
    return file->damage == NULL ?
               NULL :
               g_strdup_printf("damaged at offset %" PRIu64 "%s: %s; what stands before it counts",
                               file->damage_at,
                               cm_source_position(file->source) != 0 &&
                                       file->damage == cm_source_error(file->source) ?
                                   " of the uncompressed data" :
                                   "",
                               file->damage);
}

uint64_t cm_file_timeless(const struct cm_file *file)
{
    return file->timeless;
}

int cm_file_unknown_link(const struct cm_file *file)
{
    return file->unknown_link;
}

double cm_file_progress(const struct cm_file *file)
{
    uint64_t size = cm_source_size(file->source);

    return size == 0 ? -1 : (double)cm_source_position(file->source) / (double)size;
}

void cm_file_close(struct cm_file *file)
{
    cm_source_close(file->source);
    g_array_free(file->interfaces, TRUE);
    g_free(file);
}

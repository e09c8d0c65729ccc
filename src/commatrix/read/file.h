/*
 * The frames of a capture file: pcap, in both byte orders, and pcapng, with any number of sections
 * and interfaces.
 */
#ifndef CM_FILE_H
#define CM_FILE_H

#include <stdbool.h>
#include <stdint.h>

struct cm_file;

/* A frame; `data` is valid until the next frame is read. */
struct cm_frame {
    const uint8_t *data;
    uint32_t captured, wire;
    uint64_t time_ns; /* since 1970 */
    int link_type;    /* of libpcap's LINKTYPE_*; see cm_link_supported() */
};

/**
 * Reads the header of a file from a descriptor, which belongs to the file from now on. Returns
 * NULL, and *error_p a message to be freed by g_free().
 */
struct cm_file *cm_file_open(int fd, char **error_p);

/** The next frame. False at the end of the file, and where the file is damaged. */
bool cm_file_next(struct cm_file *file, struct cm_frame *frame);

/** The damage: what and where, to be freed by g_free(); NULL: none. */
char *cm_file_damage(const struct cm_file *file);

/** Packets without a time. Each gets the time of the previous packet. */
uint64_t cm_file_timeless(const struct cm_file *file);

/** A link type of an interface that cm_packet_parse() does not know; -1: none. */
int cm_file_unknown_link(const struct cm_file *file);

/** The part of the file that was read, 0 to 1; negative: not known. */
double cm_file_progress(const struct cm_file *file);

void cm_file_close(struct cm_file *file);

#endif

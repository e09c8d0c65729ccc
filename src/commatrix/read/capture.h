/*
 * The packets of one or several capture files in the order of their time, or of an interface.
 */
#ifndef CM_CAPTURE_H
#define CM_CAPTURE_H

#include <stdbool.h>
#include <stdint.h>

struct cm_capture;

/* A frame; `data` is valid until the next call of cm_capture_next(). */
struct cm_frame {
    const uint8_t *data;
    uint32_t captured, wire;
    uint64_t time_ns;
    int link_type;
};

/*
 * Open capture files, "-" being standard input. What cannot be opened is reported on stderr.
 * Returns NULL if none could be; cm_capture_damaged() tells of the others.
 */
struct cm_capture *cm_capture_open(char *const *names, int num_names);

/* Capture what passes an interface, until cm_capture_stop(). NULL, and a message, on error. */
struct cm_capture *cm_capture_live(const char *interface);

/*
 * The next frame. False at the end. A file that is damaged ends there: one line on stderr names
 * the file, the offset and the reason.
 */
bool cm_capture_next(struct cm_capture *capture, struct cm_frame *frame);

/* End a live capture, also from a signal handler: the call of cm_capture_next() returns false. */
void cm_capture_stop(struct cm_capture *capture);

/* Whether a file could not be opened or read to its end. */
bool cm_capture_damaged(const struct cm_capture *capture);

/* How much of the files was read, 0 to 1; negative where that is not known. */
double cm_capture_progress(const struct cm_capture *capture);

/* What the kernel dropped of a live capture. */
uint64_t cm_capture_dropped(struct cm_capture *capture);

void cm_capture_close(struct cm_capture *capture);

#endif

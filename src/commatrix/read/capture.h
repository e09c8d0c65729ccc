/*
 * The frames of one or several capture files in the order of their time, or of an interface.
 */
#ifndef CM_CAPTURE_H
#define CM_CAPTURE_H

#include "clock.h"
#include "file.h"

struct cm_capture;

/* What cm_capture_open() is to find out before the first frame is read. */
struct cm_capture_options {
    bool earliest; /* the earliest time of all files: they are read twice */
};

/**
 * Opens capture files, "-" being standard input. A line on stderr says which cannot be opened.
 * Returns NULL if none could be; cm_capture_damaged() tells of the others.
 *
 * The clocks of several files are compared by their first packets, and the times of the files are
 * corrected. Pipes that must be read twice are copied to a temporary file.
 */
struct cm_capture *cm_capture_open(char *const *names, int num_names,
                                   const struct cm_capture_options *options);

/** Captures from an interface until cm_capture_stop(). NULL, and a message, on error. */
struct cm_capture *cm_capture_live(const char *interface);

/**
 * The next frame. False at the end, and also if a live capture got no frame for a short time:
 * cm_capture_stopped() tells. A damaged file ends at the damage: a line on stderr names the file,
 * the offset and the reason.
 */
bool cm_capture_next(struct cm_capture *capture, struct cm_frame *frame);

/** Ends a live capture, also from a signal handler: cm_capture_next() then returns false. */
void cm_capture_stop(struct cm_capture *capture);
bool cm_capture_stopped(const struct cm_capture *capture);

/** Whether a file could not be opened or read to its end. */
bool cm_capture_damaged(const struct cm_capture *capture);

/** How much of the files was read, 0 to 1; negative: not known. */
double cm_capture_progress(const struct cm_capture *capture);

/** The earliest time of all files, if the options asked for it; 0: not known. */
uint64_t cm_capture_earliest(const struct cm_capture *capture);

/** The files, and how their clocks differ. */
int cm_capture_num_files(const struct cm_capture *capture);
const char *cm_capture_name(const struct cm_capture *capture, int i);
const struct cm_clock *cm_capture_clock(const struct cm_capture *capture, int i);

/** Packets that have no time in their file. */
uint64_t cm_capture_timeless(const struct cm_capture *capture);

/** Packets of a live capture that the kernel dropped. */
uint64_t cm_capture_dropped(struct cm_capture *capture);

void cm_capture_close(struct cm_capture *capture);

#endif

/*
 * The holds of links in STATE-DIR/NAME.holds, so that a restart does not use a noisy link again. A
 * line has both ends, the end of the hold in seconds since 1970, and how many holds came in a row:
 *
 *     0x0000000000000100/2 0x0000000000000101/3 1790000000 2
 */
#ifndef MCSM_HOLDS_H
#define MCSM_HOLDS_H

#include "health.h"

struct mcsm_hold {
    struct mcsm_hold *next;
    struct {
        uint64_t guid;
        uint8_t port;
    } ends[2];
    uint64_t until; /* milliseconds of mcsm_now() */
    unsigned holds;
};

/** Reads the file. Times that are over are left out. The log names a file that cannot be read, and
 * wrong lines; the other lines are used. */
void mcsm_holds_read(const struct mcsm_config *config, uint64_t now, struct mcsm_hold **holds_p);
void mcsm_holds_free(struct mcsm_hold **holds_p);

/** Adds a hold, or replaces the hold of a link with the same first end. -ENOMEM. Removes the hold
 * with this end. */
int mcsm_holds_add(struct mcsm_hold **holds_p, const struct mcsm_hold *hold);
void mcsm_holds_remove(struct mcsm_hold **holds_p, uint64_t guid, uint8_t port);

/** Replaces the file by the links that are held. Errors go to the log. */
void mcsm_holds_write(const struct mcsm_config *config, const struct mcsm_link *links,
                      uint64_t now);

#endif

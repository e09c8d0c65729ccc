/* The state of the network at moments of the past. */
#ifndef INM_SNAPSHOT_H
#define INM_SNAPSHOT_H

#include "inm/server/core/inmd.h"

#define SNAPSHOT_DOWN    254 /* in `use`: the link is down */
#define SNAPSHOT_UNKNOWN 255

/* One moment, unpacked. Arrays are by chip, by NRC, or by port of an NRC. */
struct snapshot {
    double time;
    uint8_t *letters;     /* by chip: see chip_letters() */
    uint8_t *temperature; /* by NRC, degrees Celsius */
    uint8_t *retries;     /* by NRC, since the poll before; 255: or more */
    uint8_t *crc_errors;  /* by NRC, since the poll before; 255: or more */
    uint8_t *use;         /* by port: percent of the capacity */
    uint8_t *bytes;       /* all of them, allocated */
};

/** Stores the present state, at most every ten seconds. */
void snapshot_take(struct inmd *d);

/** Reads the last snapshot at or before a time. @return false: there is none. Free `bytes`. */
bool snapshot_read(struct inmd *d, double time, struct snapshot *s);

/** Calls `take` for the snapshots from a time on, at most `max` that are evenly spread. */
void snapshot_each(struct inmd *d, double from, uint32_t max,
                   void (*take)(void *arg, const struct snapshot *s), void *arg);

/** The times of the first and last snapshot; 0: there is none. */
void snapshot_range(struct inmd *d, double *first, double *last);

/** Keeps all of the last hour, one a minute of the last day, one in ten minutes of the last month,
 *  and one an hour before. */
void snapshot_thin(struct inmd *d);

#endif

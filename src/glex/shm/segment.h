/*
 * Segments as files: the owner makes a segment, peers open it, a lock shows that the owner lives,
 * and any process reaps the segment of a dead owner.
 *
 * The owner locks the file with flock() before it gets its name, maps it and closes the descriptor.
 * The lock belongs to the open file, and the mapping keeps the open file alive. So the lock lasts
 * exactly as long as the owner's mapping, however the process ends and in any pid namespace, and
 * costs no descriptor. A child of fork() does not inherit the mapping.
 */
#ifndef GLEX_SEGMENT_H
#define GLEX_SEGMENT_H

#include "shm/layout.h"

#include <sys/stat.h>
#include <sys/types.h>

/** The owner's view. The owner uses its private copies, because peers can write to the header. */
struct glex_segment {
    struct glex_segment_header *hdr; /* the base, mapped */
    uint64_t base_size;
    uint64_t addr;
    uint64_t incarnation;
    uint32_t mpq_capacity;
    uint32_t eq_capacity;
    uint64_t mmt_ready;
    dev_t dev;
    ino_t ino;
    int lock_fd; /* holds the lock where the mapping does not; else -1 */
};

enum glex_segment_state {
    GLEX_SEGMENT_LIVING,
    GLEX_SEGMENT_GONE,   /* no such file, or its owner is dead */
    GLEX_SEGMENT_BAD,    /* not a segment of this version, or damaged */
    GLEX_SEGMENT_UNKNOWN /* this process cannot check: see errno, such as EMFILE */
};

/**
 * Make a segment, with its name.
 * @param hdr  Template: all fields except the endpoint number in addr and the constant fields.
 * @param num  Endpoint number, or GLEX_ANY_EP_NUM. Errors: NO_EP_RESOURCE (number taken),
 *        NO_MEM_RESOURCE (file system full), SYS_ERR.
 */
glex_ret_t glex_segment_create(int dirfd, const struct glex_segment_header *hdr, uint32_t num,
                               struct glex_segment *seg);

/** Retire it, with GLEX_LEFT_CLOSED, and unmap it. */
void glex_segment_destroy(int dirfd, struct glex_segment *seg);

/** In a child of fork(), which does not own the segment: let go of its lock, and put blank memory
 *  where it was. */
void glex_segment_fork(struct glex_segment *seg);

/** Put private memory of zeros at an address. In one step: at no moment nothing is mapped there.
 *  False, and errno: no memory. */
bool glex_segment_blank(void *addr, uint64_t size);

/** Stop the segment and remove its name: allowed while a process exits. Peers read `how`. */
void glex_segment_retire(int dirfd, const struct glex_segment *seg, enum glex_left how);

/** A new descriptor of the owner's own segment, without the lock. -1 and errno on error. */
int glex_segment_reopen(int dirfd, const struct glex_segment *seg);

/**
 * Reserve storage for a part of a segment's file, so that no store there ever raises SIGBUS. The
 * file grows to `size` if it is shorter. @return 0 or an errno; EFBIG: over the limit of `ulimit
 * -f`, whose signal is not raised.
 */
int glex_segment_reserve(int fd, uint64_t size, uint64_t off, uint64_t len);

/** Advice to a user for an error of glex_segment_reserve(). */
const char *glex_segment_reserve_advice(int err);

/**
 * Open a segment of any owner.
 * @param [out] hdr   Checked copy of the header. GONE: also of a dead owner's segment, or pid is 0.
 * @param [out] fd_p  Set for LIVING only; the caller closes it.
 */
enum glex_segment_state glex_segment_open(int dirfd, uint64_t addr, struct glex_segment_header *hdr,
                                          int *fd_p);

/** Whether a copy of a header, of the file that `st` describes, is one to go by. */
bool glex_segment_header_is_valid(const struct glex_segment_header *hdr, uint64_t addr,
                                  const struct stat *st);

/** Whether the endpoint with that incarnation still exists at that address. */
bool glex_segment_is_living(int dirfd, uint64_t addr, uint64_t incarnation);

/** Whether the endpoint's owner is certainly dead, and has left the endpoint: no thread of it runs. */
bool glex_segment_is_dead(int dirfd, uint64_t addr, uint64_t incarnation);

/** As glex_segment_is_living(), wherever on the fabric the endpoint may be. */
bool glex_segment_is_living_anywhere(int dirfd, uint64_t incarnation);

/**
 * Whether the intent of a living endpoint names a position of a ring of `seg`, or an endpoint that
 * this process cannot open may have this intent. Opens every segment of the fabric: some
 * microseconds for each. With acquire: if an endpoint's intent has moved on from the position, its
 * earlier publications are visible.
 */
bool glex_segment_is_intended(int dirfd, const struct glex_segment *seg, uint64_t ring,
                              uint64_t pos);

/** Remove a segment whose owner is dead. @return Whether nothing has that name any more. */
bool glex_segment_reap(int dirfd, uint64_t addr);

/** Remove all segments of dead owners. @return How many. */
uint32_t glex_segment_reap_all(int dirfd);

/** Parts of a mapped base, by capacities that were checked. */
static inline struct glex_ring_ctl *glex_segment_mpq(struct glex_segment_header *base)
{
    return (struct glex_ring_ctl *)((char *)base + GLEX_MPQ_OFF);
}

static inline struct glex_ring_ctl *glex_segment_eq(struct glex_segment_header *base,
                                                    uint32_t mpq_capacity)
{
    return (struct glex_ring_ctl *)((char *)base + glex_eq_off(mpq_capacity));
}

static inline struct glex_mmt_entry *glex_segment_mmt(struct glex_segment_header *base,
                                                      uint32_t mpq_capacity, uint32_t eq_capacity)
{
    return (struct glex_mmt_entry *)((char *)base + glex_mmt_off(mpq_capacity, eq_capacity));
}

#endif

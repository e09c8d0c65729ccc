/*
 * The collective area of a segment: requests that wait for control packets (CP), and the control
 * packets that have come.
 *
 *     struct glex_coll | CPQ: struct glex_ring_ctl, slots | DQ: descriptors
 *
 * CPQ: a ring like MPQ and EQ (ring.h), with many producers. Its consumer is the agent, which
 * executes the endpoint's sequences, and not the owner.
 *
 * DQ: the owner adds descriptors in the order of posting; the agent executes them.
 *
 * An area of zeros is empty. Before an endpoint touches the area, it reserves the area's storage
 * with posix_fallocate(), whatever the area's contents say.
 */
#ifndef GLEX_COLL_LAYOUT_H
#define GLEX_COLL_LAYOUT_H

#include "shm/layout.h"

/*
 * The agent, whose incarnation is in `agent`, is the only writer. Other processes read `agent`,
 * `pending` and `next`.
 */
struct glex_coll {
    uint64_t agent __attribute__((aligned(128))); /* incarnation of the agent; 0: none */
    uint64_t pending;                             /* an entry was added since an agent looked */
    uint64_t next __attribute__((aligned(128)));  /* position of the next descriptor */
    uint64_t step;                                /* how far that descriptor is: GLEX_COLL_STEP() */
    uint64_t taken; /* CPs before this position, from the CPQ's head, are the running sequence's */
};

/*
 * How far a descriptor is. An agent stores the step before it publishes an entry, so the agent after
 * a killed agent can look whether the entry was published.
 *   bits 0-7    stage
 *   bit 8       `seq` is valid
 *   bits 16-31  low bits of the descriptor's position; if they differ, the descriptor is not begun
 *   bits 32-63  `seq`: low 32 bits of position + 1 of the entry in the ring of this stage
 */
#define GLEX_COLL_STEP(desc, stage)       ((uint64_t)(stage) | ((uint64_t)(desc) & 0xffff) << 16)
#define GLEX_COLL_STEP_PUBLISH(step, pos) (((step) & 0xffff00ff) | 0x100 | ((pos) + 1) << 32)
#define GLEX_COLL_STEP_STAGE(step)        ((uint32_t)(step) & 0xff)
#define GLEX_COLL_STEP_IS_OF(step, desc)  ((uint16_t)((step) >> 16) == (uint16_t)(desc))
#define GLEX_COLL_STEP_HAS_SEQ(step)      (((step) & 0x100) != 0)
#define GLEX_COLL_STEP_SEQ(step)          ((uint32_t)((step) >> 32))

/* A slot of the CPQ is a struct glex_mp_slot; these are added to its length. */
#define GLEX_COLL_CP_LEN   0x0ffu
#define GLEX_COLL_CP_COUNT 0x100u /* the packet counts for a sequence */
#define GLEX_COLL_CP_DATA  0x200u /* the packet offers its data to the receiving sequence */
#define GLEX_COLL_CP_ADDR  0x400u /* the packet offers a struct glex_coll_addr to this sequence */
#define GLEX_COLL_CP_VALID 0x7ffu

/* Made by glex_coll_compose_mp_swap_addr_data(). */
struct glex_coll_addr {
    uint64_t ep_addr;
    uint64_t mh;
    uint32_t offset;
    uint32_t key;
};

/* Made by glex_coll_compose_mp_reduce_data(): this struct, then units of `data` (4 or 8 bytes) and
 * location (4 bytes). */
struct glex_coll_reduce {
    uint16_t magic;
    uint8_t op;
    uint8_t bits;
    uint8_t count;
    uint8_t degree;
    uint16_t zero;
};

#define GLEX_COLL_REDUCE_MAGIC 0x4443

enum glex_coll_kind { GLEX_COLL_MP, GLEX_COLL_IMM_PUT, GLEX_COLL_PUT, GLEX_COLL_KINDS };

struct glex_coll_desc {
    uint64_t ctrl __attribute__((aligned(256))); /* stored last: low 32 bits of position + 1 */
    uint64_t dst;
    int32_t flag;
    uint32_t counter; /* number of packets to wait for, in the first request of a sequence */
    uint32_t kind;
    uint32_t len;
    uint64_t rmt_mh;
    uint32_t rmt_offset;
    uint32_t rmt_key;
    glex_event_t rmt_evt;
    glex_event_t local_evt;
    uint64_t local_mh;
    uint32_t local_offset;
    int32_t status;                 /* result, as of a link; the agent stores it before it advances
                                     * `next` */
    uint8_t data[GLEX_MP_DATA_LEN]; /* unused by GLEX_COLL_PUT */
};

#define GLEX_COLL_CPQ_OFF 4096u
#define GLEX_COLL_DQ_OFF  (GLEX_COLL_CPQ_OFF + 4096u + GLEX_COLL_CPQ_CAPACITY * 128u)

static inline struct glex_ring_ctl *glex_coll_cpq(struct glex_coll *coll)
{
    return (struct glex_ring_ctl *)((char *)coll + GLEX_COLL_CPQ_OFF);
}

static inline struct glex_coll_desc *glex_coll_desc(struct glex_coll *coll, uint64_t pos)
{
    return (struct glex_coll_desc *)((char *)coll + GLEX_COLL_DQ_OFF) + pos % GLEX_COLL_DQ_CAPACITY;
}

#ifndef __cplusplus
_Static_assert(sizeof(struct glex_coll) <= GLEX_COLL_CPQ_OFF, "the control words fit");
_Static_assert(sizeof(struct glex_coll_desc) == 256, "no two descriptors share a line pair");
_Static_assert(sizeof(struct glex_ring_ctl) <= 4096, "the CPQ's control words fit");
_Static_assert(GLEX_COLL_DQ_OFF + GLEX_COLL_DQ_CAPACITY * sizeof(struct glex_coll_desc) ==
                   GLEX_COLL_SIZE,
               "the area's size");
_Static_assert(sizeof(struct glex_coll_reduce) == 8, "8 + 6 * 12 bytes fit any packet");
#endif

#endif

/*
 * The layout of shared memory: one segment, a file on the fabric, per endpoint.
 *
 *     header | MPQ | EQ | registration table | peers on other hosts | collective area |
 *     memory of glex_ext_mem_alloc()
 *
 * All parts except the last are the base. Peers map the base. Its size follows from the two
 * capacities. Memory that two processes access uses __atomic builtins. docs/nic.md describes the
 * protocol. A reader trusts nothing in a segment: see glex_segment_header_is_valid().
 */
#ifndef GLEX_LAYOUT_H
#define GLEX_LAYOUT_H

#include "base/common.h"

#define GLEX_SEGMENT_MAGIC   0x676c65782d736567ull /* "glex-seg" */
#define GLEX_SEGMENT_VERSION 18

#define GLEX_MAX_QUEUE_CAPACITY     (1u << 20)
#define GLEX_DEFAULT_QUEUE_CAPACITY 2048u
/* Entries of a queue whose storage is reserved in one step: 256 KiB. */
#define GLEX_QUEUE_STEP   2048u
#define GLEX_MMT_CAPACITY 65536u
/* Collective area: descriptors that wait, and control packets that no sequence has taken. Storage
 * is reserved at the first use: see coll_layout.h. */
#define GLEX_COLL_DQ_CAPACITY  1024u
#define GLEX_COLL_CPQ_CAPACITY 1024u
#define GLEX_COLL_SIZE                                                                             \
    (4096u + 4096u + GLEX_COLL_CPQ_CAPACITY * 128u + GLEX_COLL_DQ_CAPACITY * 256u)
/* Registration table entries whose storage is reserved in one step: 4 KiB. */
#define GLEX_MMT_STEP      128u
#define GLEX_MMT_STEP_SIZE (GLEX_MMT_STEP * sizeof(struct glex_mmt_entry))

#define GLEX_MP_DATA_LEN    112u
#define GLEX_EVENT_DATA_LEN 96u
#define GLEX_MAX_RDMA_LEN   (1u << 30)

/* Tail word of a ring: position in the low bits, and states of the consumer. */
#define GLEX_TAIL_ARMED       (1ull << 63) /* the consumer sleeps or is about to: wake it */
#define GLEX_TAIL_CLOSED      (1ull << 62) /* the endpoint no longer exists */
#define GLEX_TAIL_NO_RECEIVER (1ull << 61) /* the endpoint takes nothing at the moment */
#define GLEX_TAIL_POS         (GLEX_TAIL_NO_RECEIVER - 1)

#define GLEX_INTENT_NONE UINT64_MAX

struct glex_ring_ctl {
    uint64_t tail __attribute__((aligned(128))); /* next position to claim; producers RMW it */
    uint64_t head __attribute__((aligned(128))); /* next position to discard; the consumer's */
    uint32_t lacking; /* slots at the end that have no storage yet; producers lower it */
};

/*
 * First word of every slot, stored last: sequence (low 32 bits of position + 1, so the word of an
 * earlier lap, or an unused word, never matches) and length of the data in the slot.
 */
#define GLEX_CTRL(pos, len) ((uint64_t)(uint32_t)((pos) + 1) | (uint64_t)(len) << 32)
#define GLEX_CTRL_SEQ(ctrl) ((uint32_t)(ctrl))
#define GLEX_CTRL_LEN(ctrl) ((uint32_t)((ctrl) >> 32))
#define GLEX_CTRL_LEN_SKIP  UINT32_MAX /* holds nothing: pass over it */

#define GLEX_SLOT_SHIFT 7

struct glex_mp_slot {
    uint64_t ctrl __attribute__((aligned(128)));
    uint64_t src;
    uint8_t data[GLEX_MP_DATA_LEN];
};

/* The part of a memory handle that an event's `place` has room for. */
#define GLEX_PLACE_MASK 0xffffffffull

/*
 * With 8 bytes of data all of this is in one cache line. `place` is the memory handle (low 32
 * bits) and offset (high 32 bits) where the data belongs.
 */
struct glex_event_slot {
    uint64_t ctrl __attribute__((aligned(128)));
    glex_event_t event;
    uint64_t place;
    uint8_t data[GLEX_EVENT_DATA_LEN];
};

enum { GLEX_RING_MPQ, GLEX_RING_EQ, GLEX_RING_CPQ };

/**
 * Names one ring of one endpoint uniquely, because incarnations are random numbers of 64 bits that
 * are never used twice.
 */
static inline uint64_t glex_ring_id(uint64_t incarnation, int which)
{
    return incarnation ^ (uint64_t)which;
}

/*
 * The queue position that an endpoint has claimed and not yet published. An endpoint has at most one
 * unpublished claim, so one record in its own segment is enough.
 */
struct glex_intent {
    uint64_t ring; /* glex_ring_id() of the claimed ring */
    uint64_t pos;  /* claimed position; GLEX_INTENT_NONE: nothing is claimed */
};

/* State word of a registration: generation << 32 | flags. */
#define GLEX_MMT_VALID (1u << 31)
#define GLEX_MMT_FLAGS (GLEX_MEM_READ | GLEX_MEM_WRITE | GLEX_MEM_IOMMU | GLEX_EXT_MEM_EVENT_DATA)

/* In `file_off`, above an offset in the file of the owner's shared heap: core/heap.h */
#define GLEX_MMT_HEAP (1ull << 63)

struct glex_mmt_entry {
    uint64_t state;
    uint64_t addr; /* in the owner's address space */
    uint64_t len;
    uint64_t file_off; /* in the segment's file, or with GLEX_MMT_HEAP; 0: private memory */
};

/* How an owner left its segment. A killed owner leaves GLEX_LEFT_NOT. */
enum glex_left { GLEX_LEFT_NOT, GLEX_LEFT_CLOSED, GLEX_LEFT_EXIT };

/*
 * Claims and reports of a long copy that a peer may help with: the number of the copy, which grows
 * with each copy of the endpoint, and below it the next granule or the number of copied granules.
 */
#define GLEX_CLAIM_PLACE_BITS     24
#define GLEX_CLAIM_PLACE_MASK     ((1ull << GLEX_CLAIM_PLACE_BITS) - 1)
#define GLEX_CLAIM(number, place) ((number) << GLEX_CLAIM_PLACE_BITS | (place))
#define GLEX_CLAIM_NUMBER(claim)  ((claim) >> GLEX_CLAIM_PLACE_BITS)
#define GLEX_REPORT_FAILED        (1ull << 23) /* the last claimed piece was not copied */
#define GLEX_REPORT_COUNT_MASK    (GLEX_REPORT_FAILED - 1)
#define GLEX_ASKER                (1ull << 16) /* in `asker`, beside an address, which may be 0 */

/* The endpoint's present or last copy of that kind. The endpoint stores all but `report`; the helper
 * claims pieces, and reports. */
struct glex_job {
    uint64_t claim __attribute__((aligned(128)));
    uint64_t owner;  /* incarnation of the endpoint that may help */
    uint64_t type;   /* enum glex_rdma_type */
    uint64_t mh;     /* registration of the helper's memory ... */
    uint64_t offset; /* ... and the place in it */
    uint64_t addr;   /* memory of this endpoint's process */
    uint64_t len;
    uint64_t report __attribute__((aligned(128)));
};

struct glex_segment_header {
    uint64_t magic;
    uint32_t version;
    uint64_t base_size;
    uint64_t incarnation; /* random, never 0: identifies this endpoint among successive endpoints of
                           * the address */
    uint64_t addr;
    uint32_t key;
    uint32_t type;
    uint32_t mpq_capacity;
    uint32_t eq_capacity;
    uint32_t pid;
    uint32_t private_rdma; /* the owner lets peers read and write its private memory */
    uint32_t num_peers;    /* endpoints that it posts to, including itself; for tools only */
    uint64_t start_time;   /* CLOCK_REALTIME, ns */
    uint64_t cookie_addr;  /* place of `cookie` in the owner's private memory, on a separate page */
    uint64_t cookie;
    uint64_t pid_space; /* names the pid namespace that `pid` belongs to; 0: not known */
    char command[16];
    uint32_t num_net;   /* entries of peers on other hosts */
    int32_t rank;       /* of the owner in its job; -1: not known */
    uint64_t receiver;  /* glex_ext_set_receiver(): 0, or the uuid of the present one */
    uint32_t left;      /* enum glex_left */
    uint32_t heap_fd;   /* descriptor of the owner's shared heap, in the owner */
    uint64_t heap_id;   /* in the name of that file; 0: none */
    uint64_t robust_id; /* in the name of the file with the owner's robust mutex; 0: none */
    uint32_t robust_fd; /* descriptor of that file, in the owner */
    uint64_t mmt_ready __attribute__((aligned(128)));        /* table entries that have storage */
    struct glex_intent intent __attribute__((aligned(128))); /* in one line with the counters */
    struct glex_ext_counters counters;
    uint64_t asker __attribute__((aligned(128))); /* a peer whose copy the owner may help with: its
                                                   * address with GLEX_ASKER, or 0 */
    struct glex_job job;
};

/*
 * A peer on another host, for tools (glex_info). libglex never reads the entry. An entry belongs to
 * one address as long as the endpoint lives, and only the owner writes it.
 */
struct glex_net_entry {
    uint64_t addr __attribute__((aligned(64)));
    uint32_t ip;   /* of its host, in host byte order */
    uint32_t to;   /* enum glex_net_state of the connection that our requests go by */
    uint32_t from; /* of the one that its requests come by */
    uint64_t posted, ended, failed; /* our requests; posted, and not ended: open */
    uint64_t received;              /* its executed or refused requests */
};

enum glex_net_state {
    GLEX_NET_NONE, /* no connection was made yet */
    GLEX_NET_CONNECTING,
    GLEX_NET_UP,
    GLEX_NET_CLOSED, /* the last one ended: as enum glex_net_end */
    GLEX_NET_REFUSED,
    GLEX_NET_UNREACHABLE,
    GLEX_NET_DENIED,
    GLEX_NET_SILENT,
    GLEX_NET_STATES
};

/* More peers than these have no entry. Storage is reserved by the page. */
#define GLEX_NET_ENTRIES    4096u
#define GLEX_NET_ENTRY_STEP 64u
#define GLEX_NET_STEP_SIZE  (GLEX_NET_ENTRY_STEP * (uint32_t)sizeof(struct glex_net_entry))

#define GLEX_HEADER_SIZE 4096u
#define GLEX_MPQ_OFF     GLEX_HEADER_SIZE

static inline uint64_t glex_ring_size(uint32_t capacity)
{
    return sizeof(struct glex_ring_ctl) + ((uint64_t)capacity << GLEX_SLOT_SHIFT);
}

/** The part of a queue that has storage from the start. */
static inline uint64_t glex_ring_first_size(uint32_t capacity)
{
    return glex_ring_size(capacity < GLEX_QUEUE_STEP ? capacity : GLEX_QUEUE_STEP);
}

static inline uint64_t glex_eq_off(uint32_t mpq_capacity)
{
    return GLEX_MPQ_OFF + glex_ring_size(mpq_capacity);
}

static inline uint64_t glex_mmt_off(uint32_t mpq_capacity, uint32_t eq_capacity)
{
    return glex_round_up(glex_eq_off(mpq_capacity) + glex_ring_size(eq_capacity),
                         GLEX_MMT_STEP_SIZE);
}

static inline uint64_t glex_net_off(uint32_t mpq_capacity, uint32_t eq_capacity)
{
    return glex_mmt_off(mpq_capacity, eq_capacity) +
           GLEX_MMT_CAPACITY * sizeof(struct glex_mmt_entry);
}

static inline uint64_t glex_coll_off(uint32_t mpq_capacity, uint32_t eq_capacity)
{
    return glex_net_off(mpq_capacity, eq_capacity) +
           GLEX_NET_ENTRIES * sizeof(struct glex_net_entry);
}

static inline uint64_t glex_base_size(uint32_t mpq_capacity, uint32_t eq_capacity)
{
    return glex_coll_off(mpq_capacity, eq_capacity) + GLEX_COLL_SIZE;
}

#ifndef __cplusplus
_Static_assert(sizeof(struct glex_ring_ctl) == 256, "tail and head have a line pair each");
_Static_assert(sizeof(struct glex_mp_slot) == 1 << GLEX_SLOT_SHIFT, "an MP fits its slot");
_Static_assert(sizeof(struct glex_event_slot) == 1 << GLEX_SLOT_SHIFT, "an event fits its slot");
_Static_assert(offsetof(struct glex_event_slot, data) == 32, "8 bytes share the first line");
_Static_assert(sizeof(struct glex_net_entry) == 64, "one peer to a line");
_Static_assert(sizeof(struct glex_mmt_entry) == 32, "two entries to a line");
_Static_assert(sizeof(struct glex_segment_header) <= GLEX_HEADER_SIZE, "the header fits");
#endif

#endif

/*
 * All that the glex transport puts on the wire: message headers, event encodings, packed keys and
 * addresses. docs/protocol.md tells what they mean to each other. Little-endian, sizes are checked
 * at compile time; a change of any of them raises UCT_GLEX_WIRE_VERSION.
 */
#ifndef UCT_GLEX_WIRE_H
#define UCT_GLEX_WIRE_H

#include "base/glex_credit.h"
#include "base/glex_fifo.h"

#include <ucs/sys/compiler_def.h>
#include <ucs/sys/math.h>
#include <stdint.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the wire format is little-endian and so must the machine be"
#endif

#define UCT_GLEX_WIRE_VERSION 14

/* What one immediate MP and one immediate RDMA put carry (paper 003, section 6) */
#define UCT_GLEX_MP_LEN      112
#define UCT_GLEX_IMM_PUT_LEN 96

/* Device address: where it is, and whether both sides speak the same protocol */
typedef struct uct_glex_device_addr {
    uint32_t nic_id;
    uint16_t version;
    uint16_t resv;
    uint64_t fabric;  /* of one host, by which its processes share memory */
    uint64_t network; /* that NICs of other hosts are reached by; 0: none */
    uint32_t space;   /* of processes on one fabric that reach each other's private memory; 0: no
                         zero-copy */
} UCS_S_PACKED uct_glex_device_addr_t;

/* Interface address: an endpoint on the NIC. `uuid` tells a new owner of the same endpoint number
 * from the one that was meant. */
typedef struct uct_glex_iface_addr {
    uint64_t ep_addr;
    uint32_t uuid;
} UCS_S_PACKED uct_glex_iface_addr_t;

/* Packed memory key: everything a peer needs for RDMA to a registration */
typedef struct uct_glex_packed_rkey {
    uint64_t ep_addr; /* the endpoint that holds the registration */
    uint64_t mh;
    uint64_t address; /* where the registration starts in the owner's memory */
    uint64_t length;
    uint32_t key;
    uint32_t windows; /* 0: `mh` is the registration. Else: number of its windows, and `mh` is a
                       * table in the owner's memory with a handle of 8 bytes for each window. */
} UCS_S_PACKED uct_glex_packed_rkey_t;

/* Offsets in RDMA requests have 32 bits. A longer registration consists of windows that begin every
 * 2 GiB. Windows overlap, so that the longest request fits into the window that it begins in. */
#define UCT_GLEX_WINDOW_SHIFT 31
#define UCT_GLEX_WINDOW_MAX   (3ul << 30)
#define UCT_GLEX_MAX_RDMA     (1ul << 30)
#define UCT_GLEX_MAX_REG      (1ul << 48) /* longest registration: more than a process can map */

/* Windows of a registration */
static inline unsigned uct_glex_num_windows(uint64_t length)
{
    return (length <= UCT_GLEX_WINDOW_MAX) ?
               1 :
               (length + (1ul << UCT_GLEX_WINDOW_SHIFT) - 1) >> UCT_GLEX_WINDOW_SHIFT;
}

/* The window that holds a request which begins at `offset`. The empty request at the end belongs to
 * the last one. */
static inline unsigned uct_glex_window_of(unsigned num_windows, uint64_t offset)
{
    uint64_t window = offset >> UCT_GLEX_WINDOW_SHIFT;

    return (window < num_windows) ? window : num_windows - 1;
}

static inline uint64_t uct_glex_window_begin(unsigned window)
{
    return (uint64_t)window << UCT_GLEX_WINDOW_SHIFT;
}

static inline uint64_t uct_glex_window_length(unsigned window, uint64_t length)
{
    uint64_t rest = length - uct_glex_window_begin(window);

    return (rest < UCT_GLEX_WINDOW_MAX) ? rest : UCT_GLEX_WINDOW_MAX;
}

/* ---- the header of every message ---- */

/* Type of an MP: the lowest three bits of its header */
enum uct_glex_mp_type {
    UCT_GLEX_MP_CONNECT = 1, /* body: ctl. Needs no credit: the MPQ keeps a reserve */
    UCT_GLEX_MP_ACCEPT,      /* body: ctl */
    UCT_GLEX_MP_CTL,         /* body: ctl. One at a time until acknowledged */
    UCT_GLEX_MP_ACK,         /* no body: acknowledges a CTL or ACCEPT */
    UCT_GLEX_MP_END,         /* body: end. The VC is over or not known, or CONNECT is refused */
    UCT_GLEX_MP_AM,          /* body: active message data. Costs a credit */
    UCT_GLEX_MP_SR           /* body: sr: data waits in a send unit. Costs a credit */
};

/* Type of an event: the lowest three bits of cookie_1, never 0 */
enum uct_glex_event_type {
    UCT_GLEX_EVENT_ER = 1, /* a message in the units of a FIFO that its borrower does not map */
    UCT_GLEX_EVENT_OP,     /* no header: the request with op_id = cookie_1 >> 32 has completed */
    UCT_GLEX_EVENT_RING,   /* a message in a slot of a FIFO that was not polled */
    UCT_GLEX_EVENT_PUTS    /* as OP, of a request of ours that was to follow earlier puts */
};

enum uct_glex_flag {
    UCT_GLEX_FLAG_ACK = UCS_BIT(0),  /* acknowledges a CTL or ACCEPT */
    UCT_GLEX_FLAG_ZC = UCS_BIT(1),   /* the data is a zero-copy descriptor */
    UCT_GLEX_FLAG_MORE = UCS_BIT(2), /* AM, SR: the sender wants more credits */
    UCT_GLEX_FLAG_WRAP = UCS_BIT(2), /* ER: the message begins at the first unit */
    UCT_GLEX_FLAG_UNITS = UCS_BIT(3) /* slots: the message lies in the units */
};

/* Cumulative counters (modulo 2^16) in every header return credits: repeating or overtaking does
 * no harm. */
typedef union uct_glex_credits {
    struct {
        uint16_t length;          /* ER: of the message; else 0 */
        uint16_t mp_limit;        /* so many data MPs may the receiver of this send, in all */
        uct_glex_fifo_count_t er; /* consumed by the sender of this */
    };
    uint64_t word;
} uct_glex_credits_t;

/* The first 16 bytes of an MP, or an event: `word` is its cookie_1, the credits are its cookie_0.
 * Each is put together and taken apart as a whole, in registers: a part that was just stored cannot
 * be loaded as part of the whole without a delay. */
typedef struct uct_glex_hdr {
    union {
        struct {
            uint8_t type_am; /* type 0..2, active message 3..7 */
            uint8_t flags;   /* enum uct_glex_flag */
            uint32_t vc_id;  /* the receiver's name of the VC; 0 in CONNECT */
            uint16_t seq;    /* of the message in its VC and direction; AM, SR and ER only. In
                               * CONNECT uct_glex_vc_mark(), for the sender alone. */
        } UCS_S_PACKED;
        uint64_t word;
    };
    uct_glex_credits_t credits;
} uct_glex_hdr_t;

#define UCT_GLEX_TYPE_MASK 0x7

/* One more, in words: what overflows is gone, because nothing stands above */
#define UCT_GLEX_HDR_ONE_SEQ     (UINT64_C(1) << 48)
#define UCT_GLEX_CREDITS_ONE_MSG (UINT64_C(1) << 48)

/* ---- the FIFO of a channel ---- */

/* A FIFO begins at a multiple of this, in its registration and wherever it is mapped */
#define UCT_GLEX_ER_ALIGN 64

/* Behind the units lie control words and a ring of slots, for a borrower that maps the FIFO.
 * Message n of a borrower lies in slot n modulo this. Two windows of 64 messages, as MPI programs
 * often have: the next one begins while the last one is received. */
#define UCT_GLEX_FIFO_SLOTS 128u

/* Longest message in a slot */
#define UCT_GLEX_SLOT_DATA 56

/* Two lines: the first is read for each message, and seldom written */
typedef struct uct_glex_fifo_ctrl {
    struct {
        uint32_t armed;       /* the lender does not poll the FIFO. It sets the word, and who
                               * publishes a message then clears it, and rings. */
        uint32_t needs_fence; /* the lender cannot call membarrier(): the borrower's thread needs a
                               * fence before it reads `armed` */
    } UCS_V_ALIGNED(64);
    struct {
        uint32_t credits; /* what was consumed, uct_glex_fifo_count_t; the lender writes */
        uint32_t wanted;  /* not 0: the borrower needs a message with the credits, too. The
                               * lender begins with 1, then the borrower writes. */
    } UCS_V_ALIGNED(64);
} uct_glex_fifo_ctrl_t;

typedef struct uct_glex_slot {
    uint64_t word; /* number of the message plus 1 (0..15), length (16..31), seq (32..47), am_id
                    * (48..55), enum uct_glex_flag (56..62), 1 (63). Written last. */
    union {
        uint8_t data[UCT_GLEX_SLOT_DATA];
        struct {
            uint64_t head;
            uint8_t rest[UCT_GLEX_SLOT_DATA - sizeof(uint64_t)];
        };
    };
} uct_glex_slot_t;

#define UCT_GLEX_SLOT_VALID (UINT64_C(1) << 63)

/* What a FIFO takes beside its units */
#define UCT_GLEX_FIFO_RING_SIZE                                                                    \
    (sizeof(uct_glex_fifo_ctrl_t) + UCT_GLEX_FIFO_SLOTS * sizeof(uct_glex_slot_t))

/* Whether this is the word of message `num` of the borrower, and not of one that was there
 * before */
static inline int uct_glex_slot_is_new(uint64_t word, uint16_t num)
{
    return ((uint16_t)word == (uint16_t)(num + 1)) && ((int64_t)word < 0); /* the sign is bit 63 */
}

/* Bits of a word that say how long a message in a slot is, and its id. All others of the usual one,
 * which is short and the next to be delivered, are known beforehand. */
#define UCT_GLEX_SLOT_VARIES ((UINT64_C(0x1f) << 48) | (UINT64_C(0xffff) << 16))

static inline uint64_t uct_glex_slot_usual(uint16_t num, uint16_t seq)
{
    return UCT_GLEX_SLOT_VALID | ((uint64_t)seq << 32) | (uint16_t)(num + 1);
}

static inline uint16_t uct_glex_slot_length(uint64_t word)
{
    return word >> 16;
}

static inline uint16_t uct_glex_slot_seq(uint64_t word)
{
    return word >> 32;
}

static inline uint8_t uct_glex_slot_am_id(uint64_t word)
{
    return (word >> 48) & 0x1f;
}

static inline uint8_t uct_glex_slot_flags(uint64_t word)
{
    return (word >> 56) & 0x7f;
}

/* Longest message in a FIFO */
#define UCT_GLEX_ER_MAX_LENGTH UINT16_MAX

static inline uint64_t uct_glex_hdr_type_am(unsigned type, uint8_t am_id)
{
    return type | ((unsigned)am_id << 3);
}

static inline uint8_t uct_glex_hdr_type(uint64_t word)
{
    return word & UCT_GLEX_TYPE_MASK;
}

static inline uint8_t uct_glex_hdr_am_id(uint64_t word)
{
    return (word >> 3) & 0x1f;
}

static inline uint8_t uct_glex_hdr_flags(uint64_t word)
{
    return word >> 8;
}

static inline uint32_t uct_glex_hdr_vc_id(uint64_t word)
{
    return word >> 16;
}

static inline uint16_t uct_glex_hdr_seq(uint64_t word)
{
    return word >> 48;
}

/* `type`: UCT_GLEX_EVENT_OP or UCT_GLEX_EVENT_PUTS */
static inline uint64_t uct_glex_op_cookie_1(enum uct_glex_event_type type, uint32_t op_id)
{
    return type | ((uint64_t)op_id << 32);
}

/* ---- messages (MP) ---- */

enum uct_glex_ctl_flag {
    UCT_GLEX_CTL_CREDIT = UCS_BIT(0),     /* nothing but the header's counters */
    UCT_GLEX_CTL_ER_REQUEST = UCS_BIT(1), /* lend me a FIFO */
    UCT_GLEX_CTL_ER_GRANT = UCS_BIT(2),   /* here is a FIFO: fifo_* fields */
    UCT_GLEX_CTL_ER_NACK = UCS_BIT(3),    /* no FIFO now */
    UCT_GLEX_CTL_ER_REVOKE = UCS_BIT(4),  /* give the FIFO back */
    UCT_GLEX_CTL_ER_RELEASED = UCS_BIT(5) /* the FIFO is not used after er_sent messages */
};

typedef struct uct_glex_ctl {
    uint16_t version;
    uint16_t flags;
    uint32_t vc_id;    /* the sender's name of the VC; the receiver writes it into what it sends
                            * back */
    uint32_t uuid;     /* CONNECT: of the interface that is meant */
    uint32_t src_uuid; /* of the sender's interface */
    uint64_t fifo_mh;  /* ER_GRANT: registration that holds the FIFO */
    union {
        uint32_t fifo_offset; /* ER_GRANT: from the start of the registration, in bytes */
        uint32_t gone_id;     /* CONNECT: the receiver's name of the VC that the sender gave up
                               * before, or 0 */
    };
    uint16_t fifo_units;     /* ER_GRANT: length in units, a power of two */
    uint16_t fifo_msgs;      /* ER_GRANT: messages that may be on their way at once */
    uint16_t fifo_index;     /* ER_GRANT: the FIFO's name, for REVOKE and RELEASED */
    uint8_t fifo_gen;        /* ER_GRANT: distinguishes successive borrowers of one index */
    uint8_t unit_shift;      /* ER_GRANT: log2 of the unit size */
    uint32_t key;            /* key of the sender's endpoint, for RDMA to it */
    uint16_t er_sent;        /* ER_RELEASED: messages sent through the FIFO, in all */
    uint16_t revoked_index;  /* ER_REVOKE: which FIFO */
    uint16_t released_index; /* ER_RELEASED: which FIFO */
    uint8_t revoked_gen;
    uint8_t released_gen;
    uint8_t spacing_shift; /* ER_GRANT: log2 of the spacing of long messages: unit_shift or more */
} UCS_S_PACKED uct_glex_ctl_t;

enum uct_glex_end_flag {
    UCT_GLEX_END_ORDERLY = UCS_BIT(0), /* the sender's interface closes; else the VC failed */
    UCT_GLEX_END_CLAIMS = UCS_BIT(1),  /* the sender touches no memory of the receiver's for this VC
                                        * any more */
    UCT_GLEX_END_WORD = UCS_BIT(2),    /* the sender waits until vc_id stands in the claim word */
    UCT_GLEX_END_UNKNOWN = UCS_BIT(3)  /* the sender knows no such VC, or refuses a CONNECT:
                                        * last_seq and rx_seq are not given */
};

typedef struct uct_glex_end {
    uint16_t version;
    uint16_t flags;
    uint32_t vc_id;       /* the sender's name of the VC, also one that it does not know (any more);
                           * 0: a CONNECT is refused */
    uint32_t uuid;        /* of the interface that is meant, as in a CONNECT that is refused */
    uint32_t src_uuid;    /* of the sender's interface */
    uint32_t key;         /* of the sender's endpoint, for the claim word */
    uint32_t word_offset; /* where the claim word lies in its registration */
    uint64_t word_mh;
    uint16_t last_seq; /* sequence number after the sender's last message */
    uint16_t rx_seq;   /* messages of the receiver that the sender has delivered, in all */
} UCS_S_PACKED uct_glex_end_t;

/* END as a message */
typedef struct uct_glex_end_msg {
    uct_glex_hdr_t hdr;
    uct_glex_end_t end;
} uct_glex_end_msg_t;

/* SR announcement: fetch `length` bytes of (mh, offset); the remote event of the Get tells op_id */
typedef struct uct_glex_sr {
    uint64_t mh;
    uint32_t offset;
    uint32_t length;
    uint32_t op_id;
    uint32_t resv;
} UCS_S_PACKED uct_glex_sr_t;

/* What fits into an MP beside its header: also the limit of am_short on any channel */
#define UCT_GLEX_MP_DATA_LEN (UCT_GLEX_MP_LEN - sizeof(uct_glex_hdr_t))

/* ---- zero copy ---- */

/* Header, pieces and size of the largest message that a receiver accepts */
#define UCT_GLEX_ZC_MAX_HDR 128
#define UCT_GLEX_ZC_MAX_IOV 4
#define UCT_GLEX_ZC_MAX_LEN 65536

typedef struct uct_glex_zc_iov {
    uint64_t mh;
    uint32_t offset;
    uint32_t length;
} UCS_S_PACKED uct_glex_zc_iov_t;

/* In the word of a zero-copy message, instead of its op_id: the sender has cancelled it, what was
 * fetched before is not valid */
#define UCT_GLEX_ZC_INVALID UINT64_MAX

/* The data of a message with the ZC flag: the AM header follows the iov entries */
typedef struct uct_glex_zc {
    uint32_t op_id; /* told by the remote event of the last Get, that of the word */
    uint16_t iovcnt;
    uint16_t header_length;
    uint32_t length;      /* sum of the iov entries */
    uint32_t word_offset; /* where the sender says whether the payload is still valid */
    uint64_t word_mh;
    uct_glex_zc_iov_t iov[];
} UCS_S_PACKED uct_glex_zc_t;

_Static_assert(sizeof(uct_glex_device_addr_t) == 28, "wire format");
_Static_assert(sizeof(uct_glex_iface_addr_t) == 12, "wire format");
_Static_assert(sizeof(uct_glex_packed_rkey_t) == 40, "wire format");
_Static_assert(sizeof(uct_glex_hdr_t) == 16, "wire format");
_Static_assert(sizeof(uct_glex_slot_t) == 64, "wire format");
_Static_assert(sizeof(uct_glex_fifo_ctrl_t) == 128, "wire format");
_Static_assert(sizeof(uct_glex_ctl_t) == 49, "wire format");
_Static_assert(sizeof(uct_glex_end_t) == 36, "wire format");
_Static_assert(sizeof(uct_glex_hdr_t) + sizeof(uct_glex_ctl_t) <= UCT_GLEX_MP_LEN, "wire format");
_Static_assert(sizeof(uct_glex_sr_t) == 24, "wire format");
_Static_assert(sizeof(uct_glex_zc_iov_t) == 16, "wire format");
_Static_assert(sizeof(uct_glex_zc_t) == 24, "wire format");

#endif

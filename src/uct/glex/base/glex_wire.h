/*
 * The wire format of the glex transport: message headers, event encodings, packed keys and
 * addresses. docs/protocol.md describes their meaning. All integers are little-endian, and the
 * compiler checks sizes. A change of the format raises UCT_GLEX_WIRE_VERSION.
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

/* Capacity of an immediate MP and of an immediate RDMA put (paper 003, section 6) */
#define UCT_GLEX_MP_LEN      112
#define UCT_GLEX_IMM_PUT_LEN 96

/* Device address: the place of the NIC, and the version of the protocol */
typedef struct uct_glex_device_addr {
    uint32_t nic_id;
    uint16_t version;
    uint16_t host;    /* a hash of the host's identity, for messages only; 0: not known */
    uint64_t fabric;  /* identity of the host's fabric: processes on a fabric share memory */
    uint64_t network; /* identity of the network between hosts; 0: none */
    uint32_t space;   /* identity of the processes that reach each other's private memory; 0: no
                       * zero-copy */
} UCS_S_PACKED uct_glex_device_addr_t;

/* Interface address: an endpoint on the NIC. `uuid` tells the interface from earlier and later
 * owners of the endpoint number. */
typedef struct uct_glex_iface_addr {
    uint64_t ep_addr;
    uint32_t uuid;
} UCS_S_PACKED uct_glex_iface_addr_t;

/* Packed memory key: everything a peer needs for RDMA to a registration */
typedef struct uct_glex_packed_rkey {
    uint64_t ep_addr; /* the endpoint that holds the registration */
    uint64_t mh;
    uint64_t address; /* start of the registration in the owner's address space */
    uint64_t length;
    uint32_t key;
    uint32_t windows; /* 0: `mh` is the handle of the registration. Otherwise the number of windows,
                       * and `mh` is a table in the owner's memory with 8 bytes for the handle of
                       * each window. */
} UCS_S_PACKED uct_glex_packed_rkey_t;

/* Offsets in RDMA requests have 32 bits. A longer registration consists of windows that begin every
 * 2 GiB. Windows overlap, so the longest request fits into the window of its first byte. */
#define UCT_GLEX_WINDOW_SHIFT 31
#define UCT_GLEX_WINDOW_MAX   (3ul << 30)
#define UCT_GLEX_MAX_RDMA     (1ul << 30)
#define UCT_GLEX_MAX_REG      (1ul << 48) /* longest registration: more than a process can map */

/* Number of windows of a registration */
static inline unsigned uct_glex_num_windows(uint64_t length)
{
    return (length <= UCT_GLEX_WINDOW_MAX) ?
               1 :
               (length + (1ul << UCT_GLEX_WINDOW_SHIFT) - 1) >> UCT_GLEX_WINDOW_SHIFT;
}

/* The window of a request that begins at `offset`. An empty request at the end belongs to the last
 * window. */
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
    UCT_GLEX_EVENT_PUTS    /* OP for a request to the own endpoint that follows earlier puts */
};

enum uct_glex_flag {
    UCT_GLEX_FLAG_ACK = UCS_BIT(0),  /* acknowledges a CTL or ACCEPT */
    UCT_GLEX_FLAG_ZC = UCS_BIT(1),   /* the data is a zero-copy descriptor */
    UCT_GLEX_FLAG_MORE = UCS_BIT(2), /* AM, SR: the sender wants more credits */
    UCT_GLEX_FLAG_WRAP = UCS_BIT(2), /* ER: the message begins at the first unit */
    UCT_GLEX_FLAG_UNITS = UCS_BIT(3) /* slots: the message is in the units */
};

/* Every header returns credits by totals (modulo 2^16). So a header may be repeated or
 * overtaken. */
typedef union uct_glex_credits {
    struct {
        uint16_t length;          /* ER: of the message; else 0 */
        uint16_t mp_limit;        /* total of data MPs that the receiver of this header may send */
        uct_glex_fifo_count_t er; /* totals that the sender of this header has consumed */
    };
    uint64_t word;
} uct_glex_credits_t;

/* The first 16 bytes of an MP, or an event: `word` is cookie_1, the credits are cookie_0. Code
 * composes and reads each word as a whole, in registers. Loading a word just after storing a part
 * of the word is slow. */
typedef struct uct_glex_hdr {
    union {
        struct {
            uint8_t type_am; /* type 0..2, active message 3..7 */
            uint8_t flags;   /* enum uct_glex_flag */
            uint32_t vc_id;  /* the receiver's name of the VC; 0 in CONNECT */
            uint16_t seq;    /* AM, SR and ER: number of the message in its VC and direction.
                              * CONNECT: uct_glex_vc_mark(), for the sender alone. */
        } UCS_S_PACKED;
        uint64_t word;
    };
    uct_glex_credits_t credits;
} uct_glex_hdr_t;

#define UCT_GLEX_TYPE_MASK 0x7

/* Adds 1 to a field of a word. The field has the highest bits, so an overflow is lost. */
#define UCT_GLEX_HDR_ONE_SEQ     (UINT64_C(1) << 48)
#define UCT_GLEX_CREDITS_ONE_MSG (UINT64_C(1) << 48)

/* ---- the FIFO of a channel ---- */

/* Alignment of a FIFO, in its registration and in each mapping */
#define UCT_GLEX_ER_ALIGN 64

/* Behind the units, a FIFO has control words and a ring of slots, for a borrower that maps the
 * FIFO. Message n of a borrower is in slot n modulo 128. MPI programs often send windows of 64
 * messages. Two windows fit, so the next window begins while the last window is received. */
#define UCT_GLEX_FIFO_SLOTS 128u

/* Longest message in a slot */
#define UCT_GLEX_SLOT_DATA 56

/* Two cache lines. The first line is read for each message, and seldom written. */
typedef struct uct_glex_fifo_ctrl {
    struct {
        uint32_t armed;       /* not 0: the lender does not poll the FIFO. The lender sets the word.
                               * A borrower that publishes a message clears the word, and rings. */
        uint32_t needs_fence; /* the lender cannot call membarrier(): the borrower needs a fence
                               * before it loads `armed` */
    } UCS_V_ALIGNED(64);
    struct {
        uint32_t credits; /* totals consumed, uct_glex_fifo_count_t; the lender writes */
        uint32_t wanted;  /* not 0: the borrower needs a message with the credits, too. The lender
                           * stores 1 at first, then the borrower writes. */
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

/* Bytes of a FIFO beside its units */
#define UCT_GLEX_FIFO_RING_SIZE                                                                    \
    (sizeof(uct_glex_fifo_ctrl_t) + UCT_GLEX_FIFO_SLOTS * sizeof(uct_glex_slot_t))

/* Whether `word` is the word of message `num` of the borrower, not an earlier word of the slot */
static inline int uct_glex_slot_is_new(uint64_t word, uint16_t num)
{
    return ((uint16_t)word == (uint16_t)(num + 1)) && ((int64_t)word < 0); /* the sign is bit 63 */
}

/* Bits of a word with the length and the active message's id. The usual message is in its slot, and
 * is the next message to be delivered. Its other bits are known in advance. */
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
    UCT_GLEX_CTL_ER_RELEASED = UCS_BIT(5) /* the FIFO is returned after er_sent messages */
};

typedef struct uct_glex_ctl {
    uint16_t version;
    uint16_t flags;
    uint32_t vc_id;    /* the sender's name of the VC; the receiver writes this name to its
                        * headers */
    uint32_t uuid;     /* CONNECT: the target interface */
    uint32_t src_uuid; /* the sender's interface */
    uint64_t fifo_mh;  /* ER_GRANT: registration that holds the FIFO */
    union {
        uint32_t fifo_offset; /* ER_GRANT: from the start of the registration, in bytes */
        uint32_t gone_id;     /* CONNECT: the receiver's name of the VC that the sender has given
                               * up, or 0 */
    };
    uint16_t fifo_units;     /* ER_GRANT: length in units, a power of two */
    uint16_t fifo_msgs;      /* ER_GRANT: most messages in flight of a borrower that does not map
                              * the FIFO */
    uint16_t fifo_index;     /* ER_GRANT: the FIFO's name, for REVOKE and RELEASED */
    uint8_t fifo_gen;        /* ER_GRANT: tells successive borrowers of an index apart */
    uint8_t unit_shift;      /* ER_GRANT: log2 of the unit size */
    uint32_t key;            /* key of the sender's endpoint, for RDMA to it */
    uint16_t er_sent;        /* ER_RELEASED: messages sent through FIFOs of the VC, in all */
    uint16_t revoked_index;  /* ER_REVOKE: which FIFO */
    uint16_t released_index; /* ER_RELEASED: which FIFO */
    uint8_t revoked_gen;
    uint8_t released_gen;
    uint8_t spacing_shift; /* ER_GRANT: log2 of the spacing of long messages: unit_shift or more */
} UCS_S_PACKED uct_glex_ctl_t;

enum uct_glex_end_flag {
    UCT_GLEX_END_ORDERLY = UCS_BIT(0), /* the sender's interface closes; else the VC failed */
    UCT_GLEX_END_CLAIMS = UCS_BIT(1),  /* the sender does not access the receiver's memory for this
                                        * VC any more */
    UCT_GLEX_END_WORD = UCS_BIT(2),    /* the sender waits until the claim word is vc_id */
    UCT_GLEX_END_UNKNOWN = UCS_BIT(3)  /* the sender does not know the VC, or refuses a CONNECT:
                                        * last_seq and rx_seq mean nothing */
};

typedef struct uct_glex_end {
    uint16_t version;
    uint16_t flags;
    uint32_t vc_id;       /* the sender's name of the VC, even if the sender does not know the VC;
                           * 0: a CONNECT is refused */
    uint32_t uuid;        /* the receiver's interface; of a refused CONNECT, the `uuid` of the
                           * CONNECT */
    uint32_t src_uuid;    /* the sender's interface */
    uint32_t key;         /* key of the sender's endpoint, for the claim word */
    uint32_t word_offset; /* offset of the claim word in its registration */
    uint64_t word_mh;
    uint16_t last_seq; /* sequence number after the sender's last message */
    uint16_t rx_seq;   /* messages of the receiver that the sender has delivered, in all */
} UCS_S_PACKED uct_glex_end_t;

/* END as a message */
typedef struct uct_glex_end_msg {
    uct_glex_hdr_t hdr;
    uct_glex_end_t end;
} uct_glex_end_msg_t;

/* SR announcement: fetch `length` bytes at (mh, offset). The remote event of the Get contains
 * op_id. */
typedef struct uct_glex_sr {
    uint64_t mh;
    uint32_t offset;
    uint32_t length;
    uint32_t op_id;
    uint32_t resv;
} UCS_S_PACKED uct_glex_sr_t;

/* Data in an MP beside its header: also the limit of am_short on any channel */
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

/* In the word of a zero-copy message, in place of its op_id: the sender has cancelled the message,
 * and the fetched payload is not valid */
#define UCT_GLEX_ZC_INVALID UINT64_MAX

/* The data of a message with the ZC flag: the AM header follows the iov entries */
typedef struct uct_glex_zc {
    uint32_t op_id; /* in the remote event of the last Get, the Get of the word */
    uint16_t iovcnt;
    uint16_t header_length;
    uint32_t length;      /* sum of the iov entries */
    uint32_t word_offset; /* place of the word, which tells whether the payload is valid */
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

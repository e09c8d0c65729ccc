/*
 * All that the glex transport puts on the wire: message headers, event encodings, packed keys and
 * addresses. docs/protocol.md tells what they mean to each other. Little-endian, sizes are checked
 * at compile time; a change of any of them raises UCT_GLEX_WIRE_VERSION.
 */
#ifndef UCT_GLEX_WIRE_H
#define UCT_GLEX_WIRE_H

#include <ucs/sys/compiler_def.h>
#include <ucs/sys/math.h>
#include <stdint.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the wire format is little-endian and so must the machine be"
#endif

#define UCT_GLEX_WIRE_VERSION 3

/* What one immediate MP and one immediate RDMA put carry (paper 003, section 6) */
#define UCT_GLEX_MP_LEN      112
#define UCT_GLEX_IMM_PUT_LEN 96

/* Device address: where it is, and whether both sides speak the same protocol */
typedef struct uct_glex_device_addr {
    uint32_t nic_id;
    uint16_t version;
    uint16_t space; /* of processes that reach each other's private memory */
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
    uint32_t resv;
} UCS_S_PACKED uct_glex_packed_rkey_t;

/* ---- messages (MP) ---- */

enum uct_glex_mp_type {
    UCT_GLEX_MP_CONNECT = 1, /* body: ctl, and perhaps a message. Needs no credit: the MPQ keeps a
                              * reserve */
    UCT_GLEX_MP_ACCEPT,      /* body: ctl */
    UCT_GLEX_MP_CTL,         /* body: ctl. One at a time until acknowledged */
    UCT_GLEX_MP_ACK,         /* no body: acknowledges a CTL or ACCEPT */
    UCT_GLEX_MP_RESET,       /* body: ctl: the interface or the VC that is meant does not exist */
    UCT_GLEX_MP_AM,          /* body: active message data. Costs a credit */
    UCT_GLEX_MP_SR           /* body: sr: data waits in a send unit. Costs a credit */
};

enum uct_glex_mp_flag {
    UCT_GLEX_MP_FLAG_ACK  = UCS_BIT(0), /* acknowledges a CTL or ACCEPT */
    UCT_GLEX_MP_FLAG_MORE = UCS_BIT(1), /* the sender wants more credits */
    UCT_GLEX_MP_FLAG_ZC   = UCS_BIT(2), /* the data is a zero-copy descriptor */
    UCT_GLEX_MP_FLAG_FIRST    = UCS_BIT(3), /* CONNECT: the first message follows ctl */
    UCT_GLEX_MP_FLAG_FIRST_SR = UCS_BIT(4)  /* CONNECT: that is an sr */
};
#define UCT_GLEX_MP_EPOCH_SHIFT 12 /* the limit's epoch, in the upper bits of the flags */
#define UCT_GLEX_EPOCH_MASK     0xf

/* Cumulative counters (modulo 2^16) in every header return credits: repeating or overtaking does
 * no harm. */
typedef struct uct_glex_mp_hdr {
    uint8_t  type;
    uint8_t  am_id;
    uint16_t seq;      /* of the message in its VC and direction; AM and SR only */
    uint32_t vc_id;    /* the receiver's name of the VC; 0 in CONNECT */
    uint16_t mp_limit; /* so many data MPs may the receiver of this header send, in all */
    uint16_t er_units; /* FIFO units that the sender of this header consumed, in all */
    uint16_t er_msgs;  /* ER messages that the sender of this header consumed, in all */
    uint16_t flags;
} UCS_S_PACKED uct_glex_mp_hdr_t;

enum uct_glex_ctl_flag {
    UCT_GLEX_CTL_CREDIT      = UCS_BIT(0), /* nothing but the header's counters */
    UCT_GLEX_CTL_ER_REQUEST  = UCS_BIT(1), /* lend me a FIFO */
    UCT_GLEX_CTL_ER_GRANT    = UCS_BIT(2), /* here is a FIFO: fifo_* fields */
    UCT_GLEX_CTL_ER_NACK     = UCS_BIT(3), /* no FIFO now */
    UCT_GLEX_CTL_ER_REVOKE   = UCS_BIT(4), /* give the FIFO back */
    UCT_GLEX_CTL_ER_RELEASED = UCS_BIT(5), /* the FIFO is not used after er_sent messages */
    UCT_GLEX_CTL_RECALL      = UCS_BIT(6), /* lower your MP limit to recall_limit if you can */
    UCT_GLEX_CTL_RECALLED    = UCS_BIT(7)  /* lowered to recalled_limit */
};

typedef struct uct_glex_ctl {
    uint16_t version;
    uint16_t flags;
    uint32_t vc_id;        /* the sender's name of the VC: what is sent back must bear it. RESET: the
                            * name that is not known */
    uint32_t uuid;         /* CONNECT: of the interface that is meant */
    uint32_t src_uuid;     /* of the sender's interface */
    uint64_t fifo_mh;      /* ER_GRANT: registration that holds the FIFO */
    uint32_t fifo_offset;  /* ER_GRANT: from the start of the registration, in bytes */
    uint16_t fifo_units;   /* ER_GRANT: length in units, a power of two */
    uint16_t fifo_msgs;    /* ER_GRANT: messages that may be on their way at once */
    uint16_t fifo_index;   /* ER_GRANT: the FIFO's name in events */
    uint8_t  fifo_gen;     /* ER_GRANT: distinguishes successive borrowers of one index */
    uint8_t  unit_shift;   /* ER_GRANT: log2 of the unit size */
    uint32_t key;          /* key of the sender's endpoint, for RDMA to it */
    uint16_t recall_limit; /* RECALL: of the receiver's MPs */
    uint16_t recalled_limit; /* RECALLED: of the sender's MPs */
    uint16_t er_sent;      /* ER_RELEASED: messages sent through the FIFO, in all */
    uint16_t revoked_index; /* ER_REVOKE: which FIFO */
    uint16_t released_index; /* ER_RELEASED: which FIFO */
    uint8_t  revoked_gen;
    uint8_t  released_gen;
    uint32_t resv;         /* aligns the first message */
} UCS_S_PACKED uct_glex_ctl_t;

/* SR announcement: fetch `length` bytes of (mh, offset); the remote event of the Get tells op_id */
typedef struct uct_glex_sr {
    uint64_t mh;
    uint32_t offset;
    uint32_t length;
    uint32_t op_id;
    uint32_t resv;
} UCS_S_PACKED uct_glex_sr_t;

/* What fits of a first message into a CONNECT */
#define UCT_GLEX_FIRST_LEN (UCT_GLEX_MP_LEN - sizeof(uct_glex_mp_hdr_t) - sizeof(uct_glex_ctl_t))

/* What fits into an MP beside its header: also the limit of am_short on any channel */
#define UCT_GLEX_MP_DATA_LEN (UCT_GLEX_MP_LEN - sizeof(uct_glex_mp_hdr_t))

/* ---- zero copy ---- */

typedef struct uct_glex_zc_iov {
    uint64_t mh;
    uint32_t offset;
    uint32_t length;
} UCS_S_PACKED uct_glex_zc_iov_t;

/* The data of a message with the ZC flag: the AM header follows the iov entries */
typedef struct uct_glex_zc {
    uint32_t          op_id; /* told by the remote event of the last Get */
    uint16_t          iovcnt;
    uint16_t          header_length;
    uint32_t          length; /* sum of the iov entries */
    uint32_t          resv;
    uct_glex_zc_iov_t iov[];
} UCS_S_PACKED uct_glex_zc_t;

/* ---- events ---- */

/* Kind of an event: the lowest bits of cookie_1, never 0 */
enum uct_glex_event_type {
    UCT_GLEX_EVENT_ER = 1, /* a message in a FIFO */
    UCT_GLEX_EVENT_OP = 2  /* the request with op_id = cookie_1 >> 32 has completed */
};
#define UCT_GLEX_EVENT_TYPE_MASK 0x7

enum uct_glex_er_flag {
    UCT_GLEX_ER_FLAG_WRAP = UCS_BIT(0), /* the message begins at the FIFO's start */
    UCT_GLEX_ER_FLAG_ACK  = UCS_BIT(1), /* as UCT_GLEX_MP_FLAG_ACK */
    UCT_GLEX_ER_FLAG_ZC   = UCS_BIT(2)  /* as UCT_GLEX_MP_FLAG_ZC */
};
#define UCT_GLEX_ER_EPOCH_SHIFT 4 /* the limit's epoch, in the upper bits of the flags */

/* An ER message's header is its event:
 *   cookie_0: length 0..23, flags 24..31, er_units 32..47, er_msgs 48..63
 *   cookie_1: type 0..2, am_id 3..7, fifo_index 8..23, fifo_gen 24..31, seq 32..47, mp_limit 48..63
 */
#define UCT_GLEX_ER_MAX_LENGTH 0xffffffU

static inline uint64_t uct_glex_er_cookie_0(uint32_t length, unsigned flags, uint16_t er_units,
                                            uint16_t er_msgs)
{
    uint32_t consumed = er_units | ((uint32_t)er_msgs << 16); /* one load in a sender's memory */

    return length | (flags << 24) | ((uint64_t)consumed << 32);
}

/* The part of cookie_1 that stays the same for all messages through one FIFO */
static inline uint64_t uct_glex_er_cookie_1_base(uint16_t fifo_index, uint8_t fifo_gen)
{
    return UCT_GLEX_EVENT_ER | ((uint64_t)fifo_index << 8) | ((uint64_t)fifo_gen << 24);
}

static inline uint64_t uct_glex_er_cookie_1(uint64_t base, uint8_t am_id, uint16_t seq,
                                            uint16_t mp_limit)
{
    return base | ((uint64_t)am_id << 3) | ((uint64_t)seq << 32) | ((uint64_t)mp_limit << 48);
}

static inline uint64_t uct_glex_op_cookie_1(uint32_t op_id)
{
    return UCT_GLEX_EVENT_OP | ((uint64_t)op_id << 32);
}

_Static_assert(sizeof(uct_glex_device_addr_t) == 8, "wire format");
_Static_assert(sizeof(uct_glex_iface_addr_t) == 12, "wire format");
_Static_assert(sizeof(uct_glex_packed_rkey_t) == 40, "wire format");
_Static_assert(sizeof(uct_glex_mp_hdr_t) == 16, "wire format");
_Static_assert(sizeof(uct_glex_ctl_t) == 56, "wire format");
_Static_assert(sizeof(uct_glex_mp_hdr_t) + sizeof(uct_glex_ctl_t) <= UCT_GLEX_MP_LEN, "wire format");
_Static_assert(sizeof(uct_glex_sr_t) == 24, "wire format");
_Static_assert(sizeof(uct_glex_sr_t) <= UCT_GLEX_FIRST_LEN, "wire format");
_Static_assert(sizeof(uct_glex_zc_iov_t) == 16, "wire format");
_Static_assert(sizeof(uct_glex_zc_t) == 16, "wire format");

#endif

/*
 * The messages of the provider: active messages of UCT. docs/ofi.md, "The protocol", describes
 * them. All integers are little-endian, as on all machines of GLEX.
 *
 * The first 8 bytes of every message are its header:
 *
 *   bits  0..23  peer     the receiver's number for the sender; GFI_NO_PEER in HELLO
 *   bits 24..35  src_ep   sending endpoint
 *   bits 36..47  dst_ep   destination endpoint
 *   bits 48..63  flags    GFI_HDR_*
 */
#ifndef GFI_WIRE_H
#define GFI_WIRE_H

#include <stdint.h>

#define GFI_WIRE_VERSION 7

#define GFI_PEER_BITS   24
#define GFI_EP_BITS     12
#define GFI_NO_PEER     ((1u << GFI_PEER_BITS) - 1)
#define GFI_MAX_EPS     (1u << GFI_EP_BITS)
#define GFI_SRC_SHIFT   GFI_PEER_BITS
#define GFI_DST_SHIFT   (GFI_PEER_BITS + GFI_EP_BITS)
#define GFI_FLAGS_SHIFT (GFI_DST_SHIFT + GFI_EP_BITS)

/* The source of a message for matching: the sender's number and its endpoint */
#define GFI_SOURCE_MASK ((1ull << GFI_DST_SHIFT) - 1)

/* Flags of a header */
enum {
    GFI_HDR_DATA = 1 << 0,   /* 8 bytes of remote CQ data follow */
    GFI_HDR_ACK = 1 << 1,    /* 8 bytes follow, an operation's id: answer by FIN when delivered */
    GFI_HDR_TAGGED = 1 << 2, /* RTS: of a tagged message */
    GFI_HDR_READ = 1 << 3,   /* RMA_EVENT: of a read */
};

/* Ids of the active messages. TAGGED and MSG carry, in this order: header, tag (TAGGED), data,
 * id of the operation, as the flags say; then the message itself. The others carry one
 * structure. */
enum {
    GFI_AM_TAGGED = 1,
    GFI_AM_MSG,
    GFI_AM_RTS,
    GFI_AM_CTS,
    GFI_AM_DATA,
    GFI_AM_FIN,
    GFI_AM_HELLO,
    GFI_AM_BYE,
    GFI_AM_PRESSURE,
    GFI_AM_KEY_REQUEST,
    GFI_AM_KEY_REPLY,
    GFI_AM_KEY_REVOKE,
    GFI_AM_RMA_EVENT,
    GFI_AM_ATOMIC,
    GFI_AM_ATOMIC_REPLY,
    GFI_AM_RMA_WRITE,
    GFI_AM_RMA_READ,
    GFI_AM_RMA_REPLY,
    GFI_AM_LAST
};

#define GFI_MAX_UCT_ADDR 56
#define GFI_MAX_RKEY     96

/* Address of an endpoint, for fi_getname() and fi_av_insert(), 64 bytes */
struct gfi_addr {
    uint8_t version;    /* GFI_WIRE_VERSION */
    uint8_t device_len; /* of bytes[]: the device address of UCT, */
    uint8_t iface_len;  /* then the interface address; the rest is 0 */
    uint8_t resv;
    uint16_t ep; /* endpoint in its domain */
    uint16_t resv2;
    uint8_t bytes[GFI_MAX_UCT_ADDR];
};
_Static_assert(sizeof(struct gfi_addr) == 64, "addresses have 64 bytes");

/* First message of a domain to another one, once in each direction */
struct gfi_hello {
    uint64_t header;  /* peer is GFI_NO_PEER */
    uint32_t your_id; /* put this number into messages to the sender */
    uint32_t resv;
    struct gfi_addr addr; /* my domain's; ep is 0 */
} __attribute__((packed));

/* Last message of a domain that is closed in good order */
struct gfi_bye {
    uint64_t header;
} __attribute__((packed));

/* A long message is announced, and fetched by the receiver or streamed by the sender */
struct gfi_rts {
    uint64_t header;
    uint64_t tag;
    uint64_t data;
    uint64_t length;
    uint64_t op;       /* the sender's operation: named in CTS and FIN */
    uint64_t addr;     /* where the message lies in the sender's memory */
    uint32_t rkey_len; /* 0: cannot be fetched */
    uint32_t resv;
    uint8_t rkey[]; /* UCT's packed remote key */
} __attribute__((packed));

/* Stream me so much of the message */
struct gfi_cts {
    uint64_t header;
    uint64_t op;     /* the sender's operation */
    uint64_t recv;   /* the receiver's: named in DATA */
    uint64_t length; /* the part that fits into the receive, at most the announced length */
} __attribute__((packed));

/* A piece of a streamed message; pieces come in order */
struct gfi_data {
    uint64_t header;
    uint64_t recv;
    uint64_t offset;
    uint8_t bytes[];
} __attribute__((packed));

/* An operation of the receiver of this message is over */
struct gfi_fin {
    uint64_t header;
    uint64_t op;
    uint32_t error; /* 0, or an FI_ error */
    uint32_t resv;
} __attribute__((packed));

/* Keep messages with yourself and only announce them (on), or send them again (off) */
struct gfi_pressure {
    uint64_t header;
    uint64_t on;
} __attribute__((packed));

/* Tell me the registration of a key, and its part with an address */
struct gfi_key_request {
    uint64_t header;
    uint64_t key;
    uint64_t at; /* address as initiators name it */
} __attribute__((packed));

struct gfi_key_reply {
    uint64_t header;
    uint64_t key;
    uint64_t at;     /* of the request */
    uint64_t base;   /* lowest address that the initiator may name */
    uint64_t length; /* up to the highest one */
    uint32_t error;  /* 0, or FI_EKEYREJECTED: no such key */
    uint32_t access; /* FI_REMOTE_READ, FI_REMOTE_WRITE */
    uint32_t events; /* FI_REMOTE_READ, FI_REMOTE_WRITE: accesses that RMA_EVENT reports */
    uint32_t part_access;
    uint64_t part_base;   /* address that the initiator names for the first byte of the part */
    uint64_t part_addr;   /* where that byte lies in the target's memory */
    uint64_t part_length; /* 0: no part has the address */
    uint32_t rkey_len;
    uint32_t resv;
    uint8_t rkey[]; /* of the part */
} __attribute__((packed));

/* The registration was closed, or its reported accesses have changed: forget the key */
struct gfi_key_revoke {
    uint64_t header;
    uint64_t key;
} __attribute__((packed));

/* An access to the target's memory is over: a write with remote CQ data (GFI_HDR_DATA), or one that
 * the target wants to count */
struct gfi_rma_event {
    uint64_t header;
    uint64_t key;
    uint64_t data;
    uint64_t length;
    uint64_t ack; /* the initiator's operation that waits for FIN, or GFI_NO_OP */
} __attribute__((packed));

#define GFI_NO_OP UINT64_MAX

/* The result of an atomic operation */
enum gfi_atomic_kind {
    GFI_ATOMIC_BASE,    /* fi_atomic(): nothing */
    GFI_ATOMIC_FETCH,   /* fi_fetch_atomic(): the previous values */
    GFI_ATOMIC_COMPARE, /* fi_compare_atomic(): the same, and it takes values to compare with */
    GFI_ATOMIC_KINDS
};

/* Bytes of operands, of values to compare with, and of results, at most */
#define GFI_ATOMIC_BYTES 4096

/* An atomic operation on registered memory. `count` operands follow, unless `op` is FI_ATOMIC_READ;
 * then, if `kind` is GFI_ATOMIC_COMPARE, as many values to compare with. */
struct gfi_atomic_request {
    uint64_t header;
    uint64_t id; /* the initiator's operation */
    uint64_t addr, key;
    uint32_t count;
    uint8_t datatype; /* enum fi_datatype */
    uint8_t op;       /* enum fi_op */
    uint8_t kind;     /* enum gfi_atomic_kind */
    uint8_t resv;
    uint8_t bytes[];
} __attribute__((packed));

/* An atomic operation is done, or refused. The previous values follow, unless `kind` was
 * GFI_ATOMIC_BASE. */
struct gfi_atomic_reply {
    uint64_t header;
    uint64_t id;
    uint32_t error; /* 0, or an FI_ error; then no values follow */
    uint32_t resv;
    uint8_t bytes[];
} __attribute__((packed));

/* A piece of a write to memory that the NIC does not reach. The bytes follow. The target copies them and
 * answers. */
struct gfi_rma_write {
    uint64_t header;
    uint64_t id;     /* the initiator's operation */
    uint64_t offset; /* of the piece in the operation */
    uint64_t addr, key;
    uint8_t bytes[];
} __attribute__((packed));

/* A piece of a read, in the same way: send me these bytes */
struct gfi_rma_read {
    uint64_t header;
    uint64_t id;
    uint64_t offset;
    uint64_t addr, key;
    uint64_t length;
} __attribute__((packed));

/* The piece is done, or refused. The bytes of a read follow. */
struct gfi_rma_reply {
    uint64_t header;
    uint64_t id;
    uint64_t offset;
    uint32_t error; /* 0, or an FI_ error; then no bytes follow */
    uint32_t resv;
    uint8_t bytes[];
} __attribute__((packed));

/* Longest part before the bytes of TAGGED, MSG and DATA */
#define GFI_MAX_PREFIX 32
/* The least that am_bcopy must carry: the longest of the structures above */
#define GFI_MIN_BCOPY 256

static inline uint64_t gfi_header(uint32_t peer, uint64_t src_ep, uint64_t dst_ep, uint64_t flags)
{
    return peer | src_ep << GFI_SRC_SHIFT | dst_ep << GFI_DST_SHIFT | flags << GFI_FLAGS_SHIFT;
}

static inline uint32_t gfi_header_peer(uint64_t header)
{
    return header & GFI_NO_PEER;
}

static inline unsigned gfi_header_dst(uint64_t header)
{
    return (header >> GFI_DST_SHIFT) & (GFI_MAX_EPS - 1);
}

static inline unsigned gfi_header_flags(uint64_t header)
{
    return header >> GFI_FLAGS_SHIFT;
}

#endif

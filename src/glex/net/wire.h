/*
 * The contents of frames between endpoints of different hosts; all numbers are little endian. A
 * frame is its header (engine.h) and records without gaps. The length of a record is a multiple of
 * 8 bytes.
 *
 * Requests go from the side that made the connection to the other side, and are numbered from 0.
 * Replies come back. The header of a frame of replies has the numbers of executed requests and
 * consumed bytes; see docs/hosts.md.
 */
#ifndef GLEX_NET_WIRE_H
#define GLEX_NET_WIRE_H

#include "base/common.h"

enum net_op {
    NET_OP_MP = 1,  /* a message: its header is 8 bytes short */
    NET_OP_IMM_PUT, /* put of the data behind it */
    NET_OP_EVENT,   /* an event alone */
    NET_OP_PUT,     /* a piece of a put; the last one ends the request */
    NET_OP_GET,
    NET_OP_DATA,    /* reply: a piece of a get's data */
    NET_OP_REFUSED, /* reply: the request failed */
    NET_OP_COLL     /* a collective request. A collective RDMA put sends it after all pieces of the
                     * put, and no piece has NET_FLAG_LAST */
};

enum net_flag {
    NET_FLAG_REMOTE_EVT = 1, /* the event's cookies are to go into the target's EQ */
    NET_FLAG_NO_LOSS = 2,    /* wait for room in a full queue */
    NET_FLAG_LAST = 4,       /* of NET_OP_PUT */
    NET_FLAG_ASK = 8,        /* a thread waits for its end: acknowledge at once */
    NET_FLAG_DOMAIN = 16     /* `mh` and `key` belong to the target's domain */
};

/* Kinds of NET_OP_COLL. The lowest bits are the flags GLEX_COLL_AT_TARGET of glex.h, shifted. */
enum net_coll {
    NET_COLL_FLAGS = 15,
    NET_COLL_IMM_PUT = 16, /* else an MP */
    NET_COLL_PUT = 32
};

#define NET_COLL_SHIFT 10

/* Of a frame: the receiver must acknowledge at once. */
#define NET_FRAME_ASK 1u

struct net_record {
    uint8_t op;      /* of enum net_op */
    uint8_t flags;   /* of enum net_flag */
    uint16_t status; /* of NET_OP_REFUSED: glex_err_req_status; of NET_OP_COLL: enum net_coll */
    uint32_t len;    /* of the data behind this header, which is padded to 8 bytes */
    uint32_t key;    /* of the target endpoint */
    uint32_t offset; /* of the request, in the registration */
    uint64_t mh;
    uint32_t total;     /* of the request */
    uint32_t pos;       /* of this piece; in replies: within the get */
    uint64_t cookie[2]; /* of the event; in replies [0] is the request's number */
};

#define NET_MP_HEADER 8u

static inline size_t net_header_size(uint8_t op)
{
    return op == NET_OP_MP ? NET_MP_HEADER : sizeof(struct net_record);
}

static inline size_t net_padded(size_t len)
{
    return (len + 7) & ~(size_t)7;
}

#ifndef __cplusplus
_Static_assert(sizeof(struct net_record) == 48, "wire format");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the other order is not supported");
#endif

#endif

/*
 * The link between libglex and the emulated network: a Unix socket of type SEQPACKET, in place of
 * the PCIe bus between a host and its NIC. The socket's path is the value of GLEX_INM.
 *
 * The client sends one hello and gets one back. From then on each message is 1 to 64 records; a
 * record is a time and a descriptor, little-endian. A record from the client is put into the send
 * queue of its NIC; a record to the client comes from the MPQ of its virtual port.
 *
 * The time is nanoseconds of the emulator's clock: in a request when it was posted, at the
 * earliest; in an answer when it arrived. With the real clock requests' times are ignored, and
 * those of answers are 0.
 */
#ifndef COMMON_NMP_LINK_H
#define COMMON_NMP_LINK_H

#include "nmp.h"

#include <assert.h>

#define INM_LINK_MAGIC   0x4b4e494c4d4e49ull /* "INMLINK" */
#define INM_LINK_VERSION 1u
#define INM_LINK_BATCH   64
#define INM_LINK_ANY_NIC 0xffffffffu /* the topology's server */

struct inm_link_hello {
    uint64_t magic;
    uint32_t version;
    uint32_t nic_id;   /* wanted; in the answer: given */
    uint32_t vp;       /* in the answer: the virtual port that answers and reports go to */
    uint32_t status;   /* in the answer: 0, or an errno */
    uint32_t modelled; /* in the answer: whether times are modelled */
    uint32_t reserved;
};
static_assert(sizeof(struct inm_link_hello) == 32, "no gaps");

struct inm_link_record {
    uint64_t time_ns;
    uint8_t desc[NMP_DESC_BYTES];
};
static_assert(sizeof(struct inm_link_record) == 72, "no gaps");

#endif

/* One request to the administration, and the records of its answer. */
#ifndef MCSM_QUERY_H
#define MCSM_QUERY_H

#include "mad/mads.h"

enum {
    /* Attributes of subnet administration. */
    MCSM_SA_CLASS_PORT_INFO = 0x01,
    MCSM_SA_NOTICE = 0x02,
    MCSM_SA_INFORM_INFO = 0x03,
    MCSM_SA_NODE = 0x11,
    MCSM_SA_PORT = 0x12,
    MCSM_SA_SWITCH = 0x14,
    MCSM_SA_LFT = 0x15,
    MCSM_SA_MFT = 0x17,
    MCSM_SA_SM_INFO = 0x18,
    MCSM_SA_LINK = 0x20,
    MCSM_SA_GUID_INFO = 0x30,
    MCSM_SA_SL2VL = 0x13,
    MCSM_SA_VLARB = 0x36,
    MCSM_SA_SERVICE = 0x31,
    MCSM_SA_PKEY = 0x33,
    MCSM_SA_PATH = 0x35,
    MCSM_SA_MC_MEMBER = 0x38,
    MCSM_SA_INFORM = 0xf3,

    /* Status of an answer. */
    MCSM_SA_BAD_METHOD_ATTR = 0x000c,
    MCSM_SA_NO_RESOURCES = 0x0100,
    MCSM_SA_INVALID = 0x0200,
    MCSM_SA_NO_RECORDS = 0x0300,
    MCSM_SA_TOO_MANY = 0x0400,
    MCSM_SA_BAD_GID = 0x0500,
    MCSM_SA_FEW_COMPONENTS = 0x0600,
    MCSM_SA_DENIED = 0x0700,

    /* In ClassPortInfo: optional records, UD multicast, PortInfoRecord by parts of the capability
     * mask. */
    MCSM_SA_CAPABILITIES = 1 << 8 | 1 << 9 | 1 << 13,
    /* In CapabilityMask2: MulticastFDBTop in SwitchInfoRecord, all components of PortInfoRecord, extended
     * speeds, send-only full members; and with rules QoS. */
    MCSM_SA_CAPABILITIES2 = 1 << 3 | 1 << 6 | 1 << 7 | 1 << 12,
    MCSM_SA_QOS = 1 << 1,

    MCSM_MAX_RECORDS = 65536 /* in an answer */
};

struct mcsm_sa;

struct mcsm_query {
    struct mcsm_sa *sa;
    const struct mcsm_addr *from;
    const struct mcsm_port *client; /* the client's end port; NULL: not in this cluster */
    const uint8_t *mad;
    const uint8_t *data; /* the record asked for */
    uint64_t mask;
    uint8_t method;
    uint16_t attr;
    size_t record_size;
    uint8_t *out; /* records found, each record_size rounded up to 8 */
    size_t count, room;
    uint16_t status;
};

/* A component of a record: bits from..from+length-1. Entry i belongs to bit i of the mask. */
struct mcsm_component {
    uint16_t from, length;
};

/** Whether a record has the values that the query asks for. */
bool mcsm_matches(const struct mcsm_query *query, const uint8_t *record,
                  const struct mcsm_component *components, size_t count);

/** Append a record to the answer. False when there is no more room. */
bool mcsm_answer_add(struct mcsm_query *query, const uint8_t *record);

/** Bytes from one record of the answer to the next. */
size_t mcsm_answer_step(const struct mcsm_query *query);

static inline bool mcsm_asks(const struct mcsm_query *query, int component)
{
    return query->mask >> component & 1;
}

/* The kinds of values that a query selects by "greater than", "less than", "exactly", "largest". */
enum mcsm_scale { MCSM_SCALE_MTU, MCSM_SCALE_RATE, MCSM_SCALE_LIFE };

/** Chooses a value that is not better than `best` and satisfies `asked` (a selector in the two
 * highest bits and a code). False if no such value exists. */
bool mcsm_select(enum mcsm_scale scale, uint8_t asked, uint8_t best, uint8_t *chosen_p);

#endif

/* Common declarations of the files of the administration. */
#ifndef MCSM_SA_INSIDE_H
#define MCSM_SA_INSIDE_H

#include "rate.h"
#include "sa.h"

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

    /* How much of anything is kept for clients. */
    MCSM_MAX_GROUPS = 4096,
    MCSM_MAX_MEMBERS = 65536,
    MCSM_MAX_SERVICES = 4096,
    MCSM_MAX_SUBSCRIPTIONS = 4096,
    MCSM_MAX_RECORDS = 65536,

    MCSM_FULL_MEMBER = 1,
    MCSM_NON_MEMBER = 2,
    MCSM_SEND_ONLY = 4,
    MCSM_SEND_ONLY_FULL = 8, /* as a full member it keeps the group alive */
    MCSM_JOIN_STATES = 15
};

struct mcsm_member {
    struct mcsm_member *next;
    uint64_t port_guid;
    uint8_t gid[16];
    uint8_t state;
    bool proxy;
};

struct mcsm_group {
    uint8_t mgid[16];
    UT_hash_handle hh;
    uint8_t record[52]; /* MCMemberRecord without port and state */
    uint16_t mlid;
    bool permanent; /* of a partition */
    struct mcsm_member *members;
    struct mcsm_group *next_alike; /* with the same MLID */
};

struct mcsm_service {
    struct mcsm_service *next;
    uint8_t record[176];
    uint64_t owner;   /* port GUID */
    uint64_t expires; /* milliseconds; 0: never */
};

struct mcsm_subscription {
    struct mcsm_subscription *next;
    uint8_t record[36]; /* InformInfo */
    uint64_t owner;
    struct mcsm_addr to;
};

struct mcsm_sa {
    struct mcsm_sm *sm;
    struct mcsm_mads *reports;
    struct mcsm_group *groups;
    struct mcsm_group **by_mlid; /* the first group of each MLID */
    struct mcsm_service *services;
    struct mcsm_subscription *subscriptions;
    struct mcsm_standbys *standbys;
    uint64_t next_expiry;
    bool announced;
    bool inherited; /* from a former master: owners may be gone */
    struct mcsm_sa_counters stats;
};

/* One request and the records of its answer. */
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

static inline bool mcsm_asks(const struct mcsm_query *query, int component)
{
    return query->mask >> component & 1;
}

/** The tables of attributes. */
void mcsm_sa_fabric(struct mcsm_query *query); /* nodes, ports, switches, tables, links, managers */
void mcsm_sa_path(struct mcsm_query *query);
void mcsm_sa_mc_member(struct mcsm_query *query);
void mcsm_sa_service(struct mcsm_query *query);
void mcsm_sa_inform(struct mcsm_query *query);

/** Makes the groups of partitions (-ENOMEM); removes members that are gone. */
int mcsm_groups_start(struct mcsm_sa *sa);
void mcsm_groups_drop(struct mcsm_sa *sa, uint64_t port_guid);
/** Remove the registrations of ports that the fabric does not have. */
void mcsm_groups_prune(struct mcsm_sa *sa);
void mcsm_services_prune(struct mcsm_sa *sa);
void mcsm_subscriptions_prune(struct mcsm_sa *sa);
void mcsm_groups_free(struct mcsm_sa *sa);
void mcsm_services_drop(struct mcsm_sa *sa, uint64_t port_guid, uint64_t now);
void mcsm_services_free(struct mcsm_sa *sa);
void mcsm_subscriptions_drop(struct mcsm_sa *sa, uint64_t port_guid);
void mcsm_subscriptions_free(struct mcsm_sa *sa);

/** Notifies subscribers: trap 64 to 67 with a GID. */
void mcsm_sa_gid_notice(struct mcsm_sa *sa, unsigned trap, const uint8_t gid[16]);

/** Returns the partition key that two ports share, with the membership bit; 0 if the ports share no
 * key, or if both memberships are limited. */
uint16_t mcsm_common_pkey(const struct mcsm_port *a, const struct mcsm_port *b);
bool mcsm_has_pkey(const struct mcsm_port *port, uint16_t pkey);

/* The kinds of values that a query selects by "greater than", "less than", "exactly", "largest". */
enum mcsm_scale { MCSM_SCALE_MTU, MCSM_SCALE_RATE, MCSM_SCALE_LIFE };

/** Chooses a value that is not better than `best` and satisfies `asked` (a selector in the two
 * highest bits and a code). False if no such value exists. */
bool mcsm_select(enum mcsm_scale scale, uint8_t asked, uint8_t best, uint8_t *chosen_p);

/** Ports of the way from one end port to a LID, inside of the cluster. Calls `hop` with each port
 * that a packet leaves through. Returns the number of hops, or -1 if there is no way: then *reason
 * says why. *left_p: the border port through which it leaves the cluster, or NULL. */
int mcsm_sa_walk(const struct mcsm_sm *sm, const struct mcsm_port *from, uint16_t lid,
                 void (*hop)(void *arg, const struct mcsm_port *port), void *arg,
                 const struct mcsm_port **left_p, const char **reason);

#endif

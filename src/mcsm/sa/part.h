/*
 * The parts of the administration. Each part is a file. A part serves some attributes, and keeps
 * registrations in struct mcsm_sa. sa.c has the list of parts, and calls the functions of each
 * part's table. A new attribute is a line in the table of a part. A new part is a line in the list.
 */
#ifndef MCSM_PART_H
#define MCSM_PART_H

#include "query.h"
#include "sa.h"

enum {
    /* How much of anything is kept for clients. */
    MCSM_MAX_GROUPS = 4096,
    MCSM_MAX_MEMBERS = 65536,
    MCSM_MAX_SERVICES = 4096,
    MCSM_MAX_SUBSCRIPTIONS = 4096,

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
    struct mcsm_standbys *standbys; /* NULL while mcsm_sa_new() and mcsm_sa_free() run: the standbys
                                     * keep the registrations */
    struct mcsm_group *groups;
    struct mcsm_group **by_mlid; /* the first group of each MLID */
    struct mcsm_service *services;
    struct mcsm_subscription *subscriptions;
    uint64_t next_expiry;
    bool announced;
    bool inherited; /* the registrations come from a former master, so their owners may be gone */
    struct mcsm_sa_counters stats;
};

/* An attribute and the size of its record. Either `serve` answers any request. Or `add` gets each
 * port of the cluster, and adds the records of the port that match a Get or GetTable. */
struct mcsm_sa_record {
    uint16_t attr, size;
    void (*serve)(struct mcsm_query *query);
    void (*add)(struct mcsm_query *query, const struct mcsm_port *port);
};

/* Functions may be NULL. Arguments `arg` are the administration. */
struct mcsm_sa_part {
    const struct mcsm_sa_record *records;
    size_t record_count;
    const struct mcsm_state_ops *states; /* records for standby managers */
    size_t state_count;
    int (*start)(struct mcsm_sa *sa); /* -ENOMEM */
    void (*end)(struct mcsm_sa *sa);
    /* Removes the registrations of a port that is gone; of all ports that are gone, if `gone` is 0:
     * mcsm_sa_is_gone(). */
    void (*drop)(struct mcsm_sa *sa, uint64_t gone);
    void (*expire)(struct mcsm_sa *sa, uint64_t now);
};

extern const struct mcsm_sa_part mcsm_sa_fabric; /* nodes, ports, tables, links, managers */
extern const struct mcsm_sa_part mcsm_sa_paths;
extern const struct mcsm_sa_part mcsm_sa_groups;
extern const struct mcsm_sa_part mcsm_sa_services;
extern const struct mcsm_sa_part mcsm_sa_subscriptions;

/** Whether the request has the secret SM_Key of the cluster. */
bool mcsm_sa_is_trusted(const struct mcsm_query *query);

/** Whether the owner of a registration is the port `gone`; if `gone` is 0, whether the cluster has no
 * port with the GUID of the owner. */
bool mcsm_sa_is_gone(const struct mcsm_sa *sa, uint64_t owner, uint64_t gone);

/** Notifies subscribers: trap 64 to 67 with a GID. */
void mcsm_sa_gid_notice(struct mcsm_sa *sa, unsigned trap, const uint8_t gid[16]);

#endif

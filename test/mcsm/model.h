/*
 * A small model of switches and hosts, for features that ibsim lacks: delivery of multicast
 * packets, traps of every kind, M_Keys, RMPP, malformed answers. Nodes answer SMPs as in IBTA
 * volume 1, chapter 14, inside the process.
 */
#ifndef MCSM_MODEL_H
#define MCSM_MODEL_H

#include "health/health.h"
#include "sa/sa.h"
#include "sm/sm.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    MODEL_PORTS = 16,
    MODEL_NODES = 64,
    MODEL_LIDS = 1024,
    MODEL_MLIDS = 256,
    MODEL_PKEYS = 128,
    MODEL_REQUESTS = 4096
};

struct model_node {
    uint64_t guid, m_key;
    bool sw;
    uint8_t nports;
    struct {
        int peer;
        uint8_t peer_port;
        uint8_t info[64];
        uint8_t pkeys[MODEL_PKEYS * 2];
        uint8_t counters[64];              /* PortCounters */
        uint8_t wide[64];                  /* PortCountersExtended */
        uint8_t sl2vl[MODEL_PORTS + 1][8]; /* by input; a host has one table */
        uint8_t vlarb[4][64];
    } ports[MODEL_PORTS + 1];
    uint8_t sw_info[64];
    uint8_t lft[MODEL_LIDS];
    uint16_t mft[MODEL_MLIDS];
    uint64_t smps;       /* that it received */
    uint64_t violations; /* of these, SMPs with a wrong M_Key */
    bool asked_again;    /* ClientReregister was set */
    bool fixed_lanes;    /* ignores Sets of SL2VL and VLArb */
    unsigned lane_sets;  /* Sets of SL2VL and VLArb that it received */
};

struct model_packet {
    struct model_packet *next;
    struct mcsm_addr to;
    bool error;
    size_t length;
    uint8_t mad[];
};

struct model {
    struct model_node nodes[MODEL_NODES];
    int count;
    struct model_manager *managers[MODEL_NODES]; /* by their host */
    unsigned loss;                               /* of 100 packets */
    unsigned mutate;                             /* of 100 answers: bytes at random */
    unsigned seed;
    bool no_wide; /* no port has PortCountersExtended */
};

/* A manager and its administration on a host of the model. */
struct model_manager {
    struct model *model;
    int host;
    struct mcsm_config *config;
    struct mcsm_mads *smps, *reports, *polls;
    struct mcsm_health *health;
    uint64_t later; /* milliseconds that the clock of health is ahead */
    struct mcsm_sm *sm;
    struct mcsm_standbys *standbys;
    struct mcsm_sa *sa;
    struct model_packet *inbox, **inbox_end;
    uint64_t sa_key; /* SM_Key of requests by model_sa() */
    uint8_t *answer; /* the last packet of class SA that it sent */
    size_t answer_length;
    struct mcsm_addr answer_to;
    bool confirmed[MODEL_REQUESTS];   /* by transaction ID: it was answered without an error */
    unsigned state_sent;              /* MADs to standbys, and answers to a master */
    uint8_t state_mad[MCSM_MAD_SIZE]; /* the last of them that was delivered */
    unsigned reports_sent, repressed;
    uint8_t sm_info[MCSM_MAD_SIZE]; /* its last answer to SMInfo */
    uint8_t order[MCSM_MAD_SIZE];   /* its last Set of SMInfo */
    bool deaf;                      /* answers no SMInfo, as a dead manager does */
    bool waits;                     /* before it hands over, until the standby is ready */
    unsigned events;
    char event[32];       /* the last one */
    char event_log[1024]; /* names of all events */
};

void model_start(struct model *model);
int model_add(struct model *model, uint64_t guid, bool sw, uint8_t nports);
void model_link(struct model *model, int a, uint8_t a_port, int b, uint8_t b_port);

/** Two switches, nodes 0 and 1, with one link, and four hosts, nodes 2 to 5, by turns at both. */
void model_two_switches(struct model *model);
void model_unlink(struct model *model, int a, uint8_t a_port);

/** Deliver a packet to a manager. */
void model_deliver(struct model_manager *manager, const struct mcsm_addr *from, const uint8_t *mad);

/** `text` is a configuration. NULL and a message if it is wrong. */
struct model_manager *model_manager_new(struct model *model, int host, const char *text);
void model_manager_free(struct model_manager *manager);

/** Let it work until it is idle, for at most `rounds`. */
void model_run(struct model_manager *manager, int rounds);

/** `seconds` later: the manager polls all counters if it is time, and works until it is idle. */
void model_health(struct model_manager *manager, unsigned seconds);

/** An SA request of a host; the answer is manager->answer. `data` is 200 bytes or NULL. Returns the
 * status of the answer; -1 if there was none. */
int model_sa(struct model_manager *manager, uint16_t from_lid, uint8_t method, uint16_t attr,
             uint64_t mask, const uint8_t *data);

/** Where a packet to a LID arrives: the node, or -1. `hops` may be NULL. */
int model_route(const struct model *model, int from, uint16_t lid, int *hops);

/** How often each node receives one multicast packet. False if the packet goes in a circle. */
bool model_multicast(const struct model *model, int from, uint16_t mlid, int *received);

#ifdef __cplusplus
}
#endif

#endif

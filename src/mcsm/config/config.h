/*
 * The configuration of one cluster: the contents of the file of `mcsm -f`, checked, with defaults.
 *
 * The file has sections [cluster], [border], [neighbour NAME], [routing], [port], [multicast],
 * [sweep], [health], [partition NAME], [group NAME], [rule NAME]; mcsm.conf(5) describes every key.
 * The border of a cluster consists of border ports: ports of its own switches with links to switches
 * of other clusters (paper 001, "Independent logical clustering"). The lines of [border] are
 *
 *     GUID/PORT = NEIGHBOUR PEER-GUID/PEER-PORT [transit] [joint]
 *
 * `transit` allows routes to other clusters through the port. `joint` continues the multicast tree
 * of the cluster through the port.
 */
#ifndef MCSM_CONFIG_H
#define MCSM_CONFIG_H

#include "base/log.h"
#include "qos.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum {
    MCSM_NAME_MAX = 31,
    MCSM_LID_MAX = 0xbfff, /* the highest unicast LID: there are 49,151 */
    MCSM_MAX_DIMENSIONS = 16,
    MCSM_MLID_MIN = 0xc000
};

/* LASH are the routes of MINHOP with lanes. TORUS are the routes of a recognised grid, or of DOR with
 * lanes. AUTO is UPDN in a cluster with transit ports. Otherwise, AUTO is TORUS on a grid and LASH on
 * other fabrics. */
enum mcsm_engine {
    MCSM_ENGINE_MINHOP,
    MCSM_ENGINE_UPDN,
    MCSM_ENGINE_DOR,
    MCSM_ENGINE_LASH,
    MCSM_ENGINE_TORUS,
    MCSM_ENGINE_AUTO
};

/* Unicast LIDs from..to, both included; none if from > to. */
struct mcsm_range {
    uint16_t from;
    uint16_t to;
};

/* One line of a GUID-to-LID database. */
struct mcsm_lid_entry {
    uint64_t guid;
    uint16_t lid;
};

/* Sorted by GUID. */
struct mcsm_lid_db {
    struct mcsm_lid_entry *entries;
    size_t count;
};

struct mcsm_border {
    uint64_t guid; /* of our switch */
    uint64_t peer_guid;
    uint8_t port;
    uint8_t peer_port;
    uint8_t neighbour; /* index into neighbours */
    bool transit;
    bool joint;
    int line;
};

struct mcsm_neighbour {
    char name[MCSM_NAME_MAX + 1];
    char via_name[MCSM_NAME_MAX + 1]; /* empty: adjacent */
    int via; /* the next neighbour on the route; the neighbour itself if adjacent */
    struct mcsm_range lids;
    struct mcsm_lid_db db; /* count 0: only the range is known */
    int line;
    char passes_names[512];
    bool passes[256]; /* packets from it may go on to these clusters, by index */
};

struct mcsm_partition {
    char name[MCSM_NAME_MAX + 1];
    uint16_t pkey; /* without the membership bit */
    bool ipoib;    /* has IPoIB's broadcast group */
    uint8_t sl, mtu, rate;
    uint32_t qkey;
    bool all, all_full; /* every end port is a member */
    uint64_t *full;     /* port GUIDs */
    size_t full_count;
    uint64_t *limited;
    size_t limited_count;
    int line;
};

struct mcsm_dimension {
    uint8_t ports[16];
    uint8_t count;
};

struct mcsm_config {
    char path[256];
    char name[MCSM_NAME_MAX + 1];
    uint64_t port_guid; /* 0: the first port of the host */
    uint64_t subnet_prefix;
    uint64_t sm_key;
    uint64_t m_key;
    uint64_t m_key_before; /* ports may still have it; 0: none */
    uint64_t shown_sm_key; /* the SM_Key in SMInfo */
    bool sm_key_given, m_key_given;
    uint8_t m_key_bits;
    uint16_t m_key_lease; /* seconds; 0: protection never ends */
    char on_event[200];   /* the event command */
    uint8_t priority;
    uint8_t lmc;
    struct mcsm_range lids;
    struct mcsm_lid_db db; /* count 0: LIDs from the range's minimum upwards */
    char state_dir[200];
    char socket[108];
    char metrics_file[200];
    char log_file[200];
    enum mcsm_log_level log_level;

    struct mcsm_border *borders;
    size_t border_count;
    struct mcsm_neighbour *neighbours;
    size_t neighbour_count;

    enum mcsm_engine engine;
    bool contract_only_named; /* contract = report: also write routes that exceed the contract */
    uint64_t *roots;
    size_t root_count;
    struct mcsm_dimension dimensions[MCSM_MAX_DIMENSIONS];
    size_t dimension_count;

    uint8_t max_mtu;    /* IBTA code: 1 is 256 bytes, 5 is 4096 */
    uint8_t max_op_vls; /* IBTA code: 1 is VL0, 2 VL0-1, 3 VL0-3, 4 VL0-7, 5 VL0-14 */
    uint8_t link_width; /* bits to enable; 0: leave */
    uint8_t subnet_timeout;
    uint8_t packet_life;
    uint8_t head_of_queue_life;
    uint8_t leaf_head_of_queue_life; /* of switch ports to hosts */
    bool enforce_partitions;
    bool set_sl2vl;
    bool own_levels;   /* the file gives service levels: sl2vl is written */
    bool shares_lanes; /* each of these levels may have several lanes for the routes */
    uint8_t classes[16], class_count; /* these levels and level 0, ascending, without sl2vl */
    uint8_t sl2vl[16];                /* of one-lane routes */
    bool set_vlarb;
    uint8_t vlarb_high[32][2], vlarb_low[32][2]; /* VL, weight */
    uint8_t vlarb_high_limit;

    uint16_t mlids;
    uint8_t multicast_sl; /* of all groups; not 0: groups have a separate lane */

    unsigned sweep_interval; /* seconds between light sweeps; 0: only traps */
    unsigned window;         /* SMPs in flight */
    unsigned timeout;        /* of one MAD, in milliseconds */
    unsigned retries;
    unsigned standby_interval; /* seconds between two polls of the master */

    /* Times are in seconds; a limit of 0 is no limit. */
    unsigned health_interval; /* between two polls of the counters; 0: no polls */
    unsigned health_errors, health_flaps, health_window;
    unsigned health_hold, health_hold_max;

    struct mcsm_partition *partitions;
    size_t partition_count;
    struct mcsm_qos qos;
};

/** Reads and checks a file. Writes each error to `err` as a line "FILE:LINE: the error, and a right
 * value". Returns the configuration, which the caller frees, or NULL. */
struct mcsm_config *mcsm_config_read(const char *path, FILE *err);
void mcsm_config_free(struct mcsm_config *config);

/** Finds contradictions between the configurations of one fabric: overlapping LIDs, a border that
 * only one side knows, different names, circles of routes or of multicast joints. Writes one line
 * per contradiction to `err`. Returns the number of contradictions. */
int mcsm_config_cross_check(struct mcsm_config *const *configs, size_t count, FILE *err);

/** Read a GUID-to-LID database: lines "GUID LID", sorted by GUID in *db_p. On error -EINVAL,
 * -ENOMEM, or the error of the file, with messages. */
int mcsm_lid_db_read(const char *path, FILE *err, struct mcsm_lid_db *db_p);

/** The LID of a GUID; 0 if the database has none. */
uint16_t mcsm_lid_db_find(const struct mcsm_lid_db *db, uint64_t guid);

/** The GUID of a LID; 0 if the database has none. */
uint64_t mcsm_lid_db_guid(const struct mcsm_lid_db *db, uint16_t lid);

/** Returns the first LID that two clusters may assign; 0 if the clusters have no common LID. An
 * empty database stands for its whole range. */
unsigned mcsm_common_lid(const struct mcsm_lid_db *a, struct mcsm_range ra,
                         const struct mcsm_lid_db *b, struct mcsm_range rb);

/** Returns whether routes to other clusters leave this cluster. */
bool mcsm_config_has_transit(const struct mcsm_config *config);

/** Returns whether a chain of waiting packets may lead from border port `e` to `f`: the order of the
 * clusters allows it, or packets to a cluster behind `f` may enter by `e`, or both ports are joints of
 * groups on lane 0. */
bool mcsm_config_allows(const struct mcsm_config *config, const struct mcsm_border *e,
                        const struct mcsm_border *f);

/** The border port of the configuration at this port, or NULL. */
const struct mcsm_border *mcsm_config_border(const struct mcsm_config *config, uint64_t guid,
                                             uint8_t port);

/** Returns the virtual lane of a service level on a link with `lanes` lanes, 15 if packets of the
 * level are dropped. Levels whose lane the link lacks share the lanes that the link has, but not the
 * lane of groups. For configurations with own_levels. */
uint8_t mcsm_config_lane(const struct mcsm_config *config, uint8_t sl, int lanes);

const char *mcsm_engine_name(enum mcsm_engine engine);

static inline bool mcsm_range_has(struct mcsm_range range, unsigned lid)
{
    return lid >= range.from && lid <= range.to;
}

#endif

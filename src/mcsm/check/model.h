/*
 * mcsm-check's view of a whole fabric: the dumps of all clusters, combined. mcsm-check reads the
 * dumps and derives everything from the tables, so mcsm-check does not share the manager's errors.
 */
#ifndef MCSM_CHECK_MODEL_H
#define MCSM_CHECK_MODEL_H

#include "fabric/fabric.h"
#include "route/graph.h"

enum {
    CHECK_MLIDS = 16384,
    CHECK_SHOWN = 20 /* listed faults of one kind; further faults are counted */
};

struct check_node {
    uint64_t guid;
    UT_hash_handle hh;
    bool sw;
    uint8_t nports;
    int cluster;
    int index;    /* among the switches */
    int hosts;    /* end nodes at a switch */
    int attached; /* switch of an end node; -1: none */
    uint8_t port; /* port of this switch */
    uint16_t lid; /* LID of a switch, or the first LID of an end node */
    char desc[65];
};

struct check_link {
    uint64_t a, b;
    uint8_t a_port, b_port;
    bool border;
};

/* One entry of a multicast table. */
struct check_mft {
    uint64_t guid;
    uint16_t mlid;
    uint64_t ports[4];
};

/* The levels of one switch to the others of its cluster, in the order of GUIDs, or how levels select
 * lanes at its ports (route/graph.h). */
struct check_lanes {
    uint64_t guid;
    char *digits;
};

struct check_border {
    uint64_t guid, peer_guid;
    uint8_t port, peer_port;
    int cluster;
};

struct check_model {
    char (*clusters)[MCSM_NAME_MAX + 1];
    size_t cluster_count;
    struct check_node *nodes;
    struct check_node **switches;
    int switch_count;
    int host_count;
    struct check_link *links;
    size_t link_count;
    struct check_border *borders;
    size_t border_count;
    struct check_mft *mfts;
    size_t mft_count;
    struct check_lanes *lanes, *rings; /* rows as they were read */
    size_t lanes_count, rings_count;
    uint8_t multicast_sl; /* 0: groups share lane 0 */
    uint64_t *lid_owner;  /* by LID: the node */
    uint8_t *lid_port;
    struct check_lft {
        uint64_t guid;
        uint8_t *ports;
        UT_hash_handle hh;
    } *lfts;
    struct mcsm_graph *graph;
    unsigned lid_conflicts;
};

/* The findings. */
struct check_report {
    uint64_t pairs, reachable; /* of end nodes, by LID */
    uint64_t hops_sum;
    unsigned hops_max;
    uint64_t by_hops[256];
    uint64_t max_load, load_sum;
    int max_load_link; /* a port number of the graph */
    size_t loaded_links;
    uint64_t loops, lost; /* pairs whose route is a circle, or ends before the destination */
    /* Pairs of a host and the LID of a switch of another cluster, without a route. */
    uint64_t hidden;
    unsigned lid_conflicts, one_sided_borders;
    unsigned groups, multicast_loops, multicast_cut;
    int credit_loop;
    double seconds;
};

/** Read one dump. -ENOMEM, or another error with a message "FILE:LINE: ..." on stderr. */
int check_read(struct check_model *model, const char *path);

/** After all dumps: number the switches, connect them. -ENOMEM, or -EINVAL with a message. */
int check_connect(struct check_model *model);
void check_free(struct check_model *model);

struct check_node *check_find(const struct check_model *model, uint64_t guid);

/** Judge everything; faults are listed on `out` (NULL: not). -ENOMEM. */
int check_verify(struct check_model *model, struct check_report *report, FILE *out);
bool check_is_good(const struct check_report *report);

void check_print(const struct check_model *model, const struct check_report *report, FILE *out);
void check_print_json(const struct check_model *model, const struct check_report *report,
                      FILE *out);

/** The fabric with its clusters and the load of each link. 0 or -errno. */
int check_picture(const struct check_model *model, const struct check_report *report,
                  const char *path);

#endif

/*
 * A topology: the chips, their places, and the wires between their ports. The emulator makes its
 * network from a topology. The server compares the discovered network with a topology.
 *
 * Chips are numbered: first all NRCs, then all NICs. A chip's id is its number within its kind.
 * Ports have one number over all chips, see inm_topo_port().
 *
 * Names of chips say where they stand:
 *   r12f3n5   rack 12, frame 3, NRC 5 of its bottom switch      (chips 0..3 edge, 4..5 spine)
 *   r12f3h31  the same frame, NIC of host 31
 *   l5s2b13   leaf cabinet 5, set 2, leaf switch 13
 *   t3b17n4   top (root) cabinet 3, board (root switch) 17, NRC 4
 *   nrc7 nic9 any chip by its id
 * A port is written chip:port, as in r12f3n5:23.
 */
#ifndef INM_TOPO_H
#define INM_TOPO_H

#include "inm/wire/regs.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INM_NONE     0xffffffffu
#define INM_NAME_MAX 32

enum inm_level {
    INM_LEVEL_NIC,
    INM_LEVEL_BOTTOM_EDGE,  /* NRCs of a bottom switch that hosts are wired to */
    INM_LEVEL_BOTTOM_SPINE, /* bottom NRCs with links to leaf switches */
    INM_LEVEL_LEAF,
    INM_LEVEL_ROOT_EDGE, /* NRCs of a root switch that leaf switches are wired to */
    INM_LEVEL_ROOT_SPINE,
    INM_LEVEL_NUM
};

struct inm_chip {
    uint8_t type;     /* enum nmp_chip */
    uint8_t level;    /* enum inm_level */
    uint8_t frame;    /* frame of a rack, set of a leaf cabinet; 0 in a root cabinet */
    uint8_t slot;     /* NRC or host within the board */
    uint16_t cabinet; /* number among the cabinets of its kind */
    uint16_t index;   /* of the board in its frame */
    uint32_t board;   /* switch that the chip belongs to, numbered through */
};

/* A fat tree of three stages of switches. All counts; 24 ports at each NRC are not exceeded. */
struct inm_tree {
    uint32_t racks;         /* with hosts */
    uint32_t service_racks; /* without: only their switches are there */
    uint32_t racks_a_group; /* racks that share a set of leaf switches */
    uint32_t frames;        /* of a rack; each has one bottom switch */
    uint32_t hosts;         /* of a frame */
    uint32_t bottom_edges, bottom_spines, bottom_links; /* links: edge to spine, each pair */
    uint32_t leaves;         /* leaf switches of a group; each bottom switch has a link to each */
    uint32_t leaf_uplinks;   /* of a leaf switch; so many root switches are wired to it */
    uint32_t sets_a_cabinet; /* groups of leaf switches in a leaf cabinet */
    uint32_t root_edges, root_spines, root_links;
    uint32_t roots_a_cabinet;
};

struct inm_topo {
    char name[INM_NAME_MAX];
    struct inm_tree tree; /* all 0: the topology lists its chips */
    uint32_t num_nrc, num_nic, num_boards;
    uint32_t server;        /* chip: the NIC of the management server */
    struct inm_chip *chips; /* num_nrc + num_nic */
    uint32_t *peer;         /* by port: the port at the other end, or INM_NONE */
    uint32_t num_links;
};

static inline uint32_t inm_topo_chips(const struct inm_topo *topo)
{
    return topo->num_nrc + topo->num_nic;
}

static inline uint32_t inm_topo_ports(const struct inm_topo *topo)
{
    return topo->num_nrc * INM_NRC_PORTS + topo->num_nic;
}

/** The number of a chip's port. */
static inline uint32_t inm_topo_port(const struct inm_topo *topo, uint32_t chip, uint32_t port)
{
    return chip < topo->num_nrc ? chip * INM_NRC_PORTS + port :
                                  topo->num_nrc * (INM_NRC_PORTS - 1) + chip;
}

static inline uint32_t inm_topo_port_chip(const struct inm_topo *topo, uint32_t port)
{
    uint32_t nrc_ports = topo->num_nrc * INM_NRC_PORTS;

    return port < nrc_ports ? port / INM_NRC_PORTS : topo->num_nrc + port - nrc_ports;
}

static inline uint32_t inm_topo_port_index(const struct inm_topo *topo, uint32_t port)
{
    return port < topo->num_nrc * INM_NRC_PORTS ? port % INM_NRC_PORTS : 0;
}

static inline uint32_t inm_chip_ports(const struct inm_topo *topo, uint32_t chip)
{
    return chip < topo->num_nrc ? INM_NRC_PORTS : INM_NIC_PORTS;
}

static inline uint32_t inm_chip_id(const struct inm_topo *topo, uint32_t chip)
{
    return chip < topo->num_nrc ? chip : chip - topo->num_nrc;
}

/** The chip with that type and id, or INM_NONE. */
uint32_t inm_topo_find(const struct inm_topo *topo, unsigned type, uint32_t id);

/**
 * Make a topology. `what` is "th2" (Tianhe-2 at full size), "small" (2 groups of it, made smaller),
 * or the path of a file (docs/inm.md, "Topologies").
 * @param [out] error  What is wrong, with the file's line. May not be NULL.
 * @return NULL with `error` set. The caller frees it with inm_topo_free().
 */
struct inm_topo *inm_topo_make(const char *what, char *error, size_t size);

/** Makes a topology from the numbers of a tree. */
struct inm_topo *inm_topo_tree(const char *name, const struct inm_tree *tree, char *error,
                               size_t size);

/** Makes a topology from a file. */
struct inm_topo *inm_topo_read(const char *path, char *error, size_t size);

/** Makes a topology without wires. inm_topo_wire() adds the wires. NULL: no memory. */
struct inm_topo *inm_topo_new(uint32_t num_nrc, uint32_t num_nic);

void inm_topo_free(struct inm_topo *topo);

/** Wires two ports. @return false: a port has a wire already, or the two ports are the same. */
bool inm_topo_wire(struct inm_topo *topo, uint32_t a, uint32_t b);

/** The name of a chip, and of a port. @return `buf`. */
const char *inm_chip_name(const struct inm_topo *topo, uint32_t chip, char buf[INM_NAME_MAX]);
const char *inm_port_name(const struct inm_topo *topo, uint32_t port, char buf[INM_NAME_MAX]);

/** For people: "rack 12, frame 3, chip 5". */
const char *inm_chip_place(const struct inm_topo *topo, uint32_t chip, char buf[64]);

/** The chip, or port, of a name; INM_NONE if there is none. */
uint32_t inm_chip_parse(const struct inm_topo *topo, const char *name);
uint32_t inm_port_parse(const struct inm_topo *topo, const char *name);

/** The name of the switch, or of the cabinet, that a chip belongs to. */
const char *inm_board_name(const struct inm_topo *topo, uint32_t chip, char buf[INM_NAME_MAX]);
const char *inm_cabinet_name(const struct inm_topo *topo, uint32_t chip, char buf[INM_NAME_MAX]);

/** Cabinets are numbered through: racks, leaf cabinets, root cabinets. */
uint32_t inm_topo_cabinets(const struct inm_topo *topo);
uint32_t inm_chip_cabinet(const struct inm_topo *topo, uint32_t chip);

const char *inm_level_name(unsigned level);

#endif

/*
 * The contract by border port prevents circles of full channels over several clusters, whose
 * managers do not communicate. docs/mcsm.md has the proof.
 *
 * The matrix of a cluster has an entry (e, f) for each pair of border ports. Packets enter the
 * cluster by e and leave by f. The entry is set if a chain of channel dependencies inside the
 * cluster leads from e to f. The configuration names the allowed pairs (passes-to). A manager
 * writes only tables whose matrix stays within the allowed pairs. mcsm-check --config proves that
 * the allowed pairs of all clusters form no circle.
 */
#ifndef MCSM_CONTRACT_H
#define MCSM_CONTRACT_H

#include "mcast.h"

/* A border port that is up. */
struct mcsm_gate {
    int sw;
    uint8_t port;
    uint8_t neighbour;
    bool transit, joint;
    bool entry; /* unicast packets of the neighbour may come in, because routes lead to it */
};

struct mcsm_contract {
    const struct mcsm_gate *gates;
    size_t count;
    const int *via;      /* of each LID: the neighbour it leaves to; -1: a LID of this cluster */
    const bool *allowed; /* [entry][exit] */
    const bool *enters;  /* [neighbour][cluster]: packets to that cluster may come in from there */
    const int *cluster;  /* for each LID: its cluster, as an index of `enters`; -1: the own
                          * cluster */
    size_t clusters;
    const struct mcsm_tree *tree; /* NULL: groups have a separate lane */
    bool *closed; /* of each gate: packets of groups do not leave by it; NULL: none is closed */
};

struct mcsm_contract_result {
    bool broken; /* routes of the engine exceeded the contract, or missed, and were replaced */
    unsigned left_out; /* (switch, LID) pairs that have no route because of the contract */
    unsigned hidden; /* (border switch, switch) pairs: packets of other clusters do not get there */
    int example_sw;
    uint16_t example_lid;
    unsigned closed; /* joints by which packets of groups may not leave */
};

/** Computes the matrix of lane 0: contract->count times contract->count. -ENOMEM. */
int mcsm_contract_matrix(const struct mcsm_graph *graph, const struct mcsm_contract *contract,
                         bool *matrix);

/**
 * Changes routes to other clusters until the matrix stays within the allowed pairs. If packets of
 * groups share lane 0 and exceed the contract, marks joints in contract->closed. -ENOMEM.
 */
int mcsm_contract_keep(struct mcsm_graph *graph, const struct mcsm_contract *contract,
                       struct mcsm_contract_result *result);

#endif

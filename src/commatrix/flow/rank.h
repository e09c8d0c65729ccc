/*
 * MPI ranks in the first bytes of messages.
 *
 * MPI libraries match messages by the rank of the sender, which therefore stands in the first
 * packet of each message. docs/commatrix.md lists the formats. Only messages of MPI_COMM_WORLD are
 * looked at: in other communicators ranks are other numbers.
 */
#ifndef CM_RANK_H
#define CM_RANK_H

#include "traffic.h"

extern const char *const cm_mpi_names[CM_NUM_MPI];

/* If the packet begins a message of a known format: let its rank be voted for. */
void cm_rank_vote(struct cm_vote votes[CM_NUM_MPI], const struct cm_packet *packet);

/* The ranks of a traffic: of each queue pair whose rank is known. */
struct cm_ranks;

/*
 * Decide which MPI library it is, and so the ranks of all queue pairs. Returns NULL where no
 * message tells a rank; *why_p then says so, to be freed by g_free().
 */
struct cm_ranks *cm_ranks_new(const struct cm_traffic *traffic, char **why_p);

enum cm_mpi cm_ranks_mpi(const struct cm_ranks *ranks);

/* The rank of the process that owns a queue pair of an address, or -1. */
int64_t cm_ranks_of(const struct cm_ranks *ranks, uint32_t address, uint32_t qpn);

void cm_ranks_free(struct cm_ranks *ranks);

#endif

/*
 * MPI ranks in the first bytes of messages.
 *
 * MPI libraries match messages by the rank of the sender. The first packet of each message bears
 * the rank. docs/commatrix.md lists the formats. Only messages of MPI_COMM_WORLD vote:
 * other communicators number their ranks anew.
 */
#ifndef CM_RANK_H
#define CM_RANK_H

#include "traffic.h"

extern const char *const cm_mpi_names[CM_NUM_MPI];

/** If the packet begins a message of a known format: let its rank be voted for. */
void cm_rank_vote(struct cm_vote votes[CM_NUM_MPI], const struct cm_packet *packet);

/* The processes of a traffic. */
struct cm_ranks;

struct cm_process {
    uint32_t job; /* from 1; 0: not known */
    int64_t rank; /* -1: not known */
};

/**
 * Finds the MPI library and the processes. `hosts` has the number of the host of each address: two
 * addresses of a host have one number. NULL: each address is a host.
 *
 * A rank of a job runs on one host. Two hosts with the same rank belong to different jobs if no
 * traffic connects the hosts. If traffic connects the hosts, the ranks are wrong and are not used.
 *
 * Returns NULL if no message tells a rank. *why_p then has the reason, to be freed by g_free().
 */
struct cm_ranks *cm_ranks_new(const struct cm_traffic *traffic, const uint32_t *hosts,
                              char **why_p);

enum cm_mpi cm_ranks_mpi(const struct cm_ranks *ranks);

/** How many jobs there are, and the number of ranks of a job. */
uint32_t cm_ranks_jobs(const struct cm_ranks *ranks);
uint32_t cm_ranks_size(const struct cm_ranks *ranks, uint32_t job);

/** The number of processes with contradicting ranks. */
uint32_t cm_ranks_refuted(const struct cm_ranks *ranks);

/** The process that owns a queue pair of an address. */
struct cm_process cm_ranks_of(const struct cm_ranks *ranks, uint32_t address, uint32_t qpn);

void cm_ranks_free(struct cm_ranks *ranks);

#endif

#include "rank.h"

#include <endian.h>
#include <string.h>

const char *const cm_mpi_names[CM_NUM_MPI] = {
    [CM_MPI_OMPI_UCX] = "Open MPI over UCX",
    [CM_MPI_MPICH_UCX] = "MPICH over UCX",
    [CM_MPI_OMPI_OPENIB] = "Open MPI, openib",
    [CM_MPI_MVAPICH] = "MVAPICH2",
};

/* UCX, ucp_am_id_t: those messages that begin with the 64 bits of the tag. */
enum {
    UCP_EAGER_ONLY = 2,
    UCP_EAGER_FIRST = 3,
    UCP_SYNC_ONLY = 6,
    UCP_SYNC_FIRST = 7,
    UCP_RTS = 9
};
enum {
    UCT_RC_FLOW_CONTROL = 0xe0,
    UCT_RC_HEADER = 1,
    UCT_UD_HEADER = 8,
    UCT_GLEX_HEADER = 16,
    UCT_AM_MASK = 0x1f
};
enum { GLEX_MP_AM = 6, GLEX_EVENT_ER = 1, GLEX_FLAG_ZC = 2 };

/* Open MPI's ob1 behind the four bytes of the BTL openib: match, rendezvous, rendezvous by get. */
enum { OB1_MATCH = 65, OB1_RGET = 67, OPENIB_LEN = 4, OB1_LEN = 14 };

enum { MVAPICH_EAGER = 0, MVAPICH_TAG_AT = 24, MVAPICH_LEN = 32 };

enum { MAX_RANK = 1 << 22, MAX_LEAD = 1023 };

static uint16_t le16(const uint8_t *p)
{
    uint16_t value;

    memcpy(&value, p, 2);
    return le16toh(value);
}

static uint32_t le32(const uint8_t *p)
{
    uint32_t value;

    memcpy(&value, p, 4);
    return le32toh(value);
}

static uint64_t le64(const uint8_t *p)
{
    uint64_t value;

    memcpy(&value, p, 8);
    return le64toh(value);
}

/* Boyer and Moore: the rank that more than half of the messages name has a lead at the end. */
static void vote(struct cm_vote *votes, uint32_t rank)
{
    if (rank >= MAX_RANK) {
        return;
    }
    if (votes->lead == 0) {
        votes->rank = rank & (MAX_RANK - 1);
        votes->lead = 1;
    } else if (votes->rank != rank) {
        votes->lead--;
    } else if (votes->lead < MAX_LEAD) {
        votes->lead++;
    }
}

/* The tag says which communicator: 0 is MPI_COMM_WORLD, in MPICH its collectives are 1. */
static void vote_tag(struct cm_vote votes[CM_NUM_MPI], uint64_t tag)
{
    if ((tag & 0xfffff) == 0) {
        vote(&votes[CM_MPI_OMPI_UCX], (uint32_t)(tag >> 20) & 0xfffff);
    }
    if (tag >> 48 <= 1) {
        vote(&votes[CM_MPI_MPICH_UCX], (uint32_t)(tag >> 32) & 0xffff);
    }
}

static void vote_ucp(struct cm_vote votes[CM_NUM_MPI], unsigned am_id, const uint8_t *data,
                     uint32_t len)
{
    bool tagged = am_id == UCP_EAGER_ONLY || am_id == UCP_EAGER_FIRST || am_id == UCP_SYNC_ONLY ||
                  am_id == UCP_SYNC_FIRST || am_id == UCP_RTS;

    if (tagged && len >= 8) {
        vote_tag(votes, le64(data));
    }
}

static void vote_openib(struct cm_vote votes[CM_NUM_MPI], const uint8_t *data, uint32_t len)
{
    if (len >= OPENIB_LEN + OB1_LEN && data[0] >= OB1_MATCH && data[0] <= OB1_RGET &&
        data[OPENIB_LEN] == data[0] && le16(data + OPENIB_LEN + 2) == 0) {
        vote(&votes[CM_MPI_OMPI_OPENIB], le32(data + OPENIB_LEN + 4));
    }
}

static void vote_mvapich(struct cm_vote votes[CM_NUM_MPI], const uint8_t *data, uint32_t len)
{
    /* Ranks are of 16 bits with the context behind them, or of 32 bits. */
    if (len >= MVAPICH_LEN && data[0] == MVAPICH_EAGER && le16(data + MVAPICH_TAG_AT + 6) <= 1) {
        vote(&votes[CM_MPI_MVAPICH], le16(data + MVAPICH_TAG_AT + 4));
    }
}

static void vote_rc(struct cm_vote votes[CM_NUM_MPI], const uint8_t *data, uint32_t len)
{
    if (len > UCT_RC_HEADER && (data[0] & UCT_RC_FLOW_CONTROL) != UCT_RC_FLOW_CONTROL) {
        vote_ucp(votes, data[0] & UCT_AM_MASK, data + UCT_RC_HEADER, len - UCT_RC_HEADER);
    }
    vote_openib(votes, data, len);
    vote_mvapich(votes, data, len);
}

static void vote_ud(struct cm_vote votes[CM_NUM_MPI], const uint8_t *data, uint32_t len)
{
    if (len > UCT_UD_HEADER && (data[3] & 1)) {
        vote_ucp(votes, data[3] >> 3, data + UCT_UD_HEADER, len - UCT_UD_HEADER);
    }
}

/*
 * What GLEX_CAPTURE writes: MPs as sends; puts into FIFOs with the event's first word as Q_Key. The
 * flags follow the type in both. Messages that the receiver fetches from a send unit are left out:
 * the answer of a get does not say what it is, and may be any user data.
 */
static void vote_glex(struct cm_vote votes[CM_NUM_MPI], const struct cm_packet *packet)
{
    const uint8_t *data = packet->data;
    uint32_t len = packet->data_len;

    if (packet->operation == CM_WRITE_ONLY_IMM || packet->operation == CM_WRITE_FIRST) {
        if ((packet->q_key & 7) == GLEX_EVENT_ER && !(packet->q_key >> 8 & GLEX_FLAG_ZC)) {
            vote_ucp(votes, packet->q_key >> 3 & UCT_AM_MASK, data, len);
        }
    } else if (len > UCT_GLEX_HEADER && (data[0] & 7) == GLEX_MP_AM && !(data[1] & GLEX_FLAG_ZC)) {
        vote_ucp(votes, data[0] >> 3, data + UCT_GLEX_HEADER, len - UCT_GLEX_HEADER);
    }
}

void cm_rank_vote(struct cm_vote votes[CM_NUM_MPI], const struct cm_packet *packet)
{
    bool begins = packet->operation == CM_SEND_FIRST || packet->operation == CM_SEND_ONLY ||
                  packet->operation == CM_SEND_ONLY_IMM || packet->operation == CM_SEND_ONLY_INV;

    if (packet->transport == CM_RD) {
        if (begins || packet->operation == CM_WRITE_ONLY_IMM ||
            packet->operation == CM_WRITE_FIRST) {
            vote_glex(votes, packet);
        }
    } else if (packet->transport > CM_XRC) {
        vote_rc(votes, packet->data, packet->data_len);
    } else if (begins && packet->transport == CM_UD) {
        vote_ud(votes, packet->data, packet->data_len);
    } else if (begins) {
        vote_rc(votes, packet->data, packet->data_len);
    }
}

/* ---- from votes to ranks --------------------------------------------------------------------- */

/* All queue pairs of a host that have the same rank belong to one process. */
struct cm_ranks {
    enum cm_mpi mpi;
    GHashTable *by_qp;   /* (address, queue pair) -> rank + 1 */
    GHashTable *by_host; /* address -> rank + 1, or 0: it has several */
};

static gpointer qp_key(uint32_t address, uint32_t qpn)
{
    return GSIZE_TO_POINTER((gsize)address << 32 | qpn);
}

static guint qp_hash(gconstpointer key)
{
    uint64_t word = (uint64_t)GPOINTER_TO_SIZE(key) * 0x9e3779b97f4a7c15u;

    return (guint)(word >> 32);
}

/* Datagrams between two queue pairs of one host: it has several processes, whatever they voted. */
static bool is_between_processes(const struct cm_flow *flow)
{
    return flow->key.src == flow->key.dst && flow->key.src_qpn != CM_QPN_NONE &&
           flow->key.src_qpn != flow->key.dst_qpn;
}

static struct cm_ranks *ranks_of_mpi(const struct cm_traffic *traffic, enum cm_mpi mpi)
{
    struct cm_ranks *ranks = g_new0(struct cm_ranks, 1);
    uint32_t i;

    ranks->mpi = mpi;
    ranks->by_qp = g_hash_table_new(qp_hash, g_direct_equal);
    ranks->by_host = g_hash_table_new(g_direct_hash, g_direct_equal);
    for (i = 0; i < traffic->num_flows; i++) {
        const struct cm_flow *flow = cm_traffic_flow(traffic, i);
        gpointer host = GUINT_TO_POINTER(flow->key.src), value, known;

        if (flow->votes[mpi].lead == 0) {
            continue;
        }
        value = GUINT_TO_POINTER((guint)flow->votes[mpi].rank + 1);
        if (cm_flow_src_qpn(flow) != CM_QPN_NONE) {
            g_hash_table_insert(ranks->by_qp, qp_key(flow->key.src, cm_flow_src_qpn(flow)), value);
        }
        if (g_hash_table_lookup_extended(ranks->by_host, host, NULL, &known) && known != value) {
            value = GUINT_TO_POINTER(0);
        }
        g_hash_table_insert(ranks->by_host, host, value);
    }
    for (i = 0; i < traffic->num_flows; i++) {
        const struct cm_flow *flow = cm_traffic_flow(traffic, i);
        gpointer host = GUINT_TO_POINTER(flow->key.src);

        if (is_between_processes(flow) && g_hash_table_contains(ranks->by_host, host)) {
            g_hash_table_insert(ranks->by_host, host, GUINT_TO_POINTER(0));
        }
    }
    return ranks;
}

/*
 * How believable the ranks are: processes that have a rank of their own count for it, those that
 * share one with a process of another host, or have one that is out of all proportion, against it.
 */
static int64_t score(const struct cm_ranks *ranks)
{
    GHashTable *hosts = g_hash_table_new(g_direct_hash, g_direct_equal);
    guint processes = g_hash_table_size(ranks->by_qp) + g_hash_table_size(ranks->by_host);
    int64_t points = 0;
    GHashTableIter iter;
    gpointer key, value, host;

    g_hash_table_iter_init(&iter, ranks->by_qp);
    while (g_hash_table_iter_next(&iter, &key, &value)) {
        gpointer mine = GUINT_TO_POINTER((guint)(GPOINTER_TO_SIZE(key) >> 32) + 1);

        host = g_hash_table_lookup(hosts, value);
        g_hash_table_insert(hosts, value, mine);
        points +=
            (host == NULL || host == mine) && GPOINTER_TO_UINT(value) <= 4 * processes ? 1 : -2;
    }
    points += 8 * (int64_t)g_hash_table_size(hosts); /* many ranks rather than one for all */
    g_hash_table_destroy(hosts);
    return points;
}

struct cm_ranks *cm_ranks_new(const struct cm_traffic *traffic, char **why_p)
{
    struct cm_ranks *best = NULL, *ranks;
    int64_t best_score = 0, points;
    int mpi;

    for (mpi = 0; mpi < CM_NUM_MPI; mpi++) {
        ranks = ranks_of_mpi(traffic, mpi);
        points = score(ranks) + (g_hash_table_size(ranks->by_host) > 0);
        if (points > best_score) {
            if (best != NULL) {
                cm_ranks_free(best);
            }
            best = ranks;
            best_score = points;
        } else {
            cm_ranks_free(ranks);
        }
    }
    if (best == NULL) {
        *why_p = g_strdup("no packet that was captured begins a message of an MPI library that is "
                          "known (UCX of Open MPI or MPICH, openib, MVAPICH2); is it encrypted, or "
                          "cut before the user data?");
    }
    return best;
}

enum cm_mpi cm_ranks_mpi(const struct cm_ranks *ranks)
{
    return ranks->mpi;
}

int64_t cm_ranks_of(const struct cm_ranks *ranks, uint32_t address, uint32_t qpn)
{
    guint rank = 0;

    if (qpn != CM_QPN_NONE) {
        rank = GPOINTER_TO_UINT(g_hash_table_lookup(ranks->by_qp, qp_key(address, qpn)));
    }
    if (rank == 0) { /* one process is all that its host has */
        rank = GPOINTER_TO_UINT(g_hash_table_lookup(ranks->by_host, GUINT_TO_POINTER(address)));
    }
    return (int64_t)rank - 1;
}

void cm_ranks_free(struct cm_ranks *ranks)
{
    g_hash_table_destroy(ranks->by_qp);
    g_hash_table_destroy(ranks->by_host);
    g_free(ranks);
}

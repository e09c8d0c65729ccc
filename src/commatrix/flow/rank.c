#include "rank.h"

#include "tables.h"

#include <endian.h>
#include <string.h>

const char *const cm_mpi_names[CM_NUM_MPI] = {
    [CM_MPI_OMPI_UCX] = "Open MPI over UCX",
    [CM_MPI_MPICH_UCX] = "MPICH over UCX",
    [CM_MPI_OMPI_OPENIB] = "Open MPI, openib",
    [CM_MPI_MVAPICH] = "MVAPICH2",
};

/* UCX, ucp_am_id_t: messages that begin with the 64 bits of the tag. */
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
static const uint8_t zeros[MVAPICH_LEN];

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
    /* Ranks are of 16 bits with the context behind them, or of 32 bits. User data of zeros is no
     * header. */
    if (len >= MVAPICH_LEN && memcmp(data, zeros, MVAPICH_LEN) != 0 && data[0] == MVAPICH_EAGER &&
        le16(data + MVAPICH_TAG_AT + 6) <= 1) {
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

/* ---- pieces: queue pairs that traffic connects ------------------------------------------------
 */

enum { NO_JOB = UINT32_MAX };

/* A rank that messages from a host name. */
struct claim {
    uint32_t piece, host, rank;
    bool refuted;
};

/* A piece, and later a job: a set of processes. */
struct job {
    uint32_t parent;   /* the job that includes this job, or the job itself */
    uint32_t number;   /* of the result, from 1; 0: no job */
    GHashTable *hosts; /* rank + 1 -> host + 1 */
};

struct cm_ranks {
    enum cm_mpi mpi;
    const struct cm_traffic *traffic;
    const uint32_t *host_of;
    GHashTable *pieces;  /* queue pair -> number in `parents` + 1 */
    GArray *parents;     /* union and find over queue pairs */
    GArray *claims;      /* of struct claim, ordered by piece */
    GArray *jobs;        /* of struct job */
    GHashTable *job_of;  /* root of a piece -> job + 1 */
    GHashTable *by_qp;   /* queue pair -> rank + 1 */
    GHashTable *by_host; /* host -> index in `claims` + 1; 0: it has several processes */
    uint32_t num_jobs, refuted;
    GArray *sizes; /* ranks of each job of the result */
};

static gpointer qp_key(uint32_t address, uint32_t qpn)
{
    return GSIZE_TO_POINTER((gsize)address << 32 | qpn);
}

static guint wide_hash(gconstpointer key)
{
    return cm_mix(GPOINTER_TO_SIZE(key));
}

static uint32_t host_of(const struct cm_ranks *ranks, uint32_t address)
{
    return ranks->host_of != NULL ? ranks->host_of[address] : address;
}

static uint32_t find_root(GArray *parents, uint32_t i)
{
    uint32_t *parent = (uint32_t *)(void *)parents->data;

    while (parent[i] != i) {
        parent[i] = parent[parent[i]];
        i = parent[i];
    }
    return i;
}

static uint32_t piece_of_qp(struct cm_ranks *ranks, uint32_t address, uint32_t qpn)
{
    gpointer key = qp_key(address, qpn);
    guint number = GPOINTER_TO_UINT(g_hash_table_lookup(ranks->pieces, key));

    if (number == 0) {
        number = ranks->parents->len;
        g_array_append_val(ranks->parents, number);
        g_hash_table_insert(ranks->pieces, key, GUINT_TO_POINTER(++number));
    }
    return find_root(ranks->parents, number - 1);
}

/* Joins the queue pairs of a flow. Returns the piece that they belong to. */
static uint32_t connect_flow(struct cm_ranks *ranks, const struct cm_flow *flow)
{
    uint32_t to = piece_of_qp(ranks, flow->key.dst, flow->key.dst_qpn), from;

    if (cm_flow_src_qpn(flow) == CM_QPN_NONE) {
        return to;
    }
    from = piece_of_qp(ranks, flow->key.src, cm_flow_src_qpn(flow));
    g_array_index(ranks->parents, uint32_t, MAX(from, to)) = MIN(from, to);
    return MIN(from, to);
}

static gint compare_claims(gconstpointer a, gconstpointer b)
{
    const struct claim *x = a, *y = b;

    if (x->piece != y->piece) {
        return x->piece < y->piece ? -1 : 1;
    }
    if (x->rank != y->rank) {
        return x->rank < y->rank ? -1 : 1;
    }
    return x->host == y->host ? 0 : x->host < y->host ? -1 : 1;
}

static void make_pieces(struct cm_ranks *ranks)
{
    uint32_t i;

    for (i = 0; i < ranks->traffic->num_flows; i++) {
        connect_flow(ranks, cm_traffic_flow(ranks->traffic, i));
    }
}

static void make_claims(struct cm_ranks *ranks)
{
    GArray *all = g_array_new(FALSE, FALSE, sizeof(struct claim));
    uint32_t i, qpn;

    for (i = 0; i < ranks->traffic->num_flows; i++) {
        const struct cm_flow *flow = cm_traffic_flow(ranks->traffic, i);
        const struct cm_vote *vote = &flow->votes[ranks->mpi];
        struct claim claim = {.host = host_of(ranks, flow->key.src), .rank = vote->rank};

        if (vote->lead == 0) {
            continue;
        }
        claim.piece = connect_flow(ranks, flow);
        g_array_append_val(all, claim);
        qpn = cm_flow_src_qpn(flow);
        if (qpn != CM_QPN_NONE) {
            g_hash_table_insert(ranks->by_qp, qp_key(flow->key.src, qpn),
                                GUINT_TO_POINTER(vote->rank + 1));
        }
    }
    g_array_sort(all, compare_claims);
    for (i = 0; i < all->len; i++) {
        const struct claim *claim = &g_array_index(all, struct claim, i);

        if (i == 0 || compare_claims(claim - 1, claim) != 0) {
            g_array_append_vals(ranks->claims, claim, 1);
        }
    }
    g_array_free(all, TRUE);
}

/* A rank on two hosts that traffic connects; or a rank out of all proportion. */
static void refute_claims(struct cm_ranks *ranks)
{
    struct claim *claims = (struct claim *)(void *)ranks->claims->data;
    guint i, n = ranks->claims->len;

    for (i = 0; i < n; i++) {
        if (i > 0 && claims[i].piece == claims[i - 1].piece &&
            claims[i].rank == claims[i - 1].rank) {
            claims[i].refuted = claims[i - 1].refuted = true;
        }
        claims[i].refuted |= claims[i].rank > 4 * (n + ranks->parents->len);
    }
}

/* ---- jobs: pieces that do not contradict each other --------------------------------------------
 */

static struct job *job_at(const struct cm_ranks *ranks, uint32_t i)
{
    return &g_array_index(ranks->jobs, struct job, i);
}

static uint32_t whole_job(const struct cm_ranks *ranks, uint32_t i)
{
    while (job_at(ranks, i)->parent != i) {
        i = job_at(ranks, i)->parent;
    }
    return i;
}

/* Whether no rank of one job runs on another host in the other job. */
static bool fit(GHashTable *a, GHashTable *b)
{
    GHashTable *few = g_hash_table_size(a) < g_hash_table_size(b) ? a : b;
    GHashTable *many = few == a ? b : a;
    GHashTableIter iter;
    gpointer rank, host, other;

    g_hash_table_iter_init(&iter, few);
    while (g_hash_table_iter_next(&iter, &rank, &host)) {
        other = g_hash_table_lookup(many, rank);
        if (other != NULL && other != host) {
            return false;
        }
    }
    return true;
}

/* Joins two jobs, the later one into the earlier one. */
static void join_jobs(struct cm_ranks *ranks, uint32_t a, uint32_t b)
{
    struct job *into = job_at(ranks, MIN(a, b)), *from = job_at(ranks, MAX(a, b));
    GHashTable *smaller = from->hosts;
    GHashTableIter iter;
    gpointer rank, host;

    if (g_hash_table_size(into->hosts) < g_hash_table_size(from->hosts)) {
        smaller = into->hosts;
        into->hosts = from->hosts;
    }
    g_hash_table_iter_init(&iter, smaller);
    while (g_hash_table_iter_next(&iter, &rank, &host)) {
        g_hash_table_insert(into->hosts, rank, host);
    }
    g_hash_table_destroy(smaller);
    from->hosts = NULL;
    from->parent = MIN(a, b);
}

/* Joins a new job with the jobs of which it has a process. `claims`: those of the new job. */
static void join_shared(struct cm_ranks *ranks, GHashTable *jobs_of, uint32_t job,
                        const struct claim *claims, guint n)
{
    GSList *list, *next;
    gpointer key;
    guint i;

    for (i = 0; i < n; i++) {
        uint32_t mine = whole_job(ranks, job), other;

        if (claims[i].refuted) {
            continue;
        }
        key = qp_key(claims[i].host, claims[i].rank);
        list = g_hash_table_lookup(jobs_of, key);
        for (next = list; next != NULL; next = next->next) {
            other = whole_job(ranks, GPOINTER_TO_UINT(next->data) - 1);
            if (other == mine) {
                break;
            }
            if (fit(job_at(ranks, other)->hosts, job_at(ranks, mine)->hosts)) {
                join_jobs(ranks, other, mine);
                break;
            }
        }
        if (next == NULL) {
            list = g_slist_prepend(list, GUINT_TO_POINTER(job + 1));
            g_hash_table_insert(jobs_of, key, list);
        }
    }
}

/* Joins jobs that share no process, if that contradicts nothing: parts of a job may be silent. */
static void join_disjoint(struct cm_ranks *ranks)
{
    uint32_t i, k;

    for (i = 1; i < ranks->jobs->len; i++) {
        for (k = 0; k < i && job_at(ranks, i)->parent == i; k++) {
            if (job_at(ranks, k)->parent == k &&
                fit(job_at(ranks, k)->hosts, job_at(ranks, i)->hosts)) {
                join_jobs(ranks, k, i);
            }
        }
    }
}

static void free_list(gpointer key, gpointer list, gpointer unused)
{
    (void)key;
    (void)unused;
    g_slist_free(list);
}

static void make_jobs(struct cm_ranks *ranks)
{
    GHashTable *jobs_of = g_hash_table_new(wide_hash, g_direct_equal);
    const struct claim *claims = (const struct claim *)(const void *)ranks->claims->data;
    guint i = 0, n = ranks->claims->len;

    while (i < n) {
        uint32_t piece = claims[i].piece, number = ranks->jobs->len;
        guint first = i;
        struct job job = {.parent = number,
                          .hosts = g_hash_table_new(g_direct_hash, g_direct_equal)};

        for (; i < n && claims[i].piece == piece; i++) {
            if (!claims[i].refuted) {
                g_hash_table_insert(job.hosts, GUINT_TO_POINTER(claims[i].rank + 1),
                                    GUINT_TO_POINTER(claims[i].host + 1));
            }
        }
        g_array_append_val(ranks->jobs, job);
        g_hash_table_insert(ranks->job_of, GUINT_TO_POINTER(piece), GUINT_TO_POINTER(number + 1));
        join_shared(ranks, jobs_of, number, claims + first, i - first);
    }
    g_hash_table_foreach(jobs_of, free_list, NULL);
    g_hash_table_destroy(jobs_of);
    join_disjoint(ranks);
}

static uint32_t job_of_piece(const struct cm_ranks *ranks, uint32_t piece)
{
    guint job = GPOINTER_TO_UINT(g_hash_table_lookup(ranks->job_of, GUINT_TO_POINTER(piece)));

    return job == 0 ? NO_JOB : whole_job(ranks, job - 1);
}

/* Numbers the jobs. Of several jobs, a job with a single rank is a misreading. */
static void number_jobs(struct cm_ranks *ranks)
{
    guint whole = 0, i, size;

    for (i = 0; i < ranks->jobs->len; i++) {
        whole += job_at(ranks, i)->parent == i && g_hash_table_size(job_at(ranks, i)->hosts) > 0;
    }
    for (i = 0; i < ranks->jobs->len; i++) {
        struct job *job = job_at(ranks, i);

        size = job->parent == i ? g_hash_table_size(job->hosts) : 0;
        if (size > (whole > 1 ? 1 : 0)) {
            job->number = ++ranks->num_jobs;
            g_array_append_val(ranks->sizes, size);
        }
    }
}

static void find_hosts(struct cm_ranks *ranks)
{
    struct claim *claims = (struct claim *)(void *)ranks->claims->data;
    guint i;

    for (i = 0; i < ranks->claims->len; i++) {
        uint32_t job = job_of_piece(ranks, claims[i].piece);
        gpointer host = GUINT_TO_POINTER(claims[i].host), known = NULL;
        guint value = i + 1;

        claims[i].refuted |= job == NO_JOB || job_at(ranks, job)->number == 0;
        ranks->refuted += claims[i].refuted;
        if (claims[i].refuted) {
            continue;
        }
        if (g_hash_table_lookup_extended(ranks->by_host, host, NULL, &known)) {
            const struct claim *other = &claims[MAX(GPOINTER_TO_UINT(known), 1) - 1];

            if (known == NULL || other->rank != claims[i].rank ||
                job_of_piece(ranks, other->piece) != job) {
                value = 0;
            }
        }
        g_hash_table_insert(ranks->by_host, host, GUINT_TO_POINTER(value));
    }
}

/* Datagrams between two queue pairs of one host: the host has several processes. */
static bool is_between_processes(const struct cm_flow *flow)
{
    return flow->key.src == flow->key.dst && flow->key.src_qpn != CM_QPN_NONE &&
           flow->key.src_qpn != flow->key.dst_qpn;
}

static void find_silent_processes(struct cm_ranks *ranks)
{
    uint32_t i;

    for (i = 0; i < ranks->traffic->num_flows; i++) {
        const struct cm_flow *flow = cm_traffic_flow(ranks->traffic, i);
        gpointer host = GUINT_TO_POINTER(host_of(ranks, flow->key.src));

        if (is_between_processes(flow) && g_hash_table_contains(ranks->by_host, host)) {
            g_hash_table_insert(ranks->by_host, host, GUINT_TO_POINTER(0));
        }
    }
}

static struct cm_ranks *ranks_of_mpi(const struct cm_traffic *traffic, const uint32_t *hosts,
                                     enum cm_mpi mpi)
{
    struct cm_ranks *ranks = g_new0(struct cm_ranks, 1);

    ranks->mpi = mpi;
    ranks->traffic = traffic;
    ranks->host_of = hosts;
    ranks->pieces = g_hash_table_new(wide_hash, g_direct_equal);
    ranks->parents = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    ranks->claims = g_array_new(FALSE, TRUE, sizeof(struct claim));
    ranks->jobs = g_array_new(FALSE, TRUE, sizeof(struct job));
    ranks->sizes = g_array_new(FALSE, TRUE, sizeof(guint));
    ranks->job_of = g_hash_table_new(g_direct_hash, g_direct_equal);
    ranks->by_qp = g_hash_table_new(wide_hash, g_direct_equal);
    ranks->by_host = g_hash_table_new(g_direct_hash, g_direct_equal);
    make_pieces(ranks);
    make_claims(ranks);
    refute_claims(ranks);
    make_jobs(ranks);
    number_jobs(ranks);
    find_hosts(ranks);
    find_silent_processes(ranks);
    return ranks;
}

/*
 * How believable a reading is: the more ranks and the fewer contradictions, the better. At most a
 * half of the processes may contradict each other.
 */
static int64_t score(const struct cm_ranks *ranks)
{
    int64_t claims = ranks->claims->len, refuted = ranks->refuted, distinct = 0;
    guint i;

    for (i = 0; i < ranks->num_jobs; i++) {
        distinct += g_array_index(ranks->sizes, guint, i);
    }
    return 2 * refuted > claims ? 0 : claims - 3 * refuted + 8 * distinct;
}

struct cm_ranks *cm_ranks_new(const struct cm_traffic *traffic, const uint32_t *hosts, char **why_p)
{
    struct cm_ranks *best = NULL, *ranks;
    int64_t best_score = 0, points;
    uint32_t refuted = 0;
    int mpi;

    for (mpi = 0; mpi < CM_NUM_MPI; mpi++) {
        ranks = ranks_of_mpi(traffic, hosts, mpi);
        refuted += ranks->refuted;
        points = score(ranks);
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
        *why_p =
            g_strdup(refuted > 0 ?
                         "the bytes where a rank would stand name one rank on several hosts: the "
                         "messages are not those of a known MPI library" :
                         "no captured packet begins a message of a known MPI library (UCX of Open "
                         "MPI or MPICH, openib, MVAPICH2); is the traffic encrypted, or cut before "
                         "the user data?");
    }
    return best;
}

enum cm_mpi cm_ranks_mpi(const struct cm_ranks *ranks)
{
    return ranks->mpi;
}

uint32_t cm_ranks_jobs(const struct cm_ranks *ranks)
{
    return ranks->num_jobs;
}

uint32_t cm_ranks_size(const struct cm_ranks *ranks, uint32_t job)
{
    return g_array_index(ranks->sizes, guint, job - 1);
}

uint32_t cm_ranks_refuted(const struct cm_ranks *ranks)
{
    return ranks->refuted;
}

/* Whether a rank is not refuted. */
static bool is_rank_of(const struct cm_ranks *ranks, uint32_t job, guint rank, uint32_t host)
{
    return GPOINTER_TO_UINT(
               g_hash_table_lookup(job_at(ranks, job)->hosts, GUINT_TO_POINTER(rank))) == host + 1;
}

struct cm_process cm_ranks_of(const struct cm_ranks *ranks, uint32_t address, uint32_t qpn)
{
    struct cm_process process = {0, -1};
    uint32_t host = host_of(ranks, address), job = NO_JOB;
    gpointer key = qp_key(address, qpn), known;
    guint number = GPOINTER_TO_UINT(g_hash_table_lookup(ranks->pieces, key)), rank;

    if (qpn != CM_QPN_NONE && number != 0) {
        job = job_of_piece(ranks, find_root(ranks->parents, number - 1));
    }
    if (job != NO_JOB && job_at(ranks, job)->number != 0) {
        process.job = job_at(ranks, job)->number;
        rank = GPOINTER_TO_UINT(g_hash_table_lookup(ranks->by_qp, key));
        if (rank != 0 && is_rank_of(ranks, job, rank, host)) {
            process.rank = (int64_t)rank - 1;
            return process;
        }
    }
    known = g_hash_table_lookup(ranks->by_host, GUINT_TO_POINTER(host));
    if (known != NULL) { /* the host has one process */
        const struct claim *claim =
            &g_array_index(ranks->claims, struct claim, GPOINTER_TO_UINT(known) - 1);

        process.job = job_at(ranks, job_of_piece(ranks, claim->piece))->number;
        process.rank = claim->rank;
    }
    return process;
}

void cm_ranks_free(struct cm_ranks *ranks)
{
    guint i;

    for (i = 0; i < ranks->jobs->len; i++) {
        if (job_at(ranks, i)->hosts != NULL) {
            g_hash_table_destroy(job_at(ranks, i)->hosts);
        }
    }
    g_array_free(ranks->jobs, TRUE);
    g_array_free(ranks->sizes, TRUE);
    g_array_free(ranks->claims, TRUE);
    g_array_free(ranks->parents, TRUE);
    g_hash_table_destroy(ranks->pieces);
    g_hash_table_destroy(ranks->job_of);
    g_hash_table_destroy(ranks->by_qp);
    g_hash_table_destroy(ranks->by_host);
    g_free(ranks);
}

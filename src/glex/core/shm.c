#include "core/shm.h"
#include "core/alias.h"
#include "base/copy.h"
#include "base/env.h"
#include "base/fabric.h"
#include "base/log.h"
#include "core/heap.h"
#include "core/help.h"
#include "core/robust.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

/* A full queue may belong to a dead owner. Time between two checks of the owner. */
#define SHM_CHECK_NS 10000000ull

/* ---- attaching ------------------------------------------------------------------------------- */

/* Returns whether the NIC is a NIC of this process, or has an endpoint on this host. */
bool glex_shm_reaches(struct glex_nic *dev, uint32_t nic_id)
{
    return nic_id - dev->nic_base < glex_env()->num_nics || glex_fabric_has_nic(dev->dirfd, nic_id);
}

/* An entry that nothing was found for yet: no request matches it. */
static const uint64_t shm_no_word;
static struct glex_rmem shm_no_rmem = {.mh = UINT64_MAX, .state = UINT64_MAX, .word = &shm_no_word};

static void shm_say_no_mapping(uint64_t size)
{
    glex_error("cannot map %llu KiB of a peer's memory: %s%s", (unsigned long long)size / 1024,
               strerror(errno),
               errno == ENOMEM ? "; raise the number of mappings (sysctl vm.max_map_count) or the "
                                 "limit of address space (ulimit -v)" :
                                 "");
}

/* Map the peer's base and fill in the peer. */
static int shm_map_base(struct glex_endpoint *ep, struct glex_peer *peer,
                        const struct glex_segment_header *hdr, int fd)
{
    struct glex_segment_header *base;

    if (hdr->incarnation == ep->segment.incarnation) {
        peer->is_self = true;
        base = ep->segment.hdr;
    } else {
        peer->map = glex_mapping_new(fd, 0, hdr->base_size);
        if (peer->map == NULL) {
            shm_say_no_mapping(hdr->base_size);
            return GLEX_ERR_STATUS_CONNECTION_NACK;
        }
        base = (struct glex_segment_header *)peer->map->base;
    }

    peer->recent = &shm_no_rmem;
    peer->base = base;
    peer->key = hdr->key;
    peer->incarnation = hdr->incarnation;
    peer->base_size = hdr->base_size;
    peer->cookie_addr = hdr->cookie_addr;
    peer->cookie = hdr->cookie;
    peer->pid = hdr->pid;
    peer->rank = hdr->rank;
    peer->receiver = hdr->receiver;
    peer->private_rdma = hdr->private_rdma;
    peer->pid_space = hdr->pid_space;
    peer->robust_id = hdr->robust_id;
    peer->robust_fd = hdr->robust_fd;
    peer->mmt = glex_segment_mmt(base, hdr->mpq_capacity, hdr->eq_capacity);
    glex_ring_tx_init(&peer->mpq, glex_segment_mpq(base), hdr->mpq_capacity,
                      glex_ring_id(hdr->incarnation, GLEX_RING_MPQ), &ep->segment.hdr->intent);
    glex_ring_tx_init(&peer->eq, glex_segment_eq(base, hdr->mpq_capacity), hdr->eq_capacity,
                      glex_ring_id(hdr->incarnation, GLEX_RING_EQ), &ep->segment.hdr->intent);
    return GLEX_REQ_DONE;
}

/* What a user can do about an error of opening a segment */
static const char *shm_open_advice(int err)
{
    switch (err) {
    case EMFILE:
        return "; raise the limit of open files (ulimit -n)";
    case EACCES:
    case EPERM:
        return "; has this process changed its user or its privileges since it began (setuid)? It "
               "must do so before it uses UCX or MPI_Init()";
    default:
        return "";
    }
}

static int shm_attach_failure(enum glex_segment_state state, uint64_t addr)
{
    if (state == GLEX_SEGMENT_UNKNOWN) {
        glex_error("cannot open the segment of endpoint %llx: %s%s", (unsigned long long)addr,
                   strerror(errno), shm_open_advice(errno));
        return GLEX_ERR_STATUS_CONNECTION_NACK;
    }
    if (state == GLEX_SEGMENT_BAD) {
        glex_warn(
            "the segment of endpoint %llx is damaged or of another version of libglex; glex_info "
            "-v names what is wrong; restart all processes of the job with one version",
            (unsigned long long)addr);
    }
    return GLEX_ERR_STATUS_DEST_VP_STOP;
}

static void shm_remember_dead(struct glex_endpoint *ep, enum glex_segment_state state,
                              const struct glex_segment_header *hdr)
{
    const struct glex_peer_past past = {.addr = hdr->addr,
                                        .receivers = {hdr->receiver, hdr->receiver},
                                        .pid = hdr->pid,
                                        .rank = hdr->rank,
                                        .left = hdr->left};

    if (state == GLEX_SEGMENT_GONE && hdr->pid != 0) {
        glex_peer_remember(ep, &past);
    }
}

struct glex_peer *glex_shm_attach(struct glex_endpoint *ep, uint64_t addr, int *status_p)
{
    struct glex_segment_header hdr;
    enum glex_segment_state state;
    struct glex_peer *peer;
    int fd;

    peer = aligned_alloc(_Alignof(struct glex_peer), sizeof(*peer));
    if (peer == NULL) {
        glex_error("no memory for a peer");
        *status_p = GLEX_ERR_STATUS_CONNECTION_NACK;
        return NULL;
    }
    memset(peer, 0, sizeof(*peer));
    peer->addr = addr;

    if (glex_wait_open_waker(ep) != GLEX_SUCCESS) {
        *status_p = GLEX_ERR_STATUS_CONNECTION_NACK;
        goto err_free;
    }
    state = glex_segment_open(ep->dev->dirfd, addr, &hdr, &fd);
    if (state != GLEX_SEGMENT_LIVING) {
        *status_p = shm_attach_failure(state, addr);
        shm_remember_dead(ep, state, &hdr);
        goto err_free;
    }
    *status_p = shm_map_base(ep, peer, &hdr, fd);
    close(fd);
    if (*status_p != GLEX_REQ_DONE) {
        goto err_free;
    }
    return peer;

err_free:
    free(peer);
    return NULL;
}

void glex_shm_detach(struct glex_endpoint *ep, struct glex_peer *peer)
{
    uint32_t i, j;

    (void)ep;
    glex_mappings_unlist(&peer->maps);
    for (i = 0; i < peer->rmem_chunks; i++) {
        for (j = 0; peer->rmem[i] != NULL && j < GLEX_RMEM_CHUNK; j++) {
            glex_mapping_put(peer->rmem[i][j].map);
        }
        free(peer->rmem[i]);
    }
    free(peer->rmem);
    glex_mapping_put(peer->map);
    glex_robust_unmap(peer);
    free(peer);
}

/* ---- queues ---------------------------------------------------------------------------------- */

/* Reserve the next step of a queue. Reserving what somebody else has reserved changes nothing. */
static bool shm_reserve_step(struct glex_endpoint *ep, struct glex_peer *peer,
                             struct glex_ring_tx *ring)
{
    uint32_t capacity = (uint32_t)ring->mask + 1, ready = glex_ring_ready(ring);
    uint32_t lacking = capacity - ready;
    uint64_t off = (uint64_t)((char *)glex_ring_tx_slot(ring, ready) - (char *)peer->base);
    struct glex_segment_header hdr;
    int fd, err;

    if (lacking == 0) {
        return true;
    }
    if (glex_segment_open(ep->dev->dirfd, peer->addr, &hdr, &fd) != GLEX_SEGMENT_LIVING) {
        return false; /* the next check of the peer finds out why */
    }
    err = hdr.incarnation != peer->incarnation || hdr.base_size != peer->base_size ?
              ESTALE :
              glex_segment_reserve(fd, 0, off, (uint64_t)GLEX_QUEUE_STEP << GLEX_SLOT_SHIFT);
    close(fd);
    if (err != 0) {
        if (!peer->storage_failed) {
            glex_warn("a queue of endpoint %llx has storage for %u of its %u entries and gets no "
                      "more: %s; %s",
                      (unsigned long long)peer->addr, ready, capacity, strerror(err),
                      glex_segment_reserve_advice(err));
        }
        peer->storage_failed = true;
        return false;
    }
    /* release: a process that reads the new number finds the storage. relaxed on failure: another
     * process has stored the number. */
    (void)__atomic_compare_exchange_n(&ring->ctl->lacking, &lacking, lacking - GLEX_QUEUE_STEP,
                                      false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
    return true;
}

/* The number of tries is bounded, because other processes can write any value into the control
 * block of the queue. */
enum glex_ring_ret GLEX_NOINLINE glex_shm_claim_grown(
    struct glex_endpoint *ep, struct glex_peer *peer, struct glex_ring_tx *ring, uint64_t *tail_p,
    enum glex_ring_ret (*claim)(struct glex_ring_tx *, uint64_t *))
{
    enum glex_ring_ret ret = GLEX_RING_NO_STORAGE;
    uint32_t step;

    for (step = 0; step <= GLEX_MAX_QUEUE_CAPACITY / GLEX_QUEUE_STEP; step++) {
        if (!shm_reserve_step(ep, peer, ring)) {
            break;
        }
        ret = claim(ring, tail_p);
        if (ret != GLEX_RING_NO_STORAGE) {
            return ret;
        }
    }
    return GLEX_RING_FULL;
}

int GLEX_NOINLINE glex_shm_refused(struct glex_endpoint *ep, struct glex_peer *peer,
                                   enum glex_ring_ret ret, int32_t flag,
                                   enum glex_err_req_status full)
{
    uint64_t now;

    if (ret == GLEX_RING_CLOSED) {
        return GLEX_REQ_PEER_GONE;
    }
    if (ret == GLEX_RING_NO_RECEIVER) {
        return GLEX_ERR_STATUS_DEST_VP_STOP; /* the segment belongs to the same peer */
    }
    now = glex_now_ns();
    if (now - peer->checked >= SHM_CHECK_NS) {
        peer->checked = now;
        if (!glex_shm_is_living(ep, peer)) {
            return GLEX_REQ_PEER_GONE;
        }
    }
    return (flag & GLEX_EXT_FLAG_NO_LOSS) ? GLEX_REQ_BUSY : (int)full;
}

int glex_shm_mp(struct glex_endpoint *ep, struct glex_peer *peer, uint64_t src, const void *data,
                uint32_t len, int32_t flag)
{
    enum glex_ring_ret ret;
    uint64_t tail;

    ret = glex_shm_claim(ep, peer, &peer->mpq, &tail);
    if (glex_unlikely(ret != GLEX_RING_OK)) {
        return glex_shm_refused(ep, peer, ret, flag, GLEX_ERR_STATUS_DEST_MPQ_FULL);
    }
    glex_shm_fill_mp(glex_ring_tx_slot(&peer->mpq, tail), tail, src, data, len);
    if (glex_unlikely(tail & GLEX_TAIL_ARMED)) {
        glex_wait_wake(ep, peer->addr, peer->incarnation);
    }
    return GLEX_REQ_DONE;
}

int glex_shm_send_mp(struct glex_endpoint *ep, struct glex_peer *peer, const glex_imm_mp_req_t *req)
{
    return glex_shm_mp(ep, peer, ep->addr, req->data, req->len, req->flag);
}

int glex_shm_event(struct glex_endpoint *ep, struct glex_peer *peer, const glex_event_t *event,
                   int32_t flag, const void *data, uint32_t len, uint64_t place)
{
    enum glex_ring_ret ret;
    uint64_t tail;

    ret = glex_shm_claim(ep, peer, &peer->eq, &tail);
    if (glex_unlikely(ret != GLEX_RING_OK)) {
        return glex_shm_refused(ep, peer, ret, flag, GLEX_ERR_STATUS_DEST_EQ_FULL);
    }
    glex_shm_fill_event(glex_ring_tx_slot(&peer->eq, tail), tail, event, data, len, place);
    if (glex_unlikely(tail & GLEX_TAIL_ARMED)) {
        glex_wait_wake(ep, peer->addr, peer->incarnation);
    }
    return GLEX_REQ_DONE;
}

/* ---- the target's registrations -------------------------------------------------------------- */

/* A consistent copy of a table entry: it may change while it is read. */
static bool shm_read_entry(const struct glex_mmt_entry *entry, struct glex_mmt_entry *copy)
{
    int tries;

    for (tries = 0; tries < 100; tries++) {
        /* acquire: the fields are read between the two loads of the state, as glex_mem_read() */
        copy->state = __atomic_load_n(&entry->state, __ATOMIC_ACQUIRE);
        copy->addr = __atomic_load_n(&entry->addr, __ATOMIC_ACQUIRE);
        copy->len = __atomic_load_n(&entry->len, __ATOMIC_ACQUIRE);
        copy->file_off = __atomic_load_n(&entry->file_off, __ATOMIC_ACQUIRE);
        if (__atomic_load_n(&entry->state, __ATOMIC_RELAXED) == copy->state) {
            return (copy->state & GLEX_MMT_VALID) != 0;
        }
    }
    return false;
}

/* Forgets a registration, and unmaps its memory. */
static void shm_rmem_clear(struct glex_rmem *rmem)
{
    if (rmem->is_alias) {
        LIST_REMOVE(rmem, alias);
    }
    glex_mapping_put(rmem->map);
    *rmem = shm_no_rmem;
}

/* relaxed: a state value never recurs */
static bool shm_rmem_is_over(const struct glex_rmem *rmem)
{
    return __atomic_load_n(rmem->word, __ATOMIC_RELAXED) != rmem->state;
}

/*
 * Unmaps aliases of memory that the peer has deregistered. Aliases do not wait for shm_sweep_maps():
 * the file is the program's, and the kernel frees the memory of a removed file only after the last
 * mapping. A peer has few aliases, one for each window of the program, and most peers have none.
 */
static void shm_sweep_aliases(struct glex_peer *peer)
{
    struct glex_rmem *rmem, *next;

    for (rmem = LIST_FIRST(&peer->aliases); rmem != NULL; rmem = next) {
        next = LIST_NEXT(rmem, alias);
        if (shm_rmem_is_over(rmem)) {
            shm_rmem_clear(rmem);
        }
    }
}

/* New mappings of a peer before the next sweep, besides twice the mappings that the last sweep
 * kept. */
#define SHM_MAPS_MIN 16u

/*
 * Unmaps memory that the peer has deregistered. The sweep visits all registrations that this process
 * has ever used, so most new mappings come without a sweep.
 */
static void shm_sweep_maps(struct glex_peer *peer)
{
    struct glex_rmem *rmem;
    uint32_t i, j, left = 0;

    if (peer->num_maps <= peer->max_maps) {
        return;
    }
    for (i = 0; i < peer->rmem_chunks; i++) {
        for (j = 0; peer->rmem[i] != NULL && j < GLEX_RMEM_CHUNK; j++) {
            rmem = &peer->rmem[i][j];
            if (shm_rmem_is_over(rmem)) {
                shm_rmem_clear(rmem);
            }
            left += rmem->map != NULL;
        }
    }
    peer->num_maps = left;
    peer->max_maps = 2 * left + SHM_MAPS_MIN;
}

/* Open the segment that a peer's NIC memory lies in. @return -1 and why. */
static int shm_open_again(struct glex_endpoint *ep, const struct glex_peer *peer, int *status_p)
{
    struct glex_segment_header hdr;
    enum glex_segment_state state;
    int fd;

    state = glex_segment_open(ep->dev->dirfd, peer->addr, &hdr, &fd);
    if (state != GLEX_SEGMENT_LIVING) {
        *status_p = shm_attach_failure(state, peer->addr);
        return -1;
    }
    if (hdr.incarnation != peer->incarnation) {
        *status_p = GLEX_ERR_STATUS_MMT;
        close(fd);
        return -1;
    }
    return fd;
}

/* Whether a range lies in the part of a file behind the base. Nothing in the table is trusted. */
static bool shm_is_in_file(int fd, const struct glex_peer *peer, uint64_t file_off, uint64_t len)
{
    struct stat st;

    return file_off >= peer->base_size && fstat(fd, &st) == 0 && len <= (uint64_t)st.st_size &&
           file_off <= (uint64_t)st.st_size - len;
}

/* Maps so much of a heap at once. A program has many buffers, and a process has a limited number of
 * mappings. */
#define SHM_HEAP_WINDOW ((uint64_t)64 << 20)
/* No process has a longer heap. */
#define SHM_HEAP_MAX ((uint64_t)1 << 47)

/*
 * Maps a registration in the peer's shared heap. If this process cannot open or map the heap, the
 * registration counts as private memory, which the kernel copies.
 * @return GLEX_REQ_DONE, or MMT: no heap has such a range.
 */
static int shm_map_heap(struct glex_endpoint *ep, struct glex_peer *peer, struct glex_rmem *rmem)
{
    uint64_t offset = rmem->file_off & ~GLEX_MMT_HEAP, start, end, size = 0;
    int fd;

    if (offset > SHM_HEAP_MAX || rmem->len > SHM_HEAP_MAX) {
        return GLEX_ERR_STATUS_MMT;
    }
    start = offset & ~(SHM_HEAP_WINDOW - 1);
    end = glex_round_up(offset + rmem->len, SHM_HEAP_WINDOW);
    rmem->map = glex_mapping_find(&peer->maps, rmem->file_off, rmem->len);
    if (rmem->map == NULL && (fd = glex_heap_open(ep, peer, &size)) >= 0) {
        end = end < size ? end : size;
        if (offset < size && rmem->len <= size - offset &&
            (rmem->map = glex_mapping_new(fd, start, end - start)) != NULL) {
            rmem->map->file_off |= GLEX_MMT_HEAP;
            glex_mapping_list(&peer->maps, rmem->map);
            peer->num_maps++;
            GLEX_COUNT(ep, heap_maps, 1);
        }
        close(fd);
    }
    if (rmem->map != NULL) {
        rmem->ptr = rmem->map->base + (rmem->file_off - rmem->map->file_off);
    } else {
        rmem->file_off = 0;
    }
    return GLEX_REQ_DONE;
}

/*
 * Map a registration of NIC memory, unless a mapping contains it already.
 * @return GLEX_REQ_DONE; CONNECTION_NACK: this process lacks memory, mappings or descriptors, which
 *         was logged; or another status: the peer has no such memory.
 */
static int shm_map_region(struct glex_endpoint *ep, struct glex_peer *peer, struct glex_rmem *rmem)
{
    uint64_t start = rmem->file_off & ~(glex_page_size() - 1), size;
    int status = GLEX_REQ_DONE, fd;

    size = glex_round_up(rmem->file_off + rmem->len, glex_page_size()) - start;
    rmem->map = glex_mapping_find(&peer->maps, start, size);
    if (rmem->map == NULL) {
        fd = shm_open_again(ep, peer, &status);
        if (fd < 0) {
            return status;
        }
        if (!shm_is_in_file(fd, peer, rmem->file_off, rmem->len)) {
            status = GLEX_ERR_STATUS_MMT;
        } else if ((rmem->map = glex_mapping_new(fd, start, size)) == NULL) {
            shm_say_no_mapping(size);
            status = GLEX_ERR_STATUS_CONNECTION_NACK;
        } else {
            glex_mapping_list(&peer->maps, rmem->map);
            peer->num_maps++;
        }
        close(fd);
    }
    if (status == GLEX_REQ_DONE) {
        rmem->ptr = rmem->map->base + (rmem->file_off - rmem->map->file_off);
    }
    return status;
}

int glex_shm_rmem_map(struct glex_endpoint *ep, struct glex_peer *peer, struct glex_rmem *rmem)
{
    if (rmem->ptr != NULL || rmem->file_off == 0) {
        return GLEX_REQ_DONE;
    }
    return rmem->file_off & GLEX_MMT_HEAP ? shm_map_heap(ep, peer, rmem) :
                                            shm_map_region(ep, peer, rmem);
}

/* Have room for one more chunk than `last`. Chunks stay where they are, `recent` is in one. */
static bool shm_rmem_grow(struct glex_peer *peer, uint32_t last)
{
    uint32_t count = peer->rmem_chunks == 0 ? 1 : peer->rmem_chunks;
    struct glex_rmem **rmem;

    while (count <= last) {
        count *= 2;
    }
    rmem = realloc(peer->rmem, count * sizeof(*rmem));
    if (rmem == NULL) {
        return false;
    }
    memset(rmem + peer->rmem_chunks, 0, (count - peer->rmem_chunks) * sizeof(*rmem));
    peer->rmem = rmem;
    peer->rmem_chunks = count;
    return true;
}

static struct glex_rmem *shm_rmem_new_chunk(void)
{
    struct glex_rmem *chunk = malloc(GLEX_RMEM_CHUNK * sizeof(*chunk));
    uint32_t i;

    for (i = 0; chunk != NULL && i < GLEX_RMEM_CHUNK; i++) {
        chunk[i] = shm_no_rmem;
    }
    return chunk;
}

/* The place of a registration; NULL: no memory. */
static struct glex_rmem *shm_rmem_slot(struct glex_peer *peer, uint32_t index)
{
    uint32_t i = index / GLEX_RMEM_CHUNK;

    if ((i >= peer->rmem_chunks && !shm_rmem_grow(peer, i)) ||
        (peer->rmem[i] == NULL && (peer->rmem[i] = shm_rmem_new_chunk()) == NULL)) {
        glex_error("no memory to keep a peer's registrations");
        return NULL;
    }
    return &peer->rmem[i][index % GLEX_RMEM_CHUNK];
}

/*
 * Maps the memory of a registration. If this process lacks memory, mappings or descriptors for that,
 * the kernel copies the memory, as it copies private memory.
 */
static int shm_rmem_reach(struct glex_endpoint *ep, struct glex_peer *peer, struct glex_rmem *rmem)
{
    int status = glex_shm_rmem_map(ep, peer, rmem);

    return status == GLEX_ERR_STATUS_CONNECTION_NACK && glex_cma_allowed(ep, peer) ? GLEX_REQ_DONE :
                                                                                     status;
}

/* Read a table entry and find the way to its memory. @return As shm_map_region(). */
static int shm_rmem_load(struct glex_endpoint *ep, struct glex_peer *peer, uint32_t index,
                         struct glex_rmem **rmem_p)
{
    struct glex_mem_entry own = {0};
    struct glex_mmt_entry entry;
    struct glex_rmem *rmem;
    int status = GLEX_REQ_DONE;

    shm_sweep_aliases(peer);
    /* acquire: pairs with the owner's growing the table's storage */
    if (index >= __atomic_load_n(&peer->base->mmt_ready, __ATOMIC_ACQUIRE) ||
        !shm_read_entry(&peer->mmt[index], &entry)) {
        return GLEX_ERR_STATUS_MMT;
    }
    /* What we do to our own memory is decided by our private copy, of this same registration. */
    if (peer->is_self && (!glex_mem_read(&ep->mem, index, &own) || own.state != entry.state)) {
        return GLEX_ERR_STATUS_MMT;
    }
    rmem = shm_rmem_slot(peer, index);
    if (rmem == NULL) {
        return GLEX_ERR_STATUS_CONNECTION_NACK;
    }
    *rmem_p = rmem;
    if (rmem->state == entry.state) {
        return GLEX_REQ_DONE;
    }

    shm_rmem_clear(rmem);
    shm_sweep_maps(peer);
    rmem->len = peer->is_self ? own.len : entry.len;
    rmem->addr = entry.addr;
    rmem->ptr = own.addr; /* NULL of a peer's */
    rmem->file_off = peer->is_self ? 0 : entry.file_off;
    status = shm_rmem_reach(ep, peer, rmem);
    if (status == GLEX_REQ_DONE) {
        rmem->state = entry.state;
        rmem->word = peer->is_self ? &ep->mem.table[index].state : &peer->mmt[index].state;
        rmem->mh = glex_mem_handle_v(index, entry.state);
    }
    return status;
}

/* Read a registration anew and check a request against it. */
static int GLEX_NOINLINE shm_rmem_refresh(struct glex_endpoint *ep, struct glex_peer *peer,
                                          uint64_t mh, uint32_t key, uint64_t offset, uint64_t len,
                                          uint32_t need, struct glex_rmem **rmem_p)
{
    int status = GLEX_ERR_STATUS_MMT;

    if (glex_ring_refuses(&peer->eq) && !glex_shm_is_living(ep, peer)) {
        return GLEX_REQ_PEER_GONE;
    }
    if (peer->key == key) {
        status = shm_rmem_load(ep, peer, mh & 0xffff, rmem_p);
    }
    if (status == GLEX_ERR_STATUS_CONNECTION_NACK) {
        return status;
    }
    if (status != GLEX_REQ_DONE || (*rmem_p)->mh != mh || ((*rmem_p)->state & need) != need) {
        return glex_shm_is_living(ep, peer) ? GLEX_ERR_STATUS_MMT : GLEX_REQ_PEER_GONE;
    }
    return offset + len <= (*rmem_p)->len ? GLEX_REQ_DONE : GLEX_ERR_STATUS_ATT;
}

int glex_shm_rmem_find(struct glex_endpoint *ep, struct glex_peer *peer, uint64_t mh, uint32_t key,
                       uint64_t offset, uint64_t len, uint32_t need, struct glex_rmem **rmem_p)
{
    uint32_t i = (mh & 0xffff) / GLEX_RMEM_CHUNK;
    int status;

    if (i < peer->rmem_chunks && peer->rmem[i] != NULL) {
        *rmem_p = &peer->rmem[i][mh % GLEX_RMEM_CHUNK];
        if (glex_shm_rmem_allows(peer, *rmem_p, mh, key, offset, len, need)) {
            peer->recent = *rmem_p;
            return GLEX_REQ_DONE;
        }
    }
    status = shm_rmem_refresh(ep, peer, mh, key, offset, len, need, rmem_p);
    if (status == GLEX_REQ_DONE) {
        peer->recent = *rmem_p;
    }
    return status;
}

/* Copies by the kernel before this process looks whether it shares the memory with the peer. The
 * look takes about as long as these copies. Most registrations are used less often. */
#define SHM_COPIES_BEFORE_ALIAS 128u

/* Looks whether this process maps the memory of a private registration, too. */
static void GLEX_NOINLINE shm_try_alias(struct glex_endpoint *ep, struct glex_peer *peer,
                                        struct glex_rmem *rmem)
{
    struct glex_mapping *map;
    char unused;

    if (!(ep->dev->caps.caps & GLEX_EXT_CAP_MAP)) {
        return;
    }
    map = glex_alias_new(peer->pid, peer->cookie_addr, rmem->addr, rmem->len);
    /* The list of mappings was the peer's only if the process is still the peer, and described the
     * registration only if the registration is still valid. relaxed: the kernel reads the list under a
     * lock. The peer has taken this lock if it has changed its mappings after a deregistration. So the
     * new state is visible here if the list was new. */
    if (map == NULL ||
        glex_cma_copy(ep, peer, rmem->addr, &unused, 1, GLEX_RDMA_TYPE_GET) != GLEX_REQ_DONE ||
        shm_rmem_is_over(rmem)) {
        glex_mapping_put(map);
        return;
    }
    rmem->map = map;
    rmem->ptr = map->base + rmem->addr % glex_page_size();
    rmem->is_alias = true;
    LIST_INSERT_HEAD(&peer->aliases, rmem, alias);
}

/* The kernel has copied between this process and private memory of a peer. @return `status` */
static int shm_copied(struct glex_endpoint *ep, struct glex_peer *peer, struct glex_rmem *rmem,
                      uint64_t len, int status)
{
    if (status != GLEX_REQ_DONE) {
        return status;
    }
    GLEX_COUNT(ep, kernel_bytes, len);
    if (++rmem->copies == SHM_COPIES_BEFORE_ALIAS) {
        shm_try_alias(ep, peer, rmem);
    }
    return status;
}

/* ---- RDMA ------------------------------------------------------------------------------------ */

int glex_shm_imm_put(struct glex_endpoint *ep, struct glex_peer *peer,
                     const glex_imm_rdma_req_t *req)
{
    struct glex_rmem *rmem;
    int status;

    if (glex_unlikely(req->flag & GLEX_EXT_FLAG_DOMAIN)) {
        return GLEX_ERR_STATUS_MMT; /* a request within a host cannot name a domain */
    }
    status = glex_shm_rmem(ep, peer, req->rmt_mh.v, req->rmt_key, req->rmt_offset, req->len,
                           GLEX_MEM_WRITE, &rmem);
    if (glex_unlikely(status != GLEX_REQ_DONE)) {
        return status;
    }

    if (glex_likely((req->flag & GLEX_FLAG_REMOTE_EVT) &&
                    (rmem->state & GLEX_EXT_MEM_EVENT_DATA))) {
        return glex_shm_event(ep, peer, &req->rmt_evt, req->flag, req->data, req->len,
                              glex_shm_place(req));
    }
    if (glex_likely(rmem->ptr != NULL)) {
        glex_copy_small(rmem->ptr + req->rmt_offset, req->data, req->len);
    } else if (req->len != 0) {
        status = glex_cma_copy(ep, peer, rmem->addr + req->rmt_offset, req->data, req->len,
                               GLEX_RDMA_TYPE_PUT);
        status = shm_copied(ep, peer, rmem, req->len, status);
        if (status != GLEX_REQ_DONE) {
            return status;
        }
    }
    if (req->flag & GLEX_FLAG_REMOTE_EVT) {
        return glex_shm_event(ep, peer, &req->rmt_evt, req->flag, NULL, 0, 0);
    }
    return GLEX_REQ_DONE;
}

int glex_shm_post_event(struct glex_endpoint *ep, struct glex_peer *peer,
                        const glex_imm_rdma_req_t *req)
{
    return glex_shm_event(ep, peer, &req->rmt_evt, req->flag, NULL, 0, 0);
}

static int shm_copy(struct glex_endpoint *ep, struct glex_peer *peer, struct glex_rmem *rmem,
                    const glex_rdma_req_t *req, char *local)
{
    char *remote;

    if (req->len == 0) {
        return GLEX_REQ_DONE;
    }
    if (rmem->ptr == NULL) {
        return shm_copied(ep, peer, rmem, req->len, glex_help_copy(ep, peer, rmem, req, local));
    }
    remote = rmem->ptr + req->rmt_offset;
    if (req->type == GLEX_RDMA_TYPE_PUT) {
        glex_copy_move(remote, local, req->len);
    } else {
        glex_copy_move(local, remote, req->len);
    }
    return GLEX_REQ_DONE;
}

int glex_shm_rdma(struct glex_endpoint *ep, struct glex_peer *peer, const glex_rdma_req_t *req,
                  char *local)
{
    uint32_t need = req->type == GLEX_RDMA_TYPE_PUT ? GLEX_MEM_WRITE : GLEX_MEM_READ;
    struct glex_rmem *rmem;
    int status;

    if (glex_unlikely(glex_ring_refuses(&peer->eq))) {
        return glex_ring_is_closed(&peer->eq) ? GLEX_REQ_PEER_GONE : GLEX_ERR_STATUS_DEST_VP_STOP;
    }
    if (req->flag & GLEX_EXT_FLAG_DOMAIN) {
        return GLEX_ERR_STATUS_MMT; /* a request within a host cannot name a domain */
    }
    status = glex_shm_rmem(ep, peer, req->rmt_mh.v, req->rmt_key, req->rmt_offset, req->len, need,
                           &rmem);
    if (status != GLEX_REQ_DONE) {
        return status;
    }
    status = shm_copy(ep, peer, rmem, req, local);
    if (status == GLEX_REQ_DONE && (req->flag & GLEX_FLAG_REMOTE_EVT)) {
        status = glex_shm_event(ep, peer, &req->rmt_evt, req->flag, NULL, 0, 0);
    }
    return status;
}

const struct glex_link glex_shm_link = {
    .name = "shm",
    .reaches = glex_shm_reaches,
    .attach = glex_shm_attach,
    .detach = glex_shm_detach,
    .is_living = glex_shm_is_living,
    .send_mp = glex_shm_send_mp,
    .imm_put = glex_shm_imm_put,
    .event = glex_shm_post_event,
    .rdma = glex_shm_rdma,
};

/*
 * The hash table from the peer's address to a VC. The table has as many buckets as VCs, and each
 * bucket is a chain of indexes: linear hashing (Litwin 1980). Each new VC splits one bucket in two.
 * So the work of growing is divided equally among the calls. The address space of the arrays is
 * reserved at the beginning, and the kernel allocates pages at the first access. So growing moves
 * no array.
 */
#include "conn/glex_table.h"
#include "vc/glex_lease.h"

#include <ucs/debug/memtrack_int.h>
#include <ucs/sys/math.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#else
#define __lsan_register_root_region(_ptr, _length)
#define __lsan_unregister_root_region(_ptr, _length)
#endif

/* VCs in vc_table.over that one search for an unused VC looks at */
#define UCT_GLEX_TABLE_LOOKS 64

/* Number of VCs from which on places are reused. The number doubles when no VC is unused. */
#define UCT_GLEX_TABLE_REUSE 16

#define UCT_GLEX_TABLE_SIZE (UCT_GLEX_VC_MAX * (sizeof(uct_glex_vc_t *) + 2 * sizeof(uint32_t)))

ucs_status_t uct_glex_table_init(uct_glex_iface_t *iface)
{
    void *ptr = mmap(NULL, UCT_GLEX_TABLE_SIZE, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (ptr == MAP_FAILED) {
        ucs_error("glex: cannot reserve %zu bytes of address space for the table of connections: "
                  "%s; raise the limit (ulimit -v)",
                  UCT_GLEX_TABLE_SIZE, strerror(errno));
        return UCS_ERR_NO_MEMORY;
    }
    /* Few VCs take few pages, not a huge page for each array. A kernel without huge pages returns
     * an error. */
    (void)madvise(ptr, UCT_GLEX_TABLE_SIZE, MADV_NOHUGEPAGE);
    /* The leak sanitizer does not search mapped memory for pointers by itself. VCs of a program
     * that ends without closing are no leaks. */
    __lsan_register_root_region(ptr, UCT_GLEX_TABLE_SIZE);
    iface->vcs = ptr;
    iface->vc_table.heads = UCS_PTR_BYTE_OFFSET(ptr, UCT_GLEX_VC_MAX * sizeof(*iface->vcs));
    iface->vc_table.next = iface->vc_table.heads + UCT_GLEX_VC_MAX;
    iface->vc_table.reuse = UCT_GLEX_TABLE_REUSE;
    ucs_list_head_init(&iface->vc_table.over);
    ucs_list_head_init(&iface->vc_table.unused);
    return UCS_OK;
}

void uct_glex_table_cleanup(uct_glex_iface_t *iface)
{
    __lsan_unregister_root_region(iface->vcs, UCT_GLEX_TABLE_SIZE);
    munmap(iface->vcs, UCT_GLEX_TABLE_SIZE);
}

/* ---- by the peer's address ---- */

static unsigned uct_glex_table_index(const uct_glex_vc_t *vc)
{
    return vc->id & UCT_GLEX_VC_INDEX_MASK;
}

/* The chain of an address. A bucket beyond the last bucket is not split off yet: its VCs are in the
 * bucket without the highest bit. */
static uint32_t *uct_glex_table_chain(const uct_glex_iface_t *iface, uint64_t peer)
{
    unsigned buckets = ucs_max(iface->num_vcs, 1);
    unsigned hash = (peer * UINT64_C(0x9e3779b97f4a7c15)) >> 32;
    unsigned mask = ucs_roundup_pow2(buckets) - 1;
    unsigned bucket = hash & mask;

    return &iface->vc_table.heads[(bucket < buckets) ? bucket : (bucket & (mask >> 1))];
}

/* Entries of chains are indexes plus 1; 0: the end */
static uct_glex_vc_t *uct_glex_table_search(const uct_glex_iface_t *iface, uint32_t entry,
                                            uint64_t peer)
{
    while (entry != 0) {
        if (iface->vcs[entry - 1]->peer == peer) {
            return iface->vcs[entry - 1];
        }
        entry = iface->vc_table.next[entry - 1];
    }
    return NULL;
}

/* In a chain, a newer VC of an address comes before older VCs */
uct_glex_vc_t *uct_glex_table_newest(const uct_glex_iface_t *iface, uint64_t peer)
{
    return uct_glex_table_search(iface, *uct_glex_table_chain(iface, peer), peer);
}

uct_glex_vc_t *uct_glex_vc_find(uct_glex_iface_t *iface, uint64_t peer, uint32_t uuid)
{
    uct_glex_vc_t *vc = uct_glex_table_newest(iface, peer);

    while ((vc != NULL) && (vc->peer_uuid != uuid)) {
        vc = uct_glex_table_older(vc);
    }
    return vc;
}

int uct_glex_table_is_newest(const uct_glex_vc_t *vc)
{
    return uct_glex_table_newest(vc->iface, vc->peer) == vc;
}

uct_glex_vc_t *uct_glex_table_older(const uct_glex_vc_t *vc)
{
    return uct_glex_table_search(vc->iface, vc->iface->vc_table.next[uct_glex_table_index(vc)],
                                 vc->peer);
}

/* Divide the VCs of one bucket between this bucket and the new last bucket. The order in chains
 * stays. */
static void uct_glex_table_split(uct_glex_iface_t *iface)
{
    unsigned bucket = iface->num_vcs - 1;
    uint32_t *last = &iface->vc_table.heads[bucket];
    uint32_t *move = last;
    uint32_t *keep = &iface->vc_table.heads[bucket - (ucs_roundup_pow2(bucket + 1) >> 1)];
    uint32_t entry = *keep;

    while (entry != 0) {
        if (uct_glex_table_chain(iface, iface->vcs[entry - 1]->peer) == last) {
            *move = entry;
            move = &iface->vc_table.next[entry - 1];
        } else {
            *keep = entry;
            keep = &iface->vc_table.next[entry - 1];
        }
        entry = iface->vc_table.next[entry - 1];
    }
    *keep = 0;
    *move = 0;
}

static void uct_glex_table_link(uct_glex_vc_t *vc)
{
    uint32_t *head = uct_glex_table_chain(vc->iface, vc->peer);
    unsigned index = uct_glex_table_index(vc);

    vc->iface->vc_table.next[index] = *head;
    *head = index + 1;
}

static void uct_glex_table_unlink(uct_glex_vc_t *vc)
{
    uint32_t *entry = uct_glex_table_chain(vc->iface, vc->peer);
    unsigned index = uct_glex_table_index(vc);

    while (*entry != index + 1) {
        entry = &vc->iface->vc_table.next[*entry - 1];
    }
    *entry = vc->iface->vc_table.next[index];
}

/* ---- by index ---- */

/* Whether nothing refers to the VC any more */
static int uct_glex_table_is_unused(uct_glex_vc_t *vc)
{
    return ucs_list_is_empty(&vc->eps) && !uct_glex_vc_is_scheduled(vc) && (vc->num_ops == 0) &&
           (vc->lease == NULL) && !uct_glex_lease_is_needed(vc);
}

/* Returns whether the NIC keeps no memory of the peer mapped for this VC. If the peer on this host
 * is gone, glex_ext_check_peer() unmaps the peer's memory. If a newer VC has the address, the NIC
 * replaces the mappings by itself. */
static int uct_glex_table_is_forgotten(const uct_glex_vc_t *vc)
{
    glex_ep_addr_t addr = {.v = vc->peer};

    return uct_glex_vc_is_remote(vc) || !uct_glex_table_is_newest(vc) ||
           (glex_ext_check_peer(vc->iface->nic, addr, 0, 0) == GLEX_NO_EP_RESOURCE);
}

/* Returns an unused VC, or NULL. Searches first the VCs that were not looked at for the longest
 * time. A VC whose peer's process has not ended yet is taken only if no other VC is unused. */
static uct_glex_vc_t *uct_glex_table_find_unused(uct_glex_iface_t *iface)
{
    uct_glex_vc_t *first = NULL, *found = NULL, *vc;
    unsigned left = UCT_GLEX_TABLE_LOOKS;

    while ((left-- > 0) && !ucs_list_is_empty(&iface->vc_table.over)) {
        vc = ucs_list_head(&iface->vc_table.over, uct_glex_vc_t, wait);
        if (vc == first) {
            break; /* all were looked at */
        }
        first = (first == NULL) ? vc : first;
        ucs_list_del(&vc->wait);
        ucs_list_add_tail(&iface->vc_table.over, &vc->wait);
        if (uct_glex_table_is_unused(vc)) {
            if (uct_glex_table_is_forgotten(vc)) {
                return vc;
            }
            found = (found == NULL) ? vc : found;
        }
    }
    return found;
}

/* The generation of an id is in use: count the generations from the first one of this interface. */
static void uct_glex_table_count_gen(uct_glex_iface_t *iface, uint32_t id)
{
    unsigned gen = id >> UCT_GLEX_VC_INDEX_BITS;
    unsigned age = (gen + UCT_GLEX_VC_GENS - iface->vc_table.first_gen) % UCT_GLEX_VC_GENS;

    iface->vc_table.num_gens = ucs_max(iface->vc_table.num_gens, age + 1);
}

/* Take the place of an unused VC. The unused VC is freed later, because the caller may be its error
 * handler. Returns the id of the successor, 0: no VC is unused. */
static uint32_t uct_glex_table_reuse(uct_glex_iface_t *iface)
{
    uct_glex_vc_t *vc = uct_glex_table_find_unused(iface);
    uint32_t id;

    if (vc == NULL) {
        return 0;
    }
    uct_glex_table_unlink(vc);
    ucs_list_del(&vc->wait);
    ucs_list_add_tail(&iface->vc_table.unused, &vc->wait);
    uct_glex_iface_recheck(iface);
    id = vc->id + UCT_GLEX_VC_MAX;                             /* the next generation */
    return (id < UCT_GLEX_VC_MAX) ? id + UCT_GLEX_VC_MAX : id; /* skip generation 0 */
}

ucs_status_t uct_glex_table_add(uct_glex_vc_t *vc)
{
    uct_glex_iface_t *iface = vc->iface;

    if (iface->num_vcs == iface->vc_table.reuse) {
        vc->id = uct_glex_table_reuse(iface);
        if ((vc->id == 0) && (iface->num_vcs < UCT_GLEX_VC_MAX)) {
            iface->vc_table.reuse *= 2;
        }
    }
    if (vc->id == 0) {
        if (iface->num_vcs == UCT_GLEX_VC_MAX) {
            ucs_error("glex: more than %u peers at one interface", UCT_GLEX_VC_MAX);
            return UCS_ERR_EXCEEDS_LIMIT;
        }
        vc->id = iface->num_vcs++ | (iface->vc_table.first_gen << UCT_GLEX_VC_INDEX_BITS);
        uct_glex_table_split(iface);
    }
    uct_glex_table_count_gen(iface, vc->id);
    iface->vcs[uct_glex_table_index(vc)] = vc;
    uct_glex_table_link(vc);
    return UCS_OK;
}

void uct_glex_vc_free_unused(uct_glex_iface_t *iface)
{
    while (!ucs_list_is_empty(&iface->vc_table.unused)) {
        ucs_free(ucs_list_extract_head(&iface->vc_table.unused, uct_glex_vc_t, wait));
    }
}

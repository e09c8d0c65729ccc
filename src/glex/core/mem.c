#include "base/caps.h"
#include "base/log.h"
#include "core/endpoint.h"
#include "core/heap.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#define MEM_NO_ENTRY UINT32_MAX

/*
 * A freed entry is used again only after so many others, or when all are in use. The 16 bits of its
 * generation that an event's slot has room for come round after 65,536 times as many registrations.
 */
#define MEM_MIN_FREE 64u

static size_t mem_table_size(void)
{
    return GLEX_MMT_CAPACITY * sizeof(struct glex_mem_entry);
}

glex_ret_t glex_mem_init(struct glex_endpoint *ep)
{
    const struct glex_segment *seg = &ep->segment;
    struct glex_mem *mem = &ep->mem;

    /* Reserved as a whole: other threads read the table, so it must not move. */
    mem->table = mmap(NULL, mem_table_size(), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mem->table == MAP_FAILED) {
        mem->table = NULL;
        glex_error("no memory for a registration table: %s", strerror(errno));
        return GLEX_NO_MEM_RESOURCE;
    }
    mem->mmt = glex_segment_mmt(seg->hdr, seg->mpq_capacity, seg->eq_capacity);
    /* Handles of an endpoint that had this number before are stale here as well. */
    mem->first_gen = (uint32_t)seg->incarnation;
    mem->file_end = glex_round_up(seg->base_size, glex_page_size());
    pthread_mutex_init(&mem->lock, NULL);
    return GLEX_SUCCESS;
}

void glex_mem_cleanup(struct glex_endpoint *ep)
{
    if (ep->mem.table != NULL) {
        glex_nicmem_cleanup(&ep->mem);
        munmap(ep->mem.table, mem_table_size());
        pthread_mutex_destroy(&ep->mem.lock);
    }
}

/* Reserve storage for the next entries of the shared table. */
static glex_ret_t mem_grow(struct glex_endpoint *ep)
{
    struct glex_segment *seg = &ep->segment;
    uint64_t off = glex_mmt_off(seg->mpq_capacity, seg->eq_capacity) +
                   seg->mmt_ready * sizeof(struct glex_mmt_entry);
    int fd, err;

    fd = glex_segment_reopen(ep->dev->dirfd, seg);
    err = fd < 0 ? errno : glex_segment_reserve(fd, 0, off, GLEX_MMT_STEP_SIZE);
    if (fd >= 0) {
        close(fd);
    }
    if (err != 0) {
        glex_error("cannot reserve room for more than %llu registrations: %s",
                   (unsigned long long)seg->mmt_ready, strerror(err));
        errno = err;
        return GLEX_NO_MEM_RESOURCE;
    }
    /* release: a reader of the new limit finds storage behind it */
    seg->mmt_ready += GLEX_MMT_STEP;
    __atomic_store_n(&seg->hdr->mmt_ready, seg->mmt_ready, __ATOMIC_RELEASE);
    return GLEX_SUCCESS;
}

static void mem_free_entry(struct glex_mem *mem, uint32_t index)
{
    mem->table[index].next_free = MEM_NO_ENTRY;
    if (mem->num_free++ == 0) {
        mem->first_free = index;
    } else {
        mem->table[mem->last_free].next_free = index;
    }
    mem->last_free = index;
}

static uint32_t mem_reuse_entry(struct glex_mem *mem)
{
    uint32_t index = mem->first_free;

    mem->first_free = mem->table[index].next_free;
    mem->num_free--;
    return index;
}

static glex_ret_t mem_take_entry(struct glex_endpoint *ep, uint32_t *index_p)
{
    struct glex_mem *mem = &ep->mem;
    bool full = mem->used == GLEX_MMT_CAPACITY;

    /* If the table cannot grow now, free entries are used again sooner. */
    if (mem->num_free >= MEM_MIN_FREE || (full && mem->num_free > 0) ||
        (!full && mem->used == ep->segment.mmt_ready && mem_grow(ep) != GLEX_SUCCESS &&
         mem->num_free > 0)) {
        *index_p = mem_reuse_entry(mem);
        return GLEX_SUCCESS;
    }
    if (mem->used == ep->segment.mmt_ready || full) {
        return GLEX_NO_MEM_RESOURCE;
    }
    *index_p = mem->used++;
    return GLEX_SUCCESS;
}

/* Returns the first of `num` consecutive free entries, or MEM_NO_ENTRY. */
static uint32_t mem_find_run(const struct glex_mem *mem, uint32_t num)
{
    uint32_t index, run = 0;

    for (index = 0; index < mem->used && run < num; index++) {
        run = (mem->table[index].state & GLEX_MMT_VALID) ? 0 : run + 1;
    }
    return run == num ? index - num : MEM_NO_ENTRY;
}

/* Take `num` entries in a row out of the list of free ones, whose order stays. */
static void mem_reuse_run(struct glex_mem *mem, uint32_t first, uint32_t num)
{
    uint32_t left = mem->num_free, index;

    for (; left > 0; left--) {
        index = mem_reuse_entry(mem);
        if (index - first >= num) {
            mem_free_entry(mem, index);
        }
    }
}

/* Take `num` entries in a row, used before or new ones. */
static glex_ret_t mem_take_run(struct glex_endpoint *ep, uint32_t num, uint32_t *first_p)
{
    struct glex_mem *mem = &ep->mem;

    if (mem->num_free >= MEM_MIN_FREE + num || mem->used + num > GLEX_MMT_CAPACITY) {
        *first_p = mem_find_run(mem, num);
        if (*first_p != MEM_NO_ENTRY) {
            mem_reuse_run(mem, *first_p, num);
            return GLEX_SUCCESS;
        }
    }
    if (mem->used + num > GLEX_MMT_CAPACITY) {
        return GLEX_NO_MEM_RESOURCE;
    }
    while (mem->used + num > ep->segment.mmt_ready) {
        if (mem_grow(ep) != GLEX_SUCCESS) {
            return GLEX_NO_MEM_RESOURCE;
        }
    }
    *first_p = mem->used;
    mem->used += num;
    return GLEX_SUCCESS;
}

/* Returns the next generation after the generations of all the entries. The generations of a table
 * begin with one number and grow slowly. So the sign of a difference shows the later generation,
 * even after a wrap. */
static uint32_t mem_next_gen(const struct glex_mem *mem, uint32_t first, uint32_t num)
{
    uint32_t gen = mem->first_gen, next, i;

    for (i = first; i < first + num; i++) {
        next = (uint32_t)(mem->table[i].state >> 32) + 1;
        if (mem->table[i].state != 0 && (int32_t)(next - gen) > 0) {
            gen = next;
        }
    }
    return gen;
}

/*
 * Whether the whole range is mapped in this process. An asynchronous msync() does nothing but
 * that check.
 */
static bool mem_is_mapped(const char *addr, uint64_t len)
{
    uintptr_t start = (uintptr_t)addr & ~(glex_page_size() - 1);

    return msync((void *)start, (uintptr_t)addr + len - start, MS_ASYNC) == 0;
}

/* Where peers find a range in a file; 0: the memory is private. */
static uint64_t mem_file_off(struct glex_endpoint *ep, const char *addr, uint64_t len)
{
    uint64_t file_off = glex_nicmem_file_off(&ep->mem, addr, len);

    return file_off != 0 ? file_off : glex_heap_file_off(ep, addr, len);
}

/*
 * Stores the fields first. The state word, stored last, makes them valid. All stores are releases:
 * a reader of a new field also sees the invalidated state, and a reader of the new state sees the
 * new fields.
 */
static void mem_publish(struct glex_endpoint *ep, uint32_t index, uint32_t gen, char *addr,
                        uint64_t len, uint32_t flag)
{
    uint64_t file_off = mem_file_off(ep, addr, len);
    struct glex_mem *mem = &ep->mem;
    struct glex_mem_entry *entry = &mem->table[index];
    struct glex_mmt_entry *shared = &mem->mmt[index];
    uint64_t state = (uint64_t)gen << 32 | flag | GLEX_MMT_VALID;

    __atomic_store_n(&entry->addr, addr, __ATOMIC_RELEASE);
    __atomic_store_n(&entry->len, len, __ATOMIC_RELEASE);
    __atomic_store_n(&entry->state, state, __ATOMIC_RELEASE);

    __atomic_store_n(&shared->addr, (uint64_t)(uintptr_t)addr, __ATOMIC_RELEASE);
    __atomic_store_n(&shared->len, len, __ATOMIC_RELEASE);
    __atomic_store_n(&shared->file_off, file_off, __ATOMIC_RELEASE);
    __atomic_store_n(&shared->state, state, __ATOMIC_RELEASE);
}

/* Register a range under `num` handles in a row; handle i begins GLEX_EXT_LONG_STEP * i further. */
static glex_ret_t mem_register(glex_ep_handle_t handle, char *addr, uint64_t len, int32_t flag,
                               uint32_t num, glex_mem_handle_t *mh)
{
    struct glex_endpoint *ep = glex_endpoint(handle);
    struct glex_mem *mem;
    uint32_t index, gen, i;
    glex_ret_t ret;

    if (handle == NULL || mh == NULL || addr == NULL || len == 0 || (flag & ~GLEX_MMT_FLAGS) ||
        (uintptr_t)addr + len < (uintptr_t)addr || ep->forked) {
        return GLEX_INVALID_PARAM;
    }
    mem = &ep->mem;
    if (!mem_is_mapped(addr, len)) {
        return GLEX_ACCESS_ERR;
    }

    pthread_mutex_lock(&mem->lock);
    /*
     * The user decides which processes may trace this process. So request the permission only if
     * peers need it.
     */
    if ((ep->dev->caps.caps & GLEX_EXT_CAP_PRIVATE_RDMA) &&
        glex_nicmem_file_off(mem, addr, len) == 0) {
        glex_caps_allow_private();
    }
    ret = num == 1 ? mem_take_entry(ep, &index) : mem_take_run(ep, num, &index);
    if (ret == GLEX_SUCCESS) {
        gen = mem_next_gen(mem, index, num);
        for (i = 0; i < num; i++) {
            mem_publish(ep, index + i, gen, addr + i * GLEX_EXT_LONG_STEP,
                        len - i * GLEX_EXT_LONG_STEP, (uint32_t)flag);
        }
        mh->v = glex_mem_handle_v(index, mem->table[index].state);
    }
    pthread_mutex_unlock(&mem->lock);
    return ret;
}

glex_ret_t glex_register_mem(glex_ep_handle_t handle, void *addr, uint64_t len, int32_t flag,
                             glex_mem_handle_t *mh)
{
    return mem_register(handle, addr, len, flag, 1, mh);
}

/* How many handles a long range has; 0: too many for a table. */
static uint32_t mem_num_handles(uint64_t len)
{
    uint64_t num = (len - 1) / GLEX_EXT_LONG_STEP + 1;

    return len == 0 || num > GLEX_MMT_CAPACITY ? 0 : (uint32_t)num;
}

glex_ret_t glex_ext_register_long(glex_ep_handle_t handle, void *addr, uint64_t len, int32_t flag,
                                  glex_mem_handle_t *first)
{
    uint32_t num = mem_num_handles(len);

    return num == 0 ? GLEX_INVALID_PARAM : mem_register(handle, addr, len, flag, num, first);
}

static glex_ret_t mem_deregister(glex_ep_handle_t handle, glex_mem_handle_t mh, uint32_t num)
{
    struct glex_endpoint *ep = glex_endpoint(handle);
    glex_ret_t ret = GLEX_SUCCESS;
    struct glex_mem *mem;
    uint64_t state;
    uint32_t i;

    if (handle == NULL || ep->forked || num == 0 || mh.mmt_index + num > GLEX_MMT_CAPACITY) {
        return GLEX_INVALID_PARAM;
    }
    mem = &ep->mem;

    pthread_mutex_lock(&mem->lock);
    for (i = 0; i < num; i++) {
        if (glex_mem_range(mem, mh.v + i, UINT64_MAX, 0, 0, 0) == NULL) {
            ret = GLEX_INVALID_PARAM;
        }
    }
    for (i = mh.mmt_index; ret == GLEX_SUCCESS && i < mh.mmt_index + num; i++) {
        state = mem->table[i].state & ~(uint64_t)GLEX_MMT_VALID;
        __atomic_store_n(&mem->mmt[i].state, state, __ATOMIC_RELEASE);
        __atomic_store_n(&mem->table[i].state, state, __ATOMIC_RELEASE);
        mem_free_entry(mem, i);
    }
    pthread_mutex_unlock(&mem->lock);
    return ret;
}

glex_ret_t glex_deregister_mem(glex_ep_handle_t handle, glex_mem_handle_t mh)
{
    return mem_deregister(handle, mh, 1);
}

glex_ret_t glex_ext_deregister_long(glex_ep_handle_t handle, glex_mem_handle_t first, uint64_t len)
{
    return mem_deregister(handle, first, mem_num_handles(len));
}

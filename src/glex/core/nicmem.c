/*
 * Memory of the NIC: regions of the endpoint's own segment file, behind the base, which peers can
 * map. A freed region gives its pages back, and a later allocation uses its place in the file again.
 * The file never becomes shorter, because a peer may still have a freed region mapped. Such a peer
 * reads zeros, and later the contents of the next region at that place.
 */
#include "base/log.h"
#include "core/endpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* A region of NIC memory, or a place: a free range of the file that a region has left. */
struct glex_nicmem {
    struct glex_nicmem *next;
    char *addr; /* regions only; a place has no address */
    uint64_t size;
    uint64_t file_off;
};

/* Peers can map a range as one piece only if it lies within one region. */
uint64_t glex_nicmem_file_off(const struct glex_mem *mem, const char *addr, uint64_t len)
{
    const struct glex_nicmem *region;

    for (region = mem->regions; region != NULL; region = region->next) {
        if (addr >= region->addr && len <= region->size &&
            (uint64_t)(addr - region->addr) <= region->size - len) {
            return region->file_off + (uint64_t)(addr - region->addr);
        }
    }
    return 0;
}

void glex_nicmem_cleanup(struct glex_mem *mem)
{
    struct glex_nicmem *region, *place;

    while ((region = mem->regions) != NULL) {
        mem->regions = region->next;
        munmap(region->addr, region->size);
        free(region);
    }
    while ((place = mem->places) != NULL) {
        mem->places = place->next;
        free(place);
    }
}

/* ---- places in the file: a list in the order of their offsets, no two side by side ------------ */

/* Finds a place for a region. If no place is large enough, the file becomes longer. */
static void nicmem_take_place(struct glex_mem *mem, struct glex_nicmem *region)
{
    struct glex_nicmem **link = &mem->places, *place;

    while (*link != NULL && (*link)->size < region->size &&
           (*link)->file_off + (*link)->size != mem->file_end) {
        link = &(*link)->next;
    }
    place = *link;
    region->file_off = place != NULL ? place->file_off : mem->file_end;
    if (region->file_off + region->size > mem->file_end) {
        mem->file_end = region->file_off + region->size;
    }
    if (place != NULL && place->size > region->size) {
        place->file_off += region->size;
        place->size -= region->size;
    } else if (place != NULL) {
        *link = place->next;
        free(place);
    }
}

static void nicmem_join_next(struct glex_nicmem *place)
{
    struct glex_nicmem *next = place->next;

    if (next != NULL && place->file_off + place->size == next->file_off) {
        place->size += next->size;
        place->next = next->next;
        free(next);
    }
}

/* The region, which is not mapped any more, becomes a place. */
static void nicmem_give_place(struct glex_mem *mem, struct glex_nicmem *region)
{
    struct glex_nicmem **link = &mem->places, *before = NULL;

    while (*link != NULL && (*link)->file_off < region->file_off) {
        before = *link;
        link = &before->next;
    }
    region->next = *link;
    *link = region;
    nicmem_join_next(region);
    if (before != NULL) {
        nicmem_join_next(before);
    }
}

/* Gives the pages of a region back to the file system. The file keeps its length. */
static void nicmem_punch(int fd, const struct glex_nicmem *region)
{
    if (fd < 0 || fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)region->file_off,
                            (off_t)region->size) != 0) {
        glex_warn("%llu KiB of NIC memory stay reserved until the endpoint is destroyed: %s",
                  (unsigned long long)region->size / 1024, strerror(errno));
    }
}

/* ---- allocation ------------------------------------------------------------------------------ */

/*
 * Reserves the pages of a region, so that no later store fails because of lack of memory, and maps
 * them.
 */
static glex_ret_t nicmem_map_at(int fd, struct glex_nicmem *region)
{
    int err =
        glex_segment_reserve(fd, region->file_off + region->size, region->file_off, region->size);

    if (err != 0) {
        glex_error("cannot reserve %llu KiB of NIC memory: %s; %s",
                   (unsigned long long)region->size / 1024, strerror(err),
                   glex_segment_reserve_advice(err));
        errno = err;
        return GLEX_NO_MEM_RESOURCE;
    }
    region->addr =
        mmap(NULL, region->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)region->file_off);
    if (region->addr == MAP_FAILED) {
        glex_error("cannot map %llu KiB of NIC memory: %s", (unsigned long long)region->size / 1024,
                   strerror(errno));
        return GLEX_NO_MEM_RESOURCE;
    }
    return GLEX_SUCCESS;
}

/* Gives a region back that could not be mapped. The file had the length `end` before. */
static void nicmem_abandon(struct glex_mem *mem, int fd, struct glex_nicmem *region, uint64_t end)
{
    int err = errno;

    if (mem->file_end > end) {
        (void)!ftruncate(fd, (off_t)end);
        mem->file_end = end;
        region->size = end - region->file_off;
    }
    if (region->size != 0) {
        nicmem_punch(fd, region);
        nicmem_give_place(mem, region);
    } else {
        free(region);
    }
    errno = err;
}

/*
 * Maps through a separate descriptor. A child of fork() may inherit the mapping, and must not keep
 * the owner's lock alive. After an error the region is unmapped.
 */
static glex_ret_t nicmem_map(struct glex_endpoint *ep, struct glex_nicmem *region)
{
    uint64_t end = ep->mem.file_end;
    glex_ret_t ret;
    int fd;

    fd = glex_segment_reopen(ep->dev->dirfd, &ep->segment);
    if (fd < 0) {
        glex_error("cannot open the endpoint's own segment: %s%s", strerror(errno),
                   errno == EMFILE ? "; raise the limit of open files (ulimit -n)" : "");
        free(region);
        return GLEX_SYS_ERR;
    }
    nicmem_take_place(&ep->mem, region);
    ret = nicmem_map_at(fd, region);
    if (ret != GLEX_SUCCESS) {
        nicmem_abandon(&ep->mem, fd, region, end);
    }
    close(fd);
    return ret;
}

glex_ret_t glex_ext_mem_alloc(glex_ep_handle_t handle, uint64_t len, void **addr_p)
{
    struct glex_endpoint *ep = glex_endpoint(handle);
    struct glex_mem *mem;
    struct glex_nicmem *region;
    glex_ret_t ret;

    if (handle == NULL || addr_p == NULL || len == 0 || len > INT64_MAX / 2 || ep->forked) {
        return GLEX_INVALID_PARAM;
    }
    mem = &ep->mem;
    if (!(ep->dev->caps.caps & GLEX_EXT_CAP_MAP)) {
        return GLEX_NOT_IMPLEMENTED;
    }
    region = malloc(sizeof(*region));
    if (region == NULL) {
        return GLEX_NO_MEM_RESOURCE;
    }
    region->size = glex_round_up(len, glex_page_size());

    pthread_mutex_lock(&mem->lock);
    ret = nicmem_map(ep, region);
    if (ret == GLEX_SUCCESS) {
        region->next = mem->regions;
        mem->regions = region;
        *addr_p = region->addr;
    }
    pthread_mutex_unlock(&mem->lock);
    return ret;
}

glex_ret_t glex_ext_mem_free(glex_ep_handle_t handle, void *addr)
{
    struct glex_endpoint *ep = glex_endpoint(handle);
    struct glex_mem *mem;
    struct glex_nicmem *region, **link;
    int fd;

    if (handle == NULL || addr == NULL || ep->forked) {
        return GLEX_INVALID_PARAM;
    }
    mem = &ep->mem;

    pthread_mutex_lock(&mem->lock);
    for (link = &mem->regions; *link != NULL && (*link)->addr != addr; link = &(*link)->next) {
    }
    region = *link;
    if (region != NULL) {
        *link = region->next;
        munmap(region->addr, region->size);
        fd = glex_segment_reopen(ep->dev->dirfd, &ep->segment);
        nicmem_punch(fd, region);
        if (fd >= 0) {
            close(fd);
        }
        nicmem_give_place(mem, region);
    }
    pthread_mutex_unlock(&mem->lock);
    return region != NULL ? GLEX_SUCCESS : GLEX_INVALID_PARAM;
}

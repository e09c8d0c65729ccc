/*
 * Memory of the NIC: pieces of the endpoint's own segment file, behind the base, which peers can
 * map. Offsets are never used again, so a peer that still has a freed piece mapped sees nobody
 * else's data.
 */
#include "base/log.h"
#include "core/endpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct glex_nicmem {
    struct glex_nicmem *next;
    char *addr;
    uint64_t size;
    uint64_t file_off;
};

/* Only what lies within one region can be mapped by peers as one piece. */
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
    struct glex_nicmem *region;

    while ((region = mem->regions) != NULL) {
        mem->regions = region->next;
        munmap(region->addr, region->size);
        free(region);
    }
}

/* Extend the file by reserved pages: no later store can fail for want of memory. */
static glex_ret_t nicmem_extend(struct glex_mem *mem, int fd, uint64_t size)
{
    int err = glex_segment_reserve(fd, mem->file_end + size, mem->file_end, size);

    if (err == 0) {
        return GLEX_SUCCESS;
    }
    (void)!ftruncate(fd, (off_t)mem->file_end);
    glex_error("cannot reserve %llu KiB of NIC memory: %s; %s", (unsigned long long)size / 1024,
               strerror(err), glex_segment_reserve_advice(err));
    errno = err;
    return GLEX_NO_MEM_RESOURCE;
}

/*
 * Map through a descriptor opened for the purpose: this mapping may be inherited by fork(), and
 * must not keep the owner's lock alive.
 */
static glex_ret_t nicmem_map(struct glex_endpoint *ep, struct glex_nicmem *region)
{
    struct glex_mem *mem = &ep->mem;
    glex_ret_t ret;
    int fd;

    fd = glex_segment_reopen(ep->dev->dirfd, &ep->segment);
    if (fd < 0) {
        glex_error("cannot open the endpoint's own segment: %s%s", strerror(errno),
                   errno == EMFILE ? "; raise the limit of open files (ulimit -n)" : "");
        return GLEX_SYS_ERR;
    }
    ret = nicmem_extend(mem, fd, region->size);
    if (ret == GLEX_SUCCESS) {
        region->file_off = mem->file_end;
        region->addr = mmap(NULL, region->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                            (off_t)region->file_off);
        if (region->addr == MAP_FAILED) {
            glex_error("cannot map %llu KiB of NIC memory: %s",
                       (unsigned long long)region->size / 1024, strerror(errno));
            (void)!ftruncate(fd, (off_t)mem->file_end);
            ret = GLEX_NO_MEM_RESOURCE;
        }
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
        mem->file_end += region->size;
        region->next = mem->regions;
        mem->regions = region;
        *addr_p = region->addr;
    }
    pthread_mutex_unlock(&mem->lock);
    if (ret != GLEX_SUCCESS) {
        free(region);
    }
    return ret;
}

/* Give the pages back to the file system; the file keeps its length. */
static void nicmem_punch(struct glex_endpoint *ep, const struct glex_nicmem *region)
{
    int fd = glex_segment_reopen(ep->dev->dirfd, &ep->segment);

    if (fd < 0 || fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)region->file_off,
                            (off_t)region->size) != 0) {
        glex_warn("%llu KiB of NIC memory stay reserved until the endpoint is destroyed: %s",
                  (unsigned long long)region->size / 1024, strerror(errno));
    }
    if (fd >= 0) {
        close(fd);
    }
}

glex_ret_t glex_ext_mem_free(glex_ep_handle_t handle, void *addr)
{
    struct glex_endpoint *ep = glex_endpoint(handle);
    struct glex_mem *mem;
    struct glex_nicmem *region, **link;

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
        nicmem_punch(ep, region);
        free(region);
    }
    pthread_mutex_unlock(&mem->lock);
    return region != NULL ? GLEX_SUCCESS : GLEX_INVALID_PARAM;
}

#include "core/heap.h"
#include "base/log.h"
#include "common/shared_heap.h"
#include "core/memfile.h"

#include <fcntl.h>

/* False: nothing is preloaded, or the library is of another version. */
static bool heap_query(struct shared_heap *heap)
{
    if (shared_heap_query == NULL) {
        return false;
    }
    shared_heap_query(heap);
    return heap->version == SHARED_HEAP_VERSION;
}

void glex_heap_check(void)
{
    struct shared_heap heap;
    static bool is_said;

    if (!is_said && heap_query(&heap) && heap.refused != NULL) {
        is_said = true;
        glex_warn("the shared heap is not used: %s", heap.refused);
    }
}

uint64_t glex_heap_file_off(struct glex_endpoint *ep, const char *addr, uint64_t len)
{
    struct glex_segment_header *hdr = ep->segment.hdr;
    struct shared_heap heap;
    uint64_t offset;

    if (!(ep->dev->caps.caps & GLEX_EXT_CAP_MAP) || !heap_query(&heap) || heap.base == NULL) {
        return 0;
    }
    offset = (uint64_t)(addr - heap.base);
    if (offset >= heap.size || len > heap.size - offset) {
        return 0;
    }
    /* relaxed: the state of the registration is stored afterwards, with release */
    __atomic_store_n(&hdr->heap_fd, (uint32_t)heap.fd, __ATOMIC_RELAXED);
    __atomic_store_n(&hdr->heap_id, heap.id, __ATOMIC_RELAXED);
    return GLEX_MMT_HEAP | offset;
}

int glex_heap_open(const struct glex_endpoint *ep, const struct glex_peer *peer, uint64_t *size_p)
{
    /* relaxed: the caller has read the state of a registration, with acquire */
    uint64_t id = __atomic_load_n(&peer->base->heap_id, __ATOMIC_RELAXED);
    uint32_t number = __atomic_load_n(&peer->base->heap_fd, __ATOMIC_RELAXED);
    char name[SHARED_HEAP_NAME_LEN];

    if (!(ep->dev->caps.caps & GLEX_EXT_CAP_MAP) || id == 0) {
        return -1;
    }
    shared_heap_name(name, id);
    return glex_memfile_open(ep, peer, number, name, O_RDWR, size_p);
}

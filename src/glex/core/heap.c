#include "core/heap.h"
#include "base/log.h"
#include "common/shared_heap.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

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

/* Opens the descriptor as a path (O_PATH). This has no effect on the file, so any file may stand
 * behind the number. */
static int heap_open_path(uint32_t pid, uint32_t number, uint64_t id)
{
    char path[64];
    int fd;

    snprintf(path, sizeof(path), "/proc/%" PRIu32 "/fd/%" PRIu32, pid, number);
    fd = open(path, O_PATH | O_CLOEXEC);
    if (fd >= 0 && !shared_heap_is_file(fd, id)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* A file that can become shorter would raise SIGBUS. */
static bool heap_is_sealed(int fd, uint64_t *size_p)
{
    int seals = fcntl(fd, F_GET_SEALS);
    struct stat st;

    if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &st) != 0) {
        return false;
    }
    *size_p = (uint64_t)st.st_size;
    return true;
}

int glex_heap_open(const struct glex_endpoint *ep, const struct glex_peer *peer, uint64_t *size_p)
{
    /* relaxed: the caller has read the state of a registration, with acquire */
    uint64_t id = __atomic_load_n(&peer->base->heap_id, __ATOMIC_RELAXED);
    uint32_t number = __atomic_load_n(&peer->base->heap_fd, __ATOMIC_RELAXED);
    char path[32];
    int path_fd, fd;

    if (!(ep->dev->caps.caps & GLEX_EXT_CAP_MAP) || id == 0 || peer->pid_space != ep->pid_space) {
        return -1;
    }
    path_fd = heap_open_path(peer->pid, number, id);
    if (path_fd < 0) {
        return -1;
    }
    snprintf(path, sizeof(path), "/proc/self/fd/%d", path_fd);
    fd = open(path, O_RDWR | O_CLOEXEC);
    close(path_fd);
    if (fd >= 0 && !heap_is_sealed(fd, size_p)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

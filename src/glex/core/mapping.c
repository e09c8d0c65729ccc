#include "core/mapping.h"
#include "base/lock.h"
#include "base/log.h"
#include "shm/segment.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

/* Guards the lists. A thread takes no other lock while the thread holds this lock. The count of a
 * mapping becomes 0 without the lock. Then the mapping stays in the lists until the thread of the last
 * user has taken the lock. */
static struct glex_lock mapping_lock = GLEX_LOCK_INITIAL;
static struct glex_mappings mapping_all = LIST_HEAD_INITIALIZER(mapping_all);

struct glex_mapping *glex_mapping_adopt(void *base, uint64_t file_off, uint64_t size)
{
    struct glex_mapping *map = calloc(1, sizeof(*map));

    if (map == NULL) {
        return NULL;
    }
    (void)madvise(base, size, MADV_DONTFORK);
    map->base = base;
    map->file_off = file_off;
    map->size = size;
    map->count = GLEX_MAPPING_USER;
    glex_lock_take(&mapping_lock);
    LIST_INSERT_HEAD(&mapping_all, map, all);
    glex_lock_give(&mapping_lock);
    return map;
}

struct glex_mapping *glex_mapping_new(int fd, uint64_t file_off, uint64_t size)
{
    void *base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)file_off);
    struct glex_mapping *map;

    if (base == MAP_FAILED) {
        return NULL;
    }
    map = glex_mapping_adopt(base, file_off, size);
    if (map == NULL) {
        munmap(base, size);
        errno = ENOMEM;
    }
    return map;
}

void glex_mapping_list(struct glex_mappings *list, struct glex_mapping *map)
{
    glex_lock_take(&mapping_lock);
    map->listed = true;
    LIST_INSERT_HEAD(list, map, of_peer);
    glex_lock_give(&mapping_lock);
}

static bool mapping_contains(const struct glex_mapping *map, uint64_t file_off, uint64_t size)
{
    return file_off >= map->file_off && size <= map->size &&
           file_off - map->file_off <= map->size - size;
}

/* Adds a user. False: the mapping is being unmapped. relaxed: the lock is held, and the thread that
 * made the mapping held the lock, too. */
static bool mapping_use(struct glex_mapping *map)
{
    uint64_t count = __atomic_load_n(&map->count, __ATOMIC_RELAXED);

    while (count != 0) {
        if (__atomic_compare_exchange_n(&map->count, &count, count + GLEX_MAPPING_USER, true,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
            return true;
        }
    }
    return false;
}

struct glex_mapping *glex_mapping_find(const struct glex_mappings *list, uint64_t file_off,
                                       uint64_t size)
{
    struct glex_mapping *map;

    glex_lock_take(&mapping_lock);
    LIST_FOREACH(map, list, of_peer) {
        if (mapping_contains(map, file_off, size) && mapping_use(map)) {
            break;
        }
    }
    glex_lock_give(&mapping_lock);
    return map;
}

void glex_mappings_unlist(struct glex_mappings *list)
{
    struct glex_mapping *map;

    glex_lock_take(&mapping_lock);
    while ((map = LIST_FIRST(list)) != NULL) {
        LIST_REMOVE(map, of_peer);
        map->listed = false;
    }
    glex_lock_give(&mapping_lock);
}

static void mapping_destroy(struct glex_mapping *map)
{
    glex_lock_take(&mapping_lock);
    LIST_REMOVE(map, all);
    if (map->listed) {
        LIST_REMOVE(map, of_peer);
    }
    glex_lock_give(&mapping_lock);
    munmap(map->base, map->size);
    free(map);
}

/* acq_rel: every user's accesses to the memory precede the unmapping by the last user. */
static void mapping_put(struct glex_mapping *map, uint64_t count)
{
    if (__atomic_sub_fetch(&map->count, count, __ATOMIC_ACQ_REL) == 0) {
        mapping_destroy(map);
    }
}

void glex_mapping_put(struct glex_mapping *map)
{
    if (map != NULL) {
        mapping_put(map, GLEX_MAPPING_USER);
    }
}

void glex_ext_unpin(struct glex_ext_pin *pin)
{
    if (pin != NULL) {
        mapping_put((struct glex_mapping *)pin, GLEX_MAPPING_PIN);
    }
}

/* ---- fork ------------------------------------------------------------------------------------ */

static __thread bool mapping_forking; /* fork() has the lock, and runs in this thread */

void glex_mapping_prefork(void)
{
    mapping_forking = glex_lock_take_in_handler(&mapping_lock);
}

void glex_mapping_parent(void)
{
    if (mapping_forking) {
        glex_lock_give(&mapping_lock);
    }
}

void glex_mapping_child(void)
{
    const struct glex_mapping *map;

    LIST_FOREACH(map, &mapping_all, all) {
        if (map->count >= GLEX_MAPPING_PIN && !glex_segment_blank(map->base, map->size)) {
            glex_warn("a child of fork() must not use %llu KiB of a peer's memory: %s",
                      (unsigned long long)map->size / 1024, strerror(errno));
        }
    }
    glex_lock_reset(&mapping_lock);
}

/*
 * Mappings of peers' memory. A mapping counts its users: libglex itself, which copies through it,
 * and pins of the program (glex_ext_peer_ptr(), glex_ext_peer_watch()). The last user unmaps it. A
 * pin may outlive the peer and the endpoint that made it, so mappings belong to the process. Any
 * thread may call these functions.
 */
#ifndef GLEX_MAPPING_H
#define GLEX_MAPPING_H

#include "base/common.h"

#include <sys/queue.h>

struct glex_ext_pin;

struct glex_mapping {
    LIST_ENTRY(glex_mapping) all;     /* in the list of all mappings of this process */
    LIST_ENTRY(glex_mapping) of_peer; /* in a peer's list, if `listed` */
    bool listed;
    char *base;
    uint64_t
        file_off; /* in the peer's segment, with GLEX_MMT_HEAP in the peer's shared heap, or in a
                        * file of the program: core/alias.h */
    uint64_t size;
    uint64_t count; /* users, and above 32 bits the pins among them */
};

#define GLEX_MAPPING_USER 1ull
#define GLEX_MAPPING_PIN  ((1ull << 32) | GLEX_MAPPING_USER)

/* The mappings of one peer's NIC memory, which its registrations share. */
LIST_HEAD(glex_mappings, glex_mapping);

/** Map a part of a file, for one user. @return NULL and errno: no memory, or no mapping left. */
struct glex_mapping *glex_mapping_new(int fd, uint64_t file_off, uint64_t size);

/** Take over shared memory that the caller has mapped, for one user. The last user unmaps it.
 *  @return NULL: no memory, and the caller keeps the memory. */
struct glex_mapping *glex_mapping_adopt(void *base, uint64_t file_off, uint64_t size);

/** Enter a mapping in a peer's list. */
void glex_mapping_list(struct glex_mappings *list, struct glex_mapping *map);

/** A mapping of the list that contains a range, with one user more; or NULL. */
struct glex_mapping *glex_mapping_find(const struct glex_mappings *list, uint64_t file_off,
                                       uint64_t size);

/** Take all mappings out of the list of a peer that is being detached. Their users keep them. */
void glex_mappings_unlist(struct glex_mappings *list);

/** One user less. NULL is allowed. */
void glex_mapping_put(struct glex_mapping *map);

/** One pin of the program more, by a user. For the program a pin is opaque: it is the mapping.
 *  relaxed: the caller is a user, so the count is not 0, and nothing depends on its value. */
static inline struct glex_ext_pin *glex_mapping_pin(struct glex_mapping *map)
{
    __atomic_fetch_add(&map->count, GLEX_MAPPING_PIN, __ATOMIC_RELAXED);
    return (struct glex_ext_pin *)map;
}

/** Around fork(): no thread changes mappings meanwhile. In the child, private memory of zeros takes
 *  the place of pinned mappings, so that a store by a pointer of the parent changes nothing of the
 *  peer, and does not crash. The other mappings are not inherited. */
void glex_mapping_prefork(void);
void glex_mapping_parent(void);
void glex_mapping_child(void);

#endif

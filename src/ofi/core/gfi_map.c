/*
 * Maps of 64-bit numbers: open addressing, with a mark for deleted entries. POSIX's hsearch has one
 * table per process and strings for keys, tsearch allocates memory for each entry.
 */
#include "gfi.h"

#include <stdlib.h>

#define GFI_MAP_SIZE 16 /* to begin with; a power of two */

enum { GFI_SLOT_FREE, GFI_SLOT_USED, GFI_SLOT_DELETED };

struct gfi_map_slot {
    uint64_t key, value;
    uint8_t state;
};

static size_t gfi_map_place(const struct gfi_map *map, uint64_t key)
{
    uint64_t h = key * 0x9e3779b97f4a7c15ull;

    return (h ^ h >> 32) & (map->size - 1);
}

static struct gfi_map_slot *gfi_map_find(const struct gfi_map *map, uint64_t key)
{
    struct gfi_map_slot *slot;
    size_t i;

    if (map->count == 0) {
        return NULL;
    }
    for (i = gfi_map_place(map, key);; i = (i + 1) & (map->size - 1)) {
        slot = &map->slots[i];
        if (slot->state == GFI_SLOT_FREE) {
            return NULL;
        }
        if (slot->state == GFI_SLOT_USED && slot->key == key) {
            return slot;
        }
    }
}

static void gfi_map_put(struct gfi_map *map, uint64_t key, uint64_t value)
{
    size_t i = gfi_map_place(map, key);

    while (map->slots[i].state == GFI_SLOT_USED) {
        i = (i + 1) & (map->size - 1);
    }
    map->used += map->slots[i].state == GFI_SLOT_FREE;
    map->slots[i] = (struct gfi_map_slot){.key = key, .value = value, .state = GFI_SLOT_USED};
    map->count++;
}

/* Half of the slots at most are used, so that searches are short */
static int gfi_map_rebuild(struct gfi_map *map)
{
    struct gfi_map_slot *old = map->slots;
    size_t old_size = map->size, size = GFI_MAP_SIZE, i;

    while (size < map->count * 4) {
        size *= 2;
    }
    map->slots = calloc(size, sizeof(*map->slots));
    if (map->slots == NULL) {
        map->slots = old;
        return -FI_ENOMEM;
    }
    map->size = size;
    map->used = map->count = 0;
    for (i = 0; i < old_size; i++) {
        if (old[i].state == GFI_SLOT_USED) {
            gfi_map_put(map, old[i].key, old[i].value);
        }
    }
    free(old);
    return 0;
}

int gfi_map_set(struct gfi_map *map, uint64_t key, uint64_t value)
{
    struct gfi_map_slot *slot = gfi_map_find(map, key);

    if (slot != NULL) {
        slot->value = value;
        return 0;
    }
    if (2 * (map->used + 1) > map->size && gfi_map_rebuild(map) != 0) {
        return -FI_ENOMEM;
    }
    gfi_map_put(map, key, value);
    return 0;
}

bool gfi_map_get(const struct gfi_map *map, uint64_t key, uint64_t *value)
{
    const struct gfi_map_slot *slot = gfi_map_find(map, key);

    if (slot == NULL) {
        return false;
    }
    *value = slot->value;
    return true;
}

void gfi_map_delete(struct gfi_map *map, uint64_t key)
{
    struct gfi_map_slot *slot = gfi_map_find(map, key);

    if (slot != NULL) {
        slot->state = GFI_SLOT_DELETED;
        map->count--;
    }
}

void gfi_map_cleanup(struct gfi_map *map)
{
    free(map->slots);
    *map = (struct gfi_map){0};
}

bool gfi_map_next(const struct gfi_map *map, size_t *place, uint64_t *key, uint64_t *value)
{
    while (*place < map->size) {
        const struct gfi_map_slot *slot = &map->slots[(*place)++];

        if (slot->state == GFI_SLOT_USED) {
            *key = slot->key;
            *value = slot->value;
            return true;
        }
    }
    return false;
}

bool gfi_map_any(const struct gfi_map *map, uint64_t *key, uint64_t *value)
{
    size_t place = 0;

    return map->count > 0 && gfi_map_next(map, &place, key, value);
}

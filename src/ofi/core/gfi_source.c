/* Sources of messages in address vectors. */
#include "gfi.h"

fi_addr_t gfi_av_number(const struct gfi_av *av, uint64_t source)
{
    uint64_t number;

    return gfi_map_get(&av->by_source, source, &number) ? av->entries[number].user_id :
                                                          FI_ADDR_NOTAVAIL;
}

/* The deleted place of the map suffices for the new source in most cases */
static void gfi_av_move_source(struct gfi_av *av, uint64_t from, uint64_t to)
{
    uint64_t number;

    if (!gfi_map_get(&av->by_source, from, &number)) {
        return; /* done for another entry with this source */
    }
    gfi_map_delete(&av->by_source, from);
    if (gfi_map_set(&av->by_source, to, number) != 0) {
        GFI_WARN(FI_LOG_AV, "no memory: messages of address %llu have no source\n",
                 (unsigned long long)number);
    }
}

unsigned gfi_av_move_entries(struct gfi_domain *domain, const struct gfi_peer *from,
                             uint32_t from_id, struct gfi_peer *to, uint32_t to_id)
{
    struct gfi_av_entry *entry;
    struct gfi_list *item;
    unsigned moved = 0;
    struct gfi_av *av;
    size_t i;

    gfi_list_for_each(item, &domain->avs) {
        av = gfi_list_entry(item, struct gfi_av, link);
        for (i = 0; i < av->count; i++) {
            entry = &av->entries[i];
            if (entry->peer == from) {
                gfi_av_move_source(av, entry->source, entry->source - from_id + to_id);
                entry->source += to_id - (uint64_t)from_id;
                entry->peer = to;
                moved++;
            }
        }
    }
    return moved;
}

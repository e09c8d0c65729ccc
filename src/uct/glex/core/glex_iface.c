#include "core/glex_iface.h"

void uct_glex_snap_take(uct_glex_iface_t *iface, uct_glex_snap_t *snap)
{
    struct glex_ext_queues queues;

    if (glex_ext_query_queues(iface->nic, &queues) == GLEX_SUCCESS) {
        snap->events = queues.events_arrived;
        snap->mps = queues.mps_arrived;
    } else {
        snap->events = iface->num_empty;
    }
}

int uct_glex_snap_is_taken(const uct_glex_iface_t *iface, const uct_glex_snap_t *snap)
{
    struct glex_ext_queues queues;

    if (glex_ext_query_queues(iface->nic, &queues) == GLEX_SUCCESS) {
        return (queues.events_taken >= snap->events) && (queues.mps_taken >= snap->mps);
    }
    return iface->num_empty > snap->events;
}

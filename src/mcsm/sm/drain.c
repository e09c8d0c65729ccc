#include "drain.h"

#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

static struct mcsm_drain *find(const struct mcsm_drains *drains, uint64_t guid, uint8_t port,
                               bool held)
{
    struct mcsm_drain *drain;

    LL_FOREACH(drains->list, drain) {
        if (drain->guid == guid && drain->port == port && drain->held == held) {
            return drain;
        }
    }
    return NULL;
}

int mcsm_drains_add(struct mcsm_drains *drains, uint64_t guid, uint8_t port, bool held)
{
    struct mcsm_drain *drain;

    if (find(drains, guid, port, held) != NULL) {
        return 0;
    }
    drain = malloc(sizeof(*drain));
    if (drain == NULL) {
        return -ENOMEM;
    }
    *drain = (struct mcsm_drain){.guid = guid, .port = port, .held = held};
    LL_PREPEND(drains->list, drain);
    return 0;
}

int mcsm_drains_remove(struct mcsm_drains *drains, uint64_t guid, uint8_t port, bool held)
{
    struct mcsm_drain *drain = find(drains, guid, port, held);

    if (drain == NULL) {
        return -ENOENT;
    }
    LL_DELETE(drains->list, drain);
    free(drain);
    return 0;
}

void mcsm_drains_mark(const struct mcsm_drains *drains, struct mcsm_node *node)
{
    const struct mcsm_drain *drain;

    LL_FOREACH(drains->list, drain) {
        if (drain->guid == node->guid && drain->port <= node->nports) {
            node->ports[drain->port].drained = true;
            node->ports[drain->port].held |= drain->held;
        }
    }
}

void mcsm_drains_move(struct mcsm_drains *from, struct mcsm_drains *to)
{
    to->list = from->list;
    from->list = NULL;
}

void mcsm_drains_free(struct mcsm_drains *drains)
{
    struct mcsm_drain *drain, *next;

    LL_FOREACH_SAFE(drains->list, drain, next) {
        free(drain);
    }
    drains->list = NULL;
}

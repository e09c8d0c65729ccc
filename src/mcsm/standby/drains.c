#include "drains.h"

#include <utlist.h>

enum { PORT = 8 }; /* offset in the payload, behind the GUID */

static void send(struct mcsm_standbys *standbys, struct mcsm_standby *only, uint64_t guid,
                 uint8_t port, bool on)
{
    uint8_t payload[MCSM_STATE_PAYLOAD] = {0};

    mcsm_put64(payload, 0, guid);
    payload[PORT] = port;
    mcsm_standbys_send(standbys, only, MCSM_STATE_DRAIN, !on, payload);
}

void mcsm_drains_send(struct mcsm_standbys *standbys, uint64_t guid, uint8_t port, bool on)
{
    send(standbys, NULL, guid, port, on);
}

static void send_all(void *arg, struct mcsm_standbys *standbys, struct mcsm_standby *to)
{
    const struct mcsm_sm *sm = arg;
    const struct mcsm_drain *drain;

    LL_FOREACH(sm->drains.list, drain) {
        if (!drain->held) {
            send(standbys, to, drain->guid, drain->port, true);
        }
    }
}

/* The next sweep marks the ports. A standby sweeps before it becomes the master. */
static void take(void *arg, bool gone, const uint8_t *payload)
{
    struct mcsm_sm *sm = arg;
    uint64_t guid = mcsm_get64(payload, 0);

    if (gone) {
        mcsm_drains_remove(&sm->drains, guid, payload[PORT], false);
    } else if (mcsm_drains_add(&sm->drains, guid, payload[PORT], false) < 0) {
        mcsm_error("out of memory: port %u of 0x%016lx will not be drained", payload[PORT], guid);
    }
}

static void clear(void *arg)
{
    struct mcsm_sm *sm = arg;
    struct mcsm_drain *drain, *next;

    LL_FOREACH_SAFE(sm->drains.list, drain, next) {
        if (!drain->held) {
            mcsm_drains_remove(&sm->drains, drain->guid, drain->port, false);
        }
    }
}

void mcsm_drains_offer(struct mcsm_standbys *standbys, struct mcsm_sm *sm)
{
    static const struct mcsm_state_ops ops = {MCSM_STATE_DRAIN, send_all, take, clear};

    mcsm_standbys_offer(standbys, &ops, sm);
}

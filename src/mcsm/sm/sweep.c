#include "sweep.h"

enum {
    RETRY_FIRST = 1000, /* milliseconds after an incomplete sweep; doubled up to the last */
    RETRY_LAST = 60000
};

bool mcsm_sweep_heavy_due(struct mcsm_sweep *sweep, uint64_t now)
{
    if (!sweep->wanted && (sweep->retry_at == 0 || now < sweep->retry_at)) {
        return false;
    }
    sweep->wanted = false;
    sweep->retry_at = 0;
    return true;
}

bool mcsm_sweep_multicast_due(struct mcsm_sweep *sweep)
{
    bool due = sweep->multicast;

    sweep->multicast = false;
    return due;
}

bool mcsm_sweep_light_due(struct mcsm_sweep *sweep, const struct mcsm_config *config, uint64_t now)
{
    if (config->sweep_interval == 0 || now < sweep->next_light) {
        return false;
    }
    sweep->next_light = now + config->sweep_interval * 1000ULL;
    return true;
}

bool mcsm_sweep_poll_due(struct mcsm_sweep *sweep, const struct mcsm_config *config, uint64_t now)
{
    if (now < sweep->next_poll) {
        return false;
    }
    sweep->next_poll = now + config->standby_interval * 1000ULL;
    return true;
}

void mcsm_sweep_begin(struct mcsm_sweep *sweep, uint64_t now)
{
    sweep->incomplete = false;
    sweep->started = now;
}

void mcsm_sweep_put_off(struct mcsm_sweep *sweep, uint64_t now)
{
    sweep->retry_at = now + 5 * RETRY_FIRST;
}

void mcsm_sweep_end(struct mcsm_sweep *sweep, const struct mcsm_config *config, uint64_t now)
{
    unsigned wait;

    sweep->failures = sweep->incomplete ? sweep->failures + 1 : 0;
    wait = RETRY_FIRST << (sweep->failures < 7 ? sweep->failures : 6);
    sweep->retry_at = sweep->incomplete ? now + (wait < RETRY_LAST ? wait : RETRY_LAST) : 0;
    sweep->next_light = now + config->sweep_interval * 1000ULL;
    sweep->next_poll = now + config->standby_interval * 1000ULL;
}

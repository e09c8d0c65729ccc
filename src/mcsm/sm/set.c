/* Sets whose loss makes a sweep incomplete. */
#include "phases.h"

void mcsm_sm_set_done(void *arg, void *arg2, const uint8_t *mad, unsigned status)
{
    struct mcsm_sm *sm = arg;
    struct mcsm_port *port = arg2;

    if (mad != NULL) {
        return;
    }
    sm->stats.failed_sets++;
    sm->sweep.incomplete = true;
    if (port == NULL) {
        return;
    }
    port->failed = true;
    mcsm_warn("port %u of 0x%016lx (%s) %s; it is tried again with the next sweep", port->num,
              port->node->guid, port->node->desc,
              status ? "refuses what it is set to" : "does not answer a Set");
}

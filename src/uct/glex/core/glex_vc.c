#include "core/glex_ep.h"
#include "core/glex_vc.h"

uct_glex_vc_t uct_glex_no_vc = {.state = UCT_GLEX_VC_WAIT_MPQ, .status = UCS_ERR_NOT_CONNECTED};

void uct_glex_vc_schedule_pending(uct_glex_vc_t *vc)
{
    unsigned left = vc->num_blocked;
    uct_glex_ep_t *ep;

    if (left == 0) {
        return;
    }
    ucs_list_for_each(ep, &vc->eps, list) { /* endpoints with pending requests come first */
        if (ep->num_pending == 0) {
            continue;
        }
        /* The arbiter is trying a request of the `dispatching` endpoint, and schedules the endpoint
         * by the result */
        if (&ep->arb_group != vc->iface->dispatching) {
            ucs_arbiter_group_schedule(&vc->iface->arbiter, &ep->arb_group);
        }
        if (--left == 0) {
            break;
        }
    }
}

void uct_glex_vc_resume(uct_glex_vc_t *vc)
{
    if (vc->num_blocked > 0) {
        uct_glex_vc_schedule_pending(vc);
        uct_glex_iface_recheck(vc->iface);
    }
}

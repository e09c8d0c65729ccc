/*
 * Messages for users about the end of a connection. A message names the process, the event and a
 * remedy.
 */
#ifndef UCT_GLEX_REASON_H
#define UCT_GLEX_REASON_H

#include "core/glex_ep.h"

/** The facts about the end of a connection. They outlive the VC. */
typedef struct uct_glex_reason {
    const uct_glex_iface_t *iface;
    uint64_t peer;
    uint64_t peer_uuid;
    ucs_status_t status;
    uint8_t is_remote;
    uint8_t has_left;   /**< the peer has closed its interface, or has died */
    uint8_t is_refused; /**< a living peer refused access to its memory */
} uct_glex_reason_t;

/** Record the facts before the VC ends. `status`: the status of the VC. */
void uct_glex_reason_init(uct_glex_reason_t *reason, const uct_glex_vc_t *vc, ucs_status_t status);

/** Log the reason once for each peer, with the name and state of the peer's process.
 *  `handler_status`: what UCX's error handler returned. `is_first`: the VC's other endpoints have not
 *  logged the reason. Does not return if the program has no error handler. */
void uct_glex_reason_log(const uct_glex_reason_t *reason, ucs_status_t handler_status,
                         int is_first);

#endif

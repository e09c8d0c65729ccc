/*
 * Messages for users about the end of a connection. A message names the process, the event and a
 * remedy.
 */
#ifndef UCT_GLEX_REASON_H
#define UCT_GLEX_REASON_H

#include "core/glex_vc.h"

/* Room for the longest text */
#define UCT_GLEX_REASON_LEN 384

/** Describe why the VC failed with `status`. Asks the NIC about the peer's process. */
void uct_glex_reason_get(const uct_glex_vc_t *vc, ucs_status_t status,
                         char text[UCT_GLEX_REASON_LEN]);

/** A living peer refused a request access to its memory */
void uct_glex_reason_get_refused(const uct_glex_vc_t *vc, char text[UCT_GLEX_REASON_LEN]);

/** Log the reason once for each peer. `handler_status`: what UCX's error handler returned. `is_first`:
 *  the VC's other endpoints have not logged the reason. Does not return if the program has no error
 *  handler. */
void uct_glex_reason_log(const uct_glex_iface_t *iface, ucs_status_t handler_status,
                         ucs_status_t status, const char *text, int is_first);

#endif

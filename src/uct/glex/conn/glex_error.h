/*
 * Requests that the NIC took and that failed, and peers that fail without a word.
 */
#ifndef UCT_GLEX_ERROR_H
#define UCT_GLEX_ERROR_H

#include "core/glex_iface.h"

/** Handle what is in the NIC's error queue, and look now and then whether peers live */
void uct_glex_error_progress(uct_glex_iface_t *iface);

/** The same where no handler may be called. Returns whether progress has an error to handle. */
int uct_glex_error_look(uct_glex_iface_t *iface);

#endif

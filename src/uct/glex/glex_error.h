/*
 * Requests that the NIC took and that failed, and peers that fail without a word.
 */
#ifndef UCT_GLEX_ERROR_H
#define UCT_GLEX_ERROR_H

#include "glex_iface.h"

/** Look at the NIC's error queue, and now and then whether peers live */
void uct_glex_error_progress(uct_glex_iface_t *iface);

#endif

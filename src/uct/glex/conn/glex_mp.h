/*
 * The receiving end of the message queue (MPQ): docs/protocol.md, section 3.
 */
#ifndef UCT_GLEX_MP_H
#define UCT_GLEX_MP_H

#include "core/glex_iface.h"

/** An MP arrived. Nothing in it is trusted but where it came from, which the NIC says. */
void uct_glex_mp_recv(uct_glex_iface_t *iface, uint64_t src, void *data, unsigned length);

#endif

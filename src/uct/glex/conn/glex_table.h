/*
 * The table of an interface's VCs: by index, which is part of a VC's id, and by the peer's address.
 * It grows by one VC at a time: no call copies it or looks at all of it.
 */
#ifndef UCT_GLEX_TABLE_H
#define UCT_GLEX_TABLE_H

#include "core/glex_vc.h"

ucs_status_t uct_glex_table_init(uct_glex_iface_t *iface);
void uct_glex_table_cleanup(uct_glex_iface_t *iface);

/** Give a new VC an id, and have uct_glex_vc_find() find it from now on. It may take the place of
 *  an unused VC. EXCEEDS_LIMIT: there are UCT_GLEX_VC_MAX already. */
ucs_status_t uct_glex_table_add(uct_glex_vc_t *vc);

/** Whether the VC is the newest one of its peer's address */
int uct_glex_table_is_newest(const uct_glex_vc_t *vc);

/** The newest VC of a peer's address, or NULL. Several interfaces, one after the other, may have
 *  that address. */
uct_glex_vc_t *uct_glex_table_newest(const uct_glex_iface_t *iface, uint64_t peer);

/** The VC of the same address that was there before `vc`, or NULL */
uct_glex_vc_t *uct_glex_table_older(const uct_glex_vc_t *vc);

#endif

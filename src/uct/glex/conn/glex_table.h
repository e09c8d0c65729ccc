/*
 * The table of an interface's VCs: by index, which is part of a VC's id, and by the peer's address.
 * The table grows by one VC at a time. No call copies the table or searches all of it.
 */
#ifndef UCT_GLEX_TABLE_H
#define UCT_GLEX_TABLE_H

#include "core/glex_vc.h"

ucs_status_t uct_glex_table_init(uct_glex_iface_t *iface);
void uct_glex_table_cleanup(uct_glex_iface_t *iface);

/** Give a new VC an id, and enter the VC in the table, so that uct_glex_vc_find() finds it. The VC
 *  may take the place of an unused VC. EXCEEDS_LIMIT: the table has UCT_GLEX_VC_MAX VCs. */
ucs_status_t uct_glex_table_add(uct_glex_vc_t *vc);

/** The newest VC of the interface `uuid` at a peer's address, or NULL */
uct_glex_vc_t *uct_glex_vc_find(uct_glex_iface_t *iface, uint64_t peer, uint32_t uuid);

/** Free the VCs that other VCs have replaced in the table. No caller up the stack may use such a
 *  VC. */
void uct_glex_vc_free_unused(uct_glex_iface_t *iface);

/** Whether the VC is the newest VC of its peer's address */
int uct_glex_table_is_newest(const uct_glex_vc_t *vc);

/** The newest VC of a peer's address, or NULL. Successive interfaces may have had the address. */
uct_glex_vc_t *uct_glex_table_newest(const uct_glex_iface_t *iface, uint64_t peer);

/** The next older VC of the address of `vc`, or NULL */
uct_glex_vc_t *uct_glex_table_older(const uct_glex_vc_t *vc);

#endif

/*
 * Registrations of memory. A registration belongs to the domain's own endpoint, and to a further
 * endpoint of the domain from the first use there. A registration that is longer than the NIC's
 * offsets consists of windows, and each window has a handle (base/glex_wire.h).
 */
#ifndef UCT_GLEX_REG_H
#define UCT_GLEX_REG_H

#include "base/glex_nic.h"
#include "base/glex_wire.h"

#include <ucs/type/status.h>
#include <ucs/sys/compiler_def.h>
#include <stddef.h>
#include <stdint.h>

/* A registration at one endpoint */
typedef struct uct_glex_reg_ep {
    glex_ep_handle_t nic;
    glex_mem_handle_t *mh; /* handle of each window; &first: a single window */
    glex_mem_handle_t first;
} uct_glex_reg_ep_t;

/* A registration at endpoints of the domain, by index of the endpoint. A larger table replaces a
 * full table. Other threads may still read the older table, so older tables are freed with the
 * registration. */
typedef struct uct_glex_reg_table {
    struct uct_glex_reg_table *older;
    unsigned size;
    uct_glex_reg_ep_t *at[];
} uct_glex_reg_table_t;

typedef struct uct_glex_reg {
    void *address;
    size_t length;
    uct_glex_reg_ep_t home;       /* at the domain's own endpoint, whose index is 0 */
    uct_glex_reg_table_t *table;  /* at other endpoints; NULL: only at the domain's own endpoint */
    glex_mem_handle_t windows_mh; /* several windows: the registration of home.mh[], which peers
                                   * read */
} uct_glex_reg_t;

/** A place in a registration: handle at an endpoint of the domain, and offset */
typedef struct uct_glex_place {
    glex_mem_handle_t mh;
    uint32_t offset;
} uct_glex_place_t;

/** Register at the domain's own endpoint `nic`. Errors are logged, at a low level if `silent`. */
ucs_status_t uct_glex_reg_init(uct_glex_reg_t *reg, glex_ep_handle_t nic, void *address,
                               size_t length, int silent);

/** Deregister at all endpoints. The registration must be unused. */
void uct_glex_reg_cleanup(uct_glex_reg_t *reg);

/** Register at a further endpoint of the domain, whose index is not 0. The caller holds the
 *  domain's lock. */
ucs_status_t uct_glex_reg_add(uct_glex_reg_t *reg, glex_ep_handle_t nic, unsigned ep_index);

/** The registration at an endpoint; NULL: uct_glex_reg_add() must register there first */
static inline const uct_glex_reg_ep_t *uct_glex_reg_at(const uct_glex_reg_t *reg, unsigned ep_index)
{
    const uct_glex_reg_table_t *table;

    if (ucs_likely(ep_index == 0)) {
        return &reg->home;
    }
    /* acquire, both: pair with the releases of uct_glex_reg_add(). A thread that sees the table
     * also sees the table's size. A thread that sees the entry also sees the handle. */
    table = __atomic_load_n(&reg->table, __ATOMIC_ACQUIRE);
    return ((table == NULL) || (ep_index >= table->size)) ?
               NULL :
               __atomic_load_n(&table->at[ep_index], __ATOMIC_ACQUIRE);
}

#endif

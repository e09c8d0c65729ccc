/*
 * Registrations of memory. A registration belongs to the domain's own endpoint, and to further
 * endpoints of the domain from when these need it. If it is longer than the NIC's offsets reach, it
 * consists of windows, each with a handle of its own (base/glex_wire.h).
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
    glex_mem_handle_t *mh; /* of each window; &first if there is one window */
    glex_mem_handle_t first;
} uct_glex_reg_ep_t;

/* A registration at endpoints of the domain, by their index. A larger table replaces a full one.
 * Other threads may still read the older table, so the registration frees it. */
typedef struct uct_glex_reg_table {
    struct uct_glex_reg_table *older;
    unsigned size;
    uct_glex_reg_ep_t *at[];
} uct_glex_reg_table_t;

typedef struct uct_glex_reg {
    void *address;
    size_t length;
    uct_glex_reg_ep_t home;       /* at the domain's own endpoint, whose index is 0 */
    uct_glex_reg_table_t *table;  /* at other endpoints; NULL: at none yet */
    glex_mem_handle_t windows_mh; /* more than one window: home.mh[] itself, for peers to read */
} uct_glex_reg_t;

/** Where something lies: name of a registration at one of the domain's endpoints, and offset */
typedef struct uct_glex_place {
    glex_mem_handle_t mh;
    uint32_t offset;
} uct_glex_place_t;

/** Register at the domain's endpoint `nic`. Errors are logged, at a low level if `silent`. */
ucs_status_t uct_glex_reg_init(uct_glex_reg_t *reg, glex_ep_handle_t nic, void *address,
                               size_t length, int silent);

/** Deregister at all endpoints. Nobody else uses the registration any more. */
void uct_glex_reg_cleanup(uct_glex_reg_t *reg);

/** Register at one more endpoint of the domain, with this index, which is not 0. The caller holds
 *  the domain's lock. */
ucs_status_t uct_glex_reg_add(uct_glex_reg_t *reg, glex_ep_handle_t nic, unsigned ep_index);

/** The registration at an endpoint; NULL: uct_glex_reg_add() has to make it first */
static inline const uct_glex_reg_ep_t *uct_glex_reg_at(const uct_glex_reg_t *reg, unsigned ep_index)
{
    const uct_glex_reg_table_t *table;

    if (ucs_likely(ep_index == 0)) {
        return &reg->home;
    }
    /* acquire, both: pair with the releases of uct_glex_reg_add(). A thread that sees the table
     * sees its size, and a thread that sees the entry sees the handle. */
    table = __atomic_load_n(&reg->table, __ATOMIC_ACQUIRE);
    return ((table == NULL) || (ep_index >= table->size)) ?
               NULL :
               __atomic_load_n(&table->at[ep_index], __ATOMIC_ACQUIRE);
}

#endif

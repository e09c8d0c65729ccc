#include "base/glex_reg.h"
#include "base/glex_md.h"

#include <ucs/debug/log.h>
#include <ucs/debug/memtrack_int.h>
#include <ucs/sys/math.h>
#include <string.h>

#define UCT_GLEX_REG_FLAGS (GLEX_MEM_READ | GLEX_MEM_WRITE)

ucs_status_t uct_glex_reg_init(uct_glex_reg_t *reg, glex_ep_handle_t nic, void *address,
                               size_t length, int silent)
{
    glex_ret_t ret;

    reg->address  = address;
    reg->length   = length;
    reg->table    = NULL;
    reg->home.nic = nic;
    ret = glex_register_mem(nic, address, length, UCT_GLEX_REG_FLAGS, &reg->home.mh);
    if (ret != GLEX_SUCCESS) {
        ucs_log(silent ? UCS_LOG_LEVEL_DIAG : UCS_LOG_LEVEL_ERROR,
                "glex: cannot register %p length %zu: %s", address, length, glex_error_str(ret));
        return uct_glex_status(ret);
    }
    return UCS_OK;
}

void uct_glex_reg_cleanup(uct_glex_reg_t *reg)
{
    uct_glex_reg_table_t *table = reg->table;
    uct_glex_reg_table_t *older;
    unsigned i;

    glex_deregister_mem(reg->home.nic, reg->home.mh);
    for (i = 0; (table != NULL) && (i < table->size); ++i) {
        if (table->at[i] != NULL) {
            glex_deregister_mem(table->at[i]->nic, table->at[i]->mh);
            ucs_free(table->at[i]);
        }
    }
    for (; table != NULL; table = older) {
        older = table->older;
        ucs_free(table);
    }
}

/* Make sure that the table has an entry for the endpoint */
static ucs_status_t uct_glex_reg_grow(uct_glex_reg_t *reg, unsigned ep_index)
{
    uct_glex_reg_table_t *older = reg->table, *table;
    unsigned old_size           = (older == NULL) ? 0 : older->size;
    unsigned size               = ucs_max(8, ucs_roundup_pow2(ep_index + 1));

    if (ep_index < old_size) {
        return UCS_OK;
    }
    table = ucs_calloc(1, sizeof(*table) + size * sizeof(table->at[0]), "glex_reg_table");
    if (table == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    table->older = older;
    table->size  = size;
    if (older != NULL) {
        memcpy(table->at, older->at, old_size * sizeof(table->at[0]));
    }
    __atomic_store_n(&reg->table, table, __ATOMIC_RELEASE); /* see uct_glex_reg_at() */
    return UCS_OK;
}

ucs_status_t uct_glex_reg_add(uct_glex_reg_t *reg, glex_ep_handle_t nic, unsigned ep_index)
{
    uct_glex_reg_ep_t *at;
    glex_ret_t ret;

    if (uct_glex_reg_grow(reg, ep_index) != UCS_OK) {
        return UCS_ERR_NO_MEMORY;
    }
    at = ucs_malloc(sizeof(*at), "glex_reg_at");
    if (at == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    at->nic = nic;
    ret     = glex_register_mem(nic, reg->address, reg->length, UCT_GLEX_REG_FLAGS, &at->mh);
    if (ret != GLEX_SUCCESS) {
        ucs_error("glex: cannot register %p length %zu at endpoint %u: %s", reg->address,
                  reg->length, ep_index, glex_error_str(ret));
        ucs_free(at);
        return uct_glex_status(ret);
    }
    __atomic_store_n(&reg->table->at[ep_index], at, __ATOMIC_RELEASE); /* see uct_glex_reg_at() */
    return UCS_OK;
}

#include "base/glex_reg.h"
#include "base/glex_md.h"

#include <ucs/debug/log.h>
#include <ucs/debug/memtrack_int.h>
#include <ucs/sys/math.h>
#include <string.h>

#define UCT_GLEX_REG_FLAGS (GLEX_MEM_READ | GLEX_MEM_WRITE)

/* Deregister the first `count` windows */
static void uct_glex_reg_windows_cleanup(uct_glex_reg_ep_t *at, unsigned count)
{
    while (count-- > 0) {
        glex_deregister_mem(at->nic, at->mh[count]);
    }
    if (at->mh != &at->first) {
        ucs_free(at->mh);
    }
}

/* Register all windows of `reg` at an endpoint */
static ucs_status_t uct_glex_reg_windows_init(const uct_glex_reg_t *reg, uct_glex_reg_ep_t *at,
                                              glex_ep_handle_t nic)
{
    unsigned count = uct_glex_num_windows(reg->length);
    glex_ret_t ret;
    unsigned i;

    at->nic = nic;
    at->mh = (count == 1) ? &at->first : ucs_malloc(count * sizeof(*at->mh), "glex_reg_windows");
    if (at->mh == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    for (i = 0; i < count; ++i) {
        ret = glex_register_mem(nic, UCS_PTR_BYTE_OFFSET(reg->address, uct_glex_window_begin(i)),
                                uct_glex_window_length(i, reg->length), UCT_GLEX_REG_FLAGS,
                                &at->mh[i]);
        if (ret != GLEX_SUCCESS) {
            uct_glex_reg_windows_cleanup(at, i);
            return uct_glex_status(ret);
        }
    }
    return UCS_OK;
}

/* Register the table of handles, so that peers can read the table */
static ucs_status_t uct_glex_reg_show_windows(uct_glex_reg_t *reg)
{
    unsigned count = uct_glex_num_windows(reg->length);

    return (count == 1) ? UCS_OK :
                          uct_glex_status(glex_register_mem(reg->home.nic, reg->home.mh,
                                                            count * sizeof(*reg->home.mh),
                                                            GLEX_MEM_READ, &reg->windows_mh));
}

ucs_status_t uct_glex_reg_init(uct_glex_reg_t *reg, glex_ep_handle_t nic, void *address,
                               size_t length, int silent)
{
    ucs_status_t status;

    reg->address = address;
    reg->length = length;
    reg->table = NULL;
    status = uct_glex_reg_windows_init(reg, &reg->home, nic);
    if (status == UCS_OK) {
        status = uct_glex_reg_show_windows(reg);
        if (status != UCS_OK) {
            uct_glex_reg_windows_cleanup(&reg->home, uct_glex_num_windows(length));
        }
    }
    if (status != UCS_OK) {
        ucs_log(silent ? UCS_LOG_LEVEL_DIAG : UCS_LOG_LEVEL_ERROR,
                "glex: cannot register %p length %zu: %s", address, length,
                ucs_status_string(status));
    }
    return status;
}

void uct_glex_reg_cleanup(uct_glex_reg_t *reg)
{
    unsigned count = uct_glex_num_windows(reg->length);
    uct_glex_reg_table_t *table = reg->table;
    uct_glex_reg_table_t *older;
    unsigned i;

    if (count > 1) {
        glex_deregister_mem(reg->home.nic, reg->windows_mh);
    }
    uct_glex_reg_windows_cleanup(&reg->home, count);
    for (i = 0; (table != NULL) && (i < table->size); ++i) {
        if (table->at[i] != NULL) {
            uct_glex_reg_windows_cleanup(table->at[i], count);
            ucs_free(table->at[i]);
        }
    }
    for (; table != NULL; table = older) {
        older = table->older;
        ucs_free(table);
    }
}

/* Give the table an entry for the endpoint */
static ucs_status_t uct_glex_reg_grow(uct_glex_reg_t *reg, unsigned ep_index)
{
    uct_glex_reg_table_t *older = reg->table, *table;
    unsigned old_size = (older == NULL) ? 0 : older->size;
    unsigned size = ucs_max(8, ucs_roundup_pow2(ep_index + 1));

    if (ep_index < old_size) {
        return UCS_OK;
    }
    table = ucs_calloc(1, sizeof(*table) + size * sizeof(table->at[0]), "glex_reg_table");
    if (table == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    table->older = older;
    table->size = size;
    if (older != NULL) {
        memcpy(table->at, older->at, old_size * sizeof(table->at[0]));
    }
    __atomic_store_n(&reg->table, table, __ATOMIC_RELEASE); /* see uct_glex_reg_at() */
    return UCS_OK;
}

ucs_status_t uct_glex_reg_add(uct_glex_reg_t *reg, glex_ep_handle_t nic, unsigned ep_index)
{
    uct_glex_reg_ep_t *at;
    ucs_status_t status;

    if (uct_glex_reg_grow(reg, ep_index) != UCS_OK) {
        return UCS_ERR_NO_MEMORY;
    }
    at = ucs_malloc(sizeof(*at), "glex_reg_ep");
    if (at == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    status = uct_glex_reg_windows_init(reg, at, nic);
    if (status != UCS_OK) {
        ucs_error("glex: cannot register %p length %zu at endpoint %u: %s", reg->address,
                  reg->length, ep_index, ucs_status_string(status));
        ucs_free(at);
        return status;
    }
    __atomic_store_n(&reg->table->at[ep_index], at, __ATOMIC_RELEASE); /* see uct_glex_reg_at() */
    return UCS_OK;
}

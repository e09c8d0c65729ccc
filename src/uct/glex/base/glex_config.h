/*
 * Variables UCX_GLEX_* of the interface, and the check of their values. glex_md.c has the variables
 * of the memory domain.
 */
#ifndef UCT_GLEX_CONFIG_H
#define UCT_GLEX_CONFIG_H

#include <uct/base/uct_iface.h>

enum uct_glex_channel { UCT_GLEX_CHANNEL_ER, UCT_GLEX_CHANNEL_SR, UCT_GLEX_CHANNEL_LAST };

typedef struct uct_glex_iface_config {
    uct_iface_config_t super;
    uint64_t channels; /* bitmap of enum uct_glex_channel */
    unsigned ep_mpq_pool_units;
    unsigned srq_capacity;
    size_t srq_unit_size;
    unsigned er_thresh;
    unsigned er_max_channels;
    size_t er_max_mem;
    size_t erq_unit_size;
    size_t erq_size;    /* or UCS_MEMUNITS_AUTO: see uct_glex_config_fifo_size() */
    size_t erq_spacing; /* or UCS_MEMUNITS_AUTO: see uct_glex_er_spacing() */
    size_t rma_buf_size;
    unsigned rma_req_capacity;
    unsigned zc_req_capacity;
    size_t zc_max_size; /* or UCS_MEMUNITS_AUTO */
    size_t min_rndv;    /* or UCS_MEMUNITS_AUTO */
    unsigned sr_credit_start;
    unsigned sr_credit_inc;
    unsigned sr_credit_max;
} uct_glex_iface_config_t;

extern ucs_config_field_t uct_glex_iface_config_table[];

/* The value and the range of a variable */
typedef struct uct_glex_config_range {
    const char *name; /* without UCX_GLEX_ */
    uint64_t value;
    uint64_t min;
    uint64_t max;
    int zero_ok; /* 0 stands for the default */
} uct_glex_config_range_t;

/** Refuse values out of range. The error message names the variable and the range. */
ucs_status_t uct_glex_config_check_ranges(const uct_glex_config_range_t *ranges, unsigned count);

/** Size of a small ER FIFO. If the user chose no size, the first FIFOs are larger: see
 *  uct_glex_er_init_sizes(). */
size_t uct_glex_config_fifo_size(const uct_glex_iface_config_t *config);

/** Check all variables of the interface */
ucs_status_t uct_glex_iface_config_check(const uct_glex_iface_config_t *config);

#endif

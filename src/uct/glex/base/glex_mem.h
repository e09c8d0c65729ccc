/*
 * Registrations of the memory domain: with and without cache, allocation, packed keys.
 */
#ifndef UCT_GLEX_MEM_H
#define UCT_GLEX_MEM_H

#include "base/glex_md.h"

/** Choose the operations with or without registration cache, as configured and possible */
ucs_status_t uct_glex_mem_init(uct_glex_md_t *md, const uct_glex_md_config_t *config);

/** Drop the cache with all its registrations */
void uct_glex_mem_cleanup(uct_glex_md_t *md);

/* In glex_md.c; an entry of the operations table */
void uct_glex_md_close(uct_md_h md);

#endif

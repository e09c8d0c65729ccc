/* Routing tables in the chips: load, read back, keep in EEPROM, change. */
#ifndef INM_TABLES_H
#define INM_TABLES_H

#include "routes.h"

/** Loads d->tables into the chips; reads them back; keeps them in EEPROM. The caller holds `busy`. */
bool routes_load(struct inmd *d, struct route_result *result);
bool routes_verify(struct inmd *d, struct route_result *result);
bool routes_keep(struct inmd *d, uint32_t only_chip, struct route_result *result);

/* The difference between two sets of tables. */
struct table_changes {
    uint32_t chips;   /* whose table changes */
    uint32_t writes;  /* requests */
    uint64_t entries; /* (router, destination) whose ports change */
};

/** Counts what routes_change() would write. */
void tables_compare(const struct inm_topo *topo, const struct inm_table *from,
                    const struct inm_table *to, struct table_changes *changes);

/**
 * Writes the entries that differ between d->tables and `to` into the chips, and reads the changed
 * tables back. The caller holds `busy`. @return false with a message in `result`.
 */
bool tables_change(struct inmd *d, const struct inm_table *to, struct route_result *result);

#endif

/*
 * A routing table: for every destination NIC the set of output ports, one bit each, among which
 * the router may choose. Kept as runs of equal entries, ordered, without overlap.
 */
#ifndef INM_TABLE_H
#define INM_TABLE_H

#include <stdbool.h>
#include <stdint.h>

struct inm_run {
    uint16_t first;
    uint16_t num;
    uint32_t ports; /* bit n: port n; never 0 */
};

struct inm_table {
    struct inm_run *runs;
    uint32_t num, room;
};

/** Set entries; `ports` 0 empties them. `num` entries from `first` stay below 65536.
 *  @return false: no memory; nothing has changed. */
bool inm_table_set(struct inm_table *table, uint32_t first, uint32_t num, uint32_t ports);

/** The ports towards a NIC; 0: none. */
uint32_t inm_table_get(const struct inm_table *table, uint32_t nic);

bool inm_table_equal(const struct inm_table *a, const struct inm_table *b);

void inm_table_clear(struct inm_table *table);

#endif

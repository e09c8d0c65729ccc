/* Routing tables: generate, load into the chips, read back, keep in EEPROM. */
#ifndef INM_ROUTES_H
#define INM_ROUTES_H

#include "inm/server/core/inmd.h"

enum route_kind { ROUTE_SHORTEST, ROUTE_BALANCED, ROUTE_UPDOWN };

struct route_result {
    uint32_t chips, runs, failed, differ;
    uint64_t unreachable, checked;
    bool     deadlock_free;
    uint32_t min_load, max_load; /* destinations on an upward link */
    double   seconds;
    char     message[160];
};

/** Makes the tables of all NRCs from the discovered network. */
bool routes_generate(struct inmd *d, enum route_kind kind, struct route_result *result);

/** Load the tables into the chips; read them back; keep them in EEPROM. */
bool routes_load(struct inmd *d, struct route_result *result);
bool routes_verify(struct inmd *d, struct route_result *result);
bool routes_keep(struct inmd *d, uint32_t only_chip, struct route_result *result);

#endif

/* Operations on single chips: registers and EEPROM. */
#ifndef INM_ACCESS_H
#define INM_ACCESS_H

#include "inm/server/core/inmd.h"

/** Prepares a request to a chip. @return false: the chip is not reachable. */
bool request_for(struct inmd *d, uint32_t chip, unsigned type, struct net_req *req,
                 struct inm_route *route);

/** Read or write a register. @return enum net_outcome or a status. */
int chip_read(struct inmd *d, uint32_t chip, uint32_t addr, uint64_t *value);
int chip_write(struct inmd *d, uint32_t chip, uint32_t addr, uint64_t value);
int chip_eeprom_read(struct inmd *d, uint32_t chip, uint32_t addr, uint32_t num, uint8_t *bytes);
int chip_eeprom_write(struct inmd *d, uint32_t chip, uint32_t addr, uint32_t num,
                      const uint8_t *bytes);

/* A list of requests with room for `per_chip` to each chip. */
struct many {
    struct net_req *reqs;
    struct inm_route *routes;
    uint32_t *chips; /* by request */
    uint32_t num;
};

/** Copies the routes and allocates. Takes the lock. @return false: no memory. */
bool many_init(struct inmd *d, struct many *m, uint32_t per_chip);
void many_free(struct many *m);

/** Appends a request to a chip. */
struct net_req *many_add(struct inmd *d, struct many *m, uint32_t chip, unsigned type);

/** With the lock held: whether requests to a chip can be answered. */
bool reachable(const struct inmd *d, uint32_t chip);

/** Whether a chip stands in a range of cabinets. */
bool in_region(const struct inmd *d, uint32_t chip, uint32_t first_cabinet, uint32_t last_cabinet);

#endif

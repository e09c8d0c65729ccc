/* Operations on all chips: configuration, and the full scan of the paper. */
#ifndef INM_CHIPS_H
#define INM_CHIPS_H

#include "inm/server/core/inmd.h"

/** Tells the chips of a range of cabinets what to report, and to this server. @return Requests
 *  that failed. */
uint32_t push_config(struct inmd *d, uint32_t first_cabinet, uint32_t last_cabinet);

/** Reads back the registers that push_config() wrote. @return Requests whose answer differs. */
uint32_t check_config(struct inmd *d, uint32_t first_cabinet, uint32_t last_cabinet);

struct scan_result {
    uint64_t requests, failed, bits, modelled_ns;
    double real_seconds, link_share, formula_seconds;
};

/** Sends `per_chip` requests of one register to each NRC. */
void full_scan(struct inmd *d, uint32_t per_chip, struct scan_result *result);

#endif

/* Built-in self test of links. */
#ifndef INM_BIST_H
#define INM_BIST_H

#include "inm/server/core/inmd.h"

struct bist_result {
    uint32_t links, rounds, tested, bad, bridges, failed;
    uint64_t bits, errors;
    double seconds;
};

#define BIST_NEVER 255

/**
 * Chooses for each port the round in which its link is tested: 1 to BIST_NEVER - 1; 0: not wanted;
 * BIST_NEVER: the test would cut chips off. `want` and `round` are by port.
 * @return The number of rounds.
 */
uint32_t bist_plan(const struct inm_topo *topo, const uint32_t *peer, uint32_t server,
                   const uint8_t *want, uint8_t *round);

/** Tests the wanted links for `us` microseconds each. */
bool bist_run(struct inmd *d, const uint8_t *want, uint32_t us, struct bist_result *result);

#endif

/*
 * The counters of a port: PortCounters and PortCountersExtended of IBTA volume 1, chapter 16.
 *
 * The error counters have 4 to 16 bits and stop at their highest value. So this file keeps totals
 * of 64 bits. A counter that has reached half of its highest value asks for a reset. The traffic
 * counters of PortCounters have 32 bits; PortCountersExtended has 64 bits.
 */
#ifndef MCSM_COUNTERS_H
#define MCSM_COUNTERS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    MCSM_COUNTER_SYMBOL_ERROR,
    MCSM_COUNTER_LINK_DOWNED = 2,
    MCSM_COUNTER_XMIT_DATA = 12, /* in words of 4 bytes, and the three after it are traffic */
    MCSM_COUNTER_RCV_DATA,
    MCSM_COUNTER_XMIT_PACKETS,
    MCSM_COUNTER_RCV_PACKETS,
    MCSM_COUNTERS
};

struct mcsm_counters {
    bool seen;    /* PortCounters were read */
    bool refused; /* the port has no PortCountersExtended */
    bool wide;    /* PortCountersExtended were read */
    uint64_t last[MCSM_COUNTERS];
    uint64_t total[MCSM_COUNTERS];
    uint64_t delta[MCSM_COUNTERS]; /* between the last two polls */
};

/** The name of a counter, such as "symbol_error". */
const char *mcsm_counter_name(int counter);

/** Takes the data of PortCounters. The first values are totals without a delta. Returns the
 * CounterSelect bits of the counters that need a reset; 0: none. */
uint16_t mcsm_counters_take(struct mcsm_counters *counters, const uint8_t *data);

/** Takes the data of PortCountersExtended. */
void mcsm_counters_take_wide(struct mcsm_counters *counters, const uint8_t *data);

/** The counters of these CounterSelect bits were reset. */
void mcsm_counters_were_reset(struct mcsm_counters *counters, uint16_t select);

/** Errors of the cable and its ends since the poll before, and in total. Discarded packets are no
 * such errors: congestion causes them, too. */
uint64_t mcsm_counters_noise(const uint64_t values[MCSM_COUNTERS]);

#endif

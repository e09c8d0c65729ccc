#include "counters.h"

#include "mad/field.h"

/* The order is that of the bits of CounterSelect. A width of 4 bits is the high half of a byte if
 * `high` is set. `wide` is the offset in PortCountersExtended. */
static const struct {
    const char *name;
    uint8_t offset, bits, wide;
    bool high, noise;
} table[MCSM_COUNTERS] = {
    {"symbol_error", 4, 16, 0, false, true},
    {"link_error_recovery", 6, 8, 0, false, true},
    {"link_downed", 7, 8, 0, false, false},
    {"rcv_errors", 8, 16, 0, false, true},
    {"rcv_remote_physical_errors", 10, 16, 0, false, false},
    {"rcv_switch_relay_errors", 12, 16, 0, false, false},
    {"xmit_discards", 14, 16, 0, false, false},
    {"xmit_constraint_errors", 16, 8, 0, false, false},
    {"rcv_constraint_errors", 17, 8, 0, false, false},
    {"local_link_integrity_errors", 19, 4, 0, true, true},
    {"excessive_buffer_overrun_errors", 19, 4, 0, false, true},
    {"vl15_dropped", 22, 16, 0, false, false},
    {"xmit_data", 24, 32, 8, false, false},
    {"rcv_data", 28, 32, 16, false, false},
    {"xmit_packets", 32, 32, 24, false, false},
    {"rcv_packets", 36, 32, 32, false, false},
};

const char *mcsm_counter_name(int counter)
{
    return table[counter].name;
}

static uint64_t value_of(const uint8_t *data, int counter)
{
    unsigned offset = table[counter].offset;

    switch (table[counter].bits) {
    case 4:
        return table[counter].high ? data[offset] >> 4 : data[offset] & 15;
    case 8:
        return data[offset];
    case 16:
        return mcsm_get16(data, offset);
    default:
        return mcsm_get32(data, offset);
    }
}

/* A value below the last one means that another program has reset the counter. */
static void take(struct mcsm_counters *counters, int counter, uint64_t value, bool first)
{
    uint64_t last = counters->last[counter], delta = value < last ? value : value - last;

    counters->last[counter] = value;
    counters->total[counter] = first ? value : counters->total[counter] + delta;
    counters->delta[counter] = first ? 0 : delta;
}

uint16_t mcsm_counters_take(struct mcsm_counters *counters, const uint8_t *data)
{
    uint16_t select = 0;

    for (int i = 0; i < MCSM_COUNTERS; i++) {
        uint64_t value = value_of(data, i), half = 1ULL << (table[i].bits - 1);

        if (table[i].wide != 0 && counters->wide) {
            continue; /* PortCountersExtended has this counter */
        }
        take(counters, i, value, !counters->seen);
        if (value >= half && (table[i].wide == 0 || counters->refused)) {
            select |= 1 << i;
        }
    }
    counters->seen = true;
    return select;
}

void mcsm_counters_take_wide(struct mcsm_counters *counters, const uint8_t *data)
{
    for (int i = MCSM_COUNTER_XMIT_DATA; i < MCSM_COUNTERS; i++) {
        take(counters, i, mcsm_get64(data, table[i].wide), !counters->wide);
    }
    counters->wide = true;
}

void mcsm_counters_were_reset(struct mcsm_counters *counters, uint16_t select)
{
    for (int i = 0; i < MCSM_COUNTERS; i++) {
        if (select >> i & 1) {
            counters->last[i] = 0;
        }
    }
}

uint64_t mcsm_counters_noise(const uint64_t values[MCSM_COUNTERS])
{
    uint64_t sum = 0;

    for (int i = 0; i < MCSM_COUNTERS; i++) {
        sum += table[i].noise ? values[i] : 0;
    }
    return sum;
}

#include "chunk.h"

#include <stdbool.h>
#include <errno.h>
#include <math.h>
#include <string.h>

/* Bits, the most significant one first */

struct bits {
    uint8_t *bytes;
    size_t at, size; /* in bits; beyond `size` bits are zero, and `at` says so */
};

static void bits_put(struct bits *bits, uint64_t value, unsigned count)
{
    unsigned room, some;

    for (; count > 0; count -= some) {
        room = 8 - (bits->at % 8);
        some = (count < room) ? count : room;
        if (room == 8) {
            bits->bytes[bits->at / 8] = 0;
        }
        bits->bytes[bits->at / 8] |= ((value >> (count - some)) & ((1u << some) - 1))
                                     << (room - some);
        bits->at += some;
    }
}

static uint64_t bits_get(struct bits *bits, unsigned count)
{
    uint64_t value = 0;
    unsigned room, some;

    if (bits->at + count > bits->size) {
        bits->at = bits->size + 1; /* too short: seen at the end */
        return 0;
    }
    for (; count > 0; count -= some) {
        room = 8 - (bits->at % 8);
        some = (count < room) ? count : room;
        value =
            (value << some) | ((bits->bytes[bits->at / 8] >> (room - some)) & ((1u << some) - 1));
        bits->at += some;
    }
    return value;
}

/* Numbers near zero are short: a prefix of ones says how many bits follow. */

static const unsigned number_bits[] = {0, 3, 6, 9, 12, 20, 32, 64};
enum { NUMBER_CLASSES = sizeof(number_bits) / sizeof(number_bits[0]) };

static void number_put(struct bits *bits, int64_t number)
{
    uint64_t folded = ((uint64_t)number << 1) ^ -(uint64_t)(number < 0), first = 0;
    unsigned class = 0;

    while ((class < NUMBER_CLASSES - 1) &&
           (folded - first >= (UINT64_C(1) << number_bits[class]))) {
        first += UINT64_C(1) << number_bits[class];
        ++class;
    }
    bits_put(bits, (1u << class) - 1, class);
    if (class < NUMBER_CLASSES - 1) {
        bits_put(bits, 0, 1);
    }
    bits_put(bits, folded - first, number_bits[class]);
}

static int64_t number_get(struct bits *bits)
{
    uint64_t folded = 0;
    unsigned class = 0;

    while ((class < NUMBER_CLASSES - 1) && (bits_get(bits, 1) == 1)) {
        folded += UINT64_C(1) << number_bits[class ++];
    }
    folded += bits_get(bits, number_bits[class]);
    return (int64_t)(folded >> 1) ^ -(int64_t)(folded & 1);
}

/* Differences wrap around, so that none overflows. */
static int64_t apart(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

static int64_t plus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

/* Whole numbers by their distance (order 1) or its change (order 2), in units of 2^shift. */
static void numbers_put(struct bits *bits, const int64_t *numbers, unsigned count, unsigned order,
                        unsigned shift)
{
    int64_t distance, before = 0;
    unsigned i;

    bits_put(bits, (uint64_t)numbers[0], 64);
    for (i = 1; i < count; ++i) {
        distance = apart(numbers[i], numbers[i - 1]) >> shift;
        number_put(bits, (order == 2) ? apart(distance, before) : distance);
        before = distance;
    }
}

static void numbers_get(struct bits *bits, int64_t *numbers, unsigned count, unsigned order,
                        unsigned shift)
{
    int64_t distance, before = 0;
    unsigned i;

    numbers[0] = (int64_t)bits_get(bits, 64);
    for (i = 1; i < count; ++i) {
        distance = number_get(bits);
        distance = (order == 2) ? plus(distance, before) : distance;
        numbers[i] = plus(numbers[i - 1], (int64_t)((uint64_t)distance << shift));
        before = distance;
    }
}

/*
 * Values by XOR with the previous value: no difference, differing bits in the previous window of
 * bits, or a new window.
 */

static uint64_t value_bits(double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static void xor_put(struct bits *bits, const double *values, unsigned count)
{
    unsigned i, leading = 64, trailing = 0, zeros, ones;
    uint64_t differs;

    bits_put(bits, value_bits(values[0]), 64);
    for (i = 1; i < count; ++i) {
        differs = value_bits(values[i]) ^ value_bits(values[i - 1]);
        if (differs == 0) {
            bits_put(bits, 0, 1);
            continue;
        }
        zeros = __builtin_clzll(differs);
        ones = __builtin_ctzll(differs);
        if ((zeros >= leading) && (ones >= trailing) && (leading < 64)) {
            bits_put(bits, 2, 2);
        } else {
            leading = zeros;
            trailing = ones;
            bits_put(bits, 3, 2);
            bits_put(bits, leading, 6);
            bits_put(bits, trailing, 6);
        }
        bits_put(bits, differs >> trailing, 64 - leading - trailing);
    }
}

static int xor_get(struct bits *bits, double *values, unsigned count)
{
    uint64_t value = bits_get(bits, 64);
    unsigned i, leading = 0, trailing = 0;

    memcpy(&values[0], &value, sizeof(value));
    for (i = 1; i < count; ++i) {
        if (bits_get(bits, 1) == 1) {
            if (bits_get(bits, 1) == 1) {
                leading = bits_get(bits, 6);
                trailing = bits_get(bits, 6);
                if (leading + trailing > 63) {
                    return -EPROTO;
                }
            }
            value ^= bits_get(bits, 64 - leading - trailing) << trailing;
        }
        memcpy(&values[i], &value, sizeof(value));
    }
    return 0;
}

/* A chunk stores decimal values as whole numbers, in 1 / units[i]. */

static const double units[] = {1, 10, 100, 1e3, 1e4, 1e6, 1e9, 1e12};
enum { UNITS = sizeof(units) / sizeof(units[0]) };

/* Whether each value is exactly a whole number of 1 / unit. */
static bool values_whole(const double *values, unsigned count, double unit, int64_t *numbers)
{
    const double largest = 9007199254740992.0; /* 2^53 */
    unsigned i;

    for (i = 0; i < count; ++i) {
        if (!(fabs(values[i] * unit) < largest)) {
            return false; /* also NaN */
        }
        numbers[i] = llrint(values[i] * unit);
        if (value_bits((double)numbers[i] / unit) != value_bits(values[i])) {
            return false; /* also -0 */
        }
    }
    return true;
}

/* The power of two that divides all distances. */
static unsigned numbers_shift(const int64_t *numbers, unsigned count)
{
    uint64_t any = 0;
    unsigned i;

    for (i = 1; i < count; ++i) {
        any |= (uint64_t)apart(numbers[i], numbers[i - 1]);
    }
    return (any != 0) ? __builtin_ctzll(any) : 0;
}

enum { FORM_XOR, FORM_DELTA, FORM_DELTA_2 };

static void column_put(struct bits *bits, const double *values, unsigned count)
{
    uint8_t room[3][CHUNK_BYTES];
    struct bits forms[3] = {{room[0], 0, 0}, {room[1], 0, 0}, {room[2], 0, 0}};
    int64_t numbers[CHUNK_SAMPLES];
    unsigned i, unit = 0, form, best = FORM_XOR;

    while ((unit < UNITS) && !values_whole(values, count, units[unit], numbers)) {
        ++unit;
    }
    bits_put(&forms[FORM_XOR], FORM_XOR, 2);
    xor_put(&forms[FORM_XOR], values, count);
    for (form = FORM_DELTA; (form <= FORM_DELTA_2) && (unit < UNITS); ++form) {
        unsigned shift = numbers_shift(numbers, count);

        bits_put(&forms[form], form, 2);
        bits_put(&forms[form], unit, 3);
        bits_put(&forms[form], shift, 6);
        numbers_put(&forms[form], numbers, count, form, shift);
        best = (forms[form].at < forms[best].at) ? form : best;
    }
    for (i = 0; i < forms[best].at / 8; ++i) {
        bits_put(bits, room[best][i], 8);
    }
    if (forms[best].at % 8 != 0) {
        bits_put(bits, room[best][i] >> (8 - (forms[best].at % 8)), forms[best].at % 8);
    }
}

static int column_get(struct bits *bits, double *values, unsigned count)
{
    int64_t numbers[CHUNK_SAMPLES];
    unsigned i, form = bits_get(bits, 2), unit, shift;

    if (form == FORM_XOR) {
        return xor_get(bits, values, count);
    }
    unit = bits_get(bits, 3);
    shift = bits_get(bits, 6);
    if (form > FORM_DELTA_2) {
        return -EPROTO;
    }
    numbers_get(bits, numbers, count, form, shift);
    for (i = 0; i < count; ++i) {
        values[i] = (double)numbers[i] / units[unit];
    }
    return 0;
}

size_t chunk_encode(const struct chunk *chunk, uint8_t bytes[CHUNK_BYTES])
{
    struct bits bits = {.bytes = bytes};
    unsigned i;

    bits_put(&bits, chunk->count, 7);
    bits_put(&bits, chunk->columns, 2);
    if (chunk->count == 0) {
        return (bits.at + 7) / 8;
    }
    numbers_put(&bits, chunk->times, chunk->count, 2, 0);
    for (i = 0; i < chunk->columns; ++i) {
        column_put(&bits, chunk->values[i], chunk->count);
    }
    return (bits.at + 7) / 8;
}

int chunk_decode(const uint8_t *bytes, size_t length, struct chunk *chunk)
{
    struct bits bits = {.bytes = (uint8_t *)bytes, .size = 8 * length};
    unsigned i;

    chunk->count = bits_get(&bits, 7);
    chunk->columns = bits_get(&bits, 2);
    if ((chunk->count > CHUNK_SAMPLES) || (bits.at > bits.size)) {
        return -EPROTO;
    }
    if (chunk->count > 0) {
        numbers_get(&bits, chunk->times, chunk->count, 2, 0);
    }
    for (i = 0; (i < chunk->columns) && (chunk->count > 0); ++i) {
        if (column_get(&bits, chunk->values[i], chunk->count) < 0) {
            return -EPROTO;
        }
    }
    return (bits.at <= bits.size) ? 0 : -EPROTO;
}

void chunk_sort(struct chunk *chunk)
{
    double value[CHUNK_COLUMNS];
    unsigned i, j, k, kept = 0;
    int64_t time;

    for (i = 1; i < chunk->count; ++i) { /* nearly sorted already */
        time = chunk->times[i];
        for (k = 0; k < chunk->columns; ++k) {
            value[k] = chunk->values[k][i];
        }
        for (j = i; (j > 0) && (chunk->times[j - 1] > time); --j) {
            chunk->times[j] = chunk->times[j - 1];
            for (k = 0; k < chunk->columns; ++k) {
                chunk->values[k][j] = chunk->values[k][j - 1];
            }
        }
        chunk->times[j] = time;
        for (k = 0; k < chunk->columns; ++k) {
            chunk->values[k][j] = value[k];
        }
    }
    for (i = 0; i < chunk->count; ++i) {
        kept += (i > 0) && (chunk->times[i] != chunk->times[i - 1]);
        chunk->times[kept] = chunk->times[i];
        for (k = 0; k < chunk->columns; ++k) {
            chunk->values[k][kept] = chunk->values[k][i];
        }
    }
    chunk->count = (chunk->count > 0) ? (kept + 1) : 0;
}

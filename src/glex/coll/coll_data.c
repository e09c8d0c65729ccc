/*
 * The data of collective packets: making it, taking it apart, and combining that of two. Nothing
 * that was received is trusted: see glex_coll_reduce_is_valid().
 */
#include "coll/coll.h"

#define REDUCE_OPS (GLEX_COLL_REDUCE_BXOR + 1)

static uint32_t reduce_value_size(uint32_t bits)
{
    return bits == GLEX_COLL_REDUCE_DATA_BITS_64 ? sizeof(uint64_t) : sizeof(uint32_t);
}

/* With its location. */
static uint32_t reduce_unit_size(uint32_t bits)
{
    return reduce_value_size(bits) + (uint32_t)sizeof(uint32_t);
}

bool glex_coll_reduce_is_valid(const void *data, uint32_t len)
{
    struct glex_coll_reduce head;

    if (len < sizeof(head)) {
        return false;
    }
    memcpy(&head, data, sizeof(head));
    return head.magic == GLEX_COLL_REDUCE_MAGIC && head.op < REDUCE_OPS &&
           head.bits <= GLEX_COLL_REDUCE_DATA_BITS_64 && head.count != 0 &&
           head.count <= GLEX_COLL_REDUCE_MAX_DATA_UNITS &&
           len == sizeof(head) + head.count * reduce_unit_size(head.bits);
}

/* ---- a unit ---------------------------------------------------------------------------------- */

/* A unit, with its bytes read as each type. */
struct reduce_unit {
    union {
        uint64_t u64;
        uint32_t u32;
        double f64;
        float f32;
    } value;
    uint32_t location;
};

static struct reduce_unit reduce_read(const uint8_t *data, uint32_t bits)
{
    uint32_t size = reduce_value_size(bits);
    struct reduce_unit unit = {.value.u64 = 0};

    memcpy(&unit.value, data, size);
    memcpy(&unit.location, data + size, sizeof(unit.location));
    return unit;
}

static void reduce_write(uint8_t *data, uint32_t bits, const struct reduce_unit *unit)
{
    uint32_t size = reduce_value_size(bits);

    memcpy(data, &unit->value, size);
    memcpy(data + size, &unit->location, sizeof(unit->location));
}

/* Exact: 32 bits are widened. */
static double reduce_float(const struct reduce_unit *unit, bool wide)
{
    return wide ? unit->value.f64 : (double)unit->value.f32;
}

static uint64_t reduce_unsigned(const struct reduce_unit *unit, bool wide)
{
    return wide ? unit->value.u64 : unit->value.u32;
}

static int64_t reduce_signed(const struct reduce_unit *unit, bool wide)
{
    return wide ? (int64_t)unit->value.u64 : (int32_t)unit->value.u32;
}

/* ---- combining ------------------------------------------------------------------------------- */

/* Negative, 0 or positive. A NaN wins over every number in both directions, so the
 * result does not depend on the order of arrival. */
static int reduce_compare(uint32_t op, const struct reduce_unit *a, const struct reduce_unit *b,
                          bool wide)
{
    switch (op) {
    case GLEX_COLL_REDUCE_MAXLOC_FLOAT:
    case GLEX_COLL_REDUCE_MINLOC_FLOAT: {
        double x = reduce_float(a, wide), y = reduce_float(b, wide);

        if (x != x || y != y) {
            int order = (x != x) - (y != y);

            return op == GLEX_COLL_REDUCE_MAXLOC_FLOAT ? order : -order;
        }
        return (x > y) - (x < y);
    }
    case GLEX_COLL_REDUCE_MAXLOC_SIGNED:
    case GLEX_COLL_REDUCE_MINLOC_SIGNED: {
        int64_t x = reduce_signed(a, wide), y = reduce_signed(b, wide);

        return (x > y) - (x < y);
    }
    default: {
        uint64_t x = reduce_unsigned(a, wide), y = reduce_unsigned(b, wide);

        return (x > y) - (x < y);
    }
    }
}

/* The greater (sign 1) or smaller (-1) of two; of equal ones that with the lower location. */
static void reduce_select(uint32_t op, int sign, struct reduce_unit *a, const struct reduce_unit *b,
                          bool wide)
{
    int order = reduce_compare(op, a, b, wide) * sign;

    if (order < 0 || (order == 0 && b->location < a->location)) {
        *a = *b;
    }
}

/* Sums wrap around, so signed numbers are added as unsigned numbers. */
static void reduce_sum(uint32_t op, struct reduce_unit *a, const struct reduce_unit *b, bool wide)
{
    if (op != GLEX_COLL_REDUCE_SUM_FLOAT) {
        a->value.u64 += b->value.u64; /* of 32 bits the lower half is written */
    } else if (wide) {
        a->value.f64 += b->value.f64;
    } else {
        a->value.f32 += b->value.f32;
    }
}

static void reduce_logical(uint32_t op, struct reduce_unit *a, const struct reduce_unit *b,
                           bool wide)
{
    uint64_t x = reduce_unsigned(a, wide), y = reduce_unsigned(b, wide);

    switch (op) {
    case GLEX_COLL_REDUCE_LAND:
        a->value.u64 = x != 0 && y != 0;
        break;
    case GLEX_COLL_REDUCE_LOR:
        a->value.u64 = x != 0 || y != 0;
        break;
    case GLEX_COLL_REDUCE_LXOR:
        a->value.u64 = (x != 0) != (y != 0);
        break;
    case GLEX_COLL_REDUCE_BAND:
        a->value.u64 = x & y;
        break;
    case GLEX_COLL_REDUCE_BOR:
        a->value.u64 = x | y;
        break;
    default:
        a->value.u64 = x ^ y;
        break;
    }
}

static void reduce_combine_unit(uint32_t op, struct reduce_unit *a, const struct reduce_unit *b,
                                bool wide)
{
    switch (op) {
    case GLEX_COLL_REDUCE_SUM_FLOAT:
    case GLEX_COLL_REDUCE_SUM_SIGNED:
    case GLEX_COLL_REDUCE_SUM_UNSIGNED:
        reduce_sum(op, a, b, wide);
        break;
    case GLEX_COLL_REDUCE_MAXLOC_FLOAT:
    case GLEX_COLL_REDUCE_MAXLOC_SIGNED:
    case GLEX_COLL_REDUCE_MAXLOC_UNSIGNED:
        reduce_select(op, 1, a, b, wide);
        break;
    case GLEX_COLL_REDUCE_MINLOC_FLOAT:
    case GLEX_COLL_REDUCE_MINLOC_SIGNED:
    case GLEX_COLL_REDUCE_MINLOC_UNSIGNED:
        reduce_select(op, -1, a, b, wide);
        break;
    default:
        reduce_logical(op, a, b, wide);
        break;
    }
}

bool glex_coll_reduce_combine(void *result, uint32_t result_len, const void *data, uint32_t len)
{
    uint8_t *dst = result;
    const uint8_t *src = data;
    struct glex_coll_reduce head, other;
    struct reduce_unit a, b;
    uint32_t i, size;

    if (!glex_coll_reduce_is_valid(result, result_len) || !glex_coll_reduce_is_valid(data, len)) {
        return false;
    }
    memcpy(&head, result, sizeof(head));
    memcpy(&other, data, sizeof(other));
    if (head.op != other.op || head.bits != other.bits || head.count != other.count) {
        return false;
    }
    size = reduce_unit_size(head.bits);
    dst += sizeof(head);
    src += sizeof(head);
    for (i = 0; i < head.count; i++, dst += size, src += size) {
        a = reduce_read(dst, head.bits);
        b = reduce_read(src, head.bits);
        reduce_combine_unit(head.op, &a, &b, head.bits == GLEX_COLL_REDUCE_DATA_BITS_64);
        reduce_write(dst, head.bits, &a);
    }
    return true;
}

/* ---- public functions ------------------------------------------------------------------------ */

/* A member of the union begins as a unit in a packet does: with the value, then the location. */
_Static_assert(offsetof(union glex_coll_data_loc, uint32_s.location) == sizeof(uint32_t) &&
                   offsetof(union glex_coll_data_loc, uint64_s.location) == sizeof(uint64_t),
               "copied as a whole");

glex_ret_t glex_coll_compose_mp_reduce_data(union glex_coll_data_loc list[], uint32_t count,
                                            enum glex_coll_reduce_data_bits bits,
                                            enum glex_coll_reduce_op op, uint32_t branch_degree,
                                            void *data, uint32_t *len)
{
    struct glex_coll_reduce head = {
        .magic = GLEX_COLL_REDUCE_MAGIC,
        .op = (uint8_t)op,
        .bits = (uint8_t)bits,
        .count = (uint8_t)count,
        .degree = (uint8_t)branch_degree,
    };
    uint8_t *dst = data;
    uint32_t i;

    if (list == NULL || data == NULL || len == NULL || count == 0 ||
        count > GLEX_COLL_REDUCE_MAX_DATA_UNITS || (unsigned)bits > GLEX_COLL_REDUCE_DATA_BITS_64 ||
        (unsigned)op >= REDUCE_OPS || branch_degree > GLEX_COLL_MAX_BRANCH_DEGREE) {
        return GLEX_INVALID_PARAM;
    }
    memcpy(dst, &head, sizeof(head));
    dst += sizeof(head);
    for (i = 0; i < count; i++, dst += reduce_unit_size(bits)) {
        memcpy(dst, &list[i], reduce_unit_size(bits));
    }
    *len = (uint32_t)(dst - (uint8_t *)data);
    return GLEX_SUCCESS;
}

glex_ret_t glex_coll_decompose_mp_reduce_data(union glex_coll_data_loc list[], uint32_t count,
                                              enum glex_coll_reduce_data_bits bits, void *data)
{
    struct glex_coll_reduce head;
    const uint8_t *src = data;
    uint32_t i;

    if (list == NULL || data == NULL || (unsigned)bits > GLEX_COLL_REDUCE_DATA_BITS_64 ||
        count == 0 || count > GLEX_COLL_REDUCE_MAX_DATA_UNITS) {
        return GLEX_INVALID_PARAM;
    }
    memcpy(&head, src, sizeof(head));
    if (!glex_coll_reduce_is_valid(data, (uint32_t)sizeof(head) +
                                             head.count * reduce_unit_size(head.bits)) ||
        head.count != count || head.bits != bits) {
        return GLEX_INVALID_PARAM;
    }
    src += sizeof(head);
    for (i = 0; i < count; i++, src += reduce_unit_size(bits)) {
        memcpy(&list[i], src, reduce_unit_size(bits));
    }
    return GLEX_SUCCESS;
}

glex_ret_t glex_coll_compose_mp_set_data(glex_ep_addr_t addrs[], uint32_t count, void *data,
                                         uint32_t *len)
{
    if (len == NULL || count > GLEX_COLL_SET_MAX_NUM ||
        (count != 0 && (addrs == NULL || data == NULL))) {
        return GLEX_INVALID_PARAM;
    }
    *len = count * (uint32_t)sizeof(addrs[0]);
    if (count != 0) {
        memcpy(data, addrs, *len);
    }
    return GLEX_SUCCESS;
}

glex_ret_t glex_coll_compose_mp_swap_addr_data(glex_ep_handle_t handle, glex_mem_handle_t mh,
                                               uint32_t offset, uint32_t key, void *data,
                                               uint32_t *len)
{
    struct glex_coll_addr addr = {.mh = mh.v, .offset = offset, .key = key};

    if (handle == NULL || data == NULL || len == NULL || glex_endpoint(handle)->forked) {
        return GLEX_INVALID_PARAM;
    }
    addr.ep_addr = glex_endpoint(handle)->addr;
    memcpy(data, &addr, sizeof(addr));
    *len = sizeof(addr);
    return GLEX_SUCCESS;
}

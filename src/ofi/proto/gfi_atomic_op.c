/*
 * Atomic operations. The NIC has no atomic operation that libfabric could use, so the target's
 * progress executes them. A request names registered memory, the datatype and the operation. The
 * reply ends the operation at the initiator. Every request gets a reply, so a completion means that
 * the memory has changed.
 *
 * GFI_CALCULATE makes one function per datatype from the datatype's lists of operations. The
 * function calculates only. gfi_atomic_apply() makes the change atomic. Aligned elements of up to 8
 * bytes use the processor's compare-and-swap, so they are atomic with respect to compare-and-swaps
 * of other processes. Longer or unaligned elements use a lock of the process.
 */
#include "gfi_op.h"

#include <complex.h>
#include <stdlib.h>
#include <string.h>

/* ---- datatypes and operations ---- */

#define GFI_BIT(op) (1u << (op))
#define GFI_ANY_OPS                                                                                \
    (GFI_BIT(FI_SUM) | GFI_BIT(FI_PROD) | GFI_BIT(FI_LOR) | GFI_BIT(FI_LAND) | GFI_BIT(FI_LXOR) |  \
     GFI_BIT(FI_ATOMIC_READ) | GFI_BIT(FI_ATOMIC_WRITE) | GFI_BIT(FI_CSWAP) |                      \
     GFI_BIT(FI_CSWAP_NE))
#define GFI_ORDER_OPS                                                                              \
    (GFI_BIT(FI_MIN) | GFI_BIT(FI_MAX) | GFI_BIT(FI_CSWAP_LE) | GFI_BIT(FI_CSWAP_LT) |             \
     GFI_BIT(FI_CSWAP_GE) | GFI_BIT(FI_CSWAP_GT))
#define GFI_BITWISE_OPS (GFI_BIT(FI_BOR) | GFI_BIT(FI_BAND) | GFI_BIT(FI_BXOR) | GFI_BIT(FI_MSWAP))

#define GFI_COMPARE_OPS                                                                            \
    (GFI_BIT(FI_CSWAP) | GFI_BIT(FI_CSWAP_NE) | GFI_BIT(FI_CSWAP_LE) | GFI_BIT(FI_CSWAP_LT) |      \
     GFI_BIT(FI_CSWAP_GE) | GFI_BIT(FI_CSWAP_GT) | GFI_BIT(FI_MSWAP))
#define GFI_FETCH_OPS ((GFI_ANY_OPS | GFI_ORDER_OPS | GFI_BITWISE_OPS) & ~GFI_COMPARE_OPS)
#define GFI_BASE_OPS  (GFI_FETCH_OPS & ~GFI_BIT(FI_ATOMIC_READ))

/* v: the value in memory, o: the operand, c: the value to compare with. W is a sufficiently wide
 * type, unsigned for integers, so that integers wrap around. */
#define GFI_ANY_CASES(T, W)                                                                        \
    case FI_SUM:                                                                                   \
        v = (T)((W)v + (W)o);                                                                      \
        break;                                                                                     \
    case FI_PROD:                                                                                  \
        v = (T)((W)v * (W)o);                                                                      \
        break;                                                                                     \
    case FI_LOR:                                                                                   \
        v = (T)(v || o);                                                                           \
        break;                                                                                     \
    case FI_LAND:                                                                                  \
        v = (T)(v && o);                                                                           \
        break;                                                                                     \
    case FI_LXOR:                                                                                  \
        v = (T)(!v != !o);                                                                         \
        break;                                                                                     \
    case FI_ATOMIC_WRITE:                                                                          \
        v = o;                                                                                     \
        break;                                                                                     \
    case FI_CSWAP:                                                                                 \
        v = c == v ? o : v;                                                                        \
        break;                                                                                     \
    case FI_CSWAP_NE:                                                                              \
        v = c != v ? o : v;                                                                        \
        break;
#define GFI_ORDER_CASES                                                                            \
    case FI_MIN:                                                                                   \
        v = o < v ? o : v;                                                                         \
        break;                                                                                     \
    case FI_MAX:                                                                                   \
        v = o > v ? o : v;                                                                         \
        break;                                                                                     \
    case FI_CSWAP_LE:                                                                              \
        v = c <= v ? o : v;                                                                        \
        break;                                                                                     \
    case FI_CSWAP_LT:                                                                              \
        v = c < v ? o : v;                                                                         \
        break;                                                                                     \
    case FI_CSWAP_GE:                                                                              \
        v = c >= v ? o : v;                                                                        \
        break;                                                                                     \
    case FI_CSWAP_GT:                                                                              \
        v = c > v ? o : v;                                                                         \
        break;
#define GFI_BITWISE_CASES(T)                                                                       \
    case FI_BOR:                                                                                   \
        v = (T)(v | o);                                                                            \
        break;                                                                                     \
    case FI_BAND:                                                                                  \
        v = (T)(v & o);                                                                            \
        break;                                                                                     \
    case FI_BXOR:                                                                                  \
        v = (T)(v ^ o);                                                                            \
        break;                                                                                     \
    case FI_MSWAP:                                                                                 \
        v = (T)((o & c) | (v & ~c));                                                               \
        break;

/* FI_ATOMIC_READ has no case: it changes nothing */
#define GFI_CALCULATE(name, T, cases)                                                              \
    static void gfi_calculate_##name(unsigned op, void *value, const void *operand,                \
                                     const void *compare)                                          \
    {                                                                                              \
        T v, o, c;                                                                                 \
                                                                                                   \
        memcpy(&v, value, sizeof(v));                                                              \
        memcpy(&o, operand, sizeof(o));                                                            \
        memcpy(&c, compare, sizeof(c));                                                            \
        switch (op) {                                                                              \
            cases                                                                                  \
        }                                                                                          \
        memcpy(value, &v, sizeof(v));                                                              \
    }
#define GFI_INTEGER(T)                                                                             \
    GFI_CALCULATE(T, T, GFI_ANY_CASES(T, uint64_t) GFI_ORDER_CASES GFI_BITWISE_CASES(T))
#define GFI_REAL(name, T)    GFI_CALCULATE(name, T, GFI_ANY_CASES(T, T) GFI_ORDER_CASES)
#define GFI_COMPLEX(name, T) GFI_CALCULATE(name, T, GFI_ANY_CASES(T, T))

GFI_INTEGER(int8_t)
GFI_INTEGER(uint8_t)
GFI_INTEGER(int16_t)
GFI_INTEGER(uint16_t)
GFI_INTEGER(int32_t)
GFI_INTEGER(uint32_t)
GFI_INTEGER(int64_t)
GFI_INTEGER(uint64_t)
GFI_REAL(float, float)
GFI_REAL(double, double)
GFI_REAL(long_double, long double)
GFI_COMPLEX(float_complex, float complex)
GFI_COMPLEX(double_complex, double complex)
GFI_COMPLEX(long_double_complex, long double complex)

#define GFI_INTEGER_OPS (GFI_ANY_OPS | GFI_ORDER_OPS | GFI_BITWISE_OPS)
#define GFI_REAL_OPS    (GFI_ANY_OPS | GFI_ORDER_OPS)

static const struct gfi_datatype {
    void (*calculate)(unsigned op, void *value, const void *operand, const void *compare);
    size_t size;
    uint32_t ops;
} gfi_datatypes[] = {
    [FI_INT8] = {gfi_calculate_int8_t, 1, GFI_INTEGER_OPS},
    [FI_UINT8] = {gfi_calculate_uint8_t, 1, GFI_INTEGER_OPS},
    [FI_INT16] = {gfi_calculate_int16_t, 2, GFI_INTEGER_OPS},
    [FI_UINT16] = {gfi_calculate_uint16_t, 2, GFI_INTEGER_OPS},
    [FI_INT32] = {gfi_calculate_int32_t, 4, GFI_INTEGER_OPS},
    [FI_UINT32] = {gfi_calculate_uint32_t, 4, GFI_INTEGER_OPS},
    [FI_INT64] = {gfi_calculate_int64_t, 8, GFI_INTEGER_OPS},
    [FI_UINT64] = {gfi_calculate_uint64_t, 8, GFI_INTEGER_OPS},
    [FI_FLOAT] = {gfi_calculate_float, sizeof(float), GFI_REAL_OPS},
    [FI_DOUBLE] = {gfi_calculate_double, sizeof(double), GFI_REAL_OPS},
    [FI_FLOAT_COMPLEX] = {gfi_calculate_float_complex, sizeof(float complex), GFI_ANY_OPS},
    [FI_DOUBLE_COMPLEX] = {gfi_calculate_double_complex, sizeof(double complex), GFI_ANY_OPS},
    [FI_LONG_DOUBLE] = {gfi_calculate_long_double, sizeof(long double), GFI_REAL_OPS},
    [FI_LONG_DOUBLE_COMPLEX] = {gfi_calculate_long_double_complex, sizeof(long double complex),
                                GFI_ANY_OPS},
};
#define GFI_NUM_DATATYPES (sizeof(gfi_datatypes) / sizeof(gfi_datatypes[0]))
#define GFI_MAX_ELEMENT   sizeof(long double complex)

size_t gfi_atomic_size(unsigned datatype, unsigned op, unsigned kind)
{
    static const uint32_t ops[GFI_ATOMIC_KINDS] = {
        [GFI_ATOMIC_BASE] = GFI_BASE_OPS,
        [GFI_ATOMIC_FETCH] = GFI_FETCH_OPS,
        [GFI_ATOMIC_COMPARE] = GFI_COMPARE_OPS,
    };

    return datatype < GFI_NUM_DATATYPES && op < 32 && kind < GFI_ATOMIC_KINDS &&
                   (gfi_datatypes[datatype].ops & ops[kind] & GFI_BIT(op)) ?
               gfi_datatypes[datatype].size :
               0;
}

/* ---- one element ---- */

/* Acquire and release: a thread that sees the new value sees everything done before the change, as
 * with a lock. An unchanged value is not written, because the memory may be read-only. */
#define GFI_EXCHANGE(T)                                                                            \
    do {                                                                                           \
        T old = __atomic_load_n((T *)target, __ATOMIC_ACQUIRE), new;                               \
                                                                                                   \
        do {                                                                                       \
            new = old;                                                                             \
            type->calculate(op, &new, operand, compare);                                           \
        } while (new != old && !__atomic_compare_exchange_n((T *)target, &old, new, false,         \
                                                            __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));  \
        memcpy(before, &old, sizeof(old));                                                         \
    } while (0)

static void gfi_atomic_apply_locked(const struct gfi_datatype *type, unsigned op, void *target,
                                    const void *operand, const void *compare, void *before)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    uint8_t value[GFI_MAX_ELEMENT];

    pthread_mutex_lock(&lock);
    memcpy(value, target, type->size);
    memcpy(before, value, type->size);
    type->calculate(op, value, operand, compare);
    if (memcmp(before, value, type->size) != 0) {
        memcpy(target, value, type->size);
    }
    pthread_mutex_unlock(&lock);
}

void gfi_atomic_apply(unsigned datatype, unsigned op, void *target, const void *operand,
                      const void *compare, void *before)
{
    static const uint8_t nothing[GFI_MAX_ELEMENT];
    const struct gfi_datatype *type = &gfi_datatypes[datatype];
    bool is_aligned = ((uintptr_t)target & (type->size - 1)) == 0;

    operand = operand != NULL ? operand : nothing;
    compare = compare != NULL ? compare : nothing;
    switch (is_aligned ? type->size : 0) {
    case 1:
        GFI_EXCHANGE(uint8_t);
        break;
    case 2:
        GFI_EXCHANGE(uint16_t);
        break;
    case 4:
        GFI_EXCHANGE(uint32_t);
        break;
    case 8:
        GFI_EXCHANGE(uint64_t);
        break;
    default:
        gfi_atomic_apply_locked(type, op, target, operand, compare, before);
        break;
    }
}

/* ---- target ---- */

/* The memory of some of the request's elements, at least one, within one part. The elements begin
 * `at` bytes behind the request's address. @return 0 or a positive FI_ error */
static int gfi_atomic_part(struct gfi_mr *mr, const struct gfi_atomic_request *request, size_t at,
                           size_t size, uint8_t **memory_p, size_t *bytes_p)
{
    const struct gfi_mr_part *part = gfi_mr_find_part(mr, request->addr + at);
    size_t left;

    if (part == NULL) {
        return FI_EINVAL;
    }
    left = part->length - (request->addr + at - part->base);
    if (left < size) {
        return FI_EINVAL; /* an element in two parts */
    }
    if (request->op != FI_ATOMIC_READ && !(part->access & FI_REMOTE_WRITE)) {
        return FI_EACCES;
    }
    *memory_p = part->addr + (request->addr + at - part->base);
    *bytes_p = gfi_min(left - left % size, request->count * size - at);
    return 0;
}

/* Checks the key and all of the request's memory. @return 0 or a positive FI_ error */
static int gfi_atomic_find(const struct gfi_domain *domain,
                           const struct gfi_atomic_request *request, size_t size,
                           struct gfi_mr **mr_p)
{
    uint64_t read = request->kind != GFI_ATOMIC_BASE ? FI_REMOTE_READ : 0;
    uint64_t write = request->op != FI_ATOMIC_READ ? FI_REMOTE_WRITE : 0;
    struct gfi_mr *mr = gfi_mr_find(domain, request->key);
    size_t len = request->count * size, at, bytes;
    uint8_t *memory;
    int error;

    if (mr == NULL) {
        return FI_EKEYREJECTED;
    }
    if ((read | write) & ~mr->access) {
        return FI_EACCES;
    }
    if (request->addr < mr->base || len > mr->length ||
        request->addr - mr->base > mr->length - len) {
        return FI_EINVAL;
    }
    for (at = 0; at < len; at += bytes) {
        error = gfi_atomic_part(mr, request, at, size, &memory, &bytes);
        if (error != 0) {
            return error;
        }
    }
    *mr_p = mr;
    return 0;
}

/*
 * Executes all elements. Each element is atomic, the whole operation is not. `before` gets the
 * previous values.
 */
static void gfi_atomic_execute(struct gfi_mr *mr, const struct gfi_atomic_request *request,
                               size_t size, uint8_t *before)
{
    size_t len = request->count * size, at, bytes, i;
    const uint8_t *operands = request->op == FI_ATOMIC_READ ? NULL : request->bytes;
    const uint8_t *compares = request->kind == GFI_ATOMIC_COMPARE ? request->bytes + len : NULL;
    uint8_t *memory;

    for (at = 0; at < len; at += bytes) {
        if (gfi_atomic_part(mr, request, at, size, &memory, &bytes) != 0) {
            return; /* gfi_atomic_find() has found all parts */
        }
        for (i = at; i < at + bytes; i += size) {
            gfi_atomic_apply(request->datatype, request->op, memory + (i - at),
                             operands == NULL ? NULL : operands + i,
                             compares == NULL ? NULL : compares + i, before + i);
        }
    }
}

/* The counters of fi_ep_bind() count operations with and without results separately. The counters
 * of fi_mr_bind() count operations that may change the memory. */
static void gfi_atomic_count_event(struct gfi_domain *domain, struct gfi_mr *mr,
                                   const struct gfi_atomic_request *request)
{
    struct gfi_ep *ep = domain->eps[gfi_header_dst(request->header)];

    if (request->op != FI_ATOMIC_READ) {
        gfi_mr_count(mr, FI_REMOTE_WRITE);
    }
    if (ep != NULL && ep->enabled) {
        gfi_ep_count_access(ep,
                            request->kind == GFI_ATOMIC_BASE ? FI_REMOTE_WRITE : FI_REMOTE_READ);
    }
}

void gfi_atomic_on_request(struct gfi_peer *peer, const struct gfi_atomic_request *request,
                           size_t len)
{
    size_t size = gfi_atomic_size(request->datatype, request->op, request->kind);
    size_t bytes = request->count * size, results;
    uint8_t message[sizeof(struct gfi_atomic_reply) + GFI_ATOMIC_BYTES];
    struct gfi_mr *mr = NULL;
    struct gfi_atomic_reply *reply = (struct gfi_atomic_reply *)message;

    if (size == 0 || bytes == 0 || bytes > GFI_ATOMIC_BYTES ||
        len != bytes * ((request->op != FI_ATOMIC_READ) + (request->kind == GFI_ATOMIC_COMPARE))) {
        GFI_WARN(FI_LOG_EP_DATA, "peer %u asks for an atomic operation that there is not\n",
                 peer->id);
        return;
    }
    *reply = (struct gfi_atomic_reply){.header = peer->header, .id = request->id};
    reply->error = (uint32_t)gfi_atomic_find(peer->domain, request, size, &mr);
    if (reply->error == 0) {
        gfi_atomic_execute(mr, request, size, reply->bytes);
        gfi_atomic_count_event(peer->domain, mr, request);
    }
    results = reply->error == 0 && request->kind != GFI_ATOMIC_BASE ? bytes : 0;
    gfi_peer_send(peer, GFI_AM_ATOMIC_REPLY, reply, sizeof(*reply) + results);
}

/* ---- initiator ---- */

void gfi_atomic_start(struct gfi_op *op)
{
    struct gfi_atomic_request *request = op->copy;

    request->header = op->peer->header | op->ep->header | op->dst_ep;
    request->id = gfi_op_number(op);
    gfi_peer_send(op->peer, GFI_AM_ATOMIC, request, op->len);
}

void gfi_atomic_on_reply(struct gfi_peer *peer, const struct gfi_atomic_reply *reply, size_t len)
{
    struct gfi_op *op = gfi_op_find(peer->domain, peer, GFI_OP_ATOMIC, reply->id);
    int error = (int)reply->error;

    if (op == NULL) {
        return; /* of an endpoint that was closed */
    }
    if (error == 0 && len != op->place.len) {
        GFI_WARN(FI_LOG_EP_DATA, "peer %u replies with %zu bytes, not %zu\n", peer->id, len,
                 op->place.len);
        error = FI_EIO;
    }
    if (error == 0) {
        gfi_place_write(&op->place, 0, reply->bytes, len);
    }
    gfi_op_complete(op, error);
}

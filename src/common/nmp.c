/* Encoding and decoding of network management packets; see nmp.h. */
#include "nmp.h"

#include <stddef.h>
#include <string.h>

/* Places inside NMPData, from the descriptor's first bit. */
enum {
    BIT_COUNT = NMP_BIT_NMP_DATA,
    BIT_STATUS = BIT_COUNT + 4,
    BIT_FIRST = BIT_STATUS + 4, /* the following bits depend on the type of packet */
    BIT_REG = BIT_FIRST + 48,
    BIT_REPORT_SRC = BIT_FIRST + 24,
    BIT_REPORT_SEQ = BIT_REPORT_SRC + 24,
    BIT_REPORT_VALUE = BIT_REPORT_SEQ + 32
};
_Static_assert(BIT_REG + 128 <= NMP_DESC_BITS, "two registers fit");
_Static_assert(BIT_FIRST + NMP_MAX_BYTES * 24 <= NMP_DESC_BITS, "six bytes fit");
_Static_assert(BIT_REPORT_VALUE + 64 <= NMP_DESC_BITS, "a report fits");

uint64_t nmp_get_bits(const uint8_t *buf, unsigned bit, unsigned width)
{
    unsigned first = bit / 8, shift = bit % 8, num = (shift + width + 7) / 8, i;
    unsigned __int128 v = 0;

    for (i = 0; i < num; i++) {
        v |= (unsigned __int128)buf[first + i] << (8 * i);
    }
    v >>= shift;
    return width == 64 ? (uint64_t)v : (uint64_t)v & ((1ull << width) - 1);
}

void nmp_put_bits(uint8_t *buf, unsigned bit, unsigned width, uint64_t value)
{
    unsigned first = bit / 8, shift = bit % 8, num = (shift + width + 7) / 8, i;
    uint64_t ones = width == 64 ? UINT64_MAX : (1ull << width) - 1;
    unsigned __int128 mask = (unsigned __int128)ones << shift;
    unsigned __int128 v = (unsigned __int128)(value & ones) << shift;

    for (i = 0; i < num; i++) {
        buf[first + i] =
            (uint8_t)((buf[first + i] & ~(uint8_t)(mask >> (8 * i))) | (uint8_t)(v >> (8 * i)));
    }
}

void nmp_put_route(uint8_t *buf, unsigned bit, const struct nmp_route *route)
{
    unsigned __int128 v = route->num & 31u;
    unsigned i, num = route->num < NMP_MAX_HOPS ? route->num : NMP_MAX_HOPS;

    for (i = 0; i < num; i++) {
        v |= (unsigned __int128)(route->hop[i] & 31u) << (5 + 5 * i);
    }
    nmp_put_bits(buf, bit, 64, (uint64_t)v);
    nmp_put_bits(buf, bit + 64, NMP_ROUTE_BITS - 64, (uint64_t)(v >> 64));
}

bool nmp_get_route(const uint8_t *buf, unsigned bit, struct nmp_route *route)
{
    unsigned __int128 v = nmp_get_bits(buf, bit, 64);
    unsigned i, num;

    v |= (unsigned __int128)nmp_get_bits(buf, bit + 64, NMP_ROUTE_BITS - 64) << 64;
    num = (unsigned)v & 31u;
    memset(route, 0, sizeof(*route));
    route->num = (uint8_t)(num < NMP_MAX_HOPS ? num : NMP_MAX_HOPS);
    for (i = 0; i < route->num; i++) {
        route->hop[i] = (uint8_t)((unsigned)(v >> (5 + 5 * i)) & 31u);
    }
    return num <= NMP_MAX_HOPS;
}

static void put_data(const struct nmp_desc *desc, uint8_t *buf)
{
    const struct nmp_data *data = &desc->data;
    unsigned i;

    nmp_put_bits(buf, BIT_COUNT, 4, data->count);
    nmp_put_bits(buf, BIT_STATUS, 4, data->status);
    if (desc->nmp_type == NMP_REPORT) {
        nmp_put_bits(buf, BIT_FIRST, 8, data->report.event);
        nmp_put_bits(buf, BIT_FIRST + 8, 8, data->report.port);
        nmp_put_bits(buf, BIT_FIRST + 16, 8, data->report.src_type);
        nmp_put_bits(buf, BIT_REPORT_SRC, 24, data->report.src_id);
        nmp_put_bits(buf, BIT_REPORT_SEQ, 32, data->report.seq);
        nmp_put_bits(buf, BIT_REPORT_VALUE, 64, data->report.value);
    } else if (desc->nmp_type >= NMP_EEP_READ_REQ) {
        for (i = 0; i < NMP_MAX_BYTES; i++) {
            nmp_put_bits(buf, BIT_FIRST + 24 * i, 16, data->addr[i]);
            nmp_put_bits(buf, BIT_FIRST + 24 * i + 16, 8, data->byte[i]);
        }
    } else {
        for (i = 0; i < NMP_MAX_REGS; i++) {
            nmp_put_bits(buf, BIT_FIRST + 16 * i, 16, data->addr[i]);
            nmp_put_bits(buf, BIT_REG + 64 * i, 64, data->reg[i]);
        }
    }
}

static void get_data(const uint8_t *buf, struct nmp_desc *desc)
{
    struct nmp_data *data = &desc->data;
    unsigned i;

    data->count = (uint8_t)nmp_get_bits(buf, BIT_COUNT, 4);
    data->status = (uint8_t)nmp_get_bits(buf, BIT_STATUS, 4);
    if (desc->nmp_type == NMP_REPORT) {
        data->report.event = (uint8_t)nmp_get_bits(buf, BIT_FIRST, 8);
        data->report.port = (uint8_t)nmp_get_bits(buf, BIT_FIRST + 8, 8);
        data->report.src_type = (uint8_t)nmp_get_bits(buf, BIT_FIRST + 16, 8);
        data->report.src_id = (uint32_t)nmp_get_bits(buf, BIT_REPORT_SRC, 24);
        data->report.seq = (uint32_t)nmp_get_bits(buf, BIT_REPORT_SEQ, 32);
        data->report.value = nmp_get_bits(buf, BIT_REPORT_VALUE, 64);
    } else if (desc->nmp_type >= NMP_EEP_READ_REQ) {
        for (i = 0; i < NMP_MAX_BYTES; i++) {
            data->addr[i] = (uint16_t)nmp_get_bits(buf, BIT_FIRST + 24 * i, 16);
            data->byte[i] = (uint8_t)nmp_get_bits(buf, BIT_FIRST + 24 * i + 16, 8);
        }
    } else {
        for (i = 0; i < NMP_MAX_REGS; i++) {
            data->addr[i] = (uint16_t)nmp_get_bits(buf, BIT_FIRST + 16 * i, 16);
            data->reg[i] = nmp_get_bits(buf, BIT_REG + 64 * i, 64);
        }
    }
}

/* The fields of one word: member of nmp_desc, and place in the descriptor. */
/* clang-format off */
#define SMALL_FIELDS(F)                                                                          \
    F(head, HEAD) F(type, TYPE) F(sm, SM) F(inst, INST) F(err, ERR) F(fence, FEN) F(lint, LINT)  \
    F(rint, RINT) F(rt_type, RT_TYPE) F(dest_type, DEST_TYPE) F(dest_id, DEST_ID)                \
    F(dest_vp, DEST_VP) F(src_vp, SRC_VP)
/* clang-format on */

void nmp_encode(const struct nmp_desc *desc, uint8_t buf[NMP_DESC_BYTES])
{
    uint64_t word = 0;

    memset(buf, 0, NMP_DESC_BYTES);
#define PUT(member, name)                                                                          \
    word |= ((uint64_t)desc->member & ((1ull << NMP_WIDTH_##name) - 1)) << NMP_BIT_##name;
    SMALL_FIELDS(PUT)
#undef PUT
    nmp_put_bits(buf, 0, 64, word);
    nmp_put_bits(buf, NMP_BIT_TRANSACTION, NMP_WIDTH_TRANSACTION, desc->transaction);
    nmp_put_bits(buf, NMP_BIT_NMP_TYPE, NMP_WIDTH_NMP_TYPE, desc->nmp_type);
    nmp_put_route(buf, NMP_BIT_FROUTE, &desc->forward);
    nmp_put_route(buf, NMP_BIT_BROUTE, &desc->backward);
    put_data(desc, buf);
}

bool nmp_decode(const uint8_t buf[NMP_DESC_BYTES], struct nmp_desc *desc)
{
    uint64_t word = nmp_get_bits(buf, 0, 64);
    bool ok;

    memset(desc, 0, sizeof(*desc));
#define GET(member, name)                                                                          \
    desc->member =                                                                                 \
        (__typeof__(desc->member))((word >> NMP_BIT_##name) & ((1ull << NMP_WIDTH_##name) - 1));
    SMALL_FIELDS(GET)
#undef GET
    desc->transaction = (uint16_t)nmp_get_bits(buf, NMP_BIT_TRANSACTION, NMP_WIDTH_TRANSACTION);
    desc->nmp_type = (uint8_t)nmp_get_bits(buf, NMP_BIT_NMP_TYPE, NMP_WIDTH_NMP_TYPE);
    ok = nmp_get_route(buf, NMP_BIT_FROUTE, &desc->forward);
    ok = nmp_get_route(buf, NMP_BIT_BROUTE, &desc->backward) && ok;
    get_data(buf, desc);
    return ok && desc->head == NMP_HEAD && desc->type == NMP_TYPE_MP &&
           desc->rt_type == NMP_ROUTE_SOURCE;
}

void nmp_init(struct nmp_desc *desc, enum nmp_type type, enum nmp_chip dest_type, uint32_t dest_id)
{
    memset(desc, 0, sizeof(*desc));
    desc->head = NMP_HEAD;
    desc->type = NMP_TYPE_MP;
    desc->rt_type = NMP_ROUTE_SOURCE;
    desc->nmp_type = (uint8_t)type;
    desc->dest_type = (uint8_t)dest_type;
    desc->dest_id = dest_id;
}

bool nmp_is_request(unsigned type)
{
    return type == NMP_REG_READ_REQ || type == NMP_REG_WRITE_REQ || type == NMP_EEP_READ_REQ ||
           type == NMP_EEP_WRITE_REQ;
}

#define NAME_OF(names, i)                                                                          \
    ((i) < sizeof(names) / sizeof((names)[0]) && (names)[i] ? (names)[i] : "unknown")

const char *nmp_type_name(unsigned type)
{
    static const char *const names[] = {NULL,
                                        "register read request",
                                        "register read response",
                                        "register write request",
                                        "register write response",
                                        "register error response",
                                        "EEPROM read request",
                                        "EEPROM read response",
                                        "EEPROM write request",
                                        "EEPROM write response",
                                        "EEPROM error response",
                                        "report"};

    return NAME_OF(names, type);
}

const char *nmp_status_name(unsigned status)
{
    static const char *const names[] = {
        "done",          "address out of range",  "count out of range",
        "not a request", "register is read-only", "value refused"};

    return NAME_OF(names, status);
}

const char *nmp_event_name(unsigned event)
{
    static const char *const names[] = {NULL,   "link_down", "link_up",   "retry", "hot",
                                        "cool", "crc",       "bist_done", "width"};

    return NAME_OF(names, event);
}

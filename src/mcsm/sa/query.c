#include "query.h"

#include "rate.h"

#include <stdlib.h>

static bool bit(const uint8_t *data, unsigned index)
{
    return data[index / 8] >> (7 - index % 8) & 1;
}

bool mcsm_matches(const struct mcsm_query *query, const uint8_t *record,
                  const struct mcsm_component *components, size_t count)
{
    if (count < 64 && query->mask >> count != 0) {
        return false; /* a component that no record of this kind has */
    }
    for (size_t i = 0; i < count; i++) {
        if (!mcsm_asks(query, i)) {
            continue;
        }
        for (unsigned k = 0; k < components[i].length; k++) {
            unsigned at = components[i].from + k;

            if (bit(query->data, at) != bit(record, at)) {
                return false;
            }
        }
    }
    return true;
}

size_t mcsm_answer_step(const struct mcsm_query *query)
{
    return (query->record_size + 7) / 8 * 8;
}

bool mcsm_answer_add(struct mcsm_query *query, const uint8_t *record)
{
    if (query->count == query->room) {
        size_t room = query->room ? query->room * 2 : 16;
        uint8_t *more;

        if (room > 2 * MCSM_MAX_RECORDS) {
            query->status = MCSM_SA_NO_RESOURCES;
            return false;
        }
        more = realloc(query->out, room * mcsm_answer_step(query));
        if (more == NULL) {
            query->status = MCSM_SA_NO_RESOURCES;
            return false;
        }
        query->out = more;
        query->room = room;
    }
    memset(query->out + query->count * mcsm_answer_step(query), 0, mcsm_answer_step(query));
    memcpy(query->out + query->count++ * mcsm_answer_step(query), record, query->record_size);
    return true;
}

/* A number by which codes of a scale are compared; 0: there is no such code. */
static unsigned order_of(enum mcsm_scale scale, uint8_t code)
{
    switch (scale) {
    case MCSM_SCALE_RATE:
        return mcsm_rate_speed(code);
    case MCSM_SCALE_MTU:
        return code <= 5 ? code : 0;
    default:
        return code + 1u;
    }
}

bool mcsm_select(enum mcsm_scale scale, uint8_t asked, uint8_t best, uint8_t *chosen_p)
{
    uint8_t wanted = asked & 0x3f;

    *chosen_p = best;
    if (asked >> 6 == 3) {
        return true;
    }
    if (order_of(scale, wanted) == 0) {
        return false;
    }
    switch (asked >> 6) {
    case 0:
        return order_of(scale, best) > order_of(scale, wanted);
    case 1:
        if (order_of(scale, best) < order_of(scale, wanted)) {
            return true;
        }
        if (scale == MCSM_SCALE_LIFE && wanted == 0) {
            return false;
        }
        *chosen_p = scale == MCSM_SCALE_RATE ? mcsm_rate_below(wanted) : wanted - 1;
        return order_of(scale, *chosen_p) > 0;
    default:
        *chosen_p = wanted;
        return order_of(scale, best) >= order_of(scale, wanted);
    }
}

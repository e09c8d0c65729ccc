/*
 * The kinds of measurement, and whether a session can measure a kind.
 */
#include "perf.h"

#define SHORT_HALF 4096

const struct perf_kind perf_kinds[PERF_NUM_KINDS] = {
    {"mp", "-", PERF_OP_MP, PERF_REGION_IMM},
    {"imm", "plain", PERF_OP_IMM_PUT, PERF_REGION_IMM},
    {"imm", "event-data", PERF_OP_IMM_PUT, PERF_REGION_IMM_EVENT},
    {"put", "nic", PERF_OP_PUT, PERF_REGION_NIC},
    {"put", "private", PERF_OP_PUT, PERF_REGION_PRIVATE},
    {"get", "nic", PERF_OP_GET, PERF_REGION_NIC},
    {"get", "private", PERF_OP_GET, PERF_REGION_PRIVATE},
};

uint64_t perf_memory_half(const struct perf_session *s, enum perf_region region)
{
    return (region == PERF_REGION_NIC || region == PERF_REGION_PRIVATE) ? s->half : SHORT_HALF;
}

const char *perf_region_missing(const struct perf_session *s, enum perf_region region)
{
    if (!(s->mine.present & (1u << region))) {
        return s->why[region];
    }
    return (s->theirs.present & (1u << region)) ? NULL : "the peer has no such memory";
}

const char *perf_kind_missing(const struct perf_session *s, uint32_t kind)
{
    return perf_region_missing(s, perf_kinds[kind].region);
}

bool perf_kind_fits(const struct perf_session *s, uint32_t kind, uint64_t size)
{
    const struct perf_kind *k = &perf_kinds[kind];

    switch (k->op) {
    case PERF_OP_MP:
        return size <= s->attr.max_imm_mp_data_len;
    case PERF_OP_IMM_PUT:
        return size >= 1 && size <= s->attr.max_imm_rdma_data_len;
    default:
        return size >= 1 && size <= s->attr.max_rdma_data_len &&
               size <= perf_memory_half(s, k->region);
    }
}

/* The memory of glex_perf: regions, their contents, and the check of arrived data. */
#include "perf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Immediate puts and messages are short on any NIC, and so are a few cache lines. */

static uint8_t pattern_byte(enum perf_side side, uint64_t i)
{
    return (uint8_t)(i * 13 + (i >> 8) + side * 101 + 1);
}

static bool alloc_from_nic(struct perf_session *s, enum perf_region region, uint64_t len)
{
    void *addr;
    glex_ret_t ret;

    if (!(s->ext.caps & GLEX_EXT_CAP_MAP)) {
        snprintf(s->why[region], sizeof(s->why[region]), "%s", s->ext.missing);
        return false;
    }
    ret = glex_ext_mem_alloc(s->ep, len, &addr);
    if (ret != GLEX_SUCCESS) {
        snprintf(s->why[region], sizeof(s->why[region]), "%llu bytes of the NIC's memory: %s",
                 (unsigned long long)len, glex_error_str(ret));
        return false;
    }
    s->mem[region] = addr;
    s->from_nic |= 1u << region;
    return true;
}

static bool alloc_private(struct perf_session *s, enum perf_region region, uint64_t len)
{
    void *addr = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (addr == MAP_FAILED) {
        snprintf(s->why[region], sizeof(s->why[region]), "%llu bytes of memory: %s",
                 (unsigned long long)len, strerror(errno));
        return false;
    }
    s->mem[region] = addr;
    return true;
}

static bool alloc_region(struct perf_session *s, enum perf_region region, uint64_t len)
{
    switch (region) {
    case PERF_REGION_NIC:
    case PERF_REGION_LINES:
        return alloc_from_nic(s, region, len);
    case PERF_REGION_PRIVATE:
        if (!(s->ext.caps & GLEX_EXT_CAP_PRIVATE_RDMA)) {
            snprintf(s->why[region], sizeof(s->why[region]), "%s", s->ext.missing);
            return false;
        }
        return alloc_private(s, region, len);
    default:
        return alloc_from_nic(s, region, len) || alloc_private(s, region, len);
    }
}

static void free_region(struct perf_session *s, enum perf_region region)
{
    if (s->mem[region] == NULL) {
        return;
    }
    if (s->from_nic & (1u << region)) {
        glex_ext_mem_free(s->ep, s->mem[region]);
        s->from_nic &= ~(1u << region);
    } else {
        munmap(s->mem[region], 2 * perf_memory_half(s, region));
    }
    s->mem[region] = NULL;
}

static bool open_region(struct perf_session *s, enum perf_region region)
{
    uint64_t half = perf_memory_half(s, region), i;
    int32_t flag = GLEX_MEM_READ | GLEX_MEM_WRITE;
    glex_ret_t ret;

    if (!alloc_region(s, region, 2 * half)) {
        return false;
    }
    if (region == PERF_REGION_IMM_EVENT) {
        flag |= GLEX_EXT_MEM_EVENT_DATA;
    }
    ret = glex_register_mem(s->ep, s->mem[region], 2 * half, flag, &s->mine.mh[region]);
    if (ret != GLEX_SUCCESS) {
        snprintf(s->why[region], sizeof(s->why[region]), "glex_register_mem: %s",
                 glex_error_str(ret));
        free_region(s, region);
        return false;
    }
    for (i = 0; i < half; i++) {
        s->mem[region][i] = pattern_byte(s->side, i);
    }
    s->mine.present |= 1u << region;
    return true;
}

bool perf_memory_open(struct perf_session *s)
{
    int region;

    for (region = 0; region < PERF_NUM_REGIONS; region++) {
        open_region(s, region);
    }
    /* messages are sent from this region, so every measurement needs it */
    if (!(s->mine.present & (1u << PERF_REGION_IMM))) {
        tool_error("no memory to send from: %s", s->why[PERF_REGION_IMM]);
        return false;
    }
    return true;
}

void perf_memory_close(struct perf_session *s)
{
    int region;

    for (region = 0; region < PERF_NUM_REGIONS; region++) {
        if (s->mine.present & (1u << region)) {
            glex_deregister_mem(s->ep, s->mine.mh[region]);
        }
        free_region(s, region);
    }
    s->mine.present = 0;
}

static uint8_t *destination(const struct perf_session *s, const struct perf_run *run)
{
    enum perf_region region = perf_kinds[run->kind].region;

    return s->mem[region] + perf_memory_half(s, region);
}

uint8_t *perf_memory_source(const struct perf_session *s, const struct perf_run *run)
{
    return s->mem[perf_kinds[run->kind].region];
}

/* Clears the memory, so that data of an earlier run is not accepted as data of this run. */
void perf_memory_clear(struct perf_session *s, const struct perf_run *run)
{
    if (run->pattern == PERF_HANDOVER) {
        memset(s->mem[PERF_REGION_LINES], 0, perf_memory_half(s, PERF_REGION_LINES));
    } else {
        memset(destination(s, run), 0, run->size);
    }
}

bool perf_data_right(enum perf_side from, const uint8_t *data, uint64_t len)
{
    uint64_t i;

    for (i = 0; i < len; i++) {
        if (data[i] != pattern_byte(from, i)) {
            return false;
        }
    }
    return true;
}

bool perf_memory_right(const struct perf_session *s, const struct perf_run *run)
{
    return perf_data_right(s->side == PERF_CLIENT ? PERF_SERVER : PERF_CLIENT, destination(s, run),
                           run->size);
}

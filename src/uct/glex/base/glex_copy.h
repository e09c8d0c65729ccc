/*
 * Copying between processes that map the same memory.
 */
#ifndef UCT_GLEX_COPY_H
#define UCT_GLEX_COPY_H

#include <ucs/sys/compiler_def.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* From this length on, copies choose by the processor: uct_glex_copy_long(); SIZE_MAX: never */
extern size_t uct_glex_copy_string_min;

/** memmove() for long copies: by `rep movsb` if the processor has a fast `rep movsb`, and without
 *  `rep movsb` if the processor is slow with the alignment. The memory may overlap, because a peer
 *  may be the own process. */
void uct_glex_copy_long(void *dst, const void *src, size_t length);

static UCS_F_ALWAYS_INLINE void uct_glex_copy(void *dst, const void *src, size_t length)
{
    if (ucs_unlikely(length >= uct_glex_copy_string_min)) {
        uct_glex_copy_long(dst, src, length);
    } else {
        memmove(dst, src, length);
    }
}

/** Prefetch a cache line for writing. If compiled for any x86-64 processor, GCC's builtin fetches
 *  the line only for reading. Processors without the instruction ignore it. */
static UCS_F_ALWAYS_INLINE void uct_glex_prefetch_write(const void *line)
{
#ifdef __x86_64__
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)line));
#else
    __builtin_prefetch(line, 1);
#endif
}

/** Copy 48 bytes at most, without overlap of source and destination, and without a call: two or
 *  three moves, which may overlap each other */
static UCS_F_ALWAYS_INLINE void uct_glex_copy_small(void *dst, const void *src, size_t length)
{
    uint8_t *to = (uint8_t *)dst;
    const uint8_t *from = (const uint8_t *)src;

    if (length >= 16) {
        if (length > 32) {
            memcpy(to + 16, from + 16, 16);
        }
        memcpy(to, from, 16);
        memcpy(to + length - 16, from + length - 16, 16);
    } else if (length >= 8) {
        memcpy(to, from, 8);
        memcpy(to + length - 8, from + length - 8, 8);
    } else if (length >= 4) {
        memcpy(to, from, 4);
        memcpy(to + length - 4, from + length - 4, 4);
    } else if (length > 0) {
        to[0] = from[0];
        to[length / 2] = from[length / 2];
        to[length - 1] = from[length - 1];
    }
}

#endif

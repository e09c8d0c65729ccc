/*
 * Copies that are slow on some processors. On Zen 3 and Zen 4 `rep movsb` moves 2 bytes per
 * nanosecond instead of 60 if the destination is 1 to 31 bytes behind the source, modulo 4096.
 * malloc() begins long blocks 16 bytes behind the begin of a page, so a copy from the begin of a
 * page to a long block is slow. glibc uses `rep movsb` for 4 KB and more. The kernel uses
 * `rep movsb` for all lengths.
 */
#ifndef COMMON_SLOW_MOVE_H
#define COMMON_SLOW_MOVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/** glibc copies shorter lengths without `rep movsb`. */
#define SLOW_MOVE_MIN ((size_t)2048)

#define SLOW_MOVE_PIECE ((size_t)1024)

#if defined(__x86_64__)

#include <cpuid.h>

#define SLOW_MOVE_FAMILY 0x19 /* Zen 3 and Zen 4 */

/** Whether this processor has slow alignments. Takes some 100 ns: keep the result. */
static inline bool slow_move_is_here(void)
{
    unsigned eax, ebx, ecx, edx;

    if (!__get_cpuid(0, &eax, &ebx, &ecx, &edx) || ebx != signature_AMD_ebx ||
        !__get_cpuid(1, &eax, &ebx, &ecx, &edx)) {
        return false;
    }
    return ((eax >> 8) & 0xf) == 0xf && 0xf + ((eax >> 20) & 0xff) == SLOW_MOVE_FAMILY;
}

#else

static inline bool slow_move_is_here(void)
{
    return false;
}

#endif

/** Whether a copy has a slow alignment. */
static inline bool slow_move_is_slow(const void *dst, const void *src)
{
    return (((uintptr_t)dst - (uintptr_t)src) & 4095) - 1 < 31;
}

/** Copies in pieces that glibc copies without `rep movsb`. The memory may overlap. */
static inline void slow_move_in_pieces(void *dst, const void *src, size_t len)
{
    size_t done, piece;

    if ((uintptr_t)dst - (uintptr_t)src < len) {
        memmove(dst, src, len); /* from the end */
        return;
    }
    for (done = 0; done < len; done += piece) {
        piece = len - done < SLOW_MOVE_PIECE ? len - done : SLOW_MOVE_PIECE;
        memmove((char *)dst + done, (const char *)src + done, piece);
    }
}

/** memmove() of SLOW_MOVE_MIN bytes or more, if slow_move_is_here(). */
static inline void slow_move(void *dst, const void *src, size_t len)
{
    if (slow_move_is_slow(dst, src)) {
        slow_move_in_pieces(dst, src, len);
    } else {
        memmove(dst, src, len);
    }
}

#endif

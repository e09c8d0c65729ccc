/* Common declarations of all files of libglex: the exported public interface and small helpers. */
#ifndef GLEX_COMMON_H
#define GLEX_COMMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The library is built with hidden visibility. Declarations of the public headers are exported. */
#pragma GCC visibility push(default)
#include <glex.h>
#include <glex_ext.h>
#pragma GCC visibility pop

#include <openglex.h>

/** With --enable-debug, ends the process where an invariant of this library does not hold. */
#ifdef OPENGLEX_DEBUG
#define glex_assert(condition) ((condition) ? (void)0 : __builtin_trap())
#else
#define glex_assert(condition) ((void)sizeof(condition))
#endif

#define glex_likely(x)     __builtin_expect(!!(x), 1)
#define glex_unlikely(x)   __builtin_expect(!!(x), 0)
#define GLEX_NOINLINE      __attribute__((noinline, cold))
#define GLEX_ALWAYS_INLINE inline __attribute__((always_inline))

#define glex_container_of(ptr, type, member) ((type *)((char *)(ptr) - offsetof(type, member)))

/** Prefetch a cache line for writing. GCC's builtin prefetches for reading unless a processor is
 * given. Processors without the instruction ignore it. */
static inline void glex_prefetch_write(const void *ptr)
{
#ifdef __x86_64__
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)ptr));
#else
    __builtin_prefetch(ptr, 1);
#endif
}

/** Round up to a power of two. */
static inline uint64_t glex_round_up(uint64_t len, uint64_t to)
{
    return (len + to - 1) & ~(to - 1);
}

/** The granularity of mappings: 4 KiB, on some machines 64 KiB. */
static inline uint64_t glex_page_size(void)
{
    return (uint64_t)sysconf(_SC_PAGESIZE);
}

/**
 * Copies data of a queue slot (at most 112 bytes). For an unknown length the compiler would call
 * memcpy() through the PLT, which costs more than the copy. Each size class uses two possibly
 * overlapping moves, or a few moves of 16 bytes, so no byte loop remains.
 */
static inline void glex_copy_small(void *dst_p, const void *src_p, uint32_t len)
{
    char *dst = dst_p;
    const char *src = src_p;
    uint32_t i;

    if (len == 8) {
        __builtin_memcpy(dst, src, 8);
    } else if (len >= 16) {
        for (i = 0; i + 16 < len; i += 16) {
            __builtin_memcpy(dst + i, src + i, 16);
        }
        __builtin_memcpy(dst + len - 16, src + len - 16, 16);
    } else if (len > 8) {
        __builtin_memcpy(dst, src, 8);
        __builtin_memcpy(dst + len - 8, src + len - 8, 8);
    } else if (len >= 4) {
        __builtin_memcpy(dst, src, 4);
        __builtin_memcpy(dst + len - 4, src + len - 4, 4);
    } else if (len != 0) {
        dst[0] = src[0];
        dst[len / 2] = src[len / 2];
        dst[len - 1] = src[len - 1];
    }
}

/** CLOCK_MONOTONIC in nanoseconds. */
static inline uint64_t glex_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

#endif

/*
 * FNV-1a, 64 bits: a hash for table lookups. Do not use this hash if an attacker may choose the
 * input.
 */
#ifndef COMMON_FNV_H
#define COMMON_FNV_H

#include <stddef.h>
#include <stdint.h>

#define FNV_START UINT64_C(0xcbf29ce484222325)

/** Begin with FNV_START, and add to it. */
static inline uint64_t fnv1a(uint64_t hash, const void *data, size_t len)
{
    const unsigned char *p = (const unsigned char *)data;

    while (len-- > 0) {
        hash = (hash ^ *p++) * UINT64_C(0x100000001b3);
    }
    return hash;
}

#endif

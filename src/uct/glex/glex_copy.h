/*
 * Copying between processes that map the same memory.
 */
#ifndef UCT_GLEX_COPY_H
#define UCT_GLEX_COPY_H

#include <ucs/sys/compiler_def.h>
#include <stddef.h>
#include <string.h>

/* From this length on the processor's own string move is used; SIZE_MAX: never */
extern size_t uct_glex_copy_string_min;

/** As memmove() (it may be the own memory), but without what glibc does for long copies where the
 *  processor does it faster */
void uct_glex_copy_long(void *dst, const void *src, size_t length);

static UCS_F_ALWAYS_INLINE void uct_glex_copy(void *dst, const void *src, size_t length)
{
    if (ucs_unlikely(length >= uct_glex_copy_string_min)) {
        uct_glex_copy_long(dst, src, length);
    } else {
        memmove(dst, src, length);
    }
}

#endif

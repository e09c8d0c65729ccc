#include "base/copy.h"
#include "common/slow_move.h"

/* Whether the processor has slow alignments; -1: not looked up yet */
static int copy_has_slow = -1;

/* relaxed: each thread finds the same value */
static bool copy_is_slow_here(void)
{
    int has_slow = __atomic_load_n(&copy_has_slow, __ATOMIC_RELAXED);

    if (glex_unlikely(has_slow < 0)) {
        has_slow = slow_move_is_here();
        __atomic_store_n(&copy_has_slow, has_slow, __ATOMIC_RELAXED);
    }
    return has_slow;
}

void glex_copy_move(void *dst, const void *src, uint64_t len)
{
    if (len >= SLOW_MOVE_MIN && copy_is_slow_here()) {
        slow_move(dst, src, len);
    } else {
        memmove(dst, src, len);
    }
}

#include "base/copy.h"
#include "common/slow_move.h"

/* Whether the processor has slow alignments; -1: not looked up yet */
static int copy_has_slow = -1;

static bool copy_is_slow(const void *dst, const void *src, uint64_t len)
{
    int has_slow;

    if (len < SLOW_MOVE_MIN || !slow_move_is_slow(dst, src)) {
        return false;
    }
    /* relaxed: each thread finds the same value */
    has_slow = __atomic_load_n(&copy_has_slow, __ATOMIC_RELAXED);
    if (has_slow < 0) {
        has_slow = slow_move_is_here();
        __atomic_store_n(&copy_has_slow, has_slow, __ATOMIC_RELAXED);
    }
    return has_slow;
}

void glex_copy_move(void *dst, const void *src, uint64_t len)
{
    if (glex_unlikely(copy_is_slow(dst, src, len))) {
        slow_move_in_pieces(dst, src, len);
    } else {
        memmove(dst, src, len);
    }
}

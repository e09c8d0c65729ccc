/* Copies of any alignment. */
#ifndef GLEX_COPY_H
#define GLEX_COPY_H

#include "base/common.h"

/** Whether this processor or the kernel copies slowly with this alignment: common/slow_move.h */
bool glex_copy_is_slow(const void *dst, const void *src, uint64_t len);

/** memmove(), without the slow alignments of the processor. The memory may overlap, because an
 *  endpoint may put to itself. */
void glex_copy_move(void *dst, const void *src, uint64_t len);

#endif

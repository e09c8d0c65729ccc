/* Copies of any alignment. */
#ifndef GLEX_COPY_H
#define GLEX_COPY_H

#include "base/common.h"

/** memmove(), without the slow alignments of the processor. The memory may overlap, because an
 *  endpoint may put to itself. */
void glex_copy_move(void *dst, const void *src, uint64_t len);

#endif

/* Memory that this process and a peer map from the same file of shared memory. */
#ifndef GLEX_ALIAS_H
#define GLEX_ALIAS_H

#include "core/mapping.h"

/**
 * Make a mapping of a peer's memory, if this process maps the same memory from the same file.
 * Reads the lists of mappings of both processes, which takes as long as about 100 small copies by the
 * kernel.
 * @param pid         The peer's process. The caller checks after the call that the process is still
 *                    the peer.
 * @param known_addr  An address that only the peer's process has mapped.
 * @param addr        The first byte of the memory, in the peer's process.
 * @return The mapping, with one user, or NULL. The mapping begins with the page of the first byte.
 */
struct glex_mapping *glex_alias_new(uint32_t pid, uint64_t known_addr, uint64_t addr, uint64_t len);

#endif

/* Files in memory of peers (common/memfd.h), opened through /proc/PID/fd. */
#ifndef GLEX_MEMFILE_H
#define GLEX_MEMFILE_H

#include "core/endpoint.h"

/**
 * Open a file of a peer.
 * @param number  The peer's descriptor of the file.
 * @param name    The name of the file, with a random number. A file with another name is not opened: the
 *                peer may have ended, and another process may have its pid.
 * @param mode    O_RDONLY or O_RDWR.
 * @param [out] size_p  Length of the file. The file cannot become shorter.
 * @return -1: the peer has no such file, or this process may not open it.
 */
int glex_memfile_open(const struct glex_endpoint *ep, const struct glex_peer *peer, uint32_t number,
                      const char *name, int mode, uint64_t *size_p);

#endif

/* A listening socket at a path, for the user of the process alone. */
#ifndef COMMON_UNIX_LISTEN_H
#define COMMON_UNIX_LISTEN_H

#include <stddef.h>

/**
 * Listens at a path. A socket that no process listens at is replaced.
 * @param type  SOCK_STREAM or SOCK_SEQPACKET, and flags as for socket().
 * @param [out] error  What is wrong, without the path. May not be NULL.
 * @return The descriptor, or -1 with `error` set.
 */
int unix_listen(const char *path, int type, int backlog, char *error, size_t size);

#endif

/*
 * The map file: names of hosts, and ranks of processes. commatrix-collect writes one.
 *
 *     # comment
 *     host NAME ADDRESS...         names of addresses
 *     rank NUMBER HOST [qp QPN]    a process; with several on a host, the queue pair tells them
 * apart
 *
 * An ADDRESS is a LID (5 or 0x5), an IP address or a GID; a HOST is a NAME or an ADDRESS.
 */
#ifndef CM_MAP_H
#define CM_MAP_H

#include "read/packet.h"

#include <glib.h>

struct cm_map;

enum { CM_RANK_NONE = -1, CM_RANK_SEVERAL = -2 };

/** Returns NULL, and *error_p the file, the line and the mistake, to be freed by g_free(). */
struct cm_map *cm_map_load(const char *name, char **error_p);

/** The name of a host; NULL: it has none. `map` may be NULL. */
const char *cm_map_host(const struct cm_map *map, const struct cm_address *address);

/** The rank of the process that owns a queue pair; RANK_SEVERAL: its host has more than one, and no
 * line names the queue pair. `map` may be NULL. */
int64_t cm_map_rank(const struct cm_map *map, const struct cm_address *address, uint32_t qpn);

bool cm_map_has_ranks(const struct cm_map *map);

void cm_map_free(struct cm_map *map);

/** A LID, an IP address or a GID; false: it is none. */
bool cm_address_parse(const char *text, struct cm_address *address);

/** How an address is written, in the form that is asked for as far as the address has it. To be
 * freed by g_free(). */
char *cm_address_lid(const struct cm_address *address);
char *cm_address_gid(const struct cm_address *address);
char *cm_address_ip(const struct cm_address *address);

#endif

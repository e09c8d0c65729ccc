/*
 * The fabric: a directory in shared memory, private to a user, in which every endpoint has its
 * segment. `<GLEX_SHM_DIR>/glex-<euid>/<GLEX_FABRIC>/`
 */
#ifndef GLEX_FABRIC_H
#define GLEX_FABRIC_H

#include "base/common.h"

#include <sys/stat.h>

/* "n<nic hex8>.e<num hex4>" and the socket's ".s" behind it. */
#define GLEX_NAME_LEN 24

/** Open the fabric's directory, and make it if missing. Logs errors. */
glex_ret_t glex_fabric_open(int *dirfd_p);

/** Close the directory, and remove it if empty. */
void glex_fabric_close(int dirfd);

/** Remove the fabric's directory and the user's, if they are empty. */
void glex_fabric_remove(void);

/** Whether the directory still has its name: it is removed when the last endpoint goes. */
bool glex_fabric_is_stale(int dirfd);

/** A number that all processes on the fabric have in common and no others; never 0. */
uint64_t glex_fabric_identity(int dirfd);

/** Add the identity of this host and of its present boot. */
uint64_t glex_fabric_hash_host(uint64_t hash);

/** Id of this host's first NIC on the fabric; the others follow. */
uint32_t glex_fabric_nic_base(uint64_t identity);

/** Path of the directory, for messages and sockets. */
void glex_fabric_path(char *path, size_t size);

/** Name of an endpoint's segment. */
void glex_fabric_name(uint64_t addr, char name[GLEX_NAME_LEN]);

/** The address in a segment's name; false for sockets and foreign files. */
bool glex_fabric_parse_name(const char *name, uint64_t *addr_p);

/**
 * Call `fn` with the address of each segment until it returns false.
 * @return The result of the last call; true without a segment; false if the directory cannot be
 *        read: then a missing endpoint is not presumed dead.
 */
bool glex_fabric_foreach(int dirfd, bool (*fn)(int dirfd, uint64_t addr, void *arg), void *arg);

/** Whether any endpoint, living or dead, of that NIC is on the fabric. */
bool glex_fabric_has_nic(int dirfd, uint32_t nic_id);

#endif

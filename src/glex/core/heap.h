/*
 * The shared heap: memory of malloc() that peers can map. A library that `glexrun --shared-heap`
 * preloads keeps long buffers in a file in memory that has no name (src/heap). The owner publishes the
 * number and the name of its descriptor, and peers open the file through /proc/PID/fd.
 */
#ifndef GLEX_HEAP_H
#define GLEX_HEAP_H

#include "core/endpoint.h"

/** The `file_off` of a registration within the shared heap of this process, or 0. Publishes the heap
 *  in the endpoint's segment. The caller holds the lock of the registrations. */
uint64_t glex_heap_file_off(struct glex_endpoint *ep, const char *addr, uint64_t len);

/** Tells the user, once, why the preloaded heap does not serve this process. */
void glex_heap_check(void);

/**
 * Open the shared heap of a peer.
 * @param [out] size_p  Length of the file. It never changes.
 * @return -1: the peer has no heap, or this process may not open it.
 */
int glex_heap_open(const struct glex_endpoint *ep, const struct glex_peer *peer, uint64_t *size_p);

#endif

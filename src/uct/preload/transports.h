/* The installed transports, one for each build of UCX, and the build of UCX that a caller uses. */
#ifndef GLEX_PRELOAD_TRANSPORTS_H
#define GLEX_PRELOAD_TRANSPORTS_H

#include "objects.h"

#include <limits.h>

/* The libraries of UCX, from the lowest to the highest */
enum ucx_library { UCX_LIBUCM, UCX_LIBUCS, UCX_LIBUCT, UCX_LIBUCP, UCX_NUM_LIBRARIES };

extern const char *const ucx_library_names[UCX_NUM_LIBRARIES];

/** A build of UCX: of its libraries the build-ids, each "-" if the library has none. */
struct ucx_build {
    char version[32]; /* "" if unknown */
    char ids[UCX_NUM_LIBRARIES][2 * PRELOAD_BUILD_ID_MAX + 1];
};

/** The UCX of a caller. A library that the caller does not reach has an empty build-id. */
struct ucx_found {
    struct ucx_build build;
    struct preload_object objects[UCX_NUM_LIBRARIES];
    void *query; /* its uct_query_components() */
};

struct transport {
    char dir[PATH_MAX];     /* holds libuct_glex.so and ucx-build */
    struct ucx_build build; /* the UCX for which the transport was compiled */
};

/**
 * Finds the libraries of UCX that calls from `caller` reach. Returns false if there is no libuct
 * among them.
 */
bool ucx_find(const struct preload_object *caller, struct ucx_found *found);

/**
 * Finds the first library of `found` that `transport` was not compiled for. Returns
 * UCX_NUM_LIBRARIES if all libraries match.
 */
enum ucx_library transport_mismatch(const struct transport *transport,
                                    const struct ucx_found *found);

/**
 * Calls `visit` for each installed transport until `visit` returns true. Searches the directories
 * of GLEX_TRANSPORTS (separated by colons) or, without this variable, the directories ucx-* beside
 * this library.
 */
void transports_each(bool (*visit)(const struct transport *, void *), void *arg);

#endif

/*
 * Looking at a fabric from outside: for glex_info and other tools of this project. Not installed;
 * exported under the version node GLEX_INTERNAL, which promises nothing to others.
 */
#ifndef GLEX_INSPECT_H
#define GLEX_INSPECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <glex.h>
#include <glex_ext.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

enum glex_inspect_state {
    GLEX_INSPECT_LIVING,
    GLEX_INSPECT_DEAD,   /* its owner is gone: glex_inspect_clean() removes it */
    GLEX_INSPECT_DAMAGED /* owned, but not a segment of this version: only addr and bytes hold */
};

struct glex_inspect_ep {
    glex_ep_addr_t           addr;
    enum glex_inspect_state  state;
    enum glex_ep_type        type;
    uint32_t                 pid;         /* in the owner's pid namespace */
    char                     command[16]; /* of the owner */
    uint64_t                 start_time;  /* CLOCK_REALTIME, ns */
    uint64_t                 bytes;       /* of shared memory */
    uint32_t                 mpq_capacity, mpq_used;
    uint32_t                 eq_capacity, eq_used;
    uint32_t                 peers;         /* that post to it */
    uint32_t                 registrations;
    struct glex_ext_counters counters;
};

/** Path of the fabric's directory. */
void glex_inspect_path(char *path, size_t size);

/**
 * Call `fn` for every endpoint on the fabric until it returns false. Takes nothing from their
 * speed. Errors: SYS_ERR (the fabric is not accessible).
 */
glex_ret_t glex_inspect_endpoints(bool (*fn)(const struct glex_inspect_ep *ep, void *arg),
                                  void *arg);

/** Remove what dead owners left. @param [out] removed  How many segments; may be NULL. */
glex_ret_t glex_inspect_clean(uint32_t *removed);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif

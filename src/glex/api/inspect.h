/*
 * Looking at a fabric from outside: for glex_info and other tools of this project. Not installed;
 * exported under the version node GLEX_INTERNAL, which promises nothing to others.
 *
 * Looking changes nothing: no directory is made, nothing of the dead is removed, and of a living
 * owner only its lock is tried for a moment, as every process does that looks for dead ones.
 * Nothing is logged; a call that returns SYS_ERR leaves the reason in errno.
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

struct glex_inspect_fabric {
    const char *name;
    const char *shm_dir;              /* GLEX_SHM_DIR */
    char path[4096];                  /* of its directory */
    bool exists;                      /* only while the fabric has an endpoint */
    bool space_known;                 /* false: shm_dir is no directory that can be read */
    uint64_t space_free, space_total; /* bytes of the file system */
};

enum glex_inspect_state {
    GLEX_INSPECT_LIVING,
    GLEX_INSPECT_DEAD,   /* without an owner: glex_inspect_clean() removes it */
    GLEX_INSPECT_DAMAGED /* no segment of this version: see `problem` */
};

/** Read during use: exact only in an unused ring. */
struct glex_inspect_ring {
    uint32_t capacity, used;
    uint64_t head, tail; /* entries discarded and entries claimed since it was made */
    bool asleep;         /* the owner waits for an arrival */
};

struct glex_inspect_ep {
    glex_ep_addr_t addr;
    char name[24]; /* name of the file of the segment */
    enum glex_inspect_state state;
    bool owned;          /* a process holds its lock */
    const char *problem; /* why the endpoint is damaged, or NULL; then the fields after `bytes` are
                          * not valid */
    uint64_t file_bytes; /* its address space */
    uint64_t bytes;      /* allocated bytes of shared memory */
    enum glex_ep_type type;
    uint32_t pid;        /* in the owner's pid namespace */
    char command[17];    /* of the owner; may hold any bytes */
    uint64_t start_time; /* CLOCK_REALTIME, ns */
    struct glex_inspect_ring mpq, eq;
    uint32_t peers; /* endpoints that it posts to */
    uint32_t registrations;
    uint64_t registered_bytes;
    struct glex_ext_counters counters;
};

/** A peer of an endpoint on another host. */
struct glex_inspect_peer {
    glex_ep_addr_t addr;
    uint32_t ip;      /* of its host, in host byte order */
    const char *to;   /* state of the connection that carries requests to the peer; NULL: no
                       * connection */
    const char *from; /* state of the connection that carries requests of the peer; NULL: no
                       * connection */
    uint64_t sent;    /* requests */
    uint64_t open;    /* sent requests that have not ended */
    uint64_t failed;
    uint64_t received; /* its executed or refused requests */
};

/** The properties of the fabric, without asking a process. */
void glex_inspect_fabric(struct glex_inspect_fabric *fabric);

/** As glex_open_device() and the two queries. Errors: INVALID_PARAM, SYS_ERR. */
glex_ret_t glex_inspect_device(uint32_t id, struct glex_device_attr *attr,
                               struct glex_ext_device_attr *ext);

/**
 * Call `fn` for every endpoint on the fabric until it returns false. A fabric that does not exist
 * has none. Errors: SYS_ERR.
 */
glex_ret_t glex_inspect_endpoints(bool (*fn)(const struct glex_inspect_ep *ep, void *arg),
                                  void *arg);

/** Call `fn` for every peer of an endpoint on other hosts until it returns false. Damaged entries
 * are left out. Errors: SYS_ERR (the endpoint is gone). */
glex_ret_t glex_inspect_peers(const struct glex_inspect_ep *ep,
                              bool (*fn)(const struct glex_inspect_peer *peer, void *arg),
                              void *arg);

/** Call `fn` for every file in the fabric's directory that is not libglex's. Errors: SYS_ERR. */
glex_ret_t glex_inspect_others(bool (*fn)(const char *name, void *arg), void *arg);

/**
 * Remove all segments without an owner.
 * @param fn  NULL, or called for each segment with its former contents. `removed` is false if the
 *        removal failed. Errors: SYS_ERR.
 */
glex_ret_t glex_inspect_clean(void (*fn)(const struct glex_inspect_ep *ep, bool removed, void *arg),
                              void *arg);

/** Name and value of a counter, from 0; NULL behind the last. */
const char *glex_inspect_counter(const struct glex_ext_counters *counters, uint32_t index,
                                 uint64_t *value_p);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif

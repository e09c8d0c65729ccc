/*
 * The libfabric provider "glex": endpoints of type FI_EP_RDM over the GLEX transport (paper 003,
 * section 5.2). docs/ofi.md describes the features and the protocol. This file has the objects.
 *
 * A domain's lock guards the whole domain. The functions that libfabric calls take the lock, unless
 * the program has promised to use one thread at a time. "Locked" below means that the caller holds
 * the lock. Only gfi_progress() receives messages and runs UCT's callbacks.
 *
 * The prefix is gfi_, because glex_ is the NIC's interface and uct_glex_ the transport's.
 *
 * The objects:
 *
 *   gfi_fabric    opened by fi_fabric(): the provider's name, and the requested API version
 *   gfi_domain    owns one UCT interface, the known peers, all operations; one lock
 *   gfi_av        address vector: numbers of peers' endpoints
 *   gfi_ep        endpoint: posted receives and unexpected messages, bound queues and counters
 *   gfi_peer      a remote domain, found by its address; shared by all endpoints (proto/gfi_peer.h)
 *   gfi_op        an operation that did not end when it was called (proto/gfi_op.h)
 *   gfi_cq, gfi_cntr, gfi_eq, gfi_poll   receive completions and events
 *   gfi_mr        registered memory
 */
#ifndef GFI_H
#define GFI_H

#include "gfi_uct.h"
#include "gfi_match.h"
#include "gfi_wire.h"

#include <errno.h>
#include <pthread.h>
#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>
#include <unistd.h>

#define GFI_NAME        "glex"
#define GFI_DOMAIN_NAME "glex-gni0"
#define GFI_PROTOCOL    (0x676c6578u | 1u << 31) /* "glex", and the bit of protocols of providers */
#define GFI_IOV_LIMIT   4
/* Orders that an endpoint keeps if the program asks for one of them */
#define GFI_RMA_ORDERS                                                                             \
    (FI_ORDER_RAR | FI_ORDER_RAW | FI_ORDER_WAR | FI_ORDER_WAW | FI_ORDER_SAR | FI_ORDER_SAW |     \
     FI_ORDER_RMA_RAR | FI_ORDER_RMA_RAW | FI_ORDER_RMA_WAR | FI_ORDER_RMA_WAW |                   \
     FI_ORDER_ATOMIC_RAR | FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAR | FI_ORDER_ATOMIC_WAW)
/* Bits of mr_mode, flags of registration and a model of progress, whose names newer versions of
 * libfabric warn of, or older or newer ones lack */
#define GFI_MR_BASIC                 (1 << 0)
#define GFI_MR_SCALABLE              (1 << 1)
#define GFI_MR_FLAGS                 ((uint64_t)(FI_HMEM_HOST_ALLOC | FI_RMA_EVENT))
#define GFI_PROGRESS_CONTROL_UNIFIED ((enum fi_progress)3)
#define GFI_EAGER_SIZE               8192 /* FI_GLEX_EAGER_SIZE, unless it is set */
#define GFI_INJECT_SIZE              4096
#define GFI_NAME_SIZE                GFI_MAX_UCT_ADDR /* of an endpoint's name, with its end */
#define GFI_GOODBYE_MS               2000             /* how long closing waits until all is sent */

#define gfi_likely(x)   __builtin_expect(!!(x), 1)
#define gfi_unlikely(x) __builtin_expect(!!(x), 0)
#define gfi_min(a, b)   ((a) < (b) ? (a) : (b))

#define GFI_WARN(subsystem, ...) FI_WARN(&gfi_provider, subsystem, __VA_ARGS__)
#define GFI_INFO(subsystem, ...) FI_INFO(&gfi_provider, subsystem, __VA_ARGS__)

/** Name and version. fi_prov_ini() adds the functions. */
extern struct fi_provider gfi_provider;

/** Values of FI_GLEX_*, read when the provider is loaded. fi_glex(7) describes them. */
struct gfi_params {
    char *transport;
    size_t eager_size;
    size_t tx_size, rx_size;
    size_t unexpected_size;
    int rendezvous_get;
};
extern struct gfi_params gfi_params;
void gfi_params_read(void);

struct gfi_peer;
struct gfi_op;

struct gfi_fabric {
    struct fid_fabric fid;
    unsigned refs; /* by gfi_ref_get() and gfi_ref_put() */
};

/** Numbers to 64-bit values, by open addressing (gfi_map.c). */
struct gfi_map {
    struct gfi_map_slot *slots;
    size_t size, used; /* used: including deleted slots */
    size_t count;
};

struct gfi_domain {
    struct fid_domain fid;
    struct gfi_fabric *fabric;
    struct gfi_uct uct;
    pthread_mutex_t lock;
    bool threads; /* the lock is taken: gfi_domain_needs_lock() */
    int mr_mode;
    unsigned refs; /* objects opened on the domain */

    bool due;             /* gfi_progress() has more to do than to poll the NIC */
    unsigned until_watch; /* progress calls until the next check of peers */
    uint64_t watch_next;  /* ms */
    uint32_t watch_hand;

    struct gfi_list avs;     /* address vectors */
    struct gfi_peer **peers; /* by number; NULL: freed */
    uint32_t num_peers, max_peers;
    struct gfi_map peer_by_addr; /* hash of the address -> number of the first such peer */
    struct gfi_list due_peers;   /* have messages or operations that could not be sent */
    struct gfi_list due_ops;     /* are to be tried again */
    struct gfi_list draining;    /* peers that have failed, whose messages may still arrive */
    unsigned drain_rounds;       /* progress calls with arrivals, since a peer failed last */

    bool has_thread; /* FI_PROGRESS_AUTO: a thread makes progress while the program does not call */
    bool stop_thread;
    pthread_t thread;
    int thread_wait_fd, thread_signal_fd;

    int rouse_fd; /* eventfd in all wait sets, or -1 */
    bool roused;  /* rouse_fd is signaled */

    struct gfi_ep *eps[GFI_MAX_EPS];
    unsigned next_ep;

    struct gfi_op **ops; /* by index; unused entries are linked */
    uint32_t num_ops;
    uint64_t next_seq; /* of operations, in the order of calls */
    struct gfi_list free_ops;
    struct gfi_addr addr; /* of the domain: ep is 0 */
    bool has_text_addrs;  /* FI_ADDR_STR: programs give and get addresses as strings */

    size_t eager_size;  /* longest message that is sent at once */
    size_t short_size;  /* longest payload of am_short */
    size_t atomic_size; /* bytes of the operands of one atomic operation */

    size_t unexpected; /* bytes of unexpected messages */
    bool pressed;      /* PRESSURE was sent to peers */

    struct gfi_map mrs; /* key -> gfi_mr */
    uint64_t events;    /* FI_REMOTE_READ, FI_REMOTE_WRITE: endpoints count such accesses */
    uint64_t next_key;
};

struct gfi_av_entry {
    struct gfi_peer *peer; /* NULL: not in use, or not reachable */
    uint64_t header;       /* the endpoint, in the header's place */
    uint64_t source;       /* value of the endpoint in matching, gfi_peer_source() */
    fi_addr_t next_free;
    fi_addr_t user_id; /* FI_AV_USER_ID: what completions report; else the entry's number */
    bool has_twin;     /* another entry may have the same source */
};

struct gfi_av {
    struct fid_av fid;
    struct gfi_list link; /* domain->avs */
    struct gfi_domain *domain;
    struct gfi_av_entry *entries;
    size_t count, size;
    fi_addr_t free;
    struct gfi_map by_source;
    struct gfi_eq *eq; /* insertions are reported there */
    uint64_t flags;
    unsigned refs;
};

/* One completion. `error` is NULL, or describes it. 64 bytes. */
struct gfi_cqe {
    void *context;
    uint64_t flags;
    size_t len;
    void *buf;
    uint64_t data;
    uint64_t tag;
    fi_addr_t source;
    struct fi_cq_err_entry *error;
};

struct gfi_cq {
    struct fid_cq fid;
    struct gfi_domain *domain;
    struct gfi_cqe *ring;
    uint32_t head, tail, mask; /* tail - head entries */
    uint32_t limit;            /* number of entries above which no operation is accepted */
    enum fi_cq_format format;
    enum fi_wait_obj wait_obj;
    int wait_fd, signal_fd; /* of sleepers; -1 without a wait object */
    bool sleeping;          /* a thread may sleep: completions signal */
    bool signaled;
    void *err_data; /* of the last error: the program may read it until the next one */
    unsigned refs;
};

struct gfi_cntr {
    struct fid_cntr fid;
    struct gfi_domain *domain;
    uint64_t value, errors;
    uint64_t polled, polled_errors; /* the values that the last fi_poll() has reported */
    enum fi_wait_obj wait_obj;
    int wait_fd, signal_fd;
    bool sleeping;
    bool is_news; /* the counter has changed since the last fi_trywait() */
    unsigned refs;
};

struct gfi_event {
    struct gfi_event *next;
    uint32_t event;
    bool is_error;
    size_t len;
    struct fi_eq_err_entry error;
    uint8_t data[];
};

struct gfi_eq {
    struct fid_eq fid;
    struct gfi_fabric *fabric;
    pthread_mutex_t lock;
    struct gfi_event *first, **last;
    size_t count;
    enum fi_wait_obj wait_obj;
    bool can_write;
    int fd;        /* eventfd: its count is that of events */
    unsigned refs; /* by gfi_ref_get() and gfi_ref_put() */
};

struct gfi_poll {
    struct fid_poll fid;
    struct gfi_domain *domain;
    struct fid **fids;
    size_t count;
};

/* Contiguous memory of a registration, registered with the transport as one */
struct gfi_mr_part {
    uint64_t base; /* address that initiators name for the first byte */
    uint8_t *addr; /* where this byte lies */
    size_t length;
    uint64_t access; /* of FI_REMOTE_READ, FI_REMOTE_WRITE: what the mapping permits */
    uct_mem_h memh;  /* UCT_MEM_HANDLE_NULL: of length 0 */
    size_t rkey_len;
    uint8_t rkey[GFI_MAX_RKEY];
};

struct gfi_mr {
    struct fid_mr fid;
    struct gfi_domain *domain;
    uint64_t base; /* lowest address that initiators may name */
    uint64_t length;
    uint64_t access;
    bool is_all;               /* all memory: parts are made when peers ask for an address */
    struct gfi_mr_part *parts; /* in the order of the program's pieces */
    size_t num_parts;
    struct gfi_cntr *cntr; /* counts remote writes; or NULL */
    uint32_t *holders;     /* numbers of peers that know the key */
    unsigned num_holders;
};

enum {
    GFI_CNTR_SEND,
    GFI_CNTR_RECV,
    GFI_CNTR_READ,
    GFI_CNTR_WRITE,
    GFI_CNTR_REMOTE_READ,
    GFI_CNTR_REMOTE_WRITE,
    GFI_CNTR_LAST
};

struct gfi_ep {
    struct fid_ep fid;
    struct gfi_domain *domain;
    struct gfi_av *av;
    struct gfi_cq *tx_cq, *rx_cq;
    struct gfi_cntr *cntrs[GFI_CNTR_LAST];
    struct gfi_eq *eq;
    uint64_t header; /* number of the endpoint, in the header's place */
    unsigned index;
    char name[GFI_NAME_SIZE]; /* of fi_info's source address; or empty */
    int name_fd;              /* keeps the name; or -1 */
    uint64_t caps;
    uint64_t tx_flags, rx_flags; /* op_flags of fi_tx_attr, fi_rx_attr */
    bool tx_selective, rx_selective;
    bool tx_plain; /* sends without flags: nothing but an entry in tx_cq, if any */
    bool enabled;
    bool is_ordered; /* RMA, atomic operations and sends stay in order behind RMA */
    size_t inject_size;
    size_t min_multi_recv;
    size_t num_tx; /* operations of the sending side that are not over */
    size_t tx_size;
    struct gfi_match tagged, msg;
    struct gfi_list claimed;    /* unexpected messages that fi_trecvmsg(FI_CLAIM) took out */
    struct gfi_list free_recvs; /* of gfi_recv */
    bool has_contexts;          /* `contexts` has all posted receives */
    struct gfi_map contexts;    /* context -> first gfi_recv (proto/gfi_context.c) */
};

/* ---- lock ---- */

static inline void gfi_lock(struct gfi_domain *domain)
{
    if (gfi_unlikely(domain->threads)) {
        pthread_mutex_lock(&domain->lock);
    }
}

static inline void gfi_unlock(struct gfi_domain *domain)
{
    if (gfi_unlikely(domain->threads)) {
        pthread_mutex_unlock(&domain->lock);
    }
}

/**
 * Fabrics and event queues belong to no domain, so no lock guards them. Relaxed order suffices: the
 * threads exchange only a number. A program must not close an object while another thread opens
 * children of the object.
 */
static inline void gfi_ref_get(unsigned *refs)
{
    __atomic_fetch_add(refs, 1, __ATOMIC_RELAXED);
}

static inline void gfi_ref_put(unsigned *refs)
{
    __atomic_fetch_sub(refs, 1, __ATOMIC_RELAXED);
}

static inline bool gfi_ref_is_held(const unsigned *refs)
{
    return __atomic_load_n(refs, __ATOMIC_RELAXED) > 0;
}

/* ---- progress (proto/gfi_progress.c, proto/gfi_thread.c) ---- */

void gfi_progress_init(struct gfi_domain *domain);

/** Locked: the rarer work of gfi_progress(), besides polling the NIC. */
void gfi_progress_due(struct gfi_domain *domain);

/** Locked: handle arrived messages, and send waiting ones. */
static inline void gfi_progress(struct gfi_domain *domain)
{
    uct_iface_progress(domain->uct.iface);
    if (gfi_unlikely(domain->due) || gfi_unlikely(--domain->until_watch == 0)) {
        gfi_progress_due(domain);
    }
}

/**
 * Locked: whether a thread may sleep until the NIC's descriptor is readable. If not, sleeping
 * threads wake up: the NIC's notifications are consumed, and the caller may leave work undone.
 */
bool gfi_may_sleep(struct gfi_domain *domain);

/**
 * Starts the thread of FI_PROGRESS_AUTO. The domain must have its lock.
 *
 * @return 0, or a negative FI_ error with a line in the log.
 */
int gfi_thread_start(struct gfi_domain *domain);

/** Stops the thread, if the domain has one. The caller does not hold the lock. */
void gfi_thread_stop(struct gfi_domain *domain);

/* ---- domains and fabrics ---- */

int gfi_domain_open(struct fid_fabric *fid, struct fi_info *info, struct fid_domain **domain,
                    void *context);
int gfi_domain_bind(struct fid *fid, struct fid *bfid, uint64_t flags);
int gfi_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);

/* ---- sleep (gfi_wait.c) ---- */

/** Milliseconds of a clock that only goes forward. */
uint64_t gfi_now_ms(void);

/**
 * Descriptors for sleepers: `signal_fd` is an eventfd, `wait_fd` an epoll set of `signal_fd`, of
 * the domain's `rouse_fd` and of the NIC.
 *
 * @return 0, or a negative FI_ error with a line in the log.
 */
int gfi_wait_open(struct gfi_domain *domain, int *wait_fd, int *signal_fd);
void gfi_wait_close(int wait_fd, int signal_fd);
void gfi_wait_signal(int signal_fd);
void gfi_wait_clear(int signal_fd);

/** Locked: gfi_progress() has more to do. The thread of FI_PROGRESS_AUTO wakes. */
void gfi_set_due(struct gfi_domain *domain);

/** Sleep on a descriptor. `until`: in gfi_now_ms(), or negative for ever. @return false: too late */
bool gfi_wait_sleep(int wait_fd, int64_t until);

/** Let other threads run, where nothing can be slept on. @return false: too late */
bool gfi_wait_yield(int64_t until);

/** Whether a queue or a counter may have this wait object. FI_WAIT_NONE and FI_WAIT_YIELD need no
 * descriptors. */
bool gfi_wait_is_offered(enum fi_wait_obj wait_obj);

static inline bool gfi_wait_needs_fd(enum fi_wait_obj wait_obj)
{
    return wait_obj != FI_WAIT_NONE && wait_obj != FI_WAIT_YIELD;
}

/** fi_control() of any object with a wait object. */
int gfi_wait_control(int command, void *arg, int wait_fd, enum fi_wait_obj wait_obj);

/* ---- functions for unsupported calls (gfi_none.c) ---- */

int gfi_no_bind(struct fid *fid, struct fid *bfid, uint64_t flags);
int gfi_no_control(struct fid *fid, int command, void *arg);
int gfi_no_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context);

/* ---- fi_getinfo (gfi_info.c) ---- */

int gfi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
                const struct fi_info *hints, struct fi_info **info);

/* ---- addresses (gfi_addr.c) ---- */

#define GFI_ADDR_PREFIX "fi_glex://"
/* Bytes of an address as a string, with its end */
#define GFI_ADDR_TEXT (sizeof(GFI_ADDR_PREFIX) + 2 * sizeof(struct gfi_addr))

/** The address in a string "fi_glex://...": as gfi_addr_print() writes it, or of the endpoint with a name.
 *  @return 0, -FI_EINVAL, or -FI_ENODATA: no living endpoint has the name */
int gfi_addr_parse(const char *text, struct gfi_addr *addr);

/** Write an address as a string, with its end, into `size` bytes. @return the size that it needs */
size_t gfi_addr_print(const struct gfi_addr *addr, char *text, size_t size);

/** Write an address as a string or as bytes into `size` bytes, cut if it is longer. @return the size
 *  that it needs */
size_t gfi_addr_write(bool is_text, const struct gfi_addr *addr, void *to, size_t size);

/* ---- names of endpoints (gfi_name.c) ---- */

/** An address that has a name in place of an address of UCT: of an endpoint that is to be opened. */
static inline bool gfi_addr_is_name(const struct gfi_addr *addr)
{
    return addr->device_len == 0 && addr->bytes[0] != 0;
}

/** Whether a name has 1 to 55 letters, digits, '.', '_' or '-'. */
bool gfi_name_is_valid(const char *name);

/**
 * Give a name to an endpoint.
 *
 * @param fd_p  Set to a descriptor for gfi_name_remove(), unless another endpoint of this process has the
 *              name.
 * @return 0, or a negative FI_ error with a line in the log; -FI_EADDRINUSE: another process has the name.
 */
int gfi_name_publish(const char *name, const struct gfi_addr *addr, int *fd_p);
void gfi_name_remove(const char *name, int fd);

/** The address of the living endpoint with a name. @return 0 or -FI_ENODATA */
int gfi_name_find(const char *name, struct gfi_addr *addr);

/* ---- maps (gfi_map.c) ---- */

void gfi_map_cleanup(struct gfi_map *map);

/** Set, or replace. @return 0, or -FI_ENOMEM. */
int gfi_map_set(struct gfi_map *map, uint64_t key, uint64_t value);
bool gfi_map_get(const struct gfi_map *map, uint64_t key, uint64_t *value);
void gfi_map_delete(struct gfi_map *map, uint64_t key);

/** The next entry. @param place 0 for the first entry; advanced by the call. @return false: end */
bool gfi_map_next(const struct gfi_map *map, size_t *place, uint64_t *key, uint64_t *value);

/** Any entry. @return false: the map is empty */
bool gfi_map_any(const struct gfi_map *map, uint64_t *key, uint64_t *value);

/* ---- address vector (gfi_av.c, gfi_source.c) ---- */

int gfi_av_open(struct fid_domain *fid, struct fi_av_attr *attr, struct fid_av **av, void *context);

/** Locked: the number, or the program's id, of a source in an address vector; or FI_ADDR_NOTAVAIL. */
fi_addr_t gfi_av_number(const struct gfi_av *av, uint64_t source);

/** Locked: all entries of a peer's endpoints mean another peer from now on. @return the number of
 *  entries */
unsigned gfi_av_move_entries(struct gfi_domain *domain, const struct gfi_peer *from,
                             uint32_t from_id, struct gfi_peer *to, uint32_t to_id);

static inline struct gfi_av_entry *gfi_av_entry(const struct gfi_av *av, fi_addr_t addr)
{
    struct gfi_av_entry *entry = addr < av->count ? &av->entries[addr] : NULL;

    return entry != NULL && entry->peer != NULL ? entry : NULL;
}

/* ---- completions and counts (gfi_complete.c) ---- */

/** Locked, slow: make the ring larger. @return 0, or -FI_ENOMEM */
int gfi_cq_grow(struct gfi_cq *cq);

static inline bool gfi_cq_is_empty(const struct gfi_cq *cq)
{
    return cq->head == cq->tail;
}

/** Locked: whether operations are refused until the program has read. */
static inline bool gfi_cq_is_full(const struct gfi_cq *cq)
{
    return cq->tail - cq->head >= cq->limit;
}

/** Locked: room for a completion, which the caller fills in at once; NULL: no memory, it is lost. */
static inline struct gfi_cqe *gfi_cq_add(struct gfi_cq *cq)
{
    if (gfi_unlikely(cq->tail - cq->head > cq->mask) && gfi_cq_grow(cq) != 0) {
        return NULL;
    }
    if (gfi_unlikely(cq->sleeping)) {
        cq->sleeping = false;
        gfi_wait_signal(cq->signal_fd);
    }
    return &cq->ring[cq->tail++ & cq->mask];
}

/** Locked: an error completion. `entry` and its err_data are copied. */
void gfi_cq_add_error(struct gfi_cq *cq, const struct fi_cq_err_entry *entry);

/** Free an error of a completion with its err_data. `error` may be NULL. */
void gfi_cq_free_error(struct fi_cq_err_entry *error);

/** Locked: count an operation, or an error, and wake waiting threads. `cntr` may be NULL. */
void gfi_cntr_count(struct gfi_cntr *cntr, bool is_error);

/** Locked: wake threads that wait for the counter. */
void gfi_cntr_wake(struct gfi_cntr *cntr);

/** Locked: count an access of a peer, FI_REMOTE_READ or FI_REMOTE_WRITE. */
void gfi_ep_count_access(struct gfi_ep *ep, uint64_t access);

/* ---- completion queues (gfi_cq.c) and counters (gfi_cntr.c) ---- */

int gfi_cq_open(struct fid_domain *fid, struct fi_cq_attr *attr, struct fid_cq **cq, void *context);

int gfi_cq_trywait(struct gfi_cq *cq);

int gfi_cntr_open(struct fid_domain *fid, struct fi_cntr_attr *attr, struct fid_cntr **cntr,
                  void *context);

int gfi_cntr_trywait(struct gfi_cntr *cntr);

/* ---- event queues (gfi_eq.c) and poll sets (gfi_poll.c) ---- */

int gfi_eq_open(struct fid_fabric *fid, struct fi_eq_attr *attr, struct fid_eq **eq, void *context);
int gfi_poll_open(struct fid_domain *fid, struct fi_poll_attr *attr, struct fid_poll **poll);

/** Add an event. @return 0, or -FI_ENOMEM */
int gfi_eq_add(struct gfi_eq *eq, uint32_t event, const void *data, size_t len);
int gfi_eq_add_error(struct gfi_eq *eq, uint32_t event, const struct fi_eq_err_entry *error);

/* ---- memory (gfi_mr.c, gfi_mr_part.c) ---- */

extern struct fi_ops_mr gfi_mr_ops;

/** Locked: the registration of a key, or NULL. */
struct gfi_mr *gfi_mr_find(const struct gfi_domain *domain, uint64_t key);

/** Locked: add memory to a registration. @return 0, or a negative FI_ error with a line in the log */
int gfi_mr_add_part(struct gfi_mr *mr, uint64_t base, void *addr, size_t length, uint64_t access);

/** Locked: deregister and free all parts. */
void gfi_mr_drop_parts(struct gfi_mr *mr);

/** Locked: the part with an address as initiators name it, or NULL. Valid until the next call that
 *  finds or adds a part. */
struct gfi_mr_part *gfi_mr_find_part(struct gfi_mr *mr, uint64_t at);

/**
 * Locked: the memory of an access of at least 1 byte, which lies within one part.
 *
 * @param access  FI_REMOTE_READ or FI_REMOTE_WRITE.
 * @return 0, or a positive FI_ error.
 */
int gfi_mr_find_memory(struct gfi_mr *mr, uint64_t access, uint64_t at, size_t length,
                       uint8_t **memory_p);

/** Locked: record that a peer knows the key of a registration. @return 0, or -FI_ENOMEM */
int gfi_mr_add_holder(struct gfi_mr *mr, uint32_t peer);

/** Locked: the accesses that initiators must report: FI_REMOTE_READ, FI_REMOTE_WRITE. */
uint64_t gfi_mr_events(const struct gfi_mr *mr);

/** Locked: endpoints of the domain count such accesses from now on. */
void gfi_mr_want_events(struct gfi_domain *domain, uint64_t events);

/** Locked: count an access, FI_REMOTE_READ or FI_REMOTE_WRITE. `mr` may be NULL. */
void gfi_mr_count(struct gfi_mr *mr, uint64_t access);

/* ---- endpoints (gfi_ep.c, gfi_msg.c, gfi_tagged.c, gfi_rma.c, gfi_atomic.c) ---- */

int gfi_ep_open(struct fid_domain *fid, struct fi_info *info, struct fid_ep **ep, void *context);

int gfi_query_atomic(struct fid_domain *fid, enum fi_datatype datatype, enum fi_op op,
                     struct fi_atomic_attr *attr, uint64_t flags);

extern struct fi_ops_atomic gfi_atomic_ops;
extern struct fi_ops_msg gfi_msg_ops;
extern struct fi_ops_tagged gfi_tagged_ops;
extern struct fi_ops_rma gfi_rma_ops;

#define gfi_of(pointer, type, field) ((type *)((char *)(pointer) - offsetof(type, field)))
#define gfi_domain_of(f)             gfi_of(f, struct gfi_domain, fid)
#define gfi_ep_of(f)                 gfi_of(f, struct gfi_ep, fid)

#endif

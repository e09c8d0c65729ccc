/*
 * Extensions of the software NIC beyond the vendor's interface. A program for both NICs searches
 * for this header at configure time, and has a path without it.
 */
#ifndef GLEX_EXT_H
#define GLEX_EXT_H

#include <glex.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GLEX_EXT_VERSION 9

/**
 * Registration flag in addition to enum glex_mem_flag: the owner learns of data by events only. An
 * immediate put with a remote event may then travel in the event's queue entry. The owner's probe
 * of the event places the data. This saves the transfer of a cache line between two cores.
 */
#define GLEX_EXT_MEM_EVENT_DATA 0x100

/**
 * Request flag in addition to enum glex_flag: if the destination's MPQ, or its EQ for a remote
 * event, is full, the request is refused (GLEX_BUSY) instead of being lost with an error request.
 * Post the request again when the owner has had time to take entries.
 */
#define GLEX_EXT_FLAG_NO_LOSS (1 << 30)

/**
 * Request flag of puts, immediate puts, and gets to an endpoint of another host: rmt_mh is a
 * registration of the destination's domain, glex_ext_set_domain(), and not of the destination
 * itself. rmt_key is the key of the domain. Without a domain, and within a host, a request with
 * this flag fails (status MMT).
 */
#define GLEX_EXT_FLAG_DOMAIN (1 << 29)

enum glex_ext_cap {
    GLEX_EXT_CAP_PRIVATE_RDMA = 1, /**< RDMA to memory that was not allocated from the NIC */
    GLEX_EXT_CAP_MAP = 2,          /**< NIC-allocated memory can be mapped by peers */
    GLEX_EXT_CAP_SLEEP = 4,        /**< glex_ext_event_fd() */
    GLEX_EXT_CAP_COLL = 8,         /**< collective offload: the process that delivers the last
                                    * control packet executes MPs, immediate puts, and puts from
                                    * NIC memory of the waiting sequence; with PRIVATE_RDMA all
                                    * puts. The owner's next GLEX call executes the rest */
};

struct glex_ext_device_attr {
    uint32_t caps;         /**< of enum glex_ext_cap */
    char missing[192];     /**< for people: why a capability is not there; else empty */
    uint32_t space;        /**< processes with the same number can reach each other's private
                            * memory; 0: without GLEX_EXT_CAP_PRIVATE_RDMA */
    uint64_t fabric;       /**< number of the fabric: processes with the same number share one */
    uint64_t network;      /**< number of the network (GLEX_NET): devices with the same number reach
                                each other between hosts; 0: only this host's fabric is reached.
                                RDMA to another host ends later than the call that posts it, and
                                there are no pointers to memory of another host */
    char network_text[64]; /**< for people: provider, interface and address of it; else empty */
};

/** Messages, requests and bytes of an endpoint since it was created. */
struct glex_ext_counters {
    uint64_t mp_tx, mp_bytes; /**< beside each other: one cache line */
    uint64_t mp_rx, mp_lost;  /**< lost: the destination's MPQ was full */
    uint64_t imm_put_tx, put_tx, get_tx;
    uint64_t imm_put_bytes, put_bytes, get_bytes;
    uint64_t event_rx, event_lost;
    uint64_t event_tx;          /**< posted by glex_ext_post_event() */
    uint64_t error_req;         /**< requests that failed */
    uint64_t mpq_high, eq_high; /**< most entries seen in use */
    uint64_t wakeups;           /**< times a sleeping peer was woken */
    uint64_t abandoned;         /**< queue entries of killed producers, passed over */
    uint64_t coll_tx;           /**< own COLL requests that this endpoint executed */
    uint64_t coll_carried;      /**< COLL requests of other endpoints that this endpoint executed */
    uint64_t mapped_tx, mapped_bytes;     /**< messages of GLEX_EXT_MESSAGE_MAPPED */
    uint64_t buffered_tx, buffered_bytes; /**< messages of GLEX_EXT_MESSAGE_BUFFERED */
    uint64_t zcopy_tx, zcopy_bytes;       /**< messages of GLEX_EXT_MESSAGE_ZCOPY */
    uint64_t net_tx, net_rx; /**< requests to endpoints of other hosts, and executed requests of
                                 * other hosts */
    uint64_t net_peers;      /**< connections with them at the moment, each for one direction */
    uint64_t net_ended;      /**< connections that ended because the peer was gone or silent */
    uint64_t net_denied;     /**< tries to connect without proof of the job's key */
    uint64_t helped_bytes;   /**< bytes of own long puts and gets that peers copied */
    uint64_t help_bytes;     /**< bytes that this endpoint copied for peers */
    uint64_t help_waits;     /**< copies whose helper was slow or failed */
    uint64_t kernel_bytes;   /**< bytes of puts and gets of private memory, which the kernel copied
                                 * for this endpoint or its helper */
    uint64_t heap_maps;      /**< parts of shared heaps of peers that were mapped */
};

/**
 * Let an endpoint take no locks, because one thread at a time uses it. The environment variable
 * LIB_GLEX_SINGLE_THREADED does the same for all endpoints. Other threads may still call
 * glex_register_mem(), glex_deregister_mem(), glex_ext_mem_alloc() and glex_ext_mem_free(). To be
 * called before another thread uses the endpoint. Errors: INVALID_PARAM.
 */
glex_ret_t glex_ext_set_single_threaded(glex_ep_handle_t ep);

/** The abilities of the device on this system; `missing` has the reasons of missing abilities. */
glex_ret_t glex_ext_query_device(glex_device_handle_t dev, struct glex_ext_device_attr *attr);

/**
 * Whether endpoints on a NIC can be reached at all from this device.
 * Returns SUCCESS, or INVALID_PARAM where no link leads to that NIC.
 */
glex_ret_t glex_ext_is_reachable(glex_device_handle_t dev, uint32_t nic_id);

/**
 * Allocate memory that peers can map after its registration: RDMA to it is a memory copy. The
 * memory is zeroed and page-aligned. Its pages are reserved, so no access fails because of lack of
 * memory. The memory belongs to the endpoint; glex_ext_mem_free() or the end of the endpoint frees
 * it. Errors: NO_MEM_RESOURCE (errno ENOSPC: the fabric's file system is full), SYS_ERR.
 */
glex_ret_t glex_ext_mem_alloc(glex_ep_handle_t ep, uint64_t len, void **addr_p);

/**
 * Free memory of glex_ext_mem_alloc(). First deregister it, and make sure that no peer stores by a
 * pointer of glex_ext_peer_ptr() any more. The pages go back to the file system, and a later
 * allocation of this endpoint may use the same part of the segment. A store by an old pointer takes
 * a new page, which stays; on a full file system this store raises SIGBUS in the peer.
 */
glex_ret_t glex_ext_mem_free(glex_ep_handle_t ep, void *addr);

/** The distance between the first bytes of two handles of a long registration. */
#define GLEX_EXT_LONG_STEP (1ull << 31)

/**
 * Register a range that may be longer than the 32-bit offsets of a request. The range gets a handle
 * for each GLEX_EXT_LONG_STEP bytes, with consecutive numbers. Handle i begins at i *
 * GLEX_EXT_LONG_STEP and reaches to the end of the range. So a request may cross a step, and the
 * first handle serves glex_ext_peer_ptr() for the whole range. glex_ext_long_handle() returns the
 * handle for an offset. Errors: as of glex_register_mem(); NO_MEM_RESOURCE also if the table has
 * too few consecutive free handles.
 */
glex_ret_t glex_ext_register_long(glex_ep_handle_t ep, void *addr, uint64_t len, int32_t flag,
                                  glex_mem_handle_t *first);

/** Take the registration of a range of `len` bytes back, with all its handles. */
glex_ret_t glex_ext_deregister_long(glex_ep_handle_t ep, glex_mem_handle_t first, uint64_t len);

/** The handle and its offset for a request to `offset` in a long registration. */
static inline glex_mem_handle_t glex_ext_long_handle(glex_mem_handle_t first, uint64_t offset,
                                                     uint32_t *handle_offset)
{
    *handle_offset = (uint32_t)(offset % GLEX_EXT_LONG_STEP);
    first.v += offset / GLEX_EXT_LONG_STEP;
    return first;
}

/**
 * Keeps memory of a peer mapped in this process. A pin belongs to the process: it outlives the
 * registration, the peer, and the endpoint that returned it. The shared memory of a dead peer stays
 * allocated until its last pin is released.
 */
struct glex_ext_pin;

/**
 * Return a pointer in this process to a peer's registered memory. The pointer is valid until
 * glex_ext_unpin(*pin_p). Stores after the death of the peer are lost. In a child of fork() the
 * pointer leads to private zero pages: the child neither reads nor changes the peer's memory.
 * @param [out] pin_p  *pin_p is NULL for memory of this endpoint itself, which stays as long as the
 *        endpoint. If pin_p is NULL, the pointer is valid until the next call with this endpoint, and
 *        not in a child of fork().
 * Errors:
 * - NOT_IMPLEMENTED: the peer is on another host, or this NIC lacks GLEX_EXT_CAP_MAP, or the memory is
 *   private. Memory is private if the program has not allocated the memory from the NIC, and the NIC
 *   knows no file that both processes map.
 * - ACCESS_ERR: wrong key, handle or range.
 * - NO_EP_RESOURCE: the peer does not exist.
 * - NO_MEM_RESOURCE: this process lacks memory, mappings or descriptors. RDMA may still be possible.
 */
glex_ret_t glex_ext_peer_ptr(glex_ep_handle_t ep, glex_ep_addr_t peer, glex_mem_handle_t mh,
                             uint32_t key, uint64_t offset, uint64_t len, void **ptr_p,
                             struct glex_ext_pin **pin_p);

/** Release a pin, once. Do not use its pointer any more. Any thread may call this function, also
 * after the end of the endpoint. NULL is allowed. */
void glex_ext_unpin(struct glex_ext_pin *pin);

/** Shows whether a peer's registration is still valid: while it is, an acquire load of *word
 * returns `state`; afterwards it never does again. */
struct glex_ext_watch {
    const uint64_t *word;
    uint64_t state;
    struct glex_ext_pin *pin; /**< keeps `word` readable; to be given back by glex_ext_unpin() */
};

/**
 * Watch a registration that glex_ext_peer_ptr() returned a pointer into. A copy by this pointer,
 * while the watch holds, is as good as an RDMA request. (An RDMA request may also be executed while
 * the owner deregisters the memory.) The word is readable until the pin is released, even after the
 * death of the peer, and in a child of fork(), where the watch does not hold. For memory of this
 * endpoint itself the pin is NULL, and the word is readable as long as the endpoint exists. Does
 * not block. Errors: ACCESS_ERR (key or handle), NO_EP_RESOURCE (no such peer), NO_MEM_RESOURCE (as
 * of glex_ext_peer_ptr()), NOT_IMPLEMENTED (the peer is on another host).
 */
glex_ret_t glex_ext_peer_watch(glex_ep_handle_t ep, glex_ep_addr_t peer, glex_mem_handle_t mh,
                               uint32_t key, struct glex_ext_watch *watch);

/**
 * The address of a peer with a hint in its reserved bits. With the hint this endpoint finds the
 * peer at once among any number of peers. Use the result for requests of this endpoint only, and do
 * not compare it with other addresses. A stale hint, for example of a replaced peer, is harmless.
 * Returns the address without a hint if the peer does not exist or no hint is available.
 */
glex_ep_addr_t glex_ext_peer_hint(glex_ep_handle_t ep, glex_ep_addr_t peer);

/**
 * RDMA that is over when the call returns: no event and no error request. `local`, `req->len` bytes
 * of this process, need not be registered (local_mh and local_offset are ignored). The peer's
 * memory is checked as for any request: key, handle, range, direction. `req` is one request without
 * events. Errors: INVALID_PARAM, ACCESS_ERR (the peer's memory; an error request for the same
 * request would have the details), NO_EP_RESOURCE (no such peer, or the peer has no receiver),
 * NO_MEM_RESOURCE (this process lacks memory, mappings or descriptors), BUSY, NOT_IMPLEMENTED
 * (collectives; the peer is on another host).
 */
glex_ret_t glex_ext_rdma_now(glex_ep_handle_t ep, const glex_rdma_req_t *req, void *local);

/**
 * Post an event to a peer, like the event of a put, without memory and without a request struct.
 * Does not block. Events of one program to one event queue keep their order.
 * @param cookie_1  Not 0. Returns SUCCESS, BUSY (the peer's event queue is full: post again later),
 *        INVALID_PARAM. If the peer does not exist, glex_poll_error_req() reports it, as for an
 *        immediate put with this event.
 */
glex_ret_t glex_ext_post_event(glex_ep_handle_t ep, glex_ep_addr_t peer, uint64_t cookie_0,
                               uint64_t cookie_1);

/**
 * Post an MP that consists of two words, 8 bytes of `head` and `len` bytes of `data`, at most 88:
 * glex_send_imm_mp() with GLEX_EXT_FLAG_NO_LOSS without a request to fill in.
 */
glex_ret_t glex_ext_post_mp(glex_ep_handle_t ep, glex_ep_addr_t peer, uint64_t word_0,
                            uint64_t word_1, uint64_t head, const void *data, uint32_t len);

/** Messages of a program whose data is not in the requests of the sender. */
enum glex_ext_message {
    GLEX_EXT_MESSAGE_MAPPED,   /**< stored into mapped memory of the receiver */
    GLEX_EXT_MESSAGE_BUFFERED, /**< the receiver reads the data in a buffer of the sender */
    GLEX_EXT_MESSAGE_ZCOPY     /**< the receiver reads the data in the memory of the program */
};

/**
 * Add messages and their bytes to the endpoint's counters, because the NIC does not see these
 * messages. Errors: INVALID_PARAM.
 */
glex_ret_t glex_ext_count_messages(glex_ep_handle_t ep, enum glex_ext_message kind,
                                   uint64_t messages, uint64_t bytes);

/** The result of glex_ext_poll(). */
struct glex_ext_arrival {
    glex_event_t *event; /**< NULL: an MP */
    void *data;          /**< of an MP, 8-byte aligned */
    uint32_t len;        /**< of an MP */
    glex_ep_addr_t src;  /**< of an MP: the sender */
};

/**
 * Take the next event or MP. The order between events and MPs is undefined; a queue waits for at
 * most one entry of the other queue. The entry of the last call belongs to the NIC again. Do not
 * mix this call with entries that were probed and not discarded. glex_probe_first_event() finds
 * entries again that were returned since the last empty poll, unless they were discarded. On an
 * endpoint of several threads a probe takes the entry out of the queue: glex_ext_poll() does not
 * return it again.
 *
 * For one thread at a time, with glex_ext_arm(), and without a lock; other threads may post.
 * Returns SUCCESS, or NO_EVENT if both queues are empty.
 */
glex_ret_t glex_ext_poll(glex_ep_handle_t ep, struct glex_ext_arrival *arrival);

/** Entries that came to an endpoint since it was created, and entries that glex_ext_poll() took. */
struct glex_ext_queues {
    uint64_t events_arrived, events_taken;
    uint64_t mps_arrived, mps_taken;
};

/**
 * How far the queues are. All that a peer ever sent is taken when as much is taken as had arrived
 * when the peer was known to have ended. To wait until a queue is empty may take for ever while
 * others send. For the thread that calls glex_ext_poll(). Errors: INVALID_PARAM.
 */
glex_ret_t glex_ext_query_queues(glex_ep_handle_t ep, struct glex_ext_queues *queues);

/**
 * A file descriptor that becomes readable when something arrives after glex_ext_arm(). Owned by
 * the endpoint; for poll() and epoll only, the program never reads from it.
 */
glex_ret_t glex_ext_event_fd(glex_ep_handle_t ep, int *fd);

/**
 * Of an endpoint of type MANAGEMENT: a file descriptor that is readable while something waits that
 * glex_receive_mgmt_ack() has not taken from the network, and the virtual port that chips send
 * their reports to. The descriptor is owned by the endpoint; for poll() and epoll only. Call
 * glex_receive_mgmt_ack() until it says NO_MP before waiting. Errors: INVALID_PARAM.
 */
glex_ret_t glex_ext_mgmt_fd(glex_ep_handle_t ep, int *fd, uint8_t *vp);

/**
 * Ask for a wake-up through the descriptor of glex_ext_event_fd() by the next arrival. The
 * descriptor also becomes readable by itself after 0.2 s, because a sender may be killed between
 * its message and the wake-up: look, and arm again.
 * Returns SUCCESS: nothing is waiting and the next arrival will wake. BUSY: something is there,
 * probe first.
 */
glex_ret_t glex_ext_arm(glex_ep_handle_t ep);

/**
 * Publish the receiver that takes messages and events out of the endpoint's queues.
 * @param uuid  Unique name of the receiver in the fabric, now and later; 0: no receiver. A new
 *        endpoint has a receiver with a name of the library's choice.
 *
 * With 0, requests that would leave an entry in the queues, and RDMA between registrations, fail as
 * if the endpoint did not exist (status DEST_VP_STOP). The endpoint's own local events and requests
 * also fail. Immediate puts without an event, and mapped memory, work as before.
 *
 * The call does three steps. First, the queues refuse entries. Second, the posted requests to other
 * hosts end, and then all connections with other hosts end in both directions. This step takes as
 * long as glex_destroy_ep(). Third, the name vanishes. If glex_ext_check_peer() does not find this
 * receiver, the queues refuse entries and the connections have ended.
 *
 * A change from one uuid to another only changes the name: publish 0 in between to separate the
 * receivers. Errors with a uuid: SYS_ERR, the endpoint cannot listen to other hosts again.
 */
glex_ret_t glex_ext_set_receiver(glex_ep_handle_t ep, uint64_t uuid);

/**
 * Returns whether a peer endpoint has a receiver. Shared memory alone is read, without a system
 * call: a peer that was killed still seems to have a receiver. A peer on another host has a receiver
 * while its connection lasts.
 * Returns SUCCESS, or NO_EP_RESOURCE where it has none, or does not exist.
 */
glex_ret_t glex_ext_has_receiver(glex_ep_handle_t ep, glex_ep_addr_t peer);

/**
 * Make `ep` serve the registrations of `domain`, another endpoint of this process, to peers on
 * other hosts, in requests with GLEX_EXT_FLAG_DOMAIN. A peer sends these requests over its
 * connection with `ep`, in order with its other requests, so the program need not poll `domain`.
 * Destroy `domain` after `ep`. NULL: no domain, the initial state. Errors: INVALID_PARAM.
 */
glex_ret_t glex_ext_set_domain(glex_ep_handle_t ep, glex_ep_handle_t domain);

/** Whether requests to a peer go by the network: 1 or 0. The peer need not exist. */
int glex_ext_is_remote(glex_ep_handle_t ep, glex_ep_addr_t peer);

/**
 * Return the epoch of the connection with a peer, for glex_ext_check_peer(). Never 0.
 *
 * Within a host an epoch lasts as long as the peer endpoint. Between hosts an epoch is the life of
 * the connection, for both directions. The epoch ends before the peer does if the network is cut or
 * the peer is stopped for longer than GLEX_NET_TIMEOUT. No request of an epoch is executed after
 * its end, on either side. If the last epoch is over, the call begins a new epoch, by connecting in
 * the background. A program that has called this function decides when a new epoch begins: after
 * the end of an epoch, requests to the peer on another host fail (status DEST_VP_STOP) until the
 * next call. Errors: NO_EP_RESOURCE (no such peer), NO_MEM_RESOURCE.
 */
glex_ret_t glex_ext_peer_epoch(glex_ep_handle_t ep, glex_ep_addr_t peer, uint64_t *epoch_p);

/**
 * Whether a receiver is still at a peer's address. Costs some system calls.
 * @param uuid   The uuid that the peer has published: glex_ext_set_receiver(); 0: any. Ignored
 *        between hosts, because there the end of a receiver ends its epochs.
 * @param epoch  Of glex_ext_peer_epoch(); 0: any.
 *
 * Returns SUCCESS: the receiver is there, or this process lacks descriptors or memory for the
 * check. NO_EP_RESOURCE: the receiver, the endpoint, its process, or the epoch is gone. ACCESS_ERR:
 * another receiver is there. After NO_EP_RESOURCE and ACCESS_ERR no request of the receiver and
 * epoch arrives any more. Its requests were executed or dropped, also requests of a peer on another
 * host, and later requests are refused. A store by a pointer to mapped memory is not a request:
 * only the end of the process stops these stores.
 */
glex_ret_t glex_ext_check_peer(glex_ep_handle_t ep, glex_ep_addr_t peer, uint64_t uuid,
                               uint64_t epoch);

enum glex_ext_process_state {
    GLEX_EXT_PROCESS_RUNS,   /**< the process runs, and its endpoint exists */
    GLEX_EXT_PROCESS_CLOSED, /**< the process has destroyed its endpoint */
    GLEX_EXT_PROCESS_EXITED, /**< the process has called exit() without destroying its endpoint */
    GLEX_EXT_PROCESS_KILLED  /**< the process ended without exit(): a signal, _exit(), exec() */
};

/** The process of a peer endpoint, for messages to people. */
struct glex_ext_process {
    uint32_t pid; /**< in the pid namespace of the peer */
    int32_t rank; /**< in the peer's MPI job, by the launcher's variables; -1: not known */
    enum glex_ext_process_state state;
};

/**
 * The process of a peer of this host, also after the end of the peer. The library remembers the
 * last 64 peers that ended. Costs some system calls.
 * @param uuid  As for glex_ext_check_peer(). Errors: NO_EP_RESOURCE (not known), NOT_IMPLEMENTED
 *        (the peer is on another host).
 */
glex_ret_t glex_ext_peer_process(glex_ep_handle_t ep, glex_ep_addr_t peer, uint64_t uuid,
                                 struct glex_ext_process *process);

glex_ret_t glex_ext_query_counters(glex_ep_handle_t ep, struct glex_ext_counters *counters);

/** Version of libglex, such as "0.1.0". */
const char *glex_ext_version(void);

#ifdef __cplusplus
}
#endif

#endif

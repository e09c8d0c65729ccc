/*
 * Interface of transport ud_mon: one UD queue pair on one port, with a ring of send slots and a
 * ring of receive slots. A file for each of its parts: ud_mon_qp.c (queue pair and rings),
 * ud_mon_tx.c (sending), ud_mon_rx.c (receiving), ud_mon_senders.c (loss), ud_mon_ah.c (address
 * handles), ud_mon_event.c (sleeping), ud_mon_stats.c (counters).
 */
#ifndef UD_MON_IFACE_H
#define UD_MON_IFACE_H

#include "ud_mon_md.h"
#include "ud_mon_wire.h"
#include "uct_ud_mon.h"
#include "common/seqwin.h"

#include <ucs/arch/cpu.h>
#include <ucs/datastruct/khash.h>
#include <ucs/datastruct/list.h>
#include <ucs/datastruct/queue.h>
#include <ucs/sys/math.h>

#include <netinet/in.h>

enum {
    UD_MON_GRH_LENGTH = 40,
    UD_MON_MAX_SGE = 4, /* the header's and three of the user's */
    UD_MON_RX_SGE = 2,
    UD_MON_POLL_MAX = 64 /* completions taken at once */
};

typedef struct uct_ud_mon_iface_config {
    uct_iface_config_t super;
    size_t seg_size;
    char *qkey; /* belongs to UCT's configuration: valid while the interface is opened */
    int gid_index;
    unsigned pkey_index;
    unsigned sl;
    unsigned traffic_class;
    unsigned hop_limit;
    unsigned tx_queue_len;
    unsigned tx_batch;
    unsigned tx_inline;
    unsigned rx_queue_len;
    unsigned rx_batch;
    unsigned max_senders;
    int cb_sync;
} uct_ud_mon_iface_config_t;

/* Completions that raise an event: none, solicited datagrams only, or the next completion. */
typedef enum ud_mon_armed { UD_MON_DISARMED, UD_MON_ARMED_SOLICITED, UD_MON_ARMED } ud_mon_armed_t;

/* A send slot: a piece of registered memory, its work request, and the user's completion. */
typedef struct ud_mon_tx_slot {
    struct ibv_sge sge[UD_MON_MAX_SGE];
    uct_completion_t *comp;
} ud_mon_tx_slot_t;

/*
 * Ring of send slots. Indices count up and are reduced modulo length when used:
 * tail <= posted <= head <= tail + length. [tail, posted) is with the device, [posted, head) waits
 * for the doorbell.
 */
typedef struct ud_mon_tx {
    struct ibv_cq *cq;
    struct ibv_mr *mr;
    void *memory;
    ud_mon_tx_slot_t *slots;
    struct ibv_send_wr *wr;
    size_t slot_size;
    uint32_t length; /* power of two */
    uint32_t batch;
    uint32_t max_inline;
    uint32_t head, posted, tail;
    ud_mon_armed_t armed;
    ucs_queue_head_t flushes; /* completions that wait for an index */
} ud_mon_tx_t;

/* Ring of receive slots: [done, posted) is with the device. */
typedef struct ud_mon_rx {
    struct ibv_cq *cq;
    struct ibv_mr *mr;
    void *memory;
    struct ibv_recv_wr *wr;
    struct ibv_sge (*sge)[UD_MON_RX_SGE]; /* global routing header, datagram */
    struct ibv_grh *grhs;                 /* behind the slots, one for each */
    size_t slot_size;
    uint32_t length; /* power of two */
    uint32_t batch;
    uint32_t posted, done;
    ud_mon_armed_t armed;
    /* completions found while arming, to be handled by the next progress */
    struct ibv_wc stash[UD_MON_POLL_MAX];
    int stashed;
    /* the datagram whose handler runs, or NULL */
    const struct ibv_wc *current;
    const ud_mon_header_t *current_header;
} ud_mon_rx_t;

/* A stream of a sender, from the receiver's side. */
typedef struct ud_mon_sender_key {
    uint64_t sender;
    uint32_t stream;
} ud_mon_sender_key_t;

typedef struct ud_mon_sender {
    ud_mon_sender_key_t key;
    struct seqwin win;
    ucs_list_link_t lru;
} ud_mon_sender_t;

static inline khint_t ud_mon_sender_hash(ud_mon_sender_key_t key)
{
    return kh_int64_hash_func(key.sender ^ ((uint64_t)key.stream * UINT64_C(0x9e3779b97f4a7c15)));
}

static inline int ud_mon_sender_equal(ud_mon_sender_key_t a, ud_mon_sender_key_t b)
{
    return (a.sender == b.sender) && (a.stream == b.stream);
}

KHASH_INIT(ud_mon_senders, ud_mon_sender_key_t, ud_mon_sender_t *, 1, ud_mon_sender_hash,
           ud_mon_sender_equal)

/*
 * An address handle, shared by all endpoints of a peer's port. A released handle must outlive the
 * sends that use it, because some devices read the handle only when the datagram leaves.
 */
typedef struct ud_mon_ah {
    struct ibv_ah *ah;
    struct ibv_ah_attr attr;
    unsigned refs;
    ucs_list_link_t dead; /* in the list of released handles */
    uint32_t last_use;    /* destroy a released handle when the tail of the send ring gets here */
} ud_mon_ah_t;

static inline khint_t ud_mon_ah_hash(struct ibv_ah_attr attr)
{
    return kh_int64_hash_func(attr.grh.dgid.global.interface_id ^
                              (attr.grh.dgid.global.subnet_prefix >> 1) ^ attr.dlid);
}

/* Compares all bytes, including padding, so clear a struct before filling it. */
static inline int ud_mon_ah_equal(struct ibv_ah_attr a, struct ibv_ah_attr b)
{
    return !memcmp(&a, &b, sizeof(a));
}

KHASH_INIT(ud_mon_ahs, struct ibv_ah_attr, ud_mon_ah_t *, 1, ud_mon_ah_hash, ud_mon_ah_equal)

typedef struct uct_ud_mon_iface {
    uct_base_iface_t super;
    uct_ud_mon_iface_config_t config;
    uint8_t port;
    int is_eth;
    uint32_t qkey;
    int gid_index;
    union ibv_gid gid;
    uint16_t lid;
    uint32_t port_mtu; /* largest received datagram, including the transport's header */
    uint32_t mtu;      /* largest sent datagram */
    uint64_t id;
    uint32_t next_stream;
    struct ibv_qp *qp;
    uint32_t generation; /* of the queue pair; completions of older generations are ignored */
    int failed;          /* the queue pair must be set up again */
    struct ibv_comp_channel *channel;
    int event_fd;
    ud_mon_tx_t tx;
    ud_mon_rx_t rx;
    uct_am_callback_t stub_handler; /* UCT's handler for ids without a handler */
    khash_t(ud_mon_senders) senders;
    ucs_list_link_t senders_lru; /* least recently heard first */
    khash_t(ud_mon_ahs) ahs;
    ucs_list_link_t dead_ahs;
    uct_ud_mon_stats_t stats;
    uint64_t no_receive_base;
    uint64_t bad_qkey_base;
} uct_ud_mon_iface_t;

typedef struct uct_ud_mon_ep {
    uct_base_ep_t super;
    ud_mon_ah_t *ah;
    uint32_t qpn;
    uint32_t qkey;
    uint32_t stream;
    uint64_t next_seq;
} uct_ud_mon_ep_t;

static inline uct_ud_mon_md_t *uct_ud_mon_iface_md(uct_ud_mon_iface_t *iface)
{
    return ucs_derived_of(iface->super.md, uct_ud_mon_md_t);
}

/* Whether index `a` is at or before `b`, in a ring whose indices wrap around. */
static inline int ud_mon_index_reached(uint32_t a, uint32_t b)
{
    return (int32_t)(b - a) >= 0;
}

static inline uint32_t ud_mon_max_payload(const uct_ud_mon_iface_t *iface)
{
    return iface->mtu - sizeof(ud_mon_header_t);
}

/* The ud_mon interface behind a UCT interface, or NULL if it is of another transport. */
static inline uct_ud_mon_iface_t *uct_ud_mon_iface_cast(uct_iface_h tl_iface)
{
    const uct_base_iface_t *iface = ucs_derived_of(tl_iface, uct_base_iface_t);

    return (iface->md->component == &uct_ib_ud_mon_component) ?
               ucs_derived_of(tl_iface, uct_ud_mon_iface_t) :
               NULL;
}

/* ud_mon_qp.c */
ucs_status_t uct_ud_mon_qp_open(uct_ud_mon_iface_t *iface);
void uct_ud_mon_qp_close(uct_ud_mon_iface_t *iface);
void uct_ud_mon_qp_recover(uct_ud_mon_iface_t *iface);

/* ud_mon_tx.c */
ucs_status_t uct_ud_mon_ep_am_short(uct_ep_h ep, uint8_t id, uint64_t header, const void *payload,
                                    unsigned length);
ssize_t uct_ud_mon_ep_am_bcopy(uct_ep_h ep, uint8_t id, uct_pack_callback_t pack_cb, void *arg,
                               unsigned flags);
ucs_status_t uct_ud_mon_ep_am_zcopy(uct_ep_h ep, uint8_t id, const void *header,
                                    unsigned header_length, const uct_iov_t *iov, size_t iovcnt,
                                    unsigned flags, uct_completion_t *comp);
ucs_status_t uct_ud_mon_ep_flush(uct_ep_h ep, unsigned flags, uct_completion_t *comp);
ucs_status_t uct_ud_mon_iface_flush(uct_iface_h iface, unsigned flags, uct_completion_t *comp);
void uct_ud_mon_tx_doorbell(uct_ud_mon_iface_t *iface);
unsigned uct_ud_mon_tx_poll(uct_ud_mon_iface_t *iface);
void uct_ud_mon_tx_done(uct_ud_mon_iface_t *iface, uint32_t tail, ucs_status_t status);

/* ud_mon_rx.c */
void uct_ud_mon_rx_refill(uct_ud_mon_iface_t *iface);
unsigned uct_ud_mon_rx_poll(uct_ud_mon_iface_t *iface);

/* ud_mon_senders.c */
void ud_mon_senders_init(uct_ud_mon_iface_t *iface);
void ud_mon_senders_cleanup(uct_ud_mon_iface_t *iface);
int ud_mon_senders_arrive(uct_ud_mon_iface_t *iface, const ud_mon_header_t *header);

/* ud_mon_ah.c */
ucs_status_t ud_mon_ah_get(uct_ud_mon_iface_t *iface, const struct ibv_ah_attr *attr,
                           ud_mon_ah_t **ah_p);
void ud_mon_ah_put(uct_ud_mon_iface_t *iface, ud_mon_ah_t *ah);
void ud_mon_ah_reap(uct_ud_mon_iface_t *iface);
void ud_mon_ahs_cleanup(uct_ud_mon_iface_t *iface);
void ud_mon_ah_attr_of_address(const uct_ud_mon_iface_t *iface, const ud_mon_device_addr_t *addr,
                               struct ibv_ah_attr *attr);

/* ud_mon_ep.c */
ucs_status_t uct_ud_mon_ep_create(const uct_ep_params_t *params, uct_ep_h *ep_p);
UCS_CLASS_DECLARE_DELETE_FUNC(uct_ud_mon_ep_t, uct_ep_t);

/* ud_mon_event.c */
ucs_status_t ud_mon_event_open(uct_ud_mon_iface_t *iface);
void ud_mon_event_close(uct_ud_mon_iface_t *iface);
ucs_status_t ud_mon_event_add(uct_ud_mon_iface_t *iface, int fd);
ucs_status_t uct_ud_mon_iface_event_fd_get(uct_iface_h iface, int *fd_p);
ucs_status_t uct_ud_mon_iface_event_arm(uct_iface_h iface, unsigned events);

/* ud_mon_stats.c */
void ud_mon_stats_open(uct_ud_mon_iface_t *iface);

/* ud_mon_gid.c */
ucs_status_t ud_mon_gid_choose(uct_ud_mon_md_t *md, uint8_t port, int is_eth, int wanted,
                               int *index_p, union ibv_gid *gid_p);

#endif

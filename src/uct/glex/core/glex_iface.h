/*
 * Interface `glex`: one GLEX endpoint, and the common state of the VCs and channels.
 */
#ifndef UCT_GLEX_IFACE_H
#define UCT_GLEX_IFACE_H

#include "base/glex_buf.h"
#include "base/glex_config.h"
#include "base/glex_fifo.h"
#include "base/glex_md.h"
#include "base/glex_wire.h"

#include <uct/base/uct_iface.h>
#include <ucs/datastruct/arbiter.h>
#include <ucs/datastruct/list.h>
#include <ucs/datastruct/ptr_array.h>
#include <ucs/datastruct/queue_types.h>
#include <ucs/time/time.h>

typedef struct uct_glex_vc uct_glex_vc_t;

/* Most queue entries that are handled before they are discarded. The credits leave room for these
 * entries. */
#define UCT_GLEX_POLL_BATCH 16

/* Most objects of a long list that one progress call looks at. The next progress call continues. */
#define UCT_GLEX_SLICE 64u

/* A FIFO lent to a peer. The index in iface->er_rx[] names the FIFO in GRANT, REVOKE and
 * RELEASED. */
typedef struct uct_glex_er_rx {
    uct_glex_vc_t *vc;          /* the borrower, NULL: none */
    uint8_t *base;              /* the units */
    uct_glex_fifo_ctrl_t *ctrl; /* before the slots; NULL: the FIFO cannot be mapped */
    uct_glex_buf_t *buf;
    uint16_t arrived; /* messages taken from slots, in all */
    uct_glex_fifo_rx_t fifo;
    uct_glex_fifo_layout_t layout;
    uct_glex_fifo_count_t published; /* credits, if the FIFO can be mapped */
    uint16_t swept;                  /* `arrived` at the last sweep */
    union {
        uint16_t poll_index; /* in iface->er.polled[] while is_polled */
        uint16_t next_free;  /* while not lent: index of the next free FIFO */
    };
    uint16_t msgs_mark;  /* messages consumed at the last look for an idle FIFO */
    uint16_t release_at; /* released: messages sent through FIFOs of the VC, in all */
    uint8_t is_polled;
    uint8_t gen;
    uint8_t is_large;
    uint8_t revoked; /* REVOKE was sent */
} uct_glex_er_rx_t;

/* An END to be sent for a VC that does not exist here */
typedef struct uct_glex_refusal {
    uint64_t dest;
    uint32_t unknown_id; /* the VC id that the peer used for our side; 0: a CONNECT is refused */
    uint32_t peer_id;    /* the peer's name of the VC, 0: not known */
    uint32_t uuid;       /* of the interface that the refused CONNECT was for */
} uct_glex_refusal_t;

#define UCT_GLEX_MAX_REFUSALS 16

typedef struct uct_glex_lease uct_glex_lease_t;
typedef struct uct_glex_quarantine uct_glex_quarantine_t;

/* What the folders below conn/ report about a VC. The functions come from above, and the interface
 * gets them when it is made. See uct_glex_vc_report_failed() and the next functions. */
typedef struct uct_glex_reports {
    void (*failed)(uct_glex_vc_t *vc, ucs_status_t status);
    void (*dead)(uct_glex_vc_t *vc);
    void (*unaware)(uct_glex_vc_t *vc);
} uct_glex_reports_t;

/* How many events and MPs had arrived in the NIC's queues at some time */
typedef struct uct_glex_snap {
    uint64_t events, mps;
} uct_glex_snap_t;

typedef struct uct_glex_iface {
    uct_base_iface_t super;

    /* Used by every progress call */
    glex_ep_handle_t nic;
    uct_glex_er_rx_t *er_rx; /* FIFOs lent, by index */
    uct_glex_vc_t **vcs;     /* VCs by index, the lower bits of their id */
    unsigned num_vcs;
    uint8_t due;           /* progress must do more than poll for arrivals */
    uint8_t recheck;       /* resources came free: try again all VCs that wait for resources */
    uint8_t retry;         /* a peer's queue was full: try the refused requests again */
    uint16_t num_polled;   /* length of er.polled[] */
    uint16_t poll_hand;    /* index of the FIFO that was polled last */
    uint8_t poll_window;   /* messages to take before progress returns, at most; 1: the
                            * queues were empty */
    unsigned until_errors; /* progress calls until the next check for errors */
    struct glex_ext_arrival arrival;
    unsigned done;                    /* requests posted and ended by progress, in all */
    ucs_queue_head_t active;          /* VCs that have control messages to send */
    ucs_queue_head_t blocked;         /* VCs whose peer's queue was full, or that wait for a change
                                       * without an event. Each progress call tries these VCs again.
                                       * A program may sleep meanwhile. */
    ucs_arbiter_t arbiter;            /* endpoints whose pending requests can go on */
    ucs_arbiter_group_t *dispatching; /* the group whose request is being tried, or NULL */

    const uct_glex_reports_t *reports;
    uct_glex_md_t *md;
    unsigned ep_index; /* of `nic` in the memory domain */
    uint32_t uuid;
    uint64_t ep_addr;
    uint64_t channels; /* bitmap of enum uct_glex_channel */

    struct {
        uint32_t *heads;        /* chains of VCs by the peer's address: see glex_table.c */
        uint32_t *next;         /* by index of the VC: the next VC in the chain */
        unsigned reuse;         /* number of VCs from which on places are reused */
        unsigned first_gen;     /* generation of the first id at each place */
        unsigned num_gens;      /* generations that ids of this interface have or had */
        ucs_list_link_t over;   /* VCs that are over */
        ucs_list_link_t unused; /* VCs whose places have new VCs, to be freed */
    } vc_table;

    struct {
        unsigned free;  /* entries for the least windows of new peers */
        unsigned pool;  /* entries for larger windows */
        unsigned start; /* start credit */
        unsigned inc;
        unsigned max;
        unsigned shared;      /* entries that large windows divide */
        unsigned promised;    /* entries of all windows beyond the least windows */
        unsigned num_peers;   /* peers with a window */
        uint8_t told_full;    /* the error line about too many peers was logged */
        ucs_list_link_t wait; /* VCs that wait for entries to connect or accept */
    } mpq;

    struct {
        /* By size: uct_glex_er_rx_t.is_large */
        uct_glex_buf_pool_t pool[2];   /* FIFOs */
        uct_glex_buf_pool_t mirror[2]; /* local images of FIFOs that cannot be mapped */
        uint16_t units[2];
        uct_glex_fifo_layout_t layout[2];
        unsigned max;      /* FIFOs lent at once, at most: length of er_rx[] */
        unsigned max_bufs; /* FIFOs lent at once and FIFOs in leases, at most */
        unsigned lent;
        unsigned large_left;       /* large FIFOs that may still be lent */
        uint16_t msgs_max;         /* most events in flight for one FIFO that is not mapped */
        ucs_time_t idle_next;      /* when the next search for an idle FIFO is due */
        unsigned idle_hand;        /* index of the FIFO that is checked next for idleness */
        uint16_t free;             /* index of a FIFO that is not lent, if lent < max */
        ucs_time_t sweep_next;     /* when to stop polling FIFOs that are silent */
        unsigned sweep_left;       /* polled FIFOs that the current sweep has not looked at yet */
        ucs_list_link_t starved;   /* borrowed FIFOs without credits, in the order of the last read
                                    * of the credits */
        uct_glex_er_rx_t **polled; /* FIFOs that are polled */
        uint16_t thresh;           /* messages through SR before a FIFO is requested */
        uint8_t has_membarrier;
        uint8_t next_gen;
    } er;

    struct {
        uct_glex_buf_pool_t tx;
        uct_glex_buf_pool_t rx;
        uct_glex_buf_pool_t zc_rx;  /* buffers for am_zcopy payload */
        ucs_list_link_t rx_wait;    /* VCs whose next message waits for a buffer */
        unsigned retry_left;        /* most VCs of rx_wait that the current round tries again */
        ucs_list_link_t unreleased; /* messages that were read in place, and whose release waits for
                                     * room in the sender's queue */
    } sr;

    struct {
        ucs_mpool_t mp;            /* uct_glex_op_t */
        ucs_ptr_array_t table;     /* all operations by index, including free operations */
        uct_glex_buf_pool_t words; /* ZC: whether the payload is still valid */
        unsigned outstanding;      /* operations without Gets of received messages */
        uct_glex_share_t shares[UCT_GLEX_SHARES]; /* by enum uct_glex_op_type */
        uint16_t next_gen;
        uct_glex_buf_pool_t bounce;
    } ops;

    struct {                    /* vc/glex_lease.c */
        ucs_list_link_t list;   /* leases of VCs that are over */
        ucs_list_link_t debts;  /* claims that peers wait for from this side */
        ucs_list_link_t claims; /* claims that were put, see uct_glex_debt_is_claim() */
        unsigned num_claims;
        uct_glex_quarantine_t *quarantine;
    } leases;

    ucs_mpool_t rx_mp;      /* uct_glex_rx_t */
    uint64_t num_empty;     /* how often the queues were empty; for a NIC that does not report
                             * arrivals */
    pid_t pid;              /* process that made the interface: a child of fork() must not give up
                             * leases */
    int fence;              /* the next RMA request gets the flag FENCE */
    int event_fd;           /* -1: none */
    unsigned errors_calls;  /* initial value of until_errors */
    ucs_time_t errors_next; /* when the next check for errors is due */
    ucs_time_t watched;     /* time of the last check for dead peers */
    unsigned watch_hand;    /* index of the VC that was checked last */
    uct_glex_snap_t watch;  /* the arrivals at the last check of the VCs */
    uct_glex_refusal_t refusals[UCT_GLEX_MAX_REFUSALS]; /* refusals to be sent */
    unsigned num_refusals;
    unsigned num_dying;        /* VCs that progress is about to fail */
    unsigned num_waiting;      /* VCs with uct_glex_vc_is_waiting() */
    struct glex_err_req error; /* error that arming found. Progress handles the error. */
    int has_error;
    unsigned goodbye_ms; /* milliseconds that closing may still wait for peers with full queues */

    struct {
        size_t max_bcopy;
        size_t max_zcopy; /* 0: no am_zcopy */
        size_t min_rndv;
        size_t rma_buf_size;
        size_t max_rma_short;
    } config;
} uct_glex_iface_t;

/** Record how much has arrived in the NIC's queues until now */
void uct_glex_snap_take(uct_glex_iface_t *iface, uct_glex_snap_t *snap);

/** Whether all arrivals of the snapshot were taken from the queues */
int uct_glex_snap_is_taken(const uct_glex_iface_t *iface, const uct_glex_snap_t *snap);

static inline int uct_glex_iface_has_channel(const uct_glex_iface_t *iface,
                                             enum uct_glex_channel channel)
{
    return !!(iface->channels & UCS_BIT(channel));
}

/* Attributes and addresses of the interface: glex_query.c */
ucs_status_t uct_glex_iface_query(uct_iface_h tl_iface, uct_iface_attr_t *attr);
ucs_status_t uct_glex_iface_estimate_perf(uct_iface_h tl_iface, uct_perf_attr_t *attr);
ucs_status_t uct_glex_iface_get_address(uct_iface_h tl_iface, uct_iface_addr_t *addr);
ucs_status_t uct_glex_iface_get_device_address(uct_iface_h tl_iface, uct_device_addr_t *addr);

/** Longest RDMA request */
size_t uct_glex_iface_max_rdma(const uct_glex_iface_t *iface);

/** Returns whether the NIC knows that the interface `uuid` has left a peer's address, or that
 *  `epoch` has ended. `epoch` is a connection of the NIC with a peer on another host, 0: any
 *  connection. Costs some system calls. */
static inline int uct_glex_iface_is_gone(const uct_glex_iface_t *iface, uint64_t peer,
                                         uint32_t uuid, uint64_t epoch)
{
    glex_ep_addr_t addr = {.v = peer};
    glex_ret_t ret = glex_ext_check_peer(iface->nic, addr, uuid, epoch);

    /* ACCESS_ERR: another interface has the address */
    return (ret == GLEX_NO_EP_RESOURCE) || (ret == GLEX_ACCESS_ERR);
}

/** The NIC refused a request because a peer's queue is full. Has each progress call try again. A
 *  program may sleep meanwhile: the descriptor wakes the program every 0.2 s. */
static inline void uct_glex_iface_retry(uct_glex_iface_t *iface)
{
    iface->retry = 1;
    iface->due = 1;
}

/** Resources came free: have progress try again the VCs that wait for resources */
static inline void uct_glex_iface_recheck(uct_glex_iface_t *iface)
{
    iface->recheck = 1;
    iface->due = 1;
}

#endif

/*
 * Functions of transport ud_mon beyond UCT's interface: statistics of loss, and replies to a sender
 * whose address is otherwise unknown. All other functions are plain UCT.
 *
 * A program that loads the transport as a plugin finds these functions by dlsym in
 * libuct_ib_ud_mon.so. Each function takes an interface of transport "ud_mon"; another interface
 * gives UCS_ERR_INVALID_PARAM. No function blocks, unless its comment says so.
 */
#ifndef UCT_UD_MON_H
#define UCT_UD_MON_H

#include <uct/api/uct.h>
#include <netinet/in.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/** Counters of an interface, since it was opened. */
typedef struct uct_ud_mon_stats {
    uint64_t tx_datagrams;
    uint64_t tx_bytes;     /**< payload */
    uint64_t tx_doorbells; /**< posts to the device, each of one datagram or many */
    uint64_t tx_failed;    /**< taken from the caller and then not sent (queue pair reset) */
    uint64_t tx_no_room;   /**< answers of UCS_ERR_NO_RESOURCE */
    uint64_t rx_datagrams; /**< delivered to a handler */
    uint64_t rx_bytes;     /**< payload */
    uint64_t lost;         /**< missing in the numbers of all senders */
    uint64_t reordered;    /**< came late, delivered */
    uint64_t duplicated;   /**< came twice, not delivered */
    uint64_t stale;        /**< too old to decide about a duplicate, not delivered */
    uint64_t foreign;      /**< no datagram of this transport, or of another version */
    uint64_t malformed;    /**< of this transport, with an impossible content */
    uint64_t no_handler;   /**< for an active message that has no handler here */
    uint64_t senders;      /**< streams known now */
    uint64_t evicted;      /**< streams forgotten to make room for others */
    uint64_t recoveries;   /**< the queue pair failed and was set up again */
    int port_active;       /**< whether the port has a link now */
    /**
     * Datagrams that the device dropped because no receive was posted, read from the device's own
     * counters; valid if no_receive_known. The counters cover all users of the device.
     * `lost_on_way` is `lost` without these datagrams.
     */
    int no_receive_known;
    uint64_t no_receive;
    uint64_t lost_on_way;
    uint64_t bad_qkey; /**< dropped by the port for a wrong queue key (a 16-bit counter of the
                        *   port) */
} uct_ud_mon_stats_t;

/** The datagram an active message handler is looking at. */
typedef struct uct_ud_mon_rx_info {
    uint64_t sender;  /**< identity of the sending interface */
    uint32_t stream;  /**< endpoint of the sender */
    uint32_t qpn;     /**< queue pair of the sender */
    uint64_t seq;     /**< its number in the stream */
    uint64_t sent_ns; /**< by the sender's clock, nanoseconds since 1970 */
} uct_ud_mon_rx_info_t;

/** Counters of one stream of one sender. */
typedef struct uct_ud_mon_sender_stats {
    uint64_t sender;
    uint32_t stream;
    uint64_t received;
    uint64_t lost;
    uint64_t reordered;
    uint64_t duplicated;
    uint64_t stale;
} uct_ud_mon_sender_stats_t;

/** Read the counters; reads files in /sys, so not for a hot path. */
ucs_status_t uct_ud_mon_iface_stats(uct_iface_h iface, uct_ud_mon_stats_t *stats);

/** Call `cb` for each known stream, in no particular order. `cb` must not use the interface. */
ucs_status_t
uct_ud_mon_iface_senders(uct_iface_h iface,
                         void (*cb)(const uct_ud_mon_sender_stats_t *sender, void *arg), void *arg);

/** Describe the current datagram. Only inside an active message handler, else UCS_ERR_NO_ELEM. */
ucs_status_t uct_ud_mon_iface_rx_info(uct_iface_h iface, uct_ud_mon_rx_info_t *info);

/**
 * Make an endpoint to the sender of the current datagram, its address taken from the completion.
 * Only inside an active message handler. Destroyed by uct_ep_destroy.
 * May wait for the kernel to find the neighbour's hardware address (RoCE), up to a second.
 */
ucs_status_t uct_ud_mon_reply_ep_create(uct_iface_h iface, uct_ep_h *ep_p);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif

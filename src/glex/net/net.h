/*
 * The network link: requests to endpoints of other hosts. Requests travel as records in frames over
 * the engine's connections. A request is pending until the peer's acknowledgement or reply, or the
 * end of the connection. Progress puts received data into the endpoint's queues and memory, so a
 * program polls its queues without knowing the origin of the data. docs/hosts.md.
 */
#ifndef GLEX_NET_H
#define GLEX_NET_H

#include "core/device.h"
#include "core/link.h"
#include "net/engine.h"

struct glex_endpoint;
struct glex_net;

extern const struct glex_link glex_net_link;

/* ---- address.c: where we are ----------------------------------------------------------------- */

/** Find the interface, read the key, load the engine. Errors: INVALID_PARAM, logged. */
glex_ret_t glex_net_find_place(struct glex_net_place *place);

/** Writes provider, interface and address for a log; "" without a network. */
void glex_net_describe(const struct glex_net_place *place, char *text, size_t size);

/** Returns a listening socket at the port of an endpoint number. -1 and errno: EADDRINUSE if the
 * port is taken. */
int glex_net_listen(const struct glex_net_place *place, uint32_t num);

/** Possible endpoint numbers: numbers with a port. */
uint32_t glex_net_max_num(void);

/** Port of an endpoint number. */
uint16_t glex_net_port(uint32_t num);

/** IPv4 address of a NIC, in host byte order; 0: the NIC is in no network of this process. */
uint32_t glex_net_ip(const struct glex_net_place *place, uint32_t nic_id);

/* ---- net.c: with the endpoint ---------------------------------------------------------------- */

/** Open ep->net, which then owns the listening socket. Errors: SYS_ERR, logged. */
glex_ret_t glex_net_init(struct glex_endpoint *ep, int listen_fd);

/** Waits a little for peers to take posted requests. True: call again. False: the peers have taken
 * the requests, or are gone, or `ms` have passed since `begin_ns`. */
bool glex_net_flush(struct glex_endpoint *ep, uint64_t begin_ns, uint32_t ms);

/** End all connections, and refuse new ones until glex_net_resume(). Requests that peers did not
 * take are lost: flush before. */
void glex_net_pause(struct glex_endpoint *ep);
glex_ret_t glex_net_resume(struct glex_endpoint *ep);

void glex_net_cleanup(struct glex_endpoint *ep);

/** Ends the flusher at the exit of the process. Endpoints may be open, and exit() may have
 *  interrupted a call. */
void glex_net_exit(void);

/** Closes the network in a child of fork(), without a message to peers. */
void glex_net_fork(struct glex_endpoint *ep);

/** The number of the present epoch with a peer of another host. If the last epoch is over, a new
 * epoch begins. 0, and an error request status, on failure. */
uint64_t glex_net_epoch(struct glex_endpoint *ep, uint64_t addr, int *status_p);

/** Returns whether an epoch is over, and all requests of the epoch are handed over or dropped. */
bool glex_net_epoch_is_over(struct glex_endpoint *ep, uint64_t addr, uint64_t number);

/** Make one turn: hand over arrived frames, send waiting frames. */
void glex_net_progress(struct glex_endpoint *ep);

/** Returns the number of empty polls until the next glex_net_progress(): few after an arrival, and
 *  more the longer nothing arrives. */
uint32_t glex_net_patience(const struct glex_endpoint *ep);

/** Whether the network waits for room in a queue of the endpoint. */
bool glex_net_wants_room(const struct glex_endpoint *ep);

/** Whether a request with GLEX_FLAG_FENCE must wait, because earlier requests have not ended. Makes
 * progress. */
bool glex_net_holds(struct glex_endpoint *ep);

/** Returns the descriptor to sleep on. glex_net_arm() comes first; if it returns false, do not
 * sleep. */
int glex_net_fd(const struct glex_endpoint *ep);
bool glex_net_arm(struct glex_endpoint *ep);

#endif

/*
 * Requests to chips, many in flight, over libglex. net_run() sends a batch of requests, receives
 * the answers, and repeats unanswered requests. The call returns when each request has its
 * outcome. Threads
 * take turns; between batches reports are received.
 *
 * With the modelled clock the time that the management server's own software takes is part of the
 * model: 0.67 us a request (paper 4.5: 7.40 us in all, of which 6.73 in hardware). Independent
 * requests are sent in a fixed pattern. So modelled times are the same in every run.
 */
#ifndef INM_NET_H
#define INM_NET_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <glex.h>

#define NET_SOFTWARE_NS 670
#define NET_MAX_WINDOW  8192

enum net_outcome { NET_PENDING = -2, NET_NO_ANSWER = -1, NET_OK = 0 }; /* above: nmp_status */

struct net_req {
    uint8_t type; /* enum glex_mgmt_type */
    uint8_t chip; /* enum glex_mgmt_chip */
    uint8_t count;
    int8_t outcome; /* enum net_outcome, or a status */
    uint32_t id;
    const struct glex_mgmt_route *forward, *backward;
    uint16_t addr[GLEX_MGMT_MAX_BYTES];
    uint64_t reg[GLEX_MGMT_MAX_REGS]; /* to write; read */
    uint8_t byte[GLEX_MGMT_MAX_BYTES];
};

struct net_report {
    uint8_t event, port, chip;
    uint32_t id, seq;
    uint64_t value;
};

struct net_stats {
    uint64_t requests, responses, retries, lost, refused, stray, reports, reports_dropped;
};

struct net;

struct net_options {
    uint32_t window;     /* requests in flight */
    uint32_t timeout_ms; /* without an answer, until requests are repeated */
    uint32_t retries;
};

/** Allocates; net_connect() connects. @return NULL: no memory. */
struct net *net_open(const struct net_options *options);
void net_close(struct net *net);

/**
 * Connects if there is no connection. Not to be called while another thread is in net_reports().
 * @return Whether there is a connection. The first failure in a row is logged.
 */
bool net_connect(struct net *net);

/**
 * Do requests; any thread. Blocks for at most (retries + 1) * timeout after the last answer.
 * @return How many did not succeed; their outcome says why.
 */
uint32_t net_run(struct net *net, struct net_req *reqs, uint32_t num);

/** Change the window; from the next batch on. */
void net_set_window(struct net *net, uint32_t window);

/** The network's clock as this server sees it, ns. Modelled, it moves with requests only. */
uint64_t net_time(struct net *net);

/** Take reports that came. @return How many; at most `max`. Waits up to `timeout_ms`. */
uint32_t net_reports(struct net *net, struct net_report *reports, uint32_t max, int timeout_ms);

/** Let time pass, also on the modelled clock. */
void net_wait(struct net *net, uint32_t us);

/** The virtual port that chips send reports to. */
uint8_t net_vp(struct net *net);

/** Whether the network is still there. */
bool net_alive(struct net *net);

void net_get_stats(struct net *net, struct net_stats *stats);

/** Returns the text of an outcome, such as "no answer". */
const char *outcome_text(int outcome);

#endif

/*
 * Control messages of the DiMMon nodes net/udmon/send and net/udmon/recv. The agent's Lua reads
 * this file too, without its comments and directives: nothing but types and enumerations here.
 */
#ifndef NET_UDMON_H
#define NET_UDMON_H

#include <stdint.h>

enum { DMM_MSGTYPE_UDMONSEND = 0x2b6d5e01, DMM_MSGTYPE_UDMONRECV = 0x2b6d5e02 };

/* Bytes with the zero at the end. */
enum { DMM_UDMON_MAXADDRLEN = 256, DMM_UDMON_MAXPATHLEN = 1024, DMM_UDMON_MAXNAMELEN = 64 };

enum { DMM_MSG_UDMONSEND_CONNECT = 1, DMM_MSG_UDMONSEND_GETSTATS };

enum { DMM_MSG_UDMONRECV_BIND = 1, DMM_MSG_UDMONRECV_GETSTATS };

/*
 * Addresses are those of udmon.h: [SCHEME://]HOST:PORT. An error response means that the address,
 * the secret file or an option is wrong, or that the node is already connected or bound. An absent
 * server is no error, because it may start later.
 */
struct dmm_msg_udmonsend_connect {
    char addr[DMM_UDMON_MAXADDRLEN];
    char secret_file[DMM_UDMON_MAXPATHLEN]; /* empty: none */
    char source[DMM_UDMON_MAXADDRLEN];      /* IP address to send from; empty: by routing */
    char name[DMM_UDMON_MAXNAMELEN];        /* empty: the host's */
};

struct dmm_msg_udmonrecv_bind {
    char addr[DMM_UDMON_MAXADDRLEN];
    char secret_file[DMM_UDMON_MAXPATHLEN];
};

/* All zero before connecting or binding. */
struct dmm_msg_udmonsend_getstats_resp {
    uint32_t connected;
    uint64_t accepted; /* pieces of data taken from hooks */
    uint64_t dropped;  /* of these, dropped: the oldest, when the queue was full */
    uint64_t received; /* as the other side says, with its last keepalive */
    uint64_t lost;
};

struct dmm_msg_udmonrecv_getstats_resp {
    uint32_t clients;
    uint64_t received; /* pieces of data passed on, or dropped because no hook is connected */
    uint64_t lost;     /* known to be missing */
    uint64_t invalid;  /* no list of data nodes; thrown away */
};

#endif

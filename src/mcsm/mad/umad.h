/* The way to the fabric: one port of this host, through libibumad. */
#ifndef MCSM_UMAD_H
#define MCSM_UMAD_H

#include "mads.h"

typedef struct mcsm_umad mcsm_umad_t;

/* A packet that came in. `length` bytes follow as far as `mad` goes; RMPP has been put together. */
typedef struct mcsm_packet {
    struct mcsm_packet *next;
    mcsm_addr_t from;
    bool error; /* our own packet, which timed out */
    size_t length;
    uint8_t mad[];
} mcsm_packet_t;

/* Opens the port with this GUID (0: the first port) and registers as subnet manager and
 * administrator. A separate thread receives. -errno, logged. */
int mcsm_umad_open(uint64_t port_guid, mcsm_umad_t **umad_p);
void mcsm_umad_close(mcsm_umad_t *umad);

/* Becomes readable when packets are there. */
int mcsm_umad_fd(const mcsm_umad_t *umad);

/* The packets that came since the last call, oldest first; the caller frees each. */
mcsm_packet_t *mcsm_umad_take(mcsm_umad_t *umad);

/* An mcsm_send_fn, with the mcsm_umad_t as argument. */
int mcsm_umad_send(void *umad, const mcsm_addr_t *to, const uint8_t *mad, size_t length,
                   unsigned timeout);

/* Say in our PortInfo that a subnet manager is here, as long as `on`. */
void mcsm_umad_set_sm(mcsm_umad_t *umad, bool on);

uint64_t mcsm_umad_port_guid(const mcsm_umad_t *umad);

#endif

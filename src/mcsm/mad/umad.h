/* The way to the fabric: one port of this host, through libibumad. */
#ifndef MCSM_UMAD_H
#define MCSM_UMAD_H

#include "mads.h"

struct mcsm_umad;

/* A packet that came in. `length` bytes follow as far as `mad` goes; RMPP has been put together. */
struct mcsm_packet {
    struct mcsm_packet *next;
    struct mcsm_addr from;
    bool error; /* our own packet, which timed out */
    size_t length;
    uint8_t mad[];
};

/** Opens the port with this GUID (0: the first port) and registers as subnet manager and
 * administrator. A separate thread receives. -errno, logged. */
int mcsm_umad_open(uint64_t port_guid, struct mcsm_umad **umad_p);
void mcsm_umad_close(struct mcsm_umad *umad);

/** Becomes readable when packets are there. */
int mcsm_umad_fd(const struct mcsm_umad *umad);

/** The packets that came since the last call, oldest first; the caller frees each. */
struct mcsm_packet *mcsm_umad_take(struct mcsm_umad *umad);

/** An mcsm_send_fn, with the struct mcsm_umad as argument. */
int mcsm_umad_send(void *umad, const struct mcsm_addr *to, const uint8_t *mad, size_t length,
                   unsigned timeout);

/** Say in our PortInfo that a subnet manager is here, as long as `on`. */
void mcsm_umad_set_sm(struct mcsm_umad *umad, bool on);

uint64_t mcsm_umad_port_guid(const struct mcsm_umad *umad);

#endif

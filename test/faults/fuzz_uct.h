/*
 * Common declarations of the two halves of fuzz_uct: the processes, and the abilities of the evil
 * peer.
 */
#ifndef FUZZ_UCT_H
#define FUZZ_UCT_H

#include "fuzz.h"

#include "node.h"

#include "core/glex_iface.h"

#define AM_EVIL   1
#define AM_FRIEND 2
#define MEMORY    4096 /* of the victim: one page between two inaccessible pages */
#define CANARY    0x5a

enum {
    MUTATIONS,
    SESSIONS,
    DELIVERED,
    FAILED,
    FRIENDLY,
    KEYS,
    ADDRESSES,
    SETTINGS,
    SHORT_EVENTS,
    SHORT_MPS,
    SHOWN,
    SLOTS
};

extern struct node victim, evil, friendly;
extern uct_ep_h evil_ep;         /* the evil peer's, to the victim */
extern struct fuzz_input *input; /* of this run; NULL between runs: nothing is changed */
extern char *page;    /* the victim's, registered; a page before and one behind it are not */
extern char rkey[64]; /* its packed key */

static inline uct_glex_iface_t *glex_of(const struct node *node)
{
    return ucs_derived_of(node->iface, uct_glex_iface_t);
}

/* Progress of all three. */
void progress(unsigned calls);

/* Begin to change the evil peer's requests on their way to the NIC, while input is left. */
void evil_begin(void);

/* A message by any way that UCT has. */
void evil_send_genuine(void);

/* Send an invented message with the names of the existing connection. */
void evil_send_forged(void);

/* Noise into the FIFO that the victim has lent. */
void evil_scribble(void);

/* A slot of that FIFO with any word and any data. */
void evil_slot(void);

/* Any credits, where the victim reads them. */
void evil_show(void);

/* RMA by a packed key that was changed. */
void evil_use_key(void);

/* A message to an address that was changed: mostly of an endpoint that never existed. */
void evil_use_address(void);

/* Open a separate interface with any text as values of variables. */
void evil_use_setting(void);

#endif

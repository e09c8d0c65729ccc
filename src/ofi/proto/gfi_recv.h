/*
 * What the files of the receiving side share: gfi_recv.c, gfi_recv_buffer.c, gfi_rndv.c and gfi_unexpected.c.
 * All functions are for callers that hold the domain's lock.
 */
#ifndef GFI_RECV_H
#define GFI_RECV_H

#include "gfi_expected.h"

/* ---- the buffer of a posted receive (gfi_recv_buffer.c) ---- */

/** Counts and reports an error. `len`: bytes in the buffer. `flags`: FI_MULTI_RECV or 0. */
void gfi_recv_report_error(struct gfi_ep *ep, void *context, bool tagged,
                           const struct gfi_envelope *envelope, size_t len, uint64_t flags,
                           int error);

/**
 * Sets the place of the next message: the whole buffer, or the next part of a buffer for several
 * messages. A buffer with too little room left is no longer posted.
 */
void gfi_recv_take_place(struct gfi_ep *ep, struct gfi_recv *recv, size_t len,
                         struct gfi_place *place);

/** Reports a message that has ended in its place, and frees the receive if it has no further message. */
void gfi_recv_finish_message(struct gfi_ep *ep, struct gfi_recv *recv,
                             const struct gfi_envelope *envelope, const struct gfi_place *place,
                             int error);

/** Copies a message that has completely arrived, and reports it. */
void gfi_recv_eager(struct gfi_ep *ep, struct gfi_recv *recv, const struct gfi_envelope *envelope,
                    const void *bytes);

/** Ends the posting of a buffer for several messages. The buffer has taken all waiting messages. */
void gfi_recv_release_multi(struct gfi_ep *ep, struct gfi_recv *recv);

/** Ends a posted receive with an error. */
void gfi_recv_abort(struct gfi_ep *ep, struct gfi_recv *recv, int error);

/* ---- announced messages (gfi_rndv.c) ---- */

/** Begins to fetch an announced message into a receive, or asks for a stream. */
void gfi_recv_announced(struct gfi_ep *ep, struct gfi_recv *recv,
                        const struct gfi_envelope *envelope);

/* ---- unexpected messages (gfi_unexpected.c) ---- */

/** Keeps a message that no receive has matched. Without memory, the peer fails. */
void gfi_recv_keep(struct gfi_ep *ep, bool tagged, const struct gfi_envelope *envelope,
                   const void *bytes);
void gfi_recv_free_msg(struct gfi_domain *domain, struct gfi_unexpected *msg);

/** Gives an unexpected message, which is out of the match table, to a receive. */
void gfi_recv_consume(struct gfi_ep *ep, struct gfi_recv *recv, struct gfi_unexpected *msg);

/** Keeps a claimed message. The context remembers the message. */
void gfi_recv_claim(struct gfi_ep *ep, struct gfi_unexpected *msg, struct fi_context *context);

/** Takes the message that this context has claimed. @return NULL: the context has none */
struct gfi_unexpected *gfi_recv_claimed(struct gfi_ep *ep, const struct fi_context *context);

/** Frees a message, and notifies a sender that waits for its end. */
void gfi_recv_discard(struct gfi_ep *ep, struct gfi_unexpected *msg);

/** @return the first unexpected message that matches, or NULL */
static inline struct gfi_unexpected *gfi_recv_find(struct gfi_ep *ep, bool tagged, uint64_t source,
                                                   uint64_t tag, uint64_t ignore)
{
    struct gfi_match_msg *msg;

    msg = gfi_match_find_msg(gfi_recv_match(ep, tagged), source, tag, ignore);
    return msg == NULL ? NULL : gfi_of(msg, struct gfi_unexpected, match);
}

#endif

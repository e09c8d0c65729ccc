/*
 * Messages that arrive in the message queue (MPQ): find the VC, take the credits in the header, and
 * pass the message on. docs/protocol.md, section 3.
 */
#include "chan/glex_er.h"
#include "chan/glex_rx.h"
#include "conn/glex_ctl.h"
#include "conn/glex_life.h"
#include "vc/glex_mpq.h"
#include "vc/glex_lease.h"

/* Whether the message is from the VC's peer, and the VC is not over. A VC that is over ignores
 * credits. */
static UCS_F_ALWAYS_INLINE int uct_glex_mp_is_for(const uct_glex_vc_t *vc, uint64_t src)
{
    return (vc != NULL) && (vc->peer == src) && !uct_glex_vc_is_over(vc);
}

static UCS_F_NOINLINE void uct_glex_mp_malformed(uct_glex_vc_t *vc)
{
    ucs_error("glex: malformed message from endpoint 0x%" PRIx64, vc->peer);
    uct_glex_vc_fail(vc, UCS_ERR_CONNECTION_RESET);
}

/* Answer a message, except an ACK, by END: its VC is over, or does not exist (`vc` is NULL) */
static void uct_glex_mp_refuse(uct_glex_iface_t *iface, uct_glex_vc_t *vc, uint64_t src,
                               uint64_t word)
{
    uint32_t vc_id = uct_glex_hdr_vc_id(word);

    ucs_debug("glex: message type %u for vc 0x%x from endpoint 0x%" PRIx64 " ignored",
              uct_glex_hdr_type(word), vc_id, src);
    if (uct_glex_hdr_type(word) == UCT_GLEX_MP_ACK) {
        return;
    }
    if ((vc != NULL) && (vc->peer == src) && (vc->lease != NULL)) {
        uct_glex_lease_tell(vc);
    } else {
        uct_glex_ctl_refuse(iface, &(uct_glex_refusal_t){.dest = src, .unknown_id = vc_id});
    }
}

/* Many credits are owed: have a CTL return them. Returns 0 if the sender had no credit for the
 * message. Such a message is not stored, because the window limits the memory for a peer. */
static UCS_F_NOINLINE int uct_glex_mp_owed(uct_glex_vc_t *vc)
{
    if ((vc->state == UCT_GLEX_VC_OPEN) &&
        (uct_glex_credit_owed(&vc->mp_rx, vc->advertised_limit) > vc->mp_rx.window)) {
        ucs_error("glex: endpoint 0x%" PRIx64 " sent more messages than it had credits for",
                  vc->peer);
        uct_glex_vc_fail(vc, UCS_ERR_CONNECTION_RESET);
        return 0;
    }
    uct_glex_vc_schedule(vc);
    return 1;
}

/* A data MP arrived. The next header returns its credit, or a CTL at the end of progress. Returns 0
 * if the VC has failed. */
static UCS_F_ALWAYS_INLINE int uct_glex_mp_count(uct_glex_vc_t *vc, uint64_t word)
{
    ++vc->mp_rx.rcvd;
    uct_glex_vc_tell_limit(vc);
    if (ucs_unlikely(word & ((uint64_t)UCT_GLEX_FLAG_MORE << 8))) {
        uct_glex_mpq_grow(vc);
    }
    return ucs_likely(!uct_glex_credit_must_tell(&vc->mp_rx, vc->advertised_limit)) ||
           uct_glex_mp_owed(vc);
}

static void uct_glex_mp_recv_sr(uct_glex_vc_t *vc, const uct_glex_hdr_t *hdr, unsigned length)
{
    uint64_t word = hdr->word;

    if (length < sizeof(*hdr) + sizeof(uct_glex_sr_t)) {
        uct_glex_mp_malformed(vc);
        return;
    }
    if (uct_glex_mp_count(vc, word)) {
        uct_glex_rx_add_sr(vc, uct_glex_hdr_seq(word), uct_glex_hdr_am_id(word),
                           (const uct_glex_sr_t *)(hdr + 1),
                           uct_glex_hdr_flags(word) & UCT_GLEX_FLAG_ZC);
    }
}

/* All messages except short messages. `vc`: the VC of the id in the header, or NULL. CONNECT and
 * END ignore `vc`. */
static UCS_F_NOINLINE void uct_glex_mp_recv_other(uct_glex_iface_t *iface, uct_glex_vc_t *vc,
                                                  uint64_t src, const uct_glex_hdr_t *hdr,
                                                  unsigned length)
{
    switch (uct_glex_hdr_type(hdr->word)) {
    case UCT_GLEX_MP_CONNECT:
        uct_glex_ctl_recv_connect(iface, src, hdr, length);
        return;
    case UCT_GLEX_MP_END:
        uct_glex_ctl_recv_end(iface, src, hdr, length);
        return;
    default:
        break;
    }
    if (!uct_glex_mp_is_for(vc, src)) {
        uct_glex_mp_refuse(iface, vc, src, hdr->word);
    } else if (uct_glex_hdr_type(hdr->word) == UCT_GLEX_MP_SR) {
        uct_glex_mp_recv_sr(vc, hdr, length);
    } else {
        uct_glex_ctl_recv(vc, hdr, length);
    }
}

void uct_glex_mp_recv(uct_glex_iface_t *iface, uint64_t src, void *data, unsigned length)
{
    const uct_glex_hdr_t *hdr = data;
    uct_glex_vc_t *vc;
    uint64_t word;

    if (ucs_unlikely(length < sizeof(*hdr))) {
        ucs_debug("glex: message of %u bytes from endpoint 0x%" PRIx64 " ignored", length, src);
        return;
    }
    word = hdr->word;
    vc = uct_glex_vc_by_id(iface, uct_glex_hdr_vc_id(word));
    if (ucs_unlikely(!uct_glex_mp_is_for(vc, src))) {
        uct_glex_mp_recv_other(iface, vc, src, hdr, length);
        return;
    }
    if (ucs_unlikely(word & ((uint64_t)UCT_GLEX_FLAG_ACK << 8))) {
        uct_glex_ctl_acked(vc);
    }
    uct_glex_er_credits(vc, hdr->credits);
    if (ucs_unlikely(uct_glex_hdr_type(word) != UCT_GLEX_MP_AM)) {
        uct_glex_mp_recv_other(iface, vc, src, hdr, length);
        return;
    }
    if (uct_glex_mp_count(vc, word)) {
        uct_glex_rx_add_mp(vc, uct_glex_hdr_seq(word), uct_glex_hdr_am_id(word), (void *)(hdr + 1),
                           length - sizeof(*hdr), uct_glex_hdr_flags(word) & UCT_GLEX_FLAG_ZC);
    }
}

#include "chan/glex_fetch.h"
#include "chan/glex_op.h"

#include <string.h>

/* Number of receive buffers that messages of the VC hold. When a buffer comes back, progress tries
 * again the VCs that were refused a buffer. */
static unsigned uct_glex_fetch_num_bufs(const uct_glex_vc_t *vc)
{
    unsigned left = vc->rx_started, count = 0;
    const uct_glex_rx_t *rx;

    ucs_list_for_each(rx, &vc->rx, list) {
        if (left-- == 0) {
            break;
        }
        count += (rx->buf != NULL);
    }
    return count;
}

/* ---- announced messages ---- */

void *uct_glex_sr_map(uct_glex_vc_t *vc, const uct_glex_sr_t *sr, struct glex_ext_pin **pin_p)
{
    glex_ep_addr_t peer = {.v = vc->peer};
    glex_mem_handle_t mh = {.v = sr->mh};
    void *ptr;

    return (glex_ext_peer_ptr(vc->iface->nic, peer, mh, vc->peer_key, sr->offset, sr->length, &ptr,
                              pin_p) == GLEX_SUCCESS) ?
               ptr :
               NULL;
}

/* An empty Get. The remote event tells the sender that the unit is free. */
glex_ret_t uct_glex_sr_release(uct_glex_vc_t *vc, const uct_glex_sr_t *sr)
{
    const uct_glex_get_t get = {.mh = sr->mh, .offset = sr->offset, .op_id = sr->op_id};

    return uct_glex_op_get(vc, &get, NULL, 0, NULL, GLEX_FLAG_REMOTE_EVT);
}

ucs_status_t uct_glex_sr_fetch(uct_glex_rx_t *rx)
{
    uct_glex_vc_t *vc = rx->vc;
    const uct_glex_get_t get = {rx->sr.mh, rx->sr.offset, rx->sr.length, rx->sr.op_id};
    ucs_status_t status;
    uct_glex_op_t *op;

    status = uct_glex_buf_get(&vc->iface->sr.rx, uct_glex_fetch_num_bufs(vc), &rx->buf);
    if (status != UCS_OK) {
        return status;
    }
    status = uct_glex_op_new(vc, UCT_GLEX_OP_FETCH, NULL, &op);
    if (status != UCS_OK) {
        goto err_put;
    }
    op->arg = rx;
    rx->data = rx->buf->ptr;
    status = uct_glex_status(uct_glex_op_get(vc, &get, rx->buf, 0, op, GLEX_FLAG_REMOTE_EVT));
    if (status != UCS_OK) {
        uct_glex_op_cancel(op);
        goto err_put;
    }
    rx->op = op;
    uct_glex_op_posted(op, 1);
    ++vc->iface->done;
    return UCS_OK;

err_put:
    uct_glex_buf_put(rx->buf);
    rx->buf = NULL;
    return status;
}

/* ---- zero-copy messages ---- */

/* A descriptor is not trusted, so it is checked before Gets are posted */
static int uct_glex_zc_is_valid(const uct_glex_rx_t *rx)
{
    const uct_glex_zc_t *zc = rx->data;
    uint64_t sum = 0;
    unsigned i;

    if ((rx->length < sizeof(*zc)) || (zc->iovcnt > UCT_GLEX_ZC_MAX_IOV) ||
        (zc->header_length > UCT_GLEX_ZC_MAX_HDR) || (zc->length > UCT_GLEX_ZC_MAX_LEN) ||
        (rx->length != sizeof(*zc) + zc->iovcnt * sizeof(zc->iov[0]) + zc->header_length)) {
        return 0;
    }
    for (i = 0; i < zc->iovcnt; ++i) {
        if (zc->iov[i].length == 0) {
            return 0; /* an empty Get must only return a unit */
        }
        sum += zc->iov[i].length;
    }
    return sum == zc->length;
}

/* Fetch a piece to `offset` of the buffer. `flags`: GLEX_FLAG_REMOTE_EVT for the sender's
 * operation, GLEX_FLAG_FENCE to follow all earlier Gets. */
static ucs_status_t uct_glex_zc_post_get(uct_glex_rx_t *rx, const uct_glex_zc_iov_t *piece,
                                         uint32_t offset, int flags)
{
    const uct_glex_zc_t *zc = rx->data;
    const uct_glex_get_t get = {piece->mh, piece->offset, piece->length, zc->op_id};

    return uct_glex_status(uct_glex_op_get(rx->vc, &get, rx->buf, offset, rx->op, flags));
}

/* The word is read after the payload. A sender that cancels writes the word before returning the
 * payload to its program. So if the word is unchanged, the payload is valid. A lossless NIC executes
 * requests to one peer in their order. FENCE would also wait for requests to other peers, which may
 * be stopped. */
static ucs_status_t uct_glex_zc_post_word(uct_glex_rx_t *rx)
{
    const uct_glex_zc_t *zc = rx->data;
    const uct_glex_zc_iov_t word = {
        .mh = zc->word_mh, .offset = zc->word_offset, .length = sizeof(uint64_t)};

    __atomic_thread_fence(__ATOMIC_ACQUIRE); /* for a NIC that executes in this thread */
    return uct_glex_zc_post_get(rx, &word, UCT_GLEX_ZC_WORD_OFFSET,
                                GLEX_FLAG_REMOTE_EVT |
                                    (UCT_GLEX_NIC_LOSSLESS ? 0 : GLEX_FLAG_FENCE));
}

static uint64_t *uct_glex_zc_word(const uct_glex_rx_t *rx)
{
    return UCS_PTR_BYTE_OFFSET(rx->buf->ptr, UCT_GLEX_ZC_WORD_OFFSET);
}

int uct_glex_zc_is_cancelled(const uct_glex_rx_t *rx)
{
    const uct_glex_zc_t *zc = (const uct_glex_zc_t *)rx->copy;

    return (rx->zc_posted > 0) && (*uct_glex_zc_word(rx) != zc->op_id);
}

unsigned uct_glex_zc_unposted(const uct_glex_rx_t *rx)
{
    const uct_glex_zc_t *zc = (const uct_glex_zc_t *)rx->copy;

    return rx->zc ? zc->iovcnt + 1U - rx->zc_posted : 0;
}

/* Post the Gets that are not posted yet */
static ucs_status_t uct_glex_zc_post_gets(uct_glex_rx_t *rx)
{
    const uct_glex_zc_t *zc = rx->data;
    uint32_t offset = zc->header_length;
    ucs_status_t status;
    unsigned i;

    for (i = 0; i < zc->iovcnt; ++i) {
        if (i >= rx->zc_posted) {
            status = uct_glex_zc_post_get(rx, &zc->iov[i], offset, 0);
            if (status != UCS_OK) {
                return status;
            }
            ++rx->zc_posted;
        }
        offset += zc->iov[i].length;
    }
    if ((zc->iovcnt > 0) && (rx->zc_posted == zc->iovcnt)) {
        status = uct_glex_zc_post_word(rx);
        if (status != UCS_OK) {
            return status;
        }
        ++rx->zc_posted;
    }
    return UCS_OK;
}

ucs_status_t uct_glex_zc_fetch(uct_glex_rx_t *rx)
{
    uct_glex_zc_t *zc = rx->data;
    uct_glex_vc_t *vc = rx->vc;
    ucs_status_t status;

    if (rx->buf == NULL) {
        if (!uct_glex_zc_is_valid(rx)) {
            ucs_error("glex: malformed zero-copy descriptor from endpoint 0x%" PRIx64, vc->peer);
            return UCS_ERR_CONNECTION_RESET;
        }
        status = uct_glex_buf_get(&vc->iface->sr.zc_rx, uct_glex_fetch_num_bufs(vc), &rx->buf);
        if (status != UCS_OK) {
            return status;
        }
    }
    if ((rx->op == NULL) && (zc->iovcnt > 0)) {
        status = uct_glex_op_new(vc, UCT_GLEX_OP_FETCH, NULL, &rx->op);
        if (status != UCS_OK) {
            return status;
        }
        rx->op->arg = rx;
        *uct_glex_zc_word(rx) = zc->op_id; /* stays if the Get of the word fails */
        uct_glex_op_posted(rx->op, zc->iovcnt + 1);
    }
    status = uct_glex_zc_post_gets(rx);
    if (status != UCS_OK) {
        return status;
    }

    memcpy(rx->buf->ptr, UCS_PTR_BYTE_OFFSET(zc, sizeof(*zc) + zc->iovcnt * sizeof(zc->iov[0])),
           zc->header_length);
    rx->length = zc->header_length + zc->length;
    rx->data = rx->buf->ptr;
    rx->zc = 0;
    rx->ready = (rx->op == NULL); /* without payload nothing is fetched */
    ++vc->iface->done;
    return UCS_OK;
}

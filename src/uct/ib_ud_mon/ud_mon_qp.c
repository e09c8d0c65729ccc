/* The queue pair of an interface and the memory of its rings. */
#include "ud_mon_iface.h"

#include <errno.h>
#include <sys/mman.h>

static ucs_status_t ud_mon_memory_get(uct_ud_mon_iface_t *iface, size_t size, void **memory_p,
                                      struct ibv_mr **mr_p)
{
    uct_ud_mon_md_t *md = uct_ud_mon_iface_md(iface);
    void *memory;

    memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        ucs_error("ib_ud_mon: no %zu bytes for the queues of %s: %m", size, md->name);
        return UCS_ERR_NO_MEMORY;
    }
    *mr_p = ibv_reg_mr(md->pd, memory, size, IBV_ACCESS_LOCAL_WRITE);
    if (*mr_p == NULL) {
        ucs_error("ib_ud_mon: cannot register %zu bytes for the queues of %s: %m%s", size, md->name,
                  (errno == ENOMEM) ? " (raise ulimit -l, or lower UCX_IB_UD_MON_RX_QUEUE_LEN)" :
                                      "");
        munmap(memory, size);
        return UCS_ERR_IO_ERROR;
    }
    *memory_p = memory;
    return UCS_OK;
}

static void ud_mon_memory_put(void *memory, struct ibv_mr *mr)
{
    size_t size = mr->length;

    if (ibv_dereg_mr(mr) != 0) {
        ucs_warn("ib_ud_mon: cannot deregister the memory of a queue: %m");
    }
    munmap(memory, size);
}

/* Everything of a work request that never changes. */
static void ud_mon_tx_prepare(uct_ud_mon_iface_t *iface)
{
    ud_mon_tx_t *tx = &iface->tx;
    uint32_t i;

    for (i = 0; i < tx->length; ++i) {
        memset(&tx->wr[i], 0, sizeof(tx->wr[i]));
        tx->wr[i].opcode = IBV_WR_SEND;
        tx->wr[i].sg_list = tx->slots[i].sge;
        tx->wr[i].next = &tx->wr[(i + 1) & (tx->length - 1)];
        tx->slots[i].sge[0].addr = (uintptr_t)tx->memory + (i * tx->slot_size);
        tx->slots[i].sge[0].lkey = tx->mr->lkey;
        tx->slots[i].comp = NULL;
    }
}

/*
 * The first 40 bytes of verbs (GRH) have a separate buffer. So a slot of 4,096 bytes is exactly one
 * page. A device needs one table lookup for the page, and a datagram never crosses a page.
 */
static void ud_mon_rx_prepare(uct_ud_mon_iface_t *iface)
{
    ud_mon_rx_t *rx = &iface->rx;
    uint32_t i;

    rx->grhs = UCS_PTR_BYTE_OFFSET(rx->memory, rx->length * rx->slot_size);
    for (i = 0; i < rx->length; ++i) {
        rx->sge[i][0].addr = (uintptr_t)&rx->grhs[i];
        rx->sge[i][0].length = sizeof(rx->grhs[i]);
        rx->sge[i][1].addr = (uintptr_t)rx->memory + (i * rx->slot_size);
        rx->sge[i][1].length = iface->port_mtu;
        rx->sge[i][0].lkey = rx->sge[i][1].lkey = rx->mr->lkey;
        rx->wr[i].sg_list = rx->sge[i];
        rx->wr[i].num_sge = UD_MON_RX_SGE;
        rx->wr[i].next = &rx->wr[(i + 1) & (rx->length - 1)];
    }
}

_Static_assert(sizeof(struct ibv_grh) == UD_MON_GRH_LENGTH, "GRHs go to a place of their own");

static ucs_status_t ud_mon_rings_alloc(uct_ud_mon_iface_t *iface)
{
    ud_mon_tx_t *tx = &iface->tx;
    ud_mon_rx_t *rx = &iface->rx;
    ucs_status_t status;

    tx->slot_size = ucs_align_up_pow2(iface->mtu, UCS_SYS_CACHE_LINE_SIZE);
    rx->slot_size = ucs_align_up_pow2(iface->port_mtu, UCS_SYS_CACHE_LINE_SIZE);
    tx->slots = ucs_calloc(tx->length, sizeof(*tx->slots), "ud_mon tx slots");
    tx->wr = ucs_calloc(tx->length, sizeof(*tx->wr), "ud_mon tx wr");
    rx->wr = ucs_calloc(rx->length, sizeof(*rx->wr), "ud_mon rx wr");
    rx->sge = ucs_calloc(rx->length, sizeof(*rx->sge), "ud_mon rx sge");
    if ((tx->slots == NULL) || (tx->wr == NULL) || (rx->wr == NULL) || (rx->sge == NULL)) {
        status = UCS_ERR_NO_MEMORY;
        goto err_free;
    }
    status = ud_mon_memory_get(iface, tx->length * tx->slot_size, &tx->memory, &tx->mr);
    if (status != UCS_OK) {
        goto err_free;
    }
    status = ud_mon_memory_get(iface, rx->length * (rx->slot_size + sizeof(rx->grhs[0])),
                               &rx->memory, &rx->mr);
    if (status != UCS_OK) {
        goto err_tx_memory;
    }
    ud_mon_tx_prepare(iface);
    ud_mon_rx_prepare(iface);
    return UCS_OK;

err_tx_memory:
    ud_mon_memory_put(tx->memory, tx->mr);
err_free:
    ucs_free(rx->sge);
    ucs_free(rx->wr);
    ucs_free(tx->wr);
    ucs_free(tx->slots);
    return status;
}

static void ud_mon_rings_free(uct_ud_mon_iface_t *iface)
{
    ud_mon_memory_put(iface->rx.memory, iface->rx.mr);
    ud_mon_memory_put(iface->tx.memory, iface->tx.mr);
    ucs_free(iface->rx.sge);
    ucs_free(iface->rx.wr);
    ucs_free(iface->tx.wr);
    ucs_free(iface->tx.slots);
}

static ucs_status_t ud_mon_qp_create(uct_ud_mon_iface_t *iface)
{
    uct_ud_mon_md_t *md = uct_ud_mon_iface_md(iface);
    struct ibv_qp_init_attr attr = {
        .qp_context = iface,
        .send_cq = iface->tx.cq,
        .recv_cq = iface->rx.cq,
        .qp_type = IBV_QPT_UD,
        .cap =
            {
                .max_send_wr = iface->tx.length,
                .max_recv_wr = iface->rx.length,
                .max_send_sge = ucs_min(UD_MON_MAX_SGE, md->attr.max_sge),
                .max_recv_sge = UD_MON_RX_SGE,
                .max_inline_data = iface->config.tx_inline,
            },
    };

    iface->qp = ibv_create_qp(md->pd, &attr);
    if ((iface->qp == NULL) && (iface->config.tx_inline > 0)) {
        attr.cap.max_inline_data = 0; /* not every device has it, and it is only an optimization */
        iface->qp = ibv_create_qp(md->pd, &attr);
    }
    if (iface->qp == NULL) {
        ucs_error("ib_ud_mon: %s refuses a UD queue pair with %u sends and %u receives: %m",
                  md->name, iface->tx.length, iface->rx.length);
        return UCS_ERR_IO_ERROR;
    }
    iface->tx.max_inline = attr.cap.max_inline_data;
    return UCS_OK;
}

static ucs_status_t ud_mon_qp_modify(uct_ud_mon_iface_t *iface, enum ibv_qp_state state, int mask)
{
    struct ibv_qp_attr attr = {
        .qp_state = state,
        .pkey_index = iface->config.pkey_index,
        .port_num = iface->port,
        .qkey = iface->qkey,
    };

    if (ibv_modify_qp(iface->qp, &attr, mask | IBV_QP_STATE) != 0) {
        ucs_error("ib_ud_mon: %s:%d: the queue pair does not go to state %d: %m",
                  uct_ud_mon_iface_md(iface)->name, iface->port, state);
        return UCS_ERR_IO_ERROR;
    }
    return UCS_OK;
}

/* Receives are posted before the queue pair can receive, so before any peer has the address. */
static ucs_status_t ud_mon_qp_up(uct_ud_mon_iface_t *iface)
{
    ucs_status_t status;

    status = ud_mon_qp_modify(iface, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
    if (status != UCS_OK) {
        return status;
    }
    uct_ud_mon_rx_refill(iface);
    if (iface->rx.posted == iface->rx.done) {
        return UCS_ERR_IO_ERROR;
    }
    status = ud_mon_qp_modify(iface, IBV_QPS_RTR, 0);
    if (status != UCS_OK) {
        return status;
    }
    return ud_mon_qp_modify(iface, IBV_QPS_RTS, IBV_QP_SQ_PSN);
}

ucs_status_t uct_ud_mon_qp_open(uct_ud_mon_iface_t *iface)
{
    uct_ud_mon_md_t *md = uct_ud_mon_iface_md(iface);
    ucs_status_t status;

    status = ud_mon_rings_alloc(iface);
    if (status != UCS_OK) {
        return status;
    }
    status = UCS_ERR_IO_ERROR;
    iface->tx.cq = ibv_create_cq(md->context, iface->tx.length, iface, iface->channel, 0);
    if (iface->tx.cq == NULL) {
        ucs_error("ib_ud_mon: no send completion queue of %u on %s: %m", iface->tx.length,
                  md->name);
        goto err_rings;
    }
    iface->rx.cq = ibv_create_cq(md->context, iface->rx.length, iface, iface->channel, 0);
    if (iface->rx.cq == NULL) {
        ucs_error("ib_ud_mon: no receive completion queue of %u on %s: %m", iface->rx.length,
                  md->name);
        goto err_tx_cq;
    }
    status = ud_mon_qp_create(iface);
    if (status != UCS_OK) {
        goto err_rx_cq;
    }
    status = ud_mon_qp_up(iface);
    if (status != UCS_OK) {
        goto err_qp;
    }
    return UCS_OK;

err_qp:
    ibv_destroy_qp(iface->qp);
err_rx_cq:
    ibv_destroy_cq(iface->rx.cq);
err_tx_cq:
    ibv_destroy_cq(iface->tx.cq);
err_rings:
    ud_mon_rings_free(iface);
    return status;
}

void uct_ud_mon_qp_close(uct_ud_mon_iface_t *iface)
{
    if ((ibv_destroy_qp(iface->qp) != 0) || (ibv_destroy_cq(iface->rx.cq) != 0) ||
        (ibv_destroy_cq(iface->tx.cq) != 0)) {
        ucs_warn("ib_ud_mon: %s: cannot destroy the queues: %m", uct_ud_mon_iface_md(iface)->name);
    }
    ud_mon_rings_free(iface);
}

/*
 * A device may put the queue pair into the error state, for instance when a send fails locally. The
 * datagrams in flight are lost and counted. The queue pair keeps its number, so peers notice only
 * the loss.
 */
void uct_ud_mon_qp_recover(uct_ud_mon_iface_t *iface)
{
    struct ibv_wc wc[UD_MON_POLL_MAX];

    if (ud_mon_qp_modify(iface, IBV_QPS_RESET, 0) != UCS_OK) {
        return; /* stays failed: the next progress tries again */
    }
    /* The remaining completions belong to the old generation. */
    while (ibv_poll_cq(iface->rx.cq, UD_MON_POLL_MAX, wc) > 0) {
    }
    while (ibv_poll_cq(iface->tx.cq, UD_MON_POLL_MAX, wc) > 0) {
    }
    ++iface->generation;
    ++iface->stats.recoveries;
    iface->rx.stashed = 0;
    iface->rx.done = iface->rx.posted = 0;
    iface->stats.tx_failed += iface->tx.head - iface->tx.tail;
    iface->tx.posted = iface->tx.head;
    uct_ud_mon_tx_done(iface, iface->tx.head, UCS_ERR_IO_ERROR);
    if (ud_mon_qp_up(iface) == UCS_OK) {
        iface->failed = 0;
        ucs_diag("ib_ud_mon: %s:%d: the queue pair had failed and works again",
                 uct_ud_mon_iface_md(iface)->name, iface->port);
    }
}

#include "sim.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define NIC     0x51000000u /* the first peers' */
#define PER_NIC 16u
#define FIRST   256u /* number of a NIC's first endpoint */
#define WINDOW  16   /* messages of the interface in flight to a peer */

/* A message or an event in flight to the interface */
struct arrival {
    uint32_t index;  /* of the peer */
    uint32_t length; /* 0: an event */
    glex_event_t event;
    uint64_t data[UCT_GLEX_MP_LEN / 8];
};

#define UNIT       UINT64_MAX /* handle of the memory of all send units */
#define UNITS      16u        /* of a FIFO that a peer lends */
#define UNIT_SHIFT 6

/* A FIFO, as docs/protocol.md, section 7, draws it */
struct fifo {
    uint8_t units[UNITS << UNIT_SHIFT];
    uct_glex_fifo_ctrl_t ctrl;
    uct_glex_slot_t slots[UCT_GLEX_FIFO_SLOTS];
    uint16_t taken; /* consumed messages, in all; ahead of the published credits */
} __attribute__((aligned(UCT_GLEX_ER_ALIGN)));

struct message {
    uct_glex_hdr_t hdr;
    union {
        uct_glex_ctl_t ctl;
        uct_glex_end_t end;
    };
};

struct sim sim;

static struct {
    struct fifo *fifos; /* of the lenders */
    struct arrival *ring;
    size_t size, head, tail; /* numbers grow; taken modulo size */
    glex_ret_t (*send_imm_mp)(glex_ep_handle_t, glex_imm_mp_req_t *, glex_imm_mp_req_t **);
    glex_ret_t (*rdma)(glex_ep_handle_t, glex_rdma_req_t *, glex_rdma_req_t **);
    char unit[SIM_ANNOUNCED];
} nic;

/* A function of libglex that is defined here once more */
#define REAL(name) ((__typeof__(&name))real_function(#name))

static void *real_function(const char *name)
{
    void *function = dlsym(RTLD_NEXT, name);

    if (function == NULL) {
        fail("libglex has no %s", name);
    }
    return function;
}

uint64_t sim_peer_addr(unsigned index)
{
    return ((uint64_t)(NIC + index / PER_NIC) << 32) | (FIRST + index % PER_NIC);
}

/* The peer at an address, or NULL */
static struct sim_peer *find(glex_ep_addr_t addr)
{
    uint64_t index = (uint64_t)(addr.nic_id - NIC) * PER_NIC + (addr.ep_num - FIRST);

    return addr.nic_id >= NIC && index < sim.count ? &sim.peers[index] : NULL;
}

/* ---- messages of peers ----------------------------------------------------------------------- */

unsigned sim_waiting(void)
{
    return (unsigned)(nic.tail - nic.head);
}

static struct arrival *new_arrival(void)
{
    if (nic.tail + 1 - nic.head >= nic.size) {
        fail("more than %zu messages of simulated peers wait", nic.size);
    }
    return &nic.ring[nic.tail++ % nic.size];
}

static void put(const struct sim_peer *peer, const void *data, size_t length)
{
    struct arrival *arrival = new_arrival();

    arrival->index = (uint32_t)(peer - sim.peers);
    arrival->length = (uint32_t)length;
    memcpy(arrival->data, data, length);
}

static void fill(const struct sim_peer *peer, uct_glex_hdr_t *hdr, unsigned type, unsigned flags)
{
    memset(hdr, 0, sizeof(*hdr));
    hdr->type_am = (uint8_t)uct_glex_hdr_type_am(type, type >= UCT_GLEX_MP_AM ? SIM_AM_ID : 0);
    hdr->flags = (uint8_t)flags;
    hdr->vc_id = peer->vc_id;
    hdr->credits.mp_limit = (uint16_t)(peer->received + WINDOW);
}

static void put_ctl(const struct sim_peer *peer, unsigned type, unsigned hdr_flags, unsigned flags)
{
    uint32_t index = (uint32_t)(peer - sim.peers);
    struct message msg;

    memset(&msg, 0, sizeof(msg));
    fill(peer, &msg.hdr, type, hdr_flags);
    msg.ctl.version = UCT_GLEX_WIRE_VERSION;
    msg.ctl.flags = (uint16_t)flags;
    msg.ctl.vc_id = index + 1;
    msg.ctl.uuid = sim.iface->uuid;
    msg.ctl.src_uuid = index + 1;
    msg.ctl.key = index + 1;
    msg.ctl.er_sent = peer->stored;
    msg.ctl.released_index = peer->released_index;
    msg.ctl.released_gen = peer->released_gen;
    if (flags & UCT_GLEX_CTL_ER_GRANT) {
        msg.ctl.fifo_mh = index + 1;
        msg.ctl.fifo_units = UNITS;
        msg.ctl.fifo_msgs = UNITS;
        msg.ctl.unit_shift = UNIT_SHIFT;
        msg.ctl.spacing_shift = UNIT_SHIFT;
    }
    put(peer, &msg, sizeof(msg));
}

void sim_connect(unsigned index)
{
    struct sim_peer *peer = &sim.peers[index];

    peer->vc_id = 0;
    peer->state = SIM_CONNECTING;
    put_ctl(peer, UCT_GLEX_MP_CONNECT, 0, 0);
}

/* The peer touches nothing of the interface's any more */
static void put_end(const struct sim_peer *peer)
{
    uint32_t index = (uint32_t)(peer - sim.peers);
    struct message msg;

    memset(&msg, 0, sizeof(msg));
    fill(peer, &msg.hdr, UCT_GLEX_MP_END, 0);
    msg.end.version = UCT_GLEX_WIRE_VERSION;
    msg.end.flags = UCT_GLEX_END_CLAIMS;
    msg.end.vc_id = index + 1;
    msg.end.uuid = sim.iface->uuid;
    msg.end.src_uuid = index + 1;
    put(peer, &msg, sizeof(msg));
}

/* A data message. The peers want all credits that they can get: MORE. */
static bool put_data(struct sim_peer *peer, unsigned type, const void *data, size_t length)
{
    struct {
        uct_glex_hdr_t hdr;
        char data[UCT_GLEX_MP_DATA_LEN];
    } msg;

    if (peer->state != SIM_OPEN || peer->is_dead || (int16_t)(peer->limit - peer->sent) <= 0) {
        return false;
    }
    fill(peer, &msg.hdr, type, UCT_GLEX_FLAG_MORE);
    msg.hdr.seq = peer->seq++;
    memcpy(msg.data, data, length);
    peer->sent++;
    put(peer, &msg, sizeof(msg.hdr) + length);
    return true;
}

static bool send_from(struct sim_peer *peer)
{
    const uint64_t data = 0;

    return put_data(peer, UCT_GLEX_MP_AM, &data, sizeof(data));
}

bool sim_announce(unsigned index)
{
    const uct_glex_sr_t sr = {.mh = UNIT, .length = SIM_ANNOUNCED, .op_id = index + 1};

    return put_data(&sim.peers[index], UCT_GLEX_MP_SR, &sr, sizeof(sr));
}

static void put_event(uint64_t cookie_0, uint64_t cookie_1)
{
    struct arrival *arrival = new_arrival();

    arrival->length = 0;
    arrival->event.cookie_0 = cookie_0;
    arrival->event.cookie_1 = cookie_1;
}

void sim_borrow(unsigned index)
{
    put_ctl(&sim.peers[index], UCT_GLEX_MP_CTL, 0, UCT_GLEX_CTL_ER_REQUEST);
}

/* The FIFO is memory of this process */
bool sim_store(unsigned index)
{
    struct sim_peer *peer = &sim.peers[index];
    uct_glex_er_rx_t *fifo;
    uct_glex_slot_t *slots;

    if (peer->fifo == 0) {
        return false;
    }
    fifo = &sim.iface->er_rx[peer->fifo - 1];
    slots = (uct_glex_slot_t *)(fifo->ctrl + 1);
    slots[peer->stored % UCT_GLEX_FIFO_SLOTS].word =
        UCT_GLEX_SLOT_VALID | (uint16_t)(peer->stored + 1) | (sizeof(uint64_t) << 16) |
        ((uint64_t)peer->seq << 32) | ((uint64_t)SIM_AM_ID << 48);
    peer->stored++;
    peer->seq++;
    if (fifo->ctrl->armed) {
        fifo->ctrl->armed = 0;
        put_event(0, ((uint64_t)peer->vc_id << 16) | UCT_GLEX_EVENT_RING);
    }
    return true;
}

bool sim_send(unsigned index)
{
    return send_from(&sim.peers[index]);
}

/* ---- messages to peers ----------------------------------------------------------------------- */

static void peer_opens(struct sim_peer *peer, const struct message *msg)
{
    peer->vc_id = msg->ctl.vc_id;
    if (peer->state != SIM_OPEN) {
        peer->state = SIM_OPEN;
        sim.open++;
    }
}

/* A peer's answer to a request for a FIFO */
static unsigned lend(struct sim_peer *peer)
{
    if (peer->has_lent || peer - sim.peers >= sim.lenders) {
        return UCT_GLEX_CTL_ER_NACK;
    }
    peer->has_lent = 1;
    sim.lent++;
    return UCT_GLEX_CTL_ER_GRANT;
}

/* Handles the interface's messages about FIFOs that the peer borrows. Returns the peer's answer. */
static unsigned peer_gets_fifo(struct sim_peer *peer, const uct_glex_ctl_t *ctl)
{
    if (ctl->flags & UCT_GLEX_CTL_ER_NACK) {
        sim.refused++;
    }
    if (ctl->flags & UCT_GLEX_CTL_ER_GRANT) {
        peer->fifo = ctl->fifo_index + 1;
        sim.borrowed++;
    }
    if (!(ctl->flags & UCT_GLEX_CTL_ER_REVOKE) || peer->fifo != ctl->revoked_index + 1u) {
        return 0;
    }
    peer->released_index = ctl->revoked_index;
    peer->released_gen = ctl->revoked_gen;
    peer->fifo = 0;
    sim.released++;
    return UCT_GLEX_CTL_ER_RELEASED;
}

static void peer_gets_ctl(struct sim_peer *peer, const uct_glex_ctl_t *ctl)
{
    unsigned answer = peer_gets_fifo(peer, ctl);

    if (ctl->flags & UCT_GLEX_CTL_ER_REQUEST) {
        answer |= lend(peer);
    }
    if (answer != 0) {
        put_ctl(peer, UCT_GLEX_MP_CTL, UCT_GLEX_FLAG_ACK, answer);
    } else {
        uct_glex_hdr_t hdr;

        fill(peer, &hdr, UCT_GLEX_MP_ACK, UCT_GLEX_FLAG_ACK);
        put(peer, &hdr, sizeof(hdr));
    }
}

static void peer_gets_message(struct sim_peer *peer)
{
    uct_glex_hdr_t hdr;

    peer->received++;
    sim.messages++;
    if ((!sim.echo || !send_from(peer)) && peer->received % (WINDOW / 2) == 0) {
        fill(peer, &hdr, UCT_GLEX_MP_ACK, 0); /* returns credits */
        put(peer, &hdr, sizeof(hdr));
    }
}

static void peer_takes(struct sim_peer *peer, const struct message *msg)
{
    unsigned type = uct_glex_hdr_type(msg->hdr.word);

    if (peer->is_dead) {
        return;
    }
    if (type == UCT_GLEX_MP_CONNECT || type == UCT_GLEX_MP_ACCEPT) {
        peer->limit = peer->sent;
    }
    if ((int16_t)(msg->hdr.credits.mp_limit - peer->limit) > 0) {
        peer->limit = msg->hdr.credits.mp_limit;
    }
    switch (type) {
    case UCT_GLEX_MP_CONNECT:
        if (peer->state == SIM_CONNECTING) { /* both connect, so neither sends ACCEPT */
            peer_opens(peer, msg);
            break;
        }
        peer_opens(peer, msg);
        put_ctl(peer, UCT_GLEX_MP_ACCEPT, 0,
                msg->ctl.flags & UCT_GLEX_CTL_ER_REQUEST ? lend(peer) : 0);
        break;
    case UCT_GLEX_MP_ACCEPT:
        peer_opens(peer, msg);
        peer_gets_ctl(peer, &msg->ctl);
        break;
    case UCT_GLEX_MP_CTL:
        peer_gets_ctl(peer, &msg->ctl);
        break;
    case UCT_GLEX_MP_AM:
        peer_gets_message(peer);
        break;
    case UCT_GLEX_MP_END:
        peer->state = SIM_OVER;
        put_end(peer);
        break;
    case UCT_GLEX_MP_ACK:
        break;
    default:
        fail("a simulated peer cannot handle messages of type %u", type);
    }
}

void sim_take(unsigned first)
{
    struct fifo *fifo;
    uint16_t before;

    for (fifo = nic.fifos + first; fifo < nic.fifos + sim.lenders; fifo++) {
        before = fifo->taken;
        while (uct_glex_slot_is_new(fifo->slots[fifo->taken % UCT_GLEX_FIFO_SLOTS].word,
                                    fifo->taken)) {
            fifo->taken++;
        }
        sim.messages += (uint16_t)(fifo->taken - before);
        fifo->ctrl.credits = (uint32_t)fifo->taken << 16; /* short messages take no units */
    }
}

/* ---- the NIC --------------------------------------------------------------------------------- */

static glex_ret_t send_imm_mp(glex_ep_handle_t ep, glex_imm_mp_req_t *req,
                              glex_imm_mp_req_t **bad_req)
{
    struct sim_peer *peer = find(req->rmt_ep_addr);
    struct message msg;

    if (peer == NULL) {
        return nic.send_imm_mp(ep, req, bad_req);
    }
    memset(&msg, 0, sizeof(msg));
    memcpy(&msg, req->data, req->len < sizeof(msg) ? req->len : sizeof(msg));
    peer_takes(peer, &msg);
    return GLEX_SUCCESS;
}

/* A Get of a message that a peer announced, or an empty Get that returns the unit */
static glex_ret_t rdma(glex_ep_handle_t ep, glex_rdma_req_t *req, glex_rdma_req_t **bad_req)
{
    if (find(req->rmt_ep_addr) == NULL) {
        return nic.rdma(ep, req, bad_req);
    }
    if (sim.is_full) {
        return GLEX_BUSY;
    }
    sim.returned += (req->flag & GLEX_FLAG_REMOTE_EVT) != 0;
    if (req->flag & GLEX_FLAG_LOCAL_EVT) {
        put_event(req->local_evt.cookie_0, req->local_evt.cookie_1);
    }
    return GLEX_SUCCESS;
}

glex_ret_t glex_ext_post_mp(glex_ep_handle_t ep, glex_ep_addr_t addr, uint64_t word_0,
                            uint64_t word_1, uint64_t head, const void *data, uint32_t len)
{
    struct sim_peer *peer = find(addr);
    struct message msg;

    if (peer == NULL) {
        return REAL(glex_ext_post_mp)(ep, addr, word_0, word_1, head, data, len);
    }
    msg.hdr.word = word_0;
    msg.hdr.credits.word = word_1;
    peer_takes(peer, &msg);
    return GLEX_SUCCESS;
}

glex_ret_t glex_ext_poll(glex_ep_handle_t ep, struct glex_ext_arrival *arrival)
{
    static __typeof__(&glex_ext_poll) real;
    struct arrival *next;

    if (nic.head == nic.tail) {
        real = real != NULL ? real : REAL(glex_ext_poll);
        return real(ep, arrival);
    }
    next = &nic.ring[nic.head++ % nic.size];
    arrival->event = next->length == 0 ? &next->event : NULL;
    arrival->data = next->data;
    arrival->len = next->length;
    arrival->src.v = sim_peer_addr(next->index);
    return GLEX_SUCCESS;
}

glex_ret_t glex_ext_check_peer(glex_ep_handle_t ep, glex_ep_addr_t addr, uint64_t uuid,
                               uint64_t epoch)
{
    struct sim_peer *peer = find(addr);

    if (peer == NULL) {
        return REAL(glex_ext_check_peer)(ep, addr, uuid, epoch);
    }
    sim.checks++;
    return peer->is_dead ? GLEX_NO_EP_RESOURCE : GLEX_SUCCESS;
}

glex_ret_t glex_ext_peer_ptr(glex_ep_handle_t ep, glex_ep_addr_t addr, glex_mem_handle_t mh,
                             uint32_t key, uint64_t offset, uint64_t len, void **ptr_p,
                             struct glex_ext_pin **pin_p)
{
    struct sim_peer *peer = find(addr);

    if (peer == NULL) {
        return REAL(glex_ext_peer_ptr)(ep, addr, mh, key, offset, len, ptr_p, pin_p);
    }
    if (pin_p != NULL) {
        *pin_p = NULL;
    }
    if (mh.v == UNIT) {
        *ptr_p = nic.unit;
        return sim.is_mapped ? GLEX_SUCCESS : GLEX_NOT_IMPLEMENTED;
    }
    if (!peer->has_lent || offset != 0 || len > offsetof(struct fifo, taken)) {
        fail("the FIFO of a simulated peer is not what it has lent");
    }
    *ptr_p = &nic.fifos[peer - sim.peers];
    return GLEX_SUCCESS;
}

glex_ep_addr_t glex_ext_peer_hint(glex_ep_handle_t ep, glex_ep_addr_t addr)
{
    return find(addr) != NULL ? addr : REAL(glex_ext_peer_hint)(ep, addr);
}

/* ---- beginning ------------------------------------------------------------------------------- */

void sim_begin(struct node *node, unsigned count, unsigned lenders)
{
    sim.iface = (uct_glex_iface_t *)node->iface;
    sim.count = count;
    sim.peers = calloc(count, sizeof(*sim.peers));
    nic.size = 4 * (size_t)count + 1024;
    nic.ring = calloc(nic.size, sizeof(*nic.ring));
    sim.lenders = lenders;
    nic.fifos = aligned_alloc(UCT_GLEX_ER_ALIGN, lenders * sizeof(*nic.fifos));
    if (sim.peers == NULL || nic.ring == NULL || nic.fifos == NULL) {
        fail("no memory for %u simulated peers", count);
    }
    memset(nic.fifos, 0, lenders * sizeof(*nic.fifos));
    nic.send_imm_mp = sim.iface->nic->send_imm_mp;
    sim.iface->nic->send_imm_mp = send_imm_mp;
    nic.rdma = sim.iface->nic->rdma;
    sim.iface->nic->rdma = rdma;
}

void sim_address(const struct node *node, unsigned index, struct node_address *address)
{
    uct_glex_iface_addr_t *iface = (uct_glex_iface_addr_t *)address->iface;

    *address = node->address;
    iface->ep_addr = sim_peer_addr(index);
    iface->uuid = index + 1;
}

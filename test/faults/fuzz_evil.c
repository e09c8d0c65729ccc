/*
 * The evil peer of fuzz_uct: changes the transport's requests on their way to the NIC, and adds
 * other attacks.
 */
#include "fuzz_uct.h"

#include "core/glex_ep.h"
#include "chan/glex_er.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static uct_mem_h evil_memh;
static char *evil_memory;

/* ---- on the way to the NIC ------------------------------------------------------------------- */

static struct glex_ep genuine; /* the functions of the evil peer's endpoint */

static bool to_victim(glex_ep_addr_t addr)
{
    addr.resv = 0; /* a hint of the NIC's */
    return input != NULL && addr.v == glex_of(&victim)->ep_addr && fuzz_below(input, 3) == 0;
}

static glex_ret_t evil_mp(struct glex_ep *ep, glex_imm_mp_req_t *list, glex_imm_mp_req_t **bad)
{
    char data[UCT_GLEX_MP_LEN] = {0};
    glex_imm_mp_req_t req = *list;

    if (!to_victim(req.rmt_ep_addr) || req.len > sizeof(data)) {
        return genuine.send_imm_mp(ep, list, bad);
    }
    memcpy(data, req.data, req.len);
    fuzz_counts[MUTATIONS].value += fuzz_mutate(input, data, req.len);
    req.data = data;
    req.next = NULL;
    if (fuzz_below(input, 8) == 0) {
        req.len = fuzz_below(input, sizeof(data) + 1);
        fuzz_counts[MUTATIONS].value++;
    }
    return genuine.send_imm_mp(ep, &req, bad != NULL ? bad : NULL);
}

/*
 * A process that may write to a queue can impersonate peers there. This test only attacks its own
 * connection.
 */
static bool names_friend(const glex_event_t *event)
{
    const uct_glex_iface_t *iface = glex_of(&victim);
    unsigned type = uct_glex_hdr_type(event->cookie_1);
    const uct_glex_vc_t *vc = uct_glex_vc_by_id(iface, uct_glex_hdr_vc_id(event->cookie_1));

    return (type == UCT_GLEX_EVENT_ER || type == UCT_GLEX_EVENT_RING) && vc != NULL &&
           vc->peer == glex_of(&friendly)->ep_addr;
}

static void change_event(glex_event_t *event)
{
    glex_event_t changed = *event;

    fuzz_counts[MUTATIONS].value += fuzz_mutate(input, (void *)&changed, sizeof(changed));
    changed.cookie_1 |= (changed.cookie_1 == 0);
    if (!names_friend(&changed)) {
        *event = changed;
    }
}

static glex_ret_t evil_put(struct glex_ep *ep, glex_imm_rdma_req_t *list, glex_imm_rdma_req_t **bad)
{
    glex_imm_rdma_req_t req = *list;

    if (!to_victim(req.rmt_ep_addr)) {
        return genuine.imm_rdma(ep, list, bad);
    }
    if (req.flag & GLEX_FLAG_REMOTE_EVT) {
        change_event(&req.rmt_evt);
    }
    if (fuzz_below(input, 8) == 0) {
        req.rmt_offset = (uint32_t)fuzz_value(input);
        fuzz_counts[MUTATIONS].value++;
    }
    req.next = NULL;
    return genuine.imm_rdma(ep, &req, bad);
}

static glex_ret_t evil_rdma(struct glex_ep *ep, glex_rdma_req_t *list, glex_rdma_req_t **bad)
{
    glex_rdma_req_t req = *list;

    if (!to_victim(req.rmt_ep_addr) || !(req.flag & GLEX_FLAG_REMOTE_EVT)) {
        return genuine.rdma(ep, list, bad);
    }
    change_event(&req.rmt_evt);
    req.next = NULL;
    return genuine.rdma(ep, &req, bad);
}

/*
 * Short messages do not use the endpoint's functions. The following functions replace the library's
 * functions: by the order of symbol lookup or, in a single static program, by the linker's --wrap.
 */
typedef glex_ret_t (*event_fn)(glex_ep_handle_t ep, glex_ep_addr_t peer, uint64_t cookie_0,
                               uint64_t cookie_1);
typedef glex_ret_t (*post_fn)(glex_ep_handle_t ep, glex_ep_addr_t peer, uint64_t word_0,
                              uint64_t word_1, uint64_t head, const void *data, uint32_t len);

#ifdef FUZZ_WRAP
#define INTERPOSED(name)    __wrap_##name
#define GENUINE(type, name) __real_##name
glex_ret_t __real_glex_ext_post_event(glex_ep_handle_t ep, glex_ep_addr_t peer, uint64_t cookie_0,
                                      uint64_t cookie_1);
glex_ret_t __real_glex_ext_post_mp(glex_ep_handle_t ep, glex_ep_addr_t peer, uint64_t word_0,
                                   uint64_t word_1, uint64_t head, const void *data, uint32_t len);
#else
#define INTERPOSED(name)    __attribute__((visibility("default"))) name
#define GENUINE(type, name) ((type)find_genuine(#name))

static void *find_genuine(const char *name)
{
    void *function = dlsym(RTLD_NEXT, name);

    if (function == NULL) {
        fuzz_fail("%s: %s", name, dlerror());
    }
    return function;
}
#endif

static bool is_evil(glex_ep_handle_t ep, glex_ep_addr_t peer)
{
    return evil_memory != NULL && ep == glex_of(&evil)->nic && to_victim(peer);
}

/* Posts a changed message: head and data, and sometimes a changed length. */
static glex_ret_t post_changed(post_fn genuine_post, glex_ep_handle_t ep, glex_ep_addr_t peer,
                               const uint64_t words[2], uint64_t head, const void *data,
                               uint32_t len)
{
    char changed[sizeof(head) + UCT_GLEX_IMM_PUT_LEN] = {0};

    memcpy(changed, &head, sizeof(head));
    if (len != 0) {
        memcpy(changed + sizeof(head), data, len);
    }
    fuzz_counts[MUTATIONS].value += fuzz_mutate(input, changed, sizeof(head) + len);
    if (fuzz_below(input, 8) == 0) {
        len = fuzz_below(input, UCT_GLEX_MP_DATA_LEN - sizeof(head) + 1);
        fuzz_counts[MUTATIONS].value++;
    }
    memcpy(&head, changed, sizeof(head));
    return genuine_post(ep, peer, words[0], words[1], head, changed + sizeof(head), len);
}

glex_ret_t INTERPOSED(glex_ext_post_event)(glex_ep_handle_t ep, glex_ep_addr_t peer,
                                           uint64_t cookie_0, uint64_t cookie_1)
{
    static event_fn genuine_post;
    glex_event_t event = {.cookie_0 = cookie_0, .cookie_1 = cookie_1};

    genuine_post = genuine_post != NULL ? genuine_post : GENUINE(event_fn, glex_ext_post_event);
    if (!is_evil(ep, peer)) {
        return genuine_post(ep, peer, cookie_0, cookie_1);
    }
    change_event(&event);
    fuzz_counts[SHORT_EVENTS].value += event.cookie_1 != cookie_1 || event.cookie_0 != cookie_0;
    return genuine_post(ep, peer, event.cookie_0, event.cookie_1);
}

glex_ret_t INTERPOSED(glex_ext_post_mp)(glex_ep_handle_t ep, glex_ep_addr_t peer, uint64_t word_0,
                                        uint64_t word_1, uint64_t head, const void *data,
                                        uint32_t len)
{
    static post_fn genuine_post;
    uint64_t words[2] = {word_0, word_1};

    genuine_post = genuine_post != NULL ? genuine_post : GENUINE(post_fn, glex_ext_post_mp);
    if (is_evil(ep, peer)) {
        fuzz_counts[MUTATIONS].value += fuzz_mutate(input, words, sizeof(words));
        fuzz_counts[SHORT_MPS].value += words[0] != word_0 || words[1] != word_1;
        return post_changed(genuine_post, ep, peer, words, head, data, len);
    }
    return genuine_post(ep, peer, word_0, word_1, head, data, len);
}

static void open_memory(void)
{
    evil_memory =
        mmap(NULL, 16 * MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (evil_memory == MAP_FAILED || uct_md_mem_reg(evil.md, evil_memory, 16 * MEMORY,
                                                    UCT_MD_MEM_ACCESS_ALL, &evil_memh) != UCS_OK) {
        fuzz_fail("memory of the evil peer cannot be registered");
    }
}

void evil_begin(void)
{
    struct glex_ep *nic = (struct glex_ep *)glex_of(&evil)->nic;

    open_memory();
    genuine = *nic;
    nic->send_imm_mp = evil_mp;
    nic->imm_rdma = evil_put;
    nic->rdma = evil_rdma;
}

/* ---- the attacks ----------------------------------------------------------------------------- */

static size_t pack_noise(void *dest, void *arg)
{
    size_t length = *(size_t *)arg;

    memset(dest, 0x77, length);
    return length;
}

static void unpack(void *arg, const void *data, size_t length)
{
    memcpy(arg, data, length);
}

void evil_send_genuine(void)
{
    uct_iov_t iov = {.buffer = evil_memory, .memh = evil_memh, .count = 1};
    char data[UCT_GLEX_MP_DATA_LEN] = {0};
    size_t length;

    switch (fuzz_below(input, 3)) {
    case 0:
        uct_ep_am_short(evil_ep, AM_EVIL, 0, data, fuzz_below(input, sizeof(data) - 7));
        break;
    case 1:
        length = fuzz_below(input, 1000);
        uct_ep_am_bcopy(evil_ep, AM_EVIL, pack_noise, &length, 0);
        break;
    default:
        iov.length = fuzz_below(input, 16 * MEMORY);
        if (evil.attr.cap.flags & UCT_IFACE_FLAG_AM_ZCOPY) {
            uct_ep_am_zcopy(evil_ep, AM_EVIL, data, fuzz_below(input, 32), &iov, 1, 0, NULL);
        }
        break;
    }
}

void evil_send_forged(void)
{
    const uct_glex_vc_t *vc = ((uct_glex_ep_t *)evil_ep)->vc;
    char data[UCT_GLEX_MP_LEN] __attribute__((aligned(8)));
    uct_glex_hdr_t *hdr = (uct_glex_hdr_t *)data;
    uct_glex_ctl_t *ctl = (uct_glex_ctl_t *)(hdr + 1);
    glex_imm_mp_req_t req = {.rmt_ep_addr = {.v = glex_of(&victim)->ep_addr}, .data = data};
    size_t i;
    unsigned am_id;

    for (i = 0; i < sizeof(data); i += 8) {
        memcpy(data + i, &(uint64_t){fuzz_value(input)}, 8);
    }
    am_id = fuzz_below(input, 4) ? AM_EVIL : hdr->type_am >> 3;
    hdr->type_am = (uint8_t)uct_glex_hdr_type_am(fuzz_below(input, 8), am_id);
    hdr->vc_id = fuzz_below(input, 8) ? vc->tx.vc_id : hdr->vc_id;
    hdr->seq = fuzz_below(input, 2) ? vc->tx.seq : hdr->seq;
    ctl->version = fuzz_below(input, 8) ? UCT_GLEX_WIRE_VERSION : ctl->version;
    ctl->uuid = fuzz_below(input, 4) ? glex_of(&victim)->uuid : ctl->uuid;
    ctl->src_uuid = fuzz_below(input, 4) ? glex_of(&evil)->uuid : ctl->src_uuid;
    ctl->flags = fuzz_below(input, 2) ? 1u << fuzz_below(input, 9) : ctl->flags;
    req.len = fuzz_below(input, 2) ? sizeof(data) : fuzz_below(input, sizeof(data) + 1);
    genuine.send_imm_mp((struct glex_ep *)glex_of(&evil)->nic, &req, NULL);
    fuzz_counts[MUTATIONS].value++;
}

void evil_scribble(void)
{
    const uct_glex_vc_t *vc = ((uct_glex_ep_t *)evil_ep)->vc;

    if (vc->er_tx != NULL && vc->er_tx->slots != NULL) {
        fuzz_counts[MUTATIONS].value +=
            fuzz_mutate(input, vc->er_tx->base + fuzz_below(input, 16) * 64, 256);
        vc->er_tx->ctrl->wanted = (uint32_t)fuzz_value(input);
        vc->er_tx->ctrl->armed = (uint32_t)fuzz_value(input);
    }
}

/* A slot with any content, often accepted as the next message */
void evil_slot(void)
{
    const uct_glex_vc_t *vc = ((uct_glex_ep_t *)evil_ep)->vc;
    unsigned ahead = fuzz_below(input, 3), i;
    uint64_t word = fuzz_value(input);
    uct_glex_slot_t *slot;

    if (vc->er_tx == NULL || vc->er_tx->slots == NULL) {
        return;
    }
    slot = &vc->er_tx->slots[(vc->tx_fifo.msgs + ahead) % UCT_GLEX_FIFO_SLOTS];
    for (i = 0; i < sizeof(slot->data); i += 8) {
        memcpy(slot->data + i, &(uint64_t){fuzz_value(input)}, 8);
    }
    if (fuzz_below(input, 4)) {
        word = (word & ~(uint64_t)UINT16_MAX) | UCT_GLEX_SLOT_VALID |
               (uint16_t)(vc->tx_fifo.msgs + ahead + 1);
    }
    if (fuzz_below(input, 2)) {
        word = (word & ~((uint64_t)UINT16_MAX << 32)) |
               ((uint64_t)(uint16_t)(vc->tx.seq + ahead) << 32);
    }
    if (fuzz_below(input, 2)) {
        word = (word & ~((uint64_t)UINT8_MAX << 48)) | ((uint64_t)AM_EVIL << 48);
    }
    __atomic_store_n(&slot->word, word, __ATOMIC_RELEASE);
    fuzz_counts[SLOTS].value++;
}

void evil_show(void)
{
    const uct_glex_iface_t *iface = glex_of(&evil);
    unsigned i;

    for (i = 0; i < iface->er.max; i++) {
        if (iface->er_rx[i].vc != NULL && iface->er_rx[i].ctrl != NULL) {
            iface->er_rx[i].ctrl->credits = (uint32_t)fuzz_value(input);
            fuzz_counts[SHOWN].value++;
        }
    }
}

void evil_use_key(void)
{
    char packed[sizeof(rkey)], data[64] = {CANARY};
    uct_component_h component = glex_of(&evil)->md->super.component;
    uct_rkey_bundle_t bundle;
    size_t length = 64;
    uint64_t address;
    void *pointer;

    memcpy(packed, rkey, sizeof(packed));
    fuzz_counts[MUTATIONS].value += fuzz_mutate(input, packed, sizeof(uct_glex_packed_rkey_t));
    if (uct_rkey_unpack(component, packed, &bundle) != UCS_OK) {
        return;
    }
    address = fuzz_below(input, 2) ? (uintptr_t)page + fuzz_below(input, 2 * MEMORY) :
                                     (uintptr_t)page + fuzz_value(input);
    switch (fuzz_below(input, 4)) {
    case 0:
        uct_ep_put_short(evil_ep, data, sizeof(data), address, bundle.rkey);
        break;
    case 1:
        uct_ep_put_bcopy(evil_ep, pack_noise, &length, address, bundle.rkey);
        break;
    case 2:
        uct_ep_get_bcopy(evil_ep, unpack, data, 64, address, bundle.rkey, NULL);
        progress(1);
        break;
    default:
        uct_rkey_ptr(component, &bundle, address, &pointer);
        break;
    }
    uct_rkey_release(component, &bundle);
    fuzz_counts[KEYS].value++;
}

void evil_use_address(void)
{
    struct node_address address = victim.address;
    uct_ep_h ep;

    fuzz_mutate(input, address.device, victim.attr.device_addr_len);
    fuzz_mutate(input, address.iface, victim.attr.iface_addr_len);
    fuzz_counts[ADDRESSES].value++;
    if (!uct_iface_is_reachable(evil.iface, (uct_device_addr_t *)address.device,
                                (uct_iface_addr_t *)address.iface)) {
        return;
    }
    ep = node_connect(&evil, &address);
    uct_ep_am_short(ep, AM_EVIL, 0, NULL, 0);
    progress(300);
    uct_ep_destroy(ep);
}

void evil_use_setting(void)
{
    static const char *const names[] = {"CHANNELS",      "SRQ_CAPACITY",     "SRQ_UNIT_SIZE",
                                        "ER_THRESH",     "ER_MAX_CHANNELS",  "ER_MAX_MEM",
                                        "ERQ_UNIT_SIZE", "ERQ_SIZE",         "ERQ_SPACING",
                                        "RMA_BUF_SIZE",  "RMA_REQ_CAPACITY", "ZC_REQ_CAPACITY",
                                        "ZC_MAX_SIZE",   "SR_CREDIT_START",  "SR_CREDIT_INC",
                                        "SR_CREDIT_MAX", "EP_MPQ_POOL_UNITS"};
    static const char *const texts[] = {
        "",           "0",     "1",     "-1", "inf",
        "auto",       "er",    "sr,er", "1k", "18446744073709551615",
        "4294967296", "65536", "64",    "%n"};
    uct_iface_params_t params = {.field_mask =
                                     UCT_IFACE_PARAM_FIELD_OPEN_MODE | UCT_IFACE_PARAM_FIELD_DEVICE,
                                 .open_mode = UCT_IFACE_OPEN_MODE_DEVICE,
                                 .mode.device = {.tl_name = UCT_GLEX_NAME, .dev_name = "gni0"}};
    uct_iface_config_t *config;
    uct_iface_h iface;
    char text[32];
    unsigned i;

    if (uct_md_iface_config_read(evil.md, UCT_GLEX_NAME, NULL, NULL, &config) != UCS_OK) {
        fuzz_fail("the configuration cannot be read");
    }
    for (i = fuzz_below(input, 3) + 1; i > 0; i--) {
        snprintf(text, sizeof(text), "%s", texts[fuzz_below(input, 14)]);
        if (fuzz_below(input, 2)) {
            fuzz_mutate(input, text, sizeof(text) - 1);
        }
        (void)uct_config_modify(config, names[fuzz_below(input, 14)], text);
    }
    if (uct_iface_open(evil.md, evil.worker, &params, config, &iface) == UCS_OK) {
        uct_iface_close(iface);
    }
    uct_config_release(config);
    fuzz_counts[SETTINGS].value++;
}

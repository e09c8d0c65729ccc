/*
 * A peer of the transport that breaks the protocol. It is a genuine one, whose messages, events and
 * RDMA requests are changed on their way to the NIC, so that they reach every state; it also makes
 * up messages, uses changed keys, and connects to addresses that nobody has. Its victim does not
 * crash, fails at most the connection to that peer, has all its credits afterwards, and goes on
 * with a friend whose every byte is checked.
 */
#include "fuzz.h"

#include "node.h"

#include "glex_ep.h"
#include "glex_er.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define AM_EVIL     1
#define AM_FRIEND   2
#define FRIEND_TAG  0x667269656e647321ull
#define MEMORY      4096 /* of the victim's: one page, between two that are nobody's business */
#define CANARY      0x5a
#define PATIENCE    2000000 /* progress calls until something never comes */
#define RUN_SECONDS 60

enum { MUTATIONS, SESSIONS, DELIVERED, FAILED, FRIENDLY, KEYS, ADDRESSES, SETTINGS };
struct fuzz_count fuzz_counts[] = {
    {"mutations", 0},          {"connections of the evil peer", 0},
    {"messages delivered", 0}, {"endpoints that failed", 0},
    {"messages of the friend", 0}, {"changed keys used", 0},
    {"changed addresses tried", 0}, {"settings tried", 0},
    {NULL, 0},
};

static struct node victim, evil, friendly;
static uct_ep_h evil_ep, friend_ep, victim_ep;
static struct fuzz_input *input; /* of this run; NULL between runs: nothing is changed */
static uint64_t friend_sent, friend_received;
static char *page;     /* the victim's, registered; a page before and one behind it are not */
static char rkey[64];  /* its packed key */
static uct_mem_h victim_memh, evil_memh;
static char *evil_memory;
static int evil_failed;
static int mpq_capacity;

static uct_glex_iface_t *glex_of(const struct node *node)
{
    return ucs_derived_of(node->iface, uct_glex_iface_t);
}

/* ---- on the way to the NIC ------------------------------------------------------------------- */

static struct glex_ep genuine; /* the functions of the evil peer's endpoint */

static bool to_victim(glex_ep_addr_t addr)
{
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

/* Who may write to a queue can speak for others there; here only the own connection is at stake. */
static bool names_friend(const glex_event_t *event)
{
    const uct_glex_iface_t *iface = glex_of(&victim);
    unsigned index = (event->cookie_1 >> 8) & 0xffff;
    const uct_glex_vc_t *vc = index < iface->er_rx_count ? iface->er_rx[index].vc : NULL;

    return (event->cookie_1 & UCT_GLEX_EVENT_TYPE_MASK) == UCT_GLEX_EVENT_ER && vc != NULL &&
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

static glex_ret_t evil_put(struct glex_ep *ep, glex_imm_rdma_req_t *list,
                           glex_imm_rdma_req_t **bad)
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

/* ---- those who take part --------------------------------------------------------------------- */

static ucs_status_t on_error(void *arg, uct_ep_h ep, ucs_status_t status)
{
    if (arg == &friendly || ep == friend_ep) {
        fuzz_fail("the friend's connection failed: %s", ucs_status_string(status));
    }
    fuzz_counts[FAILED].value++;
    evil_failed |= arg == &evil;
    return UCS_OK;
}

static ucs_status_t on_evil(void *arg, void *data, size_t length, unsigned flags)
{
    const volatile char *bytes = data;
    size_t i;

    (void)arg;
    (void)flags;
    for (i = 0; i < length; i++) {
        (void)bytes[i]; /* a sanitizer sees whether it may be read */
    }
    fuzz_counts[DELIVERED].value++;
    return UCS_OK;
}

/* The evil peer may name the friend's handler: only what has the tag and is next counts. */
static ucs_status_t on_friend(void *arg, void *data, size_t length, unsigned flags)
{
    uint64_t words[2];

    (void)arg;
    (void)flags;
    on_evil(arg, data, length, flags);
    if (length != sizeof(words)) {
        return UCS_OK;
    }
    memcpy(words, data, sizeof(words));
    if (words[0] == FRIEND_TAG) {
        if (words[1] != friend_received) {
            fuzz_fail("message %llu of the friend came where %llu was to come",
                      (unsigned long long)words[1], (unsigned long long)friend_received);
        }
        friend_received++;
        fuzz_counts[FRIENDLY].value++;
    }
    return UCS_OK;
}

static void progress(unsigned calls)
{
    while (calls-- > 0) {
        uct_worker_progress(victim.worker);
        uct_worker_progress(evil.worker);
        uct_worker_progress(friendly.worker);
    }
}

static void friend_says(void)
{
    uint64_t number = friend_sent;
    ucs_status_t status;
    unsigned tries = 0;

    do {
        status = uct_ep_am_short(friend_ep, AM_FRIEND, FRIEND_TAG, &number, sizeof(number));
        progress(1);
    } while (status == UCS_ERR_NO_RESOURCE && ++tries < PATIENCE);
    if (status != UCS_OK) {
        fuzz_fail("the friend cannot send: %s", ucs_status_string(status));
    }
    friend_sent++;
}

static void friend_is_heard(void)
{
    unsigned tries = 0;

    while (friend_received < friend_sent && ++tries < PATIENCE) {
        progress(1);
    }
    if (friend_received < friend_sent) {
        fuzz_fail("message %llu of the friend never came", (unsigned long long)friend_received);
    }
}

static void open_memory(void)
{
    page = mmap(NULL, 3 * MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    evil_memory = mmap(NULL, 16 * MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                       0);
    if (page == MAP_FAILED || evil_memory == MAP_FAILED) {
        fuzz_fail("no memory");
    }
    memset(page, CANARY, 3 * MEMORY);
    page += MEMORY;
    if (uct_md_mem_reg(victim.md, page, MEMORY, UCT_MD_MEM_ACCESS_ALL, &victim_memh) !=
                UCS_OK ||
        uct_md_mkey_pack(victim.md, victim_memh, rkey) != UCS_OK ||
        uct_md_mem_reg(evil.md, evil_memory, 16 * MEMORY, UCT_MD_MEM_ACCESS_ALL, &evil_memh) !=
                UCS_OK) {
        fuzz_fail("memory cannot be registered");
    }
}

static void open_all(void)
{
    struct glex_ep *nic;

    node_open_with(&victim, on_error, &victim);
    node_open_with(&evil, on_error, &evil);
    node_open_with(&friendly, on_error, &friendly);
    mpq_capacity = glex_of(&victim)->mpq.free;
    node_handle(&victim, AM_EVIL, on_evil, NULL);
    node_handle(&victim, AM_FRIEND, on_friend, NULL);
    node_handle(&evil, AM_EVIL, on_evil, NULL);
    friend_ep = node_connect(&friendly, &victim.address);
    open_memory();
    nic = (struct glex_ep *)glex_of(&evil)->nic;
    genuine = *nic;
    nic->send_imm_mp = evil_mp;
    nic->imm_rdma = evil_put;
    nic->rdma = evil_rdma;
    friend_says();
    friend_is_heard();
}

/* UCX reads its variables before main(): start anew with those that keep it quiet. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    char fabric[32];

    (void)argc;
    if (getenv("FUZZ_UCT") == NULL) {
        snprintf(fabric, sizeof(fabric), "fuzz-uct-%d", (int)getpid());
        setenv("FUZZ_UCT", "1", 1);
        setenv("GLEX_FABRIC", fabric, 1);
        setenv("GLEX_LOG", "none", 1);
        setenv("UCX_LOG_LEVEL", "fatal", 1);
        setenv("UCX_HANDLE_ERRORS", "none", 1);
        setenv("UCX_MEM_EVENTS", "n", 1); /* hooks that a sanitizer has, too */
        setenv("UCX_GLEX_ERQ_SIZE", "4096", 0);
        setenv("UCX_GLEX_SRQ_CAPACITY", "8", 0);
        execv("/proc/self/exe", *argv);
        perror("cannot start anew");
        exit(2);
    }
    open_all();
    return 0;
}

/* ---- what the evil peer does ----------------------------------------------------------------- */

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

static void send_genuine(void)
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

/* A message that nobody has sent, with the names of the connection that there is */
static void send_forged(void)
{
    const uct_glex_vc_t *vc = ((uct_glex_ep_t *)evil_ep)->vc;
    char data[UCT_GLEX_MP_LEN];
    uct_glex_mp_hdr_t *hdr = (uct_glex_mp_hdr_t *)data;
    uct_glex_ctl_t *ctl = (uct_glex_ctl_t *)(hdr + 1);
    glex_imm_mp_req_t req = {.rmt_ep_addr = {.v = glex_of(&victim)->ep_addr}, .data = data};
    size_t i;

    for (i = 0; i < sizeof(data); i += 8) {
        memcpy(data + i, &(uint64_t){fuzz_value(input)}, 8);
    }
    hdr->type = (uint8_t)fuzz_below(input, 9);
    hdr->vc_id = fuzz_below(input, 8) ? vc->peer_id : hdr->vc_id;
    hdr->am_id = fuzz_below(input, 4) ? AM_EVIL : hdr->am_id;
    hdr->seq = fuzz_below(input, 2) ? vc->tx_seq : hdr->seq;
    ctl->version = fuzz_below(input, 8) ? UCT_GLEX_WIRE_VERSION : ctl->version;
    ctl->uuid = fuzz_below(input, 4) ? glex_of(&victim)->uuid : ctl->uuid;
    ctl->src_uuid = fuzz_below(input, 4) ? glex_of(&evil)->uuid : ctl->src_uuid;
    ctl->flags = fuzz_below(input, 2) ? 1u << fuzz_below(input, 9) : ctl->flags;
    req.len = fuzz_below(input, 2) ? sizeof(data) : fuzz_below(input, sizeof(data) + 1);
    genuine.send_imm_mp((struct glex_ep *)glex_of(&evil)->nic, &req, NULL);
    fuzz_counts[MUTATIONS].value++;
}

/* What lies in the FIFO that the victim has lent */
static void scribble(void)
{
    const uct_glex_vc_t *vc = ((uct_glex_ep_t *)evil_ep)->vc;

    if (vc->er_tx != NULL && vc->er_tx->remote != NULL) {
        fuzz_counts[MUTATIONS].value +=
                fuzz_mutate(input, vc->er_tx->remote + fuzz_below(input, 16) * 64, 256);
    }
}

static void use_key(void)
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
        uct_ep_get_bcopy(evil_ep, unpack, data, 64, address, bundle.rkey,
                         NULL);
        progress(1);
        break;
    default:
        uct_rkey_ptr(component, &bundle, address, &pointer);
        break;
    }
    uct_rkey_release(component, &bundle);
    fuzz_counts[KEYS].value++;
}

/* An address that was changed: mostly of an endpoint that never existed */
static void use_address(void)
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

/* A variable of the transport with any text for its value */
static void use_setting(void)
{
    static const char *const names[] = {
        "CHANNELS", "SRQ_CAPACITY", "SRQ_UNIT_SIZE", "ER_MAX_CHANNELS", "ER_MAX_MEM",
        "ERQ_UNIT_SIZE", "ERQ_SIZE", "RMA_BUF_SIZE", "RMA_REQ_CAPACITY", "ZC_REQ_CAPACITY",
        "SR_CREDIT_START", "SR_CREDIT_INC", "SR_CREDIT_MAX", "EP_MPQ_POOL_UNITS"};
    static const char *const texts[] = {"", "0", "1", "-1", "inf", "auto", "er", "sr,er", "1k",
                                        "18446744073709551615", "4294967296", "65536", "64", "%n"};
    uct_iface_params_t params = {.field_mask = UCT_IFACE_PARAM_FIELD_OPEN_MODE |
                                               UCT_IFACE_PARAM_FIELD_DEVICE,
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

/* ---- a run ----------------------------------------------------------------------------------- */

static void step(void)
{
    switch (fuzz_below(input, 16)) {
    case 0:
    case 1:
    case 2:
    case 3:
        send_genuine();
        break;
    case 4:
    case 5:
        send_forged();
        break;
    case 6:
        scribble();
        break;
    case 7:
        use_key();
        break;
    case 8:
        friend_says();
        break;
    case 9:
        uct_ep_am_short(victim_ep, AM_EVIL, 0, NULL, 0);
        break;
    case 10:
        uct_ep_flush(evil_ep, 0, NULL);
        break;
    default:
        progress(fuzz_below(input, 8));
        break;
    }
}

static void check_victim(void)
{
    const uct_glex_iface_t *iface = glex_of(&victim);
    int64_t sum = iface->mpq.free;
    unsigned i;

    for (i = 0; i < iface->num_vcs; i++) {
        if (iface->vcs[i]->mpq_held) {
            sum += iface->vcs[i]->mp_rx.window + UCT_GLEX_VC_CTL_UNITS;
        }
    }
    if (sum != mpq_capacity) {
        fuzz_fail("%lld entries of the message queue are there of %d", (long long)sum,
                  mpq_capacity);
    }
    for (i = 0; i < MEMORY; i++) {
        if (page[(int)i - MEMORY] != CANARY || page[MEMORY + i] != CANARY) {
            fuzz_fail("memory beside the registered page was written");
        }
    }
}

static void one_connection(void)
{
    unsigned steps;

    evil_failed = 0;
    evil_ep = node_connect(&evil, &victim.address);
    victim_ep = node_connect(&victim, &evil.address);
    for (steps = 0; steps < 200 && input->size > 0 && !evil_failed; steps++) {
        step();
    }
    progress(600); /* errors are looked at every 256 calls */
    uct_ep_destroy(evil_ep);
    uct_ep_destroy(victim_ep);
    fuzz_counts[SESSIONS].value++;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};

    alarm(RUN_SECONDS);
    input = &in;
    while (in.size > 0) {
        one_connection();
    }
    in = (struct fuzz_input){data, size}; /* these ask for little */
    use_address();
    if (data[0] % 8 == 0) {
        use_setting();
    }
    input = NULL;
    friend_is_heard();
    check_victim();
    return 0;
}

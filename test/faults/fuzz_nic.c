/*
 * A peer that writes random data into the writable parts of an endpoint's segment: header, producer
 * table, rings, registrations. The owner and other peers keep working. No process crashes, and the
 * owner writes only to memory that it has registered for data of events.
 */
#include "fuzz.h"

#include "core/endpoint.h"
#include "base/fabric.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define CAPACITY    64
#define KEY         7
#define MEMORY      4096 /* the owner's memory of the NIC ... */
#define OPEN_BEGIN  1024 /* ... of which so much is registered for data of events */
#define OPEN_LENGTH 512
#define CANARY      0x5a
#define FORGE       7 /* the kind of damage that is always there */
#define RUN_SECONDS 60

enum { MUTATIONS, MESSAGES, EVENTS, PLACED, POSTED, REFUSED, POLLED };
struct fuzz_count fuzz_counts[] = {
    {"mutations", 0},
    {"messages the owner got", 0},
    {"events the owner got", 0},
    {"data placed", 0},
    {"requests of others", 0},
    {"requests that failed", 0},
    {"arrivals polled", 0},
    {NULL, 0},
};

struct scene {
    struct fuzz_input input;
    glex_device_handle_t dev;
    glex_ep_handle_t owner, other;
    glex_ep_addr_t addr;
    glex_mem_handle_t open_mh, closed_mh, other_mh;
    char *memory, *secret, *other_memory;
    char *segment; /* as the malicious peer has it mapped */
    size_t size;
    bool with_table; /* registrations are damaged as well */
    unsigned kinds;  /* of damage in this run: the worst ones end all traffic */
};

static void check(glex_ret_t ret, const char *what)
{
    if (ret != GLEX_SUCCESS) {
        fuzz_fail("%s: %s", what, glex_error_str(ret));
    }
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    char fabric[32];

    (void)argc;
    (void)argv;
    snprintf(fabric, sizeof(fabric), "fuzz-nic-%d", (int)getpid());
    setenv("GLEX_FABRIC", fabric, 1);
    setenv("GLEX_LOG", "none", 1);
    /* A damaged table leads others to any private memory, here to that of this process. */
    setenv("GLEX_PRIVATE_RDMA", "n", 1);
    return 0;
}

/* ---- the scene ------------------------------------------------------------------------------- */

static glex_ep_handle_t create(struct scene *scene)
{
    struct glex_ep_attr attr = {.type = GLEX_EP_TYPE_NORMAL,
                                .num = GLEX_ANY_EP_NUM,
                                .key = KEY,
                                .mpq_capacity = CAPACITY,
                                .eq_capacity = CAPACITY,
                                .dq_capacity = CAPACITY};
    glex_ep_handle_t ep;

    check(glex_create_ep(scene->dev, &attr, &ep), "glex_create_ep");
    return ep;
}

static void map_segment(struct scene *scene)
{
    char path[512], name[GLEX_NAME_LEN];
    struct stat st;
    size_t length;
    int fd;

    glex_fabric_path(path, sizeof(path) - GLEX_NAME_LEN - 1);
    glex_fabric_name(glex_peer_addr(scene->addr), name);
    length = strlen(path);
    snprintf(path + length, sizeof(path) - length, "/%s", name);
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0) {
        fuzz_fail("%s: %s", path, strerror(errno));
    }
    scene->size = (size_t)st.st_size;
    scene->segment = mmap(NULL, scene->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (scene->segment == MAP_FAILED) {
        fuzz_fail("mmap: %s", strerror(errno));
    }
}

static void open_other(struct scene *scene)
{
    void *memory;

    scene->other = create(scene);
    check(glex_ext_mem_alloc(scene->other, MEMORY, &memory), "glex_ext_mem_alloc");
    scene->other_memory = memory;
    check(glex_register_mem(scene->other, memory, MEMORY, GLEX_MEM_READ | GLEX_MEM_WRITE,
                            &scene->other_mh),
          "glex_register_mem");
}

static void open_scene(struct scene *scene)
{
    void *memory;

    check(glex_open_device(0, &scene->dev), "glex_open_device");
    scene->owner = create(scene);
    check(glex_get_ep_addr(scene->owner, &scene->addr), "glex_get_ep_addr");
    check(glex_ext_mem_alloc(scene->owner, MEMORY, &memory), "glex_ext_mem_alloc");
    scene->memory = memory;
    scene->secret = malloc(MEMORY);
    memset(scene->memory, CANARY, MEMORY);
    memset(scene->secret, CANARY, MEMORY);
    check(glex_register_mem(scene->owner, scene->memory + OPEN_BEGIN, OPEN_LENGTH,
                            GLEX_MEM_READ | GLEX_MEM_WRITE | GLEX_EXT_MEM_EVENT_DATA,
                            &scene->open_mh),
          "glex_register_mem");
    check(glex_register_mem(scene->owner, scene->secret, MEMORY, GLEX_MEM_READ | GLEX_MEM_WRITE,
                            &scene->closed_mh),
          "glex_register_mem");
    open_other(scene);
    map_segment(scene);
}

static void check_canaries(const struct scene *scene)
{
    size_t i;

    for (i = 0; i < MEMORY; i++) {
        if (scene->secret[i] != CANARY) {
            fuzz_fail("byte %zu of private memory was written", i);
        }
        if (!scene->with_table && (i < OPEN_BEGIN || i >= OPEN_BEGIN + OPEN_LENGTH) &&
            scene->memory[i] != CANARY) {
            fuzz_fail("byte %zu of memory that was not registered was written", i);
        }
    }
}

static void close_scene(struct scene *scene)
{
    check_canaries(scene);
    munmap(scene->segment, scene->size);
    check(glex_destroy_ep(scene->other), "glex_destroy_ep");
    check(glex_destroy_ep(scene->owner), "glex_destroy_ep");
    check(glex_close_device(scene->dev), "glex_close_device");
    free(scene->secret);
}

/* ---- the malicious peer ---------------------------------------------------------------------- */

static void set_word(struct scene *scene, uint64_t offset, uint64_t value)
{
    /* another process would: the compiler is to know nothing of it */
    __atomic_store_n((uint64_t *)(scene->segment + offset), value, __ATOMIC_RELAXED);
}

/* A slot as a producer would fill it, about where the owner looks next, with any contents */
static void forge_slot(struct scene *scene)
{
    static const uint32_t lengths[] = {0, 8, 96, 97, 112, 113, 255, 5000, INT32_MAX, UINT32_MAX};
    struct fuzz_input *in = &scene->input;
    unsigned which = fuzz_below(in, 2), i;
    struct glex_endpoint *owner = glex_endpoint(scene->owner);
    const struct glex_ring_rx *rx = which == GLEX_RING_MPQ ? &owner->mpq : &owner->eq;
    uint64_t position = rx->cursor + fuzz_below(in, 4), offset;
    uint64_t handles[] = {scene->open_mh.v, scene->closed_mh.v, fuzz_value(in)};
    uint64_t place = (uint32_t)handles[fuzz_below(in, 3)] | fuzz_value(in) << 32;

    offset = (uint64_t)(rx->slots - (char *)owner->segment.hdr) +
             (position & rx->mask) * sizeof(struct glex_mp_slot);
    for (i = 1; i < 16; i++) {
        set_word(scene, offset + i * 8, fuzz_value(in));
    }
    if (which == GLEX_RING_EQ) {
        set_word(scene, offset + offsetof(struct glex_event_slot, event) + 8, 1);
        set_word(scene, offset + offsetof(struct glex_event_slot, place), place);
    }
    i = fuzz_below(in, sizeof(lengths) / sizeof(lengths[0]));
    set_word(scene, offset, GLEX_CTRL(position, lengths[i]));
}

static void damage(struct scene *scene)
{
    struct fuzz_input *in = &scene->input;
    uint64_t table = glex_mmt_off(CAPACITY, CAPACITY), eq = glex_eq_off(CAPACITY), i;

    unsigned kind = fuzz_below(in, 8);

    fuzz_counts[MUTATIONS].value++;
    switch (scene->kinds >> kind & 1 ? kind : FORGE) {
    case 0:
        set_word(scene, fuzz_below(in, (uint32_t)table / 8) * 8, fuzz_value(in));
        break;
    case 1:
        set_word(scene, fuzz_below(in, sizeof(struct glex_segment_header) / 8) * 8, fuzz_value(in));
        break;
    case 2: /* tail or head of a ring */
        set_word(scene, (fuzz_below(in, 2) ? eq : GLEX_MPQ_OFF) + fuzz_below(in, 2) * 128,
                 fuzz_value(in));
        break;
    case 3: /* ... moved a little */
        i = (fuzz_below(in, 2) ? eq : GLEX_MPQ_OFF) + fuzz_below(in, 2) * 128;
        set_word(scene, i, *(uint64_t *)(scene->segment + i) + fuzz_below(in, 128) - 64);
        break;
    case 4: /* the intent of the peer */
        set_word(scene, offsetof(struct glex_segment_header, intent) + fuzz_below(in, 2) * 8,
                 fuzz_value(in));
        break;
    case 5: /* a registration */
        if (scene->with_table) {
            set_word(scene, table + fuzz_below(in, 4 * 4) * 8, fuzz_value(in));
        }
        break;
    default: /* FORGE */
        forge_slot(scene);
        break;
    }
}

/* ---- the owner, and another peer ------------------------------------------------------------- */

static void touch(const volatile char *data, uint32_t length)
{
    uint32_t i;

    for (i = 0; i < length; i++) {
        (void)data[i]; /* a sanitizer sees whether it may be read */
    }
}

static void receive(struct scene *scene)
{
    glex_ep_addr_t src;
    uint32_t length, i;
    void *data;

    for (i = 0; i < 2 * CAPACITY; i++) {
        if (glex_probe_next_mp(scene->owner, &src, &data, &length) != GLEX_SUCCESS) {
            break;
        }
        if (length > GLEX_MP_DATA_LEN) {
            fuzz_fail("a message of %u bytes", length);
        }
        touch(data, length);
        fuzz_counts[MESSAGES].value++;
    }
    check(glex_discard_probed_mp(scene->owner), "glex_discard_probed_mp");
}

static void take_events(struct scene *scene)
{
    glex_event_t *event;
    uint32_t i;

    memset(scene->memory + OPEN_BEGIN, CANARY, OPEN_LENGTH);
    for (i = 0; i < 2 * CAPACITY; i++) {
        if (glex_probe_next_event(scene->owner, &event) != GLEX_SUCCESS) {
            break;
        }
        touch((char *)event, sizeof(*event));
        fuzz_counts[EVENTS].value++;
    }
    check(glex_discard_probed_event(scene->owner), "glex_discard_probed_event");
    for (i = 0; i < OPEN_LENGTH; i++) {
        if (scene->memory[OPEN_BEGIN + i] != CANARY) {
            fuzz_counts[PLACED].value++;
            break;
        }
    }
}

/* Both queues by one call; entries stay in use until the next of these functions. */
static void poll_all(struct scene *scene)
{
    struct glex_ext_arrival arrival;
    uint32_t i;

    for (i = 0; i < 4 * CAPACITY; i++) {
        if (glex_ext_poll(scene->owner, &arrival) != GLEX_SUCCESS) {
            break;
        }
        fuzz_counts[POLLED].value++;
        if (arrival.event != NULL) {
            continue;
        }
        if (arrival.len > GLEX_MP_DATA_LEN) {
            fuzz_fail("an arrival of %u bytes", arrival.len);
        }
        touch(arrival.data, arrival.len);
    }
}

static void use_memory(struct scene *scene)
{
    glex_mem_handle_t mh;
    void *memory;

    if (glex_ext_mem_alloc(scene->owner, 1 + fuzz_below(&scene->input, 20000), &memory) !=
        GLEX_SUCCESS) {
        return;
    }
    memset(memory, 1, 1);
    if (glex_register_mem(scene->owner, memory, 1, GLEX_MEM_READ, &mh) == GLEX_SUCCESS) {
        check(glex_deregister_mem(scene->owner, mh), "glex_deregister_mem");
    }
    check(glex_ext_mem_free(scene->owner, memory), "glex_ext_mem_free");
}

static void post_mp(struct scene *scene)
{
    char data[GLEX_MP_DATA_LEN] = {1};
    glex_imm_mp_req_t req = {.rmt_ep_addr = scene->addr,
                             .data = data,
                             .len = fuzz_below(&scene->input, GLEX_MP_DATA_LEN + 1)};

    (void)glex_send_imm_mp(scene->other, &req, NULL);
}

static void post_put(struct scene *scene)
{
    char data[GLEX_EVENT_DATA_LEN] = {1};
    glex_imm_rdma_req_t req = {.rmt_ep_addr = scene->addr,
                               .data = data,
                               .len = fuzz_below(&scene->input, GLEX_EVENT_DATA_LEN + 1),
                               .rmt_mh =
                                   fuzz_below(&scene->input, 8) ? scene->open_mh : scene->closed_mh,
                               .rmt_offset = fuzz_below(&scene->input, OPEN_LENGTH),
                               .rmt_evt = {.cookie_0 = 1, .cookie_1 = 1},
                               .rmt_key = fuzz_below(&scene->input, 16) ? KEY : KEY + 1,
                               .flag = fuzz_below(&scene->input, 4) ? GLEX_FLAG_REMOTE_EVT : 0};

    (void)glex_imm_rdma(scene->other, &req, NULL);
}

static void post_message(struct scene *scene)
{
    uint32_t len = fuzz_below(&scene->input, GLEX_EVENT_DATA_LEN);
    char data[GLEX_EVENT_DATA_LEN] = {1};

    if (fuzz_below(&scene->input, 2)) {
        (void)glex_ext_post_event(scene->other, scene->addr, 1, 1);
    } else {
        (void)glex_ext_post_mp(scene->other, scene->addr, 1, 1, 1, data, len);
    }
}

static void post_rdma(struct scene *scene)
{
    glex_rdma_req_t req = {.rmt_ep_addr = scene->addr,
                           .local_mh = scene->other_mh,
                           .len = fuzz_below(&scene->input, OPEN_LENGTH),
                           .rmt_mh = scene->open_mh,
                           .type = fuzz_below(&scene->input, 2) ? GLEX_RDMA_TYPE_GET :
                                                                  GLEX_RDMA_TYPE_PUT,
                           .local_evt = {.cookie_1 = 1},
                           .rmt_evt = {.cookie_1 = 1},
                           .rmt_key = KEY,
                           .flag = GLEX_FLAG_REMOTE_EVT};

    (void)glex_rdma(scene->other, &req, NULL);
}

static void post(struct scene *scene)
{
    struct glex_err_req errors[16];
    uint32_t num = 16;

    switch (fuzz_below(&scene->input, 4)) {
    case 0:
        post_mp(scene);
        break;
    case 1:
        post_put(scene);
        break;
    case 2:
        post_message(scene);
        break;
    default:
        post_rdma(scene);
        break;
    }
    fuzz_counts[POSTED].value++;
    check(glex_poll_error_req(scene->other, &num, errors), "glex_poll_error_req");
    fuzz_counts[REFUSED].value += num;
}

static void other_things(struct scene *scene)
{
    struct glex_ext_counters counters;

    switch (fuzz_below(&scene->input, 5)) {
    case 0:
        check(glex_destroy_ep(scene->other), "glex_destroy_ep");
        open_other(scene);
        break;
    case 1:
        (void)glex_ext_check_peer(scene->other, scene->addr, 0, 0);
        (void)glex_ext_has_receiver(scene->other, scene->addr);
        break;
    case 2:
        (void)glex_ext_arm(scene->owner);
        break;
    case 3:
        check(glex_ext_query_counters(scene->owner, &counters), "glex_ext_query_counters");
        break;
    default:
        use_memory(scene);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct scene scene = {.input = {data, size}};

    alarm(RUN_SECONDS);
    open_scene(&scene);
    scene.with_table = fuzz_below(&scene.input, 2);
    scene.kinds = (unsigned)fuzz_take(&scene.input, 1) & (unsigned)fuzz_take(&scene.input, 1);
    while (scene.input.size > 0) {
        switch (fuzz_below(&scene.input, 16)) {
        case 0:
        case 1:
            post(&scene);
            break;
        case 2:
            receive(&scene);
            break;
        case 3:
            take_events(&scene);
            break;
        case 4:
            poll_all(&scene);
            break;
        case 5:
            other_things(&scene);
            break;
        default:
            damage(&scene);
            break;
        }
    }
    poll_all(&scene);
    receive(&scene);
    take_events(&scene);
    close_scene(&scene);
    return 0;
}

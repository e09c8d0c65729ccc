/*
 * budget CASE: repeats one operation of the transport in functions whose names begin with counted_.
 * `run` counts the instructions of these functions with valgrind. Sender and receiver are in one
 * process and thread, so every run takes the same instructions. Prints the number of operations.
 */
#include "node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uct/base/uct_md.h>

/* A multiple of the periods of publishing credits and of checking errors */
#define OPERATIONS 8192
#define WARM_UP    1024
#define SETTLE     8192
#define AM_ID      1
#define LIMIT      1000000 /* progress calls without effect: something is broken */

static struct node here, there;
static uct_ep_h ep;
static unsigned received;
static uint64_t payload;
static uct_allocated_memory_t target; /* there, of the NIC */
static uct_rkey_bundle_t key;

static ucs_status_t handler(void *arg, void *data, size_t length, unsigned flags)
{
    (void)arg;
    (void)data;
    (void)length;
    (void)flags;
    received++;
    return UCS_OK;
}

static size_t pack(void *dest, void *arg)
{
    memcpy(dest, arg, sizeof(uint64_t));
    return sizeof(uint64_t);
}

/* ---- counted functions ----------------------------------------------------------------------- */

static ucs_status_t __attribute__((noinline)) counted_short(void)
{
    return uct_ep_am_short(ep, AM_ID, 0, NULL, 0);
}

static ssize_t __attribute__((noinline)) counted_bcopy(void)
{
    return uct_ep_am_bcopy(ep, AM_ID, pack, &payload, 0);
}

static ucs_status_t __attribute__((noinline)) counted_atomic_post(void)
{
    return uct_ep_atomic64_post(ep, UCT_ATOMIC_OP_ADD, 1, (uintptr_t)target.address, key.rkey);
}

static ucs_status_t __attribute__((noinline)) counted_atomic_fetch(void)
{
    return uct_ep_atomic64_fetch(ep, UCT_ATOMIC_OP_ADD, 1, &payload, (uintptr_t)target.address,
                                 key.rkey, NULL);
}

static unsigned __attribute__((noinline)) counted_progress(struct node *node)
{
    return uct_iface_progress(node->iface);
}

/* ---- other functions ------------------------------------------------------------------------- */

static void progress_both(void)
{
    uct_iface_progress(there.iface);
    uct_iface_progress(here.iface);
}

static void receive_one(void)
{
    unsigned before = received, i;

    for (i = 0; received == before && i < LIMIT; i++) {
        progress_both();
    }
    if (received != before + 1) {
        fail("%u messages came of 1", received - before);
    }
    progress_both(); /* credits */
}

/* Send without counting; the first ones wait for the connection. */
static void send_one(void)
{
    ucs_status_t status;
    unsigned i;

    for (i = 0; i < LIMIT; i++) {
        status = uct_ep_am_short(ep, AM_ID, 0, NULL, 0);
        if (status != UCS_ERR_NO_RESOURCE) {
            break;
        }
        progress_both();
    }
    if (status != UCS_OK) {
        fail("a message could not be sent: %s", ucs_status_string(status));
    }
}

static void count_short(void)
{
    ucs_status_t status = counted_short();

    if (status != UCS_OK) {
        fail("am_short: %s", ucs_status_string(status));
    }
    receive_one();
}

static void count_bcopy(void)
{
    ssize_t length = counted_bcopy();

    if (length != sizeof(payload)) {
        fail("am_bcopy: %s", ucs_status_string((ucs_status_t)length));
    }
    receive_one();
}

static void count_receive(void)
{
    unsigned before = received;

    send_one();
    counted_progress(&there);
    if (received == before) {
        counted_progress(&there); /* the channel's own messages come first */
    }
    if (received != before + 1) {
        fail("%u messages came in two progress calls, of 1", received - before);
    }
    progress_both();
}

static void count_idle(void)
{
    if (counted_progress(&there) != 0) {
        fail("progress had something to do");
    }
}

static void count_atomic_post(void)
{
    check(counted_atomic_post(), "uct_ep_atomic64_post");
}

static void count_atomic_fetch(void)
{
    check(counted_atomic_fetch(), "uct_ep_atomic64_fetch");
}

static const struct budget_case {
    const char *name;
    const char *channels;
    void (*count)(void);
} cases[] = {
    {"er_short_send", "er", count_short},        {"er_bcopy_send", "er", count_bcopy},
    {"er_receive", "er", count_receive},         {"sr_short_send", "sr", count_short},
    {"sr_bcopy_send", "sr", count_bcopy},        {"sr_receive", "sr", count_receive},
    {"atomic_post", "er,sr", count_atomic_post}, {"atomic_fetch", "er,sr", count_atomic_fetch},
    {"idle_progress", "er,sr", count_idle},
};
#define NUM_CASES (sizeof(cases) / sizeof(cases[0]))

/* Memory of `there` that `here` maps */
static void open_target(void)
{
    uct_alloc_method_t method = UCT_ALLOC_METHOD_MD;
    uct_mem_alloc_params_t params = {
        .field_mask = UCT_MEM_ALLOC_PARAM_FIELD_FLAGS | UCT_MEM_ALLOC_PARAM_FIELD_MDS |
                      UCT_MEM_ALLOC_PARAM_FIELD_MEM_TYPE | UCT_MEM_ALLOC_PARAM_FIELD_NAME,
        .flags = UCT_MD_MEM_ACCESS_ALL,
        .name = "budget",
        .mem_type = UCS_MEMORY_TYPE_HOST,
        .mds = {.mds = &there.md, .count = 1},
    };
    char packed[256];

    check(uct_mem_alloc(sizeof(uint64_t), &method, 1, &params, &target), "uct_mem_alloc");
    check(uct_md_mkey_pack(there.md, target.memh, packed), "uct_md_mkey_pack");
    check(uct_rkey_unpack(here.md->component, packed, &key), "uct_rkey_unpack");
    /* The first one maps it, and is not counted */
    check(uct_ep_atomic64_post(ep, UCT_ATOMIC_OP_ADD, 1, (uintptr_t)target.address, key.rkey),
          "uct_ep_atomic64_post");
}

static void close_target(void)
{
    uct_rkey_release(here.md->component, &key);
    uct_mem_free(&target);
}

static void run(const struct budget_case *what)
{
    unsigned i;

    node_open(&here);
    node_open(&there);
    node_handle(&there, AM_ID, handler, NULL);
    ep = node_connect(&here, &there.address);
    open_target();
    for (i = 0; i < WARM_UP; i++) {
        send_one();
        receive_one();
    }
    for (i = 0; i < SETTLE; i++) {
        progress_both(); /* messages of an otherwise idle connection */
    }
    for (i = 0; i < OPERATIONS; i++) {
        what->count();
    }
    close_target();
    uct_ep_destroy(ep);
    node_close(&here);
    node_close(&there);
}

int main(int argc, char **argv)
{
    size_t i;

    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        for (i = 0; i < NUM_CASES; i++) {
            puts(cases[i].name);
        }
        return 0;
    }
    for (i = 0; argc == 2 && i < NUM_CASES; i++) {
        if (strcmp(argv[1], cases[i].name) == 0) {
            setenv("UCX_GLEX_CHANNELS", cases[i].channels, 1);
            run(&cases[i]);
            printf("%d\n", OPERATIONS);
            return 0;
        }
    }
    fprintf(stderr, "Usage: %s --list | CASE\n", argv[0]);
    return 2;
}

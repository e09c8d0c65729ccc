/*
 * A peer of the transport that breaks the protocol. The peer is a real interface. Its messages,
 * events and RDMA requests are changed on their way to the NIC, so the changed requests reach every
 * state. The peer also invents messages, uses changed keys, and connects to addresses that do not
 * exist.
 *
 * The victim must not crash, may fail only the connection to this peer, must have all its credits
 * afterwards, and must keep exchanging data with a friendly peer. Every byte of the friendly peer
 * is checked.
 */
#include "fuzz_uct.h"

#include "core/glex_ep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define FRIEND_TAG  0x667269656e647321ull
#define PATIENCE    2000000 /* progress calls until something never comes */
#define RUN_SECONDS 60

struct fuzz_count fuzz_counts[] = {
    {"mutations", 0},
    {"connections of the evil peer", 0},
    {"messages delivered", 0},
    {"endpoints that failed", 0},
    {"messages of the friend", 0},
    {"changed keys used", 0},
    {"changed addresses tried", 0},
    {"settings tried", 0},
    {"events with a changed header", 0},
    {"short MPs with a changed header", 0},
    {"credits published", 0},
    {"slots with any word", 0},
    {NULL, 0},
};

struct node victim, evil, friendly;
uct_ep_h evil_ep;
static uct_ep_h friend_ep, victim_ep;
struct fuzz_input *input;
static uint64_t friend_sent, friend_received;
char *page;
static size_t page_size;
char rkey[64];
static uct_mem_h victim_memh;
static int evil_failed;
static int64_t mpq_capacity;

/* ---- the processes --------------------------------------------------------------------------- */

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

/* The evil peer may use the friend's handler, so only the next message with the tag counts. */
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

void progress(unsigned calls)
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
    page_size = (size_t)sysconf(_SC_PAGESIZE);
    page = mmap(NULL, 3 * page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) {
        fuzz_fail("no memory");
    }
    memset(page, CANARY, 3 * page_size);
    page += page_size;
    if (uct_md_mem_reg(victim.md, page, MEMORY, UCT_MD_MEM_ACCESS_ALL, &victim_memh) != UCS_OK ||
        uct_md_mkey_pack(victim.md, victim_memh, rkey) != UCS_OK) {
        fuzz_fail("memory cannot be registered");
    }
}

static void open_all(void)
{
    node_open_with(&victim, on_error, &victim);
    node_open_with(&evil, on_error, &evil);
    node_open_with(&friendly, on_error, &friendly);
    mpq_capacity = (int64_t)glex_of(&victim)->mpq.free + glex_of(&victim)->mpq.pool;
    node_handle(&victim, AM_EVIL, on_evil, NULL);
    node_handle(&victim, AM_FRIEND, on_friend, NULL);
    node_handle(&evil, AM_EVIL, on_evil, NULL);
    friend_ep = node_connect(&friendly, &victim.address);
    open_memory();
    evil_begin();
    friend_says();
    friend_is_heard();
}

/*
 * UCX reads its variables before main(). So start the program again with variables that silence
 * UCX.
 */
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

/* ---- a run ----------------------------------------------------------------------------------- */

/*
 * Sends until the credits are used up, sometimes: only then does the victim look for further
 * credits.
 */
static void victim_says(void)
{
    unsigned count = fuzz_below(input, 2) ? 1 : fuzz_below(input, 256);

    while (count-- > 0 && uct_ep_am_short(victim_ep, AM_EVIL, 0, NULL, 0) == UCS_OK) {
    }
}

static void step(void)
{
    switch (fuzz_below(input, 16)) {
    case 0:
    case 1:
    case 2:
    case 3:
        evil_send_genuine();
        break;
    case 4:
    case 5:
        evil_send_forged();
        break;
    case 6:
        evil_scribble();
        break;
    case 7:
        evil_use_key();
        break;
    case 8:
        friend_says();
        break;
    case 9:
        victim_says();
        break;
    case 10:
        evil_show();
        break;
    case 11:
        uct_ep_flush(evil_ep, 0, NULL);
        break;
    case 12:
    case 13:
        evil_slot();
        break;
    default:
        progress(fuzz_below(input, 8));
        break;
    }
}

static void check_victim(void)
{
    const uct_glex_iface_t *iface = glex_of(&victim);
    int64_t sum = (int64_t)iface->mpq.free + iface->mpq.pool;
    unsigned i;

    for (i = 0; i < iface->num_vcs; i++) {
        if (iface->vcs[i]->mp_rx.window > 0) {
            sum += iface->vcs[i]->mp_rx.window + UCT_GLEX_VC_CTL_UNITS;
        }
    }
    if (sum != mpq_capacity) {
        fuzz_fail("%lld entries of the message queue are there of %lld", (long long)sum,
                  (long long)mpq_capacity);
    }
    for (i = 0; i < MEMORY; i++) {
        if (page[(int)i - MEMORY] != CANARY || page[page_size + i] != CANARY) {
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
    progress(600); /* progress checks errors every 256 calls */
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
    evil_use_address();
    if (data[0] % 8 == 0) {
        evil_use_setting();
    }
    input = NULL;
    friend_is_heard();
    check_victim();
    return 0;
}

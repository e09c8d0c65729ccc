/*
 * partition SELF NUM DIR: hosts 1 to NUM each run this program, and put to every other host without
 * pause. In the middle of the run the network splits into two halves, and later becomes whole
 * again. The programs and the script that splits the network exchange their steps by files in DIR:
 * STEP.HOST. Each request must end once, with an event or an error. Nothing arrives twice. Inside a
 * half no request fails. When the network is whole again, every host reaches every other host. The
 * last lines allow a comparison of sent and arrived data: "sum FROM TO least most" and "sum FROM TO
 * arrived".
 */
#include <glex.h>
#include <glex_ext.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define NUMBER  100 /* of each endpoint */
#define KEY     5
#define HOSTS   8
#define OPEN    16u /* requests to one peer */
#define ENOUGH  100 /* requests that show that a peer can be reached */
#define SECONDS 120
#define ARRIVAL 1000 /* cookie_0 of remote events: and the sender */

struct other {
    glex_ep_addr_t addr;
    glex_mem_handle_t memory;
    bool open[2 * OPEN];                  /* by number modulo its size */
    uint64_t posted, ended, done, failed; /* ended: done or failed */
    uint64_t last, arrived;
    uint64_t mark_done, mark_arrived; /* at the beginning of the step */
};

static glex_ep_handle_t ep;
static glex_mem_handle_t mh;
static struct other others[HOSTS + 1];
static uint32_t self, num;
static const char *dir;
static double end;

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static int failure(const char *what)
{
    uint32_t i;

    printf("not ok: host %u: %s\n", self, what);
    for (i = 1; i <= num; i++) {
        printf("# host %u: posted %llu, done %llu, failed %llu, arrived %llu\n", i,
               (unsigned long long)others[i].posted, (unsigned long long)others[i].done,
               (unsigned long long)others[i].failed, (unsigned long long)others[i].arrived);
    }
    exit(1);
}

static bool is_there(const char *step, uint32_t host)
{
    char path[4096];

    snprintf(path, sizeof(path), "%s/%s.%u", dir, step, host);
    return access(path, F_OK) == 0;
}

/* The file is there when all of it is: it holds the name of our memory. */
static void say(const char *step)
{
    char path[4096], whole[4096];
    FILE *file;

    snprintf(path, sizeof(path), "%s/part.%u", dir, self);
    snprintf(whole, sizeof(whole), "%s/%s.%u", dir, step, self);
    file = fopen(path, "w");
    if (file == NULL || fprintf(file, "%llx", (unsigned long long)mh.v) < 0 || fclose(file) != 0 ||
        rename(path, whole) != 0) {
        failure("cannot write to the directory");
    }
}

static void read_memory(uint32_t host)
{
    char path[4096];
    unsigned long long v;
    FILE *file;

    snprintf(path, sizeof(path), "%s/open.%u", dir, host);
    file = fopen(path, "r");
    if (file == NULL || fscanf(file, "%llx", &v) != 1) {
        failure("cannot read the name of a peer's memory");
    }
    fclose(file);
    others[host].memory.v = v;
}

static void open_endpoint(void)
{
    struct glex_ep_attr attr = {.type = GLEX_EP_TYPE_NORMAL, .num = NUMBER, .key = KEY};
    static char memory[4096];
    glex_device_handle_t device;
    uint32_t i;

    if (glex_open_device(0, &device) != GLEX_SUCCESS ||
        glex_create_ep(device, &attr, &ep) != GLEX_SUCCESS ||
        glex_register_mem(ep, memory, sizeof(memory), GLEX_MEM_READ | GLEX_MEM_WRITE, &mh) !=
            GLEX_SUCCESS) {
        failure("no endpoint");
    }
    for (i = 1; i <= num; i++) {
        glex_compose_ep_addr(i, NUMBER, GLEX_EP_TYPE_NORMAL, &others[i].addr);
    }
}

/* ---- requests and their ends ------------------------------------------------------------------ */

static void post(uint32_t to)
{
    struct other *other = &others[to];
    uint64_t number = other->posted + 1;
    glex_rdma_req_t req = {.rmt_ep_addr = other->addr,
                           .local_mh = mh,
                           .len = 8,
                           .rmt_mh = other->memory,
                           .rmt_offset = 8 * self,
                           .type = GLEX_RDMA_TYPE_PUT,
                           .rmt_key = KEY,
                           .local_evt = {.cookie_0 = to, .cookie_1 = number},
                           .rmt_evt = {.cookie_0 = ARRIVAL + self, .cookie_1 = number},
                           .flag =
                               GLEX_FLAG_LOCAL_EVT | GLEX_FLAG_REMOTE_EVT | GLEX_EXT_FLAG_NO_LOSS};
    glex_ret_t ret = glex_rdma(ep, &req, NULL);

    if (ret == GLEX_SUCCESS) {
        other->posted = number;
        other->open[number % (2 * OPEN)] = true;
    } else if (ret != GLEX_BUSY) {
        failure("a request is not taken");
    }
}

static void request_ended(uint64_t to, uint64_t number)
{
    struct other *other = &others[to];

    if (to > num || number > other->posted || number + 2 * OPEN <= other->posted ||
        !other->open[number % (2 * OPEN)]) {
        failure("a request ended twice, or was never posted");
    }
    other->open[number % (2 * OPEN)] = false;
    other->ended++;
}

static void arrived(uint64_t from, uint64_t number)
{
    if (from > num || number <= others[from].last) {
        failure("a request was carried out twice, or out of order");
    }
    others[from].last = number;
    others[from].arrived++;
}

static void take_events(void)
{
    glex_event_t *event;
    uint32_t i;

    for (i = 0; i < 256 && glex_probe_first_event(ep, i == 0 ? 1 : 0, &event) == GLEX_SUCCESS;
         i++) {
        if (event->cookie_0 >= ARRIVAL) {
            arrived(event->cookie_0 - ARRIVAL, event->cookie_1);
        } else {
            request_ended(event->cookie_0, event->cookie_1);
            others[event->cookie_0].done++;
        }
        glex_discard_probed_event(ep);
    }
}

static void take_errors(void)
{
    struct glex_err_req errors[16];
    uint32_t i, count = 16;

    if (glex_poll_error_req(ep, &count, errors) != GLEX_SUCCESS) {
        failure("errors cannot be read");
    }
    for (i = 0; i < count; i++) {
        request_ended(errors[i].rmt_nic_id, errors[i].data2);
        others[errors[i].rmt_nic_id].failed++;
    }
}

/* ---- steps ------------------------------------------------------------------------------------ */

static bool all_reached(void)
{
    bool all = true;
    uint32_t i;

    for (i = 1; i <= num; i++) {
        all &= i == self || (others[i].done >= others[i].mark_done + ENOUGH &&
                             others[i].arrived >= others[i].mark_arrived + ENOUGH);
    }
    return all;
}

static bool same_half(uint32_t host)
{
    return (host > num / 2) == (self > num / 2);
}

static bool all_cut(void)
{
    bool all = true;
    uint32_t i;

    for (i = 1; i <= num; i++) {
        all &= same_half(i) || others[i].failed != 0;
    }
    return all;
}

static bool all_ended(void)
{
    bool all = true;
    uint32_t i;

    for (i = 1; i <= num; i++) {
        all &= others[i].ended == others[i].posted;
    }
    return all;
}

/* One may be open still when later ones have ended. */
static void post_all(void)
{
    uint32_t i;

    for (i = 1; i <= num; i++) {
        if (i != self && others[i].posted - others[i].ended < OPEN &&
            !others[i].open[(others[i].posted + 1) % (2 * OPEN)]) {
            post(i);
        }
    }
}

/* A step ends when this host has finished it and all hosts in [first, last] have reported it. */
static void step(const char *name, bool (*done)(void), bool posting, uint32_t first, uint32_t last)
{
    bool said = false;
    uint32_t i;

    for (i = 1; i <= num; i++) {
        others[i].mark_done = others[i].done;
        others[i].mark_arrived = others[i].arrived;
    }
    for (i = first; i <= last; i += is_there(name, i)) {
        if (now() > end) {
            failure(name);
        }
        if (posting) {
            post_all();
        }
        take_events();
        take_errors();
        if (!said && done != NULL && done()) {
            said = true;
            say(name);
        }
    }
}

int main(int argc, char **argv)
{
    uint32_t i;

    if (argc != 4) {
        fprintf(stderr, "usage: %s SELF NUM DIR\n", argv[0]);
        return 2;
    }
    self = (uint32_t)atoi(argv[1]);
    num = (uint32_t)atoi(argv[2]);
    dir = argv[3];
    end = now() + SECONDS;
    if (self == 0 || self > num || num > HOSTS) {
        return 2;
    }
    open_endpoint();
    say("open");
    step("open", NULL, false, 1, num);
    for (i = 1; i <= num; i++) {
        read_memory(i);
    }
    step("met", all_reached, true, 1, num);
    for (i = 1; i <= num; i++) {
        if (others[i].failed != 0) {
            failure("a request failed before the network did");
        }
    }
    step("cut", all_cut, true, 1, num);
    step("whole", NULL, true, 0, 0); /* the script that splits the network makes this file */
    step("back", all_reached, true, 1, num);
    step("ended", all_ended, false, 1, num);
    for (i = 1; i <= num; i++) {
        if (same_half(i) && others[i].failed != 0) {
            failure("a request inside a half failed");
        }
        if (i != self) {
            printf("sum %u %u %llu %llu\nsum %u %u %llu\n", self, i,
                   (unsigned long long)others[i].done, (unsigned long long)others[i].posted, i,
                   self, (unsigned long long)others[i].arrived);
        }
    }
    if (glex_destroy_ep(ep) != GLEX_SUCCESS) {
        failure("the endpoint cannot be destroyed");
    }
    return 0;
}

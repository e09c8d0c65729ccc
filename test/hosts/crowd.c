/*
 * crowd: one host of many. Answers each message, and does what the lines of its standard input say:
 *
 *   talk ADDRESS...   sends a message to each address, and waits for all answers, without an end.
 *                     Says "talked", and " ADDRESS=WHY" for each request that failed: silent,
 *                     denied or ended
 *   size              says how many connections there are, and the resident memory in KiB
 *
 * Says first: address ADDRESS PID.
 */
#include <glex.h>
#include <glex_ext.h>

#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST 64

struct message {
    uint64_t question; /* 0: an answer */
    uint64_t round;
};

static glex_ep_handle_t ep;
static uint64_t asked[MOST]; /* who has not answered yet; 0: free */
static int status_of[MOST];  /* of requests that failed: the status, and 1 */
static uint64_t round_number;

static int find(uint64_t addr)
{
    int i;

    for (i = 0; i < MOST && asked[i] != addr; i++) {
    }
    return i;
}

static void serve(int32_t timeout);

static void post(uint64_t addr, uint64_t question, uint64_t round)
{
    struct message message = {question, round};
    glex_imm_mp_req_t req = {.rmt_ep_addr.v = addr,
                             .data = &message,
                             .len = sizeof(message),
                             .flag = GLEX_EXT_FLAG_NO_LOSS};
    glex_ret_t ret;

    while ((ret = glex_send_imm_mp(ep, &req, NULL)) == GLEX_BUSY) {
        serve(1);
    }
    if (ret != GLEX_SUCCESS) {
        printf("cannot post: %s\n", glex_error_str(ret));
        exit(1);
    }
}

/* Takes what has come, and answers. */
static void serve(int32_t timeout)
{
    struct message message;
    struct glex_err_req error;
    glex_ep_addr_t from;
    uint32_t len, num = 1;
    char data[128];
    int i;

    if (glex_receive_mp(ep, timeout, &from, data, &len) == GLEX_SUCCESS && len == sizeof(message)) {
        memcpy(&message, data, sizeof(message));
        i = find(from.v);
        if (message.question) {
            post(from.v, 0, message.round);
        } else if (i < MOST && message.round == round_number) {
            asked[i] = 0;
        }
    }
    if (glex_poll_error_req(ep, &num, &error) == GLEX_SUCCESS && num != 0) {
        from = (glex_ep_addr_t){.nic_id = error.rmt_nic_id, .ep_num = error.rmt_ep_num};
        i = find(from.v);
        if (i < MOST) { /* else an answer failed: the host that asked reports it */
            status_of[i] = (int)error.status + 1;
        }
    }
}

static const char *status_text(int status)
{
    switch (status) {
    case GLEX_ERR_STATUS_CONNECTION_MAX_RETRY:
    case GLEX_ERR_STATUS_DEST_HOST_DEAD:
        return "silent";
    case GLEX_ERR_STATUS_CONNECTION_NACK:
        return "denied";
    default:
        return "ended";
    }
}

static bool all_have_ended(void)
{
    int i;

    for (i = 0; i < MOST && (asked[i] == 0 || status_of[i] != 0); i++) {
    }
    return i == MOST;
}

static void talk(char *list)
{
    char *word;
    int i, num = 0;

    memset(asked, 0, sizeof(asked));
    memset(status_of, 0, sizeof(status_of));
    round_number++;
    for (word = strtok(list, " \n"); word != NULL && num < MOST; word = strtok(NULL, " \n")) {
        asked[num++] = strtoull(word, NULL, 0);
    }
    for (i = 0; i < num; i++) {
        post(asked[i], 1, round_number);
    }
    while (!all_have_ended()) {
        serve(5);
    }
    printf("talked");
    for (i = 0; i < num; i++) {
        if (status_of[i] != 0) {
            printf(" %llu=%s", (unsigned long long)asked[i], status_text(status_of[i] - 1));
        }
    }
    printf("\n");
}

static long resident_kib(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    long pages = 0;

    if (file == NULL || fscanf(file, "%*d %ld", &pages) != 1) {
        pages = -1;
    }
    if (file != NULL) {
        fclose(file);
    }
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static void size(void)
{
    struct glex_ext_counters counters;

    glex_ext_query_counters(ep, &counters);
    printf("size %llu %ld\n", (unsigned long long)counters.net_peers, resident_kib());
}

int main(void)
{
    struct glex_ep_attr attr = {.type = GLEX_EP_TYPE_NORMAL, .num = 100, .key = 1};
    struct pollfd input = {.fd = 0, .events = POLLIN};
    glex_device_handle_t device;
    glex_ep_addr_t address;
    char line[4096];

    setvbuf(stdin, NULL, _IONBF, 0);
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (glex_open_device(0, &device) != GLEX_SUCCESS ||
        glex_create_ep(device, &attr, &ep) != GLEX_SUCCESS ||
        glex_get_ep_addr(ep, &address) != GLEX_SUCCESS) {
        return 1;
    }
    printf("address %llu %d\n", (unsigned long long)address.v, (int)getpid());
    for (;;) {
        serve(10);
        if (poll(&input, 1, 0) == 0) {
            continue;
        }
        if (fgets(line, sizeof(line), stdin) == NULL) {
            return 0;
        }
        if (strncmp(line, "talk ", 5) == 0) {
            talk(line + 5);
        } else {
            size();
        }
    }
}

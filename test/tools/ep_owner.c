/*
 * Owner of endpoints for the tests of glex_info: makes known traffic, then waits for the end of
 * stdin, or for a kill.
 *
 *   ep_owner [ENDPOINTS [leave]]     prints an address a line, then "ready"
 *
 * With `leave` the program ends without destroying the endpoints. If a test does not end the
 * program, SIGALRM fails the test.
 */
#include <glex.h>
#include <glex_ext.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_EPS     16
#define MESSAGES    5
#define PUTS        3
#define PRIVATE     10000
#define MAX_SECONDS 240
#define NIC_MEM     (1 << 20)

#define CHECK(call) check((call), #call)

static void check(glex_ret_t ret, const char *what)
{
    if (ret != GLEX_SUCCESS) {
        fprintf(stderr, "ep_owner: %s: %s\n", what, glex_error_str(ret));
        exit(EXIT_FAILURE);
    }
}

/* Sends MESSAGES to itself, and PUTS of 8 bytes with an event. They stay in the queues. */
static void make_traffic(glex_ep_handle_t ep, glex_ep_addr_t self, glex_mem_handle_t mh)
{
    uint64_t data = 1;
    glex_imm_mp_req_t mp = {.rmt_ep_addr = self, .data = &data, .len = sizeof(data)};
    glex_imm_rdma_req_t put = {.rmt_ep_addr = self,
                               .data = &data,
                               .len = sizeof(data),
                               .rmt_mh = mh,
                               .rmt_evt = {.cookie_1 = 1},
                               .rmt_key = 22,
                               .flag = GLEX_FLAG_REMOTE_EVT};
    int i;

    for (i = 0; i < MESSAGES; i++) {
        CHECK(glex_send_imm_mp(ep, &mp, NULL));
    }
    for (i = 0; i < PUTS; i++) {
        CHECK(glex_imm_rdma(ep, &put, NULL));
    }
}

static glex_ep_handle_t make_ep(glex_device_handle_t dev)
{
    struct glex_ep_attr attr = {.type = GLEX_EP_TYPE_NORMAL,
                                .num = GLEX_ANY_EP_NUM,
                                .key = 22,
                                .mpq_capacity = 64,
                                .eq_capacity = 128};
    static char buffer[PRIVATE];
    glex_mem_handle_t mh, nic_mh;
    glex_ep_addr_t self;
    glex_ep_handle_t ep;
    void *nic_mem;

    CHECK(glex_create_ep(dev, &attr, &ep));
    CHECK(glex_get_ep_addr(ep, &self));
    CHECK(glex_register_mem(ep, buffer, sizeof(buffer), GLEX_MEM_READ | GLEX_MEM_WRITE, &mh));
    CHECK(glex_ext_mem_alloc(ep, NIC_MEM, &nic_mem));
    CHECK(glex_register_mem(ep, nic_mem, NIC_MEM, GLEX_MEM_READ | GLEX_MEM_WRITE, &nic_mh));
    make_traffic(ep, self, mh);
    printf("0x%016" PRIx64 "\n", self.v);
    return ep;
}

int main(int argc, char **argv)
{
    int num = (argc > 1) ? atoi(argv[1]) : 1, i;
    glex_ep_handle_t eps[MAX_EPS];
    glex_device_handle_t dev;
    char c;

    if (num < 1 || num > MAX_EPS) {
        fprintf(stderr, "usage: ep_owner [1 to %d [leave]]\n", MAX_EPS);
        return 2;
    }
    alarm(MAX_SECONDS);
    CHECK(glex_open_device(0, &dev));
    for (i = 0; i < num; i++) {
        eps[i] = make_ep(dev);
    }
    puts("ready");
    fflush(stdout);
    while (read(STDIN_FILENO, &c, 1) > 0) {
    }
    if (argc > 2 && strcmp(argv[2], "leave") == 0) {
        return 0;
    }
    for (i = 0; i < num; i++) {
        CHECK(glex_destroy_ep(eps[i]));
    }
    CHECK(glex_close_device(dev));
    return 0;
}

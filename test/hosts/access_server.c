/*
 * access_server: an endpoint that says where it is, and prints each message that comes, until its
 * standard input ends. For access.py, which sends it what no peer would.
 */
#include <glex.h>

#include <poll.h>
#include <stdio.h>

#define NUM 100

int main(void)
{
    struct glex_ep_attr attr = {.type = GLEX_EP_TYPE_NORMAL, .num = NUM, .key = 1};
    struct pollfd input = {.fd = 0, .events = POLLIN};
    glex_device_handle_t device;
    glex_ep_addr_t from;
    glex_ep_handle_t ep;
    char data[128];
    uint32_t len;

    if (glex_open_device(0, &device) != GLEX_SUCCESS ||
        glex_create_ep(device, &attr, &ep) != GLEX_SUCCESS ||
        glex_get_ep_addr(ep, &from) != GLEX_SUCCESS) {
        return 1;
    }
    printf("address %llu\n", (unsigned long long)from.v);
    fflush(stdout);
    while (poll(&input, 1, 0) == 0) {
        if (glex_receive_mp(ep, 20, &from, data, &len) == GLEX_SUCCESS) {
            printf("message %.*s\n", (int)len, data);
            fflush(stdout);
        }
    }
    return glex_destroy_ep(ep) == GLEX_SUCCESS ? 0 : 1;
}

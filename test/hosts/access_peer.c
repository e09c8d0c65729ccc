/*
 * access_peer ADDRESS: an honest peer of access_server. Sends each line of its standard input.
 * Prints "sent" if the NIC accepts the line, "refused" if the NIC refuses it, and "failed" if a
 * request has failed.
 */
#include <glex.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    struct glex_ep_attr attr = {.type = GLEX_EP_TYPE_NORMAL, .num = GLEX_ANY_EP_NUM, .key = 1};
    struct pollfd input = {.fd = 0, .events = POLLIN};
    glex_imm_mp_req_t req = {0};
    glex_device_handle_t device;
    struct glex_err_req error;
    glex_ep_handle_t ep;
    glex_ep_addr_t from;
    char data[128], line[100];
    uint32_t len, num;
    glex_ret_t ret;

    if (argc != 2 || glex_open_device(0, &device) != GLEX_SUCCESS ||
        glex_create_ep(device, &attr, &ep) != GLEX_SUCCESS) {
        return 1;
    }
    req.rmt_ep_addr.v = strtoull(argv[1], NULL, 0);
    setvbuf(stdin, NULL, _IONBF, 0);
    for (;;) {
        (void)glex_receive_mp(ep, 5, &from, data, &len); /* lets the network go on */
        num = 1;
        if (glex_poll_error_req(ep, &num, &error) == GLEX_SUCCESS && num != 0) {
            printf("failed %d\n", (int)error.status);
            fflush(stdout);
        }
        if (poll(&input, 1, 0) == 0) {
            continue;
        }
        if (fgets(line, sizeof(line), stdin) == NULL) {
            return glex_destroy_ep(ep) == GLEX_SUCCESS ? 0 : 1;
        }
        req.data = line;
        req.len = (uint32_t)strcspn(line, "\n");
        while ((ret = glex_send_imm_mp(ep, &req, NULL)) == GLEX_BUSY) {
            (void)glex_receive_mp(ep, 5, &from, data, &len);
        }
        printf("%s\n", ret == GLEX_SUCCESS ? "sent" : "refused");
        fflush(stdout);
    }
}

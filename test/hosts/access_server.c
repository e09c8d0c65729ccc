/*
 * access_server: prints the address of an endpoint and each received message, until standard input
 * ends. The signal SIGUSR1 removes the endpoint's receiver, the next SIGUSR1 restores it. access.py
 * sends hostile data to this endpoint.
 */
#include <glex.h>
#include <glex_ext.h>

#include <poll.h>
#include <signal.h>
#include <stdio.h>

#define NUM 100

static void say(const char *word)
{
    printf("%s\n", word);
    fflush(stdout);
}

/* @return whether the endpoint had a receiver before, and has one again */
static int without_receiver(glex_ep_handle_t ep, const sigset_t *usr1)
{
    int sig;

    if (sigwait(usr1, &sig) != 0 || glex_ext_set_receiver(ep, 0) != GLEX_SUCCESS) {
        return 0;
    }
    say("no receiver");
    if (sigwait(usr1, &sig) != 0 || glex_ext_set_receiver(ep, 1) != GLEX_SUCCESS) {
        return 0;
    }
    say("a receiver");
    return 1;
}

int main(void)
{
    struct glex_ep_attr attr = {.type = GLEX_EP_TYPE_NORMAL, .num = NUM, .key = 1};
    struct pollfd input = {.fd = 0, .events = POLLIN};
    glex_device_handle_t device;
    glex_ep_addr_t from;
    glex_ep_handle_t ep;
    char data[128];
    sigset_t usr1, pending;
    uint32_t len;

    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    sigprocmask(SIG_BLOCK, &usr1, NULL);
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
        if (sigpending(&pending) == 0 && sigismember(&pending, SIGUSR1) &&
            !without_receiver(ep, &usr1)) {
            return 1;
        }
    }
    return glex_destroy_ep(ep) == GLEX_SUCCESS ? 0 : 1;
}

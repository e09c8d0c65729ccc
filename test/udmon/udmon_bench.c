/*
 * How many records a second get through, and how many are lost: libudmon against UDP sockets.
 *
 *   udmon_bench udmon|udp SERVER CLIENT SIZE COUNT    flood; SERVER and CLIENT are IP addresses
 *   udmon_bench udmon|udp SERVER CLIENT SIZE COUNT RATE   RATE records a second, and the CPU time
 *
 * Prints one line: what, size, records/s received, MB/s, loss %, sender's CPU %. Two processes, as
 * in life; the receiver measures, from the first record to the last.
 */
#include "udmon/udmon.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PORT = 4777, QUIET_MS = 1500 };

static const char *what, *server_address, *client_address, *scheme = "ud";
static size_t size;
static unsigned long count, rate;

/* What the receiver has seen. */
static unsigned long received;
static double first_time, last_time;

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + (t.tv_nsec * 1e-9);
}

static void count_record(void)
{
    last_time = now();
    if (received++ == 0) {
        first_time = last_time;
    }
}

static void fail(const char *doing)
{
    perror(doing);
    exit(1);
}

/* Until the next record is due, or at once for a flood. Returns milliseconds. */
static int pace(double start, unsigned long sent)
{
    double wait = (rate > 0) ? (start + ((double)sent / rate) - now()) : 0;

    return (wait > 0) ? (int)(wait * 1000) + 1 : 0;
}

static struct sockaddr_in address(const char *text, int port)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(port)};

    inet_pton(AF_INET, text, &addr.sin_addr);
    return addr;
}

static void udp_receive(int ready)
{
    struct sockaddr_in addr = address(server_address, PORT);
    static char buffer[65536];
    struct pollfd p = {.events = POLLIN};
    int timeout = 20000;

    p.fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    if (bind(p.fd, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
        fail("bind");
    }
    if (write(ready, "x", 1) != 1) {
        fail("write");
    }
    while (poll(&p, 1, timeout) > 0) {
        while (recv(p.fd, buffer, sizeof(buffer), 0) >= 0) {
            count_record();
        }
        timeout = QUIET_MS;
    }
}

static void udp_send(void)
{
    struct sockaddr_in addr = address(client_address, 0);
    static char buffer[65536];
    unsigned long sent;
    double start;
    int fd;

    fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
        fail("bind");
    }
    addr = address(server_address, PORT);
    if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
        fail("connect");
    }
    start = now();
    for (sent = 0; sent < count; ++sent) {
        if (pace(start, sent) > 0) {
            poll(NULL, 0, pace(start, sent));
        }
        if (send(fd, buffer, size, 0) < 0) {
            fail("send");
        }
    }
}

static void udmon_got(void *arg, const udmon_peer_t *peer, const udmon_message_t *message)
{
    (void)arg;
    (void)peer;
    (void)message;
    count_record();
}

static void udmon_receive(int ready)
{
    udmon_server_callbacks_t callbacks = {.message = udmon_got};
    udmon_server_t *server;
    struct pollfd p = {.events = POLLIN};
    udmon_options_t options;
    unsigned long before;
    char url[80];
    double quiet;

    udmon_options_init(&options);
    options.datagram_size = 65535;
    snprintf(url, sizeof(url), "%s://%s:%d", scheme, server_address, PORT);
    if (udmon_server_open(url, &options, &callbacks, NULL, &server) < 0) {
        exit(1);
    }
    if (write(ready, "x", 1) != 1) {
        fail("write");
    }
    p.fd = udmon_server_fd(server);
    quiet = now() + 20;
    while (now() < quiet) {
        before = received;
        poll(&p, 1, 200);
        udmon_server_process(server);
        if (received != before) {
            quiet = now() + (QUIET_MS * 1e-3);
        }
    }
    udmon_server_close(server);
}

static void client_poll(udmon_client_t *client, int timeout)
{
    struct pollfd p = {.fd = udmon_client_fd(client), .events = POLLIN};

    if ((poll(&p, 1, timeout) > 0) && (udmon_client_process(client) < 0)) {
        exit(1);
    }
}

static void udmon_send(void)
{
    static char buffer[65536];
    udmon_client_t *client;
    udmon_options_t options;
    udmon_stats_t stats;
    unsigned long sent;
    char url[80];
    double start;

    udmon_options_init(&options);
    options.source = client_address;
    options.datagram_size = getenv("UDMON_BENCH_DATAGRAM") ? atoi(getenv("UDMON_BENCH_DATAGRAM")) :
                                                             2048;
    options.datagram_size = (size > 2000) ? 65535 : options.datagram_size;
    snprintf(url, sizeof(url), "%s://%s:%d", scheme, server_address, PORT);
    if (udmon_client_open(url, &options, NULL, NULL, &client) < 0) {
        exit(1);
    }
    while (udmon_client_state(client) != UDMON_CONNECTED) {
        client_poll(client, 100);
    }
    start = now();
    for (sent = 0; sent < count; ++sent) {
        while (pace(start, sent) > 0) {
            client_poll(client, pace(start, sent));
        }
        /* A flood would drop on our side what does not fit: wait for room, as a socket would. */
        udmon_client_stats(client, &stats);
        while ((stats.queued * (size + 8)) > (512 * 1024)) {
            client_poll(client, 10);
            udmon_client_stats(client, &stats);
        }
        udmon_client_send(client, buffer, size, 0);
        if ((sent % 16) == 15) {
            client_poll(client, 0);
        }
    }
    do {
        client_poll(client, 10);
        udmon_client_stats(client, &stats);
    } while (stats.queued > 0);
    udmon_client_close(client);
}

int main(int argc, char **argv)
{
    struct rusage usage;
    double start, cpu;
    int ready[2], status;
    char byte;
    pid_t pid;

    if (argc < 6) {
        fprintf(stderr, "usage: udmon_bench udmon|udp SERVER CLIENT SIZE COUNT [RATE]\n");
        return 2;
    }
    what = argv[1];
    server_address = argv[2];
    client_address = argv[3];
    size = atol(argv[4]);
    count = atol(argv[5]);
    rate = (argc > 6) ? atol(argv[6]) : 0;
    scheme = getenv("UDMON_BENCH_SCHEME") ? getenv("UDMON_BENCH_SCHEME") : scheme;
    if (pipe(ready) < 0) {
        fail("pipe");
    }
    pid = fork();
    if (pid == 0) {
        if (read(ready[0], &byte, 1) != 1) {
            return 1;
        }
        start = now();
        strcmp(what, "udp") ? udmon_send() : udp_send();
        getrusage(RUSAGE_SELF, &usage);
        cpu = usage.ru_utime.tv_sec + usage.ru_stime.tv_sec +
              ((usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6);
        printf("# %s sender: CPU %.1f %%\n", what, 100 * cpu / (now() - start));
        return 0;
    }
    strcmp(what, "udp") ? udmon_receive(ready[1]) : udp_receive(ready[1]);
    waitpid(pid, &status, 0);
    printf("%s %zu B: %.0f records/s %.1f MB/s, lost %.2f %%\n", what, size,
           received / (last_time - first_time), received * size / (last_time - first_time) / 1e6,
           100.0 * (count - received) / count);
    return status;
}

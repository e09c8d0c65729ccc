/*
 * How many records a second get through, how many are lost, and what that costs: libudmon against
 * UDP sockets. Not a test: contrib/rdma-vm ... test/vm/measure prints a table of it.
 *
 *   udmon_bench [-s SCHEME] [-d DATAGRAM] [-r RATE] udmon|udp SERVER CLIENT SIZE COUNT
 *
 * SERVER and CLIENT are IP addresses, SIZE and COUNT of records. Without RATE (records a second)
 * as fast as it goes. Prints one line: what, size, records/s received, loss %, and the busy time of
 * all processors while sending, in % of one. Sender and receiver are processes, as in life; time
 * goes from the first call that sends to the last record received.
 */
#include "udmon/include/udmon.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    PORT = 4777,
    QUEUE = 512 * 1024,
    QUIET_MS = 700,
    FIRST_MS = 20000,
    BURST = 1024 /* records between two checks for other work */
};

static const char *scheme = "ud", *server_address, *client_address;
static size_t size, datagram;
static unsigned long count, rate;
static char record[65536];

/* The number of received records. */
static unsigned long received;
static double last_time;

/* The sender's report: busy processor time of the whole machine during the sending. */
struct busy {
    double start, seconds, elapsed;
};

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + (t.tv_nsec * 1e-9);
}

static char secret_file[] = "/tmp/udmon-bench-XXXXXX";

static void fail(const char *doing)
{
    fprintf(stderr, "udmon_bench: %s: %s\n", doing, strerror(errno));
    exit(1);
}

/*
 * Busy processor time since some beginning. The kernel measures idle time exactly, and samples the
 * other values of /proc/stat at its ticks.
 */
static double machine_busy(void)
{
    unsigned long long idle, iowait;
    FILE *file = fopen("/proc/stat", "r");

    if ((file == NULL) || (fscanf(file, "cpu %*u %*u %*u %llu %llu", &idle, &iowait) != 2)) {
        fail("/proc/stat");
    }
    fclose(file);
    return (now() * sysconf(_SC_NPROCESSORS_ONLN)) -
           ((double)(idle + iowait) / sysconf(_SC_CLK_TCK));
}

/* How many of `sent` records are due by now; all of them without a rate. */
static unsigned long due(double start)
{
    double records;

    if (rate == 0) {
        return count; /* reading the clock would cost too much */
    }
    records = (now() - start) * rate;
    return (records > count) ? count : (unsigned long)records;
}

static struct sockaddr_in address(const char *text, int port)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(port)};

    if (inet_pton(AF_INET, text, &addr.sin_addr) != 1) {
        errno = EINVAL;
        fail(text);
    }
    return addr;
}

/* `before` records had come before the receiver looked last. */
static void note_received(unsigned long before)
{
    if (received > before) {
        last_time = now();
    }
}

static void tell_ready(int ready)
{
    if (write(ready, "x", 1) != 1) {
        fail("write");
    }
}

static void udp_receive(int ready)
{
    struct sockaddr_in addr = address(server_address, PORT);
    struct pollfd p = {.events = POLLIN};
    int timeout = FIRST_MS;
    unsigned long before;

    p.fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    if (bind(p.fd, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
        fail("bind");
    }
    tell_ready(ready);
    while (poll(&p, 1, timeout) > 0) {
        before = received;
        while (((received - before) < BURST) && (recv(p.fd, record, sizeof(record), 0) >= 0)) {
            ++received;
        }
        note_received(before);
        timeout = QUIET_MS;
    }
}

static void udp_send(struct busy *busy)
{
    struct sockaddr_in from = address(client_address, 0), to = address(server_address, PORT);
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    unsigned long sent = 0;
    double start;

    if ((bind(fd, (struct sockaddr *)&from, sizeof(from)) < 0) ||
        (connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0)) {
        fail("connect");
    }
    busy->seconds = -machine_busy();
    busy->start = start = now();
    while (sent < count) {
        while (sent < due(start)) {
            if (send(fd, record, size, 0) < 0) {
                fail("send");
            }
            ++sent;
        }
        if (sent < count) {
            poll(NULL, 0, 1 + (1000 / rate));
        }
    }
    busy->elapsed = now() - start;
    busy->seconds += machine_busy();
}

static void udmon_got(void *arg, const struct udmon_peer *peer, const struct udmon_message *message)
{
    (void)arg;
    (void)peer;
    (void)message;
    ++received;
}

static void udmon_url(char *url, size_t length)
{
    snprintf(url, length, "%s://%s:%d", scheme, server_address, PORT);
}

static void udmon_receive(int ready)
{
    struct udmon_server_callbacks callbacks = {.message = udmon_got};
    struct pollfd p = {.events = POLLIN};
    double quiet = now() + FIRST_MS * 1e-3;
    struct udmon_options options;
    struct udmon_server *server;
    unsigned long before;
    char url[80];

    udmon_options_init(&options);
    options.secret_file = secret_file;
    options.datagram_size = datagram;
    udmon_url(url, sizeof(url));
    if (udmon_server_open(url, &options, &callbacks, NULL, &server) < 0) {
        exit(1);
    }
    tell_ready(ready);
    p.fd = udmon_server_fd(server);
    while ((received == 0) ? (now() < quiet) : ((now() - last_time) < (QUIET_MS * 1e-3))) {
        before = received;
        poll(&p, 1, 200);
        udmon_server_process(server);
        note_received(before);
    }
    udmon_server_close(server);
}

static void client_poll(struct udmon_client *client, int timeout)
{
    struct pollfd p = {.fd = udmon_client_fd(client), .events = POLLIN};

    if ((poll(&p, 1, timeout) > 0) && (udmon_client_process(client) < 0)) {
        exit(1);
    }
}

static int client_has_room(struct udmon_client *client)
{
    struct udmon_stats stats;

    udmon_client_stats(client, &stats);
    return (stats.queued * (size + 8)) < QUEUE;
}

/* A flood would overflow the sender's queue, so the sender waits for room, as with a socket. */
static void udmon_flood(struct udmon_client *client, double start)
{
    unsigned long sent = 0, burst;

    while (sent < count) {
        for (burst = 0; (burst < BURST) && (sent < due(start)); ++burst) {
            udmon_client_send(client, record, size);
            ++sent;
        }
        client_poll(client, ((rate == 0) || (sent < due(start))) ? 0 : 1 + (1000 / rate));
        while (!client_has_room(client)) {
            client_poll(client, 10);
        }
    }
}

static void udmon_send(struct busy *busy)
{
    struct udmon_options options;
    struct udmon_client *client;
    struct udmon_stats stats;
    char url[80];
    double start;

    udmon_options_init(&options);
    options.source = client_address;
    options.secret_file = secret_file;
    options.datagram_size = datagram;
    options.queue_bytes = QUEUE + (2 * BURST * (size + 8));
    udmon_url(url, sizeof(url));
    if (udmon_client_open(url, &options, NULL, NULL, &client) < 0) {
        exit(1);
    }
    while (udmon_client_state(client) != UDMON_CONNECTED) {
        client_poll(client, 100);
    }
    busy->seconds = -machine_busy();
    busy->start = start = now();
    udmon_flood(client, start);
    udmon_client_flush(client); /* nothing follows that the last ones could wait for */
    do {
        client_poll(client, 10);
        udmon_client_stats(client, &stats);
    } while (stats.queued > 0);
    busy->elapsed = now() - start;
    busy->seconds += machine_busy();
    udmon_client_close(client);
}

static void parse(int argc, char **argv)
{
    int option;

    while ((option = getopt(argc, argv, "s:d:r:")) > 0) {
        switch (option) {
        case 's':
            scheme = optarg;
            break;
        case 'd':
            datagram = atol(optarg);
            break;
        case 'r':
            rate = atol(optarg);
            break;
        default:
            exit(2);
        }
    }
    if ((argc - optind) != 5) {
        fprintf(stderr, "usage: udmon_bench [-s SCHEME] [-d DATAGRAM] [-r RATE] udmon|udp SERVER "
                        "CLIENT SIZE COUNT\n");
        exit(2);
    }
    server_address = argv[optind + 1];
    client_address = argv[optind + 2];
    size = atol(argv[optind + 3]);
    count = atol(argv[optind + 4]);
    if ((size < 1) || (size > sizeof(record)) || (count < 2)) {
        fprintf(stderr, "udmon_bench: SIZE is 1 to %zu, COUNT at least 2\n", sizeof(record));
        exit(2);
    }
}

static int sender(int is_udp, int ready, int result)
{
    struct busy busy;
    char byte;

    if (read(ready, &byte, 1) != 1) {
        return 1;
    }
    is_udp ? udp_send(&busy) : udmon_send(&busy);
    return (write(result, &busy, sizeof(busy)) == sizeof(busy)) ? 0 : 1;
}

/* Addresses other than loopback need a secret. */
static void make_secret(void)
{
    int fd = mkstemp(secret_file);

    if ((fd < 0) || (write(fd, "of this run", 11) != 11)) {
        fail("a file for the secret");
    }
    close(fd);
}

int main(int argc, char **argv)
{
    int ready[2], result[2], status, is_udp;
    struct busy busy;
    pid_t pid;

    parse(argc, argv);
    make_secret();
    is_udp = !strcmp(argv[optind], "udp");
    if ((pipe(ready) < 0) || (pipe(result) < 0)) {
        fail("pipe");
    }
    pid = fork();
    if (pid == 0) {
        return sender(is_udp, ready[0], result[1]);
    }
    is_udp ? udp_receive(ready[1]) : udmon_receive(ready[1]);
    unlink(secret_file);
    if ((waitpid(pid, &status, 0) < 0) || (status != 0) || (received < 2) ||
        (read(result[0], &busy, sizeof(busy)) != sizeof(busy))) {
        fprintf(stderr, "udmon_bench: %s: %lu records received, the sender's status is %d\n",
                argv[optind], received, status);
        return 1;
    }
    printf("%s %zu %.0f %.2f %.1f\n", argv[optind], size, received / (last_time - busy.start),
           100.0 * (count - received) / count, 100 * busy.seconds / busy.elapsed);
    return 0;
}

#include "perf.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void on_signal(int number)
{
    (void)number;
    perf_interrupted = 1;
}

/* An endpoint is to be taken down in order, also at ^C. No SA_RESTART: waits are to end. */
static void catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal};

    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
}

static bool list_sizes(struct perf_report *report)
{
    const struct perf_options *options = report->options;
    uint64_t size = options->size_min;

    report->sizes = calloc(64, sizeof(*report->sizes)); /* a factor is at least 2 */
    if (report->sizes == NULL) {
        tool_error("no memory");
        return false;
    }
    while (size <= options->size_max) {
        report->sizes[report->num_sizes++] = (uint32_t)size;
        size = (size == 0) ? 1 : size * options->size_factor;
    }
    return true;
}

/* Memory for the largest put or get, where there will be one. */
static uint64_t region_half(const struct perf_report *report)
{
    uint64_t half = 4096;
    uint32_t kind;

    for (kind = 0; kind < PERF_NUM_KINDS; kind++) {
        if ((report->options->kinds & (1u << kind)) && perf_kinds[kind].op >= PERF_OP_PUT) {
            half = report->sizes[report->num_sizes - 1] + 4095ull;
        }
    }
    return (half < 4096) ? 4096 : half & ~4095ull;
}

static bool print_report(const struct perf_report *report)
{
    if (report->options->json) {
        perf_print_json(report);
    } else {
        perf_print_table(report);
    }
    if (report->num_results == 0) {
        tool_error("nothing of what was asked for can be measured here at these sizes");
        return false;
    }
    return true;
}

static bool run_client(const struct perf_options *options, glex_ep_addr_t server,
                       struct perf_report *report)
{
    struct perf_session s;
    bool ok;

    if (options->pin) {
        perf_pin(options->cpus[0]);
    }
    if (!perf_session_open(&s, options, PERF_CLIENT)) {
        return false;
    }
    report->session = &s;
    ok = perf_session_connect(&s, server, region_half(report));
    if (ok) {
        ok = perf_measure(report, &s);
        perf_session_bye(&s);
        ok = ok && print_report(report);
    }
    report->session = NULL;
    perf_session_close(&s);
    return ok;
}

/* Serves one client. The address goes to a pipe, or to people where `fd` is stdout. */
static bool run_server(const struct perf_options *options, pid_t parent, int fd)
{
    struct perf_session s;
    char line[64];
    bool ok;
    int len;

    if (options->pin) {
        perf_pin(options->cpus[1] != -1 ? options->cpus[1] : options->cpus[0]);
    }
    if (!perf_session_open(&s, options, PERF_SERVER)) {
        return false;
    }
    s.parent = parent;
    len = snprintf(line, sizeof(line), "0x%016" PRIx64 "\n", s.self.v);
    ok = (write(fd, line, (size_t)len) == len);
    if (!ok) {
        tool_error("cannot tell the address: %s", strerror(errno));
    } else {
        if (isatty(STDERR_FILENO) && parent == 0) {
            fprintf(stderr, "waiting; in another terminal: glex_perf --connect %s", line);
        }
        ok = perf_serve(&s);
    }
    perf_session_close(&s);
    return ok;
}

/* The line that the forked server writes; EOF where it could not start, and said why. */
static bool read_address(int fd, glex_ep_addr_t *addr)
{
    char line[64] = "";
    size_t have = 0;
    ssize_t got;

    while (have < sizeof(line) - 1 && strchr(line, '\n') == NULL) {
        got = read(fd, line + have, sizeof(line) - 1 - have);
        if (got == -1 && errno == EINTR && !perf_interrupted) {
            continue;
        }
        if (got <= 0) {
            return false;
        }
        have += (size_t)got;
        line[have] = '\0';
    }
    addr->v = strtoull(line, NULL, 16);
    return true;
}

static bool run_pair(const struct perf_options *options, struct perf_report *report)
{
    pid_t parent = getpid(), child;
    glex_ep_addr_t server;
    int fds[2], status;
    bool ok;

    if (pipe(fds) != 0) {
        tool_error("no pipe: %s", strerror(errno));
        return false;
    }
    child = fork();
    if (child == 0) {
        close(fds[0]);
        signal(SIGINT, SIG_IGN); /* ^C is the client's, which sends this side home */
        exit(run_server(options, parent, fds[1]) ? TOOL_EXIT_OK : TOOL_EXIT_FAIL);
    }
    close(fds[1]);
    if (child == -1) {
        tool_error("cannot fork: %s", strerror(errno));
        close(fds[0]);
        return false;
    }
    ok = read_address(fds[0], &server) && run_client(options, server, report);
    close(fds[0]);
    if (!ok) {
        kill(child, SIGTERM);
    }
    while (waitpid(child, &status, 0) == -1 && errno == EINTR) {
    }
    return ok && status == 0;
}

static bool run_measurement(const struct perf_options *options)
{
    struct perf_report report = {.options = options};
    glex_ep_addr_t server = {.v = options->address};
    bool ok;

    ok = list_sizes(&report) &&
         (options->connect ? run_client(options, server, &report) : run_pair(options, &report));
    perf_report_free(&report);
    return ok;
}

int main(int argc, char **argv)
{
    struct perf_options options;
    int status = perf_parse_options(argc, argv, &options);
    bool ok;

    if (status != -1) {
        return (status != TOOL_EXIT_OK || tool_finish_output()) ? status : TOOL_EXIT_FAIL;
    }
    catch_signals();
    ok = options.server ? run_server(&options, 0, STDOUT_FILENO) : run_measurement(&options);
    return (tool_finish_output() && ok) ? TOOL_EXIT_OK : TOOL_EXIT_FAIL;
}

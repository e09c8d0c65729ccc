/*
 * commatrix: the communication matrix of an application, from captured packets (paper 002). Reads
 * all packets, sums up, shows.
 */
#include "options.h"
#include "read/capture.h"
#include "read/packet.h"
#include "show/show.h"
#include "tool/tool.h"
#include "tool/usage.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { PROGRESS_PACKETS = 1 << 16, DEFAULT_COLUMNS = 100 };

static struct cm_capture *live; /* a signal stops it */

static void on_signal(int signal)
{
    (void)signal;
    cm_capture_stop(live);
}

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* ---- progress -------------------------------------------------------------------------------- */

struct progress {
    bool on;
    uint64_t begin_ns, last_ns;
};

static void show_progress(struct progress *progress, const struct cm_capture *capture,
                          uint64_t packets)
{
    uint64_t now = now_ns();
    double share = cm_capture_progress(capture);

    if (!progress->on || now - progress->last_ns < 500000000) {
        return;
    }
    progress->last_ns = now;
    fprintf(stderr, "\r%.1f M packets", (double)packets * 1e-6);
    if (share >= 0) {
        fprintf(stderr, ", %.0f %%", 100 * share);
    }
    fprintf(stderr, ", %.2f M/s   ", (double)packets * 1e3 / (double)(now - progress->begin_ns));
}

static void end_progress(const struct progress *progress)
{
    if (progress->on && progress->last_ns != progress->begin_ns) {
        fputs("\r\033[K", stderr);
    }
}

/* ---- showing --------------------------------------------------------------------------------- */

static int terminal_columns(void)
{
    struct winsize size;

    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 40 ? size.ws_col :
                                                                              DEFAULT_COLUMNS;
}

static bool written(bool ok, const char *file)
{
    if (!ok) {
        fprintf(stderr, "commatrix: %s could not be written: %s\n", file, strerror(errno));
    }
    return ok;
}

/* A page that a browser may be reading is replaced as a whole. */
static bool write_html(const struct cm_show *show, const char *file)
{
    bool to_stdout = strcmp(file, "-") == 0, ok;
    char *part = g_strconcat(file, ".part", NULL);
    FILE *out = to_stdout ? stdout : fopen(part, "we");

    ok = out != NULL && cm_show_html(show, out);
    if (out != NULL && !to_stdout) {
        ok = fclose(out) == 0 && ok && rename(part, file) == 0;
    }
    g_free(part);
    return ok;
}

static void put_warnings(const struct cm_show *show)
{
    char **warnings = cm_show_warnings(show);
    int i;

    for (i = 0; warnings[i] != NULL; i++) {
        fprintf(stderr, "commatrix: %s\n", warnings[i]);
    }
    if (show->matrix->note != NULL) {
        fprintf(stderr, "commatrix: %s\n", show->matrix->note);
    }
    g_strfreev(warnings);
}

static bool write_all(const struct cm_show *show, const struct cm_options *options)
{
    bool color = isatty(STDOUT_FILENO) && g_getenv("NO_COLOR") == NULL;
    bool ok = true;

    if (options->json) {
        ok &= written(cm_show_json(show, stdout), "standard output");
    } else if (options->csv) {
        ok &= written(cm_show_csv(show, stdout), "standard output");
    } else if (options->explain) {
        ok &= written(cm_show_explain(show, stdout), "standard output");
    } else if (options->table) {
        ok &= written(cm_show_table(show, stdout, terminal_columns(), color), "standard output");
    }
    if (options->svg != NULL) {
        ok &= written(cm_show_svg(show, options->svg), options->svg);
    }
    if (options->png != NULL) {
        ok &= written(cm_show_png(show, options->png), options->png);
    }
    if (options->html != NULL) {
        ok &= written(write_html(show, options->html), options->html);
    }
    if (!options->table && !options->explain) {
        put_warnings(show);
    }
    return ok;
}

static struct cm_map *load_map(const char *name)
{
    char *error = NULL;
    struct cm_map *map = cm_map_load(name, &error);

    if (map == NULL) {
        fprintf(stderr, "commatrix: %s\n", error);
        g_free(error);
    }
    return map;
}

/* Sums up and fills in what the outputs show. Returns false after a message on stderr. */
static bool make_matrix(struct cm_show *show, const struct cm_options *options,
                        const struct cm_map *map)
{
    char *error = NULL;

    show->matrix = cm_matrix_new(show->traffic, map, &options->matrix, &error);
    if (show->matrix == NULL) {
        fprintf(stderr, "commatrix: %s\n", error);
        g_free(error);
    }
    return show->matrix != NULL;
}

/* ---- reading --------------------------------------------------------------------------------- */

static void set_timer(uint64_t ns)
{
    struct itimerspec when = {.it_value = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)}};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
    timer_t timer;

    if (timer_create(CLOCK_MONOTONIC, &event, &timer) == 0) {
        timer_settime(timer, 0, &when, NULL);
    }
}

static struct cm_capture *open_capture(const struct cm_options *options)
{
    struct sigaction action = {.sa_handler = on_signal};
    struct cm_capture_options look = {.earliest = options->traffic.from_ns != 0 ||
                                                  options->traffic.to_ns != 0 ||
                                                  options->traffic.window_ns != 0};

    if (options->interface == NULL) {
        return cm_capture_open(options->files, options->num_files, &look);
    }
    live = cm_capture_live(options->interface);
    if (live != NULL) {
        sigaction(SIGINT, &action, NULL);
        sigaction(SIGTERM, &action, NULL);
        sigaction(SIGALRM, &action, NULL);
        if (options->duration_ns != 0) {
            set_timer(options->duration_ns);
        }
        if (!options->quiet) {
            fprintf(stderr, "commatrix: capturing on %s%s\n", options->interface,
                    options->duration_ns == 0 ? "; Ctrl-C ends it" : "");
        }
    }
    return live;
}

/* A live page is written anew. */
static void refresh(struct cm_show *show, const struct cm_options *options,
                    const struct cm_map *map)
{
    show->dropped = cm_capture_dropped(show->capture);
    if (make_matrix(show, options, map)) {
        written(write_html(show, options->html), options->html);
        cm_matrix_free(show->matrix);
        show->matrix = NULL;
    }
}

static void read_packets(struct cm_show *show, const struct cm_options *options,
                         const struct cm_map *map)
{
    struct progress progress = {.on = !options->quiet && isatty(STDERR_FILENO),
                                .begin_ns = now_ns()};
    uint64_t packets = 0, refreshed = 0;
    bool found;
    struct cm_packet packet;
    struct cm_frame frame;

    progress.last_ns = progress.begin_ns;
    while (!cm_capture_stopped(show->capture)) {
        found = cm_capture_next(show->capture, &frame);
        if (found) {
            cm_packet_parse(&packet, frame.link_type, frame.data, frame.captured, frame.wire);
            packet.time_ns = frame.time_ns;
            cm_traffic_add(show->traffic, &packet, frame.captured);
            packets++;
        }
        if (packets % PROGRESS_PACKETS == 0) {
            show_progress(&progress, show->capture, packets);
        }
        if (options->refresh_ns != 0 && (!found || (packets & 0xff) == 0) &&
            now_ns() - refreshed >= options->refresh_ns) {
            refreshed = now_ns();
            refresh(show, options, map);
        }
    }
    end_progress(&progress);
}

/* ---- all of it ------------------------------------------------------------------------------- */

static int run(const struct cm_options *options, const struct cm_map *map,
               const struct cm_topology *topology)
{
    struct cm_traffic_options traffic = options->traffic;
    struct cm_show show = {.count = options->count,
                           .log_scale = !options->linear,
                           .hide_diagonal = options->hide_diagonal,
                           .refresh_s = (unsigned)(options->refresh_ns / 1000000000),
                           .job = options->matrix.job,
                           .topology = topology,
                           .title =
                               options->title != NULL ? options->title : "Communication matrix"};
    int status = CM_EXIT_ERROR;

    show.capture = open_capture(options);
    if (show.capture == NULL) {
        return CM_EXIT_ERROR;
    }
    traffic.zero_ns = cm_capture_earliest(show.capture);
    show.traffic = cm_traffic_new(&traffic);
    read_packets(&show, options, map);
    show.dropped = cm_capture_dropped(show.capture);
    show.refresh_s = 0;
    cm_traffic_finish(show.traffic);
    if (!make_matrix(&show, options, map)) {
        status = CM_EXIT_USAGE;
    } else {
        status = !write_all(&show, options)       ? CM_EXIT_ERROR :
                 cm_capture_damaged(show.capture) ? CM_EXIT_DAMAGED :
                                                    CM_EXIT_OK;
        cm_matrix_free(show.matrix);
    }
    cm_capture_close(show.capture);
    cm_traffic_free(show.traffic);
    return status;
}

static struct cm_topology *load_topology(const char *name)
{
    char *error = NULL;
    struct cm_topology *topology = cm_topology_load(name, &error);

    if (topology == NULL) {
        fprintf(stderr, "commatrix: %s\n", error);
        g_free(error);
    }
    return topology;
}

int main(int argc, char **argv)
{
    struct cm_options options;
    struct cm_map *map = NULL;
    struct cm_topology *topology = NULL;
    int status;

    if (argc > 1 && strcmp(argv[1], "diff") == 0) {
        return cm_tool_diff(argc - 1, argv + 1);
    }
    if (argc > 1 && strcmp(argv[1], "place") == 0) {
        return cm_tool_place(argc - 1, argv + 1);
    }
    cm_options_read(&options, argc, argv);
    if (options.map != NULL && (map = load_map(options.map)) == NULL) {
        return CM_EXIT_USAGE;
    }
    if (options.topology != NULL && (topology = load_topology(options.topology)) == NULL) {
        cm_map_free(map);
        return CM_EXIT_USAGE;
    }
    status = run(&options, map, topology);
    cm_map_free(map);
    if (topology != NULL) {
        cm_topology_free(topology);
    }
    return status;
}

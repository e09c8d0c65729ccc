/*
 * commatrix: the communication matrix of an application, from packets that were captured (paper
 * 002). Reads all packets, sums up, shows.
 */
#include "options.h"
#include "read/capture.h"
#include "read/packet.h"
#include "show/show.h"
#include "tool/tool.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { PROGRESS_PACKETS = 1 << 16, DEFAULT_COLUMNS = 100 };

static struct cm_capture *live; /* to be stopped by a signal */

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

/* ---- progress, on what lasts ----------------------------------------------------------------- */

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

/* ---- reading --------------------------------------------------------------------------------- */

static void read_packets(struct cm_traffic *traffic, struct cm_capture *capture, bool quiet)
{
    struct progress progress = {.on = !quiet && isatty(STDERR_FILENO), .begin_ns = now_ns()};
    struct cm_packet packet;
    struct cm_frame frame;
    uint64_t packets = 0;

    progress.last_ns = progress.begin_ns;
    while (cm_capture_next(capture, &frame)) {
        cm_packet_parse(&packet, frame.link_type, frame.data, frame.captured, frame.wire);
        packet.time_ns = frame.time_ns;
        cm_traffic_add(traffic, &packet, frame.captured);
        if (++packets % PROGRESS_PACKETS == 0) {
            show_progress(&progress, capture, packets);
        }
    }
    end_progress(&progress);
}

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

    if (options->interface == NULL) {
        return cm_capture_open(options->files, options->num_files);
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

/* ---- showing --------------------------------------------------------------------------------- */

static int terminal_columns(void)
{
    struct winsize size;

    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 40 ? size.ws_col
                                                                            : DEFAULT_COLUMNS;
}

static bool written(bool ok, const char *file)
{
    if (!ok) {
        fprintf(stderr, "commatrix: %s could not be written: %s\n", file, strerror(errno));
    }
    return ok;
}

static bool write_html(const struct cm_show *show, const char *file)
{
    FILE *out = strcmp(file, "-") == 0 ? stdout : fopen(file, "we");
    bool ok = out != NULL && cm_show_html(show, out);

    if (out != NULL && out != stdout && fclose(out) != 0) {
        ok = false;
    }
    return ok;
}

static bool write_all(const struct cm_show *show, const struct cm_options *options)
{
    bool color = isatty(STDOUT_FILENO) && g_getenv("NO_COLOR") == NULL;
    bool ok = true;

    if (options->json) {
        ok &= written(cm_show_json(show, stdout), "standard output");
    } else if (options->csv) {
        ok &= written(cm_show_csv(show, stdout), "standard output");
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
    if (!options->table && show->matrix->note != NULL) {
        fprintf(stderr, "commatrix: %s\n", show->matrix->note);
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

static int run(const struct cm_options *options, const struct cm_map *map)
{
    struct cm_capture *capture = open_capture(options);
    struct cm_show show = {.count = options->count,
                           .log_scale = !options->linear,
                           .title =
                               options->title != NULL ? options->title : "Communication matrix"};
    struct cm_traffic *traffic;
    struct cm_matrix *matrix;
    bool ok;

    if (capture == NULL) {
        return CM_EXIT_ERROR;
    }
    traffic = cm_traffic_new(&options->traffic);
    read_packets(traffic, capture, options->quiet);
    show.damaged = cm_capture_damaged(capture);
    show.dropped = cm_capture_dropped(capture);
    cm_capture_close(capture);
    cm_traffic_finish(traffic);
    matrix = cm_matrix_new(traffic, map, options->by);
    show.traffic = traffic;
    show.matrix = matrix;
    ok = write_all(&show, options);
    cm_matrix_free(matrix);
    cm_traffic_free(traffic);
    return !ok ? CM_EXIT_ERROR : show.damaged ? CM_EXIT_DAMAGED : CM_EXIT_OK;
}

int main(int argc, char **argv)
{
    struct cm_options options;
    struct cm_map *map = NULL;
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
    status = run(&options, map);
    cm_map_free(map);
    return status;
}

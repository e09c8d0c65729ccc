/* mcsm: the subnet manager of one logical cluster. */
#include "ctl/daemon.h"

#include "base/journal.h"
#include "ctl/ctl.h"
#include "ctl/hook.h"
#include "ctl/metrics.h"
#include "sm/keys.h"
#include "standby/drains.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum {
    TICK = 20, /* milliseconds between two checks of timeouts */
    EXIT_USAGE = 2,
    EXIT_CONFIG = 3
};

static const char usage[] =
    "Usage: mcsm -f FILE [--foreground]\n"
    "       mcsm --check-config FILE...\n"
    "\n"
    "The subnet manager of one logical cluster of an InfiniBand fabric.\n"
    "\n"
    "  -f, --config FILE    the cluster's configuration, see mcsm.conf(5)\n"
    "      --foreground     stay in the foreground and log to stderr\n"
    "      --check-config   only read the files, and say what is wrong in them\n"
    "  -v, --verbose        log what helps to find errors\n"
    "      --version        print the version\n"
    "  -h, --help           print this\n"
    "\n"
    "Signals: HUP reads the configuration anew, USR1 sweeps, TERM ends. Exit codes: 0 ended as "
    "asked,\n"
    "1 failed, 2 wrong command line, 3 wrong configuration.\n";

/* ---- reports of the manager ---- */

static void on_swept(void *arg)
{
    struct mcsm_daemon *daemon = arg;

    mcsm_sa_swept(daemon->sa);
    mcsm_health_swept(daemon->health, mcsm_now());
    mcsm_metrics_write(daemon);
}

static void on_end_port(void *arg, uint64_t port_guid, bool there)
{
    struct mcsm_daemon *daemon = arg;

    mcsm_sa_end_port(daemon->sa, port_guid, there);
}

static void on_trap(void *arg, const uint8_t notice[80])
{
    struct mcsm_daemon *daemon = arg;

    mcsm_sa_notice(daemon->sa, notice);
}

static void on_state(void *arg, uint8_t state)
{
    struct mcsm_daemon *daemon = arg;

    if (daemon->sa != NULL) {
        mcsm_sa_state(daemon->sa, state);
    }
    mcsm_umad_set_sm(daemon->umad, true);
}

static void on_event(void *arg, const struct mcsm_event *event)
{
    struct mcsm_daemon *daemon = arg;

    mcsm_hook_run(daemon->config, event);
}

static void on_members(void *arg, uint16_t mlid, void (*leaf)(void *, uint64_t, bool),
                       void *leaf_arg)
{
    struct mcsm_daemon *daemon = arg;

    mcsm_sa_members(daemon->sa, mlid, leaf, leaf_arg);
}

static bool on_ready(void *arg, uint64_t guid)
{
    struct mcsm_daemon *daemon = arg;

    return mcsm_standbys_ready(daemon->standbys, guid);
}

static void on_drained(void *arg, uint64_t guid, uint8_t port, bool on)
{
    struct mcsm_daemon *daemon = arg;

    mcsm_drains_send(daemon->standbys, guid, port, on);
}

/* ---- life ---- */

/* The manager and its administration; the requests of `daemon` are there already. */
static int start(struct mcsm_daemon *daemon)
{
    const struct mcsm_config *config = daemon->config;
    struct mcsm_sm_events events = {daemon,   on_swept,   on_end_port, on_trap,   on_state,
                                    on_event, on_members, on_ready,    on_drained};

    mcsm_journal_open(MCSM_JOURNAL_SOCKET, config->name);
    mcsm_mads_limits(daemon->smps, config->window, config->timeout, config->retries);
    mcsm_mads_limits(daemon->reports, 16, config->timeout, 2);
    mcsm_mads_limits(daemon->polls, config->window, config->timeout, 1);
    daemon->sm = mcsm_sm_new(config, daemon->smps, mcsm_umad_port_guid(daemon->umad), &events);
    if (daemon->sm == NULL) {
        return -ENOMEM;
    }
    daemon->standbys = mcsm_standbys_new(daemon->sm, daemon->reports);
    if (daemon->standbys == NULL) {
        return -ENOMEM;
    }
    mcsm_drains_offer(daemon->standbys, daemon->sm);
    mcsm_health_attach(daemon->health, daemon->sm, daemon->standbys);
    daemon->sa = mcsm_sa_new(daemon->sm, daemon->reports, daemon->standbys);
    return daemon->sa ? 0 : -ENOMEM;
}

/* Drops all requests. A later answer matches no transaction ID and is ignored. */
static void stop(struct mcsm_daemon *daemon)
{
    mcsm_sa_free(daemon->sa);
    mcsm_standbys_free(daemon->standbys);
    mcsm_sm_free(daemon->sm);
    daemon->sa = NULL;
    daemon->standbys = NULL;
    daemon->sm = NULL;
    mcsm_mads_reset(daemon->smps);
    mcsm_mads_reset(daemon->reports);
    mcsm_mads_reset(daemon->polls);
}

static int open_requests(struct mcsm_daemon *daemon)
{
    daemon->smps = mcsm_mads_new(1, 1, 0, mcsm_umad_send, daemon->umad);
    daemon->reports = mcsm_mads_new(1, 1, 0, mcsm_umad_send, daemon->umad);
    daemon->polls = mcsm_mads_new(1, 1, 0, mcsm_umad_send, daemon->umad);
    daemon->health = daemon->polls ? mcsm_health_new(daemon->polls) : NULL;
    return daemon->smps && daemon->reports && daemon->health ? 0 : -ENOMEM;
}

static void close_requests(struct mcsm_daemon *daemon)
{
    mcsm_mads_free(daemon->smps);
    mcsm_mads_free(daemon->reports);
    mcsm_health_free(daemon->health);
    mcsm_mads_free(daemon->polls);
}

/* Reads the configuration. Errors go to the log, because a daemon has no stderr. */
static struct mcsm_config *read_again(const char *path)
{
    char *said = NULL;
    size_t size;
    FILE *err = open_memstream(&said, &size);
    struct mcsm_config *config = err ? mcsm_config_read(path, err) : NULL;

    if (err != NULL) {
        fclose(err);
    }
    mcsm_log_lines(MCSM_LOG_ERROR, said);
    free(said);
    return config;
}

/* A wrong configuration changes nothing. Clients know their groups and services, and are asked to
 * register again. */
static void reload(struct mcsm_daemon *daemon)
{
    struct mcsm_config *config = read_again(daemon->config->path);
    struct mcsm_drains drains = {NULL};
    bool disabled;

    if (daemon->log_file && mcsm_log_open(daemon->config->log_file) < 0) { /* logrotate moved it */
        mcsm_warn("%s cannot be opened: the old file stays in use", daemon->config->log_file);
    }
    if (config == NULL) {
        mcsm_error("%s has errors: the old configuration stays in force", daemon->config->path);
        return;
    }
    if (mcsm_keys_complete(config) < 0) {
        mcsm_error("the old configuration stays in force");
        mcsm_config_free(config);
        return;
    }
    if (strcmp(config->socket, daemon->config->socket) != 0 ||
        strcmp(config->log_file, daemon->config->log_file) != 0 ||
        config->port_guid != daemon->config->port_guid) {
        mcsm_warn("socket, log-file and port-guid change only with a restart");
    }
    /* The old log file stays in use, so the configuration must name it. */
    strcpy(config->log_file, daemon->config->log_file);
    mcsm_info("%s is read anew", config->path);
    disabled = daemon->sm->election.state == MCSM_SM_NOTACTIVE_STATE;
    mcsm_drains_move(&daemon->sm->drains, &drains);
    stop(daemon);
    mcsm_config_free(daemon->config);
    daemon->config = config;
    mcsm_log_set_level(daemon->verbose ? MCSM_LOG_DEBUG : config->log_level);
    if (start(daemon) < 0) {
        mcsm_error("out of memory");
        exit(EXIT_FAILURE);
    }
    if (disabled) { /* by another manager, which alone can end that */
        daemon->sm->election.state = MCSM_SM_NOTACTIVE_STATE;
    }
    /* Orders of the administrator survive a new configuration. */
    mcsm_drains_move(&drains, &daemon->sm->drains);
}

static void dispatch(struct mcsm_daemon *daemon, const struct mcsm_packet *packet)
{
    bool state = packet->mad[MCSM_MAD_CLASS] == MCSM_CLASS_STATE;
    bool sa = packet->mad[MCSM_MAD_CLASS] == MCSM_CLASS_SA || state;

    if (packet->mad[MCSM_MAD_CLASS] == MCSM_CLASS_PERF) {
        mcsm_mads_receive(daemon->polls, packet->mad, packet->error);
        return;
    }
    if (mcsm_mads_receive(sa ? daemon->reports : daemon->smps, packet->mad, packet->error)) {
        return;
    }
    if (state) {
        mcsm_standbys_receive(daemon->standbys, &packet->from, packet->mad);
    } else if (sa) {
        mcsm_sa_receive(daemon->sa, &packet->from, packet->mad, packet->length);
    } else {
        mcsm_sm_receive(daemon->sm, &packet->from, packet->mad);
    }
}

static void take_packets(struct mcsm_daemon *daemon)
{
    struct mcsm_packet *packet = mcsm_umad_take(daemon->umad), *next;

    for (; packet != NULL; packet = next) {
        next = packet->next;
        dispatch(daemon, packet);
        free(packet);
    }
}

/* False with errno. */
static bool watch(int epoll, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

    return fd >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

/* False when the daemon shall end. */
static bool take_signal(struct mcsm_daemon *daemon, int fd)
{
    struct signalfd_siginfo info;

    if (read(fd, &info, sizeof(info)) != sizeof(info)) {
        return true;
    }
    switch (info.ssi_signo) {
    case SIGHUP:
        reload(daemon);
        return true;
    case SIGUSR1:
        mcsm_sm_sweep(daemon->sm);
        return true;
    default:
        mcsm_info("ending by signal %u", info.ssi_signo);
        return false;
    }
}

static void loop(struct mcsm_daemon *daemon, int signals, int timer)
{
    struct epoll_event events[32];
    bool go_on = true;
    uint64_t ticks;

    while (go_on) {
        int count = epoll_wait(daemon->epoll, events, 32, -1);

        for (int i = 0; i < count && go_on; i++) {
            int fd = events[i].data.fd;

            if (fd == mcsm_umad_fd(daemon->umad)) {
                take_packets(daemon);
            } else if (fd == signals) {
                go_on = take_signal(daemon, fd);
            } else if (fd == timer && read(fd, &ticks, sizeof(ticks)) == sizeof(ticks)) {
                mcsm_mads_tick(daemon->reports, mcsm_now());
            } else if (fd != timer) {
                mcsm_ctl_event(daemon->ctl, fd, events[i].events);
            }
        }
        if (go_on) {
            mcsm_sm_run(daemon->sm, mcsm_now());
            mcsm_sa_run(daemon->sa, mcsm_now());
            mcsm_health_run(daemon->health, mcsm_now());
        }
    }
}

static int open_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGCHLD, SIG_IGN); /* event commands are not waited for */
    sigprocmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int run(struct mcsm_daemon *daemon)
{
    struct itimerspec every = {{0, TICK * 1000000L}, {0, TICK * 1000000L}};
    int signals = open_signals(); /* before the receiving thread, which inherits the mask */
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    int status = mcsm_umad_open(daemon->config->port_guid, &daemon->umad);

    daemon->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (status == 0) {
        status = open_requests(daemon);
    }
    if (status == 0) {
        status = start(daemon);
    }
    if (status == 0) {
        status = mcsm_ctl_open(daemon, &daemon->ctl);
    }
    if (status == 0 &&
        (timerfd_settime(timer, 0, &every, NULL) < 0 || !watch(daemon->epoll, timer) ||
         !watch(daemon->epoll, signals) || !watch(daemon->epoll, mcsm_umad_fd(daemon->umad)))) {
        status = -errno;
    }
    if (status == 0) {
        mcsm_umad_set_sm(daemon->umad, true);
        mcsm_info("cluster %s starts on port 0x%016lx", daemon->config->name,
                  mcsm_umad_port_guid(daemon->umad));
        loop(daemon, signals, timer);
    }
    mcsm_ctl_close(daemon->ctl);
    if (daemon->sm != NULL) {
        stop(daemon);
    }
    close_requests(daemon);
    mcsm_umad_close(daemon->umad);
    close(daemon->epoll);
    close(timer);
    close(signals);
    return status;
}

static int check_files(char **paths, int count)
{
    int bad = 0;

    if (count == 0) {
        fputs("mcsm: --check-config needs a file (--help)\n", stderr);
        return EXIT_USAGE;
    }
    for (int i = 0; i < count; i++) {
        struct mcsm_config *config = mcsm_config_read(paths[i], stderr);

        bad += config == NULL;
        if (config != NULL) {
            printf("%s: cluster %s, LIDs %u-%u, %s routing, %zu border ports, %zu neighbours\n",
                   paths[i], config->name, config->lids.from, config->lids.to,
                   mcsm_engine_name(config->engine), config->border_count, config->neighbour_count);
        }
        mcsm_config_free(config);
    }
    return bad ? EXIT_CONFIG : 0;
}

static int serve(const char *path, bool foreground, bool verbose)
{
    struct mcsm_daemon state = {
        .config = mcsm_config_read(path, stderr), .verbose = verbose, .started = time(NULL)};
    int status;

    if (state.config == NULL) {
        return EXIT_CONFIG;
    }
    mcsm_log_set_level(verbose ? MCSM_LOG_DEBUG : state.config->log_level);
    if (mkdir(state.config->state_dir, 0755) < 0 && errno != EEXIST) {
        mcsm_warn("%s: %s: LIDs will not outlive a restart unless the ports keep them",
                  state.config->state_dir, strerror(errno));
    }
    if (mcsm_keys_complete(state.config) < 0) {
        mcsm_config_free(state.config);
        return EXIT_CONFIG;
    }
    if (state.config->log_file[0] != '\0' && !foreground) {
        state.log_file = mcsm_log_open(state.config->log_file) == 0;
        if (!state.log_file) {
            mcsm_warn("%s cannot be opened: logging to stderr", state.config->log_file);
        }
    }
    /* Without a log file stderr stays open: it is the only place for messages. */
    if (!foreground && daemon(1, !state.log_file) < 0) {
        mcsm_warn("cannot go into the background: %s", strerror(errno));
    }
    status = run(&state);
    mcsm_config_free(state.config);
    return status < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"config", required_argument, NULL, 'f'},
                                            {"foreground", no_argument, NULL, 'F'},
                                            {"check-config", no_argument, NULL, 'C'},
                                            {"verbose", no_argument, NULL, 'v'},
                                            {"version", no_argument, NULL, 'V'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    bool foreground = false, check = false, verbose = false;
    const char *path = NULL;
    int option;

    while ((option = getopt_long(argc, argv, "f:vh", options, NULL)) != -1) {
        switch (option) {
        case 'f':
            path = optarg;
            break;
        case 'F':
            foreground = true;
            break;
        case 'C':
            check = true;
            break;
        case 'v':
            verbose = true;
            break;
        case 'V':
            puts("mcsm " PACKAGE_VERSION);
            return 0;
        case 'h':
            fputs(usage, stdout);
            return 0;
        default:
            fputs(usage, stderr);
            return EXIT_USAGE;
        }
    }
    if (check) {
        return check_files(argv + optind, argc - optind);
    }
    if (path == NULL || optind < argc) {
        fputs(usage, stderr);
        return EXIT_USAGE;
    }
    return serve(path, foreground, verbose);
}

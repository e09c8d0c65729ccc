/* inmd: the management server. */
#include "act/chips.h"
#include "act/plan.h"
#include "act/routes.h"
#include "core/inmd.h"
#include "http/api.h"
#include "http/auth.h"
#include "http/http.h"
#include "openglex.h"
#include "watch/alarms.h"
#include "watch/alerts.h"
#include "watch/inventory.h"
#include "watch/load.h"
#include "watch/region.h"
#include "watch/snapshot.h"
#include "watch/status.h"

#include <curl/curl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#define RETRY_SECONDS     1.0 /* until the next try to find a lost network */
#define RETRY_MAX_SECONDS 8.0 /* the pause doubles up to this while nothing can be connected */

#define INVENTORY_SECONDS 3600.0

static struct inmd server;

static const char usage[] =
    "Usage: inmd [-f FILE] [OPTION]...\n"
    "Manage a network in band: discover, watch, alarm, configure; serve a page.\n\n"
    "  -f, --config FILE    configuration; see inmd.conf(5)\n"
    "      --fabric PATH    socket of the network, instead of the configuration's\n"
    "      --check          check the configuration and end\n"
    "      --add-user NAME=ROLE  add a user (viewer, operator, administrator), or change the\n"
    "                       password, which is read from standard input; and end\n"
    "      --openapi        print the HTTP interface as OpenAPI and end\n"
    "  -h, --help           show this text\n"
    "  -V, --version        show the version\n\n"
    "Exit status: 0 success, 1 no database or address, 2 wrong use or configuration.\n";

static void on_signal(int number)
{
    (void)number;
    server.stop = 1;
}

/* ---- threads --------------------------------------------------------------------------------- */

/* Discovers the network, enables the reports of the chips, and plans the next try if there is no
 * network. */
static void look_again(struct inmd *d)
{
    enum inm_network network = discover_all(d);

    pthread_mutex_lock(&d->lock);
    alarms_update(d);
    if (network != NETWORK_OK) {
        d->rediscover =
            now_seconds() + (network == NETWORK_WRONG_TOPOLOGY ? RETRY_MAX_SECONDS : RETRY_SECONDS);
    }
    pthread_mutex_unlock(&d->lock);
    push_config(d, d->config.first_cabinet, d->config.last_cabinet);
}

/* Reports become events at once, and alarms 20 times a second at most. */
static void *report_thread(void *arg)
{
    static struct net_report reports[4096];
    struct inmd *d = arg;
    double last = 0, touched = 0, now, retry = 0, pause = RETRY_SECONDS;
    bool again, connected, alive = true;
    uint32_t num, i;

    while (!d->stop) {
        if (net_alive(d->net)) {
            num = net_reports(d->net, reports, 4096, 50);
            pause = RETRY_SECONDS;
        } else {
            usleep(50000);
            num = 0;
        }
        now = now_seconds();
        connected = !net_alive(d->net) && now >= retry && net_connect(d->net);
        if (!net_alive(d->net) && now >= retry) {
            retry = now + pause;
            pause = pause * 2 < RETRY_MAX_SECONDS ? pause * 2 : RETRY_MAX_SECONDS;
        }
        pthread_mutex_lock(&d->lock);
        for (i = 0; i < num; i++) {
            status_report(d, &reports[i]);
        }
        if (num > 0 && now - touched > 0.2) {
            touched = now;
            inmd_touch(d);
        }
        if (alive != net_alive(d->net)) {
            alive = !alive;
            d->dirty = true;
        }
        /* Once a second also without a report: some conditions end by themselves. */
        if ((d->dirty && now - last >= 0.05) || now - last >= 1) {
            alarms_update(d);
            last = now;
        }
        again = (d->rediscover != 0 && now >= d->rediscover) || connected;
        if (again) {
            d->rediscover = 0;
        }
        pthread_mutex_unlock(&d->lock);
        if (again && net_alive(d->net) && pthread_mutex_trylock(&d->busy) == 0) {
            look_again(d);
            pthread_mutex_unlock(&d->busy);
        } else if (again) {
            pthread_mutex_lock(&d->lock);
            d->rediscover = now + 1; /* something long is running */
            pthread_mutex_unlock(&d->lock);
        }
    }
    return NULL;
}

static void sample(struct inmd *d)
{
    struct load_sum sums[INM_LEVEL_NUM][2] = {0};
    struct net_stats n;
    double now = now_seconds();
    uint32_t level;
    char name[64];
    int up;

    net_get_stats(d->net, &n);
    history_sample(d->history, now, "requests", (double)n.requests);
    history_sample(d->history, now, "reports", (double)n.reports);
    history_sample(d->history, now, "alarms", d->num_alarms);
    history_sample(d->history, now, "poll_seconds", d->poll_seconds);
    pthread_mutex_lock(&d->lock);
    if (d->load->seconds > 0) {
        for (level = INM_LEVEL_BOTTOM_EDGE; level < INM_LEVEL_NUM; level++) {
            for (up = 0; up < 2; up++) {
                load_of_level(d, level, up, &sums[level][up]);
            }
        }
    }
    pthread_mutex_unlock(&d->lock);
    for (level = INM_LEVEL_BOTTOM_EDGE; level < INM_LEVEL_NUM; level++) {
        for (up = 0; up < 2; up++) {
            if (sums[level][up].links > 0) {
                snprintf(name, sizeof(name), "load %s %s", inm_level_name(level),
                         up ? "up" : "down");
                history_sample(d->history, now, name, sums[level][up].most);
            }
        }
    }
}

static bool poll_due(struct inmd *d, double *next)
{
    double now = now_seconds();
    bool due;

    pthread_mutex_lock(&d->lock);
    due = now >= *next && strcmp(d->config.poll_mode, "single") != 0;
    if (due) {
        *next = now + d->config.poll_ms * 1e-3;
    }
    pthread_mutex_unlock(&d->lock);
    return due;
}

static void *poll_thread(void *arg)
{
    struct inmd *d = arg;
    double next = now_seconds() + d->config.poll_ms * 1e-3, trim = now_seconds();
    double thin = now_seconds() + 60, inventory = 0;

    while (!d->stop) {
        usleep(50000);
        if (poll_due(d, &next) && net_alive(d->net) && pthread_mutex_trylock(&d->busy) == 0) {
            poll_chips(d);
            load_poll(d);
            if (now_seconds() >= inventory) {
                inventory = now_seconds() + INVENTORY_SECONDS;
                inventory_read(d);
            }
            pthread_mutex_unlock(&d->busy);
            sample(d);
            snapshot_take(d);
        }
        if (now_seconds() >= thin) {
            thin = now_seconds() + 600;
            snapshot_thin(d);
        }
        if (now_seconds() >= trim) {
            trim = now_seconds() + 86400;
            history_trim(d->history, d->config.keep_days);
        }
    }
    return NULL;
}

static void *history_thread(void *arg)
{
    struct inmd *d = arg;

    while (!d->stop) {
        usleep(200000);
        history_flush(d->history);
    }
    return NULL;
}

static void *alert_thread(void *arg)
{
    struct inmd *d = arg;

    while (!d->stop) {
        usleep(500000);
        alerts_run(d);
    }
    return NULL;
}

static void *region_thread(void *arg)
{
    struct inmd *d = arg;

    while (!d->stop) {
        usleep(d->config.heartbeat_ms * 1000);
        regions_watch(d);
    }
    return NULL;
}

/* ---- start and end --------------------------------------------------------------------------- */

/* A run that does not log its end was killed. */
static void log_start(struct inmd *d)
{
    char state[16] = "", text[200];

    history_get_setting(d->history, "run", state, sizeof(state));
    snprintf(text, sizeof(text), "inmd " PACKAGE_VERSION " starts, topology %s%s", d->topo->name,
             strcmp(state, "running") == 0 ? "; the run before did not end in order" : "");
    history_log(d->history, &(struct log_entry){.kind = "start", .text = text});
    history_setting(d->history, "run", "running");
}

static void log_stop(struct inmd *d)
{
    history_log(d->history, &(struct log_entry){.kind = "stop", .text = "inmd stops"});
    history_setting(d->history, "run", "ended");
}

static bool open_all(struct inmd *d)
{
    struct net_options options = {d->config.window, d->config.timeout_ms, d->config.retries};
    char error[600], nic[16];
    uint32_t chip;

    d->topo = inm_topo_make(d->config.topology, error, sizeof(error));
    if (d->topo == NULL) {
        inm_log(LOG_ERR, "%s", error);
        return false;
    }
    if (d->config.fabric[0] != '\0') {
        setenv("GLEX_INM", d->config.fabric, 1);
    }
    if (d->config.nic != INM_NONE) {
        snprintf(nic, sizeof(nic), "%u", d->config.nic);
        setenv("GLEX_INM_NIC", nic, 1);
        chip = inm_topo_find(d->topo, NMP_CHIP_NIC, d->config.nic);
        if (chip == INM_NONE) {
            inm_log(LOG_ERR, "[network] nic = %u: topology %s has no such NIC", d->config.nic,
                    d->topo->name);
            return false;
        }
        d->topo->server = chip;
    }
    d->history = history_open(d->config.database, error, sizeof(error));
    if (d->history == NULL) {
        inm_log(LOG_ERR, "%s", error);
        return false;
    }
    d->auth = auth_open(d->history, &d->config);
    d->net = d->auth != NULL ? net_open(&options) : NULL;
    if (d->net == NULL) {
        return false;
    }
    if (!status_init(d) || !found_init(d->topo, &d->found)) {
        inm_log(LOG_ERR, "no memory");
        return false;
    }
    if (!plan_init(d) || !load_init(d) || !alerts_init(d)) {
        inm_log(LOG_ERR, "no memory");
        return false;
    }
    log_start(d);
    alarms_restore(d);
    d->next_event = history_last_event(d->history) + 1;
    return true;
}

static void close_all(struct inmd *d)
{
    if (d->net != NULL) {
        net_close(d->net);
    }
    if (d->auth != NULL) {
        auth_close(d->auth);
    }
    if (d->history != NULL) {
        history_close(d->history);
    }
    routes_clear(d->topo, &(struct routes){.tables = d->tables,
                                           .load = d->table_load,
                                           .connected = d->table_connected});
    plan_free(d);
    load_free(d);
    alerts_free(d);
    status_free(d);
    found_free(&d->found);
    inm_topo_free(d->topo);
}

static int run(struct inmd *d)
{
    void *(*const mains[])(void *) = {report_thread, poll_thread, history_thread, region_thread,
                                      alert_thread};
    pthread_t threads[5];
    struct http *http;
    int i, status = 1;

    d->started = now_seconds();
    pthread_mutex_init(&d->lock, NULL);
    pthread_mutex_init(&d->busy, NULL);
    pthread_cond_init(&d->changed, NULL);
    if (!open_all(d)) {
        goto out;
    }
    net_connect(d->net);
    look_again(d);
    poll_chips(d);
    http = http_start(d);
    if (http == NULL) {
        goto out;
    }
    if (d->config.port != 0) {
        inm_log(LOG_NOTICE, "page at %s://%s:%u/", d->config.tls_cert[0] != '\0' ? "https" : "http",
                d->config.address, d->config.port);
    }
    for (i = 0; i < 5; i++) {
        if (pthread_create(&threads[i], NULL, mains[i], d) != 0) {
            inm_log(LOG_ERR, "no thread");
            d->stop = 1;
            break;
        }
    }
    while (!d->stop) {
        usleep(100000);
    }
    while (--i >= 0) {
        pthread_join(threads[i], NULL);
    }
    pthread_mutex_lock(&d->lock);
    inmd_touch(d); /* ends the streams */
    pthread_mutex_unlock(&d->lock);
    http_stop(http);
    log_stop(d);
    status = 0;
out:
    close_all(d);
    return status;
}

/* ---- command line ---------------------------------------------------------------------------- */

static bool read_password(char *password, size_t size)
{
    struct termios old, quiet;
    bool terminal = tcgetattr(STDIN_FILENO, &old) == 0, ok;

    if (terminal) {
        fprintf(stderr, "Password: ");
        quiet = old;
        quiet.c_lflag &= (tcflag_t)~ECHO;
        tcsetattr(STDIN_FILENO, TCSAFLUSH, &quiet);
    }
    ok = fgets(password, (int)size, stdin) != NULL;
    if (terminal) {
        tcsetattr(STDIN_FILENO, TCSAFLUSH, &old);
        fputc('\n', stderr);
    }
    password[strcspn(password, "\n")] = '\0';
    return ok;
}

static int add_user(struct inmd *d, char *spec)
{
    char password[300], error[400], *role = strchr(spec, '=');
    bool ok;

    if (role == NULL || auth_role_parse(role + 1) == ROLE_NONE) {
        fprintf(stderr, "inmd: --add-user NAME=viewer|operator|administrator\n");
        return 2;
    }
    *role++ = '\0';
    d->history = history_open(d->config.database, error, sizeof(error));
    if (d->history == NULL) {
        fprintf(stderr, "inmd: %s\n", error);
        return 1;
    }
    d->auth = auth_open(d->history, &d->config);
    ok = d->auth != NULL && read_password(password, sizeof(password)) &&
         auth_set_user(d->auth, spec, auth_role_parse(role), password);
    if (ok) {
        history_log(d->history,
                    &(struct log_entry){.kind = "change", .user = "console", .text = "add-user"});
    } else {
        fprintf(stderr, "inmd: not added: the name has letters, digits, . _ -; the password 8 to "
                        "256 characters\n");
    }
    if (d->auth != NULL) {
        auth_close(d->auth);
    }
    history_close(d->history);
    return ok ? 0 : 2;
}

int main(int argc, char **argv)
{
    static const struct option table[] = {
        {"config", required_argument, NULL, 'f'}, {"fabric", required_argument, NULL, 1},
        {"check", no_argument, NULL, 2},          {"openapi", no_argument, NULL, 4},
        {"add-user", required_argument, NULL, 3}, {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},      {NULL, 0, NULL, 0}};
    struct sigaction action = {.sa_handler = on_signal};
    const char *config = NULL, *fabric = NULL;
    char error[600], *user = NULL;
    bool check = false;
    int c;

    while ((c = getopt_long(argc, argv, "f:hV", table, NULL)) != -1) {
        switch (c) {
        case 'f':
            config = optarg;
            break;
        case 1:
            fabric = optarg;
            break;
        case 2:
            check = true;
            break;
        case 3:
            user = optarg;
            break;
        case 4:
            api_describe(stdout);
            return 0;
        case 'h':
            fputs(usage, stdout);
            return 0;
        case 'V':
            puts("inmd " PACKAGE_VERSION);
            return 0;
        default:
            fprintf(stderr, "Try inmd --help.\n");
            return 2;
        }
    }
    if (optind < argc || (fabric != NULL && strlen(fabric) >= sizeof(server.config.fabric))) {
        fprintf(stderr, "inmd: unknown argument, or too long a path; try --help\n");
        return 2;
    }
    if (!config_read(config, &server.config, error, sizeof(error))) {
        fprintf(stderr, "inmd: %s\n", error);
        return 2;
    }
    if (check) {
        return 0;
    }
    if (fabric != NULL) {
        strcpy(server.config.fabric, fabric);
    }
    if (user != NULL) {
        return add_user(&server, user);
    }
    curl_global_init(CURL_GLOBAL_ALL);
    signal(SIGPIPE, SIG_IGN);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    c = run(&server);
    curl_global_cleanup();
    return c;
}

#include "info.h"

#include <openglex.h>

#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static const char help[] =
    "Usage: glex_info [OPTION...]\n"
    "Show the NICs of this node and the endpoints on the fabric: who owns them, how full their\n"
    "queues are, what they have carried, and what is not available here and why.\n"
    "\n"
    "  -A, --all            every fabric of this user; as root, of all users\n"
    "  -a, --api            what this NIC does of the vendor's interface, function by function\n"
    "  -c, --clean          remove what dead owners left, and say what\n"
    "  -d, --devices        the NICs alone, and why one or its network cannot be had\n"
    "  -f, --fabric NAME    the fabric to look at (default: $GLEX_FABRIC, or 'default')\n"
    "  -j, --json           one JSON object\n"
    "  -v, --verbose        more of each endpoint\n"
    "  -w, --watch SECONDS  look again and again\n"
    "  -h, --help\n"
    "  -V, --version\n"
    "\n"
    "Exit status: 0 done; 1 not all could be done, the reason is on stderr; 2 wrong usage.\n";

static const struct option long_options[] = {
    {"all", no_argument, NULL, 'A'},
    {"api", no_argument, NULL, 'a'},
    {"clean", no_argument, NULL, 'c'},
    {"devices", no_argument, NULL, 'd'},
    {"fabric", required_argument, NULL, 'f'},
    {"json", no_argument, NULL, 'j'},
    {"verbose", no_argument, NULL, 'v'},
    {"watch", required_argument, NULL, 'w'},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},
    {NULL, 0, NULL, 0},
};

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
    (void)number;
    interrupted = 1;
}

static int usage_error(void)
{
    fputs("Try 'glex_info --help'.\n", stderr);
    return TOOL_EXIT_USAGE;
}

static bool parse_seconds(const char *text, double *seconds_p)
{
    char *end;

    if ((*text < '0' || *text > '9') && *text != '.') {
        return false;
    }
    *seconds_p = strtod(text, &end);
    return *end == '\0' && *seconds_p >= 0.1 && *seconds_p <= 86400;
}

/* The exit status where there is nothing more to do, or -1. */
static int parse_options(int argc, char **argv, struct info_options *options)
{
    int opt;

    while ((opt = getopt_long(argc, argv, "Aacdf:jvw:hV", long_options, NULL)) != -1) {
        switch (opt) {
        case 'A':
            options->all = true;
            break;
        case 'a':
            info_print_api();
            return TOOL_EXIT_OK;
        case 'c':
            options->clean = true;
            break;
        case 'd':
            options->devices = true;
            break;
        case 'f':
            setenv("GLEX_FABRIC", optarg, 1); /* libglex reads and checks it */
            break;
        case 'j':
            options->json = true;
            break;
        case 'v':
            options->verbose = true;
            break;
        case 'w':
            if (!parse_seconds(optarg, &options->watch)) {
                tool_error("--watch must be a number of seconds from 0.1 to 86400, not '%s'",
                           optarg);
                return usage_error();
            }
            break;
        case 'h':
            fputs(help, stdout);
            return TOOL_EXIT_OK;
        case 'V':
            printf("glex_info %s, libglex %s\n", PACKAGE_VERSION, glex_ext_version());
            return TOOL_EXIT_OK;
        default:
            return usage_error();
        }
    }
    if (optind < argc) {
        tool_error("'%s' is not an option", argv[optind]);
        return usage_error();
    }
    if (options->clean && options->watch != 0) {
        tool_error("--clean and --watch exclude each other");
        return usage_error();
    }
    if (options->all && (options->watch != 0 || options->devices)) {
        tool_error("--all goes neither with --watch nor with --devices");
        return usage_error();
    }
    return -1;
}

static bool look(struct info *info, const struct info_options *options)
{
    /* Names first: then the removal of the last endpoint also removes the directory. */
    bool ok = !options->clean || info_clean_names(info, info_add_name);

    ok = info_collect_fabric(info, options->clean) && ok;
    if (options->json) {
        info_print_json(info, options);
    } else {
        info_print(info, options);
    }
    info_free_fabric(info);
    return tool_finish_output() && ok;
}

static void sleep_for(double seconds)
{
    struct timespec ts = {.tv_sec = (time_t)seconds,
                          .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};

    nanosleep(&ts, NULL); /* a signal ends it early, as it should */
}

/* Until a signal comes, which is the proper end of it. */
static bool watch(struct info *info, const struct info_options *options)
{
    struct sigaction action = {.sa_handler = on_signal};
    bool clear = !options->json && isatty(STDOUT_FILENO);
    bool ok = true;

    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    while (ok && !interrupted) {
        if (clear) {
            fputs("\033[H\033[2J", stdout);
        }
        ok = look(info, options);
        if (ok) {
            sleep_for(options->watch);
        }
    }
    return ok;
}

/* For info_all(), in a process for one fabric */
static bool look_at_fabric(const struct info_options *options)
{
    struct info info = {0};
    bool ok = look(&info, options);

    info_free(&info);
    return ok;
}

int main(int argc, char **argv)
{
    struct info_options options = {0};
    struct info info = {0};
    int status = parse_options(argc, argv, &options);
    uint32_t num;
    bool ok;

    if (status != -1) {
        return (status != TOOL_EXIT_OK || tool_finish_output()) ? status : TOOL_EXIT_FAIL;
    }
    if (options.all) {
        return info_all(&options, look_at_fabric) ? TOOL_EXIT_OK : TOOL_EXIT_FAIL;
    }
    if (glex_num_of_device(&num) == GLEX_INVALID_PARAM) {
        return TOOL_EXIT_USAGE; /* libglex has said which of its variables makes no sense */
    }
    /* --clean is about segments, and is to work where the NIC does not */
    ok = options.clean || info_collect_devices(&info);
    ok = (options.watch != 0 ? watch(&info, &options) : look(&info, &options)) && ok;
    info_free(&info);
    return ok ? TOOL_EXIT_OK : TOOL_EXIT_FAIL;
}

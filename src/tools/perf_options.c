/*
 * The command line of glex_perf.
 */
#include "perf.h"

#include <openglex.h>

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SIZE    (1ull << 30)
#define MAX_WINDOW  32768
#define MAX_REPEATS 1000

static const char help[] =
    "Usage: glex_perf [OPTION...]\n"
    "Measure what the NIC does between two processes, beside what the machine does without it.\n"
    "Forks its own peer, unless --server or --connect is given.\n"
    "\n"
    "  -o, --op LIST        what to measure: mp, imm, put, get, or one memory of it, such as\n"
    "                       imm/plain, imm/event-data, put/nic, get/private (default: all)\n"
    "  -m, --metric LIST    latency, stream (default: both)\n"
    "  -s, --size MIN[:MAX[:FACTOR]]\n"
    "                       bytes, with k, m or g (default: 8:4m:8)\n"
    "  -w, --window N       operations under way in a stream (default: 64)\n"
    "  -r, --repeats N      repeats, of which the median is shown (default: 7)\n"
    "  -t, --time MS        length of a repeat (default: 10)\n"
    "  -n, --count N        operations in a repeat, instead of a length\n"
    "  -d, --device N       NIC (default: 0)\n"
    "      --cores A[,B]    cores of this process and of its peer (default: two that differ)\n"
    "      --no-pin         leave both processes where the system puts them\n"
    "      --server         print an address, serve one client, end\n"
    "      --connect ADDR   measure against a server started in another terminal\n"
    "  -j, --json           figures as one JSON object\n"
    "  -h, --help\n"
    "  -V, --version\n"
    "\n"
    "Exit status: 0 done; 1 not done, the reason is on stderr; 2 wrong usage.\n";

enum { OPT_CORES = 256, OPT_NO_PIN, OPT_SERVER, OPT_CONNECT };

static const struct option long_options[] = {
    {"op", required_argument, NULL, 'o'},
    {"metric", required_argument, NULL, 'm'},
    {"size", required_argument, NULL, 's'},
    {"window", required_argument, NULL, 'w'},
    {"repeats", required_argument, NULL, 'r'},
    {"time", required_argument, NULL, 't'},
    {"count", required_argument, NULL, 'n'},
    {"device", required_argument, NULL, 'd'},
    {"cores", required_argument, NULL, OPT_CORES},
    {"no-pin", no_argument, NULL, OPT_NO_PIN},
    {"server", no_argument, NULL, OPT_SERVER},
    {"connect", required_argument, NULL, OPT_CONNECT},
    {"json", no_argument, NULL, 'j'},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},
    {NULL, 0, NULL, 0},
};

/* The kinds that a word of --op names, as bits. */
static uint32_t kinds_of(const char *word)
{
    uint32_t kinds = 0, i;
    char full[64];

    for (i = 0; i < PERF_NUM_KINDS; i++) {
        snprintf(full, sizeof(full), "%s/%s", perf_kinds[i].name, perf_kinds[i].memory);
        if (strcmp(word, perf_kinds[i].name) == 0 || strcmp(word, full) == 0) {
            kinds |= 1u << i;
        }
    }
    return kinds;
}

static uint32_t metric_of(const char *word)
{
    return strcmp(word, "latency") == 0 ? 1u << PERF_LATENCY :
           strcmp(word, "stream") == 0  ? 1u << PERF_STREAM :
                                          0;
}

static bool parse_list(char *text, uint32_t (*bits_of)(const char *word), uint32_t *bits_p)
{
    char *save, *word;
    uint32_t bits;

    *bits_p = 0;
    for (word = strtok_r(text, ",", &save); word != NULL; word = strtok_r(NULL, ",", &save)) {
        bits = bits_of(word);
        if (bits == 0) {
            return false;
        }
        *bits_p |= bits;
    }
    return *bits_p != 0;
}

static bool parse_sizes(char *text, struct perf_options *options)
{
    char *save, *min = strtok_r(text, ":", &save);
    char *max = strtok_r(NULL, ":", &save), *factor = strtok_r(NULL, ":", &save);

    if (min == NULL || !tool_parse_size(min, &options->size_min)) {
        return false;
    }
    options->size_max = options->size_min;
    if (max != NULL && !tool_parse_size(max, &options->size_max)) {
        return false;
    }
    if (factor != NULL && !tool_parse_number(factor, 2, MAX_SIZE, &options->size_factor)) {
        return false;
    }
    return strtok_r(NULL, ":", &save) == NULL && options->size_min <= options->size_max &&
           options->size_max <= MAX_SIZE;
}

static bool parse_cores(char *text, struct perf_options *options)
{
    char *save, *first = strtok_r(text, ",", &save), *second = strtok_r(NULL, ",", &save);
    uint64_t a, b;

    if (first == NULL || !tool_parse_number(first, 0, 1023, &a)) {
        return false;
    }
    options->cpus[0] = (int)a;
    if (second == NULL) {
        return true;
    }
    if (!tool_parse_number(second, 0, 1023, &b) || strtok_r(NULL, ",", &save) != NULL) {
        return false;
    }
    options->cpus[1] = (a == b) ? -1 : (int)b; /* the same: they share it */
    return true;
}

static bool parse_u32(const char *text, uint32_t min, uint32_t max, uint32_t *value_p)
{
    uint64_t value;

    if (!tool_parse_number(text, min, max, &value)) {
        return false;
    }
    *value_p = (uint32_t)value;
    return true;
}

/* False: the argument makes no sense. */
static bool take_option(int opt, char *arg, struct perf_options *options)
{
    switch (opt) {
    case 'o':
        return parse_list(arg, kinds_of, &options->kinds);
    case 'm':
        return parse_list(arg, metric_of, &options->metrics);
    case 's':
        return parse_sizes(arg, options);
    case 'w':
        return parse_u32(arg, 1, MAX_WINDOW, &options->window);
    case 'r':
        return parse_u32(arg, 1, MAX_REPEATS, &options->repeats);
    case 't':
        return parse_u32(arg, 1, 60000, &options->milliseconds);
    case 'n':
        return parse_u32(arg, 1, 10000000, &options->count);
    case 'd':
        return parse_u32(arg, 0, UINT32_MAX, &options->device);
    case OPT_CORES:
        return parse_cores(arg, options);
    case OPT_CONNECT:
        options->connect = true;
        return tool_parse_number(arg, 1, UINT64_MAX, &options->address);
    case OPT_NO_PIN:
        options->pin = false;
        return true;
    case OPT_SERVER:
        options->server = true;
        return true;
    default:
        options->json = true;
        return true;
    }
}

static bool set_defaults(struct perf_options *options)
{
    *options = (struct perf_options){.size_min = 8,
                                     .size_max = 4 << 20,
                                     .size_factor = 8,
                                     .kinds = (1u << PERF_NUM_KINDS) - 1,
                                     .metrics = (1u << PERF_NUM_METRICS) - 1,
                                     .window = 64,
                                     .repeats = 7,
                                     .milliseconds = 10,
                                     .pin = true};
    return perf_choose_cpus(options->cpus);
}

static const char *option_name(int opt)
{
    const struct option *o;

    for (o = long_options; o->name != NULL && o->val != opt; o++) {
    }
    return o->name;
}

static int usage_error(void)
{
    fputs("Try 'glex_perf --help'.\n", stderr);
    return TOOL_EXIT_USAGE;
}

int perf_parse_options(int argc, char **argv, struct perf_options *options)
{
    char given[128];
    int opt;

    if (!set_defaults(options)) {
        return TOOL_EXIT_FAIL;
    }
    while ((opt = getopt_long(argc, argv, "o:m:s:w:r:t:n:d:jhV", long_options, NULL)) != -1) {
        switch (opt) {
        case '?':
            return usage_error();
        case 'h':
            fputs(help, stdout);
            return TOOL_EXIT_OK;
        case 'V':
            printf("glex_perf %s, libglex %s\n", PACKAGE_VERSION, glex_ext_version());
            return TOOL_EXIT_OK;
        default:
            snprintf(given, sizeof(given), "%s", (optarg != NULL) ? optarg : "");
            if (!take_option(opt, optarg, options)) {
                tool_error("--%s cannot be '%s'", option_name(opt), given);
                return usage_error();
            }
        }
    }
    if (optind < argc) {
        tool_error("'%s' is not an option", argv[optind]);
        return usage_error();
    }
    if (options->server && options->connect) {
        tool_error("--server and --connect exclude each other");
        return usage_error();
    }
    return -1;
}

#include "options.h"

#include <openglex.h>

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE_WINDOWS = 100, PAGE_WINDOW_NS = 1000 }; /* of a page whose user names no windows */

static const char help[] =
    "Usage: commatrix [OPTION...] FILE...      who sends how much to whom, from captured traffic\n"
    "       commatrix [OPTION...] -i INTERFACE\n"
    "       commatrix diff [--threshold PERCENT] A B\n"
    "       commatrix place --topology FILE MATRIX\n"
    "\n"
    "FILE is a capture, pcap or pcapng, plain or compressed by gzip, zstd or xz; - is standard "
    "input.\n"
    "Several are joined in the order of time, and copies of a packet count once.\n"
    "\n"
    "  --by WHAT         rows and columns: lid, gid, ip, host (default), qp, rank\n"
    "  --count WHAT      wire (default), payload, packets, messages, mean, largest\n"
    "  --json, --csv     instead of the table and the heat map\n"
    "  --svg FILE, --png FILE, --html FILE\n"
    "                    a heat map, a page with all values; - is standard output\n"
    "  --linear          scale of heat maps; otherwise logarithmic\n"
    "  --title TEXT      above pictures and pages\n"
    "  --map FILE        names of hosts and ranks of processes\n"
    "  --every TIME      also a matrix for each such time: 100ms, 2s\n"
    "  --from TIME, --to TIME\n"
    "                    only this part, counted from the first packet\n"
    "  --with KIND,...   count system traffic, too: smp, sa, cm, gmp, ack, nak, cnp, ipoib,\n"
    "                    multicast, raw, or all\n"
    "  --only KIND,...   count nothing else; data is the rest\n"
    "  --skew TIME       copies of a packet come within this time (default 100us)\n"
    "  -i INTERFACE      capture now, until interrupted or for --duration TIME\n"
    "  -q, --quiet       no progress\n"
    "  -h, --help        -V, --version\n"
    "\n"
    "Exit status: 0 all was read; 1 diff found more than the threshold; 2 wrong usage; 3 a file "
    "was\n"
    "damaged, what stands before the damage was shown; 4 nothing could be read or written.\n";

enum {
    OPT_BY = 256,
    OPT_COUNT,
    OPT_JSON,
    OPT_CSV,
    OPT_SVG,
    OPT_PNG,
    OPT_HTML,
    OPT_LINEAR,
    OPT_TITLE,
    OPT_MAP,
    OPT_EVERY,
    OPT_FROM,
    OPT_TO,
    OPT_WITH,
    OPT_ONLY,
    OPT_SKEW,
    OPT_DURATION
};

static const struct option longs[] = {
    {"by", required_argument, NULL, OPT_BY},
    {"count", required_argument, NULL, OPT_COUNT},
    {"json", no_argument, NULL, OPT_JSON},
    {"csv", no_argument, NULL, OPT_CSV},
    {"svg", required_argument, NULL, OPT_SVG},
    {"png", required_argument, NULL, OPT_PNG},
    {"html", required_argument, NULL, OPT_HTML},
    {"linear", no_argument, NULL, OPT_LINEAR},
    {"title", required_argument, NULL, OPT_TITLE},
    {"map", required_argument, NULL, OPT_MAP},
    {"every", required_argument, NULL, OPT_EVERY},
    {"from", required_argument, NULL, OPT_FROM},
    {"to", required_argument, NULL, OPT_TO},
    {"with", required_argument, NULL, OPT_WITH},
    {"only", required_argument, NULL, OPT_ONLY},
    {"skew", required_argument, NULL, OPT_SKEW},
    {"duration", required_argument, NULL, OPT_DURATION},
    {"interface", required_argument, NULL, 'i'},
    {"quiet", no_argument, NULL, 'q'},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},
    {NULL, 0, NULL, 0},
};

void cm_usage_error(const char *format, ...)
{
    va_list args;

    fputs("commatrix: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputs(" (--help)\n", stderr);
    exit(CM_EXIT_USAGE);
}

bool cm_parse_time(const char *text, uint64_t *ns_p)
{
    static const struct {
        const char *name;
        double ns;
    } units[] = {{"", 1e9}, {"s", 1e9}, {"ms", 1e6}, {"us", 1e3}, {"ns", 1}, {"min", 60e9}};
    char *end;
    double value;
    size_t i;

    errno = 0;
    value = strtod(text, &end);
    if (end == text || errno != 0 || !isfinite(value) || value < 0) {
        return false;
    }
    for (i = 0; i < G_N_ELEMENTS(units); i++) {
        if (strcmp(end, units[i].name) == 0 && value * units[i].ns < 1e18) {
            *ns_p = (uint64_t)llround(value * units[i].ns);
            return true;
        }
    }
    return false;
}

static uint64_t need_time(const char *option, const char *text, uint64_t min)
{
    uint64_t ns;

    if (!cm_parse_time(text, &ns) || ns < min) {
        cm_usage_error("%s %s: that is no time such as 100ms or 2s", option, text);
    }
    return ns;
}

static int need_word(const char *option, const char *text, const char *const *words, int num_words)
{
    int i;

    for (i = 0; i < num_words; i++) {
        if (strcmp(text, words[i]) == 0) {
            return i;
        }
    }
    cm_usage_error("%s: there is no %s", option, text);
}

static uint32_t need_kinds(const char *option, const char *text)
{
    char **words = g_strsplit(text, ",", -1);
    uint32_t kinds = 0;
    int i;

    for (i = 0; words[i] != NULL; i++) {
        if (strcmp(words[i], "all") == 0) {
            kinds |= (1u << CM_NUM_KINDS) - 1;
        } else {
            kinds |= 1u << need_word(option, words[i], cm_kind_names, CM_NUM_KINDS);
        }
    }
    g_strfreev(words);
    if (kinds == 1u << CM_KIND_OTHER) {
        cm_usage_error("%s: what is no RDMA traffic has no cells", option);
    }
    return kinds;
}

static void read_time_option(struct cm_options *options, int option)
{
    switch (option) {
    case OPT_EVERY:
        options->traffic.window_ns = need_time("--every", optarg, 1);
        break;
    case OPT_FROM:
        options->traffic.from_ns = need_time("--from", optarg, 0);
        break;
    case OPT_TO:
        options->traffic.to_ns = need_time("--to", optarg, 1);
        break;
    case OPT_DURATION:
        options->duration_ns = need_time("--duration", optarg, 1);
        break;
    default:
        options->traffic.skew_us =
            (uint32_t)MIN(need_time("--skew", optarg, 0) / 1000, UINT32_MAX / 2);
        break;
    }
}

static void read_file_option(struct cm_options *options, int option)
{
    switch (option) {
    case OPT_SVG:
        options->svg = optarg;
        break;
    case OPT_PNG:
        options->png = optarg;
        break;
    case OPT_HTML:
        options->html = optarg;
        break;
    case OPT_MAP:
        options->map = optarg;
        break;
    case OPT_TITLE:
        options->title = optarg;
        break;
    default:
        options->interface = optarg;
        break;
    }
}

static void read_option(struct cm_options *options, int option)
{
    switch (option) {
    case OPT_BY:
        options->by = need_word("--by", optarg, cm_by_names, CM_NUM_BY);
        break;
    case OPT_COUNT:
        options->count = need_word("--count", optarg, cm_count_names, CM_NUM_COUNT);
        break;
    case OPT_JSON:
        options->json = true;
        break;
    case OPT_CSV:
        options->csv = true;
        break;
    case OPT_LINEAR:
        options->linear = true;
        break;
    case OPT_WITH:
        options->traffic.kinds |= need_kinds("--with", optarg);
        break;
    case OPT_ONLY:
        options->traffic.kinds = need_kinds("--only", optarg);
        break;
    case 'q':
        options->quiet = true;
        break;
    case 'h':
        fputs(help, stdout);
        exit(CM_EXIT_OK);
    case 'V':
        puts("commatrix (openglex) " PACKAGE_VERSION);
        exit(CM_EXIT_OK);
    default:
        if (option == OPT_EVERY || option == OPT_FROM || option == OPT_TO || option == OPT_SKEW ||
            option == OPT_DURATION) {
            read_time_option(options, option);
        } else {
            read_file_option(options, option);
        }
    }
}

static bool is_stdout(const char *file)
{
    return file != NULL && strcmp(file, "-") == 0;
}

/* Exactly one output goes to standard output. */
static void check(struct cm_options *options)
{
    int on_stdout = options->json + options->csv + is_stdout(options->svg) +
                    is_stdout(options->png) + is_stdout(options->html);

    if (on_stdout > 1) {
        cm_usage_error("only one output can go to standard output");
    }
    if (options->interface != NULL && options->num_files > 0) {
        cm_usage_error("either -i or files");
    }
    if (options->interface == NULL && options->num_files == 0) {
        cm_usage_error("no capture file is named");
    }
    if (options->duration_ns != 0 && options->interface == NULL) {
        cm_usage_error("--duration is for -i");
    }
    if (options->traffic.to_ns != 0 && options->traffic.to_ns <= options->traffic.from_ns) {
        cm_usage_error("--to is not after --from");
    }
    if (options->html != NULL && options->traffic.window_ns == 0) {
        options->traffic.window_ns = PAGE_WINDOW_NS;
        options->traffic.max_windows = PAGE_WINDOWS;
    }
    options->table =
        on_stdout == 0 && options->svg == NULL && options->png == NULL && options->html == NULL;
}

void cm_options_read(struct cm_options *options, int argc, char **argv)
{
    int option;

    memset(options, 0, sizeof(*options));
    options->traffic.kinds = 1u << CM_KIND_DATA;
    options->traffic.skew_us = 100;
    options->by = CM_BY_HOST;
    while ((option = getopt_long(argc, argv, "i:qhV", longs, NULL)) != -1) {
        if (option == '?') {
            fputs("commatrix: --help lists the options\n", stderr);
            exit(CM_EXIT_USAGE);
        }
        read_option(options, option);
    }
    options->files = argv + optind;
    options->num_files = argc - optind;
    check(options);
}

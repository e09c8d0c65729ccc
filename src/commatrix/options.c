#include "options.h"

#include "tool/usage.h"

#include <openglex.h>

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The windows of a page without --every. */
enum { PAGE_WINDOWS = 100, PAGE_WINDOW_NS = 1000 };
/* A retransmission without a NAK waits for a timeout, which is longer. */
enum { DEFAULT_SKEW_US = 4000 };
#define DEFAULT_REFRESH_NS UINT64_C(2000000000)

static const char help[] =
    "Usage: commatrix [OPTION...] FILE...      the communication matrix of captured traffic\n"
    "       commatrix [OPTION...] -i INTERFACE\n"
    "       commatrix diff [--threshold PERCENT] A B\n"
    "       commatrix place --topology FILE MATRIX\n"
    "\n"
    "FILE is a capture, pcap or pcapng, plain or compressed (gzip, bzip2, xz, lzip, zstd, lz4); - "
    "is\n"
    "standard input. Several files are joined in the order of time: differences of their clocks "
    "are\n"
    "measured and corrected, and copies of a packet count once.\n"
    "\n"
    "  --by WHAT         rows and columns: lid, gid, ip, host (default), qp, rank\n"
    "  --job N           by rank: only this one of several jobs\n"
    "  --order WHAT      of rows and columns: name (default), traffic, cluster (neighbours "
    "together)\n"
    "  --count WHAT      wire (default), payload, packets, messages, mean, largest\n"
    "  --json, --csv     instead of the table and the heat map\n"
    "  --explain         instead: the pattern in plain words, with the number behind each claim\n"
    "                    (by rank unless --by names others)\n"
    "  --topology FILE   for --explain: the network, as for place\n"
    "  --svg FILE, --png FILE, --html FILE\n"
    "                    a heat map, a page with all values; - is standard output\n"
    "  --linear          scale of heat maps; otherwise logarithmic\n"
    "  --hide-diagonal   heat maps do not show traffic within a row's own host or rank\n"
    "  --title TEXT      above pictures and pages\n"
    "  --map FILE        names of hosts and ranks of processes\n"
    "  --every TIME      also a matrix for each such time: 100ms, 2s\n"
    "  --from TIME, --to TIME\n"
    "                    only this part, counted from the earliest packet\n"
    "  --with KIND,...   count system traffic, too: smp, sa, cm, gmp, ack, nak, cnp, ipoib,\n"
    "                    multicast, raw, or all\n"
    "  --only KIND,...   count nothing else; data is the rest\n"
    "  --skew TIME       copies of a packet come within this time (default 4ms)\n"
    "  -i INTERFACE      capture now, until interrupted or for --duration TIME\n"
    "  --live INTERFACE  the same, with a page that a browser reloads: --html (default\n"
    "                    commatrix-live.html), every --refresh TIME (default 2s)\n"
    "  -q, --quiet       no progress\n"
    "  -h, --help        -V, --version\n"
    "\n"
    "Exit status: 0 all was read; 1 diff found more than the threshold; 2 wrong usage; 3 a file "
    "was\n"
    "damaged, the packets before the damage were shown; 4 nothing could be read or written.\n";

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
    OPT_DURATION,
    OPT_JOB,
    OPT_ORDER,
    OPT_EXPLAIN,
    OPT_TOPOLOGY,
    OPT_HIDE_DIAGONAL,
    OPT_LIVE,
    OPT_REFRESH
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
    {"job", required_argument, NULL, OPT_JOB},
    {"order", required_argument, NULL, OPT_ORDER},
    {"explain", no_argument, NULL, OPT_EXPLAIN},
    {"topology", required_argument, NULL, OPT_TOPOLOGY},
    {"hide-diagonal", no_argument, NULL, OPT_HIDE_DIAGONAL},
    {"live", required_argument, NULL, OPT_LIVE},
    {"refresh", required_argument, NULL, OPT_REFRESH},
    {"interface", required_argument, NULL, 'i'},
    {"quiet", no_argument, NULL, 'q'},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},
    {NULL, 0, NULL, 0},
};

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

static uint32_t need_number(const char *option, const char *text)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);

    if (*text < '0' || *text > '9' || *end != '\0' || value < 1 || value > UINT32_MAX) {
        cm_usage_error("%s %s: that is no number from 1 on", option, text);
    }
    return (uint32_t)value;
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
    case OPT_REFRESH:
        options->refresh_ns = need_time("--refresh", optarg, 1000000000);
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
    case OPT_TOPOLOGY:
        options->topology = optarg;
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
        options->matrix.by = need_word("--by", optarg, cm_by_names, CM_NUM_BY);
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
    case OPT_JOB:
        options->matrix.job = need_number("--job", optarg);
        break;
    case OPT_ORDER:
        options->matrix.order = need_word("--order", optarg, cm_order_names, CM_NUM_ORDER);
        break;
    case OPT_EXPLAIN:
        options->explain = true;
        break;
    case OPT_HIDE_DIAGONAL:
        options->hide_diagonal = true;
        break;
    case OPT_LIVE:
        options->interface = optarg;
        options->refresh_ns = options->refresh_ns != 0 ? options->refresh_ns : DEFAULT_REFRESH_NS;
        options->html = options->html != NULL ? options->html : "commatrix-live.html";
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
            option == OPT_DURATION || option == OPT_REFRESH) {
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

/* Ends the program if options contradict each other. Sets defaults that depend on other options. */
static void check(struct cm_options *options)
{
    int on_stdout = options->json + options->csv + options->explain + is_stdout(options->svg) +
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
    if (options->refresh_ns != 0 && (options->interface == NULL || is_stdout(options->html))) {
        cm_usage_error("--refresh is for --live, with a page in a file");
    }
    if (options->matrix.job != 0 && options->matrix.by != CM_BY_RANK) {
        cm_usage_error("--job is for --by rank");
    }
    if (options->topology != NULL && !options->explain) {
        cm_usage_error("--topology is for --explain");
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
    options->traffic.skew_us = DEFAULT_SKEW_US;
    options->matrix.by = CM_NUM_BY;
    while ((option = getopt_long(argc, argv, "i:qhV", longs, NULL)) != -1) {
        if (option == '?') {
            fputs("commatrix: --help lists the options\n", stderr);
            exit(CM_EXIT_USAGE);
        }
        read_option(options, option);
    }
    if (options->matrix.by == CM_NUM_BY) {
        options->matrix.by = options->explain ? CM_BY_RANK : CM_BY_HOST;
    }
    options->files = argv + optind;
    options->num_files = argc - optind;
    check(options);
}

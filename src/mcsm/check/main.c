/* mcsm-check: judges the dumps, or the configurations, of all clusters of a fabric. */
#include "model.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>

enum { EXIT_FAULTY = 1, EXIT_USAGE = 2, EXIT_INPUT = 3 };

static const char usage[] =
    "Usage: mcsm-check [--json] [--svg OUT] DUMP...\n"
    "       mcsm-check --config FILE...\n"
    "\n"
    "Follows the packets of all end nodes through the forwarding tables of all clusters, whose "
    "dumps\n"
    "mcsm-ctl dump fabric writes: pairs that cannot reach each other, hops, loads of links, loops, "
    "LID\n"
    "conflicts, credit loops, multicast loops. With --config it finds contradictions between\n"
    "configurations instead.\n"
    "\n"
    "      --json           print JSON\n"
    "      --svg OUT        draw the fabric with its clusters and loads\n"
    "      --config         the files are configurations of mcsm\n"
    "      --version, -h, --help\n"
    "\n"
    "Exit codes: 0 all good, 1 faults were found, 2 wrong command line, 3 a file cannot be read.\n";

static int check_configs(char **paths, int count)
{
    struct mcsm_config **configs = calloc(count + 1, sizeof(*configs));
    int unreadable = 0, found = 0;

    for (int i = 0; configs != NULL && i < count; i++) {
        configs[i] = mcsm_config_read(paths[i], stderr);
        unreadable += configs[i] == NULL;
    }
    if (configs != NULL && unreadable == 0) {
        found = mcsm_config_cross_check(configs, count, stderr);
        printf("%d clusters, %d contradictions\n", count, found);
    }
    for (int i = 0; configs != NULL && i < count; i++) {
        mcsm_config_free(configs[i]);
    }
    free(configs);
    return unreadable ? EXIT_INPUT : found ? EXIT_FAULTY : EXIT_SUCCESS;
}

static int check_dumps(char **paths, int count, bool json, const char *svg)
{
    struct check_model model = {0};
    struct check_report report;
    int status = 0;

    for (int i = 0; i < count && status == 0; i++) {
        status = check_read(&model, paths[i]);
    }
    if (status == 0) {
        status = check_connect(&model);
    }
    if (status == 0) {
        status = check_verify(&model, &report, stderr);
    }
    if (status < 0) {
        if (status == -ENOMEM) {
            fputs("mcsm-check: out of memory\n", stderr);
        }
        check_free(&model);
        return EXIT_INPUT;
    }
    (json ? check_print_json : check_print)(&model, &report, stdout);
    if (svg != NULL && (status = check_picture(&model, &report, svg)) < 0) {
        fprintf(stderr, "mcsm-check: %s: %s\n", svg, strerror(-status));
        check_free(&model);
        return EXIT_INPUT;
    }
    check_free(&model);
    return check_is_good(&report) ? EXIT_SUCCESS : EXIT_FAULTY;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"json", no_argument, NULL, 'j'},   {"svg", required_argument, NULL, 's'},
        {"config", no_argument, NULL, 'c'}, {"version", no_argument, NULL, 'V'},
        {"help", no_argument, NULL, 'h'},   {NULL, 0, NULL, 0}};
    bool json = false, config = false;
    const char *svg = NULL;
    int option;

    while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        switch (option) {
        case 'j':
            json = true;
            break;
        case 's':
            svg = optarg;
            break;
        case 'c':
            config = true;
            break;
        case 'V':
            puts("mcsm-check " PACKAGE_VERSION);
            return 0;
        case 'h':
            fputs(usage, stdout);
            return 0;
        default:
            fputs(usage, stderr);
            return EXIT_USAGE;
        }
    }
    if (optind == argc) {
        fputs(usage, stderr);
        return EXIT_USAGE;
    }
    return config ? check_configs(argv + optind, argc - optind) :
                    check_dumps(argv + optind, argc - optind, json, svg);
}

/*
 * scale SUBJECT ...: one interface of the transport and very many peers. contrib/scale runs this
 * program and prints its figures beside their targets.
 *
 *   scale endpoints COUNT       endpoints to made-up addresses, never used
 *   scale connections COUNT [TRANSPORT]
 *                               live peers, each connected and sent to; over another transport
 *   scale promotion MODE        hot pairs that change, with ER channels for a quarter of the pairs;
 *                               MODE is quota, all (channels for all), first (only the first peers
 *                               have channels), or sr (no channels)
 *   scale storm SENDERS SECONDS [TRANSPORT]
 *                               many processes send to one
 *
 * Prints lines "name value": bytes, seconds, messages per second.
 */
#include "scale.h"
#include "node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Every interface takes some descriptors. */
static void raise_limits(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static int usage(void)
{
    fputs("Usage: scale endpoints COUNT | connections COUNT [TRANSPORT] |\n"
          "             promotion quota|all|first|sr | storm SENDERS SECONDS [TRANSPORT]\n",
          stderr);
    return 2;
}

int main(int argc, char **argv)
{
    const char *subject = argc > 1 ? argv[1] : "";
    long count = argc > 2 ? atol(argv[2]) : 0;

    raise_limits();
    if (strcmp(subject, "endpoints") == 0 && argc == 3 && count > 0) {
        scale_endpoints((unsigned)count);
    } else if (strcmp(subject, "connections") == 0 && (argc == 3 || argc == 4) && count > 0) {
        if (argc == 4) {
            node_use(argv[3]);
        }
        scale_connections((unsigned)count);
    } else if (strcmp(subject, "promotion") == 0 && argc == 3) {
        scale_promotion(argv[2]);
    } else if (strcmp(subject, "storm") == 0 && (argc == 4 || argc == 5) && count > 0 &&
               atof(argv[3]) > 0) {
        if (argc == 5) {
            node_use(argv[4]);
        }
        scale_storm((unsigned)count, atof(argv[3]));
    } else {
        return usage();
    }
    return 0;
}

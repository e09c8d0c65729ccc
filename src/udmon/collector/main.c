/* udmon-collector: receives from agents, keeps a history, serves it over HTTP. */
#include "collector.h"
#include "../lib/base/auth.h"
#include "../lib/metric.h"

#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int usage(FILE *out, int status)
{
    fprintf(
        out,
        "Usage: udmon-collector [OPTION...]\n"
        "Receives metrics from udmon-agents, keeps them, and serves them over HTTP.\n\n"
        "  -l, --listen ADDRESS   [SCHEME://]HOST:PORT for agents [*:4999,\n"
        "                         without a secret localhost:4999]\n"
        "  -w, --http HOST:PORT   for browsers and Prometheus [127.0.0.1:9499]\n"
        "      --http-users FILE  only these users may read: lines NAME:HASH, as htpasswd -nB\n"
        "                         NAME writes them\n"
        "      --http-cert FILE   HTTPS with this certificate, and its key; both in PEM\n"
        "      --http-key FILE\n"
        "      --http-open        everybody may read, from other hosts, too\n"
        "  -d, --database FILE    history [/var/lib/udmon/history.db]\n"
        "  -s, --secret FILE      only agents that know this secret are let in;\n"
        "                         it or certificates are needed for other addresses than\n"
        "                         loopback\n"
        "      --old-secret FILE  agents that know this secret are let in, too\n"
        "      --node-secret NAME write the secret of the node NAME to standard output, and end;\n"
        "                         it is made from the file of --secret\n"
        "      --ca FILE          TLS by certificates instead of the secret: agents are let\n"
        "      --cert FILE        in that have one of this CA; our own, and its key; all in\n"
        "      --key FILE         PEM\n"
        "      --check-names      an agent must have the secret of its name (--node-secret), or a\n"
        "                         certificate that names it\n"
        "  -k, --keep SECONDS     forget what is older [2592000, 30 days]\n"
        "  -S, --size BYTES       of the history at most; K, M, G, T may follow the number [16G]\n"
        "      --series N         of all nodes at most; 1000 of each node are kept in any case "
        "[2000000]\n"
        "      --node-quota LIMITS    of each node: series=20000,samples=20000,bytes=4194304\n"
        "                         (a second),history=50 (percent of the stored samples)\n"
        "      --relay-quota LIMITS   of each relay: nodes=10000,series=1000000,samples=200000,\n"
        "                         bytes=41943040,history=50\n"
        "  -r, --remote-write URL send samples on to Prometheus or others that take its\n"
        "                         remote_write protocol\n"
        "      --remote-queue BYTES   on the disk, while the receiver is away [4G]\n"
        "      --remote-user FILE     with USER:PASSWORD for the receiver\n"
        "      --remote-token FILE    with a bearer token for it\n"
        "      --remote-ca FILE       trust this CA, in PEM; and of our own:\n"
        "      --remote-cert FILE     a certificate,\n"
        "      --remote-key FILE      and its key\n"
        "      --query-url URL    an engine with the API of Prometheus, as http://HOST:9090, has "
        "older\n"
        "                         values: page and API ask it for the time before our history\n"
        "      --query-match MATCHERS the label matchers that select our samples there\n"
        "                             [instance=\"\": those of remote write]\n"
        "      --query-user FILE  --query-token, --query-ca, --query-cert, --query-key: access, "
        "as\n"
        "                         for remote write\n"
        "  -u, --upper ADDRESS    pass all samples on to this collector, as a relay; several\n"
        "                         with commas: the next is used while the first is away\n"
        "      --upper-secret FILE    for the upper collector, the secret of the relay's name\n"
        "                             [the file of --secret]\n"
        "  -N, --name NAME        of a relay, at the upper collector [relay-HOSTNAME, or the name\n"
        "                         in the secret]\n"
        "      --relays NAMES     let these relays in, with commas; no other relay may connect\n"
        "  -q, --queue BYTES      what may wait for the upper collector [67108864]\n"
        "      --rules FILE       alert rules in Prometheus' format, with simple expressions\n"
        "      --alert-webhook URL    send alerts there, as Prometheus to Alertmanager:\n"
        "                         http://HOST:9093/api/v2/alerts\n"
        "      --alert-command COMMAND    for each change: a shell command with the text on\n"
        "                         standard input, as 'mail -s \"$UDMON_SUBJECT\" root'\n"
        "  -h, --help             this text\n"
        "  -V, --version          the version\n\n"
        "Exit status: 0; 1 it could not start (a line says why); 2 wrong usage.\n"
        "See udmon-collector(8).\n");
    return status;
}

static int number(const char *text, int64_t *value_p)
{
    char *end;

    errno = 0;
    *value_p = strtoll(text, &end, 10);
    return ((end != text) && (*end == '\0') && (errno == 0) && (*value_p > 0) &&
            (*value_p < (INT64_C(1) << 50))) ?
               0 :
               -EINVAL;
}

/* A number with a suffix, as 16G. */
static int size_number(const char *text, int64_t *value_p)
{
    static const char suffixes[] = "KMGT";
    size_t length = strlen(text);
    const char *suffix = (length > 1) ? strchr(suffixes, text[length - 1]) : NULL;
    char digits[32];

    if ((length == 0) || (length >= sizeof(digits))) {
        return -EINVAL;
    }
    snprintf(digits, sizeof(digits), "%.*s", (int)(length - (suffix != NULL)), text);
    if (number(digits, value_p) < 0) {
        return -EINVAL;
    }
    if (suffix != NULL) {
        if (*value_p > (INT64_C(1) << 20)) {
            return -EINVAL;
        }
        *value_p <<= 10 * (suffix - suffixes + 1);
    }
    return (*value_p >= (1 << 20)) ? 0 : -EINVAL;
}

static bool agents_prove(const struct collector *collector)
{
    return (collector->options.secret_file != NULL) || (collector->options.ca_file != NULL);
}

/* Returns an exit status. */
static int print_node_secret(const char *file, const char *node)
{
    struct udmon_secret secret;
    size_t i;

    for (i = 0; (node[i] != '\0') && udmon_node_name_char(node[i]); ++i) {
    }
    if ((i == 0) || (i > UDMON_NAME_MAX) || (node[i] != '\0')) {
        fprintf(stderr, "udmon-collector: '%s' is no name of a node\n", node);
        return 2;
    }
    if (udmon_secret_load(file, &secret) < 0) {
        return 1;
    }
    if (udmon_secret_of_node(&secret, node, &secret) < 0) {
        fprintf(stderr, "udmon-collector: secret file %s has the secret of node %s itself\n", file,
                secret.node);
        return 1;
    }
    printf("%s\n", (const char *)secret.bytes);
    return 0;
}

static bool access_fits(const struct access_options *access, const char *prefix)
{
    if ((access->cert_file == NULL) != (access->key_file == NULL)) {
        fprintf(stderr, "udmon-collector: --%s-cert and --%s-key belong together\n", prefix,
                prefix);
        return false;
    }
    return true;
}

/* `field`: 0 for user, then token, ca, cert, key, in the order of the options. */
static void set_access(struct access_options *access, int field, const char *file)
{
    const char **const fields[] = {&access->user_file, &access->token_file, &access->ca_file,
                                   &access->cert_file, &access->key_file};

    *fields[field] = file;
}

/* Whether the options can be used together. `node`: of --node-secret, or NULL. */
static bool arguments_fit(const struct collector *collector, const char *node)
{
    if ((collector->http_options.cert_file == NULL) != (collector->http_options.key_file == NULL)) {
        fprintf(stderr, "udmon-collector: --http-cert and --http-key belong together\n");
        return false;
    }
    if (!access_fits(&collector->remote_options.access, "remote") ||
        !access_fits(&collector->query_options.access, "query")) {
        return false;
    }
    if ((collector->query_options.url == NULL) && (collector->query_options.match != NULL)) {
        fprintf(stderr, "udmon-collector: --query-match needs --query-url\n");
        return false;
    }
    if (collector->options.check_names && !agents_prove(collector)) {
        fprintf(stderr, "udmon-collector: --check-names needs a secret or certificates: --secret, "
                        "or --ca, --cert, --key\n");
        return false;
    }
    if ((collector->options.secret_file == NULL) &&
        ((collector->options.old_secret_file != NULL) || (node != NULL))) {
        fprintf(stderr, "udmon-collector: %s needs --secret\n",
                (node != NULL) ? "--node-secret" : "--old-secret");
        return false;
    }
    if ((collector->upper != NULL) && (collector->options.relays[0] != '\0')) {
        fprintf(stderr, "udmon-collector: --relays is of no use with --upper: a relay refuses all "
                        "relays\n");
        return false;
    }
    if ((collector->rules_file == NULL) && ((collector->notify_options.webhook != NULL) ||
                                            (collector->notify_options.command != NULL))) {
        fprintf(stderr, "udmon-collector: --alert-webhook and --alert-command need --rules\n");
        return false;
    }
    if ((collector->upper_secret != NULL) && (collector->upper == NULL)) {
        fprintf(stderr, "udmon-collector: --upper-secret needs --upper\n");
        return false;
    }
    return true;
}

/* Returns an exit status, or -1 to go on. */
static int arguments(int argc, char **argv, struct collector *collector)
{
    enum {
        OPTION_CA = 256,
        OPTION_CERT,
        OPTION_KEY,
        OPTION_HTTP_USERS,
        OPTION_HTTP_CERT,
        OPTION_HTTP_KEY,
        OPTION_HTTP_OPEN,
        OPTION_REMOTE_QUEUE,
        OPTION_REMOTE_USER,
        OPTION_REMOTE_TOKEN,
        OPTION_REMOTE_CA,
        OPTION_REMOTE_CERT,
        OPTION_REMOTE_KEY,
        OPTION_QUERY_URL,
        OPTION_QUERY_MATCH,
        OPTION_QUERY_USER,
        OPTION_QUERY_TOKEN,
        OPTION_QUERY_CA,
        OPTION_QUERY_CERT,
        OPTION_QUERY_KEY,
        OPTION_RELAYS,
        OPTION_SERIES,
        OPTION_CHECK_NAMES,
        OPTION_OLD_SECRET,
        OPTION_NODE_SECRET,
        OPTION_UPPER_SECRET,
        OPTION_NODE_QUOTA,
        OPTION_RELAY_QUOTA,
        OPTION_RULES,
        OPTION_ALERT_WEBHOOK,
        OPTION_ALERT_COMMAND
    };
    static const struct option options[] = {
        {"listen", required_argument, NULL, 'l'},
        {"http", required_argument, NULL, 'w'},
        {"database", required_argument, NULL, 'd'},
        {"secret", required_argument, NULL, 's'},
        {"keep", required_argument, NULL, 'k'},
        {"rows", required_argument, NULL, 'n'},
        {"size", required_argument, NULL, 'S'},
        {"remote-write", required_argument, NULL, 'r'},
        {"upper", required_argument, NULL, 'u'},
        {"name", required_argument, NULL, 'N'},
        {"queue", required_argument, NULL, 'q'},
        {"old-secret", required_argument, NULL, OPTION_OLD_SECRET},
        {"node-secret", required_argument, NULL, OPTION_NODE_SECRET},
        {"upper-secret", required_argument, NULL, OPTION_UPPER_SECRET},
        {"ca", required_argument, NULL, OPTION_CA},
        {"cert", required_argument, NULL, OPTION_CERT},
        {"key", required_argument, NULL, OPTION_KEY},
        {"http-users", required_argument, NULL, OPTION_HTTP_USERS},
        {"http-cert", required_argument, NULL, OPTION_HTTP_CERT},
        {"http-key", required_argument, NULL, OPTION_HTTP_KEY},
        {"http-open", no_argument, NULL, OPTION_HTTP_OPEN},
        {"remote-queue", required_argument, NULL, OPTION_REMOTE_QUEUE},
        {"remote-user", required_argument, NULL, OPTION_REMOTE_USER},
        {"remote-token", required_argument, NULL, OPTION_REMOTE_TOKEN},
        {"remote-ca", required_argument, NULL, OPTION_REMOTE_CA},
        {"remote-cert", required_argument, NULL, OPTION_REMOTE_CERT},
        {"remote-key", required_argument, NULL, OPTION_REMOTE_KEY},
        {"query-url", required_argument, NULL, OPTION_QUERY_URL},
        {"query-match", required_argument, NULL, OPTION_QUERY_MATCH},
        {"query-user", required_argument, NULL, OPTION_QUERY_USER},
        {"query-token", required_argument, NULL, OPTION_QUERY_TOKEN},
        {"query-ca", required_argument, NULL, OPTION_QUERY_CA},
        {"query-cert", required_argument, NULL, OPTION_QUERY_CERT},
        {"query-key", required_argument, NULL, OPTION_QUERY_KEY},
        {"check-names", no_argument, NULL, OPTION_CHECK_NAMES},
        {"series", required_argument, NULL, OPTION_SERIES},
        {"relays", required_argument, NULL, OPTION_RELAYS},
        {"node-quota", required_argument, NULL, OPTION_NODE_QUOTA},
        {"relay-quota", required_argument, NULL, OPTION_RELAY_QUOTA},
        {"rules", required_argument, NULL, OPTION_RULES},
        {"alert-webhook", required_argument, NULL, OPTION_ALERT_WEBHOOK},
        {"alert-command", required_argument, NULL, OPTION_ALERT_COMMAND},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},
        {NULL, 0, NULL, 0},
    };
    const char *node = NULL;
    int option, bad = 0;
    int64_t value = 0;

    while ((option = getopt_long(argc, argv, "l:w:d:s:k:n:S:r:u:N:q:hV", options, NULL)) != -1) {
        switch (option) {
        case 'l':
            collector->listen = optarg;
            break;
        case 'w':
            collector->http_options.address = optarg;
            break;
        case 'd':
            collector->database = optarg;
            break;
        case 's':
            collector->options.secret_file = optarg;
            break;
        case 'k':
            bad = number(optarg, &value);
            collector->keep_seconds = value;
            break;
        case 'S':
            bad = size_number(optarg, &collector->max_bytes);
            break;
        case 'n':
            fprintf(stderr, "udmon-collector: --rows is ignored: --size bounds the history now\n");
            break;
        case 'r':
            collector->remote_url = optarg;
            break;
        case 'u':
            collector->upper = optarg;
            break;
        case 'N':
            collector->options.name = optarg;
            break;
        case 'q':
            bad = number(optarg, &value);
            collector->options.queue_bytes = value;
            break;
        case OPTION_OLD_SECRET:
            collector->options.old_secret_file = optarg;
            break;
        case OPTION_NODE_SECRET:
            node = optarg;
            break;
        case OPTION_UPPER_SECRET:
            collector->upper_secret = optarg;
            break;
        case OPTION_CA:
            collector->options.ca_file = optarg;
            break;
        case OPTION_CERT:
            collector->options.cert_file = optarg;
            break;
        case OPTION_KEY:
            collector->options.key_file = optarg;
            break;
        case OPTION_HTTP_USERS:
            collector->http_options.users_file = optarg;
            break;
        case OPTION_HTTP_CERT:
            collector->http_options.cert_file = optarg;
            break;
        case OPTION_HTTP_KEY:
            collector->http_options.key_file = optarg;
            break;
        case OPTION_HTTP_OPEN:
            collector->http_options.open = 1;
            break;
        case OPTION_REMOTE_QUEUE:
            bad = size_number(optarg, &value);
            collector->remote_options.queue_bytes = value;
            break;
        case OPTION_REMOTE_USER:
        case OPTION_REMOTE_TOKEN:
        case OPTION_REMOTE_CA:
        case OPTION_REMOTE_CERT:
        case OPTION_REMOTE_KEY:
            set_access(&collector->remote_options.access, option - OPTION_REMOTE_USER, optarg);
            break;
        case OPTION_QUERY_URL:
            collector->query_options.url = optarg;
            break;
        case OPTION_QUERY_MATCH:
            collector->query_options.match = optarg;
            break;
        case OPTION_QUERY_USER:
        case OPTION_QUERY_TOKEN:
        case OPTION_QUERY_CA:
        case OPTION_QUERY_CERT:
        case OPTION_QUERY_KEY:
            set_access(&collector->query_options.access, option - OPTION_QUERY_USER, optarg);
            break;
        case OPTION_CHECK_NAMES:
            collector->options.check_names = 1;
            break;
        case OPTION_SERIES:
            bad = number(optarg, &collector->max_series);
            break;
        case OPTION_NODE_QUOTA:
            bad = quota_parse(&collector->node_limits, optarg);
            break;
        case OPTION_RELAY_QUOTA:
            bad = quota_parse(&collector->relay_limits, optarg);
            break;
        case OPTION_RULES:
            collector->rules_file = optarg;
            break;
        case OPTION_ALERT_WEBHOOK:
            collector->notify_options.webhook = optarg;
            break;
        case OPTION_ALERT_COMMAND:
            collector->notify_options.command = optarg;
            break;
        case OPTION_RELAYS:
            collector->options.relays = optarg;
            break;
        case 'h':
            return usage(stdout, 0);
        case 'V':
            printf("udmon-collector %s\n", UDMON_PACKAGE_VERSION);
            return 0;
        default:
            return usage(stderr, 2);
        }
        if (bad) {
            fprintf(stderr, "udmon-collector: '%s' is no %s\n", optarg,
                    ((option == OPTION_NODE_QUOTA) || (option == OPTION_RELAY_QUOTA)) ?
                        "list of limits" :
                        "such number");
            return 2;
        }
    }
    if (!arguments_fit(collector, node)) {
        return 2;
    }
    if (node != NULL) {
        return (optind < argc) ? usage(stderr, 2) :
                                 print_node_secret(collector->options.secret_file, node);
    }
    if (collector->listen == NULL) {
        /* Other hosts may connect only if agents authenticate. */
        collector->listen = agents_prove(collector) ? "*:4999" : "localhost:4999";
    }
    return (optind < argc) ? usage(stderr, 2) : -1;
}

int main(int argc, char **argv)
{
    static struct collector collector = {
        .http_options.address = "127.0.0.1:9499",
        .database = "/var/lib/udmon/history.db",
        .keep_seconds = 30 * 86400,
        .max_bytes = INT64_C(16) << 30,
        .max_series = STORE_SERIES_ALL,
        .options.queue_bytes = 64 << 20,
        .options.relays = "",
        .remote_options.queue_bytes = UINT64_C(4) << 30,
    };
    int status;

    quota_defaults(&collector.node_limits, false);
    quota_defaults(&collector.relay_limits, true);
    status = arguments(argc, argv, &collector);
    if (status >= 0) {
        return status;
    }
    if (collector_open(&collector) < 0) {
        return 1;
    }
    fprintf(stderr, "udmon-collector: listening on %s (port %d%s), page at http%s://%s/\n",
            collector.listen, udmon_server_port(collector.server),
            agents_prove(&collector) ? "" : ", this host only: no secret was given",
            (collector.http_options.cert_file != NULL) ? "s" : "", collector.http_options.address);
    udmon_signals_wait(&collector.loop, &collector.signals);
    collector_close(&collector);
    return 0;
}

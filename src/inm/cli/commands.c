/* The commands of inm. */
#include "cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *const alarm_columns[] = {"id",     "severity",     "cause", "place", "folded",
                                            "raised", "acknowledged", "text",  NULL};

/* Print a reply: as JSON, as a table of its member `list`, or as an object. */
static int show(struct cli *cli, int status, struct json_object *reply, const char *list,
                const char *const *columns)
{
    struct json_object *rows;

    if (status == CLI_OK) {
        if (cli->json) {
            puts(json_object_to_json_string_ext(reply, JSON_C_TO_STRING_PLAIN));
        } else if (list != NULL && json_object_object_get_ex(reply, list, &rows)) {
            table_print(rows, columns);
        } else {
            table_object(reply);
        }
        fflush(stdout);
    }
    json_object_put(reply);
    return status;
}

static int get(struct cli *cli, const char *path, const char *list, const char *const *columns)
{
    struct json_object *reply;
    int status = client_call(cli, path, NULL, &reply);

    return show(cli, status, reply, list, columns);
}

static int post(struct cli *cli, const char *path, struct json_object *body)
{
    struct json_object *reply;
    int status = client_call(cli, path, body, &reply);

    return show(cli, status, reply, NULL, NULL);
}

static int wrong_use(const char *text)
{
    fprintf(stderr, "inm: usage: inm %s\n", text);
    return CLI_USAGE;
}

static void put_text(struct json_object *body, const char *name, const char *value)
{
    json_object_object_add(body, name, json_object_new_string(value));
}

/* A wrong number goes to the server as text, which the server refuses with the reason. */
static void put_number(struct json_object *body, const char *name, const char *value)
{
    char *end;
    long long number = strtoll(value, &end, 0);

    if (value[0] != '\0' && *end == '\0') {
        json_object_object_add(body, name, json_object_new_int64(number));
    } else {
        put_text(body, name, value);
    }
}

/* KEY=NUMBER arguments into a body. @return false: something else. */
static bool options(int argc, char **argv, int from, const char *const *allowed,
                    struct json_object *body)
{
    int i, k;

    for (i = from; i < argc; i++) {
        char *value = strchr(argv[i], '=');

        if (value == NULL) {
            return false;
        }
        *value++ = '\0';
        for (k = 0; allowed[k] != NULL && strcmp(argv[i], allowed[k]) != 0; k++) {
        }
        if (allowed[k] == NULL) {
            return false;
        }
        if (value[strspn(value, "0123456789")] == '\0') {
            put_number(body, argv[i], value);
        } else {
            put_text(body, argv[i], value);
        }
    }
    return true;
}

static int with_options(struct cli *cli, int argc, char **argv, const char *path,
                        const char *const *allowed, const char *usage)
{
    struct json_object *body = json_object_new_object();

    if (!options(argc, argv, 1, allowed, body)) {
        json_object_put(body);
        return wrong_use(usage);
    }
    return post(cli, path, body);
}

static int cmd_discover(struct cli *cli, int argc, char **argv)
{
    static const char *const allowed[] = {"window", NULL};

    return with_options(cli, argc, argv, "/api/v1/discover", allowed, "discover [window=N]");
}

static int cmd_scan(struct cli *cli, int argc, char **argv)
{
    static const char *const allowed[] = {"window", "per_chip", NULL};

    return with_options(cli, argc, argv, "/api/v1/scan", allowed, "scan [window=N] [per_chip=N]");
}

static int cmd_poll(struct cli *cli, int argc, char **argv)
{
    static const char *const allowed[] = {"mode", "interval_ms", NULL};

    return with_options(cli, argc, argv, "/api/v1/poll", allowed,
                        "poll [mode=single|loop|compare] [interval_ms=N]");
}

static int cmd_config(struct cli *cli, int argc, char **argv)
{
    static const char *const allowed[] = {"hot_limit", "retry_limit", NULL};

    if (argc == 1) {
        return get(cli, "/api/v1/config", NULL, NULL);
    }
    return with_options(cli, argc, argv, "/api/v1/config", allowed,
                        "config [hot_limit=N] [retry_limit=N]");
}

/* Appends an argument to a path. */
static void add_argument(char *path, size_t size, const char *name, const char *value)
{
    char *escaped = client_escape(value);
    size_t len = strlen(path);

    snprintf(path + len, size - len, "%c%s=%.120s", strchr(path, '?') != NULL ? '&' : '?', name,
             escaped);
    free(escaped);
}

static int get_of(struct cli *cli, const char *path, const char *name, const char *value,
                  const char *list, const char *const *columns)
{
    char url[400];

    snprintf(url, sizeof(url), "%s", path);
    add_argument(url, sizeof(url), name, value);
    return get(cli, url, list, columns);
}

static int cmd_show(struct cli *cli, int argc, char **argv)
{
    struct json_object *reply;
    int status;

    if (argc > 2) {
        return wrong_use("show [CHIP]");
    }
    if (argc == 2) {
        return get_of(cli, "/api/v1/chip", "chip", argv[1], NULL, NULL);
    }
    status = client_call(cli, "/api/v1/summary", NULL, &reply);
    if (status == CLI_OK && !cli->json) {
        table_summary(reply);
        json_object_put(reply);
        return CLI_OK;
    }
    return show(cli, status, reply, NULL, NULL);
}

static int cmd_differences(struct cli *cli, int argc, char **argv)
{
    static const char *const columns[] = {"port", "expected", "found", NULL};

    (void)argv;
    return argc == 1 ? get(cli, "/api/v1/differences", "differences", columns) :
                       wrong_use("differences");
}

static int cmd_ports(struct cli *cli, int argc, char **argv)
{
    static const char *const columns[] = {"port",    "up",         "lanes",    "handshakes",
                                          "retries", "crc_errors", "tx_flits", "rx_flits",
                                          "peer",    "expected",   NULL};

    return argc == 2 ? get_of(cli, "/api/v1/ports", "chip", argv[1], "ports", columns) :
                       wrong_use("ports CHIP");
}

static int cmd_reg(struct cli *cli, int argc, char **argv)
{
    struct json_object *body;
    char path[600] = "/api/v1/reg";

    if (argc == 4 && strcmp(argv[1], "read") == 0) {
        add_argument(path, sizeof(path), "chip", argv[2]);
        add_argument(path, sizeof(path), "addr", argv[3]);
        return get(cli, path, NULL, NULL);
    }
    if (argc == 5 && strcmp(argv[1], "write") == 0) {
        body = json_object_new_object();
        put_text(body, "chip", argv[2]);
        put_number(body, "addr", argv[3]);
        put_text(body, "value", argv[4]);
        return post(cli, "/api/v1/reg", body);
    }
    return wrong_use("reg read CHIP ADDRESS | reg write CHIP ADDRESS VALUE");
}

static int cmd_eeprom(struct cli *cli, int argc, char **argv)
{
    struct json_object *body;
    char path[600] = "/api/v1/eeprom";

    if ((argc == 4 || argc == 5) && strcmp(argv[1], "read") == 0) {
        add_argument(path, sizeof(path), "chip", argv[2]);
        add_argument(path, sizeof(path), "addr", argv[3]);
        add_argument(path, sizeof(path), "num", argc == 5 ? argv[4] : "1");
        return get(cli, path, NULL, NULL);
    }
    if (argc == 5 && strcmp(argv[1], "write") == 0) {
        body = json_object_new_object();
        put_text(body, "chip", argv[2]);
        put_number(body, "addr", argv[3]);
        put_text(body, "bytes", argv[4]);
        return post(cli, "/api/v1/eeprom", body);
    }
    return wrong_use("eeprom read CHIP ADDRESS [NUMBER] | eeprom write CHIP ADDRESS HEXBYTES");
}

static int cmd_trace(struct cli *cli, int argc, char **argv)
{
    static const char *const columns[] = {"chip", "level", "in",      "out", "choices",
                                          "up",   "lanes", "retries", NULL};
    char path[600] = "/api/v1/trace";

    if (argc != 3) {
        return wrong_use("trace HOST HOST");
    }
    add_argument(path, sizeof(path), "from", argv[1]);
    add_argument(path, sizeof(path), "to", argv[2]);
    return get(cli, path, "hops", columns);
}

/* A time: seconds since 1970, or local time as 2026-11-27[ 14:00[:30]]. */
static const char *parse_time(const char *text, char *buf, size_t size)
{
    static const char *const formats[] = {"%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d"};
    size_t i;

    for (i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
        struct tm tm = {.tm_isdst = -1};
        const char *end = strptime(text, formats[i], &tm);

        if (end != NULL && *end == '\0') {
            snprintf(buf, size, "%lld", (long long)mktime(&tm));
            return buf;
        }
    }
    return text;
}

/* NAME=VALUE arguments, and the word csv, into a path. @return false: an argument is wrong. */
static bool query_options(int argc, char **argv, int from, const char *const *allowed, char *path,
                          size_t size, bool *csv)
{
    char buf[32];
    int i, k;

    for (i = from; i < argc; i++) {
        char *value = strchr(argv[i], '=');

        if (strcmp(argv[i], "csv") == 0) {
            *csv = true;
            add_argument(path, size, "format", "csv");
            continue;
        }
        if (value == NULL) {
            return false;
        }
        *value++ = '\0';
        for (k = 0; allowed[k] != NULL && strcmp(argv[i], allowed[k]) != 0; k++) {
        }
        if (allowed[k] == NULL) {
            return false;
        }
        add_argument(path, size, argv[i],
                     strcmp(argv[i], "from") == 0 || strcmp(argv[i], "to") == 0 ?
                         parse_time(value, buf, sizeof(buf)) :
                         value);
    }
    return true;
}

static int cmd_log(struct cli *cli, int argc, char **argv)
{
    static const char *const allowed[] = {"severity", "place",  "user",  "kind", "from",
                                          "to",       "before", "limit", NULL};
    static const char *const columns[] = {"time", "severity", "kind", "place",
                                          "user", "text",     NULL};
    char path[900] = "/api/v1/log";
    bool csv = false;

    if (!query_options(argc, argv, 1, allowed, path, sizeof(path), &csv)) {
        return wrong_use("log [severity=S] [place=P] [user=U] [kind=K] [from=T] [to=T] [limit=N] "
                         "[csv]");
    }
    return csv ? client_text(cli, path) : get(cli, path, "log", columns);
}

static int cmd_bist(struct cli *cli, int argc, char **argv)
{
    static const char *const allowed[] = {"us", NULL};
    struct json_object *body = json_object_new_object();

    if (argc < 2 || !options(argc, argv, 2, allowed, body)) {
        json_object_put(body);
        return wrong_use("bist PORT|CHIP|SWITCH|CABINET|all [us=N]");
    }
    put_text(body, "target", argv[1]);
    return post(cli, "/api/v1/bist", body);
}

static int cmd_route(struct cli *cli, int argc, char **argv)
{
    struct json_object *body = json_object_new_object();

    if (argc < 2 || argc > 3) {
        json_object_put(body);
        return wrong_use("route generate [shortest|balanced|updown] | load | verify | keep [CHIP]");
    }
    put_text(body, "action", argv[1]);
    if (argc == 3) {
        put_text(body, strcmp(argv[1], "keep") == 0 ? "chip" : "kind", argv[2]);
    }
    return post(cli, "/api/v1/routes", body);
}

/* Saves a plan's picture. */
static int save_picture(struct cli *cli, struct json_object *plan, const char *file)
{
    struct json_object *id;
    char path[100];

    json_object_object_get_ex(plan, "id", &id);
    snprintf(path, sizeof(path), "/api/v1/plan/picture?id=%lld",
             (long long)json_object_get_int64(id));
    if (freopen(file, "w", stdout) == NULL) {
        fprintf(stderr, "inm: %s: %m\n", file);
        return CLI_USAGE;
    }
    return client_text(cli, path);
}

static int cmd_load(struct cli *cli, int argc, char **argv)
{
    static const char *const levels[] = {"level", "direction", "links", "mean",
                                         "most",  "wait",      NULL};
    static const char *const top[] = {"port", "peer", "use", "wait", NULL};
    static const char *const jobs[] = {"name", "number", "mean", "most", "hosts", NULL};
    struct json_object *reply, *list;
    int status;

    (void)argv;
    if (argc != 1) {
        return wrong_use("load");
    }
    status = client_call(cli, "/api/v1/load", NULL, &reply);
    if (status != CLI_OK || cli->json) {
        return show(cli, status, reply, NULL, NULL);
    }
    if (json_object_object_get_ex(reply, "seconds", &list) && json_object_get_double(list) <= 0) {
        puts("no load yet: two polls are needed; \"inm poll\" polls now");
    } else {
        json_object_object_get_ex(reply, "levels", &list);
        table_print(list, levels);
        json_object_object_get_ex(reply, "top", &list);
        puts("\nThe most loaded ports:");
        table_print(list, top);
        json_object_object_get_ex(reply, "jobs", &list);
        if (json_object_array_length(list) > 0) {
            puts("\nJobs:");
            table_print(list, jobs);
        }
    }
    json_object_put(reply);
    return CLI_OK;
}

static int cmd_job(struct cli *cli, int argc, char **argv)
{
    struct json_object *body = json_object_new_object();

    if (argc == 4 && strcmp(argv[1], "set") == 0) {
        put_text(body, "name", argv[2]);
        put_text(body, "hosts", argv[3]);
        return post(cli, "/api/v1/jobs", body);
    }
    if (argc == 3 && strcmp(argv[1], "delete") == 0) {
        put_text(body, "name", argv[2]);
        return post(cli, "/api/v1/jobs/delete", body);
    }
    json_object_put(body);
    return wrong_use("job set NAME HOSTS | job delete NAME");
}

static int cmd_inventory(struct cli *cli, int argc, char **argv)
{
    static const char *const columns[] = {"chip",       "type",      "serial", "firmware",
                                          "first_seen", "last_seen", NULL};

    if (argc == 2 && strcmp(argv[1], "read") == 0) {
        return post(cli, "/api/v1/inventory", json_object_new_object());
    }
    if (argc == 2 && strcmp(argv[1], "csv") == 0) {
        return client_text(cli, "/api/v1/inventory?format=csv");
    }
    if (argc == 2 && strcmp(argv[1], "netbox") == 0) {
        return client_text(cli, "/api/v1/inventory?format=netbox");
    }
    if (argc == 1 || (argc == 2 && strcmp(argv[1], "all") == 0)) {
        return get(cli, argc == 1 ? "/api/v1/inventory" : "/api/v1/inventory?all=1", "parts",
                   columns);
    }
    return wrong_use("inventory [all | read | csv | netbox]");
}

static int cmd_silence(struct cli *cli, int argc, char **argv)
{
    static const char *const columns[] = {"id", "place", "until", "user", "comment", NULL};
    struct json_object *body;

    if (argc == 1) {
        return get(cli, "/api/v1/silences", "silences", columns);
    }
    body = json_object_new_object();
    if (argc == 3 && strcmp(argv[1], "end") == 0) {
        put_number(body, "id", argv[2]);
        return post(cli, "/api/v1/silences/delete", body);
    }
    if (argc == 3 || argc == 4) {
        put_text(body, "place", argv[1]);
        put_number(body, "minutes", argv[2]);
        if (argc == 4) {
            put_text(body, "comment", argv[3]);
        }
        return post(cli, "/api/v1/silences", body);
    }
    json_object_put(body);
    return wrong_use("silence [PLACE MINUTES [COMMENT] | end ID]");
}

static int cmd_plan(struct cli *cli, int argc, char **argv)
{
    const char *picture =
        argc > 2 && strncmp(argv[argc - 1], "picture=", 8) == 0 ? argv[argc - 1] + 8 : NULL;
    int num = argc - (picture != NULL), status;
    struct json_object *body, *reply;

    if (num < 3 || num != (strcmp(argv[1], "add") == 0 ? 4 : 3)) {
        return wrong_use("plan drain PLACE | plan cut PORT | plan add PORT PORT  [picture=FILE]");
    }
    body = json_object_new_object();
    put_text(body, "action", argv[1]);
    put_text(body, "target", argv[2]);
    if (num == 4) {
        put_text(body, "other", argv[3]);
    }
    status = client_call(cli, "/api/v1/plan", body, &reply);
    if (status == CLI_OK && !cli->json) {
        table_plan(reply);
    } else if (status == CLI_OK) {
        puts(json_object_to_json_string_ext(reply, JSON_C_TO_STRING_PLAIN));
    }
    fflush(stdout);
    if (status == CLI_OK && picture != NULL) {
        status = save_picture(cli, reply, picture);
    }
    json_object_put(reply);
    return status;
}

static int cmd_apply(struct cli *cli, int argc, char **argv)
{
    struct json_object *body = json_object_new_object();

    if (argc != 2) {
        json_object_put(body);
        return wrong_use("apply PLAN");
    }
    put_number(body, "id", argv[1]);
    return post(cli, "/api/v1/plan/apply", body);
}

static int cmd_undo(struct cli *cli, int argc, char **argv)
{
    (void)argv;
    return argc == 1 ? post(cli, "/api/v1/plan/undo", json_object_new_object()) : wrong_use("undo");
}

static int cmd_plans(struct cli *cli, int argc, char **argv)
{
    static const char *const columns[] = {"time", "action", "target", "other", NULL};

    (void)argv;
    return argc == 1 ? get(cli, "/api/v1/plans", "applied", columns) : wrong_use("plans");
}

static int cmd_alarms(struct cli *cli, int argc, char **argv)
{
    struct json_object *reply, *list, *body;
    int status;

    if ((argc == 3 || argc == 4) && strcmp(argv[1], "ack") == 0) {
        body = json_object_new_object();
        put_number(body, "id", argv[2]);
        if (argc == 4) {
            put_text(body, "comment", argv[3]);
        }
        return post(cli, "/api/v1/alarms/ack", body);
    }
    if (argc > 2 || (argc == 2 && strcmp(argv[1], "all") != 0)) {
        return wrong_use("alarms [all | ack ID [COMMENT]]");
    }
    status = client_call(cli, argc == 2 ? "/api/v1/alarms?all=1" : "/api/v1/alarms", NULL, &reply);
    if (status == CLI_OK && argc == 1 && json_object_object_get_ex(reply, "alarms", &list) &&
        json_object_array_length(list) > 0) {
        show(cli, CLI_OK, reply, "alarms", alarm_columns);
        return CLI_ALARMS;
    }
    return show(cli, status, reply, "alarms", alarm_columns);
}

/* New events and changed alarms, as they come, until interrupted. */
static int cmd_watch(struct cli *cli, int argc, char **argv)
{
    struct json_object *reply, *list, *event, *id;
    long long last = -1;
    size_t i, num;
    char path[100];
    int status, rounds = argc == 2 ? atoi(argv[1]) : -1;

    for (; rounds != 0; rounds -= rounds > 0) {
        snprintf(path, sizeof(path), "/api/v1/events?limit=%d&since=%lld", last < 0 ? 1 : 2000,
                 last < 0 ? 0 : last);
        status = client_call(cli, path, NULL, &reply);
        if (status != CLI_OK) {
            return status;
        }
        if (json_object_object_get_ex(reply, "events", &list)) {
            num = json_object_array_length(list);
            for (i = 0; i < num; i++) {
                event = json_object_array_get_idx(list, i);
                json_object_object_get_ex(event, "id", &id);
                if (last >= 0) {
                    puts(json_object_to_json_string_ext(event, JSON_C_TO_STRING_PLAIN));
                }
                last = json_object_get_int64(id) > last ? json_object_get_int64(id) : last;
            }
            fflush(stdout);
        }
        last = last < 0 ? 0 : last;
        json_object_put(reply);
        usleep(500000);
    }
    return CLI_OK;
}

int cli_command(struct cli *cli, int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(struct cli *cli, int argc, char **argv);
    } commands[] = {{"discover", cmd_discover},
                    {"show", cmd_show},
                    {"differences", cmd_differences},
                    {"ports", cmd_ports},
                    {"reg", cmd_reg},
                    {"eeprom", cmd_eeprom},
                    {"trace", cmd_trace},
                    {"load", cmd_load},
                    {"silence", cmd_silence},
                    {"job", cmd_job},
                    {"inventory", cmd_inventory},
                    {"plan", cmd_plan},
                    {"apply", cmd_apply},
                    {"undo", cmd_undo},
                    {"plans", cmd_plans},
                    {"bist", cmd_bist},
                    {"route", cmd_route},
                    {"alarms", cmd_alarms},
                    {"log", cmd_log},
                    {"watch", cmd_watch},
                    {"scan", cmd_scan},
                    {"poll", cmd_poll},
                    {"config", cmd_config}};
    size_t i;

    for (i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (strcmp(argv[0], commands[i].name) == 0) {
            return commands[i].run(cli, argc, argv);
        }
    }
    fprintf(stderr, "inm: unknown command %s; try inm --help\n", argv[0]);
    return CLI_USAGE;
}

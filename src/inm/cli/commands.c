/* The commands of inm. */
#include "cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const alarm_columns[] = {"id", "severity", "cause", "place", "folded", "raised",
                                            "acknowledged", "text", NULL};

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

static void put_number(struct json_object *body, const char *name, const char *value)
{
    json_object_object_add(body, name, json_object_new_int64(strtoll(value, NULL, 0)));
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

static int get_of(struct cli *cli, const char *path, const char *value, const char *list,
                  const char *const *columns)
{
    char *escaped = client_escape(value), url[400];
    int status;

    snprintf(url, sizeof(url), "%s%.100s", path, escaped);
    free(escaped);
    status = get(cli, url, list, columns);
    return status;
}

static int cmd_show(struct cli *cli, int argc, char **argv)
{
    if (argc > 2) {
        return wrong_use("show [CHIP]");
    }
    return argc == 2 ? get_of(cli, "/api/v1/chip?chip=", argv[1], NULL, NULL)
                     : get(cli, "/api/v1/summary", NULL, NULL);
}

static int cmd_differences(struct cli *cli, int argc, char **argv)
{
    static const char *const columns[] = {"port", "expected", "found", NULL};

    (void)argv;
    return argc == 1 ? get(cli, "/api/v1/differences", "differences", columns)
                     : wrong_use("differences");
}

static int cmd_ports(struct cli *cli, int argc, char **argv)
{
    static const char *const columns[] = {"port", "up", "lanes", "handshakes", "retries",
                                          "crc_errors", "tx_flits", "rx_flits", "peer", "expected",
                                          NULL};

    return argc == 2 ? get_of(cli, "/api/v1/ports?chip=", argv[1], "ports", columns)
                     : wrong_use("ports CHIP");
}

static int cmd_reg(struct cli *cli, int argc, char **argv)
{
    struct json_object *body;
    char path[400], *chip;

    if (argc == 4 && strcmp(argv[1], "read") == 0) {
        chip = client_escape(argv[2]);
        snprintf(path, sizeof(path), "/api/v1/reg?chip=%.100s&addr=%lu", chip,
                 strtoul(argv[3], NULL, 0));
        free(chip);
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
    char path[400], *chip;

    if ((argc == 4 || argc == 5) && strcmp(argv[1], "read") == 0) {
        chip = client_escape(argv[2]);
        snprintf(path, sizeof(path), "/api/v1/eeprom?chip=%.100s&addr=%lu&num=%lu", chip,
                 strtoul(argv[3], NULL, 0), argc == 5 ? strtoul(argv[4], NULL, 0) : 1);
        free(chip);
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
    static const char *const columns[] = {"chip", "level", "in", "out", "choices", "up", "lanes",
                                          "retries", NULL};
    char path[400], *from, *to;

    if (argc != 3) {
        return wrong_use("trace HOST HOST");
    }
    from = client_escape(argv[1]);
    to = client_escape(argv[2]);
    snprintf(path, sizeof(path), "/api/v1/trace?from=%.100s&to=%.100s", from, to);
    free(from);
    free(to);
    return get(cli, path, "hops", columns);
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

static int cmd_alarms(struct cli *cli, int argc, char **argv)
{
    struct json_object *reply, *list, *body;
    int status;

    if (argc == 3 && strcmp(argv[1], "ack") == 0) {
        body = json_object_new_object();
        put_number(body, "id", argv[2]);
        return post(cli, "/api/v1/alarms/ack", body);
    }
    if (argc > 2 || (argc == 2 && strcmp(argv[1], "all") != 0)) {
        return wrong_use("alarms [all | ack ID]");
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
    } commands[] = {{"discover", cmd_discover}, {"show", cmd_show}, {"differences", cmd_differences},    {"ports", cmd_ports},
                    {"reg", cmd_reg},           {"eeprom", cmd_eeprom}, {"trace", cmd_trace},
                    {"bist", cmd_bist},         {"route", cmd_route},   {"alarms", cmd_alarms},
                    {"watch", cmd_watch},       {"scan", cmd_scan},     {"poll", cmd_poll},
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

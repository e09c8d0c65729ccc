/* mcsm-ctl: asks a running manager. */
#include "base/text.h"
#include "ctl/command.h"

#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { EXIT_USAGE = 2, EXIT_NO_MANAGER = 3 };

static const char usage_begin[] =
    "Usage: mcsm-ctl [-c CLUSTER | -s SOCKET] [--json] COMMAND\n"
    "\n"
    "Asks the manager of a cluster (by default the only one that runs here), as its owner or "
    "root.\n"
    "\n";

static const char usage_end[] =
    "\n"
    "  -c, --cluster NAME   the manager of /run/mcsm/NAME.sock\n"
    "  -s, --socket PATH    the manager of another control socket\n"
    "      --json           print JSON instead of tables\n"
    "      --version, -h, --help\n"
    "\n"
    "Exit codes: 0 done, 1 the manager refuses, 2 wrong command line, 3 no manager answers.\n";

static const struct mcsm_command commands[] = {
#define COMMAND(name, keyword, arguments, help, run) {name, keyword, arguments, help, NULL},
#define HEADING(text)                                {NULL, NULL, NULL, text, NULL},
#include "command_list.h"
#undef COMMAND
#undef HEADING
};

enum { COMMANDS = sizeof(commands) / sizeof(*commands) };

static void usage(FILE *out)
{
    fputs(usage_begin, out);
    mcsm_command_help(commands, COMMANDS, out);
    fputs(usage_end, out);
}

/* The only socket in /run/mcsm. */
static int only_socket(char *path, size_t size)
{
    DIR *directory = opendir("/run/mcsm");
    struct dirent *entry;
    int count = 0;

    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        if (entry->d_name[0] == '.') {
            continue;
        }
        count++;
        if (snprintf(path, size, "/run/mcsm/%s", entry->d_name) >= (int)size) {
            path[0] = '\0';
        }
    }
    if (directory != NULL) {
        closedir(directory);
    }
    return count;
}

static int connect_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd, status;

    if (strlen(path) >= sizeof(address.sun_path)) {
        return -ENAMETOOLONG;
    }
    strcpy(address.sun_path, path);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0) {
        return fd < 0 ? -errno : fd;
    }
    status = -errno;
    close(fd);
    return status;
}

/* ---- tables ---- */

/* One object, key by key. */
static void print_object(struct json_object *json)
{
    json_object_object_foreach(json, key, value) {
        if (!json_object_is_type(value, json_type_array)) {
            printf("%-16s %s\n", key, json_object_get_string(value));
        }
    }
}

static int width_of(struct json_object *rows, const char *key)
{
    int widest = strlen(key);

    for (size_t i = 0; i < json_object_array_length(rows); i++) {
        struct json_object *value = json_object_object_get(json_object_array_get_idx(rows, i), key);
        int width = value ? strlen(json_object_get_string(value)) : 0;

        widest = width > widest ? width : widest;
    }
    return widest;
}

/* Prints an array of objects as a table. The columns are all keys that occur. */
static void print_rows(struct json_object *rows)
{
    const char *columns[32];
    int widths[32], count = 0;

    for (size_t i = 0; i < json_object_array_length(rows); i++) {
        json_object_object_foreach(json_object_array_get_idx(rows, i), key, value) {
            int known = 0;

            (void)value;
            while (known < count && strcmp(columns[known], key) != 0) {
                known++;
            }
            if (known == count && count < 32) {
                columns[count++] = key;
            }
        }
    }
    for (int c = 0; c < count; c++) {
        widths[c] = width_of(rows, columns[c]);
        printf("%-*s%s", widths[c], columns[c], c + 1 < count ? "  " : "\n");
    }
    for (size_t i = 0; i < json_object_array_length(rows); i++) {
        for (int c = 0; c < count; c++) {
            struct json_object *value =
                json_object_object_get(json_object_array_get_idx(rows, i), columns[c]);

            printf("%-*s%s", widths[c], value ? json_object_get_string(value) : "",
                   c + 1 < count ? "  " : "\n");
        }
    }
}

static void print_tables(struct json_object *json)
{
    if (json_object_is_type(json, json_type_array)) {
        print_rows(json);
        return;
    }
    print_object(json);
    json_object_object_foreach(json, key, value) {
        if (json_object_is_type(value, json_type_array)) {
            printf("\n%s:\n", key);
            print_rows(value);
        }
    }
}

static int show(FILE *in, bool as_json)
{
    char first[512], *text = NULL;
    size_t size = 0;
    struct json_object *json;

    if (fgets(first, sizeof(first), in) == NULL) {
        fputs("mcsm-ctl: the manager ended without an answer\n", stderr);
        return EXIT_NO_MANAGER;
    }
    if (strncmp(first, "error ", 6) == 0) {
        fprintf(stderr, "mcsm-ctl: %s", first + 6);
        return EXIT_FAILURE;
    }
    if (getdelim(&text, &size, '\0', in) < 0) {
        return EXIT_FAILURE;
    }
    json = strcmp(first, "json\n") == 0 && !as_json ? json_tokener_parse(text) : NULL;
    if (json != NULL) {
        print_tables(json);
        json_object_put(json);
    } else {
        fputs(text, stdout);
    }
    free(text);
    return EXIT_SUCCESS;
}

/* The words are no command. */
static void explain(char **words, int count)
{
    if (count == 0) {
        usage(stderr);
        return;
    }
    for (int i = 0; i < COMMANDS; i++) {
        if (commands[i].name != NULL && strcmp(commands[i].name, words[0]) == 0) {
            fprintf(stderr, "mcsm-ctl: expected: %s%s%s%s%s\n", commands[i].name,
                    commands[i].keyword[0] ? " " : "", commands[i].keyword,
                    commands[i].arguments[0] ? " " : "", commands[i].arguments);
            count = 0;
        }
    }
    if (count > 0) {
        fprintf(stderr, "mcsm-ctl: there is no command %s (--help lists the commands)\n", words[0]);
    }
}

static int ask(const char *path, char **words, int count, bool as_json)
{
    int fd = connect_to(path), status;
    FILE *stream;

    if (fd < 0) {
        fprintf(stderr, "mcsm-ctl: %s: %s (does mcsm run, and are you its owner?)\n", path,
                strerror(-fd));
        return EXIT_NO_MANAGER;
    }
    for (int i = 0; i < count; i++) {
        dprintf(fd, "%s%s", words[i], i + 1 < count ? "\t" : "\n");
    }
    stream = fdopen(fd, "r");
    if (stream == NULL) {
        return EXIT_FAILURE;
    }
    status = show(stream, as_json);
    fclose(stream);
    return status;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"cluster", required_argument, NULL, 'c'}, {"socket", required_argument, NULL, 's'},
        {"json", no_argument, NULL, 'j'},          {"version", no_argument, NULL, 'V'},
        {"help", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0}};
    const char *arguments[MCSM_COMMAND_ARGUMENTS];
    bool as_json = false;
    char path[300] = "";
    int option, found;

    while ((option = getopt_long(argc, argv, "c:s:h", options, NULL)) != -1) {
        switch (option) {
        case 'c':
            snprintf(path, sizeof(path), "/run/mcsm/%s.sock", optarg);
            break;
        case 's':
            snprintf(path, sizeof(path), "%s", optarg);
            break;
        case 'j':
            as_json = true;
            break;
        case 'V':
            puts("mcsm-ctl " PACKAGE_VERSION);
            return 0;
        case 'h':
            usage(stdout);
            return 0;
        default:
            usage(stderr);
            return EXIT_USAGE;
        }
    }
    if (mcsm_command_find(commands, COMMANDS, (const char *const *)argv + optind, argc - optind,
                          arguments) == NULL) {
        explain(argv + optind, argc - optind);
        return EXIT_USAGE;
    }
    if (path[0] == '\0' && (found = only_socket(path, sizeof(path))) != 1) {
        fprintf(stderr, "mcsm-ctl: %s: say which by -c or -s\n",
                found ? "several managers run here" :
                        "no manager runs here with its socket in /run/mcsm");
        return found ? EXIT_USAGE : EXIT_NO_MANAGER;
    }
    return ask(path, argv + optind, argc - optind, as_json);
}

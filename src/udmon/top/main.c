/*
 * udmon-top: the nodes of a collector in a terminal, refreshed like top; or a job. Asks the
 * collector over HTTP, so it may be on another host.
 */
#include "job.h"

#include <curl/curl.h>
#include <curses.h>
#include <errno.h>
#include <getopt.h>
#include <json-c/json.h>
#include <limits.h>
#include <locale.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CELL = 10, NAME_MIN = 12, HEADER = 2, ANSWER_MAX = 256 << 20 };

struct column {
    const char *title, *name; /* in the collector's answer */
    double scale;
    const char *format;
};

static const struct column columns[] = {
    {"CPU %", "cpu", 100, "%.1f"},
    {"memory %", "memory", 100, "%.1f"},
    {"load", "load", 1, "%.2f"},
    {"in kB/s", "in", 1e-3, "%.1f"},
    {"out kB/s", "out", 1e-3, "%.1f"},
    {"rdma in", "rdma_in", 1e-3, "%.1f"},
    {"rdma out", "rdma_out", 1e-3, "%.1f"},
    {"series", "series", 1, "%.0f"},
    {"received", "received", 1, "%.0f"},
    {"lost", "lost", 1, "%.0f"},
};

enum { COLUMNS = sizeof(columns) / sizeof(columns[0]) };

struct top {
    const char *ca_file; /* or NULL */
    const char *job;     /* its number, or NULL: nodes */
    CURL *curl;
    char url[300];
    struct json_object *answer, *nodes; /* the latest; nodes is an array in it */
    int matching, up; /* nodes that match the filter; matching nodes that are up */
    char error[512];
    char filter[64];
    int typing; /* keys go to the filter */
    int sorted; /* column, or -1: by name */
    int descending;
    int first; /* node shown at the top */
};

/* Getting the nodes */

static size_t answer_add(char *data, size_t size, size_t count, void *answer)
{
    return ((ftell(answer) + (size * count)) > ANSWER_MAX) ? 0 : fwrite(data, size, count, answer);
}

/* The collector's answer, of the caller's, or NULL. */
static struct json_object *top_answer(struct top *top, CURLcode *code_p, long *status_p)
{
    struct json_object *parsed = NULL;
    char *text = NULL;
    size_t length;
    FILE *answer = open_memstream(&text, &length);

    *code_p = CURLE_OUT_OF_MEMORY;
    if (answer == NULL) {
        return NULL;
    }
    curl_easy_setopt(top->curl, CURLOPT_WRITEDATA, answer);
    *code_p = curl_easy_perform(top->curl);
    curl_easy_getinfo(top->curl, CURLINFO_RESPONSE_CODE, status_p);
    if ((fclose(answer) == 0) && (*code_p == CURLE_OK) && (*status_p == 200)) {
        parsed = json_tokener_parse(text);
    }
    free(text);
    return parsed;
}

/* Ask for so many nodes, from `first` on: the collector filters and sorts. */
static void top_ask(struct top *top, int count)
{
    const struct column *column = (top->sorted >= 0) ? &columns[top->sorted] : NULL;
    char *filter = curl_easy_escape(top->curl, top->filter, 0), url[600];

    snprintf(url, sizeof(url), "%s?search=%s&sort=%s&descending=%d&offset=%d&limit=%d", top->url,
             (filter != NULL) ? filter : "", (column != NULL) ? column->name : "name",
             top->descending, top->first, count);
    curl_free(filter);
    curl_easy_setopt(top->curl, CURLOPT_URL, url);
}

static int answer_number(struct json_object *answer, const char *name)
{
    struct json_object *number;

    return json_object_object_get_ex(answer, name, &number) ? json_object_get_int(number) : 0;
}

static int top_get(struct top *top)
{
    struct json_object *parsed, *nodes = NULL;
    long status = 0;
    CURLcode code;

    parsed = top_answer(top, &code, &status);
    if (code != CURLE_OK) {
        snprintf(top->error, sizeof(top->error), "no answer from %s (%s)", top->url,
                 curl_easy_strerror(code));
    } else if (!json_object_object_get_ex(parsed, "nodes", &nodes) ||
               !json_object_is_type(nodes, json_type_array)) {
        snprintf(top->error, sizeof(top->error), "%s: no udmon-collector (HTTP status %ld)",
                 top->url, status);
        nodes = NULL;
    }
    if (nodes == NULL) {
        json_object_put(parsed);
        return -EIO;
    }
    json_object_put(top->answer);
    top->answer = parsed;
    top->nodes = nodes;
    top->matching = answer_number(parsed, "matching");
    top->up = answer_number(parsed, "up");
    top->error[0] = '\0';
    return 0;
}

/* The displayed values of a node */

static const char *node_name(struct json_object *node)
{
    struct json_object *name;

    return json_object_object_get_ex(node, "name", &name) ? json_object_get_string(name) : "";
}

static bool node_up(struct json_object *node)
{
    struct json_object *up;

    return json_object_object_get_ex(node, "up", &up) && json_object_get_boolean(up);
}

/* Whether there is a value. */
static bool node_value(struct json_object *node, const struct column *column, double *value_p)
{
    struct json_object *values, *value;

    if (!json_object_object_get_ex(node, column->name, &value) &&
        !(json_object_object_get_ex(node, "values", &values) &&
          json_object_object_get_ex(values, column->name, &value))) {
        return false;
    }
    *value_p = json_object_get_double(value) * column->scale;
    return json_object_is_type(value, json_type_double) ||
           json_object_is_type(value, json_type_int);
}

/* Showing them */

/* How many columns a width has room for, and how wide the name is. */
static int top_layout(int width, int *name_width_p)
{
    int shown = (width - NAME_MIN - 8) / CELL;

    shown = (shown < 0) ? 0 : (shown > COLUMNS) ? COLUMNS : shown;
    *name_width_p = width - 8 - (shown * CELL);
    *name_width_p = (*name_width_p > 40) ? 40 : (*name_width_p < 1) ? 1 : *name_width_p;
    return shown;
}

static void top_row(struct json_object *node, int shown, int name_width, char *line, size_t size)
{
    int i, used = snprintf(line, size, "%-*.*s %-6s", name_width, name_width, node_name(node),
                           node_up(node) ? "up" : "down");
    char cell[32];
    double value;

    for (i = 0; (i < shown) && (used < (int)size); ++i) {
        snprintf(cell, sizeof(cell), "-");
        if (node_value(node, &columns[i], &value)) {
            snprintf(cell, sizeof(cell), columns[i].format, value);
        }
        used += snprintf(line + used, size - used, " %*.*s", CELL - 1, CELL - 1, cell);
    }
}

static void top_title(int shown, int name_width, char *line, size_t size)
{
    int i, used = snprintf(line, size, "%-*.*s %-6s", name_width, name_width, "node", "state");

    for (i = 0; (i < shown) && (used < (int)size); ++i) {
        used += snprintf(line + used, size - used, " %*.*s", CELL - 1, CELL - 1, columns[i].title);
    }
}

static void top_print(const struct top *top)
{
    char line[256];
    size_t i;

    top_title(COLUMNS, 20, line, sizeof(line));
    puts(line);
    for (i = 0; i < json_object_array_length(top->nodes); ++i) {
        top_row(json_object_array_get_idx(top->nodes, i), COLUMNS, 20, line, sizeof(line));
        puts(line);
    }
}

static void top_screen(const struct top *top)
{
    int name_width, row, shown = top_layout(COLS, &name_width), rows = LINES - HEADER;
    int count = json_object_array_length(top->nodes);
    char line[512];

    erase();
    if (top->error[0] != '\0') {
        snprintf(line, sizeof(line), "%s", top->error);
    } else {
        snprintf(line, sizeof(line),
                 "%d of %d nodes up, sorted by %s  %s%s%s  (q: end, </>: "
                 "sort, r: turn, /: filter)",
                 top->up, top->matching, (top->sorted < 0) ? "name" : columns[top->sorted].title,
                 (top->typing || top->filter[0]) ? "filter: " : "", top->filter,
                 top->typing ? "_" : "");
    }
    mvaddnstr(0, 0, line, COLS);
    top_title(shown, name_width, line, sizeof(line));
    attron(A_REVERSE);
    mvaddnstr(1, 0, line, COLS);
    attroff(A_REVERSE);
    for (row = 0; (row < rows) && (row < count); ++row) {
        top_row(json_object_array_get_idx(top->nodes, row), shown, name_width, line, sizeof(line));
        mvaddnstr(HEADER + row, 0, line, COLS);
    }
    refresh();
}

/* Scrolling ends with the last node. Returns whether the position was beyond the end. */
static bool top_clamp(struct top *top)
{
    int last = top->matching - (LINES - HEADER), before = top->first;

    top->first = (top->first > last) ? last : top->first;
    top->first = (top->first < 0) ? 0 : top->first;
    return top->first != before;
}

/* The first line shows errors. */
static void top_refresh(struct top *top)
{
    top_clamp(top);
    do {
        top_ask(top, (LINES > HEADER) ? (LINES - HEADER) : 1);
    } while ((top_get(top) == 0) && top_clamp(top)); /* there may be fewer nodes now */
    top_screen(top);
}

/* Keys */

static void top_type(struct top *top, int key)
{
    size_t length = strlen(top->filter);

    if ((key == '\n') || (key == KEY_ENTER) || (key == 27)) {
        top->typing = 0;
        if (key == 27) {
            top->filter[0] = '\0';
        }
    } else if ((key == KEY_BACKSPACE) || (key == 127) || (key == '\b')) {
        top->filter[(length > 0) ? (length - 1) : 0] = '\0';
    } else if ((key > ' ') && (key <= '~') && (length + 1 < sizeof(top->filter))) {
        top->filter[length] = key;
        top->filter[length + 1] = '\0';
    }
}

/* Returns whether to go on. */
static bool top_key(struct top *top, int key)
{
    int page = LINES - HEADER;

    if (top->typing && (key != ERR)) {
        top_type(top, key);
        return true;
    }
    switch (key) {
    case 'q':
        return false;
    case '/':
        top->typing = 1;
        break;
    case '<':
    case KEY_LEFT:
        top->sorted = (top->sorted < 0) ? (COLUMNS - 1) : (top->sorted - 1);
        break;
    case '>':
    case KEY_RIGHT:
        top->sorted = (top->sorted == COLUMNS - 1) ? -1 : (top->sorted + 1);
        break;
    case 'r':
        top->descending = !top->descending;
        break;
    case KEY_DOWN:
        ++top->first;
        break;
    case KEY_UP:
        --top->first;
        break;
    case KEY_NPAGE:
        top->first += page;
        break;
    case KEY_PPAGE:
        top->first -= page;
        break;
    case KEY_HOME:
        top->first = 0;
        break;
    case KEY_END:
        top->first = top->matching;
        break;
    default:
        break;
    }
    return true;
}

static int usage(FILE *out, int status)
{
    fprintf(
        out,
        "Usage: udmon-top [OPTION...] [job ID]\n"
        "Shows the nodes of a udmon-collector, here or on another host; or prints what a job of\n"
        "Slurm uses on its nodes.\n\n"
        "  -u, --url URL           of the collector's page [http://127.0.0.1:9499]\n"
        "  -c, --ca FILE           of HTTPS: trust this CA (PEM)\n"
        "  -i, --interval SECONDS  between refreshes [2]\n"
        "  -f, --filter TEXT       only nodes whose name has it\n"
        "  -b, --batch             print once and end\n"
        "  -j, --json              print once what the collector answers, and end\n"
        "  -h, --help              this text\n"
        "  -V, --version           the version\n\n"
        "Keys: arrows, page up and down scroll; < and > choose the column to sort by, r turns\n"
        "the order; / filters by name (escape: no filter); q ends it.\n"
        "Exit status: 0; 1 no answer from the collector; 2 wrong usage.\n");
    return status;
}

static int top_open(struct top *top, const char *url)
{
    snprintf(top->url, sizeof(top->url), "%s%s%s", strstr(url, "://") ? "" : "http://", url,
             (top->job != NULL) ? "/api/job" : "/api/nodes");
    top->curl = curl_easy_init();
    if (top->curl == NULL) {
        fprintf(stderr, "udmon-top: libcurl cannot be used\n");
        return -ENOMEM;
    }
    curl_easy_setopt(top->curl, CURLOPT_ACCEPT_ENCODING, "gzip");
    curl_easy_setopt(top->curl, CURLOPT_TIMEOUT, 10L);
    curl_easy_setopt(top->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(top->curl, CURLOPT_NETRC, (long)CURL_NETRC_OPTIONAL);
    if (top->ca_file != NULL) {
        curl_easy_setopt(top->curl, CURLOPT_CAINFO, top->ca_file);
    }
    curl_easy_setopt(top->curl, CURLOPT_WRITEFUNCTION, answer_add);
    return 0;
}

static void top_interactive(struct top *top, double interval)
{
    setlocale(LC_ALL, "");
    initscr();
    noecho();
    cbreak();
    keypad(stdscr, TRUE);
    curs_set(0);
    timeout((int)(interval * 1000));
    do {
        top_refresh(top);
    } while (top_key(top, getch()));
    endwin();
}

/* Returns an exit status, or -1 to go on. */
static int arguments(int argc, char **argv, struct top *top, const char **url_p, double *interval_p,
                     int *batch_p, int *json_p)
{
    static const struct option options[] = {
        {"url", required_argument, NULL, 'u'},
        {"interval", required_argument, NULL, 'i'},
        {"filter", required_argument, NULL, 'f'},
        {"batch", no_argument, NULL, 'b'},
        {"json", no_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},
        {"ca", required_argument, NULL, 'c'},
        {NULL, 0, NULL, 0},
    };
    int option;

    while ((option = getopt_long(argc, argv, "u:c:i:f:bjhV", options, NULL)) != -1) {
        switch (option) {
        case 'u':
            *url_p = optarg;
            break;
        case 'c':
            top->ca_file = optarg;
            break;
        case 'i':
            *interval_p = strtod(optarg, NULL);
            break;
        case 'f':
            snprintf(top->filter, sizeof(top->filter), "%s", optarg);
            break;
        case 'j':
            *json_p = 1;
            break;
        case 'b':
            *batch_p = 1;
            break;
        case 'V':
            printf("udmon-top %s\n", UDMON_PACKAGE_VERSION);
            return 0;
        default:
            return usage((option == 'h') ? stdout : stderr, (option == 'h') ? 0 : 2);
        }
    }
    if ((optind + 2 == argc) && !strcmp(argv[optind], "job")) {
        top->job = argv[optind + 1];
        optind = argc;
    }
    return ((optind < argc) || !(*interval_p >= 0.1) || !(*interval_p <= 3600)) ? usage(stderr, 2) :
                                                                                  -1;
}

static void top_job_error(const struct top *top, CURLcode code, long status)
{
    const char *reason = (status == 404) ? "no node of the collector knows this job" :
                         (status == 503) ? "the collector is busy, or the job is too large" :
                         (status == 400) ? "this is no number of a job" :
                         (status == 401) ? "the collector needs a user and a password (~/.netrc)" :
                                           NULL;

    if (code != CURLE_OK) {
        fprintf(stderr, "udmon-top: job %s: no answer from %s (%s)\n", top->job, top->url,
                curl_easy_strerror(code));
    } else if (reason != NULL) {
        fprintf(stderr, "udmon-top: job %s: %s\n", top->job, reason);
    } else {
        fprintf(stderr, "udmon-top: job %s: %s is no udmon-collector (HTTP status %ld)\n", top->job,
                top->url, status);
    }
}

/* Prints a job. Returns an exit status. */
static int top_print_job(struct top *top, int json)
{
    char *id = curl_easy_escape(top->curl, top->job, 0), url[600];
    struct json_object *answer;
    long status = 0;
    CURLcode code;

    snprintf(url, sizeof(url), "%s?job=%s", top->url, (id != NULL) ? id : "");
    curl_free(id);
    curl_easy_setopt(top->curl, CURLOPT_URL, url);
    answer = top_answer(top, &code, &status);
    if ((answer != NULL) && json) {
        puts(json_object_to_json_string_ext(answer, JSON_C_TO_STRING_PRETTY));
    } else if ((answer == NULL) || !job_print(answer, stdout)) {
        top_job_error(top, code, status);
        json_object_put(answer);
        return 1;
    }
    json_object_put(answer);
    return 0;
}

int main(int argc, char **argv)
{
    const char *url = "http://127.0.0.1:9499";
    struct top top = {.sorted = -1};
    double interval = 2;
    int ret, batch = 0, json = 0;

    ret = arguments(argc, argv, &top, &url, &interval, &batch, &json);
    if (ret >= 0) {
        return ret;
    }
    if (top_open(&top, url) < 0) {
        return 1;
    }
    if (top.job != NULL) {
        ret = top_print_job(&top, json);
        curl_easy_cleanup(top.curl);
        return ret;
    }
    if (json) {
        curl_easy_setopt(top.curl, CURLOPT_URL, top.url);
    } else {
        top_ask(&top, INT_MAX);
    }
    ret = top_get(&top);
    if (ret < 0) {
        fprintf(stderr, "udmon-top: %s\n", top.error);
    } else if (json) {
        puts(json_object_to_json_string_ext(top.answer, JSON_C_TO_STRING_PRETTY));
    } else if (batch) {
        top_print(&top);
    } else {
        top_interactive(&top, interval);
    }
    json_object_put(top.answer);
    curl_easy_cleanup(top.curl);
    return (ret < 0) ? 1 : 0;
}

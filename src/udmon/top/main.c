/* udmon-top: the nodes of a collector's history in a terminal, refreshed like top. */
#include <curses.h>
#include <errno.h>
#include <getopt.h>
#include <locale.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SILENT_SECONDS = 15 };

typedef struct column {
    const char *title, *series; /* the sum over all whose name matches this GLOB pattern */
    double scale;
    const char *format;
} column_t;

static const column_t columns[] = {
    {"load", "load1", 1, "%8.2f"},
    {"idle CPU", "cpu_seconds_rate{*mode=\"idle\"*", 1, "%8.2f"},
    {"mem MiB", "memory_available_bytes", 1.0 / (1 << 20), "%8.0f"},
    {"in kB/s", "network_receive_bytes_rate{*", 1e-3, "%8.1f"},
    {"out kB/s", "network_transmit_bytes_rate{*", 1e-3, "%8.1f"},
};

static const char hosts_query[] = "SELECT id, name, received, lost FROM host ORDER BY name";

/* The latest value of each matching series, not older than a while, summed. */
static const char value_query[] =
    "SELECT sum(value), max(time_ms) FROM (SELECT"
    " (SELECT value FROM sample WHERE series = s.id ORDER BY time_ms DESC LIMIT 1) AS value,"
    " (SELECT time_ms FROM sample WHERE series = s.id ORDER BY time_ms DESC LIMIT 1) AS time_ms"
    " FROM series AS s WHERE s.host = ? AND s.name GLOB ?) WHERE time_ms > ?";

typedef struct top {
    sqlite3 *db;
    sqlite3_stmt *hosts, *value;
    int row; /* next one on the screen */
    int batch;
} top_t;

static void top_line(top_t *top, const char *line)
{
    if (top->batch) {
        puts(line);
    } else if (top->row < LINES) {
        mvaddnstr(top->row++, 0, line, COLS);
    }
}

/* Returns whether there was a value. */
static int top_value(top_t *top, int64_t host, const char *series, double *value_p)
{
    int found = 0;

    sqlite3_bind_int64(top->value, 1, host);
    sqlite3_bind_text(top->value, 2, series, -1, SQLITE_STATIC);
    sqlite3_bind_int64(top->value, 3, ((int64_t)time(NULL) - SILENT_SECONDS) * 1000);
    if ((sqlite3_step(top->value) == SQLITE_ROW) &&
        (sqlite3_column_type(top->value, 0) != SQLITE_NULL)) {
        *value_p = sqlite3_column_double(top->value, 0);
        found = 1;
    }
    sqlite3_reset(top->value);
    return found;
}

static void top_host(top_t *top)
{
    int64_t host = sqlite3_column_int64(top->hosts, 0);
    double received = sqlite3_column_double(top->hosts, 2);
    double value, lost = sqlite3_column_double(top->hosts, 3);
    int known, used, any = 0;
    char line[512], cells[256] = "";
    size_t i;

    for (i = 0; i < (sizeof(columns) / sizeof(columns[0])); ++i) {
        known = top_value(top, host, columns[i].series, &value);
        any |= known;
        used = strlen(cells);
        if (known) {
            snprintf(cells + used, sizeof(cells) - used, columns[i].format,
                     value * columns[i].scale);
        } else {
            snprintf(cells + used, sizeof(cells) - used, "%8s", "-");
        }
        strncat(cells, " ", sizeof(cells) - strlen(cells) - 1);
    }
    snprintf(line, sizeof(line), "%-20.20s %-6s %s%12.0f %10.0f %6.2f %%",
             (const char *)sqlite3_column_text(top->hosts, 1), any ? "up" : "silent", cells,
             received, lost, ((received + lost) > 0) ? (100 * lost / (received + lost)) : 0);
    top_line(top, line);
}

static int top_draw(top_t *top)
{
    char line[512] = "", cell[32];
    int ret;
    size_t i;

    top->row = 0;
    if (!top->batch) {
        erase();
    }
    snprintf(line, sizeof(line), "%-20s %-6s ", "node", "state");
    for (i = 0; i < (sizeof(columns) / sizeof(columns[0])); ++i) {
        snprintf(cell, sizeof(cell), "%8s ", columns[i].title);
        strncat(line, cell, sizeof(line) - strlen(line) - 1);
    }
    strncat(line, "    received       lost     loss", sizeof(line) - strlen(line) - 1);
    top_line(top, line);
    while ((ret = sqlite3_step(top->hosts)) == SQLITE_ROW) {
        top_host(top);
    }
    sqlite3_reset(top->hosts);
    if (ret != SQLITE_DONE) {
        snprintf(line, sizeof(line), "the history cannot be read: %s", sqlite3_errmsg(top->db));
        top_line(top, line);
    }
    if (!top->batch) {
        refresh();
    }
    return (ret == SQLITE_DONE) ? 0 : -EIO;
}

static int top_open(top_t *top, const char *file)
{
    if (sqlite3_open_v2(file, &top->db, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK) {
        fprintf(stderr, "udmon-top: cannot open %s: %s\n", file, sqlite3_errmsg(top->db));
        return -EIO;
    }
    sqlite3_busy_timeout(top->db, 500);
    if ((sqlite3_prepare_v2(top->db, hosts_query, -1, &top->hosts, NULL) != SQLITE_OK) ||
        (sqlite3_prepare_v2(top->db, value_query, -1, &top->value, NULL) != SQLITE_OK)) {
        fprintf(stderr, "udmon-top: %s is no history of udmon-collector: %s\n", file,
                sqlite3_errmsg(top->db));
        return -EIO;
    }
    return 0;
}

static int usage(FILE *out, int status)
{
    fprintf(out, "Usage: udmon-top [-d FILE] [-i SECONDS] [-b]\n"
                 "Shows the nodes of a udmon-collector on this host.\n\n"
                 "  -d, --database FILE     its history [/var/lib/udmon/history.db]\n"
                 "  -i, --interval SECONDS  between refreshes [2]\n"
                 "  -b, --batch             print once and end\n"
                 "  -h, --help              this text\n\n"
                 "q ends it.\n");
    return status;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"database", required_argument, NULL, 'd'}, {"interval", required_argument, NULL, 'i'},
        {"batch", no_argument, NULL, 'b'},          {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    const char *file = "/var/lib/udmon/history.db";
    int option, ret, key = 0;
    double interval = 2;
    top_t top = {0};

    while ((option = getopt_long(argc, argv, "d:i:bh", options, NULL)) != -1) {
        switch (option) {
        case 'd':
            file = optarg;
            break;
        case 'i':
            interval = strtod(optarg, NULL);
            break;
        case 'b':
            top.batch = 1;
            break;
        default:
            return usage((option == 'h') ? stdout : stderr, (option == 'h') ? 0 : 2);
        }
    }
    if ((optind < argc) || !(interval >= 0.1) || !(interval <= 3600)) {
        return usage(stderr, 2);
    }
    if (top_open(&top, file) < 0) {
        return 1;
    }
    setlocale(LC_ALL, "");
    if (!top.batch) {
        initscr();
        noecho();
        curs_set(0);
        timeout((int)(interval * 1000));
    }
    do {
        ret = top_draw(&top);
        key = top.batch ? 'q' : getch();
    } while ((ret == 0) && (key != 'q'));
    if (!top.batch) {
        endwin();
    }
    sqlite3_finalize(top.hosts);
    sqlite3_finalize(top.value);
    sqlite3_close(top.db);
    return (ret < 0) ? 1 : 0;
}

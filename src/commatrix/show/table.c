/*
 * A matrix in a terminal: the heat map and the numbers as far as there is room, the pairs that send
 * most, and what the capture is like.
 */
#include "show.h"

#include <inttypes.h>
#include <string.h>

enum { MAX_NAME = 18, CELL_WIDTH = 9, NUM_TOP = 10, HEAT_WIDTH = 2, MIN_HEAT = 8 };

/* The matrix with rows and columns joined until it fits. */
struct grid {
    guint size, join; /* `join` names stand in one row */
    double *values;
};

static int clip(const char *name)
{
    return (int)MIN(strlen(name), MAX_NAME);
}

static int name_width(const struct cm_show *show)
{
    int width = 4;
    guint i;

    for (i = 0; i < show->matrix->names->len; i++) {
        width = MAX(width, clip(g_ptr_array_index(show->matrix->names, i)));
    }
    return width;
}

static struct grid make_grid(const struct cm_show *show, guint most)
{
    guint n = show->matrix->names->len, i;
    struct grid grid = {.join = (n + most - 1) / MAX(most, 1)};

    grid.join = MAX(grid.join, 1);
    grid.size = (n + grid.join - 1) / grid.join;
    grid.values = g_new0(double, (gsize)grid.size *grid.size + 1);
    for (i = 0; i < show->matrix->cells->len; i++) {
        const struct cm_cell *cell = &g_array_index(show->matrix->cells, struct cm_cell, i);
        double *value = &grid.values[cell->from / grid.join * grid.size + cell->to / grid.join];
        double add = cm_cell_value(&cell->counts, show->count);

        *value = show->count >= CM_COUNT_MEAN ? MAX(*value, add) : *value + add;
    }
    return grid;
}

static void grid_range(const struct grid *grid, double *min_p, double *max_p)
{
    guint i;

    *min_p = *max_p = 0;
    for (i = 0; i < grid->size * grid->size; i++) {
        *max_p = MAX(*max_p, grid->values[i]);
        if (grid->values[i] > 0 && (*min_p == 0 || grid->values[i] < *min_p)) {
            *min_p = grid->values[i];
        }
    }
}

/* From dark blue to yellow, as in the pictures; or from a dot to a full block. */
static void put_shade(FILE *out, double shade, bool color)
{
    static const int colors[] = {17, 18, 54, 90, 126, 162, 167, 202, 208, 214, 220, 226};
    static const char *const blocks[] = {"··", "░░", "▒▒", "▓▓", "██"};
    int n = G_N_ELEMENTS(colors);

    if (color) {
        if (shade < 0) {
            fputs("\033[48;5;235m  \033[0m", out);
        } else {
            fprintf(out, "\033[48;5;%dm  \033[0m", colors[MIN((int)(shade * n), n - 1)]);
        }
    } else {
        fputs(shade < 0 ? blocks[0] : blocks[MIN(1 + (int)(shade * 4), 4)], out);
    }
}

static void put_heat(const struct cm_show *show, FILE *out, int columns, bool color)
{
    int width = name_width(show);
    int room = (columns - width - 3) / HEAT_WIDTH;
    struct grid grid = make_grid(show, (guint)MAX(room, MIN_HEAT));
    double min, max;
    char *least, *most;
    guint row, column;

    grid_range(&grid, &min, &max);
    for (row = 0; row < grid.size; row++) {
        const char *name = g_ptr_array_index(show->matrix->names, row * grid.join);

        fprintf(out, "%*.*s  ", width, MAX_NAME, name);
        for (column = 0; column < grid.size; column++) {
            put_shade(out, cm_show_shade(show, grid.values[row * grid.size + column], min, max),
                      color);
        }
        fputc('\n', out);
    }
    least = cm_human(min, show->count);
    most = cm_human(max, show->count);
    fprintf(out, "%*s  rows send, columns receive; %s, %s scale, ", width, "",
            cm_count_title(show->count), show->log_scale ? "logarithmic" : "linear");
    put_shade(out, show->log_scale ? 0 : min / MAX(max, 1), color);
    fprintf(out, " %s to ", least);
    put_shade(out, 1, color);
    fprintf(out, " %s", most);
    if (grid.join > 1) {
        fprintf(out, "; %u names to a row", grid.join);
    }
    fprintf(out, "\n\n");
    g_free(least);
    g_free(most);
    g_free(grid.values);
}

/* Only where all columns have room. */
static void put_numbers(const struct cm_show *show, FILE *out, int columns)
{
    GPtrArray *names = show->matrix->names;
    int width = name_width(show);
    struct grid grid;
    guint row, column;

    if (width + 2 + (int)names->len * (CELL_WIDTH + 1) > columns) {
        return;
    }
    grid = make_grid(show, names->len);
    fprintf(out, "%*s ", width, "from");
    for (column = 0; column < names->len; column++) {
        fprintf(out, " %*.*s", CELL_WIDTH, CELL_WIDTH, (char *)g_ptr_array_index(names, column));
    }
    fputc('\n', out);
    for (row = 0; row < names->len; row++) {
        fprintf(out, "%*.*s ", width, MAX_NAME, (char *)g_ptr_array_index(names, row));
        for (column = 0; column < names->len; column++) {
            double value = grid.values[row * grid.size + column];
            char *text = value > 0 ? cm_human(value, show->count) : g_strdup("-");

            fprintf(out, " %*s", CELL_WIDTH, text);
            g_free(text);
        }
        fputc('\n', out);
    }
    fputc('\n', out);
    g_free(grid.values);
}

static gint compare_cells(gconstpointer a, gconstpointer b, gpointer user)
{
    const struct cm_show *show = user;
    const struct cm_cell *const *x = a, *const *y = b;
    double value_x = cm_cell_value(&(*x)->counts, show->count);
    double value_y = cm_cell_value(&(*y)->counts, show->count);

    return value_x == value_y ? 0 : value_x > value_y ? -1 : 1;
}

static void put_pair(const struct cm_show *show, FILE *out, const struct cm_cell *cell, int width)
{
    GPtrArray *names = show->matrix->names;
    char *wire = cm_human((double)cell->counts.wire, CM_COUNT_WIRE);
    char *payload = cm_human((double)cell->counts.payload, CM_COUNT_PAYLOAD);
    char *packets = cm_human((double)cell->counts.packets, CM_COUNT_PACKETS);
    char *messages = cm_human((double)cell->counts.messages, CM_COUNT_MESSAGES);
    char *mean = cm_human(cm_cell_value(&cell->counts, CM_COUNT_MEAN), CM_COUNT_MEAN);
    char *largest = cm_human((double)cell->counts.largest, CM_COUNT_LARGEST);

    fprintf(out, "%*.*s %*.*s %10s %10s %9s %9s %10s %10s", width, MAX_NAME,
            (char *)g_ptr_array_index(names, cell->from), width, MAX_NAME,
            (char *)g_ptr_array_index(names, cell->to), wire, payload, packets, messages, mean,
            largest);
    if (cell->counts.lost != 0) {
        fprintf(out, "  %" PRIu32 " lost", cell->counts.lost);
    }
    fputc('\n', out);
    g_free(wire);
    g_free(payload);
    g_free(packets);
    g_free(messages);
    g_free(mean);
    g_free(largest);
}

static void put_top(const struct cm_show *show, FILE *out)
{
    GArray *cells = show->matrix->cells;
    const struct cm_cell **order = g_new(const struct cm_cell *, cells->len + 1);
    int width = name_width(show);
    guint i;

    for (i = 0; i < cells->len; i++) {
        order[i] = &g_array_index(cells, struct cm_cell, i);
    }
    g_qsort_with_data(order, (gint)cells->len, sizeof(*order), compare_cells, (gpointer)show);
    fprintf(out, "%*s %*s %10s %10s %9s %9s %10s %10s\n", width, "from", width, "to", "wire",
            "payload", "packets", "messages", "mean", "largest");
    for (i = 0; i < MIN(cells->len, NUM_TOP); i++) {
        put_pair(show, out, order[i], width);
    }
    if (cells->len > NUM_TOP) {
        fprintf(out, "%*s %u more pairs: --csv or --json has all\n", width, "",
                cells->len - NUM_TOP);
    }
    fputc('\n', out);
    g_free(order);
}

static void put_phases(const struct cm_show *show, FILE *out)
{
    const GArray *phases = show->matrix->phases;
    guint i;

    if (phases->len < 2) {
        return;
    }
    fprintf(out, "%u phases:", phases->len);
    for (i = 0; i < MIN(phases->len, NUM_TOP); i++) {
        const struct cm_phase *phase = &g_array_index(phases, struct cm_phase, i);
        char *bytes = cm_human((double)phase->bytes, CM_COUNT_WIRE);

        char *begin = cm_human_time(phase->begin_ns), *end = cm_human_time(phase->end_ns);

        fprintf(out, "%s %s to %s (%s)", i > 0 ? "," : "", begin, end, bytes);
        g_free(begin);
        g_free(end);
        g_free(bytes);
    }
    fprintf(out, "%s (--from and --to look at one)\n", phases->len > NUM_TOP ? ", ..." : "");
}

static void put_excluded(const struct cm_show *show, FILE *out)
{
    const char *separator = "not counted:";
    int kind;

    for (kind = 0; kind < CM_NUM_KINDS; kind++) {
        const struct cm_excluded *excluded = &show->traffic->excluded[kind];
        char *bytes = cm_human((double)excluded->wire, CM_COUNT_WIRE);

        if (excluded->packets != 0) {
            fprintf(out, "%s %s %" PRIu64 " (%s)", separator, cm_kind_names[kind],
                    excluded->packets, bytes);
            separator = ",";
        }
        g_free(bytes);
    }
    if (separator[0] == ',') {
        fprintf(out, "; --with KIND counts them\n");
    }
}

static void put_capture(const struct cm_show *show, FILE *out)
{
    const struct cm_capture_counts *capture = &show->traffic->capture;
    char *time = cm_human_time(capture->last_ns - capture->first_ns);
    double seen = (double)show->matrix->totals.packets;

    fprintf(out, "%" PRIu64 " packets in %s; ", capture->packets, time);
    g_free(time);
    if (capture->lost > 0) {
        fprintf(out, "the capture lost %" PRIu64 " of %.0f packets: %.3f %% are there\n",
                capture->lost, seen + (double)capture->lost,
                100 * seen / (seen + (double)capture->lost));
    } else {
        fprintf(out, "no packet is missing\n");
    }
    if (capture->duplicates + capture->retransmissions + capture->cut > 0) {
        fprintf(out,
                "%" PRIu64 " copies left out, %" PRIu64 " retransmissions, %" PRIu64
                " packets cut short by the capture\n",
                capture->duplicates, capture->retransmissions, capture->cut);
    }
    if (show->dropped != 0) {
        fprintf(out, "the kernel dropped %" PRIu64 " packets\n", show->dropped);
    }
    put_excluded(show, out);
    put_phases(show, out);
    if (show->matrix->mpi != NULL) {
        fprintf(out, "ranks from the messages of %s\n", show->matrix->mpi);
    }
    if (show->matrix->note != NULL) {
        fprintf(out, "%s\n", show->matrix->note);
    }
}

bool cm_show_table(const struct cm_show *show, FILE *out, int columns, bool color)
{
    if (show->matrix->cells->len == 0) {
        fprintf(out, "no traffic to show\n");
    } else {
        put_heat(show, out, columns, color);
        put_numbers(show, out, columns);
        put_top(show, out);
    }
    put_capture(show, out);
    return fflush(out) == 0;
}

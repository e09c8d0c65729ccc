/*
 * A matrix in a terminal: the heat map, the numbers if there is room, the pairs and the hosts or
 * ranks that send most, and the state of the capture.
 */
#include "grid.h"
#include "names.h"
#include "show.h"

#include <inttypes.h>
#include <string.h>

enum { MAX_NAME = 18, CELL_WIDTH = 9, NUM_TOP = 10, NUM_SENDERS = 5, HEAT_WIDTH = 2, MIN_HEAT = 8 };

/* The table, and its names as far as they have room. */
struct table {
    const struct cm_show *show;
    FILE *out;
    char **rows;    /* of at most MAX_NAME characters */
    char **columns; /* of at most CELL_WIDTH */
    int width;      /* of `rows` */
};

/* printf() counts bytes, a terminal counts characters. */
static void put_right(FILE *out, const char *text, int width)
{
    fprintf(out, "%*s%s", MAX(width - (int)g_utf8_strlen(text, -1), 0), "", text);
}

static void put_human(FILE *out, double value, enum cm_count count, int width)
{
    char *text = value > 0 ? cm_human(value, count) : g_strdup("-");

    put_right(out, text, width);
    g_free(text);
}

static int width_of(char **names)
{
    int width = 4, i;

    for (i = 0; names[i] != NULL; i++) {
        width = MAX(width, (int)g_utf8_strlen(names[i], -1));
    }
    return width;
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

static void put_legend(const struct table *table, const struct cm_grid *grid, bool color)
{
    char *least = cm_human(grid->low, table->show->count);
    char *most = cm_human(grid->high, table->show->count);
    char *note = cm_grid_note(grid, table->show);

    fprintf(table->out, "%*s  rows send, columns receive; %s, %s scale, ", table->width, "",
            cm_count_title(table->show->count), grid->log ? "logarithmic" : "linear");
    put_shade(table->out, 0, color);
    fprintf(table->out, " %s to ", least);
    put_shade(table->out, 1, color);
    fprintf(table->out, " %s%s%s\n\n", most, note != NULL ? "; " : "", note != NULL ? note : "");
    g_free(least);
    g_free(most);
    g_free(note);
}

static void put_heat(const struct table *table, int columns, bool color)
{
    int room = (columns - table->width - 3) / HEAT_WIDTH;
    struct cm_grid grid = cm_grid_make(table->show, (guint)MAX(room, MIN_HEAT));
    guint row, column;

    for (row = 0; row < grid.size; row++) {
        put_right(table->out, table->rows[row * grid.join], table->width);
        fputs("  ", table->out);
        for (column = 0; column < grid.size; column++) {
            put_shade(table->out, cm_grid_shade(&grid, grid.values[row * grid.size + column]),
                      color);
        }
        fputc('\n', table->out);
    }
    put_legend(table, &grid, color);
    cm_grid_free(&grid);
}

/* Sums of rows and columns, which means and maxima do not have. */
static bool has_sums(const struct cm_show *show)
{
    return show->count < CM_COUNT_MEAN;
}

static void put_sum_row(const struct table *table)
{
    const struct cm_matrix *matrix = table->show->matrix;
    guint column;

    put_right(table->out, "sum", table->width);
    fputc(' ', table->out);
    for (column = 0; column < matrix->names->len; column++) {
        fputc(' ', table->out);
        put_human(table->out, cm_cell_value(&matrix->received[column], table->show->count),
                  table->show->count, CELL_WIDTH);
    }
    fputc(' ', table->out);
    put_human(table->out, cm_cell_value(&matrix->totals, table->show->count), table->show->count,
              CELL_WIDTH);
    fputc('\n', table->out);
}

/* Only if all columns have room. */
static void put_numbers(const struct table *table, int columns)
{
    const struct cm_matrix *matrix = table->show->matrix;
    guint n = matrix->names->len, row, column;
    enum cm_count count = table->show->count;
    struct cm_show whole = *table->show;
    struct cm_grid grid;

    if (table->width + 2 + ((int)n + has_sums(table->show)) * (CELL_WIDTH + 1) > columns) {
        return;
    }
    whole.hide_diagonal = false;
    grid = cm_grid_make(&whole, n);
    put_right(table->out, "from", table->width);
    fputc(' ', table->out);
    for (column = 0; column < n; column++) {
        fputc(' ', table->out);
        put_right(table->out, table->columns[column], CELL_WIDTH);
    }
    fprintf(table->out, " %*s\n", has_sums(table->show) ? CELL_WIDTH : 0,
            has_sums(table->show) ? "sum" : "");
    for (row = 0; row < n; row++) {
        put_right(table->out, table->rows[row], table->width);
        fputc(' ', table->out);
        for (column = 0; column < n; column++) {
            fputc(' ', table->out);
            put_human(table->out, grid.values[row * grid.size + column], count, CELL_WIDTH);
        }
        if (has_sums(table->show)) {
            fputc(' ', table->out);
            put_human(table->out, cm_cell_value(&matrix->sent[row], count), count, CELL_WIDTH);
        }
        fputc('\n', table->out);
    }
    if (has_sums(table->show)) {
        put_sum_row(table);
    }
    fputc('\n', table->out);
    cm_grid_free(&grid);
}

static gint compare_cells(gconstpointer a, gconstpointer b, gpointer user)
{
    const struct cm_show *show = user;
    const struct cm_cell *const *x = a, *const *y = b;
    double value_x = cm_cell_value(&(*x)->counts, show->count);
    double value_y = cm_cell_value(&(*y)->counts, show->count);

    return value_x == value_y ? 0 : value_x > value_y ? -1 : 1;
}

static void put_signs(FILE *out, const struct cm_signs *signs)
{
    char *middle, *high;

    if (signs->retransmissions != 0) {
        fprintf(out, "  %" PRIu64 " sent again", signs->retransmissions);
    }
    if (signs->congested != 0) {
        fprintf(out, "  %" PRIu64 " ECN", signs->congested);
    }
    if (signs->cnps != 0) {
        fprintf(out, "  %" PRIu64 " CNP", signs->cnps);
    }
    if (cm_delay_percentile(signs, 50) != 0) {
        middle = cm_human_time(cm_delay_percentile(signs, 50));
        high = cm_human_time(cm_delay_percentile(signs, 99));
        fprintf(out, "  answered in %s (50 %%), %s (99 %%)", middle, high);
        g_free(middle);
        g_free(high);
    }
}

static void put_pair(const struct table *table, const struct cm_cell *cell)
{
    const struct cm_counts *counts = &cell->counts;
    FILE *out = table->out;

    put_right(out, table->rows[cell->from], table->width);
    fputc(' ', out);
    put_right(out, table->rows[cell->to], table->width);
    put_human(out, (double)counts->wire, CM_COUNT_WIRE, 11);
    put_human(out, (double)counts->payload, CM_COUNT_PAYLOAD, 11);
    put_human(out, (double)counts->packets, CM_COUNT_PACKETS, 10);
    put_human(out, (double)cm_counts_messages(counts), CM_COUNT_MESSAGES, 10);
    put_human(out, cm_cell_value(counts, CM_COUNT_MEAN), CM_COUNT_MEAN, 11);
    put_human(out, (double)counts->largest, CM_COUNT_LARGEST, 11);
    if (counts->lost != 0) {
        fprintf(out, "  %" PRIu32 " lost", counts->lost);
    }
    if (cell->signs != NULL) {
        put_signs(out, cell->signs);
    }
    fputc('\n', out);
}

static void put_top(const struct table *table)
{
    GArray *cells = table->show->matrix->cells;
    const struct cm_cell **order = g_new(const struct cm_cell *, cells->len + 1);
    guint i;

    for (i = 0; i < cells->len; i++) {
        order[i] = &g_array_index(cells, struct cm_cell, i);
    }
    g_qsort_with_data(order, (gint)cells->len, sizeof(*order), compare_cells,
                      (gpointer)table->show);
    fprintf(table->out, "%*s %*s %10s %10s %9s %9s %10s %10s\n", table->width, "from", table->width,
            "to", "wire", "payload", "packets", "messages", "mean", "largest");
    for (i = 0; i < MIN(cells->len, NUM_TOP); i++) {
        put_pair(table, order[i]);
    }
    if (cells->len > NUM_TOP) {
        fprintf(table->out, "%*s %u more pairs: --csv or --json has all\n", table->width, "",
                cells->len - NUM_TOP);
    }
    fputc('\n', table->out);
    g_free(order);
}

/* ---- senders, operations, sizes -------------------------------------------------------------- */

struct ranking {
    const struct cm_counts *sums;
    enum cm_count count;
};

static gint compare_sums(gconstpointer a, gconstpointer b, gpointer user)
{
    const struct ranking *ranking = user;
    const guint *x = a, *y = b;
    double by_x = cm_cell_value(&ranking->sums[*x], ranking->count);
    double by_y = cm_cell_value(&ranking->sums[*y], ranking->count);

    return by_x == by_y ? (*x < *y ? -1 : 1) : by_x > by_y ? -1 : 1;
}

static void put_ranking(const struct table *table, const char *title, const struct cm_counts *sums)
{
    struct ranking ranking = {sums, has_sums(table->show) ? table->show->count : CM_COUNT_WIRE};
    guint n = table->show->matrix->names->len, *order = g_new(guint, n + 1), i;
    double total = cm_cell_value(&table->show->matrix->totals, ranking.count);

    for (i = 0; i < n; i++) {
        order[i] = i;
    }
    g_qsort_with_data(order, (gint)n, sizeof(*order), compare_sums, &ranking);
    fprintf(table->out, "%s most:", title);
    for (i = 0; i < MIN(n, NUM_SENDERS); i++) {
        double value = cm_cell_value(&sums[order[i]], ranking.count);
        char *text = cm_human(value, ranking.count);

        if (value > 0) {
            fprintf(table->out, "%s %s %s (%.1f %%)", i > 0 ? "," : "", table->rows[order[i]], text,
                    100 * value / total);
        }
        g_free(text);
    }
    fputc('\n', table->out);
    g_free(order);
}

static void put_operations(const struct table *table)
{
    const struct cm_counts *totals = &table->show->matrix->totals;

    fprintf(table->out,
            "operations: %" PRIu64 " sends, %" PRIu64 " writes, %" PRIu64 " reads, %" PRIu64
            " atomics\n",
            totals->ended[CM_MESSAGE_SEND], totals->ended[CM_MESSAGE_WRITE],
            totals->ended[CM_MESSAGE_READ], totals->atomics);
}

static void put_sizes(const struct table *table)
{
    const struct cm_traffic *traffic = table->show->traffic;
    uint64_t total = 0, sum;
    bool first = true;
    int bin, kind;

    for (bin = 0; bin < CM_SIZE_BINS; bin++) {
        for (kind = 0; kind < CM_NUM_MESSAGES; kind++) {
            total += traffic->sizes[kind][bin];
        }
    }
    if (total == 0) {
        return;
    }
    fputs("message sizes, from: ", table->out);
    for (bin = 0; bin < CM_SIZE_BINS; bin++) {
        char *size = cm_human(bin > 0 ? (double)(UINT64_C(1) << (bin - 1)) : 0, CM_COUNT_WIRE);

        for (sum = 0, kind = 0; kind < CM_NUM_MESSAGES; kind++) {
            sum += traffic->sizes[kind][bin];
        }
        if (sum != 0) {
            fprintf(table->out, "%s%s %.1f %%", first ? "" : ", ", size,
                    100 * (double)sum / (double)total);
            first = false;
        }
        g_free(size);
    }
    fputc('\n', table->out);
}

/* ---- the capture ----------------------------------------------------------------------------- */

/* Each phase with the very times that --from and --to take. */
static void put_phases(const struct table *table)
{
    const GArray *phases = table->show->matrix->phases;
    guint i;

    if (phases->len < 2) {
        return;
    }
    fprintf(table->out, "%u phases; --from and --to show one:\n", phases->len);
    for (i = 0; i < MIN(phases->len, NUM_TOP); i++) {
        const struct cm_phase *phase = &g_array_index(phases, struct cm_phase, i);
        char *bytes = cm_human((double)phase->bytes, CM_COUNT_WIRE);
        char *begin = cm_exact_time(phase->begin_ns), *end = cm_exact_time(phase->end_ns);

        fprintf(table->out, "  --from %s --to %s  (%s)\n", begin, end, bytes);
        g_free(begin);
        g_free(end);
        g_free(bytes);
    }
    if (phases->len > NUM_TOP) {
        fprintf(table->out, "  %u more: --json has all\n", phases->len - NUM_TOP);
    }
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

static void put_lost(const struct table *table)
{
    const struct cm_capture_counts *capture = &table->show->traffic->capture;
    double numbered = (double)capture->numbered;

    if (capture->numbered == 0) {
        fprintf(table->out, "how many packets are missing is not known: no captured packet that "
                            "counts has a sequence number\n");
    } else if (capture->lost > 0) {
        fprintf(table->out, "the capture lost %" PRIu64 " of %.0f packets: %.3f %% are there\n",
                capture->lost, numbered + (double)capture->lost,
                100 * numbered / (numbered + (double)capture->lost));
    } else {
        fprintf(table->out, "no packet is missing\n");
    }
    if (capture->unsure > 0) {
        fprintf(table->out,
                "%" PRIu64 " datagrams are not in the capture: they are lost, or went "
                "to receivers where nothing was captured\n",
                capture->unsure);
    }
    if (capture->restarts > 0) {
        fprintf(table->out,
                "%" PRIu64 " connections began anew: what is missing in between is not "
                "known\n",
                capture->restarts);
    }
}

static void put_capture(const struct table *table)
{
    const struct cm_show *show = table->show;
    const struct cm_capture_counts *capture = &show->traffic->capture;
    char *time = cm_human_time(cm_show_duration(show));
    char **warnings = cm_show_warnings(show);
    int i;

    fprintf(table->out, "%" PRIu64 " packets in %s; ", capture->packets, time);
    g_free(time);
    put_lost(table);
    if (capture->duplicates + capture->retransmissions > 0) {
        fprintf(table->out, "%" PRIu64 " copies left out, %" PRIu64 " retransmissions\n",
                capture->duplicates, capture->retransmissions);
    }
    if (show->dropped != 0) {
        fprintf(table->out, "the kernel dropped %" PRIu64 " packets\n", show->dropped);
    }
    put_excluded(show, table->out);
    put_phases(table);
    if (show->matrix->mpi != NULL) {
        fprintf(table->out, "ranks from the messages of %s\n", show->matrix->mpi);
    }
    for (i = 0; warnings[i] != NULL; i++) {
        fprintf(table->out, "%s\n", warnings[i]);
    }
    if (show->matrix->note != NULL) {
        fprintf(table->out, "%s\n", show->matrix->note);
    }
    g_strfreev(warnings);
}

bool cm_show_table(const struct cm_show *show, FILE *out, int columns, bool color)
{
    struct table table = {.show = show,
                          .out = out,
                          .rows = cm_names_shorten(show->matrix->names, MAX_NAME),
                          .columns = cm_names_shorten(show->matrix->names, CELL_WIDTH)};

    table.width = width_of(table.rows);
    if (show->matrix->cells->len == 0) {
        fprintf(out, "no traffic to show\n");
    } else {
        put_heat(&table, columns, color);
        put_numbers(&table, columns);
        put_top(&table);
        put_ranking(&table, "send", show->matrix->sent);
        put_ranking(&table, "receive", show->matrix->received);
        put_operations(&table);
        put_sizes(&table);
    }
    put_capture(&table);
    g_strfreev(table.rows);
    g_strfreev(table.columns);
    return fflush(out) == 0;
}

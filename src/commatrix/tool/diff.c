/*
 * commatrix diff: two matrices, cell by cell.
 */
#include "tool.h"
#include "usage.h"

#include <getopt.h>
#include <json-c/json.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "Usage: commatrix diff [OPTION...] A B      how matrix B differs from matrix A\n"
    "\n"
    "A and B are what commatrix --json wrote; - is standard input.\n"
    "\n"
    "  --count WHAT         wire (default), payload, packets, messages, mean, largest\n"
    "  --threshold PERCENT  a cell may differ by so much of its value in A (default 0)\n"
    "  --total PERCENT      judge only the sum of all differences, against the sum of A\n"
    "  --json               instead of the table\n"
    "  -h, --help\n"
    "\n"
    "Exit status: 0 nothing differs by more than the threshold; 1 something does; 2 wrong usage;\n"
    "4 a matrix could not be read.\n";

enum { MAX_LINES = 20 };

struct options {
    const char *field, *count;
    double threshold, total; /* per cent; total negative: not asked for */
    bool json;
};

struct change {
    const char *from, *to;
    double a, b;
};

struct result {
    GArray *changes; /* cells that differ, the largest difference first */
    double sum_a, sum_b, sum_change;
};

static double percent(double change, double of)
{
    return of > 0 ? 100 * change / of : change == 0 ? 0 : INFINITY;
}

static double need_percent(const char *option, const char *text)
{
    char *end;
    double value = strtod(text, &end);

    if (end == text || *end != '\0' || !(value >= 0)) {
        cm_usage_error("%s %s: that is no percentage", option, text);
    }
    return value;
}

static void read_options(struct options *options, int argc, char **argv)
{
    static const struct option longs[] = {
        {"count", required_argument, NULL, 'c'}, {"threshold", required_argument, NULL, 't'},
        {"total", required_argument, NULL, 'T'}, {"json", no_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},        {NULL, 0, NULL, 0}};
    int option;

    *options = (struct options){.field = "wire_bytes", .total = -1};
    while ((option = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
        switch (option) {
        case 'c':
            options->field = cm_loaded_field(optarg);
            break;
        case 't':
            options->threshold = need_percent("--threshold", optarg);
            break;
        case 'T':
            options->total = need_percent("--total", optarg);
            break;
        case 'j':
            options->json = true;
            break;
        case 'h':
            fputs(help, stdout);
            exit(CM_EXIT_OK);
        default:
            exit(CM_EXIT_USAGE);
        }
    }
    if (argc - optind != 2) {
        cm_usage_error("diff takes two matrices");
    }
}

static char *pair_key(const struct cm_loaded *matrix, const struct cm_loaded_cell *cell)
{
    return g_strconcat(g_ptr_array_index(matrix->names, cell->from), "\n",
                       g_ptr_array_index(matrix->names, cell->to), NULL);
}

static gint compare_changes(gconstpointer a, gconstpointer b)
{
    const struct change *x = a, *y = b;
    double by_x = fabs(x->b - x->a), by_y = fabs(y->b - y->a);

    return by_x == by_y ? 0 : by_x > by_y ? -1 : 1;
}

static void note(struct result *result, const char *from, const char *to, double a, double b)
{
    struct change change = {from, to, a, b};

    result->sum_a += a;
    result->sum_b += b;
    result->sum_change += fabs(b - a);
    if (a != b) {
        g_array_append_val(result->changes, change);
    }
}

static void compare(struct result *result, const struct cm_loaded *a, const struct cm_loaded *b)
{
    GHashTable *values = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    guint i;

    result->changes = g_array_new(FALSE, FALSE, sizeof(struct change));
    for (i = 0; i < b->cells->len; i++) {
        struct cm_loaded_cell *cell = &g_array_index(b->cells, struct cm_loaded_cell, i);

        g_hash_table_insert(values, pair_key(b, cell), cell);
    }
    for (i = 0; i < a->cells->len; i++) {
        struct cm_loaded_cell *cell = &g_array_index(a->cells, struct cm_loaded_cell, i), *other;
        char *key = pair_key(a, cell);

        other = g_hash_table_lookup(values, key);
        note(result, g_ptr_array_index(a->names, cell->from), g_ptr_array_index(a->names, cell->to),
             cell->value, other != NULL ? other->value : 0);
        g_hash_table_remove(values, key);
        g_free(key);
    }
    for (i = 0; i < b->cells->len; i++) { /* what is left is in B only */
        struct cm_loaded_cell *cell = &g_array_index(b->cells, struct cm_loaded_cell, i);
        char *key = pair_key(b, cell);

        if (g_hash_table_lookup(values, key) == cell) {
            note(result, g_ptr_array_index(b->names, cell->from),
                 g_ptr_array_index(b->names, cell->to), 0, cell->value);
        }
        g_free(key);
    }
    g_hash_table_destroy(values);
    g_array_sort(result->changes, compare_changes);
}

static void print_table(const struct result *result)
{
    guint i;

    if (result->changes->len > 0) {
        printf("%18s %18s %15s %15s %10s\n", "from", "to", "A", "B", "%");
    }
    for (i = 0; i < MIN(result->changes->len, MAX_LINES); i++) {
        const struct change *change = &g_array_index(result->changes, struct change, i);

        printf("%18s %18s %15.0f %15.0f %+10.2f\n", change->from, change->to, change->a, change->b,
               percent(change->b - change->a, change->a));
    }
    if (result->changes->len > MAX_LINES) {
        printf("%18s %u more cells differ: --json has all\n", "", result->changes->len - MAX_LINES);
    }
    printf("%18s %18s %15.0f %15.0f %+10.2f\n", "in total", "", result->sum_a, result->sum_b,
           percent(result->sum_b - result->sum_a, result->sum_a));
    printf("%u cells differ; the differences are %.2f %% of A\n", result->changes->len,
           percent(result->sum_change, result->sum_a));
}

/* JSON knows no infinity: null stands for it. */
static struct json_object *json_percent(double change, double of)
{
    double value = percent(change, of);

    return isfinite(value) ? json_object_new_double(value) : NULL;
}

static void print_json(const struct result *result)
{
    struct json_object *object = json_object_new_object(), *cells = json_object_new_array(), *cell;
    guint i;

    for (i = 0; i < result->changes->len; i++) {
        const struct change *change = &g_array_index(result->changes, struct change, i);

        cell = json_object_new_object();
        json_object_object_add(cell, "from", json_object_new_string(change->from));
        json_object_object_add(cell, "to", json_object_new_string(change->to));
        json_object_object_add(cell, "a", json_object_new_double(change->a));
        json_object_object_add(cell, "b", json_object_new_double(change->b));
        json_object_object_add(cell, "percent", json_percent(change->b - change->a, change->a));
        json_object_array_add(cells, cell);
    }
    json_object_object_add(object, "cells", cells);
    json_object_object_add(object, "total_a", json_object_new_double(result->sum_a));
    json_object_object_add(object, "total_b", json_object_new_double(result->sum_b));
    json_object_object_add(object, "percent",
                           json_percent(result->sum_b - result->sum_a, result->sum_a));
    json_object_object_add(object, "differences_percent",
                           json_percent(result->sum_change, result->sum_a));
    puts(json_object_to_json_string_ext(object, JSON_C_TO_STRING_PRETTY));
    json_object_put(object);
}

static bool differs(const struct result *result, const struct options *options)
{
    guint i;

    if (options->total >= 0) {
        return percent(result->sum_change, result->sum_a) > options->total;
    }
    for (i = 0; i < result->changes->len; i++) {
        const struct change *change = &g_array_index(result->changes, struct change, i);

        if (percent(fabs(change->b - change->a), change->a) > options->threshold) {
            return true;
        }
    }
    return false;
}

int cm_tool_diff(int argc, char **argv)
{
    struct options options;
    struct cm_loaded *a, *b = NULL;
    struct result result = {0};
    int status = CM_EXIT_ERROR;

    read_options(&options, argc, argv);
    a = cm_loaded_new(argv[optind], options.field);
    if (a != NULL) {
        b = cm_loaded_new(argv[optind + 1], options.field);
    }
    if (b != NULL && strcmp(a->by, b->by) != 0) {
        fprintf(stderr, "commatrix: A is by %s, B is by %s\n", a->by, b->by);
    } else if (b != NULL) {
        compare(&result, a, b);
        if (options.json) {
            print_json(&result);
        } else {
            print_table(&result);
        }
        status = differs(&result, &options) ? CM_EXIT_DIFFERENT : CM_EXIT_OK;
        g_array_free(result.changes, TRUE);
    }
    if (a != NULL) {
        cm_loaded_free(a);
    }
    if (b != NULL) {
        cm_loaded_free(b);
    }
    return status;
}

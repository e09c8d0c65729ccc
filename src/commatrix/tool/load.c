#include "tool.h"
#include "usage.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

const char *cm_loaded_field(const char *count)
{
    static const char *const fields[][2] = {
        {"wire", "wire_bytes"},   {"payload", "payload_bytes"}, {"packets", "packets"},
        {"messages", "messages"}, {"mean", "mean_message"},     {"largest", "largest_message"}};
    size_t i;

    for (i = 0; i < G_N_ELEMENTS(fields); i++) {
        if (strcmp(count, fields[i][0]) == 0) {
            return fields[i][1];
        }
    }
    cm_usage_error("--count: there is no %s", count);
}

static uint32_t number_of(struct cm_loaded *loaded, const char *name)
{
    guint number = GPOINTER_TO_UINT(g_hash_table_lookup(loaded->numbers, name));
    char *copy;

    if (number == 0) {
        copy = g_strdup(name);
        g_ptr_array_add(loaded->names, copy);
        number = loaded->names->len;
        g_hash_table_insert(loaded->numbers, copy, GUINT_TO_POINTER(number));
    }
    return number - 1;
}

/* Returns what is wrong with it, or NULL. */
static const char *load_cell(struct cm_loaded *loaded, struct json_object *cell, const char *field)
{
    struct json_object *from, *to, *value;
    struct cm_loaded_cell loaded_cell;

    if (!json_object_object_get_ex(cell, "from", &from) ||
        !json_object_object_get_ex(cell, "to", &to) ||
        !json_object_object_get_ex(cell, field, &value)) {
        return "a cell without from, to and what is to be counted";
    }
    loaded_cell.from = number_of(loaded, json_object_get_string(from));
    loaded_cell.to = number_of(loaded, json_object_get_string(to));
    loaded_cell.value = json_object_get_double(value);
    if (!(loaded_cell.value >= 0)) {
        return "a cell with a negative value";
    }
    g_array_append_val(loaded->cells, loaded_cell);
    return NULL;
}

static const char *load_object(struct cm_loaded *loaded, struct json_object *object,
                               const char *field)
{
    struct json_object *cells, *names, *by;
    const char *mistake = NULL;
    size_t i;

    if (!json_object_object_get_ex(object, "cells", &cells) ||
        !json_object_is_type(cells, json_type_array)) {
        return "no array \"cells\": is it what commatrix --json writes?";
    }
    loaded->by =
        g_strdup(json_object_object_get_ex(object, "by", &by) ? json_object_get_string(by) : "");
    if (json_object_object_get_ex(object, "names", &names) &&
        json_object_is_type(names, json_type_array)) {
        for (i = 0; i < json_object_array_length(names); i++) {
            (void)number_of(loaded, json_object_get_string(json_object_array_get_idx(names, i)));
        }
    }
    for (i = 0; i < json_object_array_length(cells) && mistake == NULL; i++) {
        mistake = load_cell(loaded, json_object_array_get_idx(cells, i), field);
    }
    return mistake;
}

struct cm_loaded *cm_loaded_new(const char *file, const char *field)
{
    struct cm_loaded *loaded = g_new0(struct cm_loaded, 1);
    struct json_object *object;
    const char *mistake;

    errno = 0;
    object = strcmp(file, "-") == 0 ? json_object_from_fd(0) : json_object_from_file(file);
    loaded->names = g_ptr_array_new_with_free_func(g_free);
    loaded->numbers = g_hash_table_new(g_str_hash, g_str_equal);
    loaded->cells = g_array_new(FALSE, FALSE, sizeof(struct cm_loaded_cell));
    mistake = object != NULL ? load_object(loaded, object, field) :
              errno != 0     ? g_strerror(errno) :
                               "no JSON: make the matrix with commatrix --json";
    json_object_put(object);
    if (mistake != NULL) {
        fprintf(stderr, "commatrix: %s: %s\n", file, mistake);
        cm_loaded_free(loaded);
        return NULL;
    }
    return loaded;
}

void cm_loaded_free(struct cm_loaded *loaded)
{
    g_free(loaded->by);
    g_hash_table_destroy(loaded->numbers);
    g_ptr_array_free(loaded->names, TRUE);
    g_array_free(loaded->cells, TRUE);
    g_free(loaded);
}

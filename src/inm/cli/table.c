/* Tables for people. */
#include "cli.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static const char *cell(struct json_object *row, const char *column, char *buf, size_t size)
{
    struct json_object *value;
    time_t when;
    struct tm tm;

    if (!json_object_object_get_ex(row, column, &value) || value == NULL) {
        return "-";
    }
    if (json_object_is_type(value, json_type_boolean)) {
        return json_object_get_boolean(value) ? "yes" : "no";
    }
    if (strcmp(column, "raised") == 0 || strcmp(column, "cleared") == 0 ||
        strcmp(column, "time") == 0) {
        when = (time_t)json_object_get_double(value);
        localtime_r(&when, &tm);
        strftime(buf, size, "%F %T", &tm);
        return buf;
    }
    if (json_object_is_type(value, json_type_double)) {
        snprintf(buf, size, "%.6g", json_object_get_double(value));
        return buf;
    }
    return json_object_get_string(value);
}

void table_print(struct json_object *list, const char *const *columns)
{
    size_t num = json_object_array_length(list), width[16] = {0}, i, c, len;
    char buf[64];

    for (c = 0; columns[c] != NULL; c++) {
        width[c] = strlen(columns[c]);
        for (i = 0; i < num; i++) {
            len = strlen(cell(json_object_array_get_idx(list, i), columns[c], buf, sizeof(buf)));
            width[c] = len > width[c] ? len : width[c];
        }
    }
    for (c = 0; columns[c] != NULL; c++) {
        printf("%-*s%s", columns[c + 1] != NULL ? (int)width[c] : 0, columns[c],
               columns[c + 1] != NULL ? "  " : "\n");
    }
    for (i = 0; i < num; i++) {
        for (c = 0; columns[c] != NULL; c++) {
            const char *text = cell(json_object_array_get_idx(list, i), columns[c], buf,
                                    sizeof(buf));

            if (columns[c + 1] != NULL) {
                printf("%-*s  ", (int)width[c], text);
            } else {
                printf("%s\n", text);
            }
        }
    }
}

void table_object(struct json_object *object)
{
    char buf[64];

    json_object_object_foreach(object, name, value) {
        if (json_object_is_type(value, json_type_object)) {
            printf("%s:\n", name);
            json_object_object_foreach(value, inner, inner_value) {
                (void)inner_value;
                printf("  %-20s  %s\n", inner, cell(value, inner, buf, sizeof(buf)));
            }
        } else {
            printf("%-22s  %s\n", name, cell(object, name, buf, sizeof(buf)));
        }
    }
}

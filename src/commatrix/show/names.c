#include "names.h"

#include <stdbool.h>
#include <string.h>

#define ELLIPSIS "\xe2\x80\xa6"

static bool is_separator(char c)
{
    return c != '\0' && strchr("-_.:/ ", c) != NULL;
}

/* The length of what all names begin with, up to and with a separator. */
static size_t common_head(char **names, guint n)
{
    size_t len = strlen(names[0]), same;
    guint i;

    for (i = 1; i < n; i++) {
        for (same = 0; same < len && names[i][same] == names[0][same]; same++) {
        }
        len = same;
    }
    while (len > 0 && !is_separator(names[0][len - 1])) {
        len--;
    }
    return len;
}

/* The length of what all names end with behind `head`, from a separator on. */
static size_t common_tail(char **names, guint n, size_t head)
{
    size_t len = strlen(names[0]) - head, same;
    const char *end = names[0] + strlen(names[0]);
    guint i;

    for (i = 1; i < n; i++) {
        const char *other = names[i] + strlen(names[i]);

        len = MIN(len, strlen(names[i]) - head);
        for (same = 0; same < len && other[-(gssize)same - 1] == end[-(gssize)same - 1]; same++) {
        }
        len = same;
    }
    while (len > 0 && !is_separator(end[-(gssize)len])) {
        len--;
    }
    return len;
}

static bool all_fit(char **names, guint n, guint most)
{
    guint i;

    for (i = 0; i < n; i++) {
        if (g_utf8_strlen(names[i], -1) > (glong)most) {
            return false;
        }
    }
    return true;
}

static bool all_distinct(char **names, guint n)
{
    GHashTable *seen = g_hash_table_new(g_str_hash, g_str_equal);
    bool distinct = true;
    guint i;

    for (i = 0; i < n && distinct; i++) {
        distinct = g_hash_table_add(seen, names[i]);
    }
    g_hash_table_destroy(seen);
    return distinct;
}

static void replace(char **name, char *by)
{
    g_free(*name);
    *name = by;
}

static void drop_common(char **names, guint n)
{
    size_t head = common_head(names, n), tail = common_tail(names, n, head);
    guint i;

    for (i = 0; i < n; i++) {
        size_t len = strlen(names[i]) - head - tail;

        replace(&names[i], g_strdup_printf("%s%.*s%s", head > 1 ? ELLIPSIS : "", (int)len,
                                           names[i] + head, tail > 1 ? ELLIPSIS : ""));
    }
}

/* Keeps the beginning and the end. */
static void drop_middle(char **name, guint most)
{
    glong len = g_utf8_strlen(*name, -1), head = ((glong)most - 1) / 2;
    char *first, *last;

    if (len <= (glong)most) {
        return;
    }
    first = g_utf8_substring(*name, 0, head);
    last = g_utf8_substring(*name, len - ((glong)most - 1 - head), len);
    replace(name, g_strconcat(first, ELLIPSIS, last, NULL));
    g_free(first);
    g_free(last);
}

/* The number of the name at the end tells names apart if nothing else does. */
static void append_number(char **name, guint number, guint most)
{
    char *end = g_strdup_printf("~%u", number + 1);
    glong room = MAX((glong)most - (glong)strlen(end), 0);
    char *head = g_utf8_substring(*name, 0, MIN(room, g_utf8_strlen(*name, -1)));

    replace(name, g_strconcat(head, end, NULL));
    g_free(head);
    g_free(end);
}

char **cm_names_shorten(const GPtrArray *names, guint most)
{
    guint n = names->len, i;
    char **result = g_new0(char *, n + 1);

    for (i = 0; i < n; i++) {
        result[i] = g_utf8_make_valid(g_ptr_array_index(names, i), -1);
    }
    if (n > 1 && !all_fit(result, n, most)) {
        drop_common(result, n);
    }
    for (i = 0; i < n; i++) {
        drop_middle(&result[i], most);
    }
    if (!all_distinct(result, n)) {
        for (i = 0; i < n; i++) {
            append_number(&result[i], i, most);
        }
    }
    return result;
}

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
        strcmp(column, "time") == 0 || strcmp(column, "first_seen") == 0 ||
        strcmp(column, "last_seen") == 0 || strcmp(column, "until") == 0) {
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
            const char *text =
                cell(json_object_array_get_idx(list, i), columns[c], buf, sizeof(buf));

            if (columns[c + 1] != NULL) {
                printf("%-*s  ", (int)width[c], text);
            } else {
                printf("%s\n", text);
            }
        }
    }
}

/* What people read instead of the names of members. */
static const char *label(const char *name, char *buf, size_t size)
{
    static const struct {
        const char *name, *label;
    } labels[] = {{"nrc", "routers (NRC)"},
                  {"nic", "interfaces (NIC)"},
                  {"links", "links"},
                  {"real_seconds", "time, s"},
                  {"modelled_seconds", "time in the network, s"},
                  {"hot_limit", "temperature limit, C"},
                  {"retry_limit", "retries until a report"},
                  {"differ", "chips that differ"},
                  {"bits", "bits tested"},
                  {"seconds", "time, s"},
                  {"temperature", "temperature, C"},
                  {"board", "switch"},
                  {"hops", "hops from the server"},
                  {"retries_since_poll", "retries since the last poll"},
                  {"found", "found by discovery"},
                  {"bridges", "links left out: the only way to a router"},
                  {"deadlock_free", "free of deadlock"},
                  {"runs", "entries (runs)"},
                  {"min_load", "destinations on the least used link"},
                  {"max_load", "destinations on the most used link"},
                  {"link_share_percent", "share of a link, %"},
                  {"formula_seconds", "time by the paper's formula, s"},
                  {"out_of_band_seconds", "time out of band, s"}};
    size_t i;

    for (i = 0; i < sizeof(labels) / sizeof(labels[0]); i++) {
        if (strcmp(name, labels[i].name) == 0) {
            return labels[i].label;
        }
    }
    snprintf(buf, size, "%s", name);
    for (i = 0; buf[i] != '\0'; i++) {
        buf[i] = buf[i] == '_' ? ' ' : buf[i];
    }
    return buf;
}

static long long number(struct json_object *object, const char *name)
{
    struct json_object *value;

    return json_object_object_get_ex(object, name, &value) ? json_object_get_int64(value) : 0;
}

static const char *text(struct json_object *object, const char *name)
{
    struct json_object *value;

    return json_object_object_get_ex(object, name, &value) && value != NULL ?
               json_object_get_string(value) :
               "-";
}

void table_summary(struct json_object *o)
{
    struct json_object *found = NULL;

    json_object_object_get_ex(o, "found", &found);
    printf("server                  %s, topology %s\n", text(o, "server"), text(o, "topology"));
    printf("network                 %s\n", text(o, "network"));
    printf("routers (NRC)           %lld of %lld found\n", number(found, "nrc"),
           number(o, "expected_nrc"));
    printf("interfaces (NIC)        %lld of %lld found\n", number(found, "nic"),
           number(o, "expected_nic"));
    printf("links                   %lld of %lld found\n", number(found, "links"),
           number(o, "expected_links"));
    printf("last discovery          %s s, %lld requests\n", text(found, "real_seconds"),
           number(found, "requests"));
    printf("alarms                  %lld critical, %lld major, %lld warnings\n",
           number(o, "critical"), number(o, "major"), number(o, "warning"));
    printf("reports of chips        %lld received, %lld missing\n", number(o, "reports"),
           number(o, "reports_missing"));
    printf("polls                   %lld, mode %s, every %.3g s; the last took %s s\n",
           number(o, "polls"), text(o, "poll_mode"), (double)number(o, "poll_interval_ms") / 1000,
           text(o, "poll_seconds"));
    printf("routing tables          %s\n", text(o, "routes"));
    printf("requests                %lld sent, %lld repeated, %lld lost, %lld refused\n",
           number(o, "requests"), number(o, "retries"), number(o, "lost"), number(o, "refused"));
    printf("memory of the server    %lld MiB\n", number(o, "memory_kib") / 1024);
}

static void list_hosts(struct json_object *plan, const char *name, const char *title)
{
    struct json_object *list;
    size_t i, num;

    if (!json_object_object_get_ex(plan, name, &list) || json_object_array_length(list) == 0) {
        return;
    }
    num = json_object_array_length(list);
    printf("%s", title);
    for (i = 0; i < num && i < 16; i++) {
        printf(" %s", json_object_get_string(json_object_array_get_idx(list, i)));
    }
    puts(num > 16 ? " ..." : "");
}

void table_plan(struct json_object *o)
{
    struct json_object *value;
    double before = 0, after = 0;

    if (json_object_object_get_ex(o, "worst_load_before", &value)) {
        before = json_object_get_double(value);
    }
    if (json_object_object_get_ex(o, "worst_load_after", &value)) {
        after = json_object_get_double(value);
    }
    printf("plan %lld: %s %s %s\n", number(o, "id"), text(o, "action"), text(o, "target"),
           text(o, "other"));
    printf("  hosts that lose their connection   %lld\n", number(o, "hosts_lost"));
    list_hosts(o, "lost", "   ");
    printf("  hosts that lose their redundancy   %lld\n", number(o, "hosts_without_redundancy"));
    list_hosts(o, "without_redundancy", "   ");
    printf("  routers cut off from the server    %lld\n", number(o, "routers_cut_off"));
    printf("  routes that change                 %lld\n", number(o, "routes_changed"));
    printf("  tables that change                 %lld, by %lld writes\n",
           number(o, "tables_changed"), number(o, "writes"));
    printf("  most loaded link, pairs of hosts   %.0f (%s) before, %.0f (%s) after: %+.1f %%\n",
           before, text(o, "worst_link_before"), after, text(o, "worst_link_after"),
           before > 0 ? (after / before - 1) * 100 : 0);
    printf("  free of deadlock                   %s\n",
           strcmp(text(o, "deadlock_free"), "true") == 0 ? "yes" : "no");
    printf("\"inm apply %lld\" does it; \"inm undo\" takes it back.\n", number(o, "id"));
}

void table_object(struct json_object *object)
{
    char buf[64], name_buf[64];

    json_object_object_foreach(object, name, value) {
        if (json_object_is_type(value, json_type_object)) {
            printf("%s:\n", label(name, name_buf, sizeof(name_buf)));
            json_object_object_foreach(value, inner, inner_value) {
                (void)inner_value;
                printf("  %-22s  %s\n", label(inner, name_buf, sizeof(name_buf)),
                       cell(value, inner, buf, sizeof(buf)));
            }
        } else {
            printf("%-24s  %s\n", label(name, name_buf, sizeof(name_buf)),
                   cell(object, name, buf, sizeof(buf)));
        }
    }
}

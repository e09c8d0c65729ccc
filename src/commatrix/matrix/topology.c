#include "topology.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NODES = 20000, MAX_COST = 1000000, MAX_SLOTS = 1 << 16 };
#define UNREACHABLE UINT32_MAX

static int find_switch(const struct cm_topology *topology, const char *name)
{
    guint i;

    for (i = 0; i < topology->switches->len; i++) {
        if (strcmp(g_ptr_array_index(topology->switches, i), name) == 0) {
            return (int)i;
        }
    }
    return -1;
}

int cm_topology_host(const struct cm_topology *topology, const char *name)
{
    guint i;

    for (i = 0; i < topology->hosts->len; i++) {
        if (strcmp(g_array_index(topology->hosts, struct cm_topology_host, i).name, name) == 0) {
            return (int)i;
        }
    }
    return -1;
}

static bool parse_number(const char *text, unsigned long max, uint32_t *value_p)
{
    char *end;
    unsigned long value;

    if (text == NULL) {
        *value_p = 1;
        return true;
    }
    value = strtoul(text, &end, 10);
    *value_p = (uint32_t)value;
    return g_ascii_isdigit(text[0]) && *end == '\0' && value >= 1 && value <= max;
}

static const char *add_host(struct cm_topology *topology, char **words, guint n)
{
    struct cm_topology_host host;
    int node;

    if (n < 3 || n > 5) {
        return "host needs a name, a switch and perhaps numbers of slots and of NUMA nodes";
    }
    node = find_switch(topology, words[2]);
    if (node < 0) {
        return "no line above has that switch";
    }
    if (cm_topology_host(topology, words[1]) >= 0) {
        return "the host is there already";
    }
    if (!parse_number(words[3], MAX_SLOTS, &host.slots)) {
        return "that is no number of slots";
    }
    if (!parse_number(n == 5 ? words[4] : NULL, host.slots, &host.numa)) {
        return "that is no number of NUMA nodes: from 1 to the number of slots";
    }
    host.node = (uint32_t)node;
    host.name = g_strdup(words[1]);
    g_array_append_val(topology->hosts, host);
    return NULL;
}

static const char *add_link(struct cm_topology *topology, char **words, guint n)
{
    struct cm_topology_link link;
    int a, b;

    if (n != 3 && n != 4) {
        return "link needs two switches and perhaps a cost";
    }
    a = find_switch(topology, words[1]);
    b = find_switch(topology, words[2]);
    if (a < 0 || b < 0) {
        return "no line above has that switch";
    }
    if (!parse_number(words[3], MAX_COST, &link.cost)) {
        return "that is no cost";
    }
    link.a = (uint32_t)a;
    link.b = (uint32_t)b;
    g_array_append_val(topology->links, link);
    return NULL;
}

static const char *add_words(struct cm_topology *topology, char **words, guint n)
{
    if (topology->switches->len + topology->hosts->len >= MAX_NODES) {
        return "too many switches and hosts";
    }
    if (n == 0) {
        return NULL;
    }
    if (strcmp(words[0], "host") == 0) {
        return add_host(topology, words, n);
    }
    if (strcmp(words[0], "link") == 0) {
        return add_link(topology, words, n);
    }
    if (strcmp(words[0], "switch") != 0) {
        return "a line begins with switch, host or link";
    }
    if (n != 2) {
        return "switch needs a name";
    }
    if (find_switch(topology, words[1]) >= 0) {
        return "the switch is there already";
    }
    g_ptr_array_add(topology->switches, g_strdup(words[1]));
    return NULL;
}

static const char *add_line(struct cm_topology *topology, char *line)
{
    char **split, **words;
    const char *mistake;
    guint n = 0, i;

    if (strchr(line, '#') != NULL) {
        *strchr(line, '#') = '\0';
    }
    split = g_strsplit_set(line, " \t\r", -1);
    words = g_new0(char *, g_strv_length(split) + 2);
    for (i = 0; split[i] != NULL; i++) {
        if (split[i][0] != '\0') {
            words[n++] = split[i];
        }
    }
    mistake = add_words(topology, words, n);
    g_free(words);
    g_strfreev(split);
    return mistake;
}

/* Bellman and Ford: costs from one switch to all. */
static void costs_from(const struct cm_topology *topology, uint32_t start, uint32_t *cost)
{
    bool changed = true;
    guint i;

    for (i = 0; i < topology->switches->len; i++) {
        cost[i] = UNREACHABLE;
    }
    cost[start] = 0;
    while (changed) {
        changed = false;
        for (i = 0; i < topology->links->len; i++) {
            const struct cm_topology_link *link =
                &g_array_index(topology->links, struct cm_topology_link, i);

            if (cost[link->a] != UNREACHABLE && cost[link->a] + link->cost < cost[link->b]) {
                cost[link->b] = cost[link->a] + link->cost;
                changed = true;
            }
            if (cost[link->b] != UNREACHABLE && cost[link->b] + link->cost < cost[link->a]) {
                cost[link->a] = cost[link->b] + link->cost;
                changed = true;
            }
        }
    }
}

/* Returns the error as text, or NULL. The link between a host and its switch costs 1. */
static const char *find_distances(struct cm_topology *topology)
{
    uint32_t *cost = g_new(uint32_t, topology->switches->len + 1);
    guint n = topology->hosts->len, a, b;
    const char *mistake = NULL;

    topology->distance = g_new0(uint32_t, (gsize)n *n + 1);
    for (a = 0; a < n && mistake == NULL; a++) {
        costs_from(topology, g_array_index(topology->hosts, struct cm_topology_host, a).node, cost);
        for (b = 0; b < n; b++) {
            uint32_t way = cost[g_array_index(topology->hosts, struct cm_topology_host, b).node];

            if (way == UNREACHABLE) {
                mistake = "there is no way between some of the hosts: a link is missing";
                break;
            }
            topology->distance[a * n + b] = a == b ? 0 : way + 2;
        }
    }
    g_free(cost);
    return mistake;
}

static struct cm_topology *fail(struct cm_topology *topology, char **error_p, char *error)
{
    *error_p = error;
    cm_topology_free(topology);
    return NULL;
}

struct cm_topology *cm_topology_load(const char *file, char **error_p)
{
    struct cm_topology *topology = g_new0(struct cm_topology, 1);
    const char *mistake = NULL;
    GError *error = NULL;
    char *text, **lines;
    int i;

    topology->switches = g_ptr_array_new_with_free_func(g_free);
    topology->hosts = g_array_new(FALSE, FALSE, sizeof(struct cm_topology_host));
    topology->links = g_array_new(FALSE, FALSE, sizeof(struct cm_topology_link));
    if (!g_file_get_contents(file, &text, NULL, &error)) {
        char *message = g_strdup(error->message);

        g_error_free(error);
        return fail(topology, error_p, message);
    }
    lines = g_strsplit(text, "\n", -1);
    g_free(text);
    for (i = 0; lines[i] != NULL && mistake == NULL; i++) {
        mistake = add_line(topology, lines[i]);
    }
    g_strfreev(lines);
    if (mistake != NULL) {
        return fail(topology, error_p, g_strdup_printf("%s:%d: %s", file, i, mistake));
    }
    mistake = topology->hosts->len == 0 ? "it has no hosts" : find_distances(topology);
    if (mistake != NULL) {
        return fail(topology, error_p, g_strdup_printf("%s: %s", file, mistake));
    }
    return topology;
}

void cm_topology_free(struct cm_topology *topology)
{
    guint i;

    for (i = 0; i < topology->hosts->len; i++) {
        g_free(g_array_index(topology->hosts, struct cm_topology_host, i).name);
    }
    g_ptr_array_free(topology->switches, TRUE);
    g_array_free(topology->hosts, TRUE);
    g_array_free(topology->links, TRUE);
    g_free(topology->distance);
    g_free(topology);
}

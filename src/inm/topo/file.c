/*
 * A topology from a file. Either the numbers of a fat tree, or a list of chips and links:
 *
 *   [topology]              [topology]
 *   name = lab              name = ring
 *   server = r0f0h0         nrc = 3
 *   [tree]                  nic = 2
 *   racks = 1               server = nic0
 *   ...                     [links]
 *                           link = nrc0:0 nic0:0
 *                           link = nrc0:1 nrc1:1
 */
#include "topo.h"

#include <ini.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    const char *path;
    FILE *file;
    int line; /* number of the present line */
    char *error;
    size_t size;
    char name[INM_NAME_MAX], server[INM_NAME_MAX];
    uint32_t nrc, nic;
    bool has_tree;
    struct inm_tree tree;
    struct inm_topo *topo; /* of a list */
};

static const struct {
    const char *name;
    size_t offset;
} tree_keys[] = {
#define KEY(name) {#name, offsetof(struct inm_tree, name)}
    KEY(racks),       KEY(service_racks), KEY(racks_a_group),   KEY(frames),
    KEY(hosts),       KEY(bottom_edges),  KEY(bottom_spines),   KEY(bottom_links),
    KEY(leaves),      KEY(leaf_uplinks),  KEY(sets_a_cabinet),  KEY(root_edges),
    KEY(root_spines), KEY(root_links),    KEY(roots_a_cabinet),
#undef KEY
};

/* The first error is kept. @return 0, by which inih counts the line as wrong. */
static int __attribute__((format(printf, 3, 4))) wrong(struct reader *r, int line, const char *fmt,
                                                       ...)
{
    va_list args;
    int len;

    if (r->error[0] == '\0') {
        len = line > 0 ? snprintf(r->error, r->size, "%s:%d: ", r->path, line) :
                         snprintf(r->error, r->size, "%s: ", r->path);
        va_start(args, fmt);
        vsnprintf(r->error + len, r->size - (size_t)len, fmt, args);
        va_end(args);
    }
    return 0;
}

static int read_number(struct reader *r, int line, const char *name, const char *text, uint32_t max,
                       uint32_t *value)
{
    char *end;
    unsigned long v = strtoul(text, &end, 10);

    if (text[0] < '0' || text[0] > '9' || *end != '\0' || v > max) {
        return wrong(r, line, "%s: \"%s\" is not a number from 0 to %u", name, text, max);
    }
    *value = (uint32_t)v;
    return 1;
}

static int read_tree(struct reader *r, int line, const char *name, const char *value)
{
    size_t i;

    r->has_tree = true;
    for (i = 0; i < sizeof(tree_keys) / sizeof(tree_keys[0]); i++) {
        if (strcmp(name, tree_keys[i].name) == 0) {
            return read_number(r, line, name, value, 4096,
                               (uint32_t *)((char *)&r->tree + tree_keys[i].offset));
        }
    }
    return wrong(r, line, "[tree] has no \"%s\"", name);
}

static int read_topology(struct reader *r, int line, const char *name, const char *value)
{
    if (strcmp(name, "nrc") == 0) {
        return read_number(r, line, name, value, 60000, &r->nrc);
    }
    if (strcmp(name, "nic") == 0) {
        return read_number(r, line, name, value, 60000, &r->nic);
    }
    if (strcmp(name, "name") == 0 && strlen(value) < sizeof(r->name)) {
        strcpy(r->name, value);
        return 1;
    }
    if (strcmp(name, "server") == 0 && strlen(value) < sizeof(r->server)) {
        strcpy(r->server, value);
        return 1;
    }
    return wrong(r, line, "[topology] has no \"%s\", or its value is too long", name);
}

static int read_link(struct reader *r, int line, const char *name, const char *value)
{
    char one[INM_NAME_MAX], two[INM_NAME_MAX], more;
    uint32_t a, b, i;

    if (strcmp(name, "link") != 0 || sscanf(value, "%31s %31s %c", one, two, &more) != 2) {
        return wrong(r, line, "a line of [links] is: link = CHIP:PORT CHIP:PORT");
    }
    if (r->topo == NULL) {
        if (r->nrc == 0 || r->nic == 0) {
            return wrong(r, line, "[topology] before [links] must give nrc and nic");
        }
        r->topo = inm_topo_new(r->nrc, r->nic);
        if (r->topo == NULL) {
            return wrong(r, line, "no memory");
        }
        for (i = 0; i < inm_topo_chips(r->topo); i++) {
            r->topo->chips[i].board = i;
            r->topo->chips[i].level = i < r->nrc ? INM_LEVEL_LEAF : INM_LEVEL_NIC;
        }
        r->topo->num_boards = r->nrc + r->nic;
    }
    a = inm_port_parse(r->topo, one);
    b = inm_port_parse(r->topo, two);
    if (a == INM_NONE || b == INM_NONE) {
        return wrong(r, line, "no such port: %s", a == INM_NONE ? one : two);
    }
    return inm_topo_wire(r->topo, a, b) ||
           wrong(r, line, "port %s or %s has a link already", one, two);
}

/* inih tells lines only of syntax errors; counting them as they are read tells all. */
static char *count_line(char *text, int size, void *arg)
{
    struct reader *r = arg;
    char *line = fgets(text, size, r->file);

    r->line += line != NULL;
    return line;
}

static int read_line(void *arg, const char *section, const char *name, const char *value)
{
    struct reader *r = arg;
    int line = r->line;

    if (strcmp(section, "topology") == 0) {
        return read_topology(r, line, name, value);
    }
    if (strcmp(section, "tree") == 0) {
        return read_tree(r, line, name, value);
    }
    if (strcmp(section, "links") == 0) {
        return read_link(r, line, name, value);
    }
    return wrong(r, line, "no such section: [%s]", section);
}

static struct inm_topo *finish(struct reader *r)
{
    uint32_t server;

    if (r->has_tree == (r->topo != NULL)) {
        wrong(r, 0, "needs one of [tree] and [links]");
        return NULL;
    }
    if (r->has_tree) {
        r->topo = inm_topo_tree(r->name, &r->tree, r->error, r->size);
        if (r->topo == NULL) {
            return NULL;
        }
    }
    strcpy(r->topo->name, r->name);
    server = r->server[0] != '\0' ? inm_chip_parse(r->topo, r->server) : r->topo->num_nrc;
    if (server == INM_NONE || server < r->topo->num_nrc ||
        r->topo->peer[inm_topo_port(r->topo, server, 0)] == INM_NONE) {
        wrong(r, 0, "server = %s is no NIC with a link", r->server);
        return NULL;
    }
    r->topo->server = server;
    return r->topo;
}

struct inm_topo *inm_topo_read(const char *path, char *error, size_t size)
{
    struct reader r = {.path = path, .error = error, .size = size, .name = "unnamed"};
    struct inm_topo *topo = NULL;
    FILE *file = fopen(path, "re");
    int line;

    error[0] = '\0';
    if (file == NULL) {
        snprintf(error, size, "%s: %m", path);
        return NULL;
    }
    r.file = file;
    line = ini_parse_stream(count_line, &r, read_line, &r);
    fclose(file);
    r.file = NULL;
    if (line != 0) {
        wrong(&r, line, "is neither [section] nor name = value, or is too long");
    } else {
        topo = finish(&r);
    }
    if (topo == NULL) {
        inm_topo_free(r.topo);
    }
    return topo;
}

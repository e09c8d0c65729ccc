/* Reading the configuration file: sections and options with their lines, by inih. */
#include "graph.h"
#include "modules.h"
#include "../lib/base/log.h"

#include <ctype.h>
#include <errno.h>
#include <ini.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct config_reader {
    struct graph *graph;
    FILE *file;
    char *text; /* the line at hand, */
    size_t size;
    char *rest; /* the part of the line that inih has not read yet */
    int line;
    int continued; /* inih has the rest of an option's value */
    int failed;
};

/*
 * inih finds a comment only if the comment begins in the part of the line that inih gets at once.
 */
static void config_cut_comment(char *text)
{
    char *at = text + strspn(text, " \t");

    if (*at == '#') {
        *at = '\0';
    }
    for (at = strchr(text, ';'); at != NULL; at = strchr(at + 1, ';')) {
        if ((at == text) || isblank((unsigned char)at[-1])) {
            *at = '\0';
            break;
        }
    }
}

/* How much of the rest fits, cut behind a blank or comma; 0: its first word is too long. */
static int config_piece(const char *rest, int room)
{
    int length = strlen(rest);

    if (length > room) {
        for (length = room; (length > 0) && !strchr(" \t,", rest[length - 1]); --length) {
        }
    }
    return length;
}

/*
 * Called by inih to read a line. inih takes at most 199 bytes at once, and treats a line that
 * begins with a blank as a continuation of the previous option. So this function hands over a
 * longer line in pieces. It also counts the lines, because inih reports line numbers of syntax
 * errors only.
 */
static char *config_line(char *text, int size, void *arg)
{
    struct config_reader *reader = arg;
    int length;

    reader->continued = (reader->rest != NULL) && (*reader->rest != '\0');
    if (!reader->continued) {
        if (getline(&reader->text, &reader->size, reader->file) < 0) {
            return NULL;
        }
        ++reader->line;
        config_cut_comment(reader->text);
        reader->rest = reader->text;
    }
    length = config_piece(reader->rest, size - 2);
    if ((length == 0) && (*reader->rest != '\0')) {
        udmon_error("%s:%d: a word of more than %d bytes", reader->graph->file, reader->line,
                    size - 2);
        reader->failed = 1;
        return NULL;
    }
    snprintf(text, size, "%s%.*s", reader->continued ? " " : "", length, reader->rest);
    reader->rest += length;
    return text;
}

static struct udmon_node *config_node_new(struct config_reader *reader, const char *name)
{
    struct udmon_node *node = calloc(1, sizeof(*node));

    if (node == NULL) {
        return NULL;
    }
    node->graph = reader->graph;
    node->refs = 1;
    node->line = reader->line;
    snprintf(node->name, sizeof(node->name), "%s", name);
    STAILQ_INIT(&node->options);
    node->file = strdup(reader->graph->file);
    STAILQ_INSERT_TAIL(&reader->graph->nodes, node, list);
    return node;
}

static int config_append(struct graph_option *option, const char *value)
{
    char *whole;

    if (asprintf(&whole, "%s %s", option->value, value) < 0) {
        return -ENOMEM;
    }
    free(option->value);
    option->value = whole;
    return 0;
}

static int config_option(struct config_reader *reader, struct udmon_node *node, const char *name,
                         const char *value)
{
    struct graph_option *option;

    STAILQ_FOREACH(option, &node->options, list) {
        if (!strcmp(option->name, name) && reader->continued) {
            return config_append(option, value);
        }
        if (!strcmp(option->name, name)) {
            udmon_error("%s:%d: option %s of node %s stands in line %d already",
                        reader->graph->file, reader->line, name, node->name, option->line);
            return -EINVAL;
        }
    }
    option = calloc(1, sizeof(*option));
    if (option == NULL) {
        return -ENOMEM;
    }
    option->name = strdup(name);
    option->value = strdup(value);
    option->line = reader->line;
    STAILQ_INSERT_TAIL(&node->options, option, list);
    return ((option->name != NULL) && (option->value != NULL)) ? 0 : -ENOMEM;
}

static int config_agent(struct config_reader *reader, const char *name, const char *value)
{
    if (strcmp(name, "module")) {
        udmon_error("%s:%d: section [agent] has no option %s (there is: module)",
                    reader->graph->file, reader->line, name);
        return -EINVAL;
    }
    return module_load(value, reader->graph->file, reader->line);
}

/* Called by inih for each option; 0 stops it. */
static int config_handle(void *arg, const char *section, const char *name, const char *value)
{
    struct config_reader *reader = arg;
    struct udmon_node *node;
    int ret;

    if (section[0] == '\0') {
        udmon_error("%s:%d: option %s stands before any [section]", reader->graph->file,
                    reader->line, name);
        ret = -EINVAL;
    } else if (!strcmp(section, "agent")) {
        ret = config_agent(reader, name, value);
    } else {
        node = graph_find(reader->graph, section);
        node = (node != NULL) ? node : config_node_new(reader, section);
        ret = (node != NULL) ? config_option(reader, node, name, value) : -ENOMEM;
    }
    reader->failed |= (ret < 0);
    return ret == 0;
}

int graph_read(const char *file, struct graph **graph_p)
{
    struct config_reader reader = {.line = 0};
    int ret;

    reader.graph = calloc(1, sizeof(*reader.graph));
    if (reader.graph == NULL) {
        return -ENOMEM;
    }
    STAILQ_INIT(&reader.graph->nodes);
    reader.graph->file = strdup(file);
    reader.file = fopen(file, "r");
    if ((reader.file == NULL) || (reader.graph->file == NULL)) {
        ret = -errno;
        udmon_error("cannot read %s: %s", file, strerror(errno));
        goto err;
    }
    ret = ini_parse_stream(config_line, &reader, config_handle, &reader);
    fclose(reader.file);
    free(reader.text);
    if ((ret != 0) || reader.failed) {
        if (!reader.failed) {
            udmon_error("%s:%d: this is neither [section] nor OPTION = VALUE", file, ret);
        }
        ret = -EINVAL;
        goto err;
    }
    if (STAILQ_EMPTY(&reader.graph->nodes)) {
        udmon_error("%s: no nodes are described here", file);
        ret = -EINVAL;
        goto err;
    }
    *graph_p = reader.graph;
    return 0;

err:
    graph_free(reader.graph);
    return ret;
}

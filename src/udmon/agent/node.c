#include "node.h"
#include "../lib/base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct udmon_loop agent_loop;

static const struct graph_option *node_option(const struct udmon_node *node, const char *name)
{
    const struct graph_option *option;

    STAILQ_FOREACH(option, &node->options, list) {
        if (!strcmp(option->name, name)) {
            return option;
        }
    }
    return NULL;
}

const char *udmon_node_option(const struct udmon_node *node, const char *name)
{
    const struct graph_option *option = node_option(node, name);

    return (option != NULL) ? option->value : NULL;
}

void udmon_node_error(const struct udmon_node *node, const char *name, const char *format, ...)
{
    const struct graph_option *option = (name != NULL) ? node_option(node, name) : NULL;
    char text[256];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    udmon_error("%s:%d: node %s: %s%s%s", node->file, (option != NULL) ? option->line : node->line,
                node->name, (name != NULL) ? name : "", (name != NULL) ? ": " : "", text);
}

int udmon_node_number(const struct udmon_node *node, const char *name, double missing, double min,
                      double max, double *value_p)
{
    const char *text = udmon_node_option(node, name);
    double value = missing;
    char *end;

    if (text != NULL) {
        value = strtod(text, &end);
        if ((end == text) || (*end != '\0') || !(value >= min) || !(value <= max)) {
            udmon_node_error(node, name, "'%s' is no number from %g to %g", text, min, max);
            return -EINVAL;
        }
    }
    *value_p = value;
    return 0;
}

void node_deliver(struct udmon_node *node, const struct udmon_metric *metrics, size_t count)
{
    unsigned i;

    for (i = 0; i < node->output_count; ++i) {
        node->outputs[i]->type->receive(node->outputs[i], node->outputs[i]->state, metrics, count);
    }
}

void node_refuse(struct udmon_node *node, int reason, const char *what)
{
    static const char *const reasons[REFUSED_REASONS] = {
        [REFUSED_NAME] = "its name or a label is wrong, or longer than 1023 bytes",
        [REFUSED_DUPLICATE] = "its series has a value in this tick already",
        [REFUSED_LINE] = "this line is no sample",
        [REFUSED_SERIES] = "the sensor has more series than its option \"series\" allows",
    };

    if (__atomic_fetch_add(&node->refused[reason], 1, __ATOMIC_RELAXED) == 0) {
        udmon_warn("node %s: a sample is refused, as others may be "
                   "(udmon_agent_samples_refused_total): %s: %.200s",
                   node->name, reasons[reason], what);
    }
}

struct udmon_node *node_get(struct udmon_node *node)
{
    __atomic_fetch_add(&node->refs, 1, __ATOMIC_SEQ_CST);
    return node;
}

void node_put(struct udmon_node *node)
{
    struct graph_option *option;

    if (__atomic_sub_fetch(&node->refs, 1, __ATOMIC_SEQ_CST) > 0) {
        return;
    }
    while ((option = STAILQ_FIRST(&node->options)) != NULL) {
        STAILQ_REMOVE_HEAD(&node->options, list);
        free(option->name);
        free(option->value);
        free(option);
    }
    free(node->file);
    free(node);
}

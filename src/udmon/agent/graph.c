#include "graph.h"
#include "modules.h"
#include "worker.h"
#include "../lib/base/log.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TYPE_OPTIONS_MAX = 32 };

/* Exact: digits beyond a nanosecond are refused. */
static int node_interval(struct udmon_node *node)
{
    double seconds, ns;

    if (udmon_node_number(node, "interval", 1, 0.001, 1e6, &seconds) < 0) {
        return -EINVAL;
    }
    ns = rint(seconds * 1e9);
    if (fabs((seconds * 1e9) - ns) > 0.05) { /* a double near 1e6 s is exact to 0.06 ns */
        udmon_node_error(node, "interval", "'%s' is finer than a nanosecond",
                         udmon_node_option(node, "interval"));
        return -EINVAL;
    }
    node->interval_ns = ns;
    return 0;
}

/* The option names of a type, in the order of the message that lists them. */
static size_t type_options(const struct udmon_node_type *type, const char *names[TYPE_OPTIONS_MAX])
{
    const char *const *own;
    size_t count = 0;

    for (own = type->options; (own != NULL) && (*own != NULL) && (count + 4 < TYPE_OPTIONS_MAX);
         ++own) {
        names[count++] = *own;
    }
    names[count++] = "type";
    if (type->has_output) {
        names[count++] = "to";
    }
    if (type->tick != NULL) {
        names[count++] = "interval";
    }
    if (type->blocking) {
        names[count++] = "deadline";
    }
    return count;
}

static int node_check_option(struct udmon_node *node, const char *name)
{
    const char *names[TYPE_OPTIONS_MAX];
    size_t i, count = type_options(node->type, names), used = 0;
    char list[200] = "";

    for (i = 0; i < count; ++i) {
        if (!strcmp(names[i], name)) {
            return 0;
        }
        used += snprintf(list + used, sizeof(list) - used, "%s%s", (i > 0) ? ", " : "", names[i]);
        used = (used < sizeof(list)) ? used : (sizeof(list) - 1);
    }
    udmon_node_error(node, name, "type %s has no such option; its options are %s", node->type->name,
                     list);
    return -EINVAL;
}

static int node_check_options(struct udmon_node *node)
{
    struct graph_option *option;

    if ((udmon_node_option(node, "interval") != NULL) && (node->type->tick == NULL)) {
        udmon_node_error(node, "interval", "type %s is no sensor and has no timer",
                         node->type->name);
        return -EINVAL;
    }
    if (!node->type->has_output && (udmon_node_option(node, "to") != NULL)) {
        udmon_node_error(node, "to", "type %s has no output", node->type->name);
        return -EINVAL;
    }
    STAILQ_FOREACH(option, &node->options, list) {
        if (node_check_option(node, option->name) < 0) {
            return -EINVAL;
        }
    }
    return 0;
}

struct udmon_node *graph_find(const struct graph *graph, const char *name)
{
    struct udmon_node *node;

    STAILQ_FOREACH(node, &graph->nodes, list) {
        if (!strcmp(node->name, name)) {
            return node;
        }
    }
    return NULL;
}

static int node_add_output(struct udmon_node *node, const char *name)
{
    struct udmon_node *output = graph_find(node->graph, name);

    if (output == NULL) {
        udmon_node_error(node, "to", "there is no node %s", name);
        return -EINVAL;
    }
    if (output->type->receive == NULL) {
        udmon_node_error(node, "to", "node %s, of type %s, has no input", name, output->type->name);
        return -EINVAL;
    }
    if (node->output_count == GRAPH_OUTPUTS_MAX) {
        udmon_node_error(node, "to", "more than %d outputs", GRAPH_OUTPUTS_MAX);
        return -EINVAL;
    }
    node->outputs[node->output_count++] = output;
    return 0;
}

static int node_connect(struct udmon_node *node)
{
    const char *to = udmon_node_option(node, "to");
    char *copy, *word, *rest = NULL;
    int ret = 0;

    if (!node->type->has_output) {
        return 0;
    }
    if (to == NULL) {
        udmon_node_error(node, NULL, "type %s needs an option \"to\"", node->type->name);
        return -EINVAL;
    }
    copy = strdup(to);
    if (copy == NULL) {
        return -ENOMEM;
    }
    for (word = strtok_r(copy, ", \t", &rest); (word != NULL) && (ret == 0);
         word = strtok_r(NULL, ", \t", &rest)) {
        ret = node_add_output(node, word);
    }
    free(copy);
    return ret;
}

/* Samples that went round in a circle would never end. */
static int node_check_circle(struct udmon_node *node)
{
    unsigned i;
    int ret = 0;

    if (node->visited == 1) {
        udmon_node_error(node, "to", "its output comes back to its input");
        return -ELOOP;
    }
    if (node->visited == 0) {
        node->visited = 1;
        for (i = 0; (i < node->output_count) && (ret == 0); ++i) {
            ret = node_check_circle(node->outputs[i]);
        }
        node->visited = 2;
    }
    return ret;
}

static int graph_check(struct graph *graph)
{
    struct udmon_node *node;
    const char *type;
    int ret;

    STAILQ_FOREACH(node, &graph->nodes, list) {
        type = udmon_node_option(node, "type");
        node->type = (type != NULL) ? module_type(type) : NULL;
        if (node->type == NULL) {
            udmon_node_error(node, (type != NULL) ? "type" : NULL,
                             (type != NULL) ? "there is no type %s" : "it has no type%s",
                             (type != NULL) ? type : "");
            return -EINVAL;
        }
        ret = node_check_options(node);
        ret = (ret == 0) ? node_interval(node) : ret;
        if (ret < 0) {
            return ret;
        }
    }
    STAILQ_FOREACH(node, &graph->nodes, list) {
        ret = node_connect(node);
        if (ret < 0) {
            return ret;
        }
    }
    STAILQ_FOREACH(node, &graph->nodes, list) {
        ret = node_check_circle(node);
        if (ret < 0) {
            return ret;
        }
    }
    return 0;
}

/* Whether `b` has all options of `a`, except the options that only the graph uses. */
static bool node_covers(const struct udmon_node *a, const struct udmon_node *b)
{
    const struct graph_option *option;
    const char *other;

    STAILQ_FOREACH(option, &a->options, list) {
        other = udmon_node_option(b, option->name);
        if (strcmp(option->name, "to") && strcmp(option->name, "interval") &&
            ((other == NULL) || strcmp(option->value, other))) {
            return false;
        }
    }
    return true;
}

/* Whether one may go on with the other's state. */
static bool node_same(const struct udmon_node *a, const struct udmon_node *b)
{
    return (a->type == b->type) && node_covers(a, b) && node_covers(b, a);
}

/*
 * Timers follow the monotonic clock, and the next tick is an instant of the time of day. Only a
 * step of the clock changes the difference of the two, and each tick computes the difference again.
 */
static void node_set_timer(struct udmon_node *node)
{
    uint64_t wait_ns = tick_wait_ns(&node->tick, udmon_time_ns());

    udmon_timer_set_at(&agent_loop, &node->timer, udmon_now_ns() + wait_ns);
}

static void node_tick(struct udmon_timer *timer)
{
    struct udmon_node *node = timer->arg;

    if (!tick_due(&node->tick, udmon_time_ns())) {
        node_set_timer(node);
        return;
    }
    if (node->worker != NULL) {
        worker_tick(node->worker);
    } else {
        node->type->tick(node, node->state);
    }
    node_set_timer(node);
}

static void node_destroy_state(struct udmon_node *node)
{
    udmon_timer_cancel(&node->timer);
    if (node->worker != NULL) {
        worker_stop(node->worker);
    } else if (node->has_state && (node->type->destroy != NULL)) {
        node->type->destroy(node->state);
    }
    node->worker = NULL;
    node->has_state = 0;
}

static int node_create_state(struct udmon_node *node)
{
    int ret = (node->type->create != NULL) ? node->type->create(node, &node->state) : 0;

    if (ret < 0) {
        return ret;
    }
    node->has_state = 1;
    if (!node->type->blocking) {
        return 0;
    }
    ret = worker_start(node, &node->worker);
    if (ret < 0) {
        node_destroy_state(node);
    }
    return ret;
}

/* Makes the state of every new node. On failure, undoes the states that it has made. */
static int graph_make_states(struct graph *graph, struct graph *old)
{
    struct udmon_node *node, *before;
    int ret;

    STAILQ_FOREACH(node, &graph->nodes, list) {
        before = (old != NULL) ? graph_find(old, node->name) : NULL;
        if ((before != NULL) && node_same(before, node)) {
            continue; /* taken over when nothing can fail any more */
        }
        ret = node_create_state(node);
        if (ret < 0) {
            goto err;
        }
    }
    return 0;

err:
    STAILQ_FOREACH(node, &graph->nodes, list) {
        node_destroy_state(node);
    }
    return ret;
}

int graph_start(struct graph *graph, struct graph *old)
{
    struct udmon_node *node, *before;
    int ret;

    ret = graph_check(graph);
    ret = (ret == 0) ? graph_make_states(graph, old) : ret;
    if (ret < 0) {
        return ret;
    }
    STAILQ_FOREACH(node, &graph->nodes, list) {
        if (!node->has_state) {
            before = graph_find(old, node->name);
            node->state = before->state;
            memcpy(node->refused, before->refused, sizeof(node->refused));
            node->tick = before->tick;
            node->has_state = 1;
            before->has_state = 0;
            node->worker = before->worker;
            before->worker = NULL;
            if (node->worker != NULL) {
                worker_take_over(node->worker, node);
            }
        }
        if (node->type->tick != NULL) {
            node->timer.fire = node_tick;
            node->timer.arg = node;
            tick_begin(&node->tick, node->interval_ns, udmon_time_ns());
            node_set_timer(node);
        }
    }
    return 0;
}

void graph_free(struct graph *graph)
{
    struct udmon_node *node;

    while ((node = STAILQ_FIRST(&graph->nodes)) != NULL) {
        STAILQ_REMOVE_HEAD(&graph->nodes, list);
        udmon_timer_cancel(&node->timer);
        if (node->type != NULL) {
            node_destroy_state(node);
        }
        node_put(node);
    }
    free(graph->file);
    free(graph);
}

/* Processing node "label": adds labels, as rack or cluster, to all samples that pass. */
#include "node.h"
#include "types.h"
#include "../lib/metric.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct labelling {
    char *labels; /* as in a name: "x{rack=\"r1\"}" */
};

static const char *const label_options[] = {"labels", NULL};

static void label_destroy(void *state)
{
    free(((struct labelling *)state)->labels);
    free(state);
}

static int label_create(struct udmon_node *node, void **state_p)
{
    const char *labels = udmon_node_option(node, "labels");
    struct labelling *labelling;

    if (labels == NULL) {
        udmon_node_error(node, NULL, "needs an option \"labels\", as rack=\"r1\",cluster=\"a\"");
        return -EINVAL;
    }
    labelling = calloc(1, sizeof(*labelling));
    if ((labelling == NULL) || (asprintf(&labelling->labels, "x{%s}", labels) < 0)) {
        free(labelling);
        return -ENOMEM;
    }
    if (!udmon_metric_name_valid(labelling->labels)) {
        udmon_node_error(node, "labels", "'%s' is not written as rack=\"r1\",cluster=\"a\"",
                         labels);
        label_destroy(labelling);
        return -EINVAL;
    }
    *state_p = labelling;
    return 0;
}

static bool name_has(const char *name, const struct udmon_label *label)
{
    const char *at = name + strcspn(name, "{");
    struct udmon_label each;

    while (udmon_label_next(&at, &each)) {
        if ((each.name_length == label->name_length) &&
            !strncmp(each.name, label->name, label->name_length)) {
            return true;
        }
    }
    return false;
}

/* Makes the name with the labels that it does not have yet; false if the name becomes too long. */
static bool label_name(const struct labelling *labelling, const char *name,
                       char out[UDMON_METRIC_NAME_MAX + 1])
{
    const char *at = labelling->labels + 1;
    size_t used = strlen(name), added = 0;
    int has_labels = (used > 0) && (name[used - 1] == '}');
    struct udmon_label label;

    used = snprintf(out, UDMON_METRIC_NAME_MAX + 1, "%.*s", (int)(used - has_labels), name);
    while (udmon_label_next(&at, &label) && (used <= UDMON_METRIC_NAME_MAX)) {
        if (!name_has(name, &label)) {
            used += snprintf(out + used, UDMON_METRIC_NAME_MAX + 1 - used, "%c%.*s=\"%.*s\"",
                             (has_labels || (added++ > 0)) ? ',' : '{', (int)label.name_length,
                             label.name, (int)label.value_length, label.value);
        }
    }
    if ((used < UDMON_METRIC_NAME_MAX) && (has_labels || (added > 0))) {
        out[used++] = '}';
        out[used] = '\0';
    }
    return used <= UDMON_METRIC_NAME_MAX;
}

static void label_receive(struct udmon_node *node, void *state, const struct udmon_metric *metrics,
                          size_t count)
{
    char name[UDMON_METRIC_NAME_MAX + 1];
    struct udmon_metric metric;
    size_t i;

    for (i = 0; i < count; ++i) {
        metric = metrics[i];
        if (label_name(state, metric.name, name)) {
            metric.name = name;
            udmon_node_emit(node, &metric, 1);
        } else {
            node_refuse(node, REFUSED_NAME, metric.name);
        }
    }
}

const struct udmon_node_type process_label = {
    .name = "label",
    .options = label_options,
    .create = label_create,
    .destroy = label_destroy,
    .receive = label_receive,
    .has_output = 1,
};

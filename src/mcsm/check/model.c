#include "model.h"

#include "route/deps.h"

#include <errno.h>
#include <stdlib.h>

struct check_node *check_find(const struct check_model *model, uint64_t guid)
{
    struct check_node *node;

    HASH_FIND(hh, model->nodes, &guid, sizeof(guid), node);
    return node;
}

static int by_cluster(const void *a, const void *b)
{
    const struct check_node *x = *(struct check_node *const *)a,
                            *y = *(struct check_node *const *)b;

    if (x->cluster != y->cluster) {
        return x->cluster - y->cluster;
    }
    return x->guid < y->guid ? -1 : x->guid > y->guid;
}

static int number_switches(struct check_model *model)
{
    struct check_node *node, *next;
    uint8_t *nports;

    model->switches = calloc(HASH_COUNT(model->nodes) + 1, sizeof(*model->switches));
    nports = calloc(HASH_COUNT(model->nodes) + 1, 1);
    if (model->switches == NULL || nports == NULL) {
        free(nports);
        return -ENOMEM;
    }
    HASH_ITER(hh, model->nodes, node, next) {
        if (node->sw) {
            model->switches[model->switch_count++] = node;
        } else {
            model->host_count++;
        }
    }
    if (model->switch_count > 0) {
        qsort(model->switches, model->switch_count, sizeof(*model->switches), by_cluster);
    }
    for (int i = 0; i < model->switch_count; i++) {
        model->switches[i]->index = i;
        nports[i] = model->switches[i]->nports;
    }
    model->graph = mcsm_graph_new(model->switch_count, nports);
    free(nports);
    return model->graph ? 0 : -ENOMEM;
}

static void attach(struct check_node *sw, uint8_t port, struct check_node *host)
{
    sw->hosts++;
    if (host->attached < 0) {
        host->attached = sw->index;
        host->port = port;
    }
}

static void connect_link(struct check_model *model, const struct check_link *link)
{
    struct check_node *a = check_find(model, link->a), *b = check_find(model, link->b);

    if (a == NULL || b == NULL || link->a_port > a->nports || link->b_port > b->nports) {
        return;
    }
    if (a->sw && b->sw) {
        mcsm_graph_link(model->graph, a->index, link->a_port, b->index, link->b_port);
    } else if (a->sw) {
        attach(a, link->a_port, b);
    } else if (b->sw) {
        attach(b, link->b_port, a);
    }
}

static bool is_named_back(const struct check_model *model, const struct check_border *border)
{
    for (size_t i = 0; i < model->border_count; i++) {
        const struct check_border *other = &model->borders[i];

        if (other->guid == border->peer_guid && other->port == border->peer_port) {
            return other->peer_guid == border->guid && other->peer_port == border->port;
        }
    }
    return false;
}

/* A link between clusters exists if both dumps name it. */
static int connect_borders(struct check_model *model)
{
    for (size_t i = 0; i < model->border_count; i++) {
        const struct check_border *border = &model->borders[i];
        struct check_link *more;

        if (border->guid > border->peer_guid || !is_named_back(model, border)) {
            continue;
        }
        more = realloc(model->links, (model->link_count + 1) * 2 * sizeof(*more));
        if (more == NULL) {
            return -ENOMEM;
        }
        model->links = more;
        model->links[model->link_count] = (struct check_link){
            border->guid, border->peer_guid, border->port, border->peer_port, true};
        connect_link(model, &model->links[model->link_count++]);
    }
    return 0;
}

static int digit(char c)
{
    return c <= '9' ? c - '0' : c - 'a' + 10;
}

/* All switches of a cluster have a row, or none has. The switches are sorted by cluster. */
static bool has_all_rings(const struct check_model *model, const bool *has_row)
{
    for (int i = 1; i < model->switch_count; i++) {
        const struct check_node *node = model->switches[i], *last = model->switches[i - 1];

        if (node->cluster == last->cluster && has_row[i] != has_row[i - 1]) {
            fprintf(stderr, "cluster %s has no line \"rings 0x%016lx\"\n",
                    model->clusters[node->cluster], has_row[i] ? last->guid : node->guid);
            return false;
        }
    }
    return true;
}

/* How levels select lanes at the ports of the switches. */
static int connect_rings(struct check_model *model)
{
    struct mcsm_graph *graph = model->graph;
    bool *has_row;
    int status = 0;

    if (model->rings_count == 0) {
        return 0;
    }
    graph->ring = calloc(graph->links + 1, 1);
    has_row = calloc(graph->count + 1, sizeof(*has_row));
    if (graph->ring == NULL || has_row == NULL) {
        free(has_row);
        return -ENOMEM;
    }
    for (size_t i = 0; i < model->rings_count && status == 0; i++) {
        const struct check_node *node = check_find(model, model->rings[i].guid);
        const char *digits = model->rings[i].digits;

        if (node == NULL || !node->sw || node->nports > MCSM_WIDE_PORTS ||
            strspn(digits, "01234") != (size_t)node->nports + 1 ||
            digits[node->nports + 1] != '\0') {
            fprintf(
                stderr,
                "rings 0x%016lx %s: expected a switch of at most %d ports, and a digit of 0 to 4 "
                "for each port from port 0 on\n",
                model->rings[i].guid, digits, MCSM_WIDE_PORTS);
            status = -EINVAL;
            break;
        }
        has_row[node->index] = true;
        for (int p = 0; p <= node->nports; p++) {
            graph->ring[graph->sw[node->index].first_link + p] = digit(digits[p]);
        }
    }
    if (status == 0 && !has_all_rings(model, has_row)) {
        status = -EINVAL;
    }
    free(has_row);
    graph->lanes = 2;
    return status;
}

/* The highest lane of a level of packets from a switch. */
static int highest_lane(const struct mcsm_graph *graph, int sw, int level)
{
    int link = graph->sw[sw].first_link, lane = mcsm_vl(graph, link, level);

    return graph->ring != NULL && graph->ring[link] != 0 && lane < 2 ? 1 : lane;
}

/* Pairs over a border use lane 0. */
static int connect_lanes(struct check_model *model)
{
    struct mcsm_graph *graph = model->graph;
    size_t n = graph->count;

    if (model->lanes_count == 0) {
        return 0;
    }
    graph->lane = calloc(n * n + 1, 1);
    if (graph->lane == NULL) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < model->lanes_count; i++) {
        const struct check_node *node = check_find(model, model->lanes[i].guid);
        int first = node ? node->index : 0;

        while (node != NULL && first > 0 && model->switches[first - 1]->cluster == node->cluster) {
            first--;
        }
        for (const char *c = model->lanes[i].digits; node != NULL && *c != '\0'; c++) {
            int to = first + (c - model->lanes[i].digits);

            if (to >= graph->count || !node->sw) {
                break;
            }
            graph->lane[node->index * n + to] = digit(*c);
            int lane = highest_lane(graph, node->index, digit(*c));
            if (lane >= graph->lanes) {
                graph->lanes = lane + 1;
            }
        }
    }
    return 0;
}

int check_connect(struct check_model *model)
{
    int status = number_switches(model);

    if (status < 0) {
        return status;
    }
    for (size_t i = 0; i < model->link_count; i++) {
        connect_link(model, &model->links[i]);
    }
    status = connect_borders(model);
    status = status < 0 ? status : connect_rings(model);
    status = status < 0 ? status : connect_lanes(model);
    if (status < 0) {
        return status;
    }
    for (int i = 0; i < model->switch_count; i++) {
        struct check_lft *lft;

        HASH_FIND(hh, model->lfts, &model->switches[i]->guid, sizeof(uint64_t), lft);
        model->graph->sw[i].guid = model->switches[i]->guid;
        model->graph->sw[i].hosts = model->switches[i]->hosts;
        model->graph->sw[i].lft = lft ? lft->ports : NULL;
    }
    return 0;
}

void check_free(struct check_model *model)
{
    struct check_node *node, *next;
    struct check_lft *lft, *next_lft;

    HASH_ITER(hh, model->nodes, node, next) {
        HASH_DEL(model->nodes, node);
        free(node);
    }
    HASH_ITER(hh, model->lfts, lft, next_lft) {
        HASH_DEL(model->lfts, lft);
        free(lft->ports);
        free(lft);
    }
    mcsm_graph_free(model->graph);
    free(model->clusters);
    free(model->switches);
    free(model->links);
    free(model->borders);
    free(model->mfts);
    for (size_t i = 0; i < model->lanes_count; i++) {
        free(model->lanes[i].digits);
    }
    free(model->lanes);
    for (size_t i = 0; i < model->rings_count; i++) {
        free(model->rings[i].digits);
    }
    free(model->rings);
    free(model->lid_owner);
    free(model->lid_port);
    memset(model, 0, sizeof(*model));
}

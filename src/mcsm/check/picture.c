/*
 * The picture: a box for each cluster, with two rows of switches. The lower row has the switches
 * with end nodes. End nodes are under their switch. Links are coloured from blue to red by their
 * load.
 */
#include "model.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

enum {
    BOX_MIN = 340,
    GAP = 120,
    MARGIN = 40,
    ROW_TOP = 110,
    ROW_LEAF = 230,
    ROW_HOST = 310,
    BOX_HEIGHT = 360,
    SHOWN_HOSTS = 12 /* of one switch; more are only counted */
};

struct place {
    double x, y;
};

struct picture {
    const struct check_model *model;
    FILE *out;
    struct place *switches;
    double *box_x, *box_y, *box_width;
    double width, height;
    uint64_t max_load;
};

static void text(const struct picture *picture, double x, double y, int size, const char *anchor,
                 const char *words)
{
    fprintf(picture->out, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%d\" text-anchor=\"%s\">", x, y,
            size, anchor);
    for (; *words != '\0'; words++) {
        if (*words == '<' || *words == '&' || *words == '>') {
            fprintf(picture->out, "&#%d;", *words);
        } else {
            fputc(*words, picture->out);
        }
    }
    fputs("</text>\n", picture->out);
}

/* How wide a row of a cluster's switches is. */
static double row_width(const struct check_model *model, int cluster, bool leaf)
{
    double width = 0;

    for (int i = 0; i < model->switch_count; i++) {
        const struct check_node *node = model->switches[i];
        int hosts = node->hosts < SHOWN_HOSTS ? node->hosts : 1;

        if (node->cluster == cluster && (node->hosts > 0) == leaf) {
            width += hosts * 56 > 90 ? hosts * 56 : 90;
        }
    }
    return width;
}

static void place_row(struct picture *picture, int cluster, bool leaf)
{
    const struct check_model *model = picture->model;
    double width = row_width(model, cluster, leaf);
    double x = picture->box_x[cluster] + (picture->box_width[cluster] - width) / 2;

    for (int i = 0; i < model->switch_count; i++) {
        const struct check_node *node = model->switches[i];
        int hosts = node->hosts < SHOWN_HOSTS ? node->hosts : 1;
        double step = hosts * 56 > 90 ? hosts * 56 : 90;

        if (node->cluster != cluster || (node->hosts > 0) != leaf) {
            continue;
        }
        picture->switches[i] =
            (struct place){x + step / 2, picture->box_y[cluster] + (leaf ? ROW_LEAF : ROW_TOP)};
        x += step;
    }
}

/* Places the boxes of clusters in rows with the same number of boxes. */
static void place(struct picture *picture)
{
    const struct check_model *model = picture->model;
    size_t columns = ceil(sqrt(model->cluster_count));
    double x = MARGIN, y = MARGIN + 40, width = 0;

    for (size_t i = 0; i < model->cluster_count; i++) {
        double leaf = row_width(model, i, true), top = row_width(model, i, false);

        if (i > 0 && i % columns == 0) {
            x = MARGIN + (i / columns % 2) * 60;
            y += BOX_HEIGHT + GAP;
        }
        picture->box_x[i] = x;
        picture->box_y[i] = y;
        picture->box_width[i] = fmax(BOX_MIN, fmax(leaf, top) + 40);
        x += picture->box_width[i] + GAP;
        width = fmax(width, x - GAP);
        place_row(picture, i, true);
        place_row(picture, i, false);
    }
    picture->width = width + MARGIN;
    picture->height = y + BOX_HEIGHT + MARGIN;
}

/* Load of a link: the greater of its two directions. */
static uint64_t load_of(const struct picture *picture, const struct check_link *link)
{
    const struct mcsm_graph *graph = picture->model->graph;
    const struct check_node *a = check_find(picture->model, link->a),
                            *b = check_find(picture->model, link->b);
    uint64_t there = graph->load[graph->sw[a->index].first_link + link->a_port];
    uint64_t back = graph->load[graph->sw[b->index].first_link + link->b_port];

    return there > back ? there : back;
}

static int parallel_before(const struct check_model *model, size_t index)
{
    const struct check_link *link = &model->links[index];
    int count = 0;

    for (size_t i = 0; i < index; i++) {
        count += model->links[i].a == link->a && model->links[i].b == link->b;
    }
    return count;
}

static void draw_link(const struct picture *picture, size_t index)
{
    const struct check_link *link = &picture->model->links[index];
    const struct check_node *a = check_find(picture->model, link->a),
                            *b = check_find(picture->model, link->b);
    int nth = parallel_before(picture->model, index);
    double bend = (nth % 2 ? 1 : -1) * (nth + 1) / 2 * 26 + 13, share;
    struct place from, to;
    uint64_t load;

    if (a == NULL || b == NULL || !a->sw || !b->sw) {
        return;
    }
    from = picture->switches[a->index];
    to = picture->switches[b->index];
    load = load_of(picture, link);
    share = picture->max_load ? (double)load / picture->max_load : 0;
    double dx = to.x - from.x, dy = to.y - from.y, length = fmax(1, hypot(dx, dy));
    /* Links within one row would pass through other switches: bend them upwards. */
    if (fabs(dy) < 1) {
        bend += dx > 0 ? -fmin(90, length / 4) : fmin(90, length / 4);
    }
    fprintf(picture->out,
            "<path d=\"M%.1f %.1f Q%.1f %.1f %.1f %.1f\" fill=\"none\" stroke=\"rgb(%d,%d,%d)\" "
            "stroke-width=\"%.1f\"%s><title>%s/%u - %s/%u: %lu pairs</title></path>\n",
            from.x, from.y, (from.x + to.x) / 2 - dy / length * bend,
            (from.y + to.y) / 2 + dx / length * bend, to.x, to.y, (int)(40 + 190 * share),
            (int)(110 - 60 * share), (int)(200 - 170 * share), 1.2 + 2.8 * share,
            link->border ? " stroke-dasharray=\"9 4\"" : "", a->desc, link->a_port, b->desc,
            link->b_port, load);
}

static void draw_hosts(const struct picture *picture, int index)
{
    const struct check_node *sw = picture->model->switches[index];
    struct place at = picture->switches[index];
    double y = picture->box_y[sw->cluster] + ROW_HOST, x = at.x - (sw->hosts - 1) * 28.0;
    struct check_node *node, *next;
    char words[48];

    if (sw->hosts >= SHOWN_HOSTS) {
        snprintf(words, sizeof(words), "%d end nodes", sw->hosts);
        text(picture, at.x, y, 11, "middle", words);
        return;
    }
    HASH_ITER(hh, picture->model->nodes, node, next) {
        if (node->sw || node->attached != index) {
            continue;
        }
        fprintf(picture->out,
                "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#999\"/>\n", at.x,
                at.y + 14, x, y - 6);
        fprintf(picture->out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"6\" fill=\"#4a7\"/>\n", x, y);
        snprintf(words, sizeof(words), "%.8s", node->desc);
        text(picture, x, y + 19, 10, "middle", words);
        snprintf(words, sizeof(words), "LID %u", node->lid);
        text(picture, x, y + 31, 9, "middle", words);
        x += 56;
    }
}

static void draw_boxes(const struct picture *picture)
{
    char words[80];

    for (size_t i = 0; i < picture->model->cluster_count; i++) {
        fprintf(picture->out,
                "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" rx=\"12\" "
                "fill=\"#f4f6f8\" stroke=\"#889\"/>\n",
                picture->box_x[i], picture->box_y[i], picture->box_width[i], BOX_HEIGHT);
        snprintf(words, sizeof(words), "cluster %s", picture->model->clusters[i]);
        text(picture, picture->box_x[i] + 14, picture->box_y[i] + 24, 15, "start", words);
    }
}

static void draw(const struct picture *picture, const struct check_report *report)
{
    char words[160];

    fprintf(picture->out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
            "font-family=\"sans-serif\" fill=\"#223\">\n<rect width=\"100%%\" height=\"100%%\" "
            "fill=\"white\"/>\n",
            picture->width, picture->height);
    snprintf(words, sizeof(words),
             "%d switches, %d end nodes, %lu of %lu pairs reachable; a link "
             "carries at most %lu pairs (red)",
             picture->model->switch_count, picture->model->host_count, report->reachable,
             report->pairs, report->max_load);
    text(picture, MARGIN, 34, 14, "start", words);
    draw_boxes(picture);
    for (size_t i = 0; i < picture->model->link_count; i++) {
        draw_link(picture, i);
    }
    for (int i = 0; i < picture->model->switch_count; i++) {
        struct place at = picture->switches[i];

        if (picture->model->switches[i]->hosts > 0) {
            draw_hosts(picture, i);
        }
        fprintf(picture->out,
                "<rect x=\"%.1f\" y=\"%.1f\" width=\"64\" height=\"28\" rx=\"5\" "
                "fill=\"#dfe7f3\" stroke=\"#345\"/>\n",
                at.x - 32, at.y - 14);
        snprintf(words, sizeof(words), "%.10s", picture->model->switches[i]->desc);
        text(picture, at.x, at.y + 4, 11, "middle", words);
    }
    fputs("</svg>\n", picture->out);
}

int check_picture(const struct check_model *model, const struct check_report *report,
                  const char *path)
{
    struct picture picture = {.model = model, .max_load = report->max_load};
    int status = 0;

    picture.switches = calloc(model->switch_count + 1, sizeof(struct place));
    picture.box_x = calloc(model->cluster_count + 1, sizeof(double));
    picture.box_y = calloc(model->cluster_count + 1, sizeof(double));
    picture.box_width = calloc(model->cluster_count + 1, sizeof(double));
    if (!picture.switches || !picture.box_x || !picture.box_y || !picture.box_width) {
        status = -ENOMEM;
    } else if ((picture.out = fopen(path, "we")) == NULL) {
        status = -errno;
    }
    if (status == 0) {
        place(&picture);
        draw(&picture, report);
        if (fclose(picture.out) != 0) {
            status = -errno;
        }
    }
    free(picture.switches);
    free(picture.box_x);
    free(picture.box_y);
    free(picture.box_width);
    return status;
}

/*
 * Heat maps as pictures, SVG and PNG, drawn by cairo.
 */
#include "grid.h"
#include "names.h"
#include "show.h"

#include <cairo-svg.h>
#include <cairo.h>
#include <errno.h>
#include <math.h>
#include <string.h>

enum {
    MATRIX_SIZE = 720,
    MAX_CELL = 48,
    MARGIN = 24,
    TITLE_HEIGHT = 56,
    LEGEND_WIDTH = 18,
    LEGEND_GAP = 28,
    LEGEND_ROOM = 130,
    AXIS_ROOM = 26,
    FONT = 12,
    MAX_NAME = 24, /* characters */
    SUM_GAP = 6,
    SUM_SIZE = 44, /* of the bars of sums */
    MIN_WIDTH = 560,
    FOOT = 30,
    MAX_RECTANGLES = 128,
    NOTHING = 0xf2 /* grey */
};

struct picture {
    const struct cm_show *show;
    cairo_t *cairo;
    struct cm_grid grid;
    char **names;                        /* short forms */
    double cell, side, left, top, label; /* in points */
    double width, height;
};

/* viridis: even steps to the eye, also in grey and to the colour-blind. */
static void color_of(double shade, double rgb[3])
{
    static const double anchors[][3] = {
        {0.267, 0.005, 0.329}, {0.283, 0.141, 0.458}, {0.254, 0.265, 0.530}, {0.207, 0.372, 0.553},
        {0.164, 0.471, 0.558}, {0.128, 0.567, 0.551}, {0.135, 0.659, 0.518}, {0.267, 0.749, 0.441},
        {0.478, 0.821, 0.318}, {0.741, 0.873, 0.150}, {0.993, 0.906, 0.144}};
    double at = CLAMP(shade, 0, 1) * (G_N_ELEMENTS(anchors) - 1);
    size_t low = MIN((size_t)at, G_N_ELEMENTS(anchors) - 2);
    int i;

    for (i = 0; i < 3; i++) {
        rgb[i] = anchors[low][i] + (at - (double)low) * (anchors[low + 1][i] - anchors[low][i]);
    }
}

static double text_width(cairo_t *cairo, const char *text)
{
    cairo_text_extents_t extents;

    cairo_text_extents(cairo, text, &extents);
    return extents.x_advance;
}

static void put_text(cairo_t *cairo, double x, double y, const char *text)
{
    cairo_move_to(cairo, x, y);
    cairo_show_text(cairo, text);
}

static bool has_sums(const struct picture *picture)
{
    return picture->show->count < CM_COUNT_MEAN;
}

static void layout(struct picture *picture)
{
    double sums = has_sums(picture) ? SUM_GAP + SUM_SIZE : 0;
    guint i;

    picture->cell = MIN((double)MATRIX_SIZE / MAX(picture->grid.size, 1), MAX_CELL);
    picture->side = picture->cell * picture->grid.size;
    for (i = 0; picture->names[i] != NULL; i++) {
        picture->label = MAX(picture->label, text_width(picture->cairo, picture->names[i]));
    }
    picture->left = MARGIN + AXIS_ROOM + picture->label + 8;
    picture->top = MARGIN + TITLE_HEIGHT + AXIS_ROOM + picture->label + 8;
    picture->width =
        MAX(picture->left + picture->side + sums + LEGEND_GAP + LEGEND_ROOM + MARGIN, MIN_WIDTH);
    picture->height = picture->top + MAX(picture->side, 120) + sums + FOOT + MARGIN;
}

static void set_color(struct picture *picture, double shade)
{
    double rgb[3] = {NOTHING / 255.0, NOTHING / 255.0, NOTHING / 255.0};

    if (shade >= 0) {
        color_of(shade, rgb);
    }
    cairo_set_source_rgb(picture->cairo, rgb[0], rgb[1], rgb[2]);
}

static void put_rectangles(struct picture *picture)
{
    guint size = picture->grid.size, i;

    for (i = 0; i < size * size; i++) {
        set_color(picture, cm_grid_shade(&picture->grid, picture->grid.values[i]));
        cairo_rectangle(picture->cairo, picture->left + i % size * picture->cell,
                        picture->top + i / size * picture->cell, picture->cell, picture->cell);
        cairo_fill(picture->cairo);
    }
}

/* One pixel for each cell, painted large: a million rectangles would be a file of 100 MB. */
static void put_image(struct picture *picture)
{
    double rgb[3];
    cairo_surface_t *image = cairo_image_surface_create(
        CAIRO_FORMAT_RGB24, (int)MAX(picture->grid.size, 1), (int)MAX(picture->grid.size, 1));
    int stride = cairo_image_surface_get_stride(image);
    uint8_t *data = cairo_image_surface_get_data(image);
    guint row, column;

    cairo_surface_flush(image);
    for (row = 0; row < picture->grid.size; row++) {
        for (column = 0; column < picture->grid.size; column++) {
            double shade = cm_grid_shade(
                &picture->grid, picture->grid.values[(gsize)row * picture->grid.size + column]);
            uint32_t pixel = NOTHING << 16 | NOTHING << 8 | NOTHING;

            if (shade >= 0) {
                color_of(shade, rgb);
                pixel = (uint32_t)lround(rgb[0] * 255) << 16 | (uint32_t)lround(rgb[1] * 255) << 8 |
                        (uint32_t)lround(rgb[2] * 255);
            }
            memcpy(data + row * (guint)stride + column * 4, &pixel, 4);
        }
    }
    cairo_surface_mark_dirty(image);
    cairo_save(picture->cairo);
    cairo_translate(picture->cairo, picture->left, picture->top);
    cairo_scale(picture->cairo, picture->cell, picture->cell);
    cairo_set_source_surface(picture->cairo, image, 0, 0);
    cairo_pattern_set_filter(cairo_get_source(picture->cairo), CAIRO_FILTER_NEAREST);
    cairo_paint(picture->cairo);
    cairo_restore(picture->cairo);
    cairo_surface_destroy(image);
}

static void put_cells(struct picture *picture)
{
    if (picture->grid.size <= MAX_RECTANGLES) {
        put_rectangles(picture);
    } else {
        put_image(picture);
    }
}

/* The sums of the rows that a row of the picture stands for; the largest of all. */
static double *join_sums(const struct picture *picture, const struct cm_counts *sums, double *max_p)
{
    double *joined = g_new0(double, picture->grid.size + 1);
    guint i;

    *max_p = 0;
    for (i = 0; i < picture->show->matrix->names->len; i++) {
        double *sum = &joined[i / picture->grid.join];

        *sum = MAX(*sum, cm_cell_value(&sums[i], picture->show->count));
        *max_p = MAX(*max_p, *sum);
    }
    return joined;
}

/* Bars beside the rows show sent bytes, bars below the columns show received bytes. */
static void put_sums(struct picture *picture)
{
    const struct cm_matrix *matrix = picture->show->matrix;
    double max_sent, max_received, at = picture->side + SUM_GAP;
    double *sent = join_sums(picture, matrix->sent, &max_sent);
    double *received = join_sums(picture, matrix->received, &max_received);
    double thick = MAX(picture->cell - (picture->cell >= 4 ? 1 : 0), 1);
    char *text;
    guint i;

    cairo_set_source_rgb(picture->cairo, 0.35, 0.45, 0.6);
    for (i = 0; i < picture->grid.size; i++) {
        cairo_rectangle(picture->cairo, picture->left + at, picture->top + i * picture->cell,
                        max_sent > 0 ? sent[i] / max_sent * SUM_SIZE : 0, thick);
        cairo_rectangle(picture->cairo, picture->left + i * picture->cell, picture->top + at, thick,
                        max_received > 0 ? received[i] / max_received * SUM_SIZE : 0);
    }
    cairo_fill(picture->cairo);
    cairo_set_source_rgb(picture->cairo, 0.35, 0.35, 0.35);
    text = cm_human(max_sent, picture->show->count);
    put_text(picture->cairo, picture->left + at, picture->top - 20, "sent, up to");
    put_text(picture->cairo, picture->left + at, picture->top - 6, text);
    g_free(text);
    text = cm_human(max_received, picture->show->count);
    put_text(picture->cairo, picture->left + at, picture->top + at + 12, "received,");
    put_text(picture->cairo, picture->left + at, picture->top + at + 26, "up to");
    put_text(picture->cairo, picture->left + at, picture->top + at + 40, text);
    g_free(text);
    g_free(sent);
    g_free(received);
}

static void put_frame(struct picture *picture)
{
    cairo_t *cairo = picture->cairo;
    guint i;

    if (picture->cell >= 12) { /* white lines between cells, unless the cells are too small */
        cairo_set_source_rgb(cairo, 1, 1, 1);
        cairo_set_line_width(cairo, 1);
        for (i = 1; i < picture->grid.size; i++) {
            cairo_move_to(cairo, picture->left + i * picture->cell, picture->top);
            cairo_rel_line_to(cairo, 0, picture->side);
            cairo_move_to(cairo, picture->left, picture->top + i * picture->cell);
            cairo_rel_line_to(cairo, picture->side, 0);
        }
        cairo_stroke(cairo);
    }
    cairo_set_source_rgb(cairo, 0.4, 0.4, 0.4);
    cairo_set_line_width(cairo, 1);
    cairo_rectangle(cairo, picture->left, picture->top, picture->side, picture->side);
    cairo_stroke(cairo);
}

static void put_labels(struct picture *picture)
{
    guint step = MAX((guint)ceil((FONT + 2) / picture->cell), 1), i;
    cairo_t *cairo = picture->cairo;
    static const guint round_steps[] = {1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500};

    for (i = 0; i < G_N_ELEMENTS(round_steps); i++) {
        if (round_steps[i] >= step) {
            step = round_steps[i];
            break;
        }
    }
    cairo_set_source_rgb(cairo, 0.15, 0.15, 0.15);
    for (i = 0; i < picture->grid.size; i += step) {
        const char *text = picture->names[i * picture->grid.join];
        double middle = (i + 0.5) * picture->cell;

        put_text(cairo, picture->left - 6 - text_width(cairo, text),
                 picture->top + middle + FONT * 0.35, text);
        cairo_save(cairo);
        if (g_utf8_strlen(text, -1) <= 3) { /* a rank fits horizontally, a name is rotated */
            put_text(cairo, picture->left + middle - text_width(cairo, text) / 2, picture->top - 6,
                     text);
        } else {
            cairo_move_to(cairo, picture->left + middle + FONT * 0.35, picture->top - 6);
            cairo_rotate(cairo, -G_PI / 2);
            cairo_show_text(cairo, text);
        }
        cairo_restore(cairo);
    }
}

static void put_axes(struct picture *picture)
{
    cairo_t *cairo = picture->cairo;
    const char *by = cm_by_title(picture->show->matrix->by);
    char *sender = g_strdup_printf("sender (%s)", by);
    char *receiver = g_strdup_printf("receiver (%s)", by);

    cairo_set_source_rgb(cairo, 0, 0, 0);
    put_text(cairo, picture->left + MAX(picture->side - text_width(cairo, receiver), 0) / 2,
             MARGIN + TITLE_HEIGHT + 10, receiver);
    cairo_save(cairo);
    cairo_move_to(cairo, MARGIN + FONT,
                  picture->top + (picture->side + text_width(cairo, sender)) / 2);
    cairo_rotate(cairo, -G_PI / 2);
    cairo_show_text(cairo, sender);
    cairo_restore(cairo);
    g_free(sender);
    g_free(receiver);
}

static void put_title(struct picture *picture)
{
    cairo_t *cairo = picture->cairo;
    const struct cm_counts *totals = &picture->show->matrix->totals;
    char *wire = cm_human((double)totals->wire, CM_COUNT_WIRE);
    char *payload = cm_human((double)totals->payload, CM_COUNT_PAYLOAD);
    char *packets = cm_human((double)totals->packets, CM_COUNT_PACKETS);
    char *line =
        g_strdup_printf("%s in %s packets, %s of it payload; %u %ss", wire, packets, payload,
                        picture->show->matrix->names->len, cm_by_title(picture->show->matrix->by));

    cairo_set_source_rgb(cairo, 0, 0, 0);
    cairo_select_font_face(cairo, "sans-serif", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_BOLD);
    cairo_set_font_size(cairo, 17);
    put_text(cairo, MARGIN, MARGIN + 16, picture->show->title);
    cairo_select_font_face(cairo, "sans-serif", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(cairo, FONT);
    cairo_set_source_rgb(cairo, 0.35, 0.35, 0.35);
    put_text(cairo, MARGIN, MARGIN + 36, line);
    g_free(wire);
    g_free(payload);
    g_free(packets);
    g_free(line);
}

static void put_legend(struct picture *picture)
{
    cairo_t *cairo = picture->cairo;
    double x =
        picture->left + picture->side + LEGEND_GAP + (has_sums(picture) ? SUM_GAP + SUM_SIZE : 0);
    double height = MAX(picture->side, 120);
    char *note = cm_grid_note(&picture->grid, picture->show);
    int i;

    for (i = 0; i < (int)height; i++) {
        set_color(picture,
                  cm_grid_shade(&picture->grid, cm_grid_value(&picture->grid, 1 - i / height)));
        cairo_rectangle(cairo, x, picture->top + i, LEGEND_WIDTH, 1.5);
        cairo_fill(cairo);
    }
    cairo_set_source_rgb(cairo, 0.15, 0.15, 0.15);
    for (i = 0; i <= 4; i++) {
        char *text = cm_human(cm_grid_value(&picture->grid, i / 4.0), picture->show->count);

        put_text(cairo, x + LEGEND_WIDTH + 6, picture->top + height * (1 - i / 4.0) + FONT * 0.35,
                 text);
        g_free(text);
    }
    put_text(cairo, x, picture->top - 32, cm_count_title(picture->show->count));
    put_text(cairo, x, picture->top - 18, picture->show->log_scale ? "log scale" : "linear scale");
    cairo_set_source_rgb(cairo, 0.95, 0.95, 0.95);
    cairo_rectangle(cairo, x, picture->top + height + 12, LEGEND_WIDTH, 12);
    cairo_fill(cairo);
    cairo_set_source_rgb(cairo, 0.15, 0.15, 0.15);
    put_text(cairo, x + LEGEND_WIDTH + 6, picture->top + height + 22, "nothing");
    if (note != NULL) {
        put_text(cairo, MARGIN, picture->height - 12, note);
    }
    g_free(note);
}

static void use_font(cairo_t *cairo)
{
    cairo_select_font_face(cairo, "sans-serif", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(cairo, FONT);
}

/* A surface needs its size when it is made. So names are measured on a small surface first. */
static void measure(struct picture *picture)
{
    cairo_surface_t *surface = cairo_image_surface_create(CAIRO_FORMAT_RGB24, 8, 8);

    picture->cairo = cairo_create(surface);
    use_font(picture->cairo);
    picture->grid = cm_grid_make(picture->show, MATRIX_SIZE);
    picture->names = cm_names_shorten(picture->show->matrix->names, MAX_NAME);
    layout(picture);
    cairo_destroy(picture->cairo);
    cairo_surface_destroy(surface);
}

static void finish(struct picture *picture)
{
    cm_grid_free(&picture->grid);
    g_strfreev(picture->names);
}

static bool draw(struct picture *picture, cairo_surface_t *surface)
{
    cairo_t *cairo = picture->cairo = cairo_create(surface);
    bool ok;

    cairo_set_source_rgb(cairo, 1, 1, 1);
    cairo_paint(cairo);
    put_title(picture);
    use_font(cairo);
    put_cells(picture);
    put_frame(picture);
    if (has_sums(picture)) {
        put_sums(picture);
    }
    put_labels(picture);
    put_axes(picture);
    put_legend(picture);
    cairo_show_page(cairo);
    ok = cairo_status(cairo) == CAIRO_STATUS_SUCCESS;
    cairo_destroy(cairo);
    return ok;
}

/* ---- files ----------------------------------------------------------------------------------- */

static cairo_status_t write_to(void *out, const unsigned char *data, unsigned int len)
{
    return fwrite(data, 1, len, out) == len ? CAIRO_STATUS_SUCCESS : CAIRO_STATUS_WRITE_ERROR;
}

static FILE *open_out(const char *file)
{
    return strcmp(file, "-") == 0 ? stdout : fopen(file, "we");
}

static bool close_out(FILE *out, bool ok)
{
    int error = errno;

    if ((out == stdout ? fflush(out) : fclose(out)) != 0) {
        return false;
    }
    errno = error;
    return ok;
}

bool cm_show_svg(const struct cm_show *show, const char *file)
{
    struct picture picture = {.show = show};
    FILE *out = open_out(file);
    cairo_surface_t *surface;
    bool ok;

    if (out == NULL) {
        return false;
    }
    measure(&picture);
    surface = cairo_svg_surface_create_for_stream(write_to, out, picture.width, picture.height);
    ok = draw(&picture, surface);
    cairo_surface_finish(surface);
    ok &= cairo_surface_status(surface) == CAIRO_STATUS_SUCCESS;
    cairo_surface_destroy(surface);
    finish(&picture);
    return close_out(out, ok);
}

bool cm_show_png(const struct cm_show *show, const char *file)
{
    struct picture picture = {.show = show};
    FILE *out = open_out(file);
    cairo_surface_t *surface;
    bool ok;

    if (out == NULL) {
        return false;
    }
    measure(&picture);
    surface =
        cairo_image_surface_create(CAIRO_FORMAT_RGB24, (int)picture.width, (int)picture.height);
    ok = draw(&picture, surface) &&
         cairo_surface_write_to_png_stream(surface, write_to, out) == CAIRO_STATUS_SUCCESS;
    cairo_surface_destroy(surface);
    finish(&picture);
    return close_out(out, ok);
}

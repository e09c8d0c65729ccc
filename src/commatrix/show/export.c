/*
 * CSV and JSON. Cells are written one after the other, however many there are; docs/commatrix.md
 * describes both.
 */
#include "show.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>

enum { JSON_VERSION = 1 };

/* RFC 4180: quotes within quotes are doubled. */
static void put_csv(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text != '\0'; text++) {
        if (*text == '"') {
            fputc('"', out);
        }
        fputc(*text, out);
    }
    fputc('"', out);
}

static void put_csv_cells(const struct cm_show *show, FILE *out, const GArray *cells,
                          const struct cm_slice *slice)
{
    GPtrArray *names = show->matrix->names;
    guint i;

    for (i = 0; i < cells->len; i++) {
        const struct cm_cell *cell = &g_array_index(cells, struct cm_cell, i);
        const struct cm_counts *counts = &cell->counts;

        if (slice != NULL) {
            fprintf(out, "%.9f,%.9f,", (double)slice->begin_ns * 1e-9,
                    (double)slice->end_ns * 1e-9);
        }
        put_csv(out, g_ptr_array_index(names, cell->from));
        fputc(',', out);
        put_csv(out, g_ptr_array_index(names, cell->to));
        fprintf(out,
                ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%.1f,%" PRIu32 ",%" PRIu32 "\n",
                counts->wire, counts->payload, counts->packets, counts->messages,
                cm_cell_value(counts, CM_COUNT_MEAN), counts->largest, counts->lost);
    }
}

bool cm_show_csv(const struct cm_show *show, FILE *out)
{
    const GArray *slices = show->matrix->slices;
    bool windows = cm_show_has_windows(show);
    guint i;

    fprintf(out,
            "%sfrom,to,wire_bytes,payload_bytes,packets,messages,mean_message,largest_message,"
            "lost\n",
            windows ? "begin,end," : "");
    for (i = 0; windows && i < slices->len; i++) {
        const struct cm_slice *slice = &g_array_index(slices, struct cm_slice, i);

        put_csv_cells(show, out, slice->cells, slice);
    }
    if (!windows) {
        put_csv_cells(show, out, show->matrix->cells, NULL);
    }
    return fflush(out) == 0;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void add_number(struct json_object *object, const char *name, uint64_t value)
{
    json_object_object_add(object, name, json_object_new_uint64(value));
}

static void add_text(struct json_object *object, const char *name, const char *text)
{
    json_object_object_add(object, name, text != NULL ? json_object_new_string(text) : NULL);
}

static void add_seconds(struct json_object *object, const char *name, uint64_t ns)
{
    char text[40];

    g_snprintf(text, sizeof(text), "%" PRIu64 ".%09" PRIu64, ns / 1000000000, ns % 1000000000);
    json_object_object_add(object, name, json_object_new_double_s((double)ns * 1e-9, text));
}

static void put_member(FILE *out, const char *name, struct json_object *value)
{
    fprintf(out, ",\n\"%s\": %s", name,
            json_object_to_json_string_ext(value, JSON_C_TO_STRING_SPACED));
    json_object_put(value);
}

static struct json_object *totals(const struct cm_show *show)
{
    const struct cm_counts *counts = &show->matrix->totals;
    struct json_object *object = json_object_new_object();

    add_number(object, "wire_bytes", counts->wire);
    add_number(object, "payload_bytes", counts->payload);
    add_number(object, "packets", counts->packets);
    add_number(object, "messages", counts->messages);
    add_number(object, "largest_message", counts->largest);
    return object;
}

static struct json_object *excluded(const struct cm_show *show)
{
    struct json_object *object = json_object_new_object(), *kind;
    int i;

    for (i = 0; i < CM_NUM_KINDS; i++) {
        kind = json_object_new_object();
        add_number(kind, "packets", show->traffic->excluded[i].packets);
        add_number(kind, "wire_bytes", show->traffic->excluded[i].wire);
        json_object_object_add(object, cm_kind_names[i], kind);
    }
    return object;
}

static struct json_object *capture(const struct cm_show *show)
{
    const struct cm_capture_counts *counts = &show->traffic->capture;
    struct json_object *object = json_object_new_object();

    add_number(object, "packets", counts->packets);
    add_number(object, "wire_bytes", counts->wire);
    add_number(object, "duplicates", counts->duplicates);
    add_number(object, "retransmissions", counts->retransmissions);
    add_number(object, "lost", counts->lost);
    add_number(object, "cut", counts->cut);
    add_number(object, "cut_headers", counts->cut_headers);
    add_number(object, "dropped", show->dropped);
    json_object_object_add(object, "damaged", json_object_new_boolean(show->damaged));
    add_seconds(object, "begin", counts->first_ns);
    add_seconds(object, "end", counts->last_ns);
    return object;
}

static struct json_object *names(const struct cm_show *show)
{
    struct json_object *array = json_object_new_array();
    guint i;

    for (i = 0; i < show->matrix->names->len; i++) {
        json_object_array_add(array,
                              json_object_new_string(g_ptr_array_index(show->matrix->names, i)));
    }
    return array;
}

static struct json_object *phases(const struct cm_show *show)
{
    struct json_object *array = json_object_new_array(), *object;
    guint i;

    for (i = 0; i < show->matrix->phases->len; i++) {
        const struct cm_phase *phase = &g_array_index(show->matrix->phases, struct cm_phase, i);

        object = json_object_new_object();
        add_seconds(object, "begin", phase->begin_ns);
        add_seconds(object, "end", phase->end_ns);
        add_number(object, "wire_bytes", phase->bytes);
        add_number(object, "packets", phase->packets);
        json_object_array_add(array, object);
    }
    return array;
}

/* As JSON writes it, quotes and all. */
static char **quoted_names(const struct cm_show *show)
{
    guint n = show->matrix->names->len, i;
    char **quoted = g_new0(char *, n + 1);

    for (i = 0; i < n; i++) {
        struct json_object *text =
            json_object_new_string(g_ptr_array_index(show->matrix->names, i));

        quoted[i] = g_strdup(json_object_to_json_string(text));
        json_object_put(text);
    }
    return quoted;
}

static void put_cells(FILE *out, const GArray *cells, char **quoted)
{
    guint i;

    fputc('[', out);
    for (i = 0; i < cells->len; i++) {
        const struct cm_cell *cell = &g_array_index(cells, struct cm_cell, i);
        const struct cm_counts *counts = &cell->counts;

        fprintf(out,
                "%s\n{\"from\": %s, \"to\": %s, \"wire_bytes\": %" PRIu64
                ", \"payload_bytes\": %" PRIu64 ", \"packets\": %" PRIu64 ", \"messages\": %" PRIu64
                ", \"mean_message\": %.1f, \"largest_message\": %" PRIu32 ", \"lost\": %" PRIu32
                "}",
                i > 0 ? "," : "", quoted[cell->from], quoted[cell->to], counts->wire,
                counts->payload, counts->packets, counts->messages,
                cm_cell_value(counts, CM_COUNT_MEAN), counts->largest, counts->lost);
    }
    fputc(']', out);
}

static void put_windows(const struct cm_show *show, FILE *out, char **quoted)
{
    const GArray *slices = show->matrix->slices;
    guint i;

    fprintf(out, ",\n\"windows\": [");
    for (i = 0; i < slices->len; i++) {
        const struct cm_slice *slice = &g_array_index(slices, struct cm_slice, i);

        fprintf(out, "%s\n{\"begin\": %.9f, \"end\": %.9f, \"cells\": ", i > 0 ? "," : "",
                (double)slice->begin_ns * 1e-9, (double)slice->end_ns * 1e-9);
        put_cells(out, slice->cells, quoted);
        fputc('}', out);
    }
    fputc(']', out);
}

bool cm_show_json(const struct cm_show *show, FILE *out)
{
    char **quoted = quoted_names(show);
    struct json_object *ranks;

    fprintf(out, "{\"version\": %d,\n\"by\": \"%s\"", JSON_VERSION, cm_by_names[show->matrix->by]);
    ranks = json_object_new_object();
    add_text(ranks, "mpi", show->matrix->mpi);
    add_text(ranks, "note", show->matrix->note);
    put_member(out, "ranks", ranks);
    put_member(out, "names", names(show));
    fprintf(out, ",\n\"cells\": ");
    put_cells(out, show->matrix->cells, quoted);
    put_member(out, "totals", totals(show));
    put_member(out, "excluded", excluded(show));
    put_member(out, "capture", capture(show));
    put_member(out, "phases", phases(show));
    if (cm_show_has_windows(show)) {
        put_windows(show, out, quoted);
    }
    fprintf(out, "}\n");
    g_strfreev(quoted);
    return fflush(out) == 0;
}

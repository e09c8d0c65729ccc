/*
 * One page that needs nothing else: page.html with the matrix in it.
 *
 * Cells are arrays of numbers in the order of `fields`; windows have the same, without those that
 * cannot be added up.
 */
#include "show.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <string.h>

#define DATA_MARK "/*DATA*/null"

extern const char cm_page_html[];

static void put_text(FILE *out, const char *name, const char *text)
{
    struct json_object *value = json_object_new_string(text);

    /* json-c writes / as \/, so no text can end the script. */
    fprintf(out, ",\n\"%s\": %s", name, json_object_to_json_string(value));
    json_object_put(value);
}

static void put_cells(FILE *out, const GArray *cells)
{
    guint i;

    fputc('[', out);
    for (i = 0; i < cells->len; i++) {
        const struct cm_cell *cell = &g_array_index(cells, struct cm_cell, i);

        fprintf(out, "%s[%u,%u,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu32 "]",
                i > 0 ? "," : "", cell->from, cell->to, cell->counts.wire, cell->counts.payload,
                cell->counts.packets, cell->counts.messages, cell->counts.largest);
    }
    fputc(']', out);
}

static void put_names(const struct cm_show *show, FILE *out)
{
    guint i;

    fprintf(out, ",\n\"names\": [");
    for (i = 0; i < show->matrix->names->len; i++) {
        struct json_object *name =
            json_object_new_string(g_ptr_array_index(show->matrix->names, i));

        fprintf(out, "%s%s", i > 0 ? "," : "", json_object_to_json_string(name));
        json_object_put(name);
    }
    fputc(']', out);
}

static void put_windows(const struct cm_show *show, FILE *out)
{
    guint i;

    fprintf(out, ",\n\"windows\": [");
    for (i = 0; i < show->matrix->slices->len; i++) {
        const struct cm_slice *slice = &g_array_index(show->matrix->slices, struct cm_slice, i);

        fprintf(out, "%s\n{\"begin\": %.9f, \"end\": %.9f, \"cells\": ", i > 0 ? "," : "",
                (double)slice->begin_ns * 1e-9, (double)slice->end_ns * 1e-9);
        put_cells(out, slice->cells);
        fputc('}', out);
    }
    fprintf(out, "],\n\"phases\": [");
    for (i = 0; i < show->matrix->phases->len; i++) {
        const struct cm_phase *phase = &g_array_index(show->matrix->phases, struct cm_phase, i);

        fprintf(out, "%s[%.9f,%.9f]", i > 0 ? "," : "", (double)phase->begin_ns * 1e-9,
                (double)phase->end_ns * 1e-9);
    }
    fputc(']', out);
}

static void put_data(const struct cm_show *show, FILE *out)
{
    const struct cm_capture_counts *capture = &show->traffic->capture;

    fprintf(out, "{\"count\": \"%s\", \"log\": %s", cm_count_names[show->count],
            show->log_scale ? "true" : "false");
    put_text(out, "title", show->title);
    put_text(out, "by", cm_by_title(show->matrix->by));
    put_text(out, "note", show->matrix->note != NULL ? show->matrix->note : "");
    put_text(out, "mpi", show->matrix->mpi != NULL ? show->matrix->mpi : "");
    fprintf(out,
            ",\n\"capture\": {\"packets\": %" PRIu64 ", \"lost\": %" PRIu64
            ", \"duplicates\": %" PRIu64 ", \"seconds\": %.9f}",
            capture->packets, capture->lost, capture->duplicates,
            (double)(capture->last_ns - capture->first_ns) * 1e-9);
    put_names(show, out);
    fprintf(out, ",\n\"cells\": ");
    put_cells(out, show->matrix->cells);
    put_windows(show, out);
    fputc('}', out);
}

bool cm_show_html(const struct cm_show *show, FILE *out)
{
    const char *mark = strstr(cm_page_html, DATA_MARK);

    fwrite(cm_page_html, 1, (size_t)(mark - cm_page_html), out);
    put_data(show, out);
    fputs(mark + strlen(DATA_MARK), out);
    return fflush(out) == 0 && !ferror(out);
}

/*
 * A page without other files: page.html with the matrix inside.
 *
 * The values of all cells are arrays of little-endian numbers in base64, one array for each field:
 * a browser reads a million cells so in a fraction of a second.
 */
#include "names.h"
#include "show.h"

#include <endian.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <string.h>

#define DATA_MARK    "/*DATA*/null"
#define REFRESH_MARK "<!--REFRESH-->"

enum { MAX_NAME = 24, TIME_BINS = 400 };

extern const char cm_page_html[];

static void put_string(FILE *out, const char *text)
{
    struct json_object *value = json_object_new_string(text);

    /* json-c writes / as \/, so no text can end the script. */
    fputs(json_object_to_json_string(value), out);
    json_object_put(value);
}

static void put_text(FILE *out, const char *name, const char *text)
{
    fprintf(out, ",\n\"%s\": ", name);
    put_string(out, text);
}

static void put_array(FILE *out, const char *name, const GArray *words)
{
    char *text = g_base64_encode((const guchar *)words->data, words->len * sizeof(uint32_t));

    fprintf(out, "\"%s\": \"%s\"", name, text);
    g_free(text);
}

/* ---- fields of cells ------------------------------------------------------------------------- */

enum field {
    FROM,
    TO,
    WIRE,
    PAYLOAD,
    PACKETS,
    MESSAGES,
    LARGEST,
    LOST,
    NUM_CELL_FIELDS,
    AGAIN = NUM_CELL_FIELDS,
    CONGESTED,
    CNPS,
    ANSWER_P50,
    ANSWER_P99,
    NUM_FIELDS
};

static const char *const field_names[NUM_FIELDS] = {
    "from", "to",    "wire", "payload", "packets", "messages", "largest",
    "lost", "again", "ecn",  "cnps",    "p50",     "p99"};

static float field_value(const struct cm_cell *cell, enum field field)
{
    const struct cm_signs *signs = cell->signs;

    switch (field) {
    case WIRE:
        return (float)cell->counts.wire;
    case PAYLOAD:
        return (float)cell->counts.payload;
    case PACKETS:
        return (float)cell->counts.packets;
    case MESSAGES:
        return (float)cm_counts_messages(&cell->counts);
    case LARGEST:
        return (float)cell->counts.largest;
    case LOST:
        return (float)cell->counts.lost;
    case AGAIN:
        return signs != NULL ? (float)signs->retransmissions : 0;
    case CONGESTED:
        return signs != NULL ? (float)signs->congested : 0;
    case CNPS:
        return signs != NULL ? (float)signs->cnps : 0;
    case ANSWER_P50:
        return signs != NULL ? (float)cm_delay_percentile(signs, 50) : 0;
    case ANSWER_P99:
        return signs != NULL ? (float)cm_delay_percentile(signs, 99) : 0;
    default:
        return 0;
    }
}

static uint32_t field_word(const struct cm_cell *cell, enum field field)
{
    float value = field_value(cell, field);
    uint32_t word;

    memcpy(&word, &value, 4);
    return htole32(word);
}

/* Rows and columns are numbers of 16 bits if that is enough. */
static void put_side(FILE *out, const GArray *cells, enum field field, guint names)
{
    GArray *numbers = g_array_new(FALSE, FALSE, names <= UINT16_MAX ? 2 : 4);
    char *text;
    guint i;

    for (i = 0; i < cells->len; i++) {
        const struct cm_cell *cell = &g_array_index(cells, struct cm_cell, i);
        uint32_t number = field == FROM ? cell->from : cell->to;
        uint16_t narrow = htole16((uint16_t)number);

        number = htole32(number);
        g_array_append_vals(numbers, names <= UINT16_MAX ? (void *)&narrow : (void *)&number, 1);
    }
    text = g_base64_encode((const guchar *)numbers->data,
                           numbers->len * g_array_get_element_size(numbers));
    fprintf(out, "%s\"%s\": \"%s\"", field == FROM ? "" : ",\n", field_names[field], text);
    g_free(text);
    g_array_free(numbers, TRUE);
}

static void put_cells(FILE *out, const GArray *cells, enum field num_fields, guint names)
{
    GArray *words = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    bool any;
    int field;
    guint i;

    fputc('{', out);
    put_side(out, cells, FROM, names);
    put_side(out, cells, TO, names);
    for (field = WIRE; field < (int)num_fields; field++) {
        g_array_set_size(words, 0);
        any = field < LOST;
        for (i = 0; i < cells->len; i++) {
            uint32_t word = field_word(&g_array_index(cells, struct cm_cell, i), field);

            any |= word != 0;
            g_array_append_val(words, word);
        }
        if (any) {
            fputs(",\n", out);
            put_array(out, field_names[field], words);
        }
    }
    fputc('}', out);
    g_array_free(words, TRUE);
}

/* ---- names, time ----------------------------------------------------------------------------- */

static void put_names(const struct cm_show *show, FILE *out)
{
    char **shorts = cm_names_shorten(show->matrix->names, MAX_NAME);
    guint i;

    fprintf(out, ",\n\"names\": [");
    for (i = 0; i < show->matrix->names->len; i++) {
        fputs(i > 0 ? "," : "", out);
        put_string(out, g_ptr_array_index(show->matrix->names, i));
    }
    fprintf(out, "],\n\"shorts\": [");
    for (i = 0; i < show->matrix->names->len; i++) {
        fputs(i > 0 ? "," : "", out);
        put_string(out, shorts[i]);
    }
    fputc(']', out);
    g_strfreev(shorts);
}

/* Bytes over time, finer than the windows: [begin, end, bytes] in seconds from the zero. */
static void put_activity(const struct cm_show *show, FILE *out)
{
    const struct cm_activity *activity = &show->traffic->activity;
    uint64_t zero = cm_traffic_zero(show->traffic), bytes, begin, end;
    int last = CM_ACTIVITY_BINS - 1, step, bin, i;
    bool first = true;

    while (last > 0 && activity->bins[last].packets == 0) {
        last--;
    }
    step = last / TIME_BINS + 1;
    fprintf(out, ",\n\"activity\": [");
    for (bin = 0; bin <= last && activity->width_ns != 0; bin += step) {
        for (bytes = 0, i = bin; i < MIN(bin + step, CM_ACTIVITY_BINS); i++) {
            bytes += activity->bins[i].bytes;
        }
        begin = MAX((activity->base + (uint64_t)bin) * activity->width_ns, zero) - zero;
        end = (activity->base + (uint64_t)bin + (uint64_t)step) * activity->width_ns - zero;
        if (bytes > 0) {
            fprintf(out, "%s[%.9f,%.9f,%" PRIu64 "]", first ? "" : ",", (double)begin * 1e-9,
                    (double)end * 1e-9, bytes);
            first = false;
        }
    }
    fputc(']', out);
}

static void put_windows(const struct cm_show *show, FILE *out)
{
    guint i;

    fprintf(out, ",\n\"windows\": [");
    for (i = 0; show->matrix->slices->len > 1 && i < show->matrix->slices->len; i++) {
        const struct cm_slice *slice = &g_array_index(show->matrix->slices, struct cm_slice, i);

        fprintf(out, "%s\n{\"begin\": %.9f, \"end\": %.9f, \"cells\": ", i > 0 ? "," : "",
                (double)slice->begin_ns * 1e-9, (double)slice->end_ns * 1e-9);
        put_cells(out, slice->cells, LOST, show->matrix->names->len);
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

static void put_sizes(const struct cm_show *show, FILE *out)
{
    int bin, kind;

    fprintf(out, ",\n\"sizes\": [");
    for (bin = 0; bin < CM_SIZE_BINS; bin++) {
        fprintf(out, "%s[", bin > 0 ? "," : "");
        for (kind = 0; kind < CM_NUM_MESSAGES; kind++) {
            fprintf(out, "%s%" PRIu64, kind > 0 ? "," : "", show->traffic->sizes[kind][bin]);
        }
        fputc(']', out);
    }
    fputc(']', out);
}

/* ---- the page -------------------------------------------------------------------------------- */

static void put_warnings(const struct cm_show *show, FILE *out)
{
    char **warnings = cm_show_warnings(show);
    int i;

    fprintf(out, ",\n\"warnings\": [");
    for (i = 0; warnings[i] != NULL; i++) {
        fputs(i > 0 ? "," : "", out);
        put_string(out, warnings[i]);
    }
    fputc(']', out);
    g_strfreev(warnings);
}

static void put_data(const struct cm_show *show, FILE *out)
{
    const struct cm_capture_counts *capture = &show->traffic->capture;

    fprintf(out, "{\"count\": \"%s\", \"log\": %s, \"diagonal\": %s, \"live\": %s",
            cm_count_names[show->count], show->log_scale ? "true" : "false",
            show->hide_diagonal ? "false" : "true", show->refresh_s != 0 ? "true" : "false");
    put_text(out, "title", show->title);
    put_text(out, "by", cm_by_title(show->matrix->by));
    put_text(out, "note", show->matrix->note != NULL ? show->matrix->note : "");
    put_text(out, "mpi", show->matrix->mpi != NULL ? show->matrix->mpi : "");
    put_warnings(show, out);
    fprintf(out,
            ",\n\"capture\": {\"packets\": %" PRIu64 ", \"lost\": %" PRIu64
            ", \"duplicates\": %" PRIu64 ", \"seconds\": %.9f}",
            capture->packets, capture->lost, capture->duplicates,
            (double)cm_show_duration(show) * 1e-9);
    put_names(show, out);
    fprintf(out, ",\n\"cells\": ");
    put_cells(out, show->matrix->cells, NUM_FIELDS, show->matrix->names->len);
    put_activity(show, out);
    put_windows(show, out);
    put_sizes(show, out);
    fputc('}', out);
}

bool cm_show_html(const struct cm_show *show, FILE *out)
{
    const char *data = strstr(cm_page_html, DATA_MARK);
    const char *refresh = strstr(cm_page_html, REFRESH_MARK);

    fwrite(cm_page_html, 1, (size_t)(refresh - cm_page_html), out);
    if (show->refresh_s != 0) {
        fprintf(out, "<meta http-equiv=\"refresh\" content=\"%u\">", show->refresh_s);
    }
    refresh += strlen(REFRESH_MARK);
    fwrite(refresh, 1, (size_t)(data - refresh), out);
    put_data(show, out);
    fputs(data + strlen(DATA_MARK), out);
    return fflush(out) == 0 && !ferror(out);
}

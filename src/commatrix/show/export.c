/*
 * CSV and JSON; docs/commatrix.md describes both. Cells are written one by one: the text
 * of a large matrix needs no memory.
 */
#include "show.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <string.h>

enum { JSON_VERSION = 1 };

/* The text of one cell. A large matrix has a million of them, so printf() would take most of the
 * time. */
struct line {
    char *text;
    size_t len, room;
};

static void add_bytes(struct line *line, const char *text, size_t len)
{
    if (line->room - line->len < len) {
        line->room = 2 * line->room + len;
        line->text = g_realloc(line->text, line->room);
    }
    memcpy(line->text + line->len, text, len);
    line->len += len;
}

static void add_string(struct line *line, const char *text)
{
    add_bytes(line, text, strlen(text));
}

static void add_integer(struct line *line, uint64_t value)
{
    char digits[20];
    size_t at = sizeof(digits);

    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value != 0);
    add_bytes(line, digits + at, sizeof(digits) - at);
}

/* Writes the line, and empties it. */
static void put_line(struct line *line, FILE *out)
{
    fwrite(line->text, 1, line->len, out);
    line->len = 0;
}

/* RFC 4180: quotes within quotes are doubled. */
static void add_csv(struct line *line, const char *text)
{
    add_bytes(line, "\"", 1);
    for (; *text != '\0'; text++) {
        add_bytes(line, *text == '"' ? "\"\"" : text, *text == '"' ? 2 : 1);
    }
    add_bytes(line, "\"", 1);
}

/* The columns of a cell. Signs and rates belong to the whole time only. */
enum column {
    WIRE_BYTES,
    PAYLOAD_BYTES,
    PACKETS,
    MESSAGES,
    MEAN_MESSAGE,
    LARGEST_MESSAGE,
    LOST,
    SENDS,
    WRITES,
    READS,
    ATOMICS,
    NUM_COUNTED,
    RETRANSMISSIONS = NUM_COUNTED,
    CONGESTED,
    CNPS,
    ANSWER_P50,
    ANSWER_P99,
    MEAN_RATE,
    PEAK_RATE,
    NUM_COLUMNS
};

static const char *const column_names[NUM_COLUMNS] = {
    "wire_bytes",    "payload_bytes", "packets",
    "messages",      "mean_message",  "largest_message",
    "lost",          "sends",         "writes",
    "reads",         "atomics",       "retransmissions",
    "ecn",           "cnps",          "answer_p50_ns",
    "answer_p99_ns", "mean_rate",     "peak_rate"};

/* Bytes in a second. */
static uint64_t rate(uint64_t bytes, uint64_t ns)
{
    return ns > 0 ? (uint64_t)((double)bytes * 1e9 / (double)ns + 0.5) : 0;
}

static uint64_t sign_value(const struct cm_signs *signs, enum column column)
{
    switch (column) {
    case RETRANSMISSIONS:
        return signs->retransmissions;
    case CONGESTED:
        return signs->congested;
    case CNPS:
        return signs->cnps;
    case ANSWER_P50:
        return cm_delay_percentile(signs, 50);
    default:
        return cm_delay_percentile(signs, 99);
    }
}

/* The mean of messages counts tenths of a byte. */
static uint64_t cell_column(const struct cm_show *show, const struct cm_cell *cell,
                            enum column column)
{
    const struct cm_counts *counts = &cell->counts;

    switch (column) {
    case WIRE_BYTES:
        return counts->wire;
    case PAYLOAD_BYTES:
        return counts->payload;
    case PACKETS:
        return counts->packets;
    case MESSAGES:
        return cm_counts_messages(counts);
    case MEAN_MESSAGE:
        return (uint64_t)(10 * cm_cell_value(counts, CM_COUNT_MEAN) + 0.5);
    case LARGEST_MESSAGE:
        return counts->largest;
    case LOST:
        return counts->lost;
    case SENDS:
        return counts->ended[CM_MESSAGE_SEND];
    case WRITES:
        return counts->ended[CM_MESSAGE_WRITE];
    case READS:
        return counts->ended[CM_MESSAGE_READ];
    case ATOMICS:
        return counts->atomics;
    case MEAN_RATE:
        return rate(counts->wire, cm_show_duration(show));
    case PEAK_RATE:
        return rate(cell->peak, show->traffic->options.window_ns);
    default:
        return cell->signs != NULL ? sign_value(cell->signs, column) : 0;
    }
}

static void add_value(struct line *line, uint64_t value, int column)
{
    if (column == MEAN_MESSAGE) {
        add_integer(line, value / 10);
        add_bytes(line, ".", 1);
        value %= 10;
    }
    add_integer(line, value);
}

static void put_csv_cells(const struct cm_show *show, FILE *out, const GArray *cells,
                          const struct cm_slice *slice)
{
    GPtrArray *names = show->matrix->names;
    struct line line = {0};
    int column;
    guint i;

    for (i = 0; i < cells->len; i++) {
        const struct cm_cell *cell = &g_array_index(cells, struct cm_cell, i);

        if (slice != NULL) {
            fprintf(out, "%.9f,%.9f,", (double)slice->begin_ns * 1e-9,
                    (double)slice->end_ns * 1e-9);
        }
        add_csv(&line, g_ptr_array_index(names, cell->from));
        add_bytes(&line, ",", 1);
        add_csv(&line, g_ptr_array_index(names, cell->to));
        for (column = 0; column < (slice != NULL ? NUM_COUNTED : NUM_COLUMNS); column++) {
            add_bytes(&line, ",", 1);
            add_value(&line, cell_column(show, cell, column), column);
        }
        add_bytes(&line, "\n", 1);
        put_line(&line, out);
    }
    g_free(line.text);
}

bool cm_show_csv(const struct cm_show *show, FILE *out)
{
    const GArray *slices = show->matrix->slices;
    bool windows = cm_show_has_windows(show);
    int column;
    guint i;

    fprintf(out, "%sfrom,to", windows ? "begin,end," : "");
    for (column = 0; column < (windows ? NUM_COUNTED : NUM_COLUMNS); column++) {
        fprintf(out, ",%s", column_names[column]);
    }
    fputc('\n', out);
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

static struct json_object *seconds(uint64_t ns)
{
    char text[40];

    g_snprintf(text, sizeof(text), "%" PRIu64 ".%09" PRIu64, ns / 1000000000, ns % 1000000000);
    return json_object_new_double_s((double)ns * 1e-9, text);
}

static void put_member(FILE *out, const char *name, struct json_object *value)
{
    fprintf(out, ",\n\"%s\": %s", name,
            json_object_to_json_string_ext(value, JSON_C_TO_STRING_SPACED));
    json_object_put(value);
}

static struct json_object *counts_object(const struct cm_counts *counts)
{
    struct json_object *object = json_object_new_object();

    add_number(object, "wire_bytes", counts->wire);
    add_number(object, "payload_bytes", counts->payload);
    add_number(object, "packets", counts->packets);
    add_number(object, "messages", cm_counts_messages(counts));
    add_number(object, "largest_message", counts->largest);
    add_number(object, "sends", counts->ended[CM_MESSAGE_SEND]);
    add_number(object, "writes", counts->ended[CM_MESSAGE_WRITE]);
    add_number(object, "reads", counts->ended[CM_MESSAGE_READ]);
    add_number(object, "atomics", counts->atomics);
    return object;
}

static struct json_object *sums(const struct cm_show *show)
{
    struct json_object *array = json_object_new_array(), *object;
    guint i;

    for (i = 0; i < show->matrix->names->len; i++) {
        object = json_object_new_object();
        add_text(object, "name", g_ptr_array_index(show->matrix->names, i));
        json_object_object_add(object, "sent", counts_object(&show->matrix->sent[i]));
        json_object_object_add(object, "received", counts_object(&show->matrix->received[i]));
        json_object_array_add(array, object);
    }
    return array;
}

/* Messages by size: a bin reaches from `from` bytes up to the next power of two. */
static struct json_object *sizes(const struct cm_show *show)
{
    static const char *const kinds[CM_NUM_MESSAGES] = {"sends", "writes", "reads"};
    struct json_object *array = json_object_new_array(), *object;
    int bin, kind;

    for (bin = 0; bin < CM_SIZE_BINS; bin++) {
        uint64_t sum = 0;

        for (kind = 0; kind < CM_NUM_MESSAGES; kind++) {
            sum += show->traffic->sizes[kind][bin];
        }
        if (sum == 0) {
            continue;
        }
        object = json_object_new_object();
        add_number(object, "from", bin > 0 ? UINT64_C(1) << (bin - 1) : 0);
        for (kind = 0; kind < CM_NUM_MESSAGES; kind++) {
            add_number(object, kinds[kind], show->traffic->sizes[kind][bin]);
        }
        json_object_array_add(array, object);
    }
    return array;
}

static struct json_object *clocks(const struct cm_show *show)
{
    struct json_object *array = json_object_new_array(), *object;
    int i;

    for (i = 0; i < cm_capture_num_files(show->capture); i++) {
        const struct cm_clock *clock = cm_capture_clock(show->capture, i);

        object = json_object_new_object();
        add_text(object, "file", cm_capture_name(show->capture, i));
        json_object_object_add(object, "ahead_ns", json_object_new_int64(clock->ahead_ns));
        add_number(object, "common_packets", clock->common);
        json_object_object_add(object, "corrected", json_object_new_boolean(clock->corrected));
        json_object_array_add(array, object);
    }
    return array;
}

static struct json_object *closed_tunnels(const struct cm_show *show)
{
    struct json_object *object = json_object_new_object();
    int i;

    for (i = 1; i < CM_NUM_CLOSED; i++) {
        if (show->traffic->capture.closed[i] != 0) {
            add_number(object, cm_closed_names[i], show->traffic->capture.closed[i]);
        }
    }
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
    bool empty = counts->packets == 0;

    add_number(object, "packets", counts->packets);
    add_number(object, "wire_bytes", counts->wire);
    add_number(object, "duplicates", counts->duplicates);
    add_number(object, "retransmissions", counts->retransmissions);
    add_number(object, "numbered", counts->numbered);
    json_object_object_add(object, "lost",
                           counts->numbered > 0 ? json_object_new_uint64(counts->lost) : NULL);
    add_number(object, "unsure_datagrams", counts->unsure);
    add_number(object, "restarts", counts->restarts);
    add_number(object, "cut", counts->cut);
    add_number(object, "cut_headers", counts->cut_headers);
    add_number(object, "tunnels", counts->tunnels);
    json_object_object_add(object, "closed_tunnels", closed_tunnels(show));
    add_number(object, "without_time", cm_capture_timeless(show->capture));
    add_number(object, "dropped", show->dropped);
    json_object_object_add(object, "damaged",
                           json_object_new_boolean(cm_capture_damaged(show->capture)));
    json_object_object_add(object, "zero", empty ? NULL : seconds(cm_traffic_zero(show->traffic)));
    json_object_object_add(object, "begin", empty ? NULL : seconds(counts->first_ns));
    json_object_object_add(object, "end", empty ? NULL : seconds(counts->last_ns));
    json_object_object_add(object, "clocks", clocks(show));
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
        json_object_object_add(object, "begin", seconds(phase->begin_ns));
        json_object_object_add(object, "end", seconds(phase->end_ns));
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

static void put_cells(const struct cm_show *show, FILE *out, const GArray *cells, char **quoted,
                      int columns)
{
    struct line line = {0};
    int column;
    guint i;

    fputc('[', out);
    for (i = 0; i < cells->len; i++) {
        const struct cm_cell *cell = &g_array_index(cells, struct cm_cell, i);

        add_string(&line, i > 0 ? ",\n{\"from\": " : "\n{\"from\": ");
        add_string(&line, quoted[cell->from]);
        add_string(&line, ", \"to\": ");
        add_string(&line, quoted[cell->to]);
        for (column = 0; column < columns; column++) {
            uint64_t value = cell_column(show, cell, column);

            if (column >= NUM_COUNTED && value == 0) {
                continue; /* most cells have no sign of trouble */
            }
            add_string(&line, ", \"");
            add_string(&line, column_names[column]);
            add_string(&line, "\": ");
            add_value(&line, value, column);
        }
        add_bytes(&line, "}", 1);
        put_line(&line, out);
    }
    fputc(']', out);
    g_free(line.text);
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
        put_cells(show, out, slice->cells, quoted, NUM_COUNTED);
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
    add_number(ranks, "jobs", show->matrix->jobs);
    add_text(ranks, "note", show->matrix->note);
    put_member(out, "ranks", ranks);
    put_member(out, "names", names(show));
    fprintf(out, ",\n\"cells\": ");
    put_cells(show, out, show->matrix->cells, quoted, NUM_COLUMNS);
    put_member(out, "totals", counts_object(&show->matrix->totals));
    put_member(out, "sums", sums(show));
    put_member(out, "message_sizes", sizes(show));
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

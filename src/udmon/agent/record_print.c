/* The recording as OpenMetrics: samples with timestamps, sorted by series and by time. */
#include "record.h"
#include "../lib/base/chunk.h"
#include "../lib/metric.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct sample {
    int64_t time_ms;
    double value;
};

/* What is read of the saved form. */
struct reader {
    const uint8_t *at, *end;
    struct sample *samples; /* of the current series */
    size_t count, room;
};

static bool reader_get(struct reader *reader, void *data, size_t length)
{
    if ((size_t)(reader->end - reader->at) < length) {
        return false;
    }
    memcpy(data, reader->at, length);
    reader->at += length;
    return true;
}

static int reader_reserve(struct reader *reader, size_t more)
{
    size_t room = 2 * (reader->count + more);
    struct sample *samples;

    if (reader->count + more <= reader->room) {
        return 0;
    }
    samples = realloc(reader->samples, room * sizeof(samples[0]));
    if (samples == NULL) {
        return -ENOMEM;
    }
    reader->samples = samples;
    reader->room = room;
    return 0;
}

static int reader_chunk(struct reader *reader)
{
    struct chunk chunk;
    uint16_t length;
    unsigned i;
    int ret;

    if (!reader_get(reader, &length, sizeof(length)) ||
        (length > (size_t)(reader->end - reader->at))) {
        return -EPROTO;
    }
    ret = chunk_decode(reader->at, length, &chunk);
    if ((ret < 0) || (chunk.columns != 1)) {
        return -EPROTO;
    }
    reader->at += length;
    ret = reader_reserve(reader, chunk.count);
    for (i = 0; (i < chunk.count) && (ret == 0); ++i) {
        reader->samples[reader->count++] =
            (struct sample){.time_ms = chunk.times[i], .value = chunk.values[0][i]};
    }
    return ret;
}

static int sample_order(const void *a, const void *b)
{
    int64_t left = ((const struct sample *)a)->time_ms, right = ((const struct sample *)b)->time_ms;

    return (left > right) - (left < right);
}

static void print_value(double value, FILE *out)
{
    char text[32];

    if (isnan(value)) {
        fputs("NaN", out);
    } else if (isinf(value)) {
        fputs((value > 0) ? "+Inf" : "-Inf", out);
    } else {
        snprintf(text, sizeof(text), "%.15g", value);
        if (strtod(text, NULL) != value) {
            snprintf(text, sizeof(text), "%.17g", value);
        }
        fputs(text, out);
    }
}

/* name{node="NODE",LABELS}, in memory that the caller frees */
static char *print_name(const char *name, int counter, const char *node)
{
    const char *at = name + strcspn(name, "{");
    struct udmon_label label;
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);

    if (out == NULL) {
        return NULL;
    }
    fprintf(out, "%.*s%s{node=\"%s\"", (int)(at - name), name, counter ? "_total" : "", node);
    while (udmon_label_next(&at, &label)) {
        fprintf(out, ",%s%.*s=\"%.*s\"", udmon_label_prefix(&label), (int)label.name_length,
                label.name, (int)label.value_length, label.value);
    }
    fputc('}', out);
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

/* Of samples with equal times, only one is printed. */
static int print_series(struct reader *reader, const char *name, int counter, const char *node,
                        FILE *out)
{
    char *text = print_name(name, counter, node);
    const struct sample *sample;
    size_t i;

    if (text == NULL) {
        return -ENOMEM;
    }
    if (reader->count > 0) {
        qsort(reader->samples, reader->count, sizeof(reader->samples[0]), sample_order);
    }
    for (i = 0; i < reader->count; ++i) {
        sample = &reader->samples[i];
        if ((i > 0) && (sample->time_ms == sample[-1].time_ms)) {
            continue;
        }
        fprintf(out, "%s ", text);
        print_value(sample->value, out);
        fprintf(out, " %" PRId64 ".%03d\n", sample->time_ms / 1000, (int)(sample->time_ms % 1000));
    }
    free(text);
    return 0;
}

struct family {
    char name[UDMON_METRIC_NAME_MAX + 1];
    int counter;
};

static void print_type(struct family *family, const char *name, int counter, FILE *out)
{
    int length = strcspn(name, "{");

    if ((strncmp(family->name, name, length) != 0) || (family->name[length] != '\0') ||
        (family->counter != counter)) {
        snprintf(family->name, sizeof(family->name), "%.*s", length, name);
        family->counter = counter;
        fprintf(out, "# TYPE %s %s\n", family->name, counter ? "counter" : "gauge");
    }
}

static int print_next(struct reader *reader, struct family *family, const char *node, FILE *out)
{
    char name[UDMON_METRIC_NAME_MAX + 1];
    struct record_saved saved;
    uint32_t i;
    int ret = 0;

    if (!reader_get(reader, &saved, sizeof(saved)) || (saved.name_length >= sizeof(name)) ||
        !reader_get(reader, name, saved.name_length)) {
        return -EPROTO;
    }
    name[saved.name_length] = '\0';
    if (!udmon_metric_name_valid(name)) {
        return -EPROTO;
    }
    reader->count = 0;
    for (i = 0; (i < saved.chunks) && (ret == 0); ++i) {
        ret = reader_chunk(reader);
    }
    if (ret < 0) {
        return ret;
    }
    print_type(family, name, saved.counter, out);
    return print_series(reader, name, saved.counter, node, out);
}

int record_print(const uint8_t *data, size_t length, const char *node, FILE *out)
{
    struct reader reader = {.at = data, .end = data + length};
    struct family family = {.name = ""};
    struct record_head head;
    uint64_t i;
    int ret = 0;

    if (!reader_get(&reader, &head, sizeof(head)) ||
        memcmp(head.magic, RECORD_MAGIC, sizeof(head.magic))) {
        return -EPROTO;
    }
    for (i = 0; (i < head.series) && (ret == 0); ++i) {
        ret = print_next(&reader, &family, node, out);
    }
    free(reader.samples);
    if (ret == 0) {
        fputs("# EOF\n", out);
    }
    return ret;
}

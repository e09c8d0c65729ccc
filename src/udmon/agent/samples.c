#include "samples.h"
#include "worker.h"
#include "../lib/base/log.h"
#include "../lib/metric.h"
#include "../lib/net/loop.h"
#include "common/fnv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_MAX = 4 << 20, SAMPLES_RECENT = 8 };

static void samples_clear_seen(struct samples *samples, size_t size);

struct samples *samples_begin(struct udmon_node *node)
{
    static struct samples of_loop;
    struct samples *of_worker = worker_samples();
    struct samples *samples = (of_worker != NULL) ? of_worker : &of_loop;

    samples->node = node;
    samples->time_ns = udmon_time_ns();
    samples->clock_ns = udmon_now_ns();
    samples->count = 0;
    samples->added = 0;
    samples->family = NULL;
    samples->family_count = 0;
    samples_clear_seen(samples, SAMPLES_SEEN_MIN);
    return samples;
}

static uint32_t samples_hash(const char *name, int counter, uint64_t time_ns)
{
    uint32_t hash = (uint32_t)fnv1a(FNV_START + counter + (time_ns << 1), name, strlen(name));

    return (hash != 0) ? hash : 1;
}

/* The place of a hash, or the free place for it. */
static uint32_t *samples_place(struct samples *samples, uint32_t hash)
{
    size_t at = hash % samples->seen_size;

    while ((samples->seen[at] != 0) && (samples->seen[at] != hash)) {
        at = (at + 1) % samples->seen_size;
    }
    return &samples->seen[at];
}

static void samples_clear_seen(struct samples *samples, size_t size)
{
    samples->seen_size = size;
    memset(samples->seen, 0, size * sizeof(samples->seen[0]));
}

/* The table grows with the set, so that small sets touch little memory. */
static void samples_grow_seen(struct samples *samples)
{
    const struct udmon_metric *metric;
    uint32_t hash;
    size_t i;

    samples_clear_seen(samples,
                       (samples->seen_size > 0) ? (4 * samples->seen_size) : SAMPLES_SEEN_MIN);
    for (i = 0; i < samples->count; ++i) {
        metric = &samples->metrics[i];
        hash = samples_hash(metric->name, metric->counter, metric->time_ns);
        *samples_place(samples, hash) = hash;
    }
}

/* Whether a sample of the series with the same time is in the set; else the series is entered. */
static bool samples_known(struct samples *samples, const char *name, int counter)
{
    uint32_t hash = samples_hash(name, counter, samples->time_ns), *place;
    size_t i;

    if (2 * (samples->count + 1) > samples->seen_size) {
        samples_grow_seen(samples);
    }
    place = samples_place(samples, hash);
    if (*place == 0) {
        *place = hash;
        return false;
    }
    for (i = 0; i < samples->count; ++i) { /* seldom: most hashes are of one name */
        if ((samples->metrics[i].counter == counter) &&
            (samples->metrics[i].time_ns == samples->time_ns) &&
            !strcmp(samples->metrics[i].name, name)) {
            return true;
        }
    }
    return false;
}

void samples_add(struct samples *samples, int counter, double value, const char *format, ...)
{
    struct udmon_metric *metric;
    va_list args;
    char *name;
    int length;

    if (samples->count == SAMPLES_MAX) {
        samples_end(samples);
        samples->count = 0;
        samples_clear_seen(samples, SAMPLES_SEEN_MIN);
    }
    name = samples->names[samples->count];
    va_start(args, format);
    length = vsnprintf(name, UDMON_METRIC_NAME_MAX + 1, format, args);
    va_end(args);
    if ((length > UDMON_METRIC_NAME_MAX) || !udmon_metric_name_valid(name)) {
        node_refuse(samples->node, REFUSED_NAME, name);
        return;
    }
    if (samples_known(samples, name, counter)) {
        node_refuse(samples->node, REFUSED_DUPLICATE, name);
        return;
    }
    ++samples->added;
    metric = &samples->metrics[samples->count++];
    metric->name = name;
    metric->time_ns = samples->time_ns;
    metric->clock_ns = samples->clock_ns;
    metric->value = value;
    metric->counter = counter;
    metric->family = samples->family;
}

/* The copy is compared: a text that a copy leaves out makes no difference. */
void samples_describe(struct samples *samples, const struct udmon_family *family)
{
    struct udmon_family_text copy, *end = &samples->families[samples->family_count], *recent;

    samples->family = NULL;
    if ((family == NULL) || (udmon_family_copy(family, &copy) < 0)) {
        return;
    }
    /* The parts of a histogram alternate. */
    for (recent = end; (recent > samples->families) && (end - recent < SAMPLES_RECENT);) {
        if (udmon_family_equal(&(--recent)->family, &copy.family)) {
            samples->family = &recent->family;
            return;
        }
    }
    if (samples->family_count < SAMPLES_FAMILIES) {
        udmon_family_copy(&copy.family, end);
        samples->family = &end->family;
        ++samples->family_count;
    }
}

void samples_end(struct samples *samples)
{
    udmon_node_emit(samples->node, samples->metrics, samples->count);
}

void samples_label(char *label, size_t size, const char *text)
{
    udmon_label_quote(text, label, size);
}

FILE *samples_open(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not wait for a writer */
    struct stat status;
    FILE *file;

    if (fd < 0) {
        return NULL;
    }
    if ((fstat(fd, &status) < 0) || !S_ISREG(status.st_mode)) {
        close(fd);
        errno = EINVAL;
        return NULL;
    }
    file = fdopen(fd, "r");
    if (file == NULL) {
        close(fd);
    }
    return file;
}

char *samples_load(const char *path)
{
    FILE *file = samples_open(path);
    char *text = NULL;
    size_t length;

    if (file == NULL) {
        return NULL;
    }
    text = malloc(FILE_MAX + 1);
    if (text != NULL) {
        length = fread(text, 1, FILE_MAX + 1, file);
        if (length > FILE_MAX) {
            free(text);
            text = NULL;
            errno = EFBIG;
        } else {
            text[length] = '\0';
        }
    }
    fclose(file);
    return text;
}

bool samples_read_lines(struct samples *samples, const char *path,
                        void (*each)(struct samples *samples, const char *line, void *arg),
                        void *arg)
{
    FILE *file = samples_open(path);
    char line[512];

    if (file == NULL) {
        return false;
    }
    while (fgets(line, sizeof(line), file) != NULL) {
        each(samples, line, arg);
    }
    fclose(file);
    return true;
}

int samples_read_number(const char *path, double *value_p)
{
    FILE *file = samples_open(path);
    int found;

    if (file == NULL) {
        return -ENOENT;
    }
    found = (fscanf(file, "%lf", value_p) == 1);
    fclose(file);
    return found ? 0 : -ENOENT;
}

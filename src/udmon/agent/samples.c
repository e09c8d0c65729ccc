#include "worker.h"
#include "../lib/log.h"
#include "../lib/metric.h"
#include "../lib/net/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_MAX = 4 << 20 };

samples_t *samples_begin(udmon_node_t *node)
{
    static samples_t of_loop;
    samples_t *of_worker = worker_samples();
    samples_t *samples = (of_worker != NULL) ? of_worker : &of_loop;

    samples->node = node;
    samples->time_ns = udmon_time_ns();
    samples->clock_ns = udmon_now_ns();
    samples->count = 0;
    samples->added = 0;
    return samples;
}

void samples_add(samples_t *samples, int counter, double value, const char *format, ...)
{
    udmon_metric_t *metric;
    va_list args;
    char *name;
    int length;

    if (samples->count == SAMPLES_MAX) {
        samples_end(samples);
        samples->count = 0;
    }
    name = samples->names[samples->count];
    va_start(args, format);
    length = vsnprintf(name, UDMON_METRIC_NAME_MAX + 1, format, args);
    va_end(args);
    if ((length > UDMON_METRIC_NAME_MAX) || !udmon_metric_name_valid(name)) {
        udmon_debug("no sample: '%s' cannot be a name", name);
        return;
    }
    ++samples->added;
    metric = &samples->metrics[samples->count++];
    metric->name = name;
    metric->time_ns = samples->time_ns;
    metric->clock_ns = samples->clock_ns;
    metric->value = value;
    metric->counter = counter;
}

void samples_end(samples_t *samples)
{
    udmon_node_emit(samples->node, samples->metrics, samples->count);
}

void samples_label(char *label, size_t size, const char *text)
{
    size_t i;

    for (i = 0; (i + 1 < size) && (text[i] != '\0'); ++i) {
        label[i] = ((text[i] >= ' ') && (text[i] <= '~') && (text[i] != '"') && (text[i] != '\\')) ?
                       text[i] : '_';
    }
    label[i] = '\0';
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

int samples_read_lines(samples_t *samples, const char *path,
                       void (*each)(samples_t *samples, const char *line, void *arg), void *arg)
{
    FILE *file = samples_open(path);
    char line[512];

    if (file == NULL) {
        return 0;
    }
    while (fgets(line, sizeof(line), file) != NULL) {
        each(samples, line, arg);
    }
    fclose(file);
    return 1;
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

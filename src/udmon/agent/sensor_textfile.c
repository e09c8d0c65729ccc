/*
 * node_exporter's textfile directory: each file *.prom in it, written by whatever runs on the node,
 * is read anew with each tick. Files are complete: their writers rename them into place.
 */
#include "exposition.h"
#include "graph.h"
#include "../lib/log.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXTFILE_MAX = 4 << 20 };

typedef struct textfile {
    char directory[400];
    udmon_log_limit_t unreadable, wrong;
} textfile_t;

static const char *const textfile_options[] = {"directory", NULL};

static int textfile_create(udmon_node_t *node, void **state_p)
{
    const char *directory = udmon_node_option(node, "directory");
    textfile_t *textfile;

    if ((directory == NULL) || (strlen(directory) >= sizeof(textfile->directory))) {
        udmon_node_error(node, NULL, "needs an option \"directory\": where *.prom files are");
        return -EINVAL;
    }
    textfile = calloc(1, sizeof(*textfile));
    if (textfile == NULL) {
        return -ENOMEM;
    }
    snprintf(textfile->directory, sizeof(textfile->directory), "%s", directory);
    *state_p = textfile;
    return 0;
}

/* The whole file, ended by a zero; NULL with errno. */
static char *textfile_load(const char *path)
{
    FILE *file = fopen(path, "r");
    char *text = NULL;
    size_t length;

    if (file == NULL) {
        return NULL;
    }
    text = malloc(TEXTFILE_MAX + 1);
    if (text != NULL) {
        length = fread(text, 1, TEXTFILE_MAX + 1, file);
        if (length > TEXTFILE_MAX) {
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

static void textfile_read(udmon_node_t *node, textfile_t *textfile, samples_t *samples,
                          const char *name)
{
    exposition_result_t result;
    char path[700], *text;

    snprintf(path, sizeof(path), "%s/%s", textfile->directory, name);
    text = textfile_load(path);
    if (text == NULL) {
        udmon_warn_limited(&textfile->unreadable, "node %s: cannot read %s: %s", node->name, path,
                           strerror(errno));
        return;
    }
    exposition_read(text, samples, &result);
    free(text);
    if (result.bad_line > 0) {
        udmon_warn_limited(&textfile->wrong, "node %s: %s:%d: this is no sample", node->name, path,
                           result.bad_line);
    }
}

static void textfile_tick(udmon_node_t *node, void *state)
{
    textfile_t *textfile = state;
    struct dirent *entry;
    samples_t *samples;
    size_t length;
    DIR *dir = opendir(textfile->directory);

    if (dir == NULL) {
        udmon_warn_limited(&textfile->unreadable, "node %s: cannot read %s: %s", node->name,
                           textfile->directory, strerror(errno));
        return;
    }
    samples = samples_begin(node);
    while ((entry = readdir(dir)) != NULL) {
        length = strlen(entry->d_name);
        if ((length > 5) && !strcmp(entry->d_name + length - 5, ".prom")) {
            textfile_read(node, textfile, samples, entry->d_name);
        }
    }
    closedir(dir);
    samples_end(samples);
}

const udmon_node_type_t sensor_textfile = {
    .name = "textfile",
    .options = textfile_options,
    .create = textfile_create,
    .destroy = free,
    .tick = textfile_tick,
    .has_output = 1,
};

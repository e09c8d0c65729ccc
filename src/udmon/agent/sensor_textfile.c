/*
 * node_exporter's textfile directory: each tick reads every file *.prom again. Any program of the
 * node may write files. Files are complete, because their writers rename them into the directory.
 */
#include "exposition.h"
#include "node.h"
#include "types.h"
#include "../lib/base/log.h"
#include "common/fnv.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { TOLD_MAX = 64 };

/* A file whose problem is in the log. The problem is logged again only after a change. */
struct told {
    uint64_t file, problem; /* hashes; problem 0: none */
    bool seen;              /* the problem exists in this tick */
    struct udmon_log_limit limit;
};

struct textfile {
    struct told told[TOLD_MAX];
    unsigned count;
};

static const char *const textfile_options[] = {"directory", NULL};

static int textfile_create(struct udmon_node *node, void **state_p)
{
    if (udmon_node_option(node, "directory") == NULL) {
        udmon_node_error(node, NULL, "needs an option \"directory\": where *.prom files are");
        return -EINVAL;
    }
    *state_p = calloc(1, sizeof(struct textfile));
    return (*state_p != NULL) ? 0 : -ENOMEM;
}

/* The entry of a file, new or of a file without a problem. NULL: too many files have problems. */
static struct told *textfile_told(struct textfile *textfile, const char *path)
{
    uint64_t file = fnv1a(FNV_START, path, strlen(path));
    struct told *told, *place = NULL;

    for (told = textfile->told; told < (textfile->told + textfile->count); ++told) {
        if (told->file == file) {
            return told;
        }
        place = (told->problem == 0) ? told : place;
    }
    if (textfile->count < TOLD_MAX) {
        place = &textfile->told[textfile->count++];
    }
    if (place != NULL) {
        *place = (struct told){.file = file};
    }
    return place;
}

/* `status`: of the file, or NULL; its time makes a changed file's problem another. */
static void textfile_tell(const struct udmon_node *node, struct textfile *textfile,
                          const char *path, const struct stat *status, const char *problem)
{
    struct told *told = textfile_told(textfile, path);
    uint64_t hash = fnv1a(FNV_START, problem, strlen(problem));

    if (status != NULL) {
        hash = fnv1a(hash, &status->st_mtim, sizeof(status->st_mtim));
    }
    if (told == NULL) {
        return;
    }
    told->seen = true;
    if (told->problem != hash) {
        told->problem = hash;
        udmon_warn_limited(&told->limit, "node %s: %s", node->name, problem);
    }
}

static void textfile_unreadable(const struct udmon_node *node, struct textfile *textfile,
                                const char *path)
{
    char problem[PATH_MAX + 64];

    snprintf(problem, sizeof(problem), "cannot read %s: %s", path, strerror(errno));
    textfile_tell(node, textfile, path, NULL, problem);
}

/* After a tick: forgets problems that exist no longer. */
static void textfile_forget(struct textfile *textfile)
{
    struct told *told;

    for (told = textfile->told; told < (textfile->told + textfile->count); ++told) {
        told->problem = told->seen ? told->problem : 0;
        told->seen = false;
    }
}

/* Returns whether the whole file could be used. */
static bool textfile_read(struct udmon_node *node, struct textfile *textfile,
                          struct samples *samples, const char *path)
{
    struct exposition_result result;
    char *text = samples_load(path), label[PATH_MAX], problem[PATH_MAX + 64];
    struct stat status;

    if ((text == NULL) || (stat(path, &status) < 0)) {
        textfile_unreadable(node, textfile, path);
        free(text);
        return false;
    }
    samples_label(label, sizeof(label), path);
    samples_add(samples, 0, status.st_mtim.tv_sec + (status.st_mtim.tv_nsec * 1e-9),
                "node_textfile_mtime_seconds{file=\"%s\"}", label);
    exposition_read(text, false, samples, &result);
    free(text);
    if (result.bad_line > 0) {
        snprintf(problem, sizeof(problem), "%s:%d: this is no sample", path, result.bad_line);
        textfile_tell(node, textfile, path, &status, problem);
    }
    return (result.bad_line == 0) && (result.skipped == 0);
}

/* Returns whether all files could be used. */
static bool textfile_read_all(struct udmon_node *node, struct textfile *textfile,
                              struct samples *samples)
{
    const char *directory = udmon_node_option(node, "directory");
    DIR *dir = opendir(directory);
    struct dirent *entry;
    char path[PATH_MAX];
    size_t length;
    bool good = true;

    if (dir == NULL) {
        textfile_unreadable(node, textfile, directory);
        return false;
    }
    while ((entry = readdir(dir)) != NULL) {
        length = strlen(entry->d_name);
        if ((length > 5) && !strcmp(entry->d_name + length - 5, ".prom")) {
            snprintf(path, sizeof(path), "%s/%s", directory, entry->d_name);
            good &= textfile_read(node, textfile, samples, path);
        }
    }
    closedir(dir);
    return good;
}

static void textfile_tick(struct udmon_node *node, void *state)
{
    struct samples *samples = samples_begin(node);
    struct textfile *textfile = state;

    samples_add(samples, 0, !textfile_read_all(node, textfile, samples),
                "node_textfile_scrape_error");
    textfile_forget(textfile);
    samples_end(samples);
}

const struct udmon_node_type sensor_textfile = {
    .name = "textfile",
    .options = textfile_options,
    .create = textfile_create,
    .destroy = free,
    .tick = textfile_tick,
    .has_output = 1,
    .blocking = 1,
};

/*
 * node_exporter's textfile directory: each tick reads every file *.prom again. Any program of the
 * node may write files. Files are complete, because their writers rename them into the directory.
 */
#include "exposition.h"
#include "node.h"
#include "types.h"
#include "../lib/base/log.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char *const textfile_options[] = {"directory", NULL};

static int textfile_create(struct udmon_node *node, void **state_p)
{
    (void)state_p;
    if (udmon_node_option(node, "directory") == NULL) {
        udmon_node_error(node, NULL, "needs an option \"directory\": where *.prom files are");
        return -EINVAL;
    }
    return 0;
}

static void textfile_unreadable(const struct udmon_node *node, const char *path)
{
    static struct udmon_log_limit limit;

    udmon_warn_limited(&limit, "node %s: cannot read %s: %s", node->name, path, strerror(errno));
}

/* Returns whether the whole file could be used. */
static bool textfile_read(struct udmon_node *node, struct samples *samples, const char *path)
{
    static struct udmon_log_limit wrong;
    struct exposition_result result;
    char *text = samples_load(path), label[PATH_MAX];
    struct stat status;

    if ((text == NULL) || (stat(path, &status) < 0)) {
        textfile_unreadable(node, path);
        free(text);
        return false;
    }
    samples_label(label, sizeof(label), path);
    samples_add(samples, 0, status.st_mtim.tv_sec + (status.st_mtim.tv_nsec * 1e-9),
                "node_textfile_mtime_seconds{file=\"%s\"}", label);
    exposition_read(text, samples, &result);
    free(text);
    if (result.bad_line > 0) {
        udmon_warn_limited(&wrong, "node %s: %s:%d: this is no sample", node->name, path,
                           result.bad_line);
    }
    return (result.bad_line == 0) && (result.skipped == 0);
}

static void textfile_tick(struct udmon_node *node, void *state)
{
    const char *directory = udmon_node_option(node, "directory");
    DIR *dir = opendir(directory);
    struct dirent *entry;
    struct samples *samples;
    char path[PATH_MAX];
    size_t length;
    int good = 1;

    (void)state;
    samples = samples_begin(node);
    if (dir == NULL) {
        textfile_unreadable(node, directory);
        samples_add(samples, 0, 1, "node_textfile_scrape_error");
        samples_end(samples);
        return;
    }
    while ((entry = readdir(dir)) != NULL) {
        length = strlen(entry->d_name);
        if ((length > 5) && !strcmp(entry->d_name + length - 5, ".prom")) {
            snprintf(path, sizeof(path), "%s/%s", directory, entry->d_name);
            good &= textfile_read(node, samples, path);
        }
    }
    closedir(dir);
    samples_add(samples, 0, !good, "node_textfile_scrape_error");
    samples_end(samples);
}

const struct udmon_node_type sensor_textfile = {
    .name = "textfile",
    .options = textfile_options,
    .create = textfile_create,
    .tick = textfile_tick,
    .has_output = 1,
    .blocking = 1,
};

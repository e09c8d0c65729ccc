#include "spool.h"
#include "../lib/base/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_ROOM = 4096 + 300 };

static void spool_path(const struct spool *spool, const struct spool_entry *entry,
                       char path[PATH_ROOM])
{
    snprintf(path, PATH_ROOM, "%s/%020llu-%llu", spool->directory,
             (unsigned long long)entry->number, (unsigned long long)entry->samples);
}

static void spool_insert(struct spool *spool, struct spool_entry *entry)
{
    struct spool_entry *each, *before = NULL;

    STAILQ_FOREACH(each, &spool->entries, list) {
        if (each->number > entry->number) {
            break;
        }
        before = each;
    }
    if (before == NULL) {
        STAILQ_INSERT_HEAD(&spool->entries, entry, list);
    } else {
        STAILQ_INSERT_AFTER(&spool->entries, before, entry, list);
    }
    spool->bytes += entry->length;
    spool->samples += entry->samples;
    spool->next = (entry->number >= spool->next) ? (entry->number + 1) : spool->next;
}

static int names_only(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* Reads the requests of an earlier collector. */
static int spool_scan(struct spool *spool)
{
    unsigned long long number, samples;
    struct dirent **names;
    char path[PATH_ROOM];
    struct spool_entry *entry;
    struct stat status;
    int i, count = scandir(spool->directory, &names, names_only, alphasort), end;

    for (i = count - 1; i >= 0; --i) {
        end = 0;
        snprintf(path, sizeof(path), "%s/%s", spool->directory, names[i]->d_name);
        if ((sscanf(names[i]->d_name, "%20llu-%20llu%n", &number, &samples, &end) == 2) &&
            (names[i]->d_name[end] == '\0') && (stat(path, &status) == 0)) {
            entry = calloc(1, sizeof(*entry));
            if (entry != NULL) {
                entry->number = number;
                entry->samples = samples;
                entry->length = status.st_size;
                spool_insert(spool, entry); /* the greatest first, so at the head */
            }
        } else {
            unlink(path); /* one that was not written to its end */
        }
        free(names[i]);
    }
    if (count >= 0) {
        free(names);
    }
    return (count < 0) ? -errno : 0;
}

int spool_open(struct spool *spool, const char *directory, uint64_t max_bytes)
{
    int ret;

    memset(spool, 0, sizeof(*spool));
    STAILQ_INIT(&spool->entries);
    snprintf(spool->directory, sizeof(spool->directory), "%s", directory);
    spool->max_bytes = max_bytes;
    ret = ((mkdir(directory, 0700) < 0) && (errno != EEXIST)) ? -errno : spool_scan(spool);
    if (ret < 0) {
        udmon_error("remote write: the queue's directory %s cannot be used: %s", directory,
                    strerror(-ret));
    } else if (!spool_is_empty(spool)) {
        udmon_info("remote write: %llu samples wait in %s", (unsigned long long)spool->samples,
                   directory);
    }
    return ret;
}

static void spool_forget(struct spool *spool, struct spool_entry *entry)
{
    STAILQ_REMOVE(&spool->entries, entry, spool_entry, list);
    spool->bytes -= entry->length;
    spool->samples -= entry->samples;
    free(entry);
}

void spool_close(struct spool *spool)
{
    while (!spool_is_empty(spool)) {
        spool_forget(spool, STAILQ_FIRST(&spool->entries));
    }
}

int spool_is_empty(const struct spool *spool)
{
    return STAILQ_EMPTY(&spool->entries);
}

void spool_remove_oldest(struct spool *spool)
{
    struct spool_entry *entry = STAILQ_FIRST(&spool->entries);
    char path[PATH_ROOM];

    spool_path(spool, entry, path);
    unlink(path);
    spool_forget(spool, entry);
}

static void spool_drop_oldest(struct spool *spool)
{
    spool->dropped += STAILQ_FIRST(&spool->entries)->samples;
    spool_remove_oldest(spool);
}

/* Writes under a temporary name first, so a file with its final name is complete. */
static int spool_write(struct spool *spool, const struct spool_entry *entry, const void *bytes)
{
    char path[PATH_ROOM], unfinished[PATH_ROOM];
    int fd, ret;

    spool_path(spool, entry, path);
    snprintf(unfinished, sizeof(unfinished), "%s/unfinished", spool->directory);
    fd = open(unfinished, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ret = (fd < 0) ? -errno : 0;
    if ((ret == 0) && (write(fd, bytes, entry->length) != (ssize_t)entry->length)) {
        ret = (errno != 0) ? -errno : -ENOSPC;
    }
    if (fd >= 0) {
        close(fd);
    }
    return ((ret == 0) && (rename(unfinished, path) < 0)) ? -errno : ret;
}

void spool_put(struct spool *spool, const void *bytes, size_t length, uint64_t samples)
{
    static struct udmon_log_limit limit;
    struct spool_entry *entry = calloc(1, sizeof(*entry));
    int ret;

    while (!spool_is_empty(spool) && (spool->bytes + length > spool->max_bytes)) {
        spool_drop_oldest(spool);
        udmon_warn_limited(&limit,
                           "remote write: the queue in %s is full: the oldest samples are not "
                           "sent",
                           spool->directory);
    }
    errno = 0;
    ret = -ENOMEM;
    if (entry != NULL) {
        *entry = (struct spool_entry){.number = spool->next, .samples = samples, .length = length};
        ret = spool_write(spool, entry, bytes);
    }
    if (ret < 0) {
        udmon_warn_limited(&limit, "remote write: cannot write to the queue in %s: %s",
                           spool->directory, strerror(-ret));
        spool->dropped += samples;
        free(entry);
        return;
    }
    STAILQ_INSERT_TAIL(&spool->entries, entry, list);
    ++spool->next;
    spool->bytes += length;
    spool->samples += samples;
}

void spool_shorten_oldest(struct spool *spool, const void *bytes, size_t length, uint64_t samples)
{
    struct spool_entry *entry = STAILQ_FIRST(&spool->entries);
    struct spool_entry rest = {.number = entry->number, .samples = samples, .length = length};
    char path[PATH_ROOM];

    spool_path(spool, entry, path);
    if (spool_write(spool, &rest, bytes) < 0) {
        return; /* an accepted request is sent again */
    }
    if (samples != entry->samples) {
        unlink(path);
    }
    spool->bytes -= entry->length - length;
    spool->samples -= entry->samples - samples;
    entry->length = length;
    entry->samples = samples;
}

char *spool_oldest(struct spool *spool, size_t *length_p, uint64_t *samples_p)
{
    const struct spool_entry *entry = STAILQ_FIRST(&spool->entries);
    char path[PATH_ROOM], *bytes = malloc(entry->length + 1);
    FILE *file;

    spool_path(spool, entry, path);
    file = fopen(path, "re");
    if ((file == NULL) || (bytes == NULL) ||
        (fread(bytes, 1, entry->length, file) != entry->length)) {
        udmon_warn("remote write: cannot read %s: %s", path, strerror(errno));
        free(bytes);
        bytes = NULL;
        spool_drop_oldest(spool);
    } else {
        *length_p = entry->length;
        *samples_p = entry->samples;
    }
    if (file != NULL) {
        fclose(file);
    }
    return bytes;
}

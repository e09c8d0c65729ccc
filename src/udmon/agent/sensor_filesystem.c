/*
 * Size, room and files of this host's mounted file systems: file systems on block devices and the
 * root; with "network = yes" also network file systems.
 *
 * The sensor reads the mounts of process 1, because a service manager may give the agent read-only
 * copies of the host's mounts. A bind mount counts once, as the file system that it shows.
 *
 * statvfs() waits for a server or disk that does not answer. So a thread queries all mounts in
 * turn. The sensor waits at most FILESYSTEM_WAIT_MS for each answer. Then
 * node_filesystem_device_error reports the mount until it answers, and a new thread queries the
 * other mounts.
 */
#include "node.h"
#include "samples.h"
#include "types.h"
#include "../lib/base/log.h"
#include "../lib/net/loop.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <time.h>

enum { FILESYSTEM_WAIT_MS = 1000, MOUNTS_MAX = 256, FIELD_MAX = 1024, STUCK_MAX = 8 };

struct mount {
    char device[FIELD_MAX], type[64], point[FIELD_MAX], root[FIELD_MAX];
    dev_t number;
    int readonly;
    int failed; /* no answer, or an error */
    struct statvfs stat;
};

/* The questions of one tick, shared by the sensor and the thread that asks. */
struct asking {
    pthread_mutex_t
        lock; /* of all fields below but `mounts`: the thread writes mounts[next], the sensor reads those before */
    pthread_cond_t changed;
    unsigned refs;
    size_t next, count;        /* the mount that is asked for now, while there are more */
    int left;                  /* the sensor waits no longer: the thread ends after its answer */
    const struct mount *stuck; /* the mount that the sensor has given up on; the sensor's own */
    struct mount mounts[MOUNTS_MAX];
};

struct filesystem {
    int network;
    struct asking *stuck[STUCK_MAX]; /* each has a mount that does not answer */
    size_t stuck_count;
};

static const char *const filesystem_options[] = {"network", "mounts", NULL};

static bool word_in(const char *word, const char *const *words)
{
    for (; *words != NULL; ++words) {
        if (!strcmp(word, *words)) {
            return true;
        }
    }
    return false;
}

static bool mount_of_network(const struct mount *mount)
{
    static const char *const types[] = {"9p",        "afs",   "beegfs", "ceph",  "cifs",     "fuse",
                                        "glusterfs", "gpfs",  "lustre", "ncpfs", "nfs",      "nfs4",
                                        "panfs",     "pvfs2", "smb3",   "smbfs", "virtiofs", NULL};

    return word_in(mount->type, types) || !strncmp(mount->type, "fuse.", 5) ||
           !strncmp(mount->device, "//", 2);
}

/* An octal escape of the kernel, as in "a\040b", becomes its character. */
static void mount_unescape(char *text)
{
    char *to = text;

    for (; *text != '\0'; ++to) {
        if ((text[0] == '\\') && (strspn(text + 1, "01234567") >= 3)) {
            *to = ((text[1] - '0') << 6) | ((text[2] - '0') << 3) | (text[3] - '0');
            text += 4;
        } else {
            *to = *text++;
        }
    }
    *to = '\0';
}

static bool options_readonly(const char *options)
{
    return !strncmp(options, "ro", 2) && ((options[2] == ',') || (options[2] == '\0'));
}

/* A line of mountinfo, see proc(5). */
static int mount_parse(const char *line, struct mount *mount)
{
    char options[FIELD_MAX], super[FIELD_MAX] = "";
    const char *rest = strstr(line, " - ");
    unsigned major, minor;

    if ((rest == NULL) ||
        (sscanf(line, "%*d %*d %u:%u %1023s %1023s %1023s", &major, &minor, mount->root,
                mount->point, options) != 5) ||
        (sscanf(rest, " - %63s %1023s %1023s", mount->type, mount->device, super) < 2)) {
        return -EINVAL;
    }
    mount_unescape(mount->root);
    mount_unescape(mount->point);
    mount_unescape(mount->device);
    mount->number = makedev(major, minor);
    mount->readonly = options_readonly(options) || options_readonly(super);
    mount->failed = 1;
    return 0;
}

static bool mount_wanted(const struct filesystem *filesystem, const struct asking *asking,
                         const struct mount *mount)
{
    const struct mount *other;

    if (!strcmp(mount->type, "autofs") || (mount_of_network(mount) && !filesystem->network) ||
        ((mount->device[0] != '/') && !mount_of_network(mount) && strcmp(mount->point, "/"))) {
        return false;
    }
    for (other = asking->mounts; other < &asking->mounts[asking->count]; ++other) {
        if ((other->number == mount->number) &&
            (strcmp(mount->type, "btrfs") || !strcmp(mount->root, other->root))) {
            return false; /* bind mounts; subvolumes of btrfs share the number */
        }
    }
    return true;
}

static void mounts_read(const struct filesystem *filesystem, const char *path,
                        struct asking *asking)
{
    FILE *file = fopen((path != NULL) ? path : "/proc/1/mountinfo", "re");
    char line[4096];

    file = ((file == NULL) && (path == NULL)) ? fopen("/proc/self/mountinfo", "re") : file;
    if (file == NULL) {
        return;
    }
    while ((fgets(line, sizeof(line), file) != NULL) && (asking->count < MOUNTS_MAX)) {
        struct mount *mount = &asking->mounts[asking->count];

        if ((mount_parse(line, mount) == 0) && mount_wanted(filesystem, asking, mount)) {
            ++asking->count;
        }
    }
    fclose(file);
}

static void asking_put(struct asking *asking)
{
    unsigned refs;

    pthread_mutex_lock(&asking->lock);
    refs = --asking->refs;
    pthread_mutex_unlock(&asking->lock);
    if (refs == 0) {
        pthread_cond_destroy(&asking->changed);
        pthread_mutex_destroy(&asking->lock);
        free(asking);
    }
}

static struct asking *asking_new(void)
{
    struct asking *asking = calloc(1, sizeof(*asking));

    if (asking != NULL) {
        pthread_mutex_init(&asking->lock, NULL);
        pthread_cond_init(&asking->changed, NULL);
        asking->refs = 1;
    }
    return asking;
}

/* Another file system may be mounted there in the agent's own namespace. */
static void mount_ask(struct mount *mount)
{
    struct stat status;

    mount->failed = (statvfs(mount->point, &mount->stat) < 0) ||
                    (stat(mount->point, &status) < 0) ||
                    ((status.st_dev != mount->number) && strcmp(mount->type, "btrfs"));
}

static void *asking_run(void *arg)
{
    struct asking *asking = arg;
    int more;

    do {
        mount_ask(&asking->mounts[asking->next]);
        pthread_mutex_lock(&asking->lock);
        ++asking->next;
        more = !asking->left && (asking->next < asking->count);
        pthread_cond_signal(&asking->changed);
        pthread_mutex_unlock(&asking->lock);
    } while (more);
    asking_put(asking);
    return NULL;
}

/* Wait for the answers; returns the number of mounts that have answered before the wait was over. */
static size_t asking_wait(struct asking *asking)
{
    struct timespec until;
    size_t answered;

    pthread_mutex_lock(&asking->lock);
    do {
        answered = asking->next;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += FILESYSTEM_WAIT_MS * 1000000L;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        while ((asking->next == answered) && (asking->next < asking->count) &&
               (pthread_cond_timedwait(&asking->changed, &asking->lock, &until) == 0)) {
        }
    } while ((asking->next > answered) && (asking->next < asking->count));
    answered = asking->next;
    asking->left = (answered < asking->count);
    pthread_mutex_unlock(&asking->lock);
    return answered;
}

static void mount_emit(struct samples *samples, const struct mount *mount)
{
    const struct statvfs *stat = &mount->stat;
    char device[FIELD_MAX], point[FIELD_MAX];
    size_t i;
    const struct {
        const char *name;
        double value;
    } values[] = {
        {"device_error", mount->failed},
        {"readonly", mount->readonly},
        {"size_bytes", (double)stat->f_blocks * stat->f_frsize},
        {"free_bytes", (double)stat->f_bfree * stat->f_frsize},
        {"avail_bytes", (double)stat->f_bavail * stat->f_frsize},
        {"files", stat->f_files},
        {"files_free", stat->f_ffree},
    };

    samples_label(device, sizeof(device), mount->device);
    samples_label(point, sizeof(point), mount->point);
    for (i = 0; i < (mount->failed ? 1 : (sizeof(values) / sizeof(values[0]))); ++i) {
        samples_add(samples, 0, values[i].value,
                    "node_filesystem_%s{device=\"%s\",fstype=\"%s\",mountpoint=\"%s\"}",
                    values[i].name, device, mount->type, point);
    }
}

/* Drop the mounts that have answered. Returns whether `mount` has still not answered. */
static int filesystem_stuck(struct filesystem *filesystem, const struct mount *mount)
{
    size_t i, kept = 0;
    int found = 0;

    for (i = 0; i < filesystem->stuck_count; ++i) {
        struct asking *asking = filesystem->stuck[i];
        int answered;

        pthread_mutex_lock(&asking->lock);
        answered = (asking->refs == 1); /* the thread has ended */
        pthread_mutex_unlock(&asking->lock);
        if (answered) {
            udmon_warn("the file system at %s answers again", asking->stuck->point);
            asking_put(asking);
            continue;
        }
        found |=
            (asking->stuck->number == mount->number) && !strcmp(asking->stuck->point, mount->point);
        filesystem->stuck[kept++] = asking;
    }
    filesystem->stuck_count = kept;
    return found;
}

/* Queries `count` mounts. Returns the structure for the remaining mounts, or NULL. */
static struct asking *filesystem_ask(struct filesystem *filesystem, struct asking *asking)
{
    struct asking *rest = NULL;
    size_t answered = 0;
    pthread_t thread;

    ++asking->refs;
    if (udmon_thread_start(&thread, asking_run, asking) < 0) {
        --asking->refs;
        return NULL;
    }
    pthread_detach(thread);
    answered = asking_wait(asking);
    if (answered == asking->count) {
        return NULL;
    }
    asking->stuck = &asking->mounts[answered];
    udmon_warn("the file system at %s does not answer", asking->stuck->point);
    rest = asking_new();
    if (rest != NULL) {
        rest->count = asking->count - answered - 1;
        memcpy(rest->mounts, &asking->mounts[answered + 1], rest->count * sizeof(rest->mounts[0]));
    }
    pthread_mutex_lock(&asking->lock);
    ++asking->refs;
    pthread_mutex_unlock(&asking->lock);
    filesystem->stuck[filesystem->stuck_count++] = asking;
    return rest;
}

static void filesystem_tick(struct udmon_node *node, void *state)
{
    struct filesystem *filesystem = state;
    struct asking *asking = asking_new(), *rest;
    struct mount *all;
    struct samples *samples;
    size_t i, count, total, done = 0;

    if (asking == NULL) {
        return;
    }
    mounts_read(filesystem, udmon_node_option(node, "mounts"), asking);
    total = asking->count;
    all = calloc(total + 1, sizeof(*all));
    asking->count = 0;
    for (i = 0; (all != NULL) && (i < total); ++i) {
        if (filesystem_stuck(filesystem, &asking->mounts[i])) {
            all[done++] = asking->mounts[i];
        } else {
            asking->mounts[asking->count++] = asking->mounts[i];
        }
    }
    while ((asking != NULL) && (asking->count > 0) && (filesystem->stuck_count < STUCK_MAX)) {
        count = asking->count;
        rest = filesystem_ask(filesystem, asking);
        count -= (rest != NULL) ? rest->count : 0;
        for (i = 0; i < count; ++i) {
            all[done] = asking->mounts[i];
            all[done++].failed |= (rest != NULL) && (i == count - 1);
        }
        asking_put(asking);
        asking = rest;
    }
    if (asking != NULL) {
        asking_put(asking);
    }
    samples = samples_begin(node);
    for (i = 0; i < done; ++i) {
        mount_emit(samples, &all[i]);
    }
    samples_end(samples);
    free(all);
}

static void filesystem_destroy(void *state)
{
    struct filesystem *filesystem = state;
    size_t i;

    for (i = 0; i < filesystem->stuck_count; ++i) {
        asking_put(filesystem->stuck[i]);
    }
    free(filesystem);
}

static int filesystem_create(struct udmon_node *node, void **state_p)
{
    const char *network = udmon_node_option(node, "network");
    struct filesystem *filesystem;

    if ((network != NULL) && strcmp(network, "yes") && strcmp(network, "no")) {
        udmon_node_error(node, "network", "'%s' is neither yes nor no", network);
        return -EINVAL;
    }
    filesystem = calloc(1, sizeof(*filesystem));
    if (filesystem == NULL) {
        return -ENOMEM;
    }
    filesystem->network = (network != NULL) && !strcmp(network, "yes");
    *state_p = filesystem;
    return 0;
}

const struct udmon_node_type sensor_filesystem = {
    .name = "filesystem",
    .options = filesystem_options,
    .create = filesystem_create,
    .destroy = filesystem_destroy,
    .tick = filesystem_tick,
    .has_output = 1,
    .blocking = 1,
};

/*
 * Size and room of the file systems on this host's block devices. Those of the network are left
 * out: asking them may wait for their server.
 */
#include "graph.h"
#include "samples.h"

#include <mntent.h>
#include <stdio.h>
#include <sys/statvfs.h>

static void filesystem_read(samples_t *samples, const struct mntent *mount)
{
    struct statvfs stat;
    size_t i;

    if ((mount->mnt_fsname[0] != '/') || (mount->mnt_fsname[1] == '/') ||
        (statvfs(mount->mnt_dir, &stat) < 0)) {
        return; /* no block device (SMB's are //SERVER/SHARE); or not ours to look at */
    }
    const struct {
        const char *name;
        double value;
    } values[] = {
        {"size_bytes", (double)stat.f_blocks * stat.f_frsize},
        {"free_bytes", (double)stat.f_bfree * stat.f_frsize},
        {"avail_bytes", (double)stat.f_bavail * stat.f_frsize},
        {"files", stat.f_files},
        {"files_free", stat.f_ffree},
        {"readonly", !!(stat.f_flag & ST_RDONLY)},
    };
    for (i = 0; i < (sizeof(values) / sizeof(values[0])); ++i) {
        samples_add(samples, 0, values[i].value,
                    "node_filesystem_%s{device=\"%s\",fstype=\"%s\",mountpoint=\"%s\"}",
                    values[i].name, mount->mnt_fsname, mount->mnt_type, mount->mnt_dir);
    }
}

static void filesystem_tick(udmon_node_t *node, void *state)
{
    FILE *mounts = setmntent("/proc/self/mounts", "r");
    struct mntent *mount;
    samples_t *samples;

    (void)state;
    if (mounts == NULL) {
        return;
    }
    samples = samples_begin(node);
    while ((mount = getmntent(mounts)) != NULL) {
        filesystem_read(samples, mount);
    }
    endmntent(mounts);
    samples_end(samples);
}

const udmon_node_type_t sensor_filesystem = {
    .name = "filesystem",
    .tick = filesystem_tick,
    .has_output = 1,
};

/*
 * What each Slurm job on this host uses, from the control groups (version 2) that slurmd makes for
 * it: job_ID below slurmstepd.scope, or NODE_slurmstepd.scope if there is more than one slurmd.
 */
#include "graph.h"
#include "samples.h"

#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const slurm_options[] = {"root", NULL};

/* The number behind a word in a file of "WORD NUMBER" lines; negative if it is not there. */
static double slurm_field(const char *dir, const char *file_name, const char *word)
{
    double number, value = -1;
    char path[PATH_MAX], name[64];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", dir, file_name);
    file = fopen(path, "r");
    if (file == NULL) {
        return -1; /* the job has ended */
    }
    while (fscanf(file, "%63s %lf", name, &number) == 2) {
        value = !strcmp(name, word) ? number : value;
    }
    fclose(file);
    return value;
}

/* Lines of io.stat: "MAJOR:MINOR rbytes=N wbytes=N ...", one of each device. */
static void slurm_io(samples_t *samples, const char *dir, const char *job)
{
    double read_bytes = 0, written_bytes = 0;
    char path[PATH_MAX], line[512];
    const char *at;
    FILE *file;

    snprintf(path, sizeof(path), "%s/io.stat", dir);
    file = fopen(path, "r");
    if (file == NULL) {
        return; /* this controller is not always on */
    }
    while (fgets(line, sizeof(line), file) != NULL) {
        at = strstr(line, " rbytes=");
        read_bytes += (at != NULL) ? strtod(at + 8, NULL) : 0;
        at = strstr(line, " wbytes=");
        written_bytes += (at != NULL) ? strtod(at + 8, NULL) : 0;
    }
    fclose(file);
    samples_add(samples, 1, read_bytes, "slurm_job_io_read_bytes{job=\"%s\"}", job);
    samples_add(samples, 1, written_bytes, "slurm_job_io_written_bytes{job=\"%s\"}", job);
}

static void slurm_job(samples_t *samples, const char *dir)
{
    const char *job = strrchr(dir, '/') + strlen("/job_");
    double user = slurm_field(dir, "cpu.stat", "user_usec");
    double system = slurm_field(dir, "cpu.stat", "system_usec"), value;
    char path[PATH_MAX];

    if ((user >= 0) && (system >= 0)) {
        samples_add(samples, 1, user * 1e-6, "slurm_job_cpu_seconds{job=\"%s\",mode=\"user\"}", job);
        samples_add(samples, 1, system * 1e-6, "slurm_job_cpu_seconds{job=\"%s\",mode=\"system\"}",
                    job);
    }
    snprintf(path, sizeof(path), "%s/memory.current", dir);
    if (samples_read_number(path, &value) == 0) {
        samples_add(samples, 0, value, "slurm_job_memory_bytes{job=\"%s\"}", job);
    }
    value = slurm_field(dir, "memory.events", "oom_kill");
    if (value >= 0) {
        samples_add(samples, 1, value, "slurm_job_oom_kills{job=\"%s\"}", job);
    }
    slurm_io(samples, dir, job);
}

static void slurm_tick(udmon_node_t *node, void *state)
{
    const char *root = udmon_node_option(node, "root");
    samples_t *samples = samples_begin(node);
    char pattern[PATH_MAX];
    glob_t found;
    size_t i;

    (void)state;
    snprintf(pattern, sizeof(pattern), "%s/system.slice/*slurmstepd.scope/job_*",
             (root != NULL) ? root : "/sys/fs/cgroup");
    if (glob(pattern, GLOB_ONLYDIR, NULL, &found) == 0) {
        for (i = 0; i < found.gl_pathc; ++i) {
            slurm_job(samples, found.gl_pathv[i]);
        }
        globfree(&found);
    }
    samples_end(samples);
}

const udmon_node_type_t sensor_slurm = {
    .name = "slurm",
    .options = slurm_options,
    .tick = slurm_tick,
    .has_output = 1,
};

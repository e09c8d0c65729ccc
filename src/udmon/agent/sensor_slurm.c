/*
 * The use of each Slurm job on this host. slurmd makes a control group for a job. Version 2: job_ID
 * below slurmstepd.scope. With several slurmd processes the scope is NODE_slurmstepd.scope.
 * Version 1 (RHEL 8): uid_UID/job_ID below slurm or slurm_NODE, for each controller that Slurm is
 * configured to use. Slurm does not use the controller of I/O, and version 1 counts kills in the
 * groups of tasks, which end with their tasks: both are left out there.
 *
 * A control group does not name the user and the partition. When a job appears, the sensor asks
 * `squeue` for both. The job's samples are sent after the answer, so their labels never change. If
 * squeue is missing or does not know the job, the user is the owner of the job's processes. The output
 * of squeue is read at each tick.
 */
#include "node.h"
#include "samples.h"
#include "types.h"
#include "../lib/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <pwd.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Directory services have names as "first.last@department.example.org". */
enum { JOB_ID_MAX = 32, USER_MAX = 256, JOBS_ASKED_MAX = 512 };
enum { ANSWER_MAX = JOBS_ASKED_MAX * (JOB_ID_MAX + 2 * USER_MAX) };
#define ANSWER_NS UINT64_C(10000000000)

struct job {
    LIST_ENTRY(job) list;
    char id[JOB_ID_MAX];
    char labels[2 * USER_MAX + 80]; /* "" until they are known */
    int asked, seen; /* squeue has been asked for this job; the job exists in this tick */
};

struct slurm {
    LIST_HEAD(, job) jobs;
    int told;     /* that there are no control groups */
    pid_t squeue; /* running, or 0 */
    uint64_t asked_ns;
    int output; /* of squeue; does not block */
    char answer[ANSWER_MAX];
    size_t length;
};

extern char **environ;

static const char *const slurm_options[] = {"root", "squeue", NULL};

/* The number behind a word in a file of "WORD NUMBER" lines; negative if it is not there. */
static double slurm_field(const char *dir, const char *file_name, const char *word)
{
    double number, value = -1;
    char path[PATH_MAX], name[64];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", dir, file_name);
    file = samples_open(path);
    if (file == NULL) {
        return -1; /* the job has ended */
    }
    while (fscanf(file, "%63s %lf", name, &number) == 2) {
        value = !strcmp(name, word) ? number : value;
    }
    fclose(file);
    return value;
}

/* ---- users and partitions -------------------------------------------------------------------- */

static void job_label(struct job *job, const char *user, const char *partition)
{
    char clean_user[USER_MAX + 5], clean_partition[USER_MAX + 5];

    samples_label(clean_user, sizeof(clean_user), user);
    samples_label(clean_partition, sizeof(clean_partition), partition);
    snprintf(job->labels, sizeof(job->labels), "job=\"%s\",user=\"%s\",partition=\"%s\"", job->id,
             clean_user, clean_partition);
}

/* By the host's own file: getpwuid may ask a directory service, and wait for it. */
static void user_name(uid_t uid, char *name, size_t size)
{
    FILE *file = fopen("/etc/passwd", "re");
    struct passwd *user = NULL;

    snprintf(name, size, "%u", (unsigned)uid);
    while ((file != NULL) && ((user = fgetpwent(file)) != NULL)) {
        if (user->pw_uid == uid) {
            snprintf(name, size, "%s", user->pw_name);
            break;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
}

/*
 * The user of a job: in version 1 by the name of the control group, in version 2 the owner of the
 * first process in the job's control groups, or "".
 */
static void job_owner(const char *dir, char *user, size_t size)
{
    char pattern[PATH_MAX], process[64];
    const char *uid = strstr(dir, "/uid_"); /* of version 1 */
    struct stat status;
    double pid;
    glob_t found;
    size_t i;

    if (uid != NULL) {
        user_name(strtoul(uid + strlen("/uid_"), NULL, 10), user, size);
        return;
    }
    user[0] = '\0';
    snprintf(pattern, sizeof(pattern), "%s/step_*/user/task_*/cgroup.procs", dir);
    if (glob(pattern, 0, NULL, &found) != 0) {
        return;
    }
    for (i = 0; (i < found.gl_pathc) && (user[0] == '\0'); ++i) {
        if (samples_read_number(found.gl_pathv[i], &pid) < 0) {
            continue;
        }
        snprintf(process, sizeof(process), "/proc/%.0f", pid);
        if (stat(process, &status) == 0) {
            user_name(status.st_uid, user, size);
        }
    }
    globfree(&found);
}

/* Lines "ID USER PARTITION" of jobs that have been asked for. */
static void slurm_answered(struct slurm *slurm)
{
    char id[JOB_ID_MAX], user[USER_MAX], partition[USER_MAX], *line, *rest = slurm->answer;
    struct job *job;

    slurm->answer[slurm->length] = '\0';
    while ((line = strsep(&rest, "\n")) != NULL) {
        if (sscanf(line, "%31s %255s %255s", id, user, partition) != 3) {
            continue;
        }
        LIST_FOREACH(job, &slurm->jobs, list) {
            if (!strcmp(job->id, id) && (job->labels[0] == '\0')) {
                job_label(job, user, partition);
            }
        }
    }
}

/* squeue has closed its output, or takes too long: it is not needed any more. */
static void slurm_end_squeue(struct slurm *slurm)
{
    kill(slurm->squeue, SIGKILL);
    waitpid(slurm->squeue, NULL, 0);
    slurm->squeue = 0;
    close(slurm->output);
}

static void slurm_listen(struct slurm *slurm)
{
    ssize_t length;

    do {
        length = read(slurm->output, slurm->answer + slurm->length,
                      sizeof(slurm->answer) - 1 - slurm->length);
        slurm->length += (length > 0) ? length : 0;
    } while (length > 0);
    if ((length == 0) || ((errno != EAGAIN) && (errno != EINTR))) {
        slurm_answered(slurm);
        slurm_end_squeue(slurm);
    }
}

static int slurm_spawn(struct slurm *slurm, const char *program, char *ids)
{
    char *const arguments[] = {(char *)program, "-h", "-o", "%A %u %P", "-j", ids, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    int ends[2], ret;

    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0) {
        return -errno;
    }
    sigemptyset(&none);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK); /* the agent's signals are
                                                                    * blocked */
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    ret = posix_spawnp(&slurm->squeue, program, &actions, &attributes, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    close(ends[1]);
    if (ret != 0) {
        slurm->squeue = 0;
        close(ends[0]);
        return -ret;
    }
    slurm->output = ends[0];
    return 0;
}

/* Asks squeue for all new jobs at once. One squeue runs at a time. */
static void slurm_ask(const struct udmon_node *node, struct slurm *slurm)
{
    const char *program = udmon_node_option(node, "squeue");
    char ids[JOBS_ASKED_MAX * JOB_ID_MAX] = "";
    size_t length = 0;
    unsigned count = 0;
    struct job *job;
    int ret;

    if (slurm->squeue != 0) {
        if ((udmon_now_ns() - slurm->asked_ns) > ANSWER_NS) {
            udmon_warn("node %s: squeue does not answer: jobs have no partition", node->name);
            slurm_end_squeue(slurm);
        }
        return;
    }
    LIST_FOREACH(job, &slurm->jobs, list) {
        if (!job->asked && (count < JOBS_ASKED_MAX)) {
            job->asked = 1;
            length += sprintf(ids + length, "%s%s", (count++ > 0) ? "," : "", job->id);
        }
    }
    if (count > 0) {
        slurm->asked_ns = udmon_now_ns();
        slurm->length = 0;
        ret = slurm_spawn(slurm, (program != NULL) ? program : "squeue", ids);
        /* without squeue, the owners of processes are used */
        if ((ret < 0) && (ret != -ENOENT)) {
            udmon_warn("node %s: cannot start squeue: %s: jobs have no partition", node->name,
                       strerror(-ret));
        }
    }
}

/* The job of a control group, made if it is new. NULL: no memory, or no name of a job. */
static struct job *slurm_find(struct slurm *slurm, const char *dir)
{
    const char *id = strrchr(dir, '/') + strlen("/job_");
    struct job *job;

    LIST_FOREACH(job, &slurm->jobs, list) {
        if (!strcmp(job->id, id)) {
            return job;
        }
    }
    job = ((strlen(id) < JOB_ID_MAX) && (id[strspn(id, "0123456789_+")] == '\0')) ?
              calloc(1, sizeof(*job)) :
              NULL;
    if (job != NULL) {
        strcpy(job->id, id);
        LIST_INSERT_HEAD(&slurm->jobs, job, list);
    }
    return job;
}

static void slurm_forget(struct slurm *slurm, int all)
{
    struct job *job, *next;

    for (job = LIST_FIRST(&slurm->jobs); job != NULL; job = next) {
        next = LIST_NEXT(job, list);
        if (all || !job->seen) {
            LIST_REMOVE(job, list);
            free(job);
        } else {
            job->seen = 0;
        }
    }
}

/* ---- samples --------------------------------------------------------------------------------- */

/* Bytes read and written, in a line of io.stat: "MAJOR:MINOR rbytes=N wbytes=N ..." of a device. */
static void slurm_io_line(struct samples *samples, const char *line, void *arg)
{
    const char *read = strstr(line, " rbytes="), *written = strstr(line, " wbytes=");
    double *bytes = arg;

    (void)samples;
    bytes[0] += (read != NULL) ? strtod(read + 8, NULL) : 0;
    bytes[1] += (written != NULL) ? strtod(written + 8, NULL) : 0;
}

static void slurm_io(struct samples *samples, const char *dir, const char *labels)
{
    double bytes[2] = {0, 0};
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/io.stat", dir);
    if (samples_read_lines(samples, path, slurm_io_line, bytes)) { /* not always on */
        samples_add(samples, 1, bytes[0], "slurm_job_io_read_bytes{%s}", labels);
        samples_add(samples, 1, bytes[1], "slurm_job_io_written_bytes{%s}", labels);
    }
}

/* The processors that the job may use, from a file with a list as 0-3,8. */
static void slurm_cpus(struct samples *samples, const char *path, const char *labels)
{
    FILE *file = samples_open(path);
    unsigned first, last, count = 0;
    int read, more = ',';

    while ((file != NULL) && (more == ',') && ((read = fscanf(file, "%u-%u", &first, &last)) > 0)) {
        last = (read == 2) ? last : first;
        count += (last >= first) ? (last - first + 1) : 0;
        more = fgetc(file);
    }
    if (file != NULL) {
        fclose(file);
    }
    if (count > 0) {
        samples_add(samples, 0, count, "slurm_job_cpus{%s}", labels);
    }
}

static void slurm_job(struct samples *samples, const char *dir, const char *labels)
{
    double user = slurm_field(dir, "cpu.stat", "user_usec");
    double system = slurm_field(dir, "cpu.stat", "system_usec"), value;
    char path[PATH_MAX];

    if ((user >= 0) && (system >= 0)) {
        samples_add(samples, 1, user * 1e-6, "slurm_job_cpu_seconds{%s,mode=\"user\"}", labels);
        samples_add(samples, 1, system * 1e-6, "slurm_job_cpu_seconds{%s,mode=\"system\"}", labels);
    }
    snprintf(path, sizeof(path), "%s/cpuset.cpus.effective", dir);
    slurm_cpus(samples, path, labels);
    snprintf(path, sizeof(path), "%s/memory.current", dir);
    if (samples_read_number(path, &value) == 0) {
        samples_add(samples, 0, value, "slurm_job_memory_bytes{%s}", labels);
    }
    value = slurm_field(dir, "memory.events", "oom_kill");
    if (value >= 0) {
        samples_add(samples, 1, value, "slurm_job_oom_kills{%s}", labels);
    }
    slurm_io(samples, dir, labels);
}

/* Version 1: `group` is the job's control group below each controller. */
static void slurm_job_v1(struct samples *samples, const char *root, const char *group,
                         const char *labels)
{
    double ticks = sysconf(_SC_CLK_TCK), user, system, bytes;
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/cpuacct%s", root, group);
    user = slurm_field(path, "cpuacct.stat", "user");
    system = slurm_field(path, "cpuacct.stat", "system");
    if ((user >= 0) && (system >= 0)) {
        samples_add(samples, 1, user / ticks, "slurm_job_cpu_seconds{%s,mode=\"user\"}", labels);
        samples_add(samples, 1, system / ticks, "slurm_job_cpu_seconds{%s,mode=\"system\"}",
                    labels);
    }
    snprintf(path, sizeof(path), "%s/cpuset%s/cpuset.cpus", root, group);
    slurm_cpus(samples, path, labels);
    snprintf(path, sizeof(path), "%s/memory%s/memory.usage_in_bytes", root, group);
    if (samples_read_number(path, &bytes) == 0) {
        samples_add(samples, 0, bytes, "slurm_job_memory_bytes{%s}", labels);
    }
}

/* A control group of a job. Version 1 has a group for each controller; the first one counts. */
static void slurm_found(struct slurm *slurm, struct samples *samples, const char *root,
                        const char *controller, const char *dir)
{
    struct job *job = slurm_find(slurm, dir);
    char user[USER_MAX];

    if ((job == NULL) || job->seen) {
        return;
    }
    job->seen = 1;
    if (job->asked && (job->labels[0] == '\0') && (slurm->squeue == 0)) {
        job_owner(dir, user, sizeof(user));
        job_label(job, user, "");
    }
    if (job->labels[0] == '\0') {
        return;
    }
    if (controller == NULL) {
        slurm_job(samples, dir, job->labels);
    } else {
        slurm_job_v1(samples, root, dir + strlen(root) + 1 + strlen(controller), job->labels);
    }
}

/* Returns whether Slurm has made control groups in this place, with or without jobs. */
static bool slurm_look(struct slurm *slurm, struct samples *samples, const char *root,
                       const char *controller, const char *pattern)
{
    char path[PATH_MAX];
    glob_t found;
    bool any;
    size_t i;

    snprintf(path, sizeof(path), "%s/%s/%s/job_*", root,
             (controller != NULL) ? controller : "system.slice", pattern);
    if (glob(path, GLOB_ONLYDIR, NULL, &found) == 0) {
        for (i = 0; i < found.gl_pathc; ++i) {
            slurm_found(slurm, samples, root, controller, found.gl_pathv[i]);
        }
        globfree(&found);
        return true;
    }
    if (slurm->told) {
        return false;
    }
    *strrchr(path, '/') = '\0';
    any = (glob(path, GLOB_ONLYDIR, NULL, &found) == 0);
    if (any) {
        globfree(&found);
    }
    return any;
}

static void slurm_tick(struct udmon_node *node, void *state)
{
    const char *root = udmon_node_option(node, "root");
    struct samples *samples = samples_begin(node);
    struct slurm *slurm = state;
    bool any;

    root = (root != NULL) ? root : "/sys/fs/cgroup";
    if (slurm->squeue != 0) {
        slurm_listen(slurm);
    }
    any = slurm_look(slurm, samples, root, NULL, "*slurmstepd.scope");
    any |= slurm_look(slurm, samples, root, "memory", "slurm*/uid_*");
    any |= slurm_look(slurm, samples, root, "cpuacct", "slurm*/uid_*");
    samples_end(samples);
    if (!any && !slurm->told) {
        udmon_warn("node %s: %s has no control groups of Slurm: no job runs here, or Slurm is not "
                   "configured to use control groups",
                   node->name, root);
        slurm->told = 1;
    }
    slurm_forget(slurm, 0);
    slurm_ask(node, slurm);
}

static int slurm_create(struct udmon_node *node, void **state_p)
{
    struct slurm *slurm = calloc(1, sizeof(*slurm));

    (void)node;
    if (slurm == NULL) {
        return -ENOMEM;
    }
    LIST_INIT(&slurm->jobs);
    *state_p = slurm;
    return 0;
}

static void slurm_destroy(void *state)
{
    struct slurm *slurm = state;

    if (slurm->squeue != 0) {
        slurm_end_squeue(slurm);
    }
    slurm_forget(slurm, 1);
    free(slurm);
}

const struct udmon_node_type sensor_slurm = {
    .name = "slurm",
    .options = slurm_options,
    .create = slurm_create,
    .destroy = slurm_destroy,
    .tick = slurm_tick,
    .has_output = 1,
    .blocking = 1,
};

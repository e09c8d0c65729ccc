/*
 * glex_info --all: every fabric of a user, and for root the fabrics of all users.
 *
 * libglex reads GLEX_FABRIC and the user's number once, so each fabric gets a separate process.
 * root's process first takes the number of the user. So a symbolic link in the user's directory
 * gives no access beyond the user's own rights.
 */
#include "info.h"

#include <dirent.h>
#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define PREFIX "glex-" /* of a user's directory: "glex-1000" */

struct all {
    const struct info_options *options;
    info_look_fn look;
    unsigned num_fabrics;
    bool ok;
    DIR *users, *fabrics; /* reachable in the forked process: no leak */
};

static const char *shm_dir(void)
{
    const char *dir = getenv("GLEX_SHM_DIR");

    return dir != NULL ? dir : "/dev/shm";
}

static bool become(uid_t uid, gid_t gid)
{
    return geteuid() == uid || (setgroups(0, NULL) == 0 && setresgid(gid, gid, gid) == 0 &&
                                setresuid(uid, uid, uid) == 0);
}

static void visit_fabric(struct all *all, const struct stat *user, const char *fabric)
{
    int status;
    pid_t child;

    if (all->options->json) {
        fputs(all->num_fabrics > 0 ? ",\n" : "", stdout);
    } else {
        printf("%sfabric %s of user %u:\n", all->num_fabrics > 0 ? "\n" : "", fabric, user->st_uid);
    }
    all->num_fabrics++;
    fflush(stdout);
    child = fork();
    if (child == 0) {
        if (!become(user->st_uid, user->st_gid)) {
            tool_error("cannot become user %u: %s", user->st_uid, strerror(errno));
            _exit(TOOL_EXIT_FAIL);
        }
        setenv("GLEX_FABRIC", fabric, 1);
        exit(all->look(all->options) ? TOOL_EXIT_OK : TOOL_EXIT_FAIL);
    }
    if (child < 0) {
        tool_error("cannot start a process for fabric %s: %s", fabric, strerror(errno));
        all->ok = false;
    } else if (waitpid(child, &status, 0) != child || status != 0) {
        all->ok = false;
    }
}

static void visit_user(struct all *all, const char *path)
{
    struct dirent *entry;
    char name[sizeof(PREFIX) + 16];
    struct stat user;

    if (lstat(path, &user) != 0 || !S_ISDIR(user.st_mode)) {
        return;
    }
    /* A directory of another owner than its name says is not libglex's. */
    snprintf(name, sizeof(name), "/" PREFIX "%u", user.st_uid);
    if (strcmp(strrchr(path, '/'), name) != 0 || (geteuid() != 0 && user.st_uid != geteuid())) {
        return;
    }
    all->fabrics = opendir(path);
    if (all->fabrics == NULL) {
        tool_error("cannot read %s: %s", path, strerror(errno));
        all->ok = false;
        return;
    }
    while ((entry = readdir(all->fabrics)) != NULL) {
        if (entry->d_name[0] != '.' && entry->d_type == DT_DIR) {
            visit_fabric(all, &user, entry->d_name);
        }
    }
    closedir(all->fabrics);
}

bool info_all(const struct info_options *options, info_look_fn look)
{
    struct all all = {.options = options, .look = look, .ok = true};
    struct dirent *entry;
    char path[4096];

    all.users = opendir(shm_dir());
    if (all.users == NULL) {
        tool_error("cannot read GLEX_SHM_DIR, %s: %s", shm_dir(), strerror(errno));
        return false;
    }
    if (options->json) {
        puts("[");
    }
    while ((entry = readdir(all.users)) != NULL) {
        if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) == 0 &&
            snprintf(path, sizeof(path), "%s/%s", shm_dir(), entry->d_name) < (int)sizeof(path)) {
            visit_user(&all, path);
        }
    }
    closedir(all.users);
    if (options->json) {
        puts("]");
    } else if (all.num_fabrics == 0) {
        puts("no fabrics");
    }
    return tool_finish_output() && all.ok;
}

#include "hook.h"

#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PER_SECOND = 10 };

extern char **environ;

static char *to_json(const struct mcsm_config *config, const struct mcsm_event *event)
{
    static const char *const levels[] = {"error", "warn", "info", "debug"};
    json_object *json = json_object_new_object();
    char guid[24], *text;

    json_object_object_add(json, "event", json_object_new_string(event->name));
    json_object_object_add(json, "cluster", json_object_new_string(config->name));
    json_object_object_add(json, "level", json_object_new_string(levels[event->level]));
    json_object_object_add(json, "time", json_object_new_int64(time(NULL)));
    json_object_object_add(json, "message", json_object_new_string(event->text));
    if (event->guid != 0) {
        snprintf(guid, sizeof(guid), "0x%016lx", event->guid);
        json_object_object_add(json, "guid", json_object_new_string(guid));
        json_object_object_add(json, "port", json_object_new_int(event->port));
    }
    text = strdup(json_object_to_json_string(json));
    json_object_put(json);
    return text;
}

/* Starts the command with `in` as its standard input and with all signals unblocked. */
static int start(const char *command, int in)
{
    char *arguments[] = {"sh", "-c", (char *)command, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    pid_t child;
    int status;

    sigemptyset(&none);
    sigemptyset(&all);
    sigaddset(&all, SIGPIPE);
    sigaddset(&all, SIGCHLD);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    status = posix_spawn(&child, "/bin/sh", &actions, &attributes, arguments, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return -status;
}

void mcsm_hook_run(const struct mcsm_config *config, const struct mcsm_event *event)
{
    static time_t second;
    static int count;
    int ends[2], status;
    time_t now = time(NULL);
    char *text;

    if (config->on_event[0] == '\0') {
        return;
    }
    count = now == second ? count + 1 : 1;
    second = now;
    if (count > PER_SECOND) {
        if (count == PER_SECOND + 1) {
            mcsm_warn("on-event: more than %d events in a second; the others are only in the log",
                      PER_SECOND);
        }
        return;
    }
    text = to_json(config, event);
    if (text == NULL || pipe2(ends, O_CLOEXEC) < 0) {
        mcsm_warn("on-event: %s", strerror(errno));
        free(text);
        return;
    }
    /* A pipe has room for an event, so this does not block. */
    status = dprintf(ends[1], "%s\n", text) < 0 ? -errno : start(config->on_event, ends[0]);
    if (status < 0) {
        mcsm_warn("on-event = %s: %s", config->on_event, strerror(-status));
    }
    close(ends[0]);
    close(ends[1]);
    free(text);
}

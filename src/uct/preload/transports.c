#include "transports.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const ucx_library_names[UCX_NUM_LIBRARIES] = {"libucm", "libucs", "libuct", "libucp"};

/* For each library, a function that every version defines and no program defines */
static const char *const ucx_functions[UCX_NUM_LIBRARIES] = {
    "ucm_set_event_handler", "ucs_status_string", "uct_query_components", "ucp_get_version_string"};

static void found_add(struct ucx_found *found, enum ucx_library library, void *function)
{
    if (preload_object_of(function, &found->objects[library])) {
        preload_build_id(&found->objects[library], found->build.ids[library]);
        if (found->build.ids[library][0] == '\0') {
            strcpy(found->build.ids[library], "-");
        }
    }
}

bool ucx_find(const struct preload_object *caller, struct ucx_found *found)
{
    void *function = preload_function(caller, ucx_functions[UCX_LIBUCT]);
    const char *(*get_version)(void);
    struct preload_object above;
    int library;

    memset(found, 0, sizeof(*found));
    found->query = function;
    found_add(found, UCX_LIBUCT, function);
    if (found->objects[UCX_LIBUCT].base == NULL) {
        return false;
    }
    /* Searches each library from the library that depends on it. */
    above = found->objects[UCX_LIBUCT];
    for (library = UCX_LIBUCS; library >= UCX_LIBUCM; library--) {
        found_add(found, library, preload_function(&above, ucx_functions[library]));
        if (found->objects[library].base == NULL) {
            break;
        }
        above = found->objects[library];
    }
    get_version = (const char *(*)(void))preload_function(caller, ucx_functions[UCX_LIBUCP]);
    if (get_version != NULL) {
        found_add(found, UCX_LIBUCP, (void *)get_version);
        snprintf(found->build.version, sizeof(found->build.version), "%s", get_version());
    }
    return true;
}

/*
 * A program may use libuct without libucp. Libraries without build-ids are compared by the version
 * that libucp returns.
 */
static bool is_same(const struct ucx_build *wanted, const struct ucx_build *found, int library)
{
    if (library == UCX_LIBUCP && found->ids[library][0] == '\0') {
        return true;
    }
    if (strcmp(wanted->ids[library], found->ids[library]) != 0) {
        return false;
    }
    return strcmp(found->ids[library], "-") != 0 || found->version[0] == '\0' ||
           strcmp(wanted->version, found->version) == 0;
}

enum ucx_library transport_mismatch(const struct transport *transport,
                                    const struct ucx_found *found)
{
    int library;

    /* libuct first: a transport is compiled against libuct */
    if (!is_same(&transport->build, &found->build, UCX_LIBUCT)) {
        return UCX_LIBUCT;
    }
    for (library = UCX_LIBUCM; library < UCX_NUM_LIBRARIES; library++) {
        if (!is_same(&transport->build, &found->build, library)) {
            return library;
        }
    }
    return UCX_NUM_LIBRARIES;
}

static void build_set(struct ucx_build *build, const char *name, const char *value)
{
    int library;

    if (strcmp(name, "version") == 0) {
        snprintf(build->version, sizeof(build->version), "%.31s", value);
        return;
    }
    for (library = 0; library < UCX_NUM_LIBRARIES; library++) {
        if (strcmp(name, ucx_library_names[library]) == 0) {
            snprintf(build->ids[library], sizeof(build->ids[library]), "%s", value);
        }
    }
}

/* The file ucx-build: lines of a name and a value, written by configure */
static bool transport_read(const char *dir, struct transport *transport)
{
    char path[PATH_MAX + sizeof("/ucx-build")], name[16], value[2 * PRELOAD_BUILD_ID_MAX + 1];
    FILE *file;

    memset(transport, 0, sizeof(*transport));
    if (snprintf(transport->dir, sizeof(transport->dir), "%s", dir) >= PATH_MAX) {
        return false;
    }
    snprintf(path, sizeof(path), "%s/ucx-build", dir);
    file = fopen(path, "re");
    if (file == NULL) {
        return false;
    }
    while (fscanf(file, "%15s %128s", name, value) == 2) {
        build_set(&transport->build, name, value);
    }
    fclose(file);
    return transport->build.ids[UCX_LIBUCT][0] != '\0';
}

static void visit_directories(char *list, bool (*visit)(const struct transport *, void *),
                              void *arg)
{
    struct transport transport;
    char *dir, *rest;

    for (dir = strtok_r(list, ":", &rest); dir != NULL; dir = strtok_r(NULL, ":", &rest)) {
        if (transport_read(dir, &transport) && visit(&transport, arg)) {
            return;
        }
    }
}

static void visit_installed(bool (*visit)(const struct transport *, void *), void *arg)
{
    struct preload_object self;
    struct transport transport;
    char pattern[PATH_MAX];
    glob_t found;
    size_t i;

    if (!preload_object_of((void *)transports_each, &self) ||
        snprintf(pattern, sizeof(pattern), "%.*s/ucx-*", (int)(strrchr(self.path, '/') - self.path),
                 self.path) >= PATH_MAX ||
        glob(pattern, 0, NULL, &found) != 0) {
        return;
    }
    for (i = 0; i < found.gl_pathc; i++) {
        if (transport_read(found.gl_pathv[i], &transport) && visit(&transport, arg)) {
            break;
        }
    }
    globfree(&found);
}

void transports_each(bool (*visit)(const struct transport *, void *), void *arg)
{
    const char *list = secure_getenv("GLEX_TRANSPORTS");
    char *copy = list != NULL ? strdup(list) : NULL;

    if (copy != NULL) {
        visit_directories(copy, visit, arg);
        free(copy);
    } else {
        visit_installed(visit, arg);
    }
}

/*
 * A library for LD_PRELOAD that adds the transport glex, and on request ud_mon, to the UCX of a
 * program, if the transport was compiled for exactly that UCX. In every other process the library
 * does nothing.
 *
 * The library depends on libc only. A library that depends on libuct would bring the system's
 * libuct into each process, before the program's own libuct.
 *
 * The library replaces two functions of UCX:
 *
 * - uct_query_components(): libucp calls it in ucp_init(), programs of libuct call it first.
 * - ucp_config_read(): ucp_init() and programs call it earlier, to read UCX_TLS.
 *
 * A replaced function finds the UCX of its caller, opens the transport for this UCX, and calls the
 * function of this UCX. If the caller has opened libucp by dlopen() with RTLD_LOCAL, the dynamic
 * linker also searches preloaded libraries first.
 *
 * openmpi.c replaces a function of MPI.
 */
#include "transports.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

/* Values of ucs_status_t */
#define STATUS_OK          0
#define STATUS_UNSUPPORTED (-22)

EXPORT int uct_query_components(void ***components_p, unsigned *num_components_p);
EXPORT int ucp_config_read(const char *env_prefix, const char *filename, void **config_p);

/* The best transport for a UCX */
struct choice {
    const struct ucx_found *found;
    struct transport transport;
    enum ucx_library mismatch; /* UCX_NUM_LIBRARIES: none, the transport fits */
    char versions[256];        /* of all installed transports, separated by commas */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const void *refused; /* the libuct of the last message: one message for each UCX */

static bool is_yes(const char *name)
{
    const char *value = getenv(name);

    return value != NULL && strcmp(value, "y") == 0;
}

static bool is_required(void)
{
    return is_yes("GLEX_REQUIRE");
}

/* The first rank of a job speaks for all, unless glex is required. */
static bool is_speaker(void)
{
    static const char *const ranks[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK",
                                        "SLURM_PROCID"};
    const char *rank;
    size_t i;

    for (i = 0; i < sizeof(ranks) / sizeof(*ranks); i++) {
        rank = getenv(ranks[i]);
        if (rank != NULL) {
            return is_required() || strcmp(rank, "0") == 0;
        }
    }
    return true;
}

/* Says once for each UCX why the transport is not used. Returns false. */
static bool refuse(const struct ucx_found *found, const char *why)
{
    if (refused != found->objects[UCX_LIBUCT].base && is_speaker()) {
        fprintf(stderr, "glex: not used: %s: %s\n", why,
                is_required() ? "GLEX_REQUIRE=y makes this an error" :
                                "the program runs on its own UCX, without glex");
    }
    refused = found->objects[UCX_LIBUCT].base;
    return false;
}

static bool refuse_build(const struct choice *choice)
{
    const struct ucx_found *found = choice->found;
    const char *library = ucx_library_names[choice->mismatch];
    const char *path = found->objects[choice->mismatch].path;
    char why[2 * PATH_MAX];

    if (choice->versions[0] == '\0') {
        return refuse(found, "no transport is installed: install openglex again");
    }
    if (path == NULL) {
        snprintf(why, sizeof(why), "the UCX%s%s of this program has no %s as a library of its own",
                 found->build.version[0] != '\0' ? " " : "", found->build.version, library);
        return refuse(found, why);
    }
    snprintf(why, sizeof(why),
             "this program uses UCX%s%s (%s, build-id %s), and transports are installed for UCX %s "
             "(%s of build-id %s): build openglex for the program's UCX (docs/ucx-versions.md)",
             found->build.version[0] != '\0' ? " " : "", found->build.version,
             path[0] != '\0' ? path : "in the program itself", found->build.ids[choice->mismatch],
             choice->versions, library, choice->transport.build.ids[choice->mismatch]);
    return refuse(found, why);
}

/* Prefers the transport of which more libraries fit: its message names the exact difference. */
static bool choose(const struct transport *transport, void *arg)
{
    enum ucx_library mismatch;
    struct choice *choice = arg;
    size_t used = strlen(choice->versions);

    snprintf(choice->versions + used, sizeof(choice->versions) - used, "%s%s", used > 0 ? ", " : "",
             transport->build.version);
    mismatch = transport_mismatch(transport, choice->found);
    if (used == 0 || choice->mismatch == UCX_LIBUCT) {
        choice->transport = *transport;
        choice->mismatch = mismatch;
    }
    return mismatch == UCX_NUM_LIBRARIES;
}

/*
 * Opens a transport, for good: UCX keeps pointers to it. The constructor of the transport adds it
 * to the components of the libuct that the transport is linked to. If two copies of libuct are
 * loaded, this may be the other copy.
 */
static bool transport_open(const struct transport *transport, const struct ucx_found *found)
{
    char path[PATH_MAX + sizeof("/libuct_glex.so")], why[2 * PATH_MAX];
    void *handle;

    snprintf(path, sizeof(path), "%s/libuct_glex.so", transport->dir);
    handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (handle == NULL) {
        snprintf(why, sizeof(why), "cannot load the transport: %s", dlerror());
        return refuse(found, why);
    }
    if (dlsym(handle, "uct_query_components") != found->query) {
        snprintf(why, sizeof(why), "two copies of libuct are in this process, and %s is the second",
                 found->objects[UCX_LIBUCT].path);
        return refuse(found, why);
    }
    return true;
}

/*
 * Opens monitoring's transport ud_mon, for good. ud_mon lies beside the transport glex for the same
 * UCX. A program that does not ask for ud_mon must not load the libraries of InfiniBand.
 */
static void ud_mon_open(const struct transport *transport)
{
    char path[PATH_MAX + sizeof("/libuct_ib_ud_mon.so")];
    static bool is_tried;

    if (is_tried || !is_yes("GLEX_UD_MON")) {
        return;
    }
    is_tried = true;
    snprintf(path, sizeof(path), "%s/libuct_ib_ud_mon.so", transport->dir);
    if (dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE) == NULL && is_speaker()) {
        fprintf(stderr, "glex: ud_mon is not used: %s\n", dlerror());
    }
}

/* Adds the transport to the UCX of a caller. Returns whether it is there. */
static bool transport_add(const struct preload_object *caller)
{
    struct choice choice = {.mismatch = UCX_LIBUCT};
    struct ucx_found found;
    bool added = false;

    if (!ucx_find(caller, &found)) {
        return false;
    }
    choice.found = &found;
    pthread_mutex_lock(&lock);
    transports_each(choose, &choice);
    if (choice.mismatch == UCX_NUM_LIBRARIES) {
        added = transport_open(&choice.transport, &found);
        if (added) {
            ud_mon_open(&choice.transport);
        }
    } else {
        added = refuse_build(&choice);
    }
    pthread_mutex_unlock(&lock);
    return added;
}

int uct_query_components(void ***components_p, unsigned *num_components_p)
{
    int (*query)(void ***, unsigned *);
    struct preload_object caller;

    if (!preload_object_of(__builtin_return_address(0), &caller)) {
        return STATUS_UNSUPPORTED;
    }
    query = (int (*)(void ***, unsigned *))preload_function(&caller, "uct_query_components");
    if (query == NULL || (!transport_add(&caller) && is_required())) {
        return STATUS_UNSUPPORTED;
    }
    return query(components_p, num_components_p);
}

/* Whether the user has set UCX_TLS, by itself or with the program's prefix: "MPI_UCX_TLS" */
static bool is_tls_set(const char *env_prefix)
{
    char name[128];

    if (getenv("UCX_TLS") != NULL) {
        return true;
    }
    if (env_prefix == NULL || env_prefix[0] == '\0') {
        return false;
    }
    snprintf(name, sizeof(name), "%s_UCX_TLS", env_prefix);
    return getenv(name) != NULL;
}

/*
 * GLEX_UCX_TLS is the value of UCX_TLS for a process that has the transport. UCX_TLS itself, set by
 * glexrun for all processes, would leave a process without the transport no way to send.
 */
int ucp_config_read(const char *env_prefix, const char *filename, void **config_p)
{
    const char *tls = getenv("GLEX_UCX_TLS");
    int (*read_config)(const char *, const char *, void **);
    int (*modify)(void *, const char *, const char *);
    struct preload_object caller;
    bool added;
    int status;

    if (!preload_object_of(__builtin_return_address(0), &caller)) {
        return STATUS_UNSUPPORTED;
    }
    read_config =
        (int (*)(const char *, const char *, void **))preload_function(&caller, "ucp_config_read");
    modify =
        (int (*)(void *, const char *, const char *))preload_function(&caller, "ucp_config_modify");
    if (read_config == NULL || !preload_object_of((void *)read_config, &caller)) {
        return STATUS_UNSUPPORTED;
    }
    added = transport_add(&caller); /* `caller` is libucp now */
    if (!added && is_required()) {
        return STATUS_UNSUPPORTED;
    }
    status = read_config(env_prefix, filename, config_p);
    if (status == STATUS_OK && added && tls != NULL && modify != NULL && !is_tls_set(env_prefix)) {
        status = modify(*config_p, "TLS", tls);
    }
    return status;
}

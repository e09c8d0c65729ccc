/*
 * A program that uses UCX as an MPI library does. Prints the version of its UCX and its transports.
 * With an argument the program opens the given libucp by dlopen(); otherwise it calls the functions
 * that it is linked to. test/real/own_ucx.sh builds it in several ways.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucp/api/ucp.h>

static void *function(void *libucp, const char *name)
{
    void *found = dlsym(libucp, name);

    if (found == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(2);
    }
    return found;
}

int use_ucx(const char *path)
{
    void *libucp = path != NULL ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : RTLD_DEFAULT;
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
    ucs_status_t (*read_config)(const char *, const char *, ucp_config_t **);
    ucs_status_t (*init)(unsigned, unsigned, const ucp_params_t *, const ucp_config_t *,
                         ucp_context_h *);
    void (*print)(ucp_context_h, FILE *);
    const char *(*version)(void);
    ucp_context_h context;
    ucp_config_t *config;
    ucs_status_t status;

    if (libucp == NULL && path != NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    version = function(libucp, "ucp_get_version_string");
    read_config = function(libucp, "ucp_config_read");
    init = function(libucp, "ucp_init_version");
    print = function(libucp, "ucp_context_print_info");
    printf("version %s\n", version());
    status = read_config(NULL, NULL, &config);
    if (status == UCS_OK) {
        status = init(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context);
    }
    if (status != UCS_OK) {
        printf("status %d\n", status);
        return 1;
    }
    print(context, stdout);
    return 0;
}

#ifndef LIBRARY
int main(int argc, char **argv)
{
    return use_ucx(argc > 1 ? argv[1] : NULL);
}
#endif

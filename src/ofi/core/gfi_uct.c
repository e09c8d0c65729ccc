#include "gfi.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define GFI_COMPONENT "glex"
#define GFI_TRANSPORT "libuct_glex.so"

/* The result of gfi_uct_probe(), once per process */
static struct {
    pthread_mutex_t lock;
    bool done;
    int ret;
    uct_component_h component;
} gfi_probe = {.lock = PTHREAD_MUTEX_INITIALIZER};

int gfi_uct_errno(ucs_status_t status)
{
    switch (status) {
    case UCS_OK:
        return 0;
    case UCS_ERR_NO_MEMORY:
        return FI_ENOMEM;
    case UCS_ERR_NO_RESOURCE:
        return FI_EAGAIN;
    case UCS_ERR_INVALID_ADDR:
    case UCS_ERR_INVALID_PARAM:
        return FI_EINVAL;
    case UCS_ERR_UNREACHABLE:
        return FI_EHOSTUNREACH;
    case UCS_ERR_CANCELED:
        return FI_ECANCELED;
    case UCS_ERR_ENDPOINT_TIMEOUT:
    case UCS_ERR_CONNECTION_RESET:
        return FI_ECONNRESET;
    case UCS_ERR_UNSUPPORTED:
        return FI_EOPNOTSUPP;
    default:
        return FI_EIO;
    }
}

static int gfi_uct_check(ucs_status_t status, const char *what)
{
    if (status == UCS_OK) {
        return 0;
    }
    GFI_WARN(FI_LOG_DOMAIN, "%s failed: %s; \"glex_info\" tells what the NIC lacks\n", what,
             ucs_status_string(status));
    return -gfi_uct_errno(status);
}

/* The component, if the process has it: preloaded, loaded by us, or by UCX 1.22 and newer */
static uct_component_h gfi_uct_find(void)
{
    uct_component_attr_t attr = {.field_mask = UCT_COMPONENT_ATTR_FIELD_NAME};
    uct_component_h *components, found = NULL;
    unsigned count, i;

    if (uct_query_components(&components, &count) != UCS_OK) {
        return NULL;
    }
    for (i = 0; i < count; i++) {
        if (uct_component_query(components[i], &attr) == UCS_OK &&
            strcmp(attr.name, GFI_COMPONENT) == 0) {
            found = components[i];
        }
    }
    uct_release_component_list(components);
    return found;
}

/* The transport is never unloaded: libuct keeps pointers into it until the process ends */
static bool gfi_uct_dlopen(const char *path)
{
    if (dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE) != NULL) {
        GFI_INFO(FI_LOG_CORE, "the transport is %s\n", path);
        return true;
    }
    GFI_INFO(FI_LOG_CORE, "no transport there: %s\n", dlerror());
    return false;
}

/* Beside this library: in the build directory, then where make install puts both */
static bool gfi_uct_load_beside(void)
{
    static const char *const places[] = {"/../../uct/glex/.libs/", "/../openglex/"};
    char self[PATH_MAX], path[PATH_MAX + 64];
    Dl_info info;
    size_t i;
    char *end;

    if (dladdr((const void *)gfi_uct_probe, &info) == 0 || realpath(info.dli_fname, self) == NULL) {
        return false;
    }
    end = strrchr(self, '/');
    if (end == NULL) {
        return false;
    }
    *end = '\0';
    for (i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        snprintf(path, sizeof(path), "%s%s%s", self, places[i], GFI_TRANSPORT);
        if (access(path, R_OK) == 0 && gfi_uct_dlopen(path)) {
            return true;
        }
    }
    return false;
}

static uct_component_h gfi_uct_load(void)
{
    uct_component_h component = gfi_uct_find();

    if (component != NULL) {
        return component;
    }
    if (gfi_params.transport != NULL) {
        if (!gfi_uct_dlopen(gfi_params.transport)) {
            GFI_WARN(FI_LOG_CORE,
                     "FI_GLEX_TRANSPORT=%s cannot be loaded: run with "
                     "FI_LOG_LEVEL=info to see why\n",
                     gfi_params.transport);
        }
    } else if (!gfi_uct_load_beside()) {
        gfi_uct_dlopen(GFI_PKGLIBDIR "/" GFI_TRANSPORT);
    }
    component = gfi_uct_find();
    if (component == NULL) {
        GFI_INFO(FI_LOG_CORE,
                 "no transport glex: FI_GLEX_TRANSPORT can name its library, " GFI_TRANSPORT "\n");
    }
    return component;
}

static ucs_status_t gfi_uct_open_md(uct_component_h component, uct_md_h *md)
{
    uct_component_attr_t attr = {.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT};
    uct_md_resource_desc_t *mds;
    uct_md_config_t *config;
    ucs_status_t status;

    status = uct_component_query(component, &attr);
    if (status != UCS_OK) {
        return status;
    }
    if (attr.md_resource_count == 0) {
        return UCS_ERR_NO_DEVICE;
    }
    mds = calloc(attr.md_resource_count, sizeof(*mds));
    if (mds == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    attr.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES;
    attr.md_resources = mds;
    status = uct_component_query(component, &attr);
    if (status == UCS_OK) {
        status = uct_md_config_read(component, NULL, NULL, &config);
    }
    if (status == UCS_OK) {
        status = uct_md_open(component, mds[0].md_name, config, md);
        uct_config_release(config);
    }
    free(mds);
    return status;
}

static int gfi_uct_probe_once(void)
{
    uct_md_attr_t attr;
    uct_md_h md;
    int ret;

    gfi_probe.component = gfi_uct_load();
    if (gfi_probe.component == NULL) {
        return -FI_ENODATA;
    }
    ret = gfi_uct_check(gfi_uct_open_md(gfi_probe.component, &md), "opening the NIC");
    if (ret != 0) {
        return -FI_ENODATA;
    }
    ret = gfi_uct_check(uct_md_query(md, &attr), "asking what the NIC can do");
    if (ret == 0 && attr.rkey_packed_size > GFI_MAX_RKEY) {
        GFI_WARN(FI_LOG_CORE, "the transport's remote keys have %zu bytes, more than %d\n",
                 attr.rkey_packed_size, GFI_MAX_RKEY);
        ret = -FI_ENODATA;
    }
    uct_md_close(md);
    return ret == 0 ? 0 : -FI_ENODATA;
}

int gfi_uct_probe(void)
{
    int ret;

    pthread_mutex_lock(&gfi_probe.lock);
    if (!gfi_probe.done) {
        gfi_probe.ret = gfi_uct_probe_once();
        gfi_probe.done = true;
    }
    ret = gfi_probe.ret;
    pthread_mutex_unlock(&gfi_probe.lock);
    return ret;
}

static ucs_status_t gfi_uct_open_iface(struct gfi_uct *uct, uct_error_handler_t on_error, void *arg)
{
    uct_tl_resource_desc_t *tls;
    uct_iface_config_t *config;
    uct_iface_params_t params;
    ucs_status_t status;
    unsigned count;

    status = uct_md_query_tl_resources(uct->md, &tls, &count);
    if (status != UCS_OK) {
        return status;
    }
    if (count == 0) {
        uct_release_tl_resource_list(tls);
        return UCS_ERR_NO_DEVICE;
    }
    status = uct_md_iface_config_read(uct->md, tls[0].tl_name, NULL, NULL, &config);
    if (status == UCS_OK) {
        memset(&params, 0, sizeof(params));
        params.field_mask = UCT_IFACE_PARAM_FIELD_OPEN_MODE | UCT_IFACE_PARAM_FIELD_DEVICE |
                            UCT_IFACE_PARAM_FIELD_ERR_HANDLER |
                            UCT_IFACE_PARAM_FIELD_ERR_HANDLER_ARG;
        params.open_mode = UCT_IFACE_OPEN_MODE_DEVICE;
        params.mode.device.tl_name = tls[0].tl_name;
        params.mode.device.dev_name = tls[0].dev_name;
        params.err_handler = on_error;
        params.err_handler_arg = arg;
        status = uct_iface_open(uct->md, uct->worker, &params, config, &uct->iface);
        uct_config_release(config);
    }
    uct_release_tl_resource_list(tls);
    return status;
}

static int gfi_uct_query(struct gfi_uct *uct)
{
    int ret;

    ret = gfi_uct_check(uct_md_query(uct->md, &uct->md_attr), "asking the memory domain");
    if (ret == 0) {
        ret = gfi_uct_check(uct_iface_query(uct->iface, &uct->attr), "asking the interface");
    }
    if (ret == 0 && uct->attr.cap.am.max_bcopy < GFI_MIN_BCOPY) {
        GFI_WARN(FI_LOG_DOMAIN,
                 "messages of %zu bytes are too short, %d are needed: raise "
                 "UCX_GLEX_SRQ_UNIT_SIZE\n",
                 uct->attr.cap.am.max_bcopy, GFI_MIN_BCOPY);
        ret = -FI_EOPNOTSUPP;
    }
    return ret;
}

int gfi_uct_open(struct gfi_uct *uct, uct_error_handler_t on_error, void *arg)
{
    int ret;

    memset(uct, 0, sizeof(*uct));
    if (gfi_uct_probe() != 0) {
        return -FI_ENODATA;
    }
    uct->component = gfi_probe.component;
    /* UCX uses no thread and no signal: the caller makes progress */
    ret = gfi_uct_check(ucs_async_context_create(UCS_ASYNC_MODE_POLL, &uct->async),
                        "ucs_async_context_create");
    if (ret != 0) {
        return ret;
    }
    ret = gfi_uct_check(uct_worker_create(uct->async, UCS_THREAD_MODE_SINGLE, &uct->worker),
                        "uct_worker_create");
    if (ret != 0) {
        goto err_async;
    }
    ret = gfi_uct_check(gfi_uct_open_md(uct->component, &uct->md), "opening the NIC");
    if (ret != 0) {
        goto err_worker;
    }
    ret = gfi_uct_check(gfi_uct_open_iface(uct, on_error, arg), "opening an interface");
    if (ret != 0) {
        goto err_md;
    }
    ret = gfi_uct_query(uct);
    if (ret != 0) {
        goto err_iface;
    }
    uct_iface_progress_enable(uct->iface, UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
    return 0;

err_iface:
    uct_iface_close(uct->iface);
err_md:
    uct_md_close(uct->md);
err_worker:
    uct_worker_destroy(uct->worker);
err_async:
    ucs_async_context_destroy(uct->async);
    return ret;
}

void gfi_uct_close(struct gfi_uct *uct)
{
    uct_iface_close(uct->iface);
    uct_md_close(uct->md);
    uct_worker_destroy(uct->worker);
    ucs_async_context_destroy(uct->async);
}

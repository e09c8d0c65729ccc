#include "node.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define GLEX "glex"

static const char *component_name = GLEX;

void node_use(const char *transport)
{
    component_name = transport;
}

/* The transport of this build, unless one was preloaded: a module registers once. */
static uct_component_h find_component(void)
{
    uct_component_attr_t attr = {.field_mask = UCT_COMPONENT_ATTR_FIELD_NAME};
    uct_component_h *components, found = NULL;
    unsigned count, i;

    if (strcmp(component_name, GLEX) == 0 &&
        dlopen(UCT_GLEX_MODULE, RTLD_NOW | RTLD_GLOBAL) == NULL) {
        fail("the transport cannot be loaded: %s", dlerror());
    }
    check(uct_query_components(&components, &count), "uct_query_components");
    for (i = 0; i < count; i++) {
        check(uct_component_query(components[i], &attr), "uct_component_query");
        if (strcmp(attr.name, component_name) == 0) {
            found = components[i];
        }
    }
    uct_release_component_list(components);
    if (found == NULL) {
        fail("libuct does not list the component %s", component_name);
    }
    return found;
}

static void open_md(struct node *node, uct_component_h component)
{
    uct_md_resource_desc_t *mds;
    uct_component_attr_t attr;
    uct_md_config_t *config;

    attr.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT;
    check(uct_component_query(component, &attr), "uct_component_query");
    if (attr.md_resource_count == 0) {
        fail("there is no NIC: run again with GLEX_LOG=info UCX_LOG_LEVEL=info");
    }
    mds = calloc(attr.md_resource_count, sizeof(*mds));
    if (mds == NULL) {
        fail("no memory for %u memory domains", attr.md_resource_count);
    }
    attr.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES;
    attr.md_resources = mds;
    check(uct_component_query(component, &attr), "uct_component_query");
    check(uct_md_config_read(component, NULL, NULL, &config), "uct_md_config_read");
    check(uct_md_open(component, mds[0].md_name, config, &node->md), "uct_md_open");
    uct_config_release(config);
    free(mds);
}

static void open_iface(struct node *node, uct_error_handler_t on_error, void *arg)
{
    uct_tl_resource_desc_t *tls;
    uct_iface_params_t params;
    uct_iface_config_t *config;
    unsigned count;

    check(uct_md_query_tl_resources(node->md, &tls, &count), "uct_md_query_tl_resources");
    if (count == 0) {
        fail("the memory domain has no device");
    }
    check(uct_md_iface_config_read(node->md, tls[0].tl_name, NULL, NULL, &config),
          "uct_md_iface_config_read");
    params.field_mask = UCT_IFACE_PARAM_FIELD_OPEN_MODE | UCT_IFACE_PARAM_FIELD_DEVICE;
    if (on_error != NULL) {
        params.field_mask |=
            UCT_IFACE_PARAM_FIELD_ERR_HANDLER | UCT_IFACE_PARAM_FIELD_ERR_HANDLER_ARG;
        params.err_handler = on_error;
        params.err_handler_arg = arg;
    }
    params.open_mode = UCT_IFACE_OPEN_MODE_DEVICE;
    params.mode.device.tl_name = tls[0].tl_name;
    params.mode.device.dev_name = tls[0].dev_name;
    check(uct_iface_open(node->md, node->worker, &params, config, &node->iface), "uct_iface_open");
    uct_config_release(config);
    uct_release_tl_resource_list(tls);
}

void node_open(struct node *node)
{
    node_open_with(node, NULL, NULL);
}

void node_open_with(struct node *node, uct_error_handler_t on_error, void *arg)
{
    /* UCX starts no thread, because the program measures the caller's progress */
    check(ucs_async_context_create(UCS_ASYNC_MODE_POLL, &node->async), "ucs_async_context_create");
    check(uct_worker_create(node->async, UCS_THREAD_MODE_SINGLE, &node->worker),
          "uct_worker_create");
    open_md(node, find_component());
    open_iface(node, on_error, arg);
    check(uct_iface_query(node->iface, &node->attr), "uct_iface_query");
    if (node->attr.device_addr_len > sizeof(node->address.device) ||
        node->attr.iface_addr_len > sizeof(node->address.iface)) {
        fail("the transport's addresses are longer than expected");
    }
    memset(&node->address, 0, sizeof(node->address));
    check(uct_iface_get_device_address(node->iface, (uct_device_addr_t *)node->address.device),
          "uct_iface_get_device_address");
    check(uct_iface_get_address(node->iface, (uct_iface_addr_t *)node->address.iface),
          "uct_iface_get_address");
    uct_iface_progress_enable(node->iface, UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
}

void node_close(struct node *node)
{
    uct_iface_close(node->iface);
    uct_md_close(node->md);
    uct_worker_destroy(node->worker);
    ucs_async_context_destroy(node->async);
}

uct_ep_h node_connect(struct node *node, const struct node_address *peer)
{
    uct_ep_params_t params;
    uct_ep_h ep;

    params.field_mask =
        UCT_EP_PARAM_FIELD_IFACE | UCT_EP_PARAM_FIELD_DEV_ADDR | UCT_EP_PARAM_FIELD_IFACE_ADDR;
    params.iface = node->iface;
    params.dev_addr = (const uct_device_addr_t *)peer->device;
    params.iface_addr = (const uct_iface_addr_t *)peer->iface;
    check(uct_ep_create(&params, &ep), "uct_ep_create");
    return ep;
}

void node_handle(struct node *node, uint8_t id, uct_am_callback_t handler, void *arg)
{
    check(uct_iface_set_am_handler(node->iface, id, handler, arg, 0), "uct_iface_set_am_handler");
}

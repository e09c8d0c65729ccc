/* Ports: UCT interfaces on a device, found by the names of transport and device, and opened. */
#include "net.h"
#include "../base/log.h"
#include "../base/wire.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int udmon_net_errno(ucs_status_t status)
{
    switch (status) {
    case UCS_OK:
        return 0;
    case UCS_ERR_NO_MEMORY:
        return -ENOMEM;
    case UCS_ERR_NO_RESOURCE:
        return -EAGAIN;
    case UCS_ERR_UNREACHABLE:
        return -ENETUNREACH;
    default:
        return -EIO;
    }
}

static ucs_status_t net_received(void *arg, void *data, size_t length, unsigned flags)
{
    struct udmon_port *port = arg;

    (void)flags;
    ++port->net->received;
    port->net->receive(port->net->arg, data, length);
    return UCS_OK; /* the data is used up: the transport may have its buffer back */
}

/* The transport has lost a peer. */
static ucs_status_t net_path_failed(void *arg, uct_ep_h ep, ucs_status_t status)
{
    struct udmon_port *port = arg;
    struct udmon_path *path;

    LIST_FOREACH(path, &port->net->paths, list) {
        if (path->ep == ep) {
            udmon_debug("%s: a path failed: %s", port->transport, ucs_status_string(status));
            path->failed = 1;
        }
    }
    return UCS_OK;
}

static int port_setup(struct udmon_port *port)
{
    uct_iface_attr_t *attr = &port->attr;
    ucs_status_t status;
    int ret;

    status = uct_iface_query(port->iface, attr);
    if (status != UCS_OK) {
        udmon_error("%s/%s: UCX: %s", port->transport, port->device, ucs_status_string(status));
        return udmon_net_errno(status);
    }
    if (!(attr->cap.flags & UCT_IFACE_FLAG_AM_BCOPY) ||
        !(attr->cap.flags & UCT_IFACE_FLAG_CONNECT_TO_IFACE)) {
        udmon_error("%s/%s: this transport has no active messages", port->transport, port->device);
        return -ENODEV;
    }
    /* ASYNC allows any thread to call the handler; the transports here call it in progress only */
    status = uct_iface_set_am_handler(
        port->iface, UDMON_AM_ID, net_received, port,
        (attr->cap.flags & UCT_IFACE_FLAG_CB_SYNC) ? 0 : UCT_CB_FLAG_ASYNC);
    if (status != UCS_OK) {
        return udmon_net_errno(status);
    }
    uct_iface_progress_enable(port->iface, UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
    port->source.fd = -1; /* progress polls all ports after each wake-up */
    if ((attr->cap.event_flags & UCT_IFACE_FLAG_EVENT_FD) &&
        (uct_iface_event_fd_get(port->iface, &port->source.fd) == UCS_OK)) {
        ret = udmon_loop_add(port->net->loop, &port->source, EPOLLIN);
        if (ret < 0) {
            port->source.fd = -1;
            return ret;
        }
    }
    return 0;
}

static int port_open_iface(struct udmon_port *port)
{
    uct_iface_params_t params = {
        .field_mask = UCT_IFACE_PARAM_FIELD_OPEN_MODE | UCT_IFACE_PARAM_FIELD_DEVICE |
                      UCT_IFACE_PARAM_FIELD_ERR_HANDLER | UCT_IFACE_PARAM_FIELD_ERR_HANDLER_ARG |
                      UCT_IFACE_PARAM_FIELD_ERR_HANDLER_FLAGS,
        .open_mode = UCT_IFACE_OPEN_MODE_DEVICE,
        .mode.device = {.tl_name = port->transport, .dev_name = port->device},
        .err_handler = net_path_failed,
        .err_handler_arg = port,
    };
    uct_iface_config_t *config;
    ucs_status_t status;
    char index[16];

    status = uct_md_iface_config_read(port->md, port->transport, NULL, NULL, &config);
    if (status != UCS_OK) {
        return udmon_net_errno(status);
    }
    if (port->gid_index >= 0) {
        snprintf(index, sizeof(index), "%d", port->gid_index);
        uct_config_modify(config, "GID_INDEX", index);
    }
    status = uct_iface_open(port->md, port->net->worker, &params, config, &port->iface);
    uct_config_release(config);
    if (status != UCS_OK) {
        udmon_error("cannot open %s/%s: UCX: %s", port->transport, port->device,
                    ucs_status_string(status));
    }
    return udmon_net_errno(status);
}

/* Whether the memory domain has the port that is wanted; completes its device name. */
static int port_find_device(struct udmon_port *port)
{
    uct_tl_resource_desc_t *resources;
    unsigned i, count;
    int found = 0;

    if (uct_md_query_tl_resources(port->md, &resources, &count) != UCS_OK) {
        return 0;
    }
    for (i = 0; (i < count) && !found; ++i) {
        if (!strcmp(resources[i].tl_name, port->transport) &&
            ((port->device[0] == '\0') || !strcmp(resources[i].dev_name, port->device))) {
            snprintf(port->device, sizeof(port->device), "%s", resources[i].dev_name);
            found = 1;
        }
    }
    uct_release_tl_resource_list(resources);
    return found;
}

/* UCT lists a domain's transports only after opening the domain. */
static bool port_open_md(struct udmon_port *port, uct_component_h component, const char *md_name)
{
    uct_md_config_t *config;
    ucs_status_t status;

    if (uct_md_config_read(component, NULL, NULL, &config) != UCS_OK) {
        return false;
    }
    status = uct_md_open(component, md_name, config, &port->md);
    uct_config_release(config);
    if (status != UCS_OK) {
        return false;
    }
    if (port_find_device(port)) {
        return true;
    }
    uct_md_close(port->md);
    return false;
}

/*
 * Opens only the component with the transport's name, because opening the domains of all components
 * is slow.
 */
static const char *net_component_of(const char *transport)
{
    return !strcmp(transport, "ud_mon") ? "ib_ud_mon" : transport;
}

static int port_search_component(struct udmon_port *port, uct_component_h component)
{
    uct_component_attr_t attr = {.field_mask = UCT_COMPONENT_ATTR_FIELD_NAME |
                                               UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT};
    int found = 0;
    unsigned i;

    if ((uct_component_query(component, &attr) != UCS_OK) || (attr.md_resource_count == 0)) {
        return 0;
    }
    if (strcmp(attr.name, net_component_of(port->transport))) {
        return 0;
    }
    attr.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES;
    attr.md_resources = calloc(attr.md_resource_count, sizeof(*attr.md_resources));
    if ((attr.md_resources != NULL) && (uct_component_query(component, &attr) == UCS_OK)) {
        for (i = 0; (i < attr.md_resource_count) && !found; ++i) {
            found = port_open_md(port, component, attr.md_resources[i].md_name);
        }
    }
    free(attr.md_resources);
    return found;
}

static int port_search(struct udmon_port *port)
{
    uct_component_h *components;
    unsigned i, count;
    int found = 0;

    if (uct_query_components(&components, &count) != UCS_OK) {
        return -ENODEV;
    }
    for (i = 0; (i < count) && !found; ++i) {
        found = port_search_component(port, components[i]);
    }
    uct_release_component_list(components);
    return found ? 0 : -ENODEV;
}

static int port_open(struct udmon_net *net, const char *transport, const char *device,
                     int gid_index, struct udmon_port **port_p)
{
    struct udmon_port *port;
    int ret;

    port = calloc(1, sizeof(*port));
    if (port == NULL) {
        return -ENOMEM;
    }
    port->net = net;
    port->gid_index = gid_index;
    snprintf(port->transport, sizeof(port->transport), "%s", transport);
    snprintf(port->device, sizeof(port->device), "%s", (device != NULL) ? device : "");
    ret = port_search(port);
    if (ret < 0) {
        udmon_debug("this host has no %s/%s", transport, (device != NULL) ? device : "*");
        goto err_free;
    }
    ret = port_open_iface(port);
    if (ret < 0) {
        goto err_md;
    }
    ret = port_setup(port);
    if (ret < 0) {
        goto err_iface;
    }
    LIST_INSERT_HEAD(&net->ports, port, list);
    *port_p = port;
    return 0;

err_iface:
    uct_iface_close(port->iface);
err_md:
    uct_md_close(port->md);
err_free:
    free(port);
    return ret;
}

int udmon_net_port(struct udmon_net *net, const char *transport, const char *device, int gid_index,
                   struct udmon_port **port_p)
{
    struct udmon_port *port;

    LIST_FOREACH(port, &net->ports, list) {
        if (!strcmp(port->transport, transport) && (port->gid_index == gid_index) &&
            ((device == NULL) || !strcmp(port->device, device))) {
            *port_p = port;
            return 0;
        }
    }
    return port_open(net, transport, device, gid_index, port_p);
}

int udmon_port_address(struct udmon_port *port, void *buffer, size_t size)
{
    size_t device_length = port->attr.device_addr_len, iface_length = port->attr.iface_addr_len;
    struct udmon_address *address = buffer;

    if (((sizeof(*address) + device_length + iface_length) > size) || (device_length > UINT8_MAX) ||
        (iface_length > UINT8_MAX)) {
        udmon_error("%s/%s: the interface's address is too long to be sent", port->transport,
                    port->device);
        return -EMSGSIZE;
    }
    address->device_length = device_length;
    address->iface_length = iface_length;
    if ((uct_iface_get_device_address(port->iface, (uct_device_addr_t *)address->bytes) !=
         UCS_OK) ||
        (uct_iface_get_address(port->iface, (uct_iface_addr_t *)(address->bytes + device_length)) !=
         UCS_OK)) {
        udmon_error("%s/%s: the interface has no address", port->transport, port->device);
        return -EIO;
    }
    return sizeof(*address) + device_length + iface_length;
}

void udmon_port_close(struct udmon_port *port)
{
    if (port->source.fd >= 0) {
        udmon_loop_delete(port->net->loop, &port->source);
    }
    uct_iface_close(port->iface);
    uct_md_close(port->md);
    LIST_REMOVE(port, list);
    free(port);
}

/*
 * The compiler includes this file before every other file of the transport (Makefile.am).
 *
 * UCX's config.h decides the layout of UCX's structures, so config.h is the first header.
 *
 * The references to libuct are weak. Versions of UCX add and drop internal functions. With strong
 * references the dynamic linker would end a program whose libuct lacks a function, before
 * glex_version.c could report the reason. A missing weak function is NULL. The transport never
 * calls it, because the transport does not register with a libuct of another build. A single strong
 * reference in any file makes a symbol strong. test/uct/version.sh finds missing declarations.
 */
#ifndef UCT_GLEX_WEAK_H
#define UCT_GLEX_WEAK_H

#include <config.h>

#pragma weak uct_base_ep_t_class
#pragma weak uct_base_ep_t_init
#pragma weak uct_base_iface_estimate_perf
#pragma weak uct_base_iface_progress_disable
#pragma weak uct_base_iface_progress_enable
#pragma weak uct_base_iface_query
#pragma weak uct_base_iface_t_class
#pragma weak uct_base_iface_t_init
#pragma weak uct_component_register
#pragma weak uct_component_unregister
#pragma weak uct_iface_config_table
#pragma weak uct_iface_base_query_v2
#pragma weak uct_iface_handle_ep_err
#pragma weak uct_iface_scope_is_reachable
#pragma weak uct_md_base_md_query
#pragma weak uct_md_config_rcache_table
#pragma weak uct_md_config_table
#pragma weak uct_md_query_empty_md_resource
#pragma weak uct_md_rcache_overhead
#pragma weak uct_md_set_rcache_params
#pragma weak uct_single_device_resource
#pragma weak uct_tl_register
#pragma weak uct_tl_unregister

#endif

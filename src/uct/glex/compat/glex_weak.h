/*
 * The compiler includes this file before all others of the transport (Makefile.am).
 *
 * UCX's config.h decides the layout of its structures, so it comes before its other headers.
 *
 * What the transport takes from libuct is declared as weak references. UCX's versions add and drop
 * internal functions: were the references strong, the dynamic linker would end a program whose
 * libuct lacks one before glex_version.c could say what is wrong. Weak, a missing one is NULL, and
 * nothing is called, because the transport then stays out of that libuct. One strong reference in
 * one file is enough to make a symbol strong. test/uct/version.sh finds what misses.
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

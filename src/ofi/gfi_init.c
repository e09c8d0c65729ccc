/*
 * How libfabric finds the provider: it loads this library and calls fi_prov_ini().
 */
#include "core/gfi.h"

static void gfi_cleanup(void)
{
    /* the transport stays loaded: libuct points into it */
}

FI_EXT_INI
{
    gfi_provider.getinfo = gfi_getinfo;
    gfi_provider.fabric = gfi_fabric_open;
    gfi_provider.cleanup = gfi_cleanup;
    gfi_params_read();
    return &gfi_provider;
}

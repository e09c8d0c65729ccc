/* The name and the parameters of the provider. */
#include "gfi.h"

struct fi_provider gfi_provider = {
    .name = GFI_NAME,
    .version = FI_VERSION(0, 1),
    .fi_version = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION),
};

struct gfi_params gfi_params = {
    .eager_size = GFI_EAGER_SIZE,
    .tx_size = 1024,
    .rx_size = 1024,
    .unexpected_size = 64 << 20,
    .rendezvous_get = 1,
};

static void gfi_get_size(const char *name, size_t *value, size_t min, size_t max)
{
    size_t given;

    if (fi_param_get_size_t(&gfi_provider, name, &given) != 0) {
        return;
    }
    if (given < min || given > max) {
        GFI_WARN(FI_LOG_CORE, "FI_GLEX_%s=%zu is out of range, %zu to %zu: %zu is taken\n", name,
                 given, min, max, *value);
        return;
    }
    *value = given;
}

void gfi_params_read(void)
{
    fi_param_define(&gfi_provider, "transport", FI_PARAM_STRING,
                    "Library of the transport, libuct_glex.so (default: beside the provider, or "
                    "where openglex is installed)");
    fi_param_define(&gfi_provider, "eager_size", FI_PARAM_SIZE_T,
                    "Longest message in bytes that is sent at once; longer ones are announced and "
                    "fetched by the receiver. At most what the transport carries in one piece "
                    "(default: %zu)",
                    gfi_params.eager_size);
    fi_param_define(&gfi_provider, "tx_size", FI_PARAM_SIZE_T,
                    "Operations of an endpoint that may be outstanding (default: %zu)",
                    gfi_params.tx_size);
    fi_param_define(&gfi_provider, "rx_size", FI_PARAM_SIZE_T,
                    "Receives that fi_info promises; more are taken while there is memory "
                    "(default: %zu)",
                    gfi_params.rx_size);
    fi_param_define(&gfi_provider, "unexpected_size", FI_PARAM_SIZE_T,
                    "Bytes of unexpected messages in a domain; beyond it their senders keep the "
                    "messages and only announce them (default: %zu)",
                    gfi_params.unexpected_size);
    fi_param_define(&gfi_provider, "rendezvous_get", FI_PARAM_BOOL,
                    "Fetch long messages from the sender's memory; no: the sender streams them, "
                    "with two copies (default: yes)");
    fi_param_get_str(&gfi_provider, "transport", &gfi_params.transport);
    fi_param_get_bool(&gfi_provider, "rendezvous_get", &gfi_params.rendezvous_get);
    gfi_get_size("eager_size", &gfi_params.eager_size, 0, 1 << 20);
    gfi_get_size("tx_size", &gfi_params.tx_size, 1, 1 << 20);
    gfi_get_size("rx_size", &gfi_params.rx_size, 1, 1 << 20);
    gfi_get_size("unexpected_size", &gfi_params.unexpected_size, 0, (size_t)1 << 40);
}

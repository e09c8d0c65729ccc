/*
 * The transport: one interface of the UCT component "glex", opened through UCT's public interface.
 * A domain of libfabric owns one interface. All endpoints of the domain share it, as in paper 003
 * (section 5.2) they share the GLEX endpoint of the OFI domain.
 */
#ifndef GFI_UCT_H
#define GFI_UCT_H

#include <stdbool.h>
#include <uct/api/uct.h>

struct gfi_uct {
    ucs_async_context_t *async;
    uct_worker_h worker;
    uct_component_h component;
    uct_md_h md;
    uct_iface_h iface;
    uct_md_attr_t md_attr;
    uct_iface_attr_t attr;
};

/**
 * Whether this process can use the transport, and the transport's abilities.
 *
 * Loads the transport at the first call, opens its memory domain once, and keeps the answer. Any
 * thread may call this function.
 *
 * @return 0, or -FI_ENODATA after logging the reason.
 */
int gfi_uct_probe(void);

/**
 * Open an interface with its own worker.
 *
 * @param on_error  Called by progress when an endpoint fails, with `arg`.
 * @return 0, or a negative FI_ error after logging it; then nothing stays open.
 */
int gfi_uct_open(struct gfi_uct *uct, uct_error_handler_t on_error, void *arg);

/** Close it. All its endpoints must have been destroyed. */
void gfi_uct_close(struct gfi_uct *uct);

/**
 * Whether peers can reach registered memory of this process by the NIC: all memory, or memory that the
 * peers map. Other memory is read and written by messages.
 */
static inline bool gfi_uct_can_register(const struct gfi_uct *uct)
{
    return (uct->md_attr.cap.flags & (UCT_MD_FLAG_REG | UCT_MD_FLAG_RKEY_PTR)) != 0;
}

/** The positive FI_ error for a status of UCS. */
int gfi_uct_errno(ucs_status_t status);

#endif

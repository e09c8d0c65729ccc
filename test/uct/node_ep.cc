/*
 * Endpoints of the tests: every operation, tried again as long as there are no resources.
 */
#include "node.h"

#include <string.h>

Ep::Ep(Iface &own, const std::string &peer) : iface(own)
{
    uct_ep_params_t params;

    params.field_mask =
        UCT_EP_PARAM_FIELD_IFACE | UCT_EP_PARAM_FIELD_DEV_ADDR | UCT_EP_PARAM_FIELD_IFACE_ADDR;
    params.iface = iface.handle;
    params.dev_addr = (const uct_device_addr_t *)peer.data();
    params.iface_addr = (const uct_iface_addr_t *)(peer.data() + iface.attr.device_addr_len);
    EXPECT_TRUE(uct_iface_is_reachable(iface.handle, params.dev_addr, params.iface_addr));
    EXPECT_OK(uct_ep_create(&params, &handle));
}

Ep::~Ep()
{
    uct_ep_destroy(handle);
}

uct_glex_vc_t *Ep::vc() const
{
    uct_glex_vc_t *vc = ((uct_glex_ep_t *)handle)->vc;

    return (vc->iface == NULL) ? NULL : vc; /* a placeholder before the first communication */
}

bool Ep::failed() const
{
    for (auto &each : iface.failed) {
        if (each.first == handle) {
            return true;
        }
    }
    return false;
}

template <typename F> static auto retry(const char *what, F &&post) -> decltype(post())
{
    auto ret = post();

    waiting_for(what);
    while (ret == UCS_ERR_NO_RESOURCE) {
        progress();
        ret = post();
    }
    return ret;
}

static uct_completion_t *uct(Completion *comp)
{
    return (comp == NULL) ? NULL : &comp->uct;
}

struct Bytes {
    const void *data;
    size_t length;
};

static size_t pack_bytes(void *dest, void *arg)
{
    const Bytes *bytes = (const Bytes *)arg;

    if (bytes->length > 0) {
        memcpy(dest, bytes->data, bytes->length);
    }
    return bytes->length;
}

static void unpack_bytes(void *arg, const void *data, size_t length)
{
    if (length > 0) {
        memcpy(arg, data, length);
    }
}

ucs_status_t Ep::am_short(uint8_t id, uint64_t header, const void *payload, unsigned length)
{
    return retry("am_short", [&] { return uct_ep_am_short(handle, id, header, payload, length); });
}

ucs_status_t Ep::am_short_iov(uint8_t id, const std::vector<uct_iov_t> &iov)
{
    return retry("am_short_iov",
                 [&] { return uct_ep_am_short_iov(handle, id, iov.data(), iov.size()); });
}

ssize_t Ep::am_bcopy(uint8_t id, const void *data, size_t length, unsigned flags)
{
    Bytes bytes = {data, length};

    return retry("am_bcopy",
                 [&] { return uct_ep_am_bcopy(handle, id, pack_bytes, &bytes, flags); });
}

ucs_status_t Ep::am_zcopy(uint8_t id, const void *header, unsigned header_length,
                          const std::vector<uct_iov_t> &iov, Completion *comp)
{
    return retry("am_zcopy", [&] {
        return uct_ep_am_zcopy(handle, id, header, header_length, iov.data(), iov.size(), 0,
                               uct(comp));
    });
}

ucs_status_t Ep::put_short(const void *data, unsigned length, uint64_t address, uct_rkey_t rkey)
{
    return retry("put_short",
                 [&] { return uct_ep_put_short(handle, data, length, address, rkey); });
}

ssize_t Ep::put_bcopy(const void *data, size_t length, uint64_t address, uct_rkey_t rkey)
{
    Bytes bytes = {data, length};

    return retry("put_bcopy",
                 [&] { return uct_ep_put_bcopy(handle, pack_bytes, &bytes, address, rkey); });
}

ucs_status_t Ep::put_zcopy(const std::vector<uct_iov_t> &iov, uint64_t address, uct_rkey_t rkey,
                           Completion *comp)
{
    return retry("put_zcopy", [&] {
        return uct_ep_put_zcopy(handle, iov.data(), iov.size(), address, rkey, uct(comp));
    });
}

ucs_status_t Ep::get_short(void *data, unsigned length, uint64_t address, uct_rkey_t rkey)
{
    return retry("get_short",
                 [&] { return uct_ep_get_short(handle, data, length, address, rkey); });
}

ucs_status_t Ep::get_bcopy(void *data, size_t length, uint64_t address, uct_rkey_t rkey,
                           Completion *comp)
{
    return retry("get_bcopy", [&] {
        return uct_ep_get_bcopy(handle, unpack_bytes, data, length, address, rkey, uct(comp));
    });
}

ucs_status_t Ep::get_zcopy(const std::vector<uct_iov_t> &iov, uint64_t address, uct_rkey_t rkey,
                           Completion *comp)
{
    return retry("get_zcopy", [&] {
        return uct_ep_get_zcopy(handle, iov.data(), iov.size(), address, rkey, uct(comp));
    });
}

ucs_status_t Ep::flush()
{
    Completion comp;
    ucs_status_t status =
        retry("flush of an endpoint", [&] { return uct_ep_flush(handle, 0, &comp.uct); });

    if (status != UCS_INPROGRESS) {
        return status;
    }
    comp.wait("flush of an endpoint");
    return comp.uct.status;
}

uct_iov_t piece(void *data, size_t length, uct_mem_h memh)
{
    uct_iov_t iov;

    iov.buffer = data;
    iov.length = length;
    iov.memh = memh;
    iov.stride = 0;
    iov.count = 1;
    return iov;
}

void fail_at_once(uct_glex_vc_t *vc)
{
    if (!vc->peer_dead && vc->state != UCT_GLEX_VC_FAILED) {
        vc->peer_dead = 1;
        vc->is_stale = 1;
        ++vc->iface->num_dying;
        uct_glex_vc_schedule(vc);
    }
}

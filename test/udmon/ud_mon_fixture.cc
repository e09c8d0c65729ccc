#include "ud_mon_fixture.h"

#include <dlfcn.h>
#include <sched.h>
#include <unistd.h>

#include <random>

unsigned created_ahs, destroyed_ahs;
uint16_t moved_to_lid;

// In place of libibverbs' own, which they call.
extern "C" struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
    using function = struct ibv_ah *(*)(struct ibv_pd *, struct ibv_ah_attr *);

    ++created_ahs;
    return reinterpret_cast<function>(dlsym(RTLD_NEXT, "ibv_create_ah"))(pd, attr);
}

extern "C" int ibv_destroy_ah(struct ibv_ah *ah)
{
    ++destroyed_ahs;
    return reinterpret_cast<int (*)(struct ibv_ah *)>(dlsym(RTLD_NEXT, "ibv_destroy_ah"))(ah);
}

namespace
{

decltype(verbs_context::query_port) real_query_port;

int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr, size_t length)
{
    int ret = real_query_port(context, port, attr, length);

    if ((ret == 0) && (moved_to_lid != 0)) {
        attr->lid = moved_to_lid;
    }
    return ret;
}

} // namespace

// ibv_query_port is inline: it calls what stands in the context.
extern "C" struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    using function = struct ibv_context *(*)(struct ibv_device *);
    auto *context = reinterpret_cast<function>(dlsym(RTLD_NEXT, "ibv_open_device"))(device);
    auto *verbs = (context != nullptr) ? verbs_get_ctx(context) : nullptr;

    if (verbs != nullptr) {
        real_query_port = verbs->query_port;
        verbs->query_port = query_port;
    }
    return context;
}

namespace
{

// Failures of the environment, not of what is tested.
void require(bool ok, const std::string &what)
{
    if (!ok) {
        throw std::runtime_error(what + ": " + strerror(errno));
    }
}

} // namespace

void Host::open_md(const std::string &device)
{
    uct_component_h *components;
    uct_md_config_t *config;
    unsigned count;

    require(uct_query_components(&components, &count) == UCS_OK, "components");
    for (unsigned i = 0; i < count; ++i) {
        uct_component_attr_t attr;
        attr.field_mask = UCT_COMPONENT_ATTR_FIELD_NAME;
        require(uct_component_query(components[i], &attr) == UCS_OK, "component");
        if (!strcmp(attr.name, "ib_ud_mon")) {
            component = components[i];
        }
    }
    require(component != nullptr, "no component ib_ud_mon");
    require(uct_md_config_read(component, NULL, NULL, &config) == UCS_OK, "md config");
    require(uct_md_open(component, device.c_str(), config, &md) == UCS_OK, "md " + device);
    uct_config_release(config);
    uct_release_component_list(components);
}

void Host::open_iface(const std::string &device)
{
    std::string port = device + ":1";
    uct_iface_config_t *config;
    uct_iface_params_t params = {};

    params.field_mask = UCT_IFACE_PARAM_FIELD_OPEN_MODE | UCT_IFACE_PARAM_FIELD_DEVICE;
    params.open_mode = UCT_IFACE_OPEN_MODE_DEVICE;
    params.mode.device.tl_name = "ud_mon";
    params.mode.device.dev_name = port.c_str();
    require(uct_md_iface_config_read(md, "ud_mon", NULL, NULL, &config) == UCS_OK, "config");
    ucs_status_t status = uct_iface_open(md, worker, &params, config, &iface);
    uct_config_release(config);
    require(status == UCS_OK, "iface " + port);
}

void Host::open(const std::string &device)
{
    require(ucs_async_context_create(UCS_ASYNC_MODE_THREAD_SPINLOCK, &async) == UCS_OK, "async");
    require(uct_worker_create(async, UCS_THREAD_MODE_SINGLE, &worker) == UCS_OK, "worker");
    open_md(device);
    open_iface(device);
    uct_iface_progress_enable(iface, UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
    require(uct_iface_set_am_handler(iface, am_id, handler, this, UCT_CB_FLAG_ASYNC) == UCS_OK,
            "handler");
}

Host::~Host()
{
    if (iface != nullptr) {
        uct_iface_close(iface);
    }
    if (md != nullptr) {
        uct_md_close(md);
    }
    uct_worker_destroy(worker);
    ucs_async_context_destroy(async);
}

ucs_status_t Host::handler(void *arg, void *data, size_t length, unsigned flags)
{
    Host *self = static_cast<Host *>(arg);

    (void)flags;
    self->received.emplace_back(static_cast<const char *>(data), length);
    if (self->on_message) {
        self->on_message();
    }
    return UCS_OK;
}

bool Host::progress_until(const std::function<bool()> &done, Host *other)
{
    for (int i = 0; i < 3000; ++i) {
        if (done()) {
            return true;
        }
        if (progress() + ((other != nullptr) ? other->progress() : 0) == 0) {
            usleep(1000);
        }
    }
    return done();
}

uct_iface_attr_t Host::attr()
{
    uct_iface_attr_t attr;

    require(uct_iface_query(iface, &attr) == UCS_OK, "iface query");
    return attr;
}

std::vector<std::string> Host::devices()
{
    std::vector<std::string> names;
    uct_tl_resource_desc_t *list;
    unsigned count;

    require(uct_md_query_tl_resources(md, &list, &count) == UCS_OK, "resources");
    for (unsigned i = 0; i < count; ++i) {
        names.push_back(std::string(list[i].tl_name) + "/" + list[i].dev_name);
    }
    uct_release_tl_resource_list(list);
    return names;
}

std::vector<uint8_t> Host::device_addr()
{
    std::vector<uint8_t> addr(attr().device_addr_len);

    require(uct_iface_get_device_address(iface, (uct_device_addr_t *)addr.data()) == UCS_OK,
            "device address");
    return addr;
}

std::vector<uint8_t> Host::iface_addr()
{
    std::vector<uint8_t> addr(attr().iface_addr_len);

    require(uct_iface_get_address(iface, (uct_iface_addr_t *)addr.data()) == UCS_OK,
            "iface address");
    return addr;
}

static uct_ep_h make_ep(uct_iface_h iface, const std::vector<uint8_t> &dev,
                        const std::vector<uint8_t> &addr)
{
    uct_ep_params_t params = {};
    uct_ep_h ep;

    params.field_mask =
        UCT_EP_PARAM_FIELD_IFACE | UCT_EP_PARAM_FIELD_DEV_ADDR | UCT_EP_PARAM_FIELD_IFACE_ADDR;
    params.iface = iface;
    params.dev_addr = (const uct_device_addr_t *)dev.data();
    params.iface_addr = (const uct_iface_addr_t *)addr.data();
    require(uct_ep_create(&params, &ep) == UCS_OK, "endpoint");
    return ep;
}

uct_ep_h Host::connect(Host &peer)
{
    return make_ep(iface, peer.device_addr(), peer.iface_addr());
}

uct_ud_mon_stats_t Host::stats()
{
    uct_ud_mon_stats_t stats;

    require(uct_ud_mon_iface_stats(iface, &stats) == UCS_OK, "stats");
    return stats;
}

ssize_t send_bcopy(uct_ep_h ep, const std::string &data, uint8_t am_id)
{
    auto pack = [](void *dest, void *arg) -> size_t {
        const std::string *text = static_cast<const std::string *>(arg);
        memcpy(dest, text->data(), text->size());
        return text->size();
    };

    return uct_ep_am_bcopy(ep, am_id, pack, const_cast<std::string *>(&data), 0);
}

RawQp::RawQp(const std::string &device)
{
    int count;
    ibv_device **list = ibv_get_device_list(&count);

    require(list != nullptr, "device list");
    for (int i = 0; i < count; ++i) {
        if (device == ibv_get_device_name(list[i])) {
            context = ibv_open_device(list[i]);
        }
    }
    ibv_free_device_list(list);
    require(context != nullptr, device);
    pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, 64, NULL, NULL, 0);
    mr = ibv_reg_mr(pd, buffer, sizeof(buffer), IBV_ACCESS_LOCAL_WRITE);
    ibv_qp_init_attr init = {};
    init.send_cq = init.recv_cq = cq;
    init.qp_type = IBV_QPT_UD;
    init.cap.max_send_wr = init.cap.max_recv_wr = 16;
    init.cap.max_send_sge = init.cap.max_recv_sge = 1;
    qp = ibv_create_qp(pd, &init);
    require(qp != nullptr, "queue pair");
    ibv_qp_attr attr = {};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qkey = 0x1111;
    require(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
            "init");
    attr.qp_state = IBV_QPS_RTR;
    require(!ibv_modify_qp(qp, &attr, IBV_QP_STATE), "rtr");
    attr.qp_state = IBV_QPS_RTS;
    require(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), "rts");
}

RawQp::~RawQp()
{
    ibv_destroy_qp(qp);
    if (ah != nullptr) {
        ibv_destroy_ah(ah);
    }
    ibv_dereg_mr(mr);
    ibv_destroy_cq(cq);
    ibv_dealloc_pd(pd);
    ibv_close_device(context);
}

void RawQp::aim(Host &peer)
{
    std::vector<uint8_t> dev = peer.device_addr(), addr = peer.iface_addr();
    const auto *to = reinterpret_cast<const ud_mon_device_addr_t *>(dev.data());
    const auto *target = reinterpret_cast<const ud_mon_iface_addr_t *>(addr.data());
    ibv_ah_attr attr = {};

    attr.port_num = 1;
    attr.is_global = 1;
    attr.grh.sgid_index = 1; // IPv4, as contrib/rdma-vm sets it up
    attr.grh.hop_limit = 64;
    memcpy(attr.grh.dgid.raw, to->gid, 16);
    ah = ibv_create_ah(pd, &attr);
    require(ah != nullptr, "address handle");
    qpn = le32toh(target->qpn);
    qkey = le32toh(target->qkey);
}

void RawQp::send(const void *data, size_t length)
{
    ibv_sge sge = {(uintptr_t)buffer, (uint32_t)length, mr->lkey};
    ibv_send_wr wr = {}, *bad;
    ibv_wc wc;
    int count;

    memcpy(buffer, data, length);
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.ud.ah = ah;
    wr.wr.ud.remote_qpn = qpn;
    wr.wr.ud.remote_qkey = qkey;
    require(ibv_post_send(qp, &wr, &bad) == 0, "raw send");
    while ((count = ibv_poll_cq(cq, 1, &wc)) == 0) {
        sched_yield();
    }
    require((count == 1) && (wc.status == IBV_WC_SUCCESS), "raw send completion");
}

void RawQp::send(const ud_mon_header_t &header, const std::string &payload)
{
    std::string whole(reinterpret_cast<const char *>(&header), sizeof(header));

    whole += payload;
    send(whole.data(), whole.size());
}

std::string pattern(size_t length, unsigned seed)
{
    std::mt19937 random(seed);
    std::string text(length, 0);

    for (char &c : text) {
        c = char(random());
    }
    return text;
}

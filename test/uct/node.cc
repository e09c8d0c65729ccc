#include "module.h"
#include "node.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Progress calls without a result after which others get the processor */
#define IDLE_CALLS 64

/* Open ones of this thread */
static thread_local std::list<Iface *> ifaces;

static void report_ifaces();

/* ---- the module ---- */

static uct_component_h find_component()
{
    uct_component_h *components, found = NULL;
    unsigned count;

    if (dlopen(UCT_GLEX_MODULE, RTLD_NOW | RTLD_GLOBAL) == NULL) {
        ADD_FAILURE() << dlerror();
        return NULL;
    }
    EXPECT_OK(uct_query_components(&components, &count));
    for (unsigned i = 0; i < count; ++i) {
        uct_component_attr_t attr;

        attr.field_mask = UCT_COMPONENT_ATTR_FIELD_NAME;
        EXPECT_OK(uct_component_query(components[i], &attr));
        if (strcmp(attr.name, "glex") == 0) {
            found = components[i];
        }
    }
    uct_release_component_list(components);
    EXPECT_NE(found, nullptr) << "libuct does not list the component";
    return found;
}

/* ---- log ---- */

static unsigned log_keepers;
static std::string log_text;

static ucs_log_func_rc_t log_handler(const char *file, unsigned line, const char *function,
                                     ucs_log_level_t level,
                                     const ucs_log_component_config_t *config, const char *message,
                                     va_list ap)
{
    char buf[1024];

    if (level > UCS_LOG_LEVEL_ERROR) {
        return UCS_LOG_FUNC_RC_CONTINUE;
    }
    vsnprintf(buf, sizeof(buf), message, ap);
    if (log_keepers > 0) {
        log_text += buf;
        log_text += '\n';
    } else {
        /* not by gtest at once: an exception must not go through UCX */
        fprintf(stderr, "%s:%u: unexpected error: %s\n", file, line, buf);
        log_text += buf;
        report_ifaces();
    }
    return UCS_LOG_FUNC_RC_STOP;
}

uct_component_h component()
{
    static uct_component_h found = [] {
        ucs_log_push_handler(log_handler);
        report_hang = report_ifaces;
        return find_component();
    }();

    return found;
}

ErrorLog::ErrorLog()
{
    component();
    ++log_keepers;
}

ErrorLog::~ErrorLog()
{
    if (--log_keepers == 0) {
        log_text.clear();
    }
}

std::string ErrorLog::text() const
{
    return log_text;
}

static void expect_nothing_logged()
{
    if (log_keepers == 0) {
        EXPECT_EQ(log_text, "") << "an error was logged";
    }
}

/* ---- memory domain ---- */

static ucs_status_t open_md(uct_md_h *md_p, unsigned nic = 0)
{
    std::string name = "glex/gni" + std::to_string(nic);
    uct_md_config_t *config;
    ucs_status_t status;

    EXPECT_OK(uct_md_config_read(component(), NULL, NULL, &config));
    status = uct_md_open(component(), name.c_str(), config, md_p);
    uct_config_release(config);
    return status;
}

Md::Md(unsigned nic)
{
    EXPECT_OK(open_md(&handle, nic));
    EXPECT_OK(uct_md_query(handle, &attr));
}

Md::~Md()
{
    uct_md_close(handle);
}

ucs_status_t try_open_md()
{
    uct_md_h md;
    ucs_status_t status = open_md(&md);

    if (status == UCS_OK) {
        uct_md_close(md);
    }
    return status;
}

/* Whole pages between two that cannot be touched: caches of registrations neither round up nor join
 * to anything else */
static size_t guarded_length(size_t length)
{
    return ucs_align_up(length, ucs_get_page_size());
}

static uint8_t *guarded_alloc(size_t length)
{
    size_t page = ucs_get_page_size();
    uint8_t *guard = (uint8_t *)mmap(NULL, guarded_length(length) + 2 * page, PROT_NONE,
                                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    EXPECT_NE(guard, MAP_FAILED);
    EXPECT_EQ(mprotect(guard + page, guarded_length(length), PROT_READ | PROT_WRITE), 0);
    return guard + page;
}

static void guarded_free(uint8_t *data, size_t length)
{
    size_t page = ucs_get_page_size();

    munmap(data - page, guarded_length(length) + 2 * page);
}

Memory::Memory(Md &md, size_t size, Kind kind) : length(size), md_(md), kind_(kind)
{
    if (kind == PRIVATE) {
        data = guarded_alloc(length);
        EXPECT_OK(uct_md_mem_reg(md.handle, data, length, UCT_MD_MEM_ACCESS_ALL, &memh));
        return;
    }

    uct_alloc_method_t method = UCT_ALLOC_METHOD_MD;
    uct_mem_alloc_params_t params;
    uct_allocated_memory_t mem;

    params.field_mask = UCT_MEM_ALLOC_PARAM_FIELD_FLAGS | UCT_MEM_ALLOC_PARAM_FIELD_MEM_TYPE |
                        UCT_MEM_ALLOC_PARAM_FIELD_MDS | UCT_MEM_ALLOC_PARAM_FIELD_NAME;
    params.flags = UCT_MD_MEM_ACCESS_ALL;
    params.mem_type = UCS_MEMORY_TYPE_HOST;
    params.mds.mds = &md.handle;
    params.mds.count = 1;
    params.name = "uct_test";
    EXPECT_OK(uct_mem_alloc(length, &method, 1, &params, &mem));
    EXPECT_EQ(mem.method, UCT_ALLOC_METHOD_MD);
    EXPECT_GE(mem.length, length);
    data = (uint8_t *)mem.address;
    length = mem.length;
    memh = mem.memh;
}

Memory::~Memory()
{
    if (kind_ == PRIVATE) {
        uct_md_mem_dereg(md_.handle, memh);
        guarded_free(data, length);
        return;
    }

    uct_allocated_memory_t mem = {};

    mem.address = data;
    mem.length = length;
    mem.method = UCT_ALLOC_METHOD_MD;
    mem.mem_type = UCS_MEMORY_TYPE_HOST;
    mem.md = md_.handle;
    mem.memh = memh;
    uct_mem_free(&mem);
}

std::string Memory::describe() const
{
    std::vector<char> rkey(md_.attr.rkey_packed_size);
    uint64_t words[2] = {(uintptr_t)data, length};

    EXPECT_OK(uct_md_mkey_pack(md_.handle, memh, rkey.data()));
    return std::string((char *)words, sizeof(words)) + std::string(rkey.data(), rkey.size());
}

std::vector<Memory::Kind> memory_kinds(const Md &md)
{
    std::vector<Memory::Kind> kinds;

    if (md.has(UCT_MD_FLAG_ALLOC)) {
        kinds.push_back(Memory::NIC);
    }
    if (md.has(UCT_MD_FLAG_REG)) {
        kinds.push_back(Memory::PRIVATE);
    }
    return kinds;
}

RemoteMemory::RemoteMemory(const std::string &description)
{
    uint64_t words[2];

    memcpy(words, description.data(), sizeof(words));
    address = words[0];
    length = words[1];
    EXPECT_OK(uct_rkey_unpack(component(), description.data() + sizeof(words), &rkey));
}

RemoteMemory::~RemoteMemory()
{
    uct_rkey_release(component(), &rkey);
}

/* ---- interface ---- */

static ucs_status_t open_iface(Md &md, uct_worker_h worker, uct_iface_params_t &params,
                               uct_iface_h *iface_p)
{
    std::string device = "gni" + std::to_string(md.internals()->nic);
    uct_iface_config_t *config;
    ucs_status_t status;

    EXPECT_OK(uct_md_iface_config_read(md.handle, "glex", NULL, NULL, &config));
    params.field_mask |= UCT_IFACE_PARAM_FIELD_OPEN_MODE | UCT_IFACE_PARAM_FIELD_DEVICE;
    params.open_mode = UCT_IFACE_OPEN_MODE_DEVICE;
    params.mode.device.tl_name = "glex";
    params.mode.device.dev_name = device.c_str();
    status = uct_iface_open(md.handle, worker, &params, config, iface_p);
    uct_config_release(config);
    return status;
}

Iface::Iface(Md &domain, size_t rx_headroom) : md(domain)
{
    uct_iface_params_t params;

    EXPECT_OK(ucs_async_context_create(UCS_ASYNC_MODE_THREAD_SPINLOCK, &async_));
    EXPECT_OK(uct_worker_create(async_, UCS_THREAD_MODE_SINGLE, &worker));
    memset(&params, 0, sizeof(params));
    params.field_mask = UCT_IFACE_PARAM_FIELD_ERR_HANDLER | UCT_IFACE_PARAM_FIELD_ERR_HANDLER_ARG |
                        UCT_IFACE_PARAM_FIELD_ERR_HANDLER_FLAGS | UCT_IFACE_PARAM_FIELD_RX_HEADROOM;
    params.err_handler = error_callback;
    params.err_handler_arg = this;
    params.rx_headroom = rx_headroom;
    EXPECT_OK(open_iface(md, worker, params, &handle));
    EXPECT_OK(uct_iface_query(handle, &attr));
    uct_iface_progress_enable(handle, UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
    mpq_units_ = internals()->mpq.free + internals()->mpq.pool;
    ifaces.push_back(this);
}

Iface::~Iface()
{
    ifaces.remove(this);
    uct_iface_close(handle);
    uct_worker_destroy(worker);
    ucs_async_context_destroy(async_);
    if (!std::uncaught_exceptions()) {
        expect_nothing_logged();
    }
}

ucs_status_t try_open_iface(Md &md)
{
    ucs_async_context_t *async;
    uct_iface_params_t params;
    ucs_status_t status;
    uct_worker_h worker;
    uct_iface_h iface;

    EXPECT_OK(ucs_async_context_create(UCS_ASYNC_MODE_THREAD_SPINLOCK, &async));
    EXPECT_OK(uct_worker_create(async, UCS_THREAD_MODE_SINGLE, &worker));
    memset(&params, 0, sizeof(params));
    status = open_iface(md, worker, params, &iface);
    if (status == UCS_OK) {
        uct_iface_close(iface);
    }
    uct_worker_destroy(worker);
    ucs_async_context_destroy(async);
    return status;
}

ucs_status_t Iface::am_callback(void *arg, void *data, size_t length, unsigned flags)
{
    AmHandler *handler = (AmHandler *)arg;

    (*handler)(data, length);
    return UCS_OK;
}

ucs_status_t Iface::error_callback(void *arg, uct_ep_h ep, ucs_status_t status)
{
    ((Iface *)arg)->failed.push_back({ep, status});
    return UCS_OK;
}

void Iface::on_am(uint8_t id, const AmHandler &handler)
{
    handlers_[id] = handler;
    EXPECT_OK(uct_iface_set_am_handler(handle, id, am_callback, &handlers_[id], 0));
}

std::string Iface::address() const
{
    std::string device(attr.device_addr_len, 0), iface(attr.iface_addr_len, 0);

    EXPECT_OK(uct_iface_get_device_address(handle, (uct_device_addr_t *)&device[0]));
    EXPECT_OK(uct_iface_get_address(handle, (uct_iface_addr_t *)&iface[0]));
    return device + iface;
}

unsigned Iface::progress()
{
    unsigned count = uct_worker_progress(worker);

    if (log_keepers == 0) {
        expect_nothing_logged();
    }
    return count;
}

glex_ext_counters Iface::counters() const
{
    glex_ext_counters counters;

    EXPECT_EQ(glex_ext_query_counters(internals()->nic, &counters), GLEX_SUCCESS);
    return counters;
}

void Iface::flush()
{
    progress_until("flush of an interface", [this] {
        ucs_status_t status = uct_iface_flush(handle, 0, NULL);

        EXPECT_TRUE((status == UCS_OK) || (status == UCS_INPROGRESS)) << status;
        return status == UCS_OK;
    });
}

unsigned Iface::make_losing()
{
    uct_iface_config_t *config;
    struct glex_ep_attr nic;

    glex_query_ep(internals()->nic, &nic);
    EXPECT_OK(uct_md_iface_config_read(md.handle, "glex", NULL, NULL, &config));
    EXPECT_OK(
        uct_glex_mpq_init(internals(), (const uct_glex_iface_config_t *)config, nic.mpq_capacity));
    uct_config_release(config);
    mpq_units_ = internals()->mpq.free + internals()->mpq.pool;
    return internals()->mpq.free / (UCT_GLEX_VC_CTL_UNITS + UCT_GLEX_CREDIT_LEAST);
}

void Iface::check_credits() const
{
    unsigned sum = internals()->mpq.free + internals()->mpq.pool;

    for (unsigned i = 0; i < internals()->num_vcs; ++i) {
        const uct_glex_vc_t *vc = internals()->vcs[i];

        if (vc->mp_rx.window > 0) {
            sum += vc->mp_rx.window + UCT_GLEX_VC_CTL_UNITS;
        }
    }
    EXPECT_EQ(sum, mpq_units_) << "granted + free = capacity";
}

/* Messages that wait for an earlier one */
static void report_rx(const uct_glex_vc_t *vc)
{
    const uct_glex_rx_t *rx;

    for (ucs_list_link_t *pos = vc->rx.next; pos != &vc->rx; pos = pos->next) {
        rx = ucs_container_of(pos, uct_glex_rx_t, list);
        fprintf(stderr, " %u%s%s%s%s", rx->seq, rx->er ? "er" : "", rx->zc ? "zc" : "",
                rx->ready ? "" : "?", rx->op != NULL ? "!" : "");
    }
    fprintf(stderr, "%s", ucs_list_is_empty((ucs_list_link_t *)&vc->rx) ? "" : " wait\n");
}

/* What is known of a connection, for whoever looks into a test that hangs */
static void report_vc(const uct_glex_vc_t *vc)
{
    fprintf(stderr,
            "  vc 0x%x state %d: mp_tx sent %u limit %u, mp_rx rcvd %u told %u window %u, "
            "seq tx %u rx %u, ctl 0x%x inflight %d ack_due %d scheduled %d blocked %d "
            "peer_key 0x%x\n"
            "    er_tx %d requested %d: head %u tail %u msgs %u acked %u units %u; er_rx %d: next "
            "%u head %u told %u msgs %u told %u; rx %lu started %u waiting %d; tx_ops %d\n",
            vc->id, vc->state, vc->mp_tx.sent, vc->mp_tx.limit, vc->mp_rx.rcvd,
            vc->advertised_limit, vc->mp_rx.window, vc->tx.seq, vc->rx_seq, vc->ctl,
            vc->ctl_inflight, vc->tx.flags & UCT_GLEX_FLAG_ACK, uct_glex_vc_is_scheduled(vc),
            vc->num_blocked, vc->peer_key, vc->er_tx != NULL, uct_glex_er_is_requested(vc),
            vc->tx_fifo.head, vc->tx_fifo.acked.units, vc->tx_fifo.msgs, vc->tx_fifo.acked.msgs,
            vc->tx_fifo.units, vc->lent, vc->iface->er_rx[vc->rx_fifo_index].fifo.next,
            vc->tx.credits.er.units, vc->advertised.units, vc->tx.credits.er.msgs,
            vc->advertised.msgs, ucs_list_length((ucs_list_link_t *)&vc->rx), vc->rx_started,
            uct_glex_vc_is_waiting(vc), !ucs_queue_is_empty((ucs_queue_head_t *)&vc->tx_ops));
    report_rx(vc);
}

static void report_ifaces()
{
    for (Iface *iface : ifaces) {
        const uct_glex_iface_t *in = iface->internals();

        fprintf(stderr,
                "process %d, interface 0x%lx: recheck %d mpq free %u pool %u waiting %lu, "
                "ops outstanding %u rma %u zc %u, er lent %u\n",
                (int)getpid(), in->ep_addr, in->recheck, in->mpq.free, in->mpq.pool,
                ucs_list_length((ucs_list_link_t *)&in->mpq.wait), in->ops.outstanding,
                in->ops.shares[UCT_GLEX_OP_RMA].used, in->ops.shares[UCT_GLEX_OP_ZC].used,
                in->er.lent);
        for (unsigned i = 0; i < in->num_vcs; ++i) {
            report_vc(in->vcs[i]);
        }
    }
}

void progress()
{
    static thread_local unsigned idle;
    unsigned count = 0;

    for (Iface *iface : ifaces) {
        count += iface->progress();
    }
    idle = (count > 0) ? 0 : idle + 1;
    if (idle >= IDLE_CALLS) {
        idle = 0;
        sched_yield();
    }
}

void progress_until(const char *what, const std::function<bool()> &done)
{
    waiting_for(what);
    while (!done()) {
        progress();
    }
}

void team_barrier(Team &team)
{
    team.barrier([] { progress(); });
}

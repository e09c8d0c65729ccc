/* Recorded by test/abi/run --update: what programs see of libglex. */
#include <endian.h>
#include <pthread.h>
#include <stdint.h>
typedef enum glex_ret {
    GLEX_SUCCESS = 0,
    GLEX_SYS_ERR,
    GLEX_INVALID_PARAM,
    GLEX_NO_EP_RESOURCE,
    GLEX_NO_MEM_RESOURCE,
    GLEX_BUSY,
    GLEX_NO_MP,
    GLEX_NO_EVENT,
    GLEX_INTR,
    GLEX_ACCESS_ERR,
    GLEX_NOT_IMPLEMENTED
} glex_ret_t;
typedef struct glex_device {
    pthread_mutex_t mutex;
} glex_device_t;
typedef glex_device_t *glex_device_handle_t;
struct glex_device_attr {
    uint32_t nic_id;
    uint32_t max_fast_ep_num;
    uint32_t max_ep_num;
    uint32_t max_emulate_ep_num;
    uint32_t mmt_units;
    uint32_t att_units;
    uint32_t max_imm_mp_data_len;
    uint32_t max_mp_data_len;
    uint32_t max_imm_rdma_data_len;
    uint32_t max_rdma_data_len;
    uint32_t def_ep_dq_capacity;
    uint32_t def_ep_eq_capacity;
    uint32_t def_ep_mpq_capacity;
    uint32_t max_ep_dq_capacity;
    uint32_t max_ep_eq_capacity;
    uint32_t max_ep_mpq_capacity;
    uint32_t max_ep_hc_eq_capacity;
    uint32_t max_ep_hc_mpq_capacity;
};
typedef struct glex_device_attr glex_device_attr_t;
enum glex_ep_type {
    GLEX_EP_TYPE_FAST = 0,
    GLEX_EP_TYPE_NORMAL = 1,
    GLEX_EP_TYPE_EMULATE = 2,
    GLEX_EP_TYPE_MANAGEMENT = 3
};
enum glex_mpq_type {
    GLEX_MPQ_TYPE_NORMAL = 0,
    GLEX_MPQ_TYPE_HIGH_CAPACITY = 1,
    GLEX_MPQ_TYPE_IOMMU = 2
};
enum glex_eq_type {
    GLEX_EQ_TYPE_NORMAL = 0,
    GLEX_EQ_TYPE_HIGH_CAPACITY = 1,
    GLEX_EQ_TYPE_IOMMU = 2
};
typedef union glex_ep_addr {
    struct {
        uint16_t ep_num;
        uint16_t resv;
        uint32_t nic_id;
    };
    struct {
        uint16_t ep_num;
        uint16_t resv;
        uint32_t nic_id;
    } s;
    uint64_t v;
} glex_ep_addr_t;
struct glex_ep_attr {
    enum glex_ep_type type;
    enum glex_mpq_type mpq_type;
    enum glex_eq_type eq_type;
    uint32_t num;
    uint32_t key;
    uint32_t dq_capacity;
    uint32_t mpq_capacity;
    uint32_t eq_capacity;
};
typedef struct glex_event {
    union {
        struct {
            volatile uint64_t cookie_0;
            volatile uint64_t cookie_1;
        };
        volatile uint64_t cookie[2];
    };
} glex_event_t;
typedef union glex_mem_handle {
    struct {
        uint16_t mmt_index;
        uint16_t att_base_off;
        uint32_t att_index;
    };
    struct {
        uint16_t mmt_index;
        uint16_t att_base_off;
        uint32_t att_index;
    } s;
    uint64_t v;
} glex_mem_handle_t;
enum glex_mem_flag {
    GLEX_MEM_READ = 1,
    GLEX_MEM_WRITE = 2,
    GLEX_MEM_IOMMU = 4,
};
enum glex_flag {
    GLEX_FLAG_LOCAL_INTR = 1 << 0,
    GLEX_FLAG_REMOTE_INTR = 1 << 1,
    GLEX_FLAG_FENCE = 1 << 2,
    GLEX_FLAG_LOCAL_EVT = 1 << 3,
    GLEX_FLAG_REMOTE_EVT = 1 << 4,
    GLEX_FLAG_NO_CONNECTION = 1 << 5,
    GLEX_FLAG_ROUTE_ADAPTIVE = 1 << 6,
    GLEX_FLAG_COLL = 1 << 7,
    GLEX_FLAG_COLL_SEQ_START = 1 << 8,
    GLEX_FLAG_COLL_SEQ_TAIL = 1 << 9,
    GLEX_FLAG_COLL_COUNTER = 1 << 10,
    GLEX_FLAG_COLL_CP_DATA = 1 << 11,
    GLEX_FLAG_COLL_CP_SWAP_DATA = 1 << 12,
    GLEX_FLAG_COLL_CP_SWAP_ADDR = 1 << 13,
    GLEX_FLAG_COLL_SWAP = 1 << 14,
    GLEX_FLAG_COLL_SWAP_EP = 1 << 15,
    GLEX_FLAG_COLL_SWAP_SET = 1 << 16,
    GLEX_FLAG_COLL_REDUCE = 1 << 17,
    GLEX_FLAG_COLL_REDUCE_RESULT = 1 << 18
};
typedef struct glex_imm_mp_req {
    glex_ep_addr_t rmt_ep_addr;
    void *data;
    uint32_t len;
    uint32_t coll_counter;
    int32_t flag;
    struct glex_imm_mp_req *next;
} glex_imm_mp_req_t;
typedef struct glex_imm_rdma_req {
    glex_ep_addr_t rmt_ep_addr;
    void *data;
    uint32_t len;
    glex_mem_handle_t rmt_mh;
    uint32_t rmt_offset;
    glex_event_t rmt_evt;
    uint32_t rmt_key;
    uint32_t coll_counter;
    int32_t flag;
    struct glex_imm_rdma_req *next;
} glex_imm_rdma_req_t;
enum glex_rdma_type { GLEX_RDMA_TYPE_PUT = 0, GLEX_RDMA_TYPE_GET = 1 };
typedef struct glex_rdma_req {
    glex_ep_addr_t rmt_ep_addr;
    glex_mem_handle_t local_mh;
    uint32_t local_offset;
    uint32_t len;
    glex_mem_handle_t rmt_mh;
    uint32_t rmt_offset;
    enum glex_rdma_type type;
    glex_event_t local_evt;
    glex_event_t rmt_evt;
    uint32_t rmt_key;
    uint32_t coll_counter;
    uint32_t coll_set_num;
    int32_t flag;
    struct glex_rdma_req *next;
} glex_rdma_req_t;
enum glex_coll_reduce_op {
    GLEX_COLL_REDUCE_SUM_FLOAT = 0x0,
    GLEX_COLL_REDUCE_MAXLOC_FLOAT = 0x1,
    GLEX_COLL_REDUCE_MINLOC_FLOAT = 0x2,
    GLEX_COLL_REDUCE_SUM_SIGNED = 0x3,
    GLEX_COLL_REDUCE_MAXLOC_SIGNED = 0x4,
    GLEX_COLL_REDUCE_MINLOC_SIGNED = 0x5,
    GLEX_COLL_REDUCE_SUM_UNSIGNED = 0x6,
    GLEX_COLL_REDUCE_MAXLOC_UNSIGNED = 0x7,
    GLEX_COLL_REDUCE_MINLOC_UNSIGNED = 0x8,
    GLEX_COLL_REDUCE_LAND = 0x9,
    GLEX_COLL_REDUCE_LOR = 0xa,
    GLEX_COLL_REDUCE_LXOR = 0xb,
    GLEX_COLL_REDUCE_BAND = 0xc,
    GLEX_COLL_REDUCE_BOR = 0xd,
    GLEX_COLL_REDUCE_BXOR = 0xe
};
enum glex_coll_reduce_data_bits {
    GLEX_COLL_REDUCE_DATA_BITS_32 = 0,
    GLEX_COLL_REDUCE_DATA_BITS_64 = 1
};
union glex_coll_data_loc {
    struct {
        int32_t data;
        uint32_t location;
    } int32_s;
    struct {
        uint32_t data;
        uint32_t location;
    } uint32_s;
    struct {
        int64_t data;
        uint32_t location;
    } int64_s;
    struct {
        uint64_t data;
        uint32_t location;
    } uint64_s;
    struct {
        float data;
        uint32_t location;
    } float_s;
    struct {
        double data;
        uint32_t location;
    } double_s;
};
enum glex_err_req_op {
    GLEX_ERR_OP_IMM_MP = 0,
    GLEX_ERR_OP_MP,
    GLEX_ERR_OP_IMM_RDMA_PUT,
    GLEX_ERR_OP_RDMA_PUT,
    GLEX_ERR_OP_RDMA_GET
};
enum glex_err_req_status {
    GLEX_ERR_STATUS_FORMAT = 0,
    GLEX_ERR_STATUS_SRC_HOST_DEAD,
    GLEX_ERR_STATUS_DEST_HOST_DEAD,
    GLEX_ERR_STATUS_PCIE_READ,
    GLEX_ERR_STATUS_ATT,
    GLEX_ERR_STATUS_MMT,
    GLEX_ERR_STATUS_SRC_VP_STOP,
    GLEX_ERR_STATUS_DEST_VP_STOP,
    GLEX_ERR_STATUS_DEST_MPQ_FULL,
    GLEX_ERR_STATUS_DEST_EQ_FULL,
    GLEX_ERR_STATUS_CONNECTION_MAX_RETRY,
    GLEX_ERR_STATUS_CONNECTION_RDMA_GET,
    GLEX_ERR_STATUS_CONNECTION_NACK,
    GLEX_ERR_STATUS_CONNECTION_ECC
};
struct glex_err_req {
    enum glex_err_req_op op;
    enum glex_err_req_status status;
    uint32_t rmt_nic_id;
    uint32_t rmt_ep_num;
    uint64_t data0;
    uint64_t data1;
    uint64_t data2;
};
typedef struct glex_ep glex_ep_t;
typedef glex_ep_t *glex_ep_handle_t;
struct glex_ep {
    glex_ret_t (*send_imm_mp)(glex_ep_handle_t ep, glex_imm_mp_req_t *req,
                              glex_imm_mp_req_t **bad_req);
    glex_ret_t (*imm_rdma)(glex_ep_handle_t ep, glex_imm_rdma_req_t *req,
                           glex_imm_rdma_req_t **bad_req);
    glex_ret_t (*rdma)(glex_ep_handle_t ep, glex_rdma_req_t *req, glex_rdma_req_t **bad_req);
};
glex_ret_t glex_num_of_device(uint32_t *num);
glex_ret_t glex_open_device(uint32_t id, glex_device_handle_t *dev);
glex_ret_t glex_close_device(glex_device_handle_t dev);
glex_ret_t glex_query_device(glex_device_handle_t dev, struct glex_device_attr *dev_attr);
glex_ret_t glex_create_ep(glex_device_handle_t dev, struct glex_ep_attr *ep_attr,
                          glex_ep_handle_t *ep);
glex_ret_t glex_destroy_ep(glex_ep_handle_t ep);
glex_ret_t glex_query_ep(glex_ep_handle_t ep, struct glex_ep_attr *ep_attr);
glex_ret_t glex_get_ep_addr(glex_ep_handle_t ep, glex_ep_addr_t *ep_addr);
glex_ret_t glex_compose_ep_addr(uint32_t nic_id, uint32_t ep_num, enum glex_ep_type type,
                                glex_ep_addr_t *ep_addr);
glex_ret_t glex_decompose_ep_addr(glex_ep_addr_t ep_addr, enum glex_ep_type type, uint32_t *nic_id,
                                  uint32_t *ep_num);
glex_ret_t glex_register_mem(glex_ep_handle_t ep, void *addr, uint64_t len, int32_t flag,
                             glex_mem_handle_t *mh);
glex_ret_t glex_deregister_mem(glex_ep_handle_t ep, glex_mem_handle_t mh);
static inline glex_ret_t glex_send_imm_mp(glex_ep_handle_t ep, glex_imm_mp_req_t *req,
                                          glex_imm_mp_req_t **bad_req)
{
    return ep->send_imm_mp(ep, req, bad_req);
}
static inline glex_ret_t glex_imm_rdma(glex_ep_handle_t ep, glex_imm_rdma_req_t *req,
                                       glex_imm_rdma_req_t **bad_req)
{
    return ep->imm_rdma(ep, req, bad_req);
}
static inline glex_ret_t glex_rdma(glex_ep_handle_t ep, glex_rdma_req_t *req,
                                   glex_rdma_req_t **bad_req)
{
    return ep->rdma(ep, req, bad_req);
}
glex_ret_t glex_probe_first_mp(glex_ep_handle_t ep, int32_t timeout, glex_ep_addr_t *src_addr,
                               void **data, uint32_t *len);
glex_ret_t glex_probe_next_mp(glex_ep_handle_t ep, glex_ep_addr_t *src_addr, void **data,
                              uint32_t *len);
glex_ret_t glex_discard_probed_mp(glex_ep_handle_t ep);
glex_ret_t glex_receive_mp(glex_ep_handle_t ep, int32_t timeout, glex_ep_addr_t *src_addr,
                           void *data, uint32_t *len);
glex_ret_t glex_probe_first_event(glex_ep_handle_t ep, int32_t timeout, glex_event_t **event);
glex_ret_t glex_probe_next_event(glex_ep_handle_t ep, glex_event_t **event);
glex_ret_t glex_discard_probed_event(glex_ep_handle_t ep);
glex_ret_t glex_poll_error_req(glex_ep_handle_t ep, uint32_t *num, struct glex_err_req *list);
const char *glex_error_str(glex_ret_t ret);
const char *glex_error_req_status_str(enum glex_err_req_status status);
const char *glex_error_req_opcode_str(enum glex_err_req_op op);
glex_ret_t glex_coll_compose_mp_swap_addr_data(glex_ep_handle_t ep, glex_mem_handle_t mh,
                                               uint32_t offset, uint32_t key, void *data,
                                               uint32_t *len);
glex_ret_t glex_coll_compose_mp_reduce_data(union glex_coll_data_loc list[], uint32_t count,
                                            enum glex_coll_reduce_data_bits bits,
                                            enum glex_coll_reduce_op op, uint32_t branch_degree,
                                            void *data, uint32_t *len);
glex_ret_t glex_coll_decompose_mp_reduce_data(union glex_coll_data_loc list[], uint32_t count,
                                              enum glex_coll_reduce_data_bits bits, void *data);
glex_ret_t glex_coll_compose_mp_set_data(glex_ep_addr_t addrs[], uint32_t count, void *data,
                                         uint32_t *len);
enum glex_mgmt_type {
    GLEX_MGMT_REG_READ_REQ = 1,
    GLEX_MGMT_REG_READ_RSP = 2,
    GLEX_MGMT_REG_WRITE_REQ = 3,
    GLEX_MGMT_REG_WRITE_RSP = 4,
    GLEX_MGMT_REG_ERR_RSP = 5,
    GLEX_MGMT_EEP_READ_REQ = 6,
    GLEX_MGMT_EEP_READ_RSP = 7,
    GLEX_MGMT_EEP_WRITE_REQ = 8,
    GLEX_MGMT_EEP_WRITE_RSP = 9,
    GLEX_MGMT_EEP_ERR_RSP = 10,
    GLEX_MGMT_REPORT = 11
};
enum glex_mgmt_chip { GLEX_MGMT_CHIP_NIC = 1, GLEX_MGMT_CHIP_NRC = 2 };
struct glex_mgmt_route {
    uint8_t num;
    uint8_t port[20];
};
struct glex_mgmt_info {
    uint8_t type;
    uint8_t chip;
    uint16_t transaction_id;
    uint32_t chip_id;
    struct glex_mgmt_route forward;
    struct glex_mgmt_route backward;
    uint8_t count;
    uint8_t status;
    uint16_t addr[6];
    uint64_t reg[2];
    uint8_t byte[6];
    struct {
        uint8_t event;
        uint8_t port;
        uint8_t chip;
        uint32_t chip_id;
        uint32_t seq;
        uint64_t value;
    } report;
    uint64_t time_ns;
};
enum glex_mgmt_flag { GLEX_MGMT_FLAG_FENCE = 1, GLEX_MGMT_FLAG_MORE = 2 };
glex_ret_t glex_send_mgmt_req(glex_ep_handle_t ep, struct glex_mgmt_info *req, int32_t flag);
glex_ret_t glex_receive_mgmt_ack(glex_ep_handle_t ep, int32_t timeout, struct glex_mgmt_info *ack);
enum glex_ext_cap {
    GLEX_EXT_CAP_PRIVATE_RDMA = 1,
    GLEX_EXT_CAP_MAP = 2,
    GLEX_EXT_CAP_SLEEP = 4,
    GLEX_EXT_CAP_COLL = 8,
};
struct glex_ext_device_attr {
    uint32_t caps;
    char missing[192];
    uint32_t space;
    uint64_t fabric;
    uint64_t network;
    char network_text[64];
};
struct glex_ext_counters {
    uint64_t mp_tx, mp_bytes;
    uint64_t mp_rx, mp_lost;
    uint64_t imm_put_tx, put_tx, get_tx;
    uint64_t imm_put_bytes, put_bytes, get_bytes;
    uint64_t event_rx, event_lost;
    uint64_t event_tx;
    uint64_t error_req;
    uint64_t mpq_high, eq_high;
    uint64_t wakeups;
    uint64_t abandoned;
    uint64_t coll_tx;
    uint64_t coll_carried;
    uint64_t mapped_tx, mapped_bytes;
    uint64_t buffered_tx, buffered_bytes;
    uint64_t zcopy_tx, zcopy_bytes;
    uint64_t net_tx, net_rx;
    uint64_t net_peers;
    uint64_t net_ended;
    uint64_t net_denied;
    uint64_t helped_bytes;
    uint64_t help_bytes;
    uint64_t help_waits;
    uint64_t kernel_bytes;
    uint64_t heap_maps;
};
glex_ret_t glex_ext_set_single_threaded(glex_ep_handle_t ep);
glex_ret_t glex_ext_query_device(glex_device_handle_t dev, struct glex_ext_device_attr *attr);
glex_ret_t glex_ext_is_reachable(glex_device_handle_t dev, uint32_t nic_id);
glex_ret_t glex_ext_mem_alloc(glex_ep_handle_t ep, uint64_t len, void **addr_p);
glex_ret_t glex_ext_mem_free(glex_ep_handle_t ep, void *addr);
glex_ret_t glex_ext_register_long(glex_ep_handle_t ep, void *addr, uint64_t len, int32_t flag,
                                  glex_mem_handle_t *first);
glex_ret_t glex_ext_deregister_long(glex_ep_handle_t ep, glex_mem_handle_t first, uint64_t len);
static inline glex_mem_handle_t glex_ext_long_handle(glex_mem_handle_t first, uint64_t offset,
                                                     uint32_t *handle_offset)
{
    *handle_offset = (uint32_t)(offset % (1ull << 31));
    first.v += offset / (1ull << 31);
    return first;
}
struct glex_ext_pin;
glex_ret_t glex_ext_peer_ptr(glex_ep_handle_t ep, glex_ep_addr_t peer, glex_mem_handle_t mh,
                             uint32_t key, uint64_t offset, uint64_t len, void **ptr_p,
                             struct glex_ext_pin **pin_p);
void glex_ext_unpin(struct glex_ext_pin *pin);
struct glex_ext_watch {
    const uint64_t *word;
    uint64_t state;
    struct glex_ext_pin *pin;
};
glex_ret_t glex_ext_peer_watch(glex_ep_handle_t ep, glex_ep_addr_t peer, glex_mem_handle_t mh,
                               uint32_t key, struct glex_ext_watch *watch);
glex_ep_addr_t glex_ext_peer_hint(glex_ep_handle_t ep, glex_ep_addr_t peer);
glex_ret_t glex_ext_rdma_now(glex_ep_handle_t ep, const glex_rdma_req_t *req, void *local);
glex_ret_t glex_ext_post_event(glex_ep_handle_t ep, glex_ep_addr_t peer, uint64_t cookie_0,
                               uint64_t cookie_1);
glex_ret_t glex_ext_post_mp(glex_ep_handle_t ep, glex_ep_addr_t peer, uint64_t word_0,
                            uint64_t word_1, uint64_t head, const void *data, uint32_t len);
enum glex_ext_message {
    GLEX_EXT_MESSAGE_MAPPED,
    GLEX_EXT_MESSAGE_BUFFERED,
    GLEX_EXT_MESSAGE_ZCOPY
};
glex_ret_t glex_ext_count_messages(glex_ep_handle_t ep, enum glex_ext_message kind,
                                   uint64_t messages, uint64_t bytes);
struct glex_ext_arrival {
    glex_event_t *event;
    void *data;
    uint32_t len;
    glex_ep_addr_t src;
};
glex_ret_t glex_ext_poll(glex_ep_handle_t ep, struct glex_ext_arrival *arrival);
struct glex_ext_queues {
    uint64_t events_arrived, events_taken;
    uint64_t mps_arrived, mps_taken;
};
glex_ret_t glex_ext_query_queues(glex_ep_handle_t ep, struct glex_ext_queues *queues);
glex_ret_t glex_ext_event_fd(glex_ep_handle_t ep, int *fd);
glex_ret_t glex_ext_mgmt_fd(glex_ep_handle_t ep, int *fd, uint8_t *vp);
glex_ret_t glex_ext_arm(glex_ep_handle_t ep);
glex_ret_t glex_ext_set_receiver(glex_ep_handle_t ep, uint64_t uuid);
glex_ret_t glex_ext_has_receiver(glex_ep_handle_t ep, glex_ep_addr_t peer);
glex_ret_t glex_ext_set_domain(glex_ep_handle_t ep, glex_ep_handle_t domain);
int glex_ext_is_remote(glex_ep_handle_t ep, glex_ep_addr_t peer);
glex_ret_t glex_ext_peer_epoch(glex_ep_handle_t ep, glex_ep_addr_t peer, uint64_t *epoch_p);
glex_ret_t glex_ext_check_peer(glex_ep_handle_t ep, glex_ep_addr_t peer, uint64_t uuid,
                               uint64_t epoch);
enum glex_ext_process_state {
    GLEX_EXT_PROCESS_RUNS,
    GLEX_EXT_PROCESS_CLOSED,
    GLEX_EXT_PROCESS_EXITED,
    GLEX_EXT_PROCESS_KILLED
};
struct glex_ext_process {
    uint32_t pid;
    int32_t rank;
    enum glex_ext_process_state state;
};
glex_ret_t glex_ext_peer_process(glex_ep_handle_t ep, glex_ep_addr_t peer, uint64_t uuid,
                                 struct glex_ext_process *process);
glex_ret_t glex_ext_query_counters(glex_ep_handle_t ep, struct glex_ext_counters *counters);
const char *glex_ext_version(void);
enum macro_GLEX_ANY_EP_NUM { value_GLEX_ANY_EP_NUM = 0xffffffffU };
enum macro_GLEX_EP_DQ_CAPACITY_DEFAULT { value_GLEX_EP_DQ_CAPACITY_DEFAULT = 0 };
enum macro_GLEX_EP_MPQ_CAPACITY_DEFAULT { value_GLEX_EP_MPQ_CAPACITY_DEFAULT = 0 };
enum macro_GLEX_EP_EQ_CAPACITY_DEFAULT { value_GLEX_EP_EQ_CAPACITY_DEFAULT = 0 };
enum macro_GLEX_COLL_MAX_BRANCH_DEGREE { value_GLEX_COLL_MAX_BRANCH_DEGREE = 32 };
enum macro_GLEX_COLL_REDUCE_MAX_DATA_UNITS { value_GLEX_COLL_REDUCE_MAX_DATA_UNITS = 6 };
enum macro_GLEX_COLL_SET_MAX_NUM { value_GLEX_COLL_SET_MAX_NUM = 14 };
enum macro_GLEX_MGMT_MAX_HOPS { value_GLEX_MGMT_MAX_HOPS = 20 };
enum macro_GLEX_MGMT_MAX_REGS { value_GLEX_MGMT_MAX_REGS = 2 };
enum macro_GLEX_MGMT_MAX_BYTES { value_GLEX_MGMT_MAX_BYTES = 6 };
enum macro_GLEX_MGMT_ANY_ID { value_GLEX_MGMT_ANY_ID = 0xffffffU };
enum macro_GLEX_EXT_VERSION { value_GLEX_EXT_VERSION = 9 };
enum macro_GLEX_EXT_MEM_EVENT_DATA { value_GLEX_EXT_MEM_EVENT_DATA = 0x100 };
enum macro_GLEX_EXT_FLAG_NO_LOSS { value_GLEX_EXT_FLAG_NO_LOSS = (1 << 30) };
enum macro_GLEX_EXT_FLAG_DOMAIN { value_GLEX_EXT_FLAG_DOMAIN = (1 << 29) };
enum macro_GLEX_EXT_LONG_STEP { value_GLEX_EXT_LONG_STEP = (1ull << 31) };
int soname_libglex_so_0;
__typeof__(&glex_close_device) GLEX_0_1_glex_close_device;
__typeof__(&glex_coll_compose_mp_reduce_data) GLEX_0_1_glex_coll_compose_mp_reduce_data;
__typeof__(&glex_coll_compose_mp_set_data) GLEX_0_1_glex_coll_compose_mp_set_data;
__typeof__(&glex_coll_compose_mp_swap_addr_data) GLEX_0_1_glex_coll_compose_mp_swap_addr_data;
__typeof__(&glex_coll_decompose_mp_reduce_data) GLEX_0_1_glex_coll_decompose_mp_reduce_data;
__typeof__(&glex_compose_ep_addr) GLEX_0_1_glex_compose_ep_addr;
__typeof__(&glex_create_ep) GLEX_0_1_glex_create_ep;
__typeof__(&glex_decompose_ep_addr) GLEX_0_1_glex_decompose_ep_addr;
__typeof__(&glex_deregister_mem) GLEX_0_1_glex_deregister_mem;
__typeof__(&glex_destroy_ep) GLEX_0_1_glex_destroy_ep;
__typeof__(&glex_discard_probed_event) GLEX_0_1_glex_discard_probed_event;
__typeof__(&glex_discard_probed_mp) GLEX_0_1_glex_discard_probed_mp;
__typeof__(&glex_error_req_opcode_str) GLEX_0_1_glex_error_req_opcode_str;
__typeof__(&glex_error_req_status_str) GLEX_0_1_glex_error_req_status_str;
__typeof__(&glex_error_str) GLEX_0_1_glex_error_str;
__typeof__(&glex_ext_arm) GLEX_0_1_glex_ext_arm;
__typeof__(&glex_ext_check_peer) GLEX_0_1_glex_ext_check_peer;
__typeof__(&glex_ext_count_messages) GLEX_0_1_glex_ext_count_messages;
__typeof__(&glex_ext_deregister_long) GLEX_0_1_glex_ext_deregister_long;
__typeof__(&glex_ext_event_fd) GLEX_0_1_glex_ext_event_fd;
__typeof__(&glex_ext_has_receiver) GLEX_0_1_glex_ext_has_receiver;
__typeof__(&glex_ext_is_reachable) GLEX_0_1_glex_ext_is_reachable;
__typeof__(&glex_ext_is_remote) GLEX_0_1_glex_ext_is_remote;
__typeof__(&glex_ext_mem_alloc) GLEX_0_1_glex_ext_mem_alloc;
__typeof__(&glex_ext_mem_free) GLEX_0_1_glex_ext_mem_free;
__typeof__(&glex_ext_mgmt_fd) GLEX_0_1_glex_ext_mgmt_fd;
__typeof__(&glex_ext_peer_epoch) GLEX_0_1_glex_ext_peer_epoch;
__typeof__(&glex_ext_peer_hint) GLEX_0_1_glex_ext_peer_hint;
__typeof__(&glex_ext_peer_process) GLEX_0_1_glex_ext_peer_process;
__typeof__(&glex_ext_peer_ptr) GLEX_0_1_glex_ext_peer_ptr;
__typeof__(&glex_ext_peer_watch) GLEX_0_1_glex_ext_peer_watch;
__typeof__(&glex_ext_poll) GLEX_0_1_glex_ext_poll;
__typeof__(&glex_ext_post_event) GLEX_0_1_glex_ext_post_event;
__typeof__(&glex_ext_post_mp) GLEX_0_1_glex_ext_post_mp;
__typeof__(&glex_ext_query_counters) GLEX_0_1_glex_ext_query_counters;
__typeof__(&glex_ext_query_device) GLEX_0_1_glex_ext_query_device;
__typeof__(&glex_ext_query_queues) GLEX_0_1_glex_ext_query_queues;
__typeof__(&glex_ext_rdma_now) GLEX_0_1_glex_ext_rdma_now;
__typeof__(&glex_ext_register_long) GLEX_0_1_glex_ext_register_long;
__typeof__(&glex_ext_set_domain) GLEX_0_1_glex_ext_set_domain;
__typeof__(&glex_ext_set_receiver) GLEX_0_1_glex_ext_set_receiver;
__typeof__(&glex_ext_set_single_threaded) GLEX_0_1_glex_ext_set_single_threaded;
__typeof__(&glex_ext_unpin) GLEX_0_1_glex_ext_unpin;
__typeof__(&glex_ext_version) GLEX_0_1_glex_ext_version;
__typeof__(&glex_get_ep_addr) GLEX_0_1_glex_get_ep_addr;
__typeof__(&glex_num_of_device) GLEX_0_1_glex_num_of_device;
__typeof__(&glex_open_device) GLEX_0_1_glex_open_device;
__typeof__(&glex_poll_error_req) GLEX_0_1_glex_poll_error_req;
__typeof__(&glex_probe_first_event) GLEX_0_1_glex_probe_first_event;
__typeof__(&glex_probe_first_mp) GLEX_0_1_glex_probe_first_mp;
__typeof__(&glex_probe_next_event) GLEX_0_1_glex_probe_next_event;
__typeof__(&glex_probe_next_mp) GLEX_0_1_glex_probe_next_mp;
__typeof__(&glex_query_device) GLEX_0_1_glex_query_device;
__typeof__(&glex_query_ep) GLEX_0_1_glex_query_ep;
__typeof__(&glex_receive_mgmt_ack) GLEX_0_1_glex_receive_mgmt_ack;
__typeof__(&glex_receive_mp) GLEX_0_1_glex_receive_mp;
__typeof__(&glex_register_mem) GLEX_0_1_glex_register_mem;
__typeof__(&glex_send_mgmt_req) GLEX_0_1_glex_send_mgmt_req;

/*
 * GLEX (GaLaxy EXpress): the user interface of the Tianhe network interface.
 *
 * Names, field order and enumerator values are those of the vendor's interface, so programs for the
 * vendor's library compile and run unchanged. glex_ext.h has the extensions of this project's
 * software NIC.
 *
 * Conventions, for all functions:
 * - Functions return GLEX_SUCCESS or the reason of a failure. Output arguments are set on success
 *   only, unless a comment says otherwise.
 * - Lengths and offsets are bytes. Timeouts are milliseconds: 0 returns at once, -1 waits for ever.
 *   A waiting call sleeps.
 * - Only calls with a timeout may block.
 * - Any number of threads may use an endpoint. A call locks the endpoint, except while it sleeps.
 *   Call glex_destroy_ep() and glex_close_device() after all other calls. A probe hands
 *   messages or events to the calling thread until the thread discards them. Other threads cannot
 *   get or discard these entries, and the entries take no room in the queue.
 * - If the environment variable LIB_GLEX_SINGLE_THREADED is set (except to "0"), one thread at a
 *   time may use an endpoint, and calls take no lock. Registration and deregistration may still run
 *   in other threads.
 * - Different endpoints are independent.
 *
 * The communication model is described in section 3 of M. Xie et al., "Implementation of open
 * communication frameworks on the Tianhe interconnect" (see docs/architecture.md).
 */
#ifndef GLEX_H
#define GLEX_H

/* Programs rely on the includes of the vendor's header. */
#include <endian.h>
#include <pthread.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Results of calls. */
typedef enum glex_ret {
    GLEX_SUCCESS = 0,     /**< done */
    GLEX_SYS_ERR,         /**< the operating system refused; see errno */
    GLEX_INVALID_PARAM,   /**< an argument is outside its range */
    GLEX_NO_EP_RESOURCE,  /**< no endpoint number is free, or no endpoint has the address */
    GLEX_NO_MEM_RESOURCE, /**< no memory, or the registration table is full */
    GLEX_BUSY,            /**< descriptor queue full: nothing was taken, post again later */
    GLEX_NO_MP,           /**< no message arrived within the timeout */
    GLEX_NO_EVENT,        /**< no event arrived within the timeout */
    GLEX_INTR,            /**< a signal interrupted the wait */
    GLEX_ACCESS_ERR,      /**< the memory cannot be read or written as asked */
    GLEX_NOT_IMPLEMENTED  /**< this NIC does not do that */
} glex_ret_t;

/** One NIC of this node. Belongs to the library: programs use its address alone. */
typedef struct glex_device {
    pthread_mutex_t mutex;
} glex_device_t;
typedef glex_device_t *glex_device_handle_t;

/** Properties of a NIC; capacities count queue entries, lengths are bytes. */
struct glex_device_attr {
    uint32_t nic_id;                /**< address of the NIC on its fabric */
    uint32_t max_fast_ep_num;       /**< endpoints of type FAST */
    uint32_t max_ep_num;            /**< endpoints of type NORMAL */
    uint32_t max_emulate_ep_num;    /**< endpoints of type EMULATE */
    uint32_t mmt_units;             /**< registrations per endpoint */
    uint32_t att_units;             /**< address translation units */
    uint32_t max_imm_mp_data_len;   /**< data in an immediate message */
    uint32_t max_mp_data_len;       /**< data in a message */
    uint32_t max_imm_rdma_data_len; /**< data in an immediate RDMA put */
    uint32_t max_rdma_data_len;     /**< data in one RDMA request */
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
    GLEX_EP_TYPE_FAST = 0,   /**< descriptors by programmed I/O */
    GLEX_EP_TYPE_NORMAL = 1, /**< descriptors by DMA */
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

/** Address of an endpoint; travels between processes as the number `v`. */
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

#define GLEX_ANY_EP_NUM              0xffffffffU
#define GLEX_EP_DQ_CAPACITY_DEFAULT  0
#define GLEX_EP_MPQ_CAPACITY_DEFAULT 0
#define GLEX_EP_EQ_CAPACITY_DEFAULT  0
/** The key of an endpoint from a number of the program's choice, such as a job id. */
#define GLEX_EP_MAKE_KEY(x)         ((uint32_t)(x))
#define GLEX_EP_MAKE_HC_UMMT_KEY(x) ((uint32_t)(x))

/** How an endpoint is to be made, or, from glex_query_ep(), how it was made. */
struct glex_ep_attr {
    enum glex_ep_type type;
    enum glex_mpq_type mpq_type;
    enum glex_eq_type eq_type;
    uint32_t num; /**< number on its NIC, or GLEX_ANY_EP_NUM */
    uint32_t key; /**< RDMA requests to this endpoint must name it */
    uint32_t dq_capacity;
    uint32_t mpq_capacity;
    uint32_t eq_capacity;
};

/** The event that an RDMA request can leave in an event queue. cookie_1 must not be 0. Newer
 * programs access the same two words as cookie[0] and cookie[1]. */
typedef struct glex_event {
    union {
        struct {
            volatile uint64_t cookie_0;
            volatile uint64_t cookie_1;
        };
        volatile uint64_t cookie[2];
    };
} glex_event_t;

/** Name of a registration; travels between processes as the number `v`. */
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

/** The allowed accesses of peers to registered memory. */
enum glex_mem_flag {
    GLEX_MEM_READ = 1,
    GLEX_MEM_WRITE = 2,
    GLEX_MEM_IOMMU = 4,
};

enum glex_flag {
    GLEX_FLAG_LOCAL_INTR = 1 << 0,
    GLEX_FLAG_REMOTE_INTR = 1 << 1,
    GLEX_FLAG_FENCE = 1 << 2,      /**< start after all earlier requests completed */
    GLEX_FLAG_LOCAL_EVT = 1 << 3,  /**< completion event into the initiator's EQ */
    GLEX_FLAG_REMOTE_EVT = 1 << 4, /**< completion event into the target's EQ */
    GLEX_FLAG_NO_CONNECTION = 1 << 5,
    GLEX_FLAG_ROUTE_ADAPTIVE = 1 << 6, /**< may overtake other requests */
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

/** Immediate message: the data is copied at the call. */
typedef struct glex_imm_mp_req {
    glex_ep_addr_t rmt_ep_addr;
    void *data;   /**< may be NULL where len is 0 */
    uint32_t len; /**< at most max_imm_mp_data_len */
    uint32_t coll_counter;
    int32_t flag;                 /**< of enum glex_flag */
    struct glex_imm_mp_req *next; /**< next request of the chain, or NULL */
} glex_imm_mp_req_t;

/** Immediate RDMA put: the data is copied at the call and may be any memory. */
typedef struct glex_imm_rdma_req {
    glex_ep_addr_t rmt_ep_addr;
    void *data;
    uint32_t len; /**< at most max_imm_rdma_data_len */
    glex_mem_handle_t rmt_mh;
    uint32_t rmt_offset;  /**< from the start of the registration */
    glex_event_t rmt_evt; /**< read only with REMOTE_EVT */
    uint32_t rmt_key;     /**< the target endpoint's key */
    uint32_t coll_counter;
    int32_t flag;
    struct glex_imm_rdma_req *next;
} glex_imm_rdma_req_t;

enum glex_rdma_type { GLEX_RDMA_TYPE_PUT = 0, GLEX_RDMA_TYPE_GET = 1 };

/** RDMA between two registrations. */
typedef struct glex_rdma_req {
    glex_ep_addr_t rmt_ep_addr;
    glex_mem_handle_t local_mh; /**< ignored if len is 0 */
    uint32_t local_offset;
    uint32_t len; /**< at most max_rdma_data_len */
    glex_mem_handle_t rmt_mh;
    uint32_t rmt_offset;
    enum glex_rdma_type type;
    glex_event_t local_evt; /**< read only with LOCAL_EVT */
    glex_event_t rmt_evt;   /**< read only with REMOTE_EVT */
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

#define GLEX_COLL_MAX_BRANCH_DEGREE     32
#define GLEX_COLL_REDUCE_MAX_DATA_UNITS 6
#define GLEX_COLL_SET_MAX_NUM           14

/** A reduction's value with its location. */
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
    GLEX_ERR_STATUS_FORMAT = 0, /**< the request makes no sense to the NIC */
    GLEX_ERR_STATUS_SRC_HOST_DEAD,
    GLEX_ERR_STATUS_DEST_HOST_DEAD, /**< no such NIC on the fabric */
    GLEX_ERR_STATUS_PCIE_READ,      /**< the NIC could not read or write host memory */
    GLEX_ERR_STATUS_ATT,            /**< the range leaves the registration */
    GLEX_ERR_STATUS_MMT,            /**< no such registration, wrong key or direction */
    GLEX_ERR_STATUS_SRC_VP_STOP,
    GLEX_ERR_STATUS_DEST_VP_STOP,  /**< no such endpoint on the NIC, or it died */
    GLEX_ERR_STATUS_DEST_MPQ_FULL, /**< the message was lost */
    GLEX_ERR_STATUS_DEST_EQ_FULL,  /**< the event was lost */
    GLEX_ERR_STATUS_CONNECTION_MAX_RETRY,
    GLEX_ERR_STATUS_CONNECTION_RDMA_GET,
    GLEX_ERR_STATUS_CONNECTION_NACK, /**< or this process lacks resources to reach the peer */
    GLEX_ERR_STATUS_CONNECTION_ECC
};

/** A request that was taken and failed later. */
struct glex_err_req {
    enum glex_err_req_op op;
    enum glex_err_req_status status;
    uint32_t rmt_nic_id;
    uint32_t rmt_ep_num;
    uint64_t data0; /**< messages: the first 8 bytes; RDMA: remote mem handle */
    uint64_t data1; /**< messages: length; RDMA: remote offset << 32 | length */
    uint64_t data2; /**< cookie_1 of the local, else remote event; else 0 */
};

/** An endpoint. Only the first members are known to programs: the posting functions. */
typedef struct glex_ep glex_ep_t;
typedef glex_ep_t *glex_ep_handle_t;
struct glex_ep {
    glex_ret_t (*send_imm_mp)(glex_ep_handle_t ep, glex_imm_mp_req_t *req,
                              glex_imm_mp_req_t **bad_req);
    glex_ret_t (*imm_rdma)(glex_ep_handle_t ep, glex_imm_rdma_req_t *req,
                           glex_imm_rdma_req_t **bad_req);
    glex_ret_t (*rdma)(glex_ep_handle_t ep, glex_rdma_req_t *req, glex_rdma_req_t **bad_req);
};

/** @param [out] num  NICs of this node. Errors: INVALID_PARAM. */
glex_ret_t glex_num_of_device(uint32_t *num);

/**
 * Open a NIC. The handle is the caller's until glex_close_device(); a device may be opened more
 * than once.
 * @param id  0 to glex_num_of_device() - 1.
 * Errors: INVALID_PARAM (no such device), SYS_ERR (the fabric is not accessible), NO_MEM_RESOURCE.
 */
glex_ret_t glex_open_device(uint32_t id, glex_device_handle_t *dev);

/** Close a NIC whose endpoints are all destroyed. Errors: INVALID_PARAM, BUSY (endpoints left). */
glex_ret_t glex_close_device(glex_device_handle_t dev);

glex_ret_t glex_query_device(glex_device_handle_t dev, struct glex_device_attr *dev_attr);

/**
 * Create an endpoint with its MPQ and EQ.
 * Errors: INVALID_PARAM (a value out of range), NO_EP_RESOURCE (number taken), NO_MEM_RESOURCE
 * (no room for the queues), NOT_IMPLEMENTED (type MANAGEMENT, where no managed network is named by
 * the environment variable GLEX_INM), SYS_ERR.
 */
glex_ret_t glex_create_ep(glex_device_handle_t dev, struct glex_ep_attr *ep_attr,
                          glex_ep_handle_t *ep);

/** Destroy an endpoint, its registrations and the entries in its queues. */
glex_ret_t glex_destroy_ep(glex_ep_handle_t ep);

/** The attributes that an endpoint really has: its number and capacities. */
glex_ret_t glex_query_ep(glex_ep_handle_t ep, struct glex_ep_attr *ep_attr);

glex_ret_t glex_get_ep_addr(glex_ep_handle_t ep, glex_ep_addr_t *ep_addr);

glex_ret_t glex_compose_ep_addr(uint32_t nic_id, uint32_t ep_num, enum glex_ep_type type,
                                glex_ep_addr_t *ep_addr);

glex_ret_t glex_decompose_ep_addr(glex_ep_addr_t ep_addr, enum glex_ep_type type, uint32_t *nic_id,
                                  uint32_t *ep_num);

/**
 * Let peers read or write memory by RDMA. Registrations may overlap. Offsets in requests are 32
 * bits from the start of the registration: register memory beyond 4 GiB again.
 * @param flag  Of enum glex_mem_flag.
 * Errors: INVALID_PARAM, NO_MEM_RESOURCE (table full), ACCESS_ERR (not this process's memory).
 */
glex_ret_t glex_register_mem(glex_ep_handle_t ep, void *addr, uint64_t len, int32_t flag,
                             glex_mem_handle_t *mh);

/** Requests that name the registration fail from now on. Errors: INVALID_PARAM. */
glex_ret_t glex_deregister_mem(glex_ep_handle_t ep, glex_mem_handle_t mh);

/**
 * Post a chain of requests, in order. All three posting functions work alike.
 * @param bad_req  May be NULL; where the call does not succeed: the first request not taken.
 * Errors: BUSY (post the rest later), INVALID_PARAM (format), NOT_IMPLEMENTED (an unknown flag). A
 * request that was taken and fails later is reported by glex_poll_error_req().
 */
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

/**
 * The oldest message not yet discarded; it stays in the queue, and `*data` valid and writable,
 * until glex_discard_probed_mp(). Restarts the cursor of glex_probe_next_mp().
 * Errors: NO_MP, INTR.
 */
glex_ret_t glex_probe_first_mp(glex_ep_handle_t ep, int32_t timeout, glex_ep_addr_t *src_addr,
                               void **data, uint32_t *len);

/** The next message not yet probed. Does not wait. Errors: NO_MP. */
glex_ret_t glex_probe_next_mp(glex_ep_handle_t ep, glex_ep_addr_t *src_addr, void **data,
                              uint32_t *len);

/** Remove all messages that were probed. */
glex_ret_t glex_discard_probed_mp(glex_ep_handle_t ep);

/**
 * Copy out and remove the oldest message.
 * @param [out] data  Room for max_imm_mp_data_len bytes.
 * @param [out] len   Output only.
 * Errors: NO_MP, INTR.
 */
glex_ret_t glex_receive_mp(glex_ep_handle_t ep, int32_t timeout, glex_ep_addr_t *src_addr,
                           void *data, uint32_t *len);

/** As glex_probe_first_mp(), for events. Errors: NO_EVENT, INTR. */
glex_ret_t glex_probe_first_event(glex_ep_handle_t ep, int32_t timeout, glex_event_t **event);

glex_ret_t glex_probe_next_event(glex_ep_handle_t ep, glex_event_t **event);

glex_ret_t glex_discard_probed_event(glex_ep_handle_t ep);

/**
 * Requests of this endpoint that failed since the last call.
 * @param [in,out] num   Room in the list; how many were written. With nothing to report it is set
 *                       to 0 and the list is not touched.
 */
glex_ret_t glex_poll_error_req(glex_ep_handle_t ep, uint32_t *num, struct glex_err_req *list);

/** A text for people; glex_error_str(GLEX_SUCCESS) is "successful". Never NULL. */
const char *glex_error_str(glex_ret_t ret);
const char *glex_error_req_status_str(enum glex_err_req_status status);
const char *glex_error_req_opcode_str(enum glex_err_req_op op);

/*
 * Collective offload. A request with GLEX_FLAG_COLL and _COLL_COUNTER is a control packet (CP). The
 * destination counts CPs. A sequence is a series of requests, from a request with _COLL_SEQ_START
 * to a request with _COLL_SEQ_TAIL. It waits at the posting endpoint until `coll_counter` CPs
 * have come. Then the NIC sends its requests, while the program computes. Posting returns
 * at once, and the program may reuse requests and immediate data. BUSY: no room for more waiting
 * requests. docs/nic.md has the meaning of each flag.
 *
 * These four functions only compute data; they never block. `data` has room for max_imm_mp_data_len
 * bytes, *len is output only. Errors: INVALID_PARAM.
 */

/**
 * Data of an MP with COLL_CP_SWAP_ADDR: names memory of `ep` to the sequence that waits at the
 * packet's destination, for its RDMA requests with COLL_SWAP or COLL_SWAP_EP.
 */
glex_ret_t glex_coll_compose_mp_swap_addr_data(glex_ep_handle_t ep, glex_mem_handle_t mh,
                                               uint32_t offset, uint32_t key, void *data,
                                               uint32_t *len);

/**
 * Make the data of a request with COLL_REDUCE. The values are combined element by element with
 * those of packets with the same count, width and operation.
 * @param list           Its members int32_s ... double_s, according to operation and width.
 * @param count          1 to GLEX_COLL_REDUCE_MAX_DATA_UNITS.
 * @param branch_degree  Packets to be combined at one endpoint, at most
 *        GLEX_COLL_MAX_BRANCH_DEGREE; the sequence's coll_counter sets how many packets it waits
 *        for.
 */
glex_ret_t glex_coll_compose_mp_reduce_data(union glex_coll_data_loc list[], uint32_t count,
                                            enum glex_coll_reduce_data_bits bits,
                                            enum glex_coll_reduce_op op, uint32_t branch_degree,
                                            void *data, uint32_t *len);

/** Values of a packet made by the function above, or of a result. Also INVALID_PARAM: `data` is
 *  nothing of the kind, or has another count or width. */
glex_ret_t glex_coll_decompose_mp_reduce_data(union glex_coll_data_loc list[], uint32_t count,
                                              enum glex_coll_reduce_data_bits bits, void *data);

/** Data of an MP with COLL_SWAP_SET: the endpoints that it is sent to.
 *  @param count  At most GLEX_COLL_SET_MAX_NUM; 0: the request's own destination. */
glex_ret_t glex_coll_compose_mp_set_data(glex_ep_addr_t addrs[], uint32_t count, void *data,
                                         uint32_t *len);

/* ---- management of the network (M. Xie et al., "In-band management of Tianhe-2", 3.4.1) -------- */

/** Types of management packet. */
enum glex_mgmt_type {
    GLEX_MGMT_REG_READ_REQ = 1, /**< read 1 or 2 registers */
    GLEX_MGMT_REG_READ_RSP = 2,
    GLEX_MGMT_REG_WRITE_REQ = 3, /**< write 1 or 2 registers */
    GLEX_MGMT_REG_WRITE_RSP = 4,
    GLEX_MGMT_REG_ERR_RSP = 5,  /**< the request was refused; see status */
    GLEX_MGMT_EEP_READ_REQ = 6, /**< read 1 to 6 bytes of the EEPROM */
    GLEX_MGMT_EEP_READ_RSP = 7,
    GLEX_MGMT_EEP_WRITE_REQ = 8,
    GLEX_MGMT_EEP_WRITE_RSP = 9,
    GLEX_MGMT_EEP_ERR_RSP = 10,
    GLEX_MGMT_REPORT = 11 /**< a chip reports by itself */
};

enum glex_mgmt_chip { GLEX_MGMT_CHIP_NIC = 1, GLEX_MGMT_CHIP_NRC = 2 };

#define GLEX_MGMT_MAX_HOPS  20
#define GLEX_MGMT_MAX_REGS  2
#define GLEX_MGMT_MAX_BYTES 6
/** The id of a chip without an id. The chip answers to no other id. */
#define GLEX_MGMT_ANY_ID 0xffffffU

/** A source route: the output port of every router on the way. */
struct glex_mgmt_route {
    uint8_t num; /**< routers passed, at most GLEX_MGMT_MAX_HOPS */
    uint8_t port[GLEX_MGMT_MAX_HOPS];
};

/** A request, a response or a report. */
struct glex_mgmt_info {
    uint8_t type;                    /**< enum glex_mgmt_type */
    uint8_t chip;                    /**< enum glex_mgmt_chip: the kind of chip that it is for */
    uint16_t transaction_id;         /**< chosen by the program; the response has the same id */
    uint32_t chip_id;                /**< the chip that it is for */
    struct glex_mgmt_route forward;  /**< from here to the chip */
    struct glex_mgmt_route backward; /**< from the chip to here */
    uint8_t count;                   /**< registers or bytes */
    uint8_t status;                  /**< of an error response: why */
    uint16_t addr[GLEX_MGMT_MAX_BYTES];
    uint64_t reg[GLEX_MGMT_MAX_REGS];
    uint8_t byte[GLEX_MGMT_MAX_BYTES];
    struct {
        uint8_t event;
        uint8_t port;
        uint8_t chip; /**< enum glex_mgmt_chip: the reporting chip */
        uint32_t chip_id;
        uint32_t seq; /**< counts a chip's reports */
        uint64_t value;
    } report;         /**< of a report */
    uint64_t time_ns; /**< request: not to be sent before; else: when it arrived. The NIC's
                               clock; 0 where it has none */
};

enum glex_mgmt_flag {
    GLEX_MGMT_FLAG_FENCE = 1, /**< send it after the answers to all earlier ones */
    GLEX_MGMT_FLAG_MORE = 2   /**< more follows at once: the doorbell may wait for it */
};

/**
 * Put a copy of a management request into the send queue of an endpoint of type MANAGEMENT. A
 * request or its response may be lost on the way, so repeat an unanswered request.
 * @param flag  Of enum glex_mgmt_flag. Errors: INVALID_PARAM (no such endpoint; not a request; a
 *        count or hop count out of range), BUSY (the queue is full: receive answers, then post
 *        again), SYS_ERR (the network is gone).
 */
glex_ret_t glex_send_mgmt_req(glex_ep_handle_t ep, struct glex_mgmt_info *req, int32_t flag);

/**
 * Take the oldest response or report. First sends requests that GLEX_MGMT_FLAG_MORE has held back.
 * Errors: NO_MP (nothing came within the timeout), INTR, INVALID_PARAM, SYS_ERR.
 */
glex_ret_t glex_receive_mgmt_ack(glex_ep_handle_t ep, int32_t timeout, struct glex_mgmt_info *ack);

#ifdef __cplusplus
}
#endif

#endif

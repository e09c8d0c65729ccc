/*
 * Checks that glex.h has each name of the vendor's header, in the versions that public programs use.
 * The compiler checks macros, types, members, enumerators and prototypes. The linker checks that the
 * library has each function.
 *
 * Newer versions of the header add the macros GLEX_EP_MAKE_..., the members `s` of addresses and
 * handles, and the member `cookie` of events.
 */
#include <glex.h>

#include <stddef.h>
#include <stdio.h>

#define SAME(value, type, what) _Static_assert(_Generic((value), type: 1, default: 0), what)

/* ---- macros: programs ask for some of them by #ifdef ----------------------------------------- */

#if !defined(GLEX_ANY_EP_NUM) || !defined(GLEX_EP_DQ_CAPACITY_DEFAULT) ||                          \
    !defined(GLEX_EP_MPQ_CAPACITY_DEFAULT) || !defined(GLEX_EP_EQ_CAPACITY_DEFAULT)
#error "a macro for attributes of endpoints is missing"
#endif
#if !defined(GLEX_EP_MAKE_KEY) || !defined(GLEX_EP_MAKE_HC_UMMT_KEY)
#error "a macro for keys is missing"
#endif
#if !defined(GLEX_COLL_MAX_BRANCH_DEGREE) || !defined(GLEX_COLL_REDUCE_MAX_DATA_UNITS) ||          \
    !defined(GLEX_COLL_SET_MAX_NUM)
#error "a macro for collectives is missing"
#endif
SAME(GLEX_EP_MAKE_KEY((uint64_t)1), uint32_t, "GLEX_EP_MAKE_KEY");
SAME(GLEX_EP_MAKE_HC_UMMT_KEY((uint64_t)1), uint32_t, "GLEX_EP_MAKE_HC_UMMT_KEY");

/* ---- sizes, offsets, and the values of all enumerators --------------------------------------- */

#define SIZE(type, number)           _Static_assert(sizeof(type) == (number), #type);
#define OFFSET(type, member, number) _Static_assert(offsetof(type, member) == (number), #member);
#define VALUE(name, number)          _Static_assert((name) == (number), #name);
#include "../glex/header_layout.h"

/* ---- types: by tag and by typedef ------------------------------------------------------------ */

#define TYPE(tag, name) SAME((name *)0, tag *, #name);
TYPE(enum glex_ret, glex_ret_t)
TYPE(struct glex_device, glex_device_t)
TYPE(struct glex_device *, glex_device_handle_t)
TYPE(struct glex_device_attr, glex_device_attr_t)
TYPE(struct glex_ep, glex_ep_t)
TYPE(struct glex_ep *, glex_ep_handle_t)
TYPE(struct glex_event, glex_event_t)
TYPE(union glex_mem_handle, glex_mem_handle_t)
TYPE(struct glex_imm_mp_req, glex_imm_mp_req_t)
TYPE(struct glex_imm_rdma_req, glex_imm_rdma_req_t)
TYPE(struct glex_rdma_req, glex_rdma_req_t)

/* These have a tag only. */
SIZE(enum glex_ep_type, sizeof(int))
SIZE(enum glex_mpq_type, sizeof(int))
SIZE(enum glex_eq_type, sizeof(int))
SIZE(enum glex_mem_flag, sizeof(int))
SIZE(enum glex_flag, sizeof(int))
SIZE(enum glex_rdma_type, sizeof(int))
SIZE(enum glex_coll_reduce_op, sizeof(int))
SIZE(enum glex_coll_reduce_data_bits, sizeof(int))
SIZE(enum glex_err_req_op, sizeof(int))
SIZE(enum glex_err_req_status, sizeof(int))

/* ---- members --------------------------------------------------------------------------------- */

#define MEMBER(type, member, member_type)                                                          \
    SAME(&((type *)0)->member, member_type *, #type " " #member);
MEMBER(glex_device_t, mutex, pthread_mutex_t)

#define ATTR(member) MEMBER(struct glex_device_attr, member, uint32_t)
ATTR(nic_id)
ATTR(max_fast_ep_num)
ATTR(max_ep_num)
ATTR(max_emulate_ep_num)
ATTR(mmt_units)
ATTR(att_units)
ATTR(max_imm_mp_data_len)
ATTR(max_mp_data_len)
ATTR(max_imm_rdma_data_len)
ATTR(max_rdma_data_len)
ATTR(def_ep_dq_capacity)
ATTR(def_ep_eq_capacity)
ATTR(def_ep_mpq_capacity)
ATTR(max_ep_dq_capacity)
ATTR(max_ep_eq_capacity)
ATTR(max_ep_mpq_capacity)
ATTR(max_ep_hc_eq_capacity)
ATTR(max_ep_hc_mpq_capacity)

typedef glex_ret_t (*send_imm_mp_t)(glex_ep_handle_t, struct glex_imm_mp_req *,
                                    struct glex_imm_mp_req **);
typedef glex_ret_t (*imm_rdma_t)(glex_ep_handle_t, struct glex_imm_rdma_req *,
                                 struct glex_imm_rdma_req **);
typedef glex_ret_t (*rdma_t)(glex_ep_handle_t, struct glex_rdma_req *, struct glex_rdma_req **);
MEMBER(glex_ep_t, send_imm_mp, send_imm_mp_t)
MEMBER(glex_ep_t, imm_rdma, imm_rdma_t)
MEMBER(glex_ep_t, rdma, rdma_t)

MEMBER(glex_ep_addr_t, ep_num, uint16_t)
MEMBER(glex_ep_addr_t, resv, uint16_t)
MEMBER(glex_ep_addr_t, nic_id, uint32_t)
MEMBER(glex_ep_addr_t, s.ep_num, uint16_t)
MEMBER(glex_ep_addr_t, s.resv, uint16_t)
MEMBER(glex_ep_addr_t, s.nic_id, uint32_t)
MEMBER(glex_ep_addr_t, v, uint64_t)

MEMBER(struct glex_ep_attr, type, enum glex_ep_type)
MEMBER(struct glex_ep_attr, mpq_type, enum glex_mpq_type)
MEMBER(struct glex_ep_attr, eq_type, enum glex_eq_type)
MEMBER(struct glex_ep_attr, num, uint32_t)
MEMBER(struct glex_ep_attr, key, uint32_t)
MEMBER(struct glex_ep_attr, dq_capacity, uint32_t)
MEMBER(struct glex_ep_attr, mpq_capacity, uint32_t)
MEMBER(struct glex_ep_attr, eq_capacity, uint32_t)

MEMBER(glex_event_t, cookie_0, volatile uint64_t)
MEMBER(glex_event_t, cookie_1, volatile uint64_t)
MEMBER(glex_event_t, cookie[0], volatile uint64_t)
MEMBER(glex_event_t, cookie[1], volatile uint64_t)

MEMBER(glex_mem_handle_t, mmt_index, uint16_t)
MEMBER(glex_mem_handle_t, att_base_off, uint16_t)
MEMBER(glex_mem_handle_t, att_index, uint32_t)
MEMBER(glex_mem_handle_t, s.mmt_index, uint16_t)
MEMBER(glex_mem_handle_t, s.att_base_off, uint16_t)
MEMBER(glex_mem_handle_t, s.att_index, uint32_t)
MEMBER(glex_mem_handle_t, v, uint64_t)

#define REQUEST(type)                                                                              \
    MEMBER(type, rmt_ep_addr, glex_ep_addr_t)                                                      \
    MEMBER(type, len, uint32_t)                                                                    \
    MEMBER(type, coll_counter, uint32_t)                                                           \
    MEMBER(type, flag, int32_t)                                                                    \
    MEMBER(type, next, type *)
REQUEST(struct glex_imm_mp_req)
MEMBER(glex_imm_mp_req_t, data, void *)
REQUEST(struct glex_imm_rdma_req)
MEMBER(glex_imm_rdma_req_t, data, void *)
MEMBER(glex_imm_rdma_req_t, rmt_mh, glex_mem_handle_t)
MEMBER(glex_imm_rdma_req_t, rmt_offset, uint32_t)
MEMBER(glex_imm_rdma_req_t, rmt_evt, glex_event_t)
MEMBER(glex_imm_rdma_req_t, rmt_key, uint32_t)
REQUEST(struct glex_rdma_req)
MEMBER(glex_rdma_req_t, local_mh, glex_mem_handle_t)
MEMBER(glex_rdma_req_t, local_offset, uint32_t)
MEMBER(glex_rdma_req_t, rmt_mh, glex_mem_handle_t)
MEMBER(glex_rdma_req_t, rmt_offset, uint32_t)
MEMBER(glex_rdma_req_t, type, enum glex_rdma_type)
MEMBER(glex_rdma_req_t, local_evt, glex_event_t)
MEMBER(glex_rdma_req_t, rmt_evt, glex_event_t)
MEMBER(glex_rdma_req_t, rmt_key, uint32_t)
MEMBER(glex_rdma_req_t, coll_set_num, uint32_t)

#define VALUE_AND_PLACE(member, type)                                                              \
    MEMBER(union glex_coll_data_loc, member.data, type)                                            \
    MEMBER(union glex_coll_data_loc, member.location, uint32_t)
VALUE_AND_PLACE(int32_s, int32_t)
VALUE_AND_PLACE(uint32_s, uint32_t)
VALUE_AND_PLACE(int64_s, int64_t)
VALUE_AND_PLACE(uint64_s, uint64_t)
VALUE_AND_PLACE(float_s, float)
VALUE_AND_PLACE(double_s, double)

MEMBER(struct glex_err_req, op, enum glex_err_req_op)
MEMBER(struct glex_err_req, status, enum glex_err_req_status)
MEMBER(struct glex_err_req, rmt_nic_id, uint32_t)
MEMBER(struct glex_err_req, rmt_ep_num, uint32_t)
MEMBER(struct glex_err_req, data0, uint64_t)
MEMBER(struct glex_err_req, data1, uint64_t)
MEMBER(struct glex_err_req, data2, uint64_t)

/* ---- functions ------------------------------------------------------------------------------- */

/* clang-format off */
#define FUNCTIONS(F)                                                                               \
    F(glex_num_of_device, glex_ret_t (*)(uint32_t *))                                              \
    F(glex_open_device, glex_ret_t (*)(uint32_t, glex_device_handle_t *))                          \
    F(glex_close_device, glex_ret_t (*)(glex_device_handle_t))                                     \
    F(glex_query_device, glex_ret_t (*)(glex_device_handle_t, struct glex_device_attr *))          \
    F(glex_create_ep,                                                                              \
      glex_ret_t (*)(glex_device_handle_t, struct glex_ep_attr *, glex_ep_handle_t *))             \
    F(glex_destroy_ep, glex_ret_t (*)(glex_ep_handle_t))                                           \
    F(glex_query_ep, glex_ret_t (*)(glex_ep_handle_t, struct glex_ep_attr *))                      \
    F(glex_get_ep_addr, glex_ret_t (*)(glex_ep_handle_t, glex_ep_addr_t *))                        \
    F(glex_compose_ep_addr,                                                                        \
      glex_ret_t (*)(uint32_t, uint32_t, enum glex_ep_type, glex_ep_addr_t *))                     \
    F(glex_decompose_ep_addr,                                                                      \
      glex_ret_t (*)(glex_ep_addr_t, enum glex_ep_type, uint32_t *, uint32_t *))                   \
    F(glex_register_mem,                                                                           \
      glex_ret_t (*)(glex_ep_handle_t, void *, uint64_t, int32_t, glex_mem_handle_t *))            \
    F(glex_deregister_mem, glex_ret_t (*)(glex_ep_handle_t, glex_mem_handle_t))                    \
    F(glex_send_imm_mp, send_imm_mp_t)                                                             \
    F(glex_imm_rdma, imm_rdma_t)                                                                   \
    F(glex_rdma, rdma_t)                                                                           \
    F(glex_probe_first_mp,                                                                         \
      glex_ret_t (*)(glex_ep_handle_t, int32_t, glex_ep_addr_t *, void **, uint32_t *))            \
    F(glex_probe_next_mp,                                                                          \
      glex_ret_t (*)(glex_ep_handle_t, glex_ep_addr_t *, void **, uint32_t *))                     \
    F(glex_discard_probed_mp, glex_ret_t (*)(glex_ep_handle_t))                                    \
    F(glex_receive_mp,                                                                             \
      glex_ret_t (*)(glex_ep_handle_t, int32_t, glex_ep_addr_t *, void *, uint32_t *))             \
    F(glex_probe_first_event, glex_ret_t (*)(glex_ep_handle_t, int32_t, glex_event_t **))          \
    F(glex_probe_next_event, glex_ret_t (*)(glex_ep_handle_t, glex_event_t **))                    \
    F(glex_discard_probed_event, glex_ret_t (*)(glex_ep_handle_t))                                 \
    F(glex_poll_error_req, glex_ret_t (*)(glex_ep_handle_t, uint32_t *, struct glex_err_req *))    \
    F(glex_error_str, const char *(*)(glex_ret_t))                                                 \
    F(glex_error_req_status_str, const char *(*)(enum glex_err_req_status))                        \
    F(glex_error_req_opcode_str, const char *(*)(enum glex_err_req_op))                            \
    F(glex_coll_compose_mp_swap_addr_data,                                                         \
      glex_ret_t (*)(glex_ep_handle_t, glex_mem_handle_t, uint32_t, uint32_t, void *, uint32_t *)) \
    F(glex_coll_compose_mp_reduce_data,                                                            \
      glex_ret_t (*)(union glex_coll_data_loc[], uint32_t, enum glex_coll_reduce_data_bits,        \
                     enum glex_coll_reduce_op, uint32_t, void *, uint32_t *))                      \
    F(glex_coll_decompose_mp_reduce_data,                                                          \
      glex_ret_t (*)(union glex_coll_data_loc[], uint32_t, enum glex_coll_reduce_data_bits,        \
                     void *))                                                                      \
    F(glex_coll_compose_mp_set_data,                                                               \
      glex_ret_t (*)(glex_ep_addr_t[], uint32_t, void *, uint32_t *))
/* clang-format on */

#define CHECK_TYPE(name, type) SAME(&name, type, #name);
FUNCTIONS(CHECK_TYPE)

/* An array that other files can see: the linker has to find each function. */
extern void (*const names_functions[])(void);
#define ADDRESS(name, type) (void (*)(void))(name),
void (*const names_functions[])(void) = {FUNCTIONS(ADDRESS)};

int main(void)
{
    printf("%zu functions, and their types\n",
           sizeof(names_functions) / sizeof(names_functions[0]));
    return 0;
}

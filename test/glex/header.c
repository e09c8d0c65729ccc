/*
 * glex.h as C programs use it. If the compiler accepts this file in C and, by test_header.cc, in
 * C++, it accepts programs.
 */
#include <glex.h>

#include "header.h"

#include <stddef.h>

#define SIZE(type, number)           _Static_assert(sizeof(type) == (number), #type);
#define OFFSET(type, member, number) _Static_assert(offsetof(type, member) == (number), #type);
#define VALUE(name, number)          _Static_assert((name) == (number), #name);
#include "header_layout.h"

/* Every function, with the prototype that programs rely on. */
const struct header_functions header_functions = {
    glex_num_of_device,
    glex_open_device,
    glex_close_device,
    glex_query_device,
    glex_create_ep,
    glex_destroy_ep,
    glex_query_ep,
    glex_get_ep_addr,
    glex_compose_ep_addr,
    glex_decompose_ep_addr,
    glex_register_mem,
    glex_deregister_mem,
    glex_send_imm_mp,
    glex_imm_rdma,
    glex_rdma,
    glex_probe_first_mp,
    glex_probe_next_mp,
    glex_discard_probed_mp,
    glex_receive_mp,
    glex_probe_first_event,
    glex_probe_next_event,
    glex_discard_probed_event,
    glex_poll_error_req,
    glex_error_str,
    glex_error_req_status_str,
    glex_error_req_opcode_str,
    glex_coll_compose_mp_swap_addr_data,
    glex_coll_compose_mp_reduce_data,
    glex_coll_decompose_mp_reduce_data,
    glex_coll_compose_mp_set_data,
};

/* Both ways to each word of an address, a handle and an event; initializers as programs have them.
 * Returns how many were right. */
int header_spellings(void)
{
    struct glex_ep_attr attr = {
        .type = GLEX_EP_TYPE_FAST,
        .mpq_type = GLEX_MPQ_TYPE_NORMAL,
        .eq_type = GLEX_EQ_TYPE_HIGH_CAPACITY,
        .num = GLEX_ANY_EP_NUM,
        .key = GLEX_EP_MAKE_KEY(999),
        .dq_capacity = GLEX_EP_DQ_CAPACITY_DEFAULT,
        .mpq_capacity = GLEX_EP_MPQ_CAPACITY_DEFAULT,
        .eq_capacity = GLEX_EP_EQ_CAPACITY_DEFAULT,
    };
    struct glex_imm_mp_req mp = {.next = NULL};
    struct glex_imm_rdma_req imm = {.flag = GLEX_FLAG_REMOTE_EVT | GLEX_FLAG_COLL};
    struct glex_rdma_req rdma = {.type = GLEX_RDMA_TYPE_GET, .local_evt = {.cookie_1 = 3}};
    struct glex_event event = {.cookie_0 = 1, .cookie_1 = 2};
    union glex_coll_data_loc value = {.double_s = {.data = 1.0, .location = 4}};
    glex_ep_addr_t addr = {.v = 0};
    union glex_mem_handle handle = {.v = 0};
    glex_device_t *device = NULL;
    struct glex_ep *ep = NULL;
    int right = 0;

    addr.ep_num = 5;
    addr.s.nic_id = 6;
    right += addr.s.ep_num == 5 && addr.nic_id == 6 && addr.v == (6ull << 32 | 5);
    handle.mmt_index = 7;
    handle.s.att_index = 8;
    right += handle.s.mmt_index == 7 && handle.att_index == 8 && handle.v == (8ull << 32 | 7);
    event.cookie[0] = 9;
    right += event.cookie_0 == 9 && event.cookie[1] == 2;
    right += attr.key == 999 && GLEX_EP_MAKE_HC_UMMT_KEY(13) == 13;
    right += mp.next == NULL && imm.flag == 144 && rdma.local_evt.cookie[1] == 3;
    right += value.double_s.location == 4 && device == NULL && ep == NULL;
    right += __BYTE_ORDER == __LITTLE_ENDIAN; /* of <endian.h>, which programs get from glex.h */
    return right;
}

/* The parts of glex.h that header.c and test_header.cc use: the prototypes of all functions. */
#ifndef GLEX_TEST_HEADER_H
#define GLEX_TEST_HEADER_H

#include <glex.h>

#ifdef __cplusplus
extern "C" {
#endif

struct header_functions {
    glex_ret_t (*num_of_device)(uint32_t *);
    glex_ret_t (*open_device)(uint32_t, glex_device_handle_t *);
    glex_ret_t (*close_device)(glex_device_handle_t);
    glex_ret_t (*query_device)(glex_device_handle_t, struct glex_device_attr *);
    glex_ret_t (*create_ep)(glex_device_handle_t, struct glex_ep_attr *, glex_ep_handle_t *);
    glex_ret_t (*destroy_ep)(glex_ep_handle_t);
    glex_ret_t (*query_ep)(glex_ep_handle_t, struct glex_ep_attr *);
    glex_ret_t (*get_ep_addr)(glex_ep_handle_t, glex_ep_addr_t *);
    glex_ret_t (*compose_ep_addr)(uint32_t, uint32_t, enum glex_ep_type, glex_ep_addr_t *);
    glex_ret_t (*decompose_ep_addr)(glex_ep_addr_t, enum glex_ep_type, uint32_t *, uint32_t *);
    glex_ret_t (*register_mem)(glex_ep_handle_t, void *, uint64_t, int32_t, glex_mem_handle_t *);
    glex_ret_t (*deregister_mem)(glex_ep_handle_t, glex_mem_handle_t);
    glex_ret_t (*send_imm_mp)(glex_ep_handle_t, struct glex_imm_mp_req *,
                              struct glex_imm_mp_req **);
    glex_ret_t (*imm_rdma)(glex_ep_handle_t, struct glex_imm_rdma_req *,
                           struct glex_imm_rdma_req **);
    glex_ret_t (*rdma)(glex_ep_handle_t, struct glex_rdma_req *, struct glex_rdma_req **);
    glex_ret_t (*probe_first_mp)(glex_ep_handle_t, int32_t, glex_ep_addr_t *, void **, uint32_t *);
    glex_ret_t (*probe_next_mp)(glex_ep_handle_t, glex_ep_addr_t *, void **, uint32_t *);
    glex_ret_t (*discard_probed_mp)(glex_ep_handle_t);
    glex_ret_t (*receive_mp)(glex_ep_handle_t, int32_t, glex_ep_addr_t *, void *, uint32_t *);
    glex_ret_t (*probe_first_event)(glex_ep_handle_t, int32_t, glex_event_t **);
    glex_ret_t (*probe_next_event)(glex_ep_handle_t, glex_event_t **);
    glex_ret_t (*discard_probed_event)(glex_ep_handle_t);
    glex_ret_t (*poll_error_req)(glex_ep_handle_t, uint32_t *, struct glex_err_req *);
    const char *(*error_str)(glex_ret_t);
    const char *(*error_req_status_str)(enum glex_err_req_status);
    const char *(*error_req_opcode_str)(enum glex_err_req_op);
    glex_ret_t (*compose_swap_addr)(glex_ep_handle_t, glex_mem_handle_t, uint32_t, uint32_t, void *,
                                    uint32_t *);
    glex_ret_t (*compose_reduce)(union glex_coll_data_loc[], uint32_t,
                                 enum glex_coll_reduce_data_bits, enum glex_coll_reduce_op,
                                 uint32_t, void *, uint32_t *);
    glex_ret_t (*decompose_reduce)(union glex_coll_data_loc[], uint32_t,
                                   enum glex_coll_reduce_data_bits, void *);
    glex_ret_t (*compose_set)(glex_ep_addr_t[], uint32_t, void *, uint32_t *);
};

/* Filled in by C. */
extern const struct header_functions header_functions;

int header_spellings(void);

#ifdef __cplusplus
}
#endif

#endif

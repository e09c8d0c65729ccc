/*
 * glex_info --api: the functions of the vendor's interface that this NIC supports. A test compares
 * this output with the table of docs/nic.md and with glex.h.
 */
#include "info.h"

static const char works[] = "works";

static const struct info_api_row {
    const char *name;
    const char *state;
} api_rows[] = {
    {"glex_num_of_device", works},
    {"glex_open_device", works},
    {"glex_close_device", works},
    {"glex_query_device", works},
    {"glex_create_ep", works},
    {"glex_destroy_ep", works},
    {"glex_query_ep", works},
    {"glex_get_ep_addr", works},
    {"glex_compose_ep_addr", works},
    {"glex_decompose_ep_addr", works},
    {"glex_register_mem", works},
    {"glex_deregister_mem", works},
    {"glex_send_imm_mp", works},
    {"glex_imm_rdma", works},
    {"glex_rdma", works},
    {"glex_probe_first_mp", works},
    {"glex_probe_next_mp", works},
    {"glex_discard_probed_mp", works},
    {"glex_receive_mp", works},
    {"glex_probe_first_event", works},
    {"glex_probe_next_event", works},
    {"glex_discard_probed_event", works},
    {"glex_poll_error_req", works},
    {"glex_error_str", works},
    {"glex_error_req_status_str", works},
    {"glex_error_req_opcode_str", works},
    {"glex_coll_compose_mp_swap_addr_data", works},
    {"glex_coll_compose_mp_reduce_data", works},
    {"glex_coll_decompose_mp_reduce_data", works},
    {"glex_coll_compose_mp_set_data", works},
    {"glex_send_mgmt_req",
     "works on a managed network (GLEX_INM); else there is no endpoint for it"},
    {"glex_receive_mgmt_ack", "works, as glex_send_mgmt_req"},
    {"GLEX_EP_TYPE_FAST", works},
    {"GLEX_EP_TYPE_NORMAL", "works; no difference to FAST"},
    {"GLEX_EP_TYPE_EMULATE", "works; no difference to FAST"},
    {"GLEX_EP_TYPE_MANAGEMENT", "works on a managed network (GLEX_INM); else NOT_IMPLEMENTED"},
    {"GLEX_MPQ_TYPE_NORMAL", works},
    {"GLEX_MPQ_TYPE_HIGH_CAPACITY", "works; no difference to NORMAL, which takes as many"},
    {"GLEX_MPQ_TYPE_IOMMU", "works; no difference to NORMAL: there is no IOMMU"},
    {"GLEX_EQ_TYPE_NORMAL", works},
    {"GLEX_EQ_TYPE_HIGH_CAPACITY", "works; no difference to NORMAL, which takes as many"},
    {"GLEX_EQ_TYPE_IOMMU", "works; no difference to NORMAL: there is no IOMMU"},
    {"GLEX_MEM_READ", works},
    {"GLEX_MEM_WRITE", works},
    {"GLEX_MEM_IOMMU", "taken, no effect: there is no IOMMU"},
    {"GLEX_FLAG_LOCAL_INTR", "taken, no effect: there are no interrupts; every arrival wakes"},
    {"GLEX_FLAG_REMOTE_INTR", "taken, no effect: there are no interrupts; every arrival wakes"},
    {"GLEX_FLAG_FENCE", works},
    {"GLEX_FLAG_LOCAL_EVT", "works; INVALID_PARAM with glex_imm_rdma, which has no local event"},
    {"GLEX_FLAG_REMOTE_EVT", works},
    {"GLEX_FLAG_NO_CONNECTION", "taken, no effect: there are no connections"},
    {"GLEX_FLAG_ROUTE_ADAPTIVE", "taken, no effect: order is kept, which the flag gives up"},
    {"GLEX_FLAG_COLL", works},
    {"GLEX_FLAG_COLL_SEQ_START", works},
    {"GLEX_FLAG_COLL_SEQ_TAIL", works},
    {"GLEX_FLAG_COLL_COUNTER", works},
    {"GLEX_FLAG_COLL_CP_DATA", works},
    {"GLEX_FLAG_COLL_CP_SWAP_DATA", works},
    {"GLEX_FLAG_COLL_CP_SWAP_ADDR", works},
    {"GLEX_FLAG_COLL_SWAP", works},
    {"GLEX_FLAG_COLL_SWAP_EP", works},
    {"GLEX_FLAG_COLL_SWAP_SET",
     "works for messages; RDMA: NOT_IMPLEMENTED, because no program shows what it would be"},
    {"GLEX_FLAG_COLL_REDUCE", "works; INVALID_PARAM with glex_rdma, whose data nobody composed"},
    {"GLEX_FLAG_COLL_REDUCE_RESULT", works},
};

void info_print_api(void)
{
    size_t i;

    puts("| function or flag | here |\n| --- | --- |");
    for (i = 0; i < sizeof(api_rows) / sizeof(api_rows[0]); i++) {
        printf("| `%s` | %s |\n", api_rows[i].name, api_rows[i].state);
    }
}

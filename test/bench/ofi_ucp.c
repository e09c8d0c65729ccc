#include "measure.h"
#include "ofi_node.h"

#include <string.h>
#include <ucp/api/ucp.h>

#define TAG 7

static ucp_worker_h worker;
static ucp_ep_h ep;

void ucp_pair_open(void)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
    ucp_worker_params_t worker_params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                         .thread_mode = UCS_THREAD_MODE_SINGLE};
    char mine[4096] = "", theirs[4096];
    ucp_ep_params_t ep_params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS,
                                 .address = (ucp_address_t *)theirs};
    ucp_address_t *address;
    ucp_context_h context;
    size_t length;

    check(ucp_init(&params, NULL, &context), "ucp_init");
    check(ucp_worker_create(context, &worker_params, &worker), "ucp_worker_create");
    check(ucp_worker_get_address(worker, &address, &length), "ucp_worker_get_address");
    if (length > sizeof(mine)) {
        fail("UCP's address has %zu bytes", length);
    }
    memcpy(mine, address, length);
    ucp_worker_release_address(worker, address);
    meet(mine, theirs, sizeof(mine));
    check(ucp_ep_create(worker, &ep_params, &ep), "ucp_ep_create");
}

static void finish(ucs_status_ptr_t request, const char *what)
{
    if (request == NULL) {
        return;
    }
    if (UCS_PTR_IS_ERR(request)) {
        check(UCS_PTR_STATUS(request), what);
    }
    while (ucp_request_check_status(request) == UCS_INPROGRESS) {
        ucp_worker_progress(worker);
    }
    check(ucp_request_check_status(request), what);
    ucp_request_free(request);
}

void ucp_pair_round_trip(int is_server)
{
    static const ucp_request_param_t param = {.op_attr_mask = 0};
    ucs_status_ptr_t request;
    uint64_t out = 1, in;

    request = ucp_tag_recv_nbx(worker, &in, sizeof(in), TAG, UINT64_MAX, &param);
    if (is_server) {
        finish(request, "ucp_tag_recv_nbx");
        request = NULL;
    }
    finish(ucp_tag_send_nbx(ep, &out, sizeof(out), TAG, &param), "ucp_tag_send_nbx");
    finish(request, "ucp_tag_recv_nbx");
}

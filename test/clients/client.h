/*
 * Common code of the clients. The clients use glex.h alone, in the style of programs for the
 * vendor's interface, and have the habits of public programs. If the effect of a habit depends on
 * chance (for example, on the contents of the stack), the client makes the effect certain.
 */
#ifndef CLIENT_H
#define CLIENT_H

#include <glex.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Longest wait for anything a living peer does; a failure beyond it, never a measurement. */
#define CLIENT_WAIT_MS 20000

/* Polls without sleeping before a wait sleeps: latency is measured with the peer awake. */
#define CLIENT_SPINS 20000

#define CLIENT_CHECK(call) client_check((call), #call)
#define CLIENT_FAIL(...)                                                                           \
    do {                                                                                           \
        fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);                                            \
        fprintf(stderr, __VA_ARGS__);                                                              \
        fputc('\n', stderr);                                                                       \
        exit(EXIT_FAILURE);                                                                        \
    } while (0)

/* Programs compare the text, not the number. */
static inline void client_check(glex_ret_t ret, const char *what)
{
    if (strcmp(glex_error_str(ret), "successful") != 0) {
        CLIENT_FAIL("%s: %s", what, glex_error_str(ret));
    }
}

/* Callers leave fields that no flag asks for as the stack had them: have it hold rubbish. */
#define CLIENT_UNINITIALISED(req_p) memset((req_p), 0xa5, sizeof(*(req_p)))

static inline glex_device_handle_t client_open_device(struct glex_device_attr *attr)
{
    glex_device_handle_t dev;
    uint32_t num;

    CLIENT_CHECK(glex_num_of_device(&num));
    if (num == 0) {
        CLIENT_FAIL("no GLEX device on this node");
    }
    CLIENT_CHECK(glex_open_device(0, &dev));
    CLIENT_CHECK(glex_query_device(dev, attr));
    return dev;
}

/* Fast endpoints are few: a program that gets none takes another type. */
static inline glex_ep_handle_t client_create_ep(glex_device_handle_t dev, uint32_t key,
                                                uint32_t mpq_capacity)
{
    static const enum glex_ep_type types[] = {GLEX_EP_TYPE_FAST, GLEX_EP_TYPE_NORMAL,
                                              GLEX_EP_TYPE_EMULATE};
    glex_ret_t ret = GLEX_NO_EP_RESOURCE;
    struct glex_ep_attr attr;
    glex_ep_handle_t ep;
    size_t i;

    for (i = 0; i < sizeof(types) / sizeof(types[0]) && ret == GLEX_NO_EP_RESOURCE; i++) {
        attr.type = types[i];
        attr.mpq_type = GLEX_MPQ_TYPE_NORMAL;
        attr.eq_type = GLEX_EQ_TYPE_NORMAL;
        attr.num = GLEX_ANY_EP_NUM;
        attr.key = key;
        attr.dq_capacity = GLEX_EP_DQ_CAPACITY_DEFAULT;
        attr.mpq_capacity = mpq_capacity;
        attr.eq_capacity = GLEX_EP_EQ_CAPACITY_DEFAULT;
        ret = glex_create_ep(dev, &attr, &ep);
    }
    client_check(ret, "glex_create_ep");
    return ep;
}

/* Posts to a busy NIC again, without doing anything else; `bad` is ignored. */
static inline void client_send(glex_ep_handle_t ep, glex_ep_addr_t to, void *data, uint32_t len)
{
    glex_imm_mp_req_t req;
    glex_ret_t ret;

    CLIENT_UNINITIALISED(&req);
    req.rmt_ep_addr = to;
    req.data = data;
    req.len = len;
    req.flag = 0;
    req.next = NULL;
    do {
        ret = glex_send_imm_mp(ep, &req, NULL);
    } while (ret == GLEX_BUSY);
    client_check(ret, "glex_send_imm_mp");
}

/* A request of a sequence; fields without a flag keep their values. */
static inline void client_coll_req(glex_imm_mp_req_t *req, glex_ep_addr_t to, void *data,
                                   uint32_t len, int flag)
{
    CLIENT_UNINITIALISED(req);
    req->rmt_ep_addr = to;
    req->data = data;
    req->len = len;
    req->flag = GLEX_FLAG_COLL | flag;
    req->next = NULL;
}

/* Post `num` requests as one sequence that waits for `counter` control packets. */
static inline void client_coll_post(glex_ep_handle_t ep, glex_imm_mp_req_t *reqs, int num,
                                    int counter)
{
    glex_imm_mp_req_t *req = reqs;
    glex_ret_t ret;
    int i;

    reqs[0].flag |= GLEX_FLAG_COLL_SEQ_START;
    reqs[0].coll_counter = (uint32_t)counter;
    reqs[num - 1].flag |= GLEX_FLAG_COLL_SEQ_TAIL;
    for (i = 0; i + 1 < num; i++) {
        reqs[i].next = &reqs[i + 1];
    }
    do {
        ret = glex_send_imm_mp(ep, req, &req);
    } while (ret == GLEX_BUSY);
    client_check(ret, "glex_send_imm_mp");
}

/* The oldest message; stays in the queue. */
static inline glex_ret_t client_probe(glex_ep_handle_t ep, glex_ep_addr_t *src, void **data,
                                      uint32_t *len)
{
    glex_ret_t ret = GLEX_NO_MP;
    int i;

    for (i = 0; i < CLIENT_SPINS && ret == GLEX_NO_MP; i++) {
        ret = glex_probe_first_mp(ep, 0, src, data, len);
    }
    while (ret == GLEX_NO_MP || ret == GLEX_INTR) {
        ret = glex_probe_first_mp(ep, CLIENT_WAIT_MS, src, data, len);
        if (ret == GLEX_NO_MP) {
            break;
        }
    }
    return ret;
}

/* No request may have failed. */
static inline void client_check_no_errors(glex_ep_handle_t ep)
{
    struct glex_err_req *no_list = (struct glex_err_req *)(uintptr_t)0xa5a5a5a5a5a5a5a5;
    struct glex_err_req err;
    uint32_t num = 1;

    CLIENT_CHECK(glex_poll_error_req(ep, &num, &err));
    if (num != 0) {
        CLIENT_FAIL("%s to nic %x endpoint %u failed: %s", glex_error_req_opcode_str(err.op),
                    err.rmt_nic_id, err.rmt_ep_num, glex_error_req_status_str(err.status));
    }
    /* With nothing to report the list is not touched: programs pass a pointer never set. */
    num = 4;
    CLIENT_CHECK(glex_poll_error_req(ep, &num, no_list));
    if (num != 0) {
        CLIENT_FAIL("nothing to report, and yet %u errors", num);
    }
}

#endif

/*
 * Collective requests, for tests.
 */
#ifndef GLEX_TEST_COLLECTIVE_H
#define GLEX_TEST_COLLECTIVE_H

#include "nic.h"

static const int COLL = GLEX_FLAG_COLL, START = GLEX_FLAG_COLL_SEQ_START,
                 TAIL = GLEX_FLAG_COLL_SEQ_TAIL, COUNTER = GLEX_FLAG_COLL_COUNTER,
                 CP_DATA = GLEX_FLAG_COLL_CP_DATA, SWAP_DATA = GLEX_FLAG_COLL_CP_SWAP_DATA,
                 SWAP_ADDR = GLEX_FLAG_COLL_CP_SWAP_ADDR, SWAP = GLEX_FLAG_COLL_SWAP,
                 SWAP_EP = GLEX_FLAG_COLL_SWAP_EP, SWAP_SET = GLEX_FLAG_COLL_SWAP_SET,
                 REDUCE = GLEX_FLAG_COLL_REDUCE, RESULT = GLEX_FLAG_COLL_REDUCE_RESULT;

/* Fields that no flag asks for hold rubbish. */
inline glex_imm_mp_req_t coll_mp(glex_ep_addr_t to, const void *data, uint32_t len, int flag,
                                 uint32_t counter = 0xa5a5a5a5)
{
    glex_imm_mp_req_t req;

    memset(&req, 0xa5, sizeof(req));
    req.rmt_ep_addr = to;
    req.data = const_cast<void *>(data);
    req.len = len;
    req.flag = COLL | flag;
    req.coll_counter = counter;
    req.next = nullptr;
    return req;
}

/* One request, in a separate call. */
inline glex_ret_t coll_send(glex_ep_handle_t ep, glex_ep_addr_t to, uint64_t number, int flag,
                            uint32_t counter = 0xa5a5a5a5)
{
    glex_imm_mp_req_t req = coll_mp(to, &number, sizeof(number), flag, counter);

    return glex_send_imm_mp(ep, &req, nullptr);
}

/* Until a condition holds that others bring about. */
template <typename Fn> bool wait_until(Fn fn)
{
    for (int i = 0; i < WAIT_MS; i++) {
        if (fn()) {
            return true;
        }
        usleep(1000);
    }
    return false;
}

#endif

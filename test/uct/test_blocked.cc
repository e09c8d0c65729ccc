/*
 * A peer that takes nothing from its queues does not keep others from sleeping.
 */
#include "traffic.h"

#include <string.h>

namespace
{

const uint8_t AM_ID = 5;

/* Fills the message queue of `full`, or its event queue, by requests of `filler` */
void fill_queue(Iface &full, Iface &filler, bool is_events)
{
    uint64_t junk[UCT_GLEX_MP_LEN / 8] = {};
    glex_ep_addr_t addr = {};
    glex_imm_mp_req_t req = {};

    addr.v = full.internals()->ep_addr;
    req.rmt_ep_addr = addr;
    req.data = junk;
    req.len = sizeof(junk);
    req.flag = GLEX_EXT_FLAG_NO_LOSS;
    if (is_events) {
        while (glex_ext_post_event(filler.internals()->nic, addr, 0, ~0ul) == GLEX_SUCCESS) {
        }
    } else {
        while (glex_send_imm_mp(filler.internals()->nic, &req, NULL) == GLEX_SUCCESS) {
        }
    }
}

/* Progress until nothing is done any more; then the interface can be armed, so a program that waits
 * by the descriptor sleeps */
void expect_sleep(Iface &iface)
{
    ucs_status_t status = UCS_ERR_BUSY;

    for (int i = 0; (i < 1000) && (status == UCS_ERR_BUSY); ++i) {
        while (iface.progress() > 0) {
        }
        status = uct_iface_event_arm(iface.handle, UCT_EVENT_RECV | UCT_EVENT_SEND_COMP);
    }
    EXPECT_STATUS(UCS_OK, status);
}

/* A message that waits for its turn */
struct Waiting {
    static ucs_status_t on_turn(uct_pending_req_t *uct)
    {
        Waiting *self = (Waiting *)uct; /* the first member */
        ucs_status_t status = uct_ep_am_short(self->ep, AM_ID, 0, NULL, 0);

        self->done += (status == UCS_OK);
        return status;
    }

    uct_pending_req_t uct = {};
    uct_ep_h ep = NULL;
    int done = 0;
};

/* A CONNECT that waits for room */
TEST(Blocked, ConnectSleeps)
{
    isolated({}, [] {
        Md md, md_b, md_c;
        Iface iface(md), full(md_b), filler(md_c);
        Ep ep(iface, full.address());
        unsigned received = 0;

        full.on_am(AM_ID, [&](const void *, size_t) { ++received; });
        fill_queue(full, filler, false);
        EXPECT_STATUS(UCS_ERR_NO_RESOURCE, uct_ep_am_short(ep.handle, AM_ID, 0, NULL, 0));
        expect_sleep(iface);
        EXPECT_OK(ep.am_short(AM_ID, 0, NULL, 0));
        progress_until("the message", [&] { return received == 1; });
    });
}

/* A request that is pending on an endpoint with credits, whose peer's queue has no room. Progress
 * sends it when there is room. */
TEST(Blocked, PendingSleeps)
{
    isolated({{"UCX_GLEX_CHANNELS", "sr"}}, [] {
        Md md, md_b, md_c;
        Iface iface(md), full(md_b), filler(md_c);
        Ep ep(iface, full.address());
        unsigned received = 0;
        Waiting waiting;

        full.on_am(AM_ID, [&](const void *, size_t) { ++received; });
        EXPECT_OK(ep.am_short(AM_ID, 0, NULL, 0));
        progress_until("the first message", [&] { return received == 1; });
        EXPECT_OK(ep.flush());
        for (int i = 0; i < 1000; ++i) {
            progress();
        }
        fill_queue(full, filler, false);
        waiting.uct.func = Waiting::on_turn;
        waiting.ep = ep.handle;
        EXPECT_STATUS(UCS_ERR_NO_RESOURCE, uct_ep_am_short(ep.handle, AM_ID, 0, NULL, 0));
        EXPECT_GT(uct_glex_credit_avail(&ep.vc()->mp_tx), 0u);
        EXPECT_OK(uct_ep_pending_add(ep.handle, &waiting.uct, 0));
        expect_sleep(iface);
        EXPECT_EQ(waiting.done, 0);
        progress_until("the message", [&] { return received == 2; });
        EXPECT_EQ(waiting.done, 1);
    });
}

/* A unit that was read in place is given back by an event, for which the sender has no room */
TEST(Blocked, ReleaseSleeps)
{
    isolated({{"UCX_GLEX_CHANNELS", "sr"}}, [] {
        Md md, md_b, md_c;
        Iface iface(md), full(md_b), filler(md_c);
        Ep ep(full, iface.address());
        std::vector<uint8_t> data(1000);
        unsigned received = 0;

        iface.on_am(AM_ID, [&](const void *, size_t) { ++received; });
        EXPECT_EQ(ep.am_bcopy(AM_ID, data.data(), data.size()), (ssize_t)data.size());
        progress_until("the first message", [&] { return received == 1; });
        EXPECT_OK(ep.flush());
        fill_queue(full, filler, true);
        EXPECT_EQ(ep.am_bcopy(AM_ID, data.data(), data.size()), (ssize_t)data.size());
        while (received < 2) {
            iface.progress();
        }
        expect_sleep(iface);
        EXPECT_OK(ep.flush());
    });
}

} // namespace

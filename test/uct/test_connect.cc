/*
 * Connections: messages wait for them in order; peers that are not there, or leave, where nothing
 * but a flush would tell; answers that overtake the ACCEPT.
 */
#include "traffic.h"

#include <memory>

namespace
{

const uint8_t AM_ID = 5;

class Connect : public WithSetting
{
};

/* A second endpoint of the connection must not overtake what is pending on the first */
TEST_P(Connect, KeepsTheOrder)
{
    isolated(env(), [] {
        Md md;
        Iface a(md), b(md);
        Ep one(a, b.address()), other(a, b.address());
        std::vector<uint64_t> received;

        b.on_am(AM_ID,
                [&](const void *data, size_t) { received.push_back(*(const uint64_t *)data); });
        EXPECT_STATUS(UCS_ERR_NO_RESOURCE, uct_ep_am_short(one.handle, AM_ID, 0, NULL, 0));
        EXPECT_STATUS(UCS_ERR_NO_RESOURCE, uct_ep_am_short(other.handle, AM_ID, 1, NULL, 0));
        EXPECT_OK(one.am_short(AM_ID, 0, NULL, 0));
        EXPECT_OK(other.am_short(AM_ID, 1, NULL, 0));
        EXPECT_OK(one.am_short(AM_ID, 2, NULL, 0));
        progress_until("three messages", [&] { return received.size() == 3; });
        EXPECT_EQ(received, (std::vector<uint64_t>{0, 1, 2}));
    });
}

/* An empty put asks whether the peer is there, connected to or not */
TEST_P(Connect, EmptyPutAsks)
{
    for (bool is_connected : {false, true}) {
        isolated(env(), [is_connected] {
            Md md, other;
            Iface a(md);
            std::unique_ptr<Iface> b(new Iface(other));
            Ep ep(a, b->address());

            if (is_connected) {
                EXPECT_OK(uct_ep_put_short(ep.handle, NULL, 0, 0, 0));
                EXPECT_OK(ep.flush());
                EXPECT_TRUE(a.failed.empty());
            }
            b.reset();
            EXPECT_OK(uct_ep_put_short(ep.handle, NULL, 0, 0, 0));
            EXPECT_EQ(ep.flush(), UCS_ERR_ENDPOINT_TIMEOUT);
            EXPECT_EQ(a.failed.size(), 1u);
            a.failed.clear();
        });
    }
}

/* An endpoint to an interface that may leave, and memory that its domain keeps */
struct PutPair {
    PutPair(Md &md, Md &other, Memory::Kind kind)
        : a(md), b(new Iface(other)), memory(other, 64, kind), remote(memory.describe()),
          ep(a, b->address())
    {
    }

    void put(uint64_t value)
    {
        EXPECT_OK(ep.put_short(&value, 8, remote.address, remote.rkey.rkey));
    }

    Iface a;
    std::unique_ptr<Iface> b;
    Memory memory;
    RemoteMemory remote;
    Ep ep;
};

/* The memory is there, and takes the put; its owner's interface is not */
TEST_P(Connect, PutToWhoLeft)
{
    isolated(env(), [] {
        Md md, other;

        for (Memory::Kind kind : memory_kinds(other)) {
            PutPair pair(md, other, kind);
            uint64_t value = 2;

            pair.put(1);
            EXPECT_OK(pair.ep.flush());
            EXPECT_TRUE(pair.a.failed.empty());
            pair.b.reset();
            EXPECT_EQ(uct_ep_put_short(pair.ep.handle, &value, 8, pair.remote.address,
                                       pair.remote.rkey.rkey),
                      (kind == Memory::NIC) ? UCS_OK : UCS_ERR_NO_RESOURCE)
                << "the error comes with the error handler, by progress";
            EXPECT_EQ(pair.ep.flush(), UCS_ERR_ENDPOINT_TIMEOUT) << "memory of kind " << kind;
            EXPECT_EQ(pair.a.failed.size(), 1u);
            pair.a.failed.clear();
        }
    });
}

/* The same when there is no memory for the operation that waits for the peer, at first */
TEST(ConnectFlush, AsksWhenItCan)
{
    isolated({}, [] {
        Md md, other;
        PutPair pair(md, other, Memory::NIC);
        ucs_mpool_t *ops = &pair.a.internals()->ops.mp;

        pair.put(1);
        EXPECT_OK(pair.ep.flush());
        pair.b.reset();
        pair.put(2);

        ucs_mpool_elem_t *free = ops->freelist;
        const unsigned quota = ops->data->quota;
        ops->freelist = NULL;
        ops->data->quota = 0;
        EXPECT_STATUS(UCS_ERR_NO_RESOURCE, uct_ep_flush(pair.ep.handle, 0, NULL));
        ops->freelist = free;
        ops->data->quota = quota;
        EXPECT_EQ(pair.ep.flush(), UCS_ERR_ENDPOINT_TIMEOUT);
        EXPECT_EQ(pair.a.failed.size(), 1u);
        pair.a.failed.clear();
    });
}

/* It leaves in good order when it has seen a put that no flush has followed, and we have not heard
 * of that: the put arrived */
TEST_P(Connect, LeavesBeforeTheFlush)
{
    isolated(env(), [] {
        Md md, other;

        for (Memory::Kind kind : memory_kinds(other)) {
            PutPair pair(md, other, kind);
            unsigned received = 0;

            pair.b->on_am(AM_ID, [&](const void *, size_t) { ++received; });
            EXPECT_OK(pair.ep.am_short(AM_ID, 0, NULL, 0));
            progress_until("the message", [&] { return received > 0; });
            EXPECT_OK(pair.ep.flush());
            pair.put(1);
            EXPECT_TRUE(pair.ep.vc()->dirty);
            EXPECT_EQ(*(uint64_t *)pair.memory.data, 1u);
            pair.b.reset();
            EXPECT_EQ(pair.ep.vc()->state, UCT_GLEX_VC_OPEN);
            EXPECT_OK(pair.ep.flush());
            progress_until("its leaving",
                           [&] { return pair.ep.vc()->state == UCT_GLEX_VC_PEER_CLOSED; });
            EXPECT_TRUE(pair.a.failed.empty());
        }
    });
}

/* The peer cannot answer our CONNECT, because our queue is full. Meanwhile we give that connection
 * up, and connect anew: the peer accepts the new one. */
TEST(ConnectAnew, WhileThePeerAccepts)
{
    isolated({}, [] {
        Md md_a, md_b;
        Iface a(md_a), b(md_b);
        std::unique_ptr<Ep> ep(new Ep(a, b.address()));
        glex_ep_addr_t to_a = {.v = a.internals()->ep_addr};
        unsigned received = 0;

        b.on_am(AM_ID, [&](const void *, size_t) { ++received; });
        EXPECT_STATUS(UCS_ERR_NO_RESOURCE, uct_ep_am_short(ep->handle, AM_ID, 0, NULL, 0));
        a.progress();
        EXPECT_EQ(ep->vc()->state, UCT_GLEX_VC_CONNECTING);
        while (glex_ext_post_mp(b.internals()->nic, to_a, UCT_GLEX_MP_ACK, 0, 0, NULL, 0) ==
               GLEX_SUCCESS) {
        }
        waiting_for("the first CONNECT");
        while (b.internals()->num_vcs == 0) {
            b.progress();
        }
        EXPECT_EQ(b.internals()->vcs[0]->state, UCT_GLEX_VC_ACCEPTING);

        const uint32_t old_id = ep->vc()->id;
        fail_at_once(ep->vc());
        while (!ep->failed()) {
            a.progress();
        }
        ep.reset(new Ep(a, b.address()));
        waiting_for("the second CONNECT");
        EXPECT_STATUS(UCS_ERR_NO_RESOURCE, uct_ep_am_short(ep->handle, AM_ID, 0, NULL, 0));
        while (ep->vc()->state != UCT_GLEX_VC_CONNECTING) {
            a.progress();
        }
        EXPECT_NE(ep->vc()->id, old_id);
        EXPECT_EQ(b.internals()->vcs[0]->state, UCT_GLEX_VC_ACCEPTING);
        EXPECT_OK(ep->am_short(AM_ID, 0, NULL, 0));
        EXPECT_OK(ep->flush());
        progress_until("the message", [&] { return received == 1; });
    });
}

/* Take what came from the queue, as a NIC that loses what a full queue cannot take */
void lose_messages(Iface &iface)
{
    glex_ep_addr_t src;
    uint32_t length;
    void *data;

    while (glex_probe_next_mp(iface.internals()->nic, &src, &data, &length) == GLEX_SUCCESS) {
        glex_discard_probed_mp(iface.internals()->nic);
    }
}

/* As when the NIC reports that a request to the peer of `vc` failed */
void report(const uct_glex_vc_t *vc, struct glex_err_req error)
{
    glex_ep_addr_t addr = {.v = vc->peer};

    glex_decompose_ep_addr(addr, GLEX_EP_TYPE_FAST, &error.rmt_nic_id, &error.rmt_ep_num);
    vc->iface->error = error;
    vc->iface->has_error = 1;
    vc->iface->due = 1;
}

/* Its CONNECT */
void report_connect(const uct_glex_vc_t *vc, enum glex_err_req_status status)
{
    struct glex_err_req error = {};

    error.op = GLEX_ERR_OP_IMM_MP;
    error.status = status;
    error.data0 = UCT_GLEX_MP_CONNECT | (uint64_t)uct_glex_vc_mark(vc) << 48;
    report(vc, error);
}

/* A message to it, after it was connected */
void report_message(const uct_glex_vc_t *vc, uint32_t vc_id)
{
    struct glex_err_req error = {};

    error.op = GLEX_ERR_OP_IMM_MP;
    error.status = GLEX_ERR_STATUS_DEST_VP_STOP;
    error.data0 = UCT_GLEX_MP_ACK | (uint64_t)vc_id << 16;
    report(vc, error);
}

/* An event that tells it of a message in its FIFO */
void report_event(const uct_glex_vc_t *vc, uint32_t vc_id)
{
    struct glex_err_req error = {};

    error.op = GLEX_ERR_OP_IMM_RDMA_PUT;
    error.status = GLEX_ERR_STATUS_DEST_VP_STOP;
    error.data2 = UCT_GLEX_EVENT_RING | (uint64_t)vc_id << 16;
    report(vc, error);
}

/* Both connect at once. One CONNECT is lost, and sent again when the other has opened that side:
 * what it asked for, a FIFO, is asked for again, too. */
TEST(ConnectLost, AsksForAFifoAgain)
{
    isolated({{"UCX_GLEX_CHANNELS", "er"}}, [] {
        Md md_a, md_b;
        Iface a(md_a), b(md_b);
        Ep to_b(a, b.address()), to_a(b, a.address());
        unsigned received = 0;

        a.on_am(AM_ID, [&](const void *, size_t) { ++received; });
        b.on_am(AM_ID, [&](const void *, size_t) { ++received; });
        EXPECT_STATUS(UCS_ERR_NO_RESOURCE, uct_ep_am_short(to_b.handle, AM_ID, 0, NULL, 0));
        a.progress();
        lose_messages(b);
        EXPECT_STATUS(UCS_ERR_NO_RESOURCE, uct_ep_am_short(to_a.handle, AM_ID, 0, NULL, 0));
        b.progress();
        EXPECT_EQ(to_a.vc()->state, UCT_GLEX_VC_CONNECTING);
        waiting_for("the other CONNECT");
        while (to_b.vc()->state != UCT_GLEX_VC_OPEN) {
            a.progress();
        }
        report_connect(to_b.vc(), GLEX_ERR_STATUS_DEST_MPQ_FULL);
        EXPECT_OK(to_a.am_short(AM_ID, 0, NULL, 0));
        EXPECT_OK(to_b.am_short(AM_ID, 0, NULL, 0));
        progress_until("the messages", [&] { return received == 2; });
    });
}

/* The peer has no memory for the connection, and says so */
TEST(ConnectLost, IsRefused)
{
    isolated({}, [] {
        Md md_a, md_b;
        Iface a(md_a), b(md_b);
        Ep to_b(a, b.address()), to_a(b, a.address());

        EXPECT_STATUS(UCS_ERR_NO_RESOURCE, uct_ep_am_short(to_b.handle, AM_ID, 0, NULL, 0));
        a.progress();
        EXPECT_EQ(to_b.vc()->state, UCT_GLEX_VC_CONNECTING);
        lose_messages(b);
        b.internals()->refusals[0].dest = ucs_derived_of(to_a.handle, uct_glex_ep_t)->peer;
        b.internals()->refusals[0].unknown_id = 0;
        b.internals()->refusals[0].peer_id = to_b.vc()->id;
        b.internals()->num_refusals = 1;
        b.internals()->recheck = 1;
        b.internals()->due = 1;
        progress_until("the error handler", [&] { return to_b.failed(); });
    });
}

/* A peer leaves, and the next one gets its NIC's endpoint. What the NIC says of requests to the
 * first one, an immediate put among them, may come late: the connection to the next one goes on. */
TEST(ConnectAnew, OutlivesErrorsOfTheEarlierOne)
{
    isolated({}, [] {
        Md md_a, md_b;
        Iface a(md_a);
        std::unique_ptr<Iface> b(new Iface(md_b));
        Ep first(a, b->address());
        const uct_glex_vc_t *vc, *old;
        struct glex_err_req put = {};
        uint32_t old_id;

        b->on_am(AM_ID, [](const void *, size_t) {});
        EXPECT_OK(first.am_short(AM_ID, 0, NULL, 0));
        EXPECT_OK(first.flush());
        old = first.vc();
        old_id = old->tx.vc_id;
        b.reset();
        b.reset(new Iface(md_b));
        b->on_am(AM_ID, [](const void *, size_t) {});

        Ep next(a, b->address());
        EXPECT_STATUS(UCS_ERR_NO_RESOURCE, uct_ep_am_short(next.handle, AM_ID, 0, NULL, 0));
        vc = next.vc();
        EXPECT_NE(vc, old);
        EXPECT_EQ(vc->peer, old->peer);
        put.op = GLEX_ERR_OP_IMM_RDMA_PUT;
        put.status = GLEX_ERR_STATUS_DEST_VP_STOP;
        for (bool is_open : {false, true}) {
            report_message(old, old_id);
            a.progress();
            report_event(old, old_id);
            a.progress();
            report_connect(old, GLEX_ERR_STATUS_DEST_VP_STOP);
            a.progress();
            report(old, put);
            a.progress();
            EXPECT_FALSE(next.failed());
            if (!is_open) {
                EXPECT_OK(next.am_short(AM_ID, 0, NULL, 0));
                EXPECT_OK(next.flush());
            }
        }
        EXPECT_NE(vc->tx.vc_id, old_id);
        report_message(vc, vc->tx.vc_id);
        progress_until("its own error", [&] { return next.failed(); });
    });
}

/* So it is before the connection is open: the CONNECT is known by its mark */
TEST(ConnectAnew, KnowsItsOwnConnect)
{
    isolated({}, [] {
        Md md_a, md_b;
        Iface a(md_a), b(md_b);
        Ep ep(a, b.address());

        EXPECT_STATUS(UCS_ERR_NO_RESOURCE, uct_ep_am_short(ep.handle, AM_ID, 0, NULL, 0));
        a.progress();
        EXPECT_EQ(ep.vc()->state, UCT_GLEX_VC_CONNECTING);
        report_connect(ep.vc(), GLEX_ERR_STATUS_DEST_VP_STOP);
        progress_until("the error", [&] { return ep.failed(); });
    });
}

/* The acknowledgement of its last control message does not reach a peer that left in good order:
 * that is no failure, whether we have heard of its leaving or not */
TEST(ConnectAnew, AcknowledgesToNobody)
{
    for (bool is_known : {false, true}) {
        isolated({}, [=] {
            Md md_a, md_b;
            Iface a(md_a);
            std::unique_ptr<Iface> b(new Iface(md_b));
            Ep ep(a, b->address());

            b->on_am(AM_ID, [](const void *, size_t) {});
            EXPECT_OK(ep.am_short(AM_ID, 0, NULL, 0));
            EXPECT_OK(ep.flush());
            progress();
            b.reset();
            if (is_known) {
                progress_until("its leaving",
                               [&] { return ep.vc()->state == UCT_GLEX_VC_PEER_CLOSED; });
            }
            EXPECT_EQ(ep.vc()->state, is_known ? UCT_GLEX_VC_PEER_CLOSED : UCT_GLEX_VC_OPEN);
            report_message(ep.vc(), ep.vc()->tx.vc_id);
            for (int i = 0; i < 1000; ++i) {
                a.progress();
            }
            EXPECT_FALSE(ep.failed());
            EXPECT_EQ(ep.vc()->state, UCT_GLEX_VC_PEER_CLOSED);
        });
    }
}

/* NICs of two hosts may have the same id: whoever is on another fabric is not reached */
TEST(Reachable, NobodyOnAnotherFabric)
{
    isolated({}, [] {
        Md md;
        Iface a(md), b(md);
        std::string address = b.address();
        uct_glex_device_addr_t *dev = (uct_glex_device_addr_t *)&address[0];
        auto reaches = [&] {
            return uct_iface_is_reachable(a.handle, (uct_device_addr_t *)dev,
                                          (uct_iface_addr_t *)(dev + 1));
        };

        EXPECT_TRUE(reaches());
        dev->fabric ^= 1;
        EXPECT_FALSE(reaches());
        dev->fabric ^= 1 | (UINT64_C(1) << 63);
        EXPECT_FALSE(reaches());
    });
}

/* The peer accepts and answers at once, and the answer overtakes the ACCEPT: what it announces can
 * be fetched only when the key has come */
void expect_answer_before_accept(Op op)
{
    Md md;
    Iface a(md), b(md);
    Plan plan = [&](uint32_t) { return Message{op, 3000}; };
    Ep request(a, b.address());

    b.on_am(AM_ID, [](const void *, size_t) {});
    EXPECT_OK(request.am_short(AM_ID, 0, NULL, 0));
    waiting_for("the connection");
    for (b.progress();
         (b.internals()->num_vcs == 0) || (b.internals()->vcs[0]->state != UCT_GLEX_VC_OPEN);
         b.progress()) {
        a.progress();
    }
    Sink sink(a, AM_ID, 1, plan);
    Sender answer(b, a.address(), AM_ID, 1, plan);

    answer.send();
    progress_until("the answer", [&] { return sink.received == 1; });
    answer.drain();
    EXPECT_TRUE(a.failed.empty() && b.failed.empty());
}

TEST(ConnectReordered, AnswerOvertakesAccept)
{
    for (int seed = 1; seed <= 8; ++seed) {
        isolated({{"UCX_GLEX_CHANNELS", "sr"},
                  {"GLEX_FAULT", "mp_reorder=0.5,seed=" + std::to_string(seed)}},
                 [] {
                     expect_answer_before_accept(Op::BCOPY);
                     expect_answer_before_accept(Op::ZCOPY);
                 });
    }
}

FOR_CHANNELS(Connect);

} // namespace

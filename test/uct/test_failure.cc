/*
 * A connection fails while both its peers live: memory that the other side may still use is not
 * given to anybody else, other connections and other endpoints go on, error handlers are called
 * once and only by progress.
 */
#include "traffic.h"

#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

namespace
{

const uint8_t AM_ID = 5;

/* A short message that waits for its turn */
struct PendingShort {
    static ucs_status_t on_turn(uct_pending_req_t *uct)
    {
        PendingShort *self = (PendingShort *)uct; /* the first member */
        ucs_status_t status = uct_ep_am_short(self->ep, AM_ID, self->n, NULL, 0);

        if (status == UCS_ERR_NO_RESOURCE) {
            return status;
        }
        ++self->done;
        return UCS_OK; /* as UCP: a request that ended with an error has had its turn, too */
    }

    PendingShort(uct_ep_h to, uint64_t number) : ep(to), n(number)
    {
        uct.func = on_turn;
    }

    uct_pending_req_t uct = {};
    uct_ep_h ep;
    uint64_t n;
    int done = 0;
};

const size_t LENGTH = 4096;

template <char C> size_t pack(void *dest, void *arg)
{
    memset(dest, C, LENGTH);
    return LENGTH;
}

/* Bytes of a message that are not `c` */
size_t foreign(const void *data, size_t length, char c)
{
    size_t count = 0;

    for (size_t i = 0; i < length; ++i) {
        count += ((const char *)data)[i] != c;
    }
    return count;
}

/* The connection fails, though its peer lives: as where the NIC gave up a request */
void fail(Ep &ep)
{
    fail_at_once(ep.vc());
    EXPECT_TRUE(ep.iface.failed.empty()) << "handlers are called by progress";
    while (!ep.failed()) {
        ep.iface.progress();
    }
}

void progress_for(Iface &iface, unsigned calls)
{
    while (calls-- > 0) {
        iface.progress();
    }
}

void connect(Ep &ep)
{
    EXPECT_OK(ep.am_short(AM_ID, 0, NULL, 0));
    progress_until("a FIFO", [&] { return ep.vc()->er_tx != NULL; });
}

/* FIFOs that are lent, or that borrowers of failed connections may write to */
unsigned fifos_in_use(const Iface &iface)
{
    return iface.internals()->er.pool[0].share.used + iface.internals()->er.pool[1].share.used;
}

/* A FIFO that a failed connection lent is not lent again while its borrower may write to it. Another
 * peer gets another FIFO. */
TEST(Failure, LentFifoIsHeld)
{
    isolated({{"UCX_GLEX_ER_MAX_CHANNELS", "1"}}, [] {
        ErrorLog log;
        Md md, md_a, md_b;
        Iface lender(md), a(md_a), b(md_b);
        Ep to_a(lender, a.address()), from_a(a, lender.address()), from_b(b, lender.address());
        unsigned received = 0;
        bool connected = false;

        lender.on_am(AM_ID, [&](const void *data, size_t length) {
            if (length == LENGTH) {
                ++received;
                EXPECT_EQ(foreign(data, length, 'B'), 0u);
            }
        });
        a.on_am(AM_ID, [](const void *, size_t) {});
        connect(from_a);
        EXPECT_OK(to_a.am_short(AM_ID, 0, NULL, 0));
        EXPECT_OK(to_a.flush());
        fail(to_a);

        /* A, which has not progressed, believes that it may write */
        for (unsigned i = 0; i < 2000; ++i) {
            connected = connected || (uct_ep_am_short(from_b.handle, AM_ID, 0, NULL, 0) == UCS_OK);
            b.progress();
            lender.progress();
        }
        EXPECT_EQ(uct_ep_am_bcopy(from_b.handle, AM_ID, pack<'B'>, NULL, 0), (ssize_t)LENGTH);
        EXPECT_EQ(uct_ep_am_bcopy(from_a.handle, AM_ID, pack<'A'>, NULL, 0), (ssize_t)LENGTH);
        while (received == 0) {
            b.progress();
            lender.progress();
        }
        EXPECT_EQ(fifos_in_use(lender), 2u) << "A's and B's";
        EXPECT_EQ(lender.internals()->er.lent, 1u) << "B's";
        EXPECT_NE(from_b.vc()->er_tx, nullptr);

        /* When A has heard of the failure it stops, and says so */
        progress_until("the FIFO", [&] { return fifos_in_use(lender) == 1; });
        EXPECT_EQ(from_a.vc()->er_tx, nullptr);
        EXPECT_EQ(received, 1u);
    });
}

/* Its borrower gives it back by itself, as one that cannot map it. The lender, which was about
 * to ask for it, asks no more: the next FIFO that it lends to that peer may have the same name. */
TEST(Failure, ReleasedFifoIsNotRevoked)
{
    isolated({}, [] {
        Md md_a, md_b;
        Iface lender(md_a), borrower(md_b);
        Ep back(lender, borrower.address()), ep(borrower, lender.address());

        lender.on_am(AM_ID, [](const void *, size_t) {});
        borrower.on_am(AM_ID, [](const void *, size_t) {});
        connect(ep);
        connect(back);
        EXPECT_OK(ep.flush());
        EXPECT_OK(back.flush());
        progress_for(lender, 100);
        progress_for(borrower, 100);

        uct_glex_vc_t *lent = back.vc(), *borrowed = ep.vc();
        EXPECT_EQ(lent->lent, UCT_GLEX_LENT_FIFO);
        lent->ctl_inflight = 1; /* what it says must wait */
        uct_glex_ctl_post(lent, UCT_GLEX_CTL_ER_REVOKE);
        borrowed->released_index = borrowed->er_tx->index;
        borrowed->released_gen = borrowed->er_tx->gen;
        uct_glex_ctl_post(borrowed, UCT_GLEX_CTL_ER_RELEASED);
        waiting_for("the FIFO");
        while (lent->lent != UCT_GLEX_LENT_NONE) {
            borrower.progress();
            lender.progress();
        }
        EXPECT_EQ(lent->ctl & UCT_GLEX_CTL_ER_REVOKE, 0);
        lent->ctl_inflight = 0;
    });
}

/* The same for a send unit that the peer was to read */
TEST(Failure, AnnouncedUnitIsHeld)
{
    isolated({{"UCX_GLEX_CHANNELS", "sr"}, {"UCX_GLEX_SRQ_CAPACITY", "2"}}, [] {
        ErrorLog log;
        Md md, md_b, md_c;
        Iface a(md), b(md_b), c(md_c);
        Ep to_b(a, b.address()), to_c(a, c.address());
        unsigned sent = 0, received = 0;

        b.on_am(AM_ID, [](const void *data, size_t length) {
            if (length == LENGTH) {
                EXPECT_EQ(foreign(data, length, 'B'), 0u);
            }
        });
        c.on_am(AM_ID, [&](const void *data, size_t length) {
            if (length == LENGTH) {
                ++received;
                EXPECT_EQ(foreign(data, length, 'C'), 0u);
            }
        });
        EXPECT_OK(to_b.am_short(AM_ID, 0, NULL, 0));
        EXPECT_OK(to_c.am_short(AM_ID, 0, NULL, 0));
        EXPECT_OK(to_b.flush());
        EXPECT_OK(to_c.flush());
        EXPECT_EQ(uct_ep_am_bcopy(to_b.handle, AM_ID, pack<'B'>, NULL, 0), (ssize_t)LENGTH);
        fail(to_b);

        /* One of the two units is B's */
        while (uct_ep_am_bcopy(to_c.handle, AM_ID, pack<'C'>, NULL, 0) == (ssize_t)LENGTH) {
            ++sent;
        }
        EXPECT_EQ(sent, 1u);
        progress_for(b, 100);
        progress_until("the other unit", [&] {
            if (uct_ep_am_bcopy(to_c.handle, AM_ID, pack<'C'>, NULL, 0) == (ssize_t)LENGTH) {
                ++sent;
            }
            return sent == 10;
        });
        progress_until("all messages", [&] { return received == sent; });
        EXPECT_EQ(to_b.vc()->num_ops, 0u);
    });
}

/* Nor is a send unit given back to the system when its sender closes while the peer reads it */
TEST(Failure, AnnouncedUnitOutlivesItsSender)
{
    isolated({{"UCX_GLEX_CHANNELS", "sr"}}, [] {
        Md md_a, md_b;
        std::unique_ptr<Iface> a(new Iface(md_a));
        Iface b(md_b);
        std::unique_ptr<Ep> ep(new Ep(*a, b.address()));
        unsigned received = 0;

        b.on_am(AM_ID, [&](const void *data, size_t length) {
            if (length == LENGTH) {
                EXPECT_EQ(foreign(data, length, 'A'), 0u);
                ep.reset();
                a.reset();
                EXPECT_EQ(foreign(data, length, 'A'), 0u) << "after its sender closed";
                ++received;
            }
        });
        EXPECT_OK(ep->am_short(AM_ID, 0, NULL, 0));
        EXPECT_OK(ep->flush());
        EXPECT_EQ(uct_ep_am_bcopy(ep->handle, AM_ID, pack<'A'>, NULL, 0), (ssize_t)LENGTH);
        while (received == 0) {
            b.progress();
        }
        progress_for(b, 100);
    });
}

/* Held memory comes back, too, where the peer dies without a word */
TEST(Failure, HeldMemoryOfTheDeadComesBack)
{
    team(2, {{"UCX_GLEX_ER_MAX_CHANNELS", "1"}}, [](Team &team) {
        Md md;
        Iface iface(md);

        iface.on_am(AM_ID, [](const void *, size_t) {});
        team.publish(iface.address());
        team_barrier(team);

        Ep ep(iface, team.blob(1 - team.rank()));

        connect(ep);
        team_barrier(team);
        if (team.rank() == 1) {
            team.may_die();
            team.flag(0) = 1;
            for (;;) {
                pause(); /* it neither progresses nor dies by itself */
            }
        }
        ErrorLog log;

        progress_until("the peer", [&] { return team.flag(0) != 0; });
        fail(ep);
        progress_for(iface, 1000);
        EXPECT_EQ(fifos_in_use(iface), 1u);
        kill(team.pid(1), SIGKILL);
        progress_until("the FIFO", [&] { return fifos_in_use(iface) == 0; });
    });
}

/* Who destroys an endpoint whose zero-copy message was not fetched yet gets the memory back at
 * once; the message is not delivered, whatever is in that memory by then, and nothing else
 * suffers */
TEST(Failure, CancelledZcopyIsSkipped)
{
    for (bool unmapped : {false, true}) {
        isolated({}, [=] {
            Md md_a, md_b;
            Iface a(md_a), b(md_b);
            Ep back(b, a.address()), keep(a, b.address());
            std::vector<uint64_t> received;
            Completion comps[2];
            std::unique_ptr<Memory> memory(new Memory(md_a, 2 * LENGTH, Memory::PRIVATE));

            a.on_am(AM_ID, [](const void *, size_t) {});
            b.on_am(AM_ID, [&](const void *data, size_t length) {
                EXPECT_EQ(length, sizeof(uint64_t)) << "a message that was cancelled";
                received.push_back(*(const uint64_t *)data);
            });
            connect(keep);
            connect(back);
            progress_until("the first message", [&] { return received.size() == 1; });
            {
                Ep ep(a, b.address());
                uct_iov_t iov = piece(memory->data, memory->length, memory->memh);

                for (Completion &comp : comps) {
                    EXPECT_STATUS(UCS_INPROGRESS, uct_ep_am_zcopy(ep.handle, AM_ID, NULL, 0, &iov,
                                                                  1, 0, &comp.uct));
                    EXPECT_OK(uct_ep_am_short(keep.handle, AM_ID, 1, NULL, 0));
                }
                /* Who has no completion may give the memory back, too */
                EXPECT_STATUS(UCS_INPROGRESS,
                              uct_ep_am_zcopy(ep.handle, AM_ID, NULL, 0, &iov, 1, 0, NULL));
            }
            for (Completion &comp : comps) {
                EXPECT_EQ(comp.done, 1);
                EXPECT_EQ(comp.uct.status, UCS_ERR_CANCELED);
            }
            if (unmapped) {
                memory.reset();
            } else {
                memset(memory->data, 0xee, memory->length);
            }
            EXPECT_OK(keep.am_short(AM_ID, 2, NULL, 0));
            progress_until("what was sent after it", [&] { return received.size() == 4; });
            EXPECT_EQ(received.back(), 2u);
            EXPECT_OK(keep.flush());
            EXPECT_OK(back.am_short(AM_ID, 0, NULL, 0));
            EXPECT_OK(back.flush());
            EXPECT_TRUE(a.failed.empty() && b.failed.empty());
            EXPECT_EQ(keep.vc()->num_ops, 0u);
        });
    }
}

/* The empty Get by which a unit is given back fails, because its owner is gone. The error bears the
 * name that the owner gave its operation, and one of ours may have the same name. */
TEST(Failure, RefusedReleaseIsNotOurs)
{
    isolated({{"UCX_GLEX_CHANNELS", "sr"}}, [] {
        Md md_a, md_b;
        Iface a(md_a), b(md_b);
        Ep ep(a, b.address());
        glex_ep_addr_t gone = {.v = b.internals()->ep_addr};
        uct_glex_iface_t *nic = a.internals();
        unsigned received = 0;

        b.on_am(AM_ID, [&](const void *, size_t) { ++received; });
        EXPECT_OK(ep.am_short(AM_ID, 0, NULL, 0));
        progress_until("the first message", [&] { return received == 1; });
        EXPECT_EQ(uct_ep_am_bcopy(ep.handle, AM_ID, pack<'A'>, NULL, 0), (ssize_t)LENGTH);

        uct_glex_op_t *op = ucs_container_of(ep.vc()->tx_ops.head, uct_glex_op_t, queue);
        memset(&nic->error, 0, sizeof(nic->error));
        nic->error.op = GLEX_ERR_OP_RDMA_GET;
        nic->error.status = GLEX_ERR_STATUS_DEST_VP_STOP;
        nic->error.data2 = uct_glex_op_cookie_1(UCT_GLEX_EVENT_OP, op->id);
        glex_decompose_ep_addr(gone, GLEX_EP_TYPE_FAST, &nic->error.rmt_nic_id,
                               &nic->error.rmt_ep_num);
        nic->has_error = 1;
        nic->due = 1;
        progress_for(a, 100);
        EXPECT_EQ(nic->has_error, 0);
        EXPECT_TRUE(a.failed.empty());
        EXPECT_OK(ep.flush());
        EXPECT_EQ(received, 2u);
    });
}

/* A message is packed when it can be sent: here the FIFO has room, and the event queue has none */
TEST(Failure, PacksOnce)
{
    isolated({{"UCX_GLEX_ERQ_SIZE", "64k"}}, [] {
        Md md_a, md_b;
        Iface a(md_a), b(md_b);
        Ep ep(a, b.address());
        glex_ep_addr_t sink = {};
        unsigned packs = 0, received = 0;

        b.on_am(AM_ID, [&](const void *, size_t length) { received += (length == LENGTH); });
        connect(ep);
        progress_until("the lender to forget the FIFO, whose next message rings then",
                       [&] { return ep.vc()->er_tx->ctrl->armed != 0; });
        sink.v = b.internals()->ep_addr;
        while (glex_ext_post_event(a.internals()->nic, sink, 0, 0xf) == GLEX_SUCCESS) {
        }
        for (unsigned i = 0; i < 10; ++i) {
            EXPECT_EQ(uct_ep_am_bcopy(
                          ep.handle, AM_ID,
                          [](void *dest, void *arg) {
                              ++*(unsigned *)arg;
                              return pack<'A'>(dest, NULL);
                          },
                          &packs, 0),
                      (ssize_t)LENGTH);
        }
        EXPECT_EQ(packs, 10u);
        progress_until("all messages", [&] { return received == 10; });
    });
}

/* Each endpoint is told once, also one whose pending requests end with the error */
TEST(Failure, HandlersAreCalledOnce)
{
    isolated({}, [] {
        ErrorLog log;
        Md md_a, md_b;
        Iface a(md_a), b(md_b);
        Ep first(a, b.address()), second(a, b.address()), third(a, b.address());
        PendingShort pending[3] = {{first.handle, 0}, {second.handle, 0}, {second.handle, 0}};

        b.on_am(AM_ID, [](const void *, size_t) {});
        connect(first);
        EXPECT_OK(second.am_short(AM_ID, 0, NULL, 0));
        EXPECT_OK(third.am_short(AM_ID, 0, NULL, 0));
        while (uct_ep_am_short(first.handle, AM_ID, 0, NULL, 0) == UCS_OK) {
        }
        for (PendingShort &p : pending) {
            EXPECT_OK(uct_ep_pending_add(p.ep, &p.uct, 0));
        }
        fail(third);
        progress_for(a, 100);
        EXPECT_EQ(a.failed.size(), 3u);
        for (PendingShort &p : pending) {
            EXPECT_EQ(p.done, 1);
        }
    });
}

/* The error handler may destroy the endpoint that it is called for */
TEST(Failure, HandlerDestroysItsEndpoint)
{
    isolated(
        {{"UCX_GLEX_FAILURE", "error"}},
        [] { /* so that the log has what is said then */
             static uct_ep_h victim;
             static std::string memory;
             ErrorLog log;
             char gone[64];
             Md md_a, md_b;
             Iface a(md_a), b(md_b);
             Ep other(a, b.address());
             std::string peer = b.address();
             uct_ep_params_t params;

             b.on_am(AM_ID, [](const void *, size_t) {});
             params.field_mask = UCT_EP_PARAM_FIELD_IFACE | UCT_EP_PARAM_FIELD_DEV_ADDR |
                                 UCT_EP_PARAM_FIELD_IFACE_ADDR;
             params.iface = a.handle;
             params.dev_addr = (const uct_device_addr_t *)peer.data();
             params.iface_addr = (const uct_iface_addr_t *)(peer.data() + a.attr.device_addr_len);
             EXPECT_OK(uct_ep_create(&params, &victim));
             connect(other);
             EXPECT_OK(uct_ep_am_short(victim, AM_ID, 0, NULL, 0));
             ((uct_base_iface_t *)a.handle)->err_handler = [](void *, uct_ep_h ep, ucs_status_t) {
                 if (ep == victim) {
                     uct_ep_destroy(victim);
                     victim = NULL;
                     memory = std::string(sizeof(uct_glex_ep_t) - 1, 'x'); /* gets its place */
                 }
                 return UCS_OK;
             };
             snprintf(gone, sizeof(gone), "glex: process %d has closed its connection", getpid());
             fail_at_once(other.vc());
             progress_for(a, 100);
             EXPECT_EQ(victim, nullptr);

             const std::string text = log.text();
             size_t first = text.find(gone);

             EXPECT_NE(first, std::string::npos) << text;
             EXPECT_EQ(text.find(gone, first + 1), std::string::npos) << "twice: " << text;
        });
}

/* A sender that sleeps is woken as soon as it has credits, however seldom the receiver
 * progresses */
TEST(Failure, SleeperIsWokenAtOnce)
{
    isolated({}, [] {
        Md md_a, md_b;
        Iface a(md_a), b(md_b);
        Ep ep(a, b.address());
        PendingShort pending(ep.handle, 0);
        uint64_t sent = 1, received = 0;
        struct pollfd fd = {};

        b.on_am(AM_ID, [&](const void *, size_t) { ++received; });
        connect(ep);
        for (unsigned i = 0; i < 2000; ++i) {
            progress();
        }
        while (uct_ep_am_short(ep.handle, AM_ID, sent, NULL, 0) == UCS_OK) {
            ++sent;
        }
        EXPECT_OK(uct_ep_pending_add(ep.handle, &pending.uct, 0));
        progress_for(a, 100);
        EXPECT_OK(uct_iface_event_arm(a.handle, UCT_EVENT_RECV | UCT_EVENT_SEND_COMP));
        EXPECT_OK(uct_iface_event_fd_get(a.handle, &fd.fd));
        fd.events = POLLIN;
        while (received < sent) {
            b.progress();
        }
        b.progress();
        EXPECT_EQ(poll(&fd, 1, 0), 1) << "all is taken, and the sender sleeps on";
        progress_until("the message", [&] { return pending.done == 1; });
    });
}

/* Memory is put to and got from while messages wait for credits */
TEST(Failure, PutDoesNotWaitForMessages)
{
    isolated({}, [] {
        Md md_a, md_b;
        Iface a(md_a), b(md_b);
        Ep ep(a, b.address());
        PendingShort pending(ep.handle, 0);
        Memory memory(md_b, LENGTH, Memory::NIC);
        RemoteMemory remote(memory.describe());
        uint64_t value = 42, got = 0;

        b.on_am(AM_ID, [](const void *, size_t) {});
        connect(ep);
        while (uct_ep_am_short(ep.handle, AM_ID, 0, NULL, 0) == UCS_OK) {
        }
        EXPECT_OK(uct_ep_pending_add(ep.handle, &pending.uct, 0));
        progress_for(a, 10);
        EXPECT_EQ(pending.done, 0);
        EXPECT_OK(uct_ep_put_short(ep.handle, &value, 8, remote.address, remote.rkey.rkey));
        EXPECT_EQ(*(uint64_t *)memory.data, 42u);
        EXPECT_OK(uct_ep_get_short(ep.handle, &got, 8, remote.address, remote.rkey.rkey));
        EXPECT_EQ(got, 42u);
        progress_until("the message", [&] { return pending.done == 1; });
    });
}

/* Nor does a put that the NIC refused for a while, and that waits for its turn, wait for credits */
struct PendingPut {
    static ucs_status_t on_turn(uct_pending_req_t *uct)
    {
        PendingPut *self = (PendingPut *)uct; /* the first member */
        ucs_status_t status = (self->refusals-- > 0) ?
                                  UCS_ERR_NO_RESOURCE :
                                  uct_ep_put_short(self->ep, &self->value, 8, self->remote->address,
                                                   self->remote->rkey.rkey);

        self->done += (status == UCS_OK);
        return status;
    }

    uct_pending_req_t uct = {};
    uct_ep_h ep;
    const RemoteMemory *remote;
    uint64_t value = 43;
    int refusals = 3, done = 0;
};

TEST(Failure, PendingPutDoesNotWaitForCredits)
{
    isolated({}, [] {
        Md md_a, md_b;
        Iface a(md_a), b(md_b);
        Ep ep(a, b.address());
        Memory memory(md_b, LENGTH, Memory::NIC);
        RemoteMemory remote(memory.describe());
        PendingPut pending;

        b.on_am(AM_ID, [](const void *, size_t) {});
        connect(ep);
        while (uct_ep_am_short(ep.handle, AM_ID, 0, NULL, 0) == UCS_OK) {
        }
        pending.uct.func = PendingPut::on_turn;
        pending.ep = ep.handle;
        pending.remote = &remote;
        EXPECT_OK(uct_ep_pending_add(ep.handle, &pending.uct, 0));
        progress_for(a, 100);
        EXPECT_EQ(pending.done, 1);
        EXPECT_EQ(*(uint64_t *)memory.data, 43u);
    });
}

/* Handlers are called by progress alone, not out of uct_iface_event_arm() or a send */
TEST(Failure, NoHandlerInArm)
{
    team(2, {}, [](Team &team) {
        Md md;
        Iface iface(md);
        bool arming = false, called = false;
        unsigned received = 0;

        iface.on_am(AM_ID, [&](const void *, size_t) {
            ++received;
            called = called || arming;
        });
        team.publish(iface.address());
        team_barrier(team);

        Ep ep(iface, team.blob(1 - team.rank()));

        connect(ep);
        progress_until("its message", [&] { return received == 1; });
        team_barrier(team);
        if (team.rank() == 1) {
            team.may_die();
            for (unsigned i = 0; i < 5; ++i) {
                EXPECT_OK(ep.am_short(AM_ID, 1, NULL, 0));
            }
            team.flag(0) = 1;
            kill(getpid(), SIGKILL);
        }
        while (team.flag(0) == 0) {
            usleep(1000);
        }
        for (unsigned i = 0; i < 100; ++i) {
            arming = true;
            uct_iface_event_arm(iface.handle, UCT_EVENT_RECV);
            EXPECT_TRUE(iface.failed.empty()) << "the error handler was called";
            arming = false;
            usleep(10000);
        }
        EXPECT_FALSE(called);

        /* Here arming finds that the peer is dead: progress finds only that nothing comes */
        iface.internals()->errors_next = UCS_TIME_INFINITY;
        waiting_for("the peer's death");
        while (!ep.vc()->peer_dead) {
            progress_for(iface, 300);
            usleep(20000);
            uct_iface_event_arm(iface.handle, UCT_EVENT_RECV);
            EXPECT_TRUE(iface.failed.empty()) << "the error handler was called";
        }
        iface.internals()->errors_next = 0;
        progress_until("the error handler", [&] { return !iface.failed.empty(); });
        EXPECT_EQ(received, 6u) << "what the dead sent before is delivered";
    });
}

/* A send finds that its peer is gone. The connection ends by progress, not in the send. */
TEST(Failure, NoHandlerInSend)
{
    isolated({}, [] {
        ErrorLog log;
        Md md_a, md_b;
        Iface a(md_a);
        std::unique_ptr<Iface> b(new Iface(md_b));
        Ep ep(a, b->address());

        b->on_am(AM_ID, [](const void *, size_t) {});
        connect(ep);
        b.reset();

        uct_ep_am_bcopy(ep.handle, AM_ID, pack<'A'>, NULL, UCT_SEND_FLAG_PEER_CHECK);
        EXPECT_TRUE(a.failed.empty());
        EXPECT_STATUS(UCS_INPROGRESS, uct_iface_flush(a.handle, 0, NULL));
        progress_until("the error handler", [&] { return ep.failed(); });
    });
}

/* The first message of one more endpoint to a connected peer is sent at once, by all operations */
TEST(Failure, FirstMessageOfAnotherEndpoint)
{
    isolated({}, [] {
        Md md_a, md_b;
        Iface a(md_a), b(md_b);
        Ep ep(a, b.address());
        Memory memory(md_a, LENGTH, memory_kinds(md_a).back());
        uct_iov_t iov = piece(memory.data, memory.length, memory.memh);
        Completion comp;
        unsigned received = 0;

        b.on_am(AM_ID, [&](const void *, size_t) { ++received; });
        connect(ep);
        Ep by_short(a, b.address()), by_bcopy(a, b.address()), by_zcopy(a, b.address());

        EXPECT_OK(uct_ep_am_short(by_short.handle, AM_ID, 0, NULL, 0));
        EXPECT_EQ(uct_ep_am_bcopy(by_bcopy.handle, AM_ID, pack<'A'>, NULL, 0), (ssize_t)LENGTH);
        EXPECT_STATUS(UCS_INPROGRESS,
                      uct_ep_am_zcopy(by_zcopy.handle, AM_ID, NULL, 0, &iov, 1, 0, &comp.uct));
        comp.wait();
        progress_until("all", [&] { return received == 4; });
    });
}

/* As many requests wait as 16 bits count, and are purged: then nothing waits */
TEST(Failure, ManyPendingRequests)
{
    isolated({}, [] {
        Md md_a, md_b;
        Iface a(md_a), b(md_b);
        Ep ep(a, b.address());
        std::list<PendingShort> pending;
        unsigned purged = 0;

        b.on_am(AM_ID, [](const void *, size_t) {});
        connect(ep);
        while (uct_ep_am_short(ep.handle, AM_ID, 0, NULL, 0) == UCS_OK) {
        }
        for (unsigned i = 0; i < 65536; ++i) {
            pending.emplace_back(ep.handle, i);
            EXPECT_OK(uct_ep_pending_add(ep.handle, &pending.back().uct, 0));
        }
        uct_ep_pending_purge(
            ep.handle, [](uct_pending_req_t *, void *arg) { ++*(unsigned *)arg; }, &purged);
        EXPECT_EQ(purged, 65536u);
        EXPECT_EQ(ep.vc()->num_blocked, 0u);
        EXPECT_OK(ep.am_short(AM_ID, 1, NULL, 0));
    });
}

/* A flush that cancels: what the endpoint has on its way ends, it sends nothing more, others do */
TEST(Failure, FlushCancels)
{
    isolated({}, [] {
        Md md_a, md_b;
        Iface a(md_a), b(md_b);
        Ep ep(a, b.address()), other(a, b.address()), unused(a, b.address());
        Memory memory(md_a, LENGTH, memory_kinds(md_a).back());
        Memory target(md_b, LENGTH, Memory::NIC);
        RemoteMemory remote(target.describe());
        uct_iov_t iov = piece(memory.data, memory.length, memory.memh);
        Completion comp;
        unsigned received = 0;
        uint64_t value = 1;

        b.on_am(AM_ID, [&](const void *, size_t) { ++received; });
        connect(ep);
        EXPECT_OK(other.am_short(AM_ID, 0, NULL, 0));
        EXPECT_STATUS(UCS_INPROGRESS,
                      uct_ep_am_zcopy(ep.handle, AM_ID, NULL, 0, &iov, 1, 0, &comp.uct));
        EXPECT_OK(uct_ep_flush(ep.handle, UCT_FLUSH_FLAG_CANCEL, NULL));
        EXPECT_EQ(comp.done, 1);
        EXPECT_EQ(comp.uct.status, UCS_ERR_CANCELED);
        EXPECT_OK(uct_ep_flush(unused.handle, UCT_FLUSH_FLAG_CANCEL, NULL));
        for (uct_ep_h dead : {ep.handle, unused.handle}) {
            EXPECT_STATUS(UCS_ERR_CANCELED, uct_ep_am_short(dead, AM_ID, 0, NULL, 0));
            EXPECT_EQ(uct_ep_am_bcopy(dead, AM_ID, pack<'A'>, NULL, 0), UCS_ERR_CANCELED);
            EXPECT_STATUS(UCS_ERR_CANCELED,
                          uct_ep_am_zcopy(dead, AM_ID, NULL, 0, &iov, 1, 0, NULL));
            EXPECT_STATUS(UCS_ERR_CANCELED,
                          uct_ep_put_short(dead, &value, 8, remote.address, remote.rkey.rkey));
        }
        EXPECT_OK(other.am_short(AM_ID, 0, NULL, 0));
        EXPECT_OK(other.put_short(&value, 8, remote.address, remote.rkey.rkey));
        progress_until("the other's messages", [&] { return received == 3; });
    });
}

/* It waits for nothing: the peer may be stopped, and have messages of other endpoints to fetch */
TEST(Failure, FlushThatCancelsDoesNotWait)
{
    isolated({{"UCX_GLEX_CHANNELS", "sr"}}, [] {
        Md md;
        Iface a(md), b(md);
        Ep ep(a, b.address()), other(a, b.address());
        std::vector<uint8_t> data(1000);
        unsigned received = 0;

        b.on_am(AM_ID, [&](const void *, size_t) { ++received; });
        EXPECT_OK(ep.am_short(AM_ID, 0, NULL, 0));
        EXPECT_OK(ep.flush());
        for (Ep *each : {&ep, &other}) {
            EXPECT_EQ(ssize_t(data.size()), each->am_bcopy(AM_ID, data.data(), data.size()));
        }
        EXPECT_STATUS(UCS_INPROGRESS, uct_ep_flush(other.handle, 0, NULL));
        EXPECT_OK(uct_ep_flush(ep.handle, UCT_FLUSH_FLAG_CANCEL, NULL));
        progress_until("both messages", [&] { return received == 3; });
        EXPECT_OK(other.flush());
    });
}

/* A message that is to check the peer finds it dead */
void expect_found_dead(const std::function<void(Ep &ep)> &send)
{
    team(2, {}, [&](Team &team) {
        Md md;
        Iface iface(md);

        iface.on_am(AM_ID, [](const void *, size_t) {});
        team.publish(iface.address());
        team_barrier(team);

        Ep ep(iface, team.blob(1 - team.rank()));

        connect(ep);
        team_barrier(team);
        if (team.rank() == 1) {
            team.may_die();
            team.flag(0) = 1;
            kill(getpid(), SIGKILL);
        }
        glex_ep_addr_t peer = {.v = ep.vc()->peer};

        waiting_for("the end of the peer");
        while (glex_ext_check_peer(iface.internals()->nic, peer, 0, 0) == GLEX_SUCCESS) {
            usleep(1000); /* without progress, which finds it dead after a while by itself */
        }
        send(ep);
        EXPECT_TRUE(iface.failed.empty()) << "handlers are called by progress";
        progress_for(iface, 20); /* takes what the peer has left here first */
        EXPECT_TRUE(ep.failed());
    });
}

TEST(Failure, MessageChecksThePeer)
{
    expect_found_dead([](Ep &ep) {
        uct_ep_am_bcopy(ep.handle, AM_ID, pack<'A'>, NULL, UCT_SEND_FLAG_PEER_CHECK);
    });
    expect_found_dead([](Ep &ep) {
        uct_ep_am_zcopy(ep.handle, AM_ID, NULL, 0, NULL, 0, UCT_SEND_FLAG_PEER_CHECK, NULL);
    });
}

/* Short puts by packing are copied where the memory is mapped, however little of it is left */
TEST(Failure, SmallPutBcopy)
{
    isolated({}, [] {
        Md md_a, md_b;
        Iface a(md_a), b(md_b);
        Ep ep(a, b.address());
        Memory memory(md_b, 64, Memory::NIC);
        RemoteMemory remote(memory.describe());
        uint64_t value = 42;
        uint64_t before = a.counters().put_tx;

        for (uint64_t offset : {UINT64_C(0), (uint64_t)memory.length - 8}) {
            EXPECT_EQ(ep.put_bcopy(&value, 8, remote.address + offset, remote.rkey.rkey), 8);
            EXPECT_EQ(*(uint64_t *)(memory.data + offset), 42u);
        }
        EXPECT_EQ(a.counters().put_tx, before) << "went through the NIC";
    });
}

} // namespace

/*
 * What peers share. Many send to one through the shared channel: windows grow as far as
 * SR_CREDIT_MAX and the pool go, and a sender that leaves gives up what it had. One sends to many:
 * silent peers do not keep it from serving the others.
 */
#include "sanitizer.h"
#include "traffic.h"

#include "base/glex_share.h"

#include <sys/resource.h>

namespace
{

const uint8_t AM_ID = 3;

/* Interfaces of one process that send to one more */
class Senders
{
  public:
    explicit Senders(unsigned count) : receiver(md)
    {
        receiver.on_am(AM_ID, [](const void *, size_t) {});
        for (unsigned i = 0; i < count; ++i) {
            ifaces_.emplace_back(md);
            eps_.emplace_back(new Ep(ifaces_.back(), receiver.address()));
        }
    }

    /* The first `count` send as much as they may, until `done` */
    void flood(const char *what, unsigned count, const std::function<bool()> &done)
    {
        progress_until(what, [&] {
            unsigned left = count;

            for (std::unique_ptr<Ep> &ep : eps_) {
                while ((left > 0) && (uct_ep_am_short(ep->handle, AM_ID, 0, NULL, 0) == UCS_OK)) {
                }
                left -= (left > 0);
            }
            return done();
        });
        receiver.check_credits();
    }

    /* Whether the first `count` that connected may each send so many at once */
    bool have(unsigned count, unsigned window) const
    {
        return have(count, window, window);
    }

    bool have(unsigned count, unsigned least, unsigned most) const
    {
        const uct_glex_iface_t *in = receiver.internals();

        if (in->num_vcs < count) {
            return false;
        }
        for (unsigned i = 0; i < count; ++i) {
            if ((in->vcs[i]->mp_rx.window < least) || (in->vcs[i]->mp_rx.window > most)) {
                return false;
            }
        }
        return true;
    }

    /* The first `count` leave: the receiver has their entries back */
    void leave(unsigned count)
    {
        for (unsigned i = 0; i < count; ++i) {
            eps_.pop_front();
            ifaces_.pop_front();
        }
    }

    Md md;
    Iface receiver;

  private:
    std::list<Iface> ifaces_;
    std::list<std::unique_ptr<Ep>> eps_;
};

const Env SHARED = {{"UCX_GLEX_CHANNELS", "sr"}};

TEST(Share, AllGrowToTheMaximum)
{
    isolated(SHARED + Env{{"UCX_GLEX_SR_CREDIT_MAX", "64"}}, [] {
        Senders senders(20);
        const uct_glex_iface_t *in = senders.receiver.internals();

        senders.flood("the first to grow", 3, [&] { return senders.have(3, in->mpq.max); });
        senders.flood("all others", 20, [&] { return senders.have(20, in->mpq.max); });
    });
}

/* Large windows divide half of the queue. The windows of the first senders leave room for later ones,
 * and a sender that leaves makes room. */
TEST(Share, LargeWindowsDivideTheQueue)
{
    isolated(SHARED, [] {
        Senders senders(40);
        const uct_glex_iface_t *in = senders.receiver.internals();
        unsigned shared = in->mpq.shared;

        senders.flood("the first to grow", 1,
                      [&] { return senders.have(1, shared / 3, in->mpq.max); });
        senders.flood("the second", 2, [&] { return senders.have(2, shared / 8, in->mpq.max); });
        senders.flood("all", 40, [&] { return senders.have(40, 64, in->mpq.max); });
        EXPECT_EQ(in->mpq.num_peers, 40u);
        EXPECT_LE(in->mpq.promised, shared + 40 * 64);
        senders.leave(39);
        senders.flood("the last alone", 1, [&] {
            return (in->mpq.num_peers == 1) && (in->vcs[39]->mp_rx.window > shared / 4);
        });
        EXPECT_EQ(in->mpq.promised, in->vcs[39]->mp_rx.window - 1);
    });
}

/* Seven of the pool's entries are for the first sender's start credit, five for its growth. When it
 * leaves another can have them. */
TEST(Share, PoolIsTheLimit)
{
    isolated({{"UCX_GLEX_CHANNELS", "sr"}, {"UCX_GLEX_EP_MPQ_POOL_UNITS", "12"}}, [] {
        Senders senders(20);
        const uct_glex_iface_t *in = senders.receiver.internals();

        senders.flood("the first to grow", 1, [&] { return senders.have(1, 1 + 12); });
        senders.flood("others with one credit", 20, [&] { return in->num_vcs == 20; });
        EXPECT_EQ(in->mpq.pool, 0u);

        senders.leave(1);
        senders.flood("one of the others grows", 1,
                      [&] { return in->vcs[1]->mp_rx.window == 1 + 12; });
    });
}

/* Each VC takes as much as it may and gives nothing back. A new VC always gets one element. */
TEST(Share, NewVcAlwaysGetsOne)
{
    for (unsigned max : {1u, 2u, 3u, 128u}) {
        uct_glex_share_t share = {max, 0};

        for (unsigned vc = 1; vc <= 100; ++vc) {
            unsigned held = 0;

            while (uct_glex_share_allows(&share, held)) {
                ++held;
                ++share.used;
            }
            EXPECT_GE(held, 1u) << "VC " << vc << " of a pool of " << max;
            EXPECT_LE(held, (max + 1) / 2) << "VC " << vc << " of a pool of " << max;
            EXPECT_LE(share.used, max + vc);
        }
    }
}

/* To 30 peers that compute, as much is sent as may be. Then a peer that calls progress is served as
 * if the others were not there. */
void serve_beside_silent_peers(const std::function<ucs_status_t(Ep &ep)> &send_once)
{
    const unsigned silent = 30, messages = 1000;
    Md md;
    Iface sender(md), living(md);
    std::list<Iface> peers;
    std::list<Ep> eps;
    unsigned received = 0, sent = 0;

    living.on_am(AM_ID, [&](const void *, size_t) { ++received; });
    Ep to_living(sender, living.address());
    for (unsigned i = 0; i < silent; ++i) {
        peers.emplace_back(md);
        peers.back().on_am(AM_ID, [](const void *, size_t) {});
        eps.emplace_back(sender, peers.back().address());
        EXPECT_OK(eps.back().am_short(AM_ID, 0, NULL, 0)); /* connects: all call progress */
    }
    EXPECT_OK(to_living.am_short(AM_ID, 0, NULL, 0));
    progress_until("the first message", [&] { return received == 1; });
    sender.flush();
    for (Ep &ep : eps) {
        while (!UCS_STATUS_IS_ERR(send_once(ep))) {
        }
    }
    for (unsigned calls = 0; (received < 1 + messages) && (calls < 1000 * messages); ++calls) {
        sent += (sent < messages) && !UCS_STATUS_IS_ERR(send_once(to_living));
        sender.progress();
        living.progress();
    }
    EXPECT_EQ(received, 1 + messages);
    while (!peers.empty()) { /* those go first for which nobody waits */
        eps.pop_front();
        peers.pop_front();
    }
}

TEST(Share, SilentPeersLeaveSendUnits)
{
    isolated(SHARED, [] {
        serve_beside_silent_peers([](Ep &ep) {
            uct_pack_callback_t pack = [](void *dest, void *) -> size_t {
                memset(dest, 1, 1000);
                return 1000;
            };

            return (ucs_status_t)std::min<ssize_t>(uct_ep_am_bcopy(ep.handle, AM_ID, pack, NULL, 0),
                                                   0);
        });
    });
}

TEST(Share, SilentPeersLeaveZcopyRequests)
{
    isolated(SHARED + Env{{"UCX_GLEX_ZC_REQ_CAPACITY", "32"}}, [] {
        serve_beside_silent_peers([](Ep &ep) {
            static char data[1000];
            uct_iov_t iov = piece(data, sizeof(data));

            return uct_ep_am_zcopy(ep.handle, AM_ID, NULL, 0, &iov, 1, 0, NULL);
        });
    });
}

/* Gets from peers on other hosts that do not answer hold requests and bounce buffers. Here the test
 * takes all that each of 30 connections may hold. One more connection still gets. */
TEST(Share, SilentPeersLeaveRmaRequests)
{
    isolated({{"UCX_GLEX_RMA_REQ_CAPACITY", "16"}, {"GLEX_FAULT", "nomap"}}, [] {
        const enum uct_glex_op_type rma = UCT_GLEX_OP_RMA;
        Md md;
        Iface a(md), b(md);
        std::list<Iface> peers;
        std::list<Ep> eps;
        std::vector<uct_glex_buf_t *> bufs;
        Ep ep(a, b.address());
        Memory memory(md, 4096, Memory::PRIVATE);
        RemoteMemory remote(memory.describe());
        uct_glex_buf_pool_t *bounce = &a.internals()->ops.bounce;
        uct_glex_share_t *share = &a.internals()->ops.shares[rma];
        uct_unpack_callback_t unpack = [](void *arg, const void *data, size_t) {
            memcpy(arg, data, sizeof(uint64_t));
        };
        uct_completion_t comp = {};
        uint64_t word = 42, found = 0;

        comp.func = [](uct_completion_t *) {};
        comp.count = 1;
        EXPECT_OK(ep.put_short(&word, sizeof(word), remote.address, remote.rkey.rkey));
        EXPECT_OK(ep.flush());
        for (unsigned i = 0; i < 30; ++i) {
            peers.emplace_back(md);
            eps.emplace_back(a, peers.back().address());
            EXPECT_OK(eps.back().am_short(AM_ID, 0, NULL, 0));
            while (uct_glex_op_is_allowed(eps.back().vc(), rma)) {
                ++share->used;
                ++eps.back().vc()->held[rma];
                bufs.push_back(NULL);
                ASSERT_EQ(uct_glex_buf_get(bounce, 0, &bufs.back()), UCS_OK);
            }
            EXPECT_GE(eps.back().vc()->held[rma], 1);
        }
        EXPECT_GE(share->used, 16u + 14u);
        EXPECT_EQ(uct_ep_get_bcopy(ep.handle, unpack, &found, sizeof(found), remote.address,
                                   remote.rkey.rkey, &comp),
                  UCS_OK);
        EXPECT_EQ(found, word);
        for (Ep &silent : eps) {
            share->used -= silent.vc()->held[rma];
            silent.vc()->held[rma] = 0;
        }
        for (uct_glex_buf_t *buf : bufs) {
            uct_glex_buf_put(buf);
        }
    });
}

/* The borrowers of two FIFOs are stopped, and their connections fail, so leases keep the FIFOs. Each
 * time another peer gets a FIFO in their place. Leases keep as many FIFOs as may be lent; further
 * FIFOs of leases count as lent. */
TEST(Share, StoppedPeersLeaveFifos)
{
    isolated({{"UCX_GLEX_ER_MAX_CHANNELS", "1"}}, [] {
        Md md;
        Iface lender(md);
        std::list<Iface> peers;
        std::list<Ep> eps;
        const auto &er = lender.internals()->er;
        auto in_use = [&] { return er.pool[0].share.used + er.pool[1].share.used; };
        /* A new peer sends, and the other peers are stopped. Returns whether it gets a FIFO. */
        auto lends = [&] {
            peers.emplace_back(md);
            eps.emplace_back(peers.back(), lender.address());
            for (unsigned i = 0; i < 1000; ++i) {
                (void)uct_ep_am_short(eps.back().handle, AM_ID, 0, NULL, 0);
                peers.back().progress();
                lender.progress();
            }
            return eps.back().vc()->er_tx != NULL;
        };

        lender.on_am(AM_ID, [](const void *, size_t) {});
        for (unsigned i = 0; i < 2; ++i) {
            ASSERT_TRUE(lends()) << "with " << i << " FIFOs in leases";
            fail_at_once(lender.internals()->vcs[i]);
            while (er.lent > 0) {
                lender.progress();
            }
        }
        EXPECT_EQ(in_use(), 2u);
        EXPECT_FALSE(lends());
        progress_until("the claims", [&] { return in_use() == 0; });
        EXPECT_TRUE(lends());
    });
}

/* 16 peers without connections have sent messages, and are stopped with full queues. The END for one
 * more peer does not wait for them. */
TEST(Share, StoppedPeersLeaveRefusals)
{
    isolated({{"UCX_GLEX_EP_MPQ_CAPACITY", "64"}}, [] {
        Md md;
        Iface target(md), filler(md), living(md);
        std::list<Iface> stopped;
        struct glex_ext_queues queues;
        auto address = [](const Iface &iface) {
            return glex_ep_addr_t{.v = iface.internals()->ep_addr};
        };
        auto send = [&](const Iface &from) {
            uct_glex_hdr_t hdr = {};
            glex_imm_mp_req_t req = {};

            hdr.type_am = uct_glex_hdr_type_am(UCT_GLEX_MP_CTL, 0);
            hdr.vc_id = 1;
            req.rmt_ep_addr = address(target);
            req.data = &hdr;
            req.len = sizeof(hdr);
            EXPECT_EQ(glex_send_imm_mp(from.internals()->nic, &req, NULL), GLEX_SUCCESS);
            for (unsigned i = 0; i < 20; ++i) {
                target.progress();
            }
        };

        for (unsigned i = 0; i < UCT_GLEX_MAX_REFUSALS; ++i) {
            stopped.emplace_back(md);
            while (glex_ext_post_mp(filler.internals()->nic, address(stopped.back()), 0, 0, 0, NULL,
                                    0) == GLEX_SUCCESS) {
            }
            send(stopped.back());
        }
        EXPECT_EQ(target.internals()->num_refusals, unsigned(UCT_GLEX_MAX_REFUSALS));
        send(living);
        EXPECT_EQ(glex_ext_query_queues(living.internals()->nic, &queues), GLEX_SUCCESS);
        EXPECT_EQ(queues.mps_arrived, 1u);
    });
}

/* A sender breaks the protocol and goes on without credits. The receiver stores no more messages than
 * it granted, and fails the connection. */
TEST(Share, SenderBeyondItsWindowFails)
{
    isolated(SHARED + Env{{"UCX_GLEX_SR_CREDIT_MAX", "8"}}, [] {
        ErrorLog log;
        Senders senders(0);
        Iface iface(senders.md);
        Ep ep(iface, senders.receiver.address());
        const uct_glex_iface_t *in = senders.receiver.internals();

        EXPECT_OK(ep.am_short(AM_ID, 0, NULL, 0));
        progress_until("the connection",
                       [&] { return uct_glex_credit_avail(&ep.vc()->mp_tx) > 0; });
        ep.vc()->mp_tx.limit += 100;
        while (uct_ep_am_short(ep.handle, AM_ID, 0, NULL, 0) == UCS_OK) {
        }
        progress_until("the failure", [&] { return in->vcs[0]->state == UCT_GLEX_VC_FAILED; });
        EXPECT_NE(log.text().find("more messages than it had credits for"), std::string::npos);
    });
}

/* The same through a FIFO. Messages, short or in units, wait for an earlier message that never comes, so
 * the receiver keeps them. */
TEST(Share, SenderBeyondItsFifoFails)
{
    for (bool is_short : {true, false}) {
        for (const char *faults : {"", "nomap"}) {
            Env env = {{"UCX_GLEX_CHANNELS", "er"}, {"UCX_GLEX_ERQ_SIZE", "32k"}};

            if ((*faults != '\0') && !is_short) {
                env["GLEX_FAULT"] = faults;
            }
            isolated(env, [&] {
                ErrorLog log;
                Senders senders(0);
                Iface iface(senders.md);
                Ep ep(iface, senders.receiver.address());
                const uct_glex_iface_t *in = senders.receiver.internals();
                uct_pack_callback_t pack = [](void *dest, void *) -> size_t {
                    memset(dest, 1, 100);
                    return 100;
                };
                unsigned sent = 0;

                EXPECT_OK(ep.am_short(AM_ID, 0, NULL, 0));
                EXPECT_OK(ep.flush());
                ++ep.vc()->tx.seq;
                while ((in->vcs[0]->state == UCT_GLEX_VC_OPEN) && (sent < 2000)) {
                    if (is_short) {
                        (void)uct_ep_am_short(ep.handle, AM_ID, 0, NULL, 0);
                    } else {
                        (void)uct_ep_am_bcopy(ep.handle, AM_ID, pack, NULL, 0);
                    }
                    ++sent;
                    ep.vc()->tx_fifo.acked.msgs = ep.vc()->tx_fifo.msgs;
                    ep.vc()->tx_fifo.acked.units = ep.vc()->tx_fifo.head;
                    senders.receiver.progress();
                }
                EXPECT_EQ(in->vcs[0]->state, UCT_GLEX_VC_FAILED);
                EXPECT_NE(log.text().find("beyond its FIFO"), std::string::npos);
            });
        }
    }
}

/* The system has no memory while `body` runs: nothing can be mapped */
void without_memory(const std::function<void()> &body)
{
    struct rlimit before, tight;

    ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
    tight = before;
    tight.rlim_cur = 1 << 20; /* less than there is */
    ASSERT_EQ(setrlimit(RLIMIT_AS, &tight), 0);
    body();
    ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
}

/* A buffer has 1 MB or, for zero-copy messages, 64 KB, so that each pool needs new memory of the
 * system */
const Env NO_MEMORY = {{"UCX_GLEX_CHANNELS", "sr"},      {"UCX_GLEX_RMA_BUF_SIZE", "1m"},
                       {"UCX_GLEX_SRQ_UNIT_SIZE", "1m"}, {"UCX_GLEX_ZC_MAX_SIZE", "64k"},
                       {"UCX_GLEX_MIN_RNDV", "1k"},      {"GLEX_FAULT", "nomap"}};

size_t pack_thousand(void *dest, void *)
{
    memset(dest, 7, 1000);
    return 1000;
}

/* No memory for a buffer, and none in use that would come back: an error, and not a refusal that
 * lasts for ever. With memory again the operation works. */
void refused_for_want_of_memory(const std::function<ssize_t(Ep &ep, RemoteMemory &remote)> &post)
{
    if (under_sanitizer()) {
        GTEST_SKIP() << "the sanitizer itself needs the address space that this test takes away";
    }
    isolated(NO_MEMORY, [&] {
        ErrorLog log;
        Md md;
        Iface a(md), b(md);
        Ep ep(a, b.address());
        Memory memory(md, 4096, Memory::PRIVATE);
        RemoteMemory remote(memory.describe());
        ssize_t refused = 0;

        b.on_am(AM_ID, [](const void *, size_t) {});
        EXPECT_OK(ep.am_short(AM_ID, 0, NULL, 0));
        EXPECT_OK(ep.flush());
        without_memory([&] { refused = post(ep, remote); });
        EXPECT_EQ(refused, UCS_ERR_NO_MEMORY);
        EXPECT_EQ(post(ep, remote), 1000);
        EXPECT_OK(ep.flush());
    });
}

TEST(Share, NoMemoryForBounceBuffers)
{
    refused_for_want_of_memory([](Ep &ep, RemoteMemory &remote) {
        return uct_ep_put_bcopy(ep.handle, pack_thousand, NULL, remote.address, remote.rkey.rkey);
    });
}

TEST(Share, NoMemoryForSendUnits)
{
    refused_for_want_of_memory([](Ep &ep, RemoteMemory &) {
        return uct_ep_am_bcopy(ep.handle, AM_ID, pack_thousand, NULL, 0);
    });
}

/* The receiver has no memory to fetch a message. No buffer will come back, so the connection fails,
 * and the sender hears of it. */
void not_fetched_for_want_of_memory(const std::function<ucs_status_t(Ep &ep)> &send)
{
    if (under_sanitizer()) {
        GTEST_SKIP() << "the sanitizer itself needs the address space that this test takes away";
    }
    isolated(NO_MEMORY, [&] {
        ErrorLog log;
        Md md;
        Iface a(md), b(md);
        Ep ep(a, b.address());

        b.on_am(AM_ID, [](const void *, size_t) {});
        EXPECT_OK(ep.am_short(AM_ID, 0, NULL, 0));
        EXPECT_OK(ep.flush());
        EXPECT_FALSE(UCS_STATUS_IS_ERR(send(ep)));
        without_memory([&] {
            for (unsigned i = 0; (i < 1000) && !uct_glex_vc_is_over(b.internals()->vcs[0]); ++i) {
                b.progress();
            }
        });
        EXPECT_EQ(b.internals()->vcs[0]->status, UCS_ERR_NO_MEMORY);
        progress_until("the error handler", [&] { return ep.failed(); });
    });
}

TEST(Share, NoMemoryForReceiveBuffers)
{
    not_fetched_for_want_of_memory([](Ep &ep) {
        ssize_t sent = uct_ep_am_bcopy(ep.handle, AM_ID, pack_thousand, NULL, 0);

        return (sent < 0) ? (ucs_status_t)sent : UCS_OK;
    });
}

TEST(Share, NoMemoryForZcopyBuffers)
{
    static char data[1000];

    not_fetched_for_want_of_memory([](Ep &ep) {
        uct_iov_t iov = piece(data, sizeof(data));

        return uct_ep_am_zcopy(ep.handle, AM_ID, NULL, 0, &iov, 1, 0, NULL);
    });
}

/* Some of 50 endpoints to one peer have pending requests. The list of the connection begins with these
 * endpoints, so that new credits do not walk the others. */
TEST(Share, BlockedEndpointsComeFirst)
{
    isolated(SHARED + Env{{"UCX_GLEX_SR_CREDIT_MAX", "8"}}, [] {
        struct Request {
            uct_pending_req_t uct;
            uct_ep_h ep;
        };
        Senders senders(0);
        Iface iface(senders.md);
        std::list<Ep> eps;
        std::list<Request> requests;

        for (unsigned i = 0; i < 50; ++i) {
            eps.emplace_back(iface, senders.receiver.address());
        }
        EXPECT_OK(eps.front().am_short(AM_ID, 0, NULL, 0));
        for (Ep &ep : eps) { /* all belong to the connection */
            EXPECT_OK(ep.am_short(AM_ID, 0, NULL, 0));
        }
        while (uct_ep_am_short(eps.front().handle, AM_ID, 0, NULL, 0) == UCS_OK) {
        }
        unsigned number = 0;
        for (unsigned round = 0; round < 3; ++round) {
            for (Ep &ep : eps) {
                if (++number % 7 == 0) {
                    requests.emplace_back();
                    requests.back().ep = ep.handle;
                    requests.back().uct.func = [](uct_pending_req_t *self) {
                        return uct_ep_am_short(((Request *)self)->ep, AM_ID, 0, NULL, 0);
                    };
                    EXPECT_OK(uct_ep_pending_add(ep.handle, &requests.back().uct, 0));
                }
            }
        }
        auto blocked_first = [&] {
            uct_glex_vc_t *vc = eps.front().vc();
            unsigned position = 0;
            uct_glex_ep_t *ep;

            ucs_list_for_each(ep, &vc->eps, list) {
                if ((ep->num_pending > 0) != (position++ < vc->num_blocked)) {
                    return false;
                }
            }
            return true;
        };
        EXPECT_GT(eps.front().vc()->num_blocked, 10u);
        progress_until("all requests", [&] {
            EXPECT_TRUE(blocked_first());
            return eps.front().vc()->num_blocked == 0;
        });
    });
}

} // namespace

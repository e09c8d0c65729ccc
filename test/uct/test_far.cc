/*
 * Peers on another host: here two processes of one host that reach each other by the network alone.
 */
#include "traffic.h"

#include <algorithm>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

namespace
{

const uint8_t AM_ID = 7;

void far_team(const std::function<void(Team &)> &body)
{
    network_team(2, {{"GLEX_FAULT", "far"}}, body);
}

enum { ASKED, LEFT, ANNOUNCED, SERVED }; /* flags of the team */

/* One of two processes, and its endpoint to the other */
struct Side {
    explicit Side(Team &with) : team(with)
    {
        open();
        team.publish(iface->address());
        team.barrier();
        peer = team.blob(1 - team.rank());
        ep.reset(new Ep(*iface, peer));
    }

    void barrier()
    {
        team.barrier([this] { iface->progress(); });
    }

    /* Until both have heard of each other, and nothing is on its way */
    void connect()
    {
        EXPECT_OK(ep->am_short(AM_ID, 0, NULL, 0));
        progress_until("the peer's message", [this] { return received > 0; });
        EXPECT_OK(ep->flush());
        barrier();
    }

    void open()
    {
        iface.reset(new Iface(md));
        iface->on_am(AM_ID, [this](const void *, size_t) { ++received; });
    }

    void leave()
    {
        ep.reset();
        iface.reset();
    }

    Team &team;
    Md md;
    std::unique_ptr<Iface> iface;
    std::unique_ptr<Ep> ep;
    std::string peer; /* its address */
    unsigned received = 0;
};

/* It is asked whether it lives when something was sent to it, not before: who checks all the peers
 * that it could talk to is not connected to all of them */
TEST(Far, CheckDoesNotConnect)
{
    far_team([](Team &team) {
        Side side(team);

        for (int i = 0; i < 1000; ++i) {
            EXPECT_OK(uct_ep_check(side.ep->handle, 0, NULL));
            side.iface->progress();
        }
        EXPECT_EQ(0u, side.iface->counters().net_peers);
        EXPECT_EQ(0u, side.iface->internals()->num_vcs);
        team.barrier();
        side.connect();
        EXPECT_OK(uct_ep_check(side.ep->handle, 0, NULL));
        EXPECT_OK(side.ep->flush());
        side.barrier();
        EXPECT_EQ(1u, side.iface->internals()->num_vcs);
    });
}

/* It leaves without having answered: no flush waits for that, or fails, but the check does */
TEST(Far, LeavesWhileItIsAsked)
{
    far_team([](Team &team) {
        Side side(team);

        side.connect();
        if (team.rank() == 1) {
            while (team.flag(ASKED) == 0) {
            }
            return;
        }
        EXPECT_OK(uct_ep_check(side.ep->handle, 0, NULL));
        progress_until("the CTL to be sent", [&] { return side.ep->vc()->ctl_inflight; });
        EXPECT_OK(uct_ep_flush(side.ep->handle, 0, NULL));
        team.flag(ASKED) = 1;
        progress_until("the error handler", [&] { return side.ep->failed(); });
    });
}

/* It is asked, once or until it is found gone, when it has left and we have made no call since. What
 * it sent before is handled before its connection fails. */
void ask_too_late(bool once)
{
    far_team([=](Team &team) {
        Side side(team);

        side.connect();
        if (team.rank() == 1) {
            EXPECT_OK(side.ep->am_short(AM_ID, 0, NULL, 0));
            side.leave();
            team.flag(LEFT) = 1;
            return;
        }
        while (team.flag(LEFT) == 0) {
        }
        waiting_for("a check to find it gone");
        do {
            EXPECT_OK(uct_ep_check(side.ep->handle, 0, NULL));
        } while (!once && !side.ep->vc()->peer_dead);
        progress_until("the error handler", [&] { return side.ep->failed(); });
        EXPECT_EQ(2u, side.received);
    });
}

TEST(Far, IsAskedTooLate)
{
    ask_too_late(true);
    ask_too_late(false);
}

/* It leaves when it has seen a put, which is flushed only then: the put arrived */
TEST(Far, LeavesBeforeTheFlush)
{
    far_team([](Team &team) {
        Side side(team);
        Memory memory(side.md, 4096, Memory::PRIVATE);

        memory.data[0] = 0;
        side.connect();
        team.publish(memory.describe());
        team.barrier();
        if (team.rank() == 1) {
            progress_until("the put", [&] { return *(volatile uint8_t *)memory.data != 0; });
            side.leave();
            return;
        }
        RemoteMemory remote(team.blob(1));
        uint8_t data[8] = {1};

        EXPECT_OK(side.ep->put_short(data, sizeof(data), remote.address, remote.rkey.rkey));
        progress_until("its leaving",
                       [&] { return side.ep->vc()->state == UCT_GLEX_VC_PEER_CLOSED; });
        EXPECT_TRUE(side.ep->vc()->dirty);
        EXPECT_OK(side.ep->flush());
        EXPECT_FALSE(side.ep->failed());
    });
}

/* The peer has closed its NIC when this side handles the peer's END. So the claim that answers the
 * END fails. The put arrived before, so the endpoint does not fail. */
TEST(Far, IsGoneBeforeTheClaim)
{
    far_team([](Team &team) {
        std::unique_ptr<Side> side(new Side(team));
        std::unique_ptr<Memory> memory(new Memory(side->md, 4096, Memory::PRIVATE));

        memory->data[0] = 0;
        side->connect();
        team.publish(memory->describe());
        team.barrier();
        if (team.rank() == 1) {
            progress_until("the put", [&] { return *(volatile uint8_t *)memory->data != 0; });
            memory.reset();
            side.reset();
            team.flag(LEFT) = 1;
            return;
        }
        RemoteMemory remote(team.blob(1));
        uint8_t data[8] = {1};

        EXPECT_OK(side->ep->put_short(data, sizeof(data), remote.address, remote.rkey.rkey));
        while (team.flag(LEFT) == 0) {
        }
        progress_until("its leaving",
                       [&] { return side->ep->vc()->state == UCT_GLEX_VC_PEER_CLOSED; });
        progress_until("the claim to be sent",
                       [&] { return ucs_list_is_empty(&side->iface->internals()->leases.debts); });
        EXPECT_OK(side->ep->flush());
        for (unsigned i = 0; i < 10000; ++i) {
            side->iface->progress();
        }
        EXPECT_FALSE(side->ep->failed());
    });
}

/* Puts to memory of the team's other process. Later reports of the NIC must not fail the endpoint. */
void put_without_failure(const Side &side, const RemoteMemory &remote)
{
    uint8_t data[8] = {1};

    EXPECT_OK(side.ep->put_short(data, sizeof(data), remote.address, remote.rkey.rkey));
    EXPECT_OK(side.ep->flush());
    for (unsigned i = 0; i < 10000; ++i) {
        side.iface->progress();
    }
    EXPECT_FALSE(side.ep->failed());
}

/* Sends an END for an earlier interface at the receiver's address. The claim word that the END names
 * is not registered any more. */
void send_old_end(const Side &side)
{
    uct_glex_end_msg_t msg = {};
    glex_imm_mp_req_t req = {};

    msg.hdr.word = uct_glex_hdr_type_am(UCT_GLEX_MP_END, 0);
    msg.hdr.vc_id = 1000;
    msg.end.version = UCT_GLEX_WIRE_VERSION;
    msg.end.flags = UCT_GLEX_END_WORD;
    msg.end.vc_id = 1001;
    msg.end.uuid = 1002;
    msg.end.src_uuid = 1003;
    msg.end.word_mh = 1004;
    req.rmt_ep_addr.v = ((uct_glex_ep_t *)side.ep->handle)->peer;
    req.data = &msg;
    req.len = sizeof(msg);
    EXPECT_EQ(GLEX_SUCCESS, glex_send_imm_mp(side.iface->internals()->nic, &req, NULL));
}

/* The peer refuses a claim that this side sends before the first connection of its interface. The
 * refused claim is no refused put, although a put of this side is on its way. */
TEST(Far, RefusesAClaimBeforeTheFirstPut)
{
    far_team([](Team &team) {
        Side side(team);
        Memory memory(side.md, 4096, Memory::PRIVATE);

        team.barrier();
        team.publish(memory.describe());
        team.barrier();
        if (team.rank() == 1) {
            send_old_end(side);
        } else {
            RemoteMemory remote(team.blob(1));

            progress_until("the claim", [&] { return side.iface->counters().imm_put_tx > 0; });
            EXPECT_EQ(0u, side.iface->internals()->num_vcs);
            put_without_failure(side, remote);
        }
        side.barrier();
    });
}

/* It makes another interface while we make no call, and tells us where by other ways: what we send
 * there arrives, though our NIC has not heard yet that the first connection has ended. So does what
 * the first interface sent last. */
void come_back(const std::function<void(Ep &)> &send)
{
    far_team([=](Team &team) {
        Side side(team);

        side.connect();
        if (team.rank() == 1) {
            EXPECT_OK(side.ep->am_short(AM_ID, 0, NULL, 0));
            side.leave();
            side.received = 0;
            side.open();
            team.publish(side.iface->address());
            team.barrier();
            progress_until("a message", [&] { return side.received > 0; });
            side.barrier();
            return;
        }
        team.barrier();
        Ep again(*side.iface, team.blob(1));

        send(again);
        EXPECT_OK(again.flush());
        side.barrier();
        EXPECT_FALSE(again.failed());
        progress_until("its last words", [&] { return side.received == 2; });
    });
}

TEST(Far, ComesBackWhileItsPeerSleeps)
{
    come_back([](Ep &ep) { EXPECT_OK(ep.am_short(AM_ID, 0, NULL, 0)); });
}

/* That our NIC's connection to the first one ends says nothing of the second */
TEST(Far, IsCheckedWhenItComesBack)
{
    come_back([](Ep &ep) {
        EXPECT_OK(ep.am_short(AM_ID, 0, NULL, 0));
        EXPECT_OK(uct_ep_check(ep.handle, 0, NULL));
    });
    come_back([](Ep &ep) { EXPECT_EQ(3, ep.am_bcopy(AM_ID, "new", 3, UCT_SEND_FLAG_PEER_CHECK)); });
}

/* Breaks all network connections of this process. Returns how many there were. */
unsigned break_connections()
{
    struct sockaddr_storage peer;
    unsigned count = 0;
    socklen_t length;

    for (int fd = 0; fd < 1024; ++fd) {
        length = sizeof(peer);
        if ((getpeername(fd, (struct sockaddr *)&peer, &length) == 0) &&
            ((peer.ss_family == AF_INET) || (peer.ss_family == AF_INET6))) {
            count += (shutdown(fd, SHUT_RDWR) == 0);
        }
    }
    return count;
}

/* The connection between the NICs breaks while nothing is on its way, and another one is made before
 * the transport looks. The VC belonged to the first one, and fails. A new VC carries messages. */
TEST(Far, ConnectionOfTheNicBreaksWhileIdle)
{
    far_team([](Team &team) {
        ErrorLog log;
        Side side(team);

        side.connect();
        if (team.rank() == 0) {
            uct_glex_iface_t *iface = side.iface->internals();
            glex_ep_addr_t peer = {.v = side.ep->vc()->peer};
            uint64_t first = 0, epoch = 0;

            EXPECT_EQ(GLEX_SUCCESS, glex_ext_peer_epoch(iface->nic, peer, &first));
            EXPECT_GT(break_connections(), 0u);
            waiting_for("another connection of the NIC");
            while ((glex_ext_peer_epoch(iface->nic, peer, &epoch) != GLEX_SUCCESS) ||
                   (epoch == first)) {
                (void)glex_ext_check_peer(iface->nic, peer, 0, first); /* looks at the connection */
            }
        }
        progress_until("the error handler", [&] { return side.ep->failed(); });
        side.barrier();
        side.received = 0;
        side.ep.reset(new Ep(*side.iface, side.peer));
        side.connect();
        EXPECT_FALSE(side.ep->failed());
    });
}

/* The key of memory that the peer has taken back; both are connected then */
std::string withdrawn(Side &side)
{
    std::string key;
    {
        Memory memory(side.md, 4096, Memory::PRIVATE);

        side.connect();
        side.team.publish(memory.describe());
        side.team.barrier();
        key = side.team.blob(1 - side.team.rank());
    }
    side.barrier();
    return key;
}

/* A put that the peer's NIC refuses: the flush after it says so, and does not end well before the
 * error is found */
void flush_after_refused_put(bool bcopy)
{
    far_team([=](Team &team) {
        Side side(team);
        RemoteMemory remote(withdrawn(side));

        if (team.rank() == 0) {
            ErrorLog log;
            uint8_t data[8] = {1};

            if (bcopy) {
                EXPECT_EQ((ssize_t)sizeof(data),
                          side.ep->put_bcopy(data, sizeof(data), remote.address, remote.rkey.rkey));
            } else {
                EXPECT_OK(side.ep->put_short(data, sizeof(data), remote.address, remote.rkey.rkey));
            }
            EXPECT_NE(UCS_OK, side.ep->flush());
            EXPECT_TRUE(side.ep->failed());
            EXPECT_NE(std::string::npos, log.text().find("was refused")) << log.text();
        }
        side.barrier();
    });
}

TEST(Far, FlushTellsOfARefusedPut)
{
    flush_after_refused_put(false);
    flush_after_refused_put(true);
}

/* The interface closes before it handles the refusal of its put. The next interface at the same
 * endpoint of the NIC puts to the same peer. */
TEST(Far, RefusedAPutOfAnEarlierInterface)
{
    far_team([](Team &team) {
        Side side(team);
        RemoteMemory gone(withdrawn(side));
        Memory memory(side.md, 4096, Memory::PRIVATE);

        team.publish(memory.describe());
        side.barrier();
        if (team.rank() == 0) {
            RemoteMemory remote(team.blob(1));
            uint8_t data[8] = {1};

            side.iface->internals()->until_errors = 1 << 30;
            EXPECT_OK(side.ep->put_short(data, sizeof(data), gone.address, gone.rkey.rkey));
            progress_until("the refusal", [&] { return side.iface->counters().error_req > 0; });
            side.leave();
            side.open();
            side.ep.reset(new Ep(*side.iface, side.peer));
            put_without_failure(side, remote);
        }
        side.barrier();
    });
}

/* A message of 1000 bytes, which are all the same */
size_t pack_rank(void *dest, void *arg)
{
    memset(dest, *(const unsigned *)arg, 1000);
    return 1000;
}

bool send_bcopy(const Ep &ep, const Memory &memory)
{
    unsigned rank = memory.data[0];

    return uct_ep_am_bcopy(ep.handle, AM_ID, pack_rank, &rank, 0) > 0;
}

bool send_zcopy(const Ep &ep, const Memory &memory)
{
    uct_iov_t iov = piece(memory.data, memory.length, memory.memh);

    return !UCS_STATUS_IS_ERR(uct_ep_am_zcopy(ep.handle, AM_ID, NULL, 0, &iov, 1, 0, NULL));
}

/* A peer announces all messages that its window allows, and then computes, so no message can be
 * fetched. Another peer is served meanwhile, from the buffers that are left. `variable` of the receiver
 * limits the buffers. */
void one_computes(const char *variable, const char *value, bool (*send)(const Ep &, const Memory &))
{
    const Env env = {{"GLEX_FAULT", "far"},
                     {"UCX_GLEX_CHANNELS", "sr"},
                     {"UCX_GLEX_SRQ_CAPACITY", "16"},
                     {"UCX_GLEX_SR_CREDIT_START", "64"}};

    network_team(3, env, [=](Team &team) {
        unsigned received[3] = {0, 0, 0}, sent = 0;
        Md md;
        Memory memory(md, 1000, Memory::PRIVATE);

        memset(memory.data, team.rank(), memory.length);
        if (team.rank() == 0) {
            setenv(variable, value, 1);
        }
        Iface iface(md);

        iface.on_am(AM_ID, [&](const void *from, size_t) { ++received[*(const uint8_t *)from]; });
        team.publish(iface.address());
        team.barrier();
        if (team.rank() == 0) {
            progress_until("the one that computes", [&] { return team.flag(ANNOUNCED) != 0; });
            progress_until("the other", [&] { return received[2] == 200; });
            EXPECT_LT(received[1], team.flag(ANNOUNCED));
            team.flag(SERVED) = 1;
            progress_until("all", [&] { return received[1] == team.flag(ANNOUNCED); });
            team.barrier([&] { iface.progress(); });
            return;
        }
        Ep ep(iface, team.blob(0));

        if (team.rank() == 1) {
            progress_until("a message", [&] { return send(ep, memory); });
            EXPECT_OK(ep.flush());
            for (sent = 1; send(ep, memory); ++sent) {
            }
            team.flag(ANNOUNCED) = sent;
            while (team.flag(SERVED) == 0) {
            }
        } else {
            while (team.flag(ANNOUNCED) == 0) {
            }
            progress_until("its messages", [&] {
                sent += send(ep, memory);
                return sent == 200;
            });
        }
        EXPECT_OK(ep.flush());
        team.barrier([&] { iface.progress(); });
    });
}

TEST(Far, OneThatComputesHoldsNobodyUp)
{
    one_computes("UCX_GLEX_SRQ_CAPACITY", "16", send_bcopy);
}

/* Without shares the one that computes would have all buffers */
TEST(Far, OneThatComputesLeavesReceiveBuffers)
{
    one_computes("UCX_GLEX_SRQ_CAPACITY", "2", send_bcopy);
}

TEST(Far, OneThatComputesLeavesZcopyBuffers)
{
    one_computes("UCX_GLEX_ZC_REQ_CAPACITY", "2", send_zcopy);
}

/* A get is on its way to the program's memory: a flush that cancels waits for it */
TEST(Far, CancelWaitsForMemory)
{
    far_team([](Team &team) {
        Side side(team);
        Memory memory(side.md, 1 << 20, Memory::PRIVATE);

        memset(memory.data, team.rank(), memory.length);
        side.connect();
        team.publish(memory.describe());
        side.barrier();
        if (team.rank() == 1) {
            while (team.flag(ASKED) == 0) { /* computes: nobody answers the get */
            }
        } else {
            RemoteMemory remote(team.blob(1));
            Ep ep(*side.iface, side.peer);
            Completion got, flushed;

            EXPECT_STATUS(UCS_INPROGRESS,
                          ep.get_zcopy({piece(memory.data, memory.length, memory.memh)},
                                       remote.address, remote.rkey.rkey, &got));
            EXPECT_STATUS(UCS_INPROGRESS,
                          uct_ep_flush(ep.handle, UCT_FLUSH_FLAG_CANCEL, &flushed.uct));
            for (unsigned i = 0; i < 1000; ++i) {
                side.iface->progress();
            }
            EXPECT_EQ(got.done + flushed.done, 0);
            team.flag(ASKED) = 1;
            flushed.wait();
            EXPECT_EQ(got.done, 1);
            EXPECT_STATUS(UCS_OK, got.uct.status);
            EXPECT_EQ(std::count(memory.data, memory.data + memory.length, 1),
                      ssize_t(memory.length));
        }
        side.barrier();
    });
}

/* A connection fails although its peer lives: a get, and flushes behind it, end when the program's
 * memory is not written to any more */
TEST(Far, FailureWaitsForMemory)
{
    far_team([](Team &team) {
        Side side(team);
        Memory memory(side.md, 1 << 20, Memory::PRIVATE);

        memset(memory.data, team.rank(), memory.length);
        side.connect();
        team.publish(memory.describe());
        side.barrier();
        if (team.rank() == 1) {
            while (team.flag(ASKED) == 0) { /* computes: nobody answers the get */
            }
        } else {
            RemoteMemory remote(team.blob(1));
            Completion got, flushed, cancelled;

            EXPECT_STATUS(UCS_INPROGRESS,
                          side.ep->get_zcopy({piece(memory.data, memory.length, memory.memh)},
                                             remote.address, remote.rkey.rkey, &got));
            EXPECT_STATUS(UCS_INPROGRESS, uct_ep_flush(side.ep->handle, 0, &flushed.uct));
            fail_at_once(side.ep->vc());
            progress_until("the error handler", [&] { return side.ep->failed(); });
            EXPECT_STATUS(UCS_INPROGRESS,
                          uct_ep_flush(side.ep->handle, UCT_FLUSH_FLAG_CANCEL, &cancelled.uct));
            for (unsigned i = 0; i < 1000; ++i) {
                side.iface->progress();
            }
            EXPECT_EQ(got.done + flushed.done + cancelled.done, 0);
            team.flag(ASKED) = 1;
            cancelled.wait();
            EXPECT_EQ(got.done + flushed.done, 2);
            EXPECT_STATUS(UCS_ERR_ENDPOINT_TIMEOUT, got.uct.status);
            EXPECT_STATUS(UCS_ERR_ENDPOINT_TIMEOUT, flushed.uct.status);
            EXPECT_EQ(std::count(memory.data, memory.data + memory.length, 1),
                      ssize_t(memory.length));
        }
        side.barrier();
    });
}

/* Puts that have ended are not to blame for one that is refused later */
TEST(Far, EarlierPutsAreNotBlamed)
{
    far_team([](Team &team) {
        Side side(team);
        RemoteMemory gone(withdrawn(side));
        Memory memory(side.md, 4096, Memory::PRIVATE);

        team.publish(memory.describe());
        side.barrier();
        if (team.rank() == 0) {
            RemoteMemory there(team.blob(1));
            Ep wrong(*side.iface, side.peer);
            ErrorLog log;

            EXPECT_OK(side.ep->put_short(memory.data, 8, there.address, there.rkey.rkey));
            EXPECT_OK(side.ep->flush());
            EXPECT_OK(wrong.put_short(memory.data, 8, gone.address, gone.rkey.rkey));
            progress_until("the error handler", [&] { return wrong.failed(); });
            EXPECT_FALSE(side.ep->failed());
            EXPECT_OK(side.ep->put_short(memory.data, 8, there.address, there.rkey.rkey));
            EXPECT_OK(side.ep->flush());
        }
        side.barrier();
    });
}

/* A neighbour's memory is registered, and its program has unmapped it: who puts there fails
 * alone, also where a network has requests end later */
TEST(Network, OthersOutliveUnmappedMemory)
{
    network_team(2, {}, [](Team &team) {
        Side side(team);
        Memory memory(side.md, 4096, Memory::PRIVATE);

        side.connect();
        team.publish(memory.describe());
        if (team.rank() == 1) {
            EXPECT_EQ(0, mprotect(memory.data, memory.length, PROT_NONE));
        }
        side.barrier();
        if (team.rank() == 0) {
            RemoteMemory remote(team.blob(1));
            Ep wrong(*side.iface, side.peer), too(*side.iface, side.peer);
            ErrorLog log;

            EXPECT_OK(wrong.put_short(memory.data, 8, remote.address, remote.rkey.rkey));
            progress_until("the error handler", [&] { return wrong.failed(); });
            EXPECT_EQ(100, too.put_bcopy(memory.data, 100, remote.address, remote.rkey.rkey));
            progress_until("the error handler", [&] { return too.failed(); });
            EXPECT_FALSE(side.ep->failed());
        }
        side.barrier();
        if (team.rank() == 1) {
            EXPECT_EQ(0, mprotect(memory.data, memory.length, PROT_READ | PROT_WRITE));
        }
    });
}

/* Who asks for memory that is registered no more fails alone, and learns of it by its completion */
TEST(Far, OthersOutliveARefusal)
{
    far_team([](Team &team) {
        Side side(team);
        Memory local(side.md, 4096, Memory::PRIVATE);
        RemoteMemory remote(withdrawn(side));

        if (team.rank() == 0) {
            const unsigned before = side.received;

            for (int which = 0; which < 3; ++which) {
                Ep ep(*side.iface, side.peer);
                Completion comp;
                ErrorLog log;

                if (which == 0) {
                    EXPECT_EQ(UCS_INPROGRESS,
                              ep.get_zcopy({piece(local.data, 4096, local.memh)}, remote.address,
                                           remote.rkey.rkey, &comp));
                    comp.wait();
                    EXPECT_STATUS(UCS_ERR_ENDPOINT_TIMEOUT, comp.uct.status);
                } else if (which == 1) {
                    EXPECT_EQ(100, ep.put_bcopy(local.data, 100, remote.address, remote.rkey.rkey));
                } else {
                    EXPECT_OK(ep.put_short(local.data, 8, remote.address, remote.rkey.rkey));
                }
                progress_until("the error handler", [&] { return ep.failed(); });
            }
            EXPECT_EQ(before, side.received);
        }
        side.barrier();
        EXPECT_OK(side.ep->am_short(AM_ID, 0, NULL, 0));
        progress_until("the peer's second message", [&] { return side.received == 2; });
        EXPECT_FALSE(side.ep->failed());
        side.barrier();
    });
}

/* ---- registrations that are longer than a NIC's handle allows ---- */

const size_t GIB = 1ul << 30, LONG_LENGTH = 100 * GIB; /* of which few pages are touched */

/* Where pieces of 10,000 bytes begin: around the windows of a registration */
const size_t long_places[] = {
    0,           2 * GIB - 5000, 2 * GIB + 5000, 3 * GIB - 10001,    3 * GIB - 1,
    4 * GIB - 1, 50 * GIB + 1,   98 * GIB - 1,   LONG_LENGTH - 10000};
const size_t LONG_PIECE = 10000;

void wait_for(ucs_status_t status, Completion *comp)
{
    if (status == UCS_INPROGRESS) {
        comp->wait();
        status = comp->uct.status;
    }
    EXPECT_OK(status);
}

/* Puts of all kinds to every place, from places of local memory that is as long */
void put_to_long(Ep &ep, const Memory &local, const RemoteMemory &remote)
{
    uint32_t n = 0;

    for (size_t place : long_places) {
        uint8_t *from = local.data + LONG_LENGTH - LONG_PIECE - place;
        Completion comp;

        fill(from, LONG_PIECE, 1, n);
        wait_for(ep.put_zcopy({piece(from, LONG_PIECE, local.memh)}, remote.address + place,
                              remote.rkey.rkey, &comp),
                 &comp);
        EXPECT_EQ(ep.put_bcopy(from, 5000, remote.address + place, remote.rkey.rkey), 5000);
        EXPECT_OK(ep.put_short(from, 32, remote.address + place, remote.rkey.rkey));
        ++n;
    }
    EXPECT_OK(ep.flush());
}

void get_from_long(Ep &ep, const Memory &local, const RemoteMemory &remote)
{
    uint32_t n = 0;

    for (size_t place : long_places) {
        uint8_t *to = local.data + LONG_LENGTH - LONG_PIECE - place;
        std::vector<uint8_t> bcopy(LONG_PIECE / 2);
        Completion zcopy_comp, bcopy_comp;

        memset(to, 0, LONG_PIECE);
        wait_for(ep.get_zcopy({piece(to, LONG_PIECE, local.memh)}, remote.address + place,
                              remote.rkey.rkey, &zcopy_comp),
                 &zcopy_comp);
        check(to, LONG_PIECE, 1, n);
        wait_for(ep.get_bcopy(bcopy.data(), bcopy.size(), remote.address + place, remote.rkey.rkey,
                              &bcopy_comp),
                 &bcopy_comp);
        EXPECT_EQ(memcmp(bcopy.data(), to, bcopy.size()), 0);
        ++n;
    }
}

void check_long(const uint8_t *data)
{
    uint32_t n = 0;

    for (size_t place : long_places) {
        check(data + place, LONG_PIECE, 1, n++);
    }
}

TEST(LongRegistration, UsedByBothSides)
{
    isolated({}, [] {
        Md md_a, md_b;

        if (!md_a.has(UCT_MD_FLAG_REG)) {
            return;
        }
        Iface a(md_a), b(md_b);
        Ep ep(a, b.address());
        Memory local(md_a, LONG_LENGTH, Memory::PRIVATE),
            target(md_b, LONG_LENGTH, Memory::PRIVATE);
        RemoteMemory remote(target.describe());

        put_to_long(ep, local, remote);
        check_long(target.data);
        get_from_long(ep, local, remote);
    });
}

TEST(LongRegistration, UsedBetweenHosts)
{
    far_team([](Team &team) {
        Side side(team);
        Memory memory(side.md, LONG_LENGTH, Memory::PRIVATE);

        side.connect();
        team.publish(memory.describe());
        side.barrier();
        if (team.rank() == 0) {
            RemoteMemory remote(team.blob(1));

            put_to_long(*side.ep, memory, remote);
            side.barrier();
            get_from_long(*side.ep, memory, remote);
        } else {
            side.barrier();
            check_long(memory.data);
        }
        side.barrier();
    });
}

} // namespace

/*
 * How connections end. Nothing that is done on one endpoint changes the connection of another one.
 * Each message that a sender's interface accepted is delivered, or the sender is told.
 */
#include "sanitizer.h"
#include "traffic.h"

#include <fstream>
#include <string.h>

namespace
{

const uint8_t AM_ID = 5;

/* ---- an endpoint that leads to an interface that is closed ---- */

/* `a` has an endpoint to an interface of `b` that is closed, and one to the interface that came
 * after it at the same endpoint of the NIC */
struct Stale {
    Stale() : a(md_a)
    {
        std::unique_ptr<Iface> first(new Iface(md_b));

        stale.reset(new Ep(a, first->address()));
        memory.reset(new Memory(md_b, 4096,
                                a.has(UCT_IFACE_FLAG_PUT_ZCOPY) ? Memory::PRIVATE : Memory::NIC));
        remote.reset(new RemoteMemory(memory->describe()));
        first.reset();
        b.reset(new Iface(md_b));
        b->on_am(AM_ID, [this](const void *, size_t) { ++at_b; });
        a.on_am(AM_ID, [this](const void *, size_t) { ++at_a; });
        good.reset(new Ep(a, b->address()));
        back.reset(new Ep(*b, a.address()));
    }

    /* Messages in both directions by the endpoints that lead to living interfaces */
    void exchange(unsigned count)
    {
        unsigned end_a = at_a + count, end_b = at_b + count;

        for (unsigned i = 0; i < count; ++i) {
            EXPECT_OK(good->am_short(AM_ID, i, NULL, 0));
            EXPECT_OK(back->am_short(AM_ID, i, NULL, 0));
        }
        progress_until("messages", [&] { return (at_a == end_a) && (at_b == end_b); });
    }

    void expect_good()
    {
        exchange(100);
        EXPECT_OK(good->flush());
        EXPECT_OK(back->flush());
        EXPECT_FALSE(good->failed() || back->failed());
    }

    Md md_a, md_b;
    Iface a;
    std::unique_ptr<Memory> memory;
    std::unique_ptr<RemoteMemory> remote;
    std::unique_ptr<Iface> b;
    std::unique_ptr<Ep> stale, good, back;
    unsigned at_a = 0, at_b = 0;
};

class Ending : public WithSetting
{
};

/* A message by the endpoint to the closed interface fails that endpoint alone, whether the
 * connection to the living one was there before or not */
TEST_P(Ending, StaleEndpointFailsAlone)
{
    for (bool is_known : {false, true}) {
        isolated(env(), [=] {
            ErrorLog log;
            Stale s;

            if (is_known) {
                s.exchange(100);
            }
            EXPECT_STATUS(UCS_ERR_NO_RESOURCE, uct_ep_am_short(s.stale->handle, AM_ID, 0, NULL, 0));
            progress_until("the error handler", [&] { return s.stale->failed(); });
            s.expect_good();
            EXPECT_TRUE(UCS_STATUS_IS_ERR(uct_ep_am_short(s.stale->handle, AM_ID, 0, NULL, 0)));
            s.expect_good();
        });
    }
}

/* A put by the endpoint to the closed interface goes to memory that is still registered. It begins
 * to connect, which fails that endpoint alone. */
TEST_P(Ending, PutByAStaleEndpoint)
{
    isolated(env(), [] {
        ErrorLog log;
        Stale s;
        uint64_t value = 1;

        s.exchange(10);
        EXPECT_OK(
            s.stale->put_short(&value, sizeof(value), s.remote->address, s.remote->rkey.rkey));
        progress_until("the error handler", [&] { return s.stale->failed(); });
        s.expect_good();
    });
}

/* The NIC knows that another interface is there now: no message is needed */
TEST_P(Ending, CheckOfAStaleEndpoint)
{
    isolated(env(), [] {
        Stale s;

        s.exchange(10);
        EXPECT_OK(uct_ep_check(s.good->handle, 0, NULL));
        EXPECT_OK(uct_ep_check(s.stale->handle, 0, NULL));
        progress_until("the error handler", [&] { return s.stale->failed(); });
        s.expect_good();
    });
}

/* ---- accepted messages ---- */

/* Sends messages of many lengths until one is refused. Returns how many were accepted. */
unsigned send_all(Ep &ep)
{
    static size_t length;
    unsigned count = 0;
    auto pack = [](void *dest, void *) { return (size_t)(memset(dest, 1, length), length); };

    for (length = 8;; length = 1 + (length * 5) % ucs_min(ep.iface.attr.cap.am.max_bcopy, 3001)) {
        if (uct_ep_am_bcopy(ep.handle, AM_ID, pack, NULL, 0) != (ssize_t)length) {
            return count;
        }
        ++count;
    }
}

/* `b` sends to `a`. The connection ends at `a`, by `end`, while messages are on their way. */
void lose(const Env &env,
          const std::function<void(std::unique_ptr<Iface> &, std::unique_ptr<Ep> &)> &end,
          bool is_orderly)
{
    isolated(env, [&] {
        ErrorLog log;
        Md md_a, md_b, md_c;
        std::unique_ptr<Iface> a(new Iface(md_a));
        Iface b(md_b), c(md_c);
        Ep ep(b, a->address()), other(b, c.address());
        std::unique_ptr<Ep> back(new Ep(*a, b.address()));
        unsigned delivered = 0, at_c = 0, accepted = 20;

        a->on_am(AM_ID, [&](const void *, size_t) { ++delivered; });
        b.on_am(AM_ID, [](const void *, size_t) {});
        c.on_am(AM_ID, [&](const void *, size_t) { ++at_c; });
        for (unsigned i = 0; i < accepted; ++i) {
            EXPECT_OK(ep.am_short(AM_ID, i, NULL, 0));
        }
        EXPECT_OK(back->am_short(AM_ID, 0, NULL, 0));
        EXPECT_OK(other.am_short(AM_ID, 0, NULL, 0));
        progress_until("the first messages", [&] { return (delivered == accepted) && at_c; });
        EXPECT_OK(ep.flush());

        while (accepted == 20) { /* a busy NIC refuses the first one now and then */
            accepted += send_all(ep);
        }
        end(a, back);
        back.reset();

        /* Messages are lost. The flush says so, and so does the error handler: at once where `a`
         * failed, else when the endpoint is used again. */
        if (!is_orderly) {
            progress_until("the error handler", [&] { return ep.failed(); });
        } else {
            for (int i = 0; i < 10000; ++i) {
                progress();
            }
        }
        EXPECT_TRUE((delivered < accepted) || !is_orderly);
        EXPECT_TRUE(UCS_STATUS_IS_ERR(ep.flush()));
        progress_until("the error handler", [&] { return ep.failed(); });
        EXPECT_OK(other.am_short(AM_ID, 0, NULL, 0));
        EXPECT_OK(other.flush());
        progress_until("the other connection", [&] { return at_c == 2; });
    });
}

/* `a` fails the connection alone, as after a protocol error or for want of memory */
TEST_P(Ending, ReceiverFailsAlone)
{
    lose(
        env(),
        [](std::unique_ptr<Iface> &a, std::unique_ptr<Ep> &back) {
            fail_at_once(back->vc());
            a->progress();
            EXPECT_TRUE(back->failed());
        },
        false);
}

/* `a` closes with messages unread */
TEST_P(Ending, ReceiverCloses)
{
    lose(
        env(),
        [](std::unique_ptr<Iface> &a, std::unique_ptr<Ep> &back) {
            back.reset();
            a.reset();
        },
        true);
}

/* All was delivered when the receiver closed: no error, also for a flush */
TEST_P(Ending, ReceiverClosesWhenAllIsDelivered)
{
    isolated(env(), [] {
        Md md_a, md_b;
        std::unique_ptr<Iface> a(new Iface(md_a));
        Iface b(md_b);
        Ep ep(b, a->address());
        unsigned delivered = 0, accepted = 0;

        a->on_am(AM_ID, [&](const void *, size_t) { ++delivered; });
        for (int i = 0; i < 20; ++i, ++accepted) {
            EXPECT_OK(ep.am_short(AM_ID, i, NULL, 0));
        }
        progress_until("the first messages", [&] { return delivered == accepted; });
        accepted += send_all(ep);
        progress_until("all messages", [&] { return delivered == accepted; });
        EXPECT_OK(ep.flush());
        a.reset();
        for (int i = 0; i < 10000; ++i) {
            b.progress();
        }
        EXPECT_OK(ep.flush());
        EXPECT_FALSE(ep.failed());
    });
}

/* ---- memory of interfaces that are closed ---- */

/* Mappings of this process, and its address space in kilobytes */
std::pair<unsigned, long> footprint()
{
    std::ifstream maps("/proc/self/maps"), status("/proc/self/status");
    std::pair<unsigned, long> result(0, 0);
    std::string line;

    while (std::getline(maps, line)) {
        ++result.first;
    }
    while (std::getline(status, line)) {
        if (line.compare(0, 7, "VmSize:") == 0) {
            result.second = atol(line.c_str() + 7);
        }
    }
    return result;
}

/* Interfaces come and go at one endpoint of the NIC. A peer borrows a FIFO of each, and has
 * messages of each to read. What one leaves behind is released while the next one is there. */
TEST_P(Ending, InterfacesComeAndGo)
{
    isolated(env(), [] {
        std::pair<unsigned, long> first, last;
        Md md_a, md_b;
        Iface a(md_a);

        a.on_am(AM_ID, [](const void *, size_t) {});
        for (int round = 0; round < 40; ++round) {
            {
                Iface b(md_b);
                unsigned received = 0;

                b.on_am(AM_ID, [&](const void *, size_t) { ++received; });
                Ep ep(a, b.address()), back(b, a.address());
                for (int i = 0; i < 100; ++i) {
                    EXPECT_OK(ep.am_short(AM_ID, i, NULL, 0));
                    EXPECT_OK(back.am_short(AM_ID, i, NULL, 0));
                }
                progress_until("the round's messages", [&] { return received == 100; });
                send_all(back);
            }
            for (int i = 0; i < 3000; ++i) {
                progress();
            }
            /* Mappings of peers come and go: compare the largest of both halves */
            std::pair<unsigned, long> now = footprint();
            std::pair<unsigned, long> &half = (round < 20) ? first : last;

            half.first = std::max(half.first, now.first);
            half.second = std::max(half.second, now.second);
        }
        if (!under_sanitizer()) { /* ASan keeps freed memory, and maps more */
            EXPECT_LE(last.first, first.first + 10);
            EXPECT_LE(last.second, first.second + 2048);
        }
    });
}

/* The ids of an interface go on with the next interface at the endpoint of the NIC, so late messages
 * for the earlier interface name nothing of the later one. */
TEST(EndingIds, GoOnWithTheNextInterface)
{
    isolated({}, [] {
        Md md_a, md_b;
        Iface a(md_a);
        uint32_t vc_gen = 0, op_gen = 0, er_gen = 0;

        a.on_am(AM_ID, [](const void *, size_t) {});
        for (int round = 0; round < 20; ++round) {
            Iface b(md_b);
            Ep back(b, a.address());
            const uct_glex_iface_t *in = b.internals();

            if (round > 0) {
                EXPECT_EQ(in->ops.next_gen, op_gen);
                EXPECT_EQ(in->er.next_gen, er_gen);
            }
            EXPECT_OK(back.am_short(AM_ID, round, NULL, 0)); /* makes the VC */
            uint32_t gen = in->vcs[0]->id >> UCT_GLEX_VC_INDEX_BITS;

            if (round > 0) {
                EXPECT_EQ(gen, 1 + vc_gen % UCT_GLEX_VC_GENS);
            }
            send_all(back);
            vc_gen = gen;
            op_gen = in->ops.next_gen;
            er_gen = in->er.next_gen;
        }
    });
}

/* Peers without mapped memory, as between hosts */
std::vector<Setting> unmapped_settings()
{
    std::vector<Setting> chosen;

    for (const Setting &setting : all_settings()) {
        const std::string name = setting.name;

        if ((name == "er_nomap") || (name == "sr_nomap")) {
            chosen.push_back(setting);
        }
    }
    return chosen;
}

FOR_CHANNELS(Ending);
INSTANTIATE_TEST_SUITE_P(Unmapped, Ending, testing::ValuesIn(unmapped_settings()), setting_name);

} // namespace

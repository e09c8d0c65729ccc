/*
 * Objects that come and go leave nothing behind: after many of each kind, this process has as many
 * mappings and descriptors, as much address space and as much shared memory as after the first few.
 */
#include "holdings.h"
#include "sanitizer.h"
#include "traffic.h"

#include <chrono>

namespace
{

const uint8_t AM_ID = 3;

bool is_within(const struct holdings &last, const struct holdings &first, unsigned count)
{
    bool addresses = last.maps <= first.maps + count / 10 && last.vm_kib <= first.vm_kib + 1024;

    return last.fds <= first.fds && last.shared_kib <= first.shared_kib + count * 4 / 10 &&
           (addresses || under_asan() /* ASan keeps freed memory mapped */);
}

/* Call `once` for a few objects (`before`), then for many. malloc() keeps some memory for itself: less than a
 * mapping, a descriptor or a page of shared memory for every tenth object. libglex unmaps the memory of gone
 * peers many at a time, so any look during the last quarter of the objects will do. `settle` makes progress, so
 * that memory is freed that the last objects do not need any more. */
void come_and_go(
    unsigned before, unsigned count, const std::function<void()> &once,
    const std::function<void()> &settle = [] {})
{
    struct holdings first, last;
    bool within = false;
    unsigned i;

    for (i = 0; i < before; ++i) {
        once();
    }
    settle();
    first = holdings_look();
    for (i = 0; i < count; ++i) {
        once();
        if (i >= count * 3 / 4) {
            last = holdings_look();
            within = within || is_within(last, first, count);
        }
    }
    for (i = 0; i < 50 && !within; ++i) {
        settle();
        last = holdings_look();
        within = is_within(last, first, count);
    }
    EXPECT_TRUE(within) << "mappings " << first.maps << " and " << last.maps << ", descriptors "
                        << first.fds << " and " << last.fds << ", KiB of shared memory "
                        << first.shared_kib << " and " << last.shared_kib << ", of addresses "
                        << first.vm_kib << " and " << last.vm_kib;
}

void progress_for_a_while()
{
    auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);

    while (std::chrono::steady_clock::now() < end) {
        progress();
    }
}

const unsigned COUNT = 200;

void put_once(Ep &ep, const Memory &memory)
{
    RemoteMemory remote(memory.describe());
    uint64_t value = 42;

    EXPECT_OK(ep.put_short(&value, sizeof(value), remote.address, remote.rkey.rkey));
    EXPECT_EQ(*(uint64_t *)memory.data, value);
}

TEST(Comings, Keys)
{
    isolated({}, [] {
        Md md_a, md_b;
        Iface a(md_a), b(md_b);
        Ep ep(a, b.address());
        Memory memory(md_b, 4096, Memory::NIC);

        come_and_go(COUNT / 4, COUNT, [&] { put_once(ep, memory); });
    });
}

TEST(Comings, Windows)
{
    isolated({}, [] {
        Md md_a, md_b;
        Iface a(md_a), b(md_b);
        Ep ep(a, b.address());

        come_and_go(COUNT / 4, COUNT, [&] {
            Memory memory(md_b, 1 << 20, Memory::NIC);

            put_once(ep, memory);
        });
    });
}

/* uct_rkey_ptr() of a key: a load by the pointer finds the memory */
TEST(Comings, PointersOfKeys)
{
    isolated({}, [] {
        Md md;

        come_and_go(COUNT / 4, COUNT, [&] {
            Memory memory(md, 1 << 20, Memory::NIC);
            RemoteMemory remote(memory.describe());
            void *ptr = NULL;

            memory.data[5] = 77;
            EXPECT_OK(uct_rkey_ptr(component(), &remote.rkey, remote.address, &ptr));
            EXPECT_EQ(((uint8_t *)ptr)[5], 77);
        });
    });
}

/* The pointer belongs to its key, whichever domains come and go */
TEST(Comings, PointerOutlivesOtherDomains)
{
    isolated({}, [] {
        std::unique_ptr<Md> first(new Md());
        Md md;
        Memory memory(md, 4096, Memory::NIC);
        RemoteMemory remote(memory.describe());
        void *ptr = NULL;

        memory.data[0] = 42;
        EXPECT_OK(uct_rkey_ptr(component(), &remote.rkey, remote.address, &ptr));
        first.reset();
        EXPECT_EQ(*(uint8_t *)ptr, 42);
    });
}

TEST(Comings, Endpoints)
{
    isolated({}, [] {
        Md md;
        Iface a(md), b(md);
        unsigned received = 0, sent = 0;

        b.on_am(AM_ID, [&](const void *, size_t) { ++received; });
        come_and_go(COUNT / 4, COUNT, [&] {
            Ep ep(a, b.address());

            EXPECT_OK(ep.am_short(AM_ID, 0, NULL, 0));
            ++sent;
            progress_until("the message", [&] { return received == sent; });
        });
    });
}

TEST(Comings, Contexts)
{
    isolated({}, [] { come_and_go(COUNT / 4, COUNT, [] { Md md; }); });
}

/* With this number of peers, an interface has begun to free the connections of peers that are gone */
const unsigned REUSE = 100;

TEST(Comings, Workers)
{
    isolated({}, [] {
        Md md;

        come_and_go(COUNT / 4, COUNT, [&] { Iface iface(md); }); /* an Iface has its own worker */
    });
}

/* All connections of the interface are over, and no peer can access memory for them any more */
bool has_no_peers(const Iface &iface)
{
    uct_glex_iface_t *internals = iface.internals();

    for (unsigned i = 0; i < internals->num_vcs; ++i) {
        if (!uct_glex_vc_is_over(internals->vcs[i]) || (internals->vcs[i]->num_ops > 0)) {
            return false;
        }
    }
    return ucs_list_is_empty(&internals->leases.list);
}

/* Messages in both directions, one of them longer than an MP, and a put */
class Exchange
{
  public:
    Exchange(Iface &a, Iface &b) : a_(a), b_(b)
    {
        a.on_am(AM_ID, [this](const void *, size_t) { ++received_; });
        b.on_am(AM_ID, [this](const void *, size_t) { ++received_; });
    }

    void run()
    {
        Ep to_b(a_, b_.address()), to_a(b_, a_.address());
        Memory memory(b_.md, 4096, Memory::NIC);
        std::vector<uint8_t> data(2000);

        for (Ep *ep : {&to_b, &to_a}) {
            EXPECT_OK(ep->am_short(AM_ID, 0, NULL, 0));
            EXPECT_EQ(ep->am_bcopy(AM_ID, data.data(), data.size()), (ssize_t)data.size());
        }
        progress_until("the messages", [this] { return received_ == 4; });
        put_once(to_b, memory);
        EXPECT_OK(to_b.flush());
        EXPECT_OK(to_a.flush());
    }

  private:
    Iface &a_, &b_;
    unsigned received_ = 0;
};

/* A peer comes in a domain of its own, and goes. This interface stays. */
TEST(Comings, Peers)
{
    isolated({}, [] {
        Md md;
        Iface iface(md);

        come_and_go(REUSE, REUSE, [&] {
            {
                Md peer_md;
                Iface peer(peer_md);

                Exchange(iface, peer).run();
            }
            progress_until("the end of the peer", [&] { return has_no_peers(iface); });
        });
    });
}

/* Interfaces come and go in one domain. Their peer stays. */
TEST(Comings, Interfaces)
{
    isolated({}, [] {
        Md md, peer_md;
        Iface peer(peer_md);

        come_and_go(REUSE, REUSE, [&] {
            {
                Iface iface(md);

                Exchange(iface, peer).run();
            }
            progress_until("the end of the interface", [&] { return has_no_peers(peer); });
        });
    });
}

/* Clients of another process connect to an interface that listens, send a message, and go */
TEST(Comings, Clients)
{
    enum { COMING, GONE }; /* flags: numbers of clients */

    team(2, {}, [](Team &team) {
        std::unique_ptr<Md> md(new Md());
        std::unique_ptr<Iface> listener(new Iface(*md));
        unsigned received = 0, count = 0, all = 2 * REUSE;

        listener->on_am(AM_ID, [&](const void *, size_t) { ++received; });
        team.publish(listener->address());
        team_barrier(team);
        if (team.rank() == 1) {
            listener.reset();
            md.reset();
            for (count = 1; count <= all; ++count) {
                progress_until("the turn", [&] { return team.flag(COMING) == count; });
                {
                    Md client_md;
                    Iface client(client_md);
                    Ep ep(client, team.blob(0));

                    EXPECT_OK(ep.am_short(AM_ID, 0, NULL, 0));
                    EXPECT_OK(ep.flush());
                }
                team.flag(GONE) = count;
            }
            return;
        }
        come_and_go(
            REUSE, REUSE,
            [&] {
                team.flag(COMING) = ++count;
                progress_until("the client", [&] {
                    return (received == count) && (team.flag(GONE) == count) &&
                           has_no_peers(*listener);
                });
            },
            progress_for_a_while);
        EXPECT_EQ(count, all);
    });
}

} // namespace

/*
 * Put and get: every operation, into and out of memory allocated from the NIC (which is mapped) and
 * private memory, at odd addresses, with nothing around touched.
 */
#include "traffic.h"

#include <algorithm>
#include <string.h>

namespace
{

const size_t REGION = 1 << 20;

/* Two interfaces of two memory domains: the first puts into and gets from memory of the second */
class Target
{
  public:
    explicit Target(Memory::Kind kind)
        : a(md_a), b(md_b), ep(a, b.address()), local(md_a, REGION, local_kind(md_a)),
          memory(md_b, REGION, kind), remote(memory.describe())
    {
        reset();
    }

    static Memory::Kind local_kind(const Md &md)
    {
        return md.has(UCT_MD_FLAG_REG) ? Memory::PRIVATE : Memory::NIC;
    }

    void reset()
    {
        memset(memory.data, 0xee, memory.length);
    }

    uint64_t address(size_t offset) const
    {
        return remote.address + offset;
    }

    uct_rkey_t rkey() const
    {
        return remote.rkey.rkey;
    }

    /* The range holds message n, and nothing beside it was touched */
    void expect(size_t offset, size_t length, uint32_t n)
    {
        check(memory.data + offset, length, 1, n);
        if (offset > 0) {
            EXPECT_EQ(memory.data[offset - 1], 0xee) << "written before the range";
        }
        EXPECT_EQ(memory.data[offset + length], 0xee) << "written behind the range";
        memset(memory.data + offset, 0xee, length);
    }

    void put_done()
    {
        EXPECT_OK(ep.flush());
    }

    Md md_a, md_b;
    Iface a, b;
    Ep ep;
    Memory local, memory;
    RemoteMemory remote;
};

/* In a child, for all kinds of memory that the NIC of `env` has */
void for_kinds(const Env &env, const std::function<void(Target &)> &body)
{
    isolated(env, [&] {
        Md probe;

        for (Memory::Kind kind : memory_kinds(probe)) {
            Target target(kind);

            body(target);
        }
    });
}

const size_t odd_offsets[] = {0, 1, 7, 63, 64, 4095};

class Rma : public WithSetting
{
};

/* Every length of an immediate put, and longer ones, which are carried out at once */
std::vector<size_t> short_lengths(size_t max)
{
    std::vector<size_t> lengths;

    for (size_t length = 0; length <= std::min<size_t>(max, 200); ++length) {
        lengths.push_back(length);
    }
    for (size_t length : {4096ul, 8193ul, 65536ul, (unsigned long)REGION - 5000}) {
        if (length <= max) {
            lengths.push_back(length);
        }
    }
    return lengths;
}

TEST_P(Rma, PutShort)
{
    for_kinds(env(), [](Target &t) {
        for (size_t length : short_lengths(t.a.attr.cap.put.max_short)) {
            for (size_t offset : odd_offsets) {
                std::vector<uint8_t> data(length);

                fill(data.data(), length, 1, length);
                EXPECT_OK(t.ep.put_short(data.data(), length, t.address(offset), t.rkey()));
                t.put_done();
                t.expect(offset, length, length);
            }
        }
    });
}

TEST_P(Rma, GetShort)
{
    for_kinds(env(), [](Target &t) {
        ASSERT_TRUE(t.a.has(UCT_IFACE_FLAG_GET_SHORT));
        for (size_t length : short_lengths(t.a.attr.cap.get.max_short)) {
            for (size_t offset : odd_offsets) {
                std::vector<uint8_t> data(length + 1, 0xaa);

                fill(t.memory.data + offset, length, 1, length);
                EXPECT_OK(t.ep.get_short(data.data(), length, t.address(offset), t.rkey()));
                check(data.data(), length, 1, length);
                EXPECT_EQ(data[length], 0xaa);
            }
        }
    });
}

TEST_P(Rma, PutBcopy)
{
    for_kinds(env(), [](Target &t) {
        const size_t max = t.a.attr.cap.put.max_bcopy;

        for (size_t length = 0; length <= max; length += (length < 200) ? 1 : 97) {
            for (size_t offset : odd_offsets) {
                std::vector<uint8_t> data(length);

                fill(data.data(), length, 1, length);
                EXPECT_EQ(t.ep.put_bcopy(data.data(), length, t.address(offset), t.rkey()),
                          (ssize_t)length);
                t.put_done();
                t.expect(offset, length, length);
            }
        }
        /* the largest one, up to the very end of the memory */
        std::vector<uint8_t> data(max);
        fill(data.data(), max, 1, 5);
        EXPECT_EQ(t.ep.put_bcopy(data.data(), max, t.address(t.memory.length - max), t.rkey()),
                  (ssize_t)max);
        t.put_done();
        check(t.memory.data + t.memory.length - max, max, 1, 5);
    });
}

TEST_P(Rma, GetBcopy)
{
    for_kinds(env(), [](Target &t) {
        const size_t max = t.a.attr.cap.get.max_bcopy;

        for (size_t length = 0; length <= max; length += (length < 200) ? 1 : 97) {
            for (size_t offset : odd_offsets) {
                std::vector<uint8_t> data(length + 1, 0xaa);
                Completion comp;

                fill(t.memory.data + offset, length, 1, length);
                ucs_status_t status =
                    t.ep.get_bcopy(data.data(), length, t.address(offset), t.rkey(), &comp);
                if (status == UCS_INPROGRESS) {
                    comp.wait();
                    EXPECT_OK(comp.uct.status);
                } else {
                    EXPECT_OK(status);
                }
                check(data.data(), length, 1, length);
                EXPECT_EQ(data[length], 0xaa);
            }
        }
    });
}

const size_t zcopy_lengths[] = {0, 1, 7, 64, 100, 4095, 4096, 8193, 65536, REGION - 5000};

TEST_P(Rma, PutZcopy)
{
    for_kinds(env(), [](Target &t) {
        if (!t.a.has(UCT_IFACE_FLAG_PUT_ZCOPY)) {
            return;
        }
        for (size_t length : zcopy_lengths) {
            for (size_t offset : odd_offsets) {
                Completion comp;

                fill(t.local.data + 3, length, 1, length);
                ucs_status_t status =
                    t.ep.put_zcopy({piece(t.local.data + 3, length, t.local.memh)},
                                   t.address(offset), t.rkey(), &comp);
                if (status == UCS_INPROGRESS) {
                    comp.wait();
                    EXPECT_OK(comp.uct.status);
                } else {
                    EXPECT_OK(status);
                }
                t.put_done();
                t.expect(offset, length, length);
            }
        }
    });
}

TEST_P(Rma, GetZcopy)
{
    for_kinds(env(), [](Target &t) {
        if (!t.a.has(UCT_IFACE_FLAG_GET_ZCOPY)) {
            return;
        }
        for (size_t length : zcopy_lengths) {
            for (size_t offset : odd_offsets) {
                Completion comp;

                fill(t.memory.data + offset, length, 1, length);
                memset(t.local.data, 0xee, t.local.length);
                ucs_status_t status =
                    t.ep.get_zcopy({piece(t.local.data + 3, length, t.local.memh)},
                                   t.address(offset), t.rkey(), &comp);
                if (status == UCS_INPROGRESS) {
                    comp.wait();
                    EXPECT_OK(comp.uct.status);
                } else {
                    EXPECT_OK(status);
                }
                check(t.local.data + 3, length, 1, length);
                EXPECT_EQ(t.local.data[2], 0xee);
                EXPECT_EQ(t.local.data[length + 3], 0xee);
            }
        }
    });
}

/* Within a process's own memory source and destination may overlap, in either direction */
TEST_P(Rma, PutZcopyOverlapping)
{
    isolated(env(), [] {
        Md md;
        Iface iface(md);
        std::vector<Memory::Kind> kinds = memory_kinds(md);

        if (!iface.has(UCT_IFACE_FLAG_PUT_ZCOPY) ||
            !std::count(kinds.begin(), kinds.end(), Memory::NIC)) {
            return;
        }
        Ep self(iface, iface.address());
        Memory memory(md, REGION, Memory::NIC);
        RemoteMemory key(memory.describe());

        for (size_t length : {5000ul, 900000ul}) {
            for (size_t from : {0ul, 100ul, 70000ul}) {
                for (size_t to : {0ul, 1ul, 100ul, 70001ul}) {
                    Completion comp;

                    fill(memory.data + from, length, 1, length);
                    ucs_status_t status =
                        self.put_zcopy({piece(memory.data + from, length, memory.memh)},
                                       key.address + to, key.rkey.rkey, &comp);
                    if (status == UCS_INPROGRESS) {
                        comp.wait();
                        EXPECT_OK(comp.uct.status);
                    } else {
                        EXPECT_OK(status);
                    }
                    check(memory.data + to, length, 1, length);
                }
            }
        }
    });
}

/* Many on their way at once, more than the requests that there are; one completion for all */
TEST_P(Rma, ManyOnTheirWay)
{
    for_kinds(env(), [](Target &t) {
        const unsigned count = 3000;
        const size_t length = 256;
        Completion comp(1);

        if (!t.a.has(UCT_IFACE_FLAG_PUT_ZCOPY)) {
            return;
        }
        for (unsigned i = 0; i < count; ++i) {
            size_t offset = i * (length + 1);

            fill(t.local.data + offset, length, 1, i);
            ++comp.uct.count;
            ucs_status_t status =
                t.ep.put_zcopy({piece(t.local.data + offset, length, t.local.memh)},
                               t.address(offset), t.rkey(), &comp);
            if (status == UCS_OK) {
                --comp.uct.count;
            } else {
                EXPECT_EQ(status, UCS_INPROGRESS);
            }
        }
        EXPECT_EQ(comp.done, 0);
        if (--comp.uct.count == 0) { /* our own share */
            comp.uct.func(&comp.uct);
        }
        comp.wait();
        EXPECT_EQ(comp.done, 1);
        for (unsigned i = 0; i < count; ++i) {
            check(t.memory.data + i * (length + 1), length, 1, i);
        }
    });
}

/* Outside of the registration: refused, and nothing is written */
TEST_P(Rma, OutOfRange)
{
    for_kinds(env(), [](Target &t) {
        std::vector<uint8_t> data(64, 0x55);
        size_t end = t.memory.length;
        Completion comp;

        for (uint64_t address : {t.address(end), t.address(end - 63), t.address(0) - 1, (uint64_t)0,
                                 UINT64_MAX - 10}) {
            ErrorLog log;

            EXPECT_NE(t.ep.put_short(data.data(), 64, address, t.rkey()), UCS_OK);
            EXPECT_NE(t.ep.get_short(data.data(), 64, address, t.rkey()), UCS_OK);
            EXPECT_LT(t.ep.put_bcopy(data.data(), 64, address, t.rkey()), 0);
            EXPECT_NE(t.ep.get_bcopy(data.data(), 64, address, t.rkey(), &comp), UCS_OK);
            if (t.a.has(UCT_IFACE_FLAG_PUT_ZCOPY)) {
                EXPECT_LT(t.ep.put_zcopy({piece(t.local.data, 64, t.local.memh)}, address, t.rkey(),
                                         &comp),
                          0);
                EXPECT_LT(t.ep.get_zcopy({piece(t.local.data, 64, t.local.memh)}, address, t.rkey(),
                                         &comp),
                          0);
            }
        }
        EXPECT_EQ(t.memory.data[0], 0xee);
        EXPECT_EQ(t.memory.data[end - 1], 0xee);
        EXPECT_EQ(comp.done, 0);
        /* and the endpoint is as good as before */
        EXPECT_OK(t.ep.put_short(data.data(), 64, t.address(end - 64), t.rkey()));
        t.put_done();
        EXPECT_EQ(t.memory.data[end - 1], 0x55);
    });
}

/* Memory that is registered no more is not written, and whoever tries learns of it. A cache keeps
 * registrations: see MdTest.InvalidatedMemoryIsNotWritten for that. */
TEST_P(Rma, AfterDeregistration)
{
    isolated(env(), [] {
        Md md_a, md_b;
        Iface a(md_a), b(md_b);
        Ep ep(a, b.address());
        Completion comp;

        if (!a.has(UCT_IFACE_FLAG_PUT_ZCOPY) || (md_b.internals()->rcache != NULL)) {
            return;
        }
        Memory local(md_a, 4096, Memory::PRIVATE);
        std::vector<uint8_t> target(4096, 0x11);
        std::vector<char> packed(md_b.attr.rkey_packed_size);
        uct_mem_h memh;
        uct_rkey_bundle_t rkey;

        EXPECT_OK(uct_md_mem_reg(md_b.handle, target.data(), target.size(), UCT_MD_MEM_ACCESS_ALL,
                                 &memh));
        EXPECT_OK(uct_md_mkey_pack(md_b.handle, memh, packed.data()));
        EXPECT_OK(uct_rkey_unpack(component(), packed.data(), &rkey));
        EXPECT_OK(uct_md_mem_dereg(md_b.handle, memh));
        {
            ErrorLog log;
            ucs_status_t status = ep.put_zcopy({piece(local.data, 4096, local.memh)},
                                               (uintptr_t)target.data(), rkey.rkey, &comp);
            if (status == UCS_INPROGRESS) {
                comp.wait();
                status = comp.uct.status;
            }
            EXPECT_NE(status, UCS_OK);
        }
        EXPECT_EQ(target[0], 0x11);
        EXPECT_EQ(target[4095], 0x11);
        uct_rkey_release(component(), &rkey);
    });
}

/* What is over at once tells at once, and the error handler hears of it, always. The same for a key
 * by which memory was mapped and written before. */
TEST_P(Rma, ShortAfterDeregistration)
{
    isolated(env(), [] {
        for (int which = 0; which < 8; ++which) {
            const bool put = which & 1, used = which & 2;
            const unsigned length = (which & 4) ? 8 : 1000;
            Md md_a, md_b;
            Iface a(md_a), b(md_b);
            Ep ep(a, b.address());
            std::vector<uint8_t> data(length, 0x22);
            std::vector<char> packed(md_b.attr.rkey_packed_size);
            Memory target(md_b, 4096, memory_kinds(md_b).front());
            uct_mem_h memh;
            uct_rkey_bundle_t rkey;

            memset(target.data, 0x11, 4096);
            EXPECT_OK(uct_md_mem_reg(md_b.handle, target.data, 4096, UCT_MD_MEM_ACCESS_ALL, &memh));
            EXPECT_OK(uct_md_mkey_pack(md_b.handle, memh, packed.data()));
            EXPECT_OK(uct_rkey_unpack(component(), packed.data(), &rkey));
            if (used) {
                std::vector<uint8_t> before(length, 0x33);

                EXPECT_OK(ep.put_short(before.data(), length, (uintptr_t)target.data, rkey.rkey));
                EXPECT_OK(ep.flush());
                EXPECT_EQ(target.data[0], 0x33);
                memset(target.data, 0x11, 4096);
            }
            EXPECT_OK(uct_md_mem_dereg(md_b.handle, memh));
            if (md_b.internals()->rcache == NULL) {
                ErrorLog log;
                uint64_t address = (uintptr_t)target.data;

                EXPECT_EQ(put ? ep.put_short(data.data(), length, address, rkey.rkey) :
                                ep.get_short(data.data(), length, address, rkey.rkey),
                          UCS_ERR_ENDPOINT_TIMEOUT);
                progress_until("the error handler", [&] { return !a.failed.empty(); });
                EXPECT_EQ(target.data[0], 0x11);
                EXPECT_EQ(data[0], 0x22);
            }
            uct_rkey_release(component(), &rkey);
        }
    });
}

/* Who asks for memory that is registered no more fails alone: another endpoint to the same peer, over
 * the same connection, goes on, and so does one that connects later. */
TEST_P(Rma, OthersOutliveARefusal)
{
    isolated(env(), [] {
        for (int which = 0; which < 6; ++which) {
            Md md_a, md_b;
            Iface a(md_a), b(md_b);
            Ep ep(a, b.address()), other(a, b.address());
            Memory local(md_a, 4096, Memory::PRIVATE), target(md_b, 4096, Memory::PRIVATE);
            std::vector<uct_iov_t> iov(1, piece(local.data, 4096, local.memh));
            RemoteMemory remote(target.describe());
            const uint64_t address = remote.address;
            const uct_rkey_t rkey = remote.rkey.rkey;
            Completion comp;
            ErrorLog log;
            const uint8_t AM_ID = 1;
            int received = 0;

            if (!a.has(UCT_IFACE_FLAG_PUT_ZCOPY) || !a.has(UCT_IFACE_FLAG_GET_SHORT)) {
                return; /* over a network the word of a refusal comes later: test_far.cc */
            }
            b.on_am(AM_ID, [&](const void *, size_t) { ++received; });
            EXPECT_OK(other.am_short(AM_ID, 0, NULL, 0));
            progress_until("a message", [&] { return received == 1; });
            ((uct_glex_rkey_t *)rkey)->packed.key ^= 1;
            switch (which) {
            case 0:
                ep.put_short(local.data, 8, address, rkey);
                break;
            case 1:
                ep.put_bcopy(local.data, 60, address, rkey);
                break;
            case 2:
                ep.put_zcopy(iov, address, rkey, &comp);
                break;
            case 3:
                ep.get_short(local.data, 8, address, rkey);
                break;
            case 4:
                ep.get_bcopy(local.data, 60, address, rkey, &comp);
                break;
            case 5:
                ep.get_zcopy(iov, address, rkey, &comp);
                break;
            }
            progress_until("the error handler", [&] { return ep.failed(); });
            EXPECT_STATUS(UCS_ERR_CANCELED, uct_ep_am_short(ep.handle, AM_ID, 0, NULL, 0));
            {
                Ep later(a, b.address());

                EXPECT_OK(other.am_short(AM_ID, 0, NULL, 0));
                EXPECT_OK(later.am_short(AM_ID, 0, NULL, 0));
                progress_until("messages", [&] { return received == 3; });
                EXPECT_OK(other.flush());
                EXPECT_FALSE(other.failed() || later.failed());
            }
            EXPECT_EQ(1u, a.failed.size());

            /* The connection fails later: who has failed before is not told again */
            fail_at_once(other.vc());
            progress_until("the other's error handler", [&] { return other.failed(); });
            EXPECT_EQ(2u, a.failed.size());
        }
    });
}

/* A request is refused, and its connection fails before that was told: each is told once */
TEST_P(Rma, RefusedAndGone)
{
    isolated(env(), [] {
        Md md_a, md_b;
        Iface a(md_a), b(md_b);
        Ep ep(a, b.address());
        Memory local(md_a, 4096, Memory::PRIVATE), target(md_b, 4096, Memory::PRIVATE);
        RemoteMemory remote(target.describe());
        Completion comp;
        ErrorLog log;

        if (!a.has(UCT_IFACE_FLAG_PUT_ZCOPY) || !a.has(UCT_IFACE_FLAG_GET_SHORT)) {
            return; /* as above */
        }
        ((uct_glex_rkey_t *)remote.rkey.rkey)->packed.key ^= 1;
        EXPECT_STATUS(UCS_INPROGRESS, ep.get_zcopy({piece(local.data, 4096, local.memh)},
                                                   remote.address, remote.rkey.rkey, &comp));
        fail_at_once(ep.vc());
        progress_until("the error handler", [&] { return ep.failed(); });
        for (int i = 0; i < 100; ++i) {
            a.progress();
        }
        EXPECT_EQ(1u, a.failed.size());
        EXPECT_EQ(1, comp.done);
        EXPECT_STATUS(UCS_ERR_ENDPOINT_TIMEOUT, comp.uct.status);
    });
}

/* Between processes: put, fence, put of a flag. Who sees the flag sees the data. */
TEST_P(Rma, FenceKeepsOrder)
{
    team(2, env(), [](Team &team) {
        const unsigned rounds = 300;
        const size_t flag_at = 8192;
        Md md;

        for (Memory::Kind kind : memory_kinds(md)) {
            Iface iface(md);
            Memory memory(md, 16384, kind);
            const size_t length = std::min<size_t>(4000, iface.attr.cap.put.max_bcopy);

            memset(memory.data, 0, memory.length);
            team.publish(iface.address() + memory.describe());
            team_barrier(team);
            std::string peer = team.blob(1 - team.rank());
            size_t address_size = iface.attr.device_addr_len + iface.attr.iface_addr_len;
            RemoteMemory remote(peer.substr(address_size));
            Ep ep(iface, peer.substr(0, address_size));

            for (uint32_t round = 1; round <= rounds; ++round) {
                volatile uint32_t *flag = (volatile uint32_t *)(memory.data + flag_at);
                std::vector<uint8_t> data(length);

                if (round % 2 == team.rank()) {
                    fill(data.data(), length, 9, round);
                    EXPECT_EQ(ep.put_bcopy(data.data(), length, remote.address, remote.rkey.rkey),
                              (ssize_t)length);
                    EXPECT_OK((round % 4 < 2) ? uct_ep_fence(ep.handle, 0) :
                                                uct_iface_fence(iface.handle, 0));
                    EXPECT_OK(ep.put_short(&round, sizeof(round), remote.address + flag_at,
                                           remote.rkey.rkey));
                } else {
                    progress_until("the flag", [&] { return *flag == round; });
                    check(memory.data, length, 9, round);
                }
            }
            EXPECT_OK(ep.flush());
            team_barrier(team);
        }
    });
}

INSTANTIATE_TEST_SUITE_P(
    Nic, Rma,
    testing::Values(Setting{"plain", {}}, Setting{"no_rcache", {{"UCX_GLEX_RCACHE", "n"}}},
                    Setting{"tiny",
                            {{"UCX_GLEX_RMA_BUF_SIZE", "64"}, {"UCX_GLEX_RMA_REQ_CAPACITY", "1"}}},
                    Setting{"nomap", {{"GLEX_FAULT", "nomap"}}},
                    Setting{"noprivate", {{"GLEX_FAULT", "noprivate"}}},
                    Setting{"busy", {{"GLEX_FAULT", "busy=0.3,seed=11"}}},
                    Setting{"nomap_busy", {{"GLEX_FAULT", "nomap,busy=0.3,seed=12"}}}),
    setting_name);

} // namespace

/*
 * The memory domain: attributes, registration with and without cache, invalidation, allocation,
 * keys, pointers to peers' memory.
 */
#include "traffic.h"

#include <set>
#include <string.h>
#include <sys/mman.h>

namespace
{

class MdTest : public WithSetting
{
};

TEST_P(MdTest, Attributes)
{
    isolated(env(), [] {
        Md md;

        EXPECT_STREQ(md.attr.component_name, "glex");
        EXPECT_TRUE(md.has(UCT_MD_FLAG_NEED_RKEY));
        EXPECT_EQ(md.has(UCT_MD_FLAG_NEED_MEMH), UCT_GLEX_NEED_MEMH);
        EXPECT_EQ(md.attr.rkey_packed_size, sizeof(uct_glex_packed_rkey_t));
        EXPECT_TRUE(md.attr.cap.access_mem_types & UCS_BIT(UCS_MEMORY_TYPE_HOST));
        if (md.has(UCT_MD_FLAG_REG)) {
            EXPECT_GT(md.attr.cap.max_reg, 1ul << 30);
            EXPECT_TRUE(md.attr.cap.reg_mem_types & UCS_BIT(UCS_MEMORY_TYPE_HOST));
        }
        if (md.has(UCT_MD_FLAG_ALLOC)) {
            EXPECT_GT(md.attr.cap.max_alloc, 1ul << 20);
        }
        EXPECT_FALSE(md.has(UCT_MD_FLAG_SOCKADDR));
    });
}

/* What is still on its way to an endpoint that has gone does not arrive at the next one */
TEST_P(MdTest, AddressIsNotUsedAgainAtOnce)
{
    isolated(env(), [] {
        std::set<uint64_t> addresses;

        for (unsigned i = 0; i < 8; ++i) {
            glex_ep_addr_t addr = {};
            Md md;

            ASSERT_EQ(glex_get_ep_addr(md.internals()->nic_home, &addr), GLEX_SUCCESS);
            addresses.insert(addr.v);
        }
        EXPECT_GT(addresses.size(), 4u);
    });
}

TEST_P(MdTest, RegisterManyLengths)
{
    isolated(env(), [] {
        Md md;

        if (!md.has(UCT_MD_FLAG_REG)) {
            return;
        }
        for (unsigned round = 0; round < 3; ++round) {
            std::list<std::unique_ptr<Memory>> live;

            for (size_t length : {1ul, 10ul, 4095ul, 4096ul, 4097ul, 1ul << 20, 16ul << 20}) {
                live.emplace_back(new Memory(md, length, Memory::PRIVATE));
                EXPECT_NE(live.back()->memh, nullptr);
            }
        }
        std::list<std::unique_ptr<Memory>> many;
        for (unsigned i = 0; i < 200; ++i) {
            many.emplace_back(new Memory(md, 100, Memory::PRIVATE));
        }
    });
}

/* A program with a thread and a worker for each of many cores: every interface of one domain sends
 * from one registration, which each of them needs at its own endpoint */
TEST(Md, ThousandInterfaces)
{
    isolated({{"UCX_GLEX_EP_MPQ_CAPACITY", "256"}, {"UCT_TEST_HANG_TIME", "300"}}, [] {
        const unsigned count = 1000;
        const size_t length = 1000;
        Md md;
        Iface target(md);
        Memory local(md, length, Memory::PRIVATE);
        std::list<Iface> ifaces;
        unsigned received = 0;

        target.on_am(1, [&](const void *data, size_t size) {
            EXPECT_EQ(size, length);
            check(data, length, 9, 0);
            ++received;
        });
        fill(local.data, length, 9, 0);
        for (unsigned i = 1; i <= count; ++i) {
            ifaces.emplace_back(md);
            Ep ep(ifaces.back(), target.address());
            Completion comp;
            uct_iov_t iov = piece(local.data, length, local.memh);
            ucs_status_t status = UCS_ERR_NO_RESOURCE;

            while ((received < i) || (comp.done == 0)) { /* these two alone, not all 1,001 */
                if (status == UCS_ERR_NO_RESOURCE) {
                    status = uct_ep_am_zcopy(ep.handle, 1, NULL, 0, &iov, 1, 0, &comp.uct);
                }
                ASSERT_TRUE((status == UCS_ERR_NO_RESOURCE) || (status == UCS_INPROGRESS));
                ifaces.back().progress();
                target.progress();
            }
        }
        EXPECT_EQ(received, count);
        while (!ifaces.empty()) {
            ifaces.pop_front();
            target.progress(); /* takes the goodbye, for which the next one would wait */
        }
    });
}

/* The same memory twice is two registrations, each of its own life */
TEST_P(MdTest, RegisterTwice)
{
    isolated(env(), [] {
        Md md;
        std::vector<uint8_t> data(10000);
        uct_mem_h first, second;

        if (!md.has(UCT_MD_FLAG_REG)) {
            return;
        }
        EXPECT_OK(
            uct_md_mem_reg(md.handle, data.data(), data.size(), UCT_MD_MEM_ACCESS_ALL, &first));
        EXPECT_OK(
            uct_md_mem_reg(md.handle, data.data(), data.size(), UCT_MD_MEM_ACCESS_ALL, &second));
        EXPECT_OK(uct_md_mem_dereg(md.handle, first));
        {
            std::vector<char> packed(md.attr.rkey_packed_size);

            EXPECT_OK(uct_md_mkey_pack(md.handle, second, packed.data()));
        }
        EXPECT_OK(uct_md_mem_dereg(md.handle, second));
    });
}

/* Memory that was unmapped and mapped anew at the same address: the cache must have noticed */
TEST_P(MdTest, RemappedMemory)
{
    isolated(env(), [] {
        Md md_a, md_b;
        const size_t length = 65536;

        if (!md_a.has(UCT_MD_FLAG_REG)) {
            return;
        }
        Iface a(md_a), b(md_b);
        Ep ep(a, b.address());
        Memory local(md_a, length, Memory::PRIVATE);
        void *address = NULL;

        for (uint32_t round = 0; round < 20; ++round) {
            void *target = mmap(address, length, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | (address ? MAP_FIXED : 0), -1, 0);
            std::vector<char> packed(md_b.attr.rkey_packed_size);
            uct_rkey_bundle_t rkey;
            Completion comp;
            uct_mem_h memh;

            ASSERT_NE(target, MAP_FAILED);
            address = target;
            EXPECT_OK(uct_md_mem_reg(md_b.handle, target, length, UCT_MD_MEM_ACCESS_ALL, &memh));
            EXPECT_OK(uct_md_mkey_pack(md_b.handle, memh, packed.data()));
            EXPECT_OK(uct_rkey_unpack(component(), packed.data(), &rkey));
            fill(local.data, length, 4, round);
            ucs_status_t status = ep.put_zcopy({piece(local.data, length, local.memh)},
                                               (uintptr_t)target, rkey.rkey, &comp);
            if (status == UCS_INPROGRESS) {
                comp.wait();
                status = comp.uct.status;
            }
            EXPECT_OK(status);
            EXPECT_OK(ep.flush());
            check(target, length, 4, round);
            uct_rkey_release(component(), &rkey);
            EXPECT_OK(uct_md_mem_dereg(md_b.handle, memh));
            munmap(target, length);
        }
    });
}

TEST_P(MdTest, AllocateManyLengths)
{
    isolated(env(), [] {
        Md md;

        if (!md.has(UCT_MD_FLAG_ALLOC)) {
            return;
        }
        for (unsigned round = 0; round < 3; ++round) {
            std::list<std::unique_ptr<Memory>> live;

            for (size_t length : {1ul, 4096ul, 4097ul, 1ul << 20, 8ul << 20}) {
                live.emplace_back(new Memory(md, length, Memory::NIC));
                Memory &memory = *live.back();

                EXPECT_GE(memory.length, length);
                EXPECT_EQ(memory.data[0], 0);
                memset(memory.data, 0xff, memory.length);
            }
        }
    });
}

/* What does not fit is refused with an error, not with a crash at the first access */
TEST_P(MdTest, AllocateTooMuch)
{
    isolated(env(), [] {
        Md md;
        uct_alloc_method_t method = UCT_ALLOC_METHOD_MD;
        uct_mem_alloc_params_t params;
        uct_allocated_memory_t mem;
        ErrorLog log;

        if (!md.has(UCT_MD_FLAG_ALLOC)) {
            return;
        }
        params.field_mask = UCT_MEM_ALLOC_PARAM_FIELD_FLAGS | UCT_MEM_ALLOC_PARAM_FIELD_MEM_TYPE |
                            UCT_MEM_ALLOC_PARAM_FIELD_MDS;
        params.flags = UCT_MD_MEM_ACCESS_ALL;
        params.mem_type = UCS_MEMORY_TYPE_HOST;
        params.mds.mds = &md.handle;
        params.mds.count = 1;
        EXPECT_NE(uct_mem_alloc(1ul << 45, &method, 1, &params, &mem), UCS_OK);
    });
}

static void invalidate(Md &md, uct_mem_h memh, Completion &comp)
{
    uct_md_mem_dereg_params_t params;

    params.field_mask = UCT_MD_MEM_DEREG_FIELD_FLAGS | UCT_MD_MEM_DEREG_FIELD_MEMH |
                        UCT_MD_MEM_DEREG_FIELD_COMPLETION;
    params.flags = UCT_MD_MEM_DEREG_FLAG_INVALIDATE;
    params.memh = memh;
    params.comp = &comp.uct;
    EXPECT_OK(uct_md_mem_dereg_v2(md.handle, &params));
    EXPECT_EQ(comp.done, 1);
}

TEST_P(MdTest, InvalidateTells)
{
    isolated(env(), [] {
        Md md;

        if (!md.has(UCT_MD_FLAG_INVALIDATE)) {
            return;
        }
        for (unsigned i = 0; i < 10; ++i) {
            std::vector<uint8_t> data(8192);
            Completion comp;
            uct_mem_h memh;

            EXPECT_OK(
                uct_md_mem_reg(md.handle, data.data(), data.size(), UCT_MD_MEM_ACCESS_ALL, &memh));
            invalidate(md, memh, comp);
            EXPECT_EQ(comp.uct.status, UCS_OK);
        }
    });
}

static ucs_status_t put_one(Ep &ep, Memory &local, void *target, uct_rkey_t rkey)
{
    Completion comp;
    ucs_status_t status =
        ep.put_zcopy({piece(local.data, 4096, local.memh)}, (uintptr_t)target, rkey, &comp);

    if (status == UCS_INPROGRESS) {
        comp.wait();
        status = comp.uct.status;
    }
    return status;
}

/* After it was invalidated a peer's put is refused, also where the registration is in a cache, and
 * where the peer has mapped the memory and written to it before */
static void invalidated_is_not_written(Memory::Kind kind)
{
    Md md_a, md_b;

    if (!md_b.has(UCT_MD_FLAG_INVALIDATE)) {
        return;
    }
    Iface a(md_a), b(md_b);
    Ep ep(a, b.address());
    Memory local(md_a, 4096, Memory::PRIVATE), target(md_b, 4096, kind);
    std::vector<char> packed(md_b.attr.rkey_packed_size);
    uct_rkey_bundle_t rkey;
    Completion comp;
    uct_mem_h memh;

    EXPECT_OK(uct_md_mem_reg(md_b.handle, target.data, 4096, UCT_MD_MEM_ACCESS_ALL, &memh));
    EXPECT_OK(uct_md_mkey_pack(md_b.handle, memh, packed.data()));
    EXPECT_OK(uct_rkey_unpack(component(), packed.data(), &rkey));
    memset(local.data, 0x11, 4096);
    EXPECT_OK(put_one(ep, local, target.data, rkey.rkey));
    EXPECT_EQ(target.data[4095], 0x11);
    memset(target.data, 0x22, 4096);

    invalidate(md_b, memh, comp);
    {
        ErrorLog log;

        EXPECT_NE(put_one(ep, local, target.data, rkey.rkey), UCS_OK);
    }
    EXPECT_EQ(target.data[0], 0x22);
    uct_rkey_release(component(), &rkey);
}

TEST_P(MdTest, InvalidatedMemoryIsNotWritten)
{
    isolated(env(), [] {
        Md md;

        for (Memory::Kind kind : memory_kinds(md)) {
            invalidated_is_not_written(kind);
        }
    });
}

TEST_P(MdTest, PointerToPeersMemory)
{
    team(2, env(), [](Team &team) {
        Md md;

        if (!md.has(UCT_MD_FLAG_ALLOC)) {
            return;
        }
        Memory memory(md, 10000, Memory::NIC);
        memset(memory.data, 0, memory.length);
        team.publish(memory.describe());
        team.barrier();
        {
            RemoteMemory remote(team.blob(1 - team.rank()));
            void *ptr;

            EXPECT_OK(uct_rkey_ptr(component(), &remote.rkey, remote.address + 100, &ptr));
            fill(ptr, 5000, 8, team.rank());
            EXPECT_STATUS(UCS_ERR_INVALID_ADDR, uct_rkey_ptr(component(), &remote.rkey,
                                                             remote.address + remote.length, &ptr));
            EXPECT_STATUS(UCS_ERR_INVALID_ADDR,
                          uct_rkey_ptr(component(), &remote.rkey, remote.address - 1, &ptr));
            team.barrier();
        }
        check(memory.data + 100, 5000, 8, 1 - team.rank());
    });
}

TEST_P(MdTest, NoPointerToPrivateMemory)
{
    team(2, env(), [](Team &team) {
        Md md;

        if (md.has(UCT_MD_FLAG_REG)) {
            Memory memory(md, 10000, Memory::PRIVATE);

            team.publish(memory.describe());
            team.barrier();
            RemoteMemory remote(team.blob(1 - team.rank()));
            void *ptr;

            EXPECT_STATUS(UCS_ERR_UNREACHABLE,
                          uct_rkey_ptr(component(), &remote.rkey, remote.address, &ptr));
            team.barrier();
        }
    });
}

/* Open and close many times: nothing is used up */
TEST_P(MdTest, OpenAndCloseAgain)
{
    isolated(env(), [] {
        for (unsigned i = 0; i < 50; ++i) {
            Md first, second;
            Iface a(first), b(second), c(second);
        }
    });
}

INSTANTIATE_TEST_SUITE_P(Nic, MdTest,
                         testing::Values(Setting{"plain", {}},
                                         Setting{"rcache", {{"UCX_GLEX_RCACHE", "try"}}},
                                         Setting{"no_rcache", {{"UCX_GLEX_RCACHE", "n"}}},
                                         Setting{"nomap", {{"GLEX_FAULT", "nomap"}}},
                                         Setting{"noprivate", {{"GLEX_FAULT", "noprivate"}}}),
                         setting_name);

/* Each NIC has a memory domain and a device, and reaches the others */
TEST(MdTest, OneForEachNic)
{
    isolated({{"GLEX_NUM_NICS", "2"}}, [] {
        uct_component_attr_t attr = {};
        uct_md_resource_desc_t resources[2];
        unsigned received = 0;

        attr.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT;
        EXPECT_OK(uct_component_query(component(), &attr));
        ASSERT_EQ(attr.md_resource_count, 2u);
        attr.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES;
        attr.md_resources = resources;
        EXPECT_OK(uct_component_query(component(), &attr));
        EXPECT_STREQ(resources[0].md_name, "glex/gni0");
        EXPECT_STREQ(resources[1].md_name, "glex/gni1");

        Md first(0), second(1);
        Iface a(first), b(second);
        uct_tl_resource_desc_t *devices;
        unsigned num_devices;

        EXPECT_OK(uct_md_query_tl_resources(second.handle, &devices, &num_devices));
        ASSERT_EQ(num_devices, 1u);
        EXPECT_STREQ(devices[0].dev_name, "gni1");
        uct_release_tl_resource_list(devices);

        Ep across(a, b.address()), within(b, b.address());
        b.on_am(1, [&](const void *, size_t) { ++received; });
        EXPECT_OK(across.am_short(1, 0, NULL, 0));
        EXPECT_OK(within.am_short(1, 0, NULL, 0));
        progress_until("both messages", [&] { return received == 2; });
    });
}

TEST(MdTest, NoSuchName)
{
    isolated({}, [] {
        for (const char *name : {"gni0", "glex/gni", "glex/gni00", "glex/gni0x", "glex/gni7"}) {
            uct_md_config_t *config;
            ErrorLog log;
            uct_md_h md;

            EXPECT_OK(uct_md_config_read(component(), NULL, NULL, &config));
            EXPECT_TRUE(UCS_STATUS_IS_ERR(uct_md_open(component(), name, config, &md))) << name;
            EXPECT_NE(log.text(), "") << name;
            uct_config_release(config);
        }
    });
}

} // namespace

/* Every status of an error request that this NIC gives, and the texts. */
#include "internals.h"
#include "nic.h"
#include "process.h"

#include <signal.h>
#include <sys/mman.h>

class status : public testing::Test
{
  protected:
    Device dev;
    Ep a{dev}, b{dev};
    char *local = a.alloc(4096), *remote = b.alloc(4096);
    glex_mem_handle_t lmh = a.reg(local, 4096), rmh = b.reg(remote, 4096);

    /* The status of a message, an immediate put, a put and a get to a target. */
    void expect_all(int expected, Target to, uint32_t key = TEST_KEY, bool with_mp = true)
    {
        glex_imm_rdma_req_t imm = imm_put(to, local, 8);

        if (with_mp) {
            glex_ep_addr_t addr = {.v = to.addr};
            a.send_number(addr, 1);
            EXPECT_EQ(expected, a.only_error());
        }
        imm.rmt_key = key;
        ASSERT_OK(glex_imm_rdma(a, &imm, nullptr));
        EXPECT_EQ(expected, a.only_error());
        for (glex_rdma_type type : {GLEX_RDMA_TYPE_PUT, GLEX_RDMA_TYPE_GET}) {
            glex_rdma_req_t req = rdma(type, to, lmh, 8);

            req.rmt_key = key;
            ASSERT_OK(glex_rdma(a, &req, nullptr));
            std::vector<glex_err_req> errors = a.errors();
            ASSERT_EQ(1u, errors.size());
            EXPECT_EQ(expected, static_cast<int>(errors[0].status));
            EXPECT_EQ(type == GLEX_RDMA_TYPE_PUT ? GLEX_ERR_OP_RDMA_PUT : GLEX_ERR_OP_RDMA_GET,
                      errors[0].op);
            EXPECT_EQ(to.mh, errors[0].data0);
            EXPECT_EQ(8u, errors[0].data1);
            EXPECT_EQ(0u, errors[0].data2);
        }
    }
};

TEST_F(status, no_such_nic)
{
    Target to = b.target(rmh);

    to.addr ^= 0x5550000000000000;
    expect_all(GLEX_ERR_STATUS_DEST_HOST_DEAD, to);
    EXPECT_EQ(4u, a.counters().error_req);
}

TEST_F(status, no_such_endpoint)
{
    Target to = b.target(rmh);

    to.addr ^= 0x100;
    expect_all(GLEX_ERR_STATUS_DEST_VP_STOP, to);
}

TEST_F(status, destroyed_endpoint)
{
    Target to = b.target(rmh);

    a.send_number(b.addr(), 1); /* attached */
    b.destroy();
    expect_all(GLEX_ERR_STATUS_DEST_VP_STOP, to);
}

/* Attached, destroyed and made again with the same number: requests reach the new one. */
TEST_F(status, replaced_endpoint)
{
    uint32_t num = b.addr().ep_num;

    a.send_number(b.addr(), 1);
    b.destroy();
    Ep c(dev, ep_attr(num));
    a.send_number(c.addr(), 2);
    EXPECT_EQ(2, c.receive_number(0));
    expect_all(GLEX_ERR_STATUS_MMT, c.target(rmh), TEST_KEY, false);
    EXPECT_TRUE(a.errors().empty());
}

TEST_F(status, wrong_key)
{
    glex_imm_rdma_req_t imm = imm_put(b.target(rmh), "right", 6);

    for (int i = 0; i < 2; i++) { /* the second time with all else known to be right */
        expect_all(GLEX_ERR_STATUS_MMT, b.target(rmh), TEST_KEY + 1, false);
        EXPECT_EQ(std::string(4096, '\0'), std::string(remote, 4096));
        ASSERT_OK(glex_imm_rdma(a, &imm, nullptr));
        EXPECT_TRUE(a.errors().empty());
        EXPECT_STREQ("right", remote);
        memset(remote, 0, 6);
    }
}

TEST_F(status, no_such_registration)
{
    Target to = b.target(rmh);

    to.mh += 1;
    expect_all(GLEX_ERR_STATUS_MMT, to, TEST_KEY, false);
    to.mh = 0xffff; /* beyond the table's storage */
    expect_all(GLEX_ERR_STATUS_MMT, to, TEST_KEY, false);
    to.mh = b.target(rmh).mh ^ uint64_t(1) << 32;
    expect_all(GLEX_ERR_STATUS_MMT, to, TEST_KEY, false);
}

TEST_F(status, bad_local_side)
{
    struct {
        uint64_t mh;
        uint32_t offset, len;
    } cases[] = {{lmh.v + 1, 0, 8}, {lmh.v, 4089, 8}, {lmh.v, UINT32_MAX, 8}, {lmh.v, 0, 4097}};

    for (auto &c : cases) {
        glex_mem_handle_t mh = {.v = c.mh};
        glex_rdma_req_t req = rdma(GLEX_RDMA_TYPE_GET, b.target(rmh), mh, c.len, 0, c.offset);

        ASSERT_OK(glex_rdma(a, &req, nullptr));
        EXPECT_EQ(GLEX_ERR_STATUS_FORMAT, a.only_error());
    }
}

/* The kernel chooses higher addresses for mappings without a wish: a later allocation of the test or
 * of a sanitizer does not take the addresses that are unmapped here. */
TEST_F(status, memory_that_is_not_there_any_more)
{
    const uint32_t page = sysconf(_SC_PAGESIZE);
    void *const low = reinterpret_cast<void *>(0x20000000);
    char *gone = static_cast<char *>(
        mmap(low, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    glex_mem_handle_t mh = b.reg(gone, 2 * page);

    EXPECT_EQ(0, munmap(gone + page, page));
    glex_rdma_req_t req = rdma(GLEX_RDMA_TYPE_PUT, b.target(mh), lmh, 4096, page - 2048);
    req.flag = GLEX_FLAG_REMOTE_EVT;
    req.rmt_evt.cookie_1 = 1;
    ASSERT_OK(glex_rdma(a, &req, nullptr));
    EXPECT_EQ(GLEX_ERR_STATUS_PCIE_READ, a.only_error());
    EXPECT_EQ(-1, b.receive_event(0));
    EXPECT_EQ(0, munmap(gone, page));
    expect_all(GLEX_ERR_STATUS_PCIE_READ, b.target(mh), TEST_KEY, false);
}

TEST_F(status, memory_that_must_not_be_written)
{
    const size_t page = sysconf(_SC_PAGESIZE);
    char *ro =
        static_cast<char *>(mmap(nullptr, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    glex_rdma_req_t req = rdma(GLEX_RDMA_TYPE_PUT, b.target(b.reg(ro, 4096)), lmh, 8);

    ASSERT_OK(glex_rdma(a, &req, nullptr));
    EXPECT_EQ(GLEX_ERR_STATUS_PCIE_READ, a.only_error());
    munmap(ro, page);
}

/* ---- a peer that dies ------------------------------------------------------------------------ */

CHILD(status_victim)
{
    static char priv[4096];
    Device dev;
    Ep ep(dev, ep_attr(GLEX_ANY_EP_NUM, 4));

    send_up(ep.target(ep.reg(ep.alloc(4096), 4096)));
    send_up(ep.target(ep.reg(priv, 4096)));
    receive_down<int>();
    return 0;
}

TEST_F(status, killed_before_the_first_request)
{
    Process victim("status_victim");
    Target to = victim.receive<Target>();

    victim.kill_now();
    expect_all(GLEX_ERR_STATUS_DEST_VP_STOP, to);
    EXPECT_EQ(GLEX_NO_EP_RESOURCE, glex_ext_check_peer(a, {.v = to.addr}, 0, 0));
}

/* Nobody tells us that it died: its full queue does, and its private memory. */
TEST_F(status, killed_later)
{
    Process victim("status_victim");
    Target mapped = victim.receive<Target>(), priv = victim.receive<Target>();
    glex_rdma_req_t req = rdma(GLEX_RDMA_TYPE_PUT, priv, lmh, 8);
    glex_ep_addr_t addr = {.v = mapped.addr};

    ASSERT_OK(glex_rdma(a, &req, nullptr));
    EXPECT_OK(glex_ext_check_peer(a, addr, 0, 0));
    EXPECT_TRUE(a.errors().empty());
    victim.kill_now();
    ASSERT_OK(glex_rdma(a, &req, nullptr));
    EXPECT_EQ(GLEX_ERR_STATUS_DEST_VP_STOP, a.only_error());
    expect_all(GLEX_ERR_STATUS_DEST_VP_STOP, mapped);
}

TEST_F(status, killed_with_a_full_queue)
{
    Process victim("status_victim");
    glex_ep_addr_t addr = {.v = victim.receive<Target>().addr};

    for (int i = 0; i < 4; i++) {
        a.send_number(addr, 1);
    }
    EXPECT_TRUE(a.errors().empty());
    victim.kill_now();
    a.send_number(addr, 1);
    EXPECT_EQ(GLEX_ERR_STATUS_DEST_VP_STOP, a.only_error());
}

TEST_F(status, check_peer)
{
    EXPECT_OK(glex_ext_check_peer(a, b.addr(), 0, 0));
    EXPECT_OK(glex_ext_check_peer(a, a.addr(), 0, 0));
    glex_ep_addr_t addr = b.addr();
    b.destroy();
    EXPECT_EQ(GLEX_NO_EP_RESOURCE, glex_ext_check_peer(a, addr, 0, 0));
}

/* Its queues are as good as gone, its memory is not. */
TEST_F(status, without_a_receiver)
{
    char *mem = b.alloc(4096);
    Target to = b.target(b.reg(mem, 4096));
    glex_imm_rdma_req_t quiet = imm_put(to, "quiet", 6), loud = imm_put(to, "loud", 5, 0, 1);

    a.send_number(b.addr(), 1);
    EXPECT_EQ(1, b.receive_number(0));
    EXPECT_OK(glex_ext_set_receiver(b, 0));
    EXPECT_EQ(GLEX_NO_EP_RESOURCE, glex_ext_check_peer(a, b.addr(), 0, 0));
    EXPECT_EQ(GLEX_NO_EP_RESOURCE, glex_ext_has_receiver(a, b.addr()));
    glex_rdma_req_t put = rdma(GLEX_RDMA_TYPE_PUT, to, lmh, 8);
    ASSERT_OK(glex_rdma(a, &put, nullptr));
    EXPECT_EQ(GLEX_ERR_STATUS_DEST_VP_STOP, a.only_error());
    a.send_number(b.addr(), 2);
    EXPECT_EQ(GLEX_ERR_STATUS_DEST_VP_STOP, a.only_error());
    ASSERT_OK(glex_imm_rdma(a, &loud, nullptr));
    EXPECT_EQ(GLEX_ERR_STATUS_DEST_VP_STOP, a.only_error());
    ASSERT_OK(glex_imm_rdma(a, &quiet, nullptr));
    EXPECT_TRUE(a.errors().empty());
    EXPECT_STREQ("quiet", mem);
    EXPECT_EQ(-1, b.receive_number(0));

    EXPECT_OK(glex_ext_set_receiver(b, 1));
    EXPECT_OK(glex_ext_check_peer(a, b.addr(), 0, 0));
    EXPECT_OK(glex_ext_has_receiver(a, b.addr()));
    a.send_number(b.addr(), 3);
    EXPECT_EQ(3, b.receive_number(0));
    ASSERT_OK(glex_imm_rdma(a, &loud, nullptr));
    EXPECT_EQ(1, b.receive_event(0));
    EXPECT_TRUE(a.errors().empty());
}

/* Within a host nobody serves another endpoint's registrations. */
TEST_F(status, domain_is_for_other_hosts)
{
    char *mem = b.alloc(4096);
    Target to = b.target(b.reg(mem, 4096));
    Ep c{dev};
    glex_imm_rdma_req_t imm = imm_put(to, "imm", 4);
    glex_rdma_req_t put = rdma(GLEX_RDMA_TYPE_PUT, to, lmh, 8);

    EXPECT_OK(glex_ext_set_domain(c, b));
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_ext_set_domain(c, c));
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_ext_set_domain(nullptr, b));
    EXPECT_EQ(0, glex_ext_is_remote(a, c.addr()));
    for (glex_ep_addr_t dest : {b.addr(), c.addr()}) {
        imm.rmt_ep_addr = put.rmt_ep_addr = dest;
        imm.flag = put.flag = GLEX_EXT_FLAG_DOMAIN;
        ASSERT_OK(glex_rdma(a, &put, nullptr));
        EXPECT_EQ(GLEX_ERR_STATUS_MMT, a.only_error());
        ASSERT_OK(glex_imm_rdma(a, &imm, nullptr));
        EXPECT_EQ(GLEX_ERR_STATUS_MMT, a.only_error());
    }
    EXPECT_EQ(0, mem[0]);
}

/* ---- the error queue ------------------------------------------------------------------------- */

TEST_F(status, nothing_to_report_touches_no_list)
{
    uint32_t num = 5;

    EXPECT_OK(glex_poll_error_req(a, &num, nullptr));
    EXPECT_EQ(0u, num);
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_poll_error_req(a, nullptr, nullptr));
}

TEST_F(status, the_list_is_filled_as_far_as_there_is_room_and_the_oldest_are_kept)
{
    glex_ep_addr_t nobody = b.addr();
    std::vector<glex_err_req> list(2000);
    uint32_t num = 10;

    nobody.ep_num = 5000;
    for (int i = 0; i < 1500; i++) {
        a.send_number(nobody, i);
    }
    ASSERT_OK(glex_poll_error_req(a, &num, list.data()));
    ASSERT_EQ(10u, num);
    EXPECT_EQ(9u, list[9].data0);
    num = 2000;
    ASSERT_OK(glex_poll_error_req(a, &num, list.data()));
    ASSERT_EQ(1014u, num);
    EXPECT_EQ(10u, list[0].data0);
    EXPECT_EQ(1023u, list[1013].data0);
    EXPECT_EQ(1500u, a.counters().error_req);
}

TEST(str, texts)
{
    EXPECT_STREQ("successful", glex_error_str(GLEX_SUCCESS)); /* programs compare it */
    for (int i = 1; i <= GLEX_NOT_IMPLEMENTED; i++) {
        EXPECT_STRNE("unknown", glex_error_str(static_cast<glex_ret_t>(i)));
    }
    for (int i = 0; i <= GLEX_ERR_STATUS_CONNECTION_ECC; i++) {
        EXPECT_STRNE("unknown", glex_error_req_status_str(static_cast<glex_err_req_status>(i)));
    }
    for (int i = 0; i <= GLEX_ERR_OP_RDMA_GET; i++) {
        EXPECT_STRNE("unknown", glex_error_req_opcode_str(static_cast<glex_err_req_op>(i)));
    }
    EXPECT_STREQ("unknown", glex_error_str(static_cast<glex_ret_t>(-1)));
    EXPECT_STREQ("unknown", glex_error_req_status_str(static_cast<glex_err_req_status>(99)));
    EXPECT_STREQ("unknown", glex_error_req_opcode_str(static_cast<glex_err_req_op>(99)));
}

/* An endpoint without a receiver gets the local events of its own requests. */
TEST_F(status, local_events_without_a_receiver)
{
    glex_mem_handle_t mine = a.reg(a.alloc(64), 64);
    glex_rdma_req_t req = rdma(GLEX_RDMA_TYPE_PUT, b.target(b.reg(b.alloc(64), 64)), mine, 8);

    req.flag = GLEX_FLAG_LOCAL_EVT;
    req.local_evt.cookie_0 = 7;
    req.local_evt.cookie_1 = 1;
    EXPECT_OK(glex_ext_set_receiver(a, 0));
    for (int i = 0; i < 3; i++) {
        ASSERT_OK(glex_rdma(a, &req, nullptr));
        EXPECT_EQ(7, a.receive_event(0));
    }
    for (int i = 0; i < 5000; i++) { /* more than the queue holds */
        glex_ret_t ret = glex_rdma(a, &req, nullptr);
        ASSERT_TRUE(ret == GLEX_SUCCESS || (ret == GLEX_BUSY && i >= 2048)) << i;
    }
}

/* Messages to a peer without a receiver fail without looking for another peer each time. */
TEST_F(status, a_peer_without_a_receiver_stays_attached)
{
    a.send_number(b.addr(), 1);
    EXPECT_OK(glex_ext_set_receiver(b, 0));
    unsigned before = internals_lock_queries();
    for (int i = 0; i < 100; i++) {
        a.send_number(b.addr(), 2);
        EXPECT_EQ(GLEX_ERR_STATUS_DEST_VP_STOP, a.only_error());
    }
    EXPECT_EQ(before, internals_lock_queries());
    EXPECT_OK(glex_ext_set_receiver(b, 1));
    a.send_number(b.addr(), 3);
    EXPECT_EQ(1, b.receive_number(0));
    EXPECT_EQ(3, b.receive_number(0));
}

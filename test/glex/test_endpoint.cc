/* Endpoints: attributes, numbers, life and death of their process. */
#include "internals.h"
#include "nic.h"
#include "process.h"

#include <sys/wait.h>
#include <unistd.h>
#include <thread>
#include <signal.h>

#include <memory>

class endpoint : public testing::Test
{
  protected:
    Device dev;
};

static glex_ret_t create(glex_device_handle_t dev, glex_ep_attr attr)
{
    glex_ep_handle_t ep;
    glex_ret_t ret = glex_create_ep(dev, &attr, &ep);

    if (ret == GLEX_SUCCESS) {
        EXPECT_OK(glex_destroy_ep(ep));
    }
    return ret;
}

TEST_F(endpoint, default_attributes)
{
    Ep ep(dev);
    glex_ep_attr attr;
    glex_device_attr dev_attr;

    ASSERT_OK(glex_query_device(dev, &dev_attr));
    ASSERT_OK(glex_query_ep(ep, &attr));
    EXPECT_EQ(GLEX_EP_TYPE_NORMAL, attr.type);
    EXPECT_EQ(ep.addr().ep_num, attr.num);
    EXPECT_EQ(TEST_KEY, attr.key);
    EXPECT_EQ(dev_attr.def_ep_mpq_capacity, attr.mpq_capacity);
    EXPECT_EQ(dev_attr.def_ep_eq_capacity, attr.eq_capacity);
    EXPECT_EQ(dev_attr.def_ep_dq_capacity, attr.dq_capacity);
    EXPECT_EQ(dev_attr.nic_id, ep.addr().nic_id);
    EXPECT_EQ(0, ep.addr().resv);
}

TEST_F(endpoint, capacities_are_rounded_up)
{
    glex_ep_attr attr = ep_attr();

    attr.mpq_capacity = 100;
    attr.eq_capacity = 65535;
    attr.dq_capacity = 64;
    Ep ep(dev, attr);
    ASSERT_OK(glex_query_ep(ep, &attr));
    EXPECT_EQ(128u, attr.mpq_capacity);
    EXPECT_EQ(65536u, attr.eq_capacity);
    EXPECT_EQ(64u, attr.dq_capacity);
}

/* As much as public programs ask for. */
TEST_F(endpoint, a_large_queue)
{
    glex_ep_attr attr = ep_attr();

    attr.eq_type = GLEX_EQ_TYPE_HIGH_CAPACITY;
    attr.mpq_capacity = 139240;
    Ep ep(dev, attr), sender(dev);
    ASSERT_OK(glex_query_ep(ep, &attr));
    EXPECT_EQ(262144u, attr.mpq_capacity);
    for (int i = 0; i < 262144; i++) {
        sender.send_number(ep.addr(), i);
    }
    EXPECT_TRUE(sender.errors().empty());
    sender.send_number(ep.addr(), 0);
    EXPECT_EQ(GLEX_ERR_STATUS_DEST_MPQ_FULL, sender.only_error());
    for (int i = 0; i < 262144; i++) {
        ASSERT_EQ(i, ep.receive_number(0));
    }
}

TEST_F(endpoint, attributes_out_of_range)
{
    glex_ep_attr attr = ep_attr();
    glex_ep_handle_t ep;

    EXPECT_EQ(GLEX_INVALID_PARAM, glex_create_ep(nullptr, &attr, &ep));
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_create_ep(dev, nullptr, &ep));
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_create_ep(dev, &attr, nullptr));
    EXPECT_EQ(GLEX_INVALID_PARAM, create(dev, ep_attr(65536)));
    EXPECT_EQ(GLEX_INVALID_PARAM, create(dev, ep_attr(GLEX_ANY_EP_NUM, (1u << 20) + 1)));
    attr.type = GLEX_EP_TYPE_MANAGEMENT;
    EXPECT_EQ(GLEX_NOT_IMPLEMENTED, create(dev, attr));
    attr.type = static_cast<glex_ep_type>(4);
    EXPECT_EQ(GLEX_INVALID_PARAM, create(dev, attr));
    attr = ep_attr();
    attr.mpq_type = static_cast<glex_mpq_type>(3);
    EXPECT_EQ(GLEX_INVALID_PARAM, create(dev, attr));
    attr = ep_attr();
    attr.eq_type = static_cast<glex_eq_type>(3);
    EXPECT_EQ(GLEX_INVALID_PARAM, create(dev, attr));
}

TEST_F(endpoint, null_handles)
{
    glex_ep_attr attr;
    glex_ep_addr_t addr;
    glex_ext_counters counters;
    int fd;

    EXPECT_EQ(GLEX_INVALID_PARAM, glex_destroy_ep(nullptr));
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_query_ep(nullptr, &attr));
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_get_ep_addr(nullptr, &addr));
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_ext_query_counters(nullptr, &counters));
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_ext_event_fd(nullptr, &fd));
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_ext_arm(nullptr));
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_ext_check_peer(nullptr, addr, 0, 0));
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_ext_set_receiver(nullptr, 1));
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_ext_has_receiver(nullptr, addr));
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_deregister_mem(nullptr, {}));
}

TEST_F(endpoint, every_type)
{
    for (glex_ep_type type : {GLEX_EP_TYPE_FAST, GLEX_EP_TYPE_NORMAL, GLEX_EP_TYPE_EMULATE}) {
        glex_ep_attr attr = ep_attr();

        attr.type = type;
        attr.mpq_type = GLEX_MPQ_TYPE_HIGH_CAPACITY;
        attr.eq_type = GLEX_EQ_TYPE_IOMMU;
        Ep ep(dev, attr);
        ASSERT_OK(glex_query_ep(ep, &attr));
        EXPECT_EQ(type, attr.type);
        EXPECT_EQ(GLEX_MPQ_TYPE_HIGH_CAPACITY, attr.mpq_type);
        ep.send_number(ep.addr(), 3);
        EXPECT_EQ(3, ep.receive_number(0));
    }
}

TEST_F(endpoint, explicit_numbers)
{
    for (uint32_t num : {0u, 1u, 4711u, 65535u}) {
        Ep ep(dev, ep_attr(num));

        EXPECT_EQ(num, ep.addr().ep_num);
        EXPECT_EQ(GLEX_NO_EP_RESOURCE, create(dev, ep_attr(num)));
    }
    EXPECT_OK(create(dev, ep_attr(4711)));
}

/* Whoever does not ask for a number gets the lowest free one, also after its owner was killed. */
CHILD(endpoint_with_number_1)
{
    Device dev;
    Ep ep(dev, ep_attr(1));

    send_up(1);
    receive_down<int>();
    return 0;
}

TEST_F(endpoint, lowest_free_number)
{
    std::vector<std::unique_ptr<Ep>> eps;
    Process owner("endpoint_with_number_1");

    EXPECT_EQ(1, owner.receive<int>());
    for (uint32_t num : {0u, 2u, 3u}) {
        eps.emplace_back(new Ep(dev));
        EXPECT_EQ(num, eps.back()->addr().ep_num);
    }
    eps[1]->destroy();
    Ep again(dev);
    EXPECT_EQ(2u, again.addr().ep_num);
    owner.kill_now();
    int num = -1;
    for (int i = 0; i < WAIT_MS && num != 1; i++) { /* the kernel frees its lock a moment later */
        Ep ep(dev);
        num = ep.addr().ep_num;
        usleep(1000);
    }
    EXPECT_EQ(1, num);
}

TEST_F(endpoint, addresses_are_composed_and_taken_apart)
{
    uint32_t nic_id, ep_num;
    glex_ep_addr_t addr;

    ASSERT_OK(glex_compose_ep_addr(0x12345678, 0x9abc, GLEX_EP_TYPE_FAST, &addr));
    EXPECT_EQ(0x1234567800009abcu, addr.v);
    ASSERT_OK(glex_decompose_ep_addr(addr, GLEX_EP_TYPE_FAST, &nic_id, &ep_num));
    EXPECT_EQ(0x12345678u, nic_id);
    EXPECT_EQ(0x9abcu, ep_num);
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_compose_ep_addr(1, 65536, GLEX_EP_TYPE_NORMAL, &addr));
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_compose_ep_addr(1, 1, GLEX_EP_TYPE_NORMAL, nullptr));
    EXPECT_EQ(GLEX_INVALID_PARAM,
              glex_decompose_ep_addr(addr, GLEX_EP_TYPE_NORMAL, nullptr, &ep_num));
}

/* Those that have posted to an endpoint leave nothing with it: many come and go. */
TEST_F(endpoint, come_and_go)
{
    Ep server(dev);

    for (int i = 0; i < 1500; i++) {
        Ep client(dev, ep_attr(GLEX_ANY_EP_NUM, 4));

        client.send_number(server.addr(), i);
        ASSERT_EQ(i, server.receive_number(0));
    }
}

/* ---- processes ------------------------------------------------------------------------------- */

/* Its segment, or the socket that it sleeps on. */
static bool exists(uint64_t addr)
{
    char path[512];

    internals_segment_path(addr, path, sizeof(path));
    return access(path, F_OK) == 0 || access((std::string(path) + ".s").c_str(), F_OK) == 0;
}

CHILD(endpoint_exits_without_destroying)
{
    glex_ep_attr attr = ep_attr();
    glex_device_handle_t dev;
    glex_ep_handle_t ep;
    glex_ep_addr_t addr;
    int fd;

    EXPECT_OK(glex_open_device(0, &dev));
    EXPECT_OK(glex_create_ep(dev, &attr, &ep));
    EXPECT_OK(glex_get_ep_addr(ep, &addr));
    EXPECT_OK(glex_ext_event_fd(ep, &fd));
    send_up(addr.v);
    receive_down<int>();
    return testing::Test::HasFailure();
}

TEST_F(endpoint, exit_without_destroy_leaves_nothing)
{
    Process child("endpoint_exits_without_destroying");
    uint64_t addr = child.receive<uint64_t>();

    EXPECT_TRUE(exists(addr));
    child.send(0);
    EXPECT_EQ(0, child.wait());
    EXPECT_FALSE(exists(addr));
}

TEST_F(endpoint, number_of_a_killed_owner_is_free)
{
    Process child("endpoint_exits_without_destroying");
    glex_ep_addr_t addr = {.v = child.receive<uint64_t>()};

    EXPECT_EQ(GLEX_NO_EP_RESOURCE, create(dev, ep_attr(addr.ep_num)));
    child.kill_now();
    EXPECT_TRUE(exists(addr.v));
    EXPECT_OK(create(dev, ep_attr(addr.ep_num)));
}

TEST_F(endpoint, next_program_removes_what_killed_ones_left)
{
    std::unique_ptr<Ep> lower(new Ep(dev));
    Process child("endpoint_exits_without_destroying");
    uint64_t addr = child.receive<uint64_t>();

    lower.reset(); /* the next one gets this number, not the killed one's */
    child.kill_now();
    EXPECT_TRUE(exists(addr));
    Process next("endpoint_exits_without_destroying");
    next.receive<uint64_t>();
    EXPECT_FALSE(exists(addr));
    next.send(0);
    EXPECT_EQ(0, next.wait());
}

/* In a child of fork() the parent's endpoint refuses everything; the child can make its own. */
static int use_inherited(glex_device_handle_t dev, const Ep &ep, glex_ep_addr_t self,
                         glex_mem_handle_t mh)
{
    glex_imm_mp_req_t mp = {}, *bad_mp = nullptr;
    glex_imm_rdma_req_t imm = {}, *bad_imm = nullptr;
    glex_rdma_req_t req = {}, *bad = nullptr;
    glex_event_t *event;
    glex_ep_addr_t addr;
    glex_ep_attr attr;
    uint32_t len, num = 0;
    void *data;
    int wrong = 0;

    mp.rmt_ep_addr = imm.rmt_ep_addr = req.rmt_ep_addr = self;
    wrong |= glex_send_imm_mp(ep, &mp, &bad_mp) != GLEX_INVALID_PARAM || bad_mp != &mp;
    wrong |= (glex_imm_rdma(ep, &imm, &bad_imm) != GLEX_INVALID_PARAM || bad_imm != &imm) << 1;
    wrong |= (glex_rdma(ep, &req, &bad) != GLEX_INVALID_PARAM || bad != &req) << 2;
    for (int i = 0; i < 3; i++) {
        wrong |= (glex_probe_first_mp(ep, 0, &addr, &data, &len) != GLEX_INVALID_PARAM) << 3;
        wrong |= (glex_probe_first_event(ep, -1, &event) != GLEX_INVALID_PARAM) << 4;
        wrong |= (glex_discard_probed_mp(ep) != GLEX_INVALID_PARAM) << 5;
        wrong |= (glex_discard_probed_event(ep) != GLEX_INVALID_PARAM) << 5;
    }
    wrong |= (glex_query_ep(ep, &attr) != GLEX_INVALID_PARAM) << 6;
    wrong |= (glex_poll_error_req(ep, &num, nullptr) != GLEX_INVALID_PARAM) << 6;
    wrong |= (glex_deregister_mem(ep, mh) != GLEX_INVALID_PARAM) << 6;
    wrong |= (glex_ext_arm(ep) != GLEX_INVALID_PARAM) << 6;
    wrong |= (glex_destroy_ep(ep) != GLEX_INVALID_PARAM) << 6;

    Ep own(dev);
    own.send_number(self, 7);
    wrong |= !own.errors().empty() << 7;
    return wrong;
}

TEST_F(endpoint, fork)
{
    Ep ep(dev);
    glex_mem_handle_t mh = ep.reg(ep.alloc(100), 100);
    glex_ep_addr_t self = ep.addr();
    int status = -1;
    pid_t pid;

    ep.send_number(self, 1);
    pid = ::fork();
    if (pid == 0) {
        exit(use_inherited(dev, ep, self, mh)); /* runs the library's destructor as well */
    }
    waitpid(pid, &status, 0);
    EXPECT_EQ(0, status);
    EXPECT_TRUE(exists(self.v));
    EXPECT_EQ(1, ep.receive_number(0));
    EXPECT_EQ(7, ep.receive_number(0));
    Process other("endpoint_exits_without_destroying"); /* reaps: we still live */
    other.receive<uint64_t>();
    EXPECT_TRUE(exists(self.v));
}

/* A child that was forked does not keep a dead parent's endpoint alive. */
CHILD(endpoint_with_child)
{
    Device dev;
    Ep ep(dev);

    ep.alloc(4096);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(60); /* lives longer than its parent, which is what this is about, not for ever */
        pause();
    }
    send_up(ep.addr().v);
    send_up(pid);
    receive_down<int>();
    return 0;
}

TEST_F(endpoint, child_does_not_keep_it_alive)
{
    Process child("endpoint_with_child");
    glex_ep_addr_t addr = {.v = child.receive<uint64_t>()};
    pid_t pid = child.receive<pid_t>();

    child.kill_now();
    EXPECT_OK(create(dev, ep_attr(addr.ep_num)));
    kill(pid, SIGKILL);
}

/* ---- a fork in the middle of creating -------------------------------------------------------- */

static bool naming_reached, child_forked;

static void wait_for_the_fork()
{
    __atomic_store_n(&naming_reached, true, __ATOMIC_RELEASE);
    /* The fork must not happen now. Where it may, it does within this time. */
    for (int i = 0; i < 300 && !__atomic_load_n(&child_forked, __ATOMIC_ACQUIRE); i++) {
        usleep(1000);
    }
}

/* Its child, forked by another thread while the segment got its name, outlives it. */
CHILD(endpoint_forks_while_creating)
{
    pid_t child = 0;
    Device dev;

    {
        Ep first(dev); /* all that is done once is done */
    }
    std::thread forker([&] {
        while (!__atomic_load_n(&naming_reached, __ATOMIC_ACQUIRE)) {
            usleep(100);
        }
        child = fork();
        if (child == 0) {
            pause();
        }
        __atomic_store_n(&child_forked, true, __ATOMIC_RELEASE);
    });
    internals_on_naming(wait_for_the_fork);
    glex_ep_attr attr = ep_attr();
    glex_ep_handle_t ep;
    glex_ep_addr_t addr;
    EXPECT_OK(glex_create_ep(dev, &attr, &ep));
    EXPECT_OK(glex_get_ep_addr(ep, &addr));
    forker.join();
    send_up(addr.v);
    send_up(child);
    receive_down<int>();
    return 0;
}

/* Another thread is creating an endpoint, which has its name already, when the program ends. */
CHILD(endpoint_exits_while_creating)
{
    static Device *dev = new Device; /* never closed */

    if (receive_down<char>() == 's') {
        static Ep *first = new Ep(*dev);

        EXPECT_NE(1234, first->addr().ep_num);
    }
    internals_on_naming([] {
        __atomic_store_n(&naming_reached, true, __ATOMIC_RELEASE);
        usleep(200000); /* for a while: the end of the program waits ten seconds at most */
    });
    std::thread([] {
        glex_ep_attr attr = ep_attr(1234);
        glex_ep_handle_t ep;

        glex_create_ep(*dev, &attr, &ep);
        pause();
    }).detach();
    while (!__atomic_load_n(&naming_reached, __ATOMIC_ACQUIRE)) {
        usleep(100);
    }
    return testing::Test::HasFailure();
}

TEST_F(endpoint, exit_while_another_thread_creates_leaves_nothing)
{
    for (char which : {'f', 's'}) { /* its first one, or its second one */
        Ep mine(dev);
        Process child("endpoint_exits_while_creating");
        glex_ep_addr_t addr = mine.addr();

        child.send(which);
        EXPECT_EQ(0, child.wait());
        addr.ep_num = 1234;
        EXPECT_FALSE(exists(addr.v)) << which;
    }
}

TEST(endpoint_fork, a_child_does_not_keep_the_dead_alive)
{
    Process owner("endpoint_forks_while_creating");
    glex_ep_addr_t addr = {.v = owner.receive<uint64_t>()};
    pid_t child = owner.receive<pid_t>();
    Device dev;
    Ep ep(dev);
    bool living = true;

    EXPECT_OK(glex_ext_check_peer(ep, addr, 0, 0));
    owner.kill_now();
    for (int i = 0; i < 2000 && living;
         i++) { /* the kernel frees its lock a moment after its end */
        living = glex_ext_check_peer(ep, addr, 0, 0) == GLEX_SUCCESS;
        usleep(1000);
    }
    EXPECT_FALSE(living);
    kill(child, SIGKILL);
}

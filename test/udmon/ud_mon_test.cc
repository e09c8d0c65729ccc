// Transport ud_mon between two hosts of contrib/rdma-vm: sending, receiving, replies, sleeping.
#include "ud_mon_fixture.h"

#include <poll.h>
#include <time.h>
#include <unistd.h>

namespace
{

TEST_F(UdMonTest, CapabilitiesAreThoseOfADatagramService)
{
    uct_iface_attr_t attr = a->attr();

    EXPECT_EQ(4096u - 40, attr.cap.am.max_bcopy);
    EXPECT_FALSE(attr.cap.flags & UCT_IFACE_FLAG_PENDING);
    EXPECT_FALSE(attr.cap.flags & UCT_IFACE_FLAG_CB_SYNC);
    EXPECT_TRUE(attr.cap.event_flags & UCT_IFACE_FLAG_EVENT_FD);
}

TEST_F(UdMonTest, BcopyOfEverySizeArrivesUnchanged)
{
    size_t max = a->attr().cap.am.max_bcopy;
    std::vector<size_t> sizes = {0, 1, 7, 8, 9, 63, 64, 87, 88, 89, 1000, 2048, max - 1, max};

    for (size_t size : sizes) {
        ASSERT_EQ(ssize_t(size), send_bcopy(ep, pattern(size, size)));
    }
    ASSERT_TRUE(arrives(sizes.size()));
    for (size_t i = 0; i < sizes.size(); ++i) {
        EXPECT_EQ(pattern(sizes[i], sizes[i]), b->received[i]) << sizes[i];
    }
    EXPECT_EQ(0u, b->stats().lost);
}

// What others send may be longer than what we do.
TEST_F(UdMonTest, SizeOfDatagramsIsTheSendersAlone)
{
    size_t max = a->attr().cap.am.max_bcopy;

    uct_ep_destroy(ep);
    set("SEG_SIZE", "512");
    b = std::make_unique<Host>("rxe2");
    EXPECT_EQ(512u - 40, b->attr().cap.am.max_bcopy);
    ep = a->connect(*b);
    ASSERT_GE(send_bcopy(ep, pattern(max, 1)), 0);
    ASSERT_TRUE(arrives(1));
    EXPECT_EQ(pattern(max, 1), b->received[0]);
    EXPECT_EQ(0u, b->stats().recoveries);
}

TEST_F(UdMonTest, ShortCarriesHeaderAndPayload)
{
    uint64_t head = 0x1122334455667788;

    for (size_t size : {size_t(0), size_t(200), a->attr().cap.am.max_short - sizeof(head)}) {
        std::string data = pattern(size, 3);
        ASSERT_UCS_OK(uct_ep_am_short(ep, Host::am_id, head, data.data(), data.size()));
        ASSERT_TRUE(arrives(b->received.size() + 1));
        EXPECT_EQ(std::string((char *)&head, 8) + data, b->received.back()) << size;
    }
}

TEST_F(UdMonTest, ZcopyGathersAndCompletes)
{
    struct Completion {
        uct_completion_t comp;
        int calls = 0;
    } done;
    std::string one = pattern(100, 1), head = "header";
    std::string two = pattern(a->attr().cap.am.max_zcopy - one.size() - head.size(), 2);
    uct_mem_h m1, m2;

    ASSERT_UCS_OK(uct_md_mem_reg(a->md, one.data(), one.size(), UCT_MD_MEM_ACCESS_LOCAL_READ, &m1));
    ASSERT_UCS_OK(uct_md_mem_reg(a->md, two.data(), two.size(), UCT_MD_MEM_ACCESS_LOCAL_READ, &m2));
    uct_iov_t iov[2] = {{one.data(), one.size(), m1, 0, 1}, {two.data(), two.size(), m2, 0, 1}};
    done.comp.func = [](uct_completion_t *c) { ++reinterpret_cast<Completion *>(c)->calls; };
    done.comp.count = 1;
    done.comp.status = UCS_OK;
    ASSERT_EQ(UCS_INPROGRESS,
              uct_ep_am_zcopy(ep, Host::am_id, head.data(), head.size(), iov, 2, 0, &done.comp));
    EXPECT_EQ(0, done.calls);
    ASSERT_TRUE(arrives(1));
    ASSERT_TRUE(a->progress_until([&] { return done.calls > 0; }));
    EXPECT_EQ(1, done.calls);
    EXPECT_EQ(UCS_OK, done.comp.status);
    EXPECT_EQ(head + one + two, b->received[0]);
    uct_md_mem_dereg(a->md, m1);
    uct_md_mem_dereg(a->md, m2);
}

TEST_F(UdMonTest, OneDoorbellForABatch)
{
    set("TX_BATCH", "16");
    restart();
    for (int i = 0; i < 16; ++i) {
        EXPECT_EQ(0u, a->stats().tx_doorbells);
        ASSERT_GE(send_bcopy(ep, "x"), 0);
    }
    EXPECT_EQ(1u, a->stats().tx_doorbells);
    ASSERT_GE(send_bcopy(ep, "y"), 0);
    EXPECT_EQ(1u, a->stats().tx_doorbells);
    a->progress();
    EXPECT_EQ(2u, a->stats().tx_doorbells);
    EXPECT_TRUE(arrives(17));
}

TEST_F(UdMonTest, FlushSaysWhenAllIsSent)
{
    for (int i = 0; i < 40; ++i) {
        ASSERT_GE(send_bcopy(ep, pattern(500, i)), 0);
    }
    // Flushing alone sends all and sees it done: nothing here makes progress for it.
    for (int i = 0; (i < 3000) && (uct_ep_flush(ep, 0, NULL) != UCS_OK); ++i) {
        usleep(1000);
    }
    EXPECT_EQ(UCS_OK, uct_ep_flush(ep, 0, NULL));
    EXPECT_TRUE(b->progress_until([&] { return b->received.size() == 40; }));
    ASSERT_GE(send_bcopy(ep, "last"), 0);
    for (int i = 0; (i < 3000) && (uct_iface_flush(a->iface, 0, NULL) != UCS_OK); ++i) {
        usleep(1000);
    }
    EXPECT_TRUE(b->progress_until([&] { return b->received.size() == 41; }));
}

uint64_t now_ns()
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t(now.tv_sec) * 1000000000u) + now.tv_nsec;
}

TEST_F(UdMonTest, ReplyGoesToTheSenderOfTheCurrentDatagram)
{
    uct_ud_mon_rx_info_t info = {}, first = {};
    uct_ep_h reply = nullptr;
    uint64_t before = now_ns();

    EXPECT_EQ(UCS_ERR_NO_ELEM, uct_ud_mon_reply_ep_create(b->iface, &reply));
    EXPECT_EQ(UCS_ERR_NO_ELEM, uct_ud_mon_iface_rx_info(b->iface, &info));
    b->on_message = [&] {
        EXPECT_EQ(UCS_OK, uct_ud_mon_iface_rx_info(b->iface, &info));
        EXPECT_EQ(UCS_OK, uct_ud_mon_reply_ep_create(b->iface, &reply));
    };
    ASSERT_GE(send_bcopy(ep, "question"), 0);
    ASSERT_TRUE(arrives(1));
    ASSERT_NE(nullptr, reply);
    EXPECT_EQ(0u, info.seq);
    EXPECT_GE(info.sent_ns, before);
    EXPECT_LE(info.sent_ns, now_ns()); // both hosts have one clock here
    EXPECT_NE(0u, info.sender);
    ASSERT_GE(send_bcopy(reply, "answer"), 0);
    ASSERT_TRUE(b->progress_until([&] { return a->received.size() == 1; }, a.get()));
    EXPECT_EQ("answer", a->received[0]);
    uct_ep_destroy(reply);
    first = info;
    restart(); // another interface is another sender
    b->on_message = [&] { EXPECT_EQ(UCS_OK, uct_ud_mon_iface_rx_info(b->iface, &info)); };
    ASSERT_GE(send_bcopy(ep, "again"), 0);
    ASSERT_TRUE(arrives(1));
    EXPECT_NE(info.sender, first.sender);
}

// Endpoints may go while their datagrams are under way.
TEST_F(UdMonTest, EndpointDestroyedWithSendsUnderWay)
{
    for (int round = 0; round < 50; ++round) {
        uct_ep_h other = a->connect(*b);
        ASSERT_GE(send_bcopy(other, "bye"), 0);
        uct_ep_destroy(other);
        ASSERT_TRUE(arrives(round + 1));
    }
    EXPECT_EQ(0u, a->stats().recoveries);
}

TEST_F(UdMonTest, EndpointsToOnePeerShareAnAddressHandle)
{
    unsigned created = created_ahs, destroyed = destroyed_ahs;
    uct_ep_h other = a->connect(*b);

    ASSERT_GE(send_bcopy(other, "the same way"), 0);
    ASSERT_TRUE(arrives(1));
    uct_ep_destroy(other);
    EXPECT_EQ(created, created_ahs);
    EXPECT_EQ(destroyed, destroyed_ahs); // the first endpoint still has it
    ASSERT_GE(send_bcopy(ep, "still"), 0);
    ASSERT_TRUE(arrives(2));
}

// Some devices look a datagram's address handle up only when it leaves. That of the last endpoint
// to a peer goes when the device has reported all sends that name it, and not sooner.
TEST_F(UdMonTest, AddressHandleOutlivesTheSendsThatNameIt)
{
    uct_ep_h back = b->connect(*a);
    unsigned before = destroyed_ahs;

    ASSERT_GE(send_bcopy(back, "bye"), 0);
    uct_ep_destroy(back);
    EXPECT_EQ(before, destroyed_ahs); // nobody has looked for completions
    EXPECT_TRUE(b->progress_until([&] { return destroyed_ahs == before + 1; }));
    EXPECT_TRUE(a->progress_until([&] { return a->received.size() == 1; }));
}

int readable(int fd, int timeout_ms)
{
    struct pollfd p = {fd, POLLIN, 0};

    return poll(&p, 1, timeout_ms);
}

TEST_F(UdMonTest, SleepsUntilADatagramComes)
{
    int fd;

    ASSERT_UCS_OK(uct_iface_event_fd_get(b->iface, &fd));
    while (b->progress() > 0) {
    }
    ASSERT_UCS_OK(uct_iface_event_arm(b->iface, UCT_EVENT_RECV));
    EXPECT_EQ(0, readable(fd, 50));
    ASSERT_GE(send_bcopy(ep, "wake up"), 0);
    a->progress();
    ASSERT_EQ(1, readable(fd, 5000));
    EXPECT_EQ(UCS_ERR_BUSY, uct_iface_event_arm(b->iface, UCT_EVENT_RECV));
    ASSERT_TRUE(arrives(1)); // found while arming, delivered by progress
    ASSERT_UCS_OK(uct_iface_event_arm(b->iface, UCT_EVENT_RECV));
    EXPECT_EQ(0, readable(fd, 50));
}

// Whoever asks for it is woken by the last datagram of a batch only, but has all of it then.
TEST_F(UdMonTest, SleepsUntilABatchIsComplete)
{
    RawQp raw("rxe1"); // nothing of what it sends is the end of a batch
    int fd;

    raw.aim(*b);
    EXPECT_TRUE(b->attr().cap.event_flags & UCT_IFACE_FLAG_EVENT_RECV_SIG);
    ASSERT_UCS_OK(uct_iface_event_fd_get(b->iface, &fd));
    while (b->progress() > 0) {
    }
    ASSERT_UCS_OK(uct_iface_event_arm(b->iface, UCT_EVENT_RECV_SIG));
    raw.send(header(5, 0, 1), "x");
    EXPECT_EQ(0, readable(fd, 200));
    for (int i = 0; i < 10; ++i) {
        ASSERT_GE(send_bcopy(ep, "batch"), 0);
    }
    a->progress();
    ASSERT_EQ(1, readable(fd, 5000));
    ASSERT_TRUE(arrives(11));
    // Armed for the end of a batch, and then for anything: anything wakes.
    EXPECT_EQ(UCS_OK, uct_iface_event_arm(b->iface, UCT_EVENT_RECV_SIG));
    ASSERT_UCS_OK(uct_iface_event_arm(b->iface, UCT_EVENT_RECV));
    raw.send(header(5, 1, 1), "y");
    EXPECT_EQ(1, readable(fd, 5000));
}

TEST_F(UdMonTest, SleepsUntilSendsAreDone)
{
    int fd;

    ASSERT_UCS_OK(uct_iface_event_fd_get(a->iface, &fd));
    ASSERT_UCS_OK(uct_iface_event_arm(a->iface, UCT_EVENT_SEND_COMP));
    ASSERT_GE(send_bcopy(ep, "x"), 0);
    a->progress();
    ASSERT_EQ(1, readable(fd, 5000));
    ASSERT_TRUE(a->progress_until([&] { return uct_iface_flush(a->iface, 0, NULL) == UCS_OK; }));
}

TEST_F(UdMonTest, FullQueueSaysSoAndRecovers)
{
    size_t sent = 0;

    set("TX_QUEUE_LEN", "16");
    restart();
    // More than fit at once; a refused one is sent again after progress
    while (sent < 2000) {
        ssize_t ret = send_bcopy(ep, std::to_string(sent));
        if (ret >= 0) {
            ++sent;
        } else {
            ASSERT_EQ(UCS_ERR_NO_RESOURCE, ret);
            a->progress();
        }
        b->progress();
    }
    ASSERT_TRUE(arrives(sent));
    EXPECT_EQ("1999", b->received.back());
    EXPECT_EQ(0u, b->stats().lost);
}

// Memory that is not registered any more puts the queue pair into the error state.
TEST_F(UdMonTest, QueuePairIsSetUpAgainAfterAnError)
{
    std::string data = pattern(100, 1);
    uct_mem_h memh;

    ASSERT_UCS_OK(
        uct_md_mem_reg(a->md, data.data(), data.size(), UCT_MD_MEM_ACCESS_LOCAL_READ, &memh));
    struct ibv_mr stale = *reinterpret_cast<struct ibv_mr *>(memh);
    uct_md_mem_dereg(a->md, memh);
    uct_iov_t iov = {data.data(), data.size(), &stale, 0, 1};
    ASSERT_EQ(UCS_INPROGRESS, uct_ep_am_zcopy(ep, Host::am_id, NULL, 0, &iov, 1, 0, NULL));
    ASSERT_TRUE(a->progress_until([&] { return a->stats().recoveries == 1; }));
    EXPECT_EQ(1u, a->stats().tx_failed);
    ASSERT_GE(send_bcopy(ep, "alive"), 0);
    ASSERT_TRUE(arrives(1));
    EXPECT_EQ("alive", b->received[0]);
    uct_ep_h back = b->connect(*a); // its receives are posted anew too
    ASSERT_GE(send_bcopy(back, "yes"), 0);
    ASSERT_TRUE(b->progress_until([&] { return a->received.size() == 1; }, a.get()));
    uct_ep_destroy(back);
}

} // namespace

int main(int argc, char **argv)
{
    testing::InitGoogleTest(&argc, argv);
    if (access("/sys/class/infiniband/rxe2", F_OK) != 0) {
        fprintf(stderr, "skipped: this needs two RDMA hosts, as contrib/rdma-vm has them\n");
        return 77; // what make check takes for "skipped"
    }
    return RUN_ALL_TESTS();
}

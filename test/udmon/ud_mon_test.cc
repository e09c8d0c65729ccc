// Transport ud_mon between two hosts of contrib/rdma-vm.
#include "ud_mon_fixture.h"

#include <arpa/inet.h>
#include <poll.h>
#include <unistd.h>

#include <memory>
#include <random>

namespace {

std::string pattern(size_t length, unsigned seed)
{
    std::mt19937 random(seed);
    std::string text(length, 0);

    for (char &c : text) {
        c = char(random());
    }
    return text;
}

class UdMonTest : public testing::Test {
protected:
    void SetUp() override { restart(); }
    void TearDown() override
    {
        close();
        for (const std::string &name : variables) {
            unsetenv(name.c_str());
        }
    }

    void close()
    {
        if (ep != nullptr) {
            uct_ep_destroy(ep);
            ep = nullptr;
        }
        a.reset();
        b.reset();
    }

    // Open both anew, with what set() has changed.
    void restart()
    {
        close();
        a = std::make_unique<Host>("rxe1");
        b = std::make_unique<Host>("rxe2");
        ep = a->connect(*b);
    }

    void set(const std::string &name, const std::string &value)
    {
        variables.push_back("UCX_IB_UD_MON_" + name);
        setenv(variables.back().c_str(), value.c_str(), 1);
    }

    bool arrives(size_t count)
    {
        return a->progress_until([&] { return b->received.size() >= count; }, b.get());
    }

    // Give what must not arrive the time to do so: a marker sent after it has come through.
    void settle()
    {
        size_t before = b->received.size();

        ASSERT_GE(send_bcopy(ep, "marker"), 0);
        ASSERT_TRUE(arrives(before + 1));
        ASSERT_EQ("marker", b->received.back());
        b->received.pop_back();
    }

    // The header of a datagram as a ud_mon of identity `sender` would write it.
    static ud_mon_header_t header(uint64_t sender, uint64_t seq, size_t length)
    {
        ud_mon_header_t h = {};

        h.magic = htole32(UD_MON_MAGIC);
        h.am_id = Host::am_id;
        h.length = htole16(length);
        h.sender = htole64(sender);
        h.seq = htole64(seq);
        return h;
    }

    std::unique_ptr<Host> a, b;
    uct_ep_h ep = nullptr;
    std::vector<std::string> variables;
};

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

TEST_F(UdMonTest, ShortCarriesHeaderAndPayload)
{
    uint64_t head = 0x1122334455667788;
    std::string data = pattern(200, 3);

    ASSERT_UCS_OK(uct_ep_am_short(ep, Host::am_id, head, data.data(), data.size()));
    ASSERT_TRUE(arrives(1));
    EXPECT_EQ(std::string((char *)&head, 8) + data, b->received[0]);
}

TEST_F(UdMonTest, ZcopyGathersAndCompletes)
{
    struct Completion {
        uct_completion_t comp;
        int calls = 0;
    } done;
    std::string one = pattern(100, 1), two = pattern(3000, 2), head = "header";
    uct_mem_h m1, m2;

    ASSERT_UCS_OK(uct_md_mem_reg(a->md, one.data(), one.size(), UCT_MD_MEM_ACCESS_LOCAL_READ, &m1));
    ASSERT_UCS_OK(uct_md_mem_reg(a->md, two.data(), two.size(), UCT_MD_MEM_ACCESS_LOCAL_READ, &m2));
    uct_iov_t iov[2] = {{one.data(), one.size(), m1, 0, 1}, {two.data(), two.size(), m2, 0, 1}};
    done.comp.func = [](uct_completion_t *c) { ++reinterpret_cast<Completion *>(c)->calls; };
    done.comp.count = 1;
    done.comp.status = UCS_OK;
    ASSERT_EQ(UCS_INPROGRESS, uct_ep_am_zcopy(ep, Host::am_id, head.data(), head.size(), iov, 2, 0,
                                              &done.comp));
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
        EXPECT_EQ((i < 16) ? 0u : 1u, a->stats().tx_doorbells);
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

// What comes while no receive is posted is lost; its number is known, and so is the place.
TEST_F(UdMonTest, TellsWantOfReceivesFromLossOnTheWay)
{
    set("RX_QUEUE_LEN", "64");
    set("RX_BATCH", "16");
    restart();
    for (int i = 0; i < 100; ++i) { // b makes no progress meanwhile
        ASSERT_GE(send_bcopy(ep, std::to_string(i)), 0);
    }
    ASSERT_TRUE(a->progress_until([&] { return uct_iface_flush(a->iface, 0, NULL) == UCS_OK; }));
    usleep(300000);
    ASSERT_TRUE(arrives(64));
    settle();
    uct_ud_mon_stats_t stats = b->stats();
    EXPECT_EQ(64u, b->received.size());
    EXPECT_EQ(36u, stats.lost);
    ASSERT_TRUE(stats.no_receive_known);
    EXPECT_EQ(36u, stats.no_receive);
    EXPECT_EQ(0u, stats.lost_on_way);
}

TEST_F(UdMonTest, CountsLostDoubledAndLatePerSender)
{
    RawQp raw("rxe1");

    raw.aim(*b);
    for (uint64_t seq : {0, 1, 5, 3, 3, 5, 6}) { // 2 and 4 never come
        raw.send(header(77, seq, 1), std::to_string(seq));
    }
    raw.send(header(78, 1, 1), "z"); // another sender, whose first is missing
    ASSERT_TRUE(arrives(6));
    settle();
    EXPECT_EQ((std::vector<std::string> {"0", "1", "5", "3", "6", "z"}), b->received);
    uct_ud_mon_stats_t stats = b->stats();
    EXPECT_EQ(3u, stats.lost);
    EXPECT_EQ(1u, stats.reordered);
    EXPECT_EQ(2u, stats.duplicated);
    EXPECT_EQ(3u, stats.senders);
    EXPECT_EQ(3u, stats.lost_on_way);
    std::vector<uct_ud_mon_sender_stats_t> senders;
    ASSERT_UCS_OK(uct_ud_mon_iface_senders(
        b->iface,
        [](const uct_ud_mon_sender_stats_t *s, void *arg) {
            static_cast<std::vector<uct_ud_mon_sender_stats_t> *>(arg)->push_back(*s);
        },
        &senders));
    ASSERT_EQ(3u, senders.size());
    EXPECT_EQ(77u, senders[0].sender); // silent longest
    EXPECT_EQ(2u, senders[0].lost);
    EXPECT_EQ(5u, senders[0].received);
    EXPECT_EQ(2u, senders[0].duplicated);
    EXPECT_EQ(1u, senders[1].lost);
}

TEST_F(UdMonTest, ForgetsTheSilentWhenTheTableIsFull)
{
    RawQp raw("rxe1");

    set("MAX_SENDERS", "2");
    restart();
    raw.aim(*b);
    for (uint64_t sender : {10, 11, 10, 12}) {
        raw.send(header(sender, (sender == 10) ? b->received.size() / 2 : 0, 1), "x");
        ASSERT_TRUE(arrives(b->received.size() + 1));
    }
    EXPECT_EQ(2u, b->stats().senders);
    EXPECT_EQ(1u, b->stats().evicted);
    raw.send(header(11, 50, 4), "back"); // forgotten: no base to count a loss from
    raw.send(header(11, 52, 4), "back");
    ASSERT_TRUE(arrives(6));
    EXPECT_EQ(1u, b->stats().lost);
}

TEST_F(UdMonTest, IgnoresAndCountsWhatIsNotOurs)
{
    RawQp raw("rxe1");
    ud_mon_header_t h;

    raw.aim(*b);
    raw.send("hello", 5);
    raw.send(std::string(4096, '\xff').data(), 4096);
    h = header(5, 0, 1);
    h.magic = htole32(UD_MON_MAGIC + 0x01000000); // a later version
    raw.send(h, "x");
    h = header(5, 0, 2);
    raw.send(h, "x"); // says two bytes, has one
    h = header(5, 0, 1);
    h.am_id = 200;
    raw.send(h, "x");
    h = header(5, 0, 1);
    h.flags = 0x80;
    raw.send(h, "x");
    raw.send(header(0, 0, 1), "x");
    h = header(5, 0, 1);
    h.am_id = Host::am_id + 1;
    raw.send(h, "x");
    settle();
    EXPECT_TRUE(b->received.empty());
    EXPECT_EQ(3u, b->stats().foreign);
    EXPECT_EQ(4u, b->stats().malformed);
    EXPECT_EQ(1u, b->stats().no_handler);
    EXPECT_EQ(0u, b->stats().lost);
    EXPECT_EQ(1u, b->stats().senders); // only the marker's
}

TEST_F(UdMonTest, WrongQueueKeyGetsNowhere)
{
    RawQp raw("rxe1");

    // Nobody knows a key who has not been told it: each interface has its own.
    EXPECT_NE(((ud_mon_iface_addr_t *)a->iface_addr().data())->qkey,
              ((ud_mon_iface_addr_t *)b->iface_addr().data())->qkey);
    raw.aim(*b);
    raw.qkey ^= 1;
    raw.send(header(5, 0, 1), "x");
    raw.send(header(5, 1, 1), "x");
    settle();
    EXPECT_TRUE(b->received.empty());
    EXPECT_EQ(2u, b->stats().bad_qkey);
}

TEST_F(UdMonTest, ReplyGoesToTheSenderOfTheCurrentDatagram)
{
    uct_ud_mon_rx_info_t info = {};
    uct_ep_h reply = nullptr;

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
    EXPECT_GT(info.sent_ns, 0u);
    EXPECT_NE(0u, info.sender);
    ASSERT_GE(send_bcopy(reply, "answer"), 0);
    ASSERT_TRUE(b->progress_until([&] { return a->received.size() == 1; }, a.get()));
    EXPECT_EQ("answer", a->received[0]);
    uct_ep_destroy(reply);
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

// Some devices look a datagram's address handle up only when it leaves. That of the last endpoint to
// a peer goes when the device has reported all sends that name it, and not sooner.
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

    ASSERT_UCS_OK(uct_md_mem_reg(a->md, data.data(), data.size(), UCT_MD_MEM_ACCESS_LOCAL_READ,
                                 &memh));
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

TEST_F(UdMonTest, MulticastReachesTheMembersOnly)
{
    struct sockaddr_in group = {};

    set("QKEY", "0x4d4f4e");
    restart();
    Host outsider("rxe2");
    group.sin_family = AF_INET;
    inet_pton(AF_INET, "239.7.7.7", &group.sin_addr);
    const auto *addr = reinterpret_cast<const struct sockaddr *>(&group);
    EXPECT_EQ(UCS_ERR_NO_ELEM, uct_ud_mon_mcast_status(b->iface, addr));
    ASSERT_UCS_OK(uct_ud_mon_mcast_join(a->iface, addr));
    ASSERT_UCS_OK(uct_ud_mon_mcast_join(b->iface, addr));
    EXPECT_EQ(UCS_ERR_ALREADY_EXISTS, uct_ud_mon_mcast_join(b->iface, addr));
    uct_ep_h all = a->connect_to_group(addr);
    auto joined = [&] {
        uct_iface_event_arm(a->iface, UCT_EVENT_RECV);
        uct_iface_event_arm(b->iface, UCT_EVENT_RECV);
        return (uct_ud_mon_mcast_status(a->iface, addr) == UCS_OK) &&
               (uct_ud_mon_mcast_status(b->iface, addr) == UCS_OK);
    };
    ASSERT_TRUE(a->progress_until(joined, b.get()));
    ASSERT_GE(send_bcopy(all, "to everybody"), 0);
    ASSERT_TRUE(arrives(1));
    EXPECT_EQ("to everybody", b->received[0]);
    EXPECT_TRUE(a->received.empty()); // not to itself
    outsider.progress();
    EXPECT_TRUE(outsider.received.empty());
    ASSERT_UCS_OK(uct_ud_mon_mcast_leave(b->iface, addr));
    EXPECT_EQ(UCS_ERR_NO_ELEM, uct_ud_mon_mcast_status(b->iface, addr));
    ASSERT_GE(send_bcopy(all, "gone"), 0);
    a->progress();
    settle();
    EXPECT_EQ(1u, b->received.size());
    uct_ep_destroy(all);
}

TEST_F(UdMonTest, MulticastNeedsACommonKey)
{
    struct sockaddr_in group = {};

    group.sin_family = AF_INET;
    inet_pton(AF_INET, "239.7.7.7", &group.sin_addr);
    EXPECT_EQ(UCS_ERR_INVALID_PARAM,
              uct_ud_mon_mcast_join(a->iface, reinterpret_cast<struct sockaddr *>(&group)));
    inet_pton(AF_INET, "10.9.0.2", &group.sin_addr);
    EXPECT_EQ(UCS_ERR_INVALID_PARAM,
              uct_ud_mon_mcast_join(a->iface, reinterpret_cast<struct sockaddr *>(&group)));
}

TEST_F(UdMonTest, IPv6)
{
    set("GID_INDEX", "2"); // fd09::i, or the link-local one: either is IPv6
    restart();
    ASSERT_GE(send_bcopy(ep, "six"), 0);
    ASSERT_TRUE(arrives(1));
}

TEST_F(UdMonTest, AddressesOfAnotherKindAreUnreachable)
{
    std::vector<uint8_t> dev = b->device_addr(), addr = b->iface_addr();
    auto reachable = [&] {
        return uct_iface_is_reachable(a->iface, (uct_device_addr_t *)dev.data(),
                                      (uct_iface_addr_t *)addr.data());
    };

    EXPECT_TRUE(reachable());
    dev[0] ^= 0x40;
    EXPECT_FALSE(reachable());
    dev[0] ^= 0x40;
    dev[1] ^= UD_MON_ADDR_ETH;
    EXPECT_FALSE(reachable());
    dev[1] ^= UD_MON_ADDR_ETH;
    dev[4 + 10] = 0; // not mapped IPv4 any more
    EXPECT_FALSE(reachable());
}

TEST_F(UdMonTest, LinkDownLosesAndLinkUpWorksAgain)
{
    ASSERT_EQ(1, a->stats().port_active);
    ASSERT_EQ(0, system("ip -n fab link set p1 down"));
    EXPECT_TRUE(a->progress_until([&] { return a->stats().port_active == 0; }));
    for (int i = 0; i < 5; ++i) {
        EXPECT_GE(send_bcopy(ep, "lost"), 0);
        a->progress();
        usleep(10000);
    }
    ASSERT_EQ(0, system("ip -n fab link set p1 up"));
    ASSERT_TRUE(a->progress_until([&] { return a->stats().port_active == 1; }));
    ASSERT_TRUE(a->progress_until(
        [&] {
            ssize_t ret = send_bcopy(ep, "again"); // the queue may be full of what could not leave
            EXPECT_TRUE((ret >= 0) || (ret == UCS_ERR_NO_RESOURCE)) << ret;
            return !b->received.empty() && (b->received.back() == "again");
        },
        b.get()));
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

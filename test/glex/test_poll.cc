/* glex_ext_poll(): one look at both queues, and beside the calls for each of them. */
#include "internals.h"
#include "message.h"
#include "process.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <random>

static const uint32_t CAPACITY = 64;

class poll_ : public testing::Test
{
  protected:
    /* The number of the next one, which is to be of that kind; -1: there is nothing. */
    int64_t take(Kind kind)
    {
        if (b.poll(&arrival) != GLEX_SUCCESS) {
            return -1;
        }
        EXPECT_EQ(kind, kind_of(arrival));
        return static_cast<int64_t>(number_of(arrival));
    }

    void post_both(uint64_t events, uint64_t mps)
    {
        while (events-- > 0) {
            ASSERT_OK(post(EVENT, a, b.addr(), Message(next[EVENT]++)));
        }
        while (mps-- > 0) {
            ASSERT_OK(post(MP, a, b.addr(), Message(next[MP]++)));
        }
    }

    /* Has every message come, and in order? */
    void expect_all_taken()
    {
        uint64_t taken[2] = {};

        while (b.poll(&arrival) == GLEX_SUCCESS) {
            ASSERT_EQ(taken[kind_of(arrival)]++, number_of(arrival));
        }
        EXPECT_EQ(next[EVENT], taken[EVENT]);
        EXPECT_EQ(next[MP], taken[MP]);
    }

    Device dev;
    Ep a{dev}, b{dev, ep_attr(GLEX_ANY_EP_NUM, CAPACITY)};
    uint64_t next[2] = {};
    glex_ext_arrival arrival = {};
};

TEST_F(poll_, empty)
{
    for (int i = 0; i < 10000; i++) { /* also where it looks after stalled queues */
        ASSERT_EQ(GLEX_NO_EVENT, b.poll(&arrival));
    }
    EXPECT_EQ(0u, b.counters().event_rx + b.counters().mp_rx + b.counters().abandoned);
}

TEST_F(poll_, tells_how_far_it_is)
{
    glex_ext_queues queues;

    post_both(3, 2);
    ASSERT_OK(glex_ext_query_queues(b, &queues));
    EXPECT_EQ(3u, queues.events_arrived);
    EXPECT_EQ(2u, queues.mps_arrived);
    EXPECT_EQ(0u, queues.events_taken + queues.mps_taken);
    for (int i = 0; i < 4; i++) {
        ASSERT_OK(b.poll(&arrival));
    }
    ASSERT_OK(glex_ext_query_queues(b, &queues));
    EXPECT_EQ(4u, queues.events_taken + queues.mps_taken);
    ASSERT_OK(b.poll(&arrival));
    ASSERT_EQ(GLEX_NO_EVENT, b.poll(&arrival));
    ASSERT_OK(glex_ext_arm(b)); /* a state of the queue is not part of the number */
    ASSERT_OK(glex_ext_query_queues(b, &queues));
    EXPECT_EQ(3u, queues.events_arrived);
    EXPECT_EQ(3u, queues.events_taken);
    EXPECT_EQ(2u, queues.mps_arrived);
    EXPECT_EQ(2u, queues.mps_taken);
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_ext_query_queues(b, nullptr));
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_ext_query_queues(nullptr, &queues));
}

TEST_F(poll_, takes_all_of_both)
{
    post_both(CAPACITY, CAPACITY);
    expect_all_taken();
    EXPECT_EQ(uint64_t(CAPACITY), b.counters().event_rx);
    EXPECT_EQ(uint64_t(CAPACITY), b.counters().mp_rx);
}

/* Both queues are always full: they take turns. */
TEST_F(poll_, neither_flood_keeps_the_other_waiting)
{
    unsigned in_row[2] = {};

    for (int i = 0; i < 5000; i++) {
        for (Kind kind : {EVENT, MP}) {
            while (post(kind, a, b.addr(), Message(1)) == GLEX_SUCCESS) {
            }
        }
        ASSERT_OK(b.poll(&arrival));
        Kind kind = kind_of(arrival);
        in_row[kind == EVENT ? MP : EVENT] = 0;
        ASSERT_LE(++in_row[kind], 1u) << kind;
    }
}

/* One message comes beside a flood, at any moment: at most one is taken before it. */
TEST_F(poll_, no_flood_keeps_a_message_waiting)
{
    std::mt19937 random(1);

    for (Kind flood : {EVENT, MP}) {
        Kind rare = flood == EVENT ? MP : EVENT;
        unsigned before = 0, taken = 0;
        bool waits = false;

        for (int i = 0; i < 5000; i++) {
            while (post(flood, a, b.addr(), Message(1)) == GLEX_SUCCESS) {
            }
            if (!waits && random() % 40 == 0) {
                ASSERT_OK(post(rare, a, b.addr(), Message(1)));
                waits = true;
                before = 0;
            }
            ASSERT_OK(b.poll(&arrival));
            if (kind_of(arrival) == rare) {
                ASSERT_TRUE(waits);
                waits = false;
                taken++;
            } else {
                ASSERT_LE(++before, waits ? 1u : 5000u);
            }
        }
        EXPECT_LT(50u, taken);
        while (b.poll(&arrival) == GLEX_SUCCESS) {
        }
    }
}

/* An entry in use of one queue while the other's are taken and posted again. */
TEST_F(poll_, what_was_handed_out_stays)
{
    uint64_t taken[2] = {};

    for (int i = 0; i < 1000; i++) {
        if (b.poll(&arrival) == GLEX_SUCCESS) {
            for (Kind kind : {EVENT, MP}) {
                while (post(kind, a, b.addr(), Message(next[kind])) == GLEX_SUCCESS) {
                    next[kind]++;
                }
            }
            expect_message(Message(taken[kind_of(arrival)]++), arrival);
            ASSERT_FALSE(HasFatalFailure());
        } else {
            post_both(1, 1);
        }
    }
    EXPECT_LT(400u, taken[EVENT]);
    EXPECT_LT(400u, taken[MP]);
}

/* ---- events and messages of other calls ----------------------------------------------------- */

TEST_F(poll_, plain_message)
{
    a.send_number(b.addr(), 7);
    a.send(b.addr(), nullptr, 0);
    EXPECT_EQ(7, take(MP));
    EXPECT_EQ(8u, arrival.len);
    EXPECT_EQ(a.addr().v, arrival.src.v);
    ASSERT_OK(b.poll(&arrival));
    EXPECT_EQ(0u, arrival.len);
}

/* Data of an immediate put is in place when its event is handed out. */
TEST_F(poll_, immediate_put)
{
    char *mem = b.alloc(4096);

    for (int flag : {0, GLEX_EXT_MEM_EVENT_DATA}) {
        Target to = b.target(b.reg(mem, 4096, GLEX_MEM_WRITE | flag));

        for (uint32_t len : {0, 1, 8, 96}) {
            std::string data(len, static_cast<char>('a' + len));
            glex_imm_rdma_req_t req = imm_put(to, data.data(), len, 100, 1 + len);

            ASSERT_OK(glex_imm_rdma(a, &req, nullptr));
            EXPECT_EQ(1 + len, take(EVENT));
            EXPECT_EQ(1u, arrival.event->cookie_1);
            EXPECT_EQ(data, std::string(mem + 100, len));
            EXPECT_EQ(0, mem[99]);
            EXPECT_EQ(0, mem[100 + len]);
            memset(mem, 0, 4096);
        }
    }
}

/* Probed before it is polled, or polled and then probed: its data is not placed again. */
TEST_F(poll_, carried_data_is_placed_once)
{
    char *mem = b.alloc(4096);
    Target to = b.target(b.reg(mem, 4096, GLEX_MEM_WRITE | GLEX_EXT_MEM_EVENT_DATA));
    glex_event_t *event;

    for (uint32_t i = 1; i <= 3; i++) {
        glex_imm_rdma_req_t req = imm_put(to, "hello", 6, 100 * i, i);
        ASSERT_OK(glex_imm_rdma(a, &req, nullptr));
    }
    ASSERT_OK(glex_probe_first_event(b, 0, &event));
    ASSERT_OK(glex_probe_next_event(b, &event));
    strcpy(mem + 200, "mine");
    ASSERT_OK(glex_probe_first_event(b, 0, &event)); /* the cursor is behind 1 again */
    EXPECT_EQ(2, take(EVENT));
    EXPECT_STREQ("mine", mem + 200);
    EXPECT_EQ(0, mem[300]);
    EXPECT_EQ(3, take(EVENT));
    EXPECT_STREQ("hello", mem + 300);
    strcpy(mem + 300, "mine");
    for (uint64_t i = 1; i <= 3; i++) { /* none was given back */
        ASSERT_OK(i == 1 ? glex_probe_first_event(b, 0, &event) : glex_probe_next_event(b, &event));
        EXPECT_EQ(i, event->cookie_0);
    }
    EXPECT_STREQ("mine", mem + 300);
}

TEST_F(poll_, events_of_rdma)
{
    glex_mem_handle_t mh = b.reg(b.alloc(64), 64);
    glex_rdma_req_t req = rdma(GLEX_RDMA_TYPE_PUT, b.target(mh), mh, 8, 0, 16);

    req.flag = GLEX_FLAG_LOCAL_EVT | GLEX_FLAG_REMOTE_EVT;
    req.local_evt = {.cookie_0 = 1, .cookie_1 = 1};
    req.rmt_evt = {.cookie_0 = 2, .cookie_1 = 1};
    ASSERT_OK(glex_rdma(b, &req, nullptr));
    EXPECT_EQ(1, take(EVENT));
    EXPECT_EQ(2, take(EVENT));
    req.len = 65; /* fails: the local event's slot is one to be passed over */
    req.flag = GLEX_FLAG_LOCAL_EVT;
    ASSERT_OK(glex_rdma(b, &req, nullptr));
    post_both(1, 0);
    EXPECT_EQ(0, take(EVENT));
    EXPECT_EQ(-1, take(EVENT));
}

/* ---- beside the calls for one queue --------------------------------------------------------- */

/* One after the other, with all discarded in between. */
TEST_F(poll_, in_turn_with_probes)
{
    glex_event_t *event;
    glex_ep_addr_t src;
    uint32_t len;
    void *data;

    for (int64_t i = 0; i < 200; i += 4) {
        post_both(4, 4);
        ASSERT_EQ(i, b.receive_event(0));
        ASSERT_OK(glex_probe_first_mp(b, 0, &src, &data, &len));
        ASSERT_EQ(24 + MAX_LEN, len);
        ASSERT_OK(glex_discard_probed_mp(b));
        for (int j = 0; j < 4; j++) {
            ASSERT_OK(b.poll(&arrival));
        }
        /* taken, and perhaps not given back: discarding does that */
        ASSERT_OK(glex_discard_probed_event(b));
        ASSERT_OK(glex_discard_probed_mp(b));
        while (glex_probe_first_event(b, 0, &event) == GLEX_SUCCESS) {
            ASSERT_OK(glex_discard_probed_event(b));
        }
        while (glex_probe_first_mp(b, 0, &src, &data, &len) == GLEX_SUCCESS) {
            ASSERT_OK(glex_discard_probed_mp(b));
        }
        ASSERT_EQ(GLEX_NO_EVENT, b.poll(&arrival));
    }
    EXPECT_EQ(200u, b.counters().event_rx);
    EXPECT_EQ(200u, b.counters().mp_rx);
}

/* ---- many, and those that die --------------------------------------------------------------- */

static const uint64_t MANY_NUM = 20000;

CHILD(poll_many_sender)
{
    Device dev;
    Ep ep(dev);
    glex_ep_addr_t to = {.v = receive_down<uint64_t>()};

    for (uint64_t i = 0; i < MANY_NUM; i++) {
        for (Kind kind : {EVENT, MP}) {
            Message m(i, static_cast<uint32_t>(i % 89));

            m.word_1 = ep.addr().v;
            while (post(kind, ep, to, m) == GLEX_BUSY) {
                sched_yield();
            }
        }
    }
    EXPECT_TRUE(ep.errors().empty());
    send_up(1);
    receive_down<int>();
    return testing::Test::HasFailure();
}

TEST_F(poll_, many_processes_to_one)
{
    const int num = 4;
    Process senders[num] = {Process("poll_many_sender"), Process("poll_many_sender"),
                            Process("poll_many_sender"), Process("poll_many_sender")};
    std::map<uint64_t, uint64_t> last[2];

    for (Process &sender : senders) {
        sender.send(b.addr().v);
    }
    for (uint64_t i = 0; i < 2 * num * MANY_NUM; i++) {
        ASSERT_TRUE(b.poll_long(&arrival));
        Kind kind = kind_of(arrival);
        uint64_t src = kind == EVENT ? arrival.event->cookie_1 : arrival.src.v;
        uint64_t n = last[kind][src]++;
        Message m(n, static_cast<uint32_t>(n % 89));
        m.word_1 = src;
        expect_message(m, arrival);
        ASSERT_FALSE(HasFatalFailure()) << "order of a pair";
    }
    EXPECT_EQ(GLEX_NO_EVENT, b.poll(&arrival));
    EXPECT_EQ(static_cast<size_t>(num), last[EVENT].size());
    EXPECT_EQ(static_cast<size_t>(num), last[MP].size());
    for (Process &sender : senders) {
        sender.receive<int>();
        sender.send(0);
        EXPECT_EQ(0, sender.wait());
    }
}

/* Claimed and never published: what is behind comes, in both queues. */
TEST_F(poll_, claim_without_publication)
{
    for (Kind kind : {EVENT, MP}) {
        Ep dead(dev);

        internals_claim_only(dead, b.addr(), kind == MP ? 0 : 1);
        internals_claim_only(dead, b.addr(), kind == MP ? 0 : 1);
    }
    post_both(1, 1);
    for (int i = 0; i < 2; i++) {
        ASSERT_TRUE(b.poll_long(&arrival));
        EXPECT_EQ(0u, number_of(arrival));
    }
    EXPECT_EQ(GLEX_NO_EVENT, b.poll(&arrival));
    EXPECT_EQ(4u, b.counters().abandoned);
}

/* Also while the other queue is never empty when it is looked at, or is so every other time. */
TEST_F(poll_, claim_without_publication_beside_a_flood)
{
    for (unsigned at_once : {1, 2}) {
        for (Kind flood : {EVENT, MP}) {
            Kind stalled = flood == EVENT ? MP : EVENT;
            bool came = false;
            {
                Ep dead(dev);
                internals_claim_only(dead, b.addr(), stalled == MP ? 0 : 1);
            }
            ASSERT_OK(post(stalled, a, b.addr(), Message(1)));
            for (unsigned i = 0; i < at_once - 1; i++) {
                ASSERT_OK(post(flood, a, b.addr(), Message(2)));
            }
            for (int i = 0; i < 4000000 && !came; i++) {
                ASSERT_OK(post(flood, a, b.addr(), Message(2)));
                ASSERT_OK(b.poll(&arrival));
                came = kind_of(arrival) == stalled;
                if (at_once == 1 && !came) {
                    came = b.poll(&arrival) == GLEX_SUCCESS && kind_of(arrival) == stalled;
                }
            }
            EXPECT_TRUE(came) << at_once << " " << flood;
            while (b.poll(&arrival) == GLEX_SUCCESS) {
            }
        }
    }
}

/* A producer that lives, however slow, is waited for, and the other queue goes on. */
TEST_F(poll_, slow_producer_is_waited_for)
{
    for (Kind kind : {EVENT, MP}) {
        Ep slow(dev);

        internals_claim_only(slow, b.addr(), kind == MP ? 0 : 1);
        ASSERT_OK(post(kind, a, b.addr(), Message(2)));
        for (int i = 0; i < 100000; i++) {
            ASSERT_EQ(GLEX_NO_EVENT, b.poll(&arrival));
        }
        ASSERT_OK(post(kind == MP ? EVENT : MP, a, b.addr(), Message(3)));
        ASSERT_OK(b.poll(&arrival));
        EXPECT_EQ(3u, number_of(arrival));
        EXPECT_EQ(kind == MP ? 1u : 0u, b.counters().abandoned);
        slow.destroy();
        ASSERT_TRUE(b.poll_long(&arrival));
        EXPECT_EQ(2u, number_of(arrival));
    }
    EXPECT_EQ(2u, b.counters().abandoned);
}

/* A post that is on its way is not yet a stalled one: to look up its producer takes the time of
 * thirty messages, and came with one in 400 of a ping-pong. */
TEST_F(poll_, post_on_its_way_is_not_looked_up)
{
    for (Kind kind : {EVENT, MP}) {
        Ep slow(dev);
        unsigned before;

        internals_claim_only(slow, b.addr(), kind == MP ? 0 : 1);
        before = internals_lock_queries();
        for (int i = 0; i < 5000; i++) { /* at least one look after stalled queues */
            ASSERT_EQ(GLEX_NO_EVENT, b.poll(&arrival));
        }
        EXPECT_EQ(before, internals_lock_queries());
        for (int i = 0; i < 100000000 && internals_lock_queries() == before; i++) {
            ASSERT_EQ(GLEX_NO_EVENT, b.poll(&arrival));
        }
        EXPECT_EQ(before + 1, internals_lock_queries()) << "one that takes long is looked up";
        slow.destroy();
        ASSERT_OK(post(kind, a, b.addr(), Message(1)));
        ASSERT_TRUE(b.poll_long(&arrival));
    }
}

/* ---- what no producer would write ----------------------------------------------------------- */

static uint64_t event_ctrl(uint64_t pos, uint64_t len)
{
    return ((pos + 1) & 0xffffffff) | len << 32;
}

/* Write a slot as if by a producer: its control word, and what follows. */
static void forge(const Ep &ep, int which, uint64_t pos, uint64_t len)
{
    uint64_t words[] = {event_ctrl(pos, len), 77, 1};
    char path[4096];

    internals_segment_path(ep.addr().v, path, sizeof(path));
    int fd = open(path, O_RDWR | O_CLOEXEC);
    ASSERT_EQ(static_cast<ssize_t>(sizeof(words)),
              pwrite(fd, words, sizeof(words),
                     static_cast<off_t>(internals_slot_offset(ep, which, pos))));
    close(fd);
}

TEST_F(poll_, lengths_that_no_producer_would_write)
{
    const uint64_t bad[] = {97, 113, 255, 0x100, 0x1ff, 0x200, 0x7fffffff, 0xffffffff};
    const uint64_t good[] = {0, 96};
    uint64_t pos = 0;

    for (uint64_t len : bad) {
        internals_claim_only(a, b.addr(), 1);
        forge(b, 1, pos++, len);
    }
    for (uint64_t len : good) {
        internals_claim_only(a, b.addr(), 1);
        forge(b, 1, pos++, len);
        ASSERT_OK(b.poll(&arrival)) << len;
        EXPECT_EQ(77u, number_of(arrival));
    }
    EXPECT_EQ(GLEX_NO_EVENT, b.poll(&arrival));
    pos = 0;
    for (uint64_t len : {113, 0x100, 0x107, 0x7fffffff, -1}) {
        internals_claim_only(a, b.addr(), 0);
        forge(b, 0, pos++, len & 0xffffffff);
    }
    for (uint64_t len : {0, 112}) {
        internals_claim_only(a, b.addr(), 0);
        forge(b, 0, pos++, len);
        ASSERT_OK(b.poll(&arrival));
        EXPECT_EQ(MP, kind_of(arrival));
        EXPECT_EQ(77u, arrival.src.v);
        EXPECT_EQ(len, arrival.len);
    }
    EXPECT_EQ(GLEX_NO_EVENT, b.poll(&arrival));
}

/* The longest queues that there are, full of them: neither time nor stack runs out. */
TEST_F(poll_, a_queue_full_of_nothing)
{
    Ep big(dev, ep_attr(GLEX_ANY_EP_NUM, 65536));

    for (int which = 0; which < 2; which++) {
        for (uint64_t pos = 0; pos < 65536; pos++) {
            internals_claim_only(a, big.addr(), which);
            forge(big, which, pos, 0xffffffff);
        }
    }
    ASSERT_EQ(GLEX_NO_EVENT, big.poll(&arrival));
    ASSERT_OK(post(EVENT, a, big.addr(), Message(5)));
    ASSERT_OK(big.poll(&arrival));
    EXPECT_EQ(5u, number_of(arrival));
}

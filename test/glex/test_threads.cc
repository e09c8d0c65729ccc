/* Endpoints that several threads use. */
#include "collective.h"
#include "internals.h"
#include "process.h"
#include "sanitizer.h"

#include <sys/wait.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

/* Under a sanitizer each call takes far longer. */
static const int NUMBERS = under_sanitizer() ? 20000 : 100000;

class threads : public testing::Test
{
  protected:
    Device dev;
    Ep ep{dev, ep_attr(), THREADS}, peer{dev, ep_attr(), THREADS};
};

/* Run functions side by side, until all have returned. */
static void side_by_side(std::vector<std::function<void()>> functions)
{
    std::vector<std::thread> running;

    for (auto &function : functions) {
        running.emplace_back(function);
    }
    for (auto &thread : running) {
        thread.join();
    }
}

/* Which numbers of several posters came, and how often. */
class Arrivals
{
  public:
    Arrivals(int posters, int numbers) : posters_(posters), numbers_(numbers)
    {
        for (auto &count : counts_) {
            count = 0;
        }
    }

    /* What a poster posts for its i-th number. */
    static uint64_t word(int poster, int i)
    {
        return static_cast<uint64_t>(poster) << 32 | static_cast<uint32_t>(i);
    }

    void came(uint64_t word)
    {
        ASSERT_LT(word >> 32, static_cast<uint64_t>(posters_));
        ASSERT_LT(static_cast<uint32_t>(word), static_cast<uint32_t>(numbers_));
        counts_[(word >> 32) * numbers_ + static_cast<uint32_t>(word)]++;
        total_++;
    }

    bool complete() const
    {
        return total_ >= posters_ * numbers_;
    }

    void expect_each_once() const
    {
        int lost = 0, twice = 0;

        for (const auto &count : counts_) {
            lost += count == 0;
            twice += count > 1;
        }
        EXPECT_EQ(0, lost);
        EXPECT_EQ(0, twice);
    }

  private:
    int posters_, numbers_;
    std::vector<std::atomic<uint8_t>> counts_ =
        std::vector<std::atomic<uint8_t>>(static_cast<size_t>(posters_ * numbers_));
    std::atomic<int> total_{0};
};

static void post_events(const Ep &ep, Target to, int poster)
{
    for (int i = 0; i < NUMBERS; i++) {
        glex_imm_rdma_req_t req = imm_put(to, nullptr, 0, 0, 1);
        glex_ret_t ret;

        req.flag |= GLEX_EXT_FLAG_NO_LOSS;
        req.rmt_evt.cookie_0 = Arrivals::word(poster, i);
        while ((ret = glex_imm_rdma(ep, &req, nullptr)) == GLEX_BUSY) {
            std::this_thread::yield();
        }
        ASSERT_OK(ret);
    }
}

static void post_messages(const Ep &ep, const Ep &to, int poster)
{
    for (int i = 0; i < NUMBERS; i++) {
        uint64_t data[3] = {Arrivals::word(poster, i), Arrivals::word(poster, i), ~0ull};
        glex_imm_mp_req_t req = {};
        glex_ret_t ret;

        req.rmt_ep_addr = to.addr();
        req.data = data;
        req.len = sizeof(data);
        req.flag = GLEX_EXT_FLAG_NO_LOSS;
        while ((ret = glex_send_imm_mp(ep, &req, nullptr)) == GLEX_BUSY) {
            std::this_thread::yield();
        }
        ASSERT_OK(ret);
    }
}

/* As programs do: the first one and up to `more` behind it, and all of them are discarded. What a
 * poster posts comes in order to each who probes. */
static void poll_events(const Ep &ep, Arrivals &arrivals, int timeout, int more)
{
    glex_event_t *event;
    int64_t last[2] = {-1, -1};

    while (!arrivals.complete()) {
        glex_ret_t ret = glex_probe_first_event(ep, timeout, &event);
        for (int i = 0; ret == GLEX_SUCCESS; i++) {
            uint64_t word = event->cookie_0;
            EXPECT_LT(last[word >> 32], static_cast<int64_t>(word & UINT32_MAX));
            last[word >> 32] = static_cast<int64_t>(word & UINT32_MAX);
            arrivals.came(word);
            if (i == more) {
                break;
            }
            ret = glex_probe_next_event(ep, &event);
        }
        EXPECT_OK(glex_discard_probed_event(ep));
    }
}

static void came_message(Arrivals &arrivals, const uint64_t *data, uint32_t len)
{
    EXPECT_EQ(24u, len);
    EXPECT_EQ(data[0], data[1]);
    EXPECT_EQ(~0ull, data[2]);
    arrivals.came(data[0]);
}

static void poll_messages(const Ep &ep, Arrivals &arrivals, int timeout, int more)
{
    glex_ep_addr_t src;
    uint32_t len;
    void *data;

    while (!arrivals.complete()) {
        glex_ret_t ret = glex_probe_first_mp(ep, timeout, &src, &data, &len);
        for (int i = 0; ret == GLEX_SUCCESS; i++) {
            came_message(arrivals, static_cast<uint64_t *>(data), len);
            if (i == more) {
                break;
            }
            ret = glex_probe_next_mp(ep, &src, &data, &len);
        }
        EXPECT_OK(glex_discard_probed_mp(ep));
    }
}

static void receive_messages(const Ep &ep, Arrivals &arrivals, int timeout)
{
    uint64_t data[14];
    glex_ep_addr_t src;
    uint32_t len;

    while (!arrivals.complete()) {
        if (glex_receive_mp(ep, timeout, &src, data, &len) == GLEX_SUCCESS) {
            came_message(arrivals, data, len);
        }
    }
}

/* Two that post and two that poll: none comes twice, and none is lost. */
TEST_F(threads, events_come_once)
{
    Arrivals arrivals(2, NUMBERS);
    Target to = peer.target(peer.reg(peer.alloc(64), 64));

    side_by_side({[&] { post_events(ep, to, 0); }, [&] { post_events(ep, to, 1); },
                  [&] { poll_events(peer, arrivals, 0, 0); },
                  [&] { poll_events(peer, arrivals, 0, 5); }});
    arrivals.expect_each_once();
    EXPECT_EQ(2u * NUMBERS, ep.counters().imm_put_tx);
    EXPECT_EQ(2u * NUMBERS, peer.counters().event_rx);
}

TEST_F(threads, messages_come_once)
{
    Arrivals arrivals(2, NUMBERS);

    side_by_side({[&] { post_messages(ep, peer, 0); }, [&] { post_messages(ep, peer, 1); },
                  [&] { receive_messages(peer, arrivals, 0); },
                  [&] { poll_messages(peer, arrivals, 0, 7); }});
    arrivals.expect_each_once();
    EXPECT_EQ(2u * NUMBERS, ep.counters().mp_tx);
    EXPECT_EQ(2u * NUMBERS, peer.counters().mp_rx);
}

/* The same by threads that sleep, of one endpoint that posts to itself. */
TEST_F(threads, sleepers_get_each_once)
{
    Arrivals events(1, NUMBERS), messages(1, NUMBERS);
    Target self = ep.target(ep.reg(ep.alloc(64), 64));

    side_by_side({[&] { post_events(ep, self, 0); }, [&] { post_messages(ep, ep, 0); },
                  [&] { poll_events(ep, events, 1, 0); }, [&] { poll_events(ep, events, 3, 3); },
                  [&] { receive_messages(ep, messages, 1); },
                  [&] { poll_messages(ep, messages, 3, 3); }});
    events.expect_each_once();
    messages.expect_each_once();
}

/* A thread that does one thing after another when it is told to. */
class Worker
{
  public:
    ~Worker()
    {
        run(nullptr);
        thread_.join();
    }

    /* Have it done, and wait for it. */
    void run(std::function<void()> function)
    {
        std::unique_lock<std::mutex> lock(mutex_);

        function_ = std::move(function);
        busy_ = true;
        changed_.notify_all();
        changed_.wait(lock, [this] { return !busy_; });
    }

  private:
    void loop()
    {
        std::unique_lock<std::mutex> lock(mutex_);
        bool more = true;

        while (more) {
            changed_.wait(lock, [this] { return busy_; });
            more = function_ != nullptr;
            if (more) {
                function_();
            }
            busy_ = false;
            changed_.notify_all();
        }
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::function<void()> function_;
    bool busy_ = false;
    std::thread thread_{[this] { loop(); }};
};

/* Two threads of an endpoint with small queues, by turns. */
class threads_turns : public testing::Test
{
  protected:
    void send(int from, int to)
    {
        for (int i = from; i <= to; i++) {
            sender.send_number(ep.addr(), static_cast<uint64_t>(i));
        }
    }

    /* The number in a probed message, or -1; by a worker. Its data stays where it is. */
    int64_t first(Worker &worker, void **data_p = nullptr)
    {
        return probe(worker, true, data_p);
    }
    int64_t next(Worker &worker, void **data_p = nullptr)
    {
        return probe(worker, false, data_p);
    }
    void discard(Worker &worker)
    {
        worker.run([&] { EXPECT_OK(glex_discard_probed_mp(ep)); });
    }
    int64_t receive(Worker &worker)
    {
        int64_t number = -1;

        worker.run([&] { number = ep.receive_number(0); });
        return number;
    }

    Device dev;
    Ep ep{dev, ep_attr(GLEX_ANY_EP_NUM, 16), THREADS}, sender{dev};
    Worker a, b;

  private:
    int64_t probe(Worker &worker, bool is_first, void **data_p)
    {
        int64_t number = -1;

        worker.run([&] {
            glex_ep_addr_t src;
            uint32_t len;
            void *data;
            glex_ret_t ret = is_first ? glex_probe_first_mp(ep, 0, &src, &data, &len) :
                                        glex_probe_next_mp(ep, &src, &data, &len);

            if (ret == GLEX_SUCCESS) {
                EXPECT_EQ(8u, len);
                EXPECT_EQ(sender.addr().v, src.v);
                number = *static_cast<int64_t *>(data);
                if (data_p != nullptr) {
                    *data_p = data;
                }
            }
        });
        return number;
    }
};

TEST_F(threads_turns, each_has_its_own)
{
    send(0, 5);
    EXPECT_EQ(0, first(a));
    EXPECT_EQ(1, first(b));
    EXPECT_EQ(2, next(b));
    EXPECT_EQ(3, next(a));
    EXPECT_EQ(1, first(b)) << "the oldest of its own, again";
    EXPECT_EQ(2, next(b));
    EXPECT_EQ(0, first(a));
    EXPECT_EQ(3, next(a));
    EXPECT_EQ(4, next(b));
    discard(a);
    EXPECT_EQ(5, first(a));
    discard(b);
    discard(a);
    EXPECT_EQ(-1, first(a));
    EXPECT_EQ(-1, first(b));
    EXPECT_EQ(6u, ep.counters().mp_rx);
}

TEST_F(threads_turns, discard_is_of_ones_own)
{
    send(0, 1);
    EXPECT_EQ(0, first(a));
    discard(b);
    EXPECT_EQ(0, first(a));
    EXPECT_EQ(1, first(b));
    discard(a);
    EXPECT_EQ(1, first(b));
    EXPECT_EQ(-1, next(b));
    discard(b);
    EXPECT_EQ(-1, first(b));
}

/* A cursor that begins again: what was probed behind it stays that thread's. */
TEST_F(threads_turns, what_was_probed_is_kept)
{
    send(0, 3);
    EXPECT_EQ(0, first(a));
    EXPECT_EQ(1, next(a));
    EXPECT_EQ(0, first(a));
    discard(a);
    EXPECT_EQ(2, first(b));
    EXPECT_EQ(3, receive(b) == 2 ? receive(b) : -1);
    EXPECT_EQ(-1, first(b));
    for (int i = 0; i < 10000; i++) {
        ASSERT_EQ(-1, next(b)) << "idle: passes over nothing that is held";
    }
    EXPECT_EQ(1, first(a));
    discard(a);
    EXPECT_EQ(-1, first(a));
}

/* What a thread has probed is there until it discards it, though others take what comes later and
 * the queue goes round many times. */
TEST_F(threads_turns, data_stays)
{
    void *data_a = nullptr, *data_b = nullptr;

    send(0, 1);
    EXPECT_EQ(0, first(a, &data_a));
    EXPECT_EQ(1, first(b, &data_b));
    discard(a);
    for (int i = 2; i < 100; i++) {
        send(i, i);
        EXPECT_EQ(i, receive(a));
    }
    EXPECT_EQ(1, *static_cast<int64_t *>(data_b));
    *static_cast<int64_t *>(data_b) = 7;
    EXPECT_EQ(7, first(b)) << "it can be written to";
    discard(b);
    EXPECT_EQ(-1, first(b));
}

TEST_F(threads_turns, receive_takes_the_oldest_of_its_own)
{
    send(0, 4);
    EXPECT_EQ(0, first(a));
    EXPECT_EQ(1, first(b));
    EXPECT_EQ(2, next(b));
    EXPECT_EQ(1, receive(b));
    EXPECT_EQ(2, receive(b));
    EXPECT_EQ(3, receive(b));
    EXPECT_EQ(0, receive(a));
    EXPECT_EQ(4, receive(a));
    EXPECT_EQ(-1, receive(a));
}

/* Entries that a thread keeps take no room in the queue, and a thread keeps as many as the queue has
 * at most. */
TEST_F(threads_turns, kept_entries_take_no_room)
{
    glex_imm_mp_req_t req = {};

    send(0, 15);
    req.rmt_ep_addr = ep.addr();
    req.flag = GLEX_EXT_FLAG_NO_LOSS;
    EXPECT_EQ(GLEX_BUSY, glex_send_imm_mp(sender, &req, nullptr));
    EXPECT_EQ(0, first(a));
    for (int i = 1; i < 16; i++) {
        EXPECT_EQ(i, next(b));
    }
    send(16, 31);
    EXPECT_EQ(GLEX_BUSY, glex_send_imm_mp(sender, &req, nullptr));
    EXPECT_EQ(16, next(b));
    b.run([&] {
        glex_ep_addr_t src;
        uint32_t len;
        void *data;

        EXPECT_EQ(GLEX_NO_MEM_RESOURCE, glex_probe_next_mp(ep, &src, &data, &len))
            << "as many as the queue has entries";
    });
    discard(a);
    for (int i = 17; i < 32; i++) {
        EXPECT_EQ(i, receive(a));
    }
    EXPECT_EQ(1, first(b));
}

/* Threads probe, keep, discard and receive in any mix; some end with entries that they keep, or never
 * call again. Each message comes to one thread, once, and the sender is never refused for more than
 * the queue's entries. */
TEST_F(threads, any_mix_of_probes)
{
    enum { ROUNDS = 300, THREADS_NUM = 8, CAPACITY = 16 };
    Ep small(dev, ep_attr(GLEX_ANY_EP_NUM, CAPACITY), THREADS), sender(dev);
    std::vector<int> came(ROUNDS * CAPACITY);
    std::vector<std::unique_ptr<Worker>> workers(THREADS_NUM);
    unsigned seed = 1;
    int sent = 0, taken = 0;

    auto mix = [&](unsigned dice) {
        glex_ep_addr_t src;
        uint64_t copy;
        uint32_t len = 0;
        void *data;
        auto count = [&](uint64_t number) {
            ASSERT_LT(number, came.size());
            came[number]++;
            taken++;
        };
        auto count_new = [&](void *probed) { /* the mark says that this thread has seen it */
                                             uint64_t *number = static_cast<uint64_t *>(probed);

                                             if (*number >> 63 == 0) {
                                                 count(*number);
                                                 *number |= 1ull << 63;
                                             }
        };

        switch (dice % 5) {
        case 0:
            if (glex_receive_mp(small, 0, &src, &copy, &len) == GLEX_SUCCESS && copy >> 63 == 0) {
                count(copy);
            }
            break;
        case 1:
            EXPECT_OK(glex_discard_probed_mp(small));
            break;
        case 2:
            if (glex_probe_first_mp(small, 0, &src, &data, &len) == GLEX_SUCCESS) {
                count_new(data);
            }
            break;
        default:
            if (glex_probe_next_mp(small, &src, &data, &len) == GLEX_SUCCESS) {
                count_new(data);
            }
        }
    };

    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < CAPACITY; i++) { /* there is room for all, whoever keeps some */
            ASSERT_NO_FATAL_FAILURE(
                sender.send_number(small.addr(), static_cast<uint64_t>(sent++)));
        }
        for (int tries = 0; taken < sent; tries++) {
            auto &worker = workers[static_cast<unsigned>(rand_r(&seed)) % THREADS_NUM];
            unsigned dice = static_cast<unsigned>(rand_r(&seed));

            ASSERT_LT(tries, 100000);
            if (worker == nullptr || dice % 16 == 0) {
                worker.reset(new Worker); /* the last one ends, with what it keeps */
            }
            worker->run([&] { mix(dice / 16); });
        }
    }
    EXPECT_EQ(std::vector<int>(came.size(), 1), came);
    EXPECT_TRUE(sender.errors().empty());
}

/* Who sleeps keeps nobody from using the endpoint. */
TEST_F(threads, sleep_without_lock)
{
    char data[8] = {};
    Target self = ep.target(ep.reg(data, sizeof(data)));
    std::thread events([&] { EXPECT_EQ(5, ep.receive_event()); });
    std::thread messages([&] { EXPECT_EQ(7, ep.receive_number()); });

    usleep(100000); /* so that they sleep; nothing depends on it */
    glex_imm_rdma_req_t req = imm_put(self, "x", 2, 0, 5);
    ASSERT_OK(glex_imm_rdma(ep, &req, nullptr));
    ep.send_number(ep.addr(), 7);
    events.join();
    messages.join();
    EXPECT_STREQ("x", data);
}

TEST_F(threads, sleep_ends_in_time)
{
    side_by_side({[&] { EXPECT_EQ(-1, ep.receive_event(30)); },
                  [&] { EXPECT_EQ(-1, ep.receive_event(30)); },
                  [&] { EXPECT_EQ(-1, ep.receive_number(30)); }});
}

/* Eight threads do all that can be done with two endpoints. */
class threads_stress : public threads
{
  protected:
    /* Local events are taken by this thread; those of the others are posted to `peer`. */
    void transfers()
    {
        glex_mem_handle_t local = ep.reg(buf, sizeof(buf));
        glex_rdma_req_t req = rdma(GLEX_RDMA_TYPE_PUT, to, local, 64, 128);
        int64_t i = 0;

        req.flag = GLEX_FLAG_LOCAL_EVT;
        req.local_evt.cookie_1 = 1;
        while (!done()) {
            req.local_evt.cookie_0 = static_cast<uint64_t>(++i);
            req.type = i % 2 ? GLEX_RDMA_TYPE_PUT : GLEX_RDMA_TYPE_GET;
            ASSERT_OK(glex_rdma(ep, &req, nullptr));
            ASSERT_EQ(i, ep.receive_event());
        }
    }

    void registrations()
    {
        char other[256];

        while (!done()) {
            glex_mem_handle_t mh = peer.reg(other, sizeof(other));
            void *memory = peer.alloc(4096);

            EXPECT_OK(glex_deregister_mem(peer, mh));
            EXPECT_OK(glex_ext_mem_free(peer, memory));
        }
    }

    void questions()
    {
        glex_mem_handle_t mh;
        void *ptr;

        mh.v = to.mh;
        while (!done()) {
            EXPECT_OK(glex_ext_check_peer(ep, peer.addr(), 0, 0));
            EXPECT_OK(glex_ext_has_receiver(ep, peer.addr()));
            EXPECT_OK(glex_ext_peer_ptr(ep, peer.addr(), mh, TEST_KEY, 0, 64, &ptr, nullptr));
            EXPECT_EQ(peer.addr().v, glex_ext_peer_hint(ep, peer.addr()).v);
            EXPECT_TRUE(ep.errors().empty());
            (void)ep.counters();
        }
    }

    bool done() const
    {
        return events.complete() && messages.complete();
    }

    char buf[256] = {};
    Target to = peer.target(peer.reg(peer.alloc(256), 256));
    Arrivals events{2, NUMBERS}, messages{1, NUMBERS};
};

static void post_short_events(const Ep &ep, const Ep &to, int poster)
{
    for (int i = 0; i < NUMBERS; i++) {
        glex_ret_t ret;

        while ((ret = glex_ext_post_event(ep, to.addr(), Arrivals::word(poster, i), 1)) ==
               GLEX_BUSY) {
            std::this_thread::yield();
        }
        ASSERT_OK(ret);
    }
}

TEST_F(threads_stress, all)
{
    side_by_side({[&] { post_events(ep, to, 0); }, [&] { post_short_events(ep, peer, 1); },
                  [&] { post_messages(ep, peer, 0); }, [&] { transfers(); },
                  [&] { poll_events(peer, events, 1, 2); },
                  [&] { receive_messages(peer, messages, 1); }, [&] { registrations(); },
                  [&] { questions(); }});
    events.expect_each_once();
    messages.expect_each_once();
    EXPECT_TRUE(ep.errors().empty());
    EXPECT_TRUE(peer.errors().empty());
}

/* One thread polls by glex_ext_poll(), others post by the same endpoint. */
TEST_F(threads, poll_beside_posts)
{
    Arrivals events(1, NUMBERS), messages(1, NUMBERS);

    side_by_side({[&] { post_short_events(ep, ep, 0); }, [&] { post_messages(ep, ep, 0); },
                  [&] {
                      glex_ext_arrival arrival;

                      while (!events.complete() || !messages.complete()) {
                          if (ep.poll(&arrival) != GLEX_SUCCESS) {
                              continue;
                          }
                          if (arrival.event != nullptr) {
                              events.came(arrival.event->cookie_0);
                          } else {
                              came_message(messages, static_cast<uint64_t *>(arrival.data),
                                           arrival.len);
                          }
                      }
                  }});
    events.expect_each_once();
    messages.expect_each_once();
}

static void coll_send_surely(const Ep &from, const Ep &to, uint64_t number, int flag,
                             uint32_t counter = 0)
{
    glex_ret_t ret;

    while ((ret = coll_send(from, to.addr(), number, flag, counter)) == GLEX_BUSY) {
        std::this_thread::yield();
    }
    ASSERT_OK(ret);
}

/* Sequences that wait at an endpoint, and control packets for them that come from it and another
 * one, by five threads: each sequence sends its message once. */
TEST_F(threads, collectives)
{
    const int num = NUMBERS / 10;
    Arrivals arrivals(1, num);

    side_by_side({[&] {
                      for (int i = 0; i < num; i++) {
                          coll_send_surely(ep, peer, static_cast<uint64_t>(i),
                                           START | TAIL | CP_DATA | GLEX_EXT_FLAG_NO_LOSS, 2);
                      }
                  },
                  [&] {
                      for (int i = 0; i < num; i++) {
                          coll_send_surely(peer, ep, 0, COUNTER);
                      }
                  },
                  [&] {
                      for (int i = 0; i < num / 2; i++) {
                          coll_send_surely(ep, ep, 0, COUNTER);
                      }
                  },
                  [&] {
                      for (int i = 0; i < num - num / 2; i++) {
                          coll_send_surely(peer, ep, 0, COUNTER | CP_DATA);
                          EXPECT_EQ(0, ep.receive_number());
                      }
                  },
                  [&] {
                      while (!arrivals.complete() && !HasFailure()) {
                          int64_t number = peer.receive_number(1);

                          if (number != -1) {
                              arrivals.came(static_cast<uint64_t>(number));
                          } else {
                              /* What met a full queue is its owner's. */
                              EXPECT_EQ(-1, ep.receive_event(1));
                          }
                      }
                  }});
    arrivals.expect_each_once();
    EXPECT_TRUE(ep.errors().empty());
    EXPECT_TRUE(peer.errors().empty());
}

/* A child of fork() while other threads are in the middle of something: it is refused, at once. */
TEST_F(threads, fork)
{
    std::atomic<bool> done{false};
    std::thread poster([&] {
        while (!done) {
            ep.send_number(ep.addr(), 1);
            EXPECT_EQ(1, ep.receive_number());
        }
    });

    for (int i = 0; i < 50; i++) {
        pid_t pid = fork();
        int status = -1;

        if (pid == 0) {
            uint64_t number = 0;
            glex_imm_mp_req_t req = {};
            glex_ep_addr_t src;
            uint32_t len;

            req.rmt_ep_addr.v = 1;
            _exit(!(glex_send_imm_mp(ep, &req, nullptr) == GLEX_INVALID_PARAM &&
                    glex_receive_mp(ep, 0, &src, &number, &len) == GLEX_INVALID_PARAM));
        }
        ASSERT_EQ(pid, waitpid(pid, &status, 0));
        ASSERT_EQ(0, status);
    }
    done = true;
    poster.join();
}

/* ---- single-threaded ------------------------------------------------------------------------- */

CHILD(threads_variable)
{
    const bool locked = receive_down<bool>();
    glex_ep_attr attr = ep_attr();
    glex_ep_handle_t ep;
    Device dev;

    EXPECT_OK(glex_create_ep(dev, &attr, &ep));
    EXPECT_EQ(locked, internals_has_lock(ep));
    EXPECT_OK(glex_ext_set_single_threaded(ep));
    EXPECT_FALSE(internals_has_lock(ep));
    EXPECT_OK(glex_destroy_ep(ep));
    return testing::Test::HasFailure();
}

TEST(threads_single, variable)
{
    struct {
        std::vector<std::string> env;
        bool locked;
    } cases[] = {{{}, true},
                 {{"LIB_GLEX_SINGLE_THREADED=1"}, false},
                 {{"LIB_GLEX_SINGLE_THREADED=yes"}, false},
                 {{"LIB_GLEX_SINGLE_THREADED=0"}, true},
                 {{"LIB_GLEX_SINGLE_THREADED="}, true}};

    for (const auto &c : cases) {
        Process child("threads_variable", c.env);

        child.send(c.locked);
        EXPECT_EQ(0, child.wait()) << (c.env.empty() ? "" : c.env[0]);
    }
}

TEST(threads_single, invalid)
{
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_ext_set_single_threaded(nullptr));
}

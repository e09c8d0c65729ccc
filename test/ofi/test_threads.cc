/* FI_THREAD_SAFE: all calls from all threads at once. */
#include "node.h"

#include <atomic>
#include <poll.h>
#include <rdma/fi_atomic.h>
#include <thread>

namespace
{

const int kThreads = 4, kMessages = 2000;

/* FI_PROGRESS_AUTO: `b` calls nothing, and its thread fetches a message and executes atomic operations */
TEST(Threads, AutomaticProgress)
{
    Wish automatic;
    automatic.data_progress = FI_PROGRESS_AUTO;
    Node a, b(automatic);
    EXPECT_EQ(FI_PROGRESS_MANUAL, a.info->domain_attr->data_progress);
    EXPECT_EQ(FI_PROGRESS_AUTO, b.info->domain_attr->data_progress);
    fi_addr_t b_of_a = a.know(b);
    std::vector<char> data = pattern(300000, 3), got(data.size());
    fid_mr *mr = nullptr;
    uint64_t one = 1, old = 0;

    b.know(a);
    ASSERT_EQ(0, fi_trecv(b.ep, got.data(), got.size(), nullptr, FI_ADDR_UNSPEC, 1, 0, nullptr));
    ASSERT_EQ(0, retry({&a}, [&] {
                  return fi_tsend(a.ep, data.data(), data.size(), nullptr, b_of_a, 1, nullptr);
              }));
    EXPECT_EQ(0, next_done(a, {&a}).err);
    EXPECT_EQ(0, next_done(b, {&b}).err);
    EXPECT_EQ(data, got);
    memset(got.data(), 0, 8);
    ASSERT_EQ(0, fi_mr_reg(b.domain, got.data(), 8, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 0, 0, &mr,
                           nullptr));
    for (uint64_t i = 0; i < 100; i++) {
        ASSERT_EQ(0, retry({&a}, [&] {
                      return fi_fetch_atomic(a.ep, &one, 1, nullptr, &old, nullptr, b_of_a,
                                             (uint64_t)got.data(), fi_mr_key(mr), FI_UINT64, FI_SUM,
                                             nullptr);
                  }));
        ASSERT_EQ(0, next_done(a, {&a}).err);
        ASSERT_EQ(i, old);
    }
    EXPECT_EQ(0, fi_close(&mr->fid));
}

/* A domain that closes ends its thread, also a thread that has just begun */
TEST(Threads, AutomaticProgressEnds)
{
    Wish automatic;

    automatic.data_progress = FI_PROGRESS_AUTO;
    for (int i = 0; i < 200; i++) {
        Node node(automatic);
    }
}

/* Each thread sends to itself on the other side, with a tag of its own, and reads completions that
 * may belong to any other thread */
TEST(Threads, ShareEndpointsAndQueues)
{
    Wish wish;
    wish.threading = FI_THREAD_SAFE;
    Node a(wish), b(wish);
    fi_addr_t b_of_a = a.know(b);
    b.know(a);
    const int all = 2 * kMessages + 2 * kMessages / 10;
    std::atomic<int> received{0}, sent{0}, wrong{0};
    std::vector<std::thread> threads;

    auto read = [&](Node &node, std::atomic<int> &count) {
        fi_cq_tagged_entry entry;
        fi_addr_t source;
        ssize_t ret = fi_cq_readfrom(node.cq, &entry, 1, &source);
        if (ret == 1) {
            count++;
        } else if (ret != -FI_EAGAIN) {
            wrong++;
        }
    };
    std::vector<std::vector<char>> out, in; /* they outlive the threads: so do operations */
    for (int t = 0; t < kThreads; t++) {
        out.push_back(pattern(t % 2 ? 20000 : 64, t));
        in.emplace_back(out[t].size());
    }
    for (int t = 0; t < kThreads; t++) {
        threads.emplace_back([&, t] {
            std::vector<char> &data = out[t];
            for (int i = 0; i < kMessages / 10 * (t % 2 ? 1 : 10); i++) {
                while (fi_tsend(a.ep, data.data(), data.size(), nullptr, b_of_a, t, nullptr) ==
                       -FI_EAGAIN) {
                    read(a, sent);
                }
                read(a, sent);
            }
            while (received < all) { /* the first ones may still wait for the connection */
                read(a, sent);
            }
        });
        threads.emplace_back([&, t] {
            std::vector<char> &got = in[t];
            for (int i = 0; i < kMessages / 10 * (t % 2 ? 1 : 10); i++) {
                if (fi_trecv(b.ep, got.data(), got.size(), nullptr, FI_ADDR_UNSPEC, t, 0,
                             nullptr)) {
                    wrong++;
                }
                read(b, received);
            }
            while (received < all) { /* senders need somebody who takes what they send */
                read(b, received);
            }
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    EXPECT_TRUE(wait_for({}, [&] {
        read(a, sent);
        read(b, received);
        return sent == all && received == all;
    }));
    EXPECT_EQ(0, wrong);
    EXPECT_EQ(out, in);
}

/* Sleepers in several threads, of which any may take what wakes another */
TEST(Threads, SleepOnQueuesOfOneDomain)
{
    Wish wish;
    wish.threading = FI_THREAD_SAFE;
    wish.wait_obj = FI_WAIT_UNSPEC;
    Node a(wish), b(wish);
    fi_addr_t b_of_a = a.know(b);
    fi_addr_t a_of_b = b.know(a);
    std::atomic<int> wrong{0};

    auto play = [&](Node &node, fi_addr_t peer, bool serves) {
        fi_cq_tagged_entry entry;
        char buf[8];
        for (int i = 0; i < 500; i++) {
            wrong += fi_trecv(node.ep, buf, 8, nullptr, FI_ADDR_UNSPEC, 1, 0, nullptr) != 0;
            for (int half = 0; half < 2; half++) {
                if (serves == (half == 0)) {
                    ssize_t ret;
                    while ((ret = fi_tinject(node.ep, "pingpon", 8, peer, 1)) == -FI_EAGAIN) {
                    }
                    wrong += ret != 0;
                } else {
                    wrong += fi_cq_sread(node.cq, &entry, 1, nullptr, 60000) != 1;
                }
            }
        }
    };
    std::thread first([&] { play(a, b_of_a, true); });
    std::thread second([&] { play(b, a_of_b, false); });
    first.join();
    second.join();
    EXPECT_EQ(0, wrong);
}

/* Two threads sleep on the descriptors of their own queues of one domain. The first gets some messages
 * and goes away, with the second asleep: the next message wakes that one. */
TEST(Threads, ASleeperWakesThoughAnotherWentAway)
{
    Wish wish;
    wish.threading = FI_THREAD_SAFE;
    wish.wait_obj = FI_WAIT_FD;
    Node a(wish), b(wish);
    fi_cq_attr cq_attr{};
    fid_cq *other_cq = nullptr;
    fid_ep *other = nullptr;
    std::vector<char> name(256);
    size_t length = name.size();

    cq_attr.format = FI_CQ_FORMAT_TAGGED;
    cq_attr.wait_obj = FI_WAIT_FD;
    ASSERT_EQ(0, fi_cq_open(b.domain, &cq_attr, &other_cq, nullptr));
    ASSERT_EQ(0, fi_endpoint(b.domain, b.info, &other, nullptr));
    ASSERT_EQ(0, fi_ep_bind(other, &b.av->fid, 0));
    ASSERT_EQ(0, fi_ep_bind(other, &other_cq->fid, FI_TRANSMIT | FI_RECV));
    ASSERT_EQ(0, fi_enable(other));
    ASSERT_EQ(0, fi_getname(&other->fid, name.data(), &length));
    name.resize(length);
    fi_addr_t addrs[2] = {a.know(b), a.know(name)};
    b.know(a);
    char hello[8]; /* once connected, nothing waits in `a` for its progress */
    ASSERT_EQ(0, fi_trecv(b.ep, hello, 8, nullptr, FI_ADDR_UNSPEC, 0, 0, nullptr));
    ASSERT_EQ(0, retry({&a, &b}, [&] { return fi_tinject(a.ep, "hello..", 8, addrs[0], 0); }));
    ASSERT_EQ(0, next_done(b, {&a, &b}).err);
    std::atomic<int> wrong{0}, got[2] = {{0}, {0}};

    auto receive = [&](int which, int count) { /* as fi_poll(3) says */
                                               fid_cq *cq = which ? other_cq : b.cq;
                                               fid *fids[] = {&cq->fid};
                                               fi_cq_tagged_entry entry;
                                               char buf[8];
                                               int fd = -1;
                                               wrong += fi_control(&cq->fid, FI_GETWAIT, &fd) != 0;
                                               for (int i = 0; i < count && wrong == 0;) {
                                                   if (i == got[which]) {
                                                       wrong += fi_trecv(which ? other : b.ep, buf,
                                                                         8, nullptr, FI_ADDR_UNSPEC,
                                                                         1, 0, nullptr) != 0;
                                                       got[which]++;
                                                   }
                                                   if (fi_trywait(b.fabric, fids, 1) == 0) {
                                                       pollfd pollfd = {fd, POLLIN, 0};
                                                       wrong += poll(&pollfd, 1, 60000) != 1;
                                                   }
                                                   i += fi_cq_read(cq, &entry, 1) == 1;
                                               }
    };
    for (int round = 0; round < 300 && wrong == 0; round++) {
        got[0] = got[1] = 0;
        std::thread first([&] { receive(1, 8); });
        std::thread second([&] { receive(0, 1); });
        auto send = [&](int which) {
            while (fi_tinject(a.ep, "message", 8, addrs[which], 1) == -FI_EAGAIN) {
            }
        };
        for (int i = 0; i < 8; i++) {
            send(1);
        }
        first.join();
        send(0);
        second.join();
    }
    EXPECT_EQ(0, wrong);
    EXPECT_EQ(0, fi_close(&other->fid));
    EXPECT_EQ(0, fi_close(&other_cq->fid));
}

/* Receives are posted and cancelled in one thread while another one takes messages for them from the NIC:
 * each ends once, and no message is lost */
TEST(Threads, CancelWhatMessagesLookFor)
{
    Wish wish;
    wish.threading = FI_THREAD_SAFE;
    Node a(wish), b(wish);
    fi_addr_t b_of_a = a.know(b);
    const unsigned count = 300;
    std::atomic<unsigned> received{0};
    unsigned cancelled = 0, posted = 0, cancels = 0;
    std::vector<unsigned> times(count);
    std::atomic<int> wrong{0};

    std::thread sender([&] {
        for (unsigned i = 0; i < count;) {
            if (i < received + 8) { /* so that most messages find a receive, and not the reverse */
                i += fi_tinject(a.ep, &i, sizeof(i), b_of_a, 1) == 0;
            }
            wrong += fi_cq_read(a.cq, nullptr, 0) > 0;
        }
        while (received < count) {
            wrong += fi_cq_read(a.cq, nullptr, 0) > 0;
        }
    });
    std::thread taker([&] {
        while (received < count) {
            wrong += fi_cq_read(b.cq, nullptr, 0) > 0;
        }
    });
    unsigned bufs[16];
    bool is_posted[16] = {};
    auto take = [&] {
        b.poll();
        for (; !b.done.empty(); b.done.pop_front()) {
            const Done &done = b.done.front();
            auto *buf = static_cast<unsigned *>(done.context);
            wrong += !is_posted[buf - bufs];
            is_posted[buf - bufs] = false;
            if (done.err == 0) {
                times[*buf]++;
                received++;
            } else {
                wrong += done.err != FI_ECANCELED;
                cancelled++;
            }
        }
    };
    EXPECT_TRUE(wait_for({}, [&] {
        for (int i = 0; i < 16; i++) {
            if (!is_posted[i]) {
                is_posted[i] = true;
                posted++;
                wrong += fi_trecv(b.ep, &bufs[i], sizeof(bufs[i]), nullptr, FI_ADDR_UNSPEC, 1, 0,
                                  &bufs[i]) != 0;
            }
        }
        cancels += fi_cancel(&b.ep->fid, &bufs[posted % 16]) == 0;
        take();
        return received == count;
    }));
    sender.join();
    taker.join();
    for (auto &buf : bufs) {
        cancels += fi_cancel(&b.ep->fid, &buf) == 0;
        take();
    }
    EXPECT_EQ(0, wrong);
    EXPECT_EQ(cancels, cancelled);
    EXPECT_EQ(posted, received + cancelled);
    EXPECT_EQ(std::vector<unsigned>(count, 1), times);
}

/* One domain, in which each thread opens, uses and closes objects of its own */
TEST(Threads, OpenAndCloseObjectsOfOneDomain)
{
    Wish wish;
    wish.threading = FI_THREAD_SAFE;
    Node node(wish);
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    fid_eq *eq = nullptr; /* bound by all */
    fi_eq_attr eq_attr{};

    ASSERT_EQ(0, fi_eq_open(node.fabric, &eq_attr, &eq, nullptr));
    auto work = [&](int number) {
        fi_cq_attr cq_attr{};
        fi_av_attr av_attr{};
        fi_cntr_attr cntr_attr{};
        fid_cq *cq;
        fid_av *av;
        fid_ep *ep;
        fid_mr *mr;
        fid_cntr *cntr;
        char name[256], buf[2][8];
        size_t length = sizeof(name);
        fi_addr_t self;
        fi_cq_tagged_entry entry;

        cq_attr.format = FI_CQ_FORMAT_TAGGED;
        wrong += fi_cq_open(node.domain, &cq_attr, &cq, nullptr) != 0;
        wrong += fi_av_open(node.domain, &av_attr, &av, nullptr) != 0;
        wrong += fi_cntr_open(node.domain, &cntr_attr, &cntr, nullptr) != 0;
        wrong += fi_endpoint(node.domain, node.info, &ep, nullptr) != 0;
        wrong += fi_ep_bind(ep, &av->fid, 0) != 0;
        wrong += fi_ep_bind(ep, &eq->fid, 0) != 0;
        wrong += fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV) != 0;
        wrong += fi_ep_bind(ep, &cntr->fid, FI_READ) != 0;
        wrong += fi_enable(ep) != 0;
        wrong += fi_getname(&ep->fid, name, &length) != 0;
        wrong += fi_av_insert(av, name, 1, &self, 0, nullptr) != 1;
        wrong += fi_mr_reg(node.domain, buf[0], 8, FI_REMOTE_READ, 0, number, 0, &mr, nullptr) != 0;
        wrong += fi_trecv(ep, buf[0], 8, nullptr, FI_ADDR_UNSPEC, 1, 0, nullptr) != 0;
        while (fi_tinject(ep, "message", 8, self, 1) == -FI_EAGAIN) {
        }
        while (fi_cq_read(cq, &entry, 1) == -FI_EAGAIN) {
        }
        while (fi_read(ep, buf[1], 8, nullptr, self, (uint64_t)buf[0], fi_mr_key(mr), nullptr) ==
               -FI_EAGAIN) {
        }
        wrong += fi_cntr_wait(cntr, 1, 60000) != 0;
        wrong += memcmp(buf[0], buf[1], 8) != 0;
        for (fid *object : {&ep->fid, &mr->fid, &cntr->fid, &av->fid, &cq->fid}) {
            wrong += fi_close(object) != 0;
        }
    };
    for (int t = 0; t < kThreads; t++) {
        threads.emplace_back([&, t] {
            for (int i = 0; i < 100; i++) {
                work(t * 100 + i);
            }
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    EXPECT_EQ(0, wrong);
    EXPECT_EQ(0, fi_close(&eq->fid));
}

/* One fabric: domains, with an event queue that two of them use, come and go in all threads */
TEST(Threads, OpenDomainsOfOneFabric)
{
    Wish wish;
    Node node(wish);
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;

    for (int t = 0; t < kThreads; t++) {
        threads.emplace_back([&] {
            for (int i = 0; i < 10; i++) {
                fid_domain *domain;
                fid_eq *eq;
                fi_eq_attr eq_attr{};
                wrong += fi_domain(node.fabric, node.info, &domain, nullptr) != 0;
                wrong += fi_eq_open(node.fabric, &eq_attr, &eq, nullptr) != 0;
                wrong += fi_close(&eq->fid) != 0;
                wrong += fi_close(&domain->fid) != 0;
            }
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    EXPECT_EQ(0, wrong);
}

/* Writers and sleeping readers of one event queue: each event is read once */
TEST(Threads, ShareAnEventQueue)
{
    Node node;
    fid_eq *eq = nullptr;
    fi_eq_attr eq_attr{};
    const int count = 500;
    std::atomic<int> wrong{0}, seen{0}, sum{0};
    std::vector<std::thread> threads;

    eq_attr.wait_obj = FI_WAIT_UNSPEC;
    eq_attr.flags = FI_WRITE;
    ASSERT_EQ(0, fi_eq_open(node.fabric, &eq_attr, &eq, nullptr));
    for (int t = 0; t < 2; t++) {
        threads.emplace_back([&] {
            for (int i = 1; i <= count; i++) {
                fi_eq_entry entry{};
                entry.data = i;
                wrong += fi_eq_write(eq, FI_NOTIFY, &entry, sizeof(entry), 0) < 0;
            }
        });
        threads.emplace_back([&] {
            while (seen < 2 * count) {
                fi_eq_entry entry{};
                uint32_t event;
                ssize_t ret = fi_eq_sread(eq, &event, &entry, sizeof(entry), 10, 0);
                if (ret > 0) {
                    sum += (int)entry.data;
                    seen++;
                } else {
                    wrong += ret != -FI_EAGAIN;
                }
            }
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    EXPECT_EQ(0, wrong);
    EXPECT_EQ(2 * count, seen);
    EXPECT_EQ(count * (count + 1), sum);
    EXPECT_EQ(0, fi_close(&eq->fid));
}

/* FI_THREAD_DOMAIN: since libfabric 2 only calls that move data are made by one thread at a time */
#if FI_MAJOR_VERSION >= 2
TEST(Threads, ControlBesideData)
{
    Wish wish;
    wish.caps = FI_TAGGED | FI_RMA | FI_SOURCE; /* sources are looked up among addresses */
    wish.threading = FI_THREAD_DOMAIN;
    Node a(wish), b(wish), c(wish);
    fi_addr_t b_of_a = a.know(b), a_of_b = b.know(a);
    std::vector<char> name = c.name();
    std::atomic<bool> is_over{false};
    std::atomic<int> wrong{0};
    char buf[8];

    std::thread control([&] {
        while (!is_over) {
            fi_addr_t addr;
            fid_mr *mr = nullptr;
            char memory[64];
            wrong += fi_av_insert(a.av, name.data(), 1, &addr, 0, nullptr) != 1;
            wrong += fi_av_remove(a.av, &addr, 1, 0) != 0;
            wrong += fi_mr_reg(a.domain, memory, 64, FI_REMOTE_READ, 0, 1, 0, &mr, nullptr) != 0;
            wrong += fi_close(&mr->fid) != 0;
        }
    });
    for (int i = 0; i < 1000; i++) {
        Node *from = i % 2 ? &a : &b, *to = i % 2 ? &b : &a;
        ASSERT_EQ(0, fi_trecv(to->ep, buf, 8, nullptr, FI_ADDR_UNSPEC, 1, 0, nullptr));
        ASSERT_EQ(0, retry({&a, &b}, [&] {
                      return fi_tinject(from->ep, "message", 8, i % 2 ? b_of_a : a_of_b, 1);
                  }));
        ASSERT_EQ(0, next_done(*to, {&a, &b}).err);
    }
    is_over = true;
    control.join();
    EXPECT_EQ(0, wrong);
}
#endif

} // namespace

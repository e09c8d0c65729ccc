/* FI_THREAD_SAFE: all calls from all threads at once. */
#include "node.h"

#include <atomic>
#include <thread>

namespace {

const int kThreads = 4, kMessages = 2000;

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
                if (fi_trecv(b.ep, got.data(), got.size(), nullptr, FI_ADDR_UNSPEC, t, 0, nullptr)) {
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

} // namespace

// Channels of libudmon without a network: two of them, joined by a wire that may lose.
#ifndef UDMON_CHAN_FIXTURE_H
#define UDMON_CHAN_FIXTURE_H

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <random>
#include <string>
#include <vector>

extern "C" {
#include "udmon/lib/chan/chan.h"
#include "udmon/lib/options.h"
}

struct Side {
    struct udmon_chan chan;
    std::deque<std::string> wire; // what it has sent
    std::vector<std::string> delivered;
    std::vector<uint64_t> seqs;
    uint64_t gaps = 0;
    int room = 1 << 30;

    static int send(void *arg, size_t size, udmon_pack_fn pack, void *pack_arg)
    {
        Side *self = static_cast<Side *>(arg);
        std::vector<char> buffer(size);

        if (self->room == 0) {
            return -EAGAIN;
        }
        --self->room;
        size_t length = pack(buffer.data(), size, pack_arg);
        EXPECT_LE(length, size);
        self->wire.emplace_back(buffer.data(), length);
        return 0;
    }
    static void deliver(void *arg, const struct udmon_message *m)
    {
        Side *self = static_cast<Side *>(arg);
        self->delivered.emplace_back(static_cast<const char *>(m->data), m->length);
        self->seqs.push_back(m->seq);
    }
    static void gap(void *arg, uint64_t, uint64_t count)
    {
        static_cast<Side *>(arg)->gaps += count;
    }
};

inline const struct udmon_chan_ops side_ops = {Side::send, Side::deliver, Side::gap};

struct ChanTest : testing::Test {
    Side a, b;
    struct udmon_settings settings;

    void SetUp() override
    {
        struct udmon_options options;
        udmon_options_init(&options);
        options.datagram_size = 512;
        ASSERT_EQ(0, udmon_settings_make(&options, &settings));
        for (Side *s : {&a, &b}) {
            udmon_chan_init(&s->chan, &settings.values, &side_ops, s);
            ASSERT_EQ(0, udmon_chan_connect(&s->chan, 4096, 42, 0));
        }
    }
    void TearDown() override
    {
        udmon_chan_cleanup(&a.chan);
        udmon_chan_cleanup(&b.chan);
    }
    // Carry what `from` has sent to `to`, as far as `keep` says.
    static void carry(Side &from, Side &to, const std::function<bool()> &keep = [] { return true; })
    {
        while (!from.wire.empty()) {
            std::string dgram = from.wire.front();
            from.wire.pop_front();
            if (keep()) {
                EXPECT_GT(udmon_chan_receive(&to.chan, dgram.data(), dgram.size()), 0);
            }
        }
    }
    struct udmon_stats stats(const Side &s)
    {
        struct udmon_stats out;
        udmon_chan_stats(&s.chan, &out);
        return out;
    }
};

#endif

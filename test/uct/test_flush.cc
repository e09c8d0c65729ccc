/*
 * Flush: what completes when; self-traffic; several endpoints to one peer; several interfaces on
 * one memory domain, also in threads; headers that interfaces promise.
 */
#include "traffic.h"

#include <atomic>
#include <memory>
#include <thread>

namespace
{

const uint8_t AM_ID = 9;

class Flush : public WithSetting
{
};

TEST_P(Flush, NothingWasSent)
{
    isolated(env(), [] {
        Md md;
        Iface a(md), b(md);
        Ep ep(a, b.address());
        Completion comp;

        EXPECT_OK(uct_ep_flush(ep.handle, 0, NULL));
        EXPECT_OK(uct_ep_flush(ep.handle, 0, &comp.uct));
        EXPECT_OK(uct_iface_flush(a.handle, 0, NULL));
        EXPECT_EQ(comp.done, 0);
    });
}

/* A flushed message has left the sender: its buffers are free, and it arrives although the sender
 * does nothing any more */
TEST_P(Flush, EndpointAfterEachMessage)
{
    isolated(env(), [] {
        Md md;
        Iface a(md), b(md);
        Plan plan = mixed_plan(a, 21);
        Sink sink(b, AM_ID, 1, plan);
        Sender sender(a, b.address(), AM_ID, 1, plan);

        for (unsigned i = 0; i < 300; ++i) {
            sender.send();
            EXPECT_OK(sender.ep.flush());
            EXPECT_TRUE(ucs_queue_is_empty(&sender.ep.vc()->tx_ops));
        }
        while (sink.received < 300) {
            waiting_for("messages, with progress of the receiver only");
            b.progress();
        }
    });
}

/* Several flushes at once, each with a completion: all are told, in order, once */
TEST_P(Flush, ManyAtOnce)
{
    isolated(env(), [] {
        Md md;
        Iface a(md), b(md);
        Plan plan = mixed_plan(a, 22);
        Sink sink(b, AM_ID, 1, plan);
        Sender sender(a, b.address(), AM_ID, 1, plan);
        std::list<Completion> comps;

        for (unsigned i = 0; i < 200; ++i) {
            sender.send();
            comps.emplace_back();
            ucs_status_t status = uct_ep_flush(sender.ep.handle, 0, &comps.back().uct);
            if (status != UCS_INPROGRESS) {
                EXPECT_OK(status);
                EXPECT_EQ(comps.back().done, 0);
                comps.pop_back();
            }
        }
        for (Completion &comp : comps) {
            comp.wait("a flush");
            EXPECT_EQ(comp.done, 1);
            EXPECT_EQ(comp.uct.status, UCS_OK);
        }
        progress_until("all messages", [&] { return sink.received == 200; });
    });
}

TEST_P(Flush, Interface)
{
    isolated(env(), [] {
        Md md;
        Iface a(md), b(md), c(md);
        Plan plan = mixed_plan(a, 23);
        Sink sink_b(b, AM_ID, 1, plan), sink_c(c, AM_ID, 1, plan);
        Sender to_b(a, b.address(), AM_ID, 1, plan), to_c(a, c.address(), AM_ID, 1, plan);

        for (unsigned i = 0; i < 100; ++i) {
            to_b.send();
            to_c.send();
        }
        a.flush();
        EXPECT_TRUE(ucs_queue_is_empty(&to_b.ep.vc()->tx_ops));
        EXPECT_TRUE(ucs_queue_is_empty(&to_c.ep.vc()->tx_ops));
        progress_until("all messages",
                       [&] { return (sink_b.received == 100) && (sink_c.received == 100); });
    });
}

TEST_P(Flush, Self)
{
    isolated(env(), [] {
        const unsigned count = 1500;
        Md md;
        Iface a(md);
        Plan plan = mixed_plan(a, 24);
        Sink sink(a, AM_ID, 1, plan);
        Sender sender(a, a.address(), AM_ID, 1, plan);

        for (unsigned i = 0; i < count; ++i) {
            sender.send();
        }
        EXPECT_OK(sender.ep.flush());
        progress_until("all messages", [&] { return sink.received == count; });
        a.check_credits();
    });
}

/* Two endpoints to one peer share its connection; each keeps its order */
TEST_P(Flush, TwoEndpointsToOnePeer)
{
    isolated(env(), [] {
        Md md;
        Iface a(md), b(md);
        Plan plan_1 = mixed_plan(a, 25), plan_2 = mixed_plan(a, 26);
        Sink sink_1(b, 1, 1, plan_1), sink_2(b, 2, 2, plan_2);
        Sender first(a, b.address(), 1, 1, plan_1);
        {
            Sender second(a, b.address(), 2, 2, plan_2);

            for (unsigned i = 0; i < 300; ++i) {
                first.send();
                second.send();
            }
            EXPECT_EQ(first.ep.vc(), second.ep.vc());
            EXPECT_OK(second.ep.flush());
            second.drain();
        }
        for (unsigned i = 0; i < 300; ++i) {
            first.send();
        }
        progress_until("all messages",
                       [&] { return (sink_1.received == 600) && (sink_2.received == 300); });
    });
}

/* All to all among interfaces of one domain, and of another domain of the same process */
TEST_P(Flush, AllToAllInOneProcess)
{
    isolated(env(), [] {
        const unsigned num = 5, count = 100;
        Md md_1, md_2;
        std::list<Iface> ifaces;
        std::list<Sink> sinks;
        std::list<Sender> senders;

        for (unsigned i = 0; i < num; ++i) {
            ifaces.emplace_back((i % 2) ? md_1 : md_2);
        }
        unsigned from = 0;
        for (Iface &source : ifaces) {
            for (Iface &target : ifaces) {
                Plan plan = mixed_plan(source, from);

                sinks.emplace_back(target, from, from, plan);
                senders.emplace_back(source, target.address(), from, from, plan);
            }
            ++from;
        }
        for (unsigned i = 0; i < count; ++i) {
            for (Sender &sender : senders) {
                sender.send();
            }
        }
        for (Sink &sink : sinks) {
            progress_until("all messages", [&] { return sink.received == count; });
        }
        for (Sender &sender : senders) {
            EXPECT_OK(sender.ep.flush());
        }
        for (Iface &iface : ifaces) {
            iface.check_credits();
            EXPECT_EQ(iface.counters().mp_lost, 0u);
        }
        senders.clear();
    });
}

/* Each thread has an interface of its own on one domain, and sends to the next thread's */
TEST_P(Flush, InterfacesInThreads)
{
    isolated(env(), [] {
        const unsigned num = 4, count = 400;
        Md md;
        std::vector<std::string> addresses(num);
        std::atomic<unsigned> open(0), finished(0);
        std::vector<std::thread> threads;

        for (unsigned rank = 0; rank < num; ++rank) {
            threads.emplace_back([&, rank] {
                Iface iface(md);
                unsigned last = (rank + num - 1) % num;

                addresses[rank] = iface.address();
                ++open;
                progress_until("the other threads", [&] { return open == num; });
                Sink sink(iface, AM_ID, last, mixed_plan(iface, last));
                Sender sender(iface, addresses[(rank + 1) % num], AM_ID, rank,
                              mixed_plan(iface, rank));

                for (unsigned i = 0; i < count; ++i) {
                    sender.send();
                }
                progress_until("all messages", [&] { return sink.received == count; });
                EXPECT_OK(sender.ep.flush());
                sender.drain();
                ++finished;
                progress_until("the other threads", [&] { return finished == num; });
            });
        }
        for (std::thread &thread : threads) {
            thread.join();
        }
    });
}

/* An interface closes and another one takes its place on the endpoint: what was for the first one
 * does not reach the second */
TEST_P(Flush, InterfaceReopened)
{
    isolated(env(), [] {
        Md md_a, md_b;
        Iface a(md_a);

        for (unsigned round = 0; round < 10; ++round) {
            Iface b(md_b);
            Plan plan = mixed_plan(a, round);
            Sink sink(b, AM_ID, round, plan);
            Sender sender(a, b.address(), AM_ID, round, plan);

            for (unsigned i = 0; i < 30; ++i) {
                sender.send();
            }
            progress_until("all messages", [&] { return sink.received == 30; });
            EXPECT_OK(sender.ep.flush());
            sender.drain();
        }
        a.failed.clear(); /* of the interfaces that are gone */
    });
}

/* A server whose clients come and go does not grow with their number */
TEST_P(Flush, ClientsComeAndGo)
{
    isolated(env(), [] {
        Md md_a, md_b;
        Iface a(md_a);
        unsigned received = 0;

        a.on_am(AM_ID, [&](const void *, size_t) { ++received; });
        for (unsigned i = 1; i <= 200; ++i) {
            Iface b(md_b);
            Ep to_a(b, a.address()), to_b(a, b.address());

            EXPECT_OK(to_a.am_short(AM_ID, i, NULL, 0));
            progress_until("the message", [&] { return received == i; });
            if (i % 2) {
                EXPECT_OK(to_a.flush());
            }
        }
        EXPECT_LE(a.internals()->num_vcs, 16u);
        a.check_credits();
        a.failed.clear();
    });
}

/* Its completions end with it; the connection goes on */
TEST_P(Flush, EndpointDestroyed)
{
    isolated(env(), [] {
        Md md;
        Iface a(md), b(md);
        std::unique_ptr<Ep> ep(new Ep(a, b.address()));
        Ep other(a, b.address());
        Memory memory(md, 4000, memory_kinds(md).back());
        uct_iov_t iov = piece(memory.data, 4000, memory.memh);
        Completion gone[2], kept;
        unsigned received = 0;

        b.on_am(AM_ID, [&](const void *, size_t) { ++received; });
        EXPECT_OK(ep->am_short(AM_ID, 0, NULL, 0));
        EXPECT_OK(ep->flush());
        if (a.attr.cap.am.max_zcopy == 0) {
            return;
        }
        EXPECT_STATUS(UCS_INPROGRESS, ep->am_zcopy(AM_ID, NULL, 0, {iov}, &gone[0]));
        EXPECT_STATUS(UCS_INPROGRESS, uct_ep_flush(ep->handle, 0, &gone[1].uct));
        ep.reset();
        for (Completion &comp : gone) {
            EXPECT_EQ(comp.done, 1);
            EXPECT_EQ(comp.uct.status, UCS_ERR_CANCELED);
        }
        EXPECT_STATUS(UCS_INPROGRESS, other.am_zcopy(AM_ID, NULL, 0, {iov}, &kept));
        kept.wait();
        EXPECT_EQ(kept.uct.status, UCS_OK);
        progress_until("the message that was kept", [&] { return received == 2; });
        EXPECT_EQ(received, 2u) << "what was cancelled is not delivered";
        EXPECT_EQ(gone[0].done + gone[1].done, 2);
    });
}

/* A handler may send: ping-pong out of handlers, many at a time */
TEST_P(Flush, SendFromHandler)
{
    isolated(env(), [] {
        const unsigned count = 2000;
        Md md;
        Iface a(md), b(md);
        Ep to_b(a, b.address()), to_a(b, a.address());
        unsigned answered = 0, received = 0, unanswered = 0;

        a.on_am(AM_ID, [&](const void *data, size_t length) { ++received; });
        b.on_am(AM_ID, [&](const void *data, size_t length) {
            ucs_status_t status = uct_ep_am_short(to_a.handle, AM_ID, 7, NULL, 0);

            if (status == UCS_OK) {
                ++answered;
            } else {
                EXPECT_STATUS(UCS_ERR_NO_RESOURCE, status);
                ++unanswered;
            }
        });
        for (unsigned i = 0; i < count; ++i) {
            EXPECT_OK(to_b.am_short(AM_ID, i, NULL, 0));
        }
        progress_until("all messages", [&] { return answered + unanswered == count; });
        progress_until("all answers", [&] { return received == answered; });
    });
}

FOR_CHANNELS(Flush);

TEST(Check, OfAnEndpoint)
{
    isolated({}, [] {
        Md md;
        Iface a(md);
        std::string gone;
        {
            Md other;
            Iface b(other);
            Ep ep(a, b.address());

            EXPECT_OK(uct_ep_check(ep.handle, 0, NULL));
            EXPECT_TRUE(a.failed.empty());
            gone = b.address();
        }
        Ep ep(a, gone);
        uct_ep_check(ep.handle, 0, NULL);
        progress_until("the error handler", [&] { return !a.failed.empty(); });
        EXPECT_EQ(a.failed.size(), 1u);
        EXPECT_EQ(a.failed.front().first, ep.handle);
    });
}

} // namespace

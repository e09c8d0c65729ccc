/*
 * What cannot be sent now: pending requests, their order, their purge, and what they promise to
 * each other.
 */
#include "traffic.h"

#include <string.h>

namespace
{

const uint8_t AM_ID = 2;

/* A pending request that sends message `n` when its turn comes */
struct Request {
    static ucs_status_t on_turn(uct_pending_req_t *uct)
    {
        Request *self = (Request *)uct; /* the first member */
        ucs_status_t status;

        ++self->calls;
        status = uct_ep_am_short(self->ep, AM_ID, self->n, NULL, 0);
        if (status == UCS_OK) {
            self->order->push_back(self->n);
        }
        return status;
    }

    uct_pending_req_t uct;
    uct_ep_h ep;
    uint64_t n;
    std::vector<uint64_t> *order;
    unsigned calls = 0;
};

/* An endpoint, and requests made for it */
class Queue
{
  public:
    Queue(Iface &iface, const std::string &peer) : ep(iface, peer)
    {
    }

    /* Send until there is no room, beginning with message `n`. Returns the next one's number. */
    uint64_t fill(uint64_t n)
    {
        ucs_status_t status;

        while ((status = uct_ep_am_short(ep.handle, AM_ID, n, NULL, 0)) == UCS_OK) {
            order.push_back(n++);
        }
        EXPECT_EQ(status, UCS_ERR_NO_RESOURCE) << ucs_status_string(status);
        return n;
    }

    ucs_status_t add(uint64_t n)
    {
        requests.emplace_back();
        Request &request = requests.back();

        request.uct.func = Request::on_turn;
        request.ep = ep.handle;
        request.n = n;
        request.order = &order;
        return uct_ep_pending_add(ep.handle, &request.uct, 0);
    }

    Ep ep;
    std::list<Request> requests;
    std::vector<uint64_t> order; /* messages as they were sent */
};

/* Takes 8-byte messages and remembers their numbers */
class Numbers
{
  public:
    explicit Numbers(Iface &iface)
    {
        iface.on_am(AM_ID, [this](const void *data, size_t length) {
            uint64_t n;

            EXPECT_EQ(length, sizeof(n));
            memcpy(&n, data, sizeof(n));
            list.push_back(n);
        });
    }

    std::vector<uint64_t> list;
};

class Pending : public WithSetting
{
};

/* Fill up, queue more, let it go: everything arrives in the order of sending */
TEST_P(Pending, Order)
{
    isolated(env(), [] {
        Md md;
        Iface a(md), b(md);
        Numbers numbers(b);
        Queue queue(a, b.address());
        uint64_t next = 0;

        for (unsigned round = 0; round < 20; ++round) {
            next = queue.fill(next);
            for (unsigned i = 0; i < 10; ++i) {
                EXPECT_OK(queue.add(next++));
            }
            /* what is sent now must not overtake what is pending */
            EXPECT_STATUS(UCS_ERR_NO_RESOURCE, uct_ep_am_short(queue.ep.handle, AM_ID, 0, NULL, 0));
            EXPECT_STATUS(UCS_ERR_NO_RESOURCE, uct_ep_flush(queue.ep.handle, 0, NULL));
            progress_until("pending messages", [&] { return numbers.list.size() == next; });
        }
        EXPECT_TRUE(numbers.list == queue.order);
        for (uint64_t n = 0; n < next; ++n) {
            EXPECT_EQ(numbers.list[n], n);
        }
    });
}

/* A request that comes when there is room is not forgotten: it is refused because it can be sent at
 * once, or progress sends it */
TEST_P(Pending, NotForgottenWhenThereIsRoom)
{
    isolated(env(), [] {
        Md md;
        Iface a(md), b(md);
        Numbers numbers(b);
        Queue queue(a, b.address());

        for (uint64_t n = 0; n < 50; ++n) {
            ucs_status_t status = queue.add(n);

            if (status == UCS_ERR_BUSY) {
                EXPECT_OK(queue.ep.am_short(AM_ID, n, NULL, 0));
            } else {
                EXPECT_OK(status);
            }
            progress_until("the message", [&] { return numbers.list.size() == n + 1; });
            EXPECT_EQ(numbers.list.back(), n);
        }
    });
}

TEST_P(Pending, Purge)
{
    isolated(env(), [] {
        Md md;
        Iface a(md), b(md);
        Numbers numbers(b);
        Queue queue(a, b.address());
        std::vector<uint64_t> purged;
        uint64_t next = queue.fill(0);

        for (unsigned i = 0; i < 5; ++i) {
            EXPECT_OK(queue.add(next + i));
        }
        uct_ep_pending_purge(
            queue.ep.handle,
            [](uct_pending_req_t *self, void *arg) {
                ((std::vector<uint64_t> *)arg)->push_back(((Request *)self)->n);
            },
            &purged);
        EXPECT_EQ(purged.size(), 5u);
        for (size_t i = 0; i < purged.size(); ++i) {
            EXPECT_EQ(purged[i], next + i) << "in the order of adding";
        }
        progress_until("what was sent", [&] { return numbers.list.size() == next; });
        EXPECT_OK(queue.ep.am_short(AM_ID, next, NULL, 0));
        progress_until("one more", [&] { return numbers.list.size() == next + 1; });
        EXPECT_TRUE(numbers.list.back() == next);
    });
}

/* Two endpoints to one peer, and others to another: all get their turn */
TEST_P(Pending, Fairness)
{
    isolated(env(), [] {
        const unsigned count = 100;
        Md md;
        Iface a(md), b(md), c(md);
        Numbers numbers_b(b), numbers_c(c);
        Queue first(a, b.address()), second(a, b.address()), other(a, c.address());
        uint64_t next = first.fill(0);

        other.fill(0);
        size_t sent_b = first.order.size(), sent_c = other.order.size();
        first.order.clear();
        for (unsigned i = 0; i < count; ++i) {
            EXPECT_OK(first.add(next + i));
        }
        for (unsigned i = 0; i < count; ++i) {
            ucs_status_t status = second.add(next + count + i);

            if (status == UCS_ERR_BUSY) { /* its own queue is empty, and there may be room by now */
                EXPECT_OK(second.ep.am_short(AM_ID, next + count + i, NULL, 0));
                second.order.push_back(next + count + i);
            }
            status = other.add(i);
            if (status == UCS_ERR_BUSY) {
                EXPECT_OK(other.ep.am_short(AM_ID, i, NULL, 0));
            }
        }
        progress_until("half of one queue", [&] {
            return first.order.size() >= count / 2 || second.order.size() >= count / 2;
        });
        EXPECT_GT(first.order.size(), 0u) << "starved by the other endpoint to the same peer";
        EXPECT_GT(second.order.size(), 0u) << "starved by the other endpoint to the same peer";
        progress_until("everything", [&] {
            return (numbers_b.list.size() == sent_b + 2 * count) &&
                   (numbers_c.list.size() == sent_c + count);
        });
    });
}

/* An endpoint with pending requests goes: they are dropped, the other endpoint of the VC goes on */
TEST_P(Pending, EndpointDestroyed)
{
    isolated(env(), [] {
        Md md;
        Iface a(md), b(md);
        Numbers numbers(b);
        Queue stays(a, b.address());
        uint64_t next = stays.fill(0);
        {
            Queue goes(a, b.address());

            for (unsigned i = 0; i < 3; ++i) {
                EXPECT_OK(goes.add(1000000 + i));
            }
            uct_ep_pending_purge(goes.ep.handle, [](uct_pending_req_t *, void *) {}, NULL);
        }
        EXPECT_OK(stays.ep.am_short(AM_ID, next, NULL, 0));
        progress_until("the message", [&] { return numbers.list.size() == next + 1; });
        EXPECT_EQ(numbers.list.back(), next);
    });
}

/* Requests added by a request's own callback wait behind those that are there */
TEST_P(Pending, AddedFromCallback)
{
    struct Again {
        static ucs_status_t on_turn(uct_pending_req_t *uct)
        {
            Again *self = (Again *)uct;
            ucs_status_t status = uct_ep_am_short(self->queue->ep.handle, AM_ID, self->n, NULL, 0);

            if (status == UCS_OK) {
                self->queue->order.push_back(self->n);
                self->later_status = self->queue->add(self->later);
            }
            return status;
        }

        uct_pending_req_t uct;
        Queue *queue;
        uint64_t n, later;
        ucs_status_t later_status = UCS_INPROGRESS;
    };

    isolated(env(), [] {
        Md md;
        Iface a(md), b(md);
        Numbers numbers(b);
        Queue queue(a, b.address());
        uint64_t next = queue.fill(0);
        Again again;

        again.uct.func = Again::on_turn;
        again.queue = &queue;
        again.n = next;
        again.later = next + 2;
        EXPECT_OK(uct_ep_pending_add(queue.ep.handle, &again.uct, 0));
        EXPECT_OK(queue.add(next + 1));
        progress_until("two messages", [&] { return numbers.list.size() >= next + 2; });
        EXPECT_OK(again.later_status); /* another one is pending: must queue up behind it */
        progress_until("the third", [&] { return numbers.list.size() == next + 3; });
        for (uint64_t n = 0; n < numbers.list.size(); ++n) {
            EXPECT_EQ(numbers.list[n], n);
        }
    });
}

FOR_CHANNELS(Pending);

} // namespace

/*
 * SR's announced messages: read where they lie, or fetched, and what becomes of the send unit.
 */
#include "traffic.h"

namespace
{

const uint8_t AM_ID = 8;
const size_t LENGTH = 4000; /* more than goes into an MP */

const Env SR = {{"UCX_GLEX_CHANNELS", "sr"}};

/* One sends to the other; each is progressed by itself */
class Announced
{
  public:
    Announced() : receiver(md), sender(new Iface(md)), ep(new Ep(*sender, receiver.address()))
    {
        receiver.on_am(AM_ID, [this](const void *data, size_t length) {
            std::vector<uint8_t> bytes(length);

            fill(bytes.data(), length, ID, received++);
            EXPECT_EQ(length, LENGTH);
            EXPECT_EQ(memcmp(data, bytes.data(), length), 0) << "message " << received;
        });
        send(); /* connects */
        EXPECT_OK(ep->flush());
    }

    void send()
    {
        std::vector<uint8_t> bytes(LENGTH);

        fill(bytes.data(), LENGTH, ID, sent++);
        EXPECT_EQ(ep->am_bcopy(AM_ID, bytes.data(), LENGTH), (ssize_t)LENGTH);
    }

    bool receiver_made_units() const
    {
        return receiver.internals()->sr.rx.regions != NULL;
    }

    bool some_unreleased() const
    {
        return !ucs_list_is_empty(&receiver.internals()->sr.unreleased);
    }

    /* Until the sender waits for units although all was received */
    void leave_some_unreleased()
    {
        for (unsigned i = 0; i < 20; ++i) {
            send();
        }
        waiting_for("a unit that cannot be given back");
        while (!some_unreleased() || (received < sent)) {
            if (received == sent) {
                send();
            }
            receiver.progress();
        }
    }

    static const uint32_t ID = 9;

    Md md;
    Iface receiver;
    std::unique_ptr<Iface> sender;
    std::unique_ptr<Ep> ep;
    uint32_t sent = 0, received = 0;
};

const Env BUSY = SR + Env({{"GLEX_FAULT", "busy=0.7,seed=3"}});

TEST(Sr, ReadInPlaceNeedsNoReceiveUnit)
{
    isolated(SR, [] {
        Announced pair;

        for (unsigned i = 0; i < 500; ++i) {
            pair.send();
        }
        EXPECT_OK(pair.ep->flush());
        EXPECT_EQ(pair.received, pair.sent);
        EXPECT_FALSE(pair.receiver_made_units());
    });
}

TEST(Sr, FetchedWhereItCannotBeMapped)
{
    isolated(SR + Env({{"GLEX_FAULT", "nomap"}}), [] {
        Announced pair;

        for (unsigned i = 0; i < 500; ++i) {
            pair.send();
        }
        progress_until("all messages", [&] { return pair.received == pair.sent; });
        EXPECT_TRUE(pair.receiver_made_units());
    });
}

/* The sender cannot be told of its units just now: it is told later */
TEST(Sr, UnitsComeBackLater)
{
    isolated(BUSY, [] {
        Announced pair;

        pair.leave_some_unreleased();
        EXPECT_OK(pair.ep->flush());
        EXPECT_FALSE(pair.some_unreleased());
        EXPECT_EQ(pair.sender->internals()->ops.outstanding, 0u);
    });
}

/* The sender goes before it can be told */
TEST(Sr, NobodyIsLeftToBeTold)
{
    isolated(BUSY, [] {
        Announced pair;

        pair.leave_some_unreleased();
        pair.ep.reset();
        pair.sender.reset();
        progress_until("the end of what waits", [&] { return !pair.some_unreleased(); });
    });
}

} // namespace

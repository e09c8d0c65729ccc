// Datagrams of whoever has guessed the queue key, and addresses that nobody has: each is counted as
// what it is, and those who send properly lose nothing. UDMON_FUZZ is the number of inputs.
#include "ud_mon_fixture.h"

#include <random>

namespace
{

int inputs(int usual)
{
    const char *text = getenv("UDMON_FUZZ");

    return (text != nullptr) ? atoi(text) : usual;
}

struct UdMonFuzz : UdMonTest {
    std::mt19937 random{17};

    // A datagram that is mostly in order, of one of a few senders.
    std::string datagram()
    {
        size_t length =
            (random() % 8) ? random() % 100 : random() % (4096 - sizeof(ud_mon_header_t));
        ud_mon_header_t h = header(1 + random() % 5, random() % 2000, length);

        h.stream = htole32(random() % 3);
        h.am_id = (random() % 8) ? Host::am_id : random();
        std::string bytes(reinterpret_cast<const char *>(&h), sizeof(h));
        bytes.append(length, char(random()));
        if (random() % 2) {
            mutate(&bytes);
        }
        return bytes;
    }
    void mutate(std::string *bytes)
    {
        for (int i = 1 + random() % 4; i > 0; --i) {
            if (random() % 4 == 0) {
                bytes->resize(random() % 4097, char(random()));
            } else if (!bytes->empty()) {
                (*bytes)[random() % std::min(bytes->size(), 2 * sizeof(ud_mon_header_t))] =
                    random();
            }
        }
    }
};

TEST_F(UdMonFuzz, DatagramsOfStrangers)
{
    RawQp raw("rxe1");
    uint64_t count = inputs(5000);

    set("MAX_SENDERS", "64");
    restart();
    raw.aim(*b);
    for (uint64_t i = 0; i < count; ++i) {
        std::string bytes = datagram();
        raw.send(bytes.data(), bytes.size());
        if (i % 16 == 0) {
            b->progress();
            b->received.clear();
        }
    }
    b->progress_until([] { return false; });
    uct_ud_mon_stats_t stats = b->stats();
    EXPECT_EQ(0u, stats.no_receive);
    EXPECT_EQ(count, stats.foreign + stats.malformed + stats.no_handler + stats.duplicated +
                         stats.stale + stats.rx_datagrams);
    for (uint64_t kind : {stats.foreign, stats.malformed, stats.no_handler, stats.duplicated,
                          stats.stale, stats.rx_datagrams}) {
        EXPECT_GT(kind, 0u);
    }
    EXPECT_LE(stats.senders, 64u);
    EXPECT_EQ(0u, stats.recoveries);
    b->received.clear();
    settle();
}

// The GID stays what it is: for hosts that are not there the kernel asks for a second.
TEST_F(UdMonFuzz, AddressesOfNobody)
{
    std::vector<uint8_t> dev = b->device_addr(), addr = b->iface_addr();
    int made = 0;

    for (int i = 0; i < inputs(5000); ++i) {
        std::vector<uint8_t> to = dev, qp = addr;
        uct_ep_params_t params = {};
        uct_ep_h other;

        to[random() % 4] = random();
        qp[random() % qp.size()] = random();
        params.field_mask =
            UCT_EP_PARAM_FIELD_IFACE | UCT_EP_PARAM_FIELD_DEV_ADDR | UCT_EP_PARAM_FIELD_IFACE_ADDR;
        params.iface = a->iface;
        params.dev_addr = (const uct_device_addr_t *)to.data();
        params.iface_addr = (const uct_iface_addr_t *)qp.data();
        uct_iface_is_reachable(a->iface, params.dev_addr, params.iface_addr);
        if (uct_ep_create(&params, &other) == UCS_OK) {
            ++made;
            send_bcopy(other, "nobody"); // goes where nobody listens, or where the key is wrong
            a->progress();
            uct_ep_destroy(other);
        }
    }
    EXPECT_GT(made, 0);
    b->progress_until([] { return false; });
    b->received.clear(); // not all that was changed matters on this network
    settle();
}

} // namespace

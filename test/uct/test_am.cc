/*
 * Active messages between two interfaces of one process: every operation, every length.
 */
#include "traffic.h"

#include <string.h>

namespace
{

const uint8_t AM_ID = 5;

/* Two interfaces on one memory domain, and what the second one received last */
class Pair
{
  public:
    Pair() : a(md), b(md), ep(a, b.address())
    {
        b.on_am(AM_ID, [this](const void *data, size_t length) {
            ++received;
            last.assign((const uint8_t *)data, (const uint8_t *)data + length);
        });
    }

    /* Wait for the next message and compare it with `bytes` */
    void expect(const std::vector<uint8_t> &bytes)
    {
        unsigned before = expected++;

        progress_until("a message", [&] { return received > before; });
        EXPECT_EQ(received, expected);
        EXPECT_EQ(last.size(), bytes.size());
        EXPECT_TRUE(last == bytes) << "wrong content, length " << bytes.size();
    }

    Md md;
    Iface a, b;
    Ep ep;
    std::vector<uint8_t> last;
    unsigned received = 0;

  private:
    unsigned expected = 0;
};

std::vector<uint8_t> bytes_of(size_t length, unsigned seed = 1)
{
    std::vector<uint8_t> bytes(length);

    fill(bytes.data(), length, seed, (uint32_t)length);
    return bytes;
}

class Am : public WithSetting
{
};

TEST_P(Am, ShortEveryLength)
{
    isolated(env(), [] {
        Pair pair;
        size_t max = pair.a.attr.cap.am.max_short;

        ASSERT_GE(max, 8u);
        for (size_t length = 8; length <= max; ++length) {
            std::vector<uint8_t> bytes = bytes_of(length);
            uint64_t header;

            memcpy(&header, bytes.data(), 8);
            EXPECT_OK(pair.ep.am_short(AM_ID, header, bytes.data() + 8, length - 8));
            pair.expect(bytes);
        }
        ErrorLog log;
        EXPECT_STATUS(UCS_ERR_INVALID_PARAM,
                      uct_ep_am_short(pair.ep.handle, AM_ID, 0, bytes_of(max).data(), max - 7));
        EXPECT_EQ(pair.received, max - 7);
    });
}

TEST_P(Am, ShortWithoutPayload)
{
    isolated(env(), [] {
        Pair pair;
        const uint64_t header = 0x1122334455667788;

        EXPECT_OK(pair.ep.am_short(AM_ID, header, NULL, 0));
        pair.expect({0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11});
    });
}

TEST_P(Am, ShortIovEveryLengthAndSplit)
{
    isolated(env(), [] {
        Pair pair;
        size_t max = pair.a.attr.cap.am.max_short;

        for (size_t length = 0; length <= max; ++length) {
            std::vector<uint8_t> bytes = bytes_of(length);

            for (size_t split : {(size_t)0, length / 3, length}) {
                uint8_t *data = bytes.data();

                EXPECT_OK(pair.ep.am_short_iov(
                    AM_ID, {piece(data, split), piece(data + split, length - split)}));
                pair.expect(bytes);
            }
        }
        EXPECT_OK(pair.ep.am_short_iov(AM_ID, {}));
        pair.expect({});
        ErrorLog log;
        std::vector<uint8_t> more = bytes_of(max + 1);
        uct_iov_t iov = piece(more.data(), max + 1);
        EXPECT_STATUS(UCS_ERR_INVALID_PARAM, uct_ep_am_short_iov(pair.ep.handle, AM_ID, &iov, 1));
    });
}

/* All lengths to beyond a few units; then steps that end at the largest and pass every offset of a
 * FIFO many times */
TEST_P(Am, BcopyEveryLength)
{
    isolated(env(), [] {
        Pair pair;
        size_t max = pair.a.attr.cap.am.max_bcopy;

        for (size_t length = 0; length <= max; length += (length < 320) ? 1 : 61) {
            std::vector<uint8_t> bytes = bytes_of(length);

            EXPECT_EQ(pair.ep.am_bcopy(AM_ID, bytes.data(), length), (ssize_t)length);
            pair.expect(bytes);
        }
        for (size_t length = max - 3; length <= max; ++length) {
            std::vector<uint8_t> bytes = bytes_of(length);

            EXPECT_EQ(pair.ep.am_bcopy(AM_ID, bytes.data(), length), (ssize_t)length);
            pair.expect(bytes);
        }
    });
}

/* Header sizes, numbers of pieces, empty pieces, from private and from NIC memory; every second
 * piece without a handle where none is asked for */
TEST_P(Am, ZcopyHeadersAndPieces)
{
    isolated(env(), [] {
        Pair pair;
        const uct_iface_attr_t &attr = pair.a.attr;
        const bool need_memh = pair.md.has(UCT_MD_FLAG_NEED_MEMH);

        if (!pair.a.has(UCT_IFACE_FLAG_AM_ZCOPY)) {
            EXPECT_FALSE(pair.md.has(UCT_MD_FLAG_REG)) << "no zero-copy although memory registers";
            return;
        }
        for (Memory::Kind kind : memory_kinds(pair.md)) {
            Memory memory(pair.md, attr.cap.am.max_zcopy, kind);

            fill(memory.data, memory.length, 7, 7);
            for (size_t header :
                 {(size_t)0, (size_t)1, (size_t)8, (size_t)63, attr.cap.am.max_hdr}) {
                for (size_t length : {(size_t)0, (size_t)1, (size_t)100, (size_t)5000,
                                      attr.cap.am.max_zcopy - header}) {
                    for (size_t iovcnt = 0; iovcnt <= attr.cap.am.max_iov; ++iovcnt) {
                        std::vector<uint8_t> bytes = bytes_of(header);
                        std::vector<uct_iov_t> iov;
                        size_t rest = (iovcnt == 0) ? 0 : length, offset = 0;
                        Completion comp;

                        for (size_t i = 0; i < iovcnt; ++i) {
                            /* from the end of the memory backwards; the second one is empty */
                            size_t size = (i + 1 == iovcnt) ? rest : (i == 1) ? 0 : rest / 2;

                            offset = attr.cap.am.max_zcopy - rest;
                            iov.push_back(piece(memory.data + offset, size,
                                                need_memh || (i % 2) ? memory.memh : NULL));
                            bytes.insert(bytes.end(), memory.data + offset,
                                         memory.data + offset + size);
                            rest -= size;
                        }
                        ucs_status_t status =
                            pair.ep.am_zcopy(AM_ID, bytes.data(), header, iov, &comp);
                        pair.expect(bytes);
                        if (status == UCS_INPROGRESS) {
                            comp.wait();
                            EXPECT_EQ(comp.uct.status, UCS_OK);
                        } else {
                            EXPECT_OK(status);
                            EXPECT_EQ(comp.done, 0);
                        }
                    }
                }
            }
        }
    });
}

TEST_P(Am, ZcopyWithoutCompletion)
{
    isolated(env(), [] {
        Pair pair;

        if (pair.a.has(UCT_IFACE_FLAG_AM_ZCOPY)) {
            Memory memory(pair.md, 4096, Memory::PRIVATE);
            ucs_status_t status;

            fill(memory.data, 4096, 3, 3);
            status =
                pair.ep.am_zcopy(AM_ID, NULL, 0, {piece(memory.data, 4096, memory.memh)}, NULL);
            EXPECT_TRUE((status == UCS_OK) || (status == UCS_INPROGRESS));
            pair.expect(std::vector<uint8_t>(memory.data, memory.data + 4096));
            EXPECT_OK(pair.ep.flush());
        }
    });
}

/* Lengths beyond what is promised are refused, and nothing arrives */
TEST_P(Am, ZcopyTooLong)
{
    isolated(env(), [] {
        Pair pair;
        const uct_iface_attr_t &attr = pair.a.attr;

        if (pair.a.has(UCT_IFACE_FLAG_AM_ZCOPY)) {
            Memory memory(pair.md, attr.cap.am.max_zcopy + 1, Memory::PRIVATE);
            std::vector<uint8_t> header(attr.cap.am.max_hdr + 1);
            std::vector<uct_iov_t> iov(attr.cap.am.max_iov + 1, piece(memory.data, 8, memory.memh));
            uct_iov_t all = piece(memory.data, attr.cap.am.max_zcopy + 1, memory.memh);
            ErrorLog log;
            Completion comp;

            EXPECT_STATUS(UCS_ERR_INVALID_PARAM,
                          uct_ep_am_zcopy(pair.ep.handle, AM_ID, NULL, 0, &all, 1, 0, &comp.uct));
            all = piece(memory.data, 8, memory.memh);
            EXPECT_STATUS(UCS_ERR_INVALID_PARAM,
                          uct_ep_am_zcopy(pair.ep.handle, AM_ID, header.data(), header.size(), &all,
                                          1, 0, &comp.uct));
            EXPECT_STATUS(UCS_ERR_INVALID_PARAM,
                          uct_ep_am_zcopy(pair.ep.handle, AM_ID, NULL, 0, iov.data(), iov.size(), 0,
                                          &comp.uct));
            EXPECT_EQ(pair.received, 0u);
            EXPECT_EQ(comp.done, 0);
        }
    });
}

/* What a message without a handle is registered for is over with it: more of them than an endpoint
 * has registrations */
TEST(AmZcopy, WithoutHandleLeavesNoRegistration)
{
    isolated({{"UCX_GLEX_RCACHE", "n"}}, [] {
        Pair pair;
        Md &md = pair.md;
        const unsigned count = ((uct_glex_md_t *)md.handle)->dev_attr.mmt_units + 1;
        std::vector<uint8_t> bytes(200, 7);

        if (!pair.a.has(UCT_IFACE_FLAG_AM_ZCOPY) || md.has(UCT_MD_FLAG_NEED_MEMH)) {
            return;
        }
        for (unsigned i = 0; i < count; ++i) {
            Completion comp;
            ucs_status_t status = pair.ep.am_zcopy(
                AM_ID, NULL, 0, {piece(bytes.data(), 100), piece(bytes.data() + 100, 100)}, &comp);

            ASSERT_EQ(status, UCS_INPROGRESS) << i;
            comp.wait();
            ASSERT_EQ(comp.uct.status, UCS_OK) << i;
        }
    });
}

TEST_P(Am, EveryAmId)
{
    isolated(env(), [] {
        Pair pair;
        unsigned sum = 0;

        for (unsigned id = 0; id < UCT_AM_ID_MAX; ++id) {
            pair.b.on_am(id, [&sum, id](const void *data, size_t length) {
                check(data, length, id, 0);
                sum += id + 1;
            });
        }
        for (unsigned id = 0; id < UCT_AM_ID_MAX; ++id) {
            std::vector<uint8_t> bytes(200);

            fill(bytes.data(), bytes.size(), id, 0);
            EXPECT_EQ(pair.ep.am_bcopy(id, bytes.data(), bytes.size()), (ssize_t)bytes.size());
        }
        progress_until("all messages",
                       [&] { return sum == UCT_AM_ID_MAX * (UCT_AM_ID_MAX + 1) / 2; });
        ErrorLog log;
        EXPECT_STATUS(UCS_ERR_INVALID_PARAM,
                      uct_ep_am_short(pair.ep.handle, UCT_AM_ID_MAX, 0, NULL, 0));
    });
}

FOR_CHANNELS(Am);

/* The same where the NIC lacks something: ER then goes through its mirror, there is no zero-copy */
INSTANTIATE_TEST_SUITE_P(
    Faults, Am,
    testing::Values(
        Setting{"er_nomap", {{"UCX_GLEX_CHANNELS", "er"}, {"GLEX_FAULT", "nomap"}}},
        Setting{"er_noprivate", {{"UCX_GLEX_CHANNELS", "er"}, {"GLEX_FAULT", "noprivate"}}},
        Setting{"sr_noprivate", {{"UCX_GLEX_CHANNELS", "sr"}, {"GLEX_FAULT", "noprivate"}}}),
    setting_name);

INSTANTIATE_TEST_SUITE_P(
    LongZcopy, Am,
    testing::Values(Setting{"er", {{"UCX_GLEX_CHANNELS", "er"}, {"UCX_GLEX_ZC_MAX_SIZE", "64k"}}},
                    Setting{"sr", {{"UCX_GLEX_CHANNELS", "sr"}, {"UCX_GLEX_ZC_MAX_SIZE", "64k"}}}),
    setting_name);

} // namespace

/*
 * Variables UCX_GLEX_*: nonsense is refused with a message that names the variable and the range.
 */
#include "traffic.h"

namespace
{

struct Nonsense {
    const char *name; /* without UCX_GLEX_ */
    const char *value;
    const char *range; /* what the message must tell, beside the name */
    Env with;          /* set beside it */
};

/* Of the memory domain */
const Nonsense md_nonsense[] = {
    {"EP_MPQ_CAPACITY", "1", "16 to", {}}, {"EP_MPQ_CAPACITY", "4000000000", "16 to", {}},
    {"EP_EQ_CAPACITY", "1", "64 to", {}},  {"EP_EQ_CAPACITY", "4000000000", "64 to", {}},
    {"EP_DQ_CAPACITY", "1", "8 to", {}},   {"EP_DQ_CAPACITY", "4000000000", "8 to", {}},
};

const Nonsense iface_nonsense[] = {
    {"CHANNELS", "", "er", {}},
    {"EP_MPQ_POOL_UNITS", "70000", "65536", {}},
    {"SRQ_CAPACITY", "0", "2 to", {}},
    {"SRQ_CAPACITY", "1000000", "16384", {}},
    {"SRQ_UNIT_SIZE", "0", "256 to", {}},
    {"SRQ_UNIT_SIZE", "64", "256 to", {}},
    {"SRQ_UNIT_SIZE", "1g", "1048576", {}},
    {"ER_THRESH", "65536", "0 to 65535", {}},
    {"ER_MAX_CHANNELS", "0", "1 to", {}},
    {"ER_MAX_CHANNELS", "100000", "32768", {}},
    {"ER_MAX_MEM", "0", "32768 to", {}},
    {"ER_MAX_MEM", "4k", "32768 to", {}},
    {"ERQ_UNIT_SIZE", "0", "power of two", {}},
    {"ERQ_UNIT_SIZE", "96", "power of two", {}},
    {"ERQ_UNIT_SIZE", "32", "64 to 4096", {}},
    {"ERQ_UNIT_SIZE", "8k", "64 to 4096", {}},
    {"ERQ_SPACING", "0", "power of two", {}},
    {"ERQ_SPACING", "1000", "power of two", {}},
    {"ERQ_SPACING", "8k", "64 to 4096", {}},
    {"ERQ_SIZE", "100000", "power of two", {}},
    {"ERQ_SIZE", "512", "1024 to", {}},
    {"ERQ_SIZE", "1g", "1024 to", {{"UCX_GLEX_ER_MAX_MEM", "2g"}}},
    {"RMA_BUF_SIZE", "0", "64 to", {}},
    {"RMA_BUF_SIZE", "1g", "1048576", {}},
    {"RMA_REQ_CAPACITY", "0", "1 to", {}},
    {"RMA_REQ_CAPACITY", "1000000", "16384", {}},
    {"ZC_MAX_SIZE", "255", "256 to", {}},
    {"ZC_MAX_SIZE", "65537", "65536", {}},
    {"MIN_RNDV", "2g", "0 to", {}},
    {"ZC_REQ_CAPACITY", "0", "1 to", {}},
    {"ZC_REQ_CAPACITY", "1000000", "16384", {}},
    {"SR_CREDIT_START", "0", "1 to", {}},
    {"SR_CREDIT_START", "1025", "1024", {}},
    {"SR_CREDIT_INC", "0", "1 to", {}},
    {"SR_CREDIT_INC", "100000", "16384", {}},
    {"SR_CREDIT_MAX", "0", "1 to", {{"UCX_GLEX_SR_CREDIT_START", "1"}}},
    {"SR_CREDIT_MAX", "100000", "16384", {}},
    /* right by themselves, but not together */
    {"EP_MPQ_CAPACITY", "16", "64 or more", {}},
    {"EP_EQ_CAPACITY", "64", "EQ", {}},
    {"ZC_REQ_CAPACITY", "292", "ER channels", {}}, /* leaves too few events for those */
};

void expect_named(const Nonsense &c, const std::string &text)
{
    EXPECT_NE(text.find(c.name), std::string::npos)
        << c.name << " is not named by the message: " << text;
    EXPECT_NE(text.find(c.range), std::string::npos)
        << "the message does not tell '" << c.range << "': " << text;
}

Env environment_of(const Nonsense &c)
{
    return c.with + Env{{std::string("UCX_GLEX_") + c.name, c.value}};
}

TEST(Config, NonsenseOfTheMemoryDomain)
{
    for (const Nonsense &c : md_nonsense) {
        SCOPED_TRACE(std::string(c.name) + "=" + c.value);
        isolated(environment_of(c), [&] {
            ErrorLog log;

            EXPECT_STATUS(UCS_ERR_INVALID_PARAM, try_open_md());
            expect_named(c, log.text());
        });
    }
}

TEST(Config, NonsenseOfTheInterface)
{
    for (const Nonsense &c : iface_nonsense) {
        SCOPED_TRACE(std::string(c.name) + "=" + c.value);
        isolated(environment_of(c), [&] {
            Md md;
            ErrorLog log;

            EXPECT_STATUS(UCS_ERR_INVALID_PARAM, try_open_iface(md));
            expect_named(c, log.text());
        });
    }
}

/* The limits of the ranges themselves work, and carry a message */
const Env good[] = {
    {{"UCX_GLEX_SRQ_CAPACITY", "2"}},
    {{"UCX_GLEX_SRQ_UNIT_SIZE", "256"}},
    {{"UCX_GLEX_SRQ_UNIT_SIZE", "1m"}, {"UCX_GLEX_SRQ_CAPACITY", "4"}},
    {{"UCX_GLEX_SRQ_UNIT_SIZE", "1000"}},
    {{"UCX_GLEX_ER_MAX_CHANNELS", "1"}},
    {{"UCX_GLEX_ERQ_UNIT_SIZE", "2048"}},
    {{"UCX_GLEX_ERQ_UNIT_SIZE", "4096"}, {"UCX_GLEX_ERQ_SIZE", "64k"}},
    {{"UCX_GLEX_ERQ_SPACING", "64"}},
    {{"UCX_GLEX_ERQ_SPACING", "2k"}, {"UCX_GLEX_ERQ_SIZE", "256k"}},
    {{"UCX_GLEX_ERQ_SPACING", "4k"}, {"UCX_GLEX_ERQ_SIZE", "1024"}},
    {{"UCX_GLEX_ERQ_SIZE", "1024"}},
    {{"UCX_GLEX_ERQ_SIZE", "1024"}, {"UCX_GLEX_CHANNELS", "er"}},
    {{"UCX_GLEX_ERQ_SIZE", "1m"}},
    {{"UCX_GLEX_ERQ_SIZE", "1m"}, {"UCX_GLEX_SRQ_UNIT_SIZE", "1m"}, {"UCX_GLEX_CHANNELS", "er"}},
    {{"UCX_GLEX_RMA_BUF_SIZE", "64"}},
    {{"UCX_GLEX_RMA_REQ_CAPACITY", "1"}},
    {{"UCX_GLEX_ZC_REQ_CAPACITY", "1"}},
    {{"UCX_GLEX_ZC_MAX_SIZE", "256"}},
    {{"UCX_GLEX_ZC_MAX_SIZE", "64k"}},
    {{"UCX_GLEX_SR_CREDIT_START", "1"},
     {"UCX_GLEX_SR_CREDIT_MAX", "1"},
     {"UCX_GLEX_CHANNELS", "sr"}},
    {{"UCX_GLEX_EP_MPQ_CAPACITY", "0"}, {"UCX_GLEX_EP_EQ_CAPACITY", "0"}},
    {{"UCX_GLEX_EP_MPQ_POOL_UNITS", "1"}, {"UCX_GLEX_CHANNELS", "sr"}},
    {{"UCX_GLEX_EP_TYPE", "normal"}},
    {{"UCX_GLEX_EP_TYPE", "emulate"}},
    {{"UCX_GLEX_EP_HC_MPQ", "y"}, {"UCX_GLEX_EP_HC_EQ", "y"}},
    {{"UCX_GLEX_EP_DQ_CAPACITY", "8"}},
};

TEST(Config, LimitsOfTheRangesWork)
{
    for (const Env &env : good) {
        SCOPED_TRACE(env.begin()->first + "=" + env.begin()->second);
        isolated(env, [] {
            Md md;
            Iface a(md), b(md);
            Plan plan = mixed_plan(a, 3);
            Sink sink(b, 1, 0, plan);
            Sender sender(a, b.address(), 1, 0, plan);

            for (unsigned i = 0; i < 200; ++i) {
                sender.send();
            }
            progress_until("all messages", [&] { return sink.received == 200; });
        });
    }
}

/* am_zcopy is offered on request alone, and UCP's rendezvous begins behind 16 KB or where the user says */
TEST(Config, ZcopyAndRendezvous)
{
    isolated({{"UCX_GLEX_ZC_MAX_SIZE", "auto"}}, [] {
        Md md;
        Iface iface(md);

        EXPECT_FALSE(iface.has(UCT_IFACE_FLAG_AM_ZCOPY));
        EXPECT_EQ(iface.attr.cap.am.min_zcopy, 16385u);
        EXPECT_EQ(iface.attr.cap.am.max_zcopy, 0u);
    });
    isolated({{"UCX_GLEX_ZC_MAX_SIZE", "auto"}, {"UCX_GLEX_MIN_RNDV", "0"}}, [] {
        Md md;
        Iface iface(md);

        EXPECT_EQ(iface.attr.cap.am.min_zcopy, 0u);
    });
    isolated({{"UCX_GLEX_ZC_MAX_SIZE", "1000"}}, [] {
        Md md;
        Iface iface(md);

        ASSERT_TRUE(iface.has(UCT_IFACE_FLAG_AM_ZCOPY));
        EXPECT_EQ(iface.attr.cap.am.max_zcopy, 1000u);
        EXPECT_EQ(iface.attr.cap.am.min_zcopy, 0u);
    });
}

/* What variables promise shows in the attributes */
TEST(Config, AttributesFollow)
{
    isolated({{"UCX_GLEX_SRQ_UNIT_SIZE", "1000"}, {"UCX_GLEX_RMA_BUF_SIZE", "2048"}}, [] {
        Md md;
        Iface iface(md);

        EXPECT_EQ(iface.attr.cap.am.max_bcopy, 1000u);
        EXPECT_EQ(iface.attr.cap.put.max_bcopy, 2048u);
        EXPECT_EQ(iface.attr.cap.get.max_bcopy, 2048u);
        EXPECT_GT(iface.attr.latency.c, 0);
        EXPECT_GT(iface.attr.bandwidth.dedicated + iface.attr.bandwidth.shared, 0);
        EXPECT_TRUE(iface.has(UCT_IFACE_FLAG_CONNECT_TO_IFACE | UCT_IFACE_FLAG_PENDING |
                              UCT_IFACE_FLAG_CB_SYNC | UCT_IFACE_FLAG_ERRHANDLE_PEER_FAILURE |
                              UCT_IFACE_FLAG_EP_CHECK));
    });
}

} // namespace

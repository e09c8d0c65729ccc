/*
 * MADs that no honest node sends: random ones, and requests that would be served but for some
 * bytes. MCSM_FUZZ is how many (short form: 100,000; docs/mcsm.md says how to run a million).
 * Nothing may crash, memory stays bounded, and afterwards the manager still works.
 */
#include <malloc.h>
#include <random>
#include <filesystem>
#include <unistd.h>

#include "mcsm_test.h"

extern "C" {
#include "model.h"
#include "sa/part.h"
}

class Fuzz : public testing::Test
{
  protected:
    void SetUp() override
    {
        mcsm_log_set_level(MCSM_LOG_ERROR);
        ASSERT_EQ(0, mcsm_log_open("/dev/null"));
        model_start(&model);
        model_add(&model, 0x100, true, 8);
        model_add(&model, 0x101, true, 8);
        for (int i = 0; i < 4; i++) {
            model_add(&model, 0x200 + 16 * i, false, 1);
            model_link(&model, i / 2, 1 + i % 2, 2 + i, 1);
        }
        model_link(&model, 0, 5, 1, 5);
        ASSERT_NE(nullptr, mkdtemp(directory));
        std::string text =
            std::string("[cluster]\nname = a\nlid-max = 99\nstate-dir = ") + directory + "\n";
        manager = model_manager_new(&model, 2, text.c_str());
        ASSERT_NE(nullptr, manager);
        model_run(manager, 10000);
    }
    void TearDown() override
    {
        model_manager_free(manager);
        std::filesystem::remove_all(directory);
    }
    int count()
    {
        const char *text = getenv("MCSM_FUZZ");
        return text ? atoi(text) : 100000;
    }
    void still_works()
    {
        model.mutate = model.loss = 0;
        for (int i = 0; i < 3; i++) {
            mcsm_sm_sweep(manager->sm);
            model_run(manager, 10000);
        }
        uint16_t lid = mcsm_get16(model.nodes[5].ports[1].info, MCSM_PI_LID);
        EXPECT_EQ(5, model_route(&model, 2, lid, nullptr));
    }
    struct model model;
    struct model_manager *manager = nullptr;
    char directory[32] = "/tmp/mcsm-fuzz-XXXXXX";
};

/* Makes MADs for the nodes of the model, which have the LIDs 1 to 6. */
class Forger
{
  public:
    Forger(const struct model &nodes, unsigned seed) : model(nodes), draw(seed)
    {
    }
    uint32_t below(uint32_t limit)
    {
        return draw() % limit;
    }
    /* The next MAD; returns whom it comes from. */
    struct mcsm_addr next(uint8_t *mad)
    {
        struct mcsm_addr from = {};
        int host = 2 + below(4);

        from.lid = mcsm_get16(model.nodes[host].ports[1].info, MCSM_PI_LID);
        memset(mad, 0, MCSM_MAD_SIZE);
        switch (below(8)) {
        case 0:
            noise(mad);
            break;
        case 1:
            noise(mad);
            header(mad);
            break;
        case 2:
            trap(mad, from.lid);
            break;
        default:
            request(mad, host);
        }
        mcsm_put32(mad, MCSM_MAD_TID + 4, draw());
        for (int n = below(3) ? below(8) : 0; n > 0; n--) {
            mad[1 + below(MCSM_MAD_SIZE - 1)] = draw();
        }
        if (below(16) == 0) {
            from.lid = below(4) ? below(16) : draw();
        }
        return from;
    }

  private:
    void noise(uint8_t *mad)
    {
        bool all = below(2);
        for (int k = 0; k < MCSM_MAD_SIZE; k += 4) {
            mcsm_put32(mad, k, all || below(8) == 0 ? draw() : 0);
        }
    }
    void header(uint8_t *mad)
    {
        static const uint8_t classes[] = {1, 3, 0x81, 4};
        static const uint8_t methods[] = {1, 2, 5, 6, 7, 0x12, 0x14, 0x15, 0x81, 0x92};
        static const uint16_t attrs[] = {1,    2,    3,    0x10, 0x11, 0x12, 0x14,
                                         0x15, 0x16, 0x17, 0x18, 0x19, 0x1b, 0x20,
                                         0x30, 0x31, 0x33, 0x35, 0x38, 0x39, 0xf3};
        mad[0] = 1;
        mad[1] = classes[below(4)];
        mad[2] = mad[1] == 3 ? 2 : 1;
        mad[3] = methods[below(10)];
        mcsm_put16(mad, MCSM_MAD_ATTR, attrs[below(21)]);
    }
    void trap(uint8_t *mad, uint16_t lid)
    {
        static const uint16_t numbers[] = {128, 129, 130, 131, 144, 256};
        mad[0] = 1, mad[1] = 1, mad[2] = 1, mad[3] = MCSM_TRAP;
        mcsm_put16(mad, MCSM_MAD_ATTR, MCSM_NOTICE);
        mad[MCSM_SMP_BODY] = 0x81;
        mcsm_put16(mad, MCSM_SMP_BODY + 4, numbers[below(6)]);
        mcsm_put16(mad, MCSM_SMP_BODY + 6, lid);
    }
    /* A request that is served as it stands. */
    void request(uint8_t *mad, int host)
    {
        uint8_t *data = mad + MCSM_SA_DATA;
        uint64_t guid = model.nodes[host].guid + 1, mask = 0;
        uint8_t method = MCSM_GET_TABLE;
        uint16_t attr = 0;

        switch (below(6)) {
        case 0: /* join, or leave */
            attr = MCSM_SA_MC_MEMBER;
            method = below(3) ? MCSM_SET : MCSM_DELETE;
            mask = 0x11087;
            mcsm_put64(data, 0, 0xff12401bffff0000ULL);
            mcsm_put64(data, 8, below(500));
            mcsm_put64(data, 16, 0xfe80000000000000ULL);
            mcsm_put64(data, 24, guid);
            mcsm_put32(data, 32, 0xb1b);
            mcsm_put16(data, 40, 0xffff);
            data[48] = 0x20 | (1 + below(7));
            break;
        case 1: /* offer a service, or withdraw it */
            attr = MCSM_SA_SERVICE;
            method = below(3) ? MCSM_SET : MCSM_DELETE;
            mask = 0x13;
            mcsm_put64(data, 0, below(500));
            mcsm_put64(data, 8, 0xfe80000000000000ULL);
            mcsm_put64(data, 16, guid);
            mcsm_put32(data, 28, below(2) ? 3600 : 0);
            break;
        case 2: /* subscribe, or no longer */
            attr = MCSM_SA_INFORM_INFO;
            method = MCSM_SET;
            mcsm_put16(data, 16, 0xffff);
            data[22] = 1;
            data[23] = below(3) > 0;
            mcsm_put16(data, 24, 0xffff);
            mcsm_put16(data, 26, below(2) ? 0xffff : 128 + below(20));
            break;
        case 3: /* a path */
            attr = MCSM_SA_PATH;
            mask = below(2) ? 0xc : 0x30;
            mcsm_put64(data, 8, 0xfe80000000000000ULL);
            mcsm_put64(data, 16, model.nodes[2 + below(4)].guid + 1);
            mcsm_put64(data, 24, 0xfe80000000000000ULL);
            mcsm_put64(data, 32, guid);
            mcsm_put16(data, 40, 1 + below(8));
            mcsm_put16(data, 42, 1 + below(8));
            break;
        case 4: { /* a table */
            static const uint16_t tables[] = {0x11, 0x12, 0x14, 0x15, 0x17, 0x18,
                                              0x20, 0x30, 0x33, 0x38, 0x31, 0xf3};
            attr = tables[below(12)];
            mask = below(2) ? 0 : draw() & draw();
            mcsm_put16(data, 0, below(8));
            break;
        }
        default: /* SMInfo of another manager, which knows the key */
            mad[0] = 1, mad[1] = 1, mad[2] = 1, mad[3] = 1 + below(2);
            mcsm_put16(mad, MCSM_MAD_ATTR, MCSM_SM_INFO);
            mcsm_put32(mad, MCSM_MAD_MOD, below(8));
            mcsm_put64(mad, MCSM_SMP_BODY + MCSM_SMI_GUID, guid);
            mcsm_put64(mad, MCSM_SMP_BODY + MCSM_SMI_KEY, 1);
            return;
        }
        mad[0] = 1, mad[1] = 3, mad[2] = 2, mad[3] = method;
        mcsm_put16(mad, MCSM_MAD_ATTR, attr);
        mcsm_put64(mad, MCSM_SA_COMPONENTS, mask);
    }
    const struct model &model;
    std::mt19937 draw;
};

TEST_F(Fuzz, RequestsTrapsAndAnswersAtRandom)
{
    Forger forger(model, 1);
    size_t start = 0;
    for (int i = 0; i < count(); i++) {
        uint8_t mad[MCSM_MAD_SIZE];
        struct mcsm_addr from = forger.next(mad);
        model_deliver(manager, &from, mad);
        if (i % 64 == 0) {
            model_run(manager, 200);
            mcsm_mads_tick(manager->reports, mcsm_now() + 1000); /* nobody acknowledges them */
        }
        if (i == count() / 2) {
            start = mallinfo2().uordblks;
        }
    }
    /* They got as far as the code that is meant: not all were refused at the door. */
    const struct mcsm_sa_counters *served = mcsm_sa_stats(manager->sa);
    const struct mcsm_sm_stats *stats = &manager->sm->stats;
    uint64_t traps = stats->traps[0] + stats->traps[1] + stats->traps[4] + stats->traps[5];
    printf("%lu requests, %lu refused, %lu joins, %u groups, %u services, %u subscriptions, %lu "
           "reports, %lu traps, %lu sweeps\n",
           served->requests, served->refused, served->joins, served->groups, served->services,
           served->subscriptions, served->reports, traps, stats->heavy_sweeps);
    EXPECT_GT(served->requests - served->refused, count() / 10u);
    EXPECT_GT(served->joins, count() / 100u);
    EXPECT_GT(served->leaves, 0u);
    EXPECT_GT(served->reports, 0u);
    EXPECT_GT(traps, count() / 100u);
    EXPECT_GT(served->services, 0u);
    EXPECT_GT(served->subscriptions, 0u);
    EXPECT_LE(served->groups, (unsigned)MCSM_MAX_GROUPS);
    EXPECT_LE(served->services, (unsigned)MCSM_MAX_SERVICES);
    EXPECT_LE(served->subscriptions, (unsigned)MCSM_MAX_SUBSCRIPTIONS);
    /* In the second half no more than twice what was needed by then: what clients may store is
     * bounded. */
    EXPECT_LT(mallinfo2().uordblks, 2 * start + (8 << 20));
    still_works();
}

TEST_F(Fuzz, AnswersOfANodeThatLies)
{
    model.mutate = 20;
    model.loss = 5;
    for (int i = 0; i < count() / 200; i++) {
        mcsm_sm_sweep(manager->sm);
        model_run(manager, 2000);
        if (i % 16 == 0) { /* what the lies did to the nodes themselves */
            for (int n = 0; n < 6; n++) {
                model.nodes[n].m_key = 0;
            }
        }
    }
    const struct mcsm_sm_stats *stats = &manager->sm->stats;
    const struct mcsm_mad_stats *mads = mcsm_mads_stats(manager->smps);
    printf("%lu sweeps, %lu answers, %lu refused, %lu that nobody asked for, %lu failed Sets\n",
           stats->heavy_sweeps, mads->answered, mads->refused, mads->stray, stats->failed_sets);
    EXPECT_GT(stats->heavy_sweeps, count() / 400u); /* most get to their end */
    EXPECT_GT(mads->answered, count() / 20u);
    EXPECT_GT(stats->failed_sets, 0u);
    for (int n = 0; n < 6; n++) {
        model.nodes[n].m_key = 0;
    }
    still_works();
}

TEST_F(Fuzz, RmppThatNeverEnds)
{
    /* First segments of transfers whose next ones never come. */
    for (int i = 0; i < 10000; i++) {
        uint8_t mad[MCSM_MAD_SIZE] = {1, 3, 2, 0x14};
        struct mcsm_addr from = {};
        from.lid = 1 + i % 6;
        mad[24] = 1;
        mad[25] = 1;
        mad[26] = 3;
        mcsm_put32(mad, 28, 1);
        mcsm_put32(mad, 32, 0xffffffff);
        mcsm_put32(mad, MCSM_MAD_TID + 4, i);
        mcsm_put16(mad, MCSM_MAD_ATTR, 0x39);
        model_deliver(manager, &from, mad);
    }
    EXPECT_EQ(0u, mcsm_mads_pending(manager->reports));
    still_works();
}

/* The way to the fabric, on a libibumad of our own. */
#include <poll.h>
#include <unistd.h>

#include <algorithm>

#include "mcsm_test.h"

extern "C" {
#include "mad/umad.h"
#include "umad_fake.h"
}

class Umad : public testing::Test
{
  protected:
    void SetUp() override
    {
        mcsm_log_set_level(MCSM_LOG_ERROR);
        set([] { umad_fake.count = umad_fake.next = 0; });
        ASSERT_EQ(0, mcsm_umad_open(0, &umad));
    }
    void TearDown() override
    {
        mcsm_umad_close(umad);
    }
    template <typename F> static void set(F change)
    {
        pthread_mutex_lock(&umad_fake.mutex);
        change();
        pthread_mutex_unlock(&umad_fake.mutex);
    }
    /* The lengths of the next packets, as many as are wanted. */
    std::vector<size_t> take(size_t count)
    {
        std::vector<size_t> lengths;
        while (lengths.size() < count) {
            pollfd readable = {mcsm_umad_fd(umad), POLLIN, 0};
            if (poll(&readable, 1, 60000) != 1) {
                break;
            }
            for (struct mcsm_packet *packet = mcsm_umad_take(umad), *next; packet; packet = next) {
                next = packet->next;
                lengths.push_back(packet->length);
                free(packet);
            }
        }
        return lengths;
    }
    struct mcsm_umad *umad = nullptr;
};

TEST_F(Umad, OnlyAdministrationHasRmpp)
{
    EXPECT_EQ(1, umad_fake.rmpp[MCSM_CLASS_SA]);
    EXPECT_EQ(0, umad_fake.rmpp[MCSM_CLASS_SMP_DIRECT]);
    EXPECT_EQ(0x77u, mcsm_umad_port_guid(umad));
}

/* The kernel puts requests of several segments together. One that is longer than any that a client
 * may send has to go out of the way of those behind it. */
TEST_F(Umad, RequestsOfManySegments)
{
    set([] {
        int lengths[] = {256, 3000, 9000, 2000000, 256};
        std::copy(lengths, lengths + 5, umad_fake.lengths);
        umad_fake.count = 5;
    });
    EXPECT_EQ(std::vector<size_t>({256, 3000, 256}), take(3));
}

TEST_F(Umad, ADeviceThatIsGoneIsNotAskedWithoutPause)
{
    set([] {
        umad_fake.broken = true;
        umad_fake.calls = 0;
    });
    usleep(500000);
    set([] {
        EXPECT_LT(umad_fake.calls, 100u);
        umad_fake.broken = false;
        umad_fake.lengths[0] = 256;
        umad_fake.count = 1;
    });
    EXPECT_EQ(std::vector<size_t>({256}), take(1));
}

/* Segments of an answer get lost; a request is repeated by the layer above. */
TEST_F(Umad, AnswersOfManySegmentsAreRepeated)
{
    std::vector<uint8_t> mad(5000);
    struct mcsm_addr to = {};
    to.agent = MCSM_CLASS_SA;
    ASSERT_EQ(0, mcsm_umad_send(umad, &to, mad.data(), mad.size(), 0));
    EXPECT_EQ(5000, umad_fake.sent_length);
    EXPECT_GT(umad_fake.sent_retries, 0);
    ASSERT_EQ(0, mcsm_umad_send(umad, &to, mad.data(), 256, 100));
    EXPECT_EQ(0, umad_fake.sent_retries);
    EXPECT_EQ(100, umad_fake.sent_timeout);
}

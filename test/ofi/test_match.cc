/*
 * Matching, held against a model that any reader believes: two lists that are searched from their
 * beginning.
 */
#include <gtest/gtest.h>

#include <cstdlib>
#include <list>
#include <memory>
#include <random>
#include <vector>

extern "C" {
#include "core/gfi_match.h"
}

namespace
{

struct Recv {
    gfi_match_recv match{};
    int id = 0;
};

struct Msg {
    gfi_match_msg match{};
    int id = 0;
};

Recv *recv_of(gfi_match_recv *match)
{
    return match == nullptr ? nullptr : reinterpret_cast<Recv *>(match);
}

Msg *msg_of(gfi_match_msg *match)
{
    return match == nullptr ? nullptr : reinterpret_cast<Msg *>(match);
}

bool accepts(const gfi_match_recv &recv, uint64_t source, uint64_t tag)
{
    return (recv.source == GFI_ANY_SOURCE || recv.source == source) &&
           (recv.tag & ~recv.ignore) == (tag & ~recv.ignore);
}

class Match : public testing::Test
{
  protected:
    void SetUp() override
    {
        ASSERT_EQ(0, gfi_match_init(&match));
    }

    void TearDown() override
    {
        gfi_match_cleanup(&match);
    }

    Recv *post(uint64_t source, uint64_t tag, uint64_t ignore)
    {
        recvs.emplace_back();
        Recv &recv = recvs.back();
        recv.match.source = source;
        recv.match.tag = tag;
        recv.match.ignore = ignore;
        recv.id = next_id++;
        gfi_match_post(&match, &recv.match);
        return &recv;
    }

    Msg *add(uint64_t source, uint64_t tag)
    {
        msgs.emplace_back();
        Msg &msg = msgs.back();
        msg.match.source = source;
        msg.match.tag = tag;
        msg.id = next_id++;
        gfi_match_add_msg(&match, &msg.match);
        return &msg;
    }

    gfi_match match{};
    std::list<Recv> recvs;
    std::list<Msg> msgs;
    int next_id = 0;
};

TEST_F(Match, NothingMatchesNothing)
{
    EXPECT_EQ(nullptr, gfi_match_find_recv(&match, 1, 2));
    EXPECT_EQ(nullptr, gfi_match_find_msg(&match, 1, 2, 0));
}

TEST_F(Match, TheEarliestReceiveWinsWhateverItsKind)
{
    struct Kind {
        uint64_t source, tag, ignore;
    };
    const std::vector<Kind> kinds = {
        {7, 5, 0}, {GFI_ANY_SOURCE, 5, 0}, {7, 0, ~0ull}, {GFI_ANY_SOURCE, 0, ~0ull}, {7, 4, 1}};

    for (const Kind &first : kinds) {
        for (const Kind &second : kinds) {
            Recv *a = post(first.source, first.tag, first.ignore);
            Recv *b = post(second.source, second.tag, second.ignore);
            EXPECT_EQ(a, recv_of(gfi_match_find_recv(&match, 7, 5)));
            gfi_match_unpost(&match, &a->match);
            EXPECT_EQ(b, recv_of(gfi_match_find_recv(&match, 7, 5)));
            gfi_match_unpost(&match, &b->match);
            EXPECT_EQ(nullptr, gfi_match_find_recv(&match, 7, 5));
        }
    }
}

TEST_F(Match, AClassThatIsNewFindsOldMessages)
{
    Msg *first = add(3, 0x10), *second = add(4, 0x11);

    EXPECT_EQ(first, msg_of(gfi_match_find_msg(&match, GFI_ANY_SOURCE, 0x10, 0xf)));
    EXPECT_EQ(second, msg_of(gfi_match_find_msg(&match, 4, 0x10, 0xff)));
    EXPECT_EQ(nullptr, gfi_match_find_msg(&match, 3, 0x11, 0));
    gfi_match_remove_msg(&match, &first->match);
    EXPECT_EQ(second, msg_of(gfi_match_find_msg(&match, GFI_ANY_SOURCE, 0x10, 0xf)));
    gfi_match_remove_msg(&match, &second->match);
    EXPECT_EQ(nullptr, gfi_match_find_msg(&match, GFI_ANY_SOURCE, 0, ~0ull));
}

/* From the head, from the tail, and from between: of a queue of equal values */
TEST_F(Match, EqualReceivesLeaveInAnyOrder)
{
    std::vector<Recv *> all;

    for (int i = 0; i < 5; i++) {
        all.push_back(post(1, 9, 0));
    }
    gfi_match_unpost(&match, &all[4]->match);
    gfi_match_unpost(&match, &all[2]->match);
    gfi_match_unpost(&match, &all[0]->match);
    EXPECT_EQ(all[1], recv_of(gfi_match_find_recv(&match, 1, 9)));
    Recv *late = post(1, 9, 0);
    gfi_match_unpost(&match, &all[1]->match);
    EXPECT_EQ(all[3], recv_of(gfi_match_find_recv(&match, 1, 9)));
    gfi_match_unpost(&match, &all[3]->match);
    EXPECT_EQ(late, recv_of(gfi_match_find_recv(&match, 1, 9)));
}

/* A million operations: post, arrival, cancel, peek, claim. `masks`: how many kinds of wildcards */
void against_model(unsigned seed, unsigned masks, unsigned values, int operations)
{
    std::mt19937_64 random(seed);
    std::list<std::unique_ptr<Recv>> posted;
    std::list<std::unique_ptr<Msg>> unexpected;
    std::vector<uint64_t> ignores = {0};
    gfi_match match{};
    int id = 0;

    ASSERT_EQ(0, gfi_match_init(&match));
    while (ignores.size() < masks) {
        ignores.push_back(random() & random() & (values - 1));
    }
    for (int i = 0; i < operations; i++) {
        unsigned what = random() % 16;
        uint64_t source = random() % 4, tag = random() % values;

        if (what < 6) { /* a receive: takes the first message that it accepts, or is posted */
            auto recv = std::make_unique<Recv>();
            recv->match.source = random() % 3 == 0 ? GFI_ANY_SOURCE : source;
            recv->match.tag = tag;
            recv->match.ignore = ignores[random() % ignores.size()];
            recv->id = id++;
            auto expected = unexpected.begin();
            while (expected != unexpected.end() &&
                   !accepts(recv->match, (*expected)->match.source, (*expected)->match.tag)) {
                ++expected;
            }
            Msg *found =
                msg_of(gfi_match_find_msg(&match, recv->match.source, tag, recv->match.ignore));
            ASSERT_EQ(expected == unexpected.end() ? nullptr : expected->get(), found) << i;
            if (found != nullptr) {
                gfi_match_remove_msg(&match, &found->match);
                unexpected.erase(expected);
            } else {
                gfi_match_post(&match, &recv->match);
                posted.push_back(std::move(recv));
            }
        } else if (what < 13) { /* a message */
            auto expected = posted.begin();
            while (expected != posted.end() && !accepts((*expected)->match, source, tag)) {
                ++expected;
            }
            Recv *found = recv_of(gfi_match_find_recv(&match, source, tag));
            ASSERT_EQ(expected == posted.end() ? nullptr : expected->get(), found) << i;
            if (found != nullptr) {
                gfi_match_unpost(&match, &found->match);
                posted.erase(expected);
            } else {
                auto msg = std::make_unique<Msg>();
                msg->match.source = source;
                msg->match.tag = tag;
                msg->id = id++;
                gfi_match_add_msg(&match, &msg->match);
                unexpected.push_back(std::move(msg));
            }
        } else if (what < 15 && !posted.empty()) { /* cancel any */
            auto victim = std::next(posted.begin(), random() % posted.size());
            gfi_match_unpost(&match, &(*victim)->match);
            posted.erase(victim);
        } else if (!unexpected.empty()) { /* discard any */
            auto victim = std::next(unexpected.begin(), random() % unexpected.size());
            gfi_match_remove_msg(&match, &(*victim)->match);
            unexpected.erase(victim);
        }
        ASSERT_EQ(posted.size(), match.num_recvs);
        ASSERT_EQ(unexpected.size(), match.num_msgs);
    }
    gfi_match_cleanup(&match);
}

TEST(MatchModel, FewClasses)
{
    against_model(1, 2, 64, 500000);
}

TEST(MatchModel, MoreClassesThanThereIsRoomFor)
{
    against_model(2, 12, 64, 300000);
}

TEST(MatchModel, ManyTags)
{
    against_model(3, 3, 1024, 200000);
}

/* 100,000 receives with different tags, and as many with the same; matched from both ends. A search
 * through all of them would take minutes. */
TEST_F(Match, AHundredThousandReceives)
{
    const uint64_t count = 100000;

    for (uint64_t i = 0; i < count; i++) {
        post(1, i, 0);
        post(2, 42, 0);
    }
    for (uint64_t i = count; i-- > 0;) {
        Recv *recv = recv_of(gfi_match_find_recv(&match, 1, i));
        ASSERT_NE(nullptr, recv);
        ASSERT_EQ(i, recv->match.tag);
        gfi_match_unpost(&match, &recv->match);
        recv = recv_of(gfi_match_find_recv(&match, 2, 42));
        ASSERT_NE(nullptr, recv);
        gfi_match_unpost(&match, &recv->match);
    }
    EXPECT_EQ(0u, match.num_recvs);
}

TEST_F(Match, AHundredThousandMessages)
{
    const uint64_t count = 100000;

    for (uint64_t i = 0; i < count; i++) {
        add(1, i);
    }
    for (uint64_t i = count; i-- > 0;) {
        Msg *msg = msg_of(gfi_match_find_msg(&match, i % 2 ? 1 : GFI_ANY_SOURCE, i, 0));
        ASSERT_NE(nullptr, msg);
        ASSERT_EQ(i, msg->match.tag);
        gfi_match_remove_msg(&match, &msg->match);
    }
    EXPECT_EQ(0u, match.num_msgs);
}

} // namespace

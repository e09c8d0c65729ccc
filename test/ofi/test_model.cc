/*
 * Tagged messages through the whole provider, held against a model that any reader believes: lists
 * that are searched from their beginning. A million random operations: sends of two peers, receives
 * with and without wildcards, cancels, looks, claims and discards; short messages, and long ones that
 * are announced.
 */
#include "node.h"

#include <list>
#include <memory>
#include <random>

namespace
{

const unsigned kTags = 12;
const uint64_t kIgnores[] = {0, 0, 3, ~0ull};
const size_t kLong = 20000; /* beyond FI_GLEX_EAGER_SIZE */

struct Sent {
    unsigned sender; /* of Model::peers */
    uint64_t tag;
    std::vector<uint64_t> words; /* the first is the message's number */
};

struct Posted {
    int source; /* of Model::peers, or -1 for any */
    uint64_t tag, ignore;
    fi_context context{};
    std::vector<uint64_t> words = std::vector<uint64_t>(kLong / 8);

    bool accepts(const Sent &sent) const
    {
        return (source < 0 || source == (int)sent.sender) &&
               (tag & ~ignore) == (sent.tag & ~ignore);
    }
};

class Model : public testing::TestWithParam<unsigned>
{
  protected:
    void SetUp() override
    {
        Wish wish;
        wish.caps = FI_TAGGED | FI_SOURCE | FI_DIRECTED_RECV;
        for (auto *node : {&a, &c, &b}) {
            node->reset(new Node(wish));
        }
        peers = {a.get(), c.get()};
        for (unsigned i = 0; i < 2; i++) {
            to[i] = peers[i]->know(*b);
            from[i] = b->know(*peers[i]);
            connect(i);
        }
    }

    /* Once both sides know each other, a message is there when b has looked at its NIC */
    void connect(unsigned i)
    {
        char buf[8];

        ASSERT_EQ(0, fi_trecv(b->ep, buf, 8, nullptr, FI_ADDR_UNSPEC, 99, 0, nullptr));
        ASSERT_EQ(0, retry({peers[i], b.get()},
                           [&] { return fi_tinject(peers[i]->ep, "hello..", 8, to[i], 99); }));
        ASSERT_EQ(0, next_done(*b, {peers[i], b.get()}).err);
    }

    /* All that is under way arrives, and is answered */
    void settle()
    {
        for (int i = 0; i < 8; i++) {
            b->poll();
            a->poll();
            c->poll();
        }
        a->done.clear();
        c->done.clear();
    }

    Done next()
    {
        Done done = next_done(*b, {a.get(), b.get(), c.get()});

        EXPECT_NE(-1, done.err) << "nothing came";
        return done;
    }

    /* The completion of a receive, and what it received */
    void expect_received(const Posted &receive, const Sent &sent)
    {
        Done done = next();

        ASSERT_EQ(0, done.err);
        ASSERT_EQ(&receive.context, done.context);
        ASSERT_EQ(sent.words.size() * 8, done.len);
        ASSERT_EQ(sent.tag, done.tag);
        ASSERT_EQ(from[sent.sender], done.source);
        ASSERT_EQ(0, memcmp(sent.words.data(), receive.words.data(), done.len));
    }

    void send()
    {
        std::unique_ptr<Sent> sent(new Sent);
        unsigned i = random() % 2;

        sent->sender = i;
        sent->tag = random() % kTags;
        sent->words.assign(random() % 6 == 0 ? kLong / 8 : 1 + random() % 20, number++);
        ASSERT_EQ(0, retry({peers[i], b.get()}, [&] {
                      return fi_tsend(peers[i]->ep, sent->words.data(), sent->words.size() * 8,
                                      nullptr, to[i], sent->tag, nullptr);
                  }));
        auto it = posted.begin();
        while (it != posted.end() && !(*it)->accepts(*sent)) {
            ++it;
        }
        if (it == posted.end()) {
            settle();
            unexpected.push_back(std::move(sent));
        } else {
            expect_received(**it, *sent);
            posted.erase(it);
        }
    }

    std::unique_ptr<Posted> new_receive()
    {
        std::unique_ptr<Posted> wanted(new Posted);

        wanted->source = (int)(random() % 3) - 1;
        wanted->tag = random() % kTags;
        wanted->ignore = kIgnores[random() % std::size(kIgnores)];
        return wanted;
    }

    std::list<std::unique_ptr<Sent>>::iterator first_for(const Posted &wanted)
    {
        auto it = unexpected.begin();

        while (it != unexpected.end() && !wanted.accepts(**it)) {
            ++it;
        }
        return it;
    }

    ssize_t receive_with(Posted &wanted, uint64_t flags, bool has_buffer)
    {
        iovec iov = {wanted.words.data(), kLong};
        fi_msg_tagged msg{};

        msg.msg_iov = &iov;
        msg.iov_count = has_buffer;
        msg.addr = wanted.source < 0 ? FI_ADDR_UNSPEC : from[wanted.source];
        msg.tag = wanted.tag;
        msg.ignore = wanted.ignore;
        msg.context = &wanted.context;
        return fi_trecvmsg(b->ep, &msg, flags);
    }

    void receive()
    {
        std::unique_ptr<Posted> wanted = new_receive();
        auto it = first_for(*wanted);

        ASSERT_EQ(0, fi_trecv(b->ep, wanted->words.data(), kLong, nullptr,
                              wanted->source < 0 ? FI_ADDR_UNSPEC : from[wanted->source],
                              wanted->tag, wanted->ignore, &wanted->context));
        if (it == unexpected.end()) {
            posted.push_back(std::move(wanted));
        } else {
            expect_received(*wanted, **it);
            unexpected.erase(it);
        }
    }

    void cancel()
    {
        if (posted.empty()) {
            return;
        }
        auto it = std::next(posted.begin(), random() % posted.size());
        ASSERT_EQ(0, fi_cancel(&b->ep->fid, &(*it)->context));
        Done done = next();
        ASSERT_EQ(FI_ECANCELED, done.err);
        ASSERT_EQ(&(*it)->context, done.context);
        posted.erase(it);
    }

    /* A look at the first message that a receive would get; claimed or discarded, if so asked */
    void peek(uint64_t flags)
    {
        std::unique_ptr<Posted> wanted = new_receive();
        auto it = first_for(*wanted);

        ASSERT_EQ(0, receive_with(*wanted, FI_PEEK | flags, false));
        Done done = next();
        ASSERT_EQ(&wanted->context, done.context);
        if (it == unexpected.end()) {
            ASSERT_EQ(FI_ENOMSG, done.err);
            return;
        }
        ASSERT_EQ(0, done.err);
        ASSERT_EQ((*it)->words.size() * 8, done.len);
        ASSERT_EQ((*it)->tag, done.tag);
        ASSERT_EQ(from[(*it)->sender], done.source);
        if (flags & FI_CLAIM) {
            claimed.emplace_back(std::move(wanted), std::move(*it));
        }
        if (flags) {
            unexpected.erase(it);
        }
    }

    /* What was claimed is received, or discarded, in any order */
    void take_claimed()
    {
        if (claimed.empty()) {
            return;
        }
        auto it = std::next(claimed.begin(), random() % claimed.size());
        if (random() % 3 == 0) {
            ASSERT_EQ(0, receive_with(*it->first, FI_CLAIM | FI_DISCARD, false));
            ASSERT_EQ(&it->first->context, next().context);
        } else {
            ASSERT_EQ(0, receive_with(*it->first, FI_CLAIM, true));
            expect_received(*it->first, *it->second);
        }
        settle(); /* the sender's buffer is not freed before the sender knows */
        claimed.erase(it);
    }

    void step()
    {
        unsigned what = random() % 20;

        if (what < 7) {
            send();
        } else if (what < 13) {
            receive();
        } else if (what < 15) {
            cancel();
        } else if (what < 18) {
            peek(what == 15 ? 0 : what == 16 ? FI_CLAIM : FI_DISCARD);
        } else {
            take_claimed();
        }
    }

    std::mt19937 random{GetParam()};
    std::unique_ptr<Node> a, b, c;
    std::vector<Node *> peers;
    fi_addr_t to[2] = {}, from[2] = {};
    uint64_t number = 1;
    std::list<std::unique_ptr<Posted>> posted;
    std::list<std::unique_ptr<Sent>> unexpected;
    std::list<std::pair<std::unique_ptr<Posted>, std::unique_ptr<Sent>>> claimed;
};

TEST_P(Model, RandomOperations)
{
    for (int i = 0; i < 350000 && !HasFatalFailure(); i++) {
        step();
        ASSERT_TRUE(b->done.empty()) << "a completion too many, in step " << i;
    }
    EXPECT_LT(100000u, number);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Model, testing::Values(1, 2, 3));

} // namespace

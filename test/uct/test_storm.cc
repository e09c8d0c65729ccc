/*
 * Random traffic between one interface and several others, and random failures of one connection
 * in the middle of it. Every byte that arrives is compared; memory is overwritten as soon as it is
 * the user's again. UCT_STORM_MESSAGES: how many are to arrive (contrib/soak; default 4,000);
 * UCT_STORM_SEED: another storm.
 */
#include "traffic.h"

#include <random>
#include <stdlib.h>
#include <string.h>

namespace
{

const uint8_t AM_ID = 5;
const unsigned PEERS = 4;

class Storms : public WithSetting
{
};

unsigned long number(const char *variable, unsigned long value)
{
    const char *text = getenv(variable);

    return (text == NULL) ? value : strtoul(text, NULL, 0);
}

/* The user's memory of a zero-copy message */
struct Loan {
    Loan(Md &md, size_t length) : memory(md, length, Memory::PRIVATE)
    {
    }

    ~Loan()
    {
        EXPECT_EQ(comp.done, 1);
    }

    Memory memory;
    Completion comp;
};

/* One direction of a connection. Endpoints come and go, messages are numbered on. */
class Line
{
  public:
    Line(Iface &from, Iface &to, uint32_t id) : from_(from), to_(to), id_(id)
    {
        open();
    }

    void open()
    {
        ep_.reset(); /* completes all that it has on its way */
        reap();
        from_.failed.clear();
        ep_.reset(new Ep(from_, to_.address()));
    }

    void send(std::minstd_rand &random)
    {
        Message message = mixed_plan(from_, random(), 8192)(random());
        std::vector<uint8_t> data(message.length);
        ucs_status_t status;

        reap();
        fill(data.data(), data.size(), id_, sent_);
        status = post(message.op, data);
        if ((status == UCS_OK) || (status == UCS_INPROGRESS)) {
            ++sent_;
        } else if (status != UCS_ERR_NO_RESOURCE) {
            open();
        }
    }

    /* A message arrived: later than all before it, and whole */
    void receive(const void *data, size_t length)
    {
        uint32_t n;

        memcpy(&n, data, sizeof(n));
        EXPECT_TRUE((received_ == 0) || (n >= next_)) << "of " << id_ << ", after " << next_ - 1;
        check(data, length, id_, n);
        next_ = n + 1;
        ++received_;
    }

    /* In turn: the endpoint alone, by a put to memory that the peer has taken back; the connection */
    void fail()
    {
        if ((++failures_ % 2 == 0) && (ep_->vc() != NULL)) {
            fail_at_once(ep_->vc());
            return;
        }

        char data[512] = {};
        std::string key;
        {
            Memory memory(to_.md, 4096, memory_kinds(to_.md).front());
            key = memory.describe();
        }
        RemoteMemory remote(key);

        uct_ep_put_short(ep_->handle, data, sizeof(data), remote.address, remote.rkey.rkey);
    }

  private:
    ucs_status_t post(Op op, const std::vector<uint8_t> &data)
    {
        uint64_t header;
        ssize_t ret;

        switch (op) {
        case Op::SHORT:
            memcpy(&header, data.data(), sizeof(header));
            return uct_ep_am_short(ep_->handle, AM_ID, header, data.data() + 8, data.size() - 8);
        case Op::ZCOPY:
            return post_zcopy(data);
        default:
            ret = uct_ep_am_bcopy(
                ep_->handle, AM_ID,
                [](void *dest, void *arg) {
                    const std::vector<uint8_t> *bytes = (const std::vector<uint8_t> *)arg;

                    memcpy(dest, bytes->data(), bytes->size());
                    return bytes->size();
                },
                (void *)&data, 0);
            return (ret >= 0) ? UCS_OK : (ucs_status_t)ret;
        }
    }

    ucs_status_t post_zcopy(const std::vector<uint8_t> &data)
    {
        std::unique_ptr<Loan> loan(new Loan(from_.md, data.size()));
        uct_iov_t iov = piece(loan->memory.data, data.size(), loan->memory.memh);
        ucs_status_t status;

        memcpy(loan->memory.data, data.data(), data.size());
        status = uct_ep_am_zcopy(ep_->handle, AM_ID, NULL, 0, &iov, 1, 0, &loan->comp.uct);
        if (status == UCS_INPROGRESS) {
            loans_.push_back(std::move(loan));
        } else {
            loan->comp.done = 1;
        }
        return status;
    }

    /* What the user got back is written to; later it is unmapped */
    void reap()
    {
        while (!loans_.empty() && (loans_.front()->comp.done > 0)) {
            Memory &memory = loans_.front()->memory;

            memset(memory.data, 0xee, memory.length);
            ended_.push_back(std::move(loans_.front()));
            loans_.pop_front();
        }
        while (ended_.size() > 4) {
            ended_.pop_front();
        }
    }

    Iface &from_, &to_;
    uint32_t id_;
    uint32_t sent_ = 0, next_ = 0, received_ = 0, failures_ = 0;
    std::list<std::unique_ptr<Loan>> loans_, ended_;
    std::unique_ptr<Ep> ep_; /* goes first, and gives the loans back */
};

/* The hub and its peers, with lines both ways */
class Storm
{
  public:
    explicit Storm(unsigned seed) : random_(seed)
    {
        random_.discard(10);
        for (unsigned i = 0; i <= PEERS; ++i) {
            mds_.emplace_back(new Md);
            ifaces_.emplace_back(new Iface(*mds_.back()));
            ifaces_.back()->on_am(AM_ID, [this](const void *data, size_t length) {
                ASSERT_GE(length, 8u);
                lines_.at(sender_of(data, length))->receive(data, length);
                ++received_;
            });
        }
        for (unsigned i = 1; i <= PEERS; ++i) {
            lines_.emplace_back(new Line(*ifaces_[0], *ifaces_[i], lines_.size()));
            lines_.emplace_back(new Line(*ifaces_[i], *ifaces_[0], lines_.size()));
        }
    }

    ~Storm()
    {
        lines_.clear();
        while (!ifaces_.empty()) {
            ifaces_.pop_back();
        }
    }

    void blow(unsigned long messages)
    {
        while (received_ < messages) {
            waiting_for("messages of the storm");
            for (unsigned i = 0; i < 20; ++i) {
                any()->send(random_);
            }
            if (random_() % 32 == 0) {
                any()->fail();
            } else if (random_() % 32 == 0) {
                any()->open();
            }
            for (unsigned i = random_() % 10; i > 0; --i) {
                ifaces_[random_() % ifaces_.size()]->progress();
            }
        }
    }

  private:
    std::unique_ptr<Line> &any()
    {
        return lines_[random_() % lines_.size()];
    }

    std::minstd_rand random_;
    std::vector<std::unique_ptr<Md>> mds_;
    std::vector<std::unique_ptr<Iface>> ifaces_;
    std::vector<std::unique_ptr<Line>> lines_;
    unsigned long received_ = 0;
};

TEST_P(Storms, OthersAreNotTouched)
{
    unsigned long messages = number("UCT_STORM_MESSAGES", 4000);
    unsigned seed = number("UCT_STORM_SEED", 1);

    isolated(env() + Env{{"UCX_GLEX_ER_MAX_CHANNELS", "2"}}, [=] {
        ErrorLog log; /* of the connections that fail */
        Storm storm(seed);

        storm.blow(messages);
    });
}

INSTANTIATE_TEST_SUITE_P(
    Channels, Storms,
    testing::Values(Setting{"both", {}},
                    Setting{"sr", {{"UCX_GLEX_CHANNELS", "sr"}, {"UCX_GLEX_SRQ_CAPACITY", "4"}}},
                    Setting{"tiny",
                            {{"UCX_GLEX_SRQ_CAPACITY", "4"},
                             {"UCX_GLEX_ERQ_SIZE", "4096"},
                             {"UCX_GLEX_SR_CREDIT_START", "1"},
                             {"UCX_GLEX_EP_MPQ_CAPACITY", "64"}}},
                    Setting{"nomap", {{"GLEX_FAULT", "nomap"}}},
                    Setting{"busy", {{"GLEX_FAULT", "busy=0.3,seed=3"}}}),
    setting_name);

} // namespace

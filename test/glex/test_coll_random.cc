/*
 * Random sequences among some endpoints, against a simulator of what each flag means. COLL_STEPS in
 * the environment says how many calls; `make check` makes 20,000.
 */
#include "collective.h"

#include <array>
#include <deque>
#include <memory>
#include <random>

namespace
{

const uint32_t NUM_EPS = 9;
const size_t MAX_WAITING = 60; /* requests per endpoint, so that no queue is ever full */

struct Request {
    uint32_t dst = 0;
    int flag = 0;
    uint32_t counter = 0;
    uint64_t value = 0;        /* its own, as data of a reduction */
    std::vector<uint32_t> set; /* of SWAP_SET */
    bool empty = false;        /* it has no data: a set without an offer */
};

struct Packet {
    bool counts, offers;
    uint64_t value;
    bool empty;
};

struct Message {
    uint32_t src;
    uint64_t value;
    bool empty;
    bool operator==(const Message &other) const
    {
        return src == other.src && value == other.value && empty == other.empty;
    }
};

/* The simulator: who is told of a packet is looked at in the order of being told. */
class Model
{
  public:
    void post(uint32_t ep, const Request &req)
    {
        if (!(req.flag & START) && !open_[ep]) {
            send(ep, req, {});
        } else {
            waiting[ep].push_back(req);
            open_[ep] = !(req.flag & TAIL);
            tell(ep);
        }
    }

    /* The chain is over. */
    void run()
    {
        while (!work_.empty()) {
            uint32_t ep = work_.front();

            work_.pop_front();
            carry(ep);
        }
    }

    std::deque<Request> waiting[NUM_EPS];
    std::deque<Packet> packets[NUM_EPS];
    std::deque<Message> messages[NUM_EPS];
    uint64_t errors[NUM_EPS] = {};

  private:
    void tell(uint32_t ep)
    {
        for (uint32_t other : work_) {
            if (other == ep) {
                return;
            }
        }
        if (ep != current_) {
            work_.push_back(ep);
        }
    }

    bool take(uint32_t ep, uint32_t count)
    {
        size_t num = 0;

        while (count != 0 && num < packets[ep].size()) {
            count -= packets[ep][num++].counts;
        }
        if (count != 0) {
            return false;
        }
        taken_[ep].assign(packets[ep].begin(), packets[ep].begin() + static_cast<long>(num));
        packets[ep].erase(packets[ep].begin(), packets[ep].begin() + static_cast<long>(num));
        return true;
    }

    void carry(uint32_t ep)
    {
        current_ = ep;
        while (!waiting[ep].empty()) {
            Request req = waiting[ep].front();

            if ((req.flag & START) && !take(ep, req.counter)) {
                break;
            }
            waiting[ep].pop_front();
            send(ep, req, taken_[ep]);
        }
        current_ = NUM_EPS;
    }

    /* False: what was offered is no data of a reduction. */
    static bool combine(Request &req, const std::vector<Packet> &taken)
    {
        bool reduce = req.flag & REDUCE;

        if (req.flag & SWAP_SET) {
            req.empty = true;
            req.value = 0;
        }
        for (const Packet &packet : taken) {
            if (!packet.offers) {
                continue;
            }
            if (reduce) {
                if (packet.empty) {
                    return false;
                }
                req.value += packet.value;
            } else if (req.flag & (SWAP | SWAP_SET)) {
                req.value = packet.value;
                req.empty = packet.empty;
            }
        }
        return true;
    }

    void send(uint32_t ep, Request req, const std::vector<Packet> &taken)
    {
        if (!combine(req, taken)) {
            errors[ep]++;
            return;
        }
        if (req.set.empty()) {
            req.set = {req.dst};
        }
        for (uint32_t dst : req.set) {
            bool counts = req.flag & COUNTER, offers = req.flag & SWAP_DATA;

            if ((req.flag & CP_DATA) || (!counts && !offers)) {
                messages[dst].push_back({ep, req.value, req.empty});
            }
            if (counts || offers) {
                packets[dst].push_back({counts, offers, req.value, req.empty});
                tell(dst);
            }
        }
    }

    std::vector<Packet> taken_[NUM_EPS];
    bool open_[NUM_EPS] = {};
    std::deque<uint32_t> work_;
    uint32_t current_ = NUM_EPS;
};

class coll_random : public testing::Test
{
  protected:
    coll_random()
    {
        for (uint32_t i = 0; i < NUM_EPS; i++) {
            eps.emplace_back(new Ep(dev));
            addrs.push_back(eps[i]->addr());
        }
    }

    uint32_t below(uint32_t limit)
    {
        return static_cast<uint32_t>(random()) % limit;
    }

    Request request(int place)
    {
        Request req;

        req.dst = below(NUM_EPS);
        req.flag = place;
        req.value = random();
        req.counter = place & START ? below(4) : 0xa5a5a5a5;
        for (int flag : {COUNTER, CP_DATA, SWAP_DATA, SWAP, RESULT}) {
            req.flag |= below(2) ? flag : 0;
        }
        if (below(5) == 0) {
            req.flag |= SWAP_SET;
            for (uint32_t i = below(4); i > 0; i--) {
                req.set.push_back(below(NUM_EPS));
            }
        } else if (below(3) == 0) {
            req.flag |= REDUCE;
        }
        return req;
    }

    /* A sequence, or one by itself. */
    std::vector<Request> chain()
    {
        std::vector<Request> list;
        uint32_t num = 1 + below(4);

        if (below(4) == 0) {
            list.push_back(request(0));
            return list;
        }
        for (uint32_t i = 0; i < num; i++) {
            list.push_back(request((i == 0 ? START : 0) | (i + 1 == num ? TAIL : 0)));
        }
        return list;
    }

    /* As the library takes it: in one chain, or in several calls. */
    void post(uint32_t ep, const std::vector<Request> &list, bool in_one)
    {
        std::vector<glex_imm_mp_req_t> reqs;
        std::vector<std::array<char, 112>> data(list.size());

        for (size_t i = 0; i < list.size(); i++) {
            uint32_t len = compose(list[i], data[i].data());

            reqs.push_back(
                coll_mp(addrs[list[i].dst], data[i].data(), len, list[i].flag, list[i].counter));
        }
        for (size_t i = 0; i < list.size(); i++) {
            reqs[i].next = in_one && i + 1 < list.size() ? &reqs[i + 1] : nullptr;
            model.post(ep, list[i]);
            if (!in_one) {
                model.run();
            }
        }
        model.run();
        for (size_t i = 0; i < (in_one ? 1 : list.size()); i++) {
            ASSERT_OK(glex_send_imm_mp(*eps[ep], &reqs[i], nullptr));
        }
    }

    uint32_t compose(const Request &req, char *data)
    {
        glex_coll_data_loc loc;
        glex_ep_addr_t set[14];
        uint32_t len = 0;

        if (req.flag & SWAP_SET) {
            for (size_t i = 0; i < req.set.size(); i++) {
                set[i] = addrs[req.set[i]];
            }
            EXPECT_OK(glex_coll_compose_mp_set_data(set, static_cast<uint32_t>(req.set.size()),
                                                    data, &len));
        } else {
            loc.uint64_s = {req.value, 0};
            EXPECT_OK(glex_coll_compose_mp_reduce_data(&loc, 1, GLEX_COLL_REDUCE_DATA_BITS_64,
                                                       GLEX_COLL_REDUCE_SUM_UNSIGNED, 8, data,
                                                       &len));
        }
        return len;
    }

    bool receive(uint32_t ep, Message *message)
    {
        glex_coll_data_loc loc;
        glex_ep_addr_t src;
        char data[112];
        uint32_t len;

        if (glex_receive_mp(*eps[ep], 0, &src, data, &len) != GLEX_SUCCESS) {
            return false;
        }
        *message = {NUM_EPS, 0, len == 0};
        for (uint32_t i = 0; i < NUM_EPS; i++) {
            message->src = addrs[i].v == src.v ? i : message->src;
        }
        if (len != 0) {
            EXPECT_OK(
                glex_coll_decompose_mp_reduce_data(&loc, 1, GLEX_COLL_REDUCE_DATA_BITS_64, data));
            message->value = loc.uint64_s.data;
        }
        return true;
    }

    void compare(uint64_t step)
    {
        for (uint32_t i = 0; i < NUM_EPS; i++) {
            Message got;

            for (; !model.messages[i].empty(); model.messages[i].pop_front()) {
                ASSERT_TRUE(receive(i, &got)) << "step " << step << " endpoint " << i;
                ASSERT_TRUE(model.messages[i].front() == got)
                    << "step " << step << " endpoint " << i << ": from " << got.src << ", not "
                    << model.messages[i].front().src;
            }
            ASSERT_FALSE(receive(i, &got)) << "step " << step << " endpoint " << i;
            uint64_t errors = eps[i]->errors().size();
            ASSERT_EQ(model.errors[i], errors) << "step " << step << " endpoint " << i;
            model.errors[i] = 0;
        }
    }

    /* What came early is taken, so that there is room for more. */
    void make_room(uint32_t ep)
    {
        while (model.packets[ep].size() > 300 && !testing::Test::HasFatalFailure()) {
            Request req = request(START | TAIL);

            req.flag &= ~(COUNTER | SWAP_DATA);
            req.counter = 100;
            post(ep, {req}, true);
        }
    }

    Device dev;
    std::vector<std::unique_ptr<Ep>> eps;
    std::vector<glex_ep_addr_t> addrs;
    std::mt19937_64 random{20261122};
    Model model;
};

TEST_F(coll_random, sequences)
{
    const char *env = getenv("COLL_STEPS");
    uint64_t steps = env != nullptr ? strtoull(env, nullptr, 0) : 20000, run = 0;

    for (uint64_t step = 0; step < steps; step++) {
        uint32_t ep = below(NUM_EPS);
        std::vector<Request> list;

        if (model.waiting[ep].size() < MAX_WAITING) {
            list = chain();
        } else {
            list.push_back(request(0)); /* a packet, for one that waits */
            list[0].dst = ep;
            list[0].flag |= COUNTER;
            list[0].flag &= ~SWAP_SET;
            list[0].set.clear();
            ep = below(NUM_EPS);
        }
        post(ep, list, below(2));
        ASSERT_FALSE(HasFatalFailure());
        for (uint32_t i = 0; i < NUM_EPS; i++) {
            make_room(i);
        }
        compare(step);
        ASSERT_FALSE(HasFatalFailure());
    }
    for (const auto &each : eps) {
        glex_ext_counters counters = each->counters();

        run += counters.coll_carried;
    }
    EXPECT_LT(steps / 20, run) << "for others";
}

} // namespace

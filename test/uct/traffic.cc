#include "traffic.h"

#include <algorithm>
#include <limits.h>
#include <random>
#include <stdlib.h>
#include <string.h>

/* ---- content ---- */

static uint64_t first_word(uint32_t sender, uint32_t n)
{
    return ((uint64_t)sender << 32) | n;
}

/* Word i of a message: the first one is what names it, the others depend on it */
static uint64_t word(uint64_t first, size_t i)
{
    return (i == 0) ? first : ((first + i) * 0x9e3779b97f4a7c15ull) ^ (first >> 7);
}

void fill(void *data, size_t length, uint32_t sender, uint32_t n)
{
    uint64_t first = first_word(sender, n);

    for (size_t i = 0; i * 8 < length; ++i) {
        uint64_t value = word(first, i);

        memcpy((uint8_t *)data + i * 8, &value, std::min<size_t>(8, length - i * 8));
    }
}

void check(const void *data, size_t length, uint32_t sender, uint32_t n)
{
    uint64_t first = first_word(sender, n);

    for (size_t i = 0; i * 8 < length; ++i) {
        uint64_t value = word(first, i);
        const void *have = (const uint8_t *)data + i * 8;

        if (memcmp(have, &value, std::min<size_t>(8, length - i * 8)) != 0) {
            uint64_t got = 0;

            memcpy(&got, have, std::min<size_t>(8, length - i * 8));
            FAIL() << "message " << n << " of sender " << sender << ", length " << length
                   << ", is wrong at byte " << i * 8 << ": 0x" << std::hex << got
                   << " instead of 0x" << value;
        }
    }
}

/* ---- plans ---- */

static Message mixed(const Iface &iface, std::minstd_rand &random, size_t max_length)
{
    const size_t bcopy = iface.attr.cap.am.max_bcopy;
    const size_t limits[] = {0,   1,   8,   63,   64,   65,   95,        96,        97,   127,
                             128, 129, 192, 1023, 1024, 1025, bcopy / 2, bcopy - 1, bcopy};
    Message message;
    size_t max;

    do {
        message.op = (Op)(random() % 4);
    } while ((message.op == Op::ZCOPY) && !iface.has(UCT_IFACE_FLAG_AM_ZCOPY));

    if (message.op == Op::SHORT || message.op == Op::SHORT_IOV) {
        max = iface.attr.cap.am.max_short;
    } else if (message.op == Op::BCOPY) {
        max = bcopy;
    } else {
        max = iface.attr.cap.am.max_zcopy;
    }
    max = std::min(max, max_length);

    switch (random() % 8) {
    case 0:
    case 1:
        message.length = limits[random() % (sizeof(limits) / sizeof(limits[0]))];
        break;
    case 2:
        message.length = random() % (max + 1);
        break;
    default:
        message.length = random() % 200;
        break;
    }
    message.length = std::min(message.length, max);
    if (message.op == Op::SHORT) {
        message.length = std::max<size_t>(message.length, 8); /* has a header */
    }
    return message;
}

Plan mixed_plan(const Iface &iface, unsigned seed)
{
    return [&iface, seed](uint32_t n) {
        std::minstd_rand random(seed * 1000003u + n + 1);

        random.discard(3);
        return mixed(iface, random, SIZE_MAX);
    };
}

Plan mixed_plan(const Iface &iface, unsigned seed, size_t max_length)
{
    return [&iface, seed, max_length](uint32_t n) {
        std::minstd_rand random(seed * 1000003u + n + 1);
        Message message;

        random.discard(3);
        message = mixed(iface, random, max_length);
        message.length = std::max<size_t>(message.length, 8);
        return message;
    };
}

/* ---- sending ---- */

struct Sender::Zcopy {
    Zcopy(Md &md, const uint8_t *data, size_t length) : bytes(data, data + length), comp(1), md_(md)
    {
        if (!bytes.empty()) {
            EXPECT_OK(uct_md_mem_reg(md.handle, bytes.data(), bytes.size(), UCT_MD_MEM_ACCESS_ALL,
                                     &memh));
        }
    }

    ~Zcopy()
    {
        if (!bytes.empty()) {
            uct_md_mem_dereg(md_.handle, memh);
        }
    }

    std::vector<uint8_t> bytes;
    Completion comp;
    uct_mem_h memh = NULL;

  private:
    Md &md_;
};

Sender::Sender(Iface &iface, const std::string &peer, uint8_t am_id, uint32_t id, const Plan &plan)
    : ep(iface, peer), am_id_(am_id), id_(id), plan_(plan)
{
}

Sender::~Sender()
{
    if (!std::uncaught_exceptions()) {
        drain();
    }
}

/* Split into as many pieces as the number of the message says, some of them empty */
ucs_status_t Sender::post_iov(uint8_t *data, size_t length)
{
    size_t first = length / 3, second = (sent % 2) ? 0 : length / 4;
    uct_iov_t iov[3] = {piece(data, first), piece(data + first, second),
                        piece(data + first + second, length - first - second)};

    if ((sent % 3) == 0) {
        iov[0] = piece(data, length);
        return uct_ep_am_short_iov(ep.handle, am_id_, iov, 1);
    }
    return uct_ep_am_short_iov(ep.handle, am_id_, iov, 3);
}

ucs_status_t Sender::post_zcopy(uint8_t *data, size_t length)
{
    size_t max_header = ep.iface.attr.cap.am.max_hdr;
    size_t header = std::min<size_t>(length, (sent * 37) % (max_header + 1));
    size_t iovcnt = 1 + sent % ep.iface.attr.cap.am.max_iov;
    std::unique_ptr<Zcopy> zcopy(new Zcopy(ep.iface.md, data + header, length - header));
    uct_mem_h memh = (sent % 3) || ep.iface.md.has(UCT_MD_FLAG_NEED_MEMH) ? zcopy->memh : NULL;
    std::vector<uct_iov_t> iov;
    size_t rest = length - header;
    ucs_status_t status;

    for (size_t i = 0; i < iovcnt; ++i) {
        size_t size = (i + 1 == iovcnt) ? rest : rest / 3;

        iov.push_back(piece(zcopy->bytes.data() + zcopy->bytes.size() - rest, size, memh));
        rest -= size;
    }
    status = uct_ep_am_zcopy(ep.handle, am_id_, data, header, iov.data(), iov.size(), 0,
                             &zcopy->comp.uct);
    if (status == UCS_INPROGRESS) {
        zcopy_.push_back(std::move(zcopy));
        return UCS_OK;
    }
    return status;
}

static size_t pack_vector(void *dest, void *arg)
{
    const std::vector<uint8_t> *data = (const std::vector<uint8_t> *)arg;

    std::copy(data->begin(), data->end(), (uint8_t *)dest);
    return data->size();
}

ucs_status_t Sender::post()
{
    Message message = plan_(sent);
    std::vector<uint8_t> data(message.length);
    uint64_t header;
    ssize_t ret;

    fill(data.data(), data.size(), id_, sent);
    switch (message.op) {
    case Op::SHORT:
        memcpy(&header, data.data(), 8);
        return uct_ep_am_short(ep.handle, am_id_, header, data.data() + 8, data.size() - 8);
    case Op::SHORT_IOV:
        return post_iov(data.data(), data.size());
    case Op::BCOPY:
        ret = uct_ep_am_bcopy(ep.handle, am_id_, pack_vector, &data, 0);
        if (ret >= 0) {
            EXPECT_EQ((size_t)ret, data.size());
            return UCS_OK;
        }
        return (ucs_status_t)ret;
    default:
        return post_zcopy(data.data(), data.size());
    }
}

bool Sender::try_send()
{
    ucs_status_t status = post();

    if (status == UCS_ERR_NO_RESOURCE) {
        return false;
    }
    EXPECT_EQ(status, UCS_OK) << ucs_status_string(status) << ", message " << sent;
    ++sent;
    reap();
    return true;
}

void Sender::send()
{
    progress_until("room to send a message", [this] { return try_send(); });
}

void Sender::reap()
{
    zcopy_.remove_if([](const std::unique_ptr<Zcopy> &zcopy) {
        if (zcopy->comp.done) {
            EXPECT_EQ(zcopy->comp.uct.status, UCS_OK);
            EXPECT_EQ(zcopy->comp.done, 1);
        }
        return zcopy->comp.done > 0;
    });
}

void Sender::drain()
{
    progress_until("zero-copy messages to be fetched", [this] {
        reap();
        return zcopy_.empty();
    });
}

/* ---- receiving ---- */

uint32_t sender_of(const void *data, size_t length)
{
    uint64_t first;

    EXPECT_GE(length, sizeof(first));
    memcpy(&first, data, sizeof(first));
    return first >> 32;
}

void check_next(const void *data, size_t length, uint32_t sender, const Plan &plan,
                uint32_t *received)
{
    uint32_t n = (*received)++;

    EXPECT_EQ(length, plan(n).length)
        << "message " << n << " of sender " << sender << ": lost, repeated, out of order or cut";
    check(data, length, sender, n);
}

Sink::Sink(Iface &iface, uint8_t am_id, uint32_t id, const Plan &plan)
{
    iface.on_am(am_id, [this, id, plan](const void *data, size_t length) {
        check_next(data, length, id, plan, &received);
    });
}

/* ---- environments ---- */

std::ostream &operator<<(std::ostream &os, const Setting &setting)
{
    os << setting.name;
    for (const auto &variable : setting.env) {
        os << " " << variable.first << "=" << variable.second;
    }
    return os;
}

std::string setting_name(const testing::TestParamInfo<Setting> &info)
{
    return info.param.name;
}

static const Env tiny = {
    {"UCX_GLEX_EP_MPQ_CAPACITY", "64"},
    {"UCX_GLEX_SR_CREDIT_START", "1"},
    {"UCX_GLEX_SRQ_CAPACITY", "4"},
    {"UCX_GLEX_ERQ_SIZE", "4096"},
};
static const Env er = {{"UCX_GLEX_CHANNELS", "er"}};
static const Env sr = {{"UCX_GLEX_CHANNELS", "sr"}};
static const Env er_sr = {{"UCX_GLEX_CHANNELS", "er,sr"}, {"UCX_GLEX_ER_THRESH", "5"}};

static Env fault(const char *faults)
{
    return {{"GLEX_FAULT", faults}};
}

std::vector<Setting> channel_settings()
{
    return {
        {"er", er},
        {"sr", sr},
        {"er_sr", er_sr},
        {"er_tiny", er + tiny},
        {"sr_tiny", sr + tiny},
        {"er_sr_tiny", er_sr + tiny},
    };
}

std::vector<Setting> all_settings()
{
    std::vector<Setting> settings = channel_settings();

    /* The seed makes a failure come again */
    settings.push_back({"er_nomap", er + fault("nomap")});
    settings.push_back({"er_tiny_nomap", er + tiny + fault("nomap")});
    settings.push_back({"sr_nomap", sr + fault("nomap")});
    settings.push_back({"sr_tiny_nomap", sr + tiny + fault("nomap")});
    settings.push_back({"er_sr_noprivate", er_sr + fault("noprivate")});
    settings.push_back({"er_reorder", er + fault("mp_reorder=0.3,seed=1")});
    settings.push_back({"sr_reorder", sr + fault("mp_reorder=0.3,seed=2")});
    settings.push_back({"sr_tiny_reorder", sr + tiny + fault("mp_reorder=0.3,seed=3")});
    settings.push_back({"er_sr_tiny_delay", er_sr + tiny + fault("mp_delay=0.2:5,seed=4")});
    settings.push_back({"er_busy", er + fault("busy=0.3,seed=5")});
    settings.push_back({"er_nomap_busy", er + fault("nomap,busy=0.3,seed=6")});
    settings.push_back({"sr_busy", sr + fault("busy=0.3,seed=7")});
    settings.push_back({"er_sr_tiny_busy", er_sr + tiny + fault("busy=0.3,seed=8")});
    return settings;
}

void network_team(unsigned size, const Env &env, const std::function<void(Team &)> &body)
{
    char module[PATH_MAX];

    if (realpath("../../src/glex/.libs/glex-net.so", module) == NULL) {
        GTEST_SKIP() << "built without libfabric: there is no network";
    }
    team(size,
         env + Env{{"GLEX_NET", "tcp/127.0.0.8"},
                   {"GLEX_NET_KEY", "00112233445566778899aabbccddeeff"},
                   {"GLEX_NET_MODULE", module},
                   {"UCX_GLEX_RCACHE", "n"}},
         body);
}

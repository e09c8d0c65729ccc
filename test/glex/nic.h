/*
 * A device and an endpoint with memory, for tests.
 */
#ifndef GLEX_TEST_NIC_H
#define GLEX_TEST_NIC_H

#include <glex.h>
#include <glex_ext.h>

#include <gtest/gtest.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <string>
#include <vector>

#define ASSERT_OK(call) ASSERT_EQ(GLEX_SUCCESS, (call))
#define EXPECT_OK(call) EXPECT_EQ(GLEX_SUCCESS, (call))

static const uint32_t TEST_KEY = 0x5a;
static const int WAIT_MS = 20000; /* for an expected arrival: long enough for a loaded machine */

inline glex_ep_attr ep_attr(uint32_t num = GLEX_ANY_EP_NUM, uint32_t capacity = 0)
{
    glex_ep_attr attr = {};

    attr.type = GLEX_EP_TYPE_NORMAL;
    attr.num = num;
    attr.key = TEST_KEY;
    attr.mpq_capacity = capacity;
    attr.eq_capacity = capacity;
    return attr;
}

class Device
{
  public:
    explicit Device(uint32_t id = 0)
    {
        glex_ret_t ret = glex_open_device(id, &handle_);

        EXPECT_OK(ret);
        if (ret != GLEX_SUCCESS) {
            abort(); /* no test can go on without */
        }
    }
    ~Device()
    {
        EXPECT_OK(glex_close_device(handle_));
    }
    Device(const Device &) = delete;
    operator glex_device_handle_t() const
    {
        return handle_;
    }

  private:
    glex_device_handle_t handle_ = nullptr;
};

/* The address of an endpoint and a handle of its registration, for a peer. */
struct Target {
    uint64_t addr, mh;
};

/*
 * The users of an endpoint: this thread alone, as in the transport, or any thread, as in programs.
 */
enum Users { ONE_THREAD, THREADS };

/* glex_test_locked.sh runs the tests of single threads a second time, with locks. */
inline Users default_users()
{
    return getenv("GLEX_TEST_LOCKED") != nullptr ? THREADS : ONE_THREAD;
}

class Ep
{
  public:
    explicit Ep(glex_device_handle_t dev, glex_ep_attr attr = ep_attr(),
                Users users = default_users())
    {
        glex_ret_t ret = glex_create_ep(dev, &attr, &handle_);

        EXPECT_OK(ret);
        if (ret != GLEX_SUCCESS) {
            abort();
        }
        if (users == ONE_THREAD) {
            EXPECT_OK(glex_ext_set_single_threaded(handle_));
        }
    }
    ~Ep()
    {
        if (handle_ != nullptr) {
            EXPECT_OK(glex_destroy_ep(handle_));
        }
    }
    Ep(const Ep &) = delete;
    operator glex_ep_handle_t() const
    {
        return handle_;
    }

    void destroy()
    {
        EXPECT_OK(glex_destroy_ep(handle_));
        handle_ = nullptr;
    }

    glex_ep_addr_t addr() const
    {
        glex_ep_addr_t addr;

        EXPECT_OK(glex_get_ep_addr(handle_, &addr));
        return addr;
    }

    /* NIC memory, which belongs to the endpoint. */
    char *alloc(uint64_t len) const
    {
        void *addr = nullptr;

        EXPECT_OK(glex_ext_mem_alloc(handle_, len, &addr));
        return static_cast<char *>(addr);
    }

    glex_mem_handle_t reg(void *addr, uint64_t len, int flag = GLEX_MEM_READ | GLEX_MEM_WRITE) const
    {
        glex_mem_handle_t mh = {};

        EXPECT_OK(glex_register_mem(handle_, addr, len, flag, &mh));
        return mh;
    }

    Target target(glex_mem_handle_t mh = {}) const
    {
        return {addr().v, mh.v};
    }

    void send(glex_ep_addr_t to, const void *data, uint32_t len, int flag = 0) const
    {
        glex_imm_mp_req_t req = {};

        req.rmt_ep_addr = to;
        req.data = const_cast<void *>(data);
        req.len = len;
        req.flag = flag;
        EXPECT_OK(glex_send_imm_mp(handle_, &req, nullptr));
    }

    void send_number(glex_ep_addr_t to, uint64_t number) const
    {
        send(to, &number, sizeof(number));
    }

    /* The number in the next message, or -1 where none comes. */
    int64_t receive_number(int timeout = WAIT_MS) const
    {
        uint64_t data[14] = {};
        glex_ep_addr_t src;
        uint32_t len = 0;

        if (glex_receive_mp(handle_, timeout, &src, data, &len) != GLEX_SUCCESS) {
            return -1;
        }
        EXPECT_EQ(sizeof(uint64_t), len);
        return static_cast<int64_t>(data[0]);
    }

    /* cookie_0 of the next event, discarded, or -1 where none comes. */
    int64_t receive_event(int timeout = WAIT_MS) const
    {
        glex_event_t *event;
        int64_t cookie;

        if (glex_probe_first_event(handle_, timeout, &event) != GLEX_SUCCESS) {
            return -1;
        }
        cookie = static_cast<int64_t>(event->cookie_0);
        EXPECT_OK(glex_discard_probed_event(handle_));
        return cookie;
    }

    /* The next event or message of both queues. */
    glex_ret_t poll(glex_ext_arrival *arrival) const
    {
        return glex_ext_poll(handle_, arrival);
    }

    /* The same, with time for the recovery of a stalled queue. False: nothing came. */
    bool poll_long(glex_ext_arrival *arrival) const
    {
        for (int i = 0; i < WAIT_MS; i++) {
            for (int j = 0; j < 5000; j++) {
                if (poll(arrival) == GLEX_SUCCESS) {
                    return true;
                }
            }
            usleep(1000);
        }
        return false;
    }

    /* The statuses of all error requests that are there. */
    std::vector<glex_err_req> errors() const
    {
        std::vector<glex_err_req> list(64);
        uint32_t num = 64;

        EXPECT_OK(glex_poll_error_req(handle_, &num, list.data()));
        list.resize(num);
        return list;
    }

    /* The status of the only error request, or -1. */
    int only_error() const
    {
        std::vector<glex_err_req> list = errors();

        return list.size() == 1 ? static_cast<int>(list[0].status) : -1;
    }

    glex_ext_counters counters() const
    {
        glex_ext_counters counters;

        EXPECT_OK(glex_ext_query_counters(handle_, &counters));
        return counters;
    }

  private:
    glex_ep_handle_t handle_ = nullptr;
};

inline glex_imm_rdma_req_t imm_put(Target to, const void *data, uint32_t len, uint32_t offset = 0,
                                   uint64_t event = 0)
{
    glex_imm_rdma_req_t req = {};

    req.rmt_ep_addr.v = to.addr;
    req.rmt_mh.v = to.mh;
    req.data = const_cast<void *>(data);
    req.len = len;
    req.rmt_offset = offset;
    req.rmt_key = TEST_KEY;
    if (event != 0) {
        req.flag = GLEX_FLAG_REMOTE_EVT;
        req.rmt_evt.cookie_0 = event;
        req.rmt_evt.cookie_1 = 1;
    }
    return req;
}

inline glex_rdma_req_t rdma(glex_rdma_type type, Target to, glex_mem_handle_t local, uint32_t len,
                            uint32_t rmt_offset = 0, uint32_t local_offset = 0)
{
    glex_rdma_req_t req = {};

    req.rmt_ep_addr.v = to.addr;
    req.rmt_mh.v = to.mh;
    req.local_mh = local;
    req.local_offset = local_offset;
    req.rmt_offset = rmt_offset;
    req.len = len;
    req.type = type;
    req.rmt_key = TEST_KEY;
    return req;
}

#endif

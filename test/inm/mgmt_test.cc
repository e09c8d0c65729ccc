// glex_send_mgmt_req() and glex_receive_mgmt_ack() against the emulated network, which mgmt.sh
// starts with the modelled clock at the socket that GLEX_INM names.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <glex.h>
#include <glex_ext.h>

class Mgmt : public testing::Test
{
  protected:
    void SetUp() override
    {
        ASSERT_EQ(GLEX_SUCCESS, glex_open_device(0, &dev));
    }
    void TearDown() override
    {
        if (ep != nullptr) {
            glex_destroy_ep(ep);
        }
        glex_close_device(dev);
    }
    glex_ret_t create(glex_ep_type type = GLEX_EP_TYPE_MANAGEMENT)
    {
        glex_ep_attr attr = {};
        attr.type = type;
        attr.num = GLEX_ANY_EP_NUM;
        return glex_create_ep(dev, &attr, &ep);
    }
    glex_mgmt_info read_own_nic(uint16_t id)
    {
        glex_mgmt_info req = {};
        req.type = GLEX_MGMT_REG_READ_REQ;
        req.chip = GLEX_MGMT_CHIP_NIC;
        req.chip_id = GLEX_MGMT_ANY_ID;
        req.transaction_id = id;
        req.count = 2;
        req.addr[0] = 0x00;
        req.addr[1] = 0x10;
        return req;
    }
    // The NRC that the host is wired to.
    glex_mgmt_info read_first_nrc(uint16_t addr)
    {
        glex_mgmt_info req = read_own_nic(9), ack;
        EXPECT_EQ(GLEX_SUCCESS, glex_send_mgmt_req(ep, &req, 0));
        EXPECT_EQ(GLEX_SUCCESS, glex_receive_mgmt_ack(ep, 10000, &ack));
        glex_mgmt_info nrc = {};
        nrc.type = GLEX_MGMT_REG_READ_REQ;
        nrc.chip = GLEX_MGMT_CHIP_NRC;
        nrc.chip_id = ack.reg[1] & 0xffffff;
        nrc.backward.num = 1;
        nrc.backward.port[0] = ack.reg[1] >> 24 & 31;
        nrc.count = 1;
        nrc.addr[0] = addr;
        nrc.time_ns = ack.time_ns;
        return nrc;
    }
    glex_device_handle_t dev = nullptr;
    glex_ep_handle_t ep = nullptr;
};

TEST_F(Mgmt, RequestsAndAnswers)
{
    ASSERT_EQ(GLEX_SUCCESS, create());
    glex_ep_attr attr;
    ASSERT_EQ(GLEX_SUCCESS, glex_query_ep(ep, &attr));
    EXPECT_EQ(GLEX_EP_TYPE_MANAGEMENT, attr.type);
    glex_mgmt_info ack;
    EXPECT_EQ(GLEX_NO_MP, glex_receive_mgmt_ack(ep, 0, &ack));
    glex_mgmt_info req = read_first_nrc(0x0d);
    ASSERT_EQ(GLEX_SUCCESS, glex_send_mgmt_req(ep, &req, 0));
    ASSERT_EQ(GLEX_SUCCESS, glex_receive_mgmt_ack(ep, 10000, &ack));
    EXPECT_EQ(GLEX_MGMT_REG_READ_RSP, ack.type);
    EXPECT_NEAR(6730, static_cast<double>(ack.time_ns - req.time_ns), 67); // paper, 4.1
    EXPECT_NE(0u, ack.reg[0] & 1);
    req.addr[0] = 0x7fff;
    req.transaction_id = 77;
    ASSERT_EQ(GLEX_SUCCESS, glex_send_mgmt_req(ep, &req, GLEX_MGMT_FLAG_FENCE));
    ASSERT_EQ(GLEX_SUCCESS, glex_receive_mgmt_ack(ep, 10000, &ack));
    EXPECT_EQ(GLEX_MGMT_REG_ERR_RSP, ack.type);
    EXPECT_EQ(77, ack.transaction_id);
    EXPECT_EQ(1, ack.status);
}

TEST_F(Mgmt, ManyInFlight)
{
    ASSERT_EQ(GLEX_SUCCESS, create());
    glex_mgmt_info req = read_first_nrc(0x0d), ack;
    for (int i = 0; i < 1000; i++) {
        req.transaction_id = i;
        ASSERT_EQ(GLEX_SUCCESS, glex_send_mgmt_req(ep, &req, GLEX_MGMT_FLAG_MORE));
    }
    for (int i = 0; i < 1000; i++) {
        ASSERT_EQ(GLEX_SUCCESS, glex_receive_mgmt_ack(ep, 10000, &ack));
        ASSERT_EQ(i, ack.transaction_id);
    }
    EXPECT_EQ(GLEX_NO_MP, glex_receive_mgmt_ack(ep, 0, &ack));
}

TEST_F(Mgmt, WrongUse)
{
    ASSERT_EQ(GLEX_SUCCESS, create());
    glex_mgmt_info good = read_own_nic(1), req, ack;
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_send_mgmt_req(nullptr, &good, 0));
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_send_mgmt_req(ep, nullptr, 0));
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_receive_mgmt_ack(ep, -2, &ack));
    for (int i = 0; i < 5; i++) {
        req = good;
        switch (i) {
        case 0:
            req.count = 3;
            break;
        case 1:
            req.count = 0;
            break;
        case 2:
            req.type = GLEX_MGMT_REPORT;
            break;
        case 3:
            req.forward.num = 21;
            break;
        default:
            req.chip = 0;
        }
        EXPECT_EQ(GLEX_INVALID_PARAM, glex_send_mgmt_req(ep, &req, 0)) << i;
    }
    glex_destroy_ep(ep);
    ep = nullptr;
    ASSERT_EQ(GLEX_SUCCESS, create(GLEX_EP_TYPE_NORMAL));
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_send_mgmt_req(ep, &good, 0));
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_receive_mgmt_ack(ep, 0, &ack));
}

TEST_F(Mgmt, WithoutANetwork)
{
    std::string path = getenv("GLEX_INM");
    setenv("GLEX_INM", "/nonexistent/fabric", 1);
    EXPECT_EQ(GLEX_SYS_ERR, create());
    unsetenv("GLEX_INM");
    EXPECT_EQ(GLEX_NOT_IMPLEMENTED, create());
    setenv("GLEX_INM", path.c_str(), 1);
}

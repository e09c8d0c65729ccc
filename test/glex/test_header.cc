/* glex.h as programs see it, in C (header.c) and C++. */
#include "header.h"
#include "nic.h"

#include <cstddef>

#define SIZE(type, number)           static_assert(sizeof(type) == (number), #type);
#define OFFSET(type, member, number) static_assert(offsetof(type, member) == (number), #type);
#define VALUE(name, number)          static_assert((name) == (number), #name);
#include "header_layout.h"

TEST(header, spellings_in_c)
{
    EXPECT_EQ(7, header_spellings());
}

TEST(header, spellings_in_cxx)
{
    glex_ep_addr_t addr = {};
    glex_mem_handle_t mh = {};
    glex_event_t event = {};

    addr.ep_num = 5;
    addr.s.nic_id = 6;
    EXPECT_EQ(6ull << 32 | 5, addr.v);
    EXPECT_EQ(6u, addr.nic_id);
    mh.s.mmt_index = 7;
    mh.att_index = 8;
    EXPECT_EQ(8ull << 32 | 7, mh.v);
    event.cookie[0] = 9;
    event.cookie_1 = 10;
    EXPECT_EQ(9u, event.cookie_0);
    EXPECT_EQ(10u, event.cookie[1]);
}

/* One by one, through the prototypes that programs were compiled with. */
TEST(header, functions)
{
    const struct header_functions &f = header_functions;
    glex_device_handle_t dev;
    glex_ep_addr_t addr, composed;
    glex_ep_handle_t ep;
    glex_ep_attr attr = ep_attr(GLEX_ANY_EP_NUM, 64), real;
    uint32_t num, nic, ep_num;

    ASSERT_OK(f.num_of_device(&num));
    ASSERT_OK(f.open_device(num - 1, &dev));
    ASSERT_OK(f.create_ep(dev, &attr, &ep));
    ASSERT_OK(f.query_ep(ep, &real));
    EXPECT_EQ(64u, real.eq_capacity);
    ASSERT_OK(f.get_ep_addr(ep, &addr));
    ASSERT_OK(f.decompose_ep_addr(addr, GLEX_EP_TYPE_NORMAL, &nic, &ep_num));
    ASSERT_OK(f.compose_ep_addr(nic, ep_num, GLEX_EP_TYPE_NORMAL, &composed));
    EXPECT_EQ(addr.v, composed.v);
    EXPECT_STREQ("successful", f.error_str(f.destroy_ep(ep)));
    ASSERT_OK(f.close_device(dev));
}

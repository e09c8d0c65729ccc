/* Addresses with a hint: glex_ext_peer_hint(). */
#include "message.h"
#include "nic.h"
#include "process.h"

#include <sys/wait.h>

#include <memory>
#include <set>

class hint : public testing::Test
{
  protected:
    glex_ep_addr_t hinted(const Ep &peer) const
    {
        return glex_ext_peer_hint(a, peer.addr());
    }

    /* By each function that posts a message. */
    void expect_reaches(glex_ep_addr_t address, Ep &peer)
    {
        char data[8] = {};
        glex_imm_mp_req_t req = {};

        for (Kind kind : {EVENT, MP}) {
            Message m(++number);

            ASSERT_OK(post(kind, a, address, m));
            ASSERT_OK(peer.poll(&arrival));
            expect_message(m, arrival);
        }
        req.rmt_ep_addr = address;
        req.data = data;
        req.len = sizeof(data);
        ASSERT_OK(glex_send_imm_mp(a, &req, nullptr));
        ASSERT_OK(peer.poll(&arrival));
        EXPECT_EQ(GLEX_NO_EVENT, peer.poll(&arrival));
        EXPECT_TRUE(a.errors().empty());
    }

    Device dev;
    Ep a{dev};
    glex_ext_arrival arrival = {};
    uint64_t number = 0;
};

/* More peers than the table has at first, and one hint for each */
TEST_F(hint, each_peer_is_found)
{
    std::vector<std::unique_ptr<Ep>> peers;
    std::set<uint16_t> hints;

    for (unsigned i = 0; i < 300; i++) {
        peers.emplace_back(new Ep(dev, ep_attr(GLEX_ANY_EP_NUM, 16)));
        glex_ep_addr_t address = hinted(*peers.back());

        EXPECT_EQ(peers.back()->addr().ep_num, address.ep_num);
        EXPECT_EQ(peers.back()->addr().nic_id, address.nic_id);
        EXPECT_TRUE(hints.insert(address.resv).second);
        EXPECT_EQ(address.v, hinted(*peers.back()).v);
    }
    EXPECT_EQ(0u, hints.count(0));
    EXPECT_EQ(300u, *hints.rbegin()) << "they lie close together";
    for (auto &peer : peers) {
        expect_reaches(hinted(*peer), *peer);
        ASSERT_FALSE(HasFatalFailure());
    }
}

TEST_F(hint, wrong_one_does_no_harm)
{
    Ep b(dev), c(dev);
    glex_ep_addr_t address = b.addr();

    for (unsigned known = 0; known < 2; known++) {
        for (unsigned i : {1u, 2u, 3u, 63u, 64u, 65u, 65535u}) {
            address.resv = static_cast<uint16_t>(i);
            expect_reaches(address, b);
            ASSERT_FALSE(HasFatalFailure()) << i;
            EXPECT_EQ(GLEX_NO_EVENT, c.poll(&arrival));
        }
        hinted(c);
        hinted(b);
    }
}

TEST_F(hint, nobody_there)
{
    glex_ep_addr_t address = a.addr();

    address.ep_num = static_cast<uint16_t>(address.ep_num + 1);
    EXPECT_EQ(address.v, glex_ext_peer_hint(a, address).v);
    address.resv = 5;
    EXPECT_EQ(0u, glex_ext_peer_hint(a, address).resv);
    EXPECT_EQ(address.ep_num, glex_ext_peer_hint(a, address).ep_num);
}

/* The hint of a peer that is gone goes to the next; the old address leads to neither. */
TEST_F(hint, of_one_that_is_gone)
{
    Ep b(dev);
    glex_ep_addr_t old = hinted(b);
    Message m(1);

    b.destroy();
    ASSERT_OK(post(EVENT, a, old, m));
    EXPECT_EQ(1u, a.errors().size()) << "which says that it is gone";

    Ep c(dev, ep_attr(5000));
    EXPECT_EQ(old.resv, hinted(c).resv);
    ASSERT_OK(post(EVENT, a, old, m));
    ASSERT_OK(post(MP, a, old, m));
    EXPECT_EQ(2u, a.errors().size());
    EXPECT_EQ(GLEX_NO_EVENT, c.poll(&arrival));
    expect_reaches(hinted(c), c);
}

/* As an address without hint, an old one leads to who has the number now. */
TEST_F(hint, of_one_that_was_replaced)
{
    Ep b(dev);
    uint16_t number_of_b = b.addr().ep_num;
    glex_ep_addr_t old = hinted(b);

    b.destroy();
    Ep c(dev, ep_attr(number_of_b));
    expect_reaches(old, c);
    expect_reaches(hinted(c), c);
}

TEST_F(hint, child_has_none)
{
    Ep b(dev);
    glex_ep_addr_t address = hinted(b);
    pid_t child = fork();
    int status;

    if (child == 0) {
        _exit(glex_ext_peer_hint(a, address).resv == 0 &&
                      post(EVENT, a, address, Message(1)) == GLEX_INVALID_PARAM &&
                      post(MP, a, address, Message(1)) == GLEX_INVALID_PARAM ?
                  0 :
                  1);
    }
    ASSERT_EQ(child, waitpid(child, &status, 0));
    EXPECT_EQ(0, status);
    expect_reaches(address, b);
}

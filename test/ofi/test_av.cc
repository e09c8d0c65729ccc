/* Address vectors of both types: numbers, duplicates, what happens to them when they are removed. */
#include "node.h"

#include <algorithm>
#include <string>

namespace
{

/* An address vector beside the one that the endpoint uses */
class Av : public testing::TestWithParam<fi_av_type>
{
  protected:
    void open(uint64_t flags = 0)
    {
        fi_av_attr attr{};

        attr.type = GetParam();
        attr.flags = flags;
        ASSERT_EQ(0, fi_av_open(node.domain, &attr, &av, nullptr));
        EXPECT_EQ(GetParam() == FI_AV_UNSPEC ? FI_AV_TABLE : GetParam(), attr.type);
    }

    void TearDown() override
    {
        if (av != nullptr) {
            EXPECT_EQ(0, fi_close(&av->fid));
        }
    }

    /** The address of an endpoint of the same domain, which need not exist to be known. */
    std::vector<char> name_of(unsigned endpoint)
    {
        std::vector<char> name = node.name();

        name[ep_offset()] = static_cast<char>(endpoint);
        return name;
    }

    /** Where the address has the endpoint's number: where a second endpoint's address differs. */
    size_t ep_offset()
    {
        if (offset == 0) {
            std::vector<char> first = node.name(), second(256);
            size_t length = second.size();
            fid_ep *ep = nullptr;

            EXPECT_EQ(0, fi_endpoint(node.domain, node.info, &ep, nullptr));
            EXPECT_EQ(0, fi_getname(&ep->fid, second.data(), &length));
            EXPECT_EQ(0, fi_close(&ep->fid));
            while (offset < first.size() && first[offset] == second[offset]) {
                offset++;
            }
        }
        return offset;
    }

    std::vector<char> lookup(fi_addr_t addr)
    {
        std::vector<char> name(256);
        size_t length = name.size();

        EXPECT_EQ(0, fi_av_lookup(av, addr, name.data(), &length));
        name.resize(length);
        return name;
    }

    Node node;
    fid_av *av = nullptr;

  private:
    size_t offset = 0;
};

/* As many as make the table grow several times; every other one is removed, and its number used again */
TEST_P(Av, ManyAreInsertedFoundAndReplaced)
{
    open();
    const unsigned count = 200;
    std::vector<fi_addr_t> addrs(count, 77), removed;
    std::vector<char> names;

    for (unsigned i = 0; i < count; i++) {
        std::vector<char> name = name_of(i);
        names.insert(names.end(), name.begin(), name.end());
    }
    ASSERT_EQ((int)count, fi_av_insert(av, names.data(), count, addrs.data(), 0, nullptr));
    for (unsigned i = 0; i < count; i++) {
        EXPECT_EQ(i, addrs[i]); /* what FI_AV_TABLE promises, and FI_AV_MAP may do */
        EXPECT_EQ(name_of(i), lookup(addrs[i]));
    }
    for (unsigned i = 0; i < count; i += 2) {
        removed.push_back(addrs[i]);
    }
    EXPECT_EQ(0, fi_av_remove(av, removed.data(), removed.size(), 0));
    for (unsigned i = 0; i < count; i++) {
        char bytes[256];
        size_t length = sizeof(bytes);
        EXPECT_EQ(i % 2 ? 0 : -FI_EINVAL, fi_av_lookup(av, addrs[i], bytes, &length)) << i;
    }
    for (fi_addr_t addr : removed) { /* others take the numbers, in their order */
        fi_addr_t again = FI_ADDR_UNSPEC;
        std::vector<char> name = name_of(250 - addr);
        ASSERT_EQ(1, fi_av_insert(av, name.data(), 1, &again, 0, nullptr));
        EXPECT_EQ(addr, again);
        EXPECT_EQ(name, lookup(again));
    }
    fi_addr_t wrong[] = {addrs[1], 1000000, FI_ADDR_UNSPEC, addrs[3]};
    EXPECT_EQ(-FI_EINVAL, fi_av_remove(av, wrong, 4, 0));
    EXPECT_EQ(-FI_EINVAL, fi_av_remove(av, &addrs[1], 1, 0)); /* the others of the call are gone */
    EXPECT_EQ(-FI_EINVAL, fi_av_remove(av, &addrs[3], 1, 0));
    EXPECT_EQ(name_of(5), lookup(addrs[5]));
}

/* A lookup into too little room tells how much it takes, and writes no more than there is */
TEST_P(Av, LookupsAreCutShort)
{
    open();
    std::vector<char> name = node.name();
    char bytes[16];
    size_t length = 10;
    fi_addr_t addr;

    memset(bytes, 'x', sizeof(bytes));
    ASSERT_EQ(1, fi_av_insert(av, name.data(), 1, &addr, 0, nullptr));
    EXPECT_EQ(0, fi_av_lookup(av, addr, bytes, &length));
    EXPECT_EQ(name.size(), length);
    EXPECT_EQ(0, memcmp(bytes, name.data(), 10));
    EXPECT_EQ('x', bytes[10]);
    length = 10;
    EXPECT_EQ(-FI_ETOOSMALL, fi_getname(&node.ep->fid, bytes, &length));
    EXPECT_EQ(name.size(), length);
    EXPECT_EQ('x', bytes[10]);
}

/* Good and bad addresses in one call: each gets its error, and the good ones are known */
TEST_P(Av, EachAddressHasItsError)
{
    open();
    std::vector<char> name = node.name(), names;
    fi_addr_t addrs[3] = {1, 1, 1};
    int errors[3] = {-1, -1, -1};

    for (int i = 0; i < 3; i++) {
        names.insert(names.end(), name.begin(), name.end());
    }
    names[name.size()] ^= 1; /* the version of the second */
    EXPECT_EQ(2, fi_av_insert(av, names.data(), 3, addrs, FI_SYNC_ERR, errors));
    EXPECT_EQ(0, errors[0]);
    EXPECT_EQ(FI_EINVAL, errors[1]);
    EXPECT_EQ(0, errors[2]);
    EXPECT_EQ(FI_ADDR_NOTAVAIL, addrs[1]);
    EXPECT_EQ(name, lookup(addrs[0]));
    EXPECT_EQ(name, lookup(addrs[2]));
    EXPECT_NE(addrs[0], addrs[2]);
    EXPECT_EQ(2,
              fi_av_insert(av, names.data(), 3, nullptr, 0, nullptr)); /* nobody asks for numbers */
}

TEST_P(Av, ServicesAreAddressesInStrings)
{
    open();
    std::vector<char> name = node.name();
    char text[512];
    size_t length = sizeof(text);
    fi_addr_t addr = FI_ADDR_UNSPEC;

    fi_av_straddr(av, name.data(), text, &length);
    ASSERT_EQ(1, fi_av_insertsvc(av, text, nullptr, &addr, 0, nullptr));
    EXPECT_EQ(name, lookup(addr));
    EXPECT_EQ(-FI_EINVAL, fi_av_insertsvc(av, "127.0.0.1", "1234", &addr, 0, nullptr));
    EXPECT_EQ(-FI_ENOSYS, fi_av_insertsym(av, text, 2, "1", 1, &addr, 0, nullptr));
}

INSTANTIATE_TEST_SUITE_P(Types, Av, testing::Values(FI_AV_TABLE, FI_AV_MAP, FI_AV_UNSPEC),
                         [](const testing::TestParamInfo<fi_av_type> &type) {
                             return type.param == FI_AV_TABLE ? "Table" :
                                    type.param == FI_AV_MAP   ? "Map" :
                                                                "Unspecified";
                         });

class AvTraffic : public Pair, public testing::WithParamInterface<fi_av_type>
{
  protected:
    void open_av()
    {
        Wish wish;
        wish.caps = FI_TAGGED | FI_SOURCE | FI_DIRECTED_RECV;
        wish.av_type = GetParam();
        open(wish);
    }

    /** A message of `a`; b's completion of it, into a receive that names no source. */
    Done message()
    {
        EXPECT_EQ(0, fi_trecv(b->ep, buf, 8, nullptr, FI_ADDR_UNSPEC, 1, 0, nullptr));
        EXPECT_EQ(0, go([&] { return fi_tinject(a->ep, "message", 8, b_of_a, 1); }));
        return next(*b);
    }

    char buf[8];
};

/* Who has two numbers is reported by one that is still valid, and by none when both are gone */
TEST_P(AvTraffic, SourcesAreNamedByNumbersThatAreValid)
{
    open_av();
    fi_addr_t second = b->know(*a);

    EXPECT_NE(a_of_b, second);
    EXPECT_EQ(a_of_b, message().source);
    EXPECT_EQ(0, fi_av_remove(b->av, &a_of_b, 1, 0));
    EXPECT_EQ(second, message().source);
    EXPECT_EQ(0, fi_av_remove(b->av, &second, 1, 0));
    EXPECT_EQ(FI_ADDR_NOTAVAIL, message().source);
    fi_addr_t third = b->know(*a);
    EXPECT_EQ(third, message().source);
    fi_addr_t fourth = b->know(*a);
    EXPECT_EQ(0, fi_av_remove(b->av, &fourth, 1, 0)); /* the later one, this time */
    EXPECT_EQ(third, message().source);
}

/* FI_AV_USER_ID: completions report the program's ids, and calls use the numbers */
TEST_P(AvTraffic, SourcesAreNamedByIds)
{
    Wish wish;
    wish.caps = FI_TAGGED | FI_SOURCE | FI_DIRECTED_RECV | FI_AV_USER_ID;
    wish.av_type = GetParam();
    open(wish);
    EXPECT_TRUE(b->info->caps & FI_AV_USER_ID);
    std::vector<char> name = a->name();
    fi_addr_t with_id = 0x123456789abcdef, other = 77;

    EXPECT_EQ(-FI_EINVAL, fi_av_insert(b->av, name.data(), 1, nullptr, FI_AV_USER_ID, nullptr));
    EXPECT_EQ(a_of_b, message().source);
    ASSERT_EQ(0, fi_av_remove(b->av, &a_of_b, 1, 0));
    ASSERT_EQ(1, fi_av_insert(b->av, name.data(), 1, &with_id, FI_AV_USER_ID, nullptr));
    EXPECT_EQ(a_of_b, with_id); /* the number that is free */
    EXPECT_EQ(0x123456789abcdefu, message().source);
    ASSERT_EQ(1, fi_av_insert(b->av, name.data(), 1, &other, FI_AV_USER_ID, nullptr));
    ASSERT_EQ(0, fi_av_remove(b->av, &with_id, 1, 0));
    EXPECT_EQ(77u, message().source);
    ASSERT_EQ(0, fi_trecv(b->ep, buf, 8, nullptr, other, 1, 0, nullptr));
    EXPECT_EQ(0, go([&] { return fi_tinject(a->ep, "message", 8, b_of_a, 1); }));
    EXPECT_EQ(77u, next(*b).source);
}

/* A receive that names a source keeps it, though the number now means somebody else */
TEST_P(AvTraffic, PostedReceivesKeepTheirSource)
{
    open_av();
    Node c;
    char from_a[8] = "", from_c[8] = "";

    ASSERT_EQ(0, fi_trecv(b->ep, from_a, 8, nullptr, a_of_b, 1, 0, from_a));
    EXPECT_EQ(0, fi_av_remove(b->av, &a_of_b, 1, 0));
    EXPECT_EQ(-FI_EINVAL, fi_trecv(b->ep, from_c, 8, nullptr, a_of_b, 1, 0, nullptr));
    EXPECT_EQ(-FI_EINVAL, fi_tinject(b->ep, "nowhere", 8, a_of_b, 1));
    fi_addr_t c_of_b = b->know(c), b_of_c = c.know(*b);
    EXPECT_EQ(a_of_b, c_of_b); /* the number of `a`, which is free */
    ASSERT_EQ(0, fi_trecv(b->ep, from_c, 8, nullptr, c_of_b, 1, 0, from_c));
    ASSERT_EQ(0, retry({&c, b.get()}, [&] { return fi_tinject(c.ep, "I am C.", 8, b_of_c, 1); }));
    Done done = next_done(*b, {&c, b.get()});
    EXPECT_EQ(from_c, done.context);
    EXPECT_EQ(c_of_b, done.source);
    ASSERT_EQ(0, go([&] { return fi_tinject(a->ep, "I am A.", 8, b_of_a, 1); }));
    done = next(*b);
    EXPECT_EQ(from_a, done.context);
    EXPECT_EQ(FI_ADDR_NOTAVAIL, done.source);
    EXPECT_STREQ("I am A.", from_a);
    EXPECT_STREQ("I am C.", from_c);
}

INSTANTIATE_TEST_SUITE_P(Types, AvTraffic, testing::Values(FI_AV_TABLE, FI_AV_MAP),
                         [](const testing::TestParamInfo<fi_av_type> &type) {
                             return type.param == FI_AV_TABLE ? "Table" : "Map";
                         });

TEST(AvEntries, NumbersAreUsedAgainAndBadAddressesRefused)
{
    Node node, other;
    std::vector<char> name = other.name(), bad = name, out(256);
    fi_addr_t first = node.know(name), second = node.know(node.name()), addr = 0;
    size_t length = out.size();

    EXPECT_EQ(0u, first);
    EXPECT_EQ(1u, second);
    ASSERT_EQ(0, fi_av_lookup(node.av, first, out.data(), &length));
    out.resize(length);
    EXPECT_EQ(name, out);
    EXPECT_EQ(0, fi_av_remove(node.av, &first, 1, 0));
    EXPECT_EQ(-FI_EINVAL, fi_av_remove(node.av, &first, 1, 0));
    EXPECT_EQ(-FI_EINVAL, fi_inject(node.ep, "x", 1, first));
    EXPECT_EQ(first, node.know(name));
    bad[0] ^= 1;
    EXPECT_EQ(0, fi_av_insert(node.av, bad.data(), 1, &addr, 0, nullptr));
    EXPECT_EQ(FI_ADDR_NOTAVAIL, addr);
}

TEST(AvEntries, InsertionIsReportedByEvents)
{
    Node node;
    fi_av_attr attr{};
    fi_eq_attr eq_attr{};
    fi_eq_entry entry{};
    fi_eq_err_entry error{};
    uint32_t event = 0;
    fid_av *av = nullptr;
    fid_eq *eq = nullptr;
    std::vector<char> names = node.name(), bad(names.size());
    fi_addr_t addrs[2];

    names.insert(names.end(), bad.begin(), bad.end());
    eq_attr.wait_obj = FI_WAIT_UNSPEC;
    ASSERT_EQ(0, fi_eq_open(node.fabric, &eq_attr, &eq, nullptr));
    attr.flags = FI_EVENT;
    ASSERT_EQ(0, fi_av_open(node.domain, &attr, &av, nullptr));
    EXPECT_EQ(-FI_ENOEQ, fi_av_insert(av, names.data(), 2, addrs, 0, &addrs));
    ASSERT_EQ(0, fi_av_bind(av, &eq->fid, 0));
    EXPECT_EQ(0, fi_av_insert(av, names.data(), 2, addrs, 0, &addrs));
    EXPECT_EQ(-FI_EAVAIL, fi_eq_sread(eq, &event, &entry, sizeof(entry), 1000, 0));
    EXPECT_EQ((ssize_t)sizeof(error), fi_eq_readerr(eq, &error, 0));
    EXPECT_EQ(1u, error.data);
    EXPECT_EQ((ssize_t)sizeof(entry), fi_eq_sread(eq, &event, &entry, sizeof(entry), 1000, 0));
    EXPECT_EQ((uint32_t)FI_AV_COMPLETE, event);
    EXPECT_EQ(1u, entry.data);
    EXPECT_EQ(&addrs, entry.context);
    EXPECT_EQ(-FI_EAGAIN, fi_eq_read(eq, &event, &entry, sizeof(entry), 0));
    EXPECT_EQ(0, fi_close(&av->fid));
    EXPECT_EQ(0, fi_close(&eq->fid));
}

/* FI_ADDR_STR: all calls give and take addresses as strings */
TEST(AvText, AddressesAreStrings)
{
    Wish wish;
    wish.addr_format = FI_ADDR_STR;
    Node a(wish), b(wish);
    std::vector<char> name = b.name(), out(256), both = a.name();
    std::string text(name.data());
    const char *pointers[] = {both.data(), "fi_glex://00", name.data()};
    fi_addr_t addrs[3] = {9, 9, 9}, one = 9;
    char buf[8] = "";
    size_t length = 20;

    EXPECT_EQ(text.size() + 1, name.size());
    EXPECT_EQ(0u, text.find("fi_glex://"));
    EXPECT_EQ((uint32_t)FI_ADDR_STR, a.info->addr_format);
    EXPECT_EQ(0, strncmp("fi_glex://", static_cast<char *>(a.info->src_addr), 10));
    EXPECT_EQ(strlen(static_cast<char *>(a.info->src_addr)) + 1, a.info->src_addrlen);
    EXPECT_EQ(-FI_ETOOSMALL, fi_getname(&b.ep->fid, out.data(), &length));
    EXPECT_EQ(name.size(), length);
    /* an array of pointers, as fi_av(3) says */
    EXPECT_EQ(2, fi_av_insert(a.av, pointers, 3, addrs, 0, nullptr));
    EXPECT_EQ(0u, addrs[0]);
    EXPECT_EQ(FI_ADDR_NOTAVAIL, addrs[1]);
    EXPECT_EQ(1u, addrs[2]);
    /* strings one behind the other */
    both.insert(both.end(), name.begin(), name.end());
    EXPECT_EQ(2, fi_av_insert(a.av, both.data(), 2, addrs, 0, nullptr));
    EXPECT_EQ(1, fi_av_insertsvc(a.av, name.data(), nullptr, &one, 0, nullptr));
    for (fi_addr_t addr : {addrs[1], one}) {
        length = out.size();
        ASSERT_EQ(0, fi_av_lookup(a.av, addr, out.data(), &length));
        EXPECT_EQ(name.size(), length);
        EXPECT_EQ(text, out.data());
    }
    length = out.size();
    EXPECT_EQ(text, fi_av_straddr(a.av, name.data(), out.data(), &length));
    EXPECT_EQ(name.size(), length);
    ASSERT_EQ(0, fi_trecv(b.ep, buf, 8, nullptr, FI_ADDR_UNSPEC, 1, 0, nullptr));
    ASSERT_EQ(0, retry({&a, &b}, [&] { return fi_tinject(a.ep, "message", 8, one, 1); }));
    EXPECT_EQ(0, next_done(b, {&a, &b}).err);
    EXPECT_STREQ("message", buf);
}

TEST(AvText, HintsHaveStringsToo)
{
    Node node;
    std::vector<char> name = node.name();
    char text[512];
    size_t length = sizeof(text);
    fi_info *hints = fi_allocinfo(), *info = nullptr;

    fi_av_straddr(node.av, name.data(), text, &length);
    hints->fabric_attr->prov_name = strdup("glex");
    hints->addr_format = FI_ADDR_STR;
    hints->dest_addr = strdup(text);
    hints->dest_addrlen = length;
    ASSERT_EQ(0, fi_getinfo(FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION), nullptr, nullptr, 0,
                            hints, &info));
    EXPECT_STREQ(text, static_cast<char *>(info->dest_addr));
    EXPECT_EQ(length, info->dest_addrlen);
    fi_freeinfo(info);
    info = nullptr;
    static_cast<char *>(hints->dest_addr)[length - 2] = 'x';
    EXPECT_NE(0, fi_getinfo(FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION), nullptr, nullptr, 0,
                            hints, &info));
    fi_freeinfo(hints);
}

/* FI_SOURCE_ERR: a completion of a source that is not in the address vector is an error with the
 * source's address, which can be inserted. Completions of known sources are as usual. */
class SourceErr : public Pair, public testing::WithParamInterface<uint32_t>
{
};

TEST_P(SourceErr, UnknownSourcesAreNamed)
{
    Wish wish;
    wish.caps = FI_TAGGED | FI_MSG | FI_RMA | FI_SOURCE | FI_SOURCE_ERR;
    wish.addr_format = GetParam();
    a.reset(new Node(wish));
    b.reset(new Node(wish));
    b_of_a = a->know(*b);
    std::vector<char> name = a->name(), memory(100), data = pattern(300000, 1), got(data.size());
    fid_mr *mr = nullptr;
    fi_msg_tagged peek{};

    EXPECT_TRUE(b->info->caps & FI_SOURCE_ERR);
    EXPECT_LE(name.size(), b->info->domain_attr->max_err_data);
    ASSERT_EQ(0, fi_mr_reg(b->domain, memory.data(), 100, FI_REMOTE_WRITE, 0, 0, 0, &mr, nullptr));
    auto messages = [&](bool is_known) {
        auto check = [&](Done done, uint64_t length, uint64_t tag) {
            EXPECT_EQ(is_known ? 0 : FI_EADDRNOTAVAIL, done.err);
            EXPECT_EQ(length, done.len);
            EXPECT_EQ(tag, done.tag);
            if (is_known) {
                EXPECT_EQ(a_of_b, done.source);
            } else {
                EXPECT_EQ(name, done.err_data);
            }
        };
        for (size_t length : {size_t(8), data.size()}) {
            for (bool is_expected : {true, false}) {
                std::fill(got.begin(), got.end(), 0);
                auto post = [&] {
                    ASSERT_EQ(0, fi_trecv(b->ep, got.data(), length, nullptr, FI_ADDR_UNSPEC, 5, 0,
                                          &got));
                };
                if (is_expected) {
                    post();
                }
                ASSERT_EQ(0, go([&] {
                              return fi_tsend(a->ep, data.data(), length, nullptr, b_of_a, 5,
                                              nullptr);
                          }));
                if (!is_expected) {
                    settle();
                    peek.tag = 5;
                    peek.addr = FI_ADDR_UNSPEC;
                    ASSERT_EQ(0, fi_trecvmsg(b->ep, &peek, FI_PEEK));
                    check(next(*b), length, 5);
                    post();
                }
                Done done = next(*b);
                check(done, length, 5);
                EXPECT_EQ(&got, done.context);
                EXPECT_EQ(0, memcmp(data.data(), got.data(), length));
                EXPECT_EQ(0, next(*a).err);
            }
        }
        ASSERT_EQ(0, fi_recv(b->ep, got.data(), 8, nullptr, FI_ADDR_UNSPEC, nullptr));
        ASSERT_EQ(0, go([&] { return fi_inject(a->ep, "message", 8, b_of_a); }));
        check(next(*b), 8, 0);
        ASSERT_EQ(0, go([&] {
                      return fi_writedata(a->ep, data.data(), 100, nullptr, 77, b_of_a,
                                          reinterpret_cast<uint64_t>(memory.data()), fi_mr_key(mr),
                                          nullptr);
                  }));
        Done done = next(*b);
        check(done, 100, 0);
        EXPECT_EQ(77u, done.data);
        EXPECT_EQ((uint64_t)(FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA), done.flags);
        EXPECT_EQ(0, next(*a).err);
    };
    messages(false);
    a_of_b = b->know(name); /* the error data are an address */
    messages(true);
    EXPECT_EQ(0, fi_close(&mr->fid));
}

/* The program's buffer for error data gets as much as fits */
TEST_P(SourceErr, IntoTheProgramsBuffer)
{
    Wish wish;
    wish.caps = FI_TAGGED | FI_SOURCE | FI_SOURCE_ERR;
    wish.addr_format = GetParam();
    a.reset(new Node(wish));
    b.reset(new Node(wish));
    b_of_a = a->know(*b);
    std::vector<char> name = a->name(), bytes(300);
    char buf[8];

    for (size_t size : {size_t(10), bytes.size()}) {
        fi_cq_err_entry error{};
        fi_cq_tagged_entry entry;

        std::fill(bytes.begin(), bytes.end(), 'z');
        ASSERT_EQ(0, fi_trecv(b->ep, buf, 8, nullptr, FI_ADDR_UNSPEC, 1, 0, nullptr));
        ASSERT_EQ(0, go([&] { return fi_tinject(a->ep, "message", 8, b_of_a, 1); }));
        ASSERT_TRUE(
            wait_for({a.get()}, [&] { return fi_cq_read(b->cq, &entry, 1) == -FI_EAVAIL; }));
        error.err_data = bytes.data();
        error.err_data_size = size;
        ASSERT_EQ(1, fi_cq_readerr(b->cq, &error, 0));
        EXPECT_EQ(FI_EADDRNOTAVAIL, error.err);
        EXPECT_EQ(bytes.data(), error.err_data);
        EXPECT_EQ(std::min(size, name.size()), error.err_data_size);
        EXPECT_EQ(0, memcmp(bytes.data(), name.data(), error.err_data_size));
        EXPECT_EQ('z', bytes[error.err_data_size]);
    }
    /* the last error stays in the queue, which is closed */
    ASSERT_EQ(0, fi_trecv(b->ep, buf, 8, nullptr, FI_ADDR_UNSPEC, 1, 0, nullptr));
    ASSERT_EQ(0, go([&] { return fi_tinject(a->ep, "message", 8, b_of_a, 1); }));
    for (int i = 0; i < 1000; i++) {
        fi_cq_tagged_entry entry;
        fi_cq_read(b->cq, &entry, 0);
    }
}

INSTANTIATE_TEST_SUITE_P(Formats, SourceErr, testing::Values(FI_FORMAT_UNSPEC, FI_ADDR_STR),
                         [](const testing::TestParamInfo<uint32_t> &format) {
                             return format.param == FI_ADDR_STR ? "Text" : "Bytes";
                         });

} // namespace

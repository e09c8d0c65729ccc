/*
 * A message that was delivered stays delivered, whatever becomes of its sender: the sender closes in
 * good order or is killed; the message is known as unexpected, lies in the NIC's queues, or is
 * announced only; the receive names the sender or not, and is posted before or after the end.
 */
#include "node.h"

#include <csignal>
#include <rdma/fi_atomic.h>
#include <set>
#include <sys/wait.h>
#include <tuple>
#include <unistd.h>

namespace
{

enum How { CLOSES, IS_KILLED };
enum Where { UNEXPECTED, QUEUED, ANNOUNCED };
enum When { BEFORE, AFTER };

/* A process with a node that sends two messages of tag 5 when it is asked to. Made before this process
 * has a NIC of its own. */
class Sender
{
  public:
    explicit Sender(size_t bytes) : length(bytes)
    {
        EXPECT_EQ(0, pipe(up));
        EXPECT_EQ(0, pipe(down));
        pid = fork();
        if (pid == 0) {
            live();
            _exit(0);
        }
        name.resize(64);
        EXPECT_EQ(64, read(up[0], name.data(), 64));
    }

    ~Sender()
    {
        end(IS_KILLED);
        for (int fd : {up[0], up[1], down[0], down[1]}) {
            close(fd);
        }
    }

    void tell(const std::vector<char> &address)
    {
        EXPECT_EQ((ssize_t)address.size(), write(down[1], address.data(), address.size()));
    }

    /** Returns when both messages are sent. */
    void send()
    {
        char byte = 's';

        EXPECT_EQ(1, write(down[1], &byte, 1));
        EXPECT_EQ(1, read(up[0], &byte, 1));
    }

    void end(How how)
    {
        char byte = 'e';

        if (pid > 0) {
            if (how == IS_KILLED) {
                kill(pid, SIGKILL);
            } else {
                EXPECT_EQ(1, write(down[1], &byte, 1));
            }
            waitpid(pid, nullptr, 0);
            pid = -1;
        }
    }

    std::vector<char> name;

  private:
    void live()
    {
        Wish wish;
        wish.caps = FI_TAGGED;
        Node node(wish);
        std::vector<char> other(64), data = pattern(length, 5);
        char buf[8];

        if (write(up[1], node.name().data(), 64) != 64 || read(down[0], other.data(), 64) != 64) {
            return;
        }
        fi_addr_t addr = node.know(other);
        fi_trecv(node.ep, buf, 8, nullptr, FI_ADDR_UNSPEC, 1, 0, nullptr);
        next_done(node, {&node});
        retry({&node}, [&] { return fi_tinject(node.ep, buf, 8, addr, 2); });
        for (int i = 0; i < 1000; i++) {
            node.poll();
        }
        if (read(down[0], buf, 1) != 1) {
            return;
        }
        for (int i = 0; i < 2; i++) {
            retry({&node}, [&] {
                return fi_tsend(node.ep, data.data(), data.size(), nullptr, addr, 5, nullptr);
            });
        }
        if (write(up[1], buf, 1) != 1 || read(down[0], buf, 1) != 1) {
            return;
        }
    }

    size_t length;
    pid_t pid;
    int up[2], down[2];
};

class Gone : public testing::TestWithParam<std::tuple<How, Where, bool, When>>
{
};

TEST_P(Gone, DeliveredStaysDelivered)
{
    const auto [how, where, named, when] = GetParam();
    const size_t length = where == ANNOUNCED ? 200000 : 60;
    Sender sender(length);
    Wish wish;
    wish.caps = FI_TAGGED | FI_DIRECTED_RECV;
    Node a(wish);
    fi_addr_t peer = a.know(sender.name), source = named ? peer : FI_ADDR_UNSPEC;
    std::vector<char> got[2] = {std::vector<char>(length), std::vector<char>(length)};
    char hello[8];

    sender.tell(a.name());
    ASSERT_EQ(0, fi_trecv(a.ep, hello, 8, nullptr, FI_ADDR_UNSPEC, 2, 0, hello));
    ASSERT_EQ(0, retry({&a}, [&] { return fi_tinject(a.ep, "1234567", 8, peer, 1); }));
    ASSERT_EQ(hello, next_done(a, {&a}).context);
    auto post = [&] {
        for (auto &buffer : got) {
            ASSERT_EQ(0, fi_trecv(a.ep, buffer.data(), length, nullptr, source, 5, 0, &buffer));
        }
    };
    sender.send();
    for (int i = 0; where == UNEXPECTED && i < 1000; i++) {
        a.poll();
    }
    if (when == BEFORE) {
        post();
    }
    sender.end(how);
    if (when == AFTER) {
        ASSERT_TRUE(wait_for({&a}, [&] {
            ssize_t ret = fi_tinject(a.ep, "too late", 8, peer, 9);
            return ret != 0 && ret != -FI_EAGAIN;
        }));
        post();
    }
    for (auto &buffer : got) {
        Done done = next_done(a, {&a});
        EXPECT_EQ(&buffer, done.context);
        EXPECT_EQ(where == ANNOUNCED, done.err != 0);
        if (done.err == 0) {
            EXPECT_EQ(pattern(length, 5), buffer);
        }
    }
}

std::string case_name(const testing::TestParamInfo<Gone::ParamType> &matrix)
{
    const char *hows[] = {"Closes", "IsKilled"};
    const char *wheres[] = {"Unexpected", "Queued", "Announced"};

    return std::string(hows[std::get<0>(matrix.param)]) + wheres[std::get<1>(matrix.param)] +
           (std::get<2>(matrix.param) ? "Named" : "Any") +
           (std::get<3>(matrix.param) == BEFORE ? "PostedBefore" : "PostedAfter");
}

INSTANTIATE_TEST_SUITE_P(Matrix, Gone,
                         testing::Combine(testing::Values(CLOSES, IS_KILLED),
                                          testing::Values(UNEXPECTED, QUEUED, ANNOUNCED),
                                          testing::Bool(), testing::Values(BEFORE, AFTER)),
                         case_name);

/* FI_INJECT with FI_COMPLETION is reported, also if the peer dies before it says HELLO */
TEST(GoneReport, InjectedWithCompletion)
{
    Sender silent(8);
    Node a;
    fi_addr_t peer = a.know(silent.name);
    char data[8] = "1234567";
    iovec iov = {data, sizeof(data)};
    fi_msg_tagged msg{};

    msg.msg_iov = &iov;
    msg.iov_count = 1;
    msg.addr = peer;
    msg.context = &msg;
    ASSERT_EQ(0, fi_tsendmsg(a.ep, &msg, FI_INJECT | FI_COMPLETION));
    silent.end(IS_KILLED);
    Done done = next_done(a, {&a});
    EXPECT_EQ(&msg, done.context);
    EXPECT_NE(0, done.err);
}

/* The rule of docs/ofi.md: an operation on a peer that dies is reported, unless it has FI_INJECT and no
 * FI_COMPLETION. The peer has not said HELLO. */
class GoneRule : public testing::TestWithParam<std::tuple<bool, uint64_t>>
{
};

TEST_P(GoneRule, EachKindOfOperation)
{
    const auto [selective, flags] = GetParam();
    Sender silent(8);
    Wish wish;
    wish.cq_flags = selective ? FI_SELECTIVE_COMPLETION : 0;
    Node a(wish);
    fi_addr_t peer = a.know(silent.name);
    uint64_t data[5] = {1, 2, 3, 4, 5};
    iovec iov[5];
    fi_rma_iov remote = {0, sizeof(data[0]), 1};
    fi_ioc operand = {&data[4], 1};
    fi_rma_ioc target = {0, 1, 1};
    fi_msg send{};
    fi_msg_tagged tagged{};
    fi_msg_rma write{}, read{};
    fi_msg_atomic atomic{};
    std::set<void *> reported;

    for (int i = 0; i < 5; i++) {
        iov[i] = {&data[i], sizeof(data[i])};
    }
    send.msg_iov = &iov[0];
    tagged.msg_iov = &iov[1];
    write.msg_iov = &iov[2];
    read.msg_iov = &iov[3];
    send.iov_count = tagged.iov_count = write.iov_count = read.iov_count = atomic.iov_count = 1;
    send.addr = tagged.addr = write.addr = read.addr = atomic.addr = peer;
    write.rma_iov = read.rma_iov = &remote;
    write.rma_iov_count = read.rma_iov_count = atomic.rma_iov_count = 1;
    atomic.msg_iov = &operand;
    atomic.rma_iov = &target;
    atomic.datatype = FI_UINT64;
    atomic.op = FI_SUM;
    send.context = &data[0];
    tagged.context = &data[1];
    write.context = &data[2];
    read.context = &data[3];
    atomic.context = &data[4];
    ASSERT_EQ(0, fi_sendmsg(a.ep, &send, flags));
    ASSERT_EQ(0, fi_tsendmsg(a.ep, &tagged, flags));
    ASSERT_EQ(0, fi_writemsg(a.ep, &write, flags));
    ASSERT_EQ(flags & FI_INJECT ? -FI_EBADFLAGS : 0, fi_readmsg(a.ep, &read, flags));
    ASSERT_EQ(0, fi_atomicmsg(a.ep, &atomic, flags));
    ASSERT_EQ(0, fi_inject(a.ep, data, 8, peer));
    ASSERT_EQ(0, fi_tinject(a.ep, data, 8, peer, 1));
    ASSERT_EQ(0, fi_inject_write(a.ep, data, 8, peer, 0, 1));
    ASSERT_EQ(0, fi_inject_atomic(a.ep, data, 1, peer, 0, 1, FI_UINT64, FI_SUM));
    /* this operation is reported in every case */
    int plain;
    ASSERT_EQ(0, fi_tsend(a.ep, data, 8, nullptr, peer, 1, &plain));
    silent.end(IS_KILLED);
    bool is_silent = selective && (flags & FI_INJECT) && !(flags & FI_COMPLETION);
    size_t expected = 1 + (is_silent ? 0 : flags & FI_INJECT ? 4 : 5);
    ASSERT_TRUE(wait_for({&a}, [&] { return a.done.size() >= expected; }));
    for (int i = 0; i < 1000; i++) {
        a.poll();
    }
    for (const Done &done : a.done) {
        EXPECT_NE(0, done.err);
        EXPECT_TRUE(reported.insert(done.context).second);
    }
    EXPECT_EQ(expected, reported.size());
    for (auto &context : data) {
        bool is_read = &context == &data[3];
        EXPECT_EQ(!is_silent && !(is_read && (flags & FI_INJECT)), reported.count(&context) == 1);
    }
}

INSTANTIATE_TEST_SUITE_P(Flags, GoneRule,
                         testing::Combine(testing::Bool(),
                                          testing::Values(0, FI_COMPLETION, FI_INJECT,
                                                          FI_INJECT | FI_COMPLETION)),
                         [](const testing::TestParamInfo<GoneRule::ParamType> &rule) {
                             uint64_t flags = std::get<1>(rule.param);

                             return std::string(std::get<0>(rule.param) ? "Selective" : "All") +
                                    (flags & FI_INJECT ? "Inject" : "") +
                                    (flags & FI_COMPLETION ? "Completion" : "");
                         });

/* A send that was accepted is reported when its endpoint is closed, if its peer never says HELLO */
TEST(GoneReport, SendOfAClosedEndpoint)
{
    Sender silent(8);
    Node a;
    fi_addr_t peer = a.know(silent.name);
    char data[8] = "1234567";

    ASSERT_EQ(0, fi_tsend(a.ep, data, 8, nullptr, peer, 1, data));
    ASSERT_EQ(0, fi_close(&a.ep->fid));
    a.ep = nullptr;
    Done done = next_done(a, {&a});
    EXPECT_EQ(data, done.context);
    EXPECT_EQ(FI_ECANCELED, done.err);
}

/* The address of a process that died may be inserted again. Sends to it fail again. */
TEST(GoneReport, InsertedAgain)
{
    Sender silent(8);
    Node a;
    fi_addr_t peer = a.know(silent.name);
    char data[8] = "1234567";

    silent.end(IS_KILLED);
    for (int i = 0; i < 3; i++) {
        ssize_t ret = fi_tsend(a.ep, data, 8, nullptr, peer, 1, data);
        if (ret == 0) {
            Done done = next_done(a, {&a});
            EXPECT_EQ(data, done.context);
            EXPECT_NE(0, done.err);
        } else {
            EXPECT_NE(-FI_EAGAIN, ret);
        }
        peer = a.know(silent.name);
    }
}

} // namespace

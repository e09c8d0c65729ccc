/* Devices, the fabric's directory, and the environment. */
#include "internals.h"
#include "nic.h"
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

TEST(device, arguments)
{
    glex_device_handle_t dev;
    glex_device_attr attr;
    uint32_t num = 0;

    ASSERT_OK(glex_num_of_device(&num));
    EXPECT_EQ(1u, num);
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_num_of_device(nullptr));
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_open_device(num, &dev));
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_open_device(0, nullptr));
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_close_device(nullptr));
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_query_device(nullptr, &attr));
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_ext_query_device(nullptr, nullptr));
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_ext_is_reachable(nullptr, 1));
}

TEST(device, attributes)
{
    Device dev, again;
    glex_device_attr attr, attr2;

    ASSERT_OK(glex_query_device(dev, &attr));
    ASSERT_OK(glex_query_device(again, &attr2));
    EXPECT_EQ(0, memcmp(&attr, &attr2, sizeof(attr)));
    EXPECT_NE(0u, attr.nic_id);
    EXPECT_EQ(112u, attr.max_imm_mp_data_len);
    EXPECT_EQ(112u, attr.max_mp_data_len);
    EXPECT_EQ(96u, attr.max_imm_rdma_data_len);
    EXPECT_LE(1u << 30, attr.max_rdma_data_len);
    EXPECT_EQ(2048u, attr.def_ep_mpq_capacity);
    EXPECT_EQ(1u << 20, attr.max_ep_mpq_capacity);
    EXPECT_STRNE("", glex_ext_version());
    EXPECT_OK(glex_ext_is_reachable(dev, attr.nic_id));
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_ext_is_reachable(dev, attr.nic_id ^ 0x55500000));
}

CHILD(device_identity)
{
    Device dev;
    glex_ext_device_attr attr;

    EXPECT_OK(glex_ext_query_device(dev, &attr));
    send_up(attr);
    return testing::Test::HasFailure();
}

/* One fabric has one identity; another one has another, though it is on the same host. */
TEST(device, identity_of_the_fabric)
{
    Device dev;
    glex_device_attr nic;
    glex_ext_device_attr attr;

    ASSERT_OK(glex_ext_query_device(dev, &attr));
    ASSERT_OK(glex_query_device(dev, &nic));
    EXPECT_GT(1u << 24, nic.nic_id);
    EXPECT_NE(0u, attr.fabric);
    Process same("device_identity"), other("device_identity", {"GLEX_FABRIC=identity-other"});
    glex_ext_device_attr of_same = same.receive<glex_ext_device_attr>();
    glex_ext_device_attr of_other = other.receive<glex_ext_device_attr>();
    EXPECT_EQ(attr.fabric, of_same.fabric);
    EXPECT_EQ(attr.space, of_same.space);
    EXPECT_NE(attr.fabric, of_other.fabric);
    EXPECT_NE(attr.space, of_other.space) << "whose private memory, on which host";
    EXPECT_EQ(0, same.wait());
    EXPECT_EQ(0, other.wait());
}

TEST(device, close_with_endpoints_is_busy)
{
    glex_ep_attr attr = ep_attr();
    glex_device_handle_t dev;
    glex_ep_handle_t ep;

    ASSERT_OK(glex_open_device(0, &dev));
    ASSERT_OK(glex_create_ep(dev, &attr, &ep));
    EXPECT_EQ(GLEX_BUSY, glex_close_device(dev));
    ASSERT_OK(glex_destroy_ep(ep));
    EXPECT_OK(glex_close_device(dev));
}

static bool fabric_exists()
{
    char path[512];

    internals_fabric_path(path, sizeof(path));
    return access(path, F_OK) == 0;
}

TEST(device, last_one_removes_the_directory)
{
    {
        Device dev, other;
        EXPECT_TRUE(fabric_exists());
        {
            Ep a(dev);
            Ep b(other);
        }
        /* removed with the last endpoint, and made anew for the next */
        Ep c(dev);
        EXPECT_TRUE(fabric_exists());
        Ep d(other);
        c.send_number(d.addr(), 4);
        EXPECT_EQ(4, d.receive_number(0));
    }
    EXPECT_FALSE(fabric_exists());
}

/* ---- several NICs ---------------------------------------------------------------------------- */

CHILD(device_several)
{
    uint32_t num = 0;

    EXPECT_OK(glex_num_of_device(&num));
    EXPECT_EQ(4u, num);
    Device dev0(0), dev3(3);
    Ep a(dev0, ep_attr(5)), b(dev3, ep_attr(5)); /* numbers are a NIC's own */
    EXPECT_EQ(0x1000u, a.addr().nic_id);
    EXPECT_EQ(0x1003u, b.addr().nic_id);
    EXPECT_OK(glex_ext_is_reachable(dev0, 0x1003));
    EXPECT_OK(glex_ext_is_reachable(dev0, 0x1001));
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_ext_is_reachable(dev0, 0x1004));
    a.send_number(b.addr(), 1);
    EXPECT_EQ(1, b.receive_number(0));
    glex_ep_addr_t nobody = b.addr();
    nobody.nic_id = 0x1001;
    a.send_number(nobody, 1);
    EXPECT_EQ(GLEX_ERR_STATUS_DEST_VP_STOP, a.only_error());
    nobody.nic_id = 0x1004;
    a.send_number(nobody, 1);
    EXPECT_EQ(GLEX_ERR_STATUS_DEST_HOST_DEAD, a.only_error());
    send_up(a.addr().v);
    EXPECT_EQ(6, a.receive_number());
    return testing::Test::HasFailure();
}

TEST(device, several)
{
    Process child("device_several", {"GLEX_NUM_NICS=4", "GLEX_NIC_ID=0x1000"});
    glex_ep_addr_t addr = {.v = child.receive<uint64_t>()};
    Device dev;
    Ep ep(dev);

    /* A NIC that we know of only by its endpoint. */
    EXPECT_OK(glex_ext_is_reachable(dev, addr.nic_id));
    ep.send_number(addr, 6);
    EXPECT_TRUE(ep.errors().empty());
    EXPECT_EQ(0, child.wait());
}

/* ---- the environment ------------------------------------------------------------------------- */

CHILD(device_bad_environment)
{
    glex_device_handle_t dev;
    uint32_t num;

    EXPECT_EQ(GLEX_INVALID_PARAM, glex_num_of_device(&num));
    EXPECT_EQ(GLEX_INVALID_PARAM, glex_open_device(0, &dev));
    return testing::Test::HasFailure();
}

static long num_lines(const std::string &text)
{
    return std::count(text.begin(), text.end(), '\n');
}

class environment : public testing::TestWithParam<const char *>
{
};

TEST_P(environment, nonsense_is_refused_and_named)
{
    std::string var = GetParam(), name = var.substr(0, var.find('='));
    Process child("device_bad_environment", {"GLEX_LOG=error", var});

    EXPECT_EQ(0, child.wait());
    EXPECT_NE(std::string::npos, child.error_text().find("glex: " + var)) << child.error_text();
    EXPECT_EQ(1, num_lines(child.error_text()));
}

INSTANTIATE_TEST_SUITE_P(
    values, environment,
    testing::Values("GLEX_NUM_NICS=0", "GLEX_NUM_NICS=17", "GLEX_NUM_NICS=", "GLEX_NUM_NICS=2x",
                    "GLEX_NUM_NICS=-1", "GLEX_NIC_ID=0", "GLEX_NIC_ID=0x100000000",
                    "GLEX_NIC_ID=no", "GLEX_FABRIC=", "GLEX_FABRIC=.", "GLEX_FABRIC=..",
                    "GLEX_FABRIC=a/b", "GLEX_FABRIC=.hidden", "GLEX_FABRIC=a b",
                    "GLEX_SHM_DIR=relative", "GLEX_LOG=loud", "GLEX_FAULT=nonsense",
                    "GLEX_FAULT=mp_loss=1.5", "GLEX_FAULT=mp_loss=-1", "GLEX_FAULT=mp_loss",
                    "GLEX_FAULT=mp_loss=0.1,,", "GLEX_FAULT=mp_delay=0.1",
                    "GLEX_FAULT=mp_delay=0.1:0", "GLEX_FAULT=kill=0", "GLEX_FAULT=nomap=1",
                    "GLEX_FAULT=busy=0.1 ", "GLEX_FAULT=seed=x", "GLEX_FAULT=mp_loss=nan",
                    "GLEX_FAULT=far"));

/* ---- a directory that is not as it should be ------------------------------------------------- */

CHILD(device_bad_fabric)
{
    glex_device_handle_t dev;

    EXPECT_EQ(GLEX_SYS_ERR, glex_open_device(0, &dev));
    return testing::Test::HasFailure();
}

class shm_dir : public testing::Test
{
  protected:
    shm_dir()
    {
        char name[] = "/tmp/glex-test-XXXXXX";
        dir = mkdtemp(name);
        user = dir + "/glex-" + std::to_string(geteuid());
    }
    ~shm_dir()
    {
        std::string command = "rm -rf " + dir;
        EXPECT_EQ(0, system(command.c_str()));
    }

    void expect_refused(const std::string &text)
    {
        Process child("device_bad_fabric",
                      {"GLEX_LOG=error", "GLEX_FABRIC=f", "GLEX_SHM_DIR=" + dir});
        EXPECT_EQ(0, child.wait());
        EXPECT_NE(std::string::npos, child.error_text().find(text)) << child.error_text();
        EXPECT_EQ(1, num_lines(child.error_text()));
    }

    std::string dir, user;
};

TEST_F(shm_dir, writable_by_others)
{
    ASSERT_EQ(0, mkdir(user.c_str(), 0700));
    ASSERT_EQ(0, chmod(user.c_str(), 0770));
    expect_refused("nobody else may write");
    ASSERT_EQ(0, chmod(user.c_str(), 0700));
    ASSERT_EQ(0, mkdir((user + "/f").c_str(), 0700));
    ASSERT_EQ(0, chmod((user + "/f").c_str(), 0702));
    expect_refused("nobody else may write");
}

TEST_F(shm_dir, owned_by_another)
{
    ASSERT_EQ(0, mkdir(user.c_str(), 0700));
    if (chown(user.c_str(), geteuid() + 1, static_cast<gid_t>(-1)) != 0) {
        GTEST_SKIP() << "only root can give a directory away";
    }
    expect_refused("must belong to");
}

TEST_F(shm_dir, symbolic_link)
{
    ASSERT_EQ(0, mkdir((dir + "/elsewhere").c_str(), 0700));
    ASSERT_EQ(0, symlink("elsewhere", user.c_str()));
    expect_refused("cannot open the fabric");
}

static std::string directory_user, directory_moved;
static int directories_made;

/* Before the second level is made the first one, which was checked, is moved away. */
static void exchange_directories()
{
    if (++directories_made == 2) {
        EXPECT_EQ(0, rename(directory_user.c_str(), directory_moved.c_str()));
        EXPECT_EQ(0, mkdir(directory_user.c_str(), 0700));
    }
}

CHILD(device_exchanged)
{
    glex_device_handle_t dev;

    directory_user = std::string(getenv("GLEX_SHM_DIR")) + "/glex-" + std::to_string(geteuid());
    directory_moved = directory_user + "-moved";
    internals_on_making_directory(exchange_directories);
    EXPECT_OK(glex_open_device(0, &dev));
    EXPECT_EQ(2, directories_made);
    EXPECT_EQ(0, access((directory_moved + "/f").c_str(), F_OK));
    EXPECT_NE(0, access((directory_user + "/f").c_str(), F_OK));
    EXPECT_OK(glex_close_device(dev));
    return testing::Test::HasFailure();
}

/* The fabric is made in the directory that was checked, whatever its path means by then. */
TEST_F(shm_dir, exchanged_while_it_is_opened)
{
    Process child("device_exchanged", {"GLEX_LOG=warn", "GLEX_FABRIC=f", "GLEX_SHM_DIR=" + dir});

    EXPECT_EQ(0, child.wait());
    EXPECT_EQ("", child.error_text());
}

TEST_F(shm_dir, not_there)
{
    dir += "/no/such";
    expect_refused("cannot open the fabric");
    dir.resize(dir.size() - strlen("/no/such"));
}

CHILD(device_works)
{
    Device dev;
    Ep a(dev), b(dev);

    a.send_number(b.addr(), 8);
    EXPECT_EQ(8, b.receive_number(0));
    EXPECT_EQ(-1, b.receive_number(1)); /* with a socket */
    char *p = b.alloc(100);
    glex_imm_rdma_req_t req = imm_put(b.target(b.reg(p, 100)), "x", 2);
    EXPECT_OK(glex_imm_rdma(a, &req, nullptr));
    EXPECT_STREQ("x", p);
    return testing::Test::HasFailure();
}

/* Any file system with O_TMPFILE does, and paths longer than a socket's address. */
TEST_F(shm_dir, elsewhere_with_a_long_path)
{
    std::string longer = dir + "/" + std::string(120, 'x');

    ASSERT_EQ(0, mkdir(longer.c_str(), 0700));
    int fd = open(longer.c_str(), O_TMPFILE | O_RDWR, 0600);
    if (fd < 0) {
        GTEST_SKIP() << "/tmp cannot do O_TMPFILE";
    }
    close(fd);
    Process child("device_works", {"GLEX_LOG=warn", "GLEX_SHM_DIR=" + longer});
    EXPECT_EQ(0, child.wait());
    EXPECT_EQ("", child.error_text());
    EXPECT_EQ(0, rmdir(longer.c_str())) << "something was left";
}

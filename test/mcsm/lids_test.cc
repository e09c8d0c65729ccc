#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <unistd.h>

#include "mcsm_test.h"

extern "C" {
#include "mad/layout.h"
}

class Lids : public testing::Test
{
  protected:
    void SetUp() override
    {
        ASSERT_NE(nullptr, mkdtemp(directory));
        strcpy(config.name, "t");
        strcpy(config.state_dir, directory);
        config.lids = {10, 19};
        fabric = mcsm_fabric_new();
    }
    void TearDown() override
    {
        mcsm_fabric_free(fabric);
        mcsm_lids_free(lids);
        std::filesystem::remove_all(directory);
    }
    struct mcsm_port *host(uint64_t guid, uint16_t lid_in_port = 0)
    {
        struct mcsm_node *node = mcsm_fabric_add(fabric, guid, 1, 1);
        node->ports[1].guid = guid;
        node->ports[1].known = true;
        mcsm_put16(node->ports[1].info, MCSM_PI_LID, lid_in_port);
        return &node->ports[1];
    }
    void start()
    {
        mcsm_lids_free(lids);
        lids = mcsm_lids_new(&config);
    }
    char directory[32] = "/tmp/mcsm-lids-XXXXXX";
    struct mcsm_config config = {};
    struct mcsm_fabric *fabric;
    struct mcsm_lids *lids = nullptr;
};

TEST_F(Lids, FromTheMinimumUpwards)
{
    struct mcsm_port *b = host(2), *a = host(1);
    start();
    EXPECT_EQ(0, mcsm_lids_assign(lids, fabric));
    EXPECT_EQ(10, a->lid);
    EXPECT_EQ(11, b->lid);
    EXPECT_EQ(a, fabric->by_lid[10]);
    EXPECT_EQ(11, fabric->lid_top);
}

TEST_F(Lids, KeptOverARestart)
{
    struct mcsm_port *b = host(5);
    start();
    mcsm_lids_assign(lids, fabric);
    EXPECT_EQ(0, mcsm_lids_save(lids));
    struct mcsm_port *a = host(1); /* would get 10 if it were first */
    start();
    EXPECT_EQ(0, mcsm_lids_assign(lids, fabric));
    EXPECT_EQ(10, b->lid);
    EXPECT_EQ(11, a->lid);
}

TEST_F(Lids, TakenOverFromThePortWhenTheFileIsLost)
{
    struct mcsm_port *a = host(1, 15), *b = host(2, 5);
    start();
    EXPECT_EQ(0, mcsm_lids_assign(lids, fabric));
    EXPECT_EQ(15, a->lid);
    EXPECT_EQ(10, b->lid); /* 5 is not ours */
}

TEST_F(Lids, TwoPortsWithOneLid)
{
    struct mcsm_port *a = host(1, 15), *b = host(2, 15);
    start();
    EXPECT_EQ(0, mcsm_lids_assign(lids, fabric));
    EXPECT_EQ(15, a->lid);
    EXPECT_EQ(10, b->lid);
}

TEST_F(Lids, Exhausted)
{
    for (int i = 1; i <= 12; i++) {
        host(i);
    }
    start();
    EXPECT_EQ(2, mcsm_lids_assign(lids, fabric));
    EXPECT_EQ(19, mcsm_fabric_find_port(fabric, 10)->lid);
    ASSERT_EQ(0, mcsm_fabric_index(fabric)); /* it is found by the list as well */
    EXPECT_EQ(0, mcsm_fabric_find_port(fabric, 11)->lid);
    EXPECT_EQ(0, mcsm_fabric_find_port(fabric, 12)->lid);
    EXPECT_EQ(19, mcsm_fabric_find_port(fabric, 10)->lid);
}

TEST_F(Lids, LmcGivesAlignedBlocks)
{
    config.lmc = 2;
    struct mcsm_port *a = host(1), *b = host(2);
    start();
    EXPECT_EQ(0, mcsm_lids_assign(lids, fabric));
    EXPECT_EQ(12, a->lid);
    EXPECT_EQ(16, b->lid);
    EXPECT_EQ(a, fabric->by_lid[15]);
    EXPECT_EQ(b, fabric->by_lid[19]);
    host(3);
    EXPECT_EQ(1, mcsm_lids_assign(lids, fabric));
}

TEST_F(Lids, Database)
{
    struct mcsm_lid_entry entries[] = {{1, 17}, {2, 12}};
    config.db = {entries, 2};
    struct mcsm_port *a = host(1), *b = host(2), *c = host(3);
    start();
    EXPECT_EQ(1, mcsm_lids_assign(lids, fabric));
    EXPECT_EQ(17, a->lid);
    EXPECT_EQ(12, b->lid);
    EXPECT_EQ(0, c->lid); /* unknown: nothing is set */
}

/* The log says why the file is not used, and the next file does not replace the old one. */
TEST_F(Lids, DamagedFileIsNotTrusted)
{
    std::string path = std::string(directory) + "/t.lids";
    std::ofstream(path) << "0x1 10\n0x2 10\n0x3 11\n";
    struct mcsm_port *a = host(1);
    testing::internal::CaptureStderr();
    start();
    EXPECT_EQ(0, mcsm_lids_assign(lids, fabric));
    EXPECT_EQ(0, mcsm_lids_save(lids));
    std::string said = testing::internal::GetCapturedStderr();
    EXPECT_NE(std::string::npos, said.find(path + ":2: LID 10 is already that of")) << said;
    EXPECT_NE(std::string::npos, said.find(path + " is damaged")) << said;
    EXPECT_EQ(10, a->lid);
    std::string kept;
    std::getline(std::ifstream(path + ".unread"), kept, '\0');
    EXPECT_EQ("0x1 10\n0x2 10\n0x3 11\n", kept);
    std::getline(std::ifstream(path), kept, '\0');
    EXPECT_NE(std::string::npos, kept.find("0x0000000000000001 10")) << kept;
}

/* A file that cannot be read is not damaged. A link to itself and a directory are no files for root,
 * either. */
TEST_F(Lids, UnreadableFileIsNotDamaged)
{
    std::string path = std::string(directory) + "/t.lids";
    for (bool link : {true, false}) {
        if (link) {
            std::filesystem::create_symlink(path, path);
        } else {
            std::filesystem::create_directory(path);
        }
        testing::internal::CaptureStderr();
        start();
        std::string said = testing::internal::GetCapturedStderr();
        EXPECT_NE(std::string::npos, said.find(path + " cannot be read (" +
                                               strerror(link ? ELOOP : EISDIR) + "): LIDs are"))
            << said;
        EXPECT_EQ(std::string::npos, said.find("damaged")) << said;
        std::filesystem::remove(path);
    }
    testing::internal::CaptureStderr();
    start(); /* no file: the first start says nothing */
    EXPECT_EQ("", testing::internal::GetCapturedStderr());
}

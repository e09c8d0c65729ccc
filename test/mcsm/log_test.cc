/* Where messages go: stderr, a log file, or the journal with fields. */
#include <cstdlib>
#include <filesystem>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "mcsm_test.h"

extern "C" {
#include "base/journal.h"
#include "base/log.h"
#include "sm/events.h"
}

/* A socket in place of journald's. */
class Journal : public testing::Test
{
  protected:
    void SetUp() override
    {
        ASSERT_NE(nullptr, mkdtemp(directory));
        path = std::string(directory) + "/socket";
        struct sockaddr_un address = {};
        address.sun_family = AF_UNIX;
        strcpy(address.sun_path, path.c_str());
        journald = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        ASSERT_EQ(0, bind(journald, (struct sockaddr *)&address, sizeof(address)));
        mcsm_log_set_level(MCSM_LOG_INFO);
        testing::internal::CaptureStderr();
    }
    void TearDown() override
    {
        if (capturing) {
            said();
        }
        unsetenv("JOURNAL_STREAM");
        mcsm_journal_open(path.c_str(), ""); /* stderr again */
        close(journald);
        std::filesystem::remove_all(directory);
    }
    void name_stream(int more = 0)
    {
        struct stat about;
        ASSERT_EQ(0, fstat(STDERR_FILENO, &about));
        std::string stream =
            std::to_string(about.st_dev) + ":" + std::to_string(about.st_ino + more);
        setenv("JOURNAL_STREAM", stream.c_str(), 1);
    }
    std::string entry()
    {
        char text[4096];
        ssize_t length = recv(journald, text, sizeof(text), MSG_DONTWAIT);
        return std::string(text, length < 0 ? 0 : length);
    }
    std::string said()
    {
        capturing = false;
        return testing::internal::GetCapturedStderr();
    }
    bool capturing = true;
    char directory[32] = "/tmp/mcsm-journal-XXXXXX";
    std::string path;
    int journald = -1;
};

TEST_F(Journal, EventsHaveFields)
{
    const struct mcsm_sm_events none = {};
    name_stream();
    ASSERT_TRUE(mcsm_journal_open(path.c_str(), "left"));
    mcsm_report(&none, "link-held", MCSM_LOG_WARN, 0x2c9, 7, "port %d is noisy", 7);
    EXPECT_EQ("MESSAGE=port 7 is noisy\nPRIORITY=4\nSYSLOG_IDENTIFIER=mcsm\nMCSM_CLUSTER=left\n"
              "MCSM_EVENT=link-held\nMCSM_GUID=0x00000000000002c9\nMCSM_PORT=7\n",
              entry());
    mcsm_report(&none, "credit-loop", MCSM_LOG_ERROR, 0, 0, "a loop");
    EXPECT_EQ("MESSAGE=a loop\nPRIORITY=3\nSYSLOG_IDENTIFIER=mcsm\nMCSM_CLUSTER=left\n"
              "MCSM_EVENT=credit-loop\n",
              entry());
    mcsm_info("no event\nMCSM_EVENT=forged");
    EXPECT_EQ("MESSAGE=no event\nPRIORITY=6\nSYSLOG_IDENTIFIER=mcsm\nMCSM_CLUSTER=left\n", entry());
    mcsm_debug("beyond the level");
    EXPECT_EQ("", entry());
    EXPECT_EQ("", said()) << "each message once";
}

/* stderr of a program that redirected it, or without systemd: the variable is another stream's. */
TEST_F(Journal, OtherStreamsGetLines)
{
    unsetenv("JOURNAL_STREAM");
    EXPECT_FALSE(mcsm_journal_open(path.c_str(), "left"));
    name_stream(1);
    EXPECT_FALSE(mcsm_journal_open(path.c_str(), "left"));
    mcsm_info("a line");
    EXPECT_EQ("", entry());
    EXPECT_NE(std::string::npos, said().find("mcsm info: a line\n"));
}

/* A journald that restarts has no socket, or does not read: no message is lost. */
TEST_F(Journal, JournaldThatIsGone)
{
    name_stream();
    ASSERT_TRUE(mcsm_journal_open(path.c_str(), "left"));
    std::filesystem::remove(path);
    mcsm_info("nobody listens");
    EXPECT_NE(std::string::npos, said().find("mcsm info: nobody listens\n"));
}

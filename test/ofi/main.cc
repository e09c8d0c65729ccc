/* The environment of all tests: the provider of this build, on a fabric of its own. */
#include "node.h"
#include "provider.h"

#include <cstdlib>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

namespace
{

class Fabric : public testing::Environment
{
  public:
    Fabric()
    {
        const std::string name = "ofi-test-" + std::to_string(getpid());

        setenv("GLEX_FABRIC", name.c_str(), 0);
        path_ = "/dev/shm/glex-" + std::to_string(geteuid()) + "/" + getenv("GLEX_FABRIC");
    }

    /* Processes that are killed leave segments. A process clears those away when it opens its first
     * NIC: this one does so when all tests are over. */
    void SetUp() override
    {
        char byte;

        ASSERT_EQ(pipe(end_), 0);
        cleaner_ = fork();
        ASSERT_NE(cleaner_, -1);
        if (cleaner_ == 0) {
            close(end_[1]);
            (void)!read(end_[0], &byte, 1);
            delete new Node;
            _exit(0);
        }
        close(end_[0]);
    }

    void TearDown() override
    {
        close(end_[1]);
        waitpid(cleaner_, nullptr, 0);
        EXPECT_NE(access(path_.c_str(), F_OK), 0) << path_ << " was left behind";
    }

  private:
    std::string path_;
    pid_t cleaner_ = -1;
    int end_[2];
};

} // namespace

int main(int argc, char **argv)
{
    setenv("FI_PROVIDER_PATH", OFI_PROVIDER_DIR, 1);
    setenv("FI_PROVIDER", "glex", 1);
    setenv("UCX_HANDLE_ERRORS", "none", 0);
    setenv("UCX_MEM_EVENTS", "n", 0); /* its hooks and the sanitizers' are not for one process */
    unsetenv("GLEX_FAULT");
    testing::InitGoogleTest(&argc, argv);
    testing::AddGlobalTestEnvironment(new Fabric);
    return RUN_ALL_TESTS();
}

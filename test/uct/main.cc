#include "node.h"
#include "sanitizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

/* What a user has set for UCX or the NIC is not for the tests */
static void clean_environment()
{
    for (char **entry = environ; *entry != NULL;) {
        std::string name(*entry, strcspn(*entry, "="));

        if ((name.compare(0, 4, "UCX_") == 0) || (name.compare(0, 5, "GLEX_") == 0)) {
            unsetenv(name.c_str());
            entry = environ; /* it was moved */
        } else {
            ++entry;
        }
    }
}

/* A fabric for this run: nobody else's NICs are disturbed, and what is left there is ours */
class Fabric : public testing::Environment
{
  public:
    void SetUp() override
    {
        const std::string name = "uct-test-" + std::to_string(getpid());

        setenv("GLEX_FABRIC", name.c_str(), 1);
        path_ = "/dev/shm/glex-" + std::to_string(geteuid()) + "/" + name;
    }

    void TearDown() override
    {
        /* Tests that kill processes leave segments: whoever comes next clears them away */
        isolated({}, [] { Md md; });
        EXPECT_NE(access(path_.c_str(), F_OK), 0) << path_ << " was left behind";
    }

  private:
    std::string path_;
};

/* UCX reads some variables when it is loaded, before main(): start anew with what the tests need */
static void start_in_clean_environment(char **argv)
{
    if (getenv("OPENGLEX_UCT_TEST") != NULL) {
        return;
    }
    clean_environment();
    setenv("OPENGLEX_UCT_TEST", "1", 1);
    setenv("GLEX_LOG", "error", 1);
    setenv("UCX_GLEX_ER_THRESH", "0", 1);      /* most tests are of a FIFO, and begin with one */
    setenv("UCX_GLEX_ZC_MAX_SIZE", "8256", 1); /* the software NIC has no am_zcopy by default */
    setenv("UCX_HANDLE_ERRORS", "none", 1);
    if (under_sanitizer()) {
        setenv("UCX_MEM_EVENTS", "n", 1); /* both hook malloc and mmap */
        setenv("UCX_MEM_MMAP_HOOK_MODE", "none", 1);
    }
    execv("/proc/self/exe", argv);
    perror("cannot start anew");
    exit(1);
}

int main(int argc, char **argv)
{
    start_in_clean_environment(argv);
    testing::InitGoogleTest(&argc, argv);
    testing::AddGlobalTestEnvironment(new Fabric);
    return RUN_ALL_TESTS();
}

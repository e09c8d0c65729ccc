#include "process.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

/* Each run has a fabric of its own, and says nothing of the faults that it provokes. */
int main(int argc, char **argv)
{
    const std::string fabric = "test-" + std::to_string(getpid());

    child_main_if_any(argc, argv);
    setenv("GLEX_FABRIC", fabric.c_str(), 1);
    unsetenv("GLEX_FAULT");
    unsetenv("GLEX_NIC_ID");
    unsetenv("GLEX_NUM_NICS");
    setenv("GLEX_LOG", "none", 1);
    signal(SIGPIPE, SIG_IGN);
    testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
}

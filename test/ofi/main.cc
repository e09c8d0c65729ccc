/* The environment of all tests: the provider of this build, on a fabric of its own. */
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <unistd.h>

int main(int argc, char **argv)
{
    std::string fabric = "ofi-test-" + std::to_string(getpid());

    setenv("FI_PROVIDER_PATH", OFI_PROVIDER_DIR, 1);
    setenv("FI_PROVIDER", "glex", 1);
    setenv("GLEX_FABRIC", fabric.c_str(), 0);
    setenv("UCX_HANDLE_ERRORS", "none", 0);
    setenv("UCX_MEM_EVENTS", "n", 0); /* its hooks and the sanitizers' are not for one process */
    unsetenv("GLEX_FAULT");
    testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
}

/* For the tests in C++: the manager's headers are C. */
#ifndef MCSM_TEST_H
#define MCSM_TEST_H

#include <gtest/gtest.h>

#include <string>
#include <uthash.h>
#include <vector>

extern "C" {
#include "config/config.h"
#include "fabric/lids.h"
#include "route/mcast.h"
}

/* A file with this text, as long as the object lives. */
class TemporaryFile
{
  public:
    explicit TemporaryFile(const std::string &text)
    {
        int fd = mkstemp(&path[0]);
        EXPECT_EQ((ssize_t)text.size(), write(fd, text.data(), text.size()));
        close(fd);
    }
    ~TemporaryFile()
    {
        unlink(path.c_str());
    }
    std::string path = "/tmp/mcsm-test-XXXXXX";
};

/* The errors of reading a configuration; the configuration is freed. */
inline std::string errors_of(const std::string &text, struct mcsm_config **config_p = nullptr)
{
    TemporaryFile file(text);
    char *said = nullptr;
    size_t size;
    FILE *err = open_memstream(&said, &size);
    struct mcsm_config *config = mcsm_config_read(file.path.c_str(), err);
    fclose(err);
    std::string result(said);
    free(said);
    EXPECT_EQ(config == nullptr, !result.empty()) << result;
    if (config_p) {
        *config_p = config;
    } else {
        mcsm_config_free(config);
    }
    return result;
}

#endif

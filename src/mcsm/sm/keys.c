#include "keys.h"

#include "base/text.h"
#include "proof.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct keys {
    uint64_t sm_key, m_key, m_key_before;
};

static const struct {
    const char *name;
    size_t offset;
} lines[] = {{"sm-key", offsetof(struct keys, sm_key)},
             {"m-key", offsetof(struct keys, m_key)},
             {"m-key-before", offsetof(struct keys, m_key_before)}};

/* Returns 0, -ENOENT, or another -errno with a message in the log. */
static int read_keys(const char *path, struct keys *keys)
{
    FILE *file = fopen(path, "re");
    char line[128], name[32], number[32];
    struct stat about;

    if (file == NULL) {
        return -errno;
    }
    if (fstat(fileno(file), &about) == 0 && (about.st_mode & 077) != 0) {
        mcsm_warn("%s: other users may read the keys: chmod 600 it", path);
    }
    while (fgets(line, sizeof(line), file) != NULL) {
        const char *rest = line;
        bool known = line[0] == '#';

        for (size_t i = 0; i < sizeof(lines) / sizeof(*lines) && !known; i++) {
            rest = line;
            known = mcsm_next_word(&rest, " \n", name, sizeof(name)) &&
                    strcmp(name, lines[i].name) == 0 &&
                    mcsm_next_word(&rest, " \n", number, sizeof(number)) &&
                    mcsm_parse_number(number, 0, UINT64_MAX,
                                      (uint64_t *)((char *)keys + lines[i].offset)) == 0;
        }
        if (known) {
            continue;
        }
        fclose(file);
        mcsm_error("%s: a line is not \"sm-key|m-key|m-key-before NUMBER\": repair the file, or "
                   "remove it for new keys",
                   path);
        return -EINVAL;
    }
    fclose(file);
    return 0;
}

static int write_keys(const char *path, const struct keys *keys)
{
    char temporary[320];
    int fd, status = 0;
    FILE *file = NULL;

    snprintf(temporary, sizeof(temporary), "%s.new", path);
    unlink(temporary);
    fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0) {
        file = fdopen(fd, "w");
    }
    if (file == NULL) {
        status = -errno;
        if (fd >= 0) {
            close(fd);
        }
        return status;
    }
    fprintf(file, "# Keys of the cluster. Give them to no one outside of it.\n");
    for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
        fprintf(file, "%s 0x%016lx\n", lines[i].name,
                *(const uint64_t *)((const char *)keys + lines[i].offset));
    }
    if (fflush(file) != 0 || fsync(fd) < 0) {
        status = -errno;
    }
    if (fclose(file) != 0 && status == 0) {
        status = -errno;
    }
    if (status == 0 && rename(temporary, path) < 0) {
        status = -errno;
    }
    return status;
}

int mcsm_keys_complete(struct mcsm_config *config)
{
    struct keys keys = {0, 0, 0}, kept;
    char path[300];
    int status;

    snprintf(path, sizeof(path), "%s/%s.keys", config->state_dir, config->name);
    status = read_keys(path, &keys);
    if (status < 0 && status != -ENOENT && status != -ENOTDIR) {
        if (status != -EINVAL) {
            mcsm_error("%s: %s", path, strerror(-status));
        }
        return status;
    }
    kept = keys;
    if (config->sm_key_given) {
        keys.sm_key = config->sm_key;
    } else if (keys.sm_key == 0) {
        keys.sm_key = mcsm_random();
    }
    if (config->m_key_given) {
        keys.m_key = config->m_key;
    } else if (keys.m_key == 0) {
        keys.m_key = mcsm_random();
    }
    if (kept.m_key != keys.m_key && kept.m_key != 0) {
        keys.m_key_before = kept.m_key;
    }
    if (config->m_key_before != 0) {
        keys.m_key_before = config->m_key_before;
    }
    status = memcmp(&kept, &keys, sizeof(keys)) == 0 ? 0 : write_keys(path, &keys);
    if (status < 0) {
        mcsm_error("%s cannot be written: %s. Without it no M_Key protects the ports, unless the "
                   "configuration has m-key",
                   path, strerror(-status));
        if (!config->m_key_given) {
            keys.m_key = 0;
        }
    }
    config->sm_key = keys.sm_key;
    config->m_key = keys.m_key;
    config->m_key_before = keys.m_key_before;
    return 0;
}

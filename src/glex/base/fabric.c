#include "base/fabric.h"
#include "base/env.h"
#include "base/log.h"
#include "common/fnv.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/utsname.h>
#include <unistd.h>

#define FABRIC_OPEN_TRIES 100

static void fabric_user_path(char *path, size_t size)
{
    snprintf(path, size, "%s/glex-%u", glex_env()->shm_dir, (unsigned)geteuid());
}

void glex_fabric_path(char *path, size_t size)
{
    snprintf(path, size, "%s/glex-%u/%s", glex_env()->shm_dir, (unsigned)geteuid(),
             glex_env()->fabric);
}

/*
 * Opens one level, `name` in `dir`, and makes it if missing; `path` is for messages. A process that
 * can write to the directory can add segments that this process maps. So the directory must belong
 * to this user and must not be a symbolic link.
 */
static int fabric_open_level(int dir, const char *name, const char *path)
{
    struct stat st;
    int fd;

    if (mkdirat(dir, name, 0700) != 0 && errno != EEXIST) {
        return -1;
    }
    fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return -1;
    }
    if (fstat(fd, &st) != 0) {
        close(fd);
        return -1;
    }
    if (st.st_uid != geteuid() || (st.st_mode & (S_IWGRP | S_IWOTH))) {
        glex_error("%s is owned by uid %u with mode %03o: it must belong to uid %u and nobody "
                   "else may write to it; remove it or choose another GLEX_SHM_DIR",
                   path, (unsigned)st.st_uid, (unsigned)st.st_mode & 0777, (unsigned)geteuid());
        close(fd);
        errno = EPERM;
        return -1;
    }
    return fd;
}

/*
 * The second level is opened relative to the checked first level, even if its path changes
 * meanwhile.
 */
static int fabric_open_levels(const char *user_path, const char *path)
{
    int user = fabric_open_level(AT_FDCWD, user_path, user_path), fd, err;

    if (user < 0) {
        return -1;
    }
    fd = fabric_open_level(user, glex_env()->fabric, path);
    err = errno;
    close(user);
    errno = err;
    return fd;
}

glex_ret_t glex_fabric_open(int *dirfd_p)
{
    char user_path[PATH_MAX], path[PATH_MAX];
    int fd = -1, tries;

    if (!glex_env()->valid) {
        return GLEX_INVALID_PARAM; /* the reason was logged */
    }
    fabric_user_path(user_path, sizeof(user_path));
    glex_fabric_path(path, sizeof(path));

    /* Another process may remove an empty directory between our two steps. */
    for (tries = 0; tries < FABRIC_OPEN_TRIES; tries++) {
        fd = fabric_open_levels(user_path, path);
        if (fd >= 0 || errno != ENOENT || access(glex_env()->shm_dir, F_OK) != 0) {
            break;
        }
    }
    if (fd < 0) {
        if (errno != EPERM) {
            glex_error("cannot open the fabric %s: %s; GLEX_SHM_DIR names a directory in shared "
                       "memory that this user may write to",
                       path, strerror(errno));
        }
        return GLEX_SYS_ERR;
    }
    *dirfd_p = fd;
    return GLEX_SUCCESS;
}

void glex_fabric_close(int dirfd)
{
    close(dirfd);
    glex_fabric_remove();
}

void glex_fabric_remove(void)
{
    char path[PATH_MAX];

    /* Fails if the directory still has an endpoint, which is intended. */
    glex_fabric_path(path, sizeof(path));
    if (rmdir(path) == 0) {
        fabric_user_path(path, sizeof(path));
        (void)rmdir(path);
    }
}

bool glex_fabric_is_stale(int dirfd)
{
    struct stat st;

    return fstat(dirfd, &st) != 0 || st.st_nlink == 0;
}

/* Adds the identity of this host, which changes with each boot. Without /proc, the host's name. */
uint64_t glex_fabric_hash_host(uint64_t hash)
{
    struct utsname host;
    char boot_id[64];
    ssize_t len = -1;
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

    if (fd >= 0) {
        len = read(fd, boot_id, sizeof(boot_id));
        close(fd);
    }
    if (len > 0) {
        return fnv1a(hash, boot_id, (size_t)len);
    }
    return uname(&host) == 0 ? fnv1a(hash, host.nodename, strlen(host.nodename)) : hash;
}

/*
 * The identity of the directory. Processes that share the directory compute equal values. Other
 * hosts, mounts (containers) and users compute different values.
 */
uint64_t glex_fabric_identity(int dirfd)
{
    uint64_t hash = glex_fabric_hash_host(FNV_START);
    uid_t uid = geteuid();
    struct stat st;

    if (fstat(dirfd, &st) == 0) {
        hash = fnv1a(hash, &st.st_dev, sizeof(st.st_dev));
    }
    hash = fnv1a(hash, &uid, sizeof(uid));
    hash = fnv1a(hash, glex_env()->fabric, strlen(glex_env()->fabric));
    return hash != 0 ? hash : 1;
}

/*
 * 24 bits, because programs pack an endpoint's number above them: 20 bits of the identity, and the
 * index of the NIC. Two hosts may have the same id, so programs that meet other hosts compare
 * identities.
 */
uint32_t glex_fabric_nic_base(uint64_t identity)
{
    uint32_t base = (uint32_t)(identity ^ identity >> 24 ^ identity >> 48) & 0xfffff0u;

    if (glex_env()->nic_id != 0) {
        return glex_env()->nic_id;
    }
    return base != 0 ? base : 0x10u;
}

void glex_fabric_name(uint64_t addr, char name[GLEX_NAME_LEN])
{
    glex_ep_addr_t ep_addr = {.v = addr};

    snprintf(name, GLEX_NAME_LEN, "n%08x.e%04x", ep_addr.nic_id, ep_addr.ep_num);
}

bool glex_fabric_parse_name(const char *name, uint64_t *addr_p)
{
    glex_ep_addr_t addr = {.v = 0};
    unsigned nic_id, ep_num;
    char check[GLEX_NAME_LEN];

    if (sscanf(name, "n%8x.e%4x", &nic_id, &ep_num) != 2) {
        return false;
    }
    addr.nic_id = nic_id;
    addr.ep_num = (uint16_t)ep_num;
    glex_fabric_name(addr.v, check);
    *addr_p = addr.v;
    return strcmp(name, check) == 0;
}

bool glex_fabric_foreach(int dirfd, bool (*fn)(int dirfd, uint64_t addr, void *arg), void *arg)
{
    struct dirent *entry;
    bool go_on = true;
    uint64_t addr;
    DIR *dir;
    int fd;

    /* A stream owns its descriptor and position, so the stream gets a separate descriptor. */
    fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    dir = fdopendir(fd);
    if (dir == NULL) {
        close(fd);
        return false;
    }
    while (go_on && (entry = readdir(dir)) != NULL) {
        if (glex_fabric_parse_name(entry->d_name, &addr)) {
            go_on = fn(dirfd, addr, arg);
        }
    }
    closedir(dir);
    return go_on;
}

static bool fabric_other_nic(int dirfd, uint64_t addr, void *arg)
{
    glex_ep_addr_t ep_addr = {.v = addr};

    (void)dirfd;
    return ep_addr.nic_id != *(uint32_t *)arg;
}

bool glex_fabric_has_nic(int dirfd, uint32_t nic_id)
{
    return !glex_fabric_foreach(dirfd, fabric_other_nic, &nic_id);
}

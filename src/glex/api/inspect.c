/*
 * Everything is read with pread(), never mapped: a damaged file can do no harm, and an owner's
 * cache lines are not taken more often than is asked for.
 */
#include "api/inspect.h"
#include "base/caps.h"
#include "base/env.h"
#include "base/fabric.h"
#include "core/device.h"
#include "shm/segment.h"
#include "shm/stats.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* ---- a segment ------------------------------------------------------------------------------- */

static bool inspect_read(int fd, void *data, size_t len, uint64_t offset)
{
    return pread(fd, data, len, (off_t)offset) == (ssize_t)len;
}

/*
 * Values that are read during a change, or from a damaged segment, may be inconsistent. So they are
 * bounded.
 */
static bool inspect_ring(int fd, uint64_t offset, uint32_t capacity, struct glex_inspect_ring *ring)
{
    struct glex_ring_ctl ctl;
    uint64_t used;

    if (!inspect_read(fd, &ctl, sizeof(ctl), offset)) {
        return false;
    }
    ring->capacity = capacity;
    ring->head = ctl.head;
    ring->tail = ctl.tail & GLEX_TAIL_POS;
    ring->asleep = (ctl.tail & GLEX_TAIL_ARMED) != 0;
    used = ring->tail > ring->head ? ring->tail - ring->head : 0;
    ring->used = used > capacity ? capacity : (uint32_t)used;
    return true;
}

static bool inspect_registrations(int fd, const struct glex_segment_header *hdr,
                                  struct glex_inspect_ep *ep)
{
    uint64_t off = glex_mmt_off(hdr->mpq_capacity, hdr->eq_capacity), i, j;
    struct glex_mmt_entry page[GLEX_MMT_STEP];

    for (i = 0; i < hdr->mmt_ready && i < GLEX_MMT_CAPACITY; i += GLEX_MMT_STEP) {
        if (!inspect_read(fd, page, sizeof(page), off + i * sizeof(page[0]))) {
            return false;
        }
        for (j = 0; j < GLEX_MMT_STEP; j++) {
            if (page[j].state & GLEX_MMT_VALID) {
                ep->registrations++;
                ep->registered_bytes += page[j].len;
            }
        }
    }
    return true;
}

static const char *inspect_header(const struct glex_segment_header *hdr, uint64_t addr,
                                  const struct stat *st)
{
    if (hdr->magic == __builtin_bswap64(GLEX_SEGMENT_MAGIC)) {
        return "a segment of another byte order";
    }
    if (hdr->magic != GLEX_SEGMENT_MAGIC) {
        return "not a segment";
    }
    if (hdr->version != GLEX_SEGMENT_VERSION) {
        return "a segment of another version of libglex";
    }
    return glex_segment_header_is_valid(hdr, addr, st) ? NULL : "a segment with a damaged header";
}

/* @return The error in the file, or NULL. */
static const char *inspect_file(int fd, const struct stat *st, struct glex_inspect_ep *ep)
{
    struct glex_segment_header hdr;
    const char *problem;

    if (!inspect_read(fd, &hdr, sizeof(hdr), 0)) {
        return "too short for a segment";
    }
    problem = inspect_header(&hdr, ep->addr.v, st);
    if (problem != NULL) {
        return problem;
    }
    ep->type = (enum glex_ep_type)hdr.type;
    ep->pid = hdr.pid;
    memcpy(ep->command, hdr.command, sizeof(hdr.command));
    ep->start_time = hdr.start_time;
    ep->peers = hdr.num_peers;
    ep->counters = hdr.counters;
    if (!inspect_ring(fd, GLEX_MPQ_OFF, hdr.mpq_capacity, &ep->mpq) ||
        !inspect_ring(fd, glex_eq_off(hdr.mpq_capacity), hdr.eq_capacity, &ep->eq) ||
        !inspect_registrations(fd, &hdr, ep)) {
        return "a segment cut short";
    }
    return NULL;
}

/* The lock is released at once, because another process may want to reap the segment. */
static bool inspect_is_owned(int fd)
{
    if (flock(fd, LOCK_SH | LOCK_NB) != 0) {
        return true;
    }
    flock(fd, LOCK_UN);
    return false;
}

/* @return false where there is no such file (any more). */
static bool inspect_segment(int dirfd, uint64_t addr, struct glex_inspect_ep *ep)
{
    struct stat st;
    int fd;

    memset(ep, 0, sizeof(*ep));
    ep->addr.v = addr;
    ep->state = GLEX_INSPECT_DAMAGED;
    glex_fabric_name(addr, ep->name);
    if (fstatat(dirfd, ep->name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        return false;
    }
    ep->file_bytes = (uint64_t)st.st_size;
    ep->bytes = (uint64_t)st.st_blocks * 512;
    if (!S_ISREG(st.st_mode)) {
        ep->problem = S_ISLNK(st.st_mode) ? "a symbolic link" : "not a regular file";
        return true;
    }
    fd = openat(dirfd, ep->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) {
        ep->problem = "a file that cannot be read";
        return errno != ENOENT;
    }
    ep->owned = inspect_is_owned(fd);
    ep->problem = inspect_file(fd, &st, ep);
    if (ep->problem == NULL) {
        ep->state = ep->owned ? GLEX_INSPECT_LIVING : GLEX_INSPECT_DEAD;
    }
    close(fd);
    return true;
}

/* ---- the fabric ------------------------------------------------------------------------------ */

/* -1 with errno; ENOENT: the fabric does not exist, so it has no endpoint. */
static int inspect_open(void)
{
    char path[4096];

    glex_fabric_path(path, sizeof(path));
    return open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

void glex_inspect_fabric(struct glex_inspect_fabric *fabric)
{
    struct statvfs fs;
    struct stat st;

    memset(fabric, 0, sizeof(*fabric));
    fabric->name = glex_env()->fabric;
    fabric->shm_dir = glex_env()->shm_dir;
    glex_fabric_path(fabric->path, sizeof(fabric->path));
    fabric->exists = lstat(fabric->path, &st) == 0;
    fabric->space_known = statvfs(fabric->shm_dir, &fs) == 0;
    if (fabric->space_known) {
        fabric->space_free = (uint64_t)fs.f_bavail * fs.f_frsize;
        fabric->space_total = (uint64_t)fs.f_blocks * fs.f_frsize;
    }
}

/* A device without its directory, which opening it would make. */
glex_ret_t glex_inspect_device(uint32_t id, struct glex_device_attr *attr,
                               struct glex_ext_device_attr *ext)
{
    struct glex_nic dev = {.dirfd = -1};
    glex_ret_t ret;
    int fd;

    if (!glex_env()->valid || id >= glex_env()->num_nics) {
        return GLEX_INVALID_PARAM;
    }
    fd = inspect_open();
    if (fd < 0 && errno == ENOENT) {
        /* where it would be made: the id follows from the file system */
        fd = open(glex_env()->shm_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    if (fd < 0) {
        return GLEX_SYS_ERR;
    }
    ret = glex_device_identify(&dev, fd, id);
    close(fd);
    if (ret != GLEX_SUCCESS) {
        return ret;
    }
    *ext = dev.caps;
    return glex_query_device(&dev.device, attr);
}

struct inspect_call {
    bool (*fn)(const struct glex_inspect_ep *ep, void *arg);
    void *arg;
};

static bool inspect_one(int dirfd, uint64_t addr, void *arg)
{
    const struct inspect_call *call = arg;
    struct glex_inspect_ep ep;

    return !inspect_segment(dirfd, addr, &ep) || call->fn(&ep, call->arg);
}

glex_ret_t glex_inspect_endpoints(bool (*fn)(const struct glex_inspect_ep *ep, void *arg),
                                  void *arg)
{
    struct inspect_call call = {fn, arg};
    int dirfd = inspect_open();

    if (dirfd < 0) {
        return errno == ENOENT ? GLEX_SUCCESS : GLEX_SYS_ERR;
    }
    glex_fabric_foreach(dirfd, inspect_one, &call);
    close(dirfd);
    return GLEX_SUCCESS;
}

static const char *inspect_net_state(uint32_t state)
{
    static const char *const names[GLEX_NET_STATES] = {
        [GLEX_NET_CONNECTING] = "connecting",
        [GLEX_NET_UP] = "connected",
        [GLEX_NET_CLOSED] = "closed",
        [GLEX_NET_REFUSED] = "no such endpoint",
        [GLEX_NET_UNREACHABLE] = "host unreachable",
        [GLEX_NET_DENIED] = "key refused",
        [GLEX_NET_SILENT] = "lost: no answer",
    };

    return state < GLEX_NET_STATES ? names[state] : "unknown";
}

static void inspect_peer(const struct glex_net_entry *entry, struct glex_inspect_peer *peer)
{
    *peer = (struct glex_inspect_peer){
        .addr.v = entry->addr,
        .ip = entry->ip,
        .to = inspect_net_state(entry->to),
        .from = inspect_net_state(entry->from),
        .sent = entry->posted,
        .open = entry->posted > entry->ended ? entry->posted - entry->ended : 0,
        .failed = entry->failed,
        .received = entry->received,
    };
}

/* The owner's file may be damaged or replaced. Inconsistent entries are left out. */
static void inspect_peers(int fd, bool (*fn)(const struct glex_inspect_peer *peer, void *arg),
                          void *arg)
{
    struct glex_segment_header hdr;
    struct glex_inspect_peer peer;
    struct glex_net_entry entry;
    uint64_t off;
    uint32_t i;

    if (!inspect_read(fd, &hdr, sizeof(hdr), 0) || hdr.magic != GLEX_SEGMENT_MAGIC ||
        hdr.version != GLEX_SEGMENT_VERSION) {
        return;
    }
    off = glex_net_off(hdr.mpq_capacity, hdr.eq_capacity);
    for (i = 0; i < hdr.num_net && i < GLEX_NET_ENTRIES; i++) {
        if (!inspect_read(fd, &entry, sizeof(entry), off + i * sizeof(entry))) {
            return;
        }
        inspect_peer(&entry, &peer);
        if (!fn(&peer, arg)) {
            return;
        }
    }
}

glex_ret_t glex_inspect_peers(const struct glex_inspect_ep *ep,
                              bool (*fn)(const struct glex_inspect_peer *peer, void *arg),
                              void *arg)
{
    int dirfd = inspect_open(), fd;

    if (dirfd < 0) {
        return GLEX_SYS_ERR;
    }
    fd = openat(dirfd, ep->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    close(dirfd);
    if (fd < 0) {
        return GLEX_SYS_ERR;
    }
    inspect_peers(fd, fn, arg);
    close(fd);
    return GLEX_SUCCESS;
}

/* A segment's name, or that of the socket beside it. */
static bool inspect_is_ours(const char *name)
{
    char stem[GLEX_NAME_LEN];
    size_t len = strlen(name);
    uint64_t addr;

    if (len > 2 && len - 2 < sizeof(stem) && strcmp(name + len - 2, ".s") == 0) {
        memcpy(stem, name, len - 2);
        stem[len - 2] = '\0';
        name = stem;
    }
    return glex_fabric_parse_name(name, &addr);
}

glex_ret_t glex_inspect_others(bool (*fn)(const char *name, void *arg), void *arg)
{
    struct dirent *entry;
    int fd = inspect_open();
    bool go_on = true;
    DIR *dir;

    if (fd < 0) {
        return errno == ENOENT ? GLEX_SUCCESS : GLEX_SYS_ERR;
    }
    dir = fdopendir(fd);
    if (dir == NULL) {
        close(fd);
        return GLEX_NO_MEM_RESOURCE;
    }
    while (go_on && (entry = readdir(dir)) != NULL) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            !inspect_is_ours(entry->d_name)) {
            go_on = fn(entry->d_name, arg);
        }
    }
    closedir(dir);
    return GLEX_SUCCESS;
}

struct inspect_clean {
    void (*fn)(const struct glex_inspect_ep *ep, bool removed, void *arg);
    void *arg;
};

static bool inspect_clean_one(int dirfd, uint64_t addr, void *arg)
{
    const struct inspect_clean *clean = arg;
    struct glex_inspect_ep ep;
    bool removed;

    if (inspect_segment(dirfd, addr, &ep) && !ep.owned) {
        removed = glex_segment_reap(dirfd, addr);
        if (clean->fn != NULL) {
            clean->fn(&ep, removed, clean->arg);
        }
    }
    return true;
}

glex_ret_t glex_inspect_clean(void (*fn)(const struct glex_inspect_ep *ep, bool removed, void *arg),
                              void *arg)
{
    struct inspect_clean clean = {fn, arg};
    int dirfd = inspect_open();

    if (dirfd < 0) {
        return errno == ENOENT ? GLEX_SUCCESS : GLEX_SYS_ERR;
    }
    glex_fabric_foreach(dirfd, inspect_clean_one, &clean);
    glex_fabric_close(dirfd);
    return GLEX_SUCCESS;
}

const char *glex_inspect_counter(const struct glex_ext_counters *counters, uint32_t index,
                                 uint64_t *value_p)
{
    if (index >= GLEX_NUM_COUNTERS) {
        return NULL;
    }
    *value_p = glex_counter_value(counters, index);
    return glex_counter_fields[index].name;
}

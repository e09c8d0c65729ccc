#include "shm/segment.h"
#include "base/fabric.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/vfs.h>
#include <unistd.h>

/* How often, a millisecond apart, a lock that a checker holds for a moment is tried again. */
#define SEGMENT_LOCK_TRIES 5

#define SEGMENT_NUMS     (UINT16_MAX + 1u)
#define SEGMENT_LOW_NUMS 256u

static bool is_power_of_two(uint32_t x)
{
    return x != 0 && (x & (x - 1)) == 0;
}

struct segment_part {
    uint64_t off;
    uint64_t len;
};

enum { SEGMENT_PARTS = 3 };

/* Parts with storage from the start: header and MPQ, EQ, and the first step of the table. */
static uint64_t segment_reserved(const struct glex_segment_header *hdr,
                                 struct segment_part parts[SEGMENT_PARTS])
{
    uint32_t mpq = hdr->mpq_capacity, eq = hdr->eq_capacity, i;
    uint64_t len = 0;

    parts[0] = (struct segment_part){0, GLEX_MPQ_OFF + glex_ring_first_size(mpq)};
    parts[1] = (struct segment_part){glex_eq_off(mpq), glex_ring_first_size(eq)};
    parts[2] = (struct segment_part){glex_mmt_off(mpq, eq), GLEX_MMT_STEP_SIZE};
    for (i = 0; i < SEGMENT_PARTS; i++) {
        len += parts[i].len;
    }
    return len;
}

bool glex_segment_header_is_valid(const struct glex_segment_header *hdr, uint64_t addr,
                                  const struct stat *st)
{
    struct segment_part parts[SEGMENT_PARTS];

    return hdr->magic == GLEX_SEGMENT_MAGIC && hdr->version == GLEX_SEGMENT_VERSION &&
           hdr->addr == addr && hdr->incarnation != 0 && is_power_of_two(hdr->mpq_capacity) &&
           hdr->mpq_capacity <= GLEX_MAX_QUEUE_CAPACITY && is_power_of_two(hdr->eq_capacity) &&
           hdr->eq_capacity <= GLEX_MAX_QUEUE_CAPACITY &&
           hdr->base_size == glex_base_size(hdr->mpq_capacity, hdr->eq_capacity) &&
           (uint64_t)st->st_size >= hdr->base_size &&
           (uint64_t)st->st_blocks * 512 >= segment_reserved(hdr, parts);
}

/* Opens by name; errno is ENOENT if the file is missing, EINVAL if it is not a regular file. */
static int segment_open_file(int dirfd, const char *name, struct stat *st)
{
    int fd = openat(dirfd, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

    if (fd < 0) {
        return -1;
    }
    if (fstat(fd, st) != 0 || !S_ISREG(st->st_mode)) {
        close(fd);
        errno = EINVAL;
        return -1;
    }
    return fd;
}

static bool segment_has_name(int dirfd, const char *name, dev_t dev, ino_t ino)
{
    struct stat st;

    return fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_dev == dev &&
           st.st_ino == ino;
}

static void segment_unlink_names(int dirfd, const char *name)
{
    char sock[GLEX_NAME_LEN + 2];

    snprintf(sock, sizeof(sock), "%s.s", name);
    (void)unlinkat(dirfd, sock, 0);
    (void)unlinkat(dirfd, name, 0);
}

/*
 * Tells all processes with a mapping that the segment has ended: rings refuse, registrations are
 * invalid. Release: a peer that sees this also sees all earlier stores of the owner.
 */
static void segment_stop(struct glex_segment_header *base, uint32_t mpq_capacity,
                         uint32_t eq_capacity, uint64_t mmt_ready)
{
    struct glex_mmt_entry *mmt = glex_segment_mmt(base, mpq_capacity, eq_capacity);
    uint64_t i;

    __atomic_fetch_or(&glex_segment_mpq(base)->tail, GLEX_TAIL_CLOSED, __ATOMIC_RELEASE);
    __atomic_fetch_or(&glex_segment_eq(base, mpq_capacity)->tail, GLEX_TAIL_CLOSED,
                      __ATOMIC_RELEASE);
    for (i = 0; i < mmt_ready && i < GLEX_MMT_CAPACITY; i++) {
        if (__atomic_load_n(&mmt[i].state, __ATOMIC_RELAXED) & GLEX_MMT_VALID) {
            __atomic_fetch_and(&mmt[i].state, ~(uint64_t)GLEX_MMT_VALID, __ATOMIC_RELEASE);
        }
    }
}

/* ---- making ---------------------------------------------------------------------------------- */

/* In steps, each of which is over before the next signal of a program that has many. */
#define SEGMENT_RESERVE_STEP (16ull << 20)

int glex_segment_reserve(int fd, uint64_t size, uint64_t off, uint64_t len)
{
    struct rlimit limit;
    struct stat st;
    uint64_t step;
    int err;

    /* The kernel would send SIGXFSZ, which ends a program that does not expect it. */
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && size > limit.rlim_cur) {
        return EFBIG;
    }
    if (fstat(fd, &st) != 0 || ((uint64_t)st.st_size < size && ftruncate(fd, (off_t)size) != 0)) {
        return errno;
    }
    for (; len > 0; off += step, len -= step) {
        step = len < SEGMENT_RESERVE_STEP ? len : SEGMENT_RESERVE_STEP;
        do {
            err = posix_fallocate(fd, (off_t)off, (off_t)step);
        } while (err == EINTR);
        if (err != 0) {
            return err;
        }
    }
    return 0;
}

const char *glex_segment_reserve_advice(int err)
{
    return err == EFBIG ? "raise the limit of file sizes (ulimit -f)" :
                          "free or enlarge that file system (containers: --shm-size), use smaller "
                          "queues, or set GLEX_SHM_DIR";
}

static glex_ret_t segment_reserve(int fd, const struct glex_segment_header *hdr)
{
    struct segment_part parts[SEGMENT_PARTS];
    uint64_t len = segment_reserved(hdr, parts);
    char path[PATH_MAX];
    int err = 0, i;

    for (i = 0; err == 0 && i < SEGMENT_PARTS; i++) {
        err = glex_segment_reserve(fd, hdr->base_size, parts[i].off, parts[i].len);
    }
    if (err == 0) {
        return GLEX_SUCCESS;
    }

    glex_fabric_path(path, sizeof(path));
    glex_error("cannot reserve %llu KiB for an endpoint in %s: %s; %s",
               (unsigned long long)len / 1024, path, strerror(err),
               glex_segment_reserve_advice(err));
    errno = err;
    return GLEX_NO_MEM_RESOURCE;
}

static uint64_t random_nonzero(void)
{
    uint64_t value = 0;

    while (value == 0) {
        if (getrandom(&value, sizeof(value), 0) != sizeof(value)) {
            value = glex_now_ns() ^ (uint64_t)getpid() << 40;
        }
    }
    return value;
}

static uint32_t segment_lacking(uint32_t capacity)
{
    return capacity < GLEX_QUEUE_STEP ? 0 : capacity - GLEX_QUEUE_STEP;
}

static void segment_init(struct glex_segment_header *base, const struct glex_segment_header *hdr)
{
    *base = *hdr;
    base->magic = GLEX_SEGMENT_MAGIC;
    base->version = GLEX_SEGMENT_VERSION;
    base->incarnation = base->receiver = random_nonzero();
    base->mmt_ready = GLEX_MMT_STEP;
    base->intent.pos = GLEX_INTENT_NONE;
    glex_segment_mpq(base)->lacking = segment_lacking(hdr->mpq_capacity);
    glex_segment_eq(base, hdr->mpq_capacity)->lacking = segment_lacking(hdr->eq_capacity);
}

/* Give the unnamed file its name. */
static int segment_link(int dirfd, int fd, const char *name)
{
    char path[32];

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return linkat(AT_FDCWD, path, dirfd, name, AT_SYMLINK_FOLLOW);
}

static glex_ret_t segment_link_number(int dirfd, int fd, struct glex_segment_header *base,
                                      uint32_t num)
{
    glex_ep_addr_t addr = {.v = base->addr};
    char name[GLEX_NAME_LEN];

    addr.ep_num = (uint16_t)num;
    base->addr = addr.v;
    glex_fabric_name(addr.v, name);
    do {
        if (segment_link(dirfd, fd, name) == 0) {
            return GLEX_SUCCESS;
        }
        if (errno != EEXIST) {
            return GLEX_SYS_ERR;
        }
    } while (glex_segment_reap(dirfd, addr.v));
    return GLEX_NO_EP_RESOURCE;
}

/* Tries again for some milliseconds: while another process reaps a dead owner's segment, the
 * segment looks like a living owner's. */
static glex_ret_t segment_link_explicit(int dirfd, int fd, struct glex_segment_header *base,
                                        uint32_t num)
{
    glex_ret_t ret = GLEX_NO_EP_RESOURCE;
    int tries;

    for (tries = 0; tries < SEGMENT_LOCK_TRIES && ret == GLEX_NO_EP_RESOURCE; tries++) {
        if (tries > 0) {
            usleep(1000);
        }
        ret = segment_link_number(dirfd, fd, base, num);
    }
    return ret;
}

/*
 * Selects the lowest free number, because public programs pack the number into the few bits above a
 * NIC id. If the first numbers are taken, the search begins at a random number, so the ten
 * thousandth endpoint does not try all numbers.
 */
static glex_ret_t segment_link_any(int dirfd, int fd, struct glex_segment_header *base)
{
    uint32_t start = SEGMENT_LOW_NUMS, i;
    glex_ret_t ret = GLEX_NO_EP_RESOURCE;

    for (i = 0; i < SEGMENT_LOW_NUMS && ret == GLEX_NO_EP_RESOURCE; i++) {
        ret = segment_link_number(dirfd, fd, base, i);
    }
    if (ret == GLEX_NO_EP_RESOURCE) {
        start = (uint32_t)random_nonzero();
    }
    for (i = 0; i < SEGMENT_NUMS && ret == GLEX_NO_EP_RESOURCE; i++) {
        ret = segment_link_number(dirfd, fd, base, (start + i) % SEGMENT_NUMS);
    }
    return ret;
}

/* Everything but the name. */
static glex_ret_t segment_prepare(int fd, const struct glex_segment_header *hdr,
                                  struct glex_segment *seg)
{
    struct stat st;
    glex_ret_t ret;

    /* Before the file has a name, so no process ever sees it without an owner. */
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 || fstat(fd, &st) != 0) {
        glex_error("cannot lock a new segment: %s", strerror(errno));
        return GLEX_SYS_ERR;
    }
    ret = segment_reserve(fd, hdr);
    if (ret != GLEX_SUCCESS) {
        return ret;
    }

    seg->hdr = mmap(NULL, hdr->base_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (seg->hdr == MAP_FAILED) {
        glex_error("cannot map a segment of %llu KiB: %s",
                   (unsigned long long)hdr->base_size / 1024, strerror(errno));
        return GLEX_NO_MEM_RESOURCE;
    }
    if (madvise(seg->hdr, hdr->base_size, MADV_DONTFORK) != 0) {
        glex_error("cannot keep a segment from being inherited: %s", strerror(errno));
        munmap(seg->hdr, hdr->base_size);
        return GLEX_SYS_ERR;
    }
    segment_init(seg->hdr, hdr);
    seg->base_size = hdr->base_size;
    seg->incarnation = seg->hdr->incarnation;
    seg->mpq_capacity = hdr->mpq_capacity;
    seg->eq_capacity = hdr->eq_capacity;
    seg->mmt_ready = seg->hdr->mmt_ready;
    seg->dev = st.st_dev;
    seg->ino = st.st_ino;
    return GLEX_SUCCESS;
}

/* If the directory was removed, the caller makes it again and tries again. */
static void segment_log_failure(int dirfd, const char *what)
{
    int err = errno;

    if (err != ENOENT || !glex_fabric_is_stale(dirfd)) {
        glex_error("%s: %s", what, strerror(err));
    }
    errno = err;
}

/*
 * The lock lives as long as the file is open or mapped, so the descriptor can be closed. On
 * overlayfs the mapped file differs from the opened and locked file, so the descriptor must stay
 * open.
 */
static int segment_keep_lock(int fd)
{
    struct statfs fs;

    if (fstatfs(fd, &fs) == 0 && fs.f_type == OVERLAYFS_SUPER_MAGIC) {
        return fd;
    }
    close(fd);
    return -1;
}

glex_ret_t glex_segment_create(int dirfd, const struct glex_segment_header *hdr, uint32_t num,
                               struct glex_segment *seg)
{
    glex_ret_t ret;
    int fd, err;

    fd = openat(dirfd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0) {
        segment_log_failure(dirfd,
                            "cannot make a file on the fabric; GLEX_SHM_DIR must be a tmpfs or "
                            "another file system with O_TMPFILE");
        return GLEX_SYS_ERR;
    }

    ret = segment_prepare(fd, hdr, seg);
    if (ret != GLEX_SUCCESS) {
        goto out;
    }
    if (num == GLEX_ANY_EP_NUM) {
        ret = segment_link_any(dirfd, fd, seg->hdr);
    } else {
        ret = segment_link_explicit(dirfd, fd, seg->hdr, num);
    }
    if (ret != GLEX_SUCCESS) {
        if (ret == GLEX_SYS_ERR) {
            segment_log_failure(dirfd, "cannot name a segment (is /proc mounted?)");
        }
        err = errno;
        munmap(seg->hdr, seg->base_size);
        errno = err;
        goto out;
    }
    seg->addr = seg->hdr->addr;
    seg->lock_fd = segment_keep_lock(fd);
    return GLEX_SUCCESS;

out:
    close(fd);
    return ret;
}

void glex_segment_retire(int dirfd, const struct glex_segment *seg, enum glex_left how)
{
    char name[GLEX_NAME_LEN];

    /* relaxed: segment_stop() releases the word */
    __atomic_store_n(&seg->hdr->left, how, __ATOMIC_RELAXED);
    segment_stop(seg->hdr, seg->mpq_capacity, seg->eq_capacity, seg->mmt_ready);
    /* A user may have removed the file by hand, and another endpoint may have the name now. */
    glex_fabric_name(seg->addr, name);
    if (segment_has_name(dirfd, name, seg->dev, seg->ino)) {
        segment_unlink_names(dirfd, name);
    }
}

static void segment_unlock(struct glex_segment *seg)
{
    if (seg->lock_fd >= 0) {
        close(seg->lock_fd);
        seg->lock_fd = -1;
    }
}

void glex_segment_destroy(int dirfd, struct glex_segment *seg)
{
    glex_segment_retire(dirfd, seg, GLEX_LEFT_CLOSED);
    munmap(seg->hdr, seg->base_size);
    seg->hdr = NULL;
    segment_unlock(seg);
}

bool glex_segment_blank(void *addr, uint64_t size)
{
    return mmap(addr, size, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
}

void glex_segment_fork(struct glex_segment *seg)
{
    segment_unlock(seg);
    (void)glex_segment_blank(seg->hdr, seg->base_size);
}

int glex_segment_reopen(int dirfd, const struct glex_segment *seg)
{
    char name[GLEX_NAME_LEN];
    struct stat st;
    int fd;

    glex_fabric_name(seg->addr, name);
    fd = segment_open_file(dirfd, name, &st);
    if (fd >= 0 && (st.st_dev != seg->dev || st.st_ino != seg->ino)) {
        close(fd);
        errno = ENOENT;
        fd = -1;
    }
    return fd;
}

/* ---- looking at others ----------------------------------------------------------------------- */

/* Give a checker's lock back explicitly: a child forked at this moment has the open file, too. */
static void segment_close(int fd)
{
    (void)flock(fd, LOCK_UN);
    close(fd);
}

static enum glex_segment_state segment_open_failure(int err)
{
    switch (err) {
    case ENOENT:
        return GLEX_SEGMENT_GONE;
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case EINTR:
    case EACCES:
    case EPERM:
        return GLEX_SEGMENT_UNKNOWN;
    default:
        return GLEX_SEGMENT_BAD;
    }
}

static bool segment_read_header(int fd, uint64_t addr, const struct stat *st,
                                struct glex_segment_header *hdr)
{
    return pread(fd, hdr, sizeof(*hdr), 0) == sizeof(*hdr) &&
           glex_segment_header_is_valid(hdr, addr, st);
}

enum glex_segment_state glex_segment_open(int dirfd, uint64_t addr, struct glex_segment_header *hdr,
                                          int *fd_p)
{
    char name[GLEX_NAME_LEN];
    struct stat st;
    int fd;

    hdr->pid = 0;
    glex_fabric_name(addr, name);
    fd = segment_open_file(dirfd, name, &st);
    if (fd < 0) {
        return segment_open_failure(errno);
    }
    if (flock(fd, LOCK_SH | LOCK_NB) == 0) {
        if (!segment_read_header(fd, addr, &st, hdr)) {
            hdr->pid = 0;
        }
        segment_close(fd);
        return GLEX_SEGMENT_GONE;
    }
    if (!segment_read_header(fd, addr, &st, hdr)) {
        close(fd);
        return GLEX_SEGMENT_BAD;
    }
    *fd_p = fd;
    return GLEX_SEGMENT_LIVING;
}

bool glex_segment_is_living(int dirfd, uint64_t addr, uint64_t incarnation)
{
    struct glex_segment_header hdr;
    enum glex_segment_state state;
    int fd;

    state = glex_segment_open(dirfd, addr, &hdr, &fd);
    if (state != GLEX_SEGMENT_LIVING) {
        return state == GLEX_SEGMENT_UNKNOWN; /* until the contrary is seen */
    }
    close(fd);
    return hdr.incarnation == incarnation;
}

bool glex_segment_is_dead(int dirfd, uint64_t addr, uint64_t incarnation)
{
    struct glex_segment_header hdr;
    char name[GLEX_NAME_LEN];
    struct stat st;
    bool dead;
    int fd;

    glex_fabric_name(addr, name);
    fd = segment_open_file(dirfd, name, &st);
    if (fd < 0) {
        return false;
    }
    dead = pread(fd, &hdr, sizeof(hdr), 0) == sizeof(hdr) && hdr.incarnation == incarnation &&
           flock(fd, LOCK_SH | LOCK_NB) == 0;
    segment_close(fd);
    return dead;
}

static bool segment_is_not(int dirfd, uint64_t addr, void *arg)
{
    return !glex_segment_is_living(dirfd, addr, *(uint64_t *)arg);
}

bool glex_segment_is_living_anywhere(int dirfd, uint64_t incarnation)
{
    return !glex_fabric_foreach(dirfd, segment_is_not, &incarnation);
}

struct segment_intent {
    struct glex_intent intent;
    uint64_t self; /* whose ring it is */
};

static bool segment_intends_not(int dirfd, uint64_t addr, void *arg)
{
    const struct segment_intent *asked = arg;
    struct glex_segment_header hdr;
    enum glex_segment_state state;
    int fd;

    if (addr == asked->self) {
        return true;
    }
    state = glex_segment_open(dirfd, addr, &hdr, &fd);
    if (state != GLEX_SEGMENT_LIVING) {
        return state != GLEX_SEGMENT_UNKNOWN; /* a process that cannot be checked may still
                                               * publish */
    }
    close(fd);
    return hdr.intent.ring != asked->intent.ring || hdr.intent.pos != asked->intent.pos;
}

bool glex_segment_is_intended(int dirfd, const struct glex_segment *seg, uint64_t ring,
                              uint64_t pos)
{
    struct segment_intent asked = {.intent = {.ring = ring, .pos = pos}, .self = seg->addr};
    bool intended = !glex_fabric_foreach(dirfd, segment_intends_not, &asked);

    /* The kernel loaded the headers when it copied them. The fence makes these loads acquire. */
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return intended;
}

/* ---- reaping --------------------------------------------------------------------------------- */

/* Set and clear bits of a word of a file that is not mapped: its pages may not be there. */
static void segment_change_word(int fd, uint64_t off, uint64_t clear, uint64_t set)
{
    uint64_t word, changed;

    if (pread(fd, &word, sizeof(word), (off_t)off) == sizeof(word)) {
        changed = (word & ~clear) | set;
        if (changed != word) {
            (void)!pwrite(fd, &changed, sizeof(changed), (off_t)off);
        }
    }
}

/*
 * segment_stop() for a dead owner. Uses no mapping: a forged or damaged header may name places
 * without storage, and a store there raises SIGBUS on a full file system. The function may
 * overwrite a position that a post claims meanwhile, which no process would have received.
 */
static void segment_stop_dead(int fd, uint64_t addr, const struct stat *st)
{
    struct glex_mmt_entry step[GLEX_MMT_STEP];
    struct glex_segment_header hdr;
    uint64_t off, i, j;

    if (pread(fd, &hdr, sizeof(hdr), 0) != sizeof(hdr) ||
        !glex_segment_header_is_valid(&hdr, addr, st)) {
        return;
    }
    segment_change_word(fd, GLEX_MPQ_OFF + offsetof(struct glex_ring_ctl, tail), 0,
                        GLEX_TAIL_CLOSED);
    segment_change_word(fd, glex_eq_off(hdr.mpq_capacity) + offsetof(struct glex_ring_ctl, tail), 0,
                        GLEX_TAIL_CLOSED);
    off = glex_mmt_off(hdr.mpq_capacity, hdr.eq_capacity);
    for (i = 0; i < hdr.mmt_ready && i < GLEX_MMT_CAPACITY; i += GLEX_MMT_STEP) {
        if (pread(fd, step, sizeof(step), (off_t)(off + i * sizeof(step[0]))) != sizeof(step)) {
            return;
        }
        for (j = 0; j < GLEX_MMT_STEP; j++) {
            if (step[j].state & GLEX_MMT_VALID) {
                segment_change_word(fd, off + (i + j) * sizeof(step[0]), GLEX_MMT_VALID, 0);
            }
        }
    }
}

bool glex_segment_reap(int dirfd, uint64_t addr)
{
    char name[GLEX_NAME_LEN];
    bool locked = false;
    struct stat st;
    int fd, tries;

    glex_fabric_name(addr, name);
    fd = segment_open_file(dirfd, name, &st);
    if (fd < 0) {
        return errno == ENOENT;
    }

    /*
     * A successful shared lock means that the segment has no owner, and only other checkers hold
     * locks.
     */
    for (tries = 0; tries < SEGMENT_LOCK_TRIES && !locked; tries++) {
        locked = flock(fd, LOCK_EX | LOCK_NB) == 0;
        if (!locked) {
            if (flock(fd, LOCK_SH | LOCK_NB) != 0) {
                break;
            }
            flock(fd, LOCK_UN);
            usleep(1000);
        }
    }

    /*
     * Only the holder of this lock removes the name. So between the check and the removal no other
     * reaper can remove it, and no new segment can get the name.
     */
    if (locked && segment_has_name(dirfd, name, st.st_dev, st.st_ino)) {
        segment_stop_dead(fd, addr, &st);
        segment_unlink_names(dirfd, name);
    }
    segment_close(fd);
    return locked;
}

static bool segment_reap_one(int dirfd, uint64_t addr, void *arg)
{
    *(uint32_t *)arg += glex_segment_reap(dirfd, addr);
    return true;
}

uint32_t glex_segment_reap_all(int dirfd)
{
    uint32_t count = 0;

    glex_fabric_foreach(dirfd, segment_reap_one, &count);
    return count;
}

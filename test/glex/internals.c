#include "internals.h"

#include "core/endpoint.h"
#include "core/help.h"
#include "base/fabric.h"
#include "core/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static unsigned lock_queries;

/* In the place of the C library's, for the library too, which is linked into the test */
int flock(int fd, int operation)
{
    if (operation == (LOCK_SH | LOCK_NB)) {
        __atomic_fetch_add(&lock_queries, 1, __ATOMIC_RELAXED); /* a number for the waiting test */
    }
    return (int)syscall(SYS_flock, fd, operation);
}

unsigned internals_lock_queries(void)
{
    return __atomic_load_n(&lock_queries, __ATOMIC_RELAXED);
}

static unsigned ptracer_calls;

/* Likewise */
int prctl(int option, ...)
{
    unsigned long arg[4];
    va_list ap;
    int i;

    va_start(ap, option);
    for (i = 0; i < 4; i++) {
        arg[i] = va_arg(ap, unsigned long);
    }
    va_end(ap);
    ptracer_calls += option == PR_SET_PTRACER;
    return (int)syscall(SYS_prctl, option, arg[0], arg[1], arg[2], arg[3]);
}

unsigned internals_ptracer_calls(void)
{
    return ptracer_calls;
}

static void (*store_hook)(void), (*fetch_hook)(void);
static unsigned fetches, fetched_pieces;

/* Likewise */
ssize_t process_vm_writev(pid_t pid, const struct iovec *local, unsigned long num_local,
                          const struct iovec *remote, unsigned long num_remote, unsigned long flags)
{
    void (*hook)(void) = __atomic_load_n(&store_hook, __ATOMIC_ACQUIRE);

    if (hook != NULL) {
        hook();
    }
    return syscall(SYS_process_vm_writev, pid, local, num_local, remote, num_remote, flags);
}

/* Likewise */
ssize_t process_vm_readv(pid_t pid, const struct iovec *local, unsigned long num_local,
                         const struct iovec *remote, unsigned long num_remote, unsigned long flags)
{
    void (*hook)(void) = __atomic_load_n(&fetch_hook, __ATOMIC_ACQUIRE);

    if (hook != NULL) {
        hook();
    }
    __atomic_fetch_add(&fetches, 1, __ATOMIC_RELAXED); /* numbers for the test */
    __atomic_fetch_add(&fetched_pieces, (unsigned)num_remote, __ATOMIC_RELAXED);
    return syscall(SYS_process_vm_readv, pid, local, num_local, remote, num_remote, flags);
}

void internals_on_storing(void (*hook)(void))
{
    __atomic_store_n(&store_hook, hook, __ATOMIC_RELEASE);
}

void internals_on_fetching(void (*hook)(void))
{
    __atomic_store_n(&fetch_hook, hook, __ATOMIC_RELEASE);
}

unsigned internals_fetched_pieces(void)
{
    return __atomic_load_n(&fetched_pieces, __ATOMIC_RELAXED);
}

unsigned internals_fetches(void)
{
    return __atomic_load_n(&fetches, __ATOMIC_RELAXED);
}

static unsigned interruptions;

/* Likewise */
int posix_fallocate(int fd, off_t off, off_t len)
{
    if (interruptions > 0) {
        interruptions--;
        return EINTR;
    }
    return syscall(SYS_fallocate, fd, 0, off, len) == 0 ? 0 : errno;
}

unsigned internals_interrupt_reservations(unsigned num)
{
    unsigned left = interruptions;

    interruptions = num;
    return left;
}

static void (*naming_hook)(void);

/* Likewise */
int linkat(int from_dir, const char *from, int to_dir, const char *to, int flags)
{
    int ret = (int)syscall(SYS_linkat, from_dir, from, to_dir, to, flags);

    if (naming_hook != NULL) {
        naming_hook();
    }
    return ret;
}

void internals_on_naming(void (*hook)(void))
{
    naming_hook = hook;
}

static void (*directory_hook)(void);

/* Likewise */
int mkdirat(int dir, const char *path, mode_t mode)
{
    if (directory_hook != NULL) {
        directory_hook();
    }
    return (int)syscall(SYS_mkdirat, dir, path, mode);
}

void internals_on_making_directory(void (*hook)(void))
{
    directory_hook = hook;
}

static bool privileged;

/* Likewise */
char *secure_getenv(const char *name)
{
    return privileged ? NULL : getenv(name);
}

void internals_be_privileged(void)
{
    privileged = true;
}

static void move_ring(struct glex_ring_rx *rx, uint64_t position)
{
    rx->head = rx->cursor = rx->seen = position;
    rx->ctl->head = position;
    rx->ctl->tail = position;
}

void internals_move_rings(glex_ep_handle_t handle, uint64_t position)
{
    move_ring(&glex_endpoint(handle)->mpq, position);
    move_ring(&glex_endpoint(handle)->eq, position);
}

void internals_fabric_path(char *path, size_t size)
{
    glex_fabric_path(path, size);
}

void internals_segment_path(uint64_t addr, char *path, size_t size)
{
    char name[GLEX_NAME_LEN];
    size_t len;

    glex_fabric_path(path, size);
    glex_fabric_name(addr, name);
    len = strlen(path);
    snprintf(path + len, size - len, "/%s", name);
}

uint64_t internals_segment_storage(uint64_t addr)
{
    char path[512];
    struct stat st;

    internals_segment_path(addr, path, sizeof(path));
    if (stat(path, &st) != 0) {
        abort();
    }
    return (uint64_t)st.st_blocks * 512;
}

void internals_damage(const char *path, enum internals_field what, uint64_t value)
{
#define FIELD(name)                                                                                \
    {offsetof(struct glex_segment_header, name), sizeof(((struct glex_segment_header *)0)->name)}
    static const struct {
        size_t off, size;
    } fields[] = {
        [INTERNALS_MAGIC] = FIELD(magic),
        [INTERNALS_VERSION] = FIELD(version),
        [INTERNALS_BASE_SIZE] = FIELD(base_size),
        [INTERNALS_ADDR] = FIELD(addr),
        [INTERNALS_INCARNATION] = FIELD(incarnation),
        [INTERNALS_MPQ_CAPACITY] = FIELD(mpq_capacity),
        [INTERNALS_EQ_CAPACITY] = FIELD(eq_capacity),
        [INTERNALS_PID] = FIELD(pid),
        [INTERNALS_MMT_READY] = FIELD(mmt_ready),
    };
#undef FIELD
    int fd = open(path, O_RDWR);

    if (fd < 0 || pwrite(fd, &value, fields[what].size, (off_t)fields[what].off) < 0) {
        abort();
    }
    close(fd);
}

uint64_t *internals_cookie(glex_ep_handle_t handle)
{
    return (uint64_t *)(uintptr_t)glex_endpoint(handle)->segment.hdr->cookie_addr;
}

int internals_robust_fd(glex_ep_handle_t handle)
{
    const struct glex_segment_header *hdr = glex_endpoint(handle)->segment.hdr;

    return hdr->robust_id == 0 ? -1 : (int)hdr->robust_fd;
}

uint64_t internals_robust_id(glex_ep_handle_t handle)
{
    return glex_endpoint(handle)->segment.hdr->robust_id;
}

static uint64_t file_offset(const struct glex_endpoint *ep, const void *p)
{
    return (uint64_t)((const char *)p - (const char *)ep->segment.hdr);
}

uint64_t internals_slot_offset(glex_ep_handle_t handle, int which, uint64_t position)
{
    struct glex_endpoint *ep = glex_endpoint(handle);
    struct glex_ring_rx *rx = which == GLEX_RING_MPQ ? &ep->mpq : &ep->eq;

    return file_offset(ep, rx->slots + ((position & rx->mask) << GLEX_SLOT_SHIFT));
}

uint64_t internals_mmt_offset(glex_ep_handle_t handle, uint32_t index)
{
    return file_offset(glex_endpoint(handle), &glex_endpoint(handle)->mem.mmt[index]);
}

void internals_age_registration(glex_ep_handle_t handle, uint32_t index, uint32_t times)
{
    glex_endpoint(handle)->mem.table[index].state += (uint64_t)times << 32;
}

uint64_t internals_claimed(glex_ep_handle_t handle, int which)
{
    const struct glex_endpoint *ep = glex_endpoint(handle);

    return glex_ring_arrived(which == GLEX_RING_MPQ ? &ep->mpq :
                             which == GLEX_RING_EQ  ? &ep->eq :
                                                      &ep->coll.cpq);
}

void internals_claim_twice(glex_ep_handle_t handle, glex_ep_addr_t addr)
{
    struct glex_endpoint *ep = glex_endpoint(handle);
    struct glex_peer *peer;
    uint64_t tail;
    int status;

    peer = glex_endpoint_peer(ep, addr.v, &status);
    (void)glex_shm_claim(ep, peer, &peer->mpq, &tail);
    (void)glex_shm_claim(ep, peer, &peer->eq, &tail);
}

void internals_claim_only(glex_ep_handle_t handle, glex_ep_addr_t addr, int which)
{
    struct glex_endpoint *ep = glex_endpoint(handle);
    struct glex_peer *peer;
    uint64_t tail;
    int status;

    peer = glex_endpoint_peer(ep, addr.v, &status);
    if (peer == NULL || glex_shm_claim(ep, peer, which == GLEX_RING_MPQ ? &peer->mpq : &peer->eq,
                                       &tail) != GLEX_RING_OK) {
        abort();
    }
#ifdef OPENGLEX_DEBUG
    glex_ring_unpublished = NULL; /* this process goes on as another producer */
#endif
}

void internals_post_without_waking(glex_ep_handle_t handle, glex_ep_addr_t addr)
{
    struct glex_endpoint *ep = glex_endpoint(handle);
    struct glex_peer *peer;
    uint64_t tail;
    int status;

    peer = glex_endpoint_peer(ep, addr.v, &status);
    if (peer == NULL || glex_shm_claim(ep, peer, &peer->mpq, &tail) != GLEX_RING_OK) {
        abort();
    }
    glex_shm_fill_mp(glex_ring_tx_slot(&peer->mpq, tail), tail, ep->addr, NULL, 0);
}

bool internals_is_armed(glex_ep_handle_t handle)
{
    return __atomic_load_n(&glex_endpoint(handle)->mpq.ctl->tail, __ATOMIC_RELAXED) &
           GLEX_TAIL_ARMED;
}

bool internals_can_claim(glex_ep_handle_t handle, glex_ep_addr_t addr, uint64_t tail)
{
    struct glex_peer *peer;
    int status;

    peer = glex_endpoint_peer(glex_endpoint(handle), addr.v, &status);
    return peer != NULL && glex_ring_claim_slow(&peer->mpq, tail) == GLEX_RING_OK;
}

void *internals_coll_area(glex_ep_handle_t handle, size_t *size)
{
    *size = GLEX_COLL_SIZE;
    return glex_endpoint(handle)->coll.area;
}

void internals_coll_offer(void *area, unsigned index)
{
    struct glex_coll *coll = area;

    coll->agent = 0;
    coll->next = index;
    glex_coll_desc(coll, index)->ctrl = index + 1;
}

bool internals_has_lock(glex_ep_handle_t handle)
{
    return glex_endpoint(handle)->threads.on;
}

void internals_help_job(glex_ep_handle_t ep, glex_ep_handle_t helper,
                        const struct internals_job *job)
{
    struct glex_segment_header *hdr = glex_endpoint(ep)->segment.hdr;

    hdr->job.owner = glex_endpoint(helper)->segment.incarnation + job->for_another;
    hdr->job.type = job->type;
    hdr->job.mh = job->mh;
    hdr->job.offset = job->offset;
    hdr->job.addr = job->addr;
    hdr->job.len = job->len;
    hdr->job.report = GLEX_CLAIM(job->number, 0);
    hdr->job.claim = GLEX_CLAIM(job->number + job->late, job->next);
    glex_endpoint(helper)->segment.hdr->asker = hdr->addr | GLEX_ASKER;
}

unsigned internals_help_reported(glex_ep_handle_t ep, bool *failed)
{
    uint64_t report = glex_endpoint(ep)->segment.hdr->job.report;

    *failed = report & GLEX_REPORT_FAILED;
    return (unsigned)(report & GLEX_REPORT_COUNT_MASK);
}

bool internals_help_asked(glex_ep_handle_t helper)
{
    return glex_endpoint(helper)->segment.hdr->asker != 0;
}

static struct glex_job *asked_job;

int internals_help_claim(glex_ep_handle_t helper, unsigned *num_p)
{
    struct glex_endpoint *ep = glex_endpoint(helper);
    uint64_t asker = __atomic_load_n(&ep->segment.hdr->asker, __ATOMIC_ACQUIRE), claim;
    struct glex_peer *peer;
    uint32_t first;
    int status;

    peer = asker == 0 ? NULL : glex_endpoint_peer(ep, asker & ~GLEX_ASKER, &status);
    if (peer == NULL) {
        return -1;
    }
    asked_job = &peer->base->job;
    claim = __atomic_load_n(&asked_job->claim, __ATOMIC_ACQUIRE);
    first = (uint32_t)(claim & GLEX_CLAIM_PLACE_MASK);
    if ((uint64_t)first * INTERNALS_GRANULE >= asked_job->len) {
        return -1;
    }
    *num_p = glex_help_piece(asked_job->len, first);
    if ((uint64_t)(first + *num_p) * INTERNALS_GRANULE > asked_job->len ||
        !__atomic_compare_exchange_n(&asked_job->claim, &claim, claim + *num_p, false,
                                     __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
        return -1;
    }
    return (int)first;
}

void internals_help_report(glex_ep_handle_t helper, unsigned num, bool failed)
{
    (void)helper;
    __atomic_fetch_add(&asked_job->report, failed ? GLEX_REPORT_FAILED : num, __ATOMIC_RELEASE);
}

void internals_help_forget(glex_ep_handle_t ep, uint64_t peer_addr)
{
    int status;
    struct glex_peer *peer = glex_endpoint_peer(glex_endpoint(ep), peer_addr, &status);

    if (peer != NULL) {
        peer->help_skip = peer->help_pause = peer->help_absent = 0;
    }
}

unsigned internals_help_piece(uint64_t len, unsigned first)
{
    return glex_help_piece(len, first);
}

#include "core/robust.h"
#include "common/memfd.h"
#include "core/memfile.h"
#include "shm/segment.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/random.h>

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010 /* Linux 5.1 */
#endif

/* The word of this process. The mutex is the first object of its page, and the word is the first
 * object of the mutex: robust_is_listed() checks this. */
static struct {
    pthread_mutex_t *mutex; /* NULL: none yet */
    int fd;
    uint64_t id; /* in the name of the file */
} robust;

#define ROBUST_NAME_LEN 40

static void robust_name(char name[ROBUST_NAME_LEN], uint64_t id)
{
    snprintf(name, ROBUST_NAME_LEN, "glex-robust.%016llx", (unsigned long long)id);
}

/* The thread id in a word; 0: none. acquire: see glex_robust_is_held(). */
static uint32_t robust_holder(const uint32_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE) & FUTEX_TID_MASK;
}

static uint32_t robust_own_holder(void)
{
    return robust_holder((const uint32_t *)(const void *)robust.mutex);
}

/* ---- owner ----------------------------------------------------------------------------------- */

static bool robust_init(pthread_mutex_t *mutex)
{
    pthread_mutexattr_t attr;
    bool done;

    pthread_mutexattr_init(&attr);
    done = pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED) == 0 &&
           pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST) == 0 &&
           pthread_mutex_init(mutex, &attr) == 0;
    pthread_mutexattr_destroy(&attr);
    return done;
}

/* Makes the file, maps the page, and then seals the file. */
static bool robust_make_page(int fd)
{
    uint64_t size = glex_page_size();
    pthread_mutex_t *page;

    if (glex_segment_reserve(fd, size, 0, size) != 0) {
        return false;
    }
    page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED) {
        return false;
    }
    (void)fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE); /* older kernels lack this seal */
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0 ||
        madvise(page, size, MADV_DONTFORK) != 0 || !robust_init(page)) {
        munmap(page, size);
        return false;
    }
    robust.mutex = page;
    return true;
}

static bool robust_make(void)
{
    char name[ROBUST_NAME_LEN];
    uint64_t id;
    int fd;

    if (getrandom(&id, sizeof(id), 0) != sizeof(id)) {
        return false;
    }
    id |= 1;
    robust_name(name, id);
    fd = memfd_new(name);
    if (fd < 0) {
        return false;
    }
    if (!robust_make_page(fd)) {
        close(fd);
        return false;
    }
    robust.fd = fd;
    robust.id = id;
    return true;
}

/* Whether the kernel will find the word when this thread ends: the word is in the first entry of the
 * thread's list, and has the thread's id. */
static bool robust_is_listed(void)
{
    struct robust_list_head *head = NULL;
    size_t len;

    return syscall(SYS_get_robust_list, 0, &head, &len) == 0 && head != NULL &&
           ((uintptr_t)head->list.next & ~(uintptr_t)1) + (uintptr_t)head->futex_offset ==
               (uintptr_t)robust.mutex &&
           robust_own_holder() == (uint32_t)syscall(SYS_gettid);
}

/* Locks the mutex, unless a thread holds it. Tools that check the order of locks (ThreadSanitizer)
 * ignore the order of pthread_mutex_trylock(), because an attempt never waits. */
static bool robust_hold(void)
{
    int ret;

    if (robust_own_holder() != 0) {
        return true;
    }
    ret = pthread_mutex_trylock(robust.mutex);
    if (ret == EOWNERDEAD) {
        ret = pthread_mutex_consistent(robust.mutex);
    }
    if (ret == 0 && !robust_is_listed()) {
        pthread_mutex_unlock(robust.mutex);
        return false;
    }
    return ret == 0;
}

void glex_robust_publish(struct glex_segment_header *hdr)
{
    if ((robust.mutex != NULL || robust_make()) && robust_hold()) {
        hdr->robust_fd = (uint32_t)robust.fd;
        hdr->robust_id = robust.id;
    }
}

void glex_robust_fork(void)
{
    char name[ROBUST_NAME_LEN];

    robust_name(name, robust.id);
    /* The program may have closed the descriptor and opened another file. */
    if (robust.mutex != NULL && memfd_has_name(robust.fd, name)) {
        close(robust.fd);
    }
    robust.mutex = NULL;
}

/* ---- peer ------------------------------------------------------------------------------------ */

/* A child of fork() inherits the mapping: a signal handler may fork within a copy, and the child goes
 * on with the copy. */
static void GLEX_NOINLINE robust_map(const struct glex_endpoint *ep, struct glex_peer *peer)
{
    char name[ROBUST_NAME_LEN];
    uint64_t size = 0;
    void *page;
    int fd;

    peer->robust_sought = true;
    if (peer->robust_id == 0) {
        return;
    }
    robust_name(name, peer->robust_id);
    fd = glex_memfile_open(ep, peer, peer->robust_fd, name, O_RDONLY, &size);
    if (fd < 0) {
        return;
    }
    page = size < glex_page_size() ? MAP_FAILED :
                                     mmap(NULL, glex_page_size(), PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    peer->robust = page == MAP_FAILED ? NULL : page;
}

/*
 * Memory order of a load after a copy. If the copy was from another address space, the kernel removed
 * the thread id before the new address space belonged to the pid: exec() then takes the lock of the
 * task (task_lock()), and a new process gets the pid under the lock of the pids. The system call of
 * the copy took these locks later, when it looked up the pid and its address space. This load follows the
 * system call, so the load returns the changed word. The compiler cannot move the load before the call. acquire: the
 * use of the copied data comes after the load.
 */
bool glex_robust_is_held(const struct glex_endpoint *ep, struct glex_peer *peer)
{
    if (glex_unlikely(!peer->robust_sought)) {
        robust_map(ep, peer);
    }
    return peer->robust != NULL && robust_holder(peer->robust) != 0;
}

void glex_robust_unmap(struct glex_peer *peer)
{
    if (peer->robust != NULL) {
        munmap((void *)(uintptr_t)peer->robust, glex_page_size());
    }
}

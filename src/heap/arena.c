#include "arena.h"

#include <errno.h>
#include <fcntl.h>
#include <jemalloc/jemalloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Read by this library's own copy of jemalloc. Only the arena below allocates. */
const char *malloc_conf = "narenas:1,tcache:false,oversize_threshold:0";

/* Huge pages are possible if addresses and offsets in the file are equal modulo their size. */
#define ARENA_ALIGN ((uint64_t)2 << 20)
/* Below, the arena is not worth having. */
#define ARENA_MIN ((uint64_t)16 << 20)
/* A longer buffer is a mistake of the program, and no sign of a full heap. */
#define ARENA_MAX ((uint64_t)64 << 40)
/* Programs number few descriptors, and some close all small numbers. */
#define ARENA_FD 512

char *heap_arena_base;
uint64_t heap_arena_size;

static struct {
    pthread_mutex_t lock; /* guards `used`, `is_full_said` */
    unsigned index;       /* of jemalloc's arena */
    int fd;
    uint64_t id;       /* in the name of the file */
    uint64_t used;     /* bytes from the base that are mapped */
    bool is_private;   /* in a child of fork(): the memory is a copy */
    bool is_reserved;  /* the kernel promises no memory that it lacks, so reserve storage */
    bool is_full_said; /* one line about a full heap */
    char *copy;        /* between the handlers of fork(): for the child */
} arena = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

/* The arena exists. Its bookkeeping is in memory of jemalloc outside of the arena. */
static bool arena_is_made;

/* GLEX_LOG, as libglex reads it. */
static bool may_warn(void)
{
    const char *level = getenv("GLEX_LOG");

    return level == NULL || (strcmp(level, "none") != 0 && strcmp(level, "error") != 0);
}

void heap_say(const char *fmt, ...)
{
    char line[512] = "glex: shared heap: ";
    size_t len = strlen(line);
    int err = errno, ret;
    va_list ap;

    va_start(ap, fmt);
    ret = vsnprintf(line + len, sizeof(line) - len - 1, fmt, ap);
    va_end(ap);
    if (ret > 0 && may_warn()) {
        len = strlen(line);
        line[len++] = '\n';
        (void)!write(STDERR_FILENO, line, len);
    }
    errno = err;
}

/*
 * System calls that change mappings. UCX replaces the functions of libc to learn of memory that goes.
 * The memory of the arena stays at its place in the file, so registrations stay valid. UCX's functions
 * would also allocate, while jemalloc holds its locks.
 */
static void *arena_mmap(void *addr, uint64_t len, int prot, int flags, int fd, uint64_t off)
{
    return (void *)syscall(SYS_mmap, addr, len, prot, flags, fd, off);
}

static int arena_munmap(void *addr, uint64_t len)
{
    return (int)syscall(SYS_munmap, addr, len);
}

static int arena_madvise(void *addr, uint64_t len, int advice)
{
    return (int)syscall(SYS_madvise, addr, len, advice);
}

/* ---- the file -------------------------------------------------------------------------------- */

/* Whether the descriptor is still the arena's. The program may have closed it and opened another
 * file. */
static bool arena_has_file(void)
{
    char name[SHARED_HEAP_NAME_LEN];

    shared_heap_name(name, arena.id);
    return memfd_has_name(arena.fd, name);
}

/* Moves the descriptor to a high number, which programs neither use nor close. */
static int arena_move_fd(int fd)
{
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, ARENA_FD);

    if (moved < 0) {
        return fd; /* a low limit of descriptors */
    }
    close(fd);
    return moved;
}

/*
 * Makes a file without a name in any file system. The kernel removes the file with the last process
 * that has the file. The file is as long as the arena can become. Its pages come as they are used.
 * The length is sealed, so no access of a peer is beyond the end.
 */
static int arena_make_file(uint64_t size)
{
    char name[SHARED_HEAP_NAME_LEN];
    int fd;

    shared_heap_name(name, arena.id);
    fd = memfd_new(name);
    if (fd < 0) {
        return -1;
    }
    fd = arena_move_fd(fd);
    if (ftruncate(fd, (off_t)size) != 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Without overcommit a store raises SIGBUS where the kernel has no memory for a page of a file. Then
 * each part of the file is reserved before its first use. */
static bool arena_must_reserve(void)
{
    int fd = open("/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC);
    char mode = '0';

    if (fd >= 0) {
        (void)!read(fd, &mode, 1);
        close(fd);
    }
    return mode == '2';
}

static bool arena_reserve(const char *addr, uint64_t len)
{
    return !arena.is_reserved || arena.is_private ||
           (arena_has_file() && fallocate(arena.fd, 0, addr - heap_arena_base, (off_t)len) == 0);
}

/* ---- what jemalloc asks for ------------------------------------------------------------------ */

/* Maps the next part of the file. The parts are neighbours, so the kernel joins their mappings. */
static bool arena_extend(uint64_t end)
{
    char *start = heap_arena_base + arena.used;
    uint64_t len = end - arena.used;

    if (arena.is_private || end > heap_arena_size || !arena_has_file()) {
        return false;
    }
    if (arena_mmap(start, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE,
                   arena.fd, arena.used) != start) {
        return false;
    }
    arena.used = end;
    (void)arena_madvise(start, len, MADV_HUGEPAGE);
    /* A child of fork() must not write to the memory of its parent. */
    return arena_madvise(start, len, MADV_DONTFORK) == 0;
}

static void *arena_hook_alloc(extent_hooks_t *hooks, void *wanted, size_t size, size_t align,
                              bool *zero, bool *commit, unsigned index)
{
    char *addr;

    (void)hooks;
    (void)index;
    pthread_mutex_lock(&arena.lock);
    addr =
        (char *)(((uintptr_t)heap_arena_base + arena.used + align - 1) & ~(uintptr_t)(align - 1));
    if ((wanted != NULL && wanted != addr) ||
        !arena_extend((uint64_t)(addr - heap_arena_base) + size)) {
        addr = NULL;
    }
    pthread_mutex_unlock(&arena.lock);
    if (addr == NULL) {
        return NULL;
    }
    *zero = true;
    if (!arena.is_reserved) {
        *commit = true;
    } else if (*commit && !arena_reserve(addr, size)) {
        return NULL;
    }
    return addr;
}

/* jemalloc keeps the addresses for later. */
static bool arena_hook_dalloc(extent_hooks_t *hooks, void *addr, size_t size, bool committed,
                              unsigned index)
{
    (void)hooks;
    (void)addr;
    (void)size;
    (void)committed;
    (void)index;
    return true;
}

static void arena_hook_destroy(extent_hooks_t *hooks, void *addr, size_t size, bool committed,
                               unsigned index)
{
    (void)arena_hook_dalloc(hooks, addr, size, committed, index);
}

static bool arena_hook_commit(extent_hooks_t *hooks, void *addr, size_t size, size_t offset,
                              size_t length, unsigned index)
{
    (void)hooks;
    (void)size;
    (void)index;
    return !arena_reserve((char *)addr + offset, length);
}

/* Gives the pages back to the kernel. The next access finds zeros. */
static bool arena_hook_decommit(extent_hooks_t *hooks, void *addr, size_t size, size_t offset,
                                size_t length, unsigned index)
{
    (void)hooks;
    (void)size;
    (void)index;
    return arena_madvise((char *)addr + offset, length,
                         arena.is_private ? MADV_DONTNEED : MADV_REMOVE) != 0;
}

static bool arena_hook_split(extent_hooks_t *hooks, void *addr, size_t size, size_t size_a,
                             size_t size_b, bool committed, unsigned index)
{
    (void)hooks;
    (void)addr;
    (void)size;
    (void)size_a;
    (void)size_b;
    (void)committed;
    (void)index;
    return false;
}

static bool arena_hook_merge(extent_hooks_t *hooks, void *addr_a, size_t size_a, void *addr_b,
                             size_t size_b, bool committed, unsigned index)
{
    (void)addr_b;
    return arena_hook_split(hooks, addr_a, size_a + size_b, size_a, size_b, committed, index);
}

static extent_hooks_t arena_hooks = {
    .alloc = arena_hook_alloc,
    .dalloc = arena_hook_dalloc,
    .destroy = arena_hook_destroy,
    .commit = arena_hook_commit,
    .decommit = arena_hook_decommit,
    .split = arena_hook_split,
    .merge = arena_hook_merge,
};

/* ---- creating -------------------------------------------------------------------------------- */

/* Returns the length of the arena. Unused addresses and an unused file cost nothing. So without
 * GLEX_HEAP_SIZE the arena may have all memory of the machine, or a quarter of the addresses that
 * the program may have. */
static uint64_t arena_choose_size(uint64_t wanted)
{
    uint64_t size = wanted;
    struct rlimit limit;

    if (size == 0) {
        size = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
        if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur / 4 < size) {
            size = limit.rlim_cur / 4;
        }
    }
    /* A longer file would raise SIGXFSZ. */
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < size) {
        size = limit.rlim_cur;
    }
    return size & ~(ARENA_ALIGN - 1);
}

/* Reserves addresses between two pages that nobody can touch. */
static char *arena_reserve_addresses(uint64_t size)
{
    char *addr = arena_mmap(NULL, size + 2 * ARENA_ALIGN, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return addr == MAP_FAILED ? NULL :
                                (char *)(((uintptr_t)addr + ARENA_ALIGN) & ~(ARENA_ALIGN - 1));
}

/* Makes the arena of jemalloc, then replaces its functions. So jemalloc's bookkeeping lies outside
 * of the shared file, where peers cannot reach it. */
static bool arena_make(void)
{
    extent_hooks_t *hooks = &arena_hooks;
    size_t len = sizeof(arena.index);
    char name[40];

    if (mallctl("arenas.create", &arena.index, &len, NULL, 0) != 0) {
        return false;
    }
    snprintf(name, sizeof(name), "arena.%u.extent_hooks", arena.index);
    return mallctl(name, NULL, NULL, &hooks, sizeof(hooks)) == 0;
}

void heap_arena_create(uint64_t wanted)
{
    uint64_t size = arena_choose_size(wanted);
    int err = errno;
    char *base;

    if (size < ARENA_MIN) {
        heap_say(
            "a limit (ulimit -f, ulimit -v, GLEX_HEAP_SIZE) leaves less than 16 MiB: all memory "
            "is private");
        return;
    }
    arena.is_reserved = arena_must_reserve();
    if (getrandom(&arena.id, sizeof(arena.id), 0) != sizeof(arena.id) ||
        (arena.fd = arena_make_file(size)) < 0) {
        heap_say("cannot make a file in memory: %s; all memory is private", strerror(errno));
        errno = err;
        return;
    }
    base = arena_reserve_addresses(size);
    if (base == NULL || !arena_make()) {
        heap_say("cannot reserve %llu MiB of addresses: %s; all memory is private",
                 (unsigned long long)size >> 20, strerror(errno));
        close(arena.fd);
        arena.fd = -1;
        errno = err;
        return;
    }
    heap_arena_size = size;
    arena_is_made = true;
    /* release: a thread that reads the base reads the stores above, too */
    __atomic_store_n(&heap_arena_base, base, __ATOMIC_RELEASE);
    errno = err;
}

/* ---- allocation ------------------------------------------------------------------------------ */

static int arena_flags(void)
{
    return MALLOCX_ARENA(arena.index) | MALLOCX_TCACHE_NONE;
}

/* A child of fork() has a heap that does not grow, which is no news. */
static void arena_say_full(void)
{
    if (arena.is_private || __atomic_exchange_n(&arena.is_full_said, true, __ATOMIC_RELAXED)) {
        return;
    }
    if (!arena_has_file()) {
        heap_say("the program has closed descriptor %d, so the heap does not grow: further long "
                 "buffers are private memory",
                 arena.fd);
    } else {
        heap_say("full with %llu MiB of %llu: further long buffers are private memory; "
                 "GLEX_HEAP_SIZE sets the size",
                 (unsigned long long)arena.used >> 20, (unsigned long long)heap_arena_size >> 20);
    }
}

void *heap_arena_alloc(size_t size, size_t align, bool zero)
{
    int err = errno, flags;
    void *ptr;

    /* acquire: the arena is complete */
    if (__atomic_load_n(&heap_arena_base, __ATOMIC_ACQUIRE) == NULL || size > ARENA_MAX ||
        align > ARENA_MAX) {
        return NULL;
    }
    flags = arena_flags() | (align == 0 ? 0 : MALLOCX_ALIGN(align)) | (zero ? MALLOCX_ZERO : 0);
    ptr = mallocx(size, flags);
    if (ptr == NULL) {
        arena_say_full();
    }
    errno = err;
    return ptr;
}

void *heap_arena_resize(void *ptr, size_t size)
{
    int err = errno;
    void *moved;

    moved = size > ARENA_MAX ? NULL : rallocx(ptr, size, arena_flags());
    if (moved == NULL) {
        arena_say_full();
    }
    errno = err;
    return moved;
}

void heap_arena_free(void *ptr)
{
    int err = errno;

    dallocx(ptr, MALLOCX_TCACHE_NONE);
    errno = err;
}

size_t heap_arena_usable(const void *ptr)
{
    return sallocx(ptr, 0);
}

void heap_arena_query(struct shared_heap *heap)
{
    if (!arena.is_private) {
        heap->base = __atomic_load_n(&heap_arena_base, __ATOMIC_ACQUIRE);
        heap->size = heap_arena_size;
        heap->fd = arena.fd;
        heap->id = arena.id;
    }
}

/* ---- fork ------------------------------------------------------------------------------------ */

/* Copies the pages that have contents. */
static void arena_copy_pages(char *copy)
{
    off_t begin, end = 0;

    if (!arena_has_file()) { /* the program has closed it: nobody knows the pages */
        memcpy(copy, heap_arena_base, arena.used);
        return;
    }
    while ((uint64_t)end < arena.used) {
        begin = lseek(arena.fd, end, SEEK_DATA);
        end = begin < 0 ? -1 : lseek(arena.fd, begin, SEEK_HOLE);
        if (end < 0 || (uint64_t)begin >= arena.used) {
            break;
        }
        if ((uint64_t)end > arena.used) {
            end = (off_t)arena.used;
        }
        memcpy(copy + begin, heap_arena_base + begin, (size_t)(end - begin));
    }
}

/*
 * The handler of jemalloc has run before. jemalloc holds its locks, so no thread allocates or frees a
 * long buffer. Other threads may still store into their buffers. The child has some of these stores.
 */
void heap_arena_prefork(void)
{
    int err = errno;
    char *copy;

    pthread_mutex_lock(&arena.lock);
    arena.copy = NULL;
    if (!arena_is_made || arena.is_private || arena.used == 0) {
        return;
    }
    copy = arena_mmap(NULL, arena.used, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (copy == MAP_FAILED) {
        heap_say("fork: no memory to copy %llu MiB: %s; the child can only call exec()",
                 (unsigned long long)arena.used >> 20, strerror(errno));
    } else {
        (void)arena_madvise(copy, arena.used, MADV_HUGEPAGE);
        arena_copy_pages(copy);
        arena.copy = copy;
    }
    errno = err;
}

void heap_arena_parent(void)
{
    int err = errno;

    if (arena.copy != NULL) {
        arena_munmap(arena.copy, arena.used);
    }
    pthread_mutex_unlock(&arena.lock);
    errno = err;
}

/* The child has not inherited the mapping of the file. The copy takes its place. */
void heap_arena_child(void)
{
    int err = errno;

    if (arena.copy != NULL && syscall(SYS_mremap, arena.copy, arena.used, arena.used,
                                      MREMAP_MAYMOVE | MREMAP_FIXED, heap_arena_base) == -1) {
        heap_say("fork: cannot move the copy of %llu MiB: %s; the child can only call exec()",
                 (unsigned long long)arena.used >> 20, strerror(errno));
    }
    /* else the memory of the parent would stay allocated until the child ends */
    if (arena_is_made && arena_has_file()) {
        close(arena.fd);
    }
    arena.fd = -1;
    arena.is_private = arena_is_made;
    pthread_mutex_init(&arena.lock, NULL);
    errno = err;
}

/*
 * The functions of malloc() for an unmodified program: a library for LD_PRELOAD. Buffers of 16 KB or
 * more come from the arena, which peers of libglex can map. Shorter buffers come from libc. A program
 * with another allocator keeps this allocator for all buffers.
 */
#include "arena.h"

#include <dlfcn.h>
#include <errno.h>
#include <gnu/libc-version.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

/* Shorter messages are copied through queues and FIFOs, whatever memory they are in. */
#define HEAP_MIN ((size_t)16 << 10)

/* The program's allocator */
static struct {
    void *(*malloc)(size_t);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void (*free)(void *);
    void *(*memalign)(size_t, size_t);
    size_t (*usable)(void *);
} next;

/* Buffers of this size or more come from the arena. */
static size_t heap_min = SIZE_MAX;
static const char *heap_refused;

/* ---- at the start ---------------------------------------------------------------------------- */

/* What dlsym() itself allocates before the program's allocator is known. Never freed. */
static char early[4096] __attribute__((aligned(16)));
static size_t early_used;
static __thread bool is_searching __attribute__((tls_model("initial-exec")));

static bool is_early(const void *ptr)
{
    return (size_t)((const char *)ptr - early) < sizeof(early);
}

static void *early_alloc(size_t size)
{
    size_t at = __atomic_fetch_add(&early_used, (size + 15) & ~(size_t)15, __ATOMIC_RELAXED);

    if (size > sizeof(early) || at > sizeof(early) - size) {
        errno = ENOMEM;
        return NULL;
    }
    return early + at;
}

static bool same_library(const void *a, const void *b)
{
    Dl_info of_a, of_b;

    return dladdr(a, &of_a) != 0 && dladdr(b, &of_b) != 0 && of_a.dli_fbase == of_b.dli_fbase;
}

static uint64_t unit_of(char suffix)
{
    switch (suffix) {
    case 'k':
    case 'K':
        return 1ull << 10;
    case 'm':
    case 'M':
        return 1ull << 20;
    case 'g':
    case 'G':
        return 1ull << 30;
    default:
        return suffix == '\0' ? 1 : 0;
    }
}

/* GLEX_HEAP_SIZE: false if the variable makes no sense. 0: as much as the machine has. */
static bool read_size(uint64_t *size_p)
{
    const char *text = getenv("GLEX_HEAP_SIZE");
    unsigned long long number;
    uint64_t unit;
    char *end;

    *size_p = 0;
    if (text == NULL || strcmp(text, "auto") == 0) {
        return true;
    }
    errno = 0;
    number = strtoull(text, &end, 10);
    unit = *end == '\0' || end[1] == '\0' ? unit_of(*end) : 0;
    if (end == text || *text == '-' || errno != 0 || unit == 0 || number > (1ull << 46) / unit ||
        number * unit < (16ull << 20)) {
        return false;
    }
    *size_p = number * unit;
    return true;
}

/* Names that always mean the functions of this library, even if the program defines malloc()
 * itself. */
#define HEAP_ALIAS(name) __attribute__((alias(#name), copy(name), visibility("hidden")))
extern __typeof(malloc) heap_malloc HEAP_ALIAS(malloc);
extern __typeof(calloc) heap_calloc HEAP_ALIAS(calloc);
extern __typeof(realloc) heap_realloc HEAP_ALIAS(realloc);
extern __typeof(free) heap_free HEAP_ALIAS(free);

/* Whether calls of a function reach this library. The linker may have given the program an entry for
 * the function, if the program uses the address of the function. The entry is no definition. */
static bool is_own(const char *name, const void *own)
{
    const void *found = dlsym(RTLD_DEFAULT, name);
    const ElfW(Sym) *symbol = NULL;
    Dl_info info;

    return found == own || (dladdr1(found, &info, (void **)&symbol, RTLD_DL_SYMENT) != 0 &&
                            symbol != NULL && symbol->st_shndx == SHN_UNDEF);
}

static const char *why_refused(void)
{
    if (!is_own("malloc", (const void *)heap_malloc) || !is_own("free", (const void *)heap_free) ||
        !is_own("calloc", (const void *)heap_calloc) ||
        !is_own("realloc", (const void *)heap_realloc)) {
        return "the program has an allocator of its own";
    }
    return same_library((const void *)next.malloc, (const void *)gnu_get_libc_version) ?
               NULL :
               "the program uses another allocator than libc's";
}

static void search(void)
{
    int err = errno;

    is_searching = true;
    next.calloc = (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "calloc");
    next.realloc = (void *(*)(void *, size_t))dlsym(RTLD_NEXT, "realloc");
    next.free = (void (*)(void *))dlsym(RTLD_NEXT, "free");
    next.memalign = (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "memalign");
    next.usable = (size_t (*)(void *))dlsym(RTLD_NEXT, "malloc_usable_size");
    /* release: a thread that reads this pointer also reads the pointers above. Before, other
     * threads search as well. */
    __atomic_store_n(&next.malloc, (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc"), __ATOMIC_RELEASE);
    is_searching = false;
    heap_refused = why_refused();
    __atomic_store_n(&heap_min, heap_refused == NULL ? HEAP_MIN : SIZE_MAX, __ATOMIC_RELEASE);
    errno = err;
}

/* Whether the program's allocator is known. False: this thread is searching for it. */
static inline bool is_ready(void)
{
    if (__builtin_expect(__atomic_load_n(&next.malloc, __ATOMIC_ACQUIRE) != NULL, 1)) {
        return true;
    }
    if (is_searching) {
        return false;
    }
    search();
    return true;
}

/* Runs at the first long buffer, because the environment may not exist before main(). */
static void create(void)
{
    uint64_t size;

    if (read_size(&size)) {
        heap_arena_create(size);
    } else {
        heap_say("GLEX_HEAP_SIZE is not auto or 16M to 64T: all memory is private");
    }
}

/* A buffer of the arena, or NULL */
static void *long_alloc(size_t size, size_t align, bool zero)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, create);
    return heap_arena_alloc(size, align, zero);
}

static inline bool is_long(size_t size)
{
    /* relaxed: nothing depends on the value but this choice */
    return __builtin_expect(size >= __atomic_load_n(&heap_min, __ATOMIC_RELAXED), 0);
}

/* ---- the functions --------------------------------------------------------------------------- */

EXPORT void *malloc(size_t size)
{
    void *ptr;

    if (!is_ready()) {
        return early_alloc(size);
    }
    ptr = is_long(size) ? long_alloc(size, 0, false) : NULL;
    return ptr != NULL ? ptr : next.malloc(size);
}

EXPORT void *calloc(size_t num, size_t size)
{
    void *ptr = NULL;
    size_t all;

    if (__builtin_mul_overflow(num, size, &all)) {
        errno = ENOMEM;
        return NULL;
    }
    if (!is_ready()) {
        return early_alloc(all);
    }
    ptr = is_long(all) ? long_alloc(all, 0, true) : NULL;
    return ptr != NULL ? ptr : next.calloc(num, size);
}

EXPORT void free(void *ptr)
{
    if (heap_arena_has(ptr)) {
        heap_arena_free(ptr);
    } else if (ptr != NULL && !is_early(ptr) && is_ready()) {
        next.free(ptr);
    }
}

EXPORT size_t malloc_usable_size(void *ptr)
{
    if (heap_arena_has(ptr)) {
        return heap_arena_usable(ptr);
    }
    if (ptr == NULL || is_early(ptr) || !is_ready()) {
        return 0;
    }
    return next.usable(ptr);
}

/* Moves a buffer between the arena and the program's allocator. `old` bytes are usable. */
static void *move(void *ptr, size_t old, size_t size)
{
    void *moved = malloc(size);

    if (moved != NULL) {
        memcpy(moved, ptr, old < size ? old : size);
        free(ptr);
    }
    return moved;
}

EXPORT void *realloc(void *ptr, size_t size)
{
    void *resized;

    if (ptr == NULL) {
        return malloc(size);
    }
    if (is_early(ptr) || !is_ready()) {
        return move(ptr, (size_t)(early + sizeof(early) - (char *)ptr), size);
    }
    if (!heap_arena_has(ptr)) {
        return is_long(size) ? move(ptr, next.usable(ptr), size) : next.realloc(ptr, size);
    }
    if (size == 0) {
        free(ptr);
        return NULL;
    }
    resized = is_long(size) ? heap_arena_resize(ptr, size) : NULL;
    return resized != NULL ? resized : move(ptr, heap_arena_usable(ptr), size);
}

static void *align_alloc(size_t align, size_t size)
{
    void *ptr = NULL;

    if (!is_ready()) {
        errno = ENOMEM;
        return NULL;
    }
    if (is_long(size) && align != 0 && (align & (align - 1)) == 0) {
        ptr = long_alloc(size, align, false);
    }
    return ptr != NULL ? ptr : next.memalign(align, size);
}

EXPORT void *memalign(size_t align, size_t size)
{
    return align_alloc(align, size);
}

EXPORT void *aligned_alloc(size_t align, size_t size)
{
    return align_alloc(align, size);
}

EXPORT int posix_memalign(void **ptr_p, size_t align, size_t size)
{
    int err = errno;
    void *ptr;

    if (align % sizeof(void *) != 0 || align == 0 || (align & (align - 1)) != 0) {
        return EINVAL;
    }
    ptr = align_alloc(align, size);
    errno = err;
    if (ptr == NULL) {
        return ENOMEM;
    }
    *ptr_p = ptr;
    return 0;
}

EXPORT void *valloc(size_t size)
{
    return align_alloc((size_t)sysconf(_SC_PAGESIZE), size);
}

EXPORT void *pvalloc(size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    if (size > SIZE_MAX - page) {
        errno = ENOMEM;
        return NULL;
    }
    return align_alloc(page, (size + page - 1) & ~(page - 1));
}

/* ---- fork ------------------------------------------------------------------------------------ */

EXPORT int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void),
                             void *dso);

/*
 * pthread_atfork() calls this function. The arena's handlers must be the first ones of the process.
 * Before the fork, libc runs the first handlers last. So jemalloc has locked its arenas by then. In
 * the child, libc runs the first handlers first. So all other handlers find their buffers.
 */
EXPORT int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void),
                             void *dso)
{
    static int (*register_next)(void (*)(void), void (*)(void), void (*)(void), void *);
    static bool is_registered;

    if (register_next == NULL) { /* threads find the same */
        register_next = (int (*)(void (*)(void), void (*)(void), void (*)(void), void *))dlsym(
            RTLD_NEXT, "__register_atfork");
    }
    if (!__atomic_exchange_n(&is_registered, true, __ATOMIC_ACQ_REL)) {
        (void)register_next(heap_arena_prefork, heap_arena_parent, heap_arena_child, NULL);
    }
    return register_next(prepare, parent, child, dso);
}

/* ---- for libglex ----------------------------------------------------------------------------- */

EXPORT void shared_heap_query(struct shared_heap *heap)
{
    (void)is_ready();
    memset(heap, 0, sizeof(*heap));
    heap->version = SHARED_HEAP_VERSION;
    heap->fd = -1;
    heap->refused = heap_refused;
    heap_arena_query(heap);
}

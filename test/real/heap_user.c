/*
 * A program of a user, for the shared heap. The program calls each function of malloc(), in many
 * threads, and beside fork(). Prints "checks passed".
 *
 *   heap_user api         each function, around the size at which a buffer comes from the heap
 *   heap_user threads     threads allocate, resize and free while others fork
 *   heap_user fork        the contents of buffers in children and grandchildren
 *   heap_user fill MIB    buffers of MIB MiB together, which are written and compared
 *   heap_user limits      closed descriptors, and a descriptor number that another file has got
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LONG = 16 << 10, THREADS = 4, FORKS = 20 };

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "line %d: not %s\n", __LINE__, #condition);                            \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static void paint(void *buffer, size_t size, unsigned seed)
{
    unsigned char *bytes = buffer;
    size_t i;

    for (i = 0; i < size; i++) {
        bytes[i] = (unsigned char)(seed + i * 7 + (i >> 8));
    }
}

static int is_painted(const void *buffer, size_t size, unsigned seed)
{
    const unsigned char *bytes = buffer;
    size_t i;

    for (i = 0; i < size; i++) {
        if (bytes[i] != (unsigned char)(seed + i * 7 + (i >> 8))) {
            return 0;
        }
    }
    return 1;
}

static int is_zero(const void *buffer, size_t size)
{
    const char *bytes = buffer;

    return size == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0);
}

/* ---- each function --------------------------------------------------------------------------- */

static void api_size(size_t size)
{
    char *p, *q;

    p = malloc(size);
    CHECK(p != NULL && malloc_usable_size(p) >= size && (uintptr_t)p % 16 == 0);
    paint(p, size, 1);
    q = realloc(p, 2 * size + 1);
    CHECK(q != NULL && is_painted(q, size, 1));
    q = realloc(q, size / 3 + 1);
    CHECK(q != NULL && is_painted(q, size / 3, 1));
    q = realloc(q, 5 * size + 1);
    CHECK(q != NULL && is_painted(q, size / 3, 1));
    memset(q, 0xff, 5 * size);
    free(q);
    p = calloc(1, 5 * size); /* memory that was used before */
    CHECK(p != NULL && is_zero(p, 5 * size));
    free(p);
}

static void api_aligned(size_t align, size_t size)
{
    void *p = NULL, *q;

    CHECK(posix_memalign(&p, align, size) == 0 && (uintptr_t)p % align == 0);
    q = aligned_alloc(align, size);
    CHECK(q != NULL && (uintptr_t)q % align == 0);
    paint(p, size, 2);
    paint(q, size, 3);
    CHECK(is_painted(p, size, 2) && is_painted(q, size, 3));
    free(p);
    free(q);
    p = memalign(align, size);
    CHECK(p != NULL && (uintptr_t)p % align == 0);
    free(p);
}

static void api(void)
{
    size_t size, align;
    void *p = NULL;

    for (size = 1; size <= 16u << 20; size = size * 3 + 1) {
        api_size(size);
    }
    for (size = LONG - 40; size < LONG + 40; size++) {
        api_size(size);
    }
    for (align = 16; align <= 8u << 20; align *= 2) {
        api_aligned(align, 100);
        api_aligned(align, LONG);
        api_aligned(align, 3u << 20);
    }
    p = valloc(LONG);
    CHECK(p != NULL && (uintptr_t)p % (uintptr_t)getpagesize() == 0);
    free(p);
    p = pvalloc(LONG + 1);
    CHECK(p != NULL && (uintptr_t)p % (uintptr_t)getpagesize() == 0 &&
          malloc_usable_size(p) >= LONG + (size_t)getpagesize());
    free(p);
    free(NULL);
    p = realloc(NULL, LONG);
    CHECK(p != NULL && realloc(p, 0) == NULL);
    p = &p;
    CHECK(posix_memalign(&p, 3, LONG) == EINVAL && p == &p);
    errno = 0;
    CHECK(calloc(SIZE_MAX / 2, 3) == NULL && errno == ENOMEM);
    errno = 0;
    CHECK(malloc(SIZE_MAX / 2) == NULL && errno == ENOMEM);
    p = malloc(1u << 20);
    errno = 77;
    free(p);
    CHECK(errno == 77);
}

/* ---- fork ------------------------------------------------------------------------------------ */

/* Whether a child, and its child, find the buffer as it was. Both overwrite it. */
static void grandchild(char *buffer, size_t size, unsigned seed)
{
    int status;
    pid_t pid;

    CHECK(is_painted(buffer, size, seed));
    paint(buffer, size, seed + 1);
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        CHECK(is_painted(buffer, size, seed + 1));
        paint(buffer, size, seed + 2);
        buffer = realloc(buffer, 3 * size);
        CHECK(buffer != NULL && is_painted(buffer, size, seed + 2));
        free(buffer);
        _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    CHECK(is_painted(buffer, size, seed + 1));
    free(buffer);
    _exit(0);
}

/* Handlers of other libraries may use their buffers. */
static char *of_handlers;
static unsigned generation;

static void handler_in_child(void)
{
    CHECK(is_painted(of_handlers, LONG, generation));
    generation++;
    paint(of_handlers, LONG, generation);
}

/* Before the constructors of all libraries */
static void before_all(void)
{
    pthread_atfork(NULL, NULL, handler_in_child);
}
static void (*const preinit)(void) __attribute__((section(".preinit_array"), used)) = before_all;

static void forks(void)
{
    size_t size = 3u << 20;
    char *buffer = malloc(size), *hole = malloc(256u << 20), line[16] = "";
    int fds[2], status, i;
    FILE *echo;
    pid_t pid;

    CHECK(buffer != NULL && hole != NULL && pipe(fds) == 0);
    hole[200u << 20] = 9;
    for (i = 0; i < 10; i++) {
        paint(buffer, size, (unsigned)i);
        pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            CHECK(read(fds[0], line, 1) == 1); /* the parent has changed the buffer */
            CHECK(hole[200u << 20] == 9 && hole[100u << 20] == 0);
            grandchild(buffer, size, (unsigned)i);
        }
        paint(buffer, size, (unsigned)i + 100);
        CHECK(write(fds[1], "x", 1) == 1);
        CHECK(waitpid(pid, &status, 0) == pid && status == 0);
        CHECK(is_painted(buffer, size, (unsigned)i + 100) && is_painted(of_handlers, LONG, 0));
    }
    CHECK(system("exit 3") == 3 << 8);
    echo = popen("echo word", "r");
    CHECK(echo != NULL && fgets(line, sizeof(line), echo) != NULL && strcmp(line, "word\n") == 0);
    CHECK(pclose(echo) == 0);
    free(buffer);
    free(hole);
}

/* ---- threads --------------------------------------------------------------------------------- */

static int is_over;

static void churn(unsigned seed, unsigned rounds)
{
    char *buffers[16] = {NULL};
    size_t sizes[16] = {0};
    unsigned i, at;

    for (i = 0; i < rounds; i++) {
        seed = seed * 1103515245u + 12345u;
        at = (seed >> 16) % 16;
        CHECK(is_painted(buffers[at], sizes[at], at));
        if (sizes[at] != 0 && (seed >> 20) % 3 == 0) {
            free(buffers[at]);
            buffers[at] = NULL;
            sizes[at] = 0;
        } else {
            size_t old = sizes[at];

            sizes[at] = (seed >> 8) % (4 * LONG) + 1;
            buffers[at] = realloc(buffers[at], sizes[at]);
            CHECK(buffers[at] != NULL);
            CHECK(is_painted(buffers[at], old < sizes[at] ? old : sizes[at], at));
            paint(buffers[at], sizes[at], at);
        }
    }
    for (at = 0; at < 16; at++) {
        CHECK(is_painted(buffers[at], sizes[at], at));
        free(buffers[at]);
    }
}

static void *churner(void *arg)
{
    unsigned seed = (unsigned)(uintptr_t)arg;

    while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED)) {
        churn(seed++, 200);
    }
    return NULL;
}

static void threads(void)
{
    pthread_t ids[THREADS];
    uintptr_t i;
    int status;
    pid_t pid;

    for (i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&ids[i], NULL, churner, (void *)(i * 1000)) == 0);
    }
    for (i = 0; i < FORKS; i++) {
        pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            alarm(60);
            churn((unsigned)i, 500);
            _exit(0);
        }
        churn((unsigned)i + 500, 100);
        CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    }
    __atomic_store_n(&is_over, 1, __ATOMIC_RELAXED);
    for (i = 0; i < THREADS; i++) {
        pthread_join(ids[i], NULL);
    }
}

/* ---- limits ---------------------------------------------------------------------------------- */

static void fill(unsigned mib)
{
    char **buffers = malloc(mib * sizeof(*buffers));
    unsigned i;

    CHECK(buffers != NULL);
    for (i = 0; i < mib; i++) {
        buffers[i] = malloc(1u << 20);
        CHECK(buffers[i] != NULL);
        paint(buffers[i], 1u << 20, i);
    }
    for (i = 0; i < mib; i++) {
        CHECK(is_painted(buffers[i], 1u << 20, i));
        free(buffers[i]);
    }
}

/* Daemons close all descriptors, and get their numbers again. */
static void limits(void)
{
    char *buffer = malloc(1u << 20);
    int fd, status;
    pid_t pid;

    paint(buffer, 1u << 20, 1);
    for (fd = 3; fd < 1024; fd++) {
        close(fd);
    }
    for (fd = 0; fd >= 0 && fd < 600;) {
        fd = open("/dev/zero", O_RDWR);
    }
    CHECK(fd >= 600);
    fill(64);
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        char byte = 1;

        CHECK(is_painted(buffer, 1u << 20, 1));
        CHECK(read(512, &byte, 1) == 1 && byte == 0);
        fill(8);
        _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    CHECK(is_painted(buffer, 1u << 20, 1));
}

/* Whether the file of the heap is among the mappings of this process. */
static int has_heap(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    int found = 0;

    CHECK(maps != NULL);
    while (fgets(line, sizeof(line), maps) != NULL) {
        found |= strstr(line, "/memfd:glex-heap.") != NULL;
    }
    fclose(maps);
    return found;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";

    of_handlers = malloc(LONG);
    paint(of_handlers, LONG, 0);
    CHECK(has_heap() == (getenv("HEAP_USER_ALONE") == NULL));
    if (strcmp(what, "api") == 0) {
        api();
    } else if (strcmp(what, "threads") == 0) {
        threads();
    } else if (strcmp(what, "fork") == 0) {
        forks();
    } else if (strcmp(what, "fill") == 0 && argc > 2) {
        fill((unsigned)atoi(argv[2]));
    } else if (strcmp(what, "limits") == 0) {
        limits();
    } else {
        fprintf(stderr, "usage: heap_user api|threads|fork|fill MIB|limits\n");
        return 2;
    }
    printf("heap_user %s: checks passed\n", what);
    return 0;
}

/* Compiled into a program: an allocator of its own, as a program has that is linked to mimalloc or
 * jemalloc statically. The allocator itself is libc's. */
#include <errno.h>
#include <stddef.h>

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);
void __libc_free(void *);

void *malloc(size_t size)
{
    return __libc_malloc(size);
}

void *calloc(size_t num, size_t size)
{
    return __libc_calloc(num, size);
}

void *realloc(void *ptr, size_t size)
{
    return __libc_realloc(ptr, size);
}

void *memalign(size_t align, size_t size)
{
    return __libc_memalign(align, size);
}

void *aligned_alloc(size_t align, size_t size)
{
    return __libc_memalign(align, size);
}

int posix_memalign(void **ptr_p, size_t align, size_t size)
{
    void *ptr;

    if (align % sizeof(void *) != 0 || (align & (align - 1)) != 0) {
        return EINVAL;
    }
    ptr = __libc_memalign(align, size);
    if (ptr == NULL) {
        return ENOMEM;
    }
    *ptr_p = ptr;
    return 0;
}

void free(void *ptr)
{
    __libc_free(ptr);
}

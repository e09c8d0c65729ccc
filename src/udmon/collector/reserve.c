#include "reserve.h"
#include "../lib/net/loop.h"

#include <malloc.h>
#include <stdint.h>
#include <sys/mman.h>

enum {
    RESERVE_CREDIT = 1 << 20,    /* bytes between two questions to the kernel */
    RESERVE_PAUSE_NS = 100000000 /* after a refusal */
};

/* Atomic. No order is needed: the numbers are estimates. */
static int64_t reserve_credit; /* may be taken without a question */
static size_t reserve_series;
static uint64_t reserve_refused_until_ns;

/* Asks the kernel. Memory that malloc() has free counts, too: it need not go back to the kernel. */
static bool reserve_is_there(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory != MAP_FAILED) {
        munmap(memory, bytes);
        return true;
    }
    return mallinfo2().fordblks >= bytes;
}

bool reserve_allows(size_t bytes)
{
    size_t reserve =
        RESERVE_BYTES + (RESERVE_SERIES_BYTES * __atomic_load_n(&reserve_series, __ATOMIC_RELAXED));
    uint64_t now_ns;

    if (__atomic_sub_fetch(&reserve_credit, (int64_t)bytes, __ATOMIC_RELAXED) >= 0) {
        return true;
    }
    now_ns = udmon_now_ns();
    if (now_ns < __atomic_load_n(&reserve_refused_until_ns, __ATOMIC_RELAXED)) {
        return false;
    }
    if (!reserve_is_there(reserve + RESERVE_CREDIT + bytes)) {
        __atomic_store_n(&reserve_refused_until_ns, now_ns + RESERVE_PAUSE_NS, __ATOMIC_RELAXED);
        return false;
    }
    __atomic_store_n(&reserve_credit, RESERVE_CREDIT, __ATOMIC_RELAXED);
    return true;
}

void reserve_set_series(size_t count)
{
    __atomic_store_n(&reserve_series, count, __ATOMIC_RELAXED);
}

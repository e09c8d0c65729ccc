#include "base/glex_copy.h"
#include "common/slow_move.h"

#include <stdint.h>

size_t uct_glex_copy_string_min = SIZE_MAX;

/* The sanitizers do not see the accesses of `rep movsb` */
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

#include <ucs/arch/cpu.h>
#include <ucs/sys/compiler.h>
#include <ucs/sys/math.h>
#include <cpuid.h>

/*
 * On AMD's processors glibc uses `rep movsb` up to the size of the second level cache, and vector
 * loads and stores above. From Zen 5 (family 1Ah) on, `rep movsb` is faster above, too, because it
 * does not read the lines that it writes. Copying 1 MB from and to another processor's cache takes
 * 20 us instead of 25 us, and no alignment is slower. On older processors `rep movsb` is slower,
 * and very slow with some alignments: common/slow_move.h. For Intel's processors glibc chooses well.
 */
#define UCT_GLEX_COPY_FAMILY     0x1a
#define UCT_GLEX_COPY_STRING_MIN ((size_t)768 << 10)

#define UCT_GLEX_CPUID_7_EBX_ERMS UCS_BIT(9) /* enhanced rep movsb */

static int uct_glex_copy_avoids_string;

/* The family of the processor. UCS knows models only up to Zen 3. */
static unsigned uct_glex_copy_family(void)
{
    unsigned eax, ebx, ecx, edx, family;

    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx)) {
        return 0;
    }
    family = (eax >> 8) & 0xf;
    return (family == 0xf) ? (family + ((eax >> 20) & 0xff)) : family;
}

UCS_STATIC_INIT
{
    unsigned eax, ebx, ecx, edx;

    if ((ucs_arch_get_cpu_vendor() == UCS_CPU_VENDOR_AMD) &&
        (uct_glex_copy_family() >= UCT_GLEX_COPY_FAMILY) &&
        __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && (ebx & UCT_GLEX_CPUID_7_EBX_ERMS)) {
        uct_glex_copy_string_min = UCT_GLEX_COPY_STRING_MIN;
    } else if (slow_move_is_here()) {
        uct_glex_copy_avoids_string = 1;
        uct_glex_copy_string_min = SLOW_MOVE_MIN;
    }
}

void uct_glex_copy_long(void *dst, const void *src, size_t length)
{
    if ((uintptr_t)dst - (uintptr_t)src < length) {
        memmove(dst, src, length); /* `dst` begins within the source: memmove() copies from the
                                    * end */
        return;
    }
    if (uct_glex_copy_avoids_string) {
        slow_move(dst, src, length);
        return;
    }
    asm volatile("rep movsb" : "+D"(dst), "+S"(src), "+c"(length) : : "memory");
}

#else

void uct_glex_copy_long(void *dst, const void *src, size_t length)
{
    memmove(dst, src, length);
}

#endif

/*
 * Which sanitizer this program runs with. The tests' own code is compiled without the address sanitizer,
 * so the compiler does not define __SANITIZE_ADDRESS__: the program asks whether its library is there.
 */
#ifndef TEST_SANITIZER_H
#define TEST_SANITIZER_H

extern "C" {
void __asan_init(void) __attribute__((weak));
int __lsan_do_recoverable_leak_check(void) __attribute__((weak));
}

static inline bool under_asan()
{
    return __asan_init != nullptr;
}

static inline bool under_tsan()
{
#ifdef __SANITIZE_THREAD__
    return true;
#else
    return false;
#endif
}

static inline bool under_sanitizer()
{
    return under_asan() || under_tsan();
}

/** Looks for leaks if the sanitizer can. @return 0: none, or no sanitizer */
static inline int sanitizer_leaks()
{
    return __lsan_do_recoverable_leak_check != nullptr ? __lsan_do_recoverable_leak_check() : 0;
}

#endif

# OPENGLEX_HEAP
# The allocator of the library that "glexrun --shared-heap" preloads: jemalloc as an archive that can be
# linked into a shared library. Sets JEMALLOC_CPPFLAGS and JEMALLOC_LIBS.
AC_DEFUN([OPENGLEX_HEAP], [
    AC_ARG_WITH([jemalloc], [AS_HELP_STRING([--with-jemalloc=PREFIX],
        [for "glexrun --shared-heap": the jemalloc installed in PREFIX, with libjemalloc_pic.a
         @<:@that of the system, if any@:>@])], [], [with_jemalloc=check])
    # The sanitizers have an allocator of their own, and need no other allocator before it. The vendor's
    # libglex does not know the heap.
    AS_IF([test "x$enable_asan$enable_tsan" != xnono || test "x$with_glex" != xno],
          [with_jemalloc=no])
    JEMALLOC_CPPFLAGS=
    JEMALLOC_LIBS=
    AS_CASE([$with_jemalloc],
        [no], [],
        [check | yes], [OPENGLEX_JEMALLOC([`$CC -print-file-name=libjemalloc_pic.a`])],
        [JEMALLOC_CPPFLAGS="-isystem $with_jemalloc/include"
         OPENGLEX_JEMALLOC([$with_jemalloc/lib/libjemalloc_pic.a])])
    AM_CONDITIONAL([BUILD_HEAP], [test "x$with_jemalloc" != xno])
    AC_SUBST([JEMALLOC_CPPFLAGS])
    AC_SUBST([JEMALLOC_LIBS])
])

# OPENGLEX_JEMALLOC(ARCHIVE)
# jemalloc 5.3 or newer keeps its own data out of an arena whose functions are set later.
AC_DEFUN([OPENGLEX_JEMALLOC], [
    # One word: libtool would put the libraries before the archive.
    JEMALLOC_LIBS="-Wl,$1,-lm,-lpthread,-ldl"
    openglex_saved_CPPFLAGS="$CPPFLAGS"
    openglex_saved_LIBS="$LIBS"
    CPPFLAGS="$CPPFLAGS $JEMALLOC_CPPFLAGS"
    LIBS="$JEMALLOC_LIBS $LIBS"
    AC_MSG_CHECKING([for jemalloc 5.3 as an archive for shared libraries])
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[
#include <jemalloc/jemalloc.h>
#if JEMALLOC_VERSION_MAJOR < 5 || (JEMALLOC_VERSION_MAJOR == 5 && JEMALLOC_VERSION_MINOR < 3)
#error too old
#endif
        ]], [[return mallocx(65536, MALLOCX_TCACHE_NONE) == 0;]])],
        [openglex_jemalloc=yes], [openglex_jemalloc=no])
    AC_MSG_RESULT([$openglex_jemalloc])
    CPPFLAGS="$openglex_saved_CPPFLAGS"
    LIBS="$openglex_saved_LIBS"
    AS_CASE([$with_jemalloc/$openglex_jemalloc],
        [*/yes], [AS_IF([test "$with_jemalloc" = check], [with_jemalloc=yes])],
        [check/no], [with_jemalloc=no],
        [OPENGLEX_MISSING([jemalloc 5.3 with libjemalloc_pic.a], [libjemalloc-dev],
            [or configure with --without-jemalloc])])
])

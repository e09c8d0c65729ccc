# OPENGLEX_ERROR(MESSAGE)
# Stop configure with a message that may be folded here and is one line for the user.
AC_DEFUN([OPENGLEX_ERROR], [AC_MSG_ERROR(m4_normalize([$1]))])

# OPENGLEX_MISSING(WHAT, DEBIAN PACKAGE[, FURTHER ADVICE])
# Stop configure: what is missing, and which package of Debian brings it.
AC_DEFUN([OPENGLEX_MISSING], [
    OPENGLEX_ERROR([$1 is missing: install the Debian package $2 m4_default([$3],
        [(contrib/setup installs all that is needed)])])
])

# OPENGLEX_BUILD_OPTIONS
# How to compile. Stands before AC_PROG_CC, whose default of CFLAGS it replaces.
AC_DEFUN([OPENGLEX_BUILD_OPTIONS], [
    AC_ARG_ENABLE([debug], [AS_HELP_STRING([--enable-debug],
        [check internal invariants at run time, and do not optimize])], [], [enable_debug=no])
    AC_ARG_ENABLE([asan], [AS_HELP_STRING([--enable-asan],
        [build with the address and the undefined-behaviour sanitizer])], [], [enable_asan=no])
    AC_ARG_ENABLE([tsan], [AS_HELP_STRING([--enable-tsan],
        [build with the thread sanitizer])], [], [enable_tsan=no])
    AC_ARG_ENABLE([coverage], [AS_HELP_STRING([--enable-coverage],
        [count which lines run, for make coverage])], [], [enable_coverage=no])
    AS_IF([test "x$enable_asan$enable_tsan" = xyesyes],
          [AC_MSG_ERROR([--enable-asan and --enable-tsan exclude each other])])

    AS_IF([test "x$enable_debug" = xyes],
          [AC_DEFINE([OPENGLEX_DEBUG], [1], [Check internal invariants at run time])
           openglex_optimize="-O0 -g3"],
          [openglex_optimize="-O2 -g"])
    openglex_sanitize=
    AS_IF([test "x$enable_asan$enable_debug" = xyesyes],
          [# Without any optimization the sanitizers' checks take twice the time.
           openglex_optimize="-O1 -g1"])
    AS_IF([test "x$enable_asan" = xyes],
          [# UCX's inline functions, which are compiled into ours, copy nothing from NULL.
           openglex_sanitize="-fsanitize=address,undefined -fno-sanitize-recover=undefined"
           openglex_sanitize="$openglex_sanitize -fno-sanitize=nonnull-attribute"])
    AS_IF([test "x$enable_tsan" = xyes],
          [# It warns of every fence, which it does not see.
           openglex_sanitize="-fsanitize=thread -Wno-tsan"
           openglex_optimize="-O1 -g1"])
    AS_IF([test -n "$openglex_sanitize"],
          [openglex_optimize="$openglex_optimize $openglex_sanitize -fno-omit-frame-pointer"
           LDFLAGS="$LDFLAGS $openglex_sanitize"],
          [OPENGLEX_LDFLAGS=-Wl,--no-undefined])
    AS_IF([test "x$enable_coverage" = xyes],
          [# Several processes and threads add to the same counts.
           openglex_optimize="-O0 -g --coverage -fprofile-update=atomic -DOPENGLEX_COVERAGE"
           LDFLAGS="$LDFLAGS --coverage"])
    # For shared libraries. The sanitizers' functions stay undefined there: the program has them.
    AC_SUBST([OPENGLEX_LDFLAGS])
    : ${CFLAGS="$openglex_optimize"}
    # The tests alone are in C++. Without optimization they compile in half of the time. The checks
    # of addresses and of undefined behaviour are for the C code.
    openglex_test_flags=`AS_ECHO(["$openglex_optimize"]) | sed -e 's/-O[[12]] -g1*/-O0 -g1/; s/-g3/-g/'`
    AS_IF([test "x$enable_asan" = xyes], [openglex_test_flags="-O0 -g1"])
    : ${CXXFLAGS="$openglex_test_flags"}
    AM_CONDITIONAL([ENABLE_ASAN], [test "x$enable_asan" = xyes])
])

# OPENGLEX_COMPILER_FLAGS
# What all our own code is compiled with. A user's CFLAGS come after these and win.
AC_DEFUN([OPENGLEX_COMPILER_FLAGS], [
    AC_LANG_PUSH([C++])
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[#include <vector>]])], [],
                      [OPENGLEX_MISSING([a C++ compiler], [g++])])
    AC_LANG_POP([C++])
    # Other compilers warn of other things: that is for who changes the source, not for who uses it.
    AC_ARG_ENABLE([werror], [AS_HELP_STRING([--enable-werror],
        [warnings end the build @<:@in a git checkout@:>@])], [], [
        enable_werror=no
        AS_IF([test -e "$srcdir/.git"], [enable_werror=yes])
    ])
    openglex_warnings="-Wall -Wextra -Wshadow"
    AS_IF([test "x$enable_werror" = xyes], [openglex_warnings="$openglex_warnings -Werror"])
    OPENGLEX_CFLAGS="-std=gnu11 -D_GNU_SOURCE $openglex_warnings -Wmissing-prototypes"
    OPENGLEX_CFLAGS="$OPENGLEX_CFLAGS -Wstrict-prototypes -fvisibility=hidden"
    OPENGLEX_CXXFLAGS="-std=gnu++17 $openglex_warnings"
    AC_SUBST([OPENGLEX_CFLAGS])
    AC_SUBST([OPENGLEX_CXXFLAGS])
])

# OPENGLEX_GLEX
# The GLEX library: ours, built here, or the vendor's. Sets GLEX_CPPFLAGS and GLEX_LIBS.
AC_DEFUN([OPENGLEX_GLEX], [
    AC_ARG_WITH([glex], [AS_HELP_STRING([--with-glex=DIR],
        [use the libglex installed in DIR, such as the vendor's, instead of building ours])],
        [], [with_glex=no])
    AS_CASE([$with_glex],
        [no], [openglex_glex_found="ours, the NIC in shared memory"
               GLEX_CPPFLAGS='-I$(top_srcdir)/src/glex'
               GLEX_LIBS='$(top_builddir)/src/glex/libglex.la'
               AC_DEFINE([HAVE_GLEX_EXT_H], [1])],
        [yes], [AC_MSG_ERROR([--with-glex needs the directory where libglex is installed])],
        [OPENGLEX_VENDOR_GLEX])
    AH_TEMPLATE([HAVE_GLEX_EXT_H], [Define to 1 if libglex has the extensions of glex_ext.h])
    AM_CONDITIONAL([BUILD_GLEX], [test "x$with_glex" = xno])
    AC_SUBST([GLEX_CPPFLAGS])
    AC_SUBST([GLEX_LIBS])
])

AC_DEFUN([OPENGLEX_VENDOR_GLEX], [
    openglex_glex_found="$with_glex"
    GLEX_CPPFLAGS="-isystem $with_glex/include"
    GLEX_LIBS="-L$with_glex/lib -R$with_glex/lib -lglex"
    openglex_saved="$CPPFLAGS|$LIBS|$LDFLAGS"
    CPPFLAGS="$CPPFLAGS $GLEX_CPPFLAGS"
    LDFLAGS="$LDFLAGS -L$with_glex/lib -Wl,-rpath,$with_glex/lib"
    AC_CHECK_HEADER([glex.h], [],
        [AC_MSG_ERROR([no glex.h in $with_glex/include: name the directory of libglex by --with-glex])])
    AC_CHECK_LIB([glex], [glex_open_device], [],
        [AC_MSG_ERROR([no libglex in $with_glex/lib: name the directory of libglex by --with-glex])])
    AC_CHECK_HEADER([glex_ext.h], [AC_DEFINE([HAVE_GLEX_EXT_H], [1])])
    CPPFLAGS="${openglex_saved%%|*}"
    openglex_saved="${openglex_saved#*|}"
    LIBS="${openglex_saved%%|*}"
    LDFLAGS="${openglex_saved#*|}"
])

# OPENGLEX_TESTS
# What the tests are made with.
AC_DEFUN([OPENGLEX_TESTS], [
    AC_ARG_ENABLE([tests], [AS_HELP_STRING([--disable-tests],
        [do not build the tests, which need GoogleTest, MPICH and Open MPI; --enable-tests=bench
         builds only what contrib/bench runs, which needs MPICH and Open MPI])], [],
        [enable_tests=yes])
    AS_CASE([$enable_tests], [yes | no | bench], [],
            [AC_MSG_ERROR([--enable-tests=$enable_tests is unknown: yes, no or bench])])
    AM_CONDITIONAL([ENABLE_TESTS], [test "x$enable_tests" = xyes])
    AC_ARG_ENABLE([fault-injection], [AS_HELP_STRING([--enable-fault-injection],
        [let GLEX_FAULT make the NIC lose, delay and refuse requests, which tests need (default: if
         tests are built)])], [], [enable_fault_injection=$enable_tests])
    AS_IF([test "x$enable_fault_injection" = xyes],
          [AC_DEFINE([OPENGLEX_FAULT_INJECTION], [1], [GLEX_FAULT injects faults])])
    AM_CONDITIONAL([FAULT_INJECTION], [test "x$enable_fault_injection" = xyes])
    openglex_bench=$enable_tests
    AS_IF([test "x$openglex_ucx_source" = xno], [openglex_bench=no])
    AM_CONDITIONAL([ENABLE_BENCH], [test "x$openglex_bench" != xno])
    AC_ARG_VAR([MPICC_MPICH], [MPICH's compiler wrapper])
    AC_ARG_VAR([MPICC_OPENMPI], [Open MPI's compiler wrapper])
    AS_IF([test "x$enable_tests" = xyes], [
        AC_LANG_PUSH([C++])
        AC_CHECK_HEADER([gtest/gtest.h], [],
            [OPENGLEX_MISSING([GoogleTest], [libgtest-dev], [or configure with --disable-tests])])
        AC_LANG_POP([C++])
    ])
    AS_IF([test "x$openglex_bench" != xno], [
        AC_CHECK_PROGS([MPICC_MPICH], [mpicc.mpich])
        AS_IF([test -z "$MPICC_MPICH"],
            [OPENGLEX_MISSING([MPICH], [libmpich-dev], [or configure with --disable-tests])])
        AC_CHECK_PROGS([MPICC_OPENMPI], [mpicc.openmpi])
        AS_IF([test -z "$MPICC_OPENMPI"],
            [OPENGLEX_MISSING([Open MPI], [libopenmpi-dev], [or configure with --disable-tests])])
    ])
    GTEST_LIBS="-lgtest -lpthread"
    GTEST_MAIN_LIBS="-lgtest_main $GTEST_LIBS"
    GTEST_CXXFLAGS='-I$(top_builddir)/test/pch -I$(top_srcdir)/test/pch -include pch.h'
    AC_SUBST([GTEST_CXXFLAGS])
    AC_SUBST([GTEST_LIBS])
    AC_SUBST([GTEST_MAIN_LIBS])
])

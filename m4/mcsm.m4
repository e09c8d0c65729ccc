# OPENGLEX_MCSM
# The subnet manager of logical clusters: libibumad, inih, JSON-C, uthash, libcrypto. It is built, unless it is
# left out by name.
AC_DEFUN([OPENGLEX_MCSM], [
    AC_ARG_ENABLE([mcsm], [AS_HELP_STRING([--disable-mcsm],
        [leave out the subnet manager mcsm, which needs libibumad, inih, JSON-C, uthash and
        libcrypto])], [],
        [enable_mcsm=yes])
    openglex_without="(contrib/setup installs all that is needed), or configure with"
    AS_IF([test "x$enable_mcsm" != xno], [
        _OPENGLEX_MCSM_HEADER([infiniband/umad.h], [libibumad], [libibumad-dev])
        _OPENGLEX_MCSM_HEADER([ini.h], [inih], [libinih-dev])
        _OPENGLEX_MCSM_HEADER([json-c/json.h], [JSON-C], [libjson-c-dev])
        _OPENGLEX_MCSM_HEADER([uthash.h], [uthash], [uthash-dev])
        _OPENGLEX_MCSM_HEADER([openssl/hmac.h], [libcrypto], [libssl-dev])
    ])
    AM_CONDITIONAL([BUILD_MCSM], [test "x$enable_mcsm" != xno])
])

# _OPENGLEX_MCSM_HEADER(HEADER, LIBRARY, DEBIAN PACKAGE)
AC_DEFUN([_OPENGLEX_MCSM_HEADER], [
    AC_CHECK_HEADER([$1], [], [OPENGLEX_MISSING([$2], [$3], [$openglex_without --disable-mcsm])])
])

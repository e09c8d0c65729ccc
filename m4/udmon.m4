# OPENGLEX_UDMON
# What monitoring over UD needs beyond UCX: libibverbs and librdmacm for transport ud_mon, libcrypto
# for libudmon. Each part that cannot be built is left out, or, where asked for by name, an error.
# The agent needs inih, the collector SQLite and libmicrohttpd, udmon-top
# ncurses besides. Sets VERBS_LIBS, CRYPTO_LIBS.
AC_DEFUN([OPENGLEX_UDMON], [
    # Work in progress: built on request only.
    AC_ARG_WITH([verbs], [AS_HELP_STRING([--with-verbs],
        [build the transport ud_mon over InfiniBand and RoCE @<:@no; needs libibverbs and librdmacm@:>@])],
        [], [with_verbs=no])
    AC_ARG_ENABLE([udmon], [AS_HELP_STRING([--enable-udmon],
        [build the monitoring library, agent and collector @<:@no; needs libcrypto@:>@])],
        [], [enable_udmon=no])

    openglex_have_verbs=no
    AS_IF([test "x$with_verbs" != xno], [
        openglex_have_verbs=yes
        AC_CHECK_HEADER([infiniband/verbs.h], [], [openglex_have_verbs=no])
        AC_CHECK_HEADER([rdma/rdma_cma.h], [], [openglex_have_verbs=no])
        AS_IF([test "x$with_verbs$openglex_have_verbs" = xyesno],
              [OPENGLEX_MISSING([libibverbs or librdmacm], [libibverbs-dev librdmacm-dev])])
    ])
    AS_IF([test "x$openglex_have_verbs" = xyes],
          [VERBS_LIBS="-lrdmacm -libverbs"
           AC_DEFINE([HAVE_VERBS], [1], [Define to 1 if libibverbs and librdmacm are there])],
          [VERBS_LIBS=])
    AC_SUBST([VERBS_LIBS])
    AM_CONDITIONAL([HAVE_VERBS], [test "x$openglex_have_verbs" = xyes])

    openglex_have_udmon=no
    AS_IF([test "x$enable_udmon" != xno], [
        openglex_have_udmon=yes
        AC_CHECK_HEADER([openssl/hmac.h], [], [openglex_have_udmon=no])
        AS_IF([test "x$enable_udmon$openglex_have_udmon" = xyesno],
              [OPENGLEX_MISSING([libcrypto], [libssl-dev])])
    ])
    CRYPTO_LIBS=-lcrypto
    AC_SUBST([CRYPTO_LIBS])
    AM_CONDITIONAL([BUILD_UDMON], [test "x$openglex_have_udmon" = xyes])

    # The programs, where what they need is there.
    openglex_have_agent=$openglex_have_udmon
    AC_CHECK_HEADER([ini.h], [], [openglex_have_agent=no])
    AM_CONDITIONAL([BUILD_UDMON_AGENT], [test "x$openglex_have_agent" = xyes])
    openglex_have_collector=$openglex_have_udmon
    AC_CHECK_HEADER([sqlite3.h], [], [openglex_have_collector=no])
    AC_CHECK_HEADER([microhttpd.h], [], [openglex_have_collector=no])
    AM_CONDITIONAL([BUILD_UDMON_COLLECTOR], [test "x$openglex_have_collector" = xyes])
    openglex_have_top=$openglex_have_collector
    AC_CHECK_HEADER([curses.h], [], [openglex_have_top=no])
    AM_CONDITIONAL([BUILD_UDMON_TOP], [test "x$openglex_have_top" = xyes])
])

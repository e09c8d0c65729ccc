# OPENGLEX_UDMON
# What monitoring over UD needs beyond UCX. Transport ud_mon: libibverbs and librdmacm. libudmon:
# OpenSSL; its agent inih, its collector SQLite, libmicrohttpd, json-c, zlib, snappy, libyaml and libcurl, udmon-top libcurl and ncurses. All
# of it is built, unless it is left out by name. Sets VERBS_LIBS, CRYPTO_LIBS.
AC_DEFUN([OPENGLEX_UDMON], [
    AC_ARG_WITH([verbs], [AS_HELP_STRING([--without-verbs],
        [leave out the transport ud_mon over InfiniBand and RoCE, which needs libibverbs and
         librdmacm])], [], [with_verbs=yes])
    AS_IF([test "x$openglex_ucx_source" = xno], [with_verbs=no])
    AC_ARG_ENABLE([udmon], [AS_HELP_STRING([--disable-udmon],
        [leave out the monitoring library, agent and collector, which need OpenSSL, inih, SQLite,
         libmicrohttpd, json-c, zlib, snappy, libyaml, libcurl and
         ncurses])], [], [enable_udmon=yes])

    AC_ARG_WITH([chartjs], [AS_HELP_STRING([--with-chartjs=FILE],
        [Chart.js, which goes into the collector's page
         @<:@/usr/share/javascript/chart.js/chart.min.js@:>@])],
        [CHART_JS=$with_chartjs], [CHART_JS=/usr/share/javascript/chart.js/chart.min.js])
    AC_SUBST([CHART_JS])

    openglex_without="(contrib/setup installs all that is needed), or configure with"
    AS_IF([test "x$with_verbs" != xno], [
        _OPENGLEX_UDMON_HEADER([infiniband/verbs.h], [libibverbs], [libibverbs-dev],
                               [--without-verbs])
        _OPENGLEX_UDMON_HEADER([rdma/rdma_cma.h], [librdmacm], [librdmacm-dev], [--without-verbs])
        VERBS_LIBS="-lrdmacm -libverbs"
        AC_DEFINE([HAVE_VERBS], [1], [Define to 1 if libibverbs and librdmacm are there])
    ], [VERBS_LIBS=])
    AC_SUBST([VERBS_LIBS])
    AM_CONDITIONAL([HAVE_VERBS], [test "x$with_verbs" != xno])

    AS_IF([test "x$enable_udmon" != xno], [
        _OPENGLEX_UDMON_HEADER([openssl/ssl.h], [OpenSSL], [libssl-dev], [--disable-udmon])
        _OPENGLEX_UDMON_HEADER([ini.h], [inih], [libinih-dev], [--disable-udmon])
        _OPENGLEX_UDMON_HEADER([sqlite3.h], [SQLite], [libsqlite3-dev], [--disable-udmon])
        _OPENGLEX_UDMON_HEADER([microhttpd.h], [libmicrohttpd], [libmicrohttpd-dev],
                               [--disable-udmon])
        _OPENGLEX_UDMON_HEADER([crypt.h], [libxcrypt], [libcrypt-dev], [--disable-udmon])
        _OPENGLEX_UDMON_HEADER([snappy-c.h], [snappy], [libsnappy-dev], [--disable-udmon])
        _OPENGLEX_UDMON_HEADER([yaml.h], [libyaml], [libyaml-dev], [--disable-udmon])
        _OPENGLEX_UDMON_HEADER([zlib.h], [zlib], [zlib1g-dev], [--disable-udmon])
        _OPENGLEX_UDMON_HEADER([json-c/json.h], [json-c], [libjson-c-dev], [--disable-udmon])
        AS_IF([test -f "$CHART_JS"], [],
            [OPENGLEX_MISSING([Chart.js], [libjs-chart.js],
                              [$openglex_without --with-chartjs=FILE or --disable-udmon])])
        _OPENGLEX_UDMON_HEADER([curl/curl.h], [libcurl], [libcurl4-openssl-dev], [--disable-udmon])
        _OPENGLEX_UDMON_HEADER([curses.h], [ncurses], [libncurses-dev], [--disable-udmon])
    ])
    CRYPTO_LIBS="-lssl -lcrypto"
    AC_SUBST([CRYPTO_LIBS])
    AM_CONDITIONAL([BUILD_UDMON], [test "x$enable_udmon" != xno])
    _OPENGLEX_UDMON_DIMMON
])

# The module for the DiMMon agent, whose headers are in its source: system headers, since their
# warnings are not ours. Sets DIMMON_SOURCE, DIMMON_CPPFLAGS.
AC_DEFUN([_OPENGLEX_UDMON_DIMMON], [
    AC_ARG_WITH([dimmon], [AS_HELP_STRING([--with-dimmon=DIR],
        [make the module for the DiMMon agent whose source is in DIR @<:@no@:>@])], [],
        [with_dimmon=no])
    AS_CASE([$with_dimmon],
        [no], [],
        [yes], [AC_MSG_ERROR([--with-dimmon needs the directory of DiMMon's source])],
        [AS_IF([test "x$enable_udmon" = xno],
               [AC_MSG_ERROR([--with-dimmon makes a module of udmon: leave out --disable-udmon])])
         with_dimmon=`cd "$with_dimmon" 2>/dev/null && pwd`
         AS_IF([test -f "$with_dimmon/dmm_base.h"], [],
               [OPENGLEX_ERROR([there is no dmm_base.h in the directory that --with-dimmon names: it
                                has to be the source of DiMMon (srcc-msu/dimmon)])])])
    AS_IF([test "x$with_dimmon" != xno],
          [DIMMON_SOURCE=$with_dimmon DIMMON_CPPFLAGS="-isystem $with_dimmon"],
          [DIMMON_SOURCE= DIMMON_CPPFLAGS=])
    AC_SUBST([DIMMON_SOURCE])
    AC_SUBST([DIMMON_CPPFLAGS])
    AM_CONDITIONAL([WITH_DIMMON], [test "x$with_dimmon" != xno])
])

# _OPENGLEX_UDMON_HEADER(HEADER, LIBRARY, DEBIAN PACKAGE, OPTION THAT DOES WITHOUT)
AC_DEFUN([_OPENGLEX_UDMON_HEADER], [
    AC_CHECK_HEADER([$1], [], [OPENGLEX_MISSING([$2], [$3], [$openglex_without $4])])
])

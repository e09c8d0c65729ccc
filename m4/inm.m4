# OPENGLEX_INM
# What network management needs: inih, SQLite, libmicrohttpd, json-c, libsodium, libcurl, zlib. All
# of it is built, unless it is left out by name; it works over our own libglex only.
AC_DEFUN([OPENGLEX_INM], [
    AC_ARG_ENABLE([inm], [AS_HELP_STRING([--disable-inm],
        [leave out the in-band network management, which needs inih, SQLite, libmicrohttpd, json-c,
         libsodium, libcurl and zlib])], [], [enable_inm=yes])
    AS_IF([test "x$with_glex" != xno], [enable_inm=no])
    AS_IF([test "x$enable_inm" != xno], [
        _OPENGLEX_INM_HEADER([ini.h], [inih], [libinih-dev])
        _OPENGLEX_INM_HEADER([sqlite3.h], [SQLite], [libsqlite3-dev])
        _OPENGLEX_INM_HEADER([microhttpd.h], [libmicrohttpd], [libmicrohttpd-dev])
        _OPENGLEX_INM_HEADER([json-c/json.h], [json-c], [libjson-c-dev])
        _OPENGLEX_INM_HEADER([sodium.h], [libsodium], [libsodium-dev])
        _OPENGLEX_INM_HEADER([curl/curl.h], [libcurl], [libcurl4-openssl-dev])
        _OPENGLEX_INM_HEADER([zlib.h], [zlib], [zlib1g-dev])
    ])
    AM_CONDITIONAL([BUILD_INM], [test "x$enable_inm" != xno])
])

# _OPENGLEX_INM_HEADER(HEADER, LIBRARY, DEBIAN PACKAGE)
AC_DEFUN([_OPENGLEX_INM_HEADER], [
    AC_CHECK_HEADER([$1], [], [OPENGLEX_MISSING([$2], [$3],
        [(contrib/setup installs all that is needed), or configure with --disable-inm])])
])

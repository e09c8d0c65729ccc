# OPENGLEX_COMMATRIX
# What commatrix needs: libpcap, libarchive and GLib to read, cairo, json-c and SCOTCH to
# show. It is built, unless it is left out by name. Sets COMMATRIX_CPPFLAGS, COMMATRIX_LIBS and
# COMMATRIX_SHOW_LIBS.
AC_DEFUN([OPENGLEX_COMMATRIX], [
    AC_ARG_ENABLE([commatrix], [AS_HELP_STRING([--disable-commatrix],
        [leave out commatrix, which needs libpcap, GLib, libarchive, cairo, json-c and SCOTCH])], [], [enable_commatrix=yes])
    COMMATRIX_CPPFLAGS= COMMATRIX_LIBS= COMMATRIX_SHOW_LIBS=
    AS_IF([test "x$enable_commatrix" != xno], [
        _OPENGLEX_COMMATRIX_PACKAGE([glib-2.0], [GLib], [libglib2.0-dev])
        COMMATRIX_LIBS="$openglex_libs -lpcap -larchive"
        _OPENGLEX_COMMATRIX_PACKAGE([cairo], [cairo], [libcairo2-dev])
        _OPENGLEX_COMMATRIX_HEADER([pcap/pcap.h], [libpcap], [libpcap-dev])
        _OPENGLEX_COMMATRIX_HEADER([archive.h], [libarchive], [libarchive-dev])
        _OPENGLEX_COMMATRIX_HEADER([json-c/json.h], [json-c], [libjson-c-dev])
        openglex_cppflags=$CPPFLAGS
        CPPFLAGS="$CPPFLAGS -isystem /usr/include/scotch"
        AC_CHECK_HEADER([scotch.h], [], [OPENGLEX_MISSING([SCOTCH], [libscotch-dev],
            [(contrib/setup installs all that is needed), or configure with --disable-commatrix])],
            [#include <stdio.h>
             #include <stdint.h>])
        CPPFLAGS=$openglex_cppflags
        COMMATRIX_CPPFLAGS="$COMMATRIX_CPPFLAGS -isystem /usr/include/scotch"
        # What later versions of GLib have deprecated is what older ones have.
        COMMATRIX_CPPFLAGS="$COMMATRIX_CPPFLAGS -DGLIB_VERSION_MIN_REQUIRED=GLIB_VERSION_2_72"
        COMMATRIX_SHOW_LIBS="$openglex_libs -ljson-c -lscotch -lscotcherr -lm"
    ])
    AC_SUBST([COMMATRIX_CPPFLAGS])
    AC_SUBST([COMMATRIX_LIBS])
    AC_SUBST([COMMATRIX_SHOW_LIBS])
    AM_CONDITIONAL([BUILD_COMMATRIX], [test "x$enable_commatrix" != xno])
])

# _OPENGLEX_COMMATRIX_PACKAGE(PKG-CONFIG NAME, LIBRARY, DEBIAN PACKAGE)
# Sets openglex_libs; its include directories are system headers, since their warnings are not ours.
AC_DEFUN([_OPENGLEX_COMMATRIX_PACKAGE], [
    AS_IF([pkg-config --exists $1 2>/dev/null], [],
          [OPENGLEX_MISSING([$2], [$3], [(contrib/setup installs all that is needed), or configure
                                         with --disable-commatrix])])
    openglex_libs=`pkg-config --libs $1`
    COMMATRIX_CPPFLAGS="$COMMATRIX_CPPFLAGS `pkg-config --cflags $1 | sed 's/-I/-isystem /g'`"
])

# _OPENGLEX_COMMATRIX_HEADER(HEADER, LIBRARY, DEBIAN PACKAGE)
AC_DEFUN([_OPENGLEX_COMMATRIX_HEADER], [
    AC_CHECK_HEADER([$1], [], [OPENGLEX_MISSING([$2], [$3],
        [(contrib/setup installs all that is needed), or configure with --disable-commatrix])])
])

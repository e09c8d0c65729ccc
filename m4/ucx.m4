# OPENGLEX_UCX
# The installed UCX and the source of exactly that version: a transport is built against UCX's
# internal headers, and these change from version to version. What configure of the installed
# UCX found out (its config.h, which decides the layout of structures) `ucx_info -b` prints. Without
# the source there are no transports, and no provider, which is over one.
#
# Sets UCX_CPPFLAGS (system headers: their warnings are not ours), UCX_LIBS for programs, and
# UCX_MODULE_LIBS for the transport.
AC_DEFUN([OPENGLEX_UCX], [
    AC_ARG_WITH([ucx], [AS_HELP_STRING([--with-ucx=PREFIX],
        [the UCX to make a transport for @<:@that of ucx_info in PATH@:>@])], [], [with_ucx=])
    AC_ARG_WITH([ucx-source], [AS_HELP_STRING([--with-ucx-source=DIR],
        [the source of that UCX @<:@where contrib/setup puts it@:>@; --without-ucx-source leaves out
         the transports and the libfabric provider])], [], [with_ucx_source=])
    AS_CASE([$with_ucx], [yes|no], [AC_MSG_ERROR([--with-ucx needs the directory of a UCX])])
    AS_CASE([$with_ucx_source], [yes],
            [AC_MSG_ERROR([--with-ucx-source needs the directory of UCX's source])])
    AM_CONDITIONAL([BUILD_TRANSPORT], [test "x$with_ucx_source" != xno])

    _OPENGLEX_UCX_INSTALLED
    _OPENGLEX_UCX_BUILD_ID
    AS_IF([test "x$with_ucx_source" = xno], [openglex_ucx_source=no], [_OPENGLEX_UCX_SOURCE])
    AC_SUBST([UCX_SOURCE], [$openglex_ucx_source])
    _OPENGLEX_UCX_FLAGS
    _OPENGLEX_UCX_CHECK
    AC_CONFIG_COMMANDS([ucx/config.h], [
        AS_MKDIR_P([ucx])
        # Without the names of the package, so that a file may include both config.h and openglex.h.
        "$UCX_INFO" -b | $SED '/^#define \(PACKAGE\|VERSION\|LT_OBJDIR\)/d' >ucx/config.h.new
        AS_IF([grep -q UCX_CONFIG_H ucx/config.h.new], [],
              [AC_MSG_ERROR([$UCX_INFO -b does not print the configuration of UCX])])
        AS_IF([cmp -s ucx/config.h.new ucx/config.h], [rm ucx/config.h.new],
              [mv ucx/config.h.new ucx/config.h])
    ], [UCX_INFO='$UCX_INFO' SED='$SED'])
])

AC_DEFUN([_OPENGLEX_UCX_INSTALLED], [
    AC_ARG_VAR([UCX_INFO], [the program ucx_info of the UCX to make a transport for])
    AS_IF([test -n "$with_ucx"], [UCX_INFO="$with_ucx/bin/ucx_info"],
          [AC_PATH_PROG([UCX_INFO], [ucx_info])])
    AS_IF([test -x "$UCX_INFO"], [],
          [OPENGLEX_MISSING([ucx_info], [ucx-utils], [or name the UCX to use by --with-ucx])])
    AC_MSG_CHECKING([for the version of UCX])
    # "# Version 1.13.1", in newer ones "# Library version: 1.18.1"
    openglex_ucx_version=`"$UCX_INFO" -v 2>&1 |
        $SED -n 's/^# \(Library v\|V\)ersion:* *\(@<:@0-9.@:>@*\).*/\2/p' | $SED 1q`
    AS_IF([test -n "$openglex_ucx_version"], [],
          [AC_MSG_ERROR([$UCX_INFO -v does not tell its version: is it the ucx_info of UCX?])])
    AC_MSG_RESULT([$openglex_ucx_version])
    AC_SUBST([UCX_VERSION], [$openglex_ucx_version])
    AC_SUBST([UCX_MINOR], [`echo "$openglex_ucx_version" | $SED "s/^\(@<:@0-9@:>@*\.@<:@0-9@:>@*\).*/\1/"`])
    AC_DEFINE_UNQUOTED([UCX_VERSION], ["$openglex_ucx_version"],
        [Version of the UCX that the transport is made for])
])

# Which build of that version: by it the transport knows the libuct that it was made for. Of the
# libuct that ucx_info loads, since that one's config.h is what the transport is compiled with.
AC_DEFUN([_OPENGLEX_UCX_BUILD_ID], [
    AC_CHECK_TOOL([READELF], [readelf])
    AS_IF([test -n "$READELF"], [], [OPENGLEX_MISSING([readelf], [binutils])])
    AC_MSG_CHECKING([for the build-id of libuct.so.0])
    AC_ARG_VAR([UCX_LIBUCT], [the libuct.so.0 that ucx_info loads, where ldd cannot tell it: cross builds])
    openglex_libuct="$UCX_LIBUCT"
    AS_IF([test -z "$openglex_libuct"], [
        openglex_libuct=`ldd "$UCX_INFO" | $SED -n 's/.*libuct\.so\.0 => \(.*\) (.*/\1/p'`
    ])
    AS_IF([test -n "$openglex_libuct"], [], [
        AC_MSG_RESULT([no])
        OPENGLEX_ERROR([ldd does not tell which libuct.so.0 $UCX_INFO loads: is it a program, and
                        are the libraries of its UCX where the dynamic linker finds them?])
    ])
    openglex_ucx_libraries=`dirname "$openglex_libuct"`
    _OPENGLEX_BUILD_ID([UCM], [libucm])
    _OPENGLEX_BUILD_ID([UCS], [libucs])
    _OPENGLEX_BUILD_ID([UCT], [libuct])
    _OPENGLEX_BUILD_ID([UCP], [libucp])
    AC_MSG_RESULT([${openglex_build_id_UCT:-none, its version has to do}])
    AC_SUBST([UCX_BUILD_ID], [$openglex_build_id_UCT])
    AC_DEFINE_UNQUOTED([UCX_BUILD_ID], ["$openglex_build_id_UCT"],
        [GNU build-id of the libuct that the transport is made for, empty if it has none])
])

# The build-id of a library beside libuct, for the file ucx-build; "-" if the library has none.
AC_DEFUN([_OPENGLEX_BUILD_ID], [
    openglex_build_id_$1=`"$READELF" -n "$openglex_ucx_libraries/$2.so.0" | $SED -n 's/^ *Build ID: *//p'`
    AC_SUBST([LIB$1_BUILD_ID], [${openglex_build_id_$1:--}])
])

AC_DEFUN([_OPENGLEX_UCX_SOURCE], [
    AC_MSG_CHECKING([for the source of UCX])
    openglex_ucx_source="$with_ucx_source"
    AS_IF([test -z "$openglex_ucx_source"], [
        openglex_cache="${XDG_CACHE_HOME:-$HOME/.cache}/openglex"
        openglex_ucx_source="$openglex_cache/ucx-$openglex_ucx_version"
    ])
    AC_MSG_RESULT([$openglex_ucx_source])
    AS_IF([test -f "$openglex_ucx_source/src/uct/base/uct_iface.h"], [],
          [OPENGLEX_ERROR([no source of UCX there: contrib/setup fetches it (Debian's source package
                         ucx), or name its directory by --with-ucx-source, or do without the transports by
                         --without-ucx-source])])
    openglex_ucx_source_version=`$SED -n \
        's/^.*ucx_ver_\(major\|minor\|patch\)., *\(@<:@0-9@:>@@<:@0-9@:>@*\).*/\2/p' \
        "$openglex_ucx_source/configure.ac" | tr '\n' . | $SED 's/\.$//'`
    AS_IF([test "x$openglex_ucx_source_version" = "x$openglex_ucx_version"], [],
          [OPENGLEX_ERROR([the source in $openglex_ucx_source is UCX $openglex_ucx_source_version, but
                         $UCX_INFO is of UCX $openglex_ucx_version: run contrib/setup, or name the
                         right source by --with-ucx-source])])
])

AC_DEFUN([_OPENGLEX_UCX_FLAGS], [
    UCX_CPPFLAGS='-isystem $(top_builddir)/ucx'
    AS_IF([test "x$openglex_ucx_source" != xno],
          [UCX_CPPFLAGS="$UCX_CPPFLAGS -isystem $openglex_ucx_source/src"])
    UCX_LIBS="-l:libuct.so.0 -l:libucs.so.0"
    # One word, since libtool changes the order of words. Needed by name even where nothing is
    # used of them: preloaded into a program that is not of UCX, the transport must bring UCX along.
    UCX_MODULE_LIBS="-Wl,--push-state,--no-as-needed,-l:libuct.so.0,-l:libucs.so.0,--pop-state"
    AS_IF([test -n "$with_ucx"], [
        UCX_CPPFLAGS="$UCX_CPPFLAGS -isystem $with_ucx/include"
        UCX_LIBS="-L$with_ucx/lib -Wl,-rpath,$with_ucx/lib $UCX_LIBS"
        # By path: the linker looks where an -L in -Wl leads after the system's directories.
        UCX_MODULE_LIBS=`AS_ECHO(["$UCX_MODULE_LIBS"]) | $SED "s|-l:|$with_ucx/lib/|g"`
        UCX_MODULE_LIBS="-Wl,-rpath,$with_ucx/lib $UCX_MODULE_LIBS"
    ])
    AC_SUBST([UCX_CPPFLAGS])
    AC_SUBST([UCX_LIBS])
    AC_SUBST([UCX_MODULE_LIBS])
])

AC_DEFUN([_OPENGLEX_UCX_CHECK], [
    openglex_saved_CPPFLAGS="$CPPFLAGS"
    openglex_saved_LIBS="$LIBS"
    AS_IF([test -n "$with_ucx"], [CPPFLAGS="$CPPFLAGS -isystem $with_ucx/include"])
    AC_CHECK_HEADER([uct/api/version.h], [], [OPENGLEX_MISSING([uct/api/version.h], [libucx-dev])])
    AC_MSG_CHECKING([whether the headers of UCX are of version $openglex_ucx_version])
    AC_COMPILE_IFELSE([AC_LANG_SOURCE([[
        #include <uct/api/version.h>
        _Static_assert(sizeof(UCT_VERNO_STRING) == sizeof("$openglex_ucx_version") &&
                       !__builtin_strcmp(UCT_VERNO_STRING, "$openglex_ucx_version"), "");
    ]])], [AC_MSG_RESULT([yes])], [
        AC_MSG_RESULT([no])
        OPENGLEX_ERROR([the header uct/api/version.h is not of UCX $openglex_ucx_version, the version of
                      $UCX_INFO: install libucx-dev of the same version as libucx0])
    ])
    LIBS="$UCX_LIBS $LIBS"
    AC_MSG_CHECKING([for libuct.so.0 and libucs.so.0])
    AC_LINK_IFELSE([AC_LANG_CALL([], [uct_component_register])],
        [AC_MSG_RESULT([yes])],
        [AC_MSG_RESULT([no])
         OPENGLEX_MISSING([libuct.so.0], [libucx0])])
    CPPFLAGS="$openglex_saved_CPPFLAGS"
    LIBS="$openglex_saved_LIBS"
])

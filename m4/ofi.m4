# OPENGLEX_OFI
# The libfabric provider: built where libfabric is, unless it is left out. Sets OFI_CPPFLAGS,
# OFI_LIBS and ofiproviderdir, where make install puts it.
AC_DEFUN([OPENGLEX_OFI], [
    AC_ARG_WITH([libfabric], [AS_HELP_STRING([--with-libfabric=PREFIX],
        [the libfabric to make the provider for @<:@the system's@:>@;
         --without-libfabric leaves the provider out])], [], [with_libfabric=yes])
    AS_IF([test "x$openglex_ucx_source" = xno], [with_libfabric=no])
    AC_ARG_WITH([ofi-providerdir], [AS_HELP_STRING([--with-ofi-providerdir=DIR],
        [where to install the provider @<:@with the default prefix libfabric's own directory, so
         that every program finds it; else LIBDIR/libfabric, which FI_PROVIDER_PATH has to
         name@:>@])], [], [with_ofi_providerdir=])

    OFI_CPPFLAGS= OFI_LIBS=
    AS_CASE([$with_libfabric],
        [no], [],
        [yes], [OFI_LIBS=-lfabric],
        [OFI_CPPFLAGS="-isystem $with_libfabric/include"
         OFI_LIBS="-L$with_libfabric/lib -Wl,-rpath,$with_libfabric/lib -lfabric"])
    AS_IF([test "x$with_libfabric" != xno], [
        openglex_saved_CPPFLAGS="$CPPFLAGS"
        openglex_saved_LIBS="$LIBS"
        CPPFLAGS="$CPPFLAGS $OFI_CPPFLAGS"
        LIBS="$OFI_LIBS $LIBS"
        AC_CHECK_HEADER([rdma/providers/fi_prov.h], [], [OPENGLEX_MISSING([libfabric],
            [libfabric-dev], [(contrib/setup installs all that is needed), or configure with
            --without-libfabric])])
        AC_MSG_CHECKING([for libfabric 1.17 or newer])
        AC_LINK_IFELSE([AC_LANG_PROGRAM([[
            #include <rdma/fabric.h>
            #if FI_MAJOR_VERSION == 1 && FI_MINOR_VERSION < 17
            #error too old
            #endif
        ]], [[return fi_version() == 0;]])], [AC_MSG_RESULT([yes])], [
            AC_MSG_RESULT([no])
            OPENGLEX_ERROR([libfabric is older than 1.17, or cannot be linked with: install
                            libfabric-dev, name another one by --with-libfabric, or configure with
                            --without-libfabric])
        ])
        CPPFLAGS="$openglex_saved_CPPFLAGS"
        LIBS="$openglex_saved_LIBS"
    ])
    _OPENGLEX_OFI_PROVIDERDIR
    AC_SUBST([OFI_CPPFLAGS])
    AC_SUBST([OFI_LIBS])
    AM_CONDITIONAL([BUILD_OFI], [test "x$with_libfabric" != xno])
])

AC_DEFUN([_OPENGLEX_OFI_PROVIDERDIR], [
    ofiproviderdir="$with_ofi_providerdir"
    AS_IF([test -z "$ofiproviderdir" && test "x$with_libfabric" = xyes], [
        AS_CASE([$prefix], [NONE|/usr|/usr/local], [
            openglex_libdir=`pkg-config --variable=libdir libfabric 2>/dev/null`
            AS_IF([test -n "$openglex_libdir"], [ofiproviderdir="$openglex_libdir/libfabric"])
        ])
    ])
    AS_IF([test -z "$ofiproviderdir"], [ofiproviderdir='${libdir}/libfabric'])
    AC_SUBST([ofiproviderdir])
])

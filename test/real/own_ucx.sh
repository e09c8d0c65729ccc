#!/bin/bash
# own_ucx.sh [DIR...]: programs that bring a UCX of their own run on that UCX under glexrun, and say in
# one line that they run without glex. DIR holds the libraries of another UCX; without DIR they are
# compiled from the source of the installed UCX, with another configuration and another version
# (second_ucx.mk), into the user's cache: a minute, once.
set -eu
# shellcheck source=test/real/lib.sh
. "$(dirname "$0")/lib.sh"

unset UCX_TLS UCX_LOG_LEVEL LD_PRELOAD LD_LIBRARY_PATH
libraries=$(dirname "$(ldd "$(configured UCX_INFO "$build")" | sed -n 's/.*libuct\.so\.0 => \(.*\) (.*/\1/p')")
here=$(cd "$(dirname "$0")" && pwd)
include=$(dirname "$(dirname "$(configured UCX_INFO "$build")")")/include

# Alters the last bytes of the build-id of a library.
alter_build_id()
{
    local offset
    offset=$(readelf -S -W "$1" |
        sed -n 's/.*\.note\.gnu\.build-id *NOTE *[0-9a-f]* *\([0-9a-f]*\) .*/\1/p')
    [ -n "$offset" ] || return 1
    printf '\001\002' | dd of="$1" conv=notrunc bs=1 seek=$((0x$offset + 34)) 2>/dev/null
}

# altered NAME LIBRARY...: a directory of copies, of which these have another build-id
altered()
{
    local dir=$work/$1 library
    shift
    mkdir -p "$dir"
    for library; do
        cp "$libraries/lib$library.so.0" "$dir/"
        alter_build_id "$dir/lib$library.so.0"
    done
    echo "$dir"
}

# ---- a second real UCX ---------------------------------------------------------------------------

# The configuration of the installed UCX, without devices and modules. The debug data changes the
# layout of structures, so that a mixture of both builds would not work by chance.
second_config()
{
    UCX_LOG_LEVEL=error "$(configured UCX_INFO "$build")" -b |
        sed -E -e '/^#define HAVE_(IB|TL|CUDA|HIP|ROCM|RDMACM|DEVX|MLX5|DC_)/d' \
            -e '/^#define [a-z_]*_MODULES/s/".*"/""/' -e 's/^(#define ENABLE_DEBUG_DATA) .*/\1 1/'
}

# What the compiled libraries depend on
second_fingerprint()
{
    {
        cat "$here/second_ucx.mk"
        second_config
        gcc --version
        printf '%s\n' "$1"
    } | sha256sum | cut -c 1-12
}

# Sets `second` to the directory of the libraries. The source has the version that configure found.
second_ucx()
{
    local cache flags headers source version
    cache=$(user_cache)
    flags=$(configured UCX_CPPFLAGS "$build")
    source=$(sed -n 's|^.*-isystem \([^ ]*\)/src\( .*\)*$|\1|p' <<<"$flags")
    headers=${flags#* } # after "-isystem DIR"
    headers=${headers#* }
    version=$(configured UCX_VERSION "$build")
    second=$cache/ucx-second-$version-$(second_fingerprint "$source")
    mkdir -p "$cache"
    exec 9>"$cache/ucx-second.lock"
    flock 9
    if [ ! -e "$second/complete" ]; then
        rm -rf "$second"
        mkdir -p "$second"
        second_config >"$second/config.h"
        make -C "$second" -f "$here/second_ucx.mk" -j"$(nproc)" source="$source" ucx="$second" \
            headers="$headers" version="${version%.*}.99" CC="$(configured CC "$build")" \
            >"$second.log" 2>&1 9>&- || return 1
        rm -rf "$second/objects" "$second.log"
        touch "$second/complete"
    fi
    exec 9>&-
}

# The second UCX as some distributors bundle it: libuct holds libucs and libucm.
static_ucs()
{
    local dir=$work/static-ucs
    mkdir -p "$dir"
    gcc -shared -Wl,-soname,libuct.so.0 -Wl,--build-id -o "$dir/libuct.so.0" -Wl,--whole-archive \
        "$second"/libuc{m,s,t}.a -Wl,--no-whole-archive "${system_libraries[@]}"
    gcc -shared -Wl,-soname,libucp.so.0 -Wl,--build-id -o "$dir/libucp.so.0" -Wl,--whole-archive \
        "$second/libucp.a" -Wl,--no-whole-archive "$dir/libuct.so.0" -Wl,-rpath,"\$ORIGIN" \
        "${system_libraries[@]}"
    echo "$dir"
}

# The same in one library
all_in_one()
{
    local dir=$work/one
    mkdir -p "$dir"
    gcc -shared -Wl,-soname,libucp.so.0 -Wl,--build-id -o "$dir/libucp.so.0" -Wl,--whole-archive \
        "$second"/libuc{m,s,t,p}.a -Wl,--no-whole-archive "${system_libraries[@]}"
    echo "$dir"
}

# ---- the ways in which a program finds its UCX ---------------------------------------------------

# Each way is a function way_NAME DIR that sets `command`.

# compile FILE DIR OPTION...: ucx_user.c, linked with the libucp in DIR
compile()
{
    local file=$1 dir=$2
    shift 2
    gcc -w -I"$include" -o "$file" "$here/ucx_user.c" -Wl,--no-as-needed -L"$dir" -l:libucp.so.0 \
        -Wl,-rpath-link,"$dir:$libraries" "$@"
}

rpath()
{
    printf -- '-Wl,--disable-new-dtags,-rpath,%s' "$1"
}

runpath()
{
    printf -- '-Wl,--enable-new-dtags,-rpath,%s' "$1"
}

way_linked()
{
    compile "$work/linked" "$1" "$(rpath "$1")"
    command=("$work/linked")
}

way_linked_by_RUNPATH()
{
    compile "$work/linked" "$1" "$(runpath "$1")"
    command=("$work/linked")
}

# one_level_above DIR OPTION: OPTION finds the libucp of the library between program and UCX.
one_level_above()
{
    compile "$work/libabove.so" "$1" -DLIBRARY -shared -fPIC "$2"
    echo 'int use_ucx(const char *); int main(void) { return use_ucx(0); }' |
        gcc -o "$work/above" -x c - -x none "$work/libabove.so" "$(runpath "$work")" \
            -Wl,-rpath-link,"$1:$libraries"
    command=("$work/above")
}

way_one_level_above()
{
    one_level_above "$1" "$(rpath "$1")"
}

way_one_level_above_by_RUNPATH()
{
    one_level_above "$1" "$(runpath "$1")"
}

# The program opens libucp itself, and asks dlsym() for its functions.
way_dlopen()
{
    gcc -w -I"$include" -o "$work/dlopen" "$here/ucx_user.c" "$(rpath "$1")"
    command=("$work/dlopen" "$1/libucp.so.0")
}

# A plug-in that is linked to libucp: opened with RTLD_LOCAL or RTLD_GLOBAL
plugin()
{
    compile "$work/libplugin.so" "$1" -DLIBRARY -shared -fPIC "$(runpath "$1")"
    printf '%s\n' '#include <dlfcn.h>' '#include <stdio.h>' \
        'int main(int argc, char **argv)' \
        '{' \
        "    void *handle = dlopen(argv[1], RTLD_NOW | RTLD_$2);" \
        '    int (*use)(const char *) = handle ? dlsym(handle, "use_ucx") : NULL;' \
        '    return use ? use(0) : (puts(dlerror()), 2);' \
        '}' | gcc -o "$work/opener" -x c -
    command=("$work/opener" "$work/libplugin.so")
}

way_plugin_RTLD_LOCAL()
{
    plugin "$1" LOCAL
}

way_plugin_RTLD_GLOBAL()
{
    plugin "$1" GLOBAL
}

way_LD_LIBRARY_PATH()
{
    compile "$work/plain" "$libraries"
    command=(env LD_LIBRARY_PATH="$1" "$work/plain")
}

way_Python_ctypes()
{
    local script='import ctypes, sys; l = ctypes.CDLL(sys.argv[1]); sys.exit(l.use_ucx(None))'
    compile "$work/libpython_user.so" "$1" -DLIBRARY -shared -fPIC "$(runpath "$1")"
    command=(python3 -c "$script" "$work/libpython_user.so")
}

# A wheel loads the UCX that it brings first; the library above finds it by its name.
way_Python_wheel()
{
    local script='import ctypes, sys; [l] = [ctypes.CDLL(a) for a in sys.argv[1:]][-1:]
sys.exit(l.use_ucx(None))'
    compile "$work/libwheel.so" "$1" -DLIBRARY -shared -fPIC
    command=(python3 -c "$script" "$1/libucp.so.0" "$work/libwheel.so")
}
ways=(linked linked_by_RUNPATH one_level_above one_level_above_by_RUNPATH dlopen plugin_RTLD_LOCAL
    plugin_RTLD_GLOBAL LD_LIBRARY_PATH Python_ctypes Python_wheel)

# ---- what happens --------------------------------------------------------------------------------

# under_glexrun STATUS COMMAND...: output in $work/out and $work/err
under_glexrun()
{
    local wanted=$1 status=0
    shift
    timeout 60 "$top/contrib/glexrun" "$@" >"$work/out" 2>"$work/err" || status=$?
    [ "$status" -eq "$wanted" ] || printf 'status %d: %s\n' "$status" "$(head -3 "$work/err")"
}

runs_without_glex()
{
    local name=$1 problem
    problem=$(under_glexrun 0 "${command[@]}")
    if [ -z "$problem" ] && grep -q 'resource.*glex' "$work/out"; then
        problem="glex is among the transports"
    elif [ -z "$problem" ] && ! grep -q 'self/memory' "$work/out"; then
        problem="the program has no transports"
    elif [ -z "$problem" ] &&
        [ "$(grep -c '^glex: not used: .*the program runs on its own UCX' "$work/err")" -ne 1 ]; then
        problem="not one line of why: $(cat "$work/err")"
    fi
    [ -n "$problem" ] || problem=$(GLEX_REQUIRE=y under_glexrun 1 "${command[@]}")
    result "$name" "$problem"
}

# runs_with_glex NAME [OTHERS]: with glex, and with OTHERS also other transports
runs_with_glex()
{
    local name=$1 problem
    problem=$(under_glexrun 0 "${command[@]}")
    if [ -z "$problem" ] && ! grep -q 'glex/gni0' "$work/out"; then
        problem="glex is not there: $(cat "$work/err")"
    elif [ -z "$problem" ] && [ -z "${2:-}" ] && grep -q 'resource.*/memory$' "$work/out"; then
        problem="GLEX_UCX_TLS has no effect"
    elif [ -z "$problem" ] && [ -s "$work/err" ]; then
        problem="it says: $(cat "$work/err")"
    fi
    result "$name" "$problem"
}

result()
{
    if [ -z "$2" ]; then
        ok "own_ucx $1"
    else
        not_ok "own_ucx $1" "$2"
    fi
}

test_ways()
{
    local name=$1 dir=$2 way
    for way in "${ways[@]}"; do
        "way_$way" "$dir"
        runs_without_glex "$name, ${way//_/ }"
    done
}

# The transport's own UCX, found in the same ways. A program that asks dlsym() for ucp_config_read()
# in the libucp that it has opened reaches that function past all preloaded libraries: its UCX
# chooses among all transports.
test_right_ucx()
{
    local way
    for way in "${ways[@]}"; do
        "way_$way" "$libraries"
        runs_with_glex "of the transport, ${way//_/ }" "$(sed -n '/dlopen/s/.*/others/p' <<<"$way")"
    done
}

# Each library of UCX counts: a mixture of two builds crashes in any of them.
test_mixtures()
{
    local library
    for library in ucp ucs ucm; do
        way_LD_LIBRARY_PATH "$(altered "only-$library" "$library")"
        runs_without_glex "with another lib$library alone"
        grep -q "lib$library" "$work/err" ||
            not_ok "own_ucx names lib$library" "$(cat "$work/err")"
    done
}

# The transport that fits is taken from several.
test_side_by_side()
{
    local right=$build/src/uct/glex/.libs
    mkdir -p "$work/wrong"
    sed 's/^libuct .*/libuct 0123456789/; s/^version .*/version 9.9.9/' "$right/ucx-build" \
        >"$work/wrong/ucx-build"
    way_LD_LIBRARY_PATH "$libraries"
    GLEX_TRANSPORTS=$work/wrong:$right runs_with_glex "of the second of two transports"
    GLEX_TRANSPORTS=$work/wrong runs_without_glex "with a transport for another UCX alone"
    grep -q 'installed for UCX 9\.9\.9' "$work/err" ||
        not_ok "own_ucx names the version" "$(cat "$work/err")"
}

# The user's UCX_TLS stays.
test_tls()
{
    way_LD_LIBRARY_PATH "$libraries"
    UCX_TLS=tcp,self under_glexrun 0 "${command[@]}" >"$work/problem"
    if grep -q 'resource.*glex' "$work/out"; then
        echo "glex is used against UCX_TLS" >>"$work/problem"
    elif ! grep -q '^glexrun: UCX_TLS=tcp,self leaves glex out' "$work/err"; then
        echo "no warning" >>"$work/problem"
    fi
    result "keeps UCX_TLS, and warns" "$(cat "$work/problem")"
}

# Libraries of the second UCX that hold others
test_static()
{
    local dir way
    dir=$(static_ucs)
    for way in linked LD_LIBRARY_PATH plugin_RTLD_LOCAL; do
        "way_$way" "$dir"
        runs_without_glex "libucs in libuct, ${way//_/ }"
    done
    dir=$(all_in_one)
    for way in linked dlopen Python_ctypes; do
        "way_$way" "$dir"
        runs_without_glex "all of UCX in libucp, ${way//_/ }"
    done
}

# Nothing of such a program can be replaced, so nothing can speak in its process.
test_static_program()
{
    local problem
    gcc -w -I"$include" -rdynamic -o "$work/static" "$here/ucx_user.c" -Wl,--whole-archive \
        "$second"/libuc{m,s,t,p}.a -Wl,--no-whole-archive "${system_libraries[@]}"
    problem=$(under_glexrun 0 "$work/static")
    if [ -z "$problem" ] && ! grep -q '^version .*\.99$' "$work/out"; then
        problem="another UCX: $(head -1 "$work/out")"
    elif [ -z "$problem" ] && grep -q 'resource.*glex' "$work/out"; then
        problem="glex is among the transports"
    elif [ -z "$problem" ] && [ -s "$work/err" ]; then
        problem="it says: $(cat "$work/err")"
    fi
    [ -n "$problem" ] || problem=$(under_glexrun 3 --check "$work/static")
    if [ -z "$problem" ] && ! grep -q 'linked to it statically' "$work/err"; then
        problem="--check does not say why: $(cat "$work/err")"
    fi
    result "all of UCX in the program" "$problem"
}

system_libraries=(-lm -ldl -lrt -lpthread)
! second_config | grep -q '^#define HAVE_NUMA ' || system_libraries+=(-lnuma)

cp "$libraries/libuct.so.0" "$work/"
if ! alter_build_id "$work/libuct.so.0"; then
    skip "own_ucx" "the libraries of UCX have no build-ids to alter"
    exit 0
fi
test_right_ucx
if [ $# -gt 0 ]; then
    for dir; do
        test_ways "$dir" "$dir"
    done
elif second_ucx; then
    test_ways "second UCX" "$second"
    test_static
    test_static_program
else
    not_ok "own_ucx second UCX" "cannot be compiled: $second.log"
    show "$second.log"
fi
test_mixtures
test_side_by_side
test_tls

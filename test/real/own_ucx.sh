#!/bin/bash
# own_ucx.sh [DIR...]: programs that bring a UCX of their own run on that UCX under glexrun, and say in
# one line that they run without glex. DIR holds the libraries of another UCX; without DIR they are
# copies of the installed ones with other build-ids.
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

# The ways in which a program finds its UCX, each a function CASE DIR that sets `command`.
way_linked()
{
    gcc -w -I"$include" -o "$work/linked" "$here/ucx_user.c" -Wl,--no-as-needed \
        -L"$1" -l:libucp.so.0 -Wl,-rpath,"$1" -Wl,--disable-new-dtags -Wl,-rpath-link,"$1:$libraries"
    command=("$work/linked")
}

way_one_level_above()
{
    gcc -w -DLIBRARY -I"$include" -shared -fPIC -o "$work/libabove.so" "$here/ucx_user.c" \
        -Wl,--no-as-needed -L"$1" -l:libucp.so.0 -Wl,-rpath,"$1" -Wl,--disable-new-dtags \
        -Wl,-rpath-link,"$1:$libraries"
    echo 'int use_ucx(const char *); int main(void) { return use_ucx(0); }' |
        gcc -o "$work/above" -x c - -x none "$work/libabove.so" -Wl,-rpath,"$work:$1" \
            -Wl,--disable-new-dtags -Wl,-rpath-link,"$1:$libraries"
    command=("$work/above")
}

way_dlopen()
{
    gcc -w -I"$include" -o "$work/dlopen" "$here/ucx_user.c" -Wl,-rpath,"$1" \
        -Wl,--disable-new-dtags
    command=("$work/dlopen" "$1/libucp.so.0")
}

way_library_path()
{
    gcc -w -I"$include" -o "$work/plain" "$here/ucx_user.c" -Wl,--no-as-needed \
        -L"$libraries" -l:libucp.so.0
    command=(env LD_LIBRARY_PATH="$1" "$work/plain")
}

way_python()
{
    local script='import ctypes, sys; l = ctypes.CDLL(sys.argv[1]); sys.exit(l.use_ucx(None))'
    gcc -w -DLIBRARY -I"$include" -shared -fPIC -o "$work/libpython_user.so" "$here/ucx_user.c" \
        -Wl,--no-as-needed -L"$1" -l:libucp.so.0 -Wl,-rpath,"$1" -Wl,--disable-new-dtags \
        -Wl,-rpath-link,"$1:$libraries"
    command=(env LD_LIBRARY_PATH="$1" python3 -c "$script" "$work/libpython_user.so")
}
ways=(linked one_level_above dlopen library_path python)

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
        way_library_path "$(altered "only-$library" "$library")"
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
    way_library_path "$libraries"
    GLEX_TRANSPORTS=$work/wrong:$right runs_with_glex "of the second of two transports"
    GLEX_TRANSPORTS=$work/wrong runs_without_glex "with a transport for another UCX alone"
    grep -q 'installed for UCX 9\.9\.9' "$work/err" ||
        not_ok "own_ucx names the version" "$(cat "$work/err")"
}

# The user's UCX_TLS stays.
test_tls()
{
    way_library_path "$libraries"
    UCX_TLS=tcp,self under_glexrun 0 "${command[@]}" >"$work/problem"
    if grep -q 'resource.*glex' "$work/out"; then
        echo "glex is used against UCX_TLS" >>"$work/problem"
    elif ! grep -q '^glexrun: UCX_TLS=tcp,self leaves glex out' "$work/err"; then
        echo "no warning" >>"$work/problem"
    fi
    result "keeps UCX_TLS, and warns" "$(cat "$work/problem")"
}

cp "$libraries/libuct.so.0" "$work/"
if ! alter_build_id "$work/libuct.so.0"; then
    skip "own_ucx" "the libraries of UCX have no build-ids to alter"
    exit 0
fi
test_right_ucx
if [ $# -eq 0 ]; then
    test_ways "copy" "$(altered copy ucp uct ucs ucm)"
fi
for dir; do
    test_ways "$dir" "$dir"
done
test_mixtures
test_side_by_side
test_tls

#!/bin/sh
# The transport stays out of a libuct that it was not built for: it says so in one line, and the
# program goes on without it. Foreign ones are the installed libraries with another build-id or
# version, found first by the dynamic linker.
# shellcheck source=test/clients/common.sh
. "${srcdir:-.}/../clients/common.sh"

transport=$(cd ../../src/uct/glex/.libs && pwd)/libuct_glex.so
ucx_info=${UCX_INFO:-ucx_info}
libraries=$(dirname "$(ldd "$ucx_info" | sed -n 's/.*libuct\.so\.0 => \(.*\) (.*/\1/p')")
unset UCX_TLS LD_PRELOAD

# A transport with a sanitizer needs that one's library before all others.
sanitizers=$(ldd "$transport" | sed -n 's/.*lib[au]b*san\.so\.[0-9]* => \(.*\) (.*/\1/p' |
    tr '\n' ':')

# Run ucx_info -d with the libraries of a directory before the installed ones.
run()
{
    limited env LD_LIBRARY_PATH="$1" LD_PRELOAD="$sanitizers$transport" \
        ASAN_OPTIONS=detect_leaks=0 "$ucx_info" -d > "$work/out" 2> "$work/err" < /dev/null ||
        fail "ucx_info failed: $?"
    grep -q 'Transport: self' "$work/out" || fail "ucx_info -d does not list transports"
}

explain()
{
    cat "$work/err" >&2
    fail "$*"
}

accepted()
{
    run "$1"
    grep -q 'Transport: glex' "$work/out" || explain "no glex with $2"
    ! grep 'not loaded' "$work/out" "$work/err" || fail "refused $2"
}

# refused DIRECTORY WHAT FOUND: one line that names what it was built for, and what was found.
refused()
{
    run "$1"
    ! grep 'glex' "$work/out" || fail "glex is there with $2"
    [ "$(wc -l < "$work/err")" -eq 1 ] || explain "not one line of why $2 is refused"
    grep -q "^glex: not loaded: built for UCX $UCX_VERSION .* found $1/libuct\.so\.0 of $3: build" \
        "$work/err" || explain "not said why $2 is refused"
}

# copy DIRECTORY: an own copy of UCX's libraries, to be altered.
copy()
{
    mkdir "$work/$1"
    cp "$libraries/libuct.so.0" "$libraries/libucp.so.0" "$work/$1"
}

# The place of the build-id in the file: after the header of the note, which is of 16 bytes.
build_id_offset()
{
    readelf -S -W "$1" | sed -n 's/.*\.note\.gnu\.build-id *NOTE *[0-9a-f]* *\([0-9a-f]*\) .*/\1/p'
}

build_id()
{
    readelf -n "$1" | sed -n 's/^ *Build ID: *//p'
}

# What other versions lack must not end the program: see glex_weak.h.
strong=$(nm -D --undefined-only "$transport" | sed -n 's/.* U \(uct_.*\)/\1/p')
[ -z "$strong" ] || fail "no weak references in glex_weak.h: $strong"

accepted '' 'the libuct that it was built for'

copy same
accepted "$work/same" 'the same libuct elsewhere'

# The end of it, so that the whole of it must be compared.
copy rebuilt
offset=$(build_id_offset "$work/rebuilt/libuct.so.0")
[ -n "$offset" ] || {
    echo "skipped: the libuct of $ucx_info has no build-id to alter"
    exit 77
}
printf '\001\002' | dd of="$work/rebuilt/libuct.so.0" conv=notrunc bs=1 seek=$((0x$offset + 34)) \
    2> "$work/dd" || fail "$(cat "$work/dd")"
id=$(build_id "$work/rebuilt/libuct.so.0")
[ "${id%????}0102" = "$id" ] || fail "the build-id was not altered: $id"
refused "$work/rebuilt" 'another build of libuct' "build-id $id"

# It lacks a function besides: newer versions have no uct_md_set_rcache_params.
copy newer
LC_ALL=C sed 's/uct_md_set_rcache_params/uct_md_sEt_rcache_params/' "$work/rebuilt/libuct.so.0" \
    > "$work/newer/libuct.so.0"
nm -D "$work/newer/libuct.so.0" | grep -q uct_md_sEt_rcache_params || fail "no function was removed"
refused "$work/newer" 'a libuct that lacks a function' "build-id $id"

# Without a build-id the version decides.
copy nameless
objcopy --remove-section .note.gnu.build-id "$work/nameless/libuct.so.0"
[ -z "$(build_id "$work/nameless/libuct.so.0")" ] || fail "the build-id was not removed"
accepted "$work/nameless" 'a libuct of the same version, without build-id'

other=$(echo "$UCX_VERSION" | tr 0-9 1-90)
LC_ALL=C sed "s/$(echo "$UCX_VERSION" | sed 's/\./\\./g')/$other/g" "$libraries/libucp.so.0" \
    > "$work/nameless/libucp.so.0"
refused "$work/nameless" 'another version, without build-id' "version $other"

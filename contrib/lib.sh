# shellcheck shell=bash
# Shared by the scripts of contrib/ and test/real/: where things are, and how a script speaks.
# Sourced, after `set -eu`.

# Scripts read what programs print: keep their messages in one language. With CDPATH cd prints, and
# may go elsewhere.
export LC_ALL=C.UTF-8
unset LANGUAGE CDPATH

# shellcheck disable=SC2034
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
me=${0##*/}

say()
{
    printf '%s: %s\n' "$me" "$*"
}

die()
{
    printf '%s: %s\n' "$me" "$*" >&2
    exit 1
}

have()
{
    command -v "$1" >/dev/null 2>&1
}

# Run a command whose output matters only if it fails.
quietly()
{
    local out status=0
    out=$("$@" 2>&1 </dev/null) || status=$?
    [ "$status" -eq 0 ] || printf '%s\n' "$out" >&2
    return "$status"
}

# Run a command as root: at once, or through sudo.
as_root()
{
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif have sudo; then
        sudo "$@"
    else
        die "this needs root, and there is no sudo: run it as root: $*"
    fi
}

# Run a command as the person who typed it: under sudo, not as root, whose files he could not
# change.
as_user()
{
    if [ "$(id -u)" -eq 0 ] && [ -n "${SUDO_USER:-}" ] && [ "$SUDO_USER" != root ]; then
        sudo -H -u "$SUDO_USER" -- "$@"
    else
        "$@"
    fi
}

home_of()
{
    getent passwd "$1" | cut -d: -f6
}

# Where that person's caches are. Under sudo XDG_CACHE_HOME is not his any more; services have no
# HOME.
user_cache()
{
    if [ "$(id -u)" -eq 0 ] && [ -n "${SUDO_USER:-}" ] && [ "$SUDO_USER" != root ]; then
        printf '%s\n' "$(home_of "$SUDO_USER")/.cache/openglex"
    else
        printf '%s\n' "${XDG_CACHE_HOME:-${HOME:-$(home_of "$(id -u)")}/.cache}/openglex"
    fi
}

# How to configure libglex and the transport alone.
# shellcheck disable=SC2034
core_only=(--without-verbs --without-libfabric --disable-udmon --disable-commatrix --disable-mcsm
    --disable-inm)

# Seconds as people read them.
duration()
{
    printf '%d:%02d\n' $(($1 / 60)) $(($1 % 60))
}

# Under sudo, only setup is for root: go on as the person who typed the command, whose files the
# build makes.
drop_sudo()
{
    if [ "$(id -u)" -eq 0 ] && [ -n "${SUDO_USER:-}" ] && [ "$SUDO_USER" != root ]; then
        exec sudo -H -u "$SUDO_USER" -- "$top/contrib/$me" "$@"
    fi
}

# build_tree DIRECTORY [CONFIGURE OPTION...]: configure and make out of the tree, doing only what is
# left to do. What the tools say is in DIRECTORY/build.log, the options in DIRECTORY/options. A tree
# that a script has configured with other options is configured again; one that was configured by
# hand stays as it is.
build_tree()
{
    local dir=$1
    shift
    [ ! -e "$top/config.status" ] ||
        die "the source tree itself is configured, which forbids builds outside: make distclean"
    mkdir -p "$dir"
    say "building in $dir"
    if ! make_tree "$dir" "$@" >"$dir/build.log" 2>&1 </dev/null; then
        tail -n 25 "$dir/build.log" >&2
        say "the build failed: see $dir/build.log" >&2
        return 1
    fi
}

# A variable of the configuration of a build directory.
configured()
{
    sed -n "s/^$1 = *//p" "$2/Makefile"
}

# By which the transport knows the libuct that it was made for; nothing if it has none.
libuct_build_id()
{
    local libuct
    libuct=$(ldd "$(command -v ucx_info)" | sed -n 's/.*libuct\.so\.0 => \(.*\) (.*/\1/p')
    readelf -n "$libuct" | sed -n 's/^ *Build ID: *//p'
}

# Whether a tree was configured by a script with other options than these.
other_options()
{
    local file=$1
    shift
    [ -e "$file" ] && [ "$(cat "$file")" != "$*" ]
}

make_tree()
{
    local dir=$1
    shift
    [ -x "$top/configure" ] || "$top/autogen.sh" || return
    # Another UCX asks for a new configuration.
    if [ ! -e "$dir/Makefile" ] || other_options "$dir/options" "$@" ||
        ! ucx_info -v | grep -q "ersion:* $(configured UCX_VERSION "$dir")\$" ||
        [ "$(libuct_build_id)" != "$(configured UCX_BUILD_ID "$dir")" ]; then
        (cd "$dir" && "$top/configure" "$@") || return
        printf '%s\n' "$*" >"$dir/options"
    fi
    make -C "$dir" -j"$(nproc)"
}

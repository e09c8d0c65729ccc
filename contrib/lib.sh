# shellcheck shell=bash
# Shared by the scripts of contrib/ and test/real/: where things are, and how a script speaks.
# Sourced, after `set -eu`.

# Scripts read what programs print: keep their messages in one language.
export LC_ALL=C.UTF-8

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

# Where that person's caches are. Under sudo XDG_CACHE_HOME is not his any more.
user_cache()
{
    local home
    if [ "$(id -u)" -eq 0 ] && [ -n "${SUDO_USER:-}" ] && [ "$SUDO_USER" != root ]; then
        home=$(getent passwd "$SUDO_USER" | cut -d: -f6)
        printf '%s\n' "$home/.cache/openglex"
    else
        printf '%s\n' "${XDG_CACHE_HOME:-$HOME/.cache}/openglex"
    fi
}

# Seconds as people read them.
duration()
{
    printf '%d:%02d\n' $(($1 / 60)) $(($1 % 60))
}

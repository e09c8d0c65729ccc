# shellcheck shell=bash
# Shared by the tests of commatrix: sourced, with `srcdir` and `abs_top_builddir` set by make, or by
# test/commatrix/run.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=${abs_top_builddir:-${OPENGLEX_BUILD:-$here/../../build}}
# shellcheck disable=SC2034
commatrix=$build/src/commatrix/commatrix
work=$(mktemp -d "${TMPDIR:-/tmp}/commatrix-test.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
export LC_ALL=C.UTF-8
# What fontconfig keeps for the next text is no leak of ours. Neither are the 36 bytes that SCOTCH keeps of
# an architecture made of a graph after SCOTCH_archExit().
printf 'leak:libfontconfig\nleak:libscotch\n' >"$work/suppressions"
export LSAN_OPTIONS=suppressions=$work/suppressions:print_suppressions=0${LSAN_OPTIONS:+:$LSAN_OPTIONS}

fail()
{
    printf 'failed: %s\n' "$*" >&2
    exit 1
}

skip()
{
    printf 'skipped: %s\n' "$*"
    exit 77
}

# status WANTED COMMAND...: its output is in $work/out and $work/err
status()
{
    local wanted=$1 got=0
    shift
    "$@" >"$work/out" 2>"$work/err" </dev/null || got=$?
    [ "$got" -eq "$wanted" ] || fail "exit status $got, not $wanted, of: $*: $(cat "$work/err")"
}

# says PATTERN: standard error of the last command
says()
{
    grep -q -e "$1" "$work/err" || fail "no \"$1\" in: $(cat "$work/err")"
}

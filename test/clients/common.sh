# shellcheck shell=sh
# Shared by the tests that run programs: a shared-memory directory of their own, removed at the
# end, and a limit on everything that could hang.

set -eu

test_name=$(basename "$0" .sh)
work=$(mktemp -d "${TMPDIR:-/tmp}/glex-test.XXXXXX")
GLEX_SHM_DIR=$(mktemp -d /dev/shm/glex-test.XXXXXX)
GLEX_FABRIC=$test_name
export GLEX_SHM_DIR GLEX_FABRIC
# shellcheck disable=SC2034 # used by who reads this file
fabric_dir=$GLEX_SHM_DIR/glex-$(id -u)/$GLEX_FABRIC
unset GLEX_FAULT GLEX_STATS GLEX_NIC_ID GLEX_NUM_NICS

clean_up()
{
    rm -rf "$work" "$GLEX_SHM_DIR"
}
trap clean_up EXIT
trap 'exit 1' HUP INT TERM

fail()
{
    echo "$test_name: $*" >&2
    exit 1
}

limited()
{
    timeout -k 5 90 "$@"
}

# A program that ends leaves nothing behind.
assert_no_segments()
{
    left=$(find "$GLEX_SHM_DIR" -type f)
    [ -z "$left" ] || fail "left in shared memory: $left"
}

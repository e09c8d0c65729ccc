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

# job SIZE SAYING PROGRAM [THREADS]: SIZE processes of a program with job.h all succeed, and rank 0
# prints SAYING, a regular expression.
job()
{
    size=$1 saying=$2 program=$3
    shift 3
    directory=$(mktemp -d "$work/job.XXXXXX")
    pids='' failed='' rank=0
    while [ "$rank" -lt "$size" ]; do
        limited ./"$program" "$directory" "$rank" "$size" "$@" > "$directory.$rank" &
        pids="$pids $!"
        rank=$((rank + 1))
    done
    for pid in $pids; do
        wait "$pid" || failed=yes
    done
    cat "$directory".*
    [ -z "$failed" ] || fail "$program, $size processes, ${1:-1} threads: failed"
    grep -q "$saying" "$directory.0" || fail "$program, $size processes: rank 0 did not print: $saying"
}

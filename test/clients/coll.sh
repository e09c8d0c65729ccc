#!/bin/sh
# Collectives by offload under MPI, which carries the addresses.
# shellcheck source=test/clients/common.sh
. "${srcdir:-.}/common.sh"

# With the sanitizers: what MPI itself never frees is not ours.
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"

# collective RANKS PROGRAM SAYING [OPTION...]
collective()
{
    ranks=$1 program=$2 saying=$3
    shift 3
    limited mpirun.mpich -n "$ranks" ./"$program" -c 5 "$@" > "$work/out" ||
        { cat "$work/out"; fail "$program with $ranks ranks failed"; }
    grep -q "^$ranks ranks, .*: $saying$" "$work/out" ||
        { cat "$work/out"; fail "$program with $ranks ranks did not say: $saying"; }
}

# Only the smallest is measured as well: MPI's own with more ranks than processors take long.
for options in '2 -d 2 -n 20' '3 -d 1 -n 0' '5 -d 2 -n 0' '9 -d 8 -n 0'; do
    # shellcheck disable=SC2086 # the number of ranks, and options with their values
    set -- $options
    collective "$1" coll_barrier 'nobody left a barrier too early' "$2" "$3" "$4" "$5"
    collective "$1" coll_allreduce 'every sum is right' "$2" "$3" "$4" "$5"
done
# A busy NIC is asked again.
(
    export GLEX_FAULT=busy=0.3
    collective 3 coll_allreduce 'every sum is right' -d 2 -n 0
)
assert_no_segments

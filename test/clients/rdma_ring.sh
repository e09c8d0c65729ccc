#!/bin/sh
# The ring under MPI.
# shellcheck source=test/clients/common.sh
. "${srcdir:-.}/common.sh"

# With the sanitizers: what MPI itself never frees is not ours.
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"

ring()
{
    ranks=$1
    shift
    limited "$@" mpirun.mpich -n "$ranks" ./rdma_ring > "$work/out" ||
        { cat "$work/out"; fail "$ranks ranks failed"; }
    cat "$work/out"
    grep -q "^$ranks ranks, .* every block everywhere$" "$work/out" ||
        fail "$ranks ranks did not say that every block came"
}

ring 4
ring 2
# A busy NIC is asked again.
ring 3 env GLEX_FAULT=busy=0.3
assert_no_segments

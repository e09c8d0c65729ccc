#!/bin/sh
# The ring under MPI, four ranks and two.
. "${srcdir:-.}/common.sh"

# With the sanitizers: what MPI itself never frees is not ours.
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"

for ranks in 4 2; do
    limited mpirun.mpich -n $ranks ./rdma_ring > "$work/out" ||
        { cat "$work/out"; fail "$ranks ranks failed"; }
    cat "$work/out"
    grep -q "^$ranks ranks, .* every block everywhere$" "$work/out" ||
        fail "$ranks ranks did not say that every block came"
done
assert_no_segments

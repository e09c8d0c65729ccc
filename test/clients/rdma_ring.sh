#!/bin/sh
# The ring under MPI, four ranks and two.
. "${srcdir:-.}/common.sh"

for ranks in 4 2; do
    limited mpirun.mpich -n $ranks ./rdma_ring > "$work/out" ||
        { cat "$work/out"; fail "$ranks ranks failed"; }
    cat "$work/out"
    grep -q "^$ranks ranks, .* every block everywhere$" "$work/out" ||
        fail "$ranks ranks did not say that every block came"
done
assert_no_segments

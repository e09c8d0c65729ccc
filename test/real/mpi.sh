#!/bin/bash
# MPICH and Open MPI with our own programs, which check every byte: mpi.sh [CHANNELS...]
set -eu
# shellcheck source=test/real/lib.sh
. "$(dirname "$0")/lib.sh"

# A job of 4 ranks tries the messages of a channel alone; windows, and jobs of 2, are tried with all.
# test_library LIBRARY CHANNELS
test_library()
{
    local library=$1 channels=$2 ranks few=(2 4)
    [ "$channels" = er,sr ] || few=(4)
    for ranks in "${few[@]}"; do
        prefix="$library $channels $ranks ranks"
        case $ranks in
        2) mpi "$prefix pingpong" 600 "$library" 2 "$programs/$library/pingpong" ;;
        *) mpi "$prefix pingpong" 240 "$library" "$ranks" "$programs/$library/pingpong" 4194304 ;;
        esac
        mpi "$prefix many_to_one" 600 "$library" "$ranks" "$programs/$library/many_to_one"
        mpi "$prefix all_to_all" 600 "$library" "$ranks" "$programs/$library/all_to_all" 65536
        [ "$channels" = er,sr ] || continue
        mpi "$prefix flavors" 180 "$library" "$ranks" "$programs/$library/flavors"
        mpi "$prefix one_sided" 180 "$library" "$ranks" "$programs/$library/one_sided" 65536
    done
    for ranks in 16 32; do
        mpi "$library $channels $ranks ranks all_to_all" 240 "$library" "$ranks" \
            "$programs/$library/all_to_all" 16
    done
}

# mpirun starts glexrun, and not the other way round.
test_inner()
{
    local library=$1 name="$1 mpirun glexrun pingpong"
    run "$name" 60 "mpirun.$library" -n 2 "$GLEXRUN" "$programs/$library/pingpong" 100000 ||
        return 0
    finish "$name" program_problem connections_problem counters_problem fabric_problem
}

# Windows of memory that MPI has from UCX, where UCP uses the transport's atomic operations. MPICH
# has memory of its own, and does such things by messages.
test_atomics()
{
    local name="openmpi 4 ranks one_sided allocate"
    GLEX_PRIVATE_RDMA=n run "$name" 180 "$GLEXRUN" mpirun.openmpi -n 4 \
        "$programs/openmpi/one_sided" 65536 allocate || return 0
    finish "$name" program_problem connections_problem counters_problem atomics_problem fabric_problem
}

for library in mpich openmpi; do
    if ! have "mpirun.$library"; then
        skip "$library" "mpirun.$library is not installed"
        continue
    fi
    test_inner "$library"
    [ "$library" != openmpi ] || test_atomics
    for channels in "${@:-er,sr}"; do
        UCX_GLEX_CHANNELS=$channels test_library "$library" "$channels"
    done
done

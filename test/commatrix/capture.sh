#!/bin/bash
# GLEX_CAPTURE: an MPI job over glex, and the matrix of its ranks.
# shellcheck source=test/commatrix/lib.sh
. "$(dirname "$0")/lib.sh"

[ -z "${COMMATRIX_NO_GLEX:-}" ] || skip "this build has another libglex"
! ldd "$build/src/uct/glex/.libs/libuct_glex.so" | grep -q libasan ||
    skip "stock programs cannot load a transport that is built with a sanitizer"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OPENGLEX_BUILD=$build
export GLEX_FABRIC=cmcap-$$ GLEX_CAPTURE=$work/job.pcapng
glexrun=$here/../../contrib/glexrun

# job MPIRUN PROGRAM PATTERN RANKS: and the pairs of its matrix must be what the pattern says
job()
{
    local mpirun=$1 program=$2 pattern=$3 ranks=$4 more=
    [[ $mpirun != *openmpi* ]] || more=--oversubscribe
    PMPI_COUNT=$work/count timeout -k 5 120 "$glexrun" "$mpirun" $more -n "$ranks" \
        "$build/test/commatrix/$program" "$pattern" 10 65536 >"$work/log" 2>&1 ||
        fail "$mpirun: $(tail -n 3 "$work/log")"
    status 0 "$commatrix" --by rank --json "$GLEX_CAPTURE"
    cp "$work/out" "$work/$program.json"
    jq -e '.by == "rank" and .capture.lost == 0 and .capture.duplicates == 0' "$work/out" >/dev/null ||
        fail "$(jq -c '[.by, .ranks, .capture]' "$work/out")"
}

# The rank that each one sends most to is the next one, whichever MPI library it is.
for mpi in openmpi:pattern mpich:pattern_mpich; do
    [ -x "$build/test/commatrix/${mpi#*:}" ] || continue
    job "mpirun.${mpi%:*}" "${mpi#*:}" ring 4
    found=$(jq -r '.cells | group_by(.from)[] | max_by(.payload_bytes) | .from + ">" + .to' "$work/out" |
        tr '\n' ' ')
    [ "$found" = '0>1 1>2 2>3 3>0 ' ] || fail "${mpi%:*}: the ring is $found"
    # what rank r sends: 10 messages of 16384 (r + 1) bytes, and UCX's headers
    jq -e 'all(.cells[] | select((.to | tonumber) == ((.from | tonumber) + 1) % 4);
        .payload_bytes / (163840 * ((.from | tonumber) + 1)) | . >= 1 and . < 1.05)' "$work/out" \
        >/dev/null || fail "${mpi%:*}: bytes $(jq -c '[.cells[] | [.from, .to, .payload_bytes]]' "$work/out")"
done

# A second job begins the file anew; a file that cannot be written is an error with a reason.
[ "$("$commatrix" --json --by rank "$GLEX_CAPTURE" | jq '.names | length')" -eq 4 ] || fail "not anew"
export GLEX_CAPTURE=$work/none/job.pcapng
! timeout 60 "$glexrun" mpirun.openmpi --oversubscribe -n 2 "$build/test/commatrix/pattern" ring 1 64 \
    >"$work/log" 2>&1 || fail "a job without its capture"
grep -q 'GLEX_CAPTURE=.*No such file' "$work/log" || fail "no reason in: $(head -n 3 "$work/log")"

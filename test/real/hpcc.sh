#!/bin/bash
# Debian's hpcc, the HPC Challenge benchmark, under Open MPI at a small size: its own checks of the
# residuals must say PASSED. hpcc.sh [CHANNELS...]
set -eu
# shellcheck source=test/real/lib.sh
. "$(dirname "$0")/lib.sh"

hpcc()
{
    local name="hpcc openmpi $1 4 ranks"
    hpcc_input >"$work/hpccinf.txt"
    rm -f "$work/hpccoutf.txt"
    run "$name" 400 "$GLEXRUN" mpirun.openmpi -n 4 --wdir "$work" hpcc || return 0
    finish "$name" hpcc_problem connections_problem counters_problem fabric_problem
}

if ! have hpcc || ! have mpirun.openmpi; then
    skip hpcc "hpcc and mpirun.openmpi are not both installed"
    exit 0
fi
for channels in "${@:-er,sr}"; do
    UCX_GLEX_CHANNELS=$channels hpcc "$channels"
done

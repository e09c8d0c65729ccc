#!/bin/bash
# Debian's hpcc, the HPC Challenge benchmark, under Open MPI at a small size: its own checks of the
# residuals must say PASSED. hpcc.sh [CHANNELS...]
set -eu
# shellcheck source=test/real/lib.sh
. "$(dirname "$0")/lib.sh"

# Sizes for seconds, not for figures: one matrix of 600 on 2 x 2 processes.
input()
{
    cat <<'END'
HPLinpack benchmark input file
openglex
HPL.out      output file name (if any)
8            device out (6=stdout,7=stderr,file)
1            # of problems sizes (N)
600          Ns
1            # of NBs
60           NBs
0            PMAP process mapping (0=Row-,1=Column-major)
1            # of process grids (P x Q)
2            Ps
2            Qs
16.0         threshold
1            # of panel fact
2            PFACTs (0=left, 1=Crout, 2=Right)
1            # of recursive stopping criterium
4            NBMINs (>= 1)
1            # of panels in recursion
2            NDIVs
1            # of recursive panel fact.
1            RFACTs (0=left, 1=Crout, 2=Right)
1            # of broadcast
1            BCASTs (0=1rg,1=1rM,2=2rg,3=2rM,4=Lng,5=LnM)
1            # of lookahead depth
1            DEPTHs (>=0)
2            SWAP (0=bin-exch,1=long,2=mix)
64           swapping threshold
0            L1 in (0=transposed,1=no-transposed) form
0            U  in (0=transposed,1=no-transposed) form
1            Equilibration (0=no,1=yes)
8            memory alignment in double (> 0)
##### This line (no. 32) is ignored (it serves as a separator). ######
0            Number of additional problem sizes for PTRANS
0            values of N
0            number of additional blocking sizes for PTRANS
0            values of NB
END
}

# HPL and PTRANS say PASSED or FAILED of each residual, RandomAccess counts its errors, and the
# summary ends with Success=1.
hpcc_problem()
{
    local output=$work/hpccoutf.txt
    if grep -q -e FAILED -e '(failed)' "$output"; then
        printf 'hpcc: %s' "$(grep -m 1 -e FAILED -e '(failed)' "$output")"
    elif ! grep -q 'PASSED' "$output"; then
        printf 'hpcc checked no residual'
    elif ! grep -q '(passed)' "$output"; then
        printf 'hpcc did not verify RandomAccess'
    elif ! grep -q '^Success=1' "$output"; then
        printf 'hpcc did not come to its end'
    fi
}

hpcc()
{
    local name="hpcc openmpi $1 4 ranks"
    input >"$work/hpccinf.txt"
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

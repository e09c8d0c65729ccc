# shellcheck shell=bash
# Shared by the tests of real programs: they run UCX's own tools, MPI libraries and their programs
# over the transport, and prove that it was the transport that carried the data.
#
# A test prints one line: "ok NAME", "not ok NAME: why" or "skip NAME: reason".
# Sourced, after `set -eu`. Variables that a user may set:
#   OPENGLEX_BUILD  the build directory (build/)
#   REAL_TLS        the transport under test (glex); "posix" tells whether a program itself is right

# shellcheck source=contrib/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../contrib/lib.sh"

build=$(cd "${OPENGLEX_BUILD:-$top/build}" && pwd)
export OPENGLEX_BUILD=$build
# shellcheck disable=SC2034
programs=$build/test/mpi

# The programs and libraries of the UCX that the transport was built for, wherever that is installed.
use_ucx()
{
    local ucx_info
    ucx_info=$(configured UCX_INFO "$build")
    [ -n "$ucx_info" ] && [ "$(command -v ucx_info)" != "$ucx_info" ] || return 0
    export PATH=${ucx_info%/*}:$PATH
    export LD_LIBRARY_PATH=${ucx_info%/*/*}/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
}
use_ucx

work=$(mktemp -d "${TMPDIR:-/tmp}/openglex-real.XXXXXX")
# A fabric of its own: other jobs of the same user do not disturb, and are not disturbed.
export GLEX_FABRIC=real-$$
unset GLEX_FAULT GLEX_STATS GLEX_NIC_ID GLEX_NUM_NICS GLEX_PRIVATE_RDMA
fabric_dir=${GLEX_SHM_DIR:-/dev/shm}/glex-$(id -u)/$GLEX_FABRIC
export UCX_LOG_LEVEL=info UCX_WARN_UNUSED_ENV_VARS=n

# Both MPI libraries: many ranks on few cores, and as root in containers.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
# A job of the same user that ends just then removes what they share in /tmp.
export OMPI_MCA_orte_tmpdir_base=$work

# Choose the transport that the programs run over: glex, or one of UCX's own to compare with.
use_transport()
{
    tls=$1
    export UCX_TLS=$tls,self
    if [ "$tls" = glex ]; then
        device=gni0
        export GLEXRUN=$top/contrib/glexrun
        unset OMPI_MCA_pml OMPI_MCA_osc OMPI_MCA_opal_common_ucx_tls
    else
        device=memory
        export GLEXRUN=env
        export OMPI_MCA_pml=ucx OMPI_MCA_osc=ucx OMPI_MCA_opal_common_ucx_tls=any
    fi
}
use_transport "${REAL_TLS:-glex}"

clean_up()
{
    rm -rf "$work"
    [ -z "$(find "$fabric_dir" -type f 2>/dev/null)" ] || rm -rf "$fabric_dir"
}
trap clean_up EXIT
trap 'exit 1' HUP INT TERM

ok()
{
    printf 'ok %s\n' "$1"
}

not_ok()
{
    printf 'not ok %s: %s\n' "$1" "$2"
}

skip()
{
    printf 'skip %s: %s\n' "$1" "$2"
}

# What a failed program said, as comments, and not without end.
show()
{
    local file
    for file; do
        [ ! -s "$file" ] || tail -n 15 "$file" | cut -c 1-300 | sed 's/^/# /'
    done
}

# UCX's own word of a connection that it made, in its log:
#   ... UCX  INFO  ep_cfg[0]: tag(glex/gni0); rma(glex/gni0)
# or, in newer versions,
#   ... UCX  INFO    perftest intra-node cfg#0 tag(glex/gni0) rma(glex/gni0)
connection_line='(ep_cfg\[[0-9]*\]:|cfg#[0-9]*) .*'

# The transports of every connection. Prints what is wrong, nothing if all is well.
connections_problem()
{
    local lanes others
    lanes=$(cat "$work"/ucx.* 2>/dev/null | grep -o -E "$connection_line" |
        grep -o -E '[a-z0-9_]+/[a-z0-9_:.]+' | sort -u) || :
    others=$(grep -v -e "^$tls/$device" -e '^self/' <<<"$lanes") || :
    if [ -n "$others" ]; then
        printf 'other transports took part: %s' "$(tr '\n' ' ' <<<"$others")"
    elif ! grep -q "^$tls/$device" <<<"$lanes"; then
        printf 'UCX reports no connection over %s' "$tls/$device"
    fi
}

# The NIC's own word: its counters, one line of JSON for every endpoint that has ended.
counted()
{
    grep -s -o -E "\"($1)\":[0-9]+" "$work/stats" |
        awk -F: '{ sum += $2 } END { printf "%.0f\n", sum }'
}

counters_problem()
{
    if [ "$tls" = glex ] && [ "$(counted 'mp_tx|mapped_tx|event_tx|imm_put_tx|put_tx|get_tx')" -lt 10 ]; then
        printf 'the NIC has counted no requests'
    fi
}

# One-sided operations on mapped memory are copies, of which the NIC does not know: all that can be
# told is that both sides had an endpoint.
endpoints_problem()
{
    [ "$tls" = glex ] || return 0
    [ "$(grep -s -c '"counters"' "$work/stats")" -ge 2 ] || printf 'there were no two endpoints'
}

# UCX's own word: atomic operations are the transport's, and not done by UCP over messages, which it
# calls amo_am.
atomics_problem()
{
    cat "$work"/ucx.* 2>/dev/null | grep -E "$connection_line" | grep -q " amo($tls/$device" ||
        printf 'UCX reports no atomic operations of %s' "$tls/$device"
}

# For programs that only send messages: ER carries them by stores or puts, SR by MPs and gets and
# never by those, so that the counters tell which of the two was at work where only one is allowed.
channel_problem()
{
    [ "$tls" = glex ] || return 0
    case ${UCX_GLEX_CHANNELS:-er,sr} in
    er) [ "$(counted 'mapped_tx|imm_put_tx')" -ge 10 ] || printf 'nothing went by ER' ;;
    sr)
        if [ "$(counted mp_tx)" -lt 10 ]; then
            printf 'nothing went by SR'
        elif [ "$(counted 'mapped_tx|event_tx|imm_put_tx|put_tx')" -ne 0 ]; then
            printf 'ER was counted where only SR is allowed'
        fi
        ;;
    esac
}

# Endpoints must go with their programs.
fabric_problem()
{
    local left
    left=$(find "$fabric_dir" -type f 2>/dev/null) || :
    [ -z "$left" ] || printf 'left in shared memory: %s' "$(tr '\n' ' ' <<<"$left")"
}

# run NAME SECONDS COMMAND...: run a program, which must end in time and with status 0. Its output
# is in $work/out, UCX's log in $work/ucx.*. Prints "not ok" itself and returns 1 if it fails.
run()
{
    local name=$1 limit=$2 status=0
    shift 2
    rm -f "$work"/ucx.* "$work/out" "$work/stats"
    GLEX_STATS=$work/stats UCX_LOG_FILE=$work/ucx.%p \
        timeout -k 5 "$limit" "$@" >"$work/out" 2>&1 </dev/null || status=$?
    [ "$status" -ne 0 ] || return 0
    case $status in
    124 | 137) not_ok "$name" "did not end within $limit seconds" ;;
    *) not_ok "$name" "status $status from: $*" ;;
    esac
    show "$work/out"
    cat "$work"/ucx.* 2>/dev/null | grep -E ' (ERROR|WARN|FATAL) ' >"$work/errors" || :
    show "$work/errors"
    return 1
}

# finish NAME EVIDENCE...: the result of a program that ran well, if each EVIDENCE (a function that
# prints what is wrong) agrees.
finish()
{
    local name=$1 evidence problem
    shift
    for evidence; do
        problem=$($evidence)
        if [ -n "$problem" ]; then
            not_ok "$name" "$problem"
            show "$work/out"
            return 0
        fi
    done
    ok "$name"
}

# A process and all below it.
process_tree()
{
    local child
    printf '%s\n' "$1"
    for child in $(pgrep -P "$1"); do
        process_tree "$child"
    done
}

# An MPI program with some ranks: mpi NAME SECONDS mpich|openmpi RANKS PROGRAM [ARGUMENT...]
mpi()
{
    local name=$1 limit=$2 library=$3 ranks=$4 channel=channel_problem
    shift 4
    case ${1##*/} in
    one_sided | flavors) channel= ;;
    esac
    run "$name" "$limit" "$GLEXRUN" "mpirun.$library" -n "$ranks" "$@" || return 0
    finish "$name" program_problem connections_problem counters_problem fabric_problem $channel
}

# Our own programs say at the end how much they checked.
program_problem()
{
    grep -q 'checks passed' "$work/out" || printf 'the program does not say that it checked'
}

# ---- hpcc ----------------------------------------------------------------------------------------

# Sizes for seconds, not for figures: one matrix of 600 on 2 x 2 processes.
hpcc_input()
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

#!/bin/bash
# glexrun itself: what it sets and keeps, and its one line when the transport cannot be loaded.
set -eu
# shellcheck source=test/real/lib.sh
. "$(dirname "$0")/lib.sh"

run_it=$top/contrib/glexrun
unset UCX_TLS UCX_LOG_LEVEL UCX_WARN_UNUSED_ENV_VARS
unset OMPI_MCA_pml OMPI_MCA_osc OMPI_MCA_opal_common_ucx_tls LD_PRELOAD
preload=$(readlink -f "$build/src/uct/preload/.libs/libglex_preload.so")

# expect NAME RIGHT FOUND
expect()
{
    if [ "$2" = "$3" ]; then
        ok "glexrun $1"
    else
        not_ok "glexrun $1" "'$3' instead of '$2'"
    fi
}

# What a variable is for a command that glexrun starts.
value_of()
{
    # shellcheck disable=SC2016
    "$run_it" bash -c 'printf "%s" "${!1-unset}"' value "$1"
}

test_settings()
{
    expect "leaves UCX_TLS alone" unset "$(value_of UCX_TLS)"
    expect "sets GLEX_UCX_TLS" glex,self "$(value_of GLEX_UCX_TLS)"
    expect "keeps GLEX_UCX_TLS" glex,tcp "$(GLEX_UCX_TLS=glex,tcp value_of GLEX_UCX_TLS)"
    expect "keeps UCX_TLS" glex,posix "$(UCX_TLS=glex,posix value_of UCX_TLS)"
    expect "keeps an empty variable" '' "$(UCX_TLS='' value_of UCX_TLS)"
    expect "keeps other variables of UCX" 7 "$(UCX_ANY=7 value_of UCX_ANY)"
    expect "chooses UCX in Open MPI" ucx "$(value_of OMPI_MCA_pml)"
    expect "keeps a choice in Open MPI" ob1 "$(OMPI_MCA_pml=ob1 value_of OMPI_MCA_pml)"
    expect "preloads the library" "$preload" "$(value_of LD_PRELOAD)"
    expect "keeps a preloaded library" "libm.so.6:$preload" \
        "$(LD_PRELOAD=libm.so.6 value_of LD_PRELOAD)"
    expect "preloads once" "$preload" "$("$run_it" "$run_it" printenv LD_PRELOAD)"
}

status_of()
{
    local status=0
    timeout -k 10 100 "$@" >/dev/null 2>&1 || status=$?
    printf '%d' "$status"
}

test_status()
{
    expect "passes the exit status" 42 "$(status_of "$run_it" bash -c 'exit 42')"
    expect "refuses an unknown option" 127 "$(status_of "$run_it" --nonsense true)"
    expect "refuses a missing command" 127 "$(status_of "$run_it" /nonexistent/command)"
    expect "--help" 0 "$(status_of "$run_it" --help)"
    expect "--version" "glexrun (openglex) $(sed -n 's/^PACKAGE_VERSION = //p' "$build/Makefile")" \
        "$("$run_it" --version)"
}

# The warning of a UCX_TLS without glex, and none of one with it
test_tls()
{
    local tls
    for tls in posix,self sm ^glex,tcp self; do
        expect "warns of UCX_TLS=$tls" 1 \
            "$(UCX_TLS=$tls "$run_it" true 2>&1 | grep -c "UCX_TLS=$tls leaves glex out")"
    done
    for tls in glex,self all ^tcp tcp,glex; do
        expect "no warning of UCX_TLS=$tls" '' "$(UCX_TLS=$tls "$run_it" true 2>&1)"
    done
}

test_print_env()
{
    # shellcheck disable=SC2016
    expect "--print-env" "$preload glex,self" "$(
        eval "$("$run_it" --print-env)"
        printf '%s %s' "$LD_PRELOAD" "$GLEX_UCX_TLS"
    )"
    expect "--print-env=csh" "setenv GLEX_UCX_TLS 'glex,self';" \
        "$("$run_it" --print-env=csh | grep GLEX_UCX_TLS)"
    expect "--print-env=json" glex,self "$("$run_it" --print-env=json |
        python3 -c 'import json, sys; print(json.load(sys.stdin)["GLEX_UCX_TLS"])')"
    expect "--print-env of what is set" '' \
        "$(OMPI_MCA_pml=ucx "$run_it" --print-env | grep OMPI_MCA_pml)"
}

# bytes_by CHANNEL: 1 if --check --json says that each rank sent 32 to 64 KB by that channel. The
# messages of pingpong 4096 have 40 KB, and 32 KB of them are in messages of 1 KB and more.
bytes_by()
{
    "$run_it" --check --json mpirun.mpich -n 2 "$programs/mpich/pingpong" 4096 2>/dev/null |
        sed -n '$p' | python3 -c '
import json, sys
bytes = [rank[sys.argv[1] + "_bytes"] for rank in json.load(sys.stdin)["endpoints"]]
print(1 if len(bytes) == 2 and min(bytes) >= 32768 and max(bytes) < 65536 else bytes)' "$1"
}

# --check: a job over glex, a job over another transport, a command without UCX
test_check()
{
    local said
    said=$("$run_it" --check mpirun.mpich -n 2 "$programs/mpich/pingpong" 65536 2>&1 >/dev/null)
    expect "--check counts processes" 2_processes "$(awk '$1 == "total" {print $2}' <<<"$said")"
    expect "--check finds messages" 1 "$(awk '$1 == "total" {print ($3 + $5 > 0)}' <<<"$said")"
    expect "--check names transports" 1 "$(grep -c 'UCX chose: glex/gni0' <<<"$said")"
    expect "--check --json" True "$("$run_it" --check --json mpirun.mpich -n 2 \
        "$programs/mpich/pingpong" 65536 2>/dev/null | sed -n '$p' |
        python3 -c 'import json, sys; print(json.load(sys.stdin)["carried"])')"
    expect "--check counts bytes of ER" 1 "$(UCX_GLEX_CHANNELS=er bytes_by er)"
    expect "--check counts bytes of SR" 1 "$(UCX_GLEX_CHANNELS=sr bytes_by sr)"
    expect "--check counts bytes of ZC" 1 \
        "$(UCX_GLEX_ZC_MAX_SIZE=8256 UCX_ZCOPY_THRESH=1k UCX_RNDV_THRESH=inf bytes_by zc)"
    # not tcp: MPICH may wait in MPI_Finalize for a peer that makes no progress any more
    expect "--check of another transport" 3 \
        "$(UCX_TLS=posix,self status_of "$run_it" --check mpirun.mpich -n 2 "$programs/mpich/pingpong" 65536)"
    expect "--check without UCX" 3 "$(status_of "$run_it" --check true)"
    expect "--check keeps a status" 42 "$(status_of "$run_it" --check bash -c 'exit 42')"
}

# refusal NAME DIRECTORY PATTERN: with that build directory one line, and this in it.
refusal()
{
    local said status=0
    said=$(OPENGLEX_BUILD=$2 "$run_it" true 2>&1) || status=$?
    if [ "$status" -ne 127 ]; then
        not_ok "glexrun $1" "status $status instead of 127"
    elif [ "$(wc -l <<<"$said")" -ne 1 ] || ! grep -q "^glexrun: .*$3" <<<"$said"; then
        not_ok "glexrun $1" "it says: $said"
    else
        ok "glexrun $1"
    fi
}

# library NAME < SOURCE: a build directory with a library to preload of that source
library()
{
    mkdir -p "$work/$1/src/uct/preload/.libs" "$work/$1/src/uct/glex/.libs"
    : >"$work/$1/src/uct/glex/.libs/libuct_glex.so"
    gcc -shared -fPIC -o "$work/$1/src/uct/preload/.libs/libglex_preload.so" -x c - -x none "${@:2}"
}

test_refusals()
{
    refusal "says that nothing is built" "$work" "not built in"
    library symbol <<<'void nobody_has(void); __attribute__((constructor)) void f(void);
        void f(void) { nobody_has(); }'
    refusal "names a missing symbol" "$work/symbol" nobody_has
    mkdir "$work/gone"
    gcc -shared -fPIC -x c /dev/null -o "$work/gone/libgone.so" -Wl,-soname,libgone.so.1
    library needed -Wl,--no-as-needed "$work/gone/libgone.so" <<<'int x;'
    refusal "names a missing library" "$work/needed" libgone.so.1
    library broken <<<'int x;'
    : >"$work/broken/src/uct/preload/.libs/libglex_preload.so"
    refusal "names a broken library" "$work/broken" 'file too short'
}

# A transport that cannot be loaded: the program runs without, and says why.
test_broken_transport()
{
    local said
    mkdir -p "$work/transport"
    cp "$build/src/uct/glex/.libs/ucx-build" "$work/transport/"
    : >"$work/transport/libuct_glex.so"
    said=$(GLEX_TRANSPORTS=$work/transport "$run_it" ucx_info -d 2>&1 >/dev/null)
    expect "names a transport that cannot be loaded" 1 \
        "$(grep -c '^glex: not used: cannot load the transport: .*file too short' <<<"$said")"
}

# Monitoring's transport is there on request alone. Its options are in UCX's list of all options.
test_ud_mon()
{
    local dir=$work/alone
    if "$build/config.status" --config | grep -q -e --without-verbs; then
        skip "glexrun --ud-mon" "$build was configured --without-verbs"
        return
    fi
    expect "no ud_mon unless asked for" 0 "$("$run_it" ucx_info -cf 2>&1 | grep -c '^UCX_IB_UD_MON_')"
    expect "--ud-mon" 1 "$("$run_it" --ud-mon ucx_info -cf 2>&1 | grep -c '^UCX_IB_UD_MON_RX_QUEUE_LEN=')"
    mkdir "$dir"
    cp "$build/src/uct/glex/.libs/ucx-build" "$dir/"
    ln -s "$build/src/uct/glex/.libs/libuct_glex.so" "$dir/"
    expect "--ud-mon with a transport for which there is none" "1 1" "$(
        GLEX_TRANSPORTS=$dir "$run_it" --ud-mon ucx_info -d >"$work/out" 2>"$work/err"
        echo "$(grep -c 'Transport: glex' "$work/out") $(grep -c '^glex: ud_mon is not used: ' "$work/err")"
    )"
}

# Open MPI refuses a list of variables beside options -x, so each way needs its own.
test_openmpi()
{
    # shellcheck disable=SC2016
    local script='printf "%s %s\n" "$UCX_ANY" "${LD_PRELOAD##*/}"'
    export UCX_ANY=7
    expect "mpirun.openmpi" "7 libglex_preload.so" \
        "$("$run_it" mpirun.openmpi -n 1 bash -c "$script" 2>&1)"
    expect "mpirun.openmpi -x" "7 libglex_preload.so" \
        "$("$run_it" mpirun.openmpi -x LC_ALL -n 1 bash -c "$script" 2>&1)"
    unset UCX_ANY
}

# What a rank says of itself: "rank NIC word".
# shellcheck disable=SC2016
rank_line='echo "${OMPI_COMM_WORLD_RANK:-$PMI_RANK} $GLEX_NIC_ID $0"'

# The nodes of the ranks under a launcher, a line each.
nodes_of()
{
    "$run_it" --nodes 2 "$@" bash -c "$rank_line" a 2>&1 | sort
}

test_nodes()
{
    local launcher right=$'0 1 a\n1 1 a\n2 2 a\n3 2 a'
    expect "--nodes without a launcher" 1 \
        "$("$run_it" --nodes 3 printenv GLEX_NIC_ID)"
    expect "--nodes of a rank" 3 \
        "$(PMI_RANK=5 PMI_SIZE=6 "$run_it" --nodes=3 printenv GLEX_NIC_ID)"
    expect "--nodes, more of them than ranks" 3 \
        "$(PMI_RANK=1 PMI_SIZE=2 "$run_it" --nodes=5 printenv GLEX_NIC_ID)"
    expect "no --nodes" unset "$(value_of GLEX_NIC_ID)"
    expect "--nodes refuses nonsense" 127 "$(status_of "$run_it" --nodes 0 true)"
    expect "--nodes refuses what it cannot tell" 127 \
        "$(status_of "$run_it" --nodes 2 mpirun --strange-option 4x true)"
    for launcher in mpirun.mpich mpirun.openmpi; do
        if ! have "$launcher"; then
            skip "glexrun --nodes $launcher" "not installed"
            continue
        fi
        expect "--nodes $launcher" "$right" "$(nodes_of "$launcher" -n 4)"
        expect "--nodes $launcher, two programs" $'0 1 a\n1 1 a\n2 2 b\n3 2 b' \
            "$("$run_it" --nodes 2 "$launcher" -n 2 bash -c "$rank_line" a : \
                -n 2 bash -c "$rank_line" b 2>&1 | sort)"
    done
    ! have mpirun.openmpi ||
        expect "--nodes mpirun.openmpi, options with values" "$right" \
            "$(nodes_of mpirun.openmpi --map-by node -x LC_ALL --mca btl self -np 4)"
    ! have mpirun.mpich ||
        expect "--nodes mpirun.mpich, options with values" "$right" \
            "$(nodes_of mpirun.mpich -genv FOO bash -np 4)"
}

test_settings
test_status
test_nodes
test_tls
test_print_env
test_check
test_refusals
test_broken_transport
test_ud_mon
if have mpirun.openmpi; then
    test_openmpi
else
    skip "glexrun mpirun.openmpi" "not installed"
fi

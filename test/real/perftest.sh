#!/bin/bash
# UCX's own ucx_perftest over the transport: perftest.sh [CHANNELS...]
set -eu
# shellcheck source=test/real/lib.sh
. "$(dirname "$0")/lib.sh"

pair=$(dirname "$0")/perftest_pair
version=$(configured UCX_VERSION "$build")
sizes=(8 64 100 1000 4096 10000 65536 1048576 4194304)

# The largest message of an operation by `ucx_info -d`, such as am_bcopy, in bytes; nothing if the
# transport does not have the operation.
limit_of()
{
    awk -v tls="$tls" -v operation="$1:" '
        $2 == "Transport:" { here = $3 == tls }
        here && $2 == operation {
            sub(/.*: */, "")
            if (match($0, /[0-9]+[KMGT]?/)) print substr($0, RSTART, RLENGTH)
            else print "1G"
            exit
        }' "$work/ucx_info" | numfmt --from=iec
}

# ucx_perftest's exit status is 0 even if a test fails, but then it prints no figures.
perftest_problem()
{
    awk -F, -v lines="$(wc -l <"$work/batch")" '
        $1 ~ /^size[0-9]+$/ && NF == 9 { seen++ }
        END { if (seen != lines) print "figures for " seen + 0 " sizes of " lines }' "$work/out"
}

# The kinds of test that this ucx_perftest knows.
kinds()
{
    ucx_perftest -h | sed -n 's/^ *\([a-z_]*\) - UC[TP] .*/\1/p' | sort
}

offers()
{
    grep -q -x "$1" "$work/kinds"
}

# Remember that kinds were tried, or skipped with a line that says why.
tried()
{
    printf '%s\n' "$@" >>"$work/tried"
}

# Each kind must have been tried, but those that 1.20 lists for kernels on a GPU.
test_kinds()
{
    local left
    left=$(grep -v -E '^ucp_put_(single|multi|partial)_' "$work/kinds" |
        grep -v -x -F -f "$work/tried" | paste -s -d ' ') || :
    if [ -z "$left" ]; then
        ok "perftest every kind of UCX $version"
    else
        not_ok "perftest every kind of UCX $version" "not tried: $left"
    fi
}

# make_batch LIMIT OPTION...: one line per size up to the limit. Streams must be long enough to run
# out of credits and around every FIFO. A ping-pong on a busy machine takes milliseconds each way, and
# its first hundred rounds try what more rounds would.
make_batch()
{
    local limit=$1 size count
    shift
    : >"$work/batch"
    for size in "${sizes[@]}"; do
        [ "$size" -le "$limit" ] || continue
        count=5000
        [ "$size" -lt 10000 ] || count=1000
        [ "$size" -lt 1000000 ] || count=100
        case $* in
        *_bw*) ;;
        *) count=$((count / 50)) ;;
        esac
        printf 'size%d %s -s %d -n %d -w 10\n' "$size" "$*" "$size" "$count" >>"$work/batch"
    done
}

# uct CHANNELS TEST LAYOUT OPERATION
uct()
{
    local name="perftest $1 uct $2 $3" limit evidence=(endpoints_problem)
    tried "$2"
    case $2 in am_*) evidence=(counters_problem channel_problem) ;; esac
    limit=$(limit_of "$4")
    if [ -z "$limit" ]; then
        not_ok "$name" "ucx_info -d shows no $4 for $tls"
        return 0
    fi
    make_batch "$limit" -t "$2" -D "$3"
    run "$name" 600 "$pair" "$work/batch" -d "$device" -x "$tls" || return 0
    finish "$name" perftest_problem fabric_problem "${evidence[@]}"
}

# ucp CHANNELS LIMIT TEST [OPTION...]
ucp()
{
    local limit=$2 name="perftest $1 ${*:3}"
    tried "$3"
    make_batch "$limit" -t "${@:3}"
    run "$name" 600 "$pair" "$work/batch" || return 0
    finish "$name" perftest_problem connections_problem counters_problem fabric_problem
}

# Atomic operations of the transport, which UCP uses if all memory that it has a key for is mapped.
# On a vendor's NIC none is, and over UCX's own transports this is nothing to test.
test_atomics()
{
    local test
    if [ "$tls" != glex ] || ! grep -q '^#define HAVE_GLEX_EXT_H' "$build/openglex.h"; then
        skip "perftest atomic operations" "$tls offers none on this NIC"
        tried add_lat add_mr fadd swap cswap
        return 0
    fi
    export GLEX_PRIVATE_RDMA=n
    for test in add_lat add_mr fadd swap cswap; do
        tried "$test"
        make_batch 8 -t "$test" -D short
        if run "perftest uct $test" 600 "$pair" "$work/batch" -d "$device" -x "$tls"; then
            finish "perftest uct $test" perftest_problem fabric_problem endpoints_problem
        fi
    done
    for test in ucp_add ucp_fadd ucp_swap ucp_cswap; do
        make_batch 8 -t "$test"
        if run "perftest native $test" 600 "$pair" "$work/batch"; then
            finish "perftest native $test" perftest_problem connections_problem atomics_problem \
                fabric_problem
        fi
    done
    unset GLEX_PRIVATE_RDMA
}

# What the channels carry
test_messages()
{
    local channels=$1 test layout
    for test in am_lat am_bw; do
        for layout in short bcopy; do
            uct "$channels" "$test" "$layout" "am_$layout"
        done
        [ "$tls" != glex ] || export UCX_GLEX_ZC_MAX_SIZE=8256
        uct "$channels" "$test" zcopy am_zcopy
        unset UCX_GLEX_ZC_MAX_SIZE
    done
    for test in tag_lat tag_bw tag_sync_lat tag_sync_bw stream_lat stream_bw ucp_am_lat ucp_am_bw; do
        ucp "$channels" 4194304 "$test"
    done
    if [ "$tls" != glex ] || grep -q '^#define HAVE_GLEX_EXT_H' "$build/openglex.h"; then
        ucp "$channels" 65536 tag_lat -E sleep
    else
        skip "perftest $channels tag_lat -E sleep" "this libglex has no glex_ext.h, so no wake-up"
    fi
}

# What the NIC does by itself, whatever channels there are
test_rma()
{
    local channels=$1 test layout
    for layout in short bcopy zcopy; do
        uct "$channels" put_lat "$layout" "put_$layout"
        uct "$channels" put_bw "$layout" "put_$layout"
    done
    for test in get get_bw; do
        offers "$test" || continue # get_bw since 1.18
        for layout in short bcopy zcopy; do
            # 1.13's ucx_perftest has no get by get_short
            [ "$layout" != short ] || [[ $version != 1.13.* ]] || continue
            uct "$channels" "$test" "$layout" "get_$layout"
        done
    done
    for test in ucp_put_lat ucp_put_bw ucp_get; do
        ucp "$channels" 4194304 "$test"
    done
    for test in ucp_add ucp_fadd ucp_swap ucp_cswap; do
        ucp "$channels" 8 "$test"
    done
}

# UCX 1.22 and newer find the transport among their plug-ins, without glexrun.
test_plugin()
{
    local name="perftest plug-in tag_lat"
    [ "$tls" = glex ] && [[ $version != 1.1?.* && $version != 1.2[01].* ]] || return 0
    mkdir "$work/plugins"
    ln -s "$build/src/uct/glex/.libs/libuct_glex.so" "$work/plugins/libuct_glex.so.0"
    make_batch 65536 -t tag_lat
    GLEXRUN=env UCX_PLUGIN_PATH=$work/plugins run "$name" 600 "$pair" "$work/batch" || return 0
    finish "$name" perftest_problem connections_problem counters_problem fabric_problem
}

# The software NIC offers am_zcopy on request alone
UCX_GLEX_ZC_MAX_SIZE=8256 "$GLEXRUN" ucx_info -d >"$work/ucx_info" 2>/dev/null || :
kinds >"$work/kinds"
for channels in "${@:-er,sr}"; do
    UCX_GLEX_CHANNELS=$channels test_messages "$channels"
done
UCX_GLEX_CHANNELS=${1:-er,sr} test_rma "${1:-er,sr}"
test_atomics
test_plugin
test_kinds

# shellcheck shell=bash
# Managers on ibsim: how test/mcsm/run and contrib/mcsm-demo start, await and ask them. Sourced
# after contrib/lib.sh.

build=${OPENGLEX_BUILD:-$top/build}
mcsm_bin=$build/src/mcsm
[ -x "$mcsm_bin/mcsm" ] || die "there is no $mcsm_bin/mcsm: build first, or set OPENGLEX_BUILD"
declare -A manager_pids=()
# How many seconds the managers may take for anything; a test takes no longer than it has to.
patience=${MCSM_PATIENCE:-120}

# Programs that have nothing to do with the fabric run without ibsim's library.
plain()
{
    env -u LD_PRELOAD "$@"
}

# ctl DIR CLUSTER COMMAND...
ctl()
{
    local dir=$1 cluster=$2
    shift 2
    plain "$mcsm_bin/mcsm-ctl" -s "$dir/$cluster.sock" "$@"
}

# manager_start DIR CLUSTER [HOST [CONF]]: counts the directed routes of its SMPs by MCSM_SHIM.
manager_start()
{
    local dir=$1 cluster=$2 host=${3:-$2-h0} conf=${4:-$1/$2.conf}
    local preload=${LD_PRELOAD:-}
    (
        # ibsim's library finds the real functions behind the shim's.
        [ -z "${MCSM_SHIM:-}" ] || preload=$preload:$MCSM_SHIM
        exec env SIM_HOST="$host" LD_PRELOAD="$preload" MCSM_SHIM_OUT="$dir/$host.smps" \
            "$mcsm_bin/mcsm" -f "$conf" --foreground >>"$dir/$host.log" 2>&1
    ) &
    manager_pids[$host]=$!
}

managers_start()
{
    local dir=$1 cluster
    shift
    for cluster in "$@"; do
        manager_start "$dir" "$cluster"
    done
}

# manager_stop HOST [SIGNAL]
manager_stop()
{
    kill "-${2:-TERM}" "${manager_pids[$1]}" 2>/dev/null || true
    wait "${manager_pids[$1]}" 2>/dev/null || true
    unset "manager_pids[$1]"
}

managers_stop()
{
    local host
    for host in "${!manager_pids[@]}"; do
        manager_stop "$host"
    done
}

# until_true SECONDS COMMAND...: try again until it succeeds.
until_true()
{
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        [ "$SECONDS" -lt "$end" ] || return 1
        sleep 0.1
    done
}

# Whether a jq expression is true of the input. Not jq -e, which is content with no input at all.
holds()
{
    [ "$(jq "$1" 2>/dev/null)" = true ]
}

is_complete()
{
    ctl "$1" "$2" --json status 2>/dev/null | holds '.complete and (.sweeping | not)'
}

# managers_wait DIR CLUSTER...: all are masters and have set up all they see.
managers_wait()
{
    local dir=$1 cluster
    shift
    for cluster in "$@"; do
        until_true "$patience" is_complete "$dir" "$cluster" || return 1
    done
    until_true "$patience" borders_active "$dir" "$@"
}

borders_active()
{
    local dir=$1 cluster
    shift
    for cluster in "$@"; do
        ctl "$dir" "$cluster" --json ports |
            holds 'all(.[]; .remark != "border" or (.state != "INIT" and .state != "ARMED"))' ||
            return 1
    done
}

dump_all()
{
    local dir=$1 cluster
    shift
    for cluster in "$@"; do
        ctl "$dir" "$cluster" dump fabric >"$dir/$cluster.dump" || return 1
    done
}

# check DIR CLUSTER... [-- OPTION...]: mcsm-check over the dumps of the clusters.
check()
{
    local dir=$1 options=() clusters=() dumps=() cluster
    shift
    while [ $# -gt 0 ]; do
        case $1 in
        --svg) options+=("$1" "$2"); shift ;;
        --*) options+=("$1") ;;
        *) clusters+=("$1") ;;
        esac
        shift
    done
    dump_all "$dir" "${clusters[@]}" || return 1
    for cluster in "${clusters[@]}"; do
        dumps+=("$dir/$cluster.dump")
    done
    plain "$mcsm_bin/mcsm-check" "${options[@]}" "${dumps[@]}"
}

is_good()
{
    check "$@" >/dev/null 2>"$1/check.err"
}

# The clusters' tables fit together again, and all pairs are reachable.
managers_agree()
{
    until_true "$patience" is_good "$@"
}

border_count()
{
    local dir=$1 cluster
    shift
    for cluster in "$@"; do
        ctl "$dir" "$cluster" dump fabric
    done | grep -c '^border'
}


conf_borders()
{
    local dir=$1 cluster
    shift
    for cluster in "$@"; do
        cat "$dir/$cluster.conf"
    done | grep -c '^0x.* = '
}

borders_up()
{
    [ "$(border_count "$@")" -eq "$(conf_borders "$@")" ] && borders_active "$@" && is_good "$@"
}

# Every border link of the configurations is in use.
borders_wait()
{
    until_true "$patience" borders_up "$@"
}

# A command on ibsim's console.
sim()
{
    printf '%s\n' "$1" >"$IBSIM_CONSOLE"
    sleep 0.2 # the console has no answer to wait for
}

# end_lids DIR CLUSTER...: the LIDs of all end nodes.
end_lids()
{
    local dir=$1 cluster
    shift
    for cluster in "$@"; do
        ctl "$dir" "$cluster" --json nodes | jq -r '.[] | select(.type == "ca" and .lid > 0) | .lid'
    done
}

# trace_pairs DIR HOST: ibtracert over the pairs "FROM TO" of LIDs in the input, from the port of
# HOST. It needs no SA.
trace_pairs()
{
    local dir=$1 from to bad=0 count=0
    while read -r from to; do
        count=$((count + 1))
        SIM_HOST=$2 ibtracert "$from" "$to" >"$dir/trace.out" 2>&1 </dev/null ||
            { bad=$((bad + 1)); printf '# no route from LID %s to %s\n' "$from" "$to"; }
    done
    printf '%d pairs traced, %d without a route\n' "$count" "$bad"
    [ "$bad" -eq 0 ]
}

# all_pairs LID...
all_pairs()
{
    local from to
    for from in "$@"; do
        for to in "$@"; do
            [ "$from" -eq "$to" ] || printf '%d %d\n' "$from" "$to"
        done
    done
}

# trace_all DIR CLUSTER...: from every end node to every other one.
trace_all()
{
    local lids
    mapfile -t lids < <(end_lids "$@")
    all_pairs "${lids[@]}" | trace_pairs "$1" "$2-h0"
}

# trace_sample DIR COUNT CLUSTER...: COUNT pairs, the same in each run. Each pair leads from one cluster
# to another; if only one cluster is named, from one end node to another. Fails if a manager does not
# tell its end nodes.
trace_sample()
{
    local dir=$1 count=$2 first=$3 cluster lids lid
    shift 2
    for cluster in "$@"; do
        lids=$(end_lids "$dir" "$cluster") && [ -n "$lids" ] || return 1
        for lid in $lids; do printf '%s %s\n' "$([ $# -gt 1 ] && echo "$cluster")" "$lid"; done
    done >"$dir/ends" || return
    awk -v count="$count" '{ lid[NR] = $NF; cluster[NR] = NF > 1 ? $1 : $NF }
        END { if (NR < 2) exit 1
              srand(1)
              while (drawn < count) { a = 1 + int(rand() * NR); b = 1 + int(rand() * NR)
                  if (cluster[a] != cluster[b]) { print lid[a], lid[b]; drawn++ } } }' "$dir/ends" |
        trace_pairs "$dir" "$first-h0"
}

# smps_beyond DIR CLUSTER...: how many SMPs of the clusters' managers left their own cluster. The shim
# wrote the directed route of each SMP; routes.py follows them through the fabric.
smps_beyond()
{
    local dir=$1
    plain python3 "$top/test/mcsm/routes.py" "$dir/fabric.net" "${@:2}" -- "$dir"/*-h*.smps
}

# shellcheck shell=bash
# What the tests of the programs have in common; sourced. The sourcing script has `failed`, or calls
# `begin`, and may replace `explain`.

# Called after a check that failed: print what helps.
explain() {
    [[ -z ${dir:-} ]] || tail -n 5 "$dir"/*.log | sed 's/^/# /'
}

# check WHAT COMMAND...: a line of the result
check() {
    local what=$1
    shift
    if "$@"; then
        echo "ok $what"
    else
        echo "not ok $what"
        # shellcheck disable=SC2034 # the sourcing script exits with it
        failed=1
        explain
    fi
}

# Until a command succeeds, for a generous time.
await() {
    local i
    for ((i = 0; i < 300; i++)); do
        ! "$@" || return 0
        sleep 0.1
    done
    return 1
}

# Ten ports that no other test of this machine uses: the lock of the file belongs to this script and
# to its children. The kernel gives ports from 32768 on to clients, and udmon_fixture.h uses 30000 and
# more.
reserve_ports() {
    local locks=${TMPDIR:-/tmp}/openglex-test-ports.$UID block
    mkdir -p "$locks"
    for ((block = $$ % 2000;; block = (block + 1) % 2000)); do
        exec {port_lock}>"$locks/$block"
        ! flock -n "$port_lock" || break
        exec {port_lock}>&-
    done
    port=$((10000 + block * 10))
}

# A directory with a secret in it, ports, and processes that end with the script.
begin() {
    top=${abs_top_builddir:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}
    bin=${UDMON_BIN:-$top/src/udmon}
    dir=$(mktemp -d)
    failed=0
    reserve_ports
    declare -gA running=()
    umask 077
    echo "something nobody guesses" >"$dir/secret"
    trap finish EXIT
}

# Those of our processes that run, each between blanks. The number of one that has ended may be another
# one's by now: with many tests at once that takes less than a minute.
ours() {
    local pids
    pids=$(jobs -pr)
    echo " ${pids//$'\n'/ } "
}

finish() {
    [[ $BASHPID -eq $$ ]] || exit # a child of ours was killed before it had become a program
    # shellcheck disable=SC2046 # a word for each
    kill $(ours) 2>/dev/null
    wait
    rm -rf "$dir"
    exit "$failed"
}

# launch NAME COMMAND...: `running` has its id, and what it says is in NAME.log
launch() {
    local name=$1
    shift
    "$@" <&0 >>"$dir/$name.out" 2>>"$dir/$name.log" &
    running[$name]=$!
}

# stop NAME...: by SIGTERM; returns the status of the last one
stop() {
    local name status=0
    for name; do
        [[ $(ours) != *" ${running[$name]} "* ]] || kill "${running[$name]}"
    done
    for name; do
        wait "${running[$name]}"
        status=$?
        unset "running[$name]"
    done
    return $status
}

# stop_all BEGINNING: those whose name begins so
stop_all() {
    local name names=()
    for name in "${!running[@]}"; do
        [[ $name != "$1"* ]] || names+=("$name")
    done
    stop "${names[@]}"
}

# slay NAME: by SIGKILL, of which bash would tell
slay() {
    { kill -9 "${running[$1]}" && wait "${running[$1]}"; } 2>/dev/null
    unset "running[$1]"
}

# Where collector N listens, and where it serves HTTP.
address() {
    echo "127.0.0.1:$((port + 2 * $1))"
}

web() {
    echo "127.0.0.1:$((port + 2 * $1 + 1))"
}

# collector N [OPTION...]
collector() {
    launch "collector$1" "$bin/udmon-collector" -l "tcp://$(address "$1")" -w "$(web "$1")" \
        -d "$dir/history$1.db" -s "$dir/secret" "${@:2}"
}

# sensors TYPE=SECONDS...: lines of an agent's configuration
sensors() {
    local sensor
    for sensor; do
        printf '[sensor-%s]\ntype = %s\ninterval = %s\nto = out\n' "${sensor%=*}" "${sensor%=*}" \
            "${sensor#*=}"
    done
}

# agent NAME LINE...: as its configuration says, which is on standard input and followed by a node
# that sends. LINEs are of that: its name is NAME if they give it no other, and it has the usual secret
# if they name none and no certificates.
agent() {
    local name=$1 lines
    shift
    lines=$(printf '%s\n' "$@")
    [[ $lines = *'name = '* ]] || lines+=$'\n'"name = $name"
    [[ $lines = *'secret = '* || $lines = *'ca = '* ]] || lines+=$'\n'"secret = $dir/secret"
    { cat && printf '[out]\ntype = send\n%s\n' "$lines"; } >"$dir/$name.conf"
    launch "$name" "$bin/udmon-agent" -c "$dir/$name.conf"
}

# get N PATH [OPTION...]: from collector N, who has $patience seconds
get() {
    curl -s -g -m "${patience:-20}" "${@:3}" "http://$(web "$1")$2"
}

# value N METRIC [NODE]: of collector N; without a node the sum of all; nothing if there is none
value() {
    get "$1" /metrics | awk -v name="$2${3:+{node=\"$3\"\}}" '
        $1 == name || index($1, name "{") == 1 { sum += $2; any = 1 } END { if (any) print sum }'
}

# has N METRIC [NODE]: whatever its value is
has() {
    [[ -n $(value "$@") ]]
}

# is N METRIC VALUE [NODE]
is() {
    local found
    found=$(value "$1" "$2" "${4:-}")
    [[ -n $found && $found -eq $3 ]]
}

# at_least N METRIC VALUE [NODE]
at_least() {
    local found
    found=$(value "$1" "$2" "${4:-}")
    [[ -n $found && $found -ge $3 ]]
}

# grows N METRIC BY: in a generous time
grows() {
    local before
    before=$(value "$1" "$2")
    await at_least "$1" "$2" $((${before:-0} + $3))
}

# made LOG...: samples that these agents say they have made in all
made() {
    sed -n 's/.*: \([0-9]*\) samples in all.*/\1/p' "$@" | awk '{ sum += $1 } END { print sum }'
}
